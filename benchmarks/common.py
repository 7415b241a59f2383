"""Functions shared by the benchmark scripts: command-line arguments, noise of second moments, plots, exit status."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privstats.estimators.entries import response_scale
from privstats.mechanisms import ADDITIVE
from privstats.mechanisms.additive.laplace import LaplaceLaw
from privstats.mechanisms.base import ScaledLaw
from privstats.numerics.exact import Total
from privstats.privacy.promise import REPLACE_ROW, PureDP
from privstats.sets.vectors import BoxProducts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = Path(__file__).with_name("figures")
STEP = 2.0**-42  # grid step of sums of products of two entries, each of `privstats.numerics.exact.ROW_BITS` bits
REPLACED = REPLACE_ROW.relation(folded=False, may_be_absent=False)  # one row is replaced, and no row is left out


@dataclass(frozen=True, eq=False)
class InMemory:
    """A column of values in memory, shape (n,), with the interface of the rows that a mechanism receives."""

    values: np.ndarray
    rows: int = 1 << 15  # number of rows in a block

    def scan(self, take: Callable[[np.ndarray], Any] = np.asarray) -> Iterator[Any]:
        """Yield the result of the function `take` for each block of m values; a block has shape (m, 1)."""
        return (take(self.values[start : start + self.rows, None]) for start in range(0, len(self.values), self.rows))

    def parts(self) -> list[np.ndarray]:
        """Return the values as a list of blocks, each of shape (m, 1)."""
        return list(self.scan())

    def all(self) -> np.ndarray:
        """Return all values, shape (n, 1)."""
        return self.values[:, None]

    def cell(self, k: int) -> InMemory:
        """Return all values: without groups, the rows form a single cell, whatever k is."""
        return self


def arguments(doc: str | None, replicates: int, figure: str | None = None) -> argparse.ArgumentParser:
    """Return a parser of --seed, --replicates and, if the script draws a figure, --plot."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--replicates", type=int, default=replicates)
    if figure is not None:
        parser.add_argument("--plot", type=Path, default=FIGURES / f"{figure}.png", help="where the plot is written")
    return parser


def as_total(sums: np.ndarray) -> Total:
    """Return floating-point sums, rounded to multiples of `STEP`, as a `Total`: the input of mechanisms."""
    return Total(tuple(int(unit) for unit in np.rint(sums / STEP)), STEP)


def moments_of(p: int, groups: tuple[tuple[int, ...], ...] = ()) -> BoxProducts:
    """Return the set of the second moments of rows (1, p predictors, response), as in dp_lm.

    Each tuple in `groups` has the positions, from 1, of the dummies of one factor among the predictors.
    """
    entries = p - sum(map(len, groups)) + len(groups)
    return BoxProducts(p + 1, intercept=True, counted=False, last_scale=response_scale(2 + entries), groups=groups)


def noise_law(name: str, within: BoxProducts) -> ScaledLaw:
    """Return the noise distribution called `name` for the set `within` of second moments, at eps = 1.

    One row is replaced. For another eps, divide the draws by eps.

    "K" is the K-norm noise of the package (noise="hull"). Its unit ball is the convex hull of the changes of the
    moments for up to two predictors, and from three predictors on the larger convex set of Awan and Slavkovic (2021).
    "l1 crude" is the l1 noise of their paper: squares are doubled, so that every entry changes by at most 2, and the l1
    sensitivity is 2 times the number of entries. "l1" has the sensitivity of `BoxProducts`, about half as large.
    """
    if name == "l1 crude":
        linf = within.sensitivity("linf", REPLACED)
        return LaplaceLaw(within.size * linf.size / linf.weights)
    return ADDITIVE[{"K": "hull"}.get(name, name)].law(PureDP(1.0), within, REPLACED)


def by_normal_equations(moments: np.ndarray, ridge: float = 0.0) -> np.ndarray:
    """Return the estimates of Awan and Slavkovic (2021) from noisy moment matrices: equation (5), or (6) with a ridge.

    With p predictors the m matrices have shape (m, p + 2, p + 2). A noisy X'X that is not positive definite is not
    repaired: its pseudoinverse is used.
    """
    A, b = moments[:, :-1, :-1], moments[:, :-1, -1]
    return (np.linalg.pinv(A + ridge * np.eye(A.shape[1]), hermitian=True) @ b[:, :, None])[:, :, 0]


def new_figure(panels: int, share_y: bool = True, rows: int = 1) -> tuple[Figure, np.ndarray]:
    """Return a figure that needs no display, and its panels: side by side, or in rows with shared axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = panels // rows
    figure = Figure(figsize=(1 + 4.5 * columns, 4.8 if rows == 1 else 3.6 * rows + 1), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, sharex=rows > 1, sharey=share_y, squeeze=False).ravel()


def save(figure: Figure, path: Path) -> None:
    """Save a figure to a file, and print the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    print(f"\ndrawn: {path}")


def verdict(missed: Sequence[str]) -> int:
    """Print the missed targets; return the exit status."""
    print("\n" + ("\n".join(f"missed: {target}" for target in missed) or "all targets met"))
    return min(len(missed), 1)
