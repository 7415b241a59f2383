"""Reduced, seeded versions of the benchmarks on medians; tolerances allow for Monte Carlo error."""

import dataclasses
import math
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import privstats as ps
from benchmarks import duff_bounds, duff_figure1, medians, vertebral_duff
from benchmarks.medians import DUFF, METHODS, RANK, RELATIONS, Range, Sample
from privstats.datasets import Dataset
from privstats.formula.domain import Domain
from privstats.mechanisms.random import public_stream
from privstats.sets.cells import Line

pytestmark = pytest.mark.slow  # most mechanisms of these figures serve for comparison, and are used only on request

DELTA = 1e-3
FAINT = 1e-3  # limit of p-values; if a law is as stated, smaller p-values are rare
VERBS = {
    DUFF: {"mech": "duff"},
    RANK: {"mech": "rank"},
    "Cauchy, exact": {"mech": "smoothsens", "noise": "cauchy"},
    "Laplace, exact": {"mech": "smoothsens", "noise": "laplace", "delta": DELTA},
    "LaplaceLN, ours": {"mech": "smoothsens", "noise": "laplaceln", "delta": DELTA},
}


def few(n=41):
    rng = np.random.default_rng(3)
    return Sample.of(rng.normal(0, 1, n), Range(-4, 4))


def spines(n_abnormal=210, n_normal=100):
    """Return synthetic rows with the columns of the real data.

    In each column, the medians of the two classes differ by at least a third of the standard deviation.
    """
    rng = np.random.default_rng(17)
    columns = {}
    for center, apart, spread in ((50, 15, 12), (13, 6, 7), (42, 13, 15), (37, 8, 10), (124, -8, 12), (1, 31, 10)):
        values = center + spread * rng.standard_normal(n_abnormal + n_normal)
        values[:n_abnormal] += apart
        columns[f"measured {len(columns)}"] = values.round(2)
    bounds = dict.fromkeys(columns, (-100.0, 200.0))
    columns["class"] = np.repeat(["AB", "NO"], [n_abnormal, n_normal])
    return Dataset(pd.DataFrame(columns), Domain({**bounds, "class": ["NO", "AB"]}, complete=True))


@pytest.mark.parametrize("eps", duff_figure1.BUDGETS)
def test_duff_and_its_rivals_err_on_normal_values_as_in_figure_1(eps):
    cell = duff_figure1.errors(duff_figure1.samples(duff_figure1.NORMAL, 25, seed=71), eps)
    assert duff_figure1.misses(duff_figure1.NORMAL, eps, cell) == []


@pytest.mark.parametrize("source", ["U(0, 1)", "Beta(.5, .5)"])
def test_rank_is_no_worse_than_duff_and_duff_better_than_noise_on_the_unit_interval(source):
    drawn = duff_figure1.samples(source, 25, seed=72)
    for eps in (0.1, 1.0):
        assert duff_figure1.misses(source, eps, duff_figure1.errors(drawn, eps)) == []


@pytest.mark.parametrize("source", duff_figure1.SOURCES)
def test_propose_test_release_and_the_distance_to_the_median_are_far_behind(source):
    drawn = duff_figure1.samples(source, 25, seed=74)
    for eps in duff_figure1.BUDGETS:
        cell = duff_figure1.errors(drawn, eps, (DUFF,))
        assert duff_figure1.late(source, eps, cell, duff_figure1.others(drawn, eps)) == []


@pytest.mark.parametrize("eps", [0.5, 2.0])
def test_bounds_by_smooth_sensitivity_hold_and_draws_of_another_budget_would_show(eps):
    (sample,) = duff_figure1.samples(duff_figure1.NORMAL, 1, seed=75)
    bounds, rng = duff_bounds.Bounds(sample, eps), np.random.default_rng(76)
    draws = {b: medians.draw(sample, DUFF, "add_remove", b, 0.0, 800, rng) for b in (eps, 2 * eps)}
    assert duff_bounds.misses("", bounds, draws[eps]) == []
    assert any("of the draws" in miss for miss in duff_bounds.misses("", bounds, draws[2 * eps]))


def test_one_row_more_buys_one_gap_of_evenly_spaced_values():
    even = duff_bounds.evenly_spaced()
    n = len(even.sample.values)
    assert even.level_set(100) * n / 100 == pytest.approx(1, abs=0.01)
    assert even.C * n == pytest.approx(0.5, abs=0.005)


@pytest.mark.parametrize("eps", [0.3, 2.0])
def test_errors_of_the_distance_to_the_median_and_of_tested_answers_are_those_of_draws(eps):
    one, rng, size = few(), np.random.default_rng(77), 20_000
    low, high = one.within
    points = np.linspace(low, high, 200_001)
    weight = np.exp(-eps * np.abs(points - one.median) / (2 * (high - low)))
    expected = (np.abs(points - one.median) * weight).sum() / weight.sum()
    assert medians.nearness_error(one, eps) == pytest.approx(expected, rel=1e-3)
    e, moves = eps / 2, one.moves["replace"]
    steps = math.ceil(math.log(1 / (2 * DELTA)) / e)
    eta = moves[min(steps, len(moves)) - 1]
    answers = np.clip(one.median + eta / e * rng.laplace(size=size), low, high)
    away = np.abs(answers - one.median)
    assert abs(away.mean() - medians.tested_error(one, "replace", eps, DELTA)) < 4.5 * away.std() / math.sqrt(size)


def test_the_ratio_to_laplaceln_falls_with_eps_where_the_paper_has_it_rise():
    drawn = duff_figure1.samples(duff_figure1.NORMAL, 25, seed=73)
    for method in ("LaplaceLN, paper", "LaplaceLN, c = eps", "LaplaceLN, ours"):
        cells = [duff_figure1.errors(drawn, eps, (DUFF, method)) for eps in duff_figure1.BUDGETS]
        for relation in RELATIONS:
            (first, doubt), *_, (last, also) = (duff_figure1.ratio(cell, method, relation) for cell in cells)
            assert first - last > 3 * (doubt + also)


def test_twice_the_error_of_duff_would_show_in_figure_1(monkeypatch):
    once = medians.duff_error
    monkeypatch.setattr(medians, "duff_error", lambda *about: 2 * once(*about))
    drawn = duff_figure1.samples(duff_figure1.NORMAL, 25, seed=71)
    for eps in (duff_figure1.BUDGETS[0], duff_figure1.BUDGETS[-1]):
        cell = duff_figure1.errors(drawn, eps)
        assert any("Duff" in miss for miss in duff_figure1.misses(duff_figure1.NORMAL, eps, cell))


def test_half_the_noise_would_show_in_figure_1(monkeypatch):
    once = medians.Calibration.noise

    def halved(self, moves):
        noise = once(self, moves)
        return noise._replace(scale=noise.scale / 2)

    monkeypatch.setattr(medians.Calibration, "noise", halved)
    drawn = duff_figure1.samples(duff_figure1.NORMAL, 25, seed=71)
    for eps in (duff_figure1.BUDGETS[0], duff_figure1.BUDGETS[-1]):
        cell = duff_figure1.errors(drawn, eps)
        assert any("is not between" in miss for miss in duff_figure1.misses(duff_figure1.NORMAL, eps, cell))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("method", METHODS)
def test_an_exact_mean_distance_is_that_of_draws(method, relation):
    one, size = few(), 800
    for eps in (0.3, 2.0):
        drawn = medians.draw(one, method, relation, eps, DELTA, size, np.random.default_rng([4, int(10 * eps)]))
        away = np.abs(drawn - one.median)
        exact = medians.error(one, method, relation, eps, DELTA, one.median)
        assert abs(away.mean() - exact) < 4.5 * away.std() / math.sqrt(size)


def planned(method, relation, eps):
    """Return the plan of dp_median for a method of the figures: mechanism, budget, set of values, and relation."""
    one, of = few(), VERBS[method]
    domain = ps.Domain({"x": tuple(one.within)}, complete=True)
    plan = ps.plan("median", "x", len(one.values), eps, domain=domain, neighbors=relation, inference="none", **of)
    (question,) = plan.planned
    of_rows = plan.guarantee.neighbors.relation(folded=False, may_be_absent=False)
    return question.mechanism, question.promise, Line(*one.within, one.within.step), of_rows


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("method", [DUFF, RANK])
def test_choices_in_the_figures_have_the_law_of_dp_median(method, relation):
    one, eps = few(), 1.0
    mechanism, *about = planned(method, relation, eps)
    column = one.values[:, None]
    values = SimpleNamespace(all=lambda: column, scan=lambda take=np.asarray: iter([take(column)]))
    chance = public_stream(7)
    released = [mechanism.release("median", values, *about, chance).value[0] for _ in range(400)]
    drawn = [
        medians.draw(one, method, relation, at, DELTA, 1500, np.random.default_rng(5)) for at in (eps, 2 * eps, eps / 2)
    ]
    p, *others = (stats.ks_2samp(np.abs(released), np.abs(some)).pvalue for some in drawn)
    assert p > FAINT
    assert max(others) < FAINT  # a budget that is wrong by a factor of 2 would be detected


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("method", [name for name in VERBS if name not in (DUFF, RANK)])
def test_noise_in_the_figures_has_the_scale_of_dp_median(method, relation):
    one = few()
    for eps in (0.2, 1.0):
        mechanism, promise, *_ = planned(method, relation, eps)
        scale = mechanism.scale(one.moves[relation], promise)
        assert medians.calibrated(method, eps, DELTA).noise(one.moves[relation]).scale == pytest.approx(scale)


@pytest.mark.parametrize("version", [vertebral_duff.OBSERVED, vertebral_duff.PUBLIC])
def test_two_classes_are_told_apart_by_duff_and_rank_and_not_by_laplaceln(version):
    of = vertebral_duff.samples(spines(), version)
    drawn = vertebral_duff.trials(of, 40, seed=81)
    assert vertebral_duff.misses(version, of, drawn) == []
    swapped = {DUFF: "LaplaceLN, paper", "LaplaceLN, paper": DUFF}
    exchanged = {(name, swapped.get(m, m), group): values for (name, m, group), values in drawn.items()}
    assert vertebral_duff.misses(version, of, exchanged)


def test_where_both_classes_are_the_same_half_of_the_pairs_are_in_order():
    one = few()
    of = {("x", "AB"): one, ("x", "NO"): dataclasses.replace(one, values=one.values + 1e-9)}
    rng = np.random.default_rng(6)
    drawn = {("x", RANK, group): rng.normal(size=1000) for group in ("AB", "NO")}
    assert vertebral_duff.in_order(of, drawn, "x", RANK) == pytest.approx(0.5, abs=3.5 / math.sqrt(6 * 1000))


@pytest.mark.parametrize(("script", "replicates"), [(duff_figure1, "2"), (vertebral_duff, "20")])
def test_a_script_prints_tables_draws_and_says_whether_targets_are_met(
    script, replicates, monkeypatch, tmp_path, capsys
):
    target = tmp_path / "figures" / "drawn.png"
    monkeypatch.setattr(sys, "argv", ["script", "--seed", "1", "--replicates", replicates, "--plot", str(target)])
    if script is vertebral_duff:
        monkeypatch.setattr(vertebral_duff, "load_vertebral", spines)
    assert script.main() in (0, 1)  # with few replicates either exit status is possible
    assert target.stat().st_size > 10_000
    printed = capsys.readouterr().out
    assert "LaplaceLN, paper" in printed
    assert ("not reproduced" in printed) == (script is duff_figure1)


def test_without_the_data_the_vertebral_script_says_so_and_is_no_failure(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PRIVSTATS_DATA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["script", "--seed", "1"])
    assert vertebral_duff.main() == 0
    assert "skipped: vertebral_column_2C.dat is not in" in capsys.readouterr().out
