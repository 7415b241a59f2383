"""How often values occur: modes and histograms, of a column or by group."""

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

OPTIONS = {"mode": (*COMMON, "grid", "bins"), "hist": (*COMMON, "bins", "density")}


@door
def dp_mode(
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
    """Release the most frequent value of a column under differential privacy.

    Parameters
    ----------
    formula, data, eps
        As for `dp_median`, of one column.
    mech : {"auto", "permute_and_flip", "expmech", "duff"}
        "permute_and_flip" (the default) errs least; the exponential mechanism on counts; that of the paper on
        dataset distances, which loses a factor of two.
    delta, mu, domain
        As for `dp_median`; the candidates of a column with declared levels are its levels.
    noise, inference
        There is nothing to choose: no interval is known to be valid for a mode.
    neighbors, shares, ledger, rng, dry_run
        As for `dp_lm`. A budget is shared by columns in equal parts; groups are disjoint, and each gets all of it
        under "add_remove", half of it under "replace", where a row may leave one group and enter another.
    **options
        ``grid=1``: the step between the possible values of a numeric column, which are its candidates; or ``bins=``, a
        number of bins or their edges, of which the middle is reported.
        ``unit=``, ``rows_per_unit=``, ``subset=``, ``bounds_share=`` as for `dp_lm`.

    Returns
    -------
    Results
        `params`: a level, or a number. (`Plan` if `dry_run`.)

    Raises
    ------
    BudgetError, DomainError, FormulaError, PrivacyError
        From the arguments, the column names and the public number of rows; never from the rows.

    Examples
    --------
    >>> import pandas as pd, privstats as ps
    >>> data = pd.DataFrame({"g": ["a"] * 30 + ["b"] * 90 + ["c"] * 40})
    >>> ps.dp_mode("g", data, eps=1.0, domain={"g": ["a", "b", "c"]}, rng=1).params.to_dict()
    {'g': 'b'}
    """
    request = asked("mode", formula, OPTIONS["mode"], options, eps=eps, mu=mu, delta=delta, domain=domain,
                    mech=mech, noise=noise, neighbors=neighbors, inference=inference, shares=shares)  # fmt: skip
    return run(request, data, ledger, rng, dry_run)


@door
def dp_hist(
    formula: str,
    data: pd.DataFrame,
    eps: float | None = None,
    *,
    bins: int | Sequence[float] | None = None,
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
    """Release a histogram of a column under differential privacy.

    Parameters
    ----------
    formula, data, eps
        As for `dp_median`, of one column.
    bins : int, list of float or None
        A number of equal bins, or edges in ascending order, which must cover the domain; None for a column with levels.
    mech : {"auto", "laplace", "knorm", "gaussian"}
        Noise on counts.
    delta, mu, domain, inference
        As for `dp_median`.
    noise : {"linf", "l1", "l2"}, optional
        Norm of "knorm".
    neighbors, shares, ledger, rng, dry_run
        As for `dp_lm`. A budget is shared by columns in equal parts; groups are disjoint, and each gets all of it
        under "add_remove", half of it under "replace", where a row may leave one group and enter another.
    **options
        ``density=True``: densities in place of counts.
        ``unit=``, ``rows_per_unit=``, ``subset=``, ``bounds_share=`` as for `dp_lm`.

    Returns
    -------
    Results
        `params` by (column, bin) or (column, "group, bin"). Counts are noisy counts of these rows, and may be
        negative; their intervals know privacy noise alone. Densities are those of the population: their intervals know
        sampling error too. (`Plan` if `dry_run`.)

    Raises
    ------
    BudgetError, DomainError, FormulaError, PrivacyError
        From the arguments, the column names and the public number of rows; never from the rows.

    Examples
    --------
    >>> import numpy as np, pandas as pd, privstats as ps
    >>> data = pd.DataFrame({"x": np.linspace(0, 4, 10_000)})
    >>> fit = ps.dp_hist("x", data, eps=1.0, bins=4, domain={"x": (0, 4)}, rng=1)
    >>> fit.params.round(-2).to_list()
    [2500.0, 2500.0, 2500.0, 2500.0]
    """
    request = asked("hist", formula, OPTIONS["hist"], options, bins=bins, eps=eps, mu=mu, delta=delta, domain=domain,
                    mech=mech, noise=noise, neighbors=neighbors, inference=inference, shares=shares)  # fmt: skip
    return run(request, data, ledger, rng, dry_run)
