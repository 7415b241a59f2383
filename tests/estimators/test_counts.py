"""Histograms and modes: counts have no bias, bins their names, and every level a chance."""

import numpy as np
import pandas as pd
import pytest

import privstats as ps

DOMAIN = {"x": (0, 4), "k": (0, 9), "g": ["a", "b", "c"]}


def frame(n=600):
    g = np.array(list("abc"))[np.minimum(np.arange(n) % 4, 2)]
    return pd.DataFrame({"x": np.linspace(0, 4, n), "k": np.arange(n) % 5 % 4, "g": g})


@pytest.mark.parametrize(("mech", "price"), [("laplace", {"eps": 5.0}), ("gaussian", {"mu": 5.0})])
def test_counts_have_no_bias_and_their_intervals_hold(mech, price):
    truth = np.histogram(frame()["x"], 4)[0]
    fits = [ps.dp_hist("x", frame(), **price, mech=mech, bins=4, domain=DOMAIN, rng=seed) for seed in range(60)]
    errors = np.array([fit.params - truth for fit in fits])
    sd = fits[0].bse.to_numpy()
    np.testing.assert_array_less(np.abs(errors.mean(axis=0)), 4 * sd / np.sqrt(60))
    np.testing.assert_allclose(errors.std(), sd.mean(), rtol=0.3)
    held = [(fit.conf_int()[0] <= truth) & (truth <= fit.conf_int()[1]) for fit in fits[:20]]
    assert np.mean(held) > 0.85
    assert (fits[0].privacy_share == 1).all()


@pytest.mark.parametrize("by", ["", " ~ g"])
def test_densities_are_those_of_numpy_group_by_group(by):
    data, edges = frame(), [-1, 1, 1.5, 4]
    fit = ps.dp_hist(f"x{by}", data, 1e7, bins=edges, density=True, domain=DOMAIN, rng=1)
    parts = [data["x"]] if not by else [part["x"] for _, part in data.groupby("g")]
    truth = np.concatenate([np.histogram(part, edges, density=True)[0] for part in parts])
    np.testing.assert_allclose(fit.params, truth, atol=1e-5)
    share = truth * np.tile(np.diff(edges), len(parts))
    n = np.repeat([len(part) for part in parts], 3)
    np.testing.assert_allclose(
        fit.bse, np.sqrt(share * (1 - share) / n) / np.tile(np.diff(edges), len(parts)), rtol=1e-3
    )


def test_levels_are_bins_and_need_no_other():
    fit = ps.dp_hist("g", frame(), 1e7, domain=DOMAIN, rng=1)
    assert list(fit.params.index) == [("g", "a"), ("g", "b"), ("g", "c")]
    np.testing.assert_allclose(fit.params, frame()["g"].value_counts().sort_index(), atol=1e-3)
    assert fit.t_test("g[a] = g[b]").effect[0] == pytest.approx(0, abs=1e-3)
    shares = ps.dp_hist("g", frame(), 1e7, density=True, domain=DOMAIN, rng=1)
    assert shares.params.sum() == pytest.approx(1)


def test_the_last_bin_is_closed_and_names_say_so():
    fit = ps.dp_hist("k", frame(), 1e7, bins=[0, 1, 2, 3, 9], domain=DOMAIN, rng=1)
    assert list(fit.params.index.get_level_values("component")) == ["[0, 1)", "[1, 2)", "[2, 3)", "[3, 9]"]
    np.testing.assert_allclose(fit.params, np.histogram(frame()["k"], [0, 1, 2, 3, 9])[0], atol=1e-3)
    assert "k in [0, 1)" in str(fit.summary())
    assert fit.t_test("k in [0, 1) = k in [1, 2)").effect[0] == pytest.approx(120, abs=1e-3)


def test_narrow_bins_have_names_of_their_own():
    fit = ps.dp_hist("x", frame(), 1.0, bins=[0, 1, 1 + 1e-7, 1 + 2e-7, 4], domain=DOMAIN, rng=1)
    assert fit.params.index.is_unique
    fit.conf_int()


def test_edges_are_bounds_of_a_column_without_any():
    ledger = ps.Ledger(ps.PureDP(5.0))
    data = pd.concat([frame()] * 20, ignore_index=True)
    fit = ps.dp_hist("x", data, 5.0, bins=[-2, 0, 2], domain={}, ledger=ledger, rng=1)
    assert "bought" not in str(fit.summary()) and "range" not in str([release.name for release in fit.releases])
    assert ledger.spent().eps == pytest.approx(5.0, rel=1e-3)
    outer = data["x"].clip(-2, 2)  # values beyond the edges lie in the outermost bins
    np.testing.assert_allclose(fit.params, np.histogram(outer, [-2, 0, 2])[0], atol=10)
    mode = ps.dp_mode("x", data, 5.0, bins=[-2, 0, 2], domain={}, rng=1)
    assert mode.params["x"] == 1
    with pytest.raises(ps.DomainError, match="needs bounds"):
        ps.dp_mode("x", data, 5.0, grid=1, domain={}, ledger=ps.Ledger(ps.PureDP(5.0)))
    with pytest.raises(ps.DomainError, match="do not cover"):  # what is declared holds
        ps.dp_hist("x", data, 5.0, bins=[-2, 0, 2], domain=DOMAIN)


@pytest.mark.parametrize("mech", ["permute_and_flip", "expmech", "duff"])
def test_a_mode_is_a_level_a_number_or_the_middle_of_a_bin(mech):
    data = frame()
    assert ps.dp_mode("g", data, 5.0, mech=mech, domain=DOMAIN, rng=1).params.to_dict() == {"g": "c"}
    assert ps.dp_mode("k", data, 5.0, mech=mech, grid=1, domain=DOMAIN, rng=1).params["k"] == data["k"].mode()[0]
    bins = ps.dp_mode("k", data, 5.0, mech=mech, bins=[0, 0.5, 4, 9], domain=DOMAIN, rng=1)
    assert bins.params["k"] == 2.25
    fit = ps.dp_mode(
        "k ~ g", data.assign(k=data["g"].map({"a": 1, "b": 7, "c": 4})), 9.0, mech=mech, grid=1, domain=DOMAIN
    )
    assert fit.params.to_dict() == {("k", "a"): 1, ("k", "b"): 7, ("k", "c"): 4}
    assert fit.conf_int().isna().all(axis=None)
    assert "none is known to be valid for a mode" in str(fit.summary())


def test_with_hardly_a_budget_every_level_may_be_the_mode():
    found = {ps.dp_mode("g", frame(), 1e-4, domain=DOMAIN, rng=seed).params["g"] for seed in range(40)}
    assert found == {"a", "b", "c"}


@pytest.mark.parametrize(("verb", "formula", "options"), [("mode", "k ~ g", {"grid": 1}), ("hist", "x", {"bins": 4})])
def test_a_plan_prints_and_is_what_the_fit_then_does(verb, formula, options):
    planned = ps.plan(verb, formula, 600, 1.0, domain=DOMAIN, **options)
    assert "counts" in str(planned) and "eps = 1" in str(planned)
    fit = getattr(ps, f"dp_{verb}")(formula, frame(), 1.0, domain=DOMAIN, **options)
    assert [release.event for release in fit.releases] == [mechanism.event for mechanism in planned.mechanisms]
    if verb == "hist":
        np.testing.assert_allclose(planned.expected()["std_error"], fit.bse, rtol=1e-6)
