"""Formulas of every kind, on one domain, and rows for them."""

import numpy as np
import pandas as pd

from privstats.formula.domain import Domain

LEVELS = {"g": ["b", "a", "c"], "k": [1, 2]}
DOMAIN = Domain({"y": (1, 20), "x": (-1, 3), "z": (2, 5), **LEVELS}, complete=True)
INCOMPLETE = Domain(dict(DOMAIN))
EXACT = [
    "y ~ x",
    "y ~ C(g) + x",
    "y ~ g * x",
    "y ~ C(g, Treatment('a')) * C(k) + z",
    "y ~ 0 + x + z",
    "y ~ 0 + g + x",
    "y ~ x:z - 1",
    "y ~ (x + z) ** 2",
    "y ~ 1",
    "y ~ C(k, Treatment(reference=2))",
    "y ~ g * k",
    "y ~ k + k:g",
    "y ~ k / g",
    "y ~ 0 + k:g",
    "y ~ x * k * g",
    "y ~ x:g:k + z:k:g",
    "y ~ C(g, Sum) * x",
    "y ~ C(g, Sum('a')) + C(k, Sum)",
    "y ~ C(g, Helmert)",
    "y ~ C(g, Poly) + C(g, Poly):z",
    "y ~ C(g, Diff)",
    "y ~ 0 + C(g, Helmert) * z",
    "Q('y') ~ Q('x') + Q('g')",
]
COMPUTED = [
    "np.log(y) ~ x + z",
    "y ~ x * z + I(x ** 2) + np.sqrt(z)",
    "y ~ x + np.power(x, 3) + np.square(x) + I(z * z) + np.power(z, -0.5)",
    "I(y / z) ~ x",
    "y ~ np.where(x > 0, x, 0) + np.clip(z, 3, 4)",
    "y ~ I(1 * ((x > 0) & (z <= 4))) + np.maximum(x, z) - 1",
    "y ~ bs(x, knots=[0, 1], lower_bound=-1, upper_bound=3)",
    "y ~ bs(x, knots=[0.5], degree=2, lower_bound=-1, upper_bound=3) * g",
    "y ~ cr(x, knots=[0, 1, 2], lower_bound=-1, upper_bound=3) - 1",
    "y ~ cc(z, knots=[3, 4], lower_bound=2, upper_bound=5) - 1",
]
OURS = ["y ~ poly(x, 3) * g + z", "y ~ I(x > 0) * g + x:I(z > 3)", "y ~ 0 + I(x > 0) + k", "y ~ I(k == 1) + g:x"]
FORMULAS = EXACT + COMPUTED
ODD = [-1e300, 1e300, np.inf, -np.inf, np.nan, 0, "a", None, 2.5, [1], {"a": 1}, "zz", 1j, b"1", pd.NaT]


def frame(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "y": rng.uniform(1, 20, n),
            "x": rng.uniform(-1, 3, n),
            "z": rng.uniform(2, 5, n),
            "g": rng.choice(list("bac"), n),
            "k": rng.choice([1, 2], n),
        }
    )


def odd_frame(n=200, seed=3):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {name: pd.Series([ODD[k] for k in rng.integers(0, len(ODD), n)], dtype=object) for name in "yxzgk"}
    )


def all_columns(block):
    """Return the scaled columns of a block of rows: predictors, offset and response, with entries in [-1, 1]."""
    return block.times(np.eye(block.layout.width))
