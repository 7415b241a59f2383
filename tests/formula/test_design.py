"""The design maps rows to scaled columns in [-1, 1] and back, and equals the design matrix of statsmodels."""

import pickle

import numpy as np
import pandas as pd
import patsy
import pytest

from privstats.errors import DomainError, FormulaError, PrivstatsWarning
from privstats.formula import language
from privstats.formula.declarations import Levels
from privstats.formula.design import bind_regression
from privstats.formula.domain import Domain
from privstats.formula.functions import rowwise
from privstats.mechanisms.random import public_stream
from tests.formula.zoo import DOMAIN, EXACT, FORMULAS, INCOMPLETE, LEVELS, OURS, all_columns, frame, odd_frame


class Family:
    def __init__(self, name, *support):
        self.name, self.support = name, support

    def mean(self, eta):
        return np.exp(eta)


BINOMIAL, POISSON, GAMMA = Family("binomial", 0.0, 1.0), Family("poisson", 0.0, np.inf), Family("gamma", 0.0, np.inf)


def patsy_matrices(formula, data):
    coded = data.assign(**{name: pd.Categorical(data[name], categories=known) for name, known in LEVELS.items()})
    return patsy.dmatrices(formula, coded, return_type="dataframe")


@pytest.mark.parametrize("formula", FORMULAS)
def test_names_and_columns_are_those_of_patsy(formula):
    data = frame()
    y, X = patsy_matrices(formula, data)
    design = bind_regression(formula, DOMAIN)
    assert list(design.names) == list(X.columns)
    np.testing.assert_allclose(design.matrix(data), X.to_numpy(), rtol=0 if formula in EXACT else 1e-12, atol=1e-14)
    block = design.block(data)
    Z = all_columns(block)
    np.testing.assert_allclose(Z[:, :-1] * design.halves + design.centers, X, atol=2.0**-21 * design.halves.max())
    response = block.response * design.response_half + design.response_center
    np.testing.assert_allclose(response, y.to_numpy()[:, 0], atol=2.0**-21 * design.response_half)
    assert block.present.all()
    assert design.width == Z.shape[1] == len(design.names) + 1


@pytest.mark.parametrize("formula", FORMULAS + OURS)
def test_coefficients_of_the_box_are_taken_back_exactly(formula):
    design, data = bind_regression(formula, DOMAIN), frame()
    X = design.matrix(data)
    boxed = (X - design.centers) / design.halves
    theta = np.random.default_rng(1).standard_normal(len(design.names))
    matrix, shift = design.to_original()
    fitted = X @ (matrix @ theta + shift)
    np.testing.assert_allclose(boxed @ theta * design.response_half + design.response_center, fitted, atol=1e-9)
    matrix, shift = design.to_original(response=False)
    np.testing.assert_allclose(boxed @ theta, X @ (matrix @ theta + shift), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("formula", FORMULAS + OURS)
def test_columns_lie_within_their_stated_bounds(formula):
    design = bind_regression(formula, DOMAIN)
    for (low, high), column in zip(design.bounds(), design.matrix(frame(2000)).T, strict=True):
        assert low - 1e-9 <= column.min() <= column.max() <= high + 1e-9


@pytest.mark.parametrize("formula", FORMULAS + OURS)
def test_a_design_pickles_as_formula_and_domain(formula):
    design = bind_regression(formula, DOMAIN, subset="x > 0", weights="z", offset="np.log(z)")
    copy = pickle.loads(pickle.dumps(design))
    np.testing.assert_array_equal(copy.matrix(frame()), design.matrix(frame()))
    matrix = np.eye(design.width)
    np.testing.assert_array_equal(copy.block(odd_frame()).times(matrix), design.block(odd_frame()).times(matrix))
    assert (copy.names, copy.reads, copy.written) == (design.names, design.reads, design.written)


@pytest.mark.parametrize("formula", FORMULAS + OURS)
def test_all_rows_of_a_complete_design_are_present_whatever_is_in_them(formula):
    design, every = bind_regression(formula, DOMAIN), odd_frame(120)
    assert design.complete
    assert design.block(every).present.sum() == 120
    assert not bind_regression(formula, INCOMPLETE).complete
    partly = Domain(dict(DOMAIN), complete=[name for name in DOMAIN if name != "y"])
    with_y = bind_regression(formula, partly).block(every.assign(y=np.where(np.arange(120) < 7, np.nan, 5.0)))
    assert (~with_y.present).sum() <= 7


def test_in_a_complete_design_the_middle_and_the_first_level_stand_for_what_is_missing():
    design = bind_regression("y ~ x + g", DOMAIN)
    for strange in (np.nan, None, "no number", [1], pd.NaT):
        data = pd.DataFrame({"y": [strange], "x": [strange], "g": [strange]}, dtype=object)
        assert all_columns(design.block(data)).tolist() == [[1.0, -1.0, -1.0, 0.0, 0.0]]
    infinite = design.block(pd.DataFrame({"y": [-np.inf], "x": [np.inf], "g": ["c"]}))
    assert all_columns(infinite).tolist() == [[1.0, -1.0, 1.0, 1.0, -1.0]]


@pytest.mark.parametrize(
    ("formula", "options", "domain"),
    [
        ("y ~ x", {"subset": "x > 0"}, DOMAIN),
        ("y ~ x", {"weights": "z"}, DOMAIN),
        ("y ~ np.log(x)", {}, DOMAIN.extended({"np.log(x)": (-3, 2)})),
        ("y ~ np.where(x > 0, np.log(x), 0)", {}, DOMAIN.extended({"np.where(x > 0, np.log(x), 0)": (-3, 2)})),
        ("y ~ w", {}, DOMAIN),
        ("y ~ x", {}, Domain(dict(DOMAIN), complete=["x"])),
    ],
)
def test_a_design_whose_rows_may_vanish_is_not_complete(formula, options, domain):
    assert not bind_regression(formula, domain, **options).complete


@pytest.mark.parametrize("formula", FORMULAS + OURS)
def test_contrasts_say_which_columns_follow_from_a_level(formula):
    design = bind_regression(formula, DOMAIN)
    block = design.block(frame())
    Z = all_columns(block)
    assert len(design.factors) == len(block.codes)
    for factor, code in zip(design.factors, block.codes, strict=True):
        assert len(factor.levels) == len(factor.contrasts) > code.max()
        np.testing.assert_allclose(factor.contrasts[code], Z[:, list(factor.columns)], atol=1e-15)
    of_levels = {column for factor in design.factors for column in factor.columns}
    others = [
        j for j, name in enumerate(design.names) if j not in of_levels and name != "Intercept" and "1 *" not in name
    ]
    assert all(len(np.unique(Z[:, j])) > 12 for j in others)


def test_factors_are_named_and_a_combination_stands_for_its_parts():
    design = bind_regression("y ~ C(g) * k + I(x > 0)", DOMAIN)
    facts = [(f.name, len(f.levels), [design.names[j] for j in f.columns], f.used) for f in design.factors]
    assert facts == [
        ("C(g)", 3, ["C(g)[T.a]", "C(g)[T.c]"], False),
        ("k", 2, ["k[T.2]"], False),
        ("C(g):k", 6, ["C(g)[T.a]", "C(g)[T.c]", "k[T.2]", "C(g)[T.a]:k[T.2]", "C(g)[T.c]:k[T.2]"], True),
        ("I(x > 0)", 2, ["I(x > 0)"], True),
    ]
    assert design.factors[2].levels[:3] == (("b", 1), ("b", 2), ("a", 1))
    assert np.unique(design.factors[0].contrasts).tolist() == [-1, 1]


@pytest.mark.parametrize("formula", [f for f in EXACT + OURS if "g" in f or "k" in f or ">" in f])
def test_the_null_space_is_that_of_the_rows_whose_levels_are_kept(formula):
    design = bind_regression(formula, DOMAIN)
    assert design.null_space().shape == (len(design.names), 0)
    block = design.block(frame(1500))
    Z = all_columns(block)[:, : len(design.names)]
    rng = np.random.default_rng(7)
    for _ in range(6):
        kept = [rng.uniform(size=len(f.levels)) > 0.35 for f in design.factors]
        rows = np.logical_and.reduce([mask[code] for mask, code in zip(kept, block.codes, strict=True)])
        null = design.null_space(kept)
        if not rows.any():
            continue
        np.testing.assert_allclose(Z[rows] @ null, 0, atol=1e-9)
        np.testing.assert_allclose(null.T @ null, np.eye(null.shape[1]), atol=1e-12)
        values = np.linalg.svd(Z[rows], compute_uv=False)
        assert null.shape[1] == len(design.names) - (values > 1e-5 * values[0]).sum()


def test_additive_factors_with_levels_left_out_lose_these_levels_only():
    design = bind_regression("y ~ x + g + k", DOMAIN)
    kept = [np.array([True, True, False]), None]
    null = design.null_space(kept)
    assert null.shape == (5, 1)
    matrix, _ = design.to_original(response=False)
    lost = (matrix @ null)[:, 0]
    assert np.flatnonzero(np.abs(lost) > 1e-9).tolist() == [list(design.names).index("g[T.c]")]
    first = design.null_space([np.array([False, True, True]), None])
    assert np.abs((matrix @ first)[0, 0]) > 0.1  # without rows at the reference level, the intercept is not identified


@pytest.mark.parametrize(
    ("formula", "says"),
    [
        ("y ~ x + I(2 * x)", r"^I\(2 \* x\) is collinear with x whatever the data are; leave one of them out$"),
        ("y ~ x + z + I(x - z)", "is collinear with x and z whatever the data are; leave one of them out"),
        ("y ~ x + np.square(x) + I(x ** 2)", "is collinear with np.square"),
        ("y ~ g + I(g == 'a')", r"I\(g == 'a'\) is collinear with g\[T.a\] whatever"),
        ("y ~ g + C(g, Sum)", "is collinear with"),
        ("y ~ cr(x, knots=[0, 1, 2])", "is collinear with Intercept, .* and . more whatever .* or the intercept"),
        ("y ~ poly(x, 2) + x", r"x is collinear with|is collinear with x"),
        ("y ~ np.log(z) + np.log10(z)", "np.log10.z. is collinear with np.log.z."),
        ("y ~ I(x > 1) + I(1 < x)", r"I\(1 < x\) is collinear with I\(x > 1\)"),
        ("y ~ I(x < 0) + I(0 <= x <= 1) + I(x > 1)", "is collinear with Intercept, .* and 1 more whatever"),
        ("y ~ x + I(x * (x > 1)) + I(x * (x <= 1))", "is collinear with Intercept, x and 1 more whatever"),
    ],
)
def test_predictors_that_are_collinear_whatever_the_data_are_are_refused(formula, says):
    with pytest.raises(FormulaError, match=says):
        bind_regression(formula, DOMAIN)


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ I(x > 2.99999) + x",
        "y ~ I(x > 2.99999) + I(x > 2.999999)",
        "y ~ I(x > 1) + I(x >= 1)",
        "y ~ 0 + I(x < 0) + I(0 <= x <= 1) + I(x > 1)",
        "y ~ I(x > 1) * I(z > 2) + I(x > 0):I(z > 2)",
        "y ~ x + I(x > 1) + I(x * (x > 1))",
        "y ~ np.maximum(x - 2.9999, 0) + z",
        "y ~ poly(x, 8) + np.log(z)",
        "y ~ bs(x, knots=[2.9999, 2.99999])",
        "y ~ x + I(x ** 2) + I(x ** 3) + np.exp(x)",
        "y ~ g * k * x * z",
        "y ~ np.floor(x / 100) + x",
    ],
)
def test_predictors_that_some_data_tell_apart_are_not_refused(formula):
    domain = DOMAIN.extended({"np.floor(x / 100)": (-1, 1)})
    assert bind_regression(formula, domain).null_space().shape[1] == 0


def test_bounds_by_formula_name_narrow_or_replace_those_of_the_columns():
    assert bind_regression("np.log(y) ~ x", {"np.log(y)": (0, 2), "x": (0, 1)}).response_half == 1
    assert bind_regression("I(x**2) ~ z", {"I(x**2)": (0, 4), "x": (0, 3), "z": (0, 1)}).response_half == 2
    with pytest.raises(DomainError, match="contradict"):
        bind_regression("I(x**2) ~ z", {"I(x**2)": (10, 40), "x": (0, 3), "z": (0, 1)})
    block = bind_regression("np.log(y) ~ x", {"np.log(y)": (0, 2), "x": (0, 1)}).block(
        pd.DataFrame({"y": [-1.0, 0.0, np.e], "x": 0.5})
    )
    assert block.present.tolist() == [False, True, True]
    np.testing.assert_allclose(block.response, [0, -1, 0], atol=1e-15)


REFUSALS = [
    ("y ~ x + y", FormulaError, "'y' is the response and a predictor; take it out of the right-hand side"),
    ("np.log(y) ~ I(x * y)", FormulaError, "'y' is the response and a predictor"),
    ("y ~ x - x.mean()", FormulaError, "mean of all rows"),
    ("y ~ x - x.shift(1)", FormulaError, "formulas have no function 'x.shift'"),
    ("y ~ center(x)", FormulaError, "uses the mean of all rows, which are private; write"),
    ("y ~ scale(x)", FormulaError, r"scale\(x\) uses the mean and std dev of all rows, which are private; write I"),
    ("y ~ log(x)", FormulaError, r"formulas have no function 'log'; write np.log\(x\)"),
    ("y ~ relevel(g, 'b')", FormulaError, "the reference is the first level in the domain"),
    ("y ~ C(class)", FormulaError, r"for a column named 'class' write Q\('class'\)"),
    ("y ~ from", FormulaError, r"for a column named 'from' write Q\('from'\)"),
    ("y ~ np.foo(x)", FormulaError, "formulas have no function 'np.foo'; did you mean np.floor. help"),
    ("y ~ I(x ^ 2)", FormulaError, r"'\^' is not a power in Python; write I\(x\*\*2\)"),
    ("y ~ x | g", FormulaError, r"'\|' has no meaning in formulas here; for an intercept of each level write y ~ x \+"),
    ("y ~ bs(x, df=4)", FormulaError, "knots"),
    ("y ~ bs(x)", FormulaError, "knots"),
    ("y ~ cr(x, knots=[0], constraints='center')", FormulaError, "knots"),
    ("y ~ bs(x, knots=[7])", FormulaError, "between its bounds; write"),
    ("y ~ bs(x, knots=z)", FormulaError, "must be a number"),
    ("y ~ poly(x)", FormulaError, "poly"),
    ("y ~ poly(x, 0)", FormulaError, "poly"),
    ("y ~ poly(w, 2)", DomainError, "column 'w' has no declared bounds; write domain="),
    ("y ~ poly(x - x.mean(), 2)", FormulaError, "mean of all rows"),
    ("y ~ I(g == 'q')", FormulaError, "'q' is not a declared level of 'g'"),
    ("y ~ C(g, Sum('q'))", FormulaError, "'q' is not a declared level of 'g'; choose the reference among 'b', 'a'"),
    ("y ~ C(g, Treatment('zz'))", FormulaError, r"'zz' is not a declared level of 'g'; .*C\(g, Treatment\('b'\)\)"),
    ("y ~ C(g, Poly(scores=[1]))", FormulaError, "do not fit"),
    ("y ~ C(g, levels=['a'])", FormulaError, "is not understood; write"),
    ("y ~ C(w)", DomainError, "needs the levels of 'w'; write domain="),
    ("y ~ C(x)", DomainError, "needs the levels of 'x'"),
    ("y ~ np.log(x)", DomainError, r"is not finite everywhere on the declared bounds .* domain=\{'np.log\(x\)'"),
    ("y ~ np.log(u)", DomainError, r"np.log\(u\) is infinite at the declared bound u = 0; declare a positive lower "
     r"bound, as in domain=\{'u': \(1, 500000\)\}, or write np.log1p\(u\)"),
    ("y ~ I(g + 1)", FormulaError, "levels"),
    ("g ~ x", FormulaError, "has levels and is used as a number"),
    ("y ~ C(g, Median)", FormulaError, "Treatment, Sum, Helmert, Poly, Diff"),
    ("y ~ I(x * 0)", DomainError, "constant on the declared bounds; leave it out"),
    ("I(y * 0) ~ x", DomainError, "constant on the declared bounds"),
    ("y ~ I(3)", FormulaError, "reads no column"),
    ("y ~ C(g):g", FormulaError, "'C.g.:g' has 'g' twice; leave out"),
    ("y ~ 0", FormulaError, "no coefficients"),
    ("~ x", FormulaError, "needs exactly one response, on the left of ~; write it like"),
    ("y + z ~ x", FormulaError, "needs exactly one response"),
    ("poly(y, 2) ~ x", FormulaError, "several columns"),
    ("y ~ (x", FormulaError, "cannot be read"),
    ("", FormulaError, "needs exactly one response"),
    (3, FormulaError, "text"),
    ("y ~ income", DomainError, r"column 'income' is used as a number and declared as the two levels \[0, 20\]; did "
     r"you mean the bounds \(0, 20\)\? For two levels write C\(income\) and Levels\(\[0, 20\]\)"),
    ("y ~ I(2 * income)", DomainError, "did you mean the bounds"),
]  # fmt: skip


@pytest.mark.parametrize(("formula", "error", "says"), REFUSALS)
def test_what_cannot_be_bounded_is_refused_with_the_cure(formula, error, says):
    with pytest.raises(error, match=says) as caught:
        bind_regression(formula, DOMAIN.extended({"u": (0, 500_000), "income": [0, 20]}))
    text = str(caught.value)
    assert "; " in text
    assert not text.endswith(".")
    assert text[0].islower() or not text[0].isalpha() or text.startswith(("C(", "I("))
    assert caught.value.__context__ is None and caught.value.__cause__ is None


def test_two_levels_that_are_meant_are_not_taken_for_bounds():
    for known in (Levels((0, 20)), Levels((0, 0.5)), [0, 1], [1, 2], [True, False], [20, 0], ["0", "20"], [0, 10, 20]):
        assert bind_regression("y ~ m", DOMAIN.extended({"m": known})).factors[0].name == "m"
    assert bind_regression("y ~ C(m)", DOMAIN.extended({"m": [0, 20]})).names[1] == "C(m)[T.20]"
    with pytest.raises(DomainError, match=r"declared as the two levels \[0, 0.5\]; did you mean the bounds \(0, 0.5\)"):
        bind_regression("y ~ m", DOMAIN.extended({"m": [0, 0.5]}))


def test_a_factor_of_more_levels_than_rows_can_tell_apart_is_refused_before_it_is_coded():
    domain = DOMAIN.extended({"id": [str(k) for k in range(60)], "key": [str(k) for k in range(6000)]})
    with pytest.raises(
        FormulaError, match=r"^C\(id\) has 60 levels for 500 rows, fewer than 10 rows a level; group the"
    ):
        bind_regression("y ~ C(id)", domain, rows=500)
    assert len(bind_regression("y ~ C(id)", domain, rows=600).names) == 60
    with pytest.raises(FormulaError, match=r"^C\(id\):g has 180 levels for 1,000 rows"):
        bind_regression("y ~ C(id):g", domain, rows=1000)
    with pytest.raises(FormulaError, match="key has 6,000 levels, more than the 2,000"):
        bind_regression("y ~ key", domain)


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
    design = bind_regression(formula, DOMAIN)
    x, z = (grid.ravel() for grid in np.meshgrid(np.linspace(-1, 3, 401), np.linspace(2, 5, 101)))
    rows = pd.DataFrame({"x": x, "z": z, "g": np.array(["a", "b", "c"])[np.arange(len(x)) % 3], "y": 5.0})
    scaled = ((design.matrix(rows) - design.centers) / design.halves)[:, int(design.intercept) :]
    assert np.abs(scaled).max() <= 1 + 1e-9
    if design.intercept:
        ends = np.array([[-1], [1]]) * np.ones(scaled.shape[1])
        np.testing.assert_allclose([scaled.min(axis=0), scaled.max(axis=0)], ends, atol=2e-3)


def test_legendre_polynomials_are_orthogonal_on_the_public_range_whatever_the_data():
    design = bind_regression("y ~ poly(x, 4)", DOMAIN)
    matrix = design.matrix(pd.DataFrame({"x": np.linspace(-1, 3, 20001)}))
    np.testing.assert_allclose(np.corrcoef(matrix[:, 1:].T), np.eye(4), atol=1e-3)
    assert design.names[1:] == tuple(f"poly(x, 4)[{k}]" for k in range(4))


def test_a_function_of_the_users_own_is_bounded_and_called_row_by_row():
    def fussy(x):
        if (x > 2).any():
            raise SystemExit(1)
        return 1 / (2.5 - x)

    rowwise(fussy, bounds=(0.2, 2.0), name="fussy_new")
    design = bind_regression("y ~ fussy_new(x)", INCOMPLETE)
    block = design.block(pd.DataFrame({"y": 5.0, "x": [-1.0, 1.5, 2.9, 0.0]}))
    assert block.present.tolist() == [True, True, False, True]
    np.testing.assert_allclose(design.matrix(pd.DataFrame({"x": [-1.0, 0.0]}))[:, 1], [1 / 3.5, 0.4])
    rowwise(lambda a, b: a - b, bounds=lambda a, b: (a[0] - b[1], a[1] - b[0]), name="gap_new")
    assert bind_regression("y ~ gap_new(x, z)", DOMAIN).halves.tolist() == [1, 3.5]
    bad = [{"bounds": (2, 1)}, {"bounds": 3}, {"bounds": (0, 1), "name": "np.log"}, {"bounds": (0, 1), "name": "C"}]
    for wrong in (*bad, {"bounds": (0, 1), "name": "gap_new"}):
        with pytest.raises(FormulaError):
            rowwise(lambda x: x, **wrong)


def test_a_function_that_would_mix_rows_sees_one_at_a_time():
    def zscore(x):
        return (x - x.min()) / (x.max() - x.min() + 1)

    rowwise(zscore, bounds=(0, 1), name="zscore_new")
    design, data = bind_regression("y ~ zscore_new(x)", DOMAIN), frame(50)
    alone = np.concatenate([all_columns(design.block(data.iloc[[k]])) for k in range(50)])
    np.testing.assert_array_equal(all_columns(design.block(data)), alone)


def test_where_keeps_rows_whose_other_branch_is_no_number():
    domain = Domain({"y": (0, 9), "x": (-1, 3), "np.where(x > 0, np.log(x), 0)": (-7, 2)})
    design = bind_regression("y ~ np.where(x > 0, np.log(x), 0)", domain)
    assert design.block(pd.DataFrame({"y": 1.0, "x": [-1.0, 0.0, 2.0]})).present.all()


def test_quoted_names_work_inside_bases_and_truth_values_in_arithmetic():
    domain = Domain({"y": (0, 9), "a b": (0, 1), "t": bool})
    data = pd.DataFrame({"y": 1.0, "a b": [0.0, 0.5, 1.0], "t": [True, False, True]})
    design = bind_regression("y ~ poly(Q('a b'), 2) + bs(Q('a b'), knots=[.5], degree=1) + I(2 * t) - 1", domain)
    matrix = design.matrix(data)
    assert matrix[:, 0].tolist() == [-1, 0, 1]
    assert matrix[:, -1].tolist() == [2, 0, 2]
    chosen = bind_regression("y ~ 1", domain, subset="t and not 0.2 < Q('a b') < 0.7").block(data)
    assert chosen.present.tolist() == [True, False, True]


def test_splines_keep_their_bounds_on_ranges_far_from_zero():
    design = bind_regression("y ~ bs(x, knots=[1000000000.5])", {"y": (0, 1), "x": (1e9, 1e9 + 1)})
    near = bind_regression("y ~ bs(x, knots=[0.5])", {"y": (0, 1), "x": (0, 1)})
    np.testing.assert_allclose(design.halves, near.halves, rtol=1e-9)


def test_without_an_intercept_a_column_far_from_zero_keeps_its_digits():
    design = bind_regression("y ~ 0 + x", {"y": (0, 1), "x": (1e6, 1e6 + 1)})
    values = all_columns(design.block(pd.DataFrame({"y": 0.5, "x": 1e6 + np.array([0.25, 0.5])})))[:, 0]
    np.testing.assert_allclose(values * design.halves[0] - 1e6, [0.25, 0.5], atol=1e-6)


def test_a_column_called_intercept_is_a_column():
    domain = {"y": (0, 1), "Intercept": (2, 4)}
    design = bind_regression("y ~ 0 + Intercept", domain)
    assert not design.intercept
    assert design.halves.tolist() == [4]
    with pytest.raises(FormulaError, match="one name"):
        bind_regression("y ~ Intercept", domain)


def test_the_model_matrix_marks_rows_it_cannot_map():
    new = pd.DataFrame({"x": [1.0, np.nan, 9.0], "g": ["a", "a", "zz"]}, index=[5, 5, 7])
    with pytest.warns(PrivstatsWarning) as told:
        matrix = bind_regression("y ~ x + g", DOMAIN).matrix(new)
    assert [str(one.message) for one in told] == [
        "1 of 3 new rows have 'x' outside its bounds, -1 to 3, and their prediction extrapolates; continuing",
        "1 of 3 new rows have a level of 'g' that is not declared, and their prediction is NaN; choose among 'b', 'a', "
        "'c'; continuing",
    ]
    assert np.isnan(matrix).any(axis=1).tolist() == [False, True, True]
    with pytest.warns(PrivstatsWarning, match="1 of 1 new rows have 'x' outside its bounds"):
        assert bind_regression("y ~ x", DOMAIN).matrix(pd.DataFrame({"x": [9.0]})).tolist() == [[1.0, 9.0]]
    assert bind_regression("y ~ 1", DOMAIN).matrix(new).tolist() == [[1.0]] * 3
    with pytest.raises(FormulaError, match="no column 'x'"):
        bind_regression("y ~ x", DOMAIN).matrix(pd.DataFrame({"z": [9.0]}))


def test_new_rows_without_a_value_of_an_expression_or_beyond_its_bounds_are_said():
    """The design of new rows warns of expressions without a finite value or beyond their bounds.

    Earlier, predictions were infinite, or extrapolated without a warning; a number in place of a date gave a NaN.
    """
    design = bind_regression("y ~ I(1/x) + d", {**DOMAIN, "I(1 / x)": (0, 4), "d": ("2020-01-01", "2021-12-31")})
    dates = [pd.Timestamp("2020-02-01")] * 3
    with pytest.warns(PrivstatsWarning) as told:
        matrix = design.matrix(pd.DataFrame({"x": [0.0, 0.1, 1.0], "d": dates}))
    assert [str(one.message) for one in told] == [
        "1 of 3 new rows have no finite value of 'I(1 / x)', and their prediction is NaN; continuing",
        "1 of 3 new rows have 'I(1 / x)' outside its bounds, 0 to 4, and their prediction extrapolates; continuing",
    ]
    assert np.isnan(matrix).any(axis=1).tolist() == [True, False, False]
    with pytest.warns(PrivstatsWarning, match="1 of 1 new rows have 'd' of another type than declared, 2020"):
        assert np.isnan(design.matrix(pd.DataFrame({"x": [1.0], "d": [60]}))).all()


# --- columns without declared bounds


def test_expressions_of_columns_that_are_not_declared_lack_bounds_and_take_estimated_ones():
    design = bind_regression("y ~ w + np.log(v) + x:w + g", INCOMPLETE)
    assert design.lacking == ("w", "np.log(v)")
    assert design.draw(5, public_stream(0))["w"].between(-1, 1).all()
    found = design.with_bounds({"w": (0, 50), "np.log(v)": (-2, 4)})
    assert found.lacking == ()
    assert found.names == design.names
    assert dict(zip(found.names, found.bounds(), strict=True))["w"] == (0, 50)
    assert pickle.loads(pickle.dumps(found)).bounds() == found.bounds()
    assert pickle.loads(pickle.dumps(design)).lacking == design.lacking
    assert [factor.name for factor in design.factors] == ["g"]


def test_estimated_bounds_are_held_inside_what_follows_from_the_formula():
    design = bind_regression("y ~ np.exp(w) + I(np.exp(v) + 5)", DOMAIN)
    found = design.with_bounds({"np.exp(w)": (-7, 3), "I(np.exp(v) + 5)": (1, 2)})
    assert found.bounds()[1:] == ((0, 3), (5, 6))


def test_a_plain_column_that_is_declared_complete_stays_so_when_its_bounds_are_estimated():
    domain = Domain(dict(DOMAIN), complete=[*DOMAIN, "w"])
    design = bind_regression("y ~ w", domain)
    assert design.complete and design.with_bounds({"w": (0, 1)}).complete
    squared = bind_regression("y ~ I(w ** 2)", domain)
    assert not squared.complete and not squared.with_bounds({"I(w ** 2)": (0, 1)}).complete


# --- selection, weights, offset, families

DATA = pd.DataFrame(
    {"x": [-1.0, 0.0, 4.0], "won": ["no", "yes", None], "count": [0.0, 30.0, 3.0], "years": [1.0, 2.0, 4.0]}
)
LINKED = Domain({"x": (-1, 3), "won": ["no", "yes"], "count": (0, 20), "years": (0.5, 10), "kind": ["a", "b", "c"]})


def test_rows_outside_a_subset_or_without_a_weight_are_absent():
    design = bind_regression("y ~ x", DOMAIN, subset="x > 0 & g == 'a' | z < 3", weights="z")
    data = pd.DataFrame({"y": 5.0, "x": [1, 1, -1, -1, np.nan], "g": list("abaaa"), "z": [4, 4, 4, 2.5, np.nan]})
    block = design.block(data)
    # in complete columns, missing x and z become the middles of their bounds, 1 and 3.5
    assert block.present.tolist() == [True, False, False, True, True]
    assert block.weight.tolist() == [0.8, 0.8, 0.8, 0.5, 0.7]
    assert (design.weighted, design.largest_weight) == (True, 5.0)
    partly = bind_regression("y ~ x", INCOMPLETE, weights="z").block(data)
    assert partly.present.tolist() == [True, True, True, True, False]


@pytest.mark.parametrize(
    ("argument", "value", "error", "says"),
    [
        (
            "subset",
            DATA["x"],
            FormulaError,
            'subset is a Series; write it as text, subset="x > 0.5", so that the number',
        ),
        ("subset", "~x > 1", FormulaError, r"write ~\(...\)"),
        ("subset", "x > x.mean()", FormulaError, "mean of all rows"),
        ("weights", 3, FormulaError, "weights is an int; write it as text"),
        ("weights", "x", DomainError, "lies between -1 and 3 by its declared bounds; declare 0 <= low < high"),
        ("weights", "w", DomainError, "column 'w' has no declared bounds"),
        ("offset", "1000 * z", DomainError, "may be as large as 5000 .* write it on the link's scale"),
        ("offset", ["z"], FormulaError, "offset is a list"),
    ],
)
def test_a_bad_selection_is_refused_with_the_cure(argument, value, error, says):
    with pytest.raises(error, match=says):
        bind_regression("y ~ x", DOMAIN, **{argument: value})


def test_the_second_of_two_levels_counts_as_one():
    block = bind_regression("won ~ x", LINKED, family=BINOMIAL).block(DATA)
    assert block.response.tolist() == [0, 1, 0]
    assert block.present.tolist() == [True, True, False]
    above = bind_regression("I(count > 5) ~ x", LINKED, family=BINOMIAL).block(DATA)
    assert above.response.tolist() == [0, 1, 0]
    assert bind_regression("y ~ x", LINKED, family=BINOMIAL).lacking == ()  # a binomial response is 0 or 1


def test_counts_are_divided_by_their_declared_maximum():
    design = bind_regression("count ~ x", LINKED, family=POISSON)
    np.testing.assert_allclose(design.block(DATA).response, [0, 1, 3 / 20], atol=2.0**-21)
    assert (design.response_center, design.response_half) == (0.0, 20.0)


def test_coefficients_of_a_link_have_units_of_their_own():
    matrix, shift = bind_regression("count ~ x", LINKED, family=POISSON).to_original(response=False)
    theta, X = np.array([0.3, 0.8]), np.array([[1, -1], [1, 3]])
    np.testing.assert_allclose(X @ (matrix @ theta + shift), [0.3 - 0.8, 0.3 + 0.8])


def test_an_offset_is_the_column_before_the_response_and_a_missing_one_drops_its_row():
    design = bind_regression("count ~ x", LINKED, offset="np.log(years)", family=POISSON)
    block = design.block(DATA.assign(years=[1.0, np.nan, 40.0]))
    assert "years" in design.reads and design.offset and design.width == 4
    np.testing.assert_allclose(all_columns(block)[:, 2], [0, 0, np.log(10)], atol=2.0**-21)
    assert block.present.tolist() == [True, False, True]
    assert design.offset_bounds == (np.log(0.5), np.log(10))
    with pytest.warns(PrivstatsWarning, match="1 of 3 new rows have 'years' outside its bounds"):
        added = design.offsets(pd.DataFrame({"years": [2.0, np.nan, 20.0]}))
    np.testing.assert_allclose(added, np.log([2, np.nan, 20]))


@pytest.mark.parametrize(
    ("formula", "family", "error", "says"),
    [
        ("kind ~ x", BINOMIAL, FormulaError, r"the response 'kind' has 3 levels and dp_glm models two; for one against "
         r"the others write I\(kind == 'a'\) ~ x"),
        ("count ~ x", BINOMIAL, DomainError, r"a binomial response is 0 or 1 and 'count' is declared as 0 to 20; write "
         r"I\(count > 10\) ~ x, or choose family='gamma'"),
        ("x ~ count", POISSON, DomainError, r"a poisson response is at least 0 and 'x' is declared as -1 to 3; write "
         r"domain=\{'x': \(0, 3\)\}"),
        ("won ~ x", POISSON, FormulaError, "the response 'won' has levels"),
        ("x ~ count", GAMMA, DomainError, "a gamma response is at least 0"),
    ],
)  # fmt: skip
def test_a_response_that_the_family_cannot_have_is_refused_by_its_declaration(formula, family, error, says):
    with pytest.raises(error, match=says):
        bind_regression(formula, LINKED, family=family)


def test_columns_that_are_products_of_other_columns_name_their_parents():
    design = bind_regression("y ~ x * z + I(x**2) + np.square(z) + np.log(z) + np.log(z):x + g:x", DOMAIN)
    at = {name: j for j, name in enumerate(design.names)}
    parents = [
        ("x:z", "x", "z"),
        ("I(x ** 2)", "x", "x"),
        ("np.square(z)", "z", "z"),
        ("np.log(z):x", "x", "np.log(z)"),
    ]
    assert sorted(design.products) == sorted(tuple(at[name] for name in names) for names in parents)
    X = design.matrix(frame())
    for column, a, b in design.products:
        np.testing.assert_allclose(X[:, column], X[:, a] * X[:, b])
    assert bind_regression("y ~ x:z + I(x ** 2) + z", DOMAIN).products == ()


@pytest.mark.parametrize(
    ("others", "spelled", "products"),
    [
        (
            "x",
            ["I(x**2)", "I(x ** 2.0)", "np.square(x)", "I(x*x)", "np.power(x, 2)", "I(np.square(I(x)))"],
            [(2, 1, 1)],
        ),
        ("x + z", ["x:z", "z:x", "I(x*z)", "I(z*x)"], [(3, 1, 2)]),
        ("x + np.log(z)", ["x:np.log(z)", "I(np.log(z) * x)"], [(3, 1, 2)]),
        # here x itself is not a column of the model, but z and x^2 are
        ("I(x**2) + z", ["I(x**2):z", "I(x**2 * z)", "np.square(x):z"], [(3, 1, 2)]),
        # x^3, the product of x and the product x^2, is not listed
        ("x + I(x**2)", ["I(x**3)", "np.power(x, 3)", "I(x*x*x)", "I(x**2):x"], [(2, 1, 1)]),
        ("x", ["np.power(x, 3)", "I(2 * x**2)", "I(x + x**2)", "np.exp(2 * x)", "g", "poly(z, 2)", "poly(z, 2):x"], []),
        ("poly(x, 2) + z", ["poly(x, 2):z"], []),
    ],
)
def test_how_a_product_is_spelled_decides_nothing(others, spelled, products):
    first = None
    for term in spelled:
        design = bind_regression(f"y ~ {others} + {term}", DOMAIN)
        assert design.products == tuple(products)
        made = [design.bounds()[column] for column, *_ in products]
        first = first or made
        assert made == first


def test_a_product_of_too_many_levels_is_refused_before_it_is_coded():
    domain = DOMAIN.extended({"a": [str(k) for k in range(50)], "b": [str(k) for k in range(50)]})
    with pytest.raises(FormulaError, match=r"^a:b has 2,500 levels, more than the 2,000 that fit"):
        bind_regression("y ~ a * b", domain)


def test_hypotheses_name_coefficients():
    design = bind_regression("y ~ x + g", DOMAIN)
    R, q = design.constraint("x = 2 * g[T.a], Intercept = 3")
    assert R.tolist() == [[0, -2, 0, 1], [1, 0, 0, 0]]
    assert q.tolist() == [0, 3]
    with pytest.raises(FormulaError, match=r"the fit has no coefficient 'z'; it has Intercept, g\[T.a\], g\[T.c\], x"):
        design.constraint("x = z")


@pytest.mark.parametrize(
    "formula", ["y ~ w + np.exp(w) + np.tanh(w) + np.clip(w, 0, 5) + x:w + g:w + w:v:u:s", "v ~ w + I(w > 3)"]
)
@pytest.mark.parametrize(
    "ends", [(-2e70, 2e70), (1e70, 2e70), (-2e70, -1e70), (1e-14, 2e-14), (7.0, 7.0), (np.nan, np.inf)]
)
def test_no_estimated_bounds_however_far_off_are_refused_or_change_the_shape(formula, ends):
    design = bind_regression(formula, INCOMPLETE, subset="w < 3")
    found = design.with_bounds(dict.fromkeys(design.lacking, ends))
    assert found.lacking == ()
    assert (found.names, found.complete, found.reads, found.width) == (
        design.names,
        design.complete,
        design.reads,
        design.width,
    )
    assert all(0 < half < np.inf for half in (*found.halves, found.response_half))
    data = frame(30).assign(**dict.fromkeys("wvus", np.linspace(-5, 5, 30)))
    block = found.block(data)
    assert np.abs(all_columns(block)).max() <= 1 + 1e-6
    assert all(np.isfinite(part).all() for part in found.to_original())
    assert pickle.loads(pickle.dumps(found)).bounds() == found.bounds()
    domain = Domain.from_json(found.domain.to_json())
    assert domain == found.domain


def test_estimated_bounds_of_a_column_bound_nothing_that_is_computed_of_it():
    design = bind_regression("y ~ w + np.tanh(w)", DOMAIN)
    found = design.with_bounds({"w": (20, 30)})
    assert found.bounds()[1:] == ((20, 30), (-1, 1))
    with pytest.raises(DomainError, match="column 'w' has no declared bounds"):
        bind_regression("y ~ w + poly(w, 2)", DOMAIN)
    for argument in ("weights", "offset"):
        with pytest.raises(DomainError, match="column 'w' has no declared bounds"):
            bind_regression("y ~ w", DOMAIN, **{argument: "w"})


def test_estimated_counts_stay_what_a_family_can_have():
    design = bind_regression("w ~ x", DOMAIN, family=POISSON)
    assert design.lacking == ("w",)
    assert design.with_bounds({"w": (-30, 50)}).response_half == 50
    assert design.with_bounds({"w": (-30, -10)}).response_half == 20


def test_a_formula_is_parsed_once_by_all_who_ask(monkeypatch):
    read, once = [], patsy.parse_formula.parse_formula
    monkeypatch.setattr(patsy.parse_formula, "parse_formula", lambda formula: read.append(formula) or once(formula))
    formula = "once ~ only + log"
    first = language.parse_formula(formula, "y ~ x")
    assert language.parse_formula(formula, "y") == first
    assert read == [formula]
    for like in ("y ~ x", "y"):
        with pytest.raises(FormulaError, match=f"write it like '{like}'"):
            language.parse_formula("y ~ (", like)


def test_a_centred_product_does_not_depend_on_the_origin_of_its_number():
    years = np.arange(1990.0, 2021.0)
    rows = pd.DataFrame({"year": years, "g": ["a", "b"] * 15 + ["a"], "y": 0.0})
    later = rows.assign(year=years - 2005)
    found = []
    for data, bounds in ((rows, (1990, 2020)), (later, (-15, 15))):
        domain = {"year": bounds, "g": ["a", "b"], "y": (0, 1)}
        design = bind_regression("y ~ year * C(g)", domain, centred=True)
        found.append(all_columns(design.block(data)))
        plain = bind_regression("y ~ year * C(g)", domain)
        assert (design.coding[1, 3] == -sum(bounds) / 2) and np.array_equal(plain.coding, np.eye(4))
    np.testing.assert_array_equal(*found)
    alone = bind_regression("y ~ year + year:C(g)", domain | {"year": (1990, 2020)}, centred=True)
    # without a main effect of the factor, there are no columns of the factor to subtract from the products
    assert np.array_equal(alone.coding, np.eye(3))


@pytest.mark.parametrize(
    "formula", ["y ~ 0 + C(g)", "y ~ x + C(g) - 1", "y ~ 0 + C(g, Sum)*x", "y ~ 0 + C(g) + C(h) + x"]
)
def test_a_model_whose_columns_add_up_to_one_is_fitted_with_an_intercept(formula):
    data = pd.DataFrame(
        {"y": np.linspace(0, 4, 60), "x": np.linspace(-1, 9, 60) % 3, "g": [*"abc"] * 20, "h": [*"uv"] * 30}
    )
    domain = {"y": (0, 5), "x": (-1, 3), "g": [*"abc"], "h": [*"uv"]}
    design = bind_regression(formula, domain)
    for other in (design.with_intercept(), pickle.loads(pickle.dumps(design.with_intercept()))):
        assert other.intercept and other.names[0] != "Intercept" and sorted(other.names) == sorted(design.names)
        theta = public_stream(3).normal(size=len(design.names))
        scaled = other.block(data).times(np.eye(other.width))[:, :-1] @ theta
        matrix, shift, names = other.to_written()
        assert names == other.as_written.names == design.names
        fitted = other.response_center + other.response_half * scaled
        np.testing.assert_allclose(design.matrix(data) @ (matrix @ theta + shift), fitted, atol=1e-5)


@pytest.mark.parametrize("formula", ["y ~ x", "y ~ C(g)", "y ~ 0 + x", "y ~ 0 + C(g):x", "y ~ 0 + x + I(x**2)"])
def test_other_models_are_fitted_as_they_are_written(formula):
    design = bind_regression(formula, {"y": (0, 5), "x": (-1, 3), "g": [*"abc"]})
    assert design.with_intercept() is design


def test_estimated_bounds_do_not_choose_the_columns_of_a_design():
    domain = {"y": (0, 5), "g": [*"abc"], "h": [*"uv"]}
    design = bind_regression("y ~ 0 + C(g):C(h) + x + I(x**2)", domain).with_intercept()
    for bounds in ((0.0, 1e-3), (1.6e12, 1.7e12)):
        other = design.with_bounds(dict.fromkeys(design.lacking, bounds))
        assert other.recoded.order == design.recoded.order and other.columns == design.columns
        np.testing.assert_array_equal(other.recoded.matrix, design.recoded.matrix)
        assert other.as_written.names == design.as_written.names and not other.as_written.intercept


def test_rows_at_and_beyond_the_bounds_of_a_spline_of_a_column_are_found():
    domain = Domain({"x": (0, 4), "z": (0, 4), "y": (0, 1)})
    design = bind_regression("y ~ bs(x, knots=[1], upper_bound=3) + bs(np.log1p(z), knots=[1]) + poly(z, 2)", domain)
    rows = pd.DataFrame({"x": [-1.0, 0.0, 1.0, 3.0, 9.0], "z": [1.0, 1.0, 4.0, 1.0, -0.5]})
    assert design.held(rows, "x").tolist() == [True, True, False, True, True]
    assert design.held(rows, "z").tolist() == [False, False, True, False, True]
    assert not bind_regression("y ~ x", domain).held(rows, "x").any()
