"""Hull noise, drawn by the K-norm mechanism for a convex body that contains the difference of any two rows' moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privstats.mechanisms.additive.body import (
    Parts,
    gauge,
    gauge_hull,
    sample_body,
    sample_hull,
    second_moments_body,
    second_moments_hull,
)
from privstats.mechanisms.additive.matrixt import matrix_entries
from privstats.mechanisms.base import Additive, Pairs, ProvedBound, ScaledLaw
from privstats.numerics.law import FloatArray, Rng
from privstats.privacy.promise import Promise

# largest number of columns of the data for which the unit ball of the noise's norm is the convex hull of differences
# of two rows' moments; for more columns, the unit ball is a larger body with a simpler gauge (see the module `body`)
LARGEST_HULL = 3


@dataclass(frozen=True, eq=False)
class HullLaw(ScaledLaw):
    """Noise v for second moments, with density proportional to ``exp(-|v|_K)``.

    v, with dim entries, is drawn as a Gamma(dim + 1) variable times a uniform point of K, the unit ball of the norm. K
    contains all differences of two rows' moments, if squares are first multiplied by two. K is defined as follows:

    * If the linear moments (products of a column and the constant) are released, K is a body of the module `body`: for
      up to three columns the body H of that module, and for more columns the larger body, which is called K there, too.
    * If no linear moments are released, K is a cube with sides [-2, 2].
    * If the number of rows is released, too, K is the Cartesian product of the body or cube above and [-1, 1].

    `pairs` has the row and column indices of the released entries in the matrix of second moments. Index 0 belongs to
    the constant, so entry (0, 0) of this matrix is the number of rows.
    """

    pairs: Pairs
    log_concave = True

    @property
    def _entries(self) -> int:
        return int(self.pairs[1].max(initial=0))

    @property
    def _kinds(self) -> NDArray[np.int_]:
        """Kind of each released moment, shape (dim,): 0 (linear), 1 (square), 2 (cross product) or 3 (row count)."""
        i, j = self.pairs
        return np.where(j == 0, 3, np.where(i == 0, 0, np.where(i == j, 1, 2)))

    def standard(self, rng: Rng, shape: tuple[int, int]) -> FloatArray:
        size, dim = shape
        kinds, q = self._kinds, self._entries
        point = rng.uniform(-1.0, 1.0, shape) * np.where(kinds == 3, 1.0, 2.0)
        if (kinds == 0).any():
            drawn = sample_hull(rng, size, q) if q <= LARGEST_HULL else sample_body(rng, size, q)
            for kind, part in enumerate(drawn):
                point[:, kinds == kind] = part
        draws: FloatArray = rng.standard_gamma(dim + 1, (size, 1)) * point
        return draws

    def standard_variance(self, dim: int) -> FloatArray:
        kinds, q = self._kinds, self._entries
        moments = (4 / 3, 4 / 3, 4 / 3)
        if (kinds == 0).any():
            moments = second_moments_hull(q) if q <= LARGEST_HULL else second_moments_body(q)
        return (dim + 1) * (dim + 2) * np.array([*moments, 1 / 3])[kinds]

    def norm(self, points: FloatArray) -> FloatArray:
        """Return the norm ``|v|_K`` of each of n vectors v of second moments, shape (n,).

        The array `points`, shape (n, dim), contains the vectors: vector number i is ``points[i]``. The unit ball K of
        the norm contains the difference between the moments of any two rows of the data (see `HullLaw`).
        """
        kinds, q = self._kinds, self._entries
        parts: Parts = (points[:, kinds == 0], points[:, kinds == 1], points[:, kinds == 2])
        largest = np.abs(points[:, kinds == 3]).max(axis=1, initial=0.0)
        if not (kinds == 0).any():
            return np.maximum(largest, np.abs(points[:, kinds != 3]).max(axis=1, initial=0.0) / 2)
        return np.maximum(largest, gauge_hull(*parts) if q <= LARGEST_HULL else gauge(*parts))


@dataclass(frozen=True)
class Hull(Additive):
    """K-norm mechanism for second moments, with a convex unit ball K that contains the differences of rows' moments.

    Privacy: eps-DP (`KNorm`), with noise scaled to the sensitivity in the norm with unit ball K. The guarantee holds
    for the neighbouring relation for which the sensitivity is computed. The noise in dim moments is a Gamma(dim + 1)
    variable times a uniform point of K, drawn exactly by rejection, times the scale.

    K contains the difference of the moments of any two rows (with squares multiplied by two), because K is an
    intersection of half-spaces and cylinders, and each half-space and cylinder contains all these differences. Awan and
    Slavkovic (2021, section 6) use the intersection of the cylinders alone. This class also uses half-spaces if a row
    (predictors and response) has two or three entries.
    """

    label: ClassVar[str] = "hull"
    norm: ClassVar[str] = "hull"

    def noise(self, promise: Promise, sensitivity: ProvedBound) -> ScaledLaw:
        pairs = matrix_entries(sensitivity, "hull")
        return HullLaw(sensitivity.size / promise.as_pure().eps / sensitivity.weights, pairs)
