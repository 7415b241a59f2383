"""Planted values, which occur nowhere else, do not appear in any output of queries that fail."""

import asyncio
import inspect
import sys
import threading
import types
import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.boundary import door
from privstats.errors import PrivacyError, PrivstatsError
from privstats.formula.design import Design, bind_regression
from privstats.formula.domain import Domain
from privstats.gate.gate import Gate
from privstats.gate.questions import Sum, Values
from privstats.gate.rows import BlockRows, RowValues
from privstats.gate.sources import Batches, Frame
from privstats.mechanisms.additive.laplace import Laplace
from privstats.mechanisms.order.rank import Rank
from privstats.mechanisms.random import streams
from privstats.privacy.promise import Neighbors
from privstats.sets.cells import Line
from privstats.sets.vectors import Ball
from tests.gate.toy import in_batches, planned

CANARIES = (918273.6455, "canary-level", 77.123456789, "canary-person")
DESIGN = bind_regression("y ~ x + g", Domain({"y": (0, 100), "x": (0, 100), "g": ["a", "b"]}))


@dataclass(frozen=True)
class Rows:
    """Row function: all columns of a row."""

    def __call__(self, block):
        return block.times(np.eye(DESIGN.width))


@dataclass(frozen=True)
class Response:
    def __call__(self, block):
        return block.response[:, None]


SCORE = Sum("score", Rows(), Ball(DESIGN.width, 2.0), folded=True)
VALUES = Values("values", Response(), Line(-1, 1, 2.0**-10))


def planted():
    data = pd.DataFrame({"y": np.linspace(0, 100, 60), "x": np.linspace(5, 80, 60), "g": ["a", "b"] * 30})
    data.loc[3, "y"], data.loc[7, "x"] = 918273.6455, 77.123456789
    data.loc[9, "g"] = "canary-level"
    data["who"] = [f"p{k % 20}" for k in range(59)] + ["canary-person"]
    return data


@door
def fit(source):
    """Ask two queries about the rows of `source`, through a new gate, as a public function of the package does."""
    neighbors = Neighbors("replace", "who", 2)
    plan = [planned(SCORE, Laplace()), planned(VALUES, Rank((0.5,)))]
    gate = Gate(BlockRows(source, DESIGN, neighbors, b"key"), plan, streams(None, "digest"))
    return gate(SCORE, by=Laplace()), gate(VALUES, by=Rank((0.5,)))


def reveals(text):
    return [canary for canary in CANARIES if str(canary) in text]


def walk(value, depth=4, seen=None):
    """Yield all objects that can be reached from the value of a local variable."""
    seen = set() if seen is None else seen
    if depth == 0 or id(value) in seen:
        return
    seen.add(id(value))
    yield value
    inside = []
    if isinstance(value, dict):
        inside = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set):
        inside = list(value)
    elif isinstance(value, types.FunctionType):
        inside = [cell.cell_contents for cell in value.__closure__ or () if cell.cell_contents is not value]
    elif hasattr(value, "__dict__") and not isinstance(value, type | types.ModuleType):
        inside = list(vars(value).values())
    for part in inside:
        yield from walk(part, depth - 1, seen)


def spill(error):
    """Yield the texts of an exception, of its chained exceptions, and of variables in the package's stack frames."""
    chain = [error]
    while chain:
        one = chain.pop()
        yield f"{one!r} {one.args!r} {getattr(one, '__notes__', '')}"
        chain += [other for other in (one.__context__, one.__cause__) if other is not None]
        trace = one.__traceback__
        while trace is not None:
            if "privstats" in trace.tb_frame.f_code.co_filename and "tests" not in trace.tb_frame.f_code.co_filename:
                for value in walk(dict(trace.tb_frame.f_locals)):
                    assert not isinstance(value, pd.DataFrame | pd.Series | BlockRows | Gate), "a frame holds the data"
                    yield repr(value)
            trace = trace.tb_next


def refusal(call, kind=PrivstatsError):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(kind) as caught:
            call()
    assert not warned
    return caught.value


SOURCES = {"frame": lambda: Frame(planted()), "batches": lambda: Batches(in_batches(planted(), 7))}
sources = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
BREAKS = {
    "reading": (Design, "block"),
    "projecting": (Ball, "project"),
    "adding up": (Ball, "total"),
    "looking": (RowValues, "scan"),
    "the noise": (Laplace, "release"),
}


@sources
@pytest.mark.parametrize("place", BREAKS.values(), ids=list(BREAKS))
@pytest.mark.parametrize("failure", [ValueError, MemoryError, KeyError, np.linalg.LinAlgError, PrivacyError])
def test_a_failure_inside_the_gate_tells_nothing(monkeypatch, place, failure, source):
    def fails(self, *args):
        raise failure(f"{CANARIES[0]} {args}")

    monkeypatch.setattr(*place, fails)
    error = refusal(lambda: fit(source()), PrivacyError)
    assert "could not be computed" in str(error)
    assert not any(reveals(text) for text in spill(error))


def test_a_source_that_fails_tells_nothing():
    def make():
        yield planted()
        raise OSError(f"row {CANARIES[0]} of {CANARIES[3]}")

    error = refusal(lambda: fit(Batches(make)), PrivacyError)
    assert "could not be computed" in str(error)
    assert not any(reveals(text) for text in spill(error))


class Alarm(BaseException):
    """An exception derived from BaseException, such as the exception of a time limit."""


@sources
@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, Alarm])
def test_an_interrupted_run_leaves_nothing_behind_and_lets_others_in(monkeypatch, stop, source):
    def interrupted(self, *args):
        raise stop(str(CANARIES[0]))

    filters = list(warnings.filters)
    with monkeypatch.context() as patch:
        patch.setattr(Design, "block", interrupted)
        error = refusal(lambda: fit(source()), BaseException)
    assert type(error) is (KeyboardInterrupt if stop is Alarm else stop)
    assert not any(reveals(text) for text in spill(error))
    assert list(warnings.filters) == filters
    answers = []
    other = threading.Thread(target=lambda: answers.append(fit(source())))
    other.start()
    other.join(10)
    assert len(answers) == 1  # the lock was released


@sources
def test_releases_hold_no_row_and_nothing_warns(source):
    score, values = fit(source())
    for value in walk([score, values], 8):
        assert not isinstance(value, pd.DataFrame | pd.Series | BlockRows | RowValues)
        assert not reveals(repr(value))


ODD = {
    "texts": {"x": ["one"] * 60},
    "objects": {"x": [object()] * 60},
    "mixed": {"y": [1, "2", None, b"3", 4.5, [1]] * 10},
    "dates": {"x": pd.date_range("2020-01-01", periods=60)},
    "infinities": {"x": [np.inf, -np.inf, np.nan] * 20},
    "nothing": {"g": [None] * 60},
    "categories": {"g": pd.Categorical(["a", "z", "b"] * 20)},
    "one unit": {"who": ["p"] * 60},
    "no units": {"who": [None] * 60},
    "odd units": {"who": [[1], {}, 2**60, "a", 1.5, None] * 10},
}


@pytest.mark.parametrize("columns", ODD.values(), ids=ODD)
def test_what_only_the_rows_could_tell_is_neither_refused_nor_warned_of(columns):
    data = planted().assign(**{name: pd.Series(values) for name, values in columns.items()})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(fit(Frame(data))) == len(fit(Batches(in_batches(data, 11)))) == 2


@pytest.mark.parametrize("n", [0, 1, 2])
def test_not_even_the_number_of_rows_decides_about_failure(n):
    assert len(fit(Frame(planted().iloc[:n]))) == 2
    assert len(fit(Batches(in_batches(planted().iloc[:n], 1)))) == 2


def deep(frames, work):
    return work() if frames <= 0 else deep(frames - 1, work)


def test_no_row_decides_how_a_call_near_the_recursion_limit_ends():
    days = pd.date_range("2020-06-01", periods=50).to_list()
    dates = pd.DataFrame({"t": pd.Series(days).astype("category")})
    text = pd.DataFrame({"t": pd.Series(["2020-06-01", *days[1:]], dtype=object).astype("category")})
    known = {"t": ("2020-01-01", "2020-12-31")}

    def ended(rows):
        try:
            return ps.dp_hist("t", rows, 1, bins=1, rng=1, domain=known, neighbors="add_remove").params.item()
        except PrivacyError as error:
            return str(error)

    most = sys.getrecursionlimit() - len(inspect.stack(0)) - 30
    ends = []
    for frames in (*range(0, most - 60, 60), *range(most - 60, most)):
        one, other = (deep(frames, partial(ended, rows)) for rows in (dates, text))
        assert one == other
        ends.append(one)
    assert ends[0] == ended(dates)
    assert "stack frames are left" in ends[-1]
    assert len(set(ends)) == 2
