"""Average marginal effects: functions of theta and of sums that were released at it."""

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
    """Average marginal effects on the mean response.

    Parameters
    ----------
    columns : tuple of int
        Coefficients whose effects they are, counted with the intercept.
    per_unit : ndarray of bool, shape (q,)
        Whether an effect is that of one unit of the predictor, scaled; else of its change from 0 to 1.
    estimate : NormalEstimate
        Of the effects.
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
        """Return the effects at a released theta, by the delta method: their errors are theta's, and the sums' noise.

        The sampled predictors are taken as they are.

        Parameters
        ----------
        estimate : NormalEstimate
            Of theta.
        columns, per_unit
            As in the class.
        effects : ndarray, shape (q,)
        jacobian : ndarray, shape (q, k)
            Their derivative by theta.
        noise : Loading
            Of the sums that the effects were computed from, in the effects.
        """
        names = [estimate.names[column] for column in columns]
        shift = effects - jacobian @ estimate.theta
        plain = replace(estimate, remarks=(), margins=None)
        return cls(tuple(columns), np.asarray(per_unit), plain.mapped(jacobian, shift, names).with_noise(noise))

    def in_units(self, per_unit: FloatArray) -> MarginalEffects:
        """Return the effects in the user's units: `per_unit`, shape (k,), multiplies those of one scaled unit.

        The unit is the coefficients' own: the diagonal of their map to the user's units.
        """
        factor = np.where(self.per_unit, per_unit[list(self.columns)], 1.0)
        return replace(self, estimate=self.estimate.mapped(np.diag(factor), np.zeros(len(factor))))
