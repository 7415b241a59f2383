r"""Sums of row losses, tilted and with a ridge, minimised to a distance that is proved for the numbers returned.

``f(theta) = sum_i w_i l(x_i'theta + o_i; y_i) + gamma |theta|^2 / 2 + tilt'theta`` is gamma-strongly convex, so that
``|theta - theta*|_2 <= |grad f(theta)|_2 / gamma``. Nothing here trusts convergence: Newton's steps in float64 are
believed if a bound of the gradient, its rounding included, shows that they came close enough, and if not the gradient
is taken in decimal arithmetic of sixty digits, with steps that end by a theorem. Nothing is raised, whatever the rows:
separated or all alike.

The theorem: let ``H <= M`` for all Hessians H, as ``M = sum w k x x' + gamma I`` is, k the largest curvature of a row's
loss (Boehning and Lindsay 1988). Then ``f(theta - M^-1 g) <= f(theta) - g'M^-1 g / 2``, so that g gets as small as one
likes. A step by another matrix is taken where it halves the smallest gradient so far, which can happen finitely often
before it is small enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np

from privstats.losses.convex import RowLoss
from privstats.numerics.law import FloatArray

UNIT = 2.0**-53  # rounding of one float64 operation
BLOCK = 128  # rows whose scores are added in float64; the sums of blocks are added exactly
ROWS = 64 * BLOCK  # rows at a time
MOST_STEPS = 200  # of the float64 run alone, halved ones among them
CLOSE = 0.1  # of the slope along a step, which a step must do away with
DIGITS = 60


@dataclass(frozen=True, eq=False)
class Tilted:
    """The function f.

    Parameters
    ----------
    parts : sequence of ndarray, shape (n, d + 3)
        The rows (w, x, y, o); weights in [0, 1].
    loss : RowLoss
        l.
    gamma : float
        Positive.
    tilt : ndarray, shape (d,)
    """

    parts: Sequence[FloatArray]
    loss: RowLoss
    gamma: float
    tilt: FloatArray

    def batches(self) -> Iterator[FloatArray]:
        """Return the rows, at most `ROWS` at a time, so that what is computed of them stays in the cache."""
        for part in self.parts:
            yield from (part[start : start + ROWS] for start in range(0, len(part), ROWS))

    def derivatives(self, theta: FloatArray) -> tuple[FloatArray, float, FloatArray]:
        """Return the gradient, a bound of the l2 length of its rounding error, and the Hessian.

        A linear predictor is wrong by at most ``(d + 2) u (|x|'|theta| + |o|)``, in any order of summation (Higham
        2002, section 3.1), hence a slope by the curvature near it times that, and `slope_error` u; where the
        curvature may jump, near is anywhere. A slope is wrong by u times itself more, a block's sum by
        ``(BLOCK + 2) u`` times the sum of its absolute terms; the blocks' sums are added without error. A tenth covers
        what is of the order of u^2, here and in the bound.
        """
        d, loss, sums = len(theta), self.loss, [np.zeros((1, len(theta)))]
        total, hessian = np.zeros(d), self.gamma * np.eye(d)
        for rows in self.batches():
            weight, x, y, offset, sizes = rows[:, 0], rows[:, 1:-2], rows[:, -2], rows[:, -1], np.abs(rows[:, 1:-2])
            slope, curvature = loss.derivatives(x @ theta + offset, y)
            score, h = weight * slope, weight * curvature
            whole = len(score) // BLOCK * BLOCK
            sums.append(np.matmul(score[:whole].reshape(-1, 1, BLOCK), x[:whole].reshape(-1, BLOCK, d))[:, 0])
            sums.append((score[whole:] @ x[whole:])[None])
            shift = (d + 2) * (sizes @ np.abs(theta) + np.abs(offset))
            steepest = weight * loss.steepest(y)
            if math.isfinite(loss.log_curvature_rate):
                farthest = max(UNIT * float(shift.max(initial=0.0)), float(np.finfo(float).tiny))
                steepest = np.minimum(math.exp(min(loss.log_curvature_rate * farthest, 700.0)) * h, steepest)
            total += ((BLOCK + 3) * np.abs(score) + loss.slope_error(y) * weight + steepest * shift) @ sizes
            hessian += x.T @ (x * h[:, None])
        scores = np.array([math.fsum(column) for column in np.vstack(sums).T.tolist()])
        ridge = self.gamma * theta
        total += np.abs(scores) + 3 * (np.abs(ridge) + np.abs(self.tilt))
        rounding = 1.1 * UNIT * float(np.linalg.norm(total)) + float(np.finfo(float).tiny)
        return scores + ridge + self.tilt, rounding, hessian


def minimise_rows(f: Tilted, tolerance: float) -> FloatArray:
    """Return nearly the minimiser theta* of f.

    ``|theta - theta*|_2 <= tolerance / gamma``, and in any case, where float64 is too coarse for that, at most as much
    plus the rounding of theta to float64, ``2^-53 |theta|_2``.

    Parameters
    ----------
    f : Tilted
        Whatever its finite rows.
    tolerance : float
        Positive, in units of the gradient.

    Returns
    -------
    ndarray, shape (d,)

    Examples
    --------
    >>> from privstats.losses.convex import Logistic
    >>> rows = np.array([[1.0, 1, y, 0] for y in (1, 1, 1, 0)])  # (w, x, y, o)
    >>> f = Tilted([rows], Logistic(), 1e-9, np.zeros(1))
    >>> bool(abs(minimise_rows(f, 1e-12) - np.log(3)) < 1e-8)
    True
    """
    with np.errstate(all="ignore"):
        theta, done = fast(f, tolerance)
    return theta if done else exact(f, tolerance, theta)


def fast(f: Tilted, tolerance: float) -> tuple[FloatArray, bool]:
    """Return the best of some Newton steps in float64, and whether it is proved to be close enough."""
    theta = step = np.zeros(len(f.tilt))
    best, least, start = theta, math.inf, 0.0
    for _ in range(MOST_STEPS):
        gradient, wrong, hessian = f.derivatives(theta)
        size = float(np.linalg.norm(gradient))
        if size < least:
            best, least = theta, size
        if size * (1 + 2.0**-40) + wrong <= tolerance:
            return theta, True
        if not math.isfinite(size) or size <= wrong / 8:  # nothing but rounding is left
            break
        if float(gradient @ step) > CLOSE * start:  # uphill, or much of the slope along the step is left
            step, start = step / 2, start / 2
            theta = theta - step
        else:
            step = -np.linalg.solve(hessian, gradient).astype(float)
            theta, start = theta + step, abs(float(gradient @ step))
    return best, False


def exact(f: Tilted, tolerance: float, start: FloatArray) -> FloatArray:
    """Return the minimiser by steps whose gradients are decimal, rounded to float64."""
    rows = np.concatenate([np.zeros((0, len(f.tilt) + 3)), *f.parts])
    weight, *columns, y, offset = ([Decimal(value) for value in column] for column in rows.T.tolist())
    x = [list(row) for row in zip(*columns, strict=True)]
    tilt = [Decimal(value) for value in f.tilt.tolist()]
    d, gamma, enough = len(tilt), Decimal(f.gamma), Decimal(tolerance) / 2
    steep = rows[:, 1:-2].T @ (rows[:, 1:-2] * (f.loss.steepest(rows[:, -2]) * rows[:, 0])[:, None])
    steep = steep + (f.gamma + 2.0**-30 * float(np.trace(steep))) * np.eye(d)  # above all Hessians, rounding included
    surely, quickly = (_decimals(np.linalg.inv(matrix).astype(float)) for matrix in (steep, f.derivatives(start)[2]))

    def gradient(theta: list[Decimal]) -> list[Decimal]:
        g = [gamma * value + push for value, push in zip(theta, tilt, strict=True)]
        for row, response, shift, w in zip(x, y, offset, weight, strict=True):
            score = w * f.loss.exact_slope(_dot(row, theta) + shift, response)
            g = [value + score * entry for value, entry in zip(g, row, strict=True)]
        return g

    with localcontext() as context:
        context.prec = DIGITS  # rounding, some n d 10^-60 of the longest row, is far below half the tolerance
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


def _decimals(matrix: FloatArray) -> list[list[Decimal]]:
    return [[Decimal(value) for value in row] for row in ((matrix + matrix.T) / 2).tolist()]


def _dot(a: list[Decimal], b: list[Decimal]) -> Decimal:
    return sum((one * other for one, other in zip(a, b, strict=True)), Decimal(0))


def _less(theta: list[Decimal], matrix: list[list[Decimal]], g: list[Decimal]) -> list[Decimal]:
    return [value - _dot(row, g) for value, row in zip(theta, matrix, strict=True)]


def _length(g: list[Decimal]) -> Decimal:
    return _dot(g, g).sqrt()
