"""Errors and intervals in the local model of privacy, compared with the errors of one trusted party.

In the local model each row adds its own noise before it is sent. Data: x1, x2 ~ U(-1, 1), y = .3 + .7 x1 - .5 x2 + N(0,
.4^2), with declared bounds (-1, 1) and (-3, 3). All methods use the score of Huber's loss with Mallows weights of the
rows. Errors are distances to the estimate without privacy, the root of this score:

- *local*: `local_gradient_descent`, 20 steps of size .5, in the local model.
- *central*: one party averages the same score and adds one draw of noise in each of K = 60 steps, of sd 2 B sqrt(K) /
  (n mu), where B bounds the length of a row's score; after 60 steps the start has no effect.
- *newton*: ``dp_lm(loss="huber", mech="newton")`` compared with the same fit at mu = 1e4, on one in eight data sets.

Targets: the log-log slope of the root mean square error on n is -1/2 +- .05 (local), -1 +- .05 (central), and -1 +- .2
(newton, with fewer data sets and a first stage that costs more at small n). Intervals of level .95 cover .93 to .97:
for local descent if noise is nearly all of the error and if it is half of the error, and for randomised response (eps =
.5 and 3).

    python -m benchmarks.local_model --seed 1 [--replicates 160]
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from tabulate import tabulate

import privstats as ps
from benchmarks.common import arguments, verdict
from privstats.losses.base import HUBER

MU, STEPS, STEP_SIZE, LENGTH = (
    8.0,
    20,
    0.5,
    2.0,
)  # LENGTH: squared length of a scaled row up to which the row has full weight
CENTRAL_STEPS = 60
SIZES = (1000, 3000, 10_000, 30_000, 100_000)
EXACT_MU = 1e4
NEWTONS = 8  # newton is run on the data sets whose number is divisible by 8
SLOPES = {"local": (-0.5, 0.05), "central": (-1.0, 0.05), "newton": (-1.0, 0.2)}
TRUTH = np.array([0.3, 0.7, -0.5])
NAMES = ["x1", "x2"]
FORMULA = "y ~ x1 + x2"
DOMAIN = ps.Domain({"x1": (-1, 1), "x2": (-1, 1), "y": (-3, 3)}, complete=True)
SCALES = np.array([3 / math.sqrt(3), 3.0, 3.0])  # factors from coefficients of scaled columns to the user's units
# number of rows, mu, and factor of `--replicates`
DESCENTS = ((2000, 8.0, 8), (20_000, 50.0, 6))
# number of answers, eps, and factor of `--replicates`
RESPONSES = ((1000, 0.5, 20), (1000, 3.0, 20))
SHARE = 0.3  # share of the answer yes
COVERED = (0.93, 0.97)


class Errors(NamedTuple):
    """Distances to the estimate without privacy; NaN for newton if it was not run on the data set."""

    local: float
    central: float
    newton: float


def draw(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return a data set of n rows."""
    X = rng.uniform(-1, 1, (n, 2))
    y = TRUTH[0] + X @ TRUTH[1:] + 0.4 * rng.standard_normal(n)
    return pd.DataFrame(X, columns=NAMES).assign(y=y)


class Rows(NamedTuple):
    """Scaled predictors (the intercept first), scaled responses, and Mallows weights."""

    x: np.ndarray
    y: np.ndarray
    w: np.ndarray

    @classmethod
    def of(cls, data: pd.DataFrame) -> Rows:
        """Return the scaled rows of a data set and their weights."""
        x = np.column_stack([np.ones(len(data)), math.sqrt(3) * data[NAMES].to_numpy()])
        return cls(x, data["y"].to_numpy() / SCALES[0], np.minimum(1, LENGTH / (x**2).sum(axis=1)))

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return the mean gradient of the Huber-Mallows loss at theta."""
        return -self.x.T @ (self.w * np.clip(self.y - self.x @ theta, -HUBER, HUBER)) / len(self.x)

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        """Return the mean Hessian of the Huber-Mallows loss at theta."""
        return self.x.T @ (self.x * (self.w * (np.abs(self.y - self.x @ theta) < HUBER))[:, None]) / len(self.x)


def without_privacy(rows: Rows) -> np.ndarray:
    """Return the root of the Huber-Mallows score, by Newton's method."""
    theta = np.zeros(len(TRUTH))
    for _ in range(20):
        theta = theta - np.linalg.solve(rows.hessian(theta), rows.gradient(theta))
    return theta


def by_one_party(rows: Rows, mu: float, rng: np.random.Generator) -> np.ndarray:
    """Return the last iterate of noisy gradient descent by one party that holds all rows."""
    theta = np.zeros(len(TRUTH))
    sd = 2 * HUBER * math.sqrt(LENGTH * CENTRAL_STEPS) / (len(rows.x) * mu)
    for _ in range(CENTRAL_STEPS):
        theta = theta - STEP_SIZE * (rows.gradient(theta) + sd * rng.standard_normal(len(theta)))
    return theta


def descend(data: pd.DataFrame, mu: float, rng: np.random.Generator) -> Any:
    """Return the fit by noisy gradient descent in the local model."""
    return ps.local.local_gradient_descent(FORMULA, data, mu, domain=DOMAIN, steps=STEPS, step_size=STEP_SIZE, rng=rng)


def newton(data: pd.DataFrame, mu: float, rng: np.random.Generator) -> np.ndarray:
    """Return the coefficients of robust regression by dp_lm."""
    fit = ps.dp_lm(FORMULA, data, mu=mu, domain=DOMAIN, loss="huber", mech="newton", rng=rng)
    return fit.params.to_numpy()


def errors(number: int, n: int, seed: int) -> Errors:
    """Draw a data set and return the error of each method."""
    rng = np.random.default_rng([seed, n, number])
    data = draw(n, rng)
    rows = Rows.of(data)
    target = SCALES * without_privacy(rows)
    found = descend(data, MU, rng).params.to_numpy(), SCALES * by_one_party(rows, MU, rng)
    apart = math.nan
    if number % NEWTONS == 0:
        apart = float(np.linalg.norm(newton(data, MU, rng) - newton(data, EXACT_MU, rng)))
    return Errors(*(float(np.linalg.norm(one - target)) for one in found), apart)


def hits_of_descent(number: int, n: int, mu: float, seed: int) -> tuple[list[bool], float, float]:
    """Return whether each interval covers the truth, and two numbers for the first slope.

    The numbers are the length of the slope's interval, and the share of the slope's variance due to privacy noise.
    """
    rng = np.random.default_rng([seed, n, number, 1])
    fit = descend(draw(n, rng), mu, rng)
    low, high = fit.conf_int().to_numpy().T
    return list((low <= TRUTH) & (high >= TRUTH)), high[1] - low[1], fit.noise_share["x1"]


def hits_of_response(number: int, n: int, eps: float, seed: int) -> tuple[list[bool], float, float]:
    """Return whether the interval covers the truth, its length, and the share of the variance due to randomisation."""
    rng = np.random.default_rng([seed, n, number, 2])
    fit = ps.local.randomized_response(rng.uniform(size=n) < SHARE, eps, rng=rng)
    low, high = fit.conf_int()
    return [low <= SHARE <= high], high - low, fit.noise_share


def slope(sizes: tuple[int, ...], values: list[float]) -> float:
    """Return the least-squares slope of log values on log sizes."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def falls(pool: ProcessPoolExecutor, replicates: int, seed: int) -> list[str]:
    """Print root mean square errors and their slopes; return the targets that are missed."""
    found = {n: np.array(list(pool.map(partial(errors, n=n, seed=seed), range(replicates)))) for n in SIZES}
    table = {n: np.sqrt(np.nanmean(one**2, axis=0)) for n, one in found.items()}
    slopes = {name: slope(SIZES, [table[n][k] for n in SIZES]) for k, name in enumerate(Errors._fields)}
    print(
        f"root mean square distance to the estimate without privacy, mu = {MU:g}, {replicates} replicates, seed {seed}"
    )
    lines = [(f"{n:,}", *(f"{value:.3g}" for value in row)) for n, row in table.items()]
    lines.append(("slope", *(f"{value:.3f}" for value in slopes.values())))
    print(tabulate(lines, ("n", *slopes), disable_numparse=True, stralign="right"))
    return [
        f"{name}: slope {slopes[name]:.3f}, not {wanted} +- {within}"
        for name, (wanted, within) in SLOPES.items()
        if not abs(slopes[name] - wanted) <= within
    ]


def covers(pool: ProcessPoolExecutor, replicates: int, seed: int) -> list[str]:
    """Print coverages of intervals in the local model; return the targets that are missed."""
    lines, missed = [], []
    cells: list[tuple[str, Callable[..., Any], int, str, float, int]] = [
        *(("local descent", hits_of_descent, n, "mu", mu, times) for n, mu, times in DESCENTS),
        *(("randomised response", hits_of_response, n, "eps", eps, times) for n, eps, times in RESPONSES),
    ]
    for name, hits, n, currency, size, times in cells:
        run = partial(hits, n=n, seed=seed, **{currency: size})
        found = list(pool.map(run, range(times * replicates), chunksize=20))
        covered = np.array([one[0] for one in found])
        length, share = (f"{np.median([one[k] for one in found]):.3g}" for k in (1, 2))
        lines.append((name, f"{n:,}", f"{currency} = {size:g}", len(found), f"{covered.mean():.4f}", length, share))
        if not COVERED[0] <= covered.mean() <= COVERED[1]:
            missed.append(f"{name}, n = {n:,}, {currency} = {size:g}: coverage {covered.mean():.4f}")
    header = ("intervals of", "n", "budget", "replicates", "coverage", "length", "share of noise")
    print("\n" + tabulate(lines, header, disable_numparse=True))
    return missed


def main() -> int:
    """Print the tables and return the exit status."""
    options = arguments(__doc__, replicates=160).parse_args()
    with ProcessPoolExecutor(2) as pool:
        missed = falls(pool, options.replicates, options.seed) + covers(pool, options.replicates, options.seed)
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
