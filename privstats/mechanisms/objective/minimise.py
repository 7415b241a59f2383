r"""Minimisers of a sum of row losses, a ridge and a linear term, with a proved bound on their numerical error.

``f(theta) = sum_i w_i l(x_i'theta + o_i; y_i) + gamma |theta|^2 / 2 + tilt'theta`` is gamma-strongly convex, so that
``|theta - theta*|_2 <= |grad f(theta)|_2 / gamma``. Convergence is never assumed: the result of Newton's method in
float64 is accepted only if a bound of the gradient, rounding included, proves that it is close enough. Otherwise the
gradient is computed in decimal arithmetic, with so many digits that its rounding is far below the tolerance, in steps
whose number is finite by the theorem below. No data raise an error, for example if a response is separated or constant.

Rows are read in passes, part by part, on the machine that holds them. A pass adds whole numbers, so that no bit of
theta depends on the division of the rows into parts, or on their order.

The theorem: let M be a matrix with ``H <= M`` for all Hessians H of f. One such matrix is ``M = sum w k x x' + gamma
I``, with k the largest curvature of a row's loss (Boehning and Lindsay 1988). Then ``f(theta - M^-1 g) <= f(theta) -
g'M^-1 g / 2``, so that the gradient g tends to zero. A step with another matrix in place of M is taken if it at least
halves the smallest norm that the gradient has had so far, which can happen only finitely often before the gradient is
small enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any, Protocol

import numpy as np

from privstats.losses.convex import RowLoss
from privstats.numerics.exact import step_of
from privstats.numerics.law import FloatArray

UNIT = 2.0**-53  # relative rounding error of one float64 operation
ROWS = 8000  # rows per batch, fewer than 2^13, so that intermediate arrays fit in the cache
SCORE_BITS = 49  # score entries are multiples of (their bound) / 2^49: sums over `ROWS` rows are at most 2^62 steps
HESSIAN_BITS = 20  # factors of Hessian entries are multiples of (their bound) / 2^20: sums of `ROWS` rows are <= 2^53
MOST_STEPS = 200  # largest number of Newton steps in float64, halved steps included
CLOSE = 0.1  # a Newton step is halved if it leaves more than this share of the slope in its direction
DIGITS = 60  # smallest number of decimal digits, and of digits after the point
SPARE_DIGITS = 40  # number of digits below the tolerance: sums of 10^15 rows still have a much smaller error

Scan = Callable[[Callable[[FloatArray], Any]], Iterable[Any]]  # applies a function to each part of the rows


class BoundedLosses(Protocol):
    """Bounds on a row's loss that the privacy theorem requires (`WeightedLosses`)."""

    @property
    def m(self) -> int: ...
    @property
    def loss(self) -> RowLoss: ...
    @property
    def radius(self) -> float: ...
    @property
    def curvature(self) -> float: ...
    @property
    def longest(self) -> float: ...
    @property
    def geometry(self) -> str: ...


@dataclass(frozen=True, eq=False, repr=False)
class Derivatives:
    """Function that adds up derivatives of the objective f over rows (w, x, y, o), on the machine that has the rows.

    Scores are rounded to multiples of `step`, the two factors of a Hessian entry to multiples of `root`, and bounds of
    errors upwards, to multiples of 2^-10 of the bound of a score or of a Hessian entry: all sums are exact.

    Parameters
    ----------
    loss : RowLoss
    theta : ndarray, shape (d,)
    step, root : float
        Powers of two.
    errors : bool
        Whether to return bounds of the rounding errors of scores, too.
    """

    loss: Any
    theta: FloatArray
    step: float
    root: float
    errors: bool

    def __call__(self, part: FloatArray) -> tuple[int, FloatArray, Any, Any]:
        """Return sums over the rows of `part`, shape (n, d + 3), whose columns are w, x, y and o.

        These are the number n of rows; the sums of two error bounds, shape (2,), in units of 2^-53
        (`Tilted.derivatives`); the score, shape (d,), in whole multiples of `step`; and the Hessian, shape (d, d), in
        whole multiples of ``root^2``.
        """
        loss, coarse = self.loss, np.array([[self.step * 2.0**39], [self.root**2 * 2.0**30]])
        errors, scores, hessian = np.zeros(2), 0, 0
        for columns in (part[start : start + ROWS].T for start in range(0, len(part), ROWS)):
            weight, x, y, offset = columns[0], columns[1:-2], columns[-2], columns[-1]
            eta = sum((value * column for value, column in zip(self.theta.tolist(), x, strict=True)), offset)
            slope, curvature = loss.derivatives(eta, y)
            scores += np.rint(weight * slope / self.step * x).astype(np.int64).sum(axis=1).astype(object)
            rows = np.rint(np.sqrt(weight * curvature) / self.root * x)
            hessian += (rows @ rows.T).astype(np.int64).astype(object)
            if self.errors:
                length, steep = np.sqrt(sum(column**2 for column in x)), (len(x) + 2) * loss.steepest(y)
                wrong = np.array([3 * loss.max_slope + loss.slope_error(y) + steep * np.abs(offset), steep * length])
                errors += (np.ceil(weight * length * wrong / coarse) * coarse).sum(axis=1)
        return len(part), errors, scores, hessian


@dataclass(frozen=True, eq=False)
class Tilted:
    """The objective f of this module: a sum of row losses, a ridge penalty and a random linear term.

    Parameters
    ----------
    scan : callable
        Function that applies a given function to every part of the rows (w, x, y, o); each row is in the set `within`.
    within : BoundedLosses
        The loss l, and bounds on a row's weight, length and curvature.
    gamma : float
        Coefficient of the ridge penalty, positive.
    tilt : ndarray, shape (d,)
    """

    scan: Scan
    within: BoundedLosses
    gamma: float
    tilt: FloatArray

    def derivatives(self, theta: FloatArray, errors: Any = None) -> tuple[FloatArray, float, FloatArray, FloatArray]:
        """Return the gradient, a bound of the l2 length of its rounding error, the Hessian and `errors`, in one pass.

        With u = 2^-53, a linear predictor has an error of at most ``(d + 2) u (|x| |theta| + |o|)`` (Higham 2002,
        section 3.1), and a slope has this error times the largest curvature, plus `slope_error` u. A score has the
        slope's error times ``w |x|``, three roundings, and half a `step` per entry. The error of a row's score has two
        parts: a constant and a multiple of |theta|. The sums of both parts over the rows do not depend on theta. They
        are the fourth result, shape (2,), and can be given to the next call as `errors`, so that they are computed only
        once. A factor of 1.1 covers terms of order u^2; half a step more covers rounding next to zero.
        """
        d, within, loss = len(theta), self.within, self.within.loss
        step = step_of(within.radius * loss.max_slope, SCORE_BITS)
        root = step_of(math.sqrt(within.curvature * loss.max_curvature), HESSIAN_BITS)
        nothing = (0, np.zeros(2), np.zeros(d, dtype=object), np.zeros((d, d), dtype=object))
        found = self.scan(Derivatives(loss, theta, step, root, errors is None))
        many, wrong, score, hessian = (sum(parts) for parts in zip(nothing, *found, strict=True))
        errors, score, ridge = wrong if errors is None else errors, (score * step).astype(float), self.gamma * theta
        own = 3 * np.linalg.norm(np.abs(score) + np.abs(ridge) + np.abs(self.tilt))
        wrong = 1.1 * UNIT * (errors @ [1.0, np.linalg.norm(theta)] + own) + (many + 1) * math.sqrt(d) * step / 2
        return score + ridge + self.tilt, wrong, (hessian * root**2).astype(float) + self.gamma * np.eye(d), errors


def minimise_rows(f: Tilted, tolerance: float) -> FloatArray:
    """Return the minimiser theta* of the objective f up to a proved error.

    ``|theta - theta*|_2 <= tolerance / gamma``. If float64 is too coarse for this bound, the bound is ``tolerance /
    gamma`` plus the rounding error of theta in float64, ``2^-53 |theta|_2``.

    Parameters
    ----------
    f : Tilted
        The objective; its rows may have any finite entries.
    tolerance : float
        Positive, in units of the gradient.

    Returns
    -------
    ndarray, shape (d,)

    Examples
    --------
    >>> from privstats.losses.convex import Logistic
    >>> from privstats.sets.weighted_losses import WeightedLosses
    >>> rows = np.array([[1.0, 1, y, 0] for y in (1, 1, 1, 0)])  # (w, x, y, o)
    >>> f = Tilted(lambda take: [take(rows)], WeightedLosses(1, Logistic(), 1.0, 1.0, 1.0), 1e-9, np.zeros(1))
    >>> bool(abs(minimise_rows(f, 1e-12) - np.log(3)) < 1e-8)
    True
    """
    with np.errstate(all="ignore"):
        theta, done = fast(f, tolerance)
    return theta if done else exact(f, tolerance, theta)


def fast(f: Tilted, tolerance: float) -> tuple[FloatArray, bool]:
    """Return the best point of Newton's method in float64, and whether the point is proved to meet the tolerance."""
    theta = step = np.zeros(len(f.tilt))
    best, least, start, errors = theta, math.inf, 0.0, None
    for _ in range(MOST_STEPS):
        gradient, wrong, hessian, errors = f.derivatives(theta, errors)
        size = float(np.linalg.norm(gradient))
        if size < least:
            best, least = theta, size
        if size * (1 + 2.0**-40) + wrong <= tolerance:
            return theta, True
        if not math.isfinite(size) or size <= wrong / 8:  # the gradient is rounding error only
            break
        if float(gradient @ step) > CLOSE * start:  # the objective rises, or much of its slope along the step remains
            step, start = step / 2, start / 2
            theta = theta - step
        else:
            step = -np.linalg.solve(hessian, gradient).astype(float)
            theta, start = theta + step, abs(float(gradient @ step))
    return best, False


def exact(f: Tilted, tolerance: float, start: FloatArray) -> FloatArray:
    """Return the minimiser, computed with gradients in decimal arithmetic and then rounded to float64."""
    tilt, within, loss = [Decimal(value) for value in f.tilt.tolist()], f.within, f.within.loss
    d, gamma, enough, digits = len(tilt), Decimal(f.gamma), Decimal(tolerance) / 2, digits_for(within, tolerance)
    root = step_of(math.sqrt(within.curvature * loss.max_curvature), HESSIAN_BITS)
    found = f.scan(Derivatives(Steepest(loss), start, 1.0, root, False))
    many, _, _, products = (sum(one) for one in zip((0, 0.0, 0, np.zeros((d, d), dtype=object)), *found, strict=True))
    # `steep` is an upper bound of the Hessian at every theta. Write a row v = z + e, with z a multiple of root and the
    # entries of e at most root / 2. Then vv' <= (1 + a) zz' + (1 + 1 / a) ee' for any a > 0, here 1 / 16, and |e|^2
    # <= d root^2 / 4. So the sum of 17 ee' over the rows is at most 17 many d root^2 / 4. The term added for this sum
    # is four times as large; the excess covers rounding.
    steep = 1.0625 * (f.gamma * np.eye(d) + root**2 * products.astype(float)) + 17 * many * d * root**2 * np.eye(d)
    surely, quickly = (_decimals(np.linalg.inv(matrix).astype(float)) for matrix in (steep, f.derivatives(start)[2]))

    def gradient(theta: list[Decimal]) -> list[Decimal]:
        scores = [[0] * d, *f.scan(DecimalScores(loss, tuple(theta), digits))]
        sums = [Decimal(sum(column)).scaleb(-digits) for column in zip(*scores, strict=True)]
        return [gamma * value + push + score for value, push, score in zip(theta, tilt, sums, strict=True)]

    with localcontext() as context:
        context.prec = digits
        theta = [Decimal(value) for value in start.tolist()]
        g = gradient(theta)
        least = size = _length(g)
        while size > enough:
            new = _less(theta, quickly, g)
            tried = gradient(new)
            if _length(tried) > least / 2:
                new = _less(theta, surely, g)
                tried = gradient(new)
            theta, g, size = new, tried, _length(tried)
            least = min(least, size)
        return np.array([float(value) for value in theta])


def digits_for(within: BoundedLosses, tolerance: float) -> int:
    """Return the number of decimal digits with which the rounding of the gradient is far below the tolerance.

    A score is at most ``radius max_slope`` long. Over n rows, its relative rounding and its multiples of ``10^-digits``
    add up to about ``n d 10^-digits max(1, radius max_slope)``, and to n times as much through the linear predictor,
    since theta is at most ``n radius max_slope / gamma`` long.
    """
    largest = max(1.0, within.radius * within.loss.max_slope)
    return max(DIGITS, SPARE_DIGITS + math.ceil(math.log10(largest) - math.log10(tolerance)))


@dataclass(frozen=True)
class Steepest:
    """A substitute for a loss: derivative 0 and, everywhere, the largest second derivative of the original loss."""

    loss: RowLoss

    def derivatives(self, eta: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return slopes of zero, and the largest curvature at each response."""
        return np.zeros_like(eta), self.loss.steepest(y)


@dataclass(frozen=True, eq=False, repr=False)
class DecimalScores:
    """Function that adds up scores of rows at theta to a number of digits, as multiples of 10^-digits."""

    loss: RowLoss
    theta: tuple[Decimal, ...]
    digits: int

    def __call__(self, part: FloatArray) -> list[int]:
        """Return the sum of the scores of the rows in one part of the data."""
        sums = [0] * len(self.theta)
        with localcontext() as context:
            context.prec = self.digits
            for row in part.tolist():
                weight, *x, y, offset = map(Decimal, row)
                score = weight * self.loss.exact_slope(_dot(x, self.theta) + offset, y)
                sums = [one + int((score * entry).scaleb(self.digits)) for one, entry in zip(sums, x, strict=True)]
        return sums


def _decimals(matrix: FloatArray) -> list[list[Decimal]]:
    return [[Decimal(value) for value in row] for row in ((matrix + matrix.T) / 2).tolist()]


def _dot(a: Sequence[Decimal], b: Sequence[Decimal]) -> Decimal:
    return sum((one * other for one, other in zip(a, b, strict=True)), Decimal(0))


def _less(theta: list[Decimal], matrix: list[list[Decimal]], g: list[Decimal]) -> list[Decimal]:
    return [value - _dot(row, g) for value, row in zip(theta, matrix, strict=True)]


def _length(g: list[Decimal]) -> Decimal:
    return _dot(g, g).sqrt()
