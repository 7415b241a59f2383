"""Propose-test-release: exact delta over all neighbours of small data sets, where "no answer" is an outcome, too."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from privstats.errors import OptionError
from privstats.mechanisms.comparison.local_sensitivity import distance
from privstats.mechanisms.comparison.ptr import ProposeTestRelease
from privstats.mechanisms.comparison.smooth import climb
from privstats.mechanisms.random import public_stream
from privstats.privacy.promise import ApproxDP, Relation
from privstats.sets.cells import Line
from tests.comparison.sealed import Sealed
from tests.comparison.test_smooth import POOL, REPLACED, UNIT, neighbours
from tests.conftest import thinned

RELATIONS = {"replace": REPLACED, "add_remove": Relation(1, False, True)}


def no_answer(A, e, delta, noise=1.0):
    return stats.laplace.cdf((math.log(1 / (2 * delta)) / e - A) * e / noise)


def delta_of(here, there, eta, eps, delta, noise=1.0):
    """Return the exact delta between the releases from two data sets `here` and `there`.

    A data set is given by its quantile and its distance from instability: the number of rows that must change until one
    more row may move the quantile by more than eta. All noise is `noise` times the stated noise.
    """
    e = eps / 2
    (T, u), (V, v) = ((T, no_answer(A, e, delta, noise)) for T, A in (here, there))
    t = np.linspace(-60, 60, 12_001)
    p, q = ((1 - w) * stats.laplace.pdf(t, (c - T) * e / eta / noise) for c, w in ((T, u), (V, v)))
    return max(0.0, u - math.exp(eps) * v) + np.trapezoid(np.maximum(p - math.exp(eps) * q, 0.0), t)


def seen(values, eta, relation=REPLACED, line=UNIT):
    T, moves = climb(Sealed.of(values), 0.5, line, relation)
    return T, distance(moves, eta)


@thinned(2)
@pytest.mark.parametrize("kind", ["replace", "add_remove"])
@pytest.mark.parametrize("eta", [0.05, 0.45])
@pytest.mark.parametrize("eps, delta", [(0.5, 1e-3), (2.0, 1e-2)])
def test_no_neighbour_is_told_apart_with_more_than_delta(kind, eta, eps, delta):
    relation, found, halved = RELATIONS[kind], set(), []
    sets = [chosen for n in range(4) for chosen in itertools.combinations_with_replacement(POOL, n)]
    sets += [(0.1,) * n for n in (10, 25)] + [(0.0,) * 12 + (0.1,) * 4 + (0.6,) * k for k in (13, 14, 16)]
    # data sets in which one row may move the median by eta, the limit that is proposed
    sets += [(0.0,) * k + (eta,) * k for k in (1, 3, 8, 20, 26)]
    for values in sets:
        for other in neighbours(values, kind):
            pair = seen(values, eta, relation), seen(other, eta, relation)
            found |= {pair, pair[::-1]}
    for here, there in found:
        assert abs(here[1] - there[1]) <= 1
        assert delta_of(here, there, eta, eps, delta) <= delta * (1 + 1e-3) + 1e-9
        halved.append(delta_of(here, there, eta, eps, delta, noise=0.5))
    assert max(halved) > 1.2 * delta


def test_changes_that_move_the_quantile_from_where_it_is_are_no_safe_distance():
    def slides(values, eta, relation, line):
        """Return the median y_m, and the smallest number k of replacements that move it by more than eta.

        After k replacements, the extreme values of the median are y_(m + k) and y_(m - k).
        """
        y, m = np.sort(values), math.ceil(len(values) / 2)
        moved = [k for k in range(m) if max(y[m - 1 + k] - y[m - 1], y[m - 1] - y[m - 1 - k]) > eta]
        return float(y[m - 1]), min(moved, default=m)

    line, eta, eps, delta = Line(0.0, 1.6, 2.0**-29), 1.5, 1.0, 1e-3
    here = (0.0,) * 51 + (1.0,) + (1.6,) * 49
    there = (0.0,) * 50 + (1.0,) + (1.6,) * 50
    for statistic, private in ((slides, False), (seen, True)):
        pair = [statistic(values, eta, REPLACED, line) for values in (here, there)]
        worst = max(delta_of(*pair, eta, eps, delta), delta_of(*pair[::-1], eta, eps, delta))
        assert bool(worst <= delta) is private
        assert private or worst > 0.9
    assert abs(slides(here, eta, REPLACED, line)[1] - slides(there, eta, REPLACED, line)[1]) > 40


@pytest.mark.parametrize("kind", ["replace", "add_remove"])
def test_answers_come_as_often_as_stated_and_with_the_stated_noise(kind):
    values, line, eta = np.linspace(0, 1, 61), Line(-50.0, 50.0, 2.0**-23), 0.2
    relation, promise = RELATIONS[kind], ApproxDP(2.0, 1e-3)
    mechanism, rng, e = ProposeTestRelease(0.5, eta), public_stream(84), 1.0
    T, A = seen(values, eta, relation, line)
    sealed = Sealed.of(values)
    draws = np.array([mechanism.release("q", sealed, promise, line, relation, rng).value[0] for _ in range(2500)])
    answers, expected = draws[~np.isnan(draws)], 1 - no_answer(A, e, 1e-3)
    assert 0.05 < expected < 0.999
    assert abs(len(answers) / 2500 - expected) < 4 * math.sqrt(expected * (1 - expected) / 2500)
    z = (answers - T) * e / eta
    assert stats.kstest(z, stats.laplace.cdf).pvalue > 1e-4
    assert stats.kstest(2 * z, stats.laplace.cdf).pvalue < 1e-6


def test_an_undeclared_eta_is_a_public_part_of_the_range():
    values, rng = np.linspace(0, 1, 321), public_stream(85)
    mechanism, promise, sealed = ProposeTestRelease(), ApproxDP(10.0, 1e-6), Sealed.of(values)
    draws = np.array([mechanism.release("q", sealed, promise, UNIT, REPLACED, rng).value[0] for _ in range(1000)])
    z = (draws[~np.isnan(draws)] - 0.5) * 5 * 64
    assert 930 < len(z) < 1000  # most draws, but not all, pass the stability test
    assert stats.kstest(z, stats.laplace.cdf).pvalue > 1e-4


@pytest.mark.parametrize("values", [[], [1.0], [0.0, 1.0], [0.0] * 50], ids=len)
@pytest.mark.parametrize("eps", [1e-6, 1.0, 1e6])
def test_every_data_set_gets_a_number_of_the_grid_or_none(values, eps):
    with pytest.raises(OptionError, match=r"eta is 0.0; give how far"):
        ProposeTestRelease(0.5, 0.0)
    for eta in (None, 1e-9, 0.1, 7.0):
        for rows in (1, 9):
            line, relation, promise = Line(-0.1, 1.0, 0.25), Relation(rows, True, True), ApproxDP(eps, 0.7)
            sealed, mechanism = Sealed.of(values), ProposeTestRelease(0.5, eta)
            value = mechanism.release("q", sealed, promise, line, relation, public_stream(86)).value
            assert value.shape == (1,)
            assert math.isnan(value[0]) or value[0] in (-0.1, 0.0, 0.25, 0.5, 0.75, 1.0)
