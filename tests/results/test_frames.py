"""Series and frames: their columns, their labels, and where they are NaN."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.errors import OptionError
from privstats.inference.error_law import critical
from privstats.inference.estimate import Allowance, NormalEstimate
from privstats.inference.tables import PointEstimate
from privstats.privacy.promise import ApproxDP, GaussianDP, Neighbors, PureDP
from privstats.results.results import OF_SOME, PUBLIC
from tests.results.fits import (
    LM,
    MEANS,
    PARTLY,
    QUANTILES,
    RQ,
    facts,
    given,
    mean_facts,
    partly_facts,
    quantile_facts,
    results,
    rq_facts,
)

TIDY = ["term", "estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high", "bias_bound"]
TIDY += ["component"]
GLANCE = ["eps", "delta", "mu", "rho", "neighbors", "unit", "nobs", "nobs_used", "method", "cov_type"]
GLANCE += ["noise_to_signal", "sigma", "seeded"]
ZOO = [
    (LM, facts(), []),
    (PARTLY, partly_facts(), []),
    (RQ, rq_facts(), ["tau"]),
    (QUANTILES, quantile_facts(), ["q"]),
    (MEANS, mean_facts(), ["group"]),
]


@pytest.mark.parametrize(("estimate", "fact", "keys"), ZOO)
def test_tidy_and_glance_have_the_same_columns_for_every_model(estimate, fact, keys):
    fit = results(estimate, fact)
    assert list(fit.tidy().columns) == TIDY + keys
    assert list(fit.glance().columns) == GLANCE
    assert len(fit.glance()) == 1
    assert len(fit.tidy()) == len(fit.params)
    for key in keys:
        assert list(fit.tidy()[key]) == list(fit.tidy()["component"])


def test_frames_have_the_names_of_broom_where_they_are_asked_for():
    fit = results(LM)
    R = ["term", "estimate", "std.error", "statistic", "p.value", "conf.low", "conf.high", "bias.bound", "component"]
    assert list(fit.tidy(names="broom").columns) == R
    np.testing.assert_array_equal(fit.tidy(names="broom")["std.error"], fit.bse)
    assert {"nobs", "nobs.used", "cov.type", "sigma"} <= set(fit.glance(names="broom").columns)
    for call in (fit.tidy, fit.glance):
        assert not any("." in name for name in call().columns)
        with pytest.raises(OptionError, match="write names='broom'"):
            call(names="R")


def test_a_notebook_shows_the_summary():
    assert results(LM)._repr_html_() == results(LM).summary().as_html()


def test_tidy_holds_the_numbers_of_the_attributes():
    fit = results(LM)
    frame = fit.tidy(0.1)
    for column, values in {
        "estimate": fit.params,
        "std_error": fit.bse,
        "statistic": fit.tvalues,
        "p_value": fit.pvalues,
        "conf_low": fit.conf_int(0.1)[0],
        "conf_high": fit.conf_int(0.1)[1],
    }.items():
        np.testing.assert_array_equal(frame[column], values)


def test_the_interval_is_that_of_std_error_and_bias_bound():
    plain = NormalEstimate.of(LM.names, np.ones(4), 1e-4 * np.eye(4))
    fit = results(replace(plain, allowances=(Allowance(np.diag([0.0, 0.02, 0.0, 0.0]), 1.0),)))
    frame = fit.tidy()
    np.testing.assert_array_equal(frame["bias_bound"], [0.0, 0.02, 0.0, 0.0])
    half = critical(frame["bias_bound"] / frame["std_error"]) * frame["std_error"]
    np.testing.assert_allclose(frame["conf_high"] - frame["estimate"], half, rtol=1e-3)
    line = "P and interval also allow for clipping; they are wider than std err and z say."
    assert line in str(fit.summary()).splitlines()
    assert line not in str(results(plain).summary())  # the line is printed only if the bias bound is not negligible
    little = replace(plain, allowances=(Allowance(1e-3 * np.eye(4), 1.0),))
    assert line not in str(results(little).summary())
    none = results(PointEstimate(LM.names, np.ones(4), (), {}))
    assert none.tidy()["bias_bound"].isna().all()
    assert results(PARTLY, partly_facts()).tidy()["bias_bound"].isna().sum() == np.isnan(PARTLY.params()).sum()


def test_exponentials_leave_errors_and_tests_as_they_are():
    fit = results(LM)
    plain, moved = fit.tidy(), fit.tidy(exp=True)
    changed = ["estimate", "conf_low", "conf_high"]
    np.testing.assert_array_equal(moved[changed], np.exp(plain[changed]))
    pd.testing.assert_frame_equal(moved.drop(columns=changed), plain.drop(columns=changed))
    np.testing.assert_array_equal(fit.conf_int(0.1, exp=True), np.exp(fit.conf_int(0.1)))


@pytest.mark.parametrize("verb", ["hist", "mode"])
def test_counts_and_modes_have_no_exponentials(verb):
    """`exp=True` is refused for counts and modes; earlier, it only added a sentence on exponentials to summaries."""
    fit = results(MEANS, mean_facts(verb=verb))
    for call in (fit.summary, fit.tidy, fit.conf_int):
        with pytest.raises(OptionError, match=f"leave exp out after dp_{verb}"):
            call(exp=True)


def test_several_tau_or_groups_are_levels_of_the_index_with_their_names():
    fit = results(RQ, rq_facts())
    assert fit.params.index.names == ["term", "tau"]
    assert fit.params["np.log(sqft)", 0.5] == 0.8304
    assert list(fit.params.index.get_level_values("tau")) == [0.1, 0.5, 0.9] * 2
    assert results(MEANS, mean_facts()).bse.index.names == ["term", "group"]
    assert list(results(LM).params.index) == list(LM.names)
    assert fit.cov_params().shape == (6, 6)


def test_two_keys_have_a_component_of_both():
    labels = tuple(("x", g, q) for g in ("a", "b") for q in (0.25, 0.5))
    fit = results(given(tuple("pqrs"), range(4), 1), quantile_facts(keys=("term", "group", "q"), labels=labels))
    frame = fit.tidy()
    assert list(frame.columns) == [*TIDY, "group", "q"]
    assert frame["component"].tolist()[:2] == ["a, 0.25", "a, 0.5"]
    assert fit.names[3] == "x[b, 0.5]"


def test_a_coefficient_that_is_not_identified_is_nan_in_every_frame():
    fit = results(PARTLY, partly_facts())
    lost = [2, 3, 5]
    for values in (
        fit.params,
        fit.bse,
        fit.tvalues,
        fit.pvalues,
        fit.noise_share,
        fit.conf_int()[0],
        fit.conf_int()[1],
    ):
        assert np.flatnonzero(np.isnan(values)).tolist() == lost
    assert np.isnan(fit.cov_params().to_numpy()[lost]).all()
    assert fit.tidy()["estimate"].isna().sum() == 3


def test_numbers_of_rows_are_public_or_released_or_nan():
    assert results(LM).nobs == 20_190
    assert results(LM).nobs_used == 20_159.2
    private = results(LM, facts(rows=None, used=None))
    assert math.isnan(private.nobs) and math.isnan(private.nobs_used)
    assert results(LM, facts(complete=True, used=None)).nobs_used == 20_190


@pytest.mark.parametrize(
    ("promise", "numbers"),
    [
        (PureDP(2), (2, 0, math.nan)),
        (ApproxDP(1, 1e-6), (1, 1e-6, math.nan)),
        (GaussianDP(0.5), (math.nan, math.nan, 0.5)),
    ],
)
def test_glance_shows_the_guarantee_in_numbers(promise, numbers):
    row = results(LM, facts(promise=promise)).glance().iloc[0]
    np.testing.assert_array_equal(row[["eps", "delta", "mu"]].astype(float), numbers)
    assert row["neighbors"] == "replace" and not row["seeded"]


def test_glance_names_the_unit_and_a_seed():
    promise = PureDP(1, Neighbors("add_remove", unit="person_id", rows_per_unit=2))
    row = results(LM, facts(promise=promise, rows=None, seeded=3)).glance().iloc[0]
    assert (row["neighbors"], row["unit"], row["seeded"]) == ("add_remove", "person_id", True)


def test_the_budget_lists_questions_with_share_and_cost():
    budget = results(LM).budget
    assert list(budget.columns) == ["question", "share", "cost"]
    assert budget.iloc[0].tolist() == ["levels", 0.08, "eps = 0.08"]
    assert math.isclose(budget["share"].sum(), 1.0)
    normal = results(LM, facts(promise=ApproxDP(1, 1e-6), accounted=GaussianDP(0.25), budget=(("moments", 1.0),)))
    assert normal.budget["cost"].tolist() == ["mu = 0.25"]
    assert "of mu^2: moments 100%" in str(normal.summary())


def test_the_residual_std_dev_is_in_units_of_the_response():
    fit = results(LM, facts(residual_unit=10.0))
    assert fit.diagnostics == pytest.approx({"noise_to_signal": 0.19, "sigma": 8.1})
    assert fit.glance()["sigma"][0] == pytest.approx(8.1)
    assert "residual std dev 8.10" in str(fit.summary())
    for error, text in ((0.03, "residual std dev 8.10"), (0.25, "residual std dev 8.10 (std err 2.5)")):
        known = replace(LM, diagnostics={**LM.diagnostics, "sigma_std_err": error})
        noisy = results(known, facts(residual_unit=10.0))
        assert noisy.diagnostics["sigma_std_err"] == pytest.approx(10 * error)
        said = " ".join(str(noisy.summary()).split())
        assert text in said and said.count("(std err") == text.count("(std err")


def test_positions_among_levels_are_shown_as_levels():
    levels = ("red", "green", "blue")
    fact = facts(verb="mode", formula="color", levels=(levels,), cov_type=None, title="Private mode")
    fit = results(given(("color",), 2.0, np.nan, np.nan), fact)
    assert fit.params.to_dict() == {"color": "blue"}
    assert "blue" in str(fit.summary()) and "2.0" not in str(fit.summary())
    assert fit.tidy()["estimate"].tolist() == ["blue"]


def test_dir_shows_public_names_and_each_of_them_is_there():
    fit = results(LM)
    assert set(PUBLIC) - OF_SOME <= set(dir(fit)) <= set(PUBLIC)
    assert not [name for name in dir(fit) if name.startswith("_")]
    for name in dir(fit):
        assert hasattr(fit, name)


def test_released_numbers_of_rows_are_no_diagnostics():
    found = {"rows used": 12.0, "rows used sd": 3.0, "noise_to_signal": 0.1}
    assert results(given(("x",), 1.0, 0.1, diagnostics=found)).diagnostics == {"noise_to_signal": 0.1}


def test_glance_with_names_of_broom_has_r_squared_where_it_was_released():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.uniform(0, 1, 500)})
    rows["y"] = rows["x"] + rng.normal(0, 0.2, 500)
    fit = ps.dp_lm("y ~ x", rows, eps=9, domain={"x": (0, 1), "y": (-1, 2)}, mech="suffstats", rng=1)
    (row,) = fit.glance(names="broom").to_dict("records")
    assert row["r.squared"] == fit.rsquared and row["adj.r.squared"] == fit.rsquared_adj
    assert row["df.residual"] == fit.df_resid
    mean = ps.dp_mean("x", rows, eps=1, domain={"x": (0, 1)}, rng=1).glance(names="broom")
    assert mean["r.squared"].isna().all()
