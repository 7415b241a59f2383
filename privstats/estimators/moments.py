"""Least squares from one noisy matrix of second moments.

The interval is that of section 6.1 of our notes on linear regression: the error of the estimate is
``A^-1 (sampling error + N_xy - N_xx theta)``, where N is the noise of the release, whose law is public.
"""

from __future__ import annotations

import math

import numpy as np

from privstats.estimators.base import Ask, Facts
from privstats.gate.bounds import Moments
from privstats.gate.questions import Gram
from privstats.inference.answer import Answer, Noise
from privstats.inference.repair import floor_eigenvalues
from privstats.losses.squares import AugmentedRow
from privstats.numerics.law import FloatArray

SIGNAL = 0.4  # assumed length of the scaled coefficients: sets how the l2 noise is shared between x and y
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
        In scaled units, with `kappa`, the size of the noise against the smallest eigenvalue.
    """
    within = Moments(facts.columns + 1, facts.intercept, facts.count_is_public, _response_scale(facts.columns))
    (release,) = ask(Gram("moments", AugmentedRow(), within), by=noise)
    moments, variance = within.unpack(release.value), within.unpack(release.law.variance())
    n = facts.n if facts.count_is_public and facts.n is not None else _at_least_one(moments[0, 0], variance[0, 0])
    moments[0, 0] = n
    coefficients = slice(0 if facts.intercept else 1, facts.columns + 1)
    spread = 2 * math.sqrt(facts.columns) * math.sqrt(_cross_variance(variance, facts.columns))
    bread, eigenvalues = floor_eigenvalues(moments[coefficients, coefficients], spread / 2, int(facts.intercept))
    theta = np.asarray(np.linalg.solve(bread, moments[coefficients, -1]), dtype=np.float64)
    onto = _onto_equation(within, theta, coefficients)
    sigma2 = _residual_variance(moments, bread, theta, onto, release.law.variance(), n, coefficients)
    kappa = spread / max(float(eigenvalues.min(initial=math.inf)), spread / 2) if spread else 0.0
    clustered = facts.neighbors.rows_per_unit > 1
    return Answer(
        theta=theta,
        bread=bread,
        meat=sigma2 * bread if facts.inference and not clustered else None,
        noises=(Noise(release.law, onto),),
        n=n,
        facts={"kappa": kappa, "sigma": math.sqrt(sigma2)},
        notes=_notes(kappa, int((eigenvalues < spread / 2).sum()), facts),
    )


def _response_scale(columns: int) -> float:
    """Return the free scale of the response in the l2 norm that suits coefficients of length `SIGNAL`."""
    return math.sqrt((-1 + math.sqrt(1 + 8 * SIGNAL**2 * (1 + columns))) / (4 * SIGNAL**2))


def _at_least_one(count: float, variance: float) -> float:
    """Return the noisy count, kept away from zero by its own noise."""
    return max(count, 1.0, 2 * math.sqrt(variance))


def _cross_variance(variance: FloatArray, columns: int) -> float:
    """Return the noise variance of a product of two predictors (of a square where there is only one)."""
    if columns == 0:
        return 0.0
    return float(variance[1, 2] if columns > 1 else variance[1, 1])


def _onto_equation(within: Moments, theta: FloatArray, coefficients: slice) -> FloatArray:
    """Return the map from packed noise N to ``N_xy - N_xx theta``, which is N times (-theta, 1)."""
    contrast = np.zeros(within.m + 1)
    contrast[coefficients], contrast[-1] = -theta, 1.0
    i, j = within.pairs
    packed = np.arange(within.dim)
    onto = np.zeros((within.m + 1, within.dim))
    onto[i, packed] = contrast[j]
    onto[j, packed] += np.where(i == j, 0.0, contrast[i])
    return onto[coefficients]


def _residual_variance(
    moments: FloatArray,
    bread: FloatArray,
    theta: FloatArray,
    onto: FloatArray,
    variance: FloatArray,
    n: float,
    coefficients: slice,
) -> float:
    """Return the residual variance, corrected for what the fit gains by following the noise."""
    xy, yy = moments[coefficients, -1], moments[-1, -1]
    squares = yy - 2 * theta @ xy + theta @ bread @ theta
    gained = float(np.trace(np.linalg.solve(bread, (onto * variance) @ onto.T)))
    freedom = max(1.0, n - len(theta))
    return max(0.0, (squares + gained) / freedom)


def _notes(kappa: float, floored: int, facts: Facts) -> tuple[str, ...]:
    notes = []
    if floored:
        notes.append(f"{floored} eigenvalue(s) of the noisy moment matrix lay below its noise and were raised to it")
    if kappa > UNINFORMATIVE:
        notes.append(
            f"kappa = {kappa:.2f} > 1: the budget is too small for this model; intervals are valid but say little"
        )
    elif kappa > RELIABLE:
        notes.append(f"kappa = {kappa:.2f} > 0.4: intervals are conservative")
    if facts.neighbors.rows_per_unit > 1:
        notes.append("no intervals: the moments do not tell how the rows of one unit vary together")
    if not facts.inference:
        notes.append("no intervals: inference='none'")
    return tuple(notes)
