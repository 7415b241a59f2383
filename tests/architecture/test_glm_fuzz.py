"""Random models with a link, and robust ones, of odd rows: a result that can be read to the end, or a refusal."""

import pickle
import warnings
from collections import Counter

import numpy as np
import pandas as pd
import pytest

import privstats as ps

CALLS = 25
DOMAIN = {
    **{"x": (-2, 2), "z": (0, 3), "g": ["a", "b", "c"], "y": (0, 1), "count": (0, 60), "size": (0, 100)},
    **{"w": (0, 2), "o": (-1, 1), "s": ps.Scale(10, 4), "wage": ps.Scale(50, 7)},
}
RESPONSES = {
    "logit": ("y", {}),
    "probit": ("y", {"link": "probit"}),
    "poisson": ("count", {"family": "poisson"}),
    "gamma": ("size", {"family": "gamma"}),
    "huber": ("wage", {"loss": "huber"}),
}
TERMS = ["x", "z", "C(g)", "I(x ** 2)", "x:z", "x * C(g)", "poly(z, 2)", "s", "s:x", "C(g):s"]
SINGLE = [np.nan, np.inf, -np.inf, 0.0, 1.0, 60.0, -5.0, 1e308, -1e308, 5e-324, "text"]
NEW = pd.DataFrame({"x": [0.0, 2], "z": [1.0, 3], "s": [10, 1e5], "g": ["a", "c"], "o": [0, 1.0], "w": [1.0, 2]})


def odd_frame(rng):
    """Rows of which some columns are strange."""
    n = int(rng.choice([9, 12, 40, 300]))
    numbers = {name: rng.uniform(-1, 2, n) for name in ("x", "z", "w", "o")}
    data = pd.DataFrame({**numbers, "s": rng.normal(10, 4, n), "wage": rng.normal(50, 7, n), "u": np.arange(n) // 3})
    data["g"] = np.where(np.arange(n) < 1, "c", "a") if rng.random() < 0.3 else rng.choice(["a", "b", "c"], n)
    y = data["x"] > 0 if rng.random() < 0.5 else rng.random(n) < 0.5  # separated, or not
    data = data.assign(y=1.0 * y, count=60.0 * y, size=rng.gamma(2, 2, n))
    for name in rng.choice(["x", "z", "s", "wage", "y", "count", "size", "w", "o"], int(rng.integers(0, 5))):
        value = SINGLE[rng.integers(len(SINGLE))]
        data[name] = pd.Series([value, *data[name][1:]], dtype=object) if rng.random() < 0.3 else value
    return data.assign(z=data["x"]) if rng.random() < 0.2 else data


def odd_call(rng, model):
    """A formula and options, sound ones nearly always."""
    response, options = RESPONSES[model]
    pure = model != "huber" and rng.random() < 0.3
    known = TERMS[:7] if pure else TERMS
    right = " + ".join(dict.fromkeys(rng.choice(known, int(rng.integers(1, 4)))))
    options = {**options, "eps" if pure else "mu": float(10.0 ** rng.integers(-6, 7))}
    if pure:
        options["theta_bound"] = 3.0
    if model != "huber":
        options["margins"] = bool(rng.random() < 0.5)
        if rng.random() < 0.5:
            options["offset"] = "o" if pure else rng.choice(["o * 50", "o * 900"])
    more = {
        "neighbors": "add_remove",
        "cov_type": rng.choice(["HC", "nonrobust"]),
        "weights": "w",
        "subset": rng.choice(["x > 0", "x > 5"]),
    }
    options |= {name: value for name, value in more.items() if rng.random() < 0.3}
    if rng.random() < 0.2:
        options |= {"unit": "u", "rows_per_unit": 2}
    return f"{response} ~ {'0 + ' * bool(rng.random() < 0.2)}{right}", options


def read_to_the_end(fit):
    """Look at everything that a fit shows; all but intervals of exponentials are finite or unknown."""
    given = not any("Not given" in note for note in fit.answer.notes)
    if given:
        assert np.isfinite(fit.params).all()
        assert np.isfinite(fit.predict(NEW)).all()
    shown = [fit.conf_int(), fit.cov_params(), fit.tvalues, fit.pvalues, fit.privacy_share]
    if fit.answer.margins is not None:
        shown.append(fit.get_margeff().summary_frame())
        assert np.isfinite(shown[-1]["dy/dx"]).all() == given
    assert not any(np.isinf(table.to_numpy(dtype=float)).any() for table in shown)
    several = np.eye(len(fit.params))
    fit.summary(exp=True), fit.tidy(exp=True), fit.glance(), fit.wald_test(several), f"{fit.t_test(several)} {fit}"
    pd.testing.assert_series_equal(pickle.loads(pickle.dumps(fit)).params, fit.params)


@pytest.mark.parametrize("model", RESPONSES)
def test_whatever_the_rows_a_fit_can_be_read_to_the_end_without_a_warning(model):
    results = Counter()
    for seed in range(CALLS // len(RESPONSES)):
        rng = np.random.default_rng([seed, *model.encode()])
        formula, options = odd_call(rng, model)
        data, verb = odd_frame(rng), "lm" if model == "huber" else "glm"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                fit = getattr(ps, f"dp_{verb}")(formula, data, domain=DOMAIN, rng=seed, **options)
            except ps.PrivstatsError as error:
                assert not any(words in str(error) for words in ("unexpected", "inside the gate")), (formula, options)
                results["refusal"] += 1
            else:
                read_to_the_end(fit)
                results[fit.mech] += 1
                if seed % 3 == 0:
                    ps.plan(
                        "lm" if model == "huber" else "glm", formula, len(data), domain=DOMAIN, **options
                    ).expected()
    assert results["newton"] + results["objpert"] >= 0.6 * sum(results.values())  # else too little was tried


FAR = {  # offsets at the ends of wide ranges, in models of one column: no curvature is left
    "poisson": ("count", -1.0),
    "gamma": ("size", 1.0),
    "probit": ("y", -1.0),
    "logit": ("y", -1.0),
}


@pytest.mark.parametrize("model", FAR)
@pytest.mark.parametrize("mu", [1e-6, 1.0, 1e6])
def test_rows_without_curvature_leave_no_infinite_step(model, mu):
    response, end = FAR[model]
    data = pd.DataFrame({response: np.zeros(200), "x": np.full(200, 2.0), "o": np.full(200, end)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        options = {**RESPONSES[model][1], "mu": mu, "domain": DOMAIN, "offset": "o * 900", "margins": True, "rng": 1}
        fit = ps.dp_glm(f"{response} ~ 0 + x", data, **options)
        given = np.isfinite([*fit.params, *fit.predict(data[:2])])
        assert given.all() or "Not given" in str(fit.summary())
        fit.get_margeff().summary_frame(), fit.summary(exp=True)
