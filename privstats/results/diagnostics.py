"""What a fit leaves over, released: residuals, their means and their sizes by fitted value, as frames and pictures."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from privstats.errors import OptionError
from privstats.privacy.promise import Promise
from privstats.results.facts import FloatArray
from privstats.results.header import not_private
from privstats.results.hypotheses import level
from privstats.results.plots import Panel, new_figure, panel_rows
from privstats.results.results import Results
from privstats.results.text import headed, labelled
from privstats.results.tidy import tidy

TITLES = {
    "residuals": "Histogram of residuals",
    "binned": "Mean residual by fitted value",
    "scale_location": "Size of residuals by fitted value",
}
HEIGHTS = {
    "residuals": "count",
    "binned": "mean residual",
    "scale_location": "mean of sqrt(|residual| / std dev)",
}


@dataclass(frozen=True, eq=False, repr=False)
class Diagnostics:
    """Pictures of residuals: each is made of its own releases, and holds no row.

    Attributes
    ----------
    formula : str
        Of the fit.
    guarantee : PureDP, ApproxDP, GaussianDP or ZeroCDP
        What all pictures keep together, beside what the fit keeps.
    residuals, binned, scale_location : DataFrame
        One row a bin; None where there is no such picture.
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
        """Counts of residuals by bin; those beyond the outer edges count in the outer bins."""
        return self._frame("residuals", "count")

    @property
    def binned(self) -> pd.DataFrame | None:
        """Mean residuals by fitted value: 0 where the model is right, but for their errors and those of the fit."""
        return self._frame("binned", "mean")

    @property
    def scale_location(self) -> pd.DataFrame | None:
        """Means of sqrt(abs(residual) / std dev) by fitted value: alike where the error variance is."""
        return self._frame("scale_location", "mean")

    def plot(self, alpha: float = 0.05, *, ax: Any = None) -> Any:
        """Draw all pictures side by side, with intervals.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the intervals.
        ax : list of matplotlib Axes, optional
            Where to draw, one for each picture; by default in a new figure.

        Returns
        -------
        matplotlib Figure

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        OptionError
            If `ax` are not as many as the pictures.
        """
        alpha, many = level(alpha), len(self.kinds)
        if ax is None:
            figure = new_figure(max(6.0, 4.0 * many), 4.2)
            places = list(figure.subplots(1, many, squeeze=False)[0])
            formula = textwrap.fill(self.formula, 22 * many, max_lines=2, placeholder=" ...")
            figure.suptitle(f"{formula}\n{1 - alpha:.0%} intervals, {self.guarantee.budget}")
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
        places[-1].legend(*kinds, fontsize="small", frameon=False)
        return figure

    def _draw(self, axes: Any, kind: str, rows: pd.DataFrame, ends: FloatArray) -> None:
        along, widths = ("residual", np.diff(ends)) if kind == "residuals" else ("fitted value", None)
        Panel("", rows, (ends[1:] + ends[:-1]) / 2, along=along, widths=widths).draw(axes)
        axes.set_title(TITLES[kind], fontsize="medium")
        axes.set_ylabel(HEIGHTS[kind])
        if kind == "binned":
            axes.axhline(0.0, color="0.5", linewidth=1, linestyle=":")

    def _frame(self, kind: str, name: str) -> pd.DataFrame | None:
        """Return estimates of a picture, with the ends of its bins; the first and last bin have what lies beyond."""
        if kind not in self.kinds:
            return None
        place = self.kinds.index(kind)
        ends, rows = self.edges[place], tidy(self.fits[place], 0.05)
        numbers = rows[["estimate", "std_error", "conf_low", "conf_high"]].rename(columns={"estimate": name})
        return pd.DataFrame({"low": ends[:-1], "high": ends[1:]}).join(numbers)

    def __repr__(self) -> str:
        return f"<Diagnostics of {self.formula}: {', '.join(self.kinds)}; {self.guarantee}>"

    def __str__(self) -> str:
        parts = [f"{TITLES[kind]}\n{getattr(self, kind).to_string(index=False)}" for kind in self.kinds]
        seed, promise = self.fits[0].facts.seeded, str(self.guarantee)
        words = promise if seed is None else f"{not_private(seed)}. With rng=None it would be {promise}"
        return "\n\n".join(["\n".join([*headed("Diagnostics", self.formula), *labelled("Guarantee", words)]), *parts])
