"""Means with large budgets equal the means of statsmodels; contrasts of columns allow for any dependence."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.weightstats import DescrStatsW

import privstats as ps
from privstats.errors import FormulaError
from privstats.estimators.means import ChosenMeans, Means
from privstats.formula.domain import Domain
from privstats.mechanisms import ADDITIVE
from privstats.privacy.promise import GaussianDP, Neighbors, PureDP
from tests.conftest import alike
from tests.estimators.location import Fit, fit

DOMAIN = {"x": (-5, 5), "z": (0, 20), "g": ["a", "b"]}
HUGE = 1e8
NOISES = ("l1", "l2", "linf", "gaussian")
noises = pytest.mark.parametrize("noise", NOISES)


def normal(n=501, seed=3):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n).clip(-5, 5)
    return pd.DataFrame({"x": x, "z": rng.gamma(2, 2, n).clip(0, 20), "g": np.array(["a", "b"])[np.arange(n) % 2]})


def price(noise, eps):
    return {"mu": eps} if noise == "gaussian" else {"eps": eps}


def ends(estimate, alpha=0.05):
    return np.column_stack(estimate.coefficients(alpha)[2:])


@noises
@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("relation", [Neighbors(), Neighbors("add_remove")], ids=str)
def test_the_limit_of_an_interval_is_that_of_statsmodels(noise, complete, relation):
    data, domain = normal(30), Domain(DOMAIN, complete=complete)
    estimate, _ = fit(Means(ADDITIVE[noise]), "x + z", data, domain, **price(noise, 1e5), neighbors=relation)
    for j, column in enumerate(("x", "z")):
        truth = DescrStatsW(data[column])
        assert estimate.params()[j] == pytest.approx(truth.mean, abs=1e-2)
        assert estimate.bse()[j] == pytest.approx(truth.std_mean, rel=1e-2)
        np.testing.assert_allclose(ends(estimate)[j], truth.tconfint_mean(), atol=0.05 * truth.std_mean)
        p = estimate.contrast(np.eye(2)[[j]], q=1.0)[4][0]
        assert p == pytest.approx(truth.ttest_mean(1)[1], abs=0.02)


def test_the_limit_by_group_and_its_contrasts():
    data = normal()
    estimate, releases = fit(Means(), "x + z ~ g", data, DOMAIN, HUGE)
    truth = [data.groupby("g")[column].agg(["mean", "sem"]) for column in ("x", "z")]
    np.testing.assert_allclose(estimate.params(), np.concatenate([t["mean"] for t in truth]), atol=1e-4)
    np.testing.assert_allclose(estimate.bse(), np.concatenate([t["sem"] for t in truth]), rtol=1e-3)
    sem = truth[0]["sem"]
    assert estimate.contrast([[1.0, -1.0, 0.0, 0.0]])[1][0] == pytest.approx(np.hypot(*sem), rel=1e-3)
    assert len(releases) == 1 and releases[0].value.shape == (10,)
    np.testing.assert_allclose(estimate.rows, [251, 250] * 2, atol=1e-3)


@pytest.mark.parametrize("complete", [True, False])
def test_the_spread_of_a_single_column_is_given_and_the_number_of_rows_where_it_was_released(complete):
    data = normal()
    estimate, _ = fit(Means(), "x", data, Domain(DOMAIN, complete=complete), HUGE)
    assert estimate.diagnostics["sigma"] == pytest.approx(data["x"].std(), rel=1e-4)
    assert ("rows used" in estimate.diagnostics) != complete
    if not complete:
        assert estimate.diagnostics["rows used"] == pytest.approx(501, abs=1e-3)
    assert "sigma" not in fit(Means(), "x + z", data, DOMAIN, HUGE)[0].diagnostics


def test_contrasts_of_columns_allow_for_any_dependence_and_their_covariance_is_unknown():
    x = np.random.default_rng(0).standard_normal(2000).clip(-5, 5)
    estimate, _ = fit(Means(), "x + z", pd.DataFrame({"x": x, "z": -x}), {"x": (-5, 5), "z": (-5, 5)}, HUGE)
    _, _, low, high, _ = estimate.contrast([[1.0, -1.0]])
    assert (high - low)[0] / 2 >= 0.99 * 1.96 * (2 * x).std() / np.sqrt(2000)
    assert np.isnan(estimate.covariance()[0, 1])


@noises
def test_of_a_group_without_rows_nothing_is_claimed(noise):
    empty = 0
    for seed in range(5):
        data = normal(500, seed).assign(g="a")
        estimate, _ = fit(Means(ADDITIVE[noise]), "x ~ g", data, DOMAIN, **price(noise, 1.0), seed=seed)
        empty += np.isnan(estimate.params()[1])
        if np.isnan(estimate.params()[1]):
            (note,) = estimate.notes
            assert note.key == "empty group" and note.about == ("x[b]",)
        assert not np.isnan(estimate.params()[0])
    assert empty >= 4


@pytest.mark.parametrize(("noise", "by"), [("l1", ""), ("linf", " ~ g"), ("gaussian", " ~ g")])
def test_intervals_hold_the_mean_of_the_population_as_often_as_they_say(noise, by):
    promise = GaussianDP(0.5) if noise == "gaussian" else PureDP(0.5)
    planned, held, draws = Fit(Means(ADDITIVE[noise]), "x" + by, DOMAIN, 300, promise), 0, 80
    for seed in range(draws):
        low, high = ends(planned(normal(300, seed), seed)[0])[0]
        held += low <= 0 <= high
    assert held >= 0.95 * draws - 3 * np.sqrt(draws * 0.95 * 0.05)


def test_without_inference_squares_are_not_asked_and_numbers_have_less_noise():
    full, releases = fit(Means(ADDITIVE["l1"]), "x", normal(), DOMAIN, 1.0)
    bare, fewer = fit(Means(ADDITIVE["l1"]), "x", normal(), DOMAIN, 1.0, intervals=False)
    assert len(releases[0].value) == 3 and len(fewer[0].value) == 2
    assert [note.key for note in bare.notes] == ["no inference"]
    assert np.isnan(bare.bse()).all() and bare.params()[0] == pytest.approx(full.params()[0], abs=0.5)


def test_several_rows_of_a_unit_leave_no_interval():
    neighbors = Neighbors("replace", "who", 2)
    data = alike(normal(), "who", 3)
    estimate, _ = fit(Means(neighbors=neighbors), "x", data, DOMAIN, HUGE, neighbors=neighbors)
    assert [note.key for note in estimate.notes] == ["dependent rows"]
    assert estimate.params()[0] == pytest.approx(data.groupby("who").head(2)["x"].mean(), abs=1e-4)


def test_values_beyond_the_bounds_are_clamped():
    data = normal()
    estimate, _ = fit(Means(), "z", data, {"z": (0, 3)}, HUGE)
    assert estimate.params()[0] == pytest.approx(data["z"].clip(0, 3).mean(), abs=1e-4)


@pytest.mark.parametrize("by", ["", " ~ g"])
def test_chosen_means_are_near_and_have_no_interval(by):
    data = normal(4000)
    estimate, releases = fit(ChosenMeans(), "x + z" + by, data, DOMAIN, 4.0)
    truth = [[data[c].mean()] if not by else data.groupby("g")[c].mean().tolist() for c in ("x", "z")]
    np.testing.assert_allclose(estimate.params(), np.concatenate(truth), atol=0.1)
    assert [note.key for note in estimate.notes] == ["other mechanism"]
    assert [release.name for release in releases] == ["mean of x", "mean of z"]


def test_means_of_clipped_values_take_one_column_and_say_so_before_the_charge():
    ledger, data = ps.Ledger(ps.GaussianDP(1.0)), normal()
    with pytest.raises(FormulaError, match="one column at a time"):
        ps.dp_mean("x + z ~ g", data, mu=1.0, mech="clipped", domain=DOMAIN, ledger=ledger)
    assert ledger.entries.empty


def test_the_limit_of_clipped_means_is_that_of_statsmodels_in_the_same_units():
    data = normal(3001)
    fit = ps.dp_mean("x", data, mu=1e3, mech="clipped", domain=DOMAIN, rng=1)
    truth = DescrStatsW(data["x"])
    assert fit.params["x"] == pytest.approx(truth.mean, abs=1e-2)
    # the std error allows for a tail of values that may be hidden by the noise of the histogram
    assert truth.std_mean < fit.bse["x"] < 1.1 * truth.std_mean
    assert fit.glance()["sigma"].item() == pytest.approx(truth.std, rel=0.1)
