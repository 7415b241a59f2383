r"""Minimisers of the sum of row losses, a ridge penalty and a linear term, with proved bounds on the numerical error.

The objective ``f(theta) = sum_i w_i l(x_i'theta + o_i; y_i) + gamma |theta|^2 / 2 + tilt'theta`` is the sum of the
losses l of the rows (weight w_i, predictors x_i, offset o_i, response y_i), a ridge penalty and a linear term. The
objective is gamma-strongly convex, so that ``|theta - theta*|_2 <= |grad f(theta)|_2 / gamma`` for its minimiser theta*
and any theta. The result of Newton's method in float64 is accepted only if a bound on the gradient, rounding included,
proves that the result lies within ``tolerance / gamma`` of theta*, for a given `tolerance`. Otherwise, the descent is
continued in decimal arithmetic, with enough digits to make the gradient's rounding error far smaller than `tolerance`;
finitely many steps suffice (see below). No data set causes an error, not even separated or constant responses.

*Many rows.* The bound on the rounding error grows with the number of rows, and so does the curvature of f, but gamma
is fixed. So the proof may use the curvature of f near theta in place of gamma (`curved_enough`). Let m be at most the
smallest eigenvalue of every Hessian of f within the distance r of theta. If ``|grad f(theta)|_2 <= m r``, then at
every theta + v with ``|v|_2 = r`` the derivative of f along v is at least ``-|grad f(theta)| r + m r^2 >= 0``; since f
is convex, theta* lies within r of theta.

*Finitely many steps.* Let B be a matrix such that B - H is positive semidefinite for all Hessians H of f; an example is
``B = sum w k x x' + gamma I``, where k is the largest curvature of a row's loss (Boehning and Lindsay 1988). With the
gradient g at theta, ``f(theta - B^-1 g) <= f(theta) - g'B^-1 g / 2``. As f is bounded below, g tends to zero if all
steps are ``-B^-1 g``. A step with another matrix is taken only if the new gradient is at most half as long as the
shortest gradient so far. Finitely many such steps make the gradient shorter than any positive limit.

Rows are read in passes, part by part, on the machine where they are stored. A pass adds whole numbers, so that no bit
of theta depends on the division of the rows into parts, or on their order.
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
ROWS = 8000  # number of rows processed at a time, below 2^13, so that intermediate arrays fit in the cache
# the grid step of scores (gradients of rows' losses) is about 2^-49 times the bound on a score; so an entry of the sum
# of the scores of ROWS rows is at most 2^62 steps
SCORE_BITS = 49
# the grid step of the vectors v (a row's Hessian is vv') is about 2^-20 times the bound on the norm of v
HESSIAN_BITS = 20
# MOST_STEPS: largest number of Newton steps in float64, halved steps included.
# PATIENT: number of steps after which the minimum along the line of a halved step is found by bisection.
MOST_STEPS, PATIENT = 1000, 60
# a Newton step is halved if the slope of the objective f along the step, at the end of the step, exceeds this share of
# the absolute slope at the start of the step
CLOSE = 0.1
DIGITS = 60  # least number of decimal digits of a score, and of digits after the decimal point of a sum of scores
# number of decimal digits beyond the digits of the tolerance: the rounding error of a row's score is at most about
# 10^-40 times the tolerance, so that the error of a sum over 10^15 rows is negligible
SPARE_DIGITS = 40

Scan = Callable[[Callable[[FloatArray], Any]], Iterable[Any]]  # applies its argument to each part of the rows


class BoundedLosses(Protocol):
    """Interface of a loss and of the bounds on rows that objective perturbation requires (see `WeightedLosses`).

    A row has a weight w, m predictors x, a response y and an offset o, which is added to the linear predictor.
    `radius` bounds w |x| in the norm `geometry`, `longest` bounds |x|_2, and `curvature` bounds w |x|_2^2 s(y), where
    s(y) is the loss's largest second derivative at y, divided by ``loss.max_curvature``. `offset` has the limits of o.
    """

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
    def offset(self) -> tuple[float, float]: ...
    @property
    def geometry(self) -> str: ...


@dataclass(frozen=True, eq=False, repr=False)
class Derivatives:
    """Function that sums the derivatives of losses over rows, on the machine where the rows are stored.

    A row consists of the weight w, the predictors x, the response y and the offset o. The terms of each sum are first
    rounded to a grid, so that the sum is exact. Scores (gradients of the rows' losses) are rounded to multiples of
    `step`. The Hessian of a row's loss is vv', with a vector v that is rounded to multiples of `root`.

    Parameters
    ----------
    loss : RowLoss
        Loss of a row of weight 1.
    theta : ndarray, shape (d,)
        Coefficients at which the derivatives are taken.
    step, root : float
        Grid steps of the scores and of the vectors v, both powers of two.
    errors : bool
        Whether also to sum the numbers a and b that bound the rounding error of a row's score (`Tilted.derivatives`),
        rounded up to multiples of powers of two; otherwise zeros replace the sums.
    """

    loss: Any
    theta: FloatArray
    step: float
    root: float
    errors: bool

    def __call__(self, part: FloatArray) -> tuple[int, FloatArray, Any, Any]:
        """Return the number of rows in `part`, shape (n, d + 3), and three sums over these rows.

        The first sum, shape (2,), has the sums of the numbers a and b in the bound ``(a + b |theta|) 2^-53`` on the
        rounding error of a row's score (`Tilted.derivatives`). The second, shape (d,), is the sum of the scores
        divided by `step`, and the third, shape (d, d), the sum of the Hessians divided by ``root^2``. The entries of
        the second and the third sum are whole numbers.
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
    """The objective ``f(theta) = sum w l(x'theta + o; y) + gamma |theta|^2 / 2 + tilt'theta``, summed over the rows.

    A row consists of the weight w, the predictors x, the response y and the offset o; its loss is
    ``w l(x'theta + o; y)``.

    Parameters
    ----------
    scan : callable
        Function that applies its argument, a function, to each part of the rows, and returns the results. A part is an
        array of shape (rows, d + 3) with the columns w, x, y and o.
    within : BoundedLosses
        The loss l, and bounds that all rows satisfy: on o, on w x, and on the contribution of a row to the Hessian.
    gamma : float
        Coefficient of the ridge penalty, positive.
    tilt : ndarray, shape (d,)
        Coefficients of the random linear term.
    """

    scan: Scan
    within: BoundedLosses
    gamma: float
    tilt: FloatArray

    def derivatives(self, theta: FloatArray, errors: Any = None) -> tuple[FloatArray, float, FloatArray, FloatArray]:
        """Return the objective f's gradient, a bound on the l2 norm of its rounding error, f's Hessian, and `errors`.

        The rows are read once. `errors`, shape (2,), has two sums that are needed for the bound and do not depend on
        `theta`. The sums are computed if the argument `errors` is None, and can be given to later calls.

        *The bound*: let u = 2^-53, and let a row have the weight w, d predictors x, the offset o and the largest
        curvature k. Its linear predictor has a rounding error of at most ``(d + 2) u (|x| |theta| + |o|)`` (Higham
        2002, section 3.1). The error of the slope (the loss's first derivative) is at most k times this error, plus
        ``slope_error u`` (`RowLoss`). The error of the score, ``w x`` times the slope, is at most ``w |x|`` times the
        error of the slope, plus three relative errors u of multiplications. So the error of the score is at most
        ``(a + b |theta|) u`` with

            a = w |x| (3 max_slope + slope_error + (d + 2) k |o|)  and  b = w |x|^2 (d + 2) k.

        The two entries of `errors` are the sums of a and of b over the rows. A factor of 1.1 covers terms of order
        u^2. Scores are then rounded to a grid, with an error of at most half a grid step per entry and row. Another
        half a step per entry covers the rounding of numbers near zero. A last term covers the addition of scores,
        ridge penalty and linear term.
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
    """Return an approximation theta of the minimiser theta* of the objective f, with a proved error bound.

    The bound is ``|theta - theta*|_2 <= tolerance / gamma``, where gamma is the coefficient of the ridge penalty in f.
    If float64 is too coarse for this bound, the bound is ``tolerance / gamma`` plus the rounding error of theta in
    float64, ``2^-53 |theta|_2``.

    Parameters
    ----------
    f : Tilted
        The objective; its rows may have any finite entries.
    tolerance : float
        Largest norm of the gradient at theta; positive.

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
    """Return a point found by Newton's method in float64, and whether the point is provably close to f's minimiser.

    "Close" means a distance of at most ``tolerance / gamma``, with gamma the coefficient of the ridge penalty in f.
    This is proved if the gradient's norm, rounding errors included, is at most `tolerance`. If no step reaches such a
    point, the point with the smallest gradient is returned; the curvature of f near this point may still prove the
    distance (`curved_enough`).

    A Newton step is halved if it ends beyond the minimum of f along the line of the step. Some losses, such as check
    losses with narrow smoothing, have a large curvature in a narrow interval only. Halved steps may end on one side of
    this interval, so that the Hessian never contains the large curvature. After `PATIENT` steps, the minimum along the
    line of a halved step is therefore found by bisection.
    """
    theta = step = np.zeros(len(f.tilt))
    best, least, most, start, errors, long = theta, math.inf, math.inf, 0.0, None, False
    for count in range(MOST_STEPS):
        gradient, wrong, hessian, errors = f.derivatives(theta, errors)
        size = float(np.linalg.norm(gradient))
        bound = size * (1 + 2.0**-40) + wrong
        if size < least:
            best, least, most = theta, size, bound
        if bound <= tolerance:
            return theta, True
        # stop if the gradient is not finite, or so short that it may consist of rounding errors
        if not math.isfinite(size) or size <= wrong / 8:
            break
        slope, bisect = float(gradient @ step), count >= PATIENT and long
        # halve the step if it ended beyond the minimum of f along it or, in a bisection, if it ended before the minimum
        if slope > CLOSE * start or (bisect and slope < -CLOSE * start and (theta + step / 2 != theta).any()):
            step, start, long = step / 2, start / 2, True
            theta = theta - math.copysign(1.0, slope) * step
        else:
            step, long = -np.linalg.solve(hessian, gradient).astype(float), False
            theta, start = theta + step, abs(float(gradient @ step))
    return best, curved_enough(f, best, most, tolerance / f.gamma)


def curved_enough(f: Tilted, theta: FloatArray, bound: float, r: float) -> bool:
    """Return whether the curvature of the objective f near theta proves that f's minimiser lies within r of theta.

    The result is True if `bound`, an upper bound of the norm of the gradient of f at theta, is at most
    ``(gamma + m) r``. Here gamma is the coefficient of the ridge penalty in f, and m >= 0 is a lower bound of the
    eigenvalues of the Hessian of the sum of the rows' losses, at all points within r of theta. The rows are read once.

    *Computation of m.* Let `reach` be an upper bound of the difference between a row's linear predictor at any point
    within r of theta, and the computed linear predictor at theta (Higham 2002, section 3.1). Let c be a lower bound of
    the loss's second derivative at all linear predictors within `reach` of the computed one. For a row of weight w
    with d predictors x, let ``v = sqrt(w c) x``. The Hessian is at least the sum of vv' over the n rows. Let z be v
    rounded to a grid of step `root`, and e = z - v. Then ``vv' >= zz' / (1 + a) - ee' / a`` for a = 1 / 16, and
    ``|e|^2 <= d root^2 / 4``. So m is the least eigenvalue of the sum of ``zz' / (1 + a)``, minus
    ``n d root^2 / (4 a)``, or 0 if this is negative. To cover rounding errors, the second term is multiplied by 4, and
    1e-10 times the trace of the sum is subtracted.
    """
    d, within, loss = len(theta), f.within, f.within.loss
    root = step_of(math.sqrt(within.curvature * loss.max_curvature), HESSIAN_BITS)
    size = within.longest * float(np.linalg.norm(theta)) + max(map(abs, within.offset))
    reach = 1.1 * (within.longest * r + (d + 2) * UNIT * size)
    if not (math.isfinite(bound) and math.isfinite(reach)):
        return False
    found = f.scan(Derivatives(Flattest(loss, reach), theta, 1.0, root, False))
    many, _, _, products = (sum(one) for one in zip((0, 0.0, 0, np.zeros((d, d), dtype=object)), *found, strict=True))
    flat = root**2 * products.astype(float)
    least = (float(np.linalg.eigvalsh(flat)[0]) - 1e-10 * float(np.trace(flat))) / 1.0625 - 16 * many * d * root**2
    return bound * (1 + 1e-9) <= (f.gamma + max(0.0, least)) * r


def exact(f: Tilted, tolerance: float, start: FloatArray) -> FloatArray:
    """Return the minimiser of the objective f, with gradients computed in decimal arithmetic.

    The descent steps begin at `start` and end when the norm of the gradient is at most half of `tolerance`. The result
    is rounded to float64.
    """
    tilt, within, loss = [Decimal(value) for value in f.tilt.tolist()], f.within, f.within.loss
    d, gamma, enough, digits = len(tilt), Decimal(f.gamma), Decimal(tolerance) / 2, digits_for(within, tolerance)
    root = step_of(math.sqrt(within.curvature * loss.max_curvature), HESSIAN_BITS)
    found = f.scan(Derivatives(Steepest(loss), start, 1.0, root, False))
    many, _, _, products = (sum(one) for one in zip((0, 0.0, 0, np.zeros((d, d), dtype=object)), *found, strict=True))
    # `steep` is an upper bound of the Hessian of f at every theta. A row of weight w, with predictors x and largest
    # curvature k, adds at most vv' to the Hessian, with v = sqrt(w k) x. Let z be v rounded to a grid of step `root`,
    # and e = v - z. Then vv' <= (1 + a) zz' + (1 + 1 / a) ee' for a = 1 / 16, and |e|^2 <= d root^2 / 4. So the terms
    # 17 ee' of n rows (`many`) add at most 17 n d root^2 / 4. Four times this bound covers rounding, too.
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
    """Return the number of decimal digits with which the gradient's rounding error is far smaller than `tolerance`.

    With n rows and d coefficients, the rounding error of the sum of scores (gradients of the rows' losses) is about ``n
    d max(1, S) 10^-digits``. Here ``S = radius max_slope``, computed from the bounds in `within`, bounds the norm of a
    row's score. The error grows with the norm of the coefficients, which the ridge penalty limits to a multiple of n.
    So the error can be of the order ``n^2 d max(1, S) 10^-digits``. The number of digits is at least ``log10(max(1, S)
    / tolerance) + SPARE_DIGITS``; 10^SPARE_DIGITS is far larger than ``n^2 d``.
    """
    largest = max(1.0, within.radius * within.loss.max_slope)
    return max(DIGITS, SPARE_DIGITS + math.ceil(math.log10(largest) - math.log10(tolerance)))


@dataclass(frozen=True)
class Steepest:
    """Loss whose second derivative at a response y is the largest second derivative of the given `loss` at y.

    `Derivatives` takes this loss in place of `loss`, to compute an upper bound, up to rounding, of the losses' Hessian
    at every theta. First derivatives are not needed for this bound, and are set to zero.
    """

    loss: RowLoss

    def derivatives(self, eta: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return zeros in place of first derivatives, and the loss's largest second derivative over all eta at each y.

        `eta` has the linear predictors of n rows, and `y` their responses; both results have the shape (n,).
        """
        return np.zeros_like(eta), self.loss.steepest(y)


@dataclass(frozen=True)
class Flattest:
    """Loss whose second derivative at eta is a lower bound of the second derivatives of the given `loss` near eta.

    The bound holds at all linear predictors within the distance `reach` of the linear predictor eta. `Derivatives`
    takes this loss in place of `loss`, to compute a lower bound, up to rounding, of the losses' Hessian near theta.
    First derivatives are not needed for this bound, and are set to zero.
    """

    loss: RowLoss
    reach: float

    def derivatives(self, eta: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return zeros in place of first derivatives, and lower bounds of the loss's second derivatives near eta.

        `eta` has the linear predictors of n rows, and `y` their responses; both results have the shape (n,). Each
        bound holds at all linear predictors within the distance `reach` of the row's eta.
        """
        return np.zeros_like(eta), self.loss.least_curvature(eta, y, self.reach)


@dataclass(frozen=True, eq=False, repr=False)
class DecimalScores:
    """Function that sums rows' scores (gradients of their losses) at the coefficients theta, in decimal arithmetic.

    Scores are computed with `digits` decimal digits. The sums are whole numbers, in units of 10^-digits.
    """

    loss: RowLoss
    theta: tuple[Decimal, ...]
    digits: int

    def __call__(self, part: FloatArray) -> list[int]:
        """Return the d entries of the sum of scores over one part of the rows, in units of 10^-digits."""
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
