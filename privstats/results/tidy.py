"""Results as data frames, with the same columns for every model, as in R's package broom."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from privstats.errors import OptionError, quote
from privstats.privacy.promise import Promise, PureDP
from privstats.results.numbers import FitNumbers, exponentials

TIDY = ("term", "estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high", "bias_bound", "component")
GLANCE = (
    "eps",
    "delta",
    "mu",
    "rho",
    "neighbors",
    "unit",
    "nobs",
    "nobs_used",
    "method",
    "cov_type",
    "noise_to_signal",
    "sigma",
    "seeded",
)


def tidy(results: FitNumbers, alpha: float, exp: bool = False) -> pd.DataFrame:
    """Return a DataFrame with a row for each coefficient; with `exp`, estimates and interval limits are exponentiated.

    The intervals have the confidence level 1 - `alpha`. The column bias_bound is a bound on the bias of the estimate
    due to clipping and to unidentified directions of the coefficients; with `exp`, the column bounds the bias of the
    logarithm of the estimate. The p-value and the interval allow for this bias, but the standard error and the
    statistic do not. The column component is the tau, the group or the bin to which the coefficient belongs. If a
    coefficient has a group and also a tau or a bin, component is a string with both labels. The tau, the group and the
    bin also have columns of their own.
    """
    interval, facts = results.conf_int(alpha, exp), results.facts
    labels = [label if isinstance(label, tuple) else (label,) for label in results.params.index]
    columns = (
        [label[0] for label in labels],
        exponentials(results.params.to_numpy()) if exp else results.params.to_numpy(),
        results.bse.to_numpy(),
        results.tvalues.to_numpy(),
        results.pvalues.to_numpy(),
        interval[0].to_numpy(),
        interval[1].to_numpy(),
        results.estimate.bias_bound(),
        [_component(label[1:]) for label in labels],
    )
    own = {key: [label[j] for label in labels] for j, key in enumerate(facts.keys) if j}
    return pd.DataFrame({**dict(zip(TIDY, columns, strict=True)), **own})


def column_names(frame: pd.DataFrame, names: str | None) -> pd.DataFrame:
    """Return the frame; if `names` is "broom", dots replace "_" in its column names, as in R's package broom.

    Raises
    ------
    OptionError
        If `names` is neither None nor "broom".
    """
    if names not in (None, "broom"):
        raise OptionError(f"names is {quote(names)}; write names='broom' for R's std.error, or leave names out")
    return frame if names is None else frame.rename(columns=lambda name: name.replace("_", "."))


def _component(parts: tuple[Any, ...]) -> Any:
    return "" if not parts else parts[0] if len(parts) == 1 else ", ".join(str(part) for part in parts)


def glance(results: FitNumbers) -> pd.DataFrame:
    """Return a DataFrame with one row: guarantee, number of rows, method and diagnostics; NaN for missing numbers."""
    facts, found = results.facts, results.diagnostics
    neighbors = facts.neighbors
    values = (
        *numbers_of(facts.promise),
        neighbors.kind,
        math.nan if neighbors.unit is None else neighbors.unit,
        results.nobs,
        results.nobs_used,
        facts.mech,
        math.nan if facts.cov_type is None else facts.cov_type,
        found.get("noise_to_signal", math.nan),
        found.get("sigma", math.nan),
        facts.seeded is not None,
    )
    return pd.DataFrame([dict(zip(GLANCE, values, strict=True))])


def broom_glance(results: FitNumbers) -> pd.DataFrame:
    """Return `glance` with R's column names, and the further columns r.squared, adj.r.squared and df.residual."""
    more = {"r.squared": "rsquared", "adj.r.squared": "rsquared_adj", "df.residual": "df_resid"}
    found = {name: getattr(results, own, math.nan) for name, own in more.items()}
    return column_names(glance(results), "broom").assign(**found)


def numbers_of(promise: Promise) -> tuple[float, ...]:
    """Return eps, delta, mu and rho of a privacy guarantee; NaN for parameters that the guarantee lacks."""
    own = {"delta": 0.0} if isinstance(promise, PureDP) else {}
    return tuple((own | promise.numbers).get(name, math.nan) for name in GLANCE[:4])
