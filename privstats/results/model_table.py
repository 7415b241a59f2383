"""Fits side by side: one column a fit, standard errors in parentheses, guarantees and the total price below."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privstats.errors import BudgetError, OptionError, quote
from privstats.privacy.composition import on_same_rows
from privstats.results.facts import FitFacts
from privstats.results.formats import Sheet
from privstats.results.header import implied
from privstats.results.results import Results
from privstats.results.text import NAME, RULE, WIDTH, counted, decimals, filled, indented, number

FORMATS = ("text", "markdown", "latex", "html", "csv")
BETWEEN = 3  # columns between two models
STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
STARRED = "Stars: * P < 0.05, ** P < 0.01, *** P < 0.001."


class ModelTable(str):
    """A table as text; a notebook shows it as HTML."""

    html: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class SideBySide:
    """Fits and how they are to be shown.

    Parameters
    ----------
    fits : sequence of Results
    names : tuple of str
        Heads of their columns.
    rename : mapping of str to str
        Of terms.
    stars : bool
    digits : int
    """

    fits: Sequence[Results]
    names: tuple[str, ...]
    rename: Mapping[str, str]
    stars: bool
    digits: int

    @property
    def response(self) -> str:
        """The response of all fits; empty if they have different ones."""
        several = {fit.model.endog_names for fit in self.fits}
        return next(iter(several)) if len(several) == 1 else ""

    def terms(self) -> tuple[tuple[str, ...], ...]:
        """Return a row a term: its name, and what each fit has of it."""
        columns = [self._cells(fit) for fit in self.fits]
        names = dict.fromkeys(name for column in columns for name in column)
        return tuple((name, *(column.get(name, "") for column in columns)) for name in names)

    def _cells(self, fit: Results) -> dict[str, str]:
        value, sd, p = fit.estimate.params(), fit.estimate.bse(), fit.estimate.pvalues()
        levels = fit.facts.levels or (None,) * len(value)
        shown = fit.params.tolist()
        cells = {}
        for k, name in enumerate(fit.names):
            if math.isnan(value[k]):
                cell = "not given"
            elif levels[k] is not None:
                cell = str(shown[k])
            else:
                places = decimals(sd[k], value[k], self.digits)
                error = "no interval" if math.isnan(sd[k]) else number(sd[k], places)
                cell = f"{number(value[k], places)} ({error})"
                if self.stars and fit.facts.tested:
                    cell += next((mark for level, mark in STARS if p[k] < level), "")
            cells[self._named(name)] = cell
        return cells

    def _named(self, name: str) -> str:
        """Return the name of a term; of several parts, as x[0.5], the first is renamed."""
        term = max((old for old in self.rename if name == old or name.startswith(f"{old}[")), key=len, default=None)
        return name if term is None else self.rename[term] + name.removeprefix(term)

    def facts(self) -> tuple[tuple[str, ...], ...]:
        """Return the rows below the terms: responses where they differ, numbers of rows, guarantees."""
        several = [fit.facts for fit in self.fits]
        responses = () if self.response else (("Response", *(fit.model.endog_names for fit in self.fits)),)
        rows, private = [_rows(facts) for facts in several], any(facts.rows is None for facts in several)
        guarantees = [facts.promise.budget if facts.seeded is None else "seeded" for facts in several]
        return (*responses, ("Rows" if private else "Rows (public)", *rows), ("Guarantee", *guarantees))

    def foot(self) -> str:
        """Return what all fits cost together, and what stands in parentheses."""
        kinds = {fit.facts.cov_type for fit in self.fits}
        kind = f" ({next(iter(kinds))})" if len(kinds) == 1 and kinds != {None} else ""
        legend = [f"In parentheses: std errors{kind}, noise included."]
        return " ".join((*_total(self.fits), *legend, *([STARRED] if self.stars else [])))

    def sheet(self, corner: str = "") -> Sheet:
        """Return the table, with a text in its corner; without one, the caption names the response."""
        title, about = (
            ("", "") if corner else ("Response", self.response) if self.response else ("Fits side by side", "")
        )
        below = (("", self.foot()),)
        return Sheet(title, about, (corner, *self.names), self.terms(), self.facts(), below=below, key="models")

    def as_text(self) -> str:
        """Return lines of at most 80 columns, as many models beside one another as there is room for."""
        terms, facts = self.terms(), self.facts()
        rows = (*terms, *facts)
        widths = [BETWEEN + max(len(self.names[k]), *(len(row[k + 1]) for row in rows)) for k in range(len(self.fits))]
        longest = 1 + max(len(row[0]) for row in rows)
        name = min(NAME - 1, max(longest, WIDTH - sum(widths)))  # narrower where all models have room then
        lines = [f"Response: {self.response}"] if self.response else []
        first = 0
        while first < len(widths):
            last = first + 1
            while last < len(widths) and name + sum(widths[first : last + 1]) <= WIDTH:
                last += 1
            some = range(first, last)
            head = "".join(_ending(self.names[k], widths[k], 2) for k in some)
            lines += [(" " * name + head).rstrip()]
            for before, label, row in _labelled(terms, name):
                lines += [*before, (label + "".join(_ending(row[k + 1], widths[k], 0) for k in some)).rstrip()]
            lines.append(RULE)
            for before, label, row in _labelled(facts, name):
                lines += [*before, (label + "".join(_ending(row[k + 1], widths[k], 1) for k in some)).rstrip()]
            lines.append(RULE)
            first = last
        return "\n".join((*lines, *filled(self.foot())))


def _labelled(rows: Sequence[tuple[str, ...]], width: int) -> list[tuple[list[str], str, tuple[str, ...]]]:
    """Return for each row the lines before it, its name as wide as all names, and the row."""
    names = indented([row[0] for row in rows], width)
    return [(before, name.ljust(width), row) for (before, name), row in zip(names, rows, strict=True)]


def _ending(text: str, width: int, before: int) -> str:
    """Return a cell whose text ends so many columns before those of estimates, if there is room."""
    room = width - BETWEEN
    return text.rjust(max(room - before, len(text))).ljust(width)


def _rows(facts: FitFacts) -> str:
    if facts.rows is not None:
        return counted(facts.rows)
    return "private" if facts.units is None else f"of {counted(facts.units)} {facts.neighbors.unit}s"


def _total(fits: Sequence[Results]) -> list[str]:
    """Return what the fits keep together, each counted once; or why that is not known."""
    if any(fit.facts.seeded is not None for fit in fits):
        return ["No total: a seeded fit is not private."]
    once = {(fit.formula, *(release.value.tobytes() for release in fit.releases)): fit for fit in fits}
    if len(once) == 1:
        return []
    promises = [fit.facts.promise for fit in once.values()]
    try:
        total = on_same_rows(promises)
    except BudgetError:
        return ["No total: the fits protect different units, or have different neighbours."]
    exact, rounded = total.numbers[total.currency], f"{total.numbers[total.currency]:.3g}"
    price = str(total).replace(f"= {exact:g}", f"= {rounded}", 1)
    return [f"Together {price}{implied(total).replace(chr(10), '; ')}."]


def side_by_side(
    results: Sequence[Results],
    fmt: str,
    names: Sequence[str] | None,
    rename: Mapping[str, str] | None,
    stars: bool,
    digits: int,
) -> ModelTable:
    """Return fits side by side; see `privstats.summary_table`."""
    if fmt not in FORMATS:
        raise OptionError(f"fmt is {quote(fmt)}; give one of {', '.join(map(repr, FORMATS))}")
    if not results or not all(isinstance(fit, Results) for fit in results):
        raise OptionError("summary_table takes fits; write ps.summary_table([fit1, fit2])")
    heads = [f"({k})" for k in range(1, len(results) + 1)] if names is None else [str(name) for name in names]
    if len(heads) != len(results):
        raise OptionError(f"names has {len(heads)} names for {len(results)} fits; give one name a fit")
    if isinstance(digits, bool) or not isinstance(digits, int | np.integer) or not 1 <= digits <= 15:
        raise OptionError(f"digits is {quote(digits)}; give a whole number from 1 to 15, such as digits=3")
    table = SideBySide(results, tuple(heads), dict(rename or {}), bool(stars), int(digits))
    makers: dict[str, Any] = {
        "text": table.as_text,
        "markdown": lambda: table.sheet(table.response or "Term").as_markdown(),
        "latex": lambda: table.sheet().as_latex(),
        "html": lambda: table.sheet().as_html(),
        "csv": lambda: table.sheet("Term").as_csv(),
    }
    shown = ModelTable(makers[fmt]())
    shown.html = table.sheet().as_html()
    return shown
