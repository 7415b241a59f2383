"""Local differential privacy: the part of each protocol that the person with one row (the holder) computes.

A holder adds noise to an answer before the answer is sent, so that no other person needs to be trusted with the row.
The functions take the rows of several holders at once, for simulations. The answer of each row is computed separately,
with its own random numbers: rows passed one by one give the same answers, bit by bit. The part of the collector, who
computes estimates from the answers, is in `privstats.inference.local`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privstats.errors import BudgetError
from privstats.losses.base import HUBER
from privstats.mechanisms.additive.tails import passes
from privstats.mechanisms.comparison.noisy_sgd import MARGIN
from privstats.numerics.exact import NOISE_BITS, step_of, toward_zero
from privstats.numerics.law import FloatArray, Rng

# A person sends the entries of a a', for a vector a, plus noise with standard deviation sd. The entries of a are
# rounded to multiples of about 2^-15 sqrt(sd), so that the entries of a a' are multiples of a step of about 2^-30 sd.
FACTOR_BITS = 15
# lower and upper limit of the noise scale length^2 / mu in `RowHolder`; between these limits, the sum of an answer and
# its noise is exact
SMALLEST, LARGEST = 1e-6, 1e100


def randomised(truths: NDArray[np.bool_], eps: float, rng: Rng) -> NDArray[np.bool_]:
    """Return the randomised answers of n persons to a yes-or-no question.

    An answer is the truth with probability ``e^eps / (1 + e^eps)``, and otherwise the opposite of the truth.

    Privacy: each answer satisfies eps-DP. The probability of an answer if the truth is "yes" is at most e^eps times its
    probability if the truth is "no", and conversely (Warner 1965). The probability with which the generator `passes`
    draws the opposite answer has a relative error of about 1e-9, and so has the factor e^eps.

    Parameters
    ----------
    truths : ndarray of bool, shape (n,)
        True answers of the n persons; true for "yes".
    eps : float
        Privacy budget of each person.
    rng : Rng
        Source of randomness.

    Returns
    -------
    ndarray of bool, shape (n,)
    """
    return truths ^ passes(rng, np.full(truths.shape, np.logaddexp(0.0, eps)))


@dataclass(frozen=True)
class RowHolder:
    r"""Noisy answers of one person, the holder of a row (x, y), at given coefficients; each answer satisfies mu-GDP.

    Let ``r = y - x'theta`` be the residual at coefficients theta, ``psi = clip(r, -c, c)`` the clipped residual, and
    ``w = min(1, C^2 / |x|^2)`` the weight of the row, with the thresholds c = `clip` and C = `length`. An answer is
    one of the following vectors plus normal noise:

    - `score`: ``s = -w psi x``, a vector of norm at most B = c C.
    - `curvature`: the upper triangle of ``a a'``, where the vector ``a = sqrt(w) 1{|r| < c} x`` has norm at most C.
    - `square`: the upper triangle of ``s s'``, with the vector s of `score`.

    Neighbours: one row is replaced by another row, or becomes incomplete. An incomplete row has x = 0, so its holder
    sends noise alone.

    Privacy: mu-GDP (Dong, Roth and Su 2022, Theorem 2.7), because the standard deviation (sd) of the noise is at least
    the distance of the exact answers of any two rows, divided by mu (for triangles, in rescaled coordinates):

    - Scores: the noise has sd 2 B / mu. Two scores differ by at most 2 B, and one score differs from zero by at most
      B.
    - Triangles of matrices ``a a'`` and ``b b'`` with vectors a and b of norm at most A (C for `curvature`, B for
      `square`): the noise has sd ``sqrt(2) A^2 / mu`` on the diagonal and ``A^2 / mu`` elsewhere. Proof: multiply the
      off-diagonal entries by sqrt(2), so that the norm of a triangle is the Frobenius norm of its matrix. Then the
      noise has sd ``sqrt(2) A^2 / mu`` in every coordinate, and the matrices have a distance of at most mu times this
      sd: ``|aa' - bb'|_F^2 = |a|^4 + |b|^4 - 2 (a'b)^2 <= 2 A^4``. One matrix differs from zero by at most A^2.

    These bounds hold at every theta. So several answers together satisfy GDP with the root of the sum of mu^2 over the
    answers, even if theta depends on earlier answers (Corollary 3.3).

    Rounding: before the noise is added, the vectors s and a are multiplied by 1 - 1e-12, which covers the rounding
    errors of their norms. Then the vectors are rounded toward zero to a grid, which does not increase any norm. So the
    exact answers are multiples of a step, and the noise is rounded to this step, too. The sum is then a function of the
    exact answer plus the unrounded noise, so rounding costs no privacy (`add_noise`).

    Parameters
    ----------
    mu : float
        The guarantee of one answer, in Gaussian differential privacy.
    clip : float
        Threshold c of residuals of the scaled response.
    length : float
        Norm C of the scaled predictors above which the weight of a row is reduced.
    """

    mu: float
    clip: float = HUBER
    length: float = math.sqrt(2.0)

    def __post_init__(self) -> None:
        if not SMALLEST < self.length**2 / self.mu < LARGEST:
            raise BudgetError("mu is too large, or too small, for noise that can be added exactly; write mu=1")

    @property
    def bound(self) -> float:
        """Largest norm B of a row's score (the gradient of its weighted Huber loss): `clip` times `length`."""
        return self.clip * self.length

    @property
    def score_sd(self) -> float:
        """Noise standard deviation of each coordinate of a row's score (gradient of its weighted Huber loss)."""
        return 2 * self.bound / self.mu

    def curvature_sd(self, p: int) -> FloatArray:
        """Return the noise sd of each entry of one row's Hessian, as released by `curvature`, for p coefficients.

        The returned array has the p (p + 1) / 2 entries of the upper triangle.
        """
        return _triangle_sd(p, self.length, self.mu)

    def square_sd(self, p: int) -> FloatArray:
        """Return the noise sd of each entry of one row's matrix s s', as released by `square`, for p coefficients.

        s is the score of the row. The returned array has the p (p + 1) / 2 entries of the upper triangle.
        """
        return _triangle_sd(p, self.bound, self.mu)

    def score(self, x: FloatArray, y: FloatArray, theta: FloatArray, rng: Rng) -> FloatArray:
        """Return the noisy scores of n rows at coefficients theta, each computed by the person who holds the row.

        The score of a row is the gradient of its weighted Huber loss. Normal noise is added to each coordinate.

        Parameters
        ----------
        x : ndarray, shape (n, p)
            Predictors, divided by their scales; a row of zeros where cells are missing.
        y : ndarray, shape (n,)
            Response, divided by its scale.
        theta : ndarray, shape (p,)
            Coefficients of the scaled predictors.
        rng : Rng
            Source of randomness.

        Returns
        -------
        ndarray, shape (n, p)
        """
        sd = np.full(x.shape[1], self.score_sd)
        step = step_of(self.score_sd, NOISE_BITS)
        return _sent(toward_zero(self._scores(x, y, theta), step), sd, step, rng)

    def curvature(self, x: FloatArray, y: FloatArray, theta: FloatArray, rng: Rng) -> FloatArray:
        """Return the noisy Hessians of the weighted Huber losses of n rows, each computed by the holder of the row.

        The Hessians for the rows (x, y) are taken at the coefficients theta. Each row of the returned array, shape (n,
        p (p + 1) / 2), is the upper triangle of one person's Hessian.
        """
        inside = np.abs(_residual(x, y, theta)) < self.clip
        a = x * (MARGIN * np.sqrt(self._weight(x)) * inside)[:, None]
        return _sent_products(a, self.curvature_sd(x.shape[1]), rng)

    def square(self, x: FloatArray, y: FloatArray, theta: FloatArray, rng: Rng) -> FloatArray:
        """Return the noisy matrices s s' of n rows, with s the score of a row, each computed by the holder of the row.

        The score is the gradient of the weighted Huber loss of a row (x, y) at the coefficients theta. Each row of the
        returned array, shape (n, p (p + 1) / 2), is the upper triangle of one person's matrix.
        """
        return _sent_products(self._scores(x, y, theta), self.square_sd(x.shape[1]), rng)

    def _scores(self, x: FloatArray, y: FloatArray, theta: FloatArray) -> FloatArray:
        psi = np.clip(_residual(x, y, theta), -self.clip, self.clip)
        return -x * (MARGIN * self._weight(x) * psi)[:, None]

    def _weight(self, x: FloatArray) -> FloatArray:
        squared = np.zeros(len(x))
        for column in x.T:
            squared += column * column
        return np.minimum(1.0, self.length**2 / np.maximum(squared, 1e-300))


def _residual(x: FloatArray, y: FloatArray, theta: FloatArray) -> FloatArray:
    """Return the residuals ``y - x'theta``, shape (n,), summed in the order of the columns; NaN becomes 0."""
    residual = np.array(y)
    with np.errstate(all="ignore"):
        for column, coefficient in zip(x.T, theta, strict=True):
            residual -= column * coefficient
    residual[np.isnan(residual)] = 0.0
    return residual


def _triangle_sd(p: int, longest: float, mu: float) -> FloatArray:
    i, j = np.triu_indices(p)
    return np.where(i == j, math.sqrt(2.0), 1.0) * longest**2 / mu


def _sent_products(a: FloatArray, sd: FloatArray, rng: Rng) -> FloatArray:
    """Return the upper triangle of x x' plus normal noise, for each row x of `a`, shape (n, p (p + 1) / 2).

    `sd`, shape (p (p + 1) / 2,), has the noise standard deviation of each entry of a triangle. Each x is first rounded
    toward zero, to a grid on which the products x_i x_j have no rounding error.
    """
    step = step_of(math.sqrt(sd.min()), FACTOR_BITS)
    a = toward_zero(a, step)
    i, j = np.triu_indices(a.shape[1])
    return _sent(a[:, i] * a[:, j], sd, step**2, rng)


def _sent(exact: FloatArray, sd: FloatArray, step: float, rng: Rng) -> FloatArray:
    """Return the answers `exact`, multiples of `step`, plus normal noise rounded to multiples of `step`.

    The noise has the standard deviations `sd` before it is rounded.
    """
    noise: FloatArray = sd * rng.standard_normal(exact.shape)
    return exact + np.floor(noise / step + 0.5) * step
