"""Draws of a quantile regression in many dimensions, where boxes do not fit: the end of a Markov chain.

Each step draws theta anew on a line through it, from the law that the target has there. Along a line the score is a
step function, and the log density of a loss piecewise linear, so that the law is known in pieces and drawn without a
scale to be tuned. Rows far away seldom take part. In a window the law is known in pieces; beyond its ends the density
has an upper bound, as the derivative of the loss along the line only grows, and with it the loss itself, and what is
known of the score's size. If the bound is at most `SELDOM` of the mass inside, a point is drawn from pieces and bounds
together; one from beyond is held against all rows, and where it is rejected the draw is repeated. Else the window
grows, and with it the set of rows that are looked at. Each step thus has the law of its line, whatever the window.

What is not exact: the chain ends after a fixed number of sweeps, and how near its law then is to the target depends on
the rows. Nothing is proved about that. Measured (`benchmarks/chain_sweeps.py`, seed 1, three coefficients, 60 rows, 120
chains against exact draws): at rates up to 2 nothing is left to see after 200 sweeps, on ties, on equal predictors, or
where one row tells; at order 0.99 and the largest rate, 8, two predictors with correlation .999 leave a Kolmogorov
distance of .21, where rng alone leaves up to .16.

The start and the lines' directions are fixed before the chain begins, by the rows, and leave its stationary law as it
is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privstats.mechanisms.quantile_regression.minimise import Target, dual_size, loss, score, size_of
from privstats.mechanisms.quantile_regression.rows import Pool, RowFrame
from privstats.numerics.law import FloatArray, Rng

SWEEPS = 200
SELDOM = 2.0**-8  # of the mass of a window: bound on what is beyond either of its ends
WIDER_WINDOW = 1.5  # windows and boxes, where that is not so


def sample_lines(rng: Rng, target: Target, sweeps: int = SWEEPS) -> FloatArray:
    """Draw theta from nearly the density of `target`: the end of a chain from its minimiser.

    Sweeps alternate: along the d columns of the frame's basis in turn (Gibbs), along d random directions of that frame
    (hit-and-run), which gets along ridges where the first does not.

    Parameters
    ----------
    rng : Rng
        Where the draw comes from.
    target : Target
    sweeps : int
        Of d steps each; public.

    Returns
    -------
    ndarray, shape (d,)
    """
    lines = CheckLines(target)
    for sweep in range(sweeps):
        lines.sweep(rng, sweep % 2 == 1)
    return lines.theta


@dataclass(frozen=True)
class Beyond:
    """What lies beyond an end of a window: at distance s, at most density ``exp(-height - slope s)``, up to `length`.

    A negative slope bounds nothing.
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
        """Return a distance drawn from the bound."""
        return self.length * _fallen(float(rng.uniform(0.0, 1.0, None)), self.slope * self.length)


@dataclass(frozen=True, eq=False)
class LineWindow:
    """The part of a line that is looked at: where its pieces begin and end, and the log mass of each.

    Parameters
    ----------
    edges : ndarray, shape (k + 1,)
    pulls : ndarray, shape (d, k)
        The score in each piece.
    slopes : ndarray, shape (k,)
        Derivative of the loss along the line in each piece.
    logs : ndarray, shape (k,)
        Log mass of the pieces.
    beyond : tuple of two Beyond
        To the left and to the right, in the parameter set.
    """

    edges: FloatArray
    pulls: FloatArray
    slopes: FloatArray
    logs: FloatArray
    beyond: tuple[Beyond, Beyond]


class CheckLines:
    """A chain for one target: `theta` is where it is."""

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
        """Where the chain is, shape (d,)."""
        theta = self.frame.centre + self.frame.basis @ self.phi
        return np.asarray(theta * min(1.0, self.target.radius / max(float(np.abs(theta).sum()), self.target.radius)))

    def look(self, halves: FloatArray) -> None:
        """Look at the rows that are undecided within `halves` of the centre."""
        self.halves = halves
        self.pool = self.all.within(np.zeros(len(halves)), halves)
        rows = self.pool.rows
        self.x = np.ascontiguousarray(self.target.x[rows].T)
        self.slopes = np.ascontiguousarray(self.frame.slopes[rows].T)
        self.refresh()

    def refresh(self) -> None:
        """Compute residuals and score from where the chain is, free of the rounding of its steps."""
        self.u = self.frame.u[self.pool.rows] - self.phi @ self.slopes
        self.pull = self.pool.pull + self.x @ (self.u <= 0)

    def sweep(self, rng: Rng, random: bool) -> None:
        """Take d steps, along random directions or along those of the basis."""
        d = len(self.phi)
        self.refresh()
        for way in rng.standard_normal((d, d)) if random else np.eye(d):
            self.step(rng, way)

    def step(self, rng: Rng, way: FloatArray) -> None:
        """Draw anew on the line through phi along `way`."""
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
                return  # a corner of the parameter set, which the line only touches
            highest = float(window.logs.max())
            inside = highest + math.log(float(np.exp(window.logs - highest).sum()))
            missed = [beyond.log_mass > inside + math.log(SELDOM) for beyond in window.beyond]
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
            beyond = window.beyond[side]
            bound = beyond.height + beyond.slope * abs(t - ends[side])
            if rng.uniform(0.0, 1.0, None) < math.exp(min(0.0, bound - self.potential(v, t, ends[0]))):
                self.phi = self.phi + t * way
                self.look(np.minimum(self.frame.halves, np.maximum(self.halves, WIDER_WINDOW * np.abs(self.phi))))
                return

    def potential(self, v: FloatArray, t: float, start: float) -> float:
        """Return the rate times the size of the score at t on the line along v, or the loss less that at `start`."""
        target, theta = self.target, self.frame.centre + self.frame.basis @ self.phi
        if target.norm == "loss":
            there, here = (loss(target.x, target.y, target.tau, theta + s * v) for s in (t, start))
            return target.rate * (there - here)
        pull = score(target.x, target.y, target.tau, theta + t * v)
        return target.rate * float(size_of(target.norm, pull, target.tilt))

    def first_reach(self, way: FloatArray, v: FloatArray, length: float) -> tuple[float, float]:
        """Return where to look first, about the minimiser of a loss with the curvature of the frame, and how far.

        A score must have grown so that, all along the line, it weighs little beside where the chain is.
        """
        target = self.target
        if target.norm == "loss":
            bend = float(way @ way)
            return -float(v @ self.pull) / bend, 5.0 / math.sqrt(target.rate * bend)
        bend = max(float(abs(v @ way)), 1e-300)  # way = Hessian @ v
        scale = float(dual_size(target.norm, v, target.tilt)) / (target.rate * bend)
        here = target.rate * float(size_of(target.norm, self.pull, target.tilt))
        return -float(v @ self.pull) / bend, scale * (here + math.log1p(length / scale) - math.log(SELDOM))

    def window(
        self, slopes: FloatArray, v: FloatArray, whole: tuple[float, float], ends: tuple[float, float]
    ) -> LineWindow:
        """Return the pieces of the line between `ends`, and what `whole` may hold beyond."""
        target = self.target
        with np.errstate(divide="ignore", invalid="ignore"):
            t = self.u / slopes
        picked = np.flatnonzero((t > ends[0]) & (t < ends[1]))
        t = t[picked]
        order = np.argsort(t)
        picked = picked[order]
        rising = slopes[picked] > 0
        pulls = np.empty((len(v), len(picked) + 1))
        change = pulls[:, 1:]  # of the score where theta passes
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
                edges, pulls, tilts, logs, (Beyond(rises[0], 0.0, rest[0]), Beyond(rises[1], 0.0, rest[1]))
            )
        heights = target.rate * np.concatenate([[0.0], np.cumsum(tilts * lengths)])
        fall = target.rate * np.abs(tilts) * lengths
        logs += -np.minimum(heights[:-1], heights[1:]) + np.log(_share(fall))
        left = Beyond(0.0, -target.rate * float(tilts[0]), rest[0])
        right = Beyond(float(heights[-1]), target.rate * float(tilts[-1]), rest[1])
        return LineWindow(edges, pulls, tilts, logs, (left, right))

    def choose(self, rng: Rng, window: LineWindow, inside: float) -> tuple[float, int | None]:
        """Return a place on the line, drawn from pieces and what is beyond them, and its piece, if it has one."""
        before = math.exp(window.beyond[0].log_mass - inside)
        mass = np.cumsum(np.exp(window.logs - inside))
        place = float(rng.uniform(0.0, before + mass[-1] + math.exp(window.beyond[1].log_mass - inside), None))
        if place < before:
            return float(window.edges[0]) - window.beyond[0].place(rng), None
        if place - before >= mass[-1]:
            return float(window.edges[-1]) + window.beyond[1].place(rng), None
        k = int(np.searchsorted(mass, place - before, side="right"))
        a, b = float(window.edges[k]), float(window.edges[k + 1])
        part = float(rng.uniform(0.0, 1.0, None))
        if self.target.norm == "loss":
            part = _fallen(part, self.target.rate * float(window.slopes[k]) * (b - a))
        return a + min(max(part, 0.0), 1.0) * (b - a), k


def segment(theta: FloatArray, v: FloatArray, radius: float) -> tuple[float, float]:
    """Return between which t, one below zero and one above, ``|theta + t v|_1 <= radius``.

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
    """Return between which t, one below zero and one above, every ``|phi + t way| <= halves``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        there, back = (halves - phi) / np.abs(way), (halves + phi) / np.abs(way)
    ups, downs = np.where(way >= 0, there, back), np.where(way >= 0, back, there)
    return -max(0.0, float(np.nanmin(downs))), max(0.0, float(np.nanmin(ups)))


def _fallen(part: float, fall: float) -> float:
    """Return the quantile of order `part` (or, of equal law, its mirror) of a density on [0, 1] of log slope -fall."""
    size = abs(fall)
    part = -math.log1p(part * math.expm1(-size)) / size if size > 1e-9 else part
    return 1 - part if fall < 0 else part


def _share(fall: FloatArray) -> FloatArray:
    """Return ``(1 - exp(-fall)) / fall``."""
    safe = np.maximum(fall, 1e-12)
    return np.asarray(-np.expm1(-safe) / safe)
