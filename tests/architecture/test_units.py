"""One person's rows count as one person's, however the name is spelt, wherever they lie, whatever is asked."""

import enum

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.mechanisms.random import public_stream
from privstats.older.formula.domain import Domain
from privstats.older.gate.rows import BLOCK_ROWS
from privstats.older.mechanisms import MECHANISMS
from privstats.older.privacy.neighbors import Neighbors
from privstats.older.workflow import ranges


class Member(str, enum.Enum):  # noqa: UP042 - a str enum as it is written in older code
    ANN = "ann"


def sums(data, **options):
    """Released sums of scaled values; the same seed draws the same noise, so differences are those of exact sums."""
    fit = ps.dp_mean("x", data, 1.0, domain={"x": (-1, 1)}, rng=1, **{"unit": "id", **options})
    (release,) = fit.releases
    return release.value


def people(n, ids=None):
    rng = np.random.default_rng(0)
    names = pd.Series([f"p{k}" for k in range(n)] if ids is None else ids, dtype=object)
    return pd.DataFrame({"id": names, "x": rng.uniform(-1, 1, n)})


def moved(data, rows, **options):
    """How far count, sum and sum of squares move when these rows of one person go from one end to the other."""
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
    assert moved(data, rows)[1] == pytest.approx(2.0, abs=1e-3)  # one row, from -1 to 1
    assert moved(data, rows, rows_per_unit=2)[1] == pytest.approx(4.0, abs=1e-3)


def test_the_rows_of_a_person_are_counted_across_blocks():
    n = BLOCK_ROWS + 1000
    data = people(n)
    rows = [5, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 999]
    data.loc[rows, "id"] = "ann"
    assert moved(data, rows)[1] == pytest.approx(2.0, abs=1e-3)
    assert moved(data, rows, rows_per_unit=3)[1] == pytest.approx(6.0, abs=1e-3)


@pytest.mark.parametrize("kind", ["replace", "add_remove"])
def test_a_bought_range_is_not_one_persons_to_decide(kind):
    data = pd.concat([people(3000), pd.DataFrame({"id": "ann", "x": np.full(9000, 1e6)})], ignore_index=True)
    neighbors, domain, answers = (
        Neighbors(kind, "id"),
        Domain({"y": (-1, 1)}),
        {"rank": lambda _: MECHANISMS["rank"](0.1)},
    )
    turns = ranges.rehearse(("x",), domain, neighbors, answers)
    paid = [(turn, answers[turn.mechanism](1.0)) for turn in turns]
    bought, _ = ranges.buy(("x",), domain, data, paid, neighbors, public_stream)
    assert -100 < bought["x"].lo < -0.9
    assert 0.9 < bought["x"].hi < 100
