"""Files of plans, studies and fits: JSON that is written whole or not at all, and read strictly."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from threading import get_ident
from typing import Any, NoReturn

from privstats.errors import OptionError, quote

LINE = 76  # characters


def as_line(content: Mapping[str, Any]) -> str:
    """Return JSON for programs: one line."""
    return _compact(content) + "\n"


def as_text(content: Mapping[str, Any]) -> str:
    """Return JSON to be read by people, too: what fits into a line stands in one."""
    return _spread(content, "") + "\n"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _spread(value: Any, indent: str) -> str:
    """Return JSON whose short parts have a line each; the parts of long ones are indented."""
    line, inner = _compact(value), indent + "  "
    if (indent and len(indent + line) <= LINE) or not isinstance(value, dict | list):
        return line
    if isinstance(value, dict):
        parts = [f"{_compact(name)}: {_spread(part, inner)}" for name, part in value.items()]
    else:
        parts = [_spread(part, inner) for part in value]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{last}"


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write a file: another one beside it first, which takes its name once it is complete and on the disk.

    Raises
    ------
    OptionError
        If it cannot be written; what was there before is there still.
    """
    to = path_of(path)
    beside = to.with_name(f".{to.name}.{os.getpid()}.{get_ident()}")
    try:
        with beside.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, to)
        return
    except (OSError, UnicodeError):
        beside.unlink(missing_ok=True)
    raise OptionError(f"the file {quote(to.name)} cannot be written; give a path where you may write")


def check_new(path: str | PathLike[str]) -> None:
    """Refuse a path where a file is, or where none can be written.

    Raises
    ------
    OptionError
    """
    to = path_of(path)
    if to.exists():
        raise OptionError(f"the file {quote(to.name)} is there already; give another name")
    write_text(to, "")
    to.unlink()


def read_content(path: str | PathLike[str]) -> dict[str, Any]:
    """Return what a file of JSON holds: an object, no name of which stands twice, and finite numbers.

    Raises
    ------
    OptionError
        If there is no such file, or it holds something else.
    """
    file = path_of(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        text = None
    if text is None:
        raise OptionError(f"the file {quote(file.name)} cannot be read; give the path of one that plan.save wrote")
    try:
        content = json.loads(text, object_pairs_hook=_once, parse_constant=_refused, parse_float=_finite)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise OptionError(f"the file {quote(file.name)} is not whole, or no JSON; save it again, as plan.save does")
    return content


def path_of(path: Any) -> Path:
    """Return a path; refuse what is none."""
    if isinstance(path, str | PathLike) and (found := Path(os.fspath(path))).name:
        return found
    raise OptionError(f"the path is {quote(path)}; write the name of a file, such as 'wages.plan.json'")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON, no name of which stands twice: readers would see one value and take another."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


def _refused(constant: str) -> NoReturn:
    raise ValueError


def _finite(number: str) -> float:
    if not math.isfinite(value := float(number)):
        raise ValueError
    return value
