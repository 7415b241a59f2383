"""Least squares by one perturbed minimiser, whose rows' scores are clipped by the product of length and residual.

The noise of a released Hessian multiplies the error of a step; a perturbed minimiser has the exact Hessian inside, and
needs a released one for its ridge and for inference only. Stages, as the comments number them: 1 coarse matrix (before
the choice) and, where it is weak, a second one of whitened rows; 2 sizes of scores; 3 coefficients; 4 their squares.

With theta the minimiser, A the sum of ww' and E the sum of what clips take off scores,
``theta_LS = theta + A^-1 (E + ridge step + tilt)`` holds exactly, for the normal equations are linear.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from privstats.estimators.base import Noises, entry_sd, sd_of
from privstats.estimators.constants import (
    AFTER_GAP,
    ALONG_SEEN,
    BOUNDED_RIDGES,
    BOUNDED_TILT,
    FAR_BOUNDS,
    FLOOR,
    HELD_LEAST,
    HELD_MOST,
    HELD_NOISE,
    LEAST_EIGENVALUE,
    MADE_UP,
    MATRIX_NOISE,
    SECOND_HELD,
    SQUARES_NOISE,
    SUM_SEEN,
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
from privstats.estimators.one_step import Bread, Doubts, Fitted, LastRelease, OneStep, Pilot, Step
from privstats.estimators.preconditioner import Start, roots
from privstats.estimators.ridges import curvature_of, of_shortest
from privstats.gate.questions import Sum, Values
from privstats.inference.estimate import Allowance
from privstats.inference.matrix import NoisyMatrix, noise_edge
from privstats.inference.meat import Meat
from privstats.inference.noise import Loading
from privstats.inference.notes import Note, note
from privstats.losses.convex import ClippedSquares
from privstats.losses.rows import ClippedProductRows, ClippedProductScores, ProductSizes, WeightedLinear
from privstats.mechanisms.objective.perturbation import ObjectivePerturbation, TiltLaw
from privstats.numerics.law import FloatArray
from privstats.privacy.release import Release
from privstats.sets.cells import Shells
from privstats.sets.vectors import Products, SquaredEntries
from privstats.sets.weighted_losses import WeightedLosses

FARTHER = 1.000001  # what covers rounding of the longest row
LONGEST_SIZE = 2.0**40  # of a score, in least sizes: bins of a second strip still differ from the last of the first


@dataclass(frozen=True, eq=False)
class TwoStrips(Lengths):
    """Sizes of scores, and what the bound of curvature takes off those of long rows.

    Parameters
    ----------
    lost : float
        Along one coefficient; one sd of rows in the first bin where no count is in sight.
    """

    lost: float = 0.0

    @classmethod
    def of_both(
        cls, counts: Release, ends: tuple[float, ...], known: Whole | None, tail: Tail, by: Noises, m: int
    ) -> TwoStrips:
        """Return released counts of both strips without their noise.

        Parameters
        ----------
        counts : Release
            Of sizes up to each end, then of what is lost up to each end; of the first strip alone if nothing is.
        ends : tuple of float
        known : Whole, optional
            What all counts add up to; by default what they say themselves.
        tail : Tail
        by : Noises
        m : int
            Coordinates.
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
    """A second matrix, sizes of scores, the perturbed minimiser, and squares of its scores.

    Scores, their sizes and residuals are in residual scales; A is in rows.

    Parameters
    ----------
    bread : Bread, optional
        A, in the coordinates in which it was released, once it is.
    """

    bread: Bread | None = None

    def equation(self, more: bool = False) -> Fitted:
        """Release A, whiten once more by it, and go on with what is left of the budget.

        Noise of the minimiser then has the shape of the sampling error, and its ridge pulls no direction more than
        another. Directions are told from noise where A was released.
        """
        A, start, n = self.both_matrices(), self.start, self.rows
        values, V = np.linalg.eigh(A.value / n)
        noise = float(np.diag(A.entry_variances(V)).max()) ** 0.5 / n
        raised = (V * np.maximum(values, max(FLOOR, self.m**0.5 * noise))) @ V.T
        back, T = roots(raised + (start.W.T * self.levels.ridge) @ start.W)
        bread = Bread(A, start.to_theta, back, n)
        whitened = replace(self, start=start.remapped(T), bread=bread)
        return super(PerturbedSquares, whitened.with_squares(A.mapped(T))).equation(more)

    def with_squares(self, A: NoisyMatrix) -> PerturbedSquares:
        """Return the same with the squares of whitened rows read by themselves, where that tells more of A.

        Rows that a matrix holds make it small, and all intervals as much longer. Squares are m numbers in place of
        m (m + 1) / 2: with as much noise as the matrix's own their rows are held further out. Held rows count as short,
        never as long: of both readings of a square the larger one is taken, and products are stretched with them.

        Parameters
        ----------
        A : NoisyMatrix
            In coordinates of the start, in which it is nearly the number of rows times the identity.

        Notes
        -----
        A row contributes the squares of its entries, held at |w| <= R: the l1 distance of two such vectors, and with it
        the sensitivity to a replaced row, is at most 2 R^2 (`SquaredEntries`); noise is Laplace's under eps.
        """
        assert self.bread is not None
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
        back = self.bread.back
        bread = replace(
            self.bread, matrix=NoisyMatrix.uncorrelated(value, variances, axes).mapped(back), back=back * longer
        )
        return replace(self, start=start.remapped(np.diag(1 / longer)), bread=bread)

    def length(self) -> float:
        """Return the predicted length over that without privacy, for rows a little heavier than normal ones."""
        start, m, n = self.start, self.start.m, self.sizes.rows
        sizes = Sum("score sizes", lambda block: block, Shells(1, self.ends))
        sd = sd_of(self.ask.law(sizes, by=self.by.counts))
        longest = start.longest * start.largest_residual / start.sigma
        length = predicted_length(sd_of(self.unit_law), sd, m, n, self.tail, longest, self.by.shares) / 1.96
        assert start.moments is not None
        noises = [self.weakest_sd, entry_sd(self.ask, self.second, self.by) * HELD_LEAST * m]
        both = float(np.sum(np.asarray(noises) ** -2.0) ** -0.5) / n
        return float(length / max(1 - noise_edge(m, both), LEAST_EIGENVALUE))

    @property
    def mechanism(self) -> ObjectivePerturbation:
        return ObjectivePerturbation(self.tilt_share)

    @property
    def tilt_share(self) -> float:
        """Part of the coefficients' budget that the tilt has."""
        return TILT_SHARE

    # 1. the matrix of whitened rows
    @property
    def second(self) -> Sum:
        """The question for products of whitened rows."""
        of, within = WeightedLinear(self.start.P), Products(self.start.m)
        return Sum("second matrix", of, within, self.levels.keep, within_share_of=("coefficients",))

    @cached_property
    def weakest_sd(self) -> float:
        """Largest noise of a diagonal entry of the coarse matrix, whitened."""
        moments = self.start.moments
        assert moments is not None
        return float(np.sqrt(np.diag(moments.entry_variances(np.eye(self.start.m))).max()))

    def pilot(self) -> Pilot:
        return Pilot(self.start)

    def both_matrices(self) -> NoisyMatrix:
        """Return the sum of products of whitened rows: of the coarse matrix, and of a second one where that is weak.

        Both are combined in the axes of the coarse matrix, of which the weak ones have most of its noise. Rows of the
        second are held by what the weakest direction has at least, beyond noise: it must be told by this matrix.
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
        """Return a question for products or squares of rows, held where its noise is a chosen part of the rows.

        Parameters
        ----------
        question : Sum
        unit : float
            Noise of an entry of rows that are held at 1.
        start : Start
            Its predictors are the rows.
        noise : float
            sqrt(m) standard deviations of an entry's noise, in rows.
        """
        m = self.m
        squared = float(np.clip(noise * self.rows / unit / m**0.5, HELD_LEAST * m, HELD_MOST * m))
        return question.inside(min(squared**0.5, start.longest))

    # 2. the clip
    @cached_property
    def limit(self) -> float:
        """Largest clip of a residual: no row reaches it."""
        return 2 * self.start.largest_residual / self.start.sigma

    def within(self, radius: float, curvature: float) -> WeightedLosses:
        """Return the set of rows whose losses are minimised.

        Parameters
        ----------
        radius : float
            Longest score.
        curvature : float
            Largest weight times squared length.
        """
        start, stretched = self.start, self.limit / radius
        most = start.largest_residual / start.sigma
        far = most * max(1.0, stretched * min(start.longest, curvature**0.5))
        longest = max(start.longest, curvature * stretched) * FARTHER
        return WeightedLosses(start.m, ClippedSquares(self.limit), radius / self.limit, curvature, longest, (-far, far))

    def coefficients(self, within: WeightedLosses) -> Values:
        """Return the question for the minimiser, a step from the start in residual scales."""
        start, limit = self.start, self.limit
        rows = ClippedProductRows(start.P, start.residual / start.sigma, within.radius * limit, within.curvature, limit)
        return Values("coefficients", rows, within=within, keep=self.levels.keep)

    @cached_property
    def unit_law(self) -> TiltLaw:
        """Law of the tilt, and the ridge, of scores and curvatures up to 1."""
        law: TiltLaw = self.ask.law(self.coefficients(self.within(1.0, 1.0)), by=self.mechanism)
        return law

    @cached_property
    def curvature(self) -> float:
        """Largest curvature of a row: as large as the largest of `BOUNDED_RIDGES` lets it be."""
        return self.curved(BOUNDED_RIDGES[-1])

    def curved(self, ridge: float) -> float:
        """Return the largest curvature of a row that a ridge of this part of the rows allows."""
        return min(curvature_of(ridge, self.unit_law.ridge, self.m, self.rows), self.start.longest**2)

    @cached_property
    def ends(self) -> tuple[float, ...]:
        """Upper ends of bins of sizes of scores; sizes beyond `LONGEST_SIZE` share the last one."""
        least = self.start.m**0.5 / 8
        return edges(least, min(self.largest_score / self.start.sigma, LONGEST_SIZE * least))

    @property
    def largest_score(self) -> float:
        """The largest |w| |residual| over the box, by a lattice: between points the larger of neighbouring values."""
        start = self.start
        crude, lattice = (
            start.longest * min(start.largest_residual, self.limit * start.sigma),
            self.box.vertices(self.levels.kept or None, MADE_UP),
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
        """Release sizes of scores at the start.

        Rows with more than the largest curvature lose a part of their score whatever the clip is: they are counted
        apart, by what they lose.
        """
        start, n, ends = self.start, self.sizes.rows, self.ends
        far = start.longest**2 > self.curvature
        of = ProductSizes(start.P, start.residual / start.sigma, self.curvature, ends[-1])
        bins = (*ends, *(ends[-1] + end for end in ends)) if far else ends
        counts = self.ask(Sum("score sizes", of, Shells(1, bins), self.levels.keep), by=self.by.counts)
        return TwoStrips.of_both(counts, ends, self.total(n), self.tail, self.by, start.m)

    def clip(self, pilot: Pilot, w: Start, lengths: TwoStrips) -> Clip:
        """Return the clip with the shortest interval.

        Where sizes do not add up to what residuals of unit variance have, rare outcomes lie beyond all visible bins:
        their residuals have one sign, so that all of them may lie along one coefficient.
        """
        m, n = self.m, self.rows
        seen = float((lengths.counts * lengths.lengths**2).sum())
        unseen = n * m - seen if seen < SUM_SEEN * n * m else 0.0
        clip = best_clip(lengths, sd_of(self.unit_law), m, self.tail, unseen, lengths.lost, 1.0)
        return replace(clip, curvature=self.curvature)

    # 3. the minimiser
    def last(self, w: Start, clip: Clip) -> LastRelease:
        """Return the pull of the ridge at the minimiser."""
        question = self.coefficients(self.within(clip.radius, clip.curvature))
        return LastRelease.of_minimiser(
            self.ask(question, by=self.mechanism), clip.radius, self.start, self.start.sigma
        )

    def hessian(self, pilot: Pilot, w: Start, clip: Clip, last: LastRelease) -> Bread:
        assert self.bread is not None
        return replace(self.bread, to_theta=last.at.sigma * self.bread.to_theta)

    # 4. what scores vary by
    def meat(self, pilot: Pilot, clip: Clip, last: LastRelease, bread: Bread) -> Meat:
        """Return the variance of each coordinate of the score, from released squares."""
        at, level = last.at, max(clip.variance, SQUARES_NOISE * self.sizes.rows)
        if not (self.robust and self.public.intervals):
            return Meat(self.small_sample * level * np.eye(self.m), self.freedom).mapped(bread.back)
        of = ClippedProductScores(at.P, at.residual / at.sigma, clip.radius, clip.curvature, self.limit)
        return self.meat_of_squares(of, clip, last, level).mapped(bread.back)

    def excess(self, lengths: Lengths, clip: Clip, meat: Meat, bread: Bread) -> FloatArray:
        """Return what clipping may have moved each coordinate by: sizes beyond the clip lie where squares of scores do.

        What the sum of squares says is missing may lie anywhere, in full, and what far rows lose as visible rows may.
        """
        squares = np.diag(meat.mapped(np.asarray(np.linalg.inv(bread.back), dtype=float)).value)
        parts = squares / squares.sum()
        each = np.array([self.beyond(lengths, clip, 1 / part) for part in parts])
        return clip.excess - self.beyond(lengths, clip, self.m) + each

    def beyond(self, lengths: Lengths, clip: Clip, m: float) -> float:
        """Return what the clip takes off sizes of scores along one of m coordinates."""
        return float(lengths.taken(np.r_[clip.radius], m, self.tail)[0])

    # 5. the equation
    @property
    def signal_of_row(self) -> float:
        """Standard deviation of residuals that noise may have left unexplained, in residual scales."""
        return UNEXPLAINED

    def doubts(self, step: Step) -> Doubts:
        """Return what noise of the matrix and far rows may have moved."""
        at, A, back = step.last.at, step.bread.matrix, step.bread.back
        W = at.W @ back  # of A's coordinates: in its axes noises of entries do not correlate
        V = np.linalg.eigh(W.T @ W)[1]
        through = V.T @ step.inverse @ step.spread @ step.inverse @ V
        moved = np.diag(through) + (V.T @ step.step) ** 2
        return Doubts(
            noises=(Loading(V * np.sqrt(A.entry_variances(V) @ moved)),),  # of A in a step of that size
            clipped=tuple(back @ one for one in self.far_rows(at, max(step.clip.aligned - step.clip.excess, 0.0))),
            facts={"sigma": at.sigma},
        )

    def notes(self) -> tuple[Note, ...]:
        """Return what the reader must know of levels, bounds and tails, the response's bounds included."""
        reach = (1 + abs(self.start.center)) / self.start.frame.scale
        far = (note("far response", name=self.box.design.response, sds=reach),) if reach > FAR_BOUNDS else ()
        return (*super().notes(), *self.levels.clamped, *self.far_bounds(), *far)

    def far_rows(self, at: Start, all_along: float) -> tuple[Allowance, ...]:
        """Return what clips may have moved beyond `clipped` if rows far out in wide bounds lie along that column."""
        rows = [at.W[j] / max(float(np.linalg.norm(at.W[j])), 1e-300) for j in self.far_columns]
        return tuple(Allowance(along[:, None], all_along) for along in rows)


@dataclass(frozen=True, eq=False)
class CutBread(Bread):
    """A Hessian of rows that are held at a radius.

    Parameters
    ----------
    cut : float
        What that cuts off at most, along the direction of one coefficient.
    """

    cut: float


@dataclass(frozen=True, eq=False)
class PerturbedHuber(PerturbedSquares):
    """The same of Huber's loss, whose residuals are clipped at its own threshold as well.

    Residuals are in released scales. Scores are not linear in theta, so that the Hessian is released where the loss is
    smallest: rows inside the threshold, held at a radius. The squares of all rows add up to m a row, as they are
    whitened, so that what the Hessian lacks of that bounds what the radius cut off.
    """

    @property
    def tilt_share(self) -> float:
        """Part of the coefficients' budget that the tilt has: psi is bounded, so that curvature cuts long rows."""
        return BOUNDED_TILT

    @cached_property
    def limit(self) -> float:
        """Largest clip of a residual: the loss's own."""
        return self.start.largest_psi / self.start.sigma

    def lengths(self, w: Start) -> Lengths:
        """Release sizes of scores at the start."""
        of = ProductSizes(self.start.P, self.start.residual / self.start.sigma, np.inf, self.ends[-1], self.limit)
        question = Sum("score sizes", of, Shells(1, self.ends), self.keep)
        return Lengths.released(self.ask, self.by, question, self.total(self.rows), self.tail)

    def clip(self, pilot: Pilot, w: Start, lengths: Lengths) -> Clip:
        """Return the clip with the shortest interval, and the bound of curvature, which takes off a part of far rows.

        A score of length l whose residual is at the threshold k is of a row of length l / k: the bound L leaves
        ``L k^2 / l`` of it.
        """
        tried, noise = lengths.from_least(self.m**0.5 / 2), sd_of(self.unit_law)
        variance = lengths.squares(tried) / self.m

        def clip_at(curvature: float) -> Clip:
            taken = lengths.taken(self.left(lengths, tried, curvature), self.m, self.tail)
            return shortest_clip(tried, variance, taken, noise)

        return of_shortest(clip_at, self.curved)

    def beyond(self, lengths: Lengths, clip: Clip, m: float) -> float:
        """Return what the clip and the bound of curvature take off sizes of scores along one of m coordinates."""
        return float(lengths.taken(self.left(lengths, clip.radius, clip.curvature), m, self.tail)[0])

    def left(self, lengths: Lengths, radii: FloatArray | float, curvature: float) -> FloatArray:
        """Return what a clip at each radius and the bound of curvature leave of sizes, shape (5 * bins, k)."""
        return np.minimum(np.atleast_1d(radii), curvature * self.limit**2 / lengths.lengths[:, None])

    def with_squares(self, A: NoisyMatrix) -> PerturbedHuber:
        """Return the same: the Hessian is released where the loss is smallest."""
        return self

    def hessian(self, pilot: Pilot, w: Start, clip: Clip, last: LastRelease) -> CutBread:
        """Return the sum of products of rows whose residuals the loss does not clip."""
        at, m = last.at, self.m
        hessian = Sum("hessian", at.hessian_rows, Products(m), self.keep)
        question = self.held(hessian, entry_sd(self.ask, hessian, self.by), at, HELD_NOISE)
        matrix = NoisyMatrix.of(self.ask(question, by=self.by.products))
        short = max(self.rows * m - float(np.trace(matrix.value)), 0.0) + matrix.trace_variance() ** 0.5
        return CutBread(matrix, at.sigma * at.to_theta, np.eye(m), self.rows, short * min(1.0, 2.0 / m))

    def doubts(self, step: Step) -> Doubts:
        """Return what is so of squares, and what the Hessian's radius cut off times the step."""
        doubts = super().doubts(step)
        sd = step.bread.cut * float(np.linalg.norm(step.step)) / self.m**0.5
        return replace(doubts, noises=(*doubts.noises, Loading(sd * np.eye(self.m))))
