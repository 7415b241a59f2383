"""Domains are read from descriptions of data that people have: nothing is declared that those do not say."""

import json

import pandas as pd
import pytest

from privstats.errors import DomainError
from privstats.formula.declarations import Levels
from privstats.formula.domain import Domain


def field(name, kind, **constraints):
    return {"name": name, "type": kind, "constraints": constraints}


SCHEMA = {
    "fields": [
        field("age", "integer", minimum=0, maximum=110, required=True),
        field("wage", "number", minimum="0", maximum=99.5),
        field("region", "string", enum=["N", "S"], required=False),
        field("since", "date", minimum="2020-01-01", maximum="2020-12-31"),
        {"name": "works", "type": "boolean"},
        {"name": "size", "type": "integer", "categories": [{"value": 1, "label": "small"}, {"value": 2}]},
        {"name": "grade", "categories": ["low", "high"], "categoriesOrdered": True},
        {"name": "remark", "type": "string"},
        field("id", "string", required=True),
    ]
}
SAYS = Domain(
    {
        "age": range(0, 111),
        "wage": (0, 99.5),
        "region": ["N", "S"],
        "since": ("2020-01-01", "2020-12-31"),
        "works": bool,
        "size": [1, 2],
        "grade": Levels(["low", "high"], ordered=True),
    },
    complete=["age"],
)


def test_a_table_schema_declares_a_domain_as_dict_text_and_file(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    for schema in (SCHEMA, json.dumps(SCHEMA), path, str(path)):
        assert Domain.from_schema(schema) == SAYS


@pytest.mark.parametrize("given", ["minimum", "maximum"])
def test_one_bound_declares_nothing(given):
    assert not Domain.from_schema({"fields": [field("wage", "number", required=True, **{given: 0})]})


@pytest.mark.parametrize(
    "bad",
    [
        field("wage", "number", minimum=9, maximum=1),
        field("wage", "number", minimum="a", maximum="b"),
        field("wage", "number", minimum=0, maximum="inf"),
        field("wage", "integer", minimum=0, maximum=True),
        field("wage", "string", enum=["a"]),
        field("wage", "string", enum=[["a"], ["b"]]),
        field("wage", "date", minimum="2020-01-01", maximum="2020-13-01"),
    ],
    ids=str,
)
def test_a_field_that_cannot_be_read_is_named(bad):
    with pytest.raises(DomainError, match="field 'wage' of the schema"):
        Domain.from_schema({"fields": [field("age", "integer", minimum=0, maximum=1), bad]})


def test_a_field_that_stands_twice_is_refused():
    with pytest.raises(DomainError, match="'wage' of the schema stands twice"):
        Domain.from_schema({"fields": [field("wage", "number", minimum=0, maximum=9)] * 2})


@pytest.mark.parametrize("bad", [{}, "{", "{}", [], {"fields": {}}, {"fields": [{"type": "number"}]}, {"fields": [1]}])
def test_what_is_no_table_schema_is_refused_with_one(bad):
    with pytest.raises(DomainError, match="a Table Schema reads"):
        Domain.from_schema(bad)


# ---------------------------------------------------------------- codebooks

BOOK = """column,type,min,max,levels,required
age,integer,0,110,,yes
wage,number,0,99.5,,
region,string,,,N;S,
code,string,,,1|2,
size,,,,1|2,
label,,,,a;b|c,
grade,ordered,,,low|high,
works,Boolean,,,,
since,date,2020-01-01,2020-12-31,,true
"""
READS = Domain(
    {
        "age": range(0, 111),
        "wage": (0, 99.5),
        "region": ["N", "S"],
        "code": ["1", "2"],
        "size": [1, 2],
        "label": ["a;b", "c"],
        "grade": Levels(["low", "high"], ordered=True),
        "works": bool,
        "since": ("2020-01-01", "2020-12-31"),
    },
    complete=["age", "since"],
)


@pytest.fixture
def book(tmp_path):
    return tmp_path / "codebook.csv"


def test_a_data_dictionary_declares_a_domain_as_file_and_as_frame(book):
    book.write_text(BOOK)
    assert Domain.from_codebook(book) == Domain.from_codebook(pd.read_csv(book)) == READS


@pytest.mark.parametrize("line", ["region,string,,,", "region,number,0,,", "region,number,,9,"])
def test_a_line_without_bounds_or_levels_is_named_with_the_cure(book, line):
    book.write_text(f"column,type,min,max,levels\nage,,0,9,\n{line}\n")
    says = r"codebook.csv declares no bounds or levels for 'region' \(line 3\); write its min and max, or its levels as"
    with pytest.raises(DomainError, match=says):
        Domain.from_codebook(book)
    with pytest.raises(DomainError, match=r"the codebook declares no bounds or levels for 'region' \(line 3\)"):
        Domain.from_codebook(pd.read_csv(book))


@pytest.mark.parametrize("line", [",,0,1,", "age,,0,1,", "b,,9,1,", "b,,,,a", "b,,0,x,", "b,,0,inf,"])
def test_a_line_that_cannot_be_read_is_named(book, line):
    book.write_text(f"column,type,min,max,levels\nage,,0,9,\n{line}\n")
    with pytest.raises(DomainError, match=r"codebook\.csv.* line 3"):
        Domain.from_codebook(book)


@pytest.mark.parametrize("heading", ["name,wage", "age,min,max", ""])
def test_a_frame_of_data_is_no_codebook_and_none_of_it_is_shown(book, heading):
    book.write_text(f"{heading}\nMiller,4711,1\n")
    with pytest.raises(DomainError, match="column,type,min,max,levels") as refusal:
        Domain.from_codebook(book)
    assert "Miller" not in str(refusal.value) and "4711" not in str(refusal.value)
