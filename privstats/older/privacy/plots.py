"""Drawings of promises. matplotlib is an extra, so it is imported when it is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVELS = np.concatenate([[0.0], ndtr(np.linspace(-6, 6, 601)), [1.0]])  # dense at both ends, where curves are steep


def new_axes() -> Axes:
    """Return the axes of a new figure.

    Raises
    ------
    ImportError
        If matplotlib is not there.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("drawings need matplotlib: pip install 'privstats[plot]'") from error
    ax = pyplot.subplots(figsize=(4.8, 4.8), layout="constrained")[1]
    ax.set_aspect("equal")
    return ax


def draw_tradeoff(
    tradeoff: Callable[[NDArray[np.float64]], NDArray[np.float64]], ax: Axes | None = None, **line: Any
) -> Axes:
    """Draw a trade-off function, with the line of complete privacy when the axes are still empty."""
    if ax is None:
        ax = new_axes()
    if not ax.has_data():
        ax.plot([0, 1], [1, 0], color="0.7", linestyle=":", linewidth=1)
    ax.plot(LEVELS, tradeoff(LEVELS), **line)
    ax.set(xlabel="type I error", ylabel="smallest type II error", xlim=(0, 1), ylim=(0, 1))
    return ax
