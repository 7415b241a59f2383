"""Plans: what a verb would ask and spend."""

from __future__ import annotations

from typing import Any

from privstats.boundary import door
from privstats.errors import PrivacyError, quote
from privstats.older.api import counts, glm, location, regression
from privstats.older.api.common import asked
from privstats.older.workflow.plan import Plan, make_plan

EVERYWHERE = {"mu", "delta", "domain", "mech", "noise", "neighbors", "inference", "shares", "family"}
OPTIONS = {**regression.OPTIONS, **glm.OPTIONS, **location.OPTIONS, **counts.OPTIONS}


@door
def plan(verb: str, formula: str, n: int, eps: float | None = None, **options: Any) -> Plan:
    """Show what a fit would ask and spend, before any budget is spent.

    Parameters
    ----------
    verb : {"lm", "glm", "rq", "median", "quantile", "mean", "mode", "hist"}
        The verb without its "dp_" prefix.
    formula : str
        As for the verb.
    n : int
        The public number of rows.
    eps : float, optional
        As for the verb.
    **options
        The verb's other arguments, `domain` among them.

    Returns
    -------
    Plan
        Prints as tables of questions, mechanisms, shares and costs, and of what to expect; `Plan.expected`,
        `Plan.eps_for` and `Plan.n_for` answer for other assumptions and targets.

    Raises
    ------
    BudgetError, DomainError, FormulaError, PrivacyError
        As the verb would.

    Examples
    --------
    >>> import privstats as ps
    >>> print(ps.plan("lm", "y ~ x", 1000, eps=0.5, domain={"x": (-1, 1), "y": (0, 10)}))
    Formula       y ~ x
    Rows          1000
    Coefficients  Intercept, x
    Algorithm     suffstats, noise matrixt
    Promise       eps = 0.5 (replace one row)
    <BLANKLINE>
    question    kind    mechanism    share    cost
    ----------  ------  -----------  -------  ---------
    moments     gram    matrixt      100.0%   eps = 0.5
    <BLANKLINE>
    expected      std err    95 % width    privacy
    ----------  ---------  ------------  ---------
    Intercept      0.0967         0.388        83%
    x               0.274          1.07        94%
    assumed: predictors uniform on the domain, residual scale an eighth of the response's range
    """
    if verb not in OPTIONS:
        raise PrivacyError(f"verb={quote(verb)} is not one of {', '.join(map(repr, OPTIONS))}")
    named = {name: options.pop(name) for name in EVERYWHERE & options.keys()}
    if verb == "rq" and "tau" in options:
        named["q"] = options.pop("tau")
    if verb == "glm":
        named.setdefault("family", "binomial")
    return make_plan(asked(verb, formula, OPTIONS[verb], options, eps=eps, **named), n)
