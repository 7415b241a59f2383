"""Random formulas, domains and frames: a result or one of our own refusals, never a row, and neighbours alike."""

import pickle
import warnings
from collections import Counter

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import privstats as ps
from tests.architecture.test_leaks import spill

CANARY = 918273.6455
N = 25
NAMES = ["y", "x", "z", "g", "a b", "Intercept", "np", "class", "é", "1x"]
ODD = [np.nan, None, np.inf, -np.inf, "text", "", True, 1e308, -3, CANARY, pd.Timestamp("2020-01-01"), (1,), b"x", 1j]
PIECES = """
    y | x | z | g | Q('a b') | C(g) | C(g, Sum) | C(x) | I(x ** 2) | np.log(z) | np.log(x) | x / z | poly(x, 2)
    bs(z, knots=[2]) | bs(z, df=4) | np.where(x > 0, x, z) | x.mean() | I(x - x.mean()) | center(x) | nowhere
    Intercept | (g == 'a') | I(g == 'zz') | 0 | 1 | -1 | I(1 / x) | I(x * | lambda: 1 | np.exp(z) | class | é
    'a' | x[0]
"""
pieces = st.sampled_from([piece.strip() for line in PIECES.strip().splitlines() for piece in line.split("|")])
sound = st.sampled_from(
    ["x", "z", "g", "Q('a b')", "C(g)", "I(x ** 2)", "np.log(z)", "poly(x, 2)", "bs(z, knots=[2])", "1"]
)
operators = st.sampled_from([" + ", " * ", ":", " - ", " / ", " ** ", " | ", " ~ "])
levels = st.sampled_from([["a", "b"], ["a", "b", "c"], [0, 1], ["a"], [], [None, "a"], "ab"])
bounds = st.sampled_from([(0, 1), (-1, 3), (1, 5), (1, 0), (0, np.inf), (np.nan, 1), ("2020-01-01", "2021-01-01"), 7])
domains = st.dictionaries(st.sampled_from([*NAMES, "np.log(x)", "I(x ** 2)"]), bounds | levels, max_size=8)
usual = st.fixed_dictionaries(
    {"y": st.just((-5, 5)), "x": st.just((-1, 3)), "z": st.just((1, 5)), "g": st.just(["a", "b"])}
)
choices = {
    "noise": st.sampled_from(["matrixt", "hull", "l1", "l2", "linf", "gaussian", "l3"]),
    "mech": st.sampled_from(["auto", "suffstats", "kng", "objpert", "expmech", "newton"]),
    "cov_type": st.sampled_from(["nonrobust", "HC"]),
    "theta_bound": st.sampled_from([0.5, 1.0, 3.0, -1.0]),
    "ridge": st.sampled_from([0.0, 5.0, "adaptive"]),
    "neighbors": st.sampled_from(["replace", "add_remove", "other"]),
    "subset": st.sampled_from(["x > 0", "g == 'a' & z < 3", "x >", "nowhere == 1"]),
    "weights": st.sampled_from(["z", "x", "g"]),
    "unit": st.sampled_from(["g", "x", "nobody"]),
    "mu": st.just(1.0),
    "inference": st.sampled_from(["sandwich", "none"]),
}
options = st.fixed_dictionaries({}, optional=choices)
normal = st.fixed_dictionaries(  # sound ones of Newton steps
    {"mu": st.sampled_from([1e-3, 1.0, 100.0]), "mech": st.sampled_from(["auto", "newton"])},
    optional={
        **{name: choices[name] for name in ("cov_type", "inference")},
        "neighbors": st.sampled_from(["replace", "add_remove"]),
        "subset": st.just("x > 0"),
        "weights": st.just("z"),
        "unit": st.just("g"),
    },
)


@st.composite
def formulas(draw):
    """Half of them sound, half of them anything."""
    if draw(st.booleans()):
        return "y ~ " + " + ".join(draw(st.lists(sound, min_size=1, max_size=4)))
    right = draw(pieces)
    for _ in range(draw(st.integers(0, 3))):
        right += draw(operators) + draw(pieces)
    left = draw(st.sampled_from(["y", "np.log(z)", "g", "x", "", "I(y)"]))
    return f"{left} ~ {right}"


@st.composite
def frames(draw):
    """A frame and a neighbour of it: one row is another one's."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    columns = {
        "y": rng.normal(0, 2, N),
        "x": rng.uniform(-1, 3, N),
        "z": rng.uniform(1, 5, N),
        "g": rng.choice(["a", "b"], N),
        "a b": rng.uniform(0, 1, N),
        "Intercept": rng.uniform(0, 1, N),
        "class": rng.choice([0, 1], N),
        "é": rng.uniform(0, 1, N),
    }
    data = pd.DataFrame(columns)
    for name in draw(st.lists(st.sampled_from(list(columns)), max_size=3)):
        data[name] = data[name].astype(object)
        data.loc[draw(st.integers(0, N - 1)), name] = CANARY
    other = data.copy()
    row = draw(st.integers(0, N - 1))
    for name in columns:
        value = draw(st.sampled_from([*ODD, 0.5, "a"]))
        cells = other[name].tolist()
        cells[row] = value
        # whatever dtype pandas makes of it: a neighbour may change the dtype of a whole column
        other[name] = pd.Series(cells) if draw(st.booleans()) else pd.Series(cells, dtype=object)
    if draw(st.booleans()):
        data.index = other.index = np.zeros(N)
    return data, other


def outcome(formula, data, domain, options):
    """What a call shows: the kind and words of its refusal, or which algorithm had a result."""
    price = {} if "mu" in options else {"eps": 1.0}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fit = ps.dp_lm(formula, data, domain=domain, **price, **options)
            shown = f"{fit.summary()} {fit!r} {fit.conf_int()} {fit.releases!r}"
    except ps.PrivstatsError as error:
        assert "unexpected" not in str(error)
        assert "inside the gate" not in str(error)
        assert not any(str(CANARY) in text for text in spill(error))
        return type(error), str(error)
    assert str(CANARY) not in shown
    assert np.float64(CANARY).tobytes() not in pickle.dumps(fit)
    assert np.isfinite(fit.params).all()
    return fit.mech


def test_whatever_is_asked_of_whatever_data_nothing_shows_but_a_result_or_a_refusal_that_neighbours_share():
    results = Counter()

    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
    @given(formulas(), frames(), usual | usual | domains, st.just({}) | options | normal)
    def of(formula, pair, domain, options):
        data, neighbour = pair
        shown = outcome(formula, data, domain, options)
        event(f"a result of {shown}" if isinstance(shown, str) else "a refusal")
        results[shown] += 1
        assert shown == outcome(formula, neighbour, domain, options)

    of()
    assert min(results["newton"], results["suffstats"]) >= 5  # else too little was tried
