"""The command line: `privstats show` says what a plan would release, `privstats run` runs it on data.

A refusal is one line on the error stream, and exit code 2; no traceback, as its frames hold data.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

from privstats.api.saved import load
from privstats.errors import BudgetError, OptionError, PrivstatsError, PrivstatsWarning, quote
from privstats.privacy.ledger import Ledger
from privstats.privacy.ledger_text import PROMISES
from privstats.privacy.promise import Neighbors, Promise
from privstats.results.files import check_new
from privstats.results.study import StudyResults
from privstats.results.text import RULE
from privstats.version import VERSION
from privstats.workflow.plan import Plan
from privstats.workflow.saved import in_full
from privstats.workflow.study import Study

REFUSED, INTERRUPTED_CODE = 2, 130
EXAMPLES = """examples:
  privstats show wages.plan.json
  privstats run wages.plan.json --data wages.parquet --ledger study.sqlite \\
      --budget mu=1 --analyst ann --out wages.fit.json

A plan is written by plan.save("wages.plan.json"), a study by ps.Study([plan1,
plan2]).save("study.json"); ps.load("wages.fit.json") gives the fit, or the fits.
"""
RUN = """Make the call of a plan, or of all plans of a study, on data. The ledger is charged
before a row is read, with all plans or with none; where the data give another
digest than that of the plan nothing is charged."""
BUDGET = """budget of a ledger that is not there yet: mu=1, or eps=1, or eps=1,delta=1e-6; its
neighbours, if these are not single rows that are replaced: mu=1,unit=person_id,
or mu=1,neighbors=add_remove"""


class _Parser(argparse.ArgumentParser):
    """A parser whose refusals are ours."""

    def error(self, message: str) -> NoReturn:
        raise OptionError(f"{message}; see {self.prog} --help")


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command line; return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the process.

    Examples
    --------
    >>> main(["show"])
    2
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", PrivstatsWarning)
        warnings.showwarning = lambda message, *_, **__: _complain(f"warning: {message}")
        try:
            chosen = _parser().parse_args(arguments)
            chosen.act(chosen)
            return 0
        except PrivstatsError as error:
            problem, code = str(error), REFUSED
        except KeyboardInterrupt as stop:
            problem, code = str(stop) or "interrupted", INTERRUPTED_CODE
        except Exception as error:  # whatever it says may be of rows
            problem, code = f"an unexpected failure ({type(error).__name__}); please report the command", REFUSED
    _complain(problem)
    return code


def _parser() -> argparse.ArgumentParser:
    style: Any = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = _Parser("privstats", description="Plans of private fits: read them, run them.", epilog=EXAMPLES, **style)
    parser.add_argument("--version", action="version", version=f"privstats {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="show | run")
    show = commands.add_parser("show", help="say what a file holds", epilog=EXAMPLES, **style)
    show.description = "Say what a plan or a study would release and at which cost, or what a fit has released."
    show.add_argument("file", help="what save wrote: a plan, a study, a fit, or the fits of a study")
    show.set_defaults(act=_show)
    run = commands.add_parser("run", help="run a plan or a study on data", epilog=EXAMPLES, **style)
    run.description = RUN
    run.add_argument("file", help="a plan or a study")
    run.add_argument("--data", required=True, help="path of the rows, such as wages.parquet")
    run.add_argument("--ledger", required=True, help="the file of the ledger of these data")
    run.add_argument("--budget", help=BUDGET)
    run.add_argument("--analyst", help="who charges, in the ledger; by default the user of this machine")
    run.add_argument("--out", required=True, help="the file that is written, which must not be there yet")
    run.set_defaults(act=_run)
    return parser


def _show(chosen: argparse.Namespace) -> None:
    match load(chosen.file):
        case Plan() as plan:
            _say(in_full(plan))
        case Study() as study:
            _say(f"\n{RULE}\n".join([study.head, *map(in_full, study)]))
        case fit:
            _say(str(fit))


def _run(chosen: argparse.Namespace) -> None:
    check_new(chosen.out)
    plan = load(chosen.file)
    if not isinstance(plan, Plan | Study):
        raise OptionError(f"{quote(Path(chosen.file).name)} is a fit, which was run already; give a plan or a study")
    fit = plan.run(chosen.data, ledger=_ledger(chosen))
    _say(str(fit))  # first, so that numbers which are paid for are seen even if no file can be written
    fit.save(chosen.out)
    _say(f"Written to {chosen.out}")
    if isinstance(fit, StudyResults) and (failed := sum(map(bool, fit.failed))):
        raise OptionError(f"{failed} of {len(fit)} fits failed after the ledger was charged; the file says why")


def _ledger(chosen: argparse.Namespace) -> Ledger:
    """Return the ledger; a new one needs a budget."""
    if chosen.budget is None and not Path(chosen.ledger).exists():
        raise BudgetError(f"there is no ledger {quote(Path(chosen.ledger).name)}; begin it, with --budget mu=1")
    budget = None if chosen.budget is None else budget_of(chosen.budget)
    return Ledger(budget, chosen.ledger, analyst=chosen.analyst)


def budget_of(text: str) -> Promise:
    """Return the budget of which this is the text.

    Raises
    ------
    OptionError, BudgetError
        If it is none.

    Examples
    --------
    >>> budget_of("eps=1, delta=1e-6")
    ApproxDP(eps=1, delta=1e-06)
    >>> budget_of("mu=0.5, unit=person_id")
    GaussianDP(0.5, Neighbors('replace', 'person_id'))
    """
    pairs = [part.strip().partition("=") for part in text.split(",")]
    given = {name.strip(): value.strip() for name, _, value in pairs}
    if len(given) < len(pairs):
        raise OptionError(f"the budget is {quote(text)}; give each number once")
    around = Neighbors(given.pop("neighbors", "replace"), given.pop("unit", None))
    for kind in PROMISES.values():
        if {field.name for field in fields(kind)} == {*given, "neighbors"}:
            promise: Promise = kind(**{name: _number(name, value) for name, value in given.items()}, neighbors=around)
            return promise
    raise OptionError(f"the budget is {quote(text)}; write --budget mu=1, or eps=1, or eps=1,delta=1e-6")


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    raise OptionError(f"{name} of the budget is {quote(text)}; give a number, as in --budget {name}=1")


def _say(text: str) -> None:
    sys.stdout.write(f"{_shown(text, sys.stdout)}\n")


def _complain(text: str) -> None:
    sys.stderr.write(f"privstats: {_shown(' '.join(text.split()), sys.stderr)}\n")


def _shown(text: str, out: Any) -> str:
    """Return what a terminal shows and does not obey: names in a file may hold its control characters."""
    plain = "".join(char if char.isprintable() or char == "\n" else f"\\x{ord(char):02x}" for char in text)
    code = getattr(out, "encoding", None) or "utf-8"
    return plain.encode(code, "backslashreplace").decode(code)
