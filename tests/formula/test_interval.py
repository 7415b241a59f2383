"""Values of expressions in valid rows lie within the derived bounds; monotone expressions attain the bounds."""

import ast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privstats.errors import FormulaError
from privstats.formula.expression import bounds_of, columns, is_total, parse, powers, spelling
from privstats.formula.functions import _BUILT_IN, FUNCTIONS, rowwise
from privstats.formula.interval import Interval
from privstats.formula.values import values_of

BUILT_IN = sorted(FUNCTIONS.keys() & _BUILT_IN)
ends = st.floats(-50, 50).map(lambda value: round(value, 3))
intervals = st.tuples(ends, ends).map(sorted).map(lambda pair: Interval(pair[0] + 0.0, pair[1] + 0.0))


@st.composite
def expressions(draw, depth=3):
    if depth == 0:
        return draw(st.sampled_from(["a", "b", "2", "0.5", "-3"]))
    inner = expressions(depth=depth - 1)
    form = draw(
        st.sampled_from(
            [
                "{} + {}",
                "{} - {}",
                "{} * {}",
                "{} / {}",
                "({}) ** 2",
                "({}) ** 3",
                "({}) ** -1",
                "-({})",
                "({}) < ({})",
                "({}) >= 0 and ({}) != 1",
                "f",
            ]
        )
    )
    if form == "f":
        name = draw(st.sampled_from(BUILT_IN))
        arguments = [draw(inner) for _ in range(FUNCTIONS[name].arity)]
        if name == "np.power":
            arguments[1] = draw(st.sampled_from(["2", "3", "-1", "0.5"]))
        return f"{name}({', '.join(arguments)})"
    return "(" + form.format(*(f"({draw(inner)})" for _ in range(form.count("{}")))) + ")"


@settings(max_examples=250, deadline=None)
@given(expressions(), intervals, intervals, st.integers(0, 2**32 - 1))
def test_values_of_rows_in_the_domain_lie_in_the_derived_bounds(code, a, b, seed):
    rng = np.random.default_rng(seed)
    rows = {"a": rng.uniform(a.lo, a.hi, 200), "b": rng.uniform(b.lo, b.hi, 200)}
    rows["a"][:3], rows["b"][:3] = [a.lo, a.hi, a.lo], [b.lo, b.hi, b.hi]
    bounds = bounds_of(parse(code), {"a": a, "b": b})
    values = np.broadcast_to(values_of(parse(code), rows), 200)
    values = values[~np.isnan(values)]
    with np.errstate(invalid="ignore"):  # inf - inf is NaN: a value at an infinite bound counts as inside
        below, above = bounds.lo - values, values - bounds.hi
    slack = 1e-9 * np.clip(np.abs(values), 1.0, 1e300)
    assert not (below > slack).any()
    assert not (above > slack).any()


@pytest.mark.parametrize(
    ("code", "bounds"),
    [
        ("np.log(a)", (0.0, np.log(4.0))),
        ("a ** 2", (1.0, 16.0)),
        ("b ** 2", (0.0, 9.0)),
        ("b ** 3", (-27.0, 8.0)),
        ("b * b", (0.0, 9.0)),
        ("np.square(b)", (0.0, 9.0)),
        ("np.power(b, 2)", (0.0, 9.0)),
        ("np.power(b, 3)", (-27.0, 8.0)),
        ("np.power(a, -2)", (1 / 16, 1.0)),
        ("np.power(a, 0.5)", (1.0, 2.0)),
        ("1 / a", (0.25, 1.0)),
        ("np.exp(-a)", (np.exp(-4.0), np.exp(-1.0))),
        ("3 * a - 2 * b", (-1.0, 18.0)),
        ("np.abs(b)", (0.0, 3.0)),
        ("np.sqrt(a)", (1.0, 2.0)),
        ("a * b", (-12.0, 8.0)),
        ("I(a + b)", (-2.0, 6.0)),
        ("np.maximum(a, b)", (1.0, 4.0)),
        ("np.minimum(a, b)", (-3.0, 2.0)),
        ("np.clip(a, 2, 3)", (2.0, 3.0)),
        ("np.where(a > 2, a, b)", (-3.0, 4.0)),
        ("(a > 2) * b", (-3.0, 2.0)),
    ],
)
def test_bounds_of_monotone_and_even_expressions_are_attained(code, bounds):
    found = bounds_of(parse(code), {"a": Interval(1.0, 4.0), "b": Interval(-3.0, 2.0)})
    assert (found.lo, found.hi) == pytest.approx(bounds)


@pytest.mark.parametrize(
    "code", ["1 / b", "np.log(b)", "b ** 0.5", "np.power(b, 0.5)", "np.sqrt(b)", "b ** -1", "np.exp(a * 1e9)"]
)
def test_expressions_that_may_leave_the_numbers_have_no_finite_bounds(code):
    assert not bounds_of(parse(code), {"a": Interval(1.0, 4.0), "b": Interval(-3.0, 2.0)}).is_finite


@pytest.mark.parametrize(
    "code",
    [
        "a - a.mean()", "a[0]", "a.shift(1)", "np.mean(a)", "np.cumsum(a)", "a if a else b", "[a]",
        "np.power(a, b)", "np.power(2, a)", "np.power(a)",
        "(lambda: a)()", "__import__('os').system('true')", "np.log(a, b)", "np.log(x=a)", "a ** b", "'a'", "True * a",
        "center(a)", "f'{a}'", "a @ b", "a // b", "a % b", "zz + a", "(a := b)", "np.log.__call__(a)", "I(*a)",
    ],
)  # fmt: skip
def test_what_is_not_known_to_treat_rows_singly_is_refused(code):
    with pytest.raises(FormulaError):
        bounds_of(parse(code), {"a": Interval(1.0, 4.0), "b": Interval(-3.0, 2.0)})


@pytest.mark.parametrize("code", ["", "a +", "a b", "1a", "(" * 500, "a\n b", "\x00", "-" * 2000 + "a"])
def test_what_is_no_expression_is_refused(code):
    with pytest.raises(FormulaError):
        parse(code)


def test_spellings_of_one_expression_are_one_name():
    assert spelling("I(x**2)") == spelling("I( x ** 2 )") == "I(x ** 2)"
    assert spelling("I(x * x)") == "I(x ** 2)"
    assert spelling("my column") == "my column"


@pytest.mark.parametrize(
    "code", ["a + b", "2 - a", "a ** -1", "a ** 0.5", "np.power(a, 1e999)", "a ** 10**400", "a / b"]
)
def test_an_expression_that_is_no_product_is_one_thing(code):
    assert list(powers(parse(code)).values()) == [1]


def test_columns_are_the_names_that_are_read():
    assert columns(ast.parse("np.log(x1) + I(x2 * x1)", mode="eval").body) == ("x1", "x2")


@pytest.mark.parametrize(
    ("code", "total"),
    [
        ("a + b", True),
        ("np.log(a)", True),
        ("np.log(b)", False),
        ("1 / b", False),
        ("np.clip(np.log(b), 0, 1)", False),
        ("1 / b * 0", False),
        ("b * 0 + 1 / a", True),
    ],
)
def test_an_expression_is_total_where_each_part_of_it_has_finite_bounds(code, total):
    assert is_total(parse(code), {"a": Interval(1.0, 4.0), "b": Interval(-3.0, 2.0)}) is total


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_function_gives_a_row_the_same_bits_in_any_company(name):
    rng = np.random.default_rng(5)
    columns = {column: np.append(rng.normal(0, 2, 100), [np.nan, np.inf, -np.inf, 0.0]) for column in "abc"}
    node = parse(f"{name}({', '.join('abc'[: FUNCTIONS[name].arity])})")
    together = values_of(node, columns)
    assert len(together) == 104
    for k in range(104):
        alone = values_of(node, {column: values[k : k + 1].copy() for column, values in columns.items()})
        np.testing.assert_array_equal(alone, together[k : k + 1])
    np.testing.assert_array_equal(
        values_of(node, {column: values[5:].copy() for column, values in columns.items()}), together[5:]
    )


def test_help_on_functions_lists_all_of_them():
    listed = rowwise.__doc__
    assert all(name in listed for name in BUILT_IN)
