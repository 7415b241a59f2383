"""Pooled quantile estimates of several fits; the lower and the upper sides of their intervals are pooled separately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from privstats.inference.order_intervals import OrderStatisticEstimate, RankErrorLaw
from privstats.inference.weights import TINY, inverse_shares
from privstats.numerics.law import FloatArray


@dataclass(frozen=True)
class PooledRanks:
    """Distribution of the rank errors of a pooled interval's ends, computed from the distributions in the single fits.

    A rank error is the rank of a released interval end minus its target rank.

    Parameters
    ----------
    laws : tuple of RankErrorLaw
        Distribution of the rank errors of the interval ends in each fit.
    parts : tuple of float
        Share of each fit in the part of the squared interval length that is due to noise; the shares add up to 1.
    """

    laws: tuple[RankErrorLaw, ...]
    parts: tuple[float, ...]

    def stretch(self, alpha: float) -> float:
        """Return the noise margin at confidence 1 - alpha, divided by the noise margin of the released interval.

        The noise margin is the part of an interval's length, in ranks, that allows for noise. The ratio of the two
        noise margins is computed in each of the pooled fits. The result is the root of the weighted mean of the squared
        ratios; the weight of a fit is its entry in `parts`.
        """
        squares = (part * law.stretch(alpha) ** 2 for part, law in zip(self.parts, self.laws, strict=True))
        return float(np.sqrt(sum(squares)))


def pooled_quantiles(estimates: Sequence[OrderStatisticEstimate], same: bool) -> OrderStatisticEstimate:
    """Return the weighted mean of quantile estimates; the lower and the upper sides of intervals are pooled separately.

    The lower side of an interval extends from the lower end to the estimate, and the upper side from the estimate to
    the upper end. To pool a side, its length in each fit is first multiplied by the weight of the fit.

    - If the fits use disjoint rows, the squared length of a pooled side is the sum of the squared lengths (Zou and
      Donner 2008). The weights are inversely proportional to the squared lengths of the intervals.
    - If the fits use the same rows (`same`), the fits have the same sampling error. Each squared length is the sum of a
      part due to noise and a part due to sampling error. The noise parts are added, and the sampling parts are combined
      by adding their square roots and squaring the sum. The weights are inversely proportional to the noise parts of
      the squared interval lengths.
    """
    first = estimates[0]
    R = np.eye(len(first.names))
    sides = np.array([one.lengths(R, 1 - first.confidence).T for one in estimates])  # shape (fits, sides, quantiles)
    centre = np.array([one.centre for one in estimates])
    unknown = np.isnan(sides.sum(axis=1)) | np.isnan([one.estimate for one in estimates])
    sampling = np.nan_to_num([one.sampling for one in estimates])
    common = sampling if same else np.zeros_like(sampling)
    w = inverse_shares(np.where(unknown, np.inf, sides.sum(axis=1) ** 2 * (1 - common)))
    parts = w[:, None] * np.nan_to_num(sides)
    apart = ((1 - common)[:, None] * parts**2).sum(axis=0)
    below, above = np.sqrt(apart + (np.sqrt(common)[:, None] * parts).sum(axis=0) ** 2)
    noise = (1 - sampling) * parts.sum(axis=1) ** 2
    nothing = unknown.all(axis=0)
    mean = np.where(nothing, np.nan, (w * np.nan_to_num(centre)).sum(axis=0))
    share = noise.sum(axis=0) / np.where(nothing, 1.0, np.maximum((below + above) ** 2, TINY))
    return replace(
        first,
        estimate=mean,
        lower=mean - below,
        upper=mean + above,
        sampling=1 - np.minimum(share, 1.0),
        certain=all(one.certain for one in estimates),
        together=all(one.together for one in estimates),
        laws=tuple(_ranks([one.laws[k] for one in estimates], noise[:, k]) for k in range(len(R))),
        repeats=np.any([one.repeats for one in estimates] & (w > 0), axis=0),
    )


def _ranks(laws: Sequence[RankErrorLaw | None], sizes: FloatArray) -> PooledRanks | None:
    """Return the distribution of the rank errors of a pooled interval's ends, or None if no fit adds noise to the ends.

    A rank error is the rank of a released interval end minus its target rank. `laws` contains the distribution for
    each fit (None for a fit without an interval). `sizes` contains, for each fit, the part of the squared length of
    the pooled interval that is due to the noise of the fit.
    """
    some = [(law, float(size)) for law, size in zip(laws, sizes, strict=True) if law is not None and size > 0]
    total = sum(size for _, size in some)
    return PooledRanks(tuple(law for law, _ in some), tuple(size / total for _, size in some)) if some else None
