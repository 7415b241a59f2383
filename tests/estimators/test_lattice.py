"""Coarse decimal grids: found where values lie on one and only there, and not asked for where none is needed."""

import itertools
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.older.estimators.lattice import on_grids
from privstats.older.losses.location import OnGrids
from privstats.older.privacy.neighbors import Neighbors
from privstats.older.sets.base import Positive

RELATIONS = ("replace", "add_remove")
ON_A_GRID = {
    "counts": ((0, 30), 1.0, lambda rng, n: rng.poisson(4.0, n)),
    "ages": ((0, 120), 1.0, lambda rng, n: np.rint(rng.normal(40, 12, n).clip(0, 120))),
    "tenths": ((-10, 10), 0.1, lambda rng, n: np.round(rng.normal(0, 2, n).clip(-10, 10), 1)),
    "salaries": ((0, 200_000), 1000.0, lambda rng, n: 1000.0 * rng.integers(15, 150, n)),
    "a few mistakes": ((0, 30), 1.0, lambda rng, n: rng.poisson(4.0, n) + (rng.random(n) < 0.01) * 0.123),
}
ON_NONE = {
    "normal": ((-10, 10), lambda rng, n: rng.standard_normal(n)),
    "half of them whole": ((0, 30), lambda rng, n: rng.poisson(4.0, n) + (rng.random(n) < 0.5) * rng.random(n)),
    "quarters": ((0, 30), lambda rng, n: rng.integers(0, 120, n) / 4),
}


@pytest.fixture
def found(monkeypatch):
    """Run a median; return the place of its column after it was looked for a grid, and the fit."""
    places = []

    def listening(ask, facts):
        places[:] = on_grids(ask, facts)
        return tuple(places)

    monkeypatch.setattr(import_module("privstats.older.estimators.quantiles"), "on_grids", listening)

    def run(x, domain, seed, eps=1.0, **options):
        fit = ps.dp_median("x", pd.DataFrame({"x": x}), eps, domain={"x": domain}, rng=seed, **options)
        return places[0], fit

    return run


@pytest.mark.parametrize("law", ON_A_GRID)
def test_the_grid_of_values_is_found_and_intervals_run_between_its_points(found, law):
    domain, step, draw = ON_A_GRID[law]
    missed = {1.0: 0, 4.0: 0}
    for seed, eps in itertools.product(range(20), missed):
        x = draw(np.random.default_rng(seed), 2000)
        place, fit = found(x, domain, seed, eps, neighbors=RELATIONS[seed % 2])
        if place.step < step / 100:  # what was bought in vain is a fine grid
            missed[eps] += 1
            continue
        assert place.step == step
        drawn = next(release.value for release in fit.releases if release.name == "quantile of x")
        np.testing.assert_allclose(drawn, np.rint(drawn / step) * step)
        np.testing.assert_allclose(fit.conf_int().loc["x"], drawn[[0, 2]])
        assert np.isnan(fit.bse["x"]) == (drawn[1] in drawn[[0, 2]])
        assert fit.params["x"] == round(fit.params["x"], 1)  # as people write it
    assert missed[1.0] <= 2 and missed[4.0] == 0  # one in fifty


@pytest.mark.parametrize("law", ON_NONE)
def test_where_there_is_no_grid_none_is_found(found, law):
    domain, draw = ON_NONE[law]
    for seed in range(40 if law == "normal" else 10):
        place, _ = found(draw(np.random.default_rng(seed), 2000), domain, seed)
        assert place.rounding == place.step / 2 < 1e-6 * (domain[1] - domain[0])


def test_of_few_rows_a_grid_is_hardly_ever_found_by_mistake_and_of_fewer_never(found):
    rng, mistakes = np.random.default_rng(1), 0
    for seed in range(200):
        place, _ = found(rng.standard_normal(200), (-10, 10), seed)
        mistakes += place.step > 1e-3
    assert mistakes <= 4
    for seed in range(20):  # the noise is too large to tell half the rows from all of them, whatever they are
        assert found(np.ones(60), (-10, 10), seed)[0].step < 1e-3


@pytest.mark.parametrize(
    "options", [{"grid": 1}, {"grid": {"x": 1}}, {"inference": "none"}, {"unit": "who", "rows_per_unit": 2}], ids=str
)
@pytest.mark.parametrize("mech", ["rank", "duff", "kng"])
def test_a_declared_grid_or_no_interval_means_no_question_about_it(options, mech):
    data = pd.DataFrame({"x": np.random.default_rng(2).poisson(4.0, 300), "who": np.arange(300) // 2})
    asked = [
        {release.name for release in ps.dp_median("x", data, 1.0, mech=mech, domain={"x": (0, 30)}, **more).releases}
        for more in (options, {})
    ]
    assert "grid of x" not in asked[0]
    assert "grid of x" in asked[1]


def test_only_columns_whose_grid_is_not_declared_are_asked_about_one_by_one_and_in_all_groups_together():
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"x": rng.poisson(4.0, 900), "z": rng.normal(0, 1, 900), "k": 1.0, "g": ["a", "b"] * 450})
    domain = {"x": (0, 30), "z": (-5, 5), "k": (0, 3), "g": ["a", "b"]}
    fit = ps.dp_median("x + z + k ~ g", data, 3.0, grid={"k": 1}, domain=domain, rng=1)
    asked = [release for release in fit.releases if release.name.startswith("grid")]
    assert [release.name for release in asked] == ["grid of x", "grid of z"]
    both_steps = 2 * (3 * 1.0 + 3 * 0.05)  # of a row that moves from one group to another: quantiles, rows
    prices = [release.event.pure() for release in asked]
    assert prices == pytest.approx([3.0 * 0.1 / (both_steps + 0.2)] * 2, rel=1e-6)
    assert fit.params["x"].mod(1).eq(0).all()


# --- what it costs ----------------------------------------------------------------------------------------------------

ODD = [0, 3, 10, 0.3, 0.1 + 0.2, -0.0, np.nan, np.inf, -np.inf, 1e308, None, "text", True, 31, 7.5]


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_a_row_moves_what_is_asked_by_no_more_than_one_and_some_row_does(recorded, neighbors):
    base = [1.0, 2.5, 30.0, 4.0]

    def told(rows):
        del recorded[:]
        data = pd.DataFrame({"x": pd.Series(rows, dtype=object)})
        fit = ps.dp_median("x", data, 1.0, domain={"x": (0, 30)}, neighbors=neighbors)
        at = [release.name for release in fit.releases].index("grid of x") - len(fit.releases)
        _, exact, claim = recorded[at]
        assert (claim.norm, claim.size, claim.weights.tolist()) == ("linf", 1.0, [1.0] * 4)
        return exact.value()

    with_one = [told([*base, odd]) for odd in ODD]
    pairs = itertools.combinations(with_one, 2) if neighbors == "replace" else ((told(base), one) for one in with_one)
    moved = [np.abs(a - b).max() for a, b in pairs]
    assert max(moved) == pytest.approx(1.0)


@pytest.mark.parametrize("kind", RELATIONS)
def test_rows_on_grids_lie_in_the_set_that_prices_them(kind):
    x = np.array([0.3, 0.1 + 0.2, 7.0, 20.0, -0.0, 7.5, 5.0])
    present = np.array([True] * 6 + [False])
    rows = OnGrids(0, (10.0, 1.0, 0.1))(SimpleNamespace(X=x[:, None], present=present))
    expected = [[1, 0, 0, 1]] * 2 + [[1, 0, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1], [1, 0, 0, 1], [0] * 4]
    np.testing.assert_array_equal(rows, expected)
    within = Positive(1.0, 4)
    np.testing.assert_array_equal(within.project(rows), rows)
    for one, other in itertools.product(rows, rows if kind == "replace" else [np.zeros(4)]):
        assert np.abs(one - other).max() <= within.sensitivity("linf", Neighbors(kind)).size == 1.0
