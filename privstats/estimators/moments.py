"""Least squares from one noisy matrix of second moments.

The error of the estimate is
``A^-1 (sampling error + N_xy - N_xx theta)``, where N is the noise of the release, whose law is public.
"""

from __future__ import annotations

import math

import numpy as np

from privstats.estimators.base import Ask, Facts
from privstats.gate.bounds import Cube, Moments
from privstats.gate.questions import Gram, Sum
from privstats.inference.answer import Answer, Meat, Noise
from privstats.inference.repair import floor_eigenvalues
from privstats.losses.squares import AugmentedRow, Presence
from privstats.numerics.law import FloatArray

SIGNAL = 0.4  # assumed length of the scaled coefficients: sets how the l2 noise is shared between x and y
SHARES = (1.0, 0.02)  # of the moments, and of the number of rows where it is not their total weight
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
    within = Moments(facts.columns + 1, facts.intercept, facts.count_is_public, _response_scale(facts.columns))
    questions = (Gram("moments", AugmentedRow(), within), Sum("rows", Presence(), Cube(1.0, 1)))
    release, *counted = ask(questions[: 1 + facts.weighted], by=noise, share=SHARES[: 1 + facts.weighted])
    assert release.law is not None  # the noise is additive
    moments, variance = within.unpack(release.value), within.unpack(release.law.variance())
    known = facts.n if facts.count_is_public else None
    moments[0, 0] = known if known is not None else _above_noise(moments[0, 0], variance[0, 0], facts)
    n = max(1.0, float(counted[0].value[0])) if counted else float(moments[0, 0])
    coefficients = slice(0 if facts.intercept else 1, facts.columns + 1)
    spread = _spectral_noise(moments, variance, facts)
    floor = spread / 2
    bread, eigenvalues = floor_eigenvalues(moments[coefficients, coefficients], floor, int(facts.intercept))
    theta: FloatArray = np.linalg.solve(bread, moments[coefficients, -1]).astype(float)
    onto = _onto(within, theta, facts.intercept)
    noise_of_equation = Noise(release.law, onto[coefficients])
    meat = _meat(moments, bread, theta, noise_of_equation, onto, n, coefficients)
    weakest = max(float(eigenvalues.min(initial=math.inf)), floor, 1e-300)
    kappa = max(2 * math.sqrt(variance[0, 0]) / moments[0, 0], spread / weakest)
    return Answer(
        theta=theta,
        bread=bread,
        meat=meat if facts.inference and facts.neighbors.rows_per_unit == 1 else None,
        noises=(noise_of_equation,),
        n=n,
        facts={"kappa": kappa, "sigma": math.sqrt(max(0.0, meat.scale)), "n_used": n},
        notes=_notes(kappa, int((eigenvalues < floor).sum()), facts),
    )


def _response_scale(columns: int) -> float:
    """Return the free scale of the response in the l2 norm that suits coefficients of length `SIGNAL`."""
    return math.sqrt((-1 + math.sqrt(1 + 8 * SIGNAL**2 * (1 + columns))) / (4 * SIGNAL**2))


def _above_noise(count: float, variance: float, facts: Facts) -> float:
    """Return the noisy count, or total weight, kept away from zero by its own noise; a count is at least 1."""
    return max(count, 2 * math.sqrt(variance), 1e-9 if facts.weighted else 1.0)


def _spectral_noise(moments: FloatArray, variance: FloatArray, facts: Facts) -> float:
    """Return 2 sqrt(p) sd, the size of the noise in the centred predictor moments as a matrix.

    Centring is part of it: the noise of ``sum (x - m)(x - m)'`` is ``N_xx - m N_1x - N_x1 m + m m N_11``,
    uncorrelated between entries; sd is the largest of their standard deviations.
    """
    predictors = slice(1, facts.columns + 1)
    m = np.clip(moments[0, predictors] / moments[0, 0], -1.0, 1.0) * facts.intercept
    crossed = np.outer(m**2, variance[0, predictors])
    entries = variance[predictors, predictors] + crossed + crossed.T + np.outer(m**2, m**2) * variance[0, 0]
    entries[np.diag_indices_from(entries)] += 2 * np.diag(crossed)  # on the diagonal the two cross terms are one
    return 2 * math.sqrt(facts.columns * entries.max(initial=0.0))


def _onto(within: Moments, theta: FloatArray, intercept: bool) -> FloatArray:
    """Return the map from packed noise N to ``N c`` with c = (-theta, 1): N_xy - N_xx theta, then N_yy - N_yx theta."""
    contrast = np.concatenate([np.zeros(0 if intercept else 1), -theta, [1.0]])
    i, j = within.pairs
    packed = np.arange(within.dim)
    onto = np.zeros((within.m + 1, within.dim))
    onto[i, packed] = contrast[j]
    onto[j, packed] += np.where(i == j, 0.0, contrast[i])
    return onto


def _meat(
    moments: FloatArray,
    bread: FloatArray,
    theta: FloatArray,
    noise: Noise,
    onto: FloatArray,
    n: float,
    coefficients: slice,
) -> Meat:
    """Return sigma^2 times the bread: homoskedastic errors.

    The residual sum of squares is corrected for what the fit gains by following the noise; noise N has
    added ``c'N c`` to it.
    """
    xy, yy = moments[coefficients, -1], moments[-1, -1]
    squares = yy - 2 * theta @ xy + theta @ bread @ theta
    gained = float(np.trace(np.linalg.solve(bread, noise.covariance())))
    freedom = max(1.0, n - len(theta))
    heard = onto[-1] - theta @ onto[coefficients]
    return Meat(bread, float(squares + gained) / freedom, (heard / freedom,), freedom)


def _notes(kappa: float, floored: int, facts: Facts) -> tuple[str, ...]:
    notes = []
    if floored:
        notes.append(f"{floored} eigenvalue(s) of the noisy moment matrix lay below its noise and were raised to it")
    if kappa > UNINFORMATIVE:
        notes.append(f"kappa = {kappa:.2f} > 1: too small a budget for this model; intervals are valid but say little")
    elif kappa > RELIABLE:
        notes.append(f"kappa = {kappa:.2f} > 0.4: intervals are conservative, std err may be too small")
    if facts.neighbors.rows_per_unit > 1:
        notes.append("no intervals: the moments do not tell how the rows of one unit vary together")
    if not facts.inference:
        notes.append("no intervals: inference='none'")
    return tuple(notes)
