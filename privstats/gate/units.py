"""Choice of the used rows of each privacy unit, as a sample that depends neither on other units nor on row order.

Each row gets a number: a keyed hash of the name of its unit, of its cells, and of its index among the rows of the unit
with identical cells. The rows of a unit with the smallest numbers are used, at most `rows_per_unit` rows of each unit.
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

SORTED_ROWS = 1 << 20  # approximate number of rows in a batch of privacy units; the used rows are chosen batch by batch

Hashes = NDArray[np.uint64]


class Units:
    """Index of each row's privacy unit (person, household), and the choice of the rows that are used in each unit.

    Rows of a unit with identical cells are numbered as copies 0, 1, 2 and so on. The `rows_per_unit` rows of each unit
    with the smallest hashes of unit, cells and copy number are used. Copies have different hashes, so each row of a
    unit is equally likely to be used. For example, if nine of ten rows are identical and one row is used, the used row
    is one of these nine with probability 9/10.

    Privacy: for every key, the choice of a unit's rows depends on the rows of this unit alone, and at most
    `rows_per_unit` rows are used. The order of the rows of a unit does not change a result, because the fit maps
    identical cells to identical vectors. (The order matters only if two rows of a unit with different cells have the
    same hash, which happens with probability 2^-64.)

    Later passes over the data find the chosen rows by their positions. If a source then gives the rows of a unit in
    another order, which violates the contract of sources, the number of used rows of the unit stays the same.

    Parameters
    ----------
    unit : str
        Name of the column that identifies the unit of a row.
    rows_per_unit : int
        Largest number of rows of a unit that are used.
    key : bytes
        Secret key, the same for all passes of a fit.
    """

    def __init__(self, unit: str, rows_per_unit: int, key: bytes) -> None:
        self.unit, self.rows_per_unit, self.key = unit, rows_per_unit, key
        self.numbers: dict[Any, int] = {}
        self.counting: NDArray[np.int32] | None = None  # index of each row's unit, in source order; -1 if unused

    def of(self, column: pd.Series) -> IntArray:
        """Return the index of each row's privacy unit (person); -1 for a row whose unit name is missing or invalid."""
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
            names = np.asarray(column, dtype=float)
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
        """Choose at most `rows_per_unit` rows of each privacy unit, and store the choice in the attribute `counting`.

        The array `counting` has one entry per row: the index of the row's unit if the row is used, and otherwise -1.

        Parameters
        ----------
        rows : iterable of (ndarray, ndarray)
            Pairs of arrays for successive blocks of rows: the index of each row's unit (-1 for a row that is
            incomplete or excluded), and the hash of each row's cells, from which the choice is computed.
        """
        several = [(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.uint64))]
        several += [(some.astype(np.int32), one) for some, one in rows]
        units, hashes = (np.concatenate(parts) for parts in zip(*several, strict=True))
        del several
        many = np.bincount(units[units >= 0], minlength=len(self.numbers))
        crowded = np.append(many > self.rows_per_unit, False)  # the last entry is for rows without a unit, at index -1
        names = self.hashes_of_names(crowded)
        parts = 1 + int(many[crowded[:-1]].sum()) // SORTED_ROWS
        for part in range(parts):
            some = np.flatnonzero(crowded[units] & (units % parts == part))
            among = chosen_rows(units[some], mixed(hashes[some] ^ names[units[some]]), self.rows_per_unit)
            units[some[~among]] = -1
        self.counting = units

    def hashes_of_names(self, wanted: NDArray[np.bool_]) -> Hashes:
        names = list(compress(self.numbers, wanted))
        numbers = np.array([name if isinstance(name, float) else np.nan for name in names]) + 0.0  # turns -0.0 into 0.0
        several = mixed(numbers.view(np.uint64) ^ np.uint64(self._hash("")))
        for k in np.flatnonzero(np.isnan(numbers)):
            several[k] = self._hash(repr(names[k]))
        hashes = np.zeros(len(wanted), dtype=np.uint64)
        hashes[wanted] = several
        return hashes

    def hashes(self, columns: Mapping[str, pd.Series], domain: Mapping[str, Known], many: int) -> Hashes:
        """Return the hash of each row, from the row's cells clamped to declared bounds; `many` is the number of rows.

        0.0 and -0.0 have equal hashes, and all NaNs have equal hashes.
        """
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
    """Return a number in 0, ..., `parts` - 1 for each row, computed from the name of its privacy unit alone.

    All rows of a unit have the same number, so that a cluster can move these rows to one partition.
    """
    units = Units("", 1, b"")
    numbers = units.of(column)
    named = np.append(np.ones(len(units.numbers), dtype=bool), False)
    return (units.hashes_of_names(named) % np.uint64(parts)).astype(np.int64)[numbers]


def chosen_rows(units: NDArray[np.signedinteger[Any]], hashes: Hashes, most: int) -> NDArray[np.bool_]:
    """Return the mask of the rows with the smallest random numbers within their privacy unit, at most `most` per unit.

    The random number of a row depends on the hash of the row and on the number of earlier rows with the same hash in
    its unit. It does not depend on other units or on the number of units.

    Parameters
    ----------
    units : ndarray of int, shape (n,)
        Index of each row's unit.
    hashes : ndarray, shape (n,)
        Hash of each row and its unit; identical rows of a unit have equal hashes.
    most : int
        Largest number of rows of a unit that are used.
    """
    order = by_unit(units, hashes)
    units, hashes = units[order], hashes[order]
    numbers = mixed(hashes + repeats(units, hashes).astype(np.uint64))  # copies of a row get different numbers
    among = np.empty(len(units), dtype=bool)
    # If the rows are sorted by unit and random number, the array of their units still equals `units`, which is sorted
    # by unit and hash. So `repeats(units)` is the rank of each row's random number within its unit.
    among[order[by_unit(units, numbers)]] = repeats(units) < most
    return among


def by_unit(units: NDArray[np.signedinteger[Any]], numbers: Hashes) -> NDArray[Any]:
    """Return indices that sort rows by privacy unit and, within a unit, by `numbers`; faster than `numpy.lexsort`."""
    order = np.argsort(numbers)
    places = (units[order].astype(np.uint64) << np.uint64(32)) | np.arange(len(order), dtype=np.uint64)
    return order[np.sort(places) & np.uint64(0xFFFFFFFF)]


def mixed(numbers: Hashes) -> Hashes:
    """Return 64-bit numbers, mapped by a bijection that mixes bits: each output bit depends on all input bits.

    This is the finaliser of SplitMix64 (Steele et al. 2014).
    """
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def repeats(*keys: NDArray[Any]) -> IntArray:
    """Return the number of earlier rows with the same keys, for each row; rows with equal keys must be adjacent."""
    place = np.arange(len(keys[0]))
    first = np.zeros(len(place), dtype=bool)
    for key in keys:
        first[1:] |= key[1:] != key[:-1]
    since: IntArray = place - np.maximum.accumulate(np.where(first, place, 0))
    return since
