"""Fitted means and quantiles at new rows, through the fitted linear map."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy.special import expit, ndtr

from privstats.errors import FormulaError
from privstats.inference.estimate import Estimate
from privstats.results.facts import FloatArray
from privstats.results.numbers import FitNumbers

CHUNK = 1000  # rows whose predictions are made at a time, where some may not be identified

MEANS: dict[str, Callable[[FloatArray], FloatArray]] = {"logit": expit, "probit": ndtr, "log": np.exp}


def predicted(results: FitNumbers, new_data: pd.DataFrame, linear: bool) -> pd.Series | pd.DataFrame:
    """Return predictions of new rows, NaN where they are not identified.

    Quantiles of several tau are sorted row by row, so that they do not cross: rearranged quantiles are no further from
    the true ones (Chernozhukov, Fernandez-Val and Galichon 2010).
    """
    facts, estimate = results.facts, results.estimate
    if facts.design is None:
        raise FormulaError("the fit has no predictors; read fit.params")
    X = np.asarray(facts.design.matrix(new_data), dtype=float)
    added = facts.design.offsets(new_data) if facts.offset is not None else 0.0
    if facts.keys[-1] == "tau":
        taus = list(dict.fromkeys(label[-1] for label in facts.labels))
        each = np.column_stack([_linear_map(estimate, _placed(X, facts.labels, tau)) + added for tau in taus])
        known = ~np.isnan(each).any(axis=1)
        each[known] = np.sort(each[known], axis=1)
        return pd.DataFrame(each, new_data.index, pd.Index(taus, name="tau"))
    if X.shape[1] != len(estimate.names):
        raise FormulaError("predict needs one column and one number of it for each group; read fit.params")
    eta = _linear_map(estimate, X) + added
    if not linear and facts.link in MEANS:
        with np.errstate(over="ignore"):
            eta = MEANS[facts.link](eta)
    return pd.Series(eta, new_data.index, name=facts.formula.partition("~")[0].strip())


def _placed(X: FloatArray, labels: tuple[tuple[object, ...], ...], tau: object) -> FloatArray:
    """Return the rows of X as contrasts of all coefficients: those of one tau."""
    own = [k for k, label in enumerate(labels) if label[-1] == tau]
    if len(own) != X.shape[1]:
        raise FormulaError("predict needs the coefficients of all terms; read fit.params")
    placed = np.zeros((len(X), len(labels)))
    placed[:, own] = X
    return placed


def _linear_map(estimate: Estimate, X: FloatArray) -> FloatArray:
    """Return ``X theta``; NaN where a row of X is not complete, or its prediction not identified."""
    complete = ~np.isnan(X).any(axis=1)
    values = np.full(len(X), np.nan)
    rows = X[complete]
    if not np.size(getattr(estimate, "unidentified", ())) and not np.isnan(params := estimate.params()).any():
        values[complete] = rows @ params
        return values
    chunks = [estimate.contrast(rows[k : k + CHUNK])[0] for k in range(0, len(rows), CHUNK)]
    values[complete] = np.concatenate([np.zeros(0), *chunks])
    return values
