"""Every vignette runs from top to bottom, as a reader would run it; the fast tests run vignettes on few rows."""

import ast
import os
import re
import resource
import subprocess
import sys
import warnings
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest

from privstats.datasets import find
from tests.conftest import slow
from tests.drawings import assert_readable

VIGNETTES = Path(__file__).parents[2] / "vignettes"
SHOWS = {
    "big_data.py": ["the same to the last bit: True", "more than choose columns", "folder"],
    "demo.py": ["Doctor visits", "Guarantee", "privacy"],
    "foundations.py": [
        *("Membership attack: 100 rows", "no test above", "refused: the ledger", "ends at the fit"),
        *("without the allowance for bias", "Corrections to the lecture notes: 25", "privacy loss 18.1"),
    ],
    "housing.py": ["No row was read", "widths of 95 %", "times longer", "eps = 4: noise_to_signal"],
    "logistic.py": ["Private logistic regression", "eps for a width", "dy/dx", "mu = 0.5"],
    "quantile_regression.py": ["Private quantile regression", "times longer", "np.log(income)", "density"],
    "robust_inference.py": ["robust linear regression", "noise_to_signal", "with one in fifty spoilt", "private Huber"],
    "vertebral.py": ["data: 310", "eps for a width of 3.5", "eps = 8 NO", "rank (default)", "mean   4000"],
}

# data files of vignettes, which use synthetic rows if the file is missing
FILES = {"housing.py": "king_county_house_sales.csv", "vertebral.py": "vertebral_column_2C.dat"}
QUICK = ("demo.py",)
ALL = [path.name for path in sorted(VIGNETTES.glob("*.py")) if path.name != "__init__.py"]
MOST_SECONDS = 40  # limit of a vignette's processor time, which is up to 30 s on an idle machine, more on a shared one


def run(name, folder, **environment):
    """Run a vignette as a script, in a process of its own, and return what it prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(VIGNETTES / name), str(folder)],
        cwd=VIGNETTES.parent,
        env={**os.environ, "PYTHONPATH": str(VIGNETTES.parent), "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < MOST_SECONDS
    return ran.stdout


def assert_drawn(name, folder):
    """Check that there is one picture, that it can be read, and that it has more than one colour."""
    (picture,) = folder.iterdir()
    assert picture.name == f"{Path(name).stem}.png"
    drawn = plt.imread(picture)
    assert min(drawn.shape[:2]) > 300 and drawn.std() > 0.05


def there(file):
    try:
        find(file)
    except FileNotFoundError:
        return False
    return True


@pytest.mark.parametrize("name", [name if name in QUICK else slow(name) for name in ALL])
def test_a_vignette_runs_in_half_a_minute_and_shows_what_it_promises(name, tmp_path):
    shown = run(name, tmp_path)
    for text in SHOWS[name]:
        assert text in shown
    if name in FILES:
        assert ("MADE-UP" in shown.splitlines()[0]) != there(FILES[name])
    if name != "demo.py":
        assert_drawn(name, tmp_path)


@pytest.mark.parametrize("name", [slow(name) for name in FILES])
def test_without_its_file_a_vignette_runs_on_made_up_rows_and_its_first_line_says_so(name, tmp_path):
    nowhere = {"PRIVSTATS_DATA": str(tmp_path), "HOME": str(tmp_path), "MPLCONFIGDIR": matplotlib.get_configdir()}
    shown = run(name, tmp_path, **nowhere)
    assert shown.startswith("data: ") and "MADE-UP" in shown.splitlines()[0]
    for text in SHOWS[name]:
        assert text in shown


FEW = dict.fromkeys(("attack", "clipping", "medians", "descent", "coverage", "local"), 1)
SMALL = {  # by vignette: small values of its settings, which are constants at the top of the vignette
    "big_data.py": {"ROWS": 16_000, "SIZES": (4_000, 16_000)},
    "foundations.py": {"ROWS": 400, "REPLICATES": FEW},
    "robust_inference.py": {"ROWS": 2_000, "EVERY": 40},
    "housing.py": {"EVERY": 40, "RESEMBLING": 500},
    "logistic.py": {"EVERY": 4, "WIDTH": 2.0},
    "quantile_regression.py": {"EVERY": 40},
    "vertebral.py": {"TRIALS": 2},
}
SECONDS = ("robust_inference.py",)


def with_settings(source, settings):
    """Return the code of a vignette with other values of its settings; the vignette must set each setting once."""
    statements, met = [], []
    for statement in ast.parse(source).body:
        statements.append(statement)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        for name in [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]:
            if name in settings:
                statements += ast.parse(f"{name} = {settings[name]!r}").body
                met.append(name)
    assert sorted(met) == sorted(settings)
    return compile(ast.Module(statements, []), "vignette", "exec", dont_inherit=True)


@pytest.mark.parametrize("name", [name if name in SECONDS else slow(name) for name in SMALL])
def test_a_vignette_runs_on_few_rows_and_draws_its_picture_without_a_warning(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, str(tmp_path)])
    with warnings.catch_warnings(), plt.rc_context():
        warnings.simplefilter("error")
        names = {"__name__": "__main__", "__file__": name}
        exec(with_settings((VIGNETTES / name).read_text(), SMALL[name]), names)
    if name == "big_data.py":  # earlier, tick labels of the logarithmic axes overlapped
        for axes in names["drawing"].axes:
            axes.set_ylim(0.1, 4)
        assert_readable(names["drawing"])
    plt.close("all")
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) > 20 and f"drawn: {Path(name).stem}.png" in shown
    assert_drawn(name, tmp_path)


NUMBER = re.compile(r"(?<![\w#^.])(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e-?\d+)?")
NO_RESULTS = {
    r"95 %": "the level of intervals where none is given",
    r"(?:, |March )2024|2014-15": "years, in names of data",
    r"reaches from -1 to 1": "the unit of an axis",
    r"(?<=I\()[^~]*|poly\(experience, 2\)": "a formula",
    r"^0\.\d+$": "a grey",
    r"\{\w*:\.\d\w\}": "a format",
    r"^\d+\. (?=[A-Z])": "the number of a panel",
    r"theory [^=]*(?==)|theta\^2 / 2": "a formula beside its value",
    r"^0$|^e-0$": "how a number is written",
}


def is_correction(node):
    """Return whether a node of the syntax tree calls `correct`, which adds a row to the table of corrections."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "correct"


def texts(tree):
    """Return the texts of a vignette, without docstrings, number formats and corrections, as syntax tree nodes."""
    formats = [node.format_spec for node in ast.walk(tree) if isinstance(node, ast.FormattedValue) and node.format_spec]
    # the first three arguments of calls of `correct`, which are texts about the lecture notes
    quoted = [text for node in ast.walk(tree) if is_correction(node) for text in node.args[:3]]
    alone = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    other = {id(part) for spec in formats for part in ast.walk(spec)} | {id(node) for node in alone + quoted}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return [node for node in constants if id(node) not in other]


def typed_numbers(source):
    """Return the line and the text of each string in a vignette that contains a typed, not a computed, number."""
    plain = re.compile("|".join(NO_RESULTS))
    return [(node.lineno, node.value) for node in texts(ast.parse(source)) if NUMBER.search(plain.sub("", node.value))]


@pytest.mark.parametrize("name", ALL)
def test_no_number_that_a_vignette_prints_or_draws_is_typed(name):
    assert not typed_numbers((VIGNETTES / name).read_text())


def test_typed_numbers_are_found_wherever_they_would_be_shown():
    for text in (
        "print('error 0.3')",
        "print(f'{n} rows: .04')",
        "axis.set(title='12 rows')",
        "SOURCE = '310 rows'",
        "correct('', '', '', 'sd .3')",
    ):
        assert typed_numbers(text)
    for text in ("print(f'{error:.3f}')", "axis.plot(x, color='0.8')", "print('widths of 95 % intervals')"):
        assert not typed_numbers(text)
