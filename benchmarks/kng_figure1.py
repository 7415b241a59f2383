"""Figure 1 of Reimherr and Awan (2019): linear regression by KNG and other mechanisms, by number of rows.

KNG, the K-norm gradient mechanism, draws theta with a density that falls exponentially in a norm of the loss's gradient
(the score) at theta, divided by the sensitivity of the score. Data by their Algorithm 1: d = 12 predictors, the first
predictor constant, the other predictors U(-1, 1); coefficients (0, -1, -1 + 2/11, ..., 1 - 2/11), N(0, 1) errors, eps =
1. The figure shows mean L2 distances to the truth, in two versions.

*The paper's version is neither private nor valid.* It divides the response by the largest abs(Y) of the data, which is
one person's value, and its parameter set, abs(theta)_1 <= 1, does not contain the scaled truth for small n
(abs(theta)_1 is 1.36, 1.10, .96, .85, .78 at n = 1e2, ..., 1e6). Its sensitivity of the score is constant, 2 (1 + B)
for the loss without the factor 2. Its KNG is drawn by 10,000 steps of a random walk that moves one coordinate at a time
(start 0; standard deviation .1, which the paper does not state), and the proof does not hold for the law of this walk.
Exact draws of the same density are shown beside it.

*The honest version* divides by a public bound of 7; one response in 1e6 lies beyond the bound and is clipped, and the
truth, abs(theta)_1 = .79, lies inside the set. Its sensitivity depends on theta (the paper's Theorem 3.1 allows it),
and its draws are exact: by `dp_lm` up to n = 1e4, and for larger n by the same mechanisms on moments summed block by
block. Coefficients are reported as they are drawn, at any budget: at n = 100 their distance is about 3, and the
distance of zeros is 1.93. The random walk is also run on the honest density, where it fails: if several entries of the
score are largest, no step along one coordinate lowers the maximum, and with a sensitivity that grows with theta most
steps lead outward.

Targets: the error of the honest KNG is at most 1.15 times the error of the reference implementation, plus 2 Monte Carlo
standard errors, at n = 1e4, 1e5 and 1e6; the random walk is not better than exact draws of the same density, up to 2
Monte Carlo standard errors, from n = 1e5 on, and at least twice as bad from n = 1e6 on.

    python benchmarks/kng_figure1.py --seed 1 [--replicates 100] [--large] [--n 100 ...] [--plot PATH]
"""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import gammainc, gammaincinv, gammaln
from tabulate import tabulate

import privstats as ps
from benchmarks.common import REPLACED, arguments, as_total, new_figure, save, verdict
from privstats.mechanisms.base import Mechanism
from privstats.mechanisms.comparison.kng import Exponential, KNormGradient
from privstats.mechanisms.comparison.quadratic_objective import QuadraticPerturbation
from privstats.privacy.promise import PureDP
from privstats.sets.losses import SquaredLosses

D, EPS, B, R = 12, 1.0, 1.0, 7.0
TRUTH = np.array([0.0, *(-1 + 2 * np.arange(D - 1) / (D - 1))])
NAMES = [f"x{j}" for j in range(1, D)]
FORMULA = "y ~ " + " + ".join(NAMES)
DOMAIN = ps.Domain({**dict.fromkeys(NAMES, (-1, 1)), "y": (-R, R)}, complete=True)
SIZES, LARGE = (100, 1000, 10_000, 100_000, 1_000_000), 10_000_000
FRONT_DOOR = 10_000  # largest number of rows for which the honest version calls dp_lm
FEWER = 1_000_000  # from this number of rows on, a third of the replicates is run
BLOCK = 250_000
STEPS, STRIDE = 10_000, 0.1  # number of steps of the random walk, and standard deviation of a step
# by number of rows: error of a reference implementation of KNG, in the paper's version
REFERENCE = {10_000: 0.344, 100_000: 0.0412, 1_000_000: 0.00683}
MECHANISMS: dict[str, type[Mechanism]] = {
    "expmech": Exponential,
    "objpert": QuadraticPerturbation,
    "kng": KNormGradient,
}
METHODS: dict[str, dict[str, Any]] = {
    "exp mech": {"mech": "expmech"},
    "objpert .5": {"mech": "objpert", "split": 0.5},
    "objpert .95": {"mech": "objpert", "split": 0.95},
    "KNG": {"mech": "kng"},
}
ORDINARY, EXACT, WALK = "OLS", "KNG", "KNG walk"
COLUMNS = (ORDINARY, *METHODS, WALK)
Errors = dict[str, dict[str, np.ndarray]]  # L2 distances to the truth by version and method, one for each replicate


class Sample(NamedTuple):
    """A data set: its normal equations A theta = b, and its rows if they are few."""

    A: np.ndarray
    b: np.ndarray
    clipped: np.ndarray  # b, computed from the response clipped to its public bound
    largest: float  # largest abs(y) of the data: not public
    rows: pd.DataFrame | None


def draw(n: int, rng: np.random.Generator) -> Sample:
    """Draw n rows by the paper's Algorithm 1, block by block."""
    A, b, clipped, largest, rows = np.zeros((D, D)), np.zeros(D), np.zeros(D), 0.0, None
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        X = rng.uniform(-1, 1, (size, D))
        X[:, 0] = 1.0
        y = X @ TRUTH + rng.standard_normal(size)
        A += X.T @ X
        b += X.T @ y
        clipped += X.T @ np.clip(y, -R, R)
        largest = max(largest, float(np.abs(y).max()))
        if n <= FRONT_DOOR:
            rows = pd.DataFrame(X[:, 1:], columns=NAMES).assign(y=y)
    return Sample(A, b, clipped, largest, rows)


def by_mechanism(
    A: np.ndarray, b: np.ndarray, rng: np.random.Generator, mech: str, radius: float = B, **options: float
) -> np.ndarray:
    """Return a private estimate from the normal equations by the mechanism `mech`, in units of the scaled response."""
    within = SquaredLosses(D, radius)
    exact = as_total(np.column_stack([A, b])[within.pairs])
    mechanism = MECHANISMS[mech](**options)
    return mechanism.release("coefficients", exact, PureDP(EPS), within, REPLACED, rng).value


def by_front_door(rows: pd.DataFrame, rng: np.random.Generator, **options: Any) -> np.ndarray:
    """Return the coefficients of a fit by dp_lm."""
    fit = ps.dp_lm(FORMULA, rows, EPS, domain=DOMAIN, inference="none", theta_bound=B, rng=rng, **options)
    return fit.params.to_numpy()


def exact_constant(A: np.ndarray, b: np.ndarray, rng: np.random.Generator, radius: float = B) -> np.ndarray:
    """Draw exactly from the paper's KNG: density exp(-c |A theta - b|_inf) on the l1 ball, c = eps / (4 (1 + B)).

    Let s = c |A theta - b|_inf; exp(-s) is the integral of e^-r over r > s. A level r is drawn with a density
    proportional to e^-r times the volume of the smaller of two sets, the ball and {s <= r}, and theta uniformly from
    the smaller set; the pair is accepted if theta lies in the other set too.
    """
    d = len(b)
    c = EPS / (4 * (1 + radius))
    ball = d * math.log(2 * radius) - gammaln(d + 1)  # log volume of the ball; `level` is the log volume of {s <= 1}
    level = d * math.log(2 / c) - np.linalg.slogdet(A)[1]
    edge = math.exp((ball - level) / d)
    log_inner = level + gammaln(d + 1) + math.log(max(gammainc(d + 1, edge), 1e-300))
    inner = 1 / (1 + math.exp(min(700.0, ball - edge - log_inner)))
    while True:
        size = 1024
        low = rng.uniform(size=size) < inner
        below = gammaincinv(d + 1, gammainc(d + 1, edge) * rng.uniform(size=size))
        r = np.where(low, below, edge + rng.standard_exponential(size))
        inside = np.linalg.solve(A, b[:, None] + r / c * rng.uniform(-1, 1, (d, size))).T
        lengths = rng.standard_exponential((size, d + 1))
        flat = radius * lengths[:, :d] / lengths.sum(axis=1, keepdims=True) * rng.choice([-1, 1], (size, d))
        theta = np.where(low[:, None], inside, flat)
        kept = np.abs(theta).sum(axis=1) <= radius
        kept &= low | (c * np.abs(theta @ A - b).max(axis=1) <= r)
        if kept.any():
            return theta[np.argmax(kept)]


def walk(
    A: np.ndarray, b: np.ndarray, rng: np.random.Generator, constant: bool, radius: float = B, steps: int = STEPS
) -> np.ndarray:
    """Run a Metropolis random walk for each of m data sets at once; return the last states, shape (m, d).

    Each step moves one coordinate, in turn; the gradient then changes by a multiple of one column of A, at a cost of
    O(d).

    Parameters
    ----------
    A, b : ndarray, shapes (m, d, d) and (m, d)
        Normal equations.
    rng : Generator
        Random generator.
    constant : bool
        Whether the sensitivity is the constant of the paper; otherwise it depends on theta.
    radius : float
        Radius of the l1 ball.
    steps : int
        Number of steps.
    """
    m, d = b.shape
    theta, gradient, length = np.zeros((m, d)), -b, np.zeros(m)
    columns = np.ascontiguousarray(np.moveaxis(A, 2, 0))

    def potential(gradient: np.ndarray, length: np.ndarray) -> np.ndarray:
        return EPS / 4 * np.abs(gradient).max(axis=1) / (1 + (radius if constant else length))

    now = potential(gradient, length)
    for step in range(steps):
        j = step % d
        moved = theta[:, j] + STRIDE * rng.standard_normal(m)
        there = gradient + (moved - theta[:, j])[:, None] * columns[j]
        far = length + np.abs(moved) - np.abs(theta[:, j])
        then = potential(there, far)
        accepted = (far <= radius) & (now - then > -rng.standard_exponential(m))
        theta[accepted, j] = moved[accepted]
        gradient = np.where(accepted[:, None], there, gradient)
        length = np.where(accepted, far, length)
        now = np.where(accepted, then, now)
    return theta


def errors(n: int, replicates: int, seed: int, steps: int = STEPS) -> tuple[Errors, dict[str, float]]:
    """Return L2 distances to the truth by version and method, and milliseconds for a release of the honest methods."""
    rng = np.random.default_rng([seed, n])
    samples = [draw(n, rng) for _ in range(replicates)]
    thetas: dict[str, dict[str, list[np.ndarray]]] = {"paper": {}, "honest": {}}
    seconds = dict.fromkeys([*METHODS, WALK], 0.0)
    for sample in samples:
        scaled = sample.b / sample.largest
        for name, options in METHODS.items():
            if name == EXACT:
                released = exact_constant(sample.A, scaled, rng)
            else:
                released = by_mechanism(sample.A, scaled, rng, **options)
            thetas["paper"].setdefault(name, []).append(released * sample.largest)
            start = time.perf_counter()
            if sample.rows is None:
                estimate = R * by_mechanism(sample.A, sample.clipped / R, rng, **options)
            else:
                estimate = by_front_door(sample.rows, rng, **options)
            seconds[name] += time.perf_counter() - start
            thetas["honest"].setdefault(name, []).append(estimate)
    found = {
        version: {name: np.linalg.norm(np.array(some) - TRUTH, axis=1) for name, some in by_method.items()}
        for version, by_method in thetas.items()
    }
    ordinary = np.array([np.linalg.norm(np.linalg.solve(sample.A, sample.b) - TRUTH) for sample in samples])
    A = np.array([sample.A for sample in samples])
    largest = np.array([sample.largest for sample in samples])[:, None]
    b = np.array([sample.b for sample in samples])
    walked = {"paper": largest * walk(A, b / largest, rng, constant=True, steps=steps)}
    start = time.perf_counter()
    clipped = np.array([sample.clipped for sample in samples])
    walked["honest"] = R * walk(A, clipped / R, rng, constant=False, steps=steps)
    seconds[WALK] = time.perf_counter() - start
    for version, ends in walked.items():
        found[version] |= {ORDINARY: ordinary, WALK: np.linalg.norm(ends - TRUTH, axis=1)}
    return found, {name: 1000 * total / replicates for name, total in seconds.items()}


def misses(n: int, found: Errors) -> list[str]:
    """Return the missed targets at n rows."""
    missed = []
    exact = found["honest"][EXACT]
    doubt = 2 * exact.std(ddof=1) / math.sqrt(len(exact))
    if n in REFERENCE and exact.mean() > 1.15 * REFERENCE[n] + doubt:
        missed.append(f"n = {n}: honest KNG {exact.mean():.3g} > 1.15 x {REFERENCE[n]} + {doubt:.2g}")
    for version, by_method in found.items():
        walked, drawn = by_method[WALK], by_method[EXACT]
        room = 2 * math.hypot(walked.std(ddof=1), drawn.std(ddof=1)) / math.sqrt(len(drawn))
        if n >= 100_000 and walked.mean() + room <= drawn.mean():
            missed.append(f"n = {n}: the {version} version's random walk is better than exact draws")
        if n >= 1_000_000 and walked.mean() <= 2 * drawn.mean():
            missed.append(f"n = {n}: the {version} version's random walk is not twice as bad as exact draws")
    return missed


def plot(cells: dict[int, Errors], path: Path) -> None:
    """Draw mean distances to the truth against n, for both versions."""
    figure, panels = new_figure(2)
    titles = ("paper: scaled by max abs(Y), not private", f"honest: abs(Y) <= {R:g} public, exact draws")
    for panel, version, title in zip(panels, ("paper", "honest"), titles, strict=True):
        for name in COLUMNS:
            means = [cells[n][version][name].mean() for n in cells]
            style = {ORDINARY: "k-", WALK: "--"}.get(name, "o-")
            panel.loglog(list(cells), means, style, markersize=4, label=name)
        panel.set_title(title, fontsize=10)
        panel.set_xlabel("n")
    panels[0].set_ylabel("mean L2 distance to the truth")
    panels[0].legend(fontsize=8)
    save(figure, path)


def main() -> int:
    """Print the tables, draw the figure and return the exit status."""
    parser = arguments(__doc__, replicates=100, figure="kng_figure1")
    parser.add_argument("--large", action="store_true", help="add n = 1e7")
    parser.add_argument("--n", type=int, nargs="*", default=SIZES)
    options = parser.parse_args()
    cells, times, missed = {}, [], []
    for n in (*options.n, *([LARGE] if options.large else [])):
        replicates = options.replicates if n < FEWER else max(10, options.replicates // 3)
        cells[n], spent = errors(n, replicates, options.seed)
        times.append((n, replicates, *(f"{spent[name]:.3g}" for name in (*METHODS, WALK))))
        missed += misses(n, cells[n])
    print(f"eps = {EPS:g}, d = {D}, {options.replicates} replicates (a third from n = 1e6 on), seed {options.seed}")
    says = {
        "paper": "scaled by the data's max abs(Y): not private; B = 1 need not hold the truth: not valid",
        "honest": f"public abs(Y) <= {R:g}, B = {B:g}, truth at {np.abs(TRUTH).sum() / R:.2f}",
    }
    for version, by_n in {version: {n: cell[version] for n, cell in cells.items()} for version in says}.items():
        print(f"\nmean L2 distance to the truth, {version} version ({says[version]}); +- Monte Carlo error of KNG")
        rows = [
            (
                n,
                *(f"{found[name].mean():.3g}" for name in COLUMNS),
                f"{found[EXACT].std(ddof=1) / math.sqrt(len(found[EXACT])):.2g}",
                REFERENCE.get(n, ""),
            )
            for n, found in by_n.items()
        ]
        print(tabulate(rows, ("n", *COLUMNS, "+-", "reference KNG"), disable_numparse=True))
    print(f"\nmilliseconds a release, honest version (dp_lm up to n = {FRONT_DOOR}; the walk: all replicates at once)")
    print(tabulate(times, ("n", "replicates", *METHODS, WALK), disable_numparse=True))
    plot(cells, options.plot)
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
