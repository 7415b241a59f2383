"""Decorator that checks the arguments of public methods of results, plans and studies before the method runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from privstats.boundary import door
from privstats.errors import OptionError

P = ParamSpec("P")
R = TypeVar("R")

# names of arguments in other packages, with the similar argument here and the remedy for the error message
ELSEWHERE = {
    **dict.fromkeys(("level", "conf_level", "confidence"), ("alpha", "write alpha=0.1 for 90% intervals")),
    **dict.fromkeys(("exponentiate", "transform", "eform"), ("exp", "write exp=True")),
    **dict.fromkeys(("exog", "newdata", "data", "X"), ("new_data", "write new_data=")),
    "type": ("which", "write which='linear' for the linear predictor"),
    "interval": ("new_data", "write fit.get_prediction(new_data).summary_frame()"),
    "ref": ("pairwise", "the reference is the first declared level, as in domain={'g': ['reference', 'other']}"),
}


def entry(verb: Callable[P, R]) -> Callable[P, R]:
    """Wrap the public method `verb` so that a call with wrong arguments raises an error that lists the valid arguments.

    Errors that the wrapped method raises contain no rows of the data, neither in their messages nor in their stack
    frames.

    Raises
    ------
    OptionError
        Raised by the wrapped method, not by the decorator, for an unknown or a missing argument.
    """
    signature = inspect.signature(verb)
    *most, last = list(signature.parameters)[1:] or ["nothing"]
    cure = f"its arguments are {', '.join(most)} and {last}" if most else f"its argument is {last}"

    @functools.wraps(verb)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:  # the message contains names of arguments and not their values
            others = [ELSEWHERE[name] for name in kwargs if name in ELSEWHERE]
            near = [f"{remedy}; " for name, remedy in others if name in signature.parameters]
            raise OptionError(f"{verb.__name__}() {error}; {''.join(near[:1])}{cure}") from None
        return verb(*args, **kwargs)

    return door(checked)
