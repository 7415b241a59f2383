"""Linear hypotheses about coefficients: read from text, and tested one by one or jointly."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from privstats.errors import CHOICES, FormulaError, OptionError, listed, quote
from privstats.inference.estimate import Estimate
from privstats.results.facts import FloatArray
from privstats.results.formats import Listing
from privstats.results.text import Column, TextTable, aligned, decimals, filled, limits, number

NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
NOISE_INCLUDED = "Std err, P and interval include privacy noise."
ALLOWED = "P also allows for clipping and for noise that is not normal; it may exceed P of a chi-squared law."
UPPER_BOUNDS = "Std err is an upper bound: the dependence between estimates from the same rows is not known."
SOME_UPPER_BOUNDS = (
    "Where estimates from the same rows are combined, std err is an upper bound: their dependence is not known."
)
TOKEN = re.compile(rf"\s*(?:(?P<number>{NUMBER})|(?P<name>[^\W\d][\w.]*)|(?P<sign>[-+*/()]))")


@dataclass(frozen=True, eq=False, repr=False)
class ContrastTest:
    """Tests of linear hypotheses ``R params = r`` about the coefficients `params`, one for each row of R.

    Parameters
    ----------
    estimate : Estimate
        Estimate of the coefficients.
    R : ndarray, shape (q, coefficients)
        Matrix of the hypotheses, with a row for each hypothesis and a column for each coefficient of the model.
    null : ndarray, shape (q,)
        The hypothetical values r of the linear functions ``R params``.
    names : tuple of str
        The hypotheses as text, such as ``x1 - 2*x2 = 0``.
    """

    estimate: Estimate
    R: FloatArray
    null: FloatArray
    names: tuple[str, ...]

    @property
    def effect(self) -> FloatArray:
        """The estimates of the tested linear functions of the coefficients; NaN where a function is not identified."""
        return self._at(0.05)[0]

    @property
    def sd(self) -> FloatArray:
        """Standard errors of `effect`, the estimated linear functions; they include privacy noise."""
        return self._at(0.05)[1]

    @property
    def tvalue(self) -> FloatArray:
        """Test statistics: (estimate - hypothetical value) / standard error of each tested linear function."""
        estimate, sd = self._at(0.05)[:2]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((estimate - self.null) / sd)

    @property
    def pvalue(self) -> FloatArray:
        """Two-sided p-values of the hypotheses."""
        return self._at(0.05)[4]

    def conf_int(self, alpha: float = 0.05) -> FloatArray:
        """Return intervals with confidence level 1 - alpha for the q tested linear functions of the coefficients.

        The array has shape (q, 2), with lower and upper limits; both limits are NaN where a function is not identified.

        Raises
        ------
        OptionError
            If `alpha` is not between 0 and 1.
        """
        _, _, low, high, _ = self._at(level(alpha))
        return np.column_stack([low, high])

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the tests as a DataFrame with one row per hypothesis, with intervals of confidence level 1 - alpha.

        Columns are named as in statsmodels: "coef", "std err", "z" and so on. The additional column "null" has the
        value of the linear function under the hypothesis.
        """
        low, high = self.conf_int(alpha).T
        return pd.DataFrame(
            {
                "coef": self.effect,
                "null": self.null,
                "std err": self.sd,
                "z": self.tvalue,
                "P>|z|": self.pvalue,
                "Conf. Int. Low": low,
                "Conf. Int. Upp.": high,
            }
        )

    def _at(self, alpha: float) -> tuple[FloatArray, ...]:
        return tuple(np.asarray(part, dtype=float) for part in self.estimate.contrast(self.R, alpha, self.null))

    def summary(self, alpha: float = 0.05) -> Listing:
        """Return the tests as a table that prints as text; methods such as `as_latex` give other formats.

        Parameters
        ----------
        alpha : float
            One minus the confidence level of the intervals.
        """
        return Listing(self._title, self._table(level(alpha)), (NOISE_INCLUDED, *self._bounds))

    _title, _heading = "Linear hypotheses about coefficients", "coef"

    @property
    def _bounds(self) -> tuple[str, ...]:
        """A tuple with the note that some or all std errors are upper bounds; empty if no std error is an upper bound.

        A std error is an upper bound if its linear function combines estimates with unknown covariances.
        """
        bounds = self.estimate.dependent(self.R)
        return () if not bounds.any() else (UPPER_BOUNDS,) if bounds.all() else (SOME_UPPER_BOUNDS,)

    def _table(self, alpha: float) -> TextTable:
        low, high = self.conf_int(alpha).T
        spans = tuple((0, "not given") if np.isnan(value) else None for value in self.effect)
        columns = (
            *estimates((self._heading, 10), self.effect, self.sd, low, high, limits(alpha)),
            *tests(self.tvalue, self.pvalue),
        )
        ordered = (*columns[:2], *columns[4:], *columns[2:4])
        return TextTable(("",), tuple((name,) for name in self.names), ordered, spans)

    def __repr__(self) -> str:
        return "\n".join((*self._table(0.05).as_text(), *(line for text in self._bounds for line in filled(text))))


@dataclass(frozen=True)
class WaldTest:
    """A joint test of linear hypotheses ``R params = r`` about the coefficients `params`.

    Parameters
    ----------
    statistic : float
        The Wald statistic ``(R params - r)' V^-1 (R params - r)``, where V is the covariance of ``R params``. If V is
        unknown, the statistic is the largest squared z statistic of linearly independent hypotheses that are equivalent
        to ``R params = r``. The statistic is NaN if one of the hypotheses is not identified.
    pvalue : float
        P-value, which allows for the residual degrees of freedom, for noise that is not normal, and for bias bounds. If
        V is unknown, the p-value is the smallest p-value of the linearly independent hypotheses, times the number of
        these hypotheses (Bonferroni), and at most 1.
    df : int
        Number of linearly independent hypotheses.
    bonferroni : bool
        Whether V is unknown, as for hypotheses about several quantiles that were released from the same rows.
    """

    statistic: float
    pvalue: float
    df: int
    bonferroni: bool = False

    def summary(self) -> Listing:
        """Return the test as a table that prints as text; methods such as `as_latex` give other formats."""
        p = "<0.001" if self.pvalue < 0.001 else f"{self.pvalue:.3f}"
        columns = (
            Column(self._name, (f"{self.statistic:.4g}",), 10),
            Column("df", (str(self.df),), 6),
            Column("P (Bonferroni)" if self.bonferroni else "P>chi2", (p,), 9),
        )
        spans = ((0, "not given"),) if np.isnan(self.statistic) else ()
        table = TextTable(("",), (("Wald test",),), columns, spans)
        return Listing("Wald test of all hypotheses together", table, (ALLOWED,))

    def __str__(self) -> str:
        if np.isnan(self.statistic):
            return "Wald test: not given, since a coefficient in the hypotheses is not identified"
        p = "P < 0.001" if self.pvalue < 0.001 else f"P = {self.pvalue:.3f}"
        adjusted = " (Bonferroni)" if self.bonferroni else ""
        return f"Wald test: {self._name} = {self.statistic:.4g}, df = {self.df}, {p}{adjusted}"

    @property
    def fvalue(self) -> float:
        """The statistic divided by `df`, as in an F test; NaN if the statistic is the largest squared z statistic."""
        return math.nan if self.bonferroni else self.statistic / self.df

    @property
    def df_num(self) -> int:
        """Number of linearly independent hypotheses; equal to `df`."""
        return self.df

    @property
    def df_denom(self) -> float:
        """Always infinity; the p-value is computed from the distribution of the errors, without this number."""
        return math.inf

    @property
    def _name(self) -> str:
        return "largest z^2" if self.bonferroni else "chi2"


def wald_test(estimate: Estimate, R: FloatArray, null: FloatArray) -> WaldTest:
    """Return the joint Wald test of the hypotheses ``R params = null`` about the coefficients `params` of `estimate`.

    Hypotheses that contradict each other raise a FormulaError.
    """
    together = np.linalg.matrix_rank(np.column_stack([R, null]))
    if together > np.linalg.matrix_rank(R):
        raise FormulaError("the hypotheses contradict each other; leave one of them out")
    statistic, df, p = estimate.wald(R, null)
    bonferroni = bool(estimate.dependent(np.abs(R).sum(axis=0, keepdims=True)).any())
    return WaldTest(float(statistic), float(p), int(df), bonferroni)


def parsed_hypothesis(hypothesis: Any, names: Sequence[str]) -> tuple[FloatArray, FloatArray]:
    """Return a matrix R and a vector r such that the hypothesis means ``R @ params = r``, with coefficients `params`.

    Parameters
    ----------
    hypothesis : str, list of str, mapping of str to float, or array_like
        Text such as ``"x1 = x2"``, ``"x1 = 0, x2 = 1"`` or ``"x1 = x2 = 0"``, or a mapping from coefficient names to
        values. An array is the matrix R, with a column for each coefficient, and r is then 0; a tuple of two arrays is
        (R, r).
    names : sequence of str
        Names of the coefficients.

    Raises
    ------
    FormulaError
        If the hypothesis cannot be read as linear equations in the coefficients.
    OptionError
        If an array has a wrong shape, or if R is zero or not finite.
    """
    if isinstance(hypothesis, str):
        return _stacked([one for part in _parts(hypothesis, names) for one in _equations(part, names)])
    if isinstance(hypothesis, Mapping):
        given = {name: value.item() if isinstance(value, np.generic) else value for name, value in hypothesis.items()}
        return _stacked([one for name, value in given.items() for one in _equations(f"{name} = {value!r}", names)])
    if isinstance(hypothesis, Sequence) and hypothesis and all(isinstance(part, str) for part in hypothesis):
        pairs = [parsed_hypothesis(part, names) for part in hypothesis]
        return np.vstack([R for R, _ in pairs]), np.concatenate([r for _, r in pairs])
    left, right = hypothesis if isinstance(hypothesis, tuple) and len(hypothesis) == 2 else (hypothesis, None)
    try:
        R = np.atleast_2d(np.asarray(left, dtype=float))
        r = np.zeros(len(R)) if right is None else np.atleast_1d(np.asarray(right, dtype=float))
    except (TypeError, ValueError):
        R = r = np.zeros(0)
    if R.ndim != 2 or R.shape[1] != len(names) or r.shape != (len(R),) or not (np.isfinite(R).all() and R.any()):
        raise OptionError(
            f"the hypothesis is {quote(hypothesis)}; write it as text, such as '{names[-1]} = 0', or as a matrix with "
            f"{len(names)} columns"
        )
    return R, r


def texts_of(hypothesis: Any, R: FloatArray, null: FloatArray, names: Sequence[str]) -> tuple[str, ...]:
    """Return a text for each linear hypothesis ``R params = null`` about the coefficients `params`, one per row of R.

    R and `null` are the result of `parsed_hypothesis` for the user's argument `hypothesis`. A single equation in text
    stays as the user wrote it, with "= 0" added if the equation has no right side. All other hypotheses (chains such as
    ``x1 = x2 = 0``, mappings and arrays) are written by `in_words`.
    """
    texts = [in_words(row, value, names) for row, value in zip(R, null, strict=True)]
    given = [hypothesis] if isinstance(hypothesis, str) else hypothesis if isinstance(hypothesis, Sequence) else []
    at = 0
    for part in (part for text in given if isinstance(text, str) for part in _parts(text, names)):
        if (many := len(_equations(part, names))) == 1:  # a single equation, not a chain such as x1 = x2 = 0
            text = part.strip()
            texts[at] = f"{text} = 0" if text in names or "=" not in text else text
        at += many
    return tuple(texts)


def in_words(row: FloatArray, null: float, names: Sequence[str]) -> str:
    """Return the hypothesis ``row @ params = null`` about coefficients `params` as text, such as ``x1 - 2 x2 = 0``.

    `names` has the names of the coefficients. If all entries of `row` are 0, the left side of the equation is 0.
    """
    text = ""
    for value, name in zip(row, names, strict=True):
        if value:
            size = "" if abs(value) == 1 else f"{abs(value):g} "
            sign = ("-" if value < 0 else "") if not text else " - " if value < 0 else " + "
            text += f"{sign}{size}{name}"
    return f"{text or '0'} = {null:g}"


def level(alpha: Any) -> float:
    """Check `alpha`, one minus the confidence level, and return it as a float.

    Raises
    ------
    OptionError
        If `alpha` is not between 0 and 1.
    """
    number = isinstance(alpha, int | float | np.integer | np.floating) and not isinstance(alpha, bool)
    if not number or not 0 < alpha < 1:
        raise OptionError(f"alpha is {quote(alpha)}; give one minus the confidence, such as alpha=0.05")
    return float(alpha)


def estimates(
    head: tuple[str, int],
    value: FloatArray,
    sd: FloatArray,
    low: FloatArray,
    high: FloatArray,
    ends: tuple[str, str],
    widths: tuple[int, int] = (10, 10),
    digits: int = 3,
) -> tuple[Column, Column, Column, Column]:
    """Return text columns of estimates, std errors and interval limits.

    All numbers in a row have the same number of decimals.

    Parameters
    ----------
    head : tuple of (str, int)
        Heading and width (in characters) of the column of estimates.
    value, sd, low, high : ndarray, shape (n,)
        Estimates, standard errors, and lower and upper limits of intervals.
    ends : tuple of str
        Headers of the columns of the lower and the upper limits.
    widths : tuple of int
        Widths (in characters) of the column of standard errors, and of each column of limits.
    digits : int
        Significant digits of standard errors.
    """
    error = np.where(np.isfinite(sd), sd, (high - low) / 4)
    places = [decimals(s, v, digits) for s, v in zip(error, value, strict=True)]

    def column(title: str, values: FloatArray, width: int) -> Column:
        return Column(title, tuple(number(v, p) for v, p in zip(values, places, strict=True)), width)

    first, last = ends
    return (
        column(head[0], value, head[1]),
        column("std err", sd, widths[0]),
        column(first, low, widths[1]),
        column(last, high, widths[1]),
    )


def tests(statistic: FloatArray, p: FloatArray) -> tuple[Column, Column]:
    """Return text columns of test statistics and p-values."""
    small = tuple("" if np.isnan(v) else "<0.001" if v < 0.001 else f"{v:.3f}" for v in p)
    return Column("z", aligned([number(v, 2) for v in statistic]), 8), Column("P>|z|", small, 8)


def _stacked(equations: list[tuple[FloatArray, float]]) -> tuple[FloatArray, FloatArray]:
    return np.array([row for row, _ in equations]), np.array([value for _, value in equations])


def _parts(text: str, names: Sequence[str]) -> list[str]:
    """Return the list of the equations in a string; commas outside of names and brackets separate the equations."""
    parts, depth, start, k = [], 0, 0, 0
    while k < len(text):
        if match := _name_at(text, k, names):
            k += len(match)
            continue
        depth += (text[k] in "([{") - (text[k] in ")]}")
        if text[k] == "," and depth == 0:
            parts.append(text[start:k])
            start = k + 1
        k += 1
    return [*parts, text[start:]]


def _name_at(text: str, at: int, names: Sequence[str]) -> str | None:
    """Return the longest coefficient name that begins at position `at` of the text, or None if no name begins there."""
    if at and (text[at - 1].isalnum() or text[at - 1] in "_."):
        return None
    found = [name for name in names if text.startswith(name, at) and not _goes_on(text, at + len(name), name)]
    return max(found, key=len, default=None)


def _goes_on(text: str, end: int, name: str) -> bool:
    return end < len(text) and name[-1:].isidentifier() and (text[end].isalnum() or text[end] in "_.([")


def _equations(text: str, names: Sequence[str]) -> list[tuple[FloatArray, float]]:
    """Return the vector R and the number r of each equation ``R params = r`` in `text`, with coefficients `params`.

    An equation without a right side, such as ``x1 - x2``, is read with "= 0" added. A chain such as ``x1 = x2 = 0`` has
    an equation for each pair of neighbouring sides, as in statsmodels.
    """
    sides: list[list[str]] = [[]]
    k = 0
    while k < len(text):
        if match := _name_at(text, k, names):
            sides[-1].append(f"b[{list(names).index(match)}]")
            k += len(match)
        elif text[k] == "=":
            sides.append([])
            k += 2 if text.startswith("==", k) else 1
        elif text[k].isspace():
            k += 1
        else:
            k = _token(text, k, sides[-1], names)
    if not all(sides):
        raise _unreadable(text, names)
    values = [_value("".join(side), text, names) for side in sides]
    found = [left - right for left, right in pairwise(values)] or values
    if not all(whole[:-1].any() and np.isfinite(whole).all() for whole in found):
        raise _unreadable(text, names)
    return [(whole[:-1], float(0.0 - whole[-1])) for whole in found]


def _token(text: str, at: int, side: list[str], names: Sequence[str]) -> int:
    match = TOKEN.match(text, at)
    if match is None:
        raise _unreadable(text, names)
    if match["name"]:
        raise _unknown(_written(text, match.start("name")), names)
    side.append(match[0].strip())
    return match.end()


def _written(text: str, at: int) -> str:
    """Return the word at position `at` of a hypothesis, such as ``C(g)[T.b]``, with the brackets directly after it.

    An error message quotes the result as an unknown name.
    """
    match = re.compile(r"[\w.]+(?:\([^()]*\))?(?:\[[^\]]*\])?").match(text, at)
    return match[0] if match else text[at:]


OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def _value(side: str, text: str, names: Sequence[str]) -> FloatArray:
    """Return the multiplier of each model coefficient in the linear expression `side`, followed by its constant term.

    In `side` the model coefficients are written ``b[0]``, ``b[1]`` and so on. The error message for an expression that
    is not linear quotes `text`, the whole equation.
    """
    try:
        tree = ast.parse(side, mode="eval").body
        return _linear(tree, len(names))
    except (SyntaxError, ArithmeticError, _NotLinearError, RecursionError, ValueError):
        pass
    raise _unreadable(text, names)


class _NotLinearError(Exception):
    """Error for an expression that is not linear in the coefficients."""


def _linear(node: ast.expr, k: int) -> FloatArray:
    match node:
        case ast.Subscript(slice=ast.Constant(value=int(column))):
            return np.eye(k + 1)[column]
        case ast.Constant(value=int() | float() as value):
            return np.append(np.zeros(k), float(value))
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return _linear(operand, k) * (-1.0 if isinstance(node.op, ast.USub) else 1.0)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
            return _combined(_linear(left, k), node.op, _linear(right, k))
    raise _NotLinearError


def _combined(left: FloatArray, op: ast.operator, right: FloatArray) -> FloatArray:
    if isinstance(op, ast.Add | ast.Sub):
        return np.asarray(OPERATIONS[type(op)](left, right))
    if isinstance(op, ast.Mult) and left[:-1].any():
        left, right = right, left
    if left[:-1].any() if isinstance(op, ast.Mult) else right[:-1].any():
        raise _NotLinearError
    if isinstance(op, ast.Div) and right[-1] == 0:
        raise _NotLinearError
    return left[-1] * right if isinstance(op, ast.Mult) else left / right[-1]


def _unknown(name: str, names: Sequence[str]) -> FormulaError:
    many = ", ".join(names) if len(names) <= CHOICES else listed(names)
    return FormulaError(f"the fit has no coefficient {name!r}; it has {many}")


def _unreadable(text: str, names: Sequence[str]) -> FormulaError:
    return FormulaError(f"the hypothesis {text.strip()!r} is not linear; write it as '{names[-1]} = 0'")
