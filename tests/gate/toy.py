"""A small design, row functions and mechanisms for tests of the gate."""

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from privstats.formula.domain import Domain
from privstats.gate.gate import Gate, Planned
from privstats.gate.rows import BlockRows
from privstats.gate.sources import source_of
from privstats.mechanisms.random import streams
from privstats.numerics.exact import Total
from privstats.privacy.promise import Neighbors, PureDP
from privstats.privacy.release import Release


@dataclass(frozen=True, eq=False)
class Block:
    """Rows with numbers x, y in [-1, 1] and the code of a group."""

    present: np.ndarray
    numbers: np.ndarray
    codes: tuple
    weights: None = None
    shared: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Toy:
    """Design with numbers x, y in [-1, 1] and levels g; rows with missing values do not count, unless `complete`."""

    complete: bool = False
    reads: tuple = ("x", "y", "g")
    half: float = 1.0
    domain = Domain({"g": ["a", "b"]})

    def block(self, columns):
        numbers = np.column_stack([np.asarray(columns[name], dtype=float) for name in ("x", "y")]) / self.half
        group = np.array([{"a": 0, "b": 1}.get(name, -1) for name in columns["g"]])
        present = (~np.isnan(numbers).any(axis=1) & (group >= 0)) | self.complete
        numbers = np.rint(np.clip(np.nan_to_num(numbers), -1, 1) * 2.0**21) / 2.0**21
        return Block(present, np.where(present[:, None], numbers, 0.0), (np.maximum(group, 0),))

    def draw(self, n, rng):
        return pd.DataFrame(
            {
                "x": rng.uniform(-1, 1, n),
                "y": rng.uniform(-1, 1, n),
                "g": np.where(rng.uniform(0, 1, n) < 0.5, "a", "b"),
            }
        )


@dataclass(frozen=True)
class XY:
    """Row function: the numbers x and y of a row, times a factor."""

    times: float = 1.0

    def __call__(self, block):
        return self.times * block.numbers


@dataclass(frozen=True)
class X:
    def __call__(self, block):
        return block.numbers[:, :1]


@dataclass(frozen=True)
class One:
    """Row function: the same number for each row, in `width` columns."""

    width: int = 1
    value: float = 1.0

    def __call__(self, block):
        return np.full((len(block.present), self.width), self.value)


@dataclass(frozen=True)
class Group:
    """Row function: the code of a row's group, followed by the row's numbers if `numbers` is True."""

    numbers: bool = False

    def __call__(self, block):
        return np.column_stack([block.codes[0], *([block.numbers] if self.numbers else [])]).astype(float)


@dataclass(frozen=True)
class Above:
    """Filter of rows: whether x is above the limit `least`."""

    least: float

    def __call__(self, block):
        return block.numbers[:, 0] > self.least


@dataclass(frozen=True)
class Fails:
    """Row function that raises an error with a row's value in its text."""

    def __call__(self, block):
        raise ValueError(f"secret {block.numbers[0]}")


@dataclass(frozen=True)
class Exactly:
    """A mechanism for tests only: it releases the exact answer, and records its inputs in `heard`."""

    label: str = "exactly"
    heard: list = field(default_factory=list, compare=False)

    def law(self, promise, within, relation):
        return promise, relation

    def release(self, name, exact, promise, within, relation, rng):
        self.heard.append((name, exact, promise, relation))
        value = exact.value() if isinstance(exact, Total) else exact.all().ravel()
        return Release(name, value + 0 * rng.uniform(0, 1, 1), None, promise, within)


TOLD = Exactly()


def frame(n=500, seed=0, missing=True):
    """Return n rows, of which some have numbers out of range, missing numbers, or no declared group."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"x": rng.normal(0, 1, n), "y": rng.normal(0, 0.3, n), "g": rng.choice(["a", "b", "c"], n)})
    data["x"] = data["x"].astype(float)
    if missing:
        data.loc[::7, "x"] = np.nan
    return data


def rows_of(data, neighbors=None, design=None):
    """Return the rows of a frame, of a function that makes batches, or of a source, as the gate reads them."""
    return BlockRows(source_of(data), design or Toy(), neighbors or Neighbors(), b"key")


def planned(question, by=TOLD, branch=None, eps=1.0, **more):
    """Return a query as an entry of a plan."""
    return Planned(question.label, question.name, question.kind, by, branch, PureDP(eps), **more)


def gate_of(*questions, data=None, neighbors=None, design=None, seed=5):
    """Return a gate for rows in memory, whose plan consists of these queries."""
    data = frame() if data is None else data
    plan = [question if isinstance(question, Planned) else planned(question) for question in questions]
    return Gate(rows_of(data, neighbors, design), plan, streams(seed, "digest"))


def in_batches(data, size):
    """Return a function that yields the rows in frames of the given size, again at each call."""
    return lambda: (data.iloc[start : start + size] for start in range(0, len(data), size))


def at(question, **changes):
    """Return a copy of a query with other values of some fields."""
    return replace(question, **changes)
