"""Least squares by the minimiser of a perturbed loss, with clipped score norms (row norm times absolute residual).

Objective perturbation adds a random linear term and a ridge penalty to the loss, and minimises the sum exactly. Unlike
noisy Newton steps, it needs a released Hessian only for inference and to remove the bias of the ridge. The comments
number five stages: (1) second moments of the predictors, first the rough "coarse matrix" and, if this matrix is too
noisy, the second moments of whitened rows; (2) the histogram of score norms; (3) the minimiser; (4) the sums of squared
scores; and (5) the estimating equation.

Let theta be the minimiser, A the sum of ww' over whitened rows w, and E the sum over rows of (score minus clipped
score) at theta. Because the normal equations are linear, the least-squares solution is exactly ``theta + A^-1 (E + G +
b)``, with the gradient G of the ridge penalty at theta, and the coefficient vector b of the random linear term.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from privstats.estimators.base import Noises, entry_sd, sd_of, with_std_error
from privstats.estimators.constants import (
    AFTER_GAP,
    ALONG_SEEN,
    BOUNDED_RIDGES,
    BOUNDED_TILT,
    FLOOR,
    HELD_LEAST,
    HELD_MOST,
    HELD_NOISE,
    LEAST_EIGENVALUE,
    MATRIX_NOISE,
    SECOND_HELD,
    SQUARES_NOISE,
    SUM_SEEN,
    SYNTHETIC_ROWS,
    TILT_SHARE,
    UNEXPLAINED,
    VISIBLE,
)
from privstats.estimators.histogram import (
    Clip,
    Lengths,
    Tail,
    Whole,
    best_clip,
    edges,
    part_along,
    predicted_length,
    shortest_clip,
    with_tail,
)
from privstats.estimators.one_step import Doubts, Fitted, Hessian, LastRelease, OneStep, Pilot, Step
from privstats.estimators.preconditioner import Start, roots
from privstats.estimators.ridges import curvature_of, of_shortest
from privstats.gate.questions import Sum, Values
from privstats.inference.estimate import Allowance, Coordinates
from privstats.inference.matrix import NoisyMatrix, noise_edge
from privstats.inference.meat import Meat
from privstats.inference.noise import Loading
from privstats.inference.notes import Note
from privstats.losses.convex import ClippedSquares
from privstats.losses.rows import ClippedProductRows, ClippedProductScores, ProductSizes, WeightedLinear
from privstats.mechanisms.objective.perturbation import ObjectivePerturbation, TiltLaw
from privstats.numerics.law import FloatArray
from privstats.privacy.release import Release
from privstats.sets.cells import Shells
from privstats.sets.vectors import Products, SquaredEntries
from privstats.sets.weighted_losses import WeightedLosses

FARTHER = 1.000001  # factor by which the bound on row norms is enlarged, to allow for rounding errors
LONGEST_SIZE = 2.0**40  # largest ratio of the last to the first bin edge of score norms, limited by float64 precision


@dataclass(frozen=True, eq=False)
class TwoStrips(Lengths):
    """Histogram of score norms, and a bound on the bias that arises if rows of large norm get lower weights.

    Parameters
    ----------
    lost : float
        Bound on the bias that lowered weights cause in one coordinate of the score. Privacy requires a limit on the
        curvature of a row's loss: the row's weight times its squared norm. The weight of a row with a larger curvature
        is therefore lowered, and a lower weight also reduces the norm of the row's score. The bound is computed from a
        released histogram of these reductions of score norms. If noise may explain every count of this histogram, the
        first count is assumed to be one noise sd, and all other counts to be 0.
    """

    lost: float = 0.0

    @classmethod
    def of_both(
        cls, counts: Release, ends: tuple[float, ...], known: Whole | None, tail: Tail, by: Noises, m: int
    ) -> TwoStrips:
        """Return a denoised histogram of score norms, with a bound on the bias due to lowered weights of rows.

        Privacy requires a limit on the curvature of a row's loss: the row's weight times its squared norm. If a row
        exceeds the limit, its weight is lowered until the curvature equals the limit. The lower weight reduces the norm
        of the row's score.

        Parameters
        ----------
        counts : Release
            Released counts of rows by score norm. If weights can be lowered, counts by the reduction of the score norm
            follow; each row with a lowered weight is counted only by the reduction.
        ends : tuple of float
            Upper edges of the bins of score norms.
        known : Whole, optional
            Total of all counts; by default the sum of the released counts.
        tail : Tail
            Assumption on the tail of the distribution of score norms.
        by : Noises
            Noise mechanisms, one for each kind of query.
        m : int
            Number of coordinates of a score.
        """
        sd, second = sd_of(counts.law), counts.value[len(ends) :]
        total = known or Whole(max(float(counts.value.sum()), 1.0), np.inf)
        one = Lengths.denoised(counts.value[: len(ends)], sd, ends, total, tail, by.shares)
        if not len(second):
            return cls(one.counts, one.lengths, one.hidden, sd)
        seen = (second > AFTER_GAP[by.shares] * sd).any()
        many = with_tail(second, sd, tail, by.shares)[0] if seen else np.r_[sd, np.zeros(len(second) - 1)]
        middle = np.sqrt(np.r_[ends[0] / 2, ends[:-1]] * np.asarray(ends))
        lost = float((many * middle).sum()) * part_along(ALONG_SEEN, m, tail)
        return cls(one.counts, one.lengths, one.hidden, sd, lost)


@dataclass(frozen=True, eq=False)
class PerturbedSquares(OneStep):
    """Least-squares fit by the minimiser of a perturbed loss, in the stages listed at the top of this module.

    Scores and residuals are divided by the residual scale. A denotes the sum of ww' over rows w of whitened predictors.

    Parameters
    ----------
    released : Hessian, optional
        The released matrix A, in the coordinates of its release (predictors whitened by the coarse matrix).
    """

    released: Hessian | None = None

    def equation(self, more: bool = False) -> Fitted:
        """Send all queries of the least-squares fit, and return the estimating equation.

        The predictors are first whitened by their released second moments. The ridge penalty then shrinks all
        directions equally. If errors have equal variances, the noise and the sampling error of the minimiser have
        proportional covariances. If `more` is True, the caller may send further queries afterwards.
        """
        A, start, n = self.both_matrices(), self.start, self.rows
        values, V = np.linalg.eigh(A.value / n)
        noise = float(np.diag(A.entry_variances(V)).max()) ** 0.5 / n
        raised = (V * np.maximum(values, max(FLOOR, self.m**0.5 * noise))) @ V.T
        back, T = roots(raised + start.W.T @ self.levels.ridge @ start.W)
        hessian = Hessian(A, start.to_theta, back, n)
        whitened = replace(self, start=start.remapped(T), released=hessian)
        return super(PerturbedSquares, whitened.with_squares(A.mapped(T))).equation(more)

    def with_squares(self, A: NoisyMatrix) -> PerturbedSquares:
        """Release sums of squares of whitened predictors, if noise allows; return the fit with corrected moments A.

        The clipping of row norms makes A, the released matrix of second moments, too small and all intervals too long.
        The m sums of squares have less noise than the m (m + 1) / 2 different entries of A, so rows are clipped at a
        larger norm for these sums. Each sum of squares that exceeds the diagonal entry of A replaces this entry; the
        other entries in the same row and column are scaled by the square root of the ratio.

        Parameters
        ----------
        A : NoisyMatrix
            The matrix A in the coordinates of the whitened predictors; approximately the number of rows times the
            identity.

        Notes
        -----
        A row w is clipped to norm R and contributes the squares of its entries. Two such vectors have l1 distance at
        most 2 R^2, which is the sensitivity to a replaced row (`SquaredEntries`). Under pure eps-differential privacy
        the noise is Laplace.
        """
        assert self.released is not None
        start, m, n = self.start, self.m, self.rows
        of, axes = WeightedLinear(start.P), np.eye(m)
        question = Sum("whitened squares", of, SquaredEntries(m), self.levels.keep, within_share_of=("coefficients",))
        unit = sd_of(self.ask.law(question.inside(1.0), by=self.by.counts))
        if not self.ask.decide(question.label, bool(unit * HELD_LEAST * m < HELD_NOISE * n)):
            return self
        own, variances = np.diag(A.value), A.entry_variances(axes)
        noise = float(np.sqrt(m * np.diag(variances).mean())) / n
        release = self.ask(self.held(question, unit, start, noise), by=self.by.counts)
        squares = np.maximum(release.value, own)
        longer = np.sqrt(np.maximum(squares, LEAST_EIGENVALUE * n) / np.maximum(own, LEAST_EIGENVALUE * n))
        value, variances = A.value * np.outer(longer, longer), variances * np.outer(longer, longer) ** 2
        value[np.diag_indices(m)] = squares
        variances[np.diag_indices(m)] = np.where(release.value > own, sd_of(release.law) ** 2, np.diag(variances))
        back = self.released.back
        hessian = replace(
            self.released, matrix=NoisyMatrix.uncorrelated(value, variances, axes).mapped(back), back=back * longer
        )
        return replace(self, start=start.remapped(np.diag(1 / longer)), released=hessian)

    def length(self) -> float:
        """Return the expected interval length of perturbed least squares, divided by the length without privacy.

        The distribution of score norms is assumed to have slightly heavy tails.
        """
        start, m, n = self.start, self.start.m, self.sizes.rows
        sizes = Sum("score sizes", lambda block: block, Shells(1, self.ends))
        sd = sd_of(self.ask.law(sizes, by=self.by.counts))
        longest = start.longest * start.largest_residual / start.sigma
        rarer = self.levels.rarer
        length = predicted_length(sd_of(self.unit_law), sd, m, n, self.tail, longest, self.by.shares, rarer) / 1.96
        assert start.moments is not None
        noises = [self.weakest_sd, entry_sd(self.ask, self.second, self.by) * HELD_LEAST * m]
        both = float(np.sum(np.asarray(noises) ** -2.0) ** -0.5) / n
        return float(length / max(1 - noise_edge(m, both), LEAST_EIGENVALUE))

    @property
    def mechanism(self) -> ObjectivePerturbation:
        return ObjectivePerturbation(self.tilt_share)

    @property
    def tilt_share(self) -> float:
        """Share of the minimiser's budget that is used by the random linear term of the perturbed loss.

        The remaining share is used by the ridge penalty that privacy requires.
        """
        return TILT_SHARE

    # stage 1: second moments of whitened rows
    @property
    def second(self) -> Sum:
        """Query for the sum of w w' over rows w of predictors, whitened by the coarse matrix and clipped to norm 1."""
        of, within = WeightedLinear(self.start.P), Products(self.start.m)
        return Sum("second matrix", of, within, self.levels.keep, within_share_of=("coefficients",))

    @cached_property
    def weakest_sd(self) -> float:
        """Largest noise sd of a diagonal entry of the coarse matrix (first released second moments) after whitening."""
        moments = self.start.moments
        assert moments is not None
        return float(np.sqrt(np.diag(moments.entry_variances(np.eye(self.start.m))).max()))

    def pilot(self) -> Pilot:
        return Pilot(self.start)

    def both_matrices(self) -> NoisyMatrix:
        """Return second moments of whitened rows: the coarse (first released) matrix, or the mean of two matrices.

        The second matrix is released if the coarse matrix is noisy. The two matrices are averaged entry by entry, in a
        basis in which the noises of different entries of the coarse matrix are uncorrelated. The noise of the second
        matrix grows with the norm to which rows are clipped. This norm is chosen so that the noise is about the share
        `SECOND_HELD` of a lower bound on the coarse matrix's smallest eigenvalue.
        """
        start, m, n = self.start, self.start.m, self.sizes.rows
        coarse = start.moments
        assert coarse is not None
        if not self.ask.decide("second matrix", bool(self.weakest_sd * m**0.5 > MATRIX_NOISE * n)):
            return coarse
        weakest = float(np.clip((np.linalg.eigvalsh(coarse.value)[0] - VISIBLE * self.weakest_sd) / n, 0.0, 1.0))
        unit = entry_sd(self.ask, self.second, self.by)
        question = self.held(self.second, unit, start, SECOND_HELD * weakest)
        read = NoisyMatrix.of(self.ask(question, by=self.by.products))
        V = np.linalg.eigh(start.W.T @ start.W)[1]
        return coarse.combined(V.T @ read.value @ V, read.entry_variances(V), V)

    def held(self, question: Sum, unit: float, start: Start, noise: float) -> Sum:
        """Return the query `question` with rows clipped to the norm at which the sums have the relative noise `noise`.

        For m predictors, the squared norm is at least ``HELD_LEAST * m`` and at most ``HELD_MOST * m``. The squared
        norm is also at most the largest squared norm of a row.

        Parameters
        ----------
        question : Sum
            Query for sums of products or squares of row entries, with rows clipped to norm 1.
        unit : float
            Noise sd of a sum if rows are clipped to norm 1.
        start : Start
            Whitened predictors; a row of the query contains the values of these predictors.
        noise : float
            Intended relative noise of the sums: ``sqrt(m) s / n`` for m predictors, n rows and the noise sd s of a sum.
        """
        m = self.m
        squared = float(np.clip(noise * self.rows / unit / m**0.5, HELD_LEAST * m, HELD_MOST * m))
        return question.inside(min(squared**0.5, start.longest))

    # stage 2: the clipping threshold of scores
    @cached_property
    def limit(self) -> float:
        """Largest clipping threshold of residuals: twice the bound on absolute residuals at the starting coefficients.

        The threshold is in units of the residual scale.
        """
        return 2 * self.start.largest_residual / self.start.sigma

    def within(self, radius: float, curvature: float) -> WeightedLosses:
        """Return the set of possible losses of a row if score norms and loss curvatures are limited.

        Parameters
        ----------
        radius : float
            Largest Euclidean norm of a score.
        curvature : float
            Largest curvature of a row's loss: the weight of the row times the squared norm of its predictors.
        """
        start, stretched = self.start, self.limit / radius
        most = start.largest_residual / start.sigma
        far = most * max(1.0, stretched * min(start.longest, curvature**0.5))
        longest = max(start.longest, curvature * stretched) * FARTHER
        return WeightedLosses(start.m, ClippedSquares(self.limit), radius / self.limit, curvature, longest, (-far, far))

    def coefficients(self, within: WeightedLosses) -> Values:
        """Return the query for the minimiser of the perturbed loss.

        Each row's score norm and loss curvature are limited to the bounds that `within` contains. The answer is the
        minimiser minus the starting coefficients, divided by the residual scale.
        """
        start, limit = self.start, self.limit
        rows = ClippedProductRows(start.P, start.residual / start.sigma, within.radius * limit, within.curvature, limit)
        return Values("coefficients", rows, within=within, keep=self.levels.keep)

    @cached_property
    def unit_law(self) -> TiltLaw:
        """Distribution of the perturbed loss's random linear term, with the coefficient of the ridge penalty.

        The distribution and the coefficient are computed for score norms and loss curvatures of at most 1.
        """
        law: TiltLaw = self.ask.law(self.coefficients(self.within(1.0, 1.0)), by=self.mechanism)
        return law

    @cached_property
    def curvature(self) -> float:
        """Limit on the curvature of a row's loss, which is the row's weight times its squared norm.

        Privacy requires a ridge penalty proportional to the limit. The method `curved` computes the largest limit for
        which a ridge coefficient of ``BOUNDED_RIDGES[-1]`` times the number of rows suffices for privacy.
        """
        return self.curved(BOUNDED_RIDGES[-1])

    def curved(self, ridge: float) -> float:
        """Return the largest loss curvature of a row for which a ridge penalty of ``ridge * n`` suffices, for n rows.

        For m coefficients, the result is at least ``HELD_LEAST * m``, even if privacy then requires a larger ridge. The
        result is at most the largest squared row norm.
        """
        return min(curvature_of(ridge, self.unit_law.ridge, self.m, self.rows), self.start.longest**2)

    @cached_property
    def ends(self) -> tuple[float, ...]:
        """Upper edges of the bins in the histogram of score norms.

        Norms above `LONGEST_SIZE` times the first edge are counted in the last bin, too.
        """
        least = self.start.m**0.5 / 8
        return edges(least, min(self.largest_score / self.start.sigma, LONGEST_SIZE * least))

    @property
    def largest_score(self) -> float:
        """Upper bound on the norm |w| |residual| of the score of a row within the declared bounds.

        Here w is the vector of whitened predictors, and the response is scaled to [-1, 1]. The bound is computed on a
        lattice of possible rows. If this lattice would have too many rows, the bound is the product of the bounds on
        |w| and |residual|.
        """
        start = self.start
        crude, lattice = (
            start.longest * min(start.largest_residual, self.limit * start.sigma),
            self.box.vertices(self.levels.kept or None, SYNTHETIC_ROWS),
        )
        if lattice is None:
            return crude
        rows, numbers = lattice
        length = np.linalg.norm(rows @ start.P[: self.box.c], axis=-1)
        residual = 1.0 + np.abs(rows @ start.theta) + start.offset_reach
        for axis in numbers:
            here, there = range(rows.shape[axis] - 1), range(1, rows.shape[axis])
            length, residual = (
                np.maximum(value.take(here, axis), value.take(there, axis)) for value in (length, residual)
            )
        return min(crude, float((length * np.minimum(residual, self.limit * start.sigma)).max()))

    def lengths(self, w: Start) -> Lengths:
        """Release the histogram of score norms at the starting coefficients, for the choice of a clipping threshold.

        The curvature of a row's loss is its weight times its squared norm. The weight of a row with a curvature above
        the attribute `curvature` is lowered, at every clipping threshold; the lower weight reduces the norm of the
        row's score. Such a row is counted in a second set of bins, by the size of the reduction.
        """
        start, n, ends = self.start, self.sizes.rows, self.ends
        far = start.longest**2 > self.curvature
        # if no row can exceed the limit on the curvature, the limit is set to infinity, so that rounding errors cannot
        # lower a weight
        curvature = self.curvature if far else np.inf
        of = ProductSizes(start.P, start.residual / start.sigma, curvature, ends[-1])
        bins = (*ends, *(ends[-1] + end for end in ends)) if far else ends
        counts = self.ask(Sum("score sizes", of, Shells(1, bins), self.levels.keep), by=self.by.counts)
        return TwoStrips.of_both(counts, ends, self.total(n), self.tail, self.by, start.m)

    def clip(self, pilot: Pilot, w: Start, lengths: TwoStrips) -> Clip:
        """Return the clipping threshold of scores that gives the shortest confidence interval.

        If the sum of squared norms in the released histogram `lengths` is far below its expected value (for residuals
        of variance 1), scores of rows with a rare value of the response are assumed to be missing from the histogram.
        Such rows have residuals of the same sign, so the clipped parts of their scores are assumed to add up in one
        coefficient.
        """
        m, n = self.m, self.rows
        seen = lengths.total_square[0]
        unseen = n * m - seen if seen < SUM_SEEN * n * m else 0.0
        clip = best_clip(lengths, sd_of(self.unit_law), m, self.tail, unseen, lengths.lost, 1.0)
        return replace(clip, curvature=self.curvature)

    # stage 3: the minimiser of the perturbed loss
    def last(self, w: Start, clip: Clip) -> LastRelease:
        """Release the minimiser of the perturbed loss, and return it with the noisy sum of clipped scores.

        The scores are computed at the minimiser. Their noisy sum needs no release of its own: it equals the gradient of
        the ridge penalty at the minimiser.
        """
        question = self.coefficients(self.within(clip.radius, clip.curvature))
        return LastRelease.of_minimiser(
            self.ask(question, by=self.mechanism), clip.radius, self.start, self.start.sigma
        )

    def hessian(self, pilot: Pilot, w: Start, clip: Clip, last: LastRelease) -> Hessian:
        assert self.released is not None
        return replace(self.released, to_theta=last.at.sigma * self.released.to_theta)

    # stage 4: the variance of scores
    def meat(self, pilot: Pilot, clip: Clip, last: LastRelease, hessian: Hessian) -> Meat:
        """Return the score's variance matrix, the middle factor of the sandwich, in the coordinates of the Hessian.

        In the coordinates of the whitened predictors, the matrix is assumed to be diagonal. Its diagonal is computed
        from released sums of squared score entries. If error variances are assumed equal, or if no intervals are
        requested, all diagonal entries are equal to a variance computed from the histogram of score norms.
        """
        at, level = last.at, max(clip.variance, SQUARES_NOISE * self.sizes.rows)
        if not (self.robust and self.public.intervals):
            return Meat(self.small_sample * level * np.eye(self.m), self.freedom).mapped(hessian.back)
        of = ClippedProductScores(at.P, at.residual / at.sigma, clip.radius, clip.curvature, self.limit)
        return self.meat_of_squares(of, clip, last, level).mapped(hessian.back)

    def excess(self, lengths: Lengths, clip: Clip, meat: Meat, hessian: Hessian) -> FloatArray:
        """Return a bound on the clipping bias of each coordinate of the score, shape (m,).

        The bound has three terms. The first is the total score norm that clipping removes, computed from the released
        histogram `lengths`, times a factor: for a coordinate with the share s of the sum of squared scores, the factor
        is proportional to sqrt(s), and at most 1. The other terms are equal for all coordinates, and account for rare
        scores missing from the histogram, and for rows with lowered weights (`TwoStrips`).
        """
        squares = np.diag(meat.mapped(np.asarray(np.linalg.inv(hessian.back), dtype=float)).value)
        parts = squares / squares.sum()
        each = np.array([self.clipped_size(lengths, clip, 1 / part) for part in parts])
        return clip.excess - self.clipped_size(lengths, clip, self.m) + each

    def clipped_size(self, lengths: Lengths, clip: Clip, m: float) -> float:
        """Return a bound on the bias that clipping causes in one of m score coordinates.

        `lengths` is the released histogram of score norms, and `clip` has the clipping threshold.
        """
        return float(lengths.taken(np.r_[clip.radius], m, self.tail)[0])

    # stage 5: the estimating equation
    @property
    def signal_of_row(self) -> float:
        """Assumed upper limit of the effect of unidentified directions on the linear predictor.

        The effect is a root mean square over rows, in units of the residual scale (see `OneStep.signal_of_row`).
        """
        return UNEXPLAINED

    def doubts(self, step: Step) -> Doubts:
        """Return errors of the estimating equation, other than the errors of the last released score.

        The equation is A t = (sum of clipped scores), with the released Hessian A and the step t from the minimiser to
        the estimate. The first error is the product of A's noise and t. The second error is the additional clipping
        bias due to columns with wide bounds (`far_rows`).
        """
        at, A, back = step.last.at, step.hessian.matrix, step.hessian.back
        # W: whitening matrix in coordinates of the Hessian A; V: basis in which A's entries have uncorrelated noise
        W = at.W @ back
        V = np.linalg.eigh(W.T @ W)[1]
        through = V.T @ step.inverse @ step.spread @ step.inverse @ V
        moved = np.diag(through) + (V.T @ step.step) ** 2
        return Doubts(
            noises=(Loading(V * np.sqrt(A.entry_variances(V) @ moved)),),  # noise of the Hessian A times the step t
            clipped=tuple(back @ one for one in self.far_rows(at, max(step.clip.aligned - step.clip.excess, 0.0))),
            facts=self.residual_sd(step),
        )

    def residual_sd(self, step: Step) -> dict[str, float]:
        """Return the std dev of the residuals at the estimate, and the std error of this std dev that is due to noise.

        The residual variance is the difference between the total and the explained variance of the response. Errors of
        the estimate increase the explained variance, so the expected increase is subtracted from the explained
        variance. The residual scale at the starting coefficients would be too large, because the starting slopes are
        noisy and biased towards zero. This scale is returned only if there is no intercept, or if the std dev of the
        response is not known, because the std dev was not released or its released value is smaller than the noise. The
        std error of the squared scale is then assumed to be the smaller of two numbers: the std error of the response's
        variance, and the squared scale. The second number is a limit, because allowances for noise make the scale too
        large rather than too small.
        """
        at, A, scales = step.last.at, step.hessian.matrix, self.scales
        one, sd = self.box.intercept, np.nan if scales is None else scales.response_sd
        wrong = np.nan if scales is None else scales.of_response[2]
        if one is None or not np.isfinite(sd):
            return with_std_error(at.sigma, min(wrong, at.sigma**2))
        onto = Coordinates(at.theta, step.hessian.to_theta, self.levels.hidden).back
        t, constant = onto @ at.theta + step.step, onto[:, one]
        mean = A.value @ constant
        rows = float(constant @ mean)
        about = A.value - np.outer(mean, mean) / max(rows, 1.0)
        errors = step.inverse @ step.spread @ step.inverse
        explained = (t @ about @ t - np.trace(about @ errors)) / rows
        sigma = float(np.sqrt(max(sd**2 - max(explained, 0.0), FLOOR * sd**2)))
        slopes, along = t - constant * (mean @ t) / max(rows, 1.0), about @ t
        variance = 4 * along @ errors @ along + A.variance_along(slopes[:, None])[0]
        return with_std_error(sigma, float(np.hypot(np.sqrt(variance) / rows, wrong)))

    def notes(self) -> tuple[Note, ...]:
        """Return notes on left-out factor levels, wide bounds, and a response with values at its bounds."""
        return (*super().notes(), *self.levels.clamped, *self.far_bounds(response=True))

    def far_rows(self, at: Start, all_along: float) -> tuple[Allowance, ...]:
        """Return, for each column with wide bounds, an additional bound on the clipping bias of the score.

        Bounds are wide if one of them is more than `FAR_BOUNDS` released standard deviations from the column's mean.
        Rows with extreme values of the column have scores in nearly the same direction, so their clipped parts may add
        up. The bound in this direction is `all_along`: the bias if the clipped parts of all scores add up, minus the
        usual bound on the clipping bias.
        """
        rows = [at.W[j] / max(float(np.linalg.norm(at.W[j])), 1e-300) for j in self.far_columns]
        return tuple(Allowance(along[:, None], all_along) for along in rows)


@dataclass(frozen=True, eq=False)
class CutHessian(Hessian):
    """A released Hessian of rows clipped to a Euclidean norm.

    Parameters
    ----------
    cut : float
        Assumed upper bound on the reduction of the Hessian by clipping, in every direction.
    """

    cut: float


@dataclass(frozen=True, eq=False)
class PerturbedHuber(PerturbedSquares):
    """Regression by the minimiser of a perturbed Huber loss, in which residuals and score norms are clipped.

    Residuals are divided by a released scale. Huber's scores are not linear in the coefficients, so the Hessian is
    released at the minimiser. The Hessian is the sum of w w' over the rows with absolute residuals below the threshold
    of Huber's loss, where w is the vector of a row's m whitened predictors, clipped to a norm. A sum over all n rows
    without clipping would have a trace of about n m. The reduction of the Hessian's trace by clipping is therefore at
    most n m minus the released trace, up to noise.
    """

    @property
    def tilt_share(self) -> float:
        """Share of the minimiser's budget that is used by the random linear term of the perturbed loss.

        The remaining share is used by the ridge penalty that privacy requires.
        """
        return BOUNDED_TILT

    @cached_property
    def limit(self) -> float:
        """Largest clipping threshold of residuals, in units of the residual scale: the threshold of Huber's loss."""
        return self.start.largest_psi / self.start.sigma

    def lengths(self, w: Start) -> Lengths:
        """Release the histogram of score norms at the starting coefficients."""
        of = ProductSizes(self.start.P, self.start.residual / self.start.sigma, np.inf, self.ends[-1], self.limit)
        question = Sum("score sizes", of, Shells(1, self.ends), self.keep)
        return Lengths.released(self.ask, self.by, question, self.total(self.rows), self.tail)

    def clip(self, pilot: Pilot, w: Start, lengths: Lengths) -> Clip:
        """Return the clipping threshold of scores and the limit on loss curvatures that give the shortest interval.

        The limit L on the curvature lowers the weights of rows, and so the norms of their scores. The reduction of a
        score of norm l is computed as if the residual were at the threshold k of Huber's loss: the row then has the
        curvature ``(l / k)^2``, and if this curvature exceeds L, the norm of the score becomes ``L k^2 / l``.
        """
        tried, noise = lengths.from_least(self.m**0.5 / 2), sd_of(self.unit_law)
        variance = lengths.squares(tried) / self.m

        def clip_at(curvature: float) -> Clip:
            taken = lengths.taken(self.left(lengths, tried, curvature), self.m, self.tail)
            return shortest_clip(tried, variance, taken, noise)

        return of_shortest(clip_at, self.curved)

    def clipped_size(self, lengths: Lengths, clip: Clip, m: float) -> float:
        """Return a bound on the bias of one of m score coordinates due to clipped scores and limited loss curvatures.

        The curvature of a row's loss is limited by lowering the row's weight, which also reduces its score.
        """
        return float(lengths.taken(self.left(lengths, clip.radius, clip.curvature), m, self.tail)[0])

    def left(self, lengths: Lengths, radii: FloatArray | float, curvature: float) -> FloatArray:
        """Return the limits to which score norms are reduced, for each norm in the histogram and each clipping radius.

        For a norm l in the histogram `lengths` and a clipping radius B in `radii`, the limit is
        ``min(B, curvature * k^2 / l)``, where k is the threshold of Huber's loss. The second term is due to the limit
        `curvature` on loss curvatures (see `clip`). The result has the shape (number of norms, number of radii).
        """
        return np.minimum(np.atleast_1d(radii), curvature * self.limit**2 / lengths.lengths[:, None])

    def with_squares(self, A: NoisyMatrix) -> PerturbedHuber:
        """Return the fit unchanged, without a release of sums of squares.

        In the base class, the released second moments A of the predictors are the Hessian of the fit, and are therefore
        corrected. In this class, A serves only to whiten the predictors, and the Hessian is released at the minimiser.
        """
        return self

    def hessian(self, pilot: Pilot, w: Start, clip: Clip, last: LastRelease) -> CutHessian:
        """Release the Hessian: the sum of w w' over whitened rows w, clipped to a norm chosen by the method `held`.

        Rows with absolute residuals above the threshold of Huber's loss contribute zero.
        """
        at, m = last.at, self.m
        hessian = Sum("hessian", at.hessian_rows, Products(m), self.keep)
        question = self.held(hessian, entry_sd(self.ask, hessian, self.by), at, HELD_NOISE)
        matrix = NoisyMatrix.of(self.ask(question, by=self.by.products))
        short = max(self.rows * m - float(np.trace(matrix.value)), 0.0) + matrix.trace_variance() ** 0.5
        return CutHessian(matrix, at.sigma * at.to_theta, np.eye(m), self.rows, short * min(1.0, 2.0 / m))

    def residual_sd(self, step: Step) -> dict[str, float]:
        """Return the released residual scale, by which the residuals in the Huber loss are divided."""
        return {"sigma": step.last.at.sigma}

    def doubts(self, step: Step) -> Doubts:
        """Return the errors given by `PerturbedSquares.doubts`, and an error due to the clipping of row norms.

        Clipping reduces the released Hessian, by at most the number `step.hessian.cut` in every direction (an
        assumption). The resulting error of the estimating equation is the missing part of the Hessian times the step t
        from the minimiser to the estimate. This error is treated as noise with equal variances in all coordinates and a
        root mean squared norm of ``step.hessian.cut`` times the norm of t.
        """
        doubts = super().doubts(step)
        sd = step.hessian.cut * float(np.linalg.norm(step.step)) / self.m**0.5
        return replace(doubts, noises=(*doubts.noises, Loading(sd * np.eye(self.m))))
