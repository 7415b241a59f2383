"""Local differential privacy: estimates that a data collector computes from the noisy answers of many persons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privstats.inference.descent import error_of_path, of_start
from privstats.inference.estimate import Allowance, Coordinates, EstimatingEquation, NormalEstimate, NumericColumns
from privstats.inference.matrix import NoisyMatrix
from privstats.inference.noise import Loading
from privstats.inference.repair import raise_eigenvalues
from privstats.numerics.law import FloatArray
from privstats.numerics.packed import upper_triangle

# largest absolute value of a centred response divided by the default scale of the response; the default scale is half
# the range of the response, divided by sqrt(3)
SIGNAL = math.sqrt(3.0)


def proportion(sent: NDArray[np.bool_], eps: float) -> tuple[float, float, float]:
    """Return the estimated share of true answers "yes", its std error, and the share of variance due to randomisation.

    Each true answer is sent with probability ``pi = e^eps / (1 + e^eps)``, and otherwise the opposite answer. With
    `mean` the share of "yes" among the n answers sent, the estimate ``p = (mean - (1 - pi)) / (2 pi - 1)`` has variance
    ``p (1 - p) / n + pi (1 - pi) / (n (2 pi - 1)^2)`` (Warner 1965), with p clamped to [0, 1] in the variance.

    Parameters
    ----------
    sent : ndarray of bool, shape (n,)
        Randomised answers, True for "yes".
    eps : float
        Privacy parameter of each randomised answer.
    """
    n, difference = len(sent), math.tanh(eps / 2)  # difference = 2 pi - 1; a true answer is sent with probability pi
    p = 0.5 + (float(np.mean(sent)) - 0.5) / difference
    inside = min(max(p, 0.0), 1.0)
    sampling, lies = math.sqrt(inside * (1 - inside) / n), math.sqrt((1 - difference**2) / (4 * n)) / difference
    sd = math.hypot(sampling, lies)
    return p, sd, (lies / sd) ** 2 if sd else 0.0


@dataclass(frozen=True, eq=False)
class DescentCollector:
    r"""Computations of the data collector in gradient descent under local privacy: K steps of step size eta, from 0.

    The loss is the mean loss of n persons, M is its Hessian (curvature matrix), and Q is the mean of the outer
    products u u' of the persons' scores u. M and Q are estimated from noisy answers. With ``R = I - eta M``, and with
    s the standard deviation of the noise in each score, the error of the last iterate has three parts:

    - a sampling error with covariance ``M^-1 Q M^-1 / n``;
    - noise with covariance ``eta (s^2 / n) (I - R^(2K)) M^-1 (2 I - eta M)^-1``, which is exact for a quadratic loss;
    - a bias ``-R^K b``, where b is the minimiser of the loss, because K steps from 0 do not reach b.

    A coefficient is not reported (NaN) if the noise of M is larger than the information about the coefficient (see
    `EstimatingEquation`). The noise of Q reduces the degrees of freedom, which lengthens the intervals.

    Parameters
    ----------
    n, steps : int
        Public number n of persons, and number K of steps.
    step_size : float
        Step size eta.
    score_sd : float
        Standard deviation s of the noise in one person's score.
    curvature_sd, square_sd : ndarray, shape (p (p + 1) / 2,)
        Noise sd of each entry of the curvature matrix and of u u' that one person sends, for p coefficients.
    most : float
        Upper bound on the curvature of one person's loss; the product ``eta most`` is below 2.
    """

    n: int
    steps: int
    step_size: float
    score_sd: float
    curvature_sd: FloatArray
    square_sd: FloatArray
    most: float

    def step(self, theta: FloatArray, scores: FloatArray) -> FloatArray:
        """Return the iterate after `theta` in gradient descent, given the noisy scores of n persons, shape (n, p)."""
        return np.asarray(theta - self.step_size * scores.mean(axis=0))

    def estimate(
        self,
        theta: FloatArray,
        curvatures: FloatArray,
        squares: FloatArray,
        names: Sequence[str],
        numeric: NumericColumns,
    ) -> NormalEstimate:
        """Return the last iterate of gradient descent as an estimate of the coefficients, with its error distribution.

        Parameters
        ----------
        theta : ndarray, shape (p,)
            Last iterate.
        curvatures, squares : ndarray, shape (n, p (p + 1) / 2)
            Noisy answers of the n persons at theta: curvature matrices and outer products u u' of scores u, each the
            upper triangle, row by row, of a symmetric p x p matrix.
        names : sequence of str
            Names of the coefficients.
        numeric : NumericColumns
            Numeric columns among the predictors.
        """
        p = len(theta)
        M = self._mean(curvatures, self.curvature_sd)
        M = replace(M, value=raise_eigenvalues(M.value, -np.inf, self.most))
        Q = self._mean(squares, self.square_sd)
        m, vectors, _ = M.eigen
        known = np.arange(p) >= M.unidentified()[0].shape[1]
        m, vectors = m[known], vectors[:, known]
        step = (self.step_size * np.eye(len(m)), self.score_sd / math.sqrt(self.n))
        covariance, left = error_of_path([step] * self.steps, np.diag(m))
        lag = vectors @ of_start(left, vectors.T @ theta, 1.0)[0]
        noise = vectors * (m * np.sqrt(np.diag(covariance)))
        equation = EstimatingEquation(
            score=np.zeros(p),
            hessian=M,
            meat=raise_eigenvalues(Q.value) / self.n,
            noises=(Loading(noise),),
            coordinates=replace(Coordinates.plain(p), origin=theta),
            signal=SIGNAL,
            moved=(Allowance(lag[:, None], 1.0),),
            freedom=max(1, self.n - p),
            meat_noise=Q.mapped(np.eye(p) / math.sqrt(self.n)),
            numeric=numeric,
        )
        return equation.solve(names)

    def _mean(self, answers: FloatArray, sd: FloatArray) -> NoisyMatrix:
        p = math.isqrt(2 * len(sd))
        i, j = upper_triangle(p)
        value, variances = np.zeros((2, p, p))
        value[i, j] = value[j, i] = answers.mean(axis=0)
        variances[i, j] = variances[j, i] = sd**2 / self.n
        return NoisyMatrix.uncorrelated(value, variances, np.eye(p))
