"""What an estimator is given: a way to ask, public facts, and the name of the noise it may use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol

import numpy as np

from privstats.older.gate.questions import Part, Question
from privstats.older.inference.answer import Estimate
from privstats.older.losses.families import Family
from privstats.older.losses.location import ByGroup
from privstats.older.numerics.law import FloatArray
from privstats.older.privacy.neighbors import Neighbors
from privstats.older.privacy.release import Release


@dataclass(frozen=True)
class Place:
    """What is publicly known of a column whose location is asked.

    Parameters
    ----------
    code : str
        How the formula writes it.
    low, high : float
        Its range; of positions, where it has levels.
    step : float
        Of the public grid on which its values lie, or are rounded to.
    rounding : float
        How far a value may lie from that grid.
    declared : bool
        Whether the grid was declared.
    levels : int
        How many declared levels it has; 0 for numbers.
    """

    code: str
    low: float
    high: float
    step: float
    rounding: float = 0.0
    declared: bool = False
    levels: int = 0

    def spelt(self, values: FloatArray) -> FloatArray:
        """Return points of the grid as the floats that people write: 20.7, and not 207 times .1."""
        digits = max(0, -int(Decimal(repr(self.step)).normalize().as_tuple().exponent))
        return np.round(values, digits)


@dataclass(frozen=True)
class Facts:
    """What everybody may know of a fit before any row is read.

    Parameters
    ----------
    n : int, optional
        Number of rows offered; None where neighbours differ in it.
    columns : int
        Predictors, without the intercept.
    intercept : bool
        Whether the model has one.
    complete : bool
        Whether every row is declared to have all its values, and counts as one.
    weighted : bool
        Whether rows weigh differently, so that their total weight is not their number.
    neighbors : Neighbors
        The promise's relation.
    currency : {"eps", "mu", "delta"}
        Of the promise; "delta" is eps and delta.
    names : tuple of str
        Of the coefficients, for notes.
    inference : bool
        Whether intervals are wanted.
    groups : tuple of tuple of int
        Predictors that are the dummies of one factor (`Design.groups`).
    robust : bool
        Whether intervals must hold where the error variance is not constant.
    theta_bound : float
        Bound of ``|theta|_1`` in scaled units, for mechanisms that need a parameter set.
    split : float, optional
        Of objective perturbation.
    ridge : float or "adaptive", optional
        Penalty of the reported coefficients, in scaled units.
    places : tuple of Place
        The columns, of a verb that asks where they lie.
    cells : tuple
        Declared groups by which it asks; empty if there are none.
    q : tuple of float
        Orders of the quantiles that are wanted, ascending.
    confidence : float
        Of the intervals that are bought with quantiles.
    edges : tuple of float
        Of the bins that are wanted, ascending.
    density : bool
        Whether densities are wanted in place of counts.
    eta : float, optional
        How far a row may move a quantile if propose-test-release is to answer.
    family : Family, optional
        Of a generalised linear model.
    bounded : bool
        Whether all columns have bounds; else some are known by their scale alone.
    usual : tuple of tuple of two floats
        Centre and standard deviation of what each predictor, and at last the response, usually is when scaled; where
        the algorithm needs them.
    margins : bool
        Whether average marginal effects are wanted.
    dummies : tuple of tuple of int
        Predictors that are the dummies of one factor that stands alone.
    offset : tuple of two floats, optional
        Range of what is added to the linear predictor; None if nothing is.
    joint : bool
        Whether one point among all columns is wanted (the geometric median), in place of one in each.
    """

    n: int | None
    columns: int
    intercept: bool
    complete: bool
    neighbors: Neighbors
    currency: str = field(default="eps", repr=False)  # fingerprints of plans hold the promise itself
    names: tuple[str, ...] = ()
    weighted: bool = False
    inference: bool = True
    groups: tuple[tuple[int, ...], ...] = ()
    robust: bool = False
    theta_bound: float = 2.0
    split: float | None = None
    ridge: float | str | None = None
    places: tuple[Place, ...] = ()
    cells: tuple[object, ...] = ()
    q: tuple[float, ...] = (0.5,)
    confidence: float = 0.95
    edges: tuple[float, ...] = ()
    density: bool = False
    eta: float | None = None
    joint: bool = False
    family: Family | None = field(default=None, repr=False)  # fingerprints name it where there is one
    usual: tuple[tuple[float, float], ...] = field(default=(), repr=False)  # these follow from domain and formula,
    bounded: bool = field(default=True, repr=False)
    margins: bool = field(default=False, repr=False)  # and what is asked shows this
    dummies: tuple[tuple[int, ...], ...] = field(default=(), repr=False)
    offset: tuple[float, float] | None = field(default=None, repr=False)

    @property
    def coefficients(self) -> int:
        """Number of coefficients, the intercept included."""
        return self.columns + self.intercept

    @property
    def usual_columns(self) -> FloatArray:
        """Centre and standard deviation of what each predictor usually is, shape (columns, 2)."""
        return np.array(self.usual[:-1], dtype=float).reshape(-1, 2)

    @property
    def no_intervals_because(self) -> tuple[str, ...]:
        """Why no interval can be given, whatever is released; empty if there may be some."""
        if not self.inference:
            return ("no intervals: inference='none'",)
        if self.neighbors.rows_per_unit > 1:
            return ("no intervals: what is released does not tell how the rows of one unit vary together",)
        return ()

    @property
    def interval_free(self) -> bool:
        """Whether no interval can be given, or none is wanted."""
        return bool(self.no_intervals_because)

    @property
    def count_is_public(self) -> bool:
        """Whether the number of rows used is known without asking."""
        return self.complete and self.n is not None


def cells_of(facts: Facts) -> list[Part | None]:
    """Return the rows of each group, cells of one partition; all rows, if there are no groups."""
    cells = ByGroup()
    return [Part(cells, g) for g in range(len(facts.cells))] if facts.cells else [None]


def chained(length: int, steps: str) -> tuple[str, ...]:
    """Return the note on a value that is the end of a Markov chain of this length."""
    return (
        f"The draw is from a Markov chain of {length} {steps}: the guarantee holds for its target density; the "
        "distance from it is measured, not proved.",
    )


class Ask(Protocol):
    """The one verb: put questions, get releases."""

    def __call__(
        self, questions: Question | Sequence[Question], *, by: str | Sequence[str], share: float | Sequence[float] = 1.0
    ) -> tuple[Release, ...]: ...


class Estimator(Protocol):
    """A function of `ask`."""

    def __call__(self, ask: Ask, facts: Facts, noise: str) -> Estimate: ...


@dataclass(frozen=True)
class Algorithm:
    """A registered estimator, and what an analyst may choose about it.

    Parameters
    ----------
    run : Estimator
        The conversation.
    noises : tuple of str
        Laws or norms it has.
    options : tuple of str
        Options of the verb that it understands, beside those that every algorithm does.
    most : int, optional
        Largest number of coefficients, where more would take too long.
    widest : float
        Largest bound of ``|theta|_1``, where a wider one would take too long, or double arithmetic is not fine enough.
    cov_type : {"nonrobust", "HC"}
        What its intervals assume where nothing is asked for.
    drawn : int, optional
        Number of coefficients, or of coordinates of a point, up to which the draw has the stated law; of more it is the
        end of a Markov chain, which ``mech="auto"`` does not take.
    normal : bool
        Whether under mu or delta its noise is "gaussian" where nothing is asked for; else it is the first of `noises`.
    """

    run: Estimator
    noises: tuple[str, ...]
    options: tuple[str, ...] = ()
    most: int | None = None
    widest: float = 1e6
    cov_type: str = "nonrobust"
    normal: bool = True
    drawn: int | None = None
