"""Tables of average marginal effects on the mean response, in the original units of the columns of the data."""

from __future__ import annotations

import numpy as np
import pandas as pd

from privstats.errors import PrivacyError
from privstats.inference.marginal_effects import MarginalEffects
from privstats.results.facts import FloatArray
from privstats.results.hypotheses import ContrastTest

HELD = (
    "Each effect holds other terms fixed, also products and powers of the same variable; for effects through all terms "
    "write fit.slopes('x', at={'x': 1}) or fit.comparisons('g')."
)


class EffectsTable(ContrastTest):
    """Average marginal effects, each tested against zero, with the attribute names of statsmodels."""

    _title, _heading = "Average marginal effects on the mean response", "dy/dx"

    @property
    def _bounds(self) -> tuple[str, ...]:
        held = (HELD,) if any(":" in name or "**" in name for name in self.names) else ()
        return (*super()._bounds, *held)

    @property
    def margeff(self) -> FloatArray:
        """The average marginal effects."""
        return self.effect

    @property
    def margeff_se(self) -> FloatArray:
        """Standard errors of the effects, which include privacy noise."""
        return self.sd

    @property
    def tvalues(self) -> FloatArray:
        """The effects divided by their standard errors."""
        return self.tvalue

    @property
    def pvalues(self) -> FloatArray:
        """Two-sided p-values of the hypotheses that the effects are zero."""
        return self.pvalue

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        frame = super().summary_frame(alpha).drop(columns="null").rename(columns={"coef": self._heading})
        return frame.set_axis(list(self.names))


def marginal_effects(released: MarginalEffects | None) -> EffectsTable:
    """Return the table of released average marginal effects on the mean response, each tested against zero."""
    if released is None:
        raise PrivacyError(
            "average marginal effects were not released; add margins=True to a fit by dp_glm; in other regressions "
            "they are the coefficients, and with interactions write fit.slopes or fit.comparisons"
        )
    k = len(released.estimate.names)
    return EffectsTable(released.estimate, np.eye(k), np.zeros(k), tuple(released.estimate.names))
