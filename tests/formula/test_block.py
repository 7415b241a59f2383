"""A block: numbers on the grid, codes, and products with public matrices whose bits are each row's own."""

import numpy as np
import pandas as pd
import pytest

from privstats.formula.block import Block, Layout, Term, on_block_grid
from privstats.formula.design import bind_regression
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
    np.testing.assert_array_equal(doubled.times(matrix)[-len(data) :], together)  # across the borders of chunks
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


def test_an_empty_block_has_no_rows():
    block = bind_regression("y ~ g * x", DOMAIN).block(frame(5).iloc[:0])
    assert block.times(np.eye(block.layout.width)).shape == (0, block.layout.width)


def test_no_number_becomes_zero_on_the_grid():
    assert on_block_grid(np.array([np.nan, 0.3, -1.0])).tolist() == [0.0, np.rint(0.3 * 2**21) / 2**21, -1.0]
