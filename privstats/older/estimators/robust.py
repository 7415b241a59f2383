"""The meat of a sandwich that allows errors of different variance: a paid sum of ``u^2 x x'``."""

from __future__ import annotations

import math

import numpy as np

from privstats.older.estimators.base import Ask, Facts
from privstats.older.gate.questions import Gram
from privstats.older.inference.answer import OwnVariance
from privstats.older.losses.squares import ScoreRow
from privstats.older.numerics.law import FloatArray
from privstats.older.sets.moments import Moments

SPREADS = 4.0  # residuals are held to so many standard deviations, or more
TOLERATED = 0.1  # noise of the meat, in parts of itself, up to which they are held to more


def robust_meat(
    ask: Ask, facts: Facts, noise: str, theta: FloatArray, variance: float, n: float, share: float, rough: float
) -> OwnVariance:
    """Buy the sum of squared scores at a released theta.

    Parameters
    ----------
    ask : callable
        The conversation.
    facts : Facts
        Public facts of the fit.
    noise : str
        Additive mechanism that answers.
    theta : ndarray, shape (coefficients,)
        Where residuals are taken.
    variance : float
        A released guess of the residual variance.
    n : float
        Rows used.
    share : float
        Of the budget.
    rough : float
        About the standard deviation of the noise of an entry, were residuals held to 1: they are held to what makes it
        `TOLERATED` of the entries of uniform predictors, or to `SPREADS` standard deviations if that is more.

    Returns
    -------
    OwnVariance
    """
    largest = 1 + float(np.abs(theta).sum())
    wide = max(SPREADS, math.sqrt(TOLERATED * n / 3 / max(rough, 1e-9)))
    clip = min(largest, wide * math.sqrt(max(variance, (1e-6 * largest) ** 2)))
    within = Moments(facts.coefficients, intercept=False, complete=True)
    (release,) = ask(Gram("meat", ScoreRow(theta, facts.intercept, clip), within), by=noise, share=share)
    assert release.law is not None
    freedom = max(1.0, n - facts.coefficients)
    scale = clip**2 * n / freedom
    return OwnVariance(scale * within.unpack(release.value)[1:, 1:], release.law, scale, within.where[1:, 1:], freedom)
