"""Plans: what a function would ask and spend."""

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

NOT_HERE = ("data", "ledger", "rng", "dry_run")  # arguments of a fit that say nothing about its plan
NAMES = ("lm", "glm", "rq", "median", "quantile", "mean", "mode", "hist")

P = ParamSpec("P")
R = TypeVar("R")


def _bound_first(declaration: Callable[P, R]) -> Callable[P, R]:
    """Return the function whose wrong calls name the argument that was probably forgotten: the first one."""
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
    """Show what a fit would ask and spend, before any budget is spent.

    Parameters
    ----------
    verb : {"lm", "glm", "rq", "median", "quantile", "mean", "mode", "hist"}
        The function; its full name, such as "dp_lm", will do as well.
    formula : str
        As the function takes it.
    n : int or Protected
        Number of rows; of units, where `unit` is given. Where their number is private it is an assumption. Or protected
        data, which bring their number and their domain.
    eps : float, optional
        Budget: pure differential privacy, or (eps, delta) together with `delta`. Give one of `eps`, `mu` and `rho`.
    **options
        The other arguments of the function, `domain` among them, by its own names.

    Returns
    -------
    Plan
        Prints as tables of the questions with their shares, and of the standard errors to expect; `Plan.expected`,
        `Plan.budget_for` and `Plan.n_for` answer for other assumptions and for wanted widths.

    Raises
    ------
    OptionError, BudgetError, DomainError, FormulaError, PrivacyError
        As the function itself would.

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
