"""Error, intervals and time of noisy Newton steps (dp_lm) and of other methods ("peers"), at similar guarantees.

Design (a) of `newton_accuracy`: X ~ U(-1, 1)^d, coefficients (.5; -1.5 ... 1.5), N(0, 1) errors, response clipped to
its bounds (-8, 8); and its design rho9 with correlated predictors. The guarantee is mu-GDP, or the nearest guarantee of
a peer. All methods have the same bounds and data sets, and a row is replaced, except for AdaSSP:

- newton and moments: dp_lm(mu=mu), and dp_lm(mu=mu, mech="suffstats"). Budget and time include 95 % intervals.
- AdaSSP: (eps, 1e-6)-DP, which is implied by mu-GDP but does not imply it; a row is added or removed, as in its paper.
  Both differences are to the advantage of AdaSSP. No intervals.
- diffprivlib: pure eps-DP at the same eps, because it has no delta. This is a stronger guarantee than (eps, 1e-6), but
  it does not imply mu-GDP (its mu is `pure_mu(eps)`, about five times as large). No intervals.
- gradient descent: steps of length 1 (safe for uncorrelated predictors) from 0; each row's gradient is clipped,
  all steps together satisfy mu-GDP exactly, and the estimate is the last iterate. There are nine tunings, three
  clipping lengths times three numbers of steps. "best" is the tuning with the smallest median distance to the truth in
  the cell: an oracle choice, whose search costs no budget. "fifth" is the fifth-best of the nine tunings, a plausible
  choice in advance. No intervals.

Error is the median over replicates of the L2 distance of all coefficients to the truth; length is the median length of
the slopes' intervals. Targets, in every cell: the error of newton is below the error of every peer, and the mean
coverage of newton is in [.93, .985], up to half a Monte Carlo standard error. The oracle choice of gradient descent may
be better by a fifth on (a): there predictors are alike and uncorrelated, and it pays neither for this knowledge nor for
intervals.

    python -m benchmarks.peers_newton --seed 1 [--replicates 50] [--peers-python PATH] [--n 1000 ...] [--mu 1 ...]
"""

from __future__ import annotations

import itertools
import sys
import time

import numpy as np
from scipy.special import stdtrit
from tabulate import tabulate

from benchmarks import newton_accuracy
from benchmarks.common import arguments, verdict
from benchmarks.peers_linear import DELTA, Fit, Fitted, Runs, Sample, by_adassp, by_diffprivlib, privately, with_ones
from privstats.privacy.tradeoff import gdp_eps

PREDICTORS = {1000: 5, 10_000: 10, 100_000: 10}  # number of predictors, by n
DESIGNS = {"a": 1.2, "rho9": 1.0}  # largest ratio of newton's error to the error of the oracle choice
CORRELATED = 10_000  # number of rows of the cell with design rho9
BUDGETS = (0.5, 1.0)
CLIPS = (1 / 16, 1 / 8, 1 / 4)  # clipping lengths, as shares of a row's longest gradient at theta = 0
STEPS = (10, 20, 40)
NEWTON, BEST, FIFTH = "newton", "gradient descent, best", "gradient descent, fifth"
COVERAGE = (0.93, 0.985)


def draw(design: str, n: int, d: int, rng: np.random.Generator) -> Sample:
    """Draw a data set of a design, with its response clipped to the declared bounds."""
    data, domain = newton_accuracy.draw(design, n, d, rng)
    bound = float(domain["y"].hi)
    y = np.clip(data.pop("y").to_numpy(), -bound, bound)
    return Sample(data.to_numpy(), y, np.array([0.5, *newton_accuracy.slopes(d)]), bound)


def by_least_squares(sample: Sample, mu: float, rng: np.random.Generator) -> Fitted:
    """Return ordinary least squares, which has no privacy, with its textbook intervals."""
    start = time.perf_counter()
    X, theta = with_ones(sample.X), sample.least_squares()
    freedom = len(X) - X.shape[1]
    variance = np.sum((sample.y - X @ theta) ** 2) / freedom * np.diag(np.linalg.inv(X.T @ X))
    half = stdtrit(freedom, 0.975) * np.sqrt(variance)
    seconds = time.perf_counter() - start
    return Fitted(theta, seconds, np.abs(theta - sample.truth) <= half, 2 * half[1:])


def at_eps(fit: Fit) -> Fit:
    """Return a fit that takes mu in place of eps: it spends the smallest eps that mu-GDP implies at delta = 1e-6."""
    return lambda sample, mu, rng: fit(sample, gdp_eps(mu, DELTA), rng)


def by_gradient_descent(clip: float, steps: int) -> Fit:
    """Return the fit by noisy gradient descent on half the mean squared error, under mu-GDP.

    A row's gradient is shortened to a length of at most B, so that replacing a row moves the sum of gradients by at
    most 2 B; ``steps`` sums, each with N(0, (2 B / mu_k)^2) noise and ``mu_k = mu / sqrt(steps)``, compose to mu.
    """

    def fit(sample: Sample, mu: float, rng: np.random.Generator) -> Fitted:
        start = time.perf_counter()
        X = with_ones(sample.X)
        n, m = X.shape
        B = clip * sample.bound * m**0.5
        lengths, theta = np.linalg.norm(X, axis=1), np.zeros(m)  # each length is at least 1 (column of ones)
        for _ in range(steps):
            limit = B / lengths
            total = X.T @ np.clip(sample.y - X @ theta, -limit, limit)
            theta = theta + (total + 2 * B * steps**0.5 / mu * rng.standard_normal(m)) / n
        return Fitted(theta, time.perf_counter() - start)

    return fit


TUNINGS = {f"clip {clip:g}, {steps} steps": by_gradient_descent(clip, steps) for clip in CLIPS for steps in STEPS}


def compare(
    design: str, n: int, d: int, mu: float, fits: dict[str, Fit], replicates: int, seed: int
) -> tuple[dict[str, Runs], list[str]]:
    """Fit every method to the same data sets; return the results, and gradient descent's tunings, best first."""
    rng = np.random.default_rng([seed, n, d, round(100 * mu)])
    row = {name: Runs() for name in (*fits, *TUNINGS)}
    for _ in range(replicates):
        sample = draw(design, n, d, rng)
        for name, fit in (fits | TUNINGS).items():
            row[name].add(fit, sample, mu, rng, sample.truth)
    ranked = sorted(TUNINGS, key=lambda name: row[name].error)
    return {name: row[name] for name in fits} | {BEST: row[ranked[0]], FIFTH: row[ranked[4]]}, ranked


def targets(row: dict[str, Runs], oracle: float) -> list[str]:
    """Return the targets that a cell misses.

    `oracle` is the largest allowed ratio of newton's error to the error of gradient descent with the best tuning.
    """
    newton, found = row[NEWTON], []
    if newton.refused:
        return [f"refused: {newton.refused}"]
    for name, runs in row.items():
        most = (oracle if name == BEST else 1.0) * runs.error if runs.errors else np.inf
        if name not in ("OLS", NEWTON, FIFTH) and not (runs.refused or newton.error < most):
            found.append(f"error {newton.error:.4g} is not below {runs.error:.4g} of {name}{_doubt(newton, runs)}")
    covered = np.mean(newton.covers, axis=1)
    slack = 0.5 * covered.std() / len(covered) ** 0.5
    if not COVERAGE[0] - slack <= covered.mean() <= COVERAGE[1] + slack:
        found.append(f"coverage {covered.mean():.3f}")
    return found


def _doubt(newton: Runs, peer: Runs) -> str:
    """Return, as text, the mean paired difference between the errors of newton and a peer, in standard errors."""
    apart = np.subtract(newton.errors, peer.errors)
    if len(apart) < 2 or not apart.std():
        return ""
    return f" (mean paired difference {apart.mean() / apart.std(ddof=1) * len(apart) ** 0.5:+.1f} standard errors)"


def lines(row: dict[str, Runs]) -> list[tuple[str, ...]]:
    """Return a line of the table for each method."""
    return [
        (
            name,
            f"{runs.error:.4f}" if runs.errors else "-",
            f"{runs.error / row['OLS'].error:.2f}" if runs.errors else "-",
            f"{np.mean(runs.covers):.3f}" if runs.covers else "n/a",
            f"{np.median(runs.lengths):.4f}" if runs.lengths else "n/a",
            f"{np.median(runs.seconds):.3f}" if runs.seconds else "-",
        )
        for name, runs in row.items()
    ]


def main() -> int:
    """Print a table; return 1 if a target is missed."""
    parser = arguments(__doc__, 50)
    parser.add_argument("--peers-python", help="of an environment with diffprivlib; by default one is made")
    parser.add_argument("--n", type=int, nargs="+", choices=tuple(PREDICTORS), default=list(PREDICTORS))
    parser.add_argument("--mu", type=float, nargs="+", default=list(BUDGETS))
    options = parser.parse_args()
    fits: dict[str, Fit] = {
        "OLS": by_least_squares,
        NEWTON: privately("mu"),
        "moments": privately("mu", mech="suffstats"),
        "AdaSSP": at_eps(by_adassp("add_remove")),
    }
    shown: list[tuple[str, ...]] = []
    notes: list[str] = []
    missed: list[str] = []
    with by_diffprivlib(options.peers_python) as (diffprivlib, says):
        if diffprivlib is not None:
            fits["diffprivlib"] = at_eps(diffprivlib)
        print(f"{options.replicates} replicates, seed {options.seed}; diffprivlib: {says}", flush=True)
        cells = [("a", n) for n in options.n] + [("rho9", n) for n in options.n if n == CORRELATED]
        for (design, n), mu in itertools.product(cells, options.mu):
            d = PREDICTORS[n]
            row, ranked = compare(design, n, d, mu, fits, options.replicates, options.seed)
            where = f"{design}, n = {n}, d = {d}, mu = {mu:g}"
            shown += [(design, str(n), str(d), f"{mu:g}", *line) for line in lines(row)]
            missed += [f"{where}: {what}" for what in targets(row, DESIGNS[design])]
            notes += [f"{where}: eps = {gdp_eps(mu, DELTA):.3f}; gradient descent's best is {ranked[0]}"]
            notes += [f"{where}: {name} refused: {runs.refused}" for name, runs in row.items() if runs.refused]
    columns = (
        "design",
        "n",
        "d",
        "mu",
        "method",
        "median L2 error",
        "times OLS",
        "coverage",
        "median length",
        "seconds",
    )
    print("\n" + tabulate(shown, columns, disable_numparse=True))
    print("\n" + "\n".join(notes))
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
