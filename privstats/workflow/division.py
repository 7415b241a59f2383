"""Division of a privacy budget among the queries of a plan, and the resulting charge to the ledger.

This file is trusted code: privacy depends on it. Each query gets the part `promise.part(share)` of the budget. The
parts of a plan add up to the budget. Depending on the kind of budget, eps and delta, mu^2, or rho are added up; by
adaptive composition, the sum bounds the total cost even if queries depend on earlier releases
(`privstats.privacy.promise`). A part of rho is charged as mu if all mechanisms that spend it add normal noise, and as
eps if a single eps-DP mechanism spends it (`ZeroCDP.kept_by`).

An estimator may choose once between branches (alternative algorithms), depending on the releases of queries that all
branches have in common. The common queries then have fractions of the budget, and the queries of each branch divide the
remaining budget. The remaining budget is one entry of the charge, since exactly one branch is taken.

An optional query spends a part of the budget of another query, its host. If the optional query is asked, the host
spends only the remainder. The host's budget may thus depend on releases, which fully adaptive composition allows (for
mu^2: Smith and Thakurta 2022; for rho: Feldman and Zrnic 2021). An optional query that is asked before the choice of a
branch may have one host in each of several branches. Only one of these branches is taken, and its host spends the
remainder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privstats.errors import BudgetError, OptionError, quote
from privstats.gate.rehearsal import Asked
from privstats.privacy.promise import Promise, is_number

BOUNDS = "bounds"  # name of the queries about undeclared bounds of columns, which precede all other queries (stage 0)


@dataclass(frozen=True)
class Division:
    """The privacy budget of each query, by label, and the charge to the ledger.

    Parameters
    ----------
    promises : mapping of str to Promise
        Privacy guarantee (budget) of each query, by label.
    charge : tuple of (str, Promise)
        Entries of the ledger, each with a label and a privacy guarantee. A query that belongs to no branch
        (method) has an entry with its own label, unless it is optional. All branches together have one entry, labelled
        with their names, such as "suffstats or newton".
    fractions : mapping of str to float
        Fraction of the whole budget, by label of the query. The queries of each branch divide the budget that the
        queries before the choice of a branch leave over. The fraction of an optional query is a part of another query's
        fraction.
    """

    promises: Mapping[str, Promise]
    charge: tuple[tuple[str, Promise], ...]
    fractions: Mapping[str, float]


def divided(
    asked: Sequence[Asked],
    whole: Promise,
    own: Mapping[str, float],
    given: Mapping[str, float] | None = None,
    bounds_share: float = 0.1,
) -> Division:
    """Divide the privacy budget `whole` of a plan among the plan's queries.

    Parameters
    ----------
    asked : sequence of Asked
        All queries of all branches (methods); queries before the choice of a branch have the branch None.
    whole : Promise
        Privacy budget of the plan.
    own : mapping of str to float
        Default shares of the estimator, by name or label of the query.
    given : mapping of str to float, optional
        Shares that the user gave; they replace the default shares.
    bounds_share : float
        Share of the budget for estimates of undeclared bounds (stage 0), if there are any; all other queries divide the
        remaining budget.

    Raises
    ------
    OptionError
        If a share is not positive, if no query has the name of a share, if the queries before the choice of a branch
        spend the whole budget, or if optional queries spend the whole share of a host.
    """
    given = checked(given)
    known = {name: None for a in asked for name in (a.name, a.label) if a.name != BOUNDS}
    for name in given:
        if name not in known:
            raise OptionError(f"no question of this plan is called {quote(name)}; shares= knows {', '.join(known)}")
    share = {a.label: _share(a, asked, own, given) for a in asked if a.name != BOUNDS}
    first = [a.label for a in asked if a.name == BOUNDS]
    left = 1.0 - (fraction(bounds_share) if first else 0.0)
    prefix, branches = _by_branch(asked)
    spent = math.fsum(share[label] for label in prefix)
    if branches and not spent < 1:
        raise OptionError(
            f"the shares of {', '.join(prefix)} are {spent:g} of the whole; make their sum less than 1, since "
            f"{' or '.join(branches)} needs the rest"
        )
    fractions = {label: (1.0 - left) / len(first) for label in first}
    fractions |= {label: left * share[label] / (1.0 if branches else spent) for label in prefix}
    rest = left * (1 - spent)
    for labels in branches.values():
        together = math.fsum(share[label] for label in labels)
        fractions |= {label: rest * share[label] / together for label in labels}
    optional = [a for a in asked if a.optional]
    fractions |= {a.label: fractions[a.optional[0]] * _part(a.label, share[a.label]) for a in optional}
    for host in dict.fromkeys(label for a in optional for label in a.optional):
        inside = {a.label: fractions[a.label] / fractions[host] for a in optional if host in a.optional}
        if not math.fsum(inside.values()) < 1:
            raise OptionError(
                f"the shares of {', '.join(inside)} are parts of the share of '{host}' and together "
                f"{math.fsum(inside.values()):g} of it; make their sum less than 1"
            )
    promises = {label: whole.part(part) for label, part in fractions.items()}
    spend = {label: [a.mechanism for a in asked if label in (a.label, *a.optional)] for label in (*first, *prefix)}
    charge = {label: promises[label].kept_by(*mechanisms) for label, mechanisms in spend.items()}
    if branches:
        charge[" or ".join(branches)] = whole.part(rest).kept_by(*(a.mechanism for a in asked))
    return Division(promises, tuple(charge.items()), fractions)


def checked(shares: Mapping[str, float] | None) -> dict[str, float]:
    """Return the shares that a user gave, as numbers, after a check.

    Raises
    ------
    OptionError
        If a share is not a positive number. Such a share could switch noise off or leave a query without budget.
    """
    if shares is None:
        return {}
    if not isinstance(shares, Mapping):
        raise OptionError(f"shares is {quote(shares)}; write a dict such as shares={{'score': 0.5}}")
    for name, share in shares.items():
        if not isinstance(name, str) or not is_number(share) or not 0 < share < math.inf:
            raise OptionError(f"the share of {quote(name)} is {quote(share)}; give a positive number, such as 0.5")
    return {name: float(share) for name, share in shares.items()}


def fraction(share: Any) -> float:
    """Return the share of the budget for private estimates of bounds (stage 0 of the fit), after a check.

    Raises
    ------
    BudgetError
        If the share does not lie between 0 and 1.
    """
    if not is_number(share) or not 0 < share < 1:
        raise BudgetError(f"bounds_share is {quote(share)}; give a number between 0 and 1, such as 0.1")
    return float(share)


def _share(a: Asked, asked: Sequence[Asked], own: Mapping[str, float], given: Mapping[str, float]) -> float:
    """Return the budget share of the query `a`, from the user's shares `given` or else the default shares `own`.

    A share for the label of the query is returned unchanged. A share for its name is divided equally among all queries
    `asked` that have this name, belong to the same branch (method), and have no share for their label.
    """
    if a.optional:  # a user's share of a query, such as "scales", does not apply to the optional query "scales again"
        given = given if a.label in given or a.label not in own else {}
    for shares in (given, own):
        namesakes = _namesakes(a, asked)
        if a.label in shares and (a.label != a.name or len(namesakes) == 1):
            return _positive(a.label, shares[a.label])
        if a.name in shares:
            several = sum(other.label not in shares or other.label == a.name for other in namesakes)
            return _positive(a.name, shares[a.name]) / several
    raise OptionError(f"the question '{a.label}' has no share; give one, as in shares={{'{a.name}': 0.1}}")


def _namesakes(a: Asked, asked: Sequence[Asked]) -> list[Asked]:
    """Return `a` and the other queries with the same name, branch (alternative method) and hosts as the query `a`.

    The hosts of an optional query are the queries from whose budgets its own budget is taken. A query that is not
    optional has no hosts.
    """
    return [other for other in asked if (other.name, other.branch, other.optional) == (a.name, a.branch, a.optional)]


def _positive(name: str, share: float) -> float:
    if not 0 < share < math.inf:
        raise OptionError(f"the share of '{name}' is {share:g}; give a positive number, such as 0.5")
    return float(share)


def _part(label: str, share: float) -> float:
    if not share < 1:
        raise OptionError(f"the share of '{label}' is a part of another question's; give a number below 1")
    return share


def _by_branch(asked: Sequence[Asked]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the labels of the queries before the choice of a branch (method), and of the later queries by branch.

    Queries about undeclared bounds and optional queries are left out.
    """
    branches: dict[str | None, list[str]] = {None: []}
    for a in asked:
        if a.name != BOUNDS and not a.optional:
            branches.setdefault(a.branch, []).append(a.label)
        elif a.branch is not None:
            branches.setdefault(a.branch, [])
    prefix = branches.pop(None)
    return prefix, {branch: labels for branch, labels in branches.items() if branch is not None}
