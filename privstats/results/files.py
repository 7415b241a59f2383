"""JSON files of plans, studies and fits: files are written completely or not at all; malformed files are rejected."""

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

SAVED = "plan.save, study.save or fit.save wrote"
OPEN_LEDGER = "open a ledger by ps.Ledger(path=...)"
LINE = 76  # a part of a JSON text is written on one line if it has at most this many characters, indent included


def as_line(content: Mapping[str, Any]) -> str:
    """Return a mapping as JSON text on a single line, for files that only programs read."""
    return _compact(content) + "\n"


def as_text(content: Mapping[str, Any]) -> str:
    """Return a mapping as JSON text for human readers: each short part on one line, long parts on indented lines."""
    return _spread(content, "") + "\n"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _spread(value: Any, indent: str) -> str:
    """Return the JSON text of a value: a short value on one line, a long value with its parts on indented lines."""
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
    """Write text to a file; an existing file at the path is replaced atomically.

    A temporary file in the same directory is written, and renamed once all text is written and stored on the disk.

    Raises
    ------
    OptionError
        If the file cannot be written. A file that existed at the path is then unchanged.
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
    """Raise an error if a file exists at the path, or if no file can be written there.

    Raises
    ------
    OptionError
        If a file exists at the path, or no file can be written there.
    """
    to = path_of(path)
    if to.exists():
        raise OptionError(f"the file {quote(to.name)} is there already; give another name")
    write_text(to, "")
    to.unlink()


def read_content(path: str | PathLike[str]) -> dict[str, Any]:
    """Return the content of a JSON file, which must be an object with unique names and finite numbers.

    Raises
    ------
    OptionError
        If the file does not exist, or is not a JSON object with unique names and finite numbers.
    """
    file = path_of(path)
    text, cure = None, f"give the path of one that {SAVED}"
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeError:  # the file is binary, and may be a ledger
        cure += f", or {OPEN_LEDGER}"
    except OSError:
        pass
    if text is None:
        raise OptionError(f"the file {quote(file.name)} cannot be read; {cure}")
    try:
        content = json.loads(text, object_pairs_hook=_once, parse_constant=_refused, parse_float=_finite)
    except (ValueError, RecursionError):
        content = None
    if content is None:
        raise OptionError(
            f"the file {quote(file.name)} is incomplete, or not JSON; save it again by plan.save or fit.save"
        )
    if not isinstance(content, dict):
        raise OptionError(f"{quote(file.name)} is not a plan, study or fit of privstats; give a file that {SAVED}")
    return content


def path_of(path: Any) -> Path:
    """Return a value as a path; raise an error if the value is not the path of a file."""
    if isinstance(path, str | PathLike) and (found := Path(os.fspath(path))).name:
        return found
    raise OptionError(f"the path is {quote(path)}; write the name of a file, such as 'wages.plan.json'")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the (name, value) pairs of a JSON object as a dict; raise an error if a name occurs twice."""
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
