"""The progress line shows public facts, only on terminals and in notebooks, and is removed at the end."""

import io
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.gate import readers
from privstats.gate import rows as rows_module
from privstats.gate.files import File
from privstats.workflow import progress
from privstats.workflow.progress import Course, ProgressLine, shown_on

DOMAIN = {"x": (0, 1), "y": (0, 1), "b": bool, "g": ["a", "b"], "u": (0, 1)}
CALLS = {
    "moments": ("lm", "y ~ x", {"mech": "suffstats"}),
    "steps": ("lm", "y ~ x", {"mech": "newton"}),
    "minimised": ("glm", "b ~ x", {"mech": "objpert"}),
    "rq": ("rq", "y ~ x", {"mech": "objpert"}),
    "quantiles": ("quantile", "x", {"q": [0.25, 0.5, 0.9]}),
    "medians by group": ("median", "x ~ g", {}),
    "mean": ("mean", "x", {"mech": "laplace"}),
    "mode": ("mode", "g", {}),
}
OPTIONAL = ("steps", "minimised", "rq")  # fits with optional queries, which are not always asked


class Terminal(io.StringIO):
    """A terminal that records each line that overwrites the previous one."""

    def isatty(self):
        return True

    def renew(self):
        self.seek(0)
        self.truncate()

    @property
    def lines(self):
        return [line.rstrip() for line in self.getvalue().split("\r") if line.strip()]

    @property
    def passes(self):
        """The pass numbers that were shown, each with the largest possible number of passes."""
        found = [re.search(r" pass (\d+) of (\d+)", line).groups() for line in self.lines]
        return list(dict.fromkeys((int(number), int(most)) for number, most in found))

    @property
    def screen(self):
        """The text that remains visible on the terminal."""
        shown = ""
        for line in self.getvalue().split("\r"):
            shown = line + shown[len(line) :]
        return shown.strip()


@pytest.fixture
def terminal(monkeypatch):
    """Return a terminal on which each step of the progress is shown at once."""
    out = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=out))  # pytest replaces sys.stderr itself
    monkeypatch.setattr(progress, "SILENT", 0.0)
    monkeypatch.setattr(progress, "EVERY", 0.0)
    monkeypatch.setattr(rows_module, "BLOCK_ROWS", 100)
    monkeypatch.delenv("TERM", raising=False)
    return out


def data_of(n=300, seed=0, constant=False):
    rng = np.random.default_rng(seed)
    x = np.full(n, 0.5) if constant else rng.uniform(0, 1, n)
    y = np.full(n, 0.25) if constant else rng.beta(0.1, 0.1, n)
    return pd.DataFrame({"x": x, "y": y, "b": y > 0.5, "g": np.where(x > 0.9, "b", "a"), "u": np.arange(n)})


def fit(name, data, **more):
    verb, formula, options = CALLS[name]
    return getattr(ps, f"dp_{verb}")(formula, data, 1.0, domain=DOMAIN, rng=1, **options, **more)


def test_the_line_is_that_of_the_copy_deck():
    line = ProgressLine("dp_lm", 50_000_000, Terminal())
    line.begin(7, 11)
    line.read(31_000_000)
    assert line.text() == "dp_lm  pass 7 of 11  [###############---------]  31.0 of 50.0 million rows"


@pytest.mark.parametrize("columns", [200, 80, 40, 10])
@pytest.mark.parametrize("rows", [None, 0, 7, 999_999, 50_000_000, 10**10])
def test_a_line_is_not_longer_than_the_terminal_is_wide(monkeypatch, rows, columns):
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: SimpleNamespace(columns=columns))
    line = ProgressLine("dp_quantile", rows, Terminal())
    line.begin(10, 13)
    line.read(rows or 0)
    assert len(line.text()) <= max(min(79, columns - 1), len("dp_quantile  pass 10 of 13"))
    assert "pass 10 of 13" in line.text()


class Notebook(io.StringIO):
    """An output stream whose class has the name of a notebook's stream."""


Notebook.__module__ = "ipykernel.iostream"


def test_a_terminal_and_a_notebook_show_it_and_nothing_else_does(monkeypatch, tmp_path):
    monkeypatch.delenv("TERM", raising=False)
    for out in (Terminal(), Notebook()):
        assert shown_on(out) is out
    closed = Terminal()
    closed.close()
    with (tmp_path / "log").open("w") as file:
        assert [shown_on(out) for out in (None, io.StringIO(), file, object())] == [None] * 4
    monkeypatch.setenv("TERM", "dumb")
    assert shown_on(Terminal()) is None


@pytest.mark.parametrize("name", CALLS)
def test_each_planned_pass_is_shown_with_its_rows_and_cleared_at_the_end(terminal, name):
    fit(name, data_of())
    numbers, (most, *others) = [number for number, _ in terminal.passes], {most for _, most in terminal.passes}
    assert numbers == list(range(1, len(numbers) + 1))
    assert not others
    assert numbers[-1] == most if name not in OPTIONAL else 1 < numbers[-1] <= most
    assert sum(line.endswith("300 of 300 rows") for line in terminal.lines) == len(numbers)
    assert not terminal.screen


@pytest.mark.parametrize("name", CALLS)
def test_a_pass_shows_one_scan_of_the_rows_whatever_they_are_and_however_they_are_cut(monkeypatch, terminal, name):
    """The number of a mechanism's scans of the rows depends on the rows, but the displayed progress must not.

    Here each scan reads the rows again.
    """
    monkeypatch.setattr(readers, "READ_ROWS", 1)
    for data, cut in ((data_of(), 150), (data_of(seed=1), 13), (data_of(constant=True), 299)):
        terminal.renew()
        fit(name, lambda data=data, cut=cut: [data.iloc[:cut], data.iloc[cut:]], memory_limit=1)
        for number, most in terminal.passes:
            shown = [line.split()[-4] for line in terminal.lines if f" pass {number} of {most} " in line]
            assert shown == [str(3 * step) for step in range(101)]


@pytest.mark.parametrize("private", [{"neighbors": "add_remove"}, {"unit": "u"}], ids=str)
@pytest.mark.parametrize("name", ["moments", "quantiles"])
def test_no_rows_are_shown_where_their_number_is_private(terminal, name, private):
    shown = []
    for n in (300, 700):
        terminal.renew()
        data = data_of(n)
        fit(name, data.assign(u=data["u"] % 200), **private)
        shown.append(terminal.lines)
        assert all(re.fullmatch(r"(dp_\w+  pass \d+ of \d+)?", line) for line in terminal.lines)
    assert shown[0] == shown[1]


def test_a_choice_leaves_the_passes_of_the_branch_that_was_chosen(terminal):
    course = Course("dp_lm", {"moments": (2, 3), "steps": (2, 5)}, None)
    begun = [[1], [2], [2, 1], [2, 2], [2, 3]]
    branches = [None, None, None, "moments", "moments"]
    assert [course.turn(*turn) for turn in zip(begun, branches, strict=True)] == [True, False, True, True, False]
    assert terminal.passes == [(1, 7), (2, 7), (3, 7), (4, 5), (5, 5)]


def test_plans_know_the_turns_of_each_branch_and_a_fit_makes_them(terminal):
    data = data_of(20_000)
    turns = ps.dp_lm("y ~ x", data, 2.0, domain=DOMAIN, dry_run=True).turns
    assert len(set(map(sum, turns.values()))) == len(turns) == 2
    ps.dp_lm("y ~ x", data, 2.0, domain=DOMAIN, rng=1)
    assert terminal.passes[0] == (1, max(map(sum, turns.values())))
    assert terminal.passes[-1][1] in map(sum, turns.values())


def test_passes_through_made_up_bounds_count(terminal):
    lacking = {name: DOMAIN[name] for name in DOMAIN if name != "x"}
    ps.dp_lm("y ~ x", data_of(20_000), 4.0, domain=lacking, mech="suffstats", rng=1)
    most = terminal.passes[-1][0]
    assert terminal.passes == [(k, most) for k in range(1, most + 1)]
    terminal.renew()
    fit("moments", data_of())
    assert len(terminal.passes) < most


def test_a_short_fit_shows_nothing(monkeypatch, terminal):
    monkeypatch.setattr(progress, "SILENT", 3600.0)
    fit("moments", data_of())
    assert not terminal.getvalue()


def test_a_terminal_that_is_gone_changes_nothing(monkeypatch, terminal):
    def gone(text):
        raise BrokenPipeError

    expected = fit("steps", data_of())
    monkeypatch.setattr(terminal, "write", gone)
    assert fit("steps", data_of()).params.equals(expected.params)


def test_the_line_is_cleared_where_a_fit_is_interrupted(monkeypatch, terminal):
    def interrupted(self):
        if terminal.lines:
            raise KeyboardInterrupt
        return total(self)

    total = rows_module.Plain.total
    monkeypatch.setattr(rows_module.Plain, "total", interrupted)
    with pytest.raises(KeyboardInterrupt, match="spent"):
        fit("steps", data_of())
    assert terminal.lines
    assert not terminal.screen


@pytest.mark.parametrize(("name", "written"), [("mode", False), ("mean", False), ("moments", True)])
def test_blocks_are_kept_only_where_the_plan_asks_more_than_once(monkeypatch, name, written):
    items, put = [], File.put
    monkeypatch.setattr(File, "put", lambda self, item: items.append(type(item).__name__) or put(self, item))
    fit(name, data_of(), memory_limit=1)
    assert ("Block" in items) == written
