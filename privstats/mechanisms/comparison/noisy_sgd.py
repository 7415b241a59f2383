"""NoisySGD: noisy gradient steps on random subsamples of the rows, and release of the last coefficients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from privstats.errors import OptionError, quote
from privstats.losses.base import Loss
from privstats.mechanisms.additive.gaussian import NormalLaw
from privstats.mechanisms.base import Mechanism
from privstats.mechanisms.comparison.smooth import with_delta
from privstats.numerics.exact import MOST_ROWS, SUM_BITS, Total, add_noise, step_of, summed, toward_zero
from privstats.numerics.law import FloatArray, IntArray, Rng
from privstats.privacy.promise import Promise, Relation, is_number
from privstats.privacy.release import Release
from privstats.privacy.subsampling import noise_multiplier

LARGEST_ENTRY = 1e150  # entries of gradients are clipped to this absolute value, so that their squares are finite
MARGIN = 1 - 1e-12  # factor by which clipped vectors are scaled down further, to cover rounding errors of norms


class RowGradient(Protocol):
    """Interface of a function that computes the gradient of a row's loss with respect to the coefficients theta.

    A row's gradient is a function of this row, theta and public parameters, which are fixed in the plan of queries,
    before any release is made. So a released number can enter a gradient only as an entry of the row, such as the
    offset. Errors in gradients do not affect privacy, since gradients are clipped to a norm.
    """

    def size(self, dim: int) -> int:
        """Return the number of coefficients (entries of theta) for rows with `dim` entries."""

    def __call__(self, rows: FloatArray, theta: FloatArray) -> FloatArray:
        """Return the gradient at theta of each of k rows, as an array of shape (k, len(theta))."""


@dataclass(frozen=True)
class LinearGradient:
    """The gradient ``-w psi(x'theta + o; y) x`` of the loss of a row (weight w, predictors x, response y, offset o).

    The entries of a row are w, x, y and o, in this order.

    Parameters
    ----------
    loss : Loss
        Loss of the linear predictor; minus its derivative is the function `psi`.

    Examples
    --------
    >>> from privstats.losses.base import HuberLoss
    >>> LinearGradient(HuberLoss(clip=1.0))(np.array([[1.0, 1.0, 2.0, 5.0, 0.0]]), np.zeros(2))
    array([[-1., -2.]])
    """

    loss: Loss

    def size(self, dim: int) -> int:
        return dim - 3

    def __call__(self, rows: FloatArray, theta: FloatArray) -> FloatArray:
        weight, x, y, eta = rows[:, 0], rows[:, 1:-2], rows[:, -2], rows[:, -1].copy()
        # the columns are added in a fixed order, so that a seed gives the same result on all processors
        for column, coefficient in zip(x.T, theta.tolist(), strict=True):
            eta += coefficient * column
        return -(weight * self.loss.psi(eta, y))[:, None] * x


@dataclass(frozen=True)
class NoisySGD(Mechanism):
    """Release the last theta of T steps ``theta -= step_size (sum of clipped gradients + N(0, (2 sigma C)^2 I)) / m``.

    theta is the vector of coefficients; the first theta is 0. Rows are numbered from 1 to n = `rows`. In each of T =
    `steps` steps, m = `batch` numbers are drawn anew without replacement, and the gradients of the losses of the rows
    with these numbers are summed. Gradients are clipped to the norm C = `clip` (Dong, Roth and Su 2022, Algorithm 1,
    with noise for the sensitivity 2 C of replaced rows). sigma is the noise multiplier computed by `noise_multiplier`.

    Privacy: (eps, delta)-DP, where neighbours replace one row and n is public.

    - *One step, with known numbers*: replacing a drawn row changes the sum of the gradients, which lie in a ball of
      radius C, by at most 2 C, at every theta. The number of a missing row is drawn like any other number; such a row
      adds zero, which lies in the ball. So the noisy sum satisfies Gaussian DP with mu = 1 / sigma.
    - *One step, with secret numbers*: the drawn numbers are not released. So the noisy sum has the trade-off function
      that results from Gaussian DP with mu = 1 / sigma by subsampling at the rate q = m / n (Dong et al., Theorem 4.2,
      for neighbours that replace a row and samples of fixed size).
    - *T steps* together have the T-fold product of this trade-off function, since each step may depend on earlier noisy
      sums (Dong et al., Theorem 3.2). sigma is chosen so that the product implies (eps, delta)-DP. The last theta is a
      function of the noisy sums; the other iterates are not released.
    - *Rounding*: gradients are rounded toward zero on a public grid. Their sum and the noise are added as whole
      numbers of grid steps (`add_noise`). So theta is computed from noisy sums on a public grid; its rounding is
      post-processing.

    As every set of m numbers has the same probability, it does not matter which row has which number; the last numbers
    belong to the missing rows. If more than n rows were given, each row would be drawn with a smaller probability than
    the proof assumes, so the guarantee would hold, too.

    No confidence interval is computed, because the variance of the last theta due to the subsamples depends on the
    rows.

    Parameters
    ----------
    gradient : RowGradient
        Function that computes the gradients of the losses of rows at theta.
    rows : int
        The public number n of rows in the data, missing rows included.
    steps, batch : int
        Number T of steps, and number m of rows in a subsample, at most n.
    step_size : float
        Factor by which the noisy sum of gradients, divided by m, is multiplied in a step.
    clip : float
        Largest l2 norm C of a gradient; longer gradients are scaled down to this norm.

    Raises
    ------
    OptionError
        If a number is out of range.

    Examples
    --------
    >>> from privstats.losses.base import HuberLoss
    >>> NoisySGD(LinearGradient(HuberLoss()), rows=1000, steps=200, batch=50, step_size=0.5, clip=2.0).q
    0.05
    """

    label: ClassVar[str] = "sgd"
    gathers: ClassVar[int] = 8
    needs_delta: ClassVar[bool] = True
    gradient: RowGradient
    rows: int
    steps: int
    batch: int
    step_size: float
    clip: float

    def __post_init__(self) -> None:
        for name, example in (("rows", 1000), ("steps", 200), ("batch", 50)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
                raise OptionError(f"{name} is {quote(value)}; give a whole number from 1 on, such as {name}={example}")
        if self.batch > self.rows:
            raise OptionError(f"batch is {self.batch}, more than the {self.rows} rows; give at most batch={self.rows}")
        for name, size in (("step_size", 0.5), ("clip", 2.0)):
            value = getattr(self, name)
            if not is_number(value) or not 1 / LARGEST_ENTRY < value < LARGEST_ENTRY:
                raise OptionError(f"{name} is {quote(value)}; give a positive number, such as {name}={size}")

    @property
    def q(self) -> float:
        """Sampling rate q = m / n: the share of all row numbers that a subsample contains."""
        return self.batch / self.rows

    def sigma(self, promise: Promise) -> float:
        """Return the noise multiplier with which the release satisfies the guarantee `promise`.

        The multiplier is the standard deviation of the noise, divided by 2 `clip`, the sensitivity of the sum of
        gradients.

        Raises
        ------
        BudgetError
            If the guarantee has no delta.
        """
        budget = with_delta(promise)
        return noise_multiplier(budget.eps, budget.delta, self.q, self.steps)

    def release(self, name: str, exact: Any, promise: Promise, within: Any, relation: Relation, rng: Rng) -> Release:
        if not relation.exchange or relation.rows > 1:
            raise OptionError("mech='sgd' needs neighbours that replace one row; leave neighbors= and unit= out")
        *_, theta = self.iterates(exact.all(), self.sigma(promise), rng)
        return Release(name, theta, None, promise, within)

    def iterates(self, rows: FloatArray, sigma: float, rng: Rng) -> Iterator[FloatArray]:
        """Yield the coefficients theta after each of the `steps` noisy gradient steps.

        Only the last theta is released; tests with synthetic rows use every theta.

        Parameters
        ----------
        rows : ndarray, shape (k, dim)
            Rows of the data that are not missing.
        sigma : float
            Noise multiplier: the noise's standard deviation, divided by the sensitivity 2 `clip` of the sum.
        rng : Rng
            Source of randomness.
        """
        theta, places = np.zeros(self.gradient.size(rows.shape[1])), max(self.rows, len(rows))
        noise = NormalLaw(np.full(len(theta), 2 * sigma * self.clip))
        for _ in range(self.steps):
            drawn = subsample(rng, places, self.batch)
            total = self.total(rows[drawn[drawn < len(rows)]], theta)
            theta = theta - self.step_size * (add_noise(total, noise.sample(rng, 1)[0], noise.scale) / self.batch)
            yield theta

    def total(self, rows: FloatArray, theta: FloatArray) -> Total:
        """Return the exact sum of the clipped gradients of the losses of `rows` at theta.

        If a row is replaced, the sum changes by at most 2 `clip` in the l2 norm.
        """
        step = step_of(self.clip, SUM_BITS)
        total = Total.nothing(len(theta), step)
        for start in range(0, len(rows), MOST_ROWS):
            with np.errstate(all="ignore"):
                gradients = self.gradient(rows[start : start + MOST_ROWS], theta)
            total += summed(toward_zero(shortened_to(gradients, self.clip), step), step)
        return total


def shortened_to(vectors: FloatArray, longest: float) -> FloatArray:
    """Return the rows of `vectors`, with rows longer than `longest` in the l2 norm scaled down to this length.

    Before the scaling, NaN entries become zero, and infinite entries become large finite numbers of the same sign.

    Examples
    --------
    >>> shortened_to(np.array([[3.0, 4.0], [0.3, 0.4], [np.nan, np.inf]]), 1.0).round(9)
    array([[0.6, 0.8],
           [0.3, 0.4],
           [0. , 1. ]])
    """
    inside: FloatArray = np.clip(vectors, -LARGEST_ENTRY, LARGEST_ENTRY)
    inside[np.isnan(inside)] = 0.0
    squared = np.zeros(len(inside))
    for column in inside.T:
        squared += column * column
    factor = np.minimum(1.0, MARGIN * longest / np.maximum(np.sqrt(squared), 1e-300))
    return inside * factor[:, None]


def subsample(rng: Rng, n: int, m: int) -> IntArray:
    """Return a random set of m whole numbers from 0 to n - 1; each set of m numbers has the same probability.

    The set consists of the first m distinct numbers in a stream of independent uniform numbers. If m is more than half
    of n, the n - m numbers outside the set are drawn instead.
    """
    if 2 * m > n:
        kept = np.ones(n, dtype=bool)
        kept[subsample(rng, n, n - m)] = False
        return np.flatnonzero(kept)
    drawn = np.zeros(0, dtype=np.int64)
    while True:
        drawn = np.concatenate([drawn, np.asarray(rng.integers(0, n, m), dtype=np.int64)])
        different, first = np.unique(drawn, return_index=True)
        if len(different) >= m:
            return different[np.argsort(first)[:m]]
