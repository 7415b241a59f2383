"""The class `Ranked`: the values that it finds near given ranks are correct and few, and are found in few passes."""

import itertools

import numpy as np
import pytest

from privstats.mechanisms.order import ranked as ranked_module
from privstats.mechanisms.order.rank import Rank
from privstats.mechanisms.order.ranked import Ranked, RankGrid
from privstats.mechanisms.random import public_stream
from privstats.privacy.promise import PureDP, Relation
from privstats.sets.cells import Line
from tests.mechanisms.sealed import Sealed

LOW, HIGH = -10.0, 10.0
SHAPES = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "heaped": lambda rng, n: np.where(rng.uniform(size=n) < 0.4, 0.0, rng.standard_normal(n)),
    "equal": lambda rng, n: np.full(n, 1.25),
    "ends": lambda rng, n: rng.choice([LOW, HIGH], n),
    "narrow": lambda rng, n: 1 + 1e-4 * rng.standard_normal(n),
}
shapes = pytest.mark.parametrize("shape", SHAPES)


class Counted(Sealed):
    """Private values (`Sealed`) with a counter of the passes over the values."""

    def scan(self, take=np.asarray):
        self.__dict__["scans"] = self.__dict__.get("scans", 0) + 1
        yield from super().scan(take)


@shapes
@pytest.mark.parametrize("step", [2.0**-30, 0.25])
def test_values_near_ranks_are_those_of_the_sorted_column(monkeypatch, shape, step):
    monkeypatch.setattr(ranked_module, "ROOM", 20)
    monkeypatch.setattr(ranked_module, "CUT_BITS", 6)
    rng, n = np.random.default_rng(1), 3000
    values, grid = np.clip(SHAPES[shape](rng, n), LOW, HIGH), RankGrid(LOW, HIGH, step)
    units = grid.units(values)
    ordered = np.sort(units)
    for spans in ([(0, 1)], [(n - 1, n)], [(0, n)], [(10, 40), (41, 60), (1500, 1501), (2000, 2900)]):
        column = Ranked(Counted(values, part=701), grid)
        near, less = column.near(spans)
        assert column.n == n
        for (start, stop), below in zip(spans, less, strict=True):
            np.testing.assert_array_equal(np.sort(near)[start - below : stop - below], ordered[start:stop])
        held = np.isin(units, near)
        np.testing.assert_array_equal(near, units[held])  # complete cells of the grid, in the order of the rows
        if step == 2.0**-30 and shape in ("normal", "narrow"):
            assert len(near) <= sum(stop - start for start, stop in spans) + 20


def test_few_values_are_taken_of_many_in_two_scans_and_in_three_where_they_crowd(monkeypatch):
    monkeypatch.setattr(ranked_module, "ROOM", 1000)
    rng, n = np.random.default_rng(2), 200_000
    for shape, scans in (("normal", 2), ("narrow", 3)):
        column = Ranked(Counted(SHAPES[shape](rng, n)), RankGrid(LOW, HIGH, 2.0**-30))
        near, _ = column.near([(n // 2 - 50, n // 2 + 50)])
        assert len(near) <= 1100 and column.values.scans == scans


@shapes
@pytest.mark.parametrize("n", [0, 1, 40, 4000])
@pytest.mark.parametrize("rank", [Rank((0.3,)), Rank((0.2, 0.5, 0.9)), Rank((0.5,), 0.95), Rank((0.3, 0.7), 0.9)])
def test_draws_are_the_same_however_values_are_found(monkeypatch, shape, n, rank):
    values, line = np.clip(SHAPES[shape](np.random.default_rng(3), n), LOW, HIGH), Line(LOW, HIGH, 2.0**-30)
    drawn = set()
    for part, room, bits in itertools.product((10_000, 77), (1 << 18, 0), (15, 5)):
        monkeypatch.setattr(ranked_module, "ROOM", room)
        monkeypatch.setattr(ranked_module, "CUT_BITS", bits)
        exact, relation = Sealed(values, part=part), Relation(1, True, False)
        drawn.add(tuple(rank.release("q", exact, PureDP(2.0), line, relation, public_stream(70)).value.tolist()))
    assert len(drawn) == 1
