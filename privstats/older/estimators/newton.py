"""Least squares by adaptive noisy Newton steps: intervals nearly as short as those without privacy.

On rows made alike (`prepare`), each step asks for the sum of their clipped scores at the last iterate. The clip comes
from a released histogram of residuals, the step's direction from a released matrix; noise in either costs no bias,
since the iterates contract toward the root of the exact score. The mean of the last iterates is the estimate: its error
is ``(p A)^-1 (sampling error + noise)``, with p the share of residuals that are not clipped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri

from privstats.older.estimators.base import Ask, Facts
from privstats.older.estimators.shrinkage import hopeless
from privstats.older.estimators.tally import Tally
from privstats.older.estimators.whiten import Ground, of_rare_levels, prepare
from privstats.older.gate.questions import Histogram, Outer, Question, Score, Sum
from privstats.older.inference.answer import Answer, ConstantVariance, Meat, Noise, OwnVariance, Unknown, Unsure
from privstats.older.inference.simulate import Lost, root, unidentified, without
from privstats.older.losses.leverage import Pull, PullSize
from privstats.older.losses.squares import SquaredResidual
from privstats.older.numerics.law import FloatArray
from privstats.older.privacy.release import Release
from privstats.older.sets.base import Positive
from privstats.older.sets.leverage import Bins, Products, Pulls

BURN, MAIN = 4, 2  # steps
BURN_SCORE, MAIN_SCORE, BURN_SIZES, MAIN_SIZES, MEAT = 0.029, 0.33, 0.01, 0.06, 0.10  # shares, each
ENDS = 2.0 ** (1 - np.arange(32, -1, -1) / 3)  # of the bins of sizes, in units of the largest; |y| <= 1
COARSE = 0.9  # quantile of the residuals at which the first steps clip
LEAST = 0.3  # of p in the first steps, which must not be too long
LONGEST = 1.0  # step, in units of the fitted values' mean square, which is at most 1
CONSTANT = 3.0  # times what may have been clipped away: what the interval of the constant allows for
NOISY = 0.5  # noise in the meat's diagonal, as a part of itself, up to which the meat is taken as released
FAR = 2.0  # times the largest size that was seen: residuals are held to that when their squares are added up
FLAT = 0.1  # of the constant variance's meat: eigenvalues below are noise, if there is so much of it
WEAK = 1.25  # of the noise: directions of smaller eigenvalues, which may well be zero, are left alone
SETTLED = 0.001  # level of the test that the last iterates differ by their noise


@dataclass(frozen=True, eq=False)
class Path:
    """The last steps: iterates, the scores they followed, and the clip.

    Parameters
    ----------
    iterates : tuple of ndarray, shape (m,)
        After each of the last steps, for whitened rows.
    scores : tuple of Release
        What they followed, as parts of clip times reach.
    tally : Tally
        Histogram of sizes of residuals, from which the clip was chosen.
    clip : float
        Largest size.
    """

    iterates: tuple[FloatArray, ...]
    scores: tuple[Release, ...]
    tally: Tally
    clip: float

    @property
    def p(self) -> float:
        """Share of the residuals that are not clipped."""
        return _unclipped(self.tally, self.clip)

    @property
    def far(self) -> float:
        """A residual beyond which there are next to none."""
        return FAR * float(self.tally.ends[np.nonzero(self.tally.mass)[0].max()])

    @property
    def weights(self) -> FloatArray:
        """Weights of the iterates in their mean, by the precision of their noise."""
        precisions = np.array([1 / _variance(score) for score in self.scores])
        return precisions / precisions.sum()

    @property
    def theta(self) -> FloatArray:
        """The estimate, for whitened rows."""
        return self.weights @ np.array(self.iterates)


def newton(ask: Ask, facts: Facts, noise: str) -> Answer:
    """Solve the clipped score equations by noisy Newton steps.

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
        In scaled units, with `kappa`, the noise of the matrix against the weakest direction of whitened rows.
    """
    ground = prepare(ask, facts, noise, MAIN * MAIN_SCORE)
    path = _descend(ask, facts, noise, ground)
    squares = SquaredResidual(ground.T @ path.theta, facts.intercept, path.far)
    spread: Question = Sum("residuals", squares, Positive(1.0, 1))
    if facts.robust:
        pull, within = Pull(ground.held, path.theta, path.clip), Products(facts.coefficients, pulled=True)
        spread = Outer("meat", pull, within, ground.directions)
    released = None if facts.interval_free else ask(spread, by=noise, share=MEAT)[0]
    return _answer(facts, ground, path, released)


def _descend(ask: Ask, facts: Facts, noise: str, ground: Ground) -> Path:
    m = facts.coefficients
    theta, within = np.zeros(m), Pulls(m)
    ends = ENDS * max(1.0, ground.held.radius / math.sqrt(m))
    iterates: tuple[FloatArray, ...] = ()
    scores: tuple[Release, ...] = ()
    for step in range(1, BURN + MAIN + 1):
        first = step <= BURN
        if step <= BURN + 1:
            (sizes,) = ask(
                Histogram(f"sizes {step}", PullSize(ground.held, theta), Bins(ends[:-1])),
                by=noise,
                share=BURN_SIZES if first else MAIN_SIZES,
            )
            tally = Tally.of(sizes, ends)
            clip = tally.quantile(COARSE) if first else _best_clip(tally, ground, scores[-1])
        (score,) = ask(
            Score(f"score {step}", Pull(ground.held, theta, clip), within, ground.directions),
            by=noise,
            share=BURN_SCORE if first else MAIN_SCORE,
        )
        p = max(LEAST * first, _unclipped(tally, clip))
        theta = theta + _capped(np.linalg.solve(p * ground.A, ground.held.reach(m) * clip * score.value).astype(float))
        scores += (score,)
        iterates += (theta,)
    return Path(iterates[BURN:], scores[BURN:], tally, clip)


def _best_clip(tally: Tally, ground: Ground, score: Release) -> float:
    """Return the clip of the last steps that promises the smallest error.

    The squared error is ``[(2 C reach / mu)^2 tr A^-2 + sigma^2 tr A^-1] / p^2``, and as bias twice what is clipped
    away, were all of it on one side and in rows of radius R: ``R E (|q| - C)_+`` for sizes q.
    """
    m, inverse = len(ground.A), np.linalg.inv(ground.A)
    unit = ground.held.reach(m) ** 2 * _variance(score) * BURN_SCORE / (MAIN * MAIN_SCORE)
    risks = [
        (C**2 * unit * np.trace(inverse @ inverse) + _square(tally, C, ground) * np.trace(inverse))
        / _unclipped(tally, C) ** 2
        + 2 * ground.held.radius**2 * tally.excess(C) ** 2
        for C in tally.ends
    ]
    return float(tally.ends[int(np.argmin(risks))])


def _square(tally: Tally, clip: float, ground: Ground) -> float:
    """Return about the mean square of clipped residuals, from that of their sizes."""
    return tally.clipped_square(clip) * ground.n * len(ground.A) / float(np.trace(ground.A))


def _unclipped(tally: Tally, clip: float) -> float:
    return max(0.05, tally.below(clip))


def _variance(score: Release) -> float:
    """Return the variance of a score's coordinates, which is the same for all."""
    assert score.law is not None
    return float(score.law.variance()[0])


def _capped(step: FloatArray) -> FloatArray:
    return step * min(1.0, LONGEST / max(float(np.linalg.norm(step)), 1e-300))


def _answer(facts: Facts, ground: Ground, path: Path, released: Release | None) -> Answer:
    """Map the estimate, and all noise in it, to the coefficients of scaled columns."""
    T = ground.T
    back: FloatArray = np.linalg.inv(T).T.astype(float)  # takes scores of whitened rows to those of scaled columns
    bread, settled = back @ ground.A @ back.T, _settled(ground, path)
    noises = [*_noises(facts, ground, path, back), *([] if settled else [_apart(ground, path, back)])]
    assert ground.gram.law is not None
    unsure = Unsure(len(noises), Products(len(T)).where, ground.kept * ground.held.radius * back)
    noises.append(Noise(ground.gram.law, np.zeros((len(T), len(ground.gram.value)))))
    lost = _lost(T, bread, ground)
    meat, noises = _meat(facts, ground, path, released, noises, back)
    theta = T @ path.theta
    shrunk, notes = hopeless(theta, bread, meat.covariance() + sum(noise.covariance() for noise in noises))
    kappa = ground.kept * ground.spread / float(np.linalg.eigvalsh(ground.A)[0])
    assert ground.columns is not None
    rare = ground.columns.rare(facts)
    sigma = math.sqrt(_square(path.tally, path.clip, ground))
    return Answer(
        theta=theta,
        bread=bread,
        meat=None if facts.interval_free or kappa > 1 else meat,
        noises=tuple(noises),
        n=ground.rows,
        unsure=(unsure,),
        lost=without(lost, rare),
        shrunk=shrunk,
        facts={"kappa": kappa, "sigma": sigma, "n_used": ground.rows},
        notes=(
            *notes,
            *_hidden(lost, facts),
            *_too_noisy(kappa),
            *of_rare_levels(rare, facts),
            *_unsettled(settled),
            *ground.weighted(ground.held.radius),
            *facts.no_intervals_because,
        ),
    )


def _noises(facts: Facts, ground: Ground, path: Path, back: FloatArray) -> list[Noise]:
    """Return the noise of the last scores, and what stands for what their clip may hide."""
    reach = ground.held.reach(len(back)) * path.clip / path.p
    scores = [
        Noise(score.law, weight * reach * back)
        for score, weight in zip(path.scores, path.weights.tolist(), strict=True)
        if score.law is not None
    ]
    seen, hidden = path.tally.excess(path.clip), path.tally.hidden(path.clip)
    each = Unknown(np.full(len(back), (seen / 2 + hidden) * math.sqrt(ground.n) / path.p))
    clipped = [Noise(each, back @ root(ground.A))]
    if facts.intercept:
        constant = (back @ ground.A @ back.T)[:, :1]
        clipped.append(Noise(Unknown(np.full(1, CONSTANT * (seen + hidden) / path.p)), constant))
    return [*scores, *clipped]


def _apart(ground: Ground, path: Path, back: FloatArray) -> Noise:
    """Return what stands for the distance between the last iterates, where noise does not explain it."""
    return Noise(Unknown(np.ones(1)), (back @ ground.A @ (path.iterates[-1] - path.iterates[0]))[:, None])


def _meat(
    facts: Facts, ground: Ground, path: Path, released: Release | None, noises: list[Noise], back: FloatArray
) -> tuple[Meat, list[Noise]]:
    """Return the covariance of the sampling error of ``score / p``, and all noise that it is known by."""
    A, freedom = ground.A, max(1.0, ground.rows - len(ground.A))
    part = ground.rows / freedom / path.p**2
    rough = part * _square(path.tally, path.clip, ground)
    if released is None or released.law is None:
        return ConstantVariance(back @ A @ back.T, rough, tuple(_nothing(noises)), freedom), noises
    if not facts.robust:
        told = np.full(1, part * path.far**2 / ground.rows)
        heard = (*_nothing(noises), told)
        noises = [*noises, Noise(released.law, np.zeros((len(A), 1)))]
        return ConstantVariance(back @ A @ back.T, float(told[0] * released.value[0]), heard, freedom), noises
    unit, where = (ground.held.reach(len(A)) * path.clip) ** 2 * part, Products(len(A)).where
    seen = unit * released.value[where]
    scale = max(float(np.trace(seen) / np.trace(A)), FLAT * rough)
    noise = unit * math.sqrt(2 * float(released.law.variance().min()))
    kept = min(1.0, NOISY * scale * ground.n / noise)
    values, vectors = np.linalg.eigh((1 - kept) * scale * A + kept * seen)
    meat = (vectors * np.maximum(values, min(FLAT * scale * ground.n, noise))) @ vectors.T
    return OwnVariance(back @ meat @ back.T, released.law, kept * unit, where, freedom, back), noises


def _nothing(noises: list[Noise]) -> list[FloatArray]:
    """Return what noises that do not enter a scale add to it."""
    return [np.zeros(noise.onto.shape[1]) for noise in noises]


def _settled(ground: Ground, path: Path) -> bool:
    """Whether the last iterates differ by no more than the noise of their scores explains."""
    apart = path.iterates[-1] - path.iterates[0]
    pull = path.p * ground.A @ apart / (ground.held.reach(len(apart)) * path.clip)
    explained = _variance(path.scores[0]) + _variance(path.scores[-1]) + ground.n * 2.0**-40  # rows are on a grid
    return bool(pull @ pull <= chdtri(len(apart), SETTLED) * explained)


def _lost(T: FloatArray, bread: FloatArray, ground: Ground) -> Lost | None:
    """Return directions of theta in which even whitened rows vary less than the noise; None if there are none."""
    values, vectors = np.linalg.eigh(ground.A)
    least = min(WEAK * ground.kept * ground.spread, ground.n / 3)
    weak = values < least
    return Lost.of(T @ vectors[:, weak], least, ground.n, np.diag(bread)) if weak.any() else None


def _hidden(lost: Lost | None, facts: Facts) -> tuple[str, ...]:
    if lost is None:
        return ()
    none = unidentified(lost, facts.names)
    those = f"have no interval (NaN), those of {', '.join(none)}" if none else "have longer intervals"
    return (
        f"{lost.reach.shape[1]} combination(s) of the predictors vary so little that they lie below the noise: "
        f"coefficients that they move {those}",
    )


def _too_noisy(kappa: float) -> tuple[str, ...]:
    if kappa <= 1:
        return ()
    return (
        f"No intervals: the noise of the predictors' second moments is {kappa:.1f} times their information (kappa). "
        f"Cure: fewer terms, or rows x mu {kappa:.1f} times as large.",
    )


def _unsettled(settled: bool) -> tuple[str, ...]:
    if settled:
        return ()
    return ("the last steps differ by more than their noise: intervals allow for it; a larger budget is needed",)
