"""What each special rule of the engine buys: intervals of the case that it was written for, with it and without.

A rule is switched off by constants at which it never acts. A case is a population of `benchmarks.hard_cases` or
`benchmarks.populations` at a budget. For each rule a line has the least coverage of a coefficient, the median length
over that without privacy, and the share given, with the rule and without.

Target: without the rule coverage of a coefficient falls by .05 or more, or intervals are a tenth longer, or a tenth of
them is not given. A rule that buys nothing in its case is to be deleted, or its case to be found.

    python -m benchmarks.special_rules --seed 1 [--replicates 100] [--names far_bounds]
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common import arguments
from benchmarks.constants import replaced
from benchmarks.hard_cases import CASES, Case
from benchmarks.populations import FOLDER, POPULATIONS, measured

SEEN = 0.25  # share of fits in which a coefficient is given, from which on its coverage counts
COVERED, BOUGHT = 0.05, 0.1  # least loss of coverage, and of length or share given


@dataclass(frozen=True)
class Rule:
    """A special rule.

    Parameters
    ----------
    off : mapping of str to float or tuple
        Values of constants at which it never acts.
    case : str
    promise : mapping of str to float, or str
    n : int, optional
        Rows; by default those of the case.
    """

    off: Mapping[str, Any]
    case: str
    promise: Mapping[str, Any]
    n: int | None = None


RULES = {
    "far_bounds": Rule({"FAR_BOUNDS": 1e9}, "loan_rate", {"mu": 1.0}),
    "residual_squares": Rule({"LITTLE_SEEN": 0.0, "RARE_YES": 0.0}, "rare_yes_5.5", {"eps": 1.0}),
    "missing_squares": Rule({"SUM_SEEN": 0.0}, "rare_yes_5.5", {"eps": 1.0}),
    "squares_of_products": Rule({"PRODUCT_NOISE": 0.0}, "spending", {"eps": 1.0}),
    "ridge_of_rare_levels": Rule({"RARE": 1e9}, "rare_100", {"mu": 1.0}),
    "rare_numbers": Rule({"TWO_ENDED": 10.0}, "rare_ones", {"eps": 4.0}),
    "second_reading": Rule({"UNCLEAR": 0.0}, "flights", {"mu": 1.0}, 2000),
    "scales_again": Rule({"BLURRED": 0.0}, "far_group", {"mu": 0.5}),
    "wide_windows": Rule({"WIDE_WINDOWS": ()}, "saturating", {"eps": 4.0}, 2000),
    "move": Rule({"MOVE": 0.0}, "wealth", {"mu": 1.0}),
    "wide_intervals": Rule({"WIDEST_ETA": 1e9}, "few_amounts", {"eps": 2.0}),
    "few_outcomes": Rule({"FEW_OUTCOMES": 0.0}, "separated", {"mu": 1.0}),
    "rare_counts": Rule({"RARE": 1e9}, "randhie_counts", {"eps": 4.0}, 40_000),
    "curvature_met": Rule({"CURVATURE_SD": 0.0}, "pharmacy_counts", {"mu": 1.0}),
    "far_step": Rule({"UNUSUAL": 1e9}, "counts_40000", {"eps": 2.0, "mech": "newton"}, 4000),
}


class Bought(NamedTuple):
    """What intervals of a case are."""

    covered: float
    length: float
    given: float

    def worse(self, other: Bought) -> bool:
        """Return whether these are worse than others by as much as a rule must buy."""
        return bool(
            self.covered < other.covered - COVERED
            or self.length > (1 + BOUGHT) * other.length
            or self.given < other.given - BOUGHT
        )


def case_of(rule: Rule) -> Case:
    """Return the case of a rule."""
    return CASES.get(rule.case) or Case(POPULATIONS[rule.case])


def bought(rule: Rule, replicates: int, seed: int) -> Bought:
    """Return what intervals of the rule's case are, as the engine stands."""
    case = case_of(rule)
    table = measured(case.population, rule.n or case.n, rule.promise, replicates, seed)
    slopes = table.drop(index="Intercept", errors="ignore")
    seen = slopes[slopes.given > SEEN]
    return Bought(
        float(seen.covered.min()) if len(seen) else np.nan, float(slopes.length.median()), float(slopes.given.mean())
    )


def without(rule: Rule, replicates: int, seed: int) -> Bought:
    """Return what intervals of the rule's case are without it."""
    with replaced(rule.off):
        return bought(rule, replicates, seed)


def main() -> int:
    """Print a line for each rule; return 1 if one buys nothing."""
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
