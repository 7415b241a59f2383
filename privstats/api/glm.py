"""Generalised linear models."""

# mypy: disable-error-code="empty-body"
# A verb is its signature and its docstring; `verb` makes it run.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privstats.formula.domain import Domain
from privstats.models.regression import GeneralizedLinearModel
from privstats.privacy.ledger import Ledger
from privstats.results.results import Results
from privstats.workflow.call import verb
from privstats.workflow.plan import Plan


@verb(GeneralizedLinearModel)
def dp_glm(
    formula: str,
    data: Any,
    eps: float | None = None,
    *,
    family: Any = "binomial",
    link: str | None = None,
    mech: str = "auto",
    delta: float = 0.0,
    mu: float | None = None,
    rho: float | None = None,
    domain: Domain | Mapping[str, Any] | None = None,
    noise: str | None = None,
    neighbors: str = "replace",
    inference: str = "sandwich",
    cov_type: str = "HC",
    offset: str | None = None,
    subset: str | None = None,
    weights: str | None = None,
    unit: str | None = None,
    rows_per_unit: int = 1,
    bounds_share: float = 0.1,
    shares: Mapping[str, float] | None = None,
    margins: bool = False,
    theta_bound: float | None = None,
    split: float | None = None,
    ridge: float | None = None,
    tail: str | None = None,
    steps: int | None = None,
    step_size: float | None = None,
    batch: int | None = None,
    clip: float | None = None,
    memory_limit: int | None = None,
    ledger: Ledger | None = None,
    rng: Any = None,
    dry_run: bool = False,
) -> Results | Plan:
    """Fit a generalised linear model under differential privacy.

    The coefficients minimise the expected deviance over the population. Standard errors and intervals include sampling
    error and the noise added for privacy.

    Parameters
    ----------
    formula : str
        As in statsmodels: ``"y ~ x1 + np.log(x2) + C(region)"``. Every term is computed for each row by itself.
        A binomial response is 0 or 1, a truth value, or one of two declared levels, of which the second counts as 1; a
        Poisson or gamma response is not negative and has a declared upper bound.
    data : DataFrame, path, Arrow table, or function that returns an iterable of frames
        The confidential rows. Do not filter them first, since their number counts as public: use `subset`. A path names
        a .csv file, every cell of which is a text that is read as its column is declared, or a Parquet file or folder;
        tables and datasets of pyarrow, frames of polars and tables of DuckDB are read as they are (these and Parquet by
        pyarrow: ``pip install 'privstats[arrow]'``), a frame of Dask where its rows lie (``'privstats[dask]'``). A
        function is called without arguments, once a pass.
    eps : float, optional
        Budget: pure differential privacy, or (eps, delta) together with `delta`. Give one of `eps`, `mu` and `rho`.
    family : {"binomial", "poisson", "gamma", "gaussian"} or statsmodels family
        Distribution of the response. "gaussian" is `dp_lm`.
    link : str, optional
        Of the mean: "logit" (the usual one) or "probit" for "binomial", "log" for "poisson" and "gamma".
    mech : {"auto", "objpert", "newton", "ngd", "noisy_newton", "sgd"}
        Algorithm. "objpert" (objective perturbation) minimises a randomly tilted likelihood (of counts and gamma
        responses, under pure `eps`, one of clipped scores), "newton" follows clipped scores. "auto" takes the one with
        the shorter expected intervals; the summary says which and why. "ngd" and "noisy_newton" are noisy gradient
        descent and Newton steps as Avella-Medina, Bradshaw and Loh (2023) state them, for teaching and comparison: a
        logit under `mu`, `rho` or `delta`; "sgd" is NoisySGD, under `eps` with `delta`: an estimate, no interval.
    delta : float
        Probability with which the guarantee `eps` may fail. Choose it well below one over the number of rows.
    mu : float, optional
        Budget in Gaussian differential privacy; mu = 1 implies eps = 4.89 at delta = 1e-6.
    rho : float, optional
        Budget in zero-concentrated differential privacy; normal noise that keeps `mu` has rho = mu^2 / 2.
    domain : Domain or dict
        Public knowledge of each column: bounds ``(low, high)`` or levels ``["a", "b"]``, never read off the data.
        Values outside the bounds are moved to the nearer bound; rows with an undeclared level count as missing.
    noise : {"linf", "l1", "l2", "gaussian"}, optional
        Distribution of the noise, by default the one with the least error; for "objpert" with ``inference="none"`` the
        norm in which scores are compared. "gaussian" needs `mu`, `rho` or `delta`.
    neighbors : {"replace", "add_remove"}
        Which data sets the guarantee makes hard to tell apart: one row replaced by another, or one row added or
        removed. Under "add_remove" the number of rows is private.
    inference : {"sandwich", "none"}
        "none" spends the whole budget on the coefficients, each of which is then a number, and gives no intervals.
        "objpert" then minimises the tilted likelihood of the rows as their bounds scale them; "newton" is refused where
        rows and budget are too few for its first stage.
    cov_type : {"HC", "nonrobust", "cluster"}
        "HC" (computed as HC1; "HC0" to "HC3" are accepted) allows variances that are not those of the family,
        "nonrobust" does not; "cluster" allows dependence within a unit and is the default where `rows_per_unit` is
        above 1.
    offset : str, optional
        Expression with public bounds that is added to the linear predictor, such as ``"np.log(years)"``.
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
    margins : bool
        Whether average marginal effects are released as well (`Results.get_margeff`).
    theta_bound, split, ridge : float, optional
        Of objective perturbation: limit of the sum of absolute coefficients, of predictors scaled to [-1, 1]; share of
        the linear term; penalty of half the sum of their squares. With a limit or a penalty there are estimates but no
        intervals.
    tail : {"cautious"}, optional
        Allow more for rare large scores beyond those that the released histogram shows: longer, safer intervals.
    steps, step_size, batch, clip : optional
        Of "ngd", "noisy_newton" and "sgd": the number of steps; what multiplies a step; the rows in a subsample, for
        "sgd"; the length of a row's predictors (numbers in declared scales, or half-ranges over sqrt 3) from which on
        it is shortened, for "sgd" that of a row's gradient.
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
        Estimates, standard errors, intervals and tests; `predict` returns means, or with ``which="linear"`` linear
        predictors. A `Plan` if `dry_run`.

    Raises
    ------
    OptionError, BudgetError, DomainError, FormulaError, PrivacyError
        Decided from arguments, column names and types and the public number of rows, never from cells.

    Notes
    -----
    Objective perturbation follows [1]_ and [2]_ (section 5), steps [3]_. A coefficient is NaN ("not given") where the
    noise exceeds the information on it.

    References
    ----------
    .. [1] Kifer, Smith and Thakurta (2012), Private convex empirical risk minimization, COLT 25.
    .. [2] Awan and Slavkovic (2021), Structure and sensitivity in differential privacy, JASA 116.
    .. [3] Avella-Medina, Bradshaw and Loh (2023), Differentially private inference via noisy optimization, AoS 51.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from privstats.api import dp_glm
    >>> x = np.linspace(-2, 2, 20_000)
    >>> y = np.arange(20_000) * 0.618 % 1 < 1 / (1 + np.exp(-x))
    >>> fit = dp_glm("y ~ x", pd.DataFrame({"x": x, "y": y}), eps=2, domain={"x": (-2, 2), "y": bool}, rng=1)
    >>> fit.params.round(1).to_dict()
    {'Intercept': 0.0, 'x': 1.0}
    """
