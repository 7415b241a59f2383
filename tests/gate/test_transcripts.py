"""The privacy loss of all answers of a fit together is at most the charge, for neighbouring data.

A row function may depend on earlier releases, and does so here. Therefore each data frame gets the queries and the
releases (the transcript) of the first frame, as in the definition of adaptive composition.
"""

import math

import numpy as np
import pandas as pd
import pytest

from privstats.api.regression import dp_lm
from privstats.formula.domain import Domain
from privstats.gate.gate import Gate
from privstats.gate.questions import Sum
from privstats.gate.rows import BlockRows
from privstats.gate.sources import Frame
from privstats.mechanisms.random import streams
from privstats.models.descent import DESCENTS
from tests.conftest import thinned
from tests.sets.members import norm_of

RESPONSE = (-3, 5)
ROUNDING = 1e-6


class Replay(Gate):
    """A gate that records exact answers and, if a transcript is given, returns the transcript's releases.

    The gate is the part of the package that reads the data.
    """

    def __init__(self, rows, planned, stream, transcript=None):
        super().__init__(rows, planned, stream)
        self.transcript, self.exact = transcript, {}

    def _answer(self, pairs, promises, relations):
        totals = self._totals([question for question, _ in pairs if isinstance(question, Sum)])
        assert len(totals) == len(pairs), "these fits ask sums only"
        for (question, by), promise, relation, total in zip(pairs, promises, relations, totals, strict=True):
            sensitivity = question.within.sensitivity(by.norm, relation)
            self.exact[question.label] = total.value(), sensitivity, promise, by.law(promise, question.within, relation)
        if self.transcript is None:
            return super()._answer(pairs, promises, relations)
        return [self.transcript[question.label] for question, _ in pairs]


def along(plan, frames, seed):
    """Return the exact answers of the queries for each data frame, if all frames get the first frame's releases."""
    transcript, answers = None, []
    for frame in frames:
        rows = BlockRows(Frame(frame), plan.public.design, plan.specification.neighbors, b"key")
        gate = Replay(rows, plan.planned, streams(seed, "digest"), transcript)
        with np.errstate(all="ignore"):
            plan.specification.converse(gate, plan.public, plan.choice.estimator)
        transcript = transcript or {release.name: release for release in gate.releases}
        assert set(gate.exact) == set(transcript)
        answers.append(gate.exact)
    return answers


def mu_between(here, there):
    """Return the distance between all exact answers for two data frames, in standard deviations of normal noise.

    The distance is the square root of the sum of squared differences, each divided by the noise variance.
    """
    shifts = [(here[k][0] - there[k][0]) ** 2 / here[k][3].variance() for k in here]
    return math.sqrt(sum(shift.sum() for shift in shifts))


def eps_between(here, there):
    """Return the largest log ratio of the joint densities of all answers with K-norm noise, between two frames."""
    total = 0.0
    for k, (exact, sensitivity, promise, _) in here.items():
        gap = norm_of(sensitivity)((sensitivity.weights * (exact - there[k][0]))[None])[0]
        total += promise.as_pure().eps * gap / sensitivity.size
    return total


def base(n=240):
    """Return rows close to a plane, so that many scores of changed rows are clipped.

    The predictors are correlated, and most of them are far from their bounds.
    """
    rng = np.random.default_rng(2)
    X = 0.3 * rng.standard_normal((n, 2)) @ (np.eye(2) + 0.5) + 0.4
    data = pd.DataFrame(np.clip(X, -2, 2), columns=["a", "b"])
    data["y"] = np.clip(1 + data.sum(axis=1) / 2 + 0.05 * rng.standard_normal(n), *RESPONSE)
    data["g"] = rng.choice(["u", "v"], n)
    data["who"] = np.arange(n) // 3
    return data


def rows_to_try():
    """Return rows of growing leverage in several directions, with extreme responses; also random and invalid rows."""
    rng = np.random.default_rng(7)
    ways = [np.eye(2)[0], np.ones(2), np.eye(2)[0] - np.eye(2)[1]]
    X = [0.4 + far * way for way in ways for far in (0.6, 1.6, -2.4)]
    tried = [(*x, y, g) for x in X for y, g in zip(RESPONSE, ("u", "v"), strict=True)]
    tried += [(*rng.uniform(-2, 2, 2), rng.uniform(*RESPONSE), "v") for _ in range(3)]
    odd = [(np.nan, np.nan, 1.0, "u"), (2.0, -2.0, 5.0, "neither"), (1e308, -1e308, -np.inf, "v")]
    apart = [(2.0, -2.0, RESPONSE[0], "u"), (-0.5, 1.5, RESPONSE[0], "u")]  # two rows with opposite clipped scores
    opposite = [(6**-0.5 * 2, 6**-0.5 * 2, y, "u") for y in RESPONSE]  # the longest rows whose weight is not reduced
    return [*tried, *odd, *apart, *opposite]


def neighbours(unit, kind):
    """Return neighbouring frames, in which the rows of one unit, or one row, are replaced or removed."""
    data = base()
    rows = [0] if unit is None else [0, 1, 2]
    away = data.drop(index=rows)
    frames = [data, away] if kind == "add_remove" else [data]
    for number, row in enumerate(rows_to_try()):
        frame = data.copy()
        # signs of the rows of the unit; in some frames, one row is opposite to the others
        signs = [1, 1, -1] if number % 4 == 3 else [1, 1, 1]
        for at, sign in zip(rows, signs, strict=False):
            frame.loc[at, ["a", "b", "y"]] = sign * np.array(row[:3])
            frame.loc[at, "g"] = row[3]
        frames.append(frame)
    return frames


# budgets MU, EPS for neighbours that differ in one row, and larger budgets MUCH, LARGE for neighbours that differ in a
# unit; with a small budget, releases are so noisy that a unit's rows would not reach the limits of their contributions
MU, EPS, MUCH, LARGE = {"mu": 1.0}, {"eps": 8.0}, {"mu": 8.0}, {"eps": 60.0}
# smallest share of mu that the joint shifts must reach, where it is below 0.9: half of mu^2 is spent on Hessians, and
# two rows with opposite scores have equal Hessians
USED = {"noisy_newton": 0.65}
CASES = [
    ("newton", MU, "replace", None),
    ("newton", MUCH, "replace", "who"),
    ("newton", MUCH, "add_remove", "who"),
    ("newton", EPS, "replace", None),
    ("newton", LARGE, "add_remove", "who"),
    ("suffstats", MU, "replace", "who"),
    ("suffstats", EPS, "replace", None),
    ("suffstats", EPS, "add_remove", "who"),
    ("auto", MU, "replace", None),
    ("ngd", MUCH, "replace", None),
    ("noisy_newton", MUCH, "replace", None),
]


@thinned(3)
@pytest.mark.parametrize(("mech", "budget", "kind", "unit"), CASES)
def test_no_neighbours_shift_all_answers_of_a_transcript_by_more_than_the_budget(mech, budget, kind, unit):
    (whole,), between = budget.values(), mu_between if "mu" in budget else eps_between
    domain = Domain({"a": (-2, 2), "b": (-2, 2), "y": RESPONSE, "g": ["u", "v"]})
    options = {"domain": domain, "mech": mech, "neighbors": kind, "dry_run": True, **budget}
    options |= {} if unit is None else {"unit": unit, "rows_per_unit": 3}
    options |= {"loss": "huber", "steps": 12} if mech in DESCENTS else {}
    plan = dp_lm("y ~ a + b" if mech in DESCENTS else "y ~ a + b + g", base(), **options)
    frames = neighbours(unit, kind)
    answers = along(plan, frames, seed=3)
    if kind == "replace":
        shifts = [between(here, there) for k, here in enumerate(answers) for there in answers[:k]]
    else:
        shifts = [between(here, answers[1]) for here in answers]
    assert max(shifts) <= whole * (1 + ROUNDING)
    # nearly the whole budget is used, so slightly less noise would be detected
    assert max(shifts) >= USED.get(mech, 0.9) * whole
