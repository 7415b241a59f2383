"""The smallest budget, or number of rows, that makes an interval narrow enough, in few plans.

A variance has a part of sampling and a part of noise, and it is known how each falls: with n rows as 1/n and 1/n^2,
with the budget not at all and as 1/eps^2, 1/mu^2 or 1/rho. So the widths at one number say about which number is
wanted, and those at two numbers say it better.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from privstats.numerics.law import FloatArray
from privstats.workflow.progress import ProgressLine, shown_on

WITHIN = 0.01  # of the number that is found: with less by this part it would not do
AIM, NEARLY = 0.003, 0.0075  # distance to the expected root of what is tried; at which a number above it is near enough
SPACED = 0.03  # logarithm of two numbers whose widths say how these fall: between nearer ones they come and go
STEPS_OUT = 4.0  # times a number, for the next one, where nothing is known about the way; then its square, and so on


@dataclass(frozen=True, eq=False)
class Widths:
    """What to expect at some number: of each term the width over the wanted one, and the noise's share of the variance.

    Parameters
    ----------
    ratios, shares : ndarray, shape (m,)
        NaN where there is none.
    """

    ratios: FloatArray
    shares: FloatArray

    @property
    def ratio(self) -> float:
        """The largest ratio; NaN where one is."""
        return float(self.ratios.max())


@dataclass(frozen=True)
class Fall:
    """A squared width over the wanted one: ``rest number^-still + noise number^-falling``.

    Parameters
    ----------
    still, falling : int
        Of a number of rows 1 and 2, of eps or mu 0 and 2, of rho 0 and 1.
    """

    still: int
    falling: int

    def root(self, rest: float, noise: float) -> float:
        """Return where it is 1; infinite where it is nowhere, NaN where this is no law."""
        if not (rest >= 0 and noise >= 0):
            return math.nan
        if self.still:
            return (rest + math.sqrt(rest**2 + 4 * noise)) / 2
        return (noise / (1 - rest)) ** (1 / self.falling) if rest < 1 else math.inf

    def from_one(self, number: float, widths: Widths) -> float:
        """Return where all widths are as wanted, by the shares of noise at a number."""
        noise = np.clip(np.nan_to_num(widths.shares), 0.0, 1.0)
        parts = zip(widths.ratios**2 * (1 - noise), widths.ratios**2 * noise, strict=True)
        return number * max(self.root(float(rest), float(noise)) for rest, noise in parts)

    def from_two(self, a: tuple[float, float], b: tuple[float, float]) -> float:
        """Return where the largest width is as wanted, by its ratio at two numbers."""
        (x, r), (y, s) = a, b
        t = y / x  # in units of the first number
        noise = (r**2 - s**2 * t**self.still) / (1 - t ** (self.still - self.falling))
        return x * self.root(r**2 - noise, noise)


BY_ROWS, BY_BUDGET, BY_RHO = Fall(1, 2), Fall(0, 2), Fall(0, 1)


class Tries:
    """A cache of the widths at the numbers tried so far, with a progress line on a terminal.

    Parameters
    ----------
    expected : callable
        Of a number: the widths to expect.
    name : str
        Name of the function, for the progress line.
    """

    def __init__(self, expected: Callable[[float], Widths], name: str) -> None:
        self.expected, self.known = expected, dict[float, Widths]()
        out = shown_on(sys.stderr)
        self.line = None if out is None else _Line(name, out)

    def __call__(self, number: float) -> Widths:
        if number not in self.known:
            if self.line is not None:
                self.line.begin(len(self.known) + 1, 0)
            self.known[number] = self.expected(number)
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
    expected: Callable[[float], Widths], law: Fall, start: float, least: float, most: float, name: str
) -> float | None:
    """Return the smallest number at which an interval is narrow enough, to 1%; None if none up to `most` suffices.

    Parameters
    ----------
    expected : callable
        Of a number: the widths to expect.
    law : Fall
        By which they fall, nearly.
    start, least, most : float
        Where to begin, and where to give up.
    name : str
        Name of the function, for the progress line.
    """
    tries = Tries(expected, name)
    try:
        way = Way(law, least, most)
        number = start
        while True:
            way.goes_on(number, tries(number))
            if way.low >= most:
                return None
            if way.high <= least or (1 - WITHIN) * way.high <= way.low < way.high:
                return way.high
            number = way.next()
    finally:
        tries.close()


class Way:
    """The way of a search: the largest number that is not enough, the smallest that is, and where the root may be."""

    def __init__(self, law: Fall, least: float, most: float) -> None:
        self.law, self.least, self.most = law, least, most
        self.low, self.high, self.root, self.last = 0.0, math.inf, math.nan, math.inf
        self.ratios: dict[float, float] = {}
        self.step, self.slow, self.left = STEPS_OUT, 0, (False, math.inf)

    def goes_on(self, number: float, widths: Widths) -> None:
        """Note what is expected at a number."""
        if widths.ratio <= 1:
            self.high = min(self.high, number)
        else:
            self.low = max(self.low, number)
        known = [(x, r) for x, r in self.ratios.items() if r > 0 and abs(math.log(x / number)) > SPACED]
        self.root, self.last = math.nan, math.inf
        if widths.ratio > 0:
            self.last = widths.ratio
            self.root = self.law.from_one(number, widths)
            if known:
                near = min(known, key=lambda one: abs(math.log(one[0] / number)))
                root = self.law.from_two((number, widths.ratio), near)
                self.root = root if self.low < root < self.high else self.root
        self.ratios[number] = widths.ratio

    def next(self) -> float:
        """Return what to try: a little beyond the expected root, on the side on which nothing is known as near.

        Where that is not between, or two tries have not halved what was left, it is the middle; or, where all tries lie
        on one side of the root, a number far beyond.
        """
        low, high, root = self.low, self.high, self.root
        near = math.sqrt((1 - WITHIN) * high * root) if high <= root * (1 + NEARLY) else root * (1 + AIM)
        between = low > 0 and high < math.inf
        left = between, math.log(high / low) if between else abs(math.log(self.last))
        self.slow = 0 if left[0] != self.left[0] or left[1] <= self.left[1] / 2 else self.slow + 1
        self.left = left
        if not (low < near < high or near == high == math.inf) or self.slow > 1:
            self.slow = 0
            if between:
                near = math.sqrt(low * high)
            else:
                near, self.step = (low * self.step if low > 0 else high / self.step), self.step**2
        return min(max(near, self.least), self.most)
