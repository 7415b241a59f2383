"""The generator is ChaCha20, and streams are told apart by everything that was decided."""

import operator
import os
from functools import reduce

import numpy as np
import pytest

from privstats.errors import PrivacyError
from privstats.mechanisms import random as chance
from privstats.mechanisms.random import Source, public_stream, source


def first(generator):
    return generator.standard_normal(4).tolist()


def test_the_stream_is_chacha20_as_published():
    # RFC 8439 block function with zero key, nonce and counter (Appendix A.1, test vector 1)
    from randomgen import ChaCha

    words = ChaCha(key=0, rounds=20).random_raw(4)
    assert words.astype("<u8").tobytes().hex() == "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"


def test_the_default_is_the_operating_system_and_never_repeats():
    assert not source(None).seeded
    assert first(source(None).generator("d", 0)) != first(source(None).generator("d", 0))


def test_the_same_seed_and_call_repeat_and_any_difference_changes_the_noise():
    base = first(source(7).generator("plan", 0))
    assert first(source(7).generator("plan", 0)) == base
    others = [source(8).generator("plan", 0), source(7).generator("other", 0), source(7).generator("plan", 1)]
    assert base not in [first(generator) for generator in others]


def test_a_generator_as_seed_gives_a_new_stream_at_each_call():
    rng = np.random.default_rng(1)
    one, two = source(rng), source(rng)
    assert one.seeded
    assert one.seed != two.seed


def test_public_simulation_never_shares_a_stream_with_noise():
    assert first(public_stream(0)) == first(public_stream(0))
    assert first(public_stream(0)) != first(Source(0).generator("", 0))


@pytest.mark.parametrize("bad", ["1", 1.5, True, object(), [1]])
def test_other_sources_of_chance_are_refused(bad):
    with pytest.raises(PrivacyError, match="rng"):
        source(bad)


def test_keys_are_new_for_each_stream_and_have_256_bits(monkeypatch):
    keys, make = [], chance.ChaCha

    def recording(key, rounds):
        assert rounds == 20
        keys.append(key)
        return make(key=key, rounds=rounds)

    monkeypatch.setattr(chance, "ChaCha", recording)
    for number in range(40):
        source(None).generator("plan", number)
        source(7).generator("plan", number)
    assert len(set(keys)) == 80
    for of_one_kind in (keys[::2], keys[1::2]):  # each bit takes both values: if fair, not so with probability 5e-10
        assert reduce(operator.or_, of_one_kind) == 2**256 - 1
        assert reduce(operator.and_, of_one_kind) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_forks_do_not_share_noise():
    """A parent's key or generator that its children inherit would give all of them the same noise."""
    source(None).generator("plan", 0).bytes(8)  # whatever is made once per process is made now
    pipes = []
    for _ in range(3):
        readable, writable = os.pipe()
        if os.fork() == 0:
            os.write(writable, source(None).generator("plan", 0).bytes(32))
            os._exit(0)
        os.close(writable)
        pipes.append(readable)
    noise = [os.read(pipe, 32) for pipe in pipes] + [source(None).generator("plan", 0).bytes(32)]
    for pipe in pipes:
        os.close(pipe)
        os.wait()
    assert [len(part) for part in noise] == [32] * 4
    assert len(set(noise)) == 4
