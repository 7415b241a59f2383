"""Time of means and medians by 100 groups of a million rows, beside the mean of each group by pandas.

All read the same rows in the same process, in turn, and processor time is compared: the least of the rounds, as other
work on the machine only adds to it. Targets: noisy sums take at most 5 times and medians with
intervals at most 15 times as long as pandas' means of a category column; where the groups are texts, in any type that
pandas has here for them, sums take at most 2 times as long as where they are categories.

    python -m benchmarks.speed_groups --seed 1 [--n 1000000] [--replicates 7]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec

import numpy as np
import pandas as pd

import privstats as ps
from benchmarks.common import arguments, verdict

LEVELS = [f"level {k}" for k in range(100)]
DOMAIN = {"y": (0, 1), "g": LEVELS}
MEANS, MEDIANS, TEXT = 5.0, 15.0, 2.0


def columns(n: int, seed: int) -> dict[str, pd.Series]:
    """Return groups by the type of their column; each cell a text of its own, as readers of files make them."""
    codes = np.random.default_rng([seed, n]).integers(0, len(LEVELS), n)
    texts = np.array([f"level {code}" for code in codes.tolist()], dtype=object)
    typed = {
        "category": pd.Series(pd.Categorical.from_codes(codes, LEVELS)),
        "object": pd.Series(texts, dtype=object),
        "text": pd.Series(texts, dtype="string[python]"),
    }
    if find_spec("pyarrow"):
        typed["text in Arrow"] = pd.Series(texts, dtype="string[pyarrow]")
    return typed


def least(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the least processor time of each call, in turn; the first round is not counted."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, call in calls.items():
            start = time.process_time()
            call()
            times[name].append(time.process_time() - start)
    return {name: min(some[1:]) for name, some in times.items()}


def ratios(n: int, seed: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Return each ratio of times with its target."""
    y = np.random.default_rng([seed, n, 1]).uniform(0, 1, n)
    frames = {name: pd.DataFrame({"y": y, "g": groups}) for name, groups in columns(n, seed).items()}

    def mean(data: pd.DataFrame) -> Callable[[], object]:
        return lambda: ps.dp_mean("y ~ g", data, 1.0, domain=DOMAIN, mech="laplace")

    category = frames["category"]
    calls = {name: mean(data) for name, data in frames.items()}
    calls["median"] = lambda: ps.dp_median("y ~ g", category, 1.0, domain=DOMAIN)
    calls["pandas"] = lambda: category.groupby("g", observed=True)["y"].mean()
    took = least(calls, rounds)
    of_types = {f"means, {name} / category": (took[name] / took["category"], TEXT) for name in frames}
    return {
        "means / pandas": (took["category"] / took["pandas"], MEANS),
        "medians / pandas": (took["median"] / took["pandas"], MEDIANS),
        **{name: of for name, of in of_types.items() if not name.startswith("means, category")},
    }


def main() -> int:
    """Print the ratios and return whether a target is missed."""
    parser = arguments(__doc__, replicates=7)
    parser.add_argument("--n", type=int, default=1_000_000)
    options = parser.parse_args()
    found = ratios(options.n, options.seed, options.replicates)
    for name, (ratio, most) in found.items():
        print(f"{name}: {ratio:.2f} times as long (at most {most:g})")
    return verdict([name for name, (ratio, most) in found.items() if ratio > most])


if __name__ == "__main__":
    sys.exit(main())
