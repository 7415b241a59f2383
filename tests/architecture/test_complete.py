"""Missing values in columns declared complete change no total by more than the sensitivity."""

import itertools

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from tests.architecture.leaks import frame
from tests.conftest import thinned
from tests.every import CALLS, DOMAIN, ROWS_APART
from tests.laws.neighbours import step, transcripts, with_rows  # noqa: F401

COMPLETE = ps.Domain(DOMAIN, complete=True)
MISSING = [  # missing values that a row may get in place of the row's own values; each call uses some of the columns
    dict.fromkeys(DOMAIN, np.nan),
    dict.fromkeys(DOMAIN),
    dict.fromkeys(DOMAIN, pd.NA),
    dict.fromkeys(DOMAIN, "text"),
    dict.fromkeys(DOMAIN, np.inf),
    {"x": np.nan},
    {"g": "undeclared"},
    {"y": np.nan, "w": np.nan},
]
CALLED = [name for name in CALLS if not name.startswith(("hist l", "mean l", "median l"))]


@thinned(6)
@pytest.mark.parametrize(("name", "many"), [(name, 1 + 2 * (k % 2)) for k, name in enumerate(CALLED)])
def test_a_missing_cell_moves_no_total_beyond_the_claim(transcripts, name, many):  # noqa: F811
    many = 1 if "nonrobust" in name or name in ROWS_APART else many
    data = frame(30).assign(who=np.arange(30) // many)
    places = list(range(many))
    frames = [
        data.astype(object),
        *(with_rows(data, places, [row] * many) for row in MISSING[CALLED.index(name) % 2 :: 2]),
    ]
    options = {} if many == 1 else {"unit": "who", "rows_per_unit": many}

    def call(data, **more):
        return CALLS[name](data, CALLS[name].generous, rng=1, domain=COMPLETE, **options, **more)

    given, _ = transcripts(call, frames)
    for here, there in itertools.combinations(given, 2):
        assert max(step(*both) for both in zip(here, there, strict=True)) <= 1 + 1e-12


@pytest.mark.parametrize("name", ["lm suffstats", "mean", "hist", "median", "mean by group", "quantiles"])
def test_the_number_of_rows_of_a_complete_design_is_the_public_one(transcripts, name):  # noqa: F811
    """If all columns are declared complete, every row counts, even a row with a missing value.

    The number of rows is then public and has no noise. If incomplete rows did not count, exact totals would reveal a
    missing value.
    """
    data = frame(30)
    frames = [data, *(data.astype(object).assign(**row) for row in MISSING)]
    given, fit = transcripts(lambda data, **more: CALLS[name](data, rng=1, domain=COMPLETE, **more), frames)
    assert fit.facts.complete
    counts = [len(one.exact) for each in given for one in each if isinstance(one.exact, np.ndarray)]
    assert set(counts) <= {30}
    for here in given:
        for one in here:
            assert not one.relation.appear


@pytest.mark.parametrize("subset", ["x > 1e-9", "z >= 0"])
def test_a_subset_of_complete_columns_is_not_complete(transcripts, subset):  # noqa: F811
    given, fit = transcripts(
        lambda data, **more: CALLS["mean"](data, rng=1, domain=COMPLETE, subset=subset, **more), [frame(30)]
    )
    assert not fit.facts.complete
    assert all(one.relation.appear for one in given[0])
