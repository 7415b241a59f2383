"""What is looked at of a frame outside the gate: the names of its columns."""

from __future__ import annotations

import pandas as pd

from privstats.errors import FormulaError


def check_schema(frame: pd.DataFrame, names: tuple[str, ...]) -> None:
    """Refuse a frame that lacks a column or has it twice; looks at column names only.

    Raises
    ------
    FormulaError
        Naming the column.
    """
    if not isinstance(frame, pd.DataFrame):
        raise FormulaError(f"data must be a pandas DataFrame, not {type(frame).__name__}")
    offered = list(frame.columns)
    for name in names:
        if offered.count(name) != 1:
            raise FormulaError(f"the data have {'no' if name not in offered else 'more than one'} column '{name}'")
