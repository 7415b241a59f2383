"""A model with dummies of all levels of a factor is as precise as the same model with an intercept."""

import numpy as np
import pandas as pd
import pytest

import privstats as ps

ROWS, LEVELS = 4_000, ["a", "b", "c", "d"]
DOMAIN = {"x": (0, 10), "g": LEVELS, "y": (0, 60), "z": [0, 1]}
BEYOND = np.array([[1.0, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [1, 0, 0, 1, 0], [0, 0, 0, 0, 1]])


def rows(seed):
    """Return rows whose response has means far from 0; a fit that does not centre the response is then imprecise."""
    rng = np.random.default_rng(seed)
    x, g = rng.uniform(0, 10, ROWS), rng.integers(0, 4, ROWS)
    y = np.clip(30 + g + 0.5 * x + 2 * rng.standard_normal(ROWS), 0, 60)
    z = (rng.random(ROWS) < 1 / (1 + np.exp(1 - 0.2 * x - 0.3 * g))).astype(int)
    return pd.DataFrame({"x": x, "g": np.array(LEVELS)[g], "y": y, "z": z})


# at eps = 1, the two models' intervals differ in length by factors from .3 to 8 in median regressions
@pytest.mark.parametrize("budget", [{"eps": 2.0}, {"mu": 1.0}])
@pytest.mark.parametrize(
    ("verb", "response", "truth"),
    [
        (ps.dp_lm, "y", [30, 31, 32, 33, 0.5]),
        (ps.dp_rq, "y", [30, 31, 32, 33, 0.5]),
        (ps.dp_glm, "z", [-1, -0.7, -0.4, -0.1, 0.2]),
    ],
)
def test_dummies_of_all_levels_are_as_precise_as_an_intercept(verb, response, truth, budget):
    covered, ratios = [], []
    for seed in range(4):
        data = rows(seed)
        cells = verb(f"{response} ~ 0 + C(g) + x", data, domain=DOMAIN, rng=seed, **budget)
        beside = verb(f"{response} ~ C(g) + x", data, domain=DOMAIN, rng=seed, **budget).t_test(BEYOND)
        assert [*cells.params.index] == [*(f"C(g)[{level}]" for level in LEVELS), "x"] and cells.k_constant == 1
        ends = cells.conf_int().to_numpy()
        covered.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
        ratios.append(np.diff(ends)[:, 0] / np.diff(np.asarray(beside.conf_int()))[:, 0])
    assert np.isfinite(ratios).mean() >= 0.9, (
        "nearly every coefficient has an interval (a median may leave a level out)"
    )
    assert 0.7 < np.nanmedian(ratios) < 1.4
    assert np.mean(covered) >= 0.85


@pytest.mark.parametrize("budget", [{"eps": 1.0}, {"mu": 1.0}])
def test_a_median_through_the_origin_is_given(budget):
    covered = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = rng.uniform(5, 10, ROWS)
        data = pd.DataFrame({"x": x, "y": np.clip(5 * x + 3 * rng.standard_normal(ROWS), 0, 60)})
        low, high = ps.dp_rq("y ~ 0 + x", data, domain=DOMAIN, rng=seed, **budget).conf_int().loc["x"]
        assert high - low < 0.2, "the interval is short"
        covered.append(low <= 5 <= high)
    assert np.mean(covered) >= 0.8


def test_a_rare_cell_of_two_factors_is_noted_by_itself():
    rng = np.random.default_rng(4)
    g, h = rng.choice(LEVELS[:3], ROWS), rng.choice(["u", "v"], ROWS)
    kept = (g != "a") | (h != "u") | (rng.random(ROWS) < 0.005)
    data = pd.DataFrame({"g": g, "h": h, "y": 30 + rng.standard_normal(ROWS)})[kept].reset_index(drop=True)
    domain = {"g": LEVELS[:3], "h": ["u", "v"], "y": (0, 60)}
    fit = ps.dp_lm("y ~ 0 + C(g):C(h)", data, mu=1, domain=domain, mech="suffstats", rng=1)
    missing = [*fit.params.index[fit.params.isna()]]
    assert missing == ["C(g)[a]:C(h)[u]"]
    assert [note.about for note in fit.notes if "('u', 'a')" in note.text] == [tuple(missing)]


@pytest.mark.parametrize("budget", [{"mu": 1.0}, {"eps": 4.0}])
@pytest.mark.parametrize(("bounds", "sd"), [((1800, 2100), 30.0), ((0, 4000), 30.0)])
def test_means_by_group_far_from_0_are_as_precise_as_near_it(bounds, sd, budget):
    rng = np.random.default_rng(6)
    g = rng.choice(LEVELS, ROWS)
    near = sd * rng.standard_normal(ROWS)
    ratios = []
    for seed in range(3):
        lengths = []
        for shift in (0, 1950):
            data = pd.DataFrame({"g": g, "y": near + shift})
            ends = (bounds[0] - 1950 + shift, bounds[1] - 1950 + shift)
            fit = ps.dp_mean("y ~ g", data, domain={"g": LEVELS, "y": ends}, rng=seed, **budget)
            lengths.append(np.diff(fit.conf_int().to_numpy())[:, 0])
        ratios.append(np.median(lengths[1] / lengths[0]))
    assert 0.8 < np.median(ratios) < 1.25
