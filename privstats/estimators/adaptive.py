"""Adaptive regression: precondition, choose between moments and steps, clip where the interval is shortest.

Stages, as the comments number them: 0 scales, L levels, 1 coarse matrix and the choice; then of the steps 2 leverages,
3 Hessian, 3b first step, 4 meat, 5 score sizes, 6 score. Every clip and radius is a function of earlier releases, and
each question's sensitivity holds for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privstats.estimators.base import NORMAL, Noises, PublicFacts, check_tail, entry_sd, score_sd, sd_of
from privstats.estimators.constants import (
    AGAIN,
    ALONG_SEEN,
    BESIDE,
    COARSE_FEWEST,
    COARSE_HIGHEST,
    COARSE_NOISE,
    DROWNED,
    EDGE_OF_NOISE,
    FEW,
    FEW_SHARE,
    FIRST_LEAST,
    FIRST_MOST,
    FIRST_NOISE,
    HELD_LEAST,
    LEAST_EIGENVALUE,
    LEAST_RATIO,
    LEFT_OUT,
    LITTLE_SEEN,
    MEAT_LEAST,
    MEAT_NOISE,
    MEAT_WORTH,
    MOST_FIRST_NOISE,
    MOST_FIRST_NOISE_OF_SQUARES,
    MOST_RATIO,
    MOVE,
    MOVE_SDS,
    RADIUS_NOISE,
    RARE_RADIUS,
    READ_WITH_SUMS,
    READABLE,
    RESIDUAL_CLIP,
    UNSEEN_SDS,
    USUAL_RADIUS,
)
from privstats.estimators.frame import (
    KnownMoments,
    PublicBox,
    Scales,
    column_scales,
    held_scales,
    ranked_scales,
    reread_scales,
    standardised,
    with_products,
)
from privstats.estimators.histogram import BOUNDED_TAILS, TAILS, Clip, Lengths, Tail, best_clip, edges, predicted_length
from privstats.estimators.levels import readable_levels
from privstats.estimators.one_step import ReleasedScore
from privstats.estimators.perturbed_least_squares import PerturbedSquares
from privstats.estimators.preconditioner import (
    Sizes,
    Start,
    cleared,
    coarse,
    held_at,
    roots,
    sizes_of,
    whitened_again,
)
from privstats.estimators.sufficient_statistics import Branch, Moments, moments_of_box
from privstats.gate.questions import Ask, Laws, Question, Sum
from privstats.inference.estimate import Allowance, Estimate, EstimatingEquation
from privstats.inference.matrix import NoisyMatrix
from privstats.inference.noise import Loading
from privstats.losses.base import Loss, SquaredLoss
from privstats.losses.rows import HessianRowsAndScore, RowResiduals, SquaredResiduals
from privstats.numerics.law import FloatArray
from privstats.privacy.promise import Promise, Relation
from privstats.sets.cells import Shells
from privstats.sets.vectors import Ball, Fractions, Products, SumAndProducts

# Shares of mu^2, or of eps. Those of optional questions are parts of the score's: "levels", "scales again",
# "second matrix", "meat", "residual squares".
SHARES: Mapping[str, Mapping[str, float]] = {
    "normal": {
        "units": 0.02, "scales": 0.04, "levels": 0.14, "scales again": 0.05,
        "coarse matrix": 0.09, "moments": 0.75, "meat of moments": 0.12, "second matrix": 0.06,
        "residual scale": 0.03, "leverages": 0.03, "hessian": 0.10, "first step": 0.06, "score sizes": 0.10,
        "residual squares": 0.08, "score": 0.58,
    },
    "pure": {
        "units": 0.02, "scales": 0.05, "levels": 0.14, "scales again": 0.06,
        "coarse matrix": 0.08, "moments": 0.75, "meat of moments": 0.12, "second matrix": 0.08,
        "residual scale": 0.04, "leverages": 0.03, "hessian": 0.16, "first step": 0.08, "meat": 0.09,
        "score sizes": 0.15, "residual squares": 0.10, "score": 0.45,
    },
    "perturbed": {
        "units": 0.02, "scales": 0.05, "levels": 0.14, "narrow scales": 0.12,
        "coarse matrix": 0.12, "moments": 0.71, "meat of moments": 0.12, "second matrix": 0.12,
        "score sizes": 0.12, "coefficients": 0.67, "squares of scores": 0.04,
    },
}  # fmt: skip

# of each branch: the question of whose share optional questions of all branches are a part
HOSTS = {"steps": "score", "moments": "moments", "perturbed": "coefficients"}
SCALE_BINS = 2.0**-9  # least residual that Huber's scale distinguishes, in half-ranges of the response
MEDIAN = 0.6744897501960817  # of |N(0, 1)|


@dataclass(frozen=True)
class Adaptive:
    """What all branches release, the choice, and the branch.

    Parameters
    ----------
    noises : Noises
    loss : Loss
    branches : tuple of str
        Among "moments", "steps" and "perturbed".
    tail : str
        "usual", or "cautious": scores beyond the visible ones may be more, and all along one coefficient.
    cov_type : str
        "HC", or "nonrobust".
    coarse : float, optional
        Share of the coarse matrix before a perturbed minimiser (`coarse_share`); by default that of the table.
    """

    noises: Noises = NORMAL
    loss: Loss = SquaredLoss()  # noqa: RUF009 -- frozen, without state
    branches: tuple[str, ...] = ("moments", "steps")
    tail: str = "usual"
    cov_type: str = "HC"
    coarse: float | None = None

    def __post_init__(self) -> None:
        check_tail(self.tail)

    @property
    def shares(self) -> Mapping[str, float]:
        if "perturbed" not in self.branches:
            return SHARES[self.noises.shares]
        shares = SHARES["perturbed"]
        coarse = self.coarse or shares["coarse matrix"]
        rest = 1 - shares["scales"] - coarse  # of either branch
        coefficients = rest - shares["score sizes"] - shares["squares of scores"]
        return {
            **shares,
            "coarse matrix": coarse,
            "second matrix": AGAIN * coarse / coefficients,
            "moments": rest - shares["meat of moments"],
            "coefficients": coefficients,
        }

    @property
    def most_first_noise(self) -> float:
        """Largest noise of the coarse matrix at which the steps arrive (`first_stage`)."""
        return MOST_FIRST_NOISE_OF_SQUARES if isinstance(self.loss, SquaredLoss) else MOST_FIRST_NOISE

    def __call__(self, ask: Ask, public: PublicFacts) -> Estimate:
        box = PublicBox(public.design)
        scales = column_scales(ask, self.noises, box, public.used, spared=self.perturbs)
        return self.after(scales, ask, box, public)

    @property
    def perturbs(self) -> bool:
        """Whether there may be a perturbed minimiser: then the coarse matrix serves for inference, too."""
        return "perturbed" in self.branches

    def after(self, scales: Scales, ask: Ask, box: PublicBox, public: PublicFacts) -> Estimate:
        """Go on where the scales are released."""
        by = self.noises
        sizes = sizes_of(ask, by, public, scales.rows)
        hosts = tuple(HOSTS[branch] for branch in HOSTS if branch in self.branches)
        entry = hessian_entry_sd(ask, by, self.loss, box.c) if not self.perturbs else coarse_entry_sd(ask, by, box.c)
        needed = READABLE[by.shares] * entry
        if self.perturbs:
            needed = READ_WITH_SUMS * entry * held_at(entry, box.c, sizes.rows) / (HELD_LEAST * box.c)
        drowned = not self.perturbs and relative_noise(box.c, entry * USUAL_RADIUS / sizes.rows) >= DROWNED
        worth = "moments" not in self.branches or not drowned
        clips = self.perturbs or "moments" not in self.branches or bool(np.isinf(scales.rarer))
        levels = readable_levels(ask, by, box, scales, needed, hosts, worth and clips, public.intervals)
        known = None
        if self.perturbs:
            ranked = ranked_scales(ask, box, scales, public.offered, hosts)
            held, moments = held_scales(box, ranked)
            known = KnownMoments.of(box, held, moments)
            levels = replace(levels, ridge=np.where(box.two_ended, 1 - moments, np.r_[levels.ridge, 0.0])[:-1])
            frame = standardised(box, held, levels.kept or None)
            frame = with_products(box, frame, held, normed=True) if box.products else frame
        else:
            frame = standardised(box, scales, levels.kept or None)
            frame = reread_scales(ask, by, box, frame, scales, hosts, worth and clips)
        released = (scales.rows, scales.rows_sd) if public.used is None else ()
        every = replace(sizes, released=released)
        sizes = every.without(levels.left_out)
        start = coarse(ask, by, box, frame, levels, sizes.rows, known)
        tails = BOUNDED_TAILS if self.loss.bounded else TAILS
        robust, tail = self.cov_type != "nonrobust", tails[self.tail]
        found = (ask, by, box, start, levels, sizes, public, robust, tail)
        branches: dict[str, Any] = {
            "moments": Moments(*found),
            "steps": Steps(*found, self.loss),
            "perturbed": PerturbedSquares(*found),
        }
        chosen = self.branches[0]
        if len(self.branches) > 1:  # what is not given counts as infinitely long, in a harmonic mean
            fewer = 1 / max(levels.told, 1 / box.c)
            moments_read = branches["moments"].reads(levels.rarest)
            lengths = {name: branches[name].length() * fewer if clips else np.inf for name in self.branches}
            lengths["moments"] = branches["moments"].length() * (1.0 if moments_read else fewer)
            chosen = ask.choose("estimator", lengths)
        if chosen == "moments" and (levels.keep is not None or frame.redone):
            return moments_of_box(ask, by, box, every, public, robust).estimate()
        estimate: Estimate = branches[chosen].estimate()
        return estimate


def coarse_entry_sd(ask: Laws, by: Noises, m: int) -> float:
    """Return the standard deviation of the noise of an entry of the coarse matrix whose rows are held at 1."""
    return entry_sd(ask, Sum("coarse matrix", lambda block: block, within=Products(m + 1)), by)


def hessian_entry_sd(ask: Laws, by: Noises, loss: Loss, m: int) -> float:
    """Return the standard deviation of the noise of an entry of the Hessian whose rows are clipped at 1."""
    beside = by.free_products and isinstance(loss, SquaredLoss)
    question = Sum("hessian", lambda block: block, within=Products(m + beside))
    return entry_sd(ask, question, by) * (1 + BESIDE**2 if beside else 1.0)


@dataclass(frozen=True, eq=False)
class Foretold:
    """Laws of questions that get one part of a promise, before there is a conversation: public, and free.

    Parameters
    ----------
    promise : Promise
    relation : Relation
    """

    promise: Promise
    relation: Relation

    def law(self, question: Question, *, by: Any) -> Any:
        """Return the law of the noise that a question would get."""
        return by.law(self.promise, question.within, self.relation)


def carries_steps(by: Noises, promise: Promise, relation: Relation, columns: int, rows: float) -> bool:
    """Return whether a Hessian of steps may be told from its noise, by public facts: rows, columns and the promise.

    Where it may not, optional questions are not worth asking, and moments of the box have less noise with all of the
    budget than with what the beginning of `Adaptive` leaves.
    """
    part = promise.part(SHARES[by.shares]["hessian"])
    entry = hessian_entry_sd(Foretold(part, relation), by, SquaredLoss(), columns)
    return relative_noise(columns, entry * USUAL_RADIUS / rows) < DROWNED


def coarse_noise(by: Noises, promise: Promise, relation: Relation, columns: int, rows: float) -> float:
    """Return the largest eigenvalue of the noise of a coarse matrix that had the whole promise, in the rows."""
    entry = coarse_entry_sd(Foretold(promise, relation), by, columns) * (1 + HELD_LEAST * columns)
    return entry * (columns + 1) ** 0.5 / rows


def coarse_share(noise: float) -> float:
    """Return the share of the coarse matrix before a perturbed minimiser, from `coarse_noise`."""
    return float(np.clip(noise / COARSE_NOISE, COARSE_FEWEST, COARSE_HIGHEST))


def relative_noise(m: int, entry: float) -> float:
    """Return the largest eigenvalue of a Hessian's noise, in the Hessian's.

    Parameters
    ----------
    m : int
        Coordinates.
    entry : float
        Noise of an entry, in rows, of rows whose squared lengths are clipped at m.
    """
    return EDGE_OF_NOISE * m**1.5 * entry


@dataclass(frozen=True, eq=False)
class Lengthened:
    """How much longer the intervals of steps are expected to be than without privacy: from laws, and so free.

    Parameters
    ----------
    ask : Laws
    by : Noises
    loss : Loss
    tail : Tail
    """

    ask: Laws
    by: Noises
    loss: Loss = SquaredLoss()  # noqa: RUF009
    tail: Tail = TAILS["usual"]

    def of_rows(self, m: int, longest: float, psi: float, sizes: Sizes, folded: bool) -> float:
        """Return the length before the questions are known by more than their names and sets."""
        within = SumAndProducts(m, 1.0) if self.by.free_products else Ball(m, 1.0)
        shells = Shells(m, edges(m**0.5 / 8, longest * psi))
        named = (("score", within), ("first step", within), ("score sizes", shells))
        asked = tuple(Sum(name, lambda block: block, within=one, folded=folded) for name, one in named)
        return self.length(asked, longest, psi, sizes)

    def length(self, asked: tuple[Sum, ...], longest: float, psi: float, sizes: Sizes) -> float:
        """Return the length for rows a little heavier than normal ones.

        Two noises: that of the score, and that of the Hessian times the error of the first step; and what the Hessian's
        noise does to its weakest direction.

        Parameters
        ----------
        asked : tuple of Sum
            For the score and the first step, each clipped at 1, and for the sizes of scores.
        longest : float
            A bound on the length of preconditioned predictors.
        psi : float
            A bound on |psi|, in its standard deviations.
        sizes : Sizes
        """
        score, first_step, counts = asked
        m, rows = counts.within.m, sizes.rows  # type: ignore[attr-defined]
        noise, sd = score_sd(self.ask, score, self.by), sd_of(self.ask.law(counts, by=self.by.counts))
        usual = predicted_length(noise, sd, m, sizes.scores, self.tail, longest * psi, self.by.shares) / 1.96
        entry = hessian_entry_sd(self.ask, self.by, self.loss, m) * min(USUAL_RADIUS, longest**2 / m) / rows
        first = FIRST_LEAST * m**0.5 * score_sd(self.ask, first_step, self.by) / rows
        length = np.hypot(usual, rows**0.5 * m**1.5 * entry * first)
        return float(min(length / max(1 - relative_noise(m, entry), LEAST_EIGENVALUE), 1e100))


@dataclass(frozen=True, eq=False)
class Metric:
    """A metric of scores: ``root`` and its inverse."""

    root: FloatArray
    inverse: FloatArray

    @classmethod
    def of(cls, matrix: FloatArray) -> Metric:
        return cls(*roots(matrix))


@dataclass(frozen=True, eq=False)
class Steps(Branch):
    """Leverages, Hessian, a first step, meat, sizes of scores, and one score clipped where the interval is shortest.

    Parameters
    ----------
    loss : Loss
    """

    loss: Loss = SquaredLoss()  # noqa: RUF009

    @property
    def rows(self) -> float:
        return self.sizes.rows

    @property
    def scores(self) -> float:
        return self.sizes.scores

    def score(self, name: str, start: Start, radius: float) -> Sum:
        """Return the question for the sum of scores, with their products where these are free."""
        within = SumAndProducts(start.m, radius) if self.by.free_products else Ball(start.m, radius)
        return Sum(name, start.scores, within=within, keep=self.levels.keep, folded=self.folded)

    def score_sizes(self, start: Start, ends: tuple[float, ...]) -> Sum:
        """Return the question for the histogram of score lengths."""
        return Sum("score sizes", start.scores, Shells(start.m, ends), self.levels.keep, folded=self.folded)

    @property
    def lengthened(self) -> Lengthened:
        return Lengthened(self.ask, self.by, self.loss, self.tail)

    def length(self) -> float:
        """Return the expected length over that without privacy, for rows a little heavier than normal ones."""
        start = self.start
        psi = start.largest_psi / start.sigma
        asked = (self.score("score", start, 1.0), self.score("first step", start, 1.0))
        sizes = self.score_sizes(start, edges(start.m**0.5 / 8, start.longest * psi))
        return self.lengthened.length((*asked, sizes), start.longest, psi, self.sizes)

    def estimate(self) -> Estimate:
        """Ask the questions of the branch, and solve."""
        start = whitened_again(self.ask, self.by, self.box, self.start, self.levels, self.rows, ("score",))
        start = self.with_loss(start)
        A, start, bread = self.hessian(start)
        T, T_inverse = A.power(-0.5) * self.rows**0.5, A.power(0.5) / self.rows**0.5
        ridge = T @ start.W.T @ (self.levels.ridge[:, None] * start.W) @ T
        x = start.remapped(T)
        first, moved, plain = self.first_step(x, ridge)
        M = self.filling(moved, plain, first, ridge)
        u = moved.remapped(M.metric.inverse)
        clip, lengths = self.clip(u, float(np.trace(M.value)) / start.m)
        final = ReleasedScore.of(self.ask(self.score("score", u, clip.radius), by=self.by.vector))
        return self.solved(start, A, bread, T, T_inverse, first, moved, plain, M, clip, lengths, final, u)

    def with_loss(self, start: Start) -> Start:
        """Return the start of the loss, from that of least squares; a robust scale is released where it needs one."""
        loss = self.loss.in_units(self.box.design.response_center, self.box.design.response_half)
        if loss.needs_scale:
            loss = loss.with_scale(self.residual_scale(start))
        return start.of_loss(loss, self.box.intercept)

    def residual_scale(self, start: Start) -> float:
        """Return the released median of |residual| over that of a standard normal number, in half-ranges."""
        ends = edges(SCALE_BINS, start.largest_psi)
        question = Sum("residual scale", RowResiduals(start.eta), Shells(1, ends), self.levels.keep)
        counts = np.maximum(self.ask(question, by=self.by.counts).value, 0.0)
        below = np.r_[0.0, np.cumsum(counts)] / max(counts.sum(), 1.0)
        return float(np.exp(np.interp(0.5, below, np.log(np.r_[ends[0] / 2, ends]))) / MEDIAN)

    def hessian(self, start: Start) -> tuple[NoisyMatrix, Start, Bread]:
        """2, 3. Release leverages, then the Hessian at the radius they suggest; a better start where it is free."""
        m, squares = start.m, isinstance(start.loss, SquaredLoss)
        ends = edges(m**0.5 / 2, start.longest * start.loss.largest_slope**0.5)
        leverages = Sum("leverages", start.hessian_rows, Shells(m, ends), self.levels.keep)
        lengths = Lengths.released(self.ask, self.by, leverages, self.total(self.rows), TAILS["leverages"])

        beside = BESIDE if squares and self.by.free_products else 0.0
        within = Products(m + (beside > 0))
        unit = entry_sd(self.ask, Sum("hessian", start.hessian_rows, within), self.by)
        rare = RARE_RADIUS * np.sqrt(min(self.rows / self.levels.least, self.levels.most_length) + m)
        rare = rare if np.isfinite(self.levels.least) else 0.0
        radius = lengths.radius(RADIUS_NOISE * m**0.5 * unit, max(m**0.5, min(rare, ends[-1])))
        few = min(FEW * lengths.sd * radius**2, FEW_SHARE * self.rows)

        limit = RESIDUAL_CLIP * start.sigma
        of = HessianRowsAndScore(start.hessian_rows, radius, limit, beside * radius) if beside else start.hessian_rows
        question = Sum("hessian", of, within, self.levels.keep).inside(radius * np.sqrt(1 + beside**2))
        both = NoisyMatrix.of(self.ask(question, by=self.by.products), floor=few)
        A = both.mapped(np.eye(within.m)[:, :m])
        if beside:
            start = start.moved(A.power(-1.0) @ both.value[:m, m] * limit / (beside * radius))
        entry = unit * radius**2 * (1 + beside**2)
        cut = lengths.square_excess(radius)
        return A, start, Bread(entry, cut * min(1.0, 2.0 / m), cut)

    def first_step(self, x: Start, ridge: FloatArray) -> tuple[ReleasedScore, Start, Metric]:
        """3b. Step along a score with a public clip, so that the Hessian's noise multiplies a short step afterwards."""
        m = x.m
        plain = Metric.of(np.eye(m) + ridge)
        wide = max(
            FIRST_LEAST * m**0.5,
            FIRST_NOISE * self.scores**0.5 / score_sd(self.ask, self.score("first step", x, 1.0), self.by),
        )
        radius = x.sigma * min(FIRST_MOST * m**0.5, wide)
        question = self.score("first step", x.remapped(plain.inverse), radius)
        first = ReleasedScore.of(self.ask(question, by=self.by.vector))
        return first, x.moved(plain.root @ first.value / self.rows), plain

    def filling(self, x: Start, plain: Metric, first: ReleasedScore, ridge: FloatArray) -> ScoreVariance:
        """4. Return the variance of a score, from the first step's products where they are free."""
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
        unit = entry_sd(self.ask, question, self.by)
        wanted = self.robust and 4 * m * unit < MEAT_WORTH * self.scores
        if not self.ask.decide("meat", bool(wanted)):
            return ScoreVariance.of(flat, x.sigma**2 * ridge, False)
        radius = x.sigma * np.sqrt(max(MEAT_LEAST * m, MEAT_NOISE * self.scores / unit))
        released = NoisyMatrix.of(self.ask(question.inside(radius), by=self.by.products)).value
        value = cleared(released, unit * radius**2, max(float(np.trace(released)) / m, usual))
        return ScoreVariance.of(plain.root @ value @ plain.root / self.scores, x.sigma**2 * ridge, True)

    def clip(self, u: Start, variance: float) -> tuple[Clip, Lengths]:
        """5. Release sizes of scores, and choose the clip with the shortest interval.

        Parameters
        ----------
        u : Start
        variance : float
            Mean of that of a score's coordinates: about that of residuals.
        """
        m = u.m
        ends = edges(m**0.5 / 8, u.longest * u.largest_psi)
        lengths = Lengths.released(self.ask, self.by, self.score_sizes(u, ends), self.total(self.scores), self.tail)
        squares, unseen = self.squares(u, variance, float((lengths.counts * lengths.lengths**2).sum()) / m)
        clip = best_clip(lengths, score_sd(self.ask, self.score("score", u, 1.0), self.by), m, self.tail, m * unseen)
        return replace(clip, least=squares / self.rows), lengths

    def squares(self, u: Start, variance: float, seen: float) -> tuple[float, float]:
        """Return the least sum of squared residuals, and what of it the histogram may hide, over their variance.

        Rare outcomes are long scores behind a gap, too few for any bin to stand out. Where the histogram shows much
        less than the coarse matrix allows, or the response may have two values, one of them rare,
        all squares are summed up at once, without a clip. Where they are not, nothing is hidden, but what rare outcomes
        may be.

        Parameters
        ----------
        u : Start
        variance : float
        seen : float
            What the histogram shows of the same sum.
        """
        most, largest, rarer = self.rows * u.most_sigma**2, u.largest_psi, self.levels.rarer
        of = SquaredResiduals(u.eta, largest)
        question = Sum("residual squares", of, Fractions(1), self.levels.keep, within_share_of=("score",))
        if not self.public.intervals:
            return 0.0, 0.0
        known = isinstance(u.loss, SquaredLoss) and not self.public.by_unit
        rare = known and np.isfinite(rarer)
        most = max(most, rarer * largest**2) if rare else most
        doubted = rare or (known and variance * seen < LITTLE_SEEN * most)
        if doubted:
            doubted = (
                UNSEEN_SDS * sd_of(self.ask.law(question, by=self.by.counts)) * largest**2 < (1 - LITTLE_SEEN) * most
            )
        if not self.ask.decide("residual squares", bool(doubted)):
            return 0.0, max(most / variance - seen, 0.0) if rare else 0.0
        released = self.ask(question, by=self.by.counts)
        noise = UNSEEN_SDS * sd_of(released.law) * largest**2
        squares = float(released.value[0]) * largest**2
        hidden = squares - variance * seen
        hides = (max(hidden, 0.0) + noise) / variance if rare or hidden > noise else 0.0
        return max(squares - noise, 0.0) / variance, hides

    def mean_square(self, x: Start, products: FloatArray) -> float:
        """Return the mean square of psi, from products of scores: along the constant they are its squares."""
        if self.box.intercept is None:
            return float(np.trace(products)) / x.m / self.scores
        one = x.coordinates(np.eye(self.box.c)[self.box.intercept], self.levels.hidden)
        return float(one @ products @ one) / self.scores

    def sampling(self, M: ScoreVariance, clip: Clip, final: ReleasedScore, u: Start) -> FloatArray:
        """Return the variance of the final score per row, in its metric."""
        inverse, m = M.metric.inverse, len(M.value)
        expected = inverse @ M.value @ inverse
        most = max(MOST_RATIO, clip.least) + clip.unseen / self.scores
        least = max(LEAST_RATIO, clip.least)
        if final.products is None:
            ratio = clip.variance / self.scores
            return expected * (float(np.clip(ratio, max(1.0, clip.least), most)) if M.released else ratio)
        if not self.robust:
            ratio = self.mean_square(u, final.products.value) / float(M.value[0, 0])
            return expected * float(np.clip(ratio, least, most))
        seen = final.products.value / self.scores
        ratio = float(np.clip(np.trace(seen) / np.trace(expected), least, most))
        values, V = np.linalg.eigh(seen - ratio * expected)
        clear = values > 2.0 * np.sqrt(m) * final.products_sd / self.scores
        return expected * ratio + (V * np.where(clear, values, 0.0)) @ V.T

    def solved(
        self,
        start: Start,
        A: NoisyMatrix,
        bread: Bread,
        T: FloatArray,
        T_inverse: FloatArray,
        first: ReleasedScore,
        moved: Start,
        plain: Metric,
        M: ScoreVariance,
        clip: Clip,
        lengths: Lengths,
        final: ReleasedScore,
        u: Start,
    ) -> Estimate:
        """6. Return the estimate: the final score, solved in the coordinates of w, with all that it may be wrong by."""
        m, n = start.m, self.rows
        root = M.metric.root
        L = T_inverse @ root
        step = root @ final.value / n
        went = T @ step
        began = float(((T @ plain.root @ first.value) ** 2).sum()) / n**2
        cut = float((lengths.counts * np.maximum(lengths.lengths * moved.sigma - first.radius, 0.0)).sum())
        cut *= min(1.0, (ALONG_SEEN / m) ** 0.5)
        remaining = max(
            float(went @ went) - final.sd**2 * float(((T @ root) ** 2).sum()) / n**2,
            first.sd**2 * float((T**2).sum()) / n**2
            + bread.sd**2 * began * float(np.trace(T @ T @ T @ T)) / n**2
            + (float(np.linalg.norm(T, 2)) * cut / n) ** 2,
        )
        # what the estimate moved between the first clip and the last one, beyond its noise
        step_w = T @ step
        to_theta = start.to_theta
        noise = final.sd**2 * root @ root + first.sd**2 * plain.root @ plain.root
        noise = noise + bread.sd**2 * began * (1 + 1 / m) * T @ T
        sd = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", to_theta @ T, noise, to_theta @ T), 0.0)) / n
        change = to_theta @ step_w
        beyond = np.sign(change) * np.maximum(np.abs(change) - MOVE_SDS[self.by.shares] * sd, 0.0)
        back = A.power(1.0) @ np.linalg.pinv(to_theta) @ beyond
        falling = min(1.0, 2 * first.radius / (moved.sigma * clip.radius)) ** 2
        equation = EstimatingEquation(
            score=L @ final.value,
            hessian=A,
            meat=self.small_sample * self.scores * L @ self.sampling(M, clip, final, u) @ L.T,
            noises=(L @ final.noise, Loading(np.sqrt(bread.cut**2 * remaining / m) * np.eye(m))),
            coordinates=self.coordinates(replace(start, theta=moved.theta)),
            signal=self.signal,
            usual=n,
            known=-start.coordinates(moved.theta - self.flat, self.levels.hidden),
            remaining=float(np.sqrt(remaining)),
            clipped=(
                Allowance(L, clip.excess + LEFT_OUT * self.levels.left_out),
                Allowance(back[:, None], MOVE * falling),
                *self.far_rows(start, L, clip, bread, went, float(np.sqrt(remaining))),
            ),
            freedom=self.freedom,
        )
        share = lengths.share_beyond(clip.radius)
        facts = {"sigma": moved.sigma, "clipped_share": share, **self.sizes.diagnostics}
        return self.given(equation.solve(self.box.design.names, self.notes(), facts))

    def far_rows(
        self, start: Start, L: FloatArray, clip: Clip, bread: Bread, went: FloatArray, remaining: float
    ) -> tuple[Allowance, ...]:
        """Return what rows far out in a column with wide bounds may have moved: all of them lie along that column.

        Elsewhere rows beyond a clip are taken to lie along different coefficients, and so are scores of a bounded psi:
        a far row has no large residual beside, that would move a coefficient by itself.
        """
        if self.loss.bounded and not self.tail.aligned:
            return ()
        back, allowances = np.linalg.pinv(L), []
        for j in self.far_columns:
            along = start.W[j] / max(float(np.linalg.norm(start.W[j])), 1e-300)
            in_score = back @ along
            unit = in_score / max(float(np.linalg.norm(in_score)), 1e-300)
            allowances.append(Allowance((L @ unit)[:, None], max(clip.aligned - clip.excess, 0.0)))
            step = abs(float(along @ went)) + remaining / start.m**0.5
            allowances.append(Allowance(along[:, None], bread.all_cut * step))
        return tuple(allowances)


@dataclass(frozen=True, eq=False)
class Bread:
    """How wrong a released Hessian may be.

    Parameters
    ----------
    sd : float
        Of the noise of an entry off the diagonal.
    cut : float
        What its radius cut off, along the direction of one coefficient.
    all_cut : float
        The same if all rows beyond the radius lay along one direction.
    """

    sd: float
    cut: float
    all_cut: float


@dataclass(frozen=True, eq=False)
class ScoreVariance:
    """The variance of a score, and the metric in which the final score is taken.

    Parameters
    ----------
    value : ndarray, shape (m, m)
    metric : Metric
        Of `value` and the ridge of rare levels.
    released : bool
        Whether it was released, or assumed to be that of errors of equal variance.
    """

    value: FloatArray
    metric: Metric
    released: bool

    @classmethod
    def of(cls, value: FloatArray, ridge: FloatArray, released: bool) -> ScoreVariance:
        return cls(value, Metric.of(value + ridge), released)
