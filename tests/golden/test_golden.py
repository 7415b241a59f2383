"""Seeded calls over all functions and mechanisms give the recorded numbers."""

import json

import pytest

from tests.golden.calls import CALLS, FILE, ROUNDED, differences, kept, run

GOLDEN = json.loads(FILE.read_text())


@pytest.mark.parametrize("name", CALLS)
def test_a_seeded_call_gives_what_it_gave(name):
    now = json.loads(json.dumps(kept(run(name))))
    assert not list(differences(GOLDEN[name], now, ROUNDED.get(name, 1e-9)))
