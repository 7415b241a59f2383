"""A function that yields data frames of any sizes gives bit for bit the same releases as one data frame in memory."""

import itertools

import numpy as np
import pytest

import privstats as ps
from privstats.gate import rows as gate_rows
from privstats.gate.files import File
from privstats.workflow import fit as workflow
from tests.architecture.leaks import planted, refusal, reveals, spill
from tests.conftest import slow, thinned
from tests.every import CALLS, ROWS_APART


def in_frames(data, *sizes):
    """Return a function that yields the data in frames, whose numbers of rows are taken cyclically from `sizes`.

    Later calls of the function begin at a later position of the cycle.
    """
    calls = itertools.count()

    def frames():
        turns = itertools.islice(itertools.cycle(sizes), next(calls), None)
        start = 0
        while start < len(data):
            size = next(turns)
            yield data.iloc[start : start + size]
            start += size

    return frames


@pytest.fixture
def planned_once(monkeypatch):
    """Keep the first plan that is made, and return it for all later calls."""
    make, plans = workflow.make_plan, []

    def memo(*args):
        plans.extend([] if plans else [make(*args)])
        return plans[0]

    monkeypatch.setattr(workflow, "make_plan", memo)


def bits(fit):
    return [(release.name, release.value.tobytes()) for release in fit.releases]


UNITS = {"rows": {}, "persons": {"unit": "who", "rows_per_unit": 2}, "come and go": {"neighbors": "add_remove"}}
PLAIN = ("nonrobust",)
BY_ROW = {name for name in CALLS if name.split()[-1] in PLAIN} | ROWS_APART
CASES = [(name, "rows" if name in BY_ROW else list(UNITS)[k % 3]) for k, name in enumerate(CALLS)]


def data_of():
    data = planted().sample(frac=1.0, random_state=2, ignore_index=True)
    return data.assign(who=np.random.default_rng(3).integers(0, 25, len(data)))


@thinned(8)
@pytest.mark.parametrize(("name", "whose"), CASES)
def test_blocks_of_any_size_release_the_same_bits(planned_once, name, whose):
    data, options = data_of(), {"rng": 1, **UNITS[whose]}
    whole = CALLS[name](data, **options)
    for sizes in ((1, 17, 5), (60,)):
        pieces = CALLS[name](in_frames(data, *sizes), **options)
        assert bits(pieces) == bits(whole)
        assert pieces.params.equals(whole.params)
        assert pieces.facts.rows == whole.facts.rows


@pytest.mark.parametrize("name", ["lm suffstats", "lm newton", slow("logit objpert"), "median by group", "mean"])
def test_the_size_of_blocks_inside_changes_no_bit(monkeypatch, planned_once, name):
    data = data_of()
    whole = CALLS[name](data, rng=1, unit="who")
    monkeypatch.setattr(gate_rows, "BLOCK_ROWS", 7)
    assert bits(CALLS[name](data, rng=1, unit="who")) == bits(whole)
    assert bits(CALLS[name](in_frames(data, 11), rng=1, unit="who")) == bits(whole)


LIMITED = ["lm suffstats", "lm newton", "lm objpert", "logit newton", "rq", "quantiles by group", "median duff"]


@pytest.mark.parametrize("name", LIMITED)
def test_the_limit_of_memory_changes_no_bit(monkeypatch, name):
    data, written = data_of(), []
    whole, put = CALLS[name](data, rng=1), File.put
    monkeypatch.setattr(gate_rows, "BLOCK_ROWS", 7)
    monkeypatch.setattr(File, "put", lambda self, item: written.append(item) or put(self, item))
    assert bits(CALLS[name](data, rng=1, memory_limit=np.inf)) == bits(whole)
    assert not written
    # with a limit of 1 byte, nothing is kept in memory; with 1000 bytes, some blocks and some values are kept
    for limit in (1, 1000):
        assert bits(CALLS[name](data, rng=1, memory_limit=limit)) == bits(whole)
        assert written
        written.clear()
        assert bits(CALLS[name](in_frames(data, 11), rng=1, memory_limit=limit)) == bits(whole)
        assert not written


@pytest.mark.parametrize("name", ["lm suffstats", "lm newton", "mean", "mode", "hist"])
def test_the_order_of_rows_changes_no_bit_where_persons_do_not_depend_on_it(planned_once, name):
    data = data_of()
    shuffled = data.sample(frac=1.0, random_state=9).set_index(np.zeros(len(data)))
    assert bits(CALLS[name](data, rng=1)) == bits(CALLS[name](shuffled, rng=1))


def test_frames_that_change_from_pass_to_pass_end_the_fit_and_tell_nothing():
    data, calls = data_of(), itertools.count()

    def fickle():
        return [data.head(30), data.iloc[30 : 60 - (next(calls) > 3)]]

    ledger = ps.Ledger(ps.PureDP(1.0))
    error = refusal(lambda: CALLS["lm newton"](fickle, eps=1.0, mech="newton", ledger=ledger), ps.PrivacyError)
    assert "in each pass" in str(error)
    assert not any(reveals(text) for text in spill(error))
    assert len(ledger.entries) == 1


def test_a_generator_that_can_be_read_once_only_is_refused():
    frames = iter([data_of()])
    with pytest.raises(ps.PrivstatsError):
        CALLS["lm suffstats"](lambda: frames)
