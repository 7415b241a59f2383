"""Outcomes of tests of linear hypotheses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from privstats.errors import PrivacyError
from privstats.older.inference.errors import FINEST_ALPHA, ErrorLaw
from privstats.older.numerics.law import FloatArray


@dataclass(frozen=True, eq=False)
class ContrastTest:
    """Linear hypotheses ``R params = r``, each by itself.

    Parameters
    ----------
    effect : ndarray, shape (q,)
        ``R params``.
    null : ndarray, shape (q,)
        ``r``.
    sd : ndarray, shape (q,)
        Standard errors, privacy noise included.
    law : ErrorLaw, optional
        Law of the error of `effect`; None where no valid interval exists.
    """

    effect: FloatArray
    null: FloatArray
    sd: FloatArray
    law: ErrorLaw | None

    @property
    def tvalue(self) -> FloatArray:
        """Distance from the hypothesis in standard errors."""
        return (self.effect - self.null) / self.sd

    @property
    def pvalue(self) -> FloatArray:
        """Two-sided p-values from the simulated law."""
        if self.law is None:
            return np.full(len(self.effect), np.nan)
        return self.law.two_sided_p(self.effect - self.null)

    def conf_int(self, alpha: float = 0.05) -> FloatArray:
        """Return lower and upper bounds of `effect`, shape (q, 2).

        Raises
        ------
        PrivacyError
            If `alpha` is not in [0.001, 1): the simulated law resolves no finer level.
        """
        if not FINEST_ALPHA <= alpha < 1:
            raise PrivacyError(f"alpha must lie in [{FINEST_ALPHA:g}, 1)")
        if self.law is None:
            return np.full((len(self.effect), 2), np.nan)
        return self.effect[:, None] + np.array([-1.0, 1.0]) * self.law.lengths(alpha)

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return one row a hypothesis, with the column names of statsmodels and the hypothetical value."""
        low, high = self.conf_int(alpha).T
        return pd.DataFrame(
            {
                "coef": self.effect,
                "null": self.null,
                "std err": self.sd,
                "z": self.tvalue,
                "P>|z|": self.pvalue,
                "Conf. Int. Low": low,
                "Conf. Int. Upp.": high,
            }
        )

    def __repr__(self) -> str:
        return self.summary_frame().to_string()


@dataclass(frozen=True)
class WaldTest:
    """A joint test of q linear hypotheses.

    Parameters
    ----------
    statistic : float
        ``(R params - r)' V^-1 (R params - r)``.
    pvalue : float
        From the simulated law of the statistic.
    df : int
        Number of different hypotheses.
    """

    statistic: float
    pvalue: float
    df: int


def through(linear: FloatArray, values: FloatArray) -> FloatArray:
    """Return ``linear @ values``, where an unknown value leaves those unknown that it enters, and no others."""
    enters = ((linear != 0) & np.isnan(values)).any(axis=1)
    return np.where(enters, np.nan, linear @ np.nan_to_num(values))


def joint_covariance(R: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return the covariance of ``R params``, shape (q, q); NaN where unknown ones enter, and nowhere else."""
    used = (R != 0).astype(float)
    unknown = used @ np.isnan(covariance) @ used.T > 0
    return np.where(unknown, np.nan, R @ np.nan_to_num(covariance) @ R.T)
