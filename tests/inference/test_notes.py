"""Notes: each has a cause and a cure, in terms that users know."""

import re
import string
from pathlib import Path

import pytest

import privstats
from privstats.errors import OptionError, listed
from privstats.inference.combine import of_fits
from privstats.inference.notes import (
    NOTES,
    Note,
    Span,
    about_rows,
    clipped_note,
    explained,
    merged,
    note,
    unidentified_note,
    wide_note,
)

FORBIDDEN = """
angle bread bought buy buys currency dear door drowned drowns floored ground heard held hidden honest kappa lean leans
lost offered order outlook pay pays price promise pull reach reaches settled shortened shrunk snr spread tally told turn
verb whoever knows believed
"""
FIELDS = {
    "names": "", "count": 41.0, "sd": 3.5, "needed": 566.0, "budget": "eps = 1", "code": "", "times": 2.1,
    "ratio": 2.1, "directions": 3, "currency": "eps", "now": 30.0, "size": 1.4, "name": "x", "more": 2.0, "rows": 400.0,
    "most": 250.0, "eta": 0.5, "share": "2.1%", "moves": "'x' by up to 1", "sds": 22.0, "unit": "person_id",
    "bound": 3.0, "tau": 0.1, "many": 3, "ridge": 30.0, "mech": "duff", "other": "rank", "family": "poisson",
    "length": 200, "steps": "sweeps", "cure": "add delta=1e-6", "question": "", "delta": 1e-6, "eps": 1.0,
    "call": "dp_lm(..., eps=1, delta=1e-6)", "level": "a", "factor": "C(g)", "factors": "'sex'", "column": "sex",
    "weights": "w", "largest": 1000.0, "mean": 1.2, "low": 10.0, "high": 10.5, "each": 1.9,
    "origin": "2020-01-01", "value": "0", "part": "40%", "idle": 1, "noise": "The noise has a std dev of 0.01 in 'x'.",
}  # fmt: skip
keys = pytest.mark.parametrize("key", NOTES)


def fields(key):
    """Return the fields of a note's template that callers must give; `note` itself fills in `names` and `about`."""
    return {name for _, name, _, _ in string.Formatter().parse(NOTES[key]) if name} - {"names", "about"}


def made(key, about=("x", "z")):
    numbers = {name: FIELDS[name] for name in fields(key)}
    if key not in ("empty group", "no rows") and "count" in numbers:
        numbers["count"] = "about 41 rows"
    if key == "unused rows":
        numbers["share"] = "About 24%"
    if key == "no level":
        numbers["rows"] = 54_875
    if key == "small weights":
        numbers["rows"] = 54_875
    return note(key, about, **numbers)


def test_every_note_is_made_somewhere():
    source = "".join(file.read_text() for file in Path(privstats.__file__).parent.rglob("*.py"))
    keys = {"collinear", "weak term"}  # these notes are made by `unidentified_note`
    assert [key for key in NOTES if f'note("{key}"' not in re.sub(r"\(\s+", "(", source) and key not in keys] == []


@keys
def test_every_note_has_a_cure_and_none_says_that_nothing_is_to_be_done(key):
    text = made(key).text
    assert "needed;" not in text and "none is needed" not in text
    cause, cure = text.split("Remedy: ")
    assert len(cause.strip()) > 20 and len(cure) > 8
    assert cause.strip().endswith(".") and cure.endswith(".")


@keys
def test_notes_use_no_word_of_our_own(key):
    words = set(re.findall(r"[a-z']+", NOTES[key].lower().replace("{currency}", "")))
    assert not words & set(FORBIDDEN.split())
    assert "—" not in NOTES[key] and "factor of C(" not in NOTES[key]


@keys
def test_every_sentence_starts_with_a_capital_and_no_number_is_missing(key):
    text = made(key).text
    assert "nan" not in text.lower().split() and "{" not in text.replace("domain={", "")
    for sentence in re.split(r"(?<=\.) ", text):
        assert sentence[0].isupper() or sentence[0] in "x'0123456789" or sentence.startswith("noise_to_signal")
    assert ".." not in text.replace("...", "")


@keys
def test_a_note_without_its_numbers_is_refused(key):
    if fields(key):
        with pytest.raises(OptionError, match="lacks a number"):
            note(key)


def test_names_are_listed_and_the_note_is_about_them():
    one, two = made("collinear", ("x",)), made("collinear", ("x", "z"))
    assert one.text.startswith("x is not given: ") or one.text.startswith("x is not")
    assert two.text.startswith("x and z are not given") and two.about == ("x", "z")
    large = note("weak term", ("x",), ratio=100.0, times=99.6).text
    # ratios of noise to information are computed up to 100
    assert "noise is at least 100 times" in large and "budget 100 times as large" in large
    assert listed(list("abcde")) == "a, b, c and 2 more"
    assert isinstance(two, Note) and str(two) == two.text
    with pytest.raises(OptionError, match="no note 'colinear'"):
        note("colinear")


def test_automatic_notes_say_nothing_where_there_is_nothing_to_say():
    assert [unidentified_note(n, 2.0)[0].key for n in (("x",), ("x", "z"))] == ["weak term", "collinear"]
    assert [unidentified_note(n, 2.0, ("x",))[0].key for n in (("x",), ("x", "z"))] == ["weak term", "hidden column"]
    assert unidentified_note((), 2.0) == wide_note((), 10.0) == () and clipped_note({}, 0.1) == ()
    (few,) = clipped_note({"age": 0.0123}, float("nan"))
    assert "'age' by up to 0.012" in few.text and "The scores of some of the rows were clipped" in few.text
    assert "The scores of less than 0.1% of the rows" in clipped_note({"age": 0.0123}, 1e-5)[0].text
    (four,) = clipped_note(dict.fromkeys("abcd", 1.0), 0.31)
    (many,) = clipped_note(dict.fromkeys("abcde", 1.0), 0.31)
    assert (
        "2 more coefficients by" in many.text
        and "1 more coefficient by" in four.text
        and "about 31% of the rows" in many.text
    )


def test_no_number_of_rows_is_about_none():
    assert [about_rows(rows) for rows in (-3.0, 0.4, 0.6, 1234.0)] == [
        "hardly any rows", "hardly any rows", "about 1 row", "about 1,234 rows",
    ]  # fmt: skip
    assert "hardly any rows have this level" in note("rare level", ("x",), **{**RARE, "count": about_rows(0.0)}).text


RARE = {"other": "the reference level", "sd": 45.0, "needed": 585.0, "budget": "this budget", "code": ""}


def rare(level, count, **changes):
    known = {"factor": "C(g)", "sd": 8.0, "needed": 49.0, "code": "", **changes}
    return note("hidden level", (f"C(g)[T.{level}]",), level=level, count=count, **known)


def test_notes_that_differ_only_in_names_and_numbers_are_merged_and_state_the_range():
    many = [rare(f"v{k}", 5.0 + k) for k in range(6)]
    other = rare("b", 3.0, code=", or compare with another level, C(g, Treatment('a'))")
    one, two = merged((many[0], other, *many))
    assert two == other and one.about == tuple(f"C(g)[T.v{k}]" for k in range(6))
    assert one.text == (
        "C(g)[T.v0], C(g)[T.v1], C(g)[T.v2] and 3 more are not given: the levels 'v0', 'v1', 'v2' and 3 more of C(g) "
        "have about 5 to 10 rows (released counts, std err 8), and about 49 are needed at this budget. Remedy: spend "
        "more, or merge the levels with another one."
    )
    assert merged((one, rare("w", 0.1)))[0].text == one.text.replace("and 3 more", "and 4 more").replace(
        "about 5 to 10 rows", "at most about 10 rows"
    )
    assert merged(many[:1] * 2) == tuple(many[:1])
    unknown = [rare(level, "an unknown number of rows") for level in "ab"]
    assert "'a' and 'b' of C(g) have an unknown number of rows" in merged(unknown)[0].text
    assert len(merged((*many, unknown[0], rare("a", 5.0, factor="C(h)"), Note("hidden level", "by hand")))) == 4
    assert Span.of([4.0]) == 4.0 and Span.of([Span(1, 2), 7]) == Span(1, 7)


def test_notes_of_several_fits_keep_the_number_of_their_fit():
    notes = of_fits([[rare("a", 5.0)], [rare("b", 7.0)]], frozenset({"C(g)[T.a]", "C(g)[T.b]"}))
    assert [one.text[:6] for one in merged(notes)] == ["Fit 1:", "Fit 2:"]


@keys
def test_every_note_can_be_merged(key):
    one, two = (made(key, about) for about in (("x",), ("z",)))
    (both,) = merged((one, two))
    assert both.about == ("x", "z") and "Span(" not in both.text


def test_a_known_cause_leaves_no_symptoms():
    cause, weak, chain = made("no level", ("x",)), made("weak term", ("x",)), made("chain", ())
    assert explained((cause,), (weak, chain)) == (cause, chain)
    assert explained((made("delta helps", ()),), (weak, chain))[:2] == (weak, chain)
