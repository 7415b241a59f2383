"""Private fits of generalised linear models: the function `dp_glm`."""

# mypy: disable-error-code="empty-body"
# Each public function has only a signature and a docstring in this file; the decorator `verb` supplies the code.

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
        As in statsmodels: ``"y ~ x1 + np.log(x2) + C(region)"``. Every term is computed from the columns of one row.
        A binomial response is 0 or 1, a boolean, or one of two declared levels (the second level counts as 1); a
        Poisson or gamma response is not negative and has a declared upper bound.
    data : DataFrame, path, Arrow table, or function that returns an iterable of frames
        The confidential rows. Do not filter the rows first, because the number of rows counts as public; use `subset`
        instead. A path names a .csv file, a Parquet file or a folder of Parquet files. The cells of a .csv file are
        read with the types that the domain declares for their columns. Tables and datasets of pyarrow, frames of polars
        and tables of DuckDB are read without conversion. These sources and Parquet files need
        ``pip install 'privstats[arrow]'``. A frame of Dask is read by the workers of Dask and needs
        ``pip install 'privstats[dask]'``. A function is called without arguments, once for each pass over the rows.
    eps : float, optional
        Budget: pure differential privacy, or (eps, delta) together with `delta`. Give one of `eps`, `mu` and `rho`.
    family : {"binomial", "poisson", "gamma", "gaussian"} or statsmodels family
        Distribution of the response. "gaussian" is `dp_lm`.
    link : str, optional
        Link function of the mean: "logit" (the default) or "probit" for "binomial", "log" for "poisson" and "gamma".
    mech : {"auto", "objpert", "newton", "ngd", "noisy_newton", "sgd"}
        Algorithm.

        - "auto" takes the algorithm with the shorter expected intervals, "objpert" or "newton". The summary names the
          algorithm and the reason.
        - "objpert" (objective perturbation) minimises a negative log likelihood plus a random linear term. For counts
          and gamma responses it needs pure `eps` and clips the scores (gradients of a row's loss).
        - "newton" takes Newton steps with clipped, noisy scores.
        - "ngd" and "noisy_newton" are the noisy gradient descent and the noisy Newton steps of [3]_, for teaching and
          comparison. They need the logit link and a budget in `mu`, in `rho` or with `delta`.
        - "sgd" (noisy stochastic gradient descent) needs the logit link and `eps` with `delta`, and gives no intervals.
    delta : float
        Probability with which the guarantee `eps` may fail. Choose it well below one over the number of rows.
    mu : float, optional
        Budget in Gaussian differential privacy; mu = 1 implies eps = 4.89 at delta = 1e-6.
    rho : float, optional
        Budget in zero-concentrated differential privacy; normal noise with budget `mu` has rho = mu^2 / 2.
    domain : Domain or dict
        Bounds ``(low, high)`` or levels ``["a", "b"]`` of each column, from public knowledge and never from the data.
        Values outside the bounds are moved to the nearer bound; rows with an undeclared level count as missing.
    noise : {"linf", "l1", "l2", "gaussian"}, optional
        Distribution of the noise, by default the distribution with the smallest error. "linf", "l1" and "l2" have a
        density that decreases exponentially in the norm of this name; for "objpert" with ``inference="none"``, these
        three names refer to the norm in which the sensitivity is measured. "gaussian" needs `mu`, `rho` or `delta`.
    neighbors : {"replace", "add_remove"}
        Which pairs of data sets the guarantee makes hard to distinguish: pairs in which one row is replaced by another,
        or pairs in which one row is added or removed. Under "add_remove" the number of rows is private.
    inference : {"sandwich", "none"}
        "none" spends the whole budget on the coefficients: every coefficient is reported, but without an interval.
        With "none", "objpert" scales the columns by their declared bounds, and an error is raised for "newton" if the
        number of rows or the budget is too small for the Newton steps to converge.
    cov_type : {"HC", "nonrobust", "cluster"}
        "HC" (computed as HC1; "HC0" to "HC3" are accepted) allows variances that differ from the variances of the
        family; "nonrobust" assumes the variances of the family; "cluster" allows dependence within a unit and is the
        default if `rows_per_unit` is above 1.
    offset : str, optional
        Expression with public bounds that is added to the linear predictor, such as ``"np.log(years)"``.
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
        Relative shares of the budget, by the name of the query on which they are spent; `plan` lists the names.
    margins : bool
        Whether average marginal effects are released as well (`Results.get_margeff`).
    theta_bound : float, optional
        For "objpert": bound on the sum of the absolute coefficients of predictors scaled to [-1, 1]. A fit with this
        bound has no intervals.
    split : float, optional
        For "objpert": share of the budget for the random linear term.
    ridge : float, optional
        For "objpert": coefficient of the ridge penalty, which is `ridge` times half the sum of the squared
        coefficients. A fit with this penalty has no intervals.
    tail : {"cautious"}, optional
        Large scores are clipped. A bound on the clipping bias is computed from a released histogram of score norms or,
        for "objpert" with a binomial response, of the norms of the rows' predictors. A small number of large norms
        cannot be distinguished from noise in this histogram. "cautious" assumes more large norms than the default, so
        that intervals are longer.
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
        Estimates, standard errors, intervals and tests. Its method `predict` returns means or, with
        ``which="linear"``, linear predictors. If `dry_run` is True, a `Plan` is returned instead.

    Raises
    ------
    OptionError, BudgetError, DomainError, FormulaError, PrivacyError
        Whether an error is raised depends only on the arguments, on the names and types of the columns, and on the
        number of rows if this number is public; it never depends on the values in the rows.

    Notes
    -----
    Objective perturbation follows [1]_ and [2]_ (section 5); Newton steps follow [3]_. A coefficient is NaN ("not
    given") if the noise is too large for a useful estimate.

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
