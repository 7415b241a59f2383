"""Weighted means of the estimates of several private fits of the same model.

The functions check that the fits may be averaged, and combine the public information about the fits.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from privstats.errors import OptionError, listed, quote
from privstats.inference.combine import of_fits, pooled
from privstats.privacy.account import Account
from privstats.privacy.composition import on_disjoint_rows, on_same_rows
from privstats.results.facts import COMBINED, FitFacts
from privstats.results.results import Results

OF_ROWS = ("disjoint", "same")
COUNTED = "hist"  # dp_hist is the only function whose estimates describe the rows of the data and not a population

# Facts that must be equal in all fits, so that all fits estimate the same population values.
COMMON: dict[str, Callable[[FitFacts], Any]] = {
    "function": lambda facts: f"dp_{facts.verb}",
    "model": lambda facts: facts.title,
    "formula": lambda facts: facts.formula,
    "subset=": lambda facts: facts.subset,
    "weights=": lambda facts: facts.weights,
    "offset=": lambda facts: facts.offset,
    "link=": lambda facts: facts.link,
    "cov_type=": lambda facts: facts.cov_type,
    "unit=": lambda facts: facts.neighbors.unit,
}


def combined_fits(fits: Sequence[Results], rows: str) -> Results:
    """Return the mean of the estimates of several fits of the same model, weighted by the precision of the estimates.

    `rows` is "disjoint" if no privacy unit has rows in the data of two fits, and "same" if all fits are of the same
    rows. With "same", the sampling error is left out of the precision, because it is common to all fits.
    """
    if rows not in OF_ROWS:
        raise OptionError(
            f"rows is {quote(rows)}; write rows='disjoint' if no unit has rows in two of the fits, or rows='same' if "
            "all are of the same rows"
        )
    if len(fits) < 2 or not all(isinstance(fit, Results) for fit in fits):
        raise OptionError("combine takes a list of two fits or more; write ps.combine([fit1, fit2], rows='disjoint')")
    same = rows == "same"
    _check_plans(fits)
    _check_chance(fits)
    (_check_same if same else _check_disjoint)(fits)
    estimate = pooled([fit.estimate for fit in fits], same)
    facts = _facts(fits, same)
    releases = tuple(release for fit in fits for release in fit.releases)
    return Results(estimate, facts, releases, _account(fits, facts))


def _check_plans(fits: Sequence[Results]) -> None:
    """Raise an error if two fits estimate different population values."""
    first = fits[0]
    for fit in fits[1:]:
        for what, of in COMMON.items():
            if of(fit.facts) != of(first.facts):
                raise _different(of(first.facts), of(fit.facts), what)
        if (fit.facts.labels, fit.estimate.names) != (first.facts.labels, first.estimate.names):
            raise _different(listed(first.names), listed(fit.names), "coefficients")
    bounds = [name for fit in fits for name, _, _ in fit.facts.estimated_bounds]
    if bounds:
        raise OptionError(
            f"the bounds of '{bounds[0]}' were estimated separately in each fit, so that the fits have different "
            f"columns; write domain={{'{bounds[0]}': (low, high)}} in each"
        )
    if any(fit.domain != first.domain for fit in fits):
        raise OptionError("the fits have different domains; give each the same domain=, such as domain=fit1.domain")


def _different(one: object, other: object, what: str) -> OptionError:
    return OptionError(
        f"the fits differ in their {what.removesuffix('=')}: {one} and {other}; combine fits of one call, as in "
        '[ps.dp_lm("y ~ x", site, eps=1, domain=domain) for site in sites]'
    )


def _check_chance(fits: Sequence[Results]) -> None:
    """Raise an error if one fit is given twice or two fits have the same seed: their noise is then not independent."""
    given = [release for fit in fits for release in fit.releases]
    seeds = [fit.facts.seeded for fit in fits if isinstance(fit.facts.seeded, int)]
    if len(set(map(id, given))) < len(given) or _repeated(fits):
        raise OptionError("a fit is combined with itself; name each fit once")
    if len(set(seeds)) < len(seeds):
        raise OptionError(f"two fits have the same seed, and so perhaps the same noise; leave rng={seeds[0]} out")


def _repeated(fits: Sequence[Results]) -> bool:
    """Return whether two of the fits are copies of each other.

    Two fits count as copies if their noisy values are equal in all releases whose noise has a public scale.
    """
    values = [[one.value.tobytes() for one in fit.releases if hasattr(one.law, "scale")] for fit in fits]
    known = [tuple(value) for value in values if value]
    return len(set(known)) < len(known)


def _check_disjoint(fits: Sequence[Results]) -> None:
    """Raise an error if the fits are histograms, or if two fits were charged to one ledger and so use one data set.

    The estimates of a histogram are counts of the rows of the data, and counts of disjoint rows are added, not
    averaged.
    """
    if fits[0].facts.verb == COUNTED:
        raise OptionError(
            "dp_hist estimates the counts of its own rows, and counts of disjoint rows add up; write fit1.params + "
            "fit2.params"
        )
    shared = [ledger for fit in fits for ledger in fit.facts.ledgers]
    if len(set(shared)) < len(shared):
        raise OptionError(
            "two fits are charged to one ledger, so they are of one data set; write rows='same' if they are of the "
            "same rows, or keep a ledger for each site"
        )


def _check_same(fits: Sequence[Results]) -> None:
    """Raise an error if two fits have different public numbers of rows, or of privacy units.

    Such fits cannot have been computed from the same rows.
    """
    for numbers, what in ([fit.facts.rows for fit in fits], "rows"), ([fit.facts.units for fit in fits], "units"):
        known = sorted({n for n in numbers if n is not None})
        if len(known) > 1:
            raise OptionError(
                f"the fits have {known[0]:,} and {known[-1]:,} {what}, so they are not of the same rows; write "
                "rows='disjoint' if no unit has rows in two of them"
            )


def _account(fits: Sequence[Results], facts: FitFacts) -> Account:
    """Return the account to which all fits were charged, if they share a ledger.

    Otherwise return a new account whose budget is the total guarantee of the fits, and to which this total is charged.
    """
    if facts.shared:
        return fits[0].account
    account = Account(facts.promise)
    account.charge((("combined", facts.promise),), f"dp_{facts.verb} {facts.formula}", COMBINED)
    return account


def _facts(fits: Sequence[Results], same: bool) -> FitFacts:
    """Return the public information about the weighted mean of the fits, such as its method, guarantee and notes.

    `same` is True if all fits are of the same rows, and False if they are of disjoint rows.
    """
    every = [fit.facts for fit in fits]
    unit = every[0].neighbors.unit or "row"
    promises = [facts.promise for facts in every]
    seeds = [str(facts.seeded) for facts in every if facts.seeded is not None]
    missing = frozenset(name for fit in fits for name in fit.estimate.names)
    declared = (
        (f"all fits are of the same {unit}s (declared)",)
        if same
        else (f"no {unit} is in two fits (declared); each fit estimates the same population values",)
    )
    shared = all(facts.shared for facts in every) and len({facts.ledgers for facts in every}) == 1
    together = on_same_rows if same else on_disjoint_rows
    promise, kept = together(promises), together([facts.kept or facts.promise for facts in every])
    books = dict.fromkeys(fit.account.book.name for fit in fits if fit.facts.shared)
    return replace(
        every[0],
        promise=promise,
        kept=None if kept == promise else kept,
        mech=COMBINED,
        mech_words=f"{len(fits)} fits {'of the same rows' if same else 'of disjoint rows'}",
        noise=None,
        why=f"weighted by the precision of {'their noise' if same else 'each'}: {_described(every)}",
        rows=_number([facts.rows for facts in every], same),
        units=_number([facts.units for facts in every], same),
        used=_used(every, same),
        complete=all(facts.complete for facts in every),
        assumes=(*declared, *every[0].assumes),
        budget=(),
        accounted=None,
        seeded=", ".join(dict.fromkeys(seeds)) if seeds else None,
        shared=shared,
        ledgers=tuple(dict.fromkeys(ledger for facts in every for ledger in facts.ledgers)),
        digest="",
        accepted=(),
        charged="" if shared or not books else f"each fit has its own: {listed(list(books))}",
        notes=of_fits([facts.notes for facts in every], missing),
    )


def _described(every: Sequence[FitFacts]) -> str:
    """Return the methods and budgets of the fits in words; equal descriptions appear once, with the number of fits."""
    kinds = Counter(
        f"{facts.mech} with {facts.promise.budget}{'' if facts.rows is None else f', {facts.rows:,} rows'}"
        for facts in every
    )
    several = [kind if count == 1 else f"{count} times {kind}" for kind, count in kinds.items()]
    return "; ".join([*several[:5], *([f"{len(several) - 5} more"] if len(several) > 5 else [])])


def _number(numbers: Iterable[int | None], same: bool) -> int | None:
    """Return the number of rows (or privacy units) of all fits together; None if the number is private for any fit.

    The result is the sum of the numbers for fits on disjoint rows, and the common number for fits on the same rows.
    """
    known = list(numbers)
    if any(n is None for n in known):
        return None
    return known[0] if same else sum(n for n in known if n is not None)


def _used(every: Sequence[FitFacts], same: bool) -> tuple[float, float] | None:
    """Return the number of rows on which a combined fit is based, from released numbers, and its standard error.

    If all fits use the same rows (`same` is true), their released numbers of rows used are averaged with weights
    1 / variance. If the fits use disjoint rows, their numbers of rows used are added. The result is None if all fits
    are known to use every row. It is also None if the number of rows used is unreleased for all fits or, with disjoint
    rows, for at least one fit.
    """
    counts = [(facts.used_value, 0.0 if facts.used is None else facts.used[1]) for facts in every]
    values, sds = np.array(counts).T
    if all(facts.complete for facts in every) or np.isnan(values).all() or (np.isnan(values).any() and not same):
        return None
    if not same:
        return float(values.sum()), float(np.sqrt((sds**2).sum()))
    known = ~np.isnan(values) & (sds > 0)
    weights = 1 / sds[known] ** 2
    return float(weights @ values[known] / weights.sum()), float(1 / math.sqrt(weights.sum()))
