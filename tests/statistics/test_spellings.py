"""Formulas that are spelled differently but mean the same give the same fit."""

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.workflow.plan import Plan
from tests.conftest import thinned

SQUARES = ["I(x**2)", "np.square(x)", "I(x * x)", "np.power(x, 2)", "I(np.square(x))"]
PRODUCTS = ["x:z", "z:x", "I(x * z)", "I(z * x)"]
VERBS = {
    "lm": (ps.dp_lm, "y", {"mu": 1.0}),
    "lm suffstats": (ps.dp_lm, "y", {"eps": 8.0, "mech": "suffstats"}),
    "glm": (ps.dp_glm, "b", {"mu": 1.0}),
    "rq": (ps.dp_rq, "y", {"mu": 1.0}),
}


def narrow(seed, n=4000):
    """Return rows with a predictor that fills 4 % of its bounds and lies far from 0."""
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(48, 52, n), rng.uniform(-1, 1, n)
    y = 0.5 * (x - 50) ** 2 + 0.5 * (x - 50) * z + rng.normal(size=n)
    return pd.DataFrame({"x": x, "z": z, "y": y, "b": y > 1})


DOMAIN = {"x": (0, 100), "z": (-2, 2), "y": (-10, 20), "b": [False, True]}


@thinned(6)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("others", "spelled"), [("x", SQUARES), ("z", ["I(z**2)", "I(z * z)"]), ("x + z", PRODUCTS)])
def test_each_spelling_of_a_product_gives_the_same_bits(verb, others, spelled, monkeypatch):
    monkeypatch.setattr(Plan, "stream_digest", "the same noise for all")
    call, response, options = VERBS[verb]
    fits = [call(f"{response} ~ {others} + {term}", narrow(1), domain=DOMAIN, rng=1, **options) for term in spelled]
    for other in fits[1:]:
        np.testing.assert_array_equal(other.params.to_numpy(), fits[0].params.to_numpy())
        np.testing.assert_array_equal(other.conf_int().to_numpy(), fits[0].conf_int().to_numpy())


@pytest.mark.parametrize("term", SQUARES)
def test_a_square_of_a_narrow_column_is_given_in_each_spelling(term):
    options = {"mu": 1.0, "domain": DOMAIN}
    fits = [ps.dp_lm(f"y ~ x + {term}", narrow(seed), rng=seed, **options) for seed in range(6)]
    assert all(one.params.notna().all() for one in fits)
