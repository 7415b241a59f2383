"""The sandwich with a second filling: hessian^-1 (meat + noise) hessian^-1. Numbers in, numbers out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, fdtrc, gammaincinv

from privstats.inference.error_law import CERTAIN, ErrorLaw, critical, mixed_law
from privstats.inference.matrix import NoisyMatrix
from privstats.inference.noise import Loading, total_covariance
from privstats.inference.notes import (
    Note,
    clipped_note,
    note,
    reliability_note,
    start_note,
    unidentified_note,
    wide_note,
)
from privstats.inference.reduce import reduced
from privstats.inference.simulate import DRAWS, PublicStream, noise_draws, remembered
from privstats.inference.thin import thin
from privstats.numerics.law import FloatArray

__all__ = [
    "Allowance",
    "Coordinates",
    "Estimate",
    "EstimatingEquation",
    "Loading",
    "NormalEstimate",
    "Stacked",
    "critical",
    "quantile_scores",
]

NEW = 0.98  # of the range that a coefficient has before any release: a larger part tells nothing
LEAN = 0.25  # share of a 95 % half-length that unidentified directions may always have
MOST_LEAN = (
    50.0  # std errors by which they may ever move what is given: beyond, the std error says nothing of the error
)
WIDEST_ETA = 10.0  # of the linear predictor, std dev: an interval that moves it further either way is not given
FULL_RANK = 1e-6  # of a triangle's diagonal: from it on a system is solved as it is, as fast as a few products
EXACT = 1e-8  # a contrast that leans on a null space by less, relative to its size, leans by rounding
CELLS = 1000  # of equal probability, into which a chi-square law is cut for a noncentral F law
VISIBLE = 0.2  # std errors from which on an allowance of unidentified directions is noted
MOVED = 1.0  # the same of an allowance for clipping, which is the rule: smaller ones stand in `tidy`


UNSAVED = ("_draws", "_given", "_own_law")  # what is computed anew from what is saved


@dataclass(frozen=True, eq=False)
class Coordinates:
    """theta = origin + matrix @ t.

    Parameters
    ----------
    origin : ndarray, shape (c,)
    matrix : ndarray, shape (c, m)
    hidden : ndarray, shape (c, l)
        Directions of theta about which the rows that are kept say nothing: exact, from the contrasts; often none.
    """

    origin: FloatArray
    matrix: FloatArray
    hidden: FloatArray

    @classmethod
    def plain(cls, c: int) -> Coordinates:
        """Return theta's own coordinates."""
        return cls(np.zeros(c), np.eye(c), np.zeros((c, 0)))

    @cached_property
    def back(self) -> FloatArray:
        """From differences of theta to t, shape (m, c): the pseudo-inverse of `matrix`."""
        Q, R = np.linalg.qr(self.matrix)
        size = np.abs(np.diag(R))
        if len(R) < R.shape[1] or not size.min(initial=np.inf) > FULL_RANK * size.max(initial=0.0):
            return np.asarray(np.linalg.pinv(self.matrix), dtype=float)
        return np.asarray(np.linalg.solve(R, Q.T), dtype=float)


@dataclass(frozen=True, eq=False)
class Allowance:
    """Something may have moved ``R theta`` by at most ``|R @ loading|_2 * size``.

    Parameters
    ----------
    loading : ndarray, shape (m, k)
        Of a score, or of an estimate.
    size : float
        Length of the vector that it multiplies, at most.
    """

    loading: FloatArray
    size: float

    def __rmatmul__(self, F: FloatArray) -> Allowance:
        return replace(self, loading=np.asarray(F) @ self.loading)

    __array_ufunc__ = None  # so that ``array @ allowance`` is left to `__rmatmul__`

    def of(self, R: FloatArray) -> FloatArray:
        """Return how far each row of R may have been moved, shape (q,)."""
        return self.size * np.linalg.norm(R @ self.loading, axis=1)


class Estimate(ABC):
    """Estimates with the law of their errors: what results print.

    Attributes
    ----------
    names : tuple of str
        Of the coefficients.
    diagnostics : mapping of str to float
        All computed from releases.
    tested : bool
        Whether "it is zero" is a hypothesis that tables test.
    """

    names: tuple[str, ...]
    diagnostics: Mapping[str, float]
    tested: ClassVar[bool] = True

    @property
    def rows(self) -> FloatArray | None:
        """Released number of rows behind each estimate, shape (k,); None where there is no such number."""
        return None

    @property
    @abstractmethod
    def notes(self) -> tuple[Note, ...]:
        """What the reader of a summary must know."""

    @abstractmethod
    def contrast(
        self, R: ArrayLike, alpha: float = 0.05, q: FloatArray | float = 0.0
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return estimates, std errors, lower and upper ends, and p-values of ``R theta = q``, each of shape (q,).

        NaN in all of them where ``R theta`` is not identified.
        """

    @abstractmethod
    def covariance(self) -> FloatArray:
        """Return the covariance, privacy noise included, shape (k, k); NaN where it is not known."""

    @abstractmethod
    def noise_share(self) -> FloatArray:
        """Return the share of each squared std error that is due to privacy noise, shape (k,)."""

    @abstractmethod
    def wald(self, R: ArrayLike, q: FloatArray | float = 0.0) -> tuple[float, int, float]:
        """Test ``R theta = q`` jointly: return the statistic, the number of different hypotheses, and the p-value."""

    @abstractmethod
    def mapped(self, matrix: FloatArray, shift: FloatArray, names: Sequence[str] | None = None) -> Estimate:
        """Return the estimate of ``matrix @ theta + shift``."""

    def coefficients(self, alpha: float = 0.05) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return estimate, std error, lower and upper end of each coefficient, each of shape (k,)."""
        return self.contrast(np.eye(len(self.names)), alpha)[:4]

    def params(self) -> FloatArray:
        """Return the estimates, shape (k,)."""
        return self.coefficients()[0]

    def bse(self) -> FloatArray:
        """Return std errors, sampling error and privacy noise together, shape (k,)."""
        return self.coefficients()[1]

    def tvalues(self) -> FloatArray:
        """Return estimates divided by their std errors, shape (k,)."""
        estimate, sd, *_ = self.coefficients()
        return estimate / sd

    def pvalues(self) -> FloatArray:
        """Return two-sided p-values of "the coefficient is zero", shape (k,)."""
        return self.contrast(np.eye(len(self.names)))[4]

    def bias_bound(self) -> FloatArray:
        """Return how far each estimate may have been moved, which p-value and interval allow for, shape (k,)."""
        return np.where(np.isnan(self.coefficients()[2]), np.nan, 0.0)


@dataclass(frozen=True, eq=False)
class EstimatingEquation:
    """score - hessian t + noise = 0, in coordinates t of theta.

    Parameters
    ----------
    score : ndarray, shape (m,)
        Released, at t = 0.
    hessian : NoisyMatrix, shape (m, m)
    meat : ndarray, shape (m, m)
        Sampling variance of the score.
    noises : tuple of Loading
        Independent noises in the score, privacy's.
    coordinates : Coordinates
    signal : float
        An unidentified direction v hides at most ``(v't)^2 information <= signal^2``: the information that noise may
        have hidden, which is no more than `usual`.
    usual : float
        Information that a direction usually has: noise may exceed it many times.
    known : ndarray, shape (m,), optional
        Where t lies as far as public facts and `signal` say: unidentified directions are about it, and not about a
        start that noise may have carried away. By default at t = 0.
    remaining : float
        Length of the step t that the Hessian's noise multiplies; 0 where `noises` has that noise.
    clipped : tuple of Allowance
        What clipping may have moved the score by.
    moved : tuple of Allowance
        What else may have moved theta by, with loadings of shape (c, k).
    freedom : float
        Residual degrees of freedom behind the meat.
    meat_noise : NoisyMatrix, optional
        Noise of the meat, where it was released; its value is not used. It lengthens intervals as fewer degrees of
        freedom do.
    per_eta : ndarray, shape (c,), optional
        Change of each coefficient that moves the linear predictor by one std dev, where there is a link.
    within : ndarray, shape (c, p), optional
        theta is ``within @ phi`` with each ``|phi| <= 1``, as public bounds say: then unidentified directions hide as
        much as these allow, whatever `signal` is.
    """

    score: FloatArray
    hessian: NoisyMatrix
    meat: FloatArray
    noises: tuple[Loading, ...]
    coordinates: Coordinates
    signal: float
    usual: float = np.inf
    known: FloatArray | None = None
    remaining: float = 0.0
    clipped: tuple[Allowance, ...] = ()
    moved: tuple[Allowance, ...] = ()
    freedom: float = np.inf
    meat_noise: NoisyMatrix | None = None
    per_eta: FloatArray | None = None
    within: FloatArray | None = None

    def solve(
        self, names: Sequence[str], notes: Sequence[Note] = (), diagnostics: Mapping[str, float] | None = None
    ) -> NormalEstimate:
        """Return the estimate: what is identified, how precisely, and how far it may have been moved.

        Parameters
        ----------
        names : sequence of str
            Of the coefficients of theta.
        notes : sequence of Note
        diagnostics : mapping of str to float, optional
            The Hessian's `noise_to_signal` is added.
        """
        G = self.coordinates.matrix
        F = thin(G) @ self.hessian.power(-1.0)
        lost, _, back = self.unidentified()
        went = float(np.hypot(self.remaining, np.linalg.norm(back)))
        noise = total_covariance(self.noises, len(self.score)) + self.hessian.noise_in(went)
        identified, unidentified = self.hessian.noise_to_signal()
        known = {"noise_to_signal": identified}
        if lost.size:
            known["noise_to_signal_unidentified"] = unidentified
        hidden = self.coordinates.hidden
        lean, leaning = self._leaning(F)
        return NormalEstimate(
            names=tuple(names),
            theta=self.coordinates.origin + F @ self.score + G @ back,
            sampling=_symmetric(F @ self.meat @ F.T),
            noise=_symmetric(F @ noise @ F.T),
            hidden=hidden,
            hidden_size=np.linalg.norm(hidden, axis=1),
            unidentified=lean,
            leaning=leaning,
            ranges=self._ranges(),
            per_eta=self.per_eta,
            allowances=(*(F @ allowance for allowance in self.clipped), *self.moved),
            simulated=tuple(F @ one for one in self.noises if not one.normal),
            freedom=self.freedom,
            meat_noise=() if self.meat_noise is None else (self.meat_noise.mapped(F.T),),
            remarks=tuple(notes),
            diagnostics={**known, **(diagnostics or {})},
        )

    def unidentified(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return unidentified directions, shape (m, l), how much each may hide, (l,), and the way to `known`, (m,)."""
        lost, least = self.hessian.unidentified()
        known = np.zeros(len(self.score)) if self.known is None else self.known
        return lost, self.signal / np.sqrt(np.minimum(least, self.usual)), lost @ (lost.T @ known)

    def _leaning(self, F: FloatArray) -> tuple[FloatArray, tuple[Allowance, ...]]:
        """Return how far unidentified directions move theta, shape (c, l), and how wrong noise may make that.

        The Hessian is H = A + N, v an unidentified direction, t the truth. Besides the noise at the estimate, theta
        lacks ``(v + H^-1 N v) v't``, with H^-1 on identified directions. Noise may have made v small where the sum is
        not, so that both are allowed for, the latter by its standard deviation at the largest v't. Nothing but `within`
        bounds v't: the information of v may be far less than noise could hide, and v't as much larger.
        """
        G = thin(self.coordinates.matrix)
        lost, hides, _ = self.unidentified()
        if self.within is None or not lost.size:
            return np.asarray(G @ (lost * hides)), ()
        most = lost.T @ self.coordinates.back @ self.within
        length = float(np.linalg.norm(np.abs(most).sum(axis=1)))
        values, vectors = np.linalg.eigh(self.hessian.noise_in(length))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return np.asarray(G @ (lost @ most)), (Allowance(F @ root, 1.0),)

    def _ranges(self) -> FloatArray:
        """Return loadings whose sizes add up to the most that each coefficient can be, shape (c, p).

        As `within` says; else a coefficient that alone explains all explains no more than `signal` squared.
        """
        if self.within is not None:
            return self.within
        values, vectors, least = self.hessian.eigen
        at_least = np.where(values < least, np.minimum(least, self.usual), values)
        information = ((vectors.T @ self.coordinates.back) ** 2 * at_least[:, None]).sum(axis=0)
        return np.diag(self.signal / np.sqrt(np.maximum(information, 1e-300)))


@dataclass(frozen=True, eq=False)
class NormalEstimate(Estimate):
    """Normal estimates with noise of a known law; how far they may have been moved; what is not identified.

    For a contrast R, s is the standard error of ``R theta`` and a its allowance: what clipping may have moved it by,
    and what unidentified directions may. Half-lengths are cv(a / s) s, the quantile of ``|X + a|`` where X has the law
    of the error; p-values are its tails. ``R theta`` is NaN where R leans on `hidden` by more than rounding, where s is
    zero or not finite, where R theta moves the linear predictor by `WIDEST_ETA` within it, or where the unidentified
    part of a exceeds both a quarter of the 95 % half-length and either fifty s or nearly the range that the response
    leaves to the coefficients of R: then the std error would say nothing of the error, or the interval hardly more than
    the domain does.

    Parameters
    ----------
    names : tuple of str
    theta : ndarray, shape (k,)
    sampling, noise : ndarray, shape (k, k)
        Covariance of the sampling error, and of the error that is due to privacy.
    hidden : ndarray, shape (k, l)
        Directions about which nothing is known, exactly.
    hidden_size : ndarray, shape (k,)
        Largest size that entries of `hidden` had before cancellation: what rounding is relative to.
    unidentified : ndarray, shape (k, l)
        Directions that noise hides, each as long as it may be.
    ranges : ndarray, shape (k, p)
        Before any release ``R theta`` is at most the sum of the sizes of ``R @ ranges``.
    per_eta : ndarray, shape (k,), optional
        Change of each coefficient that moves the linear predictor by one std dev, where there is a link.
    allowances : tuple of Allowance
        What clipping may have moved, or the start of steps.
    simulated : tuple of Loading
        Parts of the noise that are not normal.
    freedom : float
        Residual degrees of freedom.
    meat_noise : tuple of NoisyMatrix
        Independent noises of `sampling`; their values are not used.
    remarks : tuple of Note
        What the estimator has to say; `notes` adds what follows from the numbers.
    diagnostics : mapping of str to float
    margins : MarginalEffects, optional
        Average marginal effects, where they were released.
    from_start : bool
        Whether allowances are for the start of steps.
    leaning : tuple of Allowance
        How wrong noise may make `unidentified`.
    """

    names: tuple[str, ...]
    theta: FloatArray
    sampling: FloatArray
    noise: FloatArray
    hidden: FloatArray
    hidden_size: FloatArray
    unidentified: FloatArray
    ranges: FloatArray
    per_eta: FloatArray | None = None
    allowances: tuple[Allowance, ...] = ()
    simulated: tuple[Loading, ...] = ()
    freedom: float = np.inf
    meat_noise: tuple[NoisyMatrix, ...] = ()
    remarks: tuple[Note, ...] = ()
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    margins: Any = None
    from_start: bool = False
    leaning: tuple[Allowance, ...] = ()

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        theta: FloatArray,
        sampling: FloatArray,
        noises: tuple[Loading, ...] = (),
        freedom: float = np.inf,
        notes: Sequence[Note] = (),
        diagnostics: Mapping[str, float] | None = None,
    ) -> Self:
        """Return an estimate all of whose directions are identified, with noises in the coefficients themselves."""
        k = len(theta)
        return cls(
            names=tuple(names),
            theta=theta,
            sampling=sampling,
            noise=total_covariance(noises, k),
            hidden=np.zeros((k, 0)),
            hidden_size=np.zeros(k),
            unidentified=np.zeros((k, 0)),
            ranges=np.zeros((k, 0)),
            simulated=tuple(one for one in noises if not one.normal),
            freedom=freedom,
            remarks=tuple(notes),
            diagnostics=dict(diagnostics or {}),
        )

    @property
    def notes(self) -> tuple[Note, ...]:
        return (*self.remarks, *self._not_given(), *self._leaning(), *self._moved(), *self._unreliable())

    def mapped(self, matrix: FloatArray, shift: FloatArray, names: Sequence[str] | None = None) -> Self:
        M = thin(matrix)
        return replace(
            self,
            names=self.names if names is None else tuple(names),
            theta=matrix @ self.theta + shift,
            sampling=_symmetric(M @ self.sampling @ M.T),
            noise=_symmetric(M @ self.noise @ M.T),
            hidden=M @ self.hidden,
            hidden_size=np.abs(matrix) @ self.hidden_size,
            unidentified=M @ self.unidentified,
            ranges=M @ self.ranges,
            per_eta=None if self.per_eta is None else np.abs(matrix) @ self.per_eta,
            allowances=tuple(matrix @ allowance for allowance in self.allowances),
            leaning=tuple(matrix @ allowance for allowance in self.leaning),
            simulated=tuple(matrix @ one for one in self.simulated),
            meat_noise=tuple(one.mapped(matrix.T) for one in self.meat_noise),
            margins=None if self.margins is None else self.margins.in_units(np.diag(matrix)),
        )

    def with_noise(self, noise: Loading) -> Self:
        """Return the estimate with one more independent noise in its coefficients."""
        simulated = self.simulated if noise.normal else (*self.simulated, noise)
        return replace(self, noise=self.noise + noise.covariance(), simulated=simulated)

    def contrast(
        self, R: ArrayLike, alpha: float = 0.05, q: FloatArray | float = 0.0
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        R = np.atleast_2d(np.asarray(R, dtype=float))
        law, estimate = self.error_law(R), R @ self.theta
        half, p = law.lengths(alpha), law.pvalues(estimate - q)
        values = (estimate, law.sd, estimate - half, estimate + half, p)
        given = self.identified(R, law)
        return tuple(np.where(given, value, np.nan) for value in values)  # type: ignore[return-value]

    def params(self) -> FloatArray:
        return np.where(self._given, self.theta, np.nan)

    def bse(self) -> FloatArray:
        return np.sqrt(np.diag(self.covariance()))

    def tvalues(self) -> FloatArray:
        return self.params() / self.bse()

    def bias_bound(self) -> FloatArray:
        return np.where(self._given, self.error_law(np.eye(len(self.names))).allowance, np.nan)

    def covariance(self) -> FloatArray:
        given = self._given
        return np.where(np.outer(given, given), self.sampling + self.noise, np.nan)

    def noise_share(self) -> FloatArray:
        given = self._given
        total = np.diag(self.sampling) + np.diag(self.noise)
        return np.where(given, np.diag(self.noise) / np.maximum(total, 1e-300), np.nan)

    def wald(self, R: ArrayLike, q: FloatArray | float = 0.0) -> tuple[float, int, float]:
        """Test ``R theta = q`` jointly; see `Estimate.wald`.

        What may have moved ``R theta`` gives the statistic's law a noncentrality: the square of the largest length, in
        the metric of the covariance V, that all allowances together can have.
        """
        R = np.atleast_2d(np.asarray(R, dtype=float))
        if not self.identified(R).all():
            return np.nan, len(R), np.nan
        V = R @ (self.sampling + self.noise) @ R.T
        unit = np.sqrt(np.maximum(np.diag(V), 1e-300))  # so that small units of measurement are not redundant
        values, vectors = np.linalg.eigh(V / np.outer(unit, unit))
        kept = values > 1e-10 * max(values[-1], 1e-300)
        to_white = (vectors[:, kept] / np.sqrt(values[kept])).T / unit
        distance = to_white @ (R @ self.theta - q)
        statistic, rank = float(distance @ distance), int(kept.sum())
        if len(R) == 1:
            return statistic, rank, float(self.contrast(R, q=q)[4][0])
        moves = (*self.allowances, *self.leaning)
        moved = sum(a.size * float(np.linalg.norm(to_white @ R @ a.loading, 2)) for a in moves)
        moved += float(np.linalg.norm(to_white @ R @ self.unidentified, axis=0).sum())
        return statistic, rank, self._joint_p(to_white @ R, statistic, moved, rank)

    def _joint_p(self, R: FloatArray, statistic: float, moved: float, rank: int) -> float:
        """Return P(|X + b|^2 >= statistic) at the worst ``|b| <= moved``, for errors X = R (theta-hat - theta)."""
        law = self.error_law(R)
        freedom = float(law.freedom.min(initial=np.inf))
        if not law.finest.any():
            return quadratic_tail(statistic, rank, moved, freedom)
        errors = self._together(R, np.eye(rank), freedom)
        beyond = np.linalg.norm(errors, axis=1) >= np.sqrt(statistic) - moved
        return float((1 + beyond.sum()) / (1 + len(errors)))

    def joint_errors(self, R: FloatArray) -> FloatArray:
        """Return draws of the errors of ``R theta``, all rows together, shape (draws, q): the same at each call."""
        law = self.error_law(R)
        return self._together(
            R, R @ (self.sampling + self.noise) @ R.T, float(law.freedom.min()), bool(law.finest.any())
        )

    def _together(self, R: FloatArray, total: FloatArray, freedom: float, apart: bool = True) -> FloatArray:
        """Return joint draws of errors of covariance `total`: noise as it is if `apart`, the rest normal or Student."""
        draws = self._errors(R, apart=False) if apart else np.zeros((DRAWS, len(R)))
        noises = self.simulated if apart else ()
        rest = total - sum((R @ one.covariance() @ R.T for one in noises), np.zeros_like(total))
        values, vectors = np.linalg.eigh(rest)
        stream = PublicStream(0)
        normal = stream.standard_normal(draws.shape)
        if freedom < CERTAIN:
            normal = normal / np.sqrt(2 * stream.standard_gamma(freedom / 2, (len(draws), 1)) / freedom)
        return np.asarray(draws + normal @ (vectors * np.sqrt(np.maximum(values, 0.0))).T)

    def identified(self, R: FloatArray, law: ErrorLaw | None = None) -> NDArray[np.bool_]:
        """Return which rows of ``R theta`` are identified, shape (q,): only these are ever given as numbers.

        Their std error is a positive number, and so is the width of their interval. Unidentified directions are a small
        part of the interval; or they leave less than the whole range, and the std error is still a part of the error.
        """
        law = law or self.error_law(R)
        rounding, half = np.abs(R) @ self.hidden_size, law.lengths(0.05)
        known = np.linalg.norm(R @ self.hidden, axis=1) <= EXACT * rounding
        measured = np.isfinite(half) & (half > 0) & (law.sd > 0) & (self._moves_eta(R, half) < WIDEST_ETA)
        return np.asarray(known & measured & self._says_more(R, law.sd, half))

    def _says_more(self, R: FloatArray, sd: FloatArray, half: FloatArray) -> NDArray[np.bool_]:
        """Return whether unidentified directions are a small part of the half-length, or leave less than the range."""
        lean = self.lean(R)
        says_less = (lean < NEW * np.abs(thin(R) @ self.ranges).sum(axis=1)) & (lean < MOST_LEAN * sd)
        return np.asarray((lean <= LEAN * half) | says_less)

    def lean(self, R: FloatArray) -> FloatArray:
        """Return how far unidentified directions may have moved ``R theta``, shape (q,)."""
        moved: FloatArray = np.abs(thin(R) @ self.unidentified).sum(axis=1)
        return sum((a.of(R) for a in self.leaning), moved)

    def _moves_eta(self, R: FloatArray, half: FloatArray) -> FloatArray:
        """Return by how many std devs half-lengths of ``R theta`` move the linear predictor; 0 without a link."""
        if self.per_eta is None:
            return np.zeros(len(R))
        return np.asarray(half / np.maximum(np.abs(R) @ self.per_eta, 1e-300))

    def error_law(self, R: FloatArray) -> ErrorLaw:
        """Return the laws of the errors of ``R theta``, R of shape (q, k); those of theta itself are remembered."""
        one_each = R.shape == self.sampling.shape and np.array_equal(R, np.eye(len(R)))
        return self._own_law if one_each else self._law_of(R)

    @cached_property
    def _own_law(self) -> ErrorLaw:
        return self._law_of(np.eye(len(self.names)))

    def _law_of(self, R: FloatArray) -> ErrorLaw:
        sampling, noise = _quadratic(R, self.sampling), _quadratic(R, self.noise)
        total = sampling + noise
        allowance = sum((a.of(R) for a in self.allowances), self.lean(R))
        apart = sum((_quadratic(R, one.covariance()) for one in self.simulated), np.zeros(len(R)))
        return mixed_law(
            total,
            apart,
            allowance,
            lambda normal: self._freedom(R, sampling, normal),
            lambda: self._errors(R, apart=True),
        )

    def _freedom(self, R: FloatArray, sampling: FloatArray, normal: FloatArray) -> FloatArray:
        """Return degrees of freedom (Satterthwaite) of a variance `normal`, of which the part `sampling` is estimated.

        Its own variance is ``2 sampling^2 / freedom``, and that of the meat's noise.
        """
        uncertain = 2 * sampling**2 / self.freedom
        uncertain = uncertain + sum((one.variance_along(R.T) for one in self.meat_noise), np.zeros(len(R)))
        with np.errstate(divide="ignore", invalid="ignore"):
            freedom = np.where(uncertain > 0, 2 * normal**2 / uncertain, np.inf)
        return np.maximum(freedom, 1.0)

    def _errors(self, R: FloatArray, apart: bool) -> FloatArray:
        """Return draws of the errors of ``R theta`` that are not normal, shape (draws, q): jointly, or each apart."""
        large = [one for one in self.simulated if not remembered(one)]
        narrow = [reduced(R @ one, apart) for one in large]
        if all(one.coordinates == other.coordinates for one, other in zip(narrow, large, strict=True)):
            return self._draws @ R.T
        return noise_draws((*(R @ one for one in self.simulated if remembered(one)), *narrow))

    @cached_property
    def _draws(self) -> FloatArray:
        """Joint draws of the noise that is not normal, shape (draws, k)."""
        return noise_draws(self.simulated)

    @cached_property
    def _given(self) -> NDArray[np.bool_]:
        """Which coefficients are identified, shape (k,)."""
        return self.identified(np.eye(len(self.names)))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in UNSAVED}

    def _not_given(self) -> tuple[Note, ...]:
        """Return a note on coefficients that noise leaves unidentified, if no other names them."""
        exact = np.linalg.norm(self.hidden, axis=1) > EXACT * self.hidden_size
        missing, known = ~self._given & ~exact, {name for one in self.remarks for name in one.about}
        R = np.eye(len(missing))
        law = self.error_law(R)
        half = law.lengths(0.05)
        moves = self._moves_eta(R, half)
        wide = ~(moves < WIDEST_ETA) & self._says_more(R, law.sd, half)

        def names(of: NDArray[np.bool_]) -> tuple[str, ...]:
            some = (name for name, one in zip(self.names, of & missing, strict=True) if one and name not in known)
            return tuple(dict.fromkeys(some))

        ratio = self.diagnostics.get("noise_to_signal_unidentified", np.nan)
        return (*wide_note(names(wide), WIDEST_ETA), *unidentified_note(names(~wide), ratio))

    @cached_property
    def _sd(self) -> FloatArray:
        """Standard deviation of each coefficient; rounding can make variances of far ones negative."""
        return np.sqrt(np.maximum(np.diag(self.sampling) + np.diag(self.noise), 0.0))

    def _leaning(self) -> tuple[Note, ...]:
        """Return a note on given coefficients whose intervals contain a visible part of unidentified directions."""
        lean, sd = self.lean(np.eye(len(self.names))), self._sd
        visible = self._given & (lean > VISIBLE * sd)
        if not visible.any():
            return ()
        names = tuple(dict.fromkeys(name for name, seen in zip(self.names, visible, strict=True) if seen))
        size = float((lean[visible] / np.maximum(sd, 1e-6 * lean)[visible]).max())
        return (replace(note("weak direction", names, size=size), about=()),)

    def _unreliable(self) -> tuple[Note, ...]:
        """Return a note where noise is a large part of the information."""
        if self.from_start:  # lengths do not say it: noise of the bread does not multiply that of steps
            return ()
        return reliability_note(self.diagnostics.get("noise_to_signal", 0.0)) if self._given.any() else ()

    def _moved(self) -> tuple[Note, ...]:
        """Return a note on coefficients that were visibly moved, as far as is known."""
        R, given = np.eye(len(self.names)), self._given
        moved = sum((a.of(R) for a in self.allowances), np.zeros(len(R)))
        visible = given & (moved > MOVED * self._sd)
        moves: dict[str, float] = {}  # the largest, where a name stands for coefficients of several taus
        for name, size in zip(np.array(self.names, dtype=object)[visible], moved[visible], strict=True):
            moves[name] = max(moves.get(name, 0.0), float(size))
        return self._moved_by(moves)

    def _moved_by(self, moves: Mapping[str, float]) -> tuple[Note, ...]:
        """Return the note on coefficients that were visibly moved: by what."""
        share = self.diagnostics.get("clipped_share", np.nan)
        return start_note(moves) if self.from_start else clipped_note(moves, share)


@dataclass(frozen=True, eq=False)
class Stacked:
    """Several estimating equations about the same rows, such as quantile regressions of one response.

    Noises are independent. The sampling errors of equations i and j have the covariance
    ``cross_ij / sqrt(cross_ii cross_jj)`` times that of scores with the same predictors (Koenker 2005, section 3.2).

    Parameters
    ----------
    equations : tuple of EstimatingEquation
        About coefficients of the same predictors.
    cross : ndarray, shape (r, r)
        Covariances of the scores of a row, up to the predictors: `quantile_scores`.
    """

    equations: tuple[EstimatingEquation, ...]
    cross: FloatArray

    def solve(
        self, names: Sequence[str], notes: Sequence[Note] = (), diagnostics: Mapping[str, float] | None = None
    ) -> NormalEstimate:
        """Return one estimate: all coefficients of the first equation, then those of the next."""
        k = len(self.equations[0].coordinates.origin)
        parts = [e.solve(names[i * k : (i + 1) * k]) for i, e in enumerate(self.equations)]
        r, lift = len(parts), np.eye(len(parts) * k).reshape(len(parts), k, -1).transpose(0, 2, 1)
        sds = np.sqrt(np.diag(self.cross))
        correlation = self.cross / np.outer(sds, sds)
        roots = np.concatenate([_root(e) for e in self.equations])
        shared = roots @ roots.T * np.kron(correlation, np.ones((k, k)))
        apart = scipy.linalg.block_diag(*(part.sampling for part in parts))
        each = np.kron(np.eye(r), np.ones((k, k))) > 0
        worst = {name: max(p.diagnostics.get(name, 0.0) for p in parts) for p in parts for name in p.diagnostics}
        return NormalEstimate(
            names=tuple(names),
            theta=np.concatenate([part.theta for part in parts]),
            sampling=np.where(each, apart, shared),
            noise=scipy.linalg.block_diag(*(part.noise for part in parts)),
            hidden=scipy.linalg.block_diag(*(part.hidden for part in parts)),
            hidden_size=np.concatenate([part.hidden_size for part in parts]),
            unidentified=scipy.linalg.block_diag(*(part.unidentified for part in parts)),
            ranges=scipy.linalg.block_diag(*(part.ranges for part in parts)),
            allowances=tuple(E @ one for E, part in zip(lift, parts, strict=True) for one in part.allowances),
            leaning=tuple(E @ one for E, part in zip(lift, parts, strict=True) for one in part.leaning),
            simulated=tuple(E @ one for E, part in zip(lift, parts, strict=True) for one in part.simulated),
            freedom=min(part.freedom for part in parts),
            meat_noise=tuple(one.mapped(E.T) for E, part in zip(lift, parts, strict=True) for one in part.meat_noise),
            remarks=tuple(notes),
            diagnostics={**worst, **(diagnostics or {})},
        )


def _root(equation: EstimatingEquation) -> FloatArray:
    """Return L with L L' the sampling variance of theta, shape (k, k): equal up to a number for equal predictors.

    With scores G'z in coordinates of G, L is ``G hessian^-1 G' (var z)^1/2``, whatever G is.
    """
    G = equation.coordinates.matrix
    back = equation.coordinates.back
    values, vectors = np.linalg.eigh(_symmetric(back.T @ equation.meat @ back))
    half = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return G @ equation.hessian.power(-1.0) @ G.T @ half


def quantile_scores(orders: Sequence[float]) -> FloatArray:
    """Return ``min(s, t) - s t`` for all pairs of orders of quantiles, shape (r, r)."""
    tau = np.asarray(orders, dtype=float)
    return np.minimum.outer(tau, tau) - np.outer(tau, tau)


def quadratic_tail(statistic: float, rank: int, moved: float, freedom: float) -> float:
    """Return P(|X + b|^2 >= statistic), X of `rank` coordinates, standard normal over a root of a mean chi-square.

    Parameters
    ----------
    statistic : float
    rank : int
    moved : float
        Length of b.
    freedom : float
        Degrees of freedom of the chi-square: with b = 0 the law is Fisher's F, times the rank.
    """
    if moved == 0:
        return float(chdtrc(rank, statistic) if freedom >= CERTAIN else fdtrc(rank, freedom, statistic / rank))
    scale = np.ones(1)
    if freedom < CERTAIN:
        scale = 2 / freedom * gammaincinv(freedom / 2, (np.arange(CELLS) + 0.5) / CELLS)
    return float(np.mean(scipy.stats.ncx2.sf(statistic * scale, rank, moved**2)))


def _symmetric(matrix: FloatArray) -> FloatArray:
    return np.asarray((matrix + matrix.T) / 2, dtype=float)


def _quadratic(R: FloatArray, V: FloatArray) -> FloatArray:
    """Return ``r V r'`` for each row of R, shape (q,), not negative."""
    return np.maximum(((thin(R) @ V) * R).sum(axis=1), 0.0)
