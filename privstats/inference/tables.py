"""Tables of counts and densities with intervals, and a class of point estimates without intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike

from privstats.inference.estimate import EXACT, Estimate, Loading, NormalEstimate
from privstats.inference.meat import multinomial
from privstats.inference.notes import Note, noise_note
from privstats.numerics.law import FloatArray


@dataclass(frozen=True, eq=False)
class Table(NormalEstimate):
    """Estimates with intervals but without tests, since the hypothesis that a parameter is zero is of no interest."""

    tested: ClassVar[bool] = False


def counts_table(
    names: Sequence[str], counts: FloatArray, noises: tuple[Loading, ...], notes: Sequence[Note] = ()
) -> Table:
    """Return the table of k released counts of rows; the only error of a count is privacy noise.

    Parameters
    ----------
    names : sequence of str
        Names of the table's rows.
    counts : ndarray, shape (k,)
        Released counts.
    noises : tuple of Loading
        Noise in the counts.
    notes : sequence of Note
        Notes on the estimates.
    """
    return Table.of(names, counts.ravel(), np.zeros((counts.size, counts.size)), noises, notes=notes)


def density_table(
    names: Sequence[str],
    counts: FloatArray,
    total: FloatArray,
    width: FloatArray,
    noises: tuple[Loading, ...],
    notes: Sequence[Note] = (),
) -> Table:
    """Return the table of population densities, ordered by group, then bin.

    The density of a bin is its share of the group's rows, divided by the width of the bin. The sampling variance of a
    count is increased by 1, because otherwise intervals of bins with one to three rows would be too short.

    Parameters
    ----------
    names : sequence of str
        Names of the table's rows.
    counts : ndarray, shape (groups, bins)
        Released counts.
    total : ndarray, shape (groups,)
        Number of rows in each group, positive.
    width : ndarray, shape (bins,)
        Widths of the bins; 1 if the bins are levels of a factor.
    noises : tuple of Loading
        Noise in ``counts.ravel()``.
    notes : sequence of Note
        Notes on the estimates.
    """
    total = np.ravel(total)
    unit = 1 / np.outer(total, width)
    sampling = scipy.linalg.block_diag(*(multinomial(row, float(n)) for row, n in zip(counts, total, strict=True)))
    sampling += np.eye(len(sampling))
    D = np.diag(unit.ravel())
    return Table.of(names, (counts * unit).ravel(), D @ sampling @ D, tuple(D @ noise for noise in noises), notes=notes)


@dataclass(frozen=True, eq=False)
class PointEstimate(Estimate):
    """Estimates without std errors and intervals; all results other than the estimates are NaN.

    Parameters
    ----------
    names : tuple of str
        Names of the estimates.
    theta : ndarray, shape (k,)
        Estimates.
    remarks : tuple of Note
        Notes, among them the reason why there are no intervals.
    diagnostics : mapping of str to float
        Diagnostics of the fit, by name, such as the number of rows used.
    noise : ndarray, shape (k, k), optional
        Covariance of the noise in theta, NaN if unknown, for a fit that spent its whole budget on the estimates; the
        notes then state the size of the noise.
    given : str
        Assumptions under which the size of the noise was computed, in words.
    hidden : ndarray, shape (k, l), optional
        Directions of theta along which no bound on the error is known. The noise of an estimate with a component along
        one of these directions has unknown size.
    hidden_size : ndarray, shape (k,), optional
        Scale of the rounding errors in each row of `hidden`: a row is taken as zero if its norm is at most 1e-8
        (`EXACT`) times this scale.
    bound : ndarray, shape (k, b), optional
        Matrix D that bounds the error of theta due to directions with less information than noise: this error is
        ``D z`` for an unknown vector z with entries in [-1, 1]. The matrix `noise` includes ``D D'``. If the diagonal
        entry of ``D D'`` for an estimate is more than half of the diagonal entry of `noise`, the size of the noise in
        this estimate is taken as unknown, because the bound may be far too large.
    """

    names: tuple[str, ...]
    theta: FloatArray
    remarks: tuple[Note, ...] = ()
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    noise: FloatArray | None = None
    given: str = ""
    hidden: FloatArray | None = None
    hidden_size: FloatArray | None = None
    bound: FloatArray | None = None
    tested: ClassVar[bool] = False

    @classmethod
    def of(cls, estimate: NormalEstimate, notes: Sequence[Note] = ()) -> PointEstimate:
        """Return the estimates of a fit without their intervals; estimates that are not identified stay NaN.

        Parameters
        ----------
        estimate : NormalEstimate
            Estimate with the distribution of its error.
        notes : sequence of Note
            Notes with the reason why there are no intervals.
        """
        kept = tuple(one for one in estimate.notes if one.key != "clipped")
        return cls(estimate.names, estimate.params(), (*kept, *notes), estimate.diagnostics)

    @classmethod
    def alone(cls, estimate: NormalEstimate, hidden: FloatArray, remarks: Sequence[Note] = ()) -> PointEstimate:
        """Return the estimates of a fit without intervals, with the size of the noise in the estimates.

        A fit without intervals spends its whole budget on the estimates. The estimates may be biased along unidentified
        directions of the coefficients theta, whose information is hidden by noise. Bounds on this bias are counted as
        noise. The notes of `estimate` are replaced by `remarks`.

        Parameters
        ----------
        estimate : NormalEstimate
            Estimate with the distribution of its error.
        hidden : ndarray, shape (k, l)
            Further directions of theta, along which no bound on the error is known; the noise of an estimate with a
            component along one of these directions has unknown size.
        remarks : sequence of Note
            Notes on the estimates.
        """
        roots = [estimate.unidentified, *(one.size * one.loading for one in estimate.leaning)]
        noise = estimate.noise + sum(root @ root.T for root in roots)
        size = np.linalg.norm(hidden, axis=1)
        known = tuple(remarks), estimate.diagnostics
        bound = estimate.unidentified
        return cls(estimate.names, estimate.theta, *known, noise=noise, hidden=hidden, hidden_size=size, bound=bound)

    @property
    def sizes(self) -> FloatArray:
        """Standard deviations of the noise in the estimates, shape (k,); NaN if unknown."""
        if self.noise is None:
            return np.full(len(self.names), np.nan)
        sizes = np.sqrt(np.diag(self.noise))
        if self.hidden is None or self.hidden_size is None:
            return sizes
        known = np.linalg.norm(self.hidden, axis=1) <= EXACT * self.hidden_size
        # The variance includes the squared bound on the error along unidentified directions, which may be far too
        # large. If this square is more than half of the variance, the result is NaN, because the size of the noise
        # would be overstated.
        if self.bound is not None:
            known &= 2 * np.sum(self.bound**2, axis=1) <= sizes**2
        return np.where(known, sizes, np.nan)

    @property
    def notes(self) -> tuple[Note, ...]:
        if self.noise is None:
            return self.remarks
        return (*self.remarks, noise_note(dict(zip(self.names, self.sizes.tolist(), strict=True)), self.given))

    def contrast(
        self, R: ArrayLike, alpha: float = 0.05, q: FloatArray | float = 0.0
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        R = np.atleast_2d(np.asarray(R, dtype=float))
        unknown = np.full(len(R), np.nan)
        return through(R, self.theta), unknown, unknown, unknown, unknown

    def covariance(self) -> FloatArray:
        return np.full((len(self.names),) * 2, np.nan)

    def noise_share(self) -> FloatArray:
        return np.full(len(self.names), np.nan)

    def wald(self, R: ArrayLike, q: FloatArray | float = 0.0) -> tuple[float, int, float]:
        R = np.atleast_2d(np.asarray(R, dtype=float))
        return np.nan, len(R), np.nan

    def mapped(self, matrix: FloatArray, shift: FloatArray, names: Sequence[str] | None = None) -> PointEstimate:
        names = self.names if names is None else tuple(names)
        noise = None if self.noise is None else matrix @ self.noise @ matrix.T
        hidden = None if self.hidden is None else matrix @ self.hidden
        size = None if self.hidden_size is None else np.abs(matrix) @ self.hidden_size
        bound = None if self.bound is None else matrix @ self.bound
        theta = through(matrix, self.theta) + shift
        return replace(self, names=names, theta=theta, noise=noise, hidden=hidden, hidden_size=size, bound=bound)


def through(matrix: FloatArray, values: FloatArray) -> FloatArray:
    """Return ``matrix @ values``, where a NaN value times a zero coefficient counts as zero."""
    enters = ((matrix != 0) & np.isnan(values)).any(axis=1)
    return np.where(enters, np.nan, matrix @ np.nan_to_num(values))
