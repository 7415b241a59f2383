"""Ratio of the noise of second moments before Newton steps to the largest noise allowed, from public information."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from privstats.estimators.base import Noises
from privstats.estimators.constants import HELD_LEAST
from privstats.privacy.promise import Neighbors, Promise
from privstats.sets.vectors import Products


class BySteps(Protocol):
    """An estimator by Newton steps that start from first, noisy second moments of the columns (the coarse matrix)."""

    @property
    def noises(self) -> Noises: ...
    @property
    def shares(self) -> Mapping[str, float]: ...
    @property
    def most_first_noise(self) -> float:
        """Largest noise of the first release of second moments (in column variances) at which Newton steps converge."""


def first_noise(estimator: BySteps, promise: Promise, neighbors: Neighbors, columns: int, rows: int) -> float:
    """Return the noise of the first release of moments, divided by the largest noise at which Newton steps converge.

    Above 1 the steps may diverge: the coefficients of a logit with 3 predictors, of length 1.8, ended at length 37 in
    one of 7 fits at a noise of .3, and at .9 at most at a noise of .15.

    Parameters
    ----------
    estimator : BySteps
        The estimator by Newton steps.
    promise : Promise
        Privacy guarantee of the whole fit: the budget.
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
