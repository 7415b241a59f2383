"""The command line: commands to fit or plan a model, show or run saved plans, and print ledgers and domains.

An error prints one line to stderr and gives exit code 2. No traceback is shown, since it might contain data. If the
output cannot be written, because stdout is closed or the reader of a pipe has exited, the failure to write does not
count as an error.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from privstats.api.planning import plan as plan_of
from privstats.api.saved import load
from privstats.errors import BudgetError, DomainError, OptionError, PrivstatsError, PrivstatsWarning, quote
from privstats.formula.domain import Domain
from privstats.privacy.ledger import Ledger
from privstats.privacy.ledger_later import created_later
from privstats.privacy.ledger_text import PROMISES
from privstats.privacy.promise import Neighbors, Promise, promise_of
from privstats.results.files import OPEN_LEDGER, check_new, write_text
from privstats.results.study import StudyResults
from privstats.results.text import RULE
from privstats.version import VERSION
from privstats.workflow.call import VERBS
from privstats.workflow.plan import Plan
from privstats.workflow.saved import in_full
from privstats.workflow.study import Study

REFUSED, INTERRUPTED_CODE = 2, 130
DECLARATIONS = {"bounds", "levels", "dates", "scale"}  # keys that declare a column in a domain file (JSON)
EXAMPLES = """examples:
  privstats domain codebook.csv --out domain.json
  privstats domain schema.json
  privstats plan "log_wage ~ educ + C(region)" --n 98112 \\
      --domain domain.json --mu 1
  privstats fit "log_wage ~ educ + C(region)" wages.csv --domain domain.json \\
      --mu 0.5 --ledger study.sqlite --budget mu=1 --format markdown
  privstats ledger study.sqlite
  privstats show wages.plan.json
  privstats run wages.plan.json --data wages.parquet --ledger study.sqlite \\
      --budget mu=1 --analyst ann --out wages.fit.json

A plan is written by plan.save("wages.plan.json"), a study by ps.Study([plan1,
plan2]).save("study.json"); ps.load("wages.fit.json") gives the fit, or fits.
"""
RUN = """Make the call of a plan, or of all plans of a study, on data. The ledger is
charged before a row is read, with all plans or with none; where the data give
another digest than that of the plan nothing is charged."""
BUDGET = """budget of a ledger that is not there yet: mu=1, or eps=1, or eps=1,delta=1e-6; its
neighbours, if these are not single rows that are replaced: mu=1,unit=person_id,
or mu=1,neighbors=add_remove"""
FIT = """Fit a model to the rows of a Parquet or CSV file. Without a ledger the budget of
this fit is not added to that of any other. In a CSV file each line is a row,
and each cell is read as its column is declared: nothing is inferred from rows."""
FORMATS: Mapping[str, Callable[[Any], str]] = MappingProxyType(
    {
        "text": str,
        "markdown": lambda fit: fit.summary().as_markdown(),
        "latex": lambda fit: fit.summary().as_latex(),
        "html": lambda fit: fit.summary().as_html(),
    }
)


class _Parser(argparse.ArgumentParser):
    """An argument parser that raises this package's OptionError instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise OptionError(f"{message}; see {self.prog} --help")

    def _print_message(self, message: str, file: Any = None) -> None:
        _print(message, file)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        Words of the command line without the name of the program; by default ``sys.argv[1:]``.

    Examples
    --------
    >>> main(["show"])
    2
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", PrivstatsWarning)
        warnings.showwarning = lambda message, *_, **__: _complain(f"warning: {message}")
        chosen = None
        try:
            chosen = _parser().parse_args(arguments)
            if getattr(chosen, "out", None) is not None:
                check_new(chosen.out)  # an existing file raises an error before any budget is spent
            chosen.act(chosen)
            return 0
        except PrivstatsError as error:
            cure = f"list a ledger by privstats ledger {getattr(chosen, 'file', '')}"
            problem = str(error).replace(OPEN_LEDGER, cure)
            other = f"give another --ledger with {getattr(chosen, 'needed', '')}, or "
            other += r"fit with --\1" if hasattr(chosen, "formula") else r"save a plan with \1="
            problem = re.sub(r"open it with ps\.Ledger\(ps\..*, or fit with (\w+)=$", other, problem)
            problem, code = _for_call(in_shell(problem), chosen) if hasattr(chosen, "formula") else problem, REFUSED
        except KeyboardInterrupt as stop:
            problem, code = str(stop) or "interrupted", INTERRUPTED_CODE
        except Exception as error:  # the error's text may quote rows and is not shown
            problem, code = f"an unexpected failure ({type(error).__name__}); please report the command", REFUSED
    _complain(problem)
    return code


def _parser() -> argparse.ArgumentParser:
    style: Any = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = _Parser(
        "privstats", description="Private fits: plan them, make them, read them.", epilog=EXAMPLES, **style
    )
    parser.add_argument("--version", action="version", version=f"privstats {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="fit | plan | show | run | ledger | domain")
    fit = commands.add_parser("fit", help="fit a model to the rows of a file", epilog=EXAMPLES, **style)
    fit.description = FIT
    _add_call(fit)
    fit.add_argument("data", help="path of the rows, such as wages.csv")
    fit.add_argument("--ledger", help="the file of the ledger of these data")
    fit.add_argument("--budget", help=BUDGET)
    fit.add_argument("--analyst", help="who charges, in the ledger; by default the user of this machine")
    fit.add_argument("--format", choices=FORMATS, default="text", help="of the table that is printed")
    fit.add_argument("--out", help="a file for the fit, which must not be there yet")
    fit.set_defaults(act=_fit)
    plan = commands.add_parser("plan", help="say what a fit would release", epilog=EXAMPLES, **style)
    plan.description = "Say what a fit would release and how wide its intervals are expected to be.\nNo row is read."
    _add_call(plan)
    plan.add_argument("--n", type=int, required=True, help="number of rows")
    plan.add_argument("--out", help="a file for the plan, which must not be there yet")
    plan.set_defaults(act=_plan)
    show = commands.add_parser("show", help="say what a file holds", epilog=EXAMPLES, **style)
    show.description = "Say what a plan or a study would release and at which cost, or what a fit has\nreleased."
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
    ledger = commands.add_parser("ledger", help="list the entries of a ledger", epilog=EXAMPLES, **style)
    ledger.description = "List who fitted what, when and at which cost, and what is left."
    ledger.add_argument("file", help="the file of a ledger")
    ledger.set_defaults(act=_report)
    domain = commands.add_parser("domain", help="read a codebook or a schema", epilog=EXAMPLES, **style)
    domain.description = (
        "Show what a codebook (CSV), a Table Schema or a domain (JSON) declares, and\nwrite it as a domain."
    )
    domain.add_argument("file", help="such as codebook.csv, schema.json or domain.json")
    domain.add_argument("--out", help="a file for the domain, which must not be there yet")
    domain.set_defaults(act=_domain)
    return parser


def number_or_list(text: str) -> Any:
    """Return the number in a string, or the list of numbers if the string has several, separated by commas.

    Examples
    --------
    >>> number_or_list("20"), number_or_list("0.5"), number_or_list("-7,0,12.5")
    (20, 0.5, [-7, 0, 12.5])
    """
    try:
        found = [int(part) if part.strip("+- ").isdecimal() else float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{quote(text)} is no number, and no numbers with commas between") from None
    return found if "," in text else found[0]


OPTIONS: Mapping[str, tuple[Callable[[str], Any], str]] = MappingProxyType(
    {
        "eps": (float, "budget: pure differential privacy, or (eps, delta) with --delta; or give --mu or --rho"),
        "delta": (float, "probability with which eps may fail, well below one over the number of rows"),
        "mu": (float, "budget in Gaussian differential privacy"),
        "rho": (float, "budget in zero-concentrated differential privacy"),
        "mech": (str, "algorithm, such as suffstats; by default the one with the shorter expected intervals"),
        "noise": (str, "distribution of the noise, such as gaussian; by default the one with the least error"),
        "neighbors": (str, "replace (one row by another; default) or add_remove (the number of rows is private)"),
        "family": (str, "of glm: binomial (default), poisson or gamma"),
        "loss": (str, "of lm: squares (default) or huber"),
        "cov_type": (str, "what standard errors allow for: HC (default), nonrobust or cluster"),
        "subset": (str, 'rows to use, such as "age >= 18"; their number stays private'),
        "weights": (str, "column of sampling weights, with declared bounds"),
        "offset": (str, 'of glm: known part of the linear predictor, such as "np.log(years)"'),
        "unit": (str, "column that names the person or household of a row; all its rows are protected together"),
        "rows_per_unit": (int, "largest number of rows of one unit that count"),
        "tau": (number_or_list, "of rq: one number between 0 and 1, or several: 0.1,0.5,0.9"),
        "q": (number_or_list, "of quantile: one number between 0 and 1, or several: 0.25,0.5,0.75"),
        "bins": (
            number_or_list,
            "of hist and mode: number of bins, or their edges: 0,10,100, or --bins=-7,0,12 below zero",
        ),
        "grid": (float, "of mode, median and quantile: step between the values of a column, such as 1"),
    }
)


def in_shell(problem: str) -> str:
    """Return an error text in which arguments of functions, such as eps=1, are written as command options (--eps 1).

    An error about a budget is also shortened.

    Examples
    --------
    >>> in_shell("the ledger has eps = 0.5 left and this fit costs eps = 1; give eps=0.5 or less")
    'the ledger has eps = 0.5 left, this fit costs eps = 1; give --eps 0.5'
    >>> in_shell("mech='kng' has no normal noise; leave noise='gaussian' out, or give mech='newton'")
    '--mech kng has no normal noise; leave --noise gaussian out, or give --mech newton'
    """
    if "--" in problem:
        return problem
    problem = problem.replace(" left and this fit costs", " left, this fit costs").removesuffix(" or less")
    names = "|".join((*OPTIONS, "n"))
    return re.sub(rf"\b({names})=(\[.*?\]|'\w*'|[\w.+-]*)", _as_option, problem)


def _for_call(problem: str, chosen: argparse.Namespace | None) -> str:
    """Return the error text `problem`; if it proposes another kind of budget, name the budget option to be left out.

    For example, " in place of --eps" is appended to a text that ends in "; give --mu 1" if the command has the option
    --eps. The argument `chosen` contains the parsed options of the command.
    """
    found = re.search(r"; give --(eps|mu|rho) \S+$", problem)
    given = [name for name in ("eps", "mu", "rho") if getattr(chosen, name) is not None]
    return f"{problem} in place of --{given[0]}" if found and given and found[1] not in given else problem


def _as_option(found: re.Match[str]) -> str:
    value = found[2].strip("[']").replace(" ", "")
    return f"--{found[1].replace('_', '-')} {value}".rstrip()


def _add_call(parser: argparse.ArgumentParser) -> None:
    """Add the options of all model functions to a parser; `_options` rejects options that the chosen function lacks."""
    parser.add_argument("formula", help='such as "log_wage ~ educ + C(region)"')
    parser.add_argument(
        "--domain",
        required=True,
        help="what is publicly known of the columns: domain.json, schema.json or codebook.csv",
    )
    parser.add_argument("--function", default="lm", choices=VERBS, help="what is fitted; by default lm")
    for name, (kind, words) in OPTIONS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, help=words)


def _options(chosen: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of a model function, by name, from the command line; the domain is read from its file.

    Raises
    ------
    OptionError
        If the chosen function lacks one of the given options.
    """
    given = {name: value for name in OPTIONS if (value := getattr(chosen, name)) is not None}
    has = inspect.signature(VERBS[chosen.function]).parameters
    for name in given:
        if name not in has:
            raise OptionError(f"dp_{chosen.function} has no option {name!r}; leave --{name.replace('_', '-')} out")
    return {**given, "domain": _declared(chosen.domain, "write --domain domain.json or codebook.csv")}


def _declared(path: str, cure: str) -> Domain:
    """Return the domain (bounds and levels of columns) in a file: a codebook, a Table Schema or a domain in JSON.

    `cure` is a part of the error message for a file that cannot be read.
    """
    name = Path(path).name
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        text = None
    if text is None:
        raise OptionError(f"{quote(name)} cannot be read; {cure}")
    if path.lower().endswith(".csv"):
        return Domain.from_codebook(path)
    try:
        read, line = json.loads(text), 0
    except json.JSONDecodeError as error:
        read, line = None, error.lineno
    if line:
        raise DomainError(
            f'{name} is not valid JSON from line {line} on; write {{"columns": {{"age": {{"bounds": [0, 100]}}}}}}'
        )
    if isinstance(read, Mapping) and "fields" in read:
        return Domain.from_schema(read)
    _check_declarations(name, text, read)
    return Domain.from_json(text)


def _check_declarations(file: str, text: str, read: Any) -> None:
    """Raise an error if a column of a domain file in JSON has no declaration, such as bounds or levels.

    `file` is the name of the file, `text` its content, and `read` the object parsed from the content. All other checks
    of the file are made by `Domain.from_json`.
    """
    columns = read.get("columns") if isinstance(read, Mapping) else None
    for name, known in columns.items() if isinstance(columns, Mapping) else ():
        if not isinstance(known, Mapping) or not known.keys() & DECLARATIONS:
            raise DomainError(
                f"{file} declares no bounds or levels for '{name}' (line {_line_of(name, text)}); write "
                '{"bounds": [0, 100]} or {"levels": ["a", "b"]} from public knowledge, or delete it'
            )


def _line_of(name: str, text: str) -> int:
    """Return the number of the first line of a JSON text that has the name of a column as a key."""
    spelt = "|".join(re.escape(json.dumps(name, ensure_ascii=ascii_only)) for ascii_only in (True, False))
    found = re.compile(rf"({spelt})\s*:").search(text)
    return 1 + text.count("\n", 0, found.start() if found else 0)


def _fit(chosen: argparse.Namespace) -> None:
    if chosen.ledger is None and (chosen.budget or chosen.analyst):
        raise OptionError("--budget and --analyst belong to a ledger; add --ledger study.sqlite")
    options = _options(chosen)
    ledger = None
    if chosen.ledger is not None:
        around = Neighbors(chosen.neighbors or "replace", chosen.unit)
        ledger = _ledger(chosen, promise_of(chosen.eps, chosen.mu, chosen.rho, chosen.delta or 0.0, around))
    fit = VERBS[chosen.function](chosen.formula, chosen.data, ledger=ledger, **options)
    _deliver(chosen.out, fit.save, lambda: FORMATS[chosen.format](fit))


def _plan(chosen: argparse.Namespace) -> None:
    planned = plan_of(chosen.function, chosen.formula, chosen.n, **_options(chosen))
    _deliver(chosen.out, planned.save, lambda: str(planned))


def _report(chosen: argparse.Namespace) -> None:
    if not Path(chosen.file).exists():
        raise OptionError(f"there is no ledger {quote(Path(chosen.file).name)}; give the file of a ledger")
    _say(str(Ledger(path=chosen.file).report()))


def _domain(chosen: argparse.Namespace) -> None:
    domain = _declared(chosen.file, "write privstats domain codebook.csv, or a file in JSON")
    _deliver(chosen.out, lambda path: write_text(path, domain.to_json() + "\n"), lambda: repr(domain))


def _show(chosen: argparse.Namespace) -> None:
    match load(chosen.file):
        case Plan() as plan:
            _say(in_full(plan))
        case Study() as study:
            _say(f"\n{RULE}\n".join([study.head, *map(in_full, study)]))
        case fit:
            _say(str(fit))


def _run(chosen: argparse.Namespace) -> None:
    plan = load(chosen.file)
    if not isinstance(plan, Plan | Study):
        raise OptionError(f"{quote(Path(chosen.file).name)} is a fit, which was run already; give a plan or a study")
    fit = plan.run(chosen.data, ledger=_ledger(chosen, plan.guarantee))
    _deliver(chosen.out, fit.save, lambda: str(fit))
    if isinstance(fit, StudyResults) and (failed := sum(map(bool, fit.failed))):
        raise OptionError(f"{failed} of {len(fit)} fits failed after the ledger was charged; the file says why")


def _ledger(chosen: argparse.Namespace, cost: Promise | None) -> Ledger:
    """Return the ledger in the file that the option --ledger names.

    If the file does not exist, the option --budget must give the budget of a new ledger; otherwise an error proposes
    `cost`, the guarantee of the call, as the budget (mu=1 if `cost` is None). The file of a new ledger is created with
    the first charge, so a call that fails before the charge leaves no ledger with a mistaken budget.
    """
    chosen.needed = "--budget mu=1" if cost is None else _as_budget(cost)
    exists = Path(chosen.ledger).exists()
    if chosen.budget is not None:
        budget = budget_of(chosen.budget)
        return (Ledger if exists else created_later)(budget, chosen.ledger, analyst=chosen.analyst)
    if not exists:
        raise BudgetError(
            f"there is no ledger {quote(Path(chosen.ledger).name)}; create it with {chosen.needed}, or more if other "
            "calls follow"
        )
    return Ledger(path=chosen.ledger, analyst=chosen.analyst)


def _as_budget(promise: Promise) -> str:
    """Return the option --budget, as text, for a new ledger whose budget is the guarantee `promise`.

    Examples
    --------
    >>> from privstats.privacy.promise import ApproxDP
    >>> _as_budget(ApproxDP(0.5, 1e-6, Neighbors("replace", "person id")))
    "--budget 'eps=0.5,delta=1e-06,unit=person id'"
    """
    around = promise.neighbors
    parts = [f"{name}={number:.15g}" for name, number in promise.numbers.items()]
    parts += [f"unit={around.unit}"] * (around.unit is not None)
    parts += [f"neighbors={around.kind}"] * (not around.exchange)
    return f"--budget {shlex.quote(','.join(parts))}"


def budget_of(text: str) -> Promise:
    """Return the privacy guarantee that a string such as "eps=1, delta=1e-6" describes.

    Raises
    ------
    OptionError, BudgetError
        If the text describes no guarantee.

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


def _deliver(path: str | None, save: Callable[[str], None], text: Callable[[], str]) -> None:
    """Write a result to the file `path` (option --out), unless `path` is None, and then print the result.

    The result is printed even if the file cannot be written. So a result for which budget was spent is lost only if
    both the writing of the file and the printing fail. The function `save` writes the result to a path, and `text`
    returns the text to be printed.
    """
    saved = False
    try:
        if path is not None:
            save(path)
            saved = True
    finally:
        shown = _say(text())
        if not shown:
            _complain(f"the output was not read; {f'the result is in {path}' if saved else 'keep results by --out'}")
    if saved:
        _say(f"Written to {path}")


def _say(text: str) -> bool:
    return _print(f"{_shown(text, sys.stdout)}\n", sys.stdout)


def _complain(text: str) -> None:
    _print(f"privstats: {_shown(' '.join(text.split()), sys.stderr)}\n", sys.stderr)


def _print(text: str, out: Any) -> bool:
    """Write text to the stream `out`, and return whether the text was written.

    The text is not written if `out` is None, because the process was started without this stream, or if the system
    reports an error, for example because the disk is full or the reader of a pipe has exited.
    """
    if out is None:  # Python gives None for a stream whose file descriptor was closed at the start
        return False
    try:
        out.write(text)
        out.flush()
    except OSError:
        with suppress(OSError):  # the error is raised if the stream has no file descriptor
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, out.fileno())  # otherwise Python's flush of the stream at exit would fail as well
            os.close(nowhere)
        return False
    return True


def _shown(text: str, out: Any) -> str:
    """Return a text for the stream `out`, with escape sequences in place of characters that are not safe to print.

    The characters replaced are non-printable characters other than line breaks, and characters that the encoding of
    the stream lacks. Names in a file might contain such characters.
    """
    plain = "".join(char if char.isprintable() or char == "\n" else f"\\x{ord(char):02x}" for char in text)
    code = getattr(out, "encoding", None) or "utf-8"
    return plain.encode(code, "backslashreplace").decode(code)
