"""The rehearsal: a trial run of the estimator on synthetic rows, whose queries of the data are recorded and audited.

The plan is the list of queries that the estimator asks about rows drawn from the domain; the real run may ask only the
queries in the plan. The audit raises an error for a query in which the contribution of a row (or privacy unit) depends
on other rows (or units).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privstats.errors import PrivacyError
from privstats.gate.gate import Conversation, Planned, Streams, quiet
from privstats.gate.questions import AnyMechanism, Question, Sum
from privstats.gate.rows import BlockRows, RowMap, RowValues
from privstats.numerics.exact import Total
from privstats.numerics.law import FloatArray
from privstats.privacy.promise import Neighbors, Promise
from privstats.sets.base import Set

ROWS = 64
CUTS = (0, 1, 5, 14, ROWS)  # row indices at which the audit cuts the synthetic rows into smaller blocks
GROUPS = 2  # number of groups of synthetic units; the audit checks that a total is the sum of the groups' totals
UNITS, MOST_ROWS = 29, 2  # number of synthetic units (of up to 3 rows), and largest number of used rows of a unit
USUAL = 10_000  # number of rows assumed in a rehearsal if the true number is private
AT_ONCE = 1 << 18  # number of entries of the rows' contributions that are summed at a time
NO_SHARES: Mapping[str, float] = MappingProxyType({})  # no default shares of the budget
MOST_SYNTHETIC = 1 << 14  # largest number of vectors of synthetic rows given to a mechanism in a rehearsal

T = TypeVar("T")


class DrawnRows(RowMap, Protocol):
    """A design (map from rows to numbers) that can draw synthetic rows from its declared domain."""

    def draw(self, n: int, rng: Any) -> pd.DataFrame:
        """Return n synthetic rows, drawn with the random generator `rng`."""


@dataclass(frozen=True)
class Asked:
    """Record of a query of the data that an estimator asked in a rehearsal (trial run on synthetic rows).

    Parameters
    ----------
    label, name, kind : str
        Label, name and kind of the query.
    mechanism : AnyMechanism
        Mechanism that answered the query.
    branch : str or None
        Branch (alternative algorithm) chosen before the query; None if none was chosen.
    optional : tuple of str
        For an optional query, which the estimator may leave out: labels of the queries that pay for it from their own
        budgets. Otherwise empty.
    dim : int
        Number of entries of a row's vector.
    """

    label: str
    name: str
    kind: str
    mechanism: Any
    branch: str | None
    optional: tuple[str, ...]
    dim: int = field(default=0, compare=False)


class Rehearsal(Conversation):
    """Trial run of an estimator on synthetic rows from the domain, in which each query is recorded and audited.

    Parameters
    ----------
    design : DrawnRows
    neighbors : Neighbors
    whole : Promise
        Budget of the whole fit.
    stream : callable
        Function that returns a random generator, given a purpose (in this class always "rehearsal") and a label.
    planned : iterable of Planned
        Queries of the previous round of trial runs, with their budgets. A plan takes several rounds, until the queries
        no longer change.
    branch : str, optional
        Branch (alternative algorithm) that is taken; by default the first.
    optional : bool
        Whether optional queries, which the estimator may leave out, are asked.
    few : bool
        If True, totals are sums over the synthetic rows only, and the noise is large relative to the totals. If False,
        totals are multiplied to imitate the assumed number of rows, and the noise is smaller relative to the totals.
        The queries of an estimator can depend on this relative size.
    assumed : int, optional
        Assumed number of rows, or of privacy units; `USUAL` by default.
    audit : Audit, optional
        The audit, with synthetic rows, that the trial runs of a round share; by default, a new one is made.
    shares : mapping of str to float
        Default shares of the budget, by name or label of a query. They are assumed for queries whose budget is not
        planned yet; a query without a default share is assumed to have the whole budget.

    Attributes
    ----------
    asked : tuple of Asked
        Queries in the order in which they were asked.
    branches : tuple of str
        Branches among which the estimator chose; empty if there was no choice.
    """

    def __init__(
        self,
        design: DrawnRows,
        neighbors: Neighbors,
        whole: Promise,
        stream: Streams,
        *,
        planned: Iterable[Planned] = (),
        branch: str | None = None,
        optional: bool = True,
        few: bool = False,
        assumed: int | None = None,
        audit: Audit | None = None,
        shares: Mapping[str, float] = NO_SHARES,
    ) -> None:
        self._audit = Audit.of(design, neighbors, stream) if audit is None else audit
        super().__init__(self._audit.whole, planned, lambda _, label: stream("rehearsal", label))
        self._neighbors, self._whole, self._forced, self._optional = neighbors, whole, branch, optional
        many = USUAL if assumed is None else assumed
        self._shares, self._times = shares, 1 if few else max(1, many // len(self._audit.frame))
        self.asked: tuple[Asked, ...] = ()
        self.branches: tuple[str, ...] = ()

    def choose(self, name: str, lengths: Mapping[str, float]) -> str:
        if self.branches or not lengths:
            raise PrivacyError(f"an estimator may choose once, but '{name}' is another choice")
        self.branches = tuple(lengths)
        if self._forced is not None and self._forced not in lengths:
            raise PrivacyError(f"the branches of '{name}' depend on releases")
        self._branch = self.branches[0] if self._forced is None else self._forced
        return self._branch

    def decide(self, label: str, wanted: bool) -> bool:
        return self._optional

    def through(self, design: RowMap) -> None:
        self._audit = self._audit.through(design)
        self._rows = self._audit.whole
        self.turns.append(0)

    def _promise(self, question: Question, by: AnyMechanism) -> Promise:
        if question.label in self._planned:
            return self._left(question.label)
        own = self._shares.get(question.label, self._shares.get(question.name, 1.0))
        host = self._shares.get(question.within_share_of[0], 1.0) if question.within_share_of else 1.0
        return self._whole.part(min(own, 1.0) * min(host, 1.0))

    def _spend(self, question: Question, by: AnyMechanism) -> Promise:
        promise = self._promise(question, by)
        self._cross_out(question)
        branch, optional = self._branch, question.within_share_of
        self.asked += (Asked(question.label, question.name, question.kind, by, branch, optional, question.within.dim),)
        self._look(question)
        return promise

    def _look(self, question: Question) -> None:
        """Check, with warnings off, that a row's contribution to a query does not depend on other rows (`Audit`)."""
        with quiet():
            self._audit(question)

    def _guarded(self, work: Callable[[], T]) -> T:
        with quiet():
            return work()

    def _totals(self, sums: Sequence[Sum]) -> list[Total]:
        return [total.times(self._times) for total in super()._totals(sums)]

    def _values(self, question: Question) -> RowValues:
        return _ManyValues(self._rows, question, self._times)


def _synthetic_units(rows: int) -> NDArray[np.float64]:
    """Return the privacy unit (person) of each synthetic row as a number; NaN for some rows, which have no unit."""
    place = np.arange(rows)
    return np.where(place % 11 == 3, np.nan, place * 7 % UNITS)


class _ManyValues(RowValues):
    """Vectors of synthetic rows for a trial of a mechanism, each repeated up to `times` times to imitate more rows."""

    def __init__(self, rows: BlockRows, question: Question, times: int) -> None:
        super().__init__(rows, question)
        self._times = times

    def made(self) -> Iterator[FloatArray]:
        once = np.concatenate(list(super().made()))
        yield np.repeat(once, max(1, min(self._times, MOST_SYNTHETIC // max(1, len(once)))), axis=0)


@dataclass(frozen=True, eq=False)
class _Frames:
    """A source of rows: a few DataFrames in memory, each read as one block."""

    frames: tuple[pd.DataFrame, ...]
    columns = ()
    in_memory = True

    @property
    def n(self) -> int:
        return sum(map(len, self.frames))

    def batches(self, names: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        return iter(self.frames)


Seen = tuple[NDArray[np.bool_], FloatArray, FloatArray]  # used rows of a block: mask, vectors, projected vectors


class Audit:
    """A check that the contribution of a row (or privacy unit) to a query does not depend on other rows (or units).

    In a trial run, synthetic rows are read in one block, in reversed order in smaller blocks, and in groups of units.
    The vectors of the rows must agree to the last bit, and the groups' totals must add up to the total of all rows.

    Parameters
    ----------
    frame : DataFrame
        The synthetic rows, drawn from the declared domain.
    design : RowMap
    neighbors : Neighbors
    """

    def __init__(self, frame: pd.DataFrame, design: RowMap, neighbors: Neighbors) -> None:
        self.frame, self.neighbors = frame, neighbors
        self.whole = self._rows(design, frame)
        self.parts = self._rows(design, *_cut(frame.iloc[::-1], CUTS))
        self.groups = [
            self._rows(design, *_cut(rows, (0, len(rows) // 2, len(rows)))) for rows in _by_unit(frame, neighbors.unit)
        ]

    @classmethod
    def of(cls, design: DrawnRows, neighbors: Neighbors, stream: Streams) -> Audit:
        """Return an audit for a design, on synthetic rows that are drawn from the declared domain of the design.

        The rows are drawn with the random generator ``stream("rehearsal", "made-up rows")``. If `neighbors` names a
        column of privacy units, this column is filled with synthetic units.
        """
        frame = design.draw(ROWS, stream("rehearsal", "made-up rows"))
        if neighbors.unit is not None:
            frame[neighbors.unit] = _synthetic_units(len(frame))
        # at most `MOST_ROWS` rows of a unit are used, so that some synthetic units have rows that are not used
        return cls(frame, design, replace(neighbors, rows_per_unit=min(neighbors.rows_per_unit, MOST_ROWS)))

    def through(self, design: RowMap) -> Audit:
        """Return an audit for another `design` (map from rows to numbers), on the same synthetic rows."""
        return Audit(self.frame, design, self.neighbors)

    def _rows(self, design: RowMap, *frames: pd.DataFrame) -> BlockRows:
        return BlockRows(_Frames(frames), design, self.neighbors, b"rehearsal")

    def __call__(self, question: Question) -> None:
        """Raise an error if the contribution of a row (or privacy unit) to a query depends on other rows (or units)."""
        whole, parts = _seen(self.whole, question), _seen(self.parts, question)
        pairs = zip(zip(*whole, strict=True), zip(*parts, strict=True), strict=True)
        same = all(_equal(np.concatenate(here), np.concatenate(there)[::-1]) for here, there in pairs)
        if same and isinstance(question, Sum):
            same = self._adds_up(question, whole[0][-1], [seen[-1] for seen in parts])
        if not same:
            raise PrivacyError(f"the question '{question.label}' does not treat each row alone")

    def _adds_up(self, question: Sum, whole: FloatArray, parts: Sequence[FloatArray]) -> bool:
        """Return whether a query's total is the same if summed row by row, by blocks of rows, and by groups of units.

        `whole` has the vectors of all used rows, projected into the set `question.within`. `parts` has the projected
        vectors of the same rows, as computed from smaller blocks of rows: one array for each block.
        """
        within, total = question.within, question.within.total(whole)
        same = _exactly(whole, within) == total
        same = same and _together([within.total(part) for part in parts], within) == total
        if not same or not self.groups:
            return same
        apart = [rows.totals([question])[0] for rows in self.groups]
        return _together(apart, within) == self.whole.totals([question])[0]


def _cut(frame: pd.DataFrame, cuts: Sequence[int]) -> list[pd.DataFrame]:
    return [frame.iloc[start:stop] for start, stop in pairwise(cuts)]


def _by_unit(frame: pd.DataFrame, unit: str | None) -> list[pd.DataFrame]:
    """Return the rows of each of `GROUPS` groups of privacy units (persons); no groups if there are no units."""
    return [] if unit is None else [rows for _, rows in frame.groupby(frame[unit] % GROUPS)]


def _seen(rows: BlockRows, question: Question) -> list[Seen]:
    """Return, for each block of rows, the mask of the used rows, and the vectors of these rows for a query.

    The vectors are returned in two versions: as the query computes the vectors, and projected into the query's set of
    possible vectors.
    """
    seen = []
    for block, _ in rows.blocks():
        vectors, counts = question.rows(block)
        seen.append((counts, vectors, question.within.project(vectors)))
    return seen


def _equal(here: NDArray[Any], there: NDArray[Any]) -> bool:
    return np.array_equal(here, there, equal_nan=here.dtype.kind == "f")


def _together(totals: Sequence[Total], within: Set) -> Total:
    return sum(totals, start=Total.nothing(within.size, within.step))


def _exactly(rows: FloatArray, within: Set) -> Total:
    """Return the exact sum of the contributions of synthetic rows to the total of a query.

    `rows` has one vector for each row, projected into the set `within`; `within.contribution` computes a contribution
    from a vector. The sum of floats is exact, because the sum is far below 2^53 grid steps. A coordinate of the sum is
    NaN if a contribution is not a multiple of the step.
    """
    units: Any = np.zeros(within.size)
    for some in np.array_split(rows, 1 + len(rows) * within.size // AT_ONCE):
        steps = within.contribution(some) / within.step
        units += np.where(steps == np.rint(steps), steps, np.nan).sum(axis=0)
    return Total(tuple(units.tolist()), within.step)
