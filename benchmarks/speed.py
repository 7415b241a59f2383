"""The cost of calls relative to a reference computation: ratios of processor time, and peaks of memory.

Each row of the table has a call and a reference: a fit of statsmodels, or a computation that no method can avoid, such
as X'X of the same rows in floating point, `np.partition`, pandas' means by group, or reading a file. The call and the
reference are timed in turn in one process; the smallest time of several rounds counts, because other work on the
machine only adds to it. Some targets are in seconds; peaks of memory are in MB in addition to the rows. A fit first
computes its plan (noise scales and budget shares, from public arguments) and caches the plan. Calls named "first" are
made with empty caches, calls named "remembered" with a cached plan. Rows without a target are for comparison.

The plot shows how times grow with rows, predictors, levels, groups and quantile levels.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m benchmarks.speed --seed 1 [--n 1000000] [--replicates 3]
        [--parquet-rows 2000000] [--only "a part of a title"]

Without pyarrow the Parquet rows are left out.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf
from tabulate import tabulate

import privstats as ps
from benchmarks.common import InMemory, arguments, new_figure, save, verdict
from privstats.formula.design import bind_regression
from privstats.gate.kept import Memory
from privstats.gate.questions import Sum
from privstats.gate.rows import BlockRows
from privstats.gate.sources import Frame
from privstats.losses.base import SquaredLoss
from privstats.losses.rows import Linear, Scores
from privstats.mechanisms.order.rank import draw_ends
from privstats.mechanisms.order.rank_sampler import draw_rank
from privstats.mechanisms.order.ranked import Ranked, RankGrid
from privstats.mechanisms.random import public_stream
from privstats.numerics.memory import keep_what_is_freed
from privstats.numerics.rank_law import Ends
from privstats.privacy.promise import REPLACE_ROW
from privstats.sets.vectors import Ball, Products

Call = Callable[[], object]
CHUNK = 1 << 15  # number of rows in a chunk, for X'X in floating point
LOW, HIGH, STEP = -10.0, 10.0, 20 / 2**24  # bounds and grid step of columns for quantiles
HEADS = ("", "", "times, or unit", "at most")
FILED = {"moments": ("suffstats", 5.0), "steps": ("newton", 15.0)}
FILE_COLUMNS = [f"x{j}" for j in range(1, 6)] + ["y"]
ROW_GROUP = 1 << 20
LONG = 20.0  # calls that take more seconds are timed once
LIMIT = 2e7  # memory limit of some calls, in bytes
MB = 1e6


@dataclass(frozen=True, eq=False)
class Work:
    """A timed call.

    Parameters
    ----------
    name : str
        Name in the table.
    call : callable
        The call.
    before : callable, optional
        A call before each timed call, which is not timed.
    clock : callable
        Function that returns the processor time used so far, in seconds.
    """

    name: str
    call: Call
    before: Call = gc.collect
    clock: Callable[[], float] = time.process_time

    def seconds(self) -> float:
        """Return the processor time of a call, in seconds."""
        self.before()
        start = self.clock()
        self.call()
        return self.clock() - start


@dataclass(frozen=True, eq=False)
class Case:
    """A row of the table before measurement: a call, its reference and its target.

    Parameters
    ----------
    work : Work
        The call.
    beside : Work, optional
        The reference; without a reference, the row is in seconds.
    most : float, optional
        Largest allowed ratio (or seconds); a row without a target is shown for comparison.
    """

    work: Work
    beside: Work | None = None
    most: float | None = None


@dataclass(frozen=True)
class Row:
    """A measured row of the table: name, number, unit and target."""

    name: str
    found: float
    unit: str
    most: float | None

    @property
    def printed(self) -> tuple[str, str, str, str]:
        """The cells of the table row as text."""
        return self.name, f"{self.found:.3g}", self.unit, "" if self.most is None else f"{self.most:g}"

    @property
    def missed(self) -> bool:
        """Whether the number is above its target."""
        return self.most is not None and self.found > self.most


def least(works: Iterable[Work | None], rounds: int) -> dict[Work | None, float]:
    """Return the smallest processor time of each timed call over several rounds, in seconds.

    In a round all calls are made in turn. None, the reference of cases in seconds, has a time of one second. The first
    round is a warm-up and is not counted, except for calls of more than `LONG` seconds, which are made once.
    """
    took: dict[Work | None, float] = {work: 1.0 if work is None else work.seconds() for work in dict.fromkeys(works)}
    short = [work for work, seconds in took.items() if work is not None and seconds <= LONG]
    took |= dict.fromkeys(short, np.inf)
    for _ in range(rounds):
        for work in short:
            took[work] = min(took[work], work.seconds())
    return took


def measured(cases: Sequence[Case], rounds: int) -> list[Row]:
    """Return the rows of the table: the ratio of each case to its reference."""
    took = least([work for case in cases for work in (case.work, case.beside)], rounds)
    found = [(case, took[case.work] / took[case.beside]) for case in cases]
    return [Row(c.work.name, ratio, "s" if c.beside is None else c.beside.name, c.most) for c, ratio in found]


def forget() -> None:
    """Empty all caches of the package, as in a new process."""
    gc.collect()
    for name, module in list(sys.modules.items()):
        if name.startswith("privstats"):
            for one in vars(module).values():
                for each in (one, *(vars(one).values() if isinstance(one, type) else ())):
                    getattr(each, "cache_clear", int)()


# rows, formulas and fits
def rows_of(n: int, d: int, seed: int) -> pd.DataFrame:
    """Return rows of a linear model, with outcomes of a logit and a Poisson model."""
    rng = np.random.default_rng([seed, n, d])
    X = rng.uniform(-1, 1, (n, d))
    eta = X @ np.linspace(-1, 1, d) / max(1.0, (d / 5) ** 0.5)
    data = pd.DataFrame(X, columns=[f"x{j}" for j in range(1, d + 1)])
    b = (rng.uniform(size=n) < 1 / (1 + np.exp(-eta))).astype(float)
    k = np.minimum(rng.poisson(np.exp(eta / 2)), 20).astype(float)
    return data.assign(y=np.clip(eta + rng.standard_normal(n), -6, 6), b=b, k=k)


def right_of(d: int) -> str:
    """Return the right side of a formula with d predictors."""
    return " ~ " + " + ".join(f"x{j}" for j in range(1, d + 1))


def domain_of(d: int) -> dict[str, Any]:
    """Return the bounds of the columns of `rows_of`."""
    return {**{f"x{j}": (-1, 1) for j in range(1, d + 1)}, "y": (-6, 6), "b": bool, "k": (0, 20)}


def verbs(data: pd.DataFrame, d: int) -> dict[str, Callable[..., Any]]:
    """Return functions that fit regressions to the rows `data`, by name; their arguments are added to the call."""
    right, domain = right_of(d), domain_of(d)

    def fit(verb: Callable[..., Any], y: str, **given: Any) -> Callable[..., Any]:
        return partial(verb, y + right, data, domain=domain, **given)

    return {
        "moments": fit(ps.dp_lm, "y", eps=1.0, mech="suffstats"),
        "steps": fit(ps.dp_lm, "y", mu=1.0, mech="newton"),
        "auto": fit(ps.dp_lm, "y", eps=1.0),
        "huber": fit(ps.dp_lm, "y", mu=1.0, loss="huber"),
        "binomial, mu": fit(ps.dp_glm, "b", mu=1.0),
        "binomial, eps": fit(ps.dp_glm, "b", eps=1.0),
        "Poisson, mu": fit(ps.dp_glm, "k", mu=1.0, family="poisson"),
        "rq, 3 taus, mu": fit(ps.dp_rq, "y", mu=1.0, tau=[0.25, 0.5, 0.75]),
        "rq, 3 taus, eps": fit(ps.dp_rq, "y", eps=1.0, tau=[0.25, 0.5, 0.75]),
    }


def column_of(n: int, seed: int) -> np.ndarray:
    """Return an unsorted column of n values, for quantiles."""
    return np.clip(np.random.default_rng([seed, n]).standard_normal(n), LOW, HIGH)


def gram(X: np.ndarray, times: float = 1) -> np.ndarray:
    """Return X'X in floats, in chunks of rows; the rows are repeated `times` times."""
    starts = range(0, int(times * len(X)), CHUNK)
    return sum((X[(some := slice(s % len(X), s % len(X) + CHUNK))].T @ X[some] for s in starts), start=np.zeros(1))


def columns_of(data: pd.DataFrame, d: int) -> np.ndarray:
    """Return the columns (1, predictors, response)."""
    return np.column_stack([np.ones(len(data)), data.iloc[:, :d], data["y"]])


# --- functions that return cases (rows of the table before measurement)
def regressions(n: int, seed: int, d: int = 5) -> list[Case]:
    """Return cases of regressions relative to regressions of statsmodels, and X'X as a lower limit of their time."""
    data, right = rows_of(n, d, seed), right_of(d)
    X, fits = columns_of(data, d), verbs(data, d)
    ols = Work("OLS", lambda: smf.ols("y" + right, data).fit())
    logit = Work("Logit", lambda: smf.logit("b" + right, data).fit(disp=0))
    poisson = Work("sm.GLM", lambda: smf.glm("k" + right, data, family=sm.families.Poisson()).fit())
    median = Work("one QuantReg", lambda: smf.quantreg("y" + right, data).fit(0.5))
    beside = {
        "moments": (ols, 0.4), "steps": (ols, 1.2), "auto": (ols, None), "huber": (ols, 1.3),
        "binomial, mu": (logit, 1.2), "binomial, eps": (logit, 1.3), "Poisson, mu": (poisson, 0.25),
        "rq, 3 taus, mu": (median, 0.3), "rq, 3 taus, eps": (median, 0.5),
    }  # fmt: skip
    cases = [Case(Work(name, fits[name]), *of) for name, of in beside.items()]
    return [*cases, Case(Work("limit: X'X", lambda: gram(X)), ols)]


def passes(n: int, seed: int, d: int = 5) -> list[Case]:
    """Return cases of the first pass over rows in memory and of later passes, relative to X'X.

    The first pass codes the rows in blocks, which later passes read from memory or from a file.
    """
    data = rows_of(n, d, seed)
    X, design = columns_of(data, d), bind_regression("y" + right_of(d), domain_of(d))
    eye, xx = np.eye(design.width), Work("X'X", lambda: gram(X))
    of = {
        "scores": Sum("scores", Scores(SquaredLoss(), eye[:, : d + 1], 0.1 * eye[0]), Ball(d + 1)),
        "products": Sum("products", Linear(eye[:, : d + 1]), Products(d + 1)),
    }

    def rows(limit: float | None = None) -> BlockRows:
        one = BlockRows(Frame(data), design, REPLACE_ROW, b"")
        one.memory = Memory(limit)
        return one

    def again(name: str, limit: float | None, most: float | None) -> list[Case]:
        kept = rows(limit)
        return [Case(Work(f"{name}, {what}", partial(kept.totals, [q])), xx, most) for what, q in of.items()]

    keep_what_is_freed()  # as in a fit, memory of freed blocks is kept for the next blocks
    made = Case(Work("making blocks", lambda: list(rows().blocks())), xx, 3.0)
    written = Case(Work("making and writing them", lambda: list(rows(1).blocks())), xx)
    return [made, written, *again("a later pass", None, 2.5), *again("a later pass from a file", 1, None)]


def calls(n: int, seed: int, d: int = 5) -> list[Case]:
    """Return cases of plans and fits of few rows, relative to least squares, with empty caches or a cached plan."""
    data = rows_of(n, d, seed)
    ols, fits = Work("OLS", lambda: smf.ols("y" + right_of(d), data).fit()), verbs(data, d)
    fits["plan of auto"] = partial(fits["auto"], dry_run=True)
    most = {"plan of auto, first": 4.0, "plan of auto, remembered": 0.5, "plan of moments, d = 100, first": 30.0}
    of_many = partial(verbs(rows_of(100 * n, 100, seed), 100)["moments"], dry_run=True)
    works = [Work("plan of moments, d = 100, first", of_many, forget)]
    for name in ("plan of auto", "moments", "steps", "auto", "binomial, eps", "rq, 3 taus, eps"):
        works += [Work(f"{name}, first", fits[name], forget), Work(f"{name}, remembered", fits[name], fits[name])]
    return [Case(work, ols, most.get(work.name)) for work in works]


def searches(d: int = 5) -> list[Case]:
    """Return cases of searches for a budget or a number of rows, and of expected widths, in seconds, without caches."""
    domain = {**domain_of(d), "z": (0, 10)}
    plans: Mapping[str, tuple[str, str, dict[str, Any]]] = {
        "auto": ("lm", "y" + right_of(d), {"eps": 1.0}),
        "auto, small eps": ("lm", "y" + right_of(d), {"eps": 0.2}),
        "auto, mu": ("lm", "y" + right_of(d), {"mu": 1.0}),
        "auto, delta": ("lm", "y" + right_of(d), {"eps": 1.0, "delta": 1e-6}),
        "binomial": ("glm", "b ~ x1 + x2", {"eps": 2.0}),
        "rq, 3 taus": ("rq", "y ~ x1 + x2", {"eps": 4.0, "tau": [0.25, 0.5, 0.75]}),
        "mean": ("mean", "z", {"eps": 1.0}),
        "3 quantiles": ("quantile", "z", {"eps": 1.0, "q": [0.1, 0.5, 0.9]}),
    }
    cases = []
    for name, (verb, formula, options) in plans.items():
        plan = ps.plan(verb, formula, 10_000, domain=domain, **options)
        width = float(plan.expected()["width"].drop("Intercept", errors="ignore").max())
        cases += [
            Case(Work(f"n_for, {name}", partial(plan.n_for, 0.8 * width), forget), None, 1.0),
            Case(Work(f"budget_for, {name}", partial(plan.budget_for, 1.5 * width), forget), None, 1.0),
        ]
    kng = partial(ps.plan, "rq", "y ~ x1 + x2", 1_000_000, eps=1.0, mech="kng", domain=domain)
    return [*cases, Case(Work("a plan of kng and its forecast, 1e6 rows", lambda: kng().expected(), forget), None, 2.0)]


def wide(n: int, seed: int, d: int) -> list[Case]:
    """Return the case of a fit by noisy moments with many predictors, relative to least squares."""
    data = rows_of(n, d, seed)
    ols = Work("OLS", lambda: smf.ols("y" + right_of(d), data).fit())
    return [Case(Work("moments", verbs(data, d)["moments"]), ols, 1.0)]


def quantiles(n: int, seed: int, orders: int, most: float | None = None, seconds: float | None = None) -> list[Case]:
    """Return cases of quantiles of a column: relative to numpy, and in seconds with empty caches."""
    values, q = column_of(n, seed), np.arange(1, orders + 1) / (orders + 1)
    ask = partial(ps.dp_quantile, "x", pd.DataFrame({"x": values}), 1.0, q=q.tolist(), domain={"x": (LOW, HIGH)})
    beside = Work("np.percentile", lambda: np.percentile(values, 100 * q))
    return [Case(Work("quantiles", ask), beside, most), Case(Work("quantiles, first", ask, forget), None, seconds)]


def medians(n: int, seed: int) -> list[Case]:
    """Return cases of a private median, and of draws of its mechanism alone, relative to `np.partition`."""
    values = column_of(n, seed)
    median = partial(ps.dp_median, "x", pd.DataFrame({"x": values}), 1.0, domain={"x": (LOW, HIGH)})
    beside, chance = Work("np.partition", lambda: np.partition(values, n // 2)), public_stream(seed)
    grid = RankGrid(LOW, HIGH, STEP)

    def draw(size: int) -> Call:
        return lambda: draw_rank(Ranked(InMemory(values), grid), 0.5, 0.5)(chance, size)

    def interval(eps: float, of: np.ndarray) -> Call:
        ends = Ends(eps, 1, (0.5,), "replace", 0.95, False, 1e6)
        return lambda: draw_ends(ends, Ranked(InMemory(of), grid), chance)

    return [
        Case(Work("median", median), beside, 5.0),
        Case(Work("one draw of a median", draw(1)), beside, 5.0),
        Case(Work("10,000 draws of a median", draw(10_000)), beside, 100.0),
        Case(Work("interval of a median", interval(1.0, values)), beside, 5.0),
        Case(Work("the same of equal values, eps = 5", interval(5.0, np.zeros(n))), beside, 100.0),
    ]


def levels(n: int, seed: int, many: int, most: float | None = None, seconds: float | None = None) -> list[Case]:
    """Return the case of a fit by noisy moments with a factor, relative to X'X with its dummy columns.

    X'X is computed from repeated rows. If `seconds` is given, return two cases in seconds instead: the computation of
    the plan, and a fit with a cached plan.
    """
    codes = np.random.default_rng([seed, n, many]).integers(0, many, n)
    names, part = [f"level {k}" for k in range(many)], min(n, CHUNK)
    data = rows_of(n, 1, seed).assign(g=pd.Categorical.from_codes(codes, pd.Index(names)))
    X = np.column_stack([columns_of(data[:part], 1), codes[:part, None] == np.arange(1, many)])
    fit = partial(ps.dp_lm, "y ~ x1 + g", data, 1.0, domain={**domain_of(1), "g": names}, mech="suffstats")
    plan = partial(fit, dry_run=True)
    if seconds is not None:
        return [Case(Work("plan of moments, first", plan, forget)), Case(Work("moments", fit, plan), None, seconds)]
    work = Work("moments", fit)
    return [Case(work, Work("X'X of dense columns", lambda: gram(X, n / part)), most)]


def level_plans(n: int, seed: int, many: int, most: float) -> list[Case]:
    """Return cases of plans for noisy moments with a factor, relative to X'X with its dummy columns."""
    (moments,) = levels(n, seed, many)
    ask: Any = moments.work.call
    plans = [
        Work(f"plan of moments, {kind}", partial(ask.func, *ask.args[:2], **{**ask.keywords, **budget}), forget)
        for kind, budget in {"eps": {"eps": 1.0, "dry_run": True}, "mu": {"mu": 1.0, "dry_run": True}}.items()
    ]
    return [Case(plan, moments.beside, most) for plan in plans]


def groups(n: int, seed: int, many: int, typed: bool = True) -> list[Case]:
    """Return cases of private means and medians by group, relative to means by group in pandas.

    If the group column has texts, the time of means is relative to the time with a categorical column.
    """
    rng = np.random.default_rng([seed, n, many])
    codes, y, names = rng.integers(0, many, n), rng.uniform(0, 1, n), [f"level {k}" for k in range(many)]
    columns = {"category": pd.Series(pd.Categorical.from_codes(codes, pd.Index(names)))}
    if typed:
        texts = np.array([f"level {code}" for code in codes.tolist()], dtype=object)  # each cell is a separate string
        types: dict[str, Any] = {"object": object, "text": "string[python]"}
        types |= {"text in Arrow": "string[pyarrow]"} if find_spec("pyarrow") else {}
        columns |= {name: pd.Series(texts, dtype=dtype) for name, dtype in types.items()}
    frames = {name: pd.DataFrame({"y": y, "g": column}) for name, column in columns.items()}
    domain, frame = {"y": (0, 1), "g": names}, frames["category"]
    pandas = Work("pandas' means", lambda: frame.groupby("g", observed=True)["y"].mean())
    means = {
        name: Work("means" if data is frame else f"means, groups as {name}",
                   partial(ps.dp_mean, "y ~ g", data, 1.0, domain=domain, mech="laplace"))
        for name, data in frames.items()
    }  # fmt: skip
    category = means.pop("category")
    median = Work("medians", partial(ps.dp_median, "y ~ g", frame, 1.0, domain=domain))
    return [
        Case(category, pandas, 5.0),
        Case(median, pandas, 15.0),
        *(Case(mean, category, 2.0) for mean in means.values()),
    ]


def summaries(n: int, seed: int, d: int) -> list[Case]:
    """Return the case of the summary of a fit by noisy moments, relative to the fit."""
    fit, last = verbs(rows_of(n, d, seed), d)["moments"], list[Any]()

    def fitted() -> None:
        last[:] = [fit()]

    return [Case(Work("summary", lambda: last[0].summary(), fitted), Work("its fit", fitted), 0.3)]


def importing() -> list[Case]:
    """Return the case of the import relative to statsmodels' import, each in a new process with compiled modules."""
    compiled = tempfile.TemporaryDirectory()
    variables = {**os.environ, "PYTHONPYCACHEPREFIX": compiled.name}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)

    def clock() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def imported(code: str) -> None:
        assert Path(compiled.name).exists()
        subprocess.run([sys.executable, "-c", code], check=True, env=variables)

    def work(code: str, name: str) -> Work:
        return Work(name, partial(imported, code), clock=clock)

    theirs = "import pandas, scipy.special, statsmodels.api"
    return [Case(work("import privstats", "import"), work(theirs, "statsmodels.api"), 0.45)]


def parquet(path: Path) -> list[Case]:
    """Return cases of fits to a Parquet file, relative to reading the file once and computing X'X in floats."""
    beside = Work("read + X'X", lambda: read(path))
    domain = {name: known for name, known in domain_of(5).items() if name in FILE_COLUMNS}
    fit = partial(ps.dp_lm, "y" + right_of(5), path, mu=1.0, domain=domain)
    cases = [Case(Work(name, partial(fit, mech=mech)), beside, most) for name, (mech, most) in FILED.items()]
    kept = Work("steps, memory_limit=8e9", partial(fit, mech="newton", memory_limit=8e9))
    return [*cases, Case(kept, beside, FILED["steps"][1])]


def scenes(n: int, seed: int) -> dict[str, Callable[[], list[Case]]]:
    """Return the groups of measurements, by title."""
    few = n // 10
    return {
        f"regressions, n = {n:,}, d = 5": partial(regressions, n, seed),
        f"passes, n = {n:,}, d = 5": partial(passes, n, seed),
        "calls, n = 100, d = 5": partial(calls, 100, seed),
        "searches for a width": searches,
        f"regressions, n = {few:,}, d = 100": partial(wide, few, seed, 100),
        f"medians, n = {n:,}": partial(medians, n, seed),
        f"9 quantiles, n = {n:,}": partial(quantiles, n, seed, 9, 10.0),
        f"19 quantiles, n = {n:,}": partial(quantiles, n, seed, 19, 10.0),
        f"99 quantiles, n = {n // 100:,}": partial(quantiles, n // 100, seed, 99, seconds=10.0),
        f"100 levels, n = {n:,}": partial(levels, n, seed, 100, 2.0),
        f"1000 levels, n = {n:,}": partial(levels, n, seed, 1000, seconds=10.0),
        f"100 groups, n = {n:,}": partial(groups, n, seed, 100),
        **{f"summary, n = {few:,}, d = {d}": partial(summaries, few, seed, d) for d in (2, 10, 50)},
        "import": importing,
    }


# peaks of memory
def peaks(n: int, seed: int) -> list[Row]:
    """Return the peak memory of calls in addition to the rows, in MB."""
    fits = verbs(rows_of(n, 5, seed), 5)
    nine, _ = quantiles(n, seed, 9)
    of: Mapping[str, tuple[Call, float]] = {
        "moments": (fits["moments"], 60.0), "steps": (fits["steps"], 70.0),
        "binomial, mu": (fits["binomial, mu"], 150.0), "binomial, eps": (fits["binomial, eps"], 150.0),
        "Poisson, mu": (fits["Poisson, mu"], 150.0), "9 quantiles": (nine.work.call, 70.0),
        f"moments, memory_limit={LIMIT:g}": (partial(fits["moments"], memory_limit=LIMIT), 25.0),
        f"steps, memory_limit={LIMIT:g}": (partial(fits["steps"], memory_limit=LIMIT), 25.0),
    }  # fmt: skip
    return [Row(name, peak(call), "MB", most) for name, (call, most) in of.items()]


def peak(call: Call) -> float:
    """Return the peak memory of a call in MB, at its second run."""
    call()
    gc.collect()
    tracemalloc.start()
    call()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / MB


# fits of a Parquet file
def write(path: Path, n: int, seed: int) -> None:
    """Write rows to a Parquet file, one row group after the other."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.float64()) for name in FILE_COLUMNS])
    with pq.ParquetWriter(path, schema) as file:
        for start in range(0, n, ROW_GROUP):
            rows = rows_of(min(ROW_GROUP, n - start), 5, seed + start)
            file.write_table(pa.Table.from_pandas(rows[FILE_COLUMNS], schema, preserve_index=False))


def read(path: Path) -> np.ndarray:
    """Return X'X of a file, in floats, read batch by batch."""
    import pyarrow.parquet as pq

    # by default, pyarrow reads the whole file ahead, into memory that the system may have to clear at each call
    batches = pq.ParquetFile(path, buffer_size=1 << 18, pre_buffer=False).iter_batches(1 << 16, use_threads=False)
    return sum((gram(np.column_stack([c.to_numpy() for c in batch.columns])) for batch in batches), np.zeros(1))


def held() -> float:
    """Return the peak memory of this process in MB. On Linux, memory of the parent process is not counted."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MB


def filed(path: Path, rounds: int) -> list[Row]:
    """Return the table rows about a Parquet file, and the peak memory of the fits above the memory at the start.

    The function runs in a separate process. The fits are run before the reference, because reading the file for the
    reference would raise the peak memory.
    """
    cases, start = parquet(path), held()
    for case in cases[: len(FILED)]:
        case.work.call()
    peak_of_both = Row("peak of both", held() - start, "MB", 100.0)
    return [*measured(cases, rounds), peak_of_both]


def of_parquet(n: int, seed: int, rounds: int) -> list[Row]:
    """Return the table rows about fits to a Parquet file; an empty list if pyarrow is missing."""
    if not n or not find_spec("pyarrow"):
        return []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        for work in (partial(write, path, n, seed), partial(filed, path, rounds)):
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
                found = other.submit(work).result()
    return found or []


# processor times by the number of rows, predictors, levels, groups and quantile levels
def growth(n: int, seed: int, rounds: int) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """Return pairs of a size and seconds of processor time, by growing quantity and by timed call."""
    few = n // 10
    panels: dict[str, tuple[Sequence[int], Callable[[int], list[Case]]]] = {
        "rows (d = 5)": ((n // 100, few, n), lambda rows: [*regressions(rows, seed)[:3], *medians(rows, seed)[:1]]),
        f"predictors (n = {few:,})": ((2, 10, 30, 100), lambda d: regressions(few, seed, d)[:2]),
        f"levels (n = {few:,})": ((10, 30, 100), lambda many: levels(few, seed, many)),
        f"groups (n = {n:,})": ((10, 100, 1000), lambda many: groups(n, seed, many, typed=False)),
        f"orders (n = {n:,})": ((1, 3, 9, 19), lambda orders: quantiles(n, seed, orders)[:1]),
    }
    found: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for panel, (sizes, of) in panels.items():
        lines = found[panel] = {}
        for size in sizes:
            cases = of(size)
            for work, seconds in least([w for c in cases for w in (c.work, c.beside)], rounds).items():
                if work is not None:
                    lines.setdefault(work.name, []).append((size, seconds))
    return found


def drawn(found: Mapping[str, Mapping[str, Sequence[tuple[int, float]]]], path: Path) -> None:
    """Draw processor times against sizes, with a panel for each growing quantity."""
    figure, axes = new_figure(len(found), share_y=False)
    for ax, (panel, lines) in zip(axes, found.items(), strict=True):
        for name, points in lines.items():
            ax.loglog(*zip(*points, strict=True), marker="o", label=name)
        ax.set_xlabel(panel)
        ax.legend(fontsize="small")
    axes[0].set_ylabel("seconds of processor time")
    save(figure, path)


def main() -> int:
    """Print the table, draw the plot, and return whether a target is missed."""
    parser = arguments(__doc__, replicates=3, figure="speed")
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--parquet-rows", type=int, default=2_000_000)
    parser.add_argument("--only", default="", help="a part of a title: nothing else is measured, nothing drawn")
    options = parser.parse_args()
    n, seed, rounds = options.n, options.seed, options.replicates
    titled: dict[str, Callable[[], list[Row]]] = {
        title: lambda cases=cases: measured(cases(), rounds)  # type: ignore[misc]
        for title, cases in scenes(n, seed).items()
    }
    titled[f"peak above the rows, n = {n:,}"] = partial(peaks, n, seed)
    titled[f"Parquet, {options.parquet_rows:,} rows"] = partial(of_parquet, options.parquet_rows, seed, rounds)
    missed = []
    for title, rows_of_title in titled.items():
        if options.only in title:
            rows = rows_of_title()
            print(f"\n{title}")
            print(tabulate([row.printed for row in rows], HEADS, disable_numparse=True), flush=True)
            missed += [f"{title}: {row.name}" for row in rows if row.missed]
    if not options.only:
        drawn(growth(n, seed, max(1, rounds // 2)), options.plot)
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
