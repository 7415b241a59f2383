"""Draws of quantile-regression coefficients by a Markov chain, for more columns than rejection sampling can handle.

Each state of the chain is a vector theta of coefficients, and a draw is the last state. The target density depends on
the loss (the sum of the check losses), or on the score (its derivative). Each step draws theta from the conditional law
on a line through the current theta. Along a line the score is constant, and the loss linear, in each piece between two
points where a residual is zero. So the conditional law is known piece by piece, and no step size is tuned.

Only the pieces in an interval of the line, the *window*, are computed; there, large residuals keep their signs, so
that their rows add a constant to the score. Beyond each end of the window the density has an upper bound, since the
derivative of the loss increases along the line. As long as the mass of a bound exceeds `SELDOM` times the mass in the
window, the window is enlarged. Then a point is proposed from the pieces and the bounds. A point in the window is
accepted. A point outside is accepted with probability density / bound, with the density computed from all rows;
otherwise another point is proposed. So each step has the conditional law of its line, for every window.

The draw is approximate in one respect: the chain ends after a fixed number of sweeps, and the distance of the law of
its last state from the target law depends on the rows. No bound on this distance is proved. The script
`benchmarks/chain_sweeps.py` (seed 1) compares 120 chains of 200 sweeps with exact draws, for three coefficients and 60
rows. If the rate (the factor of the norm of the score in the log density) is at most 2, no difference is detectable,
even with ties, equal predictors, or a single informative row. The largest Kolmogorov distance is .21, for two
predictors with correlation .999 at tau = 0.99 and the largest allowed rate, 8; sampling error alone is up to .16.

The first state, the axes and the law of the random directions are computed from the rows before the chain begins. The
stationary law does not depend on these three choices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privstats.mechanisms.quantile_regression.minimise import Target, dual_size, loss, score, size_of
from privstats.mechanisms.quantile_regression.rows import Pool, RowFrame
from privstats.numerics.law import FloatArray, Rng

SWEEPS = 200
# a window (an interval of a line) is enlarged if the bound on the mass beyond one of its ends exceeds this share of the
# mass inside the window
SELDOM = 2.0**-8
WIDER_WINDOW = 1.5  # factor by which a window, or the box for which rows are selected (`look`), is enlarged if needed


def sample_lines(rng: Rng, target: Target, sweeps: int = SWEEPS) -> FloatArray:
    """Return theta, shape (d,), drawn approximately from the density `target`: the last state of a Markov chain.

    theta has the coefficients of a quantile regression; the chain starts at the minimiser of the sum of check losses.
    Its sweeps alternate between steps along d coordinate axes (Gibbs; `RowFrame`) and steps in d random directions
    (hit-and-run). Hit-and-run steps also move along oblique ridges of the density, on which Gibbs steps are short.

    Parameters
    ----------
    rng : Rng
        Source of randomness.
    target : Target
        Density of theta, and the rows of the regression.
    sweeps : int
        Number of sweeps of d steps each; public.

    Returns
    -------
    ndarray, shape (d,)
    """
    lines = CheckLines(target)
    for sweep in range(sweeps):
        lines.sweep(rng, sweep % 2 == 1)
    return lines.theta


@dataclass(frozen=True)
class Outside:
    """An upper bound on the density along a line, beyond one end of an interval (the window).

    The bound is ``exp(-height - slope s)`` at the distance s from this end of the window. The largest possible s is
    `length`, the distance from this end to the boundary of the parameter set. If the slope is negative, there is no
    bound.
    """

    height: float
    slope: float
    length: float

    @property
    def log_mass(self) -> float:
        if self.length <= 0:
            return -math.inf
        if self.slope < 0:
            return math.inf
        return -self.height + math.log(self.length) + float(np.log(_share(np.array(self.slope * self.length))))

    def place(self, rng: Rng) -> float:
        """Return a random distance s from the end of the window, with density proportional to the bound.

        The density of s is proportional to ``exp(-slope s)`` on the interval from 0 to `length`.
        """
        return self.length * _fallen(float(rng.uniform(0.0, 1.0, None)), self.slope * self.length)


@dataclass(frozen=True, eq=False)
class LineWindow:
    """An interval (window) of a line through the current state of a Markov chain, divided into pieces.

    The state is a vector theta of quantile regression coefficients. Pieces end where the residual of a row is zero, so
    the score (the derivative of the sum of check losses with respect to theta) is constant in each piece.

    Parameters
    ----------
    edges : ndarray, shape (k + 1,)
        Ends of the k pieces: values of t for the points ``theta + t v`` of the line with the direction v.
    pulls : ndarray, shape (d, k)
        The score in each piece.
    slopes : ndarray, shape (k,)
        Derivative of the sum of check losses with respect to t in each piece.
    logs : ndarray, shape (k,)
        Log of the integral of the target density over each piece, up to a constant that all pieces share.
    tails : tuple of two Outside
        Upper bounds, up to the same constant, on the density before and after the window, as far as the boundary of
        the parameter set.
    """

    edges: FloatArray
    pulls: FloatArray
    slopes: FloatArray
    logs: FloatArray
    tails: tuple[Outside, Outside]


class CheckLines:
    """A Markov chain of coefficients theta with the stationary density `target`; `theta` is the current state."""

    def __init__(self, target: Target) -> None:
        self.target, self.frame = target, RowFrame.of(target)
        self.inverse = np.linalg.inv(self.frame.basis)
        self.phi = np.zeros(len(self.frame.centre))
        self.all = Pool.of(self.frame)
        d = len(self.phi)
        near = (30.0 + 2 * d) / target.rate if target.norm != "loss" else 7.0 / math.sqrt(target.rate)
        self.look(np.minimum(self.frame.halves, near))

    @property
    def theta(self) -> FloatArray:
        """The current state of the chain, shape (d,)."""
        theta = self.frame.centre + self.frame.basis @ self.phi
        return np.asarray(theta * min(1.0, self.target.radius / max(float(np.abs(theta).sum()), self.target.radius)))

    def look(self, halves: FloatArray) -> None:
        """Select the rows whose residual can change sign in a box around the minimiser of the loss.

        The box consists of all ``theta = centre + basis phi`` (`RowFrame`) with |phi| <= `halves` in each coordinate.
        The scores of all other rows are constant in the box, so their sum is computed only once.
        """
        self.halves = halves
        self.pool = self.all.within(np.zeros(len(halves)), halves)
        rows = self.pool.rows
        self.x = np.ascontiguousarray(self.target.x[rows].T)
        self.slopes = np.ascontiguousarray(self.frame.slopes[rows].T)
        self.refresh()

    def refresh(self) -> None:
        """Compute the residuals and the score anew at the current state, to remove accumulated rounding errors."""
        self.u = self.frame.u[self.pool.rows] - self.phi @ self.slopes
        self.pull = self.pool.pull + self.x @ (self.u <= 0)

    def sweep(self, rng: Rng, random: bool) -> None:
        """Take d steps of the chain: in random directions if `random`, otherwise along each axis of the `RowFrame`."""
        d = len(self.phi)
        self.refresh()
        for way in rng.standard_normal((d, d)) if random else np.eye(d):
            self.step(rng, way)

    def step(self, rng: Rng, way: FloatArray) -> None:
        """Draw the next state on the line through the current state in the direction ``basis @ way`` (`RowFrame`)."""
        v = self.frame.basis @ way
        whole = segment(self.frame.centre + self.frame.basis @ self.phi, v, self.target.radius)
        middle, first = self.first_reach(way, v, whole[1] - whole[0])
        reach = [first, first]
        while True:
            slopes = way @ self.slopes if np.count_nonzero(way) > 1 else self.slopes[int(np.argmax(way))]
            box = segment_of_box(self.phi, way, self.halves)
            ends = (
                max(whole[0], box[0], min(0.0, middle - reach[0])),
                min(whole[1], box[1], max(0.0, middle + reach[1])),
            )
            window = self.window(slopes, v, whole, ends)
            if not np.isfinite(window.logs).any():
                return  # the line only touches the parameter set at a corner: no step is possible
            highest = float(window.logs.max())
            inside = highest + math.log(float(np.exp(window.logs - highest).sum()))
            missed = [tail.log_mass > inside + math.log(SELDOM) for tail in window.tails]
            if any(missed[k] and ends[k] == box[k] for k in (0, 1)):
                self.look(np.minimum(self.frame.halves, WIDER_WINDOW * self.halves))
            if any(missed):
                reach = [WIDER_WINDOW * reach[k] if missed[k] else reach[k] for k in (0, 1)]
                continue
            t, piece = self.choose(rng, window, inside)
            if piece is not None:
                self.phi, self.u, self.pull = self.phi + t * way, self.u - t * slopes, window.pulls[:, piece]
                return
            side = int(t > 0)
            tail = window.tails[side]
            bound = tail.height + tail.slope * abs(t - ends[side])
            if rng.uniform(0.0, 1.0, None) < math.exp(min(0.0, bound - self.potential(v, t, ends[0]))):
                self.phi = self.phi + t * way
                self.look(np.minimum(self.frame.halves, np.maximum(self.halves, WIDER_WINDOW * np.abs(self.phi))))
                return

    def potential(self, v: FloatArray, t: float, start: float) -> float:
        """Return minus the log target density, up to a constant, at the point ``theta + t v`` of a line.

        theta is the current state, v the direction. If the density depends on the score (derivative of the loss), the
        result is the rate in `Target` times the norm of the score at this point. If the density depends on the loss,
        the result is the rate times the increase of the loss from ``theta + start v`` to this point.
        """
        target, theta = self.target, self.frame.centre + self.frame.basis @ self.phi
        if target.norm == "loss":
            there, here = (loss(target.x, target.y, target.tau, theta + s * v) for s in (t, start))
            return target.rate * (there - here)
        pull = score(target.x, target.y, target.tau, theta + t * v)
        return target.rate * float(size_of(target.norm, pull, target.tilt))

    def first_reach(self, way: FloatArray, v: FloatArray, length: float) -> tuple[float, float]:
        """Return the centre and half-length of the first window, the interval of a line in which pieces are computed.

        Both results are values of t for the points ``theta + t v`` of the line, where theta is the current state and
        ``v = basis @ way`` (`RowFrame`). Both results are computed from a quadratic approximation of the loss. If the
        target density depends on the loss, the half-length is five standard deviations of the approximate density on
        the line. If it depends on the score, the half-length is such that, approximately, the mass outside the window
        is at most `SELDOM` times the mass inside. `length` is the length, in units of t, of the part of the line in the
        parameter set.
        """
        target = self.target
        if target.norm == "loss":
            bend = float(way @ way)
            return -float(v @ self.pull) / bend, 5.0 / math.sqrt(target.rate * bend)
        # estimated second derivative of the loss along the line: v'Hv with the loss's estimated Hessian H, as way = Hv
        bend = max(float(abs(v @ way)), 1e-300)
        scale = float(dual_size(target.norm, v, target.tilt)) / (target.rate * bend)
        here = target.rate * float(size_of(target.norm, self.pull, target.tilt))
        return -float(v @ self.pull) / bend, scale * (here + math.log1p(length / scale) - math.log(SELDOM))

    def window(
        self, slopes: FloatArray, v: FloatArray, whole: tuple[float, float], ends: tuple[float, float]
    ) -> LineWindow:
        """Return the part of the line ``theta + t v`` with t between the two numbers `ends`, as a `LineWindow`.

        theta is the current state. The line is in the parameter set if t lies between the two numbers `whole`; the
        upper bounds on the density outside the window hold for all t between these two numbers. `slopes` has the
        decrease of the residual of each selected row (`look`) per unit of t.
        """
        target = self.target
        with np.errstate(divide="ignore", invalid="ignore"):
            t = self.u / slopes
        picked = np.flatnonzero((t > ends[0]) & (t < ends[1]))
        t = t[picked]
        order = np.argsort(t)
        picked = picked[order]
        rising = slopes[picked] > 0
        pulls = np.empty((len(v), len(picked) + 1))
        change = pulls[:, 1:]  # jumps of the score: by x or -x where a row's residual is zero
        np.multiply(np.take(self.x, picked, axis=1), np.where(rising, 1.0, -1.0), out=change)
        behind = (self.u[picked] <= 0) == rising
        pulls[:, 0] = self.pull - change @ behind
        for entry in pulls:
            np.cumsum(entry, out=entry)
        edges = np.concatenate([[ends[0]], t[order], [ends[1]]])
        lengths, tilts = np.maximum(np.diff(edges), 0.0), v @ pulls
        with np.errstate(divide="ignore"):
            logs = np.log(lengths)
        rest = ends[0] - whole[0], whole[1] - ends[1]
        if target.norm != "loss":
            logs -= target.rate * size_of(target.norm, pulls.T, target.tilt)
            steep = target.rate / float(dual_size(target.norm, v, target.tilt))
            rises = max(0.0, -float(tilts[0]) * steep), max(0.0, float(tilts[-1]) * steep)
            return LineWindow(
                edges, pulls, tilts, logs, (Outside(rises[0], 0.0, rest[0]), Outside(rises[1], 0.0, rest[1]))
            )
        heights = target.rate * np.concatenate([[0.0], np.cumsum(tilts * lengths)])
        fall = target.rate * np.abs(tilts) * lengths
        logs += -np.minimum(heights[:-1], heights[1:]) + np.log(_share(fall))
        left = Outside(0.0, -target.rate * float(tilts[0]), rest[0])
        right = Outside(float(heights[-1]), target.rate * float(tilts[-1]), rest[1])
        return LineWindow(edges, pulls, tilts, logs, (left, right))

    def choose(self, rng: Rng, window: LineWindow, inside: float) -> tuple[float, int | None]:
        """Draw a point ``theta + t v`` of a line through the current state theta; return t and the index of its piece.

        The density of the point is proportional to the target density in the window and, with the same factor, to the
        upper bounds ``window.tails`` outside the window. The index is None for a point outside the window. `inside` is
        the log mass of the target density in the window.
        """
        before = math.exp(window.tails[0].log_mass - inside)
        mass = np.cumsum(np.exp(window.logs - inside))
        place = float(rng.uniform(0.0, before + mass[-1] + math.exp(window.tails[1].log_mass - inside), None))
        if place < before:
            return float(window.edges[0]) - window.tails[0].place(rng), None
        if place - before >= mass[-1]:
            return float(window.edges[-1]) + window.tails[1].place(rng), None
        k = int(np.searchsorted(mass, place - before, side="right"))
        a, b = float(window.edges[k]), float(window.edges[k + 1])
        part = float(rng.uniform(0.0, 1.0, None))
        if self.target.norm == "loss":
            part = _fallen(part, self.target.rate * float(window.slopes[k]) * (b - a))
        return a + min(max(part, 0.0), 1.0) * (b - a), k


def segment(theta: FloatArray, v: FloatArray, radius: float) -> tuple[float, float]:
    """Return the smallest t (at most 0) and the largest t (at least 0) with ``|theta + t v|_1 <= radius``.

    >>> [float(t) for t in segment(np.array([0.5, 0.0]), np.array([1.0, 0.0]), 2.0)]
    [-2.5, 1.5]
    """

    def ahead(v: FloatArray) -> float:
        with np.errstate(divide="ignore", invalid="ignore"):
            bends = -theta / v
        last, height, slope = 0.0, float(np.abs(theta).sum()), 0.0
        for t in [*np.sort(bends[np.isfinite(bends) & (bends > 0)]), math.inf]:
            probe = (last + t) / 2 if math.isfinite(t) else last + 1.0
            slope = float(v @ np.sign(theta + probe * v))
            if slope > 0 and height + slope * (t - last) >= radius:
                return max(last, last + (radius - height) / slope)
            height, last = height + slope * (t - last), float(t)
        return last

    return -ahead(-v), ahead(v)


def segment_of_box(phi: FloatArray, way: FloatArray, halves: FloatArray) -> tuple[float, float]:
    """Return the smallest t (at most 0) and the largest t (at least 0) for which ``phi + t way`` lies in a box.

    The box contains the vectors whose entry j is at most ``halves[j]`` in absolute value; phi lies in the box.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        there, back = (halves - phi) / np.abs(way), (halves + phi) / np.abs(way)
    ups, downs = np.where(way >= 0, there, back), np.where(way >= 0, back, there)
    return -max(0.0, float(np.nanmin(downs))), max(0.0, float(np.nanmin(ups)))


def _fallen(part: float, fall: float) -> float:
    """Return a quantile of the density on [0, 1] that is proportional to ``exp(-fall x)``.

    The probability of the quantile is `part` or, if `fall` is negative, 1 - part.
    """
    size = abs(fall)
    part = -math.log1p(part * math.expm1(-size)) / size if size > 1e-9 else part
    return 1 - part if fall < 0 else part


def _share(fall: FloatArray) -> FloatArray:
    """Return ``(1 - exp(-fall)) / fall``, the mean of ``exp(-fall x)`` over [0, 1]."""
    safe = np.maximum(fall, 1e-12)
    return np.asarray(-np.expm1(-safe) / safe)
