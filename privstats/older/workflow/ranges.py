"""Stage 0: ranges for the factors that lack bounds, bought before the design exists and inside the same charge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from privstats.errors import DomainError
from privstats.mechanisms.random import public_stream
from privstats.older.formula.bare import BareFactor
from privstats.older.formula.declarations import Numbers
from privstats.older.formula.domain import Domain
from privstats.older.formula.factors import derived
from privstats.older.formula.interval import Interval
from privstats.older.gate.gate import Gate, Speaker, Turn
from privstats.older.gate.rehearsal import Rehearsal
from privstats.older.gate.rows import MemoryRows
from privstats.older.mechanisms import Mechanism
from privstats.older.privacy.neighbors import Neighbors
from privstats.older.privacy.release import Release
from privstats.older.workflow.stage0 import ENOUGH, buy_range

QUESTIONS = 2  # a range: where the factor lies, how far it spreads


def rehearse(
    codes: tuple[str, ...], domain: Domain, neighbors: Neighbors, mechanisms: Mapping[str, Callable[[float], Speaker]]
) -> tuple[Turn, ...]:
    """Return the turns that buying these factors' ranges takes."""
    turns: tuple[Turn, ...] = ()
    for code in codes:
        rehearsal = Rehearsal(BareFactor(code, domain), neighbors, mechanisms, public_stream)
        buy_range(rehearsal.ask, code)
        turns += rehearsal.turns
    return turns


def placeholder(codes: tuple[str, ...], domain: Domain) -> Domain:
    """Return the domain with made-up bounds for these factors: enough to plan, not to fit."""
    return domain.extended(dict.fromkeys(codes, Numbers(-1.0, 1.0)))


def check_enough(codes: tuple[str, ...], mechanisms: tuple[Mechanism, ...], n: int) -> None:
    """Refuse, from public facts, ranges that too few rows or too small a budget would get wrong.

    Raises
    ------
    DomainError
        Naming the factor and the cure.
    """
    for number, code in enumerate(codes):
        paid = sum(part.event.pure() for part in mechanisms[QUESTIONS * number : QUESTIONS * (number + 1)])
        if n * paid < ENOUGH:
            raise DomainError(
                f"'{code}' has no finite bounds on the domain; declare domain={{'{code}': (low, high)}} from public "
                f"knowledge, or domain={{'{code}': ['first level', 'second level', ...]}} if it is text or a category. "
                f"(Buying its range needs rows x eps >= {ENOUGH:g} for it; here they are {n * paid:.0f}.)"
            )


def check_numeric(codes: tuple[str, ...], domain: Domain, data: pd.DataFrame) -> None:
    """Refuse to buy a range for text; looks at dtypes only, which are public.

    Raises
    ------
    DomainError
        Naming the column and the cure.
    """
    for code in codes:
        for name in BareFactor(code, domain).reads:
            if name not in domain and (not is_numeric_dtype(data[name].dtype) or is_bool_dtype(data[name].dtype)):
                raise DomainError(
                    f"'{name}' is no numeric column: give domain={{'{name}': ['first level', 'second level', ...]}}"
                )


def buy(
    codes: tuple[str, ...],
    domain: Domain,
    data: pd.DataFrame,
    paid: list[tuple[Turn, Mechanism]],
    neighbors: Neighbors,
    chance: Callable[[int], Any],
) -> tuple[Domain, tuple[Release, ...]]:
    """Return the domain with the bought ranges, and what was released to find them."""
    bought: dict[str, Numbers] = {}
    releases: tuple[Release, ...] = ()
    for number, code in enumerate(codes):
        start = QUESTIONS * number
        rows = MemoryRows(data, BareFactor(code, domain), neighbors)
        gate = Gate(rows, paid[start : start + QUESTIONS], partial(shifted, chance, start))
        bought[code] = _inside(derived(code, domain), *buy_range(gate.ask, code))
        releases += gate.releases
    return domain.extended(bought), releases


def _inside(known: Interval, low: float, high: float) -> Numbers:
    """Return a range held inside what is known anyway; one that misses it altogether moves to the nearer end.

    So no release, however far off, can make the design contradictory and the fit fail after it was paid for.
    """
    if max(low, known.lo) < min(high, known.hi):
        return Numbers(max(low, known.lo), min(high, known.hi))
    width = high - low
    return Numbers(known.lo, known.lo + width) if high <= known.lo else Numbers(known.hi - width, known.hi)


def shifted(chance: Callable[[int], Any], start: int, index: int) -> Any:
    """Return stream `start` + `index`: the questions of one fit are numbered through."""
    return chance(start + index)
