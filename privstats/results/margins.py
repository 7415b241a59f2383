"""Average marginal effects, in the user's units."""

from __future__ import annotations

import numpy as np
import pandas as pd

from privstats.errors import PrivacyError
from privstats.inference.estimate import Estimate
from privstats.results.facts import FloatArray
from privstats.results.hypotheses import ContrastTest


class MarginalEffects(ContrastTest):
    """Average marginal effects, each tested against zero; the vocabulary is that of statsmodels."""

    @property
    def margeff(self) -> FloatArray:
        """The effects."""
        return self.effect

    @property
    def margeff_se(self) -> FloatArray:
        """Their standard errors, noise included."""
        return self.sd

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        frame = super().summary_frame(alpha).drop(columns="null").rename(columns={"coef": "dy/dx"})
        return frame.set_axis(list(self.names))


def marginal_effects(margins: Estimate | None) -> MarginalEffects:
    """Return what `Results.get_margeff` does."""
    if margins is None:
        raise PrivacyError("average marginal effects were not released; add margins=True to the fit")
    k = len(margins.names)
    return MarginalEffects(margins, np.eye(k), np.zeros(k), tuple(margins.names))
