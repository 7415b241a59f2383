"""What is looked at of a frame outside the gate: its type, and names of columns."""

import numpy as np
import pandas as pd
import pytest

from privstats.errors import DomainError, FormulaError
from privstats.formula.domain import Domain
from privstats.formula.schema import check_numeric, check_schema, strays

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


def test_declarations_of_nothing_are_told():
    domain = Domain({"median_house_valu": (0, 1), "np.log( median_income )": (0, 9), "zzz": (0, 1), "text": ["a", "b"]})
    told = strays(domain, ["np.log(median_income)", "u"], DATA.columns)
    assert told == (
        "the domain declares 'median_house_valu', which is no column of the data and no term of the formula; did you "
        "mean 'median_house_value'? continuing",
        "the domain declares 'zzz', which is no column of the data and no term of the formula; leave it out; "
        "continuing",
    )


@pytest.mark.parametrize("name", ["text", "flag"])
def test_bounds_are_estimated_of_numbers_only(name):
    with pytest.raises(
        DomainError, match=rf"column '{name}' is not numeric and is not declared; write domain=.*or for dates"
    ):
        check_numeric([name], DATA, Domain({}))
    check_numeric([name, "median_income"], DATA, Domain({"text": ["a", "b"], "flag": bool}))
