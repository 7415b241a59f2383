"""A Markov chain that moves along lines: its steps have the law of exact draws, for every window of the line.

A window is an interval of a line in which the density is computed; outside of it, the density has an upper bound.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from privstats.mechanisms.quantile_regression import hit_and_run as check_lines
from privstats.mechanisms.quantile_regression.hit_and_run import CheckLines, sample_lines, segment
from privstats.mechanisms.quantile_regression.minimise import Target
from privstats.mechanisms.quantile_regression.rejection import CheckBoxes
from privstats.mechanisms.random import public_stream
from tests.quantile_regression.test_minimise import rows
from tests.quantile_regression.test_rejection import CASES, potentials

pytestmark = pytest.mark.slow  # this algorithm is for comparison, and used only if requested by name


def chained(rng, target, size, thin=4):
    """Return `size` states of one chain, one after every `thin` sweeps."""
    lines, draws = CheckLines(target), []
    for k in range(size * thin):
        lines.sweep(rng, k % 2 == 1)
        if k % thin == thin - 1:
            draws.append(lines.theta)
    return np.array(draws)


@pytest.mark.parametrize(("norm", "tilt", "tau"), CASES)
@pytest.mark.parametrize(("n", "dim"), [(8, 2), (80, 3)])
def test_the_chain_has_the_law_of_the_exact_draws_and_not_that_of_half_the_noise(norm, tilt, tau, n, dim):
    rng = public_stream(91)
    x, y = rows(rng, n, dim)
    target = Target(x, y, tau, 1.5, 0.4 if norm != "loss" else 1.0, norm, tilt)
    boxes = CheckBoxes(target)
    exact = np.array([boxes.draw(rng) for _ in range(300)])
    chain = chained(rng, target, 200)
    assert min(stats.ks_2samp(exact[:, j], chain[:, j]).pvalue for j in range(dim)) > 1e-4
    if n > 50:
        other = chained(rng, Target(x, y, tau, 1.5, 4 * target.rate, norm, tilt), 200)
        assert min(stats.ks_2samp(exact[:, j], other[:, j]).pvalue for j in range(dim)) < 1e-3


def awkward(name, rng, n):
    """Return rows of the named kind, for which chains might converge slowly."""
    x, y = rows(rng, n, 3)
    if name == "ties":
        x, y = np.round(x), np.round(3 * y) / 3
    if name == "barely separated":
        x, y = np.round(x), np.round(3 * y) / 3 + rng.uniform(-1, 1, n) / 2048
    if name == "nearly collinear":
        x[:, 2] = np.clip(x[:, 1] + 0.01 * rng.standard_normal(n), -1, 1)
    if name == "collinear":
        x[:, 2] = x[:, 1]
    if name == "one row tells":
        x[1:, 1] = 0.0
    if name == "two clouds":
        y = np.sign(y) * 0.9 + 0.01 * rng.standard_normal(n)
    return x, y


def unlike(one, other):
    """Return the smallest p-value of tests that two samples agree.

    The tests compare coefficients, and the sum and the difference of the slopes.
    """
    ways = np.column_stack([np.eye(3), [0.0, 1.0, 1.0], [0.0, 1.0, -1.0]])
    return min(stats.ks_2samp(a, b).pvalue for a, b in zip((one @ ways).T, (other @ ways).T, strict=True))


@pytest.mark.parametrize(
    ("name", "n", "tau"),
    [
        ("ties", 60, 0.95),
        ("barely separated", 60, 0.5),
        ("nearly collinear", 60, 0.95),
        ("collinear", 60, 0.5),
        ("one row tells", 40, 0.95),
        ("two clouds", 40, 0.5),
        ("two clouds", 5, 0.95),
    ],
)
def test_the_chain_has_the_law_of_the_exact_draws_on_awkward_rows_too(name, n, tau):
    rng = public_stream(95)
    x, y = awkward(name, rng, n)
    target = Target(x, y, tau, 1.5, 0.2, "hull", 2 * max(tau, 1 - tau) - 1)
    boxes = CheckBoxes(target)
    exact = np.array([boxes.draw(rng) for _ in range(400)])
    chain = chained(rng, target, 100, 12)
    assert unlike(exact, chain) > 1e-4
    if tau < 0.9:  # for tau below 0.9, the law depends so strongly on the rate that a wrong rate is detected
        assert unlike(exact, chained(rng, replace(target, rate=8 * target.rate), 60, 12)) < 1e-4


def p_value_of_a_line(norm):
    """Return the Kolmogorov-Smirnov p-value of 300 steps along a line, and the number of rows that the chain examines.

    There are 4,000 rows. The chain does not examine rows whose scores are constant near the minimiser of the loss.
    """
    rng = public_stream(92)
    x, y = rows(rng, 4000, 2)
    target = Target(x, y, 0.5, 2.0, 1.0, norm, 0.0)
    lines = CheckLines(target)
    for k in range(4):
        lines.sweep(rng, k % 2 == 1)
    undecided = len(lines.pool.rows)
    way, start = np.array([0.7, -0.3]), lines.phi
    basis, centre = lines.frame.basis, lines.frame.centre
    low, high = segment(centre + basis @ start, basis @ way, 2.0)
    steps = []
    for _ in range(300):
        lines.phi = start
        lines.refresh()
        lines.step(rng, way)
        steps.append((lines.phi - start)[0] / way[0])
    t = np.linspace(low, high, 40_001)
    t = np.sort(np.concatenate([t, np.linspace(min(steps) * 2, max(steps) * 2, 20_001)]))
    t = t[(t > low) & (t < high)]
    middles = (t[1:] + t[:-1]) / 2
    near = np.abs(middles) < 30 * np.std(steps)
    values = np.full(len(middles), np.inf)
    values[near] = potentials(target, centre + (start + middles[near, None] * way) @ basis.T)
    mass = np.exp(-(values - values.min())) * np.diff(t)
    cdf = np.append(0.0, np.cumsum(mass) / mass.sum())
    return stats.kstest(steps, lambda s: np.interp(s, t, cdf)).pvalue, undecided


@pytest.fixture
def narrow(monkeypatch):
    """Make the windows (intervals) of a line so short that most of the probability may lie outside of them."""
    honest = CheckLines.first_reach

    def near(self, way, v, length):
        middle, reach = honest(self, way, v, length)
        return middle, reach / 5

    monkeypatch.setattr(check_lines, "SELDOM", 100.0)
    monkeypatch.setattr(CheckLines, "first_reach", near)


@pytest.mark.parametrize("norm", ["hull", "loss"])
def test_a_step_has_the_law_of_its_line(norm):
    p, undecided = p_value_of_a_line(norm)
    assert p > 1e-4
    assert undecided < 3900


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("norm", ["hull", "loss"])
def test_a_step_has_that_law_whatever_the_window(norm):
    assert p_value_of_a_line(norm)[0] > 1e-4


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("norm", ["hull", "loss"])
def test_bounds_taken_for_the_law_would_be_caught(monkeypatch, norm):
    monkeypatch.setattr(CheckLines, "potential", lambda self, v, t, start: -math.inf)
    assert p_value_of_a_line(norm)[0] < 1e-4


def test_a_segment_ends_on_the_ball():
    rng = public_stream(93)
    for d in (1, 2, 5):
        for _ in range(50):
            theta, v = rng.standard_normal((2, d))
            theta *= rng.uniform(0, 1.5, None) / np.abs(theta).sum()
            low, high = segment(theta, v, 1.5)
            assert low <= 0 <= high
            for t in (low, high):
                assert np.abs(theta + t * v).sum() == pytest.approx(1.5)


@pytest.mark.parametrize("norm", ["hull", "loss"])
@pytest.mark.parametrize("rate", [1e-7, 0.3, 8.0])
def test_every_data_set_gets_a_point_of_the_parameter_set(norm, rate):
    rng = public_stream(94)
    for x, y in (
        (np.zeros((0, 3)), np.zeros(0)),
        (np.ones((1, 3)), np.ones(1)),
        (np.ones((40, 3)), np.full(40, -1.0)),
        (np.zeros((9, 3)), np.zeros(9)),
        (np.vander(np.linspace(-1, 1, 30), 3), np.linspace(-1, 1, 30)),
    ):
        theta = sample_lines(rng, Target(x, y, 0.8, 1.5, rate, norm, 0.6), 4)
        assert np.isfinite(theta).all()
        assert np.abs(theta).sum() <= 1.5 * (1 + 1e-12)
