"""Texts of summaries: at most 80 columns, the lines of the header, and internal terms that are never shown."""

import ast
import itertools
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import privstats
import privstats as ps
from privstats.errors import OptionError
from privstats.inference.notes import NOTES, Note
from privstats.privacy.promise import ApproxDP, GaussianDP, Neighbors, PureDP, ZeroCDP
from privstats.results import summary
from privstats.results.text import (
    Column,
    TextTable,
    aligned,
    decimals,
    filled,
    indented,
    number,
    numbered,
    percentages,
    short,
    significant,
)
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
    mu_facts,
    partly_facts,
    quantile_facts,
    results,
    rq_facts,
    shared_ledger,
)

LONG = "I(np.log(median_house_value_in_the_district) ** 2)"


def line(text, label):
    """Return the text of a summary's header entry with this label, its lines joined."""
    lines = text.splitlines()
    first = next(k for k, found in enumerate(lines) if found.startswith(label.ljust(13)))
    whole = [lines[first][13:]]
    whole += itertools.takewhile(str.strip, (found[13:] for found in lines[first + 1 :] if found[:13].strip() == ""))
    return " ".join(whole[: 1 + sum(1 for _ in itertools.takewhile(lambda s: s[:13] == " " * 13, lines[first + 1 :]))])


def shown(estimate=LM, chain=0, ledger=None, **changes):
    return str(results(estimate, facts(**changes), ledger, chain).summary())


# ---------------------------------------------------------------- lines of the header


def test_a_seed_voids_the_guarantee_and_the_line_says_so():
    assert line(shown(seeded=1), "Guarantee") == (
        "seeded: not private (rng=1). With rng=None it would be eps = 1 for any one row (neighbours: replace one row)"
    )


def test_the_guarantee_of_a_markov_chain_is_that_of_its_target():
    assert line(shown(chain=200), "Guarantee") == (
        "eps = 1 for the target density; the sampler's distance is measured, not proved (neighbours: replace one row)"
    )


def test_a_guarantee_of_persons_names_them_and_how_many_rows_count():
    promise = PureDP(1, Neighbors(unit="person_id", rows_per_unit=2))
    text = shown(promise=promise, rows=None, units=6730, used=(11_405.2, 28.1))
    assert line(text, "Guarantee") == (
        "eps = 1 for all rows of any one person_id (neighbours: replace one person_id); at most 2 rows of each count"
    )
    assert line(text, "Rows") == "6,730 person_ids (public); about 11,405 rows used (released count, std err 28)"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "20,190 (public); about 20,159 used (released count, std err 50)"),
        ({"used": None}, "20,190 (public); the number used was not released"),
        ({"complete": True}, "20,190 (public), all used (the columns are declared complete)"),
        ({"rows": None, "used": (812.0, 2.4)}, "the number is private; about 812 used (released count, std err 2)"),
        ({"rows": None, "used": None}, "the number is private"),
    ],
)
def test_rows_are_public_released_or_private(changes, words):
    assert line(shown(**changes), "Rows") == words


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "declared bounds; HC: the error variance may differ between rows"),
        ({"cov_type": "HC3"}, "declared bounds; HC1 in place of HC3, which needs single leverages"),
        ({"cov_type": "HC1"}, "declared bounds; HC1: the error variance may differ between rows"),
        ({"cov_type": "nonrobust"}, "declared bounds; nonrobust: constant error variance"),
        ({"cov_type": None, "verb": "median"}, "declared bounds"),
        (
            {"estimated_bounds": (("mdvis", 0.0, 77.0),), "budget": (("bounds", 0.1), ("moments", 0.9))},
            "bounds of mdvis estimated with 10% of eps (0 to 77), the others as declared; HC: the error variance may "
            "differ between rows",
        ),
    ],
)
def test_assumptions_are_where_bounds_are_from_and_how_errors_vary(changes, words):
    assert line(shown(**changes), "Assumes") == words


def test_the_ledger_line_says_what_is_left():
    two = shared_ledger(PureDP(4), PureDP(2))
    assert line(shown(shared=True, ledger=two), "Ledger") == (
        "in memory: eps = 2 of 4 spent, 2 left (gone when Python ends)"
    )
    mixed = shared_ledger(ApproxDP(4, 1e-6), PureDP(1))
    assert "eps = 1 of 4 spent at delta = 1e-06, 3 left" in line(shown(shared=True, ledger=mixed), "Ledger")


def test_subset_weights_and_offset_are_shown_as_they_were_written():
    text = shown(subset="age > 18", weights="w", offset="np.log(years)")
    assert [line(text, label) for label in ("Subset", "Weights", "Offset")] == ["age > 18", "w", "np.log(years)"]


@pytest.mark.parametrize(
    ("levels", "words"),
    [(["no", "yes"], "yes counts as 1, no as 0"), ([1, 0], "0 counts as 1, 1 as 0"), ([0, 1], None)],
)
def test_the_level_that_counts_as_1_is_named(levels, words):
    rows = pd.DataFrame({"x": np.linspace(0, 1, 500), "z": [levels[k % 2] for k in range(500)]})
    text = str(ps.dp_glm("z ~ x", rows, eps=1, domain={"x": (0, 1), "z": levels}, rng=1).summary())
    assert (line(text, "Response") if "Response" in text else None) == words


# ---------------------------------------------------------------- tables


def test_a_family_with_the_name_of_a_person_has_a_capital_letter():
    """The family name Poisson is capitalised; earlier, the heading of a summary was "Private poisson regression"."""
    domain = ps.Domain({"x": (0, 1), "y": (0, 9)})
    rows = domain.synthetic(500, seed=1)
    fit = ps.dp_glm("y ~ x", rows, 2.0, domain=domain, family="poisson", rng=1)
    assert str(fit).startswith("Private Poisson regression, log link: y ~ x\n")
    with pytest.raises(OptionError, match="no diagnostics of a private Poisson regression"):
        ps.dp_diagnostics(fit, rows, eps=1)


@pytest.mark.parametrize(
    ("estimate", "fact"),
    [
        (MEANS, mean_facts()),
        (QUANTILES, quantile_facts()),
        (given(("x",), 3.0, 0.1), facts(verb="median", formula="x", cov_type=None)),
        (given(("x",), 3.0, 0.1), facts(verb="hist", formula="x", cov_type=None)),
    ],
)
def test_no_z_and_p_where_zero_is_no_hypothesis(estimate, fact):
    table = results(estimate, fact).summary().table
    assert not {"z", "P>|z|"} & {column.head for column in table.columns}


def test_an_empty_level_is_not_given_and_its_note_is_numbered():
    row = next(part for part in results(MEANS, mean_facts()).summary().table.rows() if part[0] == "ISLAND")
    assert row == ("ISLAND", "not given [1]", "", "", "", "", "")


def test_collinear_terms_are_not_given_in_print_and_in_frames():
    fit = results(PARTLY, partly_facts())
    rows = {row[0]: row[1] for row in fit.summary().table.rows()}
    assert rows["np.log(rooms)"] == rows["np.log(households)"] == "not given [2]"
    assert fit.params[["np.log(rooms)", "np.log(households)"]].isna().all()
    assert "nan" not in str(fit.summary()).lower()


def test_estimates_without_intervals_say_so_and_why():
    remark = Note("no inference", "No intervals: inference='none' spends the whole budget on the estimates.")
    text = str(results(given(("a", "b"), (1.5, 2.5), np.nan, np.nan, remarks=(remark,))).summary())
    assert re.search(r"^a +1\.500  no interval \[1\]$", text, re.M)
    assert "Std err, P" not in text
    alone = str(results(given(("a", "b"), (1.5, 2.5), np.nan, np.nan)).summary())
    assert "[1] No interval for a and b:" in alone


def test_a_row_that_is_not_given_has_a_note_even_if_the_estimate_has_none():
    text = str(results(given(("a", "b"), (1.5, np.nan), (0.1, np.nan), 0.1)).summary())
    assert "not given [1]" in text
    assert "[1] b is not given: the releases do not identify" in text


def test_intervals_without_std_errors_leave_the_column_out():
    estimate = given(("x",), 3.0, np.nan, np.nan, ends=((2.5,), (3.1,)))
    text = str(results(estimate, facts(verb="median", formula="x", cov_type=None)).summary())
    assert "std err  " not in text and "noise  " not in text
    assert "The interval includes privacy noise." in text


def test_a_missing_std_error_beside_an_interval_refers_to_the_note_that_says_why():
    remark = Note("repeated value", "No std err for x[0.5]: the value repeats.", ("x[0.5]",))
    estimate = given(("x[0.5]", "x[0.9]"), (3.0, 4.0), (np.nan, 0.5), (np.nan, 0.2), ends=((2.5, 3), (3.1, 5)))
    estimate = replace(estimate, remarks=(remark,))
    text = str(results(estimate, quantile_facts(labels=(("x", 0.5), ("x", 0.9)))).summary())
    assert re.search(r"^x +0\.5 +3\.000 +none \[1\] +2\.500 +3\.100 +none \[1\]$", text, re.M)


def test_why_refers_to_notes_by_number():
    assert "cannot leave out a level [1]" in " ".join(str(results(PARTLY, partly_facts()).summary()).split())


def test_notes_about_all_coefficients_exist():
    assert {*summary.NOTHING, *summary.NO_INTERVALS, *summary.NO_STD_ERROR} <= set(NOTES)


def zoo():
    """Yield summaries with long names, with large or small numbers, and with many levels."""
    rng = np.random.default_rng(1)
    for scale in (1e-9, 1e-3, 1.0, 1e5, 1e9, 1e14):
        names = ("Intercept", "x", LONG, f"C({LONG})[T.a]", f"C({LONG})[T.{'b' * 90}]", f"x:{LONG}:z" * 2)
        value = scale * rng.standard_normal(6)
        lost = np.array([0, 0, 1, 0, 0, 1], dtype=bool)
        estimate = given(
            names, np.where(lost, np.nan, value), np.where(lost, np.nan, scale * 10 ** rng.uniform(-4, 1, 6))
        )
        for exp in (False, True):
            yield results(estimate, facts(formula=f"y ~ {' + '.join(names)}")).summary(exp=exp and scale <= 1)
        groups = tuple(("income", f"{'long level ' * k}{k}") for k in range(5))
        names = tuple("abcde")
        mean = given(names, scale * np.arange(5), scale, 0.3, rows=np.arange(5) * 1e6)
        yield results(mean, mean_facts(labels=groups, formula="income ~ region", used=(1e9, 0.3))).summary()
        both = tuple(("x", "a very long name of a group" * 2, q) for q in (0.1, 0.25, 0.5, 0.75, 0.9))
        yield results(mean, quantile_facts(keys=("term", "group", "q"), labels=both)).summary()
        bins = tuple((LONG, f"[{k}, {k + 1})") for k in range(5))
        yield results(mean, facts(verb="hist", cov_type=None, keys=("term", "bin"), labels=bins)).summary()
        tau = tuple((term, t) for term in ("Intercept", LONG) for t in (0.05, 0.123456))
        yield results(given(tuple("abcd"), scale, scale / 7), rq_facts(labels=tau)).summary(alpha=0.001)
    unit = Neighbors("add_remove", unit="identity_number_of_the_household", rows_per_unit=12)
    for promise in (
        PureDP(0.123456),
        ApproxDP(1.5, 1e-12),
        GaussianDP(2.25),
        ZeroCDP(0.5),
        PureDP(1, unit),
        ZeroCDP(2, unit),
    ):
        for seeded in (None, 3, "Generator"):
            many = tuple((f"question {k} of many", 1 / 30) for k in range(30))
            fact = facts(promise=promise, seeded=seeded, budget=many, shared=True, subset=f"{LONG} > 3 " * 4)
            yield results(LM, fact).summary()
    yield results(given(("x",), np.inf, 1.0)).summary()
    yield results(given(("x",), 0.0, 0.0, 0.0)).summary()


def test_no_printed_line_is_longer_than_80_characters():
    texts = [str(part) for part in zoo()]
    texts += [str(results(e, f).summary()) for e, f in ((LM, mu_facts()), (RQ, rq_facts()), (ODDS, glm_facts()))]
    for text in texts:
        assert max(map(len, text.splitlines())) <= 80, text
        assert not re.search(r"\bnan\b", text.lower())
        assert all(found == found.rstrip() for found in text.splitlines())


def test_exponentials_of_means_are_shown_with_their_intervals():
    """With `exp=True`, a summary of means shows exponentials and their intervals.

    Earlier, a sentence about exponentials was printed below a table without exponentials.
    """
    fit = results(given(("a", "b"), [0.5, 1.0], 0.1), mean_facts(labels=(("x", "a"), ("x", "b"))))
    text = str(fit.summary(exp=True))
    ends = fit.conf_int(exp=True).to_numpy()
    assert "exp(mean)" in text and "the interval is that of exp(mean)" in text and "Coef" not in text
    (row,) = (found.split() for found in text.splitlines() if found.startswith("b "))
    assert row[1:6] == ["1.000", "0.100", "2.718", *(f"{end:.3f}" for end in ends[1])]


@pytest.mark.parametrize(("alpha", "ends"), [(0.05, "[0.025 0.975]"), (0.0005, "[0.00025 0.99975]")])
def test_headings_of_limits_have_all_digits(alpha, ends):
    """Headings of interval limits have all digits.

    Earlier, the heading of the upper limit of a 99.95% interval was "1]".
    """
    for shown in (results(LM).summary(alpha), results(LM).t_test("disea").summary(alpha)):
        assert ends in " ".join(str(shown).split())


def test_labels_in_lines_of_their_own_keep_their_headings():
    """Labels that are too long for columns have lines of their own, below a line with the names of their columns.

    Earlier, these labels were joined in one line, without the names of their columns.
    """
    labels = tuple(("male - female", "Managers and senior officials " * 2, k) for k in "12")
    numbers = tuple(Column(f"number {k}", ("1.00", "2.00"), 8) for k in range(6))
    lines = TextTable(("level", "occ", "age"), labels, numbers).as_text()
    assert lines[0] == "level, occ, age" and lines[2].startswith("male - female, Managers")
    quantiles = TextTable(("", "tau"), tuple((name, name) for _, name, _ in labels), numbers)
    assert quantiles.as_text()[0] == "term, tau"


def test_decimal_points_stand_in_one_column():
    for fit in (results(LM), results(PARTLY, partly_facts()), results(ODDS, glm_facts())):
        text = str(fit.summary()).split("-" * 80)[1].splitlines()
        rows = [found for found in text[2:] if re.search(r"\d\.\d.*%$", found)]
        places = {tuple(match.start() for match in re.finditer(r"\.(?=\d)", row[18:])) for row in rows}
        # the position of the decimal point in column P is left out, since P may be "<0.001"
        fixed = {tuple(p for k, p in enumerate(place) if k != 3) for place in places}
        assert len(fixed) == 1


def test_other_formats_hold_the_same_numbers():
    fit = results(PARTLY, partly_facts())
    shown = fit.summary()
    for text in (shown.as_markdown(), shown.as_html(), shown.as_latex()):
        assert "11.4120" in text and "not given [2]" in text and "released" in text
    assert r"P>\|z\|" in shown.as_markdown()
    assert shown._repr_html_() == shown.as_html()
    assert repr(shown) == str(shown) == shown.as_text()


def test_repr_is_one_line():
    assert repr(results(LM, facts(formula="y ~ x"))) == "<Results of dp_lm('y ~ x'): eps = 1, 4 estimates>"
    assert str(results(LM)) == str(results(LM).summary())


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize("many", range(1, 40))
def test_shares_in_per_cent_add_up_to_100(many):
    weights = np.random.default_rng(many).exponential(size=many)
    shares = weights / weights.sum()
    whole = percentages(shares)
    assert sum(whole) == 100
    assert max(abs(100 * share - w) for share, w in zip(shares, whole, strict=True)) < 1


def test_thirds_add_up_and_parts_stay_parts():
    assert percentages([1 / 3, 1 / 3, 1 / 3]) == [34, 33, 33]
    assert percentages([0.125, 0.375]) == [13, 37]
    assert percentages([]) == []


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (0.0273, "0.0273"),
        (0.003456, "0.00346"),
        (0.0999999, "0.100"),
        (14.66, "14.7"),
        (1134.4, "1134"),
        (99.96, "100"),
    ],
)
def test_std_errors_have_three_significant_digits_and_are_not_rounded_left_of_the_point(error, text):
    assert number(error, decimals(error, 1.0)) == text


def test_rounding_helpers():
    assert number(-0.0004, 2) == "0.00"
    assert number(math.nan, 2) == ""
    assert number(1e15, 0) == "1.00000e+15"
    assert significant(0.81) == "0.810"
    assert [short(v) for v in (0.04, 0.19, 0.31, 2.1, 12.4, 1234.0)] == ["0.04", "0.19", "0.31", "2.1", "12", "1,234"]
    assert aligned(["1.25", "10", "", "0.5"]) == ("1.25", "10   ", "", "0.5 ")


def test_lines_do_not_end_beside_an_equals_sign():
    for k in range(60, 80):
        text = "\n".join(filled(f"{'x' * k} eps = 1 and moments 69%"))
        assert "eps = 1" in text and "moments 69%" in text.replace("and\nmoments", "and moments")


def test_long_names_have_lines_of_their_own_and_levels_stand_under_their_factor():
    rows = indented(["x", "C(place)[T.a]", "C(place)[T.much longer]", "y" * 18], 18)
    assert rows == [([], "x"), (["C(place)"], "  [T.a]"), ([], "  [T.much longer]"), (["y" * 18], "")]
    assert indented(["C(g)[T.a]", "C(g)[T.b]"], 18) == [([], "C(g)[T.a]"), ([], "C(g)[T.b]")]
    odd = ["c, d", "[x]", "[0, 1)]", "f(g)", "x:y"]  # earlier, no level was indented if one level contained a bracket
    rows = indented([f"x:C(place)[T.{level}]" for level in odd], 18)
    assert rows == [(["x:C(place)"] if not k else [], f"  [T.{level}]") for k, level in enumerate(odd)]


def test_a_line_break_in_a_level_is_printed_as_in_a_string():
    table = TextTable(("",), (("a\nb",), ("c",)), (Column("mean", ("1.0", "2.0"), 8),))
    assert [line.split() for line in table.as_text()[1:]] == [["a\\nb", "1.0"], ["c", "2.0"]]
    assert numbered(["y[a\nb] is not given."]) == ["[1] y[a\\nb] is not given."]


# ---------------------------------------------------------------- words

NEVER = ["angle", "bread", "bought", "buy", "currency", "dear", "door", "drowned", "floored", "ground", "heard"]
NEVER += ["held", "hidden", "honest", "kappa", "lean", "lost", "offered", "order", "outlook", "pay", "price"]
NEVER += ["promise", "pull", "reach", "settled", "shortened", "shrunk", "snr", "spread", "tally", "told", "turn"]
NEVER += ["verb", "whoever"]
ALLOWED = ("order statistic", "between order", "in order")
ROOT = Path(privstats.__file__).parent


def literals(file):
    """Yield the string literals of a file that contain a space and are not docstrings; users may see these texts."""
    tree = ast.parse(file.read_text())
    documents = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in documents else None
        if isinstance(text, str) and " " in text.strip():
            yield text


def words_of(text):
    for allowed in ALLOWED:
        text = text.replace(allowed, "")
    return set(re.findall(r"[a-z]+", re.sub(r"\{[^}]*\}", "", text).lower()))


@pytest.mark.parametrize("file", sorted((ROOT / "results").glob("*.py")), ids=lambda file: file.name)
def test_texts_of_results_have_none_of_the_words_that_are_never_shown(file):
    for text in literals(file):
        assert not words_of(text) & set(NEVER), text


@pytest.mark.parametrize("key", NOTES)
def test_notes_have_none_of_the_words_that_are_never_shown(key):
    assert not words_of(NOTES[key]) & set(NEVER), NOTES[key]


def test_the_search_for_words_finds_them():
    assert words_of("kappa is told") & set(NEVER)
    assert list(literals(ROOT / "results" / "absent.py"))


@pytest.mark.parametrize("file", sorted((ROOT / "results").glob("*.py")), ids=lambda file: file.name)
def test_refusals_name_a_cure(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            said = ast.unparse(node.exc.args[0])
            assert "; " in said or not isinstance(node.exc.args[0], ast.Constant | ast.JoinedStr), said
