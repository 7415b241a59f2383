"""Upper bounds on quantiles of noise that are too far in the tails to be estimated from draws.

For noise X with a symmetric log-concave density, the logarithm of ``S(c) = P(|X| > c)`` is concave with S(0) = 1
(Prekopa 1973). Hence ``S(c) <= S(b)^(c / b)`` for c > b: beyond a quantile b that can be estimated from draws, the
tail decreases at least exponentially. Linear functions and sums of independent noises with log-concave densities also
have log-concave densities.

Matrix-t noise is a random symmetric matrix W with a density proportional to ``det(I + W^2)^-s``; its tails are
polynomial. Let C be a symmetric matrix with r nonzero eigenvalues l_i and eigenvectors u_i. The trace of C W is the
linear function ``<C, W> = sum_i l_i u_i'W u_i`` of the noise. Each ``u_i'W u_i`` is distributed as a diagonal entry of
W, with a density proportional to ``(1 + t^2)^-s_1``, where s_1 depends on s and the size of W. Let q(alpha) be the 1 -
alpha quantile of ``|u_i'W u_i|``. Then ``|<C, W>| <= sum_i |l_i| q(alpha / r)`` with probability at least 1 - alpha.

If the entry (0, 0) gets no noise (W_00 = 0), the first row of W is treated separately. A linear combination of the
entries of the first row, with a coefficient vector of norm 1, is distributed as a single entry a, with a density
proportional to ``(1 + a^2)^-(2 s_2 - 1)``, where s_2 depends on s and the size of W. For a unit vector u in the
remaining coordinates, ``u'W u`` is distributed as ``(1 + a^2) t``. Here t is a random number that is independent of a
and has a density proportional to ``(1 + t^2)^-s_2``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv, ndtri

from privstats.inference.noise import Loading
from privstats.inference.simulate import noise_draws
from privstats.numerics.law import FloatArray

SHOWN = 100  # number of draws expected beyond the quantile from which a log-concave tail is extrapolated
# COUNTED: the COUNTED-th largest draw is an upper bound on the quantile beyond which `SHOWN` draws are expected. The
# probability that this draw is below the quantile is smaller than 1e-5.
COUNTED = 60
GAUSS = 2 / 3  # P(|X| > GAUSS / sqrt(alpha)) <= alpha for a symmetric unimodal X of variance 1 (inequality of Gauss)

Quantile = Callable[[FloatArray], FloatArray]


def student_quantile(freedom: Any, alpha: Any) -> FloatArray:
    """Return the quantile t with ``P(|T| > t) = alpha``, for a Student variable T with `freedom` degrees of freedom.

    If `freedom` is infinite, T is a standard normal variable.
    """
    freedom, alpha = np.broadcast_arrays(np.asarray(freedom, dtype=float), np.asarray(alpha, dtype=float))
    finite = np.isfinite(freedom)
    nu = np.where(finite, freedom, 1.0)
    x = betaincinv(nu / 2, 0.5, alpha)  # alpha quantile of nu / (nu + T^2)
    with np.errstate(divide="ignore"):
        return np.where(finite, np.sqrt(nu * (1 - x) / x), -ndtri(alpha / 2))


def far_quantile(noises: Sequence[Loading]) -> Quantile:
    """Return a function of alpha that bounds the 1 - alpha quantiles of |X|, for a sum X of independent noises.

    The arrays of alpha and of the bounds have one entry for each coordinate of X. The sum is divided into parts: one
    part for all log-concave noises, one or two parts for each matrix-t noise, and one part for all other noises. The
    bound is the sum of the parts' quantile bounds, each at alpha divided by the number of parts.
    """
    concave = tuple(one for one in noises if getattr(one.law, "log_concave", False))
    matrices = [one for one in noises if hasattr(one.law, "beyond")]
    others = [one for one in noises if one not in matrices and one not in concave]
    found = [_log_concave(concave)] if concave else []
    found += [part for one in matrices for part in _matrix_parts(one)]
    if others:
        sd = np.sqrt(np.sum([np.diag(one.covariance()) for one in others], axis=0))
        found.append(lambda alpha: sd * GAUSS / np.sqrt(alpha))
    return lambda alpha: sum((one(alpha / len(found)) for one in found), np.zeros_like(alpha))


def _log_concave(noises: tuple[Loading, ...]) -> Quantile:
    sizes = np.abs(noise_draws(noises))
    near = -np.partition(-sizes, COUNTED - 1, axis=0)[COUNTED - 1]
    return lambda alpha: near * np.maximum(np.log(alpha) / np.log(SHOWN / len(sizes)), 1.0)


def _matrix_parts(noise: Loading) -> Iterable[Quantile]:
    """Yield one or two functions of alpha, each a bound on the 1 - alpha quantiles of one part of the matrix-t noise.

    Entry (0, 0) of the noise matrix is the noise of the released row count. If no other entry of row 0 is released,
    this noise is independent of the rest of the matrix; the noise of the row count is then one part, and the rest of
    the matrix is another part. Otherwise the whole matrix is one part.
    """
    law: Any = noise.law
    i, j = law.pairs
    loads = noise.matrix if noise.sums is None else np.asarray(noise.matrix @ noise.sums.onto)
    loads, variance = loads * law.scale, replace(law, scale=np.ones(len(law.scale))).variance()
    count, first = (i == 0) & (j == 0), (i == 0) & (j > 0)
    if count.any() and not first.any():
        yield _single_entries(loads[:, count], float(variance[count][0]))
        i, j, loads, variance = (x[..., ~count] for x in (i, j, loads, variance))
        first = first[~count]
    if not len(i):
        return
    C = np.zeros((len(loads), *(2 * [1 + int(j.max())])))
    C[:, i, j] += loads / 2
    C[:, j, i] += loads / 2
    if first.any() and not count.any():
        border = 2 * np.linalg.norm(C[:, 0], axis=1)
        yield _hollow(border, _eigenvalues(C[:, 1:, 1:]), float(variance[first][0]))
    else:
        yield _single_entries(_eigenvalues(C), float(variance[i == j][0]))


def _eigenvalues(C: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.eigvalsh(C), dtype=float)


def _single_entries(values: FloatArray, variance: float) -> Quantile:
    """Return a function of alpha that bounds the 1 - alpha quantiles of the absolute values of several sums of noise.

    A sum is ``sum_i v_i t_i`` with weights v_i and random variables t_i; each row of `values` has the weights of one
    sum. Each t_i has a density proportional to ``(1 + t^2)^-s``, with an exponent s such that t_i has the variance
    `variance`. The random variables t_i may be dependent. Such a sum is a linear function ``<C, W>`` of matrix-t noise
    W, with a symmetric matrix C: the weights v_i are the eigenvalues of C, and t_i has the law of a diagonal entry of W
    (see the module's docstring).
    """
    size, many = _nuclear(values)
    nu = 2 + 1 / variance  # t sqrt(nu) has Student's law with nu degrees of freedom, so t has the variance 1 / (nu - 2)
    return lambda alpha: size * student_quantile(nu, alpha / many) / np.sqrt(nu)


def _hollow(border: FloatArray, values: FloatArray, variance: float) -> Quantile:
    """Return a function of alpha that bounds the 1 - alpha quantiles of |X|, for linear functions X of noise.

    The noise is matrix-t noise W with W_00 = 0 (see the module's docstring). Each X is a linear function
    ``<C, W> = b a + sum_i v_i (1 + a_i^2) t_i`` of the noise, with a symmetric matrix C. The term ``b a`` comes from
    the first row of W, and the number b is an entry of `border`. The weights v_i are the eigenvalues of C without its
    first row and column; these weights are in the row of `values` with the same index as b. The random variables a and
    a_i have the variance `variance`, and t_i is independent of a_i; other pairs of these variables may be dependent.
    """
    size, many = _nuclear(values)
    nu = 2 + 1 / variance  # degrees of freedom of the Student variable a sqrt(nu): 4 s_2 - 3

    def quantile(alpha: FloatArray) -> FloatArray:
        single = alpha / (many + 1)
        # Beyond the end of the table, the quantile is infinite, and its product with `size` would be NaN if the sum of
        # absolute eigenvalues, `size`, is 0.
        products = np.where(size > 0, _product_quantile(nu, single), 0.0)
        return np.asarray(border * student_quantile(nu, single) / np.sqrt(nu) + size * products)

    return quantile


def _product_quantile(nu: float, alpha: FloatArray) -> FloatArray:
    """Return an upper bound on the 1 - alpha quantile of ``(1 + a^2) |t|``, for independent variables a and t.

    The variables ``a sqrt(nu)`` and ``t sqrt((nu + 1) / 2)`` have Student distributions with nu and (nu + 1) / 2
    degrees of freedom. The bound is the smallest number c in the table `_product_tail` with a tail probability of at
    most alpha; the bound is infinite if there is no such number.
    """
    c, tail = _product_tail(nu)
    return np.append(c, np.inf)[np.searchsorted(-tail, -alpha)]


@lru_cache(maxsize=16)
def _product_tail(nu: float) -> tuple[FloatArray, FloatArray]:
    """Return increasing numbers c and their tail probabilities ``P((1 + a^2) |t| > c)``, for independent a and t.

    The variables ``a sqrt(nu)`` and ``t sqrt((nu + 1) / 2)`` have Student distributions with nu and (nu + 1) / 2
    degrees of freedom. The probabilities are computed by numerical integration over a.
    """
    rest = (nu + 1) / 2
    u, c = np.arange(-16.0, 32.0, 0.08), np.exp(np.arange(-3.0, 28.0, 0.05))
    log_density = u - (nu + 1) / 2 * np.logaddexp(0.0, 2 * u)  # log density of u = log |a|, up to a constant
    weights = np.exp(log_density - log_density.max())
    t = c[:, None] / (1 + np.exp(2 * u))
    return c, betainc(rest / 2, 0.5, 1 / (1 + t**2)) @ (weights / weights.sum())


def _nuclear(values: FloatArray) -> tuple[FloatArray, NDArray[np.int_]]:
    """Return, for each row of `values`, the sum of absolute values and the number of non-zero values (at least 1)."""
    sizes = np.abs(values)
    many = (sizes > 1e-12 * sizes.max(axis=1, initial=0.0, keepdims=True)).sum(axis=1)
    return sizes.sum(axis=1), np.maximum(many, 1)
