"""Confidence limits of a quantile, with or without the quantile, drawn jointly and exactly, with small rank errors.

The released numbers ``x_1 <= ... <= x_J``, J = 2 or 3, are called boundaries. Their density is proportional to
``exp(-rate max_j |rank(x_j) - t_j|)`` with target ranks t_j, where rank(x) is the number of values below x. Because of
``exp(-rate d) = rate int_d^inf exp(-rate r) dr``, the law is a mixture: a radius r is drawn first, then a uniform
point, with ascending coordinates, of a box. Side j of the box consists of the numbers whose ranks lie in ``[t_j - r,
t_j + r]``. Given r, boundaries depend on each other only through their order, so that a boundary in a long gap between
values does not make it more probable that another boundary lies in the same gap. The density in the module `joint`, by
contrast, depends on the differences between the rank errors of successive boundaries.

The values are points of a public grid. As in `joint`, the range of the grid is divided into cells around its points,
and each cell into equal parts, which are numbered (`joint.Parts`). Each value is replaced by a random part of its cell.
The number of the part in which a boundary lies is drawn exactly, as a whole number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privstats.mechanisms.additive.tails import choose, passes
from privstats.mechanisms.order.joint import Parts, Window
from privstats.mechanisms.order.ranked import Ranked
from privstats.numerics.law import FloatArray, IntArray, Rng

# a proposed boundary (released number) is outside the window of sorted values with a probability of about exp(-RARE) at
# most
RARE = 30.0


def draw_box(values: Ranked, targets: FloatArray, rate: float, rng: Rng) -> FloatArray:
    """Return J = 2 or 3 ascending random numbers, shape (J,), with ranks among the values near the ranks `targets`.

    The density of the numbers (boundaries) is proportional to ``exp(-rate e)``, where e is the largest of the J
    absolute rank errors ``|rank - target|``. Target ranks are multiples of 2^-20, so that rank errors are exact in
    float64. A random radius is drawn, then boundaries whose absolute rank errors are at most the radius. At first, only
    values in a window of ranks around the targets are sorted, and the probability of a radius beyond the window is
    computed from an upper bound on the mass of these radii. If such a radius is proposed, all values are sorted, and
    the proposal is accepted with a probability equal to the ratio of the mass to the bound. After a rejection, the
    numbers are drawn from the density itself, over all values. So the draw is exact for every window.
    """
    parts, n, J = Parts(values.grid), values.n, len(targets)
    nearest = float(np.abs(targets - np.clip(np.rint(targets), 0, n)).max())
    width = nearest + (J * math.log(parts.cells * (n + 1.0)) + RARE) / rate + 2
    start, stop = int(max(0.0, targets[0] - width)), int(min(float(n), math.ceil(targets[-1] + width)))
    window = Window.of(values, [(start, stop)], parts, rng)
    knots = np.concatenate([[0], window.values, [parts.end]])
    all_ = start == 0 and stop == n
    near = RankBoxes.of(knots, start, n, targets, nearest, math.inf if all_ else width - 2)
    log_mass = near.log_mass(rate, math.inf if all_ else width - 2)
    beyond = -math.inf if all_ else J * math.log(parts.end) - math.lgamma(J + 1) - rate * (width - 2)
    if choose(rng, np.append(np.logaddexp.reduce(log_mass), beyond), 1)[0] == 0:
        return parts.released(near.draw(int(choose(rng, log_mass, 1)[0]), rng))
    knots = np.concatenate([[0], window.all(), [parts.end]])
    some = RankBoxes.of(knots, 0, n, targets, width - 2, math.inf)
    some_mass = some.log_mass(rate, math.inf)
    if not passes(rng, beyond - np.logaddexp.reduce(some_mass)):
        some = RankBoxes.of(knots, 0, n, targets, nearest, math.inf)
        some_mass = some.log_mass(rate, math.inf)
    return parts.released(some.draw(int(choose(rng, some_mass, 1)[0]), rng))


@dataclass(frozen=True, eq=False)
class RankBoxes:
    """Boxes of vectors of J released numbers (boundaries), one box for each of m upper limits `r` on rank errors.

    Box i is a product of J intervals, its sides. Side j extends from ``a[j, i]`` to ``b[j, i]`` (arrays of shape (J,
    m)). Side j consists of the numbers whose rank among the values differs from the target rank of boundary j by at
    most ``r[i]``. The ends of the sides are numbers of parts of the range (`Parts`), so that lengths are exact
    integers.
    """

    r: FloatArray
    a: IntArray
    b: IntArray

    @classmethod
    def of(cls, knots: IntArray, start: int, n: int, targets: FloatArray, least: float, most: float) -> RankBoxes:
        """Return the boxes for the radius `least`, and for all larger radii, up to `most`, at which the box changes.

        Parameters
        ----------
        knots : ndarray of int, shape (k + 2,)
            The sorted values with ranks start + 1, ..., start + k, preceded by one smaller number and followed by one
            larger number, all given as part numbers (`Parts`).
        start : int
            Rank that a number between the first two knots would have among all values.
        n : int
            Number of all values.
        targets : ndarray, shape (J,)
            Target ranks.
        least, most : float
            Limits of the radius, which is the largest allowed rank error of a boundary (see the class).
        """
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
        """Return, for each of the m boxes, the volume of the set of its points with x_1 <= ... <= x_J, shape (m,).

        Given x_2, the number x_1 lies in an interval of length f and, if J = 3, the number x_3 in an interval of length
        g. The volume is the integral over x_2 of f (J = 2) or ``f g`` (J = 3). As f and g are piecewise linear in x_2,
        the integral is computed from the values of f and g at the ends of the pieces, as a sum of non-negative numbers.
        """
        (first, *_), (up_to, *_) = self.a, self.b
        low, high, last, from_ = self.a[1], self.b[1], self.b[-1], self.a[-1]
        cuts = np.sort(np.stack([low, np.clip(up_to, low, high), np.clip(from_, low, high), high]), axis=0)
        length = np.diff(cuts, axis=0).astype(float)
        f = np.maximum(np.minimum(cuts, up_to) - first, 0).astype(float)
        g = np.maximum(last - np.maximum(cuts, from_), 0).astype(float) if len(self.a) == 3 else np.ones(cuts.shape)
        ends = 2 * f[:-1] * g[:-1] + f[:-1] * g[1:] + f[1:] * g[:-1] + 2 * f[1:] * g[1:]
        return np.asarray((length * ends).sum(axis=0) / 6)

    def draw(self, box: int, rng: Rng) -> IntArray:
        """Return the J part numbers (`Parts`) of a uniform random point with ascending coordinates in box number `box`.

        The range is divided into numbered parts. The box is a product of J intervals of part numbers, its sides: one
        for each released number (boundary). A proposal consists of one part drawn uniformly from each side,
        independently. The proposal is rejected if the J part numbers do not ascend. If k boundaries lie in the same
        part, the proposal is accepted with probability 1 / k!, the probability that k uniform numbers in one part are
        in order. On average, at least one in J! proposals is accepted: if J numbers lie in the J sides in any order,
        the sorted numbers also lie in the sides, because the lower ends of the sides ascend, and so do the upper ends.
        """
        while True:
            x = rng.integers(self.a[:, box], self.b[:, box], None)
            ways = math.prod(math.factorial(int(k)) for k in np.unique(x, return_counts=True)[1])
            if (np.diff(x) >= 0).all() and rng.integers(0, ways, None) == 0:
                return np.asarray(x)
