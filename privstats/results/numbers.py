"""Estimates, standard errors and other numbers of a fit, under the attribute names of statsmodels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from privstats.errors import OptionError
from privstats.inference.estimate import Estimate
from privstats.inference.notes import Note, explained, in_rho
from privstats.privacy.account import Account
from privstats.privacy.ledger import Ledger
from privstats.privacy.promise import Promise, ZeroCDP
from privstats.privacy.release import Release
from privstats.results.deltas import delta_note
from privstats.results.entry import entry
from privstats.results.facts import FitFacts, FloatArray
from privstats.results.hypotheses import level
from privstats.results.labels import spelled_label

# Diagnostics that the property `diagnostics` omits, because `nobs_used`, the summary and the notes show them.
COUNTS = ("rows used", "rows used sd", "weights used", "weights used sd")
IN_UNITS = ("sigma", "sigma_std_err", "response_sd")  # diagnostics in the units of the response
HETEROSKEDASTIC = ("HC", "HC0", "HC1", "HC2", "HC3")  # values of `cov_type` that all give the HC1 sandwich covariance
NO_EXPONENTIALS = ("hist", "mode")  # functions whose estimates are counts, densities or modes
KNOWN_SCALE = {"binomial": 1.0, "poisson": 1.0}  # families with a known dispersion, and the value of the dispersion


@dataclass(frozen=True)
class ModelView:
    """Names of the response and coefficients, as attributes that packages for regression tables read.

    Parameters
    ----------
    endog_names : str
        The response, as written in the formula.
    exog_names : list of str
        The coefficients, in the order of the estimates.
    """

    endog_names: str
    exog_names: list[str]


@dataclass(frozen=True, eq=False, repr=False)
class FitNumbers:
    """Estimates, standard errors and public information about a fit, as pandas objects.

    If a fit lacks a number, the property for this number raises an AttributeError without a message;
    `Results.__getattr__` then raises an error that names an alternative.

    Parameters
    ----------
    estimate : Estimate
        Estimates with the distribution of their errors, in the units of the user's data.
    facts : FitFacts
        Public information about the fit: call, guarantee and method.
    releases : tuple of Release
        All noisy numbers that were computed from the rows of the data.
    account : Account
        Privacy account to which the fit was charged.
    """

    estimate: Estimate
    facts: FitFacts
    releases: tuple[Release, ...]
    account: Account

    @property
    def ledger(self) -> Ledger:
        """The ledger to which the fit was charged.

        If the call had no ledger, this attribute is a ledger that contains this fit only and has no budget left.
        """
        return Ledger.over(self.account)

    @property
    def params(self) -> pd.Series:
        """Estimates by name, in the original units of the columns; NaN where a coefficient is not identified."""
        values = self.estimate.params()
        if not self.facts.levels:
            return self._series(values)
        return self._series(_spelled_levels(values, self.facts.levels))

    @property
    def bse(self) -> pd.Series:
        """Standard errors, which include both sampling error and privacy noise."""
        return self._series(self.estimate.bse())

    @property
    def tvalues(self) -> pd.Series:
        """Estimates divided by their standard errors."""
        return self._series(self.estimate.tvalues())

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values of the hypothesis that a coefficient is zero."""
        return self._series(self.estimate.pvalues())

    @property
    def noise_share(self) -> pd.Series:
        """Share of each squared standard error that is due to privacy noise."""
        return self._series(self.estimate.noise_share())

    def cov_params(self) -> pd.DataFrame:
        """Return the covariance matrix of the estimates, which includes both sampling error and privacy noise."""
        return pd.DataFrame(self.estimate.covariance(), index=self._index, columns=self._index)

    @entry
    def conf_int(self, alpha: float = 0.05, exp: bool = False) -> pd.DataFrame:
        """Return confidence intervals that allow for privacy noise; each has coverage probability 1 - alpha.

        Parameters
        ----------
        alpha : float
            One minus the confidence.
        exp : bool
            Whether to return intervals of the exponentials of the coefficients (odds ratios if the link is the logit).

        Returns
        -------
        DataFrame
            Columns 0 (lower) and 1 (upper); NaN where no interval with the stated coverage is known.

        Raises
        ------
        OptionError
            If `alpha` is not between 0 and 1, or if `exp` is true and the estimates are a histogram or a mode.
        """
        check_exponentials(self.facts, exp)
        ends = np.column_stack(self.estimate.coefficients(level(alpha))[2:])
        return pd.DataFrame(exponentials(ends) if exp else ends, index=self._index)

    @property
    def nobs(self) -> float:
        """Number of rows of the data; NaN if this number is private."""
        return math.nan if self.facts.rows is None else self.facts.rows

    @property
    def nobs_used(self) -> float:
        """Number of rows used: the public number if every row is used, else the released number, else NaN."""
        return self.facts.used_value

    @property
    def diagnostics(self) -> dict[str, float]:
        """Diagnostics by name, all computed from releases.

        Three diagnostics are in the units of the response: `sigma`, the standard deviation of the residuals;
        `sigma_std_err`, the standard error of `sigma` due to privacy noise and, with the method "newton", to clipping;
        and `response_sd`, the standard deviation of the response (in a model without an intercept, the root mean
        square). With a skewed response, `sigma` may be too small by more than `sigma_std_err`, because "newton" clips
        rows with large residuals. `response_sd` is NaN if the released variance of the response is small compared with
        the noise in this variance.
        """
        unit = self.facts.residual_unit
        found = [(name, value) for name, value in self.estimate.diagnostics.items() if name not in COUNTS]
        return {name: value * unit if name.partition("[")[0] in IN_UNITS else value for name, value in found}

    @property
    def formula(self) -> str:
        """The formula, as the user wrote it."""
        return self.facts.formula

    @property
    def mech(self) -> str:
        """The method, as a value of the argument `mech`, such as "suffstats" or "newton"."""
        return self.facts.mech

    @property
    def guarantee(self) -> Promise:
        """The privacy guarantee: parameters and neighbouring relation."""
        return self.facts.promise

    @property
    def domain(self) -> Any:
        """The declared bounds and levels of the columns."""
        return None if self.facts.design is None else self.facts.design.domain

    @property
    def digest(self) -> str:
        """Digest (hash) of the plan of the fit, which identifies a saved plan."""
        return self.facts.digest

    @property
    def budget(self) -> pd.DataFrame:
        """Table with a row for each query of the data: name, share of the budget, and privacy cost."""
        rows = [(name, share, self.facts.divided.part(share).budget) for name, share in self.facts.budget]
        return pd.DataFrame(rows, columns=["question", "share", "cost"])

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes on limitations of the estimates, in the order in which the summary prints them."""
        own = (*self.facts.notes, *delta_note(self.facts, self.estimate, self.releases))
        notes = explained(own, self.estimate.notes)
        return tuple(map(in_rho, notes)) if isinstance(self.facts.promise, ZeroCDP) else notes

    @property
    def group_rows(self) -> FloatArray | None:
        """Noisy number of rows in each group, for estimates by group; None if these numbers were not released."""
        rows = getattr(self.estimate, "rows", None)
        return None if rows is None else np.asarray(rows, dtype=float)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the estimates as strings, for use in hypotheses.

        With several quantile levels tau, the name of the coefficient of x at tau = 0.5 is ``x[0.5]``.
        """
        if not self.facts.labels:
            return tuple(str(name) for name in self.estimate.names)
        return spelled_label(self.facts.labels)

    @property
    def endog_names(self) -> str:
        """The response, as written in the formula."""
        return self.formula.partition("~")[0].strip()

    @property
    def exog_names(self) -> list[str]:
        """Names of the estimates as strings, in the order of the estimates."""
        return list(self.names)

    @property
    def model(self) -> ModelView:
        """Names of the response and of the estimates, for packages that print regression tables.

        Unlike the attribute `model` in statsmodels, this object does not contain the data.

        Examples
        --------
        >>> import pandas as pd
        >>> from privstats.api import dp_lm
        >>> rows = pd.DataFrame({"x": [0.2, 0.8] * 500, "y": [1.0, 2.0] * 500})
        >>> fit = dp_lm("y ~ x", rows, eps=2, domain={"x": (0, 1), "y": (0, 4)}, rng=1)
        >>> fit.model
        ModelView(endog_names='y', exog_names=['Intercept', 'x'])
        """
        return ModelView(self.endog_names, self.exog_names)

    @property
    def k_constant(self) -> int:
        """1 if the model was fitted with an intercept, else 0.

        For ``y ~ 0 + C(g)``, the value is usually 1, because the equivalent model ``y ~ C(g)`` is fitted. The value is
        0 if the formula is fitted as written, for example with ``mech="kng"`` or ``margins=True``.
        """
        return int(self.facts.constant or "Intercept" in self._terms)

    @property
    def df_model(self) -> float:
        """Number of coefficients at one quantile level, without the intercept; NaN if the fit is not a regression."""
        return float(len(self._terms) - self.k_constant) if self.facts.tested else math.nan

    @property
    def df_resid(self) -> float:
        """Number of rows minus number of coefficients; for several quantile levels, the coefficients at one level.

        The value is NaN if the number of rows is private, or if the fit is not a regression.

        Examples
        --------
        >>> import pandas as pd
        >>> from privstats.api import dp_lm
        >>> rows = pd.DataFrame({"x": [0.2, 0.8] * 500, "y": [1.0, 2.0] * 500})
        >>> dp_lm("y ~ x", rows, eps=2, domain={"x": (0, 1), "y": (0, 4)}, rng=1).df_resid
        998.0
        """
        return self.nobs - self.df_model - self.k_constant

    @property
    def scale(self) -> float:
        """Dispersion: released residual variance of least squares, or 1 for the binomial and Poisson families.

        Other fits lack the attribute.
        """
        facts, sigma = self.facts, self.diagnostics.get("sigma")
        if facts.family in KNOWN_SCALE:
            return KNOWN_SCALE[facts.family]
        if sigma is None or not facts.least_squares:
            raise AttributeError
        return sigma**2

    @property
    def rsquared(self) -> float:
        """R squared of a least-squares fit: 1 - (residual variance) / (variance of the response), at least 0.

        The two variances are the squares of `sigma` and `response_sd` in `diagnostics`, and contain privacy noise. The
        noise is small for noisy moments ("suffstats"). Other methods spend only a small share of the budget on the
        variances; their R squared may be wrong by 0.2 or more, and objective perturbation slightly underestimates R
        squared. Noise in sigma contributes about 2 sigma sigma_std_err / response_sd^2 to the error of R squared;
        clipped rows of a skewed response contribute more, because sigma is then too small. In a model without an
        intercept, the mean square of the response replaces its variance, as in statsmodels. R squared is NaN if the
        released variance of the response is small compared with the noise in this variance. Fits that do not release
        the variance of the response lack the attribute.

        Examples
        --------
        >>> import pandas as pd
        >>> from privstats.api import dp_lm
        >>> rows = pd.DataFrame({"x": [0.2, 0.8, 0.2, 0.8] * 2500, "y": [1.0, 3.0, 2.0, 2.0] * 2500})
        >>> round(dp_lm("y ~ x", rows, eps=5, domain={"x": (0, 1), "y": (0, 4)}, rng=1).rsquared, 1)
        0.5
        """
        found = self.diagnostics
        if not (self.facts.least_squares and {"sigma", "response_sd"} <= found.keys()):
            raise AttributeError
        unexplained = (found["sigma"] / found["response_sd"]) ** 2
        return unexplained if math.isnan(unexplained) else max(0.0, 1 - unexplained)

    @property
    def rsquared_adj(self) -> float:
        """`rsquared`, adjusted for the number of coefficients.

        The adjustment uses the number of rows `nobs` or, in a fit with ``subset=``, the released number `nobs_used` of
        rows in the subset. The adjusted value is NaN if `nobs` is private, if `nobs_used` was not released (as with
        ``weights=``), or if the number of rows does not exceed the number of coefficients.
        """
        unexplained = 1 - self.rsquared
        rows = self.nobs if self.facts.subset is None else self.nobs_used
        free = rows - self.df_model - self.k_constant
        return 1 - unexplained * (rows - self.k_constant) / free if free > 0 else math.nan

    @property
    def normalized_cov_params(self) -> pd.DataFrame:
        """Inverse of X'X or, with a binomial or Poisson family, of the Fisher information, computed from releases.

        The matrix is the sampling covariance of the estimates, without privacy noise, divided by the dispersion
        `scale`. Entries are NaN where an estimate is not given. The attribute exists only in fits without weights that
        have ``cov_type="nonrobust"`` and either the method "suffstats" or a binomial or Poisson family.

        Examples
        --------
        >>> import pandas as pd
        >>> from privstats.api import dp_lm
        >>> rows = pd.DataFrame({"x": [0.0, 1.0] * 5000, "y": [1.0, 2.0, 2.0, 3.0] * 2500})
        >>> domain = {"x": (0, 1), "y": (0, 4)}
        >>> fit = dp_lm("y ~ x", rows, eps=5, domain=domain, cov_type="nonrobust", rng=1)
        >>> (1e4 * fit.normalized_cov_params).round(1).to_numpy().tolist()
        [[2.0, -2.0], [-2.0, 4.0]]
        """
        facts, sampling = self.facts, getattr(self.estimate, "sampling", None)
        # with methods other than "suffstats", the noise in `scale` does not cancel in (sampling covariance) / `scale`
        inverse = facts.mech == "suffstats" or facts.family in KNOWN_SCALE
        if sampling is None or not inverse or self.cov_type != "nonrobust" or facts.weights is not None:
            raise AttributeError
        total = self.cov_params()
        return total.where(total.isna(), sampling) / self.scale

    @property
    def HC1_se(self) -> pd.Series:
        """HC1 standard errors of least squares (`bse`), given only if `cov_type` is "HC" or "HC0" to "HC3"."""
        return self._heteroskedastic().bse

    @property
    def cov_HC1(self) -> pd.DataFrame:
        """HC1 covariance of least squares (`cov_params()`), given only if `cov_type` is "HC" or "HC0" to "HC3"."""
        return self._heteroskedastic().cov_params()

    @property
    def family(self) -> Any:
        """The family of a generalized linear model with its link, as an object of statsmodels.

        Examples
        --------
        >>> import pandas as pd
        >>> from privstats.api import dp_glm
        >>> rows = pd.DataFrame({"x": [0.2, 0.8] * 500, "y": [0, 1] * 500})
        >>> fit = dp_glm("y ~ x", rows, eps=2, domain={"x": (0, 1), "y": [0, 1]}, rng=1)
        >>> type(fit.family).__name__, type(fit.family.link).__name__
        ('Binomial', 'Logit')
        """
        if self.facts.family is None:
            raise AttributeError
        from statsmodels.genmod import families

        link = getattr(families.links, (self.facts.link or "identity").title())
        return getattr(families, self.facts.family.title())(link())

    @property
    def q(self) -> float | tuple[float, ...]:
        """The quantile level tau of a quantile regression; a tuple if the fit has several levels."""
        if not self.facts.taus:
            raise AttributeError
        return self.facts.taus if len(self.facts.taus) > 1 else self.facts.taus[0]

    @property
    def use_t(self) -> bool:
        """Always False: tests use the distribution of sampling error plus privacy noise instead of Student's t."""
        return False

    @property
    def method(self) -> str:
        """The method of the fit in words, such as "noisy moments"."""
        return self.facts.mech_words

    @property
    def cov_type(self) -> str | None:
        """Kind of the standard errors, such as "HC", "nonrobust" or "cluster"; None if the fit is not a regression."""
        return self.facts.cov_type

    @property
    def link(self) -> str | None:
        """Name of the link function: "logit", "probit" or "log"; None for models without a link function."""
        return self.facts.link

    def _heteroskedastic(self) -> FitNumbers:
        """Return this fit if it is a least-squares fit with HC1 standard errors; otherwise raise AttributeError.

        Therefore other fits lack the properties `HC1_se` and `cov_HC1`.
        """
        if not (self.facts.least_squares and self.cov_type in HETEROSKEDASTIC):
            raise AttributeError
        return self

    @property
    def _terms(self) -> tuple[Any, ...]:
        """Names of the terms; a term with several quantile levels or groups appears once."""
        return tuple(dict.fromkeys(label[0] for label in self.facts.labels)) or tuple(self.estimate.names)

    @property
    def _index(self) -> pd.Index:
        facts = self.facts
        if len(facts.keys) == 1:
            return pd.Index([label[0] for label in facts.labels] if facts.labels else list(self.estimate.names))
        return pd.MultiIndex.from_tuples(list(facts.labels), names=facts.keys)

    def _series(self, values: FloatArray) -> pd.Series:
        return pd.Series(values, index=self._index)


def _spelled_levels(values: FloatArray, levels: tuple[tuple[Any, ...] | None, ...]) -> Any:
    """Return estimated modes; the mode of a column with levels is returned as a level, not as an index of a level.

    `levels` has, for each estimate, the declared levels of the column, or None for a numeric column.
    """
    whole = np.empty(len(values), dtype=object)
    for k, (value, known) in enumerate(zip(values, levels, strict=True)):
        whole[k] = value if known is None or math.isnan(value) else known[int(value)]
    return whole


def check_exponentials(facts: FitFacts, exp: bool) -> None:
    """Raise an error if `exp` is true and the estimates are a histogram or a mode.

    Raises
    ------
    OptionError
        If `exp` is true and the estimates are a histogram or a mode.
    """
    if exp and facts.verb in NO_EXPONENTIALS:
        raise OptionError(f"exp=True is for means, quantiles and coefficients; leave exp out after dp_{facts.verb}")


def exponentials(values: Any) -> Any:
    """Return the exponentials of values; an overflow gives infinity without a warning."""
    with np.errstate(over="ignore"):
        return np.exp(values)
