"""Tables for documents: what a parser, LaTeX and a browser make of them; fits side by side."""

import csv
import io
import re
import shutil
import subprocess
from dataclasses import replace

import pytest

import privstats as ps
from privstats.errors import OptionError
from privstats.privacy.promise import GaussianDP, Neighbors, PureDP
from privstats.results.formats import Sheet
from tests.results.fits import (
    LM,
    MEANS,
    PARTLY,
    QUANTILES,
    RQ,
    facts,
    given,
    mean_facts,
    mu_facts,
    partly_facts,
    quantile_facts,
    results,
    rq_facts,
)

TEXT = """
Response: np.log1p(mdvis)
                              (1)                  (2)                  (3)
lncoins          -0.04492 (0.00331)   -0.04520 (0.00334)   -0.04511 (0.00334)
disea                                  0.02941 (0.00102)    0.02932 (0.00103)
--------------------------------------------------------------------------------
Rows (public)               20,190               20,190               20,190
Guarantee                 mu = 0.5             mu = 0.5             mu = 0.5
--------------------------------------------------------------------------------
Together mu = 0.866 for any one row (neighbours: replace one row); implies
eps = 4.15 at delta = 1e-06. In parentheses: std errors (HC), noise included.
"""
MARKDOWN = """
| np.log1p(mdvis) | (1) | (2) | (3) |
|:----------------|----:|----:|----:|
| lncoins | -0.04492 (0.00331) | -0.04520 (0.00334) | -0.04511 (0.00334) |
| disea |  | 0.02941 (0.00102) | 0.02932 (0.00103) |
| Rows (public) | 20,190 | 20,190 | 20,190 |
| Guarantee | mu = 0.5 | mu = 0.5 | mu = 0.5 |

Together mu = 0.866 for any one row (neighbours: replace one row); implies eps = 4.15 at delta = 1e-06. \
In parentheses: std errors (HC), noise included.
"""
LATEX = r"""
\begin{table}[htbp]\centering
\caption{Response: np.log1p(mdvis)}\label{tab:models}
\begin{tabular}{lrrr}\toprule
 & (1) & (2) & (3) \\
\midrule
lncoins & $-$0.04492 (0.00331) & $-$0.04520 (0.00334) & $-$0.04511 (0.00334) \\
disea &  & 0.02941 (0.00102) & 0.02932 (0.00103) \\
\midrule
Rows (public) & 20,190 & 20,190 & 20,190 \\
Guarantee & $\mu = 0.5$ & $\mu = 0.5$ & $\mu = 0.5$ \\
\bottomrule\end{tabular}\par\smallskip
{\footnotesize Together $\mu = 0.866$ for any one row (neighbours: replace one row); implies BREAK
$\varepsilon = 4.15$ at $\delta = 10^{-6}$. In parentheses: std errors (HC), noise included.\par}
\end{table}
""".replace(" BREAK\n", " ")


def model(values, sds, names, **changes):
    share = (0.1,) * len(names)
    about = replace(mu_facts(), promise=GaussianDP(0.5), formula=f"np.log1p(mdvis) ~ {len(names)} {values}")
    return results(given(names, values, sds, share), replace(about, **changes))


def models():
    both = ("lncoins", "disea")
    return [
        model((-0.04492,), (0.00331,), ("lncoins",)),
        model((-0.04520, 0.02941), (0.00334, 0.00102), both),
        model((-0.04511, 0.02932), (0.00334, 0.00103), both),
    ]


@pytest.mark.parametrize("fmt, golden", [("text", TEXT), ("markdown", MARKDOWN), ("latex", LATEX)])
def test_fits_side_by_side_read_as_they_should(fmt, golden):
    assert str(ps.summary_table(models(), fmt=fmt)) == golden.strip("\n")


def test_a_notebook_shows_the_table_and_a_spreadsheet_reads_it():
    shown = ps.summary_table(models())
    assert shown._repr_html_() == ps.summary_table(models(), fmt="html")
    rows = list(csv.reader(io.StringIO(ps.summary_table(models(), fmt="csv"))))
    assert rows[0] == ["Term", "(1)", "(2)", "(3)"]
    assert rows[2] == ["disea", "", "0.02941 (0.00102)", "0.02932 (0.00103)"]


def test_the_price_counts_each_fit_once_and_is_unknown_where_there_is_none():
    one, two, _ = models()
    assert "Together mu = 0.707 " in ps.summary_table([one, two, one])
    assert "Together" not in ps.summary_table([one, one])
    assert "No total: a seeded fit" in ps.summary_table([one, model((1.0,), (0.1,), ("x",), seeded=3)])
    other = model((1.0,), (0.1,), ("x",), promise=GaussianDP(1, Neighbors("replace", "person")))
    assert "No total: the fits protect different units" in ps.summary_table([one, other])
    pure = model((1.0,), (0.1,), ("x",), promise=PureDP(1))
    assert re.search(r"Together (eps|mu|delta) = ", ps.summary_table([pure, one]))


def test_names_stars_and_what_is_not_given():
    shown = ps.summary_table(models(), names=["a", "b", "c"], rename={"disea": "diseases"}, stars=True, digits=2)
    assert re.search(r"^diseases +0\.0294 \(0\.0010\)\*\*\* +0\.0293 \(0\.0010\)\*\*\*$", shown, re.M)
    assert shown.splitlines()[1].split() == ["a", "b", "c"]
    assert "*** P < 0.001" in shown
    partly = ps.summary_table([results(PARTLY, partly_facts()), results(LM)])
    assert "not given" in partly
    assert "nan" not in partly.lower()
    assert "Response  " in partly
    several = ps.summary_table(
        [results(RQ, rq_facts()), results(QUANTILES, quantile_facts()), results(MEANS, mean_facts())]
    )
    assert "\n  [0.9] " in several


def test_many_models_and_long_names_fit_into_80_columns():
    long = "a_very_long_name_of_a_predictor_that_goes_on_and_on_until_the_line_ends_and_then_some_more"
    many = [model((k + 0.5,), (0.25,), (long,)) for k in range(7)]
    for fmt in ("text", "latex", "markdown", "html"):
        shown = ps.summary_table(many, fmt=fmt)
        if fmt == "text":
            assert max(map(len, shown.splitlines())) <= max(80, len(long))
            assert all(f"({k})" in shown for k in range(1, 8))
        if fmt == "latex":
            cells = [cell for line in shown.splitlines() if "&" in line for cell in line.split(" & ")]
            assert max(len(cell.replace("\\", "")) for cell in cells) <= 80


@pytest.mark.parametrize(
    "wrong, text",
    [
        ({"fmt": "pdf"}, "'markdown'"),
        ({"names": ["one"]}, "one name a fit"),
        ({"digits": 0}, "digits=3"),
        ({"results": []}, r"ps.summary_table\(\[fit1, fit2\]\)"),
        ({"results": ["fit"]}, "takes fits"),
    ],
)
def test_slips_are_refused(wrong, text):
    with pytest.raises(OptionError, match=text):
        ps.summary_table(**{"results": models(), **wrong})


ODD = "C(a|b, x_1 & 50% #3 <~ {ä} ^2 $5)[T.\\n]"


def odd():
    return results(given((ODD, "[T.1]"), (-1.25, 0.5), (0.5, 0.25), (0.1, 0.2)), facts(formula=f"y ~ {ODD}"))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no TeX here: apt-get install texlive-latex-base")
def test_latex_compiles(tmp_path):
    tables = [odd().summary().as_latex(), ps.summary_table([odd(), *models()], fmt="latex")]
    tables += [results(LM).summary().as_latex(), Sheet("empty", "", ("",), ()).as_latex()]
    page = "\n".join((r"\documentclass{article}\usepackage{booktabs}\begin{document}", *tables, r"\end{document}"))
    (tmp_path / "page.tex").write_text(page)
    run = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "page.tex"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
