"""Designs of models with a link: responses, offsets, and columns declared by their scale."""

import pickle

import numpy as np
import pandas as pd
import pytest

from privstats.errors import DomainError, FormulaError
from privstats.older.formula.design import bind
from privstats.older.formula.domain import Domain
from privstats.older.formula.scale import Scale
from privstats.older.losses.families import Gamma, Logit, Poisson

DATA = pd.DataFrame(
    {"x": [-1.0, 0.0, 4.0], "won": ["no", "yes", None], "count": [0.0, 30.0, 3.0], "years": [1.0, 2.0, 4.0]}
)
DOMAIN = Domain({"x": (-1, 3), "won": ["no", "yes"], "count": (0, 20), "years": (0.5, 10), "kind": ["a", "b", "c"]})


def test_the_second_of_two_levels_counts_as_one():
    block = bind("won ~ x", DOMAIN, family=Logit()).block(DATA)
    assert block.y.tolist() == [0, 1, 0]
    assert block.present.tolist() == [True, True, False]


def test_counts_are_divided_by_their_declared_maximum():
    block = bind("count ~ x", DOMAIN, family=Poisson()).block(DATA)
    np.testing.assert_allclose(block.y, [0, 1, 3 / 20])


def test_coefficients_of_a_link_have_units_of_their_own():
    linear, offset = bind("count ~ x", DOMAIN, family=Poisson()).original()
    theta = np.array([0.3, 0.8])
    X = np.array([[1, -1], [1, 3]])
    np.testing.assert_allclose(X @ (linear @ theta + offset), [0.3 - 0.8, 0.3 + 0.8])


def test_an_offset_is_read_in_each_row_and_a_missing_one_drops_it():
    design = bind("count ~ x", DOMAIN, offset="np.log(years)", family=Poisson())
    assert "years" in design.reads
    block = design.block(DATA.assign(years=[1.0, np.nan, 40.0]))
    np.testing.assert_allclose(block.offset, [0, 0, np.log(10)])
    assert block.present.tolist() == [True, False, True]


def test_predictions_are_means_with_the_offset():
    design = bind("count ~ x", DOMAIN, offset="np.log(years)", family=Poisson())
    new = pd.DataFrame({"x": [1.0, 2.0], "years": [2.0, 20.0]})
    np.testing.assert_allclose(design.fitted(new, np.array([0.5, 1.0])), new["years"] * np.exp(0.5 + new["x"]))
    np.testing.assert_allclose(
        design.fitted(new, np.array([0.5, 1.0]), linear=True), np.log(new["years"]) + 0.5 + new["x"]
    )


@pytest.mark.parametrize(
    ("formula", "family", "error"),
    [
        ("kind ~ x", Logit(), FormulaError),
        ("count ~ x", Logit(), DomainError),
        ("x ~ count", Poisson(), DomainError),
        ("won ~ x", Poisson(), FormulaError),
        ("x ~ count", Gamma(), DomainError),
    ],
)
def test_a_response_that_the_family_cannot_have_is_refused_by_its_declaration(formula, family, error):
    with pytest.raises(error, match="response"):
        bind(formula, DOMAIN, family=family)


def test_a_linked_design_pickles():
    design = bind("count ~ x", DOMAIN, "x > 0", None, "np.log(years)", family=Poisson())
    again = pickle.loads(pickle.dumps(design))
    assert (again.written, again.family, again.names) == (design.written, design.family, design.names)


def test_a_scale_tells_what_is_usual_and_bounds_nothing():
    design = bind("y ~ x + z", Domain({"y": Scale(10, 2), "x": Scale(170, 10), "z": (0, 4)}))
    X, y = design.usual
    frame = pd.DataFrame({"y": [10.0, 12.0], "x": [170.0, 190.0], "z": [2.0, 2 + 2 / np.sqrt(3)]})
    block = design.block(frame)
    np.testing.assert_allclose((block.X - X.middle) / X.half, [[0, 0], [2, 1]], atol=1e-9)
    np.testing.assert_allclose((block.y - y.middle) / y.half, [0, 1], atol=1e-9)


def test_a_scale_survives_json():
    domain = Domain({"x": Scale(170, 10)})
    assert Domain.from_json(domain.to_json()) == domain


@pytest.mark.parametrize("arguments", [(0, 0), (0, -1), (np.nan, 1), ("0", 1), (1e300, 1)])
def test_a_scale_must_be_positive(arguments):
    with pytest.raises(DomainError, match="Scale"):
        Scale(*arguments)
