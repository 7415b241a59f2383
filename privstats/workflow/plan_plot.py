"""Plot of the plan of a fit: the share of each query of the data in the privacy budget."""

from __future__ import annotations

from typing import Any

import numpy as np

from privstats.gate.gate import Planned
from privstats.privacy.drawing import COLORS, HATCHES, entitle, new_axes
from privstats.results.header import shared
from privstats.workflow.plan_text import own_share

SHARED = "0.6"  # grey colour of queries that all branches (methods) have in common


def draw_shares(plan: Any, ax: Any = None) -> Any:
    """Plot each query's share of the privacy budget as a bar, in the order of queries, coloured by branch (method).

    An optional query has its own bar, and what it may spend is left out of the bar of the query that would otherwise
    spend it. Therefore the bars of all queries that a fit may ask add up to 100%.
    """
    names = [f"{p.label} (optional)" if p.within_share_of else p.label for p in plan.planned]
    shares = np.array([100 * own_share(p, plan) for p in plan.planned])
    branches = np.array([_branch(p, plan) for p in plan.planned])
    at = np.arange(len(names))
    ax = new_axes(7.0, 1.5 + 0.28 * len(names)) if ax is None else ax
    looks = zip((SHARED, *COLORS[1:]), HATCHES, strict=True)
    for branch, (color, hatch) in zip(("", *plan.branches), looks, strict=False):
        own = branches == branch
        words = f"if the fit chooses {plan.choice.branches.get(branch, branch)}" if branch else "in any case"
        ax.barh(at[own], shares[own], color=color, hatch=hatch, edgecolor="white", label=words)
    for place, share in zip(at, shares, strict=True):
        ax.annotate(f"{share:.2g}%", (share, place), (3, 0), textcoords="offset points", va="center", fontsize="small")
    ax.set_yticks(at, names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlim(0, 1.15 * shares.max())
    ax.set_xlabel(f"% of {shared(plan.accounted)}")
    spec = plan.specification
    entitle(ax, f"Plan of dp_{spec.verb}: {spec.model.formula}", f"shares of the budget: {plan.guarantee.budget}")
    if plan.branches:
        ax.legend(fontsize="small")
    return ax


def _branch(p: Planned, plan: Any) -> str:
    """Return the branch (method) to which a query belongs; an empty text if it belongs to no single branch."""
    hosts = {q.branch for q in plan.planned if q.label in p.within_share_of}
    return p.branch or (hosts.pop() if len(hosts) == 1 else None) or ""
