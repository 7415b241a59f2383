"""Files of text, CSV and the like: every cell is a text, and each line is read by itself.

A record is a line, whatever is in it: one that does not fit is an absent row, whose cells are all missing, and never
an error. So the number of lines is the number of rows, one line that is replaced by another changes one row, and no
quote can make one record of two lines.
"""

from __future__ import annotations

import csv
import gzip
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pandas as pd

from privstats.errors import OptionError, SourceChangedError

SEPARATORS = {".csv": ",", ".tsv": "\t"}  # by the end of a file's name, after which ".gz" may stand
LONGEST = 1 << 20  # bytes of a line, and of what is read at a time
BROKEN = b"\0"  # a line that does not fit
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
PLAIN = bytes({*range(1, 128)} - {*b'"\r'})  # what the cells of most lines are made of


@dataclass(eq=False, repr=False)
class TextLines:
    """The lines of a file below its header, which must stay as they are during a call.

    Parameters
    ----------
    path : str
    separator : str
        Between the cells of a line.
    names : list of str
        Of the columns, as the first line has them.
    pin : tuple
        Size, time of change and place on the disk, as they were at first.

    Raises
    ------
    SourceChangedError
        In a pass, if the pin is another one.
    """

    path: str
    separator: str
    names: list[str]
    pin: tuple[int, ...]
    in_memory = False

    @property
    def n(self) -> int:
        return sum(map(len, self._lines()))

    def head(self) -> pd.DataFrame:
        """Return the columns: as numbers, so that the formula alone says how an undeclared one has to be declared."""
        return _frame(self.names, [[] for _ in self.names]).astype(float)

    def batches(self, names: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        wanted = self.names if names is None else list(names)
        for lines in filter(None, self._lines()):
            columns = columns_of(lines, self.separator, len(self.names))
            yield _frame(wanted, [[cell or None for cell in columns[self.names.index(name)]] for name in wanted])

    def steady(self) -> bool:
        """Return that the file is as it was at first, if it is."""
        try:
            same = pin_of(self.path) == self.pin
        except OSError:
            same = False
        if not same:
            raise SourceChangedError
        return same

    def _lines(self) -> Iterator[list[bytes]]:
        """Return the lines below the header, some at a time."""
        self.steady()
        header = 1
        try:
            with file_at(self.path) as file:
                for lines in lines_of(file):
                    yield lines[header:]
                    header = 0
        except Exception:
            self.steady()
            raise
        self.steady()


def text_lines(path: str) -> TextLines | None:
    """Return the source of a path that ends as those of texts do; None of any other.

    Raises
    ------
    OptionError
        If no file is there, or it has no header.
    """
    separator = SEPARATORS.get(os.path.splitext(path.lower().removesuffix(".gz"))[1])
    if separator is None:
        return None
    try:
        pin = pin_of(path)
        with file_at(path) as file:
            (first, *_) = next(lines_of(file))
        names = cells_of(first.removeprefix(BYTE_ORDER_MARK), separator) if first else None
    except Exception:  # such as a file that may not be read, or is empty
        names = None
    if names is None:
        raise OptionError(
            "data is a path where no file is whose first line names its columns, in UTF-8, with commas between them "
            "(in .tsv tabs); give another, or write such a line above the rows"
        )
    return TextLines(path, separator, names, pin)


def file_at(path: str) -> IO[bytes]:
    """Open a file, which may be compressed."""
    return gzip.open(path) if path.lower().endswith(".gz") else Path(path).open("rb")  # type: ignore[return-value]


def pin_of(path: str) -> tuple[int, ...]:
    """Return what changes when a file does.

    Raises
    ------
    OSError
        If there is no plain file, which alone gives the same bytes again.
    """
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise OSError
    return found.st_size, found.st_mtime_ns, found.st_ino, found.st_dev


def lines_of(file: IO[bytes]) -> Iterator[list[bytes]]:
    """Return the lines without their ends, some at a time; what follows the last end is one, unless it is empty.

    One that is too long is given as a broken one, and never all in memory.
    """
    begun = b""
    while read := file.read(LONGEST):
        *lines, rest = read.split(b"\n")
        if lines:
            lines[0], begun = begun + lines[0], b""
            yield [line.removesuffix(b"\r") if len(line) <= LONGEST else BROKEN for line in lines]
        begun = (begun + rest)[: LONGEST + 1]
    if begun:
        yield [begun.removesuffix(b"\r") if len(begun) <= LONGEST else BROKEN]


def columns_of(lines: Sequence[bytes], separator: str, many: int) -> list[list[str]]:
    """Return the cells of lines, column by column; those of a line that has not so `many` are empty.

    Lines of plain characters are cut at their separators, all at once; others as in `cells_of`, one by one.
    """
    between = separator.encode()
    fits = [line.count(between) == many - 1 and not line.translate(None, PLAIN) for line in lines]
    blank = between * (many - 1)
    plain = between.join(line if fit else blank for line, fit in zip(lines, fits, strict=True))
    cells = plain.decode().split(separator)
    columns = [cells[k::many] for k in range(many)]
    for row in (row for row, fit in enumerate(fits) if not fit):
        found = cells_of(lines[row], separator)
        if found is not None and len(found) == many:
            for column, cell in zip(columns, found, strict=True):
                column[row] = cell
    return columns


def cells_of(line: bytes, separator: str) -> list[str] | None:
    """Return the cells of a line; None where it is not UTF-8, or its quotes are broken.

    Parameters
    ----------
    line : bytes
        Without its end.
    separator : str

    Examples
    --------
    >>> cells_of(b'7,"Smith, Ann",', ","), cells_of(b'7,"Smith, Ann', ",")
    (['7', 'Smith, Ann', ''], None)
    """
    if b"\r" in line or b"\0" in line:
        return None
    try:
        text = line.decode()
        if '"' not in text:
            return text.split(separator)
        return next(csv.reader([text], delimiter=separator, strict=True))
    except (UnicodeDecodeError, csv.Error):
        return None


def _frame(names: Sequence[str], columns: Sequence[list[Any]]) -> pd.DataFrame:
    """Return columns of texts as a frame with these names, of which some may be alike."""
    frame = pd.DataFrame({k: pd.Series(column, dtype=object) for k, column in enumerate(columns)})
    frame.columns = pd.Index(list(names), dtype=object)
    return frame
