"""PRIVACY.md lists the trusted code for each kind of fit, within limits of its length."""

import re
import subprocess
import sys
from functools import cache

import pandas as pd
import pytest

from tests.architecture.reading import BEGIN, PAGE, TITLES, split

MOST = {
    "lm, eps": 2_000,
    "lm, levels": 2_000,
    "lm, minimised": 2_500,  # includes the code of the bounds on the minimised loss
    "lm, mu": 2_000,
    "glm": 2_300,
    "counts": 2_300,
    "rq": 2_200,
    "quantiles": 2_000,
    "ledger": 450,
}  # largest allowed number of lines of trusted code, by kind of fit


@cache
def lists():
    """Return the lists as computed by a new process, in which no function's result is cached."""
    command = [sys.executable, "-m", "tests.architecture.reading", "--show"]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=PAGE.parent).stdout


@pytest.mark.skipif(pd.__version__ < "3", reason="texts of a plain frame are read by other lines before pandas 3")
def test_the_reading_lists_of_privacy_md_are_those_of_the_code():
    """If the lists differ after a change of the code, run python -m tests.architecture.reading."""
    text = PAGE.read_text()
    assert BEGIN in text
    assert split(text)[1].strip() == lists().strip()


def test_each_route_can_be_read_in_an_afternoon():
    of = {what: int(code.replace(",", "")) for what, code in re.findall(r"### (.*): ([\d,]+) lines of code", lists())}
    assert set(of) == {TITLES[route] for route in MOST}
    assert not {route: of[TITLES[route]] for route, most in MOST.items() if of[TITLES[route]] > most}
