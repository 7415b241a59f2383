"""Printed text of a plan, for the user to read before any budget is spent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from privstats.formula.hints import example
from privstats.gate.gate import Planned
from privstats.results.header import QUESTIONS, accepts, implied, shared
from privstats.results.text import (
    RULE,
    Column,
    TextTable,
    counted,
    decimals,
    filled,
    headed,
    labelled,
    number,
    percentages,
)
from privstats.workflow.assumed import costly_cases, is_binary

RELEASED = {  # descriptions of the releases, by the name of the query
    "meat of moments": "variance of the scores",
    "scales again": "mean and std dev of columns whose first reading was noise",
    "scales of the offset": "mean and std dev of the offset",
    "second step": "a rough score",
    "first score": "the clipped score, before the last step",
    "atom": "number of rows next to the fitted quantile",
    "equal responses": "histogram of responses near the fitted quantile",
    "first hessian": "second moments of the scaled predictors",
    "density": "density of the residuals at the quantile",
    "step sizes": "histogram of score sizes; sets clipping in the steps",
    "interval": "the ends of the intervals",
    "mean": "the means",
    "bounds": "location and spread of a column without declared bounds",
    "rows": "number of rows used",
    "units": "number of units used",
    "levels": "number of rows at each level",
    "rare values": "number of rows with another value than a bound",
    "scales": "mean and std dev of each column",
    "response square": "std dev of the response",
    "narrow scales": "median and scale of columns with wide bounds",
    "spread": "histogram of distances from the mean",
    "narrow response": "median and scale of the response",
    "squares of products": "mean squares of products of scaled columns",
    "coarse matrix": "second moments, for scaling and choice of method",
    "second matrix": "the same, of rows scaled by the first",
    "whitened squares": "mean squares of the scaled predictors",
    "leverages": "histogram of leverages; sets clipping in the Hessian",
    "hessian": "second moments of the scaled predictors",
    "hessians": "the same, at each step",
    "gradient": "the clipped score, at each step",
    "first step": "a rough score",
    "meat": "variance of the scores",
    "score sizes": "histogram of score sizes; sets clipping in the score",
    "residual squares": "sum of squared residuals",
    "score": "the clipped score, which gives the coefficients",
    "moments": "second moments of predictors and response",
    "coefficients": "the coefficients",
    "squares of scores": "variance of the scores",
    "residual scale": "size of the residuals",
    "marginal effects": "average marginal effects",
    "grid": "whether the values lie on a grid",
    "quantile": "the quantiles, and the ends of their intervals",
    "lower": "lower end of the interval",
    "upper": "upper end of the interval",
    "sums": "number of rows, sums and sums of squares",
    "counts": "number of rows in each bin",
    "mode": "the fullest bin or level",
}
FILLING = "predictors fill a part of their bounds"
ASSUMPTIONS = {  # by function: assumptions about columns without hints, for the forecast of interval widths
    "lm": f"{FILLING}; the residual std dev is a twelfth of the response's range.",
    "rq": f"{FILLING}; the residual std dev is a twelfth of the response's range.",
    "glm": f"{FILLING}; the response does not depend on them.",
}
BINARY = f"{FILLING}; half of the outcomes are 1."
BY_HINTS = " Columns with hints follow these."
NOTHING = (
    "Expected: nothing is given, since the noise exceeds the information. Remedy: more rows, a larger budget, fewer "
    "terms or closer bounds; plan.n_for(width) and plan.budget_for(width) say how many and how large."
)
COLUMNS = "values fill a part of their bounds."


def described(plan: Any) -> str:
    """Return a plan as text: its title and arguments, the expected standard errors, and queries with budget shares."""
    spec, promise = plan.specification, plan.guarantee
    lines = [
        *headed(f"Plan of dp_{spec.verb}", spec.model.formula),
        "No row was read and no budget was spent.",
        *labelled("Guarantee", f"{promise}{implied(promise, plan.kept)}"),
        *labelled("Rows", _rows(plan)),
        *labelled("Method", _method(plan)),
        *_memory(plan),
        *_accepted(plan),
        RULE,
    ]
    if plan.rows is not None and not plan.estimated:
        expected = plan.expected()
        if not expected["width"].isna().all():
            lines += [*_expected(expected), *filled(_assumed(plan)), *_unknown(plan, expected), RULE]
        elif spec.intervals:
            why = expected.attrs["why"]
            lines += [*filled(why), RULE] if why else [*filled(NOTHING), *filled(_assumed(plan)), RULE]
    return "\n".join([*lines, *_questions(plan)])


def _memory(plan: Any) -> list[str]:
    """Return the lines about the memory that the method needs to hold all rows; no lines if little memory is needed."""
    line = plan.gathered and plan.gathered.line
    return labelled("Memory", line) if line else []


def _accepted(plan: Any) -> list[str]:
    """Return lines that compare expected interval widths with the widths that the user declared acceptable, if any."""
    if not plan.accepted:
        return []
    return labelled("Accepts", accepts(plan.accepted.items(), plan.expected()["width"], _foreseen))


def _foreseen(width: float, wanted: float) -> str:
    return "no interval is expected" if math.isnan(width) else f"{width:.3g} expected"


def _rows(plan: Any) -> str:
    public, unit = plan.public, plan.specification.neighbors.unit
    if public.offered is not None:
        return f"{counted(public.offered)} (public)"
    if public.units is not None:
        return f"{counted(public.units)} {unit}s (public)"
    if public.assumed is not None:
        return f"{counted(public.assumed)}{f' {unit}s' if unit else ''} assumed; their number is private"
    return "their number is private"


def _method(plan: Any) -> str:
    choice = plan.choice
    if plan.branches:
        names = " or ".join(choice.branches.get(branch, branch) for branch in plan.branches)
        before = next((p.label for p in reversed(plan.planned) if p.branch is None), None)
        after = f" after '{before}'" if before else ""
        extra = f"; {choice.why}" if choice.why else ""
        if plan.rows is not None and not plan.estimated:
            branch = plan.expected().attrs["branch"]
            extra = f"; as assumed below, {choice.branches.get(branch, branch)}{extra}"
        return f"auto chooses{after}: {names}, whichever has the shorter expected intervals{extra}"
    noise = f", noise {choice.noise}" if choice.noise else ""
    why = f"; {choice.why}" if choice.why else ""
    return f"{choice.mech} ({choice.words}){noise}{why}"


def _expected(expected: pd.DataFrame) -> list[str]:
    names = [name if isinstance(name, str) else ", ".join(map(str, name)) for name in expected.index]
    spread = [decimals(value, value) for value in expected["std_error"]]

    def column(name: str) -> tuple[str, ...]:
        return tuple(number(value, places) for value, places in zip(expected[name], spread, strict=True))

    ranged = not expected["width_low"].equals(expected["width_high"])
    ends = [
        Column(name, tuple(text or "not given" for text in column(end)), 10)
        for name, end in (("from", "width_low"), ("up to", "width_high"))
    ]
    noise = tuple("" if math.isnan(share) else f"{share:.0%}" for share in expected["noise_share"])
    ratio = tuple(number(value, 2) for value in expected["ratio"])
    table = TextTable(
        ("expected",),
        tuple((name,) for name in names),
        (
            Column("std err", column("std_error"), 10 if ranged else 12),
            Column("95% width", column("width"), 11 if ranged else 12),
            *(ends if ranged else []),
            Column("noise", noise, 7 if ranged else 8),
            Column("/ no privacy", ratio, 14) if ranged else Column("width / no privacy", ratio, 22),
        ),
        tuple((0, "not given") if math.isnan(width) else None for width in expected["width"]),
    )
    return table.as_text()


def _assumed(plan: Any) -> str:
    design, spec = plan.public.design, plan.specification
    binary = hasattr(design, "response_half") and is_binary(design)
    usual = BINARY if binary and spec.verb == "lm" else ASSUMPTIONS.get(spec.verb, COLUMNS)
    hinted = BY_HINTS if spec.model.hints else ""
    return (
        f"Assumed: {usual}{hinted} Real columns differ: plan.expected(like=rows) takes synthetic rows. "
        "plan.budget_for, plan.n_for: for a wanted width."
    )


def _unknown(plan: Any, expected: pd.DataFrame) -> list[str]:
    """Return lines about uncertain forecasts of interval widths; no lines if no forecast is uncertain.

    If a forecast is a range of widths, the lines state the assumptions behind the range, and hints (`Domain.hint`)
    that would replace the range by a number. The lines also name the intervals that only some simulated fits give.
    """
    lines, open_columns = [], plan.unhinted()
    if not expected["width_low"].equals(expected["width_high"]):
        cases = costly_cases(plan.public.design, open_columns)
        lines = filled(f"A range: {' and '.join(cases)}. Hints from a codebook make it a number:")
        for name, known in open_columns.items():
            lines += filled(f"domain = {example(name, known)}", "  ", "      ")
    some = expected["given"][(expected["given"] > 0) & (expected["given"] < 1)]
    names = [name if isinstance(name, str) else ", ".join(map(str, name)) for name in some.index]
    if names:
        others = f" and {len(names) - 3} more" if len(names) > 3 else ""
        shares = ", ".join(f"{name} in {share:.0%}" for name, share in zip(names[:3], some, strict=False))
        lines += filled(f"Borderline: intervals are given for {shares}{others} of the forecasts.")
    return lines


@dataclass(frozen=True)
class QueryLine:
    """A line in the list of a plan's queries: the queries that share a name and belong to the same method.

    Parameters
    ----------
    name : str
        Printed name of the queries.
    branch : str, optional
        Branch (method) to which the queries belong, if the fit chooses one of several branches; None if the queries are
        asked in all branches.
    optional : bool
        Whether a fit may leave the queries out, and spend the share of these queries on another query.
    percent : int
        Budget share of the queries in percent. The lines of one branch and the lines with the branch None add up
        to 100%.
    released : str
        Description of what is released.
    """

    name: str
    branch: str | None
    optional: bool
    percent: int
    released: str


def query_lines(plan: Any) -> list[QueryLine]:
    """Return the lines of a plan's queries, in the order of the queries, for both the printed plan and the plot."""
    groups: dict[tuple[str, str | None], list[Planned]] = {}
    for p in plan.planned:
        groups.setdefault((_line(p, plan.planned), _branch(p, plan.planned)), []).append(p)
    shares = {key: math.fsum(own_share(p, plan) for p in some) for key, some in groups.items()}
    own = {branch: [key for key in groups if key[1] == branch] for branch in (None, *plan.branches)}
    rest = max((math.fsum(shares[key] for key in own[branch]) for branch in plan.branches), default=0.0)
    *common, rest_percent = percentages([*(shares[key] for key in own[None]), rest])
    percent = dict(zip(own[None], common, strict=True))
    for branch in plan.branches:
        of_branch = percentages([shares[key] for key in own[branch]], rest_percent)
        percent |= zip(own[branch], of_branch, strict=True)
    return [
        QueryLine(
            QUESTIONS.get(name, name),
            branch,
            all(p.within_share_of for p in some),
            percent[name, branch],
            RELEASED.get(name, name),
        )
        for (name, branch), some in groups.items()
    ]


def _questions(plan: Any) -> list[str]:
    """Return the lines of the printed table of a plan's queries, with their budget shares and descriptions."""
    methods = [plan.choice.branches.get(branch, branch) for branch in plan.branches]
    marks = dict(zip(plan.branches, _marks(methods), strict=True))
    found = query_lines(plan)
    wide = max(len("question"), *(len(line.name) for line in found)) + 2
    what = "what is released"
    if marks:
        what += f" ({', '.join(marks.values())}: by {' or '.join(methods)} only)"
    first, *more = filled(what, " " * (wide + 10), " " * (wide + 12))
    lines = [f"{'question':<{wide}}{f'of {shared(plan.accounted)}':>8}  {first.lstrip()}", *more]
    for line in found:
        mark = f"{marks[line.branch]} " if line.branch else ""
        first, *more = filled(f"{mark}{line.released}", " " * (wide + 10), " " * (wide + 12))
        lines += [f"{line.name:<{wide}}{line.percent:>7}%  {first.lstrip()}", *more]
    return lines


def _branch(p: Planned, planned: Sequence[Planned]) -> str | None:
    """Return the branch (method) to which a query belongs; None if the query belongs to no single branch."""
    hosts = {q.branch for q in planned if q.label in p.within_share_of}
    return p.branch or (hosts.pop() if len(hosts) == 1 else None)


def own_share(p: Planned, plan: Any) -> float:
    """Return the budget share of a query, minus the parts of this share that optional queries may spend."""
    fractions: Mapping[str, float] = plan.division.fractions
    return fractions[p.label] - math.fsum(fractions[q.label] for q in plan.planned if p.label in q.within_share_of)


def _line(p: Planned, planned: Sequence[Planned]) -> str:
    """Return the text that identifies a query in a printed plan: its name or, for an optional repeat, its label.

    A repeat is an optional query with the name of a query that is not optional; the labels of the two queries differ.
    """
    repeats = p.within_share_of and any(q.name == p.name for q in planned if not q.within_share_of)
    return p.label if repeats else p.name


def _marks(branches: Sequence[str]) -> list[str]:
    """Return short, distinct labels of the methods among which a fit chooses: the first letters of their names."""
    marks: list[str] = []
    for branch in branches:
        mark = next(branch[:k] for k in range(1, len(branch) + 1) if branch[:k] not in marks)
        marks.append(mark)
    return marks
