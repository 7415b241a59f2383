"""Simulation of noise that is not normal, from its known distribution, for quantiles of linear functions of the noise.

The random stream is public and fixed, so that an interval is the same at each call. The noise that is added to releases
never comes from this stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import gammainccinv, gammaincinv, ndtr, ndtri

from privstats.inference.noise import Loading
from privstats.numerics.law import FloatArray

DRAWS = 9_999  # number of draws; a .95 quantile then has a relative error of 1%, and the smallest p-value is 1e-4
FEWEST = 999  # smallest number of draws, for noise with very many coordinates
WORK = 2.0**24  # limit of (number of draws) x (computing time `_work` of a draw); at least `FEWEST` draws are made
KNOTS = 1801  # number of normal quantiles at which gamma quantiles are tabulated
BLOCK = 2**21  # number of simulated coordinates in memory at a time
KEPT, KEPT_COORDINATES = 8, 2**19  # largest number of cached distributions, and of cached numbers per distribution
SINGLE = 32  # the SINGLE - 1 largest absolute values of draws are kept as single values, not grouped
GROWTH = 1.12  # approximate ratio of the ranks at which two successive groups of sorted draws end


class PublicStream:
    """A fixed stream of pseudo-random numbers, by SplitMix64 (Steele et al. 2014), with methods of a numpy generator.

    Parameters
    ----------
    key : int
        Number of the stream; streams with different numbers are unrelated.
    """

    def __init__(self, key: int) -> None:
        self._next = np.uint64((key * 0xD1342543DE82EF95 + 1) % 2**64)

    def _uniform(self, size: Any) -> FloatArray:
        """Return an array of shape `size` with uniform numbers in (0, 1), computed by hashing a counter."""
        count = np.uint64(np.prod(size, dtype=np.int64))
        with np.errstate(over="ignore"):
            z = (self._next + np.arange(count, dtype=np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            self._next = self._next + count
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
        return (((z >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53).reshape(size)

    def standard_normal(self, size: Any) -> FloatArray:
        """Return an array of shape `size` with independent standard normal numbers."""
        return np.asarray(ndtri(self._uniform(size)), dtype=float)

    def standard_gamma(self, shape: Any, size: Any) -> FloatArray:
        """Return an array of shape `size` with gamma distributed numbers of shape parameter `shape` and scale 1."""
        return np.asarray(_gamma_quantiles(shape, self.standard_normal(size)), dtype=float)

    def uniform(self, low: Any, high: Any, size: Any) -> FloatArray:
        """Return an array of shape `size` with uniform numbers in (low, high)."""
        return low + (high - low) * self._uniform(size)

    def integers(self, low: Any, high: Any, size: Any) -> Any:
        """Return an array of shape `size` with uniform whole numbers from `low` to `high` - 1."""
        return low + np.floor((high - low) * self._uniform(size)).astype(np.int64)


def _gamma_quantiles(shape: Any, z: FloatArray) -> FloatArray:
    """Return the quantiles of a gamma distribution at the probabilities Phi(z), for standard normal quantiles z.

    For a single shape parameter and at least `KNOTS` values of z, the quantiles are interpolated in a table of their
    cube roots, which are nearly linear in z (Wilson and Hilferty 1931).
    """
    if np.ndim(shape) or z.size < KNOTS:
        return np.asarray(np.where(z < 0, gammaincinv(shape, ndtr(z)), gammainccinv(shape, ndtr(-z))), dtype=float)
    knots = np.linspace(-9.0, 9.0, KNOTS)
    roots = np.cbrt(np.where(knots < 0, gammaincinv(shape, ndtr(knots)), gammainccinv(shape, ndtr(-knots))))
    return np.asarray(np.interp(z, knots, roots) ** 3, dtype=float)


@lru_cache(maxsize=1)  # cache of the draws for the coefficients of one fit, for intervals and tail bounds
def noise_draws(noises: tuple[Loading, ...]) -> FloatArray:
    """Return draws of the sum of independent noise vectors, one row per draw."""
    size = int(np.clip(WORK / sum(map(_work, noises)), FEWEST, DRAWS))
    total = np.zeros((size, noises[0].matrix.shape[0]))
    for key, noise in enumerate(noises, start=1):
        used = noise.matrix.any(axis=1)  # mask of the coordinates with this noise; all others are skipped
        some, start = replace(noise, matrix=noise.matrix[used]), 0
        for draws in _draws(key, noise, size):
            total[start : start + len(draws), used] += some.of(draws)
            start += len(draws)
    total.flags.writeable = False
    return total


def remembered(noise: Loading) -> bool:
    """Return whether draws of the random vector from which a noise vector is computed can be cached for later fits.

    Draws can be kept if the distribution of the vector is a standard distribution times a scale, and if `DRAWS` draws
    of the vector contain at most `KEPT_COORDINATES` numbers.
    """
    return hasattr(_scaled(noise.law), "standard") and DRAWS * noise.coordinates <= KEPT_COORDINATES


def _scaled(law: Any) -> Any:
    """Return the distribution of the noise that a mechanism draws, given the attribute `law` of a release.

    For objective perturbation, the distribution is ``law.noise``, the distribution of the random linear term in the
    loss. For all other mechanisms, the distribution is `law` itself.
    """
    return getattr(law, "noise", law)


def _work(noise: Loading) -> float:
    """Return the computing time of one draw of a noise vector; the unit is the time for one independent coordinate.

    The dependent coordinates of a noise matrix take more time than independent ones: k coordinates take k^1.5 units.
    """
    k = max(1, noise.coordinates)
    return float(k if getattr(noise.law, "pairs", None) is None else k**1.5)


def _draws(key: int, noise: Loading, draws: int) -> Iterator[FloatArray]:
    """Yield blocks of independent draws, shape (block, k), of the random vector from which a noise vector is computed.

    The vector has k = ``noise.coordinates`` coordinates, and the blocks together have `draws` rows. The random numbers
    come from ``PublicStream(key)``.
    """
    stream, k = PublicStream(key), noise.coordinates
    law = _scaled(noise.law)
    if remembered(noise):
        yield law.scale * _unit_draws(_Unit(key, draws, _unit_of(law), law))
        return
    most = max(64, BLOCK // max(1, k))
    for start in range(0, draws, most):
        size = min(most, draws - start)
        one = stream.standard_normal((size, k)) if law is None else law.sample(stream, size)
        yield np.asarray(one, dtype=float)


@dataclass(frozen=True)
class _Unit:
    """Cache key of simulated draws: stream number, number of draws, and the noise distribution without its scale."""

    key: int
    draws: int
    unit: tuple[Any, ...]
    law: Any = field(compare=False)


def _unit_of(law: Any) -> tuple[Any, ...]:
    """Return a cache key of the noise distribution `law`; distributions that differ only in scale have equal keys."""
    rest = (getattr(law, f.name) for f in fields(law) if f.name != "scale")
    return (type(law), len(law.scale), *(np.asarray(value).tobytes() for value in rest))


@lru_cache(maxsize=KEPT)
def _unit_draws(of: _Unit) -> FloatArray:
    """Return draws of a noise distribution with scale one, shape (draws, k); the draws are the same in every fit."""
    draws: FloatArray = of.law.standard(PublicStream(of.key), (of.draws, len(of.law.scale)))
    draws.flags.writeable = False
    return draws


def grouped(draws: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return discrete distributions, symmetric about 0, that approximate the distributions of the draws.

    The absolute values of each coordinate's draws are sorted and divided into groups of successive values, and each
    group is replaced by its root mean square. The `SINGLE` - 1 largest values are not grouped. All values are then
    rescaled, so that the variances are exact.

    Parameters
    ----------
    draws : ndarray, shape (D, q)
        D draws of q coordinates.
    variance : ndarray, shape (q,)
        Known variances of the coordinates.

    Returns
    -------
    sizes : ndarray, shape (w, q)
        The w possible absolute values of each coordinate; both signs are equally probable.
    weights : ndarray, shape (w,)
        Probabilities of the absolute values.
    """
    D = len(draws)
    ends = [*range(SINGLE), D]
    while ends[-2] < D / GROWTH - 1:
        ends.insert(-1, int(np.ceil(ends[-2] * GROWTH)))
    starts = np.array(ends[:-1])
    count = np.diff(ends)
    squares = -np.sort(-(np.ascontiguousarray(draws.T) ** 2)).T  # in contiguous memory, sorting is twice as fast
    mean = np.add.reduceat(squares, starts, axis=0) / count[:, None]
    scale = variance / np.maximum((count / D) @ mean, 1e-300)
    return np.sqrt(mean * scale), count / D
