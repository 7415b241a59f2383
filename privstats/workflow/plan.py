"""Plans: the queries of a fit and the division of its budget among them, found by trial runs on synthetic rows.

No row of the data is read when a plan is made.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privstats.errors import BudgetError, DomainError, OptionError, PrivacyError, PrivstatsError, quote
from privstats.estimators.base import PublicFacts
from privstats.formula.declarations import Known
from privstats.formula.kinds import undeclared
from privstats.gate.gate import Pairs, Planned, shortest
from privstats.gate.questions import Question
from privstats.gate.rehearsal import Asked, Audit, Rehearsal
from privstats.mechanisms.base import Additive
from privstats.mechanisms.order.rank import Rank
from privstats.mechanisms.random import streams
from privstats.models.base import Choice, Model
from privstats.numerics.exact import Total
from privstats.numerics.law import FloatArray
from privstats.privacy.account import Account
from privstats.privacy.promise import ApproxDP, Neighbors, Promise, Relation
from privstats.privacy.release import Release
from privstats.results.entry import entry
from privstats.results.files import as_text, write_text
from privstats.results.header import shared
from privstats.workflow import forecast, stage0
from privstats.workflow.assumed import HALF, Assumption, costly, is_binary, rows_for_quantiles, unhinted
from privstats.workflow.comparison import Comparison, budgets_compared
from privstats.workflow.digest import digest, promise_numbers, rounded
from privstats.workflow.division import BOUNDS, Division, divided
from privstats.workflow.gathered import Gathered, gathering
from privstats.workflow.plan_plot import draw_shares
from privstats.workflow.plan_text import described
from privstats.workflow.progress import Turns
from privstats.workflow.saved import run_plan, written_plan
from privstats.workflow.search import BY_BUDGET, BY_RHO, BY_ROWS, Bounds, Widths, narrow_enough

ROUNDS = 6  # largest number of rounds of trial runs; the rounds end when the queries no longer change
INFERENCE = ("sandwich", "none")
REMEMBERED = 64  # number of plans in the cache
MOST_QUANTILE_ROWS = 2_000_000  # `n_for` extrapolates widths of intervals for quantiles beyond this number of rows
MOST_ROWS = 1e9  # a search for a sufficient number of rows is given up beyond this multiple of the planned number
LEAST, MOST_BUDGET = 1e-9, 1e4  # limits of a search for a budget: LEAST times the planned budget, and MOST_BUDGET


@dataclass(frozen=True, eq=False)
class Specification:
    """The public part of a call, for example of `dp_lm`: model, method and guarantee, without data and random numbers.

    Parameters
    ----------
    verb : str
        Name of the public function without "dp_".
    model : Model
        The user's formula and arguments.
    mech : str
        Name of the method, or "auto".
    options : mapping
        Options of the estimator that the user gave.
    promise : Promise
        Privacy guarantee: the budget of the whole fit.
    neighbors : Neighbors
        Neighbouring relation: the pairs of data sets that count as neighbours.
    shares : mapping, optional
        Budget shares that the user gave, by name or label of the query.
    bounds_share : float
        Share of the budget for estimates of bounds that are not declared.
    intervals : bool
        Whether confidence intervals are requested.
    written : mapping
        Arguments of the call, from which the digest (hash) of the plan is computed.
    """

    verb: str
    model: Model
    mech: str
    options: Mapping[str, Any]
    promise: Promise
    neighbors: Neighbors
    shares: Mapping[str, float] | None
    bounds_share: float
    intervals: bool
    written: Mapping[str, Any]

    def converse(self, ask: Any, public: PublicFacts, estimator: Any) -> tuple[Any, PublicFacts]:
        """Ask all queries of a fit: first the queries about undeclared bounds, then the queries of the estimator.

        `ask` answers the queries: a `Gate` in a fit, a `Rehearsal` in a trial run, or a `Forecast` in a simulated fit.

        Returns
        -------
        estimate : Estimate
            Estimate in the user's units.
        public : PublicFacts
            Public information about the rows and columns: numbers of rows, bounds, and the design of the fit.
        """
        with np.errstate(all="ignore"):  # noise may cause overflows; infinite values are handled later
            if lacking := public.design.lacking:
                design = self.model.with_bounds(public.design, stage0.bounds(ask, lacking, self.model.known))
                ask.through(design)
                public = replace(public, design=design)
            estimate = estimator(ask, public)
            return self.model.in_units(estimate, public.design), public


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """The plan of a fit: its queries of the data and their shares of the budget, known before any row is read.

    Attributes
    ----------
    guarantee : PureDP, ApproxDP, GaussianDP or ZeroCDP
        The privacy guarantee of the fit.
    questions : DataFrame
        One row for each query of the data (question): share of the budget, mechanism, and budget.
    digest : str
        Hash of the call, the planned queries and the accepted widths, which identifies the plan.
    accepted : dict
        Largest acceptable widths of 95% intervals, by term (see `accept`).
    """

    specification: Specification
    choice: Choice
    public: PublicFacts
    accounted: Promise
    planned: tuple[Planned, ...]
    division: Division
    turns: Turns
    asked: tuple[Asked, ...]
    gathered: Gathered | None = None  # memory requirement of a method that keeps all rows in memory, if any
    accepted: Mapping[str, float] = field(default_factory=dict)
    forecasts: dict[Any, forecast.Expected] = field(default_factory=dict)  # cache, shared by plans of equal calls
    digests: dict[Any, str] = field(default_factory=dict)  # cache of hashes, shared by plans of equal calls

    def __dir__(self) -> list[str]:
        return list(PUBLIC)

    @property
    def guarantee(self) -> Promise:
        """The privacy guarantee of the whole fit, as the user requested it by eps, (eps, delta), mu or rho."""
        return self.specification.promise

    @property
    def charge(self) -> tuple[tuple[str, Promise], ...]:
        """The charge of the fit to the ledger: the label and the privacy guarantee of each entry.

        Each query has an entry, except that all queries after the choice of a branch (method) have one entry together.
        Optional queries have no entry, because they spend a part of the budget of another query.
        """
        return self.division.charge

    @property
    def kept(self) -> Promise:
        """The privacy guarantee that the mechanisms satisfy, which may be stronger than the requested guarantee.

        The two guarantees differ only for some budgets in rho: the guarantee that the mechanisms satisfy is in mu if
        all noise is normal, and in eps if the fit has a single mechanism and this mechanism satisfies pure differential
        privacy.
        """
        return self.guarantee.kept_by(*(p.mechanism for p in self.planned))

    @property
    def branches(self) -> tuple[str, ...]:
        """The methods between which the fit will choose; empty if there is no choice."""
        return tuple(dict.fromkeys(p.branch for p in self.planned if p.branch is not None))

    @property
    def estimated(self) -> tuple[str, ...]:
        """Names of the numeric columns whose bounds are estimated privately."""
        lacking: tuple[str, ...] = self.public.design.lacking
        return lacking

    @property
    def rows(self) -> int | None:
        """Public or assumed number of rows (or of privacy units); None if it is private and no number is assumed."""
        public = self.public
        return next((n for n in (public.offered, public.units, public.assumed) if n is not None), None)

    @property
    def questions(self) -> pd.DataFrame:
        """Table of the queries of the data (questions): share of the budget, mechanism, branch (method) and budget.

        An optional query spends a part of the share of another query; if the optional query is not asked, the other
        query spends its whole share. The column `part_of` names the other query, or one such query for each branch.
        """
        of = f"of_{shared(self.accounted).replace('^', '')}"
        return pd.DataFrame(
            {
                "question": [p.label for p in self.planned],
                of: [self.division.fractions[p.label] for p in self.planned],
                "mechanism": [p.mechanism.label for p in self.planned],
                "branch": [p.branch or "" for p in self.planned],
                "cost": [p.promise.budget for p in self.planned],
                "part_of": [", ".join(p.within_share_of) for p in self.planned],
            }
        ).set_index("question")

    @property
    def digest(self) -> str:
        """Hash of the call, the planned queries and the widths declared by `accept`, the same on all machines."""
        accepted = tuple(self.accepted.items())
        if accepted not in self.digests:
            self.digests[accepted] = digest(*self._call, rounded(self._asked), dict(self.accepted))
        return self.digests[accepted]

    @property
    def stream_digest(self) -> str:
        """Hash of the call and queries, with unrounded budgets; this hash and the seed determine the random numbers."""
        if "stream" not in self.digests:
            self.digests["stream"] = digest(*self._call, self._asked)
        return self.digests["stream"]

    @property
    def _call(self) -> tuple[Any, ...]:
        """Name and arguments of the call, and the public numbers of rows and privacy units, for hashes of the plan."""
        about = {name: value for name, value in self.specification.written.items() if value is not None}
        return self.specification.verb, about, self.public.offered, self.public.units

    @property
    def _asked(self) -> list[Any]:
        """The planned queries of the data, each as a list of its branch (method), label, mechanism and budget."""
        return [[p.branch, p.label, p.mechanism.label, promise_numbers(p.promise)] for p in self.planned]

    def expected(self, like: pd.DataFrame | None = None, residual: float | None = None) -> pd.DataFrame:
        """Return the expected standard errors and widths of 95% confidence intervals, with privacy noise included.

        Parameters
        ----------
        like : DataFrame, optional
            Synthetic or public rows that resemble the data. By default columns follow their hints (`Domain.hint`), and
            numeric predictors with hints explain a quarter of the variance of an outcome with a hint; without hints,
            numeric columns are uniform on the middle part of their range, and levels are equally frequent.
        residual : float, optional
            Residual standard deviation in units of the response; with cov_type="nonrobust" and weights, the residual
            standard deviation of a row with the largest weight. By default it follows from `like` or from the hint
            about the response, or else is a twelfth of the range of the response.

        Returns
        -------
        DataFrame
            One row for each estimate, with the columns std_error, width (of the 95% interval), width_low, width_high,
            noise_share (share of the noise in the squared standard error), ratio (of widths with and without privacy)
            and given (share of the simulated fits with an interval). A width is NaN if most simulated fits have no
            interval.

            width_low and width_high differ from width in two cases:

            - If `like` is not given, and hints about the outcome, levels or weights are missing, a second forecast
              assumes rare outcomes, rare levels and unequal weights. width_low is the smaller of the two forecasts,
              width_high the larger.
            - If `like` is given and the widths vary much between simulated fits, width_low and width_high are the
              quartiles of the widths. The widths vary much if the upper quartile divided by the lower quartile exceeds
              1.5 in the median over terms.

        Raises
        ------
        FormulaError, DomainError, OptionError
            If a column is missing from `like`, bounds are not declared, or the number of rows is private.
        """
        made = self._usual(like, residual, most=0 if like is None else forecast.MOST)
        table, widths = made.table.copy(), np.array(list(made.fits.values()))
        ends = np.quantile(widths, (0.25, 0.75), axis=0, method="nearest")
        with np.errstate(all="ignore"):
            vague = like is not None and float(np.median(ends[1] / ends[0])) > forecast.VAGUE
        for place, name, end in zip((2, 3), ("width_low", "width_high"), ends, strict=True):
            table.insert(place, name, np.where(np.isinf(end), math.nan, end) if vague else table["width"])
        if like is None and self.unhinted(residual):
            assumed = costly(self.public.design, self._assumed)
            other = self._forecast(None, residual, assumed, forecast.FEWER).table["width"]
            table["width_low"] = np.fmin(table["width"], other)
            table["width_high"] = np.maximum(table["width"], other)
        return table

    def unhinted(self, residual: float | None = None) -> Mapping[str, Known]:
        """Return the columns for which a hint would be most useful, as a mapping of names to bounds or levels.

        A hint (`Domain.hint`) states the assumed distribution of a column and makes forecasts more precise. Columns
        that have a hint are left out. The response is also left out if `residual`, the standard deviation of the
        residuals, is given, because no hint about the response is then necessary.
        """
        return unhinted(self.public.design, self.specification.model.hints, residual)

    @property
    def _assumed(self) -> Assumption:
        model = self.specification.model
        precise = getattr(model, "cov_type", None) == "nonrobust"
        return replace(self._bare, hints=model.hints, share=HALF, precise=precise)

    @property
    def _bare(self) -> Assumption:
        """Assumptions about the columns without the user's hints."""
        of_quantiles = self.specification.model.of_quantiles
        return Assumption(rows=rows_for_quantiles(self.rows or 0)) if of_quantiles else Assumption()

    def _usual(
        self,
        like: pd.DataFrame | None = None,
        residual: float | None = None,
        most: int = 0,
        fits: Sequence[int] = forecast.FITS,
        settled: forecast.Settled = lambda *_: False,
        simulated: forecast.Simulated | None = None,
    ) -> forecast.Expected:
        """Return the forecast of interval widths for the rows `like`, by default for synthetic rows.

        `residual` is the residual standard deviation in units of the response. The fits with the identifiers `fits` are
        simulated first; the identifier of a fit determines its noise. As long as the median widths are imprecise, more
        fits are simulated, up to `most` fits in all (no further fits if `most` is 0). The simulation ends early if the
        function `settled` returns True for the widths of the fits so far.
        """
        if self.rows is None:
            raise OptionError("the number of rows is private; ask ps.plan, with a number that you assume")
        if self.estimated:
            name = self.estimated[0]
            raise DomainError(
                f"the widths to expect depend on the bounds of '{name}'; write domain={{'{name}': (low, high)}}"
            )
        if like is None and residual is None:
            return self._under(self._assumed, fits, settled, simulated)
        return self._forecast(like, residual, self._assumed, fits, most, settled, simulated)

    def _under(
        self,
        assumed: Assumption,
        fits: Sequence[int] = forecast.FITS,
        settled: forecast.Settled = lambda *_: False,
        simulated: forecast.Simulated | None = None,
    ) -> forecast.Expected:
        """Return the forecast of interval widths for synthetic rows, under the assumptions `assumed` about columns.

        `fits` contains the identifiers of the fits to simulate. The simulation ends early if the function `settled`
        returns True for the widths of the fits so far. A forecast from all `fits` is stored in a cache.
        """
        design = self.public.design
        share = assumed.share if hasattr(design, "response_half") and is_binary(design) else None
        about = tuple(assumed.hints.items()), share, assumed.precise
        if about in self.forecasts:
            return self.forecasts[about]
        made = self._forecast(None, None, assumed, fits, settled=settled, simulated=simulated)
        if len(made.fits) == len(fits):
            self.forecasts[about] = made
        return made

    def _forecast(
        self,
        like: pd.DataFrame | None,
        residual: float | None,
        assumed: Assumption,
        fits: Sequence[int] = forecast.FITS,
        most: int = 0,
        settled: forecast.Settled = lambda *_: False,
        simulated: forecast.Simulated | None = None,
    ) -> forecast.Expected:
        assert self.rows is not None
        spec, choice = self.specification, self.choice
        return forecast.expected(
            lambda ask, public: spec.converse(ask, public, choice.estimator)[0],
            self.public,
            spec.neighbors,
            self.planned,
            self.rows,
            like,
            residual,
            assumed,
            fits,
            most,
            settled,
            simulated,
        )

    def budget_for(self, width: float, term: str | None = None, **assumptions: Any) -> float:
        """Return the smallest budget (in eps, mu or rho, as in the plan) for 95% intervals of at most the given width.

        Parameters
        ----------
        width : float
            Requested width of the 95% interval.
        term : str, optional
            Coefficient whose interval is to have this width; by default all coefficients except the intercept.
        **assumptions
            `like`, rows that resemble the data; `residual`, the residual standard deviation in units of the response.

        Returns
        -------
        float
            The budget, with an error of at most 1%.

        Raises
        ------
        BudgetError
            If no budget suffices, because even the interval without privacy noise is wider than `width`.
        OptionError
            If the method gives no intervals.
        """
        width = _positive("width", width)
        name = self.guarantee.currency
        start = self.guarantee.numbers[name]

        @cache
        def plan(budget: float) -> Plan:
            promise: Promise = replace(self.guarantee, **{name: budget})  # type: ignore[type-var]
            spec = self.specification
            other = replace(spec, promise=promise, written={**spec.written, name: budget})
            return self if budget == start else make_plan(other, self._public_rows, self.rows, self)

        simulated = defaultdict[float, forecast.Simulated](forecast.Simulated)
        self._refuse_search()
        found = narrow_enough(
            lambda budget, bounds: plan(budget)._widths(width, term, assumptions, bounds, simulated[budget]),
            BY_RHO if name == "rho" else BY_BUDGET,
            start,
            LEAST * start,
            MOST_BUDGET,
            "plan.budget_for",
        )
        if found is None:
            raise BudgetError(
                f"a width of {width:g} is less than that without privacy; take more rows, or choose a larger width"
            )
        return found

    def eps_for(self, width: float, term: str | None = None, **assumptions: Any) -> float:
        """Return the smallest eps at which the 95% interval of `term` is at most `width` wide.

        The arguments, and the default for `term`, are as in `budget_for`.

        Raises
        ------
        OptionError
            If the guarantee of the plan is in mu or rho.
        """
        if self.guarantee.currency != "eps":
            raise OptionError(f"the budget of this plan is in {self.guarantee.currency}; write plan.budget_for(width)")
        return self.budget_for(width, term, **assumptions)

    def n_for(self, width: float, term: str | None = None, **assumptions: Any) -> int:
        """Return the smallest number of rows (or of privacy units) for 95% intervals of at most the given width.

        Parameters
        ----------
        width : float
            Requested width of the 95% interval.
        term : str, optional
            Coefficient whose interval is to have this width; by default all coefficients except the intercept.
        **assumptions
            `like`, rows that resemble the data; `residual`, the residual standard deviation in units of the response.

        Returns
        -------
        int
            The number of rows, with an error of at most 1%.

        Raises
        ------
        OptionError
            If more than 1e9 times the planned number of rows would be needed, or the method gives no intervals.
        """
        width = _positive("width", width)
        fewest, start = self.specification.model.least_rows(self.public.design), float(max(self.rows or 0, 100))

        known: dict[int, Widths] = {}  # a cache, because the search may round several values to the same number of rows
        simulated = defaultdict[int, forecast.Simulated](forecast.Simulated)
        most = max(MOST_QUANTILE_ROWS, int(start)) if self.specification.model.of_quantiles else math.inf

        @cache
        def plan(n: int) -> Plan:
            return self if n == self.rows else make_plan(self.specification, n if self._is_public else None, n, self)

        def widths(rows: float, bounds: Bounds) -> Widths:
            n = max(fewest, int(rows))
            if n > most:
                return BY_ROWS.extrapolated(widths(most, Bounds()), n / most)
            if n not in known or not known[n].sure:
                known[n] = plan(n)._widths(width, term, assumptions, bounds, simulated[n])
            return known[n]

        self._refuse_search()
        found = narrow_enough(widths, BY_ROWS, start, fewest, MOST_ROWS * start, "plan.n_for")
        if found is None:
            raise OptionError(
                f"a width of {width:g} would take more than {MOST_ROWS * start:.0e} rows; choose a larger width"
            )
        return max(fewest, int(found))

    def _refuse_search(self) -> None:
        """Raise an error, before a search for a requested interval width, if the method never gives intervals."""
        if self.rows is None or self.estimated:
            return
        if why := self._forecast(None, None, self._assumed, range(1)).table.attrs["why"]:
            raise OptionError(f"no budget and no number of rows gives this width. {why}")

    def compare(
        self,
        eps: float | Sequence[float] | None = None,
        mu: float | Sequence[float] | None = None,
        rho: float | Sequence[float] | None = None,
        **assumptions: Any,
    ) -> Comparison:
        """Compare the expected widths of confidence intervals for several budgets, before any budget is spent.

        Parameters
        ----------
        eps, mu, rho : float or list of float, optional
            Budgets to compare; all other arguments are as in this plan. A budget in eps is combined with the
            delta of this plan.
        **assumptions
            `like`, rows that resemble the data; `residual`, the residual standard deviation in units of the response.

        Returns
        -------
        Comparison
            A table that prints as text. Its attribute `frame` is a DataFrame with one row for each term and budget, and
            the columns method, std_error, width (of the 95% interval), noise_share (share of the noise in the squared
            standard error), and ratio (of widths with and without privacy). `plot()` draws the ratios.

        Raises
        ------
        OptionError, BudgetError, DomainError
            If no budget is given, or the planned function, such as dp_mean, rejects one of the budgets.

        Examples
        --------
        >>> import privstats as ps
        >>> plan = ps.plan("mean", "age", 10_000, eps=0.5, domain={"age": (0, 100)})
        >>> plan.compare(eps=[0.5, 2], mu=1).frame["budget"].tolist()
        ['eps = 0.5', 'eps = 2', 'mu = 1']
        """
        if strange := [name for name in assumptions if name not in ("like", "residual")]:
            raise OptionError(
                f"compare() got an unexpected keyword argument '{strange[0]}'; give budgets as eps=, mu= or rho=, with "
                "the delta of this plan, and like= or residual="
            )
        return budgets_compared(self, {"eps": eps, "mu": mu, "rho": rho}, assumptions)

    @property
    def _is_public(self) -> bool:
        return self.specification.neighbors.exchange

    @property
    def _public_rows(self) -> int | None:
        return self.rows if self._is_public else None

    def _widths(
        self,
        wanted: float,
        term: str | None,
        assumptions: Mapping[str, Any],
        bounds: Bounds,
        simulated: forecast.Simulated,
    ) -> Widths:
        """Return the ratio of expected to requested interval width, for one term or for each term except the intercept.

        This is one step of a search for the number of rows, or the budget, at which intervals have the width `wanted`.
        The expected width is a median over simulated fits. The simulation ends as soon as it is clear whether every
        expected width is at most `wanted`. For fits that are not simulated, the `bounds` of the ratios in these fits
        are used for this decision; the bounds are known from earlier steps of the search. `simulated` has the fits of
        this plan that earlier steps have simulated.
        """

        def ratios(fits: forecast.Fits, names: Sequence[str]) -> dict[int, FloatArray]:
            return {fit: widths[_of_terms(term, names)] / wanted for fit, widths in fits.items()}

        made = self._usual(
            **assumptions,
            fits=bounds.order(forecast.FITS),
            settled=lambda fits, names: bounds.median(ratios(fits, names), forecast.FITS) is not None,
            simulated=simulated,
        )
        names = list(made.table.index)
        found = ratios(made.fits, names)
        median = bounds.median(found, forecast.FITS)
        assert median is not None
        shares = made.table["noise_share"].to_numpy()[_of_terms(term, names)]
        sure = Bounds(rough=True).median(found, forecast.FITS) is not None
        return Widths(np.where(np.isinf(median), math.nan, median), shares, found, sure)

    def plot(self, ax: Any = None) -> Any:
        """Plot the share of each query in the budget, by branch if the fit will choose between branches (methods).

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw in; by default the axes of a new figure.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        return draw_shares(self, ax)

    # ---------------------------------------------------------------- accepted widths, files, and runs on data

    def accept(self, widths: Mapping[str, float]) -> Plan:
        """Return a copy of the plan that records, before the fit, the largest acceptable widths of its intervals.

        The widths are saved with the plan and are part of its digest (hash). The summary of the fit states for each
        width whether the interval is narrow enough.

        Parameters
        ----------
        widths : mapping of str to float
            Largest acceptable width of the 95% interval, by term; the index of `expected` has the names of the terms.

        Returns
        -------
        Plan

        Raises
        ------
        OptionError
            If the plan has no such term, or a width is not a positive number.

        Examples
        --------
        >>> import privstats as ps
        >>> plan = ps.plan("mean", "age", 10_000, eps=0.5, domain={"age": (0, 100)})
        >>> plan.accept({"age": 1.0}).accepted
        {'age': 1.0}
        """
        if not isinstance(widths, Mapping) or not widths:
            raise OptionError(f"the widths are {quote(widths)}; write plan.accept({{'x': 0.1}})")
        terms = self.expected().index
        for term in widths:
            if term not in terms:
                raise OptionError(f"the plan has no term {quote(term)}; choose among {', '.join(map(repr, terms))}")
        return replace(self, accepted={term: _positive("width", width) for term, width in widths.items()})

    def to_json(self) -> str:
        """Return the plan as JSON text, which other people can read, sign and run.

        The text contains the function, formula, domain and options, the number of rows, the guarantee, the interval
        widths declared by `accept`, the digest and the version of the package. The text contains no data, and no code
        that is executed on loading.

        Raises
        ------
        OptionError
            If an expression calls a function registered by `rowwise`, or an option is not text, a number, a list or a
            dict.
        """
        return as_text(written_plan(self))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the plan to a file in the format of `to_json`; `load` reads the file.

        Parameters
        ----------
        path : str or PathLike
            Path of the file; an existing file is replaced when the new file is complete.

        Raises
        ------
        OptionError
            If the plan cannot be written as JSON (see `to_json`), or the file cannot be written.
        """
        write_text(path, self.to_json())

    @entry
    def run(self, data: Any, *, ledger: Account | None = None, rng: Any = None) -> Any:
        """Carry out the plan on data, after a check that the planned call has the same plan for these data.

        For the check, the call is planned again with the names and types of the columns of the data and, if it is
        public, the number of rows. If the new plan differs from this plan, an error is raised and nothing is charged.

        Parameters
        ----------
        data : DataFrame, path, Protected or other data that the function accepts
            The rows. If the number of rows is public, it must equal the number in the plan.
        ledger : Ledger, optional
            Ledger that is charged before any row is read.
        rng : None, int or numpy.random.Generator
            Source of the noise; None is the random source of the operating system.

        Returns
        -------
        Results
            The fit, with the digest of the plan.

        Raises
        ------
        OptionError
            If the plan for these data has another digest (hash).
        BudgetError, DomainError, FormulaError, PrivacyError
            If the planned function, such as dp_mean, rejects these data.

        Examples
        --------
        >>> import privstats as ps
        >>> domain = ps.Domain({"age": (0, 100)})
        >>> plan = ps.plan("mean", "age", 10_000, eps=0.5, domain=domain)
        >>> plan.run(domain.synthetic(10_000)).digest == plan.digest
        True
        """
        return run_plan(self, data, ledger, rng)

    def __repr__(self) -> str:
        return described(self)


PUBLIC = (
    "accept",
    "accepted",
    "budget_for",
    "compare",
    "digest",
    "eps_for",
    "expected",
    "guarantee",
    "n_for",
    "plot",
    "questions",
    "run",
    "save",
    "to_json",
)


def make_plan(spec: Specification, rows: int | None, assumed: int | None = None, near: Plan | None = None) -> Plan:
    """Return the plan of a call, without reading a row; an equal call that was planned before is looked up in a cache.

    A budget (eps, delta) can be divided among the queries in two ways: as a budget in pure eps, or as a budget in mu
    (Gaussian differential privacy), with normal noise. A plan is computed for each way, and the plan with the shorter
    expected intervals is returned.

    Parameters
    ----------
    spec : Specification
        The public part of the call.
    rows : int, optional
        Number of rows, or of privacy units if the call has `unit`; None if it is private.
    assumed : int, optional
        Assumed number of rows if the number of rows is private; only forecasts and the largest allowed delta depend on
        it.
    near : Plan, optional
        Plan of the same call with another budget or number of rows, from an earlier step of a search over budgets or
        numbers of rows. A trial run checks whether the call has the same queries as `near`. If `near` is given, the
        cache is not used.

    Raises
    ------
    OptionError, BudgetError, DomainError, FormulaError, PrivacyError
        If the call cannot be answered.
    """
    _check_delta(spec.promise, assumed if rows is None else rows)
    about = digest(spec.verb, spec.mech, spec.promise, spec.shares, spec.bounds_share, spec.intervals, spec.written)
    wish = _Wish(type(spec.model), about, rows, assumed, spec)
    return replace(_remembered(wish) if near is None else _made(wish, near), specification=spec)


@dataclass(frozen=True)
class _Wish:
    """Key of the cache of plans: the arguments of a call and the number of rows, which determine the plan."""

    model: type[Model]
    written: str
    rows: int | None
    assumed: int | None
    spec: Specification = field(compare=False)


@lru_cache(maxsize=REMEMBERED)
def _remembered(wish: _Wish) -> Plan:
    """Return the plan of a call from a cache; the plan depends on public information only, never on rows."""
    return _made(wish, None)


def _made(wish: _Wish, near: Plan | None) -> Plan:
    plans, refusals = [], []
    for promise in accountings(wish.spec):
        try:
            plans.append(_planned(wish.spec, promise, wish.rows, wish.assumed, near))
        except PrivstatsError as error:
            refusals.append(error)
    if not plans:
        raise refusals[0]
    return plans[0] if len(plans) == 1 else _shorter(plans[0], plans[1], near is not None)


def forget() -> None:
    """Clear the cache of plans, which is necessary after a change of code or constants on which plans depend."""
    _remembered.cache_clear()


def accountings(spec: Specification) -> tuple[Promise, ...]:
    """Return the privacy guarantees in which the budget of a plan may be divided among the queries.

    Each returned guarantee implies the requested guarantee. If (eps, delta) is requested, one guarantee in mu, for
    normal noise, and one in pure eps are returned. For other requests, and for methods whose privacy proof is in terms
    of (eps, delta) itself, only the requested guarantee is returned.
    """
    promise = spec.promise
    own_delta = isinstance(spec.mech, str) and spec.mech in spec.model.with_delta
    if not isinstance(promise, ApproxDP) or own_delta:
        return (promise,)
    return promise.as_normal(), promise.as_pure()


def _shorter(normal: Plan, pure: Plan, rough: bool) -> Plan:
    """Return the plan with the shorter expected intervals: the plan with normal noise, or the plan with pure eps.

    The returned plan states the ratio of the expected widths as a reason for the choice of its method. The plan
    `normal` is returned if the widths cannot be compared. The plan `pure` is returned without a comparison if no
    mechanism of `normal` has normal noise. If `rough` is true, only as many fits are simulated as are necessary to
    decide which intervals are shorter.
    """
    if not any(p.mechanism.normal for p in normal.planned):
        return pure
    ratio = _ratio(normal, pure, rough)
    if math.isnan(ratio):
        return normal
    taken, other, times = (normal, "pure", ratio) if ratio <= 1 else (pure, "normal", 1 / ratio)
    because = f"intervals are expected to be {times:.2g} times as long as with {other} noise"
    if times == 0:
        because = f"most intervals are not expected to be given with {other} noise"
    why = f"{taken.choice.why}; {because}" if taken.choice.why else because
    return replace(taken, choice=replace(taken.choice, why=why))


def _ratio(normal: Plan, pure: Plan, rough: bool) -> float:
    """Return the median ratio of the expected interval widths of two plans, the first divided by the second.

    The median is taken over all coefficients except the intercept. The width of an interval that is not expected to be
    given is infinite. The ratio is NaN if the widths cannot be compared: if the number of rows or privacy units is
    private or not given, if bounds must be estimated, or if neither plan is expected to give an interval. If `rough` is
    true, the ratio is approximate, but it exceeds 1 if and only if the exact ratio does.
    """
    if normal.rows is None or (normal.public.offered is None and normal.public.units is None) or normal.estimated:
        return math.nan
    # these forecasts do not use the user's hints, which must not influence the choice between the plans
    table = normal._under(normal._bare).table
    slopes, first = _of_terms(None, list(table.index)), table["width"].fillna(math.inf).to_numpy()

    def ratio(second: FloatArray) -> float:
        with np.errstate(invalid="ignore"):
            ratios = np.nan_to_num(first / second, nan=1.0, posinf=math.inf)[slopes]
        finite = np.isfinite([first[slopes], second[slopes]]).any()
        return float(np.median(ratios)) if finite else math.nan

    def decided(fits: forecast.Fits, _: Sequence[str]) -> bool:
        rest = np.ones((len(forecast.FITS) - len(fits), len(first)))
        least, most = (np.median([*fits.values(), *rest * end], axis=0) for end in (1e-300, math.inf))
        return rough and (ratio(most) > 1 or ratio(least) <= 1)

    return ratio(pure._under(pure._bare, settled=decided).table["width"].fillna(math.inf).to_numpy())


def _planned(
    spec: Specification, promise: Promise, rows: int | None, assumed: int | None, near: Plan | None = None
) -> Plan:
    """Return the plan of a call in which the budget `promise` is divided among the queries.

    Trial runs on synthetic rows and the division of the budget are repeated until the queries no longer change. The
    runs alternate between few and many rows, because some queries are asked only if the noise is relatively large, and
    other queries only if the noise is small.

    If the plan `near` has the method of this call and the same kind of budget (such as mu), the budget is first
    divided among the queries of `near`. If the first trial run then asks the same queries, possibly with other
    mechanisms, no further run is needed, because these queries have already passed the checks of `rehearsed`.
    """
    public = _public(spec, rows, assumed)
    design = public.design
    choice = spec.model.estimator(
        spec.mech, promise, spec.options, design, spec.neighbors, public.offered, spec.intervals
    )
    alike = near is not None and near.choice.mech == choice.mech and type(near.accounted) is type(promise)
    asked: tuple[Asked, ...] = near.asked if near is not None and alike else ()
    division: Division | None = None
    planned: tuple[Planned, ...] = ()
    for turn in range(ROUNDS):
        if asked:
            division = divided(asked, promise, choice.estimator.shares, spec.shares, spec.bounds_share)
            planned = tuple(_question(a, division) for a in asked)
        again, turns = rehearsed(spec, choice.estimator, public, planned, promise, turn + alike, asked, alike)
        if division is not None and (again == asked or (alike and _but_mechanisms(again) == _but_mechanisms(asked))):
            planned = tuple(_question(a, division) for a in again)
            break
        asked, alike = again, False
    else:
        raise PrivacyError("the questions of this plan depend on their own noise; please report the call")
    if design.lacking and rows is not None:
        stage0.check_enough(design.lacking, [p.promise for p in planned if p.name == BOUNDS], rows, spec.promise)
    about, each = assumed if rows is None else rows, spec.neighbors.rows_per_unit
    needed = gathering(again, choice, about, each, spec.model.by_parts)
    return Plan(spec, choice, public, promise, planned, division, turns, again, needed)


def _public(spec: Specification, rows: int | None, assumed: int | None) -> PublicFacts:
    """Return the public information about rows and columns that is available before any query.

    `rows` is the public number of rows or privacy units; if `rows` is None, because the number is private, forecasts
    use the number `assumed`. Columns without declared bounds have arbitrary bounds until the bounds are estimated.
    """
    by_unit = spec.neighbors.unit is not None
    offered = None if by_unit else rows
    design = spec.model.fitted_design(spec.model.bind(offered), spec.mech, spec.options)
    if design.lacking and rows is None:
        raise DomainError(
            f"{undeclared(dict.fromkeys(design.lacking, 'number'))} (no range is estimated where the number of rows is "
            "private)"
        )
    used = offered if design.complete and not design.lacking else None
    units = max(rows, 1) if by_unit and rows is not None else None
    most = spec.neighbors.rows_per_unit
    return PublicFacts(offered, used, units, by_unit, spec.intervals, design, assumed, most)


def _but_mechanisms(asked: tuple[Asked, ...]) -> list[Asked]:
    """Return queries without their mechanisms, so that their other properties can be compared."""
    return [replace(a, mechanism=None) for a in asked]


def _question(a: Asked, division: Division) -> Planned:
    """Return the planned form of the query `a` of a trial run: the query with its part of the privacy budget."""
    parts = tuple(division.fractions[a.label] / division.fractions[host] for host in a.optional)
    return Planned(a.label, a.name, a.kind, a.mechanism, a.branch, division.promises[a.label], a.optional, parts)


class Quick(Rehearsal):
    """A trial run of an estimator on synthetic rows, in which mechanisms are replaced by faster substitutes.

    Additive noise is replaced by normal noise with the same variances. A quantile released without a confidence
    interval is replaced by the value at a rank with a simulated error. A plan takes several rounds of trial runs, with
    one run for each method (see `rehearsed`). All trial runs of one round begin with the same queries and share the
    answers to these queries.

    Parameters
    ----------
    said : dict
        Cache of the answers to queries in the trial runs of this round.
    before : dict
        Queries of the previous round, by label.
    unaudited : set
        Labels of the queries that are still to be audited, that is, checked for contributions of a row that depend on
        other rows. If a query differs from the query with the same label in the previous round, the set is emptied,
        because all queries will be audited in a later round.
    whole : bool
        Whether the inference after the last query is also run, so that an error of the inference is found before any
        budget is spent.
    """

    def __init__(
        self,
        *args: Any,
        said: dict[Any, list[Release]],
        before: Mapping[str, Asked],
        unaudited: set[str],
        whole: bool,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._said, self._before, self._unaudited, self._whole_fit = said, before, unaudited, whole

    def choose(self, name: str, lengths: Mapping[str, float]) -> str:
        if self._whole_fit and self._forced is None:
            shortest(lengths)
        return super().choose(name, lengths)

    def close(self) -> None:
        super().close()
        if not self._whole_fit:
            raise _EndError

    def _look(self, question: Question) -> None:
        if self._before.get(question.label) != self.asked[-1]:
            self._unaudited.clear()
        elif question.label in self._unaudited:
            self._unaudited.remove(question.label)
            super()._look(question)

    def _answer(self, pairs: Pairs, promises: Sequence[Promise], relations: Sequence[Relation]) -> list[Release]:
        way = (self._optional, self._branch, len(self.asked), *(question.label for question, _ in pairs))
        if way not in self._said:
            quick = [(question, _quick(by)) for question, by in pairs]
            self._said[way] = super()._answer(quick, promises, relations)
        return self._said[way]


class _EndError(Exception):
    """Exception that ends a trial run of an estimator after the last query, before inference."""


def _quick(by: Any) -> Any:
    """Return a fast substitute for the mechanism `by` on synthetic rows, which need no protection.

    Mechanisms with additive noise, and mechanisms for quantiles without an interval, have a substitute; any other
    mechanism is returned unchanged.
    """
    if isinstance(by, Additive):
        return _NormalStandIn(by)
    return _RankStandIn(by) if isinstance(by, Rank) and by.confidence is None else by


@dataclass(frozen=True)
class _NormalStandIn:
    """Substitute for a mechanism with additive noise: it adds normal noise with the same variances."""

    by: Additive

    def release(self, name: str, exact: Total, promise: Promise, within: Any, relation: Relation, rng: Any) -> Release:
        """Return the exact value of a query plus normal noise, which has the variances of the mechanism's noise."""
        law = self.by.law(promise, within, relation)
        m = len(law.scale)
        noise = law.scale * np.sqrt(law.standard_variance(m)) * rng.standard_normal(m)
        return Release(name, exact.value() + noise, law, promise, within)


@dataclass(frozen=True)
class _RankStandIn:
    """Substitute for a mechanism that releases quantiles: it adds random errors to the ranks of the quantiles."""

    by: Rank

    def release(self, name: str, exact: Any, promise: Promise, within: Any, relation: Relation, rng: Any) -> Release:
        """Return quantiles of the values `exact`, after adding random errors to the ranks of the quantiles.

        The errors are drawn from the distribution of the mechanism's rank errors. A rank below the first value or
        beyond the last value gives the lower or upper bound of the set `within`.
        """
        law = self.by.law(promise, within, relation)
        values = np.sort(np.concatenate([np.zeros(0), *(part[:, 0] for part in exact.scan())]))
        ranks = np.sort(np.array(self.by.levels) * (len(values) + 1) + law.sample(rng, 1)[0])
        knots = np.r_[within.low, values, within.high]
        return Release(name, knots[np.clip(np.rint(ranks), 0, len(values) + 1).astype(int)], law, promise, within)


def rehearsed(
    spec: Specification,
    estimator: Any,
    public: PublicFacts,
    planned: Sequence[Planned],
    promise: Promise,
    turn: int,
    before: tuple[Asked, ...],
    audited: bool = False,
) -> tuple[tuple[Asked, ...], Turns]:
    """Run the estimator on synthetic rows; return its queries, and the numbers of passes over the rows by method.

    A plan takes several rounds of trial runs, since the queries and their budgets depend on each other. This function
    carries out one round, with one run for each branch (method) among which the estimator chooses. `turn` is the number
    of the round: the synthetic rows represent few rows if `turn` is even, and many rows if it is odd. `before` contains
    the queries of the previous round, and `planned` these queries with their budgets; both are empty in the first round
    of a new plan. Only this first round makes the computations after the last query, such as confidence intervals.
    `promise` is the budget of the whole fit.

    If the queries equal `before`, two checks are made. First, each query is audited:
    a row's contribution must not depend on other rows. Second, each branch with optional queries is run again without
    the optional queries, and must ask the same other queries. The checks are left out if `audited` is true, because the
    queries `before` passed the checks for another plan.

    Raises
    ------
    PrivacyError
        If two queries with the same label differ in their mechanism or belong to different branches, or if other
        queries depend on an optional query.
    """
    asked: dict[str, Asked] = {}
    chance = streams(turn, "rehearsal")("rehearsal", "all")
    audit = Audit.of(public.design, spec.neighbors, lambda *_: chance)
    said: dict[Any, list[Release]] = {}
    known = {a.label: a for a in before}
    unaudited = set() if audited else set(known)

    def talk(branch: str | None, optional: bool) -> Rehearsal:
        one = Quick(
            public.design,
            spec.neighbors,
            promise,
            lambda *_: chance,
            planned=planned,
            branch=branch,
            optional=optional,
            few=turn % 2 == 0,
            assumed=public.offered or public.units or public.assumed,
            audit=audit,
            shares=estimator.shares,
            said=said,
            before=known,
            unaudited=unaudited,
            whole=not planned,
        )
        with suppress(_EndError):
            spec.converse(one, public, estimator)
        for a in one.asked:
            if asked.setdefault(a.label, a) != a:
                raise PrivacyError(f"the question '{a.label}' is asked in two accountings, or in two branches")
        return one

    first = talk(None, True)
    branches = (None, *first.branches[1:])
    talks = [first, *(talk(branch, True) for branch in branches[1:])]
    found = tuple(asked.values())
    turns: Turns = {one.chosen: tuple(one.turns) for one in talks}
    if found != before or audited:
        return found, turns
    for branch, whole in zip(branches, talks, strict=True):
        needed = {a.label for a in whole.asked if not a.optional}
        if len(needed) < len(whole.asked) and {a.label for a in talk(branch, False).asked} != needed:
            raise PrivacyError("the questions of this plan depend on an optional question; please report the call")
    return found, turns


def _check_delta(promise: Promise, rows: int | None) -> None:
    """Raise an error if delta exceeds 1 / (number of rows); such a delta would allow rows to be published unchanged.

    Nothing is checked if the number of rows is not known.
    """
    if isinstance(promise, ApproxDP) and rows and promise.delta * rows > 1:
        raise BudgetError(
            f"delta = {promise.delta:g} would allow about {promise.delta * rows:.0f} of the {rows:,} rows to be "
            f"published as they are; choose delta at most 1/n, such as delta={min(1e-6, 10.0 ** -len(str(rows))):.0e}"
        )


def _of_terms(term: str | None, names: Sequence[str]) -> NDArray[np.bool_]:
    """Return a mask of the terms in `names`: True for `term` or, without a `term`, for all terms but the intercepts.

    If `term` is None and the model has only intercepts, the mask is True for all intercepts.
    """
    if term is None:
        slopes = np.array([name.partition("[")[0] != "Intercept" for name in names])
        return slopes if slopes.any() else ~slopes
    if term not in names:
        raise OptionError(f"term is {quote(term)}; choose among {', '.join(map(repr, names))}")
    return np.array([name == term for name in names])


def _positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise OptionError(f"{name} is {quote(value)}; give a positive number, such as {name}=0.1")
    return float(value)
