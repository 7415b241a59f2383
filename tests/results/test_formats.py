"""Tables for other programs: each format is read again by a parser of its own."""

import csv
import html.parser
import io
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from privstats.results.formats import Sheet
from tests.results.fits import (
    LM,
    MEANS,
    ODDS,
    PARTLY,
    QUANTILES,
    RQ,
    facts,
    given,
    glm_facts,
    mean_facts,
    partly_facts,
    quantile_facts,
    results,
    rq_facts,
)

NASTY = ("a|b", "_x_", "a_b", "50% & more", "<b>", "&amp;", "C(g)[T.{}]", r"x\y", "I(x**2)", "$5", "x" * 90, "[0, 1)")
ODD = results(given(NASTY, np.linspace(-1, 1, len(NASTY)), 0.1), facts(formula="y ~ " + " + ".join(NASTY)))
FITS = {
    "lm": results(LM),
    "partly": results(PARTLY, partly_facts()),
    "rq": results(RQ, rq_facts()),
    "quantile": results(QUANTILES, quantile_facts()),
    "mean": results(MEANS, mean_facts()),
    "odds": results(ODDS, glm_facts()),
    "odd names": ODD,
    "60 terms": results(given(tuple(f"x_{k}" for k in range(60)), 0.0, 1.0)),
}
GRIDS = {name: fit.summary() for name, fit in FITS.items()} | {"exp": FITS["odds"].summary(exp=True)}
every = pytest.mark.parametrize("name", GRIDS)


def shown(summary):
    """Return the headings and the rows of a summary's table."""
    return [summary.table.head(), *summary.table.rows()]


def unescaped(cell):
    return re.sub(r"\\([\\`*|$<&_])", r"\1", cell.strip())


def markdown_rows(text):
    """Return the cells of a Markdown table, split at bars that are not escaped, as GitHub does."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[unescaped(cell) for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


@every
def test_markdown_is_one_table_with_a_row_of_alignments(name):
    head, rule, *rows = markdown_rows(GRIDS[name].as_markdown())
    assert [tuple(row) for row in (head, *rows)] == shown(GRIDS[name])
    assert all(re.fullmatch(":-{3,}|-{3,}:", cell) for cell in rule)


class Read(html.parser.HTMLParser):
    """Parser of an HTML page: its tags, and the texts of the cells of its tables."""

    def __init__(self):
        super().__init__()
        self.tags, self.rows, self.open, self.scopes = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.scopes += [value for key, value in attrs if key == "scope"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if set(self.open) & {"td", "th"}:
            self.rows[-1][-1] += data


@every
def test_html_is_one_balanced_table_whose_heads_have_a_scope(name):
    page = Read()
    page.feed(GRIDS[name].as_html())
    assert page.open == [] and page.tags.count("table") == 1
    assert {"caption", "thead", "tbody", "tfoot", "style"} <= set(page.tags)
    assert set(page.tags) <= {"style", "table", "caption", "strong", "dl", "dt", "dd", "thead", "tbody", "tfoot"} | {
        *("tr", "th", "td", "p")
    }
    rows = shown(GRIDS[name])
    assert [tuple(row) for row in page.rows[: len(rows)]] == rows
    assert {"col", "row"} == set(page.scopes)


def latex_cells(text):
    lines = [line for line in text.splitlines() if line.endswith(r" \\")]
    return [re.split(r"(?<!\\)&", line[:-3]) for line in lines]


@every
def test_latex_is_one_captioned_table_without_long_cells(name):
    text = GRIDS[name].as_latex()
    assert text.count(r"\begin{table}") == text.count(r"\caption{") == text.count(r"\label{tab:fit}") == 1
    rows = latex_cells(text)
    assert len(rows) == len(shown(GRIDS[name])) and {len(row) for row in rows} == {len(shown(GRIDS[name])[0])}
    assert max(len(cell) for row in rows for cell in row) <= 80
    assert not any(line[:1] in ("[", "*") for line in text.splitlines() if line.endswith(r" \\"))
    assert not re.search(r"(?<![\w.$])-\d", text)  # minus signs must be in math mode


def test_latex_writes_budgets_and_special_letters():
    sheet = Sheet(
        "",
        "",
        ("a_b", "c"),
        (("50% & #1", "-0.5 (0.1)"), ("x" * 41, "1e-06")),
        below=(("", "mu = 0.5, delta = 1e-06."),),
    )
    text = sheet.as_latex()
    assert r"a\_b & c \\" in text and r"50\% \& \#1 & $-$0.5 (0.1) \\" in text
    assert r"$\mu = 0.5$, $\delta = 10^{-6}$." in text
    assert r"(a) & 1e-06 \\" in text and f"(a) {'x' * 41}" in text
    assert r"\delta = 5 \times 10^{-7}" in Sheet("delta = 5e-07", "", ("",), ()).as_latex()


def test_wide_latex_stands_in_parts_below_each_other():
    heads = ("", *(f"({k})" for k in range(1, 8)))
    sheet = Sheet("seven", "models", heads, (("x", *["-0.04492 (0.00331)"] * 7),))
    parts = list(sheet.panels())
    assert [part.heads[1:] for part in parts] == [heads[1:5], heads[5:]]
    assert sheet.as_latex().count(r"\begin{tabular}") == 2


@pytest.mark.parametrize("length", range(20, 50, 3))
def test_the_ends_of_an_interval_and_the_noise_stay_in_one_latex_table(length):
    text = results(given(("x" * length, "z"), 1.0, 1.0, 0.1)).summary().as_latex()
    (row,) = [line for line in text.splitlines() if "0.025" in line]
    assert row.split(" & ")[-3:] == ["{[}0.025", "0.975]", r"noise \\"]


def test_parts_leave_out_rows_and_labels_of_which_they_have_nothing():
    rows = (("x", "", "1" * 40, ""), ("x", "0.1", "", "2" * 40), ("x", "0.5", "", "3" * 40))
    first, second = Sheet("", "", ("", "tau", "a", "b"), rows, (("Rows", "", "4", "5"),), labels=2).panels()
    assert (first.heads, first.body, first.foot) == (("", "a"), (("x", "1" * 40),), (("Rows", "4"),))
    assert (second.heads, second.body) == (("", "tau", "b"), (("x", "0.1", "2" * 40), ("x", "0.5", "3" * 40)))
    assert f"x & 0.1 & {'2' * 40} \\\\\n & 0.5 &" in second.as_latex()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles_and_fits_onto_the_page(tmp_path):
    tables = "\n".join(summary.as_latex() for name, summary in GRIDS.items() if name != "60 terms")
    start = r"\documentclass[a4paper]{article}\usepackage{booktabs}\begin{document}"
    (tmp_path / "all.tex").write_text(f"{start}\n{tables}\n\\end{{document}}")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-2000:]
    assert not re.search(r"Overfull .* in alignment", run.stdout)


@every
def test_csv_has_every_label_in_every_row(name):
    summary = GRIDS[name]
    head, *rows = csv.reader(io.StringIO(summary.as_csv()))
    assert tuple(head) == summary.table.head() and len(rows) == len(summary.table.rows())
    assert all(row[0] for row in rows) if name != "mean" else rows[0][0] == "<1H OCEAN"


def test_a_notebook_shows_a_fit_as_its_summary():
    assert FITS["lm"]._repr_html_() == FITS["lm"].summary().as_html()


def test_great_tables_hold_the_same_cells():
    pytest.importorskip("great_tables", reason="great_tables is not installed: pip install 'privstats[gt]'")
    text = FITS["partly"].as_gt().as_raw_html()
    assert "11.4120" in text and "not given [2]" in text and "P&gt;|z|" in text and "released count" in text
    assert "&lt;b&gt;" in ODD.as_gt().as_raw_html() and "<b>" not in ODD.as_gt().as_raw_html()


def test_without_great_tables_the_refusal_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "great_tables", None)
    with pytest.raises(ImportError, match=re.escape("pip install 'privstats[gt]'")):
        FITS["lm"].as_gt()
