"""The course of a robust fit: with which bounded score it starts, and how that changes on the way."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privstats.older.estimators.base import Ask, Facts
from privstats.older.estimators.tally import Tally
from privstats.older.gate.questions import Histogram, Sum
from privstats.older.inference.answer import Meat, OwnVariance, Unsure
from privstats.older.losses.bounded import Bounded, Huber, Proportion
from privstats.older.losses.clipped import Clipped, Count, Size
from privstats.older.losses.families import Family, Gamma, Poisson
from privstats.older.losses.predictor import Predictor, ResidualSize, ResponseMean
from privstats.older.numerics.law import FloatArray, Law
from privstats.older.sets.base import Positive
from privstats.older.sets.leverage import Bins

START, SIZES = 0.01, 0.06  # shares
STEEPEST, FARTHEST = 2.0, 6.0  # bounds of a probit's weight
CHEAP = 0.15  # noise in units of the score's unit, up to which the weight may be larger than the least bound
ROUGH = 3.0  # standard deviations at which residuals of counts and sizes are clipped at first
FINE = 2.0 ** (1 / 4)  # ratio of the ends of bins of residuals
NEARLY = 1.02  # times the smallest risk is as good
NOISE = 2.0  # standard deviations of a tally's noise that may explain what it shows beyond a clip


@dataclass(frozen=True, eq=False)
class Outset:
    """Where a fit starts.

    Parameters
    ----------
    score : Bounded
        The score of the first steps.
    eta : float
        Linear predictor of all rows, the offset's mean taken off.
    offset : float
        That mean.
    """

    score: Bounded
    eta: float
    offset: float


class Course(ABC):
    """How the score is chosen.

    Attributes
    ----------
    more : int
        First steps by the score that is settled on.
    """

    more = 0

    @abstractmethod
    def outset(self, ask: Ask, facts: Facts, noise: str, n: float) -> Outset:
        """Buy what tells where to start."""

    def settled(self, ask: Ask, noise: str, at: Predictor, etas: FloatArray, dear: tuple[float, float]) -> Predictor:
        """Return where the main steps begin, and by which score.

        Parameters
        ----------
        ask, noise
            As for the estimator.
        at : Predictor
            After the first steps.
        etas : ndarray
            About the linear predictors, few of them.
        dear : tuple of two floats
            Noise of scores and of their squares in units of their sampling error and of their mean, were their mean
            square one and their bound one.
        """
        return at

    def hearing(self, law: Law, at: Predictor, total: FloatArray, where: NDArray[np.intp]) -> Law:
        """Return what a released curvature differs by from its mean.

        Parameters
        ----------
        law : Law
            Of its noise.
        at : Predictor
            Where it was taken.
        total : ndarray, shape (m, m)
            As released, positive definite.
        where : ndarray of int, shape (m, m)
            Which packed coordinate stands where.
        """
        return law

    def drowned(self, raw: FloatArray, sd: float) -> tuple[str, ...]:
        """Return why a released curvature tells too little for intervals; empty if it tells enough.

        Parameters
        ----------
        raw : ndarray, shape (m, m)
            The curvature.
        sd : float
            Standard deviation of its noise, off the diagonal; on it is sqrt(2) times as much.
        """
        return ()

    def through(self, meat: OwnVariance, bread: FloatArray, unsure: Unsure, size: float) -> Meat:
        """Return the sampling variance as it is seen through an uncertain bread, `size` times as `unsure` as noise."""
        return meat


class Residuals(Course):
    """Huber regression: the scale is what is usual, and then concomitant."""

    def outset(self, ask: Ask, facts: Facts, noise: str, n: float) -> Outset:
        return Outset(Huber(facts.usual[-1][1]), facts.usual[-1][0], 0.0)


@dataclass(frozen=True)
class Linked(Course):
    """A generalised linear model: the mean response tells where to start."""

    family: Family

    def outset(self, ask: Ask, facts: Facts, noise: str, n: float) -> Outset:
        question = Sum("mean", ResponseMean(facts.offset), Positive(1.0, 1 + (facts.offset is not None)))
        (told,) = ask(question, by=noise, share=START)
        assert told.law is not None
        least = max(1.0, math.sqrt(float(told.law.variance()[0])))
        mean = float(np.clip(told.value[0], least, max(n - least, least)) / n)
        offset = 0.0
        if facts.offset is not None:
            low, high = facts.offset
            offset = low + (high - low) * float(np.clip(told.value[1] / n, 0.0, 1.0))
        score, eta = self.start(min(mean, 1.0))
        return Outset(score, eta - offset, offset)

    @abstractmethod
    def start(self, mean: float) -> tuple[Bounded, float]:
        """Return the first score, and linear predictor at a mean response, as a part of 1."""


class Proportions(Linked):
    """Binomial responses: nothing is clipped but the weight of a probit, and that later where the budget allows it."""

    def start(self, mean: float) -> tuple[Bounded, float]:
        score = Proportion(self.family, STEEPEST)
        grid = np.linspace(-5.0, 5.0, 1001)
        return score, float(np.interp(np.clip(mean, 0.001, 0.999), self.family.mean(grid), grid))

    def settled(self, ask: Ask, noise: str, at: Predictor, etas: FloatArray, dear: tuple[float, float]) -> Predictor:
        return replace(at, score=Proportion(self.family, float(np.clip(CHEAP / dear[0], STEEPEST, FARTHEST))))


class Sized(Linked):
    """Counts and positive responses: their residuals are clipped where that promises the smallest error."""

    def settled(self, ask: Ask, noise: str, at: Predictor, etas: FloatArray, dear: tuple[float, float]) -> Predictor:
        assert isinstance(at.score, Clipped)
        ends = self.ends(at.score)
        question = Histogram("sizes", ResidualSize(at), Bins(ends[:-1]))
        tally = Tally.of(ask(question, by=noise, share=SIZES)[0], ends)
        scores = [at.score.at(t, tally.clipped_square(t), etas) for t in ends[ends >= 1.0].tolist()]
        wrong = [(tally.excess(score.t) - score.excess(etas), _noise(tally, score.t)) for score in scores]
        squares = [max(1e-12, tally.clipped_square(score.t)) for score in scores]
        left = [max(0.05, score.kept(1 - tally.below(score.t), tally.excess(score.t))) for score in scores]
        risks = [
            (square + (dear[0] * score.bound) ** 2) / kept**2 * (1 + (dear[1] * score.bound**2 / square) ** 2)
            + 2 * tally.total * max(0.0, seen - NOISE * noise) ** 2
            for score, square, kept, (seen, noise) in zip(scores, squares, left, wrong, strict=True)
        ]
        best = int(np.nonzero(np.array(risks) <= NEARLY * min(risks))[0].max())  # the latest clip of equals
        return replace(at, score=scores[best].doubted(max(*wrong[best], tally.hidden(scores[best].t)), etas))

    @abstractmethod
    def ends(self, score: Clipped) -> FloatArray:
        """Return the upper ends of bins of residuals."""


def _noise(tally: Tally, t: float) -> float:
    """Return the standard deviation of what the tally shows beyond a clip; bins after the last clear one are empty."""
    kept = tally.middles[: int(np.nonzero(tally.mass)[0].max()) + 1]
    return tally.noise * float(np.linalg.norm(np.maximum(kept - t, 0.0))) / tally.total


class Counts(Sized):
    """Poisson responses."""

    def start(self, mean: float) -> tuple[Bounded, float]:
        mu = max(mean * self.family.unit, 1e-3)
        score = Count(ROUGH * math.sqrt(mu) + ROUGH, self.family.unit, self.family.unit)
        return score, math.log(mu)

    def ends(self, score: Clipped) -> FloatArray:
        return np.asarray(FINE ** np.arange(-4, 4 * math.log2(max(4.0, self.family.unit)) + 1))


class Sizes(Sized):
    """Gamma responses."""

    def start(self, mean: float) -> tuple[Bounded, float]:
        score = Size(ROUGH, math.exp(-1 - ROUGH), self.family.unit)
        return score, math.log(max(mean * self.family.unit, 1e-300))

    def ends(self, score: Clipped) -> FloatArray:
        return np.asarray(FINE ** np.arange(-16, 27))


def course_of(facts: Facts) -> Course:
    """Return the course of a fit."""
    if facts.family is None:
        return Residuals()
    courses: dict[type[Family], type[Linked]] = {Poisson: Counts, Gamma: Sizes}
    return courses.get(type(facts.family), Proportions)(facts.family)
