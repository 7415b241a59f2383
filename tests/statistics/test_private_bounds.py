"""Reduced, seeded version of benchmarks/private_bounds.py, and fits with an estimated range."""

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from benchmarks.private_bounds import LAWS, PLACES, runs

PAIRS = list(zip([*LAWS, "normal", "t3"], PLACES, strict=True))


@pytest.mark.parametrize(
    ("law", "place"), [*PAIRS[0:3:2], *(pytest.param(*pair, marks=pytest.mark.slow) for pair in (PAIRS[1], *PAIRS[3:]))]
)
def test_bought_ranges_hold_nearly_all_rows_and_are_not_much_wider(law, place):
    found = runs(law, place, 3000, 8, seed=7)
    assert sum(inside >= 0.95 and width <= 4 for inside, width in found) >= 7


def test_a_fit_says_what_it_bought_and_pays_for_it_in_the_same_charge():
    rng = np.random.default_rng(1)
    x = rng.normal(1e5, 20, 40_000)
    data = pd.DataFrame({"x": x, "y": 3 + 0.01 * (x - 1e5) + 0.1 * rng.standard_normal(40_000), "g": "text"})
    ledger = ps.Ledger(ps.PureDP(1.0))
    fit = ps.dp_lm("y ~ x", data, 1.0, domain={"y": (0, 6)}, ledger=ledger, bounds_share=0.2)
    assert [release.name for release in fit.releases[:2]] == ["bounds of x: location", "bounds of x: spread"]
    assert ledger.spent().eps == pytest.approx(1.0)
    assert fit.budget.set_index("question").loc["bounds", "share"] == pytest.approx(0.2)
    assert "bounds of x estimated with 20% of eps" in str(fit.summary())
    assert fit.params["x"] == pytest.approx(0.01, abs=5 * fit.bse["x"])
    planned = ps.plan("lm", "y ~ x", 40_000, 1.0, domain={"y": (0, 6)}, bounds_share=0.2)
    assert planned.estimated == ("x",)
    assert "location and spread of a column without declared" in " ".join(str(planned).split())
    with pytest.raises(ps.PrivstatsError, match="depend on the bounds of 'x'"):
        planned.expected()


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"eps": 0.1}, ps.DomainError, "needs? eps|would need eps"),
        ({"formula": "y ~ g"}, ps.DomainError, "is not numeric and is not declared"),
        ({"formula": "y ~ C(g)"}, ps.DomainError, "has no declared levels"),
        ({"formula": "y ~ poly(x, 2)"}, ps.DomainError, "no declared bounds"),
        ({"neighbors": "add_remove"}, ps.DomainError, "number of rows is private"),
        ({"bounds_share": 1.0}, ps.BudgetError, "bounds_share"),
    ],
)
def test_what_cannot_be_bought_is_refused_from_public_facts(change, error, says):
    data = pd.DataFrame({"x": np.arange(40_000.0), "y": 0.5, "g": "text"})
    ledger = ps.Ledger(ps.PureDP(5.0))
    with pytest.raises(error, match=says):
        ps.dp_lm(**{"formula": "y ~ x", "data": data, "eps": 1.0, "domain": {"y": (0, 1)}, "ledger": ledger, **change})
    assert not len(ledger.entries)


@pytest.mark.parametrize("column", [np.nan, np.inf, 0.0, -1e308])
def test_a_column_that_shows_no_range_still_gives_a_result(column):
    data = pd.DataFrame({"x": np.full(40_000, column), "y": np.linspace(0, 1, 40_000)})
    fit = ps.dp_lm("y ~ x", data, 1.0, domain={"y": (0, 1)}, rng=1)
    assert np.isnan(fit.params["x"])
    assert any("not given" in text for text in fit.summary().notes)


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ I(x ** 2)",
        *(pytest.param(more, marks=pytest.mark.slow) for more in ("y ~ np.exp(x)", "np.sqrt(x) ~ y")),
        "y ~ x * z",
    ],
)
def test_a_release_however_far_off_makes_no_fit_fail_that_was_paid_for(formula):
    n = 8000
    data = pd.DataFrame({"x": np.full(n, np.nan), "z": np.full(n, np.nan), "y": np.linspace(0, 1, n)})
    for seed in range(6):  # if all values are missing, the rank mechanism draws any number of the range
        fit = ps.dp_lm(formula, data, 4.0, domain={"y": (0, 1)}, bounds_share=0.5, rng=seed)
        assert (np.isfinite(fit.params) | np.isnan(fit.bse)).all()
        assert fit.summary().notes


def test_a_response_and_a_transformed_factor_can_be_bought_too():
    rng = np.random.default_rng(2)
    x = rng.lognormal(3, 1, 80_000)
    data = pd.DataFrame({"x": x, "y": np.exp(1 + 0.5 * np.log(x) + 0.3 * rng.standard_normal(80_000))})
    fit = ps.dp_lm("np.log(y) ~ np.log(x)", data, 2.0, domain={}, bounds_share=0.3)
    assert {release.name.partition(":")[0] for release in fit.releases[:4]} == {
        "bounds of np.log(y)",
        "bounds of np.log(x)",
    }
    assert fit.params["np.log(x)"] == pytest.approx(0.5, abs=5 * fit.bse["np.log(x)"])
