"""Noise scaled to the smooth sensitivity of a quantile: little where few rows cannot move it."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from privstats.mechanisms.random import Generator
from privstats.older.mechanisms.additive.laplace import LaplaceLaw
from privstats.older.mechanisms.base import Mechanism, PureMechanism
from privstats.older.mechanisms.comparison import admissible
from privstats.older.mechanisms.comparison.approx import ApproxMechanism
from privstats.older.mechanisms.comparison.ladders import ladder, rungs, smooth
from privstats.older.numerics.exact import Gathered
from privstats.older.numerics.law import FloatArray
from privstats.older.privacy.release import Release, Sensitivity, ValueSensitivity

TINY = float(np.finfo(float).tiny)
UNIT = LaplaceLaw(np.ones(1))


def climb(exact: Any, sensitivity: Sensitivity) -> tuple[float, FloatArray]:
    """Return the quantile and how far one unit can move it at each distance, for the relation of the sensitivity."""
    assert isinstance(exact, Gathered) and isinstance(sensitivity, ValueSensitivity)
    low, high, level = sensitivity.low, sensitivity.high, exact.wanted.levels[0]
    centred = sensitivity.kind == "add_remove" and level == 0.5
    quantile, widths = ladder(exact.values(), level, low, high, centred)
    return quantile, rungs(widths, sensitivity.rows, high - low)


def within(point: float, sensitivity: Sensitivity) -> FloatArray:
    """Return the point on the public grid and in the public range, shape (1,): post-processing."""
    assert isinstance(sensitivity, ValueSensitivity)
    low, high, step = sensitivity.low, sensitivity.high, sensitivity.step
    return np.clip([np.rint(min(max(point, low), high) / step) * step], low, high)


class Smooth(Mechanism):
    """Release ``T + N Z``: T the quantile, Z of a fixed shape, ``N = min over beta of S_beta / alpha(beta)``.

    Privacy: S_beta bounds how far a unit moves T, and neighbours' differ by e^beta at most (Nissim, Raskhodnikova and
    Smith 2007, section 2; `numerics.ladders` proves both for replaced, missing, removed and added rows). Hence T
    differs by at most alpha(beta) times the smaller N, and the N by e^beta, for a pair of a public curve, each of which
    the shape admits at the price (`numerics.admissible`; the data may choose among them, as is proved there). N is not
    public, so no law is returned. A least N keeps the same properties.
    """

    norm = "values"

    @abstractmethod
    def curve(self) -> tuple[FloatArray, FloatArray]:
        """Return public alphas and betas, each pair admissible, shape (pairs,)."""

    @abstractmethod
    def draw(self, chance: Generator) -> float:
        """Draw Z."""

    def scale(self, moves: FloatArray) -> float:
        """Return N, of how far a unit can move the quantile at each distance."""
        alphas, betas = self.curve()
        usable = alphas > 0
        return max(TINY, float(np.exp((smooth(moves, betas[usable]) - np.log(alphas[usable])).min())))

    def release(self, name: str, exact: Any, sensitivity: Sensitivity, chance: Generator) -> Release:
        quantile, moves = climb(exact, sensitivity)
        point = quantile + self.scale(moves) * self.draw(chance)
        return Release(name, within(point, sensitivity), None, self.event)


class SmoothCauchy(Smooth, PureMechanism):
    """Cauchy noise: eps = 1 / multiplier, no delta.

    Privacy: `Smooth`, with the exact distance of Cauchy laws (`admissible.cauchy`). Nissim, Raskhodnikova and Smith
    (2007), Lemmas 2.6 and 2.7, take alpha = beta = eps / 6, also in Gillenwater and Munoz Medina (2020), Proposition 3:
    valid, and six times the noise at the same beta.
    """

    name = "smooth cauchy"

    def curve(self) -> tuple[FloatArray, FloatArray]:
        betas = admissible.betas(1 / self.multiplier)
        return admissible.cauchy(1 / self.multiplier, betas), betas

    def draw(self, chance: Generator) -> float:
        return float(chance.standard_cauchy())


class SmoothLaplace(Smooth, ApproxMechanism):
    """Laplace noise: eps = 1 / multiplier, with `delta`.

    Privacy: `Smooth`, with the exact delta of the worst pair (`admissible.laplace`); the sufficient condition of Bun
    and Steinke (2019), Theorem 34, is sufficient, and loose.
    """

    name = "smooth laplace"

    def curve(self) -> tuple[FloatArray, FloatArray]:
        betas = admissible.betas(1 / self.multiplier)
        return admissible.laplace(1 / self.multiplier, self.delta, betas), betas

    def draw(self, chance: Generator) -> float:
        return float(UNIT.sample(chance, 1)[0, 0])


class SmoothLaplaceLN(Smooth, ApproxMechanism):
    """Laplace noise times a log-normal number: eps = 1 / multiplier, with `delta`; one fixed beta.

    Privacy: `Smooth`, with Bun and Steinke (2019), Proposition 3 (`admissible.laplace_ln`). Its normal number has
    variance 1: Gillenwater and Munoz Medina (2020) state sigma^2, which counts sigma twice.
    """

    name = "smooth laplaceln"

    def curve(self) -> tuple[FloatArray, FloatArray]:
        alpha, beta = admissible.laplace_ln(1 / self.multiplier, self.delta)
        return np.array([alpha]), np.array([beta])

    def draw(self, chance: Generator) -> float:
        return float(UNIT.sample(chance, 1)[0, 0] * np.exp(admissible.LN_SPREAD * chance.standard_normal()))


class SmoothGaussian(Smooth, ApproxMechanism):
    """Normal noise: eps = 1 / multiplier, with `delta`.

    Privacy: `Smooth`, with `admissible.gaussian`. Noise of 2 S_beta / eps, as in some lecture notes, is not
    (eps, delta): it lacks the factor 5 sqrt(2 ln(2 / delta)) of Nissim, Raskhodnikova and Smith (2007). With that,
    delta is far below its target; the bound used here needs less noise.
    """

    name = "smooth gaussian"

    def curve(self) -> tuple[FloatArray, FloatArray]:
        betas = admissible.betas(1 / self.multiplier)
        return admissible.gaussian(1 / self.multiplier, self.delta, betas), betas

    def draw(self, chance: Generator) -> float:
        return float(chance.standard_normal())
