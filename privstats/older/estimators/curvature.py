"""Curvature of losses: guessed from the rows' second moments, and what a release of it makes of the guess."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privstats.older.estimators.whiten import Ground
from privstats.older.losses.predictor import Predictor
from privstats.older.numerics.law import FloatArray

SLACKER, STIFFER = 0.7, 5.0  # by what part of a guess it may be corrected downward, or upward, in one direction
EXPLAINED = 0.75  # of what noise may explain of the difference from a guess is taken to be noise
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(21)


def predictors(ground: Ground, theta: FloatArray, offset: float) -> tuple[float, float]:
    """Return about the mean and the standard deviation of rows' linear predictors."""
    B, mean = ground.A / _weight(ground), 0.0
    if ground.held.whitened.intercept:
        mean = float(_constant(ground) @ theta)
    return mean + offset, math.sqrt(max(float(theta @ B @ theta) - mean**2, 1e-12))


def _weight(ground: Ground) -> float:
    """Return the total weight of rows, which shortened ones have less of: their second moment of the constant."""
    if not ground.held.whitened.intercept:
        return ground.n
    constant = np.linalg.inv(ground.held.whitened.W)[0]  # u' constant = 1
    return float(constant @ ground.A @ constant)


def _constant(ground: Ground) -> FloatArray:
    """Return the mean row, shape (m,)."""
    constant = np.linalg.inv(ground.held.whitened.W)[0]
    mean: FloatArray = ground.A @ constant / _weight(ground)
    return mean


def guessed(ground: Ground, at: Predictor, offset: float) -> FloatArray:
    """Return the curvature that rows would have, were their predictors normal with the released second moments.

    With x normal given the constant, ``E h(x'theta) x x'`` needs only the mean of h and its first two moments about
    the linear predictor's mean, here by Gauss-Hermite quadrature.
    """
    B, theta = ground.A / _weight(ground), at.theta
    mean, sd = predictors(ground, theta, offset)
    centre = _constant(ground) if ground.held.whitened.intercept else np.zeros(len(theta))
    along = (B @ theta - centre * (centre @ theta)) / sd
    weights = WEIGHTS / WEIGHTS.sum() * at.score.expected(mean + sd * NODES)
    m0, m1, m2 = (float(weights @ NODES**k) for k in range(3))
    both = np.outer(centre, along)
    guess: FloatArray = m0 * (B - np.outer(along, along)) + m1 * (both + both.T) + m2 * np.outer(along, along)
    return _weight(ground) * guess


def between(guess: FloatArray, parts: FloatArray) -> FloatArray:
    """Return ``G^(1/2) parts G^(1/2)``: a guess that is corrected by parts of itself."""
    values, vectors = np.linalg.eigh(guess)
    root = (vectors * np.sqrt(np.maximum(values, 1e-12 * max(1.0, float(values[-1]))))) @ vectors.T
    corrected: FloatArray = root @ parts @ root
    return corrected


def learnt(
    parts: FloatArray, guesses: tuple[FloatArray, FloatArray], step: FloatArray, fell: FloatArray, noise: float
) -> FloatArray:
    """Return the parts of a guessed curvature that explain by how much the score fell along a step.

    Predictors far from normal, rare dummies among them, may make the true curvature a multiple of the guess: then steps
    would not settle. Only what stands clear of the noise is believed. Parts hold where the guess itself changes, as it
    does along a step: the fall is compared with the mean of the guesses at both ends.

    Parameters
    ----------
    parts : ndarray, shape (m, m)
        What was learnt before.
    guesses : tuple of two ndarray, shape (m, m)
        Guessed curvatures before and after the step.
    step, fell : ndarray, shape (m,)
        The step, and by how much the released score fell.
    noise : float
        Standard deviation of a coordinate of `fell`.
    """
    middle = (guesses[0] + guesses[1]) / 2
    along = between(middle, parts) @ step
    usual = float(step @ along)
    if usual <= 0:
        return parts
    apart = float(step @ fell) / usual - 1
    doubt = noise * float(np.linalg.norm(step)) / usual
    apart *= max(0.0, 1 - (doubt / max(abs(apart), 1e-12)) ** 2)
    values, vectors = np.linalg.eigh(middle)
    whole = np.sqrt(np.maximum(values, 1e-12 * max(1.0, float(values[-1]))))
    v = (vectors / whole) @ (vectors.T @ along)
    more: FloatArray = np.clip(apart, -SLACKER, STIFFER) * np.outer(v, v) / usual
    return parts + more


def toward(seen: FloatArray, guess: FloatArray, sd: float) -> tuple[FloatArray, float]:
    """Shrink a released curvature toward a multiple of what was guessed, by what noise explains of the difference.

    Parameters
    ----------
    seen, guess : ndarray, shape (m, m)
        Symmetric.
    sd : float
        Standard deviation of the noise off the diagonal; on it is sqrt(2) times as much.

    Returns
    -------
    tuple of ndarray and float
        The matrix, positive definite, and the share of the difference that was kept.
    """
    m = len(seen)
    times = float(np.clip(np.trace(seen) / np.trace(guess), 0.2, 2.0))
    apart = seen - times * guess
    spread = float((apart**2).sum()) / (m * (m + 1))
    kept = max(0.0, 1 - EXPLAINED * sd**2 / spread) if spread > 0 else 0.0
    values, vectors = np.linalg.eigh(times * guess + kept * apart)
    floor = max(kept * math.sqrt(m) * sd, 1e-3 * float(np.trace(guess)) / m)
    return (vectors * np.maximum(values, floor)) @ vectors.T, kept


def times(where: NDArray[np.intp], v: FloatArray) -> FloatArray:
    """Return the matrix that takes a packed symmetric N to ``N v``."""
    onto = np.zeros((len(v), int(where.max()) + 1))
    for i, row in enumerate(where):
        np.add.at(onto[i], row, v)
    return onto
