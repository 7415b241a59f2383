"""Residual diagnostics of a fit: private histograms and means, charged together.

The released coefficients are public, so that the residual of a row is an expression in the row's columns. The bins are
also public: the edges of the bins are chosen from releases and declared bounds. Each diagnostic is a histogram of
residuals, or a table of means by intervals of fitted values. The ledger is charged with the plans of all diagnostics at
once, before any plan is run (`Study`). This module reads no row.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit

from privstats.errors import FormulaError, OptionError, PrivstatsWarning, quote
from privstats.formula.expression import columns, parse
from privstats.formula.factors import as_edges, numeric
from privstats.numerics.law import FloatArray
from privstats.privacy.account import Account
from privstats.privacy.promise import Promise, is_number, promise_of
from privstats.results.diagnostics import Diagnostics
from privstats.results.results import Results
from privstats.workflow.arguments import warn_of_little_protection
from privstats.workflow.plan import Plan
from privstats.workflow.protected import Protected
from privstats.workflow.study import Study
from privstats.workflow.verbs import BY_NAME

SHARES = {"residuals": 0.25, "binned": 0.5, "scale_location": 0.25}
WIDE = 4.0  # limit to which residuals are clamped, in residual std devs
STEP = 0.5  # width of a bin of residuals, in residual std devs
SIDES = 2.0  # distance of the outermost bin edges from the mean of the fitted values, in std devs of the fitted values
LARGEST = 30.0  # log odds are clamped to [-LARGEST, LARGEST]; at these limits, probabilities are within 1e-13 of 0 or 1
MOST_BINS = 100


@dataclass(frozen=True)
class Picture:
    """A residual diagnostic: the call that releases it (function, formula and options), and the edges of its bins."""

    verb: str
    formula: str
    edges: tuple[float, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


def diagnosed(
    fit: Any,
    data: Any,
    budget: Mapping[str, Any],
    bins: Any,
    fitted: Any,
    scale: Any,
    shares: Mapping[str, float] | None,
    ledger: Any,
    rng: Any,
) -> Diagnostics:
    """Return residual diagnostics of a fit, for `dp_diagnostics`.

    Raises
    ------
    OptionError, FormulaError, BudgetError
        If the fit has no residual diagnostics, or an argument is invalid.
    """
    design = _design_of(fit)
    if isinstance(bins, bool) or not isinstance(bins, int | np.integer) or not 2 <= bins <= MOST_BINS:
        raise OptionError(f"bins is {quote(bins)}; give a whole number from 2 to {MOST_BINS}, such as bins=10")
    warn_of_little_protection(budget)
    promise = promise_of(budget["eps"], budget["mu"], budget["rho"], budget["delta"], fit.facts.neighbors)
    response, eta = design.expressions(fit.params.to_numpy(dtype=float))
    if not columns(parse(eta)):
        raise FormulaError(
            f"'{fit.formula}' has one fitted value for all rows; write dp_hist('{design.response}', ...)"
        )
    edges = np.linspace(*(_range(fit, eta) if fitted is None else _given(fitted)), int(bins) + 1)
    pictures = (_of_probabilities if fit.facts.link else _of_means)(fit, response, eta, edges, scale)
    parts = _parts(tuple(pictures), shares)
    with warnings.catch_warnings():  # suppress warnings about declared columns that a diagnostic does not use
        warnings.simplefilter("ignore", PrivstatsWarning)
        plans = [_plan(fit, data, ledger, picture, promise.part(parts[kind])) for kind, picture in pictures.items()]
        made = tuple(Study(plans).run(data, ledger=ledger, rng=rng))
    return Diagnostics(fit.formula, promise, tuple(pictures), made, tuple(p.edges for p in pictures.values()))


def _design_of(fit: Any) -> Any:
    """Return a fit's design (map from rows to model columns); raise an error if residuals cannot be computed."""
    if not isinstance(fit, Results):
        raise OptionError(f"the first argument is {quote(fit)}; write ps.dp_diagnostics(fit, data, eps=1)")
    facts = fit.facts
    if not facts.diagnosed:
        raise OptionError(
            f"there are no diagnostics of a {facts.title[0].lower()}{facts.title[1:]}: residuals are those of least "
            "squares or of a logistic regression; fit the formula by dp_lm"
        )
    if missing := [name for name, value in zip(fit.names, fit.params, strict=True) if np.isnan(value)]:
        raise FormulaError(f"{missing[0]} is not given, so there are no fitted values; fit the formula without it")
    return facts.design


def _of_means(fit: Results, response: str, fitted: str, ends: FloatArray, scale: Any) -> dict[str, Picture]:
    """Return the three diagnostics of a fit without a link function: "residuals", "binned" and "scale_location".

    "residuals" is a histogram of the residuals. The other two diagnostics are tables of means in bins of the fitted
    values: "binned" has the means of the residuals, and "scale_location" the means of ``sqrt(|residual| / s)``. The
    residual std dev s is `scale` or, if `scale` is None, the released residual std dev.

    The texts `response` and `fitted` are expressions in the columns of the data; `ends` has the edges of the bins.
    """
    size = _scale(fit, scale)
    steps = _numbers(size * np.arange(-WIDE, WIDE + STEP / 2, STEP))
    left = f"np.clip({response} - ({fitted}), {steps[0]!r}, {steps[-1]!r})"
    edges = _numbers(ends)
    group = _cut(fitted, edges)
    return {
        "residuals": Picture("hist", f"I({left})", steps, {"bins": steps}),
        "binned": Picture("mean", f"I({left}) ~ {group}", edges),
        "scale_location": Picture("mean", f"np.sqrt(np.abs({left}) / {size!r}) ~ {group}", edges),
    }


def _of_probabilities(fit: Results, response: str, eta: str, ends: FloatArray, scale: Any) -> dict[str, Picture]:
    """Return the only diagnostic of a logistic regression, "binned": mean residuals in bins of fitted probabilities.

    The texts `response` and `eta` (the log odds) are expressions in the columns of the data. `ends` has the edges of
    the bins, in log odds. The residual std dev `scale` must be None: the residuals lie between -1 and 1 in any case.
    Other residual diagnostics are not informative for responses of 0 and 1.
    """
    if scale is not None:
        raise OptionError("residuals of a logistic regression lie between -1 and 1; leave scale out")
    fitted = f"1 / (1 + np.exp(-np.clip({eta}, {-LARGEST}, {LARGEST})))"
    edges = _numbers(expit(ends))
    return {"binned": Picture("mean", f"I({response} - {fitted}) ~ {_cut(fitted, edges)}", edges)}


def _cut(fitted: str, edges: tuple[float, ...]) -> str:
    return f"cut(np.clip({fitted}, {edges[0]!r}, {edges[-1]!r}), {list(edges)})"


def _numbers(values: FloatArray) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _scale(fit: Results, scale: Any) -> float:
    """Return the residual std dev that the user gave, or else the released residual std dev."""
    if scale is not None and not (is_number(scale) and 0 < scale < np.inf):
        raise OptionError(f"scale is {quote(scale)}; give a positive number, such as scale=1")
    size = float(fit.diagnostics.get("sigma", np.nan) if scale is None else scale)
    if not 0 < size < np.inf:
        raise OptionError("the fit has not released the size of its residuals; write scale=1, their typical size")
    return size


def _given(fitted: Any) -> tuple[float, float]:
    """Return the user's range of linear predictors, `fitted`; raise an error if `fitted` is not a pair of numbers."""
    pair = as_edges(fitted)
    if len(pair) != 2:
        raise OptionError("fitted is the range in which most linear predictors lie; write fitted=(0, 10)")
    return pair


def _range(fit: Results, eta: str) -> tuple[float, float]:
    """Return a range of linear predictors, to be divided into bins.

    The text `eta` is the linear predictor as an expression in the columns of the data. The range is the mean of the
    linear predictors plus or minus `SIDES` standard deviations of the linear predictors, cut off at the limits that
    follow from the declared bounds of the columns. If the mean is unknown (NaN), the range between these limits is
    returned.
    """
    design: Any = fit.facts.design
    within = numeric(f"I({eta})", design.domain).within
    center, spread = _location(fit, design.intercept)
    low, high = max(within.lo, center - SIDES * spread), min(within.hi, center + SIDES * spread)
    return (low, high) if low < high else (within.lo, within.hi)


def _location(fit: Results, intercept: bool) -> tuple[float, float]:
    """Return the approximate mean and sd of the rows' linear predictors.

    The inverse of the sampling covariance matrix of the coefficients is roughly proportional to the second moments of
    the model matrix. The factor of proportionality follows from the first column of the model matrix, the intercept,
    whose mean square is 1. If the fit has no sampling covariance matrix or no intercept, the results are NaN.
    """
    sampling = getattr(fit.estimate, "sampling", None)
    if sampling is None or not intercept:
        return np.nan, np.nan
    moments = np.linalg.pinv(np.asarray(sampling, dtype=float), hermitian=True)
    theta = fit.params.to_numpy(dtype=float)
    center, square = moments[0] @ theta / moments[0, 0], theta @ moments @ theta / moments[0, 0]
    return float(center), float(np.sqrt(max(0.0, square - center**2)))


def _parts(kinds: tuple[str, ...], shares: Mapping[str, float] | None) -> dict[str, float]:
    """Return each diagnostic's share of the budget: the user's or the default share, divided by the sum of shares."""
    given = dict(shares or {})
    if unknown := [name for name in given if name not in kinds]:
        raise OptionError(f"shares name {quote(unknown[0])}; choose among {', '.join(map(repr, kinds))}")
    if not all(is_number(share) and 0 < share < np.inf for share in given.values()):
        raise OptionError(f"shares are positive numbers; write shares={{'binned': {SHARES['binned']}}}")
    weights = {kind: float(given.get(kind, SHARES[kind])) for kind in kinds}
    return {kind: weight / sum(weights.values()) for kind, weight in weights.items()}


def _plan(fit: Results, data: Any, ledger: Account | None, picture: Picture, part: Promise) -> Plan:
    """Return the plan that releases the diagnostic `picture` from `data` with the budget `part`.

    The plan uses the neighbouring relation of the fit, and the same subset of rows as the fit. The plan also uses the
    domain of the fit, unless `data` is a `Protected` object, which has its own domain.
    """
    design: Any = fit.facts.design
    around = fit.facts.neighbors
    plan: Plan = BY_NAME[picture.verb].of(
        formula=picture.formula,
        data=data,
        domain=None if isinstance(data, Protected) else design.domain,
        subset=fit.facts.subset,
        neighbors=around.kind,
        unit=around.unit,
        rows_per_unit=around.rows_per_unit,
        ledger=ledger,
        dry_run=True,
        **part.numbers,
        **picture.options,
    )
    return plan
