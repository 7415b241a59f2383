"""A registry of the public functions by name, through which saved plans call the functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

APART = ("data", "memory_limit", "ledger", "rng", "dry_run")  # arguments of a call that are not part of a plan's digest


@dataclass(frozen=True)
class Verb:
    """An entry of the registry of public functions, such as dp_lm; saved plans call a function through its entry.

    Parameters
    ----------
    defaults : mapping
        Defaults of the function's arguments by name, in the order of the signature.
    answer : callable
        Function of a dict of all arguments. Its exceptions may contain rows of the data; therefore users call the
        function through a wrapper (`door`) that removes rows from exceptions.
    """

    defaults: Mapping[str, Any]
    answer: Callable[[dict[str, Any]], Any]

    def of(self, **arguments: Any) -> Any:
        """Return the result of the registered function for the given arguments, with defaults for other arguments."""
        return self.answer({**self.defaults, **arguments})


_VERBS: dict[str, Verb] = {}
BY_NAME: Mapping[str, Verb] = MappingProxyType(_VERBS)  # keys are the functions' names without "dp_"


def register(name: str, verb: Verb) -> None:
    """Add the public function dp_<name> to the registry of functions, through which saved plans call it."""
    _VERBS[name] = verb


def is_default(value: Any, default: Any) -> bool:
    """Return whether `value` is the object `default`, or a number, truth value or text that equals `default`."""
    return value is default or (type(value) in (bool, int, float, str) and value == default)
