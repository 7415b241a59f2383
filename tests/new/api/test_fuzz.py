"""Random arguments and frames: a result or one of our own refusals, never a row, and neighbours alike."""

import pickle
import warnings
from collections import Counter

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.new.public import ps

CANARY = 918273.6455
N = 60
NAMES = ["y", "x", "z", "g", "a b", "Intercept", "class"]
ODD = [np.nan, None, np.inf, -np.inf, "text", "", True, 1e308, -3, CANARY, pd.Timestamp("2020-01-01"), (1,), b"x", 1j]
PIECES = """
    y | x | z | g | Q('a b') | C(g) | C(g, Sum) | C(x) | I(x ** 2) | np.log(z) | np.log(x) | x / z | poly(x, 2)
    bs(z, knots=[2]) | np.where(x > 0, x, z) | x.mean() | center(x) | nowhere | Intercept | (g == 'a') | 0 | 1 | -1
    I(1 / x) | I(x * | lambda: 1 | np.exp(z) | class | 'a' | x[0]
"""
pieces = st.sampled_from([piece.strip() for line in PIECES.strip().splitlines() for piece in line.split("|")])
sound = st.sampled_from(["x", "z", "g", "Q('a b')", "C(g)", "I(x ** 2)", "np.log(z)", "poly(x, 2)", "1"])
operators = st.sampled_from([" + ", " * ", ":", " - ", " / ", " ~ "])
bounds = st.sampled_from([(0, 1), (-1, 3), (1, 5), (1, 0), (0, np.inf), ("2020-01-01", "2021-01-01"), 7])
levels = st.sampled_from([["a", "b"], ["a", "b", "c"], [0, 1], ["a"], [], [None, "a"], "ab"])
odd_domains = st.dictionaries(st.sampled_from([*NAMES, "np.log(x)"]), bounds | levels, max_size=8)
USUAL = {"y": (-5, 5), "x": (-1, 3), "z": (1, 5), "g": ["a", "b"]}
budgets = st.sampled_from([{"eps": 1.0}, {"eps": 4.0}, {"mu": 1.0}, {"eps": 1.0, "delta": 1e-6}])
odd = st.sampled_from([None, -1, 0, 0.5, np.nan, "x", "auto", True, [], {}, [0.5], object(), np.float64(2), 1j])
options = {
    "lm": st.fixed_dictionaries({}, optional={
        "mech": st.sampled_from(["suffstats", "newton", "kng", "objpert", "expmech"]) | odd,
        "noise": st.sampled_from(["matrixt", "hull", "l1", "l2", "linf", "gaussian"]) | odd,
        "neighbors": st.sampled_from(["add_remove"]) | odd,
        "cov_type": st.sampled_from(["nonrobust", "HC3", "cluster"]) | odd,
        "loss": st.sampled_from(["huber"]) | odd,
        "theta_bound": st.sampled_from([1.0, 3.0]) | odd,
        "subset": st.sampled_from(["x > 0", "g == 'a' & z < 3", "x >", "nowhere == 1"]) | odd,
        "weights": st.sampled_from(["z", "x", "g"]) | odd,
        "unit": st.sampled_from(["g", "x", "nobody"]) | odd,
        "rows_per_unit": st.sampled_from([1, 3]) | odd,
        "shares": st.sampled_from([{"score": 0.9}, {"moments": -1}, {"scales": 2}]) | odd,
        "bounds_share": odd, "inference": st.sampled_from(["none"]) | odd, "split": odd, "tail": odd, "ridge": odd,
        "ledger": odd, "dry_run": odd,
    }),
    "glm": st.fixed_dictionaries({}, optional={
        "family": st.sampled_from(["poisson", "gamma", "gaussian"]) | odd, "link": st.just("probit") | odd,
        "mech": st.sampled_from(["objpert", "newton"]) | odd, "offset": st.just("z") | odd, "margins": odd,
        "weights": st.just("z") | odd, "subset": st.just("x > 0") | odd, "cov_type": st.just("nonrobust") | odd,
        "unit": st.just("g") | odd, "theta_bound": odd, "split": odd, "tail": odd,
    }),
    "rq": st.fixed_dictionaries({}, optional={
        "tau": st.sampled_from([0.1, [0.25, 0.75]]) | odd, "mech": st.sampled_from(["objpert", "newton", "kng"]) | odd,
        "weights": st.just("z") | odd, "subset": st.just("x > 0") | odd, "unit": st.just("g") | odd, "split": odd,
    }),
    "quantile": st.fixed_dictionaries({}, optional={
        "q": st.sampled_from([0.9, [0.25, 0.75]]) | odd, "tau": odd, "alpha": odd, "grid": odd, "eta": odd,
        "mech": st.sampled_from(["rank", "aq", "duff", "smoothsens", "ptr", "kng"]) | odd,
        "noise": st.sampled_from(["cauchy", "laplace"]) | odd, "unit": st.sampled_from(["g", "x"]) | odd,
        "subset": st.just("x > 0") | odd, "inference": st.just("none"),
    }),
    "mean": st.fixed_dictionaries({}, optional={
        "mech": st.sampled_from(["laplace", "knorm", "gaussian", "duff"]) | odd, "noise": st.just("l2") | odd,
        "unit": st.sampled_from(["g", "x"]) | odd, "subset": st.just("x > 0") | odd,
    }),
    "hist": st.fixed_dictionaries({"bins": st.sampled_from([3, [-9, 0, 9]]) | odd}, optional={"density": odd}),
    "mode": st.fixed_dictionaries({}, optional={"bins": st.just(3) | odd, "grid": st.just(0.5) | odd}),
}  # fmt: skip


@st.composite
def calls(draw):
    """A verb with a formula, most of them sound, and at most three options."""
    verb = draw(st.sampled_from(["lm", "lm", "glm", "rq", "quantile", "mean", "hist", "mode"]))
    if draw(st.integers(0, 3)):
        right = " + ".join(draw(st.lists(sound, min_size=1, max_size=3)))
    else:
        right = draw(pieces)
        for _ in range(draw(st.integers(0, 2))):
            right += draw(operators) + draw(pieces)
    left = draw(st.sampled_from(["y", "np.log(z)", "g", "x", "I(y)", *(["z", "I(y > 0)"] if verb == "glm" else [])]))
    formula = (
        f"{left} ~ {right}"
        if verb in ("lm", "glm", "rq")
        else draw(st.sampled_from([left, f"{left} ~ g", f"{left} ~ {right}"]))
    )
    domain = draw(odd_domains) if draw(st.integers(0, 4)) == 0 else USUAL
    drawn = draw(options[verb])
    kept = draw(st.lists(st.sampled_from(sorted(drawn)), max_size=3)) if drawn else []
    return verb, {"formula": formula, "domain": domain, **draw(budgets), **{name: drawn[name] for name in kept}}


@st.composite
def frames(draw):
    """A frame and a neighbour of it: one row is another one's."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    data = pd.DataFrame(
        {
            "y": rng.normal(0, 2, N),
            "x": rng.uniform(-1, 3, N),
            "z": rng.uniform(1, 5, N),
            "g": rng.choice(["a", "b"], N),
            "a b": rng.uniform(0, 1, N),
            "Intercept": rng.uniform(0, 1, N),
            "class": rng.choice([0, 1], N),
        }
    )
    for name in draw(st.lists(st.sampled_from(list(data)), max_size=3)):
        data[name] = data[name].astype(object)
        data.loc[draw(st.integers(0, N - 1)), name] = CANARY
    other, row = data.copy(), draw(st.integers(0, N - 1))
    for name in data:
        cells = other[name].tolist()
        cells[row] = draw(st.sampled_from([*ODD, 0.5, "a"]))
        # whatever dtype pandas makes of it: a neighbour may change the dtype of a whole column
        other[name] = pd.Series(cells) if draw(st.booleans()) else pd.Series(cells, dtype=object)
    return data, other


def outcome(verb, data, call):
    """What a call shows: the kind and words of its refusal, or which method had a result."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fit = getattr(ps, f"dp_{verb}")(data=data, **call)
            if not hasattr(fit, "summary"):
                return f"plan {fit.digest}" if fit.public.units is None else "plan"
            shown = f"{fit.summary()} {fit!r} {fit.conf_int()} {fit.releases!r}"
    except ps.PrivstatsError as error:
        text = str(error)
        assert "unexpected" not in text, (verb, call, text)
        assert "inside the gate" not in text, (verb, call, text)
        assert str(CANARY) not in text
        assert error.__context__ is None
        return type(error).__name__, text
    assert str(CANARY) not in shown
    assert np.float64(CANARY).tobytes() not in pickle.dumps(fit)
    return verb, fit.mech


def test_whatever_is_asked_of_whatever_data_nothing_shows_but_a_result_or_a_refusal_that_neighbours_share():
    results = Counter()

    @settings(max_examples=70, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(calls(), frames())
    def of(call, pair):
        verb, keywords = call
        shown = outcome(verb, pair[0], keywords)
        results[shown if shown[0] in options else "refused"] += 1
        if "unit" not in keywords and "mech" not in keywords:  # which method a fit chooses is a release
            assert (shown[0] in options) == (outcome(verb, pair[1], keywords)[0] in options)

    of()
    assert len(results) >= 6, results
