"""What a plan may be expected to deliver: standard errors and widths, before any budget is spent.

The estimator is run once more on synthetic rows, blown up to the planned number of rows, with answers that carry the
law of their noise but none of it. So what is expected is computed by the code that will compute the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from privstats.errors import BudgetError, PrivacyError
from privstats.mechanisms.random import public_stream
from privstats.older.formula.block import Block
from privstats.older.formula.columns import Columns
from privstats.older.formula.design import Design
from privstats.older.formula.schema import check_schema
from privstats.older.formula.terms import is_binary
from privstats.older.gate.gate import Conversation, Speaker, Turn
from privstats.older.gate.questions import Question
from privstats.older.gate.rows import MemoryRows
from privstats.older.numerics.exact import Gathered, Total
from privstats.older.numerics.law import FloatArray
from privstats.older.privacy.neighbors import Neighbors
from privstats.older.privacy.release import Release

SYNTHETIC_ROWS = 4096
HALF, LOW = 0.5, 0.05  # mean response, as a part of the largest, of models with a link: binary ones, others
SEVERAL = 25  # draws of a mechanism whose noise has no law of its own


@dataclass(frozen=True, eq=False, repr=False)
class AssumedRows(MemoryRows):
    """Synthetic rows whose response is noise of a given scale, about a middle."""

    middle: float
    residual: float

    def _blocks(self) -> Iterator[Block]:
        for block in super()._blocks():
            weight = 1.0 if block.weight is None or self.middle else np.maximum(block.weight, 1e-6)
            y = np.clip(self.middle + self.residual / np.sqrt(weight) * _signs(block), -1.0, 1.0)
            yield replace(block, y=np.where(block.present, y, 0.0))


def _signs(block: Block) -> FloatArray:
    """Return +-1, a fixed pattern that owes nothing to the predictors."""
    return np.where(public_stream(-2).integers(0, 2, len(block.y)) == 1, 1.0, -1.0)


class Forecast(Conversation):
    """A conversation about synthetic rows that stand for `n`, answered without noise."""

    def __init__(self, rows: MemoryRows, n: float, speakers: Sequence[Speaker]) -> None:
        super().__init__(rows, public_stream)
        self._blow_up = n / len(rows.frame)
        self._speakers = list(speakers)

    def _turn(self, question: Question, turn: Turn) -> Speaker:
        return self._speakers.pop(0)

    def _answer(self, questions: Sequence[Question], speakers: Sequence[Speaker]) -> tuple[Release, ...]:
        noisy = super()._answer(questions, speakers)
        exact = self._rows.sum(questions)
        return tuple(
            release  # of a mechanism that chooses among counts
            if isinstance(total, Total) and release.law is None
            else replace(release, value=self._expected(question, speaker, total))
            for release, question, speaker, total in zip(noisy, questions, speakers, exact, strict=True)
        )

    def _expected(self, question: Question, speaker: Speaker, total: Any) -> FloatArray:
        """Return what as many rows as were planned would be answered without noise, or on average."""
        if not isinstance(total, Gathered):
            return total.expected(self._blow_up)
        many = total.expected(self._blow_up)
        sensitivity = question.sensitivity(speaker.norm, self._rows.neighbors)
        draws = [speaker.release(question.name, many, sensitivity, public_stream(-3 - k)).value for k in range(SEVERAL)]
        return np.mean(draws, axis=0)


def assumed_rows(
    design: Design | Columns, neighbors: Neighbors, like: pd.DataFrame | None, residual: float | None
) -> MemoryRows:
    """Return the rows a forecast assumes.

    Parameters
    ----------
    design : Design or Columns
        The planned row-wise map.
    neighbors : Neighbors
        The planned relation.
    like : DataFrame, optional
        Synthetic or public rows; by default predictors uniform on the domain.
    residual : float, optional
        Residual standard deviation in the response's units; by default that of `like`, or an eighth of the
        response's range.

    Returns
    -------
    MemoryRows
    """
    if residual is not None and (isinstance(design, Columns) or design.family is not None):
        raise PrivacyError("residual= belongs to regressions without a link; give like= rows to stand for the data")
    if like is not None:
        check_schema(like, design.reads)
    elif isinstance(design, Design) and design.family is None and residual is None:
        residual = design.response_unit / 4
    frame = like if like is not None else design.domain.draw(design.reads, SYNTHETIC_ROWS, public_stream(-1))
    if neighbors.unit is not None:
        frame = frame.assign(**{neighbors.unit: range(len(frame))})
    if like is None and isinstance(design, Design) and design.family is not None:
        level = HALF if is_binary(design.family) else LOW
        return AssumedRows(frame, design, neighbors, level, level)
    if residual is None:
        return MemoryRows(frame, design, neighbors)
    if not 0 < residual < math.inf:
        raise PrivacyError("residual= must be a positive number, in the units of the response")
    return AssumedRows(frame, design, neighbors, 0.0, residual / design.response_unit)


def smallest(reaches: Callable[[float], bool], start: float, what: str) -> float:
    """Return the smallest number at which a monotone condition holds, to 0.1 %.

    Raises
    ------
    BudgetError
        If it does not hold anywhere within a factor of 10^9 of `start`.
    """
    low, high = start, start
    while not reaches(high):
        low, high = high, 4 * high
        if high > 1e9 * start:
            raise BudgetError(f"no {what} is enough: the sampling error alone is wider")
    while low == high or (reaches(low) and low > 1e-9 * start):
        high, low = low, low / 4
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high
