"""What a fit will ask and spend: decided from the request and public facts, before any row is read."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pandas as pd

from privstats.errors import DomainError, FormulaError, PrivacyError
from privstats.mechanisms.random import public_stream
from privstats.older.estimators import ESTIMATORS
from privstats.older.estimators.base import Facts
from privstats.older.formula.columns import Columns
from privstats.older.formula.design import Design
from privstats.older.formula.terms import lacking
from privstats.older.gate.gate import Turn
from privstats.older.gate.rehearsal import Rehearsal
from privstats.older.mechanisms import MECHANISMS, Mechanism
from privstats.older.privacy.events import Event
from privstats.older.privacy.guarantee import Guarantee
from privstats.older.privacy.ledger import Ledger
from privstats.older.privacy.together import Angle, Cell, joined
from privstats.older.results.results import Results
from privstats.older.workflow import ranges
from privstats.older.workflow.binding import REGRESSIONS, bound_to, domain_of, facts_of, shown
from privstats.older.workflow.forecast import Forecast, assumed_rows, smallest
from privstats.older.workflow.outlook import describe
from privstats.older.workflow.pricing import calibrated, events, sharing, with_shares
from privstats.older.workflow.request import INFERENCE, Request, choose

SMALLEST, LARGEST = 1e-60, 1e60  # half the range of a column
_ENDINGS = re.compile(r"(,? (group |order )?\d[\d.e-]*)+$")  # numbers of steps, groups and orders: one line of a budget


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
        The data-free map from rows to columns; with made-up bounds for `buys`.
    buys : tuple of str
        Factors without declared bounds, whose ranges the first questions buy.
    """

    formula: str
    n: int | None
    mech: str
    noise: str
    promise: Guarantee
    turns: tuple[Turn, ...]
    mechanisms: tuple[Mechanism, ...]
    facts: Facts = field(repr=False)
    design: Design | Columns = field(repr=False)
    request: Request = field(repr=False)
    rows: int | None = field(repr=False)
    buys: tuple[str, ...] = ()

    @property
    def events(self) -> tuple[Event, ...]:
        """What is charged."""
        return events(self.turns, self.mechanisms, self.promise)

    @property
    def paid(self) -> dict[str, tuple[Event, ...]]:
        """What each question costs by itself; steps of one kind, and groups, are one question."""
        asked: dict[str, list[tuple[Event, Angle | Cell | None]]] = {}
        for turn, mechanism in zip(self.turns, self.mechanisms, strict=True):
            about = turn.angle if isinstance(turn.angle, Cell) else None
            asked.setdefault(_ENDINGS.sub("", turn.name), []).append((mechanism.event, about))
        return {name: joined(events, self.promise.neighbors) for name, events in asked.items()}

    @property
    def digest(self) -> str:
        """Fingerprint of all that was decided: names the random stream of a seeded run."""
        decided = (
            self.formula,
            *(text for text in self.design.written[:2] if text is not None),
            self.design.domain.to_json(),
            self.n,
            self.mech,
            self.promise,
            self.turns,
            self.mechanisms,
            self.facts,
            *(() if self.facts.family is None else (self.facts.family,)),
            *(("offset", text) for text in self.design.written[2:] if text is not None),
            *(() if self._noise_is_shown else (self.noise,)),
        )
        return hashlib.sha256(repr(decided).encode()).hexdigest()

    @property
    def _noise_is_shown(self) -> bool:
        """Whether questions and algorithm show which noise is meant: of one that compares scores, the usual norm."""
        scored = any(MECHANISMS[turn.mechanism].norm == "score" for turn in self.turns)
        return not scored or self.noise == ESTIMATORS[self.request.model, self.mech].noises[0]

    def expected(self, like: pd.DataFrame | None = None, residual: float | None = None) -> pd.DataFrame:
        """Return the standard errors and interval widths to expect, privacy noise included.

        Parameters
        ----------
        like : DataFrame, optional
            Synthetic or public rows to stand for the data; by default predictors are uniform on the domain.
        residual : float, optional
            Residual standard deviation in the response's units, with weights that of a row of weight 1; by default
            that of `like`, or an eighth of the response's range.

        Returns
        -------
        DataFrame
            One row a coefficient: std_error, width (of the 95 % interval) and privacy, the share of the squared
            standard error that is due to privacy noise.

        Raises
        ------
        FormulaError, PrivacyError
            If `like` lacks a column or `residual` is not positive.
        """
        if self.rows is None:
            raise PrivacyError("the number of rows is private: ask privstats.plan, with one that you assume")
        if self.buys:
            raise DomainError(f"what to expect depends on the bounds of '{self.buys[0]}': declare them")
        rows = assumed_rows(self.design, self.promise.neighbors, like, residual)
        estimator = ESTIMATORS[self.request.model, self.mech].run
        talk = Forecast(rows, self.rows, self.mechanisms)
        answer = estimator(talk.ask, self.facts, self.noise)
        results = Results(
            formula=self.formula,
            mech=self.mech,
            noise=self.noise,
            guarantee=self.promise,
            releases=talk.releases,
            ledger=Ledger(self.promise),
            design=shown(self.request, self.design),
            answer=answer,
            paid=self.paid,
            n=self.n,
            seeded=True,
            chances=public_stream,
        )
        interval = results.conf_int()
        widths = interval[1] - interval[0]
        expected = pd.DataFrame({"std_error": results.bse, "width": widths, "privacy": results.privacy_share})
        return expected.set_axis(list(results.design.names))

    def eps_for(self, width: float, term: str | None = None, **assumptions: Any) -> float:
        """Return the smallest budget (eps, or mu where that was asked for) that makes intervals narrow enough.

        Parameters
        ----------
        width : float
            Wanted width of the 95 % interval.
        term : str, optional
            Of this coefficient; by default of every one but the intercept.
        **assumptions
            As for `expected`.

        Returns
        -------
        float
            To 0.1 %.

        Raises
        ------
        BudgetError
            If no budget is enough: the sampling error alone is wider.
        """
        in_mu = self.request.mu is not None
        paid = self.request.mu if self.request.mu is not None else self.request.eps
        assert paid is not None

        def reaches(budget: float) -> bool:
            request = replace(self.request, mu=budget) if in_mu else replace(self.request, eps=budget)
            return make_plan(request, self.rows)._within(width, term, assumptions)

        return smallest(reaches, paid, "budget")

    def n_for(self, width: float, term: str | None = None, **assumptions: Any) -> int:
        """Return the smallest number of rows at which intervals are narrow enough; arguments as for `eps_for`."""

        def reaches(n: float) -> bool:
            fewest = len(self.design.names) + 1
            return make_plan(self.request, max(fewest, math.ceil(n)))._within(width, term, assumptions)

        return math.ceil(smallest(reaches, float(self.rows or 1000), "number of rows"))

    def _within(self, width: float, term: str | None, assumptions: dict[str, Any]) -> bool:
        widths = self.expected(**assumptions)["width"]
        if term is not None:
            choose("term", term, list(widths.index))
            widths = widths[[term]]
        elif len(widths) > 1:
            widths = widths.drop("Intercept", errors="ignore")
        return bool((widths <= width).all())

    def __str__(self) -> str:
        return describe(self)

    __repr__ = __str__


def make_plan(request: Request, n: int | None) -> Plan:
    """Rehearse a request on synthetic rows and price what it asks. Looks at no data."""
    promise = request.promise
    mech, noise = request.algorithm
    choose("inference", request.inference, list(INFERENCE))
    if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 0):
        raise PrivacyError("n must be a whole number of rows")
    public_n = n if promise.neighbors.n_is_public else None
    declared = domain_of(request)
    wanting = lacking(request.formula, declared) if public_n is not None else ()
    if wanting and request.verb == "mode" and request.grid is not None:
        raise DomainError(f"'{wanting[0]}' needs bounds if the points of a grid are its candidates: declare them")
    domain = ranges.placeholder(wanting, declared)
    design = bound_to(request, domain)
    if isinstance(design, Design):
        _check_sizes(design)
    instead = _instead_of_a_chain(request, design)
    if instead != request:
        request, design, (mech, noise) = instead, bound_to(instead, domain), instead.algorithm
    if request.verb in REGRESSIONS and public_n is not None and public_n <= len(design.names):
        raise FormulaError(f"{public_n} rows are too few for {len(design.names)} coefficients")
    most = ESTIMATORS[request.model, mech].most
    if most is not None and len(design.names) > most:
        others = [name for (verb, name), entry in ESTIMATORS.items() if verb == request.model and entry.most is None]
        raise PrivacyError(
            f"mech={mech!r} samples exactly, which takes too long for more than {most} coefficients; here are "
            f"{len(design.names)}: use {' or '.join(map(repr, others))}"
        )
    facts = facts_of(request, design, public_n)
    unit_price = {name: partial(mechanism.at, factor=1.0) for name, mechanism in MECHANISMS.items()}
    rehearsal = Rehearsal(design, promise.neighbors, unit_price, public_stream)
    ESTIMATORS[request.model, mech].run(rehearsal.ask, facts, noise)
    turns = with_shares(rehearsal.turns, request.shares)
    first = ranges.rehearse(wanting, declared, promise.neighbors, unit_price)
    turns = (*sharing(first, sum(turn.share for turn in turns), request.bounds_share), *turns)
    mechanisms = calibrated(turns, promise)
    if public_n is not None:
        ranges.check_enough(wanting, mechanisms, public_n)
    return Plan(request.formula, public_n, mech, noise, promise, turns, mechanisms, facts, design, request, n, wanting)


def _instead_of_a_chain(request: Request, design: Design | Columns) -> Request:
    """Return a request that ``mech="auto"`` can answer without a sampler whose law is only approached, or refuse.

    Raises
    ------
    PrivacyError
        Naming the cure.
    """
    drawn = ESTIMATORS[request.model, request.algorithm[0]].drawn
    many = len(design.names) if request.verb in REGRESSIONS else 1
    if request.geometric and isinstance(design, Columns):
        many = len(design.targets)
    if request.mech != "auto" or drawn is None or many <= drawn:
        return request
    if request.geometric:
        raise PrivacyError(
            f"no exact sampler takes a geometric median of {many} columns; give mech='kng' for a Markov chain"
        )
    if request.delta:
        return replace(request, mech="newton")
    raise PrivacyError(
        f"no exact sampler takes {many} coefficients under eps; add delta=1e-6, or give mu=1, or mech='kng' for a "
        "Markov chain"
    )


def _check_sizes(design: Design) -> None:
    """Refuse declared bounds so far apart, or so near, that squares of their ratios are no floats.

    Raises
    ------
    DomainError
        Naming the column.
    """
    names = [*design.names[int(design.intercept) :], design.response]
    for name, half in zip(names, [*design.x_scaling.half, *design.y_scaling.half], strict=True):
        if not SMALLEST < half < LARGEST:
            raise DomainError(f"'{name}' is constant, or without bounds of a usual size, on the domain")
