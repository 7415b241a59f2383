"""The design maps rows to [-1, 1] and back, and equals what statsmodels would build."""

import pickle

import numpy as np
import pandas as pd
import patsy
import pytest

from privstats import rowwise
from privstats.errors import DomainError, FormulaError
from privstats.older.formula.design import bind
from privstats.older.formula.domain import Domain

DOMAIN = Domain({"y": (1, 20), "x": (-1, 3), "z": (2, 5), "g": ["b", "a", "c"], "k": [1, 2]}, complete=True)
FORMULAS = [
    "y ~ x",
    "np.log(y) ~ x + z",
    "y ~ x * z + I(x ** 2) + np.sqrt(z)",
    "y ~ C(g) + x",
    "y ~ g * x",
    "y ~ C(g, Treatment('a')) * C(k) + z",
    "y ~ 0 + x + z",
    "y ~ 0 + g + x",
    "y ~ x:z - 1",
    "y ~ (x + z) ** 2",
    "I(y / z) ~ x",
    "y ~ 1",
    "y ~ C(k, Treatment(reference=2))",
    "y ~ g * k",
    "y ~ k + k:g",
    "y ~ k / g",
    "y ~ 0 + k:g",
    "y ~ x * k * g",
    "y ~ C(g, Sum) * x",
    "y ~ C(g, Sum('a')) + C(k, Sum)",
    "y ~ C(g, Helmert)",
    "y ~ C(g, Poly) + C(g, Poly):z",
    "y ~ C(g, Diff)",
    "y ~ 0 + C(g, Helmert) * z",
    "y ~ np.where(x > 0, x, 0) + np.clip(z, 3, 4)",
    "y ~ I(1 * ((x > 0) & (z <= 4))) + np.maximum(x, z) - 1",
    "Q('y') ~ Q('x') + Q('g')",
    "y ~ bs(x, knots=[0, 1], lower_bound=-1, upper_bound=3)",
    "y ~ 0 + bs(x, knots=[0.5], degree=2, include_intercept=True, lower_bound=-1, upper_bound=3) * g",
    "y ~ cr(x, knots=[0, 1, 2], lower_bound=-1, upper_bound=3) - 1",
    "y ~ cc(z, knots=[3, 4], lower_bound=2, upper_bound=5) - 1",
]


def frame(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "y": rng.uniform(1, 20, n),
            "x": rng.uniform(-1, 3, n),
            "z": rng.uniform(2, 5, n),
            "g": rng.choice(list("bac"), n),
            "k": rng.choice([1, 2], n),
        }
    )


def patsy_matrices(formula, data):
    levels = {"g": ["b", "a", "c"], "k": [1, 2]}
    coded = data.assign(**{name: pd.Categorical(data[name], categories=known) for name, known in levels.items()})
    return patsy.dmatrices(formula, coded, return_type="dataframe")


@pytest.mark.parametrize("formula", FORMULAS)
def test_names_and_columns_are_those_of_patsy_and_scaling_is_undone_exactly(formula):
    data = frame()
    _, X = patsy_matrices(formula, data)
    design = bind(formula, DOMAIN)
    assert list(design.names) == list(X.columns)
    np.testing.assert_allclose(design.matrix(data), X.to_numpy(), rtol=1e-12)
    block = design.block(data)
    assert np.abs(block.X).max(initial=0) <= 1
    assert np.abs(block.y).max() <= 1
    assert block.present.all()
    scaled = np.column_stack([np.ones(len(data)), block.X]) if design.intercept else block.X
    theta = np.random.default_rng(1).standard_normal(len(design.names))
    linear, offset = design.original()
    fitted = X.to_numpy() @ (linear @ theta + offset)
    if design.intercept:
        middle = design.y_scaling.middle[0]
        np.testing.assert_allclose(scaled @ theta * design.response_unit + middle, fitted, rtol=1e-9, atol=1e-9)
    else:
        np.testing.assert_allclose(scaled @ theta * design.response_unit, fitted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("formula", FORMULAS)
def test_no_row_however_odd_leaves_the_cube(formula):
    values = [-1e300, 1e300, np.inf, -np.inf, np.nan, 0, "a", None, 2.5]
    rng = np.random.default_rng(3)
    odd = pd.DataFrame({name: rng.choice(np.array(values, dtype=object), 200) for name in "yxzgk"}, dtype=object)
    block = bind(formula, DOMAIN).block(odd)
    assert np.abs(block.X).max(initial=0) <= 1
    assert np.abs(block.y).max() <= 1
    assert not block.X[~block.present].any()
    assert not block.y[~block.present].any()


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_design_pickles_as_formula_and_domain(formula):
    design = bind(formula, DOMAIN)
    copy = pickle.loads(pickle.dumps(design))
    np.testing.assert_array_equal(copy.matrix(frame()), design.matrix(frame()))


def test_bounds_by_formula_name_narrow_or_replace_those_of_the_columns():
    assert bind("np.log(y) ~ x", Domain({"np.log(y)": (0, 2), "x": (0, 1)})).response_unit == 1
    assert bind("I(x**2) ~ z", Domain({"I(x**2)": (0, 4), "x": (0, 3), "z": (0, 1)})).response_unit == 2
    with pytest.raises(DomainError, match="contradict"):
        bind("I(x**2) ~ z", Domain({"I(x**2)": (10, 40), "x": (0, 3), "z": (0, 1)}))
    design = bind("np.log(y) ~ x", Domain({"np.log(y)": (0, 2), "x": (0, 1)}))
    block = design.block(pd.DataFrame({"y": [-1.0, 0.0, np.e], "x": 0.5}))
    assert block.present.tolist() == [False, True, True]
    np.testing.assert_allclose(block.y, [0, -1, 0], atol=1e-15)


@pytest.mark.parametrize(
    ("formula", "error", "says"),
    [
        ("y ~ x + y", FormulaError, "among the predictors"),
        ("np.log(y) ~ I(x * y)", FormulaError, "among the predictors"),
        ("y ~ x - x.mean()", FormulaError, "each row alone"),
        ("y ~ center(x)", FormulaError, "each row alone"),
        ("y ~ standardize(x)", FormulaError, "each row alone"),
        ("y ~ bs(x, df=4)", FormulaError, "knots"),
        ("y ~ bs(x)", FormulaError, "knots"),
        ("y ~ cr(x, df=4)", FormulaError, "knots"),
        ("y ~ cr(x, knots=[0], constraints='center')", FormulaError, "knots"),
        ("y ~ bs(x, knots=[7])", FormulaError, "between the bounds"),
        ("y ~ bs(x, knots=z)", FormulaError, "must be a number"),
        ("y ~ poly(x)", FormulaError, "poly"),
        ("y ~ poly(x, 0)", FormulaError, "poly"),
        ("y ~ poly(w, 2)", DomainError, "'w'"),
        ("y ~ poly(x - x.mean(), 2)", FormulaError, "each row alone"),
        ("y ~ I(g == 'q')", FormulaError, "not a declared level"),
        ("y ~ C(g, Sum('q'))", FormulaError, "not a declared level"),
        ("y ~ C(g, Poly(scores=[1]))", FormulaError, "do not fit"),
        ("y ~ C(g, levels=['a'])", FormulaError, "levels declared"),
        ("y ~ w", DomainError, r"domain=\{'w'"),
        ("y ~ C(w)", DomainError, "levels of 'w'"),
        ("y ~ C(x)", DomainError, "levels of 'x'"),
        ("y ~ np.log(x)", DomainError, "finite bounds"),
        ("y ~ I(g + 1)", FormulaError, "levels"),
        ("g ~ x", FormulaError, "levels"),
        ("y ~ C(g, Treatment('zz'))", FormulaError, "not a declared level"),
        ("y ~ C(g, Median)", FormulaError, "Treatment, Sum, Helmert, Poly, Diff"),
        ("y ~ I(x * 0)", DomainError, "constant"),
        ("y ~ 0", FormulaError, "no coefficients"),
        ("~ x", FormulaError, "one response"),
        ("y + z ~ x", FormulaError, "one response"),
        ("y ~ (x", FormulaError, "cannot be read"),
        ("", FormulaError, "one response"),
        (3, FormulaError, "text"),
    ],
)
def test_what_cannot_be_bounded_is_refused_with_the_cure(formula, error, says):
    with pytest.raises(error, match=says):
        bind(formula, DOMAIN)


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ poly(x, 5)",
        "y ~ poly(np.log(z), 3) * g",
        "y ~ bs(x, knots=[0, 1])",
        "y ~ cr(x, knots=[0, 1, 2]) - 1",
        "y ~ cc(x, knots=[0, 1]) - 1",
        "y ~ C(g, Poly) * x",
    ],
)
def test_columns_of_bases_and_codings_fill_their_bounds_and_no_more(formula):
    design = bind(formula, DOMAIN)
    x, z = (grid.ravel() for grid in np.meshgrid(np.linspace(-1, 3, 401), np.linspace(2, 5, 101)))
    rows = pd.DataFrame({"x": x, "z": z, "g": np.array(["a", "b", "c"])[np.arange(len(x)) % 3], "y": 5.0})
    scaled = (design.matrix(rows)[:, int(design.intercept) :] - design.x_scaling.middle) / design.x_scaling.half
    assert np.abs(scaled).max() <= 1 + 1e-9
    if design.intercept:
        np.testing.assert_allclose(
            [scaled.min(axis=0), scaled.max(axis=0)], np.array([[-1], [1]]) * np.ones(scaled.shape[1]), atol=2e-3
        )


def test_legendre_polynomials_are_orthogonal_on_the_public_range_whatever_the_data():
    design = bind("y ~ poly(x, 4)", DOMAIN)
    matrix = design.matrix(pd.DataFrame({"x": np.linspace(-1, 3, 20001)}))
    correlation = np.corrcoef(matrix[:, 1:].T)
    np.testing.assert_allclose(correlation, np.eye(4), atol=1e-3)
    assert design.names[1:] == tuple(f"poly(x, 4)[{k}]" for k in range(4))


def test_a_function_of_the_users_own_is_bounded_and_called_row_by_row():
    def fussy(x):
        if (x > 2).any():
            raise SystemExit(1)
        return 1 / (2.5 - x)

    rowwise(fussy, bounds=(0.2, 2.0))
    design = bind("y ~ fussy(x)", DOMAIN)
    block = design.block(pd.DataFrame({"y": 5.0, "x": [-1.0, 1.5, 2.9, 0.0]}))
    assert block.present.tolist() == [True, True, False, True]
    np.testing.assert_allclose(design.matrix(pd.DataFrame({"x": [-1.0, 0.0]}))[:, 1], [1 / 3.5, 0.4])
    rowwise(lambda a, b: a - b, bounds=lambda a, b: (a[0] - b[1], a[1] - b[0]), name="gap")
    assert bind("y ~ gap(x, z)", DOMAIN).x_scaling.half.tolist() == [3.5]
    bad = [{"bounds": (2, 1)}, {"bounds": 3}, {"bounds": (0, 1), "name": "np.log"}, {"bounds": (0, 1), "name": "C"}]
    for wrong in (*bad, {"bounds": (0, 1), "name": "gap"}):
        with pytest.raises(FormulaError):
            rowwise(lambda x: x, **wrong)


@pytest.mark.parametrize("subset", [None, "z == 3"])
def test_a_function_that_would_mix_rows_sees_one_at_a_time(subset):
    def zscore(x):
        return (x - x.min()) / (x.max() - x.min() + 1)

    rowwise(zscore, bounds=(0, 1))
    design = bind("y ~ zscore(x)", DOMAIN, subset)
    data = frame(50).assign(z=3.0)
    alone = np.concatenate([design.block(data.iloc[[k]]).X for k in range(50)])
    np.testing.assert_array_equal(design.block(data).X, alone)


def test_where_keeps_rows_whose_other_branch_is_no_number():
    domain = Domain({"y": (0, 9), "x": (-1, 3), "np.where(x > 0, np.log(x), 0)": (-7, 2)})
    block = bind("y ~ np.where(x > 0, np.log(x), 0)", domain).block(pd.DataFrame({"y": 1.0, "x": [-1.0, 0.0, 2.0]}))
    assert block.present.all()


def test_quoted_names_work_inside_bases_and_truth_values_in_arithmetic():
    domain = Domain({"y": (0, 9), "a b": (0, 1), "t": bool})
    data = pd.DataFrame({"y": 1.0, "a b": [0.0, 0.5, 1.0], "t": [True, False, True]})
    matrix = bind("y ~ poly(Q('a b'), 2) + bs(Q('a b'), knots=[.5]) + I(2 * t) - 1", domain).matrix(data)
    assert matrix[:, 0].tolist() == [-1, 0, 1]
    assert matrix[:, -1].tolist() == [2, 0, 2]
    assert bind("y ~ 1", domain, "t and not 0.2 < Q('a b') < 0.7").block(data).present.tolist() == [True, False, True]


def test_splines_keep_their_bounds_on_ranges_far_from_zero():
    design = bind("y ~ bs(x, knots=[1000000000.5])", Domain({"y": (0, 1), "x": (1e9, 1e9 + 1)}))
    near = bind("y ~ bs(x, knots=[0.5])", Domain({"y": (0, 1), "x": (0, 1)}))
    np.testing.assert_allclose(design.x_scaling.half, near.x_scaling.half, rtol=1e-9)


def test_a_column_called_intercept_is_a_column():
    domain = Domain({"y": (0, 1), "Intercept": (2, 4)})
    design = bind("y ~ 0 + Intercept", domain)
    assert not design.intercept
    assert design.x_scaling.half.tolist() == [4]
    with pytest.raises(FormulaError, match="one name"):
        bind("y ~ Intercept", domain)


def test_the_model_matrix_marks_rows_it_cannot_map():
    new = pd.DataFrame({"x": [1.0, np.nan, 9.0], "g": ["a", "a", "zz"]}, index=[5, 5, 7])
    matrix = bind("y ~ x + g", DOMAIN).matrix(new)
    assert np.isnan(matrix).any(axis=1).tolist() == [False, True, True]
    assert bind("y ~ x", DOMAIN).matrix(pd.DataFrame({"x": [9.0]})).tolist() == [[1.0, 9.0]]  # extrapolates
