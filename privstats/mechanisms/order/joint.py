"""Several boundaries whose ranks among values are near given ones, drawn jointly and exactly.

J boundaries ``x_1 <= ... <= x_J`` cut the values into cells of c_0, ..., c_J values. Their density on the ordered
points of an interval is proportional to ``exp(-sum_j rates_j |c_j - w_j|)``, where w_j is the difference of the
neighbouring target ranks (Gillenwater, Joseph and Kulesza 2021). It is constant where each boundary stays in one gap
between sorted values. Boundaries are drawn gap by gap, last to first, after a forward pass that sums over all gaps: a
convolution with a Laplace kernel for each boundary, in time linear in the number of gaps. m boundaries in the same gap
have the volume ``length^m / m!``.

Values are rounded to a public grid, then spread uniformly over its cells by secret noise, so that ties do no harm: the
law is a mixture over that noise, which neighbours share. The noise is a whole number of parts of a cell (`Parts`), so
that a boundary's part is drawn exactly: all parts of a gap alike, as whole numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privstats.mechanisms.additive.tails import choose, passes
from privstats.mechanisms.order.rank_sampler import RankGrid
from privstats.numerics.law import FloatArray, IntArray, Rng

RARE = 30.0  # boundaries beyond the window are proposed with probability of at most about exp(-RARE)
NEGLIGIBLE = 45.0  # exp(-45) < 2^-64: terms that change no bit of a sum
PART_BITS = 62  # all parts of all cells are fewer than two to this power


@dataclass(frozen=True)
class Parts:
    """The cells around the points of a grid, each cut into 2^bits equal parts; all parts are numbered from 0.

    Part k is the interval ``[k, k + 1)`` of a line on which positions are real numbers. Where knots lie at whole
    numbers, a boundary that is uniform in a gap between two of them lies in each part of it with the same probability,
    and the part decides its grid point: only the part is drawn.
    """

    grid: RankGrid

    @property
    def points(self) -> int:
        """How many points the grid has."""
        return int(self.grid.last - self.grid.first) + 1

    @property
    def bits(self) -> int:
        """Of the number of parts in a cell; at least ten, as grids have at most 2^51 points."""
        return PART_BITS - self.points.bit_length()

    @property
    def end(self) -> int:
        """The number of all parts."""
        return self.points << self.bits

    def spread(self, units: FloatArray, rng: Rng) -> IntArray:
        """Return grid points, in steps, moved to a part of their cells, all alike."""
        cells = (units - self.grid.first).astype(np.int64)
        return np.asarray((cells << self.bits) + rng.integers(0, 1 << self.bits, len(cells)))

    def released(self, parts: IntArray) -> FloatArray:
        """Return the numbers of the grid points in whose cells these parts are."""
        return self.grid.points(self.grid.first + (parts >> self.bits).astype(float))


@dataclass(frozen=True, eq=False)
class Targets:
    """Wanted counts w of the cells, and the rates of their errors, both of shape (J + 1,), among n values."""

    n: int
    w: FloatArray
    rates: FloatArray

    @property
    def J(self) -> int:
        return len(self.w) - 1

    def cost(self, ranks: FloatArray) -> float:
        """Return ``sum_j rates_j |c_j - w_j|`` of boundaries with these ranks, shape (J,)."""
        counts = np.diff(ranks, prepend=0.0, append=float(self.n))
        return float(self.rates @ np.abs(counts - self.w))


def draw_joint(
    values: FloatArray,
    targets: FloatArray,
    rates: FloatArray,
    low: float,
    high: float,
    step: float,
    rng: Rng,
    width: float | None = None,
) -> FloatArray:
    """Draw boundaries whose cells have nearly the wanted numbers of values.

    Where all rates are equal, only a window of ranks around the targets is looked at: the values outside it are taken
    as if all of them lay beyond every boundary, which clips the boundaries' ranks to the window. Clipping never
    increases the cost: the errors of the ranks are a path from 0 to 0 whose length the cost is, and a piece of it on
    the far side of the window is cut short. So boundaries are drawn at the clipped ranks; where one lies beyond the
    window, everything is sorted, and all are accepted with the ratio of the densities, or drawn again. This is exact.

    Parameters
    ----------
    values : ndarray, shape (n,)
        In [low, high], in any order; not changed.
    targets : ndarray, shape (J,)
        Wanted ranks, ascending, in [0, n].
    rates : ndarray, shape (J + 1,)
        What the log density loses for each value too many or too few in a cell, positive.
    low, high, step : float
        The grid: multiples of `step` in [low, high].
    rng : Rng
        Source of randomness.
    width : float, optional
        Ranks on each side of the targets in the window; by default so many that a draw beyond them is improbable.

    Returns
    -------
    ndarray, shape (J,)
        Multiples of `step`, ascending, clipped to [low, high].
    """
    grid, n = RankGrid(low, high, step), len(values)
    targets = np.clip(targets, 0.0, n)
    wanted = Targets(n, np.diff(targets, prepend=0.0, append=float(n)), np.asarray(rates, dtype=float))
    if width is None:
        width = (wanted.J * math.log((grid.last - grid.first + 1) * (n + 1)) + RARE) / (2 * wanted.rates.min()) + 1
    if np.ptp(wanted.rates) > 0:
        width = math.inf
    start, stop = int(max(0.0, targets[0] - width)), int(min(float(n), np.ceil(targets[-1] + width)))
    parts = Parts(grid)
    window = Window.of(grid.units(values), start, stop, parts, rng)
    knots = np.concatenate([[0], window.values, [parts.end]])
    sizes = np.diff(knots)
    ranks, lengths = np.arange(start, stop + 1.0), sizes.astype(float)
    forward = forward_pass(ranks, lengths, wanted)
    while True:
        gaps = backward_pass(forward, ranks, lengths, wanted, rng)
        x = np.sort(knots[gaps] + rng.integers(0, sizes[gaps], None))
        if (gaps[0] > 0 or start == 0) and (gaps[-1] < stop - start or stop == n):
            break
        found = window.ranks(x)
        if passes(rng, wanted.cost(found) - wanted.cost(np.clip(found, start, stop))):
            break
    return parts.released(x)


@dataclass(eq=False)
class Window:
    """The values of ranks start + 1, ..., stop, spread over their cells' parts and sorted, and the others as they are.

    Whole cells are spread, also where only some of their values are in the window.
    """

    values: IntArray
    inside: IntArray
    outside: FloatArray
    parts: Parts
    rng: Rng
    everything: IntArray | None = None

    @classmethod
    def of(cls, units: FloatArray, start: int, stop: int, parts: Parts, rng: Rng) -> Window:
        """Return the window of these grid points, shape (n,), in any order."""
        if stop == start:
            none = np.zeros(0, dtype=np.int64)
            return cls(none, none, units, parts, rng)
        if stop - start == len(units):
            values = np.sort(parts.spread(units, rng))
            return cls(values, values, units[:0], parts, rng)
        lowest, highest = np.partition(units, sorted({start, stop - 1}))[[start, stop - 1]]
        below, among = units < lowest, (units >= lowest) & (units <= highest)
        inside = np.sort(parts.spread(units[among], rng))
        skip = start - int(np.count_nonzero(below))
        return cls(inside[skip : skip + stop - start], inside, units[~among], parts, rng)

    def all(self) -> IntArray:
        """Return all values, spread and sorted; the others are when this is first asked for."""
        if self.everything is None:
            self.everything = np.sort(np.concatenate([self.inside, self.parts.spread(self.outside, self.rng)]))
        return self.everything

    def ranks(self, x: IntArray) -> FloatArray:
        """Return the ranks of boundaries in these parts among all values: how many lie up to where the part begins."""
        return np.searchsorted(self.all(), x, side="right").astype(float)


Forward = tuple[list[FloatArray], list[FloatArray]]


def forward_pass(ranks: FloatArray, lengths: FloatArray, wanted: Targets) -> Forward:
    """Return ``arrive`` and ``leave``, two lists of arrays of shape (K,): logarithms of sums over all ways.

    ``arrive[j][i]``: boundaries 1 .. j are in gaps before i, boundary j + 1 comes next, in gap i, whose volume is not
    counted yet. ``leave[j][i]``: boundaries 1 .. j are placed, the last of them in gap i, the next one after it.
    """
    arrive, leave = [-wanted.rates[0] * np.abs(ranks - wanted.w[0])], [np.empty(0)]
    with np.errstate(divide="ignore"):
        log_length = np.log(lengths)
    for j in range(1, wanted.J + 1):
        total = np.full(len(ranks), -np.inf)
        for m in range(1, j + 1):
            term = same_gap(m, j, log_length, arrive[j - m], wanted)
            if (term > total - NEGLIGIBLE).any():
                np.logaddexp(total, term, out=total)
        leave.append(total)
        if j < wanted.J:
            arrive.append(laplace_kernel(total, wanted.rates[j], wanted.w[j]))
    return arrive, leave


def backward_pass(forward: Forward, ranks: FloatArray, lengths: FloatArray, wanted: Targets, rng: Rng) -> np.ndarray:
    """Draw the gaps of all boundaries, shape (J,), ascending, counted from the first gap of the window."""
    arrive, leave = forward
    gaps, j = np.zeros(wanted.J, dtype=np.intp), wanted.J
    log_weight = leave[j] - wanted.rates[j] * np.abs(wanted.n - ranks - wanted.w[j])
    while True:
        i = int(choose(rng, log_weight, 1)[0])
        with np.errstate(divide="ignore"):
            log_length = np.log(lengths[i])
        ways = np.array([same_gap(m, j, log_length, arrive[j - m][i], wanted) for m in range(1, j + 1)])
        m = 1 + int(choose(rng, ways, 1)[0])
        gaps[j - m : j] = i
        j -= m
        if j == 0:
            return gaps
        log_weight = leave[j][:i] - wanted.rates[j] * np.abs(np.arange(i, 0.0, -1.0) - wanted.w[j])


def same_gap(m: int, j: int, log_length: FloatArray, arrive: FloatArray, wanted: Targets) -> FloatArray:
    """Return the log weight of boundaries j - m + 1, ..., j in one gap: its volume, and m - 1 cells without values."""
    empty = float(wanted.rates[j - m + 1 : j] @ wanted.w[j - m + 1 : j])
    return m * log_length + (arrive - (math.lgamma(m + 1) + empty))


def laplace_kernel(x: FloatArray, rate: float, centre: float) -> FloatArray:
    """Return ``log sum_{k < i} exp(x_k - rate |i - k - centre|)`` for every i, shape (K,), in time linear in K.

    Terms with ``i - k >= centre`` are a prefix that decays. The others are a window of fixed length: cut into blocks of
    that length, it is the end of one block and the beginning of the next. Nothing is subtracted.
    """
    K = len(x)
    k = np.arange(float(K))
    out = np.full(K, -np.inf)
    beyond = max(1, math.ceil(centre))
    if beyond < K:
        prefix = np.logaddexp.accumulate(x + rate * k)
        out[beyond:] = prefix[: K - beyond] - rate * (k[beyond:] - centre)
    length = min(beyond - 1, K)
    if length > 0:
        return np.logaddexp(out, _sliding(x - rate * k, length) + rate * (k - centre))
    return out


def _sliding(y: FloatArray, length: int) -> FloatArray:
    """Return ``log sum exp(y_k)`` over ``i - length <= k < i`` for every i, shape (K,)."""
    K = len(y)
    blocks = np.full((2 * length + K) // length * length, -np.inf)
    blocks[length : length + K] = y
    shaped = blocks.reshape(-1, length)
    ends = np.logaddexp.accumulate(shaped[:, ::-1], axis=1)[:, ::-1].ravel()
    beginnings = np.logaddexp.accumulate(shaped, axis=1).ravel()[length - 1 :]
    beginnings[: -length + 1 or None][::length] = -np.inf  # a window that is a block is counted once
    return np.logaddexp(ends[:K], beginnings[:K])
