"""Results are valid at every budget: all functions and mechanisms, rows times eps from 10 to 1e5, models with factors.

Rows are drawn from models with known population values. Each estimate that is not NaN has an interval of positive
width, and a positive std error if one is stated. The intervals of all fits of a call have at least their nominal
coverage, up to Monte Carlo error.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import privstats as ps
from tests.conftest import slow

DOMAIN = {"x": (-1, 1), "g": ["a", "b"], "h": list("abcdef"), "e": (-20, 20), "y": (-8, 10), "b": (0, 1), "k": (0, 40)}
RARER = [0.4, 0.3, 0.15, 0.1, 0.04, 0.01]
EFFECT = dict(zip("abcdef", (0.0, 0.5, -0.5, 0.5, 0.0, 1.0), strict=True))
BUDGETS = [(40, 0.25), (100, 1), (1000, 0.3), (500, 1), (1000, 1), (2000, 1), (5000, 1), (20000, 5)]
FEW, MANY = 8, 88  # number of fits per call: about 200 fits in all, and 2,000 in the slow test

LINE = {"Intercept": 1.0, "x": 1.0}
TWO = LINE | {"C(g)[T.b]": EFFECT["b"]}
SIX = LINE | {f"C(h)[T.{level}]": EFFECT[level] for level in "bcdef"}
GROUPS = {f"C(g)[{level}]": 1.0 + EFFECT[level] for level in "ab"}


def moved(truth, by):
    """Return the coefficients of a quantile regression after a shift of the intercept, or of all group constants."""
    return {
        name: value + by * (name == "Intercept" or ("[T." not in name and name != "x")) for name, value in truth.items()
    }


def half(truth):
    return {name: value / 2 for name, value in truth.items()}


def logit(truth):
    return truth | {"Intercept": 0.0}


def orders(*q):
    return {("e", one): norm.ppf(one) for one in q}


CALLS = {  # by call: function, formula, factor that shifts the response, options, and population values
    "least squares": ("lm", "y ~ x + C(g)", "g", {}, TWO),
    "least squares, six levels": ("lm", "y ~ x + C(h)", "h", {}, SIX),
    "least squares of groups": ("lm", "y ~ 0 + C(g)", "g", {}, GROUPS),
    "steps": ("lm", "y ~ x + C(g)", "g", {"mech": "newton"}, TWO),
    "steps, six levels": ("lm", "y ~ x + C(h)", "h", {"mech": "newton"}, SIX),
    "moments, six levels": ("lm", "y ~ x + C(h)", "h", {"mech": "suffstats"}, SIX),
    "Huber": ("lm", "y ~ x + C(g)", "g", {"loss": "huber"}, TWO),
    "K-norm gradient": ("lm", "y ~ x", "", {"mech": "kng"}, LINE),
    "logit": ("glm", "b ~ x + C(g)", "g", {}, logit(TWO)),
    "logit, six levels": ("glm", "b ~ x + C(h)", "h", {}, logit(SIX)),
    "logit by steps": ("glm", "b ~ x + C(g)", "g", {"mech": "newton"}, logit(TWO)),
    "Poisson": ("glm", "k ~ x + C(g)", "g", {"family": "poisson"}, half(TWO)),
    "median regression": ("rq", "y ~ x + C(g)", "g", {}, TWO),
    "median regression by steps": ("rq", "y ~ x + C(g)", "g", {"mech": "newton"}, TWO),
    "median regression, perturbed": ("rq", "y ~ x + C(h)", "h", {"mech": "objpert"}, SIX),
    "outer quantile regression": ("rq", "y ~ x + C(g)", "g", {"tau": 0.9}, moved(TWO, norm.ppf(0.9))),
    "outer quantile by steps": ("rq", "y ~ x", "", {"tau": 0.1, "mech": "newton"}, moved(LINE, norm.ppf(0.1))),
    "means of groups": ("mean", "y ~ g", "g", {}, {("y", level): 1.0 + EFFECT[level] for level in "ab"}),
    "median": ("median", "e", "", {}, {"e": 0.0}),
    "medians of groups": ("median", "e ~ h", "", {}, {("e", level): 0.0 for level in "abcdef"}),
    "quantiles": ("quantile", "e", "", {"q": [0.1, 0.5, 0.9]}, orders(0.1, 0.5, 0.9)),
    "outer quantiles": ("quantile", "e", "", {"q": [0.01, 0.5, 0.99]}, orders(0.01, 0.5, 0.99)),
}


def rows(n, rng, factor):
    """Return n rows from the models; the levels of the column `factor` shift the responses."""
    g, h = rng.choice(list("ab"), n), rng.choice(list("abcdef"), n, p=RARER)
    x, e = rng.uniform(-1, 1, n), rng.normal(size=n)
    eta = x + np.array([EFFECT[level] for level in {"g": g, "h": h}.get(factor, np.full(n, "a"))])
    return pd.DataFrame(
        {
            "x": x,
            "g": g,
            "h": h,
            "e": e.clip(-20, 20),
            "y": (1 + eta + e).clip(-8, 10),
            "b": (rng.uniform(size=n) < 1 / (1 + np.exp(-eta))) * 1.0,
            "k": rng.poisson(np.exp((1 + eta) / 2)).clip(0, 40) * 1.0,
        }
    )


def given_by(name, k):
    """Return intervals, std errors and population values of the numbers that the k-th fit of a call gives."""
    verb, formula, factor, options, truth = CALLS[name]
    n, eps = BUDGETS[k % len(BUDGETS)]
    seed = [20261123, list(CALLS).index(name), k]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the plan warns of wide intervals
        try:
            fit = getattr(ps, f"dp_{verb}")(
                formula, rows(n, np.random.default_rng(seed), factor), eps, domain=DOMAIN, rng=k, **options
            )
        except ps.PrivstatsError:
            return pd.DataFrame()  # this budget is too small, as is known before rows are read
    table = fit.conf_int().astype(float).set_axis(["low", "high"], axis=1)
    table["se"], table["estimate"] = fit.bse.astype(float), fit.params.astype(float)
    table["true"] = [truth[key] for key in table.index]
    return table[table["low"].notna() | table["high"].notna() | table["se"].notna()]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("fits", [FEW, slow(MANY)])
def test_what_is_given_is_true_at_every_budget(name, fits):
    every = [table for table in (given_by(name, k) for k in range(fits)) if len(table)]
    table = pd.concat(every)
    measured = table["se"].notna()  # interval limits of quantiles may be given without std error, with a note
    assert (table.loc[measured, "se"] > 0).all() and np.isfinite(table).loc[measured].all(axis=None)
    assert (table["high"] > table["low"]).all() and table["estimate"].notna().all()
    covers = (table["low"] <= table["true"]) & (table["true"] <= table["high"])
    # the intervals of one fit depend on each other, so the standard error is computed from the number of fits
    assert covers.mean() >= 0.95 - 3 * (0.95 * 0.05 / len(every)) ** 0.5
