"""Questions about rows, with bounded contributions, and the interface by which an estimator asks them.

There are two kinds: a total of contributions, and the vectors themselves, which only a mechanism may read. All other
differences lie in the sets. The row function (`of`, `keep`) is a frozen record of a formula whose fields are constants
and earlier releases; an error in it cannot break privacy, because the set (`within`) bounds whatever it returns.
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

RowFunction = Callable[[Any], NDArray[Any]]  # n rows -> array of shape (n, within.dim), row by row
RowFilter = Callable[[Any], NDArray[np.bool_]]  # n rows -> mask of shape (n,), row by row


@dataclass(frozen=True, eq=False)
class Question:
    """A question about the rows, with the set that bounds a row's contribution.

    Parameters
    ----------
    name : str
        Name of the question's share of the budget.
    of : callable
        Row function: the vector of each row of a block, shape (n, within.dim).
    within : Set
        The set into which each vector is projected; it bounds what a row may contribute.
    keep : callable, optional
        Mask of the rows of a block that count, shape (n,): a function of the row and of earlier releases.
    item : str
        Distinguishes questions with the same name, which share its budget: a factor, or the tau of a quantile.
    within_share_of : tuple of str
        Label of another question, or of one in each of several branches. This question is then optional: its share
        is a part of the other question's, which keeps that part if this one was not asked before it.
    """

    name: str
    of: RowFunction
    within: Set
    keep: RowFilter | None = None
    item: str = ""
    within_share_of: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Key of the question in the plan, and name of its random stream: unique in a plan, over all branches."""
        return f"{self.name} {self.item}".strip()

    @property
    def kind(self) -> str:
        """Kind of the question, as the plan shows it."""
        return type(self).__name__.lower()

    @property
    def adds_up_units(self) -> bool:
        """Whether the vectors of a unit's rows are added before the set bounds their sum."""
        return False

    def inside(self, radius: float) -> Self:
        """Return the same question with another radius of the set that bounds a row's contribution."""
        return replace(self, within=replace(self.within, radius=positive_radius(radius)))  # type: ignore[call-arg]

    def rows(self, block: Any) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return the vectors of the rows that count, and the mask of these rows in the block."""
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
    """The total of the rows' contributions, as the set defines them: sums, products, counts, histograms, groups.

    Parameters
    ----------
    folded : bool
        If there are units: the vectors of a unit's rows are added and their sum is projected into the set, so that
        a unit contributes as much as one row would.
    """

    folded: bool = False

    @property
    def adds_up_units(self) -> bool:
        return self.folded


@dataclass(frozen=True, eq=False)
class Values(Question):
    """A question for the rows' vectors themselves, which only a mechanism reads (`privstats.gate.rows.RowValues`)."""


class AnyMechanism(Protocol):
    """Interface of a mechanism; mechanisms with the same options compare equal."""

    def law(self, promise: Promise, within: Any, relation: Relation) -> Any:
        """Return the law of the mechanism's noise; None if the law depends on the rows."""

    def release(self, name: str, exact: Any, promise: Promise, within: Any, relation: Relation, rng: Any) -> Release:
        """Return the release: the exact answer, a `Total` or `RowValues`, with noise."""


class Laws(Protocol):
    """Interface that gives the noise laws of questions which have not been asked."""

    def law(self, question: Question, *, by: Any) -> Any:
        """Return the law of the noise of a planned question, at no cost; None if the law depends on the rows."""


class Ask(Laws, Protocol):
    """Interface by which an estimator asks questions; it returns only releases and laws of noise."""

    def __call__(self, question: Question, *, by: Any) -> Release:
        """Ask a question, to be answered by the mechanism `by`; return the release."""

    def together(self, pairs: Iterable[tuple[Question, Any]]) -> list[Release]:
        """Ask several questions in one pass over the rows; `pairs` are questions with their mechanisms."""

    def choose(self, name: str, lengths: Mapping[str, float]) -> str:
        """Choose the branch with the shortest expected intervals, once per fit; the length must be finite."""

    def decide(self, label: str, wanted: bool) -> bool:
        """Return whether to ask the optional question with this label: `wanted`; a rehearsal tries both answers."""

    def through(self, design: Any) -> None:
        """Map the same rows to blocks by another design, for instance one with released bounds."""

    def close(self) -> None:
        """Accept no more questions: inference follows, and a rehearsal may end here."""
