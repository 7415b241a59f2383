"""The result of a fit, in the vocabulary of statsmodels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, NoReturn

import pandas as pd

from privstats.boundary import door
from privstats.errors import FormulaError, OptionError, quote
from privstats.privacy.ledger_copy import seen
from privstats.results import measurements, record
from privstats.results.absent import ABSENT, missing
from privstats.results.deployment import deployment
from privstats.results.files import as_line, write_text
from privstats.results.hypotheses import ContrastTest, WaldTest, contrast_test, level, parsed_hypothesis, wald_test
from privstats.results.marginal import MarginalTable, comparisons_table, means_table, slopes_table
from privstats.results.margins import EffectsTable, marginal_effects
from privstats.results.numbers import FitNumbers
from privstats.results.plots import draw_intervals
from privstats.results.prediction import Prediction, predicted, prediction
from privstats.results.statement import statement
from privstats.results.summary import Summary, summarise
from privstats.results.terms import pairwise_tests, term_tests
from privstats.results.tidy import column_names, glance, tidy


@dataclass(frozen=True, eq=False, repr=False)
class Results(FitNumbers):
    """A private fit. Every number is a release, or computed from releases; the data are not kept.

    Parameters
    ----------
    estimate : Estimate
        Estimate, standard errors and noise, in the user's units.
    facts : FitFacts
        The public facts of the fit.
    releases : tuple of Release
        All numbers that were computed from the rows.
    account : Account
        To which the fit was charged.
    """

    # ---------------------------------------------------------------- tests and predictions

    @door
    def predict(self, new_data: pd.DataFrame | None = None, which: str = "mean") -> pd.Series | pd.DataFrame:
        """Return the fitted mean, or quantile, of the response (as the formula has it) at new rows.

        Parameters
        ----------
        new_data : DataFrame
            The predictors' columns, and those of the offset; outside the domain predictions extrapolate, and warn.
        which : {"mean", "linear"}
            "linear" is the linear predictor, of models with a link.

        Returns
        -------
        Series, or DataFrame with a column for each tau
            With the index of `new_data`; NaN where a value is missing, a level undeclared, or the prediction is not
            identified.

        Raises
        ------
        FormulaError, OptionError
            If a column is missing, or `which` is neither.
        """
        if which not in ("mean", "linear"):
            raise OptionError(f"which is {quote(which)}; write which='mean' or which='linear'")
        if new_data is None:
            raise FormulaError(
                "predict needs new rows: fitted values of the private rows are not kept; write fit.predict(new_data)"
            )
        return predicted(self, new_data, which == "linear")

    @door
    def get_prediction(self, new_data: pd.DataFrame) -> Prediction:
        """Return fitted means at new rows with standard errors and intervals, noise and bounds of bias included.

        Parameters
        ----------
        new_data : DataFrame
            As in `predict`.

        Returns
        -------
        Prediction
            Write ``fit.get_prediction(new_data).summary_frame()``.

        Raises
        ------
        FormulaError
            If a column is missing, or the fit has several tau.

        Examples
        --------
        >>> import numpy as np, pandas as pd
        >>> from privstats.api import dp_lm
        >>> x = np.arange(20_000) % 100 / 100
        >>> rows = pd.DataFrame({"x": x, "y": 1 + 2 * x})
        >>> fit = dp_lm("y ~ x", rows, eps=2, domain={"x": (0, 1), "y": (0, 4)}, rng=1)
        >>> fit.get_prediction(pd.DataFrame({"x": [0.5]})).predicted_mean.round(1)
        array([2.])
        """
        return prediction(self, new_data)

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
            If the hypothesis is not linear in the coefficients, or names another one.
        """
        return contrast_test(self.estimate, *parsed_hypothesis(hypothesis, self.names), self.names)

    def wald_test(self, hypothesis: Any) -> WaldTest:
        """Test linear hypotheses jointly.

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
            If the hypotheses are not linear in the coefficients, name another one, or contradict each other.
        """
        return wald_test(self.estimate, *parsed_hypothesis(hypothesis, self.names))

    def f_test(self, hypothesis: Any) -> WaldTest:
        """Test linear hypotheses jointly: `wald_test` under the name that statsmodels has for it, also chi-squared."""
        return self.wald_test(hypothesis)

    def wald_test_terms(self) -> pd.DataFrame:
        """Test each term of the formula: that all its coefficients, of all tau, are zero.

        Returns
        -------
        DataFrame
            One row a term: statistic, pvalue and df; NaN where a coefficient of the term is not identified.

        Examples
        --------
        >>> import pandas as pd
        >>> from privstats.api import dp_lm
        >>> rows = pd.DataFrame({"g": ["a", "b", "c", "a"] * 5000, "y": [1.0, 2.0, 3.0, 1.5] * 5000})
        >>> fit = dp_lm("y ~ C(g)", rows, eps=2, domain={"g": ["a", "b", "c"], "y": (0, 4)}, rng=1)
        >>> fit.wald_test_terms()["df"].to_dict()
        {'Intercept': 1, 'C(g)': 2}
        """
        return term_tests(self)

    @door
    def t_test_pairwise(self, term: str, method: str = "holm", alpha: float = 0.05) -> pd.DataFrame:
        """Test all pairs of levels of a factor for equal coefficients.

        Parameters
        ----------
        term : str
            The factor, as the formula writes it: ``"C(g)"``.
        method : {"holm", "max-t", "bonferroni", "holm-sidak", "sidak", "fdr_by", "fdr_bh"}
            Of the adjusted p-values: "max-t" from the simulated joint law of the differences that are given, as in
            `comparisons`; others by the names of ``statsmodels.stats.multitest.multipletests``.
        alpha : float
            One minus the confidence of each interval, which is not adjusted, and the level of all tests together.

        Returns
        -------
        DataFrame
            One row a pair, with the column names of statsmodels; NaN where a difference is not identified.

        Raises
        ------
        FormulaError, OptionError
            If the fit has no such factor, or several tau; if there is no such method.

        Examples
        --------
        >>> import pandas as pd
        >>> from privstats.api import dp_lm
        >>> rows = pd.DataFrame({"g": ["a", "b", "c", "a"] * 5000, "y": [1.0, 2.0, 3.0, 1.5] * 5000})
        >>> fit = dp_lm("y ~ C(g)", rows, eps=2, domain={"g": ["a", "b", "c"], "y": (0, 4)}, rng=1)
        >>> fit.t_test_pairwise("C(g)")["reject-holm"].to_dict()
        {'b-a': True, 'c-a': True, 'c-b': True}
        """
        return pairwise_tests(self, term, method, alpha)

    @door
    def means(
        self,
        factor: str,
        at: Mapping[str, Any] | None = None,
        by: Any = None,
        simultaneous: bool = False,
        *,
        alpha: float = 0.05,
    ) -> MarginalTable:
        """Return estimated marginal means of the response: at each level of a factor, the others averaged.

        The grid of rows is public: all combinations of declared levels, with equal weights whatever their shares in the
        data, and numbers at the values in `at`. A mean of the data would be another release, so that each numeric
        predictor needs a value.

        Parameters
        ----------
        factor : str
            A column with levels, or a numeric one with values in `at`.
        at : mapping of str to value or list, optional
            Values of numeric predictors, or levels of factors, as ``{"exper": [5, 10]}``: each has rows of its own.
        by : str or list of str, optional
            Further factors, each level of which has rows of its own instead of being averaged.
        simultaneous : bool
            Whether intervals hold for all rows together: by the largest standardised error (max-t), simulated from the
            joint law of sampling error and noise with a fixed stream; bounds of bias are added in full.
        alpha : float
            One minus the confidence of the intervals.

        Returns
        -------
        MarginalTable
            Read its `frame`, or print it. Through a link means are on the scale of the response; their ends are those
            of the linear predictor, transformed. Quantile regressions have rows for each tau.

        Raises
        ------
        FormulaError, OptionError
            If the fit has no such predictor, a number lacks a value, or a level is not declared.

        Examples
        --------
        >>> import pandas as pd
        >>> from privstats.api import dp_lm
        >>> rows = pd.DataFrame({"g": ["a", "b"] * 10_000, "x": [0.0, 0.0, 1.0, 1.0] * 5000})
        >>> rows["y"] = 1 + rows["x"] + (rows["g"] == "b")
        >>> fit = dp_lm("y ~ x + C(g)", rows, eps=2, domain={"g": ["a", "b"], "x": (0, 1), "y": (0, 4)}, rng=1)
        >>> fit.means("g", at={"x": 0.5}).frame[["level", "estimate"]].round(1).values.tolist()
        [['a', 1.5], ['b', 2.5]]
        """
        return means_table(self, factor, at, by, simultaneous, alpha)

    @door
    def comparisons(
        self,
        term: str,
        at: Mapping[str, Any] | None = None,
        by: Any = None,
        simultaneous: bool = False,
        *,
        pairwise: bool = False,
        alpha: float = 0.05,
    ) -> MarginalTable:
        """Return differences of marginal means: of each level from the first one, or where a number grows by 1.

        Parameters
        ----------
        term : str
            A predictor: a column with levels, or a numeric one.
        at : mapping of str to value or list, optional
            As in `means`; only numbers on which the difference depends need a value: those that are multiplied with
            `term`, and all of them through a link. Levels of `term` itself are those to compare, the reference first.
        by : str or list of str, optional
            As in `means`.
        simultaneous : bool
            As in `means`; p-values then are adjusted, too.
        pairwise : bool
            Whether to compare all pairs of levels.
        alpha : float
            One minus the confidence of the intervals.

        Returns
        -------
        MarginalTable
            Through a link, differences of means on the scale of the response: standard errors by the delta method,
            intervals also by draws of the coefficients' errors, since the mean is curved.

        Raises
        ------
        FormulaError, OptionError
            If the fit has no such predictor, a number lacks a value, or a level is not declared.

        Examples
        --------
        >>> import pandas as pd
        >>> from privstats.api import dp_lm
        >>> rows = pd.DataFrame({"g": ["a", "b", "c", "a"] * 5000, "y": [1.0, 2.0, 3.0, 1.0] * 5000})
        >>> fit = dp_lm("y ~ C(g)", rows, eps=2, domain={"g": ["a", "b", "c"], "y": (0, 4)}, rng=1)
        >>> fit.comparisons("g").frame[["level", "estimate"]].round(1).values.tolist()
        [['b - a', 1.0], ['c - a', 2.0]]
        """
        return comparisons_table(self, term, at, by, pairwise, simultaneous, alpha)

    @door
    def slopes(
        self,
        term: str,
        at: Mapping[str, Any] | None = None,
        by: Any = None,
        simultaneous: bool = False,
        *,
        alpha: float = 0.05,
    ) -> MarginalTable:
        """Return derivatives of the mean with respect to a numeric predictor, whatever terms it is in.

        Parameters
        ----------
        term : str
            A numeric predictor.
        at : mapping of str to value or list, optional
            As in `comparisons`; `term` itself needs a value where the slope depends on it, as that of ``I(x**2)`` does.
        by : str or list of str, optional
            As in `means`.
        simultaneous : bool
            As in `means`; p-values then are adjusted, too.
        alpha : float
            One minus the confidence of the intervals.

        Returns
        -------
        MarginalTable
            Derivatives are central differences of the formula's terms, which are public.

        Raises
        ------
        FormulaError, OptionError
            If the fit has no such numeric predictor, a number lacks a value, or a level is not declared.

        Examples
        --------
        >>> import numpy as np, pandas as pd
        >>> from privstats.api import dp_lm
        >>> x = np.arange(20_000) % 100 / 100
        >>> rows = pd.DataFrame({"x": x, "y": 1 + 2 * x})
        >>> fit = dp_lm("y ~ x + I(x**2)", rows, eps=8, domain={"x": (0, 1), "y": (0, 4)}, rng=1)
        >>> fit.slopes("x", at={"x": [0.25, 0.75]}).frame["estimate"].round(0).tolist()
        [2.0, 2.0]
        """
        return slopes_table(self, term, at, by, simultaneous, alpha)

    def get_margeff(self) -> EffectsTable:
        """Return average marginal effects on the mean response, released by ``margins=True``.

        Of a dummy, the change of the mean from the reference to its level; of any other column, the mean derivative.

        Raises
        ------
        PrivacyError
            If they were not released.
        """
        return marginal_effects(getattr(self.estimate, "margins", None))

    def measurements(self, json: bool = False) -> pd.DataFrame | str:
        """Return every released number with the law of its noise, for readers who combine noisy numbers themselves.

        Parameters
        ----------
        json : bool
            Whether to return JSON text, one object a release, with all parameters of its law.

        Returns
        -------
        DataFrame
            One row a number: question, index, coordinate, value; law of the noise, what the noise is in (the value, the
            score at it, or its rank), its scale (NaN where the law depends on the rows) and standard deviation; cost of
            the whole question. Values are those that left the gate: sums of columns scaled into [-1, 1] by their
            declared bounds, or of coordinates that earlier releases chose, which each fit has for itself.
        """
        return measurements.as_json(self.releases) if json else measurements.as_frame(self.releases)

    # ---------------------------------------------------------------- output

    def summary(self, alpha: float = 0.05, exp: bool = False, digits: int = 3) -> Summary:
        """Return the table to print: the guarantee, the method, the estimates, and what the reader must know.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the intervals.
        exp : bool
            Whether to add exponentials (odds ratios, where the link is the logit) and to print their intervals;
            standard errors remain those of the coefficients.
        digits : int
            Significant digits of standard errors.
        """
        return summarise(self, alpha, exp, digits)

    def as_gt(self) -> Any:
        """Return the summary as a table of great_tables.

        Raises
        ------
        ImportError
            If great_tables is not installed: it comes with ``pip install 'privstats[gt]'``.
        """
        return self.summary().as_gt()

    def tidy(self, alpha: float = 0.05, exp: bool = False, names: str | None = None) -> pd.DataFrame:
        """Return one row a coefficient.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the intervals.
        exp : bool
            Whether to return exponentials and their intervals.
        names : {"broom"}, optional
            "broom" gives the column names of R: std.error, p.value, conf.low, conf.high.

        Returns
        -------
        DataFrame
            term, estimate, std_error, statistic, p_value, conf_low, conf_high, bias_bound, component.

        Raises
        ------
        OptionError
            If `alpha` is not between 0 and 1, or `names` is another one.

        Examples
        --------
        >>> import pandas as pd, privstats as ps
        >>> fit = ps.dp_mean("x", pd.DataFrame({"x": [1.0, 2.0] * 500}), eps=1, domain={"x": (0, 5)})
        >>> fit.tidy(names="broom").columns[:3].tolist()
        ['term', 'estimate', 'std.error']
        """
        return column_names(tidy(self, alpha, exp), names)

    def glance(self, names: str | None = None) -> pd.DataFrame:
        """Return one row about the fit; `names` as for `tidy`."""
        return column_names(glance(self), names)

    def plot(
        self, alpha: float = 0.05, *, ax: Any = None, terms: Sequence[str] | None = None, over: str | None = None
    ) -> Any:
        """Draw the estimates with their intervals, and within these what sampling alone would make of them.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the intervals.
        ax : matplotlib Axes, optional
            Where to draw, by default in a new figure.
        terms : list of str, optional
            Which to draw; by default all but the intercept.
        over : {"tau", "q"}, optional
            Along what the path of each term is drawn, in a panel each; it is where there are several.

        Returns
        -------
        matplotlib Figure

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        OptionError
            If the fit has no such term, nothing to draw over, or several panels for one `ax`.
        """
        return draw_intervals(self, level(alpha), ax, terms, over)

    def statement(self) -> str:
        """Return the methods paragraph for a paper, with references: how the fit was made, and what it guarantees.

        Examples
        --------
        >>> import pandas as pd, privstats as ps
        >>> fit = ps.dp_mean("x", pd.DataFrame({"x": [1.0, 2.0] * 500}), eps=1, domain={"x": (0, 5)})
        >>> "satisfies differential privacy with eps = 1" in " ".join(fit.statement().split())
        True
        """
        return statement(self)

    def deployment(self) -> str:
        """Return a record for the public registry of deployments of differential privacy, as YAML.

        Its fields are those of github.com/opendp/deployments-registry-data, tier 2 and what is known of tier 3; those
        that only the custodian can fill in are empty, with a comment. The registry knows no mu: the record has the
        rho = mu^2 / 2 that follows from it, and says so.

        Raises
        ------
        PrivacyError
            If the noise was seeded, so that the fit protects nobody.

        Examples
        --------
        >>> import pandas as pd, privstats as ps
        >>> fit = ps.dp_mean("x", pd.DataFrame({"x": [1.0, 2.0] * 500}), mu=1, domain={"x": (0, 5)})
        >>> [line.strip() for line in fit.deployment().splitlines() if "name:" in line or "rho:" in line][1:]
        ['data_curator_name: ""  # who publishes it', 'variant_name: "Zero-concentrated DP"', 'rho: 0.5',
         'model_name: "Central"']
        """
        return deployment(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the result in numbers, texts, lists and dicts only, as JSON has them.

        Of a ledger it has its name, its budget and what was spent of it, and a digest of its path, by which fits of one
        ledger are known: not the path, nor the entries of others.
        """
        return record.written(replace(self, account=seen(self.account)))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the result to a file of JSON, which `load` reads.

        It has what `to_dict` has.

        Parameters
        ----------
        path : str or PathLike
            A file that is there is replaced, once the new one is complete.

        Raises
        ------
        OptionError
            If the file cannot be written.
        """
        write_text(path, as_line(self.to_dict()))

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Results:
        """Return the result that `to_dict` wrote.

        Raises
        ------
        OptionError
            If the mapping is none that `to_dict` wrote.
        """
        return record.read_record(saved, cls)

    def __dir__(self) -> list[str]:
        return [name for name in PUBLIC if name not in OF_SOME or hasattr(self, name)]

    def __getattr__(self, name: str) -> NoReturn:
        raise missing(name, type(self).__name__)

    def __repr__(self) -> str:
        many = len(self.estimate.names)
        call = f"dp_{self.facts.verb}({self.formula!r})"
        return f"<Results of {call}: {self.guarantee.budget}, {many} estimate{'s' * (many > 1)}>"

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def __str__(self) -> str:
        return str(self.summary())


OF_SOME = {*ABSENT, "family", "q"}  # of `PUBLIC`, which not every fit has
PUBLIC = (
    "as_gt",
    "HC1_se",
    "bse",
    "budget",
    "comparisons",
    "conf_int",
    "cov_HC1",
    "cov_params",
    "cov_type",
    "deployment",
    "df_model",
    "df_resid",
    "diagnostics",
    "digest",
    "domain",
    "endog_names",
    "exog_names",
    "f_test",
    "family",
    "formula",
    "from_dict",
    "get_margeff",
    "get_prediction",
    "glance",
    "guarantee",
    "k_constant",
    "ledger",
    "link",
    "means",
    "measurements",
    "mech",
    "method",
    "model",
    "nobs",
    "nobs_used",
    "noise_share",
    "normalized_cov_params",
    "params",
    "plot",
    "predict",
    "pvalues",
    "q",
    "releases",
    "rsquared",
    "rsquared_adj",
    "save",
    "scale",
    "slopes",
    "statement",
    "summary",
    "t_test",
    "t_test_pairwise",
    "tidy",
    "to_dict",
    "tvalues",
    "use_t",
    "wald_test",
    "wald_test_terms",
)
