"""Generalised linear models, fitted with Newton steps on clipped scores.

Predictors are whitened: a matrix maps them to predictors whose Fisher information matrix is about the identity. This
matrix is computed from synthetic rows, which are simulated from released moments of the predictors. The score of a row
with whitened predictors w and Pearson residual p is ``w p``. Scores are clipped if their norm ``|w| |p|`` exceeds a
limit. A row with high leverage |w| and a small residual is therefore not clipped. Intervals allow for the clipping bias
of the final score.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from privstats.estimators.base import NORMAL, Noises, PublicFacts, check_switch, check_tail, entry_sd, sd_of
from privstats.estimators.beginning import begun_about, offset_of, scales_of
from privstats.estimators.constants import (
    ALONG_SEEN,
    BURN_IN,
    BURN_IN_EXCESS,
    CURVATURES,
    CUT_WEIGHT,
    ETA_SIGNAL,
    EVERY_SYNTHETIC,
    FAR_BOUNDS,
    FAR_PSI,
    FEW_OUTCOMES,
    HELD_LEAST,
    MATRIX_NOISE,
    NARROWEST,
    PLACES,
    READ_IF_HELD,
    TWO_ENDED,
    UNUSUAL,
    VISIBLE,
)
from privstats.estimators.frame import PublicBox
from privstats.estimators.histogram import TAILS, Clip, Lengths, edges, shortest_clip
from privstats.estimators.levels import UNSEEN, KeptLevels, LevelConstant, held_level, level_constants
from privstats.estimators.marginal_effects import QUESTION, SHARE, check_margins, with_marginal_effects
from privstats.estimators.one_step import Doubts, Hessian, LastRelease, OneStep, Pilot, Problem, Step
from privstats.estimators.preconditioner import Start
from privstats.estimators.synthetic import whitening
from privstats.estimators.transformed import TransformedAsk, TransformedBox
from privstats.gate.questions import Ask, Sum
from privstats.inference.estimate import Allowance, Estimate, EstimatingEquation
from privstats.inference.matrix import NoisyMatrix, noise_edge
from privstats.inference.meat import Meat
from privstats.inference.noise import total_covariance
from privstats.inference.notes import Note, note
from privstats.losses.families import Binary, Family, Gamma, Logit, LogLink
from privstats.losses.psi import Likelihood
from privstats.numerics.law import FloatArray
from privstats.sets.cells import Shells
from privstats.sets.vectors import Ball, Products

# OF_BINARY: budget share of the histogram of leverages in binary models. From this histogram, a fit also computes the
# sum of the squared norms of scores that noise hides in the histogram of score norms.
OF_BINARY = 0.05
# Limits in `ridge_step`: the largest number of iterations, and the relative change of the step that ends iteration.
ROUNDS, CONVERGED = 20, 1e-3

SHARES: Mapping[str, dict[str, float]] = {
    "normal": {
        "units": 0.02, "scales": 0.03, "scales of the offset": 0.01, "levels": 0.14,
        "rare values": 0.10, "scales again": 0.05,
        "coarse matrix": 0.07, "second matrix": 0.05,
        "first step": 0.06, "second step": 0.07, "step sizes": 0.035, "score sizes": 0.06, "score": 0.53,
        "leverages": 0.02, "hessian": 0.12, "meat": 0.10,
    },
    "pure": {
        "units": 0.02, "scales": 0.05, "scales of the offset": 0.02, "levels": 0.14,
        "rare values": 0.10, "scales again": 0.06,
        "coarse matrix": 0.09, "second matrix": 0.07,
        "first step": 0.09, "second step": 0.10, "step sizes": 0.08, "score sizes": 0.08, "score": 0.32,
        "leverages": 0.03, "hessian": 0.14, "meat": 0.05,
    },
}  # fmt: skip


@dataclass(frozen=True)
class LikelihoodSteps:
    """Estimator that fits a generalised linear model by Newton steps.

    Parameters
    ----------
    noises : Noises
        Noise mechanisms, one for each kind of query.
    loss : Likelihood
        Negative log-likelihood of the family, with the upper bound of the response.
    tail : {"usual", "cautious"}
        Assumption about the number of scores with large norms. The released histogram of score norms does not show
        this number if it is smaller than the noise. "cautious" assumes a larger number than "usual". It also assumes a
        larger clipping bias, namely that of the worst case, in which all clipped scores affect the same coefficient.
    margins : bool
        Whether average marginal effects are also released.
    cov_type : str
        "HC" (any variance of the response) or "nonrobust" (the response's variance is the family's variance function).
    """

    noises: Noises = NORMAL
    loss: Likelihood = field(default_factory=lambda: Likelihood(Logit()))
    tail: str = "usual"
    margins: bool = False
    cov_type: str = "HC"

    def __post_init__(self) -> None:
        check_tail(self.tail)
        check_switch("margins", self.margins)

    @property
    def shares(self) -> Mapping[str, float]:
        shares = {**SHARES[self.noises.shares], QUESTION: SHARE}
        if not isinstance(self.loss.family, Binary):
            return shares
        hessian = round(shares["hessian"] + shares["leverages"] - OF_BINARY, 10)
        return {**shares, "leverages": OF_BINARY, "hessian": hessian}

    @property
    def most_first_noise(self) -> float:
        """Largest relative noise of the first released second moments ("coarse matrix") at which Newton steps converge.

        The relative noise is ``sqrt(c) s / n`` for n rows x of c columns with variance 1, where s is the noise sd of an
        off-diagonal entry of the released sum of x x'. The largest eigenvalue of the noise is about ``2 sqrt(c) s``, so
        the relative noise is this eigenvalue divided by 2 n.
        """
        return MATRIX_NOISE

    def __call__(self, ask: Ask, public: PublicFacts) -> Estimate:
        design, by = public.design, self.noises
        loss = self.loss.in_units(design.response_center, design.response_half)
        if self.margins:
            check_margins(public)
        problem = rough_fit(ask, by, public, loss, ("score",))
        # gamma responses (amounts such as prices) have heavy tails, so their scores are not assumed to be bounded
        heavy = isinstance(loss.family, Gamma)
        problem = problem.assuming(self.tail, self.cov_type, "usual" if heavy else "bounded")
        estimate = NewtonSteps.of(problem, loss=loss).equation(more=self.margins).solve(design.names)
        if self.margins:
            return with_marginal_effects(ask, by, design, loss.family, problem.levels, estimate)
        return problem.given(estimate)


def rough_fit(ask: Ask, by: Noises, public: PublicFacts, loss: Likelihood, share_of: tuple[str, ...]) -> Problem:
    """Make the first releases of a likelihood fit, and return its estimation problem with starting coefficients.

    The first releases are scales of columns, numbers of rows at factor levels, and second moments. Queries about the
    response use its transformed values, such as the logarithm of a count. The starting coefficients are computed from
    these releases (`started`). Optional queries, such as the query for the numbers of rows at factor levels, take a
    part of the budget share of the main queries, whose labels are in `share_of`.
    """
    box = TransformedBox(public.design, loss.transformed_half, isinstance(loss.family, LogLink))
    about = TransformedAsk(ask, loss.transform)
    scales, sizes = scales_of(about, by, public, box)
    offset = offset_of(about, by, PublicBox(public.design), scales)
    problem = begun_about(ask, about, by, public, box, scales, sizes, share_of, least=READ_IF_HELD)
    problem = replace(problem, offset=offset)
    return replace(problem, start=started(problem, loss))


def started(problem: Problem, loss: Likelihood) -> Start:
    """Return starting coefficients of the likelihood model, from least-squares fits to a transformed response."""
    start, c, rows, scales = problem.start, problem.constant, problem.synthetic.rows, problem.scales
    assert scales is not None
    fit, half, offset = problem.along(start.theta), loss.transformed_half, problem.synthetic.offset
    # with a log link, the least-squares fit is a fit to (transformed response - offset); the offset is added back
    added = offset if isinstance(loss.family, LogLink) else np.zeros(len(rows))
    if not c.any():
        expected = loss.from_transformed(0.0) + half * rows @ fit + added
        eta = loss.family.linked(expected) - offset
        b = np.linalg.lstsq(rows, eta, rcond=None)[0]
        return replace(start, theta=start.to_theta @ b, loss=loss, sigma=1.0)
    mean = float(fit @ c) / float(c @ c)  # fitted value at the mean of the rows
    slopes = (fit - mean * c) * half
    noise = scales.sd[-1] * half * (1 + problem.box.offset_reach)
    least = max(FEW_OUTCOMES, float(noise)) / scales.rows
    rows = rows - rows.mean(axis=0)
    if added.any():  # the linear predictor includes the offset, a further predictor with slope 1
        slopes, rows = np.r_[slopes, 1.0], np.column_stack([rows, added - added.mean()])
    b, a = loss.family.start(slopes, loss.from_transformed(mean) + float(added.mean()), rows, least)
    moved = start.to_theta @ (b[: len(c)] + (a - float(offset.mean())) * c)
    return replace(start, theta=moved, loss=loss, sigma=1.0)


@dataclass(frozen=True, eq=False)
class Stride:
    """A burn-in step (a Newton step before the last), with the released score from which it was computed.

    Parameters
    ----------
    metric : ndarray, shape (m, m)
        Matrix T that maps the whitened predictors w of the start of the fit to predictors w'T, which are whitened with
        the Fisher information at the coefficients before the burn-in step.
    score : ndarray, shape (m,)
        Released score for the predictors w'T, plus the expected sum of the parts removed by clipping.
    noise : float
        Noise sd of a coordinate of `score`.
    step : ndarray, shape (m,)
        Change of the coefficients of the predictors w.
    """

    metric: FloatArray
    score: FloatArray
    noise: float
    step: FloatArray


@dataclass(frozen=True, eq=False)
class LastStep:
    """Size of the last Newton step, and bounds on the errors that the step causes.

    Parameters
    ----------
    size : ndarray, shape (c,)
        Relative length of the step, for each coefficient; a coefficient is reported only if this length is at most 1.
        It is the larger of two ratios. The first ratio is the root mean square change of the linear predictor, divided
        by the largest change for which scores are nearly linear (`farthest_step` of the family); a row's weight in
        this mean is its information about the coefficient. The second ratio is the change of the coefficient, divided
        by `UNUSUAL` times its expected sd.
    effective : ndarray, shape (c,)
        Effective number of rows that determine each coefficient.
    curvature_bias : ndarray, shape (c,)
        Bound on each coefficient's error due to the curvature of scores along the step, in the user's units.
    directions : ndarray, shape (c, c)
        Matrix whose entries (1, j), ..., (c, j) are a change of the coefficients of the scaled columns. This change
        adds 1 to coefficient j in the user's units, and nothing to the other coefficients in these units.
    move : float
        Root mean square change of the linear predictor due to the step.
    """

    size: FloatArray
    effective: FloatArray
    curvature_bias: FloatArray
    directions: FloatArray
    move: float


@dataclass(frozen=True, eq=False)
class BurnedIn(Pilot):
    """Coefficients after the burn-in steps, that is, all Newton steps but the last.

    Parameters
    ----------
    noise : float
        Noise sd of a coordinate of the score in the last burn-in step.
    leverages : Lengths
        Histogram of the rows' leverages at the coefficients after the burn-in steps. The leverage of a row is the norm
        of the row's whitened predictors, times the square root of the row's information about its linear predictor.
    """

    noise: float
    leverages: Lengths


def unit(vector: FloatArray) -> FloatArray:
    """Return the vector divided by its Euclidean norm."""
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-300), dtype=float)


@dataclass(frozen=True, eq=False)
class LikelihoodStep(OneStep):
    """One-step fit of a likelihood model; expectations of scores and of information are means over synthetic rows.

    Parameters
    ----------
    loss : Likelihood
        Negative log-likelihood of the model.
    """

    unit_of_slopes: ClassVar[str] = "eta"
    loss: Likelihood = field(kw_only=True)

    @property
    def dispersed(self) -> bool:
        """Whether the variance of the response has an unknown dispersion factor, as in a gamma model."""
        return isinstance(self.loss.family, Gamma)

    @property
    def signal_of_row(self) -> float:
        """Assumed upper limit of the effect of unidentified directions on the linear predictor.

        Along an unidentified direction of the coefficients, the released Hessian has less information than noise. The
        effect is a root mean square over rows. The limit is `ETA_SIGNAL` times the larger of 1 and the square root of
        the mean Fisher information of a row.
        """
        return ETA_SIGNAL * max(1.0, float(self.information(self.start).mean()) ** 0.5)

    @property
    def per_eta(self) -> FloatArray:
        """Change of each coefficient that moves the linear predictor eta by 1 in root mean square, shape (c,).

        The other coefficients change at the same time, in such a way that eta moves as little as possible. For squares
        and products of columns that are far from zero, the other coefficients can cancel most of the effect. The result
        is therefore 1 divided by the root mean square residual of the coefficient's column in a regression on the other
        columns. Eigenvalues of the columns' mean second moments are raised to at least 1 / n for n rows, the
        contribution of one row of norm 1.
        """
        columns = self.synthetic.rows @ np.array([self.along(one) for one in np.eye(self.box.c)]).T
        values, vectors = np.linalg.eigh(columns.T @ columns / len(columns))
        return np.sqrt((vectors**2 / np.maximum(values, 1 / max(self.rows, 1.0))).sum(axis=1))

    def eta(self, at: Start) -> FloatArray:
        """Return the linear predictors of the synthetic rows, at the coefficients `at`."""
        return self.loss.family.fitted(self.synthetic.rows @ self.along(at.theta) + self.synthetic.offset)

    def information(self, at: Start) -> FloatArray:
        """Return the Fisher information of each synthetic row about its linear predictor, at the coefficients `at`."""
        return self.loss.family.weight(self.eta(at))

    def spread(self, at: Start) -> float:
        """Return the square root of the mean Fisher information of the synthetic rows, at the coefficients `at`.

        If the model is correct with dispersion 1, this root is the standard deviation of the derivative of a row's
        loss with respect to the linear predictor.
        """
        return float(self.information(at).mean()) ** 0.5

    @property
    def ridge(self) -> FloatArray:
        """Ridge matrix, shape (m, m), that limits the norms of whitened rows at rare factor levels."""
        W = self.start.W
        return np.asarray(W.T @ self.levels.ridge @ W, dtype=float)

    def clipped_hessian(self, question: Sum, rows: FloatArray) -> NoisyMatrix:
        """Release the Hessian, a sum of outer products of weighted rows whose norms are clipped.

        The clipping radius balances two errors: the noise of the query `question`, which is proportional to the squared
        radius, and the part of the Hessian that clipping is expected to remove, computed from the weighted synthetic
        rows `rows`, shape (k, m). The expected part is not added to the released Hessian: if real rows have smaller
        norms than synthetic rows, clipping removes less, and intervals would become too short.
        """
        m, squared = self.m, (rows**2).sum(axis=1)
        least = HELD_LEAST * m
        tried = np.geomspace(least, max(float(squared.max()), least), PLACES)
        noise = noise_edge(m, entry_sd(self.ask, question, self.by)) * tried / self.rows
        cut = np.maximum(squared - tried[:, None], 0.0).mean(axis=1) / m
        best = float(tried[int(np.argmin(noise + CUT_WEIGHT * cut))])
        return NoisyMatrix.of(self.ask(question.inside(best**0.5), by=self.by.matrix))

    def whitened_at(self, at: Start) -> FloatArray:
        """Return the matrix, shape (m, m), that whitens predictors at the coefficients `at`.

        Whitening turns the information-weighted second moments of the synthetic rows, plus the ridge matrix (`ridge`)
        times the mean information, into the identity matrix.
        """
        return whitening(self.synthetic.rows, self.information(at), self.ridge)

    def far_response(self, at: Start, clip: Clip) -> tuple[Note, ...]:
        """Return a note if the upper bound of the response is so high that a few large values might not be detected.

        This applies to models with a log link. There is a note if the distance from the mean response to the bound
        exceeds `FAR_BOUNDS` standard deviations of the response. The standard deviation is computed from synthetic
        rows at the coefficients `at`, and from the dispersion; it includes the variation of the expected response
        between rows.
        """
        family, eta = self.loss.family, self.eta(at)
        if not isinstance(family, LogLink):
            return ()
        dispersion = clip.variance / self.sizes.scores
        mean = family.mean(eta)
        sd = max(float(np.hypot((dispersion * family.variance(eta).mean()) ** 0.5, mean.std())), 1e-12 * family.unit)
        reach = (family.unit - float(mean.mean())) / sd
        return (note("far amounts", name=self.box.design.response, sds=reach),) if reach > FAR_BOUNDS else ()

    def ridge_step(self, last: LastRelease, rows: FloatArray, ridge: float) -> FloatArray:
        """Return the Newton step that removes the bias due to a ridge penalty, shape (m,).

        The step s solves ``H s = g``, where g is the gradient of the penalty at the released minimiser. H is the
        information of the synthetic rows `rows` at the coefficients moved by s / 2, plus the penalty's coefficient
        `ridge` on the diagonal; as H depends on s, s is found by iteration. The step is zero along directions without
        information, such as the direction of a factor level with a released count of zero.
        """
        step: FloatArray = np.zeros(self.m)
        for _ in range(ROUNDS):
            before, weight = step, self.information(last.at.moved(step / 2))
            A = self.rows / len(rows) * (rows * weight[:, None]).T @ rows + ridge * np.eye(self.m)
            step = np.asarray(np.linalg.pinv(A, rcond=NARROWEST, hermitian=True) @ last.value, dtype=float)
            if np.linalg.norm(step - before) <= CONVERGED * np.linalg.norm(step):
                break
        return step

    def bend(self, eta: FloatArray, along: FloatArray, of: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the change of the linear predictor along a step, and the errors due to the curvature of scores.

        Both results have an element for each of c linear functions of the coefficients, such as a coefficient in the
        user's units. The change is a root mean square over synthetic rows, weighted by the rows' information about the
        function. The error arises if the step is computed with the information at one end of the step, although the
        information changes along the step.

        Parameters
        ----------
        eta, along : ndarray, shape (k,)
            Linear predictors of synthetic rows at the start of the step, and their changes.
        of : ndarray, shape (k, c)
            Change of each linear function due to a unit change of a row's score.
        """
        family = self.loss.family
        low, high = family.weight(eta), family.weight(family.fitted(eta + along))
        influence = (low + high)[:, None] * of**2
        total = np.maximum(influence.sum(axis=0), 1e-300)
        moves = np.sqrt((influence * along[:, None] ** 2).sum(axis=0) / total)
        errors = self.rows * ((high - low) * along)[:, None] * of / 2
        return moves, np.abs(errors.mean(axis=0))

    @cached_property
    def to_original(self) -> FloatArray:
        """Matrix that maps coefficients of the scaled columns to the coefficients in the user's units, shape (c, c)."""
        return np.asarray(self.box.design.to_original(response=False)[0], dtype=float)

    @cached_property
    def to_scaled(self) -> FloatArray:
        """Matrix that maps coefficients in the user's units to coefficients of the scaled columns, shape (c, c)."""
        return np.asarray(np.linalg.inv(self.to_original), dtype=float)

    @cached_property
    def functions(self) -> FloatArray:
        """Matrix, shape (c + k, c), of linear functions of the coefficients theta; a fit checks the functions' errors.

        The first c functions are the coefficients in the user's units. The other k functions are the linear predictors
        at the k factor levels in `contrasted`, and at the released means of the other columns.
        """
        return np.vstack([self.to_original, *(self.row_at(one) for one in self.contrasted)])

    def row_at(self, one: LevelConstant) -> FloatArray:
        """Return the row of the design at a factor level, with the released means of the other columns, shape (c,)."""
        assert self.scales is not None
        row, factor = self.scales.center[: self.box.c].copy(), self.box.design.factors[one.factor]
        row[list(factor.columns)] = np.asarray(factor.contrasts, dtype=float)[one.level]
        if self.box.intercept is not None:
            row[self.box.intercept] = 1.0
        return row

    @cached_property
    def contrasted(self) -> tuple[LevelConstant, ...]:
        """Constants (`LevelConstant`) of the kept levels of all factors without a reference level.

        With sum contrasts, for example, there is no reference level, and every coefficient of the factor depends on the
        constants of all levels.
        """
        factors = self.box.design.factors
        if self.scales is None or all(one.reference is not None or not one.used for one in factors):
            return ()
        constants = level_constants(self.box, self.levels.kept)
        return tuple(one for one in constants if factors[one.factor].reference is None)

    def worst(self, values: FloatArray, least: bool) -> FloatArray:
        """Return, for each coefficient, the largest or smallest of several values that concern the coefficient.

        The values are the coefficient's own value, and the values of the levels in `contrasted` with a constant on
        which the coefficient depends.

        Parameters
        ----------
        values : ndarray, shape (c + k,)
            Values for the linear functions in `functions`.
        least : bool
            Whether the smallest value is returned; otherwise the largest value is returned.
        """
        own = values[: self.box.c]
        for value, one in zip(values[self.box.c :], self.contrasted, strict=True):
            depends = np.abs(self.to_original @ one.direction) > UNSEEN
            worse = np.minimum(own, value) if least else np.maximum(own, value)
            own = np.where(depends, worse, own)
        return own

    def far_step(self, size: FloatArray) -> tuple[Note, ...]:
        """Return a note that names the coefficients for which a step is too long for valid intervals.

        These are the coefficients with an entry of `size` above 1: the length of the step, divided by its upper limit.
        """
        about = tuple(name for name, one in zip(self.box.design.names, size > 1, strict=True) if one)
        return (note("far step", about, size=float(size.max())),) if about else ()

    def lengths(self, w: Start) -> Lengths:
        """Release the histogram of score norms, and return it with denoised counts.

        Scores are computed for the whitened predictors and the coefficients in `w`. The clipping threshold of the last
        step is chosen from the histogram.
        """
        return self.score_sizes(w, "score sizes")

    def score_sizes(self, w: Start, name: str, item: str = "") -> Lengths:
        """Release the histogram of score norms at the coefficients in `w`, and return it with denoised counts.

        Scores are computed for the whitened predictors in `w`. The query is called `name`; the text `item` in its label
        distinguishes queries with the same name, for example in successive steps.
        """
        m = w.m
        longest = self.loss.largest(0.0) * w.longest * self.most_rows
        cap = longest if np.isfinite(longest) else FAR_PSI * FAR_PSI * m**0.5
        ends = edges(m**0.5 / 8, float(np.clip(cap, m**0.5, 1e6 * m**0.5)))
        question = replace(self.score(name, w, 1.0, item), within=Shells(m, ends))
        return Lengths.released(self.ask, self.by, question, self.total(self.sizes.scores), self.tail)

    def without_hidden_levels(self, equation: EstimatingEquation) -> tuple[EstimatingEquation, tuple[Note, ...]]:
        """Return the estimating equation without unidentified constants of factor levels, and notes on these levels.

        The constant of a level (`LevelConstant`) is added to the linear predictor of all rows at the level. The
        constant is unidentified if the noise of the Hessian exceeds the information about the constant. The
        unidentified direction of the coefficients is known only approximately, and the error along this direction would
        lengthen the intervals of all coefficients. Therefore the constant is removed from the equation, and only the
        coefficients that depend on the constant are not reported. The rows at the level remain in the fit.
        """
        if not equation.unidentified()[0].size:
            return equation, ()
        constants, notes = list(level_constants(self.box, self.levels.kept)), []
        while constants and (lost := equation.unidentified()[0]).size:
            hidden = [float(np.linalg.norm(lost.T @ unit(equation.coordinates.back @ c.direction))) for c in constants]
            one = constants.pop(int(np.argmax(hidden)))
            fewer = equation.without(one.direction, self.largest_change(equation, one))
            if fewer.unidentified()[0].shape[1] >= lost.shape[1]:
                break
            notes.append(held_level(self.box, self.levels, one, equation.hessian.noise_to_signal()[1]))
            equation = fewer
        return equation, tuple(notes)

    def largest_change(self, equation: EstimatingEquation, one: LevelConstant) -> float:
        """Return a heuristic upper bound on the error of the constant of a factor level (`LevelConstant`).

        Let s be the component of the equation's score in the direction of the constant, and i the information about
        the constant: the number of rows at the level times the mean Fisher information of a row. The bound is
        ``(|s| + VISIBLE sd(s)) / i``, but at most `signal_of_row`, the limit on changes of the linear predictor along
        unidentified directions. Without an intercept, the bound is equal to `signal_of_row`.
        """
        most, c = equation.signal / equation.usual**0.5, self.box.intercept
        if c is None:
            return most
        back, rows = equation.coordinates.back, self.levels.counts[one.factor][one.level]
        b, constant = back @ one.direction, back[:, c]
        information = rows / self.rows * float(constant @ equation.hessian.value @ constant)
        variance = float(b @ (equation.meat + total_covariance(equation.noises, len(b))) @ b)
        sd = max(variance, 0.0) ** 0.5
        return min(most, (abs(float(b @ equation.score)) + VISIBLE * sd) / max(information, 1e-300))


@dataclass(frozen=True, eq=False)
class NewtonSteps(LikelihoodStep):
    """Fit of a generalised linear model by Newton steps; each step uses a released sum of clipped scores."""

    @property
    def asks_meat(self) -> bool:
        return self.public.intervals and (self.robust or self.dispersed)

    # stage 2: starting coefficients, and burn-in steps of limited length
    def pilot(self) -> BurnedIn:
        start, last = self.start, None
        for k in range(BURN_IN):
            start, last = self.burn_in(start, last, k)
        return BurnedIn(start, last.noise if last else 0.0, self.leverages(start.remapped(self.whitened_at(start))))

    def leverages(self, w: Start) -> Lengths:
        """Release the histogram of the rows' leverages, and return it with denoised counts.

        The leverage of a row is the norm of its whitened predictors, times the square root of the row's information
        about its linear predictor. Predictors and information are computed for the whitening and the coefficients in
        `w`.
        """
        m = w.m
        cap = min(w.longest * min(self.loss.largest_slope, 1e12) ** 0.5, FAR_PSI * m**0.5)
        within = Shells(m, edges(m**0.5 / 2, max(cap, m**0.5)))
        question = Sum("leverages", w.hessian_rows, within=within, keep=self.keep)
        return Lengths.released(self.ask, self.by, question, self.total(self.rows), TAILS["weighted rows"])

    def metric(self, pilot: Pilot) -> FloatArray:
        """Return the matrix that whitens predictors at the coefficients in `pilot`, known before the last step."""
        return self.whitened_at(pilot.start)

    def informed(self, at: Start, metric: FloatArray) -> FloatArray:
        """Return the information matrix of the whitened predictors, as a mean over rows, shape (m, m).

        Whitening makes the sum of this matrix and of the ridge for rare factor levels equal to the identity; so the
        matrix is the identity minus this ridge, expressed in whitened predictors.
        """
        weight = float(self.information(at).mean())
        return np.asarray(np.eye(self.m) - weight * metric.T @ self.ridge @ metric, dtype=float)

    # stage 3: the clipping threshold of scores
    def expected_cut(self, w: Start, radii: FloatArray) -> FloatArray:
        """Return the expected sums over rows of the parts of scores that clipping removes, shape (radii, m).

        There is one sum for each clipping radius in `radii`. Scores are computed for the m whitened predictors and the
        coefficients in `w`. The expectation is computed under the model, with synthetic rows. The released histogram of
        score norms alone would miss some of the clipping bias, because large scores, such as the scores of rare
        outcomes and of small counts, may be too few to exceed the noise of the histogram.
        """
        rows, eta = self.synthetic.rows[::EVERY_SYNTHETIC], self.eta(w)[::EVERY_SYNTHETIC]
        y, p = self.loss.family.responses(eta)
        if not len(y):
            return np.zeros((len(radii), w.m))
        # convert the synthetic rows from predictors whitened at the starting point to predictors whitened as in `w`
        rows = rows @ np.linalg.lstsq(self.start.W, w.W, rcond=None)[0]
        psi = self.loss.family.psi(eta[:, None], y[None])
        size = np.linalg.norm(rows, axis=1)[:, None] * np.abs(psi)
        tried = np.geomspace(radii.min(), radii.max(), PLACES) if len(radii) > PLACES else radii
        tried = np.r_[tried[tried < size.max()], size.max()]  # no score is clipped at the last radius
        off = np.zeros((len(tried), w.m))
        for k, radius in enumerate(tried):
            cut = (p * psi * np.maximum(1 - radius / np.maximum(size, 1e-300), 0.0)).sum(axis=1)
            off[k] = (rows * cut[:, None]).mean(axis=0)
        between = [np.interp(radii, tried, column) for column in off.T]
        return self.sizes.scores * np.stack(between, axis=1)

    def burn_in(self, start: Start, last: Stride | None, k: int) -> tuple[Start, Stride]:
        """Take burn-in step k, a Newton step of limited length before the last step, with a released sum of scores.

        Return the coefficients after the step, and a record (`Stride`) of the step and its score. The previous burn-in
        step `last`, if there is one, is used to correct the score (`secant_corrected`).
        """
        metric = self.metric(Pilot(start))
        w = start.remapped(metric)
        lengths = self.score_sizes(w, "step sizes", str(k + 1))
        name, item = ("first step", str(k + 1)) if k < BURN_IN - 1 else ("second step", "")
        question = Sum(name, w.scores, within=Ball(w.m), keep=self.keep, item=item, folded=self.folded)
        noise = sd_of(self.ask.law(question, by=self.by.vector))
        seen = replace(lengths, counts=np.where(lengths.hidden, 0.0, lengths.counts))
        tried, taken = seen.lengths, self.expected_cut(w, seen.lengths)
        cut = BURN_IN_EXCESS * np.array([seen.excess(B) for B in tried]) + np.linalg.norm(taken, axis=1)
        best = int(np.argmin((noise * tried) ** 2 * w.m + cut**2))
        B = float(tried[best])
        release = self.ask(question.inside(B), by=self.by.vector)
        score = release.value + taken[best]  # the expected sum of the clipped parts is added back
        value = score if last is None else self.secant_corrected(last, metric, score, noise * B)
        known, V = np.linalg.eigh(self.informed(start, metric))
        squared = (noise * B / self.sizes.rows) ** 2
        # the step is shrunk toward 0 along directions in which the noise exceeds the information
        inverse = (V * (known * (1 + squared) / (known**2 + squared))) @ V.T
        step = self.shortened(metric @ (inverse @ value / self.sizes.rows))
        return start.moved(step), Stride(metric, score, noise * B, step)

    def secant_corrected(self, last: Stride, metric: FloatArray, score: FloatArray, noise: float) -> FloatArray:
        """Return the score, corrected for an unexpected curvature of the loss along the previous step `last`.

        The measured curvature is the change of the score during the previous step; the expected curvature is computed
        from synthetic rows. The score's component along the step is divided by the ratio of the measured to the
        expected curvature, clipped to the interval `CURVATURES`. With nearly collinear predictors the ratio may be
        about 2, and uncorrected steps would oscillate. If the measurement is too noisy, the score is returned
        unchanged.

        `noise` is the noise sd of a coordinate of the score; `metric` whitens the predictors with which the score is
        computed.
        """
        along = np.linalg.solve(metric, last.step)
        length = float(np.linalg.norm(along))
        expected = length * self.rows
        if np.hypot(last.noise, noise) >= MATRIX_NOISE * expected:
            return score
        along = along / length
        before = metric.T @ np.linalg.solve(last.metric.T, last.score)
        met = float(np.clip(along @ (before - score) / expected, *CURVATURES))
        return score + (1 / met - 1) * float(along @ score) * along

    def shortened(self, step: FloatArray) -> FloatArray:
        """Return the Newton step, scaled down so that it changes the linear predictor by a limited amount.

        The root mean square change due to the intercept is limited to `ETA_SIGNAL`, and the change due to the other
        coefficients to the limit `slope_step` of the family.
        """
        c = self.constant
        on = (step @ c) / (c @ c) * c if c.any() else np.zeros(len(step))
        side = step - on
        along = min(1.0, ETA_SIGNAL / max(float(np.linalg.norm(on)), 1e-9))
        across = min(1.0, self.loss.family.slope_step / max(float(np.linalg.norm(side)), 1e-9))
        return on * along + side * across

    def clip(self, pilot: BurnedIn, w: Start, lengths: Lengths) -> Clip:
        """Return the clipping threshold of scores that gives the shortest confidence interval.

        The length of an interval includes a bound on the clipping bias. This bound is the sum of a bound from the
        released histogram of score norms and the clipping bias expected under the model.
        """
        m, hidden = w.m, ALONG_SEEN if self.dispersed else None
        tried, unseen = lengths.from_least(m**0.5 / 2), self.unseen(pilot.leverages, lengths)
        excess = lengths.taken(tried, m, self.tail, hidden) + np.linalg.norm(self.expected_cut(w, tried), axis=1)
        excess += lengths.unseen_excess(tried, unseen)
        return shortest_clip(tried, (lengths.squares(tried) + unseen) / m, excess, self.score_sd(w))

    def unseen(self, leverages: Lengths, lengths: Lengths) -> float:
        """Return the part of the sum of squared score norms that the histogram `lengths` does not show.

        Large scores, for example of rows with large leverages, may be too few to exceed the noise of `lengths`. For a
        two-valued response, the expected squared norm of a row's score under the model is the row's squared leverage.
        The result is therefore the sum of squared leverages in the histogram `leverages`, minus the sum of squared
        score norms in `lengths`, or 0 if noise can explain this difference.

        The result is 0 for other responses, for weighted rows and for privacy units.
        """
        if not self.two_valued or self.box.design.weighted or self.folded:
            return 0.0
        return lengths.missing(*leverages.total_square)

    @property
    def two_valued(self) -> bool:
        """Whether the response of a binary family is treated as having two values only.

        The result is True if the response has declared levels, or if its released variance is, up to noise, at least
        the share `TWO_ENDED` of the largest variance that its mean allows.
        """
        if not isinstance(self.loss.family, Binary):
            return False
        mean, sd, noise = self.scales.of_response if self.scales else (0.0, 1.0, 0.0)
        return bool(self.box.design.outcomes) or sd**2 + VISIBLE * noise >= TWO_ENDED * (1 - mean**2)

    # stage 4: the Hessian, and the variance of scores
    def hessian(self, pilot: BurnedIn, w: Start, clip: Clip, last: LastRelease) -> Hessian:
        """Release the Hessian, the sum of the products v v' over rows, with vectors v of limited norm.

        The vector v of a row contains the row's whitened predictors times the square root of the row's information.
        Vectors are clipped at the radius that balances noise against the part of the Hessian that clipping removes,
        according to the histogram ``pilot.leverages``.
        """
        m, rows, lengths = w.m, self.rows, pilot.leverages
        question = Sum("hessian", w.hessian_rows, within=Products(m), keep=self.keep)
        variance = self.ask.law(question, by=self.by.matrix).variance()
        noise = noise_edge(m, float(np.sqrt(variance[min(1, len(variance) - 1)])))
        radius = lengths.radius(noise, (HELD_LEAST * m) ** 0.5)
        floor = min(VISIBLE * lengths.sd * radius**2, MATRIX_NOISE * rows)
        matrix = NoisyMatrix.of(self.ask(question.inside(radius), by=self.by.matrix), floor=floor)
        return Hessian(matrix, w.to_theta, np.eye(m), rows)

    def meat(self, pilot: BurnedIn, clip: Clip, last: LastRelease, hessian: Hessian) -> Meat:
        """Return the variance matrix of the sum of scores.

        It is a weighted mean of two matrices: the released second moments of the scores, and a multiple of the
        identity. The trace of the second matrix is computed from the histogram of score norms, which gives the trace
        more precisely than the released moments do. The weight of the released moments is the share of the squared
        difference of the two matrices that is not due to noise. If the second moments are not released, the variance
        matrix is n times the identity for n scores. With ``cov_type="nonrobust"`` it is the released Hessian times the
        dispersion.
        """
        m, n, noise, matrix = self.m, self.sizes.scores, None, hessian.matrix
        value = n * np.eye(m)
        if last.products is not None:
            target = max(clip.variance, 0.25 * n) * np.eye(m)
            expected = self.informed(pilot.start, self.metric(pilot))
            value, kept = last.products.shrunk(target, expected), last.products.kept(target)
            noise = last.products.mapped(kept**0.5 * np.eye(m))
        if not self.robust:
            dispersion = float(np.trace(matrix.power(-1.0) @ value)) / m if self.dispersed else 1.0
            value, noise = dispersion * matrix.nearest_positive(1e-3 * self.rows), None
        return Meat(value, self.freedom, noise)

    def doubts(self, step: Step) -> Doubts:
        """Return bounds on the coefficients' biases due to the last Newton step, and the coefficients not to report.

        The biases arise because scores are not linear along the step. A coefficient is not reported if the step is so
        long that an interval might not cover the coefficient, or if too few rows determine the coefficient.
        """
        names, m = self.box.design.names, self.m
        noise = float(np.trace(step.last.noise.covariance())) / m
        spread = step.meat.value + (noise + step.pilot.noise**2) * np.eye(m)
        last_step = self.last_step(step, spread)
        far = last_step.size > 1
        too_few, few_notes = few_outcomes(names, last_step.effective, self.levels)
        return Doubts(
            remaining=float(np.linalg.norm(step.step)),
            moved=(Allowance(last_step.directions * last_step.curvature_bias, 1.0),),
            not_given=last_step.directions[:, far | too_few],
            notes=(*self.far_step(last_step.size), *few_notes, *self.far_response(step.pilot.start, step.clip)),
            facts={"last_step": last_step.move},
        )

    def last_step(self, step: Step, spread: FloatArray) -> LastStep:
        """Return the size of the last Newton step for each coefficient, and bounds on the errors that the step causes.

        Parameters
        ----------
        step : Step
            The last Newton step, with all releases of the fit.
        spread : ndarray, shape (m, m)
            Expected second moments of the score: sampling variance plus the noise variances in the last two steps.
        """
        start, inverse = step.pilot.start, step.inverse
        metric = self.metric(step.pilot)
        to_coefficients = self.functions @ start.to_theta @ metric
        through = to_coefficients @ inverse
        rows, family, eta = self.synthetic.rows @ metric, self.loss.family, self.eta(start)
        along = rows @ step.step
        moves, curvature_bias = self.bend(eta, along, rows @ through.T)
        usual = np.sqrt(np.einsum("ij,jk,ik->i", through, spread, through))
        changed = np.abs(to_coefficients @ step.step)
        size = np.maximum(moves / family.farthest_step, changed / np.maximum(UNUSUAL * usual, 1e-300))
        share = effective_share(family, eta + along, rows, inverse, spread, to_coefficients)
        size, effective = self.worst(size, least=False), self.rows * self.worst(share, least=True)
        bias, directions = curvature_bias[: self.box.c], self.to_scaled
        return LastStep(size, effective, bias, directions, float(np.sqrt(np.mean(along**2))))


def effective_share(
    family: Family,
    eta: FloatArray,
    rows: FloatArray,
    inverse: FloatArray,
    spread: FloatArray,
    to_coefficients: FloatArray,
) -> FloatArray:
    """Return the effective share of the rows that determine each of c coefficients or linear predictors, shape (c,).

    Let q be a row's contribution to the error of a coefficient under the model. The share is ``(mean q^2)^2 / mean
    q^4``, with means over rows: 1 if all q^2 are equal, and small if few rows have large q^2. The share depends on the
    true value of the coefficient, and is computed for several quantiles of the coefficient's estimated distribution;
    the smallest share is returned.

    Parameters
    ----------
    family : Family
        Family and link of the model.
    eta : ndarray, shape (k,)
        Linear predictor of synthetic rows at the estimate.
    rows : ndarray, shape (k, m)
        Whitened predictors of synthetic rows.
    inverse : ndarray, shape (m, m)
        Inverse of the Hessian on its identified directions.
    spread : ndarray, shape (m, m)
        Expected second moments of the score, including noise.
    to_coefficients : ndarray, shape (c, m)
        Matrix that maps the m coefficients of whitened predictors to c quantities: the coefficients in the user's
        units, and linear predictors at factor levels (`LikelihoodStep.functions`).
    """
    through = to_coefficients @ inverse
    of, error = rows @ through.T, spread @ through.T
    sd = np.sqrt(np.maximum((through.T * error).sum(axis=0), 1e-300))
    # `moved`: expected change of each row's linear predictor if an estimated coefficient changes by one std error
    moved, shares = rows @ inverse @ error / sd, []
    for far in ndtri((np.arange(PLACES) + 0.5) / PLACES):
        there = family.fitted(eta[:, None] + far * moved)
        q2 = family.weight(there) * of**2
        q4 = family.kurtosis(there) * q2**2
        shares.append(q2.mean(axis=0) ** 2 / np.maximum(q4.mean(axis=0), 1e-300))
    return np.asarray(np.min(shares, axis=0))


def few_outcomes(names: Any, effective: FloatArray, levels: KeptLevels) -> tuple[NDArray[np.bool_], tuple[Note, ...]]:
    """Return a mask of coefficients with too few rows for a normal approximation, and notes on these coefficients.

    The mask contains the coefficients for which `effective`, the effective number of rows that determine the
    coefficient (`effective_share`), is below `FEW_OUTCOMES`, and the coefficients of two-valued columns whose rarer
    value occurs in too few rows.
    """
    few, notes = effective < FEW_OUTCOMES, []
    if few.any():
        about = tuple(name for name, one in zip(names, few, strict=True) if one)
        most = float(np.floor(effective[few].max()))  # rounded down, so that a note never says "8 rows, 8 needed"
        notes.append(note("few outcomes", about, count=most, needed=FEW_OUTCOMES))
    for j, rows in levels.rare_values:
        if not few[j]:
            notes.append(note("rare value", (names[j],), count=rows, needed=levels.needed))
            few[j] = True
    return few, tuple(notes)
