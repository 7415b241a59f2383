"""Least squares and Huber's loss by noisy Newton steps with clipped scores.

A score is the gradient of a row's loss. The Hessian is the sum of v v' over rows with vectors v of weighted, whitened
predictors, and the leverage of a row is the norm of its vector v.

Comments in the code number the stages of a fit, which starts with stages 0 and 1 (module `adaptive`): 2 leverages, 3
Hessian, 3b first step, 4 score variance, 5 score norms, 6 final score. All clipping radii are functions of earlier
releases, and the privacy proof of each query holds for every radius.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from privstats.estimators.base import Noises, entry_sd, score_sd, sd_of, with_std_error
from privstats.estimators.constants import (
    ALONG_SEEN,
    FIRST_LEAST,
    FIRST_MOST,
    HELD_LEAST,
    LEAST_EIGENVALUE,
    LITTLE_SEEN,
    MATRIX_NOISE,
    MEAT_LEAST,
    MOST_RATIO,
    MOVE,
    MOVE_SDS,
    RADIUS_NOISE,
    VISIBLE,
)
from privstats.estimators.histogram import TAILS, Clip, Lengths, Tail, best_clip, edges, predicted_length
from privstats.estimators.one_step import Doubts, Hessian, LastRelease, OneStep, Pilot, Problem, Step
from privstats.estimators.preconditioner import Sizes, Start, cleared, roots
from privstats.gate.questions import Laws, Sum
from privstats.inference.estimate import Allowance
from privstats.inference.matrix import NoisyMatrix, noise_edge
from privstats.inference.meat import Meat
from privstats.inference.noise import Loading
from privstats.inference.notes import Note
from privstats.losses.base import Loss, SquaredLoss
from privstats.losses.rows import RowResiduals, SquaredResiduals
from privstats.numerics.law import FloatArray
from privstats.sets.cells import Shells
from privstats.sets.vectors import Ball, Fractions, Products, SumAndProducts

SCALE_BINS = 2.0**-9  # upper edge of the first bin of |residual| for Huber's scale, in half-ranges of the response
MEDIAN = 0.6744897501960817  # median of the absolute value of a standard normal variable


def hessian_entry_sd(ask: Laws, by: Noises, m: int) -> float:
    """Return the noise sd of an off-diagonal entry of the released m x m Hessian, if rows are clipped to norm 1."""
    return entry_sd(ask, Sum("hessian", lambda block: block, within=Products(m)), by)


def relative_noise(m: int, entry: float) -> float:
    """Return the expected largest eigenvalue of a Hessian's noise, divided by a typical eigenvalue of the Hessian.

    Parameters
    ----------
    m : int
        Number of rows and of columns of the Hessian.
    entry : float
        Noise sd of an off-diagonal entry, divided by n m for n rows: n is a typical eigenvalue of the Hessian, and m a
        typical squared norm of a row.
    """
    return m * noise_edge(m, entry)


@dataclass(frozen=True, eq=False)
class Lengthened:
    """Calculator of the expected length of intervals from Newton steps, divided by their length without privacy.

    The ratio is computed from noise distributions before any release, and so costs no privacy budget.

    Parameters
    ----------
    ask : Laws
        Function that returns the noise distribution of a query, without a release.
    by : Noises
        Noise mechanisms, one for each kind of query.
    tail : Tail
        Assumption on the tail of score norms.
    """

    ask: Laws
    by: Noises
    tail: Tail = TAILS["usual"]

    def of_rows(self, m: int, longest: float, psi: float, sizes: Sizes, folded: bool) -> float:
        """Return the expected length of intervals from Newton steps, divided by their length without privacy.

        The length is computed from bounds on the norms of rows (`longest`) and on the loss's derivative (`psi`).

        Parameters
        ----------
        m : int
            Number of whitened predictors.
        longest : float
            Upper bound on the norm of a row of whitened predictors.
        psi : float
            Upper bound on the absolute derivative of a row's loss with respect to the linear predictor, in standard
            deviations of this derivative.
        sizes : Sizes
            Numbers of rows and of scores (one score for each row, or for each privacy unit).
        folded : bool
            Whether the scores of one privacy unit (person) are added up.
        """
        within = SumAndProducts(m, 1.0) if self.by.free_products else Ball(m, 1.0)
        shells = Shells(m, edges(m**0.5 / 8, longest * psi))
        named = (("score", within), ("first step", within), ("score sizes", shells))
        asked = tuple(Sum(name, lambda block: block, within=one, folded=folded) for name, one in named)
        return self.length(asked, longest, psi, sizes)

    def length(self, asked: tuple[Sum, ...], longest: float, psi: float, sizes: Sizes) -> float:
        """Return the expected length of intervals from Newton steps, divided by their length without privacy.

        The distribution of score norms is assumed to have slightly heavy tails. The ratio includes three effects of
        noise: the noise of the score, the Hessian's noise times the error of the first step, and the longer intervals
        that result if the Hessian's noise reduces an eigenvalue of the Hessian.

        Parameters
        ----------
        asked : tuple of Sum
            The queries for the sum of scores in the last step, for the sum of scores in the first step (both with
            scores clipped to norm 1), and for the histogram of score norms. Their noise distributions are used.
        longest : float
            Upper bound on the norm of a row of whitened predictors.
        psi : float
            Upper bound on the absolute derivative of a row's loss with respect to the linear predictor, in standard
            deviations of this derivative.
        sizes : Sizes
            Numbers of rows and of scores (one score for each row, or for each privacy unit).
        """
        score, first_step, counts = asked
        m, rows = counts.within.m, sizes.rows  # type: ignore[attr-defined]
        noise, sd = score_sd(self.ask, score, self.by), sd_of(self.ask.law(counts, by=self.by.counts))
        usual = predicted_length(noise, sd, m, sizes.scores, self.tail, longest * psi, self.by.shares) / 1.96
        entry = hessian_entry_sd(self.ask, self.by, m) * min(HELD_LEAST, longest**2 / m) / rows
        first = FIRST_LEAST * m**0.5 * score_sd(self.ask, first_step, self.by) / rows
        length = np.hypot(usual, rows**0.5 * m**1.5 * entry * first)
        return float(min(length / max(1 - relative_noise(m, entry), LEAST_EIGENVALUE), 1e100))


@dataclass(frozen=True, eq=False)
class Metric:
    """Symmetric square root of the variance matrix of a score, and the inverse root, which standardises scores."""

    root: FloatArray
    inverse: FloatArray

    @classmethod
    def of(cls, matrix: FloatArray) -> Metric:
        return cls(*roots(matrix))


@dataclass(frozen=True, eq=False)
class ScoreVariance:
    """The variance of a row's score, and the matrix that standardises the score of the last Newton step.

    Parameters
    ----------
    value : ndarray, shape (m, m)
        Variance matrix of a row's score.
    metric : Metric
        Symmetric square root of the sum of `value` and a ridge matrix, and the inverse of this root, which standardises
        the score. The ridge matrix (`KeptLevels.ridge`) raises the variance in the directions of coefficients of rare
        factor levels, and of two-valued columns with a rare value.
    released : bool
        Whether the variance was released; otherwise equal error variances are assumed.
    """

    value: FloatArray
    metric: Metric
    released: bool

    @classmethod
    def of(cls, value: FloatArray, ridge: FloatArray, released: bool) -> ScoreVariance:
        return cls(value, Metric.of(value + ridge), released)


@dataclass(frozen=True, eq=False)
class ReleasedHessian:
    """A released Hessian, its noise, and bounds on the Hessian's reduction by clipping rows to a largest norm.

    Parameters
    ----------
    matrix : NoisyMatrix
        The Hessian with its noise.
    sd : float
        Noise sd of an off-diagonal entry.
    cut : float
        Assumed bound on the reduction of the Hessian along any one direction of the coefficients, if the clipped rows
        point in different directions.
    all_cut : float
        The same bound if all clipped rows point in one direction: the reduction of the Hessian's trace.
    """

    matrix: NoisyMatrix
    sd: float
    cut: float
    all_cut: float


@dataclass(frozen=True, eq=False)
class FirstStep(Pilot):
    """Coefficients after the first Newton step, and the releases from which they were computed.

    Parameters
    ----------
    began : Start
        Coefficients before the step, and the whitened predictors with which the Hessian was released.
    hessian : ReleasedHessian
        Hessian with which the step was computed.
    T, T_inverse : ndarray, shape (m, m)
        Inverse square root, and square root, of the Hessian divided by the number of rows.
    score : LastRelease
        The score of the first step.
    plain : Metric
        Symmetric square root of a score's assumed variance matrix (up to a constant), and the inverse root, which
        standardises the first score.
    variance : ScoreVariance
        Variance of a row's score after the step.
    """

    began: Start
    hessian: ReleasedHessian
    T: FloatArray
    T_inverse: FloatArray
    score: LastRelease
    plain: Metric
    variance: ScoreVariance


def with_loss(problem: Problem, loss: Loss) -> Start:
    """Return starting coefficients for the minimisation of a loss, computed from least-squares coefficients.

    If the loss needs a residual scale, the scale is released.
    """
    design = problem.box.design
    loss = loss.in_units(design.response_center, design.response_half)
    if loss.needs_scale:
        loss = loss.with_scale(residual_scale(problem))
    return problem.start.of_loss(loss, problem.box.intercept)


def residual_scale(problem: Problem) -> float:
    """Release the residual scale, the median of |residual| divided by the median of |N(0, 1)|.

    The residual scale is in units of the half-range of the response.
    """
    ends = edges(SCALE_BINS, problem.start.largest_psi)
    question = Sum("residual scale", RowResiduals(problem.start.eta), Shells(1, ends), problem.keep)
    counts = np.maximum(problem.ask(question, by=problem.by.counts).value, 0.0)
    below = np.r_[0.0, np.cumsum(counts)] / max(counts.sum(), 1.0)
    return float(np.exp(np.interp(0.5, below, np.log(np.r_[ends[0] / 2, ends]))) / MEDIAN)


@dataclass(frozen=True, eq=False)
class Steps(OneStep):
    """Fit by two Newton steps with clipped scores, for squared loss and Huber's loss.

    The main releases are, in this order: a histogram of leverages, the Hessian, the score for the first step, the
    variance of scores, a histogram of score norms, and the score for the final step.

    Parameters
    ----------
    loss : Loss
        Loss whose sum over rows the fit minimises.
    """

    loss: Loss = SquaredLoss()  # noqa: RUF009

    @property
    def scores(self) -> float:
        return self.sizes.scores

    def score_sizes(self, start: Start, ends: tuple[float, ...]) -> Sum:
        """Return the query for the histogram of score norms, with upper ends of bins `ends`.

        Scores are computed for the whitened predictors and the coefficients in `start`.
        """
        return Sum("score sizes", start.scores, Shells(start.m, ends), self.levels.keep, folded=self.folded)

    @property
    def lengthened(self) -> Lengthened:
        return Lengthened(self.ask, self.by, self.tail)

    def length(self) -> float:
        """Return the expected length of intervals from Newton steps, divided by their length without privacy.

        The distribution of score norms is assumed to have slightly heavy tails.
        """
        start = self.start
        psi = start.largest_psi / start.sigma
        asked = (self.score("score", start, 1.0), self.score("first step", start, 1.0))
        sizes = self.score_sizes(start, edges(start.m**0.5 / 8, start.longest * psi * self.most_rows))
        return self.lengthened.length((*asked, sizes), start.longest, psi, self.sizes)

    @property
    def signal_of_row(self) -> float:
        """Largest assumed change of the linear predictor along unidentified directions: the released response sd.

        The size of the change is its root mean square over rows. Unidentified directions are directions of the
        coefficients about which the released Hessian has less information than noise.
        """
        return self.start.frame.scale

    def notes(self) -> tuple[Note, ...]:
        """Return notes on left-out levels, on columns with wide bounds, and on a response with values at its bounds."""
        return (*super().notes(), *self.levels.clamped, *self.far_bounds(response=not self.loss.bounded))

    # stages 1b to 4: second moments of whitened rows, leverages, Hessian, first step and score variance
    def pilot(self) -> FirstStep:
        start = with_loss(self.whitened_again(("score",)), self.loss)
        read = self.first_hessian(start)
        T, T_inverse = read.matrix.power(-0.5) * self.rows**0.5, read.matrix.power(0.5) / self.rows**0.5
        ridge = T @ start.W.T @ self.levels.ridge @ start.W @ T
        x = start.remapped(T)
        score, moved, plain = self.first_step(x, ridge)
        return FirstStep(
            moved, start, read, T, T_inverse, score, plain, self.score_variance(moved, plain, score, ridge)
        )

    def metric(self, pilot: FirstStep) -> FloatArray:
        """Return the matrix that standardises the final score, shape (m, m): the inverse root of a score's variance.

        The variance is taken from `pilot`, the result of the first step. It includes a ridge matrix that raises the
        variance in the directions of coefficients of rare factor levels and rare values.
        """
        return pilot.variance.metric.inverse

    def first_hessian(self, start: Start) -> ReleasedHessian:
        """Release the histogram of leverages (stage 2 of the fit) and the Hessian (stage 3 of the fit).

        The Hessian is the sum of outer products of weighted rows. These rows are clipped at the radius that balances
        noise against the information lost by clipping.
        """
        m = start.m
        ends = edges(m**0.5 / 2, start.longest * start.loss.largest_slope**0.5)
        leverages = Sum("leverages", start.hessian_rows, Shells(m, ends), self.levels.keep)
        lengths = Lengths.released(self.ask, self.by, leverages, self.total(self.rows), TAILS["leverages"])

        question = Sum("hessian", start.hessian_rows, Products(m), self.levels.keep)
        unit = entry_sd(self.ask, question, self.by)
        rare = np.sqrt(min(self.rows / self.levels.least, self.levels.most_length) + m)
        rare = rare if np.isfinite(self.levels.least) else 0.0
        radius = lengths.radius(RADIUS_NOISE * noise_edge(m, unit), max(m**0.5, min(rare, ends[-1])))
        floor = min(VISIBLE * lengths.sd * radius**2, MATRIX_NOISE * self.rows)

        A = NoisyMatrix.of(self.ask(question.inside(radius), by=self.by.products), floor=floor)
        cut = lengths.square_excess(radius)
        return ReleasedHessian(A, unit * radius**2, cut * min(1.0, 2.0 / m), cut)

    def first_step(self, x: Start, ridge: FloatArray) -> tuple[LastRelease, Start, Metric]:
        """Release the sum of clipped scores at the coefficients of `x`, and take the first Newton step (stage 3b).

        Return the released score, the coefficients after the step, and the matrix that standardised the score
        (`Metric`). The argument `x` contains the coefficients before the step, and predictors that are scaled so that
        the released Hessian is the identity matrix times the number of rows. The variance of a score is assumed to be
        proportional to the identity plus `ridge`, a matrix that raises the variance in the directions of coefficients
        of rare factor levels and rare values.

        Because of the first step, the final step (stage 6) is short. This matters because the noise of the Hessian
        causes an error that is proportional to the length of the final step.
        """
        m = x.m
        plain = Metric.of(np.eye(m) + ridge)
        wide = max(
            FIRST_LEAST * m**0.5,
            FIRST_LEAST * self.scores**0.5 / self.score_sd(x, "first step"),
        )
        radius = x.sigma * min(FIRST_MOST * m**0.5 * self.mean_rows, wide)
        held = x.remapped(plain.inverse)
        first = LastRelease.of(self.ask(self.score("first step", held, radius), by=self.by.vector), held)
        return first, x.moved(plain.root @ first.value / self.rows), plain

    def score_variance(self, x: Start, plain: Metric, first: LastRelease, ridge: FloatArray) -> ScoreVariance:
        """Return the variance matrix of a score, and the matrix that standardises the final score (stage 4).

        The variance is computed from second moments of clipped scores, released with the first score (`first`) or by a
        separate query. Without such a release, the variance is the identity matrix times ``x.sigma**2``, the squared
        residual scale. The matrix that standardises the final score is computed from the sum of this variance and
        ``x.sigma**2 * ridge``, where the matrix `ridge` raises the variance in the directions of coefficients of rare
        factor levels and rare values. The argument `x` contains the coefficients after the first step, and `plain` the
        matrix that standardised the score of the first step.
        """
        m, flat = x.m, x.sigma**2 * np.eye(x.m)
        usual = 0.25 * self.scores * x.sigma**2
        if first.products is not None and not self.robust:
            level = max(self.mean_square(x.remapped(plain.inverse), first.products.value), 0.25 * x.sigma**2)
            return ScoreVariance.of(level * np.eye(m), x.sigma**2 * ridge, True)
        if first.products is not None:
            products = first.products.value
            value = cleared(products, first.products_sd, max(float(np.trace(products)) / m, usual))
            return ScoreVariance.of(plain.root @ value @ plain.root / self.scores, x.sigma**2 * ridge, True)
        question = Sum(
            "meat",
            x.remapped(plain.inverse).scores,
            Products(m),
            self.levels.keep,
            within_share_of=("score",),
            folded=self.folded,
        )
        if not self.public.intervals:
            return ScoreVariance.of(flat, x.sigma**2 * ridge, False)
        unit, many = entry_sd(self.ask, question, self.by), self.mean_rows
        wanted = self.robust and MEAT_LEAST * m * many * unit < MATRIX_NOISE * self.scores
        if not self.ask.decide("meat", bool(wanted)):
            return ScoreVariance.of(flat, x.sigma**2 * ridge, False)
        # The scores of a privacy unit with `many` rows are added up. If these scores have equal norms, the squared norm
        # of their sum is at most ``many**2`` times the squared norm of one score, and about `many` times this squared
        # norm if the scores are independent.
        radius = x.sigma * np.sqrt(many * max(MEAT_LEAST * m * many, MATRIX_NOISE * self.scores / unit))
        released = NoisyMatrix.of(self.ask(question.inside(radius), by=self.by.products)).value
        value = cleared(released, unit * radius**2, max(float(np.trace(released)) / m, usual))
        return ScoreVariance.of(plain.root @ value @ plain.root / self.scores, x.sigma**2 * ridge, True)

    # stage 5: the clipping threshold of scores
    def lengths(self, w: Start) -> Lengths:
        """Release the histogram of score norms, and return it with denoised counts.

        Scores are computed for the whitened predictors and the coefficients in `w`.
        """
        sizes = self.score_sizes(w, edges(w.m**0.5 / 8, w.longest * w.largest_psi * self.most_rows))
        return Lengths.released(self.ask, self.by, sizes, self.total(self.scores), self.tail)

    def clip(self, pilot: FirstStep, w: Start, lengths: Lengths) -> Clip:
        """Return the clipping threshold of scores that gives the shortest confidence interval.

        Rows with a rare value of a two-valued response have residuals of the same sign, so the clipped parts of their
        scores are assumed to add up in one coefficient.
        """
        variance = float(np.trace(pilot.variance.value)) / w.m
        squares, unseen = self.squares(w, variance, lengths.total_square[0] / w.m)
        along = 1.0 if self.two_valued else None
        clip = best_clip(lengths, self.score_sd(w), w.m, self.tail, w.m * unseen, unseen_along=along)
        return replace(clip, least=squares / self.rows)

    @property
    def two_valued(self) -> bool:
        """Whether squared loss is fitted to single rows and the response seems to have two values, one of them rare."""
        return self.of_squares and bool(np.isfinite(self.levels.rarer))

    @property
    def of_squares(self) -> bool:
        """Whether the loss is squared loss and each score belongs to a single row, not to a privacy unit."""
        return isinstance(self.loss, SquaredLoss) and not self.public.by_unit

    def squares(self, u: Start, variance: float, seen: float) -> tuple[float, float]:
        """Return a lower bound on the sum of squared residuals, and the part of this sum that a histogram misses.

        Both results are divided by `variance`. The released histogram of score norms may miss a few large scores,
        because of its noise. The sum of squared residuals is therefore released by a separate query in two cases:

        - The sum of squared residuals computed from the histogram is far below an upper bound of the sum.
        - The response seems to have two values, one of them rare.

        The query is only possible in fits with intervals, for squared loss and without privacy units. It is omitted if
        its noise would be too large. Without the query both results are 0, with one exception: if the query's noise
        would be too large and the response seems to have a rare value, the second result is the upper bound minus the
        sum computed from the histogram.

        Parameters
        ----------
        u : Start
            Coefficients at which the residuals are computed.
        variance : float
            Mean variance of a score's coordinates, approximately the variance of the residuals.
        seen : float
            Sum of squared residuals, computed from the histogram, divided by `variance`.
        """
        most, largest, rarer = self.rows * u.most_sigma**2, u.largest_psi, self.levels.rarer
        of = SquaredResiduals(u.eta, largest)
        question = Sum("residual squares", of, Fractions(1), self.levels.keep, within_share_of=("score",))
        if not self.public.intervals:
            return 0.0, 0.0
        rare = self.two_valued
        most = max(most, rarer * largest**2) if rare else most
        doubted = rare or (self.of_squares and variance * seen < LITTLE_SEEN * most)
        if doubted:
            sd = sd_of(self.ask.law(question, by=self.by.counts)) * largest**2
            doubted = sd < (1 - LITTLE_SEEN) * most
        if not self.ask.decide("residual squares", bool(doubted)):
            return 0.0, max(most / variance - seen, 0.0) if rare else 0.0
        released = self.ask(question, by=self.by.counts)
        noise = sd_of(released.law) * largest**2
        squares = float(released.value[0]) * largest**2
        hidden = squares - variance * seen
        hides = (max(hidden, 0.0) + noise) / variance if rare or hidden > VISIBLE * noise else 0.0
        return max(squares - VISIBLE * noise, 0.0) / variance, hides

    def mean_square(self, x: Start, products: FloatArray) -> float:
        """Return the mean square of psi, the derivative of a row's loss with respect to the linear predictor.

        Up to sign, a row's score s is psi times the vector w of the whitened predictors of `x`. The matrix `products`
        is the sum of s s' over clipped scores s. With an intercept, there is a vector t with ``t'w = 1`` for every row,
        and the result is ``t' products t`` divided by the number of scores. Without an intercept, the result is the
        mean diagonal entry of `products`, divided by the number of scores.
        """
        if self.box.intercept is None:
            return float(np.trace(products)) / x.m / self.scores
        one = x.coordinates(np.eye(self.box.c)[self.box.intercept], self.levels.hidden)
        return float(one @ products @ one) / self.scores

    # stage 6: the final score and the estimating equation
    def sampling(self, M: ScoreVariance, clip: Clip, final: LastRelease) -> FloatArray:
        """Return the sampling variance of a standardised score in the final Newton step, shape (m, m).

        The variance `M` was computed before the final step, for scores with another clipping threshold. Let r be the
        trace of the final scores' variance divided by the trace of `M`; r is computed from the second moments of the
        final scores if `final` includes these moments, and otherwise from the histogram of score norms (`clip`). A
        value of r below 1 is raised to 1, unless `M` was not released and r is computed from the histogram. The result
        is the standardised form of one of two matrices:

        - If r is at most 1, the matrix is r times `M`.
        - If r is above 1, the excess is due to scores that were clipped more before the final step than in it. Because
          the directions of these scores are unknown, the matrix is `M` plus (r - 1) times the mean diagonal entry of
          `M` for every whitened predictor, as under equal error variances.

        If error variances may differ between rows, and second moments of the final scores are released, the second
        moments are also compared with the result, along the eigenvectors of the difference of the two matrices. Where
        the second moments are larger by more than noise, they replace the result.
        """
        inverse, m = M.metric.inverse, len(M.value)
        expected = inverse @ M.value @ inverse
        most = max(MOST_RATIO * self.mean_rows, clip.least) + clip.unseen / self.scores
        least = max(1.0, clip.least)
        even = inverse @ inverse * (float(np.trace(M.value)) / m)

        def times(ratio: float) -> FloatArray:
            return expected * min(ratio, 1.0) + even * max(ratio - 1.0, 0.0)

        if final.products is None:
            ratio = clip.variance / self.scores
            return times(float(np.clip(ratio, least, most)) if M.released else ratio)
        if not self.robust:
            ratio = self.mean_square(final.at, final.products.value) / float(M.value[0, 0])
            return expected * float(np.clip(ratio, least, most))
        seen = final.products.value / self.scores
        ratio = float(np.clip(np.trace(seen) / np.trace(expected), least, most))
        values, V = np.linalg.eigh(seen - times(ratio))
        clear = values > noise_edge(m, final.products_sd) / self.scores
        return times(ratio) + (V * np.where(clear, values, 0.0)) @ V.T

    def hessian(self, pilot: FirstStep, w: Start, clip: Clip, last: LastRelease) -> Hessian:
        """Return the Hessian that was released before the first step, with the matrix `back` for the final score.

        `back` converts the final score to the whitened predictors with which the Hessian was computed. Nothing is
        released here, and only `pilot`, the result of the first step, is used.
        """
        back = pilot.T_inverse @ pilot.variance.metric.root
        return Hessian(pilot.hessian.matrix, pilot.began.to_theta, back, self.rows)

    def meat(self, pilot: FirstStep, clip: Clip, last: LastRelease, hessian: Hessian) -> Meat:
        L, sampling = hessian.back, self.sampling(pilot.variance, clip, last)
        return Meat(self.small_sample * self.scores * L @ sampling @ L.T, self.freedom)

    def doubts(self, step: Step) -> Doubts:
        """Return bounds on the errors of the estimate due to the Hessian's noise, to clipping, and to Huber's loss.

        The errors due to the Hessian's noise, and to clipping in the Hessian, are proportional to the norm that the
        final Newton step would have without noise. The larger of two bounds on the bias of the score is used:

        - Clipping: the first step may have a clipping bias, and the final step, with another clipping threshold, would
          then be longer than noise alone explains. The bound is proportional to the part of the final step that
          exceeds a multiple of its noise sd.
        - Huber's loss: its Hessian depends on the coefficients, because only rows with residuals below the threshold
          of the loss contribute. The bias is assumed to be at most the share min(1, s^2 / sigma^2) of the final score,
          where s^2 is the mean squared change of the linear predictor in the final step, without noise, and sigma is
          the residual scale.

        For columns with wide declared bounds, the bounds of `far_rows` are added.
        """
        pilot, clip, last, n, m = step.pilot, step.clip, step.last, self.rows, self.m
        first, T, plain, start, read = pilot.score, pilot.T, pilot.plain, pilot.began, pilot.hessian
        root, moved = pilot.variance.metric.root, pilot.start
        last_step = T @ (root @ last.value / n)
        began = float(((T @ plain.root @ first.value) ** 2).sum()) / n**2
        cut = float((step.lengths.counts * np.maximum(step.lengths.lengths * moved.sigma - first.radius, 0.0)).sum())
        cut *= min(1.0, (ALONG_SEEN / m) ** 0.5)
        squared = max(
            float(last_step @ last_step) - last.sd**2 * float(((T @ root) ** 2).sum()) / n**2,
            first.sd**2 * float((T**2).sum()) / n**2
            + read.sd**2 * began * float(np.trace(T @ T @ T @ T)) / n**2
            + (float(np.linalg.norm(T, 2)) * cut / n) ** 2,
        )
        # `excess`: change of each coefficient in the final step, less a multiple of the noise sd of the change
        to_theta = start.to_theta
        noise = last.sd**2 * root @ root + first.sd**2 * plain.root @ plain.root
        noise = noise + read.sd**2 * began * (1 + 1 / m) * T @ T
        sd = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", to_theta @ T, noise, to_theta @ T), 0.0)) / n
        change = to_theta @ last_step
        excess = np.sign(change) * np.maximum(np.abs(change) - MOVE_SDS[self.by.shares] * sd, 0.0)
        back = read.matrix.power(1.0) @ np.linalg.pinv(to_theta) @ excess
        falling = min(1.0, 2 * first.radius / (moved.sigma * clip.radius)) ** 2
        remaining = float(np.sqrt(squared))
        # mean squared change of the linear predictor in the last step, less the part that is due to noise
        change_squared = max(float(last_step @ last_step) - last.sd**2 * float(((T @ root) ** 2).sum()) / n**2, 0.0)
        bent = min(1.0, change_squared / moved.sigma**2) if self.loss.bounded else 0.0
        bounds = [Allowance(back[:, None], MOVE * falling), Allowance(step.score[:, None], bent)]
        return Doubts(
            remaining=remaining,
            known=-start.coordinates(moved.theta - self.flat, self.levels.hidden),
            noises=(Loading(np.sqrt(read.cut**2 * squared / m) * np.eye(m)),),
            clipped=(
                max(bounds, key=lambda one: one.size * float(np.linalg.norm(one.loading))),
                *self.far_rows(start, step.hessian.back, clip, read, last_step, remaining),
            ),
            facts=self.residual_sd(moved),
        )

    def residual_sd(self, at: Start) -> dict[str, float]:
        """Return the residual scale and, for least squares, the std error due to noise and clipping.

        For least squares, the scale and the std error follow from noisy second moments of clipped rows
        (`Start.variance_error`).
        """
        return {"sigma": at.sigma} if self.loss.needs_scale else with_std_error(at.sigma, at.variance_error)

    @property
    def flat(self) -> FloatArray:
        """Coefficients that predict the released mean response in every row, shape (c,); zero without an intercept."""
        flat = np.zeros(self.box.c)
        if self.box.intercept is not None:
            flat[self.box.intercept] = self.start.center
        return flat

    def far_rows(
        self, start: Start, L: FloatArray, clip: Clip, read: ReleasedHessian, last_step: FloatArray, remaining: float
    ) -> tuple[Allowance, ...]:
        """Return bounds on the score's clipping biases, for columns with bounds far beyond their released std dev.

        The usual bias bounds assume that clipped rows affect different coefficients. Here all clipped rows are assumed
        to affect the coefficient of one such column. There are two bounds for each column:

        - Clipping of scores: the bias bound under this assumption, minus the usual bound (both from `clip`).
        - Clipping of rows in the Hessian (`read`): a bound that is proportional to the size of the final step.

        No bounds are returned for a loss with a bounded derivative, unless ``tail="cautious"``.

        Parameters
        ----------
        L : ndarray, shape (m, m)
            Matrix that converts the final score to a score for the whitened predictors of the Hessian. All bounds
            refer to the converted score.
        last_step : ndarray, shape (m,)
            Final Newton step, with noise.
        remaining : float
            Approximate norm of the final Newton step without noise.
        """
        if self.loss.bounded and not self.tail.aligned:
            return ()
        back, allowances = np.linalg.pinv(L), []
        for j in self.far_columns:
            along = start.W[j] / max(float(np.linalg.norm(start.W[j])), 1e-300)
            in_score = back @ along
            unit = in_score / max(float(np.linalg.norm(in_score)), 1e-300)
            allowances.append(Allowance((L @ unit)[:, None], max(clip.aligned - clip.excess, 0.0)))
            step = abs(float(along @ last_step)) + remaining / start.m**0.5
            allowances.append(Allowance(along[:, None], read.all_cut * step))
        return tuple(allowances)
