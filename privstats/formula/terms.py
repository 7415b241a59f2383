"""The terms of a formula, which define the model matrix as a function of numeric variables and level codes.

A column is the product of numeric factors (1 if there are none) and of contrasts of factors with levels (1 if there are
none). A block of rows stores, for each row, the values of the products of numeric factors, and the level codes of the
factors and combinations of factors. Columns are in the user's units, or scaled to [-1, 1].
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privstats.errors import FormulaError
from privstats.formula.block import Codes, Layout, Term
from privstats.formula.expression import powers
from privstats.formula.factors import TRUTH, BasisFactor, Factor, LevelFactor, NumericFactor
from privstats.formula.interval import Interval
from privstats.formula.language import Subterm
from privstats.numerics.law import FloatArray

Key = tuple[str, ...]  # names of the categorical columns (or texts of conditions) in a factor or combination of factors
CODED = re.compile(r"C\((\w+)(?:,.*)?\)")  # a categorical column with its coding in a formula, such as C(g, Sum)
LARGEST = Interval(-1e300, 1e300)
Number = tuple[tuple[str, int], ...]  # a product of numeric factors: pairs (factor's expression, index of its column)


@dataclass(frozen=True, eq=False)
class DesignFactor:
    """A factor in the model, or a combination of factors, with its levels and contrasts; no data are stored.

    Parameters
    ----------
    name : str
        Name as the formula writes it; "a:b" for a combination.
    levels : tuple
        Levels of the factor; for a combination, tuples of levels, in which the last factor's level varies fastest.
    contrasts : ndarray, shape (levels, columns)
        Values, at each level, of the columns of the scaled model matrix that are listed in `columns`.
    columns : tuple of int
        Indices, in the model matrix, of the columns that are functions of the level alone.
    used : bool
        False if the factor is part of a larger combination of factors in the design. The level of the combination then
        determines the level of this factor, and counts of rows are released only for the combination.
    """

    name: str
    levels: tuple[Any, ...]
    contrasts: FloatArray
    columns: tuple[int, ...]
    used: bool

    @cached_property
    def reference(self) -> int | None:
        """Index of the reference level, at which every dummy has its lowest value.

        None if there is no reference level, as for contrasts other than dummies, or for a combination of factors.
        """
        high = self._high
        first = np.flatnonzero(~high.any(axis=1))
        simple = ":" not in self.name and len(first) == 1 and bool((high.sum(axis=0) == 1).all())
        return int(first[0]) if simple else None

    def dummies(self, level: int) -> list[int]:
        """Return the positions, within `columns`, of the dummies of the level with index `level` of this factor."""
        return [int(place) for place in np.flatnonzero(self._high[level])]

    def compared_with(self, level: Any) -> str:
        """Return this factor as text for a formula with `level` as reference level, such as C(g, Treatment('b'))."""
        column = CODED.fullmatch(self.name)
        return f"C({column[1] if column else self.name}, Treatment({level!r}))"

    @cached_property
    def _high(self) -> NDArray[np.bool_]:
        contrasts = np.asarray(self.contrasts, dtype=float)
        return contrasts > contrasts.min(axis=0, initial=np.inf)


@dataclass(frozen=True, eq=False)
class Product:
    """Columns of the model matrix: a product of numeric factors, times contrasts of a factor or combination of factors.

    Parameters
    ----------
    columns : tuple of int
        Indices of these columns in the model matrix.
    number : int, optional
        Index, in `Terms.numbers`, of the product of numeric factors; None if there are no numeric factors.
    factor : int, optional
        Index, in `Terms.keys`, of the factor or combination of factors; None if there are no factors with levels.
    contrasts : ndarray, shape (levels or 1, columns)
        Values of the contrasts at each level; one column for each entry of `columns`.
    """

    columns: tuple[int, ...]
    number: int | None
    factor: int | None
    contrasts: FloatArray


@dataclass(frozen=True, eq=False)
class SlopesByLevel:
    """Columns of the scaled model matrix that are products of a numeric expression and a factor with levels.

    Column j of `columns` has the value ``((x + shift) * contrast - centers[j]) / halves[j]``. Here x is the value of
    the numeric expression, contrast is the value of the column's contrast at the row's level, and `centers` and
    `halves`, the shifts and divisors of the columns, are attributes of the design.

    Parameters
    ----------
    columns : tuple of int
        Indices of these columns in the model matrix.
    number : int, optional
        Index of the column with the numeric expression alone; None if there is no such column.
    factor : int
        Index of the factor in the attribute `factors` of the design.
    contrasts : ndarray, shape (levels, columns)
        Values of the contrasts at each level.
    middle, half : float
        Centre and half-range of the numeric expression.
    shift : float
        Minus `middle` if the numeric expression is centred (see `Terms.coding`); otherwise 0.
    """

    columns: tuple[int, ...]
    number: int | None
    factor: int
    contrasts: FloatArray
    middle: float
    half: float
    shift: float


@dataclass(frozen=True, eq=False)
class Terms:
    """Description of the columns of the model matrix, in the user's units.

    Parameters
    ----------
    numeric : mapping of str to NumericFactor or BasisFactor
        Numeric factors by the text of their expression.
    coded : mapping of str to LevelFactor or NumericFactor
        Factors with levels, and conditions (comparisons), which have the levels False and True. The key is the name of
        the raw column, or the text of the condition.
    numbers : tuple of Number
        Products of numeric factors. For a block of rows, their scaled values are the first columns of `Block.numbers`.
    scales : tuple of (center, half)
        Centre and half-range of each product of numeric factors; the scaled value is (value - center) / half.
    keys : tuple of Key
        Factors and combinations of factors, each as a tuple of keys of `coded`. For a block of rows, the integer codes
        of the levels of entry k are the array ``Block.codes[k]``.
    products : tuple of Product
        Definitions of the columns of the model matrix.
    intervals : tuple of Interval
        Range of each column of the matrix ``X @ coding``, where X is the model matrix.
    coding : ndarray, shape (columns, columns)
        Matrix by which the model matrix is multiplied from the right before its columns are scaled. The matrix differs
        from the identity only if numeric predictors are centred, at the middle of their ranges, in products with
        factors. Without centring, ``year:C(g)[T.b]`` would be almost proportional to ``C(g)[T.b]`` for years from 2000
        to 2020, and the noise could leave the two coefficients unidentified.
    """

    numeric: Mapping[str, NumericFactor | BasisFactor]
    coded: Mapping[str, LevelFactor | NumericFactor]
    numbers: tuple[Number, ...]
    scales: tuple[tuple[float, float], ...]
    keys: tuple[Key, ...]
    products: tuple[Product, ...]
    intervals: tuple[Interval, ...]
    coding: FloatArray

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the columns of the data on the right-hand side of the formula."""
        parts = (*self.numeric.values(), *self.coded.values())
        return tuple(dict.fromkeys(name for part in parts for name in part.reads))

    def sources(self, product: Product) -> list[Factor]:
        """Return the factors of a product: first the numeric factors, then the factors with levels."""
        number = () if product.number is None else self.numbers[product.number]
        key = () if product.factor is None else self.keys[product.factor]
        return [*(self.numeric[code] for code, _ in number), *(self.coded[name] for name in key)]

    def codes(self, rows: Mapping[str, Any], present: NDArray[np.bool_]) -> tuple[Codes, ...]:
        """Return the level codes of n rows: one array, shape (n,), for each factor or combination of factors in `keys`.

        The mask `present` of the used rows is changed in place: an entry becomes False if a condition is NaN in the
        row.
        """
        single = {}
        for name, part in self.coded.items():
            if isinstance(part, LevelFactor):
                single[name] = part.codes(rows)
                continue
            values = part.values(rows)[:, 0]
            np.logical_and(present, ~np.isnan(values), out=present)
            single[name] = (np.nan_to_num(values) != 0).astype(np.intp)
        return tuple(self._combined(single, key) for key in self.keys)

    def _combined(self, single: Mapping[str, Codes], key: Key) -> Codes:
        first, *others = key
        codes = single[first]
        for name in others:
            codes = codes * self.size(name) + single[name]
        return codes

    def size(self, name: str) -> int:
        """Return the number of levels of a column or condition."""
        part = self.coded[name]
        return len(part.levels.values) if isinstance(part, LevelFactor) else 2

    def levels(self, key: Key) -> tuple[Any, ...]:
        """Return the levels of a factor or combination of factors (`key`); a level of a combination is a tuple."""
        each = [p.levels.values if isinstance(p := self.coded[name], LevelFactor) else (False, True) for name in key]
        return tuple(each[0]) if len(key) == 1 else tuple(itertools.product(*each))

    def matrix(self, rows: Mapping[str, Any], n: int) -> FloatArray:
        """Return the unscaled, unclamped model matrix of n rows, shape (n, columns); NaN where a condition is NaN."""
        parts = {code: part.values(rows, clamp=False) for code, part in self.numeric.items()}
        there = np.ones(n, dtype=bool)
        codes = self.codes(rows, there)
        out = np.empty((n, len(self.intervals)))
        for product in self.products:
            values = np.ones(n) if product.number is None else multiplied(parts, self.numbers[product.number])
            looked_up = product.contrasts if product.factor is None else product.contrasts[codes[product.factor]]
            out[:, list(product.columns)] = values[:, None] * looked_up
        return np.where(there[:, None], out, np.nan)

    def multiplied_columns(self) -> tuple[tuple[int, int, int], ...]:
        """Return triples of column indices: a column that is a square or product of two columns, and these two columns.

        The two multiplied columns are not themselves products of columns. The notation does not matter: ``x**2``,
        ``x * x`` and ``np.square(x)`` are the same product.
        """
        made_of = {p.columns[0]: powers for p in self.products if (powers := self._powers(p))}
        at = {frozenset(powers.items()): column for column, powers in made_of.items()}
        pairs: dict[int, list[tuple[int, int]]] = {}
        for column, whole in made_of.items():
            parts = [(a, whole - part) for a, part in made_of.items() if part < whole] if whole.total() > 1 else []
            others = [(a, at.get(frozenset(rest.items()))) for a, rest in parts]
            if found := [(a, b) for a, b in others if b is not None]:
                pairs[column] = found
        plain = {column: [(a, b) for a, b in found if not {a, b} & pairs.keys()] for column, found in pairs.items()}
        return tuple((column, *min(found)) for column, found in sorted(plain.items()) if found)

    def slopes_by_level(self) -> tuple[SlopesByLevel, ...]:
        """Return the columns that are products of a numeric expression and a factor with levels."""
        alone = {p.number: p.columns[0] for p in self.products if p.number is not None and p.factor is None}
        centred = (self.coding != np.eye(len(self.coding))).any(axis=0)
        found = []
        for one in self.products:
            if one.number is not None and one.factor is not None:
                middle, half = self.scales[one.number]
                shift = -middle if centred[list(one.columns)].any() else 0.0
                number = alone.get(one.number)
                found.append(SlopesByLevel(one.columns, number, one.factor, one.contrasts, middle, half, shift))
        return tuple(found)

    def has_higher_powers(self) -> bool:
        """Return whether a product of 3 or more numeric factors, such as x**3, is a multiple of another column (x)."""
        made_of = [powers for p in self.products if (powers := self._powers(p))]
        return any(part < whole for whole in made_of if whole.total() > 2 for part in made_of)

    def _powers(self, product: Product) -> Counter[str]:
        """Return a column of the model matrix as a product of powers: the exponent of each expression in the product.

        For example, the column ``x**2 * z`` gives ``{"x": 2, "z": 1}``. The result is empty for an intercept, for
        columns that depend on a factor with levels or a condition, and for columns of a polynomial or spline basis.
        """
        parts = self.sources(product)
        nodes = [part.node for part in parts if isinstance(part, NumericFactor)]
        numeric = product.factor is None and len(nodes) == len(parts)
        return sum(map(powers, nodes), Counter()) if numeric else Counter()

    def layout(self, centers: FloatArray, halves: FloatArray, offset: bool) -> Layout:
        """Return the `Layout` of the scaled model matrix, which ends with the offset (if any) and the response.

        Each other column j is ``((x + shift) * contrast - centers[j]) / halves[j]``. For each row, x is the value of
        the column's product of numeric factors in the user's units (1 if there are none), and contrast is the value of
        the column's contrast at the row's level. If the matrix `coding` centres the column, shift is minus the middle
        of the range of x; otherwise shift is 0.
        """
        terms, offsets = [], (self.coding - np.eye(len(self.coding))).sum(axis=0)
        for product in self.products:
            at = list(product.columns)
            center, half = (1.0, 0.0) if product.number is None else self.scales[product.number]
            slopes = product.contrasts * half / halves[at]
            shifts = (product.contrasts * (center + offsets[at]) - centers[at]) / halves[at]
            terms.append(Term(product.columns, product.number, product.factor, slopes, shifts))
        many = len(self.numbers) + offset + 1
        last = [len(self.intervals) + k for k in range(offset + 1)]
        unit, zero = np.ones((1, 1)), np.zeros((1, 1))
        for place, column in enumerate(last):
            terms.append(Term((column,), len(self.numbers) + place, None, unit, zero))
        return Layout(last[-1] + 1, tuple(terms), many)

    def factors(self, names: Mapping[str, str], layout: Layout) -> tuple[DesignFactor, ...]:
        """Return the levels, contrasts and columns of each factor or combination of factors, in the order of `keys`.

        `names` maps each key of `coded` to the text of the factor in the formula. The contrasts are values of columns
        of the scaled model matrix, which `layout` defines.
        """
        made = []
        for key in self.keys:
            columns: list[int] = []
            contrasts = [np.zeros((len(self.levels(key)), 0))]
            for term in layout.terms:
                if term.number is None and term.factor is not None and {*self.keys[term.factor]} <= {*key}:
                    columns += term.columns
                    contrasts.append(term.shifts[self._within(key, self.keys[term.factor])])
            used = not any({*key} < {*other} for other in self.keys)
            name = ":".join(names[part] for part in key)
            made.append(DesignFactor(name, self.levels(key), np.hstack(contrasts), tuple(columns), used))
        return tuple(made)

    def _within(self, key: Key, part: Key) -> Codes:
        """Return the level code of `part`, a subset of the factors in `key`, at each level of the combination `key`."""
        sizes = [self.size(name) for name in key]
        each = dict(zip(key, np.indices(sizes).reshape(len(key), -1), strict=True))
        return self._combined(each, part)

    def null_space(
        self, kept: Sequence[NDArray[np.bool_] | None] | None, centers: FloatArray, halves: FloatArray, intercept: bool
    ) -> FloatArray:
        """Return an orthonormal basis of the null space of the scaled model matrix, shape (columns, directions).

        The rows of this matrix are all possible rows whose levels the fit keeps. Its column j is
        ``(Z[:, j] - centers[j]) / halves[j]``, where Z is ``X @ self.coding`` and X is the model matrix in the user's
        units. Different products of numeric predictors count as linearly independent.

        Parameters
        ----------
        kept : sequence of (ndarray of bool or None), optional
            For each entry of `keys`, the mask of the levels that the fit keeps, because they have enough rows for the
            budget, or None for all levels.
        centers, halves : ndarray, shape (columns,)
            Shift and scale of each column of Z; 0 and 1 for the intercept.
        intercept : bool
            Whether column 0 is the intercept.
        """
        allowed = self._allowed([None] * len(self.keys) if kept is None else kept)
        d = len(self.intervals)
        conditions = [np.zeros((0, d))]
        for number in dict.fromkeys(product.number for product in self.products):
            mine = [product for product in self.products if product.number == number]
            conditions.append(self._at_levels(mine, allowed, d))
        # the inverse of the matrix `coding` is 2 I - coding, because (coding - I)^2 = 0, with I the identity
        original = (2 * np.eye(d) - self.coding) @ _null_space(np.vstack(conditions))
        boxed = original * halves[:, None]
        if intercept:
            boxed[0] += centers @ original
        return np.linalg.qr(boxed)[0] if boxed.size else boxed

    def _allowed(self, kept: Sequence[NDArray[np.bool_] | None]) -> list[NDArray[np.bool_]]:
        """Return, for each factor or combination of factors in `keys`, the mask of the levels that kept rows can have.

        `kept` has, for each entry of `keys`, the mask of the levels that the fit keeps, or None for all levels. A row
        is kept if all its levels are kept.
        """
        allowed = [np.ones(len(self.levels(key)), bool) for key in self.keys]
        for k, key in enumerate(self.keys):
            for j, other in enumerate(self.keys):
                mask = kept[j]
                if mask is not None and {*other} <= {*key}:
                    allowed[k] &= np.asarray(mask, bool)[self._within(key, other)]
        for k, key in enumerate(self.keys):
            for j, other in enumerate(self.keys):
                if {*key} < {*other}:
                    seen = np.zeros(len(allowed[k]), bool)
                    seen[self._within(other, key)[allowed[j]]] = True
                    allowed[k] &= seen
        return allowed

    def _at_levels(self, products: list[Product], allowed: list[NDArray[np.bool_]], d: int) -> FloatArray:
        """Return the contrasts of the columns in `products` at several combinations of factor levels.

        The result has a row for each combination, and the d columns of the model matrix; columns outside `products`
        are zero. `allowed` is the result of `_allowed`.

        The method `_cells` divides the factors into groups 1, ..., m. The combinations in the result are, for each
        group, all its allowed combinations of levels, each joined with the first allowed combination of every other
        group. If a group has no allowed combination, the result has no rows.

        A linear combination of the columns that is zero in all rows of the result is zero at all allowed combinations.
        Proof: the linear combination is a sum f_1(a_1) + ... + f_m(a_m), where a_j is the combination of levels of
        group j. While only a_j varies, the other summands are constant and the sum is zero, so f_j is constant. This
        holds for each j. Therefore the sum is constant, and so the sum is zero at all allowed combinations.
        """
        cells = self._cells([self.keys[product.factor] for product in products if product.factor is not None], allowed)
        if any(not len(codes) for cell in cells for codes in cell.values()):
            return np.zeros((0, d))
        first = {name: codes[0] for cell in cells for name, codes in cell.items()}
        rows = []
        for cell in cells or [first]:
            n = len(next(iter(cell.values()))) if cell else 1
            here = {name: np.full(n, level, dtype=np.intp) for name, level in first.items()} | cell
            out = np.zeros((n, d))
            for product in products:
                at = 0 if product.factor is None else self._combined(here, self.keys[product.factor])
                out[:, list(product.columns)] = product.contrasts[at]
            rows.append(out)
        return np.vstack(rows)

    def _cells(self, used: list[Key], allowed: list[NDArray[np.bool_]]) -> list[dict[str, Codes]]:
        """Return, for each group of factors, its allowed combinations of levels: an array of level codes per factor.

        `used` and `keys` are lists of factors and combinations of factors. Two factors are in one group if a
        combination in `used`, or a combination in `keys` with levels that are not allowed, contains both factors.
        `allowed` is the result of `_allowed`.
        """
        names = {name for key in used for name in key}
        tied = [key for key, legal in zip(self.keys, allowed, strict=True) if not legal.all() and names & {*key}]
        cells = []
        for group in _joined([*used, *tied]):
            each = np.indices([self.size(name) for name in group]).reshape(len(group), -1)
            at = dict(zip(group, each, strict=True))
            legal = np.ones(each.shape[1], bool)
            for key, levels in zip(self.keys, allowed, strict=True):
                if {*key} <= {*group}:
                    legal &= levels[self._combined(at, key)]
            cells.append({name: codes[legal] for name, codes in at.items()})
        return cells


def _joined(keys: list[Key]) -> list[Key]:
    """Return groups of factors: two combinations of factors in `keys` are merged if they have a factor in common."""
    groups: list[dict[str, None]] = []
    for key in keys:
        together = dict.fromkeys(key)
        for group in [group for group in groups if group.keys() & together.keys()]:
            together |= group
            groups.remove(group)
        groups.append(together)
    return [tuple(group) for group in groups]


def _null_space(matrix: FloatArray) -> FloatArray:
    """Return a basis of the null space of a matrix, shape (columns, directions).

    The columns are first scaled to norm 1. A singular value then counts as zero if it is at most 1e-9 times the largest
    singular value.
    """
    norms = np.sqrt((matrix**2).sum(axis=0))
    scale = np.where(norms > 0, norms, 1.0)
    triangle = np.asarray(np.linalg.qr(matrix / scale)[1])
    values = np.linalg.svd(triangle, compute_uv=False)
    rank = int((values > 1e-9 * max(values.max(initial=0.0), 1.0)).sum())
    if rank == matrix.shape[1]:
        return np.zeros((rank, 0))
    directions = np.linalg.svd(triangle, full_matrices=True)[2]
    return directions[rank:].T / scale[:, None]


def _refuse_twice(levels: Sequence[Factor], subterm: Subterm) -> None:
    for part, other in itertools.combinations(levels, 2):
        if key_of(part) == key_of(other):
            raise FormulaError(f"'{':'.join(subterm.factors)}' has '{key_of(part)}' twice; leave out '{other.code}'")


def key_of(part: Factor) -> str:
    """Return the key under which a factor's level codes are stored: the name of its column, or else its expression."""
    return part.name if isinstance(part, LevelFactor) else part.code


def terms_of(subterms: Sequence[Subterm], parts: Mapping[str, Factor], centred: bool) -> Terms:
    """Return the `Terms` that describe the columns of `subterms`, which are the products of factors in a formula.

    `parts` maps the text of each factor's expression to the factor. If `centred` is True, numeric predictors are
    centred in their products with factors (see `Terms.coding`).

    Raises
    ------
    FormulaError
        If a categorical column, or a condition, occurs twice in a product.
    """
    builder = _Builder(parts, {}, {}, {}, {}, [], [])
    for subterm in subterms:
        builder.add(subterm)
    return builder.terms(centred)


@dataclass(frozen=True, eq=False)
class _Builder:
    """Builder of the description of columns (`Terms`); each call of `add` appends the columns of a product of factors.

    `parts` maps the text of each factor's expression to the factor. The other fields describe the columns added so far.
    """

    parts: Mapping[str, Factor]
    numeric: dict[str, NumericFactor | BasisFactor]
    coded: dict[str, LevelFactor | NumericFactor]
    numbers: dict[Number, Interval]
    keys: dict[Key, None]
    products: list[Product]
    intervals: list[Interval]

    def add(self, subterm: Subterm) -> None:
        """Append the columns of a product of factors (subterm) to the description.

        Columns with the same product of numeric factors form one `Product`.
        """
        mine = [self.parts[code] for code in subterm.factors]
        for part in mine:
            if isinstance(part, BasisFactor) or (isinstance(part, NumericFactor) and not part.is_condition):
                self.numeric.setdefault(part.code, part)
            else:
                self.coded.setdefault(key_of(part), part)
        levels = [part for part in mine if part.code not in self.numeric]
        levels.sort(key=lambda part: list(self.coded).index(key_of(part)))
        _refuse_twice(levels, subterm)
        key = tuple(key_of(part) for part in levels)
        if key:
            self.keys.setdefault(key)
        start = len(self.intervals)
        self.intervals.extend([Interval(1.0, 1.0)] * subterm.columns)
        for number, columns in self._by_number(subterm, mine, levels).items():
            within = self._within(number)
            contrasts = np.column_stack(list(columns.values()))
            at = tuple(start + place for place in columns)
            for column, contrast in zip(at, contrasts.T, strict=True):
                self.intervals[column] = within * Interval.hull((contrast.min(), contrast.max()))
            self.products.append(Product(at, _place(self.numbers, number), _place(self.keys, key), contrasts))

    def _by_number(
        self, subterm: Subterm, mine: Sequence[Factor], levels: Sequence[Factor]
    ) -> dict[Number, dict[int, FloatArray]]:
        """Return the contrasts of the columns of `subterm`, grouped by the product of numeric factors in the column.

        Each column is a product of numeric factors times a contrast, which has one value for each combination of
        levels. The outer key is the product of numeric factors; the inner key is the index of the column, from 0.

        Parameters
        ----------
        subterm : Subterm
        mine : sequence of Factor
            All factors of the subterm.
        levels : sequence of Factor
            The factors of the subterm that have levels or are conditions.
        """
        found: dict[Number, dict[int, FloatArray]] = {}
        choices = [range(_width(part, subterm)) for part in reversed(mine)]
        for place, turned in enumerate(itertools.product(*choices)):
            chosen = dict(zip(subterm.factors, reversed(turned), strict=True))
            number = tuple((code, chosen[code]) for code in self.numeric if code in chosen)
            contrast = np.ones(())
            for part in levels:
                contrast = np.multiply.outer(contrast, _contrast(part, subterm)[:, chosen[part.code]])
            found.setdefault(number, {})[place] = contrast.ravel()
        return found

    def _within(self, number: Number) -> Interval:
        """Return the range of the product `number` of numeric factors, and store it in the field `numbers`."""
        within = Interval(1.0, 1.0)
        for code, column in number:
            within = within * self.numeric[code].intervals[column]
        if number:
            within = within & LARGEST  # a product of estimated bounds may overflow to infinity
            self.numbers.setdefault(number, within)
        return within

    def terms(self, centred: bool) -> Terms:
        """Return the description (`Terms`) of the columns that `add` has appended.

        `centred` states whether numeric predictors are centred in their products with factors.
        """
        scales = tuple((within.middle, within.half) for within in self.numbers.values())
        coding, intervals = np.eye(len(self.intervals)), list(self.intervals)
        alone = {
            (product.factor, contrast.tobytes()): column
            for product in self.products
            for column, contrast in zip(product.columns, product.contrasts.T, strict=True)
            if product.number is None and product.factor is not None
        }
        for product in self.products if centred else ():
            if product.number is None or product.factor is None:
                continue
            center, half = scales[product.number]
            for column, contrast in zip(product.columns, product.contrasts.T, strict=True):
                main = alone.get((product.factor, contrast.tobytes()))
                if main is not None:
                    coding[main, column] = -center
                    intervals[column] = Interval(-half, half) * Interval.hull((contrast.min(), contrast.max()))
        return Terms(
            self.numeric,
            self.coded,
            tuple(self.numbers),
            scales,
            tuple(self.keys),
            tuple(self.products),
            tuple(intervals),
            coding,
        )


def _place(among: Mapping[Any, Any], what: tuple[Any, ...]) -> int | None:
    return list(among).index(what) if what else None


def _width(part: Factor, subterm: Subterm) -> int:
    return subterm.contrasts[part.code].shape[1] if isinstance(part, LevelFactor) else len(part.intervals)


def _contrast(part: Factor, subterm: Subterm) -> FloatArray:
    return subterm.contrasts[part.code] if isinstance(part, LevelFactor) else TRUTH


def multiplied(parts: Mapping[str, FloatArray], key: Number) -> FloatArray:
    """Return, for each row, the product of the numeric factors in `key`; `parts` maps each expression to its values."""
    (first, column), *others = key
    product = parts[first][:, column]
    for code, place in others:
        product = product * parts[code][:, place]
    return product
