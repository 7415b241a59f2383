"""All rows of a person count as one unit, for every query, spelling of the person's name and position of the rows."""

import enum
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.gate import rows as gate_rows
from tests.architecture.leaks import frame
from tests.conftest import thinned
from tests.every import CALLS
from tests.laws.neighbours import step, transcripts, with_rows  # noqa: F401


class Member(str, enum.Enum):  # noqa: UP042 - a str enum as it is written in older code
    ANN = "ann"


def sums(data, **options):
    """Return the released sums of scaled values.

    The seed fixes the noise, so that differences of releases are differences of exact sums.
    """
    fit = ps.dp_mean("x", data, 1.0, domain={"x": (-1, 1)}, rng=1, **{"unit": "id", **options})
    (release,) = fit.releases
    return release.value


def people(n, ids=None):
    rng = np.random.default_rng(0)
    names = pd.Series([f"p{k}" for k in range(n)] if ids is None else ids, dtype=object)
    return pd.DataFrame({"id": names, "x": rng.uniform(-1, 1, n)})


def moved(data, rows, **options):
    """Return the changes of count, sum and sum of squares if the given rows move from one bound to the other."""
    here, there = (data.assign(x=data["x"].where(~data.index.isin(rows), end)) for end in (-1.0, 1.0))
    return np.abs(sums(here, **options) - sums(there, **options))


SPELLINGS = {
    "text": ["ann", np.str_("ann"), Member.ANN],
    "number": [7, 7.0, np.int8(7), np.float32(7), 7 + 0j],
    "day": [pd.Timestamp("2020-01-01"), np.datetime64("2020-01-01"), pd.Timestamp("2020-01-01T01:00+01:00")],
}


@pytest.mark.parametrize("kind", SPELLINGS)
def test_a_person_spelt_in_several_ways_is_one_person(kind):
    names = [f"p{k}" for k in range(60)]
    for row, name in enumerate(SPELLINGS[kind]):
        names[10 * row] = name
    data = people(60, names)
    rows = [10 * row for row in range(len(SPELLINGS[kind]))]
    # only one row per person is used; it moves from -1 to 1
    assert moved(data, rows)[1] == pytest.approx(2.0, abs=1e-3)
    assert moved(data, rows, rows_per_unit=2)[1] == pytest.approx(4.0, abs=1e-3)


NUMBERS = {
    "float32": np.float32,
    "int8": np.int8,
    "object": object,
    "Int64": "Int64",
    "bool": bool,
    "category": "category",
}


@pytest.mark.parametrize("dtype", NUMBERS.values(), ids=list(NUMBERS))
def test_frames_with_names_of_other_types_hold_the_same_persons(dtype):
    data = people(40, [0, 1] * 20)
    pieces = [
        data.head(20).assign(id=data["id"].head(20).astype(float)),
        data.tail(20).assign(id=data["id"].astype(dtype)),
    ]
    assert moved_in(pieces) == pytest.approx(2.0, abs=1e-3)


def moved_in(pieces):
    """Return the change of the sum if all rows of the person named 1 move from one bound to the other."""
    ends = []
    for end in (-1.0, 1.0):
        frames = [piece.assign(x=piece["x"].where(piece["id"].astype(float) != 1, end)) for piece in pieces]
        ends.append(sums(lambda frames=frames: frames))
    return abs(ends[0] - ends[1])[1]


def test_the_rows_of_a_person_are_counted_across_blocks(monkeypatch):
    monkeypatch.setattr(gate_rows, "BLOCK_ROWS", 100)
    data = people(190)
    rows = [5, 99, 100, 189]
    data.loc[rows, "id"] = "ann"
    for source in (moved, lambda data, rows, **more: moved(data, rows, **more)):
        assert source(data, rows)[1] == pytest.approx(2.0, abs=1e-3)
        assert source(data, rows, rows_per_unit=3)[1] == pytest.approx(6.0, abs=1e-3)


@pytest.mark.parametrize("domain", [None, {"x": (-1, 1)}], ids=["estimated", "declared"])
@pytest.mark.parametrize("most", [1, 3])
def test_the_order_of_rows_changes_no_release(most, domain):
    data = people(4000, [k % 1000 for k in range(4000)])
    call = {"domain": domain, "unit": "id", "rows_per_unit": most, "rng": 1}
    shuffled = data.sample(frac=1.0, random_state=1)
    sources = data, lambda: [shuffled[:1500], shuffled[1500:]]
    here, there = (ps.dp_mean("x", source, 100.0, **call).releases for source in sources)
    assert [one.value.tolist() for one in here] == [one.value.tolist() for one in there]


@pytest.mark.parametrize("kind", ["replace"])
def test_an_estimated_range_is_not_one_persons_to_decide(kind):
    data = pd.concat([people(3000), pd.DataFrame({"id": "ann", "x": np.full(9000, 1e6)})], ignore_index=True)
    fit = ps.dp_mean("x", data, 20.0, unit="id", neighbors=kind, rng=1)
    ((_, low, high),) = fit.facts.estimated_bounds
    assert -100 < low < -0.9
    assert 0.9 < high < 100


# --- scores of a person are added, then bounded -----------------------------------------------------------------------

FOLDED = ("score", "meat", "score sizes", "first step", "second step", "step sizes")
BY_UNIT = {"unit": "who", "rows_per_unit": 3}
STEEP = [{"y": y, "x": x, "g": g, "b": b, "count": c} for y, x, g, b, c in ((0, 100, "a", 1, 60), (100, 0, "b", 0, 0))]
FITS = {
    "moments": CALLS["lm suffstats"],
    "steps": CALLS["lm newton"],
    "both": CALLS["lm"],
    "huber": CALLS["lm huber"],
    "logit": CALLS["logit newton"],
    "median": CALLS["rq newton"],
}


def of_people():
    """Return rows of persons with one to five scattered rows each."""
    data = frame(90).sample(frac=1.0, random_state=3, ignore_index=True)
    names = np.repeat(np.arange(30), [1, 2, 3, 4, 5, 2, 3, 4, 3, 3] * 3)[:90]
    return data.assign(who=np.random.default_rng(4).permutation(names))


def persons(data, name):
    """Return the frame and copies in which a person's rows lie at one of two corners of the domain, or alternate."""
    places = np.flatnonzero(data["who"] == name)
    steep, other = STEEP
    kinds = [[steep] * len(places), [other] * len(places), [(steep, other)[k % 2] for k in range(len(places))]]
    return [data.astype(object), *(with_rows(data, places, rows) for rows in kinds)]


@thinned(3)
@pytest.mark.parametrize("kind", FITS)
def test_all_rows_of_a_person_move_a_folded_score_by_no_more_than_one_row_may(transcripts, kind):  # noqa: F811
    data = of_people()
    (name,) = data["who"].value_counts().index[data["who"].value_counts() == 5][:1]
    given, fit = transcripts(
        lambda data, **more: FITS[kind](data, rng=1, mu=30, **BY_UNIT, **more), persons(data, name)
    )
    folded = [k for k, one in enumerate(given[0]) if one.name.startswith(FOLDED)]
    assert folded
    farthest = np.zeros(len(given[0]))
    for here, there in combinations(given, 2):
        farthest = np.maximum(farthest, [step(*both) for both in zip(here, there, strict=True)])
    assert farthest.max() <= 1 + 1e-12
    assert all(given[0][k].relation.rows == 1 for k in folded)
    assert max(farthest[k] for k in folded) >= 0.3
    assert all(one.relation.rows in (1, 3) for one in given[0])
    assert kind != "moments" or fit.bse.notna().all()  # errors of a person's rows may be dependent


def test_without_folding_three_rows_move_further_than_one(transcripts):  # noqa: F811
    data = of_people()
    (name,) = data["who"].value_counts().index[data["who"].value_counts() == 5][:1]
    call = CALLS["lm suffstats"]
    given, _ = transcripts(lambda data, **more: call(data, rng=1, **BY_UNIT, **more), persons(data, name))

    def claimed_of_one_row(one):
        return one._replace(relation=replace(one.relation, rows=1))

    moments = next(k for k, one in enumerate(given[0]) if one.relation.rows == 3)
    steps = [step(claimed_of_one_row(a[moments]), claimed_of_one_row(b[moments])) for a, b in combinations(given, 2)]
    assert max(steps) > 1.5  # the audit would detect a claim that is too small
