"""A bare factor: one expression without bounds, as rows see it when its range is bought."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from privstats.older.formula.block import Block
from privstats.older.formula.domain import Domain
from privstats.older.formula.factors import NumericFactor, factor


@dataclass(frozen=True, eq=False)
class BareFactor:
    """Maps raw rows to the values of one factor; implements what `MemoryRows` uses of a design."""

    code: str
    domain: Domain

    @property
    def _factor(self) -> NumericFactor:
        part = factor(self.code, self.domain, clamp=False)
        assert isinstance(part, NumericFactor)
        return part

    @property
    def reads(self) -> tuple[str, ...]:
        """The raw columns that the factor reads."""
        return self._factor.reads

    def block(self, columns: Mapping[str, pd.Series] | pd.DataFrame) -> Block:
        """Map raw rows to the factor's values, held in the block as its response."""
        rows, present = self.domain.admit(columns, self.reads)
        values = self._factor.eval({}, rows)
        present &= ~np.isnan(values)
        return Block(np.zeros((len(values), 0)), np.where(present, values, 0.0), present)
