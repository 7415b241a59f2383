"""Public information about a fit: the call, the privacy guarantee, and the method with the reason for its choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privstats.inference.notes import Note
from privstats.privacy.promise import Neighbors, Promise

FloatArray = NDArray[np.float64]

REGRESSIONS = ("lm", "glm", "rq")  # functions that test coefficients against zero


class PublicDesign(Protocol):
    """Attributes of a design (a formula with the declared bounds of its columns, without rows) that results need."""

    @property
    def domain(self) -> Any:
        """The declared bounds and levels of the columns."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the data columns in the response, the predictors, `subset`, `weights` and `offset`."""

    def matrix(self, new_data: pd.DataFrame) -> FloatArray:
        """Return the model matrix of new rows, shape (n, coefficients), in the units of the user's data."""

    def offsets(self, new_data: pd.DataFrame) -> FloatArray:
        """Return the offset of new rows, shape (n,)."""


COMBINED = "combined"  # name of the method for a weighted mean of several fits


@dataclass(frozen=True)
class FitFacts:
    """Public information about a fit: call, guarantee, method and notes, all of it either declared or released.

    Parameters
    ----------
    verb : str
        Name of the function without "dp_": "lm", "glm", "rq", "median", "quantile", "mean", "mode" or "hist".
    title : str
        Heading of the summary, printed before the formula, such as "Private linear regression" or "Private quantile
        regression (tau = 0.9)".
    formula : str
        The formula, as the user wrote it.
    promise : Promise
        The privacy guarantee of the fit, as requested in the call. Its attribute `neighbors` has the neighbouring
        relation and the name of the privacy unit, such as person, if there is one.
    mech, mech_words : str
        The method as the value of the argument `mech` and in words, such as "suffstats" and "noisy moments".
    noise : str, optional
        Distribution of the noise, if the method offers several distributions.
    why : str
        Reason for the choice of the method, such as "chosen by auto: expected length 1.9 times that without privacy
        (newton: 2.3)". A part ``{key}`` is replaced by the number of the note with this key.
    rows : int, optional
        Number of rows of the data, if it is public.
    units : int, optional
        Number of privacy units (such as persons), if it is public and a unit is not a row.
    used : tuple of (float, float), optional
        Released number of rows used, and the standard error of this release.
    complete : bool
        Whether every row is known to be used: the number of rows is public, the call has no `subset` and no `weights`,
        all columns have declared bounds and are declared complete, and every expression has a value in every row.
    cov_type : str, optional
        Argument `cov_type` of the call: "HC", "HC0" to "HC3", "nonrobust", "cluster" or "kernel"; None for functions
        without this argument.
    assumes : tuple of str
        Assumptions other than the assumptions about bounds and standard errors, in words.
    estimated_bounds : tuple of (str, float, float)
        Columns without declared bounds, and their estimated bounds.
    budget : tuple of (str, float)
        Name and share of the budget of each query (noisy answer computed from the rows). The shares add up to 1; a
        combined fit has no queries of its own, and the tuple is empty.
    accounted : Promise, optional
        The guarantee whose budget was divided among the queries in `budget`, if it differs from `promise`: Gaussian DP
        with a parameter mu if `promise` has eps and delta.
    kept : Promise, optional
        The guarantee that the mechanisms satisfy, if `promise` is in rho and this guarantee is stronger. The stronger
        guarantee is in mu if all noise is normal, and in eps for a single eps-DP mechanism.
    seeded : int or str, optional
        Seed of the noise, or description of the user's random generator; None for noise from the operating system.
    shared : bool
        Whether the fit was charged to a ledger that the user supplied.
    charged : str
        For combined fits: the ledgers that were charged, in words.
    keys : tuple of str
        Names of the index levels of the estimates: ("term",), ("term", "tau"), ("term", "group"),
        ("term", "group", "q") or ("term", "bin").
    labels : tuple of tuple
        Label of each estimate, with one part for each key; labels are sorted by term. Empty if `keys` is ("term",): the
        labels are then the names of the estimates.
    levels : tuple of (tuple or None)
        For modes, one entry per estimate: the declared levels of its column, or None for a numeric column. The estimate
        of a column with levels is an index into the levels. Empty for other functions.
    residual_unit : float
        Factor that converts the standard deviations of the residuals and of the response (`sigma` and `response_sd` of
        the estimate's diagnostics) from the estimator's scaled units to the units of the response.
    loss : str, optional
        Loss of a linear regression, such as "squares" or "huber".
    link : str, optional
        "logit", "probit" or "log"; None for models without a link function.
    family : str, optional
        Family of a generalized linear model: "binomial", "poisson", "gamma", "gaussian".
    taus : tuple of float
        Quantile levels of a quantile regression.
    constant : bool
        Whether the model was fitted with an intercept, either written or implied by dummies of all levels of a factor.
    design : Design, optional
        Design that maps new rows to the model matrix, for `predict`; it holds no data.
    subset, weights, offset : str, optional
        Condition on rows, row weights and offset, as the user wrote them.
    notes : tuple of Note
        Notes about the fit as a whole; notes about single estimates are in the attribute `notes` of the estimate.
    digest : str
        Digest (hash) of the plan of the fit.
    ledgers : tuple of str
        Identifiers of the charged ledgers that the user supplied.
    accepted : tuple of (str, float)
        Pairs of a term and the largest width of the term's 95% interval that the user declared sufficient before the
        fit.
    """

    verb: str
    title: str
    formula: str
    promise: Promise
    mech: str
    mech_words: str
    noise: str | None = None
    why: str = ""
    rows: int | None = None
    units: int | None = None
    used: tuple[float, float] | None = None
    complete: bool = False
    cov_type: str | None = None
    assumes: tuple[str, ...] = ()
    estimated_bounds: tuple[tuple[str, float, float], ...] = ()
    budget: tuple[tuple[str, float], ...] = ()
    accounted: Promise | None = None
    kept: Promise | None = None
    seeded: int | str | None = None
    shared: bool = False
    charged: str = ""
    keys: tuple[str, ...] = ("term",)
    labels: tuple[tuple[Any, ...], ...] = ()
    levels: tuple[tuple[Any, ...] | None, ...] = ()
    residual_unit: float = 1.0
    loss: str | None = None
    link: str | None = None
    family: str | None = None
    taus: tuple[float, ...] = ()
    constant: bool = False
    design: PublicDesign | None = None
    subset: str | None = None
    weights: str | None = None
    offset: str | None = None
    notes: tuple[Note, ...] = ()
    digest: str = ""
    ledgers: tuple[str, ...] = ()
    accepted: tuple[tuple[str, float], ...] = ()

    @property
    def neighbors(self) -> Neighbors:
        """The neighbouring relation: the pairs of data sets for which the privacy guarantee holds."""
        return self.promise.neighbors

    @property
    def order(self) -> str:
        """The quantile level, such as "tau = 0.9", of a fit at a single quantile level; empty for other fits."""
        return self.title.partition(" (")[2].partition(")")[0]

    @property
    def divided(self) -> Promise:
        """The privacy guarantee whose budget was divided among the queries of the fit.

        This is `accounted` or, if `accounted` is None, `promise`.
        """
        return self.accounted or self.promise

    @property
    def tested(self) -> bool:
        """Whether coefficients are tested against zero: true for regressions, false for means, quantiles and counts."""
        return self.verb in REGRESSIONS

    @property
    def diagnosed(self) -> bool:
        """Whether `dp_diagnostics` accepts the fit: a linear or logistic regression, not a quantile regression."""
        return self.verb in ("lm", "glm") and self.link in (None, "logit") and self.design is not None

    @property
    def least_squares(self) -> bool:
        """Whether the fit is a regression by least squares."""
        return self.loss == "squares" or self.family == "gaussian"

    @property
    def used_value(self) -> float:
        """Number of rows used: the public number if every row is used, else the released number, else NaN."""
        if self.complete and self.rows is not None:
            return float(self.rows)
        return float("nan") if self.used is None else self.used[0]
