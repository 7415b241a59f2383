"""Differentially private tables and plots of residuals: their histogram, and their mean and spread by fitted value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from privstats.errors import OptionError
from privstats.privacy.drawing import in_two_lines, literal
from privstats.privacy.promise import Promise
from privstats.results.facts import FloatArray
from privstats.results.header import in_short, not_private
from privstats.results.hypotheses import estimates, level
from privstats.results.plots import Panel, new_figure, panel_rows
from privstats.results.results import Results
from privstats.results.text import (
    BOTH_INCLUDED,
    NAME,
    RULE,
    TextTable,
    confidence,
    decimals,
    headed,
    labelled,
    limits,
    number,
    numbered,
)
from privstats.results.tidy import tidy

TITLES = {
    "residuals": "Histogram of residuals",
    "binned": "Mean residual by fitted value",
    "scale_location": "Size of residuals by fitted value",
}
EMPTY_BIN = "A bin is not given if noise hides whether it has rows. Remedy: a larger budget, or fewer bins."
HEIGHTS = {
    "residuals": "count",
    "binned": "mean residual",
    "scale_location": "mean of sqrt(|residual| / std dev)",
}


@dataclass(frozen=True, eq=False, repr=False)
class Diagnostics:
    """Released noisy tables of the binned residuals of a fit, with a method to plot them; no row of the data is kept.

    Attributes
    ----------
    formula : str
        Formula of the fit.
    guarantee : PureDP, ApproxDP, GaussianDP or ZeroCDP
        Privacy guarantee of all tables together, without the cost of the fit itself.
    residuals, binned, scale_location : DataFrame
        Tables with one row for each bin: histogram of residuals, mean residual by fitted value, and mean of
        ``sqrt(|residual| / std dev)`` by fitted value. A logistic regression has only the table `binned`; the other two
        tables are None.
    """

    formula: str
    guarantee: Promise
    kinds: tuple[str, ...]
    fits: tuple[Results, ...]
    edges: tuple[tuple[float, ...], ...]

    def __dir__(self) -> list[str]:
        return ["binned", "fits", "formula", "guarantee", "plot", "residuals", "scale_location"]

    @property
    def residuals(self) -> pd.DataFrame | None:
        """Histogram of the residuals, with one row for each bin; None for a logistic regression.

        The columns are the edges `low` and `high` of the bin, the noisy `count` of residuals, its `std_error`, and its
        95% interval `conf_low`, `conf_high`. The outer bins include residuals beyond the outer edges.
        """
        return self._frame("residuals", "count")

    @property
    def binned(self) -> pd.DataFrame | None:
        """Table of the mean residual in each bin of the fitted values; if the model is correct, all means are near 0.

        The columns are the edges `low` and `high` of the bin, the noisy `mean`, its `std_error`, and its 95% interval
        `conf_low`, `conf_high`. The outer bins include fitted values beyond the outer edges.
        """
        return self._frame("binned", "mean")

    @property
    def scale_location(self) -> pd.DataFrame | None:
        """Table of the mean of ``sqrt(|residual| / std dev)`` in each bin of the fitted values.

        If the errors are homoskedastic, all means are about equal. The columns are the edges `low` and `high` of the
        bin, the noisy `mean`, its `std_error`, and its 95% interval `conf_low`, `conf_high`. The table is None for a
        logistic regression.
        """
        return self._frame("scale_location", "mean")

    def plot(self, alpha: float = 0.05, *, ax: Any = None) -> Any:
        """Plot all released tables side by side, with a confidence interval for each bin.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the intervals.
        ax : list of matplotlib Axes, optional
            Axes to draw in, one for each plot; by default the axes of a new figure.

        Returns
        -------
        matplotlib Figure

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        OptionError
            If the number of axes in `ax` differs from the number of plots.
        """
        alpha, many = level(alpha), len(self.kinds)
        if ax is None:
            figure = new_figure(max(6.0, 4.0 * many), 4.2)
            places = list(figure.subplots(1, many, squeeze=False)[0])
            formula = literal(in_two_lines(self.formula, 22 * many))
            guarantee = in_short(self.guarantee, self.fits[0].facts.seeded)
            figure.suptitle(f"{formula}\n{confidence(alpha)} intervals, {guarantee}")
        else:
            places = list(np.ravel(np.array(ax, dtype=object)))
            if len(places) != many:
                raise OptionError(
                    f"there are {many} pictures and {len(places)} axes; write ax=figure.subplots(1, {many})"
                )
            figure = places[0].get_figure().figure
        for axes, kind, fit, ends in zip(places, self.kinds, self.fits, self.edges, strict=True):
            self._draw(axes, kind, panel_rows(fit, alpha), np.array(ends))
        kinds = places[-1].get_legend_handles_labels()
        if ax is None:
            figure.legend(*kinds, fontsize="small", frameon=False, loc="outside lower center", ncols=2)
        else:
            places[-1].legend(*kinds, fontsize="small", frameon=False)
        return figure

    def _draw(self, axes: Any, kind: str, rows: pd.DataFrame, ends: FloatArray) -> None:
        along, widths = ("residual", np.diff(ends)) if kind == "residuals" else ("fitted value", None)
        Panel("", rows, (ends[1:] + ends[:-1]) / 2, along=along, widths=widths).draw(axes)
        axes.locator_params(axis="x", nbins=5)  # few ticks, because tick labels may be long
        axes.set_title(TITLES[kind], fontsize="medium")
        axes.set_ylabel(HEIGHTS[kind])
        if kind == "binned":
            axes.axhline(0.0, color="0.5", linewidth=1, linestyle=":")

    def _frame(self, kind: str, name: str) -> pd.DataFrame | None:
        """Return one of the tables of residuals: edges, estimate, standard error and interval for each bin.

        `kind` is the key of the table, such as "binned", and `name` the header of the column of estimates. The outer
        bins include rows beyond the outer edges. The result is None if the table was not released.
        """
        if kind not in self.kinds:
            return None
        place = self.kinds.index(kind)
        ends, rows = self.edges[place], tidy(self.fits[place], 0.05)
        numbers = rows[["estimate", "std_error", "conf_low", "conf_high"]].rename(columns={"estimate": name})
        return pd.DataFrame({"low": ends[:-1], "high": ends[1:]}).join(numbers)

    def __repr__(self) -> str:
        return f"<Diagnostics of {self.formula}: {', '.join(self.kinds)}; {self.guarantee}>"

    def __str__(self) -> str:
        seed, promise = self.fits[0].facts.seeded, str(self.guarantee)
        words = promise if seed is None else f"{not_private(seed)}. With rng=None it would be {promise}"
        lines = [*headed("Diagnostics", self.formula), *labelled("Guarantee", words)]
        tables = [self._table(kind) for kind in self.kinds]
        for kind, table in zip(self.kinds, tables, strict=True):
            lines += [RULE, TITLES[kind], *table.as_text()]
        missing = any(span is not None for table in tables for span in table.spans)
        return "\n".join([*lines, RULE, BOTH_INCLUDED, *(numbered([EMPTY_BIN]) if missing else ())])

    def _table(self, kind: str) -> TextTable:
        """Return the printed form of the table `kind`: "residuals", "binned" or "scale_location".

        Each line has a bin, its count or mean, the standard error and the 95% interval.
        """
        frame = getattr(self, kind)
        along, name = ("residual", "count") if kind == "residuals" else ("fitted value", "mean")
        ends = frame[["low", "high"]].to_numpy()
        places = decimals(float(np.ptp(ends[0])), 0.0)
        value, sd, first, last = (frame[column].to_numpy() for column in (name, "std_error", "conf_low", "conf_high"))
        return TextTable(
            (along,),
            tuple((f"{number(low, places)} to {number(high, places)}",) for low, high in ends.tolist()),
            estimates((name, 12), value, sd, first, last, limits(0.05)),
            tuple((0, "not given [1]") if np.isnan(value) else None for value in frame[name]),
            name=max(NAME, 2 * places + 12),
        )
