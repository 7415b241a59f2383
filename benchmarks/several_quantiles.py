"""Quantile regressions at several levels that share eps: independent draws, or draws ordered with earlier draws.

The true quantiles are ordered wherever the predictors may lie, which is ``|x_j| <= 1`` in scaled units: there theta of
a higher level lies above theta' of a lower level if and only if ``theta_0 - theta'_0 >= sum |theta_j - theta'_j|``. The
methods a to d use this order with equal shares of eps; e divides eps in another way.

*a rearranged*: independent draws by KNG (the K-norm gradient mechanism), with fitted values sorted in each row (as in
`predict`).
*d projected*: the same draws, moved to the nearest coefficients that are ordered on the domain, in the mean square of
fitted values. Only releases are used.
*b stepwise*: the middle level is drawn first, then the other levels outwards; each draw has KNG's density on the part
of the parameter set that is ordered with the earlier releases. Given these releases the set is fixed and the same for
neighbours, so the draw is as private as on the whole set: the sensitivity of the score is unchanged, and the normaliser
changes by half of eps again. By adaptive composition the budgets add up.
*c sandwich*: as b, with the middle level first, then the outermost levels, then each level half way between earlier
neighbours. (Tran, Reimherr and Slavkovic have steps and sandwiches by a Markov chain; here every draw is exact.)

*e uneven*: as a, with shares of eps in proportion to the function `need`.

The table has the root mean square error of fitted quantiles at 400 points in the range of the predictors, as a mean
over levels and replicates; "none" is the estimate without privacy, and "apart" has independent draws as they are. ``y =
0.5 + x_1 + (1 + s x_1) e``, e standard normal, response declared within (-8, 8), predictors uniform on [-1, 1]; s = 0
("normal") or 1/2 ("hetero"). In "narrow" predictors lie in [-0.4, 0.4] of the declared range, and s = 2: true quantiles
cross at x_1 = -1/2, where there are no rows. Gains are relative to the better of a and d, with Monte Carlo errors.

    python benchmarks/several_quantiles.py --seed 1 [--replicates 40] [--n 200 ...] [--eps 0.5 ...] [--d 2 3]
"""

from __future__ import annotations

import itertools
import math
import sys
import time

import numpy as np
from scipy.optimize import nnls
from scipy.stats import norm
from tabulate import tabulate

from benchmarks.common import REPLACED, arguments
from privstats.mechanisms.quantile_regression.minimise import Target, minimise
from privstats.mechanisms.quantile_regression.rejection import CheckBoxes
from privstats.mechanisms.quantile_regression.rows import Rows
from privstats.numerics.law import FloatArray
from privstats.sets.losses import CheckLosses

HALF, RADIUS = 8.0, 2.0  # half-range of the response, and radius of the parameter set
# half-range of predictors, and the number s in the factor 1 + s x_1 of the errors
LAWS = {"normal": (1.0, 0.0), "hetero": (1.0, 0.5), "narrow": (0.4, 2.0)}
ORDERS = {3: (0.1, 0.5, 0.9), 9: tuple(k / 10 for k in range(1, 10))}
METHODS = ("none", "apart", "a rearranged", "d projected", "b stepwise", "c sandwich", "e uneven")
FEWER = 10_000  # from this number of rows on, a quarter of the replicates is run
# largest number of boxes of a rejection sampler on the ordered part of the parameter set; if more are needed, the draw
# is made on the whole parameter set
GIVE_UP = 60_000


class Cut(CheckBoxes):
    """Exact sampler of the density `target`, restricted to coefficients theta with ``A theta >= b``."""

    def __init__(self, target: Target, A: FloatArray, b: FloatArray) -> None:
        self.A, self.b = A, b
        super().__init__(target)

    def potential(self, phi: FloatArray, rows: Rows) -> float:
        theta = self.frame.centre + self.frame.basis @ phi
        return super().potential(phi, rows) if (self.A @ theta >= self.b).all() else math.inf

    def put(self, middles: FloatArray, half: FloatArray, bounds: FloatArray, rows: Rows) -> None:
        sides = self.A @ self.frame.basis
        best = middles @ sides.T + self.A @ self.frame.centre + np.abs(sides) @ half - self.b
        some = (best >= -1e-12).all(axis=1)
        super().put(middles[some], half, bounds[some], rows)

    def split(self, chosen: int) -> None:
        if len(self.boxes) > GIVE_UP:
            raise TimeoutError
        super().split(chosen)


def signs(d: int) -> FloatArray:
    """Return the corners of the domain of the predictors: rows (1, +-1, ...)."""
    return np.array([(1.0, *s) for s in itertools.product((-1.0, 1.0), repeat=d - 1)])


def stepwise(k: int) -> list[int]:
    """Return the indices of k quantile levels, from the middle outwards."""
    return sorted(range(k), key=lambda j: (abs(j - (k - 1) / 2), j))


def sandwich(k: int) -> list[int]:
    """Return the indices of k quantile levels: the middle, the outermost, then levels half way between."""
    done = [k // 2, *([0] if k // 2 else []), *([k - 1] if k - 1 > k // 2 else [])]
    while len(done) < k:
        known = sorted(done)
        done += [(a + b) // 2 for a, b in itertools.pairwise(known) if b - a > 1]
    return done


def projected(thetas: FloatArray, width: float) -> FloatArray:
    """Return the ordered coefficients with the nearest fitted values, for predictors uniform on [-width, width]."""
    k, d = thetas.shape
    root = np.tile([1.0, *[width / math.sqrt(3)] * (d - 1)], k)
    C = np.kron(np.diff(np.eye(k), axis=0), signs(d)) / root
    multipliers, _ = nnls(C.T, -root * thetas.ravel())
    return np.asarray(((root * thetas.ravel() + C.T @ multipliers) / root).reshape(k, d))


def one_by_one(targets: list[Target], order: list[int], rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Return draws whose fitted values are ordered with those of earlier draws, and a number.

    The number counts the draws from the whole parameter set, because more than `GIVE_UP` boxes were needed.
    """
    corners, found, without = signs(targets[0].x.shape[1]), {}, 0
    for j in order:
        below, above = [i for i in found if i < j], [i for i in found if i > j]
        parts = [corners] * bool(below) + [-corners] * bool(above)
        ends = [corners @ found[max(below)]] if below else []
        ends += [-corners @ found[min(above)]] if above else []
        A, b = np.vstack([np.zeros((1, corners.shape[1])), *parts]), np.concatenate([[-1.0], *ends])
        try:
            found[j] = Cut(targets[j], A, b).draw(rng)
        except TimeoutError:
            found[j], without = CheckBoxes(targets[j]).draw(rng), without + 1
    return np.array([found[j] for j in range(len(targets))]), without


def need(tau: float) -> float:
    """Return the share of the budget for the quantile level tau, up to a factor that is the same for all levels.

    Let m be the smaller of tau and 1 - tau. Far from the best coefficients the score may be as small as n m, or half of
    this if a slope is steep, so an outer level needs more of the budget to avoid such coefficients; and where rows are
    few, the same noise moves coefficients further. Shares in proportion to 1 / m would leave too little for the median,
    so the share is 1 / sqrt(min(m, 1/4)).
    """
    return float(min(tau, 1 - tau, 0.25) ** -0.5)


def errors(law: str, n: int, eps: float, d: int, taus: tuple[float, ...], rng: np.random.Generator) -> tuple:
    """Return the error of every method on one data set, and the number of draws from the whole parameter set."""
    width, s = LAWS[law]
    X = np.column_stack([np.ones(n), rng.uniform(-width, width, (n, d - 1))])
    y = np.clip((0.5 + X[:, 1] + (1 + s * X[:, 1]) * rng.standard_normal(n)) / HALF, -1, 1)
    z = norm.ppf(taus)
    truth = np.column_stack([0.5 + z, 1 + s * z, np.zeros((len(taus), d - 2))])
    weights = np.array([need(tau) for tau in taus])
    targets, other = [], []
    for tau, share in zip(taus, weights / weights.sum(), strict=True):
        within = CheckLosses(d, tau, RADIUS)
        one, tilt = within.sensitivity("score hull", REPLACED), within.tilt(REPLACED.exchange)
        for to, part in ((targets, 1 / len(taus)), (other, share)):
            to.append(Target(X, y, tau, RADIUS, eps * part / (2 * one.size), "hull", tilt))
    apart = np.array([CheckBoxes(target).draw(rng) for target in targets])
    uneven = np.array([CheckBoxes(target).draw(rng) for target in other])
    steps, lost = one_by_one(targets, stepwise(len(taus)), rng)
    between, more = one_by_one(targets, sandwich(len(taus)), rng)
    free = np.array([minimise(X, y, tau, RADIUS) for tau in taus])
    grid = np.column_stack([np.ones(400), np.random.default_rng(0).uniform(-width, width, (400, d - 1))])

    def miss(thetas: FloatArray, ordered: bool = False) -> float:
        fitted = HALF * grid @ thetas.T
        fitted = np.sort(fitted, axis=1) if ordered else fitted
        return float(np.sqrt(((fitted - grid @ truth.T) ** 2).mean(axis=0)).mean())

    found = (miss(free), miss(apart), miss(apart, True), miss(projected(apart, 1.0)), miss(steps), miss(between))
    found = (*found, miss(uneven, True))
    return found, lost + more


def main() -> int:
    """Print the table."""
    parser = arguments(__doc__, 40)
    parser.add_argument("--n", type=int, nargs="*", default=(200, 1000, 10_000))
    parser.add_argument("--eps", type=float, nargs="*", default=(0.5, 1.0, 2.0))
    parser.add_argument("--d", type=int, nargs="*", default=(2, 3))
    parser.add_argument("--orders", type=int, nargs="*", default=list(ORDERS), choices=ORDERS)
    parser.add_argument("--law", nargs="*", default=list(LAWS), choices=LAWS)
    options = parser.parse_args()
    rows = []
    for d, k, law, n, eps in itertools.product(options.d, options.orders, options.law, options.n, options.eps):
        rng = np.random.default_rng([options.seed, d, k, n, round(1000 * eps), *law.encode()])
        replicates = options.replicates if n < FEWER else max(10, options.replicates // 4)
        start, cell = time.perf_counter(), [errors(law, n, eps, d, ORDERS[k], rng) for _ in range(replicates)]
        means = np.mean([found for found, _ in cell], axis=0)
        paired = np.array([found for found, _ in cell])
        best = 2 + int(np.argmin(means[2:4]))
        gain = paired[:, best, None] - paired[:, 4:]
        errs = gain.std(axis=0, ddof=1) / math.sqrt(len(gain))
        gains = zip(100 * gain.mean(axis=0) / means[best], 100 * errs / means[best], strict=True)
        told = [f"{mean:+.0f} ({error:.0f})" for mean, error in gains]
        line = (d, k, law, n, f"{eps:g}", *(f"{mean:.3g}" for mean in means), *told, sum(lost for _, lost in cell))
        rows.append(line)
        print("\t".join(map(str, line)), f"{time.perf_counter() - start:.0f} s", sep="\t", file=sys.stderr, flush=True)
    print(f"{options.replicates} replicates (a quarter from {FEWER} rows on), seed {options.seed}; gains in %")
    header = ("d", "orders", "law", "n", "eps", *METHODS, "gain b", "gain c", "gain e", "gave up")
    print(tabulate(rows, header, disable_numparse=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
