"""Every function with every algorithm and every budget: the calls for which general properties are tested."""

from typing import Any, NamedTuple

import pytest

import privstats as ps

EPS, MU, RHO, BOTH = {"eps": 1.0}, {"mu": 1.0}, {"rho": 0.5}, {"eps": 1.0, "delta": 1e-6}
DOMAIN = {"y": (0, 100), "x": (0, 100), "z": (0, 10), "g": ["a", "b"], "b": bool, "w": (0, 2), "count": (0, 60)}


class Call(NamedTuple):
    """A call of a public function without its data: its formula, the budgets to be tested, and its options."""

    verb: str
    formula: str
    budgets: tuple[dict[str, float], ...]
    options: dict[str, Any]

    @property
    def generous(self):
        """Thirty times the call's first budget; the noise is then too small to hide the results."""
        return {name: value if name == "delta" else 30 * value for name, value in self.budgets[0].items()}

    def __call__(self, data, budget=None, **more):
        """Call the public function on the data, by default with the first of the budgets."""
        price = {} if {"eps", "mu", "rho"} & set(more) else self.budgets[0] if budget is None else budget
        arguments = {"domain": DOMAIN, **price, **self.options, **more}
        return getattr(ps, f"dp_{self.verb}")(self.formula, data, **arguments)


def call(verb, formula, *budgets, **options):
    return Call(verb, formula, budgets, options)


DESCENTS = {"lm ngd": "ngd", "lm noisy newton": "noisy_newton"}
REPLACED = {*DESCENTS, "lm sgd", "logit ngd", "logit sgd"}  # calls that are refused if neighbours add or remove rows
ROWS_APART = {"lm huber objpert", *REPLACED}  # calls whose options are refused if rows belong to units
NOISES = ("hull", "linf", "l1", "l2")
LM = {
    "lm": call("lm", "y ~ x + g", EPS, MU, BOTH),
    "lm by level": call("lm", "y ~ x * g", EPS, MU),
    "lm huber": call("lm", "y ~ x + g", MU, EPS, BOTH, loss="huber"),
    "lm huber objpert": call("lm", "y ~ x + g", EPS, loss="huber", mech="objpert"),
    **{name: call("lm", "y ~ x + g", MU, BOTH, loss="huber", mech=mech, steps=5) for name, mech in DESCENTS.items()},
    "lm sgd": call("lm", "y ~ x + g", BOTH, loss="huber", mech="sgd", steps=5),
    "lm newton": call("lm", "y ~ x + g", MU, EPS, BOTH, mech="newton"),
    "lm collinear": call("lm", "y ~ x + I(x + z / 50)", MU, EPS, mech="newton"),
    "lm suffstats": call("lm", "y ~ x + g", EPS, MU, RHO, BOTH, mech="suffstats"),
    **{f"lm {noise}": call("lm", "y ~ x + z", EPS, mech="suffstats", noise=noise) for noise in NOISES},
    **{f"lm {mech}": call("lm", "y ~ x + g", EPS, mech=mech) for mech in ("kng", "objpert", "expmech")},
    "lm objpert in the box": call("lm", "y ~ x + g", EPS, mech="objpert", theta_bound=2.0),
    "lm weights": call("lm", "y ~ x + g", EPS, MU, weights="w"),
    "lm cells": call("lm", "y ~ 0 + g:b + x", EPS, MU),
    "lm number": call("lm", "y ~ x + b + z", EPS, MU, domain={**DOMAIN, "b": (0, 1)}),
    "lm subset": call("lm", "y ~ x", EPS, MU, subset="z > 2"),
    "lm nonrobust": call("lm", "y ~ x", MU, EPS, cov_type="nonrobust"),
    "lm no intervals": call("lm", "y ~ x", MU, EPS, inference="none"),
    "lm ridge": call("lm", "y ~ x", EPS, MU, mech="suffstats", ridge=5.0),
}  # fmt: skip
GLM = {
    "logit": call("glm", "g ~ x", EPS, MU, BOTH),
    "logit objpert": call("glm", "g ~ x + b", EPS, MU, RHO, BOTH, mech="objpert"),
    "logit newton": call("glm", "b ~ x + g", MU, BOTH, mech="newton"),
    "logit ngd": call("glm", "b ~ x + g", MU, BOTH, mech="ngd", steps=5),
    "logit sgd": call("glm", "b ~ x + g", BOTH, mech="sgd", steps=5),
    "poisson number": call("glm", "count ~ x + b", EPS, MU, family="poisson", domain={**DOMAIN, "b": (0, 1)}),
    "logit margins": call("glm", "b ~ x + g", MU, EPS, margins=True),
    "probit": call("glm", "g ~ x", MU, BOTH, link="probit"),
    "poisson": call("glm", "count ~ x + g", MU, BOTH, family="poisson", offset="x / 100"),
    "poisson eps": call("glm", "count ~ x + g", EPS, family="poisson", offset="x / 100"),
    "poisson margins": call("glm", "count ~ x + g", MU, EPS, family="poisson", margins=True),
    "gamma": call("glm", "y ~ x", MU, BOTH, family="gamma"),
    "gamma eps": call("glm", "y ~ x + g", EPS, family="gamma"),
    "gaussian": call("glm", "y ~ x", EPS, MU, family="gaussian"),
}
RQ = {
    "rq": call("rq", "y ~ x + g", EPS, MU, BOTH),
    "rq newton": call("rq", "y ~ x + g", MU, RHO, BOTH, mech="newton"),
    "rq objpert": call("rq", "y ~ x + g", EPS, MU, mech="objpert"),
    "rq weights": call("rq", "y ~ x + g", MU, EPS, weights="w"),
    "rq number": call("rq", "y ~ x + b", EPS, MU, domain={**DOMAIN, "b": (0, 1)}, weights="w"),
    "rq cells": call("rq", "y ~ 0 + g + x", MU, EPS, tau=[0.25, 0.5]),
    "rq several": call("rq", "y ~ x", MU, EPS, tau=[0.25, 0.5]),
}
SMOOTH = ("laplace", "laplaceln", "gaussian")
LOCATION = {
    "median": call("median", "x", EPS, MU, BOTH),
    "median by group": call("median", "x + np.log1p(z) ~ g", EPS, MU, BOTH),
    "median duff": call("median", "x", EPS, MU, BOTH, mech="duff"),
    "median kng": call("median", "x", EPS, MU, BOTH, mech="kng"),
    "median cauchy": call("median", "x ~ g", EPS, MU, BOTH, mech="smoothsens"),
    **{f"median {noise}": call("median", "x", BOTH, mech="smoothsens", noise=noise) for noise in SMOOTH},
    "median ptr": call("median", "x", BOTH, mech="ptr", eta=5.0),
    "point": call("median", "x + z", EPS, MU, BOTH, geometric=True),
    "quantiles": call("quantile", "x", EPS, MU, BOTH, q=[0.1, 0.5, 0.9]),
    "quantiles by group": call("quantile", "x ~ g", EPS, MU, RHO, q=[0.2, 0.7]),
    "quantiles duff": call("quantile", "x ~ g", EPS, MU, q=[0.3, 0.6], mech="duff"),
    "quantiles on a grid": call("quantile", "x", EPS, MU, q=[0.4, 0.6], mech="kng", grid=0.5),
    "mean": call("mean", "x + z", EPS, MU, BOTH),
    "mean by group": call("mean", "x ~ g", EPS, MU, RHO, BOTH),
    "mean clipped": call("mean", "x", MU, EPS, BOTH, mech="clipped"),
    "mean clipped by group": call("mean", "x ~ g", MU, EPS, mech="clipped"),
    "mean duff": call("mean", "x", EPS, MU, BOTH, mech="duff"),
    **{f"mean {noise}": call("mean", "x + z ~ g", EPS, mech="knorm", noise=noise) for noise in ("l1", "l2", "linf")},
    "mode": call("mode", "g", EPS, MU, RHO, BOTH),
    "mode by group": call("mode", "x ~ g", EPS, MU, BOTH, bins=5),
    "mode expmech": call("mode", "b", EPS, MU, mech="expmech"),
    "mode duff": call("mode", "g", EPS, MU, mech="duff"),
    "hist": call("hist", "x", EPS, MU, BOTH, bins=[0, 10, 50, 100]),
    "hist of levels": call("hist", "g", EPS, MU, RHO, BOTH),
    "density by group": call("hist", "x ~ g", EPS, MU, BOTH, bins=4, density=True),
    **{f"hist {noise}": call("hist", "x", EPS, bins=4, mech="knorm", noise=noise) for noise in ("l1", "l2", "linf")},
}  # fmt: skip
CALLS = {**LM, **GLM, **RQ, **LOCATION}
REGRESSIONS = {**LM, **GLM, **RQ}
# each call with each budget; regressions under (eps, delta) are planned twice, so most of these regressions are slow
PRICED = [
    pytest.param(
        name,
        k,
        id=f"{name}, {'+'.join(one.budgets[k])}",
        marks=[pytest.mark.slow] if name in REGRESSIONS and name != "lm" and one.budgets[k] == BOTH else [],
    )
    for name, one in CALLS.items()
    for k in range(len(one.budgets))
]
