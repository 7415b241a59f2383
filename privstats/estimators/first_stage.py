"""Noise of the first released second moments, divided by the largest noise at which Newton steps converge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from privstats.estimators.base import Noises
from privstats.estimators.constants import HELD_LEAST
from privstats.privacy.promise import Neighbors, Promise
from privstats.sets.vectors import Products


class BySteps(Protocol):
    """An estimator with Newton steps that start from rough, noisy second moments of the columns (the coarse matrix)."""

    @property
    def noises(self) -> Noises: ...
    @property
    def shares(self) -> Mapping[str, float]: ...
    @property
    def most_first_noise(self) -> float:
        """Largest relative noise of the first released second moments (coarse matrix) at which Newton steps converge.

        The relative noise is ``sqrt(c) s / n`` for n rows x of c columns with variance 1, where s is the noise sd of an
        off-diagonal entry of the sum of x x'. The largest eigenvalue of the noise in this sum is about ``2 sqrt(c) s``.
        """


def first_noise(estimator: BySteps, promise: Promise, neighbors: Neighbors, columns: int, rows: int) -> float:
    """Return the relative noise of the coarse matrix, divided by its limit for convergent Newton steps.

    The coarse matrix is the first release of second moments. The relative noise is ``sqrt(c) s / n`` for n rows x of c
    columns with variance 1, where s is the noise sd of an off-diagonal entry of the sum of x x'. If the returned ratio
    exceeds 1, the steps may diverge.

    Parameters
    ----------
    estimator : BySteps
        The estimator with Newton steps.
    promise : Promise
        Privacy guarantee of the whole fit, which is its privacy budget.
    neighbors : Neighbors
        Neighbouring relation: which two data sets count as neighbours.
    columns : int
        Number of columns of the design.
    rows : int
        Number of rows.
    """
    within = Products(columns + 1, 1.0)
    part = promise.part(estimator.shares["coarse matrix"])
    law = estimator.noises.products.law(part, within, neighbors.relation(folded=False, may_be_absent=True))
    i, j = within.pairs
    off_diagonal = float(np.sqrt(law.variance()[i != j][0]))  # type: ignore[union-attr]
    noise = columns**0.5 * off_diagonal * HELD_LEAST * (columns + 1) / max(rows, 1)
    return noise / estimator.most_first_noise
