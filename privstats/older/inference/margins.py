"""Average marginal effects as functions of theta, and the law of their error."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privstats.older.inference.answer import Answer, Noise
from privstats.older.inference.errors import DRAWS
from privstats.older.inference.simulate import Chances, Mixture, error_law
from privstats.older.numerics.law import FloatArray

INDEX = -2  # of the public stream that noise of its own is drawn from


@dataclass(frozen=True, eq=False)
class Margins:
    """Average marginal effects that were bought at the estimate.

    Parameters
    ----------
    columns : tuple of int
        Whose effects they are: coefficients, counted with the intercept.
    per_unit : ndarray of bool, shape (q,)
        Whether an effect is that of one unit of the predictor, scaled; else of its change from 0 to 1.
    effects : ndarray, shape (q,)
    jacobian : ndarray, shape (q, coefficients)
        Their derivative by theta.
    noise : Noise
        Of what they were computed from, and what it does to them.
    """

    columns: tuple[int, ...]
    per_unit: NDArray[np.bool_]
    effects: FloatArray
    jacobian: FloatArray
    noise: Noise

    def in_units(self, per_unit: FloatArray) -> Margins:
        """Return the effects with those that are per scaled unit times `per_unit`, shape (q,)."""
        factor = np.where(self.per_unit, per_unit, 1.0)
        return replace(
            self,
            effects=self.effects * factor,
            jacobian=self.jacobian * factor[:, None],
            noise=Noise(self.noise.law, self.noise.onto * factor[:, None]),
        )

    def deviations(self, answer: Answer) -> FloatArray:
        """Return standard errors, shape (q,): of theta (delta method), and of what was bought at it."""
        squared = self.jacobian @ answer.covariance() @ self.jacobian.T + self.noise.covariance()
        return np.sqrt(np.diag(squared))

    def error_law(self, answer: Answer, chances: Chances) -> Mixture | None:
        """Return the law of their errors; None where theta has none."""
        if answer.meat is None:
            return None
        law = error_law(answer, self.jacobian, chances)
        own = self.noise.law.sample(chances(INDEX), DRAWS) @ self.noise.onto.T
        return replace(law, shift=law.shift + own)
