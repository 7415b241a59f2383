"""Drawings of results. matplotlib is an extra, so it is imported when it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from privstats.older.results.results import Results


def draw(results: Results, alpha: float) -> Figure:
    """Return a figure of estimates with their intervals: of each term along its orders, or of all terms in one panel.

    Raises
    ------
    ImportError
        If matplotlib is not there.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as NewFigure
    except ImportError as error:
        raise ImportError("drawings need matplotlib: pip install 'privstats[plot]'") from error
    rows = results.tidy(alpha).sort_index()
    numeric = rows["component"].map(lambda part: isinstance(part, float)).all()
    terms = list(dict.fromkeys(rows["term"])) if numeric else [""]
    figure = NewFigure(figsize=(1 + 3.2 * len(terms), 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    for panel, term in zip(figure.subplots(1, len(terms), squeeze=False)[0], terms, strict=True):
        shown = rows[rows["term"] == term] if numeric else rows
        at = shown["component"].to_numpy(dtype=float) if numeric else np.arange(len(shown), dtype=float)
        estimate = shown["estimate"].to_numpy(dtype=float)
        panel.vlines(at, shown["conf_low"].to_numpy(dtype=float), shown["conf_high"].to_numpy(dtype=float), alpha=0.6)
        panel.plot(at, estimate, "o-" if numeric else "o")
        panel.axhline(0.0, color="0.7", linewidth=1, linestyle=":")
        if numeric:
            panel.set(title=term, xlabel="order of the quantile")
        else:
            panel.set_xticks(at, list(results.design.names), rotation=30, ha="right")
    figure.suptitle(f"{results.formula}: {1 - alpha:.0%} intervals, {results.guarantee.budget}")
    return figure
