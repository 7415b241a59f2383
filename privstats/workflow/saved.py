"""Writing of plans as JSON, and reading of plans from JSON files.

A file contains the planned call: the name of a function such as `dp_lm`, and its arguments. When the file is read, the
plan is computed again from the call.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from privstats.errors import BudgetError, OptionError, PrivstatsError, PrivstatsWarning, quote
from privstats.formula.domain import Domain
from privstats.formula.functions import registered_in
from privstats.gate.sources import Unread
from privstats.models.base import EXPRESSIONS
from privstats.privacy.account import Account, check_affordable
from privstats.results.text import RULE, labelled
from privstats.version import VERSION
from privstats.workflow.protected import Protected
from privstats.workflow.verbs import APART, BY_NAME, is_default

PLAN_FORMAT = "privstats plan, version 1"
KEYS = (
    "format",
    "privstats",
    "function",
    "formula",
    "guarantee",
    "n",
    "n_is",
    "domain",
    "options",
    "accepted",
    "digest",
)
WRITTEN_APART = ("formula", "domain")  # arguments that have separate entries in the file and are not among the options


def written_plan(plan: Any) -> dict[str, Any]:
    """Return the contents of a plan file, as JSON types: the planned function, its arguments, and the plan's digest.

    The digest is a hash of the plan. The plan's guarantee and its accepted interval widths are written, too.

    Raises
    ------
    OptionError
        If an expression calls a function registered by `rowwise`, an option is not a string, a number, or a list or
        mapping of strings and numbers, or the plan computed from the contents has another digest.
    """
    spec = plan.specification
    written, defaults = spec.written, BY_NAME[spec.verb].defaults
    own = registered_in(written.get(name) for name in ("formula", *EXPRESSIONS))
    if own:
        raise OptionError(
            f"a file cannot hold '{own[0]}', which is a function of your own; write its formula out, as in I(x**2)"
        )
    options = {
        name: _plain(name, value)
        for name, value in written.items()
        if name not in WRITTEN_APART and not is_default(value, defaults[name])
    }
    content = {
        "format": PLAN_FORMAT,
        "privstats": VERSION,
        "function": f"dp_{spec.verb}",
        "formula": written["formula"],
        "guarantee": str(plan.guarantee),
        "n": plan.rows,
        "n_is": _meaning_of_n(plan),
        "domain": json.loads(written["domain"].to_json()),
        "options": options,
        "accepted": dict(plan.accepted),
        "digest": plan.digest,
    }
    if replace(_planned(content), accepted=plan.accepted).digest != plan.digest:
        raise OptionError("the arguments of the plan cannot be written as JSON; give them as numbers, texts or lists")
    return content


def plan_of(content: Mapping[str, Any], name: str) -> Any:
    """Return the plan in a saved file, computed again from the arguments in the file; nothing else is executed.

    Parameters
    ----------
    content : mapping
        Contents of the file, as JSON types.
    name : str
        Name of the file, for error messages.

    Raises
    ------
    OptionError
        If the content is not a plan, if the plan cannot be made, or if its digest, its guarantee or the meaning of its
        number n (such as "public number of rows") differs from the entry in the file.
    """
    if content.get("format") != PLAN_FORMAT:
        raise OptionError(f"{quote(name)} has a plan in another format than {quote(PLAN_FORMAT)}; save it again")
    if odd := sorted(set(content) ^ set(KEYS)):
        raise OptionError(
            f"{quote(name)} {'also has' if odd[0] in content else 'lacks'} {quote(odd[0])}; save it again"
        )
    plan = _attempt(content)
    if isinstance(plan, str):
        raise OptionError(f"the plan in {quote(name)} cannot be made: {plan}")
    version = content["privstats"]
    if plan.digest == content["digest"]:
        for key, value in (("guarantee", str(plan.guarantee)), ("n_is", _meaning_of_n(plan))):
            if content[key] != value:
                raise OptionError(f"{quote(name)} states another {key} than its call has, {value}; save the plan again")
        return plan
    if version != VERSION:
        raise OptionError(
            f"the plan in {quote(name)} has another digest here: it was saved by privstats {version}, and this is "
            f"{VERSION}; save it again with this version, or run it with that one"
        )
    raise OptionError(f"{quote(name)} was changed since it was saved: its digest differs; save the plan again")


def in_full(plan: Any) -> str:
    """Return a plan as text with all options, declarations and the digest, for a reviewer."""
    content, domain = written_plan(plan), plan.specification.written["domain"]
    complete = {name: ", complete" if name in domain.complete else "" for name in domain}
    options = ", ".join(f"{name}={value!r}" for name, value in content["options"].items())
    lines = [
        *labelled("Options", options),
        *labelled("Domain", "\n".join(f"{name}: {known}{complete[name]}" for name, known in domain.items())),
        *labelled("Digest", content["digest"]),
    ]
    return "\n".join([str(plan), RULE, *lines])


def run_plan(plan: Any, data: Any, ledger: Account | None, rng: Any) -> Any:
    """Carry out a plan on data; raise an error and charge nothing if the call has another plan for these data."""
    account = data.ledger if isinstance(data, Protected) else ledger
    with planned_anew("plan"):
        if isinstance(account, Account):
            check_affordable(account, plan.guarantee)  # too small a budget is an error before the data are read
        there = planned_on(plan, data, ledger)
        return marked(plan, there, fit_on(plan, data, ledger, rng))


@contextmanager
def planned_anew(what: str) -> Iterator[None]:
    """Change advice such as "give eps=2" to "save a plan with eps=2" in budget errors of the ``with`` block.

    The change is needed because the run of a plan or study has no budget argument. `what` is "plan" or "study".
    """
    try:
        yield
    except BudgetError as error:
        cure = re.sub(r"\b(give|fit with) (?=\w+=)", f"save a {what} with ", str(error))
        raise BudgetError(cure) from None


def marked(plan: Any, there: Any, fit: Any) -> Any:
    """Return `fit` with the digest of `plan` and the interval widths that `plan` declares acceptable (`Plan.accept`).

    `there` is the plan that `planned_on` computed for the data before the fit. If the digest of the fit differs from
    the digest of `there`, because the data have changed in between, the fit is returned unchanged.
    """
    if fit.facts.digest != there.digest:
        return fit
    return replace(fit, facts=replace(fit.facts, digest=plan.digest, accepted=tuple(plan.accepted.items())))


def planned_on(plan: Any, data: Any, ledger: Account | None) -> Any:
    """Return the plan that the function and the arguments of `plan` give for `data`.

    Of the data, only the names and types of the columns and the public number of rows (or privacy units) are used.
    Which number is public depends on the neighbouring relation of the ledger, `ledger` or that of `Protected` data.

    Raises
    ------
    BudgetError
        If the plan has no guarantee under the neighbouring relation of the ledger.
    OptionError
        If the digest of the new plan differs from the digest of `plan`.
    """
    there = call_on(plan, data, ledger=ledger, dry_run=True)
    if replace(there, accepted=plan.accepted).digest == plan.digest:
        return there
    if plan.specification.neighbors.exchange and there.rows != plan.rows:
        units = f"{plan.specification.neighbors.unit or 'row'}s"
        raise OptionError(
            f"the data have {there.rows:,} {units} and the plan is for {plan.rows:,}; save a plan with n={there.rows}"
        )
    raise OptionError("the data have another domain than the plan; save a plan with the domain of the data")


def call_on(plan: Any, data: Any, **more: Any) -> Any:
    """Return the result of the planned function on `data`, with the plan's arguments and further arguments `more`.

    For `Protected` data, the domain of the data is used in place of the plan's domain.
    """
    spec = plan.specification
    given = {**spec.written, **({"domain": None} if isinstance(data, Protected) else {})}
    return BY_NAME[spec.verb].of(**given, data=data, **more)


def fit_on(plan: Any, data: Any, ledger: Account | None, rng: Any) -> Any:
    """Return the fit of a plan on data; warnings are suppressed, because planning has given the same warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivstatsWarning)
        return call_on(plan, data, ledger=ledger, rng=rng)


def _attempt(content: Mapping[str, Any]) -> Any:
    """Return the plan in a saved file, with its accepted interval widths; if this fails, return an error text."""
    try:
        plan = _planned(content)
        return plan.accept(content["accepted"]) if content["accepted"] else plan
    except PrivstatsError as error:
        return str(error)
    except Exception:  # an edited file may have wrong types or huge numbers, which may cause an error of any type
        return "an entry has a wrong type or size; save it again"


def _planned(content: Mapping[str, Any]) -> Any:
    """Return the plan of the call whose function and arguments are in a file."""
    function, options = content["function"], content["options"]
    verb = BY_NAME.get(function.removeprefix("dp_")) if isinstance(function, str) else None
    if verb is None:
        raise OptionError(f"there is no function {quote(function)}; save the plan again")
    unknown = [name for name in options if name not in verb.defaults or name in (*APART, *WRITTEN_APART)]
    if unknown:
        raise OptionError(f"a plan of {function} has no option {quote(unknown[0])}; leave it out")
    domain = Domain.from_json(json.dumps(content["domain"]))
    return verb.of(formula=content["formula"], data=Unread(content["n"]), domain=domain, dry_run=True, **options)


def _meaning_of_n(plan: Any) -> str:
    """Return a description of the number n of a plan, such as "public number of rows"."""
    neighbors = plan.specification.neighbors
    return f"{'public' if neighbors.exchange else 'assumed'} number of {neighbors.unit or 'row'}s"


def _plain(name: str, value: Any) -> Any:
    """Return the value of an option (an argument of a call), converted to types that JSON can store.

    Raises
    ------
    OptionError
        If the option is not a string, a number, None, or a list or mapping of strings and numbers.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else repr(key): _plain(name, part) for key, part in value.items()}
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_plain(name, part) for part in value]
    raise OptionError(f"a file cannot hold {name}= as {quote(value)}; give it as text, a number or a list of these")
