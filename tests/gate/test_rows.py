"""Totals are exact: no order, chunking or size of the data changes a bit of them."""

import decimal
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from privstats.older.formula.design import bind
from privstats.older.formula.domain import Domain
from privstats.older.gate import rows as rows_module
from privstats.older.gate.questions import Gram, Histogram, Outer, Score, ScoreAndScale, Sum
from privstats.older.gate.rows import MemoryRows
from privstats.older.losses.bounded import KAPPA, Huber, Proportion
from privstats.older.losses.clipped import Count, Size
from privstats.older.losses.families import Logit, Probit
from privstats.older.losses.leverage import Directions, Held, Leverage, Pull, PullSize, Whitened
from privstats.older.losses.predictor import CurvaturePull, Predictor, ResidualSize, ScaledPull, ScorePull
from privstats.older.losses.squares import AugmentedRow, PredictorRow
from privstats.older.numerics.exact import Total, add_noise, gram, total
from privstats.older.privacy.neighbors import Neighbors
from privstats.older.sets.base import Ball
from privstats.older.sets.leverage import Bins, ColumnMoments, Products, Pulls, PullsAndScale
from privstats.older.sets.moments import Moments

ROWS = Neighbors("replace")
DOMAIN = Domain({"y": (0, 9), "x": (-3, 3), "g": ["a", "b"]})
DESIGN = bind("np.sqrt(y) ~ np.tanh(x) * g + np.exp(x)", DOMAIN)
MOMENTS = Moments(5, intercept=True, complete=False)
HELD = Held(Whitened(np.full(4, 0.1), np.full(4, 0.3), np.eye(5) + 0.1, True), 3.0)
THETA = np.array([0.1, -0.2, 0.3, 0.0, 0.1])
SIZES = np.array([0.1, 0.3, 1.0, 3.0])
UNIT = Directions(HELD.whitened)
PULLED = Outer("meat", Pull(HELD, THETA, 0.5), Products(5, pulled=True), UNIT)
ABOUT_HELD = [
    Gram("columns", PredictorRow(), ColumnMoments(4, counted=True)),
    Outer("rows", HELD, Products(5, pulled=True), UNIT),
    Outer("directions", HELD, Products(5), UNIT),
    Score("score", Pull(HELD, THETA, 0.5), Pulls(5), UNIT),
    PULLED,
    Histogram("leverage", Leverage(HELD.whitened), Bins(SIZES)),
    Histogram("sizes", PullSize(HELD, THETA), Bins(SIZES)),
]
SCORES = (Huber(0.2), Proportion(Logit(), 2.0), Proportion(Probit(), 2.0), Count(2.0, 5.0, 30.0), Size(3.0, 0.02, 9.0))
BOUNDED = [Predictor(HELD, THETA, score) for score in SCORES]
ABOUT_SCORES = [
    ScoreAndScale("scaled", ScaledPull(BOUNDED[0]), PullsAndScale(5, KAPPA), UNIT),
    *(Score(f"score {k}", ScorePull(at), Pulls(5), UNIT) for k, at in enumerate(BOUNDED)),
    *(Outer(f"curvature {k}", CurvaturePull(at), Products(5, pulled=True), UNIT) for k, at in enumerate(BOUNDED)),
    *(Histogram(f"residuals {k}", ResidualSize(at), Bins(SIZES)) for k, at in enumerate(BOUNDED[3:])),
]
ABOUT_HELD += ABOUT_SCORES
QUESTIONS = [Gram("moments", AugmentedRow(), MOMENTS), Sum("total", AugmentedRow(), Ball(2.0, 6)), *ABOUT_HELD]


def frame(n=5000, seed=0):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"y": rng.uniform(-1, 10, n), "x": rng.normal(0, 2, n), "g": rng.choice(["a", "b", "c"], n)})
    data.loc[::7, "x"] = np.nan
    return data


def totals(data, neighbors=ROWS):
    return MemoryRows(data, DESIGN, neighbors).sum(QUESTIONS)


@pytest.mark.parametrize("block_rows", [1, 7, 2048, 4999])
def test_a_chunked_run_equals_the_whole_bit_for_bit(monkeypatch, block_rows):
    data = frame(5000 if block_rows > 7 else 300)
    whole = totals(data)
    monkeypatch.setattr(rows_module, "BLOCK_ROWS", block_rows)
    assert totals(data) == whole


def test_the_order_of_rows_does_not_matter():
    data = frame()
    assert totals(data.sample(frac=1.0, random_state=1)) == totals(data)


def test_an_empty_frame_has_zero_totals():
    assert [set(exact.units) for exact in totals(frame(0))] == [{0}] * len(QUESTIONS)


def test_a_gram_total_is_the_sum_of_its_rounded_products_exactly():
    rng = np.random.default_rng(0)
    rows = np.column_stack([np.ones(3000), rng.uniform(-1, 1, (3000, 2))])
    pairs = np.triu_indices(3)
    quantised = [[Fraction(int(value)) / 2**21 for value in row] for row in np.rint(rows * 2**21)]
    exact = gram(rows, pairs)
    for unit, i, j in zip(exact.units, *pairs, strict=True):
        assert Fraction(unit) / 2**42 == sum(row[i] * row[j] for row in quantised)


def test_totals_do_not_overflow_however_many_rows_there_are():
    ones = gram(np.ones((1 << 15, 2)), np.triu_indices(2))
    many = Total(ones.units, ones.step)
    for _ in range(20):
        many = many + many
    assert many.value().tolist() == [2.0**35] * 3


@pytest.mark.parametrize("question", ABOUT_HELD, ids=lambda question: question.name)
def test_a_total_is_the_sum_of_what_its_bound_makes_of_each_present_row(question):
    block = DESIGN.block(frame(300))
    parts = question.within.embed(question.bounded(block))[block.present]
    rounded = 300 * 2.0**-20 if question.name == "columns" else 0.0  # the others are held on the grid: sums are exact
    np.testing.assert_allclose(question.total(block).value(), parts.sum(axis=0), rtol=0, atol=rounded)


def test_a_block_of_other_rows_is_never_answered_from_the_memory_of_the_first():
    here, there = DESIGN.block(frame(50)), DESIGN.block(frame(50, seed=1))
    for question in ABOUT_HELD:
        before = question.total(here)
        assert question.total(there) != before
        assert question.total(here) == before


def test_truncation_never_lengthens_a_contribution():
    rng = np.random.default_rng(0)
    for bound in (1e-7, 1.0, 3.3, 1e9):
        part = Ball(bound, 3).project(rng.normal(0, bound, (50, 3)))
        for row in part:
            kept = total(row[None, :], bound).value()
            assert (np.abs(kept) <= np.abs(row)).all()
            assert np.abs(kept - row).max() <= bound * 2.0**-39


def test_a_release_lies_on_a_public_grid_and_moves_with_the_total():
    noise, spread = np.array([0.123456789, -7.7]), np.array([1.0, 8.0])
    steps = [2.0 ** (math.floor(math.log2(scale)) - 20) for scale in spread]
    for units in ((0, 0), (12345678901, -98765432109), (2**70, -(2**70))):
        exact = Total(units, 2.0**-42)
        release = add_noise(exact, noise, spread)
        assert all(value % step == 0 for value, step in zip(release, steps, strict=True))
        assert np.abs(release - (exact.value() + noise)).max() <= max(*steps, 2.0**-20)


def test_only_the_first_rows_of_each_unit_count():
    data = frame(9).assign(y=4.0, x=1.0, g="a", person=["p", "q", "p", "p", None, "q", np.nan, "r", "p"])
    for allowed, expected in zip((1, 2, 3), ([1, 1, 1], [2, 2, 1], [3, 2, 1]), strict=True):
        moments, *_ = totals(data, Neighbors("replace", "person", allowed))
        assert MOMENTS.unpack(moments.value())[0, 0] == sum(expected)


def test_names_of_units_are_compared_whatever_their_types():
    odd = [
        decimal.Decimal(1),
        1,
        1.0,
        np.int64(1),
        "1",
        b"1",
        [1],
        {},
        2**53,
        2**60,
        pd.Timestamp("2020-01-01"),
        None,
        True,
    ]
    data = frame(len(odd)).assign(y=4.0, x=1.0, g="a", person=pd.Series(odd, dtype=object))
    moments, *_ = totals(data, Neighbors("replace", "person"))
    # one each: the number 1 (as int, float, numpy, True), "1", b"1" and the date; the others name nobody
    assert MOMENTS.unpack(moments.value())[0, 0] == 4


def test_replacing_a_persons_rows_leaves_the_other_persons_where_they_were():
    data = frame(60).assign(person=[f"p{k % 12}" for k in range(60)])
    neighbors = Neighbors("replace", "person", 3)
    gone = data[data["person"] != "p3"]
    one = frame(60, seed=1).assign(person="p3").iloc[:3]
    shuffled_in = pd.concat([gone.iloc[:20], one.iloc[:1], gone.iloc[20:], one.iloc[1:]])
    here, there, without = totals(data, neighbors), totals(shuffled_in, neighbors), totals(gone, neighbors)
    for bound, a, b, base in zip((q.within for q in QUESTIONS), here, there, without, strict=True):
        sensitivity = bound.sensitivity("l2", neighbors)
        for moved in (a.value() - b.value(), a.value() - base.value()):
            assert np.linalg.norm(sensitivity.weights * moved) <= sensitivity.size
