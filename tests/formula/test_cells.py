"""The value of a cell does not depend on other rows, on the type of its column or on warning filters."""

import datetime
import decimal
import enum
import fractions
import io
import itertools
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

from privstats.formula.cells import cells, days, numbers, read, unit_name
from privstats.formula.columns import bind_columns
from privstats.formula.declarations import Levels
from privstats.formula.values import admitted


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


class Real(float):
    pass


class Member(str, enum.Enum):  # noqa: UP042 - a str enum as older code writes it
    ANN = "ann"
    BEN = "ben"


class Number(enum.IntEnum):
    ONE = 1
    SEVEN = 7


class Plain(enum.Enum):
    ANN = "ann"


class Foreign:
    """A cell whose class accepts every operation and records it; no operation may be called."""

    ran: list[str] = []  # noqa: RUF012

    def __getattribute__(self, name):
        Foreign.ran.append(name)
        return object.__getattribute__(self, name)

    def __eq__(self, other):
        Foreign.ran.append("eq")
        return True

    def __hash__(self):
        Foreign.ran.append("hash")
        return hash(0.47)

    def __float__(self):
        Foreign.ran.append("float")
        return 0.47

    def __str__(self):
        Foreign.ran.append("str")
        return "none"

    __repr__ = __str__


class Spiteful(str):
    __slots__ = ()

    def _no(self, *_):
        raise RuntimeError

    __eq__ = __hash__ = __str__ = __bool__ = __len__ = _no


WHOLE = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, int, Whole)
REAL = (np.float16, np.float32, np.float64, np.longdouble, float, Real)
COMPLEX = (np.complex64, np.complex128, np.clongdouble, complex)
ZOO = [
    *(kind(value) for kind in WHOLE for value in (0, 1, 7)),
    *(kind(value) for kind in REAL for value in (0.0, 0.47, 1.0, 0.1, np.inf, -np.inf, np.nan)),
    *(kind(value) for kind in COMPLEX for value in (0.47, 1.0, 1j)),
    *(True, False, np.True_, np.False_, *Number, *Member, Plain.ANN),
    *(decimal.Decimal(text) for text in ("0.47", "1", "7.0", "1E+3", "1E+9999", "NaN", "sNaN", "Infinity")),
    *(fractions.Fraction(47, 100), fractions.Fraction(1), fractions.Fraction(10**400)),
    *(10**400, -(10**400), 2**53, 2**53 + 1, -(2**63)),
    *("none", "ann", "1", "0.47", "", "\ud800", np.str_("ann"), np.str_("0.47"), Text("none"), Text("ann")),
    *(b"ann", b"1", np.bytes_(b"ann"), bytearray(b"ann"), np.void(b"x")),
    *(None, pd.NA, pd.NaT, np.ma.masked, np.datetime64("NaT"), np.timedelta64("NaT"), float("nan"), -np.nan),
    *([1], [], {}, {"a": 1}, {1}, (1, 2), frozenset([1]), object(), Foreign(), Spiteful("none"), np.array(0.47)),
    *(np.array([0.47]), np.ma.array([1.0], mask=[True]), lambda: 0.47, float, range(3), pd.Series([0.47])),
    *(datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1), datetime.time(1), datetime.timedelta(1)),
    *(pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-01", tz="UTC"), pd.Timestamp("2020-01-01T01+01:00")),
    datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
    datetime.datetime(2020, 1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
    *(np.datetime64("2020-01-01", unit) for unit in ("Y", "M", "W", "D", "h", "s", "ms", "us", "ns")),
    *(np.datetime64(5, "fs"), np.datetime64(2**62, "Y"), np.timedelta64(1, "D"), pd.Timedelta(1), pd.Period("2020")),
    *(pd.Interval(0, 1), sys.float_info.max, -5e-324),
]
LEVELS = Levels((0.47, "none", 1, "1", 7, "ann", 0.1))
CLEAN = [np.float32(0.47), 0.47, "none", 1, 1.0, True, "1", 7, "ann", 0.1, np.float16(0.1), np.str_("none"), None]


def codes(levels, series):
    coded, legal = admitted(levels, series)
    return np.where(legal, coded.codes, -1)


def column(values):
    series = pd.Series([None] * len(values), dtype=object)
    for row, value in enumerate(values):
        series.iat[row] = value
    return series


@pytest.mark.parametrize("number", range(len(ZOO)), ids=lambda k: f"{k}-{type(ZOO[k]).__name__}")
def test_no_cell_changes_how_the_other_rows_are_read(number):
    alone = [codes(LEVELS, column([cell]))[0] for cell in CLEAN]
    assert alone == [-1, 0, 1, 2, 2, 2, 3, 4, 5, 6, -1, 1, -1]
    for at in (0, 5, len(CLEAN)):
        mixed = column([*CLEAN[:at], ZOO[number], *CLEAN[at:]])
        assert np.delete(codes(LEVELS, mixed), at).tolist() == alone
        np.testing.assert_array_equal(np.delete(numbers(mixed), at), numbers(column(CLEAN)))
        origin = datetime.date(2020, 1, 1)
        np.testing.assert_array_equal(np.delete(days(mixed, origin), at), days(column(CLEAN), origin))


def test_each_cell_of_a_zoo_means_the_same_in_any_company():
    found, values = codes(LEVELS, column(ZOO)), numbers(column(ZOO))
    assert found.tolist() == [codes(LEVELS, column([cell]))[0] for cell in ZOO]
    np.testing.assert_array_equal(values, [numbers(column([cell]))[0] for cell in ZOO])


@pytest.mark.parametrize(
    ("levels", "written"), [([0, 1, 2], "012"), ([False, True], ["False", "True"]), ([0.5, 7], ["0.5", "7"])]
)
def test_one_text_in_a_file_does_not_decide_how_the_levels_of_other_rows_are_read(levels, written):
    files = ["g\n" + "\n".join([*written, *more]) for more in ([], ["?"])]
    read_as = [pd.read_csv(io.StringIO(file))["g"] for file in files]
    assert read_as[0].dtype != read_as[1].dtype
    for column_, more in zip(read_as, ([], [-1]), strict=True):
        assert codes(Levels(tuple(levels)), column_).tolist() == [*range(len(levels)), *more]
        values = numbers(column_)
        np.testing.assert_array_equal(values, [*map(float, levels), *([np.nan] if more else [])])
    # a declared text keeps its own level, although it can be read as the number 1
    assert codes(Levels(("1", 1)), column(["1", 1, "1.0"])).tolist() == [0, 1, 1]


@pytest.mark.parametrize("first", [0.47, "none"])
def test_one_row_does_not_decide_how_single_precision_is_read(first):
    columns = bind_columns("g", {"g": [0.47, "none"]})
    data = pd.DataFrame({"g": column([first] + [np.float32(0.47)] * 250)})
    present = [columns.block(rows).present for rows in (data, data.iloc[1:])]
    assert present[0][1:].tolist() == present[1].tolist() == [False] * 250


def test_no_code_of_a_cells_own_class_is_run():
    strange, person = column([Foreign(), 0.47, Foreign()]), Foreign()
    del Foreign.ran[:]
    assert codes(LEVELS, strange).tolist() == [-1, 0, -1]
    assert np.isnan(numbers(strange)[[0, 2]]).all()
    assert np.isnan(days(strange, datetime.date(2020, 1, 1))).all()
    assert unit_name(person) is None
    assert not Foreign.ran
    assert read(Spiteful("none")) == "none"


@pytest.mark.parametrize("hashed", [lambda kind: Foreign.ran.append("hash") or hash(str), None])
def test_no_code_of_the_type_of_a_cells_own_class_is_run(hashed):
    """The code of a metaclass could make a cell equal to a text, or fail.

    A failure would reveal something about one row.
    """
    kind = type("Kind", (type,), {"__eq__": lambda *_: Foreign.ran.append("eq") or True, "__hash__": hashed})
    strange = kind("Strange", (), {"__hash__": lambda _: Foreign.ran.append("cell") or hash("none")})()
    del Foreign.ran[:]
    for company in (["none"], ["none", 7]):
        assert codes(LEVELS, column([*company, strange])).tolist() == [*codes(LEVELS, column(company)), -1]
    assert np.isnan(numbers(column([strange]))).all()
    assert unit_name(strange) is None
    assert not Foreign.ran


@pytest.mark.parametrize("filter_", ["error", "always", "ignore"])
def test_nothing_warns_and_no_filter_of_the_process_changes_a_reading(filter_):
    with warnings.catch_warnings(record=filter_ != "error") as warned:
        warnings.simplefilter(filter_)
        readings = [repr(read(cell)) for cell in ZOO]
        odd = column(ZOO)
        readings += [repr(part) for part in (codes(LEVELS, odd), numbers(odd), days(odd, datetime.date(2020, 1, 1)))]
        dates = days(column(["13/12/2020", "12/13/2020", "now", "2020-13-12"]), datetime.date(2020, 1, 1))
    assert not warned
    assert np.isnan(dates).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert readings[: len(ZOO)] == [repr(read(cell)) for cell in ZOO]


def _equal(a, b):
    try:
        return bool(a == b) and hash(a) == hash(b)
    except Exception:
        return False


# numpy 2.0 treats a timedelta of one day as equal to 1, with the same hash
KNOWN = [cell for cell in ZOO if not isinstance(cell, Foreign | Spiteful | np.ma.core.MaskedConstant | np.timedelta64)]


def test_names_that_are_equal_are_one_unit():
    pairs = [(a, b) for a, b in itertools.combinations(KNOWN, 2) if _equal(a, b)]
    assert len(pairs) > 300
    for a, b in pairs:
        assert unit_name(a) == unit_name(b), (a, b)
    assert unit_name("ann") == unit_name(np.str_("ann")) == unit_name(Member.ANN) == unit_name(Text("ann")) == "ann"
    assert len({unit_name(name) for name in ("7", 7, b"7", np.int8(7), 7.0, Number.SEVEN)}) == 3


def test_what_has_no_name_of_its_own_names_nobody():
    for nobody in (None, np.nan, pd.NA, pd.NaT, np.ma.masked, [1], 2**53, 2**60, 10**400, np.inf, object(), Plain.ANN):
        assert unit_name(nobody) is None


def test_a_moment_is_the_same_in_every_type_and_time_zone():
    noon = [
        pd.Timestamp("2020-01-02T12:00"),
        pd.Timestamp("2020-01-02T13:00+01:00"),
        datetime.datetime(2020, 1, 2, 12),
        datetime.datetime(2020, 1, 2, 12, tzinfo=datetime.UTC),
        np.datetime64("2020-01-02T12"),
        np.datetime64("2020-01-02T12:00:00.000000000"),
    ]
    assert len({unit_name(moment) for moment in noon}) == 1
    assert (
        days(column([*noon, "2020-01-02 12:00", "2020-01-02T13:00+01:00"]), datetime.date(2020, 1, 1)).tolist()
        == [1.5] * 8
    )
    odd = pd.Series(pd.to_datetime(["2020-01-02 03:04:05.678901", "1900-07-07 23:59:59.999999"]))
    mixed = column([*odd, "seven"])
    for exact in (odd, odd.astype("M8[ms]"), odd.dt.tz_localize("UTC")):
        other = column([*exact, "seven"])
        np.testing.assert_array_equal(
            days(exact, datetime.date(2020, 1, 1)), days(other, datetime.date(2020, 1, 1))[:2]
        )
    assert np.isnan(days(mixed, datetime.date(2020, 1, 1))[2])


@pytest.mark.parametrize("kind", [*WHOLE[:-1], *REAL[:4], bool])
def test_a_typed_column_reads_like_the_same_cells_one_by_one(kind):
    values = np.array([0, 1, 7, 1, 0]).astype(kind)
    typed, single = pd.Series(values), column(list(values))
    assert codes(LEVELS, typed).tolist() == codes(LEVELS, single).tolist()
    assert numbers(typed).tolist() == numbers(single).tolist()
    if kind not in (np.float16, np.longdouble):  # pandas has no categorical columns of these types
        assert codes(LEVELS, typed.astype("category")).tolist() == codes(LEVELS, single).tolist()


def test_a_column_of_long_doubles_warns_of_nothing_either():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert numbers(pd.Series(np.array(["1e4000", "1"], dtype=np.longdouble))).tolist() == [np.inf, 1.0]


def test_cells_are_made_one_by_one_where_all_cannot_be():
    class Broken(pd.Series):
        ran = 0

        def to_numpy(self, *_, **__):
            Broken.ran += 1
            raise OverflowError

    assert cells(Broken([1.0, 2.0])) == [1.0, 2.0]
    assert Broken.ran == 1


TYPED = {
    "float": [1.0, np.nan, 0.47],
    "complex": [1j, 1 + 0j, 0.47],
    "M8[s]": ["2020-01-02", None, "1900-07-07 23:59:59"],
    "M8[ns]": ["2020-01-02", None, "1900-07-07 23:59:59.999999999"],
    "m8[ns]": [1, None, 2],
    "datetime64[ns, Europe/Berlin]": [pd.Timestamp("2020-01-02T03:04"), None],
    "period[M]": ["2020-01", None],
    "Int64": [1, None, 2**60],
    "Float64": [1.0, None, 0.47],
    "boolean": [True, None, False],
    "Sparse[float]": [0.0, 1.0, np.nan],
    "S3": [b"ann", b"1"],
    "interval[int64, right]": [pd.Interval(0, 1), pd.Interval(1, 2)],
}


@pytest.mark.parametrize("dtype", TYPED)
def test_all_cells_at_once_are_those_one_by_one(dtype):
    values = np.array(TYPED[dtype], dtype) if dtype == "S3" else pd.array(TYPED[dtype], dtype=dtype)
    for typed in (pd.Series(values), pd.Series(pd.Categorical(list(values)))):
        readings = [[read(cell) for cell in some] for some in (cells(typed), typed.array)]
        at_once, alone = ([None if value != value else value for value in some] for some in readings)
        assert at_once == alone


# Texts that look alike, are numbers in other scripts or cannot be stored, and cells that are not texts.
ALIKE = "| |\t|a| a|a |A|a\0|\0|a\0b|b|ann|\N{ZERO WIDTH SPACE}a|\ufeffa|\u00e9|e\u0301|\u00df|ss|\u0130|i\u0307|\ud800"
NUMERIC = "\u0660|\u0661|\uff11|1|1.0|01|1.| 1|1 |1_0|10|1e0|+1|-0|0.1|0.10|.1|1e400|nan|NaN|NA|<NA>|None|null|inf"
TEXTS = [*f"{ALIKE}|{NUMERIC}|True|TRUE|true|tRUE|False|FALSE|false|\udfff\ud800|\U0001d51e".split("|"), "a" * 100_000]
KINDS_OF_TEXT = [Text("a"), Text("1"), np.str_("b"), np.str_("1.0"), Member.ANN, Spiteful("a"), None, np.nan, pd.NA]
DECLARED = [
    ("a", "b"),
    ("", "a\0", "\u00e9", "e\u0301", "nan", "<NA>", "a" * 100_000),
    (0, 1, 10),
    (1, 0.1, "1.0", "a", "TRUE"),
    (False, True, "ann"),
    (1, "1", 0.1, "0.10", "\u0661"),
    (-0.0, 2**53, "tRUE"),
]
CARRIERS = ["object", "category", "string[python]", "str, python"]
ARROW = ["string[pyarrow]", "str, pyarrow", "string", "large_string", "string_view", "dictionary"]


def _carried(some, by):
    """Return the cells as a column of the kind `by`; Arrow columns hold only texts without surrogates, and null."""
    if by == "object":
        return column(some)
    if by == "category":
        return pd.Series(pd.Categorical(column([text for text in some if type(text) is not Spiteful])))
    if by in ARROW:
        pa = pytest.importorskip("pyarrow")
        texts = [text if type(text) is str and text == text.encode(errors="ignore").decode() else None for text in some]
        if by not in ("string[pyarrow]", "str, pyarrow"):
            arrow = pa.dictionary(pa.int32(), pa.string()) if by == "dictionary" else getattr(pa, by)()
            parts = [pa.array(texts[:7], arrow), pa.array(texts[7:], arrow)]
            return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array(parts, arrow)))
        some = texts
    if by == "str, pyarrow" and pd.__version__ < "3":
        by = "string[pyarrow_numpy]"
    if by.startswith("str, "):  # from pandas 3 on, these columns have NaN as missing value
        by = pd.StringDtype(by[5:], **({"na_value": np.nan} if pd.__version__ >= "3" else {}))
    return pd.Series(pd.array(some, dtype=by))


def _can_be_joined(text):
    return "\0" not in text and text == text.encode(errors="ignore").decode()


def _by_the_definition(levels, typed):
    """Return the code of each cell, the position of a level.

    The level equals the value read from the cell or, if no level does, this value as a number. Without such a level,
    the code is -1.
    """
    place = {read(value): code for code, value in enumerate(levels)}
    readings = [read(cell) for cell in typed.array]
    return [place.get(value, place.get(numbers(column([value]))[0], -1)) for value in readings]


@pytest.mark.parametrize("by", CARRIERS + ARROW)
def test_texts_looked_up_at_once_have_the_codes_that_they_have_cell_by_cell(by):
    rng = np.random.default_rng(1)
    for levels in DECLARED:
        for others in ([None], [*KINDS_OF_TEXT, None], []):
            some = [*TEXTS, *others, *map(str, rng.integers(0, 12, 20))]
            if not others:  # here all texts can be joined to one string, by which they are looked up at once
                some = [text for text in some if _can_be_joined(text)] + [Text("a"), np.str_("1.0"), Spiteful("a")]
            some = [some[k] for k in rng.permutation(len(some))]
            typed = _carried(some, by)
            expected = _by_the_definition(levels, typed)
            assert not others or max(expected) == len(levels) - 1
            assert codes(Levels(levels), typed).tolist() == expected
            assert codes(Levels(levels), typed.iloc[7:31]).tolist() == expected[7:31]
        assert codes(Levels(levels), typed.iloc[:0]).tolist() == []


@pytest.mark.parametrize("kind", ["string", "large_string"])
def test_bytes_that_are_no_text_are_one_missing_cell_of_an_arrow_array(kind):
    pa = pytest.importorskip("pyarrow")
    ends = np.array([0, 1, 3, 4], np.int32 if kind == "string" else np.int64)
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(b"a\xff\xfeb")]
    texts = pa.chunked_array([pa.Array.from_buffers(getattr(pa, kind)(), 3, buffers)])
    typed = pd.Series(pd.arrays.ArrowExtensionArray(texts))
    assert cells(typed)[::2] == ["a", "b"]
    assert codes(Levels(("a", "b")), typed).tolist() == [0, -1, 1]
