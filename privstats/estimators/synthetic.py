"""Synthetic rows with the released moments of the whitened predictors, for computing expectations over rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from privstats.estimators.constants import FLOOR, NARROWEST, SYNTHETIC_ROWS
from privstats.estimators.frame import PublicBox, Scales
from privstats.estimators.levels import KeptLevels, rare_ends
from privstats.estimators.preconditioner import Start
from privstats.mechanisms.random import public_stream
from privstats.numerics.law import FloatArray


@dataclass(frozen=True, eq=False)
class SyntheticRows:
    """Synthetic rows, simulated from a model with the released moments; they contain no row of the data.

    Parameters
    ----------
    box : PublicBox
        Public information about the design's columns.
    scales : Scales
        Released centres and scales of the columns and the response.
    levels : KeptLevels
        Factor levels kept in the fit.
    start : Start
        Whitened predictors and starting coefficients.
    constant : ndarray, shape (m,)
        Vector whose product with each row of whitened predictors is 1; zero without an intercept.
    about_offset : tuple of two floats
        Released mean and standard deviation of the model's offset.
    """

    box: PublicBox
    scales: Scales
    levels: KeptLevels
    start: Start
    constant: FloatArray
    about_offset: tuple[float, float]

    @cached_property
    def second_moments(self) -> FloatArray:
        """Second moments of the whitened predictors, shape (m, m), as estimated by the releases used for whitening.

        Before whitening, a ridge matrix (`KeptLevels.ridge`) is added to the predictors' second moments, so that
        whitened rows with rare levels have no large norm. Whitening turns the sum into the identity, so the second
        moments of the whitened predictors are the identity minus the whitened ridge matrix.
        """
        W = self.start.W
        return np.eye(self.start.m) - W.T @ self.levels.ridge @ W

    @cached_property
    def mean(self) -> FloatArray:
        """Mean of the whitened predictors, shape (m,)."""
        S, c = self.second_moments, self.constant
        if c.any():
            return np.asarray(S @ c / max(float(c @ S @ c), 1e-300), dtype=float)
        mean = self.scales.sums[:-1] / self.scales.rows @ self.start.P[: self.box.c]
        squared = float(mean @ np.linalg.pinv(S) @ mean)
        return np.asarray(mean * min(1.0, ((1 - FLOOR) / max(squared, 1e-300)) ** 0.5), dtype=float)

    @cached_property
    def offset(self) -> FloatArray:
        """Synthetic offsets, independent of the predictors, shape (rows,)."""
        mean, sd = self.about_offset
        return mean + sd * standard_rows(self.box.c + 1, SYNTHETIC_ROWS)[:, -1] if sd else np.full(SYNTHETIC_ROWS, mean)

    @cached_property
    def rows(self) -> FloatArray:
        """Synthetic rows of whitened predictors, shape (rows, m), with moments `mean` and `second_moments`.

        Numeric columns and factors are first drawn independently of each other (`drawn_rows`). The optimal transport
        map between normal distributions then gives the whitened predictors the two moments. In models with an
        intercept, the inner product of each row with the attribute `constant` is 1.
        """
        w = drawn_rows(self.box, self.scales, self.levels) @ self.start.P
        S, c, mean = self.second_moments, self.constant, self.mean
        w = w - w.mean(axis=0)
        target = S - (np.outer(S @ c, S @ c) / max(float(c @ S @ c), 1e-300) if c.any() else np.outer(mean, mean))
        root, found = _power(target, 0.5), w.T @ w / len(w)
        return np.asarray(mean + w @ (root @ _power(root @ found @ root, -0.5) @ root), dtype=float)


def _power(matrix: FloatArray, exponent: float) -> FloatArray:
    """Return a power of a positive semidefinite matrix; zero eigenvalues stay zero, also for negative powers."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    some = values > 1e-9 * max(float(values[-1]), 1e-300)
    return (vectors * np.where(some, np.where(some, values, 1.0) ** exponent, 0.0)) @ vectors.T


def drawn_rows(box: PublicBox, scales: Scales, levels: KeptLevels) -> FloatArray:
    """Return synthetic rows (columns, [offset], response), with released factor frequencies and normal numeric columns.

    Columns that are products, such as squares and interactions of a number with a factor, are products of drawn values.

    In a design with an intercept, a numeric column may have a released variance so large that all its values seem to
    lie at its two bounds (`rare_ends`); the synthetic values of the column are then its bounds. The synthetic offset
    and response are zero.
    """
    design, rows = box.design, np.zeros((SYNTHETIC_ROWS, box.width))
    normal = standard_rows(box.c, SYNTHETIC_ROWS)
    rows[:, : box.c] = scales.center[:-1] + normal * np.where(np.arange(box.c) == box.intercept, 0.0, scales.scale[:-1])
    if box.intercept is not None:
        rows[:, box.intercept] = 1.0
        for j, _ in rare_ends(box, scales):
            if j < box.c:
                rows[:, j] = np.where(ndtr(normal[:, j]) < (1 + scales.center[j]) / 2, 1.0, -1.0)
    of_rows: dict[int, NDArray[np.intp]] = {}  # for each factor, the position of the level of every synthetic row
    for k, factor in enumerate(design.factors):
        columns = [*factor.columns, *(j for one in design.slopes_by_level if one.factor == k for j in one.columns)]
        if not factor.used or not columns:
            continue
        counts = np.where(levels.kept[k], np.maximum(levels.counts[k], 0.0), 0.0)
        if not counts.sum() > 0:
            continue
        places = (np.arange(SYNTHETIC_ROWS) + 0.5) / SYNTHETIC_ROWS
        codes = np.searchsorted(np.cumsum(counts) / counts.sum(), places).clip(0, len(counts) - 1)
        order = np.argsort(normal[:, columns[0]])  # a public random order, independent of the other columns
        of_rows[k] = np.empty(SYNTHETIC_ROWS, dtype=np.intp)
        of_rows[k][order] = codes
        rows[:, list(factor.columns)] = np.asarray(factor.contrasts, dtype=float)[of_rows[k]]
    return box.rows_with_products(rows, of_rows)


@cache
def standard_rows(m: int, k: int) -> FloatArray:
    """Return k pseudo-random normal rows, shape (k, m), with mean exactly zero and identity second moments.

    The rows are drawn with a fixed public seed and are the same in every call.
    """
    rows = public_stream(7).standard_normal((k, m))
    rows -= rows.mean(axis=0)
    rows.flags.writeable = False
    return np.linalg.solve(np.linalg.cholesky(rows.T @ rows / k), rows.T).T


def whitening(rows: FloatArray, weight: FloatArray, ridge: FloatArray | float = 0.0) -> FloatArray:
    """Return the symmetric matrix T for which the weighted second moments of ``rows @ T`` are about the identity.

    T is M^(-1/2), where M is the sum of the second moments of `rows`, weighted by `weight`, and the matrix `ridge`
    times the mean weight. Eigenvalues of M below `NARROWEST` times its largest eigenvalue are raised to this limit.
    """
    values, vectors = np.linalg.eigh((rows * weight[:, None]).T @ rows / len(rows) + weight.mean() * ridge)
    return (vectors / np.sqrt(np.maximum(values, NARROWEST * max(values[-1], 1e-300)))) @ vectors.T
