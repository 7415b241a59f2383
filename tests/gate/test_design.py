"""The gate, which reads the data, with regression designs: results do not depend on the sizes of blocks and batches.

Complete designs use every row, and estimated bounds do not change which rows are used.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from privstats.formula.design import bind_regression
from privstats.formula.domain import Domain
from privstats.gate import rows as rows_module
from privstats.gate.questions import Sum, Values
from privstats.gate.rehearsal import Rehearsal
from privstats.mechanisms.random import streams
from privstats.privacy.promise import Neighbors, PureDP
from privstats.sets.cells import Cells, Line, Shells
from privstats.sets.vectors import Ball, Fractions, Products
from tests.gate.toy import TOLD, in_batches, rows_of

SPEC = {"y": (0, 9), "x": (-3, 3), "g": ["a", "b"], "w": (0, 2)}
FORMULA = "np.sqrt(y) ~ np.tanh(x) * g + np.exp(x)"
DESIGN = bind_regression(FORMULA, Domain(SPEC))
COMPLETE = bind_regression(FORMULA, Domain(SPEC, complete=True))
UNITS = Neighbors("replace", "who", 2)


@dataclass(frozen=True)
class Scores:
    """Row function: the least-squares residual at fixed coefficients, times three random mixtures of columns."""

    seed: int = 0

    def __call__(self, block):
        d = DESIGN.width - 1
        theta = np.append(np.linspace(-0.5, 0.5, d), 0.0)[:, None]
        mixed = np.random.default_rng(self.seed).normal(size=(DESIGN.width, 3))
        return block.times(mixed) * (block.response - block.times(theta)[:, 0])[:, None]


@dataclass(frozen=True)
class One:
    def __call__(self, block):
        return np.ones((len(block.present), 1))


@dataclass(frozen=True)
class Level:
    def __call__(self, block):
        return block.codes[0][:, None].astype(float)


@dataclass(frozen=True)
class Large:
    def __call__(self, block):
        return np.abs(block.response) > 0.2


QUESTIONS = [
    Sum("score", Scores(), Ball(3, 1.0), folded=True),
    Sum("meat", Scores(1), Products(3, 2.0), folded=True, keep=Large()),
    Sum("sizes", Scores(), Shells(3, (0.1, 0.5, 2.0)), folded=True),
    Sum("hessian", Scores(2), Products(3, 1.0)),
    Sum("levels", Level(), Cells(2)),
    Sum("rows", One(), Fractions(1)),
]


def frame(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"y": rng.uniform(-1, 10, n), "x": rng.normal(0, 2, n), "g": rng.choice(["a", "b", "c"], n)})
    data.loc[::7, "x"] = np.nan
    return data.assign(who=rng.integers(0, n // 2 + 1, n), w=1.0)


@pytest.mark.parametrize("neighbors", [Neighbors(), UNITS], ids=["rows", "units"])
@pytest.mark.parametrize("block_rows", [1, 7, 2048])
def test_blocks_and_batches_of_any_size_give_the_same_bits(monkeypatch, block_rows, neighbors):
    data = frame(1500 if block_rows > 7 else 120)
    whole = rows_of(data, neighbors, DESIGN).totals(QUESTIONS)
    assert rows_of(in_batches(data, block_rows), neighbors, DESIGN).totals(QUESTIONS) == whole
    monkeypatch.setattr(rows_module, "BLOCK_ROWS", block_rows)
    assert rows_of(data, neighbors, DESIGN).totals(QUESTIONS) == whole


def test_every_row_of_a_complete_design_is_present_whatever_its_cells_are():
    data = frame(200)
    data.loc[3:30, ["y", "x"]] = np.nan
    data.loc[20:60, "g"] = None
    data["g"] = data["g"].astype(object)
    count = [Sum("rows", One(), Fractions(1))]
    assert rows_of(data, design=COMPLETE).totals(count)[0].value() == [200]
    missing = (data[["y", "x"]].isna().any(axis=1) | ~data["g"].isin(["a", "b"])).sum()
    assert rows_of(data, design=DESIGN).totals(count)[0].value() == [200 - missing]


@pytest.mark.parametrize("more", [{"subset": "x > 0"}, {"weights": "w"}])
def test_a_design_that_leaves_rows_out_or_weighs_them_is_not_complete(more):
    design = bind_regression(FORMULA, Domain(SPEC, complete=True), **more)
    assert COMPLETE.complete
    assert not design.complete


@pytest.mark.parametrize("neighbors", [Neighbors(), UNITS, Neighbors("add_remove", "who", 9)], ids=str)
@pytest.mark.parametrize("design", [DESIGN, COMPLETE], ids=["missing", "complete"])
def test_honest_questions_about_a_design_pass_the_audit(design, neighbors):
    for few in (True, False):
        talk = Rehearsal(design, neighbors, PureDP(1.0), streams(1, "rehearsal"), few=few)
        talk.together([(question, TOLD) for question in QUESTIONS[:4]])
        talk(QUESTIONS[5], by=TOLD)
        talk(Values("values", One(), Line(0, 2)), by=TOLD)
        assert len(talk.asked) == 6


def test_bounds_that_were_released_give_another_design_of_the_same_rows():
    lacking = bind_regression("y ~ x", Domain({"g": ["a", "b"]}))
    assert lacking.lacking
    # the choice among a unit's rows depends on the declarations, so all rows of a unit are used here
    data, every = frame(300), Neighbors("replace", "who", 300)
    rows = rows_of(data, every, lacking)
    bought = lacking.with_bounds(dict.fromkeys(lacking.lacking, (-2.0, 4.0)))
    declared = bind_regression("y ~ x", Domain({"x": (-2.0, 4.0), "y": (-2.0, 4.0)}))

    @dataclass(frozen=True)
    class All:
        def __call__(self, block):
            return block.times(np.eye(3))

    question = [Sum("score", All(), Ball(3, 1.0), folded=True)]
    assert rows.through(bought).totals(question) == rows_of(data, every, declared).totals(question)
    talk = Rehearsal(lacking, UNITS, PureDP(1.0), streams(1, "rehearsal"))
    talk.through(bought)
    talk(question[0], by=TOLD)
