"""Where a column lies: medians, quantiles and means, of columns or by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from privstats.boundary import door
from privstats.older.api.common import COMMON, asked, run
from privstats.older.formula.domain import Domain
from privstats.older.privacy.ledger import Ledger
from privstats.older.results.results import Results
from privstats.older.workflow.plan import Plan

OPTIONS = {
    "median": (*COMMON, "grid", "confidence", "geometric", "eta"),
    "quantile": (*COMMON, "grid", "confidence", "eta", "q"),
    "mean": COMMON,
}


@door
def dp_median(
    formula: str,
    data: pd.DataFrame,
    eps: float | None = None,
    *,
    mech: str = "auto",
    delta: float = 0.0,
    mu: float | None = None,
    domain: Domain | Mapping[str, Any] | None = None,
    noise: str | None = None,
    neighbors: str = "replace",
    inference: str = "sandwich",
    shares: Mapping[str, float] | None = None,
    ledger: Ledger | None = None,
    rng: Any = None,
    dry_run: bool = False,
    **options: Any,
) -> Results | Plan:
    """Release the median of a column under differential privacy, with an interval.

    Parameters
    ----------
    formula : str
        ``"x"``, ``"np.log(x)"``, ``"x1 + x2"`` (the median of each), or any of them by group, ``"x ~ g"``.
    data : DataFrame
        The private rows. Do not filter it first.
    eps : float, optional
        Pure differential privacy budget; with `delta`, that of (eps, delta)-DP.
    mech : {"auto", "rank", "duff", "smoothsens", "ptr", "kng"}
        "rank" (the default) is the exponential mechanism on ranks, interpolated; "duff" that of the distance to data
        with another median; "smoothsens" adds noise to the median in proportion to its smooth sensitivity; "ptr"
        (propose, test, release) needs `delta`; "kng" is the K-norm gradient mechanism.
    delta, mu : float
        As for `dp_lm`.
    domain : Domain or dict
        Bounds ``(low, high)`` of each column, levels of a group. A range is bought where there are no bounds.
    noise : {"cauchy", "laplace", "laplaceln", "gaussian"}, optional
        Of "smoothsens"; all but "cauchy" need `delta`.
    inference : {"sandwich", "none"}
        Whether intervals are wanted; "none" spends everything on the median.
    neighbors, shares, ledger, rng, dry_run
        As for `dp_lm`. A budget is shared by columns in equal parts; groups are disjoint, and each gets all of it
        under "add_remove", half of it under "replace", where a row may leave one group and enter another.
    **options
        ``grid=0.5``: the step between the column's possible values, or a dict by column; releases lie on it. Without
        it values are rounded to six digits of the range, and with a small budget releases lie between the values of
        heavily tied data.
        ``confidence=0.95``: of the intervals that are bought; at other levels these are stretched or shortened.
        ``eta=``: of "ptr", how far a row may move the median if there is to be an answer.
        ``geometric=True``: of several columns the one point with the least sum of distances (mech "kng").
        ``unit=``, ``rows_per_unit=``, ``subset=``, ``bounds_share=`` as for `dp_lm`.

    Returns
    -------
    Results
        `params` by column, or by (column, group). (`Plan` if `dry_run`.)

    Raises
    ------
    BudgetError, DomainError, FormulaError, PrivacyError
        From the arguments, the column names and the public number of rows; never from the rows.

    Notes
    -----
    An interval's ends are order statistics, drawn together with the median (Gillenwater, Joseph and Kulesza 2021), as
    many ranks away as sampling error and the noise of ranks may reach: it holds for any continuous law,
    less well where the density nearly vanishes at the median, or where values are heaped on no decimal grid: ask for
    the median of wages, and take its logarithm, not for that of log wages.

    Examples
    --------
    >>> import numpy as np, pandas as pd, privstats as ps
    >>> data = pd.DataFrame({"x": np.linspace(0, 4, 10_001) ** 2})
    >>> fit = ps.dp_median("x", data, eps=1.0, domain={"x": (0, 20)}, rng=1)
    >>> fit.params.round(1).to_dict()
    {'x': 4.0}
    """
    request = asked("median", formula, OPTIONS["median"], options, eps=eps, mu=mu, delta=delta, domain=domain,
                    mech=mech, noise=noise, neighbors=neighbors, inference=inference, shares=shares)  # fmt: skip
    return run(request, data, ledger, rng, dry_run)


@door
def dp_quantile(
    formula: str,
    data: pd.DataFrame,
    eps: float | None = None,
    *,
    q: float | Sequence[float] = 0.5,
    mech: str = "auto",
    delta: float = 0.0,
    mu: float | None = None,
    domain: Domain | Mapping[str, Any] | None = None,
    noise: str | None = None,
    neighbors: str = "replace",
    inference: str = "sandwich",
    shares: Mapping[str, float] | None = None,
    ledger: Ledger | None = None,
    rng: Any = None,
    dry_run: bool = False,
    **options: Any,
) -> Results | Plan:
    """Release quantiles of a column under differential privacy, with intervals.

    Parameters
    ----------
    formula, data, eps
        As for `dp_median`.
    q : float or list of float
        Orders of the quantiles, in (0, 1). Several are released together, and never cross.
    mech : {"auto", "rank", "aq", "duff", "smoothsens", "ptr", "kng"}
        As for `dp_median`. Of several orders "rank" draws all at once (JointExp), "aq" the middle one first, then those
        on either side of it, among the rows there (ApproximateQuantiles); the others share the budget.
    delta, mu, domain, noise, inference
        As for `dp_median`.
    neighbors, shares, ledger, rng, dry_run
        As for `dp_lm`. A budget is shared by columns in equal parts; groups are disjoint, and each gets all of it
        under "add_remove", half of it under "replace", where a row may leave one group and enter another.
    **options
        As for `dp_median`, without ``geometric``.

    Returns
    -------
    Results
        `params` by column, or by (column, order) or (column, "group, order"). (`Plan` if `dry_run`.)

    Raises
    ------
    BudgetError, DomainError, FormulaError, PrivacyError
        From the arguments, the column names and the public number of rows; never from the rows.

    Examples
    --------
    >>> import numpy as np, pandas as pd, privstats as ps
    >>> data = pd.DataFrame({"x": np.linspace(0, 4, 10_001)})
    >>> fit = ps.dp_quantile("x", data, eps=2.0, q=[0.25, 0.5, 0.75], domain={"x": (0, 20)}, rng=1)
    >>> fit.params.round(1).to_list()
    [1.0, 2.0, 3.0]
    """
    request = asked("quantile", formula, OPTIONS["quantile"], options, q=q, eps=eps, mu=mu, delta=delta, domain=domain,
                    mech=mech, noise=noise, neighbors=neighbors, inference=inference, shares=shares)  # fmt: skip
    return run(request, data, ledger, rng, dry_run)


@door
def dp_mean(
    formula: str,
    data: pd.DataFrame,
    eps: float | None = None,
    *,
    mech: str = "auto",
    delta: float = 0.0,
    mu: float | None = None,
    domain: Domain | Mapping[str, Any] | None = None,
    noise: str | None = None,
    neighbors: str = "replace",
    inference: str = "sandwich",
    shares: Mapping[str, float] | None = None,
    ledger: Ledger | None = None,
    rng: Any = None,
    dry_run: bool = False,
    **options: Any,
) -> Results | Plan:
    """Release the mean of a column under differential privacy, with an interval.

    Parameters
    ----------
    formula, data, eps
        As for `dp_median`. Values beyond the declared bounds are clamped: it is a truncated mean.
    mech : {"auto", "laplace", "knorm", "gaussian", "duff"}
        Noise on sums: "laplace", "gaussian" (under `mu` or `delta`), or "knorm" in a norm of your choice. "duff" is the
        exponential mechanism of the distance to a data set with another mean; it has no intervals.
    delta, mu, domain, inference
        As for `dp_median`.
    noise : {"linf", "l1", "l2"}, optional
        Norm of "knorm". With several columns "linf" has less noise than "laplace".
    neighbors, shares, ledger, rng, dry_run
        As for `dp_lm`. A budget is shared by columns in equal parts; groups are disjoint, and each gets all of it
        under "add_remove", half of it under "replace", where a row may leave one group and enter another.
    **options
        ``unit=``, ``rows_per_unit=``, ``subset=``, ``bounds_share=`` as for `dp_lm`.

    Returns
    -------
    Results
        `params` by column, or by (column, group); ``facts["sigma"]``, the standard deviation of a single column.
        (`Plan` if `dry_run`.)

    Raises
    ------
    BudgetError, DomainError, FormulaError, PrivacyError
        From the arguments, the column names and the public number of rows; never from the rows.

    Examples
    --------
    >>> import numpy as np, pandas as pd, privstats as ps
    >>> data = pd.DataFrame({"x": np.linspace(0, 4, 10_001)})
    >>> fit = ps.dp_mean("x", data, eps=1.0, domain={"x": (0, 5)}, rng=1)
    >>> fit.params.round(2).to_dict()
    {'x': 2.0}
    """
    request = asked("mean", formula, OPTIONS["mean"], options, eps=eps, mu=mu, delta=delta, domain=domain,
                    mech=mech, noise=noise, neighbors=neighbors, inference=inference, shares=shares)  # fmt: skip
    return run(request, data, ledger, rng, dry_run)
