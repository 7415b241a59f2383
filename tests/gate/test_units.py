"""The choice of a unit's rows depends on the rows of this unit only, not on their order, and favours no row."""

import numpy as np
import pandas as pd
import pytest

from privstats.formula.design import bind_regression
from privstats.formula.domain import Domain
from privstats.gate import units as units_module
from privstats.gate.questions import Sum
from privstats.gate.rows import BlockRows
from privstats.gate.sources import source_of
from privstats.privacy.promise import Neighbors
from privstats.sets.vectors import Box
from tests.gate.toy import frame, in_batches

DOMAIN = Domain({"y": (-1, 1), "x": (-1, 1), "g": ["a", "b"], "day": ("2020-01-01", "2020-12-31")})
DESIGN = bind_regression("y ~ x + C(g) + day", DOMAIN, subset="x > -.9")


def people(n=600, units=90, seed=0):
    """Return rows of units with one to about sixty rows: many are copies, some are incomplete or have no unit."""
    rng = np.random.default_rng(seed)
    data = frame(n, seed).round({"x": 0, "y": 1})
    who = np.floor(units * rng.uniform(0, 1, n) ** 2)
    days = pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 3, n), unit="D")
    return data.assign(day=days, who=np.where(np.arange(n) % 31, who, np.nan))


def counted(data, most=3, design=DESIGN, key=b"key", source=None, first=None):
    """Return the rows of a frame that are used with at most `most` rows of each unit."""
    rows = BlockRows(
        source_of(data if source is None else source), first or design, Neighbors("replace", "who", most), key
    )
    return data[np.concatenate([units >= 0 for _, units in rows.through(design).blocks()])]


def contributions(data, **options):
    """Return the used rows as a sorted list of pairs: the unit, and the values of the row."""
    rows = counted(data, **options)
    block = DESIGN.block(rows)
    return sorted(zip(rows["who"], map(tuple, block.times(np.eye(DESIGN.width))), strict=True))


@pytest.mark.parametrize("most", [1, 3, 8])
def test_the_order_of_rows_the_batches_and_the_source_choose_nothing(most, monkeypatch):
    data = people()
    here = contributions(data, most=most)
    assert len(here) < len(data) * 0.9
    for seed in range(5):
        assert contributions(data.sample(frac=1.0, random_state=seed), most=most) == here
    assert contributions(data, most=most, source=in_batches(data, 17)) == here
    monkeypatch.setattr(units_module, "SORTED_ROWS", 50)  # units are now sorted in several parts
    assert contributions(data, most=most) == here


@pytest.mark.parametrize("rows", [0, 1, 40])
def test_replacing_all_rows_of_a_unit_changes_no_other_unit(rows):
    data = people()
    new = people(40, seed=5).head(rows).assign(who=7.0)
    others = data[data["who"] != 7]
    here = [one for one in contributions(data) if one[0] != 7]
    # the rows of the new unit come last, or first
    for changed in (pd.concat([others, new]), pd.concat([new, others])):
        there = contributions(changed)
        assert [one for one in there if one[0] != 7] == here
        assert sum(one[0] == 7 for one in there) == min(3, DESIGN.block(new).present.sum() if rows else 0)


def test_as_many_rows_of_a_unit_count_as_may_and_all_of_them_are_present():
    data = people()
    present = data[DESIGN.block(data).present]
    many = present["who"].value_counts()
    for most in (1, 3, 8):
        assert counted(data, most)["who"].value_counts().to_dict() == many.clip(upper=most).to_dict()
    assert set(counted(data).index) <= set(present.index)


def test_each_row_is_as_likely_to_count_as_the_next_one_copies_too():
    """Nine of ten rows of a unit have x = 1, so that a row with x = 1 is used in nine of ten units.

    For 20,000 units, four standard deviations of the share of used rows with x = 1 are .0085.
    """
    n = 20_000
    data = pd.DataFrame({"x": np.tile(np.arange(10) > 0, n) * 1.0, "who": np.repeat(np.arange(n), 10)})
    data = data.assign(y=0.0, g="a", day=pd.Timestamp("2020-02-02"))
    assert counted(data, 1)["x"].mean() == pytest.approx(0.9, abs=0.0085)
    assert counted(data, 3)["x"].mean() == pytest.approx(0.9, abs=0.0085)
    distinct = data.assign(x=np.tile(np.arange(10) / 10, n))
    share = counted(distinct, 3)["x"].value_counts(normalize=True)
    assert share.to_numpy() == pytest.approx(np.full(10, 0.1), abs=0.006)


def test_the_key_chooses():
    data = people()
    assert contributions(data, key=b"key") == contributions(data, key=b"key") != contributions(data, key=b"other")


SPELT = {
    "x": [0.0, -0.0, np.nan, 0.5, 7.0, 9.0],
    "g": ["a", "b", "a", None, "b", "a"],
}


def test_cells_that_are_read_alike_are_one_cell():
    """Cells that a fit reads as the same value have the same hash.

    Such cells may differ in the sign of zero, in the kind of missing value, in the type of their column, and in how far
    their values lie beyond a bound.
    """
    data = pd.DataFrame({**SPELT, "y": 0.25, "day": pd.Timestamp("2020-03-01"), "who": "p"})
    complete = Domain(dict(DOMAIN), complete=True)
    of = units_module.Units("who", 1, b"key")

    def hashes(rows):
        return of.hashes({name: rows[name] for name in DESIGN.reads}, complete, len(rows)).tolist()

    here = hashes(data)
    assert here[0] == hashes(data.assign(g="a"))[1]
    assert len(set(hashes(data.assign(g="a")))) == 4  # the distinct values are zero, missing, .5 and the bound
    objects = data.astype(object).assign(x=[0, -0.0, None, 0.5, 7, "9"], g=["a", "b", "a", np.nan, "b", "a"])
    assert hashes(objects) == here
    assert hashes(data.astype({"g": "category", "x": "Float64"})) == here
    assert hashes(data.iloc[::-1])[::-1] == here


def test_names_of_units_are_hashed_as_they_are_told_apart():
    data = people(200)
    named = data.assign(who=data["who"].map(lambda name: None if np.isnan(name) else int(name)).astype(object))
    zero = data.assign(who=data["who"].where(data["who"] != 0, -0.0))
    for other in (named, zero, data.astype({"who": "Float64"})):
        assert set(counted(other).index) == set(counted(data).index)
    texts = data.assign(who=data["who"].map(lambda name: None if np.isnan(name) else f"p{name}"))
    assert contributions(texts.sample(frac=1.0, random_state=1)) == contributions(texts)


def test_rows_that_only_a_later_design_tells_apart_are_chosen_in_no_order():
    """The choice of a unit's rows does not depend on the order of the rows, even if the rows look equal at the choice.

    Until bounds are estimated, numbers are clamped to placeholder bounds, so that different rows may get equal values.
    """
    lacking = bind_regression("y ~ x", Domain({"y": (-1, 1)}))
    bought = lacking.with_bounds({"x": (0.0, 100.0)})
    data = pd.DataFrame({"x": np.arange(60.0) + 10, "y": 0.5, "who": np.arange(60) % 4})
    here = counted(data, 2, bought, first=lacking)
    assert lacking.block(data).numbers[:, 0].std() == 0
    for seed in range(5):
        there = counted(data.sample(frac=1.0, random_state=seed), 2, bought, first=lacking)
        assert set(there.index) == set(here.index)


def test_totals_of_a_later_design_are_of_the_rows_that_the_first_one_chose():
    data, units = people(), Neighbors("replace", "who", 2)
    narrow = bind_regression("y ~ x", DOMAIN)
    rows = BlockRows(source_of(data), DESIGN, units, b"key")
    later = rows.through(narrow)
    kept = counted(data, 2)
    alone = BlockRows(source_of(kept), narrow, Neighbors(), b"key")
    question = [Sum("score", lambda block: block.times(np.eye(narrow.width)), Box(narrow.width))]
    assert later.totals(question) == alone.totals(question)
