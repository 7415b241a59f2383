"""Least squares whose coefficients are drawn by K-norm gradient, objective perturbation or the exponential mechanism.

At the drawn coefficients, the score (gradient of the sum of the rows' losses) equals a random noise vector of known
distribution. If the mechanism adds a ridge penalty to the loss, one Newton step removes the bias due to the penalty.
Intervals also need the Hessian of the loss and the variance of the score, which are released separately.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from privstats.errors import OptionError, quote
from privstats.estimators.base import PURE, Noises, PublicFacts, check_split, sd_of, with_std_error
from privstats.estimators.constants import USUAL_RESIDUAL
from privstats.estimators.filling import FILLED, filling_hessian, noise_through
from privstats.estimators.frame import PublicBox
from privstats.estimators.levels import KeptLevels
from privstats.estimators.preconditioner import Start, sizes_of
from privstats.estimators.sufficient_statistics import UnclippedSquares
from privstats.gate.questions import Ask, Sum
from privstats.inference.estimate import Coordinates, Estimate, EstimatingEquation, NormalEstimate, NumericColumns
from privstats.inference.matrix import NoisyMatrix
from privstats.inference.noise import Loading
from privstats.inference.notes import Note, note
from privstats.inference.tables import PointEstimate
from privstats.losses.base import SquaredLoss
from privstats.losses.rows import RootWeighted, Weight, WeightedLinear
from privstats.mechanisms.base import Mechanism
from privstats.mechanisms.comparison.kng import Exponential, KNormGradient
from privstats.mechanisms.comparison.quadratic_objective import QuadraticPerturbation
from privstats.numerics.law import FloatArray, Law
from privstats.privacy.promise import is_number
from privstats.privacy.release import Release
from privstats.sets.losses import SquaredLosses
from privstats.sets.vectors import BoxProducts, Fractions, Products

SHARES: Mapping[str, float] = {
    "rows": 0.02,
    "units": 0.02,
    "coefficients": 0.60,
    "hessian": 0.20,
    "residual scale": 0.03,
    "meat": 0.17,
}
CLIP = 1.0  # limit to which residuals are clipped when their scale is released, in units of half the response's range
LEAST_RESIDUAL = 1e-3  # lower limit of the residual scale, in units of half the response's range
AT_BOUND = 0.98  # a note is given if the l1 norm of the estimate exceeds this share of the bound `theta_bound`


@dataclass(frozen=True)
class ChosenLeastSquares(ABC):
    """Least squares whose coefficients are drawn by one privacy mechanism; other releases give the intervals.

    Each subclass defines the mechanism, as its property `by`.

    Parameters
    ----------
    noises : Noises
        Noise mechanisms. `matrix` releases the Hessian, the residual scale and the score variance; `counts` releases
        the numbers of rows and privacy units that are not public.
    norm : {"linf", "l1", "l2"}
        Norm in which the change of the score due to one row is bounded.
    theta_bound : float
        Bound on the l1 norm of the coefficients, after predictors and response are scaled by their bounds to [-1, 1].
    cov_type : str
        "HC" (error variances may differ between rows) or "nonrobust" (equal error variances; the score variance is then
        not released).
    """

    noises: Noises = PURE
    norm: str = "linf"
    theta_bound: float = 2.0
    cov_type: str = "HC"

    def __post_init__(self) -> None:
        check_bound(self.theta_bound)

    @property
    def shares(self) -> Mapping[str, float]:
        return SHARES

    @property
    @abstractmethod
    def by(self) -> Mechanism:
        """Mechanism that draws the coefficients."""

    def noise(self, law: Law, hessian: FloatArray) -> Loading:
        """Return the noise in the score (gradient of the loss) at the coefficients that the mechanism draws.

        The noise is a matrix times a random vector with the distribution `law`. The matrix is the identity unless a
        subclass computes it from the Hessian of the loss (`hessian`).
        """
        return Loading(np.eye(len(hessian)), law)

    def __call__(self, ask: Ask, public: PublicFacts) -> Estimate:
        box = PublicBox(public.design)
        within = SquaredLosses(box.c, float(self.theta_bound), box.intercept is not None)
        chosen = ask(Sum("coefficients", RootWeighted(box.entries), within=within), by=self.by)
        notes: tuple[Note, ...] = ()
        if np.abs(chosen.value).sum() > AT_BOUND * self.theta_bound:
            notes = (note("parameter bound", box.design.names, bound=self.theta_bound),)
        theta = to_columns(box) @ chosen.value
        if not public.intervals:
            hessian = filling_hessian(box, public) + float(getattr(chosen.law, "ridge", 0.0)) * np.eye(box.c)
            P, unit = to_columns(box), 1.0 + box.offset_reach
            noise = noise_through(hessian, P @ self.noise(chosen.law, P.T @ hessian @ P / unit**2))
            return PointEstimate(tuple(box.design.names), theta, notes, noise=noise, given=FILLED)
        estimate = self._with_intervals(ask, public, box, theta, chosen)
        return PointEstimate.of(estimate, notes) if notes else estimate

    def _with_intervals(
        self, ask: Ask, public: PublicFacts, box: PublicBox, theta: FloatArray, chosen: Release
    ) -> NormalEstimate:
        """Return the estimate with intervals, and without the bias due to a ridge penalty.

        The Hessian, the residual scale and, with ``cov_type="HC"``, the score variance are released.
        """
        identity = box.identity()
        start = Start(identity, np.eye(box.c), theta, USUAL_RESIDUAL, SquaredLoss(), box.offset, box.offset_reach)
        levels = replace(KeptLevels.none(box.c), hidden=np.asarray(public.design.null_space(), dtype=float))
        rows, known = rows_of(ask, self.noises, public)
        robust = self.cov_type != "nonrobust"
        sizes = sizes_of(ask, self.noises, public, rows)
        squares = UnclippedSquares(ask, self.noises, box, start, levels, sizes, public, robust)
        hessian = released_moments(ask, self.noises, public, box, rows)
        P, c = to_columns(box), box.c
        ridge = float(getattr(chosen.law, "ridge", 0.0))
        score = ridge * (P @ chosen.value)
        step = hessian.power(-1.0) @ score
        start = start.moved(step)
        residuals = self._residual_scale(ask, start, rows, box)
        sigma = residuals["sigma"]
        T, T_inverse = hessian.power(-0.5) * rows**0.5, hessian.power(0.5) / rows**0.5
        meat = sigma**2 * hessian.value
        if robust:
            whitened = squares.meat(replace(start, sigma=sigma).remapped(T), "meat")
            meat = T_inverse @ whitened @ T_inverse.T
        unit = 1.0 + box.offset_reach
        return EstimatingEquation(
            score=score,
            hessian=hessian,
            meat=squares.small_sample * meat,
            noises=(P @ self.noise(chosen.law, P.T @ hessian.value @ P / unit**2),),
            coordinates=Coordinates(theta, np.eye(c), levels.hidden),
            signal=squares.signal,
            remaining=float(np.linalg.norm(step)),
            freedom=squares.freedom,
            numeric=NumericColumns.of(box.design),
        ).solve(box.design.names, (), {**residuals, **known})

    def _residual_scale(self, ask: Ask, start: Start, rows: float, box: PublicBox) -> dict[str, float]:
        """Release the sum of squared residuals; return the residual scale with its std error (see `with_std_error`).

        The scale and the std error are in units of half the response's range.
        """
        residual = WeightedLinear(start.residual[:, None])
        release = ask(Sum("residual scale", residual, within=Products(1, CLIP)), by=self.noises.matrix)
        freedom = max(rows - box.c, 1.0)
        sigma = float(np.sqrt(np.clip(release.value[0] / freedom, LEAST_RESIDUAL**2, CLIP**2)))
        return with_std_error(sigma, sd_of(release.law) / freedom)


@dataclass(frozen=True)
class KNormGradientLeastSquares(ChosenLeastSquares):
    """Least squares by the K-norm gradient mechanism (Reimherr and Awan 2019)."""

    @property
    def by(self) -> Mechanism:
        return KNormGradient(self.norm)


@dataclass(frozen=True)
class ExponentialLeastSquares(ChosenLeastSquares):
    """Least squares by the exponential mechanism, included for comparison with other mechanisms.

    Even with many rows, the noise in the coefficients is of the same order as their sampling error.
    """

    @property
    def by(self) -> Mechanism:
        return Exponential()

    def noise(self, law: Law, hessian: FloatArray) -> Loading:
        values, vectors = np.linalg.eigh(hessian)
        return Loading((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T, law)


@dataclass(frozen=True)
class PerturbedLeastSquares(ChosenLeastSquares):
    """Least squares by objective perturbation (Awan and Slavkovic 2021).

    Parameters
    ----------
    split : float
        Share of the coefficients' budget for the random linear term that is added to the loss. The remaining share is
        for the ridge penalty; the smaller the remaining share, the larger the penalty must be.
    """

    split: float = 0.85

    def __post_init__(self) -> None:
        super().__post_init__()
        check_split(self.split)

    @property
    def by(self) -> Mechanism:
        return QuadraticPerturbation(self.norm, self.split)


def check_bound(theta_bound: float) -> None:
    """Raise `OptionError` unless `theta_bound`, the bound on the coefficients, is between 1e-100 and 1e100."""
    if not is_number(theta_bound) or not 1e-100 < theta_bound < 1e100:
        raise OptionError(f"theta_bound is {quote(theta_bound)}; give a positive number, such as theta_bound=2")


def rows_of(ask: Ask, by: Noises, public: PublicFacts) -> tuple[float, dict[str, float]]:
    """Return the number of rows used, or the sum of the rows' weights, and diagnostics.

    The number is released if it is not public. The diagnostics are the released number and its noise sd, by name. There
    are no diagnostics if the number is public, or if rows have weights.
    """
    if public.used is not None:
        return float(public.used), {}
    release = ask(Sum("rows", Weight(), within=Fractions(1)), by=by.counts)
    assert release.law is not None
    rows = max(float(release.value[0]), 1.0)
    known = {"rows used": rows, "rows used sd": float(np.sqrt(release.law.variance()[0]))}
    return rows, {} if public.design.weighted else known


def released_moments(ask: Ask, by: Noises, public: PublicFacts, box: PublicBox, rows: float) -> NoisyMatrix:
    """Release the Hessian of the squared loss: the (weighted) sum of x x' over rows x of the design, shape (c, c).

    If the number of rows, `rows`, is public and rows do not belong to privacy units, the intercept's diagonal entry of
    the Hessian is this number, without noise.
    """
    counted = public.used is None or public.by_unit
    q, intercept = len(box.slopes), box.intercept is not None
    if not q and not counted:
        return NoisyMatrix.known(np.array([[rows]]))
    within = BoxProducts(q, intercept, counted)
    release = ask(Sum("hessian", RootWeighted(np.eye(box.width)[:, box.slopes]), within=within), by=by.matrix)
    moments = NoisyMatrix.of(release)
    if not counted and intercept:
        moments = moments.plus(np.diag(np.r_[rows, np.zeros(q)]))
    return moments.mapped(of_columns(box))


def of_columns(box: PublicBox) -> FloatArray:
    """Return the matrix that maps a row (1, q predictors) to the c columns of the design, shape (q + 1, c)."""
    q = len(box.slopes)
    onto = np.zeros((q + 1, box.c))
    if box.intercept is not None:
        onto[0, box.intercept] = 1.0
    onto[1 + np.arange(q), box.slopes] = 1.0
    return onto


def to_columns(box: PublicBox) -> FloatArray:
    """Return the matrix that maps drawn coefficients to the coefficients of the design's columns, shape (c, c).

    The drawn coefficients start with the intercept; their unit is the upper bound of |response - offset|.
    """
    order = [*([] if box.intercept is None else [box.intercept]), *box.slopes]
    onto = np.zeros((box.c, box.c))
    onto[order, np.arange(box.c)] = 1.0 + box.offset_reach
    return onto
