"""Lower bounds on the loss and on the norm of the score of a quantile regression, from the convexity of the loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privstats.mechanisms.quantile_regression.minimise import Target, dual_size
from privstats.numerics.law import FloatArray


@dataclass(frozen=True, eq=False)
class Cuts:
    """Lower bounds on the norm of the score or, if the target density depends on the loss, on the loss, at any theta.

    The bounds are computed, without the rows, from the loss and the score at k values q of theta. The loss lies above
    its tangents at the points q, and its gradient, the score G, is monotone: ``(G(theta) - G(q))' (theta - q) >= 0``.
    Hence ``|G(theta)| >= G(q)'(theta - q) / |theta - q|_*``, with the dual ``|.|_*`` of the score's norm.

    Parameters
    ----------
    target : Target
        Target density; its field `norm` names the norm of the score, or is "loss" if the density depends on the loss.
    basis : ndarray, shape (d, d)
        Matrix of the linear coordinates phi of theta: ``theta = centre + basis phi``, with a fixed point `centre`.
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
        """Return a lower bound on the score's norm, or on the loss, in each of m boxes of parameters, shape (m,).

        The bound is on the loss if `target.norm` is "loss". Boxes are in the linear coordinates phi of theta (see
        `basis`). Box i has the centre ``middles[i]``, shape (d,). All boxes have the same half-widths: `halves`, one
        for each of the d coordinates.
        """
        rise = middles @ self.pulls.T - (self.points * self.pulls).sum(axis=1) - np.abs(self.pulls) @ halves
        if self.target.norm == "loss":
            return np.asarray((rise + self.losses).max(axis=1))
        norm, tilt = self.target.norm, self.target.tilt
        away = dual_size(norm, (middles[:, None] - self.points) @ self.basis.T, tilt)
        return np.asarray((rise / (away + halves @ dual_size(norm, self.basis.T, tilt))).max(axis=1))
