"""What each constant of the adaptive engine does: coverage and length with the constant halved and doubled.

Six designs that pull in different directions (uniform predictors, under mu and under eps; a concave mean of a skewed
predictor; errors of three degrees of freedom; a predictor in two per cent of its bounds with its square; a level of 1 %
of the rows), all by Newton steps but one, where the choice is free. A line is printed for each constant: its meaning,
the least coverage over designs and coefficients, and the median length over that of the intervals without privacy,
each as it is, halved and doubled. Nothing has to be reached by other values; with the constants as they are, the least
coverage of a coefficient must not lie more than three binomial standard errors below .93.

    python -m benchmarks.constants --seed 1 [--replicates 20] [--names FEW MOVE]
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf

import privstats as ps
from benchmarks.common import arguments
from benchmarks.populations import skewed, student
from privstats.estimators import constants

N = 4000
WHOLE = 100_000
Design = tuple[str, pd.DataFrame, dict[str, Any], dict[str, Any]]  # formula, population, domain, options


def uniform(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return rows of four predictors that fill their bounds."""
    X = rng.uniform(-1, 1, (n, 4))
    return pd.DataFrame(X, columns=list("abcd")).assign(y=X @ [1.0, -0.5, 0.5, 0.0] + rng.normal(size=n))


def narrow(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return rows of a predictor in two per cent of its bounds, whose mean is curved."""
    x = rng.uniform(48, 52, n)
    return pd.DataFrame({"x": x, "y": 0.5 * (x - 50) ** 2 + rng.normal(size=n)})


def rare(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return rows of three levels, of which one has 1 % of the rows."""
    g = rng.choice(3, n, p=[0.6, 0.39, 0.01])
    x = rng.uniform(-1, 1, n)
    return pd.DataFrame({"g": np.array(list("abc"))[g], "x": x, "y": x + 0.3 * g + rng.normal(size=n)})


def designs() -> Iterator[Design]:
    """Yield the designs."""
    rng = np.random.default_rng(0)
    box = {**dict.fromkeys("abcd", (-1, 1)), "y": (-6, 6)}
    flat = uniform(rng, WHOLE)
    yield "y ~ a + b + c + d", flat, box, {"mu": 1.0, "mech": "newton"}
    yield "y ~ a + b + c + d", flat, box, {"eps": 2.0}
    yield "y ~ x", skewed(rng, WHOLE), {"x": (0, 15), "y": (8, 16)}, {"mu": 1.0, "mech": "newton"}
    bounds = {**dict.fromkeys(("x1", "x2", "x3"), (-1, 1)), "y": (-8, 8)}
    yield "y ~ x1 + x2 + x3", student(rng, WHOLE), bounds, {"eps": 4.0, "mech": "newton"}
    yield "y ~ x + I(x**2)", narrow(rng, WHOLE), {"x": (0, 100), "y": (-10, 20)}, {"mu": 1.0, "mech": "newton"}
    yield (
        "y ~ x + C(g)",
        rare(rng, WHOLE),
        {"x": (-1, 1), "g": list("abc"), "y": (-8, 8)},
        {"mu": 2.0, "mech": "newton"},
    )


def measured(designs: Sequence[Design], replicates: int, seed: int) -> tuple[float, float, float]:
    """Return the least coverage, the median length over that without privacy, and the share of intervals not given."""
    least, lengths, given = 1.0, [], []
    for formula, whole, domain, options in designs:
        truth = smf.ols(formula, whole).fit().params
        covered = []
        for r in range(replicates):
            sample = whole.iloc[np.random.default_rng([seed, r]).integers(0, len(whole), N)].reset_index(drop=True)
            public = smf.ols(formula, sample).fit(cov_type="HC1")
            interval = ps.dp_lm(formula, sample, domain=domain, rng=1000 * seed + r, **options).conf_int()
            low, high = (interval.iloc[:, k].reindex(truth.index) for k in (0, 1))
            covered.append(((low <= truth) & (truth <= high)).astype(float).where(low.notna()))
            lengths += list((high - low) / (3.92 * public.bse))
            given += list(low.notna())
        least = min(least, float(pd.DataFrame(covered).mean().min()))
    return least, float(np.nanmedian(lengths)), 1 - float(np.mean(given))


def table() -> dict[str, str]:
    """Return the meaning of each constant, from the comments of the table."""
    meanings = {}
    for line in Path(str(constants.__file__)).read_text().splitlines():
        found = re.match(r"^([A-Z][A-Z_]*(?:, [A-Z_]+)*) = [^#]+# (.+)$", line)
        if found:
            meanings.update(dict.fromkeys(found.group(1).split(", "), found.group(2)))
    return meanings


@contextmanager
def scaled(name: str, factor: float) -> Iterator[None]:
    """Multiply a constant, wherever it was imported."""
    value = getattr(constants, name)
    other = {k: v * factor for k, v in value.items()} if isinstance(value, dict) else type(value)(value * factor)
    modules = [m for key, m in sys.modules.items() if key.startswith("privstats.estimators") and _has(m, name, value)]
    for module in modules:
        setattr(module, name, other)
    try:
        yield
    finally:
        for module in modules:
            setattr(module, name, value)


def _has(module: ModuleType, name: str, value: Any) -> bool:
    return getattr(module, name, None) is value or (
        not isinstance(value, dict) and name in vars(module) and vars(module)[name] == value
    )


def main() -> int:
    """Print the table; return 1 if intervals with the constants as they are cover too rarely."""
    meanings = table()
    parser = arguments(__doc__, replicates=20)
    parser.add_argument("--names", nargs="*", default=list(meanings), choices=list(meanings))
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
        print(f"{name:24} halved {found[0]:16} doubled {found[1]:16} {meanings[name]}", flush=True)
    return int(plain[0] < 0.93 - 3 * (0.93 * 0.07 / given.replicates) ** 0.5)


if __name__ == "__main__":
    sys.exit(main())
