"""The interface to the package patsy, which parses formulas, codes factors, names columns and reads hypotheses.

The functions of patsy are called with expressions (strings), declared levels, and public points at which spline bases
are evaluated, never with a row of the data. patsy determines which dummies are redundant, how columns are named, and
the values of contrasts and spline bases. No other file imports patsy. This file imports patsy when a formula is first
read, so that privstats itself is imported quickly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privstats.errors import FormulaError
from privstats.numerics.law import FloatArray

CODINGS = ("Treatment", "Sum", "Helmert", "Poly", "Diff")
SPLINES = ("bs", "cr", "cc")
DIGIT = re.compile(r"[0-9]")
TICKS = re.compile(r"`([^`]*)`?")
NAME = re.compile(r"[^\W\d][\w.]*")
FORMULAS = 64  # largest number of cached formulas


@dataclass(frozen=True)
class Formula:
    """A parsed formula: the terms of its left and its right side.

    Parameters
    ----------
    left, right : tuple of tuple of str
        Terms of each side. A term is a tuple of the expressions of its factors; () is the intercept.
    written : tuple of str
        Every expression in the text, including expressions in terms that a minus sign removes.
    """

    left: tuple[tuple[str, ...], ...]
    right: tuple[tuple[str, ...], ...]
    written: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Subterm:
    """A term of a formula, or a part of a term: a product of factors, with consecutive columns in the model matrix.

    Each column is a product of one column of each factor; the index of the first factor's column varies fastest.

    Parameters
    ----------
    factors : tuple of str
        The expressions of the factors.
    contrasts : mapping of str to ndarray, shape (levels, columns)
        Contrast matrix of each factor with levels, by the expression of the factor.
    columns : int
        Number of columns.
    """

    factors: tuple[str, ...]
    contrasts: Mapping[str, FloatArray]
    columns: int


def _patsy() -> Any:
    """Import the package patsy, and return the module."""
    import patsy

    return patsy


def a(value: object) -> str:
    """Return the name of a value's type with its article, such as "an int"."""
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIO' else 'a'} {kind}"


def parse_formula(formula: Any, like: str) -> Formula:
    """Return a parsed formula; `like` is an example of a formula, for error messages.

    Raises
    ------
    FormulaError
        If the formula cannot be read.
    """
    if not isinstance(formula, str):
        raise FormulaError(f"the formula is {a(formula)}; write it as text, '{like}'")
    if (quoted := TICKS.search(formula)) is not None:
        raise FormulaError(f"back-ticks do not quote names here; write Q('{quoted[1]}')")
    if (read := _read(formula)) is None:
        inside = ", and arithmetic with numbers inside I(), as in I(2 * x)" if DIGIT.search(formula) else ""
        inside = ", and a power of terms as (x1 + x2)**2" if ")^" in formula.replace(" ", "") else inside
        raise FormulaError(f"the formula {formula!r} cannot be read; write it like '{like}'{inside}")
    return read


@lru_cache(maxsize=FORMULAS)
def _read(formula: str) -> Formula | None:
    """Return a parsed formula; None if the text cannot be read as a formula."""
    try:
        tree, read = _patsy().parse_formula.parse_formula(formula), _patsy().ModelDesc.from_formula(formula)
    except Exception:  # for malformed text, patsy also raises errors of types other than PatsyError
        return None
    sides = [tuple(_codes(term) for term in side) for side in (read.lhs_termlist, read.rhs_termlist)]
    return Formula(sides[0], sides[1], tuple(dict.fromkeys(_written(tree))))


def _codes(term: Any) -> tuple[str, ...]:
    return tuple(part.code for part in term.factors)


def _written(tree: Any) -> Iterator[str]:
    if tree.type == "PYTHON_EXPR":
        yield tree.token.extra
    for part in tree.args:
        yield from _written(part)


@dataclass(frozen=True)
class _Probe:
    """A factor of a formula, with the methods that patsy calls to find the names and coding of the model's columns.

    `code` is the expression of the factor. The method `eval` returns the synthetic value of the factor, `value`, so
    patsy never receives data.
    """

    code: str
    value: Any
    origin = None

    def name(self) -> str:
        return self.code

    def memorize_passes_needed(self, state: dict[str, Any], eval_env: Any) -> int:
        return 0

    def eval(self, state: dict[str, Any], data: Any) -> Any:
        return self.value

    def __hash__(self) -> int:
        return hash(self.code)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Probe) and self.code == other.code


def numeric_probe(columns: int) -> Any:
    """Return a synthetic value of a numeric factor, from which patsy derives the number of the factor's columns.

    The value is a vector of length 1 for a numeric expression (`columns` is 0), and a matrix of one row for a basis.
    """
    return np.zeros(1) if columns == 0 else np.zeros((1, columns))


def level_probe(levels: Sequence[Any], contrast: Any) -> Any:
    """Return a synthetic value of a categorical factor, from which patsy derives the factor's columns and their names.

    The columns follow from the factor's levels and from its contrasts, an object of patsy such as `patsy.Sum()`.
    """
    level = pd.Categorical.from_codes([0], categories=pd.Index(list(levels), dtype=object))
    return _patsy().categorical.C(level, contrast)


def code_columns(
    terms: Sequence[tuple[str, ...]], probes: Mapping[str, Any]
) -> tuple[tuple[str, ...], tuple[Subterm, ...]]:
    """Return the column names of a model matrix, and the products of factors (subterms) that generate the columns.

    Parameters
    ----------
    terms : sequence of tuple of str
        Terms; a term is a tuple of the expressions of its factors, and () is the intercept.
    probes : mapping of str to object
        One synthetic value of each factor, by the expression of the factor.

    Raises
    ------
    FormulaError
        If two columns would have the same name.
    """
    info = _coded(terms, probes)
    if info is None:
        raise FormulaError("two columns of the formula would have one name; rename a column, such as 'Intercept'")
    subterms = tuple(_subterm(part) for term in info.terms for part in info.term_codings[term])
    return tuple(info.column_names), subterms


def columns_by_term(terms: Sequence[tuple[str, ...]], probes: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the names of each term's columns, by the name of the term; see `code_columns` for the parameters."""
    info = _coded(terms, probes)
    return {term.name(): tuple(info.column_names[places]) for term, places in info.term_slices.items()}


def _coded(terms: Sequence[tuple[str, ...]], probes: Mapping[str, Any]) -> Any:
    """Return patsy's `DesignInfo` of the model matrix with the given terms: names and coding of its columns.

    `code_columns` explains the parameters. The result is None if patsy fails, for example because two columns have the
    same name.
    """
    patsy = _patsy()
    ours = [patsy.Term([_Probe(code, probes[code]) for code in term]) for term in terms]
    complete = patsy.NAAction(on_NA="raise", NA_types=[])
    try:
        return patsy.build.design_matrix_builders([ours], lambda: iter([{}]), 0, complete)[0]
    except Exception:
        return None


def _subterm(part: Any) -> Subterm:
    contrasts = {f.code: np.asarray(c.matrix, dtype=float) for f, c in part.contrast_matrices.items()}
    return Subterm(tuple(factor.code for factor in part.factors), contrasts, int(part.num_columns))


def plain_coding(kind: str) -> Any:
    """Return a contrast object of patsy, of the type named `kind`, such as "Sum", with default arguments."""
    return getattr(_patsy(), kind)()


def coding(kind: str, arguments: Sequence[Any], keywords: Mapping[str, Any], levels: Sequence[Any]) -> Any:
    """Return a contrast object of patsy, of the type named `kind`, such as "Treatment", for a factor with `levels`.

    `arguments` and `keywords` are the arguments of the contrast in the formula, such as the reference level in
    ``Treatment('N')``. The result is None if these arguments are invalid or do not suit the levels.
    """
    try:
        made = getattr(_patsy(), kind)(*arguments, **keywords)
        made.code_without_intercept(list(levels))
    except Exception:
        return None
    return made


def spline(kind: str, options: Mapping[str, Any]) -> Callable[[FloatArray], FloatArray]:
    """Return a spline basis on [0, 1]: a function from m points, shape (m,), to the basis columns, shape (m, columns).

    The points must be public, because patsy receives them. `kind` is patsy's name of the basis, such as "bs" for
    B-splines, and `options` are the arguments of the basis, such as knots.
    """
    basis = getattr(_patsy().builtins, kind).__patsy_stateful_transform__()
    basis.memorize_chunk(np.array([0.0, 0.5, 1.0]), **options)
    basis.memorize_finish()
    return lambda points: np.asarray(basis.transform(points, **options), dtype=float).reshape(len(points), -1)


def constraint(names: Sequence[str], hypothesis: Any) -> tuple[FloatArray, NDArray[np.float64]]:
    """Return the matrix R and vector r of a linear hypothesis ``R @ params = r`` about the coefficients `names`.

    Raises
    ------
    FormulaError
        If the hypothesis names an unknown coefficient, or cannot be read as linear equations.
    """
    try:
        read = _patsy().DesignInfo(list(names)).linear_constraint(hypothesis)
    except Exception:  # patsy also raises errors of types other than PatsyError
        read = None
    if read is not None:
        return np.asarray(read.coefs, dtype=float), np.asarray(read.constants, dtype=float).ravel()
    if not isinstance(hypothesis, str):
        raise FormulaError(f"a hypothesis is a text like '{names[-1]} = 0', or a matrix with {len(names)} columns")
    rest = hypothesis
    for name in sorted(names, key=len, reverse=True):
        rest = rest.replace(name, " ")
    unknown = next((word for word in NAME.findall(rest)), None)
    if unknown is not None:
        raise FormulaError(f"the fit has no coefficient '{unknown}'; it has {', '.join(names)}")
    raise FormulaError(f"the hypothesis {hypothesis!r} is not a linear equation; write it like '{names[-1]} = 0'")
