"""Notes of a fit about unused rows, weights, rows per privacy unit, dates, and a response at its bound.

The notes are computed from releases and public information.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privstats.errors import listed
from privstats.estimators.base import PublicFacts
from privstats.formula.declarations import Dates, Levels
from privstats.formula.schema import names_read
from privstats.inference.estimate import product_parts
from privstats.inference.notes import SYMPTOMS, Note, about_rows, note, percent
from privstats.workflow.plan import Plan

CLEAR = 3.0  # a count of unused rows below this many standard errors is attributed to noise
UNUSED = 0.05  # a note is shown if more than this share of the rows is not used
NEARLY_ALL = 0.9  # if more than this share of the rows is not used, the note names a declaration as the probable cause
SMALL_WEIGHT = 0.2  # a note is shown if the mean weight, divided by the upper bound of the weights, is below this
AT_BOUND = 0.02  # predictions within this distance of a bound of the response, in half-ranges, count as at the bound
FULL = 0.8  # a note is shown if the mean number of used rows per unit exceeds this share of `rows_per_unit`


def remarks(plan: Plan, public: PublicFacts, estimate: Any) -> tuple[Note, ...]:
    """Return a fit's notes about unused rows, weights, rows per privacy unit, dates, and a response at its bound."""
    return (
        *_unused_rows(plan, public, estimate),
        *_small_weights(plan, public, estimate),
        *_rows_per_unit(plan, public, estimate),
        *_dates(plan, public, estimate),
        *_response_at_bound(plan, public, estimate),
    )


def _unused_rows(plan: Plan, public: PublicFacts, estimate: Any) -> tuple[Note, ...]:
    """Return a note if many rows were not used; no note if the call has the argument `subset`, which excludes rows."""
    rows, (used, sd) = public.offered, _released(estimate, "rows used")
    if rows is None or plan.specification.model.subset is not None or not rows - used > max(CLEAR * sd, UNUSED * rows):
        return ()
    share = 1 - used / rows
    domain = public.design.domain
    coded = [name for name in public.design.reads if isinstance(domain.get(name), Levels)]
    if share > NEARLY_ALL and coded:
        factors = listed([f"'{name}'" for name in coded])
        about = _not_given(estimate)
        return (note("no level", about, factors=factors, count=about_rows(used), rows=rows, sd=sd, column=coded[0]),)
    question = " Is a text column declared with bounds?" if share > NEARLY_ALL else ""
    return (note("unused rows", share=percent(share).capitalize(), question=question),)


def _small_weights(plan: Plan, public: PublicFacts, estimate: Any) -> tuple[Note, ...]:
    """Return a note if the mean weight is far below the declared bound of weights and an estimate is imprecise.

    The mean weight is computed from the released sum of weights. An estimate counts as imprecise if the fit has a note
    on weak information, such as a note on collinear columns or rare levels.
    """
    rows, (used, sd) = public.offered, _released(estimate, "weights used")
    if rows is None or not used + CLEAR * sd < SMALL_WEIGHT * rows:
        return ()
    if not any(one.key in SYMPTOMS for one in estimate.notes):
        return ()
    weights, largest = plan.specification.written["weights"], public.design.largest_weight
    share, mean = percent(used / rows), largest * used / rows
    numbers = {"rows": rows, "share": share, "weights": weights, "largest": largest, "mean": mean}
    return (note("small weights", _not_given(estimate), **numbers),)


def _rows_per_unit(plan: Plan, public: PublicFacts, estimate: Any) -> tuple[Note, ...]:
    """Return a note if the mean number of used rows per privacy unit is close to its limit, `rows_per_unit`.

    Some units then probably have more than `rows_per_unit` rows, and their additional rows are not used.
    """
    used, _ = _released(estimate, "rows used")
    most, unit = public.rows_per_unit, plan.specification.neighbors.unit
    if unit is None or public.units is None or not used > FULL * most * public.units:
        return ()
    several = f"{most} row{'s' if most > 1 else ''}"
    return (note("rows per unit", unit=unit, most=several, each=min(used / public.units, float(most))),)


def _dates(plan: Plan, public: PublicFacts, estimate: Any) -> tuple[Note, ...]:
    """Return notes which say that dates used as numbers are counted in days since an origin; one note for each origin.

    The notes name the columns of dates. A term, or a part of an interaction, with a quotation mark in its name
    compares a date with a text. Such terms and parts are left out, because their unit is not days. Histograms need no
    note, because their bins are labelled with dates.
    """
    if plan.specification.verb == "hist":
        return ()
    domain, found = public.design.domain, dict[Any, list[str]]()
    parts = [part for name in estimate.names for part in product_parts(name) if "'" not in part]
    for name in names_read(parts):
        if isinstance(known := domain.get(name), Dates):
            found.setdefault(known.origin, []).append(name)
    return tuple(note("dates", column=listed(names), origin=day) for day, names in found.items())


def _response_at_bound(plan: Plan, public: PublicFacts, estimate: Any) -> tuple[Note, ...]:
    """Return a note if a linear regression gives hardly any other value than one of the bounds of its response.

    The declared bounds are then probably wrong, for instance in other units than the data. The note is given if noise
    hides the standard deviation of the response, and if all predictions within the bounds of the predictors differ from
    one bound by at most `AT_BOUND` half-ranges.
    """
    design = public.design
    if plan.specification.verb != "lm" or not design.intercept or design.offset:
        return ()
    if not math.isnan(estimate.diagnostics.get("response_sd", 0.0)):  # the std dev is visible, or was not asked for
        return ()
    matrix, shift, _ = design.to_written()
    if not np.isfinite(estimate.theta).all():
        return ()
    theta = np.linalg.lstsq(matrix, estimate.theta - shift, rcond=None)[0]
    middle, spread = theta[0], np.abs(theta[1:]).sum()  # in half-ranges of the response, from the middle of its bounds
    if not 1 - abs(middle) + spread <= AT_BOUND:
        return ()
    bound = design.response_center + math.copysign(design.response_half, middle)
    return (note("response at bound", name=design.response, bound=bound),)


def _released(estimate: Any, name: str) -> tuple[float, float]:
    """Return the released count `name` and its standard error; NaN for both if the count was not released."""
    found = estimate.diagnostics
    return float(found.get(name, math.nan)), float(found.get(f"{name} sd", math.nan))


def _not_given(estimate: Any) -> list[str]:
    return [name for name, value in zip(estimate.names, estimate.params(), strict=True) if math.isnan(value)]
