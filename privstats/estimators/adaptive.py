"""Adaptive regression: whiten the predictors, then use the method with the shortest expected intervals.

The fit starts with three releases: the scales of the columns (stage 0), the numbers of rows at factor levels (stage L),
and rough second moments of the standardised columns, called the coarse matrix (stage 1). The predictors are then
whitened: they are replaced by linear combinations of the predictors whose matrix of second moments is about the
identity. Finally one of three methods is chosen: noisy moments (`sufficient_statistics`), Newton steps
(`least_squares`), or the minimiser of a perturbed loss (`perturbed_least_squares`), the sum of the rows' losses, a
ridge penalty and a random linear term.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privstats.estimators.base import NORMAL, ByBranch, Noises, PublicFacts, check_tail, entry_sd
from privstats.estimators.beginning import begun
from privstats.estimators.constants import (
    AGAIN,
    COARSE_BESIDE,
    COARSE_WITHIN,
    HELD_LEAST,
    MATRIX_NOISE,
    MOST_FIRST_NOISE,
    READ_WHITENED,
    READABLE,
    UNINFORMATIVE,
)
from privstats.estimators.frame import (
    KnownMoments,
    PublicBox,
    Scales,
    column_scales,
    held_response,
    ranked_scales,
    standardised,
    with_products,
)
from privstats.estimators.least_squares import Steps, hessian_entry_sd, relative_noise, with_loss
from privstats.estimators.levels import readable_levels
from privstats.estimators.one_step import Problem
from privstats.estimators.perturbed_least_squares import PerturbedHuber, PerturbedSquares
from privstats.estimators.preconditioner import (
    Sizes,
    coarse,
    held_at,
    sizes_of,
    white_levels,
    with_squares_of_products,
)
from privstats.estimators.sufficient_statistics import Moments, moments_of_box
from privstats.gate.questions import Ask, Laws, Question, Sum
from privstats.inference.estimate import Estimate
from privstats.losses.base import Loss, SquaredLoss
from privstats.privacy.promise import Promise, Relation
from privstats.sets.vectors import Products

# Budget shares, by name of the query: shares of mu^2 under mu-Gaussian differential privacy ("normal"), and shares of
# eps under pure differential privacy ("pure" and "perturbed"). The queries "levels", "rare values", "scales again",
# "narrow scales", "narrow response", "squares of products", "second matrix", "whitened squares", "meat" and "residual
# squares" are optional. The share of an optional query is subtracted from the share of a main query (`HOSTS`). If the
# optional query is omitted, the main query keeps its whole share.
SHARES: Mapping[str, Mapping[str, float]] = {
    "normal": {
        "units": 0.02, "scales": 0.04, "levels": 0.14, "rare values": 0.10, "scales again": 0.05,
        "coarse matrix": 0.09, "moments": 0.75, "meat of moments": 0.12, "second matrix": 0.06,
        "residual scale": 0.03, "leverages": 0.08, "hessian": 0.10, "first step": 0.06, "score sizes": 0.10,
        "residual squares": 0.08, "score": 0.53,
    },
    "pure": {
        "units": 0.02, "scales": 0.05, "levels": 0.14, "rare values": 0.10, "scales again": 0.07,
        "coarse matrix": 0.08, "moments": 0.75, "meat of moments": 0.12, "second matrix": 0.08,
        "residual scale": 0.04, "leverages": 0.08, "hessian": 0.16, "first step": 0.08, "meat": 0.09,
        "score sizes": 0.15, "residual squares": 0.10, "score": 0.40,
    },
    "perturbed": {
        "units": 0.02, "scales": 0.05, "response square": 0.03, "levels": 0.14, "rare values": 0.10,
        "narrow scales": 0.12, "narrow response": 0.08, "squares of products": 0.06, "coarse matrix": 0.12,
        "moments": 0.68, "meat of moments": 0.12, "second matrix": 0.12, "whitened squares": 0.06,
        "score sizes": 0.12, "coefficients": 0.64, "squares of scores": 0.04,
        "residual scale": 0.04, "hessian": 0.12,
    },
}  # fmt: skip

# The main query of each method of estimation: the budget of an optional query is subtracted from this query's budget.
HOSTS = {"steps": "score", "moments": "moments", "perturbed": "coefficients"}


@dataclass(frozen=True)
class Adaptive:
    """Estimator of a regression that chooses the fitting method with the shortest expected confidence intervals.

    The choice is made after three releases: the scales of the columns, the numbers of rows at factor levels, and rough
    second moments of the columns.

    Parameters
    ----------
    noises : Noises
        Noise mechanisms, one for each kind of query.
    loss : Loss
        Loss whose sum over rows the fit minimises.
    branches : tuple of str
        Methods to choose from: "moments" (noisy second moments), "steps" (Newton steps) and "perturbed" (the minimiser
        of the sum of losses, a ridge penalty and a random linear term).
    tail : {"usual", "cautious"}
        Assumption about the number of rows with a score of large norm; a score is the gradient of a row's loss. The fit
        releases a histogram of score norms, in which a small number of rows cannot be distinguished from noise.
        "cautious" assumes a larger number than "usual". It also assumes a larger bias due to clipping, namely that all
        clipped scores may affect the same coefficient.
    cov_type : str
        "HC" (error variances may differ between rows) or "nonrobust" (equal error variances).
    scores : {"usual", "means"}
        Kind of regression: "means" if the coefficients are means of groups, otherwise "usual". The assumption about the
        norms of scores depends on the kind (see `Problem.assuming`).
    coarse : float, optional
        Budget share of the first released second moments (coarse matrix), if "perturbed" is among the methods; by
        default ``SHARES["perturbed"]["coarse matrix"]``.
    """

    noises: Noises = NORMAL
    loss: Loss = SquaredLoss()  # noqa: RUF009 -- losses are immutable
    branches: tuple[str, ...] = ("moments", "steps")
    tail: str = "usual"
    cov_type: str = "HC"
    scores: str = "usual"
    coarse: float | None = None

    def __post_init__(self) -> None:
        check_tail(self.tail)

    @property
    def shares(self) -> Mapping[str, float]:
        if "perturbed" not in self.branches:
            return SHARES[self.noises.shares]
        shares = SHARES["perturbed"]
        coarse = self.coarse or shares["coarse matrix"]
        # the Hessian gets the same budget share, so a limit on this share increases the share of the coefficients
        if self.loss.needs_scale:
            coarse = min(coarse, COARSE_BESIDE)
        rest = 1 - shares["scales"] - shares["response square"] - coarse  # budget share left for the later releases
        coefficients = rest - shares["score sizes"] - shares["squares of scores"]
        if self.loss.needs_scale:
            coefficients -= shares["residual scale"] + coarse
        return {
            **shares,
            "coarse matrix": coarse,
            "second matrix": max(AGAIN * coarse / coefficients, shares["second matrix"]),
            "moments": rest - shares["meat of moments"],
            "coefficients": coefficients,
            "hessian": coarse,
        }

    @property
    def most_first_noise(self) -> float:
        """Return the largest relative noise of the coarse matrix at which Newton steps are predicted to converge.

        The coarse matrix is the first release of second moments: the sum of x x' over n rows x of c columns with
        variance 1, plus noise. Let s be the noise sd of an off-diagonal entry of this sum. The largest eigenvalue of
        the noise matrix is about ``2 sqrt(c) s``. The relative noise is defined as half of this eigenvalue divided by
        n, ``sqrt(c) s / n``.
        """
        return MOST_FIRST_NOISE if isinstance(self.loss, SquaredLoss) else MATRIX_NOISE

    def __call__(self, ask: Ask, public: PublicFacts) -> Estimate:
        box = PublicBox(public.design)
        scales = column_scales(ask, self.noises, box, public.used, spared=self.perturbs)
        return self.after(scales, ask, box, public)

    @property
    def perturbs(self) -> bool:
        """Return whether minimising a perturbed loss is among the fitting methods to choose from."""
        return "perturbed" in self.branches

    def after(self, scales: Scales, ask: Ask, box: PublicBox, public: PublicFacts) -> Estimate:
        """Make all releases that follow the release of the column scales; return the estimate of the coefficients.

        If `branches` names several methods, the estimate is computed by the method with the shortest expected
        intervals.

        Parameters
        ----------
        scales : Scales
            Released centres and scales of columns and response.
        ask : Ask
            Function that sends queries to the data and returns noisy releases.
        box : PublicBox
            Public information about the design's columns.
        public : PublicFacts
            Public information about the fit, such as numbers of rows.
        """
        by = self.noises
        sizes = sizes_of(ask, by, public, scales.rows)
        sizes = replace(sizes, released=(scales.rows, scales.rows_sd) if public.used is None else ())
        hosts = tuple(HOSTS[branch] for branch in HOSTS if branch in self.branches)
        entry = hessian_entry_sd(ask, by, box.c) if not self.perturbs else coarse_entry_sd(ask, by, box.c)
        needed = READABLE[by.shares] * entry
        if self.perturbs:
            needed = READ_WHITENED * entry * (box.c + 1) ** 0.5
        uninformative = not self.perturbs and relative_noise(box.c, entry * HELD_LEAST / sizes.rows) >= UNINFORMATIVE
        worth = "moments" not in self.branches or not uninformative
        clips = self.perturbs or "moments" not in self.branches or bool(np.isinf(scales.rarer))
        read = (ask, by, public, box, scales, sizes, needed, hosts, worth and clips)
        problem = self.with_known_moments(*read) if self.perturbs else begun(*read)
        scores = "bounded" if self.loss.bounded and not self.perturbs else self.scores
        problem = problem.assuming(self.tail, self.cov_type, scores)
        levels = problem.levels
        if self.perturbs and self.loss.needs_scale:
            fit: Estimate = PerturbedHuber.of(replace(problem, start=with_loss(problem, self.loss))).estimate()
            return fit
        branches: dict[str, Any] = {
            "moments": Moments.of(problem),
            "steps": Steps.of(problem, loss=self.loss),
            "perturbed": PerturbedSquares.of(problem),
        }
        chosen = self.branches[0]
        # methods are compared by the harmonic mean of their expected interval lengths (inf for a missing interval)
        if len(self.branches) > 1:
            fewer = 1 / max(levels.told(box), 1 / box.c)

            def length(name: str) -> float:
                method = branches[name]
                if name != "moments" and not clips:
                    return np.inf
                given = name == "moments" and method.reads(levels.rarest)
                return float(method.length() * (1.0 if given else fewer))

            chosen = ask.choose("estimator", ByBranch(self.branches, length))
        if chosen == "moments" and (levels.keep is not None or problem.start.frame.redone):
            return moments_of_box(ask, by, box, sizes, public, problem.robust).estimate()
        estimate: Any = branches[chosen].estimate()
        response = {"response_sd": scales.response_sd}  # replaced if the estimate has its own response_sd
        return replace(estimate, diagnostics={**response, **estimate.diagnostics})

    def with_known_moments(
        self,
        ask: Ask,
        by: Noises,
        public: PublicFacts,
        box: PublicBox,
        scales: Scales,
        sizes: Sizes,
        needed: float,
        share_of: tuple[str, ...],
        worth: bool,
    ) -> Problem:
        """Make all releases after the column scales and before the choice of a method; return the estimation problem.

        The function is used if minimising a perturbed loss is one of the candidate methods. It releases second moments
        of columns and response (the coarse matrix). Some of these moments, mainly mean squares, also follow from the
        released centres and scales; the two values of such a moment are averaged.

        Parameters
        ----------
        ask : Ask
            Function that sends queries to the data and returns noisy releases.
        by : Noises
            Noise mechanisms, one for each kind of query.
        public : PublicFacts
            Public information about the fit, such as numbers of rows.
        box : PublicBox
            Public information about the design's columns.
        scales : Scales
            Released centres and scales of columns and response.
        sizes : Sizes
            Numbers of rows and of scores (one score for each row or for each privacy unit), before rows of rare levels
            are left out.
        needed : float
            Smallest number of rows at a factor level with which the coefficient of the level can be estimated.
        share_of : tuple of str
            Labels of the main queries, such as "score", one for each candidate method. An optional query uses a part of
            the main query's share of the budget.
        worth : bool
            Whether to release the numbers of rows at factor levels; False if the release is expected to improve the fit
            less than its budget would improve the main query.
        """
        levels = readable_levels(ask, by, box, scales, needed, share_of, worth, public.intervals)
        # whitened rows at rare levels may be as long as the norm to which rows are clipped in the coarse matrix
        if self.loss.needs_scale:
            levels = replace(levels, row_limit=held_at(coarse_entry_sd(ask, by, box.c), box.c, sizes.rows))
        scales = levels.of_kept(scales)
        ranked = ranked_scales(ask, box, scales, public.offered, share_of)
        held, moments = held_response(box, ranked)
        known = KnownMoments.of(box, held, moments)
        frame = standardised(box, held, levels.kept or None)
        frame = with_products(box, frame, held, normed=True) if box.products else frame
        sizes = sizes.without(levels.left_out)
        if box.products:
            known = with_squares_of_products(ask, by, box, frame, known, levels, sizes.rows, share_of)
        R, ridge = white_levels(box, frame, levels)
        frame, levels, known = frame.mapped(R), replace(levels, ridge=R.T @ ridge @ R), known.mapped(R)
        start = coarse(ask, by, box, frame, levels, sizes.rows, known)
        return Problem(ask, by, box, start, levels, sizes, public, scales=scales)


def coarse_entry_sd(ask: Laws, by: Noises, m: int) -> float:
    """Return the noise sd of an off-diagonal entry of the coarse matrix, if rows are clipped to norm 1.

    The coarse matrix is the first release of second moments: the sum of v v' over rows v of m predictors and the
    response, plus noise.

    Parameters
    ----------
    ask : Laws
        Object that returns the distribution of the noise in the answer to a query, without asking the query.
    by : Noises
        Noise mechanisms, one for each kind of query.
    m : int
        Number of predictors.
    """
    return entry_sd(ask, Sum("coarse matrix", lambda block: block, within=Products(m + 1)), by)


@dataclass(frozen=True, eq=False)
class ForecastLaws:
    """Calculator of the noise distribution that a release with a given part of the privacy budget would have.

    Parameters
    ----------
    promise : Promise
        Privacy guarantee of one release, that is, the part of the privacy budget that this release uses.
    relation : Relation
        Neighbouring relation of the queries.
    """

    promise: Promise
    relation: Relation

    def law(self, question: Question, *, by: Any) -> Any:
        """Return the law of the noise that the mechanism `by` would add to the exact answer to the query `question`."""
        return by.law(self.promise, question.within, self.relation)


def carries_steps(
    by: Noises, promise: Promise, relation: Relation, columns: int, rows: float, most: float = UNINFORMATIVE
) -> bool:
    """Return whether the expected relative noise of the Hessian of Newton steps is below the limit `most`.

    The relative noise is the largest eigenvalue of the noise in the Hessian, divided by a typical eigenvalue of the
    Hessian; both are predicted from public values. If the relative noise exceeds the limit, a single release of second
    moments with the whole budget is preferred to the estimator `Adaptive`, whose first stages spend a part of the
    budget.

    Parameters
    ----------
    by : Noises
        Noise mechanisms, one for each kind of query.
    promise : Promise
        Privacy guarantee of the whole fit, which is its privacy budget.
    relation : Relation
        Neighbouring relation of the queries.
    columns : int
        Number of columns of the design.
    rows : float
        Number of rows.
    most : float
        Limit with which the relative noise of the Hessian is compared.
    """
    part = promise.part(SHARES[by.shares]["hessian"])
    entry = hessian_entry_sd(ForecastLaws(part, relation), by, columns)
    return relative_noise(columns, entry * HELD_LEAST / max(rows, 1.0)) < most


def coarse_noise(by: Noises, promise: Promise, relation: Relation, columns: int, rows: float) -> float:
    """Return the predicted relative noise of the coarse matrix, if its release spends the whole budget `promise`.

    The coarse matrix is the first release of second moments: the sum of v v' over n = `rows` rows v of the response and
    c = `columns` standardised columns, plus noise. Let s be the noise sd of an off-diagonal entry of this sum. The
    largest eigenvalue of the noise matrix is about ``2 sqrt(c + 1) s``. The relative noise is defined as half of this
    eigenvalue divided by n, ``sqrt(c + 1) s / n``. The relative noise is computed from public numbers alone.
    """
    entry = coarse_entry_sd(ForecastLaws(promise, relation), by, columns) * (1 + HELD_LEAST * columns)
    return entry * (columns + 1) ** 0.5 / rows


def coarse_share(noise: float) -> float:
    """Return the budget share of the coarse matrix in a fit that minimises a perturbed loss.

    The coarse matrix is the first release of second moments of columns and response. The budget share is proportional
    to the relative noise of the coarse matrix, within the limits `COARSE_WITHIN`.

    Parameters
    ----------
    noise : float
        Relative noise of the coarse matrix if released with the whole budget, from `coarse_noise`.
    """
    return float(np.clip(noise / MATRIX_NOISE, *COARSE_WITHIN))
