"""Logistic regression by objective perturbation on whitened rows; one Newton step removes the bias of the ridge.

The perturbed loss is the sum of the rows' losses, a random linear term, and a ridge penalty centred at an earlier
estimate. Rows are whitened with earlier releases: the predictors are replaced by linear combinations with a
second-moment matrix near the identity. Rows of large norm have lower weights, so that a row's score (gradient of its
loss) has a bounded norm. The release of the minimiser of the perturbed loss therefore satisfies eps-differential
privacy. The bias due to the penalty is removed by means of a released Hessian.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from privstats.errors import OptionError
from privstats.estimators.base import PURE, Noises, PublicFacts, check_split, check_switch, check_tail, entry_sd, sd_of
from privstats.estimators.constants import ETA_SIGNAL, HELD_LEAST, HESSIAN_NOISE, HESSIAN_WITHIN, NARROWEST, PLACES
from privstats.estimators.histogram import Clip, Lengths, Tail, edges, shortest_clip
from privstats.estimators.likelihood import LikelihoodStep, effective_share, few_outcomes, rough_fit
from privstats.estimators.marginal_effects import QUESTION, SHARE, check_margins, with_marginal_effects
from privstats.estimators.one_step import Doubts, Hessian, LastRelease, Pilot, Step
from privstats.estimators.preconditioner import Start
from privstats.gate.questions import Ask, Sum, Values
from privstats.inference.estimate import Allowance, Estimate
from privstats.inference.matrix import NoisyMatrix, noise_edge
from privstats.inference.meat import Meat
from privstats.losses.convex import Logistic, RowLoss
from privstats.losses.families import Logit
from privstats.losses.psi import Likelihood, LossRows, MallowsRows
from privstats.losses.rows import Linear
from privstats.mechanisms.objective.perturbation import ObjectivePerturbation
from privstats.numerics.law import FloatArray
from privstats.sets.cells import Shells
from privstats.sets.vectors import Products
from privstats.sets.weighted_losses import WeightedLosses

SHARES = {
    "units": 0.02, "scales": 0.05, "scales of the offset": 0.02, "levels": 0.14,
    "rare values": 0.10, "scales again": 0.06,
    "coarse matrix": 0.09, "second matrix": 0.07, "leverages": 0.04,
    "coefficients": 0.66, "hessian": 0.12, "meat": 0.04, QUESTION: SHARE,
}  # fmt: skip
# Largest root mean square change of the linear predictor by the step that removes the bias due to the ridge. Along a
# longer step, the Fisher information of rows with rare outcomes changes so much that synthetic rows cannot predict it.
LONGEST_CORRECTED = 1.0


@dataclass(frozen=True)
class PerturbedLikelihood:
    """Estimator of a logistic regression by objective perturbation.

    Parameters
    ----------
    noises : Noises
        Noise mechanisms of all queries other than the query for the coefficients.
    loss : Likelihood
        Negative log-likelihood of the model.
    split : float
        Share of the coefficients' budget for the random linear term of the loss; the remaining share is for the
        ridge penalty.
    tail : {"usual", "cautious"}
        Assumption about the number of rows with large norms, used where noise exceeds the counts of the released
        histogram of row norms. "cautious" assumes a larger number than "usual", and also a larger clipping bias,
        because the clipped parts of all rows may affect the same coefficient.
    margins : bool
        Whether average marginal effects are also released.
    cov_type : str
        "HC" (any variance of the response) or "nonrobust" (the response's variance is the family's variance function).
    hessian : float, optional
        Budget share of the Hessian (see `hessian_share`). The budget shares of the Hessian and of the coefficients have
        a fixed sum, so a larger share of the Hessian leaves a smaller share for the coefficients.
    """

    noises: Noises = PURE
    loss: Likelihood = field(default_factory=lambda: Likelihood(Logit()))
    split: float = 0.96
    tail: str = "usual"
    margins: bool = False
    cov_type: str = "HC"
    hessian: float | None = None

    def __post_init__(self) -> None:
        check_tail(self.tail)
        check_switch("margins", self.margins)
        check_split(self.split)
        if not isinstance(self.loss.family, Logit):
            family = self.loss.family
            raise OptionError(
                f"mech='objpert' has no bound for the scores of the {family.name} family with {family.link} link; add "
                "delta=1e-6, or give mu= in place of eps"
            )

    @property
    def shares(self) -> Mapping[str, float]:
        hessian = self.hessian or SHARES["hessian"]
        return {**SHARES, "hessian": hessian, "coefficients": SHARES["coefficients"] + SHARES["hessian"] - hessian}

    def __call__(self, ask: Ask, public: PublicFacts) -> Estimate:
        design, by = public.design, self.noises
        loss = self.loss.in_units(design.response_center, design.response_half)
        if self.margins:
            check_margins(public)
        problem = rough_fit(ask, by, public, loss, share_of=("coefficients",))
        problem = problem.assuming(self.tail, self.cov_type, "rows")
        fit = TiltedLikelihood.of(problem, loss=loss, mechanism=ObjectivePerturbation(self.split))
        estimate = fit.equation(more=self.margins).solve(design.names)
        if self.margins:
            return with_marginal_effects(ask, by, design, loss.family, problem.levels, estimate)
        return estimate


def hessian_share(noise: float) -> float:
    """Return the share of the budget of a fit that is spent on the release of its Hessian.

    If the noise of the released Hessian exceeds its smallest eigenvalue, some coefficients are not reported, even if
    the minimiser is precise. The share therefore increases with `noise`, within the limits `HESSIAN_WITHIN`.

    Parameters
    ----------
    noise : float
        Forecast of the relative noise of second moments, if they are released with the whole budget: ``sqrt(k) s / n``
        for n rows of k standardised numbers, with s the noise sd of an off-diagonal entry of the second moments.
    """
    return float(np.clip(noise / HESSIAN_NOISE, *HESSIAN_WITHIN))


def best_radius(
    lengths: Lengths, noise: float, variance: float, size: float, m: int, tail: Tail, unseen: float = 0.0
) -> Clip:
    """Return the radius (limit on the norm of a row) that gives the shortest confidence interval.

    A row with a larger norm gets a weight below 1, such that the weighted norm is at most the radius. The length of
    the interval includes the bound on the bias that the weights cause.

    Parameters
    ----------
    lengths : Lengths
        Histogram of the norms of whitened rows.
    noise : float
        Noise sd of a coordinate of the sum of scores at radius 1. In objective perturbation, the noise is the random
        linear term.
    variance : float
        Sampling variance of a coordinate of the score.
    size : float
        Mean of |psi|, where psi is minus the derivative of a row's loss with respect to the linear predictor. If the
        norm of a row exceeds the radius, the row's weight reduces the norm of its score, on average, by `size` times
        (row norm - radius).
    m : int
        Number of coordinates of a row or score.
    tail : Tail
        Assumption on the tail of the distribution of row norms.
    unseen : float
        Sum of the squared norms of rows that the histogram does not show, because noise exceeds their counts. All of
        these rows may affect the same coordinate.
    """
    p = lengths.lengths
    tried = p[p >= min(m**0.5, p[-2])]
    excess = lengths.taken(tried, m, tail, size=size) + size * lengths.unseen_excess(tried, unseen)
    return shortest_clip(tried, np.full(len(tried), variance), excess, noise)


@dataclass(frozen=True, eq=False)
class WeightedHessian(Hessian):
    """The released Hessian of the rows' weighted losses, with the limits that determine the weights.

    Parameters
    ----------
    ridge_free : Start
        Coefficients at which the Hessian is released: the perturbed loss's minimiser minus its approximate ridge bias.
    within : WeightedLosses
        Limits on a row's score and loss curvature. The weight w of a row with whitened predictors x is lowered until
        ``w |x|`` is at most ``within.radius`` and ``w |x|^2`` is at most ``within.curvature``.
    """

    ridge_free: Start
    within: WeightedLosses


@dataclass(frozen=True, eq=False)
class Unridged(LastRelease):
    """The released minimiser of a perturbed loss, with coefficients that are corrected for the bias due to the ridge.

    Parameters
    ----------
    ridge_free : Start
        The minimiser minus its approximate bias due to the ridge.
    """

    ridge_free: Start = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class TiltedLikelihood(LikelihoodStep):
    """One-step fit of a logistic regression, which starts from the released minimiser of a perturbed loss.

    Parameters
    ----------
    mechanism : ObjectivePerturbation
        Mechanism that releases the minimiser of a perturbed loss.
    """

    mechanism: ObjectivePerturbation = field(kw_only=True)

    def spread(self, at: Start) -> float:
        """Return the mean Fisher information of synthetic rows about their linear predictors, at coefficients `at`."""
        return float(self.information(at).mean())

    def pilot(self) -> Pilot:
        return Pilot(self.start)

    # stage 2: the norms of rows, and the weights of rows with a large norm
    def lengths(self, w: Start) -> Lengths:
        """Release the histogram of the Euclidean norms of the whitened rows."""
        m, start = self.m, self.start
        shells = Shells(m, edges(m**0.5 / 2, max(start.longest, m**0.5)))
        question = Sum("leverages", Linear(start.P), within=shells, keep=self.keep)
        return Lengths.released(self.ask, self.by, question, self.total(self.rows), self.tail)

    def clip(self, pilot: Pilot, w: Start, lengths: Lengths) -> Clip:
        spread = self.spread(self.start)
        law = self.ask.law(self.question(self.within(1.0)), by=self.mechanism)
        return best_radius(lengths, sd_of(law), self.rows * spread, 2 * spread, self.m, self.tail)

    def within(self, radius: float) -> WeightedLosses:
        start, unit = self.start, self.loss.half
        reach = float(np.abs(start.theta).sum()) + float(np.abs(self.box.design.offset_bounds).max(initial=0.0))
        longest = max(start.longest, radius)
        limit = min(longest, HELD_LEAST * radius)
        return WeightedLosses(
            self.m, self.row_loss, radius, radius * limit, longest, (0.0, unit), (-reach - 1.0, reach + 1.0)
        )

    @property
    def row_loss(self) -> RowLoss:
        return Logistic()

    def question(self, within: WeightedLosses) -> Values:
        rows = LossRows(self.start.P, self.start.eta, self.loss.center, self.loss.half)
        return Values("coefficients", rows, within=within, keep=self.keep)

    # stage 3: the minimiser, at which the sum of scores equals the gradient of the ridge plus the random linear term
    def last(self, w: Start, clip: Clip) -> Unridged:
        """Release the minimiser of the perturbed loss, and return it with the noisy sum of scores at the minimiser.

        This noisy sum equals the gradient of the ridge penalty at the minimiser, so it needs no further release. The
        bias due to the ridge is removed approximately by one Newton step of limited length, the ridge step, computed
        with the Fisher information of synthetic rows. The last step of the fit also starts at the minimiser. It is
        computed with the Hessian at the end of the ridge step, but the information changes along the ridge step. The
        score is therefore multiplied by ``A B^-1``, where A is the information of the synthetic rows at the end of the
        ridge step, and B the mean of the information at its start and its end. The noise is not multiplied by ``A
        B^-1``. The reason is that the correction depends on the released minimiser. A change d of the random linear
        term therefore moves the corrected coefficients by the inverse of the Hessian at the end of the ridge step times
        d, and a change d of the sum of scores has the same effect.
        """
        within = self.within(clip.radius)
        drawn = self.ask(self.question(within), by=self.mechanism)
        last = LastRelease.of_minimiser(drawn, clip.radius, self.start)
        step = self.ridge_step(last, self.synthetic.rows, last.ridge)
        step = step * min(1.0, ETA_SIGNAL / max(float(np.linalg.norm(step)), 1e-9))
        end, rows = last.at.moved(step), self.weighted(np.eye(self.m), within, 0.5)
        first, final = (
            (rows * self.information(at)[:, None]).T @ rows * (self.rows / len(rows)) for at in (last.at, end)
        )
        mean = (first + final) / 2
        bent = np.eye(self.m) + (final - mean) @ np.linalg.pinv(mean, rcond=NARROWEST, hermitian=True)
        return Unridged(bent @ last.value, last.noise, last.sd, last.radius, last.at, last.ridge, ridge_free=end)

    # stage 4: the Hessian and the score variance, at the end of the step that removes the bias due to the ridge
    def hessian(self, pilot: Pilot, w: Start, clip: Clip, last: LastRelease) -> Hessian:
        """Release the Hessian of the rows' weighted losses at the minimiser minus its approximate bias.

        The bias is due to the ridge, and the corrected coefficients are ``last.ridge_free``. The predictors are
        whitened by the Fisher information of synthetic rows at these coefficients.
        """
        assert isinstance(last, Unridged)
        within, at = self.within(clip.radius), last.ridge_free
        metric = self.whitened_at(at)
        rows = self.weighted(metric, within, 0.5) * np.sqrt(self.information(at))[:, None]
        matrix = self.clipped_hessian(self.products("hessian", at, metric, within, squared=True), rows)
        return WeightedHessian(matrix, last.at.to_theta @ metric, metric, self.rows, at, within)

    def meat(self, pilot: Pilot, clip: Clip, last: LastRelease, hessian: WeightedHessian) -> Meat:
        matrix = hessian.matrix
        meat = self.products_of_scores(hessian.ridge_free, hessian.back, hessian.within) if self.robust else matrix
        expected = matrix.nearest_positive(1e-3 * self.rows)
        if self.most_rows > 1:  # `expected` assumes independent rows, but the rows of a privacy unit may be dependent
            expected = expected * max(float(np.trace(meat.value)) / float(np.trace(expected)), 1.0)
        return Meat(meat.shrunk(expected), self.freedom)

    def products_of_scores(self, at: Start, metric: FloatArray, within: WeightedLosses) -> NoisyMatrix:
        """Release the sum of s s' over rows' weighted scores s, and correct the sum for clipping of the scores.

        The sum is the middle factor (meat) of the sandwich covariance. The scores are computed at the coefficients
        `at`, for predictors whitened by the matrix `metric`. The limits on a row's score and loss curvature in `within`
        determine the rows' weights. Clipping the scores to a smaller norm lowers the noise, but also reduces the sum.
        The expected reduction is computed under the model, from synthetic rows. The clipping radius minimises the total
        of noise and expected reduction, and the expected reduction is added to the released sum.
        """
        m, family = self.m, self.loss.family
        question = self.products("meat", at, metric, within, squared=False)
        eta, rows = self.eta(at), self.weighted(metric, within)
        y, p = family.responses(eta)
        # `many`: mean number of rows of a privacy unit; their scores are assumed to be equal, so that the norm of the
        # sum of their scores is `many` times the norm of one score
        many = self.mean_rows
        squared = many**2 * (rows**2).sum(axis=1)[:, None] * family.psi(eta[:, None], y[None]) ** 2
        tried = np.geomspace(min(HELD_LEAST * m * many**2, 0.5 * squared.max()), squared.max(), PLACES)
        n, noise = self.rows / many, noise_edge(m, entry_sd(self.ask, question, self.by))
        cut = [n / m * float((p * np.maximum(squared - t, 0.0)).sum(axis=1).mean()) for t in tried]
        best = float(tried[int(np.argmin(noise * tried + cut))])
        released = NoisyMatrix.of(self.ask(question.inside(best**0.5), by=self.by.matrix))
        off = (p * np.maximum(squared - best, 0.0)).sum(axis=1) / np.maximum((rows**2).sum(axis=1), 1e-300)
        return released.plus(n / len(rows) * (rows * off[:, None]).T @ rows)

    def weighted(self, metric: FloatArray, within: WeightedLosses, power: float = 1.0) -> FloatArray:
        """Return weighted rows ``w ** power * x @ metric``, shape (k, m), for k synthetic whitened rows x.

        The weight w of a row is the largest number up to 1 with both ``w |x| <= within.radius`` and
        ``w |x|^2 <= within.curvature``. The matrix `metric` maps x to m predictors that are whitened again.
        """
        length = np.maximum(np.linalg.norm(self.synthetic.rows, axis=1), 1e-300)
        weight = np.minimum(1.0, np.minimum(within.radius / length, within.curvature / length**2))
        return np.asarray(self.synthetic.rows @ metric * weight[:, None] ** power, dtype=float)

    def products(self, name: str, at: Start, metric: FloatArray, within: WeightedLosses, squared: bool) -> Sum:
        """Return the query for the Hessian or, if `squared` is False, for the sum of s s' over the scores s of rows.

        Hessian and scores are computed from weighted losses at the coefficients `at`, for predictors whitened by the
        matrix `metric`. The limits on a row's score and loss curvature in `within` determine the rows' weights. `name`
        is the name of the budget share.
        """
        P = self.start.P
        rows = MallowsRows(self.loss, P, P @ metric, at.eta, within.radius, within.curvature, squared)
        return Sum(name, rows, within=Products(self.m), keep=self.keep, folded=not squared)

    def doubts(self, step: Step) -> Doubts:
        """Return the score's variance, enlarged by the noise of the Hessian, and the coefficients not to report.

        The added term is the expected covariance of N e, where N is the noise of the Hessian and e the estimation
        error of the coefficients. A coefficient is not reported if too few rows determine it, or if the step that
        removes the bias due to the ridge changes the linear predictor by more than `LONGEST_CORRECTED` (root mean
        square). The error due to the curvature of scores along this step is corrected by means of synthetic rows
        (method `last`); the bound on the bias of the coefficients allows for a remaining error of the same size.
        """
        hessian, names, last = step.hessian.matrix, self.box.design.names, step.last
        to_coefficients, eta = self.functions @ step.hessian.to_theta, self.eta(last.at)
        weighted = self.weighted(step.hessian.back, step.hessian.within)
        of = weighted @ step.inverse @ to_coefficients.T
        moves, curvature_bias = self.bend(eta, self.eta(step.hessian.ridge_free) - eta, of)
        far = self.worst(moves / LONGEST_CORRECTED, least=False)
        through = float(np.trace(step.inverse @ step.spread @ step.inverse)) / self.m
        share = effective_share(
            self.loss.family,
            self.eta(step.hessian.ridge_free),
            self.synthetic.rows @ step.hessian.back,
            step.inverse,
            step.spread,
            to_coefficients,
        )
        too_few, notes = few_outcomes(names, self.rows * self.worst(share, least=True), self.levels)
        return Doubts(
            remaining=float(np.linalg.norm(step.step)),
            meat=replace(step.meat, value=step.meat.value + through * hessian.mean_square()),
            moved=(Allowance(self.to_scaled * curvature_bias[: self.box.c], 1.0),),
            not_given=self.to_scaled[:, too_few | (far > 1)],
            notes=(*self.far_step(far), *notes),
        )
