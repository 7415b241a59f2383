"""The import rules between the folders of the package (CONTRIBUTING, "The rooms"), checked in the source."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import privstats
from tests.conftest import looped

ROOT = Path(privstats.__file__).parent
ANYONE = {"errors", "numerics", "boundary", "version"}
MAY_IMPORT = {
    "errors": set(),
    "numerics": set(),
    "boundary": set(),
    "version": set(),
    "privacy": set(),
    "losses": set(),
    "inference": set(),
    "formula": {"mechanisms"},
    "sets": {"privacy"},
    "mechanisms": {"privacy"},
    "gate": {"formula", "privacy", "sets"},
    "estimators": {"gate", "inference", "losses", "mechanisms", "privacy", "sets"},
    "results": {"inference", "privacy"},
    "models": {"estimators", "formula", "losses", "mechanisms", "privacy"},
    "workflow": {
        "estimators",
        "formula",
        "gate",
        "inference",
        "losses",
        "mechanisms",
        "models",
        "privacy",
        "results",
        "sets",
    },
    "api": {"formula", "gate", "models", "privacy", "results", "workflow"},
    "adapters": {"results"},
    "command": {"api", "formula", "privacy", "results", "workflow"},
    "datasets": {"formula", "mechanisms"},
    "local": {"formula", "gate", "inference", "mechanisms", "privacy", "results", "workflow"},
    "__main__": {"command"},
    "__init__": {"adapters", "api", "datasets", "formula", "local", "privacy", "results", "workflow"},
}
EXTENDED = (  # files for methods requested by name, or for ledgers with several kinds of guarantee
    "losses/convex.py",  # the bounds on slopes and curvatures determine the noise of objective perturbation
    "sets/losses.py",
    "sets/weighted_losses.py",
    "mechanisms/quantile_regression/",
    "mechanisms/objective/",
    "mechanisms/comparison/",
    "privacy/composition.py",
    "privacy/ledger",
    "privacy/subsampling.py",
)
CORE = (
    "gate/",
    "sets/",
    "formula/cells.py",
    "formula/values.py",
    "formula/functions.py",
    "formula/basis.py",
    "formula/block.py",
    "mechanisms/",
    "numerics/exact.py",
    "privacy/",
    "boundary.py",
    "workflow/fit.py",
    "workflow/stage0.py",
    "workflow/division.py",
)
FILES = sorted(ROOT.rglob("*.py"))
names = looped(FILES)


@cache
def tree(file):
    return ast.parse(file.read_text())


def imports(file):
    for node in ast.walk(tree(file)):
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


def tier(file):
    where = file.relative_to(ROOT).as_posix()
    if where.startswith(EXTENDED):
        return "extended"
    return "core" if where.startswith(CORE) else "untrusted"


def module(file):
    parts = ("privstats", *file.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@names
def test_each_room_imports_only_what_it_may(file):
    own = room(file)
    for name in imports(file):
        parts = name.split(".")
        if parts[0] != "privstats" or len(parts) == 1:
            continue
        may = MAY_IMPORT[own] | ANYONE | {own} | ({"losses"} if tier(file) == "extended" else set())
        assert parts[1] in may, f"{file.name} imports {name}"
        if own == "estimators" and parts[1] == "gate":
            assert parts[2] == "questions", f"an estimator imports {name}"
        if own == "formula" and parts[1] == "mechanisms":
            assert parts[2] == "random", f"a formula imports {name}"


@names
def test_only_the_language_knows_patsy_and_only_one_file_makes_chance(file):
    for name in imports(file):
        if name.split(".")[0] == "patsy":
            assert file.relative_to(ROOT).as_posix() == "formula/language.py"
        assert name.split(".")[0] != "random"
        # the exception silences logs of Dask
        assert name != "logging" or file.relative_to(ROOT).as_posix() == "gate/dask_frames.py"
        if name.split(".")[0] in {"secrets", "randomgen"}:
            assert file.name == "random.py"


@names
def test_of_scipy_only_special_is_imported_by_name(file):
    """Functions of `scipy.special` are imported by name; other parts of scipy are attributes (`scipy.optimize.brentq`).

    Scipy imports such a part at its first use, so that the import of the package is fast.
    """
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "scipy":
            assert node.module == "scipy.special" or {alias.name for alias in node.names} == {"special"}
        if isinstance(node, ast.Import):
            assert not any(alias.name.startswith("scipy.") for alias in node.names)


def test_a_fresh_process_imports_what_pandas_and_special_functions_need_and_little_more():
    """Other parts of scipy, statsmodels, matplotlib, patsy and asyncio are not imported.

    Their imports take as long as the import of the package itself.
    """
    code = """if True:
        import sys, numpy, pandas, scipy.special
        before = set(sys.modules)
        import privstats
        print(*sorted(set(sys.modules) - before))
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent)
    others = {name.split(".")[0] for name in run.stdout.split()} - sys.stdlib_module_names
    assert others <= {"privstats", "packaging", "randomgen"}
    assert "asyncio" not in run.stdout.split()


@names
def test_nothing_is_evaluated_or_printed_and_only_arguments_public_names_and_new_rows_are_warned_of(file):
    warning = {"errors.py": {"warnings.warn"}, "formula/schema.py": {"warn"}, "workflow/arguments.py": {"warn"}}
    allowed = warning.get(file.relative_to(ROOT).as_posix(), set())
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            never = {"eval", "exec", "compile", "print", "warnings.warn", "warn", "input", "open"}
            assert called not in never - allowed, f"{file}: {called}"
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "np.random":
            assert file.name == "random.py"


@names
def test_no_file_of_the_core_needs_one_of_the_extended_tier(file):
    if tier(file) != "core":
        return
    extended = {module(other) for other in FILES if tier(other) == "extended"}
    assert not extended & set(imports(file))


def test_no_imports_run_in_circles_type_only_ones_included():
    files = [file for file in FILES if room(file) not in ("__init__", "datasets")]
    known = {module(file) for file in files}
    assert not circles(
        {module(file): {name for name in imports(file) if name in known} - {module(file)} for file in files}
    )


def test_no_rooms_import_one_another_in_a_circle():
    assert not circles(MAY_IMPORT)


def circles(uses):
    """Return the modules that are part of an import cycle, or that depend on such a module."""
    left = dict(uses)
    while free := [name for name, others in left.items() if not others & left.keys()]:
        for name in free:
            del left[name]
    return sorted(left)


def constants(file):
    """Yield the names of a module's constants, with the source text of their values."""
    for node in tree(file).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                pairs = zip(target.elts, node.value.elts, strict=True) if several else [(target, node.value)]
                yield from (
                    (name.id, ast.unparse(value))
                    for name, value in pairs
                    if isinstance(name, ast.Name) and not name.id.startswith("_")
                )


def test_in_a_room_one_name_of_a_constant_has_one_value():
    """Constants with the same name in one folder of the package have the same value.

    The only exception is `SHARES`, which each estimator defines; see the docstring of the module `constants`.
    """
    where = {}
    for file in FILES:
        for name, value in constants(file):
            where.setdefault((room(file), name), {}).setdefault(value, []).append(module(file))
    several = {key: values for key, values in where.items() if len(values) > 1}
    assert several.keys() == {("estimators", "SHARES")}, several


def test_one_name_is_defined_in_one_module():
    where = {}
    for file in FILES:
        for node in tree(file).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                where.setdefault(node.name, []).append(module(file))
    assert not {name: several for name, several in where.items() if len(several) > 1}
