"""Formulas for the distribution of the rank errors of quantiles that the exponential mechanism draws.

Quantiles and the ends of their confidence intervals are drawn together; all these numbers are called boundaries. A rank
error is the rank of a boundary among the values, minus its target rank. The distribution of the rank errors determines
how far the target rank of an interval end must be from the target rank of its quantile. J boundaries divide the values
into J + 1 cells. The error of a cell is its number of values minus its target number of values.

*If the log density of a draw falls in proportion to the sum of the cells' absolute errors*, with the factor `rate`,
and if unequal gaps between values are neglected, the cells' errors are independent Laplace variables of this rate,
conditioned on a sum of zero. The rank error of boundary j is the sum of the errors of the first j cells. Its density
at the point a is proportional to ``f_j(a) f_(J + 1 - j)(a)``, where f_m is the density of a sum of m Laplace
variables: a polynomial in ``|a|`` times ``exp(-rate |a|)``. So the law of the absolute rank error is a mixture of
gamma laws with rate parameter ``2 rate``.

*If the log density of a draw falls in proportion to the largest absolute rank error*, each rank error is uniform on
[-r, r], where r is a random number with a gamma distribution.
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

# accepted probability that a drawn quantile or interval end lies below, or above, all values of the data
ESCAPES = 0.01
# the 2 / rate lowest values, and the 2 / rate highest values, with the `rate` of a draw (`Ends`), are each assumed to
# fill at least 1 / WIDEST of the column's range
WIDEST = 2.0**14
# assumed least share of the values that are copies of a frequent value and lie between the target ranks of the
# quantiles and a gap (`Ends.most_points`)
EDGE = 0.035
PLAIN = 0.25  # share of the budget for quantiles without intervals, if other quantiles have intervals
FINE = 2.0**-20  # step of the grid of target ranks (`box_targets`), on which rank errors have no rounding error


@lru_cache(maxsize=512)
def _log_sum_of_laplace(m: int) -> FloatArray:
    """Return the logarithms of the coefficients c_k, k < m, of the density ``exp(-|x|) sum_k c_k |x|^k``.

    This is the density of the sum of m independent Laplace variables of rate 1.
    """
    k = np.arange(m - 1, -1, -1)
    logs = special.gammaln(m + k) - special.gammaln(m - k) - special.gammaln(k + 1)
    coefficients: FloatArray = logs - math.lgamma(m) - (m + k) * math.log(2.0)
    return coefficients


def _log_density(m: int, a: float) -> float:
    """Return the log density of a sum of m independent Laplace variables of rate 1, at a point ``a >= 0``."""
    terms = _log_sum_of_laplace(m)
    if a <= 0:
        return float(terms[0])
    terms = terms + np.arange(len(terms)) * math.log(a)
    top = float(terms.max())
    return top + math.log(float(np.exp(terms - top).sum())) - a


@lru_cache(maxsize=512)
def _weights(j: int, J: int) -> FloatArray:
    """Return the weights of the gamma laws whose mixture is the law of ``rate |rank error|`` of the j-th boundary.

    The gamma laws have the shapes 1, 2, ..., J and the rate parameter 2. The J boundaries are quantiles and interval
    ends, drawn together; `bridge_quantile` defines rank errors and `rate`. The weights are computed from logarithms,
    because with more than about 170 boundaries the weights have factors that are too large for floats.
    """
    here, there = _log_sum_of_laplace(j), _log_sum_of_laplace(J + 1 - j)
    powers = np.arange(j)[:, None] + np.arange(J + 1 - j)
    logs = here[:, None] + there + special.gammaln(powers + 1.0) - powers * math.log(2.0)
    weights = np.bincount(powers.ravel(), np.exp(logs - logs.max()).ravel())
    return np.asarray(weights / weights.sum())


def bridge_tail(a: FloatArray, rate: float, j: int, J: int) -> FloatArray:
    """Return the probabilities that the rank error of the j-th of J boundaries exceeds each of the numbers `a`.

    The boundaries are quantiles and the ends of their confidence intervals, drawn together. A rank error is the rank of
    a boundary minus its target rank. The boundaries divide the values into J + 1 cells. Up to a constant, the log
    density of the draw is minus `rate` times the sum over the cells of ``|number of values - target number|``.
    """
    a = np.asarray(a, dtype=float)
    weights = _weights(j, J)
    beyond = (weights * special.gammaincc(np.arange(1, len(weights) + 1), 2 * rate * np.abs(a)[..., None])).sum(axis=-1)
    tail: FloatArray = np.where(a >= 0, beyond / 2, 1 - beyond / 2)
    return tail


def bridge_quantile(p: FloatArray, rate: float, j: int, J: int) -> FloatArray:
    """Return the quantiles, at the probabilities `p`, of the rank error of the j-th of J boundaries.

    The boundaries are quantiles and the ends of their confidence intervals, drawn together. A rank error is the rank of
    a boundary minus its target rank. The boundaries divide the values into J + 1 cells. Up to a constant, the log
    density of the draw is minus `rate` times the sum over the cells of ``|number of values - target number|``.
    """
    p = np.asarray(p, dtype=float)
    first = min(j, J + 1 - j)  # by symmetry, the rank errors of boundaries j and J + 1 - j have the same law
    above = np.array([_unit_quantile(float(tail), first, J) for tail in np.minimum(p, 1 - p).flat]).reshape(p.shape)
    quantile: FloatArray = np.sign(p - 0.5) * above / rate
    return quantile


@lru_cache(maxsize=16384)
def _unit_quantile(tail: float, j: int, J: int) -> float:
    """Return the ``1 - tail`` quantile, tail <= 1/2, of the rate times the rank error of the j-th of J boundaries.

    `bridge_quantile` explains boundaries, rank errors and the rate. The upper limit of the root search is a quantile
    of the gamma law with shape J, which has the largest quantiles of all laws in the mixture (`_weights`).
    """

    def excess(a: float) -> float:
        return float(bridge_tail(np.array(a), 1.0, j, J)) - tail

    high = float(special.gammainccinv(J, 2 * tail)) / 2 + 1e-9
    return float(scipy.optimize.brentq(excess, 0.0, high, xtol=1e-14)) if excess(0.0) > 0 else 0.0


def cell_rate(eps: float, rows: int, sensitivity: float = 2.0) -> float:
    """Return the rate at which the log density of a draw may decrease with the cells' errors, under a budget eps.

    The drawn numbers (quantiles or interval ends) divide the values into cells. The error of a cell is its number of
    values minus its target number. The log density is minus the rate times the sum of the cells' absolute errors, up
    to a constant. One row changes this sum by at most `sensitivity`, and a privacy unit has at most `rows` rows. So
    with the rate ``eps / (2 sensitivity rows)``, the exponent and the log normaliser of the density each change by at
    most eps / 2.
    """
    return eps / (2 * sensitivity * rows)


@lru_cache(maxsize=256)
def privacy_margins(rate: float, levels: int, ends_only: bool, confidence: float) -> FloatArray:
    """Return the noise margins of the lower and upper ends of confidence intervals for quantiles, shape (levels, 2).

    A noise margin is the number of ranks by which the noise may move an end of an interval.

    Parameters
    ----------
    rate : float
        Factor in the log density of a draw. The drawn numbers divide the values into cells. Up to a constant, the log
        density is minus `rate` times the sum over the cells of ``|number of values - target number|``.
    levels : int
        Number of quantiles whose intervals are drawn together.
    ends_only : bool
        Whether only the ends of intervals are drawn; otherwise each quantile is drawn, too, between these ends.
    confidence : float
        Confidence of the intervals, in (0, 1).

    Returns
    -------
    ndarray, shape (levels, 2)
        For each lower and upper end, the quantile of its rank error at the probability ``(1 + confidence) / 2``.
    """
    each = 2 if ends_only else 3
    ends = np.array([[each * k + 1, each * k + each] for k in range(levels)])
    p = np.array((1 + confidence) / 2)
    margins = np.array([[bridge_quantile(p, rate, int(end), each * levels) for end in pair] for pair in ends])
    margins.flags.writeable = False  # the array is cached and must not change
    return margins


def rooms(n: float, levels: tuple[float, ...]) -> FloatArray:
    """Return the numbers of ranks by which confidence intervals may extend below and above quantiles of n values.

    `levels` has the probabilities of the quantiles, ascending. The result has the shape (levels, 2): below and above.
    An interval may extend half way to the next quantile or, if there is no next quantile, to the lowest or highest
    value.
    """
    edges = np.array([0.0, *((a + b) / 2 for a, b in pairwise(levels)), 1.0])
    return n * np.column_stack([np.array(levels) - edges[:-1], edges[1:] - np.array(levels)])


def interval_targets(n: int, levels: tuple[float, ...], confidence: float, rate: float, ends_only: bool) -> FloatArray:
    """Return the ascending target ranks of the ends of confidence intervals and, unless `ends_only`, of the quantiles.

    The quantiles of n values, with probabilities `levels`, and the interval ends are drawn together; `privacy_margins`
    explains `rate`. The target rank of the quantile with probability p is ``T = p n``. The target ranks of its
    interval's ends are ``T - min(h, room)`` and ``T + min(h, room)``, where h and room are computed for each end:

    - h is the number of ranks that allows for sampling error and noise (`Ends.reaches`);
    - room is half the distance from T to the next lower target rank of a quantile (lower end) or to the next higher
      target rank of a quantile (upper end). If there is no such target rank, room is the distance from T to the rank of
      the lowest or highest value.

    The distance between two neighbouring targets does not decrease as n grows, as the sensitivity in `Rank` requires.
    Proof: an end's target is ``min(h, room)`` away from its quantile's target, and h and room increase with n. The
    end's target is ``max(0, room - h)`` away from the half-way rank or the extreme rank. This distance does not
    decrease, because room - h is convex in n (room is linear and h concave) and at most 0 at n = 0.
    """
    z, orders = float(special.ndtri((1 + confidence) / 2)), np.array(levels)[:, None]
    h = np.sqrt(z**2 * orders * (1 - orders) * n + privacy_margins(rate, len(levels), ends_only, confidence) ** 2)
    h = np.minimum(h, rooms(n, levels))
    middle = np.array(levels) * n
    below, above = middle - h[:, 0], middle + h[:, 1]
    targets = np.column_stack([below, above] if ends_only else [below, middle, above]).ravel()
    return np.maximum.accumulate(targets)  # equal neighbouring targets may be out of order by a rounding error


@cache
def box_quantile(J: int, confidence: float) -> float:
    """Return the ``(1 + confidence) / 2`` quantile of the scaled rank error of one of J numbers drawn together.

    The J numbers are the two ends of a confidence interval and, if J = 3, the quantile between them. A rank error is
    the rank of a number among the values, minus its target rank. The rank error is scaled by the rate at which the log
    density of the draw decreases with the largest absolute rank error. So the scaled rank errors e_j have a joint
    density proportional to ``exp(-max_j |e_j|)``: they are the coordinates of a uniform point of the cube [-1, 1]^J,
    multiplied by a gamma variable r with shape J + 1. Hence ``P(|e_j| > a) = P(r > a) - (a / J) P(r' > a)``, where r'
    is a gamma variable with shape J.
    """

    def excess(a: float) -> float:
        tail = special.gammaincc(J + 1, a) - a / J * special.gammaincc(J, a)
        return float(tail) - (1 - confidence)

    return float(scipy.optimize.brentq(excess, 1e-12, 745.0, xtol=1e-12))


def box_rate(eps: float, rows: int, level: float, kind: str, confidence: float, ends_only: bool) -> float:
    """Return the rate at which the log density of a draw may decrease with the largest rank error, under a budget eps.

    A draw consists of the two ends of a confidence interval for a quantile and, unless `ends_only` is true, of the
    quantile, whose probability is `level`. A privacy unit has at most `rows` of the n values. The neighbouring
    relation `kind` is "add_remove" or "replace". The rate is ``eps / (2 rows S)``, where the sensitivity S is an upper
    bound of the change of a rank error (rank minus target rank) if one value changes.

    *Targets.* The target rank of the quantile is ``T = level n``; the targets of the ends are ``T - h`` and ``T + h``,
    with ``h = sqrt(a n + m^2)``. Here ``a = z^2 level (1 - level)``, with the normal quantile z at ``(1 + confidence) /
    2``. The noise margin m is the number of ranks by which noise may move an end. m is ``c / rate``, with c from
    `box_quantile`.

    *An added or removed value* changes a rank by 0 or 1, T by `level`, and h by at most ``a / (2 m)``. So
    ``S = max(level, 1 - level) + a / (2 m)``. As m is proportional to S, S is the positive root of
    ``S^2 = max(level, 1 - level) S + a eps / (4 c rows)``. To allow for the rounding of targets, 2 `FINE` is added to
    ``max(level, 1 - level)``.

    *A replaced value* changes a rank error by at most 1. A value that becomes missing counts as removed, so that the
    previous bound holds. So under "replace" the sensitivity is the larger of 1 and this bound.
    """
    c = box_quantile(2 if ends_only else 3, confidence)
    a = float(special.ndtri((1 + confidence) / 2)) ** 2 * level * (1 - level)
    least = max(level, 1 - level) + 2 * FINE
    moved = (least + math.sqrt(least**2 + a * eps / (c * rows))) / 2
    return eps / (2 * rows * (moved if kind == "add_remove" else max(1.0, moved)))


def box_targets(n: int, level: float, confidence: float, margin: float, ends_only: bool) -> FloatArray:
    """Return the target ranks of the two ends of an interval and, unless `ends_only`, of the quantile between them.

    The confidence interval is for the quantile of probability `level` of n values. `margin` is the number of ranks by
    which privacy noise may move an end. The targets are in ascending order, rounded to multiples of 2^-20 (`FINE`).
    """
    z = float(special.ndtri((1 + confidence) / 2))
    h = math.sqrt(z**2 * level * (1 - level) * n + margin**2)
    targets = level * n + h * np.array([-1.0, 1.0] if ends_only else [-1.0, 0.0, 1.0])
    return np.rint(targets / FINE) * FINE


@dataclass(frozen=True)
class Ends:
    """Public description of a joint draw of quantiles and the ends of their confidence intervals.

    *Several quantiles.* The drawn numbers divide the values into cells, each with a target number of values. The
    density of the draw depends on the sum over the cells of ``|number of values - target number|``. One row changes
    this sum by at most 2 (`cell_rate`).

    *A single quantile*, of probability p. The density depends on the largest absolute rank error of the drawn numbers
    (`box_quantile`). An added or removed row changes this error by at most a bound slightly above ``max(p, 1 - p)``,
    and a replaced row by at most the larger of this bound and 1 (`box_rate`).

    Parameters
    ----------
    eps : float
        Privacy budget of the draw.
    rows : int
        Largest number of rows of one privacy unit.
    levels : tuple of float
        Probabilities of the quantiles, ascending, in (0, 1).
    kind : {"replace", "add_remove"}
        Whether neighbouring data sets differ by a replaced row, or by an added or removed row.
    confidence : float
        Confidence of the intervals, in (0, 1).
    alone : bool
        Whether the ends of the intervals are drawn without the quantiles.
    points : float
        Number of points of the public grid, on which all values and drawn numbers lie.
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
        """Whether the draw has a single quantile; only then does its density depend on the largest rank error."""
        return len(self.levels) == 1

    @property
    def rate(self) -> float:
        """Rate at which the log density of the joint draw of quantiles and interval ends decreases with the error.

        For a single quantile, the error is the largest absolute rank error. For several quantiles, the error is the sum
        of ``|number of values - target number|`` over the cells into which the drawn numbers divide the values.
        """
        if self.box:
            return box_rate(self.eps, self.rows, self.levels[0], self.kind, self.confidence, self.alone)
        return cell_rate(self.eps, self.rows)

    @property
    def margins(self) -> FloatArray:
        """Noise margins, in ranks, of the lower and upper ends of the confidence intervals, shape (levels, 2).

        The privacy noise moves an end by more than its margin with probability 1 - confidence.
        """
        if self.box:
            return np.full((1, 2), box_quantile(2 if self.alone else 3, self.confidence) / self.rate)
        return privacy_margins(self.rate, len(self.levels), self.alone, self.confidence)

    def reaches(self, n: float) -> FloatArray:
        """Return the distances, in ranks, of the two ends of each confidence interval from the quantile of n values.

        The result has the shape (levels, 2). A distance allows for the sampling error and for the privacy noise. The
        distance may exceed the number of ranks that are available to the interval (`rooms`).
        """
        z, orders = float(special.ndtri((1 + self.confidence) / 2)), np.array(self.levels)[:, None]
        h: FloatArray = np.sqrt(z**2 * orders * (1 - orders) * n + self.margins**2)
        return h

    def most_points(self, n: float) -> float:
        """Return the number of grid points up to which a frequent value is more probable than a gap beside the value.

        Suppose that a frequent value lies beside a gap without values, that all k drawn numbers (quantiles and interval
        ends) should equal the frequent value, and that at least the share `EDGE` of the n values are copies of the
        frequent value with ranks between the target ranks of the quantiles and the gap. If all k numbers lie in the
        gap, the log density of the draw is lower by a number d than if all k numbers equal the frequent value, but on a
        grid of p points up to ``p^k`` draws in the gap are possible. The result is the p at which ``p^k = e^d``.
        """
        away = (1 if self.box else 2) * self.rate * (EDGE * n + self.reaches(n).min())
        return math.exp(min(700.0, away / (len(self.levels) * (2 if self.alone else 3))))

    def shortfall(self, n: float) -> FloatArray:
        """Return, for each quantile of n values, a ratio above 1 if its interval may not have the stated coverage.

        The result has the shape (levels,). Each element is the largest of the following ratios.

        *Available ranks.* For each end of the interval, this ratio is the distance in ranks of the end from the
        quantile (`reaches`), divided by the largest distance that the adjacent quantiles allow (`rooms`).

        *Draws outside the values.* For each drawn number (both ends and, unless `alone` is true, the quantile), this
        ratio is at most 1 if noise moves the number below all values with a probability of at most `ESCAPES`. If the
        number is the m-th lowest of all drawn numbers, the ratio is ``log(u^m / m! / ESCAPES) / f``: below all values,
        the m lowest numbers have the density e^-f (`fall`) in a region of volume ``u^m / m!``. Here u is the length of
        the column's range, divided by the length that the ``2 / rate`` lowest values are assumed to fill: one grid
        step or, if this is longer, 1 / `WIDEST` of the range. The same ratio is computed for draws above all values.

        For a single quantile, the second ratio is computed only for the end nearest to an extreme value, with m = 1,
        u = `WIDEST`, and f equal to `rate` times the number of ranks between the end's target and this extreme value.
        """
        h, middle = self.reaches(n), n * np.array(self.levels)
        inner = [] if self.alone else [middle]
        targets = np.column_stack([middle - h[:, 0], *inner, middle + h[:, 1]])
        m = np.arange(1.0, targets.size + 1)
        prize = m * math.log(min(self.points, WIDEST)) - special.gammaln(m + 1) - math.log(ESCAPES)
        short = (h / rooms(n, self.levels)).max(axis=1)
        # for a single quantile, only the interval end nearest to an extreme value is checked, with m = 1
        if self.box:
            far = np.minimum(middle, n - middle) - h.max(axis=1)
            alone = math.log(WIDEST / ESCAPES) / np.maximum(self.rate * far, 1e-300)
            return np.asarray(np.maximum(short, alone), dtype=float)
        for far, way in ((targets, slice(None)), (n - targets, slice(None, None, -1))):
            falls = np.array([self.fall(k, max(0.0, ranks)) for k, ranks in enumerate(far.ravel()[way], start=1)])
            ratio = np.where(falls > 0, prize / np.maximum(falls, 1e-300), np.inf)[way].reshape(targets.shape)
            short = np.maximum(short, ratio.max(axis=1))
        return short

    def fall(self, m: int, far: float) -> float:
        """Return minus the log joint density of the m lowest drawn numbers at points below all values.

        The drawn numbers are quantiles and the ends of their intervals. `far` is the target rank of the m-th lowest
        number. Lengths are measured in units of the length of an interval that contains ``2 / rate`` values. By
        symmetry, the result also holds for the m highest numbers at points above all values, if `far` is the number of
        ranks from the target to the highest value.
        """
        J = len(self.levels) * (2 if self.alone else 3)
        a, left = self.rate * far, J + 1 - m
        if self.box:
            stays = float(special.gammaincc(left, a))
            return math.lgamma(J + 1) - math.lgamma(left) - math.log(stays) if stays > 0 else math.inf
        return float(_log_density(J + 1, 0.0) - _log_density(left, a)) + a

    @lru_cache(maxsize=1024)  # noqa: B019 -- the cached objects are small
    def hopeful(self, n: float) -> Ends | None:
        """Return the description of this draw without the quantiles whose intervals cannot have the stated coverage.

        The number of values is n. If no interval can have the stated coverage, the result is None. Quantiles are
        omitted one at a time, until the ratio `shortfall` of each remaining quantile is at most 1. Of the quantiles
        with a ratio above 1, the quantile furthest from the median is omitted first; the intervals of adjacent
        quantiles may then extend further. If a quantile is omitted, the returned draw has the share 1 - `PLAIN` of
        `eps`; the share `PLAIN` is for a separate draw of the omitted quantiles. If only interval ends are drawn
        (`alone`), the returned draw has the whole budget `eps`.
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
        """Return the noise margin of an interval end at confidence 1 - alpha, divided by the margin at `confidence`.

        The noise margin at confidence c is the number of ranks that the privacy noise of an end does not exceed with
        probability c. For several quantiles, the ratio is computed for the outermost ends.
        """
        boundaries = 2 if self.alone else 3
        if self.box:
            return box_quantile(boundaries, 1 - alpha) / box_quantile(boundaries, self.confidence)
        here, there = bridge_quantile(
            1 - np.array([alpha, 1 - self.confidence]) / 2, 1.0, 1, boundaries * len(self.levels)
        )
        return float(here / there)
