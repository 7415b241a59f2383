"""Find out whether a column's values lie on a coarse decimal grid, as ages, prices and counts do.

Where many values are equal, order statistics drawn on a fine grid fall between them, and ends of intervals may miss by
the width of a gap; on the values' own grid they do not. A wrong guess costs length only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from privstats.estimators.columns import ColumnFacts, Grouping
from privstats.gate.questions import Ask, Sum
from privstats.losses.location import ColumnValues, OnGrids
from privstats.mechanisms.additive.cube import Cube
from privstats.privacy.release import Release
from privstats.sets.vectors import Fractions

COARSEST_STEP, FINEST_STEP = (
    0,
    2,
)  # candidate steps are 10^-k of the leading power of ten of the range, k from the first to the last
OFF = 0.03  # share of the rows that may lie off a grid
DOUBT = 1.3  # standard errors of a count that are allowed beyond that share
BLUR = 0.28  # largest standard error of a count, as a share of the rows: half of them must be told from all


def on_grids(ask: Ask, columns: Sequence[ColumnFacts], grouping: Grouping) -> tuple[ColumnFacts, ...]:
    """Return the columns with the coarsest grid on which nearly all their values lie, where none was declared.

    Parameters
    ----------
    ask : Ask
        The conversation.
    columns : sequence of ColumnFacts
    grouping : Grouping
        All rows are asked about, whatever their groups.

    Returns
    -------
    tuple of ColumnFacts
    """
    steps = {j: _candidates(column) for j, column in enumerate(columns) if not column.declared}
    releases = ask.together([(_question(columns[j], grouping.column(j), tried), Cube()) for j, tried in steps.items()])
    found = {j: _coarsest(release, steps[j]) for j, release in zip(steps, releases, strict=True)}
    return tuple(replace(column, step=found.get(j) or column.step) for j, column in enumerate(columns))


def _question(column: ColumnFacts, values: ColumnValues, steps: tuple[float, ...]) -> Sum:
    """Return the question for how many rows there are, and how many of them lie on each grid."""
    return Sum("grid", OnGrids(values, steps), Fractions(1 + len(steps)), item=f"of {column.code}")


def _candidates(column: ColumnFacts) -> tuple[float, ...]:
    """Return candidate steps, coarse to fine."""
    leading = math.floor(math.log10(column.high - column.low))
    steps = [float(f"1e{leading - k}") for k in range(COARSEST_STEP, FINEST_STEP + 1)]
    return tuple(step for step in steps if step > column.step)


def _coarsest(release: Release, steps: tuple[float, ...]) -> float | None:
    """Return the coarsest step on which nearly all rows lie, as far as the release tells; None if there is none."""
    rows = max(1.0, float(release.value[0]))
    error = math.sqrt(2 * float(release.law.variance()[0]))
    if error > BLUR * rows:
        return None
    off = rows - np.asarray(release.value[1:])
    return next((step for step, few in zip(steps, off, strict=True) if few <= OFF * rows + DOUBT * error), None)
