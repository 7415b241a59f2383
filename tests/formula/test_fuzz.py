"""Random formulas: columns equal patsy's, exactly the collinear formulas are refused, and null spaces are exact."""

import pickle
import random

import numpy as np
import pandas as pd
import patsy
import pytest

from privstats.errors import FormulaError
from privstats.formula.design import bind_regression
from privstats.formula.domain import Domain
from tests.formula.zoo import DOMAIN, LEVELS, all_columns, frame

ATOMS = [
    "x", "z", "w", "g", "k", "t", "C(g)", "C(k, Sum)", "C(g, Helmert)", "I(x**2)", "np.log(z)", "I(x*z)",
    "bs(x, knots=[0.5], lower_bound=-1, upper_bound=3)", "C(t, Treatment(True))",
]  # fmt: skip
WIDE = Domain({**DOMAIN, "t": bool, "w": (10, 12)}, complete=True)
OTHER = ("twice; leave out", "no coefficients")  # errors for formulas for which patsy would create columns of zeros


def rows(n=400):
    rng = np.random.default_rng(1)
    return frame(n).assign(t=rng.choice([True, False], n), w=rng.uniform(10, 12, n))


def formulas(seed, many=30):
    chance = random.Random(seed)

    def expression(depth):
        if depth == 0:
            return chance.choice(ATOMS)
        sign = chance.choice("++:*/-")
        return f"({expression(depth - 1)} {sign} {expression(chance.randint(0, depth - 1))})"

    return [f"y ~ {chance.choice(['', '0 + '])}{expression(chance.randint(1, 3))}" for _ in range(many)]


def rank(X, tolerance):
    unit = X / np.maximum(np.sqrt((X**2).sum(axis=0)), 1e-12)
    return np.linalg.matrix_rank(unit, tol=tolerance) if X.size else 0


def check_centred(design, data, X, codes):
    """Check a design with centred products: its scaled columns, bounds, coefficients in the user's units, null space.

    The columns of the design are the columns of the uncentred design matrix X, multiplied by the matrix `coding`.
    """
    block = pickle.loads(pickle.dumps(design)).block(data)
    Z = all_columns(block)[:, :-1]
    assert np.abs(Z).max() <= 1
    coded = X @ design.coding
    np.testing.assert_allclose(Z * design.halves + design.centers, coded, atol=3e-6 * design.halves.max())
    for (low, high), column in zip(design.bounds(), coded.T, strict=True):
        assert low - 1e-9 <= column.min() <= column.max() <= high + 1e-9
    theta = np.random.default_rng(1).standard_normal(X.shape[1])
    matrix, shift = design.to_original(response=False)
    boxed = (coded - design.centers) / design.halves
    np.testing.assert_allclose(boxed @ theta, X @ (matrix @ theta + shift), rtol=1e-8, atol=1e-8)
    kept = [np.arange(len(factor.levels)) > 0 for factor in design.factors]
    there = np.logical_and.reduce([np.ones(len(data), bool), *(m[c] for m, c in zip(kept, codes, strict=True))])
    null = design.null_space(kept)
    np.testing.assert_allclose(Z[there] @ null, 0, atol=1e-6)
    if there.sum() > 3 * X.shape[1]:
        values = np.linalg.svd(boxed[there], compute_uv=False)
        assert null.shape[1] == X.shape[1] - (values > 1e-7 * values[0]).sum()


@pytest.mark.parametrize("seed", range(3))
def test_random_formulas_mean_what_patsy_says_and_their_null_spaces_are_exact(seed):
    data, rng = rows(), np.random.default_rng(seed)
    levels = {**LEVELS, "t": [False, True]}
    coded = data.assign(**{name: pd.Categorical(data[name], categories=known) for name, known in levels.items()})
    fitted = refused = 0
    for formula in formulas(seed):
        X = patsy.dmatrices(formula, coded, return_type="dataframe")[1]
        try:
            design = bind_regression(formula, WIDE)
        except FormulaError as error:
            text = str(error)
            assert "collinear" in text or any(part in text for part in OTHER), (formula, text)
            assert "collinear" not in text or rank(X.to_numpy(), 1e-9) < X.shape[1], (formula, text)
            refused += 1
            continue
        fitted += 1
        assert list(design.names) == list(X.columns)
        np.testing.assert_allclose(design.matrix(data), X, rtol=1e-10, atol=1e-12, err_msg=formula)
        assert rank(X.to_numpy(), 1e-9) == X.shape[1], formula
        block = design.block(data)
        Z = all_columns(block)[:, :-1]
        np.testing.assert_allclose(Z * design.halves + design.centers, X, atol=3e-6 * design.halves.max())
        assert np.array_equal(design.coding, np.eye(X.shape[1]))
        check_centred(bind_regression(formula, WIDE, centred=True), data, X.to_numpy(), block.codes)
        kept = [rng.uniform(size=len(factor.levels)) > 0.3 for factor in design.factors]
        there = np.logical_and.reduce(
            [np.ones(len(data), bool), *(m[c] for m, c in zip(kept, block.codes, strict=True))]
        )
        if there.sum() > 3 * X.shape[1]:
            null = design.null_space(kept)
            np.testing.assert_allclose(Z[there] @ null, 0, atol=1e-6)
            boxed = (X.to_numpy()[there] - design.centers) / design.halves
            values = np.linalg.svd(boxed, compute_uv=False)
            assert null.shape[1] == X.shape[1] - (values > 1e-7 * values[0]).sum(), formula
    assert fitted > 15 and refused > 0
