"""Quantile regression by noisy steps: from a robust fit to where the order of its residuals lies, and on from there.

The score ``tau - 1{y <= x'theta}`` is bounded, and its mean is as smooth as the distribution of responses: steps need
no smoothing of it (convolution, as He, Pan, Tan and Zhou 2021 and Fernandes, Guerre and Horta 2021 have it, makes it no
less sensitive). Only the curvature is seen through a kernel, as in `privstats.older.estimators.check`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from privstats.older.estimators.base import Ask, Facts
from privstats.older.estimators.check import SQUARED, kernel_mean, standard_width
from privstats.older.estimators.courses import SIZES, Residuals
from privstats.older.estimators.one_step import CURVATURE, MAIN, MAIN_SCORE, one_step
from privstats.older.gate.questions import Histogram
from privstats.older.inference.answer import Answer, Meat, OwnVariance, Unsure
from privstats.older.inference.kernel import KernelLaw, KernelMeat
from privstats.older.losses.predictor import Predictor
from privstats.older.losses.quantile import Check, Residual
from privstats.older.numerics.law import FloatArray, Law
from privstats.older.privacy.release import Release
from privstats.older.sets.leverage import Bins

EDGES = np.sinh(np.linspace(-3.0, 3.0, 33))  # of bins of residuals, in their scale: fine where most of them are
SPREAD = 0.3  # of a scale at least: half a window about the quantile, in which the density is read
CLEAR = 4.0  # standard deviations of noise that a window must hold
HIDDEN = 1.0  # noise of the curvature, in its smallest eigenvalues, before the kernel is widened
AUDIBLE = 3.0  # standard deviations of its noise by which the density of all rows must exceed zero for intervals
LEAST = 0.05  # density, in normal ones


def by_steps(ask: Ask, facts: Facts, noise: str) -> Answer:
    """Follow noisy scores of the check loss, and correct the mean of the last iterates.

    Parameters
    ----------
    ask : callable
        The conversation.
    facts : Facts
        Public facts of the fit; `q` holds its one order.
    noise : str
        Additive mechanism that answers.

    Returns
    -------
    Answer
        In scaled units.
    """
    (tau,) = facts.q
    return one_step(ask, replace(facts, robust=True), noise, Order(tau))


@dataclass(frozen=True)
class Order(Residuals):
    """Steps of a robust regression first; then those of one order, from where its residuals have it."""

    tau: float
    more = 4

    def settled(self, ask: Ask, noise: str, at: Predictor, etas: FloatArray, dear: tuple[float, float]) -> Predictor:
        (release,) = ask(Histogram("residuals", Residual(at), Bins(EDGES)), by=noise, share=SIZES)
        n, q, density = _read(release, self.tau, at.held.whitened.intercept)
        normal = math.exp(-(float(ndtri(self.tau)) ** 2) / 2) / math.sqrt(2 * math.pi)
        sigma = normal / density
        m = len(at.theta)
        noisy = dear[0] * at.held.radius * math.sqrt(m * MAIN * MAIN_SCORE / CURVATURE / n)  # of a matrix, a row
        width = sigma * standard_width(n, self.tau, noisy / HIDDEN)
        score = Check(self.tau, width, density, kernel_mean(width / sigma, self.tau), at.score.unit)
        constant = np.linalg.solve(at.held.whitened.W, np.eye(m)[0]) * at.held.whitened.intercept
        return Predictor(at.held, at.theta + q * at.score.unit * constant, score)

    def hearing(self, law: Law, at: Predictor, total: FloatArray, where: NDArray[np.intp]) -> Law:
        seen = float(np.trace(total)) * at.held.radius**2 / len(total)
        return KernelLaw(law, total, where, max(1.0, SQUARED * seen))

    def drowned(self, raw: FloatArray, sd: float) -> tuple[str, ...]:
        clear = float(np.trace(raw)) / (math.sqrt(2 * len(raw)) * sd)
        if clear >= AUDIBLE:
            return ()
        return (
            f"no intervals: the density they need is {clear:.1f} standard deviations of its noise, less than "
            f"{AUDIBLE:g} (more rows, a larger budget, fewer predictors, or an order nearer 0.5)",
        )

    def through(self, meat: OwnVariance, bread: FloatArray, unsure: Unsure, size: float) -> Meat:
        assert meat.back is not None
        return KernelMeat(
            meat.covariance(),
            1.0,
            meat.law,
            meat.where,
            bread,
            unsure.index,
            unsure.where,
            size**2,
            meat.freedom,
            meat.scale,
            meat.back,
        )


def _read(release: Release, tau: float, intercept: bool) -> tuple[float, float, float]:
    """Return from a histogram of residuals their number, the quantile of order tau, and the density there."""
    assert release.law is not None
    noise = math.sqrt(float(release.law.variance()[0]))
    n = max(1.0, float(release.value.sum()))
    below = np.cumsum(release.value)[:-1] / n
    F = np.clip((np.maximum.accumulate(below) + np.minimum.accumulate(below[::-1])[::-1]) / 2, 0.0, 1.0)
    F = F + 1e-9 * np.arange(len(F))
    q = float(np.interp(tau, F, EDGES)) if intercept else 0.0
    normal = math.exp(-(float(ndtri(tau)) ** 2) / 2) / math.sqrt(2 * math.pi)
    for window in SPREAD * 2.0 ** (np.arange(9) / 2):
        low, high = np.interp([q - window, q + window], EDGES, F)
        bins = 2 + float(np.ptp(np.interp([q - window, q + window], EDGES, np.arange(len(EDGES)))))
        if (high - low) * n > CLEAR * noise * math.sqrt(bins):
            break
    return n, q, max(LEAST * normal, float(high - low) / (2 * window))
