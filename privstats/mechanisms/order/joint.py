"""Several boundaries whose ranks among values are near given ones, drawn jointly and exactly.

J boundaries ``x_1 <= ... <= x_J`` cut the values into cells of c_0, ..., c_J values. Their density on the ordered
points of an interval is proportional to ``exp(-sum_j rates_j |c_j - w_j|)``, where w_j is the difference of the
neighbouring target ranks (Gillenwater, Joseph and Kulesza 2021). It is constant where each boundary stays in one gap
between sorted values. Boundaries are drawn gap by gap, last to first, after a forward pass that sums over all gaps, for
each boundary with a Laplace kernel. m boundaries in the same gap have the volume ``length^m / m!``.

*Windows.* Only values whose ranks are near a target are looked at. Write ``e_j = rank_j - target_j``, e_0 = e_J+1 = 0:
the density is ``exp(-sum_j rates_j |e_j+1 - e_j|)``. Each e_j moved into [-width, width] moves no two of them further
apart, so that the density of the moved ones is nowhere smaller: an envelope. It is the same for all ranks beyond
target_j +- width, so that all gaps between two windows are one to it, whatever values they hold. Boundaries are drawn
by the envelope; where one lies beyond its own window, they are accepted with the ratio of the densities. If they are
not, they are drawn again by the density itself, over all values: rejection that goes on until it accepts has that law,
too. So this is exact, whatever the width, and no draw takes longer than one over all values.

Values are rounded to a public grid, then spread uniformly over its cells by secret noise, so that ties do no harm: the
law is a mixture over that noise, which neighbours share. The noise is a whole number of parts of a cell (`Parts`), so
that a boundary's part is drawn exactly: all parts of a gap alike, as whole numbers. How wide the cells are is public.
Values are sorted before the noise is added, so that under one seed no order of rows changes a bit.
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

HEAPED = (
    0.03  # of a range's width, which is zero's and its ends': what rows often share, as amounts and clamped values do
)
RARE = 30.0  # boundaries beyond their windows are proposed with probability of at most about exp(-RARE)
NEGLIGIBLE = 45.0  # exp(-45) < 2^-64: terms that change no bit of a sum
PART_BITS = 62  # all parts of all cells are fewer than two to this power


@dataclass(frozen=True)
class Parts:
    """The cells around the points of a grid, cut into equal parts; all parts are numbered from 0.

    A cell has 2^bits of them, those of zero and of the ends of the grid, where values pile up, `more` times as many
    besides: a boundary that leaves them for the gap beside them gains that much less.

    Part k is the interval ``[k, k + 1)`` of a line on which positions are real numbers. Where knots lie at whole
    numbers, a boundary that is uniform in a gap between two of them lies in each part of it with the same probability,
    and the part decides its grid point: only the part is drawn.
    """

    grid: RankGrid

    @cached_property
    def heaps(self) -> IntArray:
        """Zero and the ends of the grid, counted from its first point, ascending."""
        ends = np.array([self.grid.first, self.grid.last, np.clip(0.0, self.grid.first, self.grid.last)])
        return np.unique(ends - self.grid.first).astype(np.int64)

    @cached_property
    def more(self) -> int:
        """How much wider the cells of `heaps` are, in cells."""
        return int(HEAPED * (self.grid.last - self.grid.first + 1)) // len(self.heaps)

    @cached_property
    def cells(self) -> int:
        """The width of all cells, in those of ordinary points."""
        return int(self.grid.last - self.grid.first) + 1 + self.more * len(self.heaps)

    @property
    def bits(self) -> int:
        """Of the number of parts in a cell; at least ten, as grids have at most 2^51 points."""
        return PART_BITS - self.cells.bit_length()

    @property
    def end(self) -> int:
        """The number of all parts."""
        return self.cells << self.bits

    def spread(self, units: FloatArray, rng: Rng) -> IntArray:
        """Return grid points, in steps, moved to a part of their cells, all alike."""
        points = (units - self.grid.first).astype(np.int64)
        cells = points + self.more * np.searchsorted(self.heaps, points)
        wide = np.isin(points, self.heaps)
        return np.asarray((cells << self.bits) + rng.integers(0, (1 + self.more * wide) << self.bits, len(cells)))

    def units(self, parts: IntArray) -> FloatArray:
        """Return the grid points, in steps, in whose cells these parts are."""
        cells = parts >> self.bits
        for heap in self.heaps:
            cells = cells - np.clip(cells - heap, 0, self.more)
        return self.grid.first + cells.astype(float)

    def released(self, parts: IntArray) -> FloatArray:
        """Return the numbers of the grid points in whose cells these parts are."""
        return self.grid.points(self.units(parts))


@dataclass(frozen=True, eq=False)
class Targets:
    """Wanted ranks, ascending, shape (J,), the rates of the cells' errors, shape (J + 1,), and the windows' width."""

    ranks: FloatArray
    rates: FloatArray
    width: float

    @property
    def J(self) -> int:
        return len(self.ranks)

    def spans(self, n: int) -> list[tuple[int, int]]:
        """Return the windows, of the values of ranks start + 1 to stop; those that touch are one."""
        spans: list[tuple[int, int]] = []
        for target in self.ranks:
            start, stop = int(max(0.0, target - self.width)), int(min(float(n), np.ceil(target + self.width)))
            if spans and start <= spans[-1][1]:
                start = spans.pop()[0]
            spans.append((start, stop))
        return spans

    def errors(self, ranks: FloatArray) -> FloatArray:
        """Return the errors e_j of all boundaries at these ranks, moved into their windows, shape (J, K)."""
        return np.clip(ranks - self.ranks[:, None], -self.width, self.width)

    def cost(self, errors: FloatArray) -> float:
        """Return ``sum_j rates_j |e_j+1 - e_j|`` of errors, shape (J,)."""
        return float(self.rates @ np.abs(np.diff(errors, prepend=0.0, append=0.0)))

    def excess(self, ranks: FloatArray) -> float:
        """Return what the log density of boundaries at these ranks, shape (J,), is below the envelope."""
        errors = ranks - self.ranks
        return self.cost(errors) - self.cost(np.clip(errors, -self.width, self.width))


def draw_joint(
    values: Ranked, targets: FloatArray, rates: FloatArray, rng: Rng, width: float | None = None
) -> FloatArray:
    """Draw boundaries whose cells have nearly the wanted numbers of values.

    Parameters
    ----------
    values : Ranked
        n values, on the grid of the draws.
    targets : ndarray, shape (J,)
        Wanted ranks, ascending, in [0, n].
    rates : ndarray, shape (J + 1,)
        What the log density loses for each value too many or too few in a cell, positive.
    rng : Rng
        Source of randomness.
    width : float, optional
        Ranks on each side of a target in its window; by default so many that a draw beyond them is improbable.

    Returns
    -------
    ndarray, shape (J,)
        Points of the grid, ascending.
    """
    parts, n, rates = Parts(values.grid), values.n, np.asarray(rates, dtype=float)
    targets = np.clip(targets, 0.0, n)
    if width is None:
        # there and back costs 2 width rates at least; the nearest ranks little, and their volume is a part^J or more
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
    """Draw boundaries among sorted values by the envelope: their parts and their gaps, whose ranks are given."""
    knots = np.concatenate([[0], values, [parts.end]])
    sizes = np.diff(knots)
    lengths = sizes.astype(float)
    errors = wanted.errors(ranks)
    gaps = backward_pass(forward_pass(errors, lengths, wanted.rates), errors, lengths, wanted.rates, rng)
    return np.sort(knots[gaps] + rng.integers(0, sizes[gaps], None)), gaps


@dataclass(eq=False)
class Window:
    """Values of some spans of ranks, spread over their cells' parts and sorted.

    Whole cells are spread, also where only some of their values are in a span: `inside` are the values of the
    `stretches` of grid points that the spans touch. The others, of all, are read when they are first asked for.
    `values` are those of the spans, of the ranks start + 1, ..., stop of each; `labels` are the ranks of the gaps
    between them, shape (len(values) + 1,), which are right but for the `holes`, gaps that hold other values: there it
    is a rank at one of their ends.
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
        """Return the windows of some values; spans ascend and do not touch."""
        (first, _), filled = spans[0], [span for span in spans if span[0] < span[1]]
        labels = np.concatenate([[first], *(np.arange(start + 1, stop + 1) for start, stop in spans)]).astype(float)
        holes = np.append(np.diff(labels) > 1, labels[-1] < values.n)
        holes[0] |= first > 0
        near, less = values.near(filled)
        # the spans, by ranks among the values nearby
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
        """Return all values, spread and sorted; the others are when this is first asked for."""
        if self.everything is None:
            ends = pairwise([(-math.inf, -math.inf), *self.stretches, (math.inf, math.inf)])
            outside = self.of_all.take([(last + 1, first - 1) for (_, last), (first, _) in ends])
            self.everything = np.sort(np.concatenate([self.inside, self.parts.spread(np.sort(outside), self.rng)]))
        return self.everything

    def ranks(self, x: IntArray) -> FloatArray:
        """Return the ranks of boundaries in these parts among all values: how many lie up to where the part begins."""
        return np.searchsorted(self.all(), x, side="right").astype(float)


Forward = tuple[list[FloatArray], list[FloatArray]]


def forward_pass(errors: FloatArray, lengths: FloatArray, rates: FloatArray) -> Forward:
    """Return ``arrive`` and ``leave``, two lists of arrays of shape (K,): logarithms of sums over all ways.

    ``arrive[j][i]``: boundaries 1 .. j are in gaps before i, boundary j + 1 comes next, in gap i, whose volume is not
    counted yet. ``leave[j][i]``: boundaries 1 .. j are placed, the last of them in gap i, the next one after it.

    Parameters
    ----------
    errors : ndarray, shape (J, K)
        Of each boundary in each gap.
    lengths : ndarray, shape (K,)
        Of the gaps.
    rates : ndarray, shape (J + 1,)
    """
    arrive, leave = [-rates[0] * np.abs(errors[0])], [np.empty(0)]
    with np.errstate(divide="ignore"):
        log_length = np.log(lengths)
    for j in range(1, len(errors) + 1):
        cells = enumerate(empty_cells(errors[:j], rates), 1)
        terms = (same_gap(m, log_length, arrive[j - m], empty) for m, empty in cells)
        total = next(terms)
        for term in terms:
            counts = np.flatnonzero(term > total - NEGLIGIBLE)
            total[counts] = np.logaddexp(total[counts], term[counts])
        leave.append(total)
        if j < len(errors):
            arrive.append(laplace_kernel(total, errors[j - 1], errors[j], rates[j]))
    return arrive, leave


def backward_pass(
    forward: Forward, errors: FloatArray, lengths: FloatArray, rates: FloatArray, rng: Rng
) -> NDArray[np.intp]:
    """Draw the gaps of all boundaries, shape (J,), ascending, counted from the first."""
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
    """Yield, for m = 1, ..., j, what m - 1 cells without values cost, between boundaries j - m + 1, ..., j in a gap.

    Parameters
    ----------
    errors : ndarray, shape (j, ...)
        Of boundaries 1, ..., j in this gap.
    rates : ndarray
    """
    cost = np.zeros_like(errors[0])
    yield cost
    for k in range(len(errors) - 1, 0, -1):
        cost = cost + rates[k] * (errors[k - 1] - errors[k])
        yield cost


def same_gap(m: int, log_length: FloatArray, arrive: FloatArray, empty: FloatArray) -> FloatArray:
    """Return the log weight of m boundaries in one gap: its volume, ``length^m / m!``, and the cells between them."""
    return m * log_length + (arrive - (math.lgamma(m + 1) + empty))


def laplace_kernel(x: FloatArray, before: FloatArray, after: FloatArray, rate: float) -> FloatArray:
    """Return ``log sum_{i < k} exp(x_i - rate |after_k - before_i|)`` for every k, shape (K,); both ascend.

    Terms with ``before_i <= after_k`` are a prefix, the others a range up to k. Nothing is subtracted.
    """
    k = np.arange(len(x))
    cut = np.minimum(np.searchsorted(before, after, side="right"), k)
    prefix = np.append(-np.inf, np.logaddexp.accumulate(x + rate * before))
    return np.logaddexp(prefix[cut] - rate * after, range_sums(x - rate * before, cut, k) + rate * after)


def range_sums(y: FloatArray, first: IntArray, end: IntArray) -> FloatArray:
    """Return ``log sum exp(y_i)`` over ``first <= i < end``, shape (m,): -inf where there is none.

    A range whose first and last index differ in binary digit d, and in none above, lies in one block of 2^(d + 1) and
    holds its middle: it is the end of one half and the beginning of the other (a disjoint sparse table). Halves are
    added up in blocks that hold such ranges, from the middle on, as far as one of these reaches.
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
