"""A plan as text, to be read before any budget is spent."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pandas as pd
from tabulate import tabulate

from privstats.older.formula.columns import Columns
from privstats.older.formula.design import Design
from privstats.older.formula.terms import is_binary
from privstats.older.gate.gate import Turn
from privstats.older.privacy.together import Cell, joined
from privstats.older.workflow.forecast import LOW

if TYPE_CHECKING:
    from privstats.older.workflow.plan import Plan


def describe(plan: Plan) -> str:
    """Return a plan as text: its head, its questions and their costs, and what to expect of it."""
    whole = sum(turn.share for turn in plan.turns)
    rows = [
        (
            turn.name,
            turn.kind,
            turn.mechanism,
            f"{turn.share / whole:.1%}",
            plan.promise.spent(joined([(mechanism.event, _cell(turn))], plan.promise.neighbors)).budget,
        )
        for turn, mechanism in zip(plan.turns, plan.mechanisms, strict=True)
    ]
    apart = any(_cell(turn) for turn in plan.turns)
    table = tabulate(rows, ("question", "kind", "mechanism", "share", "cost"), disable_numparse=True)
    head = [
        ("Formula", plan.formula),
        ("Rows", "private" if plan.n is None else str(plan.n)),
        ("Coefficients" if isinstance(plan.design, Design) else "Estimates", ", ".join(plan.design.names)),
        ("Algorithm", f"{plan.mech}, noise {plan.noise}" if plan.noise != plan.mech else plan.mech),
        ("Promise", str(plan.promise)),
    ]
    if apart:
        table += "\nquestions about different groups see different rows: together they cost as much as the dearest"
    expected = pd.DataFrame({"width": []}) if plan.buys or plan.rows is None else plan.expected()
    if expected["width"].isna().all():
        return f"{tabulate(head, tablefmt='plain', disable_numparse=True)}\n\n{table}"
    outlook = tabulate(
        [
            (name, f"{se:.3g}", f"{width:.3g}", "unknown" if math.isnan(share) else f"{share:.0%}")
            for name, se, width, share in expected.itertuples()
        ],
        ("expected", "std err", "95 % width", "privacy"),
        disable_numparse=True,
        colalign=("left", "right", "right", "right"),
    )
    assumed = _assumed(plan.design)
    table = f"{table}\n\n{outlook}\n{assumed}"
    return f"{tabulate(head, tablefmt='plain', disable_numparse=True)}\n\n{table}"


def _cell(turn: Turn) -> Cell | None:
    return turn.angle if isinstance(turn.angle, Cell) else None


def _assumed(design: Design | Columns) -> str:
    """Return what is assumed of rows that nobody has seen."""
    if not isinstance(design, Design):
        return "assumed: columns uniform on the domain"
    if design.family is None:
        response = "residual scale an eighth of the response's range"
    elif is_binary(design.family):
        response = "half of the responses 1"
    else:
        response = f"responses {LOW:.0%} of the largest on average"
    return f"assumed: predictors uniform on the domain, {response}"
