"""Coding of the rows of the data as vectors whose second moments are released.

In this coding, a factor with many levels adds no more to the norm of a vector than a numeric column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from privstats.estimators.constants import SIGNAL
from privstats.estimators.frame import PublicBox
from privstats.losses.rows import CodedColumns, RootWeighted
from privstats.mechanisms.base import Additive
from privstats.numerics.law import FloatArray
from privstats.privacy.promise import PureDP, Relation
from privstats.sets.coded import CodedProducts
from privstats.sets.vectors import BoxProducts

MOST_CONDITION = 1e10  # the map from level indicators to columns is inverted only if its condition number is below this


@dataclass(frozen=True, eq=False)
class Entries:
    """Public description of the vectors (1, z) whose second moments are released, with z = (predictors, response).

    The noise of all moments increases with the largest squared norm of these vectors. A factor whose columns are coded
    by -1 and 1 adds the number of its columns to the squared norm. With one indicator per level, a factor adds at most
    1, however many levels it has, because at most one of its indicators is 1 in each row.

    Parameters
    ----------
    box : PublicBox
        Public information about the design's columns.
    by_level : bool
        Whether z has indicators of the factor levels; otherwise z has the factors' coded columns.
    counted : bool
        Whether the number of rows is released.
    """

    box: PublicBox
    by_level: bool
    counted: bool

    @cached_property
    def coded(self) -> tuple[tuple[int, tuple[int, ...], FloatArray], ...]:
        """Factors whose level indicators replace columns of the design: triples (factor, replaced columns, values).

        The factor with the most levels comes first. The first entry of a triple is the index of the factor; the last
        entry is a matrix with the values of the replaced columns at each level (row). A factor is listed if its
        indicators replace at least two columns. The indicators of an interaction also replace the columns of the
        interacting factors.
        """
        found, left = [], set(self.box.slopes) if self.by_level else set()
        for k, factor in sorted(enumerate(self.box.design.factors), key=lambda one: -len(one[1].levels)):
            own = [place for place, column in enumerate(factor.columns) if column in left]
            if len(own) > 1:
                columns = tuple(int(factor.columns[place]) for place in own)
                found.append((k, columns, np.asarray(factor.contrasts, dtype=float)[:, own]))
                left -= {*columns}
        return tuple(found)

    @cached_property
    def others(self) -> list[int]:
        """Indices of the predictors that are not replaced by level indicators, followed by the index of the response.

        The design's columns have the indices 0, ..., c - 1; the response has the index c. The intercept is left out.
        """
        coded = {column for _, columns, _ in self.coded for column in columns}
        return [j for j in (*self.box.slopes, self.box.c) if j not in coded]

    @property
    def predictors(self) -> int:
        """Largest number of nonzero predictors in a row, plus 1 if their products with the constant are released."""
        constant = not self.coded and self.box.intercept is not None
        return len(self.coded) + len(self.others) - 1 + constant

    def lighter(self, most: float) -> float:
        """Return a factor of at most 1; a limit on the forecast noise of a fit is multiplied by this factor.

        If the forecast noise exceeds the limit, the fit uses noisy second moments, and otherwise a method that whitens
        the columns, such as Newton steps. The factor lowers the limit in designs with many columns that are zero in
        most rows, because the noise of whitening methods increases with the number of columns, but the noise of second
        moments only with the number of nonzero entries of a row.

        Parameters
        ----------
        most : float
            Largest ratio of the number of columns to the largest number of nonzero predictors in a row at which the
            factor is 1.
        """
        return min(1.0, most * self.predictors / max(self.box.c, 1))

    @cached_property
    def within(self) -> BoxProducts:
        """Set in which every row's vector z of predictors and response lies.

        If z has level indicators, the factor with the most levels has an entry for every level. These entries add up to
        1 in each row, so the number of rows and the sums of the entries of z follow from the second moments and are not
        released separately. Other factors have an entry for every level but the last.
        """
        own = len(self.others)
        if not self.coded:
            return BoxProducts(own, self.box.intercept is not None, self.counted, response_scale(1.0 + own))
        ends = np.cumsum([1, *(len(values) - (k > 0) for k, (_, _, values) in enumerate(self.coded))]).tolist()
        groups, scale = tuple(tuple(range(*pair)) for pair in pairwise(ends)), response_scale(len(self.coded) + own)
        return CodedProducts(ends[-1] - 1 + own, intercept=False, counted=False, last_scale=scale, groups=groups)

    def quietest(self, laws: Mapping[str, Additive]) -> str:
        """Return the name of the mechanism in `laws` that adds the least noise to second moments of the response.

        These second moments are the sums over rows of the response times the constant, and of the response times each
        predictor. The mechanisms are compared by the average noise variance of these sums.
        """
        with_response = self.within.where[:-1, -1]

        def variance(name: str) -> float:
            each = laws[name].law(PureDP(1.0), self.within, Relation()).variance()
            return float(each[with_response[with_response >= 0]].mean())

        return min(laws, key=variance)

    @cached_property
    def rows(self) -> RootWeighted | CodedColumns:
        """Function that maps rows to vectors z of predictors and response; factors are coded by level indices."""
        box, factors = self.box, tuple(factor for factor, *_ in self.coded)
        columns = np.column_stack([np.eye(box.width)[:, self.others[:-1]], box.response / (1.0 + box.offset_reach)])
        return CodedColumns(factors, columns) if factors else RootWeighted(columns)

    @cached_property
    def constant(self) -> FloatArray:
        """Vector w of weights for which w'v = 1 holds for the vector v = (1, predictors, response) of every row."""
        one = np.zeros(self.within.q + 1)
        one[list(self.within.groups[0]) if self.coded else 0] = 1.0
        return one

    @cached_property
    def to_columns(self) -> FloatArray:
        """Matrix that maps a row's vector (1, z) to c design columns and the response minus the offset.

        The vector z contains the predictors and the response. The shape of the matrix is (1 + entries of z, c + 1).
        """
        box, own = self.box, len(self.others)
        onto = np.zeros((self.within.q + 1, box.c + 1))
        onto[-own:, self.others] = np.eye(own)
        onto[-1, -1] = 1.0 + box.offset_reach
        for group, (_, columns, values) in zip(self.within.groups, self.coded, strict=True):
            last = values[-1] if len(group) < len(values) else np.zeros(len(columns))
            onto[np.ix_(group, columns)] = values[: len(group)] - last
            onto[:, list(columns)] += np.outer(self.constant, last)
        if box.intercept is not None:
            onto[:, box.intercept] = self.constant
        return onto

    @cached_property
    def told(self) -> bool:
        """Whether rows are coded with level indicators that are linear functions of the design's columns."""
        onto = self.to_columns[1:-1, :-1]
        return bool(self.coded) and len(onto) == onto.shape[1] and bool(np.linalg.cond(onto, 1) < MOST_CONDITION)

    @cached_property
    def from_columns(self) -> FloatArray:
        """Matrix W, shape (c, c), that maps a row x of the design's columns to coordinates ``x W``.

        The design has c columns. The released second moments of the coordinates have about equal noise. If rows are
        coded with level indicators, and these are linear functions of the design's columns (property `told`), the
        coordinates are the indicators and the other predictors. Otherwise the coordinates are the design's columns,
        and W is the identity.
        """
        return np.asarray(np.linalg.inv(self.to_columns[1:-1, :-1]) if self.told else np.eye(self.box.c), dtype=float)


def response_scale(others: float) -> float:
    """Return the factor B for the response that minimises the noise of coefficients computed from second moments.

    The second moments of rows (1, predictors, B * response) are released. Their noise sd is taken as proportional to
    ``others + B^2``, an upper bound on the squared norm of a row. A moment of a predictor and the response is then
    divided by B, and so is its noise. The noise variance of a coefficient is therefore proportional to
    ``(others + B^2)^2 (1 / B^2 + S)``, where S is the squared norm of the coefficient vector, assumed to be `SIGNAL`.

    Parameters
    ----------
    others : float
        Upper bound on the squared norm of a row's vector (1, predictors).
    """
    return float(np.sqrt((-1 + np.sqrt(1 + 8 * SIGNAL * others)) / (4 * SIGNAL)))
