"""Lower bounds on scores and losses of quantile regressions from convexity alone, without reading rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privstats.mechanisms.quantile_regression.minimise import Target, dual_size
from privstats.numerics.law import FloatArray


@dataclass(frozen=True, eq=False)
class Cuts:
    """Lower bounds, by convexity, on the score's size (or the loss) away from a few points q with known score and loss.

    The loss lies above its tangents. The score G is monotone, ``(G(theta) - G(q))'(theta - q) >= 0``, hence
    ``|G(theta)| >= G(q)'(theta - q) / |theta - q|_*``, where ``|.|_*`` is the dual of the norm in which the score's
    size is measured.

    Parameters
    ----------
    target : Target
    basis : ndarray, shape (d, d)
        Matrix of the coordinates phi: ``theta = centre + basis phi``.
    points : ndarray, shape (k, d)
        Coordinates phi of each point q.
    pulls : ndarray, shape (k, d)
        Derivative of the loss with respect to phi at each point q.
    losses : ndarray, shape (k,)
        Loss at each point q.
    """

    target: Target
    basis: FloatArray
    points: FloatArray
    pulls: FloatArray
    losses: FloatArray

    def bounds(self, middles: FloatArray, halves: FloatArray) -> FloatArray:
        """Return lower bounds on the score's size (or the loss), one for each of m boxes, shape (m,).

        Box i has the centre ``middles[i]``, and the half-widths of every box are `halves`, shape (d,).
        """
        rise = middles @ self.pulls.T - (self.points * self.pulls).sum(axis=1) - np.abs(self.pulls) @ halves
        if self.target.norm == "loss":
            return np.asarray((rise + self.losses).max(axis=1))
        norm, tilt = self.target.norm, self.target.tilt
        away = dual_size(norm, (middles[:, None] - self.points) @ self.basis.T, tilt)
        return np.asarray((rise / (away + halves @ dual_size(norm, self.basis.T, tilt))).max(axis=1))
