"""Several boundaries whose ranks among the values are near target ranks, drawn jointly and exactly.

J boundaries ``x_1 <= ... <= x_J`` divide the values into J + 1 cells with c_0, ..., c_J values. (This docstring calls
the cells around the points of the public grid "grid cells".) The density of the boundaries on the ordered points of an
interval is proportional to ``exp(-sum_j rates_j |c_j - w_j|)``, with given positive rates, where w_j is the difference
of the neighbouring target ranks (Gillenwater, Joseph and Kulesza 2021). The density is constant while each boundary
stays in one gap between sorted values. The gaps are drawn one after the other, from the last boundary to the first, by
their total weights (integrals of the density), which a forward pass computes beforehand. Its step from one boundary to
the next is a convolution with a Laplace kernel. The positions of m boundaries in one gap have the volume length^m / m!.

*Windows.* Only values in windows of ranks, ``width`` ranks on both sides of each target, are read. Boundary j, above
rank_j values, has the error ``e_j = rank_j - target_j``; let e_0 = e_(J+1) = 0. The density is ``exp(-sum_j rates_j
|e_(j+1) - e_j|)``, up to a factor. Clamping each e_j to [-width, width] increases no distance between errors. So the
density at the clamped errors is an upper bound, the envelope. The envelope is constant for all ranks below target_j -
width, and for all ranks above target_j + width, so it does not depend on the values between two windows. Boundaries are
drawn from the envelope. If a boundary lies outside its own window, the boundaries are accepted with a probability equal
to the ratio of the density to the envelope. If they are rejected, new boundaries are drawn from the density itself,
over all values. The result has the same law as if proposals were repeated until a proposal is accepted. So the draw is
exact for every width, and no draw takes longer than one draw over all values.

Values are rounded to a public grid, and then spread uniformly over the grid cells by secret noise, so that ties cause
no problem: the law is a mixture over this noise, which is the same for both neighbours. The noise is a whole number of
parts of a grid cell (`Parts`). So a boundary is drawn exactly, as a uniform whole number of parts in its gap. The
widths of the grid cells are public. Values are sorted before noise is added: given a seed, row order has no effect.
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

# the cells around zero and both bounds, where ties are frequent, are widened by this share of the range in total
HEAPED = 0.03
RARE = 30.0  # a boundary outside its window of ranks is proposed with probability at most about exp(-RARE)
NEGLIGIBLE = 45.0  # a term below exp(-NEGLIGIBLE) < 2^-64, relative to a sum, does not change the sum in float64
PART_BITS = 62  # log2 of the largest number of parts of all grid cells together


@dataclass(frozen=True)
class Parts:
    """The cells around the points of a public grid, each divided into equal parts, which are numbered from 0.

    A cell has 2^bits parts. The cells around zero and around both ends of the grid have `more` times 2^bits further
    parts, because many values may be equal to these points. The gaps between equal values in such a cell are then
    longer, so that boundaries (noisy quantiles) are drawn more often from these gaps, and less often from a long gap
    beside the cell.

    Positions are real numbers: part k is the interval ``[k, k + 1)``, and a value in part k has the position k. So a
    gap between two values consists of whole parts, and a boundary that is uniform in the gap lies in each of them with
    the same probability. The part of a boundary determines its grid point, so only the part is drawn.
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
        """Return, in grid steps, the grid points of the cells that contain the parts with the indices `parts`."""
        cells = parts >> self.bits
        for heap in self.heaps:
            cells = cells - np.clip(cells - heap, 0, self.more)
        return self.grid.first + cells.astype(float)

    def released(self, parts: IntArray) -> FloatArray:
        """Return, in the units of the values, the grid points of the cells that contain the parts numbered `parts`."""
        return self.grid.points(self.units(parts))


@dataclass(frozen=True, eq=False)
class Targets:
    """Target ranks of J boundaries (noisy quantiles) that are drawn jointly, with parameters of their density.

    Parameters
    ----------
    ranks : ndarray, shape (J,)
        Target ranks of the boundaries, ascending.
    rates : ndarray, shape (J + 1,)
        Decrease of the log density per value above or below the target number of values in a cell between boundaries.
    width : float
        Half-width of the window of ranks around each target; at first, only values with ranks in a window are read.
    """

    ranks: FloatArray
    rates: FloatArray
    width: float

    @property
    def J(self) -> int:
        return len(self.ranks)

    def spans(self, n: int) -> list[tuple[int, int]]:
        """Return the windows of ranks around the target ranks: pairs (start, stop) for the ranks start + 1 to stop.

        Windows that overlap are merged.
        """
        spans: list[tuple[int, int]] = []
        for target in self.ranks:
            start, stop = int(max(0.0, target - self.width)), int(min(float(n), np.ceil(target + self.width)))
            if spans and start <= spans[-1][1]:
                start = spans.pop()[0]
            spans.append((start, stop))
        return spans

    def errors(self, ranks: FloatArray) -> FloatArray:
        """Return the rank error (rank minus target rank) of each of J boundaries at each of K ranks, shape (J, K).

        `ranks` has the shape (K,). The errors are clamped to [-width, width], where `width` is the half-width of the
        windows of ranks around the target ranks.
        """
        return np.clip(ranks - self.ranks[:, None], -self.width, self.width)

    def cost(self, errors: FloatArray) -> float:
        """Return minus the log density, up to a constant, of boundaries with the given rank errors, shape (J,).

        The result is the sum of ``rates[j] |e_(j+1) - e_j|`` over j = 0, ..., J, where e_j is the rank error (rank
        minus target rank) of boundary j, and e_0 = e_(J+1) = 0.
        """
        return float(self.rates @ np.abs(np.diff(errors, prepend=0.0, append=0.0)))

    def excess(self, ranks: FloatArray) -> float:
        """Return log(envelope / density), for the joint density of J boundaries with the given ranks, shape (J,).

        The envelope is an upper bound of the density: the density at rank errors that are clamped to [-width, width],
        where `width` is the half-width of the windows of ranks around the target ranks.
        """
        errors = ranks - self.ranks
        return self.cost(errors) - self.cost(np.clip(errors, -self.width, self.width))


def draw_joint(
    values: Ranked, targets: FloatArray, rates: FloatArray, rng: Rng, width: float | None = None
) -> FloatArray:
    """Return random boundaries that divide the values into cells with nearly the target numbers of values.

    Parameters
    ----------
    values : Ranked
        The n values, rounded to the public grid from which the boundaries are drawn.
    targets : ndarray, shape (J,)
        Target ranks, ascending, in [0, n].
    rates : ndarray, shape (J + 1,)
        Decrease of the log density per value above or below a cell's target number of values, positive.
    rng : Rng
    width : float, optional
        Half-width of the window of ranks around each target; at first, only values with ranks in a window are read.
        With the default, boundaries outside their windows are improbable.

    Returns
    -------
    ndarray, shape (J,)
        Points of the grid, ascending.
    """
    parts, n, rates = Parts(values.grid), values.n, np.asarray(rates, dtype=float)
    targets = np.clip(targets, 0.0, n)
    if width is None:
        # `Targets.cost`, minus the log density, is `nearest` if each rank is the whole number nearest to its target.
        # It is at least 2 width min(rates) if a boundary is outside its window; with this width, such a draw is
        # improbable.
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
    """Return J boundaries (noisy quantiles) drawn from the envelope of their density, and the indices of their gaps.

    The envelope is an upper bound of the density: the density at clamped rank errors (`Targets.errors`). The target
    ranks and the parameters of the density are in `wanted`. The boundaries and the sorted `values` are indices of
    parts of grid cells (`Parts`). `ranks`, shape (len(values) + 1,), has the rank of a boundary in each gap: the gap
    below the smallest value, the gaps between two values, and the gap above the largest value.
    """
    knots = np.concatenate([[0], values, [parts.end]])
    sizes = np.diff(knots)
    lengths = sizes.astype(float)
    errors = wanted.errors(ranks)
    gaps = backward_pass(forward_pass(errors, lengths, wanted.rates), errors, lengths, wanted.rates, rng)
    return np.sort(knots[gaps] + rng.integers(0, sizes[gaps], None)), gaps


@dataclass(eq=False)
class Window:
    """The values with ranks in given intervals of ranks (spans), sorted.

    A span (start, stop) has the ranks start + 1, ..., stop. `values` has the values with ranks in the spans, each
    stored as the index of a random part of the grid cell around it (`Parts`). The intervals below, between and above
    these values are called gaps; the mask `holes` marks the gaps that contain values with other ranks. `labels`, shape
    (len(values) + 1,), has the number of values below each gap; for the first gap, it includes the values in the gap.

    `stretches` has, for each span, the smallest and the largest grid point of its values. `inside` has all values from
    the smallest to the largest point of a span, including ties at these points with ranks outside the span. All other
    values are used only if the method `all` is called.
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
        """Return the `Window` of the values with ranks in `spans`: ascending, separate pairs (start, stop)."""
        (first, _), filled = spans[0], [span for span in spans if span[0] < span[1]]
        labels = np.concatenate([[first], *(np.arange(start + 1, stop + 1) for start, stop in spans)]).astype(float)
        holes = np.append(np.diff(labels) > 1, labels[-1] < values.n)
        holes[0] |= first > 0
        near, less = values.near(filled)
        # positions of the spans in the sorted array of the values that were read
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
    """Return two lists, `arrive` and `leave`, of arrays of shape (K,): logs of total weights of placements.

    A placement puts boundaries (noisy quantiles), in ascending order, into the K gaps between sorted values; a gap may
    contain several boundaries. The weight of a placement is the integral of the boundaries' unnormalised joint density
    over all positions in their gaps. For j = 0, ..., J - 1, ``arrive[j][i]`` refers to the placements of boundaries 1,
    ..., j in gaps before gap i, given that boundary j + 1 has a fixed position in gap i. For j = 1, ..., J,
    ``leave[j][i]`` refers to the placements of boundaries 1, ..., j with boundary j in gap i, given that boundary
    j + 1 is in a later gap.

    Parameters
    ----------
    errors : ndarray, shape (J, K)
        Rank error (rank minus target rank) of each boundary in each gap.
    lengths : ndarray, shape (K,)
        Lengths of the gaps.
    rates : ndarray, shape (J + 1,)
        Decrease of the log density per value above or below the target number of values in a cell between boundaries.
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
    """Return, for each of K gaps, the log of the total weight of placements with boundary j in this gap, shape (K,).

    A placement puts boundaries 1, ..., j into gaps between values. `forward_pass` defines its weight, `rates`, and the
    lists `arrive` and `leave`, which are given for fewer than j boundaries; the result is ``leave[j]``. `errors`,
    shape (j, K), has the rank errors of the boundaries in each gap, and `log_length` the logs of the gaps' lengths.

    The total weight for gap i is a sum over m = 1, ..., j: term m belongs to the placements with exactly m boundaries
    in gap i. If terms m, m + 1, ... are negligible in most gaps, they are computed only for the other gaps. With the
    length L of gap i, the sum of these terms is at most ``exp(leave[j - m + 1][i]) L^(m - 1) / m!``, times a factor
    for the empty cells between the last m boundaries (`same_gap`). Proof: the positions of s + m - 1 boundaries in gap
    i, s >= 1, have the volume ``L^(s + m - 1) / (s + m - 1)!``, and ``(s + m - 1)! >= s! m!``.
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
    all positions in these gaps. They are drawn from the last boundary to the first. `forward` is the result of
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

    The weight is a product of three factors: the volume ``length^m / m!`` of the m boundaries' positions in the gap;
    ``exp(-empty)``, for the m - 1 cells without values between them (`empty_cells`); and ``exp(arrive)``, for the
    preceding boundaries in earlier gaps (`forward_pass`). An array argument has one entry for each gap.
    """
    return m * log_length + (arrive - (math.lgamma(m + 1) + empty))


def laplace_kernel(x: FloatArray, before: FloatArray, after: FloatArray, rate: float) -> FloatArray:
    """Return ``log sum_{i < k} exp(x_i - rate |after_k - before_i|)`` for k = 0, ..., K - 1.

    The arrays have the length K, the number of gaps between sorted values: `x` has log weights, and `before` and
    `after` have the rank errors of two neighbouring boundaries (noisy quantiles) in each gap. Rank errors ascend from
    gap to gap; so the first terms of the sum for k have ``before_i <= after_k``, and all later ones ``before_i >
    after_k``. Both groups of terms are summed without a difference of cumulative sums, which would lose digits.
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
