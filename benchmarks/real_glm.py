"""Real data by dp_glm and robust dp_lm: distance to the fits of statsmodels, and relative length of intervals.

Extramarital affairs (Fair 1978, logit) and visits to the doctor in the RAND health insurance experiment (Poisson) are
from statsmodels; high wages (logit) and log wages (Huber) in the Current Population Survey need the file of the survey
in PRIVSTATS_DATA. The loaders declare the bounds. The ordinary fit has robust standard errors (HC0, or the standard
errors of RLM).

"distance" is the median over given coefficients and replicates of the distance to the ordinary estimate, in standard
errors of the ordinary estimate. "ratio" is the median over given intervals of the length relative to ordinary
intervals; "intervals" is the share of intervals that are given.

Targets: nine coefficients in ten are given; from eps = 4 or mu = 1 on, nine coefficients in ten have intervals.

    python benchmarks/real_glm.py --seed 1 [--replicates 5] [--data fair ...]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf
from tabulate import tabulate

import privstats as ps
from benchmarks.common import arguments, verdict
from privstats.datasets import Dataset, load_cps, load_fair, load_randhie

PROMISES: dict[str, dict[str, float]] = {
    "eps = 1": {"eps": 1.0},
    "eps = 4": {"eps": 4.0},
    "mu = 0.5": {"mu": 0.5},
    "mu = 1": {"mu": 1.0},
}
DUE = ("eps = 4", "mu = 1")


@dataclass(frozen=True)
class Model:
    """A data set, a private model, and the ordinary model in statsmodels; `response` is the formula's left side."""

    load: Callable[[], Dataset]
    verb: Callable[..., Any]
    response: str
    predictors: str
    ordinary: Callable[[str, pd.DataFrame], Any]
    promises: tuple[str, ...] = tuple(PROMISES)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def formula(self) -> str:
        """The formula of the private model."""
        return f"{self.response} ~ {self.predictors}"


def glm(family: Any) -> Callable[[str, pd.DataFrame], Any]:
    """Return the ordinary fit of a generalised linear model by statsmodels."""
    return lambda formula, data: smf.glm(formula, data, family=family).fit(cov_type="HC0")


def rlm(formula: str, data: pd.DataFrame) -> Any:
    """Return Huber's regression by statsmodels."""
    return smf.rlm(formula, data, M=sm.robust.norms.HuberT()).fit()


MODELS = {
    "fair": Model(
        load_fair,
        ps.dp_glm,
        "I(affairs > 0)",
        "religious + rate_marriage + age + yrs_married",
        glm(sm.families.Binomial()),
    ),
    "randhie": Model(
        load_randhie,
        ps.dp_glm,
        "mdvis",
        "lncoins + idp + lpi + fmde + physlm + disea + hlthg + hlthf + hlthp",
        glm(sm.families.Poisson()),
        ("mu = 0.5", "mu = 1"),
        {"family": "poisson"},
    ),
    "cps": Model(
        load_cps,
        ps.dp_glm,
        "I(log_wage > 11)",
        "educ_years + experience + female",
        glm(sm.families.Binomial()),
    ),
    "cps huber": Model(
        load_cps,
        ps.dp_lm,
        "log_wage",
        "educ_years + experience + female",
        rlm,
        ("mu = 0.5", "mu = 1"),
        {"loss": "huber"},
    ),
}


def measured(model: Model, replicates: int, seed: int) -> dict[str, tuple[float, float, float, bool]]:
    """Return distance, ratio and share of intervals for each budget, and whether nine estimates in ten are given."""
    data, domain = model.load()
    named = data.assign(response=data.eval(model.response.removeprefix("I(").removesuffix(")")).astype(float))
    theirs = model.ordinary(f"response ~ {' + '.join(_coded(model.predictors, domain))}", named)
    length = theirs.conf_int()[1].to_numpy() - theirs.conf_int()[0].to_numpy()
    rng, found = np.random.default_rng(seed), {}
    for promise in model.promises:
        fits = [
            model.verb(model.formula, data, domain=domain, rng=rng, **PROMISES[promise], **model.options)
            for _ in range(replicates)
        ]
        apart = np.array([fit.params.to_numpy() - theirs.params.to_numpy() for fit in fits])
        far = np.abs(apart) / theirs.bse.to_numpy()
        ratios = np.array([fit.conf_int()[1] - fit.conf_int()[0] for fit in fits]) / length
        given = ratios[np.isfinite(ratios)]
        ratio = float(np.median(given)) if len(given) else np.nan
        found[promise] = float(np.nanmedian(far)), ratio, len(given) / ratios.size, bool(np.isfinite(far).mean() >= 0.9)
    return found


def _coded(predictors: str, domain: ps.Domain) -> list[str]:
    """Return the terms for patsy, which has no domain: a column g with declared levels is written "C(g)"."""
    return [f"C({term})" if isinstance(domain[term], ps.Levels) else term for term in predictors.split(" + ")]


def main() -> int:
    """Print the tables and return the exit status."""
    parser = arguments(__doc__, replicates=5)
    parser.add_argument("--data", nargs="*", default=list(MODELS), choices=list(MODELS))
    options = parser.parse_args()
    print(f"{options.replicates} replicates, seed {options.seed}")
    missed = []
    for name in options.data:
        print(f"\n{name}: {MODELS[name].formula}")
        try:
            found = measured(MODELS[name], options.replicates, options.seed)
        except FileNotFoundError as absent:
            print(f"skipped: {absent}")
            continue
        rows = [
            (promise, f"{distance:.3g}", f"{ratio:.3g}", f"{given:.0%}")
            for promise, (distance, ratio, given, _) in found.items()
        ]
        print(tabulate(rows, ("promise", "distance", "ratio", "intervals"), disable_numparse=True))
        missed += [f"{name}, {promise}: not given" for promise, cell in found.items() if not cell[3]]
        missed += [
            f"{name}, {promise}: intervals of {found[promise][2]:.0%}"
            for promise in DUE
            if promise in found and found[promise][2] < 0.9
        ]
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
