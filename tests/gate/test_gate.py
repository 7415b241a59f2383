"""Only what was planned is answered, a cheating question is refused, and failures are silent."""

import threading
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from privstats.errors import BudgetError, PrivacyError
from privstats.mechanisms.random import public_stream
from privstats.older.formula.design import bind
from privstats.older.formula.domain import Domain
from privstats.older.gate.gate import Gate, Turn, sealed
from privstats.older.gate.questions import Outer, Score, Sum
from privstats.older.gate.rehearsal import Rehearsal
from privstats.older.gate.rows import MemoryRows
from privstats.older.losses.leverage import Directions, Held, Pull, Whitened
from privstats.older.losses.squares import AugmentedRow
from privstats.older.mechanisms import MECHANISMS
from privstats.older.privacy.neighbors import Neighbors
from privstats.older.sets.base import Cube
from privstats.older.sets.leverage import Products, Pulls

DESIGN = bind("y ~ x", Domain({"y": (0, 1), "x": (0, 1)}))
DATA = pd.DataFrame({"x": np.linspace(0, 1, 50), "y": np.linspace(1, 0, 50)})
UNIT_PRICE = {name: lambda share, kind=kind: kind.at(share, 1.0) for name, kind in MECHANISMS.items()}
FIRST = Sum("first", AugmentedRow(), Cube(1.0, 3))
SECOND = Sum("second", AugmentedRow(), Cube(0.5, 3))


@dataclass(frozen=True)
class Centred:
    """A question that looks innocent and mixes rows."""

    def __call__(self, block):
        return block.X - block.X.mean()


@dataclass(frozen=True)
class Ranked:
    """One that mixes them more quietly: by position."""

    def __call__(self, block):
        return block.X * (np.arange(len(block.X)) % 2)[:, None]


def rehearsal():
    return Rehearsal(DESIGN, Neighbors(), UNIT_PRICE, public_stream)


def gate(*turns):
    plan = [(turn, MECHANISMS[turn.mechanism].at(turn.share, 1.0)) for turn in turns]
    return Gate(MemoryRows(DATA, DESIGN, Neighbors()), plan, public_stream)


def test_several_questions_are_answered_in_one_pass(monkeypatch):
    passes = []
    one_pass = MemoryRows._blocks
    monkeypatch.setattr(MemoryRows, "_blocks", lambda self: passes.append(1) or one_pass(self))
    talk = gate(Turn("first", "sum", "l1", 0.3), Turn("second", "sum", "gaussian", 0.7))
    first, second = talk.ask([FIRST, SECOND], by=["l1", "gaussian"], share=[0.3, 0.7])
    assert (first.name, second.name, len(passes)) == ("first", "second", 1)
    assert talk.releases == (first, second)
    assert first.event.pure() == pytest.approx(0.3)
    assert second.event.mu() ** 2 == pytest.approx(0.7)


@pytest.mark.parametrize(
    "turn",
    [
        Turn("other", "sum", "l1", 1.0),
        Turn("first", "gram", "l1", 1.0),
        Turn("first", "sum", "l2", 1.0),
    ],
)
def test_a_question_that_differs_from_the_plan_is_refused(turn):
    with pytest.raises(PrivacyError, match="not planned"):
        gate(turn).ask(FIRST, by="l1")


def test_a_question_is_answered_once():
    talk = gate(Turn("first", "sum", "l1", 1.0))
    talk.ask(FIRST, by="l1")
    with pytest.raises(PrivacyError, match="not planned"):
        talk.ask(FIRST, by="l1")


def test_the_rehearsal_notes_what_is_asked_in_order():
    talk = rehearsal()
    talk.ask([FIRST, SECOND], by="l1", share=[1, 2])
    assert talk.turns == (Turn("first", "sum", "l1", 1.0), Turn("second", "sum", "l1", 2.0))


@pytest.mark.parametrize("cheat", [Centred(), Ranked()])
def test_a_question_that_mixes_rows_is_refused_at_rehearsal(cheat):
    with pytest.raises(PrivacyError, match="each row alone"):
        rehearsal().ask(Sum("cheat", cheat, Cube(1.0, 1)), by="l1")


def test_only_questions_about_the_very_same_rows_share_their_angles():
    whitened = Whitened(np.zeros(1), np.ones(1), np.eye(2), intercept=True)
    held, first, second = Held(whitened, 1.0), Directions(whitened), Directions(whitened)
    pull = Pull(held, np.zeros(2), 0.5)
    questions = [
        Outer("a", held, Products(2, pulled=True), first),
        Score("b", pull, Pulls(2), first),
        Outer("c", held, Products(2), second),
        Outer("d", pull, Products(2, pulled=True), first),
        Sum("e", AugmentedRow(), Cube(1.0, 3)),
    ]
    talk = rehearsal()
    talk.ask(questions, by="gaussian")
    assert [turn.angle and turn.angle.family for turn in talk.turns] == [0, 0, 1, 0, None]
    add_remove = Rehearsal(DESIGN, Neighbors("add_remove"), UNIT_PRICE, public_stream)
    add_remove.ask(questions, by="gaussian")
    assert {turn.angle for turn in add_remove.turns} == {None}


def test_questions_need_positive_shares_and_names_of_their_own():
    with pytest.raises(BudgetError, match="share"):
        rehearsal().ask(FIRST, by="l1", share=0.0)
    with pytest.raises(PrivacyError, match="two questions"):
        rehearsal().ask([FIRST, FIRST], by="l1")


def test_a_failure_or_warning_inside_is_replaced_by_one_word_that_knows_nothing():
    def fail():
        warnings.warn("secret 4711", stacklevel=1)
        np.log(np.array([0.0, -1.0]))
        raise ValueError("secret 4711")

    with pytest.raises(PrivacyError) as caught:
        sealed(fail)
    assert "4711" not in str(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_two_gates_are_never_open_at_once_so_that_filters_of_warnings_stay_whole():
    """Filters belong to the process: the gate that closes first would restore them under the other's feet."""
    inside, second_is_in, filters = threading.Event(), threading.Event(), list(warnings.filters)

    def first():
        inside.set()
        second_is_in.wait(0.3)  # with a lock nobody comes

    def second():
        second_is_in.set()
        leaving.join(5)  # the other gate has closed
        warnings.warn("secret 4711", stacklevel=1)

    with warnings.catch_warnings(record=True) as warned:
        leaving = threading.Thread(target=sealed, args=(first,))
        leaving.start()
        inside.wait(5)
        entering = threading.Thread(target=sealed, args=(second,))
        entering.start()
        leaving.join(5)
        entering.join(5)
        assert not warned
    assert list(warnings.filters) == filters
