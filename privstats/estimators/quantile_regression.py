"""Quantile regression: steps along smoothed check scores, then one by the check score itself, or a perturbed minimiser.

The check score is bounded, so that no residual needs a clip; what a row weighs is limited by the length of its whitened
predictors alone. Before the last step the iterate must lie where the loss is about quadratic: smoothed scores over wide
intervals lead there, since their loss has a known curvature whatever the density of the responses is. The numbers of
comments are stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.stats import norm

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
from privstats.estimators.constants import (
    ATOM_SDS,
    CHECK_RADIUS,
    CLIPPED_AT,
    DAMPING,
    DENSITY_CUT,
    DENSITY_NOISE,
    DENSITY_RADIUS,
    DENSITY_WIDEST,
    FARTHEST_FROM_PILOT,
    FARTHEST_PILOT,
    FARTHEST_STEP,
    FIRST_WIDTHS,
    KERNEL_BEND,
    KERNEL_LEVEL,
    KERNEL_NARROWEST,
    KERNEL_NOISE,
    KERNEL_ROWS,
    KERNEL_SHAPE,
    KERNEL_WIDEST,
    KERNEL_WIDTH,
    LEAST_CHECK_CURVATURE,
    LEAST_SIZE,
    LEAST_SMOOTHED,
    LEFT_OUT,
    MOST_CURVED,
    MOST_FIRST_NOISE,
    MOST_SMOOTHED,
    NEAR_ORDER,
    PILOT_RIDGE,
    SECOND_WIDTHS,
    STRETCH,
    UNIT_ORDER,
    UNIT_SIZE,
)
from privstats.estimators.frame import PublicBox
from privstats.estimators.histogram import Clip, Lengths, edges
from privstats.estimators.levels import level_notes
from privstats.estimators.objective_perturbation import ROWS, best_radius
from privstats.estimators.one_step import ReleasedScore
from privstats.estimators.preconditioner import Start
from privstats.estimators.transformed import Prefix, TransformedAsk, TransformedBox, prefix_of, scales_of
from privstats.gate.questions import Ask, Sum, Values
from privstats.inference.estimate import (
    Allowance,
    Coordinates,
    Estimate,
    EstimatingEquation,
    Loading,
    NormalEstimate,
    Stacked,
    quantile_scores,
)
from privstats.inference.matrix import NoisyMatrix
from privstats.inference.notes import Note, note
from privstats.inference.tables import PointEstimate
from privstats.losses.convex import SmoothedCheck
from privstats.losses.psi import (
    CheckLoss,
    ClippedScores,
    LogSizes,
    LossRows,
    Shortened,
    Standardized,
    StretchedResiduals,
    Within,
)
from privstats.losses.rows import Linear
from privstats.mechanisms.objective.perturbation import ObjectivePerturbation
from privstats.mechanisms.order.rank import Rank
from privstats.numerics.law import FloatArray
from privstats.sets.cells import Line, Shells
from privstats.sets.vectors import Ball, Fractions, Products, SumAndProducts
from privstats.sets.weighted_losses import WeightedLosses

STEPS: Mapping[str, Mapping[str, float]] = {
    "normal": {
        "units": 0.02, "scales": 0.02, "levels": 0.14, "scales again": 0.05,
        "coarse matrix": 0.06, "second matrix": 0.05,
        "residual scale": 0.06, "first step": 0.07, "first hessian": 0.03, "second step": 0.10, "leverages": 0.04,
        "score": 0.48, "hessian": 0.14, "density": 0.02, "meat": 0.08,
    },
    "pure": {
        "units": 0.02, "scales": 0.03, "levels": 0.14, "scales again": 0.06,
        "coarse matrix": 0.07, "second matrix": 0.07,
        "residual scale": 0.07, "first step": 0.08, "first hessian": 0.04, "second step": 0.10, "leverages": 0.04,
        "score": 0.40, "hessian": 0.14, "density": 0.02, "meat": 0.03,
    },
}  # fmt: skip
PERTURBED = {
    "units": 0.02, "scales": 0.06, "levels": 0.14, "scales again": 0.06,
    "coarse matrix": 0.11, "second matrix": 0.07, "residual scale": 0.07,
    "leverages": 0.05, "coefficients": 0.21, "score": 0.32, "hessian": 0.16, "density": 0.04,
}  # fmt: skip


@dataclass(frozen=True)
class QuantileSteps:
    """Quantile regression by noisy Newton steps.

    Parameters
    ----------
    noises : Noises
    taus : tuple of float
        Orders of the quantiles, ascending.
    tail : {"usual", "cautious"}
        How hidden counts of long rows may fall.
    """

    noises: Noises = NORMAL
    taus: tuple[float, ...] = (0.5,)
    tail: str = "usual"

    @property
    def shares(self) -> Mapping[str, float]:
        return STEPS[self.noises.shares]

    @property
    def most_first_noise(self) -> float:
        """Largest noise of the coarse matrix at which the steps arrive (`first_stage`)."""
        return MOST_FIRST_NOISE * sparsest(self.taus)

    def __post_init__(self) -> None:
        check_orders(self.taus)
        check_tail(self.tail)

    def __call__(self, ask: Ask, public: PublicFacts) -> Estimate:
        shared = Shared.released(ask, self.noises, public, self.tail, self.taus)
        fits = [OneOrderSteps(shared, tau, item_of(self.taus, tau)).equation() for tau in self.taus]
        estimate = stacked(fits, self.taus, public.design.names)
        return estimate if public.intervals else PointEstimate.alone(estimate)


@dataclass(frozen=True)
class PerturbedQuantile:
    """Quantile regression by objective perturbation of a smoothed check loss, and one step by the check score.

    Parameters
    ----------
    noises : Noises
        Of all questions but the minimiser.
    taus : tuple of float
        Orders of the quantiles, ascending. Intervals are given at .5 only.
    split : float
        Share of the minimiser's budget that the linear perturbation has; the ridge has the rest.
    tail : {"usual", "cautious"}
        How hidden counts of long rows may fall.
    shares : mapping of str to float
    """

    noises: Noises = PURE
    taus: tuple[float, ...] = (0.5,)
    split: float = 0.8
    tail: str = "usual"
    shares: Mapping[str, float] = field(default_factory=lambda: dict(PERTURBED))

    def __post_init__(self) -> None:
        check_orders(self.taus)
        check_tail(self.tail)
        check_split(self.split)

    @property
    def most_first_noise(self) -> float:
        """Largest noise of the coarse matrix at which the steps arrive (`first_stage`)."""
        return MOST_FIRST_NOISE * sparsest(self.taus)

    def __call__(self, ask: Ask, public: PublicFacts) -> Estimate:
        shared = Shared.released(ask, self.noises, public, self.tail, self.taus)
        mechanism = ObjectivePerturbation(self.split)
        fits = [Perturbed(shared, tau, item_of(self.taus, tau), mechanism).equation() for tau in self.taus]
        estimate = stacked(fits, self.taus, public.design.names)
        if not public.intervals:
            return PointEstimate.alone(estimate)
        unproved = tuple(note("unproved tau", tau=tau) for tau in self.taus if tau != 0.5)
        if public.by_unit:  # the sampling variance is that of independent rows
            unproved = (note("dependent rows", unit="unit"),)
        return PointEstimate.of(estimate, unproved) if unproved else estimate


def check_orders(taus: tuple[float, ...]) -> None:
    """Refuse orders that are no quantiles, or not ascending."""
    if not taus or not all(0 < tau < 1 for tau in taus) or any(a >= b for a, b in pairwise(taus)):
        raise OptionError("the orders of quantiles must lie between 0 and 1 and differ, such as tau=[0.25, 0.5]")


def sparsest(taus: tuple[float, ...]) -> float:
    """Return the density at the outermost quantile over that at the median, if it is logistic."""
    return 4 * min(tau * (1 - tau) for tau in taus)


def item_of(taus: tuple[float, ...], tau: float) -> str:
    """Return what tells the questions about one order from those about the others."""
    return f"tau = {tau:g}" if len(taus) > 1 else ""


def stacked(
    fits: list[tuple[EstimatingEquation, tuple[Note, ...], dict[str, float]]], taus: tuple[float, ...], names: Any
) -> NormalEstimate:
    """Return the estimate of one order, or of several whose sampling errors are correlated."""
    notes = tuple(dict.fromkeys(note for _, notes, _ in fits for note in notes))
    facts: dict[str, float] = {}
    for _, _, own in fits:
        facts = {name: max(value, facts.get(name, -np.inf)) for name, value in own.items()}
    if len(fits) == 1:
        return fits[0][0].solve(names, notes, facts)
    whole = Stacked(tuple(equation for equation, _, _ in fits), quantile_scores(taus))
    return whole.solve([f"{name}" for _ in taus for name in names], notes, facts)


@dataclass(frozen=True, eq=False)
class Shared:
    """What all orders have in common: whitened predictors, a start, and lengths of rows.

    Parameters
    ----------
    ask : Ask
    by : Noises
    prefix : Prefix
        Its start is in half-ranges of the response.
    unit : float
        Released scale of the response.
    spread : float
        Standard deviation that linear predictors have at most: the response's, released by its moments, or `unit`.
    center : ndarray, shape (c,)
        Coefficients of the constant that is the response's released median.
    lengths : Lengths
        Of whitened predictors.
    tail : str
    design : Design
    """

    ask: Ask
    by: Noises
    prefix: Prefix
    unit: float
    spread: float
    center: FloatArray
    lengths: Lengths
    tail: str
    design: Any
    intervals: bool

    @classmethod
    def released(cls, ask: Ask, by: Noises, public: PublicFacts, tail: str, taus: tuple[float, ...]) -> Shared:
        """Ask what all orders need: optional questions take a part of the share of the first one's score."""
        item = item_of(taus, taus[0])
        share_of = (f"score {item}".strip(),)
        plain = TransformedBox(public.design)
        scales, sizes = scales_of(ask, by, public, plain)
        center, unit = released_response_scale(ask, plain)
        half, spread = CLIPPED_AT * unit, max(unit, float(scales.scale[-1]))
        about = TransformedAsk(ask, Standardized(center, unit, CLIPPED_AT))
        middle, scale, blurred = scales.center.copy(), scales.scale.copy(), scales.blurred.copy()
        middle[-1], scale[-1], blurred[-1] = 0.0, 1 / CLIPPED_AT, False
        scales = replace(scales, center=middle, scale=scale, blurred=blurred)
        prefix = prefix_of(
            about,
            by,
            TransformedBox(public.design, half),
            scales,
            sizes,
            share_of,
            item,
            KERNEL_ROWS[by.shares] / sparsest(taus),
            public.intervals,
        )
        start = prefix.start
        constant = start.to_theta @ prefix.constant * center
        theta = start.theta * half + constant
        prefix = replace(prefix, start=replace(start, theta=theta, sigma=unit))
        m = prefix.m
        ends = edges(m**0.5 / 2, max(start.longest, m**0.5))
        question = Sum("leverages", Linear(start.P), within=Shells(m, ends), keep=prefix.levels.keep)
        lengths = Lengths.released(ask, by, question, prefix.total(prefix.sizes.rows), ROWS[tail])
        return cls(ask, by, prefix, unit, spread, constant, lengths, tail, public.design, public.intervals)


def released_response_scale(ask: Ask, box: PublicBox) -> tuple[float, float]:
    """Return a median of the response less offset, and a scale about it, in half-ranges, each by its rank."""
    theta = np.r_[np.zeros(box.c), box.offset, 0.0]
    most = 1.0 + box.offset_reach
    middle = StretchedResiduals(theta, 1.0)
    question = Values("residual scale", middle, within=Line(middle.at(-most), middle.at(most)), item="response")
    center = middle.back(float(ask(question, by=Rank((0.5,))).value[0]))
    size = log_size(ask, theta, center, UNIT_ORDER, LEAST_SIZE, 2 * most, "response size", None)
    return center, size / UNIT_SIZE


def log_size(
    ask: Ask, theta: FloatArray, center: float, order: float, least: float, most: float, item: str, keep: Any
) -> float:
    """Return a quantile of ``|y - z'theta - center|``, on a logarithmic scale, by its rank."""
    of, within = LogSizes(theta, center, least), Line(float(np.log(least)) - 0.7, float(np.log(most)))
    question = Values("residual scale", of, within=within, keep=keep, item=item)
    return float(np.exp(ask(question, by=Rank((order,))).value[0]))


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residuals about their quantile of order tau.

    Parameters
    ----------
    quantile : float
        Of the residuals: 0 at the true coefficients.
    density : float
        There.
    sigma : float
        Standard deviation of the normal law that has this density at its own quantile.
    """

    quantile: float
    density: float
    sigma: float


@dataclass(frozen=True, eq=False)
class OneOrder:
    """What the fits of one order share."""

    shared: Shared
    tau: float
    item: str

    @property
    def ask(self) -> Ask:
        return self.shared.ask

    @property
    def by(self) -> Noises:
        return self.shared.by

    @property
    def prefix(self) -> Prefix:
        return self.shared.prefix

    @property
    def m(self) -> int:
        return self.prefix.m

    @property
    def n(self) -> float:
        return self.prefix.sizes.rows

    @property
    def keep(self) -> Any:
        return self.prefix.levels.keep

    @property
    def largest(self) -> float:
        """The largest |psi|."""
        return max(self.tau, 1 - self.tau)

    def label(self, item: str) -> str:
        return f"{item} {self.item}".strip()

    def residuals(self, start: Start, item: str) -> Residuals:
        """Release the quantile of the residuals, and their scale about it, by ranks."""
        most = 2.0 + float(np.abs(start.theta).sum()) + start.offset_reach
        scale = StretchedResiduals(start.eta, STRETCH * self.shared.unit)
        question = Values(
            "residual scale", scale, Line(scale.at(-most), scale.at(most)), self.keep, self.label(f"{item} quantile")
        )
        quantile = scale.back(float(self.ask(question, by=Rank((self.tau,))).value[0]))
        order = NEAR_ORDER * min(self.tau, 1 - self.tau)
        least = max(1e-4 * self.shared.unit, 1e-12)
        size = log_size(self.ask, start.eta, quantile, order, least, 2 * most, self.label(f"{item} size"), self.keep)
        density = order / (2 * size)
        return Residuals(quantile, density, float(norm.pdf(norm.ppf(self.tau)) / density))

    def recentred(self, start: Start, residuals: Residuals) -> Start:
        """Return the start with its constant moved to the residuals' quantile."""
        far = 2 * residuals.sigma if start is not self.prefix.start else np.inf
        return start.moved(self.prefix.constant * float(np.clip(residuals.quantile, -far, far)))

    def score(self, name: str, item: str, start: Start, loss: CheckLoss, radius: float, products: bool) -> Sum:
        """Return the question for the score of rows held at a radius."""
        of, size = ClippedScores(loss, start.P, start.eta, radius), self.largest * radius
        within = SumAndProducts(self.m, size) if products else Ball(self.m, size)
        return Sum(name, of, within=within, keep=self.keep, item=self.label(item), folded=True)

    def radius(self, noise: float) -> Clip:
        """Return the radius at which rows are held in the last score."""
        spread = self.tau * (1 - self.tau)
        tail = ROWS[self.shared.tail]
        return best_radius(self.shared.lengths, noise, self.n * spread, 2 * spread, self.m, tail)

    def density(self, start: Start, residuals: Residuals, radius: float, noise: float) -> Density:
        """Release the Hessian through a kernel, and its level from counts near the quantile."""
        m, sigma, f0 = self.m, residuals.sigma, residuals.density
        plain = Sum("hessian", Linear(start.P), Products(m), self.keep, self.label(""))
        held, width, straight = self.kernel(2 * m**0.5 * entry_sd(self.ask, plain, self.by), residuals, radius)
        of = Shortened(start.P, start.eta, width, radius)
        released = self.ask(replace(plain, of=of).inside(held), by=self.by.matrix)
        narrow = min(width, KERNEL_LEVEL * sigma)
        near = min(narrow / 2, 2 * (m * (self.n * self.tau * (1 - self.tau) + noise**2)) ** 0.5 / (self.n * f0))
        counts = self.ask(
            Sum("density", Within(start.eta, (near, narrow, width)), Fractions(3), self.keep, self.label("")),
            by=self.by.counts,
        )
        sd = sd_of(counts.law)
        nearest, *others = counts.value
        seen = np.maximum(others, self.n * f0 * np.array([narrow, width]) / 2)
        expected = near / narrow * seen[0]
        atom = max(nearest - expected - ATOM_SDS * float(np.hypot(sd, expected**0.5)), 0.0)
        z = float(norm.ppf(self.tau))
        curve = norm.cdf(z + narrow / sigma) - norm.cdf(z - narrow / sigma)
        bulge = curve / (2 * narrow / sigma * norm.pdf(z))
        level = (seen[1] / width) / (seen[0] / narrow) * bulge if width > narrow else 1.0
        relative = float(np.sqrt(1 / seen[0] + sd**2 / seen[0] ** 2))
        matrix = NoisyMatrix.of(released).mapped(np.eye(m) / np.sqrt(2 * width * level))
        return Density(matrix, straight, width / sigma, relative, atom)

    def kernel(self, unit: float, residuals: Residuals, radius: float) -> tuple[float, float, float]:
        """Return the radius of rows of the Hessian, its kernel's half-width, and the half-width at the least radius.

        A larger radius has more noise, so that the kernel must be wider. The radius is where this noise and what is cut
        off, both in parts of the rows in the kernel, are smallest together.

        Parameters
        ----------
        unit : float
            Noise of the Hessian at radius 1: about the largest eigenvalue that noise alone has.
        residuals : Residuals
        radius : float
            Of rows in the score: longer ones enter the Hessian with length ``sqrt(radius |w|)``.
        """
        m, lengths, sigma = self.m, self.shared.lengths, residuals.sigma
        near = 2 * residuals.density * sigma  # part of the rows in a kernel of half-width sigma
        size = np.minimum(lengths.lengths, np.sqrt(radius * lengths.lengths))
        least = DENSITY_RADIUS * m**0.5
        most = np.sqrt(DENSITY_NOISE * self.n * near * DENSITY_WIDEST / unit)  # beyond no kernel is wide enough
        tried = np.r_[least, size[(size > least) & (size < most)]]
        share = np.where(tried > least, DENSITY_NOISE, KERNEL_NOISE)
        wide = np.maximum(KERNEL_WIDTH * self.n**-0.2, unit * tried**2 / (share * self.n * near))
        width = np.clip(wide, KERNEL_NARROWEST, KERNEL_WIDEST)
        cut = (lengths.counts[:, None] * np.maximum(size[:, None] ** 2 - tried**2, 0.0)).sum(axis=0)
        best = int(np.argmin(unit * tried**2 / (near * width) + DENSITY_CUT * cut))
        return float(tried[best]), float(sigma * width[best]), float(sigma * width[0])

    def notes(self) -> tuple[Note, ...]:
        return level_notes(self.prefix.box, self.prefix.levels)

    def solved(
        self,
        start: Start,
        score: FloatArray,
        meat: FloatArray,
        noise: Loading,
        density: Density,
        radius: Clip,
        farthest: float,
    ) -> tuple[EstimatingEquation, tuple[Note, ...], dict[str, float]]:
        """Return the equation of the last step, with all that its density may be wrong by."""
        m, hidden, notes = self.m, self.prefix.levels.hidden, self.notes()
        inverse = density.matrix.power(-1.0)
        step = inverse @ score
        length = float(np.linalg.norm(step))
        pilot = self.prefix.coordinates(start.theta - self.shared.center)
        away = float(np.linalg.norm(pilot)) / (FARTHEST_PILOT * self.shared.spread)
        size = max(length / (farthest * density.width), away)
        names = tuple(self.shared.design.names)
        if size > 1:
            hidden, notes = np.eye(len(names)), (*notes, note("far step", names, size=size))
        back = density.matrix.power(1.0) @ step
        filling = meat + noise.covariance()
        through = float(np.trace(inverse @ filling @ inverse)) / m
        uncertain = through * density.matrix.mean_square() + density.relative**2 * filling
        bent = min(max(length / density.width, density.wide**2), 1.0)
        bent = KERNEL_BEND * max(bent, KERNEL_SHAPE * density.wide**4)
        far = float(np.sqrt(max(float(back @ back) - float(np.trace(filling)), 0.0)))  # of the start from the solution
        left_out = LEFT_OUT * float(norm.pdf(norm.ppf(self.tau))) * self.prefix.levels.left_out
        equation = EstimatingEquation(
            score=score,
            hessian=density.matrix,
            meat=meat + uncertain,
            noises=(noise, Loading(density.relative * back[:, None])),
            coordinates=Coordinates(start.theta, start.to_theta, hidden),
            signal=self.shared.spread * density.level**0.5,
            usual=density.level,
            known=-pilot,
            remaining=length,
            clipped=(
                Allowance(np.eye(m), radius.excess + left_out),
                Allowance(np.eye(m), bent * far),  # in what direction a kernel is wrong is not known
                Allowance(np.eye(m), density.atom),
            ),
            freedom=max(self.prefix.sizes.scores - m, 1.0),
        )
        facts = {
            "clipped_share": min(self.shared.lengths.share_beyond(radius.radius), 1.0),
            "last_step": length / density.width,
        }
        return equation, notes, {**facts, **self.prefix.sizes.diagnostics}


@dataclass(frozen=True, eq=False)
class Density:
    """The Hessian of the check loss: density-weighted second moments.

    Parameters
    ----------
    matrix : NoisyMatrix
    width : float
        Half-width of a kernel for rows of usual length: about as far the loss is quadratic.
    wide : float
        Half-width of the kernel in residual scales: where these vary with predictors, wide ones see other densities.
    relative : float
        Standard deviation of the density's level, over it.
    atom : float
        Rows in excess of the density in the nearest neighbourhood of the quantile, where the score then jumps.
    """

    matrix: NoisyMatrix
    width: float
    wide: float
    relative: float
    atom: float

    @property
    def level(self) -> float:
        """Mean eigenvalue: rows times the density at the quantile."""
        return max(float(np.trace(self.matrix.value)) / len(self.matrix.value), 1e-300)


@dataclass(frozen=True, eq=False)
class OneOrderSteps(OneOrder):
    """Newton steps for one order."""

    def equation(self) -> tuple[EstimatingEquation, tuple[Note, ...], dict[str, float]]:
        m, n = self.m, self.n

        # 2. where the quantile is, about; steps whose loss has a known curvature, which cannot overshoot
        start = self.prefix.start
        residuals = self.residuals(start, "first")
        start = self.recentred(start, residuals)
        held = CHECK_RADIUS * m**0.5
        for k, smooth in enumerate(FIRST_WIDTHS):
            h = smooth * residuals.sigma
            question = self.score("first step", str(k + 1), start, CheckLoss(self.tau, h), held, False)
            start = start.moved(2 * h / n * self.ask(question, by=self.by.vector).value)
        residuals = self.residuals(start, "second")
        start = self.recentred(start, residuals)

        # 3. damped Newton steps of a less smooth loss
        curvature = self.rough_hessian(start, residuals, SECOND_WIDTHS[0] * residuals.sigma, held)
        for k, smooth in enumerate(SECOND_WIDTHS):
            h = smooth * residuals.sigma
            rough = curvature + DAMPING * n / (2 * h) * np.eye(m)
            question = self.score("second step", str(k + 1), start, CheckLoss(self.tau, h), held, False)
            step = np.asarray(np.linalg.solve(rough, self.ask(question, by=self.by.vector).value), dtype=float)
            start = start.moved(step * min(1.0, residuals.sigma / max(float(np.linalg.norm(step)), 1e-300)))

        # 4. the check score, of rows as long as the interval is shortest; its Hessian through a kernel
        products, loss = self.by.free_products, CheckLoss(self.tau)
        unit = score_sd(self.ask, self.score("score", "", start, loss, 1.0, products), self.by)
        radius = self.radius(unit)
        asked = self.score("score", "", start, loss, radius.radius, products)
        score = ReleasedScore.of(self.ask(asked, by=self.by.vector))
        usual, noisy = self.usual_meat(radius.radius), score.products
        if not products and self.shared.intervals:
            of = ClippedScores(loss, start.P, start.eta, radius.radius)
            within = Products(m, self.largest * radius.radius)
            asked = Sum("meat", of, within=within, keep=self.keep, item=self.label(""), folded=True)
            noisy = NoisyMatrix.of(self.ask(asked, by=self.by.matrix))
        meat = usual * np.eye(m)
        if noisy is not None:
            level = self.level(noisy, usual)
            meat = noisy.shrunk(level * np.eye(m))
            meat = meat * (level * m / float(np.trace(meat)))
        density = self.density(start, residuals, radius.radius, unit * radius.radius)
        return self.solved(start, score.value, meat, score.noise, density, radius, FARTHEST_STEP)

    def usual_meat(self, radius: float) -> float:
        """Return the mean eigenvalue that the meat has by the histogram of lengths, if the model is right."""
        lengths = self.shared.lengths
        squares = float((lengths.counts * np.minimum(lengths.lengths, radius) ** 2).sum()) / self.m
        return self.tau * (1 - self.tau) * max(squares, self.n) * self.prefix.sizes.scores / self.n

    def level(self, meat: NoisyMatrix, usual: float) -> float:
        """Return the mean eigenvalue of a noisy meat, moved toward the usual one by what noise explains of its gap.

        Squares of scores are 1/4 at tau = .5, whatever the model is: there it is the usual one.
        """
        if self.tau == 0.5:
            return usual
        m = len(meat.value)
        gap = float(np.trace(meat.value)) / m - usual
        kept = max(0.0, 1 - meat.trace_variance() / m**2 / max(gap**2, 1e-300))
        return max(usual + kept * gap, usual / 2)

    def rough_hessian(self, start: Start, residuals: Residuals, h: float, held: float) -> FloatArray:
        """Release the Hessian of the loss smoothed over h; eigenvalues are raised to a share of the usual ones."""
        of = Shortened(start.P, start.eta, h, 1e300)
        question = Sum("first hessian", of, Products(self.m, held), self.keep, self.label(""))
        sd = entry_sd(self.ask, question, self.by) * held**2
        released = NoisyMatrix.of(self.ask(question, by=self.by.matrix)).mapped(np.eye(self.m) / np.sqrt(2 * h))
        least = max(LEAST_CHECK_CURVATURE * self.n * residuals.density, self.m**0.5 * sd / (2 * h))
        return released.nearest_positive(least)


@dataclass(frozen=True, eq=False)
class Perturbed(OneOrder):
    """A perturbed minimiser of the smoothed loss as the pilot, and one step by the check score, for one order."""

    mechanism: ObjectivePerturbation

    def equation(self) -> tuple[EstimatingEquation, tuple[Note, ...], dict[str, float]]:
        m = self.m

        # 2. where the quantile is, about, and how wide the loss is smoothed
        start = self.prefix.start
        residuals = self.residuals(start, "first")
        start = self.recentred(start, residuals)
        loss = CheckLoss(self.tau)
        unit = score_sd(self.ask, self.score("score", "", start, loss, 1.0, False), self.by)
        radius = self.radius(unit)
        h = self.half_width(start, residuals, radius.radius)

        # 3. the pilot, and about where its ridge is taken off
        law = self.ask.law(self.question(start, h, radius.radius), by=self.mechanism)
        drawn = self.ask(self.question(start, h, radius.radius), by=self.mechanism)
        flat = self.n * residuals.density
        pilot = start.moved(drawn.value * (1 + law.ridge / (flat + law.ridge)))

        # 4. the check score there, and its Hessian through a kernel
        released = self.ask(self.score("score", "", pilot, loss, radius.radius, False), by=self.by.vector)
        meat = self.tau * (1 - self.tau) * self.n * np.eye(m)
        density = self.density(pilot, residuals, radius.radius, unit * radius.radius)
        noise = Loading(np.eye(m), released.law)
        return self.solved(pilot, released.value, meat, noise, density, radius, FARTHEST_FROM_PILOT)

    def half_width(self, start: Start, residuals: Residuals, radius: float) -> float:
        """Return the half-width at which the ridge, which falls with it, is a known share of the curvature."""
        law = self.ask.law(self.question(start, 1.0, radius), by=self.mechanism)
        wanted = law.ridge / (PILOT_RIDGE * self.n * residuals.density)
        return float(np.clip(wanted, LEAST_SMOOTHED * residuals.sigma, MOST_SMOOTHED * residuals.sigma))

    def question(self, start: Start, h: float, radius: float) -> Values:
        """Return the question for the minimiser of the loss smoothed over h."""
        longest = max(start.longest, radius)
        reach = 1.0 + float(np.abs(start.theta).sum()) + start.offset_reach
        within = WeightedLosses(
            self.m,
            SmoothedCheck(self.tau, h),
            radius,
            radius * min(longest, MOST_CURVED * radius),
            longest,
            (-1.0, 1.0),
            (-reach, reach),
        )
        return Values("coefficients", LossRows(start.P, start.eta), within, self.keep, self.label(""))
