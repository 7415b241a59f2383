"""Denoised histograms of score lengths, a bound on the mass they cannot show, and the clipping threshold.

Bins have ratio sqrt 2. Beyond the last visible window counts are extrapolated geometrically; intervals rest on this
assumption about tails. Everything here is a function of noisy counts and of public numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri, stdtrit

from privstats.estimators.base import Noises, sd_of
from privstats.estimators.constants import (
    AFTER_GAP,
    ALONG_HIDDEN,
    ALONG_SEEN,
    FALLING,
    MADE_UP,
    PER_BIN,
    PLACES,
    RESIDUE,
    VISIBLE,
    WIDE_WINDOWS,
)
from privstats.gate.questions import Ask, Sum
from privstats.inference.error_law import critical
from privstats.numerics.law import FloatArray


@dataclass(frozen=True)
class Tail:
    """Assumption on hidden counts: their ratio from bin to bin, for bins of ratio sqrt 2.

    Parameters
    ----------
    slowest : float
        Largest ratio: .5 is a finite variance, .25 finite fourth moments.
    fastest : float
        Least ratio, as a share of `slowest`.
    residue : float
        Part of `RESIDUE` noise sds by which hidden counts may exceed their fitted size.
    aligned : bool
        Whether rows beyond the clip may all lie along one coefficient.
    slow : bool
        Whether counts may fall so slowly that a window of two bins does not show them, but a wider window does.
    """

    slowest: float
    fastest: float = 1.0
    residue: float = 1.0
    aligned: bool = False
    slow: bool = False


TAILS = {
    "usual": Tail(0.5, fastest=0.5, slow=True),
    "far": Tail(0.5, slow=True),  # of scores where bounds of predictors are far from their rows
    "bounded": Tail(0.5, fastest=0.5, residue=0.1, slow=True),  # as long as their rows: of a bounded psi, or counts
    "counted": Tail(0.5, fastest=0.5, residue=0.4, slow=True),  # counts, gamma responses: curvature is bounded
    "rows": Tail(0.35, fastest=0.92, residue=0.3),  # of lengths of rows, where scores are as long
    "cautious": Tail(0.5, residue=1.3, aligned=True, slow=True),
    "leverages": Tail(0.25, fastest=0.92),
}


class Whole(NamedTuple):
    """The total of the counts of a histogram, and its standard error.

    Parameters
    ----------
    number : float
    sd : float
        Its standard error: 0 where it is public; inf where it is the number of units, of which some may have no row
        that is used, or where counts say it themselves.
    """

    number: float
    sd: float = 0.0


def edges(low: float, cap: float) -> tuple[float, ...]:
    """Return upper ends of bins of ratio sqrt 2, from `low` to the domain's cap."""
    bins = max(int(np.ceil(2 * np.log2(max(cap / low, 2.0)) - 1e-9)), 1)
    last = max(cap, low * 2 ** (bins / 2 - 0.25)) * 1.000001
    return (*(low * 2 ** (np.arange(bins) / 2)).tolist(), float(last))


@dataclass(frozen=True, eq=False)
class Lengths:
    """Counts at lengths, five lengths a bin.

    Parameters
    ----------
    counts, lengths : ndarray, shape (5 * bins,)
    hidden : ndarray of bool, shape (5 * bins,)
        Whether a length lies beyond the last visible bin, so that its count is an assumption.
    sd : float
        Standard deviation of the noise of a bin's count.
    """

    counts: FloatArray
    lengths: FloatArray
    hidden: NDArray[np.bool_]
    sd: float = 0.0

    @classmethod
    def released(cls, ask: Ask, by: Noises, question: Sum, known: Whole | None, tail: Tail) -> Lengths:
        """Release the number of rows with a length in each bin, and return the denoised counts.

        Parameters
        ----------
        ask : Ask
        by : Noises
        question : Sum
            Of `Shells`.
        known : Whole, optional
            Total of the counts; by default the sum of the released counts, as for weighted rows.
        tail : Tail
        """
        counts = ask(question, by=by.counts)
        within: Any = question.within
        return cls.denoised(counts.value, sd_of(counts.law), within.edges, known, tail, by.shares)

    @classmethod
    def denoised(
        cls,
        counts: FloatArray,
        sd: float,
        ends: tuple[float, ...],
        known: Whole | None,
        tail: Tail,
        law: str = "normal",
    ) -> Lengths:
        """Return visible counts, adjusted evenly so that all counts add up to the known total, and a tail.

        Parameters
        ----------
        counts : ndarray, shape (bins,)
            Released.
        sd : float
            Of the noise of a count.
        ends : tuple of float
            Upper ends of the bins.
        known : Whole or None
            Rows, or units; None where counts say it themselves.
        tail : Tail
        law : {"normal", "pure"}
            Of the noise: Laplace noise has longer tails.
        """
        seen, last = with_tail(counts, sd, tail, law, known)
        filled = lowered_to(seen, last, max(float(counts.sum()), 1.0) if known is None else known.number)
        low = np.r_[ends[0] / 2, ends[:-1]]
        steps = (np.arange(PER_BIN) + 0.5) / PER_BIN
        lengths = (low[:, None] * (np.asarray(ends) / low)[:, None] ** steps).ravel()
        hidden = np.repeat(np.arange(len(seen)) > last, PER_BIN)
        return cls(np.repeat(filled / PER_BIN, PER_BIN), lengths, hidden, sd)

    def excess(self, radius: float) -> float:
        """Return the sum of (length - radius)+."""
        return float((self.counts * np.maximum(self.lengths - radius, 0.0)).sum())

    def square_excess(self, radius: float) -> float:
        """Return the sum of (length^2 - radius^2)+: the trace that clipping removes from a sum of products."""
        return float((self.counts * np.maximum(self.lengths**2 - radius**2, 0.0)).sum())

    def squares(self, radii: FloatArray) -> FloatArray:
        """Return the sum of min(length, radius)^2 at each radius."""
        squares: FloatArray = (self.counts[:, None] * np.minimum(self.lengths[:, None], radii) ** 2).sum(axis=0)
        return squares

    def taken(
        self, radii: FloatArray, m: float, tail: Tail, hidden: float | None = None, size: float = 1.0
    ) -> FloatArray:
        """Return the bias that a clip at each radius causes in a sum of scores, along any one coefficient.

        Parameters
        ----------
        radii : ndarray, shape (k,) or (5 * bins, k)
            Of all lengths, or of each.
        m : float
            Coordinates: rows that differ do not all lie along one coefficient. One with a part s of all squares counts
            as one of 1 / s.
        tail : Tail
        hidden : float, optional
            Squared part of hidden rows that does, times m; by default `ALONG_HIDDEN`.
        size : float
            Mean score of a row over its length.
        """
        along, beyond = part_along(ALONG_SEEN, m, tail), part_along(ALONG_HIDDEN if hidden is None else hidden, m, tail)
        moved = size * np.where(self.hidden, beyond, along) * self.counts
        taken: FloatArray = (moved[:, None] * np.maximum(self.lengths[:, None] - radii, 0.0)).sum(axis=0)
        return taken

    def share_beyond(self, radius: float) -> float:
        """Return the share of lengths above the radius."""
        return float(self.counts[self.lengths > radius].sum() / max(self.counts.sum(), 1.0))

    def from_least(self, least: float) -> FloatArray:
        """Return the lengths from the smallest allowed on, at least the last one: the candidate clips."""
        return self.lengths[self.lengths > min(least, self.lengths[-2])]

    def radius(self, noise: float, least: float) -> float:
        """Return the radius R, at least `least`, with the smallest ``noise R^2 + sum of (length^2 - R^2)+``."""
        tried = self.lengths[self.lengths >= min(least, self.lengths[-1])]
        return float(min(tried, key=lambda R: noise * R**2 + self.square_excess(R)))


def with_tail(
    counts: FloatArray, sd: float, tail: Tail, law: str = "normal", known: Whole | None = None
) -> tuple[FloatArray, int]:
    """Return visible counts with a geometric tail beyond the last visible window of two bins, and that window's bin.

    Windows next to visible ones, whose last bin they share, count as visible from `VISIBLE` noise sds, and windows
    after a gap from `AFTER_GAP`. A tail that falls slowly may be hidden in each bin, but not in a sum of many: as long
    as one is visible the next bin is. The first hidden bin holds at most what the last windows let expect, and at most
    what a tail of that shape through all hidden counts says, and `residue` of its noise.
    """
    windows = np.r_[0.0, counts[:-1] + counts[1:]]
    clear = np.maximum(windows / (sd * np.sqrt(2)), counts / sd)
    last, far = max(int(np.argmax(counts)), 1) if len(counts) > 1 else 0, AFTER_GAP[law]
    while True:
        beyond = [k for k in range(last + 1, len(counts)) if clear[k] > (VISIBLE if k <= last + 1 else far)]
        if beyond:
            last = beyond[-1] if clear[beyond[-1]] > far else beyond[0]
        elif tail.slow and (more := seen_in_sums(counts, last, sd, known)):
            last = min(last + more, len(counts) - 1)
        else:
            break
    while counts[last] < sd and last > 1:
        last -= 1
    window = max(counts[max(last - 1, 0)] + counts[last], sd)
    before = max(counts[last - 3] + counts[last - 2], window) if last >= 3 else window
    ratio = float(np.clip(FALLING * np.sqrt(window / before), tail.fastest * tail.slowest, tail.slowest))
    base = window * ratio**2 / (1 + ratio)
    hidden = counts[last + 1 :]
    if len(hidden):
        powers = ratio ** np.arange(len(hidden))
        squared = (powers**2).sum()
        base = min(base, max((powers * hidden).sum() / squared, 0.0) + RESIDUE * tail.residue * sd / np.sqrt(squared))
    k = np.arange(len(counts))
    continued = base * ratio ** np.maximum(k - last - 1, 0)
    return np.where(k <= last, np.maximum(counts, 0.0), continued), last


def seen_in_sums(counts: FloatArray, last: int, sd: float, known: Whole | None) -> int:
    """Return how many bins more are visible since a sum of counts behind the last one is: 0 if none is.

    Of `WIDE_WINDOWS` bins the nearer half is; of all, the next one. Their sum is also what visible bins lack of the
    total, where it is known: both are averaged by their precision.
    """
    hidden, visible = counts[last + 1 :], last + 1
    if not len(hidden):
        return 0
    for k in WIDE_WINDOWS:
        if hidden[: int(k)].sum() > VISIBLE * sd * k**0.5:
            return int(k) // 2
    beyond, noise = float(hidden.sum()), float(len(hidden))
    if known is not None:
        other = visible + (known.sd / sd) ** 2
        both = 1 / (1 / noise + 1 / other)
        beyond = both * (beyond / noise + (known.number - float(counts[:visible].sum())) / other)
        noise = both
    return int(beyond > VISIBLE * sd * noise**0.5)


def lowered_to(counts: FloatArray, last: int, total: float) -> FloatArray:
    """Return counts, the visible ones lowered or raised evenly, not below zero, so that all add up to `total`."""
    visible, tail = counts[: last + 1], counts[last + 1 :]
    rest = max(total - tail.sum(), 0.0)
    ordered = np.sort(visible)[::-1]
    kept = np.arange(1, len(ordered) + 1)
    shifts = (np.cumsum(ordered) - rest) / kept  # were only the k largest above zero
    valid = np.flatnonzero(ordered - shifts > 0)
    shift = shifts[valid[-1]] if valid.size else ordered[0]
    return np.r_[np.maximum(visible - shift, 0.0), tail]


@dataclass(frozen=True)
class Clip:
    """A clipping threshold of scores.

    Parameters
    ----------
    radius : float
        The threshold B.
    excess : float
        Bound on the bias of the score by clipping, along any one coefficient.
    variance : float
        Sampling variance of a coordinate of the clipped score.
    noise : float
        Standard deviation of the noise of a coordinate.
    length : float
        Half-length of the interval, in units of a coordinate of the score.
    aligned : float
        Bound on the bias by clipping if all rows beyond the clip lie along one direction.
    unseen : float
        Variance of a coordinate of the score that no bin of the histogram shows.
    least : float
        Least variance of a row's coordinate, as squared residuals say; 0 where they were not summed up.
    curvature : float
        Largest curvature of a row's loss, where that is minimised.
    """

    radius: float
    excess: float
    variance: float
    noise: float
    length: float
    aligned: float = 0.0
    unseen: float = 0.0
    least: float = 0.0
    curvature: float = np.inf


def best_clip(
    lengths: Lengths,
    noise: float,
    m: int,
    tail: Tail,
    unseen: float = 0.0,
    always: float = 0.0,
    unseen_along: float | None = None,
) -> Clip:
    """Return the clip with the shortest interval, bias bound included.

    Parameters
    ----------
    lengths : Lengths
        Lengths of scores, in a metric in which their coordinates have equal variance.
    noise : float
        Standard deviation of the noise of a coordinate at radius 1.
    m : int
        Coordinates.
    tail : Tail
    unseen : float
        Sum of squared lengths of scores that the histogram does not show.
    always : float
        Excess that does not depend on the clip.
    unseen_along : float, optional
        Part of what the histogram does not show that may lie along one coefficient; by default as of hidden rows.

    Notes
    -----
    Scores of length l > B whose squares add up to S have an excess of S (l - B) / l^2, which is largest at l = 2 B.
    """
    tried, longest = lengths.from_least(m**0.5 / 2), max(float(lengths.lengths[-1]), 1e-300)
    along = part_along(ALONG_HIDDEN, m, tail) if unseen_along is None else unseen_along
    worst = np.minimum(2 * tried, longest)
    excess = lengths.taken(tried, m, tail) + along * unseen * np.maximum(worst - tried, 0.0) / worst**2 + always
    clip = shortest_clip(tried, (lengths.squares(tried) + unseen) / m, excess, noise)
    return replace(clip, aligned=lengths.excess(clip.radius), unseen=unseen / m)


def part_along(part: float, m: float, tail: Tail) -> float:
    """Return which part of a sum of lengths may lie along the direction of one of m coefficients."""
    return 1.0 if tail.aligned else min(1.0, (part / m) ** 0.5)


def shortest_clip(radii: FloatArray, variance: FloatArray, excess: FloatArray, noise: float) -> Clip:
    """Return the clip whose interval, of half-length ``cv(a / s) s``, is shortest.

    Parameters
    ----------
    radii : ndarray, shape (k,)
        Ascending.
    variance : ndarray, shape (k,)
        Of a coordinate of the score that is clipped at each radius.
    excess : ndarray, shape (k,)
        a, the bound on the bias of the score by clipping.
    noise : float
        Standard deviation of the noise of a coordinate at radius 1.

    Notes
    -----
    s^2 is the sampling variance plus the noise variance, and cv the quantile of |N(a/s, 1)| (Armstrong and Kolesar
    2018).
    """
    s = np.sqrt(variance + (noise * radii) ** 2)
    half = critical(excess / s) * s
    k = int(np.argmin(half))
    return Clip(float(radii[k]), float(excess[k]), float(variance[k]), float(noise * radii[k]), float(half[k]))


def predicted_length(
    noise: float, count_sd: float, m: int, scores: float, tail: Tail, cap: float = np.inf, law: str = "normal"
) -> float:
    """Return the expected half-length of a fit whose rows are a little heavier than normal ones: public.

    Parameters
    ----------
    noise : float
        Standard deviation of the noise of a score's coordinate at radius 1.
    count_sd : float
        Of the noise of a count of the histogram of score sizes.
    m : int
        Coordinates.
    scores : float
        Rows, or units.
    tail : Tail
    cap : float
        The longest score that the domain allows, in standard deviations of a residual.
    law : {"normal", "pure"}
        Of the noise of counts: how far a gap may be; draws are normal ones of their sd.

    Returns
    -------
    float
        In standard deviations of a coordinate of a row's score, times the root of `scores`: 1.96 without privacy.
    """
    ends = edges(m**0.5 / 8, min(60 * m**0.5, cap))
    counts = np.histogram(np.minimum(reference_sizes(m), ends[-1]), np.r_[0.0, ends])[0] * scores / MADE_UP
    k = np.arange(1, PLACES + 1)[:, None]
    steps = np.sqrt(np.arange(2, 2 + len(counts)) + 0.5) % 1.0
    noisy = counts + count_sd * ndtri((0.5 + k * steps) % 1.0)
    clips = (best_clip(Lengths.denoised(h, count_sd, ends, Whole(scores), tail, law), noise, m, tail) for h in noisy)
    return float(np.mean([clip.length for clip in clips]) / np.sqrt(scores))


_PLASTIC = 1.3247179572447460  # generates a low-discrepancy sequence in the square (Roberts 2018)


@cache
def reference_sizes(m: int) -> FloatArray:
    """Return public score sizes |w||e|: nearly normal rows, errors with ten degrees of freedom.

    Entries of w are normal times lognormal(.1); the sum of their squares is taken to be a gamma number of the same mean
    and variance. Quantiles are taken at quasi-random points: no chance has a part in it.
    """
    k = np.arange(1, MADE_UP + 1)
    u, v = (0.5 + k / _PLASTIC) % 1.0, (0.5 + k / _PLASTIC**2) % 1.0
    mean, variance = np.exp(0.02), 3 * np.exp(0.08) - np.exp(0.04)
    squared = gammaincinv((m - 1) * mean**2 / variance, u) * (variance / mean) if m > 1 else np.zeros(MADE_UP)
    sizes: FloatArray = np.sqrt(1 + squared) * np.abs(stdtrit(10, v)) / np.sqrt(1.25)
    return sizes
