"""Reduced, seeded version of benchmarks/coverage_location.py: cells (settings) of each kind, and wrong intervals."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from benchmarks.coverage_location import LAWS, TOLERANCE, cell, fitted, interval
from privstats.inference.group_means import GroupMeans
from privstats.numerics import rank_law as ends
from tests.conftest import thinned

REPLICATES = 150


def short_of(coverage, level, replicates=REPLICATES):
    """Return whether a coverage is below a level by more than `TOLERANCE` standard errors."""
    return coverage < level - TOLERANCE * math.sqrt(level * (1 - level) / replicates)


@thinned(3)
@pytest.mark.parametrize(
    ("law", "n", "eps", "verb", "longest"),
    [
        ("normal", 1000, 0.2, "q0.5", 2.4),
        ("exponential", 1000, 1.0, "q0.9", 1.3),
        ("bimodal", 200, 1.0, "q0.5", 1.3),
        ("lognormal", 1000, 1.0, "q0.25", 1.3),
        ("poisson", 1000, 0.2, "q0.25", 2.0),
        ("undeclared", 1000, 1.0, "q0.25", 2.0),
        pytest.param(
            *("exponential", 1000, 1.0, "mean", 3.0),
            marks=pytest.mark.xfail(
                strict=True,
                reason="3.05: a variance that is mostly noise is taken as its mean given that it is positive, which is "
                "longer than mixing over what it may be; it covers",
            ),
        ),
        ("lognormal", 1000, 1.0, "mean", 6.0),
    ],
)
def test_intervals_cover_at_their_level_and_are_no_longer_than_they_must(law, n, eps, verb, longest):
    setting = "private" if verb == "mean" else "public"
    found = cell(law, n, eps, verb, setting, REPLICATES, seed=21)
    assert found.misses(law) == []
    # `ratio`: the median length, which has a Monte Carlo error of a few percent, divided by the length without privacy
    assert found.ratio <= longest
    assert found.nothing == 0


def test_means_whose_variances_are_mostly_noise_cover_and_are_not_much_longer_for_it():
    found = cell("exponential", 1000, 1.0, "mean", "private", 60, seed=21)
    assert found.misses("exponential") == []
    assert found.ratio <= 3.2


def test_a_small_group_that_clipped_scores_would_lose_mostly_has_its_mean_from_sums():
    """The mean of the smallest group is given, from a clipped sum of values.

    With clipped scores, only one of twenty fits gave a mean for this group.
    """
    given, bounds = [], (75_000, 7_700_000)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        g = rng.integers(0, 100, 2000)
        group = np.searchsorted([45, 75, 93], g, side="right")
        price = np.exp(12.5 + np.array([0, 0.3, 0.6, 1.1])[group] + 0.35 * rng.normal(size=2000)).clip(*bounds)
        rows = pd.DataFrame({"g": group, "y": price})
        fit = ps.dp_mean("y ~ g", rows, eps=4.0, domain={"y": bounds, "g": [0, 1, 2, 3]}, rng=seed)
        given.append(fit.conf_int()[0].notna().to_numpy())
    assert (np.mean(given, axis=0) >= [1, 1, 1, 0.8]).all()


@thinned(2)
@pytest.mark.parametrize(
    ("law", "n", "eps", "longest"),
    [("claims", 2000, 2.0, 1.3), ("claims", 5000, 1.0, 1.4), ("spending", 5000, 2.0, 1.3)],
)
def test_means_of_amounts_that_are_mostly_zero_cover(law, n, eps, longest):
    """Intervals of the mean of amounts that are mostly zero cover, and are at most `longest` times the usual length.

    Earlier, clipped scores were preferred if only zeros were visible in the histogram. The coverage in the three cases
    was then .66, .74 and .63.
    """
    found = cell(law, n, eps, "mean", "public", 100, seed=21)
    assert found.misses(law) == []
    assert found.ratio <= longest


@thinned(2)
@pytest.mark.parametrize(
    ("law", "n", "eps", "longest"),
    [
        ("earnings", 1000, 2.0, 1.4),  # with the mean from clipped scores, the coverage was 0.83
        ("lognormal", 1000, 2.0, 2.3),  # with the mean from clipped scores, the coverage was 0.79
        ("normal", 5000, 1.0, 1.18),  # with the mean from clipped scores, the relative length was 1.25
    ],
)
def test_means_are_clipped_only_where_the_spread_that_noise_may_hide_says_so(law, n, eps, longest):
    found = cell(law, n, eps, "mean", "public", 60, seed=1)
    assert not short_of(found.coverage, 0.93, 60)
    assert found.ratio <= longest


@pytest.mark.parametrize("setting", ["public", "missing"])
def test_means_cover_whether_rows_may_be_missing_or_not(setting):
    found = cell("normal", 200, 1.0, "mean", setting, REPLICATES, seed=22)
    assert found.misses("normal") == []


def test_ends_whose_ranks_ignored_the_noise_of_ranks_would_be_caught(monkeypatch):
    monkeypatch.setattr(ends.Ends, "margins", property(lambda self: np.zeros((len(self.levels), 2))))
    found = cell("normal", 1000, 0.1, "q0.5", "public", 600, seed=23)
    assert short_of(found.coverage, 0.93, 600)


def test_ends_whose_ranks_ignored_sampling_error_would_be_caught(monkeypatch):
    def noise_only(n, level, confidence, margin, ends_only):
        return level * n + margin * np.array([-1.0, 1.0] if ends_only else [-1.0, 0.0, 1.0])

    monkeypatch.setattr("privstats.mechanisms.order.rank.box_targets", noise_only)
    found = cell("normal", 1000, 1.0, "q0.5", "public", 100, seed=24)
    assert short_of(found.coverage, 0.93, 100)


def test_ties_on_a_grid_that_was_not_found_would_be_caught(monkeypatch):
    monkeypatch.setattr("privstats.estimators.quantiles.on_grids", lambda ask, columns, grouping: columns)
    found = cell("undeclared", 1000, 1.0, "q0.25", "public", 100, seed=27)
    assert short_of(found.coverage, 0.93, 100)


def test_means_whose_intervals_ignored_the_noise_would_be_caught(monkeypatch):
    def without(kind, *args, **options):
        return replace(honest(kind, *args, **options), noises=())

    honest = GroupMeans.of_sums.__func__
    monkeypatch.setattr(GroupMeans, "of_sums", classmethod(without))
    assert short_of(cell("normal", 1000, 0.2, "mean", "private", 100, seed=25).coverage, 0.93, 100)


@pytest.mark.parametrize("verb", ["q0.5", "q0.9", "mean"])
def test_the_benchmark_looks_at_what_the_public_verbs_return(verb):
    x = LAWS["normal"].draw(np.random.default_rng(26), 1000)
    call = (verb, x, 1.0, "normal", "public", 7)
    seen = [interval(fitted(*call)) for _ in range(2)]
    np.testing.assert_allclose(seen, [fitted(*call).conf_int().to_numpy()[0]] * 2, rtol=1e-12)


SKEWED = {  # by name: function that draws values, mean of the values, and an upper bound far beyond most values
    "spending": (lambda rng, n: rng.lognormal(0.0, 1.0, n), math.exp(0.5), 1000.0),
    "counts": (lambda rng, n: rng.negative_binomial(2, 0.2, n) + 0.0, 8.0, 2000.0),
}


HEAPED = {  # data in which many rows share one value and the other values lie on no grid
    "zeros": (lambda rng, n: np.where(rng.uniform(size=n) < 2 / 3, 0.0, rng.exponential(2.0, n)), (0.0, 60.0)),
    "clamped": (lambda rng, n: rng.normal(50.0, 40.0, n), (0.0, 60.0)),
    "least wage": (lambda rng, n: 7.25 + (rng.uniform(size=n) < 0.6) * rng.exponential(8.0, n), (0.0, 200.0)),
    "in the middle": (
        lambda rng, n: np.where(rng.uniform(size=n) < 0.5, 40.0, rng.normal(38.0, 11.0, n)),
        (0.0, 100.0),
    ),
    "debts": (lambda rng, n: (rng.uniform(size=n) < 0.7) * (1e4 * rng.standard_t(2, n) + 2e3), (-1e6, 1e6)),
}
QUARTILES = (0.25, 0.5, 0.75)


@thinned(6)
@pytest.mark.parametrize(
    ("n", "eps", "q"),
    [
        (1000, 0.5, QUARTILES),
        (1000, 1.0, QUARTILES),
        (300, 1.0, (0.5,)),
        (100, 1.0, (0.5,)),
        (3000, 1.0, (0.1, 0.3, 0.5, 0.7, 0.9)),
    ],
    ids=str,
)
@pytest.mark.parametrize("law", HEAPED)
def test_quantiles_of_columns_with_a_heap_cover_also_at_short_budgets(law, n, eps, q):
    draw, (low, high) = HEAPED[law]
    rng, replicates = np.random.default_rng(31), 50
    truth = np.sort(draw(rng, 1_000_000).clip(low, high))[[int(1e6 * level) for level in q]]
    inside = []
    for k in range(replicates):
        data = pd.DataFrame({"x": draw(rng, n).clip(low, high)})
        ends = ps.dp_quantile("x", data, q=q, eps=eps, domain={"x": (low, high)}, rng=k).conf_int().to_numpy()
        inside.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))  # an interval with limits NaN counts as a miss
    assert not any(short_of(coverage, 0.93, replicates) for coverage in np.mean(inside, axis=0))


def dollars(rng, n):
    """Return incomes in whole dollars, most of which are rounded to 1,000 or 5,000."""
    income, to = rng.lognormal(10.7, 0.8, n), rng.choice([1.0, 1000.0, 5000.0], n, p=[0.2, 0.4, 0.4])
    return (np.round(income / to) * to).clip(0, 300_000)


@thinned(2)
@pytest.mark.parametrize("declared", [(0, 300_000), range(300_001)], ids=["bounds", "whole"])
def test_quantiles_of_rounded_values_cover_on_a_grid_of_very_many_points(declared):
    rng, replicates, q = np.random.default_rng(32), 30, (0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
    truth = np.sort(dollars(rng, 1_000_000))[[int(1e6 * level) for level in q]]
    inside = []
    for k in range(replicates):
        data = pd.DataFrame({"x": dollars(rng, 10_000)})
        ends = ps.dp_quantile("x", data, q=q, mu=0.5, domain={"x": declared}, rng=k).conf_int().to_numpy()
        inside.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))  # an interval with limits NaN counts as a miss
    assert not any(short_of(coverage, 0.93, replicates) for coverage in np.mean(inside, axis=0))


@thinned(2)
@pytest.mark.parametrize("budget", [{"eps": 1.0}, {"mu": 1.0}], ids=str)
@pytest.mark.parametrize("law", SKEWED)
def test_means_of_clipped_values_cover_on_skewed_columns_by_group_and_auto_takes_them(law, budget):
    draw, truth, high = SKEWED[law]
    noise = "laplace" if "eps" in budget else "gaussian"
    rng, n, held, lengths = np.random.default_rng(29), 5000, {}, {}
    domain = ps.Domain({"x": (0, high), "g": list("abcd")}, complete=True)
    for _ in range(25):
        frame = pd.DataFrame({"x": draw(rng, n).clip(0, high), "g": rng.choice(list("aaaabbbccd"), n)})
        for mech in ("clipped", noise, "auto"):
            ends = ps.dp_mean("x ~ g", frame, domain=domain, mech=mech, rng=rng, **budget).conf_int().to_numpy()
            lengths.setdefault(mech, []).append(ends[0, 1] - ends[0, 0])  # length of the interval for the largest group
            inside = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
            held.setdefault(mech, []).extend(inside[~np.isnan(ends[:, 0])].tolist())
    assert len(held["clipped"]) >= 0.6 * 4 * 25
    for mech in ("clipped", "auto"):
        assert not short_of(np.mean(held[mech]), 0.95, len(held[mech])), mech
    length = {mech: np.median(found) for mech, found in lengths.items()}
    assert 1.5 * length["clipped"] < length[noise]
    if noise == "gaussian":  # under eps, the groups of 5,000 rows are too small for clipping, so auto chooses sums
        assert length["auto"] <= 1.3 * length["clipped"]
    assert length["auto"] <= 1.3 * length[noise]


def test_auto_of_means_takes_sums_where_bounds_fit_and_steps_where_they_do_not():
    rng, n = np.random.default_rng(30), 5000
    frame = pd.DataFrame({"even": rng.uniform(0, 1000, n), "skewed": rng.lognormal(1.0, 1.0, n).clip(0, 1000)})
    domain = ps.Domain({"even": (0, 1000), "skewed": (0, 1000)})
    for budget, noise in (({"eps": 1.0}, "laplace"), ({"mu": 0.5}, "gaussian")):
        for column, shorter, longest in (("even", noise, 1.1), ("skewed", "clipped", 1.4)):
            length = {}
            for mech in ("auto", shorter):
                fits = [ps.dp_mean(column, frame, domain=domain, mech=mech, rng=seed, **budget) for seed in range(7)]
                length[mech] = np.median([np.diff(fit.conf_int().to_numpy()[0])[0] for fit in fits])
            assert length["auto"] <= longest * length[shorter], (column, noise, length)
