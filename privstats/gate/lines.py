"""Text files such as CSV: every cell is a string, and each line is read by itself.

Each line is one row, whatever the line contains: a malformed line is a row with all cells missing, and does not cause
an error. Therefore the number of rows is the number of lines, replacing one line changes one row, and a line break
inside quotes does not join two lines.
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

SEPARATORS = {".csv": ",", ".tsv": "\t"}  # separator of cells, by file extension; ".gz" may follow the extension
# a line with more bytes than this number counts as malformed; the file is read in pieces of this number of bytes
LONGEST = 1 << 20
BROKEN = b"\0"  # a malformed line, which replaces a line that is too long
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
PLAIN = bytes({*range(1, 128)} - {*b'"\r'})  # lines with only these bytes are split at separators without parsing


@dataclass(eq=False, repr=False)
class TextLines:
    """A text file as a source of rows, one for each line below the header; the file must not change during a fit.

    Parameters
    ----------
    path : str
    separator : str
        Separator of the cells of a line.
    names : list of str
        Column names, from the first line.
    pin : tuple
        Size, modification time, inode and device of the file when it was first opened.

    Raises
    ------
    SourceChangedError
        During a pass, if the file has changed.
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
        """Return a DataFrame without rows, whose columns all have type float.

        A text file has no column types. Since every column has type float, only the use of a column in the formula
        decides whether its bounds or its levels must be declared.
        """
        return _frame(self.names, [[] for _ in self.names]).astype(float)

    def batches(self, names: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        wanted = self.names if names is None else list(names)
        for lines in filter(None, self._lines()):
            columns = columns_of(lines, self.separator, len(self.names))
            yield _frame(wanted, [[cell or None for cell in columns[self.names.index(name)]] for name in wanted])

    def steady(self) -> bool:
        """Return True if the file has not changed since it was first opened; otherwise raise an error."""
        try:
            same = pin_of(self.path) == self.pin
        except OSError:
            same = False
        if not same:
            raise SourceChangedError
        return same

    def _lines(self) -> Iterator[list[bytes]]:
        """Yield the lines of the file below its header, in batches."""
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
    """Return a text file (.csv, .tsv, .csv.gz or .tsv.gz) as a source of rows; None for other extensions.

    Raises
    ------
    OptionError
        If there is no file, or no header can be read from the file.
    """
    separator = SEPARATORS.get(os.path.splitext(path.lower().removesuffix(".gz"))[1])
    if separator is None:
        return None
    try:
        pin = pin_of(path)
        with file_at(path) as file:
            (first, *_) = next(lines_of(file))
        names = cells_of(first.removeprefix(BYTE_ORDER_MARK), separator) if first else None
    except Exception:  # the file may be empty, or may not be readable
        names = None
    if names is None and not os.path.exists(path):
        raise OptionError(
            "data is not the path of a file with column names, since there is no file at this path; give another path"
        )
    if names is None:
        raise OptionError(
            "data is not the path of a file with column names in its first line (in UTF-8, separated by commas, or by "
            "tabs in .tsv); give another path, or write the names above the rows"
        )
    return TextLines(path, separator, names, pin)


def file_at(path: str) -> IO[bytes]:
    """Open a file for reading; a file whose name ends in .gz is decompressed."""
    return gzip.open(path) if path.lower().endswith(".gz") else Path(path).open("rb")  # type: ignore[return-value]


def pin_of(path: str) -> tuple[int, ...]:
    """Return the size, modification time, inode and device of a file, which are compared to detect changes.

    Raises
    ------
    OSError
        If the path is not a regular file; only a regular file can be read again.
    """
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise OSError
    return found.st_size, found.st_mtime_ns, found.st_ino, found.st_dev


def lines_of(file: IO[bytes]) -> Iterator[list[bytes]]:
    """Yield the lines of a file in batches, without line ends; nonempty text after the last line end is a line, too.

    A line of more than `LONGEST` bytes is replaced by a malformed line. At most about 2 * `LONGEST` bytes of such a
    line are in memory at a time.
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
    """Return the cells of lines, column by column; the cells of a line with more or fewer than `many` cells are empty.

    Lines of ASCII characters without quotes are split at the separators, all lines at once. Other lines are parsed one
    by one.
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
    """Return the cells of a line; None for invalid UTF-8, unbalanced quotes, or a NUL or carriage return character.

    Parameters
    ----------
    line : bytes
        The line without its end.
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
    """Return columns of strings as a DataFrame with the given column names, which may repeat."""
    frame = pd.DataFrame({k: pd.Series(column, dtype=object) for k, column in enumerate(columns)})
    frame.columns = pd.Index(list(names), dtype=object)
    return frame
