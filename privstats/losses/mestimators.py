"""Losses of robust regression with bounded scores; the residual scale is known, or fitted with the coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.special import expit

from privstats.losses.base import HuberLoss
from privstats.losses.rows import RowBlock, squared_lengths
from privstats.numerics.law import FloatArray

REACH, NODES = 12.0, 24_001  # half-width, and number of points, of the grid for expectations over a normal residual


class SelfConcordant(Protocol):
    """Interface of a self-concordant loss f of a residual: ``|f'''| <= gamma f''`` for a constant gamma.

    Under this inequality, Newton steps of a bounded length decrease the loss (Nesterov 1994).
    """

    @property
    def gamma(self) -> float: ...


@dataclass(frozen=True)
class PseudoHuber(HuberLoss):
    """Smooth version of Huber's loss, ``c^2 (sqrt(1 + (r/c)^2) - 1)``.

    Here r is the residual divided by the residual scale `scale`, and c is the threshold `clip`.

    Examples
    --------
    >>> import numpy as np
    >>> PseudoHuber(clip=1.5).psi(np.zeros(2), np.array([0.1, 100.0])).round(3)
    array([0.1, 1.5])
    """

    def psi(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        u = (y - eta) / self.scale
        bounded: FloatArray = self.scale * u / np.sqrt(1 + (u / self.clip) ** 2)
        return bounded

    def slope(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        slope: FloatArray = (1 + ((y - eta) / (self.scale * self.clip)) ** 2) ** -1.5
        return slope

    @property
    def gamma(self) -> float:
        """Largest ratio |f'''| / f'' of the loss f(u), where u is the residual divided by the residual scale.

        The largest ratio is reached at |u| = `clip`.
        """
        return 3 / (2 * self.clip)


@dataclass(frozen=True)
class LogCosh(HuberLoss):
    """Smooth alternative to Huber's loss, ``c^2 log cosh(r / c)``.

    Here r is the residual divided by the residual scale `scale`, and c is the threshold `clip`.

    Examples
    --------
    >>> import numpy as np
    >>> LogCosh(clip=1.5).psi(np.zeros(2), np.array([0.1, 100.0])).round(3)
    array([0.1, 1.5])
    """

    def psi(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        limit = self.scale * self.clip
        bounded: FloatArray = limit * (2 * expit(2 * (y - eta) / limit) - 1)  # limit * tanh((y - eta) / limit)
        return bounded

    def slope(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        above = expit(2 * (y - eta) / (self.scale * self.clip))
        slope: FloatArray = 4 * above * (1 - above)
        return slope

    @property
    def gamma(self) -> float:
        """Least upper bound of the ratio |f'''| / f'' of the loss f(u), where u is the residual over its scale.

        The ratio tends to this bound for large |u|.
        """
        return 2 / self.clip


@dataclass(frozen=True)
class Concomitant:
    r"""Joint M-estimation of coefficients and residual scale, with bounded scores (Huber 1981, section 7.7).

    The coefficients and the residual scale sigma minimise the mean over the rows of ``w [sigma rho(r / sigma) + kappa
    sigma / 2]``. Here rho is the loss, and a row has predictors x, the residual r and the weight ``w = min(1,
    curvature / |x|^2)``. Let psi be the derivative of rho. The constant kappa is ``E psi(Z)^2`` for a standard normal
    Z. Because w also multiplies ``kappa sigma / 2``, sigma is the standard deviation of the residuals if they are
    normal. The score of the coefficients is ``w psi(r / sigma) x``, and the score of log sigma is ``chi = w (psi^2 -
    kappa) / 2``. The property `radius` is the largest norm of a row's joint score (`ConcomitantScores`).

    Parameters
    ----------
    loss : HuberLoss
        Huber's loss, or a smooth version of it, of residuals divided by sigma; |psi| is at most `clip`.
    curvature : float
        The largest ``w |x|^2``.

    Examples
    --------
    >>> both = Concomitant(HuberLoss(), 2.0)
    >>> round(both.kappa, 4), round(both.radius, 4)
    (0.7102, 1.9021)
    """

    loss: HuberLoss
    curvature: float

    @cached_property
    def kappa(self) -> float:
        """Mean square of the loss's derivative psi for standard normal residuals; it is at most clip^2."""
        z = np.linspace(-REACH, REACH, NODES)
        weighted = self.loss.psi(np.zeros(NODES), z) ** 2 * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        return float(np.trapezoid(weighted, z))

    @property
    def radius(self) -> float:
        """Largest norm of a row's joint score of the coefficients and the log scale (see `ConcomitantScores`)."""
        return self.loss.clip * self.curvature**0.5

    @property
    def weight(self) -> float:
        """Factor of the log scale's part of a row's joint score (lambda in `ConcomitantScores`).

        The factor is the largest number for which the norm of every joint score is at most `radius`.
        """
        return 2 * self.curvature**0.5 / self.loss.clip

    @property
    def largest(self) -> float:
        """Largest score chi of a row for the logarithm of the residual scale sigma.

        This number is subtracted from the score chi of each row, so that the norm of the joint score is at most
        `radius`.
        """
        return (self.loss.clip**2 - self.kappa) / 2


@dataclass(frozen=True, eq=False)
class ConcomitantScores:
    r"""Joint scores ``(w psi x, lambda (chi - largest chi))`` of coefficients and log scale, with bounded norm.

    A row has predictors x and a weight w in [0, 1] with ``w |x|^2 <= C^2``. Let psi be the loss's derivative at
    residual / sigma, c the largest |psi|, and kappa the mean square of psi for normal residuals. The score of the log
    scale is ``chi = w (psi^2 - kappa) / 2``. With lambda = 2 C / c, the norm of a joint score is at most c C.

    Proof: let ``s = w psi^2 / c^2``, so that s <= w <= 1. The squared norm of the first part is at most ``c^2 C^2 s``.
    The squared second part is ``lambda^2 (c^2 (1 - s) - kappa (1 - w))^2 / 4 <= c^2 C^2 (1 - s)^2``, since kappa <=
    c^2. The sum of the two squared norms is at most ``c^2 C^2 (1 - s + s^2) <= c^2 C^2``.

    Parameters
    ----------
    both : Concomitant
        Loss, with the constants ``C^2`` (`curvature`), kappa, lambda (`weight`) and the largest chi (`largest`).
    P : ndarray, shape (width, m)
        Matrix that gives the predictors x = z'P of a row z.
    eta : ndarray, shape (width,)
        Vector of coefficients; the linear predictor of a row z is z'eta.
    sigma : float
        Residual scale, for a response that is scaled to [-1, 1].
    """

    both: Concomitant
    P: FloatArray
    eta: FloatArray
    sigma: float

    def __call__(self, block: RowBlock) -> FloatArray:
        x = block.times(self.P)
        w = np.minimum(1.0, self.both.curvature / np.maximum(squared_lengths(x), 1e-300))
        eta = block.times(self.eta[:, None])[:, 0]
        psi = self.both.loss.psi(eta / self.sigma, block.response / self.sigma)
        chi = w * (psi**2 - self.both.kappa) / 2 - self.both.largest
        return np.column_stack([x * (w * psi)[:, None], self.both.weight * chi])
