"""Audits of mechanisms by their densities: the privacy loss between neighbours in a whole fit is at most the charge.

Data frames go through a public function. The law of each release, with its location and scale, is the law given to the
sampler (module `densities`). The privacy losses of all queries add up to at most the charge. For some neighbours they
add up to nearly the charge, so that a mechanism with half of its noise fails.
"""

import datetime
import decimal
import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from privstats.mechanisms.comparison.ptr import ProposeTestRelease
from privstats.mechanisms.comparison.smooth import Smooth
from tests.conftest import slow, thinned
from tests.every import CALLS, EPS, REPLACED, call
from tests.formula.test_cells import ZOO
from tests.laws.densities import Notes
from tests.laws.neighbours import transcripts, with_rows  # noqa: F401
from tests.laws.test_audits import CORNERS, MIXED, SETTINGS, data_of, odd_rows, supported

ROUNDING = 1e-6
MORE = {
    "mean of one": call("mean", "x", EPS),
    "one rank": call("median", "x", EPS, inference="none"),
    "ranks": call("quantile", "x", EPS, q=[0.2, 0.6], inference="none"),
    "ranks in stretches": call("quantile", "x", EPS, q=[0.2, 0.5, 0.7], mech="aq", inference="none"),
    "outer rank": call("quantile", "x ~ g", EPS, q=0.9),
    "logit split": call("glm", "b ~ 0 + x", EPS, mech="objpert", split=0.5, weights="w", inference="none"),
    "logit l1": call("glm", "b ~ x + g", EPS, mech="objpert", noise="l1", inference="none"),
    "logit bounded": call(
        "glm",
        "b ~ x + z",
        EPS,
        mech="objpert",
        theta_bound=1.0,
        ridge=0.5,
        split=0.5,
        inference="none",
        offset="y / 100",
    ),
    "rq expmech": call("rq", "y ~ x", EPS, mech="expmech"),
    "lm kng l1": call("lm", "y ~ x + z", EPS, mech="kng", noise="l1", weights="w"),
}
EVERY = {name: one for name, one in {**CALLS, **MORE}.items() if EPS in one.budgets}


def base(kind):
    """Return 40 rows of the named kind.

    The rows are random ("spread"), or lie in two clumps or at bounds, or are all equal, or have the weight zero. Except
    for random rows, the replacement of one row has a large effect.
    """
    data, n = data_of(1), 40
    half = np.arange(n) % 2 == 1
    more = np.arange(n) > n // 2  # true in 19 of the 40 rows, one row less than half

    def two(low, high, which=half):
        columns = {name: np.where(which, high[k], low[k]) for k, name in enumerate(["x", "y", "z", "count"])}
        return data.assign(**columns, g=np.where(which, "b", "a"), b=which, w=2.0)

    return {
        "spread": data,
        "clumps": two((20.0, 20.0, 2.0, 5), (80.0, 80.0, 8.0, 50)),
        "uneven": two((20.0, 20.0, 2.0, 5), (80.0, 80.0, 8.0, 50), more),
        "even": two((20.0, 20.0, 2.0, 5), (80.0, 80.0, 8.0, 50), np.arange(n) >= n // 2),
        "ends": two((0.0, 0.0, 0.0, 0), (100.0, 100.0, 10.0, 60)),
        "alike": two((50.0, 50.0, 5.0, 30), (50.0, 50.0, 5.0, 30), half & False),
        "low": two((0.0, 0.0, 0.0, 0), (0.0, 0.0, 0.0, 0), half & False),
        "weightless": data.assign(w=0.0),
    }[kind]


BASES = ("spread", "clumps", "uneven", "ends", "alike", "low", "weightless")


# a row with the values of one clump and the level of the other clump, and a row at a bound with a level of few rows
ACROSS = [
    {"y": 20.0, "x": 20.0, "z": 2.0, "g": "b", "b": True, "w": 2.0, "count": 5},
    {"y": 50.0, "x": 100.0, "z": 5.0, "g": "a", "b": True, "w": 2.0, "count": 5},
]


def neighbours_of(data, setting, rng):
    """Return frames in which one unit has other rows; the first frame is the given frame, or lacks the unit.

    The other rows lie at corners of the bounds, or combine the level of one clump of rows with the values of the other
    clump, or have missing values, undeclared levels, or values of any type and size.
    """
    places = np.flatnonzero(data["who"] == 2).tolist() if "persons" in setting else [3]
    kinds = [*CORNERS, *odd_rows(rng, 3), *MIXED]
    frames = []
    for row in [*kinds, *ACROSS]:
        others = [kinds[rng.integers(len(kinds))] if rng.random() < 0.5 else row for _ in places[1:]]
        frames.append(with_rows(data, places, [row, *others]))
    if come_and_go(setting):
        return [data.drop(index=places).astype(object).reset_index(drop=True), *frames]
    return [data.astype(object), *frames]


def come_and_go(setting):
    return setting in ("add_remove", "persons come and go")


def told_of(run, name, setting, budget, frames):
    """Return the inputs of the mechanisms for each frame; all frames receive the first frame's releases."""
    one = {**CALLS, **MORE}[name]
    return run(lambda data, **more: one(data, budget, rng=1, **{**SETTINGS[setting], **more}), frames)[0]


def pairs_of(frames, setting):
    """Return pairs of neighbours: any two frames, or if neighbours may lack a unit, the first frame and any other."""
    return [(frames[0], one) for one in frames[1:]] if come_and_go(setting) else itertools.combinations(frames, 2)


def losses_of(run, notes, name, setting, kind, eps):
    """Return the losses of all queries for all pairs of neighbours, and the guarantees of the queries."""
    frames = neighbours_of(base(kind), setting, np.random.default_rng([*name.encode(), *setting.encode()]))
    return losses_between(run, notes, name, setting, eps, frames)


def losses_between(run, notes, name, setting, eps, frames):
    given = told_of(run, name, setting, {"eps": eps}, frames)
    densities = [[notes(one) for one in frame] for frame in given]
    pairs = pairs_of(densities, setting)
    losses = [
        [sum(a.loss(b) for a, b in zip(*both, strict=True)) for both in zip(*pair, strict=True)] for pair in pairs
    ]
    return np.array(losses), np.array([one.promise.as_pure().eps for one in given[0]])


# for each mechanism, a case in which neighbours nearly reach the guarantee: call, setting, kind of data, eps, and share
# of eps that the privacy loss must reach
CASES = [
    ("median", "add_remove", "low", 1.0, 0.92),
    ("median", "replace", "clumps", 2.0, 0.85),
    ("median by group", "add_remove", "clumps", 1.0, 0.8),
    ("one rank", "add_remove", "uneven", 2.0, 0.95),
    ("ranks", "replace", "low", 0.5, 0.95),
    ("ranks in stretches", "add_remove", "uneven", 2.0, 0.9),
    ("outer rank", "add_remove", "clumps", 1.0, 0.95),
    ("quantiles", "persons", "low", 2.0, 0.9),
    ("quantiles", "add_remove", "ends", 0.5, 0.9),
    ("quantiles on a grid", "persons", "uneven", 2.0, 0.9),
    ("median duff", "persons come and go", "uneven", 2.0, 0.95),
    ("median cauchy", "add_remove", "low", 4.0, 0.75),
    ("point", "persons come and go", "low", 0.5, 0.9),
    ("mean duff", "replace", "low", 1.0, 0.8),
    ("mode", "replace", "spread", 1.0, 0.99),
    ("mode by group", "persons", "clumps", 1.0, 0.99),
    ("mode expmech", "replace", "alike", 1.0, 0.99),
    ("hist", "persons come and go", "alike", 1.0, 0.99),
    ("hist of levels", "replace", "clumps", 1.0, 0.99),
    ("density by group", "add_remove", "spread", 1.0, 0.99),
    ("lm kng", "add_remove", "alike", 2.0, 0.8),
    ("lm objpert", "add_remove", "spread", 1.0, 0.93),  # one row increases both counts of rare values
    ("lm huber objpert", "add_remove", "ends", 2.0, 0.92),
    ("poisson eps", "add_remove", "alike", 100.0, 0.95),
    ("gamma eps", "add_remove", "low", 8.0, 0.93),
    ("lm expmech", "replace", "ends", 8.0, 0.7),
    ("rq", "replace", "ends", 1.0, 0.8),
    ("rq expmech", "replace", "ends", 8.0, 0.7),
    ("logit", "persons come and go", "spread", 100.0, 0.95),
    ("logit split", "add_remove", "weightless", 0.5, 0.8),
    ("logit l1", "replace", "clumps", 4.0, 0.8),
    ("logit bounded", "add_remove", "spread", 1.0, 0.7),
    ("rq objpert", "persons come and go", "alike", 30.0, 0.93),
    ("mean of one", "replace", "alike", 4.0, 0.99),  # this fit asks the optional query "spread"
]


@thinned(3)
@pytest.mark.parametrize(("name", "setting", "kind", "eps", "power"), CASES)
def test_no_neighbours_tell_all_releases_apart_beyond_the_price_and_some_nearly_reach_it(
    transcripts,  # noqa: F811
    monkeypatch,
    name,
    setting,
    kind,
    eps,
    power,
):
    losses, promises = losses_of(transcripts, Notes(monkeypatch), name, setting, kind, eps)
    assert (losses <= promises * (1 + ROUNDING)).all()
    assert power * eps <= losses.sum(axis=1).max() <= eps * (1 + ROUNDING)


ALL = [
    (name, setting, BASES[(k + 2 * j) % len(BASES)], (1.0, 8.0)[(k + j) % 2])
    for k, name in enumerate(EVERY)
    for j, setting in enumerate(SETTINGS)
    if supported(name, setting)
]


@pytest.mark.parametrize(("name", "setting", "kind", "eps"), [slow(*case) for case in ALL])
def test_no_neighbours_tell_the_releases_of_any_call_apart_beyond_the_price(
    transcripts,  # noqa: F811
    monkeypatch,
    name,
    setting,
    kind,
    eps,
):
    losses, promises = losses_of(transcripts, Notes(monkeypatch), name, setting, kind, eps)
    assert (losses <= promises * (1 + ROUNDING)).all()
    assert losses.sum(axis=1).max() <= eps * (1 + ROUNDING)


DELTAS = [
    ("median laplace", "add_remove", "alike", 1.0, 0.02, 0.85),
    ("median laplace", "replace", "even", 1.0, 1e-3, 0.4),
    ("median gaussian", "replace", "even", 1.0, 1e-3, 0.95),
    ("median ptr", "replace", "even", 4.0, 1e-3, 0.95),
    ("median ptr", "add_remove", "even", 4.0, 1e-3, 0.95),
]


@pytest.mark.parametrize(("name", "setting", "kind", "eps", "delta", "power"), DELTAS)
def test_noise_that_the_rows_scale_tells_neighbours_apart_with_the_delta_at_most(
    transcripts,  # noqa: F811
    monkeypatch,
    name,
    setting,
    kind,
    eps,
    delta,
    power,
):
    notes = Notes(monkeypatch)
    frames = neighbours_of(base(kind), setting, np.random.default_rng(3))
    given = told_of(transcripts, name, setting, {"eps": eps, "delta": delta}, frames)
    (k,) = (k for k, one in enumerate(given[0]) if isinstance(one.mechanism, Smooth | ProposeTestRelease))
    promise, laws = given[0][k].promise, [notes(frame[k])[0] for frame in given]
    largest = max(here.delta(there, promise.eps) for here, there in pairs_of(laws, setting))
    assert power * promise.delta <= largest <= promise.delta * (1 + 1e-4)


class Hostile:
    """An object in a cell of a data frame; all of its methods raise an error."""

    def _no(self, *_, **__):
        raise RuntimeError

    __eq__ = __hash__ = __float__ = __bool__ = __len__ = __iter__ = __array__ = __getattr__ = _no


def hostile(kind, *value, more):
    """Return a cell of a class that is derived from a built-in class and whose methods fail."""
    fails = dict.fromkeys(("__eq__", "__hash__", *more), Hostile._no)
    return type(kind.__name__, (kind,), fails)(*value)


HOSTILE = [
    hostile(float, 3.5, more=["__float__"]),
    hostile(int, 3, more=["__index__"]),
    hostile(str, "a", more=["__str__"]),
    hostile(bytes, b"a", more=["__bytes__"]),
    hostile(complex, 1, more=["__complex__"]),
    hostile(np.float64, 2.0, more=["astype"]),
    hostile(decimal.Decimal, "3", more=["__float__"]),
    hostile(datetime.datetime, 2020, 1, 1, more=["utcoffset", "__sub__"]),
    *(Hostile(), pd.Series([1, 2]), np.arange(3), np.ma.masked, pd.NA, 10**5000, "9" * 9999, " 3 ", "1_0", "\0"),
]


@thinned(3)
@pytest.mark.parametrize(
    ("name", "setting"),
    [
        slow("lm suffstats", "replace"),  # this fit has hull noise, for which the test takes a minute and a half
        ("lm weights", "add_remove"),
        ("median", "replace"),
        ("hist of levels", "add_remove"),
    ],
)
def test_one_cell_of_any_class_in_every_column_moves_no_more_than_its_row(
    transcripts,  # noqa: F811
    monkeypatch,
    name,
    setting,
):
    data = data_of(1)
    frames = [data.drop(index=3).reset_index(drop=True) if come_and_go(setting) else data]
    for cell in [*ZOO, *HOSTILE]:
        other = data.astype(object)
        for column in other:
            other[column] = pd.Series([cell if row == 3 else one for row, one in enumerate(data[column])], dtype=object)
        frames.append(other)
    given = told_of(transcripts, name, setting, {"eps": 1.0}, frames)
    notes = Notes(monkeypatch)
    first, *others = ([notes(one) for one in frame] for frame in given)
    for other in others:
        losses = [sum(a.loss(b) for a, b in zip(*both, strict=True)) for both in zip(first, other, strict=True)]
        assert sum(losses) <= 1.0 + ROUNDING


def mu_of_all(losses, normal):
    """Return the joint guarantee, in mu, of shifts of normal noise and of losses of pure mechanisms."""
    pure = -2 * stats.norm.ppf(special.expit(-np.where(normal, 0.0, losses)))
    return np.sqrt((np.where(normal, losses, pure) ** 2).sum(axis=1))


MIXED_CASES = [
    ("rq newton", "add_remove", "even", 8.0, 0.85),
    ("rq", "add_remove", "even", 8.0, 0.85),
    ("logit newton", "add_remove", "spread", 8.0, 0.95),
    ("poisson", "add_remove", "even", 8.0, 0.95),
    ("median by group", "replace", "clumps", 1.0, 0.8),
]
ALL_MU = [
    (name, setting, BASES[(k + 2 * j) % len(BASES)], (1.0, 8.0)[(k + j) % 2], 0.0)
    for k, name in enumerate(CALLS)
    for j, setting in enumerate(SETTINGS)
    if {"mu": 1.0} in CALLS[name].budgets and supported(name, setting)
]


@thinned(2)
@pytest.mark.parametrize(("name", "setting", "kind", "mu", "power"), [*MIXED_CASES, *(slow(*case) for case in ALL_MU)])
def test_pure_and_normal_answers_together_shift_by_at_most_mu(
    transcripts,  # noqa: F811
    monkeypatch,
    name,
    setting,
    kind,
    mu,
    power,
):
    if setting == "add_remove" and name in REPLACED:
        pytest.skip("rows are replaced")
    frames = neighbours_of(base(kind), setting, np.random.default_rng([*name.encode(), *setting.encode()]))
    given = told_of(transcripts, name, setting, {"mu": mu}, frames)
    notes = Notes(monkeypatch)
    densities = [[notes(one) for one in frame] for frame in given]
    losses = np.array(
        [
            [sum(a.loss(b) for a, b in zip(*both, strict=True)) for both in zip(*pair, strict=True)]
            for pair in pairs_of(densities, setting)
        ]
    )
    normal = np.array([one.mechanism.normal for one in given[0]])
    claims = [one.promise.mu if one.mechanism.normal else one.promise.as_pure().eps for one in given[0]]
    assert (losses <= np.array(claims) * (1 + ROUNDING)).all()
    assert power * mu <= mu_of_all(losses, normal).max() <= mu * (1 + ROUNDING)
