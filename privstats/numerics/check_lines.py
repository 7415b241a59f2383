"""Draws of a quantile regression in many dimensions, where boxes do not fit: the end of a Markov chain.

Each step draws theta anew on a line through it, from the law that the target has there. Along a line the score is a
step function, and the log density of a loss piecewise linear, so that the law is known in pieces and drawn without a
scale to be tuned. Rows far away do not take part: a window about theta is enough, where the target's mass on the line
outside the window is at most `MISSED` of the mass inside. That is proved at each step: the derivative of the loss along
the line only grows, hence so do the score's size, in what is known of it, and the loss itself, beyond the window's
ends. If the proof fails the window grows, and with it the set of rows that are looked at.

What is not exact: the chain ends after a fixed number of sweeps, and how near its law then is to the target depends on
the rows. Nothing is proved about that. The start and the lines' directions are fixed before the chain begins, by the
rows, and leave its stationary law as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privstats.numerics.check_boxes import Box, Frame, narrowed, whole
from privstats.numerics.check_loss import Target, dual_size, size_of
from privstats.numerics.law import Chance, FloatArray

SWEEPS = 200
MISSED = 2.0**-40  # of the mass of a line: what may be left out of a window
WIDER = 1.5  # windows and boxes, where that is not proved


def sample_lines(chance: Chance, target: Target, sweeps: int = SWEEPS) -> FloatArray:
    """Draw theta from nearly the density of `target`: the end of a chain from its minimiser.

    Sweeps alternate: along the d columns of the frame's basis in turn (Gibbs), along d random directions of that frame
    (hit-and-run), which gets along ridges where the first does not.

    Parameters
    ----------
    chance : Chance
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
        lines.sweep(chance, sweep % 2 == 1)
    return lines.theta


@dataclass(frozen=True, eq=False)
class Window:
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
    ends : tuple of two floats
        Bounds on the log mass to the left and to the right, in the parameter set.
    """

    edges: FloatArray
    pulls: FloatArray
    slopes: FloatArray
    logs: FloatArray
    ends: tuple[float, float]


class CheckLines:
    """A chain for one target: `theta` is where it is."""

    def __init__(self, target: Target) -> None:
        self.target, self.frame = target, Frame.of(target)
        self.inverse = np.linalg.inv(self.frame.basis)
        self.phi = np.zeros(len(self.frame.centre))
        self.all = whole(target, self.frame)
        d = len(self.phi)
        near = (60.0 + d) / target.rate if target.norm != "loss" else 10.0 / math.sqrt(target.rate)
        self.look(np.minimum(self.frame.halves, near))

    @property
    def theta(self) -> FloatArray:
        """Where the chain is, shape (d,)."""
        theta = self.frame.centre + self.frame.basis @ self.phi
        return np.asarray(theta * min(1.0, self.target.radius / max(float(np.abs(theta).sum()), self.target.radius)))

    def look(self, halves: FloatArray) -> None:
        """Look at the rows that are undecided within `halves` of the centre."""
        self.halves = halves
        self.pool = narrowed(self.target, self.frame, Box(np.zeros(len(halves)), halves, 0.0, self.all))
        rows = self.pool.rows
        self.x = np.ascontiguousarray(self.target.x[rows].T)
        self.slopes = np.ascontiguousarray(self.frame.slopes[rows].T)
        self.refresh()

    def refresh(self) -> None:
        """Compute residuals and score from where the chain is, free of the rounding of its steps."""
        self.u = self.frame.u[self.pool.rows] - self.phi @ self.slopes
        self.pull = self.pool.pull + self.x @ (self.u <= 0)

    def sweep(self, chance: Chance, random: bool) -> None:
        """Take d steps, along random directions or along those of the basis."""
        d = len(self.phi)
        self.refresh()
        for way in chance.standard_normal((d, d)) if random else np.eye(d):
            self.step(chance, way)

    def step(self, chance: Chance, way: FloatArray) -> None:
        """Draw anew on the line through phi along `way`."""
        v = self.frame.basis @ way
        low, high = segment(self.frame.centre + self.frame.basis @ self.phi, v, self.target.radius)
        reach = [self.first_reach(way, v)] * 2
        while True:
            slopes = way @ self.slopes if np.count_nonzero(way) > 1 else self.slopes[int(np.argmax(way))]
            box = segment_of_box(self.phi, way, self.halves)
            ends = (max(low, box[0], -reach[0]), min(high, box[1], reach[1]))
            window = self.window(slopes, v, (low, high), ends)
            if not np.isfinite(window.logs).any():
                return  # a corner of the parameter set, which the line only touches
            enough = math.log(MISSED) + float(np.logaddexp.reduce(window.logs))
            missed = [window.ends[0] > enough, window.ends[1] > enough]
            if not any(missed):
                break
            if any(missed[k] and ends[k] == box[k] for k in (0, 1)):
                self.look(np.minimum(self.frame.halves, WIDER * self.halves))
            reach = [WIDER * reach[k] if missed[k] else reach[k] for k in (0, 1)]
        t, piece = self.choose(chance, window)
        self.phi, self.u, self.pull = self.phi + t * way, self.u - t * slopes, window.pulls[:, piece]

    def first_reach(self, way: FloatArray, v: FloatArray) -> float:
        """Return how far to look first: where a score (loss) with the curvature of the frame is unlikely."""
        rate = self.target.rate
        if self.target.norm == "loss":
            return 9.0 / (math.sqrt(rate) * float(np.linalg.norm(way)))
        bend = max(float(abs(v @ way)), 1e-300)  # the curvature times v is the way
        return 52.0 / rate * float(dual_size(self.target.norm, v, self.target.tilt)) / bend

    def window(
        self, slopes: FloatArray, v: FloatArray, whole: tuple[float, float], ends: tuple[float, float]
    ) -> Window:
        """Return the pieces of the line between `ends`, and what `whole` may hold beyond."""
        target = self.target
        with np.errstate(divide="ignore", invalid="ignore"):
            t = self.u / slopes
        picked = np.flatnonzero((t > ends[0]) & (t < ends[1]))
        picked = picked[np.argsort(t[picked])]
        rising = slopes[picked] > 0
        change = np.where(rising, 1.0, -1.0) * self.x[:, picked]  # of the score where theta passes
        behind = (self.u[picked] <= 0) == rising
        pulls = np.column_stack([self.pull - change @ behind, change])
        np.cumsum(pulls, axis=1, out=pulls)
        edges = np.concatenate([[ends[0]], t[picked], [ends[1]]])
        lengths, tilts = np.maximum(np.diff(edges), 0.0), v @ pulls
        with np.errstate(divide="ignore"):
            logs = np.log(lengths)
        if target.norm != "loss":
            logs -= target.rate * size_of(target.norm, pulls.T, target.tilt)
            steep = target.rate / float(dual_size(target.norm, v, target.tilt))
            beyond = (_flat(-tilts[0] * steep, ends[0] - whole[0]), _flat(tilts[-1] * steep, whole[1] - ends[1]))
            return Window(edges, pulls, tilts, logs, beyond)
        heights = target.rate * np.concatenate([[0.0], np.cumsum(tilts * lengths)])
        fall = target.rate * np.abs(tilts) * lengths
        logs += -np.minimum(heights[:-1], heights[1:]) + np.log(_share(fall))
        left = _steep(-target.rate * tilts[0], heights[0], ends[0] - whole[0])
        return Window(
            edges, pulls, tilts, logs, (left, _steep(target.rate * tilts[-1], heights[-1], whole[1] - ends[1]))
        )

    def choose(self, chance: Chance, window: Window) -> tuple[float, int]:
        """Return a place on the line, drawn from the pieces of the window, and its piece."""
        mass = np.cumsum(np.exp(window.logs - window.logs.max()))
        k = int(np.searchsorted(mass, chance.uniform(0.0, mass[-1], None), side="right"))
        k = min(k, int(np.searchsorted(mass, mass[-1])))
        a, b = float(window.edges[k]), float(window.edges[k + 1])
        part = float(chance.uniform(0.0, 1.0, None))
        if self.target.norm == "loss":
            fall = self.target.rate * float(window.slopes[k]) * (b - a)
            size = abs(fall)
            part = -math.log1p(part * math.expm1(-size)) / size if size > 1e-9 else part
            part = 1 - part if fall < 0 else part
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


def _flat(rise: float, length: float) -> float:
    """Return the log mass of a density of at most ``exp(-max(rise, 0))`` over a length."""
    return math.log(length) - max(rise, 0.0) if length > 0 else -math.inf


def _steep(slope: float, height: float, length: float) -> float:
    """Return a bound on the log mass of ``exp(-potential)``, which has this height and at least this slope."""
    if length <= 0:
        return -math.inf
    return -height + (min(math.log(length), -math.log(slope)) if slope > 0 else 700.0 + abs(math.log(length)))


def _share(fall: FloatArray) -> FloatArray:
    """Return ``(1 - exp(-fall)) / fall``."""
    safe = np.maximum(fall, 1e-12)
    return np.asarray(-np.expm1(-safe) / safe)
