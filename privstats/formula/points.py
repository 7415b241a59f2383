"""Public points within the declared bounds, at which the model matrix is evaluated to detect collinear columns."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privstats.formula.declarations import Estimated, Known, Levels, Numbers
from privstats.formula.domain import Domain
from privstats.formula.factors import BasisFactor, LevelFactor, NumericFactor
from privstats.formula.values import Coded
from privstats.numerics.law import FloatArray

SMOOTH = frozenset(
    {
        *("I", "np.square", "np.power", "np.log", "np.log2", "np.log10", "np.log1p", "np.exp", "np.exp2", "np.expm1"),
        *("np.sqrt", "np.cbrt", "np.tanh", "np.arctan", "np.sinh", "np.arcsinh"),
    }
)
# a column is collinear with other columns if its distance from the span of these columns is below this fraction of the
# norm of the column
ROUNDING = 1e-9
FEWEST = 40  # number of test points in addition to two points per column of the model matrix
NARROW = 0.1  # a spline with a piece narrower than this fraction of the spline's range is not checked for collinearity
MOST_POINTS = 20_000


def synthetic(
    domain: Domain,
    reads: Sequence[str],
    crossed: Sequence[tuple[str, ...]],
    ends: Mapping[str, Sequence[float]],
    repeats: int,
    columns: int,
) -> tuple[Mapping[str, Any], int]:
    """Return synthetic rows, at which the model matrix is tested for collinear columns, and the number of these rows.

    The rows, a mapping from column names to values, are computed from public bounds and levels. If more than
    `MOST_POINTS` rows would be needed, the mapping is empty and the number is 0.

    Parameters
    ----------
    domain : Domain
        Bounds and levels of the columns. A numeric column without bounds has values between 0.5 and 2.
    reads : sequence of str
        Names of the columns of the data.
    crossed : sequence of tuple of str
        Sets of columns with levels. Every combination of the levels in a set occurs in `repeats` rows or more.
    ends : mapping of str to sequence of float
        For each column, the thresholds in conditions, such as 18 in ``age >= 18``. The thresholds cut the range of the
        column into pieces; the column takes the two end points of each piece, and `repeats` values inside the piece.
        Without bounds, the range extends from 1 below the smallest threshold to 1 above the largest.
    repeats : int
        Number of rows for each combination of levels, and number of values inside each piece.
    columns : int
        Number of columns of the model matrix; the number of rows is more than twice this number.
    """
    levels = {name: known for name in reads if isinstance(known := domain.known(name), Levels)}
    sizes = [[len(levels[name].values) for name in names] for names in crossed]
    each = [repeats * math.prod(size) for size in sizes]
    typical = domain.typical
    cuts = {name: _pieces(typical.get(name), found, repeats) for name, found in ends.items()}
    n = 2 * columns + FEWEST + sum(each) + sum(map(len, cuts.values()))
    if n > MOST_POINTS:
        return {}, 0
    spread = {name: _spread(prime, n) for name, prime in zip(reads, primes(len(reads)), strict=True)}
    codes = {name: (spread[name] * len(known.values)).astype(np.intp) for name, known in levels.items()}
    stop = n
    for names, size, many in zip(crossed, sizes, each, strict=True):
        for name, code in zip(names, np.indices(size).reshape(len(size), -1), strict=True):
            codes[name][stop - many : stop] = np.tile(code, repeats)
        stop -= many
    rows: dict[str, Any] = {name: Coded(codes[name], known) for name, known in levels.items()}
    for name in reads:
        within = typical.bounds(name)
        if name not in rows:
            low, high = (within.lo, within.hi) if within.is_finite else (0.5, 2.0)
            rows[name] = low + (high - low) * spread[name]
    start = 0
    for name, points in cuts.items():
        rows[name][start : start + len(points)] = points
        start += len(points)
    return rows, n


def _pieces(known: Known | None, ends: Sequence[float], repeats: int) -> FloatArray:
    """Return points in each of the pieces into which the thresholds `ends` divide the range of a column.

    The range has the bounds `known`. If `known` has no bounds, or privately estimated bounds, the range extends from 1
    below the smallest threshold to 1 above the largest. The points of a piece are its two end points and `repeats`
    equally spaced points inside the piece.
    """
    low, high = min(ends) - 1, max(ends) + 1
    if isinstance(known, Numbers) and not isinstance(known, Estimated):
        low, high = known.lo, known.hi
    inside = sorted({low, high, *(end for end in ends if low < end < high)})
    parts = [np.linspace(a, b, repeats + 2) for a, b in pairwise(inside)]
    return np.concatenate(parts)


def compared(node: ast.AST) -> dict[str, set[float]] | None:
    """Return the column and the numbers that a comparison such as ``age >= 18`` compares; None for other expressions.

    Examples
    --------
    >>> compared(ast.parse("age >= 18", mode="eval").body)
    {'age': {18.0}}
    """
    if not isinstance(node, ast.Compare):
        return None
    sides = [node.left, *node.comparators]
    names = {side.id for side in sides if isinstance(side, ast.Name)}
    try:
        numbers = {float(ast.literal_eval(side)) for side in sides if not isinstance(side, ast.Name)}
    except (ValueError, TypeError):
        return None
    return {names.pop(): numbers} if len(names) == 1 and numbers else None


def cut(part: NumericFactor | BasisFactor | LevelFactor) -> dict[str, set[float]]:
    """Return the thresholds in the conditions of a factor, such as 3 in ``x > 3``, by name of the compared column."""
    found: dict[str, set[float]] = {}
    for piece in ast.walk(_node(part)):
        for name, numbers in (compared(piece) or {}).items():
            found.setdefault(name, set()).update(numbers)
    return found


def _node(part: NumericFactor | BasisFactor | LevelFactor) -> ast.AST:
    if isinstance(part, LevelFactor):
        return ast.Name(part.name)
    return part.of.node if isinstance(part, BasisFactor) else part.node


def primes(many: int) -> list[int]:
    """Return the first `many` prime numbers, by the sieve of Eratosthenes.

    The sieve is long enough, because the m-th prime is below 2 m log m for m >= 3.

    Examples
    --------
    >>> primes(8)
    [2, 3, 5, 7, 11, 13, 17, 19]
    """
    stop = 12 + int(2 * many * math.log(many + 1))
    prime = np.ones(stop, dtype=bool)
    prime[:2] = False
    for p in range(2, math.isqrt(stop) + 1):
        prime[p * p :: p] = False
    return [int(p) for p in np.flatnonzero(prime)[:many]]


def _spread(prime: int, n: int) -> FloatArray:
    """Return a low-discrepancy sequence of n points in (0, 1): the fractional parts of k sqrt(prime), k = 1, ..., n.

    Sequences for different primes, taken as coordinates of points, fill the unit cube evenly.
    """
    return np.asarray(np.modf(np.arange(1, n + 1) * math.sqrt(prime))[0])


def shown(part: NumericFactor | BasisFactor | LevelFactor, coded: Sequence[str]) -> bool:
    """Return whether the rows from `synthetic` suffice to detect that a factor is collinear with other columns.

    The rows suffice for a function of columns with levels (`coded`), and for a numeric expression in which all
    functions are smooth (`SMOOTH`) and all comparisons are of one column with numbers. The rows also suffice for a
    polynomial or spline of such an expression, unless two knots are closer than `NARROW` times the distance of the
    outer knots.
    """
    if {*part.reads} <= {*coded}:
        return True
    if isinstance(part, LevelFactor):
        return False
    if isinstance(part, BasisFactor):
        pieces = np.diff(part.basis.knots)
        if pieces.min() < NARROW * pieces.sum():
            return False
    return all(_is_smooth(piece) for piece in ast.walk(_node(part)))


def _is_smooth(piece: ast.AST) -> bool:
    if isinstance(piece, ast.Call):
        return ast.unparse(piece.func) in SMOOTH
    return not isinstance(piece, ast.Compare) or compared(piece) is not None


def collinear(matrix: FloatArray, among: NDArray[np.bool_]) -> tuple[int, list[int]] | None:
    """Return the index of a collinear column of a matrix, and the indices of the other columns in the linear relation.

    The first index belongs to the first column that is a linear combination of earlier columns; the other indices
    belong to the earlier columns with nonzero weights in this combination. Columns that are zero or outside the mask
    `among` of columns to be checked, and rows with NaN, are left out. The result is None if no column is collinear, or
    if fewer rows than columns remain.
    """
    rows = matrix[~np.isnan(matrix).any(axis=1)]
    places = np.flatnonzero(among & (np.abs(rows).max(axis=0, initial=0.0) > ROUNDING))
    if len(rows) < len(places):
        return None
    unit = rows[:, places] / np.sqrt((rows[:, places] ** 2).sum(axis=0))
    triangle = np.asarray(np.linalg.qr(unit)[1])
    dependent = np.flatnonzero(np.abs(np.diag(triangle)) < ROUNDING)
    if not dependent.size:
        return None
    j = int(dependent[0])
    weights = np.linalg.solve(triangle[:j, :j], triangle[:j, j])
    return int(places[j]), [int(places[k]) for k in np.flatnonzero(np.abs(weights) > 1e-6)]
