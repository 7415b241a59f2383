"""Private preconditioning: predictors are whitened by a rough, noisy release of second moments (the coarse matrix).

Whitened predictors are linear combinations of the predictors with a second-moment matrix near the identity. The stages
of a fit are numbered as in the module `adaptive`. All values in this module are public or released.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privstats.estimators.base import Noises, PublicFacts, entry_sd, sd_of
from privstats.estimators.constants import (
    FLOOR,
    HELD_LEAST,
    HELD_MOST,
    HELD_NOISE,
    LEAST_EIGENVALUE,
    MATRIX_NOISE,
    SUM_SEEN,
    WIDE,
)
from privstats.estimators.frame import KnownMoments, PublicBox, StandardFrame
from privstats.estimators.levels import KeptLevels
from privstats.gate.questions import Ask, Sum
from privstats.inference.matrix import NoisyMatrix, noise_edge
from privstats.losses.base import LeastSquaresStart, Loss, SquaredLoss
from privstats.losses.rows import HeldBeside, HessianRows, One, Scores, SquaredColumns, WeightedLinear
from privstats.numerics.law import FloatArray
from privstats.sets.cells import Cells
from privstats.sets.vectors import Fractions, Products

NULL = 1e-8  # coefficients of whitened predictors below NULL x (largest coefficient) are rounding errors, set to 0


@dataclass(frozen=True, eq=False)
class Sizes:
    """Numbers of rows and of scores (one for each row, or for each privacy unit) that a fit uses.

    Parameters
    ----------
    rows, scores : float
        Numbers of rows and of scores, public or released; with weights, sums of weights.
    by_unit : bool
        Whether `scores` is the number of privacy units.
    released : tuple of two floats
        The released number of rows and its standard error; empty if the number is public.
    weighted : bool
        Whether the numbers are sums of weights, divided by the largest possible weight.
    """

    rows: float
    scores: float
    by_unit: bool = False
    released: tuple[float, ...] = ()
    weighted: bool = False

    @property
    def diagnostics(self) -> dict[str, float]:
        """Released number of rows used (or sum of weights) and its standard error, by name; empty if not released."""
        name = "weights used" if self.weighted else "rows used"
        return dict(zip((name, f"{name} sd"), self.released, strict=False))

    def without(self, rows: float) -> Sizes:
        """Return the numbers of rows and of scores that remain after a number `rows` of rows is left out."""
        left = max(self.rows - rows, 1.0)
        return replace(self, rows=left, scores=self.scores if self.by_unit else left)


@dataclass(frozen=True, eq=False)
class Start:
    """The start of a fit: a whitening matrix W, starting coefficients theta, and the residual scale sigma at theta.

    Parameters
    ----------
    frame : StandardFrame
        The standardised predictors.
    W : ndarray, shape (c, m)
        Matrix that maps the standardised predictors of a row to its m whitened predictors w.
    theta : ndarray, shape (c,)
        Coefficients of the design's columns.
    sigma : float
        Residual scale: the standard deviation, at theta, of the loss's derivative with respect to the linear predictor.
    loss : Loss
        Loss of a row.
    offset : tuple of float
        Coefficient of the offset; empty without an offset.
    offset_reach : float
        Largest absolute value of the offset times its coefficient.
    center : float
        Released mean of the difference (response - offset).
    near_singular : bool
        Whether second moments should be released again, because their smallest eigenvalue is below the noise.
    most_sigma : float
        Upper limit of the residual standard deviation, used where `sigma`, computed with noise, may be too small.
    moments : NoisyMatrix, optional
        Released sum of w w' over rows, whose norms are clipped.
    variance_error : float
        Error of the square of `sigma` due to noise and to the clipping of rows, a root mean square.
    """

    frame: StandardFrame
    W: FloatArray
    theta: FloatArray
    sigma: float
    loss: Loss
    offset: tuple[float, ...] = ()
    offset_reach: float = 0.0
    center: float = 0.0
    near_singular: bool = False
    most_sigma: float = 0.0
    moments: NoisyMatrix | None = None
    variance_error: float = 0.0

    @cached_property
    def m(self) -> int:
        return int(self.W.shape[1])

    @cached_property
    def P(self) -> FloatArray:
        """Matrix, shape (entries of z, m), that maps a row z = (columns, [offset], response) to whitened predictors."""
        return self.frame.predictors @ self.W

    @cached_property
    def to_theta(self) -> FloatArray:
        """Matrix that maps coefficients of whitened predictors to coefficients of the columns, shape (c, m)."""
        return self.frame.columns @ self.W

    @cached_property
    def eta(self) -> FloatArray:
        """Vector whose inner product with a row z = (columns, [offset], response) is the row's linear predictor."""
        return np.r_[self.theta, self.offset, 0.0]

    @cached_property
    def residual(self) -> FloatArray:
        """Vector whose inner product with a row z = (columns, [offset], response) is the row's residual."""
        return np.r_[-self.eta[:-1], 1.0]

    @cached_property
    def scores(self) -> Scores:
        return Scores(self.loss, self.P, self.eta)

    @cached_property
    def hessian_rows(self) -> HessianRows:
        return HessianRows(self.loss, self.P, self.eta)

    @cached_property
    def longest(self) -> float:
        """Upper bound on the norm of a row's whitened predictors, for rows within the declared bounds."""
        return self.frame.longest(self.W)

    @cached_property
    def reach(self) -> float:
        """Upper bound on the absolute linear predictor, for rows within the declared bounds."""
        return self.frame.reach(np.linalg.solve(self.frame.columns, self.theta)) + self.offset_reach

    @cached_property
    def largest_psi(self) -> float:
        """Upper bound on |derivative of the loss with respect to the linear predictor|, for rows within bounds."""
        return self.loss.largest(self.reach)

    @cached_property
    def largest_residual(self) -> float:
        """Upper bound on the absolute residual |response - linear predictor|, for rows within the declared bounds."""
        return 1.0 + self.reach

    def coordinates(self, theta: FloatArray, hidden: FloatArray) -> FloatArray:
        """Return coefficients t of the m whitened predictors, for coefficients theta of the design's columns.

        ``to_theta @ t`` equals theta up to a linear combination of unidentified directions, the columns of `hidden`.
        """
        known = np.column_stack([self.to_theta, hidden[:, : len(theta) - self.m]])
        t = np.linalg.lstsq(known, theta, rcond=None)[0][: self.m]
        return np.where(np.abs(t) < NULL * np.abs(theta).max(initial=0.0), 0.0, t)

    def moved(self, t: FloatArray) -> Start:
        """Return a copy of this `Start` with the vector t added to the coefficients of the whitened predictors."""
        return replace(self, theta=self.theta + self.to_theta @ t)

    def remapped(self, T: FloatArray) -> Start:
        """Return a copy of this `Start` with whitened predictors w'T in place of w, for a matrix T, shape (m, m)."""
        return replace(self, W=self.W @ T, moments=None if self.moments is None else self.moments.mapped(T))

    def of_loss(self, loss: Loss, intercept: int | None) -> Start:
        """Return a copy of this least-squares `Start` for the loss `loss`, with other coefficients and residual scale.

        ``loss.start`` computes the starting coefficients and the residual scale from the results of least squares.
        `intercept` is the index of the intercept among the coefficients; None without an intercept.
        """
        fit = LeastSquaresStart(self.theta, self.sigma, intercept, self.center, self.frame.scale)
        theta, sigma = loss.start(fit)
        return replace(self, loss=loss, theta=theta, sigma=sigma)


def sizes_of(ask: Ask, by: Noises, public: PublicFacts, rows: float) -> Sizes:
    """Return the numbers of rows and of scores (one score for each row, or for each privacy unit).

    If rows belong to privacy units and the number of units is private, this number is released.
    """
    if not public.by_unit:
        return Sizes(rows, rows, weighted=public.design.weighted)
    if public.units is not None:
        return Sizes(rows, float(public.units), True, weighted=public.design.weighted)
    released = ask(Sum("units", One(), within=Cells(1), folded=True), by=by.counts)
    return Sizes(rows, max(float(released.value[0]), 1.0), True, weighted=public.design.weighted)


def with_squares_of_products(
    ask: Ask,
    by: Noises,
    box: PublicBox,
    frame: StandardFrame,
    known: KnownMoments,
    levels: KeptLevels,
    rows: float,
    share_of: tuple[str, ...],
) -> KnownMoments:
    """Release the mean squares of standardised products of columns; return `known` with these mean squares inserted.

    The mean squares do not follow from the earlier releases, the sums of columns and of squared columns. The second
    moments released next (the coarse matrix) contain mean squares that are too small, because rows with large products
    have the largest norms and are clipped.

    A row contributes ``(z / WIDE)^2`` for each standardised product z. Contributions are clamped to [0, 1]
    (`Fractions`), so |z| is in effect clamped to `WIDE`, and replacing a row changes each sum by at most 1. The query
    uses a part of the budget of the queries with the labels `share_of`. If the noise of the query would be too large,
    or if `levels` has unidentified directions of the coefficients, the query is not sent, and `known` is returned
    unchanged.
    """
    made = [j for j, *_ in box.products]
    of = SquaredColumns(frame.K[:, made] / WIDE)
    question = Sum("squares of products", of, Fractions(len(made)), levels.keep, within_share_of=share_of)
    noise = sd_of(ask.law(question, by=by.columns)) * WIDE**2 / rows
    if not ask.decide(question.label, bool(noise < MATRIX_NOISE and not levels.hidden.shape[1])):
        return known
    release, value, variance = ask(question, by=by.columns), known.value.copy(), known.variance.copy()
    value[made, made], variance[made, made] = release.value * WIDE**2 / rows, noise**2
    return replace(known, value=value, variance=variance)


def coarse(
    ask: Ask,
    by: Noises,
    box: PublicBox,
    frame: StandardFrame,
    levels: KeptLevels,
    rows: float,
    known: KnownMoments | None = None,
) -> Start:
    """Release second moments of columns and response (stage 1, the coarse matrix); return the start of the fit.

    The result contains whitened predictors, starting coefficients and the residual scale. Rows whose Euclidean norm
    exceeds a public limit are clipped to this limit. Directions of the coefficients about which the rows in the fit
    have no information are left out.

    Parameters
    ----------
    frame : StandardFrame
        Standardised columns and response.
    levels : KeptLevels
        Factor levels kept in the fit, and the directions without information.
    rows : float
        Number of rows at the kept levels.
    known : KnownMoments, optional
        Second moments that follow from the released sums of columns and of squared columns. If these moments are given,
        the coarse matrix is replaced by an average of the coarse matrix and these moments.
    """
    Q = complement(frame, levels.hidden)
    m = Q.shape[1]
    both = np.zeros((frame.c + 1, m + 1))
    both[:-1, :-1], both[-1, -1] = Q, 1.0
    question = Sum("coarse matrix", WeightedLinear(frame.K @ both), within=Products(m + 1), keep=levels.keep)
    limit = frame.longest(np.eye(frame.c)) ** 2 + (2.0 / frame.scale) ** 2
    if known is None:
        read = Coarse.released(ask, by, question, m, rows, limit)
    else:
        whole = not levels.hidden.shape[1]
        read = Coarse.merged(ask, by, question, rows, limit, box.intercept if whole else None, known, whole)
    T = roots(read.matrix + Q.T @ levels.ridge @ Q)[1]
    return Start(
        frame,
        Q @ T,
        frame.theta(Q @ read.slopes),
        frame.scale * read.sigma,
        SquaredLoss(),
        box.offset,
        box.offset_reach,
        _center(frame, box),
        read.near_singular,
        frame.scale * read.most_sigma,
        read.moments.first(m).mapped(T),
        frame.scale**2 * read.variance_error,
    )


def whitened_again(
    ask: Ask, by: Noises, box: PublicBox, start: Start, levels: KeptLevels, rows: float, share_of: tuple[str, ...]
) -> Start:
    """Return `start`, with predictors whitened again if `start` is near-singular (stage 1b of the fit).

    The predictors of `start` were whitened by noisy second moments (stage 1). If noise exceeds the smallest eigenvalue
    of these moments, `start` is near-singular, and the second moments of the whitened predictors and the residual are
    released. This release also gives new coefficients and a new residual scale. With only one whitening, noise could
    exceed the smallest eigenvalue of the Hessian, and coefficients of nearly collinear columns would not be reported.
    """
    if not ask.decide("second matrix", start.near_singular):
        return start
    residual = box.response - np.r_[start.theta, np.zeros(box.width - box.c)]
    of, within = WeightedLinear(np.column_stack([start.P, residual / start.sigma])), Products(start.m + 1)
    question = Sum("second matrix", of, within=within, keep=levels.keep, within_share_of=share_of)
    read = Coarse.released(ask, by, question, start.m, rows, np.inf)
    T = roots(read.matrix + start.W.T @ levels.ridge @ start.W)[1]
    moved = start.moved(start.sigma * read.slopes)
    sigma, most = start.sigma * read.sigma, start.sigma * read.most_sigma
    error = start.sigma**2 * read.variance_error
    moments = read.moments.first(start.m)
    return replace(moved, sigma=sigma, most_sigma=most, moments=moments, variance_error=error).remapped(T)


def held_at(unit: float, m: int, rows: float) -> float:
    """Return the square R^2 of the norm to which rows are clipped in the release of their second moments.

    The norm of a row is computed without the constant. The noise in the sum of x x' over rows x has a largest
    eigenvalue of about ``2 sqrt(m + 1) unit R^2``. R^2 is the number at which this eigenvalue equals ``2 HELD_NOISE
    rows``. If this number is below ``HELD_LEAST m`` or above ``HELD_MOST m``, R^2 is this limit instead.

    Parameters
    ----------
    unit : float
        Noise sd of an off-diagonal entry of the sum of x x' if rows are clipped to norm 1.
    m : int
        Number of predictors, including the constant; a row x consists of m predictors and the response.
    rows : float
        Number of rows.
    """
    return float(np.clip(HELD_NOISE * rows / unit / np.sqrt(m + 1), HELD_LEAST * m, HELD_MOST * m))


@dataclass(frozen=True, eq=False)
class Coarse:
    """The results of a regression that is computed from noisy second moments of m predictors and the response.

    Parameters
    ----------
    matrix : ndarray, shape (m, m)
        Mean of x x' over rows x of predictors. Eigenvalues below a limit are raised to this limit, the larger of
        `FLOOR` and sqrt(m) times the noise sd of an entry.
    slopes : ndarray, shape (m,)
        Coefficients of the predictors.
    sigma : float
        Residual scale, in units of the response's scale.
    most_sigma : float
        Upper limit of the residual scale, in the same units; noise may have made `sigma` too small.
    near_singular : bool
        Whether second moments should be released again: an eigenvalue of `matrix` was raised to its lower limit, and
        this limit is below `MATRIX_NOISE`. Always False for results of `merged`.
    moments : NoisyMatrix
        Released sum of the outer products v v' over rows v of predictors and response, whose norms are clipped.
    variance_error : float
        Error of the square of `sigma` due to noise and to clipping, a root mean square; 0 for results of `merged`.
    """

    matrix: FloatArray
    slopes: FloatArray
    sigma: float
    most_sigma: float
    near_singular: bool
    moments: NoisyMatrix
    variance_error: float = 0.0

    @classmethod
    def merged(
        cls,
        ask: Ask,
        by: Noises,
        question: Sum,
        rows: float,
        limit: float,
        one: int | None,
        known: KnownMoments,
        whole: bool,
    ) -> Coarse:
        """Release second moments, and average each entry with its value in `known`, weighted by precision.

        Slopes and residual scale are computed from the averages. The slopes are multiplied by the share of the
        explained variance that is not due to noise. Clipping makes the mean square of a response with rare large
        values too small. The residual scale is therefore computed from the larger of two mean squares of the response:
        the average and the value in `known`.

        Parameters
        ----------
        question : Sum
            Query for the second moments of m predictors and the response.
        rows : float
            Number of rows.
        limit : float
            Public bound on the squared norm of any row. The squared norm to which rows are clipped is at most `limit`.
        one : int, optional
            Index of the constant column; clipping leaves the constant unchanged.
        known : KnownMoments
            Second moments that follow from released sums of columns and of squares.
        whole : bool
            Whether the matrix has all columns of `known`; otherwise only the response's mean square in `known` is used.
        """
        m = question.within.m - 1  # type: ignore[attr-defined]
        unit = entry_sd(ask, question, by)
        squared = min(1 + held_at(unit, m, rows), limit)
        if one is not None:
            of = HeldBeside(question.of.matrix, one, float(np.sqrt(squared - 1)))  # type: ignore[attr-defined]
            question = replace(question, of=of)
        read = NoisyMatrix.of(ask(question.inside(float(np.sqrt(squared))), by=by.products))
        value, variance = (known.value, known.variance) if whole else known.of_response(m + 1)
        read = read.combined(rows * value, rows**2 * variance, np.eye(m + 1))
        G, entry = read.value / rows, unit * squared / rows
        values, V = np.linalg.eigh(G[:m, :m])
        raised = np.maximum(values, max(FLOOR, float(np.sqrt(m)) * entry))
        b = V @ ((V.T @ G[:m, m]) / raised)
        explained = float(G[:m, m] @ b)
        first = float(known.value[-1, -1]) if np.isfinite(known.variance[-1, -1]) else 0.0
        of_response = max(float(G[m, m]), first, FLOOR)
        kept = max(0.0, 1 - entry**2 * float((1 / raised).sum()) / max(explained, 1e-12))
        part = min(kept**2 * explained / of_response, 1 - FLOOR)
        sigma = float(np.sqrt(of_response * (1 - part) + m**0.5 * entry**2 / 2))
        return cls((V * raised) @ V.T, kept * b, sigma, sigma, False, read)

    @classmethod
    def released(cls, ask: Ask, by: Noises, question: Sum, m: int, rows: float, limit: float) -> Coarse:
        """Release second moments of m predictors and the response; compute slopes and a residual scale.

        `question` is the query for the second moments. Squared norms of rows are clipped to a public number, at most
        `limit`, that depends on the noise and on the number of rows.
        """
        unit = entry_sd(ask, question, by)
        squared = np.clip(HELD_NOISE / 2 * rows / unit / np.sqrt(m), HELD_LEAST * (m + 1), HELD_MOST * (m + 1))
        radius = np.sqrt(min(float(squared), limit))
        read = NoisyMatrix.of(ask(question.inside(radius), by=by.products))
        G = read.value / rows
        values, V = np.linalg.eigh(G[:m, :m])
        least = max(FLOOR, float(np.sqrt(m)) * unit * radius**2 / rows)
        raised = np.maximum(values, least)
        b = V @ ((V.T @ G[:m, m]) / raised)
        residual = np.r_[b, -1.0]
        noise = float(np.sqrt(read.variance_along(residual[:, None])[0])) / rows
        square = float(residual @ G @ residual)
        # upper limit of the residual variance: the response variance (1), less the explained variance, plus a noise sd
        most = 1 - (float(G[m, m]) - square) + noise
        sigma, most = np.sqrt(np.clip([max(square, MATRIX_NOISE * noise), most], FLOOR, 1.0))
        near_singular = bool(values[0] < least < MATRIX_NOISE)
        # without clipping, the mean square of each variable is about 1; clipping is assumed to reduce the mean squared
        # residual by the same share as the mean squares of the variables
        missing = max(1 - float(np.trace(G)) / (m + 1), 0.0)
        error = float(np.hypot(noise, missing * square))
        return cls((V * raised) @ V.T, b, float(sigma), float(max(most, sigma)), near_singular, read, error)


def _center(frame: StandardFrame, box: PublicBox) -> float:
    return 0.0 if box.intercept is None else -float(frame.K[box.intercept, -1]) * frame.scale


def white_levels(box: PublicBox, frame: StandardFrame, levels: KeptLevels) -> tuple[FloatArray, FloatArray]:
    """Return a matrix R that whitens each factor's columns, and a ridge for rare levels, both of shape (c, c).

    There are c standardised predictors. The second moments of a factor's columns are computed from the released counts
    of its levels. R maps the sum of these second moments and the ridge to the identity. The ridge limits the squared
    norm of whitened rows at a rare level to the upper limit ``levels.most_length``.

    For the dummies of k equally frequent levels, the smallest eigenvalue of the second moments is 1 / (k - 1). If the
    second moments, released next, were not whitened by R, their noise might exceed this eigenvalue, and the
    coefficients of all levels of the factor would not be identified.
    """
    R, ridge, at_levels = np.eye(frame.c), levels.ridge.copy(), dict(frame.parts)
    for factor, counts, kept in zip(box.design.factors, levels.counts, levels.kept, strict=True):
        corners = at_levels.get(tuple(factor.columns), np.zeros((0, 0)))
        rows = np.maximum(counts[kept] if kept.any() else counts, levels.sd)
        if not corners.size or not rows.sum():
            continue
        own, shares = np.ix_(factor.columns, factor.columns), rows / rows.sum()
        ridge[own] = (corners.T * rare_shares(shares, levels.most_length)) @ corners
        values, V = np.linalg.eigh((corners.T * shares) @ corners + ridge[own])
        R[own] = (V / np.sqrt(np.maximum(values, FLOOR))) @ V.T
    return R, ridge


def rare_shares(shares: FloatArray, most_length: float) -> FloatArray:
    """Return, for each factor level, the number that must be added to the level's share of the rows.

    A share below ``1 / most_length`` is raised to this limit, where `most_length` is the upper limit of the squared
    norm of whitened rows; for a larger share, the number is 0. The function `white_levels` computes the ridge from
    these numbers. Without a ridge, whitened rows at a level with the share s of the rows have a squared norm of about
    1 / s.
    """
    return np.maximum(1 / most_length - shares, 0.0)


def complement(frame: StandardFrame, hidden: FloatArray) -> FloatArray:
    """Return an orthonormal basis, shape (c, m), of the m identified directions of the coefficients.

    The coefficients are the coefficients of the c standardised predictors. The columns of the matrix `hidden` are the
    unidentified directions of the coefficients of the design's columns.
    """
    if not 0 < hidden.shape[1] < frame.c:  # all directions are kept if none, or if every one, is unidentified
        return np.eye(frame.c)
    null = np.linalg.solve(frame.columns, hidden)
    basis: FloatArray = np.linalg.svd(null, full_matrices=True)[0][:, null.shape[1] :]
    return basis


def cleared(matrix: FloatArray, sd: float, usual: float) -> FloatArray:
    """Reduce the noise in the eigenvalues of a noisy symmetric matrix; return the resulting positive definite matrix.

    An eigenvalue is replaced by a typical eigenvalue if the noise may explain the difference between the two, that is,
    if the difference is at most the largest eigenvalue of the noise. The typical eigenvalue is the mean of the replaced
    eigenvalues, but at least ``SUM_SEEN * usual``. The other eigenvalues are kept, or raised to a positive lower limit
    if they are smaller.

    Parameters
    ----------
    matrix : ndarray, shape (m, m)
        The noisy matrix.
    sd : float
        Standard deviation of the noise of an entry off the diagonal.
    usual : float
        Expected eigenvalue of the matrix without noise.
    """
    values, V = np.linalg.eigh((matrix + matrix.T) / 2)
    m = len(values)
    kept = np.zeros(m, dtype=bool)
    for _ in range(m):
        others = _mean_of_others(values, kept, usual)
        new = np.abs(values - others) > noise_edge(m, sd)
        if (new == kept).all():
            break
        kept = new
    others = _mean_of_others(values, kept, usual)
    values = np.where(kept, np.maximum(values, max(LEAST_EIGENVALUE * others, 2 * sd)), others)
    return (V * values) @ V.T


def _mean_of_others(values: FloatArray, kept: NDArray[np.bool_], usual: float) -> float:
    return max(float(values[~kept].mean()), SUM_SEEN * usual) if not kept.all() else usual


def roots(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the symmetric square root of a positive definite matrix, and the inverse of the square root."""
    values, V = np.linalg.eigh((matrix + matrix.T) / 2)
    root = np.sqrt(np.maximum(values, 1e-300))
    return (V * root) @ V.T, (V / root) @ V.T
