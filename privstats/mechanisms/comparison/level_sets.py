r"""Exact draws from a density on the l1 ball, by rejection from level sets, without a Markov chain.

A Markov chain would weaken the privacy guarantee, because the law of its last state is not exactly the stationary law.

The target density is proportional to ``exp(-s(theta))``, with a potential s that is at least s0 on a set. Because of
``exp(-(s - s0)) = int_0^inf exp(-h) 1{s <= s0 + h} dh``, theta has the target density if (h, theta) has a density
proportional to ``exp(-h)`` on the pairs with ``s(theta) <= s0 + h``. The number h is called the height.

The ball is divided into shells of |theta|_1, and the range of the heights into bins. A cell is a shell together with a
bin [h0, h1]. For every cell, the level set ``s <= s0 + h1`` is covered by a set of known volume, the cover. A cell is
drawn with probability proportional to its mass, ``(exp(-h0) - exp(-h1)) exp(-s0) vol(cover)``. Then h is drawn from the
density proportional to exp(-h) on the bin, and theta uniformly from the cover. The pair (h, theta) is accepted if theta
lies in the shell and ``s(theta) <= s0 + h``; otherwise cell, h and theta are drawn again. The accepted pair has the
target law, for all shells, bins and covers, provided that s0 is a lower bound of s on the shell and that each cover
contains its level set.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from privstats.mechanisms.comparison.covers import ULP, Cover, corner, dual, lasso, nested, norm_of
from privstats.numerics.law import FloatArray, Rng

FIRST, MOST = 32, 1 << 15  # numbers of proposals in the first batch and in the largest batch
# covers of the level sets ``s <= s0 + h`` of a potential s with the lower bound s0 are computed by `corner` at these
# heights h, each divided by the number d of coefficients
LEVELS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
TINY = float(np.finfo(float).tiny)
# upper limit of the factor `rate` of a log density; up to this limit, float64 is precise enough for 1e7 rows, and a
# lower rate is more private
STEEP = 1e4
# Heights above a limit form one bin, in which the whole l1 ball is the cover. The limit increases with FLAT, so that a
# proposal has a height above the limit with a probability of at most about exp(-FLAT). FLAT affects only the speed.
FLAT = 40.0


@dataclass(frozen=True, eq=False)
class LevelCells:
    """Cells of a density, each a shell ``inner < |theta|_1 <= t`` and a bin of heights ``h0 <= h < h1``.

    A height is a difference between the potential (minus the log density) and its lower bound `floor` on the shell. The
    points of the shell with heights up to h1 form the level set of the cell. The numbers `gamma`, `curve`, `rise` and
    `t` are the sizes of the `Cover` that contains this level set; the sizes `gamma`, `curve` and `rise` have no effect
    if h1 is infinite. All arrays have the shape (cells,).
    """

    inner: FloatArray
    t: FloatArray
    floor: FloatArray  # lower bound s0 of the potential on the shell
    h0: FloatArray
    h1: FloatArray
    gamma: FloatArray
    curve: FloatArray
    rise: FloatArray


@dataclass(frozen=True, eq=False)
class Union:
    """Rejection sampler of a density on the l1 ball, which is divided into cells (see the module's docstring).

    A cell consists of a shell, an interval of |theta|_1, and a bin, an interval of heights. A height is a difference
    between the potential (minus the log density) and its lower bound on the shell. Each cell has a cover, a set of
    known volume that contains the cell's level set.

    Parameters
    ----------
    cells : LevelCells
        The cells.
    which : ndarray of int, shape (cells,)
        Index in `covers` of the cover of each cell.
    total : ndarray, shape (cells,)
        Cumulative sums of the weights of the cells. A cell is proposed with probability proportional to its weight.
    covers : list of Cover
        The covers; the first is the l1 ball.
    potential : callable
        Function that returns the potential at each row of an array of points theta, shape (n, d).
    grain : float
        Bound on the rounding errors of the potential.
    """

    cells: LevelCells
    which: NDArray[np.intp]
    total: FloatArray
    covers: list[Cover]
    potential: Callable[[FloatArray], FloatArray]
    grain: float

    def draw(self, rng: Rng, size: int = 1) -> FloatArray:
        """Return independent exact draws of theta from the density, shape (size, d).

        The draws are the first `size` accepted proposals in a sequence of independent proposals, which are made in
        batches to save time. A proposal is a random cell, a height h in the cell's bin and a point theta of the cell's
        cover. The proposal is accepted if theta lies in the cell's shell and the potential at theta is at most h plus
        the potential's lower bound on the shell. The tolerance `grain`, a bound on rounding errors, is added to this
        limit, because large rounding errors could otherwise lead to the rejection of all proposals. If rounding errors
        are small, the tolerance has a negligible effect on the density.
        """
        cells, d = self.cells, len(self.covers[0].M)
        radius, room = float(cells.t.max()), 1.0 + 8.0 * d * ULP
        found, batch = np.empty((0, d)), FIRST
        while len(found) < size:
            u = rng.uniform(0.0, 1.0, batch) * self.total[-1]
            at = np.searchsorted(self.total, u, side="right").clip(0, len(self.total) - 1)
            h = cells.h0[at] - np.log1p(rng.uniform(0.0, 1.0, batch) * np.expm1(cells.h0[at] - cells.h1[at]))
            theta = np.empty((batch, d))
            for k in np.unique(self.which[at]):
                here = np.flatnonzero(self.which[at] == k)
                theta[here] = self.covers[k].draw(
                    rng, *(level[at[here]] for level in (cells.gamma, cells.curve, cells.rise, cells.t))
                )
            length = np.abs(theta).sum(axis=1)
            # cover 0 is the whole ball; its uniform points are mapped along rays to uniform points of the shell
            flat = self.which[at] == 0
            share = (length[flat] / cells.t[at[flat]]) ** d
            hole = (np.maximum(cells.inner[at[flat]], 0.0) / cells.t[at[flat]]) ** d
            theta[flat] *= (cells.t[at[flat]] * (hole + (1.0 - hole) * share) ** (1.0 / d) / length[flat])[:, None]
            length = np.abs(theta).sum(axis=1)
            kept = (length > cells.inner[at]) & (length <= np.where(cells.t[at] == radius, radius * room, cells.t[at]))
            kept &= self.potential(theta) <= cells.floor[at] + h + self.grain
            found = np.concatenate(
                [found, theta[kept] * np.minimum(1.0, radius / np.maximum(length[kept], radius))[:, None]]
            )
            batch = min(2 * batch, MOST)
        return found[:size]


def sample_gradient(rng: Rng, A: FloatArray, b: FloatArray, rate: float, norm: str, radius: float) -> FloatArray:
    r"""Draw theta from the density proportional to ``exp(-rate ||A theta - b|| / (1 + |theta|_1))`` on the l1 ball.

    This is the K-norm gradient mechanism of least squares (Reimherr and Awan 2019, Theorem 3.1), for a sensitivity
    of the gradient that depends on theta and is proportional to ``1 + |theta|_1``.

    The sampler divides the ball into shells ``t0 < |theta|_1 <= t1`` (see the module's docstring). Let the potential s
    be minus the exponent of the density. Where s is at most r in a shell, the norm ``||A theta - b||`` is at most ``r
    (1 + t1) / rate``; `covers` computes sets that contain these theta. The lower bound s0 of s on the shell is ``rate
    / (1 + t1)`` times a lower bound of the norm on the shell, for which there are two formulas:

    * ``b'y - t1 |A'y|_inf`` for any vector y of dual norm at most 1, by weak duality;
    * ``(t0 - |p|_1) / kappa - ||A p - b||`` for any point p, if ``|v|_1 <= kappa ||A v||`` for all vectors v.

    Parameters
    ----------
    rng : Rng
        Source of randomness.
    A : ndarray, shape (d, d)
        Symmetric and positive semidefinite; may be singular.
    b : ndarray, shape (d,)
        The gradient at theta is ``A theta - b``.
    rate : float
        Positive: for eps-DP, eps / 4 if one row changes the gradient by at most ``2 (1 + |theta|_1)``. A rate above 1e4
        is replaced by 1e4, which is more private.
    norm : {'l1', 'l2', 'linf'}
        The norm ||.|| of the gradient.
    radius : float
        Radius of the l1 ball, positive.

    Returns
    -------
    ndarray, shape (d,)
        One exact draw.
    """
    return gradient_union(A, b, min(rate, STEEP), norm, radius).draw(rng)[0]


def gradient_union(A: FloatArray, b: FloatArray, rate: float, norm: str, radius: float) -> Union:
    """Return a sampler on the l1 ball with log density ``-rate ||A theta - b|| / (1 + |theta|_1)`` plus a constant.

    The ball has the radius `radius`, and `norm` names the norm ||.||.
    """
    d = len(b)
    edges = shells(d, radius)
    inner, outer = edges[:-1].copy(), edges[1:]
    inner[0] = -1.0
    size, y = residual_bounds(norm, A, b, inner, outer, radius)
    fine = min(rate * float(size[-1]) / (1.0 + radius), 1e12)
    if np.any(y != 0.0) and fine > 1.0:  # thin shells: most of the probability may lie near the ball's boundary
        thin = radius - (radius - max(inner[-1], 0.0)) * 0.5 ** np.arange(1, math.ceil(math.log2(fine)) + 1)
        inner, outer = np.append(inner, thin), np.concatenate([outer[:-1], thin, outer[-1:]])
        size = np.concatenate([size[:-1], np.maximum(size[-1], lower(A, b, y, outer[len(size) - 1 :]))])
    floor = rate * size / (1.0 + outer)
    covers = nested(norm, A, b)

    def levels(h: FloatArray, shell: NDArray[np.intp]) -> tuple[FloatArray, FloatArray, FloatArray]:
        gamma = (floor[shell] + h) * (1.0 + outer[shell]) / rate
        return gamma, 2.0 * gamma, np.maximum(gamma - lower(A, b, y, outer[shell]), 0.0)

    if np.any(y != 0.0):
        c = A.T @ y
        for h in LEVELS:
            gamma, curve, rise = (float(x[0]) for x in levels(np.array([h * d]), np.array([len(outer) - 1])))
            covers.append(corner(norm, A, b, y, c, gamma, curve, rise, radius))

    def potential(theta: FloatArray) -> FloatArray:
        return rate * norm_of(norm, theta @ A - b) / (1.0 + np.abs(theta).sum(axis=-1))

    return Union(*lay_out(inner, outer, floor, levels, covers), covers, potential, rate * grain(A, b, radius))


def sample_loss(rng: Rng, A: FloatArray, b: FloatArray, rate: float, radius: float) -> FloatArray:
    r"""Draw theta from the density proportional to ``exp(-rate (theta'A theta / 2 - b'theta))`` on the l1 ball.

    This is the exponential mechanism of least squares (McSherry and Talwar 2007, Theorem 6): a normal distribution
    truncated to the ball. Let B be a matrix with ``A = B'B``, p any point of the ball, ``c = b - A p``, and ``mu =
    |c|_inf``. Then

        loss(theta) = loss(p) + c'p - mu radius
                      + mu (radius - |theta|_1) + sum_j (mu |theta_j| - c_j theta_j) + |B (theta - p)|^2 / 2,

    where all terms of the second line are non-negative, so the first line is a lower bound of the loss. On a level set
    of the loss, the sum of the terms of the second line is bounded. So the level set lies in a `Cover`, a set whose
    points satisfy bounds on these terms. Proposed points theta are drawn from this cover. The size `curve` of the
    cover is 2, because the last term is ``|w|^2 / 2`` with ``w = B (theta - p)``.

    Parameters
    ----------
    rng : Rng
        Source of randomness.
    A : ndarray, shape (d, d)
        Symmetric and positive semidefinite; may be singular.
    b : ndarray, shape (d,)
        Coefficients of the linear part ``-b'theta`` of the loss.
    rate : float
        Positive: eps / (2 Delta) for a loss of sensitivity Delta. A rate above 1e4 is replaced by 1e4.
    radius : float
        Radius of the l1 ball, positive.

    Returns
    -------
    ndarray, shape (d,)
        One exact draw.
    """
    return loss_union(A, b, min(rate, STEEP), radius).draw(rng)[0]


def loss_union(A: FloatArray, b: FloatArray, rate: float, radius: float) -> Union:
    """Return a sampler on the l1 ball with log density ``-rate (theta'A theta / 2 - b'theta)`` plus a constant.

    The ball has the radius `radius`.
    """
    d = len(b)
    values, vectors = np.linalg.eigh(A)
    root = np.sqrt(np.maximum(values, 0.0))
    B = root[:, None] * vectors.T
    # Square roots of eigenvalues of A are raised to a positive limit, because the next line divides by these roots, and
    # A may be singular. The bounds on the loss below hold for any point p of the ball.
    lifted = np.maximum(root, 1e-4 * max(float(root.max()), math.sqrt(float(np.abs(b).max()) / radius), TINY))
    p = lasso(lifted[:, None] * vectors.T, vectors.T @ b / lifted, radius)
    c = b - A @ p
    mu = float(np.abs(c).max())
    slack = max(mu * radius - float(c @ p), 0.0)  # loss at the point p, minus the lower bound of the loss
    covers = nested("l2", B, B @ p)

    def levels(h: FloatArray, shell: NDArray[np.intp]) -> tuple[FloatArray, FloatArray, FloatArray]:
        rise = h / rate
        return np.sqrt(2.0 * rise), np.full(h.shape, 2.0), rise

    if mu * radius * rate > 1e-9:
        for h in LEVELS:
            gamma, curve, rise = (float(x[0]) for x in levels(np.array([h * d]), np.zeros(1, int)))
            covers.append(corner("l2", B, B @ p, np.zeros(d), c, gamma, curve, rise, radius))

    def potential(theta: FloatArray) -> FloatArray:
        step = theta - p
        return rate * (slack - step @ c + 0.5 * np.sum((step @ B.T) ** 2, axis=-1))

    return Union(
        *lay_out(np.array([-1.0]), np.array([radius]), np.zeros(1), levels, covers),
        covers,
        potential,
        rate * grain(A, b, radius),
    )


def lay_out(
    inner: FloatArray,
    outer: FloatArray,
    floor: FloatArray,
    levels: Callable[[FloatArray, NDArray[np.intp]], tuple[FloatArray, FloatArray, FloatArray]],
    covers: list[Cover],
) -> tuple[LevelCells, NDArray[np.intp], FloatArray]:
    """Combine shells of the l1 ball with bins of heights into cells, and choose the smallest cover of each cell.

    A shell is a set ``inner < |theta|_1 <= outer``. A height is a difference between the potential (minus the log
    density) and its lower bound on a shell. The bins are intervals that divide the range of the heights.

    Parameters
    ----------
    inner, outer : ndarray, shape (shells,)
        Lower and upper limits of |theta|_1 in the shells.
    floor : ndarray, shape (shells,)
        Lower bound s0 of the potential on each shell.
    levels : callable
        Function of two arrays: heights h and indices of shells. The function returns the arrays `gamma`, `curve` and
        `rise`, the sizes of a `Cover` that contains the points of the shell with heights up to h.
    covers : list of Cover
        The possible covers (sets that contain level sets); the first is the l1 ball.

    Returns
    -------
    LevelCells
        All cells: every shell with every bin of heights.
    ndarray of int, shape (cells,)
        Index of the smallest cover of each cell.
    ndarray, shape (cells,)
        Cumulative sums of the weights of the cells. A cell is proposed with probability proportional to its weight.
    """
    d = len(covers[0].M)
    every = np.arange(len(outer))
    near = levels(np.full(len(outer), float(d)), every)
    volumes = np.stack([cover.log_volume(*near, outer) for cover in covers]) - floor
    top = float(volumes[0].max() - volumes.min(axis=0).max()) + 2.0 * d + FLAT
    count = math.ceil(math.log(top / 0.5) / math.log1p(1.0 / d))
    edges = np.concatenate([[0.0], np.geomspace(0.5, top, count), [np.inf]])
    shell, bin_ = (index.ravel() for index in np.indices((len(outer), len(edges) - 1)))
    h0, h1, t = edges[bin_], edges[bin_ + 1], outer[shell]
    flat = ~np.isfinite(h1)
    gamma, curve, rise = levels(np.where(flat, top, h1), shell)
    volumes = np.stack([cover.log_volume(gamma, curve, rise, t) for cover in covers])
    volumes[1:, flat] = np.inf
    volumes[0] += np.log1p(-((np.maximum(inner[shell], 0.0) / t) ** d))
    which = np.argmin(volumes, axis=0)
    log_mass = volumes[which, np.arange(len(which))] - floor[shell] - h0 + np.log(-np.expm1(h0 - h1))
    total = np.cumsum(np.exp(log_mass - log_mass.max()))
    return LevelCells(inner[shell], t, floor[shell], h0, h1, gamma, curve, rise), which, total


def grain(A: FloatArray, b: FloatArray, radius: float) -> float:
    """Return a bound on the rounding errors of ||A theta - b|| and theta'(A theta - b) for all |theta|_1 <= radius.

    The bound holds for each of the norms l1, l2 and linf.
    """
    return 8.0 * len(b) * ULP * (1.0 + radius) * float(np.abs(A).max(axis=0).sum() * radius + np.abs(b).sum())


def shells(d: int, radius: float) -> FloatArray:
    """Return the values of |theta|_1, from 0 to `radius`, that divide the l1 ball of this radius into shells.

    The values ascend. From one value to the next, ``1 + |theta|_1`` increases by a factor of about ``1 + 1/d``.
    """
    count = math.ceil(max(1.0, math.log1p(radius) * d))
    edges = np.expm1(np.linspace(0.0, math.log1p(radius), count + 1))
    edges[-1] = radius
    return edges


def lower(A: FloatArray, b: FloatArray, y: FloatArray, t: FloatArray) -> FloatArray:
    """Return a lower bound of a norm ||A theta - b|| on the l1 ball |theta|_1 <= t, for each of n radii t, shape (n,).

    The bound is ``b'y - t |A'y|_inf`` minus its rounding error. By weak duality, the bound holds for every norm ||.||
    for which the vector y has a dual norm of at most 1.
    """
    slack = 4.0 * (len(b) + 4) * ULP
    value = float(b @ y) - slack * float(np.abs(b) @ np.abs(y))
    return value - t * (float(np.abs(A.T @ y).max()) + slack * float((np.abs(A).T @ np.abs(y)).max()))


def residual_bounds(
    norm: str, A: FloatArray, b: FloatArray, inner: FloatArray, outer: FloatArray, radius: float
) -> tuple[FloatArray, FloatArray]:
    """Return a lower bound of ||A theta - b|| for each shell of theta, and a vector y that gives such bounds.

    Shell i is the set ``inner[i] < |theta|_1 <= outer[i]``, and `norm` names the norm ||.||. The vector y, shape (d,),
    has dual norm at most 1. So, by weak duality, ``b'y - t |A'y|_inf`` is a lower bound for all |theta|_1 <= t; the
    function `lower` computes this bound. y is chosen for the l1 ball of radius `radius`, which contains all shells; y
    is zero if no positive bound is found.
    """
    d = len(b)
    solution = scipy.linalg.lstsq(A, b)[0]
    left = float(norm_of(norm, A @ solution - b)) + 8 * d * ULP * float(np.abs(b).sum() + np.abs(A).sum())
    y = np.zeros(d)
    if np.abs(solution).sum() > radius or left > 1e-9 * float(np.abs(b).max()):
        y = dual(norm, A, b, radius)
        y = y if lower(A, b, y, outer[-1:])[0] > 0.0 else np.zeros(d)
    bound = np.maximum(lower(A, b, y, outer), 0.0)
    if np.linalg.cond(A) < 1e8:
        inverse = np.linalg.inv(A)
        error = float(np.abs(inverse @ A - np.eye(d)).sum(axis=0).max()) + d * d * 1e-16 * float(
            np.abs(inverse).sum() * np.abs(A).sum()
        )
        spread = float(np.linalg.norm(inverse, 2))
        kappa = {
            "l1": float(np.abs(inverse).sum(axis=0).max()),
            "l2": min(math.sqrt(d) * spread, float(np.linalg.norm(inverse, axis=1).sum())),
            "linf": min(d * spread, float(np.abs(inverse).sum())),
        }[norm] / max(1.0 - error, ULP)
        bound = np.maximum(bound, (inner - float(np.abs(solution).sum())) / (kappa * (1 + 1e-9)) - left)
    return bound, y
