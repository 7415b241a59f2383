"""Test, from a released histogram, of whether a response has few distinct values near a fitted quantile.

The score of the check loss jumps at values that many responses share, and is constant between these values. If the
linear predictor is spread over few such values (years of schooling, heaped ages, visits), the score is far from linear
in the coefficients, which neither the density's kernel nor the scores show. The minimiser sticks to these values, and
its errors are not normal.
"""

from __future__ import annotations

import numpy as np

from privstats.estimators.constants import EQUAL_BINS, FEW_VALUES, VISIBLE
from privstats.numerics.law import FloatArray

SPAN = 2.0  # half-range of the histogram, in standard deviations of the linear predictor
MOST_BINS = 64  # largest number of bins; each bin has two halves
CHANCE = 3.0  # sd of a sum of squared Laplace differences, over the root of the sum of the squared variances


def bins_near(mean: float, sd: float, kernel: float, narrow: float) -> tuple[float, float, int]:
    """Return the lower end of a histogram of responses, the width of a half bin, and the number of half bins.

    Parameters
    ----------
    mean, sd : float
        Mean and standard deviation of the linear predictor, from earlier releases.
    kernel, narrow : float
        Half-widths of the Hessian's kernel and of the kernel for the density's level; bins are a part of the latter.
    """
    width = EQUAL_BINS * narrow / 2
    halves = 2 * int(np.ceil(min(MOST_BINS, max(SPAN * sd, 2 * kernel) / width)))
    return mean - halves * width / 2, width, halves


def has_few_values(counts: FloatArray, sd: float) -> bool:
    """Return whether the responses near a fitted quantile have few distinct values, from a released histogram.

    The counts of few distinct values vary from bin to bin, for half bins and for whole bins. A narrow peak of a density
    fills several half bins, and values on a fine grid vary little between whole bins.

    Parameters
    ----------
    counts : ndarray, shape (2 bins,)
        Released counts of the half bins.
    sd : float
        Standard deviation of the noise of each count.
    """
    return uneven(counts, sd) and uneven(counts.reshape(-1, 2).sum(axis=1), 2**0.5 * sd)


def uneven(counts: FloatArray, sd: float) -> bool:
    """Return whether counts differ from the mean of their two neighbours by more than the counts of a density do.

    The sum of squared differences is compared with the sum of squared counts. Its expectation for a density, where
    differences are due to sampling and to noise of the standard deviation `sd`, is subtracted.
    """
    chance = 1.5 * (np.maximum(counts[1:-1], 0.0) + sd**2)  # variance of a difference for a density
    differences = counts[1:-1] - (counts[:-2] + counts[2:]) / 2
    noise = VISIBLE * CHANCE * float(np.sqrt((chance**2).sum()))
    excess = float((differences**2).sum() - chance.sum()) - noise
    squares = float((counts**2).sum()) - len(counts) * sd**2
    return squares > 0 and excess > FEW_VALUES * squares
