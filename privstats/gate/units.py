"""Which rows of a unit count: a sample of them that depends on no other unit, on no order and on no source.

Each row gets a number, a keyed hash of its unit's name, of its cells, and of which copy it is of rows with these cells;
the `rows_per_unit` rows of a unit with the smallest numbers count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from itertools import compress
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privstats.formula.cells import LARGEST_NAME, cells, unit_name
from privstats.formula.declarations import UNKNOWN, Known
from privstats.formula.values import Coded, admitted
from privstats.numerics.law import IntArray

SORTED_ROWS = 1 << 20  # of some units, of which those that count are found at a time

Hashes = NDArray[np.uint64]


class Units:
    """The units of the rows by number, and which of their rows count.

    Privacy: whatever the key, which rows of a unit count is a function of that unit's rows alone, whatever rows other
    units have, and they are `rows_per_unit` at most. Nor does their order matter: rows with the same cells are the same
    to every design of the fit, so that any of them may be taken for the first copy. (Other rows of a unit share their
    hash once in 2^64 pairs; these would be told apart by their order.)

    Passes find these rows again by their places. A source that gives the rows of a unit in another order each time,
    which none may, has no more of them counted either.

    As copies have numbers of their own, each row of a unit is as likely to count as the next one: of nine ones and a
    zero it is a one in nine cases of ten.

    Parameters
    ----------
    unit : str
        The column that names them.
    rows_per_unit : int
    key : bytes
        Secret, the same for all passes of a fit.
    """

    def __init__(self, unit: str, rows_per_unit: int, key: bytes) -> None:
        self.unit, self.rows_per_unit, self.key = unit, rows_per_unit, key
        self.numbers: dict[Any, int] = {}
        self.counting: NDArray[np.int32] | None = None  # the unit of each row, in the order of the source; -1: none

    def of(self, column: pd.Series) -> IntArray:
        """Return the number of each row's unit; -1 for rows without a usable name."""
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
            names = column.to_numpy(dtype=float)
            usable = np.abs(names) < LARGEST_NAME
            different, which = np.unique(names[usable], return_inverse=True)
            units = np.full(len(names), -1, dtype=np.int64)
            units[usable] = np.array([self._number(name) for name in different.tolist()], dtype=np.int64)[which]
            return units
        read = map(unit_name, cells(column))
        return np.array([-1 if name is None else self._number(name) for name in read], dtype=np.int64)

    def _number(self, name: Any) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    def choose(self, rows: Iterable[tuple[IntArray, Hashes]]) -> None:
        """Find the rows that count.

        Parameters
        ----------
        rows : iterable of (ndarray, ndarray)
            All of them: the number of each one's unit, -1 where it takes no place, and the hash of its cells.
        """
        several = [(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.uint64))]
        several += [(some.astype(np.int32), one) for some, one in rows]
        units, hashes = (np.concatenate(parts) for parts in zip(*several, strict=True))
        del several
        many = np.bincount(units[units >= 0], minlength=len(self.numbers))
        crowded = np.append(many > self.rows_per_unit, False)  # and no unit, whose number is -1
        names = self.hashes_of_names(crowded)
        parts = 1 + int(many[crowded[:-1]].sum()) // SORTED_ROWS
        for part in range(parts):
            some = np.flatnonzero(crowded[units] & (units % parts == part))
            among = chosen_rows(units[some], mixed(hashes[some] ^ names[units[some]]), self.rows_per_unit)
            units[some[~among]] = -1
        self.counting = units

    def hashes_of_names(self, wanted: NDArray[np.bool_]) -> Hashes:
        names = list(compress(self.numbers, wanted))
        numbers = np.array([name if isinstance(name, float) else np.nan for name in names]) + 0.0  # 0 and -0 are one
        several = mixed(numbers.view(np.uint64) ^ np.uint64(self._hash("")))
        for k in np.flatnonzero(np.isnan(numbers)):
            several[k] = self._hash(repr(names[k]))
        hashes = np.zeros(len(wanted), dtype=np.uint64)
        hashes[wanted] = several
        return hashes

    def hashes(self, columns: Mapping[str, pd.Series], domain: Mapping[str, Known], many: int) -> Hashes:
        """Return the hash of each row's cells, held to what is declared: of no sign of zero, of one NaN."""
        hashes = np.full(many, self._hash(""), dtype=np.uint64)
        for name, column in columns.items():
            values, legal = admitted(domain.get(name, UNKNOWN), column)
            numbers = np.where(legal, values.codes if isinstance(values, Coded) else values, np.nan)
            hashes = mixed(hashes ^ (numbers + 0.0).view(np.uint64))
        return hashes

    def _hash(self, text: str) -> int:
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self.key, digest_size=8).digest()
        return int.from_bytes(digest, "little")


def places(column: pd.Series, parts: int) -> IntArray:
    """Return for each row, by the name of its unit alone, in which of several parts its unit comes together."""
    units = Units("", 1, b"")
    numbers = units.of(column)
    named = np.append(np.ones(len(units.numbers), dtype=bool), False)
    return (units.hashes_of_names(named) % np.uint64(parts)).astype(np.int64)[numbers]


def chosen_rows(units: NDArray[np.signedinteger[Any]], hashes: Hashes, most: int) -> NDArray[np.bool_]:
    """Return which rows are among the `most` of their unit with the smallest numbers, made of hashes and of copies.

    Units are compared to be told apart, but no number is made of another unit's rows, nor of how many units there are.

    Parameters
    ----------
    units : ndarray of int, shape (n,)
    hashes : ndarray, shape (n,)
        Of a row with its unit: equal for copies.
    most : int
    """
    order = by_unit(units, hashes)
    units, hashes = units[order], hashes[order]
    numbers = mixed(hashes + repeats(units, hashes).astype(np.uint64))  # of a first copy, a second one, ...
    among = np.empty(len(units), dtype=bool)
    among[order[by_unit(units, numbers)]] = repeats(units) < most  # of the same units in both orders
    return among


def by_unit(units: NDArray[np.signedinteger[Any]], numbers: Hashes) -> NDArray[Any]:
    """Return the order of rows by unit, and by number within a unit: `numpy.lexsort` in a third of its time."""
    order = np.argsort(numbers)
    places = (units[order].astype(np.uint64) << np.uint64(32)) | np.arange(len(order), dtype=np.uint64)
    return order[np.sort(places) & np.uint64(0xFFFFFFFF)]


def mixed(numbers: Hashes) -> Hashes:
    """Return other numbers, each bit of which depends on all bits: a permutation (Steele, Lea and Flood 2014)."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def repeats(*keys: NDArray[Any]) -> IntArray:
    """Return for each row, in order of the keys, how many rows with the same keys are above it."""
    place = np.arange(len(keys[0]))
    first = np.zeros(len(place), dtype=bool)
    for key in keys:
        first[1:] |= key[1:] != key[:-1]
    since: IntArray = place - np.maximum.accumulate(np.where(first, place, 0))
    return since
