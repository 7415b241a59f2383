"""Noise scaled to smooth sensitivity of a quantile: privacy loss, and the law of draws.

The exact privacy loss for all neighbours of small data sets is within the guarantee.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from privstats.errors import BudgetError
from privstats.mechanisms.comparison import admissible
from privstats.mechanisms.comparison.smooth import (
    SmoothCauchy,
    SmoothGaussian,
    SmoothLaplace,
    SmoothLaplaceLN,
    climb,
)
from privstats.mechanisms.random import public_stream
from privstats.privacy.promise import ApproxDP, PureDP, Relation
from privstats.sets.cells import Line
from tests.comparison.sealed import Sealed
from tests.conftest import thinned

MECHANISMS = {kind.label: kind for kind in (SmoothCauchy, SmoothLaplace, SmoothLaplaceLN, SmoothGaussian)}
UNIT = Line(0.0, 1.0, 2.0**-30)
REPLACED, ADDED = Relation(1, True, True), Relation(1, False, True)
POOL = [0.0, 0.1, 0.1 + 1e-9, 0.6, 1.0]
NAMES = list(MECHANISMS)
LAWS = {"smooth cauchy": stats.cauchy, "smooth laplace": stats.laplace, "smooth gaussian": stats.norm}
RELATIONS = {"replace": REPLACED, "add_remove": ADDED, "two rows": Relation(2, True, True)}
relations = pytest.mark.parametrize("relation", RELATIONS.values(), ids=RELATIONS)
names = pytest.mark.parametrize("name", NAMES)
U = np.sinh(np.linspace(-8, 8, 4001))


def promise_of(name, eps, delta=1e-3):
    return PureDP(eps) if name == "smooth cauchy" else ApproxDP(eps, delta)


def steady(name, promise, level=0.5):
    """Return a mechanism that computes its public curve of pairs (alpha, beta) only once."""
    curve = MECHANISMS[name]().curve(promise)
    return type("Steady", (MECHANISMS[name],), {"curve": lambda self, promise: curve})(level)


def said(mechanism, values, relation, line=UNIT):
    """Return the centre and the scale of the law of a mechanism's release from the values."""
    T, moves = climb(Sealed.of(values), mechanism.level, line, relation)
    return T, mechanism.scale(moves, None)


def neighbours(values, kind):
    size = len(values)
    yield from ((*values[:k], *values[k + 1 :]) for k in range(size))
    yield from ((*values, new) for new in POOL)
    if kind == "replace":
        yield from ((*values[:k], new, *values[k + 1 :]) for k in range(size) for new in POOL)


def pairs(mechanism, relation):
    """Return, for all ordered pairs of neighbours, the shift (in units of the first scale) and the scales' ratio."""
    sets = [chosen for n in range(5) for chosen in itertools.combinations_with_replacement(POOL, n)]
    sets += [tuple(public_stream(80).choice([0.0, 0.1, 0.1 + 1e-9, 0.3, 1.0], 19, p=[0.1, 0.5, 0.1, 0.2, 0.1]))]
    known = {}
    found = set()
    for values in sets:
        others = set(neighbours(values, "replace" if relation.exchange else "add_remove"))
        if relation.rows == 2:
            others |= {far for near in list(others)[:6] for far in neighbours(near, "replace")}
        for other in others:
            (T, s), (V, t) = (
                known.setdefault(v, said(mechanism, v, relation)) if v not in known else known[v]
                for v in (tuple(sorted(values)), tuple(sorted(other)))
            )
            found |= {((V - T) / s, t / s), ((T - V) / t, s / t)}
    return np.array(sorted(found))


def farthest(shift, ratio):
    """Return the largest absolute log ratio of the densities of two Cauchy laws, over the given pairs of laws.

    For one pair, this log ratio is the hyperbolic distance of the laws.
    """
    return np.arccosh(1 + (shift**2 + (1 - ratio) ** 2) / (2 * ratio)).max()


@thinned(3)
@relations
@pytest.mark.parametrize("level", [0.5, 0.3])
@pytest.mark.parametrize("eps", [0.3, 2.0])
def test_no_neighbour_changes_cauchy_noise_by_more_than_eps_and_some_does_by_that(relation, level, eps):
    shift, ratio = pairs(steady("smooth cauchy", PureDP(eps), level), relation).T
    assert 0.99 * eps <= farthest(shift, ratio) <= eps * (1 + 1e-9)
    assert farthest(2 * shift, ratio) > 1.3 * eps  # halved noise is detected


def deltas(law, eps, shift, ratio):
    """Return the exact delta of the law at 0 with scale 1 against each law at `shift` with scale `ratio`."""
    p = law.pdf(U)
    q = law.pdf((U - shift[:, None]) / ratio[:, None]) / ratio[:, None]
    return np.trapezoid(np.maximum(p - math.exp(eps) * q, 0.0), U, axis=1)


@thinned(3)
@relations
@pytest.mark.parametrize("name", ["smooth laplace", "smooth gaussian"])
@pytest.mark.parametrize("eps, delta", [(0.3, 1e-2), (2.0, 1e-3)])
def test_no_neighbour_is_told_apart_with_more_than_delta(relation, name, eps, delta):
    shift, ratio = pairs(steady(name, ApproxDP(eps, delta)), relation).T
    # 1e-3 allows for errors of the numerical integration
    assert deltas(LAWS[name], eps, shift, ratio).max() <= delta * (1 + 1e-3)
    assert deltas(LAWS[name], eps, 2 * shift, ratio).max() > 1.5 * delta  # halved noise is detected


def test_neighbours_of_smooth_laplaceln_keep_to_its_one_pair():
    mechanism = steady("smooth laplaceln", ApproxDP(1.0, 1e-3))
    alpha, beta = admissible.laplace_ln(1.0, 1e-3)
    shift, ratio = pairs(mechanism, REPLACED).T
    assert alpha * 0.99 <= np.abs(shift).max() <= alpha * (1 + 1e-9)
    assert 0.99 * beta <= np.log(ratio).max() <= beta * (1 + 1e-9)


@names
def test_eps_and_delta_are_what_is_paid(name):
    mechanism, promise = MECHANISMS[name](), promise_of(name, 1.5)
    release = mechanism.release("q", Sealed.of([0.5]), promise, UNIT, REPLACED, public_stream(80))
    assert release.keeps == promise
    assert mechanism.needs_delta == (name != "smooth cauchy")
    if mechanism.needs_delta:
        with pytest.raises(BudgetError, match="needs a delta"):
            mechanism.release("q", Sealed.of([0.5]), PureDP(1.5), UNIT, REPLACED, public_stream(80))


def test_normal_noise_without_the_logarithm_of_delta_is_caught_on_one_value():
    (_, s), (_, t) = (said(steady("smooth gaussian", ApproxDP(1.0, 1e-3)), (y,), REPLACED) for y in (0.0, 1.0))
    assert s == t and 1 / s == pytest.approx(admissible.gaussian(1.0, 1e-3, admissible.betas(1.0)).max())
    # noise of scale 2 S / eps, where S = 1 is the smooth sensitivity: the data sets {0} and {1} are half a scale apart
    lecture = deltas(stats.norm, 1.0, np.array([0.5]), np.ones(1))
    assert lecture[0] > 6e-3


def cdf_of(name, z):
    if name in LAWS:
        return LAWS[name].cdf(z)
    y, weight = np.polynomial.hermite_e.hermegauss(40)
    factors = np.exp(y * math.sqrt(0.2))
    return sum(w * stats.laplace.cdf(z / f) for w, f in zip(weight, factors, strict=True)) / weight.sum()


@thinned(2)
@names
def test_what_is_drawn_is_the_stated_noise_about_the_quantile(name):
    line, promise = Line(-1e3, 1e3, 2.0**-19), promise_of(name, 2.0, 1e-6)
    values, mechanism, rng = np.linspace(-1, 1, 201) ** 3, steady(name, promise, 0.3), public_stream(81)
    T, s = said(mechanism, values, REPLACED, line)
    assert np.sort(values)[60] == T
    draws = [mechanism.release("q", Sealed.of(values), promise, line, REPLACED, rng).value[0] for _ in range(1000)]
    z = (np.array(draws) - T) / s
    assert stats.kstest(z, lambda t: cdf_of(name, t)).pvalue > 1e-4
    assert stats.kstest(2 * z, lambda t: cdf_of(name, t)).pvalue < 1e-6


def test_the_scale_is_the_least_over_the_curve():
    mechanism, values = steady("smooth laplace", ApproxDP(1.0, 1e-3)), np.sort(public_stream(82).uniform(0, 1, 31))
    y = np.concatenate([np.zeros(40), values, np.ones(40)])  # y[55] is the 16th and middle one of the 31 values
    scales = []
    for alpha, beta in zip(*mechanism.curve(None), strict=True):
        gaps = [(y[j] - y[i]) * math.exp(-beta * (j - i - 1)) for i in range(10, 56) for j in range(55, 96) if i < j]
        scales += [max(gaps) / alpha] if alpha > 0 else []
    assert said(mechanism, values, REPLACED)[1] == pytest.approx(min(scales))


@names
@pytest.mark.parametrize("eps", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("values", [[], [1.0], [0.0, 1.0], [0.0] * 50, [1.0] * 51], ids=len)
def test_every_data_set_gets_a_number_of_the_grid_in_the_range(name, eps, values):
    line = Line(-0.1, 1.0, 0.25)
    for relation in (REPLACED, Relation(7, True, True), Relation(100, False, True)):
        release = MECHANISMS[name]().release(
            "q", Sealed.of(values), promise_of(name, eps, 1e-6), line, relation, public_stream(83)
        )
        assert release.value.shape == (1,) and release.law is None
        assert release.value[0] in (-0.1, 0.0, 0.25, 0.5, 0.75, 1.0)
