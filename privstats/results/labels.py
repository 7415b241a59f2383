"""Names of estimates as text, for hypotheses, plots and notes."""

from __future__ import annotations

from typing import Any


def spelled_label(labels: tuple[tuple[Any, ...], ...]) -> tuple[str, ...]:
    """Return a name for each label, such as ``x[0.5]`` for ("x", 0.5), the label of the coefficient of x at tau = 0.5.

    Numbers in names are rounded to six significant digits, unless two names would then be equal.
    """
    names = tuple(_name(label[0], [part_of(part) for part in label[1:]]) for label in labels)
    if len(set(names)) == len(names):
        return names
    return tuple(_name(label[0], [repr(part) for part in label[1:]]) for label in labels)


def part_of(part: Any) -> str:
    """Return one part of the label of an estimate (a quantile level, group or bin) as text."""
    return f"{part:g}" if isinstance(part, float) else str(part)


def _name(term: Any, parts: list[str]) -> str:
    if not parts:
        return str(term)
    text = ", ".join(parts)
    interval = len(parts) == 1 and "[" in text and ", " in text and text.endswith((")", "]"))
    return f"{term} in {text}" if interval else f"{term}[{text}]"
