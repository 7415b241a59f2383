"""The command line: a custodian runs an analyst's plan, and a reader loads the saved fit; an error is one line."""

import io
import json
import multiprocessing
import os
import re
import shlex
import subprocess
import sys
import tomllib
from contextlib import contextmanager, redirect_stdout
from importlib import import_module

import pandas as pd
import pytest

import privstats as ps
from privstats import command
from privstats.errors import BudgetError, OptionError, PrivacyError
from privstats.gate.gate import Gate
from privstats.privacy.promise import ApproxDP, GaussianDP, Neighbors, PureDP
from privstats.results.results import Results
from privstats.results.study import StudyResults
from tests.architecture.test_layers import ROOT
from tests.conftest import slow
from tests.privacy.test_ledger_file import forking

pytest.importorskip("pyarrow")

DOMAIN = ps.Domain({"y": (0, 10), "g": ["a", "b"]})
PLAN = ps.plan("mean", "y ~ g", 500, eps=0.5, mech="laplace", domain=DOMAIN)
STUDY = ps.Study([PLAN, ps.plan("hist", "g", 500, eps=0.25, domain=DOMAIN)])
PLANTED = 0.734512345


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a custodian's folder with files: a saved plan, a saved study (a list of plans), and two sets of rows."""
    monkeypatch.chdir(tmp_path)
    PLAN.save("mean.plan.json")
    STUDY.save("study.json")
    rows = DOMAIN.synthetic(500, seed=3)
    rows.loc[7, "y"] = PLANTED
    rows.to_parquet("rows.parquet")
    rows[1:].to_parquet("fewer.parquet")
    return tmp_path


def ran(capsys, *arguments):
    """Return the exit code, the output and the error output of a command."""
    code = command.main([str(part) for part in arguments])
    return code, *capsys.readouterr()


def run(capsys, file="mean.plan.json", *more, data="rows.parquet", ledger="study.sqlite", out="fit.json"):
    return ran(capsys, "run", file, "--data", data, "--ledger", ledger, "--out", out, *more)


BUDGET = ("--budget", "eps=2", "--analyst", "ann")

# ---------------------------------------------------------------- calls by formula


@pytest.fixture
def declared(folder):
    """Return the custodian's folder, with the domain and a CSV file that has planted values in malformed lines."""
    (folder / "domain.json").write_text(DOMAIN.to_json())
    text = DOMAIN.synthetic(500, seed=3).to_csv(index=False).splitlines()
    text[5] = f"{PLANTED},a,{PLANTED},8"
    text[9] = f'"{PLANTED}'
    (folder / "rows.csv").write_text("\n".join(text) + "\n")
    return folder


CALL = ("y ~ g", "--function", "mean", "--mech", "laplace", "--domain", "domain.json", "--eps", 0.5)


def test_a_fit_by_formula_is_the_fit_of_the_function_and_its_charge_is_listed(declared, capsys):
    code, said, complaint = ran(
        capsys,
        "fit",
        *CALL,
        "rows.csv",
        "--ledger",
        "study.sqlite",
        *BUDGET,
        "--out",
        "fit.json",
        "--format",
        "markdown",
    )
    assert (code, complaint) == (0, "")
    fit, called = ps.load("fit.json"), ps.dp_mean("y ~ g", "rows.csv", eps=0.5, mech="laplace", domain=DOMAIN)
    assert said == f"{fit.summary().as_markdown()}\nWritten to fit.json\n"
    assert fit.digest == called.digest and fit.guarantee == called.guarantee
    code, said, complaint = ran(capsys, "ledger", "study.sqlite")
    assert (code, complaint) == (0, "")
    assert said == f"{ps.Ledger(path='study.sqlite').report()}\n" and "ann" in said and "left eps = 1.5" in said


def test_a_plan_by_formula_is_the_plan_of_the_function(declared, capsys):
    code, said, complaint = ran(capsys, "plan", *CALL, "--n", 500, "--out", "other.plan.json")
    assert (code, complaint) == (0, "")
    assert said == f"{PLAN}\nWritten to other.plan.json\n"
    assert ps.load("other.plan.json").digest == PLAN.digest
    code, said, _ = ran(capsys, "plan", *CALL[:2], "quantile", *CALL[5:], "--q", "0.25,0.5", "--n", 500)
    assert code == 0 and said.startswith("Plan of dp_quantile: y ~ g\n")
    assert all(f"\ny[{level}, {q}] " in said for level in "ab" for q in ("0.25", "0.5"))


@pytest.mark.parametrize(
    ("options", "keywords"),
    [
        (("hist", "--bins", "5"), {"bins": 5}),
        (("hist", "--bins", "0,2.5,10"), {"bins": [0, 2.5, 10]}),
        (("mode", "--bins", "0,2.5,10"), {"bins": [0, 2.5, 10]}),
        (("mode", "--grid", "1"), {"grid": 1}),
        (("quantile", "--q", "0.25,0.5", "--grid", "1"), {"q": [0.25, 0.5], "grid": 1}),
    ],
    ids=str,
)
def test_bins_are_a_number_or_edges_and_a_grid_is_its_step(options, keywords, declared, capsys):
    """The command ``privstats plan`` accepts numbers of bins, bin edges and steps of a grid as options.

    Earlier, the error about missing bins proposed bin edges and a grid, but the command refused both options.
    """
    code, said, complaint = ran(
        capsys, "plan", "y", "--domain", "domain.json", "--eps", 1, "--n", 500, "--function", *options
    )
    assert (code, complaint) == (0, "")
    assert said == f"{ps.plan(options[0], 'y', 500, eps=1, domain=DOMAIN, **keywords)}\n"


def test_a_codebook_becomes_a_domain(folder, capsys):
    (folder / "codebook.csv").write_text("name,low,high,levels\ny,0,10,\ng,,,a|b\n")
    code, said, complaint = ran(capsys, "domain", "codebook.csv", "--out", "domain.json")
    assert (code, complaint) == (0, "")
    assert said == f"{DOMAIN!r}\nWritten to domain.json\n"
    assert ps.Domain.from_json((folder / "domain.json").read_text()) == DOMAIN


SCHEMA = {"fields": [{"name": "y", "type": "number", "constraints": {"minimum": 0, "maximum": 10}}, {"name": "remark"}]}


def test_a_table_schema_becomes_a_domain(declared, capsys):
    (declared / "schema.json").write_text(json.dumps(SCHEMA))
    code, said, complaint = ran(capsys, "domain", "schema.json", "--out", "new.json")
    assert (code, complaint) == (0, "")
    assert said == "Domain of 1 column\n  y  0 to 10\nWritten to new.json\n"
    assert ps.Domain.from_json((declared / "new.json").read_text()) == ps.Domain({"y": (0, 10)})


@pytest.mark.parametrize(
    "options",
    [
        ("--eps", 0.5),
        ("--eps", 0.123456789012),
        ("--eps", 0.5, "--delta", 1e-6),
        ("--mu", 1.5),
        ("--rho", 0.5),
        ("--eps", 0.5, "--neighbors", "add_remove"),
        ("--eps", 0.5, "--unit", "a person"),
    ],
    ids=str,
)
def test_a_ledger_that_is_missing_names_a_budget_that_the_fit_can_be_charged_to(options, declared, capsys):
    """The error about a missing ledger proposes a budget that covers the cost of the fit.

    If another budget is given, the command does not create a ledger. Earlier, the error proposed the budget mu=1 for
    every call, and the command created a ledger to which the fit could not be charged.
    """
    rows = DOMAIN.synthetic(500, seed=3)
    rows.assign(**{"a person": range(500)}).to_csv("rows.csv", index=False)
    call = ("fit", "y", "--function", "mean", "--domain", "domain.json", *options, "rows.csv", "--ledger", "l.sqlite")
    code, _, complaint = ran(capsys, *call)
    assert code == 2
    budget = re.search(r"^privstats: there is no ledger 'l\.sqlite'; create it with (.*), or more if", complaint)[1]
    wrong = "eps=3" if options[0] == "--mu" else "mu=0.01"
    code, _, complaint = ran(capsys, *call, "--budget", wrong)
    assert code == 2 and not (declared / "l.sqlite").exists()
    assert "ps." not in complaint
    if options[0] == "--mu":
        assert complaint.endswith("; give another --ledger with --budget mu=1.5, or fit with --eps\n")
    if options == ("--eps", 0.5):
        assert complaint.endswith("; give --mu 0.01 in place of --eps\n")
    code, _, complaint = ran(capsys, *call, *shlex.split(budget))
    assert code == 0, complaint
    assert len(ps.Ledger(path="l.sqlite").entries) == 1
    code, _, complaint = ran(capsys, *call)
    assert code == 2 and "the ledger has" in complaint


def test_a_terminal_shows_progress_and_what_is_captured_has_none(declared, capsys, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("privstats.workflow.progress.SILENT", 0.0)
    monkeypatch.setattr("privstats.workflow.progress.EVERY", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    code, said, complaint = ran(capsys, "fit", *CALL, "rows.csv")
    assert (code, complaint) == (0, "") and "pass" not in said
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    code, said, _ = ran(capsys, "fit", *CALL, "rows.csv")
    assert code == 0 and said.startswith("Private means by group: y ~ g\n") and "pass" not in said
    lines = [line.strip() for line in shown.getvalue().split("\r")]
    assert any(re.fullmatch(r"dp_mean  pass 1 of 1  \[#{24}\]  500 of 500 rows", line) for line in lines)
    assert lines[-1] == ""


def test_cures_are_written_as_options_are():
    assert command.in_shell("write q=[0.25, 0.5] or cov_type='HC'") == "write --q 0.25,0.5 or --cov-type HC"
    for kept in ("give --budget mu=1", "write domain={'x': (low, high)}", "write ledger=ps.Ledger(ps.PureDP(1))"):
        assert command.in_shell(kept) == kept


SHORT = "the ledger has eps = 0.25 left, this fit costs eps = 0.5; give --eps 0.25\n"
FILES = {
    "part.json": '{"columns": {\n "y": {"bounds": [0, 10]},\n "g": {"levels": ["région", "b"]},\n "région": {}}}',
    "escaped.json": json.dumps({"columns": {"y": {"bounds": [0, 10]}, "région": {"about": 3}}}, indent=1),
    "half.json": '{"columns": {\n "y": {"bounds": [0, 10]},\n "g": {"levels": ["a" "b"]}}}',
    "list.json": "[1, 2]",
    "spaced.csv": "g, y\na,1\n",
    "wrong.json": json.dumps({"fields": [{"name": "y", "constraints": {"minimum": 9, "maximum": 1}}]}),
}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit", *CALL, "rows.csv", "--tau", "0.5"], "dp_mean has no option 'tau'; leave --tau out"),
        (["fit", *CALL, "rows.csv", "--budget", "eps=1"], "--budget and --analyst belong to a ledger; add --ledger"),
        (["fit", "yy ~ g", *CALL[1:], "rows.csv"], "the data have no column 'yy'; did you mean 'y'?"),
        (["fit", *CALL, "rows.csv", "--out", "rows.csv"], "the file 'rows.csv' is there already"),
        (["fit", *CALL[:-1], "much", "rows.csv"], "argument --eps: invalid float value: 'much'"),
        (["plan", *CALL[:1], "--domain", "none.json", "--n", "5", "--eps", "1"], "'none.json' cannot be read; write"),
        (["ledger", "none.sqlite"], "there is no ledger 'none.sqlite'; give the file of a ledger"),
        (["domain", "rows.parquet"], "'rows.parquet' cannot be read; write privstats domain codebook.csv"),
        (["domain", "none.csv"], "'none.csv' cannot be read; write privstats domain codebook.csv, or"),
        (["domain", "."], "'' cannot be read; write privstats domain"),
        (
            ["fit", "y ~ g", "--function", "hist", *CALL[5:], "rows.csv"],
            "dp_hist needs bins for the numeric column 'y'; write --bins 20, or the edges\n",
        ),
        (
            ["fit", "y", "--function", "mode", *CALL[5:], "rows.csv"],
            "dp_mode needs bins for the numeric column 'y'; write --bins 20, or the edges, or --grid 1",
        ),
        (
            ["fit", *CALL, "rows.csv", "--bins", "0,x"],
            "argument --bins: '0,x' is no number, and no numbers with commas between; see",
        ),
        (["fit", *CALL, "spaced.csv"], "the data have no column 'y'; did you mean ' y', in a formula Q(' y')?"),
        (["domain", "part.json"], "part.json declares no bounds or levels for 'région' (line 4); write"),
        (["domain", "escaped.json"], "escaped.json declares no bounds or levels for 'région' (line 9); write"),
        (["domain", "half.json"], "half.json is not valid JSON from line 3 on; write"),
        (["domain", "list.json"], "a domain in JSON reads"),
        (["domain", "wrong.json"], "field 'y' of the schema: the lower bound 9 is not below"),
        (["fit", *CALL, "rows.csv", "--ledger", "new.sqlite", "--budget", "eps=0.25"], SHORT),
        (["fit", *CALL[:-2], "rows.csv"], "no budget is given; write --eps 1, or --eps 1 with --delta 1e-6, or --mu 1"),
        (["fit", *CALL, "nowhere.csv"], "data is not the path of a file with column names"),
        (["fit", *CALL, "domain.json"], "data is not the path of a Parquet file"),
        (["plan", *CALL, "--n", "-5"], "n is -5; give a whole number of rows, such as --n 1000"),
    ],
)
def test_a_call_that_is_refused_is_one_line(arguments, words, declared, capsys):
    for name, text in FILES.items():
        (declared / name).write_text(text, encoding="utf-8")
    if "new.sqlite" in arguments:
        ps.Ledger(PureDP(0.25), "new.sqlite")
    before = sorted(declared.iterdir())
    code, said, complaint = ran(capsys, *arguments)
    assert (code, said) == (2, "") and complaint.startswith(f"privstats: {words}") and complaint.count("\n") == 1
    assert sorted(declared.iterdir()) == before and str(PLANTED) not in complaint


# ---------------------------------------------------------------- three people, three processes


WAGES = ps.Domain({"y": (0, 10), "x": (0, 1), "g": ["a", "b"]})
SHOW = ["show", "y.plan.json"]
RUN = "run y.plan.json --data y.parquet --ledger l.sqlite --budget eps=3 --analyst ann --out y.fit.json"


def analyst():
    """Act as the analyst: plan a fit, tried on synthetic rows, and save the plan in a file."""
    rows = WAGES.synthetic(2000, seed=1)
    plan = ps.dp_lm("y ~ x", rows, eps=2.0, domain=WAGES, mech="suffstats", dry_run=True)
    plan.accept({"x": 50}).save("y.plan.json")


def custodian():
    """Act as the custodian: show the saved plan, then run the plan on the data."""
    assert command.main(SHOW) == command.main(RUN.split()) == 0


def reader():
    """Act as the reader: load the saved fit, predict from it, and print its summary."""
    fit = ps.load("y.fit.json")
    predicted = fit.predict(pd.DataFrame({"x": [0.5]}))
    sys.stdout.write(f"{fit.summary()}\n{fit.digest} {len(predicted.dropna())} {fit.tidy().shape}")


def forked(person, folder):
    """Return the output of the function `person`, run in a process forked from this process."""

    def work():
        os.chdir(folder)
        with open("said.txt", "w") as said, redirect_stdout(said):
            person()

    process = FORK.Process(target=work)
    process.start()
    process.join()
    assert process.exitcode == 0
    return (folder / "said.txt").read_text()


def fresh(person, folder):
    """Return the output of the function `person`, run in a new Python process that imports the package itself."""
    code = f"from tests.api import test_command; test_command.{person.__name__}()"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, env=ENVIRONMENT)
    assert run.returncode == 0 and run.stderr == "", run.stderr
    return run.stdout


FORK = multiprocessing.get_context("fork") if hasattr(os, "fork") else None
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT.parent)}


@pytest.mark.parametrize("process", [pytest.param(forked, marks=forking), slow(fresh)])
def test_a_plan_goes_from_the_analyst_to_the_custodian_and_its_fit_to_the_reader(process, tmp_path):
    """The analyst, the custodian and the reader have separate processes and two folders.

    Only the files of the plan and of the fit are passed on.
    """
    office, desk = tmp_path / "office", tmp_path / "desk"
    office.mkdir()
    desk.mkdir()
    WAGES.synthetic(2000, seed=9).to_parquet(office / "y.parquet")
    process(analyst, desk)
    (desk / "y.plan.json").rename(office / "y.plan.json")
    digest = json.loads((office / "y.plan.json").read_text())["digest"]
    said = process(custodian, office)
    assert "Guarantee    eps = 2 for any one row" in said and f"Digest       {digest}" in said
    ledger = ps.Ledger(path=office / "l.sqlite")
    assert ledger.spent() == PureDP(2.0) and ledger.entries["analyst"].tolist() == ["ann"]
    (office / "y.fit.json").rename(desk / "y.fit.json")
    summary, _, last = process(reader, desk).rpartition("\n")
    assert last == f"{digest} 1 (2, 9)"
    assert summary in said and said.endswith("Written to y.fit.json\n")
    assert "l.sqlite: eps = 2 of 3 spent, 1 left" in summary and "x at most 50 (met" in " ".join(summary.split())


@pytest.mark.slow
def test_the_package_is_the_command():
    run = subprocess.run([sys.executable, "-m", "privstats", "show"], capture_output=True, text=True, env=ENVIRONMENT)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "privstats: the following arguments are required: file; see privstats show --help\n"


def test_the_command_is_installed_by_its_name():
    scripts = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, name = scripts["privstats"].partition(":")
    assert getattr(import_module(module), name) is command.main


# ---------------------------------------------------------------- show


def test_what_is_shown_is_what_can_be_judged(folder, capsys):
    code, shown, complaint = ran(capsys, "show", "mean.plan.json")
    assert code == 0 and complaint == ""
    assert shown.startswith(str(PLAN)) and "Options      eps=0.5, mech='laplace'" in shown
    assert "Domain       y: 0 to 10\n             g: levels 'a', 'b'\n" in shown
    assert f"Digest       {PLAN.digest}\n" in shown and "95% width" in shown
    code, shown, _ = ran(capsys, "show", "study.json")
    assert code == 0 and "Together     eps = 0.75 for any one row" in shown
    assert all(str(plan) in shown and plan.digest in shown for plan in STUDY)
    assert max(map(len, shown.splitlines())) <= 80


def test_a_fit_is_shown_as_its_summary(folder, capsys):
    fit = PLAN.run("rows.parquet")
    fit.save("fit.json")
    assert ran(capsys, "show", "fit.json") == (0, f"{fit.summary()}\n", "")


def test_names_in_a_file_do_not_command_the_terminal(folder, capsys):
    domain = {"y": (0, 10), "g": ["a\x1b[2J\x9b", "b"]}
    ps.plan("mean", "y ~ g", 500, eps=0.5, mech="laplace", domain=domain).save("mean.plan.json")
    code, shown, _ = ran(capsys, "show", "mean.plan.json")
    assert code == 0 and "\x1b" not in shown and "\x9b" not in shown and "x1b[2J" in shown
    _, _, complaint = ran(capsys, "show", "\x1b[2J.json")
    assert "\x1b" not in complaint


# ---------------------------------------------------------------- run


def test_a_study_is_charged_at_once_and_written_to_one_file(folder, capsys):
    code, said, complaint = run(capsys, "study.json", *BUDGET)
    assert (code, complaint) == (0, "")
    fits = ps.load("fit.json")
    assert isinstance(fits, StudyResults) and fits.calls == ("dp_mean y ~ g", "dp_hist g")
    assert all(str(fit.summary()) in said for fit in fits) and str(fits) in said
    assert [fit.digest for fit in fits] == [plan.digest for plan in STUDY] and fits.digest == STUDY.digest
    ledger = ps.Ledger(path="study.sqlite")
    assert ledger.spent() == PureDP(0.75) and len(ledger.entries) == 2


SHORT_PLAN = "the ledger has eps = 0.1 left and this fit costs eps = 0.5; save a plan with eps=0.1 or less\n"
SHORT_NEW = SHORT_PLAN.replace("0.1", "0.25")
SHORT_STUDY = "the ledger has eps = 0.1 left and this fit costs eps = 0.75; save a study with eps=0.1 or less\n"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"data": "nowhere.parquet"}, "data is not the path of a Parquet file"),
        ({"data": "fewer.parquet"}, "the data have 499 rows and the plan is for 500; save a plan with n=499"),
        ({"out": "rows.parquet"}, "the file 'rows.parquet' is there already; give another name"),
        ({"out": "nowhere/fit.json"}, "the file 'fit.json' cannot be written; give a path where you may write"),
        ({"out": "."}, "the path is '.'; write the name of a file"),
        ({"file": "nowhere.json"}, "the file 'nowhere.json' cannot be read"),
        ({"file": "rows.parquet"}, "the file 'rows.parquet' cannot be read"),
        ({"file": "old.fit.json"}, "'old.fit.json' is a fit, which was run already; give a plan or a study"),
        ({"file": "half.plan.json"}, "the file 'half.plan.json' is incomplete, or not JSON; save it again"),
        ({"ledger": "new.sqlite"}, "there is no ledger 'new.sqlite'; create it with --budget eps=0.5, or"),
        ({"ledger": "new.sqlite", "more": ("--budget", "eps=0.25")}, SHORT_NEW),
        ({"ledger": "rows.parquet"}, "the ledger 'rows.parquet' is no ledger; begin one elsewhere"),
        ({"ledger": "short.sqlite"}, SHORT_PLAN),
        ({"ledger": "short.sqlite", "file": "study.json"}, SHORT_STUDY),
        ({"more": ("--budget", "eps=3")}, "the ledger 'study.sqlite' has the budget eps = 2 for any one row"),
        ({"more": ("--budget", "epsilon=3")}, "the budget is 'epsilon=3'; write --budget mu=1, or eps=1"),
        ({"more": ("--seed", "3")}, "unrecognized arguments: --seed 3; see privstats --help"),
    ],
)  # fmt: skip
def test_a_refusal_is_one_line_and_charges_nothing(more, words, folder, capsys):
    ledger = ps.Ledger(PureDP(2.0), "study.sqlite")
    ps.Ledger(PureDP(0.1), "short.sqlite")
    PLAN.run(DOMAIN.synthetic(500)).save("old.fit.json")
    (folder / "half.plan.json").write_text(PLAN.to_json()[:200])
    before = sorted(folder.iterdir())
    given = {**more}
    code, said, complaint = run(capsys, given.pop("file", "mean.plan.json"), *given.pop("more", ()), **given)
    assert code == 2 and said == ""
    assert complaint.startswith(f"privstats: {words}") and complaint.count("\n") == 1
    assert ledger.spent().eps == 0 and sorted(folder.iterdir()) == before


@pytest.mark.parametrize("arguments", [[], ["fit"], ["show"], ["run", "mean.plan.json"], ["show", "a", "b"], ["--no"]])
def test_a_wrong_command_is_one_line(arguments, capsys):
    code, said, complaint = ran(capsys, *arguments)
    assert (code, said) == (2, "") and complaint.startswith("privstats: ") and complaint.count("\n") == 1
    assert complaint.endswith(" --help\n")


@pytest.mark.parametrize(
    "arguments", [["--help"], *([name, "--help"] for name in ("fit", "plan", "show", "run", "ledger", "domain"))]
)
def test_help_has_examples(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        command.main(arguments)
    assert end.value.code == 0
    shown = capsys.readouterr().out
    assert "privstats run wages.plan.json --data wages.parquet --ledger study.sqlite" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_what_fails_after_the_charge_shows_no_row_and_leaves_no_file(folder, capsys, monkeypatch):
    def failing(kind):
        def answer(self, *args):
            raise kind(f"{PLANTED}")

        return answer

    for kind, code in ((RuntimeError, 2), (PrivacyError, 2), (KeyboardInterrupt, 130)):
        monkeypatch.setattr(Gate, "_answer", failing(kind))
        found, said, complaint = run(capsys, "mean.plan.json", *BUDGET[: 4 * (kind is RuntimeError)])
        assert found == code and said == "" and complaint.count("\n") == 1 and "Traceback" not in complaint
        assert not (folder / "fit.json").exists()
    assert "the budget of this call is spent" in complaint
    assert ps.Ledger(path="study.sqlite").spent() == PureDP(1.5)


def test_of_a_study_that_fails_in_part_the_rest_is_kept(folder, capsys, monkeypatch):
    answer = Gate._answer

    def fails(self, pairs, *args):
        if pairs[0][0].label == "counts":
            raise PrivacyError("a release could not be computed")
        return answer(self, pairs, *args)

    monkeypatch.setattr(Gate, "_answer", fails)
    code, said, complaint = run(capsys, "study.json", *BUDGET)
    assert code == 2 and "1 of 2 fits failed after the ledger was charged; the file says why" in complaint
    assert "Not given    dp_hist g: a release could not be computed" in said
    assert ps.load("fit.json")[0].digest == PLAN.digest


def test_numbers_that_are_paid_for_are_seen_even_if_no_file_can_be_written(folder, capsys, monkeypatch):
    def full(self, path):
        raise OptionError("the file 'fit.json' cannot be written; give a path where you may write")

    monkeypatch.setattr(Results, "save", full)
    code, said, complaint = run(capsys, "mean.plan.json", *BUDGET)
    assert code == 2 and "cannot be written" in complaint and "Private means by group: y ~ g" in said


@pytest.mark.parametrize("words", ["fit", "run"])
def test_numbers_that_are_paid_for_are_saved_even_if_they_cannot_be_printed(words, declared, capsys, monkeypatch):
    """If the result of a charged fit cannot be printed, the command saves the result and names its file.

    Earlier, a failure to print the result prevented the saving of the result. A later version saved the result but did
    not say so.
    """

    class Full(io.StringIO):
        def write(self, text):
            raise OSError("the disk is full")

    monkeypatch.setattr(sys, "stdout", Full())
    call = ("fit", *CALL, "rows.csv") if words == "fit" else ("run", "mean.plan.json", "--data", "rows.parquet")
    code, _, complaint = ran(capsys, *call, "--ledger", "study.sqlite", *BUDGET, "--out", "fit.json")
    assert code == 0 and complaint.endswith("the output was not read; the result is in fit.json\n")
    assert ps.load("fit.json").guarantee == ps.Ledger(path="study.sqlite").spent() == PureDP(0.5)


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_what_is_paid_for_is_saved_though_nobody_reads_the_output(closed, stream, declared, monkeypatch):
    """If the output stream is closed or its pipe is broken, the command saves the result of a charged fit.

    Earlier, the command failed after the charge, and the result was not saved.
    """

    @contextmanager
    def broken():
        reads, writes = os.pipe()
        os.close(reads)
        with os.fdopen(writes, "w") as out, monkeypatch.context() as patch:
            patch.setattr(sys, stream, None if closed else out)
            yield

    saved = ("--ledger", "study.sqlite", *BUDGET, "--out", "fit.json")
    # the declared column `elsewhere`, which the data do not have, causes a warning
    (declared / "domain.json").write_text(ps.Domain({**DOMAIN, "elsewhere": (0, 1)}).to_json())
    for words, end in ((["fit", *map(str, CALL), "rows.csv", *saved], 0), (["show", "fit.json"], 0), (["show"], 2)):
        with broken():
            assert command.main(words) == end
    with broken(), pytest.raises(SystemExit) as helped:
        command.main(["--help"])
    assert helped.value.code == 0
    assert ps.load("fit.json").guarantee == ps.Ledger(path="study.sqlite").spent() == PureDP(0.5)


def test_a_ledger_that_is_shown_names_the_command_that_lists_it(folder, capsys):
    """The error for ``privstats show`` of a ledger proposes the command ``privstats ledger``, not Python code."""
    ps.Ledger(PureDP(2.0), "study.sqlite")
    code, said, complaint = ran(capsys, "show", "study.sqlite")
    assert (code, said) == (2, "") and complaint.endswith("or list a ledger by privstats ledger study.sqlite\n")


def test_a_warning_is_one_line(folder, capsys):
    domain = ps.Domain({**DOMAIN, "elsewhere": (0, 1)})
    ps.plan("mean", "y ~ g", 500, eps=0.5, mech="laplace", domain=domain).save("mean.plan.json")
    code, _, complaint = run(capsys, "mean.plan.json", *BUDGET)
    assert code == 0 and complaint.count("\n") == 1
    assert complaint.startswith("privstats: warning: the domain declares 'elsewhere', which is no column")


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("mu=1", GaussianDP(1.0)),
        ("eps = 0.5", PureDP(0.5)),
        ("eps=1, delta=1e-6", ApproxDP(1.0, 1e-6)),
        ("eps=1,neighbors=add_remove,unit=id", PureDP(1.0, Neighbors("add_remove", "id"))),
    ],
)
def test_budgets_are_written_as_arguments_are(text, budget):
    found = command.budget_of(text)
    assert found == budget and found.neighbors == budget.neighbors


@pytest.mark.parametrize(
    "text", ["", "1", "mu", "mu=", "mu=x", "mu=1,mu=2", "mu=1,eps=1", "eps=-1", "mu=nan", "eps=inf"]
)
def test_what_is_no_budget_is_refused(text):
    with pytest.raises((OptionError, BudgetError)):
        command.budget_of(text)


def test_the_frame_of_results_is_the_one_that_was_saved(folder):
    fit = PLAN.run("rows.parquet", rng=1)
    direct = ps.dp_mean("y ~ g", pd.read_parquet("rows.parquet"), 0.5, mech="laplace", domain=DOMAIN, rng=1)
    pd.testing.assert_frame_equal(fit.tidy(), direct.tidy())
