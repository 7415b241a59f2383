"""The rank mechanism: exact density ratios over neighbours, and the density that is drawn."""

import itertools

import numpy as np
import pytest
from scipy import stats

from privstats.gate.bounds import Line
from privstats.losses.location import WIDEST, stretch
from privstats.mechanisms.random import public_stream
from privstats.mechanisms.rank import Rank
from privstats.numerics.exact import Gathered, Wanted
from privstats.privacy.neighbors import Neighbors

SENSITIVITY = Line(-WIDEST, WIDEST, 2.0**-42).sensitivity("values", Neighbors())
POOL = [-1e290, -3.0, -1e-12, 0.0, 0.0, 2.0, 2.0, 1e6, 1e290]


def log_density(values, level, eps, at):
    """The stated law on the stretched line, by its definition."""
    ends = np.concatenate([[-WIDEST], np.sort(stretch(np.array(values))), [WIDEST]])
    utility = -np.abs(np.arange(len(values) + 1) - level * len(values)) * eps / 2
    with np.errstate(divide="ignore"):
        normaliser = np.logaddexp.reduce(utility + np.log(np.diff(ends)))
    rank = np.searchsorted(np.sort(stretch(np.array(values))), at, side="left")
    return -np.abs(rank - level * len(values)) * eps / 2 - normaliser


@pytest.mark.parametrize("level", [0.1, 0.5, 0.97])
@pytest.mark.parametrize("eps", [0.3, 2.0])
def test_no_neighbour_changes_the_density_by_more_than_eps_and_some_nearly_does(level, eps):
    at = stretch(np.array([-1e200, -2.0, -1e-13, 1e-5, 1.0, 3.0, 1e10]))
    worst = 0.0
    for size in range(5):
        for values in itertools.combinations(POOL, size):
            here = log_density(values, level, eps, at)
            neighbours = [(*values[:k], other, *values[k + 1 :]) for k in range(size) for other in POOL]
            neighbours += [(*values, other) for other in POOL]
            for other in neighbours:
                worst = max(worst, np.abs(here - log_density(other, level, eps, at)).max())
    assert worst <= eps * (1 + 1e-9)
    assert worst >= 0.49 * eps  # these few values show half of the claim


@pytest.mark.parametrize("multiplier", [0.5, 2.0])
def test_what_is_drawn_has_the_stated_density(multiplier):
    values = np.concatenate([np.linspace(-3e3, -1, 20), [0.0, 0.0], np.geomspace(1, 1e60, 20)])
    chance = public_stream(44)
    gathered = Gathered((stretch(values[:2]), stretch(values[2:])), Wanted())
    mechanism = Rank(multiplier)
    draws = np.array([mechanism.release("q", gathered, SENSITIVITY, chance).value[0] for _ in range(4000)])
    grid = np.linspace(-WIDEST, WIDEST, 200_001)
    density = np.exp(log_density(values, 0.5, 1 / multiplier, grid))
    cdf = np.cumsum(density) / density.sum()
    p = stats.kstest(draws, lambda t: np.interp(t, grid, cdf)).pvalue
    assert p > 1e-4
    halved = np.exp(log_density(values, 0.5, 2 / multiplier, grid))
    assert stats.kstest(draws, lambda t: np.interp(t, grid, np.cumsum(halved) / halved.sum())).pvalue < 1e-6


def test_no_values_at_all_give_a_uniform_point():
    release = Rank(1.0).release("q", Gathered((np.array([]),), Wanted()), SENSITIVITY, public_stream(45))
    assert np.isfinite(release.value).all()
