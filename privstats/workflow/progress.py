"""Progress of long fits: a line on a terminal or in a notebook that shows the current pass over the rows.

The contents of the line are public: the name of the function, the number of passes so far, the largest possible number
of passes (for the chosen method, after the choice is released), and the number of rows read if the number of rows is
public. Progress is shown in steps of one per cent, because the sizes of the chunks from a source may depend on rows. A
mechanism may scan the rows several times for one answer, and the number of scans may depend on the rows; all scans for
one answer count as one pass, and only the first scan changes the line. The moments at which the line changes reveal run
times. Run times may depend on rows and are not protected, so an adversary must not watch the line.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

Turns = Mapping[str | None, tuple[int, ...]]  # by method: largest number of passes over the rows with each model matrix
SILENT, EVERY = 1.0, 0.1  # numbers of seconds before the progress line first appears, and between two updates
BAR, WIDTH = 24, 79  # number of characters of the bar, and largest number of characters of the line
STEPS = 100  # number of steps into which the displayed progress of a pass is divided


class Course:
    """Progress of a fit in passes over the rows, compared with the planned passes and shown on a progress line.

    Parameters
    ----------
    name : str
        Name of the function.
    turns : mapping of str or None to tuple of int
        For each branch (method), the largest number of passes over the rows with each model matrix, in the order in
        which the matrices are used. The key is None if there are no branches.
    rows : int or None
        Number of rows; None if it is private.
    """

    def __init__(self, name: str, turns: Turns, rows: int | None) -> None:
        self.turns, out = turns, shown_on(sys.stderr)
        self.line = None if out is None else ProgressLine(name, rows, out)

    def turn(self, begun: Sequence[int], branch: str | None) -> bool:
        """Record that a pass over the rows begins; return whether another pass with the same model matrix may follow.

        Parameters
        ----------
        begun : sequence of int
            Number of passes begun with each model matrix, in the order of use; the last number counts the new pass.
        branch : str or None
            Branch (method) that the estimator has chosen; None before the choice.
        """
        planned = [self.turns[branch]] if branch in self.turns else list(self.turns.values())
        if self.line is not None:
            self.line.begin(sum(begun), max(map(sum, planned)))
        return any(begun[-1] < most[len(begun) - 1] for most in planned)

    def read(self, rows: int) -> None:
        """Record the number of rows read so far in a pass; the total number of rows must be public."""
        if self.line is not None:
            self.line.read(rows)

    def close(self) -> None:
        """Remove the progress line from the terminal."""
        if self.line is not None:
            self.line.close()


class ProgressLine:
    """A progress line on a text stream; each update overwrites the line.

    Parameters
    ----------
    name : str
        Name of the function.
    rows : int or None
        Number of rows; None if it is private.
    out : text stream
        Stream to which the line is written.
    """

    def __init__(self, name: str, rows: int | None, out: Any) -> None:
        self.name, self.rows, self.out = name, rows, out
        self.next, self.written = time.monotonic() + SILENT, 0
        self.passes, self.steps = (0, 0), 0

    def begin(self, number: int, most: int) -> None:
        """Show that pass `number` of at most `most` passes over the rows begins, unless this is already shown."""
        if self.passes[0] < number:
            self.passes, self.steps = (number, most), 0
            self._show()

    def read(self, rows: int) -> None:
        """Show that `rows` rows were read so far in the current pass, in steps of 1% of all rows.

        Nothing is shown if the number of all rows is private, or for a repeated scan of the same rows.
        """
        while self.rows and self.steps < min(rows * STEPS // self.rows, STEPS):
            self.steps += 1
            self._show()

    def close(self) -> None:
        """Remove the progress line from the terminal."""
        if self.written:
            self._write("")
            self._write("\r")

    def _show(self) -> None:
        if time.monotonic() >= self.next:
            self._write(self.text())
            self.next = time.monotonic() + EVERY

    def text(self) -> str:
        """Return the current text of the progress line."""
        begin = "{}  pass {} of {}".format(self.name, *self.passes)
        if not self.rows:
            return begin
        end = rows_read(self.rows * self.steps // STEPS, self.rows)
        width = min(shutil.get_terminal_size().columns - 1, WIDTH)
        bar = min(BAR, width - len(begin) - len(end) - 6)
        full = round(bar * self.steps / STEPS)
        return f"{begin}  [{'#' * full}{'-' * (bar - full)}]  {end}" if bar > 0 else begin

    def _write(self, text: str) -> None:
        """Overwrite the line; errors of the output stream, such as a closed stream, are ignored."""
        with suppress(Exception):
            self.out.write(f"\r{text:{self.written}}")
            self.out.flush()
        self.written = len(text)


def rows_read(seen: int, rows: int) -> str:
    """Return the numbers of rows read so far and of all rows, as text for the progress line.

    Examples
    --------
    >>> rows_read(31_000_000, 50_000_000)
    '31.0 of 50.0 million rows'
    >>> rows_read(64_000, 200_000)
    '64,000 of 200,000 rows'
    """
    return f"{seen / 1e6:.1f} of {rows / 1e6:.1f} million rows" if rows >= 1e6 else f"{seen:,} of {rows:,} rows"


def shown_on(out: Any) -> Any:
    """Return the stream if a terminal or a notebook displays it; None if its text is captured or goes to a file."""
    notebook = type(out).__module__.startswith("ipykernel.")
    with suppress(Exception):
        return out if notebook or (out.isatty() and os.environ.get("TERM") != "dumb") else None
    return None
