"""Fitted means and quantiles at new rows, computed from the fitted coefficients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pandas as pd
from scipy.special import expit, logit, ndtr, ndtri

from privstats.errors import FormulaError, OptionError
from privstats.inference.estimate import Estimate
from privstats.results.facts import FloatArray
from privstats.results.formats import Listing
from privstats.results.hypotheses import estimates, level
from privstats.results.numbers import FitNumbers
from privstats.results.text import BOTH_INCLUDED, Column, TextTable, limits

SHOWN = 10  # number of rows that a printed prediction shows
CHUNK = 1000  # largest number of rows for which `Estimate.contrast` is called at a time
MISSING_COLUMNS = "predict needs one column and one number of it for each group; read fit.params"

MEANS: dict[str, Callable[[FloatArray], FloatArray]] = {"logit": expit, "probit": ndtr, "log": np.exp}
SLOPES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "logit": lambda eta: expit(eta) * expit(-eta),
    "probit": lambda eta: np.exp(-eta * eta / 2) / np.sqrt(2 * np.pi),
    "log": np.exp,
}
LINKS: dict[str, Callable[[FloatArray], FloatArray]] = {"logit": logit, "probit": ndtri, "log": np.log}


@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    """Fitted means at new rows with standard errors and intervals, under the attribute names of statsmodels.

    A number is NaN where a value of the row is missing, a level is not declared, or the prediction is not identified.

    Parameters
    ----------
    index : Index
        Index of the new rows.
    link : str, optional
        "logit", "probit" or "log"; None for models without a link function.
    sigma : float
        Released residual std dev of `dp_lm` by least squares, in units of the response; NaN for other fits.
    sigma_std_err : float
        Std error of `sigma` due to privacy noise and, with the method "newton", to clipping of rows; in the same units.
    """

    index: pd.Index
    link: str | None
    sigma: float
    _estimate: Estimate = field(repr=False)
    _X: FloatArray = field(repr=False)
    _added: FloatArray = field(repr=False)
    sigma_std_err: float = np.nan
    _known: dict[float, FloatArray] = field(
        init=False, repr=False, default_factory=dict
    )  # results of `_linear`, by alpha (one minus the confidence)

    @property
    def predicted_mean(self) -> FloatArray:
        """Fitted mean, or quantile, of the response in each row."""
        return mean_of(self._linear(0.05)[0].copy(), self.link)

    @property
    def se_mean(self) -> FloatArray:
        """Standard errors of `predicted_mean`, including privacy noise; models with a link use the delta method."""
        eta, sd, *_ = self._linear(0.05)
        return sd * slope_of(eta, self.link)

    def conf_int(self, alpha: float = 0.05, obs: bool = False) -> FloatArray:
        """Return an array with a row for each new row: the lower and the upper limit of its interval.

        The limits allow for bias of the coefficients, for example from clipping.

        Parameters
        ----------
        alpha : float
            One minus the confidence.
        obs : bool
            False for intervals of the mean. True for prediction intervals of a new response (NaN if `sigma` is NaN).
            Prediction intervals assume normal errors with the same variance in all rows. This variance is taken as
            ``sigma**2`` plus the std error of ``sigma**2``, which is ``2 sigma sigma_std_err``.
            ``python -m benchmarks.predictions --seed 1`` measures the coverage of both kinds of intervals on real
            populations.

        Notes
        -----
        Let v be the residual variance, and let its estimate be normal with std error s. With the estimate plus s
        in place of v, the average coverage of 95% prediction intervals is at least .95 for any s, and .97 if s is v/2.
        With the estimate alone in place of v, the coverage at s = v/2 would be .90 (tests/results/test_prediction.py).

        Raises
        ------
        OptionError
            If `alpha` is not between 0 and 1.
        """
        eta, sd, low, high = self._linear(level(alpha))
        if obs:
            z = ndtri(1 - alpha / 2)
            variance = self.sigma**2 + 2 * self.sigma * np.nan_to_num(self.sigma_std_err)
            own, whole = z * sd, z * np.sqrt(sd**2 + variance)
            # low = eta - own - b, with the linear predictor eta, the half-length `own` of a normal interval for the
            # mean, and a b >= 0 that allows for bias and for tails heavier than normal; in an interval for a new
            # response, the half-length `whole` replaces `own`
            low = np.minimum(low + own, eta) - whole
            return np.column_stack([low, np.maximum(high - own, eta) + whole])
        return np.column_stack([mean_of(low, self.link), mean_of(high, self.link)])

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return a DataFrame of fitted means, std errors and interval limits, with the column names of statsmodels.

        The columns ``obs_ci_lower`` and ``obs_ci_upper`` are the limits of prediction intervals for a new response.
        """
        ends, wide = self.conf_int(alpha), self.conf_int(alpha, obs=True)
        return pd.DataFrame(
            {
                "mean": self.predicted_mean,
                "mean_se": self.se_mean,
                "mean_ci_lower": ends[:, 0],
                "mean_ci_upper": ends[:, 1],
                "obs_ci_lower": wide[:, 0],
                "obs_ci_upper": wide[:, 1],
            },
            self.index,
        )

    def __repr__(self) -> str:
        """Return the first rows of `summary_frame` as a table of rounded numbers."""
        rows = len(self.index)
        first = replace(self, index=self.index[:SHOWN], _X=self._X[:SHOWN], _added=self._added[:SHOWN])
        mean, se, low, high, obs_low, obs_high = first.summary_frame().to_numpy().T
        columns: tuple[Column, ...] = estimates(("fitted", 10), mean, se, low, high, limits(0.05), (10, 9))
        legend = [BOTH_INCLUDED]
        if np.isfinite(self.sigma):
            *_, of_new, to_new = estimates(("", 0), mean, se, obs_low, obs_high, ("new response", "to"), (10, 13))
            columns = (*columns, of_new, to_new)
            legend.append("The last two columns are the limits of 95% prediction intervals.")
        spans = tuple((0, "not given") if np.isnan(value) else None for value in mean)
        if np.isnan(mean).any():
            legend.append(
                "A row is not given if a value is missing, a level is not declared, or a coefficient is not given."
            )
        if rows > SHOWN:
            legend.insert(0, f"and {rows - SHOWN:,} more rows; write summary_frame() for all of them.")
        labels = tuple((str(label),) for label in first.index)
        title = f"Predictions for {rows:,} new row{'s' * (rows != 1)}"
        return Listing(title, TextTable(("row",), labels, columns, spans), tuple(legend)).as_text()

    def _linear(self, alpha: float) -> FloatArray:
        """Return linear predictors at the new rows, with std errors and intervals of confidence 1 - alpha.

        The array has shape (4, rows): linear predictor (offset included), std error, lower limit, upper limit. Each
        distinct row of the model matrix is computed only once.
        """
        if alpha not in self._known:
            complete = ~np.isnan(self._X).any(axis=1)
            known = self._X[complete]
            _, first, places = np.unique(known, axis=0, return_index=True, return_inverse=True)
            order = np.argsort(first)  # distinct rows in the order in which they first occur
            rows, places = known[first[order]], np.argsort(order)[places.ravel()]
            parts = [self._estimate.contrast(rows[k : k + CHUNK], alpha)[:4] for k in range(0, len(rows), CHUNK)]
            values = np.full((4, len(self._X)), np.nan)
            values[:, complete] = np.concatenate([np.zeros((4, 0)), *parts], axis=1)[:, places]
            values[[0, 2, 3]] += self._added
            self._known[alpha] = values
        return self._known[alpha]


def prediction(results: FitNumbers, new_data: pd.DataFrame) -> Prediction:
    """Return fitted means (or quantiles) of one fit at new rows, with standard errors and intervals.

    Standard errors and intervals include privacy noise. The intervals also allow for bias of the coefficients, for
    example from clipping.
    """
    facts, estimate, new_data = results.facts, results.estimate, new_rows(new_data)
    X, added = _columns(results, new_data)
    if facts.keys[-1] == "tau" and len({label[-1] for label in facts.labels}) > 1:
        raise FormulaError("get_prediction needs a single tau; write fit.predict(new_data), or fit with one tau=0.5")
    if X.shape[1] != len(estimate.names):
        raise FormulaError(MISSING_COLUMNS)
    squares = facts.loss == "squares"  # with another loss than squares, the residual scale is not a standard deviation
    sigma, error = (results.diagnostics.get(name, np.nan) if squares else np.nan for name in ("sigma", "sigma_std_err"))
    return Prediction(new_data.index, facts.link, sigma, estimate, X, added, error)


def predicted(results: FitNumbers, new_data: pd.DataFrame, linear: bool) -> pd.Series | pd.DataFrame:
    """Return fitted means, linear predictors or quantiles at new rows; NaN where a prediction is not identified.

    Predicted quantiles at several levels tau are sorted within each row, so that they do not cross: sorting never
    increases their distance to the true quantiles (Chernozhukov, Fernandez-Val and Galichon 2010).
    """
    facts, estimate, new_data = results.facts, results.estimate, new_rows(new_data)
    X, added = _columns(results, new_data)
    if facts.keys[-1] == "tau":
        taus = list(dict.fromkeys(label[-1] for label in facts.labels))
        each = np.column_stack([linear_map(estimate, placed(X, facts.labels, tau)) + added for tau in taus])
        known = ~np.isnan(each).any(axis=1)
        each[known] = np.sort(each[known], axis=1)
        return pd.DataFrame(each, new_data.index, pd.Index(taus, name="tau"))
    if X.shape[1] != len(estimate.names):
        raise FormulaError(MISSING_COLUMNS)
    eta = linear_map(estimate, X) + added
    return pd.Series(eta if linear else mean_of(eta, facts.link), new_data.index, name=results.endog_names)


def new_rows(new_data: Any) -> pd.DataFrame:
    """Convert new rows, given as a dict of columns or as a table with a method `to_pandas`, to a DataFrame.

    New rows are not confidential. A dict of single values is one row. An object of another type is returned unchanged;
    unless the object is a DataFrame, a later look-up of its columns raises an error.

    Raises
    ------
    OptionError
        If the columns of a dict are not lists of equal length.
    """
    if isinstance(new_data, Mapping):
        single = bool(new_data) and all(map(pd.api.types.is_scalar, new_data.values()))
        try:
            return pd.DataFrame(dict(new_data), [0] if single else None)
        except ValueError:
            pass
        raise OptionError("the columns of the new rows are no lists of equal length; give each one value for each row")
    made = new_data.to_pandas() if hasattr(new_data, "to_pandas") else new_data
    return cast(pd.DataFrame, made)


def _columns(results: FitNumbers, new_data: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
    """Return the model matrix and the offset of new rows."""
    facts = results.facts
    if facts.design is None:
        raise FormulaError("the fit has no predictors; read fit.params")
    X = np.asarray(facts.design.matrix(new_data), dtype=float)
    return X, facts.design.offsets(new_data) if facts.offset is not None else np.zeros(len(X))


def mean_of(eta: FloatArray, link: str | None) -> FloatArray:
    """Return the mean response at each linear predictor in `eta`, by the inverse of the link function `link`.

    Without a link function (None) the mean is the linear predictor. An overflow gives infinity without a warning.
    """
    with np.errstate(over="ignore"):
        return MEANS[link](eta) if link in MEANS else eta


def slope_of(eta: FloatArray, link: str | None) -> FloatArray:
    """Return derivatives of the inverse link function at linear predictors."""
    with np.errstate(over="ignore"):
        return SLOPES[link](eta) if link in SLOPES else np.ones_like(eta)


def placed(X: FloatArray, labels: tuple[tuple[object, ...], ...], tau: object) -> FloatArray:
    """Return a model matrix whose product with the coefficients at all quantile levels is the prediction at `tau`.

    The returned matrix has a column for each coefficient at each quantile level. The last part of a coefficient's label
    in `labels` is its quantile level. The columns of the coefficients at the level `tau` are the columns of `X`, the
    model matrix for a single quantile level, and all other columns are zero.
    """
    own = [k for k, label in enumerate(labels) if label[-1] == tau]
    if len(own) != X.shape[1]:
        raise FormulaError("predict needs the coefficients of all terms; read fit.params")
    placed = np.zeros((len(X), len(labels)))
    placed[:, own] = X
    return placed


def linear_map(estimate: Estimate, X: FloatArray) -> FloatArray:
    """Return linear predictors (rows of X times coefficients); NaN for incomplete rows and unidentified predictions."""
    complete = ~np.isnan(X).any(axis=1)
    values = np.full(len(X), np.nan)
    rows = X[complete]
    if not np.size(getattr(estimate, "unidentified", ())) and not np.isnan(params := estimate.params()).any():
        values[complete] = rows @ params
        return values
    chunks = [estimate.contrast(rows[k : k + CHUNK])[0] for k in range(0, len(rows), CHUNK)]
    values[complete] = np.concatenate([np.zeros(0), *chunks])
    return values
