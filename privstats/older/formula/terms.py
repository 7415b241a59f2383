"""The terms of a formula: patsy parses it and codes its columns; every factor in it is ours.

patsy decides which dummies are redundant and names the columns; it is shown one made-up row.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import pandas as pd
from patsy import DesignInfo, ModelDesc, NAAction, PatsyError, Term
from patsy.build import design_matrix_builders
from patsy.parse_formula import parse_formula as patsy_tree

from privstats.errors import DomainError, FormulaError
from privstats.older.formula.domain import Domain
from privstats.older.formula.factors import LevelFactor, NumericFactor, SecondLevel, factor, is_unbounded
from privstats.older.formula.interval import Interval
from privstats.older.numerics.law import FloatArray

KEEP_MISSING = NAAction(on_NA="raise", NA_types=[])  # missing rows are marked by the domain, not by patsy


def read_formula(formula: Any, like: str) -> tuple[Any, ModelDesc]:
    """Return patsy's tree of a formula, and what it makes of it; `like` is an example for whoever wrote none.

    Raises
    ------
    FormulaError
        If it cannot be read.
    """
    if not isinstance(formula, str):
        raise FormulaError(f"a formula is text like '{like}', not {type(formula).__name__}")
    try:
        tree, read = patsy_tree(formula), ModelDesc.from_formula(formula)
    except Exception:  # patsy raises more than PatsyError on malformed text
        read = None
    if read is None:
        raise FormulaError(f"the formula {formula!r} cannot be read")
    return tree, read


def constraint_on(info: DesignInfo, hypothesis: Any) -> tuple[FloatArray, FloatArray]:
    """Return (R, r) such that a hypothesis about the columns of `info` reads ``R @ params = r``.

    Raises
    ------
    FormulaError
        If it cannot be read as linear constraints.
    """
    try:
        read = info.linear_constraint(hypothesis)
    except (PatsyError, ValueError, TypeError):
        read = None
    if read is None:
        what = repr(hypothesis) if isinstance(hypothesis, str) else "given as a matrix"
        raise FormulaError(f"the hypothesis {what} is not linear in {', '.join(info.column_names)}")
    return np.asarray(read.coefs, dtype=float), np.asarray(read.constants, dtype=float).ravel()


def parse_formula(formula: str, domain: Domain) -> tuple[list[Term], list[Term]]:
    """Return patsy's terms of the response and of the predictors; refuse expressions that mix rows.

    Raises
    ------
    FormulaError
        If the formula cannot be read, has not exactly one response, or an expression is not row-wise.
    DomainError
        If bounds or levels of something it reads are not known.
    """
    tree, read = read_formula(formula, "y ~ x1 + x2")
    if len(read.lhs_termlist) != 1 or len(read.lhs_termlist[0].factors) != 1:
        raise FormulaError(f"the formula {formula!r} needs one response, as in 'y ~ x1 + x2'")
    for code in written(tree):  # also what a minus sign removes again: `y ~ x - x.mean()` is `y ~ x` to patsy
        factor(code, domain)
    return read.lhs_termlist, read.rhs_termlist


def lacking(formula: str, domain: Domain) -> tuple[str, ...]:
    """Return the plain numeric factors of a formula whose bounds are not known, in order; refuses nothing."""
    try:
        codes = list(dict.fromkeys(written(patsy_tree(formula))))
        return tuple(code for code in codes if is_unbounded(code, domain))
    except Exception:  # whatever is wrong with the formula, `parse_formula` says it better
        return ()


def written(tree: Any) -> Iterator[str]:
    """Yield the expressions that stand in a parsed formula."""
    if tree.type == "PYTHON_EXPR":
        yield tree.token.extra
    for part in tree.args:
        yield from written(part)


def code_columns(
    terms: tuple[list[Term], list[Term]], domain: Domain, *, clamp: bool = True, binary: bool = False
) -> tuple[DesignInfo, DesignInfo]:
    """Return patsy's coding of response and predictors, with our factors in place of patsy's.

    A `binary` response may have two levels, which count as 0 and 1.

    Raises
    ------
    FormulaError
        If the response is categorical.
    """

    def ours(term: Term) -> Term:
        return Term([factor(part.code, domain, clamp=clamp) for part in term.factors])

    left, right = ([ours(term) for term in side] for side in terms)
    (response,) = left[0].factors
    if binary and isinstance(response, LevelFactor) and response.levels(domain) == 2:
        left = [Term([SecondLevel(response.code, response.reads)])]
    elif not isinstance(response, NumericFactor):
        many = "more than two " if binary else ""
        raise FormulaError(f"the response '{response.code}' has {many}levels; a numeric one needs bounds (low, high)")
    reads = tuple(
        dict.fromkeys(name for side in (left, right) for term in side for part in term.factors for name in part.reads)
    )
    probe, _ = domain.admit(pd.DataFrame({name: [None] for name in reads}), reads)
    try:
        infos = design_matrix_builders([left, right], lambda: iter([probe]), 0, KEEP_MISSING)
    except Exception:  # patsy stumbles when two columns get one name
        infos = None
    if infos is None:
        raise FormulaError("the formula's columns cannot be coded: do two of them have one name, such as Intercept?")
    y_info, x_info = infos
    return y_info, x_info


def one_hot(info: DesignInfo, fewest: int) -> tuple[tuple[int, ...], ...]:
    """Return the columns of each factor that stands alone in its term, where they are at least `fewest` dummies.

    They are counted without the intercept.
    """
    groups, start = [], -int(any(not term.factors for term in info.terms))
    for term in info.terms:
        for subterm in info.term_codings[term]:
            stop = start + subterm.num_columns
            contrasts = list(subterm.contrast_matrices.values())
            if len(subterm.factors) == len(contrasts) == 1 and stop - start >= fewest:
                matrix = contrasts[0].matrix
                if np.isin(matrix, (0.0, 1.0)).all() and (matrix.sum(axis=1) <= 1).all():
                    groups.append(tuple(range(start, stop)))
            start = stop
    return tuple(groups)


def intervals_of(info: DesignInfo) -> list[Interval]:
    """Return the intervals of all columns."""
    return [interval for term in info.term_codings.values() for part in term for interval in column_bounds(part)]


def column_bounds(subterm: Any) -> list[Interval]:
    """Return the intervals of a subterm's columns, in patsy's order: the first factor varies fastest."""
    sides = [part.column_bounds(subterm.contrast_matrices.get(part)) for part in reversed(subterm.factors)]
    columns = []
    for combination in itertools.product(*sides):
        product = Interval(1.0, 1.0)
        for interval in combination:
            product = product * interval
        columns.append(product)
    return columns


class Mean(Protocol):
    """What is seen here of a family with its link: where the response lies, and its mean at a linear predictor."""

    @property
    def support(self) -> tuple[float, float]: ...
    def mean(self, eta: FloatArray) -> FloatArray: ...


def is_binary(family: Mean | None) -> bool:
    """Whether a family's responses may have two levels: those that lie between 0 and 1."""
    return family is not None and family.support == (0.0, 1.0)


def supported(response: Any, support: tuple[float, float]) -> Interval:
    """Return where the response lies, from 0 to the largest value that it may have.

    Raises
    ------
    DomainError
        If its declared bounds exceed the support.
    """
    low, high = support
    if not low <= response.within.lo < response.within.hi <= high:
        legal = f"between {low:g} and {high:g}" if high < np.inf else f"at least {low:g}, with a largest value"
        raise DomainError(f"the response '{response.code}' must be {legal}, by its declared bounds")
    return Interval(0.0, min(high, response.within.hi))
