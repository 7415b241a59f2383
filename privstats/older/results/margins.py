"""Average marginal effects, in the user's units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from privstats.errors import PrivacyError
from privstats.older.inference.answer import Answer
from privstats.older.numerics.law import FloatArray
from privstats.older.results.hypotheses import ContrastTest

if TYPE_CHECKING:
    from privstats.older.results.results import Results


@dataclass(frozen=True, eq=False, repr=False)
class MarginalEffects(ContrastTest):
    """Average marginal effects, each tested against zero; the vocabulary is that of statsmodels.

    Parameters
    ----------
    names : tuple of str
        Of the predictors' columns.
    """

    names: tuple[str, ...] = ()

    @property
    def margeff(self) -> FloatArray:
        """The effects."""
        return self.effect

    @property
    def margeff_se(self) -> FloatArray:
        """Their standard errors, privacy noise included."""
        return self.sd

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        frame = super().summary_frame(alpha).drop(columns="null").rename(columns={"coef": "dy/dx"})
        return frame.set_axis(list(self.names))


def marginal_effects(results: Results) -> MarginalEffects:
    """Return what `Results.get_margeff` does."""
    answer = results.answer
    if not isinstance(answer, Answer) or answer.margins is None:
        raise PrivacyError("average marginal effects are functions of the rows: buy them, by margins=True in the fit")
    linear, _ = results.design.original()
    columns = list(answer.margins.columns)
    margins = answer.margins.in_units(np.diag(linear)[columns])
    return MarginalEffects(
        effect=margins.effects,
        null=np.zeros(len(columns)),
        sd=margins.deviations(answer),
        law=margins.error_law(answer, results.chances),
        names=tuple(results.design.names[column] for column in columns),
    )
