"""Private modes and histograms, of a column or by group: the functions `dp_mode` and `dp_hist`."""

# mypy: disable-error-code="empty-body"
# Each public function has only a signature and a docstring in this file; the decorator `verb` supplies the code.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privstats.formula.domain import Domain
from privstats.models.location import ColumnHistogram, ColumnMode
from privstats.privacy.ledger import Ledger
from privstats.results.results import Results
from privstats.workflow.call import verb
from privstats.workflow.plan import Plan


@verb(ColumnMode)
def dp_mode(
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
    grid: float | None = None,
    bins: int | Sequence[float] | None = None,
    memory_limit: int | None = None,
    ledger: Ledger | None = None,
    rng: Any = None,
    dry_run: bool = False,
) -> Results | Plan:
    """Release the most frequent value of a column under differential privacy.

    Parameters
    ----------
    formula : str
        ``"g"`` for a column with declared levels; ``"x"`` for a numeric column, with `grid` or `bins`; ``"x ~ g"`` for
        the mode of a column in each group.
    data : DataFrame, path, Arrow table, or function that returns an iterable of frames
        The confidential rows. Do not filter the rows first, because the number of rows counts as public; use `subset`
        instead. A path names a .csv file, a Parquet file or a folder of Parquet files. The cells of a .csv file are
        read with the types that the domain declares for their columns. Tables and datasets of pyarrow, frames of polars
        and tables of DuckDB are read without conversion. These sources and Parquet files need
        ``pip install 'privstats[arrow]'``. A frame of Dask is read by the workers of Dask and needs
        ``pip install 'privstats[dask]'``. A function is called without arguments, once for each pass over the rows.
    eps : float, optional
        Budget: pure differential privacy, or (eps, delta) together with `delta`. Give one of `eps`, `mu` and `rho`.
    mech : {"auto", "permute_and_flip", "expmech", "duff"}
        "permute_and_flip" [1]_ (the choice of "auto") visits the candidates in random order until one is accepted;
        candidates with larger counts are accepted with a larger probability. Two mechanisms are for comparison.
        "expmech" is the exponential mechanism with the counts as scores; its expected error is never smaller than with
        "permute_and_flip". "duff" is the exponential mechanism in which the penalty of a candidate is the number of
        rows that must change until the candidate is the mode.
    delta : float
        Probability with which the guarantee `eps` may fail. Choose it well below one over the number of rows.
    mu : float, optional
        Budget in Gaussian differential privacy; mu = 1 implies eps = 4.89 at delta = 1e-6.
    rho : float, optional
        Budget in zero-concentrated differential privacy; normal noise with budget `mu` has rho = mu^2 / 2.
    domain : Domain or dict
        Bounds ``(low, high)`` or levels ``["a", "b"]`` of each column, from public knowledge and never from the data.
        Values outside the bounds are moved to the nearer bound; rows with an undeclared level count as missing. The
        levels of a column are the candidates for its mode.
    noise : None
        Must be None: the noise of a mode cannot be chosen.
    neighbors : {"replace", "add_remove"}
        The pairs of data sets that the guarantee makes hard to distinguish: one row replaced by another, or one row
        added or removed. Under "add_remove" the number of rows is private.
    inference : {"sandwich", "none"}
        Both values return the mode without an interval, because no valid interval for a mode is known.
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
    grid : float, optional
        Step between the possible values of a numeric column, which are the candidates for its mode.
    bins : int or list of float, optional
        Number of bins of equal width, or the edges of the bins in ascending order; the estimate is the middle of the
        bin with the largest count.
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
        `params` contains the mode (a level or a number) of the column, or of the column in each group. If `dry_run` is
        True, a `Plan` is returned instead.

    Raises
    ------
    OptionError, BudgetError, DomainError, FormulaError, PrivacyError
        Whether an error is raised depends only on the arguments, on the names and types of the columns, and on the
        number of rows if this number is public; it never depends on the values in the rows.

    Notes
    -----
    Groups are disjoint: under "add_remove" each group has the whole budget; under "replace" each has half of the
    budget, because a replaced row may leave one group and enter another.

    References
    ----------
    .. [1] McKenna and Sheldon (2020), Permute-and-flip: a new mechanism for differentially private selection, NeurIPS
           33.

    Examples
    --------
    >>> import pandas as pd
    >>> from privstats.api import dp_mode
    >>> data = pd.DataFrame({"g": ["a"] * 30 + ["b"] * 90 + ["c"] * 40})
    >>> dp_mode("g", data, eps=1, domain={"g": ["a", "b", "c"]}, rng=1).params.to_dict()
    {'g': 'b'}
    """


@verb(ColumnHistogram)
def dp_hist(
    formula: str,
    data: Any,
    eps: float | None = None,
    *,
    bins: int | Sequence[float] | None = None,
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
    density: bool = False,
    memory_limit: int | None = None,
    ledger: Ledger | None = None,
    rng: Any = None,
    dry_run: bool = False,
) -> Results | Plan:
    """Release a histogram of a column under differential privacy.

    Parameters
    ----------
    formula : str
        ``"x"``, ``"np.log(x)"`` or a column with declared levels, or any of these by group, ``"x ~ g"``.
    data : DataFrame, path, Arrow table, or function that returns an iterable of frames
        The confidential rows. Do not filter the rows first, because the number of rows counts as public; use `subset`
        instead. A path names a .csv file, a Parquet file or a folder of Parquet files. The cells of a .csv file are
        read with the types that the domain declares for their columns. Tables and datasets of pyarrow, frames of polars
        and tables of DuckDB are read without conversion. These sources and Parquet files need
        ``pip install 'privstats[arrow]'``. A frame of Dask is read by the workers of Dask and needs
        ``pip install 'privstats[dask]'``. A function is called without arguments, once for each pass over the rows.
    eps : float, optional
        Budget: pure differential privacy, or (eps, delta) together with `delta`. Give one of `eps`, `mu` and `rho`.
    bins : int, list of float or None
        Number of bins of equal width, or the edges of the bins in ascending order, which must cover the bounds of the
        column; None for a column with levels.
    mech : {"auto", "laplace", "knorm", "gaussian"}
        Noise on counts: "laplace" (the choice of "auto" under pure eps), "gaussian" (the choice of "auto" under `mu`,
        `rho` or `delta`), or "knorm", the K-norm mechanism in the norm that `noise` names.
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
        Norm of the K-norm mechanism "knorm".
    neighbors : {"replace", "add_remove"}
        The pairs of data sets that the guarantee makes hard to distinguish: one row replaced by another, or one row
        added or removed. Under "add_remove" the number of rows is private.
    inference : {"sandwich", "none"}
        "sandwich" gives intervals; "none" spends the whole budget on the counts and gives no intervals.
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
    density : bool
        Whether densities are released in place of counts.
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
        `params` is indexed by column and bin, or by column, group and bin. Counts are noisy counts of the rows in the
        data, and may be negative; their intervals include privacy noise only. Densities estimate the densities of the
        population; their intervals also include sampling error. If `dry_run` is True, a `Plan` is returned instead.

    Raises
    ------
    OptionError, BudgetError, DomainError, FormulaError, PrivacyError
        Whether an error is raised depends only on the arguments, on the names and types of the columns, and on the
        number of rows if this number is public; it never depends on the values in the rows.

    Notes
    -----
    Groups are disjoint: under "add_remove" each group has the whole budget; under "replace" each has half of the
    budget, because a replaced row may leave one group and enter another. The exception is "knorm" in the norm "linf"
    or "l2": the noise of all counts is drawn jointly, so the budget is not divided.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from privstats.api import dp_hist
    >>> data = pd.DataFrame({"x": np.linspace(0, 4, 10_000)})
    >>> fit = dp_hist("x", data, eps=1, bins=4, domain={"x": (0, 4)}, rng=1)
    >>> fit.params.round(-2).to_list()
    [2500.0, 2500.0, 2500.0, 2500.0]
    """
