"""Where a fit stands among its planned passes: a line on a terminal or in a notebook, where a fit takes long.

All that is shown is public: the name of the function, how many times the fit has asked and will at most ask (of the
branch that was chosen, once that is a release), and the rows that were read, where their number is public, in steps of
a hundredth, as the sizes of frames that a source gives may depend on rows. A mechanism may scan rows several times for
one answer, as often as they make it; that is one pass here, in which the first scan moves the line, and the others do
not. When the line moves is run time, which may depend on rows.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

Turns = Mapping[str | None, tuple[int, ...]]  # by branch: how often it asks at most, through each design
SILENT, EVERY = 1.0, 0.1  # seconds before the first line, and between two
BAR, WIDTH = 24, 79  # characters: of the bar, of the line at most
STEPS = 100  # in which rows are shown


class Course:
    """The planned passes of a fit, and how many have begun.

    Parameters
    ----------
    name : str
        Of the function.
    turns : mapping
    rows : int or None
        How many there are; None where that is private.
    """

    def __init__(self, name: str, turns: Turns, rows: int | None) -> None:
        self.turns, out = turns, shown_on(sys.stderr)
        self.line = None if out is None else ProgressLine(name, rows, out)

    def turn(self, begun: Sequence[int], branch: str | None) -> bool:
        """Note that a turn begins; return whether another one may follow through this design."""
        planned = [self.turns[branch]] if branch in self.turns else list(self.turns.values())
        if self.line is not None:
            self.line.begin(sum(begun), max(map(sum, planned)))
        return any(begun[-1] < most[len(begun) - 1] for most in planned)

    def read(self, rows: int) -> None:
        """Note how many rows of a scan have been read; their number has to be public."""
        if self.line is not None:
            self.line.read(rows)

    def close(self) -> None:
        """Clear the line."""
        if self.line is not None:
            self.line.close()


class ProgressLine:
    """A line that is written over itself.

    Parameters
    ----------
    name : str
    rows : int or None
    out : text stream
    """

    def __init__(self, name: str, rows: int | None, out: Any) -> None:
        self.name, self.rows, self.out = name, rows, out
        self.next, self.written = time.monotonic() + SILENT, 0
        self.passes, self.steps = (0, 0), 0

    def begin(self, number: int, most: int) -> None:
        """Begin a pass, unless it has begun."""
        if self.passes[0] < number:
            self.passes, self.steps = (number, most), 0
            self._show()

    def read(self, rows: int) -> None:
        """Move on, step by step; a second scan of the same rows moves nothing."""
        while self.rows and self.steps < min(rows * STEPS // self.rows, STEPS):
            self.steps += 1
            self._show()

    def close(self) -> None:
        """Clear the line."""
        if self.written:
            self._write("")
            self._write("\r")

    def _show(self) -> None:
        if time.monotonic() >= self.next:
            self._write(self.text())
            self.next = time.monotonic() + EVERY

    def text(self) -> str:
        """Return the line as it stands."""
        begin = "{}  pass {} of {}".format(self.name, *self.passes)
        if not self.rows:
            return begin
        end = rows_read(self.rows * self.steps // STEPS, self.rows)
        width = min(shutil.get_terminal_size().columns - 1, WIDTH)
        bar = min(BAR, width - len(begin) - len(end) - 6)
        full = round(bar * self.steps / STEPS)
        return f"{begin}  [{'#' * full}{'-' * (bar - full)}]  {end}" if bar > 0 else begin

    def _write(self, text: str) -> None:
        """Write over what is there; a stream that is closed or gone is no reason to fail."""
        with suppress(Exception):
            self.out.write(f"\r{text:{self.written}}")
            self.out.flush()
        self.written = len(text)


def rows_read(seen: int, rows: int) -> str:
    """Return how many rows were read.

    Examples
    --------
    >>> rows_read(31_000_000, 50_000_000)
    '31.0 of 50.0 million rows'
    >>> rows_read(64_000, 200_000)
    '64,000 of 200,000 rows'
    """
    return f"{seen / 1e6:.1f} of {rows / 1e6:.1f} million rows" if rows >= 1e6 else f"{seen:,} of {rows:,} rows"


def shown_on(out: Any) -> Any:
    """Return a stream if a terminal or a notebook shows it; None if it is captured, or goes to a file."""
    notebook = type(out).__module__.startswith("ipykernel.")
    with suppress(Exception):
        return out if notebook or (out.isatty() and os.environ.get("TERM") != "dumb") else None
    return None
