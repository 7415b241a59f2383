"""Histograms and modes: counts are unbiased, and densities equal the densities of numpy.

With a tiny budget, every level can be drawn as the mode.
"""

import numpy as np
import pandas as pd
import pytest

import privstats
from privstats.errors import DomainError, OptionError
from privstats.estimators.counts import Histogram, Mode
from privstats.formula.domain import Domain
from privstats.mechanisms import ADDITIVE
from privstats.mechanisms.order.mode import DuffMode, ModeExponential, PermuteAndFlip
from privstats.privacy.promise import GaussianDP, Neighbors, PureDP
from tests.conftest import alike
from tests.estimators.location import Fit, fit

DOMAIN = {"x": (0, 4), "k": (0, 9), "g": ["a", "b", "c"]}
MODES = (PermuteAndFlip(), ModeExponential(), DuffMode())


def frame(n=600):
    g = np.array(list("abc"))[np.minimum(np.arange(n) % 4, 2)]
    return pd.DataFrame({"x": np.linspace(0, 4, n), "k": np.arange(n) % 5 % 4, "g": g})


def bins(many):
    return {"components": tuple(map(str, range(many)))}


@pytest.mark.parametrize(
    ("noise", "promise"), [("l1", PureDP(5.0)), ("linf", PureDP(5.0)), ("gaussian", GaussianDP(5))]
)
def test_counts_have_no_bias_and_their_intervals_hold(noise, promise):
    truth = np.histogram(frame()["x"], 4)[0]
    planned = Fit(Histogram(4, noise=ADDITIVE[noise]), "x", DOMAIN, 600, promise, **bins(4))
    fits = [planned(frame(), seed)[0] for seed in range(60)]
    errors = np.array([estimate.params() - truth for estimate in fits])
    sd = fits[0].bse()
    np.testing.assert_array_less(np.abs(errors.mean(axis=0)), 4 * sd / np.sqrt(60))
    np.testing.assert_allclose(errors.std(), sd.mean(), rtol=0.3)
    ends = [estimate.coefficients()[2:] for estimate in fits[:20]]
    assert np.mean([(low <= truth) & (truth <= high) for low, high in ends]) > 0.85
    np.testing.assert_allclose(fits[0].noise_share(), 1)


@pytest.mark.parametrize("by", ["", " ~ g"])
@pytest.mark.parametrize("complete", [True, False])
def test_densities_are_those_of_numpy_group_by_group(by, complete):
    data, edges = frame(), [-1, 1, 1.5, 4]
    domain = Domain(DOMAIN, complete=complete)
    estimate, releases = fit(Histogram(edges, density=True), f"x{by}", data, domain, 1e7, **bins(3))
    parts = [data["x"]] if not by else [part["x"] for _, part in data.groupby("g")]
    truth = np.concatenate([np.histogram(part, edges, density=True)[0] for part in parts])
    np.testing.assert_allclose(estimate.params(), truth, atol=1e-5)
    n = np.repeat([len(part) for part in parts], 3)
    share = truth * np.tile(np.diff(edges), len(parts))
    np.testing.assert_allclose(
        estimate.bse(), np.sqrt(share * (1 - share) / n + n**-2.0) / np.tile(np.diff(edges), len(parts)), rtol=1e-3
    )
    assert len(releases) == 1
    assert ("rows used" in estimate.diagnostics) == (not complete or bool(by))
    assert estimate.diagnostics.get("rows used", 600) == pytest.approx(600, abs=0.01)


def test_levels_are_bins_and_need_no_other():
    estimate, _ = fit(Histogram(), "g", frame(), DOMAIN, 1e7, components=("a", "b", "c"))
    np.testing.assert_allclose(estimate.params(), frame()["g"].value_counts().sort_index(), atol=1e-3)
    assert estimate.contrast([[1.0, -1.0, 0.0]])[0][0] == pytest.approx(0, abs=1e-3)
    shares, _ = fit(Histogram(density=True), "g", frame(), DOMAIN, 1e7, components=("a", "b", "c"))
    assert shares.params().sum() == pytest.approx(1)
    with pytest.raises(OptionError, match="levels"):
        fit(Histogram(4), "g", frame(), DOMAIN, 1.0)


def test_the_last_bin_is_closed_and_a_single_one_counts_all_rows():
    estimate, _ = fit(Histogram([0, 1, 2, 3, 9]), "k", frame(), DOMAIN, 1e7, **bins(4))
    np.testing.assert_allclose(estimate.params(), np.histogram(frame()["k"], [0, 1, 2, 3, 9])[0], atol=1e-3)
    for complete in (True, False):
        single, _ = fit(Histogram(1), "x", frame(), Domain(DOMAIN, complete=complete), 1e7, **bins(1))
        np.testing.assert_allclose(single.params(), [600], atol=1e-3)


@pytest.mark.parametrize(("options", "error"), [({"density": "yes"}, OptionError), ({"bins": [0, 2]}, DomainError)])
def test_what_is_no_histogram_is_refused(options, error):
    with pytest.raises(error):
        fit(Histogram(**{"bins": 4, **options}), "x", frame(), DOMAIN, 1.0)


@pytest.mark.parametrize("mechanism", MODES, ids=lambda mechanism: mechanism.label)
def test_a_mode_is_the_position_of_a_level_a_number_or_the_middle_of_a_bin(mechanism):
    data = frame()
    assert fit(Mode(mechanism=mechanism), "g", data, DOMAIN, 5.0)[0].params().tolist() == [2.0]
    on_grid = fit(Mode(grid=1, mechanism=mechanism), "k", data, DOMAIN, 5.0)[0]
    assert on_grid.params()[0] == data["k"].mode()[0]
    declared = fit(Mode(mechanism=mechanism), "k", data, {"k": range(10)}, 5.0)[0]
    assert declared.params()[0] == data["k"].mode()[0]
    assert fit(Mode([0, 0.5, 4, 9], mechanism=mechanism), "k", data, DOMAIN, 5.0)[0].params()[0] == 2.25
    by_group = data.assign(k=data["g"].map({"a": 1, "b": 7, "c": 4}))
    estimate, releases = fit(Mode(grid=1, mechanism=mechanism), "k ~ g", by_group, DOMAIN, 9.0)
    assert estimate.params().tolist() == [1, 7, 4]
    assert np.isnan(estimate.bse()).all() and [note.key for note in estimate.notes] == ["mode"]
    assert len(releases) == 1


def test_with_hardly_a_budget_every_level_may_be_the_mode():
    planned = Fit(Mode(), "g", DOMAIN, 600, PureDP(1e-4))
    assert {planned(frame(), seed)[0].params()[0] for seed in range(40)} == {0.0, 1.0, 2.0}


@pytest.mark.parametrize("estimator", [Histogram(4), Mode(4)], ids=["hist", "mode"])
@pytest.mark.parametrize("relation", [Neighbors(), Neighbors("add_remove"), Neighbors("replace", "who", 2)], ids=str)
def test_rows_that_are_missing_do_not_count_under_any_relation(estimator, relation):
    data = alike(frame(), "who", 3)
    data.loc[::7, "x"] = np.nan
    data.loc[data["x"] > 2, "x"] = 3.9
    components = bins(4) if isinstance(estimator, Histogram) else {}
    estimate, _ = fit(estimator, "x", data, DOMAIN, 1e6, neighbors=relation, **components)
    kept = data if relation.unit is None else data.dropna(subset="x").groupby("who").head(2)
    counts = np.histogram(kept["x"].dropna(), np.linspace(0, 4, 5))[0]
    if isinstance(estimator, Histogram):
        np.testing.assert_allclose(estimate.params(), counts, atol=0.01)
    else:
        assert estimate.params()[0] == 0.5 + counts.argmax()


@pytest.mark.parametrize("expected", [1, 2, 3])
def test_densities_of_bins_with_few_rows_cover(expected):
    """Intervals of densities of bins with 1 to 3 expected rows cover.

    With variances computed from the counts alone, the coverage was .74 to .90.
    """
    n, edges, held = 1000, [0, 50, 90, 100], 0
    shares = np.array([0.6, 0.4 - expected / n, expected / n])
    for seed in range(200):
        rng = np.random.default_rng([7, seed])
        data = pd.DataFrame({"x": np.array([25.0, 70.0, 95.0])[rng.choice(3, n, p=shares)]})
        options = {"bins": edges, "density": True, "neighbors": "add_remove"}
        fit = privstats.dp_hist("x", data, 4.0, domain={"x": (0, 100)}, rng=seed, **options)
        low, high = fit.conf_int().iloc[-1]
        held += low <= shares[-1] / 10 <= high
    assert held >= 200 * 0.95 - 2.6 * np.sqrt(200 * 0.95 * 0.05)
