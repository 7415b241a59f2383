"""Values and their squares: a set in which the second moment costs nothing beside the first."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privstats.errors import PrivacyError, quote
from privstats.older.numerics.law import FloatArray
from privstats.older.privacy.neighbors import Neighbors
from privstats.older.privacy.release import Sensitivity
from privstats.older.sets.base import Bound

# Weights of the count and of a square, that of a value being 1: (norm, kind) -> (count, square). See `PowerSums`.
WEIGHTS = {
    ("l1", "replace"): (0.75, 0.25),
    ("l1", "add_remove"): (0.5, 0.25),
    ("l2", "replace"): (1.2, 1.2),
    ("l2", "add_remove"): (0.7, 0.5),
    ("linf", "replace"): (2.0, 2.0),
    ("linf", "add_remove"): (1.0, 1.0),
}


# The same where values are replaced and there is one of them only.
ALONE = {"l1": (1.0, 0.5), "l2": (1.7, 1.6), "linf": (2.0, 2.0)}


@dataclass(frozen=True)
class PowerSums(Bound):
    """Rows (1, u_1 ... u_k, u_1^2 ... u_k^2) with all |u| <= 1, or zero where a row is absent.

    Sensitivity, with weights c of the 1 (times k in l1, sqrt(k) in l2) and w of each square. *Replaced*: column by
    column, two rows that are present move (u, w u^2) by at most 2, the distance of u = 1 and u = -1. For u = 1 and v =
    -t, the worst pairs of opposite sign, t in [0, 1]: in l1 ``(1 + t)(1 + w (1 - t)) <= 2`` for w <= 1/2; in l2 ``(1 +
    t)^2 (1 + w^2 (1 - t)^2) <= 4`` for w <= 1.6; in linf for w <= 2. Values of equal sign are no further apart than 1
    and w, and so is a row from zero, but for its 1: c + 1 + w <= 2, c^2 + 1 + w^2 <= 4, and c <= 2 in the three norms.
    *Added*: the length of a row. So under "replace" neither the squares nor the count cost anything.

    Parameters
    ----------
    columns : int
        k.
    counted : bool
        Whether the number of rows is public and none is absent: the 1 is left out.
    squares : bool
        Whether squares are summed.
    """

    columns: int
    counted: bool
    squares: bool = True

    @property
    def dim(self) -> int:  # type: ignore[override]
        return int(not self.counted) + (1 + self.squares) * self.columns

    def project(self, rows: FloatArray) -> FloatArray:
        k = self.columns
        present = rows[:, :1] == 1.0
        u = np.clip(np.nan_to_num(rows[:, 1 : 1 + k]), -1.0, 1.0) * present
        return np.column_stack([*([] if self.counted else [present]), u, *([u * u] if self.squares else [])])

    def embed(self, rows: FloatArray) -> FloatArray:
        return rows

    def sensitivity(self, norm: str, neighbors: Neighbors) -> Sensitivity:
        if self.counted and not neighbors.n_is_public:
            raise PrivacyError("where rows appear or vanish their number is not public")
        return super().sensitivity(norm, neighbors)

    def one_row(self, norm: str, kind: str) -> Sensitivity:
        if (norm, kind) not in WEIGHTS:
            raise PrivacyError(f"no sensitivity is proved in the norm {quote(norm)} for this set; known: l1, l2, linf")
        c, w = WEIGHTS[norm, kind]
        if kind == "replace":  # what is left out makes room for the other
            c = c if self.squares else ALONE[norm][0]
            w = ALONE[norm][1] if self.counted else w
        k, w = self.columns, w if self.squares else 0.0
        spread = {"l1": float(k), "l2": math.sqrt(k), "linf": 1.0}[norm]
        if kind == "replace":
            size = 2.0 * spread
        else:
            size = {"l1": k * (c + 1 + w), "l2": math.sqrt(k * (c**2 + 1 + w**2)), "linf": 1.0}[norm]
        parts = [c * spread] * (not self.counted) + [1.0] * k + [w] * (k if self.squares else 0)
        return Sensitivity(norm, size, np.array(parts))
