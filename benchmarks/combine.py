"""Coverage and length of 95 % intervals of combined fits: fits at disjoint sites, and repeated fits to the same rows.

Each site is a sample of one population: y = 1 + .8 x + .3 z + (1 + |x| / 2) e, with normal e, bounded x and z, and
skewed z; b is binary with log odds linear in x; groups have probabilities .5, .3 and .2. True medians and means by
group are computed from 4 million rows.

Targets, for each estimate: if the coverage of single fits is .93 or more, the coverage of combined fits is .93 or more,
up to Monte Carlo error. The median length of combined intervals is at most `LONGEST` times the length for the best
single fit; for five equal sites at the larger budget, the factor is `LENGTH` (1 / sqrt 5 is .447). Bounds on the bias
due to clipping do not average out, and are most of an interval at small budgets. Coverages above .98 are counted.

    python -m benchmarks.combine --seed 1 [--replicates 80] [--only "moments, eps"]
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from tabulate import tabulate

import privstats as ps
from benchmarks.common import arguments, verdict

DOMAIN = ps.Domain({"x": (-1, 1), "z": (0, 10), "y": (-10, 10), "b": [0, 1], "g": ["a", "b", "c"]})
TRUTH = {"y ~ x + z": [1.0, 0.8, 0.3], "b ~ x": [-0.3, 1.0]}
LENGTH = {"default": 0.56, "steps, mu": 0.75, "steps, eps": 0.9, "quantile regression, mu": 0.9, "logit, eps": 0.62}
LENGTH["quantile regression, eps"] = 0.9
LONGEST = 1.05


@dataclass(frozen=True)
class Case:
    """Function, formula and options of a call, and the kind of its budget ("eps" or "mu"), without rows and budget."""

    verb: Callable[..., Any]
    formula: str
    budget: str
    options: dict[str, Any]


CASES = {
    "moments, eps": Case(ps.dp_lm, "y ~ x + z", "eps", {"mech": "suffstats"}),
    "moments, mu": Case(ps.dp_lm, "y ~ x + z", "mu", {"mech": "suffstats"}),
    "steps, eps": Case(ps.dp_lm, "y ~ x + z", "eps", {"mech": "newton"}),
    "steps, mu": Case(ps.dp_lm, "y ~ x + z", "mu", {"mech": "newton"}),
    "logit, eps": Case(ps.dp_glm, "b ~ x", "eps", {}),
    "logit, mu": Case(ps.dp_glm, "b ~ x", "mu", {}),
    "quantile regression, eps": Case(ps.dp_rq, "y ~ x", "eps", {}),
    "quantile regression, mu": Case(ps.dp_rq, "y ~ x", "mu", {}),
    "mean, eps": Case(ps.dp_mean, "z", "eps", {"mech": "laplace"}),
    "mean, mu": Case(ps.dp_mean, "z", "mu", {"mech": "gaussian"}),
    "means by group, eps": Case(ps.dp_mean, "y ~ g", "eps", {}),
    "median, eps": Case(ps.dp_median, "z", "eps", {}),
    "medians by group, mu": Case(ps.dp_median, "z ~ g", "mu", {}),
}
# by scene: number of rows and share of the budget of each fit, and whether all fits have the same rows
SCENES: dict[str, tuple[tuple[int, ...], tuple[float, ...], bool]] = {
    "five equal": ((2000,) * 5, (1.0,) * 5, False),
    "five unequal": ((4000, 2000, 2000, 1000, 1000), (0.5, 1.0, 0.5, 1.0, 0.5), False),
    "two unequal": ((4000, 1000), (0.5, 1.0), False),
    "same, equal": ((3000,), (1.0, 1.0), True),
    "same, unequal": ((3000,), (1.0, 0.5), True),
}
BUDGETS = {"long": 2.0, "short": 0.5}


def draw(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return n rows of the population."""
    x = np.clip(0.6 * rng.standard_normal(n), -1, 1)
    z = np.clip(rng.gamma(2.0, 1.0, n), 0, 10)
    y = 1 + 0.8 * x + 0.3 * z + (1 + np.abs(x) / 2) * rng.standard_normal(n)
    b = (rng.uniform(size=n) < 1 / (1 + np.exp(0.3 - x))).astype(int)
    return pd.DataFrame({"x": x, "z": z, "y": y, "b": b, "g": rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])})


def truth(case: Case) -> np.ndarray:
    """Return the population values of the estimates of a case."""
    if case.formula in TRUTH:
        return np.array(TRUTH[case.formula])
    rows = draw(np.random.default_rng(0), 4_000_000)
    if case.verb is ps.dp_rq:  # no closed form: the coefficients include the median of .3 z + (1 + |x| / 2) e given x
        import statsmodels.api as sm

        some = rows.iloc[:400_000]
        return np.asarray(sm.QuantReg(some["y"], sm.add_constant(some["x"])).fit(q=0.5).params)
    column, _, group = (part.strip() for part in case.formula.partition("~"))
    by = [rows[column]] if not group else [rows[column][rows[group] == level] for level in "abc"]
    return np.array([part.median() if case.verb is ps.dp_median else part.mean() for part in by])


def fits(case: Case, scene: str, size: float, rng: np.random.Generator) -> tuple[list[Any], str]:
    """Return fits to new rows, and the argument `rows` of `ps.combine`.

    `SCENES[scene]` has the numbers of rows and the shares of the budget `size` of the fits.
    """
    sites, parts, same = SCENES[scene]
    frames = [draw(rng, n) for n in sites] * (len(parts) if same else 1)
    made = [
        case.verb(
            case.formula,
            frame,
            domain=DOMAIN,
            rng=int(rng.integers(2**62)),
            **{case.budget: size * part},
            **case.options,
        )
        for frame, part in zip(frames, parts, strict=True)
    ]
    return made, "same" if same else "disjoint"


@dataclass(frozen=True)
class Cell:
    """Coverage of the intervals of combined and of single fits, for each estimate, and length of combined intervals.

    The length is a median, relative to the length of the intervals of the best single fit. `given` is the share of
    estimates for which a combined fit reports an interval, and `differ` the share of replicates in which a note says
    that the estimates of the sites differ.
    """

    covers: np.ndarray
    single: np.ndarray
    ratio: float
    given: float
    differ: float

    def misses(self, name: str, scene: str, budget: str, replicates: int) -> list[str]:
        """Return the targets that are missed."""
        error = 2.5 * math.sqrt(0.93 * 0.07 / replicates)
        poor = (self.covers < 0.93 - error) & (self.single >= 0.93)
        longest = LENGTH.get(name, LENGTH["default"]) if (scene, budget) == ("five equal", "long") else LONGEST
        where = f"{name}, {scene}, {budget}"
        found = (
            [f"{where}: coverage {self.covers.round(3)}, of single fits {self.single.round(3)}"] if poor.any() else []
        )
        return found + ([f"{where}: length {self.ratio:.3f} of the best single fit's"] if self.ratio > longest else [])


def cell(case: Case, wanted: np.ndarray, scene: str, size: float, replicates: int, rng: np.random.Generator) -> Cell:
    """Return results over replicates for one case, one entry of `SCENES`, one budget and the true values `wanted`."""
    hits, single, ratios, differ = [], [], [], 0
    for _ in range(replicates):
        made, rows = fits(case, scene, size, rng)
        both = ps.combine(made, rows=rows)
        ends = [fit.conf_int().to_numpy() for fit in (both, *made)]
        inside = [np.where(np.isnan(end[:, 0]), np.nan, (end[:, 0] <= wanted) & (wanted <= end[:, 1])) for end in ends]
        lengths = np.array([end[:, 1] - end[:, 0] for end in ends])
        hits.append(inside[0])
        single.append(np.array(inside[1:]))
        ratios.append(lengths[0] / np.nanmin(lengths[1:], axis=0))
        differ += any(one.key == "sites differ" for one in both.notes)
    with warnings.catch_warnings():
        # numpy warns of a mean of no numbers if no fit gives an estimate
        warnings.simplefilter("ignore", RuntimeWarning)
        return Cell(
            np.nanmean(hits, axis=0),
            np.nanmean(np.concatenate(single), axis=0),
            float(np.nanmedian(ratios)),
            float(np.mean(~np.isnan(hits))),
            differ / replicates,
        )


def main() -> int:
    """Print coverage and lengths; return 1 if a target is missed."""
    parser = arguments(__doc__, replicates=80)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    given = parser.parse_args()
    rows, missed, over = [], [], 0
    for k, (name, case) in enumerate(CASES.items()):
        if name not in given.only:
            continue
        wanted = truth(case)
        for j, scene in enumerate(SCENES):
            for i, (budget, size) in enumerate(BUDGETS.items()):
                rng = np.random.default_rng([given.seed, k, j, i])
                found = cell(case, wanted, scene, size, given.replicates, rng)
                over += int((found.covers > 0.98).sum())
                missed += found.misses(name, scene, budget, given.replicates)
                covers = [f"{np.nanmin(part):.3f} to {np.nanmax(part):.3f}" for part in (found.covers, found.single)]
                rows.append([name, scene, budget, *covers, found.ratio, found.given, found.differ])
                print(*rows[-1], sep="  ", flush=True)
    head = ["fits", "rows", "budget", "covers", "single fits", "length / best single", "given", "noted to differ"]
    print("\n" + tabulate(rows, head, floatfmt=".3f", tablefmt="github"))
    print(f"\ncoverages above .98: {over}")
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
