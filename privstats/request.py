"""A request: what a verb was asked for, apart from the data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from privstats.errors import BudgetError, PrivacyError, quote
from privstats.estimators import ESTIMATORS
from privstats.gate.domain import Domain
from privstats.privacy.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP
from privstats.privacy.neighbors import Neighbors

INFERENCE = ("sandwich", "none")
COVARIANCES = ("nonrobust", "HC")
TIGHT = 1.5  # a bound of the coefficients up to which objective perturbation beats noisy moments

# What mech="auto" means, from public facts only; the first row that fits (`benchmarks/choice.py` shows why):
# (verb, currency, whether only coefficients are wanted and a tight bound of them is declared) -> (algorithm, noise).
AUTO = (
    (("lm", "eps", True), ("objpert", "linf")),
    (("lm", "eps", False), ("suffstats", "matrixt")),
    (("lm", "mu", True), ("newton", "gaussian")),
    (("lm", "mu", False), ("newton", "gaussian")),
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
        choose("mech", self.mech, ["auto", *(name for verb, name in ESTIMATORS if verb == self.verb)])
        self._check_options()
        currency = "eps" if self.mu is None and self.delta == 0 else "mu"
        bounded = self.theta_bound is not None and self.theta_bound <= TIGHT
        bare = self.inference == "none" and bounded and self.ridge is None
        by_auto, usual = dict(AUTO)[self.verb, currency, bare]
        mech = by_auto if self.mech == "auto" else self.mech
        known = ESTIMATORS[self.verb, mech].noises
        if mech != by_auto:
            usual = "gaussian" if currency == "mu" and "gaussian" in known else known[0]
        noise = usual if self.noise is None else self.noise
        choose(f"mech={quote(mech)}: noise", noise, list(known))
        return mech, noise

    @property
    def covariance(self) -> str:
        """What intervals assume of the errors: what was asked for, or what the algorithm can do at little cost."""
        return self.cov_type or ESTIMATORS[self.verb, self.algorithm[0]].cov_type

    def _check_options(self) -> None:
        """Refuse options out of range, and those that the algorithm asked for does not have."""
        widest = ESTIMATORS[self.verb, "objpert" if self.mech == "auto" else self.mech].widest
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
        if self.cov_type is not None and self.inference == "none":
            raise PrivacyError("cov_type is about intervals, and inference='none' wants none")
        if self.mech == "auto" and self.split is not None:
            raise PrivacyError("split belongs to mech='objpert': name it")
        for option in ("theta_bound", "split", "ridge"):
            having = [
                name for (verb, name), entry in ESTIMATORS.items() if verb == self.verb if option in entry.options
            ]
            if getattr(self, option) is not None and self.mech not in ("auto", *having):
                raise PrivacyError(f"mech={quote(self.mech)} has no {option}; these have: {', '.join(having)}")


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a number, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def choose(what: str, name: Any, known: list[str]) -> None:
    """Refuse a name that is not among the known ones, which are named."""
    if name not in known:
        raise PrivacyError(f"{what}={quote(name)} is not one of {', '.join(map(repr, known))}")
