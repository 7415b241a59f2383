"""Results as data frames, with the same columns for every model (after R's broom)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from privstats.older.results.results import Results

TIDY = ("term", "estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high", "component")


def exponentials(values: Any) -> Any:
    """Return exponentials: infinite, without a word, of what is too large."""
    with np.errstate(over="ignore"):
        return np.exp(values)


def tidy(results: Results, alpha: float, exp: bool = False) -> pd.DataFrame:
    """Return one row a coefficient; with `exp` estimates and intervals are exponentials."""
    interval = results.conf_int(alpha, exp)
    labels = [label if isinstance(label, tuple) else (label, "") for label in results.params.index]
    columns = (
        [term for term, _ in labels],
        exponentials(results.params.to_numpy()) if exp else results.params.to_numpy(),
        results.bse.to_numpy(),
        results.tvalues.to_numpy(),
        results.pvalues.to_numpy(),
        interval[0].to_numpy(),
        interval[1].to_numpy(),
        [component for _, component in labels],
    )
    return pd.DataFrame(dict(zip(TIDY, columns, strict=True)))


def glance(results: Results) -> pd.DataFrame:
    """Return one row about the fit: what was promised, and the diagnostics that were released."""
    return pd.DataFrame(
        [
            {
                "nobs": results.nobs,
                "mech": results.mech,
                "noise": results.noise,
                "guarantee": results.guarantee.budget,
                "neighbors": str(results.guarantee.neighbors),
                **results.facts,
            }
        ]
    )
