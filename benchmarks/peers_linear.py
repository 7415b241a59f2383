"""Linear regression by dp_lm and by other packages ("peers"): error, coverage and time on the same simulated data.

The peers are diffprivlib (functional mechanism, in a separate environment) and AdaSSP, which has the weaker guarantee
(eps, 1e-6). All other methods have pure eps. "The default" is dp_lm by noisy moments with noise="matrixt". Neighbours
differ in a replaced row, except in the column "AdaSSP": there a row is added or removed, as in its paper. Errors are
medians over replicates of the L2 distance of all coefficients, intercept included, in original units.

The grid: X ~ U(-1, 1), coefficients (0; p slopes from -1.5 to 1.5), N(0, 1) errors, response clipped to its declared
bounds; errors are distances to ordinary least squares without privacy. Target: for p = 5 and eps = 1, the error of the
default is at most 1.05, .105 and .0105 at n = 1e3, 1e4 and 1e5.

The signals: slopes from -1 to 1 and errors of standard deviation 1 ("weak") or .15 ("strong"); errors are distances to
the truth. Target: the error of the default is at most 1.1 times the error of a reference implementation.

    python benchmarks/peers_linear.py --seed 1 [--replicates 40] [--peers-python PATH] [--n 1000 ...] [--p 2 ...]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from tabulate import tabulate

import privstats as ps
from benchmarks.adassp import adassp

# theta_bound of kng and objpert: the default value; the smaller bound 1 would hold in every design, too
BOUND = 2.0
DEFAULT = "matrixt"
METHODS: dict[str, dict[str, Any]] = {
    DEFAULT: {"mech": "suffstats", "noise": "matrixt"},
    "linf": {"mech": "suffstats", "noise": "linf"},
    "kng": {"mech": "kng", "inference": "none", "theta_bound": BOUND},
    "objpert": {"mech": "objpert", "inference": "none", "theta_bound": BOUND},
}
PEERS = ("diffprivlib", "AdaSSP", "AdaSSP replace")
PINNED = ("diffprivlib==0.6.6", "scikit-learn==1.7.2")
DELTA = 1e-6
SIZES, BUDGETS = (1000, 10_000, 100_000), (0.1, 1.0, 4.0)
RESPONSE = {2: 6.0, 5: 6.0, 12: 10.0}  # bound of abs(y) by number of predictors, in the grid
# largest allowed error of `dp_lm` with its defaults, at p = 5 and eps = 1, by n
TARGETS = {1000: 1.05, 10_000: 0.105, 100_000: 0.0105}
# median errors of a reference implementation, by (p, signal, n, eps)
REFERENCE = {
    (5, "weak", 10_000, 0.25): 0.372, (5, "weak", 10_000, 1.0): 0.0929,
    (12, "weak", 10_000, 1.0): 0.466, (12, "weak", 100_000, 1.0): 0.0514,
    (5, "strong", 10_000, 1.0): 0.0568, (5, "strong", 100_000, 1.0): 0.0053,
    (12, "strong", 10_000, 1.0): 0.370, (12, "strong", 100_000, 1.0): 0.0360,
}  # fmt: skip
SHARPER = 4  # factor on the number of replicates for targets with a margin of 10 %
ROOT = Path(__file__).parents[1]
WORKER = Path(__file__).with_name("peers_worker.py")


class PeerError(Exception):
    """Error for a failed fit of a peer. The benchmark goes on without further fits of the peer in the same cell."""


class Fitted(NamedTuple):
    """Results of one fit: coefficients, run time, and results of intervals if there are any."""

    theta: np.ndarray
    seconds: float
    covers: np.ndarray | None = None  # whether each interval covers the truth
    lengths: np.ndarray | None = None  # lengths of the slopes' intervals


class Sample(NamedTuple):
    """One data set, its true coefficients, and the declared bound of its responses."""

    X: np.ndarray
    y: np.ndarray
    truth: np.ndarray
    bound: float  # declared bound of abs(y)

    def least_squares(self) -> np.ndarray:
        """Return the estimate without privacy."""
        return np.linalg.lstsq(with_ones(self.X), self.y, rcond=None)[0]


Fit = Callable[[Sample, float, np.random.Generator], Fitted]


def with_ones(X: np.ndarray) -> np.ndarray:
    """Return X with a column of ones before its columns."""
    return np.column_stack([np.ones(len(X)), X])


def draw(n: int, slopes: np.ndarray, sd: float, bound: float, rng: np.random.Generator) -> Sample:
    """Draw a data set without intercept, with the response clipped to its declared bounds."""
    X = rng.uniform(-1, 1, (n, len(slopes)))
    y = np.clip(X @ slopes + sd * rng.standard_normal(n), -bound, bound)
    return Sample(X, y, np.array([0.0, *slopes]), bound)


def grid(n: int, p: int, rng: np.random.Generator) -> Sample:
    """Draw a data set for the grid: slopes from -1.5 to 1.5, standard normal errors."""
    return draw(n, np.linspace(-1.5, 1.5, p), 1.0, RESPONSE[p], rng)


def signal(n: int, p: int, strength: str, rng: np.random.Generator) -> Sample:
    """Draw a data set with a weak or a strong signal; the response bound is tight if the signal is strong."""
    slopes = np.linspace(-1, 1, p)
    if strength == "weak":
        return draw(n, slopes, 1.0, {5: 6.0, 12: 8.0}[p], rng)
    return draw(n, slopes, 0.15, float(np.abs(slopes).sum()), rng)


def privately(promise: str = "eps", **options: Any) -> Fit:
    """Return the fit by dp_lm with these options; `promise`, "eps" or "mu", is the kind of its budget."""

    def fit(sample: Sample, budget: float, rng: np.random.Generator) -> Fitted:
        names = [f"x{j + 1}" for j in range(sample.X.shape[1])]
        data = pd.DataFrame(sample.X, columns=names).assign(y=sample.y)
        domain = {**dict.fromkeys(names, (-1, 1)), "y": (-sample.bound, sample.bound)}
        start = time.perf_counter()
        result = ps.dp_lm("y ~ " + " + ".join(names), data, domain=domain, rng=rng, **{promise: budget}, **options)
        theta = result.params.to_numpy()
        if options.get("inference") == "none":
            return Fitted(theta, time.perf_counter() - start)
        interval = result.conf_int().to_numpy()
        seconds = time.perf_counter() - start
        covers = (interval[:, 0] <= sample.truth) & (sample.truth <= interval[:, 1])
        return Fitted(theta, seconds, covers, np.diff(interval[1:], axis=1)[:, 0])

    return fit


def by_adassp(neighbors: str) -> Fit:
    """Return the fit by AdaSSP with an intercept; a row of predictors has norm at most sqrt(p + 1)."""

    def fit(sample: Sample, eps: float, rng: np.random.Generator) -> Fitted:
        start = time.perf_counter()
        X = with_ones(sample.X)
        theta = adassp(X, sample.y, eps, DELTA, (X.shape[1] ** 0.5, sample.bound), rng, neighbors)
        return Fitted(theta, time.perf_counter() - start)

    return fit


def peers_python(chosen: str | None) -> str:
    """Return the path of a Python with diffprivlib; by default its environment is made in .venv-peers."""
    if chosen:
        return chosen
    home = ROOT / ".venv-peers"
    python = home / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    if not (home / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True, capture_output=True, text=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1", *PINNED]
        subprocess.run(install, check=True, capture_output=True, text=True, timeout=900)
        (home / "complete").touch()
    return str(python)


@contextmanager
def by_diffprivlib(chosen: str | None) -> Iterator[tuple[Fit | None, str]]:
    """Start the worker process; yield its fit and its package versions, or None and the reason of a failure."""
    try:
        command = [peers_python(chosen), str(WORKER)]
        worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    except (OSError, subprocess.SubprocessError) as failure:
        lines = (getattr(failure, "stderr", None) or str(failure)).strip().splitlines()
        yield None, f"not installed: {lines[-1] if lines else type(failure).__name__}"
        return
    assert worker.stdin is not None
    assert worker.stdout is not None
    hears, says = worker.stdin, worker.stdout
    with worker, tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "sample.npz")

        def fit(sample: Sample, eps: float, rng: np.random.Generator) -> Fitted:
            np.savez(path, X=sample.X, y=sample.y)
            bounds = {"bounds_X": (-1, 1), "bounds_y": (-sample.bound, sample.bound)}
            request = {"data": path, "eps": eps, "seed": int(rng.integers(2**31)), **bounds}
            try:
                hears.write(json.dumps(request) + "\n")
                hears.flush()
            except OSError as failure:
                raise PeerError("the worker has stopped") from failure
            answer = json.loads(says.readline() or '{"error": "the worker has stopped"}')
            if "error" in answer:
                raise PeerError(answer["error"])
            return Fitted(np.array(answer["theta"]), answer["seconds"])

        greeting = json.loads(says.readline() or '{"error": "the worker does not start"}')
        if "error" in greeting:
            yield None, f"not installed: {greeting['error']}"
        else:
            yield fit, ", ".join(f"{name} {version}" for name, version in greeting["versions"].items())
        hears.close()


@dataclass
class Runs:
    """Results of a method in one cell, or the reason for which there are no results."""

    refused: str = ""
    errors: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    covers: list[np.ndarray] = field(default_factory=list)
    lengths: list[np.ndarray] = field(default_factory=list)

    @property
    def error(self) -> float:
        """Median error over replicates; NaN without replicates."""
        return float(np.median(self.errors)) if self.errors else float("nan")

    def add(self, fit: Fit, sample: Sample, eps: float, rng: np.random.Generator, wanted: np.ndarray) -> None:
        """Fit one more data set and keep the results, unless an earlier fit of the cell raised an error."""
        if self.refused:
            return
        try:
            fitted = fit(sample, eps, rng)
        except (ps.PrivstatsError, PeerError) as refusal:
            self.refused = str(refusal)
            return
        self.errors.append(float(np.linalg.norm(fitted.theta - wanted)))
        self.seconds.append(fitted.seconds)
        if fitted.covers is not None:
            self.covers.append(fitted.covers)
        if fitted.lengths is not None:
            self.lengths.append(fitted.lengths)


def compare_on_grid(fits: dict[str, Fit], options: argparse.Namespace) -> dict[tuple[int, int, float], dict[str, Runs]]:
    """Fit every method to the same data sets, cell by cell."""
    cells = {}
    for p in options.p:
        for n in options.n:
            runs = {eps: {name: Runs() for name in ("OLS", *fits)} for eps in BUDGETS}
            rng = np.random.default_rng([options.seed, n, p])
            for _ in range(options.replicates):
                sample = grid(n, p, rng)
                ordinary = sample.least_squares()
                for eps, row in runs.items():
                    row["OLS"].errors.append(float(np.linalg.norm(ordinary - sample.truth)))
                    for name, fit in fits.items():
                        row[name].add(fit, sample, eps, rng, ordinary)
            cells.update({(p, n, eps): row for eps, row in runs.items()})
    return cells


def show_grid(cells: dict[tuple[int, int, float], dict[str, Runs]], names: list[str]) -> list[str]:
    """Print error, coverage and time of each cell; return the missed targets."""
    show = {
        "median L2 distance to OLS ('OLS': of OLS to the truth)": lambda runs: f"{runs.error:.3g}",
        "coverage of 95 % intervals, mean over coefficients": lambda runs: f"{np.mean(runs.covers):.3f}",
        "median milliseconds": lambda runs: f"{1000 * np.median(runs.seconds):.3g}",
    }
    held = ("errors", "covers", "seconds")
    for (title, text), kept in zip(show.items(), held, strict=True):
        columns = [name for name in ("OLS", *names) if any(getattr(row[name], kept) for row in cells.values())]
        rows = [
            (p, n, eps, *(text(row[name]) if getattr(row[name], kept) else "-" for name in columns))
            for (p, n, eps), row in cells.items()
        ]
        print(f"\n{title}")
        print(tabulate(rows, ("p", "n", "eps", *columns), disable_numparse=True))
    for name in names:
        for why in dict.fromkeys(row[name].refused for row in cells.values() if row[name].refused):
            print(f"{name} refused: {why}")
    wanted = {n: target for n, target in TARGETS.items() if (5, n, 1.0) in cells}
    found = {n: cells[5, n, 1.0][DEFAULT].error for n in wanted}
    return [
        f"p = 5, n = {n}, eps = 1: {found[n]:.3g} is not at most {target}"
        for n, target in wanted.items()
        if not found[n] <= target
    ]


def compare_with_reference(options: argparse.Namespace) -> list[str]:
    """Print the errors of the default and of the reference implementation on the signals; return the missed targets."""
    rows, missed = [], []
    for (p, strength, n, eps), reference in REFERENCE.items():
        runs, ordinary = Runs(), []
        rng = np.random.default_rng([options.seed, p, n, round(1000 * eps), strength == "weak"])
        for _ in range(SHARPER * options.replicates):
            sample = signal(n, p, strength, rng)
            ordinary.append(float(np.linalg.norm(sample.least_squares() - sample.truth)))
            runs.add(privately(**METHODS[DEFAULT], inference="none"), sample, eps, rng, sample.truth)
        met = runs.error <= 1.1 * reference
        figures = (f"{np.median(ordinary):.3g}", f"{runs.error:.3g}", f"{reference:.3g}")
        rows.append((p, strength, n, eps, *figures, "met" if met else "missed"))
        if not met:
            missed.append(f"p = {p}, {strength}, n = {n}, eps = {eps}: {runs.error:.3g} > 1.1 x {reference:.3g}")
    print(f"\nmedian L2 distance of {DEFAULT} to the truth")
    print(tabulate(rows, ("p", "signal", "n", "eps", "OLS", DEFAULT, "reference", "target"), disable_numparse=True))
    return missed


def main() -> int:
    """Print the tables and return the number of missed targets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--replicates", type=int, default=40)
    parser.add_argument("--peers-python", help="of an environment with diffprivlib; by default one is made")
    parser.add_argument("--n", type=int, nargs="*", default=SIZES)
    parser.add_argument("--p", type=int, nargs="*", default=tuple(RESPONSE), choices=tuple(RESPONSE))
    options = parser.parse_args()
    fits = {name: privately(**arguments) for name, arguments in METHODS.items()}
    with by_diffprivlib(options.peers_python) as (diffprivlib, says):
        if diffprivlib is not None:
            fits[PEERS[0]] = diffprivlib
        fits |= {PEERS[1]: by_adassp("add_remove"), PEERS[2]: by_adassp("replace")}
        print(f"{options.replicates} replicates, seed {options.seed}; diffprivlib: {says}")
        missed = show_grid(compare_on_grid(fits, options), list(fits))
    missed += compare_with_reference(options)
    print("\n" + ("\n".join(f"missed: {target}" for target in missed) or "all targets met"))
    return len(missed)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
