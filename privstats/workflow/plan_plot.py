"""Plot of the budget shares of a plan; matplotlib is imported only when needed."""

from __future__ import annotations

from typing import Any

from privstats.privacy.drawing import COLORS, HATCHES, entitle, new_axes
from privstats.results.header import shared
from privstats.workflow.plan_text import query_lines

SHARED = "0.6"  # grey colour of queries that all branches (methods) have in common


def draw_shares(plan: Any, ax: Any = None) -> Any:
    """Plot the budget shares of a plan's queries as bars, in the order of the printed plan, coloured by method.

    An optional query may spend a part of the share of another query; this part has its own bar and is not included in
    the bar of the other query. Therefore the bars of one branch (method), together with the bars that all branches
    have in common, add up to 100%.
    """
    lines = query_lines(plan)
    ax = new_axes(7.0, 1.5 + 0.28 * len(lines)) if ax is None else ax
    looks = zip((SHARED, *COLORS[1:]), HATCHES, strict=True)
    for branch, (color, hatch) in zip((None, *plan.branches), looks, strict=False):
        own = {at: line.percent for at, line in enumerate(lines) if line.branch == branch}
        words = f"if the fit chooses {plan.choice.branches.get(branch, branch)}" if branch else "in any case"
        ax.barh(list(own), list(own.values()), color=color, hatch=hatch, edgecolor="white", label=words)
    for at, line in enumerate(lines):
        place = (line.percent, at)
        ax.annotate(f"{line.percent}%", place, (3, 0), textcoords="offset points", va="center", fontsize="small")
    ax.set_yticks(range(len(lines)), [f"{line.name} (optional)" if line.optional else line.name for line in lines])
    ax.set_ylim(len(lines) - 0.5, -0.5)
    ax.set_xlim(0, 1.15 * max(line.percent for line in lines))
    ax.set_xlabel(f"% of {shared(plan.accounted)}")
    spec = plan.specification
    entitle(ax, f"Plan of dp_{spec.verb}: {spec.model.formula}", f"shares of the budget: {plan.guarantee.budget}")
    if plan.branches:
        ax.legend(fontsize="small")
    return ax
