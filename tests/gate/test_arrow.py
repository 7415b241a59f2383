"""Cells of Arrow arrays have the same values as cells of pandas columns; batches of any encoding are joined."""

import datetime
import decimal
import itertools
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from privstats.formula.cells import by_row, cells, days, numbers, positions, read, unit_name
from privstats.gate import arrow

pa = pytest.importorskip("pyarrow", reason="Arrow sources need pyarrow: pip install 'privstats[arrow]'")

DAY, NOON = datetime.date(2020, 2, 29), datetime.datetime(2020, 2, 29, 12, 30, 1, 250)
ROME = ZoneInfo("Europe/Rome")
TEXTS = ["a", "b", None, "", "12.5", "True", "2020-02-29", " a", "\u00e9", "a"]
EXACT = [decimal.Decimal(text) for text in ("1.10", "-0.07", "9007199254740993.25", "1234567890123456.78", "0")]


def texts_of(kind):
    return pa.array(TEXTS, pa.string()).cast(kind)


ARRAYS = {
    **{str(kind): pa.array([0, 1, None, 7, 100], kind) for kind in (pa.int8(), pa.uint16(), pa.int64(), pa.uint64())},
    "no nulls": pa.array([3, 1, 2], pa.int32()),
    "large": pa.array([2**53 - 1, 2**53, 2**62 + 1, None]),
    **{str(kind): pa.array([0.1, None, np.nan, np.inf, -0.0], kind) for kind in (pa.float32(), pa.float64())},
    "half": pa.array(np.array([0.1, 2.0], dtype=np.float16)),
    "truth": pa.array([True, None, False]),
    "truth, no nulls": pa.array([True, False]),
    **{f"decimal {n}": pa.array([*EXACT, None], pa.decimal128(38, n)) for n in (2, 10, 18)},
    "decimal256": pa.array([*EXACT, None], pa.decimal256(60, 30)),
    **{f"{kind}": texts_of(kind) for kind in (pa.string(), pa.large_string(), pa.string_view())},
    "dictionary": texts_of(pa.string()).dictionary_encode(),
    "larger dictionary": pa.DictionaryArray.from_arrays(pa.array([2, None, 0]), pa.array(TEXTS)),
    "dictionary of numbers": pa.array([5, 6, None, 5]).dictionary_encode(),
    "dictionary of dates": pa.array([DAY, None]).dictionary_encode(),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([1.5, None])),
    "binary": pa.array([b"a", None, b"\xff"]),
    "fixed": pa.array([b"ab", None], pa.binary(2)),
    "date32": pa.array([DAY, None, datetime.date(1900, 1, 1)]),
    "date64": pa.array([DAY, None], pa.date64()),
    **{unit: pa.array([NOON.replace(microsecond=0), None], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
    "microseconds": pa.array([NOON, None], pa.timestamp("us")),
    "zone": pa.array([NOON.replace(tzinfo=ROME), None], pa.timestamp("us", "Europe/Rome")),
    "zone ns": pa.array([NOON.replace(tzinfo=ROME), None], pa.timestamp("ns", "America/New_York")),
    "time": pa.array([datetime.time(1, 2), None]),
    "duration": pa.array([datetime.timedelta(1), None]),
    "null": pa.nulls(3),
    "list": pa.array([[1], None]),
    "struct": pa.array([{"a": 1}, None]),
    "extension": pa.array([b"0123456789abcdef", None], pa.uuid()).cast(pa.uuid()),
}
LEVELS = ["a", "", "12.5", "\u00e9", 1, 7, True, 1.5, 5, b"a", DAY, NOON, NOON.replace(tzinfo=ROME)]


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_each_type_is_read_as_its_cells_are_read_one_by_one(array):
    stored = array.storage if isinstance(array, pa.ExtensionArray) else array
    column, one_by_one = pd.Series(arrow.column(array)), pd.Series(stored.to_pylist(), dtype=object)
    place = {read(level): k for k, level in enumerate(LEVELS)}
    np.testing.assert_array_equal(numbers(column), numbers(one_by_one))
    np.testing.assert_array_equal(positions(column, place), positions(one_by_one, place))
    np.testing.assert_array_equal(days(column, DAY), days(one_by_one, DAY))
    assert [unit_name(cell) for cell in cells(column)] == [unit_name(cell) for cell in cells(one_by_one)]


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_many_rows_are_read_as_in_a_frame_of_them(array):
    many = pa.concat_arrays([array] * (arrow.FEW_ROWS // len(array) + 1))
    by_name, frame = arrow.by_name(["c", "n"], [many, many]), arrow.frame_of(["c", "n"], [many, many])
    assert isinstance(by_name, arrow.ByName)
    assert isinstance(arrow.by_name(["c"], [many[: arrow.FEW_ROWS]]), pd.DataFrame)
    assert len(by_name) == len(frame) == len(many)
    place = {read(level): k for k, level in enumerate(LEVELS)}
    one, other = (by_row(rows["c"])[7:90] for rows in (by_name, frame))
    for reading in (numbers, lambda column: positions(column, place), lambda column: days(pd.Series(column), DAY)):
        np.testing.assert_array_equal(reading(one), reading(other))
    assert [unit_name(cell) for cell in cells(pd.Series(one))] == [unit_name(cell) for cell in cells(pd.Series(other))]


@pytest.mark.parametrize(("kind", "digits", "size"), [("decimal128", 38, 16), ("decimal256", 76, 32)])
@pytest.mark.parametrize("sign", [1, -1])
def test_no_decimal_fails_where_arrow_cannot_write_it_but_is_missing(kind, digits, size, sign):
    five = pa.py_buffer((5).to_bytes(size, "little"))
    for scale, number in ((sign * digits, float(f"5e{-sign * digits}")), (sign * (digits + 1), np.nan)):
        array = pa.Array.from_buffers(getattr(pa, kind)(digits, scale), 1, [None, five])
        np.testing.assert_array_equal(numbers(pd.Series(arrow.column(array))), [number])


def test_decimals_are_the_nearest_floats():
    """A cast of decimals to floats rounds twice, so that some results are not the nearest floats."""
    rng = np.random.default_rng(1)
    digits = rng.integers(-(10**18), 10**18, 100_000).astype(object) * rng.integers(1, 10**18, 100_000)
    exact = [decimal.Decimal(int(number)).scaleb(-18) for number in digits]
    array = pa.array(exact, pa.decimal128(38, 18))
    assert (numbers(pd.Series(arrow.column(array))) == np.array([float(number) for number in exact])).all()
    assert (array.cast(pa.float64()).to_numpy() != numbers(pd.Series(arrow.column(array)))).any()


@pytest.mark.parametrize("kind", ["string", "large_string", "dictionary", "several batches"])
def test_a_text_that_is_no_utf8_is_missing_and_its_neighbours_are_not(kind):
    raw = pa.array([b"a", b"\xff\xfe", None, b"b"], pa.large_binary() if kind == "large_string" else pa.binary())
    texts = raw.view(pa.large_string() if kind == "large_string" else pa.string())
    table = pa.table({"g": texts.dictionary_encode() if kind == "dictionary" else texts})
    batches = [table] * 2 if kind == "several batches" else [table]
    read_as = [frame["g"] for frame in arrow.frames_of(itertools.chain(*(part.to_batches() for part in batches)))]
    assert [positions(column, {"a": 0, "b": 1}).tolist() for column in read_as] == [[0, -1, -1, 1] * len(batches)]


def test_dictionaries_of_small_batches_are_put_together_whatever_their_codes():
    parts = [
        pa.table(
            {"g": pa.array([f"t{k}", None, "a"]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))}
        ).to_batches()[0]
        for k in range(200)
    ]
    (whole,) = arrow.frames_of(parts)
    assert list(whole["g"].astype(object).fillna("-")) == [text for k in range(200) for text in (f"t{k}", "-", "a")]


def test_texts_are_put_together_with_offsets_that_long_cells_cannot_exceed():
    for kind, wide in ((pa.string(), pa.large_string()), (pa.binary(), pa.large_binary())):
        batches = [pa.RecordBatch.from_arrays([pa.array(["a"], kind)], names=["g"]) for _ in range(2)]
        (whole,) = arrow.whole_batches(batches)
        assert whole.schema.field("g").type == wide
