"""Private linear and quantile regressions: the functions `dp_lm` and `dp_rq`."""

# mypy: disable-error-code="empty-body"
# Each public function has only a signature and a docstring in this file; the decorator `verb` supplies the code.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privstats.formula.domain import Domain
from privstats.models.quantile_regression import QuantileModel
from privstats.models.regression import LinearModel
from privstats.privacy.ledger import Ledger
from privstats.results.results import Results
from privstats.workflow.call import verb
from privstats.workflow.plan import Plan


@verb(LinearModel)
def dp_lm(
    formula: str,
    data: Any,
    eps: float | None = None,
    *,
    mech: str = "auto",
    delta: float = 0.0,
    mu: float | None = None,
    rho: float | None = None,
    domain: Domain | Mapping[str, Any] | None = None,
    noise: str | None = None,
    neighbors: str = "replace",
    inference: str = "sandwich",
    cov_type: str = "HC",
    loss: str = "squares",
    subset: str | None = None,
    weights: str | None = None,
    unit: str | None = None,
    rows_per_unit: int = 1,
    bounds_share: float = 0.1,
    shares: Mapping[str, float] | None = None,
    theta_bound: float | None = None,
    split: float | None = None,
    ridge: float | str | None = None,
    tail: str | None = None,
    steps: int | None = None,
    step_size: float | None = None,
    batch: int | None = None,
    clip: float | None = None,
    tuning: float | None = None,
    memory_limit: int | None = None,
    ledger: Ledger | None = None,
    rng: Any = None,
    dry_run: bool = False,
) -> Results | Plan:
    """Fit a linear regression under differential privacy.

    The coefficients estimate the population's least-squares projection of the response on the terms of the formula.
    Standard errors and intervals include sampling error and the noise added for privacy.

    Parameters
    ----------
    formula : str
        As in statsmodels: ``"y ~ x1 + np.log(x2) + C(region)"``. Every term is computed from the columns of one row.
    data : DataFrame, path, Arrow table, or function that returns an iterable of frames
        The confidential rows. Do not filter the rows first, because the number of rows counts as public; use `subset`
        instead. A path names a .csv file, a Parquet file or a folder of Parquet files. The cells of a .csv file are
        read with the types that the domain declares for their columns. Tables and datasets of pyarrow, frames of polars
        and tables of DuckDB are read without conversion. These sources and Parquet files need
        ``pip install 'privstats[arrow]'``. A frame of Dask is read by the workers of Dask and needs
        ``pip install 'privstats[dask]'``. A function is called without arguments, once for each pass over the rows.
    eps : float, optional
        Budget: pure differential privacy, or (eps, delta) together with `delta`. Give one of `eps`, `mu` and `rho`.
    mech : {"auto", "suffstats", "newton", "kng", "objpert", "expmech", "ngd", "noisy_newton", "sgd"}
        Algorithm.

        - "auto" takes the algorithm with the shortest expected intervals. The summary names the algorithm and the
          reason.
        - "suffstats" releases noisy second moments.
        - "newton" takes Newton steps with clipped, noisy scores (gradients of a row's loss).
        - "objpert" (objective perturbation, for pure `eps`) minimises the loss of clipped rows plus a random linear
          term. A second form, for comparison, bounds the coefficients by `theta_bound`. The second form is used if
          `theta_bound`, `split`, `noise` or `unit` is given, if `inference` is "none", if the formula has no intercept,
          or if the budget is so large that the predicted noise of the second moments is below 1e-6 times the number of
          rows and `tail` is not given.
        - "kng" (K-norm gradient) and "expmech" (exponential mechanism) are for comparison. They bound the coefficients
          by `theta_bound`.
        - "ngd" and "noisy_newton" are the noisy gradient descent and the noisy Newton steps of [2]_, for teaching and
          comparison. They need a robust `loss` and a budget in `mu`, in `rho` or with `delta`.
        - "sgd" (noisy stochastic gradient descent) needs `eps` with `delta`, and gives no intervals.
    delta : float
        Probability with which the guarantee `eps` may fail. Choose it well below one over the number of rows.
    mu : float, optional
        Budget in Gaussian differential privacy; mu = 1 implies eps = 4.89 at delta = 1e-6.
    rho : float, optional
        Budget in zero-concentrated differential privacy; normal noise with budget `mu` has rho = mu^2 / 2.
    domain : Domain or dict
        Bounds ``(low, high)`` or levels ``["a", "b"]`` of each column, from public knowledge and never from the data.
        Values outside the bounds are moved to the nearer bound; rows with an undeclared level count as missing.
    noise : {"matrixt", "hull", "linf", "l1", "l2", "gaussian"}, optional
        Distribution of the noise, by default the distribution with the smallest error. "linf", "l1" and "l2" have a
        density that decreases exponentially in the norm of this name. For "suffstats" only, "hull" has a density that
        decreases exponentially in the norm whose unit ball is a convex body that contains all changes of the moments
        due to one row, and "matrixt" is a matrix-t distribution. "gaussian" needs `mu`, `rho` or `delta`.
    neighbors : {"replace", "add_remove"}
        The pairs of data sets that the guarantee makes hard to distinguish: one row replaced by another, or one row
        added or removed. Under "add_remove" the number of rows is private.
    inference : {"sandwich", "none"}
        "none" spends the whole budget on the coefficients: every coefficient is reported, but without an interval.
        With "none", an error is raised for "newton" if the number of rows or the budget is too small for the Newton
        steps to converge.
    cov_type : {"HC", "nonrobust", "cluster"}
        "HC" (computed as HC1; "HC0" to "HC3" are accepted) allows error variances that differ between rows;
        "nonrobust" assumes equal error variances; "cluster" allows dependence within a unit and is the default if
        `rows_per_unit` is above 1.
    loss : {"squares", "huber", "pseudo_huber", "logcosh"}
        "huber" is a robust regression; its estimand is not the least-squares projection, but the minimiser of Huber's
        loss at the released residual scale: the median absolute residual of a first least-squares fit, divided by
        0.6745. (RLM of statsmodels computes the scale from the residuals of its final fit, so that its coefficients may
        differ from these coefficients if the residuals are skewed.) The smooth robust losses "pseudo_huber" and
        "logcosh" need ``mech="ngd"``, ``"noisy_newton"`` or ``"sgd"``.
    subset : str, optional
        Condition on the rows to use, such as ``"age >= 18"``. The number of rows that satisfy the condition stays
        private.
    weights : str, optional
        Column or expression of sampling weights, with declared bounds.
    unit : str, optional
        Column that names the person or household of a row. The guarantee then covers all rows of one unit.
    rows_per_unit : int
        Largest number of rows of one unit that are used. If a unit has more rows, the rows to use are drawn at random.
    bounds_share : float
        Share of the budget that is spent on estimating the bounds of numeric columns without declared bounds.
    shares : dict, optional
        Relative shares of the budget for the questions (queries of the data), by name; `plan` lists the names.
    theta_bound : float, optional
        For "kng", "expmech" and "objpert": bound on the sum of the absolute coefficients, with predictors scaled to
        [-1, 1] and the response divided by half of its range.
    split : float, optional
        For "objpert": share of the budget for the random linear term.
    ridge : float or "adaptive", optional
        For "suffstats": weight of a ridge penalty on coefficients of predictors scaled to [-1, 1]; "adaptive" computes
        the weight from the size of the noise. A fit with a ridge penalty has no intervals.
    tail : {"cautious"}, optional
        Large scores are clipped. A bound on the clipping bias is computed from a released histogram of score norms, in
        which a small number of large scores cannot be distinguished from noise. "cautious" assumes more large scores
        than the default, so that intervals are longer.
    steps : int, optional
        For "ngd", "noisy_newton" and "sgd": number of steps.
    step_size : float, optional
        For "ngd", "noisy_newton" and "sgd": step size (learning rate).
    batch : int, optional
        For "sgd": number of rows in each random subsample.
    clip : float, optional
        For "ngd" and "noisy_newton": limit on the Euclidean norm of a row's vector of scaled predictors; a row with a
        larger norm has a smaller weight. The scale of a numeric predictor is half of its range divided by sqrt(3), or
        the scale declared as `Scale` in `domain`. For "sgd": largest Euclidean norm of the gradient of a row.
    tuning : float, optional
        For "ngd" and "noisy_newton": limit at which residuals, in units of the fitted residual scale, are clipped.
        For "sgd": limit at which residuals, in units of the scale of the response, are clipped.
    memory_limit : int, optional
        Bytes of memory for rows that are kept between passes over the data. If the data are in memory, rows beyond
        this limit are kept in a temporary file, which is deleted at the end; other data are read again. Estimates do
        not depend on this limit.
    ledger : Ledger, optional
        Budget shared by several fits, charged before any row is read.
    rng : None, int or numpy.random.Generator
        None: noise from the operating system. A seed makes the result reproducible and not private.
    dry_run : bool
        Whether to return the plan without reading a row or spending budget. If the number of rows is private, the plan
        has no number of rows and no forecast of widths; the function `plan` accepts an assumed number of rows.

    Returns
    -------
    Results
        Estimates, standard errors, intervals and tests, under the attribute names of statsmodels. If
        `dry_run` is True, a `Plan` is returned instead.

    Raises
    ------
    OptionError, BudgetError, DomainError, FormulaError, PrivacyError
        Whether an error is raised depends only on the arguments, on the names and types of the columns, and on the
        number of rows if this number is public; it never depends on the values in the rows.

    Notes
    -----
    A coefficient is NaN ("not given") if the noise is too large for a useful estimate. Intervals allow for the bias
    due to clipping, under the assumption that the tails of the scores have a finite variance. The intervals are the
    bias-aware intervals of [3]_, estimate +- c s, where s is the standard error. With a bound a on the bias, c is the
    quantile, at the confidence level, of the absolute value of a normal variable with mean a / s and variance 1. Noisy
    moments and objective perturbation follow [1]_ (section 4), and Newton steps follow [2]_. METHODS.md describes the
    clipping of rows, the estimator, the assumptions and the constants.

    References
    ----------
    .. [1] Awan and Slavkovic (2021), Structure and sensitivity in differential privacy, JASA 116.
    .. [2] Avella-Medina, Bradshaw and Loh (2023), Differentially private inference via noisy optimization, AoS 51.
    .. [3] Armstrong and Kolesar (2018), Optimal inference in a class of regression models, Econometrica 86.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from privstats.api import dp_lm
    >>> x = np.linspace(-1, 1, 20_000)
    >>> data = pd.DataFrame({"x": x, "y": 2 + 3 * x + np.sin(1e5 * x)})
    >>> fit = dp_lm("y ~ x", data, eps=1, domain={"x": (-1, 1), "y": (-5, 10)}, rng=1)
    >>> fit.params.round(1).to_dict()
    {'Intercept': 2.0, 'x': 3.0}
    """


@verb(QuantileModel)
def dp_rq(
    formula: str,
    data: Any,
    eps: float | None = None,
    *,
    tau: float | Sequence[float] = 0.5,
    mech: str = "auto",
    delta: float = 0.0,
    mu: float | None = None,
    rho: float | None = None,
    domain: Domain | Mapping[str, Any] | None = None,
    noise: str | None = None,
    neighbors: str = "replace",
    inference: str = "sandwich",
    cov_type: str = "HC",
    subset: str | None = None,
    weights: str | None = None,
    unit: str | None = None,
    rows_per_unit: int = 1,
    bounds_share: float = 0.1,
    shares: Mapping[str, float] | None = None,
    theta_bound: float | None = None,
    split: float | None = None,
    tail: str | None = None,
    memory_limit: int | None = None,
    ledger: Ledger | None = None,
    rng: Any = None,
    dry_run: bool = False,
) -> Results | Plan:
    """Fit a quantile regression under differential privacy.

    The coefficients minimise the expected check loss over the population. Standard errors and intervals include
    sampling error and the noise added for privacy.

    Parameters
    ----------
    formula : str
        As in statsmodels: ``"y ~ x1 + np.log(x2) + C(region)"``. Every term is computed from the columns of one row.
    data : DataFrame, path, Arrow table, or function that returns an iterable of frames
        The confidential rows. Do not filter the rows first, because the number of rows counts as public; use `subset`
        instead. A path names a .csv file, a Parquet file or a folder of Parquet files. The cells of a .csv file are
        read with the types that the domain declares for their columns. Tables and datasets of pyarrow, frames of polars
        and tables of DuckDB are read without conversion. These sources and Parquet files need
        ``pip install 'privstats[arrow]'``. A frame of Dask is read by the workers of Dask and needs
        ``pip install 'privstats[dask]'``. A function is called without arguments, once for each pass over the rows.
    eps : float, optional
        Budget: pure differential privacy, or (eps, delta) together with `delta`. Give one of `eps`, `mu` and `rho`.
    tau : float or list of float
        Probability of the quantile, between 0 and 1. With several tau, some queries serve all tau, and the remaining
        budget is divided equally between the tau.
    mech : {"auto", "newton", "objpert", "kng", "expmech"}
        Algorithm.

        - "auto" chooses "newton" under `mu` or `rho`. Under `eps`, the choice depends on the ratio
          r = 2 min(tau, 1 - tau) n eps / d, for n rows and d coefficients: "kng" if d = 1, 2 or 3 and r is below 750,
          550 or 300, respectively; otherwise "objpert" if r is below 750 (for the median, 3000); otherwise "newton".
          Other rules apply if the number of rows is private, if `noise` or `unit` is given, or if `inference` is
          "none". The summary names the algorithm and the reason.
        - "newton" takes Newton steps with clipped, noisy scores (gradients of a row's loss).
        - "objpert" (objective perturbation) minimises a smoothed loss plus a random linear term. For quantiles other
          than the median, it gives no intervals if the ratio r (see "auto") is 750 or more.
        - "kng" (K-norm gradient) draws coefficients from a density that decreases in the norm of the score. Draws are
          exact for at most three coefficients; the draw of more coefficients is the last state of a Markov chain.
        - "expmech" (exponential mechanism) is for comparison, without intervals.
    delta : float
        Probability with which the guarantee `eps` may fail. Choose it well below one over the number of rows.
    mu : float, optional
        Budget in Gaussian differential privacy; mu = 1 implies eps = 4.89 at delta = 1e-6.
    rho : float, optional
        Budget in zero-concentrated differential privacy; normal noise with budget `mu` has rho = mu^2 / 2.
    domain : Domain or dict
        Bounds ``(low, high)`` or levels ``["a", "b"]`` of each column, from public knowledge and never from the data.
        Values outside the bounds are moved to the nearer bound; rows with an undeclared level count as missing.
    noise : {"hull", "linf", "l1", "l2", "gaussian"}, optional
        Distribution of the noise. "gaussian" needs `mu`, `rho` or `delta`. The other names are norms: the density of
        the noise decreases exponentially in the norm. For "kng", the density of the coefficients decreases
        exponentially in this norm of the score. The norm "hull" is the default for "kng"; its unit ball is the convex
        hull of all possible changes of the score due to one row.
    neighbors : {"replace", "add_remove"}
        The pairs of data sets that the guarantee makes hard to distinguish: one row replaced by another, or one row
        added or removed. Under "add_remove" the number of rows is private.
    inference : {"sandwich", "none"}
        "none" spends the whole budget on the coefficients: every coefficient is reported, but without an interval.
        With "none", an error is raised for "newton" if the number of rows or the budget is too small for the Newton
        steps to converge.
    cov_type : {"HC", "kernel"}
        Both names have the same meaning: the density of the response at the quantile is estimated and may differ
        between rows.
    subset : str, optional
        Condition on the rows to use, such as ``"age >= 18"``. The number of rows that satisfy the condition stays
        private.
    weights : str, optional
        Column or expression of sampling weights, with declared bounds.
    unit : str, optional
        Column that names the person or household of a row. The guarantee then covers all rows of one unit.
    rows_per_unit : int
        Largest number of rows of one unit that are used. If a unit has more rows, the rows to use are drawn at random.
    bounds_share : float
        Share of the budget that is spent on estimating the bounds of numeric columns without declared bounds.
    shares : dict, optional
        Relative shares of the budget for the questions (queries of the data), by name; `plan` lists the names.
    theta_bound : float, optional
        For "kng" and "expmech": bound on the sum of the absolute coefficients, with predictors scaled to [-1, 1] and
        the response divided by half of its range.
    split : float, optional
        For "objpert": share of the budget for the random linear term.
    tail : {"cautious"}, optional
        Large scores are clipped. A bound on the clipping bias is computed from a released histogram of the norms of
        the rows' predictors, in which a small number of large norms cannot be distinguished from noise. "cautious"
        assumes more large norms than the default, so that intervals are longer.
    memory_limit : int, optional
        Bytes of memory for rows that are kept between passes over the data. If the data are in memory, rows beyond
        this limit are kept in a temporary file, which is deleted at the end; other data are read again. Estimates do
        not depend on this limit.
    ledger : Ledger, optional
        Budget shared by several fits, charged before any row is read.
    rng : None, int or numpy.random.Generator
        None: noise from the operating system. A seed makes the result reproducible and not private.
    dry_run : bool
        Whether to return the plan without reading a row or spending budget. If the number of rows is private, the plan
        has no number of rows and no forecast of widths; the function `plan` accepts an assumed number of rows.

    Returns
    -------
    Results
        Estimates, standard errors, intervals and tests. With several tau, `params` is sorted by term, then tau, and
        `predict` returns a column for each tau; predicted quantiles never cross. If `dry_run` is True, a
        `Plan` is returned instead.

    Raises
    ------
    OptionError, BudgetError, DomainError, FormulaError, PrivacyError
        Whether an error is raised depends only on the arguments, on the names and types of the columns, and on the
        number of rows if this number is public; it never depends on the values in the rows.

    Notes
    -----
    The K-norm gradient mechanism follows [1]_, with the sensitivity corrected for tau other than a half; objective
    perturbation follows [2]_, and Newton steps follow [3]_. A coefficient is NaN ("not given") if the noise is too
    large for a useful estimate. It is also NaN if the response has few distinct values near the fitted quantile, such
    as counts of visits or years of schooling, because the errors of a quantile regression are then not normal.

    References
    ----------
    .. [1] Reimherr and Awan (2019), KNG: the K-norm gradient mechanism, NeurIPS 32.
    .. [2] Kifer, Smith and Thakurta (2012), Private convex empirical risk minimization, COLT 25.
    .. [3] Avella-Medina, Bradshaw and Loh (2023), Differentially private inference via noisy optimization, AoS 51.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from privstats.api import dp_rq
    >>> x = np.linspace(-1, 1, 20_000)
    >>> data = pd.DataFrame({"x": x, "y": 2 + 3 * x + np.sin(1e5 * x)})
    >>> fit = dp_rq("y ~ x", data, eps=2, tau=0.5, domain={"x": (-1, 1), "y": (-5, 10)}, rng=1)
    >>> fit.params.round(1).to_dict()
    {'Intercept': 2.0, 'x': 3.0}
    """
