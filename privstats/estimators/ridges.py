"""The ridge of a perturbed minimiser, and the largest curvature of a row's loss for which it gives privacy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from privstats.estimators.constants import BOUNDED_RIDGES, HELD_LEAST
from privstats.estimators.histogram import Clip


def curvature_of(ridge: float, unit: float, m: int, n: float) -> float:
    """Return the largest curvature of a row's loss for which a ridge of ``ridge * n`` suffices for privacy.

    Parameters
    ----------
    ridge : float
        Ridge as a share of the number of rows.
    unit : float
        Ridge that privacy requires for curvatures up to 1.
    m : int
        Number of coordinates.
    n : float
        Number of rows.
    """
    return max(ridge * n / unit, HELD_LEAST * m)


def of_shortest(clip_at: Callable[[float], Clip], curvature: Callable[[float], float]) -> Clip:
    """Return the clipping threshold with the shortest interval, and its curvature bound, over all `BOUNDED_RIDGES`.

    The ridge is removed with a noisy Hessian, so the interval length is multiplied by ``1 + ridge``.

    Parameters
    ----------
    clip_at : callable
        Function that maps a curvature bound to the threshold with the shortest interval.
    curvature : callable
        Function that maps a ridge, as a share of the rows, to its curvature bound.
    """
    clips = []
    for ridge in BOUNDED_RIDGES:
        bound = curvature(ridge)
        clip = clip_at(bound)
        clips.append(replace(clip, length=clip.length * (1 + ridge), curvature=bound))
    return min(clips, key=lambda clip: clip.length)
