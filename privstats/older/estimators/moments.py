"""Least squares from one noisy matrix of second moments.

The error of the estimate is
``A^-1 (sampling error + N_xy - N_xx theta)``, where N is the noise of the release, whose law is public.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from privstats.older.estimators.base import Ask, Facts
from privstats.older.estimators.robust import robust_meat
from privstats.older.estimators.shrinkage import BELIEVABLE, hopeless, is_clear
from privstats.older.gate.questions import Gram, Sum
from privstats.older.inference.answer import Answer, ConstantVariance, Meat, Noise, Unknown
from privstats.older.inference.repair import floor_eigenvalues, schur_complement
from privstats.older.inference.sandwich import between_bread
from privstats.older.inference.simulate import Lost, unidentified
from privstats.older.losses.squares import AugmentedRow, Presence
from privstats.older.numerics.law import FloatArray
from privstats.older.sets.base import Positive
from privstats.older.sets.moments import Moments

LARGEST_KAPPA = 20.0  # beyond, it makes no difference
FLOOR = 0.6  # of the noise: eigenvalues below are raised to it
WEAK = 0.85  # of the noise: smaller eigenvalues may well be zero
SIGNAL = 0.2  # assumed squared length of the scaled coefficients: sets how noise is shared between x and y
ROWS = 0.02  # share, beside 1 for the moments, of the number of rows where it is not their total weight
ROBUST = 0.25  # share, beside 1 for the moments, of a meat that allows errors of different variance
RELIABLE, UNINFORMATIVE = 0.4, 1.0  # kappa below: nominal coverage; above: intervals as wide as the prior range


def suffstats(ask: Ask, facts: Facts, noise: str) -> Answer:
    """Solve the normal equations of a released moment matrix.

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
        In scaled units, with `kappa`, the size of the noise against the weakest direction of the predictors.
    """
    groups = tuple(tuple(column + 1 for column in group) for group in facts.groups)
    scale = response_scale(facts.intercept + facts.columns - sum(map(len, groups)) + len(groups))
    within = Moments(facts.columns + 1, facts.intercept, facts.count_is_public, scale, groups)
    questions = (Gram("moments", AugmentedRow(), within), Sum("rows", Presence(), Positive(1.0, 1)))
    several = slice(1 + facts.weighted)
    release, *counted = ask(questions[several], by=(noise, scalar(noise))[several], share=(1.0, ROWS)[several])
    assert release.law is not None  # the noise is additive
    moments, variance = within.unpack(release.value), within.unpack(release.law.variance())
    moments[0, 0] = known_or_above_noise(moments[0, 0], variance[0, 0], facts)
    n = max(1.0, float(counted[0].value[0])) if counted else float(moments[0, 0])
    coefficients = slice(0 if facts.intercept else 1, facts.columns + 1)
    spread = spectral_noise(moments, variance, facts)
    floor = FLOOR * spread
    A, xy = moments[coefficients, coefficients], moments[coefficients, -1]
    bread, eigenvalues = floor_eigenvalues(A, floor, int(facts.intercept))
    theta: FloatArray = np.linalg.solve(bread, xy).astype(float)
    onto = times(within, np.append(-theta, 1.0), facts.intercept)
    noises = [Noise(release.law, onto[:-1])]
    constant = _constant_variance(moments, bread, theta, noises[0], onto[-1], n, coefficients)
    meat: Meat = constant
    if facts.robust and not facts.interval_free:
        doubt = math.sqrt(float(release.law.covariance(constant.heard[0][None, :])[0, 0]))
        rough = spread / ROBUST / (2 * math.sqrt(max(1, facts.columns)))
        meat = robust_meat(ask, facts, noise, theta, max(0.0, constant.scale) + doubt, n, ROBUST, rough)
    weakest = max(float(eigenvalues.min(initial=math.inf)), spread / LARGEST_KAPPA, 1e-300)
    kappa = max(2 * math.sqrt(variance[0, 0]) / moments[0, 0], spread / weakest)
    shrunk, shrink_notes = hopeless(theta, bread, meat.covariance() + noises[0].covariance())
    ridge, ridge_notes = _ridge(within, A, variance, facts)
    if shrunk is None and ridge.any():
        shrunk = np.linalg.solve(bread + np.diag(ridge), xy).astype(float)
    raised = eigenvalues < floor
    if raised.any():  # the repair pulls theta toward zero, by an unknown part of itself
        clear = is_clear(theta, between_bread(bread, noises[0].covariance()))
        believable = math.sqrt(max(BELIEVABLE, float(theta @ theta) * clear) / len(theta))
        noises.append(Noise(Unknown(np.full(len(theta), believable)), bread - A))
        constant = replace(constant, heard=(*constant.heard, np.zeros(len(theta))))
        meat = meat if facts.robust else constant
    lost = _lost(A, spread, int(facts.intercept), moments[0, 0], np.diag(bread))
    return Answer(
        theta=theta,
        bread=bread,
        meat=None if facts.interval_free else meat,
        noises=tuple(noises),
        n=n,
        facts={"kappa": kappa, "sigma": math.sqrt(max(0.0, constant.scale)), "n_used": n},
        notes=(
            *_notes(kappa, int(raised.sum())),
            *ridge_notes,
            *shrink_notes,
            *_hidden(lost, facts),
            *facts.no_intervals_because,
        ),
        shrunk=shrunk,
        lost=lost,
    )


def _lost(A: FloatArray, spread: float, first: int, n: float, information: FloatArray) -> Lost | None:
    """Return directions of theta that vary less than the noise while others vary far more; None if there are none.

    Noise alone gives eigenvalues a variance of ``spread^2 / 4``. At four times that the predictors are collinear, as
    far as one can see, and how large a coefficient hides in a weak direction nobody knows.
    """
    values, vectors = np.linalg.eigh(schur_complement(A, first))
    if not values.size or values[0] >= WEAK * spread or values[-1] <= 4 * spread or values.var() <= spread**2:
        return None
    weak = vectors[:, values < WEAK * spread]
    return Lost.of(np.concatenate([np.zeros((first, weak.shape[1])), weak]), WEAK * spread, n, information)


def _hidden(lost: Lost | None, facts: Facts) -> tuple[str, ...]:
    if lost is None:
        return ()
    none = unidentified(lost, facts.names)
    those = f"have no interval (NaN), those of {', '.join(none)}" if none else "have longer intervals"
    return (
        f"{lost.reach.shape[1]} combination(s) of the predictors vary so little that they lie below the noise: "
        f"coefficients that they move {those}",
    )


def scalar(noise: str) -> str:
    """Return the mechanism for a single number that goes with a law for many."""
    return "gaussian" if noise == "gaussian" else "l1"


def response_scale(others: float) -> float:
    """Return the free scale of the response that suits coefficients of squared length `SIGNAL`.

    Parameters
    ----------
    others : float
        Largest squared length of the rest of the row.
    """
    return math.sqrt((-1 + math.sqrt(1 + 8 * SIGNAL * others)) / (4 * SIGNAL))


def known_or_above_noise(count: float, variance: float, facts: Facts) -> float:
    """Return the number of rows: the public one, or the noisy count or total weight, away from zero by its noise."""
    if facts.count_is_public:
        assert facts.n is not None
        return float(facts.n)
    most = math.inf if facts.n is None else facts.n
    return min(most, max(count, 2 * math.sqrt(variance), 1e-9 if facts.weighted else 1.0))


def spectral_noise(moments: FloatArray, variance: FloatArray, facts: Facts) -> float:
    """Return the size of the noise in the centred predictor moments as a matrix: 2 sqrt(p) sd, were all entries alike.

    Centring is part of it: the noise of ``sum (x - m)(x - m)'`` is ``N_xx - m N_1x - N_x1 m + m m N_11``,
    uncorrelated between entries; p sd^2 is the largest sum of a row's variances.
    """
    predictors = slice(1, facts.columns + 1)
    m = np.clip(moments[0, predictors] / moments[0, 0], -1.0, 1.0) * facts.intercept
    crossed = np.outer(m**2, variance[0, predictors])
    entries = variance[predictors, predictors] + crossed + crossed.T + np.outer(m**2, m**2) * variance[0, 0]
    entries[np.diag_indices_from(entries)] += 2 * np.diag(crossed)  # on the diagonal the two cross terms are one
    return 2 * math.sqrt(entries.sum(axis=1).max(initial=0.0))


def times(within: Moments, vector: FloatArray, intercept: bool) -> FloatArray:
    """Return the map from packed noise N to ``N c``, shape (m + 1 - (not intercept), dim).

    With c = (-theta, 1) these are N_xy - N_xx theta, then N_yy - N_yx theta.

    Parameters
    ----------
    within : Moments
        What was released.
    vector : ndarray, shape (m + intercept,)
        c.
    intercept : bool
        Whether c begins with the constant's entry.
    """
    contrast = np.concatenate([np.zeros(int(not intercept)), vector])
    row, column = np.nonzero(within.where >= 0)
    onto = np.zeros((within.m + 1, within.dim))
    np.add.at(onto, (row, within.where[row, column]), contrast[column])
    return onto[int(not intercept) :]


def _constant_variance(
    moments: FloatArray,
    bread: FloatArray,
    theta: FloatArray,
    noise: Noise,
    last: FloatArray,
    n: float,
    coefficients: slice,
) -> ConstantVariance:
    """Return sigma^2 times the bread: homoskedastic errors.

    The residual sum of squares is corrected for what the fit gains by following the noise; noise N has
    added ``c'N c`` to it, of which `last` is the last row, ``(N c)_y``.
    """
    xy, yy = moments[coefficients, -1], moments[-1, -1]
    squares = yy - 2 * theta @ xy + theta @ bread @ theta
    gained = float(np.trace(np.linalg.solve(bread, noise.covariance())))
    freedom = max(1.0, n - len(theta))
    heard = last - theta @ noise.onto
    return ConstantVariance(bread, float(squares + gained) / freedom, (heard / freedom,), freedom)


def _ridge(within: Moments, A: FloatArray, variance: FloatArray, facts: Facts) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the penalty of each coefficient, shape (k,), and a note.

    A number penalises every scaled coefficient (Awan and Slavkovic 2021, equation 6); "adaptive" the slopes alone, by
    what the weakest direction lacks of 2 sqrt(p) standard deviations of the noise of a cross product.
    """
    penalised, first = np.ones(len(A)), int(facts.intercept)
    if facts.ridge is None or facts.ridge == 0:
        return 0 * penalised, ()
    if isinstance(facts.ridge, str):
        penalised[:first] = 0.0
        predictors = slice(1, facts.columns + 1)
        apart = (within.where[predictors, predictors] >= 0) & ~np.eye(facts.columns, dtype=bool)
        known = variance[predictors, predictors][apart if apart.any() else np.eye(facts.columns, dtype=bool)]
        weakest = float(np.linalg.eigvalsh(schur_complement(A, first)).min(initial=math.inf))
        ridge = max(0.0, 2 * math.sqrt(facts.columns * known.max(initial=0.0)) - weakest)
    else:
        ridge = float(facts.ridge)
    if ridge == 0:
        return 0 * penalised, ("adaptive ridge: none was needed",)
    note = f"ridge {ridge:.4g} (scaled units): coefficients are shrunk; intervals and tests are those without it"
    return ridge * penalised, (note,)


def _notes(kappa: float, floored: int) -> tuple[str, ...]:
    notes = []
    if floored:
        notes.append(
            f"{floored} eigenvalue(s) of the noisy moment matrix lay below its noise and were raised to it; intervals "
            "assume that coefficients are no larger there than they seem, or a third of the response's half-range"
        )
    if kappa > UNINFORMATIVE:
        notes.append(f"kappa = {kappa:.2f} > 1: too small a budget for this model; intervals say little")
    elif kappa > RELIABLE:
        notes.append(f"kappa = {kappa:.2f} > 0.4: intervals are conservative, std err may be too small")
    return tuple(notes)
