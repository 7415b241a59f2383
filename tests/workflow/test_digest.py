"""Two calls have the same digest if and only if their arguments mean the same."""

import itertools

import numpy as np
import pytest
import statsmodels.api as sm

from privstats.errors import OptionError
from privstats.formula.declarations import Levels
from privstats.formula.domain import Domain
from privstats.privacy.promise import ApproxDP, GaussianDP, Neighbors, PureDP
from privstats.workflow.digest import canonical_form, digest

DIFFERENT = [
    None, True, 1, "1", 2, "True", "", 0.1, 0.1 + 2**-54, [1, 2], ["1", "2"], [1, [2]], [[1], 2], {"a": 1}, {"a": "1"},
    {1: "a"}, [], {}, [None], 2**70, 2**70 + 1,
    Domain({"x": (0, 1)}), Domain({"x": (0, 1.0000001)}), Domain({"x": (0, 1)}, complete=["x"]),
    Domain({"x": [1, 2]}), Domain({"x": ["1", "2"]}), Domain({"x": [2, 1]}),
    Domain({"x": Levels([1, 2], ordered=True)}),
    Domain({"x": ("2020-01-01", "2020-01-31")}), Domain({"z": (0, 1)}),
    PureDP(1), PureDP(1 + 1e-15), GaussianDP(1), ApproxDP(1, 1e-6), ApproxDP(1, 1e-7), PureDP(1, "add_remove"),
    PureDP(1, Neighbors("replace", "id")), PureDP(1, Neighbors("replace", "id", 2)),
    sm.families.Binomial(), sm.families.Poisson(), sm.families.Binomial(sm.families.links.Probit()),
]  # fmt: skip


def test_different_arguments_have_different_digests():
    digests = [digest(value) for value in DIFFERENT]
    same = [(a, b) for (a, x), (b, y) in itertools.combinations(zip(DIFFERENT, digests, strict=True), 2) if x == y]
    assert same == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, np.float64(1.0)),
        (0.0, -0.0),
        ([1, 2], (1, 2)),
        ([1, 2], np.array([1.0, 2.0])),
        ([0, 1, 2], range(3)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (True, np.bool_(True)),
        (Domain({"x": (0, 1), "y": (0, 2)}), Domain({"x": (0.0, 1.0), "y": (0, 2)})),
    ],
)
def test_what_is_written_in_two_ways_has_one_digest(one, other):
    assert digest(one) == digest(other)


@pytest.mark.parametrize("value", [object(), lambda: 1, b"bytes", {1}, 1j, slice(3), np.datetime64("2020")])
def test_no_type_is_written_by_its_repr(value):
    with pytest.raises(OptionError, match="is of type"):
        canonical_form(value)


def test_the_digest_is_the_same_in_each_process():
    assert digest({"eps": 1, "formula": "y ~ x"}) == "50cd44f5112dc4abb997227253e96b1b386e3e9c71f59f17f395c031c13f9b5e"
