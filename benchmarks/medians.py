"""Private medians by Duff, by ranks and by smooth sensitivity: functions shared by three benchmarks of one paper.

The paper is Gillenwater and Munoz Medina (2020). Duff, its mechanism, chooses an answer x with probability proportional
to exp(-eps k(x) / 2), where k(x) is the smallest number of changes of rows such that the median becomes x. Errors are
exact expectations: for Duff and the rank mechanism from the probabilities of runs of grid points, for noise from its
distribution function, clipped to the public range as in the paper.

The baselines are of two kinds: "paper", as stated in the paper, and the baselines of this package, with the same
guarantee and less noise. The baselines of the paper are not in the package: Cauchy and Laplace are valid but loose.
LaplaceLN with a sigma chosen from the data is not known to be private: the proof for a beta chosen from the data holds
only if the shape of the noise is fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from benchmarks.common import InMemory
from privstats.mechanisms.comparison import admissible, dataset_distance
from privstats.mechanisms.comparison.dataset_distance import QUANTILE_BITS, exact_level, quantile_pieces
from privstats.mechanisms.comparison.local_sensitivity import at_distances, ladder, smooth
from privstats.mechanisms.comparison.smooth import SmoothCauchy, SmoothLaplace, SmoothLaplaceLN
from privstats.mechanisms.order.rank_sampler import draw_rank, knots_between, runs_between
from privstats.mechanisms.order.ranked import Ranked, RankGrid
from privstats.privacy.promise import ApproxDP, PureDP

LEVEL = 0.5
RELATIONS = ("replace", "add_remove")
DUFF, RANK = "Duff", "rank"
# by relation: largest change, due to one row, of the distance in ranks between an answer and the median
HALF = {"replace": 1.0, "add_remove": 0.5}
NODES, MASS = np.polynomial.hermite_e.hermegauss(60)


class Range(NamedTuple):
    """A public range and the step of its grid."""

    low: float
    high: float

    @property
    def step(self) -> float:
        """Step of the grid: the largest power of 2 that is at most 2^-24 of the width of the range."""
        return 2.0 ** math.floor(math.log2(self.high - self.low) - 24)


class Noise(NamedTuple):
    """Noise ``scale Z``: Z is Cauchy if `sigma` is None, otherwise Laplace times exp(sigma N(0, 1))."""

    scale: float
    sigma: float | None

    def expected(self, room: float) -> float:
        """Return the mean of min(abs(noise), room): ``int_0^room P(abs(noise) > t) dt``."""
        s = self.scale
        if self.sigma is None:
            return room - 2 / math.pi * (room * math.atan(room / s) - s / 2 * math.log1p((room / s) ** 2))
        scales = s * np.exp(self.sigma * NODES)
        return float(MASS @ (scales * -np.expm1(-room / scales)) / MASS.sum())

    def draw(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Return `size` draws of the noise."""
        if self.sigma is None:
            return self.scale * rng.standard_cauchy(size)
        return self.scale * rng.laplace(size=size) * np.exp(self.sigma * rng.standard_normal(size))


@dataclass(frozen=True, eq=False)
class Calibration:
    """Pairs (alpha, beta), and a sigma for each pair; the data choose one pair, with noise ``S_beta / alpha Z``.

    S_beta is the smooth sensitivity, and Z the noise variable with this sigma.
    """

    alphas: np.ndarray
    betas: np.ndarray
    sigmas: np.ndarray | None

    def noise(self, moves: np.ndarray) -> Noise:
        """Return the noise whose scale times e^(sigma^2 / 2), the mean of exp(sigma N(0, 1)), is smallest.

        `moves` are local sensitivities at distances of 0, 1, 2, ... rows; they determine the smooth sensitivity.
        """
        log_scale = smooth(moves, self.betas) - np.log(self.alphas)
        spread = 0.0 if self.sigmas is None else self.sigmas**2 / 2
        best = int(np.argmin(log_scale + spread))
        return Noise(math.exp(log_scale[best]), None if self.sigmas is None else float(self.sigmas[best]))


def among(alphas: np.ndarray, betas: np.ndarray, sigmas: np.ndarray | None) -> Calibration:
    """Return the calibration with the pairs (alpha, beta) whose alpha is positive, and the sigmas of these pairs."""
    usable = alphas > 0
    return Calibration(alphas[usable], betas[usable], None if sigmas is None else sigmas[usable])


def cauchy_paper(eps: float, delta: float) -> Calibration:
    """Return the calibration of Cauchy noise by Proposition 3 of the paper: alpha = beta = eps / 6."""
    return Calibration(np.array([eps / 6]), np.array([eps / 6]), None)


def cauchy_exact(eps: float, delta: float) -> Calibration:
    """Return the calibration of Cauchy noise in this package."""
    return among(*SmoothCauchy().curve(PureDP(eps)), None)


def laplace_paper(eps: float, delta: float) -> Calibration:
    """Return the calibration of Laplace noise by the paper: eps >= alpha + (e^beta - 1) log(1 / delta) - beta."""
    betas = admissible.betas(eps)
    return among(eps + betas - np.expm1(betas) * math.log(1 / delta), betas, np.zeros_like(betas))


def laplace_exact(eps: float, delta: float) -> Calibration:
    """Return the calibration of Laplace noise in this package."""
    alphas, betas = SmoothLaplace().curve(ApproxDP(eps, delta))
    return among(alphas, betas, np.zeros_like(betas))


def laplace_ln(c: float, eps: float) -> Calibration:
    """Return the calibration of LaplaceLN noise by Bun and Steinke (2019), Proposition 3.

    The pairs (alpha, beta) satisfy ``beta / sigma + e^(1.5 sigma^2) alpha <= c``, where c^2 / 2 is the cost in
    concentrated privacy. sigma minimises the variance and is the only positive root of
    ``5 c sigma^3 / beta - 5 sigma^2 - 1 = 0``.
    """
    betas = admissible.betas(eps)
    roots = [np.roots([5 * c / beta, -5.0, 0.0, -1.0]) for beta in betas]
    sigmas = np.array([root[np.argmin(np.abs(root.imag))].real for root in roots])
    return among(np.exp(-1.5 * sigmas**2) * (c - betas / sigmas), betas, sigmas)


def laplace_ln_paper(eps: float, delta: float) -> Calibration:
    """Return the calibration of LaplaceLN noise by the paper.

    The conversion is Bun and Steinke (2019), Lemma 9: ``eps = c^2 / 2 + c sqrt(2 log(1 / delta))``.
    """
    tail = 2 * math.log(1 / delta)
    return laplace_ln(math.sqrt(tail + 2 * eps) - math.sqrt(tail), eps)


def laplace_ln_unconverted(eps: float, delta: float) -> Calibration:
    """Return a calibration of LaplaceLN noise with c = eps, not converted and not known to be (eps, delta)-DP."""
    return laplace_ln(eps, eps)


def laplace_ln_ours(eps: float, delta: float) -> Calibration:
    """Return the calibration of LaplaceLN noise in this package.

    sigma and beta are fixed numbers, and the conversion to (eps, delta)-DP is tighter than the paper's.
    """
    alphas, betas = SmoothLaplaceLN().curve(ApproxDP(eps, delta))
    return among(alphas, betas, np.full_like(betas, admissible.LN_SPREAD))


SMOOTH: dict[str, Callable[[float, float], Calibration]] = {
    "Cauchy, paper": cauchy_paper,
    "Cauchy, exact": cauchy_exact,
    "Laplace, paper": laplace_paper,
    "Laplace, exact": laplace_exact,
    "LaplaceLN, paper": laplace_ln_paper,
    "LaplaceLN, c = eps": laplace_ln_unconverted,
    "LaplaceLN, ours": laplace_ln_ours,
}
METHODS = (DUFF, RANK, *SMOOTH)


@lru_cache(maxsize=256)
def calibrated(method: str, eps: float, delta: float) -> Calibration:
    """Return the calibration of a baseline; results are cached."""
    return SMOOTH[method](eps, delta)


@dataclass(frozen=True, eq=False)
class Sample:
    """Sorted values in a public range, and local sensitivities of their median, for each neighbouring relation.

    `moves` has, for each relation, the local sensitivities at distances of 0, 1, 2, ... rows from the values.
    """

    values: np.ndarray
    within: Range
    moves: dict[str, np.ndarray]

    @classmethod
    def of(cls, values: np.ndarray, within: Range) -> Sample:
        """Return the sample of these values, clipped to the range."""
        values = np.sort(np.clip(values, *within))
        moves = {}
        for relation in RELATIONS:
            _, widths = ladder(values, LEVEL, *within, centred=relation == "add_remove")
            moves[relation] = at_distances(widths, 1, within.high - within.low)
        return cls(values, within, moves)

    @property
    def median(self) -> float:
        """The median of the paper: the lower of the two middle values if n is even."""
        return float(self.values[math.ceil(LEVEL * len(self.values)) - 1])


def error(sample: Sample, method: str, relation: str, eps: float, delta: float, target: float) -> float:
    """Return the mean distance of a release by a method from `target`."""
    if method == DUFF:
        return duff_error(sample, relation, eps, target)
    if method == RANK:
        return rank_error(sample, relation, eps, target)
    noise, room = calibrated(method, eps, delta).noise(sample.moves[relation]), sample.within
    assert target == sample.median
    return (noise.expected(target - room.low) + noise.expected(room.high - target)) / 2


def duff_error(sample: Sample, relation: str, eps: float, target: float) -> float:
    """Return the mean distance of Duff's release from `target`.

    The density of the release is constant on runs of grid points.
    """
    grid = dataset_distance.Grid.within(*sample.within, sample.within.step, QUANTILE_BITS)
    starts, counts, distances = quantile_pieces(grid.offsets(sample.values), grid.top, exact_level(LEVEL), relation)
    mass = counts * np.exp(-eps / 2 * (distances - distances.min()))
    center = target / grid.unit - grid.origin
    left, right = starts - 0.5 - center, starts - 0.5 + counts - center
    inside = (left < 0) & (right > 0)
    away = np.where(inside, (left**2 + right**2) / (2 * np.maximum(counts, 1)), np.abs(left + right) / 2)
    return float(mass @ away / mass.sum() * grid.unit)


def rank_error(sample: Sample, relation: str, eps: float, target: float) -> float:
    """Return the mean distance of the rank mechanism's release from `target`.

    The density of the release is geometric along runs of grid points.
    """
    grid, n = RankGrid(*sample.within, sample.within.step), len(sample.values)
    knots = knots_between(Ranked(InMemory(sample.values), grid), 0, n + 1)
    runs = runs_between(knots, 0, LEVEL * (n + 1), eps / (2 * HALF[relation]))
    some = runs.count > 0
    log_mass, fall, count = runs.log_mass()[some], runs.fall[some], runs.count[some]
    steps = 1 / np.expm1(fall) - count / np.expm1(np.minimum(fall * count, 700.0))
    first, sign = runs.first[some], runs.sign[some]
    mass = np.exp(log_mass - log_mass.max())
    return float(mass @ np.abs(first + sign * steps - target / grid.step) / mass.sum() * grid.step)


def nearness_error(sample: Sample, eps: float) -> float:
    """Return the mean distance from the median of the exponential mechanism with the utility u_1.

    u_1 is minus the distance to the median. For some data sets one row moves the median by the whole range, so the
    density falls by the factor e^(eps / 2) over the range.
    """
    low, high = sample.within
    reach, rate = np.array([sample.median - low, high - sample.median]), eps / (2 * (high - low))
    mass = -np.expm1(-rate * reach) / rate
    return float(((mass - reach * np.exp(-rate * reach)) / rate).sum() / mass.sum())


def tested_error(sample: Sample, relation: str, eps: float, delta: float) -> float:
    """Return the mean distance from the median of the answers of propose-test-release with the best known eta.

    eta is the proposed bound on the local sensitivity. The best is the smallest eta whose test in `ProposeTestRelease`
    passes with probability 1/2: the local sensitivity at the distance that the test requires, as the noise of the test
    is symmetric. An eta chosen from the data is not private: it shows how good propose-test-release can be if half of
    the answers may be missing.
    """
    e, moves = eps / 2, sample.moves[relation]
    steps = math.ceil(-math.log(min(1.0, 2 * delta)) / e)
    eta = float(moves[min(max(steps, 1), len(moves)) - 1])
    noise, room = Noise(eta / e, 0.0), sample.within
    return (noise.expected(sample.median - room.low) + noise.expected(room.high - sample.median)) / 2


def draw(
    sample: Sample, method: str, relation: str, eps: float, delta: float, size: int, rng: np.random.Generator
) -> np.ndarray:
    """Return `size` releases of the median by a method, shape (size,)."""
    step = sample.within.step
    if method == DUFF:
        grid = dataset_distance.Grid.within(*sample.within, step, QUANTILE_BITS)
        offsets, level = grid.offsets(sample.values), exact_level(LEVEL)
        chosen = [
            dataset_distance.sample_quantile(rng, offsets, grid.top, level, relation, eps / 2) for _ in range(size)
        ]
        return np.array([grid.point(offset) for offset in chosen])
    if method == RANK:
        values = Ranked(InMemory(sample.values), RankGrid(*sample.within, step))
        return draw_rank(values, LEVEL, eps / (2 * HALF[relation]))(rng, size)
    noise = calibrated(method, eps, delta).noise(sample.moves[relation])
    return np.clip(sample.median + noise.draw(size, rng), *sample.within)
