"""Comparison of privacy budgets by the expected widths of confidence intervals, before any budget is spent."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from privstats.errors import CHOICES, OptionError, listed, quote
from privstats.gate.sources import Unread
from privstats.privacy.drawing import BESIDE, COLORS, LINE_HEIGHT, entitle, literal, new_axes
from privstats.results.text import RULE, Column, TextTable, decimals, headed, labelled, number
from privstats.workflow.verbs import BY_NAME

BUDGETS = ("eps", "mu", "rho")
DODGE = 0.06  # distance between the markers of two terms in a plot; neighbouring budgets have the distance 1
MARKS = "osD^v*"  # markers of up to six terms; plots of more terms show, by default, median and range of the ratios


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Table of the expected widths of confidence intervals, by term of the model and privacy budget.

    Parameters
    ----------
    frame : DataFrame
        One row for each term and budget, with the columns term, budget (in words), method, std_error, width (of the
        95% interval), noise_share (share of the noise in the squared standard error), and ratio (width divided by the
        width without privacy). Numbers are NaN if no interval is expected.
    title, formula : str
        Heading, such as "Budgets for dp_lm", and the formula.
    rows : int
        Planned number of rows.
    """

    frame: pd.DataFrame
    title: str
    formula: str
    rows: int

    def plot(self, ax: Any = None, terms: str | Sequence[str] | None = None) -> Any:
        """Plot the ratio of interval widths with and without privacy against the budget.

        Each term has its own marker. If there are more than six terms and `terms` is not given, a marker shows the
        median of the terms' ratios, and a line shows the range of these ratios. The label of a budget includes the
        number of terms for which no interval is expected.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw in; by default the axes of a new figure.
        terms : str or list of str, optional
            Terms to show; by default all but the intercept.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        OptionError
            If `terms` contains a name that is not a term of the comparison.
        ImportError
            If matplotlib is not installed.
        """
        ratios = self._ratios(terms)
        many = terms is None and len(ratios) > len(MARKS)
        names = ["median", "their range"] if many else [textwrap.fill(term, BESIDE) for term in ratios.index]
        columns = 2 if max(map(len, names)) <= BESIDE // 2 else 1
        own = ax is None
        if own:
            lines = sum(name.count("\n") + 1 for name in names)
            ax = new_axes(6.4, 4.4 + LINE_HEIGHT * math.ceil(lines / columns))
        places = np.arange(len(ratios.columns))
        if many:
            ax.plot(places, ratios.median(), "o", color=COLORS[0], label=f"median of {len(ratios)} terms", zorder=3)
            ax.vlines(places, ratios.min(), ratios.max(), color=COLORS[1], linewidth=3, label="their range")
        else:
            for k, name in enumerate(names):
                beside = places + DODGE * (k - (len(names) - 1) / 2)  # side by side, so that all markers are visible
                ax.plot(beside, ratios.iloc[k], MARKS[k % len(MARKS)], color=f"C{k % 10}", label=literal(name))
        ax.axhline(1.0, color="0.5", linestyle=":")
        ax.set_xticks(places, [_at(budget, ratios[budget]) for budget in map(str, ratios)], rotation=30, ha="right")
        ax.set_xlim(-0.5, len(places) - 0.5)
        ax.set_ylabel("expected width / width without privacy")
        where = {"loc": "outside lower center", "ncols": columns} if own else {}
        (ax.figure if own else ax).legend(fontsize="small", **where)
        entitle(ax, f"{self.title}: {self.formula}", f"{self.rows:,} rows")
        return ax

    def _ratios(self, terms: str | Sequence[str] | None) -> pd.DataFrame:
        """Return the ratio of interval widths with and without privacy, by term (rows) and budget (columns).

        `terms` names the terms to return; the name of a factor stands for all its coefficients. By default, all
        terms but the intercept are returned, or the intercept if it is the only term.
        """
        frame = self.frame.drop_duplicates(["term", "budget"])
        ratios = frame.pivot(index="term", columns="budget", values="ratio")
        has = list(frame["term"].unique())
        if terms is None:
            wanted = [name for name in has if name.partition("[")[0] != "Intercept"] or has
        else:
            wanted = []
            for term in [terms] if isinstance(terms, str) else terms:
                found = [name for name in has if name == term or name.startswith(f"{term}[")]
                if not found:
                    known = f"the plan has no term {quote(term)}; it has {listed(has, CHOICES)}"
                    raise OptionError(f"{known}: write plot(terms=[{has[-1]!r}])")
                wanted += found
        return ratios.loc[list(dict.fromkeys(wanted)), list(frame["budget"].unique())]

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
        head = (
            *headed(self.title, self.formula),
            "No row was read and no budget was spent.",
            *labelled("Rows", f"{self.rows:,}"),
        )
        return "\n".join((*head, RULE, *table.as_text()))

    __repr__ = __str__


def _at(budget: str, ratios: pd.Series[float]) -> str:
    """Return the axis label of `budget` in a plot; if k > 0 terms have no expected interval, "(k not given)" is added.

    `ratios` has the width ratio of each term, which is NaN if no interval is expected.
    """
    missing = int(ratios.isna().sum())
    return f"{budget}\n({missing} not given)" if missing else budget


def budgets_compared(
    plan: Any, budgets: Mapping[str, float | Sequence[float] | None], assumptions: Mapping[str, Any]
) -> Comparison:
    """Return the expected widths of confidence intervals for each budget, with all other arguments as in `plan`.

    `budgets` has a number, several numbers or None for each of eps, mu and rho; the delta of `plan` is used only with
    eps. `assumptions` has the keyword arguments of ``plan.expected``.

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
        f"Budgets for dp_{plan.specification.verb}",
        plan.specification.model.formula,
        plan.rows,
    )


def _row(plan: Any, name: str, value: float, assumptions: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of a `Comparison` for one budget: `name` is eps, mu or rho, and `value` the size of the budget.

    The other arguments of the fit are taken from `plan`, but delta only if `name` is eps. `assumptions` has the
    keyword arguments of ``plan.expected``. The additional column `place` has the position of each term in the model,
    for sorting the rows of all budgets.
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
