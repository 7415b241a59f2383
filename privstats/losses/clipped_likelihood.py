"""Functions of a row in models of counts and gamma responses: clipped scores, and losses of bounded curvature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privstats.losses.families import Gamma
from privstats.losses.psi import Likelihood
from privstats.losses.rows import RowBlock, squared_lengths
from privstats.numerics.law import FloatArray

LEAST_RESPONSE = 1e-100  # lower limit of gamma responses before their logarithm is taken


def bounded(
    squared: FloatArray, u: FloatArray, curvature: float, weight: FloatArray | float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Return each row's weight and clipping threshold of psi, such that the curvature of the row's loss is bounded.

    psi is minus the derivative of the loss with respect to the linear predictor eta. The returned weight is at most the
    row's weight in the data. If psi is clipped at the returned threshold and multiplied by the returned weight, the
    curvature of the row's loss with respect to the coefficients is at most `curvature`.

    Parameters
    ----------
    squared : ndarray
        Squared norm |x|^2 of each row's predictors.
    u : ndarray
        Response of each row for counts, 1 for gamma responses: ``u + threshold`` bounds the curvature in eta (see
        `ScoreClip`).
    curvature : float
        Largest curvature of a row's loss with respect to the coefficients.
    weight : ndarray or float
        Weight of each row in the data.
    """
    w = np.minimum(weight, curvature / np.maximum(2 * squared * u, 1e-300))
    return w, np.maximum(curvature / np.maximum(w * squared, 1e-300) - u, u)


@dataclass(frozen=True, eq=False)
class ScoreClip:
    """Rule for the weight w of a row and the clipping threshold c of psi, which bound the row's score and curvature.

    A row has predictors x, a response y and, in the data, the weight `weight`; psi is minus the derivative of the loss
    with respect to the linear predictor eta. Let u = y for counts and u = 1 for gamma responses. Then ``w =
    min(weight, curvature / (2 |x|^2 u))`` and ``c = min(radius / (w |x|), curvature / (w |x|^2) - u, farthest)``. So
    for all coefficients, the score ``w clip(psi, c) x`` has a norm of at most `radius`, and the loss with this score
    has a curvature of at most `curvature` in the coefficients.

    Proof for the curvature: the loss has curvature zero if ``|psi| > c``. If ``|psi| < c``, its curvature in eta is
    ``exp(eta) < y + c`` for counts and ``y exp(-eta) < 1 + c`` for gamma responses, and so below u + c. Hence the
    curvature in the coefficients is at most ``w |x|^2 (u + c) <= curvature``.

    Parameters
    ----------
    loss : Likelihood
        Minus the log-likelihood of counts or of gamma responses, with a log link.
    P : ndarray, shape (width, m)
        Matrix that gives the predictors x = z'P of a row z.
    theta : ndarray, shape (width,)
        Coefficients of the released linear predictor z'theta.
    radius, curvature : float
        Largest norm of a row's score, and largest curvature of a row's loss with respect to the coefficients.
    farthest : float
        Largest threshold c.
    """

    loss: Likelihood
    P: FloatArray
    theta: FloatArray
    radius: float
    curvature: float
    farthest: float

    @property
    def turned(self) -> bool:
        """Whether the responses are gamma responses; otherwise they are counts.

        psi, minus the derivative of the loss with respect to the linear predictor eta, is ``y exp(-eta) - 1`` for
        gamma responses and ``y - exp(eta)`` for counts.
        """
        return isinstance(self.loss.family, Gamma)

    def weighed(self, block: RowBlock) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return each row's predictors x, linear predictor eta, response y, weight w and clipping threshold c of psi.

        psi is minus the derivative of the loss with respect to eta. The array of predictors has the shape (n, m); the
        four other arrays have the shape (n,).
        """
        both = block.times(np.column_stack([self.P, self.theta]))
        x, eta, y = both[:, :-1], both[:, -1], self.loss.response(block.response)
        squared, u = np.maximum(squared_lengths(x), 1e-300), np.ones_like(y) if self.turned else y
        w, most = bounded(squared, u, self.curvature, block.weight)
        c = np.minimum(self.radius * np.sqrt(squared) / np.maximum(w * squared, 1e-300), most)
        return x, eta, y, w, np.minimum(c, self.farthest)


@dataclass(frozen=True, eq=False)
class ClippedLikelihoodRows(ScoreClip):
    """Function that maps a row to its weight, predictors, response and offset in the loss `ClippedExponential`.

    Let a row have predictors x, response y, weight w, clipping threshold c and linear predictor eta (see `ScoreClip`).
    The function returns ``(w c / farthest, x, y / c, eta - log c)`` for counts, and ``(w c / farthest, -x, 1 / c,
    log(y / c) - eta)`` for gamma responses. With the attribute ``limit = farthest`` of the loss, minus the gradient of
    the weighted loss is then the clipped score ``w clip(psi, c) x``.

    Proof: ``clip(psi, c)`` is ``-c clip(exp(eta - log c) - y / c, 1)`` for counts, and ``c clip(exp(log(y / c) - eta)
    - 1 / c, 1)`` for gamma responses, where ``clip(a, b)`` is a clipped to [-b, b].
    """

    def __call__(self, block: RowBlock) -> FloatArray:
        x, eta, y, w, c = self.weighed(block)
        if self.turned:
            x, y, eta = -x, np.ones_like(y), np.log(np.maximum(y, LEAST_RESPONSE)) - eta
        return np.column_stack([w * c / self.farthest, x, y / c, eta - np.log(c)])


@dataclass(frozen=True, eq=False)
class ClippedLikelihoodScores(ScoreClip):
    """Clipped scores ``w clip(psi, c) x`` of rows with weight w, threshold c and predictors x (see `ScoreClip`).

    psi is minus the derivative of the loss with respect to the linear predictor eta, which is clamped by
    `Family.fitted`.

    Parameters
    ----------
    onto : ndarray, shape (width, k), optional
        Matrix B; if given, the scores are ``w clip(psi, c) z'B`` for rows z of the model matrix, with the same w and c.
    """

    onto: FloatArray | None = None

    def __call__(self, block: RowBlock) -> FloatArray:
        x, eta, _, w, c = self.weighed(block)
        x = x if self.onto is None else block.times(self.onto)
        scores: FloatArray = x * (w * np.clip(self.loss.psi(eta, block.response), -c, c))[:, None]
        return scores
