"""The gate, which reads the data, answers only planned and charged queries, each once; its errors reveal nothing."""

import contextlib
import copy
import gc
import os
import pickle
import signal
import threading
import warnings
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from privstats.errors import PrivacyError
from privstats.gate.gate import Planned, sealed
from privstats.gate.questions import Sum, Values
from privstats.gate.rows import BlockRows, SourceChangedError
from privstats.mechanisms.additive.gaussian import Gaussian
from privstats.mechanisms.additive.laplace import Laplace
from privstats.mechanisms.random import streams
from privstats.privacy.promise import GaussianDP, Neighbors, PureDP, Relation
from privstats.sets.cells import Cells, Line
from privstats.sets.vectors import Ball, Box, Fractions
from tests.gate.toy import TOLD, XY, Above, Exactly, Fails, Group, One, Toy, X, at, frame, gate_of, planned

FIRST = Sum("first", XY(), Box(2))
SECOND = Sum("second", XY(), Ball(2))


def test_several_questions_are_answered_in_one_pass(monkeypatch):
    passes, blocks = [], BlockRows.blocks
    monkeypatch.setattr(BlockRows, "blocks", lambda self: passes.append(1) or blocks(self))
    gate = gate_of(FIRST, SECOND)
    first, second = gate.together([(FIRST, TOLD), (SECOND, TOLD)])
    assert (first.name, second.name, len(passes)) == ("first", "second", 1)
    assert gate.releases == (first, second)


def test_a_release_is_the_exact_total_plus_the_noise_of_its_own_stream_and_law():
    data, by = frame(), Laplace()
    gate = gate_of(planned(FIRST, by, eps=0.3), data=data, seed=9)
    release = gate(FIRST, by=by)
    exact = np.clip(np.nan_to_num(data[["x", "y"]].to_numpy()), -1, 1)
    present = data["x"].notna() & data["g"].isin(["a", "b"])
    noise = release.law.sample(streams(9, "digest")("question", "first"), 1)[0]
    np.testing.assert_allclose(release.value, exact[present].sum(axis=0) + noise, atol=2e-4)
    assert release.keeps == PureDP(0.3)
    assert release.law.scale.tolist() == [4 / 0.3] * 2  # each of two entries changes by at most 2


def test_a_closed_gate_tells_laws_and_answers_nothing():
    gate = gate_of(FIRST, SECOND)
    gate(FIRST, by=TOLD)
    gate.close()
    assert gate.law(SECOND, by=TOLD) is not None
    with pytest.raises(PrivacyError, match="after the last one"):
        gate(SECOND, by=TOLD)


def test_a_question_is_answered_once_even_in_one_breath():
    gate = gate_of(FIRST)
    gate(FIRST, by=TOLD)
    with pytest.raises(PrivacyError, match=r"first.*not planned"):
        gate(FIRST, by=TOLD)
    with pytest.raises(PrivacyError, match=r"first.*not planned"):
        gate_of(FIRST).together([(FIRST, TOLD), (FIRST, TOLD)])


@pytest.mark.parametrize(
    ("question", "by"),
    [
        (at(FIRST, name="other"), TOLD),
        (at(FIRST, item="2"), TOLD),
        (FIRST, Laplace()),
        (FIRST, Exactly("another")),
        (at(FIRST, within_share_of=("second",)), TOLD),
    ],
)
def test_a_question_that_differs_from_the_plan_is_refused_and_so_is_its_law(question, by):
    gate = gate_of(FIRST, SECOND)
    with pytest.raises(PrivacyError, match="not planned"):
        gate(question, by=by)
    with pytest.raises(PrivacyError, match="not planned"):
        gate.law(question, by=by)
    assert gate(FIRST, by=TOLD).name == "first"  # the refused queries were not marked as asked


def test_a_refused_question_reads_no_row(monkeypatch):
    monkeypatch.setattr(BlockRows, "blocks", lambda self: pytest.fail("rows were read"))
    with pytest.raises(PrivacyError):
        gate_of(FIRST).together([(FIRST, TOLD), (SECOND, TOLD)])


def test_another_set_and_another_row_function_need_no_other_plan():
    gate = gate_of(planned(SECOND, Laplace()))
    release = gate(at(SECOND, of=One(2)).inside(0.5), by=Laplace())
    assert release.within.radius == 0.5


def test_questions_of_a_branch_wait_for_the_choice_and_the_other_branch_is_closed():
    left, right = at(FIRST, name="left"), at(FIRST, name="right")
    plan = [planned(SECOND), planned(left, branch="l"), planned(right, branch="r")]
    gate = gate_of(*plan)
    with pytest.raises(PrivacyError, match="not planned"):
        gate(left, by=TOLD)
    gate(SECOND, by=TOLD)
    # the noise law of a query is public, whether or not its branch is chosen
    assert gate.law(right, by=TOLD)[0] == PureDP(1.0)
    assert gate.choose("estimator", {"l": 2.0, "r": 1.0}) == gate.chosen == "r"
    with pytest.raises(PrivacyError, match="not planned"):
        gate(left, by=TOLD)
    gate(right, by=TOLD)
    with pytest.raises(PrivacyError, match="choice"):
        gate.choose("estimator", {"l": 1.0, "r": 2.0})


@pytest.mark.parametrize(
    ("lengths", "chosen"),
    [
        ({"l": np.nan, "r": 5.0}, "r"),
        ({"l": np.inf, "r": 5.0}, "r"),
        ({"l": np.nan, "r": np.inf}, "l"),
        ({"l": 1.0, "r": 1.0}, "l"),
        ({"r": 3.0, "l": -np.inf}, "l"),
    ],
)
def test_infinite_and_missing_lengths_close_a_branch(lengths, chosen):
    gate = gate_of(planned(FIRST, branch="l"), planned(SECOND, branch="r"))
    assert gate.choose("estimator", lengths) == chosen


def test_a_choice_is_between_the_planned_branches():
    for lengths in ({"l": 1.0}, {"r": 1.0, "other": 0.0}):
        with pytest.raises(PrivacyError, match="choice"):
            gate_of(planned(FIRST, branch="l"), planned(SECOND, branch="r")).choose("estimator", lengths)


# Optional questions

EXTRA = Sum("extra", One(), Fractions(1), within_share_of=("second",))


def test_an_optional_question_spends_a_part_of_anothers_share_which_keeps_it_otherwise():
    plan = [planned(SECOND, eps=2.0), planned(EXTRA, eps=0.5, within_share_of=("second",), fractions=(0.25,))]
    asked, not_asked = gate_of(*plan), gate_of(*plan)
    assert asked.law(SECOND, by=TOLD)[0] == PureDP(2.0)
    assert asked.decide("extra", True) is True
    assert asked(EXTRA, by=TOLD).keeps == PureDP(0.5)
    assert asked.law(SECOND, by=TOLD)[0] == asked(SECOND, by=TOLD).keeps == PureDP(1.5)
    assert not_asked.decide("extra", False) is False
    assert not_asked(SECOND, by=TOLD).keeps == PureDP(2.0)
    with pytest.raises(PrivacyError, match="after its share was spent"):
        not_asked(EXTRA, by=TOLD)


def test_an_optional_question_before_the_choice_closes_the_branches_whose_shares_it_does_not_spend():
    """An optional query before the choice of a branch (method) closes branches from whose budget it does not spend.

    If no branch were closed, a fit could cost more than the one charge for its branches. The fit could ask an optional
    query that spends a part of one branch, and then choose another branch and spend the whole budget of the other
    branch.
    """
    other = at(EXTRA, name="other extra", within_share_of=("first",))
    plan = [
        planned(EXTRA, eps=0.5, within_share_of=("second",), fractions=(0.5,)),
        planned(other, eps=0.5, within_share_of=("first",), fractions=(0.5,)),
        planned(SECOND, branch="steps"),
        planned(FIRST, branch="moments"),
    ]
    gate = gate_of(*plan)
    gate(EXTRA, by=TOLD)
    with pytest.raises(PrivacyError, match="not planned"):
        gate(other, by=TOLD)
    assert gate.choose("estimator", {"moments": 1.0, "steps": np.inf}) == "steps"
    late = gate_of(*plan)
    assert late.choose("estimator", {"moments": 1.0, "steps": 2.0}) == "moments"
    with pytest.raises(PrivacyError, match="not planned"):
        late(EXTRA, by=TOLD)


def test_an_optional_question_with_a_share_in_each_branch_closes_none_and_costs_the_one_that_is_taken():
    hosts = {"within_share_of": ("first", "second"), "fractions": (0.5, 0.1)}
    extra = replace(EXTRA, within_share_of=("first", "second"))
    plan = [
        planned(extra, eps=0.2, **hosts),
        planned(SECOND, branch="steps", eps=2.0),
        planned(FIRST, branch="moments", eps=0.4),
    ]
    for branch, question, left in (("steps", SECOND, 1.8), ("moments", FIRST, 0.2)):
        gate = gate_of(*plan)
        assert gate(extra, by=TOLD).keeps == PureDP(0.2)
        assert gate.law(question, by=TOLD)[0].eps == pytest.approx(left)
        assert gate.choose("estimator", {"moments": 1.0, "steps": 1.0, branch: 0.5}) == branch
        assert gate(question, by=TOLD).keeps.eps == pytest.approx(left)
    elsewhere = gate_of(*plan, planned(at(SECOND, name="third"), branch="other"))
    elsewhere(extra, by=TOLD)
    assert elsewhere.choose("estimator", {"moments": 2.0, "steps": 3.0, "other": 1.0}) == "moments"


def test_shares_of_two_questions_of_one_branch_cannot_both_be_spent_from():
    for branch in ("steps", None):
        hosts = {"within_share_of": ("first", "second"), "fractions": (0.1, 0.1)}
        extra = replace(EXTRA, within_share_of=("first", "second"))
        with pytest.raises(PrivacyError, match="would spend"):
            gate_of(planned(extra, **hosts), planned(FIRST, branch=branch), planned(SECOND, branch="steps"))(
                extra, by=TOLD
            )


def test_a_part_that_is_no_part_is_refused():
    for fraction in (0.0, 1.0, -0.5, 2.0):
        with pytest.raises(PrivacyError, match="part"):
            planned(EXTRA, within_share_of=("second",), fractions=(fraction,))


def test_no_conversation_spends_more_than_its_charge_whatever_it_asks_in_whatever_order():
    """No order of queries and choices of a branch (method) costs more than the charge for the plan.

    The charge has the queries before the choice, and one entry for all branches, whose costs are equal.
    """
    rng = np.random.default_rng(11)
    reached = 0.0
    for _ in range(120):
        plan, branches = [planned(Sum("p", One(), Fractions(1)), eps=0.2)], ("l", "r", "s")
        for branch in branches:
            for k, part in enumerate(rng.dirichlet(np.ones(3)) * 0.8):
                plan.append(planned(Sum(branch, One(), Fractions(1), item=str(k)), branch=branch, eps=part))
        for k in range(4):
            hosts = [plan[rng.integers(len(plan))]]
            hosts += [other for other in plan if rng.random() < 0.3 and _fits(other, hosts)]
            eps = 0.24 * min(host.promise.eps for host in hosts)
            part = {
                "within_share_of": tuple(host.label for host in hosts),
                "fractions": tuple(eps / host.promise.eps for host in hosts),
            }
            question = Sum("extra", One(), Fractions(1), item=str(k), within_share_of=part["within_share_of"])
            home = None if len(hosts) > 1 or rng.random() < 0.6 else hosts[0].branch
            plan.append(planned(question, branch=home, eps=eps, **part))
        gate = gate_of(*plan, data=frame(3))
        for which in rng.permutation(len(plan) + 1):
            try:
                if which == len(plan):
                    gate.choose("estimator", {branch: rng.uniform() for branch in branches})
                else:
                    about = plan[which]
                    gate(Sum(*_split(about), within_share_of=about.within_share_of), by=TOLD)
            except PrivacyError:
                continue
        spent = sum(release.keeps.eps for release in gate.releases)
        assert spent <= 1 + 1e-9
        reached = max(reached, spent)
    assert reached > 0.7


def _fits(other, hosts):
    """Return whether an optional query may also spend from the share of the query `other`, in addition to `hosts`.

    An optional query spends a part of the share of each of its hosts. All hosts must be in different branches
    (methods).
    """
    homes = [host.branch for host in (*hosts, other)]
    return None not in homes and len(set(homes)) == len(homes)


def _split(about):
    item = about.label.removeprefix(about.name).strip()
    return about.name, One(), Fractions(1), None, item


@dataclass(frozen=True, eq=False)
class Disguised(Sum):
    """A query that adds up all rows of a unit, but has the sensitivity of a sum that is clipped for each unit."""

    @property
    def adds_up_units(self):
        return True


def test_questions_of_other_classes_are_refused():
    with pytest.raises(PrivacyError, match="neither a sum nor values"):
        gate_of(FIRST)(Disguised("first", XY(), Box(2)), by=TOLD)


# Relations


@pytest.mark.parametrize(
    ("question", "neighbors", "complete", "relation"),
    [
        (FIRST, Neighbors(), True, Relation(1, True, False)),
        (FIRST, Neighbors(), False, Relation(1, True, True)),
        (at(FIRST, keep=Above(0.0)), Neighbors(), True, Relation(1, True, True)),
        (FIRST, Neighbors("add_remove"), True, Relation(1, False, True)),
        (FIRST, Neighbors("replace", "who", 3), True, Relation(3, True, True)),
        (FIRST, Neighbors("replace", "who"), True, Relation(1, True, True)),  # a row may have no unit
        (at(FIRST, folded=True), Neighbors("replace", "who", 3), True, Relation(1, True, True)),
        (at(FIRST, folded=True), Neighbors("add_remove", "who", 3), True, Relation(1, False, True)),
        (Values("first", X(), Line(-1, 1)), Neighbors("replace", "who", 3), True, Relation(3, True, True)),
    ],
)
def test_the_relation_follows_from_neighbours_the_design_and_the_question(question, neighbors, complete, relation):
    by = Exactly()
    gate = gate_of(planned(question, by), data=frame().assign(who=1), neighbors=neighbors, design=Toy(complete))
    gate(question, by=by)
    assert by.heard[0][3] == relation == gate.law(question, by=by)[1]


def test_codes_of_cells_are_never_added_up():
    question = Sum("groups", Group(), Cells(2), folded=True)
    gate = gate_of(question, data=frame().assign(who=1), neighbors=Neighbors("replace", "who", 3))
    with pytest.raises(PrivacyError, match="cannot be folded"):
        gate(question, by=TOLD)
    units = Sum("units", One(), Cells(1), folded=True)
    gate = gate_of(
        units,
        data=frame(9).assign(who=[1, 1, 2, 2, 2, 3, 3, 4, np.nan]),
        neighbors=Neighbors("replace", "who", 2),
        design=Toy(True),
    )
    assert gate(units, by=TOLD).value.tolist() == [4.0]


def test_only_sums_can_be_folded():
    with pytest.raises(TypeError):
        Values("values", X(), Line(-1, 1), folded=True)


# Failures


def test_a_failure_or_warning_inside_is_replaced_by_one_text_that_knows_nothing():
    def fail():
        warnings.warn("secret 4711", stacklevel=1)
        np.log(np.array([0.0, -1.0]))
        raise ValueError("secret 4711")

    with pytest.raises(PrivacyError) as caught:
        sealed(fail)
    assert "4711" not in str(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_a_changed_source_is_named_and_nothing_hangs_on_it_either():
    def fail():
        raise SourceChangedError

    with pytest.raises(PrivacyError, match="same rows") as caught:
        sealed(fail)
    assert caught.value.__context__ is caught.value.__cause__ is None


@pytest.mark.parametrize("question", [at(FIRST, of=Fails()), at(FIRST, keep=Fails()), at(FIRST, of=One(7))])
def test_a_row_function_that_fails_tells_nothing_and_the_question_stays_asked(question):
    gate = gate_of(FIRST)
    with pytest.raises(PrivacyError, match="could not be computed") as caught:
        gate(question, by=TOLD)
    assert caught.value.__context__ is caught.value.__cause__ is None
    frames, trace = [], caught.value.__traceback__
    while trace:
        frames.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    assert not any(name.endswith(("toy.py", "rows.py", "questions.py")) for name in frames)
    with pytest.raises(PrivacyError, match="not planned"):
        gate(FIRST, by=TOLD)
    assert gate.releases == ()


def test_a_column_that_is_not_there_is_a_failure_inside():
    with pytest.raises(PrivacyError, match="could not be computed"):
        gate_of(FIRST, data=frame().drop(columns="x"))(FIRST, by=TOLD)


def test_two_gates_are_never_open_at_once_so_that_filters_of_warnings_stay_whole():
    """Two gates, which read data without warnings, are never open at the same time.

    Warning filters belong to the whole process. If two gates were open, the gate that closes first would restore the
    filters while the other gate still reads rows.
    """
    inside, second_is_in, filters = threading.Event(), threading.Event(), list(warnings.filters)

    def first():
        inside.set()
        second_is_in.wait(0.3)  # because of the lock, the other gate waits until this wait ends

    def second():
        second_is_in.set()
        leaving.join(5)  # wait until the other gate has closed
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


def test_of_threads_that_ask_the_same_question_one_is_answered():
    gate, outcomes = gate_of(FIRST, data=frame(20_000)), []

    def ask():
        try:
            outcomes.append(gate(FIRST, by=TOLD))
        except PrivacyError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sum(isinstance(outcome, PrivacyError) for outcome in outcomes) == 7
    assert len(gate.releases) == 1


def test_no_thread_looks_whether_a_question_was_asked_while_another_asks_it():
    """No other thread may act between the check whether a query was asked and the entry that it was asked.

    The answers to queries are computed one after the other in any case.
    """
    gate, outcomes, both = gate_of(FIRST), [], threading.Barrier(2)

    class Asked(set):
        def __contains__(self, label):
            known = super().__contains__(label)
            with contextlib.suppress(threading.BrokenBarrierError):
                both.wait(0.3)  # because of the lock, the other thread waits until this wait ends
            return known

    def ask():
        try:
            outcomes.append(gate(FIRST, by=TOLD))
        except PrivacyError as error:
            outcomes.append(error)

    gate._asked = Asked()
    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sum(isinstance(outcome, PrivacyError) for outcome in outcomes) == 1
    assert len(gate.releases) == 1


@pytest.mark.parametrize("double", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_conversation_cannot_be_copied(double):
    with pytest.raises(PrivacyError, match="copied"):
        double(gate_of(FIRST))


def test_a_conversation_does_not_go_on_in_another_process(monkeypatch):
    gate = gate_of(FIRST)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(PrivacyError, match="another process"):
        gate(FIRST, by=TOLD)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_process_that_is_forked_while_a_gate_is_open_can_open_its_own():
    inside, leave = threading.Event(), threading.Event()
    holder = threading.Thread(target=sealed, args=(lambda: inside.set() or leave.wait(10),))
    holder.start()
    inside.wait(10)
    child = os.fork()
    if child == 0:  # the child process lacks the thread that holds the lock
        signal.alarm(5)
        gate_of(FIRST)(FIRST, by=TOLD)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    leave.set()
    holder.join(10)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_forks_do_not_share_the_noise_of_streams_that_were_made_before():
    stream, pipes = streams(None, "digest"), []
    stream("question", "score").bytes(8)  # creates all objects that exist once per process
    for _ in range(3):
        readable, writable = os.pipe()
        if os.fork() == 0:
            os.write(writable, stream("question", "score").bytes(32))
            os._exit(0)
        os.close(writable)
        pipes.append(readable)
    noise = [os.read(pipe, 32) for pipe in pipes] + [stream("question", "score").bytes(32)]
    for pipe in pipes:
        os.close(pipe)
        os.wait()
    assert [len(part) for part in noise] == [32] * 4
    assert len(set(noise)) == 4


def test_streams_differ_by_kind_label_digest_and_seed_and_repeat():
    def draw(seed, digest, kind, label):
        return streams(seed, digest)(kind, label).uniform()

    base = (7, "digest", "question", "score")
    others = [
        (8, *base[1:]),
        (7, "other", *base[2:]),
        (7, "digest", "key", "score"),
        (7, "digest", "rehearsal", "score"),
    ]
    tricky = [(7, "digest", "question", "score 1"), (7, "digest", "question", "key\x1fscore")]
    drawn = [draw(*which) for which in (base, *others, *tricky)]
    assert len(set(drawn)) == len(drawn)
    assert draw(*base) == draw(*base)
    own = streams(None, "digest")
    # each call without a seed returns a new stream
    assert own("question", "score").uniform() != own("question", "score").uniform()
    with pytest.raises(PrivacyError, match="kind"):
        own("noise", "score")


def test_nothing_that_a_conversation_leaves_behind_holds_a_row():
    secret = 0.4711001
    data = pd.DataFrame({"x": [secret, 0.1], "y": 0.0, "g": "a"})
    by = Gaussian()
    plan = Planned("first", "first", "sum", by, None, GaussianDP(1.0))
    gate = gate_of(plan, data=data)
    release = gate(FIRST, by=by)
    assert str(secret)[:6] not in repr(release) + repr(vars(release))
    assert np.float64(secret).tobytes() not in pickle.dumps(release)
    assert "DataFrame" not in repr(gate) and "0.47" not in repr(gate) + repr(gate._rows.source)
    del gate
    gc.collect()
    assert release.value.shape == (2,)
