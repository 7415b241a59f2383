"""From a request and a domain to the row-wise map that rows will go through, and to what everybody may know."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np

from privstats.errors import DomainError, FormulaError, PrivacyError
from privstats.older.estimators.base import Facts, Place
from privstats.older.formula.columns import Columns, Component, bind_columns, finest, finest_step
from privstats.older.formula.declarations import Numbers
from privstats.older.formula.design import Design, bind
from privstats.older.formula.domain import Domain, as_domain
from privstats.older.formula.factors import LevelFactor, NumericFactor
from privstats.older.formula.stacked import Stacked
from privstats.older.formula.terms import lacking
from privstats.older.mechanisms import MECHANISMS
from privstats.older.sets.moments import GROUP_NORMS
from privstats.older.workflow.request import Request, is_number

THETA_BOUND = 2.0  # of |theta|_1 in scaled units, where a mechanism needs a parameter set and none is declared
REGRESSIONS = ("lm", "glm", "rq")
TITLES = {"lm": "regression", "huber": "robust regression", "rq": "quantile regression", "hist": "histogram"}
UNBOUNDED = (
    ("huber", "newton"),
    ("glm", "newton"),
    ("rq", "newton"),
)  # algorithms that need no bounds of columns with a known scale
OF_LEVELS = ("mode", "hist")  # verbs that take columns with levels
MOST_BINS = 100_000
NEARLY = 1e-6  # of a declared step: .3 and 3 times .1 are different floats


def bound_to(request: Request, domain: Domain) -> Design | Columns:
    """Return the row-wise map of a request; looks at no data.

    In a regression, dummies of one factor are kept together where the noise gains from it.
    """
    if request.verb not in REGRESSIONS:
        columns = bind_columns(request.formula, domain, request.subset, _components(request, domain))
        _refuse_scales(domain, columns.reads)
        return columns
    mech, noise = request.algorithm
    grouped = mech == "suffstats" and MECHANISMS[noise].norm in GROUP_NORMS
    design = bind(request.formula, domain, request.subset, request.weights, request.offset, grouped, request.linked)
    if (request.model, mech) not in UNBOUNDED:
        _refuse_scales(domain, design.reads)
    return design


def title_of(request: Request) -> str:
    """Return what is fitted, in words."""
    family = request.linked
    if family is not None:
        return f"{family.name} regression, {family.link} link"
    return TITLES.get(request.model, request.verb)


def _refuse_scales(domain: Domain, reads: tuple[str, ...]) -> None:
    if scaled := domain.scaled(reads):
        raise DomainError(
            f"'{scaled[0]}' is declared by its scale, which only robust regressions under mu can do with; "
            f"declare its bounds (low, high)"
        )


def _numbers(bins: Any) -> tuple[float, ...]:
    """Return edges of bins as numbers; nothing if they are none."""
    try:
        return () if isinstance(bins, str) else tuple(float(edge) for edge in bins)
    except (TypeError, ValueError):
        return ()


def shown(request: Request, design: Design | Columns) -> Design | Columns | Stacked:
    """Return the map of what is reported: with several orders of a quantile regression, one for each."""
    if request.verb == "rq" and isinstance(design, Design) and len(request.orders) > 1:
        return Stacked(design, request.orders)
    return design


def domain_of(request: Request) -> Domain:
    """Return the declared domain; edges of bins are bounds of a column that has none."""
    domain = as_domain(request.domain)
    edges = _numbers(request.bins) if request.verb in OF_LEVELS else ()
    if len(edges) < 2 or not -np.inf < edges[0] < edges[-1] < np.inf:
        return domain
    return domain.extended({code: Numbers(edges[0], edges[-1]) for code in lacking(request.formula, domain)})


def facts_of(request: Request, design: Design | Columns, n: int | None) -> Facts:
    """Return what everybody may know of a fit to `n` rows, None where their number is private."""
    known = Facts(
        n=n,
        columns=len(design.targets) if isinstance(design, Columns) else len(design.names) - design.intercept,
        intercept=isinstance(design, Design) and design.intercept,
        complete=design.complete,
        neighbors=request.promise.neighbors,
        currency="mu" if request.mu is not None else "delta" if request.delta else "eps",
        names=design.names,
        inference=request.inference == "sandwich",
    )
    if isinstance(design, Columns):
        return replace(
            known,
            places=_places(request, design),
            cells=design.group_levels,
            q=request.orders,
            confidence=request.confidence,
            edges=_edges(request, design),
            density=request.density,
            eta=request.eta,
            joint=request.geometric,
        )
    family, mech = request.linked, request.algorithm[0]
    return replace(
        known,
        weighted=request.weights is not None,
        groups=design.groups,
        robust=request.covariance == "HC",
        theta_bound=request.theta_bound or (THETA_BOUND if family is None else math.inf),
        split=request.split,
        ridge=request.ridge,
        q=request.orders if request.verb == "rq" else (0.5,),
        family=None if family is None else replace(family, unit=float(design.y_scaling.half[0])),
        bounded=not domain_of(request).scaled(design.reads),
        margins=request.margins,
        dummies=design.dummies if request.margins or mech == "newton" else (),
        offset=None if design.offset is None else (design.offset.within.lo, design.offset.within.hi),
        usual=_usual(design) if (request.model, request.algorithm[0]) in UNBOUNDED else (),
    )


def _usual(design: Design) -> tuple[tuple[float, float], ...]:
    """Return centre and standard deviation of what predictors, and at last the response, usually are when scaled."""
    return tuple(
        (float(centre), float(unit))
        for part in design.usual
        for centre, unit in zip(part.middle, part.half, strict=True)
    )


def _components(request: Request, domain: Domain) -> tuple[Component, ...]:
    """Return the names of the numbers that are reported of each column."""
    if request.verb == "quantile" and len(request.orders) > 1:
        return request.orders
    if request.verb == "hist":
        columns = bind_columns(request.formula, domain, request.subset)
        part = columns.targets[0]
        if isinstance(part, LevelFactor):
            return columns.levels(part)
        edges = _edges(request, columns)
        closed = ")" * (len(edges) - 2) + "]"
        short = [f"{edge:g}" for edge in edges]
        texts = short if len(set(short)) == len(short) else [repr(edge) for edge in edges]
        return tuple(f"[{low}, {high}{end}" for (low, high), end in zip(pairwise(texts), closed, strict=True))
    return (None,)


def _places(request: Request, columns: Columns) -> tuple[Place, ...]:
    places = []
    if isinstance(request.grid, Mapping) and not request.grid.keys() <= {part.code for part in columns.targets}:
        raise PrivacyError("grid names a column that the formula does not ask about")
    for part in columns.targets:
        if isinstance(part, LevelFactor):
            if request.verb not in OF_LEVELS:
                raise FormulaError(f"'{part.code}' has levels; dp_{request.verb} needs numbers with bounds (low, high)")
            levels = columns.levels(part)
            places.append(Place(part.code, 0.0, len(levels) - 1.0, 1.0, levels=len(levels)))
        else:
            low, high, step = part.within.lo, part.within.hi, _step(request, part)
            fine = finest_step(part.within)
            near = fine / 2 if step is None else step * NEARLY
            places.append(Place(part.code, low, high, step or fine, near, step is not None))
    return tuple(places)


def _step(request: Request, part: NumericFactor) -> float | None:
    """Return the declared step of the grid on which a column's values lie."""
    step = request.grid.get(part.code) if isinstance(request.grid, Mapping) else request.grid
    if step is None:
        return None
    low, high = part.within.lo, part.within.hi
    if not (is_number(step) and finest(part.within) <= step <= high - low and np.floor(high / step) * step >= low):
        raise PrivacyError(
            f"grid must be the step between the possible values of '{part.code}': a positive number, less than its "
            "range, of which a multiple lies there"
        )
    return float(step)


def _edges(request: Request, columns: Columns) -> tuple[float, ...]:
    """Return the edges of the bins that are wanted; of positions, where the column has levels."""
    if request.verb not in OF_LEVELS:
        return ()
    if len(columns.targets) > 1:
        raise FormulaError(f"dp_{request.verb} takes one column at a time")
    part, bins = columns.targets[0], request.bins
    if isinstance(part, LevelFactor):
        if bins is not None:
            raise PrivacyError(f"'{part.code}' has levels, which are its bins: leave out bins=")
        return tuple(float(edge) for edge in np.arange(len(columns.levels(part)) + 1) - 0.5)
    low, high, step = part.within.lo, part.within.hi, _step(request, part)
    if bins is None and step is not None and request.verb == "mode" and (high - low) / step < MOST_BINS:
        points = np.arange(np.ceil(low / step), np.floor(high / step) + 2)
        bins = [
            min(low, (points[0] - 0.5) * step),
            *((points[1:-1] - 0.5) * step),
            max(high, (points[-1] - 0.5) * step),
        ]
    if isinstance(bins, Integral) and not isinstance(bins, bool) and 0 < bins <= MOST_BINS:
        return tuple(float(edge) for edge in np.linspace(low, high, int(bins) + 1))
    edges = _numbers(bins)
    if not 2 <= len(edges) <= MOST_BINS + 1 or not all(-np.inf < a < b < np.inf for a, b in pairwise(edges)):
        what = " (or grid=, the step between its possible values; or give its levels)" if request.verb == "mode" else ""
        raise PrivacyError(f"bins must be a number of bins, or their edges in ascending order{what}")
    if edges[0] > low or edges[-1] < high:
        raise DomainError(f"the bins do not cover the domain of '{part.code}', which is ({low:g}, {high:g})")
    return edges
