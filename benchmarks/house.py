"""What it takes to find one's way through the package: files and hops of a call, circles, names with two meanings.

    python -m benchmarks.house            # prints the figures; exits non-zero where one misses its target

*Hops* of a call are the different pairs of functions in two files of ours of which one calls the other, as seen by
`sys.setprofile`; *files* are those that have a part in it. The room of formulas and imports are left out. Counted like
this, commit 43508b1, whose 127 hops the targets were set against, has 130 (what is now that room lay in gate/).
A fit is rehearsed on made-up rows before any row is read; hops that only the rehearsal makes are printed apart.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd

import privstats as ps

HOME = Path(ps.__file__).parent
LANGUAGE = "formula/"
TARGETS = {"moments": (90, 33), "steps": (140, 33)}


def hops(call: Callable[[], object]) -> set[tuple[str, str, str, str]]:
    """Return the pairs of functions (file, name, file, name) across files of a call."""
    pairs = set()

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_back is not None:
            here, there = frame.f_back.f_code, frame.f_code
            a, b = (_room(code.co_filename) for code in (here, there))
            if a and b and a != b:
                pairs.add((a, here.co_qualname, b, there.co_qualname))

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return pairs


def _room(filename: str) -> str:
    """Return the place of a file in the package; nothing for others, and for the room of formulas."""
    path = Path(filename)
    if HOME not in path.parents:
        return ""
    name = str(path.relative_to(HOME).with_suffix(""))
    return "" if name.startswith(LANGUAGE) else name


def modules() -> list[Path]:
    """Return the files of the package."""
    return sorted(HOME.rglob("*.py"))


def imports() -> dict[str, set[str]]:
    """Return what each module of ours imports of ours, for types too."""
    found: dict[str, set[str]] = {}
    for path in modules():
        name = _module(path)
        found[name] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("privstats"):
                for alias in node.names:
                    inner = HOME.parent.joinpath(*node.module.split("."), f"{alias.name}.py")
                    found[name].add(f"{node.module}.{alias.name}" if inner.exists() else node.module)
    return found


def _module(path: Path) -> str:
    parts = path.relative_to(HOME.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def circles(uses: dict[str, set[str]]) -> list[str]:
    """Return the modules that import themselves by way of others."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        todo = list(uses.get(start, ()))
        while todo:
            one = todo.pop()
            if one not in seen:
                seen.add(one)
                todo += uses.get(one, ())
        return seen

    return sorted(name for name in uses if name in reached(name))


def rooms(uses: dict[str, set[str]]) -> list[str]:
    """Return the rooms (folders) that import one another in a circle."""
    folder = {name: name.split(".")[1] if name.count(".") > 1 else name for name in uses}
    between: dict[str, set[str]] = {}
    for name, others in uses.items():
        between.setdefault(folder[name], set()).update(
            folder.get(other, other) for other in others if folder.get(other, other) != folder[name]
        )
    return circles(between)


def twice() -> list[str]:
    """Return public names of functions and classes that two modules define."""
    where: dict[str, list[str]] = {}
    for path in modules():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                where.setdefault(node.name, []).append(_module(path).removeprefix("privstats."))
    return [f"{name} ({', '.join(places)})" for name, places in sorted(where.items()) if len(places) > 1]


def main() -> None:
    """Print the figures."""
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.uniform(0, 10, 4000), "y": rng.uniform(-9, 9, 4000)})
    domain = {"x": (0, 10), "y": (-10, 10)}
    routes: dict[str, dict[str, Any]] = {
        "moments": {"eps": 1.0, "mech": "suffstats"},
        "steps": {"mu": 1.0, "mech": "newton"},
    }
    missed = []
    for name, price in routes.items():
        ps.dp_lm("y ~ x", data, domain=domain, **price)  # imports what is imported late
        pairs = hops(lambda price=price: ps.dp_lm("y ~ x", data, domain=domain, **price))  # type: ignore[misc]
        files = {a for a, *_ in pairs} | {b for _, _, b, _ in pairs}
        most, widest = TARGETS[name]
        rehearsed = sum("gate/rehearsal" in (a, b) for a, _, b, _ in pairs)
        print(
            f"dp_lm by {name}: {len(pairs)} hops (at most {most}), {rehearsed} of them of the rehearsal; "
            f"{len(files)} files (at most {widest})"
        )
        missed += [name] if len(pairs) > most or len(files) > widest else []
    uses = imports()
    for what, names in (
        ("modules in circles", circles(uses)),
        ("rooms in circles", rooms(uses)),
        ("names twice", twice()),
    ):
        print(f"{what}: {len(names)}", *names, sep="\n    ")
        missed += [what] if names else []
    print(f"{len(uses)} files, {sum(len(p.read_text().splitlines()) for p in modules())} lines")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
