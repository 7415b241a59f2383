"""A stand-in for the gate, the part of the package that reads data: it answers queries about rows in memory.

The rows are scaled numbers. Answers are exact sums plus the package's noise, at shares of a budget.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from privstats.estimators.base import PublicFacts
from privstats.gate.questions import Sum
from privstats.mechanisms.random import public_stream
from privstats.privacy.promise import Relation


@dataclass(frozen=True, eq=False)
class Block:
    z: np.ndarray
    weights: np.ndarray
    codes: tuple = ()
    shared: dict = field(default_factory=dict)

    @property
    def present(self):
        return np.ones(len(self.z), bool)

    @property
    def weight(self):
        return self.weights

    @property
    def response(self):
        return self.z[:, -1]

    def times(self, matrix):
        return self.z @ np.asarray(matrix)


@dataclass(frozen=True, eq=False)
class Design:
    names: tuple
    intercept: bool = True
    offset: bool = False
    weighted: bool = False
    factors: tuple = ()
    response_center: float = 0.0
    response_half: float = 1.0
    offset_bounds: tuple = (0.0, 0.0)
    complete: bool = True
    family: object = None
    products: tuple = ()
    slopes_by_level: tuple = ()
    response_bounds: tuple = (-1.0, 1.0)
    zero_to_one: bool = False
    outcomes: tuple = (0, 1)
    response: str = "y"
    recoded: object = None
    domain: dict = field(default_factory=dict)

    @property
    def columns(self):
        return self.names

    @property
    def width(self):
        return len(self.names) + self.offset + 1

    def null_space(self, kept=None):
        return np.zeros((len(self.names), 0))

    def to_original(self, response=True):
        return np.eye(len(self.names)), np.zeros(len(self.names))

    @property
    def declared_scales(self):
        return np.ones(len(self.names) + 1)

    @property
    def centers(self):
        return np.zeros(len(self.names))

    @property
    def halves(self):
        return np.ones(len(self.names))


@dataclass(frozen=True, eq=False)
class Sealed:
    rows: np.ndarray

    def all(self):
        return self.rows

    def scan(self, take=np.asarray):
        return map(take, [self.all()])


@dataclass(eq=False)
class Conversation:
    """An object that answers the queries of an estimator about one block of rows.

    `parts` has the share of the budget `promise` for each query label. Without `parts`, each query has the whole
    budget.
    """

    block: Block
    promise: object
    rng: object
    parts: dict | None = None
    relation: Relation = field(default_factory=lambda: Relation(1, True, False))
    asked: list = field(default_factory=list)
    rehearses: bool = False

    def of(self, question):
        if self.parts is None:
            return self.promise
        share, spent = self.parts[question.label], {label for label, *_ in self.asked}
        inside = [label for label, parent in self.parts["optional"] if question.label in parent and label in spent]
        taken = sum(self.parts[label] for label in inside)
        return self.promise.part(share - taken)

    def __call__(self, question, *, by):
        self.asked.append((question.label, question.name, question.within_share_of))
        vectors, _ = question.rows(self.block)
        rows = question.within.project(vectors)
        exact = question.within.total(rows) if isinstance(question, Sum) else Sealed(rows)
        return by.release(question.label, exact, self.of(question), question.within, self.relation, self.rng)

    def together(self, pairs):
        return [self(question, by=by) for question, by in pairs]

    def law(self, question, *, by):
        return by.law(self.of(question), question.within, self.relation)

    def decide(self, label, wanted):
        return self.rehearses or bool(wanted)

    def close(self):
        pass

    def choose(self, name, lengths):
        return min(lengths, key=lambda k: lengths[k])


_PARTS: dict = {}


def parts_of(estimator, public, block, promise, key):
    """Return the share of the budget for each query label.

    The estimator declares shares for names of queries; the labels with one name have equal parts of its share. An
    optional query has a part of the share of another query.
    """
    if key not in _PARTS:
        few = Block(block.z[:500], block.weight[:500])
        rehearsal = Conversation(few, promise, public_stream(1), rehearses=True)
        estimator(rehearsal, public)
        shares, first = estimator.shares, [a for a in rehearsal.asked if not a[2]]
        many = Counter(name for _, name, _ in first)
        whole = sum(shares[name] for name in many)
        parts = {label: shares[name] / many[name] / whole for label, name, _ in first}
        optional = [(label, parent) for label, _, parent in rehearsal.asked if parent]
        for label, parent in optional:
            parts[label] = parts[parent[0]] * shares[label if label in shares else label.split()[0]]
        _PARTS[key] = {**parts, "optional": optional}
    return _PARTS[key]


def fit(estimator, X, y, promise, seed, low=-1.0, high=1.0, family=False, offset=None, key=None, intercept=True):
    """Return the estimate from predictors X, shape (n, d), in [-1, 1] and a response y, shape (n,).

    The response lies in [low, high], or in [0, high] if `family` is true.
    """
    n, d = X.shape
    center, half = (0.0, high) if family else ((low + high) / 2, (high - low) / 2)
    columns = [np.ones(n)] * intercept + [X] + ([] if offset is None else [offset]) + [(y - center) / half]
    block = Block(np.column_stack(columns), np.ones(n))
    names = (("Intercept",) if intercept else ()) + tuple(f"x{j}" for j in range(d))
    bounds = (0.0, 0.0) if offset is None else (float(offset.min()), float(offset.max()))
    design = Design(
        names,
        intercept,
        offset is not None,
        response_center=center,
        response_half=half,
        offset_bounds=bounds,
        family=family or None,
    )
    public = PublicFacts(n, n, None, False, True, design)
    parts = parts_of(estimator, public, block, promise, (type(estimator), key, d, n, repr(promise), intercept))
    return estimator(Conversation(block, promise, public_stream(1000 + seed), parts), public)


REPEATS = 14
# least coverage of a coefficient: .93 minus 2.6 Monte Carlo standard errors
LEAST = 0.93 - 2.6 * (0.95 * 0.05 / REPEATS) ** 0.5


def coverage(estimator, rows, promise, truth, repeats=REPEATS, **known):
    """Return, for each coefficient, coverage, share of fits with an interval, and median half-length of intervals."""
    covered, given, lengths = [], [], []
    for seed in range(repeats):
        X, y, more = rows(public_stream(100 + seed))
        _, _, low, high = fit(estimator, X, y, promise, seed, **{**known, **more}).coefficients()
        there = ~np.isnan(low)
        covered.append(np.where(there, (low <= truth) & (truth <= high), np.nan))
        given.append(there)
        lengths.append((high - low) / 2)
    many = np.sum(given, axis=0)
    share = np.nansum(covered, axis=0) / np.maximum(many, 1)
    return (
        np.where(many > 0, share, np.nan),
        np.mean(given, axis=0),
        np.nanmedian(np.where(given, lengths, 1e9), axis=0),
    )
