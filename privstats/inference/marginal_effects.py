"""Average marginal effects, computed from estimated coefficients theta and from sums over rows released at theta."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privstats.inference.estimate import NormalEstimate
from privstats.inference.noise import Loading
from privstats.numerics.law import FloatArray


@dataclass(frozen=True, eq=False)
class MarginalEffects:
    """Average marginal effects of the predictors on the mean response, with the distribution of their errors.

    Parameters
    ----------
    columns : tuple of int
        Index of each effect's coefficient among all coefficients, the intercept included.
    per_unit : ndarray of bool, shape (q,)
        True for a derivative with respect to a predictor, False for the effect of a change of a dummy from 0 to 1.
    estimate : NormalEstimate
        Estimate of the effects.
    """

    columns: tuple[int, ...]
    per_unit: NDArray[np.bool_]
    estimate: NormalEstimate

    @classmethod
    def of(
        cls,
        estimate: NormalEstimate,
        columns: Sequence[int],
        per_unit: NDArray[np.bool_],
        effects: FloatArray,
        jacobian: FloatArray,
        noise: Loading,
    ) -> MarginalEffects:
        """Return average marginal effects, from released values, with the distribution of their errors.

        Effects are computed from the estimated coefficients theta and from released sums over rows. Their errors are
        due to the error of theta (delta method) and to the noise of the sums; the sample's predictors are treated as
        fixed.

        Parameters
        ----------
        estimate : NormalEstimate
            Estimate of the coefficients theta.
        columns, per_unit : sequence of int, ndarray of bool
            Index of each effect's coefficient, and kind of each effect (see `MarginalEffects`).
        effects : ndarray, shape (q,)
            Released average marginal effects.
        jacobian : ndarray, shape (q, k)
            Derivative of the effects with respect to theta.
        noise : Loading
            Noise of the effects that is due to the released sums.
        """
        names = [estimate.names[column] for column in columns]
        shift = effects - jacobian @ estimate.theta
        plain = replace(estimate, remarks=(), margins=None)
        return cls(tuple(columns), np.asarray(per_unit), plain.mapped(jacobian, shift, names).with_noise(noise))

    def in_units(self, per_unit: FloatArray) -> MarginalEffects:
        """Return the average marginal effects in the user's units.

        The argument `per_unit`, shape (k,), is the diagonal of the matrix that maps the coefficients to the user's
        units. A derivative with respect to a predictor is multiplied by the entry for this predictor's coefficient.
        """
        factor = np.where(self.per_unit, per_unit[list(self.columns)], 1.0)
        return replace(self, estimate=self.estimate.mapped(np.diag(factor), np.zeros(len(factor))))
