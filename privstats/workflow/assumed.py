"""Synthetic rows from which the widths of confidence intervals are forecast before the data are read.

Synthetic columns follow the user's hints (mean and sd, or shares of levels) or, without hints, default assumptions.
Three properties of the data widen intervals most and cannot be derived from the public bounds of the columns: unequal
weights, rare outcomes and rare levels. If the hints do not specify these properties, the widths are forecast under
usual and under pessimistic assumptions, and the forecast is a range of widths.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import scipy
from scipy import special

from privstats.errors import FormulaError, OptionError, quote
from privstats.formula.block import Block, on_block_grid
from privstats.formula.declarations import Dates, Known, Levels, Numbers
from privstats.formula.domain import Domain
from privstats.formula.expression import columns, parse, spelling
from privstats.formula.factors import NumericFactor, numeric
from privstats.formula.hints import Hint, levels_with_shares
from privstats.formula.schema import check_schema
from privstats.gate.rows import BlockRows
from privstats.gate.sources import Frame
from privstats.mechanisms.random import public_stream
from privstats.numerics.law import FloatArray
from privstats.privacy.promise import Neighbors

ROWS = 4096  # number of simulated rows
MANY, MORE = (30_000, 300_000), 4  # for quantiles of over 30,000 rows, `ROWS` is multiplied by 4; over 300,000, by 16
FILLED = 0.25  # width of the assumed uniform distribution of a column without a hint, divided by the column's range
SPREAD = 1 / 6  # assumed residual standard deviation, divided by half of the response's range
# assumed mean of the response in models with a link function, divided by the largest value of the response; `HALF` is
# for binary responses, `LOW` for other responses
HALF, LOW = 0.5, 0.05
RARE = 0.05  # pessimistic share of the rows at a rare factor level, and of ones in a rare binary outcome
EXPLAINED = 0.25  # assumed share of the variance of an outcome with a hint that numeric predictors with hints explain
LIGHT = 0.1  # pessimistic sd of weights, and mean minus lower bound of weights, both divided by the weights' range
ASSUMED = "\0assumed response"  # name of the synthetic response, which no column of data can have
POINTS, FAR = 1024, 700.0  # number of quantiles for moments of a logit-normal law; largest |mean of the logits|
DENSE = 30.0  # largest |logit| of the points at which an expression with a hint is evaluated
# identifiers of public random streams: simulated predictors and responses, columns and expressions with hints
PREDICTORS, RESPONSE, HINTED, SOLVED = -1, -2, -50, -51


@dataclass(frozen=True)
class Assumption:
    """Assumptions about the columns, beyond their declarations, from which interval widths are forecast.

    Parameters
    ----------
    hints : mapping of str to Hint
        Assumed distributions, by column: the user's hints and, in pessimistic forecasts, further assumptions.
    share : float, optional
        Share of ones in a binary outcome without a hint. In models with a link function, the mean of any other outcome
        without a hint is proportional to `share`. If `share` is None, the share is 1/2 in models with a link function;
        in models without a link function, an outcome without a hint is then normal.
    precise : bool
        Whether the error variance of a row is inversely proportional to its weight.
    rows : int
        Number of simulated rows.
    """

    hints: Mapping[str, Hint] = field(default_factory=dict)
    share: float | None = None
    precise: bool = False
    rows: int = ROWS


@dataclass(frozen=True, eq=False)
class AssumedDesign:
    """A design (map from rows to model columns) whose response is computed from an additional, synthetic column.

    Parameters
    ----------
    design : Design
        Map from rows to the columns of the model, without data.
    middle : float
        Constant added to the values of the additional column; the sum, clipped to [-1, 1], is the scaled response.
    precise : bool
        Whether each value of the additional column is first divided by the square root of the row's weight, so that the
        variance of the value is inversely proportional to the weight.
    """

    design: Any
    middle: float
    precise: bool

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the columns that the design reads, and the name of the column with the synthetic response."""
        return (*self.design.reads, ASSUMED)

    @property
    def domain(self) -> Mapping[str, Known]:
        """The declarations (bounds or levels) of the columns that the design reads, by name of the column."""
        known: Mapping[str, Known] = self.design.domain
        return known

    @property
    def complete(self) -> bool:
        """Whether every row is used: no values are missing, and no argument such as `subset` excludes rows."""
        return bool(self.design.complete)

    def block(self, frame: Mapping[str, Any]) -> Block:
        """Return rows in numeric form (as a `Block`), with the synthetic response in place of the original response."""
        block: Block = self.design.block(frame)
        residual = np.asarray(frame[ASSUMED], dtype=float)
        if self.precise:
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
    assumed: Assumption,
) -> tuple[BlockRows, int]:
    """Return the rows from which interval widths are forecast, mapped to model columns, and the number of these rows.

    With privacy units, the number of units is returned in place of the number of rows. If all columns of the response
    have hints, the response is simulated from these hints, and numeric predictors with hints explain a part of the
    variance of the response.

    Parameters
    ----------
    design : Design
        Map from rows to the columns of the model.
    neighbors : Neighbors
        Neighbouring relation, which may name a column of privacy units. The unit of each row is taken from this column
        of `like`; if `like` is not given or lacks the column, every row is a separate unit.
    n : int
        Planned number of rows.
    like : DataFrame, optional
        Synthetic or public rows to use in place of simulated rows.
    residual : float, optional
        Residual standard deviation of a regression, in units of the response.
    assumed : Assumption
        Assumptions about the columns.

    Raises
    ------
    OptionError
        If `residual` is not a positive number, or the model has no residual scale.
    FormulaError
        If a column of the design is missing from `like`.
    """
    regression = hasattr(design, "response_half")
    if residual is not None:
        if not regression or design.family is not None:
            raise OptionError("residual belongs to regressions without a link; give like= rows to stand for the data")
        if isinstance(residual, bool) or not isinstance(residual, int | float) or not 0 < residual < math.inf:
            raise OptionError(f"residual is {quote(residual)}; give a positive number in units of the response")
    if like is not None:
        check_schema(like, design.reads)
        frame = like.reset_index(drop=True)
    else:
        told = _explaining(design, assumed.hints)
        drawn = usual_rows(design.domain, design.reads, assumed.hints, _outcome(design), assumed.rows, told)
        # every planned number n uses the first n of the same simulated rows, so that forecasts change little with n
        frame = drawn.head(max(n, 1))
    unit = neighbors.unit
    if unit is not None and (like is None or unit not in frame):
        frame = frame.assign(**{unit: range(len(frame))})
    many = len(frame) if unit is None else int(frame[unit].nunique())
    known = like is not None or _is_known(design, assumed.hints)
    if regression and (not known or residual is not None):
        frame, design = _with_response(frame, design, residual, assumed)
    return BlockRows(Frame(frame), design, neighbors, b"forecast"), many


def _with_response(
    frame: pd.DataFrame, design: Any, residual: float | None, assumed: Assumption
) -> tuple[pd.DataFrame, AssumedDesign]:
    """Return `frame` with an additional column for a simulated response, and a design that reads this column.

    If the residual standard deviation `residual` is given, in units of the response, the column is normal with this
    standard deviation, and independent of the predictors. Otherwise the column has the distribution in the user's hint
    about the response, and numeric predictors with hints explain a part of its variance. Without a hint, the column is
    independent of the predictors: if `assumed.share` is given, it is the share of ones in a binary response; otherwise
    the response has a default distribution.
    """
    rng, n, linked = public_stream(RESPONSE), len(frame), design.family is not None
    middle = (HALF if is_binary(design) else LOW * (assumed.share or HALF) / HALF) if linked else 0.0
    if residual is None and (hint := assumed.hints.get(spelling(design.response))) is not None:
        places = _explained((rng.permutation(n) + 0.5) / n, frame[_explaining(design, assumed.hints)])
        values = usual_values(_outcome_range(design), hint, places)
        pattern, middle = (values - design.response_center) / design.response_half, 0.0
    elif residual is None and assumed.share is not None and is_binary(design):
        half = HALF if linked else 1.0
        pattern = np.where(rng.permutation(n) < assumed.share * n, half, -half)
    elif linked:
        pattern = np.where(rng.integers(0, 2, n) == 1, middle, -middle)
    else:
        pattern = (SPREAD if residual is None else residual / design.response_half) * rng.standard_normal(n)
    return frame.assign(**{ASSUMED: pattern}), AssumedDesign(design, middle, assumed.precise and not linked)


def is_binary(design: Any) -> bool:
    """Return whether the response is binary.

    The response is binary if the model has a binomial family, or if the response is a column with two levels or a
    comparison such as y > 3.
    """
    if getattr(design, "family", None) is not None:
        return bool(design.family.support == (0.0, 1.0))
    return design.zero_to_one and not isinstance(design.domain.get(design.response), Numbers)


def _outcome_range(design: Any) -> Numbers:
    """Return the declared range of the response of a regression, in units of the response."""
    low, high = (design.response_center + design.response_half * end for end in design.response_bounds)
    return Numbers(float(low), float(high))


def _is_known(design: Any, hints: Mapping[str, Hint]) -> bool:
    """Return whether the user's hints about columns suffice to simulate the response.

    If the response is a comparison such as x > 3, a mean and a standard deviation of x do not suffice.
    """
    outcome = _outcome(design)
    told = all(name in hints and (hints[name].shares or not is_binary(design)) for name in outcome)
    return told and spelling(design.response) not in hints.keys() - set(outcome)


def _outcome(design: Any) -> tuple[str, ...]:
    """Return the names of the columns in the response of a regression; an empty tuple for other designs."""
    return columns(parse(design.response)) if hasattr(design, "response_half") else ()


def rows_for_quantiles(n: int) -> int:
    """Return the number of simulated rows for a forecast of quantiles that are estimated from n rows.

    The std error of a quantile depends on the density of the responses at the quantile. The density is estimated in an
    interval that narrows as n grows; with too few simulated rows in this interval, the forecast std error is too large.
    """
    return int(ROWS * MORE ** sum(n > many for many in MANY))


def unhinted(design: Any, hints: Mapping[str, Hint], residual: float | None = None) -> dict[str, Known]:
    """Return the declarations (bounds or levels), by name, of columns whose hints would improve the forecast most.

    Interval widths depend most on the distributions of weights and of columns with levels. The widths also depend on
    the distribution of the response if the response is binary or the model has a link function. The result contains
    each such column that has no hint in `hints`. The response is left out if the residual standard deviation `residual`
    is given.
    """
    outcome, found = _outcome(design), dict[str, Known]()
    skewed = outcome and residual is None and (design.family is not None or is_binary(design))
    if skewed and not _is_known(design, hints) and spelling(design.response) not in hints:
        name = design.response
        found[name] = design.domain[name] if name in design.domain else _outcome_range(design)
    weights = columns(parse(design.written[1])) if design.weighted else ()
    factors = [name for name in design.reads if isinstance(design.domain.get(name), Levels) and name not in outcome]
    known = {name for code in hints for name in _columns_of(code)}
    others = (name for name in (*weights, *factors) if name not in known and name in design.domain)
    return found | {name: design.domain[name] for name in others}


def costly(design: Any, assumed: Assumption) -> Assumption:
    """Return `assumed` with pessimistic assumptions about columns without hints.

    Binary outcomes have a share `RARE` (5%) of ones, each level of a factor except the first has at most 5% of the
    rows, and most weights are small.
    """
    more = {}
    for name, known in unhinted(design, assumed.hints, residual=1.0).items():
        if isinstance(known, Levels):
            others = known.values[1:]
            more[name] = Hint(shares=tuple((level, min(RARE, HALF / len(others))) for level in others))
        elif isinstance(known, Numbers):
            light = LIGHT * (known.hi - known.lo)
            more[name] = Hint(mean=known.lo + light, sd=light)
    return replace(assumed, hints={**assumed.hints, **more}, share=RARE)


def costly_cases(design: Any, unknown: Mapping[str, Known]) -> list[str]:
    """Return the pessimistic assumptions about columns without hints as text, one clause for each assumption."""
    outcome, kinds = design.response if _outcome(design) else None, dict[str, None]()
    for name, known in unknown.items():
        if name == outcome:
            rare = f"{RARE:.0%} of the outcomes may be 1" if is_binary(design) else "the mean outcome may be small"
        elif isinstance(known, Levels):
            rare = f"each level but the first may have {RARE:.0%} of the rows"
        else:
            rare = "most weights may be small"
        kinds[rare] = None
    return list(kinds)


def _explaining(design: Any, hints: Mapping[str, Hint]) -> list[str]:
    """Return the names of the numeric columns with hints among the predictors of a regression."""
    others = {*_outcome(design), *(columns(parse(design.written[1])) if design.weighted else ())}
    known = {name for code in hints for name in _columns_of(code)} - others
    return [name for name in design.reads if name in known and isinstance(design.domain.get(name), Numbers)]


def _explained(places: FloatArray, predictors: pd.DataFrame) -> FloatArray:
    """Return the probabilities `places`, reordered so that the predictors explain a part of the outcome's variance.

    The outcome of row i is the quantile of the outcome's distribution at the i-th returned probability. The normal
    score of the outcome is a sum of the normal scores of the predictors, with equal weights, and of an independent
    remainder; if the predictors are independent, they explain the share `EXPLAINED` of the variance of this score.
    Without predictors, `places` is returned.
    """
    if predictors.empty:
        return places
    scores = special.ndtri((predictors.rank() - 0.5) / len(predictors)).sum(axis=1) / math.sqrt(predictors.shape[1])
    latent = math.sqrt(EXPLAINED) * scores + math.sqrt(1 - EXPLAINED) * special.ndtri(places)
    return np.asarray(np.sort(places)[np.argsort(np.argsort(latent, kind="stable"))])


def usual_rows(
    domain: Domain,
    reads: Sequence[str],
    hints: Mapping[str, Hint],
    outcome: Sequence[str] = (),
    many: int = ROWS,
    explaining: Sequence[str] = (),
) -> pd.DataFrame:
    """Return `many` synthetic rows with the columns named in `reads`.

    Columns with hints have the distributions of the hints. Numeric columns without hints are uniform on the middle
    quarter of their range, and dates on their whole range. In columns with levels and without hints, all levels are
    equally frequent. If a hint is about an expression such as ``np.log(x)``, x is simulated so that the expression has
    the distribution of the hint, unless x is among `outcome`, the columns of the response. The columns in `explaining`
    explain a part of the variation of each column of the response that has a hint; other columns are independent.

    Raises
    ------
    OptionError
        If a hint is about an expression in several columns, in a column that is not numeric, or in a column that has
        no bounds or another hint.
    """
    rows, rng = narrowed(domain, reads).draw(reads, many, public_stream(PREDICTORS)), public_stream(HINTED)
    places = {name: (rng.permutation(many) + 0.5) / many for name in reads if name in hints}
    rows = rows.assign(**{name: usual_values(domain[name], hints[name], place) for name, place in places.items()})
    for code in hints:
        names = _columns_of(code)
        if code not in names and set(names) <= set(reads) - set(outcome):
            known = domain.get(names[0])
            if len(names) > 1 or names[0] in places or not isinstance(known, Numbers) or isinstance(known, Dates):
                raise OptionError(
                    f"the hint about {quote(code)} cannot be followed: it is not about a single numeric column without "
                    f"another hint; write a hint about the column, as in domain.hint({names[0]!r}, ...), in its place"
                )
            places[names[0]] = (rng.permutation(many) + 0.5) / many
            rows[names[0]] = _solved(numeric(code, domain), known, hints[code], places[names[0]])
    predictors, told = rows[[*explaining]], [name for name in outcome if name in places]
    places |= {name: _explained(places[name], predictors) for name in told}
    return rows.assign(**{name: usual_values(domain[name], hints[name], places[name]) for name in told})


def _columns_of(code: str) -> tuple[str, ...]:
    """Return the names of the columns in `code`, the expression that a hint is about.

    A text that is not a valid expression is itself the name of a column.
    """
    with suppress(FormulaError):
        return columns(parse(code))
    return (code,)


def _solved(part: NumericFactor, known: Numbers, hint: Hint, places: FloatArray) -> FloatArray:
    """Return values of a numeric column, such that the expression `part` in the column has the distribution of `hint`.

    For each probability in `places`, the value is the point of a grid within the bounds of the column at which `part`
    is nearest to the corresponding quantile of this distribution. If `part` has the same value at several nearest
    points, as for a comparison, one of these points is chosen at random. The grid is dense near the bounds.
    """
    share = np.concatenate([np.linspace(0, 1, POINTS), special.expit(np.linspace(-DENSE, DENSE, 8 * POINTS))])
    points = known.lo + (known.hi - known.lo) * np.sort(share)
    found = part.values({part.reads[0]: points})[:, 0]
    points, found = points[~np.isnan(found)], found[~np.isnan(found)]
    order = np.argsort(found, kind="stable")
    points, found = points[order], found[order]
    wanted = usual_values(Numbers(part.within.lo, part.within.hi), hint, places)
    near = np.clip(np.searchsorted(found, wanted), 1, len(found) - 1)
    nearest = found[near - (wanted - found[near - 1] < found[near] - wanted)]
    first, end = np.searchsorted(found, nearest), np.searchsorted(found, nearest, side="right")
    solved: FloatArray = points[public_stream(SOLVED).integers(first, end)]
    return solved


def usual_values(known: Known, hint: Hint, places: FloatArray) -> Any:
    """Return quantiles of the distribution that a user's hint about a column describes.

    The distribution of a numeric column is logit-normal between the bounds of the column.

    Parameters
    ----------
    known : Known
        Declared bounds or levels of the column.
    hint : Hint
        Mean and standard deviation, or shares of levels.
    places : ndarray
        Probabilities of the quantiles.
    """
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
    center, scale = _logit_normal(mean, sd)
    return lo + width * special.expit(center + scale * special.ndtri(places))


@lru_cache(maxsize=64)
def _logit_normal(mean: float, sd: float) -> tuple[float, float]:
    """Return the mean and sd of logit(X), for a logit-normal variable X with the given mean and sd.

    If the mean of X is near 0, X is approximately log-normal, like wages. If the mean is near 1, 1 - X is approximately
    log-normal. If the mean is near 1/2, the distribution of X is bell-shaped.
    """
    z = special.ndtri((np.arange(POINTS) + 0.5) / POINTS)

    def center(scale: float) -> float:
        return float(scipy.optimize.brentq(lambda at: special.expit(at + scale * z).mean() - mean, -FAR, FAR))

    def excess(log: float) -> float:
        scale = math.exp(log)
        return float(special.expit(center(scale) + scale * z).std()) - sd

    scale = math.exp(scipy.optimize.brentq(excess, -20.0, math.log(FAR / 4), xtol=1e-3))
    return center(scale), scale


def _ends(known: Known) -> tuple[float, float]:
    assert isinstance(known, Numbers)
    return known.lo, known.hi


def narrowed(domain: Domain, reads: Sequence[str]) -> Domain:
    """Return the declarations of the columns in `reads`, with each numeric range reduced to its middle quarter.

    Forecasts assume that a numeric column without a hint is uniform on the reduced range. Dates keep their range.
    """
    typical = domain.typical
    return Domain({name: _part(typical[name]) for name in reads if name in typical}, domain.complete)


def _part(known: Known) -> Known:
    if not isinstance(known, Numbers) or isinstance(known, Dates) or not known.meaning.is_finite:
        return known
    middle, half = known.lo / 2 + known.hi / 2, FILLED * (known.hi / 2 - known.lo / 2)
    return Numbers(middle - half, middle + half)
