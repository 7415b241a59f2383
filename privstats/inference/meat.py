"""Sampling variances of scores and of counts, and kernels for densities."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr, ndtri

from privstats.inference.matrix import NoisyMatrix
from privstats.numerics.law import FloatArray

WIDEST = 2.0  # largest half-width of the kernel that estimates a density, in standard deviations of residuals
EPANECHNIKOV = 1.25  # ratio of the effective number of rows, (sum k)^2 / sum k^2, to sum k, for kernel weights k


@dataclass(frozen=True, eq=False)
class Meat:
    """Sampling variance of a score (the "meat" of a sandwich), with its degrees of freedom and noise.

    Parameters
    ----------
    value : ndarray, shape (m, m)
        The variance, a positive semidefinite matrix.
    freedom : float
        Degrees of freedom of the estimated variance.
    noise : NoisyMatrix, optional
        Privacy noise in `value`, if the variance was released.
    """

    value: FloatArray
    freedom: float = np.inf
    noise: NoisyMatrix | None = None

    def mapped(self, L: FloatArray) -> Meat:
        """Return the variance of ``L g``, where this object is the variance of the score g and L is a matrix."""
        noise = None if self.noise is None else self.noise.mapped(L.T)
        return Meat(L @ self.value @ L.T, self.freedom, noise)


def homoskedastic(shape: FloatArray, squares: float, sd: float, rows: float, coefficients: int) -> Meat:
    """Return the score variance ``sigma^2 shape``, for errors of equal variance sigma^2.

    Parameters
    ----------
    shape : ndarray, shape (m, m)
        Sum of x x' over rows, with predictors x.
    squares : float
        Residual sum of squares, corrected for the expected noise; noise can make the corrected sum negative.
    sd : float
        Standard deviation of the noise of `squares`.
    rows : float
        Number of rows n.
    coefficients : int
        Number of coefficients p.

    Returns
    -------
    Meat
        Variance with ``sigma^2 = squares / (n - p)``, replaced by its posterior mean (`positive_mean`), which is larger
        if sigma^2 is small relative to noise. The noise reduces the degrees of freedom.
    """
    freedom = max(1.0, rows - coefficients)
    mean, spread = (float(x) for x in positive_mean(squares / freedom, sd / freedom))
    uncertain = 2 / freedom + (spread / max(mean, 1e-300)) ** 2  # squared relative error of sigma^2
    return Meat(mean * shape, max(1.0, 2 / uncertain))


def quantile_scores_of(second_moments: FloatArray, tau: float, rows: float) -> Meat:
    """Return the score variance of a quantile regression, tau (1 - tau) times `second_moments` (Koenker 2005).

    `second_moments` is the sum of x x' over the rows, with predictors x; tau is the quantile level. The degrees of
    freedom are `rows`, the number of rows, minus the number of predictors, but at least 1.
    """
    return Meat(tau * (1 - tau) * second_moments, max(1.0, rows - len(second_moments)))


def positive_mean(value: ArrayLike, sd: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the posterior mean and sd of a positive number observed with normal noise, under a flat prior.

    `value` is the observed number, and `sd` the standard deviation of its noise.

    >>> [round(float(x), 3) for x in positive_mean(5.0, 0.1)], [round(float(x), 2) for x in positive_mean(0.0, 1.0)]
    ([5.0, 0.1], [0.8, 0.6])
    """
    x, s = np.broadcast_arrays(np.asarray(value, dtype=float), np.asarray(sd, dtype=float))
    z = np.clip(x / np.maximum(s, 1e-300), -30.0, 1e8)
    ratio = np.exp(-(z**2) / 2 - log_ndtr(z)) / math.sqrt(2 * math.pi)  # normal density at z, divided by P(Z <= z)
    mean = np.where(s > 0, s * (z + ratio), np.maximum(x, 0.0))
    left = np.maximum(1 - ratio * (z + ratio), 0.0)
    return np.where(z > 1e7, np.maximum(x, 0.0), mean), s * np.sqrt(left)


def multinomial(counts: FloatArray, total: float) -> FloatArray:
    """Return the multinomial covariance of counts in bins, shape (bins, bins).

    The number of draws is `total`. The share of each bin is estimated from the noisy `counts`.
    """
    share = np.clip(counts / total, 0.0, 1.0)
    return total * (np.diag(share) - np.outer(share, share))


def kernel_width(rows: float, tau: float, least: float = 0.0) -> float:
    """Return the half-width of the kernel that estimates a density at the tau-quantile, in residual std devs.

    The half-width of Hall and Sheather (1988), for `rows` normal residuals, is increased if necessary until the mean
    kernel weight of the rows is at least `least`, which keeps the sum of the weights above the noise of its release.
    The half-width is never above 2 (`WIDEST`).

    >>> [round(kernel_width(1e4, 0.5, least), 2) for least in (0.0, 0.3, 1.0)]
    [0.23, 0.58, 2.0]
    """
    z, x = float(ndtri(0.975)), float(ndtri(tau))
    density = math.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    h = rows ** (-1 / 3) * z ** (2 / 3) * (1.5 * density**2 / (2 * x**2 + 1)) ** (1 / 3)
    h = min(h, 0.9 * min(tau, 1 - tau))
    best = min(WIDEST, float(ndtri(tau + h) - ndtri(tau - h)))
    if density * WIDEST * kernel_mean(WIDEST, tau) <= least:
        return WIDEST
    if density * best * kernel_mean(best, tau) >= least:
        return best
    return float(scipy.optimize.brentq(lambda width: density * width * kernel_mean(width, tau) - least, best, WIDEST))


def kernel_mean(width: float, tau: float) -> float:
    """Return the mean kernel weight of a normal variable around its tau-quantile, divided by ``density * width``.

    The kernel is 1 - u^2, with u the distance from the quantile divided by `width`; the density is the normal density
    at the quantile. The result tends to 4/3 for small widths.

    >>> round(kernel_mean(1e-3, 0.1), 6)
    1.333333
    """
    u, weight = np.polynomial.legendre.leggauss(60)
    x = float(ndtri(tau))
    return float((weight * (1 - u**2)) @ np.exp(-(width * u) * (x + width * u / 2)))


def typical_size(tau: float) -> float:
    """Return the median distance of a standard normal variable from its tau-quantile.

    The median distance of normal residuals from their tau-quantile, divided by this number, is the standard deviation
    of the residuals.

    >>> round(typical_size(0.5), 4)
    0.6745
    """
    z = float(ndtri(tau))
    return float(scipy.optimize.brentq(lambda m: ndtr(z + m) - ndtr(z - m) - 0.5, 0.0, 50.0))


def density_freedom(hessian: NoisyMatrix, kernel_sum: float) -> float:
    """Return the degrees of freedom of a sandwich variance whose Hessian is a kernel estimate, released with noise.

    The result is ``2 / (4 (1 / m + v))``, but at least 1. The sum ``1 / m + v`` is the squared relative error of the
    Hessian; the factor 4 is needed because the variance contains the Hessian twice. The effective number of rows m is
    `EPANECHNIKOV` times the sum `kernel_sum` of the rows' kernel weights, but at least 1. The number v is the
    largest relative noise variance along an identified eigenvector of the Hessian: the noise variance divided by the
    squared eigenvalue.
    """
    values, vectors, _ = hessian.eigen
    weakest = hessian.power(0.0) @ vectors
    relative = np.where(np.linalg.norm(weakest, axis=0) > 0.5, hessian.variance_along(vectors) / values**2, 0.0)
    squared = 1 / max(1.0, EPANECHNIKOV * kernel_sum) + float(relative.max(initial=0.0))
    return max(1.0, 2 / (4 * squared))


def combined(*freedoms: float) -> float:
    """Return the degrees of freedom of an estimated variance with several independent sources of error.

    Each argument f is the degrees of freedom that the variance would have with only one of these sources. The result is
    ``1 / sum(1 / f)``.

    >>> combined(10, 10, float("inf"))
    5.0
    """
    return float(1 / sum(1 / freedom for freedom in freedoms)) if any(map(math.isfinite, freedoms)) else math.inf
