"""Regression of counts and gamma responses by the minimiser of a perturbed loss with clipped scores.

The perturbed loss has three summands: the rows' losses, changed so that their scores are clipped; a ridge penalty; and
a random linear term. The minimiser has no error due to the noise of a Hessian, because a Hessian is released only for
inference and to remove the bias due to the ridge. The starting coefficients (`rough_fit`) are the same as for Newton
steps. Stage 1 improves the starting coefficients by one step, stage 2 releases a histogram of score norms, stage 3
releases the minimiser, and stage 4 releases the Hessian and squared scores.

Let theta be the minimiser, A the Hessian at theta, G the gradient of the ridge penalty at theta, and b the coefficient
vector of the linear term. Let E be the part of the sum of the scores at theta that is removed by clipping and by the
limit on the curvature of losses. To first order, the sum of the unclipped scores is zero at
``theta + A^-1 (E + G + b)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from scipy.special import gammaincinv

from privstats.errors import OptionError
from privstats.estimators.base import PURE, Noises, PublicFacts, check_switch, check_tail, sd_of
from privstats.estimators.constants import (
    ALONG_SEEN,
    BOUNDED_TILT,
    ETA_SIGNAL,
    FAR_PSI,
    FIRST_LEAST,
    MATRIX_NOISE,
    PLACES,
    SQUARES_NOISE,
)
from privstats.estimators.histogram import Clip, Lengths, shortest_clip
from privstats.estimators.likelihood import LikelihoodStep, effective_share, few_outcomes, rough_fit
from privstats.estimators.marginal_effects import QUESTION, SHARE, check_margins, with_marginal_effects
from privstats.estimators.one_step import Doubts, Hessian, LastRelease, Pilot, Step
from privstats.estimators.preconditioner import Start, roots
from privstats.estimators.ridges import curvature_of, of_shortest
from privstats.gate.questions import Ask, Sum, Values
from privstats.inference.estimate import Estimate, EstimatingEquation
from privstats.inference.meat import Meat
from privstats.inference.notes import Note, note
from privstats.losses.clipped_likelihood import ClippedLikelihoodRows, ClippedLikelihoodScores, bounded
from privstats.losses.convex import ClippedExponential
from privstats.losses.families import LogLink, Poisson
from privstats.losses.psi import Likelihood
from privstats.losses.rows import HessianRows
from privstats.mechanisms.objective.perturbation import ObjectivePerturbation, TiltLaw
from privstats.numerics.law import FloatArray
from privstats.sets.vectors import Ball, Products
from privstats.sets.weighted_losses import WeightedLosses

SHARES = {
    "units": 0.02, "scales": 0.05, "scales of the offset": 0.02, "levels": 0.14,
    "rare values": 0.10, "scales again": 0.06,
    "coarse matrix": 0.09, "second matrix": 0.07, "first step": 0.05, "score sizes": 0.12,
    "coefficients": 0.60, "hessian": 0.20, "squares of scores": 0.04, QUESTION: SHARE,
}  # fmt: skip
# Notation: psi is minus the derivative of the loss of a response y with respect to the linear predictor eta; c is the
# threshold at which psi is clipped.
FARTHEST_PSI = 2.0**10  # largest threshold at which psi is clipped for gamma responses
FARTHEST_ETA = 300.0  # upper limit of |eta - log c|; for gamma responses, of |log(y / c) - eta|
DISPERSIONS = 1e-6, 100.0  # limits of the dispersion from which the clipping of a gamma model's Hessian is predicted
STRATA = 8  # number of quantiles that represent the distribution of a gamma response
LARGEST_RESPONSE = 2.0**40  # upper limit of the ratio y / c of a response y and the threshold c of psi


@dataclass(frozen=True)
class PerturbedLogLink:
    """Estimator for counts or gamma responses by objective perturbation of the likelihood.

    Parameters
    ----------
    noises : Noises
        Noise mechanisms of all releases except the coefficients, which objective perturbation releases.
    loss : Likelihood
        Negative log-likelihood of the model.
    tail : {"usual", "cautious"}
        Assumption about the number of scores with large norms. The released histogram of score norms shows this number
        only if it exceeds the histogram's noise. "cautious" assumes a larger number than "usual", and also a larger
        clipping bias: the clipped parts of all scores may add up in one coefficient.
    margins : bool
        Whether average marginal effects are also released.
    cov_type : str
        "HC" (any variance of the response) or "nonrobust" (the response's variance is the family's variance function).
    shares : mapping of str to float
        Default budget shares, by name of the query.
    """

    noises: Noises = PURE
    loss: Likelihood = field(default_factory=lambda: Likelihood(Poisson()))
    tail: str = "usual"
    margins: bool = False
    cov_type: str = "HC"
    shares: Mapping[str, float] = field(default_factory=lambda: dict(SHARES))

    def __post_init__(self) -> None:
        check_tail(self.tail)
        check_switch("margins", self.margins)
        family = self.loss.family
        if not isinstance(family, LogLink):
            raise OptionError(
                f"mech='objpert' has no bound for the scores of the {family.name} family; write mech='newton'"
            )

    def __call__(self, ask: Ask, public: PublicFacts) -> Estimate:
        design, by = public.design, self.noises
        loss = self.loss.in_units(design.response_center, design.response_half)
        if self.margins:
            check_margins(public)
        problem = rough_fit(ask, by, public, loss, ("coefficients",))
        problem = problem.assuming(self.tail, self.cov_type, "counted")
        estimate = TiltedLogLink.of(problem, loss=loss).equation(more=self.margins).solve(design.names)
        if self.margins:
            return with_marginal_effects(ask, by, design, loss.family, problem.levels, estimate)
        return estimate


@dataclass(frozen=True, eq=False)
class HessianAt(Hessian):
    """A released Hessian, and the coefficients at which it was released.

    Parameters
    ----------
    at : Start
        Coefficients at which the Hessian was released.
    """

    at: Start


@dataclass(frozen=True, eq=False)
class TiltedLogLink(LikelihoodStep):
    """Fit of a model for counts or gamma responses, with a log link, by minimising a perturbed loss.

    The stages are: a first step from the starting coefficients; a released histogram of score norms, from which the
    clipping threshold is chosen; the released minimiser; and the released Hessian and squared scores.
    """

    @property
    def mechanism(self) -> ObjectivePerturbation:
        return ObjectivePerturbation(BOUNDED_TILT)

    def metric(self, pilot: Pilot) -> FloatArray:
        """Return the matrix that whitens the predictors at the coefficients of `pilot`.

        The second moments that become the identity are weighted by the rows' Fisher information (see `whitened_at`).
        """
        return self.whitened_at(pilot.start)

    def rows_in(self, w: Start) -> FloatArray:
        """Return synthetic rows with values of the m predictors whitened by the matrix ``w.W``, shape (rows, m).

        The rows are simulated from released moments of the predictors.
        """
        return self.synthetic.rows @ np.linalg.lstsq(self.start.W, w.W, rcond=None)[0]

    # stage 1: a first step from the starting coefficients
    def pilot(self) -> Pilot:
        """Return the starting coefficients, corrected by a Newton step computed from a released sum of clipped scores.

        The starting coefficients are from least squares on a transformed response, and are biased if responses do not
        follow the family. The ridge penalty of the perturbed loss, which is zero at the returned coefficients, would
        preserve a part of this bias. A large bias enlarges most scores. The clipping threshold is therefore the
        largest one, within limits, at which the noise of the mean score is at most `MATRIX_NOISE`.

        The Newton step is multiplied by two factors:

        - the share of the squared norm of the released sum that is not due to noise;
        - ``max(1, log(1 + c)) / c``, if the linear predictor would otherwise change by c > 1 (root mean square). The
          reason is the log link: if the fitted means are too small by a factor 1 + c, the correct change is
          log(1 + c), but the Newton step's change is c.
        """
        metric, m = self.metric(Pilot(self.start)), self.m
        w = self.start.remapped(metric)
        question = Sum("first step", w.scores, Ball(m), self.keep)
        unit = m**0.5 * sd_of(self.ask.law(question, by=self.by.vector)) / self.rows
        radius = float(np.clip(MATRIX_NOISE / unit, FIRST_LEAST * m**0.5, FAR_PSI * m**0.5))
        released = self.ask(question.inside(radius), by=self.by.vector)
        noise, squared = m * sd_of(released.law) ** 2, float(released.value @ released.value)
        step = released.value / self.rows * max(1 - noise / max(squared, 1e-300), 0.0)
        change = max(self.change(w, step), 1e-9)
        return Pilot(self.start.moved(metric @ step * (max(min(1.0, change), float(np.log1p(change))) / change)))

    def change(self, w: Start, step: FloatArray) -> float:
        """Return the root mean square change of linear predictors that a step of the coefficients causes.

        The mean is over synthetic rows, which are simulated from released moments. The coefficients belong to the
        predictors whitened by the matrix ``w.W``.
        """
        return float(((self.rows_in(w) @ step) ** 2).mean()) ** 0.5

    # stage 2: the clipping threshold of scores
    @property
    def farthest(self) -> float:
        """Upper limit of the rows' clipping thresholds for psi.

        Here psi is minus the derivative of a row's loss with respect to the linear predictor. Each row has its own
        threshold, which depends on its norm.
        """
        return FARTHEST_PSI if self.dispersed else 2 * self.loss.largest(0.0)

    def coefficients(self, w: Start, radius: float, curvature: float) -> Values:
        """Return the query for the minimiser of the perturbed loss, minus the starting coefficients ``w.theta``.

        Scores are clipped to the norm `radius`, and the curvature of each row's loss is at most `curvature`.
        """
        k, eta, y = self.farthest, (-FARTHEST_ETA, FARTHEST_ETA), (0.0, LARGEST_RESPONSE)
        within = WeightedLosses(w.m, ClippedExponential(k), radius / k, curvature / k, w.longest, y, eta)
        rows = ClippedLikelihoodRows(self.loss, w.P, w.eta, radius, curvature, k)
        return Values("coefficients", rows, within=within, keep=self.keep)

    def unit_law(self, w: Start) -> TiltLaw:
        """Return the law of the perturbed loss's random linear term, and the coefficient of its ridge penalty.

        The law and the coefficient are computed for scores of norm at most 1 and loss curvatures of at most 1.
        """
        law: TiltLaw = self.ask.law(self.coefficients(w, 1.0, 1.0), by=self.mechanism)
        return law

    def curved(self, w: Start, ridge: float) -> float:
        """Return the largest curvature of a row's loss for which a ridge of ``ridge * n`` suffices for privacy.

        Here n is the number of rows. The result is at least ``HELD_LEAST * m`` for m coefficients, even if privacy then
        requires a larger ridge.
        """
        return curvature_of(ridge, self.unit_law(w).ridge, w.m, self.rows)

    def clip(self, pilot: Pilot, w: Start, lengths: Lengths) -> Clip:
        """Return the clipping threshold of scores and the limit on loss curvatures that give the shortest intervals.

        The limit on the curvature of a row's loss also reduces the row's score. The bound on the bias due to both
        limits is a sum of two terms: a term computed from the released histogram of score norms, and the bias expected
        under the model, for synthetic rows. The second term is needed if the responses are small counts. The scores are
        then skewed, and the scores with large norms may be too few to exceed the histogram's noise.
        """
        tried, m, noise = lengths.from_least(w.m**0.5 / 2), w.m, sd_of(self.unit_law(w))

        def clip_at(curvature: float) -> Clip:
            left = self.left(w, lengths.lengths, tried, curvature)
            taken = lengths.taken(left, m, self.tail, ALONG_SEEN if self.dispersed else None)
            variance = (lengths.counts[:, None] * left**2).sum(axis=0) / m
            return shortest_clip(tried, variance, taken + self.length_of_expected_cut(w, tried, curvature), noise)

        return of_shortest(clip_at, partial(self.curved, w))

    def left(self, w: Start, sizes: FloatArray, radii: FloatArray, curvature: float) -> FloatArray:
        """Return the mean norms of scores after they are reduced by clipping and by the limit on loss curvatures.

        Entry (i, j) of the result is for scores with the original norm ``sizes[i]`` and the clipping radius
        ``radii[j]``. The entry is a mean over synthetic rows at the coefficients of `w`, because the effect of the
        limit `curvature` on the curvature of a row's loss depends on the norm of the row's predictors. Each row is
        weighted by its squared norm. If responses have heavy tails with a finite variance, the weight is approximately
        proportional to the row's frequency among scores with large norms.
        """
        rows, mean = self.rows_in(w), self.loss.family.mean(self.eta(w))
        squared = (rows**2).sum(axis=1)
        order = np.argsort(squared)
        part = np.cumsum(squared[order]) / squared.sum()
        some = order[np.searchsorted(part, (np.arange(PLACES) + 0.5) / PLACES)]
        squared = np.maximum(squared[some], 1e-300)
        length = np.sqrt(squared)
        psi = sizes[:, None] / length
        weight, most = bounded(squared, np.ones_like(psi) if self.dispersed else psi + mean[some], curvature)
        kept = weight * length * np.minimum(psi, most)
        left: FloatArray = np.minimum(kept[:, :, None], radii).mean(axis=1)
        return left

    def length_of_expected_cut(self, w: Start, radii: FloatArray, curvature: float) -> FloatArray:
        """Return the norm of the clipping bias expected under the model, at each of k clipping radii, shape (k,).

        The clipping bias is the sum, over rows, of the parts of scores that are removed by clipping and by the limit
        `curvature` on the curvature of losses. The bias is computed for synthetic rows, with responses that follow the
        model at the coefficients in `w`. The result is 0 if scores are not skewed, as for gamma responses and large
        counts.
        """
        rows, eta = self.rows_in(w), self.eta(w)
        y, p = self.loss.family.responses(eta)
        if not len(y):
            return np.zeros(len(radii))
        psi, squared = self.loss.family.psi(eta[:, None], y[None]), np.maximum((rows**2).sum(axis=1), 1e-300)[:, None]
        weight, c = bounded(squared, y[None], curvature)
        most = weight * np.minimum(np.abs(psi), c)
        size = np.maximum(squared**0.5 * np.abs(psi), 1e-300)
        tried = np.geomspace(radii.min(), max(size.max(), 2 * radii.min()), PLACES)
        whole, likely, length = (p * psi).sum(axis=1), p * np.sign(psi), squared**0.5
        kept = [np.einsum("ij,ij->i", likely, np.minimum(most, B / length)) for B in tried]
        off = [float(np.linalg.norm((whole - part) @ rows)) / len(rows) for part in kept]
        return self.sizes.scores * np.interp(radii, tried, off)

    # stage 3: the minimiser of the perturbed loss
    def last(self, w: Start, clip: Clip) -> LastRelease:
        """Release the minimiser of the perturbed loss, and return it with the noisy sum of clipped scores.

        The scores are computed at the minimiser. Their noisy sum needs no release of its own: it equals the gradient of
        the ridge penalty at the minimiser.
        """
        drawn = self.ask(self.coefficients(w, clip.radius, clip.curvature), by=self.mechanism)
        return LastRelease.of_minimiser(drawn, clip.radius, w)

    def halfway(self, last: LastRelease) -> Start:
        """Return the coefficients at which the Hessian is released.

        The result is the midpoint between the minimiser of the perturbed loss and this minimiser corrected for the bias
        of the ridge penalty. With the Hessian at the midpoint, a linear approximation of the score is more accurate. If
        the correction changes the linear predictor by more than `ETA_SIGNAL` (root mean square), a point nearer to the
        uncorrected minimiser is returned.
        """
        at = last.at
        step = self.ridge_step(last, self.rows_in(at), 0.0)
        return at.moved(step / 2 * min(1.0, ETA_SIGNAL / max(self.change(at, step), 1e-9)))

    # stage 4: the Hessian, and the variance of scores
    def observed_rows(self, at: Start, dispersion: float) -> FloatArray:
        """Return synthetic rows, each multiplied by the square root of its observed information at coefficients `at`.

        The observed information is minus the second derivative of a row's log-likelihood with respect to the linear
        predictor. For counts, the observed information is the expected count. For gamma responses, the observed
        information is the ratio of the response to its mean: each row is returned `STRATA` times, with the `STRATA`
        quantiles that represent the distribution of this ratio.
        """
        rows = self.rows_in(at) * np.sqrt(self.information(at))[:, None]
        if not self.dispersed:
            return rows
        shape = 1 / np.clip(dispersion, *DISPERSIONS)
        ratios = gammaincinv(shape, (np.arange(STRATA) + 0.5) / STRATA)
        return np.kron(np.sqrt(ratios / ratios.mean())[:, None], rows)

    def hessian(self, pilot: Pilot, w: Start, clip: Clip, last: LastRelease) -> HessianAt:
        """Release the Hessian of the negative log-likelihood of clipped rows, at the coefficients given by `halfway`.

        These coefficients lie between the minimiser of the perturbed loss and this minimiser corrected for the bias of
        the ridge penalty.
        """
        at = self.halfway(last)
        question = Sum("hessian", HessianRows(self.loss, at.P, at.eta), within=Products(self.m), keep=self.keep)
        matrix = self.clipped_hessian(question, self.observed_rows(at, clip.variance / self.sizes.scores))
        return HessianAt(matrix, last.at.to_theta, np.eye(self.m), self.rows, at)

    def meat(self, pilot: Pilot, clip: Clip, last: LastRelease, hessian: HessianAt) -> Meat:
        """Return the score's variance matrix, computed from released sums of squares of whitened score coordinates.

        Scores are whitened by the released Hessian, with small eigenvalues raised. The whitened coordinates are
        assumed to be uncorrelated, as under a correct model. For counts with ``cov_type="nonrobust"``, no squares are
        released, and the result is proportional to the Hessian with raised eigenvalues.
        """
        at, level = hessian.at, max(clip.variance, SQUARES_NOISE * self.rows)
        values, V, least = hessian.matrix.eigen
        raised = np.maximum(values, least)
        back, T = roots((V * (raised / raised.mean())) @ V.T)
        if not (self.robust or self.dispersed):
            return Meat(level * np.eye(self.m), self.freedom).mapped(back)
        of = ClippedLikelihoodScores(self.loss, at.P, at.eta, clip.radius, clip.curvature, self.farthest, at.P @ T)
        return self.meat_of_squares(of, clip, last, level).mapped(back)

    def without_hidden_levels(self, equation: EstimatingEquation) -> tuple[EstimatingEquation, tuple[Note, ...]]:
        """Return the estimating equation unchanged, with an empty tuple of notes.

        The constant of a factor level is a parameter, added to the linear predictor of all rows at the level. Newton
        fits remove the constant from the equation if the noise of the Hessian exceeds the information about the
        constant. Here no constant is removed, because removal made the coverage of intervals too low with a few hundred
        rows.
        """
        return equation, ()

    def doubts(self, step: Step) -> Doubts:
        """Return the norm of the last step, and the coefficients that are not reported, with the reasons.

        A coefficient is not reported if too few rows determine it (`few_outcomes`). No coefficient is reported if one
        of two steps changes the linear predictor by more than the family's limit `farthest_step` (root mean square):
        the step from the coefficients of `pilot` to the minimiser, or the step that removes the bias of the ridge. A
        linear approximation of the estimating equation is then too inaccurate.
        """
        names, at = self.box.design.names, step.hessian.at
        through = self.functions @ step.hessian.to_theta
        share = effective_share(self.loss.family, self.eta(at), self.rows_in(at), step.inverse, step.spread, through)
        too_few, few_notes = few_outcomes(names, self.rows * self.worst(share, least=True), self.levels)
        last = step.last
        length = max(self.change(last.at, step.step), self.change(last.at, last.value / last.ridge))
        far = length / self.loss.family.farthest_step
        return Doubts(
            remaining=float(np.linalg.norm(step.step)),
            not_given=self.to_scaled[:, too_few | (far > 1)],
            notes=(
                *((note("far step", names, size=far),) if far > 1 else ()),
                *few_notes,
                *self.far_response(at, step.clip),
            ),
            facts={"last_step": length},
        )
