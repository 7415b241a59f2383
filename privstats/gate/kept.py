"""What is kept of the rows from one pass to the next: in memory up to a limit, and beyond it in files.

Rows that do not lie in memory stay where they are: nothing of them is written, and they are read in each pass; those of
files that are seen to stay as they are may be kept in memory, within a limit that the user gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from privstats.gate.files import File

INSIDE, OUTSIDE = 1 << 30, 1 << 26  # bytes by default: of rows that lie in memory anyway, and of others
BLOCKS, VALUES, CELLS = 0.5, 0.25, 0.25  # parts of the limit

T = TypeVar("T")


class Memory:
    """What a call may keep of its rows.

    Parameters
    ----------
    limit : float, optional
        Bytes of memory.
    """

    def __init__(self, limit: float | None = None) -> None:
        self.limit, self.files = limit, WeakSet[File]()

    def part(self, share: float, in_memory: bool) -> float:
        """Return a part of the limit, of rows in memory or of others."""
        return share * (self.limit or (INSIDE if in_memory else OUTSIDE))

    def close(self) -> None:
        """Close all files, which deletes them."""
        for file in self.files:
            file.close()


class Kept(Generic[T]):
    """What one pass makes, for the next ones; where there is no room for all of it, it is made anew.

    Parameters
    ----------
    size : callable
        How many bytes something takes.
    limit : float
        Of bytes in memory.
    memory : Memory, optional
        Has the files; without it nothing is written.
    """

    def __init__(self, size: Callable[[T], int], limit: float, memory: Memory | None) -> None:
        self._size, self._limit, self._memory = size, limit, memory
        self._items: list[Any] | None = None  # or what reads them
        self._file: File | None = None

    def again(self, made: Iterable[T]) -> Iterator[T]:
        """Return what is kept; where nothing is, what is made."""
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
        """Write something; return what reads it again, None where there is no room for it."""
        if self._file is None and self._memory is not None:
            self._file = File()
            self._memory.files.add(self._file)
        return None if self._file is None else self._file.put(item)
