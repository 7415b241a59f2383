"""About ninety seeded calls over all functions and mechanisms, and their recorded results.

The results are estimates, standard errors, intervals, releases, and variances of the noise.

Changes of the code that should not change numbers are checked against `golden.json`:

    python -m tests.golden.calls --compare     # prints the calls that differ, and by how much
    python -m tests.golden.calls --write       # records the present results; say why in the commit
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import privstats as ps

FILE = Path(__file__).with_name("golden.json")
N = 600
RNG = np.random.default_rng(20261123)
X, Z = RNG.uniform(0, 10, (2, N))
G = np.array(["a", "b", "c"])[RNG.choice(3, N, p=[0.5, 0.3, 0.2])]
ETA = -1 + 0.3 * X + 0.5 * (G == "b")
DATA = pd.DataFrame(
    {
        "x": X,
        "z": Z,
        "g": G,
        "y": (0.5 * X - 0.2 * Z + RNG.normal(0, 1, N)).clip(-5, 10),
        "b": (RNG.uniform(size=N) < 1 / (1 + np.exp(-ETA))) * 1.0,
        "k": RNG.poisson(np.exp(0.2 * X)).clip(0, 40) * 1.0,
        "s": (RNG.gamma(2.0, np.exp(0.1 * X) / 2)).clip(0, 30),
        "w": RNG.uniform(0, 2, N),
        "id": np.arange(N) % 250,
    }
)
HOLES = DATA.assign(x=DATA["x"].where(RNG.uniform(size=N) > 0.1), g=DATA["g"].where(RNG.uniform(size=N) > 0.05))
MANY = 4000  # number of rows in calls of the regression engine
MORE = np.random.default_rng(20261124)
X, Z = MORE.uniform(0, 10, (2, MANY))
G = np.array(["a", "b", "c"])[MORE.choice(3, MANY, p=[0.5, 0.3, 0.2])]
ETA = -1 + 0.3 * X + 0.5 * (G == "b")
ROWS = pd.DataFrame(
    {
        "x": X,
        "z": Z,
        "g": G,
        "y": (0.5 * X - 0.2 * Z + 0.5 * (G == "c") + (0.5 + 0.1 * X) * MORE.standard_t(5, MANY)).clip(-5, 10),
        "b": (MORE.uniform(size=MANY) < 1 / (1 + np.exp(-ETA))) * 1.0,
        "k": MORE.poisson(np.exp(0.2 * X)).clip(0, 40) * 1.0,
        "s": (MORE.gamma(2.0, np.exp(0.1 * X) / 2)).clip(0, 30),
        "id": np.arange(MANY) % 1600,
        "h": np.array(["p", "q", "r", "t"])[MORE.choice(4, MANY, p=[0.6, 0.35, 0.04, 0.01])],
    }
)
BOUNDS = {
    "x": (0, 10),
    "z": (0, 10),
    "g": ["a", "b", "c"],
    "y": (-5, 10),
    "b": (0, 1),
    "k": (0, 40),
    "s": (0, 30),
    "w": (0, 2),
}
DOMAIN, WHOLE = ps.Domain(BOUNDS), ps.Domain(BOUNDS, complete=True)
ORDERED, FAILS = ("rank", "aq", "duff", "smoothsens", "kng"), {"eps": 4.0, "delta": 1e-6}
PURE = ("matrixt", "hull", "linf", "l1", "l2")
MAIN = {"data": ROWS, "domain": ps.Domain({**{name: BOUNDS[name] for name in "xzgybks"}, "h": list("pqrt")})}
STEPS, HUBER = {**MAIN, "mech": "newton"}, {**MAIN, "loss": "huber"}

CALLS = {
    **{f"lm {noise}": ("lm", "y ~ x + z", {"eps": 4.0, "mech": "suffstats", "noise": noise}) for noise in PURE},
    "lm suffstats gaussian": ("lm", "y ~ x + z", {"mu": 2.0, "mech": "suffstats"}),
    "lm factor": ("lm", "y ~ x + C(g)", {"eps": 8.0, "mech": "suffstats"}),
    "lm five levels": ("lm", "y ~ x * C(g)", {"eps": 20.0, "mech": "suffstats", "noise": "l1"}),
    "lm complete": ("lm", "y ~ x + z", {"eps": 4.0, "mech": "suffstats", "domain": WHOLE}),
    "lm complete with holes": ("lm", "y ~ x + z", {"eps": 4.0, "mech": "suffstats", "domain": WHOLE, "data": HOLES}),
    "lm holes": ("lm", "y ~ x + C(g)", {"eps": 8.0, "mech": "suffstats", "data": HOLES}),
    "lm no intercept": ("lm", "y ~ 0 + x + z", {"eps": 8.0, "mech": "suffstats"}),
    "lm subset": ("lm", "y ~ x + z", {"eps": 8.0, "mech": "suffstats", "subset": "g == 'a'"}),
    "lm weights": ("lm", "y ~ x", {"eps": 8.0, "mech": "suffstats", "weights": "w"}),
    "lm HC": ("lm", "y ~ x", {"eps": 8.0, "mech": "suffstats", "cov_type": "HC"}),
    "lm nonrobust": ("lm", "y ~ x", {"eps": 8.0, "mech": "suffstats", "cov_type": "nonrobust"}),
    "lm add_remove": ("lm", "y ~ x", {"eps": 8.0, "mech": "suffstats", "neighbors": "add_remove"}),
    "lm unit": ("lm", "y ~ x", {"eps": 8.0, "mech": "suffstats", "unit": "id"}),
    "lm units of three": ("lm", "y ~ x", {"eps": 8.0, "mech": "suffstats", "unit": "id", "rows_per_unit": 3}),
    "lm delta": ("lm", "y ~ x", {"eps": 2.0, "delta": 1e-6, "mech": "suffstats"}),
    "lm functions": ("lm", "np.log1p(s) ~ np.sqrt(x) + I(z > 5) + poly(z, 2)", {"eps": 20.0, "mech": "suffstats"}),
    "lm splines": ("lm", "y ~ bs(x, knots=[3, 6])", {"eps": 20.0, "mech": "suffstats"}),
    "lm bounds": ("lm", "y ~ x", {"eps": 200.0, "mech": "suffstats", "domain": {"y": (-5, 10)}}),
    "lm none": ("lm", "y ~ x + z", {"eps": 2.0, "mech": "suffstats", "inference": "none"}),
    "lm kng": ("lm", "y ~ x", {"eps": 8.0, "mech": "kng", "theta_bound": 3.0}),
    "lm expmech": ("lm", "y ~ x", {"eps": 8.0, "mech": "expmech"}),
    "lm objpert": ("lm", "y ~ x + z", {"eps": 8.0, "mech": "objpert", "split": 0.8}),
    "glm objpert": ("glm", "b ~ x + C(g)", {"eps": 8.0}),
    "glm objpert units": ("glm", "b ~ x", {"eps": 8.0, "unit": "id", "rows_per_unit": 3}),
    "glm objpert HC": ("glm", "b ~ x", {"eps": 8.0, "cov_type": "HC"}),
    "glm margins": ("glm", "b ~ x + C(g)", {"eps": 12.0, "margins": True}),
    "glm poisson": ("glm", "k ~ x", {"eps": 8.0, "family": "poisson"}),
    "glm offset": ("glm", "b ~ x", {"eps": 8.0, "offset": "z / 10"}),
    "rq kng": ("rq", "y ~ x", {"eps": 8.0, "mech": "kng"}),
    "rq taus": ("rq", "y ~ x", {"eps": 12.0, "tau": [0.25, 0.5], "mech": "kng"}),
    "rq expmech": ("rq", "y ~ x", {"eps": 8.0, "mech": "expmech"}),
    **{f"median {mech}": ("median", "x", {"eps": 4.0, "mech": mech}) for mech in ORDERED},
    "median ptr": ("median", "x", {**FAILS, "mech": "ptr", "eta": 1.0}),
    "median groups": ("median", "x ~ g", {"eps": 4.0}),
    "median columns": ("median", "x + z", {"eps": 8.0}),
    "median geometric": ("median", "x + z", {"eps": 8.0, "geometric": True}),
    "median mu": ("median", "x", {"mu": 2.0}),
    "median add_remove": ("median", "x", {"eps": 4.0, "neighbors": "add_remove"}),
    "median grid": ("median", "k", {"eps": 4.0, "grid": 1}),
    "median holes": ("median", "x", {"eps": 4.0, "data": HOLES}),
    "median log": ("median", "np.log1p(s)", {"eps": 4.0}),
    "quantiles": ("quantile", "x", {"eps": 8.0, "q": [0.1, 0.5, 0.9]}),
    "quantiles none": ("quantile", "x", {"eps": 2.0, "q": [0.1, 0.9], "inference": "none"}),
    "quantile laplace": ("quantile", "x", {**FAILS, "q": 0.9, "mech": "smoothsens", "noise": "laplace"}),
    "mean laplace": ("mean", "x", {"eps": 2.0}),
    "mean gaussian": ("mean", "x + z", {"mu": 1.0}),
    "mean knorm": ("mean", "x", {"eps": 2.0, "mech": "knorm", "noise": "linf"}),
    "mean groups": ("mean", "x ~ g", {"eps": 2.0}),
    "mean groups mu": ("mean", "x ~ g", {"mu": 2.0}),
    "mean complete": ("mean", "x", {"eps": 2.0, "domain": WHOLE}),
    "mean duff": ("mean", "x", {"eps": 2.0, "mech": "duff"}),
    "mean units of three": ("mean", "x", {"eps": 4.0, "unit": "id", "rows_per_unit": 3}),
    "mode bins": ("mode", "x", {"eps": 2.0, "bins": 10}),
    "mode levels": ("mode", "g", {"eps": 2.0, "mech": "expmech"}),
    "hist bins": ("hist", "x", {"eps": 2.0, "bins": [0, 2, 5, 10]}),
    "hist levels": ("hist", "g", {"mu": 1.0}),
    "hist groups density": ("hist", "x ~ g", {"eps": 2.0, "bins": 4, "density": True}),
    "steps mu": ("lm", "y ~ x + z + C(g)", {**STEPS, "mu": 1.0}),
    "steps eps": ("lm", "y ~ x + C(g)", {**STEPS, "eps": 4.0}),
    "descent": ("lm", "y ~ x + z", {"mu": 2.0, "mech": "ngd", "loss": "huber", "steps": 12}),
    "descent newton": ("lm", "y ~ x + z", {"mu": 2.0, "mech": "noisy_newton", "loss": "logcosh", "steps": 6}),
    "descent logit": ("glm", "b ~ x + z", {"mu": 2.0, "mech": "ngd", "steps": 12}),
    "steps rare level": ("lm", "y ~ x + C(h)", {**STEPS, "mu": 1.0}),
    "steps rare response": ("lm", "I(y > 6) ~ C(h)", {**STEPS, "mu": 1.0}),
    "steps unit": ("lm", "y ~ x + z", {**STEPS, "mu": 2.0, "unit": "id", "rows_per_unit": 3}),
    "steps cautious": ("lm", "y ~ x + C(g)", {**STEPS, "mu": 1.0, "tail": "cautious"}),
    "steps nonrobust": ("lm", "y ~ x + C(g)", {**STEPS, "mu": 1.0, "cov_type": "nonrobust"}),
    "auto mu": ("lm", "y ~ x + z", {**MAIN, "mu": 1.0}),
    "auto eps": ("lm", "y ~ x + C(g)", {**MAIN, "eps": 2.0}),
    "auto product": ("lm", "y ~ x * z", {**MAIN, "mu": 1.0}),
    "huber mu": ("lm", "y ~ x + C(g)", {**HUBER, "mu": 1.0}),
    "huber eps": ("lm", "y ~ x + z", {**HUBER, "eps": 4.0}),
    "huber steps eps": ("lm", "y ~ x + z", {**HUBER, "mech": "newton", "eps": 4.0}),
    "logit mu": ("glm", "b ~ x + C(g)", {**MAIN, "mu": 1.0}),
    "logit eps": ("glm", "b ~ x + C(g)", {**MAIN, "eps": 4.0}),
    "logit rare level": ("glm", "b ~ x + C(h)", {**MAIN, "mu": 1.0}),
    "logit newton eps": ("glm", "b ~ x + z", {**STEPS, "eps": 6.0}),
    "poisson mu": ("glm", "k ~ x + z", {**MAIN, "mu": 1.0, "family": "poisson"}),
    "gamma mu": ("glm", "s ~ x + C(g)", {**MAIN, "mu": 1.0, "family": "gamma"}),
    "rq steps median": ("rq", "y ~ x + C(g)", {**STEPS, "mu": 2.0}),
    "rq steps outer": ("rq", "y ~ x + z", {**STEPS, "mu": 2.0, "tau": 0.8}),
    "rq eps": ("rq", "y ~ x + z", {**MAIN, "eps": 4.0}),
    "rq objpert": ("rq", "y ~ x", {**MAIN, "eps": 8.0, "mech": "objpert"}),
    "quantiles mu": ("quantile", "y", {**MAIN, "mu": 1.0, "q": [0.1, 0.25, 0.5, 0.75, 0.9]}),
    "quantiles groups": ("quantile", "y ~ g", {**MAIN, "eps": 4.0, "q": [0.25, 0.75]}),
    "means by group": ("mean", "y + s ~ g", {**MAIN, "mu": 1.0}),
}  # fmt: skip


# Processors round sums differently. If rounding moves rows by a step of their grid, or changes a draw of a Markov
# chain, the numbers of a call may differ by this relative amount. A changed method moves numbers by more.
ROUNDED = {"median geometric": 3e-3, "steps rare level": 1e-3, "steps rare response": 1e-3, "auto eps": 1e-4}


def run(name):
    """Make a seeded call. Noise does not depend on a digest of the call, so only intended changes alter the noise."""
    verb, formula, options = CALLS[name]
    arguments = {"data": DATA, "domain": DOMAIN, "rng": 7, **options}
    return getattr(ps, f"dp_{verb}")(formula, arguments.pop("data"), **arguments)


def kept(fit):
    """Return the parts of a result that are compared with the golden file."""
    return {
        "params": [value if isinstance(value, str) else float(value) for value in fit.params],
        "bse": [float(value) for value in fit.bse],
        "conf_int": fit.conf_int().astype(float).to_numpy().ravel().tolist(),
        "releases": [
            [
                [float(value) for value in release.value],
                None if getattr(release, "law", None) is None else release.law.variance().tolist(),
            ]
            for release in fit.releases
        ],
    }


def differences(old, new, close=1e-9, path=""):
    """Yield the places where two records differ by more than the relative amount `close`, usually 1e-9."""
    if isinstance(old, dict):
        for key in old.keys() | new.keys():
            yield from differences(old.get(key), new.get(key), close, f"{path}/{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for k, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from differences(a, b, close, f"{path}[{k}]")
    elif isinstance(old, float) and isinstance(new, float):
        if not (abs(old - new) <= close * max(abs(old), abs(new), 1e-6) or (old != old and new != new)):
            yield f"{path}: {old!r} -> {new!r}"
    elif old != new:
        yield f"{path}: {old!r} -> {new!r}"


def all_kept():
    """Return the compared parts of the results of all calls, by name."""
    return {name: kept(run(name)) for name in CALLS}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--compare", action="store_true")
    options = parser.parse_args()
    now = json.loads(json.dumps(all_kept()))
    if options.write:
        FILE.write_text(json.dumps(now, indent=0) + "\n")
        sys.exit()
    then = json.loads(FILE.read_text())
    changed = {
        name: list(differences(then.get(name), now.get(name), ROUNDED.get(name, 1e-9)))
        for name in then.keys() | now.keys()
    }
    for name, places in sorted(changed.items()):
        if places:
            print(f"{name}: {len(places)} places, first {places[0][:150]}")
    sys.exit(any(changed.values()))
