"""Minimisers of strictly convex quadratic functions on an l1 ball, with a proved bound on the numerical error.

Objective perturbation releases a minimiser. Its privacy proof requires a bound on the distance between the computed
point and the minimiser, on every data set, so convergence is not assumed. The result of a fast computation in float64
is used if a certificate proves the bound. Otherwise the same steps are taken in exact rational arithmetic, and the
number of steps is finite by the argument below. So no data set causes an exception.

The computation takes the steps of Wolfe's algorithm (1976, "Finding the nearest point in a polytope", Mathematical
Programming 11). The ball is the convex hull of the atoms ``+-radius e_j``, with the unit vectors e_j. A corral is a set
of affinely independent atoms for which the minimiser over the affine hull of the atoms is a point of their convex hull,
with positive weights. As long as adding some atom to the corral lowers the minimum over the convex hull, this atom is
added; then atoms whose weights would become negative are removed. The added atom lies outside the affine hull of the
other atoms, so the atoms stay affinely independent, and the minimum over the next corral is strictly lower. So no
corral is repeated, and as there are finitely many corrals, the steps end. The argument also holds if several atoms
lower the minimum equally, or if several weights become negative at the same point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privstats.numerics.law import FloatArray

Numbers = NDArray[Any]  # arrays of float64, or of Fraction objects
Solve = Callable[[Numbers, Numbers], Numbers]
UNIT = 2.0**-53  # relative rounding error of one float64 operation
MOST_CHANGES = 10  # largest number of changes of the corral (set of atoms) per coordinate of theta, in float64


def minimise_on_l1_ball(
    A: FloatArray, b: FloatArray, gamma: float, tilt: FloatArray, radius: float, tolerance: float
) -> FloatArray:
    """Return an approximate minimiser of ``theta' (A + gamma I) theta / 2 - (b - tilt)' theta`` over the l1 ball.

    Let theta be the returned point, theta* the exact minimiser, and lambda_min the smallest eigenvalue of A + gamma I.
    For every input, ``|theta - theta*|_2 <= tolerance / lambda_min``; this bound includes the rounding errors of A +
    gamma I and of b - tilt in float64. Either the certificate of `residual` proves the bound, or theta is theta*
    rounded to float64, with an error of at most ``2^-53 radius``.

    Parameters
    ----------
    A : ndarray, shape (d, d)
        Finite, symmetric (only the lower triangle is used), with A + gamma I positive definite. Otherwise the bound
        does not hold, but a point of the ball is returned.
    b, tilt : ndarray, shape (d,)
        Vectors of the two linear terms, ``-b'theta`` from the data and the random ``tilt'theta``; finite.
    gamma : float
        Coefficient of the ridge penalty, positive.
    radius : float
        Radius of the l1 ball, positive.
    tolerance : float
        Upper limit of ``lambda_min |theta - theta*|_2``, in the units of `b`.

    Returns
    -------
    ndarray, shape (d,)
        A point whose l1 norm may exceed `radius` by rounding.

    Examples
    --------
    >>> minimise_on_l1_ball(np.eye(2), np.array([3.0, 2.0]), 0.5, np.array([0.0, 1.0]), radius=1.0, tolerance=1e-9)
    array([1., 0.])
    """
    A = np.tril(A) + np.tril(A, -1).T
    with np.errstate(all="ignore"):
        sums = A + gamma * np.eye(len(b)), b - tilt
        theta = fast_quadratic(*sums, radius, tolerance)
        if residual(*sums, radius, theta, np.abs(b) + np.abs(tilt)) <= tolerance:
            return theta
    matrix = fractions(A) + Fraction(gamma) * np.eye(len(b), dtype=int)
    return exact_quadratic(matrix, fractions(b) - fractions(tilt), radius, theta)


def residual(A: FloatArray, b: FloatArray, radius: float, theta: FloatArray, size_b: FloatArray) -> float:
    r"""Return an upper bound of ``lambda_min |theta - theta*|`` that includes rounding errors.

    The result is inf or NaN if no bound is found. theta* is the exact minimiser of ``theta'A theta / 2 - b'theta`` on
    the l1 ball, lambda_min is the smallest eigenvalue of A, ``|.|`` without an index is the Euclidean norm, and '
    denotes the transpose. b is a computed difference, and `size_b` is the sum of the absolute values of its two terms,
    so the rounding error of b is at most UNIT = 2^-53 times `size_b`. The rounding error of a diagonal entry of A is
    at most UNIT times the entry, because the entry is a sum of positive numbers.

    Let lambda >= 0 be a Lagrange multiplier of the constraint that theta lies in the ball. Let z = theta if theta lies
    in the ball and lambda = 0; otherwise let ``z = theta radius / |theta|_1``. Let g be a subgradient of the l1 norm
    at theta, which is also a subgradient at z. With r = A z - b + lambda g and delta = z - theta*,

        delta' A delta = (r - lambda g)' delta - (A theta* - b)' delta
                      <= |r| |delta| + lambda (|theta*|_1 - |z|_1) <= |r| |delta|.

    The first inequality holds because ``(A theta* - b)' delta`` is non-negative (theta* is optimal and z lies in the
    ball), and because ``g' (theta* - z)`` is at most the difference of the l1 norms. The second inequality holds
    because lambda = 0 or ``|z|_1 = radius``. As ``delta' A delta`` is at least ``lambda_min |delta|^2``, and
    lambda_min is at most every A_jj, it follows that ``lambda_min |theta - theta*| <= |r| + |theta - z| min A_jj``.
    The returned number is an upper bound of this sum.

    Rounding: r is computed at theta, not at z. For each entry r_j, the absolute values of its summands are added up;
    let `terms` be the largest of these sums, and ``miss = |theta - z|_1 / radius``. There are three errors:

    * The rounding error of r_j is at most ``(d + 5) UNIT / (1 - (d + 5) UNIT) terms``, in any order of summation
      (Higham 2002, section 3.1).
    * Replacing theta by z changes r_j by at most ``miss terms``.
    * ``|theta - z| min A_jj`` is at most ``miss d terms``.

    |r| is at most sqrt(d) times its largest entry. So the term ``3 d (miss + 4 (d + 6) UNIT) terms`` of the result
    covers these errors and the rounding error of the result itself.
    """
    d, size, gradient = len(b), float(np.abs(theta).sum()), A @ theta - b
    held, signs = theta != 0, np.sign(theta)
    tight = size > radius * (1 - 2.0**-30)
    multiplier = max(0.0, float(-(gradient * signs)[held].mean())) if tight and held.any() else 0.0
    r = np.where(held, np.abs(gradient + multiplier * signs), np.maximum(np.abs(gradient) - multiplier, 0))
    terms = float((np.abs(A) @ np.abs(theta) + size_b + multiplier).max())
    miss = abs(size / radius - 1) if tight else 0.0
    underflow = 2 * d * d * float(np.finfo(float).tiny)
    return math.sqrt(d) * float(r.max()) * (1 + 4 * UNIT) + 3 * d * (miss + 4 * (d + 6) * UNIT) * terms + underflow


def fast_quadratic(A: FloatArray, b: FloatArray, radius: float, tolerance: float) -> FloatArray:
    """Return an approximate minimiser of ``theta'A theta / 2 - b'theta`` on the l1 ball, computed in float64.

    The ball has the radius `radius`. The steps of `wolfe` end if every entry of the gradient is within ``tolerance / (4
    sqrt(d))`` of the optimality condition, or if there are too many steps. No bound on the distance between the result
    and the minimiser is proved here (see `residual`). The result is zero if a linear system is singular or an entry is
    not finite.
    """
    # A is scaled so that its largest entry is about 1, because the linear systems of `wolfe` also have an equation
    # with coefficients 1, for the sum of the weights; this improves the systems' condition number
    shift = -math.frexp(float(np.abs(A).max()))[1]
    slack = np.ldexp(tolerance, shift) / (4 * math.sqrt(len(b)))
    try:
        theta = wolfe(np.ldexp(A, shift), np.ldexp(b, shift), radius, np.linalg.solve, slack, MOST_CHANGES * len(b))
    except np.linalg.LinAlgError:
        return np.zeros(len(b))
    return theta if np.isfinite(theta).all() else np.zeros(len(b))


def exact_quadratic(matrix: Numbers, vector: Numbers, radius: float, start: FloatArray) -> FloatArray:
    """Return the exact minimiser, rounded to float64, of ``theta'A theta / 2 - b'theta`` on the l1 ball.

    A is `matrix`, b is `vector`, and the ball has the radius `radius`. If A is not positive definite, a multiple of the
    identity is first added to A. The vector `start`, an approximate minimiser, affects only the number of steps of
    `wolfe`.
    """
    ridge = max(*np.abs(matrix).sum(axis=0), Fraction(1, 2**1074)) / 2**52
    while not positive_definite(matrix):
        matrix, ridge = matrix + ridge * np.eye(len(vector), dtype=int), 2 * ridge
    return wolfe(matrix, vector, Fraction(radius), solve_exactly, 0, None, fractions(start)).astype(float)


def wolfe(
    A: Numbers, b: Numbers, radius: Any, solve: Solve, slack: Any, most: int | None, start: Numbers | None = None
) -> Numbers:
    """Return the minimiser of theta'A theta / 2 - b'theta on the l1 ball, found by Wolfe's steps.

    All arithmetic is done in the number type of the arguments, float64 or Fraction. A corral is a set of atoms, which
    are vertices ``+-radius e_j`` of the ball. Three arrays store each atom's coordinate j, sign, and positive weight;
    the weights add up to `radius`, and theta is the sum of ``weight * sign * e_j``. The first corral has the
    coordinates and signs of the nonzero entries of `start`, by default the minimiser over the whole space.

    Parameters
    ----------
    A, b : ndarray, shapes (d, d) and (d,)
        Arrays of float64 or of Fractions.
    radius : float or Fraction
        Radius of the l1 ball, positive.
    solve : callable
        Function that returns the solution of a linear system, given its matrix and right-hand side.
    slack : float or int
        A vertex ``+-radius e_j`` is added if |gradient_j| exceeds the Lagrange multiplier of the constraint
        |theta|_1 <= radius by more than `slack`.
    most : int or None
        Largest number of steps; None for no limit.
    start : ndarray, shape (d,), optional
        Approximate minimiser, in the number type of `A` and `b`.

    Returns
    -------
    ndarray, shape (d,)
    """
    free = solve(A, b)
    if np.abs(free).sum() <= radius:
        return free
    start = free if start is None or not start.any() else start
    at = np.flatnonzero(start)
    signs, weights = np.where(start[at] < 0, -1, 1), np.abs(start[at]) * (radius / np.abs(start).sum())
    step = 0
    while True:
        step += 1
        system = np.ones((len(at) + 1, len(at) + 1), dtype=A.dtype)
        system[:-1, :-1], system[-1, -1] = A[at[:, None], at] * (signs[:, None] * signs), 0
        right = np.append(b[at] * signs, radius)
        solution = solve(system, right)
        wanted, multiplier = solution[:-1], solution[-1]
        out = (wanted <= 0).nonzero()[0]
        if len(out) and step != most:  # move toward `wanted`, until a weight becomes zero
            ratios = [weights[k] / (weights[k] - wanted[k]) if weights[k] > 0 else 0 for k in out]
            weights = weights + min(ratios) * (wanted - weights)
            weights[out[ratios.index(min(ratios))]] = 0
            keep = weights > 0
            at, signs, weights = at[keep], signs[keep], weights[keep]
            continue
        theta = np.zeros(len(b), dtype=b.dtype)
        np.add.at(theta, at, wanted * signs)
        gradient = A @ theta - b
        new = int(np.argmax(np.abs(gradient)))
        if not abs(gradient[new]) > multiplier + slack or step == most:
            return theta
        sign = -1 if gradient[new] > 0 else 1
        at, signs, weights = np.append(at, new), np.append(signs, sign), np.append(wanted, b[new] * 0)


def fractions(values: FloatArray) -> Numbers:
    """Return the values, without rounding, as an array of Fractions."""
    return np.array([Fraction(value) for value in values.ravel().tolist()], dtype=object).reshape(values.shape)


def whole(table: Numbers) -> Numbers:
    """Return the entries of a table of Fractions, multiplied by their least common denominator, as Python integers."""
    common = math.lcm(*(Fraction(value).denominator for value in table.flat))
    return np.array([int(value * common) for value in table.flat], dtype=object).reshape(table.shape)


def solve_exactly(system: Numbers, right: Numbers) -> Numbers:
    """Return the exact solution x of ``system @ x = right``, by fraction-free elimination (Bareiss 1968).

    The matrix `system` is regular.
    """
    table, previous = whole(np.column_stack([system, right])), 1
    for k in range(len(table)):
        found = k + int(np.argmax(table[k:, k] != 0))
        table[[k, found]] = table[[found, k]]
        pivot = table[k].copy()
        table = (pivot[k] * table - np.outer(table[:, k], pivot)) // previous  # the division leaves no remainder
        table[k], previous = pivot, pivot[k]
    return np.array([Fraction(row[-1], previous) for row in table], dtype=object)


def positive_definite(A: Numbers) -> bool:
    """Return whether the matrix A is positive definite: all leading principal minors are positive (Sylvester)."""
    table, previous = whole(A), 1
    for k in range(len(table)):
        if not table[k, k] > 0:
            return False
        table, previous = (table[k, k] * table - np.outer(table[:, k], table[k])) // previous, table[k, k]
    return True
