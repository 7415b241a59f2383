"""Norm, uniform draws and second moments of a convex body that contains the difference of any two rows' moments.

A row z in [-1, 1]^q contributes the moments ``t(z) = (z_j; 2 z_j^2; z_j z_k, j < k)``. Squares are multiplied by 2, so
that every coordinate of a difference ``u = t(z) - t(z')`` lies in [-2, 2]. The coordinates of u are the linear
coordinates u_j, the square coordinates u_jj and the cross-product coordinates u_jk. Let a_j = |u_j|, d_j = a_j - 1 and
(x)_+ = max(x, 0). A symmetric convex body containing all u can be the unit ball of a K-norm mechanism for sums of t(z).

The *body* K is the set of all u with (u_j, u_jj) in K_2 for all j, and (u_j, u_k, u_jk) in K_3 for all j < k:

* K_2: ``a_j <= 2`` and ``|u_jj| <= 2 - 2 (d_j)_+^2``; K_2 is the convex hull of {(z - z', 2 z^2 - 2 z'^2)};
* K_3: ``|u_jk| <= 2``, ``a_j + a_k + |u_jk| <= 4``; K_3 is the hull of {(z_j - z'_j, z_k - z'_k, z_j z_k - z'_j z'_k)}.

K contains every difference ``t(z) - t(z')``. For K_2, let a = |z - z'| for one entry z of the row. Then ``|2 z^2 - 2
z'^2| = 2 a |z + z'|`` with ``|z + z'| <= 2 - a``, and ``2 a (2 - a) = 2 - 2 (a - 1)^2``. For K_3, let s_i = (z_i +
z'_i) / 2 and r_i = (z_i - z'_i) / 2, so that ``|s_i| <= 1 - |r_i|`` and a_i = 2 |r_i|. Then ``|u_jk| = 2 |s_j r_k + s_k
r_j| <= a_j + a_k - a_j a_k``, and this is at most ``4 - a_j - a_k``, since ``(2 - a_j) (2 - a_k) >= 0``.

K is an intersection of cylinders and is larger than the convex hull of the differences. Awan and Slavkovic (2021,
Section 6.1) write K as a union, and treat K as if it were the convex hull. Functions named `..._hull` use a smaller
body H: K intersected with the sets ``|w'u| <= h(w)`` for finitely many directions w. Here w'u is the inner product of w
and u, and h(w) is the range (largest value minus smallest value) of the quadratic polynomial ``z -> w't(z)`` over the
cube. Each of these sets contains every difference, and their intersection over all w would be the closed convex hull.
`_CUTS` lists, for q = 2 and 3, the directions w that remove most volume; the volume of H is 0.67 (q = 2) and 0.23 (q =
3) times the volume of K. For other q, H is K itself.
"""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np

from privstats.numerics.law import FloatArray, Rng

CELLS = 2048  # number of equal intervals (cells) of [0, 1]; the rejection sampler's envelope is constant on each cell
BATCH = 4096  # largest number of proposals in one batch of the rejection sampler
POINTS = 1 << 14  # number of quadrature points for the second moments of a uniform point of the body K
# n differences of two rows' moments, for rows of q entries: the linear and the square coordinates, shape (n, q) each,
# and the cross-product coordinates, shape (n, q (q - 1) / 2)
Parts = tuple[FloatArray, FloatArray, FloatArray]

# for each number q of entries of a row: directions w that define the body H, up to permutations and signs; the entries
# of w are in the order of the moments t(z)
_CUTS = {
    2: """
        0 0 1 -1 3  0 0 1 1 4  3 3 2 2 -3  6 6 5 0 -6  0 0 7 -4 12  0 0 7 1 12  9 9 12 4 -9  12 12 7 0 -12  6 6 4 3 -6
        2 2 3 0 -2  0 0 4 -1 3  0 0 4 -3 12  3 3 12 1 -3  0 0 2 1 6  0 0 5 -5 6  12 12 10 5 -12
    """,
    3: """
        0 0 0 1 0 -1 0 3 0  0 0 0 1 1 0 4 0 0  1 1 0 0 0 0 0 1 -1  12 12 0 10 5 0 -12 0 0  0 0 0 5 3 0 6 6 -6
        12 8 4 9 0 1 0 -12 8  0 0 0 16 0 -7 0 24 0  3 3 0 2 0 0 -3 0 0  8 8 0 1 1 9 4 12 -12  0 0 0 10 3 0 24 0 0
        3 3 0 4 0 0 -3 0 0  21 13 13 10 1 -15 -13 -13 24  0 0 0 7 0 0 12 12 -12  0 0 0 8 0 -5 0 12 0
        0 0 0 5 3 2 6 6 -6  10 10 0 12 5 0 -10 0 0  12 12 0 7 6 0 -12 0 0  24 17 7 14 0 0 0 -24 17
        0 0 0 10 0 -7 0 24 0  20 20 0 4 4 9 4 24 -24  0 0 0 1 0 0 1 1 -1  8 5 3 8 0 0 0 -8 5  0 0 0 8 1 0 12 0 0
        0 0 0 7 5 0 24 0 0  12 12 0 7 0 0 -12 0 0  3 3 0 6 1 0 -3 0 0  12 9 4 12 0 -12 -4 -24 12
        24 21 16 24 -13 -2 0 -24 21  6 6 0 5 3 0 -6 0 0  8 8 0 1 0 9 4 12 -12
    """,
}
# for each number q of entries of a row: simulated mean squares of a linear, a square and a cross-product coordinate of
# a uniform point of the body H; they must be simulated again when `_CUTS` changes
_HULL_MOMENTS = {2: (0.8655, 1.0116, 0.6856), 3: (0.7221, 0.9094, 0.5915)}


def gauge(linear: FloatArray, squares: FloatArray, cross: FloatArray) -> FloatArray:
    """Return the norms of n points, shape (n,), in the norm whose unit ball is the convex body K (module docstring).

    K contains the difference u of any two rows' moments. The arguments are the linear coordinates u_j and the square
    coordinates u_jj of the points, both of shape (n, q), and their cross-product coordinates u_jk, shape (n, q (q - 1)
    / 2), with the pairs j < k in the order of ``np.triu_indices(q, 1)``.

    K is the set of all u with (u_j, u_jj) in a set K_2 for all j, and (u_j, u_k, u_jk) in a set K_3 for all j < k. With
    ``a = a_j = |u_j|`` and ``b = |u_jj|`` the norm with unit ball K_2 is b / 2 if ``b >= 2 a``; otherwise this norm is
    the solution r of ``b = 2 r - 2 (a - r)^2 / r``, which is ``r = 2 a^2 / (4 a - b)``, at least a / 2. The norm with
    unit ball K_3 is ``max(|u_jk| / 2, (a_j + a_k + |u_jk|) / 4)``. The norm with unit ball K is the largest of all
    these numbers.
    """
    a, b, c = np.abs(linear), np.abs(squares), np.abs(cross)
    flat = b >= 2 * a
    two = np.where(flat, b / 2, 2 * a * (a / np.where(flat, 1.0, 4 * a - b)))
    three = np.maximum(c / 2, (_pair_sums(a) + c) / 4)
    return np.maximum(two.max(axis=1), three.max(axis=1, initial=0.0))


def gauge_hull(linear: FloatArray, squares: FloatArray, cross: FloatArray) -> FloatArray:
    """Return the norms of n points, shape (n,), in the norm whose unit ball is the convex body H, a subset of K.

    The arguments are the linear, square and cross-product coordinates of the points, as in `gauge`. The module's
    docstring defines both bodies.
    """
    values = np.concatenate([linear, squares, cross], axis=1) @ _cuts(linear.shape[1])
    sides = np.maximum(values.max(axis=1, initial=0.0), -values.min(axis=1, initial=0.0))
    return np.maximum(gauge(linear, squares, cross), sides)


def sample_body(rng: Rng, size: int, q: int) -> Parts:
    """Return `size` independent uniform points u of the body K, up to rounding.

    K contains the difference of any two rows' moments (module docstring), for rows of q entries. A point has q linear
    coordinates u_j, q square coordinates u_jj, and one cross-product coordinate u_ij for each pair i < j. The sampler
    replaces Algorithm 8 of Awan and Slavkovic (2021).

    Let ``d_j = |u_j| - 1``, let A be the set of the k indices with d_j > 0, and let ``t_j = -d_j`` for the other
    indices. A point is drawn in three steps:

    1. The number k, and the numbers d_i for i in A, are drawn by rejection (see below); A is a uniformly random set of
       k indices.
    2. The t_j are drawn independently from the density h / J on [0, 1], where ``h(t) = prod_A (1 - (d_i - t)_+ / 2)``
       and J is the integral of h. The t_j are drawn by rejection from the uniform law, since h <= 1.
    3. The signs of the u_j are random. The other coordinates are independent and uniform on intervals around 0, with
       half-length ``2 - 2 (d_j)_+^2`` for u_jj, and half-length ``2 - (d_i + d_j)_+`` for u_ij.

    Target density of step 1: the density of the linear coordinates is proportional to the product of the half-lengths
    of step 3, hence to ``prod_A (1 - d_i^2) prod_{pairs in A} (1 - (d_i + d_j) / 2) prod_{not A} h(t_j)``. Integration
    over the t_j gives the target density ``prod_A (1 - d_i^2) prod_{pairs in A} (1 - (d_i + d_j) / 2) J^{q - k}``.

    Envelope of step 1: because of ``1 - x <= e^{-x}`` and Hoelder's inequality, the target density is at most
    ``prod_A g_k(d_i)``, with ``g_k(d) = (1 - d^2) exp(-(k - 1) d / 2) M_k(d)^{(q - k) / k}`` and ``M_k(d) = int_0^1 (1
    - (d - t)_+ / 2)^k dt = 1 - d + 2 (1 - (1 - d / 2)^{k + 1}) / (k + 1)``. The envelope is the step function that on
    each of `CELLS` equal cells of [0, 1] has the value of g_k at the left end of the cell. The envelope is nowhere
    smaller than g_k, because g_k is decreasing.

    A proposal consists of a number k, drawn with probability proportional to ``C(q, k) (int envelope)^k``, and of k
    independent numbers d_i with a density proportional to the envelope. The proposal is accepted with a probability
    equal to the target density divided by the product of the envelope's values at the d_i.
    """
    linear, squares, cross = np.empty((size, q)), np.empty((size, q)), np.empty((size, math.comb(q, 2)))
    done = 0
    while done < size:
        d = _accepted(rng, min(BATCH, (size - done) * 3 // 2 + 8), q)[: size - done]
        # random order: the k coordinates u_j with |u_j| > 1 are a uniformly random subset of the q linear coordinates
        d = np.take_along_axis(d, rng.uniform(0.0, 1.0, d.shape).argsort(axis=1), axis=1)
        new = slice(done, done + len(d))
        linear[new] = (1 + d) * (2.0 * rng.integers(0, 2, d.shape) - 1)
        squares[new] = (2 - 2 * np.maximum(d, 0.0) ** 2) * rng.uniform(-1.0, 1.0, d.shape)
        cross[new] = (2 - np.maximum(_pair_sums(d), 0.0)) * rng.uniform(-1.0, 1.0, cross[new].shape)
        done += len(d)
    return linear, squares, cross


def sample_hull(rng: Rng, size: int, q: int) -> Parts:
    """Return `size` independent uniform points of the body H, by rejection from the larger body K.

    The convex bodies H and K contain the difference of any two rows' moments (see the module's docstring). A point has
    q linear, q square and q (q - 1) / 2 cross-product coordinates.
    """
    found = [np.empty((0, 2 * q + math.comb(q, 2)))]
    while (missing := size - sum(map(len, found))) > 0:
        points = sample_body(rng, min(BATCH, 6 * missing), q)
        found.append(np.concatenate(points, axis=1)[gauge_hull(*points) <= 1][:missing])
    linear, squares, cross = np.split(np.concatenate(found), [q, 2 * q], axis=1)
    return linear, squares, cross


@cache
def second_moments_body(q: int) -> tuple[float, float, float]:
    """Return the mean squares of a linear, a square and a cross-product coordinate of a uniform point of the body K.

    K contains the difference of any two rows' moments (module docstring), for rows of q entries. For q = 1, the mean
    square of a cross product is 0. Let ``d_j = |u_j| - 1`` for the k linear coordinates u_j with |u_j| > 1. The
    function `_moments` computes the conditional mean squares given the d_j. Their average over the d_j is computed by
    quasi-Monte Carlo with importance weights. For each k, the points d are a Kronecker sequence (coordinate i of point
    m is ``m 2^(i / (k + 1)) mod 1``, i = 1, ..., k), transformed by the quantile function of the envelope in
    `sample_body`. The relative error is below 3e-4 for q <= 31.
    """
    weights, _, sums = _steps(q)
    shares = weights / weights.sum()
    totals = np.zeros(4)
    for k in np.flatnonzero(shares > 1e-6).tolist():
        n = math.ceil(POINTS * shares[k] ** 0.5) if k > 0 else 1
        lattice = (np.arange(1, n + 1)[:, None] * 2 ** (np.arange(1, k + 1) / (k + 1))) % 1
        above = np.interp(lattice, sums[max(k, 1) - 1], np.arange(CELLS + 1) / CELLS)
        totals += shares[k] * _moments(above, q).mean(axis=1)
    linear, square, cross = (totals[1:] / totals[0]).tolist()
    return linear, square, cross


def second_moments_hull(q: int) -> tuple[float, float, float]:
    """Return the mean squares of a linear, a square and a cross-product coordinate of a uniform point of the body H.

    H is a convex body that contains the difference of any two rows' moments (module docstring), for rows of q entries.
    For q = 2 and 3 the mean squares were simulated by `benchmarks/hull_moments.py`, to 4 decimals. For any other q, H
    equals the body K of `second_moments_body`, which computes the mean squares.
    """
    return _HULL_MOMENTS[q] if q in _HULL_MOMENTS else second_moments_body(q)


def _pair_sums(x: FloatArray) -> FloatArray:
    """Return the sums x_j + x_k of all pairs of entries j < k in each row of `x`, shape (n, q (q - 1) / 2).

    The array `x` has the shape (n, q). The pairs are in the order of ``np.triu_indices(q, 1)``.
    """
    j, k = np.triu_indices(x.shape[1], 1)
    return np.take(x, j, axis=1) + np.take(x, k, axis=1)


@cache
def _steps(q: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return three tables for the proposals of the rejection sampler `sample_body`.

    A proposal consists of a random number k and of k independent numbers in [0, 1]. The density of these numbers is
    proportional to the envelope for k: a step function on `CELLS` equal cells of [0, 1]. The tables contain

    * the unnormalised probabilities of k = 0, ..., q, shape (q + 1,);
    * the heights of the envelopes for k = 1, ..., q on the cells, shape (q, CELLS);
    * the distribution functions of these envelopes at the edges of the cells, shape (q, CELLS + 1).
    """
    d = np.arange(CELLS) / CELLS
    k = np.arange(1, q + 1)[:, None]
    M = 1 - d + 2 * (1 - (1 - d / 2) ** (k + 1)) / (k + 1)
    heights = (1 - d**2) * np.exp(-(k - 1) * d / 2) * M ** ((q - k) / k)
    weights = [1.0, *(math.comb(q, i + 1) * mass ** (i + 1) for i, mass in enumerate(heights.mean(axis=1).tolist()))]
    sums = np.concatenate([np.zeros((q, 1)), heights.cumsum(axis=1)], axis=1)
    return np.array(weights), heights, sums / sums[:, -1:]


def _accepted(rng: Rng, proposals: int, q: int) -> FloatArray:
    """Make `proposals` random proposals in the rejection sampler `sample_body`; return each accepted proposal as a row.

    A row of the returned array has the numbers ``d_j = |u_j| - 1``, positive numbers first, of the q linear coordinates
    u_j of a uniform point u of the convex body K.
    """
    weights, _, sums = _steps(q)
    sizes = np.searchsorted(weights.cumsum() / weights.sum(), rng.uniform(0.0, 1.0, proposals), side="right")
    d = np.empty((proposals, q))
    keep = np.zeros(proposals, dtype=bool)
    for k in np.unique(sizes).tolist():
        group = np.flatnonzero(sizes == k)
        cells = np.searchsorted(sums[max(k, 1) - 1], rng.uniform(0.0, 1.0, (len(group), k)), side="right") - 1
        above = (cells + rng.uniform(0.0, 1.0, cells.shape)) / CELLS
        taken = rng.uniform(0.0, 1.0, len(group)) < _ratio(above, _overlaps(above, 0)[1].sum(axis=1), q)
        group, above = group[taken], above[taken]
        keep[group] = True
        d[group, :k] = above
        d[group, k:] = -_below(rng, above, q - k)
    return d[keep]


def _ratio(above: FloatArray, J: FloatArray, q: int) -> FloatArray:
    """Return the probability with which `sample_body` accepts each of n proposals, shape (n,).

    Each row of `above`, shape (n, k), has the k positive numbers d_i of one proposal. The array J, shape (n,), has the
    integral over [0, 1] of ``h(t) = prod_i (1 - (d_i - t)_+ / 2)``; its power q - k is a factor of the target density
    of `sample_body`, for rows of q entries.
    """
    k = above.shape[1]
    steps = _steps(q)[1][max(k, 1) - 1, np.minimum((above * CELLS).astype(int), CELLS - 1)]
    return ((1 - above**2) / steps).prod(axis=1) * (1 - _pair_sums(above) / 2).prod(axis=1) * J ** (q - k)


def _overlaps(above: FloatArray, degree: int) -> tuple[FloatArray, FloatArray]:
    """Return the m nodes in [0, 1] and the m weights of a quadrature rule for each row of `above`, shape (n, m) each.

    The rule integrates ``p(t) h(t)`` over [0, 1] exactly for every polynomial p of at most the given degree, where
    ``h(t) = prod_i (1 - (d_i - t)_+ / 2)`` and the d_i are the entries of the row of `above`.
    """
    n, k = above.shape
    ends = np.concatenate([np.zeros((n, 1)), np.sort(above, axis=1), np.ones((n, 1))], axis=1)[:, :, None]
    nodes, mass = np.polynomial.legendre.leggauss((k + degree) // 2 + 1)
    half = np.diff(ends, axis=1) / 2
    t = (ends[:, :-1] + half * (1 + nodes)).reshape(n, -1)
    return t, (half * mass).reshape(n, -1) * _h(above, t)


def _h(above: FloatArray, t: FloatArray) -> FloatArray:
    return (1 - np.maximum(above.T[:, :, None] - t, 0.0) / 2).prod(axis=0)


def _below(rng: Rng, above: FloatArray, count: int) -> FloatArray:
    """Return `count` independent random numbers t in [0, 1] for each row (d_1, ..., d_k) of `above`, shape (n, count).

    Their density, proportional to ``prod_i (1 - (d_i - t)_+ / 2)``, is sampled by rejection.
    """
    t = np.empty(len(above) * count)
    left = np.arange(len(t))
    while len(left) > 0:
        t[left] = rng.uniform(0.0, 1.0, len(left))
        h = _h(above[left // count], t[left, None])[:, 0]
        left = left[rng.uniform(0.0, 1.0, len(left)) >= h]
    return t.reshape(len(above), count)


def _moments(above: FloatArray, q: int) -> FloatArray:
    """Return four numbers for each row of `above`, shape (4, n): a weight, and three mean squares times this weight.

    Let u be a uniform point of the convex body K for rows of q entries (`sample_body`), and d_i = |u_i| - 1. Each of
    the n rows of `above` contains the d_i of the k linear coordinates with |u_i| > 1. The weight is an importance
    weight, proportional to the density of these d_i divided by the density from which they were drawn. The mean
    squares, given these d_i, are averages over the linear, over the square and over the cross-product coordinates of u.
    """
    n, k = above.shape
    t, mass = _overlaps(above, 2)
    J = mass.sum(axis=1)
    # if |u_i| > 1 and |u_j| <= 1, the cross product u_ij is uniform on an interval around 0; `mixed` is the mean
    # square of the half-length of this interval, summed over i (the sum is the same for every j)
    mixed = ((2 - np.maximum(above.T[:, :, None] - t, 0.0)) ** 2 * mass).sum(axis=(0, 2)) / J
    linear = ((1 + above) ** 2).sum(axis=1) + (q - k) * ((1 - t) ** 2 * mass).sum(axis=1) / J
    square = 4 * ((1 - above**2) ** 2).sum(axis=1) + 4 * (q - k)
    cross = ((2 - _pair_sums(above)) ** 2).sum(axis=1) + (q - k) * mixed + 4 * math.comb(q - k, 2)
    means = np.array([np.ones(n), linear / q, square / (3 * q), cross / (3 * max(1, math.comb(q, 2)))])
    return _ratio(above, J, q) * means


@cache
def _cuts(q: int) -> FloatArray:
    """Return, as columns, the vectors w / h(w) for all directions w in which the body H is smaller than the body K.

    Both bodies contain the difference of any two rows' moments (module docstring). A point u of K lies in H if and
    only if ``|w'u / h(w)| <= 1`` for all w. The directions w are the vectors in `_CUTS` and their images under
    permutations and changes of sign of a row's q entries; of w and -w, only one is returned. h(w) is the largest minus
    the smallest value of ``w't(z)`` over all rows z in [-1, 1]^q, where t(z) is the vector of the moments of z.
    """
    j, k = np.triu_indices(q, 1)
    dim = 2 * q + len(j)
    pair = np.zeros((q, q), dtype=int)
    pair[j, k] = pair[k, j] = np.arange(2 * q, dim)
    columns = [np.empty((dim, 0))]
    for w in np.array(_CUTS.get(q, "").split(), dtype=float).reshape(-1, dim):
        orbit = set()
        for p in map(np.array, itertools.permutations(range(q))):
            for s in map(np.array, itertools.product((-1.0, 1.0), repeat=q)):
                image = np.concatenate([s * w[p], w[q + p], s[j] * s[k] * w[pair[p[j], p[k]]]])
                orbit.add(max(tuple(image.tolist()), tuple((-image).tolist())))
        columns.append(np.array(sorted(orbit)).T / _range(w, q))
    return np.concatenate(columns, axis=1)


def _range(w: FloatArray, q: int) -> float:
    """Return the range h(w), for w with integer entries: the largest minus the smallest ``w't(z)`` over z in [-1, 1]^q.

    Here t(z) is the vector of a row's moments ``(z_j; 2 z_j^2; z_j z_k, j < k)``, so ``w't(z)`` is a quadratic
    polynomial. The polynomial is evaluated at one candidate point on each face of the cube. If the Hessian along the
    face is regular, the candidate is the stationary point of the polynomial on the face, with coordinates clipped to
    [-1, 1]; otherwise it is the centre of the face.

    Proof that a maximum (or minimum) is at a candidate: among all points with the largest value, consider a point on a
    face of the lowest possible dimension. At this point the gradient along the face is zero. The Hessian along the
    face is regular, because otherwise the polynomial would be constant along a line that reaches a face of lower
    dimension. So the point is the candidate of its face. The other candidates lie in the cube, so they cannot make the
    range too large.

    The Hessian has integer entries, so it is regular if and only if ``|det| >= 1``. The returned range is increased by
    a factor 1 + 1e-12, to allow for rounding.
    """
    hessian = np.diag(4 * w[q : 2 * q])
    j, k = np.triu_indices(q, 1)
    hessian[j, k] = hessian[k, j] = w[2 * q :]
    values = []
    for face in itertools.product((-1.0, 0.0, 1.0), repeat=q):
        z = np.array(face)
        free = z == 0
        block = hessian[np.ix_(free, free)]
        if abs(np.linalg.det(block)) > 0.5:
            z[free] = np.clip(np.linalg.solve(block, -(w[:q] + hessian @ z)[free]), -1.0, 1.0)
        values.append(float(w[:q] @ z + z @ hessian @ z / 2))
    return (max(values) - min(values)) * (1 + 1e-12)
