"""Average marginal effects equal statsmodels', their intervals cover, and the contribution of each row is bounded."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy.special import expit

import privstats as ps
from privstats.estimators.likelihood import LikelihoodSteps
from privstats.estimators.marginal_effects import dummies_of
from privstats.estimators.objective_perturbation import PerturbedLikelihood
from privstats.formula.design import bind_regression
from privstats.losses.families import Gamma, Logit, Poisson, Probit
from privstats.losses.marginal_effects import EffectParts
from tests.conftest import thinned
from tests.estimators.conversation import fit_of

DOMAIN = {"x": (-1, 3), "z": (0, 5), "g": ["a", "b", "c"], "y": (0, 1), "k": (0, 30)}
N = 4000


def rows_of(seed, n=N):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"x": rng.uniform(-1, 3, n), "z": rng.uniform(0, 5, n), "g": rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])}
    )
    eta = -0.4 + 0.5 * frame.x - 0.2 * frame.z + 0.6 * (frame.g == "b") - 0.5 * (frame.g == "c")
    frame["y"] = (rng.uniform(size=n) < expit(eta)).astype(int)
    frame["k"] = np.minimum(rng.poisson(np.exp(eta + 0.5)), 30)
    return frame


def without_privacy(frame, formula, mean):
    """Return average marginal effects without privacy, by name.

    The effect of a number is a mean difference quotient. The effect of a level is the mean change from the reference
    level.
    """
    at = {level: mean(frame.assign(g=level)).mean() for level in "abc"}
    step = 1e-5
    slopes = {name: (mean(frame.assign(**{name: frame[name] + step})) - mean(frame)).mean() / step for name in "xz"}
    return {"C(g)[T.b]": at["b"] - at["a"], "C(g)[T.c]": at["c"] - at["a"], **slopes}


@pytest.mark.parametrize("budget", [{"eps": 1e4}, {"mu": 1e3}])
def test_with_a_large_budget_slopes_and_std_errors_are_those_of_statsmodels(budget):
    frame = rows_of(1)
    fit = ps.dp_glm("y ~ x + z", frame, domain=DOMAIN, margins=True, rng=1, **budget)
    expected = smf.logit("y ~ x + z", frame).fit(disp=0, cov_type="HC1").get_margeff()
    effects = fit.get_margeff()
    np.testing.assert_allclose(effects.margeff, expected.margeff, rtol=0.01)
    np.testing.assert_allclose(effects.margeff_se, expected.margeff_se, rtol=0.15)
    assert list(effects.summary_frame().index) == ["x", "z"]


@pytest.mark.parametrize(("response", "family", "model"), [("y", "binomial", smf.logit), ("k", "poisson", smf.poisson)])
def test_dummies_go_from_the_reference_to_their_level(response, family, model):
    frame = rows_of(2)
    formula = f"{response} ~ x + z + C(g)"
    fit = ps.dp_glm(formula, frame, mu=500, family=family, domain=DOMAIN, margins=True, rng=1)
    expected = without_privacy(frame, formula, model(formula, frame).fit(disp=0).predict)
    found = fit.get_margeff().summary_frame()["dy/dx"]
    np.testing.assert_allclose(found, [expected[name] for name in found.index], rtol=0.03)


@thinned(2)
@pytest.mark.parametrize(
    ("estimator", "budget"),
    [(PerturbedLikelihood(margins=True), {"eps": 2.0}), (LikelihoodSteps(margins=True), {"mu": 1.0})],
    ids=["eps", "mu"],
)
def test_intervals_contain_the_effects_of_the_population(estimator, budget):
    big = rows_of(99, 200_000)
    eta = -0.4 + 0.5 * big.x - 0.2 * big.z + 0.6 * (big.g == "b") - 0.5 * (big.g == "c")
    truth = np.array([0.5, -0.2]) * (expit(eta) * expit(-eta)).mean()
    fit = fit_of("y ~ x + z + C(g)", DOMAIN, N, by=estimator, family=Logit(), **budget)
    to_units = fit.public.design.to_original(response=False)
    inside, repeats = np.zeros(2), 30
    for seed in range(repeats):
        effects = fit(rows_of(seed), seed)[0].mapped(*to_units).margins.estimate
        assert effects.names[-2:] == ("x", "z")
        _, _, low, high = (part[-2:] for part in effects.coefficients())
        inside += (low <= truth) & (truth <= high)
    # of 30 intervals with coverage .95, fewer than 25 cover with a probability of only 0.3 %
    assert (inside >= repeats - 5).all()


def test_an_effect_is_not_given_where_the_level_or_the_reference_is_too_rare():
    frame = rows_of(3)
    rare = frame[(frame.g != "c") | (np.arange(N) < 60)]
    effects = ps.dp_glm("y ~ x + C(g)", rare, eps=2, domain=DOMAIN, margins=True, rng=1).get_margeff().summary_frame()
    assert np.isnan(effects.loc["C(g)[T.c]"]).all()
    assert effects.loc[["C(g)[T.b]", "x"]].notna().all(axis=None)
    lone = frame[(frame.g != "a") | (np.arange(N) < 40)]
    effects = ps.dp_glm("y ~ x + C(g)", lone, eps=2, domain=DOMAIN, margins=True, rng=1).get_margeff().summary_frame()
    assert effects.filter(like="C(g)", axis=0).isna().all(axis=None)
    assert effects.loc["x"].notna().all()


def test_they_are_refused_where_there_are_none():
    frame = rows_of(4, 300)
    for formula, more, said in (
        ("y ~ 1", {}, "the formula has none"),
        ("y ~ x", {"inference": "none"}, "come with intervals"),
        ("y ~ x", {"margins": 1}, "write margins=True"),
    ):
        with pytest.raises(ps.OptionError, match=said):
            ps.dp_glm(formula, frame, eps=1, domain=DOMAIN, **{"margins": True, **more})
    with pytest.raises(ps.PrivstatsError, match="margins=True"):
        ps.dp_glm("y ~ x", frame, eps=1, domain=DOMAIN, rng=1).get_margeff()


@pytest.mark.parametrize("family", [Logit(), Probit(), Poisson(30.0), Gamma(30.0)])
def test_parts_lie_in_the_box_by_themselves_and_each_row_has_its_own(family):
    design = bind_regression("y ~ x + z + C(g)", DOMAIN, family=Logit())
    theta = np.r_[-0.3, 0.6, -0.5, 0.8, -0.7, 0.0][: len(design.names) + 1]
    groups = tuple(group for group, _ in dummies_of(design))
    row = EffectParts(theta, len(design.names), family, groups, (-2.9, 2.3))
    frame = rows_of(5, 500)
    parts = row(design.block(frame))
    assert parts.shape == (500, len(row.sizes))
    assert np.abs(parts).max() <= 1 + 1e-12
    assert (np.abs(parts).max(axis=0) > 0.01).all()  # in some row, each part of the effects exceeds 1 % of its bound
    for i in (0, 17, 400):  # the parts of a row in a block of its own have the same bits
        np.testing.assert_array_equal(row(design.block(frame.iloc[[i]]))[0], parts[i])


def test_derivatives_of_the_parts_are_those_of_finite_differences():
    design = bind_regression("y ~ x + z + C(g)", DOMAIN, family=Logit())
    c, groups = len(design.names), tuple(group for group, _ in dummies_of(design))
    block = design.block(rows_of(6, 50))
    theta = np.r_[-0.3, 0.6, -0.5, 0.8, -0.7, 0.0]

    def whole(at):
        row = EffectParts(at, c, Logit(), groups, (-2.9, 2.3))
        return row(block) * row.sizes

    base, step = whole(theta), 1e-6
    starts = [1, *(2 + c + (1 + c) * k for k in range(2))]
    for j in range(c):
        moved = (whole(theta + step * np.eye(c + 1)[j]) - base) / step
        for start in starts:
            np.testing.assert_allclose(base[:, start + 1 + j], moved[:, start], atol=1e-5)


def test_effects_on_counts_are_about_as_precise_as_coefficients_whatever_the_bound_of_the_response():
    rng = np.random.default_rng(8)
    x = rng.uniform(-1, 1, 10_000)
    counts = pd.DataFrame({"x": x, "y": np.minimum(rng.poisson(np.exp(0.5 + 0.5 * x)), 500)})
    fit = ps.dp_glm("y ~ x", counts, eps=2, domain={"x": (-1, 1), "y": (0, 500)}, family="poisson", margins=True, rng=1)
    (effect,), (coefficient,) = np.diff(np.asarray(fit.get_margeff().conf_int())), np.diff(fit.conf_int().loc[["x"]])
    # the ratio of lengths would be 30 if rows' contributions to the effect were scaled by the response's bound
    assert effect[0] < 1.3 * coefficient[0] * counts["y"].mean()


def test_effects_on_probabilities_do_not_depend_on_far_bounds_of_a_predictor():
    rng = np.random.default_rng(9)
    x = rng.standard_normal(20_000)
    rows = pd.DataFrame({"x": x, "y": (rng.random(20_000) < 1 / (1 + np.exp(-x))).astype(int)})
    fit = ps.dp_glm("y ~ x", rows, mu=8, domain={"x": (-1000, 1000), "y": [0, 1]}, margins=True, rng=1)
    low, high = np.asarray(fit.get_margeff().conf_int())[0]
    # the interval would be half as long if the large contributions of rows to the effect were clipped
    assert low <= 0.2066 <= high and high - low < 0.02
