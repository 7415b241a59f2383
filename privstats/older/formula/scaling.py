"""Affine maps of columns into [-1, 1]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privstats.older.formula.interval import Interval
from privstats.older.numerics.law import FloatArray


@dataclass(frozen=True)
class Scaling:
    """Columns shifted by `middle`, then divided by `half`."""

    middle: FloatArray
    half: FloatArray

    @classmethod
    def of(cls, intervals: list[Interval], shift: bool, alone: tuple[int, ...] = ()) -> Scaling:
        """Return the scaling of each interval into [-1, 1]; about its middle when `shift`, else about 0.

        Columns `alone` are left as they are.
        """
        middle = [interval.middle if shift else 0.0 for interval in intervals]
        half = [interval.half if shift else interval.magnitude for interval in intervals]
        scaling = cls(np.array(middle, dtype=float), np.array(half, dtype=float))
        scaling.middle[list(alone)], scaling.half[list(alone)] = 0.0, 1.0
        return scaling

    def usual(self, intervals: list[Interval]) -> Scaling:
        """Return centre and standard deviation of uniform numbers in each interval, after this scaling."""
        middle = np.array([interval.middle for interval in intervals], dtype=float)
        half = np.array([interval.half for interval in intervals], dtype=float)
        return Scaling((middle - self.middle) / self.half, half / self.half / np.sqrt(3.0))

    def apply(self, values: FloatArray) -> FloatArray:
        """Return the scaled columns, held inside [-1, 1]."""
        return np.clip((values - self.middle) / self.half, -1.0, 1.0)
