"""Every function, called with arguments at the limits of their ranges, gives a result or an error with a remedy."""

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.errors import OptionError
from tests.conftest import thinned

DOMAIN = {
    "x": (-1, 1), "z": (0, 5), "g": ["a", "b"], "w": (0, 2), "one": (0, 2), "none": (0, 1), "years": (1, 3),
    "y": (-2, 2), "b": (0, 1), "k": (0, 20),
}  # fmt: skip


def rows_of(n):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "x": rng.uniform(-1, 1, n), "z": rng.uniform(0, 5, n), "g": rng.choice(["a", "b"], n),
            "w": rng.uniform(0, 2, n), "years": rng.uniform(1, 3, n), "person": np.arange(n) // 3,
            "one": np.ones(n), "none": np.full(n, np.nan), "k": rng.poisson(2, n),
        }
    )  # fmt: skip
    frame["y"] = np.clip(0.5 * frame.x + 0.3 * rng.normal(size=n), -2, 2)
    frame["b"] = (frame.y > 0).astype(int)
    frame.loc[::7, "x"], frame.loc[::9, "g"] = np.nan, None
    return frame


ROWS = {n: rows_of(n) for n in (3, 30, 240)}
LM, GLM, RQ = ("lm", "y"), ("glm", "b"), ("rq", "y")
FITS = {
    "suffstats": (*LM, {"mech": "suffstats"}),
    "newton": (*LM, {"mech": "newton"}),
    "huber": (*LM, {"loss": "huber"}),
    "kng": (*LM, {"mech": "kng"}),
    "objpert": (*LM, {"mech": "objpert"}),
    "logit": (*GLM, {}),
    "poisson": ("glm", "k", {"family": "poisson"}),
    "rq": (*RQ, {}),
}
SETTINGS = {
    "weights": ("x + C(g)", {"weights": "w"}),
    "subset": ("x + z", {"subset": "z > 1"}),
    "nobody": ("x", {"subset": "z > 99"}),
    "persons": ("x", {"unit": "person", "rows_per_unit": 3}),
    "private number": ("x", {"neighbors": "add_remove"}),
    "all together": ("x", {"unit": "person", "rows_per_unit": 3, "neighbors": "add_remove", "weights": "w"}),
    "no constant": ("x - 1", {}),
    "all levels": ("C(g) - 1", {}),
    "constant alone": ("1", {}),
    "constant column": ("x + one", {}),
    "all missing": ("none", {}),
    "few": ("x", {"n": 30}),
    "too few": ("x", {"n": 3}),
}
NEITHER = ({"eps": 1.0}, {"mu": 1.0})


def said(verb, formula, n=240, **options):
    """Return the text of a fit's results, or the text of the error that it raises."""
    try:
        return str(getattr(ps, f"dp_{verb}")(formula, ROWS[n], domain=DOMAIN, rng=1, **options))
    except ps.PrivstatsError as refusal:
        text = str(refusal)
        assert "unexpected" not in text and "could not be computed" not in text, text
        assert any(word in text for word in ("; ", "write", "give", "add", "leave")), text
        return text


EVERY = [(fit, setting) for fit in FITS for setting in SETTINGS]
SOME = EVERY[::5]  # these pairs contain every fit and every setting


def answered(fit, setting, budget):
    verb, response, options = FITS[fit]
    right, more = SETTINGS[setting]
    assert "nan" not in said(verb, f"{response} ~ {right}", **options, **more, **budget).lower().split()


@thinned(3)
@pytest.mark.parametrize(("fit", "setting"), SOME)
def test_regressions_answer_or_refuse_with_a_cure(fit, setting):
    assert {one for one, _ in SOME} == set(FITS) and {one for _, one in SOME} == set(SETTINGS)
    answered(fit, setting, NEITHER[SOME.index((fit, setting)) % 2])


@pytest.mark.slow
@pytest.mark.parametrize(("fit", "setting"), EVERY)
def test_regressions_answer_or_refuse_with_a_cure_at_every_edge(fit, setting):
    for budget in (*NEITHER, {"eps": 1.0, "delta": 1e-5}):
        answered(fit, setting, budget)


@pytest.mark.parametrize(("family", "response"), [("binomial", "b"), ("poisson", "k")])
def test_offsets_are_taken_with_weights_and_without_predictors(family, response):
    for right, more in (("x", {}), ("1", {}), ("x", {"weights": "w"}), ("x - 1", {"subset": "z > 1"})):
        text = said("glm", f"{response} ~ {right}", family=family, offset="np.log(years)", mu=2.0, **more)
        assert "Private" in text


LOCATION = {
    "median": ("x", {}), "quantile": ("x", {"q": [0.25, 0.75]}), "mean": ("x", {}), "mode": ("g", {}),
    "hist": ("g", {}),
}  # fmt: skip
LOCATED = {
    "plain": {},
    "few": {"n": 30},
    "too few": {"n": 3},
    "subset": {"subset": "z > 1"},
    "nobody": {"subset": "z > 99"},
    "persons": {"unit": "person", "rows_per_unit": 3},
    "private number": {"neighbors": "add_remove"},
}


@thinned(2)
@pytest.mark.parametrize("setting", LOCATED)
@pytest.mark.parametrize("verb", LOCATION)
def test_locations_and_counts_answer_or_refuse_with_a_cure(verb, setting):
    column, options = LOCATION[verb]
    for budget in NEITHER:
        said(verb, column, **options, **LOCATED[setting], **budget)


@pytest.mark.parametrize("verb", ["median", "quantile", "mean"])
def test_columns_that_are_constant_or_missing_and_groups_have_answers(verb):
    for formula in ("one", "none", "x ~ g", "none ~ g"):
        assert "Private" in said(verb, formula, eps=5.0, **LOCATION[verb][1])


@thinned(2)
@pytest.mark.parametrize("fit", FITS)
def test_without_inference_there_are_estimates_alone(fit):
    verb, response, options = FITS[fit]
    call = getattr(ps, f"dp_{verb}")
    for budget in ({"eps": 60.0}, {"mu": 30.0}):
        found = call(f"{response} ~ z", ROWS[240], domain=DOMAIN, inference="none", rng=1, **options, **budget)
        assert np.isfinite(found.params).all()
        assert found.bse.isna().all() and found.pvalues.isna().all() and found.conf_int().isna().all(axis=None)
        assert "inference='none'" in str(found)
        assert not any("meat" in name for name, _ in found.facts.budget)


def test_ridge_gives_estimates_alone_and_says_how_large_it_was():
    plain = ps.dp_lm("y ~ x + z", ROWS[240], 50, domain=DOMAIN, mech="suffstats", rng=1)
    fit = ps.dp_lm("y ~ x + z", ROWS[240], 50, domain=DOMAIN, mech="suffstats", ridge=500.0, rng=1)
    assert fit.bse.isna().all()
    assert abs(fit.params["x"]) < 0.6 * abs(plain.params["x"])
    assert "The penalty is 500" in str(fit)
    adaptive = ps.dp_lm("y ~ x + z", ROWS[240], 0.5, domain=DOMAIN, mech="suffstats", ridge="adaptive", rng=1)
    assert np.isfinite(adaptive.params).all()


def test_equal_variances_are_uncertain_when_they_are_small_beside_the_noise():
    inside = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({"x": rng.uniform(-1, 1, 200)})
        frame["y"] = 0.5 + frame.x + 0.05 * rng.normal(size=200)
        domain = {"x": (-1, 1), "y": (-6, 6)}
        fit = ps.dp_lm("y ~ x", frame, 256, domain=domain, mech="suffstats", cov_type="nonrobust", rng=seed)
        low, high = fit.conf_int().loc["x"]
        inside += low <= 1 <= high
    assert inside >= 16


def test_arguments_of_result_methods_that_do_not_fit_are_named():
    """The error about a wrong call of a result's method names the wrong or missing argument.

    Earlier, the error reported an unexpected failure at boundary.py:48.
    """
    fit = ps.dp_lm("y ~ x + C(g)", ROWS[240], eps=4.0, domain=DOMAIN, rng=1)
    for call, text in (
        (lambda: fit.means(), r"means\(\) missing a required argument"),
        (lambda: fit.predict(exog=ROWS[30]), r"predict\(\) got an unexpected keyword argument 'exog'"),
        (lambda: fit.slopes("x", level=0.9), r"slopes\(\) got an unexpected keyword argument 'level'"),
        (lambda: fit.get_prediction(), r"get_prediction\(\) missing a required argument: 'new_data'"),
    ):
        with pytest.raises(OptionError, match=text) as caught:
            call()
        frames = []
        trace = caught.value.__traceback__
        while trace is not None:
            frames.append(trace.tb_frame.f_locals)
            trace = trace.tb_next
        assert not any(ROWS[30] is value for held in frames[1:] for value in held.values())
