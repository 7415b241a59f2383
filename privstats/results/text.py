"""Text of at most 80 columns: wrapped lines, rounded numbers, percentages, and tables with aligned decimals."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from textwrap import wrap
from typing import Any

from privstats.errors import OptionError, quote
from privstats.inference.estimate import product_parts
from privstats.privacy.drawing import broken

WIDTH = 80
RULE = "-" * WIDTH
INDENT = 13  # width of the label of a header line, in characters
NAME = 18  # width of the column of coefficient names, in characters; a longer name is printed on a separate line
LONGEST = 10  # largest number of digits of a number that is written without an exponent
FINEST = 5  # largest number of decimals of a number with an exponent
UNKNOWN = "unknown"
BOTH_INCLUDED = "Std err and interval include privacy noise."
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
JOINED = "\u00a0"  # replaces a space at which a line must not break


def filled(text: str, first: str = "", rest: str = "") -> list[str]:
    """Return text in lines of at most 80 characters, without breaks beside equals signs or before percentages.

    The first line begins with the string `first`, and each further line with the string `rest`.
    """
    joined = re.sub(r" (?=\d+%)", JOINED, text.replace(" = ", f"{JOINED}={JOINED}"))
    lines = wrap(joined, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    return [line.replace(JOINED, " ") for line in lines] or [first.rstrip()]


def labelled(label: str, text: str) -> list[str]:
    """Return lines of text that are indented by `INDENT` characters, with a label at the beginning of the first line.

    Line breaks in `text` are kept.
    """
    lines: list[str] = []
    for part in text.split("\n"):
        lines += filled(part, " " * INDENT if lines else label.ljust(INDENT), " " * INDENT)
    return lines


def headed(title: str, formula: str) -> list[str]:
    """Return the title and the formula of a summary on one line if they fit, otherwise on separate lines."""
    whole = f"{title}: {formula}"
    return (
        [whole]
        if len(whole) <= WIDTH
        else [f"{title}:", *broken(formula, WIDTH, initial_indent="  ", subsequent_indent="  ")]
    )


def numbered(notes: Sequence[str]) -> list[str]:
    """Return notes as lines of at most 80 characters; each note begins with its number in brackets."""
    return [line for k, note in enumerate(notes, start=1) for line in filled(f"[{k}] {on_one_line(note)}", "", " " * 4)]


def percentages(shares: Iterable[float], total: int | None = None) -> list[int]:
    """Return shares as whole percentages that add up to `total` (method of largest remainders).

    By default the percentages add up to 100 times the sum of the shares, rounded.
    """
    exact = [100 * share for share in shares]
    whole = [math.floor(value) for value in exact]
    missing = (round(math.fsum(exact)) if total is None else total) - sum(whole)
    for k in sorted(range(len(exact)), key=lambda k: (whole[k] - exact[k], k))[: max(missing, 0)]:
        whole[k] += 1
    return whole


def check_digits(digits: Any) -> None:
    """Raise an `OptionError` unless a number of significant digits is a positive whole number."""
    if isinstance(digits, bool) or not isinstance(digits, int) or digits < 1:
        raise OptionError(f"digits is {quote(digits)}; give a whole number, such as 3")


def decimals(error: float, value: float, digits: int = 3) -> int:
    """Return the number of decimals at which the standard error `error` has `digits` significant digits.

    If the error is not known (not finite and positive), the decimals show digits + 1 significant digits of `value`.
    """
    known = math.isfinite(error) and error > 0
    scale, wanted = (error, digits) if known else (abs(value), digits + 1)
    if not math.isfinite(scale) or scale <= 0:
        return digits - 1
    return max(0, wanted - 1 - int(f"{scale:.{wanted - 1}e}".partition("e")[2]))


def number(value: float, places: int) -> str:
    """Return a number as text with `places` decimals; a long number gets an exponent and at most 5 decimals."""
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    size = 0 if value == 0 else math.floor(math.log10(abs(value)))
    if places + max(size, 0) >= LONGEST:
        return f"{value:.{min(size + places, FINEST)}e}" if size + places >= 0 and value else "0"
    text = f"{value:.{places}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def short(value: float) -> str:
    """Return a diagnostic as text with two significant digits.

    Values below 0.095 have one significant digit, and values above 99.5 are rounded to whole numbers.
    """
    if value >= 99.5 or math.isnan(value):
        return f"{value:,.0f}"
    return f"{value:.1g}" if value < 0.095 else f"{value:.2f}" if value < 0.995 else f"{value:.2g}"


def limits(alpha: float) -> tuple[str, str]:
    """Return the headings of the columns with the limits of 1 - alpha intervals; alpha is rounded to three digits.

    >>> limits(0.05), limits(0.0005)
    (('[0.025', '0.975]'), ('[0.00025', '0.99975]'))
    """
    low = f"{alpha / 2:.3g}"
    return f"[{low}", f"{1 - float(low):.12g}]"


def confidence(alpha: float) -> str:
    """Return the confidence 1 - alpha of an interval in percent; alpha is rounded to three digits.

    >>> confidence(0.05), confidence(0.0005)
    ('95%', '99.95%')
    """
    return f"{100 - float(f'{100 * alpha:.3g}'):.12g}%"


def significant(value: float, digits: int = 3) -> str:
    """Return a number as text with `digits` significant digits, trailing zeros included."""
    return number(value, decimals(value, value, digits))


def counted(value: float) -> str:
    """Return a number of rows as text, with commas."""
    return f"{value:,.0f}"


def aligned(cells: Sequence[str]) -> tuple[str, ...]:
    """Return cells padded on the right, so that decimal points line up when the cells are right-justified."""
    plain = [cell for cell in cells if not _exceptional(cell)]
    tail = max((len(cell) - _point(cell) for cell in plain), default=0)
    return tuple(
        cell if _exceptional(cell) else cell and cell + " " * (tail - (len(cell) - _point(cell))) for cell in cells
    )


def _exceptional(cell: str) -> bool:
    """Return whether a cell contains a letter, as in "inf" or an exponent; such cells are not aligned."""
    return any(letter.isalpha() for letter in cell)


def _point(cell: str) -> int:
    return cell.index(".") if "." in cell else len(cell)


@dataclass(frozen=True)
class Column:
    """A column of numbers in a text table.

    Parameters
    ----------
    head : str
        Heading of the column.
    cells : tuple of str
        Rounded numbers.
    width : int
        Usual width, in characters; wider contents make the column wider.
    align : bool
        Whether decimal points are aligned.
    """

    head: str
    cells: tuple[str, ...]
    width: int
    align: bool = True

    @property
    def least(self) -> int:
        """Smallest possible width of the column: the width of the contents and one space."""
        return 1 + max(map(len, (self.head, *self._shown)))

    @property
    def _shown(self) -> tuple[str, ...]:
        plain = tuple(cell.strip() for cell in self.cells)
        return aligned(plain) if self.align else plain

    def text(self) -> tuple[str, tuple[str, ...]]:
        """Return the heading and the cells of the column, right-justified to the column's width."""
        return self.head.rjust(self.width), tuple(cell.rjust(self.width) for cell in self._shown)


@dataclass(frozen=True)
class TextTable:
    """A table of numbers in plain text, with labels for the rows.

    Parameters
    ----------
    heads : tuple of str
        Headings of the label columns.
    labels : tuple of tuple of str
        Labels of each row.
    columns : tuple of Column
        Columns of numbers, to the right of the labels.
    spans : tuple of (tuple of (int, str) or None)
        For each row: None, or the index of a column and a string that replaces the cells from this column on.
    name : int
        Width of the first label column, in characters.
    """

    heads: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    columns: tuple[Column, ...]
    spans: tuple[tuple[int, str] | None, ...] = ()
    name: int = NAME

    def without_gaps(self, notes: Sequence[int | None]) -> TextTable:
        """Return the table with each empty cell replaced by "none [k]", where k is the number of the note on the row.

        `notes` has the number of a note for each row, or None. If the number for a row is None, the empty cells of the
        row are replaced by "unknown". Rows in which a string replaces several cells stay unchanged.
        """
        spans = self.spans or (None,) * len(self.labels)
        words = [
            "" if span is not None else UNKNOWN if note is None else f"none [{note}]"
            for span, note in zip(spans, notes, strict=True)
        ]
        columns = tuple(
            replace(column, cells=tuple(cell or word for cell, word in zip(column.cells, words, strict=True)))
            for column in self.columns
        )
        return replace(self, columns=columns)

    @property
    def start(self) -> int:
        """Total width of the columns of row labels, in characters."""
        return self.name + sum(self._key_widths())

    def head(self) -> tuple[str, ...]:
        """Return the headings of all columns."""
        return (*self.heads, *(column.head for column in self.columns))

    def rows(self) -> list[tuple[str, ...]]:
        """Return the labels and cells of each row; a string that replaces several cells is put into the first cell."""
        rows = []
        for k, label in enumerate(self.labels):
            cells = [column.cells[k].strip() for column in self.columns]
            if self.spans and (span := self.spans[k]) is not None:
                at, text = span
                cells = [*cells[:at], text, *("" for _ in cells[at + 1 :])]
            rows.append((*label, *cells))
        return rows

    def as_text(self) -> list[str]:
        """Return the headings and the rows of the table in lines of at most 80 characters."""
        labels = tuple(tuple(map(on_one_line, label)) for label in self.labels)
        return replace(self, labels=labels)._fitted()._lines()

    def _fitted(self) -> TextTable:
        """Return the table with columns that fit into a line; if necessary, the label columns are joined into one."""
        columns = tuple(replace(column, width=max(column.width, column.least)) for column in self.columns)
        if self.start + sum(column.width for column in columns) <= WIDTH:
            return replace(self, columns=columns)
        columns = tuple(replace(column, width=column.least) for column in self.columns)
        room = WIDTH - (self.start - self.name) - sum(column.width for column in columns)
        if room >= 2:
            return replace(self, columns=columns, name=min(self.name, room))
        if sum(column.width for column in columns) > WIDTH - 2:
            columns = tuple(replace(column, align=False) for column in columns)
            columns = tuple(replace(column, width=column.least) for column in columns)
        joined = tuple((", ".join(part for part in label if part),) for label in self.repeated())
        heads = ", ".join(head or "term" for head in self.heads) if len(self.heads) > 1 else self.heads[0]
        return replace(self, heads=(heads,), labels=joined, columns=columns, name=2)

    def repeated(self) -> tuple[tuple[str, ...], ...]:
        """Return the labels of the rows in full; an empty part of a label is copied from the label of the row above."""
        last: tuple[str, ...] = ("",) * len(self.heads)
        whole = []
        for label in self.labels:
            last = tuple(part or before for part, before in zip(label, last, strict=True))
            whole.append(last)
        return tuple(whole)

    def _key_widths(self) -> list[int]:
        widths = []
        for j in range(1, len(self.heads)):
            longest = max(len(self.heads[j]), *(len(label[j]) for label in self.labels))
            widths.append(longest + (2 if j > 1 else 0))
        return widths

    def _lines(self) -> list[str]:
        widths = self._key_widths()
        texts = [column.text() for column in self.columns]
        keys = "".join(head.rjust(width) for head, width in zip(self.heads[1:], widths, strict=True))
        ((above, head),) = indented(self.heads[:1], self.name)
        lines = [*above, f"{head.ljust(self.name)}{keys}{''.join(head for head, _ in texts)}".rstrip()]
        for k, (before, name) in enumerate(indented([label[0] for label in self.labels], self.name)):
            lines += before
            label = name.ljust(self.name) + "".join(
                (part.rjust(width) if j else part.ljust(width))
                for j, (part, width) in enumerate(zip(self.labels[k][1:], widths, strict=True))
            )
            at, text = (self.spans[k] if self.spans else None) or (len(texts), "")
            cells = "".join(cells[k] for _, cells in texts[:at])
            gap = "" if not text or (at == 0 and not widths) else "  "
            lines.append(f"{label}{cells}{gap}{text}".rstrip())
        return lines


def shown_once(labels: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """Return labels without repetitions; leading parts of a label that are the same in the label before are left empty.

    The last part of a label is never empty.

    >>> shown_once([("x", "0.1"), ("x", "0.9"), ("z", "0.9")])
    (('x', '0.1'), ('', '0.9'), ('z', '0.9'))
    """
    shown = []
    for k, label in enumerate(labels):
        same = 0
        while k and same < len(label) - 1 and label[: same + 1] == labels[k - 1][: same + 1]:
            same += 1
        shown.append((*("" for _ in range(same)), *label[same:]))
    return tuple(shown)


def on_one_line(name: str) -> str:
    """Return a name with line breaks and other control characters replaced by escape sequences."""
    return CONTROL.sub(lambda found: repr(found[0])[1:-1], name)


def indented(names: Sequence[str], width: int) -> list[tuple[list[str], str]]:
    """Return the lines to print before each row, and the text to print in the row, so that long names fit.

    A name of `width` or more characters is printed on a line before its row. If the name of a level is too long, the
    levels of its factor are indented below the name of the factor.
    """
    rows: list[tuple[list[str], str]] = []
    for factor, run in groupby(names, key=_factor):
        members = list(run)
        if factor and len(members) > 1 and max(map(len, members)) >= width:
            members = [f"  {name.removeprefix(factor)}" for name in members]
            rows += [_row(name, width) for name in members]
            first = len(rows) - len(members)
            rows[first] = ([*filled(factor), *rows[first][0]], rows[first][1])
        else:
            rows += [_row(name, width) for name in members]
    return rows


def _factor(name: str) -> str:
    """Return the part of a coefficient's name before the bracket that opens its last level.

    The result is empty for a name that does not end with a level.

    >>> _factor("x:C(g, levels=['a'])[T.b, [c]]"), _factor("C(g)[T.a]:C(h)[T.b]"), _factor("x")
    ("x:C(g, levels=['a'])", 'C(g)[T.a]:C(h)', '')
    """
    last, depth = product_parts(name)[-1], 0
    for k, letter in enumerate(last if name.endswith("]") else ""):
        depth += (letter == "(") - (letter == ")")
        if letter == "[" and depth == 0:
            return name[: len(name) - len(last) + k]
    return ""


def _row(name: str, width: int) -> tuple[list[str], str]:
    if len(name) < width:
        return [], name
    start = " " * (len(name) - len(name.lstrip()))
    return filled(name.strip(), start, start + "  "), ""
