"""A design that several fits of one formula share: coefficients by (term, order)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from patsy import DesignInfo
from scipy.linalg import block_diag

from privstats.older.formula.design import Design
from privstats.older.formula.domain import Domain
from privstats.older.formula.terms import constraint_on
from privstats.older.numerics.law import FloatArray


@dataclass(frozen=True, eq=False)
class Stacked:
    """The map of a design, once for each of several orders of a quantile."""

    design: Design
    orders: tuple[float, ...]

    @property
    def domain(self) -> Domain:
        """What was declared of the columns."""
        return self.design.domain

    @property
    def response(self) -> str:
        """Name of the response."""
        return self.design.response

    @property
    def response_unit(self) -> float:
        """As of the design."""
        return self.design.response_unit

    @property
    def written(self) -> tuple[str | None, ...]:
        """As of the design."""
        return self.design.written

    @property
    def index(self) -> pd.Index:
        """Labels (term, order), all terms of one order together."""
        pairs = [(name, order) for order in self.orders for name in self.design.names]
        return pd.MultiIndex.from_tuples(pairs, names=("term", "component"))

    @property
    def names(self) -> tuple[str, ...]:
        """The same labels as text."""
        return tuple(f"{name}[{order:g}]" for name, order in self.index)

    def spelt(self, values: FloatArray) -> FloatArray:
        """Return coefficients as they are reported: as they are."""
        return values

    def original(self) -> tuple[FloatArray, FloatArray]:
        """Return (linear, offset) of `Design.original` for all orders."""
        linear, offset = self.design.original()
        return block_diag(*(linear for _ in self.orders)), np.tile(offset, len(self.orders))

    def fitted(self, new_data: pd.DataFrame, params: FloatArray, linear: bool = False) -> pd.DataFrame:
        """Return the fitted quantiles of new rows, a column an order, never crossing: sorted row by row.

        Rearranged quantiles are no further from the true ones (Chernozhukov, Fernandez-Val and Galichon 2010).
        """
        each = self.design.matrix(new_data) @ params.reshape(len(self.orders), -1).T
        return pd.DataFrame(np.sort(each, axis=1), new_data.index, pd.Index(self.orders, name=self.response))

    def constraint(self, hypothesis: Any) -> tuple[FloatArray, FloatArray]:
        """Return (R, r) such that the hypothesis reads ``R @ params = r``; names are like ``x[0.5]``."""
        return constraint_on(DesignInfo(list(self.names)), hypothesis)
