"""The boundary of the package for exceptions: no exception leaves the package with a stack frame that holds data.

A traceback keeps the local variables of every stack frame that the exception passed, and inner frames hold the data.
Therefore every exception is raised again without its original frames and without a chained exception.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from traceback import extract_tb
from typing import NamedTuple, ParamSpec, TypeVar

from privstats.errors import ChargedInterrupt, PrivacyError, PrivstatsError, PrivstatsWarning, refuse_full_stack

INTERRUPTED = "interrupted after the ledger was charged: nothing is released, and the budget of this call is spent"

P = ParamSpec("P")
R = TypeVar("R")


def door(verb: Callable[P, R]) -> Callable[P, R]:
    """Wrap a public function so that its exceptions contain no stack frame and no text that might hold data.

    The wrapped function raises only errors and warnings of this package, and interrupts of the process.
    """

    @functools.wraps(verb)
    def opened(*args: P.args, **kwargs: P.kwargs) -> R:
        outcome = _attempt(functools.partial(verb, *args, **kwargs))
        del args, kwargs
        if isinstance(outcome, _Refusal):
            raise outcome.error
        return outcome

    return opened


class _Refusal(NamedTuple):
    error: BaseException


def _attempt(work: Callable[[], R]) -> R | _Refusal:
    try:
        refuse_full_stack()
        return work()
    except (PrivstatsError, PrivstatsWarning) as error:  # a filter can turn a warning into an error
        return _Refusal(type(error)(*error.args))
    except Exception as error:  # the text may quote rows; the new error names only the type and line of this error
        last = extract_tb(error.__traceback__)[-1]
        at = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
        return _Refusal(PrivacyError(f"an unexpected failure ({at}); please report it with the formula and the domain"))
    except ChargedInterrupt:
        return _Refusal(KeyboardInterrupt(INTERRUPTED))
    except BaseException as stop:  # the interrupt is passed on without message and traceback
        return _Refusal(next((kind() for kind in _stops() if isinstance(stop, kind)), KeyboardInterrupt()))


def _stops() -> tuple[type[BaseException], ...]:
    """Return the types of interrupts that leave the package with their type unchanged.

    The type CancelledError of asyncio is included only if asyncio is imported already; otherwise the process has no
    asyncio task that could be cancelled. The function does not import asyncio, because it runs while an interrupt is
    handled: a second interrupt during an import would pass the first interrupt's frames, with data, to the caller.
    """
    cancelled = getattr(sys.modules.get("asyncio.exceptions"), "CancelledError", KeyboardInterrupt)
    return KeyboardInterrupt, SystemExit, GeneratorExit, cancelled
