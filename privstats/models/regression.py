"""Linear and generalized linear models, and the choice of their estimators by method, budget and number of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from privstats.errors import BudgetError, DomainError, FormulaError, OptionError, quote
from privstats.estimators.adaptive import Adaptive, carries_steps, coarse_noise, coarse_share
from privstats.estimators.base import NORMAL, PURE, Noises
from privstats.estimators.constants import UNINFORMATIVE
from privstats.estimators.entries import Entries
from privstats.estimators.first_stage import first_noise
from privstats.estimators.frame import PublicBox
from privstats.estimators.k_norm_gradient import (
    ChosenLeastSquares,
    ExponentialLeastSquares,
    KNormGradientLeastSquares,
    PerturbedLeastSquares,
)
from privstats.estimators.likelihood import LikelihoodSteps
from privstats.estimators.objective_perturbation import PerturbedLikelihood, hessian_share
from privstats.estimators.perturbed_likelihood import PerturbedLogLink
from privstats.estimators.plain_perturbation import PlainPerturbedLikelihood
from privstats.estimators.sufficient_statistics import SufficientStatistics
from privstats.formula.design import Design, bind_regression
from privstats.losses.base import HuberLoss
from privstats.losses.families import Family, LogLink, family_of
from privstats.losses.mestimators import LogCosh, PseudoHuber
from privstats.losses.psi import Likelihood
from privstats.mechanisms.additive.cube import Cube
from privstats.mechanisms.additive.hull import Hull
from privstats.mechanisms.additive.laplace import Laplace
from privstats.mechanisms.additive.matrixt import MatrixT
from privstats.mechanisms.additive.spherical import Spherical
from privstats.mechanisms.base import Additive
from privstats.models.base import Candidate, Choice, Model, chosen, one_of, own_options
from privstats.models.descent import NAMED, SUBSAMPLED, descends, descents, refuse_descent
from privstats.privacy.promise import Neighbors, Promise, Relation, ZeroCDP, is_number

ROBUST = ("HC", "HC0", "HC1", "HC2", "HC3")
ROBUST_LOSSES: Mapping[str, HuberLoss] = {"huber": HuberLoss(), "pseudo_huber": PseudoHuber(), "logcosh": LogCosh()}
LOSSES = ("squares", *ROBUST_LOSSES)
SMALLEST, LARGEST = 1e-60, 1e60  # limits of a column's half-range; products of four half-ranges are finite and positive
BRANCHES = {
    "moments": "suffstats",
    "steps": "newton",
    "perturbed": "objpert",
}  # maps an estimator's internal name of a method to the name that users write
WITH_INTERCEPT = ("auto", *BRANCHES.values())  # methods that fit y ~ 0 + C(g) as the equivalent y ~ C(g)
NOISE: Mapping[str, Additive] = {
    "matrixt": MatrixT(), "hull": Hull(), "linf": Cube(), "l1": Laplace(), "l2": Spherical(),
}  # fmt: skip
SAMPLED: Mapping[str, type[ChosenLeastSquares]] = {
    "kng": KNormGradientLeastSquares,
    "objpert": PerturbedLeastSquares,
    "expmech": ExponentialLeastSquares,
}
# limits of rejection sampling: largest number of coefficients, and largest bound on the absolute value of a coefficient
MOST_SAMPLED, WIDEST_SAMPLED = 21, 10.0
MOST_IN_HULL = 2  # largest number of predictors for noise from a convex body (`Hull`); with more, draws take too long
# MOST_MINIMISED: largest number of rows for objective perturbation. Above this number, Newton steps are as precise as
# objective perturbation, and faster.
MOST_MINIMISED = 300_000
# The coarse matrix is the first, rough release of second moments. Its relative noise, for a release with the whole
# budget, is computed in advance (`Carrying.forecast_noise`).
#
# NOISY: relative noise of the coarse matrix above which the method of noisy moments (least squares from released second
# moments) gets the whole budget. If rows have at most p nonzero predictors, this limit is at least PER_PREDICTOR[0] * p
# and at most PER_PREDICTOR[1] * p.
NOISY, PER_PREDICTOR = 0.095, (0.02, 0.035)
# Noisy moments replace Newton steps or objective perturbation if a predicted relative noise exceeds a limit. The limit
# is lowered if the number of columns exceeds MOST_OF_STEPS (Newton steps) or MOST_OF_MINIMISER (objective perturbation)
# times the largest number of nonzero predictors of a row. For example, Newton steps are more precise than moments for
# a factor with 20 levels and less precise for a factor with 60 levels; objective perturbation is more precise than
# moments for a factor with eight levels and less precise for a factor with 20 levels.
MOST_OF_STEPS, MOST_OF_MINIMISER = 20, 4
# AMPLE: relative noise of the coarse matrix (the first released second moments) below which Newton steps are as precise
# as objective perturbation. AMPLE_FOR_COUNTS is this limit for counts and gamma responses. The limit is lower, because
# Newton steps for such responses more often give no intervals if predictors are skewed.
AMPLE, AMPLE_FOR_COUNTS = 0.001, 0.0002
# OF_BOX: options of objective perturbation for rows scaled by the bounds of the columns, not for whitened rows.
# EXACT: relative noise of the coarse matrix (the first released second moments) below which whitening is unnecessary.
OF_BOX, EXACT = {"theta_bound", "split"}, 1e-6
OF_VECTORS = ("linf", "l1", "l2")  # names of noise distributions that are available for vectors of scores


@dataclass(frozen=True)
class Carrying:
    """Public information about a fit, used to predict the noise of each method and the divergence of Newton steps.

    Without confidence intervals, users could not see that Newton steps have diverged. Therefore an error is raised for
    a fit without intervals if divergence is predicted. No error is raised for a fit with intervals, because the
    intervals show whether the steps have converged.

    Parameters
    ----------
    promise : Promise
        Privacy guarantee: the budget of the whole fit.
    neighbors : Neighbors
        Neighbouring relation: which two data sets count as neighbours.
    columns : int
        Number of columns of the design.
    rows : int or None
        Number of rows; None if this number is private. Newton steps are then assumed to converge.
    intervals : bool
        Whether confidence intervals are requested.
    """

    promise: Promise
    neighbors: Neighbors
    columns: int
    rows: int | None
    intervals: bool

    def lacks(self, estimator: Any) -> float:
        """Return the factor by which the number of rows times the budget must increase for Newton steps to converge.

        The factor is at most 1 if the steps are predicted to converge. The factor is 0 without a prediction: if the
        estimator has no Newton steps, intervals are requested, or the number of rows is private.
        """
        if self.intervals or self.rows is None or not hasattr(estimator, "most_first_noise"):
            return 0.0
        return first_noise(estimator, self.promise, self.neighbors, self.columns, self.rows)

    def carries(self, estimator: Any) -> bool:
        """Return whether the Newton steps of an estimator are predicted to converge.

        The result is also True without a prediction: if the estimator has no Newton steps, intervals are requested, or
        the number of rows is private.
        """
        return self.lacks(estimator) <= 1

    def outdoes_moments(self, by: Noises, design: Design, lighter: float = 1.0) -> bool:
        """Return whether the predicted relative noise of the Hessian is small enough for Newton steps.

        The relative noise is the largest eigenvalue of the noise that the mechanisms `by` add to the Hessian, divided
        by a typical eigenvalue of the Hessian. The result is True if the relative noise is below the limit ``lighter *
        UNINFORMATIVE``, or if the number of rows is private.

        Parameters
        ----------
        lighter : float
            Factor of the limit; below 1 if rows have few nonzero entries (`Entries.lighter`).
        """
        if self.rows is None:
            return True
        return carries_steps(by, self.promise, self.relation(design), self.columns, self.rows, UNINFORMATIVE * lighter)

    def relation(self, design: Design) -> Relation:
        """Return how many contributions of rows to a sum may be replaced, or be absent, in a neighbouring data set.

        Each row of a privacy unit contributes separately to the sum, for example to second moments. A row may
        contribute nothing if the design does not use every row, or if a privacy unit (argument `unit`) is given.
        """
        absent = not design.complete or self.neighbors.unit is not None
        return self.neighbors.relation(folded=False, may_be_absent=absent)

    def perturbs(self, design: Design) -> bool:
        """Return whether objective perturbation with whitened rows can give intervals.

        The requirements are pure eps, a request for intervals, rows as privacy units (no argument `unit`), and an
        intercept. Without an intercept, columns are not centred, so that the norms of whitened rows are far too large.
        """
        pure = not self.promise.normal
        return pure and self.intervals and self.neighbors.unit is None and bool(design.intercept)

    def refuse_minimiser(self, mech: str, design: Design, noise: str | None) -> None:
        """Raise an error if mech="objpert" (objective perturbation) is requested for a fit that does not allow it.

        Raises
        ------
        OptionError
            If the budget is not pure eps, no intervals are requested, `unit` or `noise` is given, the formula has no
            intercept, or a column is declared by a scale in place of bounds. The message names the requirement.
        """
        needs = {
            f"a pure eps: give eps= in place of {self.promise.currency}=": self.promise.normal,
            "intervals: leave inference= out": not self.intervals,
            "rows without units: leave unit= out": self.neighbors.unit is not None,
            "an intercept: take 0 out of the formula": not design.intercept,
            "noise='l2': leave noise= out": noise is not None,
            "bounds of all columns: give them in place of Scale": bool(design.domain.scaled(design.reads)),
        }
        for what, lacking in needs.items():
            if mech == "objpert" and lacking:
                raise OptionError(f"mech='objpert' of this model needs {what}, or write mech='newton'")

    def whitens(self, design: Design, options: Mapping[str, Any]) -> bool:
        """Return whether least squares by objective perturbation whitens (decorrelates) the columns.

        Otherwise the columns are only scaled by their bounds. The columns are not whitened if `theta_bound` or `split`
        is given. They are also not whitened if the predicted relative noise of the second moments (`forecast_noise`) is
        at most `EXACT`, the option `tail` is not given, and the number of rows is public.
        """
        if OF_BOX & set(options):
            return False
        return "tail" in options or self.rows is None or self.forecast_noise(PURE, design) > EXACT

    def is_ample(self, by: Noises, design: Design, limit: float = AMPLE) -> bool:
        """Return whether intervals by Newton steps are expected to be about as short as by objective perturbation.

        The result is True if the number of rows exceeds `MOST_MINIMISED`, or if the predicted relative noise of the
        first released second moments (`forecast_noise`) is below `limit`. `by` has the noise mechanisms. The result is
        False if the number of rows is private.
        """
        return self.rows is not None and (self.rows > MOST_MINIMISED or self.forecast_noise(by, design) < limit)

    def minimises_squares(self, by: Noises, design: Design) -> bool:
        """Return whether mech="auto" may choose objective perturbation for least squares.

        The result is False if intervals by Newton steps are expected to be about as short as intervals by objective
        perturbation (`is_ample`). The result is also False if the formula has columns such as x and x**3, or x*y and
        x*y*z (`Design.has_higher_powers`). If the released second moments overstate the information about combinations
        of such columns, intervals by objective perturbation are too short (see "cubes" in `benchmarks.special_rules`).
        """
        return not (self.is_ample(by, design) or design.has_higher_powers)

    def forecast_noise(self, by: Noises, design: Design) -> float:
        """Return the predicted relative noise of the coarse matrix, if its release spends the whole budget.

        The coarse matrix is the first release of second moments: the sum of v v' over the n rows, plus noise. Here v
        contains a row's c standardised columns and its response. The relative noise is ``sqrt(c + 1) s / n``, where s
        is the noise sd of an off-diagonal entry under the mechanisms `by`. The result is 0 if n is private.
        """
        if self.rows is None:
            return 0.0
        return coarse_noise(by, self.promise, self.relation(design), self.columns, self.rows)

    def carried(self, choice: Choice, other: str | None = None) -> Choice:
        """Return `choice` if the Newton steps of its estimator are predicted to converge; otherwise raise an error.

        Parameters
        ----------
        choice : Choice
            Estimator of the fit.
        other : str, optional
            Method that the error message suggests instead.

        Raises
        ------
        BudgetError
            If the steps of the estimator are predicted to diverge.
        """
        times = self.lacks(choice.estimator)
        if times > 1:
            cure = f"give {other}" if other else "leave terms out"
            budget = "sqrt(rho)" if isinstance(self.promise, ZeroCDP) else "budget"
            raise BudgetError(
                f"mech='{choice.mech}' starts from a matrix that would be noise at {self.rows:,} rows; {cure}, or "
                f"inference='sandwich', or make rows x {budget} {max(times, 1.1):.1f} times as large"
            )
        return choice


@dataclass(frozen=True, eq=False)
class Regression(Model):
    """Base class of the models for a regression of a response on predictors.

    Parameters
    ----------
    weights : str, optional
        Column or expression of sampling weights, with declared bounds.
    cov_type : str
        Assumption about the errors that the intervals require: "HC" and its variants (unequal variances), "nonrobust"
        (equal variances) or "cluster" (correlated errors within privacy units, such as persons).
    """

    weights: str | None = None
    cov_type: str = "HC"

    covariances: ClassVar[tuple[str, ...]] = (*ROBUST, "nonrobust", "cluster")
    with_delta: ClassVar[frozenset[str]] = SUBSAMPLED

    def check(self) -> None:
        one_of("cov_type", self.cov_type, self.covariances)

    @property
    def linked(self) -> Family | None:
        """Family of the response, with its link function; None for models without a link function."""
        return None

    def bind(self, rows: int | None) -> Design:
        design = bind_regression(
            self.formula,
            self.known,
            subset=self.subset,
            weights=self.weights,
            offset=getattr(self, "offset", None),
            family=self.linked,
            rows=rows,
            centred=True,
        )
        if rows is not None and rows <= len(design.names):
            raise FormulaError(
                f"{rows} rows are too few for {len(design.names)} coefficients; leave terms out, or give more rows"
            )
        for name, half in zip((*design.names, design.response), (*design.halves, design.response_half), strict=True):
            if not SMALLEST < half < LARGEST:
                raise DomainError(
                    f"the bounds of '{name}' are {half:.1g} apart, too {'near' if half < 1 else 'far'} for arithmetic; "
                    "give it in other units"
                )
        return design

    def fitted_design(self, design: Any, mech: str, options: Mapping[str, Any]) -> Any:
        """Return a design (map from rows to model columns) with an intercept for the same model.

        An intercept reduces the noise. For example, the design of ``y ~ 0 + C(g)`` is replaced by the design of
        ``y ~ C(g)``. The result is `design` itself if it has an intercept, if no combination of its columns is
        constant, if the method is not in `WITH_INTERCEPT`, or if one of the options `margins`, `theta_bound` and
        `split` is given.
        """
        own = OF_BOX & set(options) or options.get("margins")
        return design.with_intercept() if mech in WITH_INTERCEPT and not own else design

    def covariance(self, neighbors: Neighbors) -> str | None:
        if neighbors.rows_per_unit > 1 and self.cov_type in ROBUST:
            return "cluster"
        return self.cov_type

    @property
    def by_parts(self) -> str:
        return "mech='newton'"

    def least_rows(self, design: Any) -> int:
        return len(design.names) + 1

    def residual_unit(self, design: Any) -> float:
        return 1.0 if self.linked is not None else float(design.response_half)

    def in_units(self, estimate: Any, design: Any) -> Any:
        return estimate.mapped(*design.to_written(response=self.linked is None))

    @property
    def link_name(self) -> str | None:
        return None if self.linked is None else self.linked.link

    def _assumed(self, options: Mapping[str, Any], neighbors: Neighbors) -> dict[str, Any]:
        """Return the user's options, with the assumption `cov_type` about the errors added if it is "nonrobust".

        An error is raised for ``cov_type="cluster"`` without privacy units, and for ``cov_type="nonrobust"`` with
        several rows per privacy unit.
        """
        if self.cov_type == "cluster" and neighbors.unit is None:
            raise OptionError("cov_type='cluster' needs the column that names whose row it is; add unit='person_id'")
        if self.cov_type == "nonrobust" and neighbors.rows_per_unit > 1:
            raise OptionError("rows of one unit depend on each other; leave cov_type out, or write cov_type='cluster'")
        return {**options, **({"cov_type": "nonrobust"} if self.cov_type == "nonrobust" else {})}


@dataclass(frozen=True, eq=False)
class LinearModel(Regression):
    """Linear regression, such as ``y ~ x + C(g)``, by least squares or a robust loss.

    Parameters
    ----------
    loss : {"squares", "huber", "pseudo_huber", "logcosh"}
        Least squares, or the name of a robust loss.
    """

    loss: str = "squares"

    def check(self) -> None:
        super().check()
        one_of("loss", self.loss, LOSSES)

    @property
    def title(self) -> str:
        return "linear regression" if self.loss == "squares" else "robust linear regression"

    def estimator(
        self,
        mech: str,
        promise: Promise,
        options: Mapping[str, Any],
        design: Any,
        neighbors: Neighbors,
        rows: int | None,
        intervals: bool = True,
    ) -> Choice:
        given = self._assumed(options, neighbors)
        public = Carrying(promise, neighbors, len(design.names), rows, intervals)
        noise = given.pop("noise", None)
        if self.loss != "squares":
            refuse_descent(mech, promise, neighbors, rows, noise, self.weights)
            descending = descents(ROBUST_LOSSES[self.loss], rows)
            if self.loss != "huber" and mech == "auto":
                raise OptionError(
                    f"loss='{self.loss}' has mech={NAMED} alone, which are for comparison; name one, or write "
                    "loss='huber'"
                )
            if self.loss != "huber" or descends(mech):
                return chosen(mech, descending, ("ngd", descending["ngd"]), given, "")
            by, shown = noises_of(promise, noise, "newton", OF_VECTORS)
            loss: dict[str, Any] = {"noises": by, "loss": HuberLoss()}
            table = {"newton": Candidate(Adaptive, {**loss, "branches": ("steps",)}, shown), **descending}
            auto = "newton"
            if public.perturbs(design) and noise is None and not design.domain.scaled(design.reads):
                table["objpert"] = _perturbed_least_squares(by, design, public, ("perturbed",), loss=HuberLoss())
                auto = "newton" if public.is_ample(by, design) else "objpert"
            else:
                public.refuse_minimiser(mech, design, noise)
            because = "chosen by auto: the method of this loss"
            choice = chosen(mech, table, (auto, table[auto]), given, because)
            return public.carried(choice, "loss='squares' with mech='suffstats'")
        if descends(mech):
            raise OptionError(f"mech='{mech}' needs scores that are bounded; add loss='huber'")
        refuse_scales(design)
        return _least_squares(mech, given, noise, design, public)


def _least_squares(
    mech: str, options: Mapping[str, Any], noise: str | None, design: Design, public: Carrying
) -> Choice:
    """Return the least-squares estimator of the method `mech`; "auto" chooses a method from public information."""
    perturbs = public.perturbs(design) and noise is None
    if mech == "objpert" and perturbs and public.whitens(design, options):
        return _perturbed_least_squares(PURE, design, public, ("perturbed",)).choice(mech, options, "")
    if isinstance(mech, str) and mech in SAMPLED:
        return _sampled(mech, public.promise, options, noise, design)
    names = OF_VECTORS if mech == "newton" else tuple(NOISE)
    by, shown = noises_of(public.promise, noise, mech, names)
    other = "objective perturbation (objpert)" if perturbs else "steps (newton)"
    entries = Entries(PublicBox(design), by_level=True, counted=False)
    if noise is None and by is PURE and mech != "newton":
        if entries.coded:
            shown = entries.quietest({name: NOISE[name] for name in ("matrixt", "l1")})
        elif 0 < len(design.names) - bool(design.intercept) <= MOST_IN_HULL:
            shown = "hull"
        by = replace(PURE, matrix=NOISE[shown])
    normal = by is NORMAL
    both = {"suffstats": shown, "newton": "gaussian" if normal else noise if noise in OF_VECTORS else "l2"}
    table = {
        "suffstats": Candidate(SufficientStatistics, {"noises": by}, both["suffstats"]),
        "newton": Candidate(Adaptive, {"noises": by, "branches": ("steps",)}, both["newton"]),
    }
    table |= {name: Candidate(estimator, {"noises": by, "norm": "linf"}) for name, estimator in SAMPLED.items()}
    # The methods of noisy optimisation need bounded scores, which least squares does not have; the table contains these
    # methods only for error messages.
    table |= descents(HuberLoss(), public.rows)
    if noise is not None and noise not in (*OF_VECTORS, "gaussian"):
        because = "chosen by auto: the method that has this noise"
        return chosen(mech, table, ("suffstats", table["suffstats"]), options, because)
    if perturbs and mech == "auto" and public.minimises_squares(by, design):
        auto = _perturbed_least_squares(by, design, public, ("moments", "perturbed"), shown)
        least, most = (entries.predictors * one for one in PER_PREDICTOR)
        limit = min(max(NOISY, least), most) * entries.lighter(MOST_OF_MINIMISER)
        few = public.forecast_noise(by, design) > limit
    else:
        auto = Candidate(Adaptive, {"noises": by}, None, {name: str(text) for name, text in both.items()}, BRANCHES)
        few = not (public.outdoes_moments(by, design, entries.lighter(MOST_OF_STEPS)) and public.carries(Adaptive(by)))
    if few and (not public.intervals or set(options) <= own_options(table["suffstats"])):
        because = f"chosen by auto: {other} would have more noise with these rows and this budget"
        choice = chosen(mech, table, ("suffstats", table["suffstats"]), options, because)
    else:
        choice = chosen(mech, table, (" or ".join(auto.noises), auto), options, "")
    return public.carried(choice, "mech='suffstats'")


def _perturbed_least_squares(
    by: Noises, design: Design, public: Carrying, branches: tuple[str, ...], of_moments: str = "", **loss: Any
) -> Candidate:
    """Return a regression estimator that uses objective perturbation, for least squares or for the robust loss `loss`.

    If `branches` has "moments", the estimator chooses between objective perturbation and the solution of the normal
    equations from released second moments. `branches` has the estimator's internal names of these methods, `by` has the
    noise mechanisms, and `of_moments` names the distribution of the noise in the moments. The budget share of the first
    release of second moments is computed from the public information `public`.
    """
    coarse = None if public.rows is None else coarse_share(public.forecast_noise(by, design))
    fixed = {"noises": by, "branches": branches, "coarse": coarse, **loss}
    if len(branches) == 1:
        return Candidate(Adaptive, fixed, "l2")
    return Candidate(Adaptive, fixed, None, {"suffstats": of_moments, "objpert": "l2"}, BRANCHES)


def _sampled(mech: str, promise: Promise, options: Mapping[str, Any], noise: str | None, design: Design) -> Choice:
    """Return a least-squares estimator whose mechanism releases the whole vector of coefficients at once.

    The mechanism is the K-norm gradient mechanism ("kng"), objective perturbation ("objpert") or the exponential
    mechanism ("expmech"). For "kng" and "objpert", `noise` names the norm in which the change of the score due to one
    row is bounded; the default is "linf".
    """
    if noise is not None and mech == "expmech":
        raise OptionError("mech='expmech' has no choice of noise; leave noise out")
    if noise is not None:
        one_of("noise", noise, OF_VECTORS)
    by, _ = noises_of(promise, None, mech, ())
    if mech != "objpert":
        if len(design.names) > MOST_SAMPLED:
            raise OptionError(
                f"mech='{mech}' takes at most {MOST_SAMPLED} coefficients and the formula has {len(design.names)}; "
                "give mech='suffstats'"
            )
        bound = options.get("theta_bound")
        if bound is not None and is_number(bound) and bound > WIDEST_SAMPLED:
            raise OptionError(f"theta_bound is {bound:g}; mech='{mech}' takes at most {WIDEST_SAMPLED:g}")
    entry = Candidate(
        SAMPLED[mech], {"noises": by, "norm": noise or "linf"}, None if mech == "expmech" else noise or "linf"
    )
    return entry.choice(mech, options, "")


@dataclass(frozen=True, eq=False)
class GeneralizedLinearModel(Regression):
    """Generalized linear model of a response, such as ``y ~ x + C(g)`` with a family and a link function.

    Parameters
    ----------
    family : str or family of statsmodels
        Distribution of the response.
    link : str, optional
        Name of the link function; by default the family's link.
    offset : str, optional
        Expression that is added to the linear predictor.
    """

    family: Any = "binomial"
    link: str | None = None
    offset: str | None = None

    def check(self) -> None:
        super().check()
        if self.link is not None and not isinstance(self.link, str):
            raise OptionError(f"link is {quote(self.link)}; write its name, such as link='logit'")
        if self.linked is None and self.offset is not None:
            raise OptionError("offset belongs to families with a link; subtract it from the response")

    @property
    def linked(self) -> Family | None:
        return family_of(self.family, self.link)

    @property
    def family_name(self) -> str | None:
        return "gaussian" if self.linked is None else self.linked.name

    @property
    def title(self) -> str:
        family = self.linked
        if family is None:
            return "linear regression"
        name = "Poisson" if family.name == "poisson" else family.name
        return "logistic regression" if family.link == "logit" else f"{name} regression, {family.link} link"

    def estimator(
        self,
        mech: str,
        promise: Promise,
        options: Mapping[str, Any],
        design: Any,
        neighbors: Neighbors,
        rows: int | None,
        intervals: bool = True,
    ) -> Choice:
        given, family = self._assumed(options, neighbors), self.linked
        public = Carrying(promise, neighbors, len(design.names), rows, intervals)
        noise = given.pop("noise", None)
        if family is None and descends(mech):
            raise OptionError(f"mech='{mech}' needs scores that are bounded; write dp_lm(..., loss='huber')")
        if not descends(mech):
            refuse_scales(design)
        if family is None:
            return _least_squares(mech, given, noise, design, public)
        if not intervals:
            given.pop("cov_type", None)
        logit = family.link == "logit"
        descending = descents(Likelihood(family), rows) if logit else {}
        if logit and descends(mech):
            refuse_descent(mech, promise, neighbors, rows, noise, self.weights)
            return chosen(mech, descending, ("ngd", descending["ngd"]), given, "")
        by, shown = noises_of(promise, noise, "newton", OF_VECTORS)
        own = {"noises": by, "loss": Likelihood(family)}
        table = {"newton": Candidate(LikelihoodSteps, own, shown)}
        if logit:
            table |= descending
            taken = mech == "objpert" or (mech == "auto" and not promise.normal)
            hessian = hessian_share(public.forecast_noise(by, design))
            own_noise = noise if taken or not intervals else None
            table["objpert"] = _perturbed(given, own_noise, {**own, "hessian": hessian}, intervals)
        perturbs = isinstance(family, LogLink) and noise is None and public.perturbs(design)
        if perturbs:
            table["objpert"] = Candidate(PerturbedLogLink, own, "l2")
        elif isinstance(family, LogLink):
            public.refuse_minimiser(mech, design, noise)
        auto, because = "newton", "the method for this family under this budget"
        if logit and not (promise.normal and public.carries(LikelihoodSteps(by))):
            auto, because = "objpert", "shortest expected intervals for this family under this budget"
            because = because if intervals else "the whole budget for one question"
        elif perturbs and not public.is_ample(by, design, AMPLE_FOR_COUNTS):
            auto, because = "objpert", "shortest expected intervals for this family under this budget"
        choice = chosen(mech, table, (auto, table[auto]), given, f"chosen by auto: {because}")
        return public.carried(choice, "mech='objpert'" if "objpert" in table else None)


def _perturbed(given: Mapping[str, Any], noise: str | None, own: Mapping[str, Any], intervals: bool) -> Candidate:
    """Return an estimator that uses objective perturbation, on whitened rows or on columns scaled by their bounds.

    `given` has the user's options, and `own` the options that the model sets. The estimator on whitened rows gives
    intervals. The estimator on scaled columns gives no intervals; it is returned if no intervals are requested, or if
    the user gives a penalty or a bound on the coefficients.
    """
    if not intervals or {"ridge", "theta_bound"} & set(given):
        norm = "linf" if noise in (None, "gaussian") else noise
        return Candidate(PlainPerturbedLikelihood, {"loss": own["loss"], "norm": norm}, norm)
    if noise in ("linf", "l1"):
        raise OptionError(
            f"noise='{noise}' belongs to mech='objpert' without intervals; add inference='none', or leave noise out"
        )
    return Candidate(PerturbedLikelihood, own, "l2")


def noises_of(promise: Promise, noise: Any, mech: str, names: Sequence[str]) -> tuple[Noises, str]:
    """Return the noise mechanisms for a budget and the user's choice of noise, and the name of the noise distribution.

    Parameters
    ----------
    promise : Promise
        Privacy guarantee: the budget of the whole fit.
    noise : str, optional
        Name of the noise distribution, if the user chose one.
    mech : str
        Name of the method.
    names : sequence of str
        Names of the noise distributions that the method has, other than the normal distribution.

    Raises
    ------
    OptionError, BudgetError
        If the method has no noise distribution of this name, or the distribution cannot give the privacy guarantee.
    """
    normal = promise.normal
    if noise is None:
        return (NORMAL, "gaussian") if normal else (PURE, "matrixt" if "matrixt" in names else "l2")
    if noise == "gaussian":
        promise.as_normal()
        return NORMAL, "gaussian"
    one_of("noise", noise, ("gaussian", *names))
    by = replace(PURE, matrix=NOISE[noise])
    return (replace(by, vector=NOISE[noise]) if noise in OF_VECTORS else by), str(noise)


def refuse_scales(design: Any) -> None:
    """Raise an error if a column of the design is declared by a centre and a scale in place of bounds.

    This function is called for methods that need bounds of all columns.
    """
    scaled = design.domain.scaled(design.reads)
    if scaled:
        raise DomainError(
            f"'{scaled[0]}' is declared by its scale and this method needs its bounds; write "
            f"domain={{'{scaled[0]}': (low, high)}}, or use dp_lm(..., loss='huber')"
        )
