"""What privstats says when it refuses, or warns. No message here, or built from these, may quote a row."""

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

PACKAGE = str(Path(__file__).parent)


class PrivstatsError(ValueError):
    """Any refusal of this package: catch this one to catch them all."""


class PrivacyError(PrivstatsError):
    """The question cannot be asked under the promise that was made, or not safely."""


class OptionError(PrivstatsError):
    """The name, type or range of an argument is wrong."""


class BudgetError(PrivstatsError):
    """The budget is malformed, of the wrong currency, or spent."""


class DomainError(PrivstatsError):
    """What is publicly declared of the columns is missing or inconsistent."""


class FormulaError(PrivstatsError):
    """The formula, or the frame it is meant for, is not one this package can bound row by row."""


class SourceChangedError(Exception):
    """A pass over the rows gave other units or another number of rows than the first, or a file has changed.

    It does not leave the gate, which says it in a `PrivacyError`.
    """


class ChargedInterrupt(KeyboardInterrupt):
    """Ctrl-C after the ledger was charged. The front door makes a plain `KeyboardInterrupt` of it that says so."""


class PrivstatsWarning(UserWarning):
    """What is legal and probably a slip; the text ends in "; continuing"."""


def warn(text: str) -> None:
    """Warn whoever called the package, at their own line."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(f"{text}; continuing", PrivstatsWarning, level)


def listed(names: Sequence[str]) -> str:
    """Return names as a list in prose, at most three and the number of the others.

    >>> listed(["a"]), listed(["a", "b"]), listed(list("abcdefg"))
    ('a', 'a and b', 'a, b, c and 4 more')
    """
    if len(names) <= 1:
        return "".join(names)
    if len(names) <= 3:
        return f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{', '.join(names[:3])} and {len(names) - 3} more"


def quote(value: object) -> str:
    """Return a plain argument as it was written, anything else by its type: it might be a column."""
    return repr(value) if value is None or type(value) in (str, int, float, bool) else f"a {type(value).__name__}"
