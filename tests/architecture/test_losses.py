"""Functions of rows cannot mix rows: checks of their source, and of their results if the other rows change."""

import ast
import importlib
import inspect
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import privstats
from privstats.formula.columns import bind_columns
from privstats.formula.design import bind_regression
from privstats.formula.domain import Domain
from privstats.losses import clipped_likelihood, families, location, psi, rows
from privstats.losses.base import HuberLoss, SquaredLoss
from privstats.losses.marginal_effects import Dummies, EffectParts
from privstats.losses.mestimators import Concomitant, ConcomitantScores, LogCosh, PseudoHuber
from privstats.workflow import stage0

ROOT = Path(privstats.__file__).parent
FILES = (*sorted((ROOT / "losses").glob("*.py")), ROOT / "workflow" / "stage0.py")

# --- names, operations and functions that functions of rows may use ---------------------------------------------------

OF_ROWS = {"block", "eta", "y", "rows", "values", "u"}  # names of arguments that hold one number, or vector, per row
PUBLIC = {  # exceptions: functions of public numbers and releases, whose arguments have these names
    "Family.start": "slopes, and made-up sizes",
    "Binary.start": "the same",
    "Poisson.start": "the same",
    "Family.responses": "of made-up predictors",
    "Binary.responses": "the same",
    "Poisson.responses": "the same",
    "exact_slope": "of single numbers, in decimals",
    "check_enough": "a number of rows",
}
ELEMENTWISE = {
    *("abs", "arcsinh", "clip", "exp", "log", "maximum", "minimum", "nan_to_num", "rint", "sqrt", "square", "where"),
}
MAKERS = {"array", "column_stack", "ones", "ones_like", "vstack", "zeros", "zeros_like"}  # make or join vectors
SPECIAL = {"expit", "ndtr", "log_ndtr", "gammaln", "erfcx"}
OF_BLOCKS = {"times", "astype", "copy"}
FIELDS = {"of", "rows", "inner", "transform"}  # fields that hold functions of rows, or functions of one number per row
PLAIN = {"len", "zip", "enumerate", "super", "_TransformedBlock"}
BANNED = (ast.MatMult, ast.Global, ast.Nonlocal, ast.Lambda, ast.While, ast.With, ast.Try, ast.Delete, ast.Import)
BANNED += (ast.Yield, ast.Await, ast.NamedExpr, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


def functions(path):
    """Yield the name and the syntax tree of each function of a file that has an argument with a name in `OF_ROWS`."""
    for node in ast.parse(path.read_text()).body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        for one in inside:
            if isinstance(one, ast.FunctionDef):
                name = f"{node.name}.{one.name}" if isinstance(node, ast.ClassDef) else one.name
                seen = OF_ROWS & {argument.arg for argument in one.args.args}
                own_block = node.name == "_TransformedBlock" if isinstance(node, ast.ClassDef) else False
                if (seen or own_block) and not (of_decimals(one) or name in PUBLIC):
                    yield name, one


def of_decimals(function):
    return any("Decimal" in ast.unparse(a.annotation) for a in function.args.args if a.annotation)


KEEPS = "rows: once"  # the only function that stores its result: in the block of rows
ALL = {f"{path.stem}: {name}": function for path in FILES for name, function in functions(path)}
SEEN = {name: function for name, function in ALL.items() if name != KEEPS}
KNOWN = {function.name for function in ALL.values()}  # functions that a row function may call


def problems(function):
    """Yield the operations of a function that might combine different rows, or store rows."""
    for node in ast.walk(function):
        if isinstance(node, BANNED) and node is not function:
            yield type(node).__name__
        if isinstance(node, ast.Call):
            yield from wrong_call(node)
        if isinstance(node, ast.Subscript) and not row_by_row(node):
            yield f"[...] of {ast.unparse(node)}"
        if isinstance(node, ast.For | ast.comprehension) and not over_columns(node.iter):
            yield f"a loop over {ast.unparse(node.iter)}"
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (f"state: {ast.unparse(target)}" for target in targets if isinstance(target, ast.Attribute))


def wrong_call(node):
    called, text = node.func, ast.unparse(node.func)
    name = called.id if isinstance(called, ast.Name) else called.attr
    if isinstance(called, ast.Name):
        if name not in PLAIN | SPECIAL | KNOWN:
            yield name
        if f"rows: {name}" == KEEPS and ast.unparse(node.args[1]) not in KNOWN:
            yield f"{name}() of an unknown function"
    elif isinstance(called.value, ast.Name) and called.value.id == "np":
        if name == "searchsorted":  # `searchsorted` may look up positions among public edges, its first argument
            if OF_ROWS & {part.id for part in ast.walk(node.args[0]) if isinstance(part, ast.Name)}:
                yield "searchsorted among rows"
        elif name not in ELEMENTWISE | MAKERS:
            yield f"np.{name}"
    elif name == "sum":  # sums are allowed only over the entries of a row
        if [ast.unparse(word) for word in node.keywords] != ["axis=1"]:
            yield "sum over rows"
    elif isinstance(called.value, ast.Name) and called.value.id == "math":
        pass  # functions of `math` accept single numbers only, and fail for arrays
    elif name not in OF_BLOCKS and not (name in FIELDS | KNOWN and text.startswith(("self", "super()"))):
        yield f".{name}()"


def row_by_row(node):
    """Return whether an index expression keeps the rows in their places, or looks up a public table."""
    root, index = node.value, node.slice
    first = index.elts[0] if isinstance(index, ast.Tuple) else index
    if isinstance(first, ast.Slice) and first.lower is first.upper is first.step is None:
        return True
    text = ast.unparse(root)
    public = text in ("self.cuts", "block.codes", "kept", "columns", "matrix", "self.edges") or "." not in text
    return public and text not in OF_ROWS - {"block"}


def over_columns(node):
    text = ast.unparse(node)
    return text.endswith(".T") or text.startswith(("zip(", "enumerate(", "self.")) or isinstance(node, ast.Tuple)


@pytest.mark.parametrize("name", SEEN)
def test_functions_of_rows_are_elementwise(name):
    assert list(problems(SEEN[name])) == []


MIXING = """
def f(self, block):
    {}
"""


@pytest.mark.parametrize(
    "line",
    [
        "return block.times(self.P) @ self.Q",
        "return block.response - block.response.mean()",
        "return np.sort(block.response)",
        "return block.response.sum() + block.weight",
        "return block.times(self.P).sum(axis=0)",
        "return np.cumsum(block.weight)",
        "return block.response[::-1]",
        "return y[order]",
        "return np.linalg.norm(block.times(self.P), axis=0)",
        "self.last = block.response",
        "global last",
        "return np.max(block.weight)",
        "return np.searchsorted(values, y)",
        "return [g(row) for row in block.times(self.P)]",
        "return open('/tmp/rows', 'w').write(str(block))",
        "return once(block, np.cumsum, block.weight)",
        "return np.einsum('ij,kj->i', x, x)",
    ],
)
def test_what_mixes_rows_is_seen(line):
    assert list(problems(ast.parse(MIXING.format(line)).body[0]))


def test_functions_of_rows_are_found():
    assert {"rows: Scores.__call__", "psi: MallowsRows.__call__", "families: Gamma.psi", "base: HuberLoss.psi"} <= {
        *SEEN
    }
    assert len(SEEN) > 50


# --- results of functions of rows -------------------------------------------------------------------------------------

DOMAIN = Domain({"y": (0, 10), "x": (-1, 3), "z": (2, 5), "g": ["a", "b", "c"], "w": (0, 2)})
DESIGN = bind_regression("y ~ x * g + np.log(z)", DOMAIN, weights="w")
LOCATED = bind_columns("x + z ~ g", DOMAIN)
rng = np.random.default_rng(5)
WIDTH = DESIGN.width
P = np.vstack([rng.normal(size=(WIDTH - 1, 3)), np.zeros((1, 3))])
Q = rng.normal(size=(WIDTH, 2))
THETA = np.append(rng.normal(size=WIDTH - 1) / 3, 0.0)
STEP = rows.HessianRows(SquaredLoss(), P, THETA)
GROUPS = (Dummies((1, 2), np.array([-1.0, -1.0]), np.array([1.0, 1.0])),)
LOSSES = {
    "squares": SquaredLoss(),
    "huber": HuberLoss(1.345, 0.1),
    "pseudo-Huber": PseudoHuber(1.345, 0.1),
    "log-cosh": LogCosh(1.345, 0.1),
    "check": psi.CheckLoss(0.3),
    "smoothed check": psi.CheckLoss(0.3, 0.2),
    **{f"{kind.name} {kind.link}": psi.Likelihood(kind(), 0.5, 0.5) for kind in families.FAMILIES.values()},
}
COUNTED = [(psi.Likelihood(kind(), 0.5, 0.5), P, THETA, 0.8, 2.0) for kind in (families.Poisson, families.Gamma)]
X = location.ColumnValues((0,))
REGRESSIONS = {
    "Linear": [rows.Linear(Q)],
    "WeightedColumns": [rows.WeightedColumns(Q)],
    "WeightedLinear": [rows.WeightedLinear(Q)],
    "SquaredColumns": [rows.SquaredColumns(Q)],
    "RootWeighted": [rows.RootWeighted(Q)],
    "CodedColumns": [rows.CodedColumns((0,), Q)],
    "Scores": [rows.Scores(loss, P, THETA) for loss in LOSSES.values()],
    "BesideLevel": [rows.BesideLevel(0, rows.Scores(SquaredLoss(), P, THETA))],
    "HessianRows": [rows.HessianRows(loss, P, THETA) for loss in LOSSES.values()],
    "RowResiduals": [rows.RowResiduals(THETA)],
    "SquaredResiduals": [rows.SquaredResiduals(THETA, 2.0)],
    "Level": [rows.Level(0)],
    "LevelWeight": [rows.LevelWeight(0)],
    "Weight": [rows.Weight()],
    "One": [rows.One()],
    "OffEnds": [rows.OffEnds(np.eye(WIDTH)[:, 1:3])],
    "AtLevels": [
        rows.AtLevels((np.array([True, False, True]),), ends) for ends in (np.zeros((WIDTH, 0)), -np.eye(WIDTH)[:, 1:2])
    ],
    "OfTransformed": [psi.OfTransformed(rows.Linear(Q), psi.Standardized(0.1, 0.3, 3.0))],
    "Within": [psi.Within(THETA, (0.1, 0.5, 1.0))],
    "BinOfResidual": [psi.BinOfResidual(THETA, -0.5, 0.1)],
    "StretchedResiduals": [psi.StretchedResiduals(THETA, 1e-3)],
    "LogSizes": [psi.LogSizes(THETA, 0.1, 1e-6)],
    "Shortened": [psi.Shortened(P, THETA, 0.4, 0.8)],
    "ClippedScores": [psi.ClippedScores(loss, P, THETA, 0.8) for loss in LOSSES.values()],
    "LossRows": [psi.LossRows(P, THETA, 0.5, 0.5)],
    "WeightedRows": [rows.WeightedRows(Q)],
    "ClippedProductRows": [rows.ClippedProductRows(P, THETA, 0.6, 2.0, 1.5)],
    "ClippedProductScores": [rows.ClippedProductScores(P, THETA, 0.6, 2.0, 1.5)],
    "ClippedLikelihoodRows": [clipped_likelihood.ClippedLikelihoodRows(*COUNTED[k], 9.0) for k in (0, 1)],
    "ClippedLikelihoodScores": [
        clipped_likelihood.ClippedLikelihoodScores(*COUNTED[k], 9.0, onto) for k in (0, 1) for onto in (None, Q)
    ],
    "ProductSizes": [rows.ProductSizes(P, THETA, 2.0, 4.0)],
    "LogDistance": [rows.LogDistance(THETA, 0.1, 1e-5)],
    "HeldBeside": [rows.HeldBeside(P, 0, 0.7)],
    "ResidualSizes": [rows.ResidualSizes(THETA)],
    "DistanceOrEnd": [rows.DistanceOrEnd(THETA, end) for end in (-1, 1)],
    "ConcomitantScores": [ConcomitantScores(Concomitant(HuberLoss(), 2.0), P, THETA, 0.3)],
    "KernelRows": [rows.KernelRows(Q, THETA, 0.4)],
    "EffectParts": [EffectParts(THETA, WIDTH - 1, kind(), GROUPS, (-3.0, 3.0)) for kind in families.FAMILIES.values()],
    "MallowsRows": [
        psi.MallowsRows(loss, P, P, THETA, 0.8, 0.5, how) for loss in LOSSES.values() for how in (True, False)
    ],
}
LOCATIONS = {
    "ColumnValues": [X, location.ColumnValues((1, 0))],
    "Scaled": [location.Scaled(X, np.array([1.0]), np.array([2.0]))],
    "Group": [location.Group()],
    "InGroup": [location.InGroup(X)],
    "InStretch": [location.InStretch(X, np.sort(rng.uniform(-1, 3, (3, 2))))],
    "OnGrids": [location.OnGrids(X, (0.1, 0.25))],
    "BinOf": [location.BinOf(X, (-1.0, 0.0, 2.0, 3.0))],
}
BOUNDS = {"Stretched": [stage0.Stretched()], "Distance": [stage0.Distance(1.3)]}
EXAMPLES = [
    pytest.param(function, design, id=f"{name} {number}")
    for table, design in ((REGRESSIONS, DESIGN), (LOCATIONS, LOCATED), (BOUNDS, LOCATED))
    for name, several in table.items()
    for number, function in enumerate(several)
]


def row_functions(module):
    """Yield the names of a module's classes whose objects are called with a block of rows."""
    for name, kind in vars(module).items():
        if inspect.isclass(kind) and kind.__module__ == module.__name__ and not getattr(kind, "_is_protocol", False):
            call = kind.__dict__.get("__call__")
            if call is not None and "block" in inspect.signature(call).parameters:
                yield name


def test_every_row_function_has_an_example():
    modules = [
        importlib.import_module(f"privstats.losses.{path.stem}") for path in FILES if path.parent.name == "losses"
    ]
    found = {name for module in (*modules, stage0) for name in row_functions(module)}
    assert found == {*REGRESSIONS, *LOCATIONS, *BOUNDS}


def frame(n):
    chance = np.random.default_rng(n)
    data = pd.DataFrame({"y": chance.uniform(0, 10, n), "x": chance.uniform(-1, 3, n), "z": chance.uniform(2, 5, n)})
    data["g"], data["w"] = chance.choice(["a", "b", "c", "d"], n), chance.uniform(0, 2, n)
    data.loc[::17, "x"], data.loc[1::19, "y"], data.loc[2::23, "z"] = np.nan, 1e308, 2.0
    data.loc[5::11, ["x", "z"]] = [0.25, 3.0]
    return data


DATA = frame(101)
TWICE = np.repeat(np.arange(101), 2)
SHUFFLED = np.random.default_rng(2).permutation(101)
COMPANIES = {"shuffled": SHUFFLED, "duplicated": TWICE, "few": np.array([7, 3]), "reversed": np.arange(101)[::-1]}


def values(function, design, places):
    with np.errstate(all="ignore"):
        return np.asarray(function(design.block(DATA.iloc[places].reset_index(drop=True))))


@pytest.mark.parametrize(("function", "design"), EXAMPLES)
def test_a_row_is_the_same_to_the_last_bit_in_any_company(function, design):
    whole = values(function, design, np.arange(101))
    assert len(whole) == 101
    for places in COMPANIES.values():
        np.testing.assert_array_equal(values(function, design, places), whole[places])
    for one in (0, 5, 40, 100):
        np.testing.assert_array_equal(values(function, design, [one]), whole[[one]])


def test_what_is_computed_once_is_the_same_and_read_only():
    block = DESIGN.block(DATA)
    for function, public in ((rows.product_with, (P,)), (rows.weighted_norms, (P,)), (rows.lowered_weights, (P, 0.8))):
        first = rows.once(block, function, *public)
        assert rows.once(block, function, *public) is first and not first.flags.writeable
        np.testing.assert_array_equal(first, function(DESIGN.block(DATA), *public))
    other = rows.once(block, rows.lowered_weights, P, 0.4)
    np.testing.assert_array_equal(other, rows.lowered_weights(DESIGN.block(DATA), P, 0.4))
    assert (other <= rows.once(block, rows.lowered_weights, P, 0.8)).all() and (other < 0.8).any()


@pytest.mark.parametrize(("function", "design"), EXAMPLES)
def test_a_row_function_keeps_nothing_of_rows(function, design):
    before = set(vars(function))
    values(function, design, np.arange(101))
    cached = {
        name
        for name in dir(type(function))
        if isinstance(inspect.getattr_static(type(function), name), cached_property)
    }
    assert set(vars(function)) - before <= cached
    sizes = [np.size(value) for value in vars(function).values() if isinstance(value, np.ndarray)]
    assert max(sizes, default=0) < 101
