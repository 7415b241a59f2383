"""Which rows count, and how much: decided row by row inside the gate, so that it stays as secret as the rows.

Filtering a frame before a fit would make its length, which is public, a statement about the rows.
"""

from __future__ import annotations

import io
import itertools
import tokenize
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privstats.errors import DomainError, FormulaError
from privstats.older.formula.domain import Domain
from privstats.older.formula.factors import NumericFactor, condition
from privstats.older.numerics.law import FloatArray

LARGEST_OFFSET = 1000.0
_WORDS = {"&": "and", "|": "or", "~": "not"}  # as in pandas' query, where & binds weaker than >=


@dataclass(frozen=True)
class Selection:
    """A condition on rows and a weight of rows; either may be missing.

    Parameters
    ----------
    subset : NumericFactor, optional
        Rows where it is zero or missing contribute nothing.
    weights : NumericFactor, optional
        A row counts as `weights`, divided by its public upper bound.
    """

    subset: NumericFactor | None
    weights: NumericFactor | None

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that are read."""
        return tuple(name for part in (self.subset, self.weights) if part is not None for name in part.reads)

    @property
    def largest_weight(self) -> float:
        """The weight that counts as one row."""
        return self.weights.within.hi if self.weights is not None else 1.0

    def keeps(self, rows: pd.DataFrame) -> NDArray[np.bool_]:
        """Return which admitted rows count."""
        kept = np.ones(len(rows), dtype=bool)
        if self.subset is not None:
            holds = self.subset.eval({}, rows)
            kept &= ~np.isnan(holds) & (holds != 0)
        if self.weights is not None:
            kept &= ~np.isnan(self.weights.eval({}, rows))
        return kept

    def weighs(self, rows: pd.DataFrame) -> FloatArray | None:
        """Return the weight of each row, in [0, 1]; None if all weigh the same."""
        if self.weights is None:
            return None
        return np.clip(np.nan_to_num(self.weights.eval({}, rows)) / self.largest_weight, 0.0, 1.0)


def select(subset: Any, weights: Any, domain: Domain) -> Selection:
    """Return the selection that two expressions write.

    Parameters
    ----------
    subset : str, optional
        A condition such as ``"age >= 18 & region == 'N'"``.
    weights : str, optional
        A column or expression with public bounds, nowhere negative.
    domain : Domain
        Bounds and levels of what they read.

    Returns
    -------
    Selection

    Raises
    ------
    FormulaError, DomainError
        If an expression is not row-wise, or the weights are not bounded.
    """
    chosen = None if subset is None else expression("subset", _spelt_out(subset), domain)
    weighted = None if weights is None else expression("weights", weights, domain)
    if weighted is not None and not 0 <= weighted.within.lo < weighted.within.hi:
        raise DomainError(f"weights='{weights}' must have public bounds (low, high) with 0 <= low < high")
    return Selection(chosen, weighted)


def expression(what: str, code: Any, domain: Domain) -> NumericFactor:
    """Return a row-wise numeric expression with public bounds; `what` names the argument that holds it."""
    if not isinstance(code, str):
        raise FormulaError(f"{what} must be an expression in the columns, as text")
    return condition(code, domain)


def addend(code: Any, domain: Domain) -> NumericFactor:
    """Return what is added to linear predictors, which must make sense as a part of one."""
    offset = expression("offset", code, domain)
    if max(-offset.within.lo, offset.within.hi) > LARGEST_OFFSET:
        raise DomainError(
            f"offset='{code}' may be larger than {LARGEST_OFFSET:g} on the domain: linear predictors are not; it is in "
            "the unit of the link's scale"
        )
    return offset


def _spelt_out(subset: Any) -> Any:
    """Return a condition with & | ~ as and, or, not."""
    if not isinstance(subset, str):
        return subset
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(subset).readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return subset
    for sign, operand in itertools.pairwise(token.string for token in tokens):
        if sign == "~" and operand != "(":
            raise FormulaError(f"in subset='{subset}', write ~(...): what ~ applies to must stand in brackets")
    return " ".join(_WORDS.get(token.string, token.string) for token in tokens).strip()
