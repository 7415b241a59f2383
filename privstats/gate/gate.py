"""Interface between estimators and rows: it answers planned queries of the data, with noise.

The plan lists the queries that a fit may ask; no other query is answered. The budgets of these queries are charged to
the ledger (the record of spent budget) before a row is read. A mechanism adds noise to every answer. Estimators receive
only releases (noisy answers) and the laws (distributions) of the noise. Exact answers are not stored.
"""

from __future__ import annotations

import os
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import numpy as np

from privstats.errors import PrivacyError, SourceChangedError
from privstats.gate.questions import AnyMechanism, Question, Sum, Values
from privstats.gate.rows import BlockRows, RowMap, RowValues, changed
from privstats.numerics.exact import Total
from privstats.numerics.memory import keep_what_is_freed
from privstats.privacy.promise import Promise, Relation
from privstats.privacy.release import Release

T = TypeVar("T")
Streams = Callable[[str, str], Any]  # maps a kind of use and the label of a query to a generator of random numbers
Pairs = Sequence[tuple[Question, AnyMechanism]]

FAILED = (
    "a release could not be computed; the cause is not shown because it may depend on the rows. The budget of this "
    "call is spent"
)
# lock for warning filters: the filters are global to the process, so only one thread at a time may change the filters
_ONE_AT_A_TIME = threading.RLock()


def _renew_lock() -> None:
    """Give a forked process a new lock, because the thread that holds the parent's lock does not exist in the child."""
    global _ONE_AT_A_TIME
    _ONE_AT_A_TIME = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


@dataclass(frozen=True, eq=False)
class Planned:
    """A query of the data that a fit may ask, with the mechanism that answers the query, and the query's budget.

    Parameters
    ----------
    label, name, kind : str
        Unique label of the query, name of its share of the budget, and kind of the query in a printed plan.
    mechanism : AnyMechanism
        Mechanism that answers the query.
    branch : str or None
        Branch (alternative algorithm) in which the query may be asked; None if the query may be asked in every branch,
        also before a branch is chosen.
    promise : Promise
        Privacy budget that the query may spend.
    within_share_of : tuple of str
        For an optional query, which the estimator may leave out: labels of the queries that pay for it from their own
        budgets, at most one in each branch. Empty for a query that is not optional.
    fractions : tuple of float
        For each label in `within_share_of`, the fraction of that query's budget that this optional query spends.
    """

    label: str
    name: str
    kind: str
    mechanism: Any
    branch: str | None
    promise: Promise
    within_share_of: tuple[str, ...] = ()
    fractions: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.fractions) != len(self.within_share_of) or not all(0 < part < 1 for part in self.fractions):
            raise PrivacyError(f"the optional question '{self.label}' needs a part of the share of another one")

    def part_of(self, label: str) -> float:
        """Return the fraction of another query's budget that this query spends when it is asked.

        `label` is the label of the other query. The fraction is 0 if this label is not in `within_share_of`.
        """
        return dict(zip(self.within_share_of, self.fractions, strict=True)).get(label, 0.0)


class Conversation(ABC):
    """Interface between an estimator and rows: it answers queries with noise and states the distribution of the noise.

    The estimator also chooses an algorithm through this interface.

    Parameters
    ----------
    rows : BlockRows
        The rows of the data, with the first design (map from rows to numbers); `through` replaces the design.
    planned : iterable of Planned
        The planned queries, each with a budget.
    stream : callable
        Function that is called with "question" and the label of a query, and returns the generator of the random
        numbers for the noise of this query.

    Attributes
    ----------
    turns : list of int
        Number of passes over the rows with each design, in the order in which the designs were used. A call that asks
        one or several queries counts as one pass.
    chosen : str or None
        The chosen branch (alternative algorithm); None if none was chosen.
    """

    def __init__(self, rows: BlockRows, planned: Iterable[Planned], stream: Streams) -> None:
        self._rows, self._neighbors, self._stream = rows, rows.neighbors, stream
        self._planned = {question.label: question for question in planned}
        self._parts = [question for question in self._planned.values() if question.within_share_of]
        self._asked: set[str] = set()
        self._hosts: set[str] = set()  # labels of queries whose budget has partly paid for optional queries
        self._branch: str | None = None
        self._closed = False
        self.releases: tuple[Release, ...] = ()
        self.turns = [0]

    def __call__(self, question: Question, *, by: Any) -> Release:
        """Ask a query of the data, to be answered by the mechanism `by`; return the release."""
        return self.together([(question, by)])[0]

    def together(self, pairs: Iterable[tuple[Question, Any]]) -> list[Release]:
        """Ask several queries of the data in one pass over the rows.

        Parameters
        ----------
        pairs : iterable of (Question, Mechanism)

        Returns
        -------
        list of Release
            One release for each query.

        Raises
        ------
        PrivacyError
            If a query was not planned, or a computation on the rows fails.
        """
        several = list(pairs)
        with _ONE_AT_A_TIME:
            relations = [self._relation(question) for question, _ in several]
            promises = [self._spend(question, by) for question, by in several]
            self.turns[-1] += bool(several)
            answers = self._guarded(lambda: self._answer(several, promises, relations))
            self.releases += tuple(answers)
        return answers

    def law(self, question: Question, *, by: Any) -> Any:
        """Return the law (distribution) of the noise in the answer to a query of the plan; the query is not asked.

        No budget is spent. The query may belong to any branch (alternative algorithm).

        Parameters
        ----------
        question : Question
        by : AnyMechanism
            Mechanism that would answer the query.

        Returns
        -------
        Law or None
            None if the law depends on the rows.
        """
        return by.law(self._promise(question, by), question.within, self._relation(question))

    @property
    def chosen(self) -> str | None:
        return self._branch

    @abstractmethod
    def choose(self, name: str, lengths: Mapping[str, float]) -> str:
        """Choose the algorithm (branch) with the shortest expected confidence intervals, once per fit; return its name.

        Parameters
        ----------
        name : str
            Name of the choice in error messages.
        lengths : mapping
            Expected length of confidence intervals in each branch, from public information and releases. NaN counts as
            infinite; if several lengths are equal, the first of these branches is taken.

        Notes
        -----
        If a query that the estimator may leave out was asked, and has spent part of the budgets of some branches, a fit
        chooses only among these branches. A trial run ignores the lengths and takes a branch fixed before the run.
        """

    @abstractmethod
    def decide(self, label: str, wanted: bool) -> bool:
        """Return whether to ask the optional query with this label, a query that the estimator may leave out.

        In a fit the result is `wanted`. In the trial runs of the estimator on synthetic rows, which precede the fit,
        the result does not depend on `wanted`: to cover both cases, the result is True in some runs and False in other
        runs.

        Parameters
        ----------
        label : str
        wanted : bool
            Decision of the estimator; it may depend on releases.
        """

    def through(self, design: RowMap) -> None:
        """Use another design (map from rows to arrays of numbers) for all later queries of the data.

        The design may depend on releases. The selection of rows from each privacy unit does not change.
        """
        self._rows = self._rows.through(design)
        self.turns.append(0)

    def close(self) -> None:
        """Accept no more queries of the data: from now on, the fit only computes inference from releases."""
        self._closed = True

    @abstractmethod
    def _promise(self, question: Question, by: AnyMechanism) -> Promise:
        """Return the budget of a query that `by` answers, minus its part that has paid for optional queries.

        A fit raises an error if the query was not planned with the mechanism `by`. A trial run of the estimator
        assumes a budget for a query that is not planned.
        """

    @abstractmethod
    def _spend(self, question: Question, by: AnyMechanism) -> Promise:
        """Mark a planned query as asked, and return its budget; raise an error if the query may not be asked."""

    @abstractmethod
    def _guarded(self, work: Callable[[], T]) -> T:
        """Run a computation on rows and return its result, without warnings, which could depend on the rows."""

    def _left(self, label: str) -> Promise:
        """Return the budget of a planned query, minus its part that has paid for optional queries (see `Planned`)."""
        whole = self._planned[label].promise
        spent = sum(other.part_of(label) for other in self._parts if other.label in self._asked)
        return whole.part(1 - spent) if spent else whole

    def _cross_out(self, question: Question) -> None:
        """Mark a query as asked; raise an error if it was asked before, its budget is spent, or `close` was called."""
        if self._closed or question.label in self._asked:
            again = "twice, or after the last one, so it was not planned here"
            raise PrivacyError(f"the question '{question.label}' is asked {again}")
        if self._asked & set(question.within_share_of):
            raise PrivacyError(f"the optional question '{question.label}' is asked after its share was spent")
        if question.within_share_of and question.label in self._hosts:
            raise PrivacyError(f"the optional question '{question.label}' has no share of its own to give away")
        self._asked.add(question.label)
        self._hosts |= set(question.within_share_of)

    def _relation(self, question: Question) -> Relation:
        """Return how many contributions to a query may be replaced, or be absent, in a neighbouring data set.

        Raises
        ------
        PrivacyError
            If the query is neither a `Sum` nor `Values`, or if the query would add the vectors of a privacy unit's rows
            although the sum of these vectors has no meaning, as for category codes.
        """
        if type(question) not in (Sum, Values):  # a subclass might define another total, with another sensitivity
            raise PrivacyError(f"the question '{question.label}' is neither a sum nor values")
        if question.adds_up_units and not question.within.folds:
            raise PrivacyError(f"the question '{question.label}' adds up numbers of cells; its set cannot be folded")
        # whether a row may contribute nothing, for instance because its privacy unit is missing
        absent = question.keep is not None or not self._rows.design.complete or self._neighbors.unit is not None
        return self._neighbors.relation(question.adds_up_units, absent)

    def _answer(self, pairs: Pairs, promises: Sequence[Promise], relations: Sequence[Relation]) -> list[Release]:
        sums = [question for question, _ in pairs if isinstance(question, Sum)]
        totals = iter(self._totals(sums))
        answers = []
        for (question, by), promise, relation in zip(pairs, promises, relations, strict=True):
            exact = next(totals) if isinstance(question, Sum) else self._values(question)
            rng = self._stream("question", question.label)
            answers.append(by.release(question.label, exact, promise, question.within, relation, rng))
        return answers

    def _totals(self, sums: Sequence[Sum]) -> list[Total]:
        return self._rows.totals(sums) if sums else []

    def _values(self, question: Question) -> RowValues:
        return self._rows.values(question)

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("a conversation cannot be copied: each of its questions is asked once")


class Gate(Conversation):
    """Interface between the estimator of a fit and the rows: it answers each query of the plan at most once.

    Other queries are not answered. The planned mechanism answers a query, after its budget has been charged. A query
    with a branch (alternative algorithm of the estimator) is answered only after this branch was chosen.

    Parameters
    ----------
    rows : BlockRows
        The rows of the data, with the first design (map from rows to numbers); `through` replaces the design.
    planned : iterable of Planned
        All queries of the plan; their budgets have been charged.
    stream : callable
        Function that is called with "question" and the label of a query, and returns the generator of the random
        numbers for the noise of this query.

    Attributes
    ----------
    watch : callable
        Function that is called before each pass over the rows, and returns whether another pass with the same design
        may follow. Its arguments are public: `turns`, with the new pass counted, and `chosen`.
    lengths : mapping
        Expected length of confidence intervals in each branch, used to choose a branch; empty before the choice.
    """

    def __init__(self, rows: BlockRows, planned: Iterable[Planned], stream: Streams) -> None:
        super().__init__(rows, planned, stream)
        self._process = os.getpid()
        self.watch: Callable[[Sequence[int], str | None], bool] = lambda *_: True
        # branches (alternative algorithms) that can still be chosen; empty if every branch can be chosen
        self._open: set[str] = set()
        self.lengths: Mapping[str, float] = {}
        keep_what_is_freed()

    def choose(self, name: str, lengths: Mapping[str, float]) -> str:
        branches = {planned.branch for planned in self._planned.values()} - {None}
        with _ONE_AT_A_TIME:
            if self._branch is not None or not branches <= set(lengths):
                raise PrivacyError(f"the choice of '{name}' was not planned: once, between the branches of the plan")
            self.lengths = dict(lengths)
            self._branch = shortest({name: self.lengths[name] for name in lengths if name in (self._open or lengths)})
            self._open = {self._branch}
        return self._branch

    def decide(self, label: str, wanted: bool) -> bool:
        return bool(wanted)

    def _promise(self, question: Question, by: AnyMechanism) -> Promise:
        planned = self._planned.get(question.label)
        if planned is None or planned.mechanism != by or planned.within_share_of != question.within_share_of:
            raise _unplanned(question)
        return self._left(question.label)

    def _spend(self, question: Question, by: AnyMechanism) -> Promise:
        promise, planned = self._promise(question, by), self._planned[question.label]
        homes = self._homes(planned)
        left = homes & (self._open or homes)
        if planned.branch not in (None, self._branch) or (homes and not left):
            raise _unplanned(question)
        self._stay()
        self._cross_out(question)
        self._open = left or self._open
        return promise

    def _homes(self, planned: Planned) -> set[str]:
        """Return the branches (alternative algorithms) that a query belongs to; an empty set means all branches.

        An optional query, which the estimator may leave out, belongs to the branches of the queries that pay for it.
        """
        hosts = [self._planned[label] for label in planned.within_share_of if label in self._planned]
        homes = [host.branch for host in hosts] or [planned.branch]
        unknown = len(hosts) < len(planned.within_share_of) or any(host.within_share_of for host in hosts)
        together = len(homes) > 1 and (None in homes or len(set(homes)) < len(homes))
        if unknown or together or planned.branch not in (None, *homes):
            raise PrivacyError(f"the share that '{planned.label}' would spend was not planned")
        return {home for home in homes if home is not None}

    def _guarded(self, work: Callable[[], T]) -> T:
        self._rows.again = self.watch(self.turns, self._branch)
        answer = sealed(work)
        self._stay()  # raises an error in a process forked during `work`: no budget is charged for its noisy answer
        return answer

    def _stay(self) -> None:
        if self._process != os.getpid():
            raise PrivacyError("a fit cannot go on in another process than the one that began it")


def shortest(lengths: Mapping[str, float]) -> str:
    """Return the first algorithm with the shortest expected confidence intervals, where a length of NaN is infinite."""
    return min(lengths, key=lambda name: float(np.nan_to_num(lengths[name], nan=np.inf, posinf=np.inf, neginf=-np.inf)))


def _unplanned(question: Question) -> PrivacyError:
    return PrivacyError(f"the question '{question.label}' was not planned here, so its cost was not charged")


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings, which could depend on the rows; a lock is held, since warning filters are global."""
    with _ONE_AT_A_TIME, np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def sealed(work: Callable[[], T]) -> T:
    """Run a computation on rows; any failure raises an error with a fixed text, and warnings are suppressed.

    Raises
    ------
    PrivacyError
        If `work` fails. The error is raised outside the exception handler, so that no context, traceback or frame of
        the failure is attached to it.
    """
    says = PrivacyError(FAILED)
    try:
        with quiet():
            return work()
    except SourceChangedError:
        says = changed()
    except Exception:
        pass
    del work
    raise says


def readable(work: Callable[[], T]) -> T:
    """Read public information before any budget is spent; any failure raises an error with a fixed text.

    Raises
    ------
    PrivacyError
        If reading fails. The error is raised outside the exception handler, so that no context, traceback or frame of
        the failure is attached to it.
    """
    try:
        with quiet():
            return work()
    except Exception:
        pass
    del work
    raise PrivacyError(
        "the data could not be read; the cause is not shown because it may depend on the rows. Nothing is charged. "
        "To see it, read all of the data by yourself; a function: for frame in data(): pass"
    )
