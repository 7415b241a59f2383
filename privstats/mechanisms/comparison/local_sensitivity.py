"""Ladders of a quantile: bounds on the change of the quantile if l = 1, 2, ... rows of a data set change.

The quantile of level tau is ``T = y_m`` with the rank m = ceil(tau n), where y_1 <= ... <= y_n are the sorted values.
For ranks outside 1, ..., n, y_i denotes an end of the public range: low for i < 1, and high for i > n. So T = low if
there are no values.

A step is the replacement, insertion or removal of one row. A **ladder** is a chain of intervals (or sets of intervals)
V(0) = {T}, V(1), ... such that V(l) of one data set lies in V(l + 1) of every data set that differs by one step. Let
W(l) be the width of V(l), and let neighbours differ by up to r = `rows` steps:

* T changes by at most W(r) between neighbours, because T and the quantile T' of the neighbour both lie in V(r);
* ``S_beta = max_q W(r (q + 1)) e^(-beta q)`` is a beta-smooth bound on this change: the ratio of the bounds of two
  neighbours is at most e^beta;
* for a given eta, ``A = min {q : W(r (q + 1)) > eta}`` differs by at most 1 between neighbours, and if A > 0, r steps
  change T by at most eta.

There are two kinds of ladders, *sliding* and *centred*.

*Sliding*: V(l) is the set of all intervals [y_i, y_j] with i <= m <= j and j - i <= l, and W(l) is the largest of
their widths (Nissim, Raskhodnikova and Smith 2007, section 3.1). V(l) lies in V(l + 1) of another data set if each
interval of V(l) is contained in an interval of V(l + 1). Proof for one step: if i = j, the interval is T alone, and
after the step T lies between the new quantile and a value of adjacent rank. If i < j, [y_i, y_j] extends from the i-th
lowest to the h-th highest value, with h = n + 1 - j, and has j - i gaps between consecutive values. If the step
removes one of the i lowest values, lower i by 1; if it removes one of the h highest values, lower h by 1. After the
step, the interval from the i-th lowest to the h-th highest value contains the old interval.

* After a replacement or an insertion, this interval contains the new quantile and has at most one gap more.
* After a removal, this interval has no additional gap, and the rank of the new quantile is at most one rank outside the
  interval. If the new quantile is outside, the interval is extended by one gap, to the new quantile.

So in each case an interval of V(l + 1) contains the old interval. The proof applies to both kinds of neighbours, to
all levels tau, and to a private number of values.

*Centred*, for the median if a step removes or inserts a row: V(l) is one interval, from the floor((n + 1 - l) / 2)-th
lowest value to the ceil((n + 1 - l) / 2)-th highest value. If a row is inserted, V(l + 1) of the neighbour has the
same two ranks; if a row is removed, both ranks are lower by 1. So V(l + 1) contains V(l). On each side of T, V(l) has
about half as many gaps as the longest sliding intervals.
"""

from __future__ import annotations

import math

import numpy as np

from privstats.numerics.law import FloatArray

# largest level l of a ladder at which all sliding intervals are compared; the comparisons take a time proportional to
# SLIDING^2
SLIDING = 1 << 12
REACH = 1 << 18  # at the levels l above this number, the interval of a ladder is the whole public range


def ladder(
    values: FloatArray, level: float, low: float, high: float, centred: bool = False
) -> tuple[float, FloatArray]:
    """Return a quantile and the widths W(0), W(1), ... of its ladder.

    If l rows change, the quantile changes by at most W(l). A ladder is a sequence of growing intervals, or sets of
    intervals, around the quantile; the module's docstring defines the two kinds, sliding and centred. To save time,
    larger intervals, which also form a ladder, are used if many rows change. For l > SLIDING, the sliding intervals
    are replaced by one interval that contains all of them, ``[y_(m - l), y_(m + l)]``, where y are the sorted values
    and y_m is the quantile. For l > REACH, the interval is the whole range.

    Parameters
    ----------
    values : ndarray, shape (n,)
        The values, in [low, high], in any order.
    level : float
        Probability of the quantile, in (0, 1).
    low, high : float
        Public range.
    centred : bool
        Whether to use the centred ladder, for the median if values are removed or inserted; otherwise, the sliding
        ladder.

    Returns
    -------
    float
        The quantile.
    ndarray
        Nondecreasing widths W(0), W(1), ...; for all larger l, the width is ``high - low``.
    """
    n, m = len(values), math.ceil(level * len(values))
    levels = min(REACH, n + 1)
    y = _around(values, m, levels, low, high)
    steps = np.arange(levels + 1)
    if centred:
        below, above = (steps // 2, (steps + 1) // 2)[:: 1 if n % 2 == 0 else -1]
        return float(y[levels]), y[levels + above] - y[levels - below]
    widths = y[levels + steps] - y[levels - steps]
    for step in range(1, min(SLIDING, levels) + 1):
        widths[step] = (y[levels : levels + step + 1] - y[levels - step : levels + 1]).max()
    return float(y[levels]), widths


def at_distances(widths: FloatArray, rows: int, whole: float) -> FloatArray:
    """Return bounds on the change of the quantile if one unit changes, at data sets near the given data.

    A unit (row or person) has up to r = `rows` rows. If l rows change, the quantile changes by at most the width W(l)
    of the ladder (`widths`, see `ladder`). Entry q of the result is W(r (q + 1)), a bound at every data set that
    differs from the given data in q units. The last entry is `whole`, the width of the public range.
    """
    return np.append(widths[rows::rows], whole)


def smooth(moves: FloatArray, betas: FloatArray) -> FloatArray:
    """Return the log of the smooth sensitivity ``max_q moves[q] e^(-beta q)`` for each number beta in `betas`.

    ``moves[q]`` bounds the change of the quantile if one unit changes, at data sets that differ from the given data in
    q units. Between neighbours, the log of the smooth sensitivity changes by at most beta.
    """
    q = np.flatnonzero(np.diff(moves, prepend=-1.0) > 0)
    with np.errstate(divide="ignore"):
        log_width = np.log(moves[q])
    return np.array([(log_width - beta * q).max() for beta in betas])


def distance(moves: FloatArray, eta: float) -> float:
    """Return the distance of the nearest data set at which one unit may change the quantile by more than eta.

    ``moves[q]`` bounds the change of the quantile if one unit changes, at data sets that differ from the given data in
    q units. The returned distance is the smallest q with ``moves[q] > eta``, or inf if no bound exceeds eta.
    """
    return float(np.searchsorted(moves, eta, side="right")) if eta < moves[-1] else math.inf


def _around(values: FloatArray, m: int, reach: int, low: float, high: float) -> FloatArray:
    """Return the sorted values whose ranks differ from the rank m by at most `reach`, shape (2 reach + 1,).

    The lowest of the n values has rank 1. The entries are `low` at ranks below 1, and `high` at ranks above n.
    """
    start, stop = max(0, m - 1 - reach), min(len(values), m + reach)
    if stop - start < len(values):
        values = np.partition(values, [start, stop - 1])
    below = reach - (m - 1 - start)
    above = reach + m - stop
    return np.concatenate([np.full(below, low), np.sort(values[start:stop]), np.full(above, high)])
