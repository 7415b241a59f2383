"""Conversion of results to numbers, strings, lists and dicts, which can be stored as JSON, and back.

An object is written as the name of its class and its state: numbers, strings, arrays, and objects of this package,
which are written in the same way. Reading a saved object restores objects of this package only, and calls no functions
of this package except the functions that make a design from a formula and a domain.
"""

from __future__ import annotations

import copyreg
import datetime
import math
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import scipy

from privstats.errors import OptionError

T = TypeVar("T")

FORMAT = "privstats results, version 1"
ROOMS = "errors|estimators|formula|inference|losses|mechanisms|models|numerics|privacy|results|sets|workflow"
CLASS_NAME = re.compile(rf"privstats\.({ROOMS})(\.\w+)*:\w+(\.\w+)*")
# modules with objects that open files; such objects are not restored
OPENS = ("privstats.privacy.ledger_file", "privstats.privacy.ledger_later")
CALLED = re.compile(r"privstats\.formula\.\w+:(bind_\w+|_rebound)")
SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def written(value: object) -> dict[str, Any]:
    """Return an object as numbers, strings, lists and dicts, which can be stored as JSON."""
    return {"format": FORMAT, "content": _write(value)}


def read_record(saved: Mapping[str, Any], kind: type[T], used: Callable[[T], object] = repr) -> T:
    """Rebuild an object of class `kind` from the dict that `written` returned for the object.

    Parameters
    ----------
    saved : mapping
        The dict, or the same dict after storage as JSON.
    kind : type
        Class of the object, a dataclass.
    used : callable
        Function that tests the rebuilt object, for instance by printing it. The test fails if the function raises an
        exception or returns None.

    Raises
    ------
    OptionError
        If `saved` was not returned by `written` for an object of class `kind`, or was changed so that the object
        cannot be rebuilt or fails the test. A number replaced by another valid number is not detected.
    """
    known = isinstance(saved, Mapping) and saved.get("format") == FORMAT and "content" in saved
    value = _attempt(_read, saved["content"]) if known else None
    needed = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if isinstance(value, kind) and needed <= vars(value).keys() and _attempt(used, value) is not None:
        return value
    raise OptionError("the dict is not that of a result; write fit.to_dict(), and read it unchanged")


def _attempt(act: Callable[[Any], Any], given: Any) -> Any:
    """Return ``act(given)``, or None if the call raises any exception; warnings are suppressed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return act(given)
    except Exception:  # whatever the exception, `read_record` raises the same error
        return None


def _write(value: Any) -> Any:
    if value is None or (isinstance(value, bool | int | str) and type(value) in (bool, int, str, type(None))):
        return value
    if isinstance(value, np.generic):
        return _write(value.item())
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if type(value) is list:
        return [_write(part) for part in value]
    if type(value) in (tuple, set, frozenset):
        return {type(value).__name__: [_write(part) for part in value]}
    if isinstance(value, Mapping) and type(value).__module__ == "builtins":
        return {"dict": [[_write(key), _write(part)] for key, part in value.items()]}
    if isinstance(value, np.ndarray):
        return {"array": [value.dtype.str, list(value.shape), [_write(part) for part in value.ravel().tolist()]]}
    if isinstance(value, scipy.sparse.csr_matrix | scipy.sparse.csr_array):
        parts = (list(value.shape), value.data, value.indices, value.indptr)
        return {type(value).__name__: [_write(part) for part in parts]}
    if isinstance(value, datetime.datetime | datetime.date | pd.Timestamp):
        return {type(value).__name__.lower(): value.isoformat()}
    return _write_object(value)


def _write_object(value: Any) -> Any:
    if isinstance(value, type) or hasattr(value, "__qualname__"):
        return {"name": _named(value)}
    made = value.__reduce_ex__(2)
    if not isinstance(made, tuple):
        raise OptionError(f"a {type(value).__name__} cannot be written as a dict; pickle the result instead")
    maker, arguments, state = (*made, None)[:3]
    if maker is copyreg.__newobj__:  # type: ignore[attr-defined]  # makes objects of classes without `__reduce__`
        return {"object": [_named(type(value)), _write(list(arguments[1:])), _write(state)]}
    return {"call": [_named(maker), _write(list(arguments)), _write(state)]}


def _named(value: Any) -> str:
    name = f"{value.__module__}:{value.__qualname__}"
    if not CLASS_NAME.fullmatch(name):
        raise OptionError(f"a {value.__qualname__} cannot be written as a dict; pickle the result instead")
    return name


def _read(saved: Any) -> Any:
    if isinstance(saved, list):
        return [_read(part) for part in saved]
    if not isinstance(saved, Mapping):
        return saved
    ((tag, content),) = saved.items()
    return READERS[tag](content)


def _array(content: Any) -> Any:
    dtype, shape, values = content
    return np.array([_read(part) for part in values], dtype=np.dtype(dtype)).reshape(shape)


def _sparse(kind: Any, content: Any) -> Any:
    shape, *parts = (_read(part) for part in content)
    return kind(tuple(parts), shape=tuple(shape))


def _object(content: Any) -> Any:
    name, arguments, state = content
    kind = _found(name)
    if not isinstance(kind, type):
        raise TypeError
    made = kind.__new__(kind, *_read(arguments))
    return _with_state(made, _read(state))


def _call(content: Any) -> Any:
    name, arguments, state = content
    if not CALLED.fullmatch(name):
        raise ValueError
    return _with_state(_found(name)(*_read(arguments)), _read(state))


def _with_state(made: Any, state: Any) -> Any:
    if state is None:
        return made
    if hasattr(type(made), "__setstate__"):
        made.__setstate__(state)
        return made
    own, slots = state if isinstance(state, tuple) else (state, None)
    kept = getattr(made, "__dataclass_fields__", {})
    for name, value in {**(own or {}), **(slots or {})}.items():
        if name not in kept and callable(getattr(type(made), name, None)):  # a record must not replace methods
            raise ValueError
        object.__setattr__(made, name, value)
    return made


def _found(name: str) -> Any:
    module, _, path = name.partition(":")
    if not CLASS_NAME.fullmatch(name) or module in OPENS:
        raise ValueError
    value: Any = import_module(module)
    for part in path.split("."):
        value = getattr(value, part)
    home = str(getattr(value, "__module__", ""))
    if not home.startswith("privstats") or home in OPENS:
        raise ValueError
    return value


READERS: dict[str, Any] = {
    "float": lambda content: SPECIAL[content],
    "tuple": lambda content: tuple(_read(part) for part in content),
    "set": lambda content: {_read(part) for part in content},
    "frozenset": lambda content: frozenset(_read(part) for part in content),
    "dict": lambda content: {_read(key): _read(part) for key, part in content},
    "array": _array,
    "csr_matrix": lambda content: _sparse(scipy.sparse.csr_matrix, content),
    "csr_array": lambda content: _sparse(scipy.sparse.csr_array, content),
    "timestamp": pd.Timestamp,
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "name": _found,
    "object": _object,
    "call": _call,
}
