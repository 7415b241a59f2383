"""Several fits in one table: rows are coefficients and columns are fits, with the total privacy cost below."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from privstats.errors import CHOICES, OptionError, listed, quote
from privstats.privacy.account import COUNTED
from privstats.privacy.composition import together
from privstats.privacy.promise import ApproxDP, Promise
from privstats.results.facts import COMBINED
from privstats.results.formats import Sheet
from privstats.results.header import DELTA
from privstats.results.labels import part_of
from privstats.results.numbers import FitNumbers
from privstats.results.summary import TableValues, without_errors
from privstats.results.text import (
    NAME,
    RULE,
    WIDTH,
    Column,
    TextTable,
    check_digits,
    counted,
    decimals,
    filled,
    headed,
    number,
    shown_once,
)

FORMATS = ("text", "markdown", "latex", "html", "csv")
STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
LONGEST_HEAD = 24  # largest number of characters in a heading of a text table; longer headings become (1), (2), ...
SPACE = 3  # number of spaces between the columns of two fits in a text table
# numbers of spaces after a heading, and after a cell in the lines below the coefficients; with these spaces, the
# heading and the cell align with the estimates
HEAD_END, FOOT_END = 2, 1
ORDER_LINE, ROWS_LINE, GUARANTEE_LINE = "Quantile", "Rows (public)", "Guarantee"
UNLIKE = "Models of different responses"
UNGIVEN = ("not given", "no interval", "no std err")
MOVED_NOTES = {"clipped", "start", "weights"}  # keys of notes about a bias that may exceed the std errors

Label = tuple[Any, ...]


class TableText(str):
    """The text of a table; Python and notebooks display the text itself and not a quoted string."""

    fmt: str

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str | None:
        return str(self) if self.fmt == "html" else None


@dataclass(frozen=True)
class Cell:
    """A cell of a table of several fits: the estimate of one coefficient in one fit, and its standard error.

    Parameters
    ----------
    estimate : str
        The estimate with its significance stars, or words if the estimate is missing.
    error : str
        The standard error, or words if the standard error is missing; empty if nothing is printed in place of a missing
        standard error.
    """

    estimate: str
    error: str = ""

    def __str__(self) -> str:
        return f"{self.estimate} ({self.error})" if self.error else self.estimate


@dataclass(frozen=True)
class ModelColumn:
    """A fit as a column of a table of fits: heading, cells by row label, rows, privacy guarantee, quantile level."""

    head: str
    entries: Mapping[Label, Cell]
    rows: str
    guarantee: str
    order: str = ""


def table_of_fits(
    results: Any, fmt: str, names: Sequence[str] | None, rename: Mapping[str, str] | None, stars: bool, digits: int
) -> TableText:
    """Return a table with a row for each coefficient and a column for each fit, in the format `fmt`.

    `names` are the column headings, and `rename` maps terms to the names to print. If `stars` is true, stars mark
    small p-values. Standard errors have `digits` significant digits.
    """
    fits = _checked(results, names)
    if fmt not in FORMATS:
        raise OptionError(f"fmt is {quote(fmt)}; write fmt={' or '.join(map(repr, FORMATS))}")
    if not isinstance(rename, Mapping | None):
        raise OptionError("rename is not a dict; write rename={'x': 'a name to print'}")
    if not isinstance(stars, bool | np.bool_):
        raise OptionError(f"stars is {quote(stars)}; write stars=True or stars=False")
    terms = tuple(dict.fromkeys(term for fit in fits for term in _terms(fit)))
    if strange := [term for term in rename or {} if term not in terms]:
        raise OptionError(
            f"rename names {quote(strange[0])}, which is a term of no fit; they have {listed(terms, CHOICES)}"
        )
    check_digits(digits)
    keys = tuple(dict.fromkeys(key for fit in fits for key in fit.facts.keys[1:]))
    heads, response = _heads(fits, names)
    models = tuple(
        ModelColumn(
            head, _entries(fit, keys, rename or {}, stars, digits), _rows(fit), _guarantee(fit), fit.facts.order
        )
        for head, fit in zip(heads, fits, strict=True)
    )
    table = SideBySide(response, keys, models, " ".join(_notes(fits, models, stars)))
    text = TableText(getattr(table, f"as_{fmt}")())
    text.fmt = fmt
    return text


@dataclass(frozen=True)
class SideBySide:
    """A table of several fits, with one column for each fit.

    Parameters
    ----------
    response : str
        The common response; empty if the models have different responses.
    keys : tuple of str
        Names of the further parts of a row label, besides the term, such as "tau" or "group".
    models : tuple of ModelColumn
        The fits, each as a column of cells.
    notes : str
        Sentences below the table.
    """

    response: str
    keys: tuple[str, ...]
    models: tuple[ModelColumn, ...]
    notes: str

    @property
    def labels(self) -> tuple[Label, ...]:
        """Labels of all rows, with terms in the order of first appearance and quantile levels in ascending order."""
        found = dict.fromkeys(label for model in self.models for label in model.entries)
        place = {term: k for k, term in reversed([*enumerate(label[0] for label in found)])}

        def order(label: Label) -> tuple[float, ...]:
            return place[label[0]], *(part if isinstance(part, float) else -math.inf for part in label[1:])

        return tuple(sorted(found, key=order))

    def as_text(self) -> str:
        """Return the table in lines of at most 80 characters; a wider table is split into blocks of columns."""
        heads = [model.head if len(model.head) <= LONGEST_HEAD else f"({k})" for k, model in enumerate(self.models, 1)]
        long = [
            f"{head} is {model.head}." for head, model in zip(heads, self.models, strict=True) if head != model.head
        ]
        whole = self._text_table(self.labels, [*zip(heads, self.models, strict=True)])
        lines = headed("Response", self.response) if self.response else [UNLIKE]
        for chosen in _blocks([column.width for column in whole.columns], WIDTH - whole.start):
            models = [(heads[k], self.models[k]) for k in chosen]
            labels = [label for label in self.labels if any(label in model.entries for _, model in models)]
            part = replace(self._text_table(labels, models), name=whole.name)
            lines += [*part.as_text(), RULE, *_foot_lines(part, [model for _, model in models]), RULE]
        return "\n".join((*lines, *filled(" ".join((*long, self.notes)))))

    def _text_table(self, labels: Sequence[Label], models: Sequence[tuple[str, ModelColumn]]) -> TextTable:
        columns = []
        for head, model in models:
            cells = tuple(str(model.entries.get(label, "")) for label in labels)
            column = Column(head + " " * HEAD_END, cells, 0)
            widest = max(
                column.least - 1,
                len(model.rows) + FOOT_END,
                len(model.guarantee) + FOOT_END,
                len(model.order) + FOOT_END,
            )
            columns.append(replace(column, width=widest + SPACE))
        used = [j for j in range(len(self.keys)) if any(label[j + 1] is not None for label in labels)]
        shown = _shown([(label[0], *(label[j + 1] for j in used)) for label in labels])
        longest = max(map(len, (ROWS_LINE, *(label[0] for label in shown))))
        heads = ("", *(self.keys[j] for j in used))
        return TextTable(heads, shown, tuple(columns), name=min(longest + 1, NAME))

    def as_markdown(self) -> str:
        """Return the table in Markdown; the response is the heading of the first column."""
        return self._sheet("", "", self.response).as_markdown()

    def as_latex(self) -> str:
        """Return the table in LaTeX."""
        return self._captioned().as_latex()

    def as_html(self) -> str:
        """Return the table in HTML."""
        return self._captioned().as_html()

    def as_csv(self) -> str:
        """Return CSV with separate columns for estimates and standard errors."""
        labels, gap = self.labels, ("",) * len(self.keys)
        body = []
        for label in labels:
            entries = [model.entries.get(label, Cell("")) for model in self.models]
            numbers = (text for entry in entries for text in (entry.estimate, entry.error))
            body.append((*map(_part, label), *numbers))
        heads = (text for model in self.models for text in (model.head, f"{model.head} std err"))
        foot = []
        for name, *cells in _foot(self.models):
            plain = [cell.replace(",", "") if name == ROWS_LINE else cell for cell in cells]
            foot.append((name, *gap, *(text for cell in plain for text in (cell, ""))))
        return Sheet("", "", ("term", *self.keys, *heads), tuple(body), tuple(foot)).as_csv()

    def _captioned(self) -> Sheet:
        return self._sheet("Response", self.response, "") if self.response else self._sheet(UNLIKE, "", "")

    def _sheet(self, title: str, about: str, corner: str) -> Sheet:
        labels, gap = self.labels, ("",) * len(self.keys)
        body = ((*map(_part, label), *(str(model.entries.get(label, "")) for model in self.models)) for label in labels)
        return Sheet(
            title=title,
            about=about,
            heads=(corner, *self.keys, *(model.head for model in self.models)),
            body=tuple(body),
            foot=tuple((name, *gap, *cells) for name, *cells in _foot(self.models)),
            below=(("", self.notes),),
            labels=1 + len(self.keys),
            key="models",
        )


def _checked(results: Any, names: Any) -> tuple[FitNumbers, ...]:
    """Return `results`, one fit or a sequence of fits, as a tuple.

    An error is raised if `results` is anything else, or if `names` is neither None nor a list of one string per fit.
    """
    fits = (results,) if isinstance(results, FitNumbers) else results
    if not isinstance(fits, list | tuple) or not fits or not all(isinstance(fit, FitNumbers) for fit in fits):
        raise OptionError("results are not a list of fits; write ps.summary_table([fit1, fit2])")
    texts = isinstance(names, list | tuple) and len(names) == len(fits) and all(isinstance(n, str) for n in names)
    if names is not None and not texts:
        raise OptionError(f"names needs one text for each of the {len(fits)} fits; leave them out, or give a list")
    return tuple(fits)


def _heads(fits: Sequence[FitNumbers], names: Sequence[str] | None) -> tuple[list[str], str]:
    """Return the column headings of a table of fits, and the common response of the fits.

    The headings are `names`, by default (1), (2), ... If the responses differ, each heading also names the response of
    its fit, and the common response is an empty string.
    """
    heads = list(names) if names is not None else [f"({k})" for k in range(1, len(fits) + 1)]
    responses = [fit.endog_names for fit in fits]
    if len(set(responses)) == 1:
        return heads, responses[0]
    return [f"{head} {response}" for head, response in zip(heads, responses, strict=True)], ""


def _entries(
    fit: FitNumbers, keys: tuple[str, ...], rename: Mapping[str, str], stars: bool, digits: int
) -> dict[Label, Cell]:
    """Return a mapping from row labels to the table cells of a fit.

    A label consists of the name of the term and of one value for each name in `keys`, such as "tau". The value is None
    for a name that the labels of this fit do not have.
    """
    values = TableValues.of(fit, 0.05)
    plain = without_errors(fit.facts, values)
    entries: dict[Label, Cell] = {}
    for k, (label, value) in enumerate(zip(_labels(fit), fit.params.tolist(), strict=True)):
        parts = dict(zip(fit.facts.keys[1:], label[1:], strict=True))
        term = rename.get(str(label[0]), str(label[0]))
        renamed = (term, *(parts.get(key) for key in keys))
        if renamed in entries:
            raise OptionError(f"rename gives two terms of one fit the name {quote(term)}; give each its own")
        entries[renamed] = _entry(value, values, k, "" if plain else "no interval", stars and fit.facts.tested, digits)
    return entries


def _labels(fit: FitNumbers) -> tuple[tuple[Any, ...], ...]:
    return fit.facts.labels or tuple((name,) for name in fit.estimate.names)


def _terms(fit: FitNumbers) -> list[str]:
    return [str(label[0]) for label in _labels(fit)]


def _entry(value: Any, values: TableValues, k: int, missing: str, stars: bool, digits: int) -> Cell:
    if np.isnan(values.value[k]):
        return Cell("not given")
    if not isinstance(value, float):
        return Cell(str(value))  # the estimate is a level of a column and has no standard error
    low, high, sd = values.low[k], values.high[k], values.sd[k]
    places = decimals(sd if np.isfinite(sd) else (high - low) / 4, value, digits)
    marks = next((mark for most, mark in STARS if values.p[k] < most), "") if stars else ""
    error = "no std err" if np.isfinite(low) else missing
    return Cell(number(value, places) + marks, error if np.isnan(sd) else number(sd, places))


def _part(part: Any) -> str:
    return "" if part is None else part_of(part)


def _shown(labels: Sequence[Label]) -> tuple[tuple[str, ...], ...]:
    return shown_once([tuple(map(_part, label)) for label in labels])


def _foot(models: Sequence[ModelColumn]) -> tuple[tuple[str, ...], ...]:
    orders = [model.order for model in models]
    return (
        *([(ORDER_LINE, *orders)] if any(orders) else []),
        (ROWS_LINE, *(model.rows for model in models)),
        (GUARANTEE_LINE, *(model.guarantee for model in models)),
    )


def _foot_lines(table: TextTable, models: Sequence[ModelColumn]) -> Iterator[str]:
    start = min(table.start, WIDTH - sum(column.width for column in table.columns))
    for name, *cells in _foot(models):
        shown = (
            f"{cell}{' ' * FOOT_END}".rjust(column.width) for cell, column in zip(cells, table.columns, strict=True)
        )
        yield f"{name.ljust(start)}{''.join(shown)}".rstrip()


def _rows(fit: FitNumbers) -> str:
    facts = fit.facts
    if facts.rows is None and facts.units is not None:
        return f"{counted(facts.units)} {facts.neighbors.unit}s"
    return "private" if facts.rows is None else counted(facts.rows)


def _guarantee(fit: FitNumbers) -> str:
    return fit.guarantee.budget if fit.facts.seeded is None else "none: seeded"


def _blocks(widths: Sequence[int], room: int) -> Iterator[list[int]]:
    """Return the column indices of each block into which a wide table is split.

    A block of two or more columns has a width of at most `room` characters.
    """
    chosen: list[int] = []
    for k, width in enumerate(widths):
        if chosen and sum(widths[j] for j in chosen) + width > room:
            yield chosen
            chosen = []
        chosen.append(k)
    yield chosen


def _notes(fits: Sequence[FitNumbers], models: Sequence[ModelColumn], stars: bool) -> Iterator[str]:
    """Return sentences on the total cost of the fits, and on how to read the table."""
    yield _cost(fits, [model.head for model in models])
    chains = [
        model.head
        for fit, model in zip(fits, models, strict=True)
        if fit.facts.seeded is None and any(release.chain for release in fit.releases)
    ]
    if chains:
        yield (
            f"The guarantee of {listed(chains)} is that of the target density; the sampler's distance is measured, "
            "not proved."
        )
    if any(entry.error not in ("", *UNGIVEN) for model in models for entry in model.entries.values()):
        kinds = dict.fromkeys(kind for fit in fits if (kind := _covariance(fit)))
        of = f" ({', '.join(kinds)})" if kinds else ""
        yield f"In parentheses: std errors{of}, noise included."
    moved = [m.head for fit, m in zip(fits, models, strict=True) if MOVED_NOTES & {note.key for note in fit.notes}]
    if moved:
        yield (
            f"Estimates of {listed(moved)} may have been moved, by clipping or the like, beyond their std errors; "
            "intervals and P allow for it."
        )
    if stars:
        yield f"Stars: {', '.join(f'{mark} P < {most:g}' for most, mark in reversed(STARS))}."
    if any({entry.estimate, entry.error} & set(UNGIVEN) for model in models for entry in model.entries.values()):
        yield "The summary of each fit says why a number is not given."


def _covariance(fit: FitNumbers) -> str | None:
    """Return the kind of a fit's standard errors, such as "HC1", as the fit's summary names it."""
    asked = fit.facts.cov_type
    if asked in ("HC2", "HC3"):
        return "HC1"
    return "kernel" if asked == "HC" and fit.facts.verb == "rq" else asked


def _cost(fits: Sequence[FitNumbers], heads: Sequence[str]) -> str:
    """Return a sentence on the total privacy cost of the fits in a table, assuming that all fits use the same rows.

    A fit that occurs twice is counted once. Fits whose weighted mean is also in the table are counted only as parts of
    this mean. If there is no total, because a fit is seeded or the neighbouring relations differ, the sentence gives
    the reason. Seeded fits are named by their column headings, `heads`.
    """
    each = tuple({id(fit): fit for fit in fits}.values())
    once = tuple(fit for fit in each if not any(_part_of(fit, other) for other in each))
    if seeded := [head for fit, head in zip(fits, heads, strict=True) if fit.facts.seeded is not None]:
        return f"No total guarantee: {listed(seeded)} {'is' if len(seeded) == 1 else 'are'} seeded, so not private."
    relations = tuple(dict.fromkeys(fit.guarantee.neighbors for fit in once))
    if len(relations) > 1:
        return f"No total guarantee: the neighbours differ ({'; '.join(map(str, relations))})."
    kept = tuple(fit.facts.kept or fit.facts.divided for fit in once)
    whole = _composed([fit.guarantee for fit in once], kept)
    numbers = ", ".join(f"{name} = {value:.3g}" for name, value in whole.numbers.items())
    words = str(whole).removeprefix(whole.budget)
    more = "" if whole.currency == "eps" else f"; implies eps = {together(kept, DELTA):.3g} at delta = {DELTA:g}"
    return f"{'Together' if len(once) > 1 else 'Guarantee:'} {numbers}{words}{more}."


def _part_of(fit: FitNumbers, other: FitNumbers) -> bool:
    """Return whether `other` is a weighted mean of fits that include `fit`, and so has all releases of `fit`."""
    of_other = {release.value.tobytes() for release in other.releases}
    combines = other.facts.mech == COMBINED and other is not fit and other.facts.formula == fit.facts.formula
    return combines and all(release.value.tobytes() in of_other for release in fit.releases)


def _composed(asked: Sequence[Promise], kept: tuple[Promise, ...]) -> Promise:
    """Return the joint guarantee of several fits to the same rows.

    `asked` has the guarantees that the calls requested. `kept` has the guarantees that the fits satisfy, which may be
    stronger. The joint guarantee is of the first kind among eps, mu, rho and (eps, delta) to which all requested
    guarantees can be converted. Its parameters are computed from `kept`. For (eps, delta), delta is the sum of the
    requested deltas, and eps is the smallest eps that is proved at this delta.
    """
    kind = next(kind for kind, counts in COUNTED.items() if all(isinstance(promise, counts) for promise in asked))
    delta = math.fsum(promise.delta for promise in asked if isinstance(promise, ApproxDP))
    numbers = (1.0, delta) if kind is ApproxDP else (1.0,)
    whole: Promise = cast(Any, kind)(*numbers, asked[0].neighbors)
    return whole.spent_on(kept, together)
