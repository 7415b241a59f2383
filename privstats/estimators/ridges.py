"""Limits on the curvature of a row's loss, which determine the ridge penalty that privacy requires."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from privstats.estimators.constants import BOUNDED_RIDGES, HELD_LEAST
from privstats.estimators.histogram import Clip


def curvature_of(ridge: float, unit: float, m: int, n: float) -> float:
    """Return the largest curvature of a row's loss for which a ridge of ``ridge * n`` suffices for privacy.

    A row of norm l has a curvature of at most l^2, in units of the largest second derivative of the loss with respect
    to the linear predictor. The result is at least ``HELD_LEAST * m``, the smallest squared norm to which rows are
    clipped. If privacy requires a ridge above ``ridge * n`` for this curvature, the mechanism uses the larger ridge.

    Parameters
    ----------
    ridge : float
        Ridge, divided by the number of rows.
    unit : float
        Ridge that privacy requires for a curvature of 1; the required ridge is proportional to the curvature.
    m : int
        Number of coefficients.
    n : float
        Number of rows.
    """
    return max(ridge * n / unit, HELD_LEAST * m)


def of_shortest(clip_at: Callable[[float], Clip], curvature: Callable[[float], float]) -> Clip:
    """Return the clipping threshold of scores and the bound on the loss curvature that give the shortest interval.

    Each number r in `BOUNDED_RIDGES` gives a candidate ridge penalty, r times the number of rows. The largest curvature
    for which this penalty suffices for privacy is combined with the best threshold for this curvature; the combination
    with the shortest interval is returned. The bias due to the ridge is removed from the estimate by means of a noisy
    Hessian. The removal lengthens the interval, so the expected length is multiplied by ``1 + r``.

    Parameters
    ----------
    clip_at : callable
        Function that maps a curvature bound to the threshold with the shortest interval.
    curvature : callable
        Function that maps (ridge penalty) / (number of rows) to the bound on the curvature of a row's loss.
    """
    clips = []
    for ridge in BOUNDED_RIDGES:
        bound = curvature(ridge)
        clip = clip_at(bound)
        clips.append(replace(clip, length=clip.length * (1 + ridge), curvature=bound))
    return min(clips, key=lambda clip: clip.length)
