"""What a fit will ask and spend: decided from the request and public facts, before any row is read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tabulate import tabulate

from privstats.errors import BudgetError, FormulaError, PrivacyError, quote
from privstats.estimators import ESTIMATORS
from privstats.estimators.base import Facts
from privstats.gate.design import Design, bind
from privstats.gate.domain import Domain, as_domain
from privstats.gate.gate import Turn
from privstats.gate.rehearsal import Rehearsal
from privstats.mechanisms import MECHANISMS, Mechanism
from privstats.mechanisms.random import public_stream
from privstats.privacy.calibrate import calibrate
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
        _choose("mech", mech, ["auto", *mechs])
        _choose("noise", noise, list(MECHANISMS))
        return mech, noise


@dataclass(frozen=True)
class Plan:
    """What a fit would ask, of which mechanism and at what share: known before any row is read.

    Parameters
    ----------
    formula : str
    n : int, optional
        The public number of rows, if it is public.
    mech, noise : str
        Algorithm and noise law.
    promise : Guarantee
        What it costs in all.
    turns : tuple of Turn
        The questions, in order.
    mechanisms : tuple of Mechanism
        Who answers them, calibrated.
    design : Design
        The data-free map from rows to columns.
    """

    formula: str
    n: int | None
    mech: str
    noise: str
    promise: Guarantee
    turns: tuple[Turn, ...]
    mechanisms: tuple[Mechanism, ...]
    facts: Facts = field(repr=False)
    design: Design = field(repr=False)

    @property
    def digest(self) -> str:
        """Fingerprint of all that was decided: names the random stream of a seeded run."""
        decided = (
            self.formula,
            *(text for text in self.design.written if text is not None),
            self.design.domain.to_json(),
            self.n,
            self.mech,
            self.promise,
            self.turns,
            self.mechanisms,
        )
        return hashlib.sha256(repr(decided).encode()).hexdigest()

    def __str__(self) -> str:
        whole = sum(turn.share for turn in self.turns)
        rows = [
            (
                turn.name,
                turn.kind,
                turn.mechanism,
                f"{turn.share / whole:.1%}",
                self.promise.spent([mechanism.event]).budget,
            )
            for turn, mechanism in zip(self.turns, self.mechanisms, strict=True)
        ]
        table = tabulate(rows, ("question", "kind", "mechanism", "share", "cost"), disable_numparse=True)
        head = [
            ("Formula", self.formula),
            ("Rows", "private" if self.n is None else str(self.n)),
            ("Coefficients", ", ".join(self.design.names)),
            ("Algorithm", f"{self.mech}, noise {self.noise}"),
            ("Promise", str(self.promise)),
        ]
        return f"{tabulate(head, tablefmt='plain', disable_numparse=True)}\n\n{table}"

    __repr__ = __str__


def make_plan(request: Request, n: int) -> Plan:
    """Rehearse a request on synthetic rows and price what it asks. Looks at no data."""
    promise = request.promise
    mech, noise = request.algorithm
    _choose("inference", request.inference, list(INFERENCE))
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise PrivacyError("n must be a whole number of rows")
    design = bind(request.formula, as_domain(request.domain), request.subset, request.weights)
    public_n = n if promise.neighbors.n_is_public else None
    if public_n is not None and public_n <= len(design.names):
        raise FormulaError(f"{public_n} rows are too few for {len(design.names)} coefficients")
    facts = Facts(
        n=public_n,
        columns=len(design.names) - design.intercept,
        intercept=design.intercept,
        complete=design.complete,
        neighbors=promise.neighbors,
        weighted=request.weights is not None,
        inference=request.inference == "sandwich",
    )
    unit_price = {name: partial(mechanism.at, factor=1.0) for name, mechanism in MECHANISMS.items()}
    rehearsal = Rehearsal(design, promise.neighbors, unit_price, public_stream)
    ESTIMATORS[request.verb, mech](rehearsal.ask, facts, noise)
    turns = _with_shares(rehearsal.turns, request.shares)
    mechanisms = _calibrated(turns, promise)
    return Plan(request.formula, public_n, mech, noise, promise, turns, mechanisms, facts, design)


def _choose(what: str, name: Any, known: list[str]) -> None:
    if name not in known:
        raise PrivacyError(f"{what}={quote(name)} is not one of {', '.join(map(repr, known))}")


def _with_shares(turns: tuple[Turn, ...], shares: Mapping[str, float] | None) -> tuple[Turn, ...]:
    """Return the turns with the user's shares in place of their own."""
    known = {turn.name for turn in turns}
    for name, share in (shares or {}).items():
        _choose("a share's question", name, sorted(known))
        if not isinstance(share, int | float) or not 0 < share < float("inf"):
            raise BudgetError(f"the share of '{name}' must be a positive number")
    chosen = dict(shares or {})
    return tuple(Turn(t.name, t.kind, t.mechanism, float(chosen.get(t.name, t.share))) for t in turns)


def _calibrated(turns: tuple[Turn, ...], promise: Guarantee) -> tuple[Mechanism, ...]:
    """Scale all mechanisms by one factor until their price meets the promise."""

    def at(factor: float) -> tuple[Mechanism, ...]:
        return tuple(MECHANISMS[turn.mechanism].at(turn.share, factor) for turn in turns)

    return at(calibrate(lambda factor: [mechanism.event for mechanism in at(factor)], promise))
