"""Rows with rare values of a column that is 0 in all other rows are left out, like rows at a rare level."""

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.estimators import levels
from privstats.estimators.frame import PublicBox
from privstats.formula.design import bind_regression
from privstats.formula.domain import Domain

N = 5000
DOMAIN = {"x": (-4, 4), "d": (0, 1), "y": (-10, 10), "b": [0, 1], "w": (0, 2), "g": ["p", "q"]}


def rows(d, n=N):
    rng = np.random.default_rng(1)
    x = rng.normal(size=n).clip(-4, 4)
    eta = 0.5 * x + 0.8 * d
    data = pd.DataFrame({"x": x, "d": d, "y": (eta + rng.normal(size=n)).clip(-10, 10)})
    data["b"] = (rng.uniform(size=n) < 1 / (1 + np.exp(1 - eta))).astype(int)
    return data.assign(w=rng.uniform(0.5, 1.5, n), g=rng.choice(["p", "q"], n))


def ones(share, n=N):
    return (np.random.default_rng(2).uniform(size=n) < share).astype(float)


def note_of(fit):
    return next((one for one in fit.notes if one.key == "rare number"), None)


def length(fit, name="x"):
    low, high = fit.conf_int().loc[name]
    return high - low


KNOWN = {"domain": DOMAIN, "rng": 1}
CALLS = {
    "lm": lambda data, **more: ps.dp_lm("y ~ x + d", data, **{**KNOWN, **more}),
    "lm steps": lambda data, **more: ps.dp_lm("y ~ x + d", data, mech="newton", **{**KNOWN, **more}),
    "logit": lambda data, **more: ps.dp_glm("b ~ x + d", data, **{**KNOWN, **more}),
    "rq": lambda data, **more: ps.dp_rq("y ~ x + d", data, **{**KNOWN, **more}),
    "rq weights": lambda data, **more: ps.dp_rq("y ~ x + d", data, weights="w", **{**KNOWN, **more}),
}


@pytest.mark.parametrize(
    ("name", "budget", "shorter"),
    [
        ("lm", {"eps": 1.0}, 0.5),
        ("lm", {"mu": 0.5}, 0.6),
        ("lm steps", {"mu": 0.5}, 0.6),
        ("logit", {"eps": 1.0}, 0.4),
        ("rq", {"eps": 1.0}, 0.7),
        ("rq", {"mu": 0.5}, 0.6),
        ("rq weights", {"eps": 1.0}, 0.6),
    ],
)
def test_a_rare_one_does_not_lengthen_other_intervals(name, budget, shorter, monkeypatch):
    data = rows(ones(0.002))
    fits = [CALLS[name](data, rng=seed, **budget) for seed in range(7)]
    assert all(np.isnan(fit.params["d"]) and fit.params.drop("d").notna().all() for fit in fits)
    found = [note_of(fit) for fit in fits]
    assert sum(one is not None for one in found) >= 6
    one = next(one for one in found if one is not None)
    assert one.about == ("d",) and "have a value other than 0 in 'd' (released count, std err" in one.text
    monkeypatch.setattr(levels, "RARE_NUMBER", -np.inf)
    before = [CALLS[name](data, rng=seed, **budget) for seed in range(7)]
    assert not any(note_of(fit) for fit in before)
    assert np.median([length(fit) for fit in fits]) < shorter * np.median(
        np.nan_to_num([length(fit) for fit in before], nan=np.inf)
    )


def test_a_rare_zero_hides_the_intercept_too():
    fit = CALLS["lm"](rows(1 - ones(0.002)), eps=1.0)
    found = note_of(fit)
    assert set(found.about) == {"Intercept", "d"} == set(fit.params.index[fit.params.isna()])
    assert "a value other than 1 in 'd'" in found.text
    low, high = fit.conf_int().loc["x"]
    assert high < low + 0.5 and abs((low + high) / 2 - 0.5) < 0.25


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", ["frequent ones", "small numbers"])
def test_rows_stay_where_few_rows_or_nearly_all_have_another_value(name, kind):
    d = ones(0.3) if kind == "frequent ones" else np.random.default_rng(3).uniform(0, 0.02, N)
    assert note_of(CALLS[name](rows(d), eps=4.0)) is None


def test_the_estimates_are_those_of_the_rows_that_stay():
    """Estimates equal, up to noise, the estimates from the rows that are kept.

    In the few rows with d = 1, which are left out, the response depends so strongly on x that these rows would change
    the slope.
    """
    data = rows(ones(0.002, 20_000), 20_000)
    data.loc[data.d == 1, "y"] = 10 * np.sign(data.x[data.d == 1])
    fit = ps.dp_lm("y ~ x + d", data, 2.0, domain=DOMAIN, rng=1, mech="objpert")
    assert np.isnan(fit.params["d"]) and note_of(fit) is not None
    inside = data[data.d == 0]
    slope = np.polyfit(inside.x, inside.y, 1)[0]
    assert abs(fit.params["x"] - slope) < 4 * fit.bse["x"] < 0.2


@pytest.mark.parametrize(
    ("formula", "found"),
    [
        ("y ~ x + d", ["d"]),
        ("y ~ x + d + C(g)", ["d"]),
        ("y ~ x * d", []),
        ("y ~ x + d:C(g)", []),
        ("y ~ x + d + I(d ** 2)", []),
        ("y ~ x + d + I(d * w)", []),
        ("y ~ x + d + np.sqrt(d)", []),
        ("y ~ x + d + I(w + d)", []),
        ("y ~ x + d + I(w + 1)", ["d"]),
        ("y ~ 0 + x + d", []),
        ("y ~ x + bs(d, knots=[0.5])", []),
        ("y ~ x + C(b)", []),
        ("y ~ x + I(d / 2)", []),
    ],
)
def test_only_columns_of_the_data_with_bounds_0_and_1_are_looked_at(formula, found):
    box = PublicBox(bind_regression(formula, Domain(DOMAIN)))
    assert [box.design.names[j] for j in box.zero_to_one] == found
    assert {*found} <= {box.design.names[j] for j in box.from_zero} <= {*found, "w", "m"}


def test_the_directions_that_constant_columns_hide_are_those_of_their_rows():
    box = PublicBox(bind_regression("y ~ x + d + C(g)", Domain(DOMAIN)))
    j = list(box.design.names).index("d")
    hidden = box.null_space(None, [(j, -1.0)])
    row = np.zeros(box.c)
    row[[0, j]] = 1.0, -1.0
    assert hidden.shape == (box.c, 1) and np.allclose(row @ hidden, 0) and abs(hidden[j, 0]) > 0.5
    assert (box.at_ends([(j, -1.0)]).T @ np.eye(box.width)[:, j] == -1).all()


def test_the_noise_of_a_level_is_not_that_of_a_number():
    data = rows(ones(0.002)).assign(h=np.where(np.random.default_rng(4).uniform(size=N) < 0.004, "r", "s"))
    for seed in range(4):
        fit = ps.dp_lm("y ~ x + d + C(h)", data, 2.0, domain={**DOMAIN, "h": ["s", "r"]}, rng=seed, mech="objpert")
        by = {one.key: float(one.text.split("std err ")[1].split(")")[0]) for one in fit.notes if "std err" in one.text}
        assert {"rare number", "rare level"} <= set(by) and by["rare level"] < 0.8 * by["rare number"]


@pytest.mark.parametrize("name", ["lm", "logit", "rq"])
def test_beside_an_amount_that_is_nearly_always_zero_the_other_terms_are_given(name, monkeypatch):
    amounts = ones(0.01) * np.random.default_rng(6).exponential(2.0, N)
    data, known = rows(amounts.clip(0, 10)), {"domain": {**DOMAIN, "d": (0, 10)}, "eps": 1.0}
    fits = [CALLS[name](data, rng=seed, **known) for seed in range(5)]
    assert sum(fit.params.drop("d").notna().all() for fit in fits) >= 4 and all(
        np.isnan(fit.params["d"]) for fit in fits
    )
    assert sum("have a value other than 0 in 'd'" in note_of(fit).text for fit in fits if note_of(fit)) >= 4
    monkeypatch.setattr(levels, "RARE_NUMBER", -np.inf)
    before = [CALLS[name](data, rng=seed, **known) for seed in range(5)]
    assert sum(np.isfinite(length(fit)) for fit in before) <= 1
