"""Chance: the only file that makes random numbers.

Every stream is ChaCha20 (20 rounds, 256-bit key). By default the key comes from the operating system.
A seed given on request is hashed with the digest of the plan and the index of the call, so that the same
call repeats itself and no two different ones share noise; such results are labelled "seeded: not private".
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from randomgen import ChaCha

from privstats.errors import PrivacyError

Generator = np.random.Generator


def _stream(key: int) -> Generator:
    return np.random.Generator(ChaCha(key=key, rounds=20))


def _key(*parts: Any) -> int:
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "little")


@dataclass(frozen=True)
class NoiseSource:
    """Source of the random numbers for the noise of one fit.

    Parameters
    ----------
    seed : int, optional
        None draws every key from the operating system.
    """

    seed: int | None = None

    @property
    def seeded(self) -> bool:
        """Whether anyone who knows the seed can compute the noise."""
        return self.seed is not None

    def generator(self, digest: str, index: int) -> Generator:
        """Return the stream of release number `index` of the plan with this digest."""
        if self.seed is None:
            return _stream(secrets.randbits(256))
        return _stream(_key("noise", self.seed, digest, index))


def source(rng: Any) -> NoiseSource:
    """Return the source that the argument ``rng`` of a verb names.

    Parameters
    ----------
    rng : None, int or numpy Generator
        None for the operating system's randomness. An int is a seed; a Generator gives a fresh seed at
        each call. Both are for tests and vignettes.

    Returns
    -------
    NoiseSource

    Raises
    ------
    PrivacyError
        If `rng` is anything else.

    Examples
    --------
    >>> source(None).seeded, source(7).seeded
    (False, True)
    """
    if rng is None:
        return NoiseSource()
    if isinstance(rng, np.random.Generator):
        return NoiseSource(int.from_bytes(rng.bytes(32), "little"))
    if isinstance(rng, int | np.integer) and not isinstance(rng, bool):
        return NoiseSource(int(rng))
    raise PrivacyError("rng must be None (private), or an int or numpy Generator (tests and vignettes only)")


KINDS = ("question", "key", "rehearsal")


def streams(seed: int | None, digest: str) -> Callable[[str, str], Generator]:
    """Return the streams of one fit: of a kind and a label, the random numbers.

    Parameters
    ----------
    seed : int or None
        None draws the key of each stream from the operating system, so that no two calls, forked processes included,
        share noise. A seed gives the same streams again.
    digest : str
        Of the plan.

    Returns
    -------
    callable
        Of a kind ("question", "key" or "rehearsal") and a label: a generator. No label reaches the streams of another
        kind.

    Examples
    --------
    >>> stream = streams(7, "digest")
    >>> bool(stream("question", "sums").uniform() == stream("question", "sums").uniform())
    True
    """

    def stream(kind: str, label: str) -> Generator:
        if kind not in KINDS:
            raise PrivacyError(f"there are no random numbers of this kind; choose among {', '.join(KINDS)}")
        return _stream(secrets.randbits(256) if seed is None else _key("stream", seed, digest, kind, label))

    return stream


def public_stream(index: int) -> Generator:
    """Return a fixed stream for post-processing: simulation of laws that are public, never noise."""
    return _stream(_key("simulation", index))
