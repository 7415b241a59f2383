"""The rank exponential mechanism: choose numbers whose ranks are near those that are wanted."""

from __future__ import annotations

from typing import Any

import numpy as np

from privstats.mechanisms.random import Generator
from privstats.older.mechanisms.base import PureMechanism
from privstats.older.mechanisms.order.bracket import draw_box
from privstats.older.mechanisms.order.joint import draw_joint
from privstats.older.mechanisms.order.rank_sampler import draw_rank
from privstats.older.numerics.exact import Gathered
from privstats.older.numerics.law import FloatArray
from privstats.older.numerics.rank_law import Ends, box_targets, cell_rate, interval_targets
from privstats.older.privacy.release import Release, Sensitivity, ValueSensitivity


class Rank(PureMechanism):
    """Choose one number, or several jointly, with a density that falls with the errors of their ranks.

    Privacy: eps = 1 / multiplier (McSherry and Talwar 2007, Theorem 6). Neighbours move the error by at most S for each
    of a unit's `rows` (triangle inequality along a chain of data sets), so the exponent ``eps error / (2 S rows)`` by
    eps / 2, and the normaliser by as much again. Neighbouring relation: that of the sensitivity. Sampled exactly
    (`rank_sampler`, `joint`), on a public grid.

    *One level* tau (Smith 2011). The error is ``|rho - tau (n + 1)|``, where rho, the rank of a grid point x, is the
    inverse of the line R through (0, low), (1, y_1), ..., (n, y_n), (n + 1, high): an interval where R is flat, and
    then the error is the distance to it. S = max(tau, 1 - tau) under "add_remove", 1 under "replace". Proof: with a
    value more ``R(s - 1) <= R'(s) <= R(s)`` at whole s, hence at all s, so each end of the interval moves by an amount
    in [0, 1], and ``tau (n + 1)`` by tau. For a value replaced, both data sets are the same one with a value more, and
    ``tau (n + 1)`` stays. A value replaced by none is removed, and max(tau, 1 - tau) <= 1.

    *Several levels* (Gillenwater, Joseph and Kulesza 2021). The error is ``sum_j |c_j - w_j|``: the chosen numbers cut
    the values into cells of c_j, of which w_j are wanted, in sum n. A value replaced moves two counts by 1, S = 2. One
    more, in cell i, adds 1 to c_i and w'_j >= 0, in sum 1, to each w_j: the error moves by at most
    ``(1 - w'_i) + sum_{j != i} w'_j = 2 (1 - w'_i)``. As w'_j is the difference of neighbouring levels, whatever n,
    S = 2 (1 - min_j w'_j) under "add_remove" (their Lemma 1), and 2 under "replace", whether or not values may be
    missing.

    *Levels with the ends of their intervals*: the same with ranks ``tau n -+ h(n)`` wanted of the ends, where h holds
    the error of sampling and that of the mechanism. S = 2 under each relation: no w_j falls as n grows, so
    ``w'_j >= 0`` (`interval_targets`). n need not be public: h(n) enters through the error.
    *A single level with its ends*: the error is the largest of the three ranks'. A value replaced moves each rank by at
    most 1, S = 1. One more moves it by 0 or 1 and what is wanted of it by tau -+ h'(n): S = max(tau, 1 - tau) + sup h'
    under "add_remove", the larger of both where values may be missing (`bracket`).

    Changed of the papers: the rank of a single number is interpolated, which aims at the mid-point median and takes no
    more noise; ties have an interval of ranks there, and are spread by secret noise, which neighbours share, where
    several are chosen; numbers lie on a public grid, so that their last bits say nothing.
    """

    name, norm = "rank", "values"

    def release(self, name: str, exact: Any, sensitivity: Sensitivity, chance: Generator) -> Release:
        assert isinstance(exact, Gathered) and isinstance(sensitivity, ValueSensitivity)
        values, levels = exact.values(), exact.wanted.levels
        grid = (sensitivity.low, sensitivity.high, sensitivity.step)
        eps, rows = 1 / self.multiplier, sensitivity.rows
        if len(levels) == 1 and exact.wanted.confidence is None:
            rate = eps / (2 * moved_by_one(levels[0], sensitivity.kind) * rows)
            return Release(name, draw_rank(values, levels[0], rate, *grid, chance), None, self.event)
        if exact.wanted.confidence is not None:
            ends = Ends(eps, rows, levels, sensitivity.kind, exact.wanted.confidence, exact.wanted.ends_only)
            return Release(name, draw_ends(ends, values, *grid, chance), None, self.event)
        rate = cell_rate(eps, rows, moved_by_several(levels, sensitivity.kind))
        targets = np.array(levels) * len(values)
        value: FloatArray = draw_joint(values, targets, np.full(len(targets) + 1, rate), *grid, chance)
        return Release(name, value, None, self.event)


def moved_by_one(level: float, kind: str) -> float:
    """Return S of a single level: how far one row moves the error of a number's rank."""
    return max(level, 1 - level) if kind == "add_remove" else 1.0


def moved_by_several(levels: tuple[float, ...], kind: str) -> float:
    """Return S of several levels: how far one row moves the sum of the cells' errors."""
    shares = np.diff(levels, prepend=0.0, append=1.0)
    return 2 * (1 - float(shares.min())) if kind == "add_remove" else 2.0


def draw_ends(ends: Ends, values: FloatArray, low: float, high: float, step: float, chance: Generator) -> FloatArray:
    """Draw the boundaries, ascending: for each level its lower end, itself unless `alone`, its upper end."""
    n = len(values)
    if ends.box:
        targets = box_targets(n, ends.levels[0], ends.confidence, float(ends.margins[0, 0]), ends.alone)
        return draw_box(values, targets, ends.rate, low, high, step, chance)
    targets = interval_targets(n, ends.levels, ends.confidence, ends.rate, ends.alone)
    return draw_joint(values, targets, np.full(len(targets) + 1, ends.rate), low, high, step, chance)
