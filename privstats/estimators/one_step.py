"""Robust and generalised linear regression by noisy steps, whose mean is corrected by one more.

Rows are made alike and shortened to a known length (Mallows weights), scores are bounded, so nothing needs to be known
of the data's range. Each step asks for the sum of the scores at the last iterate, and moves by a curvature guessed from
the rows' second moments. At the mean of the last iterates the curvature itself is released: one Newton step from there,
along the mean of the *released* scores, takes off whatever the iterates had not converged by (Avella-Medina, Bradshaw
and Loh 2023 take the last iterate, whose noise grows with the number of steps and is not what they add to the variance).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from privstats.estimators.base import Ask, Facts
from privstats.estimators.courses import Course, Outset, course_of
from privstats.estimators.tally import Tally
from privstats.estimators.whiten import ROWS, Ground, alike
from privstats.gate.bounds import Positive
from privstats.gate.leverage import Products, Pulls, PullsAndScale
from privstats.gate.questions import Outer, Question, Score, ScoreAndScale, Sum
from privstats.inference.answer import Answer, ConstantVariance, Meat, Noise, OwnVariance, Unsure
from privstats.losses.bounded import KAPPA, Bounded, Huber
from privstats.losses.leverage import Held
from privstats.losses.predictor import CurvaturePull, Predictor, ScaledPull, ScorePull, ScoreSquare
from privstats.numerics.law import FloatArray
from privstats.privacy.release import Release

BURN, MAIN = 6, 6  # steps
BURN_SCORE, MAIN_SCORE, CURVATURE, MEAT = 0.025, 0.1, 0.12, 0.08  # shares, each
BARELY = 0.2  # noise as a part of the sampling error, up to which rows may reach farther than they usually do,
FARTHEST = 8.0  # and how many times as far at most
CLEAR = 0.1  # and noise of the curvature as a part of its smallest eigenvalue, likewise
NOISY = 0.2  # noise of a step, in units of the linear predictor: steps are damped to that
EAGER = 0.7  # damping of the main steps, whose mean counts
LONGEST = 3.0  # step, in the same units
UNSURE = 0.4  # relative noise of mean squared residuals, at which the scale moves half as far,
SCALED = 0.7  # and how far their logarithm moves that of the scale: no oscillation from near or far
HIGH = 3.0  # standard deviations of the linear predictor above its mean, which next to no rows exceed
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(21)


@dataclass(frozen=True, eq=False)
class Path:
    """The main steps: where scores were taken, and what was heard.

    Parameters
    ----------
    predictors : tuple of Predictor
        In the coordinates of whitened rows.
    scores : tuple of Release
        As parts of radius times bound.
    tally : Tally, optional
        Histogram of residuals, where a clip was chosen from one.
    """

    predictors: tuple[Predictor, ...]
    scores: tuple[Release, ...]
    tally: Tally | None

    @property
    def mean(self) -> Predictor:
        """The mean of the iterates, and of the scale's logarithm."""
        last = self.predictors[-1]
        theta = np.mean([at.theta for at in self.predictors], axis=0)
        score = last.score
        if isinstance(score, Huber):
            score = Huber(math.exp(np.mean([math.log(at.score.unit) for at in self.predictors])))
        return Predictor(last.held, theta, score)


def one_step(ask: Ask, facts: Facts, noise: str) -> Answer:
    """Follow noisy scores, and correct the mean of the last iterates.

    Parameters
    ----------
    ask : callable
        The conversation.
    facts : Facts
        Public facts of the fit.
    noise : str
        Additive mechanism that answers.

    Returns
    -------
    Answer
        In scaled units, with `snr`, the smallest eigenvalue of the released curvature in units of its noise.
    """
    ground = alike(ask, facts, noise)
    course = course_of(facts)
    outset = course.outset(ask, facts, noise, ground.n)
    path = _descend(ask, facts, noise, ground, course, outset)
    at, within = path.mean, Products(facts.coefficients, pulled=True)
    (curvature,) = ask(
        Outer("curvature", CurvaturePull(at), within, ground.directions), by=noise, share=CURVATURE
    )
    meat: Question | None = None
    if facts.robust:
        meat = Outer("meat", ScorePull(at), within, ground.directions)
    elif facts.family is None or facts.family.name == "gamma":
        meat = Sum("residuals", ScoreSquare(at), Positive(1.0, 1))
    released = None if meat is None or facts.interval_free else ask(meat, by=noise, share=MEAT)[0]
    return _answer(facts, ground, outset, path, curvature, released)


def _radius(ground: Ground, at: Predictor, offset: float) -> float:
    """Return the length to which rows are held: the usual one, and more where the noise allows it everywhere."""
    m, mu = len(ground.A), ground.gram.event.mu() / math.sqrt(ROWS)  # of a share of one
    usual, weakest = math.sqrt(m), float(np.linalg.eigvalsh(_guess(ground, at, offset))[0])
    score = BARELY * mu * math.sqrt(MAIN * MAIN_SCORE * weakest) / (2 * at.score.bound)
    matrix = CLEAR * mu * math.sqrt(CURVATURE) * weakest / (2 * usual * at.score.steep)
    return min(FARTHEST * usual, max(usual, min(score, math.sqrt(matrix))))


def _descend(ask: Ask, facts: Facts, noise: str, ground: Ground, course: Course, outset: Outset) -> Path:
    m = facts.coefficients
    start = np.zeros(m)
    start[:1] = outset.eta * facts.intercept
    at = Predictor(ground.held, np.linalg.solve(ground.held.whitened.W, start).astype(float), outset.score)
    tally, predictors, scores = None, (), ()
    for step in range(1, BURN + MAIN + 1):
        first = step <= BURN
        if step == BURN + 1:
            mean, sd = _eta(ground, at.theta, outset.offset)
            dear = 2 * ground.held.radius / (ground.gram.event.mu() * math.sqrt(MAIN * MAIN_SCORE / ROWS * ground.n))
            score, tally = course.settled(ask, noise, at, mean + HIGH * sd, dear)
            at = replace(at, score=score)
            at = replace(at, held=Held(at.held.whitened, _radius(ground, at, outset.offset)))
        if not first:
            predictors += (at,)
        (release,) = ask(
            _question(f"score {step}", at, ground), by=noise, share=BURN_SCORE if first else MAIN_SCORE
        )
        if not first:
            scores += (release,)
        at = _moved(at, release, ground, outset, 1.0 if first else EAGER)
    return Path(predictors, scores, tally)


def _question(name: str, at: Predictor, ground: Ground) -> Question:
    m = len(at.theta)
    if isinstance(at.score, Huber):
        return ScoreAndScale(name, ScaledPull(at), PullsAndScale(m, KAPPA), ground.directions)
    return Score(name, ScorePull(at), Pulls(m), ground.directions)


def _moved(at: Predictor, release: Release, ground: Ground, outset: Outset, eager: float) -> Predictor:
    """Return the next iterate: as far as the curvature says, and no farther than the noise allows."""
    assert release.law is not None
    m, reach = len(at.theta), at.held.radius * at.score.bound
    sd = np.sqrt(release.law.variance())
    values, vectors = np.linalg.eigh(_guess(ground, at, outset.offset))
    H = (vectors * np.clip(values, max(reach * sd[0] / NOISY / math.hypot(1.0, _eta(ground, at.theta, 0.0)[1] / at.score.unit), 1e-3 * ground.n), None)) @ vectors.T
    step = at.score.unit * eager * np.linalg.solve(H, reach * release.value[:m])
    length, most = float(np.linalg.norm(step)), LONGEST * at.score.unit
    score = at.score
    if isinstance(score, Huber):
        usual = KAPPA * ground.n
        seen = max(1 + release.value[m] / usual, sd[m] / usual, 0.01)
        slow = 1 / (1 + (sd[m] / usual / UNSURE) ** 2)
        score = Huber(score.unit * math.exp(slow * SCALED * math.log(seen)))
    return Predictor(at.held, at.theta + step * min(1.0, most / max(length, 1e-300)), score)


def _eta(ground: Ground, theta: FloatArray, offset: float) -> tuple[float, float]:
    """Return about the mean and the standard deviation of rows' linear predictors."""
    W = ground.held.whitened.W
    B, plain = np.linalg.solve(W, np.linalg.solve(W, ground.A).T) / ground.n, W @ theta
    mean = float(B[0] @ plain / B[0, 0]) if ground.held.whitened.intercept else 0.0
    return mean + offset, math.sqrt(max(float(plain @ B @ plain) - mean**2, 1e-12))


def _guess(ground: Ground, at: Predictor, offset: float) -> FloatArray:
    """Return the curvature that rows would have, were their predictors normal with the released second moments.

    With x normal given the constant, ``E h(x'theta) x x'`` needs only the mean of h and its first two moments about
    the linear predictor's mean, here by Gauss-Hermite quadrature.
    """
    B, theta = ground.A / ground.n, at.theta
    mean, sd = _eta(ground, theta, offset)
    centre = np.zeros(len(theta))
    if ground.held.whitened.intercept:
        W = ground.held.whitened.W
        row = np.linalg.solve(W, B)[0]  # E 1 u'
        centre = row / float(np.linalg.solve(W, row)[0])
    along = (B @ theta - centre * (centre @ theta)) / sd
    weights = WEIGHTS / WEIGHTS.sum() * at.score.expected(mean + sd * NODES)
    m0, m1, m2 = (float(weights @ NODES**k) for k in range(3))
    both = np.outer(centre, along)
    guess: FloatArray = m0 * (B - np.outer(along, along)) + m1 * (both + both.T) + m2 * np.outer(along, along)
    return ground.n * guess


def _answer(
    facts: Facts, ground: Ground, outset: Outset, path: Path, curvature: Release, released: Release | None
) -> Answer:
    """Correct the mean, and map it, and all noise in it, to the coefficients of scaled columns."""
    assert curvature.law is not None
    T, at, m = ground.T, path.mean, len(ground.A)
    back: FloatArray = np.linalg.inv(T).T.astype(float)  # takes scores of whitened rows to those of scaled columns
    unit, where = at.held.radius**2 * at.score.steep, Products(m).where
    sd = unit * math.sqrt(float(curvature.law.variance().min()))
    raw = unit * curvature.value[where]
    M, kept = _toward(raw, _guess(ground, at, outset.offset), sd)
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
    noises.append(Noise(curvature.law, kept * unit * back @ _times(where, at.theta - theta)))
    freedom = max(1.0, ground.rows - m)
    meat = _meat(facts, ground, at, M, back, released, noises, freedom)
    snr = float(np.linalg.eigvalsh(raw)[0]) / (2 * math.sqrt(m) * sd)
    more = {"sigma": at.score.unit} if isinstance(at.score, Huber) else {}
    return Answer(
        theta=T @ theta,
        bread=bread,
        meat=None if facts.interval_free else meat,
        noises=tuple(noises),
        n=ground.rows,
        unsure=(unsure,),
        facts={"snr": snr, **more, "n_used": ground.rows},
        notes=facts.no_intervals_because,
    )


def _times(where: np.ndarray, v: FloatArray) -> FloatArray:
    """Return the matrix that takes a packed symmetric N to ``N v``."""
    onto = np.zeros((len(v), int(where.max()) + 1))
    for i, row in enumerate(where):
        np.add.at(onto[i], row, v)
    return onto


def _toward(seen: FloatArray, guess: FloatArray, sd: float) -> tuple[FloatArray, float]:
    """Shrink a released curvature toward a multiple of what was guessed, by what noise explains of the difference.

    Parameters
    ----------
    seen, guess : ndarray, shape (m, m)
        Symmetric.
    sd : float
        Standard deviation of the noise off the diagonal; on it is sqrt(2) times as much.

    Returns
    -------
    tuple of ndarray and float
        The matrix, positive definite, and the share of the difference that was kept.
    """
    m = len(seen)
    times = float(np.clip(np.trace(seen) / np.trace(guess), 0.2, 2.0))
    apart = seen - times * guess
    spread = float((apart**2).sum()) / (m * (m + 1))
    kept = max(0.0, 1 - sd**2 / spread) if spread > 0 else 0.0
    values, vectors = np.linalg.eigh(times * guess + kept * apart)
    floor = max(kept * math.sqrt(m) * sd, 1e-3 * float(np.trace(guess)) / m)
    return (vectors * np.maximum(values, floor)) @ vectors.T, kept


def _meat(
    facts: Facts,
    ground: Ground,
    at: Predictor,
    M: FloatArray,
    back: FloatArray,
    released: Release | None,
    noises: list[Noise],
    freedom: float,
) -> Meat:
    """Return the covariance of the sampling error of the scores."""
    part, m = ground.rows / freedom, len(M)
    heard = [np.zeros(noise.onto.shape[1]) for noise in noises]
    shape = back @ M @ back.T
    if released is None or released.law is None:
        return ConstantVariance(shape, part, tuple(heard), freedom)
    if not facts.robust:
        told = np.full(1, part * at.score.bound**2 / ground.n * float(np.trace(ground.A) / np.trace(M)))
        noises.append(Noise(released.law, np.zeros((m, 1))))
        scale = at.score.unit**2 * told
        return ConstantVariance(shape, float(scale[0] * released.value[0]), (*heard, scale), freedom)
    unit, where = (at.held.radius * at.score.bound * at.score.unit) ** 2 * part, Products(m).where
    seen = unit * released.value[where]
    return OwnVariance(back @ seen @ back.T, released.law, unit, where, freedom, back)
