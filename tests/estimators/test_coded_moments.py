"""Moments of vectors with level indicators in place of dummy columns yield the moments of the design's columns."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from privstats.api import plan
from privstats.estimators.base import NORMAL, PURE, PublicFacts
from privstats.estimators.frame import PublicBox
from privstats.estimators.preconditioner import Sizes
from privstats.estimators.sufficient_statistics import moments_of_box
from privstats.formula.design import bind_regression
from privstats.losses.rows import RootWeighted
from privstats.mechanisms import Hull
from privstats.sets.coded import CodedProducts
from privstats.sets.vectors import BoxProducts

DOMAIN = {"y": (-3, 5), "x": (0, 7), "o": (-1, 1), "w": (0, 2), "a": list("abcde"), "b": [1, 2, 3], "t": [False, True]}
# by formula: number of entries of a row's vector that indicate levels, for each group of levels, and number of other
# entries of the vector
FORMULAS = {
    "y ~ x + C(a)": ((5,), 2),
    "y ~ x + C(a) + C(b)": ((5, 2), 2),
    "y ~ 0 + C(b) + C(a) + x": ((5, 2), 2),
    "y ~ C(a, Sum) + x": ((5,), 2),
    "y ~ C(a, Poly) + C(b) + t": ((5, 2), 2),
    "y ~ C(a) * C(b)": ((15,), 1),
    "y ~ C(a):x + C(b)": ((3,), 6),
    "y ~ C(a) * x": ((5,), 6),
    "y ~ 0 + t": ((2,), 1),
    "y ~ x + t": ((), 3),
}


def rows(n):
    rng = np.random.default_rng(3)
    made = {name: rng.uniform(-4, 8, n) for name in ("y", "x", "o")}
    made |= {name: rng.choice([*DOMAIN[name], None], n) for name in "abt"}
    return pd.DataFrame(made | {"w": rng.uniform(0, 2, n)})


def moments(formula, **options):
    design = bind_regression(formula, DOMAIN, **options)
    public = PublicFacts(None, None, None, False, True, design)
    return moments_of_box(None, NORMAL, PublicBox(design), Sizes(1.0, 1.0), public, True)


@pytest.mark.parametrize("options", [{}, {"offset": "o"}, {"subset": "x > 2"}, {"weights": "w"}], ids=str)
@pytest.mark.parametrize("formula", FORMULAS)
def test_moments_of_entries_say_those_of_the_columns(formula, options):
    here = moments(formula, **options)
    within, box = here.within, here.box
    groups, others = FORMULAS[formula]
    assert (tuple(map(len, within.groups)), within.q) == (groups, sum(groups) + others)
    assert isinstance(within, CodedProducts) == bool(groups)
    block = box.design.block(rows(3000))
    total = within.total(within.project(here.question.rows(block)[0]))
    seen = here.to_columns.T @ within.unpacked(total.value()) @ here.to_columns
    columns = np.column_stack([np.eye(box.width)[:, : box.c], box.response])
    z = RootWeighted(columns)(block)[block.present][:, 1:]
    np.testing.assert_allclose(seen, z.T @ z, atol=3000 * 1e-5)


def test_coordinates_of_levels_are_zeros_and_a_one():
    here = moments("y ~ x + C(a) + C(b, Sum)")
    w = here.start.P.T @ RootWeighted(np.eye(here.box.width))(here.box.design.block(rows(50)))[:, 1:].T
    np.testing.assert_allclose(w[:7], np.round(w[:7]), atol=1e-12)
    np.testing.assert_allclose(w[:5].sum(axis=0), 1.0, atol=1e-12)


def test_a_body_for_numbers_has_columns_as_entries():
    here = replace(moments("y ~ x + C(b)"), by=replace(PURE, matrix=Hull()))
    assert type(here.within) is BoxProducts and here.within.q == 4


@pytest.mark.parametrize(
    ("levels", "others", "law"), [(3, 0, "matrixt"), (6, 4, "matrixt"), (20, 1, "laplace"), (200, 3, "laplace")]
)
def test_the_law_with_the_least_noise_in_products_with_the_response_is_taken(levels, others, law):
    names = [f"x{k}" for k in range(others)]
    domain = {"y": (0, 1), "g": [f"{k}" for k in range(levels)], **dict.fromkeys(names, (0, 1))}
    planned = plan("lm", " + ".join(["y ~ g", *names]), 5000, 1.0, mech="suffstats", domain=domain)
    assert planned.questions.loc["moments", "mechanism"] == law
