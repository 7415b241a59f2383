"""A rehearsal, the run of an estimator on synthetic rows, records the estimator's queries.

The rehearsal refuses queries, filters, sets and designs that mix rows or units.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from privstats.errors import PrivacyError
from privstats.estimators.base import ByBranch
from privstats.gate import rehearsal as rehearsal_module
from privstats.gate.gate import Planned
from privstats.gate.questions import Sum, Values
from privstats.gate.rehearsal import Asked, Rehearsal
from privstats.gate.rows import Fold
from privstats.mechanisms.additive.laplace import Laplace
from privstats.mechanisms.order.rank import Rank
from privstats.mechanisms.random import streams
from privstats.numerics.exact import Total
from privstats.privacy.promise import Neighbors, PureDP, Relation
from privstats.sets.base import Set
from privstats.sets.cells import ByCell, Cells, Line, Shells
from privstats.sets.vectors import Ball, Box, BoxProducts, Fractions, Products
from tests.gate.toy import TOLD, XY, Above, Exactly, Fails, Group, One, Toy, X, at, gate_of, planned

FIRST = Sum("first", XY(), Box(2))
SECOND = Sum("second", XY(), Ball(2), folded=True)
UNITS = Neighbors("replace", "who", 3)


def rehearse(neighbors=None, design=None, **more):
    return Rehearsal(design or Toy(), neighbors or Neighbors(), PureDP(1.0), streams(0, "rehearsal"), **more)


@pytest.mark.parametrize("neighbors", [Neighbors(), UNITS, Neighbors("add_remove", "who", 500)], ids=str)
def test_the_rehearsal_notes_what_is_asked_in_order(neighbors):
    talk = rehearse(neighbors)
    by, rank = Laplace(), Rank((0.5,))
    talk.together([(at(FIRST, item="a"), by), (SECOND, by)])
    talk(Values("values", X(), Line(-1, 1), keep=Above(0.0)), by=rank)
    assert talk.choose("estimator", {"l": 3.0, "r": 1.0}) == "l"
    talk(Sum("groups", Group(), Cells(2), item="g"), by=by)
    assert talk.asked == (
        Asked("first a", "first", "sum", by, None, ()),
        Asked("second", "second", "sum", by, None, ()),
        Asked("values", "values", "values", rank, None, ()),
        Asked("groups g", "groups", "sum", by, "l", ()),
    )
    assert talk.branches == ("l", "r")
    assert len(talk.releases) == 4


def test_a_branch_can_be_forced_and_an_estimator_chooses_once():
    talk = rehearse(branch="r")
    assert talk.choose("estimator", {"l": 3.0, "r": np.inf}) == "r"
    with pytest.raises(PrivacyError, match="once"):
        talk.choose("another", {"a": 1.0})
    with pytest.raises(PrivacyError, match="the branches of 'estimator' depend on releases"):
        rehearse(branch="r").choose("estimator", {"l": 3.0})


def test_lengths_of_branches_are_computed_for_a_fit_once_and_for_a_rehearsal_never():
    looked = []
    lengths = ByBranch(("l", "r"), lambda name: looked.append(name) or 1.0)
    assert rehearse().choose("estimator", lengths) == "l"
    assert looked == []
    gate_of(planned(FIRST, branch="l"), planned(SECOND, branch="r")).choose("estimator", lengths)
    assert looked == ["l", "r"]


def test_questions_have_labels_of_their_own():
    talk = rehearse()
    talk(FIRST, by=TOLD)
    with pytest.raises(PrivacyError, match=r"first.*twice"):
        talk(at(SECOND, name="first"), by=TOLD)


@pytest.mark.parametrize("optional", [True, False])
def test_optional_questions_are_rehearsed_asked_and_not_asked(optional):
    talk = rehearse(optional=optional)
    assert talk.decide("extra", not optional) is optional
    extra = Sum("extra", One(), Fractions(1), within_share_of=("first",))
    if optional:
        talk(extra, by=TOLD)
        assert talk.asked[-1].optional == ("first",)
    talk(FIRST, by=TOLD)
    with pytest.raises(PrivacyError, match="after its share"):
        talk(at(extra, name="late"), by=TOLD)


def test_an_optional_question_has_no_share_to_give_away():
    talk = rehearse()
    talk(Sum("inner", One(), Fractions(1), within_share_of=("outer",)), by=TOLD)
    with pytest.raises(PrivacyError, match="no share of its own"):
        talk(Sum("outer", One(), Fractions(1), within_share_of=("first",)), by=TOLD)


def test_promises_of_earlier_rounds_are_kept_and_new_questions_get_the_whole():
    plan = [
        Planned("first", "first", "sum", TOLD, None, PureDP(0.25)),
        Planned("extra", "extra", "sum", TOLD, None, PureDP(0.05), ("first",), (0.2,)),
    ]
    talk = rehearse(planned=plan)
    assert talk.law(FIRST, by=TOLD)[0] == PureDP(0.25)
    assert talk.law(SECOND, by=TOLD)[0] == PureDP(1.0)
    assert talk(Sum("extra", One(), Fractions(1), within_share_of=("first",)), by=TOLD).keeps == PureDP(0.05)
    assert talk(FIRST, by=TOLD).keeps == PureDP(0.2)


def test_prices_are_those_of_all_rows_of_a_unit_whatever_the_made_up_rows_have():
    by, neighbors = Exactly(), Neighbors("replace", "who", 500)
    rehearse(neighbors)(FIRST, by=by)
    assert by.heard[0][3] == Relation(500, True, True)


def test_few_rows_and_many_are_rehearsed():
    rows = Sum("rows", One(), Fractions(1))
    values = Values("values", X(), Line(-1, 1))
    for few, n in ((True, 64), (False, 64_000)):
        talk = rehearse(few=few, assumed=64_000)
        assert talk(rows, by=TOLD).value == [n]
        assert len(talk(values, by=TOLD).value) == min(n, rehearsal_module.MOST_SYNTHETIC)


# The audit


@dataclass(frozen=True)
class Centred:
    """A row function that mixes rows: it subtracts the mean of the block."""

    def __call__(self, block):
        return block.numbers - block.numbers.mean()


@dataclass(frozen=True)
class Alternating:
    """A row function that uses the positions of the rows in the block."""

    def __call__(self, block):
        return block.numbers * (np.arange(len(block.numbers)) % 2)[:, None]


@dataclass(frozen=True)
class First:
    """A row function that treats the first row of a block differently."""

    def __call__(self, block):
        return np.arange(len(block.numbers))[:, None] > 0


@dataclass(frozen=True)
class Whole:
    """A row function whose numbers are one divided by the number of rows in the block."""

    def __call__(self, block):
        return np.full((len(block.numbers), 2), 1 / len(block.numbers))


@pytest.mark.parametrize("kind", [Sum, Values])
@pytest.mark.parametrize("cheat", [Centred(), Alternating(), Whole(), First()])
def test_a_question_that_mixes_rows_is_refused(cheat, kind):
    with pytest.raises(PrivacyError, match="each row alone"):
        rehearse()(kind("cheat", lambda block: cheat(block) * block.numbers, Box(2)), by=TOLD)


def test_a_filter_that_mixes_rows_is_refused():
    for cheat in (lambda b: b.numbers[:, 0] > b.numbers[:, 0].mean(), lambda b: np.arange(len(b.numbers)) > 0):
        with pytest.raises(PrivacyError, match="each row alone"):
            rehearse()(at(FIRST, keep=cheat), by=TOLD)


@pytest.mark.parametrize(
    "keep", [lambda block: block.numbers[:, 0], lambda block: np.ones((len(block.numbers), 1), bool)]
)
def test_a_filter_says_of_each_row_whether_it_counts(keep):
    with pytest.raises(PrivacyError, match="whether it counts"):
        rehearse()(at(FIRST, keep=keep), by=TOLD)


def test_a_row_function_gives_as_many_numbers_as_its_set_wants():
    with pytest.raises(PrivacyError, match="2 numbers"):
        rehearse()(at(FIRST, of=One(3)), by=TOLD)


def test_failures_on_made_up_rows_are_told():
    with pytest.raises(ValueError, match="secret"):
        rehearse()(at(FIRST, of=Fails()), by=TOLD)


@dataclass(frozen=True)
class Greedy(Set):
    """A set whose projection of a row depends on the other rows, which is not allowed."""

    m = 2
    dim = 2
    reach = 1.0

    def project(self, rows):
        return np.trunc(np.clip(rows, -1, 1) / max(1.0, np.abs(rows).sum()) / self.step) * self.step

    def distance(self, norm):
        return 2.0

    def length(self, norm, exchange=True):
        return 1.0


@dataclass(frozen=True)
class Crooked(Greedy):
    """A set whose method `total` returns twice the sum of the rows' contributions."""

    def project(self, rows):
        return np.trunc(np.clip(rows, -1, 1) / self.step) * self.step

    def total(self, rows):
        return Total(tuple(2 * unit for unit in super().total(rows).units), self.step)


@dataclass(frozen=True)
class Uneven(Crooked):
    """A set whose contributions are not multiples of the step of the set's grid."""

    def contribution(self, rows):
        return rows / 3

    def total(self, rows):
        return Set.total(self, rows)


@pytest.mark.parametrize("within", [Greedy(), Crooked(), Uneven()])
def test_a_set_that_mixes_rows_or_adds_up_something_else_is_refused(within):
    with pytest.raises(PrivacyError, match="each row alone"):
        rehearse()(Sum("sum", XY(), within), by=TOLD)


@dataclass(frozen=True)
class MixingDesign(Toy):
    """A design whose numbers depend on the number of rows in the block."""

    def block(self, columns):
        block = super().block(columns)
        return replace(block, numbers=block.numbers / len(block.numbers))


def test_a_design_that_mixes_rows_is_refused():
    with pytest.raises(PrivacyError, match="each row alone"):
        rehearse(design=MixingDesign())(FIRST, by=TOLD)
    with pytest.raises(PrivacyError, match="each row alone"):
        talk = rehearse()
        talk.through(MixingDesign())
        talk(FIRST, by=TOLD)


QUESTIONS = [
    FIRST,
    SECOND,
    at(SECOND, name="products", within=Products(2, 0.5)),
    at(SECOND, name="sizes", within=Shells(2, (0.3, 1.0)), keep=Above(-0.3)),
    Sum("units", One(), Cells(1), folded=True),
    Sum("groups", Group(numbers=True), ByCell(Box(2), 2)),
    Sum("moments", One(3), BoxProducts(2, True, True)),
    Values("values", XY(), Line(-1, 1, 0.25, 2)),
]


@pytest.mark.parametrize("neighbors", [Neighbors(), UNITS, Neighbors("add_remove", "who", 1)], ids=str)
def test_honest_questions_pass(neighbors):
    for seed in range(5):
        talk = Rehearsal(Toy(), neighbors, PureDP(1.0), streams(seed, "rehearsal"))
        for question in QUESTIONS:
            talk(question, by=TOLD)
        assert len(talk.asked) == len(QUESTIONS)


def test_synthetic_units_have_more_rows_than_count_apart_from_one_another_and_some_have_no_name():
    units = rehearsal_module._synthetic_units(rehearsal_module.ROWS)
    names, counts = np.unique(units[~np.isnan(units)], return_counts=True)
    assert np.isnan(units).any()
    assert counts.max() > rehearsal_module.MOST_ROWS
    for name in names[counts > 1]:
        assert (np.diff(np.flatnonzero(units == name)) > 1).all()


@pytest.mark.parametrize("bug", ["blockwise", "no cap"])
def test_folds_that_are_wrong_are_refused(monkeypatch, bug):
    add = Fold.add

    def project_each_block(self, block, units):
        add(self, block, units)
        within = self.question.within
        inside = within.project(self.sums.T * within.row_step) / within.row_step
        self.sums = np.ascontiguousarray(np.trunc(inside).astype(np.int64).T)

    def count_all(self, block, units):
        add(self, block, np.maximum(units, 0))

    monkeypatch.setattr(Fold, "add", project_each_block if bug == "blockwise" else count_all)
    with pytest.raises(PrivacyError, match="each row alone"):
        rehearse(UNITS)(at(SECOND, within=Ball(2, 0.5)), by=TOLD)
