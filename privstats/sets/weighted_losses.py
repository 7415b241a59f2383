"""Set of rows with convex losses of a linear predictor; a row's weight is lowered to bound its score and curvature."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privstats.errors import OptionError
from privstats.numerics.law import FloatArray
from privstats.sets.base import Set, known, positive_radius, squared_length

GEOMETRIES = ("l1", "l2", "linf")
# lowered predictors and weights are also multiplied by this factor, so that rounding violates no bound
MARGIN = 1 - 1e-14
LARGEST = 1e150  # absolute values of entries are first clamped to this limit, so that the squares of entries are finite


@dataclass(frozen=True)
class WeightedLosses(Set):
    """Set of rows (weight w, predictors x, response y, offset o) with losses ``w l(x't + o; y)`` at the parameters t.

    The function l is convex in the linear predictor ``x't + o``; its first derivative is called the slope g, its
    second derivative the curvature h. For a given y, the largest h is ``steepest(y)``. Let s(y) be ``steepest(y)``
    divided by `max_curvature`, the largest h over all y; s(y) is 1 for most losses.

    Projection onto the set scales x down to ``|x|_2 <= longest`` and clamps w to [0, 1], y to the range `y`, and o to
    the range `offset`. The projection then lowers w until ``w |x| <= radius``, in the norm `geometry`, and ``w |x|_2^2
    s(y) <= curvature``. This gives two bounds at every t:

    - the norm `geometry` of the row's score ``w g x`` is at most `radius` times `max_slope`, the largest |g|;
    - the largest eigenvalue of the second derivative of the row's loss, ``w h x x'``, is at most `curvature` times
      `max_curvature`.

    Weights that depend on x alone do not change the population minimiser of a correct model (Mallows 1975).

    Parameters
    ----------
    m : int
        Number of entries of x.
    loss : RowLoss
        The loss l, with bounds on |g| (`max_slope`), on h for all y (`max_curvature`) and on h for a given y
        (`steepest`). The method `frontier` returns pairs of bounds, on ``|g|`` and on ``h / s(y)``. For every linear
        predictor and every y, both bounds of at least one pair hold.
    radius : float
        Largest ``w |x|``, in the norm `geometry`.
    curvature : float
        Largest ``w |x|_2^2 s(y)``.
    longest : float
        Largest ``|x|_2``.
    y, offset : tuple of float
        Public ranges of y and of o; values outside are clamped.
    geometry : {"l1", "l2", "linf"}
        Norm in which scores are bounded.
    """

    m: int
    loss: Any
    radius: float
    curvature: float
    longest: float
    y: tuple[float, float] = (0.0, 1.0)
    offset: tuple[float, float] = (0.0, 0.0)
    geometry: str = "l2"

    def __post_init__(self) -> None:
        for size in (self.radius, self.curvature, self.longest):
            positive_radius(size)
        if self.geometry not in GEOMETRIES:
            raise OptionError(f"noise='{self.geometry}' is unknown here; choose among {', '.join(GEOMETRIES)}")
        if not all(math.isfinite(end) for end in (*self.y, *self.offset)):
            raise OptionError("the response or the offset has no finite bounds; declare them in domain=")

    @property
    def dim(self) -> int:
        return self.m + 3

    @property
    def size(self) -> int:
        return self.m

    @property
    def reach(self) -> float:
        return max(1.0, self.longest, *map(abs, (*self.y, *self.offset)))

    @property
    def folds(self) -> bool:
        return False

    def project(self, rows: FloatArray) -> FloatArray:
        rows = np.clip(np.nan_to_num(rows, posinf=LARGEST, neginf=-LARGEST), -LARGEST, LARGEST)
        weight, x, y, offset = rows[:, 0], rows[:, 1:-2], rows[:, -2], rows[:, -1]
        length = np.sqrt(squared_length(x))
        x = x * np.where(length > self.longest, self.longest * MARGIN / np.maximum(length, 1e-300), 1.0)[:, None]
        squared = squared_length(x)
        size = {"l1": _absolute_sum, "l2": lambda _: np.sqrt(squared), "linf": _largest_entry}[self.geometry](x)
        y = np.clip(y, *self.y)
        squared = squared * (self.loss.steepest(y) / self.loss.max_curvature)
        most = np.minimum(self.radius / np.maximum(size, 1e-300), self.curvature / np.maximum(squared, 1e-300))
        weight = np.clip(weight, 0.0, np.where(most >= 1, 1.0, most * MARGIN))
        return np.column_stack([weight, x, y, np.clip(offset, *self.offset)])

    def contribution(self, rows: FloatArray) -> FloatArray:
        raise OptionError("losses are minimised, not added up; choose mech='newton' for sums")

    def distance(self, norm: str) -> float:
        return 2 * self.length(norm)

    def length(self, norm: str, exchange: bool = True) -> float:
        return float(known(norm, {f"score {self.geometry}": self.radius * self.loss.max_slope}))


def _absolute_sum(x: FloatArray) -> FloatArray:
    total = np.zeros(len(x))
    for column in x.T:
        total += np.abs(column)
    return total


def _largest_entry(x: FloatArray) -> FloatArray:
    largest = np.zeros(len(x))
    for column in x.T:
        largest = np.maximum(largest, np.abs(column))
    return largest
