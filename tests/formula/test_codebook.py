"""Domains read from descriptions of data contain exactly the declarations of these descriptions."""

import datetime
import json
from decimal import Decimal
from enum import Enum
from typing import Annotated, Literal

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


def test_codes_of_missing_values_are_removed_from_levels():
    """Earlier, codes of missing values in a codebook were ignored: -99 became a level, or was moved to a bound."""
    level = field("region", "string", enum=["N", "S", "-9"])
    size = {"name": "size", "type": "integer", "categories": [1, 2, -9], "missingValues": [{"value": "2"}]}
    wage = field("wage", "number", minimum=0, maximum=9)
    domain = Domain.from_schema({"fields": [level, size, wage], "missingValues": ["", "NA", "NaN", "-9"][:3]})
    assert domain == Domain({"region": ["N", "S", "-9"], "size": [1, -9], "wage": (0, 9)})
    domain = Domain.from_schema({"fields": [level, size], "missingValues": ["-9"]})
    assert domain == Domain({"region": ["N", "S"], "size": [1, -9]})


def test_a_code_of_missing_dates_that_is_no_date_is_accepted():
    known = field("since", "date", minimum="2020-01-01", maximum="2020-12-31")
    domain = Domain.from_schema({"fields": [known], "missingValues": ["", "0000-00-00", "2020-13"]})
    assert domain["since"] == Domain({"since": ("2020-01-01", "2020-12-31")})["since"]


@pytest.mark.parametrize(
    ("known", "code", "recoded"),
    [
        (field("age", "integer", minimum=0, maximum=110), "-99", [1.0, None]),
        (field("age", "number", minimum=0, maximum=110), "77.5", [1.0, None]),
        (field("age", "date", minimum="2020-01-01", maximum="2020-12-31"), "1900-01-01", ["2020-02-01", None]),
        (field("age", "date", minimum="2020-01-01", maximum="2020-12-31"), "19000101", ["2020-02-01", None]),
        (field("age", "number", minimum=0, maximum=110), "false", ["1.0", None]),
    ],
)
def test_codes_of_missing_values_that_would_count_as_values_say_how_to_recode(known, code, recoded):
    """A code of missing values that lies within the bounds is refused, and the error says how to recode it.

    When the code -99 in 20% of the cells counted as a value, it changed a mean from about 50 to 39.9.
    """
    with pytest.raises(DomainError, match=f"^field 'age' of the schema: missing values are coded as {code}") as refused:
        Domain.from_schema({"fields": [known], "missingValues": ["", code]})
    first = recoded[0]
    names = {"data": pd.DataFrame({"age": [first, float(code) if isinstance(first, float) else code]})}
    exec(str(refused.value).split("write ")[1].split(", and")[0], names)
    assert names["data"]["age"].isna().tolist() == [False, True]
    with pytest.raises(DomainError, match="missingValues of the schema is no list"):
        Domain.from_schema({"fields": [known], "missingValues": code})


def test_a_domain_in_json_is_text_or_a_path(tmp_path, monkeypatch):
    """Domain.from_json accepts the text of a domain in JSON, and the path of a file with this text.

    Earlier, from_json("domain.json") raised an error about the form of JSON. The methods from_schema and from_codebook
    accept paths, too.
    """
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "domain.json"
    path.write_text(SAYS.to_json())
    for given in (SAYS.to_json(), path, "domain.json"):
        assert Domain.from_json(given) == SAYS
    with pytest.raises(DomainError, match=r"^'none\.json' cannot be read \(no such file"):
        Domain.from_json("none.json")


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
    with pytest.raises(DomainError, match="'wage' of the schema appears twice"):
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


def test_texts_as_levels_of_whole_numbers_are_refused(book):
    """Texts as levels of a column of whole numbers in a codebook are refused.

    Earlier, such texts were levels, and all rows of whole numbers counted as missing after the budget was spent.
    """
    book.write_text("column,type,min,max,levels\nage,,0,9,\nk,integer,,,1=yes|2=no\n")
    with pytest.raises(DomainError, match=r"line 3 \('k'\): its type is integer and its levels are texts \('1=yes'"):
        Domain.from_codebook(book)


@pytest.mark.parametrize("heading", ["name,wage", "age,min,max", ""])
def test_a_frame_of_data_is_no_codebook_and_none_of_it_is_shown(book, heading):
    book.write_text(f"{heading}\nMiller,4711,1\n")
    with pytest.raises(DomainError, match="column,type,min,max,levels") as refusal:
        Domain.from_codebook(book)
    assert "Miller" not in str(refusal.value) and "4711" not in str(refusal.value)


# ---------------------------------------------------------------- models of rows

FROM_MODEL = Domain(
    {
        "age": range(0, 111),
        "wage": (0, 99.5),
        "region": ["N", "S"],
        "grade": ["low", "high"],
        "since": ("2020-01-01", "2020-12-31"),
        "works": bool,
        "Size": range(1, 10),
        "share": (0, 1),
    },
    complete=["age", "grade", "works", "share"],
)


def test_a_pydantic_model_declares_a_domain():
    pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")
    field_of = pydantic.Field

    class Grade(Enum):
        LOW, HIGH = "low", "high"

    class Person(pydantic.BaseModel):
        age: Annotated[int, field_of(gt=-1)] = field_of(lt=111)
        wage: float | None = field_of(default=None, ge=0, le=Decimal("99.5"))
        region: Literal["N", "S", None]
        grade: Grade
        since: Annotated[datetime.date, field_of(ge=datetime.date(2020, 1, 1), le=datetime.date(2020, 12, 31))] | None
        works: bool
        size: pydantic.conint(ge=0, gt=0, lt=10) | None = field_of(alias="Size")
        share: float = field_of(gt=0, lt=1)
        remark: str
        above: int = field_of(ge=0)
        below: int = field_of(lt=9)
        either: int | str

    assert Domain.from_model(Person) == FROM_MODEL
    row = {"age": 1, "region": "N", "grade": "low", "since": None, "works": True, "Size": 1, "share": 0.5}
    secret = Person(**row, remark="Miller", above=4711, below=1, either=1)
    with pytest.raises(DomainError, match=r"the model is a Person; give a class made with pydantic") as refusal:
        Domain.from_model(secret)
    assert "Miller" not in str(refusal.value)


@pytest.mark.parametrize("constraint", [{"ge": 9, "le": 1}, {"ge": 0, "le": float("inf")}])
def test_a_field_of_a_model_that_cannot_be_read_is_named(constraint):
    pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")
    bad = pydantic.create_model("Bad", age=(int, 1), wage=(float, pydantic.Field(**constraint)))
    with pytest.raises(DomainError, match="field 'wage' of the model: "):
        Domain.from_model(bad)
    one = pydantic.create_model("One", wage=(Literal["a"], ...))
    with pytest.raises(DomainError, match="field 'wage' of the model: levels are at least two"):
        Domain.from_model(one)


def test_a_pandera_schema_declares_a_domain():
    pandera = pytest.importorskip("pandera.pandas", reason="pandera is not installed")
    check, first, last = pandera.Check, pd.Timestamp("2020-01-01"), pd.Timestamp("2020-12-31")

    class Person(pandera.DataFrameModel):
        age: int = pandera.Field(in_range={"min_value": -1, "max_value": 110, "include_min": False})
        wage: float = pandera.Field(ge=0, le=99.5, nullable=True)
        region: str = pandera.Field(isin={"S", "N"}, nullable=True)
        grade: str = pandera.Field(isin=["low", "high"])
        since: pd.Timestamp = pandera.Field(ge=first, le=last, nullable=True)
        works: bool
        size: pd.Int64Dtype = pandera.Field(gt=0, lt=10, nullable=True, alias="Size")
        share: float = pandera.Field(gt=0, lt=1)
        above: int = pandera.Field(ge=0)
        code: str = pandera.Field(str_length={"min_value": 1, "max_value": 3})
        remark: str
        pattern: float = pandera.Field(ge=0, le=1, regex=True, alias="x.*")

    assert Domain.from_model(Person) == Domain.from_model(Person.to_schema()) == FROM_MODEL
    ordered = pandera.Column(pandera.Category(["low", "high"], ordered=True), check.eq("low"))
    read = Domain.from_model(pandera.DataFrameSchema({"grade": ordered}))
    assert read == Domain({"grade": Levels(["low", "high"], ordered=True)}, complete=True)


@pytest.mark.parametrize("bad", [None, 1, "Person", dict, {"age": int}, pd.DataFrame({"age": [4711]})], ids=type)
def test_what_is_no_model_is_refused_with_one(bad):
    with pytest.raises(
        DomainError, match=r"the model is .*; give a class made with pydantic, as class Person"
    ) as refusal:
        Domain.from_model(bad)
    assert "4711" not in str(refusal.value)


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path):
    (tmp_path / "latin.csv").write_bytes("column,min,max\né,0,1\n".encode("latin-1"))
    for read in (Domain.from_codebook, Domain.from_schema):
        for name, why in (("none.csv", "no such file or directory"), ("", "is a directory"), ("latin.csv", "UTF-8")):
            with pytest.raises(
                DomainError, match=f"cannot be read \\(.*{why}.*\\); give the path of a CSV or JSON file"
            ):
                read(tmp_path / name)
