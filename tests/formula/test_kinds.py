"""A domain is checked against the names and types of columns, never against cells; it prints in 80 columns."""

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.errors import DomainError
from privstats.formula.declarations import Levels
from privstats.formula.domain import Domain
from privstats.formula.kinds import misfits
from privstats.formula.scale import Scale
from privstats.formula.values import admitted

CELLS = {
    "number": pd.Series([1, 2]),
    "float": pd.Series([1.0, 0.0]),
    "truth": pd.Series([True, False]),
    "dates": pd.to_datetime(pd.Series(["2020-01-02", "2020-01-05"])),
    "words": pd.Series(["N", "S"]),
    "nullable": pd.Series([1, 2], dtype="Int64"),
}
DECLARATIONS = {
    "bounds": (0, 2),
    "dates": ("2020-01-01", "2020-02-01"),
    "words": ["N", "S"],
    "digits": ["1", "2"],
    "codes": [0, 1, 2],
    "truth": bool,
    "mixed": ["N", 1],
    "scale": Scale(1, 1),
}


@pytest.mark.parametrize("cells", CELLS)
@pytest.mark.parametrize("known", DECLARATIONS)
def test_a_kind_of_column_is_said_not_to_fit_where_no_cell_of_it_would_be_admitted(known, cells):
    domain = Domain({"x": DECLARATIONS[known]})
    said = domain.check(pd.DataFrame({"x": CELLS[cells]}))
    _, legal = admitted(domain["x"], CELLS[cells])
    if cells == "words" and known not in ("bounds", "scale"):
        assert said == []  # texts may be levels, dates or numbers written as text
    else:
        assert bool(said) == (not legal.any())
    assert all(words.startswith("column 'x' has ") and "; " in words for words in said)


def test_texts_that_say_what_to_write():
    domain = Domain({"age": (0, 100), "fair": ["yes", "no"], "visits": (0, 9), "np.log(wage)": (0, 8), "id_": (0, 1)})
    types = {"age": "object", "fair": "int64", "visit": "int64", "region": "str", "born": "datetime64[ns]", 7: "int64"}
    assert domain.check(types) == [
        "column 'age' has text, and is declared as 0 to 100; write domain={'age': ['first', 'second']}, "
        "or for numbers data['age'] = pd.to_numeric(data['age'], errors='coerce')",
        "column 'fair' has numbers, and is declared as levels 'yes', 'no'; write domain={'fair': (low, "
        "high)}, or its levels as numbers: [1, 2]",
        "there is no column 'visits'; did you mean 'visit'?",
        "there is no column 'wage', which 'np.log(wage)' reads; rename or delete the declaration",
        "there is no column 'id_'; rename or delete the declaration",
        "column 'region' is not numeric and is not declared; write domain={'region': ['first', 'second']} with all "
        "levels that can occur, or for dates domain={'region': ('2020-01-01', '2024-12-31')}",
        "column 'born' has dates and is not declared; write domain={'born': ('2020-01-01', '2024-12-31')} from public "
        "knowledge",
        "column '7' has no declared bounds; write domain={'7': (low, high)} from public knowledge",
    ]
    assert Domain({"np.log(wage)": (0, 8)}).check({"wage": float}) == []


def test_no_cell_is_looked_at():
    class Closed(pd.DataFrame):
        def __getitem__(self, key):
            raise AssertionError("a cell was looked at")

    frame = Closed({"a": ["secret"], "b": pd.Categorical(["secret"]), "c": [4711]})
    said = Domain({"a": (0, 1), "b": (0, 1), "c": ["x", "y"]}).check(frame)
    assert len(said) == 2 and "secret" not in str(said) and "4711" not in str(said)
    assert said == Domain({"a": (0, 1), "b": (0, 1), "c": ["x", "y"]}).check(frame.dtypes)
    assert said == Domain({"a": (0, 1), "b": (0, 1), "c": ["x", "y"]}).check(dict(frame.dtypes))


@pytest.mark.parametrize("bad", [None, ["age"], "age", np.eye(2)])
def test_what_is_no_schema_is_refused(bad):
    with pytest.raises(DomainError, match=r"the schema is .*; give a DataFrame, or its types as data.dtypes"):
        Domain({"age": (0, 1)}).check(bad)


# ---------------------------------------------------------------- print

LONG = [f"district number {k}" for k in range(49)]


def test_the_print_of_a_domain_is_the_golden_one():
    domain = Domain({"mdvis": (0, 100), "since": ("2020-01-01", "2024-12-31"), "hlthf": [0, 1]}, complete=["hlthf"])
    assert repr(domain).splitlines() == [
        "Domain of 3 columns",
        "  mdvis  0 to 100",
        "  since  2020-01-01 to 2024-12-31",
        "  hlthf  levels 0, 1               complete",
    ]


@pytest.mark.parametrize(
    "name", ["x", "a_name_of_thirty_five_characters___", "n" * 70, "np.log(a_long_name + another)"]
)
@pytest.mark.parametrize("complete", [True, False])
def test_a_printed_domain_fits_80_columns(name, complete):
    number, ordered = 1.2345678901234567e99, Levels(LONG, ordered=True)
    columns = {name: LONG, "y": (-number, number), "z": ordered, "g": ["a" * 90, "b"]}
    lines = repr(Domain(columns, complete=complete)).splitlines()
    short = repr(Domain({"x": [f"{k:02}" for k in range(40)]}, complete=complete))
    assert max(map(len, [*lines, *short.splitlines()])) <= 80
    long = repr(Domain({"a_long_name_" * 12: (0, 1)})).splitlines()
    assert max(map(len, long)) <= 80 and "".join(map(str.strip, long[1:])) == "a_long_name_" * 12 + "0 to 1"
    assert any(line.strip() == name or line.startswith(f"  {name}  ") for line in lines)
    if complete:
        assert sum(line.endswith("  complete") for line in lines) == 4


def test_a_long_list_of_levels_says_how_many_more_there_are():
    (_, line) = repr(Domain({"region": LONG})).splitlines()
    assert line == "  region  levels 'district number 0', 'district number 1' and 47 more"
    ordered = repr(Domain({"region": Levels(LONG, ordered=True)}))
    assert ordered.endswith("levels 'district number 0' < 'district number 1' and 47 more")
    assert repr(Domain({"g": ["a" * 90, "b"]})).endswith("\n  g  2 levels")
    assert Domain({"region": LONG})["region"].values[-1] in str(Domain({"region": LONG})["region"])


def test_misfits_of_nothing_are_none():
    assert misfits({}, {}, {}) == []


def test_frames_of_polars_and_tables_of_pyarrow_are_checked_by_their_schemas():
    rows = pd.DataFrame({name: column for name, column in CELLS.items() if name != "nullable"})
    domain = Domain(
        {"number": (0, 2), "float": ["a", "b"], "truth": bool, "dates": ("2020-01-01", "2020-02-01"), "words": (0, 1)}
    )
    told = domain.check(rows)
    assert len(told) == 2
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    table = pa.Table.from_pandas(rows)
    for schema in (table, table.schema, pl.from_arrow(table), pl.from_arrow(table).schema):
        assert domain.check(schema) == told


@pytest.mark.parametrize(
    ("column", "known", "says"),
    [
        ("dates", (0, 9), "has dates, and is declared as 0 to 9; write"),
        (
            "float",
            ["a", "b"],
            "has numbers, and is declared as levels 'a', 'b'; write domain={'float': (low, high)}, or",
        ),
        (
            "truth",
            ["yes", "no"],
            "has truth values, and is declared as levels 'yes', 'no'; write domain={'truth': bool}",
        ),
        ("spans", (0, 9), "has values of a type that no declaration suits, and is declared as 0 to 9; turn them"),
    ],
)
def test_a_column_that_can_have_no_legal_cell_is_told_by_the_check_and_never_refused(column, known, says):
    rows = pd.DataFrame({**CELLS, "spans": pd.to_timedelta([1, 2], unit="D")})
    told = [one for one in Domain({column: known}).check(rows) if f"column '{column}'" in one]
    assert len(told) == 1 and told[0].startswith(f"column '{column}' {says}")
    assert (
        ps.dp_hist(column, rows, 1, domain={column: known}, rng=1, **({"bins": 3} if known == (0, 9) else {})).nobs == 2
    )
