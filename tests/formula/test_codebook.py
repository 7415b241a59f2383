"""Domains are read from descriptions of data that people have: nothing is declared that those do not say."""

import json

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
