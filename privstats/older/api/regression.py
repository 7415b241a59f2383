"""Regressions: one verb a model, one call each."""

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
    "lm": (*COMMON, "weights", "theta_bound", "split", "ridge", "cov_type", "loss"),
    "rq": (*COMMON, "weights", "theta_bound"),
}


@door
def dp_lm(
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
    """Fit a linear regression under differential privacy.

    Parameters
    ----------
    formula : str
        As in statsmodels: ``"y ~ x1 + np.log(x2) + C(region)"``. Every expression must treat rows singly.
    data : DataFrame
        The private rows. Do not filter it first: its length counts as public under ``neighbors="replace"``.
    eps : float, optional
        Pure differential privacy budget; with `delta`, that of (eps, delta)-DP.
    mech : {"auto", "newton", "suffstats", "kng", "objpert", "expmech"}
        Algorithm. "newton" follows noisy clipped scores, and needs `mu` or `delta`; its intervals are nearly those
        without privacy. "suffstats" releases the noisy matrix of second moments; "kng" (K-norm gradient), "objpert"
        (extended objective perturbation) and "expmech" (exponential mechanism) choose the coefficients in ``|theta|_1
        <= theta_bound`` and buy what intervals need besides. "auto" is "newton" under `mu` or `delta`; under pure eps
        "suffstats", or "objpert" where no intervals are wanted and ``theta_bound <= 1.5`` is declared.
    delta : float
        Goes with `eps`.
    mu : float, optional
        Gaussian differential privacy budget, in place of `eps`.
    domain : Domain or dict
        Bounds ``(low, high)`` or levels ``["a", "b"]`` of each column the formula reads, from public
        knowledge. Values outside are clamped; rows with an undeclared level count as missing.
    noise : {"matrixt", "hull", "linf", "l1", "l2", "gaussian"}, optional
        Noise law of the moments; by default "matrixt" under pure eps, "gaussian" under mu or delta. With one or two
        predictors "hull" gives shorter intervals (`benchmarks/choice.py`). For "kng" and "objpert" the norm of the
        score: "linf" (default), "l1" or "l2".
    neighbors : {"replace", "add_remove"}
        Which data sets the promise makes hard to tell apart.
    inference : {"sandwich", "none"}
        Whether intervals are wanted.
    shares : dict, optional
        Relative shares of the budget by question, in place of the algorithm's own; `plan` lists them.
    ledger : Ledger, optional
        A budget that several fits share; charged before any row is read.
    rng : None, int or numpy Generator
        None draws noise from the operating system's randomness. A seed is for tests and vignettes.
    dry_run : bool
        Return the plan in place of the fit; no row is read and nothing charged. Where the number of rows is
        private the plan knows nothing of it; `plan` takes one you assume.
    **options
        ``unit="person_id"``: protect all rows of a person, of which the first ``rows_per_unit`` (1) count.
        ``subset="age >= 18 & region == 'N'"``: rows outside contribute nothing, and nobody learns how many.
        ``bounds_share=0.1``: share of the budget that buys the range of numeric factors without declared bounds.
        ``weights="w"``: weighted least squares; the weights need public bounds, nowhere negative.
        ``cov_type="HC"``: intervals for errors whose variance differs between rows; buys a second matrix. The default
        of "newton", which has "nonrobust" as well.
        ``loss="huber"``: robust regression, of errors with outliers; under `mu` or `delta`. Response and predictors may
        then be declared by ``Scale(center, scale)`` in place of bounds.
        ``ridge=10.0`` or ``"adaptive"``: penalise the reported coefficients (of scaled columns); intervals and tests
        are those of the fit without penalty.
        ``theta_bound=2.0``: bound of ``|theta|_1`` for mechanisms that need one, in response half-ranges per column
        scaled to [-1, 1]. ``split=0.85``: share of objective perturbation's budget for its linear term.

    Returns
    -------
    Results
        Coefficients, standard errors and intervals, privacy noise included. (`Plan` if `dry_run`.)

    Raises
    ------
    BudgetError, DomainError, FormulaError, PrivacyError
        From the arguments, the column names and the public number of rows; never from the rows.

    Notes
    -----
    Moments and objective perturbation follow Awan and Slavkovic (2021), with tight sensitivities
    (`moments.Moments`), the K-norm gradient Reimherr and Awan (2019); intervals simulate the noise law
    together with sampling error. Where the expected error exceeds what coefficients can be, those reported are
    shrunk toward zero, and the summary says "insufficient budget".

    Examples
    --------
    >>> import numpy as np, pandas as pd, privstats as ps
    >>> x = np.linspace(-1, 1, 20_000)
    >>> data = pd.DataFrame({"x": x, "y": 2 + 3 * x + np.sin(1e5 * x)})
    >>> fit = ps.dp_lm("y ~ x", data, eps=1.0, domain={"x": (-1, 1), "y": (-5, 10)}, rng=1)
    >>> fit.params.round(1).to_dict()
    {'Intercept': 2.0, 'x': 3.0}
    """
    request = asked("lm", formula, OPTIONS["lm"], options, eps=eps, mu=mu, delta=delta, domain=domain, mech=mech,
                    noise=noise, neighbors=neighbors, inference=inference, shares=shares)  # fmt: skip
    return run(request, data, ledger, rng, dry_run)


@door
def dp_rq(
    formula: str,
    data: pd.DataFrame,
    eps: float | None = None,
    *,
    tau: float | Sequence[float] = 0.5,
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
    """Fit a quantile regression under differential privacy.

    Parameters
    ----------
    formula, data, eps
        As for `dp_lm`.
    tau : float or list of float
        Order of the quantile, in (0, 1); several share the budget, outer ones have more, and give one table.
    mech : {"auto", "newton", "kng", "expmech"}
        "newton" (the default under `mu`) follows noisy scores, and needs `mu` or `delta`; at 1000 rows and mu = 1 its
        intervals are hardly longer than those without privacy, and a median's at mu = 0.5. "kng" (the default under
        eps, with or without `delta`) is the K-norm gradient mechanism; "expmech", the exponential mechanism, is there
        to compare: its error is of the order of sampling error, and it has no intervals.
    delta, mu, domain
        As for `dp_lm`. Under "newton" a column may be declared by ``Scale(center, scale)`` in place of bounds.
    noise : {"hull", "linf", "l1", "l2", "gaussian"}, optional
        Norm in which "kng" compares scores: "hull" (the default) is the smallest that one row's change allows. That of
        "newton" is "gaussian".
    neighbors, inference, shares, ledger, rng, dry_run
        As for `dp_lm`.
    **options
        ``theta_bound=2.0``: bound of ``|theta|_1`` in response half-ranges per column scaled to [-1, 1]; "newton" needs
        none. ``unit=``, ``rows_per_unit=``, ``subset=``, ``weights=``, ``bounds_share=`` as for `dp_lm`.

    Returns
    -------
    Results
        As of `dp_lm`, for the conditional quantile; of several orders `params` is by (term, tau), and `predict` has a
        column for each, which never cross. (`Plan` if `dry_run`.)

    Raises
    ------
    BudgetError, DomainError, FormulaError, PrivacyError
        From the arguments, the column names and the public number of rows; never from the rows.

    Notes
    -----
    Reimherr and Awan (2019), with the sensitivity corrected for orders above a half (`check_losses`). Up to
    three coefficients, and four up to 10,000 public rows, are drawn exactly; more by a Markov chain, which a note says.
    Intervals are sandwiches with a private kernel estimate of the density at the quantile. They are NaN, with a note,
    where that drowns in its noise, and where rows and budget are so few that chance may have decided the coefficients.
    "newton" starts from noisy steps of a robust regression, reads off a noisy histogram where its residuals have the
    order, goes on with scores of that order, and corrects the mean of the last iterates once (`loss="huber"` of
    `dp_lm`). Nothing is smoothed but the curvature; very long rows are shortened.

    Examples
    --------
    >>> import numpy as np, pandas as pd, privstats as ps
    >>> x = np.linspace(-1, 1, 20_000)
    >>> data = pd.DataFrame({"x": x, "y": 2 + 3 * x + np.sin(1e5 * x)})
    >>> fit = ps.dp_rq("y ~ x", data, eps=1.0, tau=0.5, domain={"x": (-1, 1), "y": (-5, 10)}, rng=1)
    >>> fit.params.round(1).to_dict()
    {'Intercept': 2.0, 'x': 3.0}
    """
    request = asked("rq", formula, OPTIONS["rq"], options, q=tau, eps=eps, mu=mu, delta=delta, domain=domain,
                    mech=mech, noise=noise, neighbors=neighbors, inference=inference, shares=shares)  # fmt: skip
    return run(request, data, ledger, rng, dry_run)
