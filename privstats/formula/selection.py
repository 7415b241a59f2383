"""A condition that selects rows, and weights of rows; condition and weights are evaluated row by row during a fit.

Rows are selected during the fit, because the choice of rows is as confidential as the rows. If a DataFrame were
filtered before a fit, its number of rows, which is taken as public, would depend on confidential values.
"""

from __future__ import annotations

import io
import itertools
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privstats.errors import DomainError, FormulaError
from privstats.formula.domain import Domain
from privstats.formula.factors import NumericFactor, numeric
from privstats.formula.language import a
from privstats.numerics.law import FloatArray

LARGEST_OFFSET = 1000.0  # an offset whose bounds exceed this absolute value is refused
EXAMPLES = {"subset": "x > 0.5", "weights": "w", "offset": "np.log(years)"}
# replacements for the operators & | ~ in a condition; the words bind less tightly than >=, as in `DataFrame.query`
WORDS = {"&": "and", "|": "or", "~": "not"}


@dataclass(frozen=True, eq=False)
class Selection:
    """A condition that selects rows, and an expression for the weights of rows; each of the two is optional.

    Parameters
    ----------
    subset : NumericFactor, optional
        The condition. Rows in which the value of the condition is zero or missing contribute nothing.
    weights : NumericFactor, optional
        The expression for the weight of a row. The contribution of the row is multiplied by the ratio of its weight to
        the public upper bound of all weights.
    """

    subset: NumericFactor | None
    weights: NumericFactor | None

    @property
    def parts(self) -> tuple[NumericFactor, ...]:
        """The condition on rows, then the expression for the weights; an expression that is not given is left out."""
        return tuple(part for part in (self.subset, self.weights) if part is not None)

    @property
    def largest_weight(self) -> float:
        """Public upper bound on the weight of a row, by which all weights are divided; 1 if no weights are given."""
        return 1.0 if self.weights is None else self.weights.within.hi

    def keeps(self, rows: Mapping[str, Any], n: int) -> NDArray[np.bool_]:
        """Return the mask, shape (n,), of the rows that satisfy the condition and whose weight is not missing."""
        kept = np.ones(n, dtype=bool)
        if self.subset is not None:
            kept &= np.nan_to_num(self.subset.values(rows)[:, 0]) != 0
        if self.weights is not None:
            kept &= ~np.isnan(self.weights.values(rows)[:, 0])
        return kept

    def weighs(self, rows: Mapping[str, Any]) -> FloatArray | None:
        """Return the weight of each row, divided by the largest possible weight; None if no weights are given."""
        if self.weights is None:
            return None
        return np.clip(np.nan_to_num(self.weights.values(rows)[:, 0]) / self.largest_weight, 0.0, 1.0)


def select(subset: Any, weights: Any, domain: Domain) -> Selection:
    """Return the selection of rows that a condition defines, with an expression for the rows' weights.

    Parameters
    ----------
    subset : str, optional
        A condition such as ``"age >= 18 & region == 'N'"``.
    weights : str, optional
        A column or expression with public bounds that are not negative.
    domain : Domain
        Bounds and levels of the columns in the two expressions.

    Returns
    -------
    Selection

    Raises
    ------
    FormulaError, DomainError
        If an expression is not a row-wise function of columns, or the weights do not have bounds 0 <= low < high.
    """
    chosen = None if subset is None else expression("subset", _spelled_out(subset), domain)
    weighted = None if weights is None else expression("weights", weights, domain)
    if weighted is not None and not 0 <= weighted.within.lo < weighted.within.hi:
        low, high = weighted.within.lo, weighted.within.hi
        raise DomainError(
            f"weights='{weights}' lies between {low:g} and {high:g} by its declared bounds; declare 0 <= low < high, "
            f"as in domain={{'{weights}': (0, 10)}}"
        )
    return Selection(chosen, weighted)


def expression(argument: str, code: Any, domain: Domain) -> NumericFactor:
    """Convert text to a row-wise numeric expression, whose finite bounds follow from the declarations in `domain`.

    `argument` is the name of the fit's argument that received the text, such as "weights". The name is used in the
    error that is raised if `code` is not text.
    """
    if not isinstance(code, str):
        hidden = ", so that the number of rows chosen stays private" if argument == "subset" else ""
        raise FormulaError(f'{argument} is {a(code)}; write it as text, {argument}="{EXAMPLES[argument]}"{hidden}')
    return numeric(code, domain)


def addend(code: Any, domain: Domain) -> NumericFactor:
    """Convert the text `code` of the argument `offset` to a numeric expression, to be added to a linear predictor.

    An error is raised if a public bound of the offset exceeds `LARGEST_OFFSET` in absolute value.
    """
    offset = expression("offset", code, domain)
    if offset.within.magnitude > LARGEST_OFFSET:
        raise DomainError(
            f"offset='{code}' may be as large as {offset.within.magnitude:g} on the domain and is added to linear "
            f"predictors, which stay below {LARGEST_OFFSET:g}; write it on the link's scale, as in "
            "offset='np.log(years)'"
        )
    return offset


def _spelled_out(subset: Any) -> Any:
    """Return the text of a condition on rows, with ``and``, ``or``, ``not`` in place of & | ~.

    The words bind less tightly than comparisons, so that ``x > 1 & y > 2`` needs no brackets. An argument that is not
    text, or that cannot be split into tokens, is returned unchanged.
    """
    if not isinstance(subset, str):
        return subset
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(subset).readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return subset
    for sign, operand in itertools.pairwise(token.string for token in tokens):
        if sign == "~" and operand != "(":
            raise FormulaError(f"'~' in subset='{subset}' applies to a part without brackets; write ~(...)")
    return " ".join(WORDS.get(token.string, token.string) for token in tokens).strip()
