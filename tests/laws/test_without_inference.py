"""With ``inference="none"``, every function and method spends the full budget on estimates and gives no interval.

A method of Newton steps is refused before the ledger is charged, if public facts show that the budget is too small.
"""

import re

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import privstats as ps
from privstats.models.descent import DESCENTS
from tests.conftest import slow, thinned

EPS, MU, BOTH = {"eps": 1.0}, {"mu": 1.0}, {"eps": 1.0, "delta": 1e-6}
DOMAIN = {"x": (0, 100), "z": (0, 10), "g": ["a", "b", "rare"], "y": (0, 100), "b": bool, "count": (0, 60), "w": (0, 2)}
VERBS = {  # by function: formula and options
    "lm": ("y ~ x + z + g", {}),
    "lm huber": ("y ~ x + z + g", {"loss": "huber"}),
    "glm": ("b ~ x + z + g", {}),
    "glm probit": ("b ~ x + g", {"link": "probit"}),
    "glm poisson": ("count ~ x + g", {"family": "poisson"}),
    "glm gamma": ("y ~ x + g", {"family": "gamma"}),
    "rq": ("y ~ x + z + g", {"tau": 0.8}),
    "rq several": ("y ~ x + g", {"tau": [0.3, 0.5]}),
    "median": ("x ~ g", {}),
    "quantile": ("x", {"q": [0.2, 0.6]}),
    "mean": ("x + z ~ g", {}),
    "mean of one": ("x ~ g", {}),
    "mode": ("g", {}),
    "hist": ("x ~ g", {"bins": 3}),
}
OF_INTERVALS = {"meat", "meat of moments", "residual squares", "interval", "grid", "levels", "rows"}
NORMAL = ("gaussian", "ngd", "noisy_newton")
# combinations that are refused with inference="none"
APART = [("mean", "clipped"), *(("lm", mech) for mech in DESCENTS)]
AS_STATED = ("ngd", "sgd")
BY_STEPS = ("newton", "clipped")
SILENT = ("ptr",)
# by function: middle of the predictions, and limit of the root mean square distance of predictions from the middle
FARTHEST = {"lm": (50, 250), "glm": (0, 20), "rq": (50, 250)}


def data_of(n, seed=0):
    """Return n rows with a rare level and missing values."""
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(20, 80, n), rng.uniform(0, 10, n)
    g = np.where(rng.uniform(size=n) < 0.004, "rare", rng.choice(["a", "b"], n)).astype(object)
    y = np.clip(20 + 0.5 * x + 2 * z + 5 * (g == "b") + 6 * rng.standard_normal(n), 0, 100)
    b = rng.uniform(size=n) < 1 / (1 + np.exp(-(x - 50) / 15))
    frame = pd.DataFrame({"x": x, "z": z, "g": g, "y": y, "b": b, "count": np.rint(y / 3), "w": rng.uniform(0, 2, n)})
    frame.loc[3, "z"], frame.loc[5, "g"] = np.nan, None
    return frame


def methods(name):
    """Return the names of a function's methods, as listed by its error about an unknown method."""
    with pytest.raises(ps.OptionError, match="choose among") as refused:
        fit(name, "nonsense", data_of(50), EPS)
    return re.findall(r"'(\w+)'", str(refused.value).split("choose among")[1])


def fit(name, mech, data, budget, **more):
    formula, options = VERBS[name]
    verb = name.split(" ")[0]
    return getattr(ps, f"dp_{verb}")(
        formula, data, **budget, **options, mech=mech, domain=DOMAIN, inference="none", rng=1, **more
    )


def with_budget(mech, size):
    """Return a budget of the given size for a method: mu if its noise is normal, else eps, with a delta if needed."""
    return {"mu": size} if mech in NORMAL else {"eps": size, **({"delta": 1e-6} if mech in ("ptr", "sgd") else {})}


PAIRS = [(name, mech) for name in VERBS for mech in methods(name) if (name, mech) not in APART]


def refused(name, mech, data, budget, **more):
    """Return the fit, or None if the fit is refused.

    Only fits by Newton steps may be refused. The ledger is then not charged, and the error names another method if
    there is one.
    """
    promise = ps.PureDP(budget["eps"]) if "eps" in budget else ps.GaussianDP(budget["mu"])
    ledger = ps.Ledger(ps.ApproxDP(**budget) if "delta" in budget else promise)
    try:
        return fit(name, mech, data, budget, ledger=ledger, **more)
    except ps.BudgetError as error:
        assert not len(ledger.entries)
        only = name in ("lm huber", "glm probit", "glm poisson", "glm gamma")
        assert mech in BY_STEPS or (mech == "auto" and only)
        other = {"lm": "suffstats", "glm": "objpert", "rq": "objpert", "mean": "laplace"}[name.split(" ")[0]]
        assert f"mech='{other}'" in str(error) or name in ("glm probit", "glm poisson", "glm gamma")
        return None


def check(name, mech, one, data, budget):
    """Check the properties that every fit without inference must have."""
    if mech not in SILENT:
        assert not one.params.isin([np.nan, np.inf, -np.inf]).any()
    # the root mean square distance of predictions from the middle is limited, since noise explains no larger distance
    if name.startswith(tuple(FARTHEST)) and mech not in AS_STATED:
        linear = {"which": "linear"} if name.startswith("glm") else {}
        middle, farthest = FARTHEST[name.split(" ")[0]]
        predicted = one.predict(data, **linear).to_numpy(float)
        assert np.sqrt(np.nanmean((predicted - middle) ** 2)) < farthest
    assert one.bse.isna().all()
    assert one.conf_int().isna().all(axis=None)
    notes = [note for note in one.summary().notes if "inference='none'" in note]
    assert len(notes) == 1
    assert re.search(r"std dev of about|moves their ranks by about|is not known", notes[0])
    asked = {release.name for release in one.releases}
    # the query "rows" serves intervals, and in descents the residual scale
    of_scale = {"rows"} if mech in DESCENTS else set()
    assert not {name.split(" of ")[0] for name in asked} & (OF_INTERVALS - of_scale)
    assert sum(share for _, share in one.facts.budget) == pytest.approx(1.0)
    for currency in ("eps", "mu"):
        if currency in budget and "delta" not in budget:
            assert getattr(one.ledger.spent(), currency) == pytest.approx(budget[currency])


@thinned(4)
@pytest.mark.parametrize("budget", [0.1, 1.0, slow(10.0)])
@pytest.mark.parametrize("n", [40, slow(400), 4000])
@pytest.mark.parametrize(("name", "mech"), PAIRS)
def test_every_method_without_intervals_gives_numbers_for_its_whole_budget_or_is_refused(name, mech, n, budget):
    paid = with_budget(mech, budget)
    data = data_of(n)
    one = refused(name, mech, data, paid)
    if one is not None:
        check(name, mech, one, data, paid)


@pytest.mark.parametrize(
    ("name", "cure"), [("lm", "mech='suffstats'"), ("glm", "mech='objpert'"), ("rq", "mech='objpert'")]
)
def test_steps_that_would_start_from_noise_are_refused_with_the_method_that_does_not(name, cure):
    """Without the refusal, a logit with 7 predictors, n = 1,000 and eps = 1/4 had coefficients of length 985, not 2.4.

    2.4 is the length of the true coefficients.
    """
    with pytest.raises(ps.BudgetError, match=cure):
        fit(name, "newton", data_of(1000), {"eps": 0.25})
    assert fit(name, "auto", data_of(1000), {"eps": 0.25}).mech != "newton"
    assert fit(name, "newton", data_of(4000), {"mu": 4.0}).params.notna().all()


SIZED = [
    ("lm", "suffstats"),
    ("lm", "objpert"),
    ("glm", "objpert"),
    ("glm", "newton"),
    ("mean", "laplace"),
    ("hist", "laplace"),
]


@thinned(3)
@pytest.mark.parametrize(("name", "mech"), SIZED)
def test_the_note_says_how_large_the_noise_is(name, mech):
    rng, n = np.random.default_rng(1), 6000
    x, z = rng.uniform(0, 100, n), rng.uniform(0, 10, n)
    y = np.clip(20 + 0.5 * x + 2 * z + 5 * rng.standard_normal(n), 0, 100)
    data = pd.DataFrame({"x": x, "z": z, "y": y, "b": rng.uniform(size=n) < 1 / (1 + np.exp(-(x - 50) / 25))})
    domain = ps.Domain({name: DOMAIN[name] for name in data}, complete=True)
    formula = {"lm": "y ~ x + z", "glm": "b ~ x + z", "mean": "x + z", "hist": "x"}[name]
    options = {"domain": domain, "mech": mech, "inference": "none", **({"bins": 3} if name == "hist" else {})}
    verb, budget = getattr(ps, f"dp_{name}"), {"mu": 2.0} if mech == "newton" else {"eps": 1.0}
    fits = [verb(formula, data, **budget, **options, rng=seed) for seed in range(40)]
    spread = np.std([one.params for one in fits], axis=0, ddof=1)
    said = [[float(size) for size in re.findall(r"([\d.e+-]+) in '", one.summary().notes[-1])] for one in fits]
    ratio = np.median(said, axis=0) / spread
    assert ((ratio > 0.6) & (ratio < 1.6)).all()  # the Monte Carlo error of the ratio is about a tenth


def without_intervals(formula, data, domain, fits):
    for seed in range(fits):
        fit = ps.dp_lm(formula, data, eps=1.0, domain=domain, mech="suffstats", inference="none", rng=seed)
        assert fit.params.notna().all()
        yield fit


def missed_and_said(fit, exact):
    """Return how many coefficients have errors above 1.96 stated noise sds, and how many have a stated noise sd.

    The error of a coefficient is its distance from the coefficient without privacy.
    """
    sizes = fit.estimate.sizes
    known = np.isfinite(sizes)
    off = np.abs(fit.params - exact[fit.params.index]).to_numpy()
    return (off > 1.96 * sizes)[known].sum(), known.sum()


@pytest.mark.parametrize(("levels", "rows"), [(4, 8), (20, 100)], ids=["its level has eight rows", "many levels"])
def test_the_noise_that_is_said_covers_where_levels_are_rare(levels, rows):
    """With a rare level, at most .05 of the errors due to noise exceed 1.96 stated noise sds, up to Monte Carlo error.

    The rare level has 8 rows beside 3 other levels, or 100 rows beside 19, and its rows differ much from all other
    rows. With a first-order noise sd, only .05 of the errors were within the stated noise.
    """
    rng, n, names = np.random.default_rng(0), 4000, [f"l{k:02d}" for k in range(levels)]
    code = np.r_[np.ones(rows, dtype=int), rng.choice([0, *range(2, levels)], n - rows)]
    x = rng.uniform(-1, 1, n)
    y = (0.5 * x + 2.0 * (code == 1) + rng.normal(size=n)).clip(-6, 6)
    data = pd.DataFrame({"x": x, "y": y, "g": np.array(names)[code]})
    exact = smf.ols("y ~ x + g", data).fit().params
    domain = ps.Domain({"x": (-1, 1), "y": (-6, 6), "g": names}, complete=True)
    missed = said = 0
    for fit in without_intervals("y ~ x + g", data, domain, 30):
        off, more = missed_and_said(fit, exact)
        missed, said = missed + off, said + more
        assert more == len(fit.params) or any("the level 'l01' of g has" in text for text in fit.summary().notes)
    assert said >= 30 * (levels - 1)
    assert missed <= 0.05 * said + 3 * (0.05 * 0.95 * said) ** 0.5


def test_the_noise_that_is_said_is_not_the_bound_of_what_noise_hides():
    """With wide bounds and two rare levels, at most .05 of the errors due to noise exceed 1.96 stated noise sds.

    The share holds up to Monte Carlo error. The bound on effects that noise may hide is no noise sd: with this bound as
    the stated noise sd, only .2 to .4 of the errors were within the stated noise.
    """
    rng, n, names = np.random.default_rng(1), 2000, ["a", "b", "c", "d"]
    code = rng.choice(4, n, p=[0.02, 0.06, 0.1, 0.82])
    x = (rng.exponential(3.0, n) + 6.0 * (code == 0) + 3.0 * (code == 1)).clip(0, 40)
    y = (1.9 + 0.14 * x - 0.1 * (code == 1) + 0.4 * rng.normal(size=n)).clip(0, 5)
    data = pd.DataFrame({"x": x, "y": y, "g": np.array(names)[code]})
    exact = smf.ols("y ~ g + x", data).fit().params
    domain = ps.Domain({"x": (0, 40), "y": (0, 5), "g": names}, complete=True)
    missed = said = 0
    for fit in without_intervals("y ~ g + x", data, domain, 40):
        off, more = missed_and_said(fit, exact)
        missed, said = missed + off, said + more
    assert missed <= 0.05 * said + 3 * (0.05 * 0.95 * said) ** 0.5
