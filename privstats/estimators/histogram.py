"""Denoised histograms of score norms, with extrapolated counts in bins hidden by noise, and the clipping threshold.

A score is the gradient of a row's loss with respect to the coefficients. A bin's upper end is sqrt 2 times its lower
end. Let the last visible pair be the last two neighbouring bins whose sum of counts is clearly larger than its noise.
Beyond this pair, counts are assumed to decrease geometrically, and are extrapolated. The coverage of intervals depends
on this assumption. All values are computed from released, noisy counts.
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
    PER_BIN,
    PLACES,
    RESIDUE,
    SYNTHETIC_ROWS,
    VISIBLE,
    WIDE_WINDOWS,
)
from privstats.gate.questions import Ask, Sum
from privstats.inference.error_law import critical
from privstats.numerics.law import FloatArray


@dataclass(frozen=True)
class Tail:
    """Assumption on the tail of a histogram of norms of scores or rows, where noise hides the counts of large norms.

    Parameters
    ----------
    slowest : float
        Largest ratio of a bin's count to the previous bin's count: .5 for norms with a finite variance, .25 for norms
        with a finite fourth moment.
    fastest : float
        Smallest ratio of a bin's count to the previous bin's count, divided by `slowest`.
    residue : float
        Safety margin, in multiples of `RESIDUE` noise sds, that `with_tail` adds to the fitted count of the first bin
        below the noise level, because noise may have lowered this count.
    aligned : bool
        Whether bias bounds assume that all clipped scores affect the same coefficient.
    slow : bool
        Whether sums over more than two bins are also compared with noise, to detect a slowly decreasing tail.
    """

    slowest: float
    fastest: float = 1.0
    residue: float = 1.0
    aligned: bool = False
    slow: bool = False


# Assumptions on the tail of a histogram, by name. A comment states the histogram for which an assumption is used.
TAILS = {
    "usual": Tail(0.5, fastest=0.5, slow=True),
    "means": Tail(0.6, fastest=0.5, slow=True),  # score norms in fits of means; the values may be heavy-tailed
    "far": Tail(0.5, slow=True),  # score norms, if a predictor's bounds are far beyond most of its values
    "bounded": Tail(0.5, fastest=0.5, residue=0.1, slow=True),  # score norms, for losses with a bounded derivative
    "counted": Tail(0.5, fastest=0.5, residue=0.4, slow=True),  # score norms in models of counts and gamma responses
    "rows": Tail(0.35, fastest=0.92, residue=0.3, slow=True),  # norms of rows, used as approximate norms of scores
    "cautious": Tail(0.5, residue=1.3, aligned=True, slow=True),
    "leverages": Tail(0.25, fastest=0.92, slow=True),
    "weighted rows": Tail(0.25, fastest=0.92),  # norms of rows times sqrt(a row's information), in likelihood models
}


class Whole(NamedTuple):
    """The total of a histogram's counts, and the standard error of this total.

    Parameters
    ----------
    number : float
        The total, public or released.
    sd : float
        Standard error of `number`; 0 for a public number of rows. It is inf if `number` is the sum of the released
        counts, or a number of privacy units that may include units without any row in the fit. Then `number` is not
        used to estimate the sum of the counts below the noise level.
    """

    number: float
    sd: float = 0.0


def edges(low: float, cap: float) -> tuple[float, ...]:
    """Return the upper edges of the bins of a histogram of norms of rows or scores.

    Each edge is the lowest edge, `low`, times a power of sqrt 2, except the last edge, which is above the largest
    possible norm, `cap`.
    """
    bins = max(int(np.ceil(2 * np.log2(max(cap / low, 2.0)) - 1e-9)), 1)
    last = max(cap, low * 2 ** (bins / 2 - 0.25)) * 1.000001
    return (*(low * 2 ** (np.arange(bins) / 2)).tolist(), float(last))


@dataclass(frozen=True, eq=False)
class Lengths:
    """Denoised histogram of Euclidean norms (lengths) of scores or rows, with five representative norms in each bin.

    Parameters
    ----------
    counts, lengths : ndarray, shape (5 * bins,)
        Number of rows (or scores) for each representative norm, and the representative norms.
    hidden : ndarray of bool, shape (5 * bins,)
        Whether a representative norm lies beyond the last bin whose count exceeds noise. The count of the norm is then
        extrapolated.
    sd : float
        Standard deviation of the noise of a bin's count.
    """

    counts: FloatArray
    lengths: FloatArray
    hidden: NDArray[np.bool_]
    sd: float = 0.0

    @classmethod
    def released(cls, ask: Ask, by: Noises, question: Sum, known: Whole | None, tail: Tail) -> Lengths:
        """Release a histogram of row or score norms (lengths), and return it with denoised counts.

        Parameters
        ----------
        ask : Ask
            Function that sends queries to the data and returns noisy releases.
        by : Noises
            Noise mechanisms, one for each kind of query.
        question : Sum
            Query for the histogram.
        known : Whole, optional
            Total of the counts; if it is None, as for weighted rows, the sum of the released counts is used instead.
        tail : Tail
            Assumption on the tail of the distribution of norms.
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
        """Return the denoised histogram: counts above the noise level, shifted to fit the total, and a fitted tail.

        Parameters
        ----------
        counts : ndarray, shape (bins,)
            Released counts.
        sd : float
            Noise sd of a count.
        ends : tuple of float
            Upper ends of the bins.
        known : Whole or None
            Total of the counts (rows or privacy units); if it is None, the sum of the released counts is used instead.
        tail : Tail
            Assumption on the tail of the distribution of norms.
        law : {"normal", "pure"}
            Noise law of the counts: normal noise, or Laplace noise ("pure"), which has longer tails.
        """
        seen, last = with_tail(counts, sd, tail, law, known)
        filled = lowered_to(seen, last, max(float(counts.sum()), 1.0) if known is None else known.number)
        low = np.array([ends[0] / 2, *ends[:-1]])
        steps = (np.arange(PER_BIN) + 0.5) / PER_BIN
        lengths = (low[:, None] * (np.asarray(ends) / low)[:, None] ** steps).ravel()
        hidden = np.repeat(np.arange(len(seen)) > last, PER_BIN)
        return cls(np.repeat(filled / PER_BIN, PER_BIN), lengths, hidden, sd)

    def excess(self, radius: float) -> float:
        """Return the sum over rows of max(norm - radius, 0), the total norm that clipping at the radius removes."""
        return float((self.counts * np.maximum(self.lengths - radius, 0.0)).sum())

    def square_excess(self, radius: float) -> float:
        """Return the sum over rows of max(norm^2 - radius^2, 0).

        Clipping rows to the norm `radius` reduces the trace of the sum of x x' over rows x by this number.
        """
        return float((self.counts * np.maximum(self.lengths**2 - radius**2, 0.0)).sum())

    def squares(self, radii: FloatArray) -> FloatArray:
        """Return the sum over rows of min(norm, radius)^2, for each clipping radius."""
        squares: FloatArray = (self.counts[:, None] * np.minimum(self.lengths[:, None], radii) ** 2).sum(axis=0)
        return squares

    def taken(
        self, radii: FloatArray, m: float, tail: Tail, hidden: float | None = None, size: float = 1.0
    ) -> FloatArray:
        """Return bounds on the clipping bias of any one coordinate of a sum of scores, one bound for each of k radii.

        A bound is the sum of the norms that scores lose by clipping, each times the largest share of this loss that is
        assumed to affect one coordinate (`part_along`).

        Parameters
        ----------
        radii : ndarray, shape (k,) or (5 * bins, k)
            Clipping radii: k radii for all norms, or k radii for each of the norms in `lengths` (five for each bin).
        m : float
            Number of coordinates of a score, if the sum of squares over the scores is the same for all coordinates.
            For a coordinate with the share s of the sum of squared norms, use m = 1 / s.
        tail : Tail
            Assumption on the tail of the distribution of norms.
        hidden : float, optional
            Argument `part` of `part_along` for scores in bins below the noise level, by default `ALONG_HIDDEN`. For
            other scores the argument is `ALONG_SEEN`.
        size : float
            Mean ratio of a score's norm to the norm in the histogram, if the histogram contains norms of rows.
        """
        along, hidden_along = (
            part_along(ALONG_SEEN, m, tail),
            part_along(ALONG_HIDDEN if hidden is None else hidden, m, tail),
        )
        moved = size * np.where(self.hidden, hidden_along, along) * self.counts
        taken: FloatArray = (moved[:, None] * np.maximum(self.lengths[:, None] - radii, 0.0)).sum(axis=0)
        return taken

    def unseen_excess(self, radii: FloatArray, squares: float) -> FloatArray:
        """Return upper limits, one for each radius, of the total norm lost by clipping rows missed by the histogram.

        Let S = `squares` be the sum of the squared norms of the missed rows (or scores), and B the clipping radius. If
        each missed row has the norm l > B, the number of missed rows is S / l^2, and clipping removes the total norm
        S (l - B) / l^2. This loss is largest at l = 2 B or, if the largest norm in `lengths` is smaller than 2 B, at
        this largest norm.
        """
        worst = np.minimum(2 * radii, max(float(self.lengths[-1]), 1e-300))
        excess: FloatArray = squares * np.maximum(worst - radii, 0.0) / worst**2
        return excess

    @property
    def total_square(self) -> tuple[float, float]:
        """Sum of the squared norms in the histogram, and the noise sd of this sum."""
        noise = self.sd * float(((~self.hidden * self.lengths**4).sum() / PER_BIN) ** 0.5)
        return float((self.counts * self.lengths**2).sum()), noise

    def missing(self, squares: float, sd: float) -> float:
        """Return the part of a sum of squared norms that the histogram misses; 0 if noise can explain this part.

        Parameters
        ----------
        squares, sd : float
            Sum of the squared norms of all rows (or scores), from other releases, and the noise sd of this sum.
        """
        seen, noise = self.total_square
        return squares - seen if squares - seen > VISIBLE * np.hypot(sd, noise) else 0.0

    def clipped_share(self, radius: float) -> float:
        """Return the share of rows whose norm exceeds the radius."""
        return float(self.counts[self.lengths > radius].sum() / max(self.counts.sum(), 1.0))

    def from_least(self, least: float) -> FloatArray:
        """Return candidate clipping radii: norms in `lengths` above the limit `least`, and always the largest norm."""
        return self.lengths[self.lengths > min(least, self.lengths[-2])]

    def radius(self, noise: float, least: float) -> float:
        """Return the clipping radius of rows that balances noise in their second moments against the clipping loss.

        The radius R minimises ``noise R^2 + loss``. Here `noise` is the size of the noise at radius 1, and the loss is
        the reduction of the trace of the second moments by clipping (`square_excess`). R is one of the norms in
        `lengths` that are at least equal to the limit `least`, or the largest norm if all norms are below this limit.
        """
        tried = self.lengths[self.lengths >= min(least, self.lengths[-1])]
        return float(min(tried, key=lambda R: noise * R**2 + self.square_excess(R)))


def with_tail(
    counts: FloatArray, sd: float, tail: Tail, law: str = "normal", known: Whole | None = None
) -> tuple[FloatArray, int]:
    """Return the counts, with a geometric tail beyond the last visible bin, and the index of the last visible bin.

    The visible bins are found by a search that starts at the bin with the largest count. A later bin is visible if its
    count, or the sum of its count and the previous count, exceeds a multiple of the noise sd of this number. The
    multiple is `VISIBLE` for the bin after the last visible bin found so far, and `AFTER_GAP` for all further bins. If
    ``tail.slow`` is true, sums over more bins can also make bins visible (`seen_in_sums`), because noise may hide a
    slowly decreasing tail in single bins.

    The counts beyond the last visible bin are replaced by a geometric sequence, whose ratio and first term are
    extrapolated from the visible bins (`continued_from`). The first term is limited to b + r s. Here b is the first
    term that gives the least-squares fit of a sequence with this ratio to the replaced counts (at least 0), s is the
    noise sd of b, and r is ``RESIDUE * tail.residue``.

    Parameters
    ----------
    counts : ndarray, shape (bins,)
        Released counts of a histogram of norms.
    sd : float
        Noise sd of a count.
    tail : Tail
        Assumption on the tail of the distribution of norms.
    law : {"normal", "pure"}
        Noise law of the counts, which sets the threshold `AFTER_GAP`.
    known : Whole, optional
        Total of the counts with its standard error, if the total is known.
    """
    windows = np.concatenate(([0.0], counts[:-1] + counts[1:]))
    clear = np.maximum(windows / (sd * np.sqrt(2)), counts / sd)
    last, far = max(int(np.argmax(counts)), 1) if len(counts) > 1 else 0, AFTER_GAP[law]
    while True:
        later = [k for k in range(last + 1, len(counts)) if clear[k] > (VISIBLE if k <= last + 1 else far)]
        if later:
            last = later[-1] if clear[later[-1]] > far else later[0]
        elif tail.slow and (more := seen_in_sums(counts, last, sd, known)):
            last = min(last + more, len(counts) - 1)
        else:
            break
    while counts[last] < sd and last > 1:
        last -= 1
    base, ratio = continued_from(counts, last, sd, tail)
    hidden = counts[last + 1 :]
    if len(hidden):
        powers = ratio ** np.arange(len(hidden))
        squared = (powers**2).sum()
        base = min(base, max((powers * hidden).sum() / squared, 0.0) + RESIDUE * tail.residue * sd / np.sqrt(squared))
    k = np.arange(len(counts))
    continued = base * ratio ** np.maximum(k - last - 1, 0)
    return np.where(k <= last, np.maximum(counts, 0.0), continued), last


def continued_from(counts: FloatArray, last: int, sd: float, tail: Tail) -> tuple[float, float]:
    """Return the extrapolated count of the first bin below the noise level, and the ratio of successive later counts.

    The visible bins (up to `last`, see `with_tail`) are grouped into pairs from the end. Let f be the sum of the
    counts in the last pair, divided by the sum in the pair before it, and g the same ratio one pair earlier; both are
    at most 1. The first count is extrapolated with the ratio ``FALLING * sqrt(f)`` of successive counts. The ratio of
    later counts is ``FALLING * sqrt(f * min(f / g, 1))``. It is smaller than the first ratio if the visible counts
    decrease faster and faster (f < g). Both ratios are clipped to the range that `tail` allows.
    """
    window = max(counts[max(last - 1, 0)] + counts[last], sd)
    before = max(counts[last - 3] + counts[last - 2], window) if last >= 3 else window
    fall, change = window / before, 1.0
    if last >= 5:
        change = min(1.0, fall * max(counts[last - 5] + counts[last - 4], before) / before)
    ratios = FALLING * np.sqrt([fall, fall * change])
    ratio, later = np.clip(ratios, tail.fastest * tail.slowest, tail.slowest).tolist()
    return window * ratio**2 / (1 + ratio), later


def seen_in_sums(counts: FloatArray, last: int, sd: float, known: Whole | None) -> int:
    """Return the number of bins beyond the last visible bin that become visible through sums over several bins.

    Bins with counts above the noise level are visible (`with_tail`). The bins beyond the last visible bin are hidden.
    If the sum of the first four or eight hidden bins (`WIDE_WINDOWS`) exceeds its noise, the first half of these bins
    becomes visible. Otherwise, if the sum of all hidden bins exceeds its noise, the first hidden bin becomes visible.
    If the total of all counts is known, the total minus the visible counts is a second estimate of the sum of all
    hidden bins. The two estimates are averaged, weighted by their precision.
    """
    hidden, visible = counts[last + 1 :], last + 1
    if not len(hidden):
        return 0
    for k in WIDE_WINDOWS:
        if hidden[: int(k)].sum() > VISIBLE * sd * k**0.5:
            return int(k) // 2
    unseen, noise = float(hidden.sum()), float(len(hidden))
    if known is not None:
        other = visible + (known.sd / sd) ** 2
        both = 1 / (1 / noise + 1 / other)
        unseen = both * (unseen / noise + (known.number - float(counts[:visible].sum())) / other)
        noise = both
    return int(unseen > VISIBLE * sd * noise**0.5)


def lowered_to(counts: FloatArray, last: int, total: float) -> FloatArray:
    """Return the counts, with the visible counts lowered by one number so that the sum of all counts is `total`.

    The visible counts are the counts of the bins up to the index `last`. A visible count below the number becomes 0. If
    the sum is too small, the number is negative, and visible counts are raised.
    """
    visible, tail = counts[: last + 1], counts[last + 1 :]
    rest = max(total - tail.sum(), 0.0)
    ordered = np.sort(visible)[::-1]
    kept = np.arange(1, len(ordered) + 1)
    # entry k - 1: the number subtracted from each of the k largest counts, if only these counts stay positive
    shifts = (np.cumsum(ordered) - rest) / kept
    valid = np.flatnonzero(ordered - shifts > 0)
    shift = shifts[valid[-1]] if valid.size else ordered[0]
    return np.concatenate((np.maximum(visible - shift, 0.0), tail))


@dataclass(frozen=True)
class Clip:
    """Clipping threshold of scores, with the resulting bias bound, variance and interval length.

    Parameters
    ----------
    radius : float
        The threshold B.
    excess : float
        Bound on the bias that clipping causes in any one coordinate of the sum of scores.
    variance : float
        Sampling variance of a coordinate of the sum of clipped scores.
    noise : float
        Noise sd of a coordinate of the sum of clipped scores.
    length : float
        Half-length of the confidence interval for a coordinate of the sum of scores.
    aligned : float
        Bound on the clipping bias if all clipped scores affect the same coordinate.
    unseen : float
        Part of `variance` that is due to rare scores, which the histogram of score norms misses.
    least : float
        Lower bound on the mean square of a coordinate of a row's score, from the released sum of squared residuals; 0
        if this sum is not released.
    curvature : float
        Upper limit on the eigenvalues of the Hessian of a row's loss, in fits that minimise a perturbed loss; inf
        without a limit.
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

    def times(self, unit: float) -> Clip:
        """Return the `Clip` for scores multiplied by `unit`, with unchanged `radius` and `curvature`."""
        linear = {name: unit * getattr(self, name) for name in ("excess", "noise", "length", "aligned")}
        squared = {name: unit**2 * getattr(self, name) for name in ("variance", "unseen", "least")}
        return replace(self, **linear, **squared)


def best_clip(
    lengths: Lengths,
    noise: float,
    m: int,
    tail: Tail,
    unseen: float = 0.0,
    always: float = 0.0,
    unseen_along: float | None = None,
) -> Clip:
    """Return the clipping threshold that gives the shortest 95% interval for a coordinate of the sum of scores.

    The interval allows for the clipping bias. The candidate thresholds are norms in the histogram `lengths`.

    Parameters
    ----------
    lengths : Lengths
        Histogram of norms of scores that are standardised so that all coordinates have equal variance.
    noise : float
        Noise sd of a coordinate of the sum of scores at clipping radius 1.
    m : int
        Number of coordinates of a score.
    tail : Tail
        Assumption on the tail of the distribution of norms.
    unseen : float
        Sum of squared norms of rare scores, which the histogram misses.
    always : float
        Bound on bias that is not due to clipping; it is added to the bound on the clipping bias.
    unseen_along : float, optional
        Largest effect of clipping the rare scores on one coordinate, as a share of the total norm that the rare scores
        lose by clipping. The default is the share assumed for scores in bins below the noise level (`part_along`).
    """
    tried = lengths.from_least(m**0.5 / 2)
    along = part_along(ALONG_HIDDEN, m, tail) if unseen_along is None else unseen_along
    excess = lengths.taken(tried, m, tail) + along * lengths.unseen_excess(tried, unseen) + always
    clip = shortest_clip(tried, (lengths.squares(tried) + unseen) / m, excess, noise)
    return replace(clip, aligned=lengths.excess(clip.radius), unseen=unseen / m)


def part_along(part: float, m: float, tail: Tail) -> float:
    """Return the assumed largest effect of clipping on one of m coefficients, as a share of the norm lost by clipping.

    The share is ``sqrt(part / m)``, at most 1. The constant `part` is `ALONG_SEEN` for scores in histogram bins above
    the noise level, and usually `ALONG_HIDDEN` for other scores. The share is 1 if all clipped scores may affect the
    same coefficient (``tail.aligned``).
    """
    return 1.0 if tail.aligned else min(1.0, (part / m) ** 0.5)


def shortest_clip(radii: FloatArray, variance: FloatArray, excess: FloatArray, noise: float) -> Clip:
    """Return the candidate clipping radius that gives the shortest 95% interval for a coordinate of the sum of scores.

    The interval allows for the bias that clipping causes.

    Parameters
    ----------
    radii : ndarray, shape (k,)
        Candidate radii, ascending.
    variance : ndarray, shape (k,)
        For each radius, the sampling variance of a coordinate of the sum of the clipped scores.
    excess : ndarray, shape (k,)
        For each radius, a bound on the clipping bias of a coordinate of this sum.
    noise : float
        Noise sd of a coordinate of this sum at clipping radius 1.

    Notes
    -----
    Let a be the bias bound, and s^2 the sampling variance plus the noise variance. The half-length of the interval is
    ``cv(a / s) s``, where cv(b) is the .95 quantile of |N(b, 1)| (Armstrong and Kolesar 2018).
    """
    s = np.sqrt(variance + (noise * radii) ** 2)
    half = critical(excess / s) * s
    k = int(np.argmin(half))
    return Clip(float(radii[k]), float(excess[k]), float(variance[k]), float(noise * radii[k]), float(half[k]))


def predicted_length(
    noise: float,
    count_sd: float,
    m: int,
    scores: float,
    tail: Tail,
    cap: float = np.inf,
    law: str = "normal",
    rarer: float = np.inf,
) -> float:
    """Return the expected half-length of an interval, assuming slightly heavy tails of predictors and errors.

    The length is computed from public values and from the released number of rows with a rare response value.

    Parameters
    ----------
    noise : float
        Noise sd of a coordinate of the sum of scores at clipping radius 1.
    count_sd : float
        Noise sd of a count of the histogram of score norms.
    m : int
        Number of coordinates of a score.
    scores : float
        Number of rows, or of privacy units.
    tail : Tail
        Assumption on the tail of the distribution of norms.
    cap : float
        Largest score norm that is possible within the declared bounds, in standard deviations of a residual.
    law : {"normal", "pure"}
        Noise law of the counts, which sets the threshold `AFTER_GAP` for a visible count. To compute the expected
        length, histograms are simulated; their noise is normal with sd `count_sd` for both laws.
    rarer : float
        Number of rows with the rarer value of a two-valued response; inf for other responses.

    Returns
    -------
    float
        The half-length of an interval for a sum of scores, divided by the square root of `scores`, in standard
        deviations of a score's coordinate; 1.96 without noise. The result is inf if the histogram would not show the
        rows with the rarer value, whose scores are far longer than all other scores.
    """
    if rarer < AFTER_GAP[law] * count_sd:
        return np.inf
    ends = edges(m**0.5 / 8, min(60 * m**0.5, cap))
    sizes = np.minimum(reference_sizes(m, rarer / scores), ends[-1])
    counts = np.histogram(sizes, np.r_[0.0, ends])[0] * scores / SYNTHETIC_ROWS
    k = np.arange(1, PLACES + 1)[:, None]
    steps = np.sqrt(np.arange(2, 2 + len(counts)) + 0.5) % 1.0
    noisy = counts + count_sd * ndtri((0.5 + k * steps) % 1.0)
    clips = (best_clip(Lengths.denoised(h, count_sd, ends, Whole(scores), tail, law), noise, m, tail) for h in noisy)
    return float(np.mean([clip.length for clip in clips]) / np.sqrt(scores))


_PLASTIC = 1.3247179572447460  # generator of a low-discrepancy sequence in the unit square (Roberts 2018)


def reference_sizes(m: int, rare: float = np.inf) -> FloatArray:
    """Return norms |w||e| of scores for assumed rows w and errors e, to forecast interval lengths without data.

    The shape of the result is (SYNTHETIC_ROWS,).

    The rows w have m entries: 1 and m - 1 nearly normal variables (`reference_rows`). The errors e have variance 1 and
    a t distribution (10 df). If the share `rare` is finite, the errors have two values instead, and the larger absolute
    error occurs in the share `rare` of the rows.
    """
    norms, v, t = reference_rows(m)
    if np.isfinite(rare):
        return norms * np.where(v < rare, 1 - rare, rare) / np.sqrt(rare * (1 - rare))
    return norms * t / np.sqrt(1.25)


@cache
def reference_rows(m: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return norms |w| of assumed rows w, probabilities v and absolute errors |t|, each of shape (SYNTHETIC_ROWS,).

    The first of the m entries of w is 1. Each other entry is a normal variable times a lognormal(.1) variable; the sum
    of the squares of these entries is approximated by a gamma variable with the same mean and variance. An error t is
    the quantile of the t distribution (10 df) at the quasi-random probability v. The norms |w| are quantiles at other
    quasi-random probabilities.
    """
    k = np.arange(1, SYNTHETIC_ROWS + 1)
    u, v = (0.5 + k / _PLASTIC) % 1.0, (0.5 + k / _PLASTIC**2) % 1.0
    mean, variance = np.exp(0.02), 3 * np.exp(0.08) - np.exp(0.04)
    squared = gammaincinv((m - 1) * mean**2 / variance, u) * (variance / mean) if m > 1 else np.zeros(SYNTHETIC_ROWS)
    return np.sqrt(1 + squared), v, np.abs(stdtrit(10, v))
