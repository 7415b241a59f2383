"""Queries of the data, with bounded contributions of rows, and the interface through which an estimator asks queries.

There are two kinds of queries. The exact answer to a `Sum` is the total of the rows' contributions. The exact answer
to a `Values` is one vector for each used row; only a mechanism reads these vectors.

A query has two row functions: `of` computes a row's vector, and `keep` selects the rows that are used. A row function
is a frozen record whose fields are constants and earlier releases. An error in a row function cannot violate privacy,
because every vector is projected into the query's set of possible vectors, `within`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from privstats.errors import PrivacyError
from privstats.numerics.law import FloatArray
from privstats.privacy.promise import Promise, Relation
from privstats.privacy.release import Release
from privstats.sets.base import Set, positive_radius

RowFunction = Callable[[Any], NDArray[Any]]  # maps a block of n rows, row by row, to n vectors, shape (n, d)
RowFilter = Callable[[Any], NDArray[np.bool_]]  # maps a block of n rows, row by row, to a mask of used rows, shape (n,)


@dataclass(frozen=True, eq=False)
class Question:
    """A query of the data (such as a sum over rows), with the set that bounds a row's contribution.

    Parameters
    ----------
    name : str
        Name of the query's share of the budget.
    of : callable
        Function that returns the vectors of the n rows of a block, shape (n, within.dim).
    within : Set
        The set into which each vector is projected; the set bounds the contribution of a row.
    keep : callable, optional
        Function that returns the mask of the used rows of a block, shape (n,). The function decides on each row by
        itself, and may depend on earlier releases.
    item : str
        Text that distinguishes queries of the same name, which share one budget, such as the name of a factor or the
        probability of a quantile.
    within_share_of : tuple of str
        For an optional query, which the estimator may leave out: labels of the queries that pay for it from their own
        budgets, at most one in each branch (alternative algorithm). The optional query must be asked before these
        queries. Empty for a query that is not optional.
    """

    name: str
    of: RowFunction
    within: Set
    keep: RowFilter | None = None
    item: str = ""
    within_share_of: tuple[str, ...] = ()

    @cached_property
    def label(self) -> str:
        """Key of the query, unique in the plan, and name of the stream of random numbers for its noise."""
        return f"{self.name} {self.item}".strip()

    @property
    def kind(self) -> str:
        """Kind of the query in a printed plan: "sum" or "values"."""
        return type(self).__name__.lower()

    @property
    def adds_up_units(self) -> bool:
        """Whether the vectors of a privacy unit's rows are added, and their sum is projected into the set `within`."""
        return False

    def inside(self, radius: float) -> Self:
        """Return the same query of the data with another radius of the set that bounds a row's contribution."""
        return replace(self, within=replace(self.within, radius=positive_radius(radius)))  # type: ignore[call-arg]

    def rows(self, block: Any) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return the vectors `of(block)` of the used rows of a block, and the mask of the used rows in the block."""
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
    """A query for the total of the contributions of rows, such as a sum, a sum of products, counts or a histogram.

    A row's vector is projected into the set `within`; the row's contribution is computed from the projected vector.

    Parameters
    ----------
    folded : bool
        If True, the vectors of the used rows of a privacy unit (person) are added, the sum is projected into `within`,
        and the unit makes a single contribution, with the same bounds as the contribution of one row. If False, each
        used row makes its own contribution. Without privacy units, this option has no effect.
    """

    folded: bool = False

    @property
    def adds_up_units(self) -> bool:
        return self.folded


@dataclass(frozen=True, eq=False)
class Values(Question):
    """A query whose exact answer is one vector for each used row, not a sum of vectors over the rows.

    Only the mechanism that answers the query reads the vectors, for example to minimise a perturbed loss.
    """


class AnyMechanism(Protocol):
    """Interface of a privacy mechanism, which adds noise; mechanisms with the same options compare equal."""

    def law(self, promise: Promise, within: Any, relation: Relation) -> Any:
        """Return the law of the noise in a release with guarantee `promise`; None if the law depends on the rows.

        `within` is the set of possible contributions of a row to the exact answer. `relation` states how many
        contributions may be replaced, or be absent, in a neighbouring data set.
        """

    def release(self, name: str, exact: Any, promise: Promise, within: Any, relation: Relation, rng: Any) -> Release:
        """Return the release `name`: a noisy version of the exact answer `exact` (a `Total` or `RowValues`).

        The noise is drawn with the random generator `rng`. The release satisfies the privacy guarantee `promise` if
        rows contribute vectors in the set `within`, and neighbouring data sets differ as `relation` states.
        """


class Laws(Protocol):
    """Interface that returns the noise law of a planned query before the query is asked."""

    def law(self, question: Question, *, by: Any) -> Any:
        """Return the law of the noise in the release of a planned query; None if the law depends on the rows.

        `by` is the mechanism that would answer the query. The query is not asked, and no budget is spent.
        """


class Ask(Laws, Protocol):
    """Interface through which an estimator asks queries of the data; it returns only releases and laws of noise."""

    def __call__(self, question: Question, *, by: Any) -> Release:
        """Ask a query of the data, to be answered by the mechanism `by`; return the release."""

    def together(self, pairs: Iterable[tuple[Question, Any]]) -> list[Release]:
        """Ask several queries of the data in one pass over the rows; return the releases in the order of the queries.

        Each pair consists of a query and the mechanism that answers it.
        """

    def choose(self, name: str, lengths: Mapping[str, float]) -> str:
        """Choose the branch (algorithm) with the shortest expected confidence intervals, once per fit; return its name.

        `lengths` maps the name of each branch to the expected length of its intervals; NaN counts as infinite. A trial
        run ignores the lengths and takes a fixed algorithm. A fit considers only the algorithms that its earlier
        queries have not excluded. `name` denotes the choice in error messages.
        """

    def decide(self, label: str, wanted: bool) -> bool:
        """Return whether to ask the optional query with this label, a query that the estimator may leave out.

        In a fit the result is `wanted`. In a trial run the result may differ from `wanted`, because trial runs cover
        both decisions.
        """

    def through(self, design: Any) -> None:
        """Use another design (map from rows to numbers) for all later queries, for example with released bounds."""

    def close(self) -> None:
        """Accept no more queries of the data.

        A trial run that only finds the queries, and does not test the inference from releases, ends with this call.
        """
