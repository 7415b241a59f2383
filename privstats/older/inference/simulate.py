"""The law of the estimation error: privacy noise by simulation of its known law, sampling error in closed form.

Privacy noise is not normal, and is often most of the error; its law is public, so it is simulated. Given a
draw of it, the sampling error is normal, with a variance that was itself estimated from noisy
releases: the same draw, taken off that estimate again, shows how far it may be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from privstats.older.inference.errors import DRAWS, ErrorLaw
from privstats.older.inference.sandwich import between_bread
from privstats.older.numerics.law import Chance, FloatArray

if TYPE_CHECKING:
    from privstats.older.inference.answer import Answer

ANYTHING = 1e150  # a size that no domain allows

Chances = Callable[[int], Chance]


@dataclass(frozen=True, eq=False)
class Mixture(ErrorLaw):
    """A mixture of normal laws, one a draw: mean ``shift[d]``, variances ``variance[d]``; symmetric about zero.

    Parameters
    ----------
    shift : ndarray, shape (draws, q)
        Privacy noise in q linear functions of the estimate.
    variance : ndarray, shape (draws, q)
        Their sampling variances that are compatible with the releases.
    correlation : ndarray, shape (q, q)
        Of their sampling errors.
    allowance : ndarray, shape (q,)
        What unidentified directions may have moved them by at most, beside all this; NaN where that is anything.
    """

    shift: FloatArray
    variance: FloatArray
    correlation: FloatArray
    allowance: FloatArray

    @property
    def hidden(self) -> NDArray[np.bool_]:  # type: ignore[override]
        return np.isnan(self.allowance)

    def marginals(self) -> FloatArray:
        """Return draws of each coordinate by itself, shape (draws, q); jointly they mean nothing.

        The normal part is stratified: its DRAWS quantiles, in any fixed order, against random shifts.
        """
        normal = ndtri((np.arange(len(self.shift)) + 0.5) / len(self.shift))
        draws: FloatArray = self.shift + normal[:, None] * np.sqrt(self.variance)
        return draws

    def lengths(self, alpha: float) -> FloatArray:
        half = np.quantile(np.abs(self.marginals()), 1 - alpha, axis=0, method="higher") + self.allowance
        return half[:, None] * np.ones(2)

    def two_sided_p(self, distance: FloatArray) -> FloatArray:
        """Return the share of draws at least as far from zero as `distance` less the allowance, shape (q,).

        The observed one counts. A p-value is at least 1 / (draws + 1): a simulation cannot show a smaller one.
        """
        at_least = (np.abs(self.marginals()) >= np.abs(distance) - np.nan_to_num(self.allowance)).sum(axis=0)
        return np.where(self.hidden, np.nan, (1 + at_least) / (1 + DRAWS))

    def sample(self, chance: Chance) -> FloatArray:
        """Return one joint draw from each component, shape (draws, q)."""
        normal = chance.standard_normal(self.shift.shape)
        draws: FloatArray = self.shift + np.sqrt(self.variance) * (normal @ root(self.correlation).T)
        return draws


def error_law(answer: Answer, R: FloatArray, chances: Chances) -> Mixture:
    """Return the law of the error of ``R theta``.

    Parameters
    ----------
    answer : Answer
        With a meat.
    R : ndarray, shape (q, coefficients)
        Linear functions of the estimate, in scaled units.
    chances : callable
        Maps an index to a public random stream, the same at each call: intervals do not change when
        they are asked for again.

    Returns
    -------
    Mixture
    """
    assert answer.meat is not None
    meat = answer.meat
    heard = [noise.law.sample(chances(index), DRAWS) for index, noise in enumerate(answer.noises, start=1)]
    pushes = (draws @ noise.onto.T for draws, noise in zip(heard, answer.noises, strict=True))
    equation = sum(pushes, np.zeros((DRAWS, len(answer.theta))))
    errors = np.linalg.solve(answer.bread, equation.T).T
    for unsure in answer.unsure:  # A^-1 = B^-1 + B^-1 N B^-1 + ..., for B = A + N
        N = np.append(heard[unsure.index], np.zeros((DRAWS, 1)), axis=1)[:, unsure.where]
        equation = equation + np.einsum("dij,dj->di", N, errors @ unsure.onto) @ unsure.onto.T
    onto: FloatArray = np.linalg.solve(answer.bread, R.T).T.astype(float)
    residual_freedom = np.ones(DRAWS)
    if math.isfinite(meat.freedom):
        residual_freedom = meat.freedom / (2 * chances(0).standard_gamma(meat.freedom / 2, DRAWS))
    variance = meat.compatible(heard, onto, chances(len(heard) + 1)) * residual_freedom[:, None]
    covariance = R @ between_bread(answer.bread, meat.covariance()) @ R.T
    unit = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    correlation = covariance / np.outer(unit, unit)
    np.fill_diagonal(correlation, 1.0)  # where the best guess of a variance is zero, too
    return Mixture(equation @ onto.T, variance, correlation, allowance_of(answer.lost, R))


@dataclass(frozen=True, eq=False)
class Lost:
    """Directions of theta of which the releases say nothing, and what the domain allows there.

    Parameters
    ----------
    reach : ndarray, shape (coefficients, r)
        Each direction, as long as the domain of the response allows a coefficient to be there; `ANYTHING` times as long
        if nothing limits it.
    range : ndarray, shape (coefficients,)
        Largest size that the domain allows each coefficient.
    """

    reach: FloatArray
    range: FloatArray

    @classmethod
    def of(cls, directions: FloatArray, least: float, squares: float, information: FloatArray) -> Lost:
        """Return what bounded responses allow: v't explains at most `squares` of them, so |t| <= (squares / info)^.5.

        Parameters
        ----------
        directions : ndarray, shape (coefficients, r)
        least : float
            Information that each of them might have without standing clear of its noise.
        squares : float
            Sum of squares of responses on the domain, at most.
        information : ndarray, shape (coefficients,)
            Of each coefficient by itself.
        """
        return cls(directions * math.sqrt(squares / least), np.sqrt(squares / np.maximum(information, least)))

    def allowance(self, R: FloatArray) -> FloatArray:
        """Return what the directions may move R theta by, shape (q,); NaN where that exceeds what the domain allows."""
        moved = np.abs(R @ self.reach).sum(axis=1)
        return np.where(moved <= np.abs(R) @ self.range, moved, np.nan)


def without(lost: Lost | None, directions: FloatArray) -> Lost | None:
    """Return `lost`, and beside it directions, shape (coefficients, r), of which nothing is known."""
    if not directions.size:
        return lost
    lost = lost or Lost(np.zeros((len(directions), 0)), np.zeros(len(directions)))
    return replace(lost, reach=np.hstack([lost.reach, ANYTHING * directions]))


def allowance_of(lost: Lost | None, R: FloatArray) -> FloatArray:
    """Return the allowance of each row of R; zero where nothing is lost."""
    return np.zeros(len(R)) if lost is None else lost.allowance(R)


def unidentified(lost: Lost | None, names: Sequence[str]) -> list[str]:
    """Return the names of the coefficients without interval."""
    if lost is None:
        return []
    none = np.isnan(lost.allowance(np.eye(len(lost.range))))
    return [name for name, missing in zip(names, none, strict=True) if missing]


def root(covariance: FloatArray) -> FloatArray:
    """Return L with ``L L' = covariance``, for any positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))
