"""Queries of the data, with bounded contributions of rows, and the interface by which an estimator asks them.

There are two kinds: a total of contributions, and the rows' vectors, which only a mechanism may read. All other
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
    """A query of the data (such as a sum over rows), with the set that bounds a row's contribution.

    Parameters
    ----------
    name : str
        Name of the query's share of the budget.
    of : callable
        Row function: the vector of each row of a block, shape (n, within.dim).
    within : Set
        The set into which each vector is projected; it bounds what a row may contribute.
    keep : callable, optional
        Returns the mask of the rows of a block that are used, shape (n,), computed from each row and earlier releases.
    item : str
        Distinguishes queries of one name, which share one budget: a factor, or the tau of a quantile.
    within_share_of : tuple of str
        Label of another query, or of one in each of several branches. This query is then optional: its share
        is a part of the other query's, which keeps that part if this one was not asked before it.
    """

    name: str
    of: RowFunction
    within: Set
    keep: RowFilter | None = None
    item: str = ""
    within_share_of: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Key of the query in the plan, and name of the query's random stream: unique in a plan of all branches."""
        return f"{self.name} {self.item}".strip()

    @property
    def kind(self) -> str:
        """Kind of the query of the data, as a printed plan shows it."""
        return type(self).__name__.lower()

    @property
    def adds_up_units(self) -> bool:
        """Whether the vectors of a privacy unit's rows are added, and the sum is then moved into the set."""
        return False

    def inside(self, radius: float) -> Self:
        """Return the same query of the data with another radius of the set that bounds a row's contribution."""
        return replace(self, within=replace(self.within, radius=positive_radius(radius)))  # type: ignore[call-arg]

    def rows(self, block: Any) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return the vectors of the rows that are used, and the mask of these rows in the block."""
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
    """A query for the total of the rows' contributions, each in the set: sums, products, counts, histograms, groups.

    Parameters
    ----------
    folded : bool
        If there are privacy units: the vectors of a unit's rows are added and the sum is moved into the set, so that
        a unit contributes as much as one row would.
    """

    folded: bool = False

    @property
    def adds_up_units(self) -> bool:
        return self.folded


@dataclass(frozen=True, eq=False)
class Values(Question):
    """A query for the rows' vectors themselves, which only a mechanism reads (`privstats.gate.rows.RowValues`)."""


class AnyMechanism(Protocol):
    """Interface of a privacy mechanism, which adds noise; mechanisms with the same options compare equal."""

    def law(self, promise: Promise, within: Any, relation: Relation) -> Any:
        """Return the law of the mechanism's noise; None if the law depends on the rows."""

    def release(self, name: str, exact: Any, promise: Promise, within: Any, relation: Relation, rng: Any) -> Release:
        """Return the release: the exact answer, a `Total` or `RowValues`, with noise."""


class Laws(Protocol):
    """Interface that gives the noise laws of queries of the data which have not been asked."""

    def law(self, question: Question, *, by: Any) -> Any:
        """Return the law of the noise of a planned query, at no cost; None if the law depends on the rows."""


class Ask(Laws, Protocol):
    """Interface by which an estimator asks queries of the data; it returns only releases and laws of noise."""

    def __call__(self, question: Question, *, by: Any) -> Release:
        """Ask a query of the data, to be answered by the mechanism `by`; return the release."""

    def together(self, pairs: Iterable[tuple[Question, Any]]) -> list[Release]:
        """Ask several queries of the data in one pass over the rows; `pairs` are queries with their mechanisms."""

    def choose(self, name: str, lengths: Mapping[str, float]) -> str:
        """Choose the algorithm (branch) with the shortest expected intervals, once per fit; lengths must be finite."""

    def decide(self, label: str, wanted: bool) -> bool:
        """Return whether to ask the optional query with this label: `wanted` in a fit; a trial run tries both."""

    def through(self, design: Any) -> None:
        """Map the same rows to blocks by another design, for instance by a design with released bounds."""

    def close(self) -> None:
        """Accept no more queries of the data: inference follows, and a trial run of the estimator may end here."""
