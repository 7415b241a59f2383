"""Cost of fits to rows in parts: passes over the rows, bytes of messages, and time by the number of parts.

In a pass a message is sent to each part of the rows, and each part returns its answer, such as a sum. All parts are
processed in this process, one after the other, so the processor time is the time of the package alone, without a
scheduler (`benchmarks.clusters` uses a scheduler). Targets: the numbers of passes and of bytes in
`docs/guides/scale.md` are the numbers counted here; with `MANY` parts instead of `FEW`, the same rows take at most
`TASK` more seconds for each further part and pass.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m benchmarks.passes --seed 1 [--n 500000] [--rows 1000000000000]
"""

from __future__ import annotations

import argparse
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tabulate import tabulate

import privstats as ps
from benchmarks.common import verdict
from benchmarks.sources import DOMAIN, FORMULA, GROUPS, drawn
from privstats.errors import PrivacyError
from privstats.gate.parts import Answer, RowPart, Work

PAGE = Path(__file__).parents[1] / "docs" / "guides" / "scale.md"
PARTS, FEW, MANY = 8, 10, 1000
TASK = 0.004  # largest time in seconds for each part and pass, in addition to the time for the rows
HEADS = ("call", "passes", "sent to a part", "largest answer of a part")
KNOWN = {**DOMAIN, "b": bool, "g": GROUPS}
BUDGET: dict[str, Any] = {"mu": 1.0, "domain": KNOWN, "rng": 1}
CALLS: dict[str, Callable[..., Any]] = {
    "dp_lm, moments": lambda data: ps.dp_lm(FORMULA, data, mech="suffstats", **BUDGET),
    "dp_lm, steps": lambda data: ps.dp_lm(FORMULA, data, mech="newton", **BUDGET),
    "dp_lm, Huber": lambda data: ps.dp_lm(FORMULA, data, loss="huber", **BUDGET),
    "dp_glm, binomial": lambda data: ps.dp_glm("b ~ x1 + x2", data, **BUDGET),
    "dp_glm, minimiser under eps": lambda data: ps.dp_glm("b ~ x1 + x2", data, 1.0, domain=KNOWN, rng=1),
    "dp_lm, minimiser under eps": lambda data: ps.dp_lm(FORMULA, data, 1.0, domain=KNOWN, mech="objpert", rng=1),
    "dp_rq": lambda data: ps.dp_rq("y ~ x1 + x2", data, **BUDGET),
    "dp_rq, three quantiles": lambda data: ps.dp_rq("y ~ x1 + x2", data, tau=[0.1, 0.5, 0.9], **BUDGET),
    "dp_mean": lambda data: ps.dp_mean("y", data, **BUDGET),
    "dp_mean, 100 groups": lambda data: ps.dp_mean("y ~ g", data, **BUDGET),
    "dp_median": lambda data: ps.dp_median("y", data, **BUDGET),
    "dp_quantile, three": lambda data: ps.dp_quantile("y", data, q=[0.1, 0.5, 0.9], **BUDGET),
    "dp_hist, 20 bins": lambda data: ps.dp_hist("y", data, bins=20, **BUDGET),
}


@dataclass(eq=False)
class InParts:
    """Source of rows in parts, which are processed in this process. The sizes of messages and answers are counted."""

    frames: Sequence[pd.DataFrame]
    in_memory = False

    def __post_init__(self) -> None:
        self.loaded = [RowPart(frame) for frame in self.frames]
        self.n, self.parts = sum(map(len, self.frames)), len(self.frames)
        self.passes = self.sent = self.largest = 0

    def head(self) -> pd.DataFrame:
        """Return an empty frame with the columns of the rows."""
        return self.frames[0].iloc[:0]

    def batches(self, names: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """Raise an error, because a part returns sums of its rows, and never the rows."""
        raise PrivacyError("this process does not read rows of a cluster; ask for sums")

    def each(self, work: Work, told: Callable[[int], None] | None = None) -> Iterator[Answer]:
        """Yield the answer of each part."""
        self.passes += 1
        self.sent += len(pickle.dumps(work))
        for number, part in enumerate(self.loaded):
            answer = work(number, part)
            self.largest = max(self.largest, len(pickle.dumps(answer)))
            yield answer


def in_parts(data: pd.DataFrame, parts: int) -> InParts:
    """Return the rows split into `parts` parts."""
    return InParts([data.iloc[some] for some in np.array_split(np.arange(len(data)), parts)])


def rounded(size: float) -> str:
    """Return a size as text with one significant digit: answers differ by some bytes from fit to fit."""
    for unit in ("B", "kB", "MB"):
        if size < 950:
            return f"{float(f'{size:.1g}'):g} {unit}"
        size /= 1000
    return f"{float(f'{size:.1g}'):g} GB"


def counted(data: pd.DataFrame, name: str) -> tuple[str, ...]:
    """Return the name of a call, its number of passes, the bytes sent to a part, and the size of the largest answer."""
    rows = in_parts(data, PARTS)
    CALLS[name](rows)
    return name, str(rows.passes), rounded(rows.sent), rounded(rows.largest)


def written(line: Sequence[str]) -> str:
    """Return the texts `line` as a line of the table in docs/guides/scale.md."""
    return "| " + " | ".join(line) + " |"


def seconds(call: Callable[[Any], Any], rows: Any) -> float:
    """Return the processor time of a call, the smaller of two measurements."""
    taken = []
    for _ in range(2):
        start = time.process_time()
        call(rows)
        taken.append(time.process_time() - start)
    return min(taken)


def growth(data: pd.DataFrame) -> list[str]:
    """Print processor time by the number of parts, and return the missed targets."""
    missed, lines = [], []
    for name in ("dp_lm, moments", "dp_lm, steps", "dp_median"):
        taken = {}
        for parts in (1, FEW, MANY // 10, MANY):
            rows = in_parts(data, parts)
            taken[parts] = seconds(CALLS[name], rows)
        passes = rows.passes / 2
        each = (taken[MANY] - taken[FEW]) / ((MANY - FEW) * passes)
        lines.append([name, *(f"{second:.2f}" for second in taken.values()), f"{1000 * each:.2f}"])
        if each > TASK:
            missed.append(f"{name}: {1000 * each:.1f} ms for each part and pass, not {1000 * TASK:.0f}")
    heads = ["seconds by parts", *(f"{parts}" for parts in taken), "ms a part and pass"]
    print(tabulate(lines, heads, disable_numparse=True) + "\n")
    return missed


def on_paper(data: pd.DataFrame, rows: float) -> None:
    """Print the time for a larger number of rows, extrapolated from the measured rows."""
    lines = []
    for name in ("dp_lm, moments", "dp_lm, steps", "dp_glm, binomial", "dp_median"):
        each = seconds(CALLS[name], in_parts(data, PARTS)) / len(data)
        lines.append([name, f"{1e9 * each:.0f}", f"{each * rows / 3600:,.0f}", f"{each * rows / 1000 / 60:,.0f}"])
    print(f"{rows:.0e} rows, by the time of {len(data):,}")
    print(tabulate(lines, ["call", "ns a row", "core hours", "minutes on 1,000 cores"], disable_numparse=True))


def main() -> int:
    """Print the tables and return whether a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--n", type=int, default=500_000)
    parser.add_argument("--rows", type=float, default=1e12)
    options = parser.parse_args()
    data = drawn(options.n, np.random.default_rng(options.seed))
    lines = [counted(data, name) for name in CALLS]
    print("\n".join((written(HEADS), written(["---"] * len(HEADS)), *map(written, lines))) + "\n")
    page = PAGE.read_text()
    missed = [f"docs/guides/scale.md does not say: {written(line)}" for line in lines if written(line) not in page]
    missed += growth(data)
    on_paper(data, options.rows)
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
