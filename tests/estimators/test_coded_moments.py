"""Moments of the box are added up by levels where levels say entries, and are the sums of all rows to the bit."""

import numpy as np
import pandas as pd
import pytest

from privstats.estimators.base import NORMAL, PublicFacts
from privstats.estimators.frame import PublicBox
from privstats.estimators.preconditioner import Sizes
from privstats.estimators.sufficient_statistics import moments_of_box
from privstats.formula.design import bind_regression
from privstats.losses.rows import RootWeighted
from privstats.sets.coded import CodedProducts
from privstats.sets.vectors import BoxProducts

DOMAIN = {"y": (-3, 5), "x": (0, 7), "o": (-1, 1), "w": (0, 2), "a": list("abcde"), "b": [1, 2, 3], "t": [False, True]}
FORMULAS = {
    "y ~ x + C(a)": 1,
    "y ~ x + C(a) + C(b)": 2,
    "y ~ 0 + C(a) + x": 1,
    "y ~ C(a, Sum) + x": 1,
    "y ~ C(a, Poly) + C(b) + t": 2,
    "y ~ C(a) * C(b)": 3,
    "y ~ C(a):x + C(b)": 1,
    "y ~ C(a) * x": 1,
    "y ~ x + t": 0,
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


def total(question, block):
    return question.within.total(question.within.project(question.rows(block)[0]))


@pytest.mark.parametrize("options", [{}, {"offset": "o"}, {"subset": "x > 2"}], ids=str)
@pytest.mark.parametrize("formula", FORMULAS)
def test_sums_by_level_are_the_sums_of_whole_rows(formula, options):
    here = moments(formula, **options)
    within, box = here.within, here.box
    assert isinstance(within, CodedProducts) == bool(FORMULAS[formula])
    assert len(getattr(within, "tables", ())) == FORMULAS[formula]
    whole = BoxProducts(within.q, within.intercept, within.counted, within.last_scale)
    block = box.design.block(rows(3000))
    dense = whole.total(whole.project(RootWeighted(box.entries)(block)[block.present]))
    assert total(here.question, block) == dense


def test_rows_of_different_weights_are_added_up_one_by_one():
    assert not isinstance(moments("y ~ x + C(a)", weights="w").within, CodedProducts)
