"""Synthetic rows: columns that are products of other columns have the values of these products."""

import numpy as np
import pandas as pd
import pytest

from privstats.estimators.frame import PublicBox
from privstats.formula.design import bind_regression

DOMAIN = {"y": (0, 10), "x": (1980, 2020), "z": (-3, 1), "g": ["a", "b", "c"], "h": ["u", "v"]}


def rows_of(formula, n=500, centred=True):
    """Return the public box of a formula, rows (columns, response) drawn from the domain, and level codes by factor."""
    rng = np.random.default_rng(1)
    data = pd.DataFrame({name: rng.uniform(*DOMAIN[name], n) for name in "yxz"})
    data = data.assign(g=rng.choice(DOMAIN["g"], n), h=rng.choice(DOMAIN["h"], n))
    design = bind_regression(formula, DOMAIN, centred=centred)
    block = design.block(data)
    return PublicBox(design), block.times(np.eye(design.width)), dict(enumerate(block.codes))


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(
    "formula",
    [
        "y ~ x*C(g)",
        "y ~ x*C(g, Sum) + I(z**2) + z",
        "y ~ (x + z)*C(g) + x:z",
        "y ~ 0 + C(g) + z + z:C(g)",
        "y ~ x*z*C(g)",
        "y ~ z*C(g)*C(h)",
        "y ~ np.exp(z)*C(h) + C(g)",
    ],
)
def test_products_of_columns_are_computed_from_these_columns(formula, centred):
    box, rows, codes = rows_of(formula, centred=centred)
    made = [*(j for j, *_ in box.products), *box.by_level]
    assert made
    blank = rows.copy()
    blank[:, made] = 0.5
    np.testing.assert_allclose(box.rows_with_products(blank, codes), rows, atol=1e-5)  # values of rows are rounded


def test_a_slope_by_level_without_a_common_slope_is_zero_at_other_levels():
    box, rows, codes = rows_of("y ~ C(g) + C(g):z")
    (slopes,) = box.design.slopes_by_level
    assert slopes.number is None
    made = box.rows_with_products(rows, codes)[:, list(slopes.columns)]
    at_middle = (
        -np.asarray(box.design.centers)[list(slopes.columns)] / np.asarray(box.design.halves)[list(slopes.columns)]
    )
    other = np.asarray(slopes.contrasts)[codes[slopes.factor]] == 0
    np.testing.assert_allclose(made[other], np.broadcast_to(at_middle, made.shape)[other])
    assert np.ptp(made[~other]) > 0.1
