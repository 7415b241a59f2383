"""Rows of a log-link likelihood whose scores and curvatures are bounded row by row, for a perturbed minimiser."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privstats.losses.families import Gamma
from privstats.losses.psi import Likelihood
from privstats.losses.rows import RowBlock, squared_lengths
from privstats.numerics.law import FloatArray

LEAST_RESPONSE = 1e-100  # of which a logarithm is taken: scores of smaller ones are as of zero


def bounded(
    squared: FloatArray, u: FloatArray, curvature: float, weight: FloatArray | float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Return the weight of a row, and the largest threshold of psi, that a bound of curvature allows.

    Parameters
    ----------
    squared : ndarray
        Squared length of the row.
    u : ndarray
        Part of the curvature that does not depend on the threshold.
    curvature : float
    weight : ndarray or float
        The row's own.
    """
    w = np.minimum(weight, curvature / np.maximum(2 * squared * u, 1e-300))
    return w, np.maximum(curvature / np.maximum(w * squared, 1e-300) - u, u)


@dataclass(frozen=True, eq=False)
class ScoreClip:
    """How a row's score and curvature are bounded: by a weight w, and a threshold c of psi.

    With u the part of the curvature that does not depend on the threshold, y for counts and 1 for gamma, the weight is
    ``w = min(weight, curvature / (2 |x|^2 u))`` and ``c = min(radius / (w |x|), curvature / (w |x|^2) - u, farthest)``,
    where the second is never less than u. The score ``w clip(psi, c) x`` is at most `radius` long. Where
    ``|psi| < c``, ``exp(eta) < y + c`` of counts, and ``y exp(-eta) < 1 + c`` of gamma responses: so the curvature is
    at most ``w |x|^2 (u + c) <= curvature``, at any theta.

    Parameters
    ----------
    loss : Likelihood
        Of counts, or gamma, with a log link.
    P : ndarray, shape (width, m)
        Predictors x = z'P.
    theta : ndarray, shape (width,)
        The linear predictor of a release.
    radius, curvature : float
    farthest : float
        Largest c.
    """

    loss: Likelihood
    P: FloatArray
    theta: FloatArray
    radius: float
    curvature: float
    farthest: float

    @property
    def turned(self) -> bool:
        """Whether it is ``y exp(-eta)`` whose exponential is clipped."""
        return isinstance(self.loss.family, Gamma)

    def weighed(self, block: RowBlock) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return x, shape (n, m); and eta, y, w and c, each of shape (n,)."""
        both = block.times(np.column_stack([self.P, self.theta]))
        x, eta, y = both[:, :-1], both[:, -1], self.loss.response(block.response)
        squared, u = np.maximum(squared_lengths(x), 1e-300), np.ones_like(y) if self.turned else y
        w, most = bounded(squared, u, self.curvature, block.weight)
        c = np.minimum(self.radius * np.sqrt(squared) / np.maximum(w * squared, 1e-300), most)
        return x, eta, y, w, np.minimum(c, self.farthest)


@dataclass(frozen=True, eq=False)
class ClippedLikelihoodRows(ScoreClip):
    """Rows (weight, x, y, o) of `WeightedLosses` whose losses ``ClippedExponential(farthest)`` are those of the clip.

    ``exp(eta) - y`` clipped at c is c times the clip at 1 of ``exp(eta - log c) - y / c``; of gamma,
    ``1 - y exp(-eta)`` is minus c times that of ``exp(log(y / c) - eta) - 1 / c``, a function of -x't.
    """

    def __call__(self, block: RowBlock) -> FloatArray:
        x, eta, y, w, c = self.weighed(block)
        if self.turned:
            x, y, eta = -x, np.ones_like(y), np.log(np.maximum(y, LEAST_RESPONSE)) - eta
        return np.column_stack([w * c / self.farthest, x, y / c, eta - np.log(c)])


@dataclass(frozen=True, eq=False)
class ClippedLikelihoodScores(ScoreClip):
    """Scores ``w clip(psi, c) x`` of the rows of `ClippedLikelihoodRows`, at eta as the family clamps it."""

    def __call__(self, block: RowBlock) -> FloatArray:
        x, eta, _, w, c = self.weighed(block)
        scores: FloatArray = x * (w * np.clip(self.loss.psi(eta, block.response), -c, c))[:, None]
        return scores
