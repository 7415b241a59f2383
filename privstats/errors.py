"""Errors and warnings of privstats. No message may quote a value of a row."""

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from traceback import walk_stack

PACKAGE = str(Path(__file__).parent)
CHOICES = 12  # largest number of valid names that an error about an unknown name lists in full
FRAMES = 250  # number of stack frames that must be left for a call; more than twice the number of frames used in a test


class PrivstatsError(ValueError):
    """Base class of all errors of this package."""


class PrivacyError(PrivstatsError):
    """The call would violate the privacy guarantee, or cannot be answered safely."""


class OptionError(PrivstatsError):
    """The name, type or range of an argument is wrong."""


class BudgetError(PrivstatsError):
    """The privacy budget is invalid, is not compatible with the budget of the ledger, or is spent."""


class DomainError(PrivstatsError):
    """The declared bounds or levels of columns are missing or inconsistent."""


class FormulaError(PrivstatsError):
    """The formula is not a row-wise function with known bounds, or does not fit the columns of the data."""


class SourceChangedError(Exception):
    """Two passes over the data have read different rows or privacy units, or a file has changed.

    The gate, which answers all queries of the data, turns this error into a `PrivacyError`.
    """


class ChargedInterrupt(KeyboardInterrupt):
    """Interrupt (Ctrl-C) after the ledger was charged; users get a KeyboardInterrupt that reports the charge."""


class PrivstatsWarning(UserWarning):
    """Warning about a valid call that is probably a mistake; the text ends in "; continuing"."""


def refuse_full_stack() -> None:
    """Raise an error if fewer than `FRAMES` stack frames are left before Python's recursion limit.

    The number of stack frames needed to read a value of the data depends on the value. Without this check, a value in
    one row could determine whether a call near the limit fails, and the failure would reveal information about the
    value.

    Raises
    ------
    PrivacyError
        If too few stack frames are left. A call makes this check before it reads any row.
    """
    if sys.getrecursionlimit() - sum(1 for _ in walk_stack(None)) < FRAMES:
        raise PrivacyError(
            f"fewer than {FRAMES} stack frames are left before the recursion limit; call from a less deep function, or "
            "write sys.setrecursionlimit(10_000)"
        )


def warn(text: str) -> None:
    """Issue a warning that points to the line of the user's code that called the package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(f"{text}; continuing", PrivstatsWarning, level)


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return names as a list in prose; of more than `most` names, list three and the number of the other names.

    >>> listed(["a"]), listed(["a", "b"]), listed(list("abcdefg")), listed(list("abcd"), most=CHOICES)
    ('a', 'a and b', 'a, b, c and 4 more', 'a, b, c and d')
    """
    if len(names) <= 1:
        return "".join(names)
    if len(names) <= most:
        return f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{', '.join(names[:3])} and {len(names) - 3} more"


def quote(value: object) -> str:
    """Return a string or number as the user wrote it, for error messages.

    Other values might hold data; in place of such a value, the name of its type is returned.
    """
    return repr(value) if value is None or type(value) in (str, int, float, bool) else f"a {type(value).__name__}"
