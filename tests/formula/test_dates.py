"""Dates in formulas can be compared with texts, form bins and groups, and cause a note on their unit, days."""

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.errors import DomainError, FormulaError
from privstats.formula.columns import bind_columns
from privstats.formula.declarations import Dates
from privstats.formula.domain import Domain

N = 4000
RNG = np.random.default_rng(0)
DAYS = RNG.integers(0, 731, N)
ROWS = pd.DataFrame({"t": pd.Timestamp("2020-01-01") + pd.to_timedelta(DAYS, unit="D"), "x": RNG.uniform(0, 1, N)})
ROWS["y"] = ROWS.x + (DAYS >= 366) + RNG.normal(0, 0.1, N)
DOMAIN = Domain({"t": ("2020-01-01", "2021-12-31"), "x": (0, 1), "y": (-1, 3)})
SINCE = Domain({**DOMAIN, "t": Dates("2020-01-01", "2021-12-31", origin="1970-01-01")})


def values(formula, domain, rows=ROWS):
    columns = bind_columns(formula, domain)
    return columns.block(rows).times(np.eye(columns.width))[:, 0]


@pytest.mark.parametrize("domain", [DOMAIN, SINCE], ids=["first", "1970"])
def test_dates_are_compared_with_texts_whatever_their_origin(domain):
    for condition, days in [
        ("t >= '2021-01-01'", DAYS >= 366),
        ("'2020-03-01' <= t < '2020-06-01'", (DAYS >= 60) & (DAYS < 152)),
        ("t == '2020-02-29'", DAYS == 59),
        ("'2021-01-01' > t", DAYS < 366),
    ]:
        assert (values(f"I({condition})", domain) == days).all(), condition
        fit = ps.dp_mean("y", ROWS, 1e6, domain=domain, subset=condition, rng=1)
        assert fit.nobs_used == pytest.approx(days.sum(), abs=1)


def test_texts_beside_dates_must_be_dates():
    with pytest.raises(FormulaError, match="'June' is compared with a date and is none; write it as '2020-01-31'"):
        bind_columns("I(t > 'June')", DOMAIN)
    with pytest.raises(FormulaError, match=r"'x' is compared with a date and has no .*; write domain=\{'x': \('2020"):
        bind_columns("I(x > '2020-01-31')", DOMAIN)


def test_a_trend_after_a_day_is_fitted_predicted_and_put_into_another_formula():
    fit = ps.dp_lm("y ~ I(t >= '2021-01-01') + x", ROWS, 1e6, domain=DOMAIN, rng=1)
    assert fit.params.iloc[1:].to_numpy() == pytest.approx([1, 1], abs=0.02)
    new = pd.DataFrame({"t": ["2020-12-31", "2021-01-01"], "x": [0.0, 0.0]})
    assert fit.predict(new).to_numpy() == pytest.approx([0, 1], abs=0.02)
    assert [one.key for one in fit.notes] == []


def test_bins_of_dates_begin_at_whole_days_and_are_named_by_them():
    edges = ["2020-01-01", "2021-01-01", "2021-12-31"]
    fit = ps.dp_hist("t", ROWS, 1e6, domain=DOMAIN, bins=edges, rng=1)
    names = ["[2020-01-01, 2021-01-01)", "[2021-01-01, 2021-12-31]"]
    assert list(fit.params.index.get_level_values("bin")) == names
    assert fit.params.to_numpy() == pytest.approx([(DAYS < 366).sum(), (DAYS >= 366).sum()], abs=1)
    assert "dates" not in [one.key for one in fit.notes]
    seven = ps.dp_hist("t", ROWS, 1, domain=SINCE, bins=7, rng=1).params
    assert seven.index.get_level_values("bin")[0] == "[2020-01-01, 2020-04-14)"
    with pytest.raises(DomainError, match=r"bounds of 't', which are \('2020-01-01', '2021-12-31'\); begin and end"):
        ps.dp_hist("t", ROWS, 1, domain=SINCE, bins=edges[:2], rng=1)
    mode = ps.dp_mode("t", ROWS, 1e6, domain=DOMAIN, bins=edges, rng=1)
    assert mode.params.item() in (183, 548)  # the middles of the bins, in days
    assert [one.key for one in mode.notes if one.key == "dates"] == ["dates"]


def test_groups_of_dates():
    formula = "y ~ cut(t, ['2020-01-01', '2021-01-01', '2021-12-31'])"
    found = ps.dp_mean(formula, ROWS, 1e6, domain=DOMAIN, rng=1).params
    assert found.to_numpy() == pytest.approx([0.5, 1.5], abs=0.02)
    assert found.index[1] == ("y", "[2021-01-01, 2021-12-31]")


@pytest.mark.parametrize(
    ("verb", "formula", "told"),
    [
        ("median", "t", True),
        ("lm", "y ~ t", True),
        ("lm", "y ~ x * I(t / 365)", True),
        ("lm", "y ~ x * I(t > '2021-01-01')", False),
        ("mean", "y ~ cut(t, ['2020-01-01', '2021-01-01', '2021-12-31'])", False),
    ],
)
def test_the_unit_of_dates_is_told_where_they_are_numbers(verb, formula, told):
    fit = getattr(ps, f"dp_{verb}")(formula, ROWS, 8, domain=SINCE, rng=1)
    notes = [one.text for one in fit.notes if one.key == "dates"]
    assert [text.partition(" Remedy")[0] for text in notes] == [
        "Dates of t are counted in days since 1970-01-01."
    ] * told
