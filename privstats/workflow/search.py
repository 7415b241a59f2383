"""Search for the smallest budget or number of rows at which intervals have at most the requested width.

The variance of an estimate has a sampling part and a noise part. If the number of rows n grows, the sampling part
decreases as 1/n and the noise part as 1/n^2. If the budget grows, the sampling part does not change, and the noise
part decreases as 1/eps^2, 1/mu^2 or 1/rho. Because these powers are known, the smallest number of rows (or budget) can
be extrapolated from the expected widths at one tried value of n (or of the budget), and more precisely from the widths
at two tried values. The extrapolated value is called the root.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from privstats.numerics.law import FloatArray
from privstats.workflow.progress import ProgressLine, shown_on

WITHIN = 0.01  # relative tolerance; with 1% fewer rows, or 1% less budget, than the result, intervals are too wide
AIM = 0.003  # the next number of rows (or budget) to try exceeds the extrapolated number by this share
# the extrapolated number of rows (or budget) counts as near the lower or the upper limit of the search interval if its
# relative distance from this limit is at most NEARLY or BELOW, respectively
NEARLY, BELOW = 0.0075, 0.015
# a limit of the search is close to the result if |log(expected / requested width)| at the limit is below this
CLOSE = 0.03
ALMOST = 0.0099  # relative distance, from a limit of the search, of the number beside it; slightly less than `WITHIN`
PROBES = 1  # how often a number 1% away from a limit may be tried in place of the geometric mean of both search limits
APART_FROM_ONE = 0.025  # not all fits need be simulated if |log(expected width / requested width)| exceeds this
# extrapolation uses two tried numbers if |log(ratio of the two numbers)| exceeds this; at closer numbers, the widths
# change too irregularly
SPACED = 0.03
JUMP = 1.0  # a power law is fitted to the widths at two tried numbers only if |log(ratio of widths)| is below this
# if only one limit of the search is known, the next number to try is this limit multiplied or divided by this factor;
# the factor is squared after each use
STEPS_OUT = 4.0


@dataclass(frozen=True, eq=False)
class Widths:
    """Expected interval widths of m terms, which are medians over simulated fits, at one number of rows (or budget).

    Parameters
    ----------
    ratios : ndarray, shape (m,)
        Expected width divided by the requested width, for each term; NaN if no interval is expected.
    shares : ndarray, shape (m,)
        Share of each estimate's variance that is due to noise; NaN if no interval is expected.
    fits : mapping of int to ndarray, shape (m,)
        For the identifier of each simulated fit: the interval widths of all terms, divided by the requested width;
        infinite if an interval is not reported.
    sure : bool
        Whether the fits in `fits` suffice to decide if all `ratios` are at most 1. If False, the decision also needs
        bounds from fits at other numbers of rows (or budgets).
    """

    ratios: FloatArray
    shares: FloatArray
    fits: Mapping[int, FloatArray] = field(default_factory=dict)
    sure: bool = True

    @property
    def ratio(self) -> float:
        """Largest ratio, over all terms, of the expected to the requested interval width; NaN if any ratio is NaN."""
        return float(self.ratios.max())


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds of the ratios of interval width to requested width in simulated fits at one number of rows (or budget).

    The bounds of the ratios in a simulated fit are the ratios in the fit with the same identifier at other numbers of
    rows (or budgets). Both fits use the same random draws, and intervals become shorter as the number of rows (or the
    budget) grows. Therefore the ratios at a larger number are lower bounds, and the ratios at a smaller number are
    upper bounds. With the bounds, a search for the smallest sufficient number needs to simulate fewer fits.

    Parameters
    ----------
    least, most : mapping of int to ndarray, shape (terms,)
        Lower and upper bounds of the ratios, by identifier of the fit; fits without an entry have the bounds 0 and
        infinity.
    rough : bool
        True if the simulated fits need only decide whether the median ratio over all fits is at most 1 for each term,
        because the search may end at the tried number. False if the next number to try is extrapolated from the
        medians, so that medians near 1 must be precise.
    """

    least: Mapping[int, FloatArray] = field(default_factory=dict)
    most: Mapping[int, FloatArray] = field(default_factory=dict)
    rough: bool = False

    def order(self, fits: Sequence[int]) -> list[int]:
        """Return the identifiers `fits` in the order in which the fits are to be simulated.

        A fit that was simulated at other numbers of rows (or budgets) has known bounds of its ratios of interval width
        to requested width. Fits with the largest lower bounds come first. Fits come last if their bounds already decide
        whether the largest ratio over all terms exceeds 1.
        """
        least = {fit: float(self.least[fit].max()) if fit in self.least else -math.inf for fit in fits}
        decided = {fit for fit in fits if least[fit] > 1 or (fit in self.most and self.most[fit].max() <= 1)}
        return sorted(fits, key=lambda fit: (fit in decided, -least[fit]))

    def median(self, ratios: Mapping[int, FloatArray], fits: Sequence[int]) -> FloatArray | None:
        """Return each term's median ratio of interval width to requested width over all fits, if it can be computed.

        Each median has a lower and an upper bound, computed with the bounds `least` or `most` in place of the ratios of
        fits that are not simulated yet. The simulated fits suffice if a lower bound of a median is above 1, or if the
        upper bounds of all medians are at most 1. Unless `rough` is True, these bounds must differ from 1 by 2.5%.
        The returned medians are computed from the simulated ratios and from ratios that are predicted for the other
        fits (`_others`), and are clipped to the bounds of the medians.

        Parameters
        ----------
        ratios : mapping of int to ndarray, shape (terms,)
            Ratios in the fits that are simulated so far, by identifier; infinite if the interval is not reported.
        fits : sequence of int
            Identifiers of all fits, an odd number of fits.

        Returns
        -------
        ndarray, shape (terms,), or None
            The median ratios, one for each term; None if more fits must be simulated.
        """
        made, rest = list(ratios.values()), [fit for fit in fits if fit not in ratios]
        nothing = np.zeros(len(made[0]))
        least = [self.least.get(fit, nothing) for fit in rest]
        most = [np.maximum(self.most.get(fit, nothing + math.inf), low) for fit, low in zip(rest, least, strict=True)]
        lowest, highest = np.median([*made, *least], axis=0), np.median([*made, *most], axis=0)
        apart = 0.0 if self.rough else APART_FROM_ONE
        if rest and not (lowest.max() > math.exp(apart) or highest.max() <= math.exp(-apart)):
            return None
        return np.clip(np.median([*made, *self._others(ratios, rest)], axis=0), lowest, highest)

    def _others(self, ratios: Mapping[int, FloatArray], rest: Sequence[int]) -> list[FloatArray]:
        """Return predicted ratios of interval width to requested width for fits `rest` that are not simulated yet.

        `ratios` contains the ratios of the simulated fits. The earlier ratios, at another number of rows (or budget),
        are the bounds `least` or `most`, whichever has more fits in common with `ratios`. The prediction for a fit and
        a term is the earlier ratio, multiplied by the median change of the term: the median of the new ratio divided by
        the earlier ratio, over the fits that have both ratios. A fit without an earlier ratio has no prediction.
        """
        known = max((self.least, self.most), key=lambda at: len(at.keys() & ratios.keys()))
        both = [fit for fit in ratios if fit in known]
        if not both:
            return []
        with np.errstate(all="ignore"):
            changes = np.array([ratios[fit] / known[fit] for fit in both])
        change = np.array(
            [np.median(some[np.isfinite(some)]) if np.isfinite(some).any() else 1.0 for some in changes.T]
        )
        with np.errstate(all="ignore"):  # no warnings for inf, the ratio of an interval that is not reported
            return [np.where(np.isinf(known[fit]), math.inf, known[fit] * change) for fit in rest if fit in known]


@dataclass(frozen=True)
class Fall:
    """Model of the squared ratio of expected to requested interval width at x, the number of rows or the budget.

    The squared ratio is ``rest x^-still + noise x^-falling``. The first term is due to sampling error, the second term
    to noise; `rest` and `noise` are the values of the terms at x = 1.

    Parameters
    ----------
    still, falling : int
        Exponents of the sampling term and of the noise term: 1 and 2 for rows, 0 and 2 for eps or mu, 0 and 1 for rho.
    """

    still: int
    falling: int

    def root(self, rest: float, noise: float) -> float:
        """Return the number of rows (or budget) x at which the expected width of intervals equals the requested width.

        The squared ratio of the two widths is ``rest x^-still + noise x^-falling``, with the exponents `still` and
        `falling` of this model. At x = 1, `rest` is the part due to sampling error, and `noise` is the part due to
        noise. The result is inf if no number suffices, and NaN if `rest` or `noise` is negative or NaN.
        """
        if not (rest >= 0 and noise >= 0):
            return math.nan
        if self.still:
            return (rest + math.sqrt(rest**2 + 4 * noise)) / 2
        return (noise / (1 - rest)) ** (1 / self.falling) if rest < 1 else math.inf

    def extrapolated(self, widths: Widths, times: float) -> Widths:
        """Return the expected widths after the number of rows (or the budget) of `widths` is multiplied by `times`."""
        noise = np.clip(np.nan_to_num(widths.shares), 0.0, 1.0)
        parts = (1 - noise) * times**-self.still, noise * times**-self.falling
        variances = parts[0] + parts[1]
        change = np.sqrt(variances)
        fits = {fit: ratios * change for fit, ratios in widths.fits.items()}
        return Widths(widths.ratios * change, parts[1] / variances, fits, widths.sure)

    def from_one(self, number: float, widths: Widths) -> float:
        """Return the number of rows (or budget) at which all expected interval widths are at most the requested width.

        The result is extrapolated from `widths`, the expected widths at `number`, a tried number of rows (or budget).
        """
        noise = np.clip(np.nan_to_num(widths.shares), 0.0, 1.0)
        parts = zip(widths.ratios**2 * (1 - noise), widths.ratios**2 * noise, strict=True)
        return number * max(self.root(float(rest), float(noise)) for rest, noise in parts)

    def from_two(self, a: tuple[float, float], b: tuple[float, float]) -> float:
        """Return the number of rows (or budget) at which the largest ratio of expected to requested width is 1.

        The model of this class is fitted to the ratios at two tried numbers and extrapolated. If the ratios decrease
        faster than the model allows, a power law is fitted instead, unless the ratios differ by a factor of e or more
        (constant `JUMP`); the result is then NaN. It is also NaN if the ratios decrease more slowly than the model
        allows.

        Parameters
        ----------
        a, b : tuple of (float, float)
            A tried number of rows (or budget), and the largest ratio of expected to requested width at this number.
        """
        (x, r), (y, s) = a, b
        t = y / x  # ratio of the second tried number to the first
        noise = (r**2 - s**2 * t**self.still) / (1 - t ** (self.still - self.falling))
        if noise > r**2 and abs(math.log(r / s)) < JUMP:  # the sampling term, r^2 - noise, would be negative
            return x * r ** (math.log(t) / math.log(r / s))
        return x * self.root(r**2 - noise, noise)


BY_ROWS, BY_BUDGET, BY_RHO = Fall(1, 2), Fall(0, 2), Fall(0, 1)


class Tries:
    """A cache of the expected interval widths at the numbers of rows (or budgets) tried so far, with a progress line.

    Parameters
    ----------
    expected : callable
        Function that maps a number of rows (or budget), and the `Bounds` of the widths at this number, to the expected
        `Widths`.
    name : str
        Name of the function, for the progress line.
    """

    def __init__(self, expected: Callable[[float, Bounds], Widths], name: str) -> None:
        self.expected, self.known = expected, dict[float, Widths]()
        out = shown_on(sys.stderr)
        self.line = None if out is None else _Line(name, out)

    def __call__(self, number: float, bounds: Bounds) -> Widths:
        if number not in self.known:
            if self.line is not None:
                self.line.begin(len(self.known) + 1, 0)
            self.known[number] = self.expected(number, bounds)
        return self.known[number]

    def confirms(self, number: float) -> bool:
        """Return whether all expected interval widths at a number of rows (or budget) are at most the requested width.

        The answer follows from fits simulated at this number alone. If the known widths depend on bounds from fits at
        other numbers, the widths are computed again without these bounds.
        """
        if not self.known[number].sure:
            self.known[number] = self.expected(number, Bounds(rough=True))
        return self.known[number].ratio <= 1

    def close(self) -> None:
        """Remove the progress line from the terminal."""
        if self.line is not None:
            self.line.close()


class _Line(ProgressLine):
    """A progress line with the number of plans computed so far in a search for a budget or a number of rows."""

    def __init__(self, name: str, out: Any) -> None:
        super().__init__(name, None, out)

    def text(self) -> str:
        return f"{self.name}  plan {self.passes[0]}"


def narrow_enough(
    expected: Callable[[float, Bounds], Widths], law: Fall, start: float, least: float, most: float, name: str
) -> float | None:
    """Return, to within 1%, the smallest number of rows (or budget) at which no expected interval is too wide.

    An interval is too wide if it is wider than requested. The result is None if intervals are too wide even at `most`.

    Parameters
    ----------
    expected : callable
        Function that maps a number of rows (or budget), and the `Bounds` of the widths at this number, to the expected
        `Widths`.
    law : Fall
        Approximate dependence of the interval widths on the number of rows (or budget).
    start, least, most : float
        First number of rows (or budget) to try, and smallest and largest possible number.
    name : str
        Name of the function, for the progress line.
    """
    tries = Tries(expected, name)
    try:
        way = Way(law, least, most)
        number = start
        while True:
            way.goes_on(number, tries(number, way.bounds(number)))
            if way.low >= most:
                return None
            if way.high <= least or way.ends(way.low) or way.is_root(number):
                if tries.confirms(way.high):
                    return way.high
                way.takes_back(tries.known[way.high])
            number = way.next()
    finally:
        tries.close()


class Way:
    """State of a search for the smallest number of rows (or budget) at which no interval is wider than requested.

    The lower limit is the largest number of rows (or budget) known to be insufficient. The upper limit is the smallest
    number known to be sufficient. The root is an estimate of the result, extrapolated from the expected widths at tried
    numbers.
    """

    def __init__(self, law: Fall, least: float, most: float) -> None:
        self.law, self.least, self.most = law, least, most
        self.low, self.high, self.root, self.last = 0.0, math.inf, math.nan, math.inf
        self.roots = (math.nan, math.nan)  # the root from the last tried number, and the root from two tried numbers
        self.ratios: dict[float, float] = {}
        # Ratios of interval width to requested width in simulated fits, by identifier of the fit. `at_high` has ratios
        # at `high` rows (or budget) or more, which are lower bounds of the ratios with fewer rows. `at_low` has ratios
        # at `low` rows (or budget) or fewer, which are upper bounds of the ratios with more rows.
        self.at_high: dict[int, FloatArray] = {}
        self.at_low: dict[int, FloatArray] = {}
        self.before: list[tuple[float, dict[int, FloatArray]]] = []  # earlier upper limits, and their ratios `at_high`
        self.step, self.slow, self.left, self.probes = STEPS_OUT, 0, (False, math.inf), PROBES

    def ends(self, low: float) -> bool:
        """Return whether the search would end with the lower limit `low`, an insufficient number of rows (or budget).

        The search ends if the lower limit is at most 1% below the upper limit, the smallest number known to suffice.
        """
        return (1 - WITHIN) * self.high <= low < self.high

    def is_root(self, number: float) -> bool:
        """Return whether the search may end at `number`, the last tried number of rows (or budget).

        `number` must be the upper limit, the smallest number known to suffice. In addition, two estimates of the
        search's result must lie at most 1% below `number` and not above it: one estimate is extrapolated from the
        widths at `number` alone, the other from the widths at `number` and at another tried number.
        """
        return number == self.high and all((1 - WITHIN) * number <= root <= number for root in self.roots)

    def bounds(self, number: float) -> Bounds:
        """Return bounds of the ratios of expected to requested interval width at `number`, the next number to try.

        The bounds follow from fits simulated at the numbers of rows (or budgets) tried before.
        """
        least = self.at_high if number < self.high else {}
        most = self.at_low if number > self.low else {}
        ends = self.ends(number) or (1 - WITHIN) * number <= self.low
        return Bounds(least, most, ends)

    def goes_on(self, number: float, widths: Widths) -> None:
        """Update the search with the expected interval widths at `number`, a tried number of rows (or budget).

        The update moves the lower or the upper limit if `number` is between them, and replaces the extrapolated result
        `root`.
        """
        if widths.ratio <= 1 and number < self.high:
            self.before.append((self.high, self.at_high))
            self.high, self.at_high = number, {**self.at_high, **widths.fits}
        elif not widths.ratio <= 1 and number > self.low:
            self.low, self.at_low = number, {**self.at_low, **widths.fits}
        known = [(x, r) for x, r in self.ratios.items() if 0 < r < math.inf and abs(math.log(x / number)) > SPACED]
        self.root, self.last, self.roots = math.nan, math.inf, (math.nan, math.nan)
        if widths.ratio > 0:
            self.last = widths.ratio
            root = self.root = self.law.from_one(number, widths)
            if known:
                other = [one for one in known if (one[1] > 1) != (widths.ratio > 1)]
                near = min(other or known, key=lambda one: abs(math.log(one[0] / number)))
                second = self.law.from_two((number, widths.ratio), near)
                self.root, self.roots = (second if self.low < second < self.high else root), (root, second)
        self.ratios[number] = widths.ratio if widths.ratio > 0 else math.inf

    def takes_back(self, widths: Widths) -> None:
        """Replace the upper limit by the previous upper limit, because intervals at the upper limit are too wide.

        `widths` contains the expected widths at the limit to be replaced, computed only from fits simulated there.
        """
        number, (self.high, self.at_high) = self.high, self.before.pop()
        self.goes_on(number, widths)

    def next(self) -> float:
        """Return the next number of rows (or budget) to try in the search for the smallest sufficient number.

        The limits and the root are defined in `Way`. A limit is called close if the largest expected width at this
        limit differs from the requested width by less than 3%. The number beside a limit is the number 1% above the
        lower limit or 1% below the upper limit.

        1. If the lower limit is close and the root is at most 0.75% above it, or if the upper limit is close and the
           root is at most 1.5% below it (or beyond the limit), the number beside this limit is tried.
        2. Otherwise the number 0.3% above the root is tried.

        If the number by rule 1 or 2 is not between the limits, or if progress is slow, rule 3 or 4 applies. Progress
        is slow if two successive tries have not halved the log ratio of the two limits or, as long as one limit is
        unknown, the log ratio of the largest expected width to the requested width:

        3. If both limits are known, their geometric mean is tried or, once in a search, the number beside a close
           limit.
        4. If only one limit is known, this limit is multiplied or divided by a factor: 4, then 16, 256, and so on.
        """
        low, high, root = self.low, self.high, self.root
        between = low > 0 and high < math.inf
        near = root * (1 + AIM)
        close = {end for end in (low, high) if abs(math.log(self.ratios.get(end, math.inf))) < CLOSE}
        if low in close and root <= low * (1 + NEARLY):
            near = low / (1 - ALMOST)
        elif high in close and root >= high * (1 - BELOW):
            near = high * (1 - ALMOST)
        left = between, math.log(high / low) if between else abs(math.log(self.last))
        self.slow = 0 if left[0] != self.left[0] or left[1] <= self.left[1] / 2 else self.slow + 1
        self.left = left
        if not (low < near < high or near == high == math.inf) or self.slow > 1:
            self.slow = 0
            if between:
                beside = high * (1 - ALMOST) if high in close else low / (1 - ALMOST)
                probe = self.probes > 0 and close and low < beside < high
                near, self.probes = (beside, self.probes - 1) if probe else (math.sqrt(low * high), self.probes)
            else:
                near, self.step = (low * self.step if low > 0 else high / self.step), self.step**2
        return min(max(near, self.least), self.most)
