"""Coverage and length of 95 % intervals of dp_lm, on the design of Figure 3 of Awan and Slavkovic (2021).

The model has p = 5 predictors U(-1, 1), coefficients (.5; -1, -.5, 0, .5, 1), N(0, 1) errors, and bounds (-6, 6) of the
response. Let kappa be the ratio of privacy noise to information in the direction with the least information, as
computed from the fit's releases (`noise_to_signal` in `fit.diagnostics`, median over replicates). Targets: if kappa is
at most .4, the mean coverage is in [.93, .97] and each coefficient's coverage is within 3.5 Monte Carlo standard errors
of .95, where a missing interval (NaN) counts as a miss; otherwise the mean coverage of given intervals is at least .93.
If all intervals are given, the median length of the slopes' intervals is at most 1.1 times the median length of a
reference implementation of the same method (numbers in `METHODS`).

    python benchmarks/coverage_lm.py --seed 1 [--method matrixt] [--replicates 300] [--n 500 2000 ...]
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from tabulate import tabulate

import privstats as ps

SLOPES = np.linspace(-1, 1, 5)
TRUTH = np.array([0.5, *SLOPES])
NAMES = [f"x{j}" for j in range(1, 6)]
FORMULA = "y ~ " + " + ".join(NAMES)
DOMAIN = ps.Domain({**dict.fromkeys(NAMES, (-1, 1)), "y": (-6, 6)})
SIZES, BUDGETS = (500, 2000, 10_000, 100_000), (0.25, 1.0, 4.0)
CELLS = [(n, eps) for n in SIZES for eps in BUDGETS]


def _column(*lengths: float) -> dict[tuple[int, float], float]:
    return dict(zip(CELLS, lengths, strict=True))


# By method: options of dp_lm, and median interval lengths by (n, eps) of a reference implementation, which computes
# variances under homoskedasticity.
METHODS: dict[str, tuple[dict[str, Any], dict[tuple[int, float], float]]] = {
    "matrixt": (
        {"noise": "matrixt", "mech": "suffstats", "cov_type": "nonrobust"},
        _column(8.3, 5.2, 0.965, 5.3, 0.907, 0.265, 0.712, 0.187, 0.0803, 0.0732, 0.0274, 0.0219),
    ),
    "linf": (
        {"noise": "linf", "mech": "suffstats", "cov_type": "nonrobust"},
        _column(13.5, 7.0, 1.18, 6.8, 1.16, 0.323, 0.897, 0.236, 0.0901, 0.0922, 0.0316, 0.0223),
    ),
    "hull": (
        {"noise": "hull", "mech": "suffstats", "cov_type": "nonrobust"},
        _column(12.5, 6.5, 1.17, 6.6, 1.12, 0.317, 0.879, 0.230, 0.0887, 0.0890, 0.0311, 0.0222),
    ),
    "kng": (
        {"mech": "kng", "theta_bound": 1.0},
        _column(6.4, 4.9, 2.14, 4.9, 2.07, 0.460, 1.52, 0.351, 0.110, 0.138, 0.0405, 0.0231),
    ),
    "objpert": (
        {"mech": "objpert", "theta_bound": 1.0, "split": 0.9},
        _column(3.6, 2.7, 1.22, 2.7, 1.16, 0.287, 0.842, 0.203, 0.0833, 0.0789, 0.0287, 0.0220),
    ),
}


@dataclass(frozen=True)
class Cell:
    """Coverage and length of the intervals over the replicates of one cell of the design."""

    coverage: np.ndarray  # coverage of each coefficient; a missing interval is a miss if kappa <= .4, else left out
    length: float  # median length of the intervals over slopes and replicates
    kappa: float  # median ratio of noise to information
    replicates: int
    given: float  # share of intervals that are not NaN

    def misses(self, reference: float) -> list[str]:
        """Return the targets this cell misses."""
        error = math.sqrt(0.95 * 0.05 / self.replicates)
        found = []
        mean = np.nanmean(self.coverage) if self.given else 1.0
        if self.kappa <= 0.4:
            if not 0.93 <= mean <= 0.97:
                found.append(f"mean coverage {mean:.3f}")
            if (abs(self.coverage - 0.95) > 3.5 * error).any():
                found.append(f"a coefficient's coverage {self.coverage.round(3)}")
        elif mean < 0.93:
            found.append(f"mean coverage {mean:.3f}")
        if not self.length <= 1.1 * reference and self.given == 1:
            found.append(f"length {self.length:.3g} > 1.1 x {reference:.3g}")
        return found


def cell(n: int, eps: float, method: str, replicates: int, seed: int) -> Cell:
    """Fit `replicates` simulated data sets; return the coverage and the length of the intervals."""
    rng = np.random.default_rng([seed, n, round(1000 * eps)])
    covered, lengths, kappas, given = [], [], [], []
    for _ in range(replicates):
        X = rng.uniform(-1, 1, (n, 5))
        data = pd.DataFrame(X, columns=NAMES).assign(y=0.5 + X @ SLOPES + rng.standard_normal(n))
        fit = ps.dp_lm(
            FORMULA,
            data,
            eps,
            domain=DOMAIN,
            rng=rng,
            **(METHODS[method][0] if method in METHODS else {"noise": method}),
        )
        interval = fit.conf_int().to_numpy()
        covered.append((interval[:, 0] <= TRUTH) & (interval[:, 1] >= TRUTH))
        lengths.append((interval[:, 1] - interval[:, 0])[1:])
        known = fit.diagnostics
        kappas.append(max(known["noise_to_signal"], known.get("noise_to_signal_unidentified", 0.0)))
        given.append(~np.isnan(interval[:, 0]))
    kappa, right, there = float(np.median(kappas)), np.array(covered), np.array(given)
    if kappa > 0.4:
        counts = there.sum(axis=0)
        coverage = np.where(counts > 0, (right & there).sum(axis=0) / np.maximum(counts, 1), np.nan)
    else:
        coverage = right.mean(axis=0)
    found = np.array(lengths)[there[:, 1:]]
    length = float(np.median(found)) if found.size else math.nan
    return Cell(coverage, length, kappa, replicates, float(there.mean()))


def main() -> int:
    """Print the table and return the number of cells that miss a target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--method", default="matrixt", choices=METHODS)
    parser.add_argument("--replicates", type=int, default=300)
    parser.add_argument("--n", type=int, nargs="*", default=SIZES)
    options = parser.parse_args()
    rows, missed = [], 0
    for n in options.n:
        for eps in BUDGETS:
            start = time.perf_counter()
            result = cell(n, eps, options.method, options.replicates, options.seed)
            misses = result.misses(METHODS[options.method][1][n, eps])
            missed += bool(misses)
            row = (
                n,
                eps,
                f"{result.kappa:.2f}",
                f"{result.given:.2f}",
                f"{result.coverage.mean():.3f}",
                f"{result.coverage.min():.3f}",
            )
            length = (
                f"{result.length:.3g}",
                f"{METHODS[options.method][1][n, eps]:.3g}",
                f"{time.perf_counter() - start:.0f} s",
            )
            rows.append((*row, *length, "; ".join(misses) or "met"))
    header = ("n", "eps", "kappa", "given", "coverage", "lowest", "length", "reference", "time", "targets")
    print(f"{options.method}, {options.replicates} replicates, seed {options.seed}")
    print(tabulate(rows, header, disable_numparse=True))
    return missed


if __name__ == "__main__":
    sys.exit(min(main(), 1))
