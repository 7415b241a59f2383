"""The ends of an interval and the quantile between them, drawn exactly by the largest error of their ranks.

J = 2 or 3 boundaries ``x_1 <= ... <= x_J`` have a density proportional to ``exp(-rate max_j |rank(x_j) - t_j|)``. As
``exp(-rate d) = rate int_d^inf exp(-rate r) dr``, it is a mixture: a radius r, then a uniform point among the ordered
ones of a box, whose side j holds the numbers with a rank in ``[t_j - r, t_j + r]``. Boundaries err together only as far
as their order makes them; along the hull of all shifts (`joint`) those between two others may
err for nothing. Where a gap is long, order keeps them from meeting in it.

Values are spread over the cells of a public grid as in `joint`; positions are in its steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privstats.mechanisms.order.joint import Window
from privstats.mechanisms.order.rank_sampler import RankGrid, choose_run
from privstats.numerics.law import FloatArray, Rng

RARE = 30.0  # what the log density falls within the window beyond what the range could make up for
NODES = 0.5 + np.array([-0.5, 0.5]) / math.sqrt(3.0)  # Gauss and Legendre's, exact up to cubes


def draw_box(
    values: FloatArray, targets: FloatArray, rate: float, low: float, high: float, step: float, rng: Rng
) -> FloatArray:
    """Draw ordered boundaries, shape (J,), J in (2, 3), whose ranks are near `targets`, multiples of `FINE`.

    Only a window of ranks is sorted. What lies beyond it is proposed at an upper bound of its mass and accepted with
    the ratio of its mass to that: the law is exact whatever the window.
    """
    grid, n, J = RankGrid(low, high, step), len(values), len(targets)
    whole = grid.last - grid.first + 1
    nearest = float(np.abs(targets - np.clip(np.rint(targets), 0, n)).max())
    width = nearest + (J * math.log(whole) + RARE) / rate + 2
    start, stop = int(max(0.0, targets[0] - width)), int(min(float(n), math.ceil(targets[-1] + width)))
    window = Window.of(grid.units(values), start, stop, rng)
    ends = grid.first - 0.5, grid.last + 0.5
    knots = np.concatenate([ends[:1], window.values, ends[1:]])
    all_ = start == 0 and stop == n
    near = RankBoxes.of(knots, start, n, targets, nearest, math.inf if all_ else width - 2)
    log_mass = near.log_mass(rate, math.inf if all_ else width - 2)
    beyond = -math.inf if all_ else J * math.log(whole) - math.lgamma(J + 1) - rate * (width - 2)
    while True:
        if choose_run(np.append(np.logaddexp.reduce(log_mass), beyond), rng, 1)[0] == 0:
            return grid.points(_rounded(near.draw(int(choose_run(log_mass, rng, 1)[0]), rng), grid))
        window.ranks(np.empty(0))
        assert window.everything is not None
        knots = np.concatenate([ends[:1], window.everything, ends[1:]])
        far = RankBoxes.of(knots, 0, n, targets, width - 2, math.inf)
        far_mass = far.log_mass(rate, math.inf)
        if math.log(rng.uniform(0.0, 1.0, 1)[0]) < np.logaddexp.reduce(far_mass) - beyond:
            return grid.points(_rounded(far.draw(int(choose_run(far_mass, rng, 1)[0]), rng), grid))


def _rounded(x: FloatArray, grid: RankGrid) -> FloatArray:
    return np.clip(np.rint(x), grid.first, grid.last)


@dataclass(frozen=True, eq=False)
class RankBoxes:
    """Boxes of growing radius: sides `a` to `b`, shape (J, m), radii r, shape (m,)."""

    r: FloatArray
    a: FloatArray
    b: FloatArray

    @classmethod
    def of(cls, knots: FloatArray, start: int, n: int, targets: FloatArray, least: float, most: float) -> RankBoxes:
        """Return the boxes at `least` and at all radii up to `most` at which a side grows."""
        last = start + len(knots) - 2
        r = np.unique(np.append(np.abs(np.arange(start, last + 1.0) - targets[:, None]).ravel(), least))
        r = r[(r >= least) & (r <= most)]
        lowest = np.clip(np.ceil(targets[:, None] - r), 0, n).astype(np.intp) - start
        highest = np.clip(np.floor(targets[:, None] + r), 0, n).astype(np.intp) - start
        return cls(r, knots[lowest], knots[highest + 1])

    def log_mass(self, rate: float, most: float) -> FloatArray:
        with np.errstate(divide="ignore"):
            share = np.log(-np.expm1(-rate * np.diff(self.r, append=most)))
            return np.asarray(np.log(self.volume()) - rate * self.r + share)

    def volume(self) -> FloatArray:
        """Return the volumes of the ordered points of each box: the integrand is quadratic between its kinks."""
        a, b = self.a, self.b
        kinks = [a[1], np.clip(b[0], a[1], b[1]), np.clip(a[-1], a[1], b[1]), b[1]]
        cuts = np.sort(np.stack(kinks), axis=0)
        length = np.diff(cuts, axis=0)
        x = cuts[:-1] + length * NODES[:, None, None]
        return np.asarray((length / 2 * self.conditional_volume(x, slice(None))).sum(axis=(0, 1)))

    def conditional_volume(self, x: FloatArray, box: int | slice) -> FloatArray:
        """Return the volume left to the others if boundary 2 is at x."""
        below = np.maximum(np.minimum(x, self.b[0, box]) - self.a[0, box], 0.0)
        if len(self.a) == 2:
            return np.asarray(below)
        return np.asarray(below * np.maximum(self.b[2, box] - np.maximum(x, self.a[2, box]), 0.0))

    def draw(self, box: int, rng: Rng) -> FloatArray:
        a, b = self.a[:, box], self.b[:, box]
        top = (min(b[0], b[1]) - a[0]) * (b[2] - max(a[1], a[2]) if len(a) == 3 else 1.0)
        while True:
            x, u = rng.uniform(0.0, 1.0, 2)
            x = a[1] + x * (b[1] - a[1])
            if u * top <= self.conditional_volume(np.array(x), box):
                break
        others = rng.uniform(0.0, 1.0, 2)
        first = a[0] + others[0] * (min(x, b[0]) - a[0])
        if len(a) == 2:
            return np.array([first, x])
        from_ = max(x, a[2])
        return np.array([first, x, from_ + others[1] * (b[2] - from_)])
