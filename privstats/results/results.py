"""The result of a fit, with the attribute and method names of statsmodels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, NoReturn

import pandas as pd

from privstats.errors import FormulaError, OptionError, quote
from privstats.privacy.ledger_copy import seen
from privstats.results import measurements, record
from privstats.results.absent import ABSENT, SYNONYMS, missing
from privstats.results.deployment import deployment
from privstats.results.entry import entry
from privstats.results.files import as_line, write_text
from privstats.results.hypotheses import ContrastTest, WaldTest, level, parsed_hypothesis, texts_of, wald_test
from privstats.results.marginal import MarginalTable, comparisons_table, means_table, slopes_table
from privstats.results.margins import EffectsTable, marginal_effects
from privstats.results.numbers import FitNumbers
from privstats.results.plots import draw_intervals
from privstats.results.prediction import Prediction, predicted, prediction
from privstats.results.statement import statement
from privstats.results.summary import Summary, summarise
from privstats.results.terms import PairTests, TermTests, pairwise_tests, term_tests
from privstats.results.tidy import broom_glance, column_names, glance, tidy


@dataclass(frozen=True, eq=False, repr=False)
class Results(FitNumbers):
    """The result of a private fit. Every number is a release or is computed from releases; the data are not kept.

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

    # ---------------------------------------------------------------- tests and predictions

    @entry
    def predict(self, new_data: pd.DataFrame | None = None, which: str = "mean") -> pd.Series | pd.DataFrame:
        """Return fitted means (or quantiles) at new rows, on the scale of the response in the formula, such as log(y).

        Parameters
        ----------
        new_data : DataFrame, dict or table
            Columns of the predictors and of the offset; a dict of single values is one row. For values outside the
            domain, predictions extrapolate, with a warning.
        which : {"mean", "linear"}
            "mean" gives fitted means (or quantiles); "linear" gives the linear predictor of models with a link
            function.

        Returns
        -------
        Series, or DataFrame with a column for each quantile level tau
            Predictions with the index of `new_data`; NaN where a value is missing, a level is not declared, or the
            prediction is not identified.

        Raises
        ------
        FormulaError, OptionError
            If a column is missing, columns have unequal lengths, or `which` is neither "mean" nor "linear".
        """
        if which not in ("mean", "linear"):
            raise OptionError(f"which is {quote(which)}; write which='mean' or which='linear'")
        if new_data is None:
            raise FormulaError(
                "predict needs new rows: fitted values of the private rows are not kept; write fit.predict(new_data)"
            )
        return predicted(self, new_data, which == "linear")

    @entry
    def get_prediction(self, new_data: pd.DataFrame) -> Prediction:
        """Return fitted means (or quantiles) at new rows, with standard errors and intervals.

        Standard errors and intervals include privacy noise. The intervals also allow for bias of the coefficients, for
        example from clipping.

        Parameters
        ----------
        new_data : DataFrame, dict or table
            The new rows, with the columns of the predictors and of the offset; a dict of single values is one row.

        Returns
        -------
        Prediction
            Its method `summary_frame` returns a table of the means and intervals.

        Raises
        ------
        FormulaError, OptionError
            If a column is missing, columns have unequal lengths, or the fit has several quantile levels tau.

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

    @entry
    def t_test(self, hypothesis: Any) -> ContrastTest:
        """Test linear hypotheses about the coefficients one by one.

        Parameters
        ----------
        hypothesis : str or array_like
            As in statsmodels: ``"x1 = x2"``, ``"x1 = 0, x2 = 1"``, ``"x1 = x2 = 0"`` (two hypotheses), or a matrix R
            for ``R params = 0``, with coefficients `params`.

        Returns
        -------
        ContrastTest
            Effect, standard error, statistic, p-value and interval of each hypothesis.

        Raises
        ------
        FormulaError
            If a hypothesis is not linear, or names an unknown coefficient.
        """
        R, null = parsed_hypothesis(hypothesis, self.names)
        return ContrastTest(self.estimate, R, null, texts_of(hypothesis, R, null, self.names))

    @entry
    def wald_test(self, hypothesis: Any) -> WaldTest:
        """Test linear hypotheses about the coefficients jointly.

        Parameters
        ----------
        hypothesis : str or array_like
            As in statsmodels: ``"x1 = 0, x2 = 1"``, ``"x1 = x2 = 0"``, or a matrix R for ``R params = 0``, with
            coefficients `params`.

        Returns
        -------
        WaldTest

        Raises
        ------
        FormulaError
            If the hypotheses are not linear, contradict each other, or name an unknown coefficient.
        """
        return wald_test(self.estimate, *parsed_hypothesis(hypothesis, self.names))

    @entry
    def f_test(self, hypothesis: Any) -> WaldTest:
        """Test linear hypotheses jointly, as `wald_test` does; statsmodels has a method of the same name.

        Unlike an F statistic, the statistic is not divided by the number of hypotheses.
        """
        return self.wald_test(hypothesis)

    def wald_test_terms(self) -> TermTests:
        """Test for each term of the formula whether all coefficients of the term (at all quantile levels tau) are zero.

        Returns
        -------
        DataFrame
            A row for each term, with the columns statistic, pvalue and df; statistic and pvalue are NaN if a
            coefficient of the term is not identified. As in statsmodels, the attribute `table` has these tests.

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

    @entry
    def t_test_pairwise(self, term: str, method: str = "holm", alpha: float = 0.05) -> PairTests:
        """Test all pairs of levels of a factor for equal coefficients, or all pairs of groups for equal estimates.

        Parameters
        ----------
        term : str
            The factor as in the formula, ``"C(g)"``, or its column, ``"g"``; for estimates by group, the group column.
        method : {"holm", "max-t", "bonferroni", "holm-sidak", "sidak", "fdr_by", "fdr_bh"}
            Adjustment of the p-values. "max-t" uses the simulated joint distribution of the identified differences, as
            in `comparisons`; the other adjustments are computed by ``statsmodels.stats.multitest.multipletests``.
        alpha : float
            Familywise error rate of the adjusted tests (with "fdr_by" and "fdr_bh", their false discovery rate), and
            one minus the confidence of each interval; intervals are not adjusted for the number of pairs.

        Returns
        -------
        DataFrame
            A row for each pair, with the column names of statsmodels. If a difference is not identified, its numbers
            are NaN and its hypothesis is not rejected. As in statsmodels, the attribute `result_frame` has the same
            tests.

        Raises
        ------
        FormulaError, OptionError
            If `term` is not a factor of the fit, the fit has several quantile levels tau, or the method is unknown.

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

    @entry
    def means(
        self,
        factor: str,
        at: Mapping[str, Any] | None = None,
        by: Any = None,
        simultaneous: bool = False,
        *,
        alpha: float = 0.05,
    ) -> MarginalTable:
        """Return estimated marginal means of the response at each level of a factor, averaged over other factors.

        The averages are over all combinations of the declared levels, with equal weights whatever the shares of the
        levels in the data. Each numeric predictor needs a value in `at`, because its mean in the data would require
        another private release.

        Parameters
        ----------
        factor : str
            A column with levels, or a numeric column with values in `at`.
        at : mapping of str to value or list, optional
            Values of numeric predictors, or levels of factors, such as ``{"exper": [5, 10]}``. The table has separate
            rows for each value or level.
        by : str or list of str, optional
            Further factors over which the means are not averaged; the table has separate rows for their levels.
        simultaneous : bool
            Whether the intervals of all rows jointly have the confidence level 1 - alpha. The intervals are then based
            on the distribution of the largest standardised error of all rows (max-t), simulated with a fixed seed.
        alpha : float
            One minus the confidence of the intervals.

        Returns
        -------
        MarginalTable
            A table that prints as text; its attribute `frame` is a DataFrame. In models with a link function, means are
            on the scale of the response, and their intervals are transformed from the scale of the linear predictor.
            Quantile regressions have rows for each tau.

        Raises
        ------
        FormulaError, OptionError
            If a named predictor is not in the fit, a numeric predictor has no value, or a level is not declared.

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

    @entry
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
        """Return differences of marginal means between factor levels, or for an increase of a numeric predictor by 1.

        Each level is compared with the first level of the factor, or all pairs are compared if `pairwise` is true.

        Parameters
        ----------
        term : str
            A predictor: a column with levels, or a numeric column.
        at : mapping of str to value or list, optional
            Values of numeric predictors, or levels of factors; the table has separate rows for each value or level. A
            numeric predictor needs a value only if the difference depends on this predictor: if the predictor interacts
            with `term`, if `term` itself is not linear, as in ``I(x**2)``, or if the model has a link function. A
            numeric `term` increases by 1 from each value; for a factor `term`, the list has the levels to compare,
            beginning with the reference level.
        by : str or list of str, optional
            Further factors over which differences are not averaged; the table has separate rows for their levels.
        simultaneous : bool
            Whether the intervals of all rows jointly have confidence level 1 - alpha; p-values are then also adjusted.
        pairwise : bool
            Whether to compare all pairs of levels of a factor.
        alpha : float
            One minus the confidence of the intervals.

        Returns
        -------
        MarginalTable
            In models with a link function, differences are on the scale of the response. Standard errors use the delta
            method; intervals by this method are extended to contain quantiles of the difference over random draws of
            the coefficients. A difference between two values beyond the same bound of a spline is NaN.

        Raises
        ------
        FormulaError, OptionError
            If a named predictor is not in the fit, a numeric predictor has no value, or a level is not declared.

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

    @entry
    def slopes(
        self,
        term: str,
        at: Mapping[str, Any] | None = None,
        by: Any = None,
        simultaneous: bool = False,
        *,
        alpha: float = 0.05,
    ) -> MarginalTable:
        """Return derivatives of the mean response with respect to a numeric predictor, averaged over factor levels.

        A derivative includes the contributions of all terms with the predictor, such as ``x`` and ``I(x**2)``.

        Parameters
        ----------
        term : str
            A numeric predictor.
        at : mapping of str to value or list, optional
            Values of numeric predictors, or levels of factors; the table has separate rows for each value or level. A
            numeric predictor needs a value only if the slope depends on this predictor: if the predictor interacts with
            `term`, if `term` itself is not linear, as in ``I(x**2)``, or if the model has a link function.
        by : str or list of str, optional
            Further factors over which slopes are not averaged; the table has separate rows for their levels.
        simultaneous : bool
            Whether the intervals of all rows jointly have confidence level 1 - alpha; p-values are then also adjusted.
        alpha : float
            One minus the confidence of the intervals.

        Returns
        -------
        MarginalTable
            Derivatives are computed as central differences of fitted means (one-sided differences near a bound of the
            predictor). The derivatives are NaN where the mean has a step or a kink, and beyond the bounds of a spline.

        Raises
        ------
        FormulaError, OptionError
            If `term` is not a numeric predictor of the fit, a predictor has no value, or a level is not declared.

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

    @entry
    def get_margeff(self) -> EffectsTable:
        """Return average marginal effects on the mean response, which are released only by fits with ``margins=True``.

        The effect of a dummy is the change of the mean response from the reference level to the dummy's level. The
        effect of any other column of the model matrix is the derivative of the mean response. Both kinds of effects are
        averages over the rows; products of the column with other columns (interactions) are held fixed.
        In a product with a factor, a numeric predictor is centred at the midpoint of its bounds, so the effects of the
        factor's dummies are the effects at this midpoint.

        Raises
        ------
        PrivacyError
            If the fit did not release average marginal effects.
        """
        return marginal_effects(getattr(self.estimate, "margins", None))

    def measurements(self, json: bool = False) -> pd.DataFrame | str:
        """Return every released number with the distribution of its noise, for analyses that combine noisy numbers.

        Parameters
        ----------
        json : bool
            Whether to return JSON text, with an object for each query and all parameters of the distribution.

        Returns
        -------
        DataFrame, or str if `json` is true
            One row for each released number: a noisy sum over rows, or a privately chosen value. The columns are
            question (name of the query), index (position in the answer to the query), coordinate (description, such as
            "sum of column 3"), value, law (distribution of the noise), noise_in (the quantity to which the noise is
            added: "value", the "score" at the value, or the "rank" of the value), scale and sd (scale and standard
            deviation of the noise; NaN if the distribution of the noise depends on the rows) and cost (privacy cost of
            the query). Some sums are of quantities that depend only on declarations, such as columns scaled by their
            declared bounds into [-1, 1]. In other sums the quantities depend on earlier releases of the fit, too;
            examples are scores at a starting value.
        """
        return measurements.as_json(self.releases) if json else measurements.as_frame(self.releases)

    # ---------------------------------------------------------------- output

    @entry
    def summary(self, alpha: float = 0.05, exp: bool = False, digits: int = 3) -> Summary:
        """Return a printable table with the guarantee, the method, the estimates, and notes on their limitations.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the intervals.
        exp : bool
            Whether to add exponentials of the coefficients (odds ratios if the link is the logit) and to print the
            intervals of these exponentials; standard errors remain the standard errors of the coefficients.
        digits : int
            Significant digits of standard errors.

        Raises
        ------
        OptionError
            If `alpha` is not between 0 and 1, or `exp` is true for a histogram or a mode.
        """
        return summarise(self, alpha, exp, digits)

    def as_gt(self) -> Any:
        """Return the summary as an object of the package great_tables.

        Raises
        ------
        ImportError
            If great_tables is not installed; ``pip install 'privstats[gt]'`` installs it.
        """
        return self.summary().as_gt()

    @entry
    def tidy(self, alpha: float = 0.05, exp: bool = False, names: str | None = None) -> pd.DataFrame:
        """Return a DataFrame with a row for each coefficient.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the intervals.
        exp : bool
            Whether to return exponentials of the coefficients, with intervals of the exponentials.
        names : {"broom"}, optional
            "broom" gives the column names of R: std.error, p.value, conf.low, conf.high.

        Returns
        -------
        DataFrame
            Columns term, estimate, std_error, statistic, p_value, conf_low, conf_high, bias_bound (largest possible
            bias of the estimate, for example from clipping), and component (quantile level, group or bin, if any).

        Raises
        ------
        OptionError
            If `alpha` is not between 0 and 1, `exp` is true for a histogram or a mode, or `names` is neither None nor
            "broom".

        Examples
        --------
        >>> import pandas as pd, privstats as ps
        >>> fit = ps.dp_mean("x", pd.DataFrame({"x": [1.0, 2.0] * 500}), eps=1, domain={"x": (0, 5)})
        >>> fit.tidy(names="broom").columns[:3].tolist()
        ['term', 'estimate', 'std.error']
        """
        return column_names(tidy(self, alpha, exp), names)

    @entry
    def glance(self, names: str | None = None) -> pd.DataFrame:
        """Return a DataFrame with one row for the fit: guarantee, number of rows, method and diagnostics.

        `names="broom"` gives column names with dots, in the style of R's package broom, and adds r.squared,
        adj.r.squared and df.residual; NaN where the fit has not released them.
        """
        return broom_glance(self) if names == "broom" else column_names(glance(self), names)

    @entry
    def plot(
        self,
        alpha: float = 0.05,
        *,
        ax: Any = None,
        terms: Sequence[str] | None = None,
        over: str | None = None,
        exp: bool = False,
    ) -> Any:
        """Plot the estimates with intervals; thicker lines inside the intervals show the sampling error alone.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the intervals.
        ax : matplotlib Axes, optional
            Axes to draw in; by default the axes of a new figure.
        terms : list of str, optional
            Terms to draw; by default all terms except the intercept, or the intercept if there is no other term.
        over : {"tau", "q"}, optional
            Horizontal axis over which the estimates of each term are drawn as a line, in a panel for each term. Such
            panels are the default if the fit has several quantile levels (tau or q).
        exp : bool
            Whether to draw exponentiated coefficients, such as odds ratios of a logit, on a logarithmic axis.

        Returns
        -------
        matplotlib Figure

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        OptionError
            If `terms` is empty or has a term that the fit lacks, if the fit has no quantile levels named `over`, or if
            `ax` is given but the figure needs several panels.
        """
        return draw_intervals(self, level(alpha), ax, terms, over, exp)

    def statement(self) -> str:
        """Return a methods paragraph for a paper that states the method and the privacy guarantee, with references.

        Examples
        --------
        >>> import pandas as pd, privstats as ps
        >>> fit = ps.dp_mean("x", pd.DataFrame({"x": [1.0, 2.0] * 500}), eps=1, domain={"x": (0, 5)})
        >>> "satisfies differential privacy with eps = 1" in " ".join(fit.statement().split())
        True
        """
        return statement(self)

    def deployment(self) -> str:
        """Return a record of the fit, in YAML, for the public registry of deployments of differential privacy.

        The fields follow the schema in github.com/opendp/deployments-registry-data: all fields that this schema assigns
        to its tier 2, and the fields of its tier 3 whose content is known. Fields that only the custodian can fill in
        are empty, with a comment. The registry has no field for mu, so a guarantee in mu is recorded as the implied
        rho = mu^2 / 2.

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
        """Return the result as numbers, strings, lists and dicts, which can be stored as JSON.

        A ledger is represented by its name, its budget, the spent part of the budget, and a digest of the path of its
        file, which identifies fits charged to the same ledger. The path and the entries of other fits are left out.
        """
        return record.written(replace(self, account=seen(self.account)))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the result to a JSON file, which `load` reads.

        The file has the content of `to_dict`.

        Parameters
        ----------
        path : str or PathLike
            Path of the file; an existing file is replaced when the new file is complete.

        Raises
        ------
        OptionError
            If the file cannot be written.
        """
        write_text(path, as_line(self.to_dict()))

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Results:
        """Rebuild a result from a dict that `to_dict` returned.

        Raises
        ------
        OptionError
            If `saved` was not returned by `to_dict`, or was changed so that the summary of the result cannot be
            computed. A number replaced by another valid number is not detected.
        """
        return record.read_record(saved, cls, lambda fit: (repr(fit), str(fit.summary())))

    def __dir__(self) -> list[str]:
        return [name for name in PUBLIC if name not in OF_SOME or hasattr(self, name)]

    def __getattr__(self, name: str) -> NoReturn:
        known = () if name.startswith("_") else PUBLIC
        name = SYNONYMS.get(name, name)
        raise missing(name, type(self).__name__, self.facts if name in ABSENT else None, known)

    def __repr__(self) -> str:
        many = len(self.estimate.names)
        call = f"dp_{self.facts.verb}({self.formula!r})"
        return f"<Results of {call}: {self.guarantee.budget}, {many} estimate{'s' * (many > 1)}>"

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def __str__(self) -> str:
        return str(self.summary())


OF_SOME = {*ABSENT, "family", "q"}  # public attributes that some fits lack
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
