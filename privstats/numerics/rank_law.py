"""The law of the errors of ranks, of order statistics that are drawn by the exponential mechanism: pure formulas.

Inference, an estimator and a mechanism share it: how far noise moves the ranks of several numbers that are drawn
together, hence how far from a quantile the ends of its interval are wanted.

*Several boundaries drawn by the sum of their cells' errors* follow the Laplace bridge. J boundaries cut the values into
J + 1 cells. Where the log density falls by `rate` for each value that a cell holds too many or too few, the cells'
excesses are, but for gaps of different lengths, independent Laplace numbers of that rate, given that their sum is zero.
Coordinate j, the error of the j-th boundary's rank, is the sum of the first j of them, with density proportional to
``f_j(a) f_(J + 1 - j)(a)``, where f_m is the density of a sum of m Laplace numbers: a polynomial in ``|a|`` times
``exp(-2 rate |a|)``, hence a mixture of gamma laws.

*Boundaries drawn by their largest error* have a gamma distributed radius, and an error that is uniform up to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import pairwise

import numpy as np
import scipy
from scipy import special

from privstats.numerics.law import FloatArray

ESCAPES = 0.01  # how likely numbers may escape into the empty part of a range ...
WIDEST = 2.0**14  # ... so many times as wide as the values that fill it
EDGE = 0.035  # of the values: how far from a quantile those that share its value end, at the least
PLAIN = 0.25  # of the price for quantiles without intervals, where others beside them have some
FINE = 2.0**-20  # targets of boundaries drawn by their largest error are multiples of it, so that all radii are exact


def _sum_of_laplace(m: int) -> FloatArray:
    """Return the coefficients, by ascending powers of ``|x|``, of the density of a sum of m over ``exp(-|x|)``."""
    k = np.arange(m - 1, -1, -1)
    logs = special.gammaln(m + k) - special.gammaln(m - k) - special.gammaln(k + 1)
    coefficients: FloatArray = np.exp(logs - math.lgamma(m) - (m + k) * math.log(2.0))
    return coefficients


def _log_density(m: int, a: float) -> float:
    """Return the log density at `a`, at least 0, of a sum of m Laplace numbers of rate 1."""
    terms = _log_sum_of_laplace(m)
    if a <= 0:
        return float(terms[0])
    terms = terms + np.arange(len(terms)) * math.log(a)
    top = float(terms.max())
    return top + math.log(float(np.exp(terms - top).sum())) - a


@lru_cache(maxsize=256)
def _log_sum_of_laplace(m: int) -> FloatArray:
    """Return the logarithms of the coefficients of `_sum_of_laplace`."""
    logs: FloatArray = np.log(_sum_of_laplace(m))
    return logs


@lru_cache(maxsize=256)
def _weights(j: int, J: int) -> FloatArray:
    """Return the weights of the gamma laws of shape 1, 2, ... and rate 2 whose mixture is the law of ``rate |a|``."""
    product = np.convolve(_sum_of_laplace(j), _sum_of_laplace(J + 1 - j))
    powers = np.arange(len(product))
    weights: FloatArray = product * np.exp(special.gammaln(powers + 1.0) - powers * math.log(2.0))
    return weights / weights.sum()


def bridge_tail(a: FloatArray, rate: float, j: int, J: int) -> FloatArray:
    """Return the probability that coordinate j of J is larger than `a`, any shape."""
    a = np.asarray(a, dtype=float)
    weights = _weights(j, J)
    beyond = (weights * special.gammaincc(np.arange(1, len(weights) + 1), 2 * rate * np.abs(a)[..., None])).sum(axis=-1)
    tail: FloatArray = np.where(a >= 0, beyond / 2, 1 - beyond / 2)
    return tail


def bridge_quantile(p: FloatArray, rate: float, j: int, J: int) -> FloatArray:
    """Return the quantiles of orders `p` in (0, 1), any shape, of coordinate j of J: by bisection, to the last bits."""
    p = np.asarray(p, dtype=float)
    above = np.array([_unit_quantile(float(tail), j, J) for tail in np.minimum(p, 1 - p).flat]).reshape(p.shape)
    quantile: FloatArray = np.sign(p - 0.5) * above / rate
    return quantile


@lru_cache(maxsize=4096)
def _unit_quantile(tail: float, j: int, J: int) -> float:
    """Return what coordinate j of J exceeds with probability `tail`, at most 1/2, at rate 1."""
    low, high = 0.0, float(special.gammainccinv(J, 2 * tail)) / 2  # every shape is at most J
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (middle, high) if bridge_tail(np.array(middle), 1.0, j, J) > tail else (low, middle)
    return high


def cell_rate(eps: float, rows: int, sensitivity: float = 2.0) -> float:
    """Return what the log density may lose for each value that a cell holds too many or too few, at the price eps.

    One row moves the sum of the cells' errors by at most `sensitivity`, see `rank`; a unit has up
    to `rows` of them; the normaliser moves as much again.
    """
    return eps / (2 * sensitivity * rows)


@lru_cache(maxsize=256)
def privacy_margins(rate: float, levels: int, ends_only: bool, confidence: float) -> FloatArray:
    """Return how far, in ranks, noise moves the ends of the intervals of several quantiles, shape (levels, 2).

    Parameters
    ----------
    rate : float
        What the log density loses for each value that a cell holds too many or too few.
    levels : int
        How many quantiles are bracketed by one joint draw.
    ends_only : bool
        Whether the ends are drawn alone; otherwise each quantile is drawn between its own.
    confidence : float
        In (0, 1).

    Returns
    -------
    ndarray, shape (levels, 2)
        The quantiles of order ``(1 + confidence) / 2`` of the noise in the ranks of lower and upper ends.
    """
    each = 2 if ends_only else 3
    ends = np.array([[each * k + 1, each * k + each] for k in range(levels)])
    p = np.array((1 + confidence) / 2)
    margins = np.array([[bridge_quantile(p, rate, int(end), each * levels) for end in pair] for pair in ends])
    margins.flags.writeable = False  # it is cached
    return margins


def rooms(n: float, levels: tuple[float, ...]) -> FloatArray:
    """Return how many ranks there are on either side of each quantile, shape (levels, 2): half the way to the next."""
    edges = np.array([0.0, *((a + b) / 2 for a, b in pairwise(levels)), 1.0])
    return n * np.column_stack([np.array(levels) - edges[:-1], edges[1:] - np.array(levels)])


def interval_targets(n: int, levels: tuple[float, ...], confidence: float, rate: float, ends_only: bool) -> FloatArray:
    """Return the ranks wanted of each quantile's ends, and between them of itself unless `ends_only`; ascending.

    They are ``T - min(h, room)``, ``T = level n`` and ``T + min(h, room)``, h as in `Ends.reaches`. As n grows no
    cell is wanted smaller: h and room both increase, so ``min(h, room)`` does; and what is left between neighbours,
    ``max(0, room - h)``, increases wherever it is positive, because h is concave in n and room linear from 0.
    """
    z, orders = float(special.ndtri((1 + confidence) / 2)), np.array(levels)[:, None]
    h = np.sqrt(z**2 * orders * (1 - orders) * n + privacy_margins(rate, len(levels), ends_only, confidence) ** 2)
    h = np.minimum(h, rooms(n, levels))
    middle = np.array(levels) * n
    below, above = middle - h[:, 0], middle + h[:, 1]
    targets = np.column_stack([below, above] if ends_only else [below, middle, above]).ravel()
    return np.maximum.accumulate(targets)  # equal edges may differ in their last bits


@cache
def box_quantile(J: int, confidence: float) -> float:
    """Return the quantile of order ``(1 + confidence) / 2`` of ``rate e_j``, where e is a rank's error.

    The radius is gamma distributed with shape J + 1, the error uniform up to it:
    ``P(|e| > a) = P(r > a) - (a / J) P(r' > a)``, where r' has shape J.
    """

    def excess(a: float) -> float:
        tail = special.gammaincc(J + 1, a) - a / J * special.gammaincc(J, a)
        return float(tail) - (1 - confidence)

    return float(scipy.optimize.brentq(excess, 1e-12, 745.0, xtol=1e-12))


def box_rate(eps: float, rows: int, level: float, kind: str, confidence: float, ends_only: bool) -> float:
    """Return what the log density may lose for each rank at the price eps.

    The targets are ``T = level n`` and ``T -+ h``, ``h = sqrt(a n + m^2)``, whose slopes in n are within ``a / 2 m`` of
    `level`: one value more moves an error by at most ``S = max(level, 1 - level) + a / 2 m``, where the margin m is
    itself ``box_quantile / rate``; this is solved for S. One value replaced moves it by at most 1.
    """
    c = box_quantile(2 if ends_only else 3, confidence)
    a = float(special.ndtri((1 + confidence) / 2)) ** 2 * level * (1 - level)
    least = max(level, 1 - level) + 2 * FINE
    moved = (least + math.sqrt(least**2 + a * eps / (c * rows))) / 2
    return eps / (2 * rows * (moved if kind == "add_remove" else max(1.0, moved)))


def box_targets(n: int, level: float, confidence: float, margin: float, ends_only: bool) -> FloatArray:
    """Return the ranks wanted of the ends, and between them of the quantile unless `ends_only`; any real numbers."""
    z = float(special.ndtri((1 + confidence) / 2))
    h = math.sqrt(z**2 * level * (1 - level) * n + margin**2)
    targets = level * n + h * np.array([-1.0, 1.0] if ends_only else [-1.0, 0.0, 1.0])
    return np.rint(targets / FINE) * FINE


@dataclass(frozen=True)
class Ends:
    """The joint draw of quantiles and the ends of their intervals at a price, all of it public.

    A single quantile and its ends are drawn by the largest error of their ranks (`box_ranks`): one row moves that by
    little more than ``max(level, 1 - level)`` where it appears or vanishes, and by 1 where it is replaced. Several are
    drawn by the sum of the cells' errors, which a row moves by 2 (`bridge`, `joint_ranks`). For a single one the margin
    of that would be shorter under "replace"; but ends that err along with each other for nothing fall into gaps
    together.

    Parameters
    ----------
    eps : float
        Price of the draw.
    rows : int
        Rows that one unit may have.
    levels : tuple of float
        Orders of the quantiles, ascending, in (0, 1).
    kind : {"replace", "add_remove"}
    confidence : float
        Of the intervals.
    alone : bool
        Whether the ends are drawn without the quantiles.
    points : float
        How many values are possible, on the public grid.
    """

    eps: float
    rows: int
    levels: tuple[float, ...]
    kind: str
    confidence: float
    alone: bool
    points: float

    @property
    def box(self) -> bool:
        """Whether the largest error of a rank decides, and not that of all cells."""
        return len(self.levels) == 1

    @property
    def rate(self) -> float:
        """What the log density loses for each rank, or value of a cell."""
        if self.box:
            return box_rate(self.eps, self.rows, self.levels[0], self.kind, self.confidence, self.alone)
        return cell_rate(self.eps, self.rows)

    @property
    def margins(self) -> FloatArray:
        """How far noise moves the ranks of the ends, shape (levels, 2)."""
        if self.box:
            return np.full((1, 2), box_quantile(2 if self.alone else 3, self.confidence) / self.rate)
        return privacy_margins(self.rate, len(self.levels), self.alone, self.confidence)

    def reaches(self, n: float) -> FloatArray:
        """Return how many ranks from each quantile the ends are wanted among n values, shape (levels, 2)."""
        z, orders = float(special.ndtri((1 + self.confidence) / 2)), np.array(self.levels)[:, None]
        h: FloatArray = np.sqrt(z**2 * orders * (1 - orders) * n + self.margins**2)
        return h

    def most_points(self, n: float) -> float:
        """Return how many points the grid may have, so that boundaries stay where many of n values are equal.

        One that leaves a point for the gap beside it gains as many places as that has points, at most, and all that are
        drawn together may leave for the price of one: that of the equal values between the quantile and the gap, `EDGE`
        of all or more.
        """
        away = (1 if self.box else 2) * self.rate * (EDGE * n + self.reaches(n).min())
        return math.exp(min(700.0, away / (len(self.levels) * (2 if self.alone else 3))))

    def shortfall(self, n: float) -> FloatArray:
        """Return how many times wider the ways between ranks ought to be, shape (levels,): above 1 no interval holds.

        Either its ends would lie beyond all values, or half the way to the next quantile. Or numbers may escape: into
        the empty part of the range, at one of its sides, where the m outermost have ``points^m / m!`` places together,
        and no rank is wrong but by what it is for the innermost of them; the ``2 / rate`` values that noise passes over
        are taken to fill one point of the grid, or a part of 1 / `WIDEST` of the range. For each m and side the
        log density must fall by as much on the way (`fall`), and by as much again as makes that rare (`ESCAPES`). Those
        that escape push the others, so all numbers of a draw are looked at.
        """
        h, middle = self.reaches(n), n * np.array(self.levels)
        inner = [] if self.alone else [middle]
        targets = np.column_stack([middle - h[:, 0], *inner, middle + h[:, 1]])
        m = np.arange(1.0, targets.size + 1)
        prize = m * math.log(min(self.points, WIDEST)) - special.gammaln(m + 1) - math.log(ESCAPES)
        short = (h / rooms(n, self.levels)).max(axis=1)
        if self.box:  # a single order has no others to push
            far = np.minimum(middle, n - middle) - h.max(axis=1)
            alone = math.log(WIDEST / ESCAPES) / np.maximum(self.rate * far, 1e-300)
            return np.asarray(np.maximum(short, alone), dtype=float)
        for far, way in ((targets, slice(None)), (n - targets, slice(None, None, -1))):
            falls = np.array([self.fall(k, max(0.0, ranks)) for k, ranks in enumerate(far.ravel()[way], start=1)])
            ratio = np.where(falls > 0, prize / np.maximum(falls, 1e-300), np.inf)[way].reshape(targets.shape)
            short = np.maximum(short, ratio.max(axis=1))
        return short

    def fall(self, m: int, far: float) -> float:
        """Return what the log density falls until the m outermost numbers are out, the innermost from `far` ranks away.

        That of the other numbers is summed up: where they are many, there are many ways to share the error out.
        """
        J = len(self.levels) * (2 if self.alone else 3)
        a, left = self.rate * far, J + 1 - m
        if self.box:
            stays = float(special.gammaincc(left, a))
            return math.lgamma(J + 1) - math.lgamma(left) - math.log(stays) if stays > 0 else math.inf
        return float(_log_density(J + 1, 0.0) - _log_density(left, a)) + a

    @lru_cache(maxsize=1024)  # noqa: B019 -- a law is a few numbers
    def hopeful(self, n: float) -> Ends | None:
        """Return the draw of those quantiles whose intervals can hold among n values; None if there are none.

        Of those that fall short the one furthest from the median is left out, until none falls short: the others have
        wider ways then. Quantiles that are left out are drawn apart, for `PLAIN` of the price.
        """
        draw, short = self, self.shortfall(n)
        if not self.alone and (short > 1).any():
            draw = replace(self, eps=(1 - PLAIN) * self.eps)
        while (short > 1).any():
            outer = np.round(np.abs(np.array(draw.levels) - 0.5), 9)
            worst = int(np.argmax(np.where(short > 1, outer, -1.0)))
            levels = draw.levels[:worst] + draw.levels[worst + 1 :]
            if not levels:
                return None
            draw = replace(draw, levels=levels)
            short = draw.shortfall(n)
        return draw

    def stretch(self, alpha: float) -> float:
        """Return the noise of an end's rank at level 1 - alpha in units of that at `confidence`."""
        boundaries = 2 if self.alone else 3
        if self.box:
            return box_quantile(boundaries, 1 - alpha) / box_quantile(boundaries, self.confidence)
        here, there = bridge_quantile(
            1 - np.array([alpha, 1 - self.confidence]) / 2, 1.0, 1, boundaries * len(self.levels)
        )
        return float(here / there)
