"""Who may import whom (CONTRIBUTING, the rooms), read from the source."""

import ast
from pathlib import Path

import pytest

import privstats

ROOT = Path(privstats.__file__).parent
ANYONE = {"errors", "numerics", "boundary"}
MAY_IMPORT = {
    "errors": set(),
    "numerics": set(),
    "boundary": set(),
    "privacy": set(),
    "losses": set(),
    "inference": set(),
    "formula": set(),
    "sets": {"privacy"},
    "mechanisms": {"privacy"},
    "gate": {"formula", "privacy", "sets"},
    "estimators": {"gate", "inference", "losses", "mechanisms", "privacy", "sets"},
    "results": {"inference", "privacy"},
    "models": {"estimators", "formula", "privacy"},
    "workflow": {"estimators", "formula", "gate", "mechanisms", "models", "privacy", "results"},
    "api": {"formula", "models", "older", "privacy", "results", "workflow"},
    "datasets": {"formula", "mechanisms", "older"},
    "__init__": {"api", "datasets", "formula", "older", "privacy"},
    "older": {"api", "formula", "mechanisms", "numerics", "older", "privacy"},
}
FILES = sorted(ROOT.rglob("*.py"))
names = pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))


def imports(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            yield node.module
            if node.module == "privstats":
                yield from (f"privstats.{alias.name}" for alias in node.names)


def room(file):
    first = file.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


@names
def test_each_room_imports_only_what_it_may(file):
    own = room(file)
    for name in imports(file):
        parts = name.split(".")
        if parts[0] != "privstats" or len(parts) == 1:
            continue
        assert parts[1] in MAY_IMPORT[own] | ANYONE | {own}, f"{file.name} imports {name}"
        if own == "estimators" and parts[1] == "gate":
            assert parts[2] == "questions", f"an estimator imports {name}"


@names
def test_only_the_language_knows_patsy_and_only_one_file_makes_chance(file):
    for name in imports(file):
        if name.split(".")[0] == "patsy":
            assert room(file) in ("formula", "older")
        assert name.split(".")[0] not in {"random", "logging"}
        if name.split(".")[0] in {"secrets", "randomgen"}:
            assert file.name == "random.py"


@names
def test_nothing_is_evaluated_printed_or_warned(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in {"eval", "exec", "compile", "print", "warnings.warn", "input", "open"}, (
                f"{file}: {called}"
            )
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "np.random":
            assert file.name == "random.py"
