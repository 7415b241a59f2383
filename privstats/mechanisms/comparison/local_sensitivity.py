"""Ladders of a quantile: how far it can be moved by few steps, and by few more at a data set that is few steps away.

The quantile of level tau is ``T = y_m``, m = ceil(tau n), of the sorted values y_1 <= ... <= y_n; y_i = low for i < 1
and high for i > n, so that T = low where there are no values. A **ladder** is a chain of intervals V(0) = {T}, V(1),
... such that V(l) of one data set lies in V(l + 1) of each of its neighbours. With its widths W(l), and with neighbours
up to r = `rows` steps apart:

* T moves by at most W(r), since T' in V'(0) lies in V(r), as T does;
* ``S_beta = max_q W(r (q + 1)) e^(-beta q)`` is a beta-smooth bound of it: neighbours' differ by e^beta at most;
* ``A = min {q : W(r (q + 1)) > eta}`` moves by at most 1, and r steps move T by at most eta where A > 0.

Two ladders are known (the first is of sets of intervals; its W is the width of the widest):

* *sliding*: all [y_i, y_j] with i <= m <= j and j - i <= l (Nissim, Raskhodnikova and Smith 2007, section 3.1). Let i
  and h = n + 1 - j count the values up to y_i and from y_j: there are n + 1 - i - h gaps. The interval of the same
  counts, one less where the step took a value from, holds the old one: a replaced or inserted value costs a gap, a
  removed one none. It holds the new y_m, unless a removal leaves m one rank outside, for which there is the gap to
  spare. So this ladder serves both kinds of neighbours, all levels, and numbers of values that are not public.
* *centred*, for the median if a step removes or inserts: one interval, from the floor((n + 1 - l) / 2)-th lowest value
  to the ceil((n + 1 - l) / 2)-th highest. Inserting leaves these two counts as they are at l + 1, and removing lowers
  both by 1. It has half the gaps on each side.
"""

from __future__ import annotations

import math

import numpy as np

from privstats.numerics.law import FloatArray

SLIDING = 1 << 12  # so many levels by the widest of their intervals, in time SLIDING^2
REACH = 1 << 18  # so many in all, the rest by the interval that holds all of them; beyond is the whole range


def ladder(
    values: FloatArray, level: float, low: float, high: float, centred: bool = False
) -> tuple[float, FloatArray]:
    """Return the quantile and the widths W(0), W(1), ... of a ladder.

    Cut off at REACH, where W becomes the whole range (and at SLIDING, beyond which sliding intervals are replaced by
    [y_(m - l), y_(m + l)], which holds them): both keep the property of a ladder.

    Parameters
    ----------
    values : ndarray, shape (n,)
        In [low, high], in any order.
    level : float
        Of the quantile, in (0, 1).
    low, high : float
        Public range.
    centred : bool
        The ladder for the median if values are removed or inserted; otherwise the sliding one.

    Returns
    -------
    float
        The quantile.
    ndarray, shape (levels,)
        Nondecreasing widths; the width is ``high - low`` at all further levels.
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
    """Return W(r), W(2 r), ... and the width of the whole range: how far r rows can move it, at each distance q."""
    return np.append(widths[rows::rows], whole)


def smooth(moves: FloatArray, betas: FloatArray) -> FloatArray:
    """Return log S_beta, shape (betas,): of ``max_q moves[q] e^(-beta q)``."""
    q = np.flatnonzero(np.diff(moves, prepend=-1.0) > 0)
    with np.errstate(divide="ignore"):
        log_width = np.log(moves[q])
    return np.array([(log_width - beta * q).max() for beta in betas])


def distance(moves: FloatArray, eta: float) -> float:
    """Return A, how many steps away a quantile is that one step moves by more than eta; inf where there is none."""
    return float(np.searchsorted(moves, eta, side="right")) if eta < moves[-1] else math.inf


def _around(values: FloatArray, m: int, reach: int, low: float, high: float) -> FloatArray:
    """Return y_(m - reach), ..., y_(m + reach)."""
    start, stop = max(0, m - 1 - reach), min(len(values), m + reach)
    if stop - start < len(values):
        values = np.partition(values, [start, stop - 1])
    below = reach - (m - 1 - start)
    above = reach + m - stop
    return np.concatenate([np.full(below, low), np.sort(values[start:stop]), np.full(above, high)])
