"""Logistic regression by dp_glm and by diffprivlib: distance to the fit without privacy, coverage and time.

X ~ U(-1, 1)^p, slopes from -1 to 1, intercept 0; pure eps, one row replaced, bounds known. All methods get the same
data sets, and nothing is tuned. "dp_glm" has intervals, included in its budget and time; "alone" is `inference="none"`.
diffprivlib is run with its default C = 1 and with C = .1; its bound of the rows' l2 norm is sqrt(p), which no row
exceeds.

Targets at p = 5 and eps = 1: the median distance of dp_glm with intervals is below .082 at n = 1e4 and .0084 at n =
1e5, and below the distance of diffprivlib; a fit of 1e5 rows and p = 6 takes less than half a second (median).

    python -m benchmarks.peers_logistic --seed 1 [--replicates 40] [--peers-python PATH] [--n 1000 ...]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy.special import expit
from tabulate import tabulate

import privstats as ps
from benchmarks.common import arguments, verdict
from benchmarks.peers_linear import Fit, Fitted, PeerError, Runs, Sample, peers_python

MINE, ALONE, PEERS = "dp_glm", "alone", {"diffprivlib C=1": None, "diffprivlib C=.1": 0.1}
SIZES, BUDGETS, P = (1000, 10_000, 100_000), (0.1, 1.0, 4.0), 5
TARGETS = {10_000: 0.082, 100_000: 0.0084}
FAST, TIMED = 0.5, (100_000, 6)
WORKER = Path(__file__).with_name("peers_logistic_worker.py")


def draw(n: int, p: int, rng: np.random.Generator) -> Sample:
    """Draw a data set of a logistic regression."""
    X, slopes = rng.uniform(-1, 1, (n, p)), np.linspace(-1, 1, p)
    y = (rng.uniform(size=n) < expit(X @ slopes)).astype(float)
    return Sample(X, y, np.array([0.0, *slopes]), 1.0)


def without_privacy(sample: Sample) -> np.ndarray:
    """Return the maximum likelihood estimate."""
    return sm.Logit(sample.y, sm.add_constant(sample.X)).fit(disp=0).params


def privately(**options: Any) -> Fit:
    """Return the fit by dp_glm with these options."""

    def fit(sample: Sample, eps: float, rng: np.random.Generator) -> Fitted:
        names = [f"x{j + 1}" for j in range(sample.X.shape[1])]
        data = pd.DataFrame(sample.X, columns=names).assign(y=sample.y)
        domain = {**dict.fromkeys(names, (-1, 1)), "y": (0, 1)}
        start = time.perf_counter()
        result = ps.dp_glm("y ~ " + " + ".join(names), data, eps, domain=domain, rng=rng, **options)
        theta = result.params.to_numpy()
        seconds = time.perf_counter() - start
        if options:
            return Fitted(theta, seconds)
        interval = result.conf_int().to_numpy()
        return Fitted(theta, seconds, (interval[:, 0] <= sample.truth) & (sample.truth <= interval[:, 1]))

    return fit


@contextmanager
def by_diffprivlib(chosen: str | None) -> Iterator[tuple[dict[str, Fit], str]]:
    """Start the worker process; yield its fits and its package versions, or no fits and the reason of a failure."""
    try:
        command = [peers_python(chosen), str(WORKER)]
        worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    except (OSError, subprocess.SubprocessError) as failure:
        lines = (getattr(failure, "stderr", None) or str(failure)).strip().splitlines()
        yield {}, f"not installed: {lines[-1] if lines else type(failure).__name__}"
        return
    assert worker.stdin is not None
    assert worker.stdout is not None
    hears, says = worker.stdin, worker.stdout
    with worker, tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "sample.npz")

        def fit(sample: Sample, eps: float, rng: np.random.Generator, C: float | None) -> Fitted:
            np.savez(path, X=sample.X, y=sample.y)
            norm, seed = float(np.sqrt(sample.X.shape[1])), int(rng.integers(2**31))
            hears.write(json.dumps({"data": path, "eps": eps, "norm": norm, "C": C, "seed": seed}) + "\n")
            hears.flush()
            answer = json.loads(says.readline() or '{"error": "the worker has stopped"}')
            if "error" in answer:
                raise PeerError(answer["error"])
            return Fitted(np.array(answer["theta"]), answer["seconds"])

        greeting = json.loads(says.readline() or '{"error": "the worker does not start"}')
        if "error" in greeting:
            yield {}, f"not installed: {greeting['error']}"
        else:
            fits: dict[str, Fit] = {
                name: lambda sample, eps, rng, C=C: fit(sample, eps, rng, C)  # type: ignore[misc]
                for name, C in PEERS.items()
            }
            yield fits, ", ".join(f"{name} {version}" for name, version in greeting["versions"].items())
        hears.close()


def compare(fits: dict[str, Fit], n: int, replicates: int, seed: int) -> dict[float, dict[str, Runs]]:
    """Fit every method to the same data sets."""
    runs = {eps: {name: Runs() for name in ("MLE", *fits)} for eps in BUDGETS}
    rng = np.random.default_rng([seed, n])
    for _ in range(replicates):
        sample = draw(n, P, rng)
        ordinary = without_privacy(sample)
        for eps, row in runs.items():
            row["MLE"].errors.append(float(np.linalg.norm(ordinary - sample.truth)))
            for name, fit in fits.items():
                row[name].add(fit, sample, eps, rng, ordinary)
    return runs


def misses(n: int, runs: dict[float, dict[str, Runs]]) -> list[str]:
    """Return the missed targets at n rows."""
    if n not in TARGETS:
        return []
    mine, row = runs[1.0][MINE].error, runs[1.0]
    found = [] if mine < TARGETS[n] else [f"n = {n}: {mine:.3g} is not below {TARGETS[n]}"]
    return found + [
        f"n = {n}: {mine:.3g} is not below {name}" for name in PEERS if name in row and row[name].error <= mine
    ]


def main() -> int:
    """Print the tables and return the exit status."""
    parser = arguments(__doc__, replicates=40)
    parser.add_argument("--peers-python", help="of an environment with diffprivlib; by default one is made")
    parser.add_argument("--n", type=int, nargs="*", default=SIZES)
    options = parser.parse_args()
    fits, missed, cells = {MINE: privately(), ALONE: privately(inference="none")}, [], {}
    with by_diffprivlib(options.peers_python) as (peers, says):
        print(f"{options.replicates} replicates, seed {options.seed}; diffprivlib: {says}")
        for n in options.n:
            cells[n] = compare(fits | peers, n, options.replicates, options.seed)
            missed += misses(n, cells[n])
    names = [MINE, ALONE, *peers]
    rows = [(n, eps, *(f"{row[name].error:.3g}" for name in ("MLE", *names)), f"{np.mean(row[MINE].covers):.3f}")
            for n, runs in cells.items() for eps, row in runs.items()]  # fmt: skip
    print(f"\nmedian L2 distance to the fit without privacy ('MLE': of that to the truth), p = {P}")
    print(tabulate(rows, ("n", "eps", "MLE", *names, "coverage"), disable_numparse=True))
    rng = np.random.default_rng(options.seed)
    sample = draw(*TIMED, rng)
    spent = {name: float(np.median([fit(sample, 1.0, rng).seconds for _ in range(7)])) for name, fit in fits.items()}
    print(f"\nmedian seconds at n = {TIMED[0]}, p = {TIMED[1]}: " + ", ".join(f"{k} {v:.2f}" for k, v in spent.items()))
    missed += [f"{name} takes {taken:.2f} seconds" for name, taken in spent.items() if taken >= FAST]
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
