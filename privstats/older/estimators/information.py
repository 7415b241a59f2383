"""What a noisy release of the information says: at other theta than its own, and in which directions nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privstats.older.estimators.base import Facts
from privstats.older.estimators.imagined import Imagined
from privstats.older.estimators.moments import spectral_noise
from privstats.older.inference.repair import floor_eigenvalues, schur_complement, weakest_behind_noise
from privstats.older.inference.sandwich import between_bread
from privstats.older.inference.simulate import ANYTHING, Lost, unidentified
from privstats.older.numerics.law import FloatArray
from privstats.older.privacy.release import Release
from privstats.older.sets.moments import Moments

UNINFORMATIVE = 1.0  # noise, as a multiple of an eigenvalue or a count, from which on intervals mislead or are too long
STEPS = 6  # toward the theta without a ridge: each is exact for the curvature of the one before
FAR = 1.0  # standard errors within which the information must not drown
SQUARES = 0.5  # a row: of linear predictors, each times its curvature, that a model may explain
FARTHEST = 8.0  # a row's curvature changes by no larger factor


@dataclass(frozen=True, eq=False)
class Seen:
    """A released information, and normal rows of the same moments that tell how it changes with theta.

    Parameters
    ----------
    total : float
        Sum of the rows' curvatures, as far as they counted.
    rows : Imagined
        Weighted by these.
    counted : ndarray, shape (POINTS,)
        How much of their curvature counted.
    unit : float
        Curvature in whose units the information was released.
    spread, doubt : float
        Size of the noise of its slopes as a matrix, and that of the count against the count, both in these units.
    """

    total: float
    rows: Imagined
    counted: FloatArray
    unit: float
    spread: float
    doubt: float

    @classmethod
    def of(cls, released: Release, within: Moments, facts: Facts, theta: FloatArray, cap: float) -> Seen:
        """Return what was released, repaired: the information at `theta` of rows of curvature at most `cap`, by it."""
        assert released.law is not None and facts.family is not None
        moments, variance = within.unpack(released.value), within.unpack(released.law.variance())
        moments[0, 0] = max(moments[0, 0], 2 * math.sqrt(variance[0, 0]), 1.0)
        spread, constant = spectral_noise(moments, variance, facts), int(facts.intercept)
        shape = moments[1 - constant :, 1 - constant :]
        eigenvalues = np.linalg.eigvalsh(schur_complement(shape, constant)).astype(float)
        weakest = min(max(weakest_behind_noise(eigenvalues, spread), spread / 2, 1e-9), 1e300)
        rows = Imagined.like(
            floor_eigenvalues(shape, weakest, constant)[0] / moments[0, 0], facts.intercept, facts.family
        )
        return cls(
            total=cap * float(moments[0, 0]),
            rows=rows,
            counted=np.minimum(rows.curvature(theta), cap),
            unit=cap,
            spread=spread,
            doubt=2 * math.sqrt(variance[0, 0]) / moments[0, 0],
        )

    def drowned(self, theta: FloatArray, filling: FloatArray, constant: int, n: float) -> tuple[Lost | None, float]:
        """Return the directions of theta whose information drowns in noise, and kappa.

        Where it is less the farther theta lies from zero, or the nearer, the estimate that errs toward more of it would
        be believed: so it is taken where it is least, within `FAR` standard errors along theta.

        Parameters
        ----------
        theta : ndarray, shape (coefficients,)
        filling : ndarray, shape (coefficients, coefficients)
            Covariance of the noise in the estimating equation.
        constant : int
            Whether theta begins with that of the constant.
        n : float
            Number of rows.
        """
        here = self.at(theta)
        along = np.append(np.zeros(constant), theta[constant:])
        along /= max(float(np.linalg.norm(along)), 1e-300)
        error = math.sqrt(float(along @ between_bread(here, here + filling) @ along))
        ends = [here, *(self.at(theta + side * FAR * error * along) for side in (-1, 1))]
        found = [np.linalg.eigh(schur_complement(end / self.unit, constant)) for end in ends]
        least = min(range(len(ends)), key=lambda k: float(found[k][0].min(initial=math.inf)))
        (values, vectors), matrix = found[least], ends[least]
        unknown = self.doubt >= UNINFORMATIVE
        weak = (self.spread >= UNINFORMATIVE * values) | unknown
        kappa = max(self.doubt, self.spread / float(found[0][0].min(initial=math.inf)))
        if not (weak.any() or unknown):
            return None, kappa
        if not len(values):
            return Lost(np.full((constant, 1), ANYTHING), np.ones(constant)), kappa
        directions = vectors[:, weak]
        if constant:  # where a slope moves, the constant does, too
            directions = np.vstack([-matrix[:1, 1:] / matrix[0, 0] @ directions, directions])
        return Lost.of(directions, self.unit * self.spread, SQUARES * n, np.diag(here)), kappa

    def at(self, theta: FloatArray) -> FloatArray:
        """Return the information at another theta."""
        changed = np.clip(self.rows.curvature(theta) / np.maximum(self.counted, 1e-300), 1 / FARTHEST, FARTHEST)
        return self.total * self.rows.sum(changed)

    def freed(self, chosen: Release) -> tuple[FloatArray, FloatArray]:
        """Return theta without its ridge, and what that adds: ``mean curvature between them (step) = ridge theta``."""
        here, pull, step = self.at(chosen.value), chosen.penalty * chosen.value, np.zeros_like(chosen.value)
        for _ in range(STEPS):
            between = (here + 4 * self.at(chosen.value + step / 2) + self.at(chosen.value + step)) / 6  # Simpson
            step = np.linalg.solve(between, pull).astype(float)
        return chosen.value + step, step

    def bent(self, one: FloatArray, other: FloatArray) -> float:
        """Return by how much, as a part of itself, the curvature between two thetas changes."""
        v = other - one
        here, there = (float(v @ self.at(end) @ v) for end in (one, other))
        return abs(here - there) / max(here + there, 1e-300)


def hidden(lost: Lost | None, facts: Facts) -> tuple[str, ...]:
    """Return a note that names the coefficients without intervals."""
    if lost is None:
        return ()
    none = unidentified(lost, facts.names)
    those = f"have no interval (NaN), those of {', '.join(none)}" if none else "have longer intervals"
    return (
        f"the information in {lost.reach.shape[1]} combination(s) of the predictors drowns in its noise: coefficients "
        f"that they move {those}",
    )
