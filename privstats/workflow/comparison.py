"""Comparison of privacy budgets by the expected widths of confidence intervals, before any budget is spent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from privstats.errors import OptionError, quote
from privstats.gate.sources import Unread
from privstats.privacy.drawing import entitle, new_axes
from privstats.results.text import RULE, Column, TextTable, decimals, headed, labelled, number
from privstats.workflow.verbs import BY_NAME

BUDGETS = ("eps", "mu", "rho")


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Table of the expected widths of confidence intervals, by term of the model and privacy budget.

    Parameters
    ----------
    frame : DataFrame
        One row for each term and budget, with the columns term, budget (in words), method, std_error, width (of the 95%
        interval), noise_share (share of the noise in the squared standard error), and ratio (of widths with and without
        privacy). Numbers are NaN if no interval is expected.
    head : tuple of str
        Lines above the table: function, formula, and number of rows.
    """

    frame: pd.DataFrame
    head: tuple[str, ...]

    def plot(self, ax: Any = None) -> Any:
        """Plot the ratio of widths with and without privacy against the budget, with a marker for each term.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw in; by default the axes of a new figure.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        ax = new_axes(6.4, 4.8) if ax is None else ax
        budgets = list(dict.fromkeys(self.frame["budget"]))
        for mark, (term, rows) in zip("osD^v*" * len(self.frame), self.frame.groupby("term", sort=False), strict=False):
            at = [budgets.index(budget) for budget in rows["budget"]]
            ax.plot(at, rows["ratio"].to_numpy(), marker=mark, linestyle="none", label=str(term))
        ax.axhline(1.0, color="0.5", linestyle=":")
        ax.set_xticks(range(len(budgets)), budgets, rotation=30, ha="right")
        ax.set_xlim(-0.5, len(budgets) - 0.5)
        entitle(ax, " ".join(self.head[: self.head.index("No row was read and no budget was spent.")]))
        ax.set_ylabel("expected width / width without privacy")
        ax.legend()
        return ax

    def __str__(self) -> str:
        frame = self.frame
        spread = [decimals(value, value) for value in frame["std_error"]]
        table = TextTable(
            ("term", "budget", "method"),
            tuple(
                zip(frame["term"].where(~frame["term"].duplicated(), ""), frame["budget"], frame["method"], strict=True)
            ),
            (
                Column("95% width", tuple(map(number, frame["width"], spread)), 12),
                Column("noise", tuple("" if math.isnan(x) else f"{x:.0%}" for x in frame["noise_share"]), 8),
                Column("/ no privacy", tuple(number(ratio, 2) for ratio in frame["ratio"]), 14),
            ),
            tuple((0, "not given") if math.isnan(width) else None for width in frame["width"]),
        )
        return "\n".join((*self.head, RULE, *table.as_text()))

    __repr__ = __str__


def budgets_compared(
    plan: Any, budgets: Mapping[str, float | Sequence[float] | None], assumptions: Mapping[str, Any]
) -> Comparison:
    """Return the expected widths of confidence intervals for each budget, with all other arguments as in `plan`.

    Raises
    ------
    OptionError
        If no budget is given, or a budget is not a number.
    """
    asked = [
        (name, value)
        for name, values in budgets.items()
        if values is not None
        for value in ([values] if isinstance(values, int | float) else values)
    ]
    if not asked:
        raise OptionError("no budget is given to compare; write plan.compare(eps=[0.5, 1, 2], mu=[0.5, 1])")
    return Comparison(
        pd.concat([_row(plan, name, value, assumptions) for name, value in asked])
        .sort_values("place", kind="stable", ignore_index=True)
        .drop(columns="place"),
        (
            *headed(f"Budgets for dp_{plan.specification.verb}", plan.specification.model.formula),
            "No row was read and no budget was spent.",
            *labelled("Rows", f"{plan.rows:,}"),
        ),
    )


def _row(plan: Any, name: str, value: float, assumptions: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of a `Comparison` for one budget: `name` is eps, mu or rho, and `value` the size of the budget.

    The additional column `place` has the position of each term in the model, for sorting the rows of all budgets.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise OptionError(f"{name} is {quote(value)}; give a positive number, such as {name}=1")
    spec = plan.specification
    given = {**spec.written, **dict.fromkeys(BUDGETS), name: value}
    if name != "eps":
        given["delta"] = BY_NAME[spec.verb].defaults["delta"]
    other = BY_NAME[spec.verb].of(**given, data=Unread(plan.rows), dry_run=True)
    expected = other.expected(**assumptions)
    branch = expected.attrs["branch"] if other.branches else None
    method = other.choice.mech if branch is None else other.choice.branches.get(branch, branch)
    terms = [term if isinstance(term, str) else ", ".join(map(str, term)) for term in expected.index]
    about = {"term": terms, "budget": other.guarantee.budget, "method": method, "place": range(len(terms))}
    return expected.reset_index(drop=True).assign(**about)[[*about, "std_error", "width", "noise_share", "ratio"]]
