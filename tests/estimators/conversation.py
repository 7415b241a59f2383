"""Fits of an estimator to a formula and rows, without the public functions.

The fit is planned by rehearsals on synthetic rows. The gate, which reads the data, then answers its queries.
"""

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from privstats.estimators.adaptive import Adaptive
from privstats.estimators.base import NORMAL, PURE, PublicFacts
from privstats.estimators.sufficient_statistics import SufficientStatistics
from privstats.formula.design import bind_regression
from privstats.gate.gate import Gate, Planned
from privstats.gate.rows import BlockRows
from privstats.gate.sources import source_of
from privstats.mechanisms.random import streams
from privstats.privacy.promise import GaussianDP, Neighbors, PureDP
from privstats.workflow.division import divided
from privstats.workflow.plan import rehearsed

ROUNDS = 6


@dataclass(frozen=True, eq=False)
class Fit:
    """An estimator with its plan, called with a data frame and a seed; calls with the same seed have the same noise."""

    estimator: Any
    public: PublicFacts
    neighbors: Neighbors
    planned: tuple[Planned, ...]

    def __call__(self, frame, seed):
        rows = BlockRows(source_of(frame), self.public.design, self.neighbors, b"key")
        gate = Gate(rows, self.planned, streams(seed, "test"))
        return self.estimator(gate, self.public), gate


def fit_of(
    formula, domain, n, *, eps=None, mu=None, by=None, neighbors=None, shares=None, units=None, intervals=True, **which
):
    """Return the planned fit of the estimator `by`, a class or an instance (default: adaptive least squares)."""
    noises = PURE if mu is None else NORMAL
    estimator = (by or Adaptive)(noises) if isinstance(by, type) or by is None else by
    neighbors = neighbors or Neighbors()
    promise = PureDP(eps) if mu is None else GaussianDP(mu)
    design = bind_regression(formula, domain, **which)
    offered = n if neighbors.exchange and neighbors.unit is None else None
    used = offered if design.complete else None
    public = PublicFacts(offered, used, units, neighbors.unit is not None, intervals, design, n)
    spec = SimpleNamespace(neighbors=neighbors, converse=lambda ask, public, estimator: estimator(ask, public))
    planned, before = (), ()
    for turn in range(ROUNDS):
        asked, _ = rehearsed(spec, estimator, public, planned, promise, turn, before)
        division = divided(asked, promise, estimator.shares, shares)
        planned = tuple(
            Planned(
                a.label, a.name, a.kind, a.mechanism, a.branch, division.promises[a.label], a.optional,
                tuple(division.fractions[a.label] / division.fractions[host] for host in a.optional),
            )
            for a in asked
        )  # fmt: skip
        if asked == before:
            return Fit(estimator, public, neighbors, planned)
        before = asked
    raise AssertionError("the rehearsals do not agree")


__all__ = ["Adaptive", "SufficientStatistics", "fit_of", "replace"]
