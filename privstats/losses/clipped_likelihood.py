"""Rows of a log-link likelihood whose scores and curvatures are bounded row by row, for objective perturbation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privstats.losses.families import Gamma
from privstats.losses.psi import Likelihood
from privstats.losses.rows import RowBlock, squared_lengths
from privstats.numerics.law import FloatArray

LEAST_RESPONSE = 1e-100  # smallest response whose logarithm is taken; smaller ones have the score of zero


def bounded(
    squared: FloatArray, u: FloatArray, curvature: float, weight: FloatArray | float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Return the largest weight of a row, and the largest threshold of psi, that keep its curvature within a bound.

    Parameters
    ----------
    squared : ndarray
        Squared length of the row.
    u : ndarray
        Part of the curvature that does not depend on the threshold.
    curvature : float
    weight : ndarray or float
        The row's own weight.
    """
    w = np.minimum(weight, curvature / np.maximum(2 * squared * u, 1e-300))
    return w, np.maximum(curvature / np.maximum(w * squared, 1e-300) - u, u)


@dataclass(frozen=True, eq=False)
class ScoreClip:
    """Bounds on a row's score and curvature, by a weight w and a threshold c at which psi is clipped.

    Let u be the part of the curvature that does not depend on the threshold: y for counts and 1 for gamma responses.
    Then ``w = min(weight, curvature / (2 |x|^2 u))`` and ``c = min(radius / (w |x|), curvature / (w |x|^2) - u,
    farthest)``, where the second term is at least u. The score ``w clip(psi, c) x`` has length at most `radius`. Where
    ``|psi| < c``, ``exp(eta) < y + c`` for counts and ``y exp(-eta) < 1 + c`` for gamma responses: so the curvature is
    at most ``w |x|^2 (u + c) <= curvature``, at any theta.

    Parameters
    ----------
    loss : Likelihood
        Likelihood of counts, or of gamma responses, with a log link.
    P : ndarray, shape (width, m)
        Predictors x = z'P.
    theta : ndarray, shape (width,)
        Coefficients of the released linear predictor z'theta.
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
        """Whether the clipped exponential is ``y exp(-eta)`` (gamma responses) and not ``exp(eta)`` (counts)."""
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
    """Rows (weight, x, y, o) of `WeightedLosses` for which ``ClippedExponential(farthest)`` has the clipped scores.

    ``exp(eta) - y`` clipped at c equals c times ``exp(eta - log c) - y / c`` clipped at 1. For gamma responses
    ``1 - y exp(-eta)`` clipped at c is minus c times ``exp(log(y / c) - eta) - 1 / c`` clipped at 1, in -x't.
    """

    def __call__(self, block: RowBlock) -> FloatArray:
        x, eta, y, w, c = self.weighed(block)
        if self.turned:
            x, y, eta = -x, np.ones_like(y), np.log(np.maximum(y, LEAST_RESPONSE)) - eta
        return np.column_stack([w * c / self.farthest, x, y / c, eta - np.log(c)])


@dataclass(frozen=True, eq=False)
class ClippedLikelihoodScores(ScoreClip):
    """Scores ``w clip(psi, c) x`` of the rows of `ClippedLikelihoodRows`, with eta clamped by the family."""

    def __call__(self, block: RowBlock) -> FloatArray:
        x, eta, _, w, c = self.weighed(block)
        scores: FloatArray = x * (w * np.clip(self.loss.psi(eta, block.response), -c, c))[:, None]
        return scores
