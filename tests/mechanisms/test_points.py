"""Points are drawn exactly: their last bits do not reveal the two values that bound a gap.

A uniform random number has 53 bits. If it were scaled to a gap of 2^51 points, each point would be hit by 3 to 5
numbers, in a pattern that depends on the two values of the gap. Here all uniform numbers of a draw are shifted by
2^20 of their steps. A point that results from at least 2^20 numbers, or is drawn as a whole number, then moves by at
most one step of its grid.
"""

import functools
import math

import numpy as np
import pytest
from scipy import stats

from privstats.errors import OptionError
from privstats.mechanisms.comparison.duff import DuffMean, DuffQuantile
from privstats.mechanisms.comparison.kng import Exponential, KNormGradient
from privstats.mechanisms.comparison.kng_median import KNGMedian
from privstats.mechanisms.comparison.ptr import ProposeTestRelease
from privstats.mechanisms.comparison.smooth import SmoothCauchy, SmoothGaussian, SmoothLaplace, SmoothLaplaceLN
from privstats.mechanisms.order.rank import Rank, grid_of
from privstats.mechanisms.order.rank_sampler import Runs
from privstats.mechanisms.order.stretches import RankInStretches
from privstats.mechanisms.quantile_regression.hit_and_run import sample_lines
from privstats.mechanisms.quantile_regression.kng import ExponentialQuantile, KNGQuantile
from privstats.mechanisms.quantile_regression.minimise import Target
from privstats.mechanisms.quantile_regression.rows import LONGEST, Pool, RowFrame, Ties
from privstats.mechanisms.random import public_stream
from privstats.numerics.exact import Total
from privstats.privacy.promise import ApproxDP, PureDP, Relation
from privstats.sets.cells import Line
from privstats.sets.losses import CheckLosses, SquaredLosses
from privstats.sets.stretches import Stretches
from privstats.workflow.stage0 import GRID, WIDEST
from tests.conftest import thinned
from tests.mechanisms.sealed import Sealed

MOVED = 2.0**-33  # 2^20 steps of a uniform number
REPLACED = Relation(1, True, True)
CHEAP = PureDP(0.05)


class Moved:
    """Random numbers that are shifted by the share `by` of their scale, in all calls after the first `start` calls."""

    def __init__(self, seed, by, start=0):
        self.stream, self.by, self.start, self.calls = np.random.default_rng(seed), by, start, 0

    def move(self):
        self.calls += 1
        return self.by * (self.calls > self.start)

    def uniform(self, low, high, size):
        drawn = self.stream.uniform(0.0, 1.0, size)
        return low + (np.asarray(high) - low) * np.minimum(drawn + self.move(), 1 - 2.0**-53)

    def integers(self, low, high, size):
        return self.stream.integers(low, high, size)

    def standard_normal(self, size):
        return self.stream.standard_normal(size) + self.move()

    def standard_gamma(self, shape, size):
        return self.stream.standard_gamma(shape, size) + self.move()


LINES = {  # ranges with the widest gaps in units of the grid step: each has the finest grid that can occur
    "finest declared": Line(0.0, 1.0, 2.0**-50),
    "no grid declared": Line(-3.0, 5.0),
    "far from zero": Line(1e6, 1e6 + 1, 1e6 * 2.0**-50),
    "undeclared column": Line(-WIDEST, WIDEST, GRID),
}
VALUES = {
    "none": [],
    "one": [0.3],
    "at both ends": [-1e9] * 3 + [1e9] * 3,
    "tied": [0.7] * 9,
    "a few": [0.1, 0.31, 0.9],
}
RANKS = [
    Rank(),
    Rank((0.02,)),
    Rank((0.2, 0.5, 0.9)),
    Rank((0.5,), 0.9),
    Rank((0.3,), 0.9, True),
    Rank((0.3, 0.6), 0.9),
]


def release(mechanism, exact, within, stream, promise):
    return mechanism.release("q", exact, promise, within, REPLACED, stream).value


def step_of(mechanism, exact, within, promise, draws):
    """Return the grid step of a mechanism's releases: the largest power of two that divides all points in (-1, 1)."""
    drawn = np.array([release(mechanism, exact, within, public_stream(k), promise) for k in range(draws)]).ravel()
    units = [int(math.ldexp(point, 60)) for point in drawn if abs(point) < 1]
    shared = math.gcd(*units)
    return math.ldexp(shared & -shared, -60)


def worst(mechanism, exact, within, step, promise=CHEAP, draws=20, last=math.inf):
    """Return the largest change of a point, in grid steps, if uniform numbers are shifted by `MOVED`.

    The uniform numbers of all calls are shifted, or only the numbers of the `last` calls.
    """
    moved = []
    for k in range(draws):
        plain = Moved(k, 0.0)
        here = release(mechanism, exact, within, plain, promise)
        there = release(mechanism, exact, within, Moved(k, MOVED, max(0.0, plain.calls - last)), promise)
        moved.append(np.abs(here - there).max() / step)
    return float(np.sort(moved)[-2])  # the largest shift is ignored, because in some draws another point is chosen


@thinned(3)
@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("values", VALUES)
def test_order_statistics_are_whole_numbers_of_steps_whatever_the_uniform_numbers_say(line, values):
    within = LINES[line]
    exact = Sealed(within.project(np.array(VALUES[values], dtype=float)))
    for rank in RANKS:
        assert worst(rank, exact, within, grid_of(within).step) == 0
    if within.grid:
        assert worst(DuffQuantile(level=0.3), exact, within, within.grid) == 0
        assert worst(DuffMean(), exact, within, within.grid) == 0


@pytest.mark.parametrize("values", VALUES)
def test_locations_are_whole_numbers_of_steps(values):
    for dim, step in ((1, 2.0**-50), (2, 2.0**-50), (3, 2.0**-50), (4, 2.0**-30)):
        within = Line(0.0, 1.0, step, dim)
        rows = within.project(np.repeat(np.array(VALUES[values], dtype=float)[:, None], dim, axis=1))
        assert worst(KNGMedian(), Rows(rows), within, step, draws=5) <= (0 if dim < 4 else 1)
    with pytest.raises(OptionError, match="grid is"):
        release(KNGMedian(), Rows(rows), Line(0.0, 1.0, 2.0**-31, 4), public_stream(1), PureDP(1.0))


class Rows(Sealed):
    """Rows of several numbers, as values of a mechanism."""

    def all(self):
        return self.values


def test_each_stretch_between_released_quantiles_is_drawn_exactly():
    inner = Line(0.0, 1.0, 2.0**-50)

    class Cells:
        def cell(self, k):
            return Sealed(np.array([[0.1, 0.2], [], [0.9]][k], dtype=float))

    within = Stretches(inner, 3, ((0.0, 0.3), (0.3, 0.8), (0.8, 1.0)))
    assert worst(RankInStretches((0.5, 0.2, 0.9)), Cells(), within, inner.grid) == 0


SHAPES = ("spread", "near each other", "tied", "tied near each other")
SCORES = (KNGQuantile(), KNGQuantile("l1"), KNGQuantile("l2"), ExponentialQuantile())


def rows_of(d, shape, n=40):
    """Return rows of a regression: a constant, predictors that are spread or nearly constant, and a response."""
    rng = np.random.default_rng([d, len(shape)])
    slopes = rng.uniform(-1, 1, (n, d - 1))
    slopes = np.round(slopes) if "tied" in shape else slopes
    slopes = 0.9 + 0.02 * slopes if "near" in shape else slopes
    return np.column_stack([np.ones(n), slopes, rng.uniform(-1, 1, n)])


@thinned(3)
@pytest.mark.parametrize("mechanism", SCORES, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_each_coefficient_of_a_quantile_regression_has_2_20_uniform_numbers(mechanism, shape):
    promise = PureDP(1e-3)  # with so small a budget, nearly the whole parameter set has high density
    for d in (1, 2, 3):
        within, exact = CheckLosses(d, 0.3, 1.0, True), Rows(rows_of(d, shape))
        step = step_of(mechanism, exact, within, promise, 8)
        assert worst(mechanism, exact, within, step, promise, 8) <= 1


@pytest.mark.parametrize("mechanism", [KNGQuantile(), ExponentialQuantile()], ids=str)
def test_the_last_places_of_a_chain_have_2_20_uniform_numbers(mechanism, monkeypatch):
    """A small shift of the uniform numbers of the last step moves coefficients by at most one grid step.

    Each step of the chain draws a segment of a line and a position in this segment. The uniform numbers of the last two
    calls are shifted by 2^-33.
    """
    few = functools.partial(sample_lines, sweeps=4)
    monkeypatch.setattr("privstats.mechanisms.quantile_regression.kng.sample_lines", few)
    within, exact, promise = CheckLosses(4, 0.3, 1.0, True), Rows(rows_of(4, "spread")), PureDP(1e-3)
    step = step_of(mechanism, exact, within, promise, 6)
    assert worst(mechanism, exact, within, step, promise, 6, last=2) <= 1


@pytest.mark.parametrize("longest", [0.01, 0.1, 0.5])
def test_boxes_are_not_much_longer_than_the_parameter_set(longest):
    """A box that contains the parameter set has a half-length of at most `LONGEST` (about 2) radii of this set.

    If rows are nearly equal, boxes along their fits would be longer; the boxes then lie along principal axes.
    """
    rng = np.random.default_rng(3)
    for d in (2, 3):
        x = np.column_stack([np.ones(60), 0.9 - longest * rng.integers(0, 2, (60, d - 1))])
        target = Target(x, rng.uniform(-1, 1, 60), 0.3, 1.0, 1.0, "hull")
        frame = (Ties.of(target) or Pool.of(RowFrame.of(target, turned=True))).frame
        assert frame.longest <= LONGEST
        groups = np.unique(x, axis=0, return_inverse=True)[1].ravel()
        assert RowFrame.along(target, np.unique(x, axis=0), groups).longest > LONGEST or longest == 0.5
    dummies = np.column_stack([np.ones(60), np.eye(3)[rng.integers(0, 3, 60)][:, 1:]])
    assert Ties.of(Target(dummies, rng.uniform(-1, 1, 60), 0.3, 1.0, 1.0, "hull")) is not None


@thinned(5)
@pytest.mark.parametrize("mechanism", [*(KNormGradient(norm) for norm in ("linf", "l1", "l2")), Exponential()], ids=str)
@pytest.mark.parametrize("shape", ["spread", "near each other", "tied near each other"])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_each_coefficient_of_least_squares_has_2_20_uniform_numbers(mechanism, d, shape):
    bound = 1.0
    within = SquaredLosses(d, bound, True)
    rows = rows_of(d, shape)
    exact = within.total(within.project(rows))
    assert isinstance(exact, Total)
    for promise in (PureDP(1e-3), PureDP(1.0)):
        step = step_of(mechanism, exact, within, promise, 12)
        assert worst(mechanism, exact, within, step, promise, 12) <= 1


SMOOTH = [SmoothCauchy, SmoothLaplace, SmoothLaplaceLN, SmoothGaussian]


def steady(kind, promise):
    """Return a mechanism that computes its curve of admissible shifts, which is public, only once."""
    curve = kind().curve(promise)
    return type("Steady", (kind,), {"curve": lambda self, promise: curve})()


@thinned(3)
@pytest.mark.parametrize("kind", [*SMOOTH, ProposeTestRelease])
@pytest.mark.parametrize("eps", [0.1, 1.0])
def test_noise_whose_scale_follows_the_rows_is_rounded_to_steps_of_2_20_of_its_numbers(kind, eps):
    promise = ApproxDP(eps, 1e-3) if kind.needs_delta else PureDP(eps)
    mechanism = ProposeTestRelease(eta=3.0) if kind is ProposeTestRelease else steady(kind, promise)
    within = Line(-1.0, 1.0, 2.0**-29)
    exact = Rows(np.linspace(-1, 1, 31)[:, None])
    step = step_of(mechanism, exact, within, promise, 600)
    assert within.grid <= step < 2.0**-10
    assert worst(mechanism, exact, within, step, promise, 100) <= 1
    with pytest.raises(OptionError, match="too fine for this mech="):
        release(mechanism, exact, Line(-1.0, 1.0, 2.0**-30), public_stream(1), promise)


# --- draws have the stated law ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 7, 64, 65, 1000])
@pytest.mark.parametrize("fall", [1e-12, 0.003, 0.07, 0.4, 0.6, 1.3, 30.0])
def test_a_point_of_a_run_falls_geometrically_whatever_the_blocks(count, fall):
    """Points of a run (successive grid points) are drawn with probabilities that fall by the factor e^-fall per point.

    The sampler first draws a block of points, then a point of the block. Cases: blocks of one point or of many points,
    a run shorter than a block, and an incomplete last block.
    """
    runs = Runs(*(np.array([float(x)]) for x in (100, -1, count, 0.0, fall)))
    drawn = 100 - runs.draw(np.zeros(20_000, dtype=int), public_stream(70))
    mass = np.exp(-fall * np.arange(count))
    assert ((drawn >= 0) & (drawn < count)).all()
    expected = 20_000 * mass / mass.sum()
    seen = np.bincount(drawn.astype(int), minlength=count)
    often = np.searchsorted(-expected, -50.0)
    seen, expected = (np.append(x[:often], x[often:].sum()) for x in (seen, expected))
    if expected[-1] < 5:
        seen, expected = np.append(seen[:-2], seen[-2:].sum()), np.append(expected[:-2], expected[-2:].sum())
    assert len(seen) == 1 or stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue > 1e-5
