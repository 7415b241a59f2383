"""A request: what a verb was asked for, apart from the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from privstats.errors import BudgetError, PrivacyError, quote
from privstats.estimators import ESTIMATORS
from privstats.gate.domain import Domain
from privstats.mechanisms import ADDITIVE
from privstats.privacy.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP
from privstats.privacy.neighbors import Neighbors

# What mech="auto" means, from public facts only: (verb, currency) -> (algorithm, noise).
AUTO = {
    ("lm", "eps"): ("suffstats", "linf"),
    ("lm", "mu"): ("suffstats", "gaussian"),
}
INFERENCE = ("sandwich", "none")


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
        currency = "eps" if self.mu is None and self.delta == 0 else "mu"
        mech, noise = AUTO[self.verb, currency]
        mech = mech if self.mech == "auto" else self.mech
        noise = noise if self.noise is None else self.noise
        mechs = [name for verb, name in ESTIMATORS if verb == self.verb]
        choose("mech", mech, ["auto", *mechs])
        choose("noise", noise, list(ADDITIVE))
        return mech, noise


def choose(what: str, name: Any, known: list[str]) -> None:
    """Refuse a name that is not among the known ones, which are named."""
    if name not in known:
        raise PrivacyError(f"{what}={quote(name)} is not one of {', '.join(map(repr, known))}")
