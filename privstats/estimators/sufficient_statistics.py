"""Least squares from released second moments; the score variance is released separately, from clipped scores.

A score is the gradient of a row's squared loss: up to sign, the row's predictors times its residual.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import log_ndtr, ndtri

from privstats.errors import OptionError, quote
from privstats.estimators.base import NORMAL, Noises, PublicFacts, entry_sd, with_std_error
from privstats.estimators.constants import (
    FLOOR,
    MATRIX_NOISE,
    MEAT_LEAST,
    TWO_ENDED,
    UNEXPLAINED,
    USUAL_RESIDUAL,
    VISIBLE,
)
from privstats.estimators.entries import MOST_CONDITION, Entries
from privstats.estimators.frame import PublicBox
from privstats.estimators.levels import KeptLevels, clamped_note, hidden_levels
from privstats.estimators.one_step import Problem
from privstats.estimators.preconditioner import Sizes, Start, cleared, sizes_of
from privstats.gate.questions import Ask, Sum
from privstats.inference.estimate import Coordinates, Estimate, EstimatingEquation, NormalEstimate, NumericColumns
from privstats.inference.matrix import HIDDEN, NoisyMatrix
from privstats.inference.meat import Meat, homoskedastic
from privstats.inference.noise import Loading
from privstats.inference.notes import Note, note
from privstats.inference.tables import PointEstimate
from privstats.inference.thin import thin
from privstats.losses.base import SquaredLoss
from privstats.losses.rows import BesideLevel
from privstats.numerics.law import FloatArray
from privstats.privacy.promise import is_number
from privstats.sets.coded import LevelProducts
from privstats.sets.vectors import BoxProducts, Products

LEVEL_SEEN = 6.0  # the mean at a factor level is reported if the level's released count is at least this many noise sds

Z = float(ndtri(0.975))  # quantile of N(0, 1) for 95 % intervals

SHARES: Mapping[str, float] = {"units": 0.02, "moments": 0.75, "meat of moments": 0.12}


@dataclass(frozen=True)
class SufficientStatistics:
    """Least squares from released second moments of the columns and the response, and a released score variance.

    Parameters
    ----------
    noises : Noises
        Noise mechanisms: `matrix` releases the moments, and `products` the score variance (sum of s s' over scores s).
    cov_type : str
        "HC" (error variances may differ between rows) or "nonrobust" (equal error variances; the score variance is
        then computed from the moments).
    ridge : float or "adaptive", optional
        Penalty on squared coefficients of predictors scaled to [-1, 1] (Awan and Slavkovic 2021, equation 6).
        "adaptive" is the smallest penalty that raises all eigenvalues of the predictors' released second moments to a
        limit proportional to the noise sd. Penalised fits have no intervals.
    """

    noises: Noises = NORMAL
    cov_type: str = "HC"
    ridge: float | str | None = None

    def __post_init__(self) -> None:
        given = self.ridge
        if given is None or given == "adaptive":
            return
        if not is_number(given) or not 0 <= float(given) < np.inf:
            raise OptionError(f"ridge is {quote(given)}; give a number from 0 on, or ridge='adaptive'")

    @property
    def shares(self) -> Mapping[str, float]:
        return SHARES

    def __call__(self, ask: Ask, public: PublicFacts) -> Estimate:
        sizes = sizes_of(ask, self.noises, public, float(public.used or 0))
        robust = self.cov_type != "nonrobust"
        box = PublicBox(public.design)
        return moments_of_box(ask, self.noises, box, sizes, public, robust, self.ridge or None).estimate()


@dataclass(frozen=True, eq=False)
class UnclippedSquares(Problem):
    """Base class of least-squares fits in which only the score variance, and not the estimate, uses clipped scores."""

    @property
    def signal(self) -> float:
        """Square root of the largest possible sum of squares of the response over all rows."""
        return self.start.frame.scale * self.sizes.rows**0.5

    def unexplained(self, sigma: float) -> float:
        """Return the assumed upper limit of the norm of the part of the responses due to unidentified directions.

        A direction of the coefficients is unidentified if the information along this direction is below the noise. The
        part of the responses due to such directions is also part of the residuals, which have the residual scale
        `sigma`. The assumed limit for n rows is ``UNEXPLAINED * sigma * sqrt(n)`` or, if it is smaller, the largest
        possible norm of the responses.
        """
        return min(UNEXPLAINED * sigma * self.sizes.rows**0.5, self.signal)

    def meat(self, start: Start, name: str) -> FloatArray:
        """Release the score variance, the sum of the outer products s s' over rows' scores s, shape (m, m).

        A row's score is its m whitened predictors times its residual, both defined by `start`; `name` is the name of
        the query. Scores are clipped to a norm that few scores exceed if errors are normal. The scores of rare
        outcomes may exceed this norm, and clipping then makes the sum too small. Therefore, if scores may have been
        clipped, the trace of the sum is raised to at least its expected value under equal error variances.
        """
        question = Sum(name, start.scores, within=Products(start.m), folded=self.folded)
        return self.products_of_scores(question, start, float(np.linalg.norm(np.abs(start.P).sum(axis=0))))

    def products_of_scores(self, question: Sum, start: Start, longest: float) -> FloatArray:
        """Release the sum of the outer products s s' over clipped scores s; return a positive definite matrix.

        The argument `question` is the query for this sum without a clipping radius, and `longest` is an upper bound on
        the norm of a row's m whitened predictors. The radius is chosen so that the noise sd of an entry is
        `MATRIX_NOISE` times the diagonal entry expected under equal error variances. A smaller radius than
        ``sigma * sqrt(MEAT_LEAST * m)``, with the residual scale sigma, is raised to this value. A radius above the
        largest possible norm of a score is reduced to this norm.

        The function `cleared` reduces the noise in the eigenvalues of the sum. If scores may have been clipped, the
        trace is raised to at least its expected value under equal error variances.
        """
        m = int(question.within.m)  # type: ignore[attr-defined]
        by = self.by.products
        unit = entry_sd(self.ask, question, replace(self.by, matrix=by))
        radius = start.sigma * np.sqrt(max(MEAT_LEAST * m, MATRIX_NOISE * self.sizes.scores / unit))
        longest = float(longest * (np.abs(start.residual).sum() + start.offset_reach)) * self.public.rows_per_unit
        # no score is clipped at the largest score norm, and a larger radius would only increase the noise
        radius = min(radius, max(longest, FLOOR * start.sigma))
        release = self.ask(question.inside(radius), by=by)
        matrix = NoisyMatrix.of(release).value
        equal = self.sizes.scores * start.sigma**2
        meat = cleared(matrix, unit * radius**2, max(float(np.trace(matrix)) / m, 0.25 * equal))
        return meat * max(1.0, equal * m / float(np.trace(meat))) if radius < longest else meat


@dataclass(frozen=True, eq=False)
class Moments(UnclippedSquares):
    """Least squares from one noisy matrix: the released second moments of (1, columns, response).

    Parameters
    ----------
    ridge : float or "adaptive", optional
        Penalty on squared coefficients; a penalised fit has no intervals.
    """

    ridge: float | str | None = None

    @cached_property
    def entries(self) -> Entries:
        """Description of the vectors (1, predictors, response), one per row, whose second moments are released.

        Level indicators replace the columns of a factor with several columns, unless the noise mechanism is `Hull`
        (noise from a convex body).
        """
        by_level = getattr(self.by.matrix, "norm", None) != "hull"
        return Entries(self.box, by_level, counted=self.public.used is None or self.public.by_unit)

    @property
    def within(self) -> BoxProducts:
        return self.entries.within

    @property
    def question(self) -> Sum:
        return Sum("moments", self.entries.rows, within=self.within)

    @property
    def to_columns(self) -> FloatArray:
        """Matrix that maps a vector (1, predictors, response) to the design's columns and (response - offset).

        The attribute `entries` describes the vectors.
        """
        return self.entries.to_columns

    def length(self) -> float:
        """Return the average factor by which privacy is expected to lengthen the intervals of slopes.

        The factor of a slope is its expected interval length divided by the length without privacy, or infinity if
        the noise leaves the slope unidentified. The result is the harmonic mean of the factors of all slopes, divided
        by the fraction of identified slopes, because unidentified slopes lengthen the intervals of other slopes.
        """
        start, box = self.start, self.box
        law = self.ask.law(self.question, by=self.by.matrix)
        noise = NoisyMatrix.noise_of(law, self.within).mapped(self.to_columns).times(np.r_[-start.theta, 1.0])
        G = start.to_theta
        noise_variance = np.diag(G @ G.T @ noise.covariance()[:-1, :-1] @ G @ G.T)
        ratio = noise_variance / (self.sizes.rows * start.sigma**2 * np.maximum(np.diag(G @ G.T), 1e-300))
        slopes = box.slopes or list(range(box.c))
        squares = NoisyMatrix.noise_of(law, self.within).mapped(self.to_columns[:, :-1] @ G)
        along = G[slopes].T / np.maximum(np.linalg.norm(G[slopes], axis=1), 1e-300)
        relative = np.sqrt(squares.variance_along(along)) / self.sizes.rows
        seen = HIDDEN * relative < 1
        each = np.where(seen, (1 - relative) / np.sqrt(1 + ratio[slopes]), 0.0)
        return float(1 / max(each.mean() * seen.mean(), 1e-100))

    def reads(self, rows: float) -> bool:
        """Return whether noisy moments would identify the coefficient of a factor level that occurs in `rows` rows.

        The coefficient is identified if `rows` exceeds `HIDDEN` times the largest noise sd of v'Mv. Here M is the noisy
        matrix of the columns' second moments, and v is a column of the matrix ``levels.hidden``: a direction of the
        coefficients that the rows at kept levels do not identify.
        """
        law = self.ask.law(self.question, by=self.by.matrix)
        squares = NoisyMatrix.noise_of(law, self.within).mapped(self.to_columns[:, : self.box.c])
        return bool(rows > HIDDEN * np.sqrt(squares.variance_along(self.levels.hidden).max(initial=0.0)))

    def estimate(self) -> Estimate:
        """Release the moments and the score variance; return the least-squares estimate."""
        within = self.within
        moments = NoisyMatrix.of(self.ask(self.question, by=self.by.matrix))
        counted, one = self.entries.counted, self.entries.constant
        rows = float(one @ moments.value @ one) if counted else self.sizes.rows
        sd = float(np.sqrt(moments.variance_along(one[:, None])[0]))
        rows = max(rows, sd, 1.0)
        released = (rows, sd) if counted else ()
        if not counted and within.intercept:
            moments = moments.plus(np.diag(np.r_[rows, np.zeros(within.q)]))
        both = moments.mapped(self.to_columns)
        scores = self.sizes.scores if self.folded else rows
        here = replace(self, sizes=replace(self.sizes, rows=rows, scores=scores, released=released))
        return here.solved(both) if self.ridge is None else here.penalised(both, here.unseen(both.first(self.box.c)))

    def penalised(self, both: NoisyMatrix, hidden: FloatArray) -> Estimate:
        """Return penalised coefficients, without std errors because the bias due to the penalty is unknown.

        If the attribute `ridge` is a number, the number is the penalty. Otherwise the penalty raises the eigenvalues of
        the predictors' released second moments about their means to at least 2 sqrt(number of slopes) times the largest
        noise sd of a cross product. If `ridge` is "adaptive", the penalty is equal for all slopes; if it is None, only
        directions with smaller eigenvalues are penalised.

        In a fit without intervals, the estimate includes the covariance of the noise, and the directions along which
        no bound on the error is known: the unidentified directions `hidden`, shape (c, l), and the directions of the
        bias due to the penalty. The argument `both` has the released second moments of the columns and the response.
        """
        c, intercept = self.box.c, self.box.intercept
        A, slopes = both.first(c), self.box.slopes
        penalty = np.zeros((c, c))
        if self.ridge is None or isinstance(self.ridge, str):
            # the intercept's diagonal entry is the noisy number of rows; if small or negative, it is raised to a limit
            if intercept is not None:
                sd = np.sqrt(cross_product_variance(A, intercept))
                penalty[intercept, intercept] = max(0.0, 2 * np.sqrt(c) * sd - A.value[intercept, intercept])
            sd = float(np.sqrt(max(cross_product_variance(A, j) for j in slopes))) if slopes else 0.0
            values, vectors = np.linalg.eigh(schur_complement(A.value + penalty, intercept))
            lack = np.maximum(2 * np.sqrt(max(len(slopes), 1)) * sd - values, 0.0)
            size = float(lack.max(initial=0.0))
            penalty[np.ix_(slopes, slopes)] += vectors * (lack if self.ridge is None else size) @ vectors.T
        else:
            size = float(self.ridge)
            penalty += size * np.eye(c)
        inverse = np.linalg.pinv(A.value + penalty, hermitian=True)
        theta = np.asarray(inverse @ both.value[:c, c], dtype=float)
        said = () if self.ridge is None else (note("ridge", ridge=size) if size else note("no ridge"),)
        noise = inverse @ _first(both.times(np.r_[-theta, 1.0]), c).covariance() @ inverse
        estimate = PointEstimate(tuple(self.box.design.names), theta, said, self.sizes.diagnostics)
        if self.public.intervals:
            return replace(estimate, remarks=(*said, *self.clamped(both)))
        # the penalty changes the coefficients theta by -(inverse @ penalty @ theta), the bias of the estimate
        hidden = np.column_stack([hidden, inverse @ penalty])
        sizes = np.linalg.norm(np.column_stack([hidden, np.abs(inverse) @ np.abs(penalty)]), axis=1)
        return self.noted(replace(estimate, noise=noise, hidden=hidden, hidden_size=sizes), both)

    def clamped(self, both: NoisyMatrix) -> tuple[Note, ...]:
        """Return a note if the response's released mean and variance suggest that most values are at its two bounds.

        The argument `both` has the released second moments of the columns and the response.
        """
        one, rows = self.box.intercept, self.sizes.rows
        if one is None:
            return ()
        last = np.eye(len(both.value))[:, -1:]
        noise = float(np.sqrt(both.variance_along(last)[0])) / rows
        mean, square = float(both.value[one, -1]) / rows, float(both.value[-1, -1]) / rows
        variance = min(square, 1.0) - mean**2
        if not noise < variance:
            return ()
        return clamped_note(self.box, mean, float(np.sqrt(variance)), noise)

    def response_sd(self, both: NoisyMatrix) -> float:
        """Return the response's std dev or, in a model without intercept, its root mean square.

        The result is NaN if the sum of squares is at most `HIDDEN` noise sds. The argument `both` has the released
        second moments of the columns and the response.
        """
        one, rows, about = self.box.intercept, self.sizes.rows, np.eye(len(both.value))[-1]
        if one is not None:
            about[one] = -both.value[one, -1] / rows
        squares, noise = about @ both.value @ about, np.sqrt(both.variance_along(about[:, None])[0])
        return float(np.sqrt(squares / rows)) if squares > HIDDEN * noise else np.nan

    @cached_property
    def levelled(self) -> list[tuple[int, FloatArray, FloatArray]]:
        """Factors whose level indicators are linear combinations of the design's columns, each as a triple.

        A triple has the factor's index and two matrices. The first matrix, shape (levels, c), has the columns' values
        at each level; the second matrix, shape (c, levels), maps a row of the design to its vector of level indicators.
        """
        box = self.box
        found: list[tuple[int, FloatArray, FloatArray]] = []
        first = [] if box.intercept is None else [box.intercept]
        for k, factor in enumerate(box.design.factors):
            where = [*first, *factor.columns]
            own = np.column_stack([np.ones((len(factor.levels), len(first))), factor.contrasts])
            if len(where) == len(own) and np.linalg.cond(own, 1) < MOST_CONDITION:
                rows, one = np.zeros((len(own), box.c)), np.zeros((box.c, len(own)))
                rows[:, where], one[where] = own, np.linalg.inv(own)
                found.append((k, rows, one))
        return found

    def seen(self, factor: int) -> float:
        """Return the smallest released count, in noise sds, at which a level's coefficients are reported.

        The limit is `LEVEL_SEEN` (6) if level indicators replace the columns of the factor with index `factor` in the
        released moments, and `HIDDEN` (3) otherwise. With indicators, the mean response at a level is a noisy sum
        divided by a noisy count. With the limit 3, many levels would be reported only because their counts have large
        positive noise. Their estimated means would be closer to 0 than the true means, by more than the std errors
        indicate.
        """
        return LEVEL_SEEN if any(k == factor for k, _, _ in self.entries.coded) else HIDDEN

    def of_quotients(self, both: NoisyMatrix, residual: FloatArray) -> Loading:
        """Return the noise of the least-squares score, enlarged for factor levels to allow for noise in their counts.

        The score is computed from `both`, the released second moments of the columns and the response, and from the
        vector `residual`, whose inner product with a row of columns and response is the residual. The mean response at
        a level is estimated as S / N, a noisy sum S divided by a noisy count N. If noise makes N too large, the
        estimate is too close to zero and its std error too small. Therefore the noise variance of the level's score is
        raised to ``w + t^2 v``:

        - w is the noise variance of S.
        - v is the assumed noise variance of N. Because means are reported only for large N, its square root is
          ``(N - L) / z``, where L is the lower confidence limit of the count (`least_count`) and z = 1.96.
        - t is the limit farther from zero of the 95 % confidence interval of the mean (Fieller 1954). The limit t
          solves ``(S - t N)^2 = z^2 (w + t^2 v)``.
        """
        c, F = self.box.c, self.entries.from_columns
        noise = _first(both.times(residual), c)
        if not self.entries.told:
            return noise
        levels = [entry - 1 for group in self.within.groups for entry in group]
        columns, at = both.first(c), F[:, levels]
        mean, variance = np.abs(np.linalg.solve(F, -residual[:-1])[levels]), columns.variance_along(at)
        count = np.maximum(quadratic_forms(columns.value, at), LEVEL_SEEN * np.sqrt(variance))
        uncertain = ((count - np.sqrt(variance) * least_count(count / np.sqrt(variance))) / Z) ** 2
        other = np.maximum(np.diag((at.T @ noise).covariance()) - mean**2 * variance, 0.0)
        left = 1 - Z**2 * uncertain / count**2
        end = (mean + np.sqrt(mean**2 * (1 - left) + left * other * (Z / count) ** 2)) / left
        longer = np.ones(c)
        longer[levels] = np.sqrt((other + end**2 * uncertain) / np.maximum(other + mean**2 * variance, 1e-300))
        return np.asarray(np.linalg.solve(F.T, longer[:, None] * F.T), dtype=float) @ noise

    def unseen(self, columns: NoisyMatrix) -> FloatArray:
        """Return one direction of the coefficients for each of the l factor levels with too few rows, shape (c, l).

        The direction d of a level maps each row x of the design to the level's indicator x'd. A level has too few rows
        if its released count is below `LEVEL_SEEN` noise sds. Only factors whose level indicators replace columns in
        the released moments are considered. The argument `columns` has the released second moments of the columns.
        """
        found = [np.zeros((self.box.c, 0))]
        for k, _, one in self.levelled:
            if self.seen(k) == LEVEL_SEEN:
                counts = quadratic_forms(columns.value, one)
                found.append(one[:, counts < LEVEL_SEEN * np.sqrt(columns.variance_along(one))])
        return np.column_stack(found)

    def counts(self, both: NoisyMatrix) -> Iterator[tuple[int, FloatArray, FloatArray, FloatArray]]:
        """Yield, for each factor in `levelled`, the index, level counts, noise sds of the counts, and least counts.

        The least count of a level is the smallest count at which its coefficients are reported. The argument `both` has
        the released second moments of the columns and the response.
        """
        columns = both.first(self.box.c)
        for k, _, one in self.levelled:
            sds = np.sqrt(columns.variance_along(one))
            yield k, quadratic_forms(columns.value, one), sds, self.seen(k) * sds

    def meat_of_columns(self, start: Start, A: NoisyMatrix, both: NoisyMatrix) -> FloatArray:
        """Release the score variance, the sum of s s' over rows' scores s, shape (m, m).

        A row's score is its m whitened predictors times its residual, both defined by `start`. The released second
        moments are `A` for these predictors, and `both` for the columns and the response.

        The noise is smaller if one factor has a separate predictor for each level (`whitened_by_level`), because
        products of predictors of two levels are zero and need no release. The sum is therefore released for such
        predictors, and then transformed, if the attribute `levelled` lists a factor with at least three levels and the
        scores of a privacy unit are not added up. Of several such factors, the one with the most levels is used.
        """
        coded = [one for one in self.levelled if len(one[1]) > 2 and not self.folded]
        if not coded:
            T, T_inverse = A.power(-0.5) * self.rows**0.5, A.power(0.5) / self.rows**0.5
            return T_inverse @ self.meat(start.remapped(T), "meat of moments") @ T_inverse.T
        factor, _, one = max(coded, key=lambda one: len(one[1]))
        levels = whitened_by_level(one, both.first(self.box.c), self.rows)
        start = replace(start, frame=self.box.identity(), W=levels.of_row, moments=None)
        within = LevelProducts(self.box.c, levels=one.shape[1])
        question = Sum("meat of moments", BesideLevel(factor, start.scores), within=within)
        back = np.linalg.solve(levels.whole, self.start.to_theta)
        return back.T @ self.products_of_scores(question, start, start.longest) @ back

    def with_levels(self, meat: FloatArray, both: NoisyMatrix, back: FloatArray, squares: float) -> FloatArray:
        """Return the score variance, raised at factor levels where it is too small for a response with two values.

        The score variance of a level's rows determines the sum of squared residuals at the level. If an outcome is rare
        over all rows but frequent at a rare level, the released score variance may be too small for this level, because
        the few rows at the level hardly change the released value. If all responses are at the bounds low and high, the
        sum of squared residuals at a level with n rows and mean response a is about ``n (high - a)(a - low)``. This
        number is called the level's maximum, because no larger sum of squared deviations from a is possible.

        A response is taken as two-valued if `squares` is at least `TWO_ENDED` times the total of the maxima of the
        levels of a factor. The score variance is then raised so that the sum implied for each level of this factor is
        at least the level's maximum. In models with an offset, the score variance is not raised.

        Parameters
        ----------
        meat : ndarray, shape (m, m)
            Score variance (sum of s s' over scores s), for the m whitened predictors of the attribute `start`.
        both : NoisyMatrix
            Released second moments of the columns and the response.
        back : ndarray, shape (m, c)
            Matrix that maps the coefficients of the columns to the coefficients of these predictors.
        squares : float
            Sum of squared residuals, or the noise sd of this sum if it is larger.
        """
        A = both.value
        low, high = self.box.design.response_bounds
        if self.box.offset:
            return meat
        G = self.start.to_theta
        for _, rows, one in self.levelled:
            count = np.maximum(quadratic_forms(A[:-1, :-1], one), 1.0)
            mean = np.clip(one.T @ A[:-1, -1] / count, low, high)
            variance = count * (high - mean) * (mean - low)
            if squares < TWO_ENDED * variance.sum():
                continue
            seen = quadratic_forms(meat, back @ one)
            added = G.T @ rows.T
            meat = meat + (added * np.maximum(variance - seen, 0.0)) @ added.T
        return meat

    def hideable(self, A: NoisyMatrix) -> FloatArray | None:
        """Return a public matrix that bounds the coefficients along unidentified directions, or None.

        The coefficients are assumed to be the product of this matrix and a vector with entries in [-1, 1]. The matrix
        is `PublicBox.public_range`, multiplied by a number above 1 if there is an offset. The result is None if all
        directions of `A`, the released second moments of the whitened predictors, are identified. The result is also
        None if the design has no factors: the assumption is then doubtful, because numeric values may cover only a part
        of their declared bounds.
        """
        if not self.box.design.factors or not A.unidentified()[0].size:
            return None
        return self.box.public_range * (1.0 + self.box.offset_reach)

    def constant_fit(self, both: NoisyMatrix) -> FloatArray | None:
        """Return the coefficients of the m whitened predictors that give every row the same fitted value, or None.

        This fitted value is the released mean of the response (minus offset), limited to [-1, 1]. The argument `both`
        has the released second moments of the columns and the response. The coefficients replace the estimate along
        unidentified directions, in fits without intervals; for fits with intervals, and for models without an
        intercept, the result is None.
        """
        one = self.box.intercept
        if self.public.intervals or one is None:
            return None
        mean = np.clip(both.value[one, -1] / self.sizes.rows, -1.0, 1.0)
        return np.asarray(np.linalg.solve(self.start.to_theta, mean * np.eye(self.box.c)[one]), dtype=float)

    def solved(self, both: NoisyMatrix) -> Estimate:
        """Return the estimate from `both`, the released second moments of the columns and the response minus offset."""
        c, rows = self.box.c, self.sizes.rows
        A = both.first(c).mapped(self.start.to_theta)
        score = self.start.to_theta.T @ (both.value[:c] @ np.r_[-self.start.theta, 1.0])
        start = self.start.moved(A.power(-1.0) @ score)
        residual = np.r_[-start.theta, 1.0]
        spread = both.value[-1, -1] / rows
        squares = residual @ both.value @ residual / rows
        residual_noise = float(np.sqrt(both.variance_along(residual[:, None])[0])) / rows
        sigma = float(np.sqrt(max(squares, MATRIX_NOISE * residual_noise, FLOOR**2 * max(spread, 1e-6))))
        largest = float(np.sqrt(max(squares, 0.0) + VISIBLE * residual_noise))
        start = replace(start, sigma=sigma)
        hidden = np.column_stack([self.levels.hidden, self.unseen(both.first(c))])
        coordinates = Coordinates(self.start.theta, self.start.to_theta, hidden)
        noise = self.start.to_theta.T @ self.of_quotients(both, residual)
        if not self.public.intervals:
            meat = Meat(np.zeros_like(A.value), self.freedom)
        elif self.robust:
            value = self.meat_of_columns(start, A, both)
            value = self.with_levels(value, both, coordinates.back, max(squares * rows, residual_noise * rows))
            meat = Meat(self.small_sample * value, self.freedom)
        else:  # the fit to noisy moments reduces the sum of squared residuals; the expected reduction is added back
            fitted = float(np.trace(A.power(-1.0) @ noise.covariance()))
            T_inverse = A.power(0.5) / rows**0.5
            shape = rows * T_inverse @ T_inverse.T
            meat = homoskedastic(shape, squares * rows + fitted, residual_noise * rows, self.sizes.scores, start.m)
        self.ask.close()
        equation = EstimatingEquation(
            score=score,
            hessian=A,
            meat=meat.value,
            noises=(noise,),
            coordinates=coordinates,
            signal=self.unexplained(max(sigma, largest)),
            freedom=meat.freedom,
            known=self.constant_fit(both),
            numeric=NumericColumns.of(self.box.design),
        )
        equation = equation if equation.unseen[0] else replace(equation, within=self.hideable(A))
        known: dict[str, float] = {}
        if self.public.intervals:
            known = {**with_std_error(sigma, residual_noise), "response_sd": self.response_sd(both)}
        estimate = equation.solve(self.box.design.names, (), {**known, **self.sizes.diagnostics})
        if self.public.intervals:
            return self.noted(estimate, both)
        levels = sum(np.count_nonzero(counts < least) for _, counts, _, least in self.counts(both))
        squares = estimate.unidentified @ estimate.unidentified.T
        # a penalty is needed if some unidentified directions are not due to rare factor levels
        if np.linalg.matrix_rank(squares) > levels:
            return self.penalised(both, np.column_stack([hidden, estimate.unidentified]))
        return self.noted(PointEstimate.alone(estimate, hidden), both)

    def noted(self, estimate: NormalEstimate | PointEstimate, both: NoisyMatrix) -> Estimate:
        """Return the estimate with a note on responses at the bounds, and notes on factor levels without coefficients.

        Coefficients of a factor level are not reported if too few rows have this level. The argument `both` has the
        released second moments of the columns and the response.
        """
        said = hidden_levels(self.box, self.counts(both), estimate, self.sizes.rows)
        return replace(estimate, remarks=(*estimate.remarks, *self.clamped(both), *said))


@dataclass(frozen=True, eq=False)
class LevelCoordinates:
    """Whitened predictors: one predictor for each level of a factor, and further predictors that belong to no level.

    The predictor of a level is zero in rows at all other levels. The design has c columns.

    Parameters
    ----------
    whole : ndarray, shape (c, c)
        Matrix that maps a row of the design to all whitened predictors.
    of_row : ndarray, shape (c, 1 + k)
        Matrix that maps a row of the design to the predictor of the row's own level (the sum of the predictors of all
        levels) and to the k predictors that belong to no level.
    """

    whole: FloatArray
    of_row: FloatArray


def whitened_by_level(one: FloatArray, columns: NoisyMatrix, rows: float) -> LevelCoordinates:
    """Return whitened predictors, with one predictor for each level of a factor (see `LevelCoordinates`).

    Let a row have the level indicators e and the other columns x, and let d be x minus the mean of x at the row's
    level. The predictors are ``e_g / sqrt(n_g / n)`` for each level g with n_g rows, and ``d R``, where the matrix R
    whitens d. Counts n_g, and eigenvalues of the second moments of d, are raised to a multiple of their noise sd if
    they are smaller.

    Parameters
    ----------
    one : ndarray, shape (c, levels)
        Matrix that maps columns to the level indicators e.
    columns : NoisyMatrix
        Second moments of the columns.
    rows : float
        Number n of rows.
    """
    other = np.eye(len(one))[:, ~one.any(axis=1)]
    counts = quadratic_forms(columns.value, one)
    counts = np.maximum(counts, HIDDEN * np.sqrt(columns.variance_along(one)))
    means = np.clip(one.T @ columns.value @ other / counts[:, None], -1.0, 1.0)
    rest = other - one @ means
    values, vectors, least = columns.mapped(rest).eigen
    R = rows**0.5 * (vectors / np.sqrt(np.maximum(values, least))) @ vectors.T
    level = one * np.sqrt(rows / counts)
    return LevelCoordinates(np.column_stack([level, rest @ R]), np.column_stack([level.sum(axis=1), rest @ R]))


def moments_of_box(
    ask: Ask,
    by: Noises,
    box: PublicBox,
    sizes: Sizes,
    public: PublicFacts,
    robust: bool,
    ridge: float | str | None = None,
) -> Moments:
    """Return a least-squares problem (`Moments`) that includes all rows, even rows at rare factor levels.

    This function sends no query to the data, and uses no earlier release except released numbers of rows in `sizes`.
    The arguments are the fields of `Moments` with the same names. For example, `by` has the noise mechanisms, and
    `robust` is True if error variances may differ between rows.
    """
    start = Start(
        box.identity(), np.eye(box.c), np.zeros(box.c), USUAL_RESIDUAL, SquaredLoss(), box.offset, box.offset_reach
    )
    levels = replace(KeptLevels.none(box.c), hidden=box.null_space())
    problem = Moments(ask, by, box, start, levels, sizes, public, robust, ridge=ridge)
    return replace(problem, start=replace(start, W=problem.entries.from_columns))


def least_count(count: FloatArray) -> FloatArray:
    """Return the lower 97.5 % confidence limit of a true count, from the released count `count`.

    Both counts are in noise sds. Released counts are used only if they exceed `LEVEL_SEEN`, and some counts exceed
    `LEVEL_SEEN` only because of positive noise. The confidence limit allows for this selection: the limit is the true
    count k with ``P(noise > count - k) = .025 P(noise > LEVEL_SEEN - k)`` for standard normal noise. The limit is at
    least `HIDDEN` (3), because released counts rarely exceed `LEVEL_SEEN` if the true count is smaller than 3.

    >>> least_count(np.array([6.5, 8.0, 10.0, 20.0])).round(2)
    array([ 3.  ,  5.63,  8.03, 18.04])
    """
    low, high = np.full(count.shape, HIDDEN), count - Z
    for _ in range(60):
        middle = (low + high) / 2
        over = log_ndtr(middle - count) - log_ndtr(middle - LEVEL_SEEN) > np.log(0.025)
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    return low


def quadratic_forms(A: FloatArray, V: FloatArray) -> FloatArray:
    """Return the quadratic form ``v' A v`` of a symmetric matrix A for each of the k columns v of V, shape (k,)."""
    V = thin(V)
    return np.asarray((V * (A @ V)).sum(axis=0), dtype=float)


def _first(loading: Loading, c: int) -> Loading:
    return replace(loading, matrix=loading.matrix[:c])


def cross_product_variance(A: NoisyMatrix, j: int) -> float:
    """Return the largest noise variance among the released sums of products of column j with other columns.

    The lower limit of the result, which is also the result if there is no other column, is half the noise variance of
    the sum of squares of column j.
    """
    column = np.diag(A.times(np.eye(len(A.value))[j]).covariance())
    return float(np.max(np.delete(column, j), initial=column[j] / 2))


def schur_complement(A: FloatArray, first: int | None) -> FloatArray:
    """Return sums of products of columns about their means, for all columns other than the intercept.

    The matrix A contains the sums of products of all columns, and `first` is the position of the intercept. Without an
    intercept (None), A is returned unchanged.
    """
    if first is None:
        return A
    others = [j for j in range(len(A)) if j != first]
    about: FloatArray = A[np.ix_(others, others)] - np.outer(A[others, first], A[first, others]) / A[first, first]
    return about
