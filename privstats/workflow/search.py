"""The smallest budget, or number of rows, that makes an interval narrow enough, in few plans."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from privstats.workflow.forecast import smallest
from privstats.workflow.progress import ProgressLine, shown_on

WITHIN = 0.01  # of the number that is found: with less by this part it would not do
AIM, NEARLY = 0.003, 0.0045  # distance to the expected root of what is tried; at which a number above it is near enough
SPACED = 0.1  # logarithm of two numbers between which the slope of the rough widths is taken
SLOPES = 0.02, 8.0  # how steeply, at least and at most, a logarithm of a width is taken to fall
PARTS = (1 - WITHIN,)
TRIES = 8  # plans before the search starts anew
COARSE = 3e-3  # logarithm of how near the root of rough widths is found


class Tries:
    """Whatever is tried, each number once, with a line on a terminal that says so.

    Parameters
    ----------
    excess : callable
        Of a number: how many times as wide as wanted an interval is; NaN where there is none.
    name : str
        Of the function, for the line.
    """

    def __init__(self, excess: Callable[[float], float], name: str) -> None:
        self.excess, self.known = excess, dict[float, float]()
        out = shown_on(sys.stderr)
        self.line = None if out is None else _Line(name, out)

    def __call__(self, number: float) -> float:
        if number not in self.known:
            if self.line is not None:
                self.line.begin(len(self.known) + 1, 0)
            self.known[number] = self.excess(number)
        return self.known[number]

    def close(self) -> None:
        """Clear the line."""
        if self.line is not None:
            self.line.close()


class _Line(ProgressLine):
    """How many plans have been made."""

    def __init__(self, name: str, out: Any) -> None:
        super().__init__(name, None, out)

    def text(self) -> str:
        return f"{self.name}  plan {self.passes[0]}"


def narrow_enough(
    excess: Callable[[float], float], rough: Callable[[float], float], start: float, most: float, name: str
) -> float | None:
    """Return the smallest number at which something is narrow enough, to 1%; None if there is none up to `most`.

    Parameters
    ----------
    excess : callable
        Of a number: how many times as wide as wanted it is; NaN where there is no width.
    rough : callable
        The same in less time, and not quite: its root is where the search begins, its slope how it goes on.
    start, most : float
        Where to begin, and where to give up.
    name : str
        Of the function, for a line of progress.
    """
    tries = Tries(excess, name)
    try:
        near = smallest(rough, start, most, precision=COARSE, parts=())
        if near is None:
            return smallest(tries, start, most, COARSE, PARTS) if tries(most) <= 1 else None
        found = _from_rough(tries, rough, near)
        return smallest(tries, near, most, COARSE, PARTS) if found is None else found
    finally:
        tries.close()


def _from_rough(tries: Tries, rough: Callable[[float], float], number: float) -> float | None:
    """Return a number that is enough, 1% above one that is not at most: by secants, the first one of `rough`.

    None if none is found, as where widths jump, or are not given.
    """
    slope = math.log(rough(number * math.exp(-SPACED)) / rough(number)) / SPACED
    low, high, before = 0.0, math.inf, None
    for _ in range(TRIES):
        ratio = tries(number)
        if not 0 < ratio < math.inf:
            return None
        low, high = (low, min(high, number)) if ratio <= 1 else (max(low, number), high)
        if (1 - WITHIN) * high <= low:
            return high if low < high else None
        at = math.log(number), math.log(ratio)
        if before is not None:
            slope = (before[1] - at[1]) / (at[0] - before[0])
        slope = min(max(slope, SLOPES[0]), SLOPES[1]) if math.isfinite(slope) else 1.0
        root = math.exp(at[0] + at[1] / slope)
        number, before = root * (1 - AIM if high <= root * (1 + NEARLY) else 1 + AIM), at
        if not low < number < high:
            number = math.sqrt(low * high) if low > 0 and high < math.inf else number
    return None
