"""Draw several numbers jointly and exactly, so that their ranks among the values are near given target ranks.

The J drawn numbers, called boundaries, divide the values into J + 1 cells with c_0, ..., c_J values. The target number
w_j of a cell is the difference of its neighbouring target ranks. On the ascending points ``x_1 <= ... <= x_J`` of an
interval, the density is proportional to ``exp(-sum_j rates_j |c_j - w_j|)``, with given positive rates (Gillenwater,
Joseph and Kulesza 2021). The density is constant as long as each boundary stays in one gap between sorted values. So a
gap is drawn for each boundary, from the last to the first, with weights that are integrals of the density. A forward
pass computes these weights beforehand, boundary by boundary, with one convolution by a Laplace kernel for each. The
positions of m boundaries in one gap have the volume ``length^m / m!``.

*Windows.* At first, only values whose ranks differ by at most `width` from a target rank are read. Let e_j be the rank
error of boundary j: the number of values below it, minus its target rank. With e_0 = e_(J+1) = 0, the density is
proportional to ``exp(-sum_j rates_j |e_(j+1) - e_j|)``. If all e_j are clamped to [-width, width], no ``|e_(j+1) -
e_j|`` increases. So the density at the clamped errors is an upper bound of the density, called the envelope. The
envelope does not depend on the values outside the windows, because there the clamped errors are constant. Boundaries
are proposed from the envelope, and accepted with probability density / envelope, which is 1 if each boundary lies in
its window. After a rejection, the boundaries are drawn from the density itself, over all values. The result has the
same law as if proposals were repeated until one is accepted. So the draw is exact for every width.

*Ties.* Values are rounded to a public grid. The range is divided into public grid cells, one around each grid point,
and each value is moved to a random part of its grid cell (`Parts`). This noise is not released, and is the same for
both neighbours; the law of the boundaries is a mixture over this noise. Each boundary is drawn exactly, as the index of
a random part of its gap. Values are sorted before the noise is added: given a seed, row order has no effect.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from privstats.mechanisms.additive.tails import choose, passes
from privstats.mechanisms.order.ranked import Ranked, RankGrid, Stretches, those
from privstats.numerics.law import FloatArray, IntArray, Rng

# total width added to the cells around zero and around both ends of the grid, where ties are frequent, as a share of
# the length of the range
HEAPED = 0.03
# a boundary (noisy quantile) outside its window of ranks is proposed with probability at most about exp(-RARE)
RARE = 30.0
NEGLIGIBLE = 45.0  # a term below exp(-NEGLIGIBLE) < 2^-64, relative to a sum, does not change the sum in float64
PART_BITS = 62  # log2 of the largest number of parts of all grid cells together


@dataclass(frozen=True)
class Parts:
    """The cells around the points of a public grid, each divided into equal parts, which are numbered from 0.

    An ordinary cell has 2^bits parts. The cells around zero and around both ends of the grid have ``1 + more`` times
    this number of parts, because many values may be equal to zero or to an end of the grid. Equal values are moved to
    random parts of their cell; in a wider cell the gaps between the moved values are longer, so that boundaries (noisy
    quantiles) are drawn from these gaps more often.

    A value is given as the index k of its part. A gap between two values k < l consists of the parts k, ..., l - 1,
    and a boundary in the gap lies in each of these parts with the same probability. The part of a boundary determines
    its grid point, so only the part is drawn.
    """

    grid: RankGrid

    @cached_property
    def heaps(self) -> IntArray:
        """Indices of the grid points at which ties are frequent: at (or near) zero and at both ends of the grid."""
        ends = np.array([self.grid.first, self.grid.last, np.clip(0.0, self.grid.first, self.grid.last)])
        return np.unique(ends - self.grid.first).astype(np.int64)

    @cached_property
    def more(self) -> int:
        """Width added to each cell around zero or an end of the grid, in units of the width of an ordinary cell.

        These cells are widened because many values may equal zero or an end of the grid.
        """
        return int(HEAPED * (self.grid.last - self.grid.first + 1)) // len(self.heaps)

    @cached_property
    def cells(self) -> int:
        """Total width of the cells around all grid points, in units of the width of an ordinary cell.

        All cells are ordinary, except for the widened cells around zero and the ends of the grid.
        """
        return int(self.grid.last - self.grid.first) + 1 + self.more * len(self.heaps)

    @property
    def bits(self) -> int:
        """Base-2 logarithm of the number of parts of an ordinary cell; at least 10 for grids of up to 2^51 points.

        All cells are ordinary, except for the widened cells around zero and the ends of the grid.
        """
        return PART_BITS - self.cells.bit_length()

    @property
    def end(self) -> int:
        """Total number of parts of the cells around all grid points; the parts are numbered from 0 to end - 1."""
        return self.cells << self.bits

    def spread(self, units: FloatArray, rng: Rng) -> IntArray:
        """Return the index of a random part of the cell around each grid point in `units` (in grid steps)."""
        points = (units - self.grid.first).astype(np.int64)
        cells = points + self.more * np.searchsorted(self.heaps, points)
        wide = np.isin(points, self.heaps)
        return np.asarray((cells << self.bits) + rng.integers(0, (1 + self.more * wide) << self.bits, len(cells)))

    def units(self, parts: IntArray) -> FloatArray:
        """Return the grid points, in grid steps, to whose cells the parts with the numbers `parts` belong."""
        cells = parts >> self.bits
        for heap in self.heaps:
            cells = cells - np.clip(cells - heap, 0, self.more)
        return self.grid.first + cells.astype(float)

    def released(self, parts: IntArray) -> FloatArray:
        """Return the grid points, in units of the values, to whose cells the parts with the numbers `parts` belong."""
        return self.grid.points(self.units(parts))


@dataclass(frozen=True, eq=False)
class Targets:
    """Target ranks of J boundaries (noisy quantiles) that are drawn jointly, and parameters of their joint density.

    The boundaries divide the values into J + 1 cells. The target number of values of a cell is the difference of its
    neighbouring target ranks.

    Parameters
    ----------
    ranks : ndarray, shape (J,)
        Target ranks of the boundaries, ascending.
    rates : ndarray, shape (J + 1,)
        For each cell, the decrease of the log density per value above or below the cell's target number of values.
    width : float
        Half-width of the windows of ranks around the targets; only values in these windows are read for a first draw.
    """

    ranks: FloatArray
    rates: FloatArray
    width: float

    @property
    def J(self) -> int:
        return len(self.ranks)

    def spans(self, n: int) -> list[tuple[int, int]]:
        """Return the windows of ranks around the target ranks: pairs (start, stop) for the ranks start + 1 to stop.

        The ranks are limited to the ranks 1 to n of the n values. Windows that overlap are merged.
        """
        spans: list[tuple[int, int]] = []
        for target in self.ranks:
            start, stop = int(max(0.0, target - self.width)), int(min(float(n), np.ceil(target + self.width)))
            if spans and start <= spans[-1][1]:
                start = spans.pop()[0]
            spans.append((start, stop))
        return spans

    def errors(self, ranks: FloatArray) -> FloatArray:
        """Return rank errors, shape (J, K): entry (j, k) is rank k minus the target rank of quantile (boundary) j.

        `ranks` has the shape (K,). The errors are clamped to [-width, width], where `width` is the half-width of the
        windows of ranks around the target ranks.
        """
        return np.clip(ranks - self.ranks[:, None], -self.width, self.width)

    def cost(self, errors: FloatArray) -> float:
        """Return minus the log density, up to a constant, of J boundaries with the rank errors `errors`, shape (J,).

        The result is the sum of ``rates[j] |e_(j+1) - e_j|`` over j = 0, ..., J, where e_j is the rank error (rank
        minus target rank) of boundary j, and e_0 = e_(J+1) = 0.
        """
        return float(self.rates @ np.abs(np.diff(errors, prepend=0.0, append=0.0)))

    def excess(self, ranks: FloatArray) -> float:
        """Return log(envelope / density), for the joint density of J boundaries with the ranks `ranks`, shape (J,).

        The envelope is an upper bound of the density: the density at rank errors that are clamped to [-width, width],
        where `width` is the half-width of the windows of ranks around the target ranks.
        """
        errors = ranks - self.ranks
        return self.cost(errors) - self.cost(np.clip(errors, -self.width, self.width))


def draw_joint(
    values: Ranked, targets: FloatArray, rates: FloatArray, rng: Rng, width: float | None = None
) -> FloatArray:
    """Return random boundaries that divide the values into cells; the cells' numbers of values are near target numbers.

    The boundaries are drawn jointly and exactly, from the density that the module docstring defines.

    Parameters
    ----------
    values : Ranked
        The n values, rounded to the public grid from which the boundaries are drawn.
    targets : ndarray, shape (J,)
        Target ranks of the boundaries, ascending, in [0, n]. The difference of two neighbouring target ranks is the
        target number of values in the cell between the two boundaries.
    rates : ndarray, shape (J + 1,)
        For each cell, the decrease of the log density per value above or below the cell's target number of values;
        positive.
    rng : Rng
        Source of randomness.
    width : float, optional
        Half-width of the windows of ranks around the targets. Values outside the windows are read only if a proposed
        boundary lies outside its window. With the default, the probability of this event is at most about exp(-RARE).

    Returns
    -------
    ndarray, shape (J,)
        Points of the grid, ascending.
    """
    parts, n, rates = Parts(values.grid), values.n, np.asarray(rates, dtype=float)
    targets = np.clip(targets, 0.0, n)
    if width is None:
        # The cost of a draw is minus its log density (`Targets.cost`). If every boundary has the whole rank nearest to
        # its target rank, the cost is `nearest`. If a boundary lies outside its window of ranks, the cost is at least
        # 2 width min(rates). With the half-width computed here, such a boundary has a probability of at most about
        # exp(-RARE).
        nearest = float(rates @ np.abs(np.diff(np.rint(targets) - targets, prepend=0.0, append=0.0)))
        volumes = len(targets) * math.log(parts.cells * (n + 1.0))
        width = (nearest + volumes + RARE) / (2 * rates.min()) + 1
    wanted = Targets(targets, rates, width)
    window = Window.of(values, wanted.spans(n), parts, rng)
    x, gaps = draw_between(window.values, window.labels, wanted, parts, rng)
    ranks = window.ranks(x) if window.holes[gaps].any() else window.labels[gaps]
    excess = wanted.excess(ranks)
    if excess > 0 and not passes(rng, excess):
        x, _ = draw_between(window.all(), np.arange(n + 1.0), replace(wanted, width=math.inf), parts, rng)
    return parts.released(x)


def draw_between(
    values: IntArray, ranks: FloatArray, wanted: Targets, parts: Parts, rng: Rng
) -> tuple[IntArray, NDArray[np.intp]]:
    """Draw J boundaries (noisy quantiles) from the envelope, an upper bound of their joint density.

    The envelope is the density at rank errors that are clamped to an interval (`Targets.errors`). Boundaries and values
    are given as indices of parts of grid cells (`Parts`). There is a gap below the smallest value, a gap between any
    two neighbouring values, and a gap above the largest value.

    Parameters
    ----------
    values : ndarray of int, shape (k,)
        The values, sorted.
    ranks : ndarray, shape (k + 1,)
        Rank of a boundary in each gap.
    wanted : Targets
        Target ranks of the boundaries, and parameters of their density.
    parts : Parts
        The cells of the grid, and their parts.
    rng : Rng
        Source of randomness.

    Returns
    -------
    ndarray of int, shape (J,)
        The boundaries, in ascending order.
    ndarray of int, shape (J,)
        Index of the gap in which each boundary lies.
    """
    knots = np.concatenate([[0], values, [parts.end]])
    sizes = np.diff(knots)
    lengths = sizes.astype(float)
    errors = wanted.errors(ranks)
    gaps = backward_pass(forward_pass(errors, lengths, wanted.rates), errors, lengths, wanted.rates, rng)
    return np.sort(knots[gaps] + rng.integers(0, sizes[gaps], None)), gaps


@dataclass(eq=False)
class Window:
    """The sorted values whose ranks lie in given intervals of ranks, called spans.

    A span (start, stop) consists of the ranks start + 1, ..., stop. `values` has the values with ranks in the spans,
    each stored as the index of a random part of the cell around its grid point (`Parts`). These values divide the range
    into ``len(values) + 1`` gaps. The mask `holes` marks the gaps that contain further values. `labels` has the rank of
    a boundary (noisy quantile) in each gap; in a gap with further values, it is the rank at the lower end of the gap
    or, for the first gap, at its upper end.

    `stretches` has, for each span, the smallest and the largest grid point of its values. `inside` has all values
    between these two points, in sorted order, including ties at the points with ranks outside the span. The other
    values are read only if the method `all` is called. The other fields are the column of all values (`of_all`), the
    cells of the grid (`parts`), the source of randomness (`rng`), and the result of `all` after its first call
    (`everything`).
    """

    values: IntArray
    labels: FloatArray
    holes: NDArray[np.bool_]
    inside: IntArray
    stretches: Stretches
    of_all: Ranked
    parts: Parts
    rng: Rng
    everything: IntArray | None = None

    @classmethod
    def of(cls, values: Ranked, spans: Sequence[tuple[int, int]], parts: Parts, rng: Rng) -> Window:
        """Return the `Window` of the values with ranks in `spans`: ascending, separate pairs (start, stop).

        Each value is moved to a random part of the grid cell around it; `parts` has the cells and their parts.
        """
        (first, _), filled = spans[0], [span for span in spans if span[0] < span[1]]
        labels = np.concatenate([[first], *(np.arange(start + 1, stop + 1) for start, stop in spans)]).astype(float)
        holes = np.append(np.diff(labels) > 1, labels[-1] < values.n)
        holes[0] |= first > 0
        near, less = values.near(filled)
        # positions of the spans' values in the sorted array of the values that were read
        places = [(start - below, stop - below) for (start, stop), below in zip(filled, less, strict=True)]
        sorted_at = np.partition(near, [k for start, stop in places for k in (start, stop - 1)]) if filled else near
        stretches = [(sorted_at[start], sorted_at[stop - 1]) for start, stop in places]
        inside = np.sort(parts.spread(np.sort(those(near, stretches)), rng))
        points = parts.units(inside)
        kept = [np.zeros(0, dtype=np.int64)]
        for (start, stop), (lowest, _) in zip(places, stretches, strict=True):
            skip = start - np.count_nonzero(near < lowest) + np.searchsorted(points, lowest)
            kept.append(inside[skip : skip + stop - start])
        return cls(np.concatenate(kept), labels, holes, inside, stretches, values, parts, rng)

    def all(self) -> IntArray:
        """Return all values, sorted; each is given as the index of a random part of the grid cell around it (`Parts`).

        The values outside the intervals `stretches` are read from the column when this method is first called.
        """
        if self.everything is None:
            ends = pairwise([(-math.inf, -math.inf), *self.stretches, (math.inf, math.inf)])
            outside = self.of_all.take([(last + 1, first - 1) for (_, last), (first, _) in ends])
            self.everything = np.sort(np.concatenate([self.inside, self.parts.spread(np.sort(outside), self.rng)]))
        return self.everything

    def ranks(self, x: IntArray) -> FloatArray:
        """Return each boundary's rank: the number of values whose part index is at most the boundary's index in `x`."""
        return np.searchsorted(self.all(), x, side="right").astype(float)


Forward = tuple[list[FloatArray], list[FloatArray]]


def forward_pass(errors: FloatArray, lengths: FloatArray, rates: FloatArray) -> Forward:
    """Return two lists of arrays, `arrive` and `leave`: log weights of the first j boundaries, for each j and gap.

    The boundaries (noisy quantiles) lie, in ascending order, in K gaps between sorted values; a gap may contain
    several. A weight is the integral, over all positions of boundaries 1, ..., j, of the factors of the unnormalised
    joint density that belong to these boundaries.

    Parameters
    ----------
    errors : ndarray, shape (J, K)
        Rank error (rank minus target rank) of each boundary in each gap.
    lengths : ndarray, shape (K,)
        Lengths of the gaps.
    rates : ndarray, shape (J + 1,)
        For each cell, the decrease of the log density per value above or below the cell's target number of values.

    Returns
    -------
    arrive : list of ndarray, shape (K,)
        ``arrive[j][i]``, j = 0, ..., J - 1, is the log weight if boundaries 1, ..., j lie in gaps before gap i, and
        boundary j + 1 has a fixed position in gap i. This weight includes the factor of the cell below boundary j + 1.
    leave : list of ndarray, shape (K,)
        ``leave[j][i]``, j = 1, ..., J, is the log weight if boundary j lies in gap i, without the factor of the next
        cell. ``leave[0]`` is empty.
    """
    arrive, leave = [-rates[0] * np.abs(errors[0])], [np.empty(0)]
    with np.errstate(divide="ignore"):
        log_length = np.log(lengths)
    for j in range(1, len(errors) + 1):
        leave.append(in_gaps(arrive, leave, errors[:j], log_length, rates))
        if j < len(errors):
            arrive.append(laplace_kernel(leave[j], errors[j - 1], errors[j], rates[j]))
    return arrive, leave


def in_gaps(
    arrive: list[FloatArray], leave: list[FloatArray], errors: FloatArray, log_length: FloatArray, rates: FloatArray
) -> FloatArray:
    """Return ``leave[j]``, shape (K,), an array of log weights of the first j boundaries that `forward_pass` defines.

    The array has, for each of K gaps, the log weight of boundaries 1, ..., j if boundary j lies in this gap. The lists
    `arrive` and `leave` are given up to index j - 1. `errors`, shape (j, K), has the rank errors of the boundaries in
    each gap, `log_length` the logs of the gaps' lengths, and `rates` is as in `forward_pass`.

    The weight for gap i is a sum over the number m = 1, ..., j of boundaries in gap i. Term m is computed only for
    gaps in which an upper bound of the terms m, m + 1, ... together is not negligible. For a gap of length L, this
    bound is ``exp(leave[j - m + 1][i]) L^(m - 1) / m!``, times the factor of the m - 1 empty cells between the last m
    boundaries (`same_gap`). Proof: if s >= 1 of the first j - m + 1 boundaries lie in gap i, too, the positions in the
    gap have the volume ``L^(s + m - 1) / (s + m - 1)!``, and ``(s + m - 1)! >= s! m!``.
    """
    j, total, cost = len(errors), log_length + arrive[-1], np.zeros(len(log_length))
    every: IntArray = np.arange(len(total))
    gaps: slice | IntArray = slice(None)
    for m in range(2, j + 1):
        k = j - m + 1
        cost = cost + rates[k] * (errors[k - 1, gaps] - errors[k, gaps])
        bound = same_gap(m - 1, log_length[gaps], leave[k][gaps], cost + math.log(m))
        matter = np.flatnonzero(bound > total[gaps] - NEGLIGIBLE)
        if not len(matter):
            break
        if 2 * len(matter) < len(cost):
            gaps, cost = every[gaps][matter], cost[matter]
        total[gaps] = np.logaddexp(total[gaps], same_gap(m, log_length[gaps], arrive[j - m][gaps], cost))
    return total


def backward_pass(
    forward: Forward, errors: FloatArray, lengths: FloatArray, rates: FloatArray, rng: Rng
) -> NDArray[np.intp]:
    """Return the index of a random gap between sorted values for each boundary (noisy quantile), shape (J,), ascending.

    The gaps are drawn jointly, with a probability proportional to the integral of the boundaries' joint density over
    all positions in these gaps. The gaps are drawn from the last boundary to the first. `forward` is the result of
    `forward_pass` for the same `errors`, `lengths` and `rates`.
    """
    arrive, leave = forward
    gaps, j = np.zeros(len(errors), dtype=np.intp), len(errors)
    log_weight = leave[j] - rates[j] * np.abs(errors[j - 1])
    while True:
        i = int(choose(rng, log_weight, 1)[0])
        with np.errstate(divide="ignore"):
            log_length = np.log(lengths[i])
        empty = enumerate(empty_cells(errors[:j, i], rates), 1)
        ways = np.array([same_gap(m, log_length, arrive[j - m][i], cost) for m, cost in empty])
        m = 1 + int(choose(rng, ways, 1)[0])
        gaps[j - m : j] = i
        j -= m
        if j == 0:
            return gaps
        log_weight = leave[j][:i] - rates[j] * np.abs(errors[j, i] - errors[j - 1, :i])


def empty_cells(errors: FloatArray, rates: FloatArray) -> Iterator[FloatArray]:
    """Yield, for m = 1, ..., j, the decrease of the log density due to the cells between the last m of j boundaries.

    These m boundaries (noisy quantiles) lie in one gap between sorted values, so the cells between them are empty. The
    cell between boundaries k and k + 1 lowers the log density by ``rates[k]`` times the difference of their rank
    errors.

    Parameters
    ----------
    errors : ndarray, shape (j, ...)
        Rank errors (rank minus target rank) of boundaries 1, ..., j in this gap.
    rates : ndarray
        Decrease of the log density per value above or below the target number of values in a cell between boundaries.
    """
    cost = np.zeros_like(errors[0])
    yield cost
    for k in range(len(errors) - 1, 0, -1):
        cost = cost + rates[k] * (errors[k - 1] - errors[k])
        yield cost


def same_gap(m: int, log_length: FloatArray, arrive: FloatArray, empty: FloatArray) -> FloatArray:
    """Return the log weight of placing m boundaries in one gap, and all preceding boundaries in earlier gaps.

    The weight is a product of three factors: the volume ``length^m / m!`` of the m boundaries' positions in the gap,
    with the log of the gap's length in `log_length`; ``exp(-empty)``, for the m - 1 cells without values between them
    (`empty_cells`); and ``exp(arrive)``, for the preceding boundaries in earlier gaps (`forward_pass`). An array
    argument has one entry for each gap.
    """
    return m * log_length + (arrive - (math.lgamma(m + 1) + empty))


def laplace_kernel(x: FloatArray, before: FloatArray, after: FloatArray, rate: float) -> FloatArray:
    """Return ``log sum_{i < k} exp(x_i - rate |after_k - before_i|)`` for each gap k = 0, ..., K - 1, shape (K,).

    This is the log weight of a boundary (noisy quantile) in gap k, summed over all gaps i < k of the preceding
    boundary. `x` has the log weights of the preceding boundary in the K gaps, `before` its rank errors, and `after` the
    rank errors of the boundary itself. Rank errors ascend from gap to gap, so the terms with ``before_i <= after_k``
    come first. These terms and the later terms are summed separately; no cumulative sums are subtracted, because a
    subtraction would lose digits.
    """
    k = np.arange(len(x))
    cut = np.minimum(np.searchsorted(before, after, side="right"), k)
    prefix = np.append(-np.inf, np.logaddexp.accumulate(x + rate * before))
    return np.logaddexp(prefix[cut] - rate * after, range_sums(x - rate * before, cut, k) + rate * after)


def range_sums(y: FloatArray, first: IntArray, end: IntArray) -> FloatArray:
    """Return ``log sum exp(y_i)`` over each of m ranges ``first <= i < end``, shape (m,); -inf for an empty range.

    A range of several indices is split at a multiple of the largest possible power of two. The sums of its two parts
    are read from cumulative sums that begin at the split, so that no sums are subtracted (a disjoint sparse table).
    """
    out = np.full(len(first), -np.inf)
    some = np.flatnonzero(first < end)
    a, b = first[some], end[some] - 1
    out[some] = y[a]
    digits = np.frexp((a ^ b).astype(float))[1]
    for d in np.unique(digits[digits > 0]):
        half, at = 1 << (int(d) - 1), digits == d
        block, which = np.unique(b[at] // (2 * half), return_inverse=True)
        middle = (2 * block + 1)[:, None] * half
        left, right = middle[which, 0] - 1 - a[at], b[at] - middle[which, 0]
        before, after = middle - 1 - np.arange(left.max() + 1), middle + np.arange(right.max() + 1)
        below = np.logaddexp.accumulate(y[before], axis=1)
        above = np.logaddexp.accumulate(y[np.minimum(after, len(y) - 1)], axis=1)
        out[some[at]] = np.logaddexp(below[which, left], above[which, right])
    return out
