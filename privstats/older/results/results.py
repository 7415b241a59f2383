"""The result of a fit, in the vocabulary of statsmodels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from privstats.boundary import door
from privstats.errors import FormulaError, PrivacyError
from privstats.older.inference.answer import Estimate
from privstats.older.inference.errors import ErrorLaw
from privstats.older.inference.wald import wald
from privstats.older.numerics.law import Chance, FloatArray
from privstats.older.privacy.events import Event
from privstats.older.privacy.guarantee import Guarantee
from privstats.older.privacy.ledger import Ledger
from privstats.older.privacy.release import Release
from privstats.older.results.absent import Absent
from privstats.older.results.design_map import DesignMap
from privstats.older.results.hypotheses import ContrastTest, WaldTest, joint_covariance, through
from privstats.older.results.margins import MarginalEffects, marginal_effects
from privstats.older.results.plots import draw
from privstats.older.results.summary import Summary, summarise
from privstats.older.results.tidy import exponentials, glance, tidy


@dataclass(frozen=True, eq=False, repr=False)
class Results(Absent):
    """A private fit. Everything here is computed from releases; the data are not kept.

    Parameters
    ----------
    formula : str
        The formula that was fitted.
    mech, noise : str
        Algorithm and noise law.
    guarantee : Guarantee
        The promise that was made and kept.
    releases : tuple of Release
        All that was learnt from the rows.
    ledger : Ledger
        What the fit was charged to.
    design : Design
        The data-free map from raw rows to columns, and back.
    answer : Estimate
        Estimate and law of its error, in scaled units.
    paid : mapping of str to tuple of Event
        What each question cost.
    n : int, optional
        Number of rows, if it is public.
    seeded : bool
        Whether the noise came from a seed, and so protects nobody.
    chances : callable
        Public random streams for simulation.
    bought : tuple of str
        Factors whose bounds were bought; `domain` holds what was bought.
    chosen : bool
        Whether algorithm and noise were left to the package.
    cov_type : str, optional
        "nonrobust", or "HC" where the error variance may differ between rows; None if there are no errors.
    title : str
        What heads the summary.
    """

    formula: str
    mech: str
    noise: str
    guarantee: Guarantee
    releases: tuple[Release, ...]
    ledger: Ledger
    design: DesignMap
    answer: Estimate
    paid: Mapping[str, tuple[Event, ...]]
    n: int | None
    seeded: bool
    chances: Callable[[int], Chance]
    bought: tuple[str, ...] = ()
    chosen: bool = False
    cov_type: str | None = "nonrobust"
    title: str = "Private regression (privstats)"

    @property
    def domain(self) -> Any:
        """What was declared of the columns."""
        return self.design.domain

    @property
    def nobs(self) -> float:
        """Number of rows offered if that is public, else the noisy number that was released."""
        return self.n if self.n is not None else self.answer.n

    @property
    def facts(self) -> dict[str, float]:
        """Diagnostics by name, all from releases; `sigma`, the residual scale, in the response's units."""
        facts = dict(self.answer.facts)
        if "sigma" in facts:
            facts["sigma"] *= self.design.response_unit
        return facts

    @cached_property
    def params(self) -> pd.Series:
        """Coefficients in the user's units, by name."""
        linear, offset = self.design.original()
        return self._series(self.design.spelt(through(linear, self.answer.reported) + offset))

    @property
    def _centre(self) -> FloatArray:
        """Coefficients about which intervals are centred: `params`, unless those were shrunk."""
        linear, offset = self.design.original()
        return through(linear, self.answer.theta) + offset

    @property
    def bse(self) -> pd.Series:
        """Standard errors: sampling and privacy noise together."""
        return self._series(np.sqrt(np.diag(self.cov_params())))

    @property
    def tvalues(self) -> pd.Series:
        """Coefficients (not shrunk) divided by their standard errors."""
        return self._series(self._centre / self.bse.to_numpy())

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values of "the coefficient is zero", from the simulated law of the error.

        They cannot fall below 1e-4, the resolution of the simulation.
        """
        return self._series(self._each().pvalue)

    @property
    def privacy_share(self) -> pd.Series:
        """Share of each squared standard error that is due to privacy noise."""
        noise = self._in_users_units(self.answer.privacy_covariance())
        return self._series(np.diag(noise) / np.diag(self.cov_params()))

    def cov_params(self) -> pd.DataFrame:
        """Return the covariance of the coefficients, sampling and privacy noise together."""
        names = self.design.index
        return pd.DataFrame(self._in_users_units(self.answer.covariance()), index=names, columns=names)

    def conf_int(self, alpha: float = 0.05, exp: bool = False) -> pd.DataFrame:
        """Return intervals that cover each coefficient with probability 1 - alpha, privacy noise included.

        Parameters
        ----------
        alpha : float
            One minus the level, in [0.001, 1).
        exp : bool
            Whether intervals of the exponentials are wanted: of odds ratios, where the link is the logit.

        Returns
        -------
        DataFrame
            Columns 0 (lower) and 1 (upper); NaN where no valid interval exists.

        Raises
        ------
        PrivacyError
            If `alpha` is out of range: the simulated law resolves no finer level.
        """
        ends = self._each().conf_int(alpha)
        return pd.DataFrame(exponentials(ends) if exp else ends, index=self.params.index)

    @door
    def predict(self, new_data: pd.DataFrame, which: str = "mean") -> pd.Series | pd.DataFrame:
        """Return the fitted mean, or quantile, of the response (as the formula has it) at new rows.

        Parameters
        ----------
        new_data : DataFrame
            The predictors' columns, and those of the offset. Values outside the domain are extrapolated, not clamped.
        which : {"mean", "linear"}
            "linear" is the linear predictor, of models with a link.

        Returns
        -------
        Series, or DataFrame with a column for each of several orders
            With the index of `new_data`; NaN where a value is missing or a level undeclared.

        Raises
        ------
        FormulaError, PrivacyError
            If a column is missing, or `which` is neither.
        """
        if which not in ("mean", "linear"):
            raise PrivacyError("which must be 'mean' or 'linear'")
        return self.design.fitted(new_data, self.params.to_numpy(), which == "linear")

    def t_test(self, hypothesis: Any) -> ContrastTest:
        """Test linear hypotheses one by one.

        Parameters
        ----------
        hypothesis : str or array_like
            As in statsmodels: ``"x1 = x2"``, ``"x1 = 0, x2 = 1"``, or a matrix R for ``R params = 0``.

        Returns
        -------
        ContrastTest
            Effect, standard error, statistic, p-value and interval of each.

        Raises
        ------
        FormulaError
            If the hypothesis is not linear in the coefficients.
        """
        R, r = self.design.constraint(hypothesis)
        effect = through(R, self._centre)
        linear, _ = self.design.original()
        return ContrastTest(effect, r, self.answer.deviations(R @ linear), self._error_law(R))

    def wald_test(self, hypothesis: Any) -> WaldTest:
        """Test linear hypotheses jointly; the null law is simulated, not chi-squared.

        Parameters
        ----------
        hypothesis : str or array_like
            As in `t_test`.

        Returns
        -------
        WaldTest

        Raises
        ------
        FormulaError
            If the hypotheses are not linear in the coefficients, or contradict each other.
        """
        R, r = self.design.constraint(hypothesis)
        if np.linalg.matrix_rank(np.column_stack([R, r])) > np.linalg.matrix_rank(R):
            raise FormulaError("the hypotheses contradict each other")
        law = self._error_law(R)
        one = self.t_test(hypothesis).sd  # known even where how estimates vary together is not
        covariance = one[:, None] ** 2 if len(R) == 1 else joint_covariance(R, self.cov_params().to_numpy())
        if law is None or law.hidden.any() or np.isnan(covariance).any():
            return WaldTest(math.nan, math.nan, len(r))
        errors = law.sample(self.chances(-1))
        return WaldTest(*wald(errors, R @ self._centre - r, covariance, law.allowance))

    def get_margeff(self) -> MarginalEffects:
        """Return average marginal effects on the mean response, bought by ``margins=True``.

        Of a dummy, the change of the mean from the reference to its level; of any other column, the mean derivative.

        Raises
        ------
        PrivacyError
            If they were not bought.
        """
        return marginal_effects(self)

    def summary(self, alpha: float = 0.05, exp: bool = False) -> Summary:
        """Return the table to print: what was promised, how it was kept, what was learnt.

        With `exp` it shows exponentials (odds ratios, where the link is the logit) and their intervals; standard errors
        remain those of the coefficients.
        """
        return summarise(self, alpha, exp)

    def tidy(self, alpha: float = 0.05, exp: bool = False) -> pd.DataFrame:
        """Return one row a coefficient, with the column names of broom; `exp` as in `summary`."""
        return tidy(self, alpha, exp)

    def plot(self, alpha: float = 0.05) -> Any:
        """Return a matplotlib figure of the estimates with their intervals; of several orders, each term's path."""
        return draw(self, alpha)

    def glance(self) -> pd.DataFrame:
        """Return one row about the fit."""
        return glance(self)

    def __repr__(self) -> str:
        return f"<Results of {self.formula!r}: {self.guarantee}>"

    def __str__(self) -> str:
        return str(self.summary())

    def _each(self) -> ContrastTest:
        """Test each coefficient against zero."""
        return self.t_test(np.eye(len(self.params)))

    def _series(self, values: Any) -> pd.Series:
        return pd.Series(values, index=self.design.index)

    def _in_users_units(self, covariance: FloatArray) -> FloatArray:
        linear, _ = self.design.original()
        if np.array_equal(linear, np.eye(len(linear))):  # where some entries may be unknown, and must stay so
            return covariance
        return linear @ covariance @ linear.T

    def _error_law(self, R: FloatArray) -> ErrorLaw | None:
        """Return the law of the error of ``R params``, or None where there is no valid one."""
        linear, _ = self.design.original()
        return self.answer.error_law(R @ linear, self.chances)
