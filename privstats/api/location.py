"""Private medians, quantiles and means, of columns or by group: `dp_median`, `dp_quantile` and `dp_mean`."""

# mypy: disable-error-code="empty-body"
# Each public function has only a signature and a docstring in this file; the decorator `verb` supplies the code.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privstats.formula.domain import Domain
from privstats.models.location import ColumnMean, ColumnMedian, ColumnQuantile
from privstats.privacy.ledger import Ledger
from privstats.results.results import Results
from privstats.workflow.call import verb
from privstats.workflow.plan import Plan


@verb(ColumnMedian)
def dp_median(
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
    subset: str | None = None,
    unit: str | None = None,
    rows_per_unit: int = 1,
    bounds_share: float = 0.1,
    shares: Mapping[str, float] | None = None,
    grid: float | Mapping[str, float] | None = None,
    alpha: float = 0.05,
    geometric: bool = False,
    eta: float | None = None,
    memory_limit: int | None = None,
    ledger: Ledger | None = None,
    rng: Any = None,
    dry_run: bool = False,
) -> Results | Plan:
    """Release the median of a column under differential privacy, with an interval.

    Parameters
    ----------
    formula : str
        ``"x"``, ``"np.log(x)"``, ``"x1 + x2"`` (the median of each), or any of these by group, ``"x ~ g"``, or by
        intervals of a numeric column, ``"x ~ cut(z, [0, 1, 2])"``. A row with a missing value in one of the columns is
        not used for any of the columns.
    data : DataFrame, path, Arrow table, or function that returns an iterable of frames
        The confidential rows. Do not filter the rows first, because the number of rows counts as public; use `subset`
        instead. A path names a .csv file, a Parquet file or a folder of Parquet files. The cells of a .csv file are
        read with the types that the domain declares for their columns. Tables and datasets of pyarrow, frames of polars
        and tables of DuckDB are read without conversion. These sources and Parquet files need
        ``pip install 'privstats[arrow]'``. A frame of Dask is read by the workers of Dask and needs
        ``pip install 'privstats[dask]'``. A function is called without arguments, once for each pass over the rows.
    eps : float, optional
        Budget: pure differential privacy, or (eps, delta) together with `delta`. Give one of `eps`, `mu` and `rho`.
    mech : {"auto", "rank", "aq", "duff", "smoothsens", "ptr", "kng"}
        "rank" (the choice of "auto") is the exponential mechanism on interpolated ranks; it draws the median together
        with the limits of its interval. The other mechanisms are for comparison: "aq" (approximate quantiles) is the
        exponential mechanism for the median alone; "duff" is the exponential mechanism in which the penalty of a
        candidate is the number of rows that must change until the candidate is the median; "smoothsens" adds noise to
        the median in proportion to the median's smooth sensitivity; "ptr" (propose, test, release) adds noise to the
        median only if a noisy test finds the median stable (see `eta`), and needs `delta`; "kng", the K-norm gradient
        mechanism, prefers candidates at which the gradient of the sum of absolute errors is small.
    delta : float
        Probability with which the guarantee `eps` may fail. Choose it well below one over the number of rows.
    mu : float, optional
        Budget in Gaussian differential privacy; mu = 1 implies eps = 4.89 at delta = 1e-6.
    rho : float, optional
        Budget in zero-concentrated differential privacy; normal noise with budget `mu` has rho = mu^2 / 2.
    domain : Domain or dict
        Bounds ``(low, high)`` or levels ``["a", "b"]`` of each column, from public knowledge and never from the data.
        Values outside the bounds are moved to the nearer bound; rows with an undeclared level count as missing.
    noise : {"cauchy", "laplace", "laplaceln", "gaussian"}, optional
        For "smoothsens": distribution of the noise. "cauchy", the default, is valid under every kind of budget; the
        other distributions need `delta`. "laplaceln" is Laplace noise times a log-normal factor.
    neighbors : {"replace", "add_remove"}
        The pairs of data sets that the guarantee makes hard to distinguish: one row replaced by another, or one row
        added or removed. Under "add_remove" the number of rows is private.
    inference : {"sandwich", "none"}
        "none" spends the whole budget on the median and gives no intervals.
    subset : str, optional
        Condition on the rows to use, such as ``"age >= 18"``. The number of rows that satisfy the condition stays
        private.
    unit : str, optional
        Column that names the person or household of a row. The guarantee then covers all rows of one unit.
    rows_per_unit : int
        Largest number of rows of one unit that are used. If a unit has more rows, the rows to use are drawn at random.
    bounds_share : float
        Share of the budget that is spent on estimating the bounds of numeric columns without declared bounds.
    shares : dict, optional
        Relative shares of the budget for the questions (queries of the data), by name; `plan` lists the names.
    grid : float or dict, optional
        Step between the possible values of the column, or a dict from column to step; estimates are multiples of the
        step. The default is the step that `domain` declares. If `domain` declares no step, values are rounded to six
        digits of the range. If the budget is small, values are rounded to fewer digits, with a step of at most 1/500
        of the range. Intervals are then widened by half a step at both limits, to allow for the rounding.
        "smoothsens" and "ptr" need a step of at least 2^-30 of the range.
    alpha : float
        One minus the confidence level of the released intervals; intervals with another confidence level are computed
        by scaling the released intervals.
    eta : float, optional
        For "ptr": an estimate is given only if one row changes the median by at most `eta`, even after changes of a
        few other rows. The default is 1/64 of the range.
    geometric : bool
        Whether to release the geometric median of several columns, the point with the least sum of distances from the
        rows; the mechanism is "kng".
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
        `params` is indexed by column, or by column and group. If `dry_run` is True, a `Plan` is returned instead.

    Raises
    ------
    OptionError, BudgetError, DomainError, FormulaError, PrivacyError
        Whether an error is raised depends only on the arguments, on the names and types of the columns, and on the
        number of rows if this number is public; it never depends on the values in the rows.

    Notes
    -----
    The budget is divided equally between columns. Groups are disjoint: under "add_remove" each group has the whole
    budget; under "replace" each has half of the budget, because a replaced row may leave one group and enter another.

    The limits of an interval are order statistics, drawn together with the median under "rank" [1]_ and in a second
    query under the other mechanisms. The ranks of these order statistics allow for sampling error and noise. The
    interval is valid for any continuous distribution; the interval is wide if few values lie near the median. The
    logarithm of the median also estimates the median of the logarithms.

    References
    ----------
    .. [1] Gillenwater, Joseph and Kulesza (2021), Differentially private quantiles, ICML 38.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from privstats.api import dp_median
    >>> data = pd.DataFrame({"x": np.linspace(0, 4, 10_001) ** 2})
    >>> fit = dp_median("x", data, eps=1, domain={"x": (0, 20)}, rng=1)
    >>> fit.params.round(1).to_dict()
    {'x': 4.0}
    """


@verb(ColumnQuantile)
def dp_quantile(
    formula: str,
    data: Any,
    eps: float | None = None,
    *,
    q: float | Sequence[float] = 0.5,
    tau: float | Sequence[float] | None = None,
    mech: str = "auto",
    delta: float = 0.0,
    mu: float | None = None,
    rho: float | None = None,
    domain: Domain | Mapping[str, Any] | None = None,
    noise: str | None = None,
    neighbors: str = "replace",
    inference: str = "sandwich",
    subset: str | None = None,
    unit: str | None = None,
    rows_per_unit: int = 1,
    bounds_share: float = 0.1,
    shares: Mapping[str, float] | None = None,
    grid: float | Mapping[str, float] | None = None,
    alpha: float = 0.05,
    eta: float | None = None,
    memory_limit: int | None = None,
    ledger: Ledger | None = None,
    rng: Any = None,
    dry_run: bool = False,
) -> Results | Plan:
    """Release quantiles of a column under differential privacy, with intervals.

    Parameters
    ----------
    formula : str
        ``"x"``, ``"np.log(x)"``, ``"x1 + x2"`` (the quantiles of each), or any of these by group, ``"x ~ g"``, or by
        intervals of a numeric column, ``"x ~ cut(z, [0, 1, 2])"``. A row with a missing value in one of the columns is
        not used for any of the columns.
    data : DataFrame, path, Arrow table, or function that returns an iterable of frames
        The confidential rows. Do not filter the rows first, because the number of rows counts as public; use `subset`
        instead. A path names a .csv file, a Parquet file or a folder of Parquet files. The cells of a .csv file are
        read with the types that the domain declares for their columns. Tables and datasets of pyarrow, frames of polars
        and tables of DuckDB are read without conversion. These sources and Parquet files need
        ``pip install 'privstats[arrow]'``. A frame of Dask is read by the workers of Dask and needs
        ``pip install 'privstats[dask]'``. A function is called without arguments, once for each pass over the rows.
    eps : float, optional
        Budget: pure differential privacy, or (eps, delta) together with `delta`. Give one of `eps`, `mu` and `rho`.
    q : float or list of float
        Quantile levels, between 0 and 1. Several quantiles are released together and never cross.
    tau : float or list of float, optional
        Another name for `q`.
    mech : {"auto", "rank", "aq", "duff", "smoothsens", "ptr", "kng"}
        "rank" (the choice of "auto") is the exponential mechanism on interpolated ranks, which draws several quantiles
        together. The other mechanisms are for comparison: "aq" (approximate quantiles) draws the middle quantile first,
        then the lower quantiles below it and the upper quantiles above it; "duff" is the exponential mechanism in which
        the penalty of a candidate is the number of rows that must change until the candidate is the quantile;
        "smoothsens" adds noise to the quantile in proportion to the smooth sensitivity of the quantile; "ptr" (propose,
        test, release) adds noise to the quantile only if a noisy test finds the quantile stable (see `eta`), and needs
        `delta`; "kng", the K-norm gradient mechanism, prefers candidates at which the gradient of the quantile loss is
        small.
    delta : float
        Probability with which the guarantee `eps` may fail. Choose it well below one over the number of rows.
    mu : float, optional
        Budget in Gaussian differential privacy; mu = 1 implies eps = 4.89 at delta = 1e-6.
    rho : float, optional
        Budget in zero-concentrated differential privacy; normal noise with budget `mu` has rho = mu^2 / 2.
    domain : Domain or dict
        Bounds ``(low, high)`` or levels ``["a", "b"]`` of each column, from public knowledge and never from the data.
        Values outside the bounds are moved to the nearer bound; rows with an undeclared level count as missing.
    noise : {"cauchy", "laplace", "laplaceln", "gaussian"}, optional
        For "smoothsens": distribution of the noise. "cauchy", the default, is valid under every kind of budget; the
        other distributions need `delta`. "laplaceln" is Laplace noise times a log-normal factor.
    neighbors : {"replace", "add_remove"}
        The pairs of data sets that the guarantee makes hard to distinguish: one row replaced by another, or one row
        added or removed. Under "add_remove" the number of rows is private.
    inference : {"sandwich", "none"}
        "none" spends the whole budget on the quantiles and gives no intervals.
    subset : str, optional
        Condition on the rows to use, such as ``"age >= 18"``. The number of rows that satisfy the condition stays
        private.
    unit : str, optional
        Column that names the person or household of a row. The guarantee then covers all rows of one unit.
    rows_per_unit : int
        Largest number of rows of one unit that are used. If a unit has more rows, the rows to use are drawn at random.
    bounds_share : float
        Share of the budget that is spent on estimating the bounds of numeric columns without declared bounds.
    shares : dict, optional
        Relative shares of the budget for the questions (queries of the data), by name; `plan` lists the names.
    grid : float or dict, optional
        Step between the possible values of the column, or a dict from column to step; estimates are multiples of the
        step. The default is the step that `domain` declares. If `domain` declares no step, values are rounded to six
        digits of the range. If the budget is small, values are rounded to fewer digits, with a step of at most 1/500
        of the range. Intervals are then widened by half a step at both limits, to allow for the rounding.
        "smoothsens" and "ptr" need a step of at least 2^-30 of the range.
    alpha : float
        One minus the confidence level of the released intervals; intervals with another confidence level are computed
        by scaling the released intervals.
    eta : float, optional
        For "ptr": an estimate is given only if one row changes the quantile by at most `eta`, even after changes of a
        few other rows. The default is 1/64 of the range.
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
        `params` is indexed by column, by group (if any) and by q (if the call has several q). If `dry_run` is True, a
        `Plan` is returned instead.

    Raises
    ------
    OptionError, BudgetError, DomainError, FormulaError, PrivacyError
        Whether an error is raised depends only on the arguments, on the names and types of the columns, and on the
        number of rows if this number is public; it never depends on the values in the rows.

    Notes
    -----
    The budget is divided equally between columns. Groups are disjoint: under "add_remove" each group has the whole
    budget; under "replace" each has half of the budget, because a replaced row may leave one group and enter another.

    The limits of an interval are order statistics, drawn together with the quantiles under "rank" [1]_ and in a second
    query under the other mechanisms. The ranks of these order statistics allow for sampling error and noise. The
    interval is valid for any continuous distribution; the interval is wide if few values lie near the quantile.

    References
    ----------
    .. [1] Gillenwater, Joseph and Kulesza (2021), Differentially private quantiles, ICML 38.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from privstats.api import dp_quantile
    >>> data = pd.DataFrame({"x": np.linspace(0, 4, 10_001)})
    >>> fit = dp_quantile("x", data, eps=2, q=[0.25, 0.5, 0.75], domain={"x": (0, 20)}, rng=1)
    >>> fit.params.round(1).to_list()
    [1.0, 2.0, 3.0]
    """


@verb(ColumnMean)
def dp_mean(
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
    subset: str | None = None,
    unit: str | None = None,
    rows_per_unit: int = 1,
    bounds_share: float = 0.1,
    shares: Mapping[str, float] | None = None,
    memory_limit: int | None = None,
    ledger: Ledger | None = None,
    rng: Any = None,
    dry_run: bool = False,
) -> Results | Plan:
    """Release the mean of a column under differential privacy, with an interval.

    Parameters
    ----------
    formula : str
        ``"x"``, ``"np.log(x)"``, ``"x1 + x2"`` (the mean of each), or any of these by group, ``"x ~ g"``, or by
        intervals of a numeric column, ``"x ~ cut(z, [0, 1, 2])"``. Values outside the declared bounds are moved to the
        nearer bound, so that the estimand is the mean of the clamped values.
    data : DataFrame, path, Arrow table, or function that returns an iterable of frames
        The confidential rows. Do not filter the rows first, because the number of rows counts as public; use `subset`
        instead. A path names a .csv file, a Parquet file or a folder of Parquet files. The cells of a .csv file are
        read with the types that the domain declares for their columns. Tables and datasets of pyarrow, frames of polars
        and tables of DuckDB are read without conversion. These sources and Parquet files need
        ``pip install 'privstats[arrow]'``. A frame of Dask is read by the workers of Dask and needs
        ``pip install 'privstats[dask]'``. A function is called without arguments, once for each pass over the rows.
    eps : float, optional
        Budget: pure differential privacy, or (eps, delta) together with `delta`. Give one of `eps`, `mu` and `rho`.
    mech : {"auto", "laplace", "knorm", "gaussian", "clipped", "duff"}
        "laplace" (for pure eps), "gaussian" (for `mu`, `rho` or `delta`) and "knorm" (the K-norm mechanism in the norm
        that `noise` names) add noise, in proportion to the bounds, to the sum of each column. "clipped" takes a single
        column and regresses it on a dummy for each group, as `dp_lm` does; the noise is in proportion to the std dev of
        the values. Intervals of "clipped" are shorter if the bounds extend far beyond most values and there are several
        thousand rows, and longer otherwise; if most values are zero, "clipped" may clip the other values without a sign
        of it in the released histogram, and the intervals then cover the mean less often than stated. "auto" uses noise
        on sums; for a single column, "auto" may first estimate the std dev, with a tenth of the budget at most, and
        then uses "clipped" if its intervals are expected to be shorter by a safety margin. "duff" is for comparison,
        without intervals. It is the exponential mechanism in which the penalty of a candidate is the number of rows
        that must change until the candidate is the mean.
    delta : float
        Probability with which the guarantee `eps` may fail. Choose it well below one over the number of rows.
    mu : float, optional
        Budget in Gaussian differential privacy; mu = 1 implies eps = 4.89 at delta = 1e-6.
    rho : float, optional
        Budget in zero-concentrated differential privacy; normal noise with budget `mu` has rho = mu^2 / 2.
    domain : Domain or dict
        Bounds ``(low, high)`` or levels ``["a", "b"]`` of each column, from public knowledge and never from the data.
        Values outside the bounds are moved to the nearer bound; rows with an undeclared level count as missing.
    noise : {"linf", "l1", "l2"}, optional
        Norm of the K-norm mechanism "knorm". With several columns "linf" has less noise than "laplace".
    neighbors : {"replace", "add_remove"}
        The pairs of data sets that the guarantee makes hard to distinguish: one row replaced by another, or one row
        added or removed. Under "add_remove" the number of rows is private.
    inference : {"sandwich", "none"}
        "none" spends the whole budget on the means and gives no intervals.
    subset : str, optional
        Condition on the rows to use, such as ``"age >= 18"``. The number of rows that satisfy the condition stays
        private.
    unit : str, optional
        Column that names the person or household of a row. The guarantee then covers all rows of one unit.
    rows_per_unit : int
        Largest number of rows of one unit that are used. If a unit has more rows, the rows to use are drawn at random.
    bounds_share : float
        Share of the budget that is spent on estimating the bounds of numeric columns without declared bounds.
    shares : dict, optional
        Relative shares of the budget for the questions (queries of the data), by name; `plan` lists the names.
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
        `params` is indexed by column, or by column and group. If `dry_run` is True, a `Plan` is returned instead.

    Raises
    ------
    OptionError, BudgetError, DomainError, FormulaError, PrivacyError
        Whether an error is raised depends only on the arguments, on the names and types of the columns, and on the
        number of rows if this number is public; it never depends on the values in the rows.

    Notes
    -----
    The budget is divided equally between columns. Groups are disjoint: under "add_remove" each group has the whole
    budget; under "replace" each has half of the budget, because a replaced row may leave one group and enter another.
    The exception is "knorm" in the norm "linf" or "l2": the noise of all sums is drawn jointly, so the budget is not
    divided.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from privstats.api import dp_mean
    >>> data = pd.DataFrame({"x": np.linspace(0, 4, 10_001)})
    >>> fit = dp_mean("x", data, eps=1, domain={"x": (0, 5)}, rng=1)
    >>> fit.params.round(2).to_dict()
    {'x': 2.0}
    """
