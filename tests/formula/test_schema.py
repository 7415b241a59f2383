"""Checks of a data frame before any rows are read: the type of the frame, and the names of its columns."""

import numpy as np
import pandas as pd
import pytest

from privstats.errors import DomainError, FormulaError, PrivstatsWarning
from privstats.formula.domain import Domain
from privstats.formula.schema import check_declared, check_schema, check_strays, names_read

DATA = pd.DataFrame({"median_income": [1.0], "median_house_value": [2.0], "text": ["secret"], "flag": [True]})


class Polars:
    def to_pandas(self):
        return DATA


Polars.__module__ = "polars.dataframe.frame"
Polars.__name__ = "DataFrame"


@pytest.mark.parametrize(
    ("data", "names", "says"),
    [
        (DATA, ["median_incom"], "^the data have no column 'median_incom'; did you mean 'median_income'[?]$"),
        (DATA, ["nothing"], "the data have no column 'nothing'; check the formula"),
        (
            DATA.set_index("text"),
            ["text"],
            r"'text' is the index of the data, not a column; write data.reset_index\(\)",
        ),
        (pd.concat([DATA, DATA], axis=1), ["text"], "the data have more than one column 'text'; rename"),
        (Polars(), [], r"^data is a polars.DataFrame; write data.to_pandas\(\)$"),
        (np.eye(2), [], "data is a numpy.ndarray; write pd.DataFrame"),
        ({"x": [1]}, [], "data is a dict; write pd.DataFrame"),
        (None, [], "data is a NoneType"),
    ],
)
def test_a_frame_that_cannot_be_read_is_refused_by_its_names(data, names, says):
    with pytest.raises(FormulaError, match=says) as caught:
        check_schema(data, names)
    assert "secret" not in str(caught.value)


def test_a_frame_with_the_columns_passes_whatever_else_it_has():
    check_schema(DATA.assign(**{"x": 1}).rename(columns={"x": 7}), ["text", "flag"])


def test_a_declaration_of_nothing_is_refused_beside_a_name_without_one_and_else_warned_of():
    told = "the domain declares 'median_house_valu', which is no column of the data and no term of the formula"
    slip = Domain({"median_house_valu": (0, 1), "text": ["a", "b"]})
    with pytest.raises(DomainError, match=rf"^{told}; did you mean 'median_house_value'[?]$"):
        check_strays(slip, ["text", "median_house_value"], DATA.columns)
    with pytest.warns(PrivstatsWarning, match=f"^{told}; continuing$"):
        check_strays(slip, ["text", "median_income"], DATA.columns)
    codebook = Domain(dict.fromkeys(("v1", "v2", "v3", "v4", "np.log( median_income )"), (0, 1)))
    with pytest.warns(PrivstatsWarning, match="declares 'v1', 'v2', 'v3' and 1 more, which are no columns"):
        check_strays(codebook, ["np.log(median_income)"], DATA.columns)


def test_columns_of_an_expression_are_read_but_codings_and_functions_are_none():
    written = ["C(g, Sum)", "np.log(x)", "Q('a b')", "I(x *", "x.mean()", "z > np.pi"]
    assert names_read(written) == ("g", "x", "a b", "z")


BARE = pd.DataFrame(
    {"y": [1.0], "k": [1], "flag": [True], "since": pd.to_datetime(["2020-01-01"]), "g": ["secret"], "c": ["u"]}
)


@pytest.mark.parametrize(
    ("codes", "says"),
    [
        (["flag"], "^column 'flag' has truth values and is not declared; write domain={'flag': bool}$"),
        (["since"], r"^column 'since' has dates and is not declared; write domain={'since': \('2020-01-01', '2024"),
        (["g"], r"^column 'g' is not numeric and is not declared; write domain={'g': \['first', 'second'\]} with all"),
        (["C(k)"], r"^column 'k' has no declared levels; write domain={'k': \['first', 'second'\]} with all levels"),
        (["bs(y, 4)"], r"^column 'y' has no declared bounds; write domain={'y': \(low, high\)} from public knowledge$"),
        (
            ["y", "k", "np.log(flag)", "g"],
            r"^columns 'y', 'k', 'flag' and 1 more are not declared; write domain={'y': \(low, high\), "
            r"'k': \(low, high\), 'flag': bool, 'g': \['first', 'second'\]} from public knowledge$",
        ),
    ],
)
def test_what_is_not_declared_is_named_with_a_declaration_of_its_own_kind(codes, says):
    with pytest.raises(DomainError, match=says) as caught:
        check_declared(Domain({}), codes, BARE)
    assert "secret" not in str(caught.value)


def test_numbers_without_bounds_pass_since_their_range_can_be_estimated():
    check_declared(Domain({"g": ["a", "b"], "flag": bool}), ["y", "np.log(k)", "g", "C(flag)", "I(x *", "np.pi"], BARE)


def test_without_data_levels_alone_are_known_to_be_needed():
    with pytest.raises(
        DomainError, match=r"columns 'y' and 'g' are not declared; write domain={'y': \(low, high\), 'g': \["
    ):
        check_declared(Domain({}), ["y", "C(g)"], None)
    check_declared(Domain({}), ["y", "g"], None)
