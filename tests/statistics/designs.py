"""Data for tests of coverage: predictors U(-1, 1), intercept .5, slopes from -1 to 1, errors N(0, 1)."""

import numpy as np
import pandas as pd

import privstats as ps

PURE = ("matrixt", "hull", "linf", "l1", "l2")


def design_6_1(n, seed, p=5):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, p))
    data = pd.DataFrame(X, columns=[f"x{j + 1}" for j in range(p)])
    data["y"] = 0.5 + X @ np.linspace(-1, 1, p) + rng.standard_normal(n)
    return data


def domain_6_1(p=5, **kwargs):
    return ps.Domain({**{f"x{j + 1}": (-1, 1) for j in range(p)}, "y": (-6, 6)}, **kwargs)


def formula_6_1(p=5):
    return "y ~ " + " + ".join(f"x{j + 1}" for j in range(p))
