"""Private test of whether a column's values lie on a coarse decimal grid, as ages, prices and counts do.

If many values are equal, order statistics drawn on a fine grid fall between them, and ends of intervals may be wrong
by the width of a gap; on the values' own grid they are not. A wrong answer only makes intervals longer: unless nearly
all values are found to lie on the grid, values are taken as rounded to it. Zeros lie on every grid: they are omitted.
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

CANDIDATES = 3  # number of decimal grid steps tested: the coarsest ones that fit into the range
OFF = 0.03  # a grid is accepted if at most this share of the values lies off the grid
DOUBT = 1.3  # the released count of values off the grid may exceed `OFF` x rows by this many standard errors
CLEAR = 0.1  # values are taken as exact, not as rounded, if the count's error is at most this share of the rows
LARGEST_ERROR = 0.28  # largest std error of a count, over all rows: half of the rows then differ clearly from all rows


def on_grids(ask: Ask, columns: Sequence[ColumnFacts], grouping: Grouping) -> tuple[ColumnFacts, ...]:
    """Return the columns; a column without a declared grid gets the coarsest grid that contains nearly all its values.

    Parameters
    ----------
    ask : Ask
        Function that asks queries of the data.
    columns : sequence of ColumnFacts
        Public information about the columns.
    grouping : Grouping
        Groups of rows; the queries are about the rows of all groups together.

    Returns
    -------
    tuple of ColumnFacts
    """
    steps = {j: _candidates(column) for j, column in enumerate(columns) if not column.declared}
    releases = ask.together([(_question(columns[j], grouping.column(j), tried), Cube()) for j, tried in steps.items()])
    found = list(columns)
    for j, release in zip(steps, releases, strict=True):
        found[j] = _coarsest(release, steps[j], columns[j])
    return tuple(found)


def _question(column: ColumnFacts, values: ColumnValues, steps: tuple[float, ...]) -> Sum:
    """Return the private query for the number of non-zero values, and the number of non-zero values on each grid."""
    return Sum("grid", OnGrids(values, steps), Fractions(1 + len(steps)), item=f"of {column.code}")


def _candidates(column: ColumnFacts) -> tuple[float, ...]:
    """Return candidate steps of the grid, from coarse to fine; if all exceed 1, the coarsest is replaced by 1.

    The reason: bounds may be declared far beyond the values, and counts are whole numbers.
    """
    leading = math.floor(math.log10(column.high - column.low))
    steps = [float(f"1e{leading - k}") for k in range(CANDIDATES)]
    steps = [*steps[1:], 1.0] if column.step < 1 < steps[-1] else steps
    return tuple(step for step in steps if step > column.step)


def _coarsest(release: Release, steps: tuple[float, ...], column: ColumnFacts) -> ColumnFacts:
    """Return the column with the coarsest grid that, by the release, contains nearly all values; else unchanged."""
    rows = max(1.0, float(release.value[0]))
    error = math.sqrt(2 * float(release.law.variance()[0]))
    allowed = OFF * rows + DOUBT * error
    on = [step for step, count in zip(steps, release.value[1:], strict=True) if rows - count <= allowed]
    if not on or error > LARGEST_ERROR * rows:
        return column
    return replace(column, step=on[0], between=DOUBT * error > CLEAR * rows)
