"""Times of plans and of factors with many levels, relative to least squares and X'X (part of `benchmarks.speed`)."""

import pytest

from benchmarks.speed import calls, level_plans, levels, measured

NOISE = 1.3  # factor that allows for other processes on the machine, whose effect repetitions do not remove
HELD = {  # by name of a case that misses its target: largest allowed ratio of its time to the time of the reference
    "plan of auto, first": 16.0,
    "moments": 16.0,
}
CASES = {
    "n = 100": lambda: [case for case in calls(100, 1) if case.most],
    "levels": lambda: levels(100_000, 1, 100, 2.0),
    "plan of levels": lambda: level_plans(100_000, 1, 150, 8.0),
}


@pytest.mark.parametrize("cases", CASES.values(), ids=CASES)
def test_a_call_takes_at_most_so_many_times_its_reference(cases):
    found = measured(cases(), 2)
    assert found
    assert {row.name: row.found for row in found if row.found > NOISE * HELD.get(row.name, row.most)} == {}
