"""Theorem 3.2 of Reimherr and Awan (2019): the distance of the law of KNG from its K-norm limit, by number of rows.

KNG is the K-norm gradient mechanism (see `kng_figure1`). The theorem: let theta be drawn by KNG, theta^ the estimate
without privacy, and z = n (theta - theta^). The density of z tends to a density proportional to ``exp(-eps |H z|_K / (2
D))``, where H is the limit of the mean Hessian and D the sensitivity at the true theta. In the limit |H z|_K is 2 D /
eps times a Gamma(d) variable. The table has Kolmogorov distances.

*Least squares*, three coefficients, in linf and l2, by exact draws of the package (`level_sets.sample_gradient`, with
the sensitivity at each theta, which tends to the sensitivity at the true theta). At small n the distance is due to the
edge of the parameter set and to the change of the sensitivity with theta.

*The median* has no Hessian: its loss is piecewise linear, and the theorem does not cover it. Its score is the number of
values between theta and the median, locally a Poisson process: given the data, the law of z is geometric over random
gaps, however large n is. The formula of the limit with the density f of the data in place of H gives a Laplace law of
scale 2 / (eps f). This law is right as eps tends to 0 (and n eps grows), but not at eps = 1, where the distance does
not fall with n. The distance is computed exactly from the gaps of each data set, without draws.

Targets. Least squares: the distance is within 2 / sqrt(draws) (a level of .0007) at n = 1e6, and at least 3 times this
number at n = 100. The median: at n = 1e6 the mean distance is at most .03 at eps = .01; at eps = 1 it is at least .1,
and at least .8 times the distance at n = 1,000.

    python -m benchmarks.kng_limit --seed 1 [--replicates 4000] [--plot PATH]
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
from scipy import stats
from tabulate import tabulate

from benchmarks.common import arguments, new_figure, save, verdict
from privstats.mechanisms.comparison.level_sets import sample_gradient

EPS, BOUND, R = 1.0, 2.0, 4.0
TRUTH = np.array([0.1, -0.15, 0.2])  # true coefficients, for the response divided by R
SIZES = (100, 1000, 10_000, 100_000, 1_000_000)
NORMS = {"linf": math.inf, "l2": 2.0}
LEVEL = 2.0  # quantile of Kolmogorov's distribution, exceeded with probability 1 / 1,500
BUDGETS = (1.0, 0.1, 0.01)
SETS = 40  # number of data sets for medians


def normal_equations(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return X'X and X'y of rows whose entries lie in [-1, 1]."""
    x = np.column_stack([np.ones(n), rng.uniform(-1, 1, (n, 2))])
    y = np.clip(x @ TRUTH + rng.standard_normal(n) / R, -1, 1)
    return x.T @ x, x.T @ y


def least_squares(n: int, norm: str, draws: int, rng: np.random.Generator, eps: float = EPS) -> np.ndarray:
    """Return the scaled lengths |A (theta - theta^)| of draws theta by KNG, shape (draws,), where A is X'X.

    The lengths are in the norm `norm`, and scaled such that their limit distribution is Gamma(d).
    """
    A, b = normal_equations(n, rng)
    ordinary = np.linalg.solve(A, b)
    longest = {"linf": 1.0, "l2": math.sqrt(len(TRUTH))}[norm]
    theta = np.array([sample_gradient(rng, A, b, eps / (4 * longest), norm, BOUND) for _ in range(draws)])
    scale = 4 * longest * (1 + np.abs(TRUTH).sum()) / eps
    lengths: np.ndarray = np.linalg.norm((theta - ordinary) @ A, NORMS[norm], axis=1) / scale
    return lengths


def distance(lengths: np.ndarray) -> float:
    """Return the Kolmogorov distance of a sample of lengths from the limit Gamma(d)."""
    return float(stats.kstest(lengths, stats.gamma(len(TRUTH)).cdf).statistic)


def median_law(values: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the gaps between values, as n (theta - median), and KNG's distribution function at these ends.

    The density is constant on a gap: ``exp(-eps |k - n / 2| / 2)`` if k values lie below the gap.
    """
    n, values = len(values), np.sort(values)
    near = np.arange(max(0, n // 2 - int(60 / eps)), min(n, n // 2 + int(60 / eps)))
    score = np.abs(near[1:] - n / 2)
    mass = np.diff(values[near]) * np.exp(-eps / 2 * score)
    return n * (values[near] - np.median(values)), np.append(0.0, np.cumsum(mass)) / mass.sum()


def median_distance(values: np.ndarray, eps: float, density: float) -> float:
    """Return the Kolmogorov distance of KNG's law of the median from the Laplace law, on a grid within each gap.

    `density` is the population's density at the median.
    """
    z, below = median_law(values, eps)
    fine = np.linspace(z[:-1], z[1:], 16, axis=1).ravel()
    return float(np.abs(np.interp(fine, z, below) - stats.laplace(scale=2 / (eps * density)).cdf(fine)).max())


def medians(seed: int, sets: int) -> dict[tuple[int, float], np.ndarray]:
    """Return the distances of the medians of `sets` N(0, 1) data sets, by number of rows and eps."""
    found = {}
    for n in SIZES[1:]:
        rng = np.random.default_rng([seed, n, 2])
        drawn = [rng.standard_normal(n) for _ in range(sets)]
        for eps in BUDGETS:
            found[n, eps] = np.array([median_distance(values, eps, stats.norm.pdf(0)) for values in drawn])
    return found


def misses(squares: dict[tuple[int, str], np.ndarray], middle: dict[tuple[int, float], np.ndarray]) -> list[str]:
    """Return the missed targets."""
    missed = []
    for (n, norm), lengths in squares.items():
        band, far = LEVEL / math.sqrt(len(lengths)), distance(lengths)
        if n == SIZES[-1] and far > band:
            missed.append(f"least squares, {norm}, n = {n}: {far:.3f} > {band:.3f}")
        if n == SIZES[0] and far < 3 * band:
            missed.append(f"least squares, {norm}, n = {n}: {far:.3f} < 3 x {band:.3f}")
    mean = {key: float(values.mean()) for key, values in middle.items()}
    if mean[SIZES[-1], 0.01] > 0.03:
        missed.append(f"median, eps = .01: {mean[SIZES[-1], 0.01]:.3f} > .03")
    if mean[SIZES[-1], 1.0] < max(0.1, 0.8 * mean[SIZES[1], 1.0]):
        missed.append(f"median, eps = 1: {mean[SIZES[-1], 1.0]:.3f} has fallen from {mean[SIZES[1], 1.0]:.3f}")
    return missed


def plot(squares: dict[tuple[int, str], np.ndarray], seed: int, path: Path) -> None:
    """Draw densities of scaled lengths for least squares, and KNG's law of the median beside the Laplace law."""
    figure, panels = new_figure(3, share_y=False)
    t = np.linspace(0, 12, 400)
    for n in SIZES[::2]:
        panels[0].hist(squares[n, "linf"], np.linspace(0, 12, 41), density=True, histtype="step", label=f"n = {n:,}")
    panels[0].plot(t, stats.gamma(len(TRUTH)).pdf(t), "k", label="limit")
    panels[0].set_title("least squares: score at the draw, linf", fontsize=10)
    panels[0].set_xlabel("|A (theta - least squares)| / scale")
    values = np.random.default_rng([seed, 3]).standard_normal(SIZES[-2])
    for panel, eps in zip(panels[1:], (BUDGETS[0], BUDGETS[2]), strict=True):
        z, below = median_law(values, eps)
        scale = 2 / (eps * stats.norm.pdf(0))
        shown = np.linspace(-6 * scale, 6 * scale, 800)
        panel.plot(shown, np.interp(shown, z, below), label="KNG, one data set")
        panel.plot(shown, stats.laplace(scale=scale).cdf(shown), "k--", label="Laplace")
        panel.set_title(f"median, n = {len(values):,}, eps = {eps:g}: distribution function", fontsize=10)
        panel.set_xlabel("n (theta - median)")
    for panel in panels:
        panel.legend(fontsize=8)
    save(figure, path)


def main() -> int:
    """Print the tables, draw the figure and return the exit status."""
    options = arguments(__doc__, replicates=4000, figure="kng_limit").parse_args()
    squares = {
        (n, norm): least_squares(n, norm, options.replicates, np.random.default_rng([options.seed, n, len(norm)]))
        for n in SIZES
        for norm in NORMS
    }
    band = LEVEL / math.sqrt(options.replicates)
    print(f"Kolmogorov distances to the limit; seed {options.seed}")
    print(f"\nleast squares, eps = {EPS:g}, {options.replicates} draws of one data set: up to {band:.3f} is chance")
    rows = [(norm, *(f"{distance(squares[n, norm]):.3f}" for n in SIZES)) for norm in NORMS]
    print(tabulate(rows, ("", *(f"n = {n:,}" for n in SIZES)), disable_numparse=True))
    middle = medians(options.seed, SETS)
    print(f"\nmedian, means of {SETS} data sets, no draws")
    rows = [(f"eps = {eps:g}", *(f"{middle[n, eps].mean():.3f}" for n in SIZES[1:])) for eps in BUDGETS]
    print(tabulate(rows, ("", *(f"n = {n:,}" for n in SIZES[1:])), disable_numparse=True))
    plot(squares, options.seed, options.plot)
    return verdict(misses(squares, middle))


if __name__ == "__main__":
    sys.exit(main())
