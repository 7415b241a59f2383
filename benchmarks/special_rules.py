"""Effect of each special rule of the estimators: intervals with and without the rule, in one case for each rule.

A special rule is a part of an estimator that was added for a hard case. A rule is switched off by values of constants
at which it never acts, or by a function without effect in place of its own function. A case is a population of
`benchmarks.hard_cases` or `benchmarks.populations` at a budget. The script prints for each rule the lowest coverage of
a coefficient, the median length relative to the length without privacy, and the share of coefficients given, with the
rule and without it.

Target: without the rule the coverage of a coefficient falls by .05 or more, or intervals are a tenth longer, or the
share given falls by a tenth. A rule without effect in its case should be deleted, or get another case.

    python -m benchmarks.special_rules --seed 1 [--replicates 100] [--names far_bounds]
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from benchmarks.common import arguments
from benchmarks.constants import replaced
from benchmarks.hard_cases import CASES, Case
from benchmarks.populations import FOLDER, POPULATIONS, measured
from privstats.inference.estimate import NumericColumns

SEEN = 0.25  # a coefficient's coverage is compared if it has an interval in more than this share of the fits
COVERED, BOUGHT = 0.05, 0.1  # least effect of a rule on coverage, and on length or share given


@dataclass(frozen=True)
class Rule:
    """A special rule of the estimators, its case, and how it is switched off.

    Parameters
    ----------
    case : str
        Name of the case of the rule.
    promise : mapping of str to float, or str
        Budget, and further arguments of the call.
    n : int, optional
        Number of rows; by default the number of rows of the case.
    off : mapping of str to float or tuple
        Values of constants at which the rule never acts.
    idle : mapping of str to callable
        Names of functions of `privstats`, and functions without effect that replace them.
    """

    case: str
    promise: Mapping[str, Any]
    n: int | None = None
    off: Mapping[str, Any] = field(default_factory=dict)
    idle: Mapping[str, Callable[..., Any]] = field(default_factory=dict)


NO_RIDGE = {
    "estimators.levels.ridge_of_rare": lambda box, *_: np.zeros((box.c, box.c)),
    "estimators.preconditioner.rare_shares": lambda shares, longest: np.zeros_like(shares),
}
AS_CODED = dict.fromkeys(
    ("estimators.adaptive.white_levels", "estimators.beginning.white_levels"),
    lambda box, frame, levels: (np.eye(box.c), levels.ridge),
)


RULES = {
    "far_bounds": Rule("loan_rate", {"mu": 1.0}, off={"FAR_BOUNDS": 1e9}),
    "one_sided": Rule("house_prices", {"eps": 1.0}, off={"FEW_COORDINATES": 0}),
    "residual_squares": Rule(
        "rare_yes_5.5", {"eps": 1.0, "mech": "objpert"}, off={"LITTLE_SEEN": 0.0, "RARE_YES": 0.0}
    ),
    "missing_squares": Rule("rare_yes_5.5", {"eps": 1.0, "mech": "objpert"}, off={"SUM_SEEN": 0.0}),
    "squares_of_products": Rule(
        "spending",
        {"eps": 1.0},
        idle={"estimators.adaptive.with_squares_of_products": lambda ask, by, box, frame, known, *_: known},
    ),
    "intercept_of_levels": Rule(
        "wages_by_region", {"eps": 1.0}, idle={"formula.design.Design.with_intercept": lambda design: design}
    ),
    "ridge_of_rare_levels": Rule("rare_100", {"mu": 1.0}, idle=NO_RIDGE),
    "white_levels": Rule("even_levels", {"eps": 1.0, "mech": "objpert"}, idle=AS_CODED),
    "rare_levels_of_steps": Rule("taxi_payment", {"mu": 1.0}, idle=NO_RIDGE),
    "hidden_constants": Rule(
        "crash_logit",
        {"mu": 0.5},
        idle={"estimators.likelihood.LikelihoodStep.without_hidden_levels": lambda step, equation: (equation, ())},
    ),
    "cubes": Rule(
        "cubic",
        {"eps": 2.0},
        idle={
            "models.regression.Carrying.minimises_squares": lambda public, by, design: not public.is_ample(by, design)
        },
    ),
    "rare_values": Rule("rare_ones", {"eps": 1.0}, off={"RARE_NUMBER": -1e9}),
    "rare_numbers": Rule("rare_ones", {"eps": 4.0}, off={"TWO_ENDED": 10.0}),
    "second_reading": Rule(
        "flights",
        {"mu": 1.0},
        2000,
        idle={"estimators.one_step.Problem.whitened_again": lambda problem, share_of: problem},
    ),
    "scales_again": Rule(
        "far_group", {"mu": 0.5}, idle={"estimators.beginning.reread_scales": lambda ask, by, box, frame, *_: frame}
    ),
    "wide_windows": Rule("saturating", {"eps": 4.0}, 2000, off={"WIDE_WINDOWS": ()}),
    "move": Rule("wealth", {"mu": 1.0}, off={"MOVE": 0.0}),
    "wide_intervals": Rule("few_amounts", {"eps": 1.0}, 200, off={"WIDEST_ETA": 1e9}),
    "few_outcomes": Rule("separated", {"mu": 1.0}, off={"FEW_OUTCOMES": 0.0}),
    "rare_counts": Rule("randhie_counts", {"eps": 8.0}, 20_000, idle=NO_RIDGE),
    "curvature_met": Rule(
        "pharmacy_counts",
        {"mu": 2.0},
        idle={"estimators.likelihood.NewtonSteps.secant_corrected": lambda self, last, metric, score, noise: score},
    ),
    "hidden_columns": Rule(
        "hidden_cause_300", {"mu": 1.0}, idle={"estimators.one_step.NumericColumns.of": lambda design: NumericColumns()}
    ),
    "far_step": Rule("counts_40000", {"eps": 2.0, "mech": "newton"}, 4000, off={"UNUSUAL": 1e9}),
}


class Bought(NamedTuple):
    """Lowest coverage, median relative length and share given of the intervals in a case."""

    covered: float
    length: float
    given: float

    def worse(self, other: Bought) -> bool:
        """Return whether these intervals are worse than `other` by more than the least effect of a rule."""
        return bool(
            self.covered < other.covered - COVERED
            or self.length > (1 + BOUGHT) * other.length
            or self.given < other.given - BOUGHT
        )


def case_of(rule: Rule) -> Case:
    """Return the case of a rule."""
    return CASES.get(rule.case) or Case(POPULATIONS[rule.case])


def bought(rule: Rule, replicates: int, seed: int) -> Bought:
    """Return coverage and length of intervals, and the share of coefficients with an interval, in a rule's case.

    Rows are drawn from the population of the case.
    """
    case = case_of(rule)
    table = measured(case.population, rule.n or case.n, rule.promise, replicates, seed)
    slopes = table.drop(index="Intercept", errors="ignore")
    seen = slopes[slopes.given > SEEN]
    return Bought(
        float(seen.covered.min()) if len(seen) else np.nan, float(slopes.length.median()), float(slopes.given.mean())
    )


def without(rule: Rule, replicates: int, seed: int) -> Bought:
    """Return coverage, length and share given in the case of a rule, without the rule."""
    with ExitStack() as changes:
        changes.enter_context(replaced(rule.off))
        for name, nothing in rule.idle.items():
            changes.enter_context(patch(f"privstats.{name}", nothing))
        return bought(rule, replicates, seed)


def main() -> int:
    """Print a line for each rule; return 1 if a rule has no effect."""
    parser = arguments(__doc__, replicates=100)
    parser.add_argument("--names", nargs="*", default=list(RULES), choices=list(RULES))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    idle = 0
    print("rule: case, budget: least coverage / length / given with it | without")
    for name in given.names:
        rule = RULES[name]
        source: Any = case_of(rule).population.source
        if isinstance(source, str) and not (FOLDER / source).exists():
            print(f"{name} skipped: {FOLDER / source} is not there")
            continue
        here, there = bought(rule, given.replicates, given.seed), without(rule, given.replicates, given.seed)
        said = "" if there.worse(here) else " BUYS NOTHING"
        idle += bool(said)
        budget = ", ".join(f"{key} = {value}" for key, value in rule.promise.items())
        shown = (f"{one.covered:.2f} / {one.length:.2f} / {one.given:.2f}" for one in (here, there))
        print(f"{name}: {rule.case}, {budget}: {' | '.join(shown)}{said}", flush=True)
    return int(idle > 0)


if __name__ == "__main__":
    sys.exit(main())
