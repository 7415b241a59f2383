"""Test whether the response has few distinct values near a fitted quantile, with a released histogram of responses.

If responses have few distinct values (years of schooling, heaped ages, numbers of visits), the sum of the scores of the
check loss is far from linear in the coefficients: the sum jumps where a fitted quantile passes one of these values, and
is constant otherwise. Neither a kernel estimate of the density nor the released scores reveal this. Fitted quantiles
then tend to equal one of the values, and their errors are not normal.
"""

from __future__ import annotations

import numpy as np

from privstats.estimators.constants import EQUAL_BINS, FEW_VALUES, VISIBLE
from privstats.numerics.law import FloatArray

SPAN = 2.0  # half-range of the histogram, in standard deviations of the linear predictor
MOST_BINS = 64  # largest number of bins; each bin is split into two half bins
CHANCE = 3.0  # sd of a sum of squared differences with variances v_i, divided by sqrt(sum of v_i^2), for Laplace noise


def bins_near(mean: float, sd: float, kernel: float, narrow: float) -> tuple[float, float, int]:
    """Return the lower end of a histogram of responses, the width of a half bin, and the number of half bins.

    Each bin of the histogram consists of two half bins.

    Parameters
    ----------
    mean, sd : float
        Mean and standard deviation of the linear predictor, from earlier releases; the mean is the histogram's centre.
    kernel, narrow : float
        Half-widths of two kernels around the fitted quantile. The kernel of half-width `kernel` gives the weights of
        rows in the Hessian; the kernel of half-width `narrow` estimates the density of the response. The width of a bin
        is a constant, `EQUAL_BINS`, times `narrow`.
    """
    width = EQUAL_BINS * narrow / 2
    halves = 2 * int(np.ceil(min(MOST_BINS, max(SPAN * sd, 2 * kernel) / width)))
    return mean - halves * width / 2, width, halves


def has_few_values(counts: FloatArray, sd: float) -> bool:
    """Return whether the responses near a fitted quantile have few distinct values, from a released histogram.

    Each bin of the histogram is divided into two half bins. The result is True if counts vary strongly (`uneven`) both
    from half bin to half bin and from bin to bin, as they do if there are few distinct values. With a narrow peak of
    the density, the counts of half bins do not vary strongly, because the peak fills several half bins. With values on
    a fine grid, the counts of bins do not vary strongly, as each bin has about the same number of grid points.

    Parameters
    ----------
    counts : ndarray, shape (2 bins,)
        Released counts of the half bins.
    sd : float
        Standard deviation of the noise of each count.
    """
    return uneven(counts, sd) and uneven(counts.reshape(-1, 2).sum(axis=1), 2**0.5 * sd)


def uneven(counts: FloatArray, sd: float) -> bool:
    """Return whether the counts of a histogram vary more from bin to bin than the counts of a smooth density would.

    The squared differences between each count and the mean of its two neighbours are added up. Two terms are then
    subtracted: the sum expected for a smooth density, for which the differences are due only to sampling and to noise
    of standard deviation `sd`, and a margin for random error. The result is True if the remainder exceeds
    ``FEW_VALUES * S``, where S is the sum of the squared counts minus the part expected from noise.
    """
    chance = 1.5 * (np.maximum(counts[1:-1], 0.0) + sd**2)  # variance of each difference, if the density is smooth
    differences = counts[1:-1] - (counts[:-2] + counts[2:]) / 2
    noise = VISIBLE * CHANCE * float(np.sqrt((chance**2).sum()))
    excess = float((differences**2).sum() - chance.sum()) - noise
    squares = float((counts**2).sum()) - len(counts) * sd**2
    return squares > 0 and excess > FEW_VALUES * squares
