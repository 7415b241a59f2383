"""Base classes of privacy mechanisms; a mechanism is a sampler together with a privacy theorem.

Each query comes with a privacy guarantee, and the release of its answer satisfies this guarantee. A new additive
mechanism needs one method, `Additive.noise`, which returns the noise law for a guarantee and a sensitivity.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from privstats.errors import OptionError
from privstats.numerics.exact import Total, add_noise
from privstats.numerics.law import FloatArray, Law, Rng
from privstats.privacy.promise import Promise, Relation
from privstats.privacy.release import Release

DRAWN_BITS = 30  # draws made from 53-bit uniform numbers are rounded to a grid of about 2^DRAWN_BITS points

Pairs = tuple[NDArray[np.intp], NDArray[np.intp]]


class ProvedBound(Protocol):
    """A proved sensitivity bound: ``|weights * (T - T')| <= size`` for totals T, T' of neighbouring data sets.

    Each bound is for one norm, for example the norm that a mechanism names in `Additive.norm`.

    Attributes
    ----------
    size : float
        The bound, positive.
    weights : ndarray, shape (dim,)
        Positive weights of the coordinates; a coordinate with a larger weight gets less noise.
    pairs : tuple of two integer arrays, shape (dim,), or None
        Row indices i and column indices j, i <= j, of the coordinates, if the coordinates are entries of a symmetric
        matrix.
    """

    @property
    def size(self) -> float: ...
    @property
    def weights(self) -> FloatArray: ...
    @property
    def pairs(self) -> Pairs | None: ...


class SealedValues(Protocol):
    """The values of all rows, in a container that only mechanisms can open.

    The gate, the only code that reads rows, makes the container and passes it to a mechanism.
    """

    def scan(self, take: Callable[[FloatArray], Any] = ...) -> Iterator[Any]:
        """Split the values into arrays of rows, shape (m, dim) each, and yield the result of `take` for each array.

        Each scan may be a new pass over the data. Another process may call the function `take`. So `take` must be an
        object that can be pickled, such as a frozen dataclass with a method `__call__`, and the result of `take` should
        be smaller than the array.
        """

    def all(self) -> FloatArray:
        """Return all values as one array in memory, shape (n, dim)."""

    def cell(self, k: int) -> SealedValues:
        """Return the values of the rows in group k, without the group number, in another sealed container.

        The first coordinate of each value must be the group number, as in a query by group.
        """


@dataclass(frozen=True)
class Mechanism(ABC):
    """A privacy mechanism: a rule that answers a query with noise; the fields of a subclass are its options.

    Attributes
    ----------
    label : str
        Short name, used in plans of queries and in their digests (hashes).
    needs_delta : bool
        Whether the mechanism cannot satisfy pure eps-DP, but only (eps, delta)-DP.
    normal : bool
        Whether the noise is normal, so that the guarantee is stated in mu (Gaussian DP), and never in pure eps.
    gathers : int
        Bytes of memory per row that the mechanism needs in addition to two copies of all rows' values: the maximum
        measured by `benchmarks.gathered`, or 0 if the mechanism does not need the values of all rows in one process.
    """

    label: ClassVar[str]
    needs_delta: ClassVar[bool] = False
    normal: ClassVar[bool] = False
    gathers: ClassVar[int] = 0

    def law(self, promise: Promise, within: Any, relation: Relation) -> Law | None:
        """Return the public law of the noise; None if the law depends on the rows.

        Parameters
        ----------
        promise : Promise
            Guarantee that the release has to satisfy.
        within : Set
            Public set of the possible contributions of a row to the answer.
        relation : Relation
            Neighbouring relation: the number of rows in which neighbouring data sets differ, and the kind of
            difference.
        """
        return None

    @abstractmethod
    def release(self, name: str, exact: Any, promise: Promise, within: Any, relation: Relation, rng: Rng) -> Release:
        """Return the released value and its noise law; the release satisfies the guarantee `promise`.

        Parameters
        ----------
        name : str
            Label of the query.
        exact : Total or RowValues
            The exact total, if the query asks for a total, and otherwise the values of all rows. Only the gate (the
            code that reads rows) can compute totals and values, and only mechanisms receive totals and values.
        promise, within, relation
            Guarantee, set of possible contributions, and neighbouring relation, as in `law`.
        rng : Rng
            Source of randomness.
        """


@dataclass(frozen=True, eq=False)
class ScaledLaw(ABC):
    """Law of noise with a public scale: the noise is `scale`, shape (dim,), times a draw of a standard law.

    The coordinates are uncorrelated, unless a subclass has its own method `covariance`.
    """

    scale: FloatArray

    @abstractmethod
    def standard(self, rng: Rng, shape: tuple[int, int]) -> FloatArray:
        """Return independent draws of the standard law (scale 1), as an array of shape ``shape = (size, dim)``."""

    @abstractmethod
    def standard_variance(self, dim: int) -> float | FloatArray:
        """Return the variance of each of the `dim` coordinates of the noise at scale 1.

        The result is one number if all coordinates have the same variance, and otherwise an array, shape (dim,).
        """

    def sample(self, rng: Rng, size: int) -> FloatArray:
        """Return `size` independent draws of the noise, shape (size, dim)."""
        return self.scale * self.standard(rng, (size, len(self.scale)))

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate of the noise, shape (dim,)."""
        return self.scale**2 * self.standard_variance(len(self.scale))

    def covariance(self, onto: FloatArray) -> FloatArray:
        """Return the covariance matrix, shape (q, q), of ``onto @ v``, for a (q, dim) matrix `onto` and noise v."""
        return (onto * self.variance()) @ onto.T


@dataclass(frozen=True)
class Additive(Mechanism):
    """Base class of mechanisms that add noise of a known law (distribution) to an exact total (sum over the rows).

    The noise is scaled to the sensitivity of the total. Statistical inference uses the law from which the noise was
    drawn.

    Attributes
    ----------
    norm : str
        Name of the norm in which the sensitivity of the total is measured.
    """

    norm: ClassVar[str]

    @abstractmethod
    def noise(self, promise: Promise, sensitivity: ProvedBound) -> ScaledLaw:
        """Return the law of the noise with which the release of a total satisfies the guarantee `promise`.

        `sensitivity` is a proved bound on the sensitivity of the total, in the norm `norm`.
        """

    def law(self, promise: Promise, within: Any, relation: Relation) -> ScaledLaw:
        with np.errstate(over="ignore"):
            law = self.noise(promise, within.sensitivity(self.norm, relation))
        if not (np.isfinite(law.scale).all() and (law.scale > 0).all()):  # every coordinate must have noise
            raise OptionError("the noise of a question is not a positive number; the budget is too small or too large")
        return law

    def release(self, name: str, exact: Any, promise: Promise, within: Any, relation: Relation, rng: Rng) -> Release:
        assert isinstance(exact, Total)
        law = self.law(promise, within, relation)
        return Release(name, add_noise(exact, law.sample(rng, 1)[0], law.scale), law, promise, within)


@dataclass(frozen=True)
class KNorm(Additive):
    """K-norm mechanism: noise v with density proportional to ``exp(-eps |weights * v|_K / size)``.

    ``|.|_K`` is the norm with unit ball K; `size` and `weights` are the sensitivity bound and the weights of the
    coordinates (`ProvedBound`). Privacy: eps-DP. The weighted totals of two neighbours differ by at most `size` in this
    norm. So, by the triangle inequality, the log densities of their releases differ by at most eps (Hardt and Talwar
    2010, Theorem 3.2; Awan and Slavkovic 2021, Proposition 2.3).
    """

    unit_law: ClassVar[type[ScaledLaw]]

    def noise(self, promise: Promise, sensitivity: ProvedBound) -> ScaledLaw:
        return self.unit_law(sensitivity.size / promise.as_pure().eps / sensitivity.weights)


def on_grid(values: FloatArray, size: float, bits: int = 44) -> FloatArray:
    """Return values rounded to multiples of a public step: the largest power of two that is at most ``size * 2^-bits``.

    The numbers `size` and `bits` are public. After rounding, the low-order bits of the floats carry no information
    about the rows.
    """
    step = math.ldexp(1.0, math.frexp(size)[1] - 1 - bits)
    return np.rint(values / step) * step


def drawn_on_grid(values: FloatArray, size: float) -> FloatArray:
    """Return `values`, random draws from a density that depends on the rows, rounded to a grid with a public step.

    The step is 2^-30 to 2^-29 times the public number `size`, such as the radius of the parameter set. Before rounding,
    the draws are 53-bit uniform numbers, scaled to a box of parameter values. The box depends on the rows, and so does
    the set of floats that can occur. If no side of the box is longer than four times `size`, at least 2^20 of these
    floats along a side are rounded to each grid point. So the probability of a grid point does not reveal which floats
    could occur.
    """
    return on_grid(values, size, DRAWN_BITS - 1)


def check_grid(low: float, high: float, step: float) -> None:
    """Raise an error if the grid step `step` is too fine for mechanisms that draw the points of a grid as floats.

    Raises
    ------
    OptionError
        If the step is below 2^-30 of the range from `low` to `high`.
    """
    least = math.ldexp(high - low, -DRAWN_BITS)
    if step < least:
        enough = 10.0 ** math.ceil(math.log10(least))
        raise OptionError(
            f"grid is {step:g}, too fine for this mech= on values from {low:g} to {high:g}; write grid={enough:g} or "
            "more, or leave grid out"
        )
