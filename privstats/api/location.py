"""Where a column lies: medians, quantiles and means, of columns or by group."""

# mypy: disable-error-code="empty-body"
# A verb is its signature and its docstring; `verb` makes it run.

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
        ``"x"``, ``"np.log(x)"``, ``"x1 + x2"`` (the median of each), or any of them by group, ``"x ~ g"``, or by
        intervals of numbers, ``"x ~ cut(z, [0, 1, 2])"``.
    data : DataFrame, path, Arrow table, or function that returns an iterable of frames
        The confidential rows. Do not filter them first, since their number counts as public: use `subset`. A path names
        a .csv file, every cell of which is a text that is read as its column is declared, or a Parquet file or folder;
        tables and datasets of pyarrow, frames of polars and tables of DuckDB are read as they are (these and Parquet by
        pyarrow: ``pip install 'privstats[arrow]'``), a frame of Dask where its rows lie (``'privstats[dask]'``). A
        function is called without arguments, once a pass.
    eps : float, optional
        Budget: pure differential privacy, or (eps, delta) together with `delta`. Give one of `eps`, `mu` and `rho`.
    mech : {"auto", "rank", "aq", "duff", "smoothsens", "ptr", "kng"}
        "rank" (taken by "auto") is the exponential mechanism on ranks, interpolated. The others are for comparison:
        "duff" uses the distance to data with another median; "smoothsens" adds noise to the median in proportion to its
        smooth sensitivity; "ptr" (propose, test, release) needs `delta`; "kng" is the K-norm gradient mechanism.
    delta : float
        Probability with which the guarantee `eps` may fail. Choose it well below one over the number of rows.
    mu : float, optional
        Budget in Gaussian differential privacy; mu = 1 implies eps = 4.89 at delta = 1e-6.
    rho : float, optional
        Budget in zero-concentrated differential privacy; normal noise that keeps `mu` has rho = mu^2 / 2.
    domain : Domain or dict
        Public knowledge of each column: bounds ``(low, high)`` or levels ``["a", "b"]``, never read off the data.
        Values outside the bounds are moved to the nearer bound; rows with an undeclared level count as missing.
    noise : {"cauchy", "laplace", "laplaceln", "gaussian"}, optional
        For "smoothsens": distribution of the noise. "cauchy", the default, keeps any budget; others need `delta`.
    neighbors : {"replace", "add_remove"}
        Which data sets the guarantee makes hard to tell apart: one row replaced by another, or one row added or
        removed. Under "add_remove" the number of rows is private.
    inference : {"sandwich", "none"}
        "none" spends the whole budget on the median and gives no intervals.
    subset : str, optional
        Rows to use, such as ``"age >= 18"``; their number stays private.
    unit : str, optional
        Column that names the person or household of a row. The guarantee then covers all rows of one unit.
    rows_per_unit : int
        Largest number of rows of one unit that count, chosen by chance, whatever their order.
    bounds_share : float
        Share of the budget that estimates the range of numeric columns without declared bounds.
    shares : dict, optional
        Relative shares of the questions by name; `plan` lists them.
    grid : float or dict, optional
        Step between the column's possible values, or a dict by column; estimates lie on it. Without it values are
        rounded to six digits of the range, or to as few as the budget pays for, a five hundredth of the range or less
        from each other; intervals extend by half a step for that. "smoothsens" and "ptr" take no step below 2^-30 of
        the range.
    alpha : float
        One minus the confidence of the intervals that are released; at other levels these are widened or narrowed.
    eta : float, optional
        For "ptr": how far a few rows may move the quantile if there is to be an estimate.
    geometric : bool
        Of several columns the one point with the least sum of distances ("kng").
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
        `params` by column, or by column and group. A `Plan` if `dry_run`.

    Raises
    ------
    OptionError, BudgetError, DomainError, FormulaError, PrivacyError
        Decided from arguments, column names and types and the public number of rows, never from cells.

    Notes
    -----
    The budget is shared by columns in equal parts. Groups are disjoint: each has all of it under "add_remove" and half
    of it under "replace", where a replaced row may leave one group and enter another.

    The ends of an interval are order statistics, drawn together with the median [1]_, with a margin of ranks for
    sampling error and noise. The interval is valid for any continuous distribution; it is wide where few values lie
    near the median. Ask for the median of wages, and take its logarithm, not for that of log wages.

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
        ``"x"``, ``"np.log(x)"``, ``"x1 + x2"`` (the quantiles of each), or any of them by group, ``"x ~ g"``, or by
        intervals of numbers, ``"x ~ cut(z, [0, 1, 2])"``.
    data : DataFrame, path, Arrow table, or function that returns an iterable of frames
        The confidential rows. Do not filter them first, since their number counts as public: use `subset`. A path names
        a .csv file, every cell of which is a text that is read as its column is declared, or a Parquet file or folder;
        tables and datasets of pyarrow, frames of polars and tables of DuckDB are read as they are (these and Parquet by
        pyarrow: ``pip install 'privstats[arrow]'``), a frame of Dask where its rows lie (``'privstats[dask]'``). A
        function is called without arguments, once a pass.
    eps : float, optional
        Budget: pure differential privacy, or (eps, delta) together with `delta`. Give one of `eps`, `mu` and `rho`.
    q : float or list of float
        Quantiles, between 0 and 1. Several are released together, and never cross.
    tau : float or list of float, optional
        Another name of `q`.
    mech : {"auto", "rank", "aq", "duff", "smoothsens", "ptr", "kng"}
        "rank" (taken by "auto") is the exponential mechanism on ranks, interpolated; it draws several quantiles
        together. The others are for comparison: "aq" (approximate quantiles) draws the middle one first, then those on
        either side of it; "duff" uses the distance to data with another quantile; "smoothsens" adds noise to the
        quantile in proportion to its smooth sensitivity; "ptr" (propose, test, release) needs `delta`; "kng" is the
        K-norm gradient mechanism.
    delta : float
        Probability with which the guarantee `eps` may fail. Choose it well below one over the number of rows.
    mu : float, optional
        Budget in Gaussian differential privacy; mu = 1 implies eps = 4.89 at delta = 1e-6.
    rho : float, optional
        Budget in zero-concentrated differential privacy; normal noise that keeps `mu` has rho = mu^2 / 2.
    domain : Domain or dict
        Public knowledge of each column: bounds ``(low, high)`` or levels ``["a", "b"]``, never read off the data.
        Values outside the bounds are moved to the nearer bound; rows with an undeclared level count as missing.
    noise : {"cauchy", "laplace", "laplaceln", "gaussian"}, optional
        For "smoothsens": distribution of the noise. "cauchy", the default, keeps any budget; others need `delta`.
    neighbors : {"replace", "add_remove"}
        Which data sets the guarantee makes hard to tell apart: one row replaced by another, or one row added or
        removed. Under "add_remove" the number of rows is private.
    inference : {"sandwich", "none"}
        "none" spends the whole budget on the quantiles and gives no intervals.
    subset : str, optional
        Rows to use, such as ``"age >= 18"``; their number stays private.
    unit : str, optional
        Column that names the person or household of a row. The guarantee then covers all rows of one unit.
    rows_per_unit : int
        Largest number of rows of one unit that count, chosen by chance, whatever their order.
    bounds_share : float
        Share of the budget that estimates the range of numeric columns without declared bounds.
    shares : dict, optional
        Relative shares of the questions by name; `plan` lists them.
    grid : float or dict, optional
        Step between the column's possible values, or a dict by column; estimates lie on it. Without it values are
        rounded to six digits of the range, or to as few as the budget pays for, a five hundredth of the range or less
        from each other; intervals extend by half a step for that. "smoothsens" and "ptr" take no step below 2^-30 of
        the range.
    alpha : float
        One minus the confidence of the intervals that are released; at other levels these are widened or narrowed.
    eta : float, optional
        For "ptr": how far a few rows may move the quantile if there is to be an estimate.
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
        `params` by column, by column and q, or by column, group and q. A `Plan` if `dry_run`.

    Raises
    ------
    OptionError, BudgetError, DomainError, FormulaError, PrivacyError
        Decided from arguments, column names and types and the public number of rows, never from cells.

    Notes
    -----
    The budget is shared by columns in equal parts. Groups are disjoint: each has all of it under "add_remove" and half
    of it under "replace", where a replaced row may leave one group and enter another.

    The ends of an interval are order statistics, drawn together with the quantiles [1]_, with a margin of ranks for
    sampling error and noise. The interval is valid for any continuous distribution; it is wide where few values lie
    near the quantile.

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
        ``"x"``, ``"np.log(x)"``, ``"x1 + x2"`` (the mean of each), or any of them by group, ``"x ~ g"``, or by
        intervals of numbers, ``"x ~ cut(z, [0, 1, 2])"``. Values outside the declared bounds are moved to the nearer
        bound: the estimand is the mean of the clamped values.
    data : DataFrame, path, Arrow table, or function that returns an iterable of frames
        The confidential rows. Do not filter them first, since their number counts as public: use `subset`. A path names
        a .csv file, every cell of which is a text that is read as its column is declared, or a Parquet file or folder;
        tables and datasets of pyarrow, frames of polars and tables of DuckDB are read as they are (these and Parquet by
        pyarrow: ``pip install 'privstats[arrow]'``), a frame of Dask where its rows lie (``'privstats[dask]'``). A
        function is called without arguments, once a pass.
    eps : float, optional
        Budget: pure differential privacy, or (eps, delta) together with `delta`. Give one of `eps`, `mu` and `rho`.
    mech : {"auto", "laplace", "knorm", "gaussian", "clipped", "duff"}
        Noise on sums, which goes by the bounds: "laplace" (pure eps), "gaussian" (`mu`, `rho` or `delta`), or
        "knorm" in the norm `noise`. "clipped" takes one column at a time and fits a dummy to each group, as dp_lm does:
        its noise goes by the spread of the values, so it is shorter where bounds extend far beyond most values and
        there are several thousand rows, and longer elsewhere. "auto" takes noise on sums; of one column it asks first,
        at a twentieth of the budget, how far the values are spread, and takes "clipped" where that promises more.
        "duff" uses the distance to data with another mean; it is for comparison and has no intervals.
    delta : float
        Probability with which the guarantee `eps` may fail. Choose it well below one over the number of rows.
    mu : float, optional
        Budget in Gaussian differential privacy; mu = 1 implies eps = 4.89 at delta = 1e-6.
    rho : float, optional
        Budget in zero-concentrated differential privacy; normal noise that keeps `mu` has rho = mu^2 / 2.
    domain : Domain or dict
        Public knowledge of each column: bounds ``(low, high)`` or levels ``["a", "b"]``, never read off the data.
        Values outside the bounds are moved to the nearer bound; rows with an undeclared level count as missing.
    noise : {"linf", "l1", "l2"}, optional
        Norm of "knorm". With several columns "linf" has less noise than "laplace".
    neighbors : {"replace", "add_remove"}
        Which data sets the guarantee makes hard to tell apart: one row replaced by another, or one row added or
        removed. Under "add_remove" the number of rows is private.
    inference : {"sandwich", "none"}
        "none" spends the whole budget on the means and gives no intervals.
    subset : str, optional
        Rows to use, such as ``"age >= 18"``; their number stays private.
    unit : str, optional
        Column that names the person or household of a row. The guarantee then covers all rows of one unit.
    rows_per_unit : int
        Largest number of rows of one unit that count, chosen by chance, whatever their order.
    bounds_share : float
        Share of the budget that estimates the range of numeric columns without declared bounds.
    shares : dict, optional
        Relative shares of the questions by name; `plan` lists them.
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
        `params` by column, or by column and group. A `Plan` if `dry_run`.

    Raises
    ------
    OptionError, BudgetError, DomainError, FormulaError, PrivacyError
        Decided from arguments, column names and types and the public number of rows, never from cells.

    Notes
    -----
    The budget is shared by columns in equal parts. Groups are disjoint: each has all of it under "add_remove" and half
    of it under "replace", where a replaced row may leave one group and enter another.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from privstats.api import dp_mean
    >>> data = pd.DataFrame({"x": np.linspace(0, 4, 10_001)})
    >>> fit = dp_mean("x", data, eps=1, domain={"x": (0, 5)}, rng=1)
    >>> fit.params.round(2).to_dict()
    {'x': 2.0}
    """
