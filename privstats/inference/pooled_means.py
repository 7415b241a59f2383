"""Pooling of means by group from several fits, with separate weights of the fits for each mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from privstats.errors import OptionError
from privstats.inference.estimate import NormalEstimate
from privstats.inference.group_means import GroupMeans
from privstats.inference.weights import inverse_shares


def pooled_means(estimates: Sequence[GroupMeans], same: bool) -> GroupMeans:
    """Return, for each mean by group, the weighted mean of its estimates from several fits.

    A fit that does not estimate a mean has weight 0 for this mean.

    - If the fits use disjoint rows, the weights are inversely proportional to the sums of noise and sampling variance.
    - If the fits use the same rows (`same`), the weights are inversely proportional to the noise variances. The
      sampling variance of the result is the weighted average of the estimated sampling variances. The variance of this
      average (`uncertain`) is computed for the worst case: the estimated sampling variances have correlation 1.
    """
    theta, sampling, uncertain, counts = np.array(
        [(one.theta, one.sampling, one.uncertain, one.counts) for one in estimates]
    ).transpose(1, 0, 2)
    noise = np.array([sum((np.diag(n.covariance()) for n in one.noises), 0 * one.sampling) for one in estimates])
    missing = np.isnan(theta)
    w = inverse_shares(np.where(missing, np.inf, noise if same else noise + sampling))
    return replace(
        estimates[0],
        theta=np.where(missing.all(axis=0), np.nan, (w * np.nan_to_num(theta)).sum(axis=0)),
        sampling=((w if same else w**2) * sampling).sum(axis=0),
        uncertain=(w * np.sqrt(uncertain)).sum(axis=0) ** 2 if same else (w**4 * uncertain).sum(axis=0),
        noises=tuple(np.diag(own) @ noise for own, one in zip(w, estimates, strict=True) for noise in one.noises),
        counts=counts.mean(axis=0) if same else counts.sum(axis=0),
    )


def normal_means(means: GroupMeans) -> NormalEstimate:
    """Return the means of one column by group as a `NormalEstimate`; their errors are independent."""
    if len(np.unique(means.group)) < len(means.theta):
        raise OptionError(
            "the means of several columns depend on each other in an unknown way; combine fits of one column each"
        )
    return means.independent()
