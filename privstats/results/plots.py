"""Drawings of results. matplotlib is an extra, so it is imported when it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privstats.results.numbers import FitNumbers
from privstats.results.tidy import tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


ALONG = ("tau", "q")  # keys along which a term has a path


def draw_intervals(results: FitNumbers, alpha: float) -> Figure:
    """Return a figure of estimates with their intervals: of each term along tau, or of all terms in one panel.

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
    rows, keys = tidy(results, alpha), results.facts.keys
    path = keys[-1] if keys[-1] in ALONG else None
    if path:
        rows["panel"] = [", ".join(str(part) for part in label) for label in rows[[*keys[:-1]]].to_numpy()]
        rows = rows.sort_values(path, kind="stable")
    panels = list(dict.fromkeys(rows["panel"].loc[sorted(rows.index)])) if path else [""]
    figure = NewFigure(figsize=(1 + 3.2 * len(panels), 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, name in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        shown = rows[rows["panel"] == name] if path else rows
        at = shown[path].to_numpy(dtype=float) if path else np.arange(len(shown), dtype=float)
        estimate = np.array([value if isinstance(value, float) else np.nan for value in shown["estimate"]], dtype=float)
        axes.vlines(at, shown["conf_low"].to_numpy(dtype=float), shown["conf_high"].to_numpy(dtype=float), alpha=0.6)
        axes.plot(at, estimate, "o-" if path else "o")
        if results.facts.tested:
            axes.axhline(0.0, color="0.7", linewidth=1, linestyle=":")
        if path:
            axes.set(title=name, xlabel=path)
        else:
            axes.set_xticks(at, list(results.names), rotation=30, ha="right")
    figure.suptitle(f"{results.formula}: {1 - alpha:.0%} intervals, {results.guarantee.budget}")
    return figure
