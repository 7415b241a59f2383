"""The function `plan`, which lists all queries of a fit with their budgets, without reading data."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from privstats.errors import OptionError, quote
from privstats.gate.sources import Unread
from privstats.workflow.call import VERBS, bound
from privstats.workflow.plan import Plan
from privstats.workflow.protected import Protected

NOT_HERE = ("data", "ledger", "rng", "dry_run")  # arguments of a fit that have no influence on its plan
NAMES = ("lm", "glm", "rq", "median", "quantile", "mean", "mode", "hist")

P = ParamSpec("P")
R = TypeVar("R")


def _bound_first(declaration: Callable[P, R]) -> Callable[P, R]:
    """Wrap the function `plan`: a call without a valid first argument raises an error that asks for this argument."""
    signature = inspect.signature(declaration)

    @functools.wraps(declaration)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        problem = bound(signature, "plan", args, keywords)
        if isinstance(problem, str):
            first = args[0] if args else keywords.get("verb")
            known = isinstance(first, str) and first.removeprefix("dp_") in NAMES
            raise TypeError(problem if known else FIRST)
        return declaration(*args, **keywords)

    return call


FIRST = 'plan needs the function first; write ps.plan("lm", "y ~ x", n=2000, eps=1, domain=...)'


@_bound_first
def plan(verb: str, formula: str, n: int | Protected, eps: float | None = None, **options: Any) -> Plan:
    """Return the plan of a fit: its queries, their budgets and the expected intervals; no budget is spent.

    Parameters
    ----------
    verb : {"lm", "glm", "rq", "median", "quantile", "mean", "mode", "hist"}
        Short name of the function to be planned; the full name, such as "dp_lm", is also accepted.
    formula : str
        Formula of the fit.
    n : int or Protected
        Number of rows, or number of privacy units if `unit` is given. If this number is private, `n` is an assumption.
        A `Protected` object is also accepted; the number and the domain are then taken from this object.
    eps : float, optional
        Budget: pure differential privacy, or (eps, delta) together with `delta`. Give one of `eps`, `mu` and `rho`.
    **options
        The other arguments of the function, including `domain`, by name.

    Returns
    -------
    Plan
        A plan prints as two tables: the expected standard errors, and the queries with their shares of the budget.
        `Plan.expected` gives forecasts under other assumptions; `Plan.budget_for` and `Plan.n_for` return the budget
        and the number of rows for a requested width of the intervals.

    Raises
    ------
    OptionError, BudgetError, DomainError, FormulaError, PrivacyError
        If a call of the planned function with these arguments would raise the same error.

    Examples
    --------
    >>> from privstats.api import plan
    >>> domain = {"x": (-1, 1), "y": (0, 10)}
    >>> planned = plan("lm", "y ~ x", 1000, eps=0.5, mech="suffstats", domain=domain)
    >>> planned.guarantee
    PureDP(eps=0.5)
    >>> planned.n_for(width=0.2, term="x") > 1000
    True
    """
    name = verb.removeprefix("dp_") if isinstance(verb, str) else verb
    if not isinstance(name, str) or "~" in name:
        raise TypeError(FIRST)
    if name not in NAMES:
        raise OptionError(f"verb is {quote(verb)}; choose among {', '.join(map(repr, NAMES))}")
    for option in NOT_HERE:
        if option in options:
            raise TypeError(f"plan() got an unexpected keyword argument '{option}'; it reads and charges nothing")
    data = n if isinstance(n, Protected) else Unread(n)
    outcome: Plan = VERBS[name](formula, data, eps, dry_run=True, **options)
    return outcome
