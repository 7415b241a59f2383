"""Noisy gradient descent and noisy Newton as stated by Avella-Medina, Bradshaw and Loh (2023), for comparison.

Each step releases the noisy mean of the rows' clipped scores; a score is the gradient of a row's loss. The last iterate
is the estimate. Two further releases, the Hessian and the score variance, give intervals. The intervals include the
exact contribution of the noise of all steps to the last iterate; the intervals in the paper include the noise of the
last step only. With many rows and a large budget `mech="newton"` gives shorter intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from privstats.errors import OptionError, quote
from privstats.estimators.base import NORMAL, Noises, PublicFacts, sd_of
from privstats.estimators.filling import FILLED, filling_hessian, filling_rows
from privstats.estimators.frame import PublicBox
from privstats.estimators.k_norm_gradient import rows_of
from privstats.gate.questions import Ask, Sum
from privstats.inference.descent import Step, error_of_path, of_start
from privstats.inference.estimate import Allowance, Estimate, NormalEstimate
from privstats.inference.matrix import NoisyMatrix
from privstats.inference.noise import Loading
from privstats.inference.notes import Note, note
from privstats.inference.repair import raise_eigenvalues
from privstats.inference.tables import PointEstimate
from privstats.losses.base import HUBER, HuberLoss, Loss
from privstats.losses.mestimators import Concomitant, ConcomitantScores
from privstats.losses.psi import Likelihood, MallowsRows
from privstats.numerics.law import FloatArray
from privstats.privacy.promise import is_number
from privstats.sets.vectors import Ball, Products

LENGTH = math.sqrt(2.0)  # default of the limit C on the norm of a row; rows with a larger norm have weights below 1
UNIT = 1 / math.sqrt(3.0)  # std dev of a column that is uniform between its bounds, in half-ranges
SCALES = (1e-5, 10.0)  # limits of the fitted residual scale, in units of the response's scale
SCALE_STEP = 2.0  # change of the log residual scale in a step, divided by the mean score of this parameter
HESSIAN_EDGE = 0.5  # lower limit of the Hessian's eigenvalues, divided by the largest eigenvalue of its noise (`edge`)
# USUAL_PART: no coefficient is reported if the lower limit of the eigenvalues of the Hessian per row exceeds
# USUAL_PART x (largest curvature of a row's loss) / (number of coefficients).
USUAL_PART = 0.8
MOST_QUESTIONS = 1000  # largest number of steps; the plan lists a separate query for each step
MOST_LEFT = 0.4  # coefficients are reported if at most this share of the starting value's error remains after all steps
OUT_OF_SIGHT = 10.0  # error (in response scales) assumed in directions in which more than the share MOST_LEFT remains
NEWTON_STEP, LONGEST_STEP = 0.5, 3.0  # default step size of Newton steps; longest Newton step, in residual scales
WORTH_SAYING = 1.05  # a note gives the ratio of interval lengths, (this method) / (mech="newton"), if above this number
AMPLE = 0.1  # the note gives the ratio only if the noise of the Hessian is below this share of its eigenvalues
SCORE_SHARE = 0.5  # share of the budget mu^2 of mu-GDP that mech="newton" spends on its final score


@dataclass(frozen=True)
class NoisyGradientDescent:
    r"""Noisy gradient descent: K steps ``theta <- theta - eta (g + N)`` with gradient g and normal noise N.

    Here theta is the vector of coefficients, eta the step size, and g the gradient of the mean loss over n rows.

    Privacy: neighbouring data sets differ in one replaced row; the number n of rows is public.

    - Steps: a row's score is clipped to a ball of radius B, so that a replaced row changes the sum of scores by at
      most 2 B. Therefore K releases of g with noise of sd ``2 B sqrt(K) / (n mu)`` are mu-GDP in total.
    - Hessian and score variance: each is a sum over rows of products v v', where v is a vector of norm at most r. A
      replaced row changes the sum by at most r^2, in the weighted l2 norm of `Products`. If the sum is released with
      the budget mu, the noise therefore has sd ``sqrt(2) r^2 / mu`` on the diagonal and ``r^2 / mu`` off the diagonal.
      (The paper by Avella-Medina, Bradshaw and Loh uses 2 r^2 for all entries.)
    - Budget: mu^2 is divided into K + 2 equal parts: one part for each of the K steps and, for the intervals, one for
      the Hessian and one for the score variance. If the number of rows used is private and the residual scale is
      fitted, this number is released first, with about 2% of the budget. (The paper spends mu on the steps, mu on the
      Hessian and mu on the score variance, sqrt(3) mu in total.)

    Intervals: let M be the Hessian of the mean loss, s the sd of N, and ``R = I - eta M``. If s is the same in all
    steps, the noise of the last iterate theta_K has the covariance
    ``eta^2 s^2 (I + R^2 + ... + R^(2K-2)) = eta s^2 (I - R^2K) M^-1 (2 I - eta M)^-1``. The sandwich variance is added
    to this covariance. The bias bound is the part of the starting value's error that remains after K steps. For the
    starting value 0 it is estimated by ``R^K (I - R^K)^-1 theta_K``. A coefficient is not reported if it depends on a
    direction along which at least the share `MOST_LEFT` of the starting value's error may remain.

    M is released with noise. The eigenvalues of the noisy matrix are raised to at least half the largest eigenvalue of
    the noise. The eigenvalues of M are assumed to be larger than this limit, as for predictors with declared scales
    (`Scale`) that are not collinear. There are two special cases:

    - If the noise exceeds the information about some linear combination of predictors, a note states that the
      intervals depend on the declared scales.
    - If a predictor has no declared scale, the remaining part of the starting value's error is computed from a lower
      bound on M.

    Parameters
    ----------
    noises : Noises
        Noise mechanisms, one for each kind of query.
    loss : Loss
        Huber's loss, another loss with a bounded derivative, or a logistic likelihood.
    rows : int
        Public number of rows n.
    steps : int, optional
        Number of steps K; by default ``ceil(8 log n)``.
    step_size : float, optional
        Step size eta; by default 1 divided by the largest curvature of a row's loss.
    clip : float
        Limit C on the norm of a row: a row x has weight ``min(1, C^2 / |x|^2)``. The unit of a numeric column in x is
        its declared scale, or by default its half-range divided by sqrt(3).
    tuning : float
        Threshold c of a robust loss, in residual scales.
    sigma : float, optional
        Known residual scale, in units of the response's scale, for benchmarks; by default the scale is fitted.
    """

    noises: Noises = NORMAL
    loss: Loss = field(default_factory=HuberLoss)
    rows: int = 0
    steps: int | None = None
    step_size: float | None = None
    clip: float = LENGTH
    tuning: float = HUBER
    sigma: float | None = None

    a_log_n: ClassVar[float] = 8.0  # (default number of steps) / log n, for n rows
    with_hessians: ClassVar[bool] = False

    def __post_init__(self) -> None:
        whole = isinstance(self.steps, int) and not isinstance(self.steps, bool) and self.steps > 0
        if self.steps is not None and not (whole and self.steps <= MOST_QUESTIONS):
            raise OptionError(
                f"steps is {quote(self.steps)}; give a whole number up to {MOST_QUESTIONS}, such as steps=50"
            )
        for name, example in (("clip", 1.4), ("tuning", 1.345)):
            value = getattr(self, name)
            if not is_number(value) or not 0 < value < math.inf:
                raise OptionError(f"{name} is {quote(value)}; give a positive number, such as {name}={example}")
        if self.step_size is not None and (not is_number(self.step_size) or not 0 < self.step_size < self.longest_step):
            raise OptionError(
                f"step_size is {quote(self.step_size)}; give a number between 0 and {self.longest_step:.3g}, beyond "
                "which steps may diverge"
            )

    @property
    def K(self) -> int:
        """Number of steps."""
        return self.steps or max(1, math.ceil(self.a_log_n * math.log(max(self.rows, 2))))

    @property
    def curvature(self) -> float:
        """Upper bound on the second derivative of a weighted row's loss along any direction of the coefficients.

        The bound is ``clip^2`` times the largest second derivative of the loss with respect to the linear predictor.
        Coefficients and linear predictor are divided by the residual scale.
        """
        return self.clip**2 * self.loss.largest_slope

    @property
    def longest_step(self) -> float:
        """Upper limit of the step size; with a larger step size the iteration may diverge."""
        return 2 / self.curvature

    @property
    def eta(self) -> float:
        """Step size, by default 1 divided by the largest curvature of a row's loss."""
        return self.step_size or 1 / self.curvature

    @property
    def shares(self) -> Mapping[str, float]:
        each = 1 / (self.K * (1 + self.with_hessians) + 2)
        steps = {"gradient": self.K * each, **({"hessians": self.K * each} if self.with_hessians else {})}
        return {"rows": 0.02, **steps, "hessian": each, "meat": each}

    def __call__(self, ask: Ask, public: PublicFacts) -> Estimate:
        box = PublicBox(public.design)
        rows = ScaledRows.of(self.loss, box, self.clip, self.tuning, self.sigma, max(self.rows, 1))
        present, known = rows_of(ask, self.noises, public) if rows.both is not None else (0.0, {})
        at, path = Iterate(np.zeros(box.c), 1.0 if self.sigma is None else self.sigma), []
        for k in range(self.K):
            score, chi, sd = rows.score(ask, self.noises, at, f"{k + 1}", present)
            S, s = self.matrix(ask, rows, at, k), sd * at.sigma
            at, S = self.moved(at, S, score, chi, rows)
            path.append((S, s))
        if not public.intervals:
            return self.alone(rows, at, path, public)
        hessian = NoisyMatrix.of(ask(rows.hessian(at, "hessian"), by=self.noises.products))
        meat = NoisyMatrix.of(ask(rows.meat(at), by=self.noises.products))
        known |= {"sigma": at.sigma * rows.unit} if rows.robust else {}
        return self.with_intervals(rows, at, path, hessian, meat, known)

    def alone(self, rows: ScaledRows, at: Iterate, path: list[Step], public: PublicFacts) -> PointEstimate:
        """Return the last iterate without intervals, and the covariance of its noise, computed from synthetic rows.

        In the synthetic rows, numeric columns are uniform between their bounds, and a factor's levels equally likely.
        `at` is the last iterate. `path` has, for each step, the matrix by which the score was multiplied and the noise
        sd of the score.
        """
        weight = np.minimum(1.0, self.clip**2 / ((filling_rows(rows.box) / rows.scales) ** 2).sum(axis=1))
        filled = filling_hessian(rows.box, public, weight * self.loss.largest_slope) / rows.n
        M = raise_eigenvalues(filled / np.outer(rows.scales, rows.scales), 0.0, self.curvature)
        noise = rows.to_theta @ error_of_path(path, M)[0] @ rows.to_theta.T
        remark = note("as stated", other=instead(self.loss))
        return PointEstimate(rows.names, rows.to_theta @ at.beta, (remark,), noise=noise, given=FILLED)

    def with_intervals(
        self,
        rows: ScaledRows,
        at: Iterate,
        path: list[Step],
        hessian: NoisyMatrix,
        meat: NoisyMatrix,
        known: Mapping[str, float],
    ) -> NormalEstimate:
        """Return the last iterate with its errors: sampling error, the noise of all steps, and an optimisation error.

        The optimisation error is the part of the starting value's error that the steps did not remove. `rows` is the
        builder of the queries, and `at` the last iterate. `path` has, for each step, the matrix by which the score was
        multiplied and the noise sd of the score. `hessian` and `meat` are the released Hessian and the released sum of
        the products s s' over scores s; `known` contains diagnostics of the fit.
        """
        to_theta, freedom = rows.to_theta, max(rows.n - rows.box.c, 1)
        half_edge = HESSIAN_EDGE * edge(hessian) / rows.n
        M = raise_eigenvalues(hessian.value / rows.n, half_edge, self.curvature)
        noise, left = error_of_path(path, M)
        if not rows.declared:
            values, V, noise_alone = hessian.eigen
            surely = (V * np.clip((values - noise_alone) / rows.n, 0.0, self.curvature)) @ V.T
            left = error_of_path(path, surely)[1]
        if half_edge > USUAL_PART * self.curvature / rows.box.c:
            left = np.eye(rows.box.c)
        lag, unknown = of_start(left, at.beta, MOST_LEFT)
        Q = raise_eigenvalues(meat.value / rows.n)
        sandwich = at.sigma**2 * np.linalg.solve(M, np.linalg.solve(M, Q).T) / freedom
        sandwich = to_theta @ (sandwich + sandwich.T) @ to_theta.T / 2
        estimate = replace(
            NormalEstimate.of(
                rows.names,
                to_theta @ at.beta,
                sandwich,
                (Loading(to_theta @ root_of(noise)),),
                freedom,
                diagnostics={**known, "noise_to_signal": max(hessian.noise_to_signal())},
            ),
            allowances=(Allowance(to_theta @ lag[:, None], 1.0),),
            unidentified=to_theta @ unknown * OUT_OF_SIGHT,
            from_start=True,
        )
        s = path[-1][1] * (self.shares["meat"] / SCORE_SHARE) ** 0.5
        one = np.sqrt(np.diag(sandwich + s**2 * to_theta @ np.linalg.inv(M @ M) @ to_theta.T))
        return replace(estimate, remarks=self.remarks(estimate, one))

    def remarks(self, estimate: NormalEstimate, one: FloatArray) -> tuple[Note, ...]:
        """Return notes on a more precise method, on convergence, and on intervals that depend on declared scales.

        Parameters
        ----------
        estimate : NormalEstimate
            Estimate of the fit.
        one : ndarray, shape (c,)
            Approximate std errors of the method ``mech="newton"``: the std errors of one Newton step whose score has
            the budget share that ``mech="newton"`` spends on its final score.
        """
        other, (value, _, low, high) = instead(self.loss), estimate.coefficients()
        times = float(np.median((high - low) / (2 * ndtri(0.975) * one)))
        longer = times > WORTH_SAYING and estimate.diagnostics["noise_to_signal"] < AMPLE
        first = note("as stated with intervals", times=times, other=other) if longer else note("as stated", other=other)
        lost = [name for name, missing in zip(estimate.names, np.isnan(value), strict=True) if missing]
        if not lost:
            hidden = estimate.diagnostics["noise_to_signal"] > 1
            return (first, note("scales alone", other=other)) if hidden else (first,)
        more = min(4 * self.K, MOST_QUESTIONS)
        return first, note("not arrived", lost, steps=self.K, part=f"{MOST_LEFT:.0%}", more=more, other=other)

    def matrix(self, ask: Ask, rows: ScaledRows, at: Iterate, k: int) -> FloatArray:
        """Return the matrix S of step k, shape (c, c), by which the step multiplies the released mean score.

        For gradient steps, S is the step size times the identity. In `NoisyNewton`, S is the step size times the
        inverse of a Hessian, which is released at the coefficients and the residual scale of the iterate `at`.
        """
        return self.eta * np.eye(len(at.beta))

    def moved(
        self, at: Iterate, S: FloatArray, score: FloatArray, chi: float, rows: ScaledRows
    ) -> tuple[Iterate, FloatArray]:
        """Return the next iterate and the matrix by which the score was multiplied: S, scaled down if the step is long.

        Parameters
        ----------
        at : Iterate
            Coefficients and residual scale before the step.
        S : ndarray, shape (c, c)
            Matrix by which the score is to be multiplied.
        score : ndarray, shape (c,)
            Released mean score of the coefficients.
        chi : float
            Released mean score of the log residual scale.
        rows : ScaledRows
            Builder of the queries; determines whether the residual scale is fitted.
        """
        sigma = at.sigma
        if rows.both is not None:
            sigma = float(np.clip(sigma * math.exp(np.clip(SCALE_STEP * chi, -1.0, 1.0)), *SCALES))
        return Iterate(at.beta + at.sigma * (S @ score), sigma), S


@dataclass(frozen=True)
class NoisyNewton(NoisyGradientDescent):
    r"""Noisy Newton: K steps ``theta <- theta - eta (H + W)^-1 (g + N)``.

    Here theta is the vector of coefficients and eta the step size. Each step releases the gradient g of the mean loss
    with noise N, and the Hessian H of the mean loss with noise W.

    Privacy: the proof is the same as for `NoisyGradientDescent`. The budget mu^2 of mu-GDP is divided into 2 K + 2
    equal parts: one part for each of the K gradients and K Hessians of the steps and, for the intervals, one for the
    Hessian and one for the score variance at the last iterate. If the number of rows used is private and the residual
    scale is fitted, the release of this number takes about 2% of the budget.

    Two operations, which are post-processing, limit the steps:

    - Eigenvalues of H + W are raised to at least the largest eigenvalue of W, which is about ``sqrt(2 p)`` times the
      sd of a diagonal entry of W, for p coefficients.
    - A step is scaled down if its norm (for scaled predictors) exceeds three residual scales.

    Intervals: step k multiplies the score by a matrix S_k, which is eta times the inverse of H + W after these two
    operations. The noise of the last iterate has the covariance ``sum_k s_k^2 Q_k S_k S_k' Q_k'``, a sum over all
    steps, where s_k is the sd of N in step k. The matrix ``Q_k = R_K ... R_(k+1)`` is the effect of later steps on the
    noise of step k. Here ``R_i = I - S_i M``, and M is the Hessian of the mean loss at the last iterate.
    """

    a_log_n: ClassVar[float] = 2.3
    with_hessians: ClassVar[bool] = True

    @property
    def longest_step(self) -> float:
        return 2.0

    @property
    def eta(self) -> float:
        return self.step_size or NEWTON_STEP

    def matrix(self, ask: Ask, rows: ScaledRows, at: Iterate, k: int) -> FloatArray:
        H = NoisyMatrix.of(ask(rows.hessian(at, "hessians", f"{k + 1}"), by=self.noises.products))
        return np.asarray(self.eta * np.linalg.inv(raise_eigenvalues(H.value / rows.n, edge(H) / rows.n)), dtype=float)

    def moved(
        self, at: Iterate, S: FloatArray, score: FloatArray, chi: float, rows: ScaledRows
    ) -> tuple[Iterate, FloatArray]:
        S = S / max(1.0, float(np.linalg.norm(S @ score)) / LONGEST_STEP)
        return super().moved(at, S, score, chi, rows)


@dataclass(frozen=True, eq=False)
class Iterate:
    """Coefficients of the scaled predictors (`beta`) and residual scale (`sigma`) after a step of the descent.

    Coefficients and residual scale are in units of the response's scale; for a likelihood, this unit is 1.
    """

    beta: FloatArray
    sigma: float


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """Builder of the queries about rows x of scaled predictors, with weights ``w = min(1, C^2 / |x|^2)``.

    Parameters
    ----------
    loss : Loss
        Loss whose sum over rows the fit minimises.
    box : PublicBox
        Public information about the design's columns.
    clip : float
        Limit C on the Euclidean norm |x| of a row; rows with a larger norm have weights below 1.
    scales : ndarray, shape (c,)
        Scales of the columns, in units of half of a column's declared range.
    unit : float
        Scale of the response, in units of half of its declared range; 1 if the model has a link function.
    n : int
        Public number of rows.
    both : Concomitant, optional
        Joint score of coefficients and log residual scale, if the scale is fitted.
    declared : bool
        Whether all predictors are numeric, with scales declared in the domain (`Scale`).
    """

    loss: Loss
    box: PublicBox
    clip: float
    scales: FloatArray
    unit: float
    n: int
    both: Concomitant | None = None
    declared: bool = False

    @classmethod
    def of(cls, loss: Loss, box: PublicBox, clip: float, tuning: float, sigma: float | None, n: int) -> ScaledRows:
        """Return the query builder for a loss and a design, with the columns' declared or default scales.

        `clip` is the limit C on the norm of a row, `tuning` the threshold of a robust loss in residual scales, and `n`
        the public number of rows. `sigma` is the known residual scale; if it is None and the loss is robust, the
        residual scale is fitted.
        """
        declared = np.minimum(box.design.declared_scales, UNIT)
        scales, known = np.ones(box.c), bool((box.design.declared_scales[box.slopes] < 1).all())
        scales[box.slopes] = declared[box.slopes]
        if isinstance(loss, Likelihood):
            in_units = loss.in_units(box.design.response_center, box.design.response_half)
            return cls(in_units, box, clip, scales, 1.0, n, declared=known)
        assert isinstance(loss, HuberLoss)
        robust = replace(loss, clip=float(tuning))
        both = Concomitant(robust, clip**2) if sigma is None else None
        return cls(robust, box, clip, scales, float(declared[-1]), n, both, known)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        return tuple(self.box.design.names)

    @property
    def robust(self) -> bool:
        """Whether the loss is a robust loss with a residual scale."""
        return isinstance(self.loss, HuberLoss)

    @cached_property
    def P(self) -> FloatArray:
        """Matrix P, shape (entries of z, c), that maps a row z of columns and response to its scaled predictors z'P."""
        P = np.zeros((self.box.width, self.box.c))
        P[: self.box.c] = np.diag(1 / self.scales)
        return P

    @property
    def to_theta(self) -> FloatArray:
        """Matrix that maps coefficients of scaled predictors to coefficients of the design's columns, shape (c, c)."""
        return self.unit * np.diag(1 / self.scales)

    @property
    def largest_psi(self) -> float:
        """Upper bound on |psi|, where psi is the derivative of a row's loss with respect to the linear predictor.

        For a robust loss, psi is divided by the residual scale.
        """
        return self.loss.clip if isinstance(self.loss, HuberLoss) else self.loss.largest(np.inf)

    def eta(self, at: Iterate) -> FloatArray:
        """Return the vector whose inner product with a row z is the row's linear predictor at the iterate `at`.

        The entries of z are the columns, the offset (if there is one) and the response. The last entry of the vector
        is 0.
        """
        return np.r_[self.to_theta @ at.beta, self.box.offset, 0.0]

    def at(self, at: Iterate) -> tuple[Loss, float]:
        """Return the loss with the iterate's residual scale, and this scale in units of half of the response's range.

        The loss of a likelihood has no residual scale; the returned scale is then 1.
        """
        scale = at.sigma * self.unit if self.robust else 1.0
        return self.loss.with_scale(scale), scale

    def score(self, ask: Ask, by: Noises, at: Iterate, item: str, present: float) -> tuple[FloatArray, float, float]:
        """Release the mean scores of the coefficients and of the log residual scale.

        Parameters
        ----------
        ask : Ask
            Function that sends queries to the data and returns noisy releases.
        by : Noises
            Noise mechanisms, one for each kind of query.
        at : Iterate
            Coefficients and residual scale at which the scores are computed.
        item : str
            Label of the query, which is the number of the step.
        present : float
            Number of rows used. The query subtracts a constant from each row's score of the log residual scale;
            `present` times this constant is added back.

        Returns
        -------
        tuple of ndarray, float, float
            Mean score of the coefficients, shape (c,); mean score of the log residual scale, or 0 if this scale is not
            fitted; and noise sd of each coordinate of the coefficients' mean score.
        """
        loss, scale = self.at(at)
        if self.both is None:
            rows: Any = self.weighed(loss, self.P / scale, at, squared=False)
            within = Ball(self.box.c, self.clip * self.largest_psi)
        else:
            rows = ConcomitantScores(self.both, self.P, self.eta(at), scale)
            within = Ball(self.box.c + 1, self.both.radius)
        release = ask(Sum("gradient", rows, within=within, item=item), by=by.vector)
        sd, value = sd_of(release.law) / self.n, release.value / self.n
        if self.both is None:
            return value, 0.0, sd
        return value[:-1], value[-1] / self.both.weight + self.both.largest * present / self.n, sd

    def hessian(self, at: Iterate, name: str, item: str = "") -> Sum:
        """Return the query for the Hessian: the sum of ``w d x x'`` over rows x of scaled predictors.

        Here w is the weight of a row, and d is the second derivative of the row's loss with respect to the linear
        predictor, at the iterate `at`. `name` is the name of the budget share, and `item` a label of the query.
        """
        loss, _ = self.at(at)
        within = Products(self.box.c, self.clip * loss.largest_slope**0.5)
        return Sum(name, self.weighed(loss, self.P, at, squared=True), within=within, item=item)

    def meat(self, at: Iterate) -> Sum:
        """Return the query for the sum of the products s s' over rows, where s is a row's score at the iterate `at`.

        The sum is used in the sandwich variance of the coefficients.
        """
        loss, scale = self.at(at)
        within = Products(self.box.c, self.clip * self.largest_psi)
        return Sum("meat", self.weighed(loss, self.P / scale, at, squared=False), within=within)

    def weighed(self, loss: Loss, P: FloatArray, at: Iterate, squared: bool) -> MallowsRows:
        """Return the function that maps a row to its score or, if `squared`, to its vector v for the Hessian.

        The Hessian is the sum of the products v v' over rows. A row z (columns and response) has the vector z'P of
        predictors; its score and its vector v are multiples of z'P. The derivatives of `loss` are computed at the
        coefficients and the residual scale of the iterate `at`.
        """
        return MallowsRows(loss, self.P, P, self.eta(at), np.inf, self.clip**2, squared)


def edge(matrix: NoisyMatrix) -> float:
    """Return the approximate largest eigenvalue of the noise of a released p x p matrix.

    This eigenvalue is about sqrt(2 p) times the noise standard deviation of a diagonal entry.
    """
    p = len(matrix.value)
    return float(np.sqrt(2 * p * np.diag(matrix.entry_variances(np.eye(p))).max()))


def root_of(matrix: FloatArray) -> FloatArray:
    """Return a root L of a covariance matrix, such that ``L L'`` is the matrix."""
    values, V = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray(V * np.sqrt(np.maximum(values, 0.0)), dtype=float)


def instead(loss: Loss) -> str:
    """Return the arguments that notes recommend for shorter intervals, as a text such as "mech='newton'".

    For a robust loss other than Huber's loss, the text also recommends loss='huber'.
    """
    usual = isinstance(loss, Likelihood) or type(loss) is HuberLoss
    return "mech='newton'" if usual else "mech='newton' with loss='huber'"
