"""The linear predictor of a fit, written as an expression, has the same value in each row as in the design."""

import numpy as np
import pandas as pd
import pytest

from privstats.errors import FormulaError
from privstats.formula.declarations import Levels
from privstats.formula.design import bind_regression
from privstats.formula.domain import Domain
from privstats.formula.factors import numeric
from privstats.formula.values import admit

N = 300
DOMAIN = Domain(
    {
        **{"x": (0, 10), "z": (-1, 4), "y": (1, 5), "any name": (0, 1), "t": bool},
        **{"g": ["a", "b", "it's"], "class": ["u", "v"], "k": Levels([1, 2, 3])},
        **{"np.log(x)": (-1, 2), "np.log(y)": (0, 2)},
    }
)
FORMULAS = [
    "y ~ x + z",
    "y ~ 0 + x",
    "np.log(y) ~ np.log(x) + I(z**2) + x:z",
    "y ~ 0 + g + C(k) + x",
    "y ~ g*x + Q('any name') - Q('any name'):x",
    "y ~ C(g, Sum):Q('class') + t",
    "y ~ I(x > 3) * g",
    "y ~ poly(x, 3) + bs(z, knots=[0, 1])",
    "y ~ poly(x, 2):C(g) + poly(z, 2):poly(x, 2)",
    "y ~ 0 + cr(x, knots=[5])",
    "y ~ bs(x, knots=[3], lower_bound=1, upper_bound=8)",
]


def rows():
    rng = np.random.default_rng(1)
    frame = {name: rng.uniform(known.lo, known.hi, N) for name, known in DOMAIN.items() if name in ("x", "z", "y")}
    frame |= {"any name": rng.uniform(0, 1, N), "t": rng.choice([True, False], N)}
    return pd.DataFrame({**frame, **{name: rng.choice(DOMAIN[name].values, N) for name in ("g", "class", "k")}})


def found(text, data):
    """Return the values of an expression in each row."""
    part = numeric(f"I({text})", DOMAIN)
    return part.values(admit(data, part.reads, DOMAIN, ())[0])[:, 0]


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_expression_of_a_linear_map_is_the_design_times_its_coefficients(formula):
    design, data = bind_regression(formula, DOMAIN), rows()
    params = np.random.default_rng(3).normal(size=len(design.names))
    response, fitted = design.expressions(params)
    matrix, shift = design.to_original()
    # `theta` has the coefficients of the scaled columns; blocks are clamped in the same way as the expressions
    theta = np.linalg.solve(matrix, params - shift)
    block = design.block(data)
    values = block.times(np.eye(design.width))
    boxed = np.column_stack([values[:, :-1] @ theta, values[:, -1]])
    expected = boxed * design.response_half + (design.response_center if design.intercept else 0.0)
    np.testing.assert_allclose(found(fitted, data), expected[:, 0], atol=1e-4)
    np.testing.assert_allclose(found(response, data), expected[:, 1], atol=1e-5)


def test_offsets_and_responses_of_two_levels_are_written_too():
    data = rows()
    design = bind_regression("y ~ x", DOMAIN, offset="z")
    np.testing.assert_allclose(found(design.expressions(np.array([1.0, 2.0]))[1], data), 1 + 2 * data["x"] + data["z"])


def test_a_formula_that_is_too_long_for_an_expression_is_refused():
    formula = "y ~ " + " + ".join(f"I(x > {k / 10})" for k in range(1, 60))
    design = bind_regression(formula, DOMAIN)
    with pytest.raises(FormulaError, match="too many terms to be written as one expression; fit the most important"):
        design.expressions(np.ones(len(design.names)))
