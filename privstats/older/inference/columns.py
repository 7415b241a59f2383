"""Sampling error of means and shares whose variances are read off noisy releases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privstats.older.inference.answer import Meat
from privstats.older.numerics.law import Chance, FloatArray


@dataclass(frozen=True, eq=False)
class ColumnVariance(Meat):
    """Variances of columns in groups, from released sums of scaled values and squares.

    Groups are independent; how columns vary together was not released, so contrasts of columns allow for anything.

    Parameters
    ----------
    counts : ndarray, shape (groups,)
        Rows of each group, as released.
    first, second : ndarray, shape (groups, columns)
        Released sums of u and u^2, with |u| <= 1.
    half : ndarray, shape (columns,)
        What u is multiplied by.
    counted : bool
        Whether `counts` has no noise.
    """

    counts: FloatArray
    first: FloatArray
    second: FloatArray
    half: FloatArray
    counted: bool

    freedom = math.inf  # each group has its own, which `compatible` knows

    def covariance(self) -> FloatArray:
        return np.diag(self._meat(self.counts[:, None], self.first, self.second).T.ravel())

    def unknown(self) -> NDArray[np.bool_]:
        groups, k = self.first.shape
        group = np.tile(np.arange(groups), k)
        return np.equal.outer(group, group) & ~np.eye(groups * k, dtype=bool)

    def compatible(self, heard: Sequence[FloatArray], onto: FloatArray, chance: Chance) -> FloatArray:
        groups, k = self.first.shape
        weights = np.abs(onto).reshape(len(onto), k, groups)
        total = np.zeros((len(heard[0]), len(onto)))
        for g, draws in enumerate(heard):
            count = self.counts[g] if self.counted else np.maximum(self.counts[g] - draws[:, :1], self.counts[g] / 2)
            start = int(not self.counted)
            first = self.first[g] - draws[:, start : start + k]
            second = self.second[g] - draws[:, start + k :]
            freedom = max(1.0, float(self.counts[g]) - 1)
            chi2 = 2 * chance.standard_gamma(freedom / 2, (len(heard[0]), 1))
            deviation = np.sqrt(self._meat(count, first, second) * self.counts[g] / count * freedom / chi2)
            total += (deviation @ weights[:, :, g].T) ** 2
        return total

    def _meat(self, count: FloatArray | float, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return the variance of ``sum (x - mean)`` in the user's units: n / (n - 1) times that of the values."""
        mean = np.clip(first / count, -1.0, 1.0)
        variance = np.clip(second / count - mean**2, 0.0, 1.0) * count / np.maximum(count - 1, 1.0)
        return self.half**2 * variance * count


@dataclass(frozen=True, eq=False)
class Multinomial(Meat):
    """Variances of counts of bins, group by group, from the released counts; counts of one group add to its total.

    Parameters
    ----------
    counts : ndarray, shape (groups, bins)
        As released; all zero where the counts themselves are what is estimated, which have no sampling error.
    total : ndarray, shape (groups, 1)
        Rows of each group.
    """

    counts: FloatArray
    total: FloatArray

    freedom = 1e6  # given the shares the variances are known

    def covariance(self) -> FloatArray:
        groups, bins = self.counts.shape
        whole = np.zeros((groups * bins, groups * bins))
        for g in range(groups):
            share = np.clip(self.counts[g] / self.total[g], 0.0, 1.0)
            part = slice(g * bins, (g + 1) * bins)
            whole[part, part] = self.total[g] * (np.diag(share) - np.outer(share, share))
        return whole

    def compatible(self, heard: Sequence[FloatArray], onto: FloatArray, chance: Chance) -> FloatArray:
        bins = self.counts.shape[1]
        total = np.zeros((len(heard[0]), len(onto)))
        for g, draws in enumerate(heard):
            counts = self.counts[g] - draws if self.counts.any() else np.zeros_like(draws)
            share = np.clip(counts / self.total[g], 0.0, 1.0)
            weights = onto[:, g * bins : (g + 1) * bins]
            total += self.total[g] * np.maximum(share @ (weights**2).T - (share @ weights.T) ** 2, 0.0)
        return total
