"""One-step estimation for all losses: the estimate is the solution of a noisy estimating equation.

`OneStep.equation` contains the stages of METHODS.md, section 2, that follow the first releases (scales of columns,
counts of factor levels, rough second moments). Each stage is a method, which subclasses for the different losses may
override. The last release is a sum of clipped scores (gradients of the rows' losses) or, in other methods, the
minimiser of a perturbed loss (the sum of the rows' losses, a ridge penalty and a random linear term). With clipped
scores the method is ``mech="newton"``. The noisy Newton method of Avella-Medina, Bradshaw and Loh (2023) is a separate
method, ``mech="noisy_newton"``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from privstats.estimators.base import Noises, PublicFacts, score_sd, sd_of
from privstats.estimators.constants import (
    ALONG_HIDDEN,
    FAR_BOUNDS,
    FEW_COORDINATES,
    LEFT_OUT,
    ONE_SIDED,
    SQUARES_NOISE,
    VISIBLE,
)
from privstats.estimators.frame import PublicBox, Scales
from privstats.estimators.histogram import TAILS, Clip, Lengths, Tail, Whole, part_along
from privstats.estimators.levels import KeptLevels, hidden_levels, level_notes
from privstats.estimators.preconditioner import Sizes, Start, whitened_again
from privstats.estimators.synthetic import SyntheticRows
from privstats.gate.questions import Ask, Sum
from privstats.inference.estimate import (
    Allowance,
    Coordinates,
    Estimate,
    EstimatingEquation,
    NormalEstimate,
    NumericColumns,
)
from privstats.inference.matrix import NoisyMatrix
from privstats.inference.meat import Meat
from privstats.inference.noise import Loading
from privstats.inference.notes import Note, note
from privstats.inference.repair import shrink_toward
from privstats.inference.tables import PointEstimate
from privstats.numerics.law import FloatArray
from privstats.privacy.release import Release
from privstats.sets.vectors import Ball, Products, SquaredEntries, SumAndProducts


@dataclass(frozen=True, eq=False)
class Problem:
    """An estimation problem: the public information, assumptions and first releases that all later stages use.

    Parameters
    ----------
    ask : Ask
        Function that sends queries to the data and returns noisy releases.
    by : Noises
        Noise mechanisms, one for each kind of query.
    box : PublicBox
        Public information about the design's columns.
    start : Start
        Whitened predictors and starting coefficients.
    levels : KeptLevels
        Factor levels kept in the fit.
    sizes : Sizes
        Number of rows at kept levels, and number of scores (one score for each row, or for each privacy unit).
    public : PublicFacts
        Public information about the fit, such as numbers of rows.
    robust : bool
        Whether the variance of errors may differ between rows.
    tail : Tail
        Assumption on the numbers of scores with large norms, used where noise exceeds the counts of the histogram of
        score norms.
    scales : Scales, optional
        Released scales of columns; None if they were not released.
    offset : tuple of two floats
        Released mean and standard deviation of the model's offset; both are 0 without an offset.
    """

    ask: Ask
    by: Noises
    box: PublicBox
    start: Start
    levels: KeptLevels
    sizes: Sizes
    public: PublicFacts
    robust: bool = True
    tail: Tail = TAILS["usual"]
    scales: Scales | None = None
    offset: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(cls, problem: Problem, **own: Any) -> Self:
        """Return an instance of this class with the fields of `problem`; `own` has the values of additional fields."""
        return cls(**{one.name: getattr(problem, one.name) for one in fields(Problem)}, **own)

    @property
    def m(self) -> int:
        return self.start.m

    @property
    def rows(self) -> float:
        return self.sizes.rows

    @property
    def keep(self) -> Any:
        return self.levels.keep

    @property
    def folded(self) -> bool:
        """Whether the scores of one privacy unit (person) are added up."""
        return self.public.by_unit

    @property
    def most_rows(self) -> int:
        """Largest number of rows whose scores are added up for one privacy unit; 1 if there are no privacy units."""
        return self.public.rows_per_unit if self.folded else 1

    @property
    def mean_rows(self) -> float:
        """Mean number of used rows whose scores are added up for a privacy unit; 1 if units have at most one row."""
        return max(self.sizes.rows / self.sizes.scores, 1.0) if self.most_rows > 1 else 1.0

    def total(self, number: float) -> Whole | None:
        """Return `number`, the total count of a histogram of norms, with its standard error; None for weighted rows.

        With privacy units (persons), `number` is only an upper bound of the total, because a unit may have no used row;
        the standard error is then infinite.
        """
        released = self.sizes.released
        sd = float(np.hypot(released[1] if released else 0.0, self.levels.left_out_sd))
        return None if self.box.design.weighted else Whole(number, np.inf if self.folded else sd)

    def whitened_again(self, share_of: tuple[str, ...]) -> Self:
        """Return the problem, with predictors whitened again if noise exceeds an eigenvalue of their second moments.

        The second whitening needs a release, which spends part of the budget of a later query. `share_of` contains the
        label of this query, or several labels, one for each alternative method.
        """
        start = whitened_again(self.ask, self.by, self.box, self.start, self.levels, self.rows, share_of)
        return replace(self, start=start)

    def assuming(self, tail: str, cov_type: str, scores: str = "usual") -> Self:
        """Return the estimation problem with assumptions on the tail of score norms and on error variances.

        Parameters
        ----------
        tail : {"usual", "cautious"}
            Option set by the user. The option selects one of the assumptions in `TAILS`:

            - "cautious": ``TAILS["cautious"]``.
            - "usual", with a value of `scores` other than "usual": ``TAILS[scores]`` ("means" with the margin below).
            - "usual", with "usual" scores, and with columns with wide bounds (`far_columns`) or a one-sided response
              (`one_sided`): ``TAILS["far"]``.
            - "usual", with "usual" scores otherwise: ``TAILS["usual"]``, with its safety margin `residue` multiplied by
              the smaller of 1 and ``sqrt(ALONG_HIDDEN / m)``, for m coefficients.
        cov_type : {"HC", "nonrobust"}
            Whether error variances may differ between rows, or are equal.
        scores : {"usual", "means", "bounded", "counted", "rows"}
            Kind of score: "means" for means of groups, "bounded" for losses with a bounded derivative, "counted" for
            perturbed losses of count and gamma models, "rows" if row norms replace score norms, otherwise "usual".
        """
        if tail == "usual":
            tail = "far" if scores == "usual" and (self.far_columns or self.one_sided) else scores
        assumed = TAILS[tail]
        if tail in ("usual", "means"):
            assumed = replace(assumed, residue=assumed.residue * part_along(ALONG_HIDDEN, self.m, assumed))
        return replace(self, tail=assumed, robust=cov_type != "nonrobust")

    # coordinates of the coefficients theta: the coefficients of the whitened predictors w
    def along(self, theta: FloatArray) -> FloatArray:
        """Return the coefficients of the m whitened predictors, for the coefficients theta of the design's columns."""
        return self.start.coordinates(theta, self.levels.hidden)

    @cached_property
    def constant(self) -> FloatArray:
        """Coordinates of the intercept, shape (m,): the vector whose product with each whitened row is 1.

        The vector is 0 without an intercept.
        """
        one = self.box.intercept
        return np.zeros(self.m) if one is None else self.along(np.eye(self.box.c)[one])

    @cached_property
    def synthetic(self) -> SyntheticRows:
        """Synthetic rows that have the released moments of the whitened predictors."""
        assert self.scales is not None
        return SyntheticRows(self.box, self.scales, self.levels, self.start, self.constant, self.offset)

    # degrees of freedom of the estimated variance of scores
    @property
    def counted(self) -> float:
        """Number n of scores in the residual degrees of freedom n - m, for m coefficients.

        For weighted rows without privacy units, n is the number of rows in the data, if this number is public.
        """
        if self.box.design.weighted and self.public.offered is not None and not self.folded:
            return float(self.public.offered)
        return self.sizes.scores

    @property
    def freedom(self) -> float:
        """Residual degrees of freedom: number of scores minus number of coefficients, at least 1."""
        return max(self.counted - self.m, 1.0)

    @property
    def small_sample(self) -> float:
        """Degrees-of-freedom factor n / (n - m) of the variance estimator HC1, for n scores and m coefficients."""
        return max(self.counted, 1.0) / self.freedom

    # --- methods for the estimate, after the estimating equation is solved
    def given(self, estimate: NormalEstimate) -> Estimate:
        """Return the estimate, without intervals if the user requested none.

        In a fit of several quantiles, the coefficients of the first quantile come first, then the coefficients of the
        second quantile, and so on. Without intervals, the notes on factor levels are computed from the coefficients of
        the first quantile alone.
        """
        if self.public.intervals:
            return estimate
        names, k = self.box.design.names, len(estimate.theta)
        unread = np.kron(np.eye(k // len(names)), self.levels.unread)
        alone = PointEstimate.alone(estimate, np.asarray(unread, dtype=float))
        needed = self.levels.needed_levels
        sums = [(at, count, sd, needed[at] + VISIBLE * sd) for at, count, sd in self.levels.sums]
        first = alone.mapped(np.eye(len(names), k), np.zeros(len(names)), names)
        return replace(alone, remarks=hidden_levels(self.box, sums, first, self.sizes.rows))

    @cached_property
    def far_columns(self) -> dict[int, float]:
        """Numeric columns with wide bounds: column index, and the largest absolute standardised bound of the column.

        Bounds are wide if one of them is more than `FAR_BOUNDS` standard deviations from the column's mean. Products of
        columns, and columns with a declared scale, are left out.
        """
        coded = {j for factor in self.box.design.factors for j in factor.columns}
        coded |= set(np.flatnonzero(self.box.design.declared_scales[:-1] < 1).tolist())
        made = {j for j, *_ in self.box.products}
        reach = {where[0]: float(np.abs(ends).max()) for where, ends in self.start.frame.parts if len(where) == 1}
        return {j: r for j, r in reach.items() if r > FAR_BOUNDS and j not in coded and j not in made}

    @property
    def one_sided(self) -> bool:
        """Whether scores of large norm have nearly the same direction, because most responses are near one bound.

        Examples are amounts and counts. The result is True if the released mean of the response is within
        `ONE_SIDED[0]` standard deviations of one bound of the response and more than `ONE_SIDED[1]` standard deviations
        from the other bound, and if scores have at most `FEW_COORDINATES` coordinates. Scores of large norm then belong
        to responses far from the mean on one side, and have nearly the same direction.
        """
        # the unit is the half-range of the response; `mean` is the distance of the mean from the middle of the range
        mean, sd = abs(self.start.center), self.start.frame.scale
        return bool(self.m <= FEW_COORDINATES and 1 - mean < ONE_SIDED[0] * sd and 1 + mean > ONE_SIDED[1] * sd)

    def far_bounds(self, response: bool = False) -> tuple[Note, ...]:
        """Return a note for each column with a bound that is many released standard deviations from the mean.

        If `response` is True, the result includes a note on the response if one of its bounds is as far from its mean.
        `response` is True for methods that clip the values of the response, because wide bounds of the response then
        increase the noise.
        """
        names, reach = self.box.design.names, (1 + abs(self.start.center)) / self.start.frame.scale
        columns = tuple(note("far bounds", name=names[j], sds=far) for j, far in self.far_columns.items())
        if not (response and reach > FAR_BOUNDS):
            return columns
        return (*columns, note("far response", name=self.box.design.response, sds=reach))


@dataclass(frozen=True, eq=False)
class LastRelease:
    """The noisy score from which the last Newton step is computed, and the coefficients at which it was released.

    Parameters
    ----------
    value : ndarray, shape (m,)
        Sum of clipped scores at the coefficients `at`; for a perturbed loss, gradient of the ridge penalty at the
        released minimiser of the loss.
    noise : Loading
        Noise of `value`.
    sd : float
        Standard deviation of a coordinate of the noise.
    radius : float
        Clipping threshold of the scores.
    at : Start
        Coefficients at which the score was computed.
    ridge : float
        Coefficient of the ridge penalty of the perturbed loss; 0 for clipped scores.
    products : NoisyMatrix, optional
        Second moments of clipped scores, if released.
    """

    value: FloatArray
    noise: Loading
    sd: float
    radius: float
    at: Start
    ridge: float = 0.0
    products: NoisyMatrix | None = None

    @classmethod
    def of(cls, release: Release, at: Start, products: Release | None = None) -> LastRelease:
        """Return the released sum of clipped scores at the coefficients `at`, with its noise, as a `LastRelease`.

        `products` is the release of the scores' second moments if a separate query released them.
        """
        within = release.within
        if not isinstance(within, SumAndProducts):
            noise = Loading(np.eye(within.dim), release.law)
            matrix = None if products is None else NoisyMatrix.of(products)
            return cls(release.value, noise, sd_of(release.law), within.radius, at, products=matrix)
        both, scores = NoisyMatrix.of(release), np.eye(within.m + 1)[:, 1:]
        # the first column of the matrix `both` contains the sum of scores, times the constant `within.corner`
        noise = (scores.T / within.corner) @ both.times(np.eye(within.m + 1)[0])
        value, sd = both.value[1:, 0] * (1 / within.corner), float(np.sqrt(noise.covariance()[0, 0]))
        return cls(value, noise, sd, within.radius, at, products=both.mapped(scores))

    @classmethod
    def of_minimiser(cls, drawn: Release, radius: float, start: Start, unit: float = 1.0) -> LastRelease:
        """Return the score at the released minimiser of a perturbed loss.

        The released vector `drawn.value`, times `unit` (the residual scale, or 1), is the minimiser minus the
        coefficients of `start`, in coordinates of the whitened predictors. `radius` is the clipping threshold of the
        scores. The gradient of the perturbed loss is zero at the minimiser. The sum of scores at the minimiser is
        therefore equal to the gradient of the ridge penalty plus noise of a known law.
        """
        law: Any = drawn.law
        pull, noise = law.ridge * drawn.value, Loading(np.eye(start.m), law)
        return cls(pull, noise, sd_of(law), radius, start.moved(unit * drawn.value), law.ridge)

    @property
    def products_sd(self) -> float:
        """Noise sd of an off-diagonal entry of the second moments of scores, if these are released with the score."""
        return self.sd * self.radius


@dataclass(frozen=True, eq=False)
class Pilot:
    """The coefficients that are known before the last release (`LastRelease`); subclasses add earlier releases.

    Parameters
    ----------
    start : Start
        Whitened predictors, with the coefficients. The last release is either the score at these coefficients or new
        coefficients, the minimiser of a perturbed loss.
    """

    start: Start


@dataclass(frozen=True, eq=False)
class Hessian:
    """The released Hessian of the loss, with matrices that map other quantities to or from the Hessian's coordinates.

    Parameters
    ----------
    matrix : NoisyMatrix, shape (m, m)
        The Hessian with its noise, in m coordinates t of the c coefficients theta.
    to_theta : ndarray, shape (c, m)
        Matrix that maps a change of t to the change of theta.
    back : ndarray, shape (m, m)
        Matrix that maps the released score, which may have other coordinates (`LastRelease`), to the coordinates t.
    usual : float
        Typical eigenvalue of the Hessian: the information along a typical direction.
    """

    matrix: NoisyMatrix
    to_theta: FloatArray
    back: FloatArray
    usual: float


@dataclass(frozen=True, eq=False)
class Step:
    """All releases that enter the estimating equation.

    Parameters
    ----------
    pilot : Pilot
        Coefficients before the last release (of a score, or of the minimiser of a perturbed loss).
    lengths : Lengths
        Histogram of score norms, or of row norms if each score has about the norm of its row.
    clip : Clip
        Clipping threshold of the scores, with its bias bound.
    last : LastRelease
        The score of the last Newton step, with its noise.
    hessian : Hessian
        The released Hessian.
    meat : Meat
        Sampling variance of the score, in coordinates of the Hessian.
    """

    pilot: Any
    lengths: Lengths
    clip: Clip
    last: LastRelease
    hessian: Any
    meat: Meat

    @cached_property
    def score(self) -> FloatArray:
        """Released score of the last Newton step, in the coordinates of the matrix `hessian`, shape (m,)."""
        return np.asarray(self.hessian.back @ self.last.value, dtype=float)

    @cached_property
    def inverse(self) -> FloatArray:
        """Inverse of the Hessian on its identified directions, shape (m, m)."""
        return self.hessian.matrix.power(-1.0)

    @cached_property
    def step(self) -> FloatArray:
        """The last Newton step, shape (m,): the inverse of the Hessian times the released score.

        The matrix `to_theta` of the Hessian maps this step to a change of the coefficients of the design's columns.
        """
        return self.inverse @ self.score

    @cached_property
    def spread(self) -> FloatArray:
        """Variance matrix of the score of the last Newton step: sampling variance plus noise variance, shape (m, m)."""
        return self.meat.value + (self.hessian.back @ self.last.noise).covariance()


@dataclass(frozen=True, eq=False)
class Doubts:
    """Errors of the estimating equation, beyond the sampling error, noise and clipping bias of its score.

    The equation is for c coefficients theta, and is solved in the m coordinates of the Hessian.

    Parameters
    ----------
    remaining : float
        Approximate norm of the last Newton step. The product of the Hessian's noise and this step is an error of the
        equation, with a variance that is computed from the norm. If `noises` includes this error, `remaining` is 0.
    known : ndarray, shape (m,), optional
        Assumed value of theta minus the coefficients before the last step, in coordinates of the Hessian; by default
        0. Along unidentified directions, this value takes the place of the Newton step.
    noises : tuple of Loading
        Noises of the score, in addition to the noise with which the score was released.
    meat : Meat, optional
        Variance of the score that includes the Hessian's noise; it replaces the attribute `meat` of `Step`.
    clipped : tuple of Allowance
        Bounds on further biases of the score.
    moved : tuple of Allowance
        Bounds on biases of theta.
    not_given : ndarray, shape (c, k), optional
        The k directions of theta, one per column, for which there is no valid interval. Coefficients with a component
        along such a direction are not reported.
    notes : tuple of Note
        Notes that give the reasons for `not_given`.
    facts : mapping of str to float
        Diagnostics of the fit.
    """

    remaining: float = 0.0
    known: FloatArray | None = None
    noises: tuple[Loading, ...] = ()
    meat: Meat | None = None
    clipped: tuple[Allowance, ...] = ()
    moved: tuple[Allowance, ...] = ()
    not_given: FloatArray | None = None
    notes: tuple[Note, ...] = ()
    facts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Fitted:
    """An estimating equation, with notes and diagnostics of the fit.

    Parameters
    ----------
    equation : EstimatingEquation
        Noisy equation whose solution is the estimate.
    notes : tuple of Note
        Notes on the fit.
    facts : mapping of str to float
        Diagnostics of the fit, by name.
    """

    equation: EstimatingEquation
    notes: tuple[Note, ...]
    facts: Mapping[str, float]

    def solve(self, names: Any) -> NormalEstimate:
        """Solve the estimating equation; return the estimate of the named coefficients, with notes and diagnostics."""
        return self.equation.solve(names, self.notes, self.facts)


@dataclass(frozen=True, eq=False)
class OneStep(Problem, ABC):
    """One-step estimation, which solves a noisy estimating equation; each subclass implements one method.

    Attributes
    ----------
    unit_of_slopes : str
        Unit of slopes, per standard deviation of the predictor: "residuals" (the residual scale) or "eta" (the linear
        predictor). In this unit, `LEFT_OUT` contains the assumed difference between slopes at factor levels that are
        left out and slopes at levels that are kept.
    """

    unit_of_slopes: ClassVar[str] = "residuals"

    def equation(self, more: bool = False) -> Fitted:
        """Send the queries of all stages, and return the estimating equation that is computed from the releases.

        If `more` is True, the caller may send further queries afterwards, such as the query for average marginal
        effects.
        """
        pilot = self.pilot()
        w = pilot.start.remapped(self.metric(pilot))
        lengths = self.lengths(w)
        clip = self.clip(pilot, w, lengths)
        last = self.last(w, clip)
        hessian = self.hessian(pilot, w, clip, last)
        meat = self.meat(pilot, clip, last, hessian)
        if not more:
            self.ask.close()
        doubts = self.doubts(Step(pilot, lengths, clip, last, hessian, meat))
        meat, hidden = doubts.meat or meat, self.levels.hidden
        if doubts.not_given is not None:
            hidden = np.column_stack([hidden, doubts.not_given])
        equation = EstimatingEquation(
            score=hessian.back @ last.value,
            hessian=hessian.matrix,
            meat=meat.value,
            noises=(hessian.back @ last.noise, *doubts.noises),
            coordinates=Coordinates(last.at.theta, hessian.to_theta, hidden),
            signal=self.signal_of_row * hessian.usual**0.5,
            usual=hessian.usual,
            known=doubts.known,
            remaining=doubts.remaining,
            clipped=(
                Allowance(hessian.back * self.excess(lengths, clip, meat, hessian), 1.0),
                self.left_out(last.at, hessian),
                *doubts.clipped,
            ),
            moved=doubts.moved,
            freedom=meat.freedom,
            meat_noise=meat.noise,
            per_eta=self.per_eta,
            numeric=NumericColumns.of(self.box.design).without([one.column for one in self.levels.ends]),
        )
        equation, held = self.without_hidden_levels(equation)
        facts = {"clipped_share": lengths.clipped_share(clip.radius), **doubts.facts, **self.sizes.diagnostics}
        return Fitted(equation, (*self.notes(), *held, *doubts.notes), facts)

    def left_out(self, at: Start, hessian: Hessian) -> Allowance:
        """Return a bound on the score's bias if slopes at left-out factor levels differ from slopes at kept levels.

        The bias affects only the coefficients that could change if the rows at the left-out levels were in the fit
        (`KeptLevels.moved_by_left_out`). The bound is 0 if no level is left out.
        """
        if self.levels.keep is None:
            return Allowance(hessian.back, 0.0)
        moved = hessian.to_theta[self.levels.moved_by_left_out(self.box)]
        along, _ = np.linalg.qr(np.linalg.pinv(hessian.back) @ moved.T)  # orthonormal basis of the possible biases
        return Allowance(hessian.back @ along, LEFT_OUT[self.unit_of_slopes] * self.spread(at) * self.levels.left_out)

    def estimate(self) -> Estimate:
        """Solve the estimating equation; return the estimate, without intervals if the user requested none."""
        return self.given(self.equation().solve(self.box.design.names))

    # methods that subclasses for the different losses override
    @abstractmethod
    def pilot(self) -> Pilot:
        """Return the coefficients before the last release (of a score, or of the minimiser of a perturbed loss)."""

    def metric(self, pilot: Any) -> FloatArray:
        """Return a matrix T, shape (m, m): the last Newton step uses the predictors w'T for whitened predictors w.

        By default T is the identity matrix.
        """
        return np.eye(self.m)

    @abstractmethod
    def lengths(self, w: Start) -> Lengths:
        """Return the denoised histogram of score norms, from which the clipping threshold is chosen."""

    @abstractmethod
    def clip(self, pilot: Any, w: Start, lengths: Any) -> Clip:
        """Return the clipping threshold of scores that gives the shortest confidence interval."""

    @abstractmethod
    def hessian(self, pilot: Any, w: Start, clip: Clip, last: LastRelease) -> Hessian:
        """Release the Hessian: second derivatives of the sum of losses with respect to the coefficients."""

    @abstractmethod
    def meat(self, pilot: Any, clip: Clip, last: LastRelease, hessian: Any) -> Meat:
        """Return the sampling variance of the last Newton step's score, in the coordinates of the matrix `hessian`."""

    def excess(self, lengths: Any, clip: Clip, meat: Meat, hessian: Hessian) -> float | FloatArray:
        """Return bounds on the clipping bias of the score's coordinates; by default one bound for all coordinates."""
        return clip.excess

    def without_hidden_levels(self, equation: EstimatingEquation) -> tuple[EstimatingEquation, tuple[Note, ...]]:
        """Return the estimating equation without unidentified constants of factor levels, and notes on these levels.

        The constant of a factor level is a parameter, added to the linear predictor of all rows at the level. A
        constant is unidentified if the noise of the Hessian exceeds the information about the constant. By default no
        constant is removed.
        """
        return equation, ()

    def doubts(self, step: Step) -> Doubts:
        """Return the errors of the estimating equation beyond sampling error, noise and clipping bias of its score.

        By default there is one such error, the product of the Hessian's noise and the last Newton step.
        """
        return Doubts(remaining=float(np.linalg.norm(step.step)))

    def spread(self, at: Start) -> float:
        """Return the typical change of a coordinate of a row's expected score if a slope changes by 1; by default 1.

        A slope of 1 is one unit (attribute `unit_of_slopes`) per standard deviation of the predictor. The method
        `left_out` computes a bias bound from the result.
        """
        return 1.0

    @property
    @abstractmethod
    def signal_of_row(self) -> float:
        """Assumed upper limit of the effect of unidentified directions on the linear predictor.

        A direction of the coefficients is unidentified if the noise of the released Hessian may account for all
        information about it. The effect is a root mean square over rows. Likelihood models multiply the limit by the
        larger of 1 and the square root of the mean Fisher information of a row.
        """

    @property
    def per_eta(self) -> FloatArray | None:
        """Change of each coefficient that moves the linear predictor by 1 in root mean square, shape (c,).

        The value is None for models without a link function.
        """
        return None

    def notes(self) -> tuple[Note, ...]:
        """Return notes on the fit; by default these are notes on the factor levels left out of the fit."""
        return level_notes(self.box, self.levels)

    def meat_of_squares(self, of: Any, clip: Clip, last: LastRelease, level: float) -> Meat:
        """Return a diagonal variance matrix of the score, computed from released sums of squared row scores.

        There is one sum for each coordinate. To reduce noise, the sums are shrunk toward their mean and then rescaled
        to the mean `level`. The variance of a coordinate is the larger of the released and the rescaled sum, times
        the degrees-of-freedom factor `small_sample`.

        Parameters
        ----------
        of : callable
            Function that maps rows to scores, clipped in the same way as the scores of the perturbed loss.
        clip : Clip
            Clipping threshold of the last released score. The squares have the same threshold, or a lower one if the
            noise sd of a sum would exceed `SQUARES_NOISE` times (`level` plus the noise variance of the score).
        last : LastRelease
            The last released score, with its noise.
        level : float
            Mean variance of the score's coordinates, computed from the histogram of score norms.
        """
        question = Sum("squares of scores", of, SquaredEntries(self.m), self.keep)
        unit = sd_of(self.ask.law(question.inside(1.0), by=self.by.counts))
        radius = min(clip.radius, float(np.sqrt(SQUARES_NOISE * (level + last.sd**2) / unit)))
        squares = self.ask(question.inside(radius), by=self.by.counts).value
        even = np.eye(self.m) * max(float(squares.mean()), SQUARES_NOISE * level)
        where = np.diag(shrink_toward(np.diag(squares), even, self.m * (unit * radius**2) ** 2))
        variances = np.maximum(squares, level * where / where.mean())
        return Meat(self.small_sample * np.diag(variances), self.freedom)

    # the last release, which by default is a sum of clipped scores
    @property
    def asks_meat(self) -> bool:
        """Whether the second moments (sum of outer products) of the clipped scores must be released.

        A separate query releases the second moments if the release of the score itself does not contain them.
        """
        return False

    def score(self, name: str, w: Start, radius: float, item: str = "") -> Sum:
        """Return the query for the sum of the rows' scores, clipped to the norm `radius`.

        The scores are computed for the whitened predictors and the coefficients in `w`. The query also covers the
        scores' second moments, if the noise mechanisms of the fit release both at no additional cost. `name` is the
        name of the budget share; `item` distinguishes queries that have the same share.
        """
        within = SumAndProducts(w.m, radius) if self.by.free_products else Ball(w.m, radius)
        return Sum(name, w.scores, within=within, keep=self.keep, item=item, folded=self.folded)

    def score_sd(self, w: Start, name: str = "score") -> float:
        """Return the noise sd of a coordinate of the released sum of scores, if scores are clipped to norm 1."""
        return score_sd(self.ask, self.score(name, w, 1.0), self.by)

    def last(self, w: Start, clip: Clip) -> LastRelease:
        """Release the sum of clipped scores for the last Newton step, and the scores' second moments if required.

        The second moments (sum of outer products) are included in the same release if they do not increase its cost.
        Otherwise they are released by a separate query if `asks_meat` is true.
        """
        question = self.score("score", w, clip.radius)
        released = (self.ask(one, by=by) for one, by in ((question, self.by.vector), *self.products_of(question)))
        score, *products = released
        return LastRelease.of(score, w, *products)

    def products_of(self, question: Sum) -> list[tuple[Sum, Any]]:
        """Return a list with one pair, the query for the scores' second moments and its mechanism, or an empty list.

        `question` is the query for the sum of scores. The list is empty if this query covers the second moments, too,
        or if the second moments are not needed (`asks_meat` is False).
        """
        if isinstance(question.within, SumAndProducts) or not self.asks_meat:
            return []
        within = Products(self.m, question.within.radius)  # type: ignore[attr-defined]
        return [(replace(question, name="meat", within=within), self.by.matrix)]
