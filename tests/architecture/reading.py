"""Trusted files that a privacy reviewer reads for each kind of fit, with their numbers of lines.

``python -m tests.architecture.reading`` rewrites the lists in PRIVACY.md.
"""

import ast
import io
import sys
import tokenize
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import pandas as pd

import privstats as ps
from privstats.workflow import plan
from tests.architecture.test_layers import ROOT, tier

DOMAIN = {
    "y": (-1, 1),
    "x": (-1, 1),
    "g": ["a", "b"],
    "z": [0, 1],
    "k": (0, 9),
    "h": [*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN"],
}
ROUTES = {
    "lm, eps": lambda rows: ps.dp_lm("y ~ x + g", rows, 1.0, domain=DOMAIN, mech="suffstats", rng=1),
    "lm, levels": lambda rows: ps.dp_lm("y ~ x + h", rows, 1.0, domain=DOMAIN, mech="suffstats", rng=1),
    "lm, minimised": lambda rows: ps.dp_lm("y ~ x + g", rows, 1.0, domain=DOMAIN, mech="objpert", rng=1),
    "lm, mu": lambda rows: ps.dp_lm("y ~ x + g", rows, mu=1.0, domain=DOMAIN, rng=1),
    "glm": lambda rows: ps.dp_glm("z ~ x + g", rows, 1.0, domain=DOMAIN, rng=1),
    "counts": lambda rows: ps.dp_glm("k ~ x + g", rows, 1.0, domain=DOMAIN, family="poisson", rng=1),
    "rq": lambda rows: ps.dp_rq("y ~ x + g", rows, mu=1.0, domain=DOMAIN, rng=1),
    "quantiles": lambda rows: ps.dp_quantile("x", rows, 1.0, q=[0.25, 0.5], domain=DOMAIN, rng=1),
    "ledger": lambda rows: charged(),
}
TITLES = {
    "lm, eps": "`dp_lm` under eps, by moments",
    "lm, levels": "`dp_lm` under eps, by moments, with a factor of three levels or more",
    "lm, minimised": "`dp_lm` under eps, by objective perturbation",
    "lm, mu": "`dp_lm` under mu",
    "glm": "`dp_glm` under eps",
    "counts": "`dp_glm` of counts under eps",
    "rq": "`dp_rq` under mu",
    "quantiles": "`dp_quantile` under eps",
    "ledger": "a charge to a ledger in a file, beside what a fit needs",
}
METHODS = {  # trusted methods in files whose other code is not trusted
    "formula/design.py": ("Design.block",),
    "formula/columns.py": ("Columns.block",),
    "formula/bare.py": ("BareFactor.block",),
    "formula/factors.py": ("BasisFactor.values", "CutFactor.codes", "LevelFactor.codes", "NumericFactor.values"),
    "formula/selection.py": ("Selection.keeps", "Selection.weighs"),
    "formula/terms.py": ("Terms.codes",),
}
PAGE = ROOT.parent / "PRIVACY.md"
BEGIN, END = "<!-- reading lists -->", "<!-- end of reading lists -->"
SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def charged():
    """Charge a guarantee to a new ledger in a file."""
    with TemporaryDirectory() as folder:
        ps.Ledger(ps.PureDP(1.0), Path(folder) / "study.sqlite").charge(
            [("all", ps.PureDP(0.5))], "dp_mean x", "laplace"
        )


def rows():
    """Return 2,000 synthetic rows with the columns of `DOMAIN`."""
    rng = np.random.Generator(np.random.PCG64(1))
    x = rng.uniform(-1, 1, 2000)
    y = np.clip(0.2 + 0.5 * x + 0.2 * rng.standard_normal(2000), -1, 1)
    return pd.DataFrame(
        {
            "x": x,
            "y": y,
            "g": np.where(x > 0, "a", "b"),
            "z": (y > 0.2).astype(int),
            "k": (y > 0) * 2,
            "h": np.where(x > 0, "a", "b"),
        }
    )


def places_of(route):
    """Return the file and the first line of each function of the package that is called by a kind of fit.

    A rehearsal runs the fit on synthetic rows to plan its queries. Rehearsals use the real mechanisms here, so that the
    code of queries that a fit may ask, but does not ask of these rows, is included.
    """
    seen = set()

    def look(frame, event, argument):
        if event == "call" and frame.f_code.co_name != "<module>":
            seen.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    data = rows()
    with patch.object(plan, "_quick", lambda by: by):
        sys.setprofile(look)
        try:
            ROUTES[route](data)
        finally:
            sys.setprofile(None)
    return {(Path(name).relative_to(ROOT).as_posix(), line) for name, line in seen if name.startswith(str(ROOT))}


def read_of(route):
    """Return the names of the trusted definitions that a kind of fit uses, for each file."""
    used = {}
    for name, line in places_of(route):
        for one, node in definitions(name).items():
            if first_line(node) <= line <= node.end_lineno:
                used.setdefault(name, set()).add(one)
    for name, ones in used.items():  # a class is read together with its base classes
        known = definitions(name)
        for _ in known:
            bases = (ast.unparse(base) for one in ones for base in getattr(known[one], "bases", ()))
            ones |= set(bases) & known.keys()
    return used


@cache
def definitions(name):
    """Return the trusted classes, functions and methods of a file, as syntax trees by name."""
    body = ast.parse((ROOT / name).read_text()).body
    found = {node.name: node for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    if tier(ROOT / name) != "untrusted":
        return found
    return {
        f"{kind}.{node.name}": node
        for kind, of in found.items()
        for node in getattr(of, "body", ())
        if f"{kind}.{getattr(node, 'name', '')}" in METHODS.get(name, ())
    }


def first_line(node):
    return min([node.lineno, *(one.lineno for one in node.decorator_list)])


def lines(name, used):
    """Return the numbers of code lines and of non-blank lines in the definitions `used` and in trusted constants."""
    code, filled = all_lines(name)
    known = definitions(name)
    inside = {k for one in used for k in range(first_line(known[one]), known[one].end_lineno + 1)}
    if tier(ROOT / name) != "untrusted":
        apart = {k for one in known.values() for k in range(first_line(one), one.end_lineno + 1)}
        inside |= (code | filled) - apart
    return len(code & inside), len(filled & inside)


@cache
def all_lines(name):
    """Return two sets of line numbers of a file: its lines of code, and its non-blank lines."""
    text = (ROOT / name).read_text()
    words = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            words |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    code = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SKIPPED:
            code |= set(range(token.start[0], token.end[0] + 1))
    return code - words, {k for k, line in enumerate(text.splitlines(), 1) if line.strip()}


@cache
def lists():
    """Return the reading lists of all kinds of fit, as PRIVACY.md has them between two marks."""
    parts = []
    for route, what in TITLES.items():
        read = read_of(route)
        body = [(name, ", ".join(sorted(used)), *lines(name, used)) for name, used in sorted(read.items())]
        code, everything = (sum(row[k] for row in body) for k in (2, 3))
        parts.append(f"### {what}: {code:,} lines of code, {everything:,} with comments and proofs\n")
        parts.append("| file | what of it | code | all |\n|---|---|--:|--:|")
        parts += [f"| `{name}` | {used} | {few} | {many} |" for name, used, few, many in body]
        parts.append("")
    return "\n".join(parts)


def split(text):
    """Return three parts of the text of PRIVACY.md: before, between and after the two marks."""
    before, rest = text.split(BEGIN)
    between, after = rest.split(END)
    return before, between, after


if __name__ == "__main__":
    if "--show" in sys.argv:
        sys.stdout.write(lists())
    else:
        before, _, after = split(PAGE.read_text())
        PAGE.write_text(f"{before}{BEGIN}\n{lists()}{END}{after}")
