"""The digest of a plan: a hash of a canonical JSON text that contains the call and the planned queries."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from privstats.errors import OptionError
from privstats.formula.domain import Domain
from privstats.privacy.promise import Promise

DIGITS = 6  # number of significant digits to which numbers are rounded; later digits may differ between machines


def digest(*parts: Any) -> str:
    """Return the SHA-256 hash of values in canonical JSON form, as hexadecimal digits.

    Examples
    --------
    >>> digest({"eps": 1, "mech": "auto"}) == digest({"mech": "auto", "eps": 1.0})
    True
    >>> digest([1, 2]) == digest(["1", "2"])
    False
    """
    text = json.dumps(canonical_form(parts), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def canonical_form(value: Any) -> Any:
    """Convert a value to JSON types without rounding; equal numbers, such as 1 and 1.0, have equal forms.

    Raises
    ------
    OptionError
        If a value has an unknown type. The `repr` of such a value is not used, because a `repr` may omit details.
    """
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return float(value) if abs(int(value)) <= 2**53 else int(value)
    if isinstance(value, float | np.floating):
        return float(value) + 0.0  # -0.0 becomes 0.0, so that equal numbers have equal forms
    if isinstance(value, Domain):
        return canonical_form(json.loads(value.without_hints().to_json()))
    if isinstance(value, Promise):
        return promise_numbers(value)
    if isinstance(value, Mapping):
        return {"pairs": sorted(([canonical_form(k), canonical_form(v)] for k, v in value.items()), key=json.dumps)}
    if isinstance(value, np.ndarray):
        return canonical_form(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [canonical_form(part) for part in value]
    if type(value).__module__.startswith("statsmodels."):
        return _family(value)
    raise OptionError(f"an argument is of type {type(value).__name__}; give numbers, texts, lists or a dict of these")


def promise_numbers(promise: Promise) -> list[Any]:
    """Return the parameters of a privacy guarantee, such as eps and delta, and of its neighbouring relation."""
    around = promise.neighbors
    return [sorted(promise.numbers.items()), around.kind, around.unit, around.rows_per_unit]


def rounded(value: Any) -> Any:
    """Round the floats in nested lists to 6 significant digits (`DIGITS`).

    Later digits may differ between machines; the rounded floats differ only if a float is near a rounding boundary.

    Examples
    --------
    >>> rounded(["mu", [0.12345678901234567]]) == rounded(["mu", [0.12345678901234565]])
    True
    """
    if isinstance(value, list | tuple):
        return [rounded(part) for part in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _family(family: Any) -> list[str]:
    """Return the names of a statsmodels family (distribution of the response) and of its link function."""
    link = getattr(family, "link", None)
    return [type(family).__name__.lower(), type(link).__name__.lower()]
