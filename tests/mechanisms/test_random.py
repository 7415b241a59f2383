"""Streams of random numbers: all bits of the key are random, and all of them are used."""

import pytest
from randomgen import ChaCha

from privstats.mechanisms import random
from privstats.mechanisms.random import NoiseSource, public_stream, streams

MAKERS = {
    "operating system": lambda k: streams(None, "digest")("question", "score"),
    "seed": lambda k: streams(7, "digest")("question", f"score {k}"),
    "source of the operating system": lambda k: NoiseSource().generator("digest", k),
    "source of a seed": lambda k: NoiseSource(7).generator("digest", k),
    "public": public_stream,
}


@pytest.mark.parametrize("maker", MAKERS)
def test_each_of_the_256_bits_of_a_key_is_drawn(maker, monkeypatch):
    """If bits are random, a given bit is equal in all 64 keys with probability 2^-63."""
    keys = []

    def recorded(key, rounds):
        keys.append(key)
        assert rounds == 20
        return ChaCha(key=key, rounds=rounds)

    monkeypatch.setattr(random, "ChaCha", recorded)
    for k in range(64):
        MAKERS[maker](k)
    ever, always = 0, 2**256 - 1
    for key in keys:
        ever, always = ever | key, always & key
    assert (len(keys), ever, always) == (64, 2**256 - 1, 0)


def test_each_bit_of_a_key_changes_the_stream():
    keys = [0, *(1 << bit for bit in range(256))]
    assert len({random._stream(key).bytes(16) for key in keys}) == len(keys)
