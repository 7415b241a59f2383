"""Reduced, seeded versions of the benchmarks that compare formulas in lecture notes with exact results."""

import math
import sys

import numpy as np
import pytest
from scipy.stats import norm

import privstats as ps
from benchmarks import composition_figures as composition
from benchmarks import influence

BETWEEN = tuple(influence.law("Huber", z) for z in influence.between(201, 1))


@pytest.fixture
def script(monkeypatch, tmp_path):
    """Return a function that runs a benchmark script with changed constants and returns its exit status."""

    def run(module, *options, **constants):
        target = tmp_path / "drawn.png"
        for name, value in constants.items():
            monkeypatch.setattr(module, name, value)
        monkeypatch.setattr(sys, "argv", ["script", "--seed", "1", "--plot", str(target), *options])
        status = module.main()
        assert target.stat().st_size > 10_000
        return status

    return run


def test_composition_is_as_stated_and_drawn(script):
    shown, limits = (1, 20, 92, 93, 1000), (2, 3, 10, 26, 27, 100)
    assert script(composition, SHOWN=shown, SIZES=range(90, 181), WRONG={1.0: 176}, LIMITS=limits) == 0


def test_the_rule_taught_as_advanced_is_wrong_where_stated():
    for eps, first in composition.WRONG.items():
        near = range(1, 1001, 100) if first is None else range(first - 3, first + 3)
        assert composition.first_wrong(eps, near) == first


@pytest.mark.parametrize("rule", ["basic", "advanced", "in full"])
def test_a_rule_that_claims_half_is_caught(rule):
    found = composition.eps_together((500,))
    assert composition.misses_of_rules((500,), found | {rule: [found["exact"][0] / 2]})


def test_kappa_2_has_a_plus_and_the_limit_of_gaussian_steps_would_not_be_their_composition_otherwise():
    rows = composition.kappa_rows()
    assert composition.misses_of_kappas(rows) == []
    assert composition.misses_of_kappas([(name, one, -two, *known) for name, one, two, *known in rows])
    mu, k = 0.01, 10_000  # the composition of k steps with mu-GDP is close to the limit for many steps
    assert composition.limit(*composition.gaussian_kappas(mu), k) == pytest.approx(mu * math.sqrt(k), rel=1e-4)


def test_the_limit_of_composition_is_near_at_the_rate_stated_and_promises_too_much():
    missed, apart = composition.misses_of_the_limit((2, 3, 27, 100))
    assert missed == []
    alpha = np.linspace(0, 1, 20_001)
    for k, (below, above) in apart.items():
        f = np.interp(alpha, *composition.corners(1 / math.sqrt(k), k))
        apart_on_a_grid = ps.GaussianDP(1.0).tradeoff(alpha) - f
        assert below == pytest.approx(apart_on_a_grid.max(), abs=1e-4)
        assert above == pytest.approx(-apart_on_a_grid.min(), abs=1e-4)


def test_influence_functions_noise_in_proportion_to_them_and_errors_are_as_stated_and_drawn(script):
    def fewer(n):
        return influence.worst(n, every={20: 3, 50: 11}[n])

    by_rows = {label: ((sizes[0], sizes[-1]), of) for label, (sizes, of) in influence.BY_ROWS.items()}
    by_rows["N(0, 1) quantiles"] = ((20, 50), fewer)
    cells = (("location", 1000), ("4 predictors", 1000))
    coarse = np.setdiff1d(np.arange(-6, 7.0), [0.0])
    assert script(influence, "--replicates", "10", BY_ROWS=by_rows, CELLS=cells, SHOWN=coarse) == 0


@pytest.mark.parametrize("pair", [BETWEEN, BETWEEN[::-1], ((0.0, 1.0), (0.5, 1.2)), ((0.0, 1.0), (1.0, 1.0))])
@pytest.mark.parametrize("eps", [0.1, 1.0])
def test_the_delta_of_two_normal_laws_is_their_integral(pair, eps):
    first, second = (norm(*law) for law in pair)
    x = np.linspace(-10, 10, 200_001) * max(law[1] for law in pair)
    excess = np.trapezoid(np.maximum(0.0, first.pdf(x) - math.exp(eps) * second.pdf(x)), x)
    assert influence.normal_delta(*pair, eps) == pytest.approx(excess, abs=1e-8)


def test_releases_of_neighbours_are_told_apart_as_often_as_computed():
    (m1, s1), (m2, s2) = BETWEEN
    draws, rng = 200_000, np.random.default_rng(71)
    first, second = m1 + s1 * rng.standard_normal(draws), m2 + s2 * rng.standard_normal(draws)
    told = [norm.logpdf(x, m1, s1) - norm.logpdf(x, m2, s2) > influence.EPS for x in (first, second)]
    delta = told[0].mean() - math.exp(influence.EPS) * told[1].mean()
    error = math.hypot(told[0].std(), math.exp(influence.EPS) * told[1].std()) / math.sqrt(draws)
    assert delta == pytest.approx(influence.realised("Huber", influence.between(201, 1)), abs=4 * error)
    assert delta > 1000 * influence.CLAIMED


def test_a_second_row_between_halves_the_noise_at_any_number_of_rows():
    for n in (201, 200_001):
        (_, one), (_, two) = (influence.law("Huber", z) for z in influence.between(n, 1))
        assert two == pytest.approx(one / 2)
        assert influence.realised("Huber", influence.between(n, 1)) == pytest.approx(0.197, abs=5e-4)


def test_kept_claims_are_missed_where_they_should_be_broken():
    assert influence.misses_of_delta({"none": influence.CLAIMED / 2}, {})


def test_it_is_the_change_of_the_noise_that_breaks_the_claim():
    (m1, s1), (m2, _) = BETWEEN
    assert influence.normal_delta((m1, s1), (m2, s1), influence.EPS) < influence.CLAIMED
