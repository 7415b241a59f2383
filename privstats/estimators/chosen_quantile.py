"""Quantile regression whose coefficients are drawn by the K-norm gradient mechanism or the exponential mechanism.

The score at coefficients theta is the sum ``sum (1{y <= x'theta} - tau) x`` over rows with predictors x and response
y, for a quantile of probability tau. The K-norm gradient mechanism draws theta such that the score equals random noise
V of known distribution. The error of theta is about ``H^-1 (S + V)``, where S is the sampling error of the score and H
is the Hessian, the sum of x x' weighted by the density of the response at its quantile. H is released as a kernel
estimate. The variance of S, ``tau (1 - tau) sum x x'``, needs no kernel (Koenker 2005, sections 3.2 and 3.4; Powell
1991).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from privstats.estimators.base import PURE, Noises, PublicFacts
from privstats.estimators.filling import DENSITY, LIKELY, filling_hessian, noise_through
from privstats.estimators.frame import PublicBox
from privstats.estimators.k_norm_gradient import (
    AT_BOUND,
    check_bound,
    of_columns,
    released_moments,
    rows_of,
    to_columns,
)
from privstats.estimators.quantile_regression import check_orders, item_of
from privstats.gate.questions import Ask, Sum, Values
from privstats.inference.estimate import (
    Coordinates,
    Estimate,
    EstimatingEquation,
    NumericColumns,
    Stacked,
    quantile_scores,
)
from privstats.inference.matrix import NoisyMatrix
from privstats.inference.meat import (
    WIDEST,
    density_freedom,
    kernel_mean,
    kernel_width,
    quantile_scores_of,
    typical_size,
)
from privstats.inference.noise import Loading
from privstats.inference.notes import Note, note
from privstats.inference.tables import PointEstimate
from privstats.losses.rows import KernelRows, ResidualSizes, WeightedRows
from privstats.mechanisms.base import Mechanism
from privstats.mechanisms.order.rank import Rank
from privstats.mechanisms.quantile_regression.hit_and_run import SWEEPS
from privstats.mechanisms.quantile_regression.kng import ExponentialQuantile, KNGQuantile
from privstats.mechanisms.quantile_regression.rejection import exact_for
from privstats.numerics.law import FloatArray
from privstats.privacy.release import Release
from privstats.sets.cells import Line
from privstats.sets.losses import CheckLosses
from privstats.sets.vectors import BoxProducts

SHARES: Mapping[str, float] = {
    "rows": 0.02,
    "coefficients": 0.55,
    "hessian": 0.10,
    "residual scale": 0.05,
    "density": 0.30,
}
# JITTER: half-width, in half-ranges of the response, of noise that separates equal responses. With less noise, sampling
# is slow.
JITTER = 2.0**-11
NOISE_SHARE = 0.3  # kernels are widened until the Hessian's noise is at most this share of its smallest eigenvalue


@dataclass(frozen=True)
class ChosenQuantile(ABC):
    """Quantile regression: one mechanism draws the coefficients, and other mechanisms release matrices for intervals.

    Parameters
    ----------
    noises : Noises
        Noise mechanisms. `matrix` releases second moments and Hessians; `counts` releases a private number of rows.
    taus : tuple of float
        Probabilities of the quantiles, ascending.
    norm : {"hull", "linf", "l1", "l2"}
        Norm in which the K-norm gradient mechanism measures the score (the gradient of the sum of the rows' losses).
        The unit ball of the norm "hull" is the convex hull of all changes of the score due to one row.
    theta_bound : float
        Bound on the l1 norm of the coefficients, after predictors and response are scaled by their bounds to [-1, 1].
    """

    noises: Noises = PURE
    taus: tuple[float, ...] = (0.5,)
    norm: str = "hull"
    theta_bound: float = 2.0

    def __post_init__(self) -> None:
        check_orders(self.taus)
        check_bound(self.theta_bound)

    @property
    def shares(self) -> Mapping[str, float]:
        return SHARES

    @property
    @abstractmethod
    def by(self) -> Mechanism:
        """Return the mechanism that draws the coefficients, with one draw for each probability tau."""

    def __call__(self, ask: Ask, public: PublicFacts) -> Estimate:
        box = PublicBox(public.design)
        names = list(box.design.names) * len(self.taus)
        chosen = [self._chosen(ask, box, tau) for tau in self.taus]
        theta = np.concatenate([to_columns(box) @ one.value for one in chosen])
        if not public.intervals:
            noise = self._noise(public, box, chosen)
            return PointEstimate(tuple(names), theta, self._chains(box), noise=noise, given=LIKELY)
        reason = self._why_not(public)
        if reason is not None:
            return PointEstimate(tuple(names), theta, (*self._chains(box), reason))
        rows, known = rows_of(ask, self.noises, public)
        moments = released_moments(ask, self.noises, public, box, rows)
        fits = tuple(
            self._equation(ask, box, tau, one, moments, rows) for tau, one in zip(self.taus, chosen, strict=True)
        )
        doubts = tuple(self._doubts(box, tau, one, rows) for tau, one in zip(self.taus, chosen, strict=True))
        remarks = (*self._chains(box), *(one for of_tau in doubts for one in of_tau))
        whole = fits[0] if len(fits) == 1 else Stacked(fits, quantile_scores(self.taus))
        estimate = whole.solve(names, remarks, known)
        return PointEstimate.of(estimate) if any(doubts) else estimate

    def _why_not(self, public: PublicFacts) -> Note | None:
        """Return a note with the reason why there are no intervals; None if intervals are possible."""
        return note("dependent rows", unit="unit") if public.by_unit else None

    def _noise(self, public: PublicFacts, box: PublicBox, chosen: list[Release]) -> FloatArray:
        """Return the covariance of the noise in the coefficients for all probabilities tau, under an assumed Hessian.

        The Hessian of the data is not released. The assumed Hessian belongs to predictors that are uniform between
        their bounds, and to a residual standard deviation of a twentieth of the response's range (`LIKELY`).
        """
        if any(one.law is None for one in chosen):
            return np.full((box.c * len(chosen),) * 2, np.nan)
        unit, hessian = 1.0 + box.offset_reach, filling_hessian(box, public, DENSITY)
        return scipy.linalg.block_diag(
            *(noise_through(hessian, Loading(to_columns(box) / unit, one.law)) for one in chosen)
        )

    def _chains(self, box: PublicBox) -> tuple[Note, ...]:
        """Return a note if the coefficients are the last state of a Markov chain; otherwise an empty tuple."""
        if exact_for(box.c):
            return ()
        return (note("chain", length=SWEEPS, steps="sweeps", cure="delta=1e-6 or mu= has an exact method"),)

    def _chosen(self, ask: Ask, box: PublicBox, tau: float) -> Release:
        """Release the quantile-regression coefficients for one probability tau, the intercept first.

        The coefficients refer to predictors and response scaled by their bounds to [-1, 1].
        """
        order = [*([] if box.intercept is None else [box.intercept]), *box.slopes]
        rows = np.column_stack([np.eye(box.width)[:, order], box.response / (1.0 + box.offset_reach)])
        within = CheckLosses(box.c, tau, float(self.theta_bound), box.intercept is not None)
        question = Values("coefficients", WeightedRows(rows), within=within, item=item_of(self.taus, tau).strip())
        return ask(question, by=self.by)

    def _equation(
        self, ask: Ask, box: PublicBox, tau: float, chosen: Release, moments: NoisyMatrix, rows: float
    ) -> EstimatingEquation:
        """Release the residual scale and a kernel estimate of the Hessian; return the estimating equation for one tau.

        `chosen` contains the drawn coefficients, `moments` the released sum of x x' over predictor vectors x, and
        `rows` the number of rows. The kernel width is computed from the residual scale and the noise of the Hessian.
        """
        assert chosen.law is not None
        item, c, onto = item_of(self.taus, tau).strip(), box.c, to_columns(box)
        theta, unit = onto @ chosen.value, 1.0 + box.offset_reach
        eta = np.r_[theta, np.ones(int(bool(box.design.offset))), 0.0]
        most = unit * (1.0 + self.theta_bound)
        sizes = Values("residual scale", ResidualSizes(eta), within=Line(0.0, most, 1e-6), item=item)
        size = float(ask(sizes, by=Rank((0.5,))).value[0])
        sigma = max(1e-4, size / typical_size(tau))
        within = BoxProducts(len(box.slopes), box.intercept is not None, counted=True)
        slopes = np.eye(box.width)[:, box.slopes]
        question = Sum("density", KernelRows(slopes, eta, WIDEST * sigma), within=within, item=item)
        noise = NoisyMatrix.noise_of(ask.law(question, by=self.noises.matrix), within).mapped(of_columns(box))
        root = moments.power(-0.5)
        spread = math.sqrt(float(np.max(noise.variance_along(root)))) * math.sqrt(c)
        width = sigma * kernel_width(rows, tau, spread / NOISE_SHARE)
        question = replace(question, of=KernelRows(slopes, eta, width))
        release = ask(question, by=self.noises.matrix)
        level = 1.0 / (width * kernel_mean(width / sigma, tau))
        seen = max(float(release.value[within.where[0, 0]]), 1.0)
        hessian = NoisyMatrix.of(release).mapped(of_columns(box) * math.sqrt(level))
        # The information (Hessian) along the intercept is the number of rows times the density of the response at its
        # quantile. Along another direction this product is multiplied by the predictors' second moment in this
        # direction.
        known, lost = moments.nearest_positive(float(c)), hessian.unidentified()[0]
        constant, part = seen * level, np.einsum("il,ij,jl->l", lost, known, lost).max(initial=0.0) / rows
        meat = quantile_scores_of(known, tau, rows).value
        loading = Loading(onto / unit, chosen.law)
        inverse = hessian.power(-1.0)
        error = inverse @ (meat + loading.covariance()) @ inverse.T
        return EstimatingEquation(
            score=np.zeros(c),
            hessian=hessian,
            meat=meat,
            noises=(loading,),
            coordinates=Coordinates(theta, np.eye(c), np.zeros((c, 0))),
            signal=unit * constant**0.5,
            usual=constant * min(part, 1.0) if lost.size else constant,
            remaining=math.sqrt(max(float(np.trace(error)), 0.0)),
            freedom=density_freedom(hessian, seen),
            numeric=NumericColumns.of(box.design),
        )

    def _doubts(self, box: PublicBox, tau: float, chosen: Release, rows: float) -> tuple[Note, ...]:
        """Return notes with reasons to doubt the coefficients drawn for one probability tau (`chosen`).

        One note is for coefficients with an l1 norm near the bound `theta_bound`. Another note is for coefficients that
        are probably dominated by noise, because the number of rows (`rows`) is too small for the budget.
        """
        names = box.design.names
        edge = note("parameter bound", names, bound=self.theta_bound)
        few = note("too few rows", names, rows=rows, tau=tau, many=box.c)
        at_edge = float(np.abs(chosen.value).sum()) > AT_BOUND * self.theta_bound
        return (*([edge] if at_edge else []), *([few] if self._scattered(box, tau, chosen, rows) else []))

    def _scattered(self, box: PublicBox, tau: float, chosen: Release, rows: float) -> bool:
        """Return whether noise probably dominates the drawn coefficients (`chosen`), given n = `rows` rows.

        The coefficients are drawn with a density proportional to ``exp(-c |score|)``, where |score| is the norm of the
        sum of the rows' scores, and 1 / c is the scale of the noise. The result is True if a bound on the integral of
        ``exp(-c |score|)`` far from the minimiser of the loss exceeds the integral near the minimiser. There are d
        predictors: the constant, and other predictors, which are assumed to be uniform on [-1, 1].

        - Near the minimiser, the integral is about ``d! 2^d 3^(d - 1) / (c n f)^d``, where f is the density of the
          response at its quantile, assumed to be `DENSITY`.
        - Far from the minimiser, the integral is at most ``exp(-c n s) (2 b)^d / d!``. Here s (`least_score`) is a
          lower bound on |score| / n, and ``(2 b)^d / d!`` is the volume of the set of coefficients with an l1 norm of
          at most b = `theta_bound`.
        """
        law: Any = chosen.law
        d, weight = box.c, rows / float(law.scale[0])
        good = 2 * math.lgamma(d + 1) + (d - 1) * math.log(3)
        volume = d * math.log(max(1.0, self.theta_bound * weight * DENSITY)) - good
        return weight * least_score(tau, len(box.slopes), box.intercept is not None) < volume


@dataclass(frozen=True)
class KNormGradientQuantile(ChosenQuantile):
    """Quantile regression by the K-norm gradient mechanism (Reimherr and Awan 2019)."""

    @property
    def by(self) -> Mechanism:
        return KNGQuantile(self.norm, JITTER)


@dataclass(frozen=True)
class ExponentialQuantiles(ChosenQuantile):
    """Quantile regression by the exponential mechanism on the loss: estimates without intervals, for comparison."""

    @property
    def by(self) -> Mechanism:
        return ExponentialQuantile()

    def _why_not(self, public: PublicFacts) -> Note | None:
        return super()._why_not(public) or note("other mechanism", mech="expmech", other="kng")


def least_score(tau: float, columns: int, intercept: bool) -> float:
    """Return a lower bound on the sup norm of the mean score of the check loss, at coefficients far from the minimiser.

    The mean score is the mean of ``(1{y <= x'theta} - tau) x`` over rows with predictors x and response y, for
    coefficients theta and a probability tau. The predictors other than the constant (their number is `columns`) are
    assumed to be uniform on [-1, 1]. There are three cases:

    - The model has only an intercept. Far from the minimiser, all responses lie on the same side of the intercept, and
      the bound is min(tau, 1 - tau).
    - The model has an intercept and other predictors, of which one has a steep slope. If a share s of the responses
      lies below the fitted plane, the absolute entries of the mean score are ``|s - tau|`` for the intercept and
      ``s (1 - s)`` for this predictor. The bound is the minimum over s of the larger entry.
    - The model has no intercept. Then the share s is 1/2, and the bound is 1/4.

    The bound also holds in the norm "hull", whose unit ball is the convex hull of the possible changes of the score.

    For one predictor and an intercept:

    >>> [round(least_score(tau, 1, True), 3) for tau in (0.1, 0.5, 0.9)]
    [0.049, 0.207, 0.049]
    """
    if not intercept:
        return 0.25
    rare = min(tau, 1 - tau)
    return rare if columns == 0 else math.sqrt(1 - rare) - (1 - rare)
