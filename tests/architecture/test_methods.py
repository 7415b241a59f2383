"""METHODS.md agrees with the code on constants, shares, and names of functions."""

import re
from pathlib import Path

import pytest

import privstats
from benchmarks.constants import line, lines_of, table, written
from privstats.estimators import constants
from privstats.estimators.adaptive import SHARES

ROOT = Path(privstats.__file__).parent
PAGE = (ROOT.parent / "METHODS.md").read_text()
FILES = [file.read_text() for folder in (ROOT, ROOT.parent / "benchmarks") for file in folder.rglob("*.py")]
WORDS = {word for text in FILES for word in re.findall(r"\w+", text)}


def test_the_table_has_all_constants_with_their_values_and_meanings():
    kept = lines_of(PAGE)
    assert list(kept) == list(table())
    for name, old in kept.items():
        halved, doubled = (cell.strip() for cell in old.split("|")[3:5])
        assert old == line(name, halved, doubled)
        for measured in (halved, doubled):
            assert re.fullmatch(r"\d\.\d\d \d+\.\d\d \d\.\d\d|nan .*|[A-Z]\w+Error", measured)


def test_no_constant_of_the_engine_is_without_a_line():
    assert set(table()) == {name for name in vars(constants) if name.isupper()}


def test_a_line_is_written_in_its_place_and_nothing_else_changes():
    name = "MOST_LEFT_OUT"
    new = line(name, "0.90 9.99 0.02", "0.90 1.25 0.02")
    changed = written(PAGE, name, new)
    assert lines_of(changed) == {**lines_of(PAGE), name: new}
    assert written(changed, name, lines_of(PAGE)[name]) == PAGE
    assert written(PAGE.replace(lines_of(PAGE)[name] + "\n", ""), name, lines_of(PAGE)[name]) == PAGE


@pytest.mark.parametrize(("law", "column"), [("normal", 5), ("pure", 6)])
def test_its_shares_are_those_of_least_squares(law, column):
    rows = [row.split("|") for row in PAGE.splitlines() if re.match(r"\| `[a-z ]+` ?(\(|\|)", row)]
    said = {re.match(r" `([a-z ]+)`", row[1])[1]: row[column].strip() for row in rows}
    for name, share in said.items():
        assert share == "free" or float(share) == SHARES[law][name], name
    assert {name for name, share in said.items() if share != "free"} >= set(SHARES[law]) - {
        "units", "scales again", "moments", "meat of moments", "residual scale"
    }  # fmt: skip


def test_its_shares_are_those_of_the_perturbed_minimiser():
    said = dict(re.findall(r"^\| ([a-z ]+?)(?: \(optional\))? \|(?:[^|]*\|){3} ([.\d]+)", PAGE, re.MULTILINE))
    shares = SHARES["perturbed"]
    for name in (
        "response square",
        "narrow scales",
        "narrow response",
        "squares of products",
        "score sizes",
        "squares of scores",
    ):
        assert float(said[name]) == shares[name]
    assert float(said["second matrix"]) == constants.AGAIN
    asked = sum(shares[name] for name in ("scales", "response square", "score sizes", "squares of scores"))
    rest = [1 - asked - coarse for coarse in constants.COARSE_WITHIN]
    assert f"{rest[1]:.2f} to {rest[0]:.2f}".replace("0.", ".") == "".join(
        re.findall(r"what is left: (\.\d+ to \.\d+)", PAGE)
    )


def test_what_it_names_exists():
    for name in re.findall(r"`([A-Za-z_.]+)`", PAGE):
        last = name.removesuffix(".py").split(".")[-1]
        assert name.endswith(".md") or last in WORDS, name
    for name in re.findall(r"\b[A-Z]{2,}(?:_[A-Z]+)+\b", PAGE):
        assert name in table(), name
