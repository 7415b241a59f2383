"""Figure 2 of Reimherr and Awan (2019): median regression by KNG and the exponential mechanism, by number of rows.

KNG is the K-norm gradient mechanism (see `kng_figure1`). Data by their Algorithm 1 with d = 2: a constant, one
predictor U(-1, 1), coefficients (0, 1), N(0, 1) errors, tau = 1/2, eps = 1, ``|theta|_1 <= 1`` in scaled units. The
figure shows mean L2 distances to the truth, in two versions, both with exact draws (the paper uses 1000 steps of a
random walk that moves one coordinate at a time).

*The paper's version is not private.* It divides the response by the largest abs(Y) of the data, which is one person's
value. Its exponential mechanism has twice the necessary sensitivity; it is drawn with this sensitivity, and with the
tight one. Its sensitivity of the score is valid for tau up to 1/2 if a row is replaced; an added or removed row changes
the score by half as much.

*The honest version* is `dp_rq` with a public bound of 6; one response in 2e7 lies beyond the bound and is clipped.

Targets, from n = 1e4 on: the error of KNG, in every version, is at most 3 % above the non-private error on the same
rows, up to chance (one-sided Student test at level .01); the error of the exponential mechanism with the paper's
sensitivity is at least twice the non-private error, because its noise is of the order of the sampling error.

    python benchmarks/kng_figure2.py --seed 1 [--replicates 100] [--n 100 ...] [--plot PATH]
"""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from tabulate import tabulate

import privstats as ps
from benchmarks.common import arguments, new_figure, save, verdict
from privstats.mechanisms.quantile_regression.minimise import Target, minimise
from privstats.mechanisms.quantile_regression.rejection import sample_boxes
from privstats.privacy.promise import Neighbors
from privstats.sets.losses import CheckLosses

EPS, TAU, B, R = 1.0, 0.5, 1.0, 6.0
TRUTH = np.array([0.0, 1.0])
SURE = 0.99  # confidence that a miss is not due to chance
FREE = 50.0  # radius of a parameter set that does not restrict the minimiser
SIZES = (10, 100, 1000, 10_000, 100_000)
FEWER, AIM = 100_000, 10_000  # from FEWER rows on, a third of the replicates is run; from AIM rows on, targets apply
ORDINARY, CRUDE, TIGHT, REPLACE, ADD = (
    "non-private",
    "exp mech, paper's",
    "exp mech, tight",
    "KNG replace",
    "KNG add/rm",
)
METHODS = {"paper": (CRUDE, TIGHT, REPLACE, ADD), "honest": (TIGHT, REPLACE, ADD)}
STYLES = {ORDINARY: "k-", CRUDE: "C3s--", TIGHT: "C1s-", REPLACE: "C0o-", ADD: "C2o-"}
DOMAIN = ps.Domain({"x": (-1, 1), "y": (-R, R)}, complete=True)
Errors = dict[str, dict[str, np.ndarray]]  # L2 distances to the truth by version and method, one for each replicate


def draw(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw n rows by the paper's Algorithm 1: predictors, shape (n, 2), and responses."""
    x = np.column_stack([np.ones(n), rng.uniform(-1, 1, n)])
    return x, x @ TRUTH + rng.standard_normal(n)


def scaled_by_data(method: str, x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the paper's estimate, which is scaled by the largest abs(y) of the data and not private."""
    largest = float(np.abs(y).max())
    relation = Neighbors("add_remove" if method == ADD else "replace").relation(folded=False, may_be_absent=False)
    loss = method in (CRUDE, TIGHT)
    one = CheckLosses(2, TAU, B).sensitivity("loss" if loss else "score linf", relation)
    size = one.size * (2 if method == CRUDE else 1)
    target = Target(x, y / largest, TAU, B, EPS / (2 * size), "loss" if loss else "linf")
    return largest * sample_boxes(rng, target)


def by_front_door(method: str, x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the coefficients of a fit by dp_rq."""
    fit = ps.dp_rq(
        "y ~ x",
        pd.DataFrame({"x": x[:, 1], "y": y}),
        EPS,
        tau=TAU,
        mech="expmech" if method == TIGHT else "kng",
        neighbors="add_remove" if method == ADD else "replace",
        domain=DOMAIN,
        inference="none",
        theta_bound=B,
        rng=rng,
    )
    return fit.params.to_numpy()


def errors(n: int, replicates: int, seed: int) -> tuple[Errors, dict[str, float]]:
    """Return L2 distances to the truth by version and method, and milliseconds for a release by version."""
    rng = np.random.default_rng([seed, n])
    found: dict[str, dict[str, list[float]]] = {version: {} for version in METHODS}
    seconds = dict.fromkeys(METHODS, 0.0)
    for _ in range(replicates):
        x, y = draw(n, rng)
        ordinary = float(np.linalg.norm(minimise(x, y, TAU, FREE) - TRUTH))
        for version, release in (("paper", scaled_by_data), ("honest", by_front_door)):
            found[version].setdefault(ORDINARY, []).append(ordinary)
            start = time.perf_counter()
            for method in METHODS[version]:
                distance = float(np.linalg.norm(release(method, x, y, rng) - TRUTH))
                found[version].setdefault(method, []).append(distance)
            seconds[version] += time.perf_counter() - start
    arrays = {version: {name: np.array(some) for name, some in by.items()} for version, by in found.items()}
    return arrays, {name: 1000 * spent / replicates / len(METHODS[name]) for name, spent in seconds.items()}


def misses(n: int, found: Errors) -> list[str]:
    """Return the missed targets at n rows."""
    missed = []
    for version, by_method in found.items() if n >= AIM else ():
        ordinary = by_method[ORDINARY]
        for name in (REPLACE, ADD):
            above = by_method[name] - ordinary
            doubt = above.std(ddof=1) / math.sqrt(len(above)) * stats.t.ppf(SURE, len(above) - 1)
            room = 0.03 * ordinary.mean() + doubt
            if not above.mean() <= room:
                missed.append(f"n = {n}, {version}: {name} is {above.mean():.2g} > {room:.2g} above no privacy")
        if version == "paper" and by_method[CRUDE].mean() < 2 * ordinary.mean():
            missed.append(f"n = {n}: the paper's exponential mechanism is not twice as bad as no privacy")
    return missed


def plot(cells: dict[int, Errors], path: Path) -> None:
    """Draw mean distances to the truth against n, for both versions."""
    figure, panels = new_figure(2)
    titles = ("paper: scaled by max abs(Y), not private", f"honest: abs(Y) <= {R:g} public, dp_rq")
    for panel, version, title in zip(panels, METHODS, titles, strict=True):
        for name in (ORDINARY, *METHODS[version]):
            means = [cells[n][version][name].mean() for n in cells]
            panel.loglog(list(cells), means, STYLES[name], markersize=4, label=name)
        panel.set_title(title, fontsize=10)
        panel.set_xlabel("n")
    panels[0].set_ylabel("mean L2 distance to the truth")
    panels[0].legend(fontsize=8)
    save(figure, path)


def main() -> int:
    """Print the tables, draw the figure and return the exit status."""
    parser = arguments(__doc__, replicates=100, figure="kng_figure2")
    parser.add_argument("--n", type=int, nargs="*", default=SIZES)
    options = parser.parse_args()
    cells, times, missed = {}, [], []
    for n in options.n:
        replicates = options.replicates if n < FEWER else max(10, options.replicates // 3)
        cells[n], spent = errors(n, replicates, options.seed)
        times.append((n, replicates, *(f"{spent[version]:.3g}" for version in METHODS)))
        missed += misses(n, cells[n])
    print(
        f"eps = {EPS:g}, tau = {TAU:g}, {options.replicates} replicates (a third at n = {FEWER}), seed {options.seed}"
    )
    for version, methods in METHODS.items():
        print(f"\nmean L2 distance to the truth, {version} version (its Monte Carlo error)")
        rows = [(n, *(_cell(cells[n][version][name]) for name in (ORDINARY, *methods))) for n in cells]
        print(tabulate(rows, ("n", ORDINARY, *methods), disable_numparse=True))
    print("\nmilliseconds a release")
    print(tabulate(times, ("n", "replicates", *METHODS), disable_numparse=True))
    plot(cells, options.plot)
    return verdict(missed)


def _cell(distances: np.ndarray) -> str:
    return f"{distances.mean():.3g} ({distances.std(ddof=1) / math.sqrt(len(distances)):.2g})"


if __name__ == "__main__":
    sys.exit(main())
