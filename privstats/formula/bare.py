"""Numeric expressions without declared bounds; their bounds are estimated privately from their values in the data.

Only the method `BareFactor.block` reads confidential rows. A privacy review must read this method.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from privstats.formula.block import Block
from privstats.formula.columns import plain_layout
from privstats.formula.domain import Domain
from privstats.formula.factors import NumericFactor, derived, unclamped
from privstats.formula.interval import Interval
from privstats.formula.terms import DesignFactor
from privstats.formula.values import admit
from privstats.numerics.law import Rng


@dataclass(frozen=True, eq=False)
class BareFactor:
    """A numeric expression without declared bounds; its unclamped values are used to estimate bounds privately.

    Parameters
    ----------
    code : str
        Text of the expression in the formula.
    domain : Domain
        Declared bounds and levels of the columns.
    """

    code: str
    domain: Domain

    width = 1
    weighted = False
    offset = False
    factors: tuple[DesignFactor, ...] = ()

    @cached_property
    def _part(self) -> NumericFactor:
        return unclamped(self.code, self.domain)

    @property
    def within(self) -> Interval:
        """Range of the expression's values, from the declared bounds of its columns; a bound may be infinite."""
        return derived(self.code, self.domain)

    @property
    def complete(self) -> bool:
        """True if the expression is a single column that the user declared to have no missing values."""
        plain = isinstance(self._part.node, ast.Name)
        return plain and all(name in self.domain.complete for name in self.reads)

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the columns of the data that the expression uses."""
        return self._part.reads

    def block(self, frame: Mapping[str, Any] | pd.DataFrame) -> Block:
        """Return the expression's value in each row, neither clamped nor scaled; each value depends on its row only.

        The columns in the expression are first clamped to their declared bounds, if any.
        """
        rows, present = admit(frame, self.reads, self.domain, self.domain.complete)
        values = self._part.values(rows)[:, 0]
        present &= ~np.isnan(values)
        present |= self.complete
        numbers = np.where(present & ~np.isnan(values), values, 0.0)[:, None]
        return Block(present, np.asfortranarray(numbers, dtype=float), (), plain_layout(1))

    def draw(self, n: int, rng: Rng) -> pd.DataFrame:
        """Return `n` synthetic rows of the expression's columns; no data are read.

        A column is uniform within its declared bounds; a column without declared bounds is uniform from 0.5 to 2.
        """
        return self.domain.draw(self.reads, n, rng)
