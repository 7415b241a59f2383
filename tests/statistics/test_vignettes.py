"""Every vignette runs from top to bottom, as a reader would run it."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import matplotlib
import pytest

from privstats.datasets import find
from tests.conftest import slow

VIGNETTES = Path(__file__).parents[2] / "vignettes"
SHOWS = {
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

FILES = {"housing.py": "king_county_house_sales.csv", "vertebral.py": "vertebral_column_2C.dat"}  # or made-up rows
QUICK = ("demo.py",)
ALL = [path.name for path in sorted(VIGNETTES.glob("*.py")) if path.name != "__init__.py"]
MOST_SECONDS = 40  # of a processor: more than the 30 of an idle machine, as one that is shared takes longer


def run(name, folder, **environment):
    """Run a vignette as a reader would, in a process of its own; return what it prints."""
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
    if f"drawn: {Path(name).stem}.png" in shown:
        assert (tmp_path / f"{Path(name).stem}.png").stat().st_size > 10_000


@pytest.mark.parametrize("name", [slow(name) for name in FILES])
def test_without_its_file_a_vignette_runs_on_made_up_rows_and_its_first_line_says_so(name, tmp_path):
    nowhere = {"PRIVSTATS_DATA": str(tmp_path), "HOME": str(tmp_path), "MPLCONFIGDIR": matplotlib.get_configdir()}
    shown = run(name, tmp_path, **nowhere)
    assert shown.startswith("data: ") and "MADE-UP" in shown.splitlines()[0]
    for text in SHOWS[name]:
        assert text in shown
