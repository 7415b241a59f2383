"""What a noisy histogram of sizes tells: quantiles, moments, and how much may lie beyond a clip."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privstats.older.numerics.law import FloatArray
from privstats.older.privacy.release import Release

CLEAR = 2.5  # standard deviations of its noise by which the weight of a window must exceed zero to be believed
WINDOW = 6  # bins


@dataclass(frozen=True, eq=False)
class Tally:
    """A histogram freed of what may be noise: bins are emptied beyond the last window that stands clear of it.

    Parameters
    ----------
    mass : ndarray, shape (bins,)
        Weight in each bin, not negative, with a positive sum.
    ends : ndarray, shape (bins,)
        Upper ends; what lies beyond the last one counts as lying in the last bin.
    noise : float
        Standard deviation of the noise of a bin.
    """

    mass: FloatArray
    ends: FloatArray
    noise: float

    @classmethod
    def of(cls, release: Release, ends: FloatArray) -> Tally:
        """Read a released histogram."""
        assert release.law is not None
        noise = math.sqrt(float(release.law.variance()[0]))
        bins = np.arange(len(ends))
        windows = [release.value[start : start + WINDOW] for start in bins]
        clear = [window.sum() > CLEAR * noise * math.sqrt(len(window)) for window in windows]
        mass = np.where(bins <= np.max(bins[clear], initial=-1), np.maximum(release.value, 0.0), 0.0)
        if mass.sum() <= 0:
            mass[-1] = 1.0
        return cls(mass, ends, noise)

    @property
    def total(self) -> float:
        """Weight of all bins."""
        return float(self.mass.sum())

    @property
    def middles(self) -> FloatArray:
        """Geometric middle of each bin."""
        lower = np.concatenate([self.ends[:1] / 2, self.ends[:-1]])
        return np.sqrt(lower * self.ends)

    def quantile(self, level: float) -> float:
        """Return the first end below which `level` of the weight lies."""
        below = np.cumsum(self.mass) >= level * self.total
        return float(self.ends[np.argmax(below)])

    def below(self, clip: float) -> float:
        """Return the share of the weight at sizes up to `clip`, one of the ends."""
        return float(self.mass[self.ends <= clip].sum()) / self.total

    def beyond(self, size: float) -> float:
        """Return the share of the weight in bins whose middles lie beyond `size`."""
        return float(self.mass[self.middles > size].sum()) / self.total

    def clipped_square(self, clip: float) -> float:
        """Return the mean of ``min(size, clip)^2``."""
        return float(self.mass @ self.squares(clip)) / self.total

    def squares(self, clip: float) -> FloatArray:
        """Return ``min(size, clip)^2`` of each bin."""
        return np.where(self.ends <= clip, self.middles, clip) ** 2

    def excess(self, clip: float) -> float:
        """Return the mean of ``max(size - clip, 0)``."""
        return float(self.mass @ np.where(self.ends <= clip, 0.0, self.middles - clip)) / self.total

    def hidden(self, clip: float) -> float:
        """Return what could be missing from `excess`: as many rows as a window's noise, in the second emptied bin."""
        last = max(int(np.nonzero(self.mass)[0].max()), int(np.searchsorted(self.ends, clip)))
        emptied = self.middles[last + 1 : last + 1 + WINDOW]
        if not len(emptied):
            return 0.0
        rows = self.noise * math.sqrt(len(emptied))
        return rows * float(emptied[:2].max() - clip) / self.total
