"""Storage of blocks of rows, and of vectors computed from rows, between passes over the rows.

Blocks and vectors are kept in memory up to a limit. If the source's rows are in memory, as in a DataFrame, temporary
files store the blocks and vectors that exceed the limit. For any other source, blocks or vectors that exceed the limit
are computed again in each pass; blocks are kept only if the caller has set a memory limit and the source can check that
its rows have not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from privstats.gate.files import File

INSIDE, OUTSIDE = 1 << 30, 1 << 26  # default memory limits in bytes, for rows in memory and for rows not in memory
# shares of the memory limit: for blocks of rows, for a query's vectors, and for these vectors sorted by group
BLOCKS, VALUES, CELLS = 0.5, 0.25, 0.25

T = TypeVar("T")


class Memory:
    """Memory limit for data kept between passes over the rows, and the temporary files for data beyond this limit.

    Parameters
    ----------
    limit : float, optional
        Memory limit in bytes; by default 1 GiB if the rows are in memory, and otherwise 64 MiB.
    """

    def __init__(self, limit: float | None = None) -> None:
        self.limit, self.files = limit, WeakSet[File]()

    def part(self, share: float, in_memory: bool) -> float:
        """Return the fraction `share` of the memory limit, in bytes.

        The default limit is 1 GiB if the rows are in memory, and otherwise 64 MiB.
        """
        return share * (self.limit or (INSIDE if in_memory else OUTSIDE))

    def close(self) -> None:
        """Close and delete all temporary files."""
        for file in self.files:
            file.close()


class Kept(Generic[T]):
    """Items computed in one pass over the rows and kept for later passes, in memory or in a temporary file.

    If memory and disk have no room for all items, every pass computes all items again.

    Parameters
    ----------
    size : callable
        Function that returns the number of bytes of an item.
    limit : float
        Largest number of bytes of the items in memory.
    memory : Memory, optional
        Object that closes the temporary file after the fit; if None, no file is used.
    """

    def __init__(self, size: Callable[[T], int], limit: float, memory: Memory | None) -> None:
        self._size, self._limit, self._memory = size, limit, memory
        self._items: list[Any] | None = None  # kept items, or functions that read an item from a file
        self._file: File | None = None

    def again(self, made: Iterable[T]) -> Iterator[T]:
        """Yield the items kept in an earlier pass; if no items are kept, compute items by iterating over `made`.

        Computed items are kept for the next call if memory and the temporary file have room for all items.
        """
        if self._items is not None:
            yield from (item() if isinstance(item, partial) else item for item in self._items)
            return
        items: list[Any] | None = []
        left = self._limit
        for item in made:
            left -= self._size(item)
            kept = item if left >= 0 else self._filed(item)
            items = None if items is None or kept is None else [*items, kept]
            yield item
        self._items = items

    def _filed(self, item: T) -> partial[T] | None:
        """Write an item to the temporary file; return a function that reads the item, or None if writing failed."""
        if self._file is None and self._memory is not None:
            self._file = File()
            self._memory.files.add(self._file)
        return None if self._file is None else self._file.put(item)
