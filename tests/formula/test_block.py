"""Blocks of rows: numbers rounded to a grid, codes of factor levels, and products with matrices.

The bits of a row's numbers depend on this row alone.
"""

import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from privstats.formula.block import CHUNK, Block, Layout, Term, on_block_grid
from privstats.formula.design import bind_regression
from privstats.formula.domain import Domain
from privstats.formula.factors import numeric
from privstats.formula.values import admit
from tests.conftest import thinned
from tests.formula.zoo import DOMAIN, FORMULAS, INCOMPLETE, OURS, all_columns, frame, odd_frame

UNIT, ZERO = np.ones((1, 1)), np.zeros((1, 1))


def parts(block):
    return [block.present, block.weight, *block.codes, *block.numbers.T, block.response]


@thinned(6)
@pytest.mark.parametrize("formula", FORMULAS + OURS)
def test_a_rows_bits_are_its_own_whatever_its_company(formula):
    design = bind_regression(formula, INCOMPLETE)
    data = pd.concat([frame(40), odd_frame(20)], ignore_index=True)
    matrix = np.random.default_rng(1).standard_normal((design.width, 3))
    whole = design.block(data)
    together = whole.times(matrix)
    order = np.random.default_rng(2).permutation(len(data))
    shuffled, doubled = design.block(data.iloc[order]), design.block(pd.concat([data] * 300, ignore_index=True))
    np.testing.assert_array_equal(shuffled.times(matrix), together[order])
    assert whole.times(matrix[:, :0]).shape == (len(data), 0)
    # the last copies of the rows lie in another chunk of the block than the first
    np.testing.assert_array_equal(doubled.times(matrix)[-len(data) :], together)
    for k in range(len(data)):
        alone = design.block(data.iloc[[k]])
        np.testing.assert_array_equal(alone.times(matrix), together[[k]])
        for one, many in zip(parts(alone), parts(whole), strict=True):
            np.testing.assert_array_equal(one, many[[k]])


@pytest.mark.parametrize("formula", FORMULAS + OURS)
def test_numbers_lie_on_the_grid_inside_the_box_and_absent_rows_are_empty(formula):
    for domain in (DOMAIN, INCOMPLETE):
        block = bind_regression(formula, domain).block(odd_frame())
        assert np.abs(block.numbers).max(initial=0) <= 1
        np.testing.assert_array_equal(block.numbers * 2.0**21, np.rint(block.numbers * 2.0**21))
        assert np.abs(all_columns(block)).max() <= 1 + 1e-6
        assert not block.numbers[~block.present].any()
        assert not any(code[~block.present].any() for code in block.codes)
        assert block.present.all() == (domain is DOMAIN)


def test_times_is_the_product_with_all_columns():
    for formula in FORMULAS + OURS:
        block = bind_regression(formula, DOMAIN).block(frame())
        matrix = np.random.default_rng(3).standard_normal((block.layout.width, 4))
        np.testing.assert_allclose(block.times(matrix), all_columns(block) @ matrix, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(block.times(matrix[:, 0])[:, 0], block.times(matrix)[:, 0])
        np.testing.assert_array_equal(all_columns(block)[:, -1], block.response)


def test_terms_are_products_of_a_number_and_what_a_code_looks_up():
    contrasts = np.array([[1.0, 0.0], [0.5, -2.0], [0.25, 1.0]])
    terms = (
        Term((0,), None, None, ZERO, UNIT),
        Term((2, 1), 0, 0, contrasts, 2 * contrasts),
        Term((3,), 0, None, 3 * UNIT, -UNIT),
        Term((4, 5), None, 0, 0 * contrasts, contrasts),
        Term((6,), 1, None, UNIT, ZERO),
    )
    u, codes = np.array([[0.5, 1.0], [-1.0, 0.25], [0.125, 0.0]]), np.array([2, 0, 1])
    block = Block(np.ones(3, bool), np.asfortranarray(u), (codes,), Layout(7, terms, 2))
    x, c = u[:, :1], contrasts[codes]
    expected = np.column_stack([np.ones(3), (x * c + 2 * c)[:, ::-1], 3 * x - 1, c, u[:, 1]])
    np.testing.assert_array_equal(all_columns(block), expected)
    assert block.weight.tolist() == [1, 1, 1]
    assert len(block) == 3


def tables_of(layout, matrix):
    """Return the coefficients of the constant, of the numbers and of the factors in the product of rows and a matrix.

    The coefficients of a factor are pairs (factor, number) with one entry per level. If the number is None, the entry
    is added; otherwise the entry is multiplied by this number of the row.
    """
    constant, linear, by_code = np.zeros(matrix.shape[1]), np.zeros((layout.numbers, matrix.shape[1])), {}
    for term in layout.terms:
        slopes, shifts = (
            sum((table[:, [j]] * matrix[column] for j, column in enumerate(term.columns)), 0.0)
            for table in (term.slopes, term.shifts)
        )
        if term.factor is not None:
            for key, table in (((term.factor, None), shifts), ((term.factor, term.number), slopes)):
                if table.any():
                    by_code[key] = by_code.get(key, 0.0) + table
        else:
            constant += shifts[0]
            linear[term.number if term.number is not None else 0] += slopes[0] * (term.number is not None)
    return constant, linear, by_code


def in_parts(linear):
    """Return two parts whose sum is nearly `linear`, an array with one row per number and one column per product.

    The entries of a part are multiples of 2^(e - 31), and the absolute values in a column add up to less than 2^e. The
    exponent e is chosen for each column.
    """
    parts = []
    for _ in range(2):
        sizes = np.abs(linear).sum(axis=0)
        step = np.array([2.0 ** (int(np.floor(np.log2(size))) + 1 - 31) if size else 1.0 for size in sizes])
        parts.append(np.rint(linear / step) * step)
        linear = linear - parts[-1]
    return parts


def one_by_one(block, matrix, on_grid):
    """Return the product of a block's rows and a matrix, computed by adding its terms one by one.

    The order of the terms is their order in `block.layout`.
    """
    constant, linear, by_code = tables_of(block.layout, matrix)
    numbers, out = block.numbers.astype(float), np.repeat(constant[None], len(block), axis=0)
    for part in (
        in_parts(linear) if on_grid else [slopes * np.eye(len(linear))[:, [k]] for k, slopes in enumerate(linear)]
    ):
        # with `on_grid`, each sum over the numbers is exact, so that the order of its terms does not matter
        out += sum(numbers[:, [k]] * slopes for k, slopes in enumerate(part))
    for (factor, number), table in by_code.items():
        out += table[block.codes[factor]] * (1.0 if number is None else numbers[:, [number]])
    return out


WIDE = ("y ~ x * k * g + z:g", "y ~ C(g, Helmert) * z + C(k, Sum)", "y ~ 0 + (x + z) ** 2 + poly(x, 7)")


@pytest.mark.parametrize("rows", [1, 37, 2 * CHUNK + 1])
@pytest.mark.parametrize("offset", [None, "z"])
def test_a_product_has_the_bits_of_its_summands_added_one_by_one(rows, offset):
    rng = np.random.default_rng(rows)
    for formula in WIDE:
        block = bind_regression(formula, INCOMPLETE, offset=offset).block(frame(rows))
        width = block.layout.width
        dense = rng.standard_normal((width, width + 9))
        for matrix in (dense, np.eye(width), np.triu(dense), dense * (rng.uniform(size=dense.shape) < 0.2), 0 * dense):
            np.testing.assert_array_equal(block.times(matrix), one_by_one(block, matrix, offset is None))


def test_the_parts_of_a_product_with_numbers_on_the_grid_are_exact_and_nothing_is_lost():
    """The comparison uses fractions, which have no rounding errors.

    Products of parts with a few more bits would be rounded in floats.
    """
    rng = np.random.default_rng(5)
    p = 12
    numbers = (rng.integers(-(2**21), 2**21 + 1, (300, p)) / 2.0**21).astype(np.float32)
    terms = tuple(Term((k,), k, None, UNIT, ZERO) for k in range(p))
    block = Block(np.ones(300, bool), np.asfortranarray(numbers), (), Layout(p, terms, p))
    slopes = rng.standard_normal((p, 5)) * 10.0 ** rng.integers(-6, 7, (p, 5))
    parts, found = in_parts(slopes), [block.times(part) for part in in_parts(slopes)]
    whole = block.times(slopes)
    for row, column in itertools.product(range(300), range(5)):
        exact = [sum(Fraction(a) * Fraction(float(b)) for a, b in zip(part[:, column], numbers[row], strict=True))
                 for part in parts]  # fmt: skip
        assert [Fraction(one[row, column]) for one in found] == exact
        assert whole[row, column] == float(exact[0]) + float(exact[1])
    np.testing.assert_allclose(sum(parts), slopes, rtol=0, atol=2.0**-60 * np.abs(slopes).sum(axis=0).max())


def test_a_product_with_zeros_is_zero_at_infinite_numbers():
    block = Block(np.ones(2, bool), np.array([[np.inf], [1.0]]), (), Layout(1, (Term((0,), 0, None, UNIT, ZERO),), 1))
    assert block.times(np.zeros((1, 2))).tolist() == [[0, 0], [0, 0]]


def test_an_empty_block_has_no_rows():
    block = bind_regression("y ~ g * x", DOMAIN).block(frame(5).iloc[:0])
    assert block.times(np.eye(block.layout.width)).shape == (0, block.layout.width)


def test_numbers_are_rounded_to_the_nearest_point_of_the_grid():
    rng = np.random.default_rng(3)
    some = np.concatenate([rng.uniform(-1, 1, 100_000), rng.uniform(-1000, 1000, 100_000), np.arange(-9, 9) / 2**22])
    np.testing.assert_array_equal(on_block_grid(some), np.rint(some * 2**21) / 2**21)
    np.testing.assert_array_equal(on_block_grid(np.array([-1.0, 1.0, 2.0**30])), [-1.0, 1.0, 2.0**30])
    assert np.isnan(on_block_grid(np.array([np.nan]))).all()


@pytest.mark.parametrize("complete", [False, True])
def test_a_value_that_is_no_number_is_zero_on_the_grid_and_no_other_row_changes(complete):
    domain = Domain({"x": (0, 4), "y": (-1, 1)}, complete=complete)
    rows = pd.DataFrame({"x": [0.0, 1.3, 4.0, 9.0, -np.inf, 2.0], "y": [0.5, -0.25, 1.0, -3.0, np.inf, 0.1]})
    design = bind_regression("y ~ x", domain)
    whole = design.block(rows)
    odd = design.block(rows.assign(x=[np.nan, *rows["x"][1:]]))
    assert np.isfinite(odd.numbers).all() and odd.present.tolist() == [complete, *whole.present[1:]]
    np.testing.assert_array_equal(odd.numbers[1:], whole.numbers[1:])
    assert (np.abs(whole.numbers) <= 1).all()


@pytest.mark.parametrize("offset", [None, "1e3 * k"])
def test_short_floats_hold_the_numbers_of_a_block_exactly(offset):
    rng = np.random.default_rng(4)
    data = pd.DataFrame(rng.uniform(-1, 1, (5000, 2)), columns=["x", "y"]).assign(k=rng.uniform(-1, 1, 5000))
    data.loc[0] = 1 - 2.0**-21
    block = bind_regression("y ~ 0 + x", dict.fromkeys("xyk", (-1, 1)), offset=offset).block(data)
    exact = np.column_stack([data["x"], *([] if offset is None else [1e3 * data["k"]]), data["y"]])
    np.testing.assert_array_equal(block.numbers, on_block_grid(exact))
    assert block.numbers.dtype == (np.float32 if offset is None else np.float64)
    assert block.response.dtype == block.times(np.eye(block.layout.width)).dtype == np.float64


def test_numbers_are_held_at_what_is_declared_of_the_expression_where_it_differs_from_its_columns():
    domain = Domain({"a b": (0, 10), "Q('a b')": (0, 5), "np.sqrt(Q('a b'))": (1, 2)})
    rows, _ = admit(pd.DataFrame({"a b": [-1.0, 2.0, 7.0, 12.0]}), ["a b"], domain, ())
    for code, expected in (("Q('a b')", [0, 2, 5, 5]), ("np.sqrt(Q('a b'))", [1, np.sqrt(2), 2, 2])):
        assert numeric(code, domain).values(rows)[:, 0].tolist() == expected
