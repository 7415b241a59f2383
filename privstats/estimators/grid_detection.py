"""Private test of whether a column's values lie on a coarse decimal grid, such as whole numbers or cents.

If many values are equal, order statistics that are drawn on a fine grid fall between the values, and the endpoints of
an interval may be wrong by the distance between two values. Order statistics that are drawn on the grid of the values
do not have this error. The test accepts a grid if a release shows that nearly all values lie on it. If the release is
imprecise, values are treated as rounded to the accepted grid, and intervals are widened by half a step at both
endpoints. A grid that is accepted by mistake from an imprecise release therefore only makes intervals longer. Zeros
lie on every grid and are not counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from privstats.estimators.columns import ColumnFacts, Grouping
from privstats.gate.questions import Ask, Sum
from privstats.losses.location import ColumnValues, OnGrids
from privstats.mechanisms.additive.cube import Cube
from privstats.privacy.release import Release
from privstats.sets.vectors import Fractions

CANDIDATES = 3  # number of grid steps tested: the largest powers of ten within the range
OFF = 0.03  # a grid is accepted if at most this share of the values lies off the grid
DOUBT = 1.3  # the released count of values off the grid may exceed the limit `OFF` by this many standard errors
CLEAR = 0.1  # values count as rounded to the grid if `DOUBT` std errors of a count exceed this share of all values
LARGEST_ERROR = 0.28  # no grid is accepted if the std error of a count exceeds this share of the number of values


def on_grids(ask: Ask, columns: Sequence[ColumnFacts], grouping: Grouping) -> tuple[ColumnFacts, ...]:
    """Find a grid for each column without a declared grid: the coarsest tested grid that contains nearly all values.

    Parameters
    ----------
    ask : Ask
        Function that sends queries to the data and returns noisy releases.
    columns : sequence of ColumnFacts
        Public information about the columns.
    grouping : Grouping
        Groups of rows; the queries are about the rows of all groups together.

    Returns
    -------
    tuple of ColumnFacts
        The descriptions of the columns, with the grids found. If the test accepts no grid for a column, the column
        keeps its present grid.
    """
    steps = {j: _candidates(column) for j, column in enumerate(columns) if not column.declared}
    releases = ask.together([(_question(columns[j], grouping.column(j), tried), Cube()) for j, tried in steps.items()])
    found = list(columns)
    for j, release in zip(steps, releases, strict=True):
        found[j] = _coarsest(release, steps[j], columns[j])
    return tuple(found)


def _question(column: ColumnFacts, values: ColumnValues, steps: tuple[float, ...]) -> Sum:
    """Return the query for the number of non-zero values, and for the number of these values on each candidate grid."""
    return Sum("grid", OnGrids(values, steps), Fractions(1 + len(steps)), item=f"of {column.code}")


def _candidates(column: ColumnFacts) -> tuple[float, ...]:
    """Return the candidate grid steps for a column, powers of ten from coarse to fine.

    If all candidates exceed 1, the coarsest candidate is replaced by 1, because many columns are counts, and their
    declared bounds may be far beyond the values.
    """
    leading = math.floor(math.log10(column.high - column.low))
    steps = [float(f"1e{leading - k}") for k in range(CANDIDATES)]
    steps = [*steps[1:], 1.0] if column.step < 1 < steps[-1] else steps
    return tuple(step for step in steps if step > column.step)


def _coarsest(release: Release, steps: tuple[float, ...], column: ColumnFacts) -> ColumnFacts:
    """Return the description of the column, with its grid replaced by the coarsest accepted grid.

    A grid of one of the candidate steps `steps` is accepted if nearly all values lie on it, according to the release.
    If no grid is accepted, or if the release is too noisy, the column keeps its present grid. The description also
    receives the released number of nonzero values (`ColumnFacts.filled`).
    """
    rows = max(1.0, float(release.value[0]))
    error = math.sqrt(2 * float(release.law.variance()[0]))
    allowed, column = OFF * rows + DOUBT * error, replace(column, filled=rows + DOUBT * error)
    on = [step for step, count in zip(steps, release.value[1:], strict=True) if rows - count <= allowed]
    if not on or error > LARGEST_ERROR * rows:
        return column
    return replace(column, step=on[0], between=DOUBT * error > CLEAR * rows)
