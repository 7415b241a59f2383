"""Public points of a domain, and whether columns are linear functions of one another at all of them."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privstats.formula.declarations import Levels
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
ROUNDING = 1e-9  # of a column's length
FEWEST = 40  # points beyond twice the number of columns
NARROW = 0.1  # of its range: a piece of a spline that few points may show
MOST_POINTS = 20_000


def made_up(
    domain: Domain, reads: Sequence[str], crossed: Sequence[tuple[str, ...]], repeats: int, columns: int
) -> tuple[Mapping[str, Any], int]:
    """Return public points of the domain as admitted columns, and their number; none where too many would be needed.

    Parameters
    ----------
    domain : Domain
    reads : sequence of str
    crossed : sequence of tuple of str
        Columns of levels of which each combination is among the points, `repeats` times.
    repeats, columns : int
        More points than `columns` in any case.
    """
    levels = {name: known for name in reads if isinstance(known := domain.known(name), Levels)}
    sizes = [[len(levels[name].values) for name in names] for names in crossed]
    each = [repeats * math.prod(size) for size in sizes]
    n = 2 * columns + FEWEST + sum(each)
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
    typical = domain.typical
    for name in reads:
        within = typical.bounds(name)
        if name not in rows:
            low, high = (within.lo, within.hi) if within.is_finite else (0.5, 2.0)
            rows[name] = low + (high - low) * spread[name]
    return rows, n


def primes(many: int) -> list[int]:
    """Return the first prime numbers, by the sieve of Eratosthenes: the m-th is below 2 m log m from the third on.

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
    """Return n points of (0, 1), even and in no relation to those of another prime number: multiples of its root."""
    return np.asarray(np.modf(np.arange(1, n + 1) * math.sqrt(prime))[0])


def shown(part: NumericFactor | BasisFactor | LevelFactor, coded: Sequence[str]) -> bool:
    """Return whether points show all that a factor can be: of levels, or a smooth function of numbers."""
    if {*part.reads} <= {*coded}:
        return True
    if isinstance(part, LevelFactor):
        return False
    if isinstance(part, BasisFactor):
        pieces = np.diff(part.basis.knots)
        if pieces.min() < NARROW * pieces.sum():
            return False
    node = part.of.node if isinstance(part, BasisFactor) else part.node
    return all(_is_smooth(piece) for piece in ast.walk(node))


def _is_smooth(piece: ast.AST) -> bool:
    if isinstance(piece, ast.Call):
        return ast.unparse(piece.func) in SMOOTH
    return not isinstance(piece, ast.Compare | ast.BoolOp | ast.Not | ast.Invert | ast.BitAnd | ast.BitOr)


def collinear(matrix: FloatArray, among: NDArray[np.bool_]) -> tuple[int, list[int]] | None:
    """Return the first column that is a linear function of earlier ones, and these; None where there is none."""
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
