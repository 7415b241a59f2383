"""Questions: bounded statements about rows; and what an estimator may do with them.

There are two kinds: a total of contributions, and the vectors themselves, sealed. All else that a question can be is a
kind of set. The row function (`of`, `keep`) is a frozen record of mathematics whose fields are numbers and earlier
releases; it may be wrong without harm, because the set (`within`) bounds whatever it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from privstats.errors import PrivacyError
from privstats.numerics.law import FloatArray
from privstats.privacy.promise import Promise, Relation
from privstats.privacy.release import Release
from privstats.sets.base import Set, positive_radius

RowFunction = Callable[[Any], NDArray[Any]]  # of n rows: numbers or truth values, (n, within.dim), each row by itself
RowFilter = Callable[[Any], NDArray[np.bool_]]  # of a block of n rows: shape (n,), each row by itself


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked of the rows.

    Parameters
    ----------
    name : str
        Name of the question's share of the budget.
    of : callable
        Row function: the vector of each row of a block, shape (n, within.dim).
    within : Set
        The set into which each vector is projected; it bounds what a row may contribute.
    keep : callable, optional
        Which rows of a block count, shape (n,) of bool: a function of the row and of earlier releases.
    item : str
        Tells questions of one name apart, which share its budget: a factor, an order.
    within_share_of : tuple of str
        Label of another question, or of one in each of several branches. This one is then optional: its share is a part
        of the other question's, which keeps that part if this one was not asked before it.
    """

    name: str
    of: RowFunction
    within: Set
    keep: RowFilter | None = None
    item: str = ""
    within_share_of: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Place in the plan, and name of the random stream: unique in a plan, over all branches."""
        return f"{self.name} {self.item}".strip()

    @property
    def kind(self) -> str:
        """What sort of question this is, for the plan."""
        return type(self).__name__.lower()

    @property
    def adds_up_units(self) -> bool:
        """Whether the vectors of a unit's rows are added before the set bounds their sum."""
        return False

    def inside(self, radius: float) -> Self:
        """Return the question with another radius of its set."""
        return replace(self, within=replace(self.within, radius=positive_radius(radius)))  # type: ignore[call-arg]

    def rows(self, block: Any) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return the vectors of the rows that count, and which rows of the block those are."""
        counts = block.present if self.keep is None else block.present & self._kept(block)
        vectors = np.asarray(self.of(block))
        vectors = vectors if vectors.dtype == np.bool_ else vectors.astype(np.float64, copy=False)
        if vectors.shape != (len(counts), self.within.dim):
            raise PrivacyError(f"the question '{self.label}' does not give {self.within.dim} numbers for each row")
        return (vectors if counts.all() else vectors[counts]), counts

    def _kept(self, block: Any) -> NDArray[np.bool_]:
        kept = np.asarray(self.keep(block)) if self.keep is not None else block.present
        if kept.shape != block.present.shape or kept.dtype != np.bool_:
            raise PrivacyError(f"the question '{self.label}' does not say of each row whether it counts")
        return kept


@dataclass(frozen=True, eq=False)
class Sum(Question):
    """The total of what the rows' vectors contribute in the set: sums, products, counts, histograms, groups.

    Parameters
    ----------
    folded : bool
        With units: the vectors of a unit's rows are added, then their sum is projected into the set, so that a unit
        contributes as much as one row would.
    """

    folded: bool = False

    @property
    def adds_up_units(self) -> bool:
        return self.folded


@dataclass(frozen=True, eq=False)
class Values(Question):
    """The vectors themselves, sealed: a mechanism alone may look at them (`privstats.gate.rows.RowValues`)."""


class AnyMechanism(Protocol):
    """A mechanism as the gate knows it: equal mechanisms compare equal."""

    def law(self, promise: Promise, within: Any, relation: Relation) -> Any:
        """Return the law of the noise; None where it depends on the rows."""

    def release(self, name: str, exact: Any, promise: Promise, within: Any, relation: Relation, rng: Any) -> Release:
        """Return the release; `exact` is a `Total`, or sealed `RowValues`."""


class Laws(Protocol):
    """What tells the laws of questions that nobody has asked."""

    def law(self, question: Question, *, by: Any) -> Any:
        """Return the law of the noise of a planned question, in any branch: public, and free. None if it has none."""


class Ask(Laws, Protocol):
    """The conversation, as an estimator has it: it sees releases and laws, and nothing else."""

    def __call__(self, question: Question, *, by: Any) -> Release:
        """Ask a question of a mechanism; return its release."""

    def together(self, pairs: Iterable[tuple[Question, Any]]) -> list[Release]:
        """Ask several questions in one pass over the rows; `pairs` are (question, mechanism)."""

    def choose(self, name: str, lengths: Mapping[str, float]) -> str:
        """Return the branch with the smallest length, once a fit; infinite and NaN lengths close a branch."""

    def decide(self, label: str, wanted: bool) -> bool:
        """Return whether to ask the optional question of this label: `wanted`; a rehearsal tries both."""

    def through(self, design: Any) -> None:
        """Look at the same rows through another design, as after bounds were released."""

    def close(self) -> None:
        """Ask no more: what follows is inference, before which a rehearsal may end."""
