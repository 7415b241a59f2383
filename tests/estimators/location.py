"""Fits of an estimator to columns, without the public functions.

The fit is planned by rehearsals on synthetic rows. The gate, which reads the data, then answers its queries.
"""

from privstats.estimators.base import PublicFacts
from privstats.formula.columns import bind_columns
from privstats.gate.gate import Gate, Planned
from privstats.gate.rehearsal import Rehearsal
from privstats.gate.rows import BlockRows
from privstats.gate.sources import source_of
from privstats.mechanisms.random import streams
from privstats.privacy.promise import Neighbors, promise_of
from privstats.workflow.division import divided


def public_facts(formula, domain, n, neighbors, components=(None,), intervals=True, units=None, **selection):
    design = bind_columns(formula, domain, components=components, **selection)
    offered = n if neighbors.exchange and neighbors.unit is None else None
    used = offered if design.complete else None
    return PublicFacts(offered, used, units, neighbors.unit is not None, intervals, design, n)


def planned_for(estimator, public, neighbors, promise, shares=None):
    """Return the planned queries of an estimator; rehearsals with few and with many rows must ask the same queries."""
    planned, before = (), None
    for turn in range(2):
        talk = Rehearsal(
            public.design, neighbors, promise, streams(turn, "rehearsal"), planned=planned, few=turn % 2 == 0,
            assumed=public.assumed,
        )  # fmt: skip
        estimator(talk, public)
        division = divided(talk.asked, promise, estimator.shares, shares)
        planned = tuple(
            Planned(a.label, a.name, a.kind, a.mechanism, a.branch, division.promises[a.label], a.optional)
            for a in talk.asked
        )
        assert before is None or before == [(a.label, a.mechanism) for a in talk.asked]
        before = [(a.label, a.mechanism) for a in talk.asked]
    return planned


class Fit:
    """An estimator with its plan, called with a data frame or with a function that yields data frames."""

    def __init__(self, estimator, formula, domain, n, promise, neighbors=None, shares=None, **facts):
        self.neighbors = neighbors or Neighbors()
        self.estimator = estimator
        self.public = public_facts(formula, domain, n, self.neighbors, **facts)
        self.planned = planned_for(estimator, self.public, self.neighbors, promise, shares)

    def __call__(self, frame, seed=1):
        rows = BlockRows(source_of(frame), self.public.design, self.neighbors, b"key")
        gate = Gate(rows, self.planned, streams(seed, "test"))
        return self.estimator(gate, self.public), gate.releases


def fit(estimator, formula, data, domain, eps=None, *, mu=None, delta=0.0, seed=1, neighbors=None, **facts):
    """Return the estimate and the releases of one fit."""
    promise = promise_of(eps, mu, None, delta, neighbors or Neighbors())
    planned = Fit(estimator, formula, domain, len(data), promise, neighbors, **facts)
    return planned(data, seed)
