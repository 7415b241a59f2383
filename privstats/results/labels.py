"""Names of estimates as text, for hypotheses, plots and notes."""

from __future__ import annotations

import ast
from numbers import Real
from typing import Any

from privstats.inference.estimate import product_parts


def spelled_label(labels: tuple[tuple[Any, ...], ...]) -> tuple[str, ...]:
    """Return a name for each label, such as ``x[0.5]`` for ("x", 0.5), the coefficient of x at quantile level 0.5.

    Numbers in names are rounded to six significant digits, unless two names would then be equal.
    """
    names = tuple(_name(label[0], [part_of(part) for part in label[1:]]) for label in labels)
    if len(set(names)) == len(names):
        return names
    return tuple(_name(label[0], [repr(part) for part in label[1:]]) for label in labels)


def part_of(part: Any) -> str:
    """Return one part of the label of an estimate (a quantile level, group or bin) as text."""
    return f"{part:g}" if isinstance(part, float) else str(part)


def difference(level: Any, reference: Any, minus: str = " - ") -> str:
    """Return a name for the difference between a level and a reference level, such as ``b - a``.

    A negative reference level is put in brackets.

    Examples
    --------
    >>> difference("b", "a"), difference(-1, -2, "-"), difference(("b", 1), ("a", 1), "-")
    ('b - a', '-1-(-2)', 'b:1-a:1')
    """
    parts = [one if isinstance(one, tuple) else (one,) for one in (level, reference)]
    first, second = (":".join(map(str, one)) for one in parts)
    begin = parts[1][0]
    return f"{first}{minus}({second})" if isinstance(begin, Real) and begin < 0 else f"{first}{minus}{second}"


def as_code(term: str) -> str:
    """Return a term of a formula in a uniform spelling: a space after each comma, and single quotes.

    Parts of the term that are not Python expressions stay as they are, without spaces at their ends.

    Examples
    --------
    >>> as_code('C(g,Treatment("a b")):x'), as_code("no code (")
    ("C(g, Treatment('a b')):x", 'no code (')
    """
    parts = [(part, _parsed(part)) for part in product_parts(term)]
    return ":".join(part.strip() if node is None else ast.unparse(node) for part, node in parts)


def coded_column(term: str) -> str | None:
    """Return the data column of a term that is written with ``C(...)`` or ``Q(...)``; None for other terms.

    The column is g for ``C(g)`` and ``C(g, Sum)``, and "any name" for ``Q('any name')`` and ``C(Q('any name'))``.
    """
    node = _parsed(term)
    match node:
        case ast.Call(func=ast.Name(id="C"), args=[inner, *_]):
            node = inner
    match node:
        case ast.Call(func=ast.Name(id="Q"), args=[ast.Constant(value=str(column))]):
            return column
        case ast.Name(id=column) if column != term.strip():
            return column
    return None


def _parsed(term: str) -> ast.expr | None:
    try:
        return ast.parse(term.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None


def _name(term: Any, parts: list[str]) -> str:
    if not parts:
        return str(term)
    text = ", ".join(parts)
    interval = len(parts) == 1 and "[" in text and ", " in text and text.endswith((")", "]"))
    return f"{term} in {text}" if interval else f"{term}[{text}]"
