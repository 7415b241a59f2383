"""Fits side by side: three expected tables, the total privacy cost, and words in place of missing numbers."""

import csv
import io
import re
from dataclasses import replace

import numpy as np
import pytest

import privstats as ps
from privstats.inference.estimate import Allowance, NormalEstimate
from privstats.privacy.promise import ApproxDP, GaussianDP, Neighbors, PureDP, ZeroCDP
from tests.results.fits import (
    LM,
    MEANS,
    PARTLY,
    QUANTILES,
    RQ,
    facts,
    given,
    mean_facts,
    partly_facts,
    quantile_facts,
    results,
    rq_facts,
)


def visits(predictors, value, sd, **changes):
    """Return a fit of the logarithm of visits, with the given coefficients and std errors."""
    names = tuple(predictors.split(" + "))
    fact = facts(formula=f"np.log1p(mdvis) ~ {predictors}", **{"promise": GaussianDP(0.5), **changes})
    return results(given(names, value, sd), fact)


FIRST = visits("lncoins", (-0.04492,), (0.00331,))
SECOND = visits("lncoins + disea", (-0.04520, 0.02941), (0.00334, 0.00102))
THIRD = visits("lncoins + disea", (-0.04511, 0.02932), (0.00334, 0.00103), subset="hlthf == 1")
MODELS = [FIRST, SECOND, THIRD]
MIXED = [FIRST, results(PARTLY, partly_facts()), results(RQ, rq_facts()), results(MEANS, mean_facts())]

GOLDEN = {
    "text": r"""
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
""",
    "markdown": r"""
| np.log1p(mdvis) | (1) | (2) | (3) |
|:----------------|----:|----:|----:|
| lncoins | -0.04492 (0.00331) | -0.04520 (0.00334) | -0.04511 (0.00334) |
| disea |  | 0.02941 (0.00102) | 0.02932 (0.00103) |
| Rows (public) | 20,190 | 20,190 | 20,190 |
| Guarantee | mu = 0.5 | mu = 0.5 | mu = 0.5 |

Together mu = 0.866 for any one row (neighbours: replace one row); implies eps = 4.15 at delta = 1e-06. @
""",
    "latex": r"""
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
{\footnotesize Together $\mu = 0.866$ for any one row (neighbours: replace one row); implies $\varepsilon = 4.15$ ~
at $\delta = 10^{-6}$. @\par}
\end{table}
""",
}


@pytest.mark.parametrize("fmt", GOLDEN)
def test_golden_table(fmt):
    golden = GOLDEN[fmt].strip().replace("~\n", "").replace("@", "In parentheses: std errors (HC), noise included.")
    assert ps.summary_table(MODELS, fmt=fmt) == golden


def total(*fits):
    """Return the text below a table of fits, the total privacy cost, in one line."""
    return " ".join(ps.summary_table(list(fits)).rpartition("-" * 80)[2].split())


def test_the_total_is_that_of_one_ledger_for_all():
    for budget, asked in [
        (PureDP(9), (PureDP(0.5), PureDP(0.25))),
        (GaussianDP(9), (GaussianDP(0.5), PureDP(0.5))),
        (ZeroCDP(9), (ZeroCDP(0.5), GaussianDP(0.5), PureDP(0.25))),
        (ApproxDP(9, 2e-6), (ApproxDP(0.5, 1e-6), ApproxDP(0.5, 1e-6), GaussianDP(0.5), ZeroCDP(0.1))),
    ]:
        ledger = ps.Ledger(budget)
        for promise in asked:
            ledger.charge([("whole", promise)])
        found = total(*(results(LM, facts(promise=promise)) for promise in asked))
        number, value = next(iter(ledger.spent().numbers.items()))
        assert found.startswith(f"Together {number} = {value:.3g}"), found


def test_eps_and_delta_are_composed_as_they_are_kept():
    fit = results(LM, facts(promise=ApproxDP(1, 1e-6), accounted=GaussianDP(0.23)))
    both = ps.Ledger(ApproxDP(9, 2e-6))
    both.charge([("one", GaussianDP(0.23)), ("two", GaussianDP(0.23))])
    assert total(fit, results(LM, fit.facts)).startswith(f"Together eps = {both.spent().eps:.3g}, delta = 2e-06 for")
    assert both.spent().eps < 1.5


def test_eps_that_a_mixture_implies_is_not_that_of_its_mu():
    assert "implies eps = 1 at" not in total(results(LM, facts(promise=GaussianDP(0.01))), results(LM))
    assert re.search(r"Together mu = 1.2\d .*implies eps = 1\.0\d at delta = 1e-06", total(
        results(LM, facts(promise=GaussianDP(0.01))), results(LM)
    ))  # fmt: skip


def test_the_same_fit_counts_once_and_another_of_the_same_call_does_not():
    assert total(FIRST, FIRST).startswith("Guarantee: mu = 0.5 for any one row")
    assert total(FIRST, SECOND, FIRST).startswith("Together mu = 0.707 for any one row")
    again = visits("lncoins", (-0.04492,), (0.00331,))
    assert total(FIRST, again).startswith("Together mu = 0.707 for any one row")


def test_fits_of_one_ledger_count_once_each():
    ledger = ps.Ledger(GaussianDP(2))
    ledger.charge([("one", GaussianDP(0.5)), ("two", GaussianDP(0.5))])
    shared = [replace(fit, account=ledger) for fit in (FIRST, SECOND)]
    assert total(*shared).startswith("Together mu = 0.707 for")


def test_without_privacy_or_with_other_neighbours_there_is_no_total():
    seeded = visits("lncoins", (-0.04492,), (0.00331,), seeded=1)
    text = ps.summary_table([FIRST, seeded])
    assert "No total guarantee: (2) is seeded, so not private." in " ".join(text.split())
    assert re.search(r"^Guarantee +mu = 0.5 +none: seeded$", text, re.M)
    person = GaussianDP(0.5, Neighbors(unit="person_id"))
    other = visits("lncoins", (-0.04492,), (0.00331,), promise=person, rows=None, units=6730)
    assert total(FIRST, other).startswith(
        "No total guarantee: the neighbours differ (replace one row; replace one person_id)."
    )
    assert "6,730 person_ids" in ps.summary_table([other])


def test_a_markov_chain_is_named():
    assert "The guarantee of (1) is that of the target density" in total(results(LM, chain=200))


def test_estimates_that_were_moved_beyond_their_std_errors_are_named():
    plain = NormalEstimate.of(("x",), np.ones(1), np.eye(1), ())
    moved = replace(plain, allowances=(Allowance(np.array([[3.0]]), 1.0),))
    text = total(results(moved), results(plain))
    assert "Estimates of (1) may have been moved" in text and "intervals and P allow for it" in text
    assert "moved" not in total(results(plain))


def test_words_stand_where_a_number_is_not_given():
    text = ps.summary_table(MIXED)
    assert re.search(r"^np.log\(rooms\) +not given$", text, re.M)
    assert "The summary of each fit says why a number is not given." in " ".join(text.split())
    bare = ps.summary_table([results(given(("a",), 1.5, np.nan, np.nan))])
    assert re.search(r"^a +1.500 \(no interval\)$", bare, re.M) and "In parentheses" not in bare
    ends = results(given(("x",), 3.0, np.nan, np.nan, ends=((2.5,), (3.1,))), facts(verb="median", formula="x"))
    assert "3.000 (no std err)" in ps.summary_table(ends)
    for fmt in ("text", "markdown", "latex", "html", "csv"):
        assert "nan" not in re.sub("<style>.*</style>", "", ps.summary_table(MIXED, fmt), flags=re.S).lower()


def test_heads_name_the_response_where_it_differs():
    assert ps.summary_table(MIXED, "markdown").startswith(
        "|  | tau | group | (1) np.log1p(mdvis) | (2) np.log(value) |"
    )
    assert r"\caption{Models of different responses}" in ps.summary_table(MIXED, "latex")
    assert "| sqft np.log(price) |" in ps.summary_table([FIRST, MIXED[2]], "markdown", names=["visits", "sqft"])


def test_rows_run_by_term_and_tau():
    later = results(given(("Intercept", "np.log(sqft)"), 1.0, 0.1), facts(formula="np.log(price) ~ np.log(sqft)"))
    reverse = rq_facts(labels=tuple((term, tau) for term in ("Intercept", "np.log(sqft)") for tau in (0.9, 0.5, 0.1)))
    rows = list(csv.reader(io.StringIO(ps.summary_table([results(RQ, reverse), later], "csv"))))
    assert [row[:2] for row in rows[1:-2]] == [
        [term, tau] for term in ("Intercept", "np.log(sqft)") for tau in ("", "0.1", "0.5", "0.9")
    ]
    assert rows[0] == ["term", "tau", "(1)", "(1) std err", "(2)", "(2) std err"]
    assert rows[1] == ["Intercept", "", "", "", "1.000", "0.100"]
    assert rows[-2:] == [
        ["Rows (public)", "", "21613", "", "20190", ""],
        ["Guarantee", "", "eps = 2", "", "eps = 1", ""],
    ]


def test_names_rename_digits_and_stars():
    text = ps.summary_table(MODELS, names=["a", "b", "c"], rename={"lncoins": "coinsurance"}, stars=True, digits=2)
    assert re.search(r"^coinsurance +-0.0449\*\*\* \(0.0033\) ", text, re.M)
    assert "Stars: * P < 0.05, ** P < 0.01, *** P < 0.001." in " ".join(text.split())
    assert "*" not in ps.summary_table(MODELS)
    assert "*" not in ps.summary_table(results(QUANTILES, quantile_facts()), stars=True).partition("Stars")[0]


def test_lines_of_text_have_at_most_80_characters():
    many = results(given(tuple(f"C(region)[T.a long name {k}]" for k in range(60)), np.linspace(-1e9, 1e9, 60), 1e-3))
    taus = results(QUANTILES, quantile_facts(keys=("term", "group", "q"), labels=tuple(
        ("x", "a very long name of a group" * 2, q) for q in (0.1, 0.5, 0.9)
    )))  # fmt: skip
    for fits in ([FIRST], MODELS * 3, [many] * 7, [*MIXED, many, taus]):
        for names in (None, ["n" * 70] * len(fits)):
            text = ps.summary_table(fits, names=names)
            assert max(map(len, text.splitlines())) <= 80, text
            assert all(line == line.rstrip() for line in text.splitlines())
    assert ps.summary_table(MODELS * 3).count("lncoins") == 3
    assert "(1) is nnn" in ps.summary_table(FIRST, names=["n" * 70])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"fmt": "word"}, "write fmt='text' or 'markdown' or 'latex' or 'html' or 'csv'"),
        ({"results": []}, r"write ps.summary_table\(\[fit1, fit2\]\)"),
        ({"results": [FIRST, 3]}, r"write ps.summary_table\(\[fit1, fit2\]\)"),
        ({"names": ["a"]}, "names needs one text for each of the 3 fits"),
        ({"rename": ["a"]}, "rename is not a dict"),
        ({"rename": {"lncoin": "x"}}, "rename names 'lncoin', which is a term of no fit; they have lncoins and disea"),
        ({"stars": "x"}, "stars is 'x'; write stars=True or stars=False"),
        ({"digits": 0}, "give a whole number"),
        ({"rename": {"disea": "x", "lncoins": "x"}}, "two terms of one fit the name 'x'"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ps.OptionError, match=message):
        ps.summary_table(**{"results": MODELS, **call})


def test_python_and_notebooks_show_the_table():
    assert repr(ps.summary_table(MODELS)) == str(ps.summary_table(MODELS))
    page = ps.summary_table(MODELS, "html")
    assert page._repr_html_() == page and ps.summary_table(MODELS)._repr_html_() is None
    assert page.count("<tbody>") == 2
