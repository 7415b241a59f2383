"""Every vignette runs from top to bottom, as a reader would run it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import slow

VIGNETTES = Path(__file__).parents[2] / "vignettes"
SHOWS = {
    "demo.py": ["Doctor visits", "Guarantee", "privacy"],
    "housing.py": ["No row was read", "C(county)", "times longer", "eps = 4: noise_to_signal"],
    "logistic.py": ["Private logistic regression", "eps for a width", "dy/dx", "mu = 0.5"],
    "quantile_regression.py": ["Private quantile regression", "times longer", "np.log(income)", "density"],
    "robust_inference.py": ["robust linear regression", "noise_to_signal", "with one in fifty spoilt", "private Huber"],
    "vertebral.py": ["data: 310", "eps for a width of 3.5", "eps = 8 NO", "rank (default)", "mean   4000"],
}


QUICK = ("demo.py",)
ALL = [path.name for path in sorted(VIGNETTES.glob("*.py")) if path.name != "__init__.py"]


@pytest.mark.parametrize("name", [name if name in QUICK else slow(name) for name in ALL])
def test_a_vignette_runs_and_shows_what_it_promises(name, tmp_path):
    run = subprocess.run(
        [sys.executable, "-W", "error", str(VIGNETTES / name), str(tmp_path)],
        cwd=VIGNETTES.parent,
        env={**os.environ, "PYTHONPATH": str(VIGNETTES.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    for text in SHOWS[name]:
        assert text in run.stdout
    if f"drawn: {Path(name).stem}.png" in run.stdout:
        assert (tmp_path / f"{Path(name).stem}.png").stat().st_size > 10_000
