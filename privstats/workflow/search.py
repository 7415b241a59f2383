"""A search for the smallest budget, or number of rows, at which an interval is narrow enough, with few plans."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from privstats.workflow.forecast import smallest
from privstats.workflow.progress import ProgressLine, shown_on

WITHIN = 0.01  # relative precision: a number smaller by this part does not suffice
AIM = 0.003  # a trial lies above or below the expected root by this part of it
NEARLY = 0.0045  # a known sufficient number above the root by at most this part: the next trial lies below the root
SPACED = 0.1  # difference of the logarithms of two numbers, for the slope of the approximate widths
SLOPES = 0.02, 8.0  # smallest and largest assumed slope of the log width in the log number, in absolute value
PARTS = (1 - WITHIN,)
TRIES = 8  # plans by secants; then the search by bisection starts
COARSE = 3e-3  # precision of the logarithm of the root of the approximate widths


class Tries:
    """A cache of the widths at the numbers tried so far, with a progress line on a terminal.

    Parameters
    ----------
    excess : callable
        Returns the width at a number over the wanted width; NaN if there is no interval.
    name : str
        Name of the function, for the progress line.
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
        """Remove the progress line from the terminal."""
        if self.line is not None:
            self.line.close()


class _Line(ProgressLine):
    """A progress line with the number of plans computed so far."""

    def __init__(self, name: str, out: Any) -> None:
        super().__init__(name, None, out)

    def text(self) -> str:
        return f"{self.name}  plan {self.passes[0]}"


def narrow_enough(
    excess: Callable[[float], float], rough: Callable[[float], float], start: float, most: float, name: str
) -> float | None:
    """Return the smallest number at which an interval is narrow enough, to 1%; None if none up to `most` suffices.

    Parameters
    ----------
    excess : callable
        Returns the width at a number over the wanted width; NaN if there is no interval.
    rough : callable
        A fast approximation of `excess`; its root and slope give the first two trials.
    start, most : float
        Start of the search, and largest number to try.
    name : str
        Name of the function, for the progress line.
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
    """Return a number that suffices, at most 1% above one that does not, by secant steps with first slope from `rough`.

    None if the steps fail, which happens if widths jump or an interval is not given.
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
