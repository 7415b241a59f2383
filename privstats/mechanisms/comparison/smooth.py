"""Noise scaled to the smooth sensitivity of a quantile: a data-dependent bound on the change of the quantile."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from privstats.errors import BudgetError
from privstats.mechanisms.additive.tails import exponential
from privstats.mechanisms.base import DRAWN_BITS, Mechanism, check_grid
from privstats.mechanisms.comparison import admissible
from privstats.mechanisms.comparison.local_sensitivity import at_distances, ladder, smooth
from privstats.numerics.law import FloatArray, Rng
from privstats.privacy.promise import ApproxDP, Promise, Relation
from privstats.privacy.release import Release

TINY = float(np.finfo(float).tiny)
# a delta of at most this number is refused, because the noise scale (see `Smooth`) might become infinite
LEAST_DELTA = 1e-100


def climb(exact: Any, level: float, within: Any, relation: Relation) -> tuple[float, FloatArray]:
    """Return the quantile at `level`, and bounds on the change of the quantile if one unit (row or person) changes.

    `exact` contains the values, and `within` has their public range and grid. `relation` is the neighbouring relation.
    Entry q = 0, 1, 2, ... of the array of bounds applies to every data set that differs from the given data in q units.

    Raises
    ------
    OptionError
        If the grid is so fine that the last bits of the noise carry information about the rows (`check_grid`).
    """
    check_grid(within.low, within.high, within.grid)
    centred = not relation.exchange and level == 0.5
    quantile, widths = ladder(exact.all().ravel(), level, within.low, within.high, centred)
    return quantile, at_distances(widths, relation.rows, within.high - within.low)


def on_the_line(point: float, within: Any, largest: float) -> FloatArray:
    """Return a noisy quantile, clamped to the public range and rounded to the public grid, shape (1,).

    `point` is the noisy quantile, `within` has the public range and grid, and `largest` is a public bound on the scale
    of its noise. Only every 2^j-th grid point is used, with the smallest j >= 0 for which these points are at least
    2^-30 of `largest` apart. So about 2^20 floats, or more, are rounded to each of these grid points: the rounding
    removes the last bits of `point`, because the last bits carry information about the rows.
    """
    low, high, step = within.low, within.high, within.grid
    step = math.ldexp(step, max(0, math.ceil(math.log2(largest) - DRAWN_BITS - math.log2(step))))
    return np.clip([np.rint(min(max(point, low), high) / step) * step], low, high)


def with_delta(promise: Promise) -> ApproxDP:
    """Return the guarantee `promise` if it is (eps, delta)-DP; otherwise raise an error.

    Raises
    ------
    BudgetError
        If the guarantee has no delta, or if delta is at most `LEAST_DELTA`.
    """
    if not isinstance(promise, ApproxDP) or promise.delta <= LEAST_DELTA:
        raise BudgetError(f"this mechanism needs a delta and the budget is {promise.budget}; add delta=1e-6 to eps=")
    return promise


def laplace_number(rng: Rng) -> float:
    """Return a Laplace variable of scale 1, the difference of two independent exponential variables."""
    first, second = exponential(rng, 2)
    return float(first - second)


@dataclass(frozen=True)
class Smooth(Mechanism):
    """Release ``T + N Z``, where T is the quantile at `level`, Z is noise of a fixed law, and N is the noise scale.

    The scale N is computed from the smooth sensitivity S_beta of T, which has two properties. First, T changes by at
    most S_beta if one unit (row or person) changes. Second, the values of S_beta at two neighbours have a ratio of at
    most e^beta (Nissim, Raskhodnikova and Smith 2007, section 2). `local_sensitivity` proves both properties for
    replaced, missing, removed and added rows.

    Privacy: the guarantee holds for two neighbours if two conditions are satisfied for some beta. First, their
    quantiles T differ by at most alpha(beta) times the smaller of their two scales N. Second, the ratio of their scales
    is at most e^beta. `admissible` computes alpha(beta), which depends on the law of Z. With N the minimum over beta of
    ``S_beta / alpha(beta)``, both conditions are satisfied, although the beta of the minimum depends on the data (proof
    in `admissible`). Both conditions are also satisfied if scales N below a tiny positive limit are raised to this
    limit. The last bits of ``N Z`` depend on the rows and are therefore rounded away (`on_the_line`). N is not public,
    so the law of the noise is not returned.
    """

    gathers = 16

    level: float = 0.5

    @abstractmethod
    def curve(self, promise: Promise) -> tuple[FloatArray, FloatArray]:
        """Return two public arrays of equal length: shifts alpha(beta), and bounds beta on log ratios of noise scales.

        The guarantee `promise` holds for two neighbours if the ratio of their noise scales is at most e^beta, and their
        quantiles differ by at most alpha(beta) times the smaller scale. An entry alpha(beta) = 0 means that beta is not
        usable.
        """

    @abstractmethod
    def draw(self, rng: Rng) -> float:
        """Return a draw of the noise Z, which the method `release` multiplies by the noise scale N."""

    def scale(self, moves: FloatArray, promise: Promise) -> float:
        """Return the noise scale N, computed from bounds on the change of the quantile if one unit changes.

        ``moves[q]`` is the bound at data sets that differ from the data in q units (rows or persons). With noise of
        scale N, the release satisfies the guarantee `promise`.
        """
        alphas, betas = self.curve(promise)
        usable = alphas > 0
        return max(TINY, float(np.exp((smooth(moves, betas[usable]) - np.log(alphas[usable])).min())))

    def largest(self, promise: Promise, within: Any) -> float:
        """Return a public upper bound of the noise scale N: the public range's width divided by the largest shift.

        `within` has the public range. The shifts are the numbers alpha(beta) of `curve`. The bound holds because no
        smooth sensitivity exceeds the width of the range.
        """
        return float((within.high - within.low) / self.curve(promise)[0].max())

    def release(self, name: str, exact: Any, promise: Promise, within: Any, relation: Relation, rng: Rng) -> Release:
        quantile, moves = climb(exact, self.level, within, relation)
        point = quantile + self.scale(moves, promise) * self.draw(rng)
        return Release(name, on_the_line(point, within, self.largest(promise, within)), None, promise, within)


@dataclass(frozen=True)
class SmoothCauchy(Smooth):
    """Release a quantile plus Cauchy noise scaled to its smooth sensitivity, for pure eps-DP.

    Privacy: see `Smooth`, which defines alpha(beta). For Cauchy noise, alpha(beta) follows from the largest log ratio
    of two Cauchy densities (`admissible.cauchy`). Nissim, Raskhodnikova and Smith (2007), Lemmas 2.6 and 2.7, and
    Gillenwater and Munoz Medina (2020), Proposition 3, take alpha = beta = eps / 6. With this choice the noise
    satisfies eps-DP, too, but this noise is at least about six times as large as the noise of this class at the same
    beta.
    """

    label = "smooth cauchy"

    def curve(self, promise: Promise) -> tuple[FloatArray, FloatArray]:
        eps = promise.as_pure().eps
        betas = admissible.betas(eps)
        return admissible.cauchy(eps, betas), betas

    def draw(self, rng: Rng) -> float:
        first, second = rng.standard_normal(2)
        return float(first / second)


@dataclass(frozen=True)
class SmoothLaplace(Smooth):
    """Release a quantile plus Laplace noise scaled to its smooth sensitivity, for (eps, delta)-DP.

    Privacy: see `Smooth`, which defines alpha(beta). `admissible.laplace` computes the largest alpha(beta) <= eps with
    which Laplace noise satisfies the guarantee. Bun and Steinke (2019), Theorem 34, give a condition on alpha and beta
    that is sufficient for the guarantee, but not necessary.
    """

    label, needs_delta = "smooth laplace", True

    def curve(self, promise: Promise) -> tuple[FloatArray, FloatArray]:
        budget = with_delta(promise)
        betas = admissible.betas(budget.eps)
        return admissible.laplace(budget.eps, budget.delta, betas), betas

    def draw(self, rng: Rng) -> float:
        return laplace_number(rng)


@dataclass(frozen=True)
class SmoothLaplaceLN(Smooth):
    """Release a quantile plus Laplace log-normal noise, scaled to its smooth sensitivity at one fixed beta.

    Privacy: see `Smooth`, which defines alpha(beta). The noise Z is a Laplace variable times e^(sigma Y), with a
    standard normal variable Y and a fixed number sigma. `admissible.laplace_ln` computes beta and alpha(beta) by
    Proposition 3 of Bun and Steinke (2019). Gillenwater and Munoz Medina (2020) give Y the variance sigma^2, in place
    of 1.
    """

    label, needs_delta = "smooth laplaceln", True

    def curve(self, promise: Promise) -> tuple[FloatArray, FloatArray]:
        budget = with_delta(promise)
        alpha, beta = admissible.laplace_ln(budget.eps, budget.delta)
        return np.array([alpha]), np.array([beta])

    def draw(self, rng: Rng) -> float:
        return laplace_number(rng) * float(np.exp(admissible.LN_SPREAD * rng.standard_normal(None)))


@dataclass(frozen=True)
class SmoothGaussian(Smooth):
    """Release a quantile plus normal noise scaled to its smooth sensitivity, for (eps, delta)-DP.

    Privacy: see `Smooth`, which defines alpha(beta) and the smooth sensitivity S_beta; `admissible.gaussian` computes
    alpha(beta). Normal noise of scale 2 S_beta / eps, as in some lecture notes, does not satisfy (eps, delta)-DP: the
    scale lacks the factor 5 sqrt(2 ln(2 / delta)) of Nissim, Raskhodnikova and Smith (2007). With this factor, the
    actual delta is far below the required delta, so their noise is larger than necessary, and larger than the noise of
    this class.
    """

    label, needs_delta = "smooth gaussian", True

    def curve(self, promise: Promise) -> tuple[FloatArray, FloatArray]:
        budget = with_delta(promise)
        betas = admissible.betas(budget.eps)
        return admissible.gaussian(budget.eps, budget.delta, betas), betas

    def draw(self, rng: Rng) -> float:
        return float(rng.standard_normal(None))
