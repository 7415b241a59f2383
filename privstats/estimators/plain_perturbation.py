"""Objective perturbation for columns scaled by their bounds, with the whole budget spent on the minimiser.

There are no intervals, because neither the score's variance nor the Hessian of the data is released.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import scipy

from privstats.errors import OptionError, quote
from privstats.estimators.base import PublicFacts, check_split, check_switch
from privstats.estimators.filling import DENSITY, FILLED, LIKELY, filling_hessian, filling_rows, noise_through
from privstats.estimators.frame import PublicBox
from privstats.estimators.k_norm_gradient import check_bound
from privstats.estimators.marginal_effects import check_margins
from privstats.estimators.quantile_regression import check_orders, item_of
from privstats.gate.questions import Ask, Values
from privstats.inference.noise import Loading
from privstats.inference.notes import note
from privstats.inference.tables import PointEstimate
from privstats.losses.convex import ClampedLogistic, Logistic, RowLoss, SmoothedCheck
from privstats.losses.families import Logit
from privstats.losses.psi import Likelihood, LossRows
from privstats.mechanisms.objective.perturbation import ObjectivePerturbation
from privstats.numerics.law import FloatArray
from privstats.privacy.promise import is_number
from privstats.privacy.release import Release
from privstats.sets.weighted_losses import WeightedLosses

SMOOTHED_RIDGE = 0.03  # check losses are smoothed so that the required ridge is this share of their summed curvature
SMOOTHED = (1e-3, 0.3)  # limits of the smoothing half-width of check losses, in half-ranges of the response
# SPLIT: budget share of the random linear term. In the benchmark `benchmarks.knorm_figure2`, with eps from 1/16 to 2,
# coefficients have the smallest mean error with this share.
SPLIT = 0.93


@dataclass(frozen=True)
class PlainPerturbedLikelihood:
    """Logistic regression by minimising a perturbed negative log-likelihood (Awan and Slavkovic 2021, Algorithm 2).

    The mechanism `ObjectivePerturbation` contains the proof of privacy. Columns are scaled to [-1, 1], so a row x of m
    columns has a linf norm of at most 1, an l2 norm of at most sqrt(m), and an l1 norm of at most m. Smaller bounds
    hold if dummies exclude one another. Rows are projected onto a set that enforces the bounds (`WeightedLosses`). Let
    p be the fitted probability of the response y = 1. The norm of a row's score (y - p) x is at most the norm of x,
    and the Hessian p (1 - p) x x' of a row's loss has rank one.

    If a bound `theta_bound` on the l1 norm of the coefficients is given, let B be this bound plus the largest absolute
    offset. Where the absolute linear predictor exceeds B, the loss is continued linearly. The absolute slope |p - y| is
    therefore at most ``expit(B) = 1 / (1 + exp(-B))``, which reduces noise and penalty. The estimate is projected on
    the l1 ball of radius `theta_bound`, which is post-processing.

    Parameters
    ----------
    loss : Likelihood
        Negative log-likelihood of the model.
    norm : {"linf", "l1", "l2"}
        Norm in which the score is measured.
    split : float
        Share of the budget for the random linear term; the remaining share is used by the penalty that privacy
        requires.
    ridge : float, optional
        Coefficient of the penalty, which is `ridge` times half the sum of squared coefficients of predictors scaled to
        [-1, 1]. If privacy requires a larger coefficient, the larger one is used.
    theta_bound : float, optional
        Bound on the l1 norm of the coefficients of predictors scaled to [-1, 1].
    margins : bool
        Must be False, because marginal effects need intervals; True raises an error.
    """

    loss: Likelihood = field(default_factory=lambda: Likelihood(Logit()))
    norm: str = "linf"
    split: float = SPLIT
    ridge: float | None = None
    theta_bound: float | None = None
    margins: bool = False
    shares: Mapping[str, float] = field(default_factory=lambda: {"coefficients": 1.0})

    def __post_init__(self) -> None:
        check_split(self.split)
        check_switch("margins", self.margins)
        if self.ridge is not None and (not is_number(self.ridge) or not 0 <= float(self.ridge) < np.inf):
            raise OptionError(f"ridge is {quote(self.ridge)}; give a number from 0 on, such as ridge=10")
        if self.theta_bound is not None:
            check_bound(self.theta_bound)

    def __call__(self, ask: Ask, public: PublicFacts) -> PointEstimate:
        if self.margins:
            check_margins(public)
        box = PublicBox(public.design)
        loss = self.loss.in_units(public.design.response_center, public.design.response_half)
        by = ObjectivePerturbation(self.split, float(self.ridge or 0.0))
        within = within_box(box, self.row_loss(box), self.norm, (0.0, loss.half))
        rows = LossRows(np.eye(box.width)[:, : box.c], offset_alone(box), loss.center, loss.half)
        drawn = ask(Values("coefficients", rows, within=within), by=by)
        weight = loss.family.weight(filling_rows(box) @ drawn.value)
        hessian, onto = filling_hessian(box, public, weight), np.eye(box.c)
        if not public.intervals and np.isfinite(hessian).all():
            onto = onto + self.unpenalised(drawn.law.ridge, hessian)
        theta = onto @ drawn.value
        theta = theta if self.theta_bound is None else on_ball(theta, float(self.theta_bound))
        remarks = () if self.ridge is None else (note("ridge", ridge=max(float(self.ridge), drawn.law.ridge)),)
        if not public.intervals:
            noise = noise_through(hessian + drawn.law.ridge * np.eye(box.c), Loading(np.eye(box.c), drawn.law))
            noise = onto @ noise @ onto.T
            return PointEstimate(tuple(box.design.names), theta, remarks, noise=noise, given=FILLED)
        if self.theta_bound is not None:
            remarks = (*remarks, note("bounded", bound=float(self.theta_bound)))
        return PointEstimate(tuple(box.design.names), theta, remarks)

    def unpenalised(self, ridge: float, hessian: FloatArray) -> FloatArray:
        """Return a matrix S for the correction ``theta + S theta`` of theta, the minimiser of the perturbed loss.

        The correction approximately undoes the part of the penalty that was not requested. Let u be the requested
        coefficient of the penalty, and gamma the excess of `ridge` over u, which privacy requires. A Newton step
        ``(G + u I)^-1 gamma theta``, with the Hessian G of the data, would undo the excess. G is not released, and is
        replaced by the Hessian H of the synthetic rows of `filling_rows`. H is larger than G for most data, so a part
        of the excess remains.

        Along an eigenvector of H with eigenvalue h, the Newton step multiplies theta by ``x = gamma / (h + u)``. S
        multiplies theta by ``x (1 - x)``, or by 0 if x exceeds 1. The factor 1 - x reduces the step if the information
        h is small, because theta is then mostly noise, and a full step would increase the noise.

        Parameters
        ----------
        ridge : float
            Coefficient of the perturbed loss's ridge penalty: the larger of the requested and the required coefficient.
        hessian : ndarray, shape (m, m)
            The matrix H.
        """
        wanted = float(self.ridge or 0.0)
        values, vectors = np.linalg.eigh(hessian)
        x = np.minimum((ridge - wanted) / np.maximum(values + wanted, 1e-300), 1.0)
        return (vectors * (x * (1 - x))) @ vectors.T

    def row_loss(self, box: PublicBox) -> RowLoss:
        """Return a row's loss; with `theta_bound`, the loss is linear beyond the largest possible linear predictor."""
        if self.theta_bound is None:
            return Logistic()
        reach = float(self.theta_bound) + box.offset_reach
        return ClampedLogistic(-reach, reach)


@dataclass(frozen=True)
class PlainPerturbedQuantile:
    """Quantile regression on scaled columns, by minimising a perturbed, smoothed check loss for each probability tau.

    The mechanism `ObjectivePerturbation` contains the proof of privacy, as for `PlainPerturbedLikelihood`. Slopes of a
    smoothed check loss are at most max(tau, 1 - tau). The wider the interval over which the loss is smoothed, the
    smaller is the ridge that privacy requires. The half-width of this interval is computed from public values, so that
    the ridge is a fixed share (`SMOOTHED_RIDGE`) of the loss's curvature. The curvature is computed for responses with
    an assumed density (`DENSITY`).

    Parameters
    ----------
    taus : tuple of float
        Probabilities of the quantiles, ascending.
    norm : {"linf", "l1", "l2"}
        Norm in which the score is measured.
    split : float
        Share of the budget for the random linear term of the loss; the remaining share is for the ridge penalty.
    """

    taus: tuple[float, ...] = (0.5,)
    norm: str = "linf"
    split: float = 0.8
    shares: Mapping[str, float] = field(default_factory=lambda: {"coefficients": 1.0})

    def __post_init__(self) -> None:
        check_orders(self.taus)
        check_split(self.split)

    def __call__(self, ask: Ask, public: PublicFacts) -> PointEstimate:
        box, by = PublicBox(public.design), ObjectivePerturbation(self.split)
        hessian = filling_hessian(box, public, DENSITY)
        parts = [self._of_order(ask, public, box, by, tau) for tau in self.taus]
        noise = [noise_through(hessian + p.law.ridge * np.eye(box.c), Loading(np.eye(box.c), p.law)) for p in parts]
        theta = np.concatenate([part.value for part in parts])
        return PointEstimate(
            tuple(box.design.names) * len(self.taus), theta, noise=scipy.linalg.block_diag(*noise), given=LIKELY
        )

    def _of_order(
        self, ask: Ask, public: PublicFacts, box: PublicBox, by: ObjectivePerturbation, tau: float
    ) -> Release:
        """Release the minimiser of the perturbed, smoothed check loss for one probability tau."""
        item = item_of(self.taus, tau)
        rows = LossRows(np.eye(box.width)[:, : box.c], offset_alone(box))

        def question(h: float) -> Values:
            within = within_box(box, SmoothedCheck(tau, h), self.norm, (-1.0, 1.0))
            return Values("coefficients", rows, within=within, item=item)

        n = next((float(one) for one in (public.offered, public.units) if one is not None), np.inf)
        h = ask.law(question(1.0), by=by).ridge / (SMOOTHED_RIDGE * n * DENSITY)
        return ask(question(float(np.clip(h, *SMOOTHED))), by=by)


def within_box(box: PublicBox, loss: RowLoss, norm: str, response: tuple[float, float]) -> WeightedLosses:
    """Return the set of losses that a row may have if predictors and response are within their declared bounds.

    From this set, the mechanism `ObjectivePerturbation` computes the noise and ridge penalty that privacy requires.
    `loss` is a row's loss as a function of linear predictor and response, `norm` ("linf", "l1" or "l2") is the norm in
    which scores are bounded, and `response` is the range of the response.
    """
    frame = box.identity()
    longest = frame.longest(np.eye(box.c))
    lengths = {
        "linf": max(float(np.abs(corners).max()) for _, corners in frame.parts),
        "l2": longest,
        "l1": sum(float(np.abs(corners).sum(axis=1).max()) for _, corners in frame.parts),
    }
    offset = (-box.offset_reach, box.offset_reach)
    return WeightedLosses(box.c, loss, lengths[norm], longest**2, longest, response, offset, norm)


def offset_alone(box: PublicBox) -> FloatArray:
    """Return the vector whose inner product with a row (columns, [offset], response) is the row's offset."""
    return np.r_[np.zeros(box.c), box.offset, 0.0]


def on_ball(theta: FloatArray, bound: float) -> FloatArray:
    """Return the projection of theta on the ball of l1 norm at most `bound` (Duchi and others 2008).

    >>> on_ball(np.array([3.0, -1.0, 0.5]), 3.0).tolist()
    [2.5, -0.5, 0.0]
    """
    size = np.sort(np.abs(theta))[::-1]
    excess = (np.cumsum(size) - bound) / np.arange(1, len(size) + 1)
    if excess[-1] <= 0 and size.sum() <= bound:
        return theta
    cut = excess[np.flatnonzero(size > excess)[-1]]
    return np.asarray(np.sign(theta) * np.maximum(np.abs(theta) - cut, 0.0), dtype=float)
