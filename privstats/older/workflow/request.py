"""A request: what a verb was asked for, apart from the data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeGuard

import numpy as np

from privstats.errors import BudgetError, PrivacyError, quote
from privstats.older.estimators import ESTIMATORS
from privstats.older.formula.domain import Domain
from privstats.older.losses.families import Family, family_of
from privstats.older.privacy.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP
from privstats.older.privacy.neighbors import Neighbors

INFERENCE = ("sandwich", "none")
COVARIANCES = ("nonrobust", "HC")
TIGHT = 1.5  # a bound of the coefficients up to which objective perturbation beats noisy moments

WIDEST = 1e6  # bound of the coefficients that any mechanism takes

# What mech="auto" means, from public facts only; the first row that fits (`benchmarks/choice.py` shows why):
# (verb, currency, whether only coefficients are wanted and a tight bound of them is declared) -> (algorithm, noise);
# eps and delta is as mu, where it has no row of its own.
AUTO = (
    (("lm", "eps", True), ("objpert", "linf")),
    (("lm", "eps", False), ("suffstats", "matrixt")),
    (("lm", "mu", True), ("newton", "gaussian")),
    (("lm", "mu", False), ("newton", "gaussian")),
    (("huber", "eps", False), ("newton", "gaussian")),
    (("huber", "mu", False), ("newton", "gaussian")),
    (("glm", "eps", False), ("objpert", "linf")),
    (("glm", "mu", False), ("newton", "gaussian")),
    (("rq", "eps", False), ("kng", "hull")),
    (("rq", "mu", False), ("newton", "gaussian")),
    (("rq", "delta", False), ("kng", "hull")),  # what a small delta buys in mu is less than what pure noise needs
    (("median", "eps", False), ("rank", "rank")),
    (("median", "mu", False), ("rank", "rank")),
    (("quantile", "eps", False), ("rank", "rank")),
    (("quantile", "mu", False), ("rank", "rank")),
    (("mode", "eps", False), ("permute_and_flip", "permute_and_flip")),
    (("mode", "mu", False), ("permute_and_flip", "permute_and_flip")),
    (("mean", "eps", False), ("laplace", "l1")),
    (("mean", "mu", False), ("gaussian", "gaussian")),
    (("hist", "eps", False), ("laplace", "l1")),
    (("hist", "mu", False), ("gaussian", "gaussian")),
)


@dataclass(frozen=True)
class Request:
    """What a verb was asked for, apart from the data: all of it public."""

    verb: str
    formula: str
    eps: float | None = None
    mu: float | None = None
    delta: float = 0.0
    domain: Domain | Mapping[str, Any] | None = None
    mech: str = "auto"
    noise: str | None = None
    neighbors: str = "replace"
    inference: str = "sandwich"
    shares: Mapping[str, float] | None = None
    unit: str | None = None
    rows_per_unit: int = 1
    subset: str | None = None
    weights: str | None = None
    bounds_share: float = 0.1
    theta_bound: float | None = None
    split: float | None = None
    ridge: float | str | None = None
    cov_type: str | None = None
    q: float | Sequence[float] = 0.5
    confidence: float = 0.95
    grid: float | Mapping[str, float] | None = None
    bins: int | Sequence[float] | None = None
    density: bool = False
    geometric: bool = False
    eta: float | None = None
    loss: str = "squares"
    family: Any = "gaussian"
    link: str | None = None
    offset: str | None = None
    margins: bool = False

    @property
    def linked(self) -> Family | None:
        """The family of a generalised linear model; None if there is no link."""
        return family_of(self.family, self.link) if self.verb == "glm" else None

    @property
    def model(self) -> str:
        """What is fitted, as the registry of algorithms has it: the verb, or what an option makes of it."""
        choose("loss", self.loss, ["squares", "huber"])
        if self.verb == "glm" and self.linked is None:
            return "lm"
        return "huber" if self.loss == "huber" else self.verb

    @property
    def promise(self) -> Guarantee:
        """The guarantee asked for."""
        neighbors = Neighbors(self.neighbors, self.unit, self.rows_per_unit)
        if (self.eps is None) == (self.mu is None):
            raise BudgetError("give exactly one of eps and mu (delta= goes with eps)")
        if self.mu is not None and self.delta != 0:
            raise BudgetError("delta= goes with eps; mu= needs none")
        promise: Guarantee
        if self.mu is not None:
            promise = GaussianDP(self.mu, neighbors)
        elif self.delta == 0 and not isinstance(self.delta, bool):
            promise = PureDP(self.eps, neighbors)  # type: ignore[arg-type]
        else:
            promise = ApproxDP(self.eps, self.delta, neighbors)  # type: ignore[arg-type]
        if not promise.admits(()) or promise == promise.spent(()):
            raise BudgetError(f"a promise of {promise.budget} cannot pay for anything: eps and mu must be positive")
        return promise

    @property
    def algorithm(self) -> tuple[str, str]:
        """The names of estimator and noise, "auto" resolved."""
        choose("mech", self.mech, ["auto", *(name for verb, name in ESTIMATORS if verb == self.model)])
        self._check_options()
        currency = "mu" if self.mu is not None or self.delta else "eps"
        bounded = self.theta_bound is not None and self.theta_bound <= TIGHT
        bare = self.inference == "none" and bounded and self.ridge is None
        auto, own = dict(AUTO), (self.model, "delta", False)
        by_auto, usual = auto[
            own if self.delta and own in auto else (self.model, currency, bare and self.model == "lm")
        ]
        if self.geometric:
            by_auto, usual = "kng", "kng"
        mech = by_auto if self.mech == "auto" else self.mech
        known = ESTIMATORS[self.model, mech].noises
        if mech != by_auto:
            normal = currency == "mu" and "gaussian" in known and ESTIMATORS[self.model, mech].normal
            usual = "gaussian" if normal else known[0]
        noise = usual if self.noise is None else self.noise
        choose(f"mech={quote(mech)}: noise", noise, list(known))
        return mech, noise

    @property
    def orders(self) -> tuple[float, ...]:
        """The quantiles that are wanted, ascending."""
        if self.verb == "median":
            return (0.5,)
        several = tuple(np.atleast_1d(np.asarray(self.q, dtype=object))) if isinstance(self.q, Iterable) else (self.q,)
        legal = all(is_number(one) and 0 < one < 1 for one in several)
        if isinstance(self.q, str) or not several or not legal or len(set(several)) < len(several):
            name = "tau" if self.verb == "rq" else "q"
            raise PrivacyError(f"{name} must be a number between 0 and 1, or a list of different ones")
        return tuple(sorted(float(one) for one in several))

    @property
    def covariance(self) -> str:
        """What intervals assume of the errors: what was asked for, or what the algorithm can do at little cost."""
        return self.cov_type or ESTIMATORS[self.model, self.algorithm[0]].cov_type

    def _check_options(self) -> None:
        """Refuse options out of range, and those that the algorithm asked for does not have."""
        widest = min(
            (entry.widest for (verb, name), entry in ESTIMATORS.items() if verb == self.model and name == self.mech),
            default=WIDEST,
        )
        if self.theta_bound is not None and not (is_number(self.theta_bound) and 0 < self.theta_bound <= widest):
            raise PrivacyError(
                f"theta_bound must be a positive number, at most {widest:g}: |theta|_1 in response half-ranges per "
                "scaled column"
            )
        if self.split is not None and not (is_number(self.split) and 0 < self.split < 1):
            raise PrivacyError("split must lie between 0 and 1: the share of the linear term")
        if (
            self.ridge is not None
            and self.ridge != "adaptive"
            and not (is_number(self.ridge) and 0 <= self.ridge < math.inf)
        ):
            raise PrivacyError("ridge must be 'adaptive' or a number that is not negative")
        if self.cov_type is not None:
            choose("cov_type", self.cov_type, list(COVARIANCES))
        if self.offset is not None and self.linked is None:
            raise PrivacyError("offset belongs to families with a link; subtract it from the response")
        if self.cov_type is not None and self.inference == "none":
            raise PrivacyError("cov_type is about intervals, and inference='none' wants none")
        if not (is_number(self.confidence) and 0.5 <= self.confidence <= 0.999):
            raise PrivacyError("confidence must lie between .5 and .999: that of the intervals that are bought")
        if not (isinstance(self.geometric, bool) and isinstance(self.density, bool)):
            raise PrivacyError("geometric and density are True or False")
        if not isinstance(self.margins, bool) or (self.margins and self.linked is None):
            raise PrivacyError("margins is True or False, and belongs to families with a link")
        if self.geometric and self.mech not in ("auto", "kng"):
            raise PrivacyError("the geometric median is chosen by mech='kng'")
        if self.eta is not None and not (self.mech == "ptr" and is_number(self.eta) and 0 < self.eta < math.inf):
            raise PrivacyError("eta is a positive number that belongs to mech='ptr'")
        if self.mech == "auto" and self.split is not None:
            raise PrivacyError("split belongs to mech='objpert': name it")
        for option in ("theta_bound", "split", "ridge"):
            having = [
                name for (verb, name), entry in ESTIMATORS.items() if verb == self.model if option in entry.options
            ]
            if getattr(self, option) is not None and self.mech not in ("auto", *having):
                raise PrivacyError(f"mech={quote(self.mech)} has no {option}; these have: {', '.join(having)}")


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a number, and no truth value."""
    return isinstance(value, Real) and not isinstance(value, bool)


def choose(what: str, name: Any, known: list[str]) -> None:
    """Refuse a name that is not among the known ones, which are named."""
    if name not in known:
        raise PrivacyError(f"{what}={quote(name)} is not one of {', '.join(map(repr, known))}")
