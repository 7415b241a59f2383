"""Robust and generalised linear regression by noisy steps, whose mean is corrected by one more.

Rows are made alike and shortened to a known length (Mallows weights), scores are bounded, so nothing needs to be known
of the data's range. Each step asks for the sum of the scores at the last iterate, and moves by a curvature guessed from
the rows' second moments. At the mean of the last iterates the curvature itself is released: one Newton step from there,
along the mean of the *released* scores, takes off whatever the iterates had not converged by. (Avella-Medina, Bradshaw
and Loh 2023 take the last iterate, whose noise grows with the number of steps.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from privstats.older.estimators.base import Ask, Facts
from privstats.older.estimators.courses import Course, Outset, course_of
from privstats.older.estimators.curvature import between, guessed, learnt, predictors, times, toward
from privstats.older.estimators.whiten import ROWS, Ground, alike, of_rare_levels
from privstats.older.gate.questions import Outer, Question, Score, ScoreAndScale, Sum
from privstats.older.inference.answer import Answer, Noise, OwnVariance, Unknown, Unsure
from privstats.older.inference.simulate import without
from privstats.older.losses.bounded import KAPPA, Huber
from privstats.older.losses.clipped import Count
from privstats.older.losses.leverage import Held
from privstats.older.losses.predictor import CurvaturePull, ModelPull, Predictor, ScaledPull, ScorePull, ScoreSquare
from privstats.older.numerics.law import FloatArray
from privstats.older.privacy.release import Release
from privstats.older.sets.base import Positive
from privstats.older.sets.leverage import Products, Pulls, PullsAndScale

BURN, MAIN = 6, 6  # steps
BURN_SCORE, MAIN_SCORE, CURVATURE, MEAT, DISPERSION = 0.025, 0.1, 0.12, 0.08, 0.02  # shares, each
BARELY = 0.3  # noise as a part of the sampling error, up to which rows may reach farther than they usually do,
DEAR = 3.0  # times that, up to which nearly all rows of bounded predictors are to count in full,
FARTHEST = 8.0  # and how many times as far at most
CLEAR = 0.2  # and noise of released matrices as a part of their smallest eigenvalues, likewise
NOISY = 0.2  # noise of a step, in units of the linear predictor and of its spread: steps are damped to that
EAGER = 0.7  # damping of the main steps, whose mean counts
LONGEST = 3.0  # step, in the same units
UNSURE = 0.4  # relative noise of mean squared residuals, at which the scale moves half as far,
SCALED = 0.7  # and how far their logarithm moves that of the scale: no oscillation from near or far
BENT = 0.35  # of the last step's length: more is told
MOST_COUNTS, LARGE = 500.0, 2.5  # mean count, and in how many standard deviations above the mean of log means it is
USUAL = ndtri((np.arange(25) + 0.5) / 25)  # linear predictors of rows, standardised


@dataclass(frozen=True, eq=False)
class Path:
    """The main steps: where scores were taken, and what was heard.

    Parameters
    ----------
    predictors : tuple of Predictor
        In the coordinates of whitened rows.
    scores : tuple of Release
        As parts of radius times bound.
    """

    predictors: tuple[Predictor, ...]
    scores: tuple[Release, ...]

    @property
    def mean(self) -> Predictor:
        """The mean of the iterates, and of the scale's logarithm."""
        last = self.predictors[-1]
        theta = np.mean([at.theta for at in self.predictors], axis=0)
        score = last.score
        if isinstance(score, Huber):
            score = Huber(math.exp(np.mean([math.log(at.score.unit) for at in self.predictors])))
        return Predictor(last.held, theta, score)


def one_step(ask: Ask, facts: Facts, noise: str, course: Course | None = None) -> Answer:
    """Follow noisy scores, and correct the mean of the last iterates.

    Parameters
    ----------
    ask : callable
        The conversation.
    facts : Facts
        Public facts of the fit.
    noise : str
        Additive mechanism that answers.
    course : Course, optional
        How the score is chosen; else the family tells.

    Returns
    -------
    Answer
        In scaled units, with `snr`, the smallest eigenvalue of the released curvature in units of its noise.
    """
    ground = alike(ask, facts, noise)
    course = course or course_of(facts)
    outset = course.outset(ask, facts, noise, ground.n)
    path = _descend(ask, facts, noise, ground, course, outset)
    at, within = path.mean, Products(facts.coefficients, pulled=True)
    (curvature,) = ask(Outer("curvature", CurvaturePull(at), within, ground.directions), by=noise, share=CURVATURE)
    meat = () if facts.interval_free else _bought(ask, facts, noise, ground, at)
    return _answer(facts, ground, course, outset, path, curvature, meat)


def _bought(ask: Ask, facts: Facts, noise: str, ground: Ground, at: Predictor) -> tuple[Release, ...]:
    """Buy the covariance of scores: that of the rows' own, or that under the model with its dispersion."""
    within = Products(facts.coefficients, pulled=True)
    if facts.robust:
        squares = replace(at, score=at.score.squares)
        return ask(Outer("meat", ScorePull(squares), within, ground.directions), by=noise, share=MEAT)
    meat = Outer("meat", ModelPull(at), within, ground.directions)
    if not at.score.dispersed:
        return ask(meat, by=noise, share=MEAT)
    return ask([meat, Sum("dispersion", ScoreSquare(at), Positive(1.0, 1))], by=noise, share=[MEAT, DISPERSION])


def _radius(ground: Ground, at: Predictor, offset: float) -> float:
    """Return the length to which rows are held: the usual one, and more where the noise allows it everywhere.

    Where predictors have bounds nearly all rows are to count in full, so that a wrong model is not fitted to some of
    them only; that may cost `DEAR` times as much noise.
    """
    m, mu = len(ground.A), ground.gram.event.mu() / math.sqrt(ROWS)  # of a share of one
    usual, weakest = math.sqrt(m), max(0.0, float(np.linalg.eigvalsh(guessed(ground, at, offset))[0]))
    score = BARELY * mu * math.sqrt(MAIN * MAIN_SCORE * weakest) / (2 * at.score.bound)
    dearest = max(at.score.steep / math.sqrt(CURVATURE), 2 * at.score.bound**2 / math.sqrt(MEAT))
    matrix = CLEAR * mu * weakest / (2 * usual * dearest)
    wanted = min(ground.reach, DEAR * score, math.sqrt(DEAR * matrix))
    return min(FARTHEST * usual, max(usual, min(score, math.sqrt(matrix)), wanted))


def _descend(ask: Ask, facts: Facts, noise: str, ground: Ground, course: Course, outset: Outset) -> Path:
    m = facts.coefficients
    start = np.zeros(m)
    start[:1] = outset.eta * facts.intercept
    at = Predictor(ground.held, np.linalg.solve(ground.held.whitened.W, start).astype(float), outset.score)
    along: tuple[Predictor, ...] = ()
    scores: tuple[Release, ...] = ()
    before, last, there, parts = at, start, np.eye(m), np.eye(m)
    burn = BURN + course.more
    for step in range(1, burn + MAIN + 1):
        first = step <= burn
        if step == BURN + 1:
            mean, sd = predictors(ground, at.theta, outset.offset)
            mu, reach = ground.gram.event.mu() / math.sqrt(ROWS), ground.held.radius
            noisy = 2 * reach / (mu * math.sqrt(MAIN * MAIN_SCORE * ground.n))
            dear = noisy, 2 * math.sqrt(m) * reach**2 / (mu * math.sqrt(MEAT) * ground.n)
            at = course.settled(ask, noise, at, mean + sd * USUAL, dear)
        if step == burn + 1:
            at = replace(at, held=Held(at.held.whitened, _radius(ground, at, outset.offset)))
        if not first:
            along += (at,)
        (release,) = ask(_question(f"score {step}", at, ground), by=noise, share=BURN_SCORE if first else MAIN_SCORE)
        if not first:
            scores += (release,)
        pull, sd = _pull(at, release)
        here = guessed(ground, at, outset.offset)
        if step not in (1, BURN + 1, burn + 1) and not isinstance(at.score, Huber):  # scores that can be compared
            parts = learnt(parts, (there, here), at.theta - before.theta, last - pull, math.sqrt(2.0) * sd)
        before, last, there = at, pull, here
        at = _moved(at, release, between(here, parts), ground, outset, 1.0 if first else EAGER)
    return Path(along, scores)


def _question(name: str, at: Predictor, ground: Ground) -> Question:
    m = len(at.theta)
    if isinstance(at.score, Huber):
        return ScoreAndScale(name, ScaledPull(at), PullsAndScale(m, KAPPA), ground.directions)
    return Score(name, ScorePull(at), Pulls(m), ground.directions)


def _pull(at: Predictor, release: Release) -> tuple[FloatArray, float]:
    """Return a released score, and the standard deviation of a coordinate's noise, in the units of a least square."""
    assert release.law is not None
    reach = at.score.unit * at.held.radius * at.score.bound
    return reach * release.value[: len(at.theta)], reach * math.sqrt(float(release.law.variance()[0]))


def _moved(at: Predictor, release: Release, H: FloatArray, ground: Ground, outset: Outset, eager: float) -> Predictor:
    """Return the next iterate: as far as the curvature says, and no farther than the noise allows."""
    assert release.law is not None
    m, (pull, noise) = len(at.theta), _pull(at, release)
    sd = np.sqrt(release.law.variance())
    values, vectors = np.linalg.eigh(H)
    spread = math.hypot(1.0, predictors(ground, at.theta, outset.offset)[1] / at.score.unit)
    floor = max(at.score.calm * noise / at.score.unit / (NOISY * spread), 1e-3 * ground.n)
    step = eager * np.linalg.solve((vectors * np.maximum(values, floor)) @ vectors.T, pull)
    length, most = float(np.linalg.norm(step)), LONGEST * at.score.unit
    score = at.score
    if isinstance(score, Huber):
        usual = KAPPA * ground.n
        seen = max(1 + release.value[m] / usual, sd[m] / usual, 0.01)
        slow = 1 / (1 + (sd[m] / usual / UNSURE) ** 2)
        score = Huber(score.unit * math.exp(slow * SCALED * math.log(seen)))
    return Predictor(at.held, at.theta + step * min(1.0, most / max(length, 1e-300)), score)


def _answer(
    facts: Facts,
    ground: Ground,
    course: Course,
    outset: Outset,
    path: Path,
    curvature: Release,
    bought: tuple[Release, ...],
) -> Answer:
    """Correct the mean, and map it, and all noise in it, to the coefficients of scaled columns."""
    assert curvature.law is not None
    T, at, m = ground.T, path.mean, len(ground.A)
    back: FloatArray = np.linalg.inv(T).T.astype(float)  # takes scores of whitened rows to those of scaled columns
    unit, where = at.held.radius**2 * at.score.steep, Products(m).where
    sd = unit * math.sqrt(float(curvature.law.variance().min()))
    raw = unit * curvature.value[where]
    drowned = course.drowned(raw, sd)
    M, kept = toward(raw, guessed(ground, at, outset.offset), sd)
    reaches = [p.held.radius * p.score.bound * p.score.unit / len(path.scores) for p in path.predictors]
    pull = sum(reach * score.value[:m] for reach, score in zip(reaches, path.scores, strict=True))
    theta = at.theta + np.linalg.solve(M, pull)
    bread = back @ M @ back.T
    noises = []
    for reach, score in zip(reaches, path.scores, strict=True):
        assert score.law is not None
        onto = np.zeros((m, len(score.value)))
        onto[:, :m] = reach * back
        noises.append(Noise(score.law, onto))
    unsure = Unsure(len(noises), where, math.sqrt(kept * unit) * back)
    law = course.hearing(curvature.law, at, M / unit, where)
    noises.append(Noise(law, kept * unit * back @ times(where, at.theta - theta)))
    bent = _bent(ground, at, theta, outset.offset)
    noises.append(Noise(Unknown(np.full(1, bent)), (back @ M @ (theta - at.theta))[:, None]))
    if at.score.doubt > 0:
        noises.append(Noise(Unknown(np.full(2, at.score.doubt)), back @ M @ _levels(ground, at.theta)))
    meat = None
    snr = float(np.linalg.eigvalsh(raw)[0]) / (2 * math.sqrt(m) * sd)
    lost = _lost_counts(ground, at, theta, outset, snr, bent)
    if bought and not drowned and not lost:
        own = _meat(facts, ground, at, back, bought, max(1.0, ground.rows - m))
        meat = course.through(own, bread, unsure, math.sqrt(kept * unit))
    rare = np.zeros((m, 0)) if ground.columns is None else ground.columns.rare(facts)
    more = {"sigma": at.score.unit} if isinstance(at.score, Huber) else {}
    return Answer(
        theta=np.full(m, np.nan) if lost else T @ theta,
        bread=bread,
        meat=meat,
        noises=tuple(noises),
        n=ground.rows,
        unsure=(unsure,),
        facts={"snr": snr, **more, "n_used": ground.rows},
        notes=(
            *(lost or _doubts(snr, bent)),
            *of_rare_levels(rare, facts),
            *ground.weighted(at.held.radius),
            *facts.no_intervals_because,
            *drowned,
        ),
        lost=without(None, rare),
    )


def _levels(ground: Ground, theta: FloatArray) -> FloatArray:
    """Return the constant and the slopes, shape (m, 2): what moves if means are wrong by a part that varies with them.

    Of a model without a constant the first is zero.
    """
    constant = np.zeros(len(theta))
    if ground.held.whitened.intercept:
        plain = ground.held.whitened.W @ theta
        constant = np.linalg.solve(ground.held.whitened.W, np.eye(len(theta))[0])
        theta = theta - plain[0] * constant
    return np.column_stack([constant, theta])


def _bent(ground: Ground, at: Predictor, theta: FloatArray, offset: float) -> float:
    """Return by how much, as a part of itself, the last step is wrong: the curvature changes along it."""
    v = theta - at.theta
    here, there = (float(v @ guessed(ground, replace(at, theta=end), offset) @ v) for end in (at.theta, theta))
    return abs(here - there) / max(here + there, 1e-300)


def _lost_counts(
    ground: Ground, at: Predictor, theta: FloatArray, outset: Outset, snr: float, bent: float
) -> tuple[str, ...]:
    """Return why a regression of counts has no answer; empty if it has one, or is not of counts.

    Clipped scores of large counts have fixed points far from the root; so have steps that ended far from it, or that
    followed a curvature below its noise.
    """
    if not isinstance(at.score, Count):
        return ()
    mean, sd = predictors(ground, theta, outset.offset)
    largest = max(outset.eta + outset.offset, mean + LARGE * sd)
    if largest > math.log(MOST_COUNTS):
        return (
            f"Not given: Poisson regression under mu holds for mean counts up to about {MOST_COUNTS:g}, and here they "
            "are larger. Cure: give the counts in larger units, or dp_lm of np.log1p(counts).",
        )
    if snr < 1 or bent > BENT:
        return ("Not given: the steps did not come near an estimate. Cure: a larger mu, more rows, or fewer terms.",)
    return ()


def _doubts(snr: float, bent: float) -> tuple[str, ...]:
    weak = (
        f"snr = {snr:.2f} < 1: the weakest direction of the released curvature lies below its noise; intervals there "
        "rest on the predictors' second moments"
    )
    far = "the steps ended far from the estimate: intervals allow for it; a larger budget is needed"
    return (*((weak,) if snr < 1 else ()), *((far,) if bent > BENT else ()))


def _meat(
    facts: Facts, ground: Ground, at: Predictor, back: FloatArray, bought: tuple[Release, ...], freedom: float
) -> OwnVariance:
    """Return the covariance of the sampling error of the scores."""
    unit, where = (at.held.radius * at.score.unit) ** 2 * ground.rows / freedom, Products(len(back)).where
    if facts.robust:
        unit *= at.score.squares.bound**2
    else:
        unit *= at.score.steep
        for dispersion in bought[1:]:
            assert dispersion.law is not None
            least = math.sqrt(float(dispersion.law.variance()[0]))
            unit *= at.score.bound**2 * max(float(dispersion.value[0]), least) / ground.rows
    released, law = bought[0].value, bought[0].law
    assert law is not None
    return OwnVariance(back @ (unit * released[where]) @ back.T, law, unit, where, freedom, back)
