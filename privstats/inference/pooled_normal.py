"""Pooling of normal estimates of the same parameters, weighted by their information in each direction.

The pooled estimate is ``sum_i W_i theta_i``, with estimates theta_i and weight matrices ``W_i = J^-1 J_i``. J_i is the
inverse of the mean squared error matrix of estimate i, which includes squared bias bounds; J_i is zero on directions
that estimate i does not identify. J is the sum of all J_i; its inverse is taken on directions that some estimate
identifies.

- If the fits use disjoint rows, all errors are independent.
- If the fits use the same rows, averaging reduces only noise, and J_i is computed without the sampling error. The
  sampling error of estimate i is ``L_i z``, with the same random vector z for all estimates and with ``L_i L_i'`` the
  sampling variance. So the sampling variance of the pooled estimate is ``L L'`` with ``L = sum_i W_i L_i``.

Given the weights, the pooled estimate is a linear function of the estimates: their noises are independent and keep
their distributions, and bias bounds add up in absolute value. But each weight depends on the noise of its estimate. In
one direction, let the number A be the true Hessian and ``A + N`` the released Hessian. The noise N lowers the estimate
by the fraction ``N / A``. The noise also raises the weight, which is proportional to the squared Hessian, by
``2 N / A``. This dependence changes the pooled estimate by up to ``(sd of N) / A`` times the noise sd of the estimate.
A bias bound (`_with_turned`) allows for the change in the identified direction with the least information, where the
change is largest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privstats.inference.estimate import EXACT, MOST_UNIDENTIFIED, UNIDENTIFIED_SHARE, Allowance, NormalEstimate
from privstats.inference.matrix import HIDDEN, NoisyMatrix
from privstats.inference.notes import Note, weights_note
from privstats.numerics.law import FloatArray

SINGULAR = 1e-10  # lower limit of eigenvalues of a mean squared error matrix, relative to its largest eigenvalue
# An interval with a large bias bound is reported only if its half-length is below this multiple of the public bound on
# the coefficient's absolute value.
MOST_OF_RANGE = 0.5
# NO_ANGLE: an eigenvalue of a sum of projections counts as zero if it is at most this number; a singular value of a
# matrix counts as zero if it is at most this multiple of the largest singular value.
NO_ANGLE = 1e-9


@dataclass(frozen=True, eq=False)
class Pooled(NormalEstimate):
    """A weighted mean of several normal estimates; long intervals that may be biased are not reported.

    The mean may be biased along the unidentified directions of each estimate (the attribute `unidentified`). An
    interval is reported if the bound on this bias is at most a quarter (`UNIDENTIFIED_SHARE`) of the half-length. The
    interval is also reported if the bound on the bias is below 50 (`MOST_UNIDENTIFIED`) std errors, and the half-length
    is below half (`MOST_OF_RANGE`) of the public bound on the coefficient's absolute value.
    """

    def _says_more(self, R: FloatArray, sd: FloatArray, half: FloatArray) -> NDArray[np.bool_]:
        bias, widest = self.unidentified_bias(R), MOST_OF_RANGE * np.abs(R @ self.ranges).sum(axis=1)
        return np.asarray((bias <= UNIDENTIFIED_SHARE * half) | ((half < widest) & (bias < MOST_UNIDENTIFIED * sd)))

    def _moved_by(self, moves: Mapping[str, float]) -> tuple[Note, ...]:
        return weights_note(moves)


def pooled_normal(estimates: Sequence[NormalEstimate], same: bool) -> NormalEstimate:
    """Return the weighted mean of normal estimates, from the same rows (`same`) or from disjoint rows.

    If all estimates have marginal effects, the marginal effects are averaged in the same way.
    """
    unit = _units(estimates)
    scaled = [_in_units(one, 1 / unit) for one in estimates]
    weights, nothing = _weights(scaled, same)
    parts = [_with_turned(one).mapped(W, np.zeros(len(unit))) for W, one in zip(weights, scaled, strict=True)]
    whole = added(parts)
    if same:
        whole = replace(
            whole,
            sampling=_common(weights, [one.sampling for one in scaled]),
            freedom=min(one.freedom for one in scaled),
            meat_noise=_common_noises(weights, scaled),
        )
    etas = [one.per_eta for one in scaled if one.per_eta is not None]
    whole = replace(
        whole,
        hidden=nothing,
        hidden_size=np.full(len(unit), float(nothing.shape[1] > 0)),
        ranges=min((one.ranges for one in scaled), key=lambda ranges: float(np.abs(ranges).sum())),
        per_eta=np.min(etas, axis=0) if etas else None,
    )
    margins = [one.margins for one in estimates]
    effects = None
    if all(one is not None for one in margins):
        effects = replace(margins[0], estimate=pooled_normal([one.estimate for one in margins], same))
    return replace(_in_units(whole, unit), margins=effects)


def added(estimates: Sequence[NormalEstimate]) -> Pooled:
    """Return the sum of independent estimates, identified only in directions that all estimates identify."""
    first, zero = estimates[0], np.zeros_like(estimates[0].sampling)
    return Pooled(
        names=first.names,
        theta=sum((one.theta for one in estimates), np.zeros_like(first.theta)),
        sampling=sum((one.sampling for one in estimates), zero),
        noise=sum((one.noise for one in estimates), zero),
        hidden=np.hstack([one.hidden for one in estimates]),
        hidden_size=sum((one.hidden_size for one in estimates), np.zeros_like(first.theta)),
        unidentified=np.hstack([one.unidentified for one in estimates]),
        ranges=np.hstack([one.ranges for one in estimates]),
        allowances=tuple(a for one in estimates for a in one.allowances),
        leaning=tuple(a for one in estimates for a in one.leaning),
        simulated=tuple(noise for one in estimates for noise in one.simulated),
        freedom=_freedom([one.sampling for one in estimates], [one.freedom for one in estimates]),
        meat_noise=tuple(noise for one in estimates for noise in one.meat_noise),
    )


def _common(weights: Sequence[FloatArray], variances: Sequence[FloatArray]) -> FloatArray:
    """Return the variance of the weighted mean of estimates whose sampling errors have correlation 1.

    With weight matrices W_i and sampling variances V_i, the variance is ``L L'`` for ``L = sum_i W_i V_i^(1/2)``.
    """
    root = sum((W @ _root(V) for W, V in zip(weights, variances, strict=True)), np.zeros_like(variances[0]))
    return np.asarray(root @ root.T)


def _common_noises(weights: Sequence[FloatArray], estimates: Sequence[NormalEstimate]) -> tuple[NoisyMatrix, ...]:
    """Return the privacy noises in the sampling variance of a weighted mean of estimates from the same rows.

    Let W be the weight matrix of an estimate, with spectral norm w, and let N be the noise in its released sampling
    variance. The returned noise is ``W N W' / w``. The noise is divided by w because estimates from the same rows have
    the same sampling error, so that N changes the pooled variance in proportion to w, not to w^2. An estimate whose
    sampling variance was not released adds no noise.
    """
    parts = [W / np.sqrt(max(float(np.linalg.norm(W, 2)), 1e-300)) for W in weights]
    return tuple(noise.mapped(W.T) for W, one in zip(parts, estimates, strict=True) for noise in one.meat_noise)


def _units(estimates: Sequence[NormalEstimate]) -> FloatArray:
    """Return a unit for each coefficient, shape (k,): the smallest std error among estimates that identify it.

    The unit is 1 if no estimate identifies the coefficient.
    """
    sd = np.sqrt(np.maximum([np.diag(one.sampling + one.noise) for one in estimates], 0.0))
    hidden = np.array([np.linalg.norm(one.hidden, axis=1) > EXACT * one.hidden_size for one in estimates])
    least = np.where(np.isfinite(sd) & (sd > 0) & ~hidden, sd, np.inf).min(axis=0)
    return np.where(np.isfinite(least), least, 1.0)


def _in_units(estimate: NormalEstimate, unit: FloatArray) -> NormalEstimate:
    return replace(estimate, margins=None).mapped(np.diag(unit), np.zeros(len(unit)))


def _weights(estimates: Sequence[NormalEstimate], same: bool) -> tuple[list[FloatArray], FloatArray]:
    """Return the weight matrix of each estimate in the weighted mean, and the directions that no estimate identifies.

    A weight matrix has the shape (k, k). The directions are the columns of a matrix of shape (k, l). If all estimates
    are from the same rows (`same`), the weights do not depend on the sampling errors.
    """
    k = len(estimates[0].theta)
    informations, known = [], np.zeros((k, k))
    for one in estimates:
        Q = _beside(one.hidden)
        values, vectors = np.linalg.eigh(Q.T @ _error(one, same) @ Q)
        values = np.maximum(values, SINGULAR * max(values.max(initial=0.0), 1e-300))
        B = Q @ vectors
        informations.append((B / values) @ B.T)
        known += Q @ Q.T
    values, vectors = np.linalg.eigh(known)
    some = values > NO_ANGLE
    B = vectors[:, some]
    J = B.T @ sum(informations, np.zeros((k, k))) @ B
    return [B @ np.linalg.solve(J, B.T @ one) for one in informations], vectors[:, ~some]


def _error(estimate: NormalEstimate, same: bool) -> FloatArray:
    """Return an estimate's mean squared error matrix, the sum of noise, squared bias bounds and sampling error.

    If all estimates are from the same rows (`same`), the sampling error is left out, since it is common to all
    estimates.
    """
    moves = (*estimate.allowances, *estimate.leaning)
    bias = sum((a.size**2 * a.loading @ a.loading.T for a in moves), estimate.unidentified @ estimate.unidentified.T)
    return estimate.noise + bias if same else estimate.sampling + estimate.noise + bias


def _with_turned(estimate: NormalEstimate) -> NormalEstimate:
    """Return the estimate with one more bias bound, because its weight in the pooled mean depends on its error.

    The weight and the error depend on the noise of the released Hessian (see the module's docstring). The bound is at
    least the noise sd of the estimate times the relative noise sd of the Hessian in the identified direction with the
    least information.
    """
    ratio = max((estimate.diagnostics[name] for name in _signals(estimate.diagnostics)), default=0.0)
    turned = Allowance(_root(estimate.noise), ratio / HIDDEN)
    return replace(estimate, allowances=(*estimate.allowances, turned))


def _signals(diagnostics: Iterable[str]) -> list[str]:
    return [name for name in diagnostics if name.partition("[")[0] == "noise_to_signal"]


def _beside(directions: FloatArray) -> FloatArray:
    """Return a matrix with orthonormal columns that span the orthogonal complement of the columns of `directions`."""
    U, size, _ = np.linalg.svd(directions)
    return np.asarray(U[:, int((size > NO_ANGLE * size.max(initial=0.0)).sum()) :])


def _root(V: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(V)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _freedom(variances: Sequence[FloatArray], freedoms: Sequence[float]) -> float:
    """Return a lower bound on the degrees of freedom of a sum of variance matrices in any direction (Satterthwaite).

    Let v_i be the share of matrix i in the variance along a direction, and f_i its degrees of freedom. The estimated
    sum has the relative variance ``sum 2 v_i^2 / f_i``. For the bound, each v_i is replaced by its maximum over all
    directions.
    """
    values, vectors = np.linalg.eigh(sum(variances, np.zeros_like(variances[0])))
    kept = values > SINGULAR * max(values.max(initial=0.0), 1e-300)
    white = vectors[:, kept] / np.sqrt(values[kept])
    shares = [float(np.linalg.norm(white.T @ V @ white, 2)) if kept.any() else 0.0 for V in variances]
    uncertain = sum(share**2 / freedom for share, freedom in zip(shares, freedoms, strict=True))
    return max(min(freedoms), 1 / uncertain if uncertain > 0 else np.inf)
