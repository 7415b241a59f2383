"""What all verbs share: reading their arguments, planning or fitting."""

from __future__ import annotations

from typing import Any

from privstats.errors import PrivacyError
from privstats.older.results.results import Results
from privstats.older.workflow.fit import fit
from privstats.older.workflow.plan import Plan, make_plan
from privstats.older.workflow.request import Request

COMMON = ("unit", "rows_per_unit", "subset", "bounds_share")


def asked(verb: str, formula: str, known: tuple[str, ...], options: dict[str, Any], **named: Any) -> Request:
    """Return the request of a call.

    Raises
    ------
    PrivacyError
        If an option is not among the `known` ones.
    """
    for name in options:
        if name not in known:
            raise PrivacyError(f"dp_{verb} has no option {name!r}; it has {', '.join(map(repr, known))}")
    return Request(verb, formula, **named, **options)


def run(request: Request, data: Any, ledger: Any, rng: Any, dry_run: bool) -> Results | Plan:
    """Carry out a request, or plan it."""
    if dry_run:
        return make_plan(request, len(data) if request.promise.neighbors.n_is_public else None)
    return fit(request, data, ledger, rng)
