"""Score and minimiser of the sum of check losses ``rho(u) = (tau - 1{u <= 0}) u`` of residuals ``u = y - x'theta``.

The minimiser solves a linear program with one variable per row. A smaller program is solved instead, because most
residuals have the same sign at all theta near the minimiser. A check loss is the larger of two linear functions of
theta, one for each sign of the residual. For most rows, the check loss is replaced by the linear function of the
expected sign, and only the sum of these functions enters the program. The replacement does not increase the minimum.
So, if all replaced rows have the expected signs at the solution, the solution minimises the sum of check losses
(Portnoy and Koenker 1997).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from privstats.numerics.law import FloatArray

SAMPLE = 1500  # largest number of rows in the subsample whose minimiser starts the search for the minimiser
# largest number of rows whose check losses the first linear program of `_certified` keeps, and of rows whose check
# losses each later program keeps in addition
WORST = 4000
NEWTON, ROUNDS = 8, 60
# the search for the minimiser ends if the loss exceeds its lower bound by at most this number times the number of rows
TOLERANCE = 1e-13


@dataclass(frozen=True, eq=False)
class Target:
    """A density of quantile regression coefficients theta on the set ``|theta|_1 <= radius``, for the rows (x, y).

    The density is proportional to ``exp(-rate |score|)`` or, if `norm` is "loss", to ``exp(-rate loss)``. The loss is
    the sum of the rows' check losses at level tau, and the score is the derivative of the loss with respect to theta.

    Parameters
    ----------
    x : ndarray, shape (n, d)
        Predictors, the constant included.
    y : ndarray, shape (n,)
        Responses.
    tau : float
        Probability of the quantile, in (0, 1).
    radius, rate : float
        Radius of the parameter set, and factor of the score's norm (or of the loss) in the log density; positive.
    norm : {"linf", "l1", "l2", "hull", "loss"}
        Norm of the score ("hull" is defined in `size_of`), or "loss" for a density that depends on the loss.
    tilt : float
        Parameter of the norm "hull", in [0, 1].
    """

    x: FloatArray
    y: FloatArray
    tau: float
    radius: float
    rate: float
    norm: str = "linf"
    tilt: float = 0.0


def size_of(norm: str, g: FloatArray, tilt: float = 0.0) -> FloatArray:
    """Return the norm with the name `norm` ("linf", "l1", "l2" or "hull") of each vector along the last axis of `g`.

    None of these norms decreases if an entry of g increases in absolute value.

    The norm "hull" of a vector g with first entry g_0 is ``max(|g_0|, (|g|_inf + tilt |g_0|) / (1 + tilt))``, where
    `tilt` is a parameter in [0, 1]; with ``tilt = 0`` it is the norm "linf".

    >>> [float(size_of(norm, np.array([3.0, -4.0]), 0.5)) for norm in ("linf", "l1", "l2", "hull")]
    [4.0, 7.0, 5.0, 3.6666666666666665]
    """
    sizes: FloatArray = np.abs(g)
    if norm == "l1":
        return np.asarray(sizes.sum(axis=-1))
    if norm == "l2":
        return np.asarray(np.sqrt((sizes * sizes).sum(axis=-1)))
    largest = sizes.max(axis=-1)
    if norm == "linf" or tilt == 0:
        return np.asarray(largest)
    return np.asarray(np.maximum(sizes[..., 0], (largest + tilt * sizes[..., 0]) / (1 + tilt)))


def dual_size(norm: str, v: FloatArray, tilt: float = 0.0) -> FloatArray:
    """Return the dual norm of each vector v along the last axis: the largest ``v'g`` over all vectors g of norm 1.

    The norm has the name `norm`; `size_of` defines the norm "hull", which has the parameter `tilt`.
    """
    sizes = np.abs(v)
    if norm == "l1":
        return np.asarray(sizes.max(axis=-1))
    if norm == "l2":
        return np.asarray(np.sqrt((sizes * sizes).sum(axis=-1)))
    total = sizes.sum(axis=-1)
    return np.asarray(total if norm == "linf" else np.maximum(total, (1 + tilt) * (total - sizes[..., 0])))


def score(x: FloatArray, y: FloatArray, tau: float, theta: FloatArray) -> FloatArray:
    """Return ``sum (1{y <= x'theta} - tau) x``, shape (d,): a (sub)gradient of the sum of check losses at theta.

    The rows have the predictors x, shape (n, d), and the responses y, shape (n,). The check losses are at level tau.
    """
    return np.asarray(((y <= x @ theta) - tau) @ x)


def loss(x: FloatArray, y: FloatArray, tau: float, theta: FloatArray) -> float:
    """Return the sum of the check losses, at level tau, of the rows (x, y) at theta."""
    u = y - x @ theta
    return float(tau * u.sum() - np.minimum(u, 0.0).sum())


def minimise(x: FloatArray, y: FloatArray, tau: float, radius: float) -> FloatArray:
    """Return a minimiser on ``|theta|_1 <= radius`` of the sum of check losses of ``y - x'theta``, by linear programs.

    Parameters
    ----------
    x : ndarray, shape (n, d)
        Predictors, the constant included.
    y : ndarray, shape (n,)
        Responses.
    tau : float
        Probability of the quantile, in (0, 1).
    radius : float
        Radius of the l1 ball, positive.

    Returns
    -------
    ndarray, shape (d,)
        One of the minimisers, if there are several; zeros if there are no rows.

    Examples
    --------
    >>> minimise(np.ones((5, 1)), np.array([0.1, 0.2, 0.3, 0.4, 0.9]), 0.7, 2.0).round(12)
    array([0.4])
    """
    n, d = x.shape
    if n == 0:
        return np.zeros(d)
    few = slice(None, None, -(-n // SAMPLE))
    theta, _ = _program(x[few], y[few], tau, np.zeros(d), 0.0, radius)
    if n <= SAMPLE:
        return theta
    return _certified(x, y, tau, radius, _newton(x, y, tau, radius, theta))


def curvature(x: FloatArray, y: FloatArray, theta: FloatArray) -> FloatArray:
    """Return an estimate, at theta, of the Hessian of the loss's expected value: a positive definite (d, d) matrix.

    The loss is the sum of check losses of the n rows (x, y). The Hessian is estimated from the rows with the smallest
    absolute residuals (`nearest`).
    """
    n, d = x.shape
    H = np.eye(d)
    if n:
        near, width = nearest(x, y, theta)
        H = x[near].T @ x[near] / (2 * width)
    return np.asarray(H + (1e-6 * np.trace(H) / d + 1e-3) * np.eye(d))


def nearest(x: FloatArray, y: FloatArray, theta: FloatArray) -> tuple[NDArray[np.intp], float]:
    """Return the indices of the rows with the smallest absolute residuals, and a bound on these residuals.

    The number of indices is ``4 d + n^(3/4)``, at most n. The residuals of the rows (x, y) are taken at theta. The
    bound is the larger of two numbers: the largest of these absolute residuals, and (d + 1) / (n + 1), for n rows and d
    predictors.
    """
    n, d = x.shape
    away = np.abs(y - x @ theta)
    count = min(n, 4 * d + int(n**0.75))
    near = np.argpartition(away, count - 1)[:count]
    return near, max(float(away[near].max()), (d + 1) / (n + 1))


def _newton(x: FloatArray, y: FloatArray, tau: float, radius: float, theta: FloatArray) -> FloatArray:
    """Return theta after at most `NEWTON` Newton steps toward the minimiser of the rows' sum of check losses.

    A step is taken only if it reduces the l1 norm of the score by at least a tenth and stays in the ball ``|theta|_1 <=
    radius``.
    """
    now = score(x, y, tau, theta)
    for _ in range(NEWTON):
        step = np.linalg.solve(curvature(x, y, theta), now)
        trial = theta - step
        then = score(x, y, tau, trial)
        if np.abs(trial).sum() > radius or np.abs(then).sum() > 0.9 * np.abs(now).sum():
            break
        theta, now = trial, then
    return theta


def _certified(x: FloatArray, y: FloatArray, tau: float, radius: float, theta: FloatArray) -> FloatArray:
    """Return the minimiser on ``|theta|_1 <= radius`` of the sum of check losses, by linear programs.

    Each program keeps the check losses of some of the rows (x, y), at first of the rows with the smallest absolute
    residuals at `theta`. For every other row, a linear function replaces the check loss; this function is equal to the
    check loss wherever the residual has the same sign as at `theta`, and smaller elsewhere. So the minimum of the
    program is a lower bound. The search ends if no replaced row has another sign at the solution, or if the best loss
    is close to the lower bound (`TOLERANCE`). Otherwise, the check losses of rows with another sign are kept in the
    next program, too. After `ROUNDS` programs, the best theta so far is returned.
    """
    u = y - x @ theta
    below, weight = u <= 0, int(min(WORST, 500 + 4 * np.abs(score(x, y, tau, theta)).sum()))
    inside = np.zeros(len(y), dtype=bool)
    inside[np.argpartition(np.abs(u), min(weight, len(y) - 1))[:weight]] = True
    best, least = theta, loss(x, y, tau, theta)
    for _ in range(ROUNDS):
        out = np.where(inside, 0.0, below - tau)
        bound_theta, bound = _program(x[inside], y[inside], tau, out @ x, -float(out @ y), radius)
        u = y - x @ bound_theta
        value = float(tau * u.sum() - np.minimum(u, 0.0).sum())
        if value <= least:
            best, least = bound_theta, value
        wrong = np.flatnonzero(((u <= 0) != below) & ~inside & (u != 0))
        if len(wrong) == 0 or least - bound <= TOLERANCE * len(y):
            break
        if len(wrong) > WORST:
            wrong = wrong[np.argpartition(-np.abs(u[wrong]), WORST)[:WORST]]
        inside[wrong] = True
    return best


def _program(
    x: FloatArray, y: FloatArray, tau: float, linear: FloatArray, constant: float, radius: float
) -> tuple[FloatArray, float]:
    """Return the minimiser and the minimum of ``loss + linear' theta + constant`` on ``|theta|_1 <= radius``.

    `loss` is the sum of the check losses of the rows (x, y) for the tau-quantile, and `linear` a vector, shape (d,).
    The dual program is solved: maximise ``a'y - radius lambda`` over a vector a, with one entry in [tau - 1, tau] for
    each row, and a number lambda, such that ``|x'a - linear|_inf <= lambda``. theta is computed from the multipliers
    of the constraints. If the solver fails, zeros and -inf are returned.
    """
    n, d = x.shape
    both = np.vstack([np.column_stack([x.T, -np.ones(d)]), np.column_stack([-x.T, -np.ones(d)])])
    solved = scipy.optimize.linprog(
        np.append(-y, radius),
        A_ub=both,
        b_ub=np.concatenate([linear, -linear]),
        bounds=np.vstack([np.tile([tau - 1, tau], (n, 1)), [0.0, np.inf]]),
        method="highs-ds",
    )
    if solved.status != 0:
        return np.zeros(d), -np.inf
    pull = np.asarray(solved.ineqlin.marginals)
    theta = pull[d:] - pull[:d]
    return theta * min(1.0, radius / max(float(np.abs(theta).sum()), radius)), constant - float(solved.fun)
