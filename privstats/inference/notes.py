"""Notes in the summaries of fits; each note states in words the cause, size and meaning of a problem, and a remedy.

The function `note` fills in a template. Every number in a note is public or released, in the user's units or in std
errors. A problem that calls for no action by the user has no note.
"""

from __future__ import annotations

import math
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from privstats.errors import OptionError, listed

LEAST_COUNT = 3.0  # a group may be empty if its count is below this number of rows, or of std errors of the count


@dataclass(frozen=True)
class Note:
    """A note on a fit, which the summary of the fit prints with a number.

    Parameters
    ----------
    key : str
        Key of the note's template in `NOTES`.
    text : str
        Text of the note, in whole sentences.
    about : tuple of str
        Names of the coefficients that tables mark "not given [k]" or "no interval [k]", with the number k of the note.
    fields : tuple of (str, object), optional
        Names and values of the template's fields, from which `merged` decides which notes can be merged; None for a
        note without a template.
    """

    key: str
    text: str
    about: tuple[str, ...] = ()
    fields: tuple[tuple[str, Any], ...] | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Span:
    """Smallest and largest of several numbers in one field of a note, such as the counts of several levels."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[Any]) -> Any:
        """Return the `Span` of several numbers or spans; a single number or span is returned unchanged."""
        ends = [float(end) for one in values for end in ((one.low, one.high) if isinstance(one, cls) else (one,))]
        return cls(min(ends), max(ends)) if len(values) > 1 else values[0]


class _Prose(string.Formatter):
    """Formatter of the fields of note templates, with format codes of its own.

    - The code ``~`` rounds numbers below 10 to one decimal, and larger numbers to whole numbers.
    - The code ``<`` rounds ratios of noise to information as ``~`` rounds numbers, but prints ratios from 100 (`CAP`)
      on as "at least 100".
    - The code ``rows`` prints a released number of rows in words.
    - A code in `LISTS` prints the value or, if the value is a list, all its entries.
    - A code in `PLURAL` prints a word instead of the value. The word is in the plural if the value is a `Span` or has
      several entries.
    """

    def format_field(self, value: Any, spec: str) -> str:
        if spec in PLURAL:
            return PLURAL[spec][isinstance(value, Span) or (isinstance(value, list | tuple) and len(value) > 1)]
        if isinstance(value, list) or (spec and spec in LISTS):
            return listed([LISTS[spec].format(one) for one in (value if isinstance(value, list) else [value])])
        if isinstance(value, str):
            return str(super().format_field(value, ""))
        if isinstance(value, Span):
            return _between(self.format_field(value.low, spec), self.format_field(value.high, spec))
        if spec == "rows":
            return about_rows(value)
        if spec == "<" and value >= CAP * (1 - 1e-9):
            return f"at least {CAP:.0f}"
        if spec not in ("~", "<"):
            return str(super().format_field(value, spec))
        return f"{value:.1f}" if value < 9.95 else f"{value:,.0f}"


_PROSE = _Prose()
NOT_GIVEN = " not given"  # text after the names of coefficients that are not reported
CAP = 100.0  # upper limit of computed ratios of noise to information, which notes print as "at least 100"
# format codes of template fields that may have several values, and the format of each value
LISTS = {"": "{}", "quoted": "'{}'", "repr": "{!r}", "number": "{:g}"}
PLURAL = {  # words of notes, each in the singular and in the plural
    "s": ("", "s"),
    "has": ("has", "have"),
    "ends": ("s", ""),
    "its": ("its", "their"),
    "it": ("it", "them"),
    "this level": ("this level", "each of these levels"),
    "of each": ("", " of each"),
}
RANGED = ("count", "sd", "needed", "ratio", "times", "size", "sds")  # template fields with a range in merged notes
SEVERAL = ("level", "name", "tau")  # template fields with a list of values in merged notes
RELIABLE = 0.4  # if the ratio of noise to information is above 0.4, a note says that noise lengthens the intervals

NOTES: Mapping[str, str] = MappingProxyType(
    {
        # notes on coefficients that are not reported
        "rare level": (
            "{names} not given: {count:rows} have {count:this level} (released count{count:s}, std err {sd:.0f}) and "
            "about {needed:,.0f} rows are needed at {budget}. Rows with the level{count:s} were left out of the fit. "
            "Remedy: spend more, or merge the level{count:s} with {other}{code}."
        ),
        "rare number": (
            "{names} not given: {count:rows} have a value other than {value} in {name:quoted} (released "
            "count{count:s}, std err {sd:.0f}) and about {needed:,.0f} rows are needed at {budget}. These rows were "
            "left out of the fit. Remedy: spend more, or leave {name:quoted} out."
        ),
        "rare reference": (
            "{names} not given: {count:rows} have the level {level:repr}, with which {factor} compares the others "
            "(released count, std err {sd:.0f}), and about {needed:,.0f} rows are needed at {budget}. Rows with the "
            "level were left out of the fit. Remedy: compare with another level, {code}."
        ),
        "rare contrast": (
            "{names} not given: they depend on the level{level:s} {level:repr} of {factor}, with {count:rows} "
            "(released count{count:s}, std err {sd:.0f}), and about {needed:,.0f} rows are needed at {budget}. Rows "
            "with the level{level:s} were left out of the fit. Remedy: spend more, merge the level{level:s} with "
            "another one, or compare with a frequent level, {code}."
        ),
        "hidden level": (
            "{names} not given: the level{level:s} {level:repr} of {factor} {level:has} {count:rows} (released "
            "count{count:s}, std err {sd:.0f}), and about {needed:,.0f} are needed at this budget. Remedy: spend more, "
            "or merge the level{level:s} with another one{code}."
        ),
        "noisy level": (
            "The size of the noise in {names} is not known: the level{level:s} {level:repr} of {factor} {level:has} "
            "{count:rows} (released count{count:s}, std err {sd:.0f}), and about {needed:,.0f} are needed at this "
            "budget. Remedy: spend more, or merge the level{level:s} with another one{code}."
        ),
        "no level": (
            "Nearly no row has a declared level of {factors}, or nearly all rows miss another value: {count} of "
            "{rows:,} were used (released count, std err {sd:.0f}). Remedy: declare the levels as the data spell "
            "them, as in domain={{'{column}': ['M', 'F']}}."
        ),
        "small weights": (
            "The weights of {rows:,} rows add up to {share} of as many largest weights (released): {weights} is "
            "declared up to {largest:g} and is about {mean:.2g} on average, and a row counts as its weight over the "
            "largest. Remedy: declare a smaller upper bound of {weights}."
        ),
        "collinear": (
            "{names} not given: they are nearly collinear, or vary little for their bounds, and the noise is "
            "{ratio:<} times the information that tells them apart. Remedy: leave one of them out, declare closer "
            "bounds, or make rows x budget {times:<} times as large."
        ),
        "hidden column": (
            "{names} not given: the noise hides how much the values of {column} vary within the declared bounds (it is "
            "{ratio:<} times the information), and the other coefficients depend on it. Remedy: make rows x budget "
            "{times:<} times as large, declare closer bounds of {column} where they are far, or leave it out."
        ),
        "weak term": (
            "{names} not given: the noise is {ratio:<} times the information, since {about:its} values vary little for "
            "{about:its} bounds or nearly follow from other terms. Remedy: declare closer bounds, leave {about:it} "
            "out, or make rows x budget {times:<} times as large."
        ),
        "wide interval": (
            "{names} not given: noise, or what clipping may have taken off, makes the 95% interval so wide that its "
            "half-length moves the linear predictor by more than {most:g} (std dev over the rows). Remedy: a larger "
            "budget, more rows, fewer terms, or closer bounds."
        ),
        "far step": (
            "{names} not given: the last step was {size:~} times as long as the approximation allows. Remedy: a larger "
            "budget, more rows, or closer bounds of the predictors."
        ),
        "few values": (
            "{names} not given: near the fitted quantile the response has few distinct values, at which the score "
            "jumps, and errors are not normal. Remedy: dp_lm for means, or dp_glm(family='poisson') for counts."
        ),
        "few outcomes": (
            "{names} not given: the estimates rest on {count:rows} (effective number, expected from the "
            "releases) and about {needed:.0f} are needed for a normal error. Remedy: more rows, or merge the level "
            "with another one."
        ),
        "rare value": (
            "{names} not given: by {about:its} released mean{about:s} and variance{about:s} the column{about:s} "
            "{about:has} two values, one of them in {count:rows}, and about {needed:,.0f} are needed at this budget. "
            "Remedy: spend more, or leave {about:it} out."
        ),
        "empty group": (
            "{names} not given: the released count{count:of each} is {count:,.0f} with std err {sd:.1f}, so the "
            "group{count:s} may be empty; about {needed:,.0f} rows are needed at {budget}. Remedy: leave the "
            "level{count:s} out of the declared levels, merge {count:it} with another level, or spend more."
        ),
        "no rows": (
            "{names} not given: the released count is {count:,.0f} with std err {sd:.1f}, so hardly any row may be "
            "used; about {needed:,.0f} rows are needed at {budget}. Remedy: check the bounds and the type of the "
            "column, or spend more."
        ),
        "private test": (
            "{names} not given: the private test found that a few rows may move the quantile by more than eta = "
            "{eta:g}. Remedy: a larger eta, or a larger budget."
        ),
        # notes on estimates that are reported with a reservation
        "clipped": (
            "The scores of {share} of the rows were clipped. This may move {moves}; the intervals contain it. Remedy: "
            "closer bounds, or a larger budget."
        ),
        "start": (
            "The steps may not have arrived: what is left of the error of their start may move {moves}; the intervals "
            "contain it. Remedy: a larger number of steps, steps=200, or write mech='newton'."
        ),
        "weights": (
            "Clipping in the fits, and weights that depend on their noise, may have moved {moves}; the intervals "
            "contain it. Remedy: larger budgets of the fits, or closer bounds."
        ),
        "sites differ": (
            "The fits differ by more than their errors explain: '{name}' is {low:.4g} in one and {high:.4g} in "
            "another (P < 0.001). They estimate different numbers, and the intervals are for a weighted mean of these. "
            "Remedy: report the fits one by one."
        ),
        "no weight": (
            "{idle} of {many} fits give no interval, and have no weight in these numbers. Remedy: a larger budget in "
            "such a fit, without inference='none'."
        ),
        "clamped response": (
            "Most values of '{name}' lie at its bounds, {low:g} and {high:g}, by its released mean {mean:.4g} and std "
            "dev {sd:.2g}: unless it has these two values alone, values beyond the bounds were moved to them, and the "
            "coefficients are those of the moved values. Remedy: wider bounds of '{name}'."
        ),
        "response at bound": (
            "The fitted values lie at the bound {bound:g} of '{name}', within 1% of its range, and noise hides how far "
            "its values vary. Values beyond a bound are moved to it. Remedy: declare bounds in the units of "
            "the data, domain={{'{name}': (low, high)}}."
        ),
        "weak direction": (
            "In some direction of the predictors the noise exceeds the information. It may move {names} by up to "
            "{size:~} std errors; the intervals contain it. Remedy: fewer terms, closer bounds, or a larger budget."
        ),
        "noise to signal": (
            "noise_to_signal is {ratio:.2f} (reliable below 0.4): the intervals are longer than needed. Remedy: rows x "
            "budget {times:~} times as large."
        ),
        "far bounds": (
            "The declared bounds of {name:quoted} extend to {sds:.0f} of {name:its} std devs (released), so a few rows "
            "far out could decide {name:its} coefficient{name:s}. The interval{name:s} assume{name:ends} that large "
            "scores become rare as fast as a finite variance requires. Remedy: closer bounds, or the logarithm{name:s} "
            "of {name:quoted}."
        ),
        "far response": (
            "The declared bounds of '{name}' extend to {sds:.0f} of its std devs (released), so a few rows with "
            "responses far out may not be seen. The interval assumes that large scores become rare as fast as a finite "
            "variance requires. Remedy: closer bounds, or the logarithm of '{name}'."
        ),
        "far amounts": (
            "The declared upper bound of '{name}' lies {sds:<} of its std devs (released) above its mean, so a few "
            "rows with larger values may not be seen. The interval assumes that large scores become rare as fast as a "
            "finite variance requires. Remedy: declare a smaller upper bound from public knowledge, "
            "domain={{'{name}': (low, high)}}; larger values are moved to it."
        ),
        "as stated with intervals": (
            "The algorithm is that of Avella-Medina, Bradshaw and Loh (2023), for teaching and comparison. Its "
            "intervals are about {times:~} times as long as those of {other}. Remedy: write {other}."
        ),
        "as stated": (
            "The algorithm is that of Avella-Medina, Bradshaw and Loh (2023), for teaching and comparison. Where rows "
            "and budget are ample, {other} has shorter intervals. Remedy: write {other}."
        ),
        "scales alone": (
            "Noise hides the information on some combination of the predictors. The intervals take it for what the "
            "declared scales say, which is not so where predictors are nearly collinear: then they cover less often "
            "than they say. Remedy: leave one of such predictors out, make rows x budget larger, or write {other}."
        ),
        "not arrived": (
            "{names} not given: these {steps} steps may have left more than {part} of the error of their start. They "
            "are few, a predictor varies little within its bounds, or noise hides how much it varies. Remedy: write "
            "steps={more}, declare scales, domain={{'x': ps.Scale(center, scale)}}, or write {other}."
        ),
        # notes on missing intervals or std errors
        "subsampled": (
            "No intervals: the algorithm is NoisySGD of Dong, Roth and Su (2022), for teaching and comparison, and the "
            "law of the error that its random subsamples leave is not known. Remedy: write {other}."
        ),
        "no inference": (
            "No intervals: inference='none' spends the whole budget on the estimates. {noise} Remedy: "
            "inference='sandwich'."
        ),
        "dependent rows": (
            "No intervals: rows of one {unit} depend on each other, and this fit released nothing about it. Remedy: "
            "mech='newton', whose scores are added up within a {unit}."
        ),
        "parameter bound": (
            "No intervals: the estimate lies at the edge of theta_bound = {bound:g}, which may have decided it. "
            "Remedy: a larger theta_bound, or a larger budget."
        ),
        "too few rows": (
            "No intervals: {rows:,.0f} rows and this budget are too few for tau = {tau:number} with {many} "
            "coefficients, so the estimate may lie anywhere in its bounds. Remedy: more rows, a larger budget, fewer "
            "predictors, a tau nearer 0.5, or a smaller theta_bound."
        ),
        "short ends": (
            "No interval for {names}: its ends would lie beyond the outermost of {count:rows}. Remedy: rows "
            "x eps {times:~} times as large, or a quantile nearer the median."
        ),
        "ridge": (
            "The penalty is {ridge:.3g} (predictors scaled to [-1, 1]), which moves the coefficients toward zero by an "
            "unknown amount, so only estimates are given. Remedy: leave ridge= out for std errors and intervals."
        ),
        "no ridge": (
            "No intervals: ridge='adaptive' gives estimates only, and the penalty that it chose is 0. Remedy: leave "
            "ridge= out for std errors and intervals."
        ),
        "bounded": (
            "No intervals: theta_bound = {bound:g} may have decided the estimates, by an unknown amount. Remedy: leave "
            "theta_bound= out, or add inference='none'."
        ),
        "other mechanism": ("No intervals: none is known for mech='{mech}'. Remedy: mech='{other}'."),
        "mode": ("No intervals: none is known to be valid for a mode. Remedy: dp_hist gives counts with intervals."),
        "geometric median": (
            "No intervals: none is released for a geometric median. Remedy: dp_median of each column has intervals."
        ),
        "unproved tau": (
            "No intervals: under pure eps this minimiser has valid ones for tau = {tau:number} only where rows are "
            "few. Remedy: mech='newton'."
        ),
        "second release": (
            "The interval comes from a second release (rank), so no std error belongs to this estimate. Remedy: "
            "mech='rank' draws both together."
        ),
        "repeated value": (
            "No std err for {names}: the value repeats in many rows, or many values round to it, so no normal "
            "distribution has an interval of this width. Remedy: report the interval, which includes its ends."
        ),
        # notes about the whole fit
        "chain": (
            "The draw is from a Markov chain of {length} {steps}: the guarantee holds for its target density; the "
            "distance from it is measured, not proved. Remedy: {cure}."
        ),
        "unused rows": (
            "{share} of the rows were not used (released count): a value is missing, or its level is not "
            "declared.{question} Remedy: declare all levels, check the bounds, or "
            "write texts such as '1,234' as numbers."
        ),
        "dates": (
            "Dates of {column} are counted in days since {origin}. Remedy: for another day 0 declare ps.Dates(first, "
            "last, origin=day)."
        ),
        "rows per unit": (
            "Each {unit} counts with at most {most}, and {each:.2g} on average were used (released count), so a {unit} "
            "with more rows weighs less. Remedy: a larger rows_per_unit=, at more noise."
        ),
        "delta helps": (
            "With delta = {delta:g} in addition to eps = {eps:g} these intervals would be about {times:~} times "
            "shorter. Remedy: {call}."
        ),
    }
)


CAUSES = ("no level", "small weights")  # keys of notes on root causes; they replace all notes with a key in `SYMPTOMS`
# keys of notes on methods and options that give no intervals for any number of rows and any budget
NEVER = (
    "subsampled",
    "no inference",
    "dependent rows",
    "ridge",
    "no ridge",
    "bounded",
    "other mechanism",
    "mode",
    "geometric median",
)
SYMPTOMS = (
    "collinear",
    "hidden column",
    "weak term",
    "weak direction",
    "noise to signal",
    "rare level",
    "rare number",
    "rare reference",
    "rare contrast",
    "hidden level",
    "few outcomes",
    "rare value",
    "clamped response",
)


def explained(cause: Sequence[Note], others: Sequence[Note]) -> tuple[Note, ...]:
    """Return the notes of a fit in the order of printing.

    Notes that differ only in names, levels and numbers are merged into one note (`merged`), and symptoms of a root
    cause are left out.

    `cause` contains the notes on the call and the data, and `others` the notes on the estimates. A root cause is a
    note of `cause` with a key in `CAUSES`, and a symptom is a note of `others` with a key in `SYMPTOMS`. Symptoms are
    left out if there is a root cause. Root causes come first, then the notes of `others`, then the remaining notes of
    `cause`.
    """
    known = [one for one in cause if one.key in CAUSES]
    rest = [one for one in others if not (known and one.key in SYMPTOMS)]
    return merged((*known, *rest, *(one for one in cause if one.key not in CAUSES)))


def note(key: str, about: Sequence[str] = (), **numbers: Any) -> Note:
    """Return a note whose text is the template with the given key, with its fields filled in.

    Parameters
    ----------
    key : str
        Key of the template in `NOTES`.
    about : sequence of str
        Names of the coefficients that the note is about. The text lists at most three names.
    **numbers
        Values of the template's other fields.

    Raises
    ------
    OptionError
        If there is no template with this key, or a field of the template has no value, or a value that the field
        cannot print.

    Examples
    --------
    >>> print(note("collinear", ("x", "x2"), ratio=2.1, times=2.1).text[:43])
    x and x2 are not given: they are nearly col
    """
    if key not in NOTES:
        raise OptionError(f"there is no note '{key}'; choose among {', '.join(NOTES)}")
    template, about = NOTES[key], tuple(about)
    verb = f" {'is' if len(about) == 1 else 'are'}" if f"{{names}}{NOT_GIVEN}" in template else ""
    subject = f"{listed(about)}{verb}"
    if "times" in numbers and not isinstance(numbers["times"], Span):
        numbers["times"] = max(numbers["times"], 1.1)  # a remedy "1.0 times as large" would ask for no change
    try:
        return Note(
            key, _PROSE.format(template, **{"names": subject, "about": about, **numbers}), about, tuple(numbers.items())
        )
    except (KeyError, ValueError, TypeError):
        raise OptionError(f"the note '{key}' lacks a number, or has a wrong one; see its template") from None


def merged(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Return the notes, after merging notes of the same template that differ only in names, levels and numbers.

    A merged note lists the values of fields in `SEVERAL`, such as levels, and states the range of numbers in `RANGED`.
    Notes that differ in another field, such as the factor or the remedy, are not merged.
    """
    found: dict[tuple[object, ...], list[Note]] = {}
    for one in notes:
        fixed = (one.text,) if one.fields is None else (pair for pair in one.fields if not _varies(*pair))
        found.setdefault((one.key, bool(one.about), *fixed), []).append(one)
    return tuple(_union(list(dict.fromkeys(alike))) for alike in found.values())


def _varies(name: str, value: object) -> bool:
    """Return whether notes that differ in the value of the template field `name` can be merged.

    Such notes can be merged if the field is in `SEVERAL`, or if it is in `RANGED` and `value` is not a string.
    """
    return name in SEVERAL or (name in RANGED and not isinstance(value, str))


def _union(alike: Sequence[Note]) -> Note:
    """Return one note that replaces several similar notes, listing their values or stating the range of their numbers.

    The notes have the same template and differ only in fields that can be merged. A single note is returned unchanged.
    """
    (first, *others), fields = alike, {}
    if not others:
        return first
    for name, value in first.fields or ():
        values = [dict(one.fields or ())[name] for one in alike]
        if name in SEVERAL:
            several = list(dict.fromkeys(part for one in values for part in (one if isinstance(one, list) else [one])))
            fields[name] = several if len(several) > 1 else value
        else:
            fields[name] = Span.of(values) if _varies(name, value) else value
    return note(first.key, tuple(dict.fromkeys(name for one in alike for name in one.about)), **fields)


def in_rho(one: Note) -> Note:
    """Return the note with "rows x sqrt(rho)" in place of "rows x budget" in its remedy.

    Under zero-concentrated differential privacy with budget rho, noise is proportional to ``1 / sqrt(rho)``.
    """
    return replace(one, text=one.text.replace("rows x budget", "rows x sqrt(rho)"))


def percent(share: float) -> str:
    """Return a share as a percentage in words, for notes.

    >>> percent(0.0213), percent(0.31), percent(0.0001)
    ('about 2.1%', 'about 31%', 'less than 0.1%')
    """
    if share < 0.001:
        return "less than 0.1%"
    return f"about {100 * share:.1f}%" if share < 0.1 else f"about {100 * share:.0f}%"


def _between(low: str, high: str) -> str:
    """Return a range in words, given the texts of its smallest and its largest number.

    >>> _between("about 12 rows", "about 41 rows"), _between("hardly any rows", "about 41 rows")
    ('about 12 to 41 rows', 'at most about 41 rows')
    >>> _between("1.2", "at least 100"), _between("3", "3")
    ('1.2 to 100 or more', '3')
    """
    if low == high:
        return low
    if low.startswith("hardly"):
        return f"at most {high}"
    most = high.removeprefix("about ").replace(f"at least {CAP:.0f}", f"{CAP:.0f} or more")
    return f"{low.partition(' row')[0]} to {most}"


UNKNOWN_ROWS = "an unknown number of rows"  # text for a released count if its noise sd is at least the number of rows


def may_be_empty(count: float, sd: float) -> bool:
    """Return whether a group may have no rows, from its released number of rows and the standard error of this number.

    The group may be empty if the number is less than 3 (`LEAST_COUNT`), or less than 3 times its standard error.
    """
    return count < _least_count(sd)


def _least_count(sd: float) -> float:
    return LEAST_COUNT * max(1.0, sd)


def empty_note(about: Sequence[str], count: float, sd: float, budget: str, several: bool) -> Note:
    """Return the note on estimates that are not given because there may be no rows for their computation.

    Parameters
    ----------
    about : sequence of str
        Names of the estimates.
    count, sd : float
        Released number of rows, and its standard error.
    budget : str
        Budget of the fit, such as "eps = 1", or "this budget".
    several : bool
        Whether the rows are one of several groups; False if the rows are all rows of the fit.
    """
    told = {"count": max(0.0, count), "sd": sd, "needed": math.ceil(_least_count(sd)), "budget": budget}
    return note("empty group", about, **told) if several else note("no rows", about, **told)


def about_rows(rows: float) -> str:
    """Return a released number of rows in words, for notes; a number below 1/2 may be only noise and is not printed.

    >>> about_rows(41.3), about_rows(1.2), about_rows(-3.0)
    ('about 41 rows', 'about 1 row', 'hardly any rows')
    """
    if rows < 0.5:
        return "hardly any rows"
    return f"about {rows:,.0f} row{'' if rows < 1.5 else 's'}"


def unidentified_note(names: Sequence[str], ratio: float, unseen: Sequence[str] = ()) -> tuple[Note, ...]:
    """Return the note on the coefficients `names`, which are not reported because they are not identified.

    `ratio` is the largest ratio of noise to information in an unidentified direction. `unseen` has the names of
    columns whose values vary too little to be distinguished from noise. If `names` has coefficients of other columns,
    the note states that these coefficients depend on the columns in `unseen`. If `names` is empty, there is no note.
    """
    if not names:
        return ()
    ratio = ratio if math.isfinite(ratio) else 1.0
    sizes = {"ratio": ratio, "times": max(1.1, ratio)}
    if unseen and not set(names) <= set(unseen):
        return (note("hidden column", names, column=listed(unseen), **sizes),)
    return (note("collinear" if len(names) > 1 else "weak term", names, **sizes),)


def wide_note(names: Sequence[str], most: float) -> tuple[Note, ...]:
    """Return the note on the coefficients `names`, whose intervals are too wide; an empty tuple if `names` is empty.

    An interval is too wide if a change of the coefficient by the interval's half-length changes the linear predictor by
    at least `most`, in root mean square over the rows.
    """
    return (note("wide interval", names, most=most),) if names else ()


def reliability_note(ratio: float) -> tuple[Note, ...]:
    """Return the note that noise lengthens the intervals; no note if `ratio` is at most 0.4 (`RELIABLE`) or above 1.

    `ratio` is the largest ratio of noise to information in an identified direction.
    """
    return (note("noise to signal", ratio=ratio, times=ratio / RELIABLE),) if RELIABLE < ratio <= 1 else ()


def noise_note(sizes: Mapping[str, float], given: str = "") -> Note:
    """Return the note on the size of the privacy noise in estimates of a fit with ``inference='none'``.

    Parameters
    ----------
    sizes : mapping of str to float
        Standard deviation of the noise in each estimate, in the estimate's units; NaN if unknown.
    given : str
        Assumptions under which the sizes were computed, in words; empty if there are none.

    Examples
    --------
    >>> noise_note({"x": 0.0123, "z": 4.0}).text[73:146]
    "The noise added for privacy has a std dev of about 0.012 in 'x' and 4 in "
    """
    known = {name: size for name, size in sizes.items() if math.isfinite(size)}
    if not known:
        return note("no inference", noise="The size of the noise in them is not known: it depends on the rows.")
    first = list(known.items())[:3]
    parts = [f"{size:.2g} in '{name}'" for name, size in first]
    others = list(known.values())[3:]
    if others:
        parts.append(f"at most {max(others):.2g} in {len(others)} more coefficient{'s' if len(others) > 1 else ''}")
    text = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    where = f", {given}" if given else ""
    return note("no inference", noise=f"The noise added for privacy has a std dev of about {text}{where}.")


def rank_note(sd: float) -> Note:
    """Return the note for order statistics without intervals; the note states the sd of the noise in the ranks."""
    return note(
        "no inference", noise=f"The noise added for privacy moves their ranks by about {sd:.2g} rows (std dev)."
    )


def clipped_note(moves: Mapping[str, float], share: float) -> tuple[Note, ...]:
    """Return the note on coefficients that clipping may have biased; an empty tuple if `moves` is empty.

    Parameters
    ----------
    moves : mapping of str to float
        Bias bound of each coefficient, in the coefficient's units.
    share : float
        Released share of clipped rows; NaN if it was not released.
    """
    rows = "some" if math.isnan(share) else percent(share)
    return (note("clipped", share=rows, moves=_moves(moves)),) if moves else ()


def start_note(moves: Mapping[str, float]) -> tuple[Note, ...]:
    """Return the note on coefficients in which bias from the starting value of an iteration may remain.

    `moves` has the bias bound of each coefficient, in the coefficient's units; if it is empty, there is no note.
    """
    return (note("start", moves=_moves(moves)),) if moves else ()


def weights_note(moves: Mapping[str, float]) -> tuple[Note, ...]:
    """Return the note on coefficients of a weighted mean of fits that may be biased.

    The bias is due to clipping in the fits, and to the dependence of a fit's weight on its noise. `moves` has the bias
    bound of each coefficient, in the coefficient's units; if it is empty, there is no note.
    """
    return (note("weights", moves=_moves(moves)),) if moves else ()


def _moves(moves: Mapping[str, float]) -> str:
    """Return a text for notes that states the bias bounds of the first three coefficients, and counts the others.

    `moves` has the bias bound of each coefficient by name, in the coefficient's units.
    """
    first = list(moves.items())[:3]
    parts = [f"'{name}' by up to {size:.2g}" for name, size in first]
    others = len(moves) - len(first)
    if others:
        parts.append(f"{others} more coefficient{'s' if others > 1 else ''} by more than a std error")
    else:
        parts.append("other coefficients by less than a std error")
    return ", ".join(parts)
