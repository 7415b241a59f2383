"""Quantile regression: choose theta with a density that falls with the size of its score, or with its loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from privstats.mechanisms.random import Generator
from privstats.older.mechanisms.base import PureMechanism, SpreadLaw, on_grid
from privstats.older.mechanisms.comparison.kng import SCORE_LAWS
from privstats.older.mechanisms.quantile_regression.hit_and_run import SWEEPS, sample_lines
from privstats.older.mechanisms.quantile_regression.minimise import Target
from privstats.older.mechanisms.quantile_regression.rejection import exact_for, sample_boxes
from privstats.older.numerics.exact import Gathered
from privstats.older.numerics.law import Chance, FloatArray
from privstats.older.privacy.release import CheckSensitivity, Release, Sensitivity

STEEP = 2.0**3  # rate of scores above which a larger one buys nothing: a row's entries count 1
STEEP_LOSS = 2.0**10  # rate of losses


class KNGQuantile(PureMechanism):
    """Choose theta in ``|theta|_1 <= radius`` with density ``exp(-|G(theta)|_K / (2 multiplier D))``.

    ``G(theta) = sum (1{y <= x'theta} - tau) x`` is the derivative of the sum of check losses at level tau.

    Privacy: eps = 1 / multiplier (Reimherr and Awan 2019, Theorem 3.1). Neighbours move G by at most D in the norm K,
    at every theta (`check_losses.CheckScores`), so the exponent by at most eps / 2, and the normaliser by
    as much again: both are needed, on a bounded set. Where a row's y equals its x'theta the score of the formula is one
    of several subgradients; for given rows with x other than zero this is a set of measure zero, on which densities say
    nothing, and rows with x = 0 add nothing. The draw is rounded to a public grid afterwards. Neighbouring relation:
    that of the sensitivity.

    A density does not notice that rows tie. So a little secret noise, uniform and independent of the rows, may be added
    to every y first (`jitter`): for any fixed noise, shared by the rows that neighbours share, the above holds, hence
    for its mixture. The score does not ask y to stay in its range.

    Corrected against the paper: D is not ``2 (1 - tau) sup |x|``, which is too small for tau > 1/2 and more than is
    needed where a row is added or removed; the parameter set must be bounded, or there is no density; the draw is no
    random walk of fixed scale.

    Up to three coefficients (`exact_for`) theta is drawn exactly, by rejection. For more it is the end of a Markov
    chain of a fixed number of sweeps, and the guarantee is that of the chain's target: how far the chain's law is from
    it is measured, not proved. How long a draw takes depends on the rows. The rate is at most `STEEP`: a lower rate is
    more private, and a larger eps buys no more.
    """

    name, norm = "kng rq", "score"

    def release(self, name: str, exact: Any, sensitivity: Sensitivity, chance: Generator) -> Release:
        assert isinstance(exact, Gathered) and isinstance(sensitivity, CheckSensitivity)
        values = exact.values()
        y = values[:, -1] + sensitivity.jitter * chance.uniform(-1.0, 1.0, len(values))
        rate = min(1 / (2 * self.multiplier * sensitivity.size), STEEP)
        level, radius = exact.wanted.levels[0], sensitivity.radius
        target = Target(values[:, :-1], y, level, radius, rate, sensitivity.norm, sensitivity.tilt)
        law = _law(sensitivity, rate)
        theta, sweeps = _draw(target, chance)
        return Release(name, on_grid(theta, radius), law, self.event, chain=sweeps)


class ExponentialQuantile(PureMechanism):
    """Choose theta in ``|theta|_1 <= radius`` with density ``exp(-L(theta) / (2 multiplier D))``, L the sum of losses.

    Privacy: eps = 1 / multiplier (McSherry and Talwar 2007, Theorem 6): up to a constant, which cancels with the
    normaliser, neighbours move L by at most D (`check_losses.CheckScores`). Neighbouring relation: that of the
    sensitivity. Corrected against Reimherr and Awan (2019), whose D is at least twice as large. Its error is of the
    order of sampling error itself, however many rows there are: shipped for comparison. Drawn as by `KNGQuantile`.
    """

    name, norm = "expmech rq", "score"

    def release(self, name: str, exact: Any, sensitivity: Sensitivity, chance: Generator) -> Release:
        assert isinstance(exact, Gathered) and isinstance(sensitivity, CheckSensitivity)
        values, level = exact.values(), exact.wanted.levels[0]
        rate = min(1 / (2 * self.multiplier * sensitivity.loss), STEEP_LOSS)
        target = Target(values[:, :-1], values[:, -1], level, sensitivity.radius, rate, "loss")
        theta, sweeps = _draw(target, chance)
        return Release(name, on_grid(theta, sensitivity.radius), None, self.event, chain=sweeps)


@dataclass(frozen=True, eq=False)
class TiltedLaw(SpreadLaw):
    """Density proportional to ``exp(-|v|)`` in the norm ``max(|v_0|, (|v|_inf + t |v_0|) / (1 + t))``.

    A Gamma(dim + 1) multiple of a uniform point of its ball: ``|v_0| = s`` has density proportional to
    ``(1 + t - t s)^(dim - 1)``, and the others are uniform up to ``1 + t - t s``.
    """

    tilt: float = 0.0

    def standard(self, chance: Chance, shape: tuple[int, int]) -> FloatArray:
        size, dim = shape
        t, u = self.tilt, chance.uniform(0.0, 1.0, size)
        s = u if t == 0 else (1 + t - ((1 + t) ** dim - u * ((1 + t) ** dim - 1)) ** (1 / dim)) / t
        others = chance.uniform(-1.0, 1.0, (size, dim - 1)) * (1 + t - t * s)[:, None]
        sign = 2 * chance.integers(0, 2, size) - 1
        point = np.column_stack([sign * s, others])
        return chance.standard_gamma(dim + 1, (size, 1)) * point

    def standard_variance(self, dim: int) -> FloatArray:
        s, weight = np.polynomial.legendre.leggauss(2 * dim + 8)
        s, t = (s + 1) / 2, self.tilt
        density = weight * (1 + t - t * s) ** (dim - 1)
        density /= density.sum()
        first, rest = density @ s**2, density @ (1 + t - t * s) ** 2 / 3
        return (dim + 1) * (dim + 2) * np.array([first, *[rest] * (dim - 1)])


def _law(sensitivity: CheckSensitivity, rate: float) -> SpreadLaw:
    """Return the law of the score at the chosen theta, up to the edge of the parameter set."""
    spread = 1 / (rate * sensitivity.weights)
    return TiltedLaw(spread, sensitivity.tilt) if sensitivity.norm == "hull" else SCORE_LAWS[sensitivity.norm](spread)


def _draw(target: Target, chance: Generator) -> tuple[FloatArray, int]:
    """Return theta, and the length of the Markov chain that it ends; 0 where it is drawn exactly."""
    if exact_for(target.x.shape[1]):
        return sample_boxes(chance, target), 0
    return sample_lines(chance, target), SWEEPS
