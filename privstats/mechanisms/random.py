"""Random number generators; this file creates all generators of the package.

Every stream of random numbers is ChaCha20 (20 rounds, 256-bit key). By default the key comes from the operating
system. If the user gives a seed, the key is a hash of the seed, of a text that identifies the call (for a fit, a hash
of its arguments and planned queries), and of the label of the stream. So with a seed the same call gets the same
noise, and different calls get independent noise. Results with a seed are labelled "seeded: not private". Only
simulations without confidential rows use fixed keys (`public_stream`).
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
    """The user's seed for random numbers; without a seed, random numbers come from the operating system.

    Parameters
    ----------
    seed : int, optional
        The seed; by default the key of each stream of random numbers comes from the operating system.
    """

    seed: int | None = None

    @property
    def seeded(self) -> bool:
        """Whether the noise comes from a seed, so that anyone who knows the seed can compute the noise."""
        return self.seed is not None

    def generator(self, digest: str, index: int) -> Generator:
        """Return a random number generator for synthetic rows, identified by the text `digest` and the number `index`.

        With a seed, equal arguments give equal generators; without a seed, each call gives a generator with a new key.
        The noise of a fit comes from `streams` instead.
        """
        if self.seed is None:
            return _stream(secrets.randbits(256))
        return _stream(_key("noise", self.seed, digest, index))


def source(rng: Any) -> NoiseSource:
    """Return the source of random numbers for the argument ``rng`` of a public function.

    Parameters
    ----------
    rng : None, int or numpy Generator
        None for the operating system's randomness. An int is a seed; a Generator gives a new seed at each call. Ints
        and Generators are for tests and vignettes only.

    Returns
    -------
    NoiseSource

    Raises
    ------
    PrivacyError
        If `rng` is of another kind.

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
    """Return a function that maps the kind and the label of random numbers in a fit to their generator.

    Parameters
    ----------
    seed : int or None
        With None, the key of each stream comes from the operating system, so that no two calls share noise, even in
        forked processes. With a seed, equal arguments always give equal streams.
    digest : str
        Text that identifies the fit, such as a hash of its arguments and planned queries. With a seed, different texts
        give independent streams.

    Returns
    -------
    callable
        Maps a kind and a label to a generator. The kinds are "question" (noise of the release with this label),
        "rehearsal" (synthetic rows of a trial run of an estimator) and "key" (the secret key of a hash function).
        Streams of different kinds are independent.

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
    """Return a random number generator whose key depends only on `index`, for simulations without confidential rows.

    Its random numbers are public, so it never generates noise for a release of confidential rows.
    """
    return _stream(_key("simulation", index))
