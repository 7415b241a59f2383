"""Totals of rows are exact: their bits do not depend on the order of rows or on the sizes of blocks and batches."""

import decimal
import enum
import itertools

import numpy as np
import pandas as pd
import pytest

from privstats.errors import OptionError, PrivacyError
from privstats.gate import rows as rows_module
from privstats.gate.kept import CELLS, Memory
from privstats.gate.questions import Sum, Values
from privstats.gate.rows import SourceChangedError
from privstats.gate.sources import Batches, Frame, Unread, source_of
from privstats.mechanisms.additive.cube import Cube
from privstats.mechanisms.additive.laplace import Laplace
from privstats.mechanisms.order.rank import Rank
from privstats.privacy.promise import Neighbors
from privstats.sets.cells import ByCell, Cells, Line, Shells
from privstats.sets.vectors import Ball, Box, BoxProducts, Fractions, Products, Squares
from tests.conftest import thinned
from tests.gate.toy import XY, Above, Group, One, Toy, X, at, frame, gate_of, in_batches, planned, rows_of

UNITS = Neighbors("replace", "who", 3)
FOLDED = [
    Sum("folded score", XY(3.0), Ball(2, 0.7), folded=True),
    Sum("folded sizes", XY(), Shells(2, (0.3, 0.6, 1.0)), folded=True),
    Sum("folded products", XY(), Products(2, 0.5), folded=True),
    Sum("folded share", One(), Fractions(1), folded=True),
    Sum("units", One(), Cells(1), folded=True, keep=Above(0.0)),
]
QUESTIONS = [
    Sum("total", XY(), Ball(2, 0.8)),
    Sum("kept", XY(), Box(2, 0.5), keep=Above(0.2)),
    Sum("products", XY(), Products(2, 1.0)),
    Sum("groups", Group(), Cells(2)),
    Sum("by group", Group(numbers=True), ByCell(Squares(1, True), 2)),
    Sum("moments", One(3, 0.5), BoxProducts(2, True, True)),
    *FOLDED,
]


def people(n=3000, seed=0):
    """Return n rows in random order, each with the name of its unit in the column `who`.

    Some units have more rows than may be used, and some rows have no unit.
    """
    data = frame(n, seed)
    names = np.random.default_rng(seed + 1).integers(0, n // 2, n).astype(float)
    names[::13] = np.nan
    return data.assign(who=names)


@pytest.mark.parametrize(("gathered", "most"), [(0, 1 << 20), (1e9, 1 << 20), (1e9, 120)])
def test_rows_that_wait_for_a_total_are_in_it_once(monkeypatch, gathered, most):
    data = people(1000)
    whole = rows_of(data, Neighbors()).totals(QUESTIONS)
    monkeypatch.setattr(rows_module, "BLOCK_ROWS", 50)
    monkeypatch.setattr(rows_module, "GATHERED", gathered)
    monkeypatch.setattr(rows_module, "MOST_ROWS", most)
    assert rows_of(data, Neighbors()).totals(QUESTIONS) == whole
    one, other = (rows_of(data, Neighbors()).accumulator(QUESTIONS[0]) for _ in range(2))
    for k, (block, units) in enumerate(rows_of(data, Neighbors()).blocks()):
        (one if k % 3 else other).add(block, units)
    one.merge(other)
    assert one.total() == whole[0]


@thinned(2)
@pytest.mark.parametrize("neighbors", [Neighbors(), UNITS], ids=["rows", "units"])
@pytest.mark.parametrize("block_rows", [1, 7, 2048, 4999])
def test_a_run_in_blocks_equals_the_whole_bit_for_bit(monkeypatch, block_rows, neighbors):
    data = people(3000 if block_rows > 7 else 200)
    whole = rows_of(data, neighbors).totals(QUESTIONS)
    monkeypatch.setattr(rows_module, "BLOCK_ROWS", block_rows)
    assert rows_of(data, neighbors).totals(QUESTIONS) == whole


@thinned(2)
@pytest.mark.parametrize("neighbors", [Neighbors(), UNITS], ids=["rows", "units"])
@pytest.mark.parametrize("size", [1, 11, 1000, 5000])
def test_batches_of_any_size_equal_the_frame_bit_for_bit(size, neighbors):
    data = people(2500 if size > 1 else 150)
    whole = rows_of(data, neighbors).totals(QUESTIONS)
    batches = rows_of(in_batches(data, size), neighbors)
    assert batches.totals(QUESTIONS) == whole
    assert batches.totals(QUESTIONS) == whole  # a second pass gives the same totals
    # names of units are objects and read one by one; each batch has its own type
    text = data.assign(who=data["who"].astype(object))
    assert rows_of(in_batches(text, size), neighbors).totals(QUESTIONS) == whole


def test_releases_are_the_same_from_every_source(monkeypatch):
    data, by = people(900), [Laplace(), Cube(), Rank((0.5,))]
    asked = [QUESTIONS[0], at(FOLDED[0], name="score"), Values("values", X(), Line(-1, 1, 2.0**-10))]
    plan = [planned(question, mechanism) for question, mechanism in zip(asked, by, strict=True)]

    def values(source):
        gate = gate_of(*plan, data=source, neighbors=UNITS)
        return [release.value.tobytes() for release in gate.together(zip(asked, by, strict=True))]

    whole = values(data)
    assert values(in_batches(data, 37)) == whole
    monkeypatch.setattr(rows_module, "BLOCK_ROWS", 100)
    assert values(data) == values(in_batches(data, 333)) == whole


def test_the_order_of_rows_does_not_matter():
    data = people()
    assert rows_of(data.sample(frac=1.0, random_state=1)).totals(QUESTIONS) == rows_of(data).totals(QUESTIONS)


@pytest.mark.parametrize("data", [frame(0).assign(who=0), lambda: iter(()), lambda: [frame(0).assign(who=0)] * 2])
@pytest.mark.parametrize("neighbors", [Neighbors(), UNITS], ids=["rows", "units"])
def test_no_rows_have_zero_totals_and_no_values(data, neighbors):
    rows = rows_of(data, neighbors)
    assert [set(exact.units) for exact in rows.totals(QUESTIONS)] == [{0}] * len(QUESTIONS)
    values = rows.values(Values("values", XY(), Box(2)))
    assert values.all().shape == (0, 2)


def test_totals_do_not_overflow_however_many_rows_there_are():
    exact = rows_of(frame(1000), design=Toy(True)).totals([Sum("ones", One(2), Box(2))])[0]
    for _ in range(50):
        exact = exact + exact
    assert exact.value().tolist() == [1000 * 2.0**50] * 2


@pytest.mark.parametrize("question", [q for q in QUESTIONS if not q.folded], ids=lambda question: question.name)
def test_a_total_is_the_sum_of_what_its_set_makes_of_each_row_that_counts(question):
    data, design = frame(300), Toy()
    block = design.block(data)
    counts = block.present if question.keep is None else block.present & question.keep(block)
    parts = question.within.contribution(question.within.project(question.of(block)))[counts]
    assert not counts.all()
    np.testing.assert_allclose(rows_of(data).totals([question])[0].value(), parts.sum(axis=0), rtol=1e-12, atol=1e-9)


def test_the_total_of_one_over_any_rows_of_a_complete_design_is_their_number():
    data = frame(400)
    data.loc[::3, ["x", "y"]] = np.inf
    data.loc[5:9, "g"] = None
    assert rows_of(data, design=Toy(True)).totals([Sum("rows", One(), Fractions(1))])[0].value() == [400]


# Units


def chosen(data, neighbors, design=None):
    """Return the mask of the rows that are used."""
    return np.concatenate([units >= 0 for _, units in rows_of(data, neighbors, design).blocks()])


def by_hand(data, question, most):
    """Return the total of a query that clips the sum of each unit's rows, computed unit by unit in plain Python."""
    block, unit = Toy().block(data), data["who"].tolist()
    vectors = np.trunc(np.nan_to_num(question.of(block)) / question.within.row_step)
    counts = block.present if question.keep is None else block.present & question.keep(block)
    sums = {}
    for row in np.flatnonzero(counts & chosen(data, Neighbors("replace", "who", most))):
        sums[unit[row]] = sums.get(unit[row], 0) + vectors[row]
    rows = np.array(list(sums.values())) * question.within.row_step
    return question.within.total(question.within.project(rows))


@pytest.mark.parametrize("question", FOLDED, ids=lambda question: question.name)
@pytest.mark.parametrize("most", [1, 2, 5])
def test_a_folded_sum_adds_up_the_rows_of_each_unit_and_then_projects_once(question, most):
    data = people(700)
    assert rows_of(data, Neighbors("replace", "who", most)).totals([question])[0] == by_hand(data, question, most)


@pytest.mark.parametrize("kind", ["replace", "add_remove"])
@pytest.mark.parametrize("most", [1, 3])
def test_replacing_a_units_rows_moves_no_sum_further_than_its_sensitivity(kind, most):
    """A sum that is clipped for each unit moves at most as far as one row may move it.

    Other sums move at most as far as all used rows of the unit may move them.
    """
    rng, neighbors, reached = np.random.default_rng(3), Neighbors(kind, "who", most), {}
    for trial in range(30):
        data = people(60, seed=trial).assign(who=[f"p{k % 12}" for k in range(60)])
        gone = data[data["who"] != "p3"]
        corner = rng.choice([-9.0, 9.0, 0.3], (2, 8 if trial % 2 else 1, 1)) * np.ones((8, 2))
        groups = rng.choice(["a", "b"], 2)
        new = [
            pd.DataFrame({"x": c[:, 0], "y": c[:, 1], "g": g, "who": "p3"}) for c, g in zip(corner, groups, strict=True)
        ]
        frames = [gone, *(pd.concat([gone.iloc[:20], one.iloc[:2], gone.iloc[20:], one.iloc[2:]]) for one in new)]
        totals = [rows_of(f, neighbors).totals(QUESTIONS) for f in frames]
        for question, without, here, there in zip(QUESTIONS, *totals, strict=True):
            sensitivity = question.within.sensitivity("l2", neighbors.relation(question.folded, True))
            moves = [here.value() - without.value()] + [here.value() - there.value()] * (kind == "replace")
            for move in moves:
                part = np.linalg.norm(sensitivity.weights * move) / sensitivity.size
                assert part <= 1 + 1e-9
                reached[question.name] = max(part, reached.get(question.name, 0.0))
    for name in ("folded score", "folded sizes", "folded share", "units", "total", "groups"):
        assert reached[name] > 0.9


def test_so_many_rows_of_each_unit_count():
    who = ["p", "q", "p", "p", None, "q", np.nan, "r", "p"]
    data = frame(9, missing=False).assign(x=1.0, g="a", who=who)
    for allowed, expected in ((1, 3), (2, 5), (3, 6), (100, 7)):
        rows = rows_of(data, Neighbors("replace", "who", allowed))
        assert rows.totals([Sum("rows", One(), Fractions(1))])[0].value() == [expected]
        assert len(rows.values(Values("values", X(), Line(-1, 1))).all()) == expected


def test_a_row_that_is_absent_takes_no_place():
    data = frame(4, missing=False).assign(x=[np.nan, 0.5, 0.25, np.nan], g="a", who="p")
    totals = rows_of(data, Neighbors("replace", "who", 2)).totals([Sum("x", X(), Box(1))])
    assert totals[0].value() == pytest.approx([0.75])


def test_names_of_units_are_compared_whatever_their_types():
    stamp = pd.Timestamp("2020-01-01")
    odd = [decimal.Decimal(1), 1, 1.0, np.int64(1), "1", b"1", [1], {}, 2**53, 2**60, stamp, None, True]
    data = frame(len(odd), missing=False).assign(x=1.0, g="a", who=pd.Series(odd, dtype=object))
    count = Sum("rows", One(), Fractions(1))
    # one unit each: the number 1 (as int, float, numpy, True), "1", b"1" and the date; the other cells name no unit
    assert rows_of(data, Neighbors("replace", "who")).totals([count])[0].value() == [4]


class Member(str, enum.Enum):  # noqa: UP042 - a str enum as it is written in older code
    ANN = "ann"


SPELLINGS = {
    "text": ["ann", np.str_("ann"), Member.ANN],
    "number": [7, 7.0, np.int8(7), np.float32(7), 7 + 0j],
    "day": [pd.Timestamp("2020-01-01"), np.datetime64("2020-01-01"), pd.Timestamp("2020-01-01T01:00+01:00")],
}


@pytest.mark.parametrize("kind", SPELLINGS)
@pytest.mark.parametrize("size", [None, 1, 7])
def test_a_unit_spelt_in_several_ways_is_one_unit_in_every_batch(kind, size):
    """The type of the unit column differs between batches: numbers in one, texts or objects in another."""
    names = [f"p{k}" for k in range(60)]
    for row, name in enumerate(SPELLINGS[kind]):
        names[10 * row] = name
    data = frame(60, missing=False).assign(g="a", who=pd.Series(names, dtype=object))
    count, many = Sum("rows", One(), Fractions(1)), len(SPELLINGS[kind])

    def make():
        for start in range(0, 60, size):
            part = data.iloc[start : start + size]
            yield part.assign(who=part["who"].infer_objects())

    for most in (1, 2):
        rows = rows_of(data if size is None else make, Neighbors("replace", "who", most))
        assert rows.totals([count])[0].value() == [60 - many + most]


@pytest.mark.parametrize("dtype", ["category", "string", "Int64", "Float64", "datetime64[ns]", "int8"])
def test_columns_of_every_type_name_units(dtype):
    numbers = pd.Series([1, 2, 1, 3, 3, 3])
    who = (
        pd.to_datetime(numbers, unit="D")
        if dtype.startswith("date")
        else numbers.astype(str if dtype == "string" else "int64").astype(dtype)
    )
    data = frame(6, missing=False).assign(g="a", who=who)
    assert rows_of(data, Neighbors("replace", "who", 2)).totals([Sum("rows", One(), Fractions(1))])[0].value() == [5]


@pytest.mark.parametrize("names", [[3, 1, 3, 2, 1, 3], [True, False] * 3, [0.0, -0.0, np.nan, np.inf, 2.0**53, 1.5]])
def test_numbers_that_name_units_are_read_alike_fast_and_one_by_one(names):
    data = frame(6, missing=False).assign(x=[1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125], g="a")
    fast, slow = data.assign(who=names), data.assign(who=pd.Series(names, dtype=object))
    totals = [rows_of(d, Neighbors("replace", "who")).totals([Sum("x", X(), Box(1))])[0].value() for d in (fast, slow)]
    assert totals[0] == totals[1]


def test_a_unit_may_have_so_many_rows_that_sums_are_cut_before_they_overflow():
    data = frame(300, missing=False).assign(x=1.0, y=-1.0, g="a", who="p")
    question = Sum("score", XY(1e30), Ball(2, 1.0), folded=True)
    exact = rows_of(data, Neighbors("replace", "who", 10**12)).totals([question])[0].value()
    np.testing.assert_allclose(exact, [0.5**0.5, -(0.5**0.5)], rtol=1e-9)


def test_rows_that_are_not_numbers_are_zeros_when_a_unit_is_added_up():
    data = frame(4, missing=False).assign(x=0.5, y=0.25, g="a", who="p")

    def odd(block):
        vectors = block.numbers.copy()
        vectors[:3, 0] = np.nan, np.inf, -np.inf
        return vectors

    question = Sum("score", odd, Ball(2, 10.0), folded=True)
    exact = rows_of(data, Neighbors("replace", "who", 4)).totals([question])[0].value()
    np.testing.assert_allclose(exact, [0.5, 1.0], rtol=1e-6)


def test_parts_of_a_sum_can_be_merged_in_any_order():
    data = people(600)
    for question in (FOLDED[0], QUESTIONS[0]):
        rows = rows_of(data, UNITS)
        blocks = [(Toy().block(data.iloc[s : s + 100]), s) for s in range(0, 600, 100)]
        units = next(iter(rows.blocks()))[1]
        parts = []
        for block, start in blocks:
            parts.append(rows.accumulator(question))
            parts[-1].add(block, units[start : start + 100])
        for part in (parts[i] for i in (3, 1, 5, 0, 2)):
            parts[4].merge(part)
        assert parts[4].total() == rows.totals([question])[0]


# Passes


def test_a_source_that_names_other_units_in_a_later_pass_ends_the_fit_before_anything_is_released():
    data, passes = people(500), itertools.count()

    def make():
        # the first release takes two passes, one of which chooses the rows of each unit
        swapped = data.assign(who=data["who"].to_numpy()[::-1]) if next(passes) > 1 else data
        return in_batches(swapped, 100)()

    first, second = Sum("first", XY(), Box(2)), Sum("second", XY(), Box(2))
    gate = gate_of(planned(first, Laplace()), planned(second, Laplace()), data=make, neighbors=UNITS)
    gate(first, by=Laplace())
    with pytest.raises(PrivacyError, match="same rows"):
        gate(second, by=Laplace())
    assert len(gate.releases) == 1


@pytest.mark.parametrize("question", [Sum("second", XY(), Box(2)), Values("second", X(), Line(-1, 1))])
def test_a_source_that_gives_other_rows_in_a_later_pass_is_refused_without_units_too(question):
    data, passes = frame(100), itertools.count()
    rows = rows_of(lambda: [data.iloc[next(passes) :]])
    rows.totals([Sum("first", XY(), Box(2))])
    with pytest.raises(SourceChangedError):
        rows.values(question).all() if isinstance(question, Values) else rows.totals([question])


def test_more_rows_in_a_later_pass_are_refused_where_they_have_units():
    data, passes = people(100), itertools.count()
    rows = rows_of(lambda: [data, data] if next(passes) > 1 else [data], UNITS)
    rows.totals(QUESTIONS[:1])
    with pytest.raises(SourceChangedError):
        rows.totals(QUESTIONS[:1])


def test_a_used_up_iterator_is_noticed():
    data = iter([frame(50)])
    rows = rows_of(lambda: data)
    rows.totals(QUESTIONS[:1])
    with pytest.raises(SourceChangedError):
        rows.totals(QUESTIONS[:1])


def test_passes_may_cut_the_same_rows_at_other_places():
    data, passes = people(300), itertools.count(7)
    rows = rows_of(lambda: in_batches(data, next(passes))(), UNITS)
    assert rows.totals(QUESTIONS) == rows.totals(QUESTIONS) == rows_of(data, UNITS).totals(QUESTIONS)


def test_another_design_sees_the_same_rows_of_each_unit():
    data = people(400)
    rows = rows_of(data, UNITS)
    rows.totals(QUESTIONS[:1])
    finer = rows.through(Toy(half=2.0))
    assert finer.totals(QUESTIONS) == rows_of(data, UNITS, Toy(half=2.0)).totals(QUESTIONS)
    assert rows.totals(QUESTIONS) == rows_of(data, UNITS).totals(QUESTIONS)


def test_rows_in_memory_are_made_into_blocks_once():
    made, design = [], Toy()

    class Counted(Toy):
        def block(self, columns):
            made.append(1)
            return design.block(columns)

    rows = rows_of(frame(100), design=Counted())
    rows.totals(QUESTIONS[:2])
    rows.totals(QUESTIONS[:2])
    assert len(made) == 1


# Values


@pytest.mark.parametrize("size", [None, 17])
def test_sealed_values_answer_what_a_mechanism_asks(size):
    data = frame(400)
    block, within = Toy().block(data), Line(-0.5, 0.5)
    expected = np.clip(block.numbers[block.present, :1], -0.5, 0.5)
    values = rows_of(data if size is None else in_batches(data, size)).values(Values("x", X(), within))
    for parts in (values.scan(), values.scan(), [values.all()]):
        np.testing.assert_array_equal(np.concatenate([*parts]), expected)


@pytest.mark.parametrize("size", [None, 17])
def test_values_of_a_cell_are_those_of_its_rows(size):
    data = frame(400)
    block = Toy().block(data)
    within = ByCell(Box(2), 2)
    values = rows_of(data if size is None else in_batches(data, size)).values(Values("cells", Group(True), within))
    for k in (0, 1):
        rows = block.numbers[block.present & (block.codes[0] == k)]
        np.testing.assert_allclose(values.cell(k).all(), rows, atol=1e-9)
        assert len(rows) > 50


def test_cells_are_gathered_several_at_a_time_in_few_passes():
    """The values of 20 cells are gathered in fewer than 16 passes, because cells within the memory limit share passes.

    The first and the last cell exceed the limit, so that each of them is read by itself.
    """
    data, within, passes = frame(400, missing=False), ByCell(Line(-1.0, 1.0), 20), itertools.count()

    def numbered(block):
        return np.column_stack([np.floor(10 * block.numbers[:, 0] + 10), block.numbers[:, 1]])

    def make():
        next(passes)
        return in_batches(data, 33)()

    kept = rows_of(data).values(Values("cells", numbered, within))
    rows = rows_of(make)
    rows.memory = Memory(40 * 2 * 8 / CELLS)
    read = rows.values(Values("cells", numbered, within))
    before = next(passes)
    for k in range(20):
        np.testing.assert_array_equal(read.cell(k).all(), kept.cell(k).all())
    assert min(len(kept.cell(k).all()) for k in (0, 19)) > 40
    assert next(passes) - before - 1 < 16


@pytest.mark.parametrize("cells", [3, 256, 257, 70_000])
def test_each_value_lies_in_its_own_cell_in_the_order_of_the_rows(cells):
    data, within = frame(3000), ByCell(Line(-1.0, 1.0), cells)

    def numbered(block):  # some cell numbers lie below or above the valid numbers
        return np.column_stack([np.floor((0.55 * block.numbers[:, 0] + 0.5) * cells), block.numbers[:, 1]])

    values = rows_of(data).values(Values("cells", numbered, within))
    every = values.all()
    used = np.unique(every[:, 0])
    assert used[0] == 0 and used[-1] == cells - 1
    empty = np.setdiff1d(np.arange(min(cells, 1000)), used)[:5]
    assert cells == 3 or len(empty)
    for k in (*used[:40].astype(int), *used[-40:].astype(int), *empty):
        np.testing.assert_array_equal(values.cell(k).all(), every[every[:, 0] == k, 1:])
    assert sum(len(values.cell(int(k)).all()) for k in used) == len(every)


# Sources


def test_sources_are_told_by_their_kind():
    data = frame(30)
    whole, batches, plan = source_of(data), source_of(in_batches(data, 7)), source_of(Unread(100))
    assert (type(whole), type(batches), plan) == (Frame, Batches, Unread(100))
    assert (whole.n, batches.n, plan.n) == (30, 30, 100)
    assert whole.columns == batches.columns == ("x", "y", "g")
    assert source_of(whole) is whole
    for bad in (None, [data], {"x": [1.0]}, "file.txt", data.to_numpy()):
        with pytest.raises(OptionError, match="DataFrame"):
            source_of(bad)


def test_an_own_source_has_three_members_of_its_class_or_of_its_own_and_perhaps_a_head():
    class Twice:
        n, in_memory = 60, True

        def batches(self):
            yield from (frame(30), frame(30))

    class Made(Twice):
        def __init__(self):
            self.n, self.in_memory, self.batches = 60, False, super().batches

    class Headed(Twice):
        def head(self):
            return frame(30).iloc[:0]

    for own in (Twice(), Made(), Headed()):
        source = source_of(own)
        assert (source.n, len(source.head()), list(source.head())) == (60, 0, list(frame(30)))
    rows = rows_of(Twice())
    once = rows_of(frame(30)).totals(QUESTIONS[:3])
    assert rows.totals(QUESTIONS[:3]) == [total.times(2) for total in once]


def test_no_property_of_an_own_source_is_looked_at_to_tell_its_kind():
    class Lazy:
        in_memory = False

        @property
        def n(self):
            raise AssertionError("read")

        def batches(self):
            yield frame(30)

    assert list(source_of(Lazy()).head()) == list(frame(30))


def test_a_function_is_asked_once_for_columns_and_number_and_what_it_opens_is_closed():
    opened, closed = [], []

    def make():
        opened.append(0)
        try:
            for start in range(0, 30, 10):
                opened[-1] += 1
                yield frame(30).iloc[start : start + 10].astype({"x": "float32" if start else "float64"})
        finally:
            closed.append(1)

    source = Batches(make)
    assert (len(source.head()), source.n, source.n, list(source.head())) == (0, 30, 30, list(frame(30)))
    assert (opened, closed) == ([3], [1])
    assert sum(map(len, source.batches())) == 30
    other = Batches(make)
    other.head()  # only the columns are requested
    assert (len(opened), len(closed)) == (3, 2)
    assert sum(map(len, other.batches())) == 30
    assert (len(opened), len(closed)) == (4, 4)
    assert other.n == 30


def test_small_batches_are_put_together_unless_their_types_differ(monkeypatch):
    seen, block = [], Toy.block
    monkeypatch.setattr(Toy, "block", lambda self, columns: seen.append(len(columns["x"])) or block(self, columns))
    data = frame(60)
    whole = rows_of(data).totals(QUESTIONS[:3])
    assert rows_of(in_batches(data, 7)).totals(QUESTIONS[:3]) == whole
    parts = [data.iloc[:7], data.iloc[7:20], data.iloc[20:30].astype({"x": "float32"}), data.iloc[30:]]
    rows_of(lambda: parts).totals(QUESTIONS[:3])
    assert seen == [60, 60, 20, 10, 30]


def test_an_iterator_that_is_returned_again_is_refused_before_anything_is_charged():
    once = iter([frame(10), frame(10)])
    with pytest.raises(OptionError, match="return a new one at each call"):
        Batches(lambda: once).head()


@pytest.mark.parametrize("made", [None, frame(3), [1, 2], [{"x": 1}]])
def test_a_function_that_gives_no_frames_is_refused(made):
    with pytest.raises(OptionError, match="DataFrames"):
        _ = Batches(lambda: made).columns


def test_a_plan_has_no_rows_to_read():
    with pytest.raises(PrivacyError, match="no rows"):
        rows_of(Unread(9)).totals(QUESTIONS[:1])
