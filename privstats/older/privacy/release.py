"""What crosses from the curator to the world: how far neighbours differ, and what was said about them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from privstats.numerics.law import Law
from privstats.older.losses.convex import RowLoss
from privstats.older.privacy.events import Event

Pairs = tuple[NDArray[np.intp], NDArray[np.intp]]


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """A proved bound: ``|weights * (total - neighbouring total)| <= size`` in the norm named `norm`.

    Parameters
    ----------
    norm : str
        "l1", "l2", "linf", ... : a norm on the weighted coordinates.
    size : float
        The bound.
    weights : ndarray, shape (dim,)
        Positive, public: a coordinate of large weight gets little noise.
    pairs : tuple of two integer arrays, shape (dim,), optional
        Rows and columns of the coordinates, i <= j, where they are entries of a symmetric matrix.
    """

    norm: str
    size: float
    weights: NDArray[np.float64]
    pairs: Pairs | None = None

    def times(self, k: int) -> Sensitivity:
        """Return the bound for a unit of up to `k` rows (triangle inequality)."""
        return replace(self, size=k * self.size)


@dataclass(frozen=True, eq=False)
class ScoreSensitivity(Sensitivity):
    """What one unit does to a sum of losses ``l(theta; row)``, as a function of theta with ``|theta|_1 <= radius``.

    The sum of their gradients moves by at most ``size * (1 + |theta|_1)`` in the named norm, the sum itself by at most
    `loss`, and each row's curvature is a matrix of rank one.

    Parameters
    ----------
    radius : float
        Of the parameter set, in the l1 norm.
    loss : float
        How far the sum of losses moves anywhere in it.
    curvature : float
        Largest eigenvalue of one row's curvature.
    split : float
        Share of the budget that objective perturbation spends on its linear term, in (0, 1).
    rows : int
        Rows that one unit may have.
    """

    radius: float = math.inf
    loss: float = math.inf
    curvature: float = math.inf
    split: float = 0.5
    rows: int = 1

    def times(self, k: int) -> Sensitivity:
        return replace(self, size=k * self.size, loss=k * self.loss, rows=k * self.rows)


@dataclass(frozen=True, eq=False)
class CheckSensitivity(ScoreSensitivity):
    """What one unit does to a sum of check losses of rows (x, y) with entries in [-1, 1].

    The sum of gradients moves by at most `size` at every theta, in the named norm; the sum of losses by at most `loss`
    anywhere in the parameter set, up to a constant.

    Parameters
    ----------
    tilt : float
        Of the norm "hull", ``max(|g_0|, (|g|_inf + tilt |g_0|) / (1 + tilt))``.
    jitter : float
        Half-width of the uniform noise that separates equal y, in half-ranges of y; 0 for none.
    count : float
        How many rows there are at most, as far as that is public.
    """

    tilt: float = 0.0
    jitter: float = 0.0
    count: float = math.inf


@dataclass(frozen=True, eq=False)
class RowLossSensitivity(ScoreSensitivity):
    """What one unit does to a sum of losses ``w l(x'theta + o; y)``, w in [0, 1], x in the cube.

    Each row's score has size at most `size` times its slope in the named norm, and its curvature as a matrix has rank
    one and eigenvalue at most `curvature` times that of l: slope and curvature at one theta are bounded together by
    the loss's frontier.

    Parameters
    ----------
    loss_of_rows : RowLoss
        l.
    others : int
        How many rows change for each one that does: 1 under "replace", where another takes its place, else 0.
    """

    loss_of_rows: RowLoss = field(kw_only=True)
    others: int = field(kw_only=True)

    def times(self, k: int) -> Sensitivity:
        return replace(self, rows=k * self.rows)


@dataclass(frozen=True, eq=False)
class ValueSensitivity(Sensitivity):
    """What one unit does to a collection of values: up to `rows` of them change, each within [low, high].

    Under "replace" a value takes the place of another (or, where `counted` is false, of none: rows may be missing);
    under "add_remove" one appears or vanishes. Mechanisms that look at order statistics bound what this does to them.

    Parameters
    ----------
    low, high : float
        Public range of the values (of each coordinate).
    step : float
        Of the public grid, ``k * step`` for whole k, on which values may be rounded and releases lie.
    kind : {"replace", "add_remove"}
    counted : bool
        Whether the number of values is public.
    rows : int
        How many of them one unit has at most.
    """

    low: float = -math.inf
    high: float = math.inf
    step: float = 0.0
    kind: str = "replace"
    counted: bool = False
    rows: int = 1

    def times(self, k: int) -> Sensitivity:
        return replace(self, rows=k * self.rows)


@dataclass(frozen=True, eq=False)
class Release:
    """A value that may be seen by anyone.

    Parameters
    ----------
    name : str
        Which question it answers.
    value : ndarray, shape (dim,)
        The answer, noise included.
    law : Law, optional
        The law its noise was drawn from, on the scale of the score where the value was chosen by its score; None
        where it was chosen by rank.
    event : Event
        What it cost.
    penalty : float
        Of a chosen theta: the public ridge ``penalty |theta|^2 / 2`` in what it minimises.
    chain : int
        Steps of the Markov chain that the value ends, whose law approaches the stated one; 0 where it has that law.
    """

    name: str
    value: NDArray[np.float64]
    law: Law | None
    event: Event
    penalty: float = 0.0
    chain: int = 0
