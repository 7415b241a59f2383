"""The design: a formula bound to a domain, as a row-wise map to scaled columns and the exact map back.

With an intercept each column is moved affinely to [-1, 1]; without one it is only scaled, so that the
model stays the one that was written. The design knows no data and can be pickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from patsy import DesignInfo, build_design_matrices

from privstats.errors import DomainError, FormulaError
from privstats.older.formula.block import Block
from privstats.older.formula.domain import Domain
from privstats.older.formula.factors import NumericFactor
from privstats.older.formula.scaling import Scaling
from privstats.older.formula.schema import check_schema
from privstats.older.formula.selection import Selection, addend, select
from privstats.older.formula.terms import (
    KEEP_MISSING,
    Mean,
    code_columns,
    constraint_on,
    intervals_of,
    is_binary,
    one_hot,
    parse_formula,
    supported,
)
from privstats.older.numerics.law import FloatArray

_FEWEST_DUMMIES = 5  # moved to [-1, 1], k dummies count as k unit columns of 4 times the variance; as a group, as one


@dataclass(frozen=True, eq=False)
class Design:
    """A formula bound to a domain; make one with `bind`.

    Parameters
    ----------
    formula : str
        As the user wrote it.
    domain : Domain
        What is publicly known of the columns.
    response : str
        Name of the response.
    names : tuple of str
        Coefficients, in order; "Intercept" first if there is one.
    reads : tuple of str
        The raw columns that the formula reads.
    complete : bool
        Whether all of them are declared complete, no row is left out, and all weigh the same.
    intercept : bool
        Whether the model has one.
    x_scaling, y_scaling : Scaling
        Of the predictors without the intercept, and of the response.
    selection : Selection
        Which rows count, and how much.
    offset : NumericFactor, optional
        What is added to the linear predictor.
    written : tuple of str or None
        `selection` and `offset` as the user wrote them.
    family : Mean, optional
        Of models whose coefficients act through a link, in units of their own: the response is divided by its largest
        value, and not moved. None if it is scaled like the predictors.
    groups : tuple of tuple of int
        Columns of X, counted from 0 without the intercept, that are the dummies of one factor, left as zeros and ones.
    grouped : bool
        Whether such columns were looked for.
    """

    formula: str
    domain: Domain
    response: str
    names: tuple[str, ...]
    reads: tuple[str, ...]
    complete: bool
    intercept: bool
    x_scaling: Scaling
    y_scaling: Scaling
    selection: Selection
    offset: NumericFactor | None
    written: tuple[str | None, ...]
    family: Mean | None
    groups: tuple[tuple[int, ...], ...]
    grouped: bool
    _infos: tuple[DesignInfo, DesignInfo]

    @property
    def index(self) -> pd.Index:
        """Labels of the coefficients."""
        return pd.Index(list(self.names))

    def fitted(self, new_data: pd.DataFrame, params: FloatArray, linear: bool = False) -> pd.Series:
        """Return the fitted mean of new rows, or its linear predictor; offset included."""
        eta = self.matrix(new_data) @ params
        if self.offset is not None:
            check_schema(new_data, self.offset.reads)
            rows, present = self.domain.admit(new_data, self.offset.reads, clamp=False)
            eta += np.where(present, self.offset.unclamped.eval({}, rows), np.nan)
        if self.family is not None and not linear:
            eta = self.family.mean(eta)
        return pd.Series(eta, new_data.index, name=self.response)

    def spelt(self, values: FloatArray) -> FloatArray:
        """Return coefficients as they are reported: as they are."""
        return values

    @property
    def response_unit(self) -> float:
        """Length, in the user's units, of a residual of 1 in the scaled response at unit weight."""
        return float(self.y_scaling.half[0]) * self.selection.largest_weight**0.5

    def __reduce__(self) -> Any:
        return bind, (self.formula, self.domain, *self.written, self.grouped, self.family)

    def block(self, columns: Mapping[str, pd.Series] | pd.DataFrame) -> Block:
        """Map raw rows to scaled ones, each by itself: clamp, evaluate, clamp, scale."""
        rows, present = self.domain.admit(columns, self.reads)
        y, X = build_design_matrices(list(self._infos), rows, NA_action=KEEP_MISSING)
        X = self.x_scaling.apply(np.asarray(X)[:, int(self.intercept) :])
        y = self.y_scaling.apply(np.asarray(y))[:, 0]
        present &= ~(np.isnan(X).any(axis=1) | np.isnan(y)) & self.selection.keeps(rows)
        weight = self.selection.weighs(rows)
        offset = None
        if self.offset is not None:
            added = self.offset.eval({}, rows)
            present &= ~np.isnan(added)
            offset = np.where(present, added, 0.0)
        X = np.asfortranarray(np.where(present[:, None], X, 0.0))  # read column by column
        return Block(X, np.where(present, y, 0.0), present, weight, offset=offset)

    def original(self) -> tuple[FloatArray, FloatArray]:
        """Return (linear, offset): coefficients in the user's units are ``linear @ theta + offset``."""
        unit = self.y_scaling.half[0] if self.family is None else 1.0
        slopes = unit / self.x_scaling.half
        if not self.intercept:
            return np.diag(slopes), np.zeros(len(slopes))
        linear = np.diag([unit, *slopes])
        linear[0, 1:] = -slopes * self.x_scaling.middle
        offset = np.zeros(len(self.names))
        offset[0] = self.y_scaling.middle[0]
        return linear, offset

    def matrix(self, new_data: pd.DataFrame) -> FloatArray:
        """Return the model matrix of new rows in the user's units, without clamping.

        Parameters
        ----------
        new_data : DataFrame
            The predictors' columns; nobody's secret.

        Returns
        -------
        ndarray, shape (n, coefficients)
            NaN in rows with a missing value or an undeclared level.

        Raises
        ------
        FormulaError
            If a column is missing from `new_data`.
        """
        info = self._unclamped
        reads = tuple(dict.fromkeys(name for part in info.factor_infos for name in part.reads))
        check_schema(new_data, reads)
        if not reads:  # intercept only
            return np.ones((len(new_data), len(self.names)))
        rows, present = self.domain.admit(new_data, reads, clamp=False)
        (X,) = build_design_matrices([info], rows, NA_action=KEEP_MISSING)
        return np.where(present[:, None], np.asarray(X), np.nan)

    def constraint(self, hypothesis: Any) -> tuple[FloatArray, FloatArray]:
        """Return (R, r) such that the hypothesis reads ``R @ params = r``.

        Parameters
        ----------
        hypothesis : str, list of str or array_like, shape (q, coefficients)
            Such as ``"x1 = x2"`` or ``"x1 = 0, x2 = 1"``; an array means ``R`` with ``r = 0``.

        Returns
        -------
        tuple of ndarray, shapes (q, coefficients) and (q,)

        Raises
        ------
        FormulaError
            If it cannot be read as linear constraints on the coefficients.
        """
        return constraint_on(self._infos[1], hypothesis)

    @property
    def dummies(self) -> tuple[tuple[int, ...], ...]:
        """Columns of X that are the dummies of one factor, of those that stand alone in their terms."""
        return one_hot(self._infos[1], 1)

    @property
    def usual(self) -> tuple[Scaling, Scaling]:
        """Centre and standard deviation of usual predictors and of the response, as scaled here: as if uniform."""
        domain = self.domain.typical
        infos = code_columns(parse_formula(self.formula, domain), domain, binary=is_binary(self.family))
        columns = intervals_of(infos[1])
        (response,) = infos[0].factor_infos
        return self.x_scaling.usual(columns[int(self.intercept) :]), self.y_scaling.usual([response.within])

    @cached_property
    def _unclamped(self) -> DesignInfo:
        parsed = parse_formula(self.formula, self.domain)
        return code_columns(parsed, self.domain, clamp=False, binary=is_binary(self.family))[1]


def bind(
    formula: str,
    domain: Domain,
    subset: str | None = None,
    weights: str | None = None,
    offset: str | None = None,
    grouped: bool = False,
    family: Mean | None = None,
) -> Design:
    """Bind a formula to a domain; looks at no data.

    Parameters
    ----------
    formula : str
        "response ~ predictors", in the language of patsy as far as `rowwise` admits it.
    domain : Domain
        Bounds or levels of each column that is read.
    subset, weights : str, optional
        Which rows count, and how much (`select`).
    offset : str, optional
        What is added to the linear predictor: an expression with public bounds.
    grouped : bool
        Whether dummies of one factor are left as zeros and ones where there are many: for bounding sets that know
        that they exclude one another.
    family : Mean, optional
        Of models with a link.

    Returns
    -------
    Design

    Raises
    ------
    FormulaError
        If the formula cannot be read, mixes rows, or has the response among the predictors.
    DomainError
        If bounds or levels are missing.
    """
    left, right = parse_formula(formula, domain)
    infos = code_columns((left, right), domain, binary=is_binary(family))
    (response,) = infos[0].factor_infos
    predictors = tuple(infos[1].factor_infos)
    for part in predictors:
        if shared := set(part.reads) & set(response.reads):
            raise FormulaError(f"the response column '{shared.pop()}' is among the predictors, in '{part.code}'")
    intervals = intervals_of(infos[1])
    names = tuple(infos[1].column_names)
    if not names:
        raise FormulaError(f"'{formula}' has no coefficients")
    intercept = any(not term.factors for term in infos[1].term_codings)
    groups = one_hot(infos[1], _FEWEST_DUMMIES if intercept else 2) if grouped else ()
    x_scaling = Scaling.of(
        intervals[int(intercept) :], intercept, tuple(column for group in groups for column in group)
    )
    if family is None:
        y_scaling = Scaling.of([response.within], shift=intercept)
    else:
        y_scaling = Scaling.of([supported(response, family.support)], shift=False)
    for name, half in zip([*names[int(intercept) :], response.code], [*x_scaling.half, *y_scaling.half], strict=True):
        if not 0 < half < np.inf:
            raise DomainError(f"'{name}' is constant, or without finite bounds, on the domain")
    selection = select(subset, weights, domain)
    added = None if offset is None else addend(offset, domain)
    sources = (response, *predictors, selection, *([] if added is None else [added]))
    reads = tuple(dict.fromkeys(name for part in sources for name in part.reads))
    whole = subset is None and weights is None
    return Design(
        formula=formula,
        domain=domain,
        response=response.code,
        names=names,
        reads=reads,
        complete=whole and all(name in domain and name in domain.complete for name in reads),
        intercept=intercept,
        x_scaling=x_scaling,
        y_scaling=y_scaling,
        selection=selection,
        offset=added,
        written=(subset, weights, offset),
        family=family,
        groups=groups,
        grouped=grouped,
        _infos=infos,
    )
