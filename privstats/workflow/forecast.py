"""Forecasts of the standard errors and widths of intervals of a plan, before any budget is spent.

The estimator is run on synthetic rows that represent the planned number of rows, with noise from a public random
stream. Therefore the same code computes the forecast and the result of a fit. A forecast standard error or width is
the median of its values in a few simulated fits.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import repeat
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from scipy import special

from privstats.errors import PrivacyError
from privstats.estimators.base import PublicFacts
from privstats.gate.gate import Conversation, Pairs, Planned, quiet, shortest
from privstats.gate.questions import AnyMechanism, Question, Sum
from privstats.gate.rows import BlockRows, RowValues
from privstats.inference.notes import NEVER
from privstats.mechanisms.base import Additive
from privstats.mechanisms.order.rank import Rank, grid_of
from privstats.mechanisms.order.rank_errors import RankErrors, RankLaw
from privstats.mechanisms.order.rank_sampler import RARE, knots_between, runs_between
from privstats.mechanisms.order.ranked import Ranked
from privstats.mechanisms.quantile_regression.kng import ExponentialQuantile, KNGQuantile
from privstats.mechanisms.random import public_stream
from privstats.numerics.exact import Total
from privstats.numerics.law import FloatArray
from privstats.privacy.promise import Neighbors, Promise, Relation
from privstats.privacy.release import Release
from privstats.workflow.assumed import ROWS, Assumption, assumed_rows

FITS, FEWER = range(9), range(3)  # identifiers of the simulated fits under usual and under pessimistic assumptions
MOST = 45  # largest number of simulated fits if the user gives rows that resemble the data (`like`)
SETTLED = 0.08  # simulation stops if the std error of the median log width, as a median over terms, is at most this
VAGUE = 1.5  # with the user's rows `like`, a forecast is a range if (upper / lower quartile of the widths) exceeds this
# Number of simulated releases that are averaged for one answer: `SEVERAL` for one quantile with its interval and for
# vectors whose noise law depends on the rows, `TOGETHER` for several quantiles released together, `FEW` for other
# releases.
SEVERAL, TOGETHER, FEW = 25, 9, 3
# Largest number of synthetic rows given to an exponential mechanism. To represent k times as many rows, the budget is
# multiplied by k, which gives the same distribution of the release.
MOST_GIVEN = 4 * ROWS

FORECAST = ["std_error", "width", "noise_share", "ratio"]
OF_WIDTH = FORECAST.index("width")

T = TypeVar("T")
Fits = Mapping[int, FloatArray]  # widths of the intervals in simulated fits, by identifier of the fit
Settled = Callable[[Fits, list[str]], bool]  # (widths so far, names of terms) -> whether no more fits are needed


@dataclass(frozen=True, eq=False)
class Expected:
    """A forecast of standard errors and interval widths: medians over simulated fits.

    Parameters
    ----------
    table : DataFrame
        One row for each term, with the columns std_error, width (of the 95% interval), noise_share (share of the noise
        in the squared standard error), ratio (width divided by the width without privacy) and given (share of the fits
        with an interval). Its dict `attrs` has two keys: "branch" is the method that most simulated fits chose, and
        "why" is the reason if the method never gives intervals, otherwise an empty text.
    fits : mapping of int to ndarray
        For each identifier of a simulated fit, the widths of its intervals; infinite if an interval is not reported.
    """

    table: pd.DataFrame
    fits: Fits


@dataclass(eq=False)
class Simulated:
    """Synthetic rows of a plan and the fits simulated so far, so that a later forecast of the plan continues with them.

    Parameters
    ----------
    rows : tuple of (BlockRows, int), optional
        The synthetic rows and their number; None before the first forecast.
    tables : dict of int to ndarray
        For each identifier of a simulated fit: std errors, widths, noise shares and ratios of widths of all terms.
    branches : dict of int to str or None
        For each identifier: the method that the fit chose, if there was a choice.
    said : dict
        Cache of answers that are the same in every fit (`Forecast`).
    estimate : Estimate, optional
        Estimate of the last simulated fit, for names of terms and notes.
    """

    rows: tuple[Any, int] | None = None
    tables: dict[int, FloatArray] = field(default_factory=dict)
    branches: dict[int, str | None] = field(default_factory=dict)
    said: dict[Any, Release] = field(default_factory=dict)
    estimate: Any = None


class Forecast(Conversation):
    """Simulated answers to the queries of a plan, computed from synthetic rows with noise from a public random stream.

    Sums over the synthetic rows are multiplied by `times`, to represent the planned number of rows. An answer that is
    not a sum plus noise is the mean of several simulated releases, or their exact expectation. An answer that is
    the index of a candidate, such as a bin, is a single simulated release.

    Parameters
    ----------
    rows : BlockRows
        The synthetic rows.
    planned : iterable of Planned
        Queries with their mechanisms and budgets.
    times : float
        Number of rows (or privacy units) that a synthetic row (or unit) represents.
    fit : int
        Identifier of the simulated fit. Fits with different identifiers have independent noise. Fits with the same
        identifier and different budgets have the same noise except for its scale.
    said : dict, optional
        Cache of the answers that are not a sum plus noise. All simulated fits share the cache, because these answers
        are the same in every fit.
    """

    def __init__(
        self,
        rows: BlockRows,
        planned: Iterable[Planned],
        times: float,
        fit: int,
        said: dict[Any, Release] | None = None,
    ) -> None:
        planned = tuple(planned)
        super().__init__(rows, planned, lambda kind, label: public_stream(-3))
        self._factor, self._said = times, {} if said is None else said
        self._streams = {one.label: -1000 * (fit + 1) - place for place, one in enumerate(planned)}

    def choose(self, name: str, lengths: Mapping[str, float]) -> str:
        self._branch = shortest(lengths)
        return self._branch

    def decide(self, label: str, wanted: bool) -> bool:
        return bool(wanted)

    def _promise(self, question: Question, by: AnyMechanism) -> Promise:
        if question.label not in self._planned:
            raise PrivacyError(f"the question '{question.label}' was not planned")
        return self._left(question.label)

    def _spend(self, question: Question, by: AnyMechanism) -> Promise:
        promise = self._promise(question, by)
        self._cross_out(question)
        return promise

    def _guarded(self, work: Callable[[], T]) -> T:
        with quiet():
            return work()

    def _answer(self, pairs: Pairs, promises: Sequence[Promise], relations: Sequence[Relation]) -> list[Release]:
        totals = iter(self._rows.totals([question for question, _ in pairs if isinstance(question, Sum)]))
        return [
            self._one(question, by, promise, relation, next(totals) if isinstance(question, Sum) else None)
            for (question, by), promise, relation in zip(pairs, promises, relations, strict=True)
        ]

    def _one(
        self, question: Question, by: AnyMechanism, promise: Promise, relation: Relation, total: Total | None
    ) -> Release:
        law = by.law(promise, question.within, relation)
        if total is not None and isinstance(by, Additive):
            noise = law.sample(public_stream(self._streams[question.label]), 1)[0]
            return Release(question.label, total.value() * self._factor + noise, law, promise, question.within)
        values = self._rows.values(question) if total is None else None
        seen = total if values is None else values.all().tobytes()
        way = question.label, by, promise, question.within, relation, seen
        if way not in self._said:
            once, given = self._rows.source.n, promise
            many = max(once, round(once * self._factor))
            # k copies of the rows at budget eps give the same distribution of the release as one copy at budget k eps:
            # the log density is, up to a constant, proportional to eps and to the number of copies
            if isinstance(by, KNGQuantile | ExponentialQuantile):
                few = min(many, MOST_GIVEN)
                many, given = few, promise.as_pure().part(many / few)
            exact: Any = _Repeated(self._rows, question, many)
            draws = SEVERAL if law is None or isinstance(law, RankErrors | RankLaw) else FEW
            if isinstance(by, Rank) and len(by.levels) > 1:
                draws = TOGETHER
            if total is not None:
                exact = Total(tuple(round(unit * self._factor) for unit in total.units), total.step)
                # without a noise law, a release is the index of a candidate such as a bin; indices are not averaged
                draws = 1 if law is None else FEW
            mean = _mean(question, by, exact, given, relation, draws)
            self._said[way] = mean if given is promise else replace(mean, law=law)
        return self._said[way]


def _mean(question: Question, by: Any, exact: Any, promise: Promise, relation: Relation, draws: int) -> Release:
    """Return the mean of `draws` simulated releases of a query by the mechanism `by`.

    For a single quantile without an interval, the exact expectation of the release is returned. `exact` is the input
    of the mechanism: the exact sum over the rows if the query is a sum, otherwise one vector for each row.
    """
    within: Any = question.within
    streams = (public_stream(-3 - k) for k in range(draws))
    if isinstance(by, Rank):
        law, values = by.law(promise, within, relation), Ranked(exact, grid_of(within))
        if by.confidence is None and len(by.levels) == 1:
            return Release(question.label, mean_of_rank(values, by.levels[0], 2 * law.rate), law, promise, within)
        draw = by.drawing(values, promise, within, relation)
        answers = [Release(question.label, draw(rng), None, promise, within) for rng in streams]
    else:
        answers = [by.release(question.label, exact, promise, within, relation, rng) for rng in streams]
        law = answers[0].law
    mean: FloatArray = np.mean([answer.value for answer in answers], axis=0)
    return replace(answers[0], value=mean, law=law)


def mean_of_rank(values: Ranked, level: float, rate: float) -> FloatArray:
    """Return the expected value, shape (1,), of a quantile drawn by the exponential mechanism on ranks (`draw_rank`).

    Grid points far from the quantile, with a total probability below 1e-13, are left out. The other points form runs of
    neighbouring points, along which the log probability is linear. In a run of m points along which the log probability
    decreases by f per point, the mean distance from the first point, in grid steps, is ``1 / (exp(f) - 1) - m / (exp(m
    f) - 1)``. The means of the runs are weighted by the probabilities of the runs.

    Parameters
    ----------
    values : Ranked
        Values of the rows in ascending order, on a grid.
    level : float
        Probability of the quantile.
    rate : float
        Decrease of the log probability per unit of rank error.
    """
    target = level * (values.n + 1)
    width = (math.log(values.grid.last - values.grid.first + 1) + RARE) / rate + 1
    start, stop = max(0, math.floor(target - width)), min(values.n + 1, math.ceil(target + width))
    runs = runs_between(knots_between(values, start, stop), start, target, rate)
    with np.errstate(all="ignore"):
        far = 1 / np.expm1(runs.fall) - runs.count / np.expm1(runs.fall * runs.count)
    far = np.clip(np.where(runs.count > 1, far, 0.0), 0.0, np.maximum(runs.count - 1, 0.0))
    mass = special.softmax(runs.log_mass())
    return values.grid.points(np.atleast_1d(mass @ (runs.first + runs.sign * far)))


class _Repeated(RowValues):
    """The vectors that a query computes from the synthetic rows, repeated or thinned to represent `many` rows.

    If `many` is below the number of synthetic rows, every k-th synthetic row is taken, with k constant up to rounding.
    """

    def __init__(self, rows: BlockRows, question: Question, many: int) -> None:
        super().__init__(rows, question)
        self._many = many

    @cached_property
    def _once(self) -> FloatArray:
        """The vectors that the query computes from one copy of the synthetic rows, shape (rows, dim)."""
        return np.concatenate([np.zeros((0, self._dim)), *super().made()])

    def scan(self, take: Callable[[FloatArray], Any] = np.asarray) -> Iterator[Any]:
        """Apply the function `take` to the query's vectors for each copy of the synthetic rows; yield the results.

        The last copy may be incomplete. All complete copies have the same result, which is computed once.
        """
        once = self._once
        total = round(len(once) / max(1, self._rows.source.n) * self._many)
        copies, rest = divmod(total, max(1, len(once)))
        if copies:
            yield from repeat(take(once), copies)
        if rest:
            yield take(once[:rest] if copies else once[np.arange(rest) * len(once) // rest])


def expected(
    converse: Callable[[Any, PublicFacts], Any],
    public: PublicFacts,
    neighbors: Neighbors,
    planned: Sequence[Planned],
    n: int,
    like: pd.DataFrame | None,
    residual: float | None,
    assumed: Assumption,
    fits: Sequence[int],
    most: int,
    settled: Settled = lambda *_: False,
    simulated: Simulated | None = None,
) -> Expected:
    """Return the expected standard errors and interval widths of a plan.

    Parameters
    ----------
    converse : callable
        Function that returns the estimate in the user's units, given public information and a `Forecast`, which answers
        the queries.
    public : PublicFacts
        Public information about the fit, such as numbers of rows.
    neighbors : Neighbors
        Neighbouring relation: the pairs of data sets that count as neighbours.
    planned : sequence of Planned
        Queries with their mechanisms and budgets.
    n : int
        Planned number of rows or privacy units.
    like : DataFrame, optional
        Rows to use in place of synthetic rows.
    residual : float, optional
        Residual standard deviation in units of the response.
    assumed : Assumption
        Assumptions with which synthetic rows are simulated.
    fits : sequence of int
        Identifiers of the simulated fits over which medians are computed, in the order of simulation.
    most : int
        Largest number of simulated fits, if it is above ``len(fits)``. More than ``len(fits)`` fits are simulated only
        if the simulation error of the median widths (`error_of_median`) exceeds `SETTLED`.
    settled : callable
        Function of the widths in the fits so far and the names of the terms. It returns whether more simulated fits are
        unnecessary; a width is infinite if the interval is not reported.
    simulated : Simulated, optional
        Fits simulated by earlier calls with the same other arguments, to which the fits of this call are added.
    """
    so_far = Simulated() if simulated is None else simulated
    rows, many = so_far.rows = so_far.rows or assumed_rows(public.design, neighbors, n, like, residual, assumed)
    tables, branches = so_far.tables, so_far.branches
    while True:
        if tables:
            widths = {fit: table[:, OF_WIDTH] for fit, table in tables.items()}
            every = np.array(list(widths.values()))
            wanted = len(fits) if len(tables) < len(fits) or error_of_median(every) <= SETTLED else most
            if len(tables) >= wanted or settled(widths, list(so_far.estimate.names)):
                break
        fit = next((one for one in fits if one not in tables), len(tables))
        ask = Forecast(rows, planned, n / max(1, many), fit, so_far.said)
        so_far.estimate = converse(ask, public)
        tables[fit], branches[fit] = _expected(so_far.estimate), ask.chosen
    estimate = so_far.estimate
    median = np.median(list(tables.values()), axis=0)
    table = pd.DataFrame(np.where(np.isinf(median), math.nan, median), list(estimate.names), FORECAST)
    table["given"] = np.isfinite(every).mean(axis=0)
    chosen = Counter(branches[fit] for fit in sorted(branches))
    table.attrs["branch"] = chosen.most_common(1)[0][0]
    table.attrs["why"] = next((one.text for one in estimate.notes if one.key in NEVER), "")
    return Expected(table, widths)


def error_of_median(widths: FloatArray) -> float:
    """Return the simulation error of forecast interval widths: a standard error on the log scale.

    For each term, the standard error of the median log width over the simulated fits is computed from the standard
    deviation of the finite log widths, which are assumed to be normal. The result is the median of these standard
    errors over the terms, or 0 if there is only one fit.

    Parameters
    ----------
    widths : ndarray, shape (fits, terms)
        Widths of intervals; infinite if an interval is not reported.
    """
    if len(widths) < 2:
        return 0.0
    logs = np.ma.masked_invalid(np.log(np.maximum(widths, 1e-300)))
    spread = np.ma.filled(logs.std(axis=0, ddof=1), 0.0)
    return 1.25 * float(np.median(spread)) / math.sqrt(len(widths))


def _expected(estimate: Any) -> FloatArray:
    """Return the standard error, interval width, noise share and width ratio of each term, for one simulated fit.

    The result has the shape (terms, 4). The noise share is the share of the noise in the squared standard error.
    The width ratio is the width divided by the width without noise. Numbers that are not reported are infinite.
    """
    _, errors, low, high = estimate.coefficients(0.05)
    share = np.asarray(estimate.noise_share(), dtype=float)
    with np.errstate(all="ignore"):
        without = 2 * 1.959964 * errors * np.sqrt(np.maximum(1 - share, 0.0))
        ratio = np.where(without > 0, (high - low) / without, math.nan)
    return np.nan_to_num(np.column_stack([errors, high - low, share, ratio]), nan=math.inf, posinf=math.inf)
