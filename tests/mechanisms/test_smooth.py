"""Noise scaled to smooth sensitivity: exact ratios over all neighbours of small data sets, and the law drawn."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from privstats.errors import PrivacyError
from privstats.mechanisms.random import public_stream
from privstats.older.mechanisms import MECHANISMS
from privstats.older.mechanisms.comparison import admissible
from privstats.older.mechanisms.comparison.smooth import climb
from privstats.older.numerics.exact import Gathered, Wanted
from privstats.older.privacy.events import ApproxEvent, PureEvent
from privstats.older.privacy.release import ValueSensitivity

LINE = ValueSensitivity("values", 1.0, np.ones(1), None, 0.0, 1.0, 2.0**-42, "replace", False, 1)
POOL = [0.0, 0.1, 0.1 + 1e-9, 0.6, 1.0]
NAMES = [name for name in MECHANISMS if name.startswith("smooth ")]
LAWS = {"smooth cauchy": stats.cauchy, "smooth laplace": stats.laplace, "smooth gaussian": stats.norm}
LINES = {"replace": LINE, "add_remove": replace(LINE, kind="add_remove"), "two rows": replace(LINE, rows=2)}
lines = pytest.mark.parametrize("line", LINES.values(), ids=LINES)
names = pytest.mark.parametrize("name", NAMES)
U = np.sinh(np.linspace(-8, 8, 4001))


def gathered(values, level=0.5):
    return Gathered((np.array(values, dtype=float),), Wanted((level,)))


def steady(name, *fields):
    """A mechanism that computes its public curve once."""
    curve = MECHANISMS[name](*fields).curve()
    return type("Steady", (MECHANISMS[name],), {"curve": lambda self: curve})(*fields)


def said(mechanism, values, line, level=0.5):
    """Centre and scale of the release."""
    T, moves = climb(gathered(values, level), line)
    return T, mechanism.scale(moves)


def neighbours(values, kind):
    size = len(values)
    yield from ((*values[:k], *values[k + 1 :]) for k in range(size))
    yield from ((*values, new) for new in POOL)
    if kind == "replace":
        yield from ((*values[:k], new, *values[k + 1 :]) for k in range(size) for new in POOL)


def pairs(mechanism, line, level):
    """Shift in units of the first scale, and the second scale in the same unit, of all neighbours; and the reverse."""
    sets = [chosen for n in range(5) for chosen in itertools.combinations_with_replacement(POOL, n)]
    sets += [tuple(public_stream(80).choice([0.0, 0.1, 0.1 + 1e-9, 0.3, 1.0], 19, p=[0.1, 0.5, 0.1, 0.2, 0.1]))]
    known = {}
    found = set()
    for values in sets:
        others = set(neighbours(values, line.kind))
        if line.rows == 2:
            others |= {far for near in list(others)[:6] for far in neighbours(near, line.kind)}
        for other in others:
            (T, s), (V, t) = (
                known.setdefault(v, said(mechanism, v, line, level)) if v not in known else known[v]
                for v in (tuple(sorted(values)), tuple(sorted(other)))
            )
            found |= {((V - T) / s, t / s), ((T - V) / t, s / t)}
    return np.array(sorted(found))


def farthest(shift, ratio):
    """Largest log ratio of two Cauchy laws: their hyperbolic distance."""
    return np.arccosh(1 + (shift**2 + (1 - ratio) ** 2) / (2 * ratio)).max()


@lines
@pytest.mark.parametrize("level", [0.5, 0.3])
@pytest.mark.parametrize("eps", [0.3, 2.0])
def test_no_neighbour_changes_cauchy_noise_by_more_than_eps_and_some_does_by_that(line, level, eps):
    shift, ratio = pairs(steady("smooth cauchy", 1 / eps), line, level).T
    assert 0.99 * eps <= farthest(shift, ratio) <= eps * (1 + 1e-9)
    assert farthest(2 * shift, ratio) > 1.3 * eps  # halved noise


def deltas(law, eps, shift, ratio):
    """Exact delta of laws at 0 of scale 1 against `shift` of scale `ratio`, each."""
    p = law.pdf(U)
    q = law.pdf((U - shift[:, None]) / ratio[:, None]) / ratio[:, None]
    return np.trapezoid(np.maximum(p - math.exp(eps) * q, 0.0), U, axis=1)


@lines
@pytest.mark.parametrize("name", ["smooth laplace", "smooth gaussian"])
@pytest.mark.parametrize("eps, delta", [(0.3, 1e-2), (2.0, 1e-3)])
def test_no_neighbour_is_told_apart_with_more_than_delta(line, name, eps, delta):
    shift, ratio = pairs(steady(name, 1 / eps, delta), line, 0.5).T
    assert deltas(LAWS[name], eps, shift, ratio).max() <= delta * (1 + 1e-3)  # of the integration
    assert deltas(LAWS[name], eps, 2 * shift, ratio).max() > 1.5 * delta  # halved noise


def test_neighbours_of_smooth_laplaceln_keep_to_its_one_pair():
    mechanism = steady("smooth laplaceln", 1.0, 1e-3)
    alpha, beta = admissible.laplace_ln(1.0, 1e-3)
    shift, ratio = pairs(mechanism, LINE, 0.5).T
    assert alpha * 0.99 <= np.abs(shift).max() <= alpha * (1 + 1e-9)
    assert 0.99 * beta <= np.log(ratio).max() <= beta * (1 + 1e-9)


@names
def test_eps_and_delta_are_what_is_paid(name):
    mechanism = MECHANISMS[name].at(0.5, 3.0)
    assert mechanism.event == (PureEvent(1.5) if name == "smooth cauchy" else ApproxEvent(1.5, 1e-6))
    if name != "smooth cauchy":
        assert MECHANISMS[name].at(0.5, 3.0, delta=1e-4).event == ApproxEvent(1.5, 1e-4)
        for delta in (0.0, -1.0, 1.0, math.nan):
            with pytest.raises(PrivacyError, match="needs a delta"):
                MECHANISMS[name].at(0.5, 3.0, delta=delta)


def test_normal_noise_without_the_logarithm_of_delta_is_caught_on_one_value():
    (_, s), (_, t) = (said(MECHANISMS["smooth gaussian"](1.0, 1e-3), (y,), LINE) for y in (0.0, 1.0))
    assert s == t and 1 / s == pytest.approx(admissible.gaussian(1.0, 1e-3, admissible.betas(1.0)).max())
    lecture = deltas(stats.norm, 1.0, np.array([0.5]), np.ones(1))  # noise 2 S / eps on the values 0 and 1
    assert lecture[0] > 6e-3


def cdf_of(name, z):
    if name in LAWS:
        return LAWS[name].cdf(z)
    y, weight = np.polynomial.hermite_e.hermegauss(40)
    factors = np.exp(y * math.sqrt(0.2))
    return sum(w * stats.laplace.cdf(z / f) for w, f in zip(weight, factors, strict=True)) / weight.sum()


@names
def test_what_is_drawn_is_the_stated_noise_about_the_quantile(name):
    line = replace(LINE, low=-1e7, high=1e7)
    values, mechanism, chance = np.linspace(-1, 1, 201) ** 3, steady(name, 0.5), public_stream(81)
    T, s = said(mechanism, values, line, 0.3)
    assert np.sort(values)[60] == T
    draws = [mechanism.release("q", gathered(values, 0.3), line, chance).value[0] for _ in range(1000)]
    z = (np.array(draws) - T) / s
    assert stats.kstest(z, lambda t: cdf_of(name, t)).pvalue > 1e-4
    assert stats.kstest(2 * z, lambda t: cdf_of(name, t)).pvalue < 1e-6


def test_the_scale_is_the_least_over_the_curve():
    mechanism, values = MECHANISMS["smooth laplace"](1.0, 1e-3), np.sort(public_stream(82).uniform(0, 1, 31))
    y = np.concatenate([np.zeros(40), values, np.ones(40)])  # the 16th value is y[55]
    scales = []
    for alpha, beta in zip(*mechanism.curve(), strict=True):
        gaps = [(y[j] - y[i]) * math.exp(-beta * (j - i - 1)) for i in range(10, 56) for j in range(55, 96) if i < j]
        scales += [max(gaps) / alpha] if alpha > 0 else []
    assert said(mechanism, values, LINE)[1] == pytest.approx(min(scales))


@names
@pytest.mark.parametrize("eps", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("values", [[], [1.0], [0.0, 1.0], [0.0] * 50, [1.0] * 51], ids=len)
def test_every_data_set_gets_a_number_of_the_grid_in_the_range(name, eps, values):
    line = replace(LINE, step=0.25, low=-0.1)
    for kind, rows in (("replace", 1), ("replace", 7), ("add_remove", 100)):
        release = MECHANISMS[name](1 / eps).release(
            "q", gathered(values), replace(line, kind=kind, rows=rows), public_stream(83)
        )
        assert release.value.shape == (1,) and release.law is None
        assert release.value[0] in (-0.1, 0.0, 0.25, 0.5, 0.75, 1.0)
