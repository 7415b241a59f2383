"""The law of the estimation error: privacy noise by simulation of its known law, sampling error in closed form.

Privacy noise is not normal, and is often most of the error; its law is public, so it is simulated. Given a
draw of it, the sampling error is normal, with a variance that was itself estimated from noisy
releases: the same draw, taken off that estimate again, shows how far it may be wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from privstats.inference.answer import Answer
from privstats.inference.sandwich import between_bread
from privstats.numerics.law import Chance, FloatArray

DRAWS = 9_999  # a .95 quantile of pure noise is known to 1 % of itself, a p-value down to 1e-4

Chances = Callable[[int], Chance]


@dataclass(frozen=True, eq=False)
class ErrorLaw:
    """A mixture of normal laws, one a draw: mean ``shift[d]``, covariance ``scale[d] * shape``.

    Parameters
    ----------
    shift : ndarray, shape (draws, q)
        Privacy noise in q linear functions of the estimate.
    scale : ndarray, shape (draws,)
        Residual variances that are compatible with the releases.
    shape : ndarray, shape (q, q)
        Covariance of the sampling error at unit residual variance.
    """

    shift: FloatArray
    scale: FloatArray
    shape: FloatArray

    def marginals(self) -> FloatArray:
        """Return draws of each coordinate by itself, shape (draws, q); jointly they mean nothing.

        The normal part is stratified: its DRAWS quantiles, in any fixed order, against random shifts.
        """
        normal = ndtri((np.arange(len(self.scale)) + 0.5) / len(self.scale)) * np.sqrt(self.scale)
        draws: FloatArray = self.shift + np.outer(normal, np.sqrt(np.diag(self.shape)))
        return draws

    def sample(self, chance: Chance) -> FloatArray:
        """Return one joint draw from each component, shape (draws, q)."""
        normal = chance.standard_normal(self.shift.shape)
        draws: FloatArray = self.shift + np.sqrt(self.scale)[:, None] * (normal @ root(self.shape).T)
        return draws


def error_law(answer: Answer, R: FloatArray, chances: Chances) -> ErrorLaw:
    """Return the law of the error of ``R theta``.

    Parameters
    ----------
    answer : Answer
        With a meat.
    R : ndarray, shape (q, coefficients)
        Linear functions of the estimate, in scaled units.
    chances : callable
        Maps an index to a public random stream, the same at each call: intervals do not change when
        they are asked for again.

    Returns
    -------
    ErrorLaw
    """
    assert answer.meat is not None
    meat = answer.meat
    equation = np.zeros((DRAWS, len(answer.theta)))
    scale = np.full(DRAWS, meat.scale)
    for index, (noise, heard) in enumerate(zip(answer.noises, meat.heard, strict=True), start=1):
        draws = noise.law.sample(chances(index), DRAWS)
        equation += draws @ noise.onto.T
        scale -= draws @ heard
    chi2 = 2 * chances(0).standard_gamma(meat.freedom / 2, DRAWS)
    return ErrorLaw(
        shift=np.linalg.solve(answer.bread, equation.T).T @ R.T,
        scale=np.maximum(scale, 0.0) * meat.freedom / chi2,
        shape=R @ between_bread(answer.bread, meat.shape) @ R.T,
    )


def root(covariance: FloatArray) -> FloatArray:
    """Return L with ``L L' = covariance``, for any positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))
