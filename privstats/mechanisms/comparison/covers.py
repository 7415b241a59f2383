r"""Sets of known volume that contain a level set of a residual norm on the l1 ball, with uniform draws from the sets.

Notation: for a matrix A and a vector b, the residual is ``e = A theta - b``, its norm is ``g = ||e||``, and the l1
ball of radius t is ``|theta|_1 <= t``. For any vector y of dual norm at most 1, with ``c = A'y`` and ``mu = |c|_inf``,
the norm is exactly the sum

    g = G(t) + mu (t - |theta|_1) + sum_j (mu |theta_j| - c_j theta_j) + (||e|| + y'e),      G(t) = b'y - mu t,

and every summand after G(t) is non-negative on the ball. Hence ``g >= G(t)`` for every such y (weak duality). On a
level set ``g <= gamma``, the sum of the summands after G(t) is at most ``gamma - G(t)``, and so is the sum of any
selection of these summands. The function `corner` selects summands and computes from this inequality a `Cover`, which
contains the level set. The function `nested` computes covers from bounds on entries of e and of theta. The function
`dual` returns a vector y with a large lower bound G(t).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import gammaln

from privstats.numerics.law import FloatArray, Rng

# in a factorisation of the matrix A, pivots below this share of the first pivot count as zero; the share affects only
# the size of covers
RANK = 1e-11
ULP = float(np.finfo(float).eps)
TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True, eq=False)
class Cover:
    r"""Set that contains a level set: all theta for which ``M theta - shift`` lies in a product of three simple sets.

    The level set lies in the l1 ball ``|theta|_1 <= t``. It is the set where ``||A theta - b|| <= gamma``, or a level
    set of a squared loss. A theta - b is called the residual. M is an invertible (d, d) matrix and `shift` a vector.
    The d coordinates of ``M theta - shift`` are divided among the three sets, in this order. The positive numbers
    gamma, curve, rise and t, called sizes, are arguments of the methods, so that one cover serves many level sets.

    1. A ball of radius gamma in the residual's norm, for the first `balls` coordinates. These coordinates are entries
      of the residual or, if the norm is l2, of a rotation of the residual.
    2. A corner set, for a vector w of the next k = `curved` coordinates and for m further coordinates z_i, called
      linear coordinates. Each z_i is ``anchor_i gamma + plus_i x_i`` or ``anchor_i gamma - minus_i x_i`` for a number
      ``x_i >= 0``, where `anchor`, `plus` and `minus` are fields. In the corner set, ``sum_i x_i + |w|^2 / curve <=
      rise``. By Dirichlet's integral, its volume is ``(pi curve)^(k/2) rise^(m + k/2) / Gamma(m + k/2 + 1) * prod_i
      (plus_i + minus_i)``.
    3. The l1 ball of radius t, for the remaining coordinates, which are entries theta_j of theta. If `slack` is not
      empty, a simplex replaces this ball: with ``delta_j = rise |slack_j|`` and sign_j the sign of slack_j, the
      numbers ``sign_j theta_j + delta_j`` are non-negative, and their sum is at most ``t + sum_j delta_j``.

    If `slope` is positive, the last linear coordinate is sheared. Let J be the set of the indices j for which theta_j
    itself is a coordinate of ``M theta - shift``. The last linear coordinate is ``sum_{j not in J} c_j theta_j`` with
    a vector c, the argument of `corner`. From this sum, ``slope (t - sum_{j in J} |theta_j|)`` is subtracted before
    the corner set limits the coordinate. The subtracted term depends on other coordinates only, so the volume does not
    change.
    """

    norm: str
    M: FloatArray
    shift: FloatArray
    balls: int
    curved: int
    plus: FloatArray
    minus: FloatArray
    anchor: FloatArray
    slope: float
    # for each coordinate theta_j of the points of the simplex, a number slack_j with ``sign(slack_j) theta_j >= -rise
    # |slack_j|``; the array is empty if the l1 ball is used in place of a simplex
    slack: FloatArray
    signs: FloatArray  # for each row of the matrix M: 1 if the row selects a single entry of theta, else 0

    def log_volume(self, gamma: FloatArray, curve: FloatArray, rise: FloatArray, t: FloatArray) -> FloatArray:
        """Return the log volumes, shape (n,), of the covers of n level sets.

        Level set i is ``||A theta - b|| <= gamma_i, |theta|_1 <= t_i`` for a matrix A and a vector b, or a level set
        of a squared loss on the ball ``|theta|_1 <= t_i``. Its cover has the sizes gamma_i, curve_i, rise_i and t_i
        (see `Cover`).
        """
        m, k, d = len(self.plus), self.curved, len(self.M)
        gamma, curve, rise = (np.maximum(level, TINY) for level in (gamma, curve, rise))
        rest = d - m - k - self.balls
        value = np.full(gamma.shape, -np.linalg.slogdet(self.M)[1] + log_ball(self.norm, self.balls))
        value += np.log(self.plus + self.minus).sum() - gammaln(m + k / 2 + 1) - gammaln(rest + 1)
        value += self.balls * np.log(gamma)
        value += rest * np.log(t + rise * np.abs(self.slack).sum() if self.slack.size else 2.0 * t)
        if k:
            value += k / 2 * (math.log(math.pi) + np.log(curve))
        return value + (m + k / 2) * np.log(rise) if m + k else value

    def draw(self, rng: Rng, gamma: FloatArray, curve: FloatArray, rise: FloatArray, t: FloatArray) -> FloatArray:
        """Return n independent uniform points, shape (n, d): one point of the cover of each of n level sets.

        Level set i is ``||A theta - b|| <= gamma_i, |theta|_1 <= t_i``, or a level set of a squared loss. The points in
        the three sets of `Cover` are drawn independently. With the notation there, the corner set is ``sum_i x_i +
        |w|^2 / curve <= rise``, with k entries of w. The x_i, ``|w|^2 / curve`` and the difference between the two
        sides are `rise` times a Dirichlet vector, with parameter k/2 for ``|w|^2 / curve`` and 1 for each x_i and for
        the difference.
        """
        size, m, k = len(gamma), len(self.plus), self.curved
        rest = len(self.M) - m - k - self.balls
        parts = [unit_ball(rng, self.norm, size, self.balls) * gamma[:, None]]
        if m + k:
            x = rng.standard_gamma(1.0, (size, m + 1))
            bend = rng.standard_gamma(k / 2, size) if k else np.zeros(size)
            share = rise / (x.sum(axis=1) + bend)
            parts.append(directions(rng, size, k) * np.sqrt(curve * bend * share)[:, None])
            side = np.where(
                rng.uniform(0.0, 1.0, (size, m)) * (self.plus + self.minus) < self.plus, self.plus, -self.minus
            )
            parts.append(self.anchor * gamma[:, None] + side * x[:, :m] * share[:, None])
        if self.slack.size:
            delta = rise[:, None] * np.abs(self.slack)
            x = rng.standard_gamma(1.0, (size, rest + 1))
            x *= ((t + delta.sum(axis=1)) / x.sum(axis=1))[:, None]
            parts.append(np.sign(self.slack) * (x[:, :rest] - delta))
        else:
            parts.append(unit_ball(rng, "l1", size, rest) * t[:, None])
        z = np.concatenate(parts, axis=1)
        if self.slope > 0.0:
            z[:, self.balls + k + m - 1] += self.slope * (t - np.abs(z) @ self.signs)
        return np.asarray(np.linalg.solve(self.M, (self.shift + z).T).T, dtype=float)


def directions(rng: Rng, size: int, k: int) -> FloatArray:
    """Return `size` independent uniform points of the unit sphere in k dimensions, shape (size, k)."""
    normal = np.asarray(rng.standard_normal((size, k)), dtype=float)
    return normal / np.linalg.norm(normal, axis=1, keepdims=True) if k else normal


def unit_ball(rng: Rng, norm: str, size: int, k: int) -> FloatArray:
    """Return `size` independent uniform points of the unit ball of a norm in k dimensions, shape (size, k).

    `norm` is the name of the norm: "l1", "l2" or "linf".
    """
    if norm == "linf":
        return np.asarray(rng.uniform(-1.0, 1.0, (size, k)), dtype=float)
    if norm == "l2":
        return np.asarray(directions(rng, size, k) * rng.uniform(0.0, 1.0, (size, 1)) ** (1.0 / max(k, 1)))
    x = rng.standard_gamma(1.0, (size, k + 1))
    return np.asarray((2.0 * rng.integers(0, 2, (size, k)) - 1.0) * x[:, :k] / x.sum(axis=1, keepdims=True))


def log_ball(norm: str, k: int) -> float:
    """Return the logarithm of the volume of the unit ball of a norm ("l1", "l2" or "linf") in k dimensions."""
    if norm == "l2":
        return k / 2 * math.log(math.pi) - math.lgamma(k / 2 + 1)
    return k * math.log(2.0) - (math.lgamma(k + 1) if norm == "l1" else 0.0)


def norm_of(norm: str, e: FloatArray) -> FloatArray:
    """Return the norm named `norm` ("l1", "l2" or "linf") of each row of the array e."""
    order = {"l1": 1, "l2": 2, "linf": np.inf}[norm]
    return np.asarray(np.linalg.norm(e, order, axis=-1), dtype=float)


def nested(norm: str, A: FloatArray, b: FloatArray) -> list[Cover]:
    """Return rank(A) + 1 covers: sets that contain a level set of the residual norm ||A theta - b|| on the l1 ball.

    The level set is ``||A theta - b|| <= gamma, |theta|_1 <= t``, for theta with d entries. Cover number k limits only
    k entries of the residual A theta - b and d - k entries of theta: this cover is the set ``||(A theta - b)_I|| <=
    gamma, |theta_J|_1 <= t``, with a set I of k indices and a set J of d - k indices. Cover 0 is the l1 ball. The
    covers with 0 < k < d are for level sets that are thin in k directions and wider than the ball in all other
    directions, for example if A is singular.

    I and J are chosen so that the matrix of the rows A_I and the unit vectors of J (M in `Cover`) has a large
    determinant. If the norm is l1 or linf, A must be symmetric and positive semidefinite; a pivoted Cholesky
    factorisation chooses I, and J has the other indices. If the norm is l2, the residual may be rotated; a pivoted QR
    factorisation gives the rotation and J.
    """
    d = A.shape[1]
    if norm == "l2":
        Q, R, order = scipy.linalg.qr(A, mode="economic", pivoting=True)
        size, rows, offset = np.abs(np.diag(R)), Q.T @ A, Q.T @ b
    else:
        order, size = principal(A)
        rows, offset = A[order], b[order]
    rank = int(np.sum(size > RANK * size[0])) if size.size and size[0] > 0.0 else 0
    none = np.zeros(0)
    covers = []
    for k in range(rank + 1):
        M = np.concatenate([rows[:k], np.eye(d)[order[k:]]])
        shift = np.concatenate([offset[:k], np.zeros(d - k)])
        covers.append(Cover(norm, M, shift, k, 0, none, none, none, 0.0, none, np.zeros(d)))
    return covers


def principal(A: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
    """Return the order of the coordinates in a pivoted Cholesky factorisation of A, and the pivots, shape (d,) each."""
    S, order, pivots = A.copy(), list(range(len(A))), []
    for k in range(len(A)):
        j = k + int(np.argmax(np.diag(S)[k:]))
        S[[k, j]], order[k], order[j] = S[[j, k]], order[j], order[k]
        S[:, [k, j]] = S[:, [j, k]]
        pivots.append(max(S[k, k], 0.0))
        if S[k, k] > 0.0:
            S[k + 1 :, k + 1 :] -= np.outer(S[k + 1 :, k], S[k, k + 1 :]) / S[k, k]
    return np.array(order), np.array(pivots)


def corner(
    norm: str,
    A: FloatArray,
    b: FloatArray,
    y: FloatArray,
    c: FloatArray,
    gamma: float,
    curve: float,
    rise: float,
    t: float,
) -> Cover:
    r"""Return a `Cover`, a set that contains the level set {||A theta - b|| <= gamma, |theta|_1 <= t}.

    The cover is small if the minimum of ||A theta - b|| on the ball |theta|_1 <= t lies on the boundary of the ball.

    The argument y is a vector of dual norm at most 1, and c = A'y. Let e = A theta - b be the residual, mu = |c|_inf,
    and ``G(t) = b'y - mu t`` the lower bound of ||e|| on the ball. The arguments `curve` and ``rise >= gamma - G(t)``
    are sizes of the corner set of the cover. By the formula in the module's docstring, ``||e|| - G(t)`` is a sum of
    non-negative terms; on the level set the sum is at most `rise`. The coordinates of the cover are computed from
    these terms:

    * A term ``mu |theta_j| - c_j theta_j`` gives a linear coordinate or a limit on theta_j (the field `slack`), if
      theta_j is a coordinate of the cover. All other such terms, together with ``mu (t - |theta|_1)``, can give one
      more linear coordinate.
    * If the norm is l1, the term ``||e|| + y'e`` is ``sum_j (|e_j| + y_j e_j)``. If the norm is linf, this term, with
      gamma in place of ``||e||``, is at least ``sum_j |y_j| (gamma + sign(y_j) e_j)``. Each summand of these sums is
      non-negative and can give a linear coordinate.
    * If the norm is l2, let w be a projection of the residual onto directions orthogonal to y, and let a = -y'e. On
      the level set, ``|w|^2 <= gamma^2 - a^2 <= 2 gamma (gamma - a)``. The terms except ``||e|| + y'e`` add up to ``a
      - G(t)``. So these terms plus ``|w|^2 / (2 gamma)`` are at most ``gamma - G(t)``; hence curve = 2 gamma.

    For a squared loss (see `level_sets.sample_loss`), the norm is l2, y = 0, curve = 2, and c is minus the gradient of
    the loss at some point, in place of A'y.

    Of the possible coordinates, d are chosen by a pivoted QR factorisation, so that the matrix M has a large
    determinant. The choice affects only the speed.
    """
    d = A.shape[1]
    mu = float(np.abs(c).max())
    share = math.e / d
    with np.errstate(divide="ignore"):
        if norm == "linf":
            plus, minus = np.where(y > 0, 1 / np.abs(y), 0.0), np.where(y < 0, 1 / np.abs(y), 0.0)
        else:
            plus, minus = 1 / np.maximum(1 + y, 0.0), 1 / np.maximum(1 - y, 0.0)
        up, down = 1 / np.maximum(mu - c, 0.0), 1 / np.maximum(mu + c, 0.0)
        wide = 2 * gamma * (1.0 if norm == "linf" else share)
        tight_e = share * rise * (plus + minus)
        tight_e[(tight_e == 0.0) | ~np.isfinite(tight_e)] = np.inf
        tight_x = share * rise * (up + down)
    if norm == "l2":
        tight_e, wide = np.full(len(A), np.inf), math.sqrt(curve * rise * 2 * math.pi * share)
    rows = np.concatenate(
        [A / np.minimum(tight_e, wide)[:, None], np.eye(d) / np.minimum(tight_x, 2 * t * share)[:, None]]
    )
    rows = np.concatenate([rows, c[None] / (share * rise)])
    picked = scipy.linalg.qr(rows.T, mode="r", pivoting=True)[1][:d]
    kept, free, top = (
        picked[picked < len(A)],
        picked[(picked >= len(A)) & (picked < len(A) + d)] - len(A),
        len(A) + d in picked,
    )
    hold, loose = free[tight_x[free] < 2 * t * share], free[tight_x[free] >= 2 * t * share]
    solved = np.setdiff1d(np.arange(d), free)
    last = np.zeros(d)
    last[solved] = c[solved]
    if norm == "l2":
        top = bool(np.any(last != 0.0))
        spare = scipy.linalg.null_space(last[None, solved]) if top else np.eye(len(solved))
        Q = scipy.linalg.qr(A[:, solved] @ spare, mode="economic")[0]
        w, ball, strong = (Q.T @ A, Q.T @ b), np.zeros(0, int), np.zeros(0, int)
    else:
        w = (np.zeros((0, d)), np.zeros(0))
        ball, strong = kept[tight_e[kept] >= wide], kept[tight_e[kept] < wide]
    M = np.concatenate([A[ball], w[0], A[strong], np.eye(d)[hold], *([last[None]] if top else []), np.eye(d)[loose]])
    one = np.ones(int(top))
    m = len(hold) + int(top)
    shift = np.concatenate([b[ball], w[1], b[strong], np.zeros(m + len(loose))])
    slack = np.where(c > 0, down, -up)[loose]
    slack = slack if rise * np.abs(slack).sum() < t else np.zeros(0)
    anchor = np.concatenate([-np.sign(y[strong]) if norm == "linf" else np.zeros(len(strong)), np.zeros(m)])
    signs = np.concatenate(
        [np.zeros(len(ball) + len(w[0]) + len(strong)), np.ones(len(hold)), 0 * one, np.ones(len(loose))]
    )
    return Cover(
        norm, M, shift, len(ball), len(w[0]),
        np.concatenate([plus[strong], up[hold], 0 * one]), np.concatenate([minus[strong], down[hold], one]),
        anchor, mu if top else 0.0, slack, signs,
    )  # fmt: skip


def dual(norm: str, A: FloatArray, b: FloatArray, radius: float) -> FloatArray:
    """Return a vector y, shape (d,), of dual norm at most 1 with a large value of b'y - radius |A'y|_inf.

    The dual norm is the dual of the norm ``||.||`` that `norm` names. For every vector y of dual norm at most 1, the
    value is a lower bound of ``||A theta - b||`` on the ball ``|theta|_1 <= radius``. So the solvers that search for
    the largest value need not be accurate. y is zero if A and b are zero, or if the linear program for the norms l1 and
    linf is not solved.
    """
    d = len(b)
    scale = max(float(np.abs(A).max()) * radius, float(np.abs(b).max()))
    if scale == 0.0:
        return np.zeros(d)
    A, b = A / scale * radius, b / scale
    if norm == "l2":
        y = b - A @ lasso(A, b, 1.0)
        return y / max(float(np.linalg.norm(y)), ULP)
    ones = np.ones((d, 1)) if norm == "linf" else np.eye(d)
    m = ones.shape[1]
    upper = np.concatenate([np.c_[A, -A, -ones], np.c_[-A, A, -ones], np.r_[np.ones(2 * d), np.zeros(m)][None]])
    solved = scipy.optimize.linprog(np.r_[np.zeros(2 * d), np.ones(m)], upper, np.r_[b, -b, 1.0], method="highs-ds")
    if solved.status != 0:
        return np.zeros(d)
    lagrange = np.asarray(solved.ineqlin.marginals, dtype=float)
    y = lagrange[:d] - lagrange[d : 2 * d]
    if norm == "linf":
        return y / max(1.0, float(np.abs(y).sum()))
    # y_j is the sign of the residual b - A theta in row j, or, if this residual is zero, the clipped Lagrange
    # multiplier
    left = b - A @ (solved.x[:d] - solved.x[d : 2 * d])
    tries = [np.where(np.abs(left) > zero, np.sign(left), np.clip(y, -1.0, 1.0)) for zero in (1e-13, 1e-7, np.inf)]
    return max(tries, key=lambda y: float(b @ y - np.abs(A.T @ y).max()))


def lasso(A: FloatArray, b: FloatArray, radius: float) -> FloatArray:
    """Return an approximate minimiser of ||A theta - b||_2 on the l1 ball of the given radius.

    The accuracy of the minimiser affects only the tightness of the bounds that are computed with it.
    """
    d = A.shape[1]
    free = np.asarray(scipy.linalg.lstsq(A, b)[0], dtype=float)
    if np.abs(free).sum() <= radius:
        return free
    heavy = 1e3 * max(float(np.abs(A).max()), float(np.abs(b).max()) / radius)
    stack = np.concatenate([np.c_[A, -A, np.zeros(len(A))], np.full((1, 2 * d + 1), heavy)])
    try:
        x = scipy.optimize.nnls(stack, np.r_[b, heavy * radius])[0]
    except RuntimeError:
        return np.zeros(d)
    theta = x[:d] - x[d : 2 * d]
    theta = theta * min(1.0, radius / max(float(np.abs(theta).sum()), radius))
    on = np.flatnonzero(np.abs(theta) > 1e-9 * radius)
    sigma = np.sign(theta[on])
    gram = A[:, on].T @ A[:, on]
    # the Gram matrix is divided by its largest entry, because the coefficients sigma of the constraint ``sigma'theta =
    # radius`` are 1 or -1; this improves the condition number of the system
    even = max(float(np.abs(gram).max(initial=0.0)), TINY)
    system = np.block([[gram / even, sigma[:, None]], [sigma[None], np.zeros((1, 1))]])
    polished = np.zeros(d)
    polished[on] = scipy.linalg.lstsq(system, np.r_[A[:, on].T @ b / even, radius])[0][:-1]
    valid = np.abs(polished).sum() <= radius * (1 + 1e-12)
    return polished if valid and np.linalg.norm(A @ polished - b) <= np.linalg.norm(A @ theta - b) else theta
