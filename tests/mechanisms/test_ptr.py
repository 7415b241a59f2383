"""Propose-test-release: exact delta over all neighbours of small data sets, no answer being one of the outcomes."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from privstats.errors import PrivacyError
from privstats.mechanisms.random import public_stream
from privstats.older.mechanisms import MECHANISMS
from privstats.older.mechanisms.comparison.ladders import distance
from privstats.older.mechanisms.comparison.smooth import climb
from privstats.older.numerics.exact import Gathered, Wanted
from privstats.older.privacy.events import ApproxEvent
from tests.mechanisms.test_smooth import LINE, POOL, neighbours

PTR = MECHANISMS["ptr"]


def gathered(values, eta):
    return Gathered((np.array(values, dtype=float),), Wanted(eta=eta))


def no_answer(A, e, delta, noise=1.0):
    return stats.laplace.cdf((math.log(1 / (2 * delta)) / e - A) * e / noise)


def delta_of(here, there, eta, eps, delta, noise=1.0):
    """Exact delta of two data sets, each by its quantile and distance, if all noise is `noise` times what is stated."""
    e = eps / 2
    (T, u), (V, v) = ((T, no_answer(A, e, delta, noise)) for T, A in (here, there))
    t = np.linspace(-60, 60, 12_001)
    p, q = ((1 - w) * stats.laplace.pdf(t, (c - T) * e / eta / noise) for c, w in ((T, u), (V, v)))
    return max(0.0, u - math.exp(eps) * v) + np.trapezoid(np.maximum(p - math.exp(eps) * q, 0.0), t)


def seen(values, eta, line):
    T, moves = climb(gathered(values, eta), line)
    return T, distance(moves, eta)


@pytest.mark.parametrize("kind", ["replace", "add_remove"])
@pytest.mark.parametrize("eta", [0.05, 0.45])
@pytest.mark.parametrize("eps, delta", [(0.5, 1e-3), (2.0, 1e-2)])
def test_no_neighbour_is_told_apart_with_more_than_delta(kind, eta, eps, delta):
    line, found, halved = replace(LINE, kind=kind), set(), []
    sets = [chosen for n in range(4) for chosen in itertools.combinations_with_replacement(POOL, n)]
    sets += [(0.1,) * n for n in (10, 25)] + [(0.0,) * 12 + (0.1,) * 4 + (0.6,) * k for k in (13, 14, 16)]
    sets += [(0.0,) * k + (eta,) * k for k in (1, 3, 8, 20, 26)]  # a row moves the median by all of eta
    for values in sets:
        for other in neighbours(values, kind):
            pair = seen(values, eta, line), seen(other, eta, line)
            found |= {pair, pair[::-1]}
    for here, there in found:
        assert abs(here[1] - there[1]) <= 1
        assert delta_of(here, there, eta, eps, delta) <= delta * (1 + 1e-3) + 1e-9
        halved.append(delta_of(here, there, eta, eps, delta, noise=0.5))
    assert max(halved) > 1.2 * delta


def test_changes_that_move_the_quantile_from_where_it_is_are_no_safe_distance():
    def slides(values, eta, line):
        """Fewest replacements that move the median by more than eta: to y_(m + k) or y_(m - k)."""
        y, m = np.sort(values), math.ceil(len(values) / 2)
        moved = [k for k in range(m) if max(y[m - 1 + k] - y[m - 1], y[m - 1] - y[m - 1 - k]) > eta]
        return float(y[m - 1]), min(moved, default=m)

    line, eta, eps, delta = replace(LINE, high=1.6), 1.5, 1.0, 1e-3
    here = (0.0,) * 51 + (1.0,) + (1.6,) * 49
    there = (0.0,) * 50 + (1.0,) + (1.6,) * 50
    for statistic, private in ((slides, False), (seen, True)):
        pair = [statistic(values, eta, line) for values in (here, there)]
        worst = max(delta_of(*pair, eta, eps, delta), delta_of(*pair[::-1], eta, eps, delta))
        assert bool(worst <= delta) is private
        assert private or worst > 0.9
    assert abs(slides(here, eta, line)[1] - slides(there, eta, line)[1]) > 40


@pytest.mark.parametrize("kind", ["replace", "add_remove"])
def test_answers_come_as_often_as_stated_and_with_the_stated_noise(kind):
    values, line, eta = np.linspace(0, 1, 61), replace(LINE, kind=kind, low=-50.0, high=50.0), 0.2
    mechanism, chance, e = PTR(0.5, 1e-3), public_stream(84), 1.0
    T, A = seen(values, eta, line)
    draws = np.array([mechanism.release("q", gathered(values, eta), line, chance).value[0] for _ in range(2500)])
    answers, expected = draws[~np.isnan(draws)], 1 - no_answer(A, e, 1e-3)
    assert 0.05 < expected < 0.999
    assert abs(len(answers) / 2500 - expected) < 4 * math.sqrt(expected * (1 - expected) / 2500)
    z = (answers - T) * e / eta
    assert stats.kstest(z, stats.laplace.cdf).pvalue > 1e-4
    assert stats.kstest(2 * z, stats.laplace.cdf).pvalue < 1e-6


def test_an_undeclared_eta_is_a_public_part_of_the_range():
    values, chance = np.linspace(0, 1, 321), public_stream(85)
    draws = np.array([PTR(0.1, 1e-6).release("q", gathered(values, None), LINE, chance).value[0] for _ in range(1000)])
    z = (draws[~np.isnan(draws)] - 0.5) * 5 * 64
    assert 930 < len(z) < 1000  # e = 5; four steps are needed and some have three
    assert stats.kstest(z, stats.laplace.cdf).pvalue > 1e-4


@pytest.mark.parametrize("values", [[], [1.0], [0.0, 1.0], [0.0] * 50], ids=len)
@pytest.mark.parametrize("eps", [1e-6, 1.0, 1e6])
def test_every_data_set_gets_a_number_of_the_grid_or_none(values, eps):
    mechanism = PTR.at(1.0, eps, delta=0.7)
    assert mechanism.event == ApproxEvent(eps, 0.7)
    with pytest.raises(PrivacyError, match="eta must be positive"):
        mechanism.release("q", gathered(values, 0.0), LINE, public_stream(86))
    for eta in (None, 1e-9, 0.1, 7.0):
        for rows in (1, 9):
            line = replace(LINE, step=0.25, low=-0.1, rows=rows)
            value = mechanism.release("q", gathered(values, eta), line, public_stream(86)).value
            assert value.shape == (1,)
            assert math.isnan(value[0]) or value[0] in (-0.1, 0.0, 0.25, 0.5, 0.75, 1.0)
