"""Data with planted values that occur nowhere else, and functions that search outputs for these values."""

import io
import logging
import pickle
import types
import warnings

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.formula.block import Block
from privstats.gate.files import File
from privstats.gate.gate import Conversation
from privstats.gate.kept import Kept
from privstats.gate.rows import BlockRows, RowValues
from privstats.gate.sources import Batches, Frame

CANARIES = (918273.6455, "canary-level", 77.123456789)
N = 61  # odd, so that no array of this length is a histogram of norms, which has an even number of bins
ROWS = (BlockRows, RowValues, Block, Conversation, Frame, Batches, Kept, File)  # classes whose objects hold rows


def frame(n=N):
    """Return n rows with the columns of the calls in `tests.every`; all values lie within the declared bounds."""
    data = pd.DataFrame({"y": np.linspace(0, 100, n), "x": np.linspace(5, 80, n), "z": np.linspace(0, 10, n)})
    data["g"] = np.array(["a", "b"])[np.arange(n) % 2]
    data["b"], data["w"], data["count"] = data["z"] > 5, np.linspace(0.5, 2, n), np.arange(n) % 7
    return data


def planted():
    """Return the rows of `frame` with three planted values, `CANARIES`, which occur nowhere else."""
    data = frame()
    data.loc[3, "y"], data.loc[7, "x"], data.loc[9, "g"] = CANARIES[0], CANARIES[2], CANARIES[1]
    return data


class Spiteful:
    """A cell that cannot be hashed, compared or read as a number."""

    def _no(self, *_):
        raise RuntimeError(str(CANARIES[0]))

    __eq__ = __hash__ = __float__ = __bool__ = _no


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
            if "privstats/" in trace.tb_frame.f_code.co_filename and "tests" not in trace.tb_frame.f_code.co_filename:
                for value in walk(dict(trace.tb_frame.f_locals)):
                    assert not isinstance(value, (pd.DataFrame, pd.Series, *ROWS)), "a frame holds the data"
                    yield repr(value)
            trace = trace.tb_next


def refusal(call, kind=ps.PrivstatsError):
    """Return the error that a call raises; check that the call neither warns nor logs."""
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            with pytest.raises(kind) as caught:
                call()
    finally:
        logging.getLogger().removeHandler(handler)
    assert not warned
    assert not log.getvalue()
    return caught.value


def assert_holds_no_row(thing, rows=N):
    """Check that `thing` and all objects it refers to hold no planted value and no array with one entry per row.

    The pickle of `thing` must hold no planted value, either.
    """
    held = pickle.dumps(thing)
    for canary in CANARIES:
        assert str(canary).encode() not in held
        assert not (isinstance(canary, float) and np.float64(canary).tobytes() in held)
    for value in walk(thing, depth=12):
        assert not isinstance(value, ROWS)
        assert not (isinstance(value, pd.DataFrame | pd.Series | np.ndarray) and value.shape[:1] == (rows,))
