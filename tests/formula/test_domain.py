"""The domain clamps each row by itself; the meaning of a value does not depend on other rows."""

import datetime
import decimal
import enum

import numpy as np
import pandas as pd
import pytest

from privstats.errors import DomainError, OptionError
from privstats.formula.cells import cells, numbers
from privstats.formula.declarations import Dates, DeclaredGrid, Levels
from privstats.formula.domain import Domain, as_domain
from privstats.formula.expression import bounds_of, parse
from privstats.formula.interval import Interval
from privstats.formula.scale import Scale
from privstats.formula.values import Coded, admit, admitted, values_of
from privstats.mechanisms.random import public_stream

ODD = [
    None, np.nan, pd.NA, pd.NaT, "text", "1.5", [1], {"a": 1}, (1, 2), 1j, np.inf, -np.inf, 10**400, True,
    np.float32(2), decimal.Decimal("0.5"), datetime.date(2020, 1, 1), pd.Timestamp("2020-01-01"), b"1", object(),
    1, 1.0, "1", np.str_("N"), np.complex128(1j), np.datetime64("2020-01-01"), np.timedelta64(1, "s"), "\ud800",
]  # fmt: skip


def read(domain, frame):
    """Return each column's values or codes, and the mask of the rows whose cells are legal in all columns."""
    rows, present = admit(frame, list(domain), domain, ())
    plain = {name: value.codes if isinstance(value, Coded) else value for name, value in rows.items()}
    return pd.DataFrame(plain), present


def codes(levels, column):
    coded, legal = admitted(levels, pd.Series(column))
    return np.where(legal, coded.codes, -1).tolist()


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__ + str(odd)[:12])
def test_one_odd_value_changes_no_other_row(odd):
    domain = Domain({"x": (-1, 5), "g": ["N", 1, 2.5]})
    clean = pd.DataFrame({"x": [1, 2, 3], "g": ["N", 1, 2.5]})
    odd_one = pd.DataFrame({"x": pd.Series([1, 2, odd], dtype=object), "g": pd.Series(["N", 1, odd], dtype=object)})
    (rows, present), (other, there) = read(domain, clean), read(domain, odd_one)
    pd.testing.assert_frame_equal(rows.iloc[:2], other.iloc[:2])
    assert list(present[:2]) == list(there[:2]) == [True, True]
    assert -1 <= other["x"].iloc[2] <= 5


@pytest.mark.parametrize("dtype", ["int64", "float64", "Int64", "Float64", "object", "category", "string"])
def test_a_number_reads_the_same_in_every_dtype(dtype):
    column = pd.Series([1, 2, 3]).astype(dtype)
    assert numbers(column).tolist() == [1.0, 2.0, 3.0]


def test_levels_are_compared_as_values_whatever_the_dtype():
    levels = Levels((1, 2, 3))
    for column in ([1, 3, 9], [1.0, 3.0, np.nan], pd.Categorical([1, 3, 9]), np.array([1, 3, "x"], dtype=object)):
        assert codes(levels, column) == [0, 2, -1]
    assert codes(Levels((False, True)), [True, False, True]) == [1, 0, 1]
    assert codes(levels, pd.Series([1, [], 3], dtype=object)) == [0, -1, 2]


def test_one_missing_or_complex_value_changes_the_dtype_and_nothing_else():
    domain = Domain({"x": (-9, 9), "k": [1, 2, 2**53]})
    plain = pd.DataFrame({"x": [1.0, 2.0, 3.0], "k": [1, 2**53, 2]})
    for changed in (plain.assign(x=[1, 2, 1j]), plain.assign(k=[1, 2**53, None]), plain.assign(x=[1, 2, None])):
        (rows, present), (other, there) = read(domain, plain), read(domain, changed)
        pd.testing.assert_frame_equal(rows.iloc[:2], other.iloc[:2])
        assert present[:2].tolist() == there[:2].tolist() == [True, True]
    categories = pd.Categorical([1, 2**53, None], categories=[1, 2, 2**53])
    assert codes(Levels((1, 2, 2**53)), categories) == [0, 2, -1]


def test_a_cell_that_cannot_be_made_is_lost_alone():
    class Broken(pd.Series):
        def __iter__(self):
            raise OverflowError

    column = Broken([1.0, 2.0])
    assert cells(column) == [1.0, 2.0]


def test_rows_are_clamped_and_missing_ones_marked():
    rows, present = read(Domain({"x": (0, 10)}), pd.DataFrame({"x": [-5, 5, np.inf, np.nan]}))
    assert rows["x"].tolist() == [0, 5, 10, 5]
    assert present.tolist() == [True, True, True, False]


def test_synthetic_rows_show_every_level_and_stay_inside():
    domain = Domain({"x": (2, 3), "g": list("abcde")})
    rows = domain.draw(["x", "g"], 64, public_stream(0))
    assert set(rows["g"]) == set("abcde")
    assert rows["x"].between(2, 3).all()


@pytest.mark.parametrize(
    "bad",
    [
        {"x": (1, 0)}, {"x": (0, 0)}, {"x": (0, np.inf)}, {"x": (np.nan, 1)}, {"x": (0,)}, {"x": (0, 1, 2)},
        {"x": ("0", "1")}, {"x": (False, True)}, {"x": 3}, {"x": "N"}, {"x": ["N"]}, {"x": ["N", "N"]},
        {"x": [0, 2**53 + 1]}, {"x": [pd.Timestamp("2020-01-01"), pd.Timestamp("2021-01-01")]}, {"x": [(1,), (2,)]},
        {"x": ["N", None]}, {"x": ["N", np.nan]}, {"x": [["N"], "S"]}, {"x": None}, {"x": {"N", "S"}},
    ],
)  # fmt: skip
def test_a_malformed_declaration_names_its_column(bad):
    with pytest.raises(DomainError, match="'x'"):
        Domain(bad)


@pytest.mark.parametrize("bad", [[("x", (0, 1))], "x", 3, {1: (0, 1)}])
def test_what_is_no_domain_is_refused(bad):
    with pytest.raises(DomainError):
        as_domain(bad)


def test_json_goes_there_and_back():
    domain = Domain({"x": (0, 1.5), "g": ["N", 1, 2.5], "np.log(y)": (-1, 2)}, complete=["x"])
    assert Domain.from_json(domain.to_json()) == domain
    for text in ("", "[]", '{"columns": {"x": [0, 1]}}', '{"columns": {"x": {}}}'):
        with pytest.raises(DomainError):
            Domain.from_json(text)


def test_dates_are_days_since_an_origin_however_they_are_written():
    domain = Domain({"day": ("2020-01-01", "2020-12-31")})
    written = ["2020-01-02", datetime.date(2020, 1, 2), pd.Timestamp("2020-01-02"), np.datetime64("2020-01-02"),
               pd.Timestamp("2020-01-02", tz="UTC"), "1999-01-01", "2031-01-01", "no date", 3, None]  # fmt: skip
    rows, present = read(domain, pd.DataFrame({"day": pd.Series(written, dtype=object)}))
    assert rows["day"][present].tolist() == [1, 1, 1, 1, 1, 0, 365]
    assert present.tolist() == [True] * 7 + [False] * 3
    fast, _ = read(domain, pd.DataFrame({"day": pd.to_datetime(["2020-01-02", "2020-02-01"])}))
    assert fast["day"].tolist() == [1, 31]
    assert Dates("2020-01-01", "2020-01-31", origin="2019-12-31").meaning == Interval(1, 31)
    old = Domain({"day": Dates("1700-01-01", "2020-12-31")})  # a range of more nanoseconds than a 64-bit integer holds
    moments = pd.Series([pd.Timestamp("2020-01-01 12:00"), pd.Timestamp("1975-01-01"), None]).astype("datetime64[ns]")
    (fast, there), (slow, here) = (read(old, {"day": part}) for part in (moments, moments.astype(object)))
    pd.testing.assert_frame_equal(fast, slow)
    assert there.tolist() == here.tolist() == [True, True, False]
    assert fast["day"][0] == 116877.5
    for wrong in (("2020-01-01", "2019-01-01"), ("yesterday", "today"), ("2020-13-01", "2021-01-01")):
        with pytest.raises(DomainError, match="'day'"):
            Domain({"day": wrong})


def test_booleans_ranges_and_ordered_levels_are_declared_in_a_word():
    domain = Domain({"works": bool, "children": range(0, 13), "health": Levels(["poor", "fair", "good"], ordered=True)})
    assert domain["works"] == Levels((False, True))
    assert domain.known("children") == Interval(0, 12)
    assert domain["children"] == DeclaredGrid(0, 12, 1)
    assert str(domain["health"]) == "levels 'poor' < 'fair' < 'good'"
    assert Domain.from_json(domain.to_json()) == domain


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("health >= 'fair'", [0, 1, 1, 0]),
        ("health == 'poor'", [1, 0, 0, 1]),
        ("health != 'poor' and children < 3", [0, 1, 0, 0]),
        ("health in ['poor', 'good'] or not children > 1", [1, 1, 1, 1]),
        ("health not in ('poor',)", [0, 1, 1, 0]),
    ],
)
def test_levels_can_be_compared(code, says):
    domain = Domain({"children": range(0, 13), "health": Levels(["poor", "fair", "good"], ordered=True)})
    data = pd.DataFrame({"children": [0, 1, 5, 7], "health": ["poor", "fair", "good", "poor"]})
    of, _ = admit(data, ["children", "health"], domain, ())
    assert values_of(parse(code), of).tolist() == says
    assert bounds_of(parse(code), {name: domain.known(name) for name in of}) == Interval(0, 1)


def test_a_codebook_declares_a_domain_and_a_bad_line_is_named(tmp_path):
    book = tmp_path / "codebook.csv"
    header = "name,low,high,levels,kind,complete\n"
    lines = (
        "age,0,110,,,yes",
        "region,,,N|S,,",
        "k,,,1|2,ordered,",
        "works,,,,boolean,",
        "day,2020-01-01,2020-12-31,,,",
    )
    book.write_text(header + "\n".join(lines))
    expected = {
        "age": (0, 110),
        "region": ["N", "S"],
        "k": Levels([1, 2], ordered=True),
        "works": bool,
        "day": ("2020-01-01", "2020-12-31"),
    }
    assert Domain.from_codebook(book) == Domain(expected, complete=["age"])
    for line in ("age,9,1,,,", "age,,,,,", "age,0,inf,,,", "age,,,N,,", ",0,1,,,", "age,0,x,,,"):
        book.write_text(header + "ok,0,1,,,\n" + line + "\n")
        with pytest.raises(DomainError, match="line 3"):
            Domain.from_codebook(book)


def test_categories_and_enumerations_are_levels():
    class Size(enum.Enum):
        SMALL = "s"
        LARGE = "l"

    class Grade(enum.IntEnum):
        LOW = 1
        HIGH = 2

    types = {"ordered": pd.CategoricalDtype(["b", "a"], ordered=True), "plain": pd.CategoricalDtype([2, 1])}
    expected = {"ordered": Levels(["b", "a"], ordered=True), "plain": [2, 1], "size": ["s", "l"], "grade": [1, 2]}
    domain = Domain({**types, "size": Size, "grade": Grade})
    assert domain == Domain(expected)
    assert Domain.from_json(domain.to_json()) == domain
    assert codes(domain["grade"], [2, 1.0, 3]) == [1, 0, -1]


@pytest.mark.parametrize("known", [pd.CategoricalDtype(), pd.CategoricalDtype(["a"]), enum.Enum("Empty", {}), int])
def test_types_without_two_levels_are_refused_with_the_name_of_the_column(known):
    with pytest.raises(DomainError, match=r"domain\['size'\].*levels"):
        Domain({"size": known})


def test_the_domain_prints_as_a_table_and_cannot_be_changed():
    domain = Domain({"age": (0, 100), "region": ["N", "S"]}, complete="age")
    assert repr(domain).splitlines()[1:] == ["  age     0 to 100         complete", "  region  levels 'N', 'S'"]
    with pytest.raises(TypeError):
        domain["age"] = (0, 1)


def test_a_range_declares_a_grid_where_zero_is_on_it():
    domain = Domain({"k": range(10, 101, 5), "odd": range(1, 10, 2), "x": (0, 100)})
    assert [domain[name].steps for name in domain] == [5.0, None, None]
    assert Domain.from_json(domain.to_json()) == domain
    assert admitted(domain["k"], pd.Series([12.3, 400]))[0].tolist() == [12.3, 100]


def test_a_column_is_complete_where_it_is_declared_and_said_to_be():
    domain = Domain({"x": (0, 1)}, complete=["x", "z"])
    assert [domain.is_complete(name) for name in "xyz"] == [True, False, False]


def test_what_is_missing_in_a_complete_column_makes_no_row_absent():
    frame = pd.DataFrame({"x": [np.nan, 0.25], "g": ["zz", "b"]})
    domain = Domain({"x": (0, 1), "g": ["a", "b"]})
    rows, present = admit(frame, ["x", "g"], domain, {"x", "g"})
    assert (rows["x"].tolist(), rows["g"].codes.tolist(), present.tolist()) == ([0.5, 0.25], [0, 1], [True, True])
    assert admit(frame, ["x", "g"], domain, {"x"})[1].tolist() == [False, True]
    # the column `u` is not declared
    assert admit(frame.rename(columns={"x": "u"}), ["u"], domain, {"u"})[1].tolist() == [False, True]


def test_a_scale_survives_json_and_draws_what_is_usual():
    domain = Domain({"x": Scale(170, 10)})
    assert Domain.from_json(domain.to_json()) == domain
    assert domain.draw(["x"], 500, public_stream(1))["x"].between(150, 190).all()


@pytest.mark.parametrize("arguments", [(0, 0), (0, -1), (np.nan, 1), ("0", 1), (1e300, 1)])
def test_a_scale_must_be_positive(arguments):
    with pytest.raises(DomainError, match="Scale"):
        Scale(*arguments)


# ---------------------------------------------------------------- made-up rows

DECLARED = Domain(
    {
        "age": range(18, 66),
        "wage": (0, 100),
        "half": range(0, 10, 3),
        "region": ["N", "S"],
        "size": Levels([1, 2, 3], ordered=True),
        "smokes": bool,
        "since": ("2020-01-01", "2020-01-31"),
        "height": Scale(170, 10),
        "hours-per-week": (0, 99),
        "np.log(price)": (8, 14),
    },
    complete=["age"],
)


def test_made_up_rows_have_the_declared_columns_types_and_values():
    rows = DECLARED.synthetic(3000, seed=4)
    assert list(rows) == [*list(DECLARED)[:-1], "price"]
    kinds = {name: column.dtype.kind for name, column in rows.items()}
    assert kinds["age"] == kinds["half"] == kinds["size"] == "i" and kinds["smokes"] == "b" and kinds["since"] == "M"
    assert set(rows["age"]) == set(range(18, 66)) and set(rows["half"]) == {0, 3, 6, 9}
    assert set(rows["region"]) == {"N", "S"} and set(rows["since"].dt.day) == set(range(1, 31))
    assert rows["wage"].between(0, 100).all() and (rows["price"] > 0).all()
    assert abs(rows["height"].mean() - 170) < 1 and abs(rows["height"].std() - 10) < 0.5
    assert not rows.isna().any(axis=None)
    _, legal = read(DECLARED, rows.assign(**{"np.log(price)": 9.0}))
    assert legal.all()


def test_made_up_rows_follow_from_the_seed_and_the_declarations_alone():
    pd.testing.assert_frame_equal(DECLARED.synthetic(50, seed=4), DECLARED.synthetic(50, seed=4))
    assert not DECLARED.synthetic(50, seed=4).equals(DECLARED.synthetic(50, seed=5))
    assert DECLARED.synthetic(0, seed=4).shape == (0, 10)


@pytest.mark.parametrize("wrong", [{"n": -1}, {"n": 2.0}, {"n": True}, {"n": 5, "seed": None}, {"n": 5, "seed": "1"}])
def test_made_up_rows_take_whole_numbers(wrong):
    with pytest.raises(OptionError, match="give a whole number from 0 on"):
        DECLARED.synthetic(**wrong)


@pytest.mark.parametrize("given", [np.array(["a", "b"]), pd.Index(["a", "b"]), pd.Series(["a", "b"]).array])
def test_values_of_the_data_are_no_declaration(given):
    with pytest.raises(DomainError, match="from public knowledge, as those in the data are private"):
        Domain({"r": given})
