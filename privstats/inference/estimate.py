"""Inference by the sandwich covariance, ``hessian^-1 (score variance + variance of privacy noise) hessian^-1``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, fdtrc, gammaincinv

from privstats.inference.error_law import CERTAIN, ErrorLaw, critical, mixed_law
from privstats.inference.joint_tests import echelon
from privstats.inference.matrix import HIDDEN, NoisyMatrix
from privstats.inference.noise import Loading, total_covariance
from privstats.inference.notes import (
    Note,
    clipped_note,
    note,
    reliability_note,
    start_note,
    unidentified_note,
    wide_note,
)
from privstats.inference.reduce import reduced
from privstats.inference.simulate import DRAWS, PublicStream, noise_draws, remembered
from privstats.inference.thin import thin
from privstats.numerics.law import FloatArray

__all__ = [
    "Allowance",
    "Coordinates",
    "Estimate",
    "EstimatingEquation",
    "Loading",
    "NormalEstimate",
    "NumericColumns",
    "Stacked",
    "critical",
    "product_parts",
    "quantile_scores",
]

NEW = 0.98  # a bias bound above this share of the public bound on a coefficient's absolute value is uninformative
# UNIDENTIFIED_SHARE: an estimate is reported if its bias bound due to unidentified directions is at most this share of
# the half-length of its 95 % interval. A larger bias bound must be below MOST_UNIDENTIFIED std errors and
# below the share NEW of the public bound.
UNIDENTIFIED_SHARE = 0.25
MOST_UNIDENTIFIED = 50.0
# WIDEST_ETA: an interval is reported only if a change of the coefficient by the half-length of the interval changes the
# linear predictor by less than this number (root mean square over the rows).
WIDEST_ETA = 10.0
FULL_RANK = 1e-6  # a matrix has full rank if its QR factor R has diagonal entries r with min |r| / max |r| above 1e-6
EXACT = 1e-8  # a number counts as a rounding error if it is at most this multiple of its scale
CELLS = 1000  # number of chi-square quantiles over which the computation of a noncentral F distribution averages
VISIBLE = 0.2  # smallest bias bound due to unidentified directions, in std errors, that a note reports
# MOVED: smallest bias bound due to clipping or starting values, in std errors, that a note reports. The table `tidy`
# lists all bias bounds.
MOVED = 1.0


UNSAVED = ("_draws", "_given", "_own_law")  # cached attributes that are not saved; they are computed again if needed


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Coordinates t of the coefficients theta, in which an estimating equation is solved: theta = origin + matrix @ t.

    Parameters
    ----------
    origin : ndarray, shape (c,)
        Value of theta at t = 0.
    matrix : ndarray, shape (c, m)
        Matrix that maps changes of t to changes of theta.
    hidden : ndarray, shape (c, l)
        Directions of theta about which the rows of the fit have no information, because of the coding of factors;
        usually there are no such directions.
    """

    origin: FloatArray
    matrix: FloatArray
    hidden: FloatArray

    @classmethod
    def plain(cls, c: int) -> Coordinates:
        """Return coordinates t that are equal to the c coefficients themselves: ``t = theta``."""
        return cls(np.zeros(c), np.eye(c), np.zeros((c, 0)))

    @cached_property
    def back(self) -> FloatArray:
        """Matrix that maps ``theta - origin`` to the coordinates t, shape (m, c).

        The part of ``theta - origin`` along the directions `hidden` does not change t. The result has the first m rows
        of the pseudo-inverse of the matrix [matrix hidden].
        """
        m, both = self.matrix.shape[1], np.column_stack([self.matrix, self.hidden])
        Q, R = np.linalg.qr(both)
        size = np.abs(np.diag(R))
        if len(R) < R.shape[1] or not size.min(initial=np.inf) > FULL_RANK * size.max(initial=0.0):
            return np.asarray(np.linalg.pinv(both), dtype=float)[:m]
        return np.asarray(np.linalg.solve(R, Q.T), dtype=float)[:m]


@dataclass(frozen=True)
class NumericColumns:
    """Positions, among all coefficients, of numeric predictors, the intercept, and products of predictors.

    `EstimatingEquation.unseen` tests whether the variation of a numeric predictor is smaller than the noise of the
    released Hessian. This happens if the predictor's values vary far less than its bounds allow.

    Parameters
    ----------
    positions : tuple of int
        Positions of the coefficients of numeric predictors among all coefficients.
    intercept : int, optional
        Position of the intercept; None without an intercept.
    products : tuple of tuple of int
        For each product of columns: the position of the product, followed by the positions of the multiplied columns.
    """

    positions: tuple[int, ...] = ()
    intercept: int | None = None
    products: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of(cls, design: Any) -> NumericColumns:
        """Return the numeric columns of a model matrix: columns that do not belong to a factor and are not products.

        In a model with an intercept, columns with bounds from 0 to at most 1, such as truth values and splines, are
        left out: if such a column varies little, the reason is usually that few of its values differ from 0, not that
        its bounds are too wide. Products of columns, also with levels of a factor, are listed separately: if a column
        varies less than the noise of the Hessian, its products are assumed to vary less than this noise, too
        (`EstimatingEquation.unseen`).
        """
        at = {name: j for j, name in enumerate(design.columns)}
        products = {j: parts for name, j in at.items() if len(parts := product_parts(name)) > 1}
        coded = {j for factor in design.factors for j in factor.columns}
        low, high = design.centers - design.halves, design.centers + design.halves
        share = (np.abs(low) <= EXACT) & (high <= 1 + EXACT)
        intercept = 0 if design.intercept else None
        coded |= {*products, intercept}
        left = (j for j in at.values() if j not in coded and not share[j])
        written = ((j, *(at[part] for part in parts if part in at)) for j, parts in products.items())
        return cls(tuple(left), intercept, (*design.products, *written))

    def without(self, constant: Sequence[int]) -> NumericColumns:
        """Return the numeric columns without the columns at positions `constant`, which do not vary in the fit."""
        return replace(self, positions=tuple(j for j in self.positions if j not in constant))


def product_parts(name: str) -> list[str]:
    """Return the names of the columns that are multiplied in a product column; for any other column, its own name.

    >>> product_parts("year:C(g)[T.9:30]"), product_parts("Q('a:b')")
    (['year', 'C(g)[T.9:30]'], ["Q('a:b')"])
    """
    parts, depth = [""], 0
    for letter in name:
        depth += (letter in "([") - (letter in ")]")
        if letter == ":" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


@dataclass(frozen=True, eq=False)
class Allowance:
    """A bound on the bias of a linear function ``R theta`` of coefficients theta: ``|R @ loading|_2 * size``.

    Parameters
    ----------
    loading : ndarray, shape (m, k)
        Matrix that maps a vector of k unknown biases to the biases of the m coefficients theta. In an `Allowance` for
        an estimating equation, the m coordinates of its score take the place of theta.
    size : float
        Bound on the Euclidean norm of the vector of unknown biases.
    """

    loading: FloatArray
    size: float

    def __rmatmul__(self, F: FloatArray) -> Allowance:
        return replace(self, loading=np.asarray(F) @ self.loading)

    __array_ufunc__ = None  # makes numpy leave ``array @ allowance`` to `__rmatmul__`

    def of(self, R: FloatArray) -> FloatArray:
        """Return the bias bounds of linear functions ``R theta`` of the coefficients theta, one per row of R."""
        return self.size * np.linalg.norm(R @ self.loading, axis=1)


class Estimate(ABC):
    """Base class of the estimates of a fit, with the distribution of their errors.

    Attributes
    ----------
    names : tuple of str
        Names of the coefficients.
    diagnostics : mapping of str to float
        Diagnostics of the fit, by name, computed from releases.
    tested : bool
        Whether tables of results show tests of the hypothesis that a parameter is zero.
    """

    names: tuple[str, ...]
    diagnostics: Mapping[str, float]
    tested: ClassVar[bool] = True

    @property
    def rows(self) -> FloatArray | None:
        """Released or public number of rows used for each of the k estimates, shape (k,); None if it is unknown."""
        return None

    @property
    @abstractmethod
    def notes(self) -> tuple[Note, ...]:
        """Notes on the estimates, in the order of printing in a summary."""

    @abstractmethod
    def contrast(
        self, R: ArrayLike, alpha: float = 0.05, q: FloatArray | float = 0.0
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return estimates, std errors, intervals and p-values of linear functions ``R theta`` of coefficients theta.

        The five arrays, with one number per row of R, are the estimates, std errors, lower and upper ends of intervals
        at confidence 1 - alpha, and p-values of the hypotheses ``R theta = q``. A function that is not identified has
        NaN in all five arrays.
        """

    @abstractmethod
    def covariance(self) -> FloatArray:
        """Return the covariance of the k estimates, privacy noise included, shape (k, k); NaN for unknown entries."""

    @abstractmethod
    def noise_share(self) -> FloatArray:
        """Return the share of privacy noise in the squared std error of each of the k estimates, shape (k,)."""

    @abstractmethod
    def wald(self, R: ArrayLike, q: FloatArray | float = 0.0) -> tuple[float, int, float]:
        """Test hypotheses ``R theta = q`` about the coefficients theta jointly.

        The three returned numbers are the test statistic, the number of independent hypotheses, and the p-value.
        """

    def dependent(self, R: FloatArray) -> NDArray[np.bool_]:
        """Return a mask of the linear functions ``R theta`` that combine estimates theta with unknown covariances.

        There is one entry per row of R. The std errors of these functions are upper bounds, and `wald` tests hypotheses
        that combine such estimates by the Bonferroni bound: its statistic is the largest squared z statistic. By
        default all covariances are known, so that no function is marked.
        """
        return np.zeros(len(R), dtype=bool)

    @abstractmethod
    def mapped(self, matrix: FloatArray, shift: FloatArray, names: Sequence[str] | None = None) -> Estimate:
        """Return the estimate of ``matrix @ theta + shift``, a linear function of the coefficients theta."""

    def coefficients(self, alpha: float = 0.05) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return four arrays with the k estimates, their std errors, and the lower and upper ends of their intervals.

        The intervals have confidence 1 - alpha.
        """
        return self.contrast(np.eye(len(self.names)), alpha)[:4]

    def params(self) -> FloatArray:
        """Return the estimates of the k coefficients, shape (k,)."""
        return self.coefficients()[0]

    def bse(self) -> FloatArray:
        """Return the std errors of the k estimates, privacy noise included, shape (k,)."""
        return self.coefficients()[1]

    def tvalues(self) -> FloatArray:
        """Return the k estimates divided by their std errors, shape (k,)."""
        estimate, sd, *_ = self.coefficients()
        return estimate / sd

    def pvalues(self) -> FloatArray:
        """Return two-sided p-values of the k hypotheses that a coefficient is zero, shape (k,)."""
        return self.contrast(np.eye(len(self.names)))[4]

    def bias_bound(self) -> FloatArray:
        """Return the bias bounds of the k estimates, which p-values and intervals allow for, shape (k,)."""
        return np.where(np.isnan(self.coefficients()[2]), np.nan, 0.0)


@dataclass(frozen=True, eq=False)
class EstimatingEquation:
    """The noisy, linearised estimating equation ``score - hessian t + noise = 0`` for coefficients theta.

    The equation is solved in coordinates t of theta. The information along a unit vector v is v'H v, with H the
    Hessian. Each eigenvalue of H has a threshold, computed from the noise of H (`NoisyMatrix.eigen`). An eigenvector is
    unidentified if its own eigenvalue, or any larger eigenvalue, is below the threshold of that eigenvalue.

    Parameters
    ----------
    score : ndarray, shape (m,)
        Released score at t = 0.
    hessian : NoisyMatrix, shape (m, m)
        Hessian in the coordinates t, with its noise.
    meat : ndarray, shape (m, m)
        Sampling variance of the score.
    noises : tuple of Loading
        Independent privacy noises in the score.
    coordinates : Coordinates
        Linear map from t to the c coefficients theta.
    signal : float
        Assumed upper bound on ``|a| sqrt(I)``, where a is the component of t along an unidentified eigenvector. The
        number I is the threshold of the eigenvalue or, if smaller, `usual`. Hence ``|a|`` is at most
        ``signal / sqrt(I)``.
    usual : float
        Typical information along a direction. This number replaces a larger threshold, because the bound
        ``signal / sqrt(threshold)`` on a component of t would then be too small.
    known : ndarray, shape (m,), optional
        Approximate value of t, which replaces the estimate of t along unidentified directions; by default 0.
    remaining : float
        Approximate norm of t, from which the variance of the noise in ``hessian t`` is computed; 0 if `noises`
        includes this noise.
    clipped : tuple of Allowance
        Bounds on the bias that clipping causes in the score.
    moved : tuple of Allowance
        Bounds on all other biases of theta.
    freedom : float
        Residual degrees of freedom of the score's variance.
    meat_noise : NoisyMatrix, optional
        Released variance of the score; None if `meat` was not released. Only the distribution of its noise is used: the
        noise reduces the degrees of freedom, which lengthens the intervals.
    per_eta : ndarray, shape (c,), optional
        For models with a link: change of each coefficient that moves the linear predictor by 1 in root mean square.
    within : ndarray, shape (c, p), optional
        Public bounds: theta is the product of `within` and an unknown vector with entries in [-1, 1]. If given, these
        bounds, and not `signal`, limit theta along unidentified directions.
    numeric : NumericColumns
        Numeric columns of the model matrix; `unseen` tests whether a column varies less than the noise of the Hessian.
    """

    score: FloatArray
    hessian: NoisyMatrix
    meat: FloatArray
    noises: tuple[Loading, ...]
    coordinates: Coordinates
    signal: float
    usual: float = np.inf
    known: FloatArray | None = None
    remaining: float = 0.0
    clipped: tuple[Allowance, ...] = ()
    moved: tuple[Allowance, ...] = ()
    freedom: float = np.inf
    meat_noise: NoisyMatrix | None = None
    per_eta: FloatArray | None = None
    within: FloatArray | None = None
    numeric: NumericColumns = NumericColumns()

    def solve(
        self, names: Sequence[str], notes: Sequence[Note] = (), diagnostics: Mapping[str, float] | None = None
    ) -> NormalEstimate:
        """Return the solution theta of the estimating equation, with its error distribution and bounds on its bias.

        Parameters
        ----------
        names : sequence of str
            Names of the coefficients theta.
        notes : sequence of Note
            Notes on the estimates.
        diagnostics : mapping of str to float, optional
            Diagnostics of the fit. The largest ratios of noise to information among identified and, if there are any,
            among unidentified eigenvectors of the Hessian (`NoisyMatrix.noise_to_signal`) are added.
        """
        G = self.coordinates.matrix
        F = thin(G) @ self.hessian.power(-1.0)
        lost, _, back = self.unidentified()
        length = float(np.hypot(self.remaining, np.linalg.norm(back)))
        noise = total_covariance(self.noises, len(self.score)) + self.hessian.noise_in(length)
        identified, ratio = self.hessian.noise_to_signal()
        known = {"noise_to_signal": identified}
        if lost.size:
            known["noise_to_signal_unidentified"] = ratio
        unseen, along = self.unseen
        hidden = np.column_stack([self.coordinates.hidden, along])
        unidentified, leaning = self._unidentified_bias(F)
        return NormalEstimate(
            names=tuple(names),
            theta=self.coordinates.origin + F @ self.score + G @ back,
            sampling=_symmetric(F @ self.meat @ F.T),
            noise=_symmetric(F @ noise @ F.T),
            hidden=hidden,
            hidden_size=np.linalg.norm(hidden, axis=1),
            unidentified=unidentified,
            leaning=leaning,
            ranges=self._ranges(),
            per_eta=self.per_eta,
            allowances=(*(F @ allowance for allowance in self.clipped), *self.moved),
            simulated=tuple(F @ one for one in self.noises if not one.normal),
            freedom=self.freedom,
            meat_noise=() if self.meat_noise is None else (self.meat_noise.mapped(F.T),),
            remarks=tuple(notes),
            diagnostics={**known, **(diagnostics or {})},
            unseen=tuple(names[j] for j in unseen),
        )

    def without(self, direction: FloatArray, most: float) -> EstimatingEquation:
        """Return the estimating equation without the component of theta along `direction`, an array of shape (c,).

        Coefficients that change along `direction` are not reported for the new equation. The intervals of the other
        coefficients usually become shorter, because these intervals depend less on the unknown component r of theta
        along `direction`. The absolute value of r is at most `most`.

        Let b be `direction` in the coordinates t, and let ``H = A + N`` be the released Hessian, the sum of the true
        Hessian A and its noise N. The new coordinates w are defined by ``t = T w + r b``, where the columns of T are
        an orthonormal basis of the vectors orthogonal to a vector h. Then the equation is
        ``T'(score - A T w) + T'N b r - T'H b r = 0``, in which the term ``T'N b r`` is treated as noise.

        - Usually h is ``H b``, so the term ``T'H b r`` is zero.
        - If b'H b is below 3 (`HIDDEN`) standard deviations of its noise, h is ``H b`` plus a multiple of b, so that b
          is not in the span of T. Then ``T'H b r`` is treated as a bias.
        """
        b = self.coordinates.back @ direction
        through, squared = self.hessian.value @ b, max(float(b @ b), 1e-300)
        least = HIDDEN * float(np.sqrt(self.hessian.variance_along(b[:, None])[0]))
        raised = through + max(least - float(b @ through), 0.0) / squared * b
        T = np.linalg.svd(raised[:, None], full_matrices=True)[0][:, 1:]
        onto = self.coordinates
        return replace(
            self,
            score=T.T @ self.score,
            hessian=self.hessian.mapped(T),
            meat=T.T @ self.meat @ T,
            noises=tuple(T.T @ one for one in self.noises),
            coordinates=Coordinates(onto.origin, onto.matrix @ T, np.column_stack([onto.hidden, direction])),
            known=None if self.known is None else T.T @ self.known,
            remaining=float(np.hypot(self.remaining, squared**0.5 * most)),
            clipped=(*(T.T @ one for one in self.clipped), Allowance(T.T @ through[:, None], most)),
            meat_noise=None if self.meat_noise is None else self.meat_noise.mapped(T),
        )

    def unidentified(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the unidentified directions, with bounds on the components of the solution t along these directions.

        Returns
        -------
        directions : ndarray, shape (m, l)
            Orthonormal unidentified eigenvectors of the Hessian, one per column.
        bounds : ndarray, shape (l,)
            Upper bound on the absolute value of the component of t along each direction.
        known : ndarray, shape (m,)
            Projection of the attribute `known`, an approximate value of t, on the span of the directions.
        """
        lost, least = self.hessian.unidentified()
        known = np.zeros(len(self.score)) if self.known is None else self.known
        return lost, self.signal / np.sqrt(np.minimum(least, self.usual)), lost @ (lost.T @ known)

    @cached_property
    def unseen(self) -> tuple[list[int], FloatArray]:
        """Positions of the columns that vary less than the noise of the Hessian, and directions of their coefficients.

        A numeric column varies less than the noise if the information along the direction of its coefficient is below
        3 (`HIDDEN`) standard deviations of the noise in this information. A product of columns is included in the l
        columns if one of its factors is such a numeric column. If all directions of theta are identified, l is 0. The
        second result has one direction per column, shape (c, l), for c coefficients:

        - The direction of a product changes only the coefficient of the product.
        - The direction of a numeric column changes the coefficient of this column by 1, and the intercept, if any, so
          that the mean of the linear predictor stays the same. The rows have the same weights in this mean as in the
          Hessian. If the noise exceeds the information about the intercept, the intercept changes by 1.
        """
        back, numeric = np.asarray(self.coordinates.back), self.numeric
        every, own = np.eye(back.shape[1]), list(numeric.positions)
        along = every[:, own]
        if not self.hessian.unidentified()[0].size:
            return [], along[:, :0]
        if numeric.intercept is not None:
            one = back[:, numeric.intercept]
            through, rows = self.hessian.value @ one, float(one @ self.hessian.value @ one)
            seen = not self.hessian.unseen(one[:, None])[0]
            along[numeric.intercept] = -(through @ back @ along) / max(rows, 1e-300) if seen else 1.0
        every[:, own] = along
        hidden = {j for j, one in zip(own, self.hessian.unseen(back @ along), strict=True) if one}
        found = sorted(hidden | {j for j, *factors in numeric.products if hidden & set(factors)})
        return found, every[:, found]

    def _unidentified_bias(self, F: FloatArray) -> tuple[FloatArray, tuple[Allowance, ...]]:
        """Return bounds on the two parts of the bias of theta due to unidentified directions.

        The released Hessian ``H = A + N`` is the sum of the true Hessian A and its noise N. Let v be an unidentified
        eigenvector of H, and let ``a = v't`` be the component of the true coordinates t along v, which the equation
        does not determine. The component a causes a bias of t that has, up to sign, two parts: ``a v``, and
        ``a H^-1 N v`` along identified directions, with H^-1 the inverse of H on these directions.

        The argument F is the matrix that maps an error of the score to the error of theta.

        The first result is a matrix D with c rows. The first part of the bias of theta, summed over all v, is ``D z``
        for an unknown vector z with entries in [-1, 1]. D is computed from `within` if given, and otherwise from the
        bounds on ``|a|`` that the method `unidentified` returns. These bounds are too small if the true information
        v'A v is far below the threshold of the eigenvalue of v.

        The second result is a tuple of at most one `Allowance`, a bound on the second part:

        - If `within` is given, the bound is the standard deviation of the second part at the largest possible ``|a|``.
        - Otherwise there is a bound only if a numeric column varies less than the noise of the Hessian (`unseen`),
          because the information v'A v may then be close to zero. The bound for a linear function ``r't`` is
          ``signal sqrt(r'H^-1 r)``, with the attribute `signal`. Derivation: with ``u = H^-1 r``, the second part is
          ``a u'N v = -a u'A v``, because u and v are orthogonal and v is an eigenvector of H. If
          ``a^2 v'A v <= signal^2``, the absolute value of the second part is at most ``signal sqrt(u'A u)`` by the
          Cauchy-Schwarz inequality. Finally, A is approximated by H.
        """
        G = thin(self.coordinates.matrix)
        lost, hides, _ = self.unidentified()
        if self.within is None or not lost.size:
            further = (Allowance(G @ self.hessian.power(-0.5), self.signal),) if self.unseen[0] else ()
            return np.asarray(G @ (lost * hides)), further
        most = lost.T @ self.coordinates.back @ self.within
        length = float(np.linalg.norm(np.abs(most).sum(axis=1)))
        values, vectors = np.linalg.eigh(self.hessian.noise_in(length))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return np.asarray(G @ (lost @ most)), (Allowance(F @ root, 1.0),)

    def _ranges(self) -> FloatArray:
        """Return a matrix that bounds theta: ``|theta_j|`` is at most the sum of the absolute entries of row j.

        The result is the attribute `within`, if given. Otherwise the result is a diagonal matrix with the entries
        ``signal / sqrt(I_j)``, where `signal` is an attribute, and I_j is the information about a change of coefficient
        j alone. To compute I_j, each eigenvalue of the Hessian below its threshold (`NoisyMatrix.eigen`) is replaced by
        the threshold or, if smaller, by the attribute `usual`.
        """
        if self.within is not None:
            return self.within
        values, vectors, least = self.hessian.eigen
        at_least = np.where(values < least, np.minimum(least, self.usual), values)
        information = ((vectors.T @ self.coordinates.back) ** 2 * at_least[:, None]).sum(axis=0)
        return np.diag(self.signal / np.sqrt(np.maximum(information, 1e-300)))


@dataclass(frozen=True, eq=False)
class NormalEstimate(Estimate):
    """Asymptotically normal estimates, with the distribution of their errors, bias bounds and unidentified directions.

    The information along a direction v is v'H v, with H the released Hessian of the loss. A direction of the
    coefficients theta is unidentified if the information along it is too small for the noise of H
    (`NoisyMatrix.eigen`). The error of a linear function ``R theta`` is the sum of a random error X with standard
    deviation s, and of a bias. The absolute value of the bias is at most a, the sum of the bounds in `allowances`,
    `unidentified` and `leaning`. The interval has the 1 - alpha quantile of ``|X + a|`` as half-length, and a p-value
    is a tail probability of ``|X + a|``. ``R theta`` is reported as NaN in four cases (`identified`):

    - R has a component along a direction in `hidden`, apart from rounding errors.
    - The standard error s is zero or not finite.
    - The interval is so long that a change of ``R theta`` by the half-length of the interval changes the linear
      predictor by 10 (`WIDEST_ETA`) or more in root mean square.
    - The bias bound due to unidentified directions is too large: it exceeds a quarter of the half-length of the 95 %
      interval, and it is at least 50 standard errors or at least 98 % of the public bound on ``|R theta|``.

    Parameters
    ----------
    names : tuple of str
        Names of the estimates.
    theta : ndarray, shape (k,)
        Estimates.
    sampling, noise : ndarray, shape (k, k)
        Covariance of the sampling error, and of the error that is due to privacy.
    hidden : ndarray, shape (k, l)
        Directions of theta about which the rows have no information, and directions of the coefficients in `unseen`.
    hidden_size : ndarray, shape (k,)
        Scale of the rounding errors in each row of `hidden`: a row is taken as zero if its norm is at most 1e-8
        (`EXACT`) times this scale.
    unidentified : ndarray, shape (k, d)
        Matrix D that bounds the bias due to unidentified directions: this bias of theta is ``D z`` for some vector z
        with entries in [-1, 1].
    ranges : ndarray, shape (k, p)
        Public bounds: the absolute value of ``R theta`` is at most the absolute row sum of ``R @ ranges``.
    per_eta : ndarray, shape (k,), optional
        For models with a link: change of each coefficient that moves the linear predictor by 1 in root mean square.
    allowances : tuple of Allowance
        Bounds on the bias due to clipping, or due to the starting value of an iteration.
    simulated : tuple of Loading
        Parts of the noise that are not normal.
    freedom : float
        Residual degrees of freedom.
    meat_noise : tuple of NoisyMatrix
        If `sampling` was released, matrices whose independent noises add up to the noise of `sampling`; only the noises
        are used.
    remarks : tuple of Note
        Notes from the estimator. The property `notes` has these notes, and notes on the estimates and their errors.
    diagnostics : mapping of str to float
        Diagnostics of the fit, by name, such as the ratio of noise to information.
    margins : MarginalEffects, optional
        Average marginal effects, if they were released.
    from_start : bool
        Whether notes attribute the bias bounds in `allowances` to the starting value of an iteration, not to clipping.
    leaning : tuple of Allowance
        Further bounds on the bias due to unidentified directions. Through the noise of the Hessian, the unknown
        component of theta along these directions also changes theta along identified directions.
    unseen : tuple of str
        Names of the numeric columns that vary less than the noise, and of their products
        (``EstimatingEquation.unseen``). The directions of their coefficients are in `hidden`, because no bound on
        these coefficients is known.
    """

    names: tuple[str, ...]
    theta: FloatArray
    sampling: FloatArray
    noise: FloatArray
    hidden: FloatArray
    hidden_size: FloatArray
    unidentified: FloatArray
    ranges: FloatArray
    per_eta: FloatArray | None = None
    allowances: tuple[Allowance, ...] = ()
    simulated: tuple[Loading, ...] = ()
    freedom: float = np.inf
    meat_noise: tuple[NoisyMatrix, ...] = ()
    remarks: tuple[Note, ...] = ()
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    margins: Any = None
    from_start: bool = False
    leaning: tuple[Allowance, ...] = ()
    unseen: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        theta: FloatArray,
        sampling: FloatArray,
        noises: tuple[Loading, ...] = (),
        freedom: float = np.inf,
        notes: Sequence[Note] = (),
        diagnostics: Mapping[str, float] | None = None,
    ) -> Self:
        """Return an unbiased estimate of identified coefficients, with sampling covariance and independent `noises`."""
        k = len(theta)
        return cls(
            names=tuple(names),
            theta=theta,
            sampling=sampling,
            noise=total_covariance(noises, k),
            hidden=np.zeros((k, 0)),
            hidden_size=np.zeros(k),
            unidentified=np.zeros((k, 0)),
            ranges=np.zeros((k, 0)),
            simulated=tuple(one for one in noises if not one.normal),
            freedom=freedom,
            remarks=tuple(notes),
            diagnostics=dict(diagnostics or {}),
        )

    @property
    def notes(self) -> tuple[Note, ...]:
        return (*self.remarks, *self._not_given(), *self._weakly_identified(), *self._moved(), *self._unreliable())

    def mapped(self, matrix: FloatArray, shift: FloatArray, names: Sequence[str] | None = None) -> Self:
        M = thin(matrix)
        return replace(
            self,
            names=self.names if names is None else tuple(names),
            theta=matrix @ self.theta + shift,
            sampling=_symmetric(M @ self.sampling @ M.T),
            noise=_symmetric(M @ self.noise @ M.T),
            hidden=M @ self.hidden,
            hidden_size=np.abs(matrix) @ self.hidden_size,
            unidentified=M @ self.unidentified,
            ranges=M @ self.ranges,
            per_eta=None if self.per_eta is None else np.abs(matrix) @ self.per_eta,
            allowances=tuple(matrix @ allowance for allowance in self.allowances),
            leaning=tuple(matrix @ allowance for allowance in self.leaning),
            simulated=tuple(matrix @ one for one in self.simulated),
            meat_noise=tuple(one.mapped(matrix.T) for one in self.meat_noise),
            margins=None if self.margins is None else self.margins.in_units(np.diag(matrix)),
        )

    def with_noise(self, noise: Loading) -> Self:
        """Return the estimate with further, independent noise in the coefficients."""
        simulated = self.simulated if noise.normal else (*self.simulated, noise)
        return replace(self, noise=self.noise + noise.covariance(), simulated=simulated)

    def contrast(
        self, R: ArrayLike, alpha: float = 0.05, q: FloatArray | float = 0.0
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        R = np.atleast_2d(np.asarray(R, dtype=float))
        law, estimate = self.error_law(R), R @ self.theta
        half, p = law.lengths(alpha), law.pvalues(estimate - q)
        values = (estimate, law.sd, estimate - half, estimate + half, p)
        given = self.identified(R, law)
        return tuple(np.where(given, value, np.nan) for value in values)  # type: ignore[return-value]

    def params(self) -> FloatArray:
        return np.where(self._given, self.theta, np.nan)

    def bse(self) -> FloatArray:
        return np.sqrt(np.diag(self.covariance()))

    def tvalues(self) -> FloatArray:
        return self.params() / self.bse()

    def bias_bound(self) -> FloatArray:
        return np.where(self._given, self.error_law(np.eye(len(self.names))).allowance, np.nan)

    def covariance(self) -> FloatArray:
        given = self._given
        return np.where(np.outer(given, given), self.sampling + self.noise, np.nan)

    def noise_share(self) -> FloatArray:
        given = self._given
        total = np.diag(self.sampling) + np.diag(self.noise)
        return np.where(given, np.diag(self.noise) / np.maximum(total, 1e-300), np.nan)

    def wald(self, R: ArrayLike, q: FloatArray | float = 0.0) -> tuple[float, int, float]:
        """Test hypotheses ``R theta = q`` on coefficients theta jointly; equivalent hypotheses give the same result.

        Return the Wald statistic, the rank of the covariance of ``R theta``, and the p-value. The p-value allows for
        the largest possible bias of ``R theta``. The p-value is computed from a chi-squared or F distribution
        (noncentral if there is a bias) or, if the noise is not normal, from simulated errors. The statistic and the
        p-value are NaN if a hypothesis is not identified.
        """
        R, q = echelon(R, q)
        if not self.identified(R).all():
            return np.nan, len(R), np.nan
        V = R @ (self.sampling + self.noise) @ R.T
        unit = np.sqrt(np.maximum(np.diag(V), 1e-300))  # std errors of R theta; the scaled V has the same rank as V
        values, vectors = np.linalg.eigh(V / np.outer(unit, unit))
        kept = values > 1e-10 * max(values[-1], 1e-300)
        to_white = (vectors[:, kept] / np.sqrt(values[kept])).T / unit
        distance = to_white @ (R @ self.theta - q)
        statistic, rank = float(distance @ distance), int(kept.sum())
        if len(R) == 1:
            return statistic, rank, float(self.contrast(R, q=q)[4][0])
        moves = (*self.allowances, *self.leaning)
        moved = sum(a.size * float(np.linalg.norm(to_white @ R @ a.loading, 2)) for a in moves)
        moved += float(np.linalg.norm(to_white @ R @ self.unidentified, axis=0).sum())
        return statistic, rank, self._joint_p(to_white @ R, statistic, moved, rank)

    def _joint_p(self, R: FloatArray, statistic: float, moved: float, rank: int) -> float:
        """Return the p-value P(|X + b|^2 >= statistic), maximised over all biases b of norm at most `moved`.

        `statistic` is the Wald statistic. X is the error of ``R theta`` without its bias b, with theta the
        coefficients. R has been scaled so that X has the identity matrix of size `rank` as covariance.
        """
        law = self.error_law(R)
        freedom = float(law.freedom.min(initial=np.inf))
        if not law.finest.any():
            return quadratic_tail(statistic, rank, moved, freedom)
        errors = self._together(R, np.eye(rank), freedom)
        exceed = np.linalg.norm(errors, axis=1) >= np.sqrt(statistic) - moved
        return float((1 + exceed.sum()) / (1 + len(errors)))

    def joint_errors(self, R: FloatArray) -> FloatArray:
        """Return joint draws of errors of linear functions ``R theta`` of the coefficients, one column per row of R.

        Each call returns the same draws.
        """
        law = self.error_law(R)
        return self._together(
            R, R @ (self.sampling + self.noise) @ R.T, float(law.freedom.min()), bool(law.finest.any())
        )

    def _together(self, R: FloatArray, total: FloatArray, freedom: float, apart: bool = True) -> FloatArray:
        """Return joint draws of the errors of linear functions ``R theta`` of the coefficients, without biases.

        There is one row per draw and one column per row of R. The argument `total` is the covariance of the errors. If
        `apart` is True, noise that is not normal is drawn from its own distribution, and the remaining part of the
        errors from a multivariate t distribution with `freedom` degrees of freedom, or a normal distribution if
        `freedom` is large. If `apart` is False, the errors are drawn entirely from this t or normal distribution.
        """
        draws = self._errors(R, apart=False) if apart else np.zeros((DRAWS, len(R)))
        noises = self.simulated if apart else ()
        rest = total - sum((R @ one.covariance() @ R.T for one in noises), np.zeros_like(total))
        values, vectors = np.linalg.eigh(rest)
        stream = PublicStream(0)
        normal = stream.standard_normal(draws.shape)
        if freedom < CERTAIN:
            normal = normal / np.sqrt(2 * stream.standard_gamma(freedom / 2, (len(draws), 1)) / freedom)
        return np.asarray(draws + normal @ (vectors * np.sqrt(np.maximum(values, 0.0))).T)

    def identified(self, R: FloatArray, law: ErrorLaw | None = None) -> NDArray[np.bool_]:
        """Return a mask of the identified linear functions ``R theta`` of the coefficients, one entry per row of R.

        Functions that are not identified are reported as NaN. An identified function has no component along the
        directions without information (`hidden`), a positive std error, and an interval that is not too wide
        (`WIDEST_ETA`) and that is informative despite possible bias (`_says_more`).
        """
        law = law or self.error_law(R)
        rounding, half = np.abs(R) @ self.hidden_size, law.lengths(0.05)
        known = np.linalg.norm(R @ self.hidden, axis=1) <= EXACT * rounding
        measured = np.isfinite(half) & (half > 0) & (law.sd > 0) & (self._moves_eta(R, half) < WIDEST_ETA)
        return np.asarray(known & measured & self._says_more(R, law.sd, half))

    def _says_more(self, R: FloatArray, sd: FloatArray, half: FloatArray) -> NDArray[np.bool_]:
        """Return a mask of the functions ``R theta`` with informative intervals despite bias, one entry per row of R.

        An interval is informative if the bias bound due to unidentified directions (`unidentified_bias`) is at most a
        quarter (`UNIDENTIFIED_SHARE`) of the half-length `half` of the interval. A larger bias bound is accepted if it
        is below 50 (`MOST_UNIDENTIFIED`) times the std error `sd` and below 98 % (`NEW`) of the public bound on
        ``|R theta|``.
        """
        bias = self.unidentified_bias(R)
        says_less = (bias < NEW * np.abs(thin(R) @ self.ranges).sum(axis=1)) & (bias < MOST_UNIDENTIFIED * sd)
        return np.asarray((bias <= UNIDENTIFIED_SHARE * half) | says_less)

    def unidentified_bias(self, R: FloatArray) -> FloatArray:
        """Return bias bounds, due to unidentified directions, of linear functions ``R theta`` of coefficients theta."""
        moved: FloatArray = np.abs(thin(R) @ self.unidentified).sum(axis=1)
        return sum((a.of(R) for a in self.leaning), moved)

    def _moves_eta(self, R: FloatArray, half: FloatArray) -> FloatArray:
        """Return the change of the linear predictor if ``R theta`` changes by `half`, the half-length of its interval.

        The change is a root mean square over the rows of the data. The result has one entry per row of R. For models
        without a link function, all entries are 0, so that no interval counts as too wide (`WIDEST_ETA`).
        """
        if self.per_eta is None:
            return np.zeros(len(R))
        return np.asarray(half / np.maximum(np.abs(R) @ self.per_eta, 1e-300))

    def error_law(self, R: FloatArray) -> ErrorLaw:
        """Return error distributions of linear functions ``R theta`` of coefficients theta.

        The distributions are cached if R is the identity matrix.
        """
        one_each = R.shape == self.sampling.shape and np.array_equal(R, np.eye(len(R)))
        return self._own_law if one_each else self._law_of(R, lambda: tuple(R @ one for one in self.simulated))

    @cached_property
    def _own_law(self) -> ErrorLaw:
        return self._law_of(np.eye(len(self.names)), lambda: self.simulated)

    def _law_of(self, R: FloatArray, noises: Callable[[], tuple[Loading, ...]]) -> ErrorLaw:
        """Return the error distributions of linear functions ``R theta`` of the coefficients theta.

        The function `noises` returns the non-normal noises of the coefficients, each multiplied by R.
        """
        sampling, noise = _quadratic(R, self.sampling), _quadratic(R, self.noise)
        total = sampling + noise
        allowance = sum((a.of(R) for a in self.allowances), self.unidentified_bias(R))
        apart = sum((_quadratic(R, one.covariance()) for one in self.simulated), np.zeros(len(R)))
        return mixed_law(
            total,
            apart,
            allowance,
            lambda normal: self._freedom(R, sampling, normal),
            lambda: self._errors(R, apart=True),
            noises,
        )

    def _freedom(self, R: FloatArray, sampling: FloatArray, normal: FloatArray) -> FloatArray:
        """Return Satterthwaite degrees of freedom of the errors of linear functions ``R theta``, one per row of R.

        The degrees of freedom are ``2 normal^2 / u``, but at least 1. Here `normal` is the variance of the normal part
        of the error, and u is the squared std error of this variance. Only the sampling variance `sampling` is
        estimated, so u is ``2 sampling^2 / freedom`` plus, if the sampling variance was released, the variance of its
        noise. The attribute `freedom` has the residual degrees of freedom.
        """
        uncertain = 2 * sampling**2 / self.freedom
        uncertain = uncertain + sum((one.variance_along(R.T) for one in self.meat_noise), np.zeros(len(R)))
        with np.errstate(divide="ignore", invalid="ignore"):
            freedom = np.where(uncertain > 0, 2 * normal**2 / uncertain, np.inf)
        return np.maximum(freedom, 1.0)

    def _errors(self, R: FloatArray, apart: bool) -> FloatArray:
        """Return draws of non-normal noise in linear functions ``R theta`` of coefficients, one column per row of R.

        If `apart` is True, only the marginal distribution of each column is correct, which may save computing time. If
        `apart` is False, the joint distribution of all columns is correct.
        """
        large = [one for one in self.simulated if not remembered(one)]
        narrow = [reduced(R @ one, apart) for one in large]
        if all(one.coordinates == other.coordinates for one, other in zip(narrow, large, strict=True)):
            return self._draws @ R.T
        return noise_draws((*(R @ one for one in self.simulated if remembered(one)), *narrow))

    @cached_property
    def _draws(self) -> FloatArray:
        """Draws of the non-normal privacy noise in the k coefficients: a row per draw, a column per coefficient."""
        return noise_draws(self.simulated)

    @cached_property
    def _given(self) -> NDArray[np.bool_]:
        """Mask of the identified coefficients among all k coefficients, shape (k,)."""
        return self.identified(np.eye(len(self.names)))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in UNSAVED}

    def _not_given(self) -> tuple[Note, ...]:
        """Return notes on coefficients that are not reported because of noise; names in `remarks` are left out."""
        exact = np.linalg.norm(self.hidden, axis=1) > EXACT * self.hidden_size
        missing = ~self._given & (~exact | bool(self.unseen))
        known = {name for one in self.remarks for name in one.about}
        R = np.eye(len(missing))
        law = self.error_law(R)
        half = law.lengths(0.05)
        moves = self._moves_eta(R, half)
        wide = ~(moves < WIDEST_ETA) & self._says_more(R, law.sd, half)

        def names(of: NDArray[np.bool_]) -> tuple[str, ...]:
            some = (name for name, one in zip(self.names, of & missing, strict=True) if one and name not in known)
            return tuple(dict.fromkeys(some))

        ratio = self.diagnostics.get("noise_to_signal_unidentified", np.nan)
        return (*wide_note(names(wide), WIDEST_ETA), *unidentified_note(names(~wide), ratio, self.unseen))

    @cached_property
    def _sd(self) -> FloatArray:
        """Standard errors of the k coefficients, shape (k,); a variance that rounding made negative is set to zero."""
        return np.sqrt(np.maximum(np.diag(self.sampling) + np.diag(self.noise), 0.0))

    def _weakly_identified(self) -> tuple[Note, ...]:
        """Return a note on weakly identified coefficients, or an empty tuple if there are none.

        A coefficient is weakly identified if its bias bound due to unidentified directions exceeds 0.2 (`VISIBLE`) std
        errors.
        """
        bias, sd = self.unidentified_bias(np.eye(len(self.names))), self._sd
        visible = self._given & (bias > VISIBLE * sd)
        if not visible.any():
            return ()
        names = tuple(dict.fromkeys(name for name, seen in zip(self.names, visible, strict=True) if seen))
        size = float((bias[visible] / np.maximum(sd, 1e-6 * bias)[visible]).max())
        return (replace(note("weak direction", names, size=size), about=(), fields=None),)

    def _unreliable(self) -> tuple[Note, ...]:
        """Return a note if noise in the Hessian lengthens the intervals (`reliability_note`), else an empty tuple.

        There is no note for iterative fits (`from_start`), nor if no coefficient is identified.
        """
        if self.from_start:  # the estimates do not depend on the Hessian, which is released for the covariance
            return ()
        return reliability_note(self.diagnostics.get("noise_to_signal", 0.0)) if self._given.any() else ()

    def _moved(self) -> tuple[Note, ...]:
        """Return a note on coefficients that clipping, or the starting value of an iteration, may have biased.

        The note names the coefficients whose bias bound exceeds one std error (`MOVED`).
        """
        R, given = np.eye(len(self.names)), self._given
        moved = sum((a.of(R) for a in self.allowances), np.zeros(len(R)))
        visible = given & (moved > MOVED * self._sd)
        moves: dict[str, float] = {}  # largest bias bound for each name; coefficients of several quantiles share a name
        for name, size in zip(np.array(self.names, dtype=object)[visible], moved[visible], strict=True):
            moves[name] = max(moves.get(name, 0.0), float(size))
        return self._moved_by(moves)

    def _moved_by(self, moves: Mapping[str, float]) -> tuple[Note, ...]:
        """Return a note that names the coefficients that may be biased and the cause of the bias.

        `moves` has the bias bound of each coefficient, in the coefficient's units; if it is empty, there is no note.
        The cause is the starting value of an iteration if `from_start` is True, and clipping otherwise.
        """
        share = self.diagnostics.get("clipped_share", np.nan)
        return start_note(moves) if self.from_start else clipped_note(moves, share)


@dataclass(frozen=True, eq=False)
class Stacked:
    """Several estimating equations for the same rows, such as quantile regressions of one response.

    The privacy noises of different equations are independent. The covariance of the sampling errors of equations i and
    j is the correlation of their scores, ``cross_ij / sqrt(cross_ii cross_jj)``, times the covariance that the errors
    would have if the scores were perfectly correlated (Koenker 2005, section 3.2).

    Parameters
    ----------
    equations : tuple of EstimatingEquation
        Equations for coefficients of the same predictors.
    cross : ndarray, shape (r, r)
        Covariances of u_1, ..., u_r, where ``u_i x`` is the score of a row with predictors x in equation i.
    """

    equations: tuple[EstimatingEquation, ...]
    cross: FloatArray

    def solve(
        self, names: Sequence[str], notes: Sequence[Note] = (), diagnostics: Mapping[str, float] | None = None
    ) -> NormalEstimate:
        """Return the estimate of the coefficients of all estimating equations together, ordered by equation."""
        k = len(self.equations[0].coordinates.origin)
        parts = [e.solve(names[i * k : (i + 1) * k]) for i, e in enumerate(self.equations)]
        r, lift = len(parts), np.eye(len(parts) * k).reshape(len(parts), k, -1).transpose(0, 2, 1)
        sds = np.sqrt(np.diag(self.cross))
        correlation = self.cross / np.outer(sds, sds)
        roots = np.concatenate([_root(e) for e in self.equations])
        shared = roots @ roots.T * np.kron(correlation, np.ones((k, k)))
        apart = scipy.linalg.block_diag(*(part.sampling for part in parts))
        each = np.kron(np.eye(r), np.ones((k, k))) > 0
        worst = {name: max(p.diagnostics.get(name, 0.0) for p in parts) for p in parts for name in p.diagnostics}
        return NormalEstimate(
            names=tuple(names),
            theta=np.concatenate([part.theta for part in parts]),
            sampling=np.where(each, apart, shared),
            noise=scipy.linalg.block_diag(*(part.noise for part in parts)),
            hidden=scipy.linalg.block_diag(*(part.hidden for part in parts)),
            hidden_size=np.concatenate([part.hidden_size for part in parts]),
            unidentified=scipy.linalg.block_diag(*(part.unidentified for part in parts)),
            ranges=scipy.linalg.block_diag(*(part.ranges for part in parts)),
            allowances=tuple(E @ one for E, part in zip(lift, parts, strict=True) for one in part.allowances),
            leaning=tuple(E @ one for E, part in zip(lift, parts, strict=True) for one in part.leaning),
            simulated=tuple(E @ one for E, part in zip(lift, parts, strict=True) for one in part.simulated),
            freedom=min(part.freedom for part in parts),
            meat_noise=tuple(one.mapped(E.T) for E, part in zip(lift, parts, strict=True) for one in part.meat_noise),
            remarks=tuple(notes),
            diagnostics={**worst, **(diagnostics or {})},
            unseen=tuple(dict.fromkeys(name for part in parts for name in part.unseen)),
        )


def _root(equation: EstimatingEquation) -> FloatArray:
    """Return a matrix L, shape (k, k), such that ``L L'`` is the sampling variance of the k coefficients theta.

    The result is ``L = G H^-1 G' S``. G is the matrix that maps the coordinates t, in which the equation is solved, to
    theta. H is the released Hessian of the loss with respect to t, and H^-1 its inverse on identified directions. S is
    the symmetric root of the covariance of the score with respect to theta. In regressions on the same predictors at
    several quantiles, the matrices S are proportional. Therefore the covariance of the estimates for two quantiles i
    and j is ``L_i L_j'`` times the correlation of the scores.
    """
    G = equation.coordinates.matrix
    back = equation.coordinates.back
    values, vectors = np.linalg.eigh(_symmetric(back.T @ equation.meat @ back))
    half = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return G @ equation.hessian.power(-1.0) @ G.T @ half


def quantile_scores(orders: Sequence[float]) -> FloatArray:
    """Return the covariances ``min(s, t) - s t`` of u_s and u_t, for all pairs s, t of the r taus in `orders`.

    In the quantile regression with tau = s, the score of a row with predictors x is ``u_s x``, where u_s is s minus
    the indicator of a response below its s quantile. The result has the shape (r, r).
    """
    tau = np.asarray(orders, dtype=float)
    return np.minimum.outer(tau, tau) - np.outer(tau, tau)


def quadratic_tail(statistic: float, rank: int, moved: float, freedom: float) -> float:
    """Return P(|X + b|^2 >= statistic) for a multivariate t vector X and a bias b (X is normal for large `freedom`).

    Parameters
    ----------
    statistic : float
        Observed value of the squared norm.
    rank : int
        Dimension of X.
    moved : float
        Euclidean norm of the bias b.
    freedom : float
        Degrees of freedom of X; with b = 0 the statistic is distributed as `rank` times an F variable.
    """
    if moved == 0:
        return float(chdtrc(rank, statistic) if freedom >= CERTAIN else fdtrc(rank, freedom, statistic / rank))
    scale = np.ones(1)
    if freedom < CERTAIN:
        scale = 2 / freedom * gammaincinv(freedom / 2, (np.arange(CELLS) + 0.5) / CELLS)
    return float(np.mean(scipy.stats.ncx2.sf(statistic * scale, rank, moved**2)))


def _symmetric(matrix: FloatArray) -> FloatArray:
    return np.asarray((matrix + matrix.T) / 2, dtype=float)


def _quadratic(R: FloatArray, V: FloatArray) -> FloatArray:
    """Return ``r V r'``, with V a covariance, for each row r of R; values that rounding made negative become 0."""
    return np.maximum(((thin(R) @ V) * R).sum(axis=1), 0.0)
