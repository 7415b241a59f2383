"""The functions of the package by their names, as saved plans call them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

APART = ("data", "memory_limit", "ledger", "rng", "dry_run")  # arguments that a digest does not hold


@dataclass(frozen=True)
class Verb:
    """A function that answers calls.

    Parameters
    ----------
    defaults : mapping
        Of its signature, by name; the order is that of the signature.
    answer : callable
        Takes all arguments by name; what it raises may hold rows, so it is called behind a `door`.
    """

    defaults: Mapping[str, Any]
    answer: Callable[[dict[str, Any]], Any]

    def of(self, **arguments: Any) -> Any:
        """Return the answer to these arguments; all others have their defaults."""
        return self.answer({**self.defaults, **arguments})


_VERBS: dict[str, Verb] = {}
BY_NAME: Mapping[str, Verb] = MappingProxyType(_VERBS)  # without "dp_"


def register(name: str, verb: Verb) -> None:
    """Let plans call a function by its name."""
    _VERBS[name] = verb


def is_default(value: Any, default: Any) -> bool:
    """Return whether an option has its default; of other types, it has not."""
    return value is default or (type(value) in (bool, int, float, str) and value == default)
