"""The built packages: wheel and source archive are complete, and the README's first example runs from both."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIRST = """
import doctest, pathlib, sys
import privstats
assert pathlib.Path(privstats.__file__).is_relative_to(sys.argv[2]), privstats.__file__
text = pathlib.Path(sys.argv[1]).read_text()
example = text[text.index(">>> import privstats as ps") : text.index("`rng=1` makes this page repeat itself")]
example = example.replace("```", "")
test = doctest.DocTestParser().get_doctest(example, {}, "README.md", None, 0)
runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
runner.run(test)
sys.exit(bool(runner.failures) or runner.tries < 4)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the wheel and the source archive that hatchling builds from this tree."""
    folder = tmp_path_factory.mktemp("built")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=ROOT, check=True, capture_output=True
    )
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


def first_example(python, inside, where, **env):
    command = [python, "-c", FIRST, ROOT / "README.md", inside]
    return subprocess.run(command, cwd=where, env=os.environ | env, capture_output=True, text=True)


def test_the_wheel_has_the_package_and_nothing_else(built):
    with zipfile.ZipFile(built[0]) as wheel:
        names = set(wheel.namelist())
        (metadata,) = (wheel.read(name).decode() for name in names if name.endswith("METADATA"))
        (entry,) = (wheel.read(name).decode() for name in names if name.endswith("entry_points.txt"))
    inside = {path.relative_to(ROOT).as_posix() for path in (ROOT / "privstats").rglob("*.py")} | {"privstats/py.typed"}
    assert inside == {name for name in names if ".dist-info/" not in name}
    assert any(name.endswith("LICENSE") for name in names)
    assert "privstats = privstats.command:main" in entry
    assert "\nAuthor: privstats contributors\n" in metadata
    assert "\nKeywords: " in metadata and "\nClassifier: Typing :: Typed\n" in metadata


def test_the_source_archive_has_what_make_test_needs(built):
    with tarfile.open(built[1]) as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    assert {"Makefile", "README.md", "LICENSE", "CITATION.cff", "constraints.txt", "tests/conftest.py"} <= names


def test_the_citation_is_that_of_the_package():
    text = (ROOT / "CITATION.cff").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    said = dict(re.findall(r'^([a-z-]+): "?(.*?)"?$', text, flags=re.MULTILINE))
    assert (said["title"], said["version"], said["license"]) == ("privstats", project["version"], project["license"])
    assert f'- name: "{project["authors"][0]["name"]}"' in text


def test_the_first_example_runs_from_the_wheel_outside_of_the_repository(built, tmp_path):
    inside = tmp_path / "unpacked"
    with zipfile.ZipFile(built[0]) as wheel:
        wheel.extractall(inside)
    done = first_example(sys.executable, inside, tmp_path, PYTHONPATH=str(inside))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1], ids=["wheel", "source"])
def test_the_first_example_runs_in_a_clean_environment(built, tmp_path, which):
    place = tmp_path / "clean"
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", built[which]]
    subprocess.run(install, cwd=tmp_path, check=True, capture_output=True)
    done = first_example(python, place, tmp_path, PYTHONPATH="")
    assert done.returncode == 0, done.stdout + done.stderr
    shown = subprocess.run([place / "bin" / "privstats", "--help"], cwd=tmp_path, capture_output=True, text=True)
    assert shown.returncode == 0 and "show" in shown.stdout
