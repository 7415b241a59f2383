"""The ridge of a perturbed minimiser, and the largest curvature of a row's loss that it allows: public, or released."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from privstats.estimators.constants import BOUNDED_RIDGES, HELD_LEAST
from privstats.estimators.histogram import Clip


def curvature_of(ridge: float, unit: float, m: int, n: float) -> float:
    """Return the largest curvature of a row that a ridge of this part of the rows allows.

    Parameters
    ----------
    ridge : float
    unit : float
        Ridge that curvatures up to 1 need.
    m : int
        Coordinates.
    n : float
        Rows.
    """
    return max(ridge * n / unit, HELD_LEAST * m)


def of_shortest(clip_at: Callable[[float], Clip], curvature: Callable[[float], float]) -> Clip:
    """Return the clip with the shortest interval, and its bound of curvature, of those that `BOUNDED_RIDGES` allow.

    The Hessian's noise meets the ridge, so that an interval is counted longer by the ridge's part of the rows.

    Parameters
    ----------
    clip_at : callable
        The clip with the shortest interval at a bound of curvature.
    curvature : callable
        The bound that a ridge allows.
    """
    clips = []
    for ridge in BOUNDED_RIDGES:
        bound = curvature(ridge)
        clip = clip_at(bound)
        clips.append(replace(clip, length=clip.length * (1 + ridge), curvature=bound))
    return min(clips, key=lambda clip: clip.length)
