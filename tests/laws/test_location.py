"""Means, quantiles, modes and histograms: agreement with numpy and pandas at large budgets, and contents of results."""

import pickle

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from tests.conftest import alike, thinned

VERBS = {
    "median": (ps.dp_median, {}),
    "quantile": (ps.dp_quantile, {"q": [0.25, 0.5, 0.75]}),
    "mean": (ps.dp_mean, {}),
    "mode": (ps.dp_mode, {"grid": 1}),
    "hist": (ps.dp_hist, {"bins": [0, 2, 4, 12]}),
}
SMOOTH = ("cauchy", "laplace", "laplaceln", "gaussian")
QUANTILES = [("rank", None), ("duff", None), ("kng", None), ("ptr", None), *(("smoothsens", noise) for noise in SMOOTH)]
SUMS = [("laplace", None), ("gaussian", None), *(("knorm", noise) for noise in ("l1", "l2", "linf"))]
ALL = [
    *((verb, *case) for verb in ("median", "quantile") for case in QUANTILES),
    *(("mean", *case) for case in [*SUMS, ("clipped", None), ("duff", None)]),
    *(("mode", mech, None) for mech in ("permute_and_flip", "expmech", "duff")),
    *(("hist", *case) for case in SUMS),
]
COLUMN = {"mode": "k"}  # the other functions use column x
DOMAIN = {"x": (0, 12), "z": (1, 5), "k": (0, 9), "g": ["a", "b", "c"]}
every = pytest.mark.parametrize(("verb", "mech", "noise"), ALL)
ONE = list({case[:2]: case for case in reversed(ALL)}.values())[::-1]  # one kind of noise for each algorithm
one_noise = pytest.mark.parametrize(("verb", "mech", "noise"), ONE)
# pairs of function and algorithm that give no intervals
BARE = [("mode", mech) for verb, mech, _ in ALL if verb == "mode"] + [("mean", "duff")]
with_intervals = pytest.mark.parametrize(("verb", "mech", "noise"), [case for case in ONE if case[:2] not in BARE])
LIMIT, MOST_MU = 1e8, 1e4
COMPONENTS = {"median": [None], "mean": [None], "mode": [None], "quantile": [0.25, 0.5, 0.75]}
COMPONENTS["hist"] = ["[0, 2)", "[2, 4)", "[4, 12]"]


def may_fail(mech, noise):
    return mech == "ptr" or (mech == "smoothsens" and noise != "cauchy")


def paid(mech, noise, eps):
    """Return a budget of the given size, in a kind of guarantee that the noise supports."""
    if "gaussian" in (mech, noise) and mech != "smoothsens":
        return {"mu": min(eps, MOST_MU)}
    return {"eps": eps, "delta": 1e-6} if may_fail(mech, noise) else {"eps": eps}


def frame(n=1501, seed=0):
    rng = np.random.default_rng(seed)
    g = np.array(list("abc"))[np.arange(n) * 7 // 3 % 3]
    x = rng.gamma(2, 1.2, n).clip(0, 12) + (g == "b")
    return pd.DataFrame({"x": x, "z": rng.uniform(1, 5, n), "k": rng.binomial(9, 0.3, n) + 0.0, "g": g})


def run(verb, mech, noise, data=None, by="", eps=LIMIT, **options):
    function, own = VERBS[verb]
    eta = {"eta": 5.0} if mech == "ptr" else {}
    arguments = {"domain": DOMAIN, "rng": 1, **own, **eta, **paid(mech, noise, eps), **options}
    return function(COLUMN.get(verb, "x") + by, frame() if data is None else data, mech=mech, noise=noise, **arguments)


def apart(verb, mech):
    """Return whether estimates and interval limits are drawn separately."""
    return verb in ("median", "quantile") and mech != "rank"


def slack(verb, mech, noise):
    """Return the allowed distance of an estimate from the result without privacy.

    Under a guarantee with a delta, noise does not vanish at large budgets. Duff's mean may be the mean of data with one
    changed row.
    """
    one_row = 12 / 200  # the range of the column divided by the number of rows in the smallest group
    if mech == "clipped":
        return 0.02  # the remaining effect of clipping, a fifth of a std error
    return 0.03 if may_fail(mech, noise) else one_row if (verb, mech) == ("mean", "duff") else 1e-5


def between(values, q, slack=1.5):
    """Return two order statistics around the q-quantile, which allow for different definitions of a quantile."""
    ordered, rank = np.sort(values), q * len(values)
    low, high = max(0, int(np.floor(rank - slack))), min(len(ordered) - 1, int(np.ceil(rank + slack)) - 1)
    return ordered[low], ordered[high]


def assert_is_limit(verb, params, values, slack=1e-5):
    """Compare the results of one column, in one group, with numpy's."""
    values = np.asarray(values)
    if verb in ("median", "quantile"):
        for value, q in zip(params, [0.5] if verb == "median" else COMPONENTS["quantile"], strict=True):
            low, high = between(values, q)
            assert low - slack <= value <= high + slack
        return
    theirs = {
        "mean": lambda: [values.mean()],
        "mode": lambda: [pd.Series(values).mode()[0]],
        "hist": lambda: np.histogram(values, VERBS["hist"][1]["bins"])[0],
    }[verb]()
    np.testing.assert_allclose(params, theirs, rtol=1e-5, atol=max(slack, 1e-3))


@thinned(8)
@every
@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
def test_the_limit_of_a_large_budget_is_that_of_numpy(verb, mech, noise, neighbors):
    data = frame()
    fit = run(verb, mech, noise, neighbors=neighbors)
    assert_is_limit(verb, fit.params.to_numpy(), data[COLUMN.get(verb, "x")], slack(verb, mech, noise))
    if neighbors == "replace" and may_fail(mech, noise):
        return  # a replaced row that changes its group changes two groups, and each change takes a part of delta
    grouped = run(verb, mech, noise, by=" ~ g", neighbors=neighbors)
    for number, level in enumerate("abc"):
        each = len(COMPONENTS[verb])
        mine = grouped.params.to_numpy()[number * each : (number + 1) * each]
        assert_is_limit(verb, mine, data.loc[data["g"] == level, COLUMN.get(verb, "x")], slack(verb, mech, noise))


@thinned(3)
@one_noise
def test_rows_that_are_missing_or_not_asked_about_do_not_count(verb, mech, noise):
    data, column = frame(), COLUMN.get(verb, "x")
    data.loc[::5, column] = np.nan
    data.loc[1::9, "g"] = "elsewhere"
    kept = data[data[column].notna() & (data["z"] > 2)]
    fit = run(verb, mech, noise, data, subset="z > 2")
    assert_is_limit(verb, fit.params.to_numpy(), kept[column], slack(verb, mech, noise))
    assert "z > 2" in str(fit.summary())
    assert fit.nobs == len(data)  # the number of all given rows is public
    some = kept[kept["g"] == "b"]
    # a replaced row that changes its group would change two groups, and each change would take a part of delta
    neighbors = "add_remove" if may_fail(mech, noise) else "replace"
    grouped = run(verb, mech, noise, data, by=" ~ g", subset="z > 2", neighbors=neighbors)
    each = len(COMPONENTS[verb])
    assert_is_limit(verb, grouped.params.to_numpy()[each : 2 * each], some[column], slack(verb, mech, noise))


@one_noise
def test_units_are_persons_with_several_rows(verb, mech, noise):
    data, column = frame().assign(person=np.arange(1501) // 3), COLUMN.get(verb, "x")
    data["x"] = data["x"].clip(0, 12)
    data.loc[2::3, column] = np.nan  # a row with a missing value does not count
    fit = run(verb, mech, noise, data, unit="person", rows_per_unit=2)
    assert_is_limit(verb, fit.params.to_numpy(), data[column].dropna(), slack(verb, mech, noise))
    assert str(fit.guarantee.neighbors) == "replace one person"
    # std errors are given for counts, whose errors are noise alone, and clipped means, which sum the scores of each
    # person
    own = verb == "hist" or mech == "clipped"
    assert fit.bse.isna().all() or own
    crowded = alike(data, "person", 3)
    single = run(verb, mech, noise, crowded, unit="person")
    first = crowded.groupby("person").head(1)[column]
    assert_is_limit(verb, single.params.to_numpy(), first, slack(verb, mech, noise))
    assert (verb, mech) in BARE or single.conf_int().notna().all(axis=None)
    assert single.bse.isna().all() == ((verb, mech) in BARE or apart(verb, mech))


@thinned(4)
@one_noise
@pytest.mark.parametrize("by", ["", " ~ g"])
def test_results_keep_the_contract_of_their_tables(verb, mech, noise, by):
    fit = run(verb, mech, noise, by=by, eps=8.0)
    column, levels = COLUMN.get(verb, "x"), "abc" if by else [None]
    many = len(COMPONENTS[verb]) * len(levels)
    table = fit.tidy()
    assert len(table) == len(fit.params) == many
    for other in (fit.bse, fit.conf_int(), fit.cov_params(), fit.noise_share):
        assert other.index.equals(fit.params.index)
    if many == 1:
        assert list(fit.params.index) == [column]
    else:
        assert len(set(fit.params.index)) == many
    glance = fit.glance().loc[0]
    assert glance["method"] == mech
    text = fit.summary().as_text()
    for word in (column, mech, "replace one row", "1,501"):
        assert word in text
    assert all(len(line) <= 80 for line in text.splitlines() if "(" not in line)
    assert len(fit.releases) >= 1


@with_intervals
def test_intervals_are_nested_and_hold_what_is_near_the_estimate(verb, mech, noise):
    fit = run(verb, mech, noise, eps=8.0)
    centre = fit.params
    if apart(verb, mech):  # the estimate may lie outside its interval
        released = fit.conf_int(0.05)
        centre = centre.clip(released.iloc[:, 0], released.iloc[:, 1])
    shorter = fit.conf_int(0.999)
    for alpha in (0.5, 0.05, 0.01):
        longer = fit.conf_int(alpha)
        low, high = longer.iloc[:, 0], longer.iloc[:, 1]
        known = low.notna() & shorter.iloc[:, 0].notna()
        assert (low <= shorter.iloc[:, 0] + 1e-12)[known].all()
        assert (shorter.iloc[:, 1] <= high + 1e-12)[known].all()
        assert ((low <= centre + 1e-12) & (centre <= high + 1e-12))[known & centre.notna()].all()
        shorter = longer
    assert fit.noise_share.dropna().between(0, 1).all()


@with_intervals
def test_without_inference_intervals_are_nan_and_say_why(verb, mech, noise):
    fit = run(verb, mech, noise, eps=8.0, inference="none")
    assert fit.params.notna().all()
    for nothing in (fit.bse, fit.conf_int().stack(future_stack=True)):
        assert nothing.isna().all()
    assert "inference='none'" in str(fit.summary())
    assert not any(release.name.startswith("interval") for release in fit.releases)  # no budget is spent on intervals


@thinned(3)
@one_noise
def test_no_planted_value_survives_in_a_pickle_and_the_copy_still_works(verb, mech, noise):
    canaries = (7.918273645, 1.726354819)
    data = frame()
    data.loc[5, ["x", "z"]] = canaries
    fit = run(verb, mech, noise, data, by=" ~ g", eps=1.0)
    bytes_ = pickle.dumps(fit)
    assert not any(np.float64(canary).tobytes() in bytes_ or str(canary).encode() in bytes_ for canary in canaries)
    copy = pickle.loads(bytes_)
    pd.testing.assert_series_equal(copy.params, fit.params)
    pd.testing.assert_frame_equal(copy.conf_int(), fit.conf_int())
    assert str(copy.summary()) == str(fit.summary())


@thinned(3)
@one_noise
def test_the_same_seed_repeats_and_different_calls_differ(verb, mech, noise):
    base = run(verb, mech, noise, eps=1.0)
    pd.testing.assert_frame_equal(run(verb, mech, noise, eps=1.0).tidy(), base.tidy())
    assert "not private" in str(base.summary())
    assert "seeded" not in str(run(verb, mech, noise, eps=1.0, rng=None).summary())
    if (verb, mech) not in BARE and not base.params.isna().any():
        for other in (run(verb, mech, noise, eps=1.0, rng=2), run(verb, mech, noise, eps=1.0 + 1e-6)):
            assert (other.params != base.params).any()
