"""Generalised linear models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from privstats.boundary import door
from privstats.older.api.common import COMMON, asked, run
from privstats.older.formula.domain import Domain
from privstats.older.privacy.ledger import Ledger
from privstats.older.results.results import Results
from privstats.older.workflow.plan import Plan

OPTIONS = {"glm": (*COMMON, "link", "offset", "weights", "theta_bound", "split", "cov_type", "margins")}


@door
def dp_glm(
    formula: str,
    data: pd.DataFrame,
    eps: float | None = None,
    *,
    family: Any = "binomial",
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
    """Fit a generalised linear model under differential privacy.

    Parameters
    ----------
    formula, data, eps
        As for `dp_lm`. A binomial response is 0 or 1, a truth value, or one of two declared levels, of which the
        second counts as 1; a Poisson or gamma response is not negative and has a declared largest value.
    family : {"binomial", "poisson", "gamma", "gaussian"} or statsmodels family
        Law of the response. Links: logit (the usual one) and probit, log, log, identity. "gaussian" is `dp_lm`.
    mech : {"auto", "objpert", "newton"}
        Algorithm. "objpert" (extended objective perturbation; the default under pure eps) minimises a randomly tilted
        likelihood. "newton" (the default under `mu` or `delta`) follows noisy scores of shortened rows and corrects
        their mean by one step.
    delta, mu, domain
        As for `dp_lm`. Under "newton" a predictor may be declared by ``Scale(center, scale)`` in place of bounds.
    noise : {"linf", "l1", "l2", "gaussian"}, optional
        For "objpert" the norm of the score (default "linf").
    neighbors, inference, shares, ledger, rng, dry_run
        As for `dp_lm`.
    **options
        ``link="probit"``. ``offset="np.log(years)"``: an expression with public bounds that is added to the linear
        predictor. ``margins=True``: buy average marginal effects as well (`Results.get_margeff`). ``theta_bound=``:
        bound of ``|theta|_1`` per column scaled to [-1, 1]; families other than the binomial with logit link need it
        under pure eps. ``split=0.96``: share of objective perturbation's budget for its linear term.
        ``cov_type="HC"`` or ``"nonrobust"``. ``unit=``, ``rows_per_unit=``, ``subset=``, ``weights=``,
        ``bounds_share=`` as for `dp_lm`.

    Returns
    -------
    Results
        As of `dp_lm`; `Results.predict` returns means, or with ``which="linear"`` linear predictors. (`Plan` if
        `dry_run`.)

    Raises
    ------
    BudgetError, DomainError, FormulaError, PrivacyError
        From the arguments, the column names and the public number of rows; never from the rows.

    Notes
    -----
    Objective perturbation follows Kifer, Smith and Thakurta (2012) and Awan and Slavkovic (2021, section 5); noisy
    optimisation Avella-Medina, Bradshaw and Loh (2023).

    Examples
    --------
    >>> import numpy as np, pandas as pd, privstats as ps
    >>> x = np.linspace(-2, 2, 20_000)
    >>> y = np.arange(20_000) * 0.618 % 1 < 1 / (1 + np.exp(-x))
    >>> fit = ps.dp_glm("y ~ x", pd.DataFrame({"x": x, "y": y}), eps=2.0, domain={"x": (-2, 2), "y": bool}, rng=1)
    >>> fit.params.round(1).to_dict()
    {'Intercept': 0.0, 'x': 1.0}
    """
    request = asked("glm", formula, OPTIONS["glm"], options, family=family, eps=eps, mu=mu, delta=delta,
                    domain=domain, mech=mech, noise=noise, neighbors=neighbors, inference=inference,
                    shares=shares)  # fmt: skip
    return run(request, data, ledger, rng, dry_run)
