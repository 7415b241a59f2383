"""Drawings of results. matplotlib is an extra, so it is imported when it is needed."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from privstats.errors import OptionError, listed, quote
from privstats.results.numbers import FitNumbers
from privstats.results.tidy import tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


ALONG = ("tau", "q")  # keys along which a term has a path
TOTAL, SAMPLING = "0.35", "#0072B2"  # grey and the blue of Okabe and Ito: told apart by all eyes, and by their widths
TITLE = 60  # characters of a line of a title


def draw_intervals(
    results: FitNumbers, alpha: float, ax: Any = None, terms: Sequence[str] | None = None, over: str | None = None
) -> Figure:
    """Return a figure of estimates with their intervals: of each term along tau, or of all terms in one panel.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    OptionError
        If the fit has no such term, nothing to draw over, or several panels for one `ax`.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as NewFigure
    except ImportError as error:
        raise ImportError("matplotlib is not installed; write pip install 'privstats[plot]'") from error
    rows, path = _rows(results, alpha, terms), _path(results, over)
    panels = list(dict.fromkeys(rows["panel"])) if path else [""]
    if ax is not None and len(panels) > 1:
        raise OptionError(
            f"ax is one panel and the drawing has {len(panels)}; write fit.plot(ax=ax, terms=[{panels[0]!r}])"
        )
    if ax is None:
        across = 1 + 3.2 * len(panels), 3.6
        figure = NewFigure(figsize=across if path else (7.0, 1.8 + 0.28 * len(rows)), layout="constrained")
        FigureCanvasAgg(figure)
        places = list(figure.subplots(1, len(panels), squeeze=False)[0])
        figure.suptitle(_title(results, alpha))
    else:
        figure, places = ax.figure, [ax]
        ax.set_title(_title(results, alpha))
    for axes, name in zip(places, panels, strict=True):
        shown = rows[rows["panel"] == name].sort_values(path, kind="stable") if path else rows
        at = shown[path].to_numpy(dtype=float) if path else np.arange(len(shown), dtype=float)
        _draw(axes, at, shown, upright=bool(path))
        if results.facts.tested:
            (axes.axhline if path else axes.axvline)(0.0, color="0.7", linewidth=1, linestyle=":")
        if path:
            axes.set(title=textwrap.fill(name, 30), xlabel=path)
        else:
            axes.set_yticks(at, [textwrap.fill(one, 40) for one in shown["name"]])
            axes.set_ylim(len(shown) - 0.5, -0.5)
    if rows["half"].notna().any():
        kinds = places[0].get_legend_handles_labels()
        if ax is None:
            figure.legend(*kinds, fontsize="small", frameon=False, loc="outside lower center", ncols=2)
        else:
            ax.legend(*kinds, fontsize="small", frameon=False)
    return figure


def _title(results: FitNumbers, alpha: float) -> str:
    return textwrap.fill(f"{results.formula}: {1 - alpha:.0%} intervals, {results.guarantee.budget}", TITLE)


def _path(results: FitNumbers, over: str | None) -> str | None:
    """Return the key along which paths are drawn; None if there is none."""
    last = results.facts.keys[-1]
    if over not in (None, last) or (over is not None and last not in ALONG):
        has = f"write over={last!r}" if last in ALONG else "leave over out"
        raise OptionError(f"the fit has no path over {quote(over)}; {has}")
    return last if last in ALONG else None


def _rows(results: FitNumbers, alpha: float, terms: Sequence[str] | None) -> pd.DataFrame:
    """Return the rows to draw: those of the terms, or of all but the intercept where there are others."""
    rows, keys = tidy(results, alpha), results.facts.keys
    rows["estimate"] = [value if isinstance(value, float) else np.nan for value in rows["estimate"]]
    sampling = np.clip(1 - results.noise_share.to_numpy(dtype=float), 0.0, 1.0)
    rows["name"] = list(results.names)
    rows["half"] = -ndtri(alpha / 2) * rows["std_error"].to_numpy(dtype=float) * np.sqrt(sampling)  # no bias bound
    parts = keys[:-1] if keys[-1] in ALONG else keys
    rows["panel"] = [", ".join(map(str, label)) for label in rows[[*parts]].to_numpy()]
    if terms is None:
        others = rows[rows["term"] != "Intercept"]
        return others if len(others) else rows
    wanted = [terms] if isinstance(terms, str) else list(terms)
    known = dict.fromkeys([*rows["term"], *rows["name"], *rows["panel"]])
    if unknown := [term for term in wanted if term not in known]:
        has = list(dict.fromkeys(rows["term"]))
        raise OptionError(
            f"the fit has no term {quote(unknown[0])}; it has {listed(has)}: write fit.plot(terms=[{has[-1]!r}])"
        )
    return rows[rows[["term", "name", "panel"]].isin(wanted).any(axis=1)]


def _draw(axes: Any, at: Any, shown: pd.DataFrame, upright: bool) -> None:
    """Draw estimates, whole intervals, and within them, thicker, what sampling alone would make of them."""
    low, high, value = (shown[name].to_numpy(dtype=float) for name in ("conf_low", "conf_high", "estimate"))
    half = shown["half"].to_numpy(dtype=float)
    lines = axes.vlines if upright else axes.hlines
    axes.plot(
        *((at, value) if upright else (value, at)), "o-" if upright else "o", color="black", markersize=4, zorder=3
    )
    lines(at, low, high, color=TOTAL, linewidth=1.2, label="whole interval")
    inner = np.maximum(value - half, low), np.minimum(value + half, high)
    lines(at, *inner, color=SAMPLING, linewidth=3.5, label="sampling error alone")
    for place in at[np.isnan(value)]:
        axes.annotate(
            "not given",
            (place, 0.5) if upright else (0.5, place),
            xycoords=axes.get_xaxis_transform() if upright else axes.get_yaxis_transform(),
            ha="center",
            va="center",
            fontsize="small",
            rotation=90 if upright else 0,
        )
