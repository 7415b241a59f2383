"""A plan states the memory that a method needs for all rows at once, and names a method that needs less."""

import pytest

import privstats as ps
from benchmarks.gathered import PARTS, measured, rows
from benchmarks.passes import PAGE
from privstats.errors import OptionError
from privstats.results.text import labelled
from privstats.workflow import gathered
from tests.every import CALLS, DOMAIN

N = 5_000_000
MECHANISMS_OWN = ("noise", "eta", "steps")  # options of mechanisms, not of estimators


def planned(name, n=N, **more):
    call = CALLS[name]
    given = {"domain": DOMAIN, **call.budgets[0], **call.options, **more}
    delta = {"delta": 1e-9} if "delta" in given else {}
    return ps.plan(call.verb, call.formula, n, **{**given, **delta})


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if call.options.get("mech") == "sgd" else [])
        for name, call in CALLS.items()
        if {"mech", "geometric"} & set(call.options)
    ],
)
def test_the_plan_of_a_method_that_needs_all_rows_at_once_says_so_and_names_one_that_does_not(name):
    plan = planned(name)
    assert (plan.gathered is not None) == any(p.mechanism.gathers for p in plan.planned)
    if plan.gathered is not None:
        cure = eval(f"dict({plan.gathered.cure})")
        call = CALLS[name]
        kept = {key: value for key, value in call.options.items() if key not in MECHANISMS_OWN}
        given = {"domain": DOMAIN, **call.budgets[0], **kept, **cure}
        delta = {"delta": 1e-9} if "delta" in given else {}
        assert ps.plan(call.verb, call.formula, N, **{**given, **delta}).gathered is None


def test_it_is_said_from_100_mb_on():
    least = 10**8 / planned("median duff").gathered.row
    assert planned("median duff", int(least) - 1).gathered.line is None
    assert planned("median duff", int(least) + 1).gathered.line == (
        "up to 100 MB: duff (distance to data with another answer) needs all rows in the memory of one process, up to "
        "96 bytes a row; mech='rank' does not"
    )


def test_a_plan_prints_it_as_lines_of_its_head(monkeypatch):
    assert "Memory" not in repr(planned("mean duff", 1000))
    monkeypatch.setattr(gathered, "TOLD", 1)
    lines = repr(planned("mean duff", 1000)).splitlines()
    here = lines.index("Memory       up to 96 kB: duff (distance to data with another answer) needs all")
    assert lines[here - 1].startswith("Method")
    assert lines[here + 1 : here + 3] == [
        "             rows in the memory of one process, up to 96 bytes a row;",
        "             mech='auto' does not",
    ]


def test_the_guide_shows_the_line_as_a_plan_has_it():
    line = "\n".join(labelled("Memory", planned("median duff", 10_000_000).gathered.line))
    assert f"```text\n{line}\n```" in PAGE.read_text()


def test_a_private_number_of_rows_is_the_planned_one_and_a_unit_has_all_its_rows():
    whole = planned("median kng").gathered.size
    assert planned("median kng", neighbors="add_remove").gathered.size == whole
    assert planned("median kng", unit="who", rows_per_unit=3).gathered.size == 3 * whole


def test_more_rows_than_a_process_should_hold_are_refused_with_the_memory_and_the_cure():
    planned("median duff", gathered.MOST_NUMBERS)
    with pytest.raises(OptionError, match=r"up to 96 bytes a row, 26 GB in all\), which is too much; give mech='rank'"):
        planned("median duff", gathered.MOST_NUMBERS + 1)


@pytest.mark.parametrize("name", ["mean duff", "median rank"])  # benchmarks.gathered checks all other calls
def test_a_plan_says_enough_memory(name):
    said, taken = measured(name, rows(600_000, 1))
    assert (said / 2 <= taken <= said) if said else taken <= PARTS
