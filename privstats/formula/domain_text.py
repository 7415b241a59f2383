"""Printed form of declared bounds and levels of columns, in lines of at most 80 characters."""

from __future__ import annotations

import textwrap
from collections.abc import Container, Iterator, Mapping

from privstats.formula.declarations import Known, Levels
from privstats.formula.hints import Hint

LINE, INDENT, GAP = 80, 2, 2  # largest length of a line, indentation, and gap after a name or bounds, in characters
SHORT_LEVELS = 30  # smallest width, in characters, to which a long list of declared levels is shortened
COMPLETE = "complete"
DEEPEST = 40  # largest indentation of a hint, in characters


def domain_lines(columns: Mapping[str, Known], complete: Container[str], hints: Mapping[str, Hint]) -> Iterator[str]:
    """Yield the lines of a printed domain: the name of each column with its bounds or levels, and the hints.

    The columns in `complete`, which are declared to have no missing values, are marked as complete. A very long name
    has a line of its own. A hint about a column follows its bounds or levels; hints about expressions come last.
    """
    marked = GAP + len(COMPLETE) if any(name in complete for name in columns) else 0
    least = max(
        (min(len(str(known)), SHORT_LEVELS if isinstance(known, Levels) else LINE) for known in columns.values()),
        default=0,
    )
    most = max(LINE - INDENT - GAP - marked - least, 0)
    width = max((len(name) for name in columns if len(name) <= most), default=0)
    texts = {name: known.shown(LINE - INDENT - width - GAP - marked) for name, known in columns.items()}
    wide = max(map(len, texts.values()), default=0)
    for name, text in texts.items():
        said = f"{text:<{wide}}{'':{GAP}}{COMPLETE if name in complete else ''}".rstrip()
        if len(name) > width:
            yield from _name(name)
        yield f"{'':{INDENT}}{name if len(name) <= width else '':<{width}}{'':{GAP}}{said}"
        if name in hints:
            yield from _hint(hints[name], min(INDENT + width + GAP, DEEPEST))
    for name in (name for name in hints if name not in columns):
        yield from _name(name)
        yield from _hint(hints[name], 2 * INDENT)


def _name(name: str) -> list[str]:
    return textwrap.wrap(name, LINE, initial_indent=" " * INDENT, subsequent_indent=" " * 3 * INDENT)


def _hint(hint: Hint, indent: int) -> list[str]:
    return textwrap.wrap(f"hint: {hint}", LINE, initial_indent=" " * indent, subsequent_indent=" " * (indent + INDENT))
