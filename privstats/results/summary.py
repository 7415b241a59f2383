"""The printed summary: formula, guarantee, number of rows and method, then the estimates, then the notes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from privstats.errors import listed
from privstats.inference.notes import NEVER, Note
from privstats.results import header
from privstats.results.facts import FitFacts, FloatArray
from privstats.results.formats import Sheet, Tabular
from privstats.results.hypotheses import estimates, level, tests
from privstats.results.labels import part_of
from privstats.results.numbers import FitNumbers, check_exponentials
from privstats.results.text import (
    NAME,
    RULE,
    Column,
    TextTable,
    check_digits,
    counted,
    headed,
    labelled,
    limits,
    numbered,
    percentages,
    shown_once,
)

TESTED = "Std err, P, interval include privacy noise; 'noise' is its share of std err^2."
UNTESTED = "Std err and interval include privacy noise; 'noise' is its share of std err^2."
MOVED = "P and interval also allow for clipping; they are wider than std err and z say."
MOVED_INTERVAL = "P and interval also allow for clipping; they are wider than std err says."
VISIBLE = 0.2  # bias bound, in std errors, above which a sentence says that intervals and p-values allow for bias
ENDS = "The interval includes privacy noise."
ASYMMETRIC = "Intervals run between order statistics, so they need not be symmetric."
EXPONENTIALS = "Std err is that of the {head}; the interval is that of exp({head})."
HEADS = {"mean": "mean", "median": "median", "mode": "mode"}
ORDERED = ("median", "quantile")  # functions with intervals between order statistics, which need not be symmetric
RATIOS = {"logit": ("odds ratio", "log odds"), "log": ("rate ratio", "log rate")}
SIDES = 0.02  # an interval counts as symmetric if its two sides differ by at most this fraction of its length


@dataclass(frozen=True, repr=False)
class Summary(Tabular):
    """The summary of a fit, in parts; it prints as text.

    Parameters
    ----------
    title, formula : str
        Heading of the summary, and the formula of the fit.
    facts : tuple of (str, str)
        Lines above the table: guarantee, rows, method, assumptions, ledger.
    table : TextTable
        The table, with a row for each coefficient.
    legend : tuple of str
        Sentences that say how to read the table.
    below : tuple of (str, str)
        Lines below the table: budget and diagnostics.
    notes : tuple of str
        Numbered notes on causes and remedies, to which the table refers.
    """

    title: str
    formula: str
    facts: tuple[tuple[str, str], ...]
    table: TextTable
    legend: tuple[str, ...]
    below: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]

    def as_text(self) -> str:
        """Return the summary as plain text in lines of at most 80 characters."""
        lines = headed(self.title, self.formula)
        for label, text in self.facts:
            lines += labelled(label, text)
        lines += [RULE, *self.table.as_text(), RULE, *self.legend]
        for label, text in self.below:
            lines += labelled(label, text)
        return "\n".join((*lines, *numbered(self.notes)))

    def _sheet(self) -> Sheet:
        table = replace(self.table, labels=self.table.repeated())
        notes = ((f"[{k}]", note) for k, note in enumerate(self.notes, start=1))
        return Sheet(
            title=self.title,
            about=self.formula,
            heads=table.head(),
            body=tuple(table.rows()),
            above=self.facts,
            below=(*(("", line) for line in self.legend), *self.below, *notes),
            labels=len(table.heads),
        )


def summarise(results: FitNumbers, alpha: float, exp: bool, digits: int) -> Summary:
    """Return the printable summary of a fit, with 1 - alpha intervals and `digits` significant digits of std errors.

    With `exp`, the table also prints the exponentiated estimates, and its intervals are intervals of the exponentiated
    estimates.
    """
    facts, estimate = results.facts, results.estimate
    check_exponentials(facts, exp)
    check_digits(digits)
    numbers = TableValues.of(results, level(alpha))
    references = References.of(results, numbers)
    heads, labels = _labels(facts, [str(name) for name in estimate.names])
    table = TextTable(heads, labels, _columns(results, numbers, alpha, exp, digits), name=_name_width(facts, exp))
    table = replace(table, spans=_spans(facts, table, numbers, references)).without_gaps(references.rows)
    chain = any(release.chain for release in results.releases)
    above = [
        ("Guarantee", header.guarantee(facts, chain)),
        ("Rows", header.rows(facts)),
        *((label, text) for label, text in _selection(facts) if text),
        ("Method", header.method(facts, references.numbers)),
        ("Assumes", header.assumes(facts)),
        ("Ledger", header.ledger(facts, results.account)),
        *((("Accepts", header.accepts(facts.accepted, _widths(results), header.met)),) if facts.accepted else ()),
    ]
    below = [("Budget", header.budget(facts))] if facts.budget else []
    if words := header.diagnostics(facts, results.diagnostics):
        below.append(("Diagnostics", words))
    return Summary(
        title=facts.title,
        formula=facts.formula,
        facts=tuple(above),
        table=table,
        legend=_legend(facts, numbers, table, exp),
        below=tuple(below),
        notes=references.texts,
    )


def _widths(results: FitNumbers) -> dict[str, float]:
    """Return the widths of the 95% intervals of the estimates, by name of the estimate."""
    ends = results.conf_int().to_numpy()
    return dict(zip(results.names, (ends[:, 1] - ends[:, 0]).tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class TableValues:
    """Numbers of a summary's table, unrounded: arrays with one entry for each estimate (row of the table).

    The arrays are estimates, std errors, lower and upper interval limits, shares of the noise in the squared std
    errors, z statistics, p-values, and bounds on the biases of the estimates.
    """

    value: FloatArray
    sd: FloatArray
    low: FloatArray
    high: FloatArray
    share: FloatArray
    z: FloatArray
    p: FloatArray
    bias: FloatArray

    @classmethod
    def of(cls, results: FitNumbers, alpha: float) -> TableValues:
        """Return the numeric columns of the table in the summary of a fit, with 1 - alpha intervals."""
        estimate = results.estimate
        value, sd, low, high, p = estimate.contrast(np.eye(len(estimate.names)), alpha)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = estimate.tvalues()
        return cls(value, sd, low, high, estimate.noise_share(), z, p, estimate.bias_bound())

    @property
    def asymmetric(self) -> bool:
        """Whether the two sides of some interval differ by more than 2% (`SIDES`) of the interval's length."""
        below, above = self.value - self.low, self.high - self.value
        known = np.isfinite(below) & np.isfinite(above)
        return bool((np.abs(above - below) > SIDES * (above + below))[known].any())


@dataclass(frozen=True)
class References:
    """The numbered notes of a fit: their texts, their numbers by key, and the number of the note on each table row.

    The note on a row explains why the estimate, the std error or the interval in this row is missing. A row without
    such a note has None in place of a number.
    """

    texts: tuple[str, ...]
    numbers: dict[str, int]
    rows: tuple[int | None, ...]

    @classmethod
    def of(cls, results: FitNumbers, numbers: TableValues) -> References:
        """Return the notes of a fit, and add a note if no note explains why an estimate or an interval is missing."""
        notes, names = results.notes, results.names
        none, unknown = np.isnan(numbers.value), np.isnan(numbers.low)
        texts = [note.text for note in notes]
        rows: list[int | None] = [None] * len(names)
        both = [{own, str(name)} for own, name in zip(names, results.estimate.names, strict=True)]
        if results.facts.keys == ("term", "tau"):  # a note may be about a term at one tau, or at every tau
            both = [one | {str(term)} for one, (term, _) in zip(both, results.facts.labels, strict=True)]
        for k in np.flatnonzero(np.isnan(numbers.sd) & ~unknown):
            rows[k] = _about(both[k], notes, NO_STD_ERROR)
        for absent, kinds, text in ((none, NOTHING, NOT_GIVEN), (unknown & ~none, NO_INTERVALS, NO_INTERVAL)):
            for k in np.flatnonzero(absent):
                rows[k] = _about(both[k], notes, kinds)
            alone = [k for k in np.flatnonzero(absent) if rows[k] is None]
            if alone and not without_errors(results.facts, numbers):
                verb = "is" if len(alone) == 1 else "are"
                texts.append(text.format(names=listed([names[k] for k in alone]), verb=verb))
                for k in alone:
                    rows[k] = len(texts)
        return cls(tuple(texts), {note.key: k for k, note in reversed([*enumerate(notes, start=1)])}, tuple(rows))


# Keys of notes about all coefficients. The notes in NOTHING give reasons why a fit has no estimates, and the notes in
# NO_INTERVALS give reasons why a fit has no intervals.
NOTHING = ("no level", "small weights")
NO_INTERVALS = (*NEVER, "parameter bound", "too few rows", "unproved tau")
NO_STD_ERROR = ("second release",)
NOT_GIVEN = "{names} {verb} not given: the releases do not identify the population value. Remedy: a larger budget."
NO_INTERVAL = "No interval for {names}: the releases do not determine the error. Remedy: a larger budget."


def without_errors(facts: FitFacts, numbers: TableValues) -> bool:
    """Return whether the fit has all estimates but no intervals or standard errors, such as a fit of a mode."""
    nothing = np.isnan(numbers.low).all() and np.isnan(numbers.sd).all() and not np.isnan(numbers.value).any()
    return bool(nothing) and not facts.tested


def _about(names: set[str], notes: tuple[Note, ...], kinds: tuple[str, ...]) -> int | None:
    """Return the number (from 1) of the note that explains why an estimate, its std error or its interval is missing.

    Notes that mention one of the estimate's `names` come first, and then general notes, which mention no estimate and
    have one of the keys `kinds` (see `Note.key`). Without such a note, the number is None.
    """
    own = (k for k, note in enumerate(notes, start=1) if names & set(note.about))
    general = (k for k, note in enumerate(notes, start=1) if not note.about and note.key in kinds)
    return next(own, None) or next(general, None)


def _selection(facts: FitFacts) -> tuple[tuple[str, str | None], ...]:
    chosen = ("Subset", facts.subset), ("Weights", facts.weights), ("Offset", facts.offset)
    return ("Response", _outcomes(facts)), *chosen


def _outcomes(facts: FitFacts) -> str | None:
    """Return a text that says which response level counts as 1; None for a numeric response or the levels 0 and 1."""
    levels: tuple[object, ...] = getattr(facts.design, "outcomes", ())
    if len(levels) != 2 or levels == (0, 1):  # True also for (False, True), which equals (0, 1)
        return None
    return f"{levels[1]} counts as 1, {levels[0]} as 0"


def _labels(facts: FitFacts, names: list[str]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return the headings and the cells of the columns of row labels; a cell that repeats the cell above it is empty.

    If the terms alone identify the estimates, the labels are their `names`; otherwise a label has several parts, such
    as term and tau.
    """
    if not facts.labels:
        return ("",), tuple((name,) for name in names)
    keys, parts = facts.keys, [tuple(part_of(part) for part in label) for label in facts.labels]
    heads = ("", *keys[1:])
    if len(keys) > 1 and keys[1] in ("group", "bin") and len({label[0] for label in parts}) == 1:
        by = facts.formula.partition("~")[2].strip()
        heads = (f"{parts[0][0]} by {by}" if by else parts[0][0], *keys[2:])
        parts = [label[1:] for label in parts]
    return heads, shown_once(parts)


def _name_width(facts: FitFacts, exp: bool) -> int:
    return 15 if exp else NAME - 1 if facts.tested and len(facts.keys) > 1 else NAME


def _columns(results: FitNumbers, numbers: TableValues, alpha: float, exp: bool, digits: int) -> tuple[Column, ...]:
    facts = results.facts
    ends = limits(alpha)
    shares = Column("noise", _shares(numbers), 6 if facts.tested else 8)
    if not facts.tested:
        return _location(results, numbers, ends, shares, exp, digits)
    tight = exp or len(facts.keys) > 1
    value, sd, low, high = estimates(
        ("coef", 10), numbers.value, numbers.sd, numbers.low, numbers.high, ends, (10, 9 if tight else 10), digits
    )
    z, p = tests(numbers.z, numbers.p)
    if not exp:
        return value, sd, z, p, low, high, shares
    ratio, first, last = _exponentials(RATIOS.get(facts.link or "", ("exp(coef)", ""))[0], numbers, ends, digits)
    return value, sd, p, ratio, first, last, shares


def _exponentials(head: str, numbers: TableValues, ends: tuple[str, str], digits: int) -> tuple[Column, Column, Column]:
    """Return the columns of the exponentiated estimates and of the exponentiated lower and upper interval limits.

    The headings of the three columns are `head` and the two strings in `ends`. Numbers have the decimals at which the
    delta-method std error of the exponentiated estimate has `digits` significant digits.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        ratio, below, above = np.exp(numbers.value), np.exp(numbers.low), np.exp(numbers.high)
        sd = ratio * numbers.sd
        value, _, low, high = estimates((head, 13), ratio, sd, below, above, ends, (10, 9), digits)
    return value, low, high


def _location(
    results: FitNumbers, numbers: TableValues, ends: tuple[str, str], shares: Column, exp: bool, digits: int
) -> tuple[Column, ...]:
    """Return the numeric columns of the table for a fit without tests, such as means, quantiles, modes or counts.

    The columns are row counts, estimates, std errors, exponentiated estimates (with `exp`), interval limits (with the
    two headings `ends`), and `shares`, the shares of the noise in the squared std errors. `digits` is the number of
    significant digits of std errors. Columns without numbers are left out.
    """
    facts = results.facts
    counts = results.group_rows
    rows: tuple[Column, ...] = (
        () if counts is None else (Column("rows", tuple("" if np.isnan(n) else counted(n) for n in counts), 8),)
    )
    head = (HEADS.get(facts.verb, "estimate"), 12 if rows else 11)
    value, sd, low, high = estimates(head, numbers.value, numbers.sd, numbers.low, numbers.high, ends, digits=digits)
    if facts.levels:
        texts = zip(results.params.tolist(), value.cells, facts.levels, strict=True)
        value = Column(head[0], tuple(cell if known is None else str(level) for level, cell, known in texts), head[1])
    columns = [*rows, value]
    if not np.isnan(numbers.sd).all():
        columns.append(sd)
    if exp:
        ratio, low, high = _exponentials(f"exp({head[0]})", numbers, ends, digits)
        columns.append(ratio)
    if not np.isnan(numbers.low).all():
        columns += [low, high]
    if not np.isnan(numbers.share).all():
        columns.append(shares)
    return tuple(columns)


def _shares(numbers: TableValues) -> tuple[str, ...]:
    return tuple("" if np.isnan(share) else f"{percentages([share])[0]}%" for share in numbers.share)


def _spans(
    facts: FitFacts, table: TextTable, numbers: TableValues, references: References
) -> tuple[tuple[int, str] | None, ...]:
    """Return the texts that replace missing numbers in the rows of the table, such as "no interval [1]".

    Each entry has the index of the first column that the text replaces, and the text; the entry is None for a row with
    an estimate and an interval. The result is empty if the fit has all estimates, but no intervals and no std errors.
    """
    if without_errors(facts, numbers):
        return ()
    heads = [column.head for column in table.columns]
    spans: list[tuple[int, str] | None] = []
    for k, note in enumerate(references.rows):
        reference = f" [{note}]" if note else ""
        if np.isnan(numbers.value[k]):
            spans.append((0, f"not given{reference}"))
        elif np.isnan(numbers.low[k]) and len(heads) > 1 and "std err" in heads and np.isnan(numbers.sd[k]):
            spans.append((heads.index("std err"), f"no interval{reference}"))
        elif np.isnan(numbers.low[k]) and any(head.startswith("[") for head in heads):
            at = next(j for j, head in enumerate(heads) if head.startswith("["))
            spans.append((at, f"no interval{reference}"))
        else:
            spans.append(None)
    return tuple(spans)


def _legend(facts: FitFacts, numbers: TableValues, table: TextTable, exp: bool) -> tuple[str, ...]:
    heads = [column.head for column in table.columns]
    lines: list[str] = []
    if "std err" in heads and not np.isnan(numbers.sd).all():
        lines.append(TESTED if facts.tested else UNTESTED)
    elif not np.isnan(numbers.low).all():
        lines.append(ENDS)
    if facts.tested and (numbers.bias > VISIBLE * numbers.sd).any():
        lines.append(MOVED_INTERVAL if exp else MOVED)
    if exp and not facts.tested and "std err" in heads:
        lines.append(EXPONENTIALS.format(head=HEADS.get(facts.verb, "estimate")))
    elif exp and facts.tested:
        ratio, of = RATIOS.get(facts.link or "", ("", ""))
        one = f"Coef, std err and P are those of the {of}, the interval is the {ratio}'s."
        lines.append(one if ratio else "Coef, std err and P are those of the coefficient, the interval of exp(coef).")
    if facts.verb in ORDERED and numbers.asymmetric:
        lines.append(ASYMMETRIC)
    return tuple(lines)
