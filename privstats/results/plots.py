"""Plots of results. matplotlib is an optional dependency and is imported only when needed."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from privstats.errors import CHOICES, OptionError, listed, quote
from privstats.privacy.drawing import BESIDE, LINE_HEIGHT, in_two_lines, literal
from privstats.results.header import in_short, not_private
from privstats.results.labels import part_of
from privstats.results.numbers import FitNumbers
from privstats.results.text import confidence
from privstats.results.tidy import tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


ALONG = ("tau", "q")  # label parts that are quantile levels; a line joins the estimates of a term at these levels
# colours of a whole interval and of its part due to sampling error; colour-blind readers can distinguish these colours
TOTAL, SAMPLING = "0.35", "#0072B2"
BAR = "0.85"  # colour of bars, a lighter grey than the colour of intervals
FEW_TIMES = (
    5.0  # ticks of a logarithmic axis are evenly spaced if its upper end is less than this multiple of the lower
)
CURVE = 3  # smallest number of values of a numeric predictor over which estimates are joined by a line
ACROSS = 3  # largest number of panels in a row
WIDE, NARROW = 7.0, 3.3  # in inches: width of a figure with a single panel; width of each panel in other figures
TITLE = 60  # largest number of characters in a line of the title of a figure with a single panel
INTERVAL = re.compile(r"\[(\S+), (\S+)[)\]]")


def draw_intervals(
    results: FitNumbers,
    alpha: float,
    ax: Any = None,
    terms: Sequence[str] | None = None,
    over: str | None = None,
    exp: bool = False,
) -> Figure:
    """Return a figure of the estimates of one fit with their intervals; for the arguments see `Results.plot`.

    A fit with quantile levels (tau or q) has a panel for each term and group, in which a line joins the estimates at
    these levels. A histogram has a panel of bars for each group. Any other fit by group has a panel for each term, with
    a list of the groups, and any other fit without groups has a single panel, with a list of the terms.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    OptionError
        If `terms` is empty or has a term that the fit lacks, if the fit has no quantile levels named `over`, or if
        `ax` is given but the figure needs several panels.
    """
    _check_over(results, over)
    rows = panel_rows(results, alpha, terms, exp)
    panels = [_panel(results, rows[rows["panel"] == name]) for name in dict.fromkeys(rows["panel"])]
    if ax is not None and len(panels) > 1:
        raise OptionError(
            f"ax is one panel and the drawing has {len(panels)}; write fit.plot(ax=ax, terms=[{panels[0].name!r}])"
        )
    share_y = not panels[0].upright or (len(panels) > 1 and len(set(rows["term"])) == 1)
    share_x = not panels[0].upright and panels[0].widths is not None  # counts of a histogram of levels, by group
    return _drawn(
        panels,
        lambda width: _title(results, rows, alpha, width),
        ax,
        results.facts.tested,
        share_x=share_x,
        share_y=share_y,
        exp=exp,
    )


def draw_table(rows: pd.DataFrame, title: str, alpha: float, seeded: int | str | None, ax: Any = None) -> Figure:
    """Return a figure of the means, comparisons or slopes in the table `rows`, with their intervals.

    If the rows have several tau, or a numeric predictor at three values or more, a line joins the estimates at these
    values, in a panel for each combination of the other labels. Otherwise each panel lists the levels, and there is a
    panel for each combination of the other labels. If all rows have the same level, one panel lists the other labels.

    Parameters
    ----------
    rows : DataFrame
        The columns of `MarginalTable`.
    title : str
        First line of the title of the figure.
    alpha : float
        One minus the confidence level of the intervals.
    seeded : int, str or None
        Seed of the noise, which the title then states; None for noise without a seed.
    ax : matplotlib Axes, optional
        Axes to draw in; by default the axes of a new figure.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    OptionError
        If `ax` is given but the figure needs several panels.
    """
    keys = list(rows.columns[1 : rows.columns.get_loc("estimate")])
    varied = [key for key in keys if rows[key].nunique() > 1] or keys[:1]
    numeric = [key for key in varied if pd.api.types.is_numeric_dtype(rows[key]) and rows[key].nunique() >= CURVE]
    along = "tau" if "tau" in varied else numeric[0] if numeric else ""
    listed_by = [] if along else ["level"] if "level" in varied else varied
    words = {
        key: [part_of(part) if key == "level" else f"{key} = {part_of(part)}" for part in rows[key]] for key in varied
    }
    half = -ndtri(alpha / 2) * rows["std_error"] * np.sqrt(np.clip(1 - rows["noise_share"], 0.0, 1.0))
    rows = rows.assign(
        inner_low=rows["estimate"] - half,
        inner_high=rows["estimate"] + half,
        words="",
        panel=_joined(words, [key for key in varied if key not in (along, *listed_by)]),
    )
    rows["name"] = _joined(words, listed_by)
    panels = []
    for head in dict.fromkeys(rows["panel"]):
        some = rows[rows["panel"] == head]
        if along:
            axis = some["term"].iloc[0] if along == "level" else along
            panels.append(Panel(head, some, some[along].to_numpy(dtype=float), along=axis))
        else:
            names = tuple(textwrap.fill(name, BESIDE) for name in some["name"])
            panels.append(Panel(head, some, np.arange(len(some), dtype=float), names=names))
    if ax is not None and len(panels) > 1:
        raise OptionError(f"ax is one panel and the drawing has {len(panels)}; leave ax out")
    fixed = [f"{key} = {part_of(rows[key].iloc[0])}" for key in keys if key not in ("level", *varied)]
    seed = [] if seeded is None else [not_private(seeded)]
    below = ", ".join((*fixed, f"{confidence(alpha)} intervals", *seed))
    return _drawn(
        panels,
        lambda width: f"{literal(textwrap.fill(title, width))}\n{literal(textwrap.fill(below, width))}",
        ax,
        bool(rows["p_value"].notna().any()),
        share_x=True,
        share_y=True,
    )


def _joined(words: Mapping[str, Sequence[str]], keys: Sequence[str]) -> list[str]:
    """Return for each row the texts of the columns `keys`, joined by commas."""
    many = len(next(iter(words.values())))
    return [", ".join(words[key][row] for key in keys) for row in range(many)]


def _drawn(
    panels: Sequence[Panel],
    title: Callable[[int], str],
    ax: Any,
    tested: bool,
    *,
    share_x: bool = False,
    share_y: bool = False,
    exp: bool = False,
) -> Figure:
    """Return the figure with the given panels, drawn in `ax` or in a new figure.

    The function `title` returns the title in lines of at most the given number of characters. If `tested` is true, a
    dotted line marks zero; if `exp` is true, the estimates are exponentiated, their axis is logarithmic, and the line
    marks one.
    """
    new_figure(1.0, 1.0)  # an error that says how to install matplotlib, where it is not installed
    from matplotlib.ticker import LogLocator, MaxNLocator

    if ax is None:
        across = min(ACROSS, len(panels))
        down = math.ceil(len(panels) / across)
        width = WIDE if len(panels) == 1 else 1.0 + NARROW * across
        height = 1.3 + down * max(panel.height for panel in panels)
        figure = new_figure(width, height)
        places = figure.subplots(down, across, squeeze=False, sharex=share_x, sharey=share_y).ravel()
        for empty in places[len(panels) :]:
            empty.remove()
        figure.suptitle(title(round(TITLE * width / WIDE)))
    else:
        width = ax.get_position().width * ax.figure.bbox.width / ax.figure.dpi
        figure, places = ax.get_figure().figure, np.array([ax])
        ax.set_title(title(max(20, round(TITLE * width / WIDE))), fontsize="medium")
    for axes, panel in zip(places, panels, strict=False):
        panel.draw(axes)
        axis, line = (axes.yaxis, axes.axhline) if panel.upright else (axes.xaxis, axes.axvline)
        if tested:
            line(1.0 if exp else 0.0, color="0.7", linewidth=1, linestyle=":")
        if exp:
            (axes.set_yscale if panel.upright else axes.set_xscale)("log")
            low, high = axis.get_view_interval()
            axis.set_major_locator(MaxNLocator(5) if high < FEW_TIMES * low else LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("")
        elif np.isfinite(panel.rows["estimate"].to_numpy(dtype=float)).any():
            axis.get_major_formatter().set_useOffset(False)
        axes.tick_params(labelbottom=True)  # shared axes have labels in the lowest full row only
        if len(panels) > 1:
            axes.set_title(literal(textwrap.fill(panel.name, 30)), fontsize="medium")
        elif panel.widths is None:
            (axes.set_ylabel if panel.upright else axes.set_xlabel)(literal(textwrap.fill(panel.name, BESIDE)))
    if any((panel.rows["inner_high"] > panel.rows["inner_low"]).any() for panel in panels):
        kinds = places[0].get_legend_handles_labels()
        if ax is None:
            figure.legend(*kinds, fontsize="small", frameon=False, loc="outside lower center", ncols=2)
        else:
            ax.legend(*kinds, fontsize="small", frameon=False)
    return figure


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure with the given width and height in inches; it can be drawn without a display.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as NewFigure
    except ImportError as error:
        raise ImportError("matplotlib is not installed; write pip install 'privstats[plot]'") from error
    figure = NewFigure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _title(results: FitNumbers, rows: pd.DataFrame, alpha: float, width: int) -> str:
    """Return the title of a plot of the estimates in the table `rows`, in lines of at most `width` characters.

    The title contains at most two lines of the formula, the confidence of the intervals (if there are any), the
    quantile level (if there is one), and the privacy budget or a remark that the noise was seeded.
    """
    formula = literal(in_two_lines(results.formula, width))
    given = rows["conf_low"].notna().any()
    kind = f"{confidence(alpha)} intervals" if given else "estimates without intervals"
    parts = (kind, *filter(None, [results.facts.order]), in_short(results.guarantee, results.facts.seeded))
    kept = textwrap.fill(", ".join(parts), width)
    return f"{formula}\n{kept}"


def _check_over(results: FitNumbers, over: str | None) -> None:
    last = results.facts.keys[-1]
    if over not in (None, last) or (over is not None and last not in ALONG):
        has = f"write over={last!r}" if last in ALONG else "leave over out"
        raise OptionError(f"the fit has no path over {quote(over)}; {has}")


def panel_rows(
    results: FitNumbers, alpha: float, terms: Sequence[str] | None = None, exp: bool = False
) -> pd.DataFrame:
    """Return a table with a row for each estimate to plot, including the limits of a 1 - alpha confidence interval.

    The argument `terms` selects and orders the terms. By default, all terms except the intercept are plotted, or the
    intercept if the fit has no other term.
    """
    rows, keys = tidy(results, alpha, exp), results.facts.keys
    rows["words"] = ["" if isinstance(value, float) else str(value) for value in rows["estimate"]]
    rows["estimate"] = [value if isinstance(value, float) else np.nan for value in rows["estimate"]]
    sampling = np.clip(1 - results.noise_share.to_numpy(dtype=float), 0.0, 1.0)
    rows["name"] = list(results.names)
    # ends of an interval for the sampling error alone, without noise and bias
    half = -ndtri(alpha / 2) * rows["std_error"].to_numpy(dtype=float) * np.sqrt(sampling)
    value = rows["estimate"].to_numpy(dtype=float)
    rows["inner_low"] = value * np.exp(-half) if exp else value - half
    rows["inner_high"] = value * np.exp(half) if exp else value + half
    rows["panel"] = [", ".join(map(part_of, label)) for label in rows[[*keys[:-1]]].to_numpy()]
    if terms is None:
        others = rows[rows["term"] != "Intercept"]
        return others if len(others) else rows
    found = []
    for term in [terms] if isinstance(terms, str) else dict.fromkeys(terms):
        found.append(rows[(rows[["term", "name", "panel"]] == term).any(axis=1)])
        if not len(found[-1]):
            has = list(dict.fromkeys(rows["term"]))
            raise OptionError(
                f"the fit has no term {quote(term)}; it has {listed(has, CHOICES)}: write fit.plot(terms=[{has[-1]!r}])"
            )
    if not found:
        raise OptionError("terms is an empty list; name a term, or leave terms out to draw all but the intercept")
    wanted = pd.concat(found)
    return wanted[~wanted.index.duplicated()]


def _panel(results: FitNumbers, rows: pd.DataFrame) -> Panel:
    """Return the panel of a plot that shows the given rows of the table of estimates.

    The panel is a line plot for estimates at quantile levels (tau or q), a bar plot for bins of a histogram, and
    otherwise a list of the estimates by name.
    """
    key, name = results.facts.keys[-1], rows["panel"].iloc[0]
    if key in ALONG:
        rows = rows.sort_values(key, kind="stable")
        return Panel(name, rows, rows[key].to_numpy(dtype=float), along=key)
    if key == "bin" and (edges := _edges(list(rows[key]))) is not None:
        return Panel(name, rows, (edges[1:] + edges[:-1]) / 2, along=rows["term"].iloc[0], widths=np.diff(edges))
    names = tuple(textwrap.fill(part_of(part), BESIDE) for part in rows["name" if key == "term" else key])
    widths = np.full(len(rows), 0.8) if key == "bin" else None
    return Panel(name, rows, np.arange(len(rows), dtype=float), names=names, widths=widths)


def _edges(bins: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """Return the edges of bins if the bins are adjacent intervals; otherwise None."""
    try:
        ends = [tuple(map(float, found.groups())) for found in map(INTERVAL.fullmatch, map(str, bins)) if found]
    except ValueError:
        return None
    joined = len(ends) == len(bins) and all(a[1] == b[0] for a, b in pairwise(ends))
    return np.array([ends[0][0], *(high for _, high in ends)]) if joined else None


@dataclass(frozen=True, eq=False)
class Panel:
    """A panel of a plot, with estimates along a numeric axis from left to right, or listed by name from top to bottom.

    Parameters
    ----------
    name : str
        Title of the panel.
    rows : DataFrame
        The estimates and their intervals.
    at : array
        Position of each estimate.
    along : str
        Label of the numeric axis on which the positions lie; empty if the estimates are listed by name.
    names : tuple of str
        Names beside the positions, if the estimates are listed by name; otherwise empty.
    widths : array, optional
        Widths of the bars.
    """

    name: str
    rows: pd.DataFrame
    at: Any
    along: str = ""
    names: tuple[str, ...] = ()
    widths: Any = None

    @property
    def upright(self) -> bool:
        """Whether the axis of the estimates is vertical."""
        return not self.names

    @property
    def height(self) -> float:
        """Height of the panel in inches."""
        if self.upright:
            return 2.6
        lines = max(name.count("\n") + 1 for name in self.names)
        return 0.5 + (0.1 + LINE_HEIGHT * lines) * len(self.names)

    def draw(self, axes: Any) -> None:
        """Draw estimates and intervals; thicker lines inside the intervals show the sampling error alone."""
        low, high, value = (self.rows[name].to_numpy(dtype=float) for name in ("conf_low", "conf_high", "estimate"))
        low_inside, high_inside = (self.rows[name].to_numpy(dtype=float) for name in ("inner_low", "inner_high"))
        lines = axes.vlines if self.upright else axes.hlines
        if self.widths is None:
            points = (self.at, value) if self.upright else (value, self.at)
            axes.plot(*points, "o-" if self.upright else "o", color="black", markersize=4, zorder=3)
        else:
            (axes.bar if self.upright else axes.barh)(self.at, value, self.widths, color=BAR, edgecolor="0.6")
        lines(self.at, low, high, color=TOTAL, linewidth=1.2, label="whole interval")
        inner = np.maximum(low_inside, low), np.minimum(high_inside, high)
        lines(self.at, *inner, color=SAMPLING, linewidth=3.5, label="sampling error alone")
        if self.upright:
            axes.set_xlabel(literal(self.along))
            axes.update_datalim([(place, 0.0) for place in self.at], updatey=False)  # room for missing estimates, too
            axes.autoscale_view()
        else:
            axes.set_yticks(self.at, [literal(name) for name in self.names])
            axes.set_ylim(len(self.names) - 0.5, -0.5)
        if self.widths is not None:
            kind = "density" if (high_inside > low_inside).any() else "count"
            (axes.set_ylabel if self.upright else axes.set_xlabel)(kind)
        self._say(axes, low, value)

    def _say(self, axes: Any, low: Any, value: Any) -> None:
        """Write a text in place of each estimate that is not a number, and beside each estimate without an interval.

        The text is the level if the estimate is a level of a column, "not given" if the estimate is missing, and "no
        interval" if only the interval is missing. If all intervals are missing, "no interval" is not written, because
        the title says so.
        """
        if np.isnan(value).all():
            (axes.set_yticks if self.upright else axes.set_xticks)([])
        turned = {"ha": "center", "va": "center", "fontsize": "small", "rotation": 90 if self.upright else 0}
        for place, words, number in zip(self.at, self.rows["words"], value, strict=True):
            if math.isnan(number):
                xy = (place, 0.5) if self.upright else (0.5, place)
                frame = axes.get_xaxis_transform() if self.upright else axes.get_yaxis_transform()
                axes.annotate(literal(words or "not given"), xy, xycoords=frame, **turned)
        if np.isnan(low).all():
            return  # no text is needed, since the title says that no estimate has an interval
        for place, number in zip(self.at, np.where(np.isnan(low), value, np.nan), strict=True):
            if not math.isnan(number):
                xy, offset = ((place, number), (-9, 0)) if self.upright else ((number, place), (0, 9))
                axes.annotate("no interval", xy, offset, textcoords="offset points", **turned)
