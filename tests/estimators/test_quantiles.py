"""Medians and quantiles: with large budgets, they equal the quantiles of numpy.

Intervals lie between order statistics and cover. The budget is charged only for queries that are needed.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm

from privstats.errors import OptionError
from privstats.estimators.columns import finest_step
from privstats.estimators.quantiles import (
    ApproximateQuantiles,
    ChosenQuantiles,
    GeometricMedian,
    ProposeTestReleaseQuantiles,
    RankQuantiles,
    orders,
)
from privstats.formula.domain import Domain
from privstats.mechanisms.comparison.duff import DuffQuantile
from privstats.mechanisms.comparison.kng_median import KNGMedian
from privstats.mechanisms.comparison.smooth import SmoothCauchy
from privstats.privacy.promise import Neighbors, PureDP
from tests.conftest import alike, thinned
from tests.estimators.location import Fit, fit

DOMAIN = {"x": (-5, 5), "k": (0, 20), "g": ["a", "b"]}
HUGE = 1e7
ADD_REMOVE = Neighbors("add_remove")
APART = {  # estimators whose intervals come from a second release
    "aq": ApproximateQuantiles,
    "duff": lambda *a, **k: ChosenQuantiles(*a, mechanism=DuffQuantile(), **k),
    "smoothsens": lambda *a, **k: ChosenQuantiles(*a, mechanism=SmoothCauchy(), **k),
    "kng": lambda *a, **k: ChosenQuantiles(*a, mechanism=KNGMedian(), **k),
}
EVERY = {"rank": RankQuantiles, **APART}
every = pytest.mark.parametrize("mech", EVERY)
apart = pytest.mark.parametrize("mech", APART)


def normal(n=1001, seed=3):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n).clip(-5, 5)
    return pd.DataFrame({"x": x, "k": rng.poisson(4, n).clip(0, 20), "g": np.array(["a", "b"])[np.arange(n) % 2]})


def ends(estimate, alpha=0.05):
    return np.column_stack(estimate.coefficients(alpha)[2:])


def keys(estimate):
    return [note.key for note in estimate.notes]


def prices(releases):
    return {release.name: release.keeps.eps for release in releases}


def near(values, q, value, slack=2):
    """Return whether a value lies near the quantile: up to `slack` ranks away, as definitions of quantiles differ."""
    ordered, rank = np.sort(values), q * len(values)
    low, high = max(0, int(rank - slack)), min(len(ordered) - 1, int(rank + slack))
    return ordered[low] - 1e-4 <= value <= ordered[high] + 1e-4


@thinned(5)
@every
@pytest.mark.parametrize("by", ["", " ~ g"])
@pytest.mark.parametrize("relation", [Neighbors(), ADD_REMOVE], ids=str)
def test_the_limit_of_a_large_budget_is_that_of_numpy(mech, by, relation):
    data, q = normal(), (0.25, 0.5, 0.75)
    estimate, _ = fit(EVERY[mech](q), "x" + by, data, DOMAIN, HUGE, neighbors=relation, components=q)
    parts = [data] if not by else [data[data["g"] == level] for level in "ab"]
    for number, (part, order) in enumerate((part, order) for part in parts for order in q):
        assert near(part["x"], order, estimate.params()[number])
    assert (ends(estimate)[:, 0] <= estimate.params()).all() and (estimate.params() <= ends(estimate)[:, 1]).all()


@pytest.mark.parametrize("q", [0.25, 0.5, 0.9])
def test_the_limit_of_an_interval_is_that_of_order_statistics(q):
    data = normal()
    estimate, _ = fit(RankQuantiles(q), "x", data, DOMAIN, HUGE)
    ordered, ranks = np.sort(data["x"]), binom.ppf([0.025, 0.975], len(data), q).astype(int)
    for mine, rank in zip(ends(estimate)[0], ranks, strict=True):
        assert ordered[rank - 3] <= mine <= ordered[rank + 2]


def test_intervals_hold_the_median_of_the_population_as_often_as_they_say():
    planned = Fit(RankQuantiles(), "x", DOMAIN, 400, PureDP(1.0))
    held = 0
    for seed in range(120):
        low, high = ends(planned(normal(400, seed), seed)[0])[0]
        held += low <= 0 <= high
    assert held >= 107  # 114 of 120 intervals are expected to cover; three standard deviations fewer are 107


def test_a_standard_error_is_the_interval_in_normal_quantiles():
    estimate, _ = fit(RankQuantiles(), "x", normal(), DOMAIN, 1.0)
    low, high = ends(estimate)[0]
    assert estimate.bse()[0] == pytest.approx((high - low) / (2 * 1.959964), rel=1e-5)
    assert 0 < estimate.noise_share()[0] < 1


def test_more_confidence_is_longer_released_or_stretched():
    fits = {c: fit(RankQuantiles(confidence=c), "x", normal(), DOMAIN, 1.0)[0] for c in (0.8, 0.99)}
    widths = {c: np.diff(ends(one, 1 - c))[0, 0] for c, one in fits.items()}
    assert widths[0.99] > 1.5 * widths[0.8]
    stretched = np.diff(ends(fits[0.8], 0.01))[0, 0]
    assert 0.5 * widths[0.99] < stretched < 2 * widths[0.99]


@pytest.mark.parametrize("mech", ["rank", "duff", "smoothsens", "kng"])
def test_releases_lie_on_the_declared_grid_and_heavy_ties_are_found(mech):
    data = normal()
    estimate, _ = fit(EVERY[mech](grid={"k": 1}), "k + x", data, DOMAIN, 8.0)
    assert estimate.params()[0] == data["k"].median()
    low, high = ends(estimate)[0]
    assert low <= estimate.params()[0] <= high
    coarse, releases = fit(EVERY[mech](grid=0.5), "x", data, DOMAIN, 8.0)
    assert coarse.params()[0] % 0.5 == 0
    assert not any(release.name.startswith("grid") for release in releases)
    # the domain declares the step of the grid
    stepped, releases = fit(EVERY[mech](), "k", data, {"k": range(0, 21)}, 8.0)
    assert stepped.params()[0] == data["k"].median()
    assert not any(release.name.startswith("grid") for release in releases)


@every
def test_several_quantiles_never_cross_and_are_sorted(mech):
    q = (0.1, 0.5, 0.9)
    for eps in (0.01, 1.0):
        estimate, _ = fit(EVERY[mech]([0.9, 0.1, 0.5]), "x ~ g", normal(501), DOMAIN, eps, components=q, seed=2)
        assert estimate.names[:3] == ("x[a, 0.1]", "x[a, 0.5]", "x[a, 0.9]")
        # a group has no estimates if, because of noise, the group may be empty
        for group in estimate.params().reshape(2, 3):
            assert np.isnan(group).all() if eps < 1 else (np.diff(group) >= 0).all()


@pytest.mark.parametrize("mech", ["rank", "duff"])
@pytest.mark.parametrize("relation", [Neighbors(), ADD_REMOVE], ids=str)
def test_a_budget_too_small_for_an_interval_says_so_with_the_rows_that_are_enough(mech, relation):
    estimate, _ = fit(EVERY[mech](), "x", normal(50), DOMAIN, 0.05, neighbors=relation)
    assert np.isnan(ends(estimate)).all() and np.isnan(estimate.bse()).all()
    (note,) = (note for note in estimate.notes if note.key == "short ends")
    assert note.about == ("x",)
    assert -5 <= estimate.params()[0] <= 5


def test_as_many_times_the_rows_as_the_note_names_are_enough():
    estimate, _ = fit(RankQuantiles(), "x", normal(100), DOMAIN, 0.2)
    (note,) = estimate.notes
    times = float(note.text.split("eps ")[1].split(" times")[0])
    enough, few = (round(100 * t * times) for t in (1.05, 0.9))
    assert not np.isnan(ends(fit(RankQuantiles(), "x", normal(enough), DOMAIN, 0.2)[0])).any()
    assert np.isnan(ends(fit(RankQuantiles(), "x", normal(few), DOMAIN, 0.2)[0])).all()


@pytest.mark.parametrize(
    ("formula", "relation"), [("x", ADD_REMOVE), ("x", Neighbors("replace", "who")), ("x ~ g", Neighbors())], ids=str
)
def test_a_private_number_of_rows_is_released_and_decides_which_intervals_are_given(formula, relation):
    for n, eps, short in ((200, 0.2, True), (4000, 1.0, False)):
        data = normal(n).assign(who=np.arange(n))
        estimate, releases = fit(RankQuantiles(neighbors=relation), formula, data, DOMAIN, eps, neighbors=relation)
        assert np.isnan(ends(estimate)).all() == np.isnan(ends(estimate)).any() == short
        assert (("empty group" if "g" in formula else "short ends") in keys(estimate)) == short
        (rows,) = (release for release in releases if release.name == "rows")
        assert len(rows.value) == (2 if "g" in formula else 1)
        assert estimate.diagnostics["rows used"] == pytest.approx(n, abs=200 / eps)
    _, releases = fit(RankQuantiles(), "x", normal(), DOMAIN, 1.0)
    assert not any(release.name == "rows" for release in releases)


def test_some_intervals_may_be_short_of_rows_and_others_not():
    data = normal(1001)
    data["g"] = np.where(data.index % 25 == 0, "b", "a")
    estimate, _ = fit(RankQuantiles(0.1), "x ~ g", data, DOMAIN, 4.0)
    assert not np.isnan(ends(estimate)[0]).any() and np.isnan(ends(estimate)[1]).all()
    assert [note.about for note in estimate.notes if note.key == "short ends"] == [("x[b]",)]
    assert not np.isnan(estimate.params()).any()
    assert np.isnan(estimate.contrast([[1.0, -1.0]])[4]).all()


@thinned(3)
@every
@pytest.mark.parametrize("eps", [0.5, 4.0])
def test_a_level_that_may_have_no_rows_has_neither_estimate_nor_interval(mech, eps):
    """A level without rows gets neither an estimate nor an interval, and a note names the level.

    Earlier, with .05 of the budget for counts, quantiles of empty groups were drawn, one in ten with an interval.
    """
    levels, given = list("abcdefgh"), 0
    for seed in range(4):
        domain = {**DOMAIN, "g": levels}
        estimate, _ = fit(EVERY[mech](), "x ~ g", normal(4001), domain, eps, seed=seed)
        assert not np.isnan(estimate.params()[:2]).any() and not np.isnan(ends(estimate)[:2]).any()
        given += np.sum(~np.isnan(estimate.params()[2:]))
        assert np.isnan(ends(estimate)[np.isnan(estimate.params())]).all()
        names = {name for one in estimate.notes if one.key == "empty group" for name in one.about}
        assert names == {name for name, value in zip(estimate.names, estimate.params(), strict=True) if np.isnan(value)}
    # at most one of 24 estimates; Laplace noise of a count exceeds three std errors with probability .007
    assert given <= 1


@apart
def test_estimates_of_another_release_have_no_standard_error_but_intervals(mech):
    estimate, _ = fit(EVERY[mech](), "x", normal(), DOMAIN, 2.0)
    assert np.isnan(estimate.bse()).all() and np.isnan(estimate.noise_share()).all()
    assert not np.isnan(ends(estimate)).any() and not np.isnan(estimate.pvalues()).any()
    assert "second release" in keys(estimate)
    together, _ = fit(RankQuantiles(), "x", normal(), DOMAIN, 2.0)
    assert not np.isnan(together.bse()).any() and "second release" not in keys(together)


def test_columns_share_the_budget_and_a_label_has_a_share_of_its_own():
    _, releases = fit(RankQuantiles(), "x + k", normal(), DOMAIN, 1.0)
    expected = {"quantile of x": 0.5, "quantile of k": 0.5, "grid of x": 0.05, "grid of k": 0.05}
    assert prices(releases) == pytest.approx({name: part / 1.1 for name, part in expected.items()}, rel=1e-9)
    planned = Fit(RankQuantiles(), "x + k", DOMAIN, 1001, PureDP(1.0), shares={"quantile of x": 3.0})
    parts = {q.label: q.promise.eps for q in planned.planned}
    assert parts["quantile of x"] / parts["grid of x"] == pytest.approx(3.0 / 0.05)
    assert sum(parts.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(("relation", "steps"), [(Neighbors(), 2), (ADD_REMOVE, 1)], ids=str)
def test_groups_are_one_question_whose_cells_each_keep_the_promise_of_one_step(relation, steps):
    _, releases = fit(RankQuantiles(grid=0.01), "x ~ g", normal(), DOMAIN, 1.0, neighbors=relation)
    (drawn,) = (release for release in releases if release.name == "quantile of x")
    assert drawn.value.shape == (6,)
    assert drawn.keeps.eps == pytest.approx(1 / 1.1)
    assert drawn.law.eps == pytest.approx(drawn.keeps.eps / steps)
    assert sum(prices(releases).values()) == pytest.approx(1.0)


@every
def test_without_inference_nothing_is_paid_for_intervals(mech):
    estimate, releases = fit(EVERY[mech](), "x", normal(), DOMAIN, 8.0, intervals=False)
    assert abs(estimate.params()[0]) < 0.5
    assert np.isnan(ends(estimate)).all() and keys(estimate) == ["no inference"]
    assert {release.name.split(" ")[0] for release in releases} == {"quantile"}


def test_rows_of_one_unit_depend_on_each_other_so_several_of_them_leave_no_interval():
    data = alike(normal(), "who", 3)
    neighbors = Neighbors("replace", "who", 2)
    estimate, _ = fit(RankQuantiles(neighbors=neighbors), "x", data, DOMAIN, HUGE, neighbors=neighbors)
    assert keys(estimate) == ["dependent rows"] and np.isnan(ends(estimate)).all()
    assert near(data.groupby("who").head(2)["x"], 0.5, estimate.params()[0])
    single = Neighbors("replace", "who")
    estimate, _ = fit(RankQuantiles(neighbors=single), "x", data, DOMAIN, HUGE, neighbors=single)
    assert not np.isnan(ends(estimate)).any()


def test_missing_rows_are_left_out_and_those_of_a_complete_column_are_its_middle():
    data = normal()
    data.loc[::2, "x"] = np.nan
    estimate, _ = fit(RankQuantiles(0.9), "x", data, DOMAIN, HUGE)
    assert near(data["x"].dropna(), 0.9, estimate.params()[0])
    complete, _ = fit(RankQuantiles(0.9), "x", data, Domain(DOMAIN, complete=True), HUGE)
    assert near(data["x"].fillna(0.0), 0.9, complete.params()[0])


def test_where_propose_test_release_is_silent_the_interval_is_given():
    estimate, _ = fit(ProposeTestReleaseQuantiles(eta=1e-6), "x", normal(501), DOMAIN, 1.0, delta=1e-9)
    assert np.isnan(estimate.params()).all() and np.isnan(estimate.bse()).all()
    (note,) = (note for note in estimate.notes if note.key == "private test")
    assert note.about == ("x",) and "eta = 1e-06" in note.text
    assert not np.isnan(ends(estimate)).any()


@pytest.mark.parametrize("by", ["", " ~ g"])
def test_a_geometric_median_has_one_number_a_column_and_group(by):
    data = normal()
    estimate, releases = fit(GeometricMedian(), "x + k" + by, data, DOMAIN, 20.0)
    truth = [[data[c].median()] if not by else data.groupby("g")[c].median().tolist() for c in ("x", "k")]
    np.testing.assert_allclose(estimate.params(), np.concatenate(truth), atol=0.6)
    assert len(releases) == 1 and keys(estimate) == ["geometric median"]
    assert np.isnan(ends(estimate)).all()


def test_m_quantiles_take_as_many_rounds_as_m_has_binary_digits_each_over_disjoint_cells():
    q = tuple(np.arange(1, 8) / 8)
    _, releases = fit(ApproximateQuantiles(q), "x", normal(), DOMAIN, 3.0, components=q, intervals=False)
    assert [len(release.value) for release in releases] == [1, 2, 4]
    assert prices(releases) == pytest.approx({f"quantile of x, round {k}": 1.0 for k in (1, 2, 3)})
    assert [release.within.cells for release in releases] == [1, 2, 4]


@pytest.mark.parametrize("q", [0, 1.0, [0.5, 0.5], [], "0.5", True, [0.2, None], float("nan")])
def test_orders_out_of_range_are_refused(q):
    with pytest.raises(OptionError, match="q is"):
        orders(q)


@pytest.mark.parametrize("options", [{"confidence": 0.2}, {"confidence": 1}, {"confidence": "0.9"}])
def test_a_confidence_out_of_range_is_refused(options):
    with pytest.raises(OptionError, match="confidence is"):
        RankQuantiles(**options)


@pytest.mark.parametrize("grid", [0, -1, 40, "1", True, {"z": 1}, 1e-30, float("nan")])
def test_a_grid_that_is_none_is_refused(grid):
    with pytest.raises(OptionError, match="grid"):
        fit(RankQuantiles(grid=grid), "x", normal(), DOMAIN, 1.0)


@thinned(2)
@pytest.mark.parametrize(
    ("n", "eps", "q", "high", "given"),
    [
        (500, 1.0, (0.1, 0.5, 0.9), 1e4, [0.5]),
        (1000, 1.0, (0.01, 0.5, 0.99), 1e5, [0.5]),
        (2000, 0.5, (0.25, 0.5, 0.75), 100.0, [0.25, 0.5, 0.75]),
        (1000, 1.0, (0.1, 0.25, 0.5, 0.75, 0.9), 1e4, None),
    ],
)
def test_numbers_that_roam_the_empty_part_of_the_bounds_do_not_push_the_others(n, eps, q, high, given):
    planned = Fit(RankQuantiles(q), "x", {"x": (0, high)}, n, PureDP(eps), components=q)
    # values are rounded to multiples of `step`
    rng, truth, step = np.random.default_rng(5), np.exp(norm.ppf(q)), finest_step(0, high)
    fits = [ends(planned(pd.DataFrame({"x": np.exp(rng.standard_normal(n))}), seed)[0]) for seed in range(80)]
    low, high = np.moveaxis(np.array(fits), -1, 0)
    told = ~np.isnan(low[0])
    assert told.any() and (given is None or np.array(q)[told].tolist() == given)
    held = ((low - step <= truth) & (truth <= high + step))[:, told].mean(axis=0)
    assert (held >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 80)).all()


def test_a_quantile_without_an_interval_is_drawn_beside_those_that_have_one():
    q = (0.01, 0.5, 0.99)
    estimate, releases = fit(RankQuantiles(q), "x", normal(1000), DOMAIN, 2.0, components=q)
    assert np.isnan(ends(estimate)).all(axis=1).tolist() == [True, False, True]
    assert np.isfinite(estimate.params()).all() and (np.diff(estimate.params()) >= 0).all()
    assert np.isfinite(estimate.bse()).tolist() == [False, True, False]
    alone, _ = fit(RankQuantiles(), "x", normal(1000), DOMAIN, 2.0)
    assert np.diff(ends(estimate)[1]) < 2 * np.diff(ends(alone)[0])
    assert sum(prices(releases).values()) == pytest.approx(2.0)
