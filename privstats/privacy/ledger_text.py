"""Conversion of ledger entries to JSON and back without loss; digests that cover an entry and all earlier entries."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from privstats.privacy.account import Entry
from privstats.privacy.promise import ApproxDP, GaussianDP, Neighbors, Promise, PureDP, ZeroCDP

PROMISES: dict[str, Any] = {kind.__name__: kind for kind in (PureDP, ApproxDP, GaussianDP, ZeroCDP)}


def chain(budget: Promise, entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the digest of the budget, then for each entry the digest of the budget and of all entries so far."""
    head = digest_of("", promise_as_text(budget))
    yield head
    for entry in entries:
        yield (head := digest_of(head, entry_as_text(entry)))


def digest_of(before: str, text: str) -> str:
    """Return the SHA-256 digest, in hexadecimal, of the previous digest `before` followed by a string."""
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def entry_as_text(entry: Entry) -> str:
    """Return a ledger entry as a JSON string."""
    parts = [[name, _written(promise)] for name, promise in entry.parts]
    return json.dumps([entry.time, entry.analyst, entry.call, entry.method, parts])


def entry_of_text(text: str) -> Entry:
    """Return the ledger entry that `entry_as_text` has written as a JSON string."""
    time, analyst, call, method, parts = json.loads(text)
    return Entry(call, method, tuple((name, _read(promise)) for name, promise in parts), analyst, time)


def promise_as_text(promise: Promise) -> str:
    """Return a privacy guarantee as a JSON string."""
    return json.dumps(_written(promise))


def promise_of_text(text: str) -> Promise:
    """Return the privacy guarantee that `promise_as_text` has written as a JSON string."""
    return _read(json.loads(text))


def _written(promise: Promise) -> dict[str, Any]:
    own = promise.neighbors
    return {"kind": type(promise).__name__, **promise.numbers, "neighbors": own.kind, "unit": own.unit}


def _read(written: dict[str, Any]) -> Promise:
    kind, neighbors = written.pop("kind"), Neighbors(written.pop("neighbors"), written.pop("unit"))
    promise: Promise = PROMISES[kind](**written, neighbors=neighbors)
    return promise
