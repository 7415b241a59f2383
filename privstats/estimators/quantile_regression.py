"""Quantile regression: steps on smoothed losses or a perturbed minimiser, then two Newton steps on the check loss.

The score (gradient) of a row's check loss is bounded in the residual, so residuals need no clipping; only the norm of a
row's whitened predictors must be limited. Whitened predictors are linear combinations of the predictors with a
second-moment matrix near the identity. Before the last two steps, the iterate must lie in a region in which the loss is
nearly quadratic. Steps on losses that are smoothed over wide intervals lead to this region, because the curvature of a
smoothed loss is bounded for every density of the responses. The last two steps use the same Hessian. In the first of
these two steps, the change of the score differs from the change that the Hessian predicts; the difference gives a bound
on the Hessian's error. Comments in the code number the stages.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from privstats.errors import OptionError
from privstats.estimators.base import (
    NORMAL,
    PURE,
    Noises,
    PublicFacts,
    check_split,
    check_tail,
    entry_sd,
    score_sd,
    sd_of,
)
from privstats.estimators.beginning import begun_about, scales_of
from privstats.estimators.constants import (
    CHECK_RADIUS,
    CLIPPED_AT,
    DAMPING,
    DENSITY_WIDEST,
    FARTHEST_PILOT,
    FARTHEST_STEP,
    FIRST_WIDTHS,
    HELD_LEAST,
    KERNEL_BEND,
    KERNEL_NOISIER,
    KERNEL_ROWS,
    KERNEL_SHAPE,
    KERNEL_WIDTH,
    KERNEL_WITHIN,
    MATRIX_NOISE,
    NARROWEST,
    NEAR_ORDER,
    PILOT_RIDGE,
    READABLE,
    SECOND_WIDTHS,
    VISIBLE,
)
from privstats.estimators.equal_responses import bins_near, has_few_values
from privstats.estimators.frame import PublicBox
from privstats.estimators.histogram import Clip, Lengths, best_clip, edges
from privstats.estimators.objective_perturbation import best_radius
from privstats.estimators.one_step import Doubts, Fitted, Hessian, LastRelease, OneStep, Pilot, Problem, Step
from privstats.estimators.preconditioner import Start
from privstats.estimators.side_by_side import Queries, side_by_side
from privstats.estimators.transformed import TransformedAsk, TransformedBox
from privstats.gate.questions import Ask, Sum, Values
from privstats.inference.estimate import Allowance, Estimate, NormalEstimate, Stacked, quantile_scores
from privstats.inference.matrix import NoisyMatrix, noise_edge
from privstats.inference.meat import Meat
from privstats.inference.noise import Loading
from privstats.inference.notes import note
from privstats.inference.tables import PointEstimate
from privstats.losses.convex import SmoothedCheck
from privstats.losses.psi import (
    BinOfResidual,
    CheckLoss,
    ClippedScores,
    LogSizes,
    LossRows,
    Shortened,
    Standardized,
    StretchedResiduals,
    Within,
)
from privstats.losses.rows import Linear, WeightedRows
from privstats.mechanisms.objective.perturbation import ObjectivePerturbation
from privstats.mechanisms.order.rank import Rank
from privstats.numerics.law import FloatArray
from privstats.privacy.release import Release
from privstats.sets.cells import Cells, Line, Shells
from privstats.sets.vectors import Ball, Fractions, Products, SumAndProducts
from privstats.sets.weighted_losses import WeightedLosses

STEPS: Mapping[str, Mapping[str, float]] = {
    "normal": {
        "units": 0.02, "scales": 0.02, "levels": 0.14, "rare values": 0.10, "scales again": 0.05,
        "coarse matrix": 0.06, "second matrix": 0.05,
        "residual scale": 0.05, "first step": 0.07, "first hessian": 0.03, "second step": 0.09, "leverages": 0.04,
        "first score": 0.09, "score sizes": 0.08, "score": 0.38, "atom": 0.01, "hessian": 0.14, "density": 0.02,
        "meat": 0.08, "equal responses": 0.02,
    },
    "pure": {
        "units": 0.02, "scales": 0.03, "levels": 0.14, "rare values": 0.10, "scales again": 0.06,
        "coarse matrix": 0.07, "second matrix": 0.07,
        "residual scale": 0.06, "first step": 0.08, "first hessian": 0.04, "second step": 0.09, "leverages": 0.04,
        "first score": 0.09, "score sizes": 0.08, "score": 0.30, "atom": 0.01, "hessian": 0.14, "density": 0.02,
        "meat": 0.03, "equal responses": 0.02,
    },
}  # fmt: skip
PERTURBED = {
    "units": 0.02, "scales": 0.06, "levels": 0.14, "rare values": 0.10, "scales again": 0.06,
    "coarse matrix": 0.11, "second matrix": 0.07, "residual scale": 0.07,
    "leverages": 0.05, "coefficients": 0.16,
    "first score": 0.07, "score sizes": 0.06, "score": 0.28, "atom": 0.01, "hessian": 0.16, "density": 0.03,
    "equal responses": 0.02,
}  # fmt: skip


@dataclass(frozen=True)
class QuantileSteps:
    """Quantile regression with noisy Newton steps.

    Parameters
    ----------
    noises : Noises
        Noise mechanisms, one for each kind of query.
    taus : tuple of float
        Probabilities of the quantiles, ascending.
    tail : {"usual", "cautious"}
        Assumption about the number of rows whose predictors have large norms. A released histogram of the norms shows
        this number only if it exceeds the histogram's noise. "cautious" assumes a larger number than "usual", and also
        a larger bias due to clipping: the clipped parts of all rows may add up in one coefficient.
    """

    noises: Noises = NORMAL
    taus: tuple[float, ...] = (0.5,)
    tail: str = "usual"

    @property
    def shares(self) -> Mapping[str, float]:
        return STEPS[self.noises.shares]

    @property
    def most_first_noise(self) -> float:
        """Largest relative noise of the first released second moments at which Newton steps converge.

        For n rows x of c columns with variance 1, the relative noise is ``sqrt(c) s / n``, where s is the noise sd of
        an off-diagonal entry of the released sum of x x'. The limit is lower for extreme quantiles than for the
        median, because their Hessian is smaller (see `sparsest`).
        """
        return MATRIX_NOISE * sparsest(self.taus)

    def __post_init__(self) -> None:
        check_orders(self.taus)
        check_tail(self.tail)

    def __call__(self, ask: Ask, public: PublicFacts) -> Estimate:
        shared = Shared.released(ask, self.noises, public, self.tail, self.taus)
        fits = shared.orders(CheckSteps, self.taus)
        return shared.problem.given(stacked(fits, self.taus, public.design.names))


@dataclass(frozen=True)
class PerturbedQuantile:
    """Quantile regression by objective perturbation of a smoothed check loss, then two Newton steps on the check loss.

    Parameters
    ----------
    noises : Noises
        Noise mechanisms of all queries other than the query for the minimiser.
    taus : tuple of float
        Probabilities of the quantiles, ascending.
    split : float
        Share of the minimiser's budget for the random linear term of the loss; the remaining share is for the
        ridge penalty.
    tail : {"usual", "cautious"}
        Assumption about the number of rows whose predictors have large norms. A released histogram of the norms shows
        this number only if it exceeds the histogram's noise. "cautious" assumes a larger number than "usual", and also
        a larger bias due to clipping: the clipped parts of all rows may add up in one coefficient.
    few : bool
        Whether 2 min(tau, 1 - tau) x rows x eps / (number of coefficients) is below the limit `FEW_ROWS`
        (`models/quantile_regression.py`), for the most extreme probability tau in `taus`. If False, intervals are given
        only for ``taus=(0.5,)``, because with many rows the bias of the estimate for another tau may exceed the bound
        for which the interval allows.
    shares : mapping of str to float
        Default shares of the budget, by the names of the queries.
    """

    noises: Noises = PURE
    taus: tuple[float, ...] = (0.5,)
    split: float = 0.8
    tail: str = "usual"
    few: bool = False
    shares: Mapping[str, float] = field(default_factory=lambda: dict(PERTURBED))

    def __post_init__(self) -> None:
        check_orders(self.taus)
        check_tail(self.tail)
        check_split(self.split)

    @property
    def most_first_noise(self) -> float:
        """Largest relative noise of the first released second moments at which Newton steps converge.

        For n rows x of c columns with variance 1, the relative noise is ``sqrt(c) s / n``, where s is the noise sd of
        an off-diagonal entry of the released sum of x x'. The limit is lower for extreme quantiles than for the
        median, because their Hessian is smaller (see `sparsest`).
        """
        return MATRIX_NOISE * sparsest(self.taus)

    def __call__(self, ask: Ask, public: PublicFacts) -> Estimate:
        shared = Shared.released(ask, self.noises, public, self.tail, self.taus)
        mechanism = ObjectivePerturbation(self.split)
        fits = shared.orders(Perturbed, self.taus, mechanism=mechanism)
        estimate = stacked(fits, self.taus, public.design.names)
        if not public.intervals:
            return PointEstimate.alone(estimate, estimate.hidden)
        unproved = tuple(note("unproved tau", tau=tau) for tau in self.taus if tau != 0.5 and not self.few)
        if public.by_unit:  # no intervals: the formula of the sampling variance assumes independent rows
            unproved = (note("dependent rows", unit="unit"),)
        return PointEstimate.of(estimate, unproved) if unproved else estimate


def check_orders(taus: tuple[float, ...]) -> None:
    """Raise an error unless the probabilities `taus` of quantiles lie between 0 and 1 and are ascending."""
    if not taus or not all(0 < tau < 1 for tau in taus) or any(a >= b for a, b in pairwise(taus)):
        raise OptionError("the orders of quantiles must lie between 0 and 1 and differ, such as tau=[0.25, 0.5]")


def sparsest(taus: tuple[float, ...]) -> float:
    """Return the smallest density of a logistic distribution at the quantiles `taus`, divided by its largest density.

    The Hessian of the check loss is proportional to the density of the response at the quantile. The result is the
    approximate size of the Hessian for the most extreme quantile, relative to the size of the Hessian for the median.
    """
    return 4 * min(tau * (1 - tau) for tau in taus)


def item_of(taus: tuple[float, ...], tau: float) -> str:
    """Return the label of the queries for the probability `tau`; an empty label if `taus` has only one probability."""
    return f"tau = {tau:g}" if len(taus) > 1 else ""


def stacked(fits: list[Fitted], taus: tuple[float, ...], names: Any) -> NormalEstimate:
    """Return the joint estimate of all quantiles, with the correlations between the sampling errors of their fits."""
    if len(fits) == 1:
        return fits[0].solve(names)
    notes = [note for fit in fits for note in fit.notes]
    facts: dict[str, float] = {}
    for fit in fits:
        facts = {name: max(value, facts.get(name, -np.inf)) for name, value in fit.facts.items()}
    whole = Stacked(tuple(fit.equation for fit in fits), quantile_scores(taus))
    return whole.solve([f"{name}" for _ in taus for name in names], notes, facts)


@dataclass(frozen=True, eq=False)
class Shared:
    """Releases that the fits of all quantiles share: a whitening matrix, starting coefficients, and norms of rows.

    Parameters
    ----------
    problem : Problem
        Estimation problem in half-ranges of the response; `start.sigma` is the released scale of the response.
    size : float
        Assumed upper limit of the linear predictor's sd: the larger of the response's released sd and its released
        scale about the median.
    center : ndarray, shape (c,)
        Coefficients of the constant model whose value is the released median of the response; 0 without an intercept.
    leverages : Lengths
        Histogram of the norms of whitened rows, each multiplied by the row's weight.
    """

    problem: Problem
    size: float
    center: FloatArray
    leverages: Lengths

    @classmethod
    def released(cls, ask: Ask, by: Noises, public: PublicFacts, tail: str, taus: tuple[float, ...]) -> Shared:
        """Make the releases that the fits of all quantiles share, and return them as a `Shared`.

        The releases are the scales of the columns and the response, the median of the response, the second moments from
        which the whitening matrix and the starting coefficients are computed, and a histogram of row norms. Optional
        queries, such as counts of factor levels, use a part of the budget of the first quantile's score. `tail` is the
        assumption about the number of large row norms, "usual" or "cautious".
        """
        item = item_of(taus, taus[0])
        share_of = (f"score {item}".strip(),)
        plain = TransformedBox(public.design)
        scales, sizes = scales_of(ask, by, public, plain)
        center, unit = released_response_scale(ask, plain)
        half, size = CLIPPED_AT * unit, max(unit, float(scales.scale[-1]))
        about = TransformedAsk(ask, Standardized(center, unit, CLIPPED_AT))
        middle, scale, below_noise = scales.center.copy(), scales.scale.copy(), scales.below_noise.copy()
        middle[-1], scale[-1], below_noise[-1] = 0.0, 1 / CLIPPED_AT, False
        scales = replace(scales, center=middle, scale=scale, below_noise=below_noise)
        box, least = TransformedBox(public.design, half), READABLE[by.shares] * KERNEL_ROWS[by.shares] / sparsest(taus)
        problem = begun_about(ask, about, by, public, box, scales, sizes, share_of, item, least)
        start = problem.start
        constant = start.to_theta @ problem.constant * center
        start = replace(start, theta=start.theta * half + constant, sigma=unit)
        problem = replace(problem, start=start).assuming(tail, "HC", "rows")
        m = problem.m
        # lowest bin edge of the histogram of row norms; with weights, most norms may be small
        least = m**0.5 / (32 if public.design.weighted else 2)
        shells = Shells(m, edges(least, max(start.longest, m**0.5)))
        question = Sum("leverages", WeightedRows(start.P), within=shells, keep=problem.keep)
        leverages = Lengths.released(ask, by, question, problem.total(problem.rows), problem.tail)
        return cls(problem, size, constant, leverages)

    def orders(self, kind: type[OneOrder], taus: tuple[float, ...], **own: Any) -> list[Fitted]:
        """Fit the quantiles of probabilities `taus`, from the shared releases; return one estimating equation for each.

        Each fit is an instance of the class `kind`, with the additional fields `own`. The fits' queries at the same
        stage are answered in one pass over the rows.
        """
        known = {"size": self.size, "center": self.center, "leverages": self.leverages}
        steps = [kind.of(self.problem, tau=tau, item=item_of(taus, tau), **known, **own) for tau in taus]
        tried = side_by_side(self.problem.ask, [step.first_steps() for step in steps])
        steps = [replace(step, tried=one) for step, one in zip(steps, tried, strict=True)]
        return [step.equation(more=step is not steps[-1]) for step in steps]


def released_response_scale(ask: Ask, box: PublicBox) -> tuple[float, float]:
    """Release the median and the scale of the response minus the offset, in half-ranges of the response.

    Median and scale are computed from released order statistics, whose noise does not depend on the declared bounds.
    Without an intercept, the model has no constant term that could equal the median, and 0 is returned in its place.
    """
    theta = np.r_[np.zeros(box.c), box.offset, 0.0]
    most, center = 1.0 + box.offset_reach, 0.0
    if box.intercept is not None:
        middle = StretchedResiduals(theta, 1.0)
        question = Values("residual scale", middle, within=Line(middle.at(-most), middle.at(most)), item="response")
        center = middle.back(float(ask(question, by=Rank((0.5,))).value[0]))
    queries = log_size(theta, center, NEAR_ORDER, NARROWEST, 2 * most, "response size", None)
    return center, side_by_side(ask, [queries])[0] / float(ndtri((1 + NEAR_ORDER) / 2))


def log_size(
    theta: FloatArray, center: float, order: float, least: float, most: float, item: str, keep: Any
) -> Queries[float]:
    """Release a noisy order statistic of log |residual - center|, and return the quantile of |residual - center|.

    Parameters
    ----------
    theta : ndarray, shape (width,)
        Vector whose inner product with a row z = (columns, [offset], response) is the row's linear predictor; `width`
        is the length of z. The residual is the response minus this linear predictor.
    center : float
        Centre that is subtracted from the residuals.
    order : float
        Probability of the quantile.
    least, most : float
        Lower and upper limits to which |residual - center| is clamped.
    item : str
        Label of the query.
    keep : AtLevels or None
        Function that selects the rows at factor levels that are kept in the fit; None for all rows.
    """
    of, within = LogSizes(theta, center, least), Line(float(np.log(least)) - 0.7, float(np.log(most)))
    question = Values("residual scale", of, within=within, keep=keep, item=item)
    (release,) = yield [(question, Rank((order,)))]
    return float(np.exp(release.value[0]))


@dataclass(frozen=True, eq=False)
class Residuals:
    """Released tau-quantile, density and scale of the residuals of quantile regression at the probability tau.

    The unit of the residuals is the half-range of the response.

    Parameters
    ----------
    quantile : float
        Tau-quantile of the residuals; it would be about 0 at the true coefficients.
    density : float
        Density of the residuals at the tau-quantile.
    sigma : float
        Residual scale: sd of the normal distribution whose density at the tau-quantile is `density`.
    """

    quantile: float
    density: float
    sigma: float


@dataclass(frozen=True)
class Kernel:
    """Settings of the kernel estimate of a check loss's Hessian; half-widths are in half-ranges of the response.

    Parameters
    ----------
    radius : float
        Norm to which the whitened predictors of a row are clipped in the Hessian.
    width : float
        Half-width of the kernel.
    straight : float
        Change of the linear predictor up to which the loss is assumed to be nearly quadratic: the half-width of the
        kernel if `radius` were its smallest candidate.
    narrow : float
        Half-width of the kernel for the density at the quantile.
    """

    radius: float
    width: float
    straight: float
    narrow: float


@dataclass(frozen=True, eq=False)
class Centred(Pilot):
    """Coefficients near the quantile regression estimate, from which the Newton steps on the check loss start.

    Parameters
    ----------
    residuals : Residuals
        Quantile, density and scale of the residuals at these coefficients.
    """

    residuals: Residuals


@dataclass(frozen=True, eq=False)
class Tried(Centred):
    """Coefficients after one Newton step on the check loss, with the score at these coefficients.

    The scores before and after the step show by how much the loss differs from a quadratic function (`wrong`).

    Parameters
    ----------
    first : LastRelease
        The score at the coefficients before the step.
    density : Density
        The Hessian, estimated at the coefficients before the step.
    step : ndarray, shape (m,)
        The step: change of the coefficients of the m whitened predictors.
    lengths : Lengths
        Histogram of the norms of the scores at the new coefficients.
    last : LastRelease
        The score at the new coefficients.
    """

    first: LastRelease
    density: Density
    step: FloatArray
    lengths: Lengths
    last: LastRelease

    def wrong(self, last: LastRelease) -> float:
        """Return the relative error of the predicted change of the score in the first Newton step.

        The prediction p is the estimated Hessian times the step. For a quadratic loss, the score before the step
        (`first`) minus the score after the step (`last`) is p. Let e be the error of p, and v the part of the expected
        |e|^2 that is due to noise. The result is the square root of ``max(0, |e|^2 - v) / (|p|^2 + v)``, at most 1.
        """
        predicted = self.density.matrix.power(1.0) @ self.step
        missed = self.first.value - last.value - predicted
        noise = self.first.noise.covariance() + last.noise.covariance()
        explained = float(np.trace(noise) + self.step @ self.density.matrix.mean_square() @ self.step)
        excess = max(float(missed @ missed) - explained, 0.0)
        return min(float(np.sqrt(excess / (float(predicted @ predicted) + explained))), 1.0)

    def unpredicted(self, last: LastRelease, least: float) -> float:
        """Return the expected mean square of the m coordinates of the score after the last Newton step.

        The score after this step is predicted to be zero. The relative error r of this prediction is assumed to equal
        the relative error for the previous step (`wrong`), but is at least `least` and at most 1. The result is
        ``r^2 s / m``, where s is the squared norm of the score before the last step, less its expected noise part.

        Parameters
        ----------
        last : LastRelease
            The score before the last Newton step, with its noise.
        least : float
            Lower limit of the relative error of the prediction.
        """
        change = max(float(last.value @ last.value - np.trace(last.noise.covariance())), 0.0)
        return min(max(self.wrong(last), least), 1.0) ** 2 * change / len(last.value)


@dataclass(frozen=True, eq=False)
class OneOrder(OneStep):
    """The fit of one quantile, from starting coefficients near the solution; subclasses compute these coefficients.

    Parameters
    ----------
    tau : float
        Probability of the quantile.
    item : str
        Label of the queries for this quantile.
    size, center, leverages
        The attributes of `Shared` with the same names: the assumed upper limit of the linear predictor's sd, the
        coefficients of a constant model, and the histogram of row norms.
    tried : Tried, optional
        Coefficients after one Newton step, with the score at these coefficients: the result of `first_steps`.
    """

    tau: float = field(kw_only=True)
    item: str = field(kw_only=True)
    size: float = field(kw_only=True)
    center: FloatArray = field(kw_only=True)
    leverages: Lengths = field(kw_only=True)
    tried: Tried | None = field(kw_only=True, default=None)

    @property
    def signal_of_row(self) -> float:
        """Assumed upper limit of the linear predictor's sd along unidentified directions: the attribute `size`."""
        return self.size

    def spread(self, at: Start) -> float:
        """Return the standard normal density at the tau-quantile.

        For normal residuals with sd 1, this density is the second derivative of the expected check loss with respect to
        the linear predictor.
        """
        return _density(self.tau)

    @property
    def largest(self) -> float:
        """Largest absolute derivative of the check loss with respect to the linear predictor."""
        return max(self.tau, 1 - self.tau)

    def label(self, item: str) -> str:
        return f"{item} {self.item}".strip()

    def residuals(self, start: Start, item: str) -> Queries[Residuals]:
        """Release the tau-quantile of the residuals at the coefficients `start`, and the density at this quantile.

        The density is ``p / (2 d)``, where d is a released distance from the quantile within which a share p of the
        residuals lies. The share p is ``NEAR_ORDER max(b, min(2 b, 1/4))``, where b is the smaller of tau and 1 - tau.
        With a smaller share, the noise in ranks would often make d many times too small. The residual scale follows
        from the density (see `Residuals`). The argument `item` is a text in the labels of the queries.
        """
        most = 2.0 + float(np.abs(start.theta).sum()) + start.offset_reach
        scale = StretchedResiduals(start.eta, self.start.sigma / CLIPPED_AT)
        question = Values(
            "residual scale", scale, Line(scale.at(-most), scale.at(most)), self.keep, self.label(f"{item} quantile")
        )
        (release,) = yield [(question, Rank((self.tau,)))]
        quantile = scale.back(float(release.value[0]))
        beyond = min(self.tau, 1 - self.tau)
        order = NEAR_ORDER * max(beyond, min(2 * beyond, 0.25))
        least = max(1e-4 * self.start.sigma, 1e-12)
        size = yield from log_size(start.eta, quantile, order, least, 2 * most, self.label(f"{item} size"), self.keep)
        density = order / (2 * size)
        return Residuals(quantile, density, _density(self.tau) / density)

    def recentred(self, start: Start, residuals: Residuals) -> Start:
        """Return the coefficients after the tau-quantile of the residuals is added to the intercept.

        At coefficients other than the first starting coefficients, at most two residual scales are added or subtracted.
        Without an intercept, the coefficients are unchanged.
        """
        far = 2 * residuals.sigma if start is not self.start else np.inf
        return start.moved(self.constant * float(np.clip(residuals.quantile, -far, far)))

    @abstractmethod
    def centred(self) -> Queries[Centred]:
        """Return starting coefficients near the solution of the quantile regression."""

    def pilot(self) -> Tried:
        assert self.tried is not None
        return self.tried

    def first_steps(self) -> Queries[Tried]:
        """Return the coefficients after one Newton step on the check loss, and the score at these coefficients.

        The step is multiplied by the share of the score's squared norm that is not due to noise. The norm of the step
        is then limited to `FARTHEST_STEP` times the distance up to which the loss is nearly quadratic
        (`Density.width`).
        """
        centred = yield from self.centred()
        start, clip = centred.start, self.clip_of_rows(self.leverages, centred.start)
        question = self.smooth_score("first score", "", start, 0.0, clip.radius * self.mean_rows)
        kernel = self.kernel(centred.residuals, clip.radius)
        score, *releases = yield [(question, self.by.vector), *self.of_density(start, kernel, clip)]
        first, density = LastRelease.of(score, start), self.density(centred, kernel, *releases)
        kept = max(0.0, 1 - float(np.trace(first.noise.covariance())) / max(float(first.value @ first.value), 1e-300))
        step = kept * density.matrix.power(-1.0) @ first.value
        step = step * min(1.0, FARTHEST_STEP * density.width / max(float(np.linalg.norm(step)), 1e-300))
        centred = replace(centred, start=start.moved(step))
        lengths = self.lengths_at(centred.start)
        last, density = yield from self.last_score(centred, lengths, density)
        return Tried(centred.start, centred.residuals, first, density, step, lengths, last)

    def smooth_score(self, name: str, item: str, start: Start, h: float, radius: float) -> Sum:
        """Return the query for the sum of the scores of the check loss, smoothed with half-width h (0: not smoothed).

        The scores are computed at the coefficients `start`. Rows of whitened predictors with a norm above `radius` are
        clipped to the norm `radius`. `name` is the name of the budget share, and `item` a text in the query's label.
        """
        of, within = (
            ClippedScores(CheckLoss(self.tau, h), start.P, start.eta, radius),
            Ball(self.m, self.largest * radius),
        )
        return Sum(name, of, within=within, keep=self.keep, item=self.label(item), folded=True)

    def score(self, name: str, w: Start, radius: float, item: str = "") -> Sum:
        """Return the query for the sum of the rows' scores of the check loss, with rows clipped to the norm `radius`.

        The scores are computed for the whitened predictors and the coefficients in `w`. If the sum of the outer
        products of the scores costs no additional budget, the query includes the sum of outer products, from which the
        variance of the score is estimated.
        """
        question = self.smooth_score(name, item, w, 0.0, radius)
        size = self.largest * radius
        return replace(question, within=SumAndProducts(self.m, size)) if self.by.free_products else question

    def lengths(self, w: Start) -> Lengths:
        return self.pilot().lengths

    def lengths_at(self, w: Start) -> Lengths:
        """Return a histogram of score norms, or of upper limits of these norms.

        The scores are computed for the whitened predictors and the coefficients in `w`. A score is a row of predictors
        times the derivative of the loss. Scores are divided by the largest absolute derivative, so the norm of a score
        is at most the norm of the row. If privacy units have at most one row, the histogram of row norms (attribute
        `leverages`) is returned. Otherwise the scores of a unit's rows are added up, and a histogram of the norms of
        these sums is released.
        """
        if self.most_rows == 1:
            return self.leverages
        of = ClippedScores(CheckLoss(self.tau, 0.0), w.P / self.largest, w.eta, w.longest / self.largest)
        shells = Shells(self.m, edges(self.m**0.5 / 8, max(w.longest, self.m**0.5) * self.most_rows))
        question = Sum("score sizes", of, shells, self.keep, self.label(""), folded=True)
        return Lengths.released(self.ask, self.by, question, self.total(self.sizes.scores), self.tail)

    def clip(self, pilot: Any, w: Start, lengths: Lengths) -> Clip:
        """Return the clipping threshold of scores that gives the shortest confidence interval.

        The threshold is in units of the largest absolute derivative of the check loss.
        """
        if self.most_rows == 1:
            return self.clip_of_rows(lengths, w)
        return best_clip(lengths, self.score_sd(w) / self.largest, self.m, self.tail).times(self.largest)

    def clip_of_rows(self, lengths: Lengths, w: Start) -> Clip:
        """Return the clipping threshold of weighted rows in the score that gives the shortest expected interval.

        The histogram of row norms (`lengths`) may miss a cluster of rows that are far from all other rows and have most
        of the information. The histogram's sum of squared norms is then smaller than the sum computed from `w.moments`,
        the released second moments of whitened rows. If noise cannot explain the difference of the two sums, the
        difference is taken as the sum of squared norms of the missing rows, except in weighted regressions.
        """
        spread, squares, unseen = self.tau * (1 - self.tau), self.squared_weights(np.inf), 0.0
        if w.moments is not None and not self.box.design.weighted:
            unseen = lengths.missing(float(np.trace(w.moments.value)), w.moments.trace_variance() ** 0.5)
        return best_radius(lengths, self.score_sd(w), squares * spread, 2 * spread, self.m, self.tail, unseen)

    @property
    def stretch(self) -> float:
        """Ratio of the typical norm of the most informative whitened rows to its value for normal predictors.

        The typical norm is the median of the row norms, weighted by the squared norms, which are proportional to the
        information of the rows. Its value for m normal predictors is about ``sqrt(m + 4/3)``. A ratio below 1 is
        raised to 1. If a few rows that are far from all others have most of the information, the ratio is large, and a
        Newton step changes the linear predictors of these rows several times as much as with normal predictors.
        """
        squares = self.leverages.counts * self.leverages.lengths**2
        half = int(np.searchsorted(np.cumsum(squares), squares.sum() / 2))
        norm = float(self.leverages.lengths[min(half, len(squares) - 1)])
        return max(1.0, norm / (self.m + 4 / 3) ** 0.5)

    def squared_weights(self, radius: float) -> float:
        """Return the sum of the rows' squared weights, from which the variance of the score is computed.

        Under a correct model, a coordinate of the score has the variance tau (1 - tau) times this sum. Without
        weights, the sum is the number of rows. With weights, the sum is estimated by S / m, for m whitened predictors.
        Here S is the sum of the squared norms of weighted rows, computed from the histogram `leverages`, with norms
        above `radius` reduced to `radius`. The result is at least (sum of the weights)^2 / (number of rows), a lower
        bound by the Cauchy-Schwarz inequality.
        """
        if not self.box.design.weighted:
            return self.rows
        squares = float(self.leverages.squares(np.array([radius]))[0]) / self.m
        return max(squares, self.rows**2 / max(float(self.leverages.counts.sum()), self.rows))

    def last(self, w: Start, clip: Clip) -> LastRelease:
        return self.pilot().last

    def last_score(self, pilot: Centred, lengths: Lengths, density: Density) -> Queries[tuple[LastRelease, Density]]:
        """Release the last Newton step's score and a count of residuals near zero; return the score and the Hessian.

        The Hessian is `density` with another value of its field `atom`: the excess of the count over the number
        expected from the density of the residuals, less an allowance for random error.
        """
        at, clip = pilot.start, self.clip(pilot, pilot.start, lengths)
        question = self.score("score", at, clip.radius)
        sd = score_sd(self.ask, question, self.by)
        spread, flat = self.rows * self.tau * (1 - self.tau) + sd**2, self.rows * pilot.residuals.density
        inner = min(density.narrow / 2, 2 * (self.m * spread) ** 0.5 / flat)
        near = Sum("atom", Within(at.eta, (inner, density.narrow)), Fractions(2), self.keep, self.label(""))
        pairs = [(question, self.by.vector), *self.products_of(question), (near, self.by.counts)]
        score, *products, counts = yield pairs
        nearest, around = counts.value
        expected = inner / density.narrow * max(around, flat * density.narrow / 2)
        atom = nearest - expected - VISIBLE * float(np.hypot(sd_of(counts.law), expected**0.5))
        return LastRelease.of(score, at, *products), replace(density, atom=max(float(atom), 0.0))

    def hessian(self, pilot: Tried, w: Start, clip: Clip, last: LastRelease) -> Density:
        return pilot.density

    def of_density(self, start: Start, kernel: Kernel, clip: Clip) -> list[tuple[Sum, Any]]:
        """Return the three queries from which the method `density` computes the Hessian, each with its mechanism.

        The queries are for the products of predictors, the numbers of residuals near the quantile, and a histogram of
        the responses.
        """
        of = Shortened(start.P, start.eta, kernel.width, clip.radius)
        hessian = Sum("hessian", of, Products(self.m, kernel.radius), self.keep, self.label(""))
        inside = Within(start.eta, (kernel.narrow, kernel.width))
        counts = Sum("density", inside, Fractions(2), self.keep, self.label(""))
        equal = self.equal_responses(start, kernel.width, kernel.narrow)
        return [(hessian, self.by.matrix), (counts, self.by.counts), (equal, self.by.counts)]

    def density(
        self, centred: Centred, kernel: Kernel, hessian: Release, counts: Release, histogram: Release
    ) -> Density:
        """Return a kernel estimate of the check loss's Hessian, from the answers to the queries of `of_density`.

        The release `hessian` is the sum of w w' over clipped whitened rows w, for rows whose residual at the
        coefficients of `centred` is less than `kernel.width` in absolute value. The sum is divided by
        ``2 kernel.width * r``, where r is the mean density of the residuals within this width, relative to their
        density at the fitted quantile. The ratio r is estimated from `counts`, the numbers of rows with residuals
        within `kernel.narrow` and within `kernel.width`. The counts in `histogram` show whether the responses near the
        quantile have few distinct values.
        """
        residuals, m, width, narrow = centred.residuals, self.m, kernel.width, kernel.narrow
        sigma, f0 = residuals.sigma, residuals.density
        few = has_few_values(histogram.value[1:-1], sd_of(histogram.law))
        seen = np.maximum(counts.value, self.rows * f0 * np.array([narrow, width]) / 2)
        z = float(ndtri(self.tau))
        curve = ndtr(z + narrow / sigma) - ndtr(z - narrow / sigma)
        bulge = curve / (2 * narrow / sigma * _density(self.tau))
        level = (seen[1] / width) / (seen[0] / narrow) * bulge if width > narrow else 1.0
        relative = float(np.sqrt(1 / seen[0] + sd_of(counts.law) ** 2 / seen[0] ** 2))
        matrix = NoisyMatrix.of(hessian).mapped(np.eye(m) / np.sqrt(2 * width * level))
        usual = max(float(np.trace(matrix.value)) / m, 1e-300)
        to_theta, wide = centred.start.to_theta, width / sigma
        return Density(matrix, to_theta, np.eye(m), usual, kernel.straight, wide, relative, narrow, few)

    def equal_responses(self, start: Start, kernel: float, narrow: float) -> Sum:
        """Return the query for a histogram of (response - offset), used to detect a response with few distinct values.

        Parameters
        ----------
        start : Start
            Coefficients. The centre of the histogram is the mean of the linear predictor at these coefficients. The
            half-range is at least twice the sd of the linear predictor, unless this half-range requires too many bins.
        kernel, narrow : float
            Half-widths of the kernels in the estimates of the Hessian (`kernel`) and of the density at the quantile
            (`narrow`). The width of a bin is proportional to `narrow`.
        """
        t, one = self.along(start.theta), self.constant
        # mean of the linear predictor: whitened predictors in directions orthogonal to the constant `one` have mean 0
        mean = float(one @ t) / max(float(one @ one), 1e-300)
        low, width, bins = bins_near(mean, float(np.linalg.norm(t - mean * one)), kernel, narrow)
        offset = np.r_[np.zeros(self.box.c), self.box.offset, 0.0]
        return Sum("equal responses", BinOfResidual(offset, low, width), Cells(bins + 2), self.keep, self.label(""))

    def kernel(self, residuals: Residuals, radius: float) -> Kernel:
        """Return the settings of the kernel estimate of the Hessian: half-widths, and the clipping radius of rows.

        A larger clipping radius causes more noise and needs a wider kernel, but a wide kernel is biased where the
        scale of residuals varies with the predictors. The chosen radius minimises ``E / s + D``. Here E is the largest
        eigenvalue of the noise in the released sum of w w' over the rows w with residuals in the kernel, s is these
        rows' share of all rows, and D is the amount by which clipping reduces the sum of all rows' squared norms.

        Parameters
        ----------
        residuals : Residuals
            Released quantile, density and scale of the residuals.
        radius : float
            Clipping radius of rows in the score. In the Hessian, a row norm |w| above this radius is first reduced to
            ``sqrt(radius |w|)``, and then clipped to `Kernel.radius`.
        """
        m, lengths, sigma = self.m, self.leverages, residuals.sigma
        plain = Sum("hessian", Linear(self.start.P), Products(m), self.keep, self.label(""))
        # `unit`: largest eigenvalue of the noise in the Hessian if rows are clipped to norm 1; if rows are clipped to
        # norm R, the eigenvalue is R^2 times as large
        unit = noise_edge(m, entry_sd(self.ask, plain, self.by))
        inside = 2 * residuals.density * sigma  # share of rows within one residual scale of the quantile
        size = np.minimum(lengths.lengths, np.sqrt(radius * lengths.lengths))
        least = CHECK_RADIUS * m**0.5
        # Largest candidate radius: at this radius, with a kernel of half-width `DENSITY_WIDEST` residual scales, the
        # largest eigenvalue of the noise is the share `MATRIX_NOISE` of a typical eigenvalue of the Hessian.
        most = np.sqrt(MATRIX_NOISE * self.rows * inside * DENSITY_WIDEST / unit)
        tried = np.r_[least, size[(size > least) & (size < most)]]
        # For each radius, `quiet` is the half-width at which the noise's largest eigenvalue is `MATRIX_NOISE` times a
        # typical eigenvalue. A half-width above `DENSITY_WIDEST` is reduced to this limit, but at most by the factor
        # `KERNEL_NOISIER`.
        quiet = unit * tried**2 / (MATRIX_NOISE * self.rows * inside)
        quiet = np.maximum(np.minimum(quiet, DENSITY_WIDEST), quiet / KERNEL_NOISIER)
        width = np.clip(np.maximum(KERNEL_WIDTH * self.rows**-0.2, quiet), *KERNEL_WITHIN)
        cut = (lengths.counts[:, None] * np.maximum(size[:, None] ** 2 - tried**2, 0.0)).sum(axis=0)
        best = int(np.argmin(unit * tried**2 / (inside * width) + cut))
        chosen, narrowest = float(sigma * width[best]), float(sigma * width[0])
        return Kernel(float(tried[best]), chosen, narrowest, min(chosen, DENSITY_WIDEST / 2 * sigma))

    def doubts(self, step: Step) -> Doubts:
        """Return the errors of the estimating equation that are due to the estimated Hessian or to equal responses.

        The argument `step` is the last Newton step, with its releases. The result also states that no coefficient of
        this quantile is reported if

        - the step is too long for the quadratic approximation of the loss,
        - the linear predictor before the step differs from the constant model (attribute `center`) by more than
          `FARTHEST_PILOT` times the assumed limit `size` of the linear predictor's sd (root mean square), or
        - the responses near the quantile have few distinct values.
        """
        m, density = self.m, step.hessian
        names = tuple(f"{name}[{self.tau:g}]" if self.item else name for name in self.box.design.names)
        length = float(np.linalg.norm(step.step))
        pilot = self.along(step.last.at.theta - self.center)
        away = float(np.linalg.norm(pilot)) / (FARTHEST_PILOT * self.size)
        far = max(length / (FARTHEST_STEP * density.width), away)
        back = density.matrix.power(1.0) @ step.step
        through = float(np.trace(step.inverse @ step.spread @ step.inverse)) / m
        wide = KERNEL_BEND * max(self.stretch * length / density.width, density.wide**2, KERNEL_SHAPE * density.wide**4)
        notes = (note("far step", names, size=far),) if far > 1 else ()
        if density.few_values:
            notes = (*notes, note("few values", names))
        uncertain = through * density.matrix.mean_square() + density.relative**2 * step.spread
        uncertain = uncertain + step.pilot.unpredicted(step.last, wide) * np.eye(m)
        return Doubts(
            remaining=length,
            known=-pilot,
            noises=(Loading(density.relative * back[:, None]),),
            meat=replace(step.meat, value=step.meat.value + uncertain),
            clipped=(Allowance(np.eye(m), density.atom),),
            not_given=np.eye(len(names)) if notes else None,
            notes=notes,
            facts={"last_step": length / density.width},
        )


@dataclass(frozen=True, eq=False)
class Density(Hessian):
    """Estimated Hessian of the check loss: second moments of predictors, weighted by the density at the quantile.

    Parameters
    ----------
    width : float
        Change of the linear predictor up to which the loss is nearly quadratic along a Newton step, in half-ranges of
        the response (`Kernel.straight`).
    wide : float
        Half-width of the kernel of the Hessian (`Kernel.width`), in residual scales. With a large half-width, the
        Hessian is biased if the scale of residuals varies with the predictors.
    relative : float
        Relative standard error of the density at the quantile.
    narrow : float
        Half-width of the kernel for the density at the quantile, in half-ranges of the response.
    few_values : bool
        Whether the responses near the quantile have few distinct values.
    atom : float
        Number of rows with responses equal to the fitted quantile, in excess of the number expected from the density.
        A small change of the coefficients may change the sign of the residuals, and thus the scores, of these rows.
    """

    width: float
    wide: float
    relative: float
    narrow: float
    few_values: bool
    atom: float = 0.0


@dataclass(frozen=True, eq=False)
class CheckSteps(OneOrder):
    """The fit of one quantile, started by gradient steps and damped Newton steps on smoothed check losses.

    The check loss is smoothed by a uniform kernel. The kernel's half-width, in residual scales, decreases from step to
    step (`FIRST_WIDTHS` for the gradient steps, then `SECOND_WIDTHS`).
    """

    def centred(self) -> Queries[Centred]:
        m, n = self.m, self.rows

        # stage 2: an approximate quantile; then steps on smoothed losses, with lengths set by a bound on the curvature
        start = self.start
        residuals = yield from self.residuals(start, "first")
        start = self.recentred(start, residuals)
        held = CHECK_RADIUS * m**0.5
        sums = held * self.mean_rows
        for k, smooth in enumerate(FIRST_WIDTHS):
            h = smooth * residuals.sigma
            question = self.smooth_score("first step", str(k + 1), start, h, sums)
            (score,) = yield [(question, self.by.vector)]
            start = start.moved(2 * h / n * score.value)
        residuals = yield from self.residuals(start, "second")
        start = self.recentred(start, residuals)

        # stage 3: damped Newton steps on losses that are smoothed over narrower intervals than in stage 2
        curvature = yield from self.rough_hessian(start, residuals, SECOND_WIDTHS[0] * residuals.sigma, held)
        for k, smooth in enumerate(SECOND_WIDTHS):
            h = smooth * residuals.sigma
            rough = curvature + DAMPING * n / (2 * h) * np.eye(m)
            question = self.smooth_score("second step", str(k + 1), start, h, sums)
            (score,) = yield [(question, self.by.vector)]
            step = np.asarray(np.linalg.solve(rough, score.value), dtype=float)
            start = start.moved(step * min(1.0, residuals.sigma / max(float(np.linalg.norm(step)), 1e-300)))
        return Centred(start, residuals)

    # stage 4: the score of the check loss, clipped for the shortest interval, and a kernel estimate of the Hessian
    @property
    def asks_meat(self) -> bool:
        return self.public.intervals

    def meat(self, pilot: Centred, clip: Clip, last: LastRelease, hessian: Density) -> Meat:
        usual, meat = self.usual_meat(clip.radius), np.eye(self.m)
        if last.products is None:
            return Meat(usual * meat, self.freedom)
        level = self.level(last.products, usual)
        meat = last.products.shrunk(level * meat)
        return Meat(meat * (level * self.m / float(np.trace(meat))), self.freedom)

    def usual_meat(self, radius: float) -> float:
        """Return the variance of the score, averaged over its m coordinates, under a correct model.

        The variance is computed from the released histogram of row norms, with norms above `radius` clipped to
        `radius`.
        """
        squares = float(self.leverages.squares(np.array([radius]))[0]) / self.m
        independent = self.tau * (1 - self.tau) * max(squares, self.squared_weights(radius))
        return independent * (self.sizes.scores / self.rows if self.most_rows == 1 else 1.0)

    def level(self, meat: NoisyMatrix, usual: float) -> float:
        """Return the mean eigenvalue of a noisy score variance, shrunk toward its expected value `usual`.

        The difference d of the mean eigenvalue from `usual` is multiplied by 1 - (noise variance of d) / d^2, or by 0
        if this factor is negative; the result is at least half of `usual`. If tau is 0.5 and privacy units have at most
        one row, `usual` is returned, because the squared derivative of the check loss is then 1/4 for every row.
        """
        if self.tau == 0.5 and self.most_rows == 1:
            return usual
        m = len(meat.value)
        gap = float(np.trace(meat.value)) / m - usual
        kept = max(0.0, 1 - meat.trace_variance() / m**2 / max(gap**2, 1e-300))
        return max(usual + kept * gap, usual / 2)

    def rough_hessian(self, start: Start, residuals: Residuals, h: float, held: float) -> Queries[FloatArray]:
        """Release the Hessian of the smoothed loss (half-width h), with rows clipped to the norm `held`.

        The Hessian is computed at the coefficients `start`. Eigenvalues are raised to at least sqrt(m) times the noise
        sd of an entry, for m coefficients, and to at least `PILOT_RIDGE` times their expected value, (number of rows) x
        (density at the quantile).
        """
        of = Shortened(start.P, start.eta, h, 1e300)
        question = Sum("first hessian", of, Products(self.m, held), self.keep, self.label(""))
        sd = entry_sd(self.ask, question, self.by) * held**2
        (release,) = yield [(question, self.by.matrix)]
        least = max(PILOT_RIDGE * self.rows * residuals.density, self.m**0.5 * sd / (2 * h))
        return NoisyMatrix.of(release).mapped(np.eye(self.m) / np.sqrt(2 * h)).nearest_positive(least)


@dataclass(frozen=True, eq=False)
class Perturbed(OneOrder):
    """The fit of one quantile that starts at the minimiser of a perturbed, smoothed check loss.

    Parameters
    ----------
    mechanism : ObjectivePerturbation
        Mechanism that releases the minimiser of a perturbed loss.
    """

    mechanism: ObjectivePerturbation = field(kw_only=True)

    def centred(self) -> Queries[Centred]:
        # stage 2: an approximate quantile, and the half-width for the smoothing of the loss
        start = self.start
        residuals = yield from self.residuals(start, "first")
        start = self.recentred(start, residuals)
        radius = self.clip_of_rows(self.leverages, start).radius
        h = self.half_width(start, residuals, radius)

        # stage 3: the minimiser of the perturbed loss; shrinkage by the ridge penalty is approximately removed
        law = self.ask.law(self.question(start, h, radius), by=self.mechanism)
        (drawn,) = yield [(self.question(start, h, radius), self.mechanism)]
        flat = self.rows * residuals.density
        return Centred(start.moved(drawn.value * (1 + law.ridge / (flat + law.ridge))), residuals)

    # stage 4: the score of the check loss at the minimiser, and a kernel estimate of the Hessian
    def meat(self, pilot: Centred, clip: Clip, last: LastRelease, hessian: Density) -> Meat:
        return Meat(self.tau * (1 - self.tau) * self.squared_weights(clip.radius) * np.eye(self.m), self.freedom)

    def half_width(self, start: Start, residuals: Residuals, radius: float) -> float:
        """Return the smoothing half-width at which the ridge penalty is `PILOT_RIDGE` times the loss's curvature.

        The ridge is inversely proportional to the half-width; the curvature is the number of rows times the density at
        the quantile. The half-width is limited to the range from `NARROWEST` to `DENSITY_WIDEST` residual scales.
        `radius` is the norm to which rows are clipped.
        """
        law = self.ask.law(self.question(start, 1.0, radius), by=self.mechanism)
        wanted = law.ridge / (PILOT_RIDGE * self.rows * residuals.density)
        return float(np.clip(wanted, *np.multiply((NARROWEST, DENSITY_WIDEST), residuals.sigma)))

    def question(self, start: Start, h: float, radius: float) -> Values:
        """Return the private query for the minimiser of the perturbed check loss, smoothed with half-width h.

        The answer is the minimiser minus the coefficients `start`. `radius` is the norm to which rows are clipped.
        """
        longest = max(start.longest, radius)
        reach = 1.0 + float(np.abs(start.theta).sum()) + start.offset_reach
        within = WeightedLosses(
            self.m,
            SmoothedCheck(self.tau, h),
            radius,
            radius * min(longest, HELD_LEAST * radius),
            longest,
            (-1.0, 1.0),
            (-reach, reach),
        )
        return Values("coefficients", LossRows(start.P, start.eta), within, self.keep, self.label(""))


def _density(tau: float) -> float:
    """Return the standard normal density at the tau-quantile."""
    z = float(ndtri(tau))
    return float(np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi))
