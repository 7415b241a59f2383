"""Questions: sealed statements about rows. A mechanism may evaluate one; only its release leaves.

What a question applies to rows (`of`, `rows`) is a frozen dataclass of mathematics in `losses/`, whose
fields are numbers and earlier releases; what it bounds them by (`within`) carries the sensitivity.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from privstats.older.formula.block import Block
from privstats.older.numerics.exact import SUM_BITS, Gathered, Quadratic, Total, Wanted, gram, total, weighted_sum
from privstats.older.numerics.law import FloatArray
from privstats.older.privacy.neighbors import Neighbors
from privstats.older.privacy.release import Sensitivity
from privstats.older.privacy.together import Curve
from privstats.older.sets.base import Bound, Line, OneHot
from privstats.older.sets.check_losses import CheckScores
from privstats.older.sets.convex_losses import GlmScores
from privstats.older.sets.leverage import (
    GRID,
    Bins,
    ColumnMoments,
    Products,
    Pulls,
    PullsAndScale,
    clip_to_one,
    into_ball,
    onto_grid,
)
from privstats.older.sets.moments import Moments
from privstats.older.sets.squared_losses import Scores

RowFunction = Callable[[Block], FloatArray]


@dataclass(frozen=True, eq=False)
class Part:
    """The rows of one cell of a partition: those for which ``cells(block)`` is `index`.

    A row is in one cell only, because `cells` gives one number for each row. Questions about different cells of one
    partition (the same object) are priced in parallel (`privstats.older.privacy.together.Cell`).

    Parameters
    ----------
    cells : callable
        Row function, shape (n,) of int.
    index : int
        Which cell.
    """

    cells: Callable[[Block], NDArray[np.intp]]
    index: int

    def of(self, block: Block) -> Block:
        """Return the block with the rows of other cells absent."""
        cells = block.remember("cells", self.cells, lambda: self.cells(block))
        return replace(block, present=block.present & (cells == self.index))


@dataclass(frozen=True, eq=False)
class Question(ABC):
    """A total over rows. `name` labels it in the plan; `within` holds what a row adds; `part` says which rows count."""

    name: str
    of: RowFunction
    within: Bound
    part: Part | None = field(default=None, kw_only=True)

    @property
    def kind(self) -> str:
        """What sort of question this is, for the plan."""
        return type(self).__name__.lower()

    def bounded(self, block: Block) -> FloatArray:
        """Return each row's vector, inside the bound."""
        return self.within.project(self.of(block))

    def counting(self, block: Block) -> FloatArray:
        """Return the same of rows that count; zero of others."""
        return np.where(block.present[:, None], self.bounded(block), 0.0)

    def curve(self, neighbors: Neighbors) -> tuple[object, Curve] | None:
        """Return about which rows it asks, and how its sensitivity depends on the angle between two of them."""
        return None

    def sensitivity(self, norm: str, neighbors: Neighbors) -> Sensitivity:
        """Return how far neighbours move the answer.

        A question about one cell of a partition is priced for one row that enters or leaves the cell; how many such
        steps neighbours are apart is counted where the cells are priced together.
        """
        if self.part is not None:
            return self.within.one_row(norm, "add_remove")
        return self.within.sensitivity(norm, neighbors)

    def answer(self, block: Block) -> Total | Gathered | Quadratic:
        """Return the exact answer for one block, of the rows that are asked about."""
        return self.total(block if self.part is None else self.part.of(block))

    @abstractmethod
    def total(self, block: Block) -> Total | Gathered | Quadratic:
        """Return the exact answer for one block; answers for several blocks add up with ``+``."""


@dataclass(frozen=True, eq=False)
class Sum(Question):
    """The sum over rows of ``of(block)``; an absent row adds nothing."""

    def total(self, block: Block) -> Total:
        return total(self.counting(block), self.within.one_row("linf", "add_remove").size)


@dataclass(frozen=True, eq=False)
class Gram(Question):
    """The sums of products of the entries of ``of(block)``, never materialised as rows by products."""

    within: Moments | ColumnMoments

    def total(self, block: Block) -> Total:
        return gram(self.counting(block), self.within.pairs)


@dataclass(frozen=True, eq=False)
class Directed(Question):
    """A total of vectors along `rows`, held in the unit ball here, each times its number ``of(block)`` in [-1, 1].

    Questions with the same `rows` are about the same vectors, so that angles between them can be priced.
    """

    within: Pulls | PullsAndScale | Products
    rows: RowFunction

    def curve(self, neighbors: Neighbors) -> tuple[object, Curve] | None:
        curve = self.within.curve(neighbors)
        return None if curve is None else (self.rows, curve)

    def held(self, block: Block) -> FloatArray:
        """Return the vectors, shape (n, m), zero where absent."""
        return block.remember("held", self.rows, lambda: into_ball(block.present[:, None] * self.rows(block)))

    def pull(self, block: Block) -> FloatArray:
        """Return their numbers, shape (n,)."""
        return clip_to_one(self.of(block))


@dataclass(frozen=True, eq=False)
class Score(Directed):
    """The sum of the vectors, each times its number."""

    within: Pulls

    def bounded(self, block: Block) -> FloatArray:
        return np.column_stack([self.held(block), self.pull(block)])

    def total(self, block: Block) -> Total:
        return weighted_sum(self.held(block), self.pull(block))


@dataclass(frozen=True, eq=False)
class ScoreAndScale(Directed):
    """The sum of the vectors, each times its number, and at last of what tells how large residuals are.

    ``of(block)`` gives a row's residual, weight and length, shape (n, 3).
    """

    within: PullsAndScale

    def bounded(self, block: Block) -> FloatArray:
        numbers = np.where(block.present[:, None], self.of(block), 0.0)
        return self.within.project(np.column_stack([self.held(block), numbers]))

    def total(self, block: Block) -> Total:
        s, scale = self.within.numbers(self.bounded(block))
        score, sums = weighted_sum(self.held(block), s), weighted_sum(scale[:, None], np.ones(len(scale)))
        return Total((*score.units, *sums.units), score.step)


@dataclass(frozen=True, eq=False)
class Outer(Directed):
    """The sums of products of the vectors' entries; where `within` is pulled, of the vectors times their numbers."""

    within: Products

    def bounded(self, block: Block) -> FloatArray:
        u = self.held(block)
        return onto_grid(u * self.pull(block)[:, None]) if self.within.pulled else u

    def total(self, block: Block) -> Total:
        return gram(self.bounded(block), self.within.pairs)


@dataclass(frozen=True, eq=False)
class Histogram(Question):
    """The total weight of the rows in each bin, of a number and a weight for each row; an absent row has no weight."""

    within: Bins

    def total(self, block: Block) -> Total:
        rows = self.bounded(block)
        weights = np.where(block.present, rows[:, 1] * GRID, 0.0)  # whole numbers: float sums of 2^32 rows are exact
        units = np.bincount(self.within.bins(rows), weights, self.within.dim)
        return Total(tuple(int(unit) for unit in units), 1 / GRID)


@dataclass(frozen=True, eq=False)
class Tally(Question):
    """How many rows have each position, of which ``of(block)`` gives one for each row; an absent row has none."""

    within: OneHot

    def bounded(self, block: Block) -> FloatArray:
        positions = self.of(block)
        return np.clip(np.nan_to_num(positions), 0, self.within.dim - 1).round()

    def total(self, block: Block) -> Total:
        counts = np.bincount(self.bounded(block)[block.present, 0].astype(np.intp), minlength=self.within.dim)
        return Total(tuple(int(count) << SUM_BITS for count in counts), 2.0**-SUM_BITS)  # noise is no whole number


@dataclass(frozen=True, eq=False)
class Objective(Question):
    """A sum of squared losses as a function of theta, for mechanisms that choose theta: known by its coefficients."""

    within: Scores

    def total(self, block: Block) -> Quadratic:
        return Quadratic(gram(self.counting(block), self.within.pairs), self.within.dim)


@dataclass(frozen=True, eq=False)
class Each(Question):
    """The values of ``of(block)`` themselves, for mechanisms that look at their order; an absent row has none.

    Where all rows are declared complete, so that the number of values is public, one that is absent after all has the
    middle of the range.

    Values of one coordinate are handed on as a vector, of several as a matrix.
    """

    within: Line
    wanted: Wanted = field(default_factory=Wanted)

    def total(self, block: Block) -> Gathered:
        values = self.bounded(block)
        if self.within.counted:  # as many values as rows, whatever the rows are
            values = np.where(block.present[:, None], values, (self.within.low + self.within.high) / 2)
        elif not block.present.all():
            values = values[block.present]
        return Gathered((values[:, 0] if self.within.dim == 1 else values,), self.wanted)


@dataclass(frozen=True, eq=False)
class Pairs(Question):
    """The rows (x, y) themselves, for mechanisms that choose theta by their losses; an absent row is left out."""

    within: CheckScores | GlmScores
    wanted: Wanted = field(default_factory=Wanted)

    def total(self, block: Block) -> Gathered:
        return Gathered((self.bounded(block)[block.present],), self.wanted)
