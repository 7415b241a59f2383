"""The design of a regression: the map from rows to scaled columns, and from coefficients back to the user's units.

Each column of the model matrix is shifted and scaled to [-1, 1]. Without an intercept, columns are only scaled, since a
shift would change the model. A design holds no data and can be pickled. Only the method `Design.block` reads
confidential rows. A privacy review must read this method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privstats.errors import DomainError, FormulaError
from privstats.formula.block import Block, Layout, on_block_grid
from privstats.formula.declarations import Estimated, Levels
from privstats.formula.domain import Domain, as_domain
from privstats.formula.factors import (
    BasisFactor,
    Factor,
    LevelFactor,
    NumericFactor,
    derived,
    factor,
    lacking,
    refuse_crowds,
)
from privstats.formula.interval import Interval
from privstats.formula.language import Formula, code_columns, columns_by_term, constraint, parse_formula
from privstats.formula.points import collinear, cut, shown, synthetic
from privstats.formula.predictors import Predictor, predictors_of
from privstats.formula.scale import FAR
from privstats.formula.schema import check_schema, warn_of_expression, warn_of_strangers
from privstats.formula.selection import LARGEST_OFFSET, Selection, addend, select
from privstats.formula.spelled import as_number, is_long, linear_predictor, written_number
from privstats.formula.terms import DesignFactor, SlopesByLevel, Terms, key_of, multiplied, terms_of
from privstats.formula.values import admit
from privstats.numerics.law import FloatArray, Rng

EXAMPLE = "y ~ x1 + x2"
MANY_COLUMNS = 300  # a design with more columns than this number is not checked for collinearity before the fit
NEARLY_ZERO = 1e-8  # smaller absolute values count as rounding errors when columns of two model matrices are compared


class Mean(Protocol):
    """Interface of a response distribution (family): name, support, and mean response at linear predictors eta."""

    @property
    def name(self) -> str: ...
    @property
    def support(self) -> tuple[float, float]: ...
    def mean(self, eta: FloatArray) -> FloatArray: ...


@dataclass(frozen=True, eq=False)
class Recoded:
    """The design that the user wrote, and its relation to the design that the fit uses for the same model.

    Parameters
    ----------
    design : Design
        The design that the user wrote.
    columns : tuple of str
        Names of the columns that the fit uses.
    matrix : ndarray, shape (coefficients, coefficients)
        Row k gives coefficient ``order[k]`` of `design` as a linear combination of the coefficients of `columns`.
    order : tuple of int
        Indices of the coefficients of `design`, in an order for which the diagonal of `matrix` has no zeros.
    """

    design: Design
    columns: tuple[str, ...]
    matrix: FloatArray
    order: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients of `design`, in the order `order`: entry k belongs to row k of `matrix`."""
        return tuple(self.design.names[k] for k in self.order)


@dataclass(frozen=True, eq=False)
class Design:
    """Definition of a regression's scaled model matrix by a formula and declared bounds; made by `bind_regression`.

    Parameters
    ----------
    formula : str
        The formula, as the user wrote it.
    domain : Domain
        Public bounds and levels of the columns.
    written : tuple of str or None
        The arguments `subset`, `weights` and `offset`, as the user wrote them.
    family : Mean, optional
        Family of a model with a link function. The response of such a model is divided by its upper bound, and is not
        centred, because the coefficients are not in units of the response.
    names : tuple of str
        Names of the coefficients, in order. If the model has an intercept, the first name is "Intercept".
    intercept : bool
        Whether there is an intercept; the intercept is the first column.
    response : str
        The response, as the formula writes it.
    reads : tuple of str
        Names of the columns of the data that the method `block` reads.
    complete : bool
        Whether every row is used, because all columns are declared complete, all expressions have finite values
        everywhere, and neither `subset` nor `weights` is given.
    centred : bool
        Whether a numeric predictor is centred at the middle of its range in its products with factors. The fit then
        does not depend on the origin of the predictor, such as the year 0.
    lacking : tuple of str
        Expressions without declared bounds; the method `with_bounds` replaces the arbitrary bounds of these
        expressions.
    layout : Layout
        Definition of the scaled columns as functions of the numbers and level codes (integers that stand for levels)
        that `block` returns for each row.
    factors : tuple of DesignFactor
        The factors, in the order of the level codes that `block` returns.
    centers, halves : ndarray, shape (coefficients,)
        Centre and half-range of each column of ``X @ coding``, where X is the model matrix in the user's units. The
        scaled column, which is (column - center) / half, lies in [-1, 1]. Without an intercept, the centre is 0 and
        `halves` has the column's largest absolute value.
    response_center, response_half : float
        Shift and divisor of the response: the scaled response is (response - response_center) / response_half.
    recoded : Recoded, optional
        The design that the user wrote and its relation to this design, if `with_intercept` changed the columns.
    """

    formula: str
    domain: Domain
    written: tuple[str | None, str | None, str | None]
    family: Mean | None
    names: tuple[str, ...]
    intercept: bool
    response: str
    reads: tuple[str, ...]
    complete: bool
    centred: bool
    lacking: tuple[str, ...]
    layout: Layout
    factors: tuple[DesignFactor, ...]
    centers: FloatArray
    halves: FloatArray
    response_center: float
    response_half: float
    recoded: Recoded | None
    _bound: Domain = field(repr=False)
    _made: Terms = field(repr=False)
    _outcome: NumericFactor | LevelFactor = field(repr=False)
    _selection: Selection = field(repr=False)
    _offset: NumericFactor | None = field(repr=False)

    def __reduce__(self) -> Any:
        return _rebound, (self.formula, self.domain, self.written, self.family, self.centred, self.recoded)

    @property
    def weighted(self) -> bool:
        """Whether the user gave weights of the rows."""
        return self._selection.weights is not None

    @property
    def offset(self) -> bool:
        """Whether the model has an offset; `Block.numbers` then has the offset in the column before the response."""
        return self._offset is not None

    @property
    def width(self) -> int:
        """Number of columns of the scaled model matrix, including the offset (if any) and the response."""
        return self.layout.width

    @property
    def largest_weight(self) -> float:
        """Public upper bound on the weight of a row, by which all weights are divided; 1 if no weights are given."""
        return self._selection.largest_weight

    @property
    def offset_bounds(self) -> tuple[float, float]:
        """Range of the offset; (0, 0) if the model has no offset."""
        return (0.0, 0.0) if self._offset is None else (self._offset.within.lo, self._offset.within.hi)

    @property
    def coding(self) -> FloatArray:
        """Square matrix C: the fit shifts and scales the columns of X C, where X is the unscaled model matrix.

        If `centred` is True, the matrix C centres numeric predictors in products with factors; otherwise it is the
        identity.
        """
        return self._made.coding

    def bounds(self) -> tuple[tuple[float, float], ...]:
        """Return bounds on the values of each unscaled column, in the user's units.

        These columns are the model matrix times the matrix `coding`, which centres predictors in products with factors
        if `centred` is True.
        """
        return tuple((interval.lo, interval.hi) for interval in self._made.intervals)

    @property
    def response_bounds(self) -> tuple[float, float]:
        """Range of the scaled response (response - `response_center`) / `response_half`."""
        lo, hi = self._outcome_interval.lo, self._outcome_interval.hi
        return (lo - self.response_center) / self.response_half, (hi - self.response_center) / self.response_half

    @property
    def zero_to_one(self) -> bool:
        """Whether the declared range of the response is [0, 1], as for a response with the values 0 and 1."""
        return (self._outcome_interval.lo, self._outcome_interval.hi) == (0.0, 1.0)

    @property
    def outcomes(self) -> tuple[Any, ...]:
        """The two levels of a categorical response, coded as 0 and 1 in this order; empty for a numeric response."""
        return self._outcome.levels.values if isinstance(self._outcome, LevelFactor) else ()

    @property
    def declared_scales(self) -> FloatArray:
        """Public scale of each scaled column and, in the last entry, of the scaled response.

        An entry is 1 / `FAR` if a `Scale` declares the variable's centre and standard deviation: values are then
        clamped to centre +- `FAR` standard deviations, and a model with an intercept maps this interval to [-1, 1]. Any
        other entry is 1.
        """
        return np.array([1 / FAR if self.domain.scaled([name]) else 1.0 for name in (*self.columns, self.response)])

    @cached_property
    def products(self) -> tuple[tuple[int, int, int], ...]:
        """Index triples (product, first factor, second factor) for columns that are squares or products of two columns.

        The two factors are numeric columns of the model matrix that are not products of other columns.
        """
        return self._made.multiplied_columns()

    @cached_property
    def slopes_by_level(self) -> tuple[SlopesByLevel, ...]:
        """Columns that are products of a numeric expression and a factor; each factor level has its own slope."""
        return self._made.slopes_by_level()

    @cached_property
    def of_basis(self) -> frozenset[int]:
        """Positions of the columns that belong to a spline or polynomial basis."""
        made = self._made
        found = (p for p in made.products if any(isinstance(part, BasisFactor) for part in made.sources(p)))
        return frozenset(j for product in found for j in product.columns)

    @cached_property
    def has_higher_powers(self) -> bool:
        """Whether a column is a product of 3 or more numeric factors, and another column is a divisor of this product.

        For example, this holds for columns x**3 and x, and for x*y*z and x*y. Columns that depend on levels or belong
        to a spline or polynomial basis are not considered.
        """
        return self._made.has_higher_powers()

    def block(self, frame: Mapping[str, Any] | pd.DataFrame) -> Block:
        """Convert raw rows, each by itself, to clamped, scaled and rounded numbers and to level codes.

        Parameters
        ----------
        frame : DataFrame or mapping of str to Series
            Raw rows with the columns in `reads`.

        Notes
        -----
        In a column that the user declared to have no missing values, a missing number is replaced by the middle of the
        column's bounds, and a missing or undeclared level by the first level. A row is excluded if the row has a
        missing value or undeclared level in another column, if the value of an expression is not a number, or if the
        condition `subset` does not hold. If the attribute `complete` is True, no row is excluded.
        """
        rows, present = self._admit(frame, self.reads)
        n = len(present)
        parts = {code: part.values(rows) for code, part in self._made.numeric.items()}
        # float32 has a significand of 24 bits and represents multiples of 2^-21 in [-1, 1] exactly
        numbers = np.empty((n, self.layout.numbers), np.float64 if self.offset else np.float32, order="F")
        for k, key in enumerate(self._made.numbers):
            _fill(numbers[:, k], present, multiplied(parts, key), *self._made.scales[k])
        if self._offset is not None:
            _fill(numbers[:, -2], present, self._offset.values(rows)[:, 0], 0.0, 1.0, LARGEST_OFFSET)
        _fill(numbers[:, -1], present, _numbers_of(self._outcome, rows), self.response_center, self.response_half)
        codes = self._made.codes(rows, present)
        present &= self._selection.keeps(rows, n)
        present |= self.complete
        if not present.all():
            numbers[~present] = 0.0
            codes = tuple(np.where(present, code, 0) for code in codes)
        return Block(present, numbers, codes, self.layout, self._selection.weighs(rows))

    def draw(self, n: int, rng: Rng) -> pd.DataFrame:
        """Return `n` synthetic rows, uniform within each column's bounds or on its levels; no data are read.

        If `n` is at least the number of levels of a categorical column, every level of this column occurs.
        """
        return self._bound.draw(self.reads, n, rng)

    @cached_property
    def terms(self) -> Mapping[str, tuple[str, ...]]:
        """Mapping from each term of the formula, in order, to the names of its coefficients."""
        parsed = parse_formula(self.formula, EXAMPLE)
        probes = {code: factor(code, self._bound).probe for term in parsed.right for code in term}
        return columns_by_term(parsed.right, probes)

    @cached_property
    def predictors(self) -> Mapping[str, Predictor]:
        """Declared bounds or levels of each raw column in the linear predictor (including the offset), by column."""
        return predictors_of((*self._made.reads, *self._added), self._bound)

    def varies_with(self, column: str) -> frozenset[str]:
        """Return the columns on which the effect of `column` on the linear predictor depends.

        The column itself is included if its effect is not linear, or if the offset depends on the column.
        """
        products = [self._made.sources(product) for product in self._made.products]
        mine = [parts for parts in products if any(column in part.reads for part in parts)]
        others = [name for parts in mine for part in parts if part.code != column for name in part.reads]
        return frozenset((*others, *(self._added if column in self._added else ())))

    @property
    def _added(self) -> tuple[str, ...]:
        return () if self._offset is None else self._offset.reads

    def with_bounds(self, bounds: Mapping[str, tuple[float, float]]) -> Design:
        """Return the design with estimated bounds for the expressions that have no declared bounds.

        `bounds` maps each expression in the attribute `lacking` to its estimated bounds. The bounds of an expression
        are clamped to the range that follows from the declared bounds of its columns, and for a response also to the
        support of the family.
        """
        found = {}
        for code, (low, high) in bounds.items():
            known = _known(code, self.domain, self.family if code == self.response else None)
            found[code] = Estimated.inside(known, float(low), float(high))
        recoded, domain = self.recoded, self.domain.extended(found)
        if recoded is not None:  # the fit keeps its columns, so that its queries do not depend on estimated bounds
            design = _rebound(recoded.design.formula, domain, self.written, self.family, self.centred)
            recoded = replace(recoded, design=design)
        return _rebound(self.formula, domain, self.written, self.family, self.centred, recoded)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that the fit uses.

        If `with_intercept` changed the columns, the reported coefficients have other names, the attribute `names`.
        """
        return self.names if self.recoded is None else self.recoded.columns

    @property
    def as_written(self) -> Design:
        """The design that the user's formula describes: this design, unless `with_intercept` changed the columns."""
        return self if self.recoded is None else self.recoded.design

    def with_intercept(self) -> Design:
        """Return a design with an intercept for the same model, if a linear combination of the columns is constant.

        For example, the dummies of all levels of a factor add up to 1, so the models ``y ~ 0 + C(g)`` and ``y ~ C(g)``
        are the same. With an intercept, columns can be centred, and noise is smaller. The new design still reports the
        coefficients of the present design, by the method `to_original` and the attribute `names`. If no such linear
        combination is found, the present design is returned.
        """
        if self.intercept or not self._made.reads or len(self.names) > MANY_COLUMNS:
            return self
        other = _rebound(f"{self.formula} + 1", self.domain, self.written, self.family, self.centred)
        if len(other.names) != len(self.names):
            return self
        points = _Points.of(self)
        if not points.n:
            return self
        X, own = _scaled(self._made.matrix(points.rows, points.n))
        Z, unit = _scaled(other._made.matrix(points.rows, points.n))
        if np.linalg.matrix_rank(X) < len(self.names):
            return self
        onto: FloatArray = np.asarray(np.linalg.lstsq(X, Z, rcond=None)[0])
        onto[np.abs(onto) < NEARLY_ZERO] = 0.0
        order = _matched(onto)
        if order is None or not np.allclose(X @ onto, Z, rtol=0.0, atol=NEARLY_ZERO):
            return self
        to_written = onto * unit / own[:, None]
        recoded = Recoded(self, other.names, to_written[list(order)], order)
        return replace(other, names=recoded.names, recoded=recoded)

    def to_original(self, response: bool = True) -> tuple[FloatArray, FloatArray]:
        """Return a matrix and a shift such that coefficients in the user's units are ``matrix @ theta + shift``.

        The vector theta has the coefficients of the scaled columns.

        Parameters
        ----------
        response : bool
            Whether the coefficients are in units of the response, as in models without a link function.
        """
        unit = self.response_half if response else 1.0
        matrix, shift = self._made.coding * (unit / self.halves), np.zeros(len(self.names))
        if self.intercept:
            matrix[0, 1:] = -unit * (self.centers / self.halves)[1:]
            shift[0] = self.response_center if response else 0.0
        if self.recoded is not None:
            return self.recoded.matrix @ matrix, self.recoded.matrix @ shift
        return matrix, shift

    def to_written(self, response: bool = True) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
        """Return a matrix and a shift such that ``matrix @ theta + shift`` are the coefficients of the user's formula.

        Also return the names of these coefficients, which are in the user's units and in the order of the formula. The
        vector theta has the coefficients of the scaled columns. The method `to_original` explains the parameter
        `response`.
        """
        matrix, shift = self.to_original(response)
        place = slice(None) if self.recoded is None else np.argsort(self.recoded.order)
        return matrix[place], shift[place], self.as_written.names

    def matrix(self, new_data: pd.DataFrame) -> FloatArray:
        """Return the model matrix of new rows in the user's units; values beyond the declared bounds are not clamped.

        Parameters
        ----------
        new_data : DataFrame
            Rows with the columns of the predictors; these rows are not confidential.

        Returns
        -------
        ndarray, shape (n, coefficients)
            NaN in rows with a missing value or an undeclared level.

        Raises
        ------
        FormulaError
            If a column is missing from `new_data`.
        """
        reads = self._made.reads
        check_schema(new_data, reads)
        warn_of_strangers(new_data, reads, self.domain)
        rows, present = self._admit(new_data, reads, clamp=False)
        with np.errstate(all="ignore"):
            for code, part in self._made.numeric.items():
                if isinstance(part, NumericFactor) and code not in reads:
                    values = part.values(rows, clamp=False)[present, 0]
                    warn_of_expression(code, values, len(new_data), self.domain.get(code))
            made = self._made.matrix(rows, len(new_data))
        return np.where((present & np.isfinite(made).all(axis=1))[:, None], made, np.nan)

    def offsets(self, new_data: pd.DataFrame) -> FloatArray:
        """Return the offset of new rows, shape (n,); NaN where a value of the offset is missing."""
        if self._offset is None:
            return np.zeros(len(new_data))
        check_schema(new_data, self._offset.reads)
        warn_of_strangers(new_data, [name for name in self._offset.reads if name not in self._made.reads], self.domain)
        rows, present = self._admit(new_data, self._offset.reads, clamp=False)
        return np.where(present, self._offset.values(rows, clamp=False)[:, 0], np.nan)

    def held(self, new_data: pd.DataFrame, column: str) -> NDArray[np.bool_]:
        """Return a mask of new rows where the argument of a spline of `column` is at or beyond an outer knot.

        The spline is constant beyond its outer knots. A row is marked if this holds for any spline of the column.
        """
        rows, _ = self._admit(new_data, self._made.reads, clamp=False)
        held = np.zeros(len(new_data), dtype=bool)
        for part in self._made.numeric.values():
            if isinstance(part, BasisFactor) and column in part.reads and not part.basis.extend:
                x, knots = part.of.values(rows, clamp=False)[:, 0], part.basis.knots
                held |= (x <= knots[0]) | (x >= knots[-1])
        return held

    def constraint(self, hypothesis: Any) -> tuple[FloatArray, FloatArray]:
        """Return the matrix R and vector q of a linear hypothesis ``R @ params = q`` about the coefficients `params`.

        Parameters
        ----------
        hypothesis : str, list of str or array_like, shape (equations, coefficients)
            Linear equations such as ``"x1 = x2"`` or ``"x1 = 0, x2 = 1"``; or the matrix R, and q is then 0.

        Raises
        ------
        FormulaError
            If the hypothesis cannot be read as linear equations in the coefficients.
        """
        return constraint(self.names, hypothesis)

    def expressions(self, params: FloatArray) -> tuple[str, str]:
        """Return two texts for use in another formula: the response, and the linear predictor at coefficients `params`.

        Both texts are Python expressions in the data's columns. The linear predictor includes the offset. A response
        with two levels is written as the indicator of the second level.

        Raises
        ------
        FormulaError
            If the formula has too many terms for one expression.
        """
        fitted = linear_predictor(self._made, params, self.domain)
        if self._offset is not None:
            fitted += f" + {written_number(self._offset, self.domain)}"
        if is_long(fitted):
            raise FormulaError(
                f"'{self.formula}' has too many terms to be written as one expression; fit the most important of them"
            )
        return written_number(self._outcome, self.domain), fitted

    def null_space(self, kept: Sequence[NDArray[np.bool_] | None] | None = None) -> FloatArray:
        """Return a basis of the null space of the scaled model matrix; its rows are all possible rows with kept levels.

        The basis is computed from the contrasts of the factors; no row is read. Different products of numeric
        predictors are treated as linearly independent.

        Parameters
        ----------
        kept : sequence of boolean arrays, optional
            For each factor in `factors`, the mask of the levels that the fit keeps, because they have enough rows for
            the budget, or None for all levels. By default all levels of all factors are kept.

        Returns
        -------
        ndarray, shape (coefficients, directions)
            Orthonormal basis vectors, in terms of the coefficients of the scaled columns.
        """
        if kept is None:
            return self._hidden
        return self._made.null_space(kept, self.centers, self.halves, self.intercept)

    @cached_property
    def _hidden(self) -> FloatArray:
        return self._made.null_space(None, self.centers, self.halves, self.intercept)

    @property
    def _outcome_interval(self) -> Interval:
        return self._outcome.within if isinstance(self._outcome, NumericFactor) else Interval(0.0, 1.0)

    def _admit(
        self, frame: Mapping[str, Any] | pd.DataFrame, reads: tuple[str, ...], clamp: bool = True
    ) -> tuple[dict[str, Any], NDArray[np.bool_]]:
        if not reads:
            return {}, np.ones(len(frame), dtype=bool)
        return admit(frame, reads, self._bound, self._bound.complete, clamp)


def _fill(
    out: FloatArray, present: NDArray[np.bool_], values: FloatArray, center: float, half: float, most: float = 1.0
) -> None:
    """Subtract the shift `center` from `values`, divide by the divisor `half`, and write the result to the array `out`.

    The result is rounded to multiples of 2^-21, and its absolute value is clamped to at most `most`. Where a value is
    NaN, 0 is written, and the mask `present` of the used rows is set to False.
    """
    scaled = values - center
    scaled /= half
    out[:] = on_block_grid(scaled)
    if not -most <= out.min(initial=0.0) <= out.max(initial=0.0) <= most:  # a scaled value is NaN or too large
        missing = np.isnan(out)
        out[missing], present[missing] = 0.0, False
        np.clip(out, -most, most, out=out)


def _numbers_of(part: NumericFactor | LevelFactor, rows: Mapping[str, Any]) -> FloatArray:
    return part.codes(rows).astype(float) if isinstance(part, LevelFactor) else part.values(rows)[:, 0]


def bind_regression(
    formula: str,
    domain: Domain | Mapping[str, Any] | None,
    *,
    subset: str | None = None,
    weights: str | None = None,
    offset: str | None = None,
    family: Mean | None = None,
    rows: int | None = None,
    centred: bool = False,
) -> Design:
    """Return the design of a regression, from a formula and declared bounds and levels; no data are read.

    Parameters
    ----------
    formula : str
        "response ~ predictors", in the language of patsy, with functions that are computed row by row only.
    domain : Domain or mapping
        Bounds or levels of the columns in the formula. `Design.lacking` lists the numeric expressions without bounds.
    subset, weights : str, optional
        Condition on the rows that are used, such as ``"age >= 18"``, and expression for the weights of the rows.
    offset : str, optional
        Expression with public bounds that is added to the linear predictor, with coefficient 1.
    family : Mean, optional
        Family of a model with a link function.
    rows : int, optional
        Public number of rows; an error is raised for a factor with too many levels for this number of rows.
    centred : bool
        Whether a numeric predictor is centred at the middle of its range in its products with factors.

    Returns
    -------
    Design

    Raises
    ------
    FormulaError
        If the formula cannot be read or combines values of different rows, if the response is among the predictors, or
        if predictors are collinear.
    DomainError
        If bounds or levels are missing or contradictory.
    """
    design = _bound_to(formula, as_domain(domain), subset, weights, offset, family, rows, centred)
    _refuse_collinear(design)
    return design


def _rebound(
    formula: str,
    domain: Domain,
    written: tuple[str | None, str | None, str | None],
    family: Mean | None,
    centred: bool = False,
    recoded: Recoded | None = None,
) -> Design:
    """Rebuild the design of a formula for the bounds and levels in `domain`; bounds may be privately estimated.

    Collinearity, and the number of rows for each factor level, are not checked again. The tuple `written` has the
    arguments `subset`, `weights` and `offset`. If `Design.with_intercept` changed the columns, `recoded` has the
    design that the user wrote.
    """
    design = _bound_to(formula, domain, *written, family, None, centred)
    return design if recoded is None else replace(design, names=recoded.names, recoded=recoded)


def _bound_to(
    formula: str,
    declared: Domain,
    subset: str | None,
    weights: str | None,
    offset: str | None,
    family: Mean | None,
    rows: int | None,
    centred: bool,
) -> Design:
    parsed = parse_formula(formula, EXAMPLE)
    if len(parsed.left) != 1 or len(parsed.left[0]) != 1:
        raise FormulaError(
            f"the formula {formula!r} needs exactly one response, on the left of ~; write it like '{EXAMPLE}'"
        )
    missing = lacking(parsed.written, declared)
    known = {code: _known(code, declared, family if code == parsed.left[0][0] else None) for code in missing}
    missing = tuple(code for code in missing if not known[code].is_finite)
    bound = declared.extended({code: Estimated.inside(within, -1.0, 1.0) for code, within in known.items()})
    # expressions in terms that a minus sign removes are included, such as z in y ~ x - z
    parts = {code: factor(code, bound) for code in parsed.written}
    refuse_crowds([[parts[code] for code in term] for term in parsed.right], rows)
    outcome = _outcome(parts[parsed.left[0][0]], family)
    _refuse_shared(outcome, parsed, parts)
    selection, added = select(subset, weights, declared), None if offset is None else addend(offset, declared)
    names, subterms = code_columns(parsed.right, {code: part.probe for code, part in parts.items()})
    if not names:
        raise FormulaError(f"'{formula}' has no coefficients; write it like '{EXAMPLE}'")
    made = terms_of(subterms, parts, centred)
    intercept = any(not subterm.factors for subterm in subterms)
    centers, halves = _scales(names, made.intervals, intercept)
    center, half = _outcome_scale(outcome, family, intercept)
    layout = made.layout(centers, halves, added is not None)
    predictors = (*made.numeric.values(), *made.coded.values())
    sources = (outcome, *predictors, *selection.parts, *([] if added is None else [added]))
    reads = tuple(dict.fromkeys(name for part in sources for name in part.reads))
    spelled = {key_of(part): part.code for part in reversed(parts.values())}
    return Design(
        formula=formula,
        domain=declared,
        written=(subset, weights, offset),
        family=family,
        names=names,
        intercept=intercept,
        response=outcome.code,
        reads=reads,
        complete=not selection.parts
        and all(part.total for part in sources)
        and all(bound.is_complete(name) for name in reads),
        centred=centred,
        lacking=missing,
        layout=layout,
        factors=made.factors(spelled, layout),
        centers=centers,
        halves=halves,
        response_center=center,
        response_half=half,
        recoded=None,
        _bound=bound,
        _made=made,
        _outcome=outcome,
        _selection=selection,
        _offset=added,
    )


def _known(code: str, domain: Domain, family: Mean | None) -> Interval:
    """Return the range of the expression `code` that follows from the declared bounds in `domain`.

    For the response of a model with a link function, pass `family`: the range is intersected with the family's support.
    """
    within = derived(code, domain)
    return within if family is None else within & Interval(*family.support)


def _outcome(part: Factor, family: Mean | None) -> NumericFactor | LevelFactor:
    """Return the left-hand side of the formula, `part`, if this is a valid response; otherwise raise an error.

    A valid response is a numeric expression with bounds within the support of the family (if given). If this support
    is [0, 1], a factor with two levels is valid, too.
    """
    binary = family is not None and family.support == (0.0, 1.0)
    if isinstance(part, LevelFactor):
        many = len(part.levels.values)
        if binary and many == 2:
            return part
        if binary:
            raise FormulaError(
                f"the response '{part.code}' has {many} levels and dp_glm models two; for one against the others write "
                f"I({part.name} == {part.levels.values[0]!r}) ~ x"
            )
        raise FormulaError(f"the response '{part.code}' has levels and is used as a number; {as_number(part)}")
    if isinstance(part, BasisFactor):
        raise FormulaError(f"the response '{part.code}' has several columns; write one expression, as in y ~ x")
    if family is not None:
        _refuse_support(part, family)
    return part


def _refuse_support(part: NumericFactor, family: Mean) -> None:
    """Raise a `DomainError` if the bounds of `part`, a numeric response, are not within the support of the family."""
    low, high = family.support
    lo, hi = part.within.lo, part.within.hi
    if low <= lo < hi <= high:
        return
    declared = f"'{part.code}' is declared as {lo:g} to {hi:g}"
    if high < np.inf:
        raise DomainError(
            f"a {family.name} response is {low:g} or {high:g} and {declared}; write I({part.code} > {(lo + hi) / 2:g}) "
            f"~ x, or choose family='gamma'{' (poisson for counts)' * (lo >= 0)}"
        )
    raise DomainError(
        f"a {family.name} response is at least {low:g} and {declared}; write "
        f"domain={{'{part.code}': ({low:g}, {max(hi, low + 1):g})}}"
    )


def _refuse_shared(outcome: NumericFactor | LevelFactor, parsed: Formula, parts: Mapping[str, Factor]) -> None:
    for code in dict.fromkeys(code for term in parsed.right for code in term):
        shared = next((name for name in parts[code].reads if name in outcome.reads), None)
        if shared is not None:
            where = "" if code == shared else f", in '{code}'"
            raise FormulaError(f"'{shared}' is the response and a predictor{where}; take it out of the right-hand side")


def _scales(names: Sequence[str], intervals: Sequence[Interval], intercept: bool) -> tuple[FloatArray, FloatArray]:
    """Return the centre and the half-range of each column's interval of values; 0 and 1 for the intercept.

    Without an intercept, the centres are 0, and the largest absolute value in the interval replaces the half-range.
    """
    shifted = [interval.middle if intercept else 0.0 for interval in intervals]
    halves = [interval.half if intercept else interval.magnitude for interval in intervals]
    if intercept:
        shifted[0], halves[0] = 0.0, 1.0
    for name, half in zip(names, halves, strict=True):
        _refuse_constant(name, half)
    return np.array(shifted, dtype=float), np.array(halves, dtype=float)


def _outcome_scale(outcome: NumericFactor | LevelFactor, family: Mean | None, intercept: bool) -> tuple[float, float]:
    """Return the centre and the half-range with which the response is scaled, as (response - centre) / half-range.

    In a model with a link function, the centre is 0, and the upper bound of the response replaces the half-range. In a
    model with neither link function nor intercept, the centre is 0, and the largest absolute response replaces the
    half-range.
    """
    within = Interval(0.0, 1.0) if isinstance(outcome, LevelFactor) else outcome.within
    if family is not None:
        return 0.0, within.hi
    _refuse_constant(outcome.code, within.half)
    return (within.middle, within.half) if intercept else (0.0, within.magnitude)


def _refuse_constant(name: str, half: float) -> None:
    if not 0 < half < np.inf:
        raise DomainError(f"'{name}' is constant on the declared bounds; leave it out")


def _scaled(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Divide each column of a matrix by its largest absolute value (a zero column by 1); also return the divisors."""
    most = np.abs(matrix).max(axis=0)
    most[most == 0] = 1.0
    return matrix / most, most


def _matched(matrix: FloatArray) -> tuple[int, ...] | None:
    """Return an order of the rows of a square matrix that makes all diagonal entries nonzero; None if not found.

    Rows with few nonzero entries are placed first, and no placement is revised, so an existing order may be missed.
    The result is used as `Recoded.order`.
    """
    rows: dict[int, int] = {}
    for k in np.argsort(np.count_nonzero(matrix, axis=1), kind="stable").tolist():
        free = [j for j in np.flatnonzero(matrix[k]).tolist() if j not in rows]
        if not free:
            return None
        rows[free[-1]] = k
    return tuple(rows[j] for j in range(len(rows)))


def _refuse_collinear(design: Design) -> None:
    """Raise an error if predictors are collinear for every possible data set."""
    made = design._made
    if not made.reads or len(design.names) > MANY_COLUMNS:
        return
    points = _Points.of(design)
    if points.n == 0:
        return
    among = np.zeros(len(design.names), dtype=bool)
    for product, mine in zip(made.products, points.sources, strict=True):
        reads = {name for part in mine for name in part.reads}
        # a term that combines several columns of the data, with a condition (threshold) on one column, is not checked
        # for collinearity, because the public points may lack some combination of the columns' values
        alone = reads.isdisjoint(points.ends) or len(reads) == 1
        among[list(product.columns)] = alone and all(shown(part, points.coded) for part in mine)
    found = collinear((made.matrix(points.rows, points.n) @ made.coding - design.centers) / design.halves, among)
    if found is None:
        return
    column, others = found
    names = [design.names[k] for k in others]
    shown_names = names if len(names) < 3 else [*names[:2], f"{len(names) - 2} more"]
    several = " and ".join([*([", ".join(shown_names[:-1])] if len(names) > 1 else []), shown_names[-1]])
    spline = any(
        column in p.columns and any(isinstance(part, BasisFactor) for part in made.sources(p)) for p in made.products
    )
    cure = "leave one of them out" + (", or the intercept (y ~ 0 + ...)" if spline and "Intercept" in names else "")
    raise FormulaError(f"{design.names[column]} is collinear with {several} whatever the data are; {cure}")


class _Points(NamedTuple):
    """Public points within the declared bounds, at which columns of model matrices are checked for linear dependence.

    Attributes
    ----------
    rows : mapping
        Values of each column of the data at the points.
    n : int
        Number of points; 0 if too many points would be needed.
    sources : list
        For each element of `Terms.products`, the numeric expressions and factors that are multiplied.
    coded : tuple of str
        Columns of the data with levels.
    ends : dict
        For each column of the data, the thresholds in the formula's conditions, such as 18 in ``age >= 18``.
    """

    rows: Mapping[str, Any]
    n: int
    sources: list[Any]
    coded: tuple[str, ...]
    ends: dict[str, list[float]]

    @classmethod
    def of(cls, design: Design) -> _Points:
        """Return public points (possible rows) at which the columns of a design are compared to detect collinearity."""
        made, domain = design._made, design._bound
        coded = tuple(name for name in made.reads if isinstance(domain.known(name), Levels))
        sources = [made.sources(product) for product in made.products]
        crossed = [
            tuple(name for name in dict.fromkeys(n for p in mine for n in p.reads) if name in coded) for mine in sources
        ]
        crossed = [names for names in dict.fromkeys(crossed) if names]
        cuts = [
            (name, ends) for mine in sources for part in mine for name, ends in cut(part).items() if name not in coded
        ]
        ends = {name: sorted({end for other, found in cuts if other == name for end in found}) for name, _ in cuts}
        rows, n = synthetic(domain, made.reads, crossed, ends, len(made.numbers) + 2, len(design.names))
        return cls(rows, n, sources, coded, ends)
