"""The effect of each constant of `privstats.estimators`: coverage and length with the constant halved and doubled.

Five designs are linear regressions by noisy Newton steps: uniform predictors, a response with a concave mean given a
skewed predictor, t errors with three degrees of freedom, a predictor whose values fill four per cent of its bounds and
the square of this predictor, and a factor with a level in 1 % of the rows. The last two are also fitted by objective
perturbation under eps, and the first also under eps with mech="auto". Further designs are a logit with 8 % of ones
under mu and under eps, a Poisson regression under mu, and median regressions with errors that grow with a predictor,
under mu and under eps. The script prints a line for each constant: its meaning, and with the constant halved and
doubled the lowest coverage over designs and coefficients, the length relative to intervals without privacy (mean over
designs of medians), and the share of intervals not given. The first line has these numbers for unchanged constants. The
only target is a lowest coverage, with unchanged constants, of at least .93 up to three binomial standard errors. With
``--write METHODS.md`` each line is written to the table in this page as soon as the line is computed.

    python -m benchmarks.constants --seed 1 [--replicates 20] [--names VISIBLE MOVE] [--write METHODS.md]
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

import privstats as ps
from benchmarks.common import arguments
from benchmarks.populations import Population, plain, reference, skewed, student
from privstats.estimators import constants
from privstats.inference import estimate
from privstats.workflow import plan

N = 4000
WHOLE = 100_000
HEAD = "| constant | value | halved | doubled | meaning |\n|---|---|---|---|---|\n"
Design = tuple[Population, pd.DataFrame, dict[str, Any]]  # model, rows, and further arguments of a fit


def uniform(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return rows of four predictors that are uniform within their bounds, and a response."""
    X = rng.uniform(-1, 1, (n, 4))
    return pd.DataFrame(X, columns=list("abcd")).assign(y=X @ [1.0, -0.5, 0.5, 0.0] + rng.normal(size=n))


def narrow(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return rows of a predictor that fills four per cent of its bounds, and a response with a quadratic mean."""
    x = rng.uniform(48, 52, n)
    return pd.DataFrame({"x": x, "y": 0.5 * (x - 50) ** 2 + rng.normal(size=n)})


def rare(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return rows of a predictor, a response and a factor with three levels; one level has 1 % of the rows."""
    g = rng.choice(3, n, p=[0.6, 0.39, 0.01])
    x = rng.uniform(-1, 1, n)
    return pd.DataFrame({"g": np.array(list("abc"))[g], "x": x, "y": x + 0.3 * g + rng.normal(size=n)})


def outcomes(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return rows of four predictors, a binary outcome with 8 % of ones, a count, and a heteroskedastic response."""
    X = rng.uniform(-1, 1, (n, 4))
    eta = X @ [1.0, -0.5, 0.5, 0.0]
    made = {
        "b": (rng.uniform(size=n) < expit(eta - 2.6)) * 1.0,
        "k": np.minimum(rng.poisson(np.exp(eta + 0.7)), 60) * 1.0,
        "y": np.clip(eta + (1 + 0.8 * X[:, 0]) * rng.normal(size=n), -10, 10),
    }
    return pd.DataFrame(X, columns=["x1", "x2", "x3", "x4"]).assign(**made)


def designs() -> Iterator[Design]:
    """Yield the model, the rows and further arguments of each fit."""
    rng = np.random.default_rng(0)
    box = {**dict.fromkeys("abcd", (-1, 1)), "y": (-6, 6)}
    flat = uniform(rng, WHOLE)
    yield lm("y ~ a + b + c + d", box), flat, {"mu": 1.0, "mech": "newton"}
    yield lm("y ~ a + b + c + d", box), flat, {"eps": 2.0}
    yield lm("y ~ x", {"x": (0, 15), "y": (8, 16)}), skewed(rng, WHOLE), {"mu": 1.0, "mech": "newton"}
    bounds = {**dict.fromkeys(("x1", "x2", "x3"), (-1, 1)), "y": (-8, 8)}
    yield lm("y ~ x1 + x2 + x3", bounds), student(rng, WHOLE), {"eps": 4.0, "mech": "newton"}
    yield lm("y ~ x + I(x**2)", {"x": (0, 100), "y": (-10, 20)}), narrow(rng, WHOLE), {"mu": 1.0, "mech": "newton"}
    levels = {"x": (-1, 1), "g": list("abc"), "y": (-8, 8)}
    yield lm("y ~ x + C(g)", levels), rare(rng, WHOLE), {"mu": 2.0, "mech": "newton"}
    square = {"x": (0, 100), "y": (-10, 20)}
    yield lm("y ~ x + I(x**2)", square), narrow(np.random.default_rng(1), WHOLE), {"eps": 4.0, "mech": "objpert"}
    yield lm("y ~ x + C(g)", levels), rare(np.random.default_rng(2), WHOLE), {"eps": 4.0, "mech": "objpert"}
    rows, bounds = outcomes(rng, WHOLE), dict.fromkeys(("x1", "x2", "x3", "x4"), (-2, 2))
    logit = Population(outcomes, "dp_glm", "b ~ x1 + x2 + x3 + x4", {**bounds, "b": (0, 1)})
    count = Population(outcomes, "dp_glm", "k ~ x1 + x2 + x3 + x4", {**bounds, "k": (0, 60)}, {"family": "poisson"})
    median = Population(outcomes, "dp_rq", "y ~ x1 + x2 + x3 + x4", {**bounds, "y": (-10, 10)}, {"tau": 0.5})
    yield from ((logit, rows, {"mu": 1.0}), (logit, rows, {"eps": 8.0}), (count, rows, {"mu": 1.0}))
    yield from ((median, rows, {"mu": 1.0}), (median, rows, {"eps": 4.0}))


def lm(formula: str, domain: dict[str, Any]) -> Population:
    """Return a least-squares regression with this formula and domain."""
    return Population("", "dp_lm", formula, domain)


def measured(designs: Sequence[Design], replicates: int, seed: int) -> tuple[float, float, float]:
    """Return the lowest coverage, the length relative to no privacy, and the share of intervals not given."""
    least, lengths, given = 1.0, [], []
    for what, whole, promise in designs:
        truth = plain(reference(what, whole).params)
        verb, covered, ratios = getattr(ps, what.verb), [], []
        for r in range(replicates):
            sample = whole.iloc[np.random.default_rng([seed, r]).integers(0, len(whole), N)].reset_index(drop=True)
            public = plain(reference(what, sample).bse)
            fit = verb(what.formula, sample, domain=dict(what.domain), rng=1000 * seed + r, **what.options, **promise)
            interval = fit.conf_int()
            interval.index = [key[0] if isinstance(key, tuple) else key for key in interval.index]
            low, high = (interval.iloc[:, k].reindex(truth.index) for k in (0, 1))
            covered.append(((low <= truth) & (truth <= high)).astype(float).where(low.notna()))
            ratios += list((high - low) / (3.92 * public))
            given += list(low.notna())
        least = min(least, float(pd.DataFrame(covered).mean().min()))
        lengths.append(np.nanmedian(ratios))
    return least, float(np.mean(lengths)), 1 - float(np.mean(given))


def table() -> dict[str, str]:
    """Return the meaning of each constant, from the comments in `privstats/estimators/constants.py`."""
    meanings = {}
    for line in Path(str(constants.__file__)).read_text().splitlines():
        found = re.match(r"^([A-Z][A-Z_]*(?:, [A-Z_]+)*) = [^#]+# (.+)$", line)
        if found:
            meanings.update(dict.fromkeys(found.group(1).split(", "), found.group(2)))
    return meanings


@contextmanager
def replaced(others: Mapping[str, Any]) -> Iterator[None]:
    """Replace constants in all modules that import them, within a context; `others` maps names to new values.

    The constants are defined in the modules `constants` and `inference.estimate`.
    """
    old = {name: getattr(constants if hasattr(constants, name) else estimate, name) for name in others}
    modules = [(m, name) for name in others for m in _users(name, old[name])]
    for module, name in modules:
        setattr(module, name, others[name])
    plan.forget()
    try:
        yield
    finally:
        for module, name in modules:
            setattr(module, name, old[name])
        plan.forget()


def scaled(name: str, factor: float) -> AbstractContextManager[None]:
    """Multiply a constant by a factor in all modules that import it, within a context."""
    value = getattr(constants, name)
    other: Any
    if isinstance(value, dict):
        other = {k: v * factor for k, v in value.items()}
    elif isinstance(value, tuple):
        other = tuple(v * factor for v in value)
    else:
        other = type(value)(value * factor)
    return replaced({name: other})


def _users(name: str, value: Any) -> list[ModuleType]:
    return [
        m
        for key, m in sys.modules.items()
        if key.startswith(("privstats.estimators", "privstats.inference")) and _has(m, name, value)
    ]


def _has(module: ModuleType, name: str, value: Any) -> bool:
    return getattr(module, name, None) is value or (
        not isinstance(value, dict) and name in vars(module) and vars(module)[name] == value
    )


def spelled(value: Any) -> str:
    """Return a constant as text for the table: the values of a dict or a tuple in one line."""
    values = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else [value]
    return ", ".join(f"{one:g}" for one in values)


def line(name: str, halved: str, doubled: str) -> str:
    """Return the line of a constant in the table of METHODS.md, with the results `halved` and `doubled` as texts."""
    meaning = table()[name].replace("|", r"\|")
    return f"| `{name}` | {spelled(getattr(constants, name))} | {halved} | {doubled} | {meaning} |"


def lines_of(page: str) -> dict[str, str]:
    """Return the lines of the table in a page, by constant."""
    return {found[1]: found[0] for found in re.finditer(r"^\| `([A-Z][A-Z_]*)` \|.*$", page, re.MULTILINE)}


def written(page: str, name: str, new: str) -> str:
    """Return the page with a new line for one constant; lines are in the order in which constants are defined."""
    known = {**lines_of(page), name: new}
    head, body = page.split(HEAD)
    rest = body[sum(len(old) + 1 for old in lines_of(page).values()) :]
    return head + HEAD + "".join(f"{known[one]}\n" for one in table() if one in known) + rest


def main() -> int:
    """Print the table; return 1 if the lowest coverage with unchanged constants misses the target."""
    meanings = table()
    parser = arguments(__doc__, replicates=20)
    parser.add_argument("--names", nargs="*", default=list(meanings), choices=list(meanings))
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    cells = list(designs())
    plain = measured(cells, given.replicates, given.seed)
    print("as they are: least coverage {:.2f}, length {:.2f}, not given {:.2f}".format(*plain), flush=True)
    for name in given.names:
        found = []
        for factor in (0.5, 2.0):
            with scaled(name, factor):
                try:
                    found.append("{:.2f} {:.2f} {:.2f}".format(*measured(cells, given.replicates, given.seed)))
                except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
                    found.append(type(error).__name__)
        new = line(name, *found)
        print(new, flush=True)
        if given.write:
            given.write.write_text(written(given.write.read_text(), name, new))
    return int(plain[0] < 0.93 - 3 * (0.93 * 0.07 / given.replicates) ** 0.5)


if __name__ == "__main__":
    sys.exit(main())
