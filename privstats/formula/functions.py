"""Functions allowed in formulas, evaluated row by row, with bounds on their values for arguments in given intervals."""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from privstats.errors import FormulaError
from privstats.formula.interval import Interval, increasing
from privstats.numerics.law import FloatArray

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Rowwise:
    """A function allowed in formulas, evaluated row by row, and a second function that computes bounds on its values.

    Parameters
    ----------
    values : callable
        Maps the array of each argument to the array of the function's values, one value for each row.
    bounds : callable
        Maps the interval of each argument to an interval that contains all values of the function.
    arity : int
        Number of arguments.
    """

    values: Callable[..., Any]
    bounds: Callable[..., Interval]
    arity: int = 1


def _increasing(ufunc: Callable[[Any], Any]) -> Rowwise:
    return Rowwise(ufunc, increasing(ufunc))


def _unknown_where_missing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a version of `function` that gives NaN, and not True or False, where an argument is NaN."""

    def values(*arguments: Any) -> Any:
        missing = np.logical_or.reduce(np.broadcast_arrays(*(np.isnan(part) for part in arguments)))
        return np.where(missing, np.nan, function(*arguments))

    return values


def logical(function: Callable[..., Any]) -> Rowwise:
    """Return the row-wise logical operation that `function` computes from zeros and ones.

    For example, the function np.minimum gives the operation "and". Nonzero arguments count as 1 (true). The value of
    the operation is 0 or 1, or NaN if an argument is NaN.
    """
    truth = _unknown_where_missing(lambda *parts: function(*(np.not_equal(part, 0).astype(float) for part in parts)))
    return Rowwise(truth, lambda *_: Interval(0.0, 1.0))


def relation(function: Callable[..., Any]) -> Rowwise:
    """Return the row-wise comparison of two numbers by `function`: 1 if true, 0 if false, NaN if a number is NaN."""
    return Rowwise(_unknown_where_missing(lambda a, b: function(a, b).astype(float)), lambda *_: Interval(0.0, 1.0))


def _hull(*intervals: Interval) -> Interval:
    return Interval.hull([end for interval in intervals for end in (interval.lo, interval.hi)])


def _endpoints(function: Callable[..., Any]) -> Callable[..., Interval]:
    """Return a map from intervals of the arguments to the range of `function`, which is nondecreasing in each argument.

    The lower (upper) bound of the range is the value of `function` at the lower (upper) bounds of the intervals.
    """
    return lambda *of: Interval(float(function(*(i.lo for i in of))), float(function(*(i.hi for i in of))))


def _clip(x: Any, low: Any, high: Any) -> Any:
    return np.minimum(np.maximum(x, low), high)


FUNCTIONS: dict[str, Rowwise] = {
    "I": Rowwise(lambda x: x, lambda x: x),
    "np.abs": Rowwise(np.abs, abs),
    "np.square": Rowwise(np.square, lambda x: x ** Interval(2.0, 2.0)),
    "np.power": Rowwise(operator.pow, operator.pow, 2),
    **{
        f"np.{ufunc.__name__}": _increasing(ufunc)
        for ufunc in (
            np.log, np.log2, np.log10, np.log1p, np.exp, np.exp2, np.expm1, np.sqrt, np.cbrt,
            np.tanh, np.arctan, np.sinh, np.arcsinh, np.floor, np.ceil, np.sign,
        )
    },
    "np.minimum": Rowwise(np.minimum, _endpoints(np.minimum), 2),
    "np.maximum": Rowwise(np.maximum, _endpoints(np.maximum), 2),
    "np.clip": Rowwise(_clip, _endpoints(_clip), 3),
    "np.where": Rowwise(
        lambda condition, yes, no: np.where(np.isnan(condition), np.nan, np.where(condition != 0, yes, no)),
        lambda condition, yes, no: _hull(yes, no),
        3,
    ),
}  # fmt: skip
_SOURCES: dict[str, Any] = {}
_BUILT_IN = frozenset(FUNCTIONS) | {"C", "Q", "cut", "poly", "bs", "cr", "cc"}


def rowwise(
    function: F, bounds: tuple[float, float] | Callable[..., tuple[float, float]], name: str | None = None
) -> F:
    """Register a function of your own, so that formulas can call it by name.

    The function is called for one row at a time, with arrays of length 1, computed from the row's cells, which are
    first clamped to their declared bounds. So the function cannot mix rows, and is slower than built-in functions. The
    function's values are clamped to `bounds`, and a row for which the function raises an error counts as missing.

    Parameters
    ----------
    function : callable
        Maps arrays of length 1 to an array of length 1.
    bounds : tuple of float, or callable
        The range of the function's values; or a function that maps the ranges of the arguments, each ``(low, high)``,
        to the range of the values.
    name : str, optional
        Name of the function in formulas; by default the function's own name.

    Returns
    -------
    callable
        `function`, unchanged.

    Raises
    ------
    FormulaError
        If the name is taken or is not a Python identifier, or the bounds are not an interval.

    Notes
    -----
    Built-in functions, which need no registration, are I, np.abs, np.square, np.power(x, 2), np.log, np.log2, np.log10,
    np.log1p, np.exp, np.exp2, np.expm1, np.sqrt, np.cbrt, np.tanh, np.arctan, np.sinh, np.arcsinh, np.floor, np.ceil,
    np.sign, np.minimum(x, z), np.maximum(x, z), np.clip(x, 0, 1), np.where(x > 0, x, 0). Formulas may also use
    arithmetic, comparisons, ``and``, ``or``, ``not`` and ``in``; C(g), C(g, Sum) and other codings of levels; Q('any
    name'); poly(x, 2), and bs, cr, cc with knots=[...].

    To load a pickled result in another process, first register the function again under the same name.

    Examples
    --------
    >>> import numpy as np, privstats as ps
    >>> def half_life(dose):
    ...     return np.exp2(-dose)
    >>> _ = ps.rowwise(half_life, bounds=lambda dose: (2.0 ** -dose[1], 2.0 ** -dose[0]))
    >>> domain = {"y": (0, 1), "dose": (0, 4)}
    >>> print(str(ps.plan("lm", "y ~ half_life(dose)", 1000, eps=1.0, domain=domain)).splitlines()[0])
    Plan of dp_lm: y ~ half_life(dose)
    """
    called = str(name or getattr(function, "__name__", ""))
    if not called.isidentifier() or called in _BUILT_IN:
        raise FormulaError(f"'{called}' cannot be the name of a function in formulas; give name='another_name'")
    image = _image(called, bounds)
    if called in _SOURCES and _source(function) != _SOURCES[called]:
        raise FormulaError(
            f"another function is registered as '{called}' and results may be using it; give name='another_name'"
        )
    _SOURCES[called] = _source(function)
    FUNCTIONS[called] = Rowwise(_one_by_one(function), image, len(inspect.signature(function).parameters))
    return function


def registered_in(codes: Iterable[str | None]) -> list[str]:
    """Return the names of the functions, registered by the user with `rowwise`, that the expressions `codes` call."""
    text = "\n".join(code for code in codes if code is not None)
    return [name for name in _SOURCES if re.search(rf"\b{name}\s*\(", text)]


def _source(function: Any) -> Any:
    """Return a key that identifies the code of a function, so that a repeated registration is accepted.

    The key of a callable without Python code, such as a ufunc of NumPy, is the callable itself.
    """
    code = getattr(function, "__code__", None)
    return function if code is None else (code.co_code, code.co_consts, code.co_names, function.__defaults__)


def _image(name: str, bounds: Any) -> Callable[..., Interval]:
    def interval(ends: Any) -> Interval:
        try:
            low, high = (float(end) for end in ends)
        except (TypeError, ValueError):
            low, high = 1.0, 0.0
        if not low <= high:
            raise FormulaError(
                f"the bounds of '{name}' are not a range; write bounds=(low, high) with low at most high"
            )
        return Interval(low, high)

    if callable(bounds):
        return lambda *of: interval(bounds(*((part.lo, part.hi) for part in of)))
    fixed = interval(bounds)
    return lambda *_: fixed


def _one_by_one(function: Callable[..., Any]) -> Callable[..., FloatArray]:
    """Return a function of arrays that calls `function` for one row at a time; the value is NaN if the call fails.

    Since each call sees one row only, `function` cannot mix rows.
    """

    def one(*row: float) -> float:
        try:
            return float(np.asarray(function(*(np.array([part]) for part in row)), dtype=float).item())
        except KeyboardInterrupt:
            raise
        except BaseException:
            return float("nan")

    def values(*arguments: Any) -> FloatArray:
        columns = np.broadcast_arrays(*(np.atleast_1d(np.asarray(part, dtype=float)) for part in arguments))
        return np.array([one(*row) for row in zip(*(column.tolist() for column in columns), strict=True)], dtype=float)

    return values
