"""Small and fast calls of every kind, for tests of workflows."""

import numpy as np
import pandas as pd

import privstats as ps

N = 400
DOMAIN = {"y": (-5, 10), "x": (-1, 1), "z": (0, 4), "g": ["a", "b"], "w": (0, 2)}


def frame(n=N, seed=0):
    """Return rows of a regression."""
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(-1, 1, n), rng.uniform(0, 4, n)
    y = 2 + 3 * x + rng.normal(0, 1, n)
    group = rng.choice(["a", "b"], n)
    return pd.DataFrame({"y": y, "x": x, "z": z, "g": group, "w": rng.uniform(0.5, 2, n), "id": np.arange(n) // 2})


LM = {"formula": "y ~ x", "eps": 1.0, "mech": "suffstats", "domain": DOMAIN}
MEAN = {"formula": "y", "eps": 1.0, "domain": DOMAIN}


def planned(verb="lm", n=N, **change):
    """Return a plan of the default call, with some arguments changed."""
    call = {**(LM if verb == "lm" else MEAN), **change}
    return ps.plan(verb, n=n, **call)


def fitted(verb="lm", data=None, **change):
    """Return a fit of the default call, with some arguments changed."""
    call = {**(LM if verb == "lm" else MEAN), **change}
    return getattr(ps, f"dp_{verb}")(data=frame() if data is None else data, **call)
