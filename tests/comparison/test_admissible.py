"""Noise whose shifts and scalings between neighbours are admissible: the exact privacy loss is within the guarantee."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from privstats.mechanisms.comparison import admissible
from privstats.mechanisms.comparison.admissible import LN_SPREAD
from tests.conftest import thinned

SHAPES = {"laplace": (stats.laplace, admissible.laplace), "gaussian": (stats.norm, admissible.gaussian)}
shapes = pytest.mark.parametrize("shape", SHAPES)
GRID = np.sinh(np.linspace(-8, 8, 40_001))  # points from -1490 to 1490, dense near the centre


def delta_of(p, q, eps):
    """Return the largest ``P(S) - e^eps Q(S)`` over events S, for laws with the densities p and q on GRID."""
    return np.trapezoid(np.maximum(p - np.exp(eps) * q, 0.0), GRID)


def worst(law, eps, a, beta, count=9):
    """Return the largest delta, in either direction, between a law and shifted and scaled versions of it.

    Shifts are at most a, and scales are between 1 and e^beta.
    """
    found, one = 0.0, law.pdf(GRID)
    for rho in np.exp(np.linspace(0, beta, count)):
        for shift in (0.5 * a, a):
            other = law.pdf(GRID, loc=shift, scale=rho)
            found = max(found, delta_of(one, other, eps), delta_of(other, one, eps))
    return found


@thinned(2)
@shapes
@pytest.mark.parametrize("eps, delta", [(0.1, 1e-3), (1.0, 1e-3), (1.0, 1e-5), (3.0, 1e-2)])
def test_no_pair_within_the_curve_exceeds_delta_and_the_worst_reaches_it(shape, eps, delta):
    law, curve = SHAPES[shape]
    betas = admissible.betas(eps)
    alphas = curve(eps, delta, betas)
    usable = np.flatnonzero(alphas > 0)
    reached = [worst(law, eps, alphas[k], betas[k]) / delta for k in usable[:: len(usable) // 6]]
    assert max(reached) <= 1 + 1e-3  # 1e-3 allows for errors of the numerical integration
    assert max(reached) >= 0.99
    k = usable[len(usable) * 2 // 3]
    assert worst(law, eps, 2 * alphas[k], betas[k]) > 1.5 * delta  # halved noise is detected


@pytest.mark.parametrize("delta", [1e-4, 1e-10])
@pytest.mark.parametrize("eps", [1e-6, 1e-2, 1.0, 30.0, 1e6])
@shapes
def test_curves_are_finite_and_usable_at_every_price(shape, eps, delta):
    alphas = SHAPES[shape][1](eps, delta, admissible.betas(eps))
    assert np.isfinite(alphas).all() and alphas.max() > 0
    assert np.isfinite(admissible.laplace_ln(eps, delta)).all() and np.min(admissible.laplace_ln(eps, delta)) > 0


@pytest.mark.parametrize("eps", [1e-6, 0.1, 1.0, 5.0])
def test_cauchy_noise_loses_eps_at_most_and_just_that(eps):
    betas = admissible.betas(eps)
    alphas = admissible.cauchy(eps, betas)
    log_density = lambda c, s: math.log(s) - np.log((x - c) ** 2 + s**2)  # noqa: E731
    x = np.concatenate([GRID, np.linspace(-3, 3, 20_001) * alphas.max()])
    for a, beta in list(zip(alphas, betas, strict=True))[::9]:
        found = max(np.abs(log_density(0, 1) - log_density(a, rho)).max() for rho in np.exp(np.linspace(0, beta, 7)))
        # rounding errors of up to 1e-6: logarithms of numbers near 1 lose digits if eps is small
        assert 0.985 * eps <= found <= eps * (1 + 1e-6)


@pytest.mark.parametrize("eps, delta", [(1.0, 1e-3), (1.0, 1e-6), (0.5, 1e-5), (2.0, 1e-6)])
def test_normal_noise_without_the_logarithm_of_delta_is_caught(eps, delta):
    log = math.log(2 / delta)
    lecture = worst(stats.norm, eps, eps / 2, eps / (4 * (1 + 2 * log)))
    assert lecture > 3 * delta
    alpha, beta = eps / (5 * math.sqrt(2 * log)), np.array([eps / (4 * (1 + log))])
    assert worst(stats.norm, eps, alpha, beta[0]) < delta / 10
    # the package's curve allows less noise than the constant of Nissim et al. (2007)
    assert admissible.gaussian(eps, delta, beta)[0] > alpha


@pytest.mark.parametrize("eps, delta", [(0.1, 1e-3), (1.0, 1e-3), (1.0, 1e-6)])
def test_laplace_noise_is_less_than_the_sufficient_condition_asks_for(eps, delta):
    beta = np.array([eps / (2 * math.log(2 / delta))])
    sufficient = eps + beta[0] - math.expm1(beta[0]) * math.log(1 / delta)
    assert admissible.laplace(eps, delta, beta)[0] > 1.2 * sufficient


@pytest.mark.parametrize("eps, delta", [(1.0, 1e-3), (2.0, 1e-2)])
def test_laplace_noise_times_a_log_normal_number_keeps_its_delta(eps, delta):
    alpha, beta = admissible.laplace_ln(eps, delta)
    y, weight = np.polynomial.hermite_e.hermegauss(60)

    def density(shift, scale):
        scales = scale * np.exp(LN_SPREAD * y)
        return sum(w * stats.laplace.pdf(GRID, shift, s) for w, s in zip(weight, scales, strict=True)) / weight.sum()

    pairs = [(density(0, 1), density(alpha, rho)) for rho in (math.exp(-beta), 1.0, math.exp(beta))]
    assert max(max(delta_of(p, q, eps), delta_of(q, p, eps)) for p, q in pairs) <= delta


def test_order_by_order_conversion_of_concentrated_privacy_beats_the_textbook_one():
    rho = admissible.concentrated(1.0, 1e-6)
    # the rho of the textbook conversion, for eps = 1, solves rho + 2 sqrt(rho log(1 / delta)) = 1
    textbook = (math.sqrt(math.log(1e6) + 1) - math.sqrt(math.log(1e6))) ** 2
    assert textbook < rho < 1.6 * textbook
    mu = math.sqrt(2 * rho)  # normal noise is (mu^2 / 2)-concentrated, and its exact delta is known
    assert stats.norm.cdf(mu / 2 - 1 / mu) - math.e * stats.norm.cdf(-mu / 2 - 1 / mu) <= 1e-6


def tails(name, a, rho, eps):
    """Return delta of the law with centre a and scale rho > 1 against the law with centre 0 and scale 1, to 60 digits.

    The event is the set outside of the two points where the first density is e^eps times the second.
    """
    a, rho = mpmath.mpf(a), mpmath.mpf(rho)
    if name == "laplace":
        ends = [((s * a - (eps + mpmath.log(rho)) * rho) / (rho - 1), s) for s in (-1, 1)]
        beyond = {s: (mpmath.exp(-(-x - s * a) / rho) / 2, mpmath.exp(x) / 2) for x, s in ends}
    else:
        half, level = (1 - rho**-2) / 2, a**2 / (2 * rho**2) + mpmath.log(rho) + eps
        root = mpmath.sqrt((a / rho**2) ** 2 + 4 * half * level)
        ends = [((s * a / rho**2 - root) / (2 * half), s) for s in (-1, 1)]
        beyond = {s: (mpmath.ncdf((x + s * a) / rho), mpmath.ncdf(x)) for x, s in ends}
    return sum(p - mpmath.exp(eps) * q for p, q in beyond.values())


@shapes
@pytest.mark.parametrize("eps", [1e-6, 1e-2, 1.0, 20.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-10])
def test_small_deltas_keep_their_digits(shape, eps, delta):
    betas = admissible.betas(eps)
    alphas = SHAPES[shape][1](eps, delta, betas)
    stated = getattr(admissible, f"{shape}_delta")(eps, alphas, betas)[0]
    with mpmath.workdps(60):
        for k in np.flatnonzero(alphas > 0)[::8]:
            exact = tails(shape, alphas[k], mpmath.exp(mpmath.mpf(betas[k])), eps)
            assert float(exact) == pytest.approx(stated[k], rel=1e-4, abs=1e-16)
            assert exact <= delta * (1 + 1e-4)
