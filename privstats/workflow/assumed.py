"""Synthetic rows that a forecast assumes: by hints about columns where there are any, else by a rule for all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from privstats.errors import OptionError, quote
from privstats.formula.block import Block, on_block_grid
from privstats.formula.declarations import Dates, Known, Numbers
from privstats.formula.domain import Domain
from privstats.formula.expression import columns, parse
from privstats.formula.hints import Hint, levels_with_shares
from privstats.formula.schema import check_schema
from privstats.gate.rows import BlockRows
from privstats.gate.sources import Frame
from privstats.mechanisms.random import public_stream
from privstats.numerics.law import FloatArray
from privstats.privacy.promise import Neighbors

ROWS = 4096
FILLED = 0.25  # of its bounds, which a column fills
SPREAD = 1 / 6  # residual standard deviation over the response's half-range: a twelfth of its range
HALF, LOW = 0.5, 0.05  # mean response over the largest one, of models with a link: binary ones, others
ASSUMED = "\0assumed response"  # name of a column that no frame has
PREDICTORS, RESPONSE, HINTED = -1, -2, -50  # public streams


@dataclass(frozen=True, eq=False)
class AssumedDesign:
    """A design whose response is read from a column of its own, in the units of the block.

    Parameters
    ----------
    design : Design
    middle : float
        What the response varies about; without a link, 0: then a row's weight scales its variance.
    """

    design: Any
    middle: float

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of the design, and the response's."""
        return (*self.design.reads, ASSUMED)

    @property
    def domain(self) -> Mapping[str, Known]:
        """What is declared of the design's columns."""
        known: Mapping[str, Known] = self.design.domain
        return known

    @property
    def complete(self) -> bool:
        """Whether every row is present."""
        return bool(self.design.complete)

    def block(self, frame: Mapping[str, Any]) -> Block:
        """Return the block of the design with the assumed response."""
        block: Block = self.design.block(frame)
        residual = np.asarray(frame[ASSUMED], dtype=float)
        if not self.middle:
            residual = residual / np.sqrt(np.maximum(block.weight, 1e-6))
        response = on_block_grid(np.clip(self.middle + residual, -1.0, 1.0))
        numbers = block.numbers.copy(order="F")
        numbers[:, -1] = np.where(block.present, response, 0.0)
        return replace(block, numbers=numbers)


def assumed_rows(
    design: Any,
    neighbors: Neighbors,
    n: int,
    like: pd.DataFrame | None,
    residual: float | None,
    hints: Mapping[str, Hint],
) -> BlockRows:
    """Return the rows that a forecast assumes.

    A response whose columns all have hints is drawn by these, apart from the predictors.

    Raises
    ------
    OptionError
        If `residual` is not a positive number, or the model has none.
    FormulaError
        If `like` lacks a column.
    """
    regression = hasattr(design, "response_half")
    linked = getattr(design, "family", None) is not None
    if residual is not None:
        if linked or not regression:
            raise OptionError("residual belongs to regressions without a link; give like= rows to stand for the data")
        if isinstance(residual, bool) or not isinstance(residual, int | float) or not 0 < residual < math.inf:
            raise OptionError(f"residual is {quote(residual)}; give a positive number in units of the response")
    if like is not None:
        check_schema(like, design.reads)
        frame = like.reset_index(drop=True)
    else:
        drawn = usual_rows(design.domain, design.reads, hints)
        frame = drawn.head(max(n, 1))  # of one draw, so that forecasts change little from one n to the next
    if neighbors.unit is not None:
        frame = frame.assign(**{neighbors.unit: range(len(frame))})
    known = like is not None or (regression and hints.keys() >= set(columns(parse(design.response))))
    if regression and (not known or residual is not None):
        spread = SPREAD if residual is None else residual / design.response_half
        frame, design = _with_response(frame, design, spread, linked)
    return BlockRows(Frame(frame), design, neighbors, b"forecast")


def _with_response(frame: pd.DataFrame, design: Any, spread: float, linked: bool) -> tuple[pd.DataFrame, AssumedDesign]:
    """Return the rows with a response that owes nothing to the predictors."""
    rng = public_stream(RESPONSE)
    if not linked:
        pattern, middle = spread * rng.standard_normal(len(frame)), 0.0
    else:
        middle = HALF if design.family.support == (0.0, 1.0) else LOW
        pattern = np.where(rng.integers(0, 2, len(frame)) == 1, middle, -middle)
    return frame.assign(**{ASSUMED: pattern}), AssumedDesign(design, middle)


def usual_rows(domain: Domain, reads: Sequence[str], hints: Mapping[str, Hint]) -> pd.DataFrame:
    """Return rows whose numbers fill a part of their bounds, about the middle; columns with hints follow these."""
    rows, rng = narrowed(domain, reads).draw(reads, ROWS, public_stream(PREDICTORS)), public_stream(HINTED)
    places = {name: (rng.permutation(ROWS) + 0.5) / ROWS for name in reads if name in hints}
    return rows.assign(**{name: usual_values(domain[name], hints[name], place) for name, place in places.items()})


def usual_values(known: Known, hint: Hint, places: FloatArray) -> Any:
    """Return the quantiles of a column at some places, by its hint: of a beta distribution on its bounds, or levels."""
    levels = levels_with_shares(known)
    if hint.shares and levels is not None:
        named = dict(hint.shares)
        others = max(1 - math.fsum(named.values()), 0.0) / max(len(levels.values) - len(named), 1)
        upto = np.cumsum([named.get(level, others) for level in levels.values])
        values = np.array(levels.values, dtype=object)[np.searchsorted(upto / upto[-1], places)]
        return values if known is levels else values.astype(float)
    assert isinstance(known, Numbers)
    lo, width, (low, high) = known.lo, known.hi - known.lo, _ends(known.typical)
    mean = ((known.lo / 2 + known.hi / 2 if hint.mean is None else hint.mean) - lo) / width
    spread = FILLED * (high - low) / math.sqrt(12) / width
    sd = min(spread, mean, 1 - mean) if hint.sd is None else hint.sd / width
    size = mean * (1 - mean) / sd**2 - 1
    return lo + width * special.betaincinv(size * mean, size * (1 - mean), places)


def _ends(known: Known) -> tuple[float, float]:
    assert isinstance(known, Numbers)
    return known.lo, known.hi


def narrowed(domain: Domain, reads: Sequence[str]) -> Domain:
    """Return a domain whose numbers fill a part of their bounds, about the middle."""
    typical = domain.typical
    return Domain({name: _part(typical[name]) for name in reads if name in typical}, domain.complete)


def _part(known: Known) -> Known:
    if not isinstance(known, Numbers) or isinstance(known, Dates) or not known.meaning.is_finite:
        return known
    middle, half = known.lo / 2 + known.hi / 2, FILLED * (known.hi / 2 - known.lo / 2)
    return Numbers(middle - half, middle + half)
