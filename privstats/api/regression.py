"""Linear and quantile regressions."""

# mypy: disable-error-code="empty-body"
# A verb is its signature and its docstring; `verb` makes it run.

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

    The coefficients estimate the least-squares projection of the population on the formula. Standard errors and
    intervals include sampling error and the noise added for privacy.

    Parameters
    ----------
    formula : str
        As in statsmodels: ``"y ~ x1 + np.log(x2) + C(region)"``. Every term is computed for each row by itself.
    data : DataFrame, path, Arrow table, or function that returns an iterable of frames
        The confidential rows. Do not filter them first, since their number counts as public: use `subset`. A path names
        a .csv file, every cell of which is a text that is read as its column is declared, or a Parquet file or folder;
        tables and datasets of pyarrow, frames of polars and tables of DuckDB are read as they are (these and Parquet by
        pyarrow: ``pip install 'privstats[arrow]'``), a frame of Dask where its rows lie (``'privstats[dask]'``). A
        function is called without arguments, once a pass.
    eps : float, optional
        Budget: pure differential privacy, or (eps, delta) together with `delta`. Give one of `eps`, `mu` and `rho`.
    mech : {"auto", "suffstats", "newton", "kng", "objpert", "expmech", "ngd", "noisy_newton", "sgd"}
        Algorithm. "suffstats" releases noisy second moments, "newton" clipped scores, "objpert" under pure `eps` the
        minimiser of a randomly tilted loss of clipped rows. "auto" takes the one with the shorter expected intervals;
        the summary says which and why. "kng", "expmech", and "objpert" with `theta_bound`, `split` or `noise` (or with
        units, without an intercept, or at budgets that leave no noise to speak of), are for comparison: they choose
        coefficients within `theta_bound`. "ngd" and "noisy_newton" are noisy gradient descent and Newton steps as in
        [2]_, for teaching and comparison, of a robust `loss` under `mu`, `rho` or `delta`; "sgd" is NoisySGD, under
        `eps` with `delta`: an estimate without an interval.
    delta : float
        Probability with which the guarantee `eps` may fail. Choose it well below one over the number of rows.
    mu : float, optional
        Budget in Gaussian differential privacy; mu = 1 implies eps = 4.89 at delta = 1e-6.
    rho : float, optional
        Budget in zero-concentrated differential privacy; normal noise that keeps `mu` has rho = mu^2 / 2.
    domain : Domain or dict
        Public knowledge of each column: bounds ``(low, high)`` or levels ``["a", "b"]``, never read off the data.
        Values outside the bounds are moved to the nearer bound; rows with an undeclared level count as missing.
    noise : {"matrixt", "hull", "linf", "l1", "l2", "gaussian"}, optional
        Distribution of the noise, by default the one with the least error; "gaussian" needs `mu`, `rho` or `delta`.
    neighbors : {"replace", "add_remove"}
        Which data sets the guarantee makes hard to tell apart: one row replaced by another, or one row added or
        removed. Under "add_remove" the number of rows is private.
    inference : {"sandwich", "none"}
        "none" spends the whole budget on the coefficients, each of which is then a number, and gives no intervals.
        "newton" is refused where rows and budget are too few for its first stage.
    cov_type : {"HC", "nonrobust", "cluster"}
        "HC" (computed as HC1; "HC0" to "HC3" are accepted) allows error variances that differ between rows, "nonrobust"
        does not; "cluster" allows dependence within a unit and is the default where `rows_per_unit` is above 1.
    loss : {"squares", "huber", "pseudo_huber", "logcosh"}
        "huber" is a robust regression; its estimand is not the least-squares projection. The smooth ones of its kind
        need ``mech="ngd"``, ``"noisy_newton"`` or ``"sgd"``.
    subset, weights : str, optional
        Rows to use, such as ``"age >= 18"`` (their number stays private); sampling weights, with declared bounds.
    unit : str, optional
        Column that names the person or household of a row. The guarantee then covers all rows of one unit.
    rows_per_unit : int
        Largest number of rows of one unit that count, chosen by chance, whatever their order.
    bounds_share : float
        Share of the budget that estimates the range of numeric columns without declared bounds.
    shares : dict, optional
        Relative shares of the questions by name; `plan` lists them.
    theta_bound, split, ridge : float, optional
        Limit of the sum of absolute coefficients (response half-ranges per predictor scaled to [-1, 1]); share of the
        linear term in objective perturbation; penalty, with which there are estimates but no intervals.
    tail : {"cautious"}, optional
        Allow more for rare large scores beyond those that the released histogram shows: longer, safer intervals.
    steps, step_size, batch, clip, tuning : optional
        Of "ngd", "noisy_newton" and "sgd": the number of steps; what multiplies a step; the rows in a subsample, for
        "sgd"; the length of a row's predictors (numbers in declared scales, or half-ranges over sqrt 3) from which on
        it is shortened, for "sgd" that of a row's gradient; the clip of residuals, in their fitted scale, for "sgd" in
        the response's.
    memory_limit : int, optional
        Bytes to use for what is kept of the rows between passes. Of rows in memory the rest is kept in a file without a
        name, which is deleted at the end; other rows are read again. The estimates do not depend on it.
    ledger : Ledger, optional
        Budget shared by several fits, charged before any row is read.
    rng : None, int or numpy.random.Generator
        None: noise from the operating system. A seed makes the result reproducible and not private.
    dry_run : bool
        Return the plan; no row is read and no budget is spent. Where the number of rows is private the plan knows
        nothing of it; `plan` takes one that you assume.

    Returns
    -------
    Results
        Estimates, standard errors, intervals and tests in the vocabulary of statsmodels; a `Plan` if `dry_run`.

    Raises
    ------
    OptionError, BudgetError, DomainError, FormulaError, PrivacyError
        Decided from arguments, column names and types and the public number of rows, never from cells.

    Notes
    -----
    A coefficient is NaN ("not given") where the noise exceeds the information on it. Intervals contain what clipping
    may have moved, if large scores become rare as fast as a finite variance requires. Moments follow [1]_, as does
    objective perturbation (section 4), of rows clipped as METHODS.md says; steps [2]_. Estimator, assumptions and
    constants: METHODS.md. Intervals are bias-aware: estimate +- cv(a / s) s [3]_.

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
        As in statsmodels: ``"y ~ x1 + np.log(x2) + C(region)"``. Every term is computed for each row by itself.
    data : DataFrame, path, Arrow table, or function that returns an iterable of frames
        The confidential rows. Do not filter them first, since their number counts as public: use `subset`. A path names
        a .csv file, every cell of which is a text that is read as its column is declared, or a Parquet file or folder;
        tables and datasets of pyarrow, frames of polars and tables of DuckDB are read as they are (these and Parquet by
        pyarrow: ``pip install 'privstats[arrow]'``), a frame of Dask where its rows lie (``'privstats[dask]'``). A
        function is called without arguments, once a pass.
    eps : float, optional
        Budget: pure differential privacy, or (eps, delta) together with `delta`. Give one of `eps`, `mu` and `rho`.
    tau : float or list of float
        Quantile to model, between 0 and 1. Several share the budget, outer ones have more of it, and give one table.
    mech : {"auto", "newton", "objpert", "kng", "expmech"}
        Algorithm. "newton" follows clipped scores, "objpert" minimises a randomly tilted smooth loss, "kng" (K-norm
        gradient) draws the coefficients by the length of their score. "auto" chooses by public numbers, rows times eps
        for each coefficient, where intervals are expected to be shorter: "newton" where many and under `mu` or `rho`,
        "objpert" for a median where they are fewer, "kng" where they are fewest and at most three coefficients have an
        exact sampler. "expmech" is for comparison, and has no intervals.
    delta : float
        Probability with which the guarantee `eps` may fail. Choose it well below one over the number of rows.
    mu : float, optional
        Budget in Gaussian differential privacy; mu = 1 implies eps = 4.89 at delta = 1e-6.
    rho : float, optional
        Budget in zero-concentrated differential privacy; normal noise that keeps `mu` has rho = mu^2 / 2.
    domain : Domain or dict
        Public knowledge of each column: bounds ``(low, high)`` or levels ``["a", "b"]``, never read off the data.
        Values outside the bounds are moved to the nearer bound; rows with an undeclared level count as missing.
    noise : {"hull", "linf", "l1", "l2", "gaussian"}, optional
        Distribution of the noise; for "kng" the norm in which it compares scores ("hull", the default, is the smallest
        that one row's change allows). "gaussian" needs `mu`, `rho` or `delta`.
    neighbors : {"replace", "add_remove"}
        Which data sets the guarantee makes hard to tell apart: one row replaced by another, or one row added or
        removed. Under "add_remove" the number of rows is private.
    inference : {"sandwich", "none"}
        "none" spends the whole budget on the coefficients, each of which is then a number, and gives no intervals.
        "newton" is refused where rows and budget are too few for its first stage.
    cov_type : {"HC", "kernel"}
        The density of the response at the quantile is estimated, and may differ between rows; both names mean this.
    subset, weights : str, optional
        Rows to use, such as ``"age >= 18"`` (their number stays private); sampling weights, with declared bounds.
    unit : str, optional
        Column that names the person or household of a row. The guarantee then covers all rows of one unit.
    rows_per_unit : int
        Largest number of rows of one unit that count, chosen by chance, whatever their order.
    bounds_share : float
        Share of the budget that estimates the range of numeric columns without declared bounds.
    shares : dict, optional
        Relative shares of the questions by name; `plan` lists them.
    theta_bound, split : float, optional
        Limit of the sum of absolute coefficients (response half-ranges per predictor scaled to [-1, 1]) for "kng" and
        "objpert"; share of the linear term in objective perturbation.
    tail : {"cautious"}, optional
        Allow more for rare large scores beyond those that the released histogram shows: longer, safer intervals.
    memory_limit : int, optional
        Bytes to use for what is kept of the rows between passes. Of rows in memory the rest is kept in a file without a
        name, which is deleted at the end; other rows are read again. The estimates do not depend on it.
    ledger : Ledger, optional
        Budget shared by several fits, charged before any row is read.
    rng : None, int or numpy.random.Generator
        None: noise from the operating system. A seed makes the result reproducible and not private.
    dry_run : bool
        Return the plan; no row is read and no budget is spent. Where the number of rows is private the plan knows
        nothing of it; `plan` takes one that you assume.

    Returns
    -------
    Results
        Estimates, standard errors, intervals and tests; of several tau `params` is by term, then tau, and `predict` has
        a column for each, which never cross. A `Plan` if `dry_run`.

    Raises
    ------
    OptionError, BudgetError, DomainError, FormulaError, PrivacyError
        Decided from arguments, column names and types and the public number of rows, never from cells.

    Notes
    -----
    The K-norm gradient follows [1]_, with the sensitivity corrected for tau other than a half; objective perturbation
    [2]_; steps [3]_. A coefficient is NaN ("not given") where the noise exceeds the information on it.

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
