"""Bad questions about columns are refused with the cure, before anything is charged; and what a formula may be."""

import itertools

import numpy as np
import pandas as pd
import pytest

import privstats as ps

DOMAIN = {"x": (0, 10), "z": (1, 5), "g": ["a", "b"], "h": [1, 2]}
N = 40
DATA = pd.DataFrame({"x": np.linspace(0, 10, N), "z": np.linspace(1, 5, N), "g": ["a", "b"] * 20, "h": [1] * N})
DATA = DATA.assign(text="secret", age=41.5)
VERBS = {"median": ps.dp_median, "quantile": ps.dp_quantile, "mean": ps.dp_mean, "mode": ps.dp_mode, "hist": ps.dp_hist}
P, F, D, B = ps.PrivacyError, ps.FormulaError, ps.DomainError, ps.BudgetError

CASES = [
    *(("quantile", "x", {"q": q}, P, "q must be a number between 0 and 1") for q in (0, 1, -0.1, np.nan, "0.5", None)),
    *(
        ("quantile", "x", {"q": q}, P, "list of different ones")
        for q in ([], [0.5, 1], [0.2, 0.2], True, ["a"], [[0.5]], [0.5, [0.2]], {0.5: 1})
    ),
    ("quantile", "x", {"q": np.array(2.0)}, P, "q must be"),
    *(("median", "x", {"grid": grid}, P, "grid must be") for grid in (0, -1.0, np.nan, np.inf, "1", True, {"x": 0})),
    ("median", "x", {"grid": {"X": 1}}, P, "grid names a column that the formula does not ask about"),
    ("median", "x", {"grid": {"x": 1, "z": 1}}, P, "grid names a column that the formula does not ask about"),
    *(
        ("median", "z", {"grid": grid, "mech": mech}, P, "grid must be the step .* 'z'")
        for grid in (100, 1e-300, 5 * 2.0**-51)
        for mech in ("auto", "kng", "duff")
    ),
    ("median", "w", {"grid": 0.25, "domain": {"w": (0.3, 0.45)}}, P, "more than its range|of which a multiple"),
    ("median", "w", {"grid": 2, "domain": {"w": (0.5, 3.5 - 2)}}, P, "grid must be"),
    *(("mode", "age", {"grid": 1, "domain": d}, D, "'age' needs bounds .* declare them") for d in ({}, DOMAIN)),
    *(("median", "x", {"confidence": c}, P, "confidence must lie") for c in (0, 0.2, 1, 95, np.nan, "0.9")),
    *(
        ("median", "x", {"eta": e, "mech": "ptr", "delta": 1e-6}, P, "eta is a positive number")
        for e in (0, -1, np.nan)
    ),
    ("median", "x", {"eta": 1.0}, P, "mech='ptr'"),
    ("median", "x + z", {"geometric": True, "mech": "rank"}, P, "mech='kng'"),
    ("median", "x", {"mech": "ptr"}, B, "delta="),
    ("median", "x", {"mech": "ptr", "eps": None, "mu": 1.0}, B, "eps= with a delta="),
    ("median", "x", {"mech": "smoothsens", "noise": "laplace"}, B, "delta="),
    ("median", "x", {"mech": "smoothsens", "noise": "normal"}, P, "'cauchy', 'laplace', 'laplaceln', 'gaussian'"),
    ("median", "x", {"noise": "laplace"}, P, "is not one of 'rank'"),
    ("median", "x", {"mech": "suffstats"}, P, "'auto', 'rank', 'aq', 'duff', 'smoothsens', 'ptr', 'kng'"),
    ("mean", "x", {"mech": "gaussian"}, B, "mu="),
    ("mean", "x", {"noise": "l2"}, P, "is not one of 'l1'"),
    ("mean", "x", {"grid": 1}, P, "no option 'grid'"),
    *((verb, "x", {"weights": "z"}, P, "no option 'weights'") for verb in VERBS),
    *((verb, "x", {"theta_bound": 1.0}, P, "no option") for verb in VERBS),
    ("hist", "x", {"bins": None}, P, "bins must be a number of bins, or their edges"),
    *(("hist", "x", {"bins": b}, P, "bins must be") for b in (0, -3, 2.5, True, "auto", "0159", [1], [0, 5, 5, 10])),
    *(("hist", "x", {"bins": b}, P, "ascending") for b in ([10, 5, 0], [0, np.nan, 10], [-np.inf, 0, np.inf])),
    *(("hist", "x", {"bins": b}, D, r"do not cover the domain of 'x', which is \(0, 10\)") for b in ([0, 9], [1, 10])),
    ("hist", "g", {"bins": 3}, P, "leave out bins="),
    ("hist", "x + z", {"bins": 3}, F, "one column at a time"),
    ("mode", "x", {}, P, "bins must be .*grid=, the step between its possible values"),
    ("mode", "g + h", {}, F, "one column at a time"),
    *((verb, "g", {}, F, "needs numbers with bounds") for verb in ("median", "quantile", "mean")),
    *((verb, "text", {}, D, "'text'") for verb in VERBS if verb != "mode"),
    *(
        ("mean", f, {}, F, "is not like 'x', 'x1 \\+ x2' or 'x ~ group'")
        for f in ("x ~ g + h", "x ~ g:h", "x:z", "", "1")
    ),
    ("mean", "x ~ z", {}, D, "'z' is a group only with declared levels"),
    ("mean", "x ~ text", {}, D, "'text'"),
    ("mean", "x ~ C(text)", {}, D, "'text'"),
    ("mean", "poly(x, 2)", {}, F, "several columns"),
    ("mean", "x - np.mean(x)", {}, F, "each row alone|not like"),
    ("mean", "I(x - np.mean(x))", {}, F, "each row alone"),
    ("mean", "np.log(x)", {}, D, "no finite bounds"),
    ("mean", "age", {}, D, r"declare domain=\{'age'"),
    ("mean", "nowhere", {"domain": {"nowhere": (0, 1)}}, F, "no column 'nowhere'"),
    ("mean", "x", {"domain": {"x": (3, 3)}}, D, "x"),
    ("mean", "x +", {}, F, "cannot be read"),
    ("mean", 3, {}, F, "a formula is text"),
    ("median", "x", {"shares": {"median": 1.0}}, P, "'quantile of x'"),
    *(("hist", "x", {"density": flag}, P, "density are True or False") for flag in ("no", 1, None)),
    *(("median", "x + z", {"geometric": flag}, P, "geometric and .* True or False") for flag in ("no", 0, None)),
    ("median", "x", {"inference": "some"}, P, "'sandwich', 'none'"),
    ("median", "x", {"subset": "x > x.mean()"}, F, "each row alone"),
    ("median", "x", {"data": DATA.to_numpy()}, F, "DataFrame"),
]

KNOWN = [  # refused with the wrong words
    ("mode", "text", {}, D, "'text'"),
]
CASES += [pytest.param(*case, marks=pytest.mark.xfail(strict=True)) for case in KNOWN]


@pytest.mark.parametrize(("verb", "formula", "change", "error", "says"), CASES)
def test_a_bad_question_is_refused_with_the_cure_and_costs_nothing(verb, formula, change, error, says):
    ledger = ps.Ledger(ps.ApproxDP(50.0, 0.01))
    bins = {"bins": 3} if verb == "hist" else {}
    arguments = {"formula": formula, "data": DATA, "eps": 1.0, "domain": DOMAIN, "ledger": ledger, **bins, **change}
    with pytest.raises(error, match=says) as caught:
        VERBS[verb](**arguments)
    assert type(caught.value) is error
    assert "unexpected" not in str(caught.value) and "inside the gate" not in str(caught.value)
    assert "secret" not in str(caught.value) and "41.5" not in str(caught.value)
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    assert ledger.entries == ()


def params(verb, formula, eps=1e7, data=DATA, **options):
    return VERBS[verb](formula, data, eps, domain=DOMAIN, rng=1, **options).params


def test_formulas_of_columns_mean_what_they_say():
    means = params("mean", "x + np.log(z) + I(x ** 2) + I(x > 4)")
    assert list(means.index) == ["x", "np.log(z)", "I(x ** 2)", "I(x > 4)"]
    truth = [DATA["x"].mean(), np.log(DATA["z"]).mean(), (DATA["x"] ** 2).mean(), (DATA["x"] > 4).mean()]
    np.testing.assert_allclose(means, truth, rtol=1e-4)
    same = [params("mean", f) for f in ("x ~ g", "x ~ C(g)", "x ~ g - 1", "x ~ 0 + g", "x ~ C(g, Treatment('b'))")]
    truth = DATA.groupby("g")["x"].mean()
    for one in same:
        assert list(one.index) == [("x", "a"), ("x", "b")]
        np.testing.assert_allclose(one, truth, rtol=1e-3)
    np.testing.assert_allclose([params("mean", f).iloc[0] for f in ("~ x", "x ~ 1", "x")], DATA["x"].mean(), rtol=1e-4)
    mixed = params("median", "x + np.log(z) ~ h")
    assert list(mixed.index) == [("x", 1), ("x", 2), ("np.log(z)", 1), ("np.log(z)", 2)]
    assert mixed[("x", 1)] == pytest.approx(DATA["x"].median(), abs=0.3)


def test_numbers_of_numpy_are_numbers():
    for q in (np.float32(0.25), np.float64(0.25), [np.float32(0.25)], np.array([0.25]), np.array(0.25)):
        assert params("quantile", "x", q=q)["x"] == params("quantile", "x", q=0.25)["x"]
    several = params("quantile", "x", q=np.array([0.75, 0.25]))
    assert list(several.index) == [("x", 0.25), ("x", 0.75)]  # sorted
    assert several.is_monotonic_increasing
    pd.testing.assert_series_equal(several, params("quantile", "x", q=pd.Series([0.25, 0.75])))
    counts = params("hist", "x", bins=np.int64(4))
    pd.testing.assert_series_equal(counts, params("hist", "x", bins=np.linspace(0, 10, 5)))
    assert params("median", "x", grid=np.int64(2))["x"] % 2 == 0


@pytest.mark.parametrize(("n", "complete"), list(itertools.product((0, 1, 2, 3), (True, False))))
def test_few_rows_equal_rows_and_rows_at_the_bounds_are_answered(n, complete):
    domain = ps.Domain({"x": (0, 10), "g": ["a", "b"]}, complete=complete)
    for value in (0.0, 10.0, 4.0) if n > 0 else (4.0,):
        data = DATA.head(n).assign(x=value)
        for verb, formula, options in [
            ("median", "x", {}),
            ("median", "x ~ g", {"mech": "kng"}),
            ("quantile", "x", {"q": [0.1, 0.5]}),
            ("mean", "x", {}),
            ("mean", "x ~ g", {}),
            ("mode", "x", {"grid": 1}),
            ("hist", "x ~ g", {"bins": 2, "density": True}),
        ]:
            fit = VERBS[verb](formula, data, 1.0, domain=domain, rng=1, **options)
            assert np.isfinite(fit.params).all()
            assert verb == "hist" or fit.params.between(0, 10).all()
            if value == 4.0:
                assert fit.design.names[0] in str(fit.summary())
