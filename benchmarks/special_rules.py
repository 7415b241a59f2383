"""What each special rule of the engine buys: intervals of the case that it was written for, with it and without.

A rule is switched off by constants at which it never acts. A case is a population of `benchmarks.hard_cases` or
`benchmarks.populations` at a budget. For each rule a line has the least coverage of a coefficient, the median length
over that without privacy, and the share given, with the rule and without.

Target: without the rule coverage of a coefficient falls by .1 or more, or intervals are a tenth longer, or a tenth of
them is not given. A rule that buys nothing in its case is to be deleted, or its case to be found.

    python -m benchmarks.special_rules --seed 1 [--replicates 40] [--names far_bounds]
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
BOUGHT = 0.1


@dataclass(frozen=True)
class Rule:
    """A special rule.

    Parameters
    ----------
    off : mapping of str to float
        Values of constants at which it never acts.
    case : str
    promise : mapping of str to float
    n : int, optional
        Rows; by default those of the case.
    """

    off: Mapping[str, float]
    case: str
    promise: Mapping[str, float]
    n: int | None = None


RULES: dict[str, Rule] = {}


class Bought(NamedTuple):
    """What intervals of a case are."""

    covered: float
    length: float
    given: float

    def worse(self, other: Bought) -> bool:
        """Return whether these are worse than others by as much as a rule must buy."""
        return bool(
            self.covered < other.covered - BOUGHT
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
    parser = arguments(__doc__, replicates=40)
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
        budget = ", ".join(f"{key} = {value:g}" for key, value in rule.promise.items())
        shown = (f"{one.covered:.2f} / {one.length:.2f} / {one.given:.2f}" for one in (here, there))
        print(f"{name}: {rule.case}, {budget}: {' | '.join(shown)}{said}", flush=True)
    return int(idle > 0)


if __name__ == "__main__":
    sys.exit(main())
