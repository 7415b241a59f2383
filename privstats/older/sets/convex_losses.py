"""The bounding set of losses of a linear predictor: what one row does to their sum, as a function of theta."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privstats.errors import PrivacyError, quote
from privstats.older.losses.convex import RowLoss
from privstats.older.numerics.law import FloatArray
from privstats.older.privacy.release import RowLossSensitivity
from privstats.older.sets.base import Bound

LONGEST = {"linf": lambda dim: 1.0, "l1": float, "l2": math.sqrt}  # of the norm over the cube


@dataclass(frozen=True)
class GlmScores(Bound):
    """Losses ``w l(x'theta + o; y)`` of rows (w, x, y, o), or of the zero row, which has none.

    w lies in [0, 1], x in the cube, y in the response's range, o in the offset's.

    Parameters
    ----------
    columns : int
        Entries of x, the intercept included.
    loss : RowLoss
        l.
    y, offset : tuple of float
        Ranges.
    geometry : {"linf", "l1", "l2"}
        Norm in which scores are compared.
    split : float
        Of objective perturbation (`ScoreSensitivity`).

    Notes
    -----
    In the norm "score". The score of a row is ``w l' x`` and its curvature ``w l'' x x'``: |x| is at most 1 (linf),
    sqrt(columns) (l2), columns (l1), and the eigenvalue |x|_2^2 at most columns, whatever the norm. A weight shrinks
    both. For logistic losses the differences of two rows' scores fill the cube [-2, 2]^columns (two columns or more,
    over all theta), so that linf is the hull of what one row's replacement can do. (Awan and Slavkovic 2021, section
    5.1, believe in a smaller set: choose theta with theta'x = 0 for a corner x, and large, and move x and -x a little,
    so that both linear predictors are large and positive: with y = 0 the scores differ by nearly 2 x.)
    """

    columns: int
    loss: RowLoss
    y: tuple[float, float]
    geometry: str
    split: float
    offset: tuple[float, float] = (0.0, 0.0)

    @property
    def dim(self) -> int:  # type: ignore[override]
        return self.columns + 3

    def project(self, rows: FloatArray) -> FloatArray:
        low = [0.0, *[-1.0] * self.columns, self.y[0], self.offset[0]]
        high = [1.0, *[1.0] * self.columns, self.y[1], self.offset[1]]
        return np.clip(np.nan_to_num(rows), low, high)

    def embed(self, rows: FloatArray) -> FloatArray:
        return rows

    def one_row(self, norm: str, kind: str) -> RowLossSensitivity:
        if norm != "score" or self.geometry not in LONGEST:
            wanted = norm if norm != "score" else self.geometry
            raise PrivacyError(f"no sensitivity is proved in the norm {quote(wanted)}; known: {', '.join(LONGEST)}")
        return RowLossSensitivity(
            norm=self.geometry,
            size=LONGEST[self.geometry](self.columns),
            weights=np.ones(self.columns),
            curvature=float(self.columns),
            split=self.split,
            loss_of_rows=self.loss,
            others=int(kind == "replace"),
        )
