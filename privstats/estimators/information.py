"""What a noisy release of the information says: at other theta than it was taken at, and in which directions nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privstats.estimators.base import Facts
from privstats.estimators.imagined import Imagined
from privstats.estimators.moments import spectral_noise
from privstats.gate.moments import Moments
from privstats.inference.repair import floor_eigenvalues, schur_complement, weakest_behind_noise
from privstats.inference.simulate import LEAN
from privstats.numerics.law import FloatArray
from privstats.privacy.release import Release

UNINFORMATIVE = 1.2  # noise, as a multiple of an eigenvalue, from which on intervals would be far too long
STEPS = 6  # toward the theta without a ridge: each is exact for the curvature of the one before
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
    kappa : float
        Size of the noise against the weakest direction.
    lost : ndarray, shape (coefficients, r), optional
        Directions of theta whose information drowns in the noise; None if none does.
    """

    total: float
    rows: Imagined
    counted: FloatArray
    kappa: float
    lost: FloatArray | None

    @classmethod
    def of(cls, released: Release, within: Moments, facts: Facts, theta: FloatArray, cap: float) -> Seen:
        """Return what was released, repaired: the information at `theta` of rows of curvature at most `cap`, by it."""
        assert released.law is not None and facts.family is not None
        moments, variance = within.unpack(released.value), within.unpack(released.law.variance())
        moments[0, 0] = max(moments[0, 0], 2 * math.sqrt(variance[0, 0]), 1.0)
        spread, first, constant = (
            spectral_noise(moments, variance, facts),
            int(not facts.intercept),
            int(facts.intercept),
        )
        shape = moments[first:, first:]
        eigenvalues, vectors = np.linalg.eigh(schur_complement(shape, constant))
        weakest = max(weakest_behind_noise(eigenvalues, spread), spread / 2, 1e-9)
        believed = np.maximum(eigenvalues, weakest)
        shape = floor_eigenvalues(shape, min(weakest, 1e300), constant)[0]
        count = 2 * math.sqrt(variance[0, 0]) / moments[0, 0]
        weak = (spread >= UNINFORMATIVE * believed) | (count >= UNINFORMATIVE)
        directions = vectors[:, weak]
        if constant:
            directions = np.vstack([-shape[:1, 1:] / shape[0, 0] @ directions, directions])
        rows = Imagined.like(shape / moments[0, 0], facts.intercept, facts.family)
        return cls(
            total=cap * float(moments[0, 0]),
            rows=rows,
            counted=np.minimum(rows.curvature(theta), cap),
            kappa=max(count, spread / weakest),
            lost=np.linalg.qr(directions)[0] if weak.any() or count >= UNINFORMATIVE else None,
        )

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


def hidden(lost: FloatArray | None, facts: Facts) -> tuple[str, ...]:
    """Return a note that names the coefficients without intervals."""
    if lost is None:
        return ()
    moved = [name for name, row in zip(facts.names, lost, strict=True) if np.linalg.norm(row) > LEAN]
    return (
        f"the information in {lost.shape[1]} combination(s) of the predictors drowns in its noise: coefficients that "
        f"they move have no interval (NaN), those of {', '.join(moved)}",
    )
