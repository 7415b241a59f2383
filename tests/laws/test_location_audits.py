"""Audits of medians, means, modes and histograms through the public verbs: raw neighbouring frames, realised prices."""

import dataclasses
import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import privstats as ps
from privstats.mechanisms.random import public_stream
from privstats.older.numerics.exact import Total
from tests.conftest import norm_of

RELATIONS = ("replace", "add_remove")
relations = pytest.mark.parametrize("neighbors", RELATIONS)

# --- exact answers of neighbouring frames -----------------------------------------------------------------------------

BOUNDS = {"x": (-2, 6), "z": (0, 10), "g": ["a", "b", "c"]}
ROWS = [
    *((x, z, g) for x in (-2, 2, 6) for z, g in ((0, "a"), (10, "b"))),
    (np.nan, 10, "a"),
    (np.inf, None, "zz"),
    ("text", -np.inf, None),
    (True, 1e308, "b"),
    (pd.Timestamp("2020-01-01"), "7", 0),
]
CALLS = {
    "mean": lambda data, **more: ps.dp_mean("x + z", data, **more),
    "mean by group": lambda data, **more: ps.dp_mean("x + z ~ g", data, **more),
    "hist": lambda data, **more: ps.dp_hist("x", data, bins=[-2, 0, 2, 6], **more),
    "hist of levels": lambda data, **more: ps.dp_hist("g", data, bins=None, **more),
    "hist by group": lambda data, **more: ps.dp_hist("x ~ g", data, bins=4, **more),
    "mode": lambda data, **more: ps.dp_mode("g", data, **more),
    "median": lambda data, **more: ps.dp_median("x + z", data, **more),
    "median by group": lambda data, **more: ps.dp_median("x ~ g", data, **more),
    "point": lambda data, **more: ps.dp_median("x + z", data, geometric=True, **more),
    "quantiles": lambda data, **more: ps.dp_quantile("x", data, q=[0.2, 0.7], mech="duff", **more),
}
NOISES = {
    "mean": [{"mech": "knorm", "noise": noise} for noise in ("l1", "l2", "linf")],
    "mean by group": [{"mech": "knorm", "noise": noise} for noise in ("l1", "l2", "linf")],
    "hist": [{"mech": "knorm", "noise": noise} for noise in ("l1", "l2", "linf")],
}


def base(n=9):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": rng.uniform(-2, 6, n), "z": rng.uniform(0, 10, n), "g": rng.choice(["a", "b", "c"], n)})


def with_rows(data, *rows):
    more = pd.DataFrame(list(rows), columns=["x", "z", "g"], dtype=object)
    return pd.concat([data.astype(object), more], ignore_index=True)


@pytest.fixture
def heard(recorded):
    """Run a call; return what the real run told each mechanism, and the turns that were planned."""

    def run(call):
        del recorded[:]
        fit = call()
        return recorded[-len(fit.releases) :], fit

    return run


def values(exact):
    """The values of an answer that is a collection, as a multiset."""
    held = exact.values()
    return Counter(map(tuple, (held[:, None] if held.ndim == 1 else held).tolist()))


def changed(here, there):
    """How many values one must remove from, and add to, a multiset to reach another."""
    return (here - there).total(), (there - here).total()


COMPLETE = [(verb, flag) for verb in CALLS for flag in (False, True) if not flag or verb in ("mean", "median", "point")]


@pytest.mark.parametrize(("verb", "complete"), COMPLETE)
@relations
def test_no_neighbouring_frame_moves_an_exact_answer_beyond_the_claim(heard, verb, neighbors, complete):
    domain = ps.Domain(BOUNDS, complete=complete)

    def told(data, options):
        return heard(lambda: CALLS[verb](data, eps=1.0, domain=domain, neighbors=neighbors, **options))

    every = NOISES.get(verb, [{}])
    tried = [[exact for _, exact, _ in told(with_rows(base(), row), every[0])[0]] for row in ROWS]
    for options in every:
        heard_, fit = told(base(), options)
        without, claims = zip(*((exact, claim) for _, exact, claim in heard_), strict=True)
        pairs = [(a, b) for a in tried for b in tried] if neighbors == "replace" else [(without, b) for b in tried]
        for here, there in pairs:
            steps = [distance(*both) for both in zip(here, there, claims, strict=True)]
            for name, cells in by_question(fit, steps).items():
                # each cell is priced for one row that enters or leaves: neighbours are so many such steps apart in all
                most = 1 + (neighbors == "replace") if name in grouped_questions(fit) else 1
                assert sum(cells) <= most * (1 + 1e-12)
        assert bool(grouped_questions(fit)) == ("group" in verb)


def by_question(fit, numbers):
    """Lists of what belongs to each question; a question that is asked of each group is one."""
    lists = {}
    for release, number in zip(fit.releases, numbers, strict=True):
        lists.setdefault(release.name.split(", group ")[0], []).append(number)
    return lists


def grouped_questions(fit):
    return {release.name.split(", group ")[0] for release in fit.releases if ", group " in release.name}


def distance(here, there, claim):
    """How far apart two exact answers are, in units of the claimed sensitivity."""
    if isinstance(here, Total):
        return norm_of(claim)((claim.weights * (here.value() - there.value()))[None])[0] / claim.size
    for exact in (here, there):
        assert ((exact.values() >= claim.low) & (exact.values() <= claim.high)).all()
    lost, gained = changed(values(here), values(there))
    assert lost == gained or not claim.counted
    return max(lost, gained) if claim.kind == "replace" else lost + gained


@pytest.mark.parametrize("verb", [verb for verb in CALLS if "group" in verb])
@relations
@pytest.mark.parametrize("rows", [1, 3])
def test_groups_cost_together_what_the_steps_of_one_unit_cost_in_one_of_them(heard, verb, neighbors, rows):
    units = {"unit": "who", "rows_per_unit": rows}
    data = with_rows(base(40)).assign(who=np.arange(40) // 2)
    told, fit = heard(lambda: CALLS[verb](data, eps=1.0, domain=BOUNDS, neighbors=neighbors, **units))
    assert all(sensitivity.kind == "add_remove" for *_, sensitivity in told if hasattr(sensitivity, "kind"))
    assert all(getattr(sensitivity, "rows", 1) == 1 for *_, sensitivity in told)
    steps = rows * (2 if neighbors == "replace" else 1)
    prices = by_question(fit, [release.event.pure() for release in fit.releases])
    paid = sum((steps if name in grouped_questions(fit) else 1) * max(cells) for name, cells in prices.items())
    assert paid == pytest.approx(1.0, rel=1e-6)


@relations
def test_rows_of_one_unit_beyond_its_allowance_change_nothing_and_those_within_it_one_step_each(heard, neighbors):
    def told(rows):
        data = with_rows(base(), *([(6, 10, "a"), (-2, 0, "b")] * 4)[:rows]).assign(who=[*range(9), *[99] * rows])
        options = {"unit": "who", "rows_per_unit": 2, "neighbors": neighbors, "domain": BOUNDS}
        return heard(lambda: ps.dp_median("x ~ g", data, 1.0, **options))[0]

    gaps = [
        sum(sum(changed(values(a[1]), values(b[1]))) for a, b in zip(told(0), told(k), strict=True)) for k in (1, 2, 8)
    ]
    assert gaps == [1, 2, 2]


def test_cells_of_one_round_are_disjoint_and_hold_every_row_whatever_was_released_before(heard):
    rng = np.random.default_rng(5)
    ties = rng.integers(0, 5, 500) * 2.0  # values on the cuts themselves, and on the bounds
    data = pd.DataFrame({"x": ties - 2, "z": 0.0, "g": rng.choice(["a", "b", "c"], 500)})
    for seed in range(3):
        (told, _) = heard(
            lambda seed=seed: ps.dp_quantile(
                "x ~ g", data, 2.0, q=[0.1, 0.2, 0.4, 0.5, 0.6, 0.8, 0.9], mech="aq", grid=2, inference="none",
                domain=BOUNDS, rng=seed,
            )
        )  # fmt: skip
        sizes = [len(exact.values()) for _, exact, _ in told]
        assert [sum(sizes[:3]), sum(sizes[3:9]), sum(sizes[9:21])] == [500] * 3
        for _, exact, sensitivity in told:
            assert sensitivity.low <= sensitivity.high
            assert ((exact.values() >= sensitivity.low) & (exact.values() <= sensitivity.high)).all()


# --- order, chunks and index ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["mean by group", "hist", "median by group", "point"])
def test_neither_order_nor_chunks_nor_index_of_the_rows_matter(heard, verb, monkeypatch):
    data = base(300)
    shuffled = data.sample(frac=1.0, random_state=1)

    def told(frame):
        answers = heard(lambda: CALLS[verb](frame, eps=1.0, domain=BOUNDS, rng=1))[0]
        return [exact.units if isinstance(exact, Total) else values(exact) for _, exact, _ in answers]

    whole = told(data)
    assert told(shuffled) == whole
    assert told(data.set_index(np.zeros(300))) == whole
    monkeypatch.setattr("privstats.older.gate.rows.BLOCK_ROWS", 7)
    assert told(data) == whole
    monkeypatch.setattr("privstats.older.gate.rows.KEPT", 0)
    assert told(shuffled) == whole


# --- seeds ------------------------------------------------------------------------------------------------------------


def test_groups_columns_orders_and_calls_share_no_noise_and_a_call_repeats_itself():
    data = pd.DataFrame({"x": np.full(60, 2.0), "z": np.full(60, 2.0), "g": ["a", "b", "c"] * 20})
    domain = {"x": (-2, 6), "z": (-2, 6), "g": ["a", "b", "c"]}

    def numbers(**change):
        call = {"formula": "x + z ~ g", "q": [0.4, 0.6], "mech": "duff", "eps": 0.1, "rng": 1, **change}
        fit = ps.dp_quantile(call.pop("formula"), data, domain=domain, **call)
        return np.concatenate([release.value for release in fit.releases]).tolist()

    first = numbers()
    assert first == numbers()
    changes = [{"rng": 2}, {"eps": 0.1001}, {"q": [0.4, 0.5]}, {"mech": "aq"}, {"neighbors": "add_remove"}]
    changes += [{"formula": "z + x ~ g"}, {"subset": "x > 0"}, {"confidence": 0.9}, {"grid": 2.0**-20}]
    everything = first + [value for change in changes for value in numbers(**change)]
    assert len(set(everything)) >= 0.97 * len(everything)  # on a grid of 2^24 points, some at the bounds


# --- realised prices --------------------------------------------------------------------------------------------------

DRAWS = 1000
PAIRS = {  # neighbours that move mechanisms far, on the grid 0, 1, ..., 64
    ("rank", "replace"): ([0, 0, 32, 32, 32, 64], [0, 0, 0, 32, 32, 32]),
    ("kng", "replace"): ([0, 0, 32, 32, 32, 64], [0, 0, 0, 32, 32, 32]),
    ("smoothsens", "replace"): ([0, 0, 32, 32, 32, 64], [0, 0, 0, 32, 32, 32]),
}


def draws(mechanism, exact, sensitivity, stream, multiplier):
    noisy = dataclasses.replace(mechanism, multiplier=multiplier * mechanism.multiplier)
    chance = public_stream(stream)
    return np.array([noisy.release("audit", exact, sensitivity, chance).value.sum() for _ in range(DRAWS)])


def surely(true, false):
    """A lower bound, at confidence 99 %, on the eps that events ``value <= t`` and ``value > t`` realise."""
    level, best = 0.01 / 40, -math.inf
    for t in np.quantile(np.concatenate([true, false]), np.linspace(0.05, 0.95, 10)):
        for here, there in ((true, false), (false, true)):
            for hits, alarms in (((here <= t).sum(), (there <= t).sum()), ((here > t).sum(), (there > t).sum())):
                power = stats.beta.ppf(level, hits, DRAWS - hits + 1) if hits else 0.0
                size = stats.beta.ppf(1 - level, alarms + 1, DRAWS - alarms) if alarms < DRAWS else 1.0
                best = max(best, math.log(max(power, 1e-12) / size))
    return best


@pytest.mark.parametrize(("mech", "neighbors"), PAIRS)
def test_the_best_test_between_two_frames_does_not_beat_the_claim_but_does_once_the_noise_is_a_third(
    heard, mech, neighbors
):
    call = {
        "mech": mech,
        "eps": 1.0,
        "grid": 1.0,
        "domain": {"x": (0, 64)},
        "neighbors": neighbors,
        "inference": "none",
    }
    frames = [pd.DataFrame({"x": np.array(frame, dtype=float)}) for frame in PAIRS[mech, neighbors]]
    told = [heard(lambda data=data: ps.dp_median("x", data, **call))[0][0] for data in frames]
    honest, cut = (
        surely(*(draws(*one, stream, multiplier) for stream, one in enumerate(told))) for multiplier in (1, 1 / 3)
    )
    assert honest <= 1.0 < cut
