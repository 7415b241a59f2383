"""The ends of intervals of quantiles: how many ranks away they are wanted, and by which error they are drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from privstats.numerics.box_ranks import box_quantile, box_rate, box_targets, draw_box
from privstats.numerics.bridge import bridge_quantile, cell_rate, interval_targets, privacy_margins, rooms
from privstats.numerics.joint_ranks import draw_joint
from privstats.numerics.law import Chance, FloatArray


@dataclass(frozen=True)
class Ends:
    """The joint draw of quantiles and the ends of their intervals at a price, all of it public.

    A single quantile and its ends are drawn by the largest error of their ranks (`box_ranks`): one row moves that by
    little more than ``max(level, 1 - level)`` where it appears or vanishes, and by 1 where it is replaced. Several are
    drawn by the sum of the cells' errors, which a row moves by 2 (`bridge`, `joint_ranks`). For a single one the margin
    of that would be shorter under "replace"; but ends that err along with each other for nothing fall into gaps
    together.

    Parameters
    ----------
    eps : float
        Price of the draw.
    rows : int
        Rows that one unit may have.
    levels : tuple of float
        Orders of the quantiles, ascending, in (0, 1).
    kind : {"replace", "add_remove"}
    confidence : float
        Of the intervals.
    alone : bool
        Whether the ends are drawn without the quantiles.
    """

    eps: float
    rows: int
    levels: tuple[float, ...]
    kind: str
    confidence: float
    alone: bool

    @property
    def box(self) -> bool:
        """Whether the largest error of a rank decides, and not that of all cells."""
        return len(self.levels) == 1

    @property
    def rate(self) -> float:
        """What the log density loses for each rank, or value of a cell."""
        if self.box:
            return box_rate(self.eps, self.rows, self.levels[0], self.kind, self.confidence, self.alone)
        return cell_rate(self.eps, self.rows)

    @property
    def fall(self) -> float:
        """What it loses for each rank that one end alone is further away."""
        return self.rate if self.box else 2 * self.rate

    @property
    def margins(self) -> FloatArray:
        """How far noise moves the ranks of the ends, shape (levels, 2)."""
        if self.box:
            return np.full((1, 2), box_quantile(2 if self.alone else 3, self.confidence) / self.rate)
        return privacy_margins(self.rate, len(self.levels), self.alone, self.confidence)

    def reaches(self, n: float) -> FloatArray:
        """Return how many ranks from each quantile the ends are wanted among n values, shape (levels, 2)."""
        z, orders = float(special.ndtri((1 + self.confidence) / 2)), np.array(self.levels)[:, None]
        h: FloatArray = np.sqrt(z**2 * orders * (1 - orders) * n + self.margins**2)
        return h

    def hopeless(self, n: float, clear: float) -> FloatArray:
        """Return which intervals cannot hold, shape (levels,), of bool.

        Their ends would lie beyond all values or half the way to the next quantile; or so near the outermost that the
        log density falls by less than `clear` up to there: they may escape into the empty range beyond.
        """
        h, orders = self.reaches(n), np.array(self.levels)
        fallen = self.fall * (n * np.minimum(orders, 1 - orders) - h.max(axis=1))
        return np.asarray((h > rooms(n, self.levels)).any(axis=1) | (fallen < clear))

    def stretch(self, alpha: float) -> float:
        """Return the noise of an end's rank at level 1 - alpha in units of that at `confidence`."""
        boundaries = 2 if self.alone else 3
        if self.box:
            return box_quantile(boundaries, 1 - alpha) / box_quantile(boundaries, self.confidence)
        here, there = bridge_quantile(
            1 - np.array([alpha, 1 - self.confidence]) / 2, 1.0, 1, boundaries * len(self.levels)
        )
        return float(here / there)

    def draw(self, values: FloatArray, low: float, high: float, step: float, chance: Chance) -> FloatArray:
        """Draw the boundaries, ascending: for each level its lower end, itself unless `alone`, its upper end."""
        n = len(values)
        if self.box:
            targets = box_targets(n, self.levels[0], self.confidence, float(self.margins[0, 0]), self.alone)
            return draw_box(values, targets, self.rate, low, high, step, chance)
        targets = interval_targets(n, self.levels, self.confidence, self.rate, self.alone)
        return draw_joint(values, targets, np.full(len(targets) + 1, self.rate), low, high, step, chance)
