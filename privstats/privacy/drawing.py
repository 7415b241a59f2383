"""Functions shared by the plots of privacy guarantees, ledgers and plans; matplotlib is imported only when needed."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = ("#000000", "#0072B2", "#D55E00", "#009E73")  # palette of Okabe and Ito, distinguishable with colour blindness
LINES = ("-", "--", "-.", ":")  # line styles, for print without colour
HATCHES = ("", "//", "..", "xx")
BESIDE = 40  # largest number of characters in a line of a name beside an axis or in a legend
LINE_HEIGHT = 0.18  # height of a line of text, in inches
LETTERS = 11  # assumed number of characters per inch in the title of a plot
SPACES = re.compile(r"(\s+|(?<=[-+*~,:])(?=[^\s*]))")  # places where a line of text may end: at blanks and operators
LEVELS = np.concatenate([[0.0], ndtr(np.linspace(-6, 6, 601)), [1.0]])  # type I error rates at which a curve is drawn


def new_axes(width: float, height: float) -> Axes:
    """Return the axes of a new figure of the given width and height, in inches.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("drawings need matplotlib: pip install 'privstats[plot]'") from error
    axes: Axes = pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    return axes


def in_two_lines(text: str, width: int) -> str:
    """Return text, such as a formula, broken at blanks and operators into at most two lines of `width` characters.

    If the text is longer, its end is replaced by " ...".

    >>> print(in_two_lines("y ~ age+education+income+wealth", 16))
    y ~ age+
    education+ ...
    """
    return "\n".join(broken(text, width, max_lines=2, placeholder=" ..."))


def literal(text: str) -> str:
    r"""Return a text in a form that matplotlib draws as it is: with a backslash before each dollar sign.

    >>> print(literal("$0-$10k"))
    \$0-\$10k
    """
    return text.replace("$", r"\$")


def broken(text: str, width: int, **options: Any) -> list[str]:
    """Return the lines of a text, broken at blanks and operators to at most `width` characters each.

    `options` are further arguments of `textwrap.TextWrapper`.
    """
    wrapper = textwrap.TextWrapper(width, break_on_hyphens=False, **options)
    wrapper.wordsep_simple_re = SPACES
    return wrapper.wrap(text)


def entitle(ax: Axes, *parts: str) -> None:
    """Set the title of axes to several strings; each string is broken into at most two lines as wide as the axes."""
    ax.figure.figure.draw_without_rendering()  # the final width of the axes is known only after drawing
    inches = ax.figure.bbox.width * ax.get_position().width / ax.figure.dpi
    width = max(20, int(LETTERS * inches))
    ax.set_title(literal("\n".join(in_two_lines(part, width) for part in parts)), fontsize="medium")


def draw_tradeoff(
    tradeoff: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    ax: Axes | None = None,
    about: str = "any one row",
    **line: Any,
) -> Axes:
    """Draw a trade-off function; on empty axes, also draw the line of perfect privacy and a title.

    `tradeoff` maps type I error rates of tests to the smallest possible type II error rates. The text `about` is part
    of the title and names the protected privacy unit. The arguments `line` are passed to `Axes.plot`. By default, a
    new figure is made.
    """
    if ax is None:
        ax = new_axes(5.2, 5.4)
        ax.set_aspect("equal")
    if not ax.has_data():
        ax.plot([0, 1], [1, 0], color="0.5", linestyle=":", linewidth=1, label="no information")
        ax.set_prop_cycle(color=COLORS, linestyle=LINES)
        entitle(ax, f"How often the best test about {about} errs")
    ax.plot(LEVELS, tradeoff(LEVELS), **line)
    ax.set(xlabel="type I error", ylabel="smallest type II error", xlim=(0, 1), ylim=(0, 1))
    ax.legend(fontsize="small", loc="upper right")
    return ax
