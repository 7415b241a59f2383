"""Temporary files for data that exceed the memory limit of a fit; they are deleted when the fit ends.

The files are in the system's folder for temporary files (`TMPDIR`). A file has no name, or its name is removed before
data are written, so no other process can open it by name. On Windows a file has a name, and the system deletes the file
when it is closed. Therefore no file is left when the process ends, even if the process crashes.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


class File:
    """A temporary file of arrays, and of dataclasses with arrays, which is deleted when it is closed.

    Attributes
    ----------
    full : bool
        Whether writing failed, usually because the disk is full; nothing more is written after a failure.
    """

    def __init__(self) -> None:
        self.end, self.full = 0, False
        self._file: IO[bytes] | None = None

    def put(self, item: T) -> partial[T] | None:
        """Write `item`, an array or a dataclass with arrays, and return a function that reads the item from the file.

        The result is None if this write, or an earlier write, has failed, usually because the disk is full.
        """
        try:
            written = None if self.full else _changed(item, self._write)
        except OSError:
            self.full = True
            self.close()
        return None if self.full else partial(_changed, written, self._read)

    def close(self) -> None:
        """Close and delete the file."""
        if self._file is not None:
            self._file.close()

    __del__ = close

    def _write(self, array: NDArray[Any]) -> _Written:
        flat = array.ravel(order="A")
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="privstats-", buffering=0)  # noqa: SIM115 -- self closes it
        self._file.seek(self.end)
        _whole(self._file.write, flat)
        self.end += flat.nbytes
        return _Written(self.end - flat.nbytes, array.shape, array.dtype, "F" if array.flags.fnc else "C")

    def _read(self, of: _Written) -> NDArray[Any]:
        assert self._file is not None
        flat = np.empty(math.prod(of.shape), of.dtype)
        self._file.seek(of.start)
        _whole(self._file.readinto, flat)  # type: ignore[attr-defined]
        return flat.reshape(of.shape, order=of.order)


@dataclass(frozen=True)
class _Written:
    """Position in bytes, shape, data type and memory order of an array in a file."""

    start: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: Any


def _changed(item: Any, change: Callable[[Any], Any]) -> Any:
    """Return `item`, an array or a dataclass with arrays, after the function `change` is applied to each array."""
    if isinstance(item, np.ndarray | _Written):
        return change(item)
    parts = {field.name: getattr(item, field.name) for field in fields(item)}
    for name, part in parts.items():
        if isinstance(part, tuple):
            parts[name] = tuple(map(change, part))
        elif isinstance(part, np.ndarray | _Written):
            parts[name] = change(part)
    return type(item)(**parts)


def _whole(step: Callable[[memoryview], int], flat: NDArray[Any]) -> None:
    """Write or read all bytes of an array.

    Each call of `step` writes or reads some of the remaining bytes, and returns their number.
    """
    left = flat.view(np.uint8).data
    while left:
        done = step(left)
        if not done:
            raise OSError("an open file has ended early")
        left = left[done:]
