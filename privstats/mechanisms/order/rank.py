"""The rank exponential mechanism: choose numbers whose ranks are near the target ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np

from privstats.errors import OptionError
from privstats.mechanisms.base import Mechanism
from privstats.mechanisms.order.bracket import draw_box
from privstats.mechanisms.order.joint import draw_joint
from privstats.mechanisms.order.rank_errors import RankErrors, RankLaw
from privstats.mechanisms.order.rank_sampler import draw_rank
from privstats.mechanisms.order.ranked import Ranked, RankGrid
from privstats.numerics.exact import step_of
from privstats.numerics.law import FloatArray, Rng
from privstats.numerics.rank_law import PLAIN, Ends, box_targets, cell_rate, interval_targets
from privstats.privacy.promise import Promise, Relation
from privstats.privacy.release import Release

GRID_BITS = 30  # log2 of the ratio of the length of the range to the grid step, if no step is declared
COUNTED_BITS = 50  # largest log2 of the ratio of the largest absolute value to the grid step, if no step is declared


class Range(Protocol):
    """Interface of a public range of values: its bounds `low` and `high`, its grid step, and the number of values.

    If the grid step `grid` is 0, `grid_of` chooses a step. The first entry of `about` is the approximate number of
    values; `about` is empty if this number is unknown.
    """

    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def grid(self) -> float: ...
    @property
    def about(self) -> tuple[float, ...]: ...


@dataclass(frozen=True)
class Rank(Mechanism):
    """Release numbers whose ranks among the values are near target ranks: quantiles, or ends of confidence intervals.

    One number, or several numbers jointly, are drawn exactly from a public grid (`rank_sampler`, `joint`, `bracket`).
    Each level tau, the probability of a quantile, determines a target rank. An error, defined below for each case, is
    a distance between the numbers' ranks and the target ranks.

    Privacy: eps-DP (McSherry and Talwar 2007, Theorem 6). The density is proportional to ``exp(-eps error / (2 S
    rows))``. One changed row changes the error by at most the sensitivity S, so the rows in which neighbours differ, at
    most `rows`, change the error by at most ``S rows``. So the exponent changes by at most eps / 2, and the log
    normaliser changes by at most eps / 2, too. The guarantee holds for the neighbouring relation `relation`, an
    argument of `release`: at most ``rows = relation.rows`` rows are replaced, or added or removed.

    *One level* tau (Smith 2011). The error is ``|rho - tau (n + 1)|``, where rho is the rank of a grid point x among n
    values: R(rho) = x, where R is the piecewise linear function through (0, low), (1, y_1), ..., (n, y_n), (n + 1,
    high), with the sorted values y_i and the ends low and high of the grid. At tied values, rho is an interval, and
    the error is the distance of ``tau (n + 1)`` from this interval. The sensitivity S is max(tau, 1 - tau) if rows are
    added or removed, and 1 if a row is replaced. Proof: if a value is added, the new function R' satisfies
    ``R(s - 1) <= R'(s) <= R(s)`` at integers s, so at all s. So each end of the interval changes by an amount in
    [0, 1], and ``tau (n + 1)`` changes by tau. If a value is replaced, both data sets arise from the same smaller data
    set by adding one value, and ``tau (n + 1)`` is equal for both. If a replaced value becomes missing, it is removed,
    and the error changes by at most max(tau, 1 - tau) <= 1.

    *Several levels* (Gillenwater, Joseph and Kulesza 2021). The drawn numbers divide the values into cells; cell j
    contains c_j values. Its target number w_j is n times the difference d_j of two adjacent levels, where 0 and 1
    count as levels. The error is ``sum_j |c_j - w_j|``. A replaced value changes two counts by 1, so S = 2, also if
    values may be missing. An added value in cell i increases c_i by 1 and each w_j by d_j. The d_j have the sum 1, so
    the error changes by at most ``(1 - d_i) + sum_{j != i} d_j = 2 (1 - d_i)``. So S = 2 (1 - min_j d_j) if rows are
    added or removed (their Lemma 1).

    *Several levels with confidence intervals*: the endpoints of the intervals are drawn, too. For each level tau, the
    target ranks are ``tau n - h(n)``, tau n and ``tau n + h(n)``, where h allows for the sampling error and the error
    of the mechanism. The error is ``sum_j |c_j - w_j|``, where w_j is the difference of two adjacent target ranks.
    S = 2 for all neighbours: no w_j decreases as n increases (`interval_targets`), so the increases d_j >= 0 of the
    w_j, which have the sum 1, again change the error by at most ``2 (1 - d_i)``. n need not be public, because h(n) is
    used only in the error.

    *One level with its confidence interval*: the error is the largest of the absolute errors of the three ranks (of
    the lower endpoint, the quantile and the upper endpoint). If a value is replaced, each rank changes by at most 1,
    so S = 1. If a value is added, each rank changes by 0 or 1, and its target changes by tau, tau - h' or tau + h',
    where h' is the increase of h. So S = max(tau, 1 - tau) + sup h' if rows are added or removed, plus 2 `FINE` for
    the rounding of targets. If rows are replaced and may be missing, S is the larger of 1 and this number
    (`box_rate`).

    *Levels without intervals*: the endpoints are drawn only for levels whose intervals can have the stated confidence.
    The choice of these levels does not depend on the values, but on their approximate number (`Range.about`), which is
    public or released before (`Ends.hopeful`). If this number is unknown, the endpoints are drawn for all levels.
    Unless `ends_only` is true, the quantiles at all other levels are drawn separately, without endpoints, with the
    share `PLAIN` of eps (all of eps if no endpoint is drawn). The shares of the draws add up to 1.

    Differences from the papers: the rank of a single number is interpolated, so that for tau = 1/2 the target is the
    usual median, the mid-point of the two middle values if n is even. The interpolation does not increase the
    sensitivity. If one number is drawn, tied values have an interval of ranks. If several numbers are drawn, tied
    values are separated by noise that is not released; the proof holds given this noise, which is the same for both
    neighbours. Each grid point is drawn exactly, so the last bits of a number carry no information about the rows. For
    several numbers, the density is defined with respect to a public measure in which zero and the ends of the range
    have more weight than other points (`joint.Parts`).

    Parameters
    ----------
    levels : tuple of float
        Probabilities of the quantiles, ascending, each in (0, 1).
    confidence : float, optional
        Confidence of intervals for the population's quantiles. If it is given, three numbers are drawn for each level:
        the lower endpoint, the quantile and the upper endpoint.
    ends_only : bool
        Whether only the two endpoints of each interval are drawn, without the quantile (if `confidence` is given).
    """

    levels: tuple[float, ...] = (0.5,)
    confidence: float | None = None
    ends_only: bool = False

    label: ClassVar[str] = "rank"

    def __post_init__(self) -> None:
        ascending = all(a < b for a, b in zip((0.0, *self.levels), (*self.levels, 1.0), strict=True))
        if not self.levels or not ascending:
            raise OptionError("the orders of quantiles must lie between 0 and 1 and differ, such as q=[0.25, 0.5]")
        if self.confidence is not None and not 0 < self.confidence < 1:
            raise OptionError("the confidence of intervals must lie between 0 and 1, such as 0.95")

    def law(self, promise: Promise, within: Any, relation: Relation) -> RankErrors | RankLaw:
        """Return the approximate, public law of the rank errors (rank minus target rank) of the released numbers.

        `promise` is the guarantee of the release, `within` the public range of the values, and `relation` the
        neighbouring relation. If `confidence` is given, the law is computed for a joint draw of the endpoints at all
        levels, even if the release omits some endpoints.
        """
        eps, kind = promise.as_pure().eps, "replace" if relation.exchange else "add_remove"
        if self.confidence is not None:
            grid = grid_of(within)
            points = grid.last - grid.first + 1
            return RankLaw(eps, relation.rows, self.levels, kind, self.confidence, self.ends_only, points)
        # A single drawn number divides the values into two cells. The sum of the absolute errors of the two counts is
        # twice the rank error. So the sensitivity of the sum is twice the sensitivity of the rank error.
        if len(self.levels) == 1:
            return RankErrors(cell_rate(eps, relation.rows, 2 * moved_by_one(self.levels[0], relation)), 1, False)
        return RankErrors(
            cell_rate(eps, relation.rows, moved_by_several(self.levels, relation)), len(self.levels), False
        )

    def release(self, name: str, exact: Any, promise: Promise, within: Any, relation: Relation, rng: Rng) -> Release:
        value = self.drawing(Ranked(exact, grid_of(within)), promise, within, relation)(rng)
        return Release(name, value, self.law(promise, within, relation), promise, within)

    def drawing(self, values: Ranked, promise: Promise, within: Any, relation: Relation) -> Callable[..., FloatArray]:
        """Return a function that draws the released numbers: quantiles of `values`, endpoints of intervals, or both.

        The argument of the function is a source of randomness. Its result is one array of numbers; an endpoint that is
        not drawn is NaN. The draws of different calls are independent, and each call satisfies the guarantee `promise`
        under the neighbouring relation `relation`. `within` is the public range of the values.
        """
        law = self.law(promise, within, relation)
        if isinstance(law, Ends):
            return partial(self._draw_hopeful, law, values, promise, within, relation)
        if len(self.levels) == 1:
            return draw_rank(values, self.levels[0], 2 * law.rate)
        return partial(draw_joint, values, np.array(self.levels) * values.n, np.full(len(self.levels) + 1, law.rate))

    def _draw_hopeful(
        self, law: Ends, values: Ranked, promise: Promise, within: Range, relation: Relation, rng: Rng
    ) -> FloatArray:
        """Return the random lower endpoint, quantile and upper endpoint for each level, in one array.

        `law` describes a joint draw for all levels; its method `hopeful` omits the levels whose intervals cannot have
        the stated confidence. At the omitted levels, the endpoints are NaN and the quantiles are drawn separately. If
        ``law.alone`` is true, the array contains only endpoints. The other arguments are as in `drawing`.
        """
        draw = law.hopeful(within.about[0]) if within.about else law
        kept = np.isin(self.levels, () if draw is None else draw.levels)
        drawn = np.full((len(self.levels), 2 if law.alone else 3), np.nan)
        if draw is not None:
            drawn[kept] = draw_ends(draw, values, rng).reshape(-1, drawn.shape[1])
        if not (law.alone or kept.all()):
            others = Rank(tuple(np.array(self.levels)[~kept].tolist()))
            part = promise.as_pure().part(PLAIN if kept.any() else 1.0)
            known = np.where(kept, drawn[:, 1], np.nan)
            below, above = np.fmax.accumulate(known), np.fmin.accumulate(known[::-1])[::-1]
            drawn[~kept, 1] = others.drawing(values, part, within, relation)(rng)
            drawn[:, 1] = np.fmin(np.fmax(drawn[:, 1], below), above)  # put the quantiles in ascending order
        return drawn.ravel()


def grid_of(within: Range) -> RankGrid:
    """Return the public grid of the range `within`.

    If no step is declared, the step is about 2^-30 of the length of the range, but at least 2^-50 of the largest
    absolute value in the range.
    """
    reach = max(abs(within.low), abs(within.high))
    step = within.grid or max(step_of(within.high - within.low, GRID_BITS), step_of(reach, COUNTED_BITS))
    return RankGrid(within.low, within.high, step)


def moved_by_one(level: float, relation: Relation) -> float:
    """Return the sensitivity S for the quantile of probability `level`: the largest effect of one row on a rank error.

    The rank error is the distance of the rank of a grid point from the target rank of the quantile. The row is
    replaced, or added or removed, as `relation` states.
    """
    return 1.0 if relation.exchange else max(level, 1 - level)


def moved_by_several(levels: tuple[float, ...], relation: Relation) -> float:
    """Return the sensitivity S for several quantiles: the largest change of their joint error due to one changed row.

    The numbers drawn as quantiles, with probabilities `levels`, divide the values into cells. The error is the sum over
    the cells of the absolute difference between the number of values in the cell and the cell's target number. The row
    is replaced, or added or removed, as `relation` states.
    """
    shares = np.diff(levels, prepend=0.0, append=1.0)
    return 2.0 if relation.exchange else 2 * (1 - float(shares.min()))


def draw_ends(ends: Ends, values: Ranked, rng: Rng) -> FloatArray:
    """Return random quantiles with their confidence intervals, ascending: lower endpoint, quantile, upper endpoint, ...

    `ends` has the levels, the confidence and the rate of the draw, and `values` the data. The quantiles are left out if
    ``ends.alone`` is true.
    """
    n = values.n
    if ends.box:
        targets = box_targets(n, ends.levels[0], ends.confidence, float(ends.margins[0, 0]), ends.alone)
        return draw_box(values, targets, ends.rate, rng)
    targets = interval_targets(n, ends.levels, ends.confidence, ends.rate, ends.alone)
    return draw_joint(values, targets, np.full(len(targets) + 1, ends.rate), rng)
