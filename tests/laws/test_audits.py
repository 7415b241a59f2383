"""Audits through the public functions: between neighbours, no mechanism's input moves by more than the sensitivity."""

import itertools

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from tests.architecture.leaks import frame
from tests.conftest import slow, thinned
from tests.every import CALLS, DOMAIN, REPLACED, ROWS_APART
from tests.laws.neighbours import step, transcripts, with_rows  # noqa: F401

ODD = [np.nan, np.inf, -np.inf, 1e308, -7, "text", None, True, pd.Timestamp("2020-01-01"), 1j, -0.0, 5e-324]
ENDS = itertools.product((0, 100), (0, 100), (0, 10))
WEIGHTS = itertools.cycle([(2, 60), (0, 0), (2, 0)])
CORNERS = [
    {"y": y, "x": x, "z": z, "g": g, "b": z > 5, "w": w, "count": count}
    for (y, x, z), g, (w, count) in zip(ENDS, "abbaabba", WEIGHTS, strict=False)
]
MIXED = [{"y": 50, "x": 5, "z": 2.5, "g": "zz", "b": None, "w": 1, "count": 3}]


def odd_rows(rng, many):
    """Return rows with some values that are outside the bounds or of a wrong type."""
    rows = []
    for _ in range(many):
        row = dict(CORNERS[rng.integers(len(CORNERS))])
        for name in rng.choice(list(row), 3, replace=False):
            row[name] = ODD[rng.integers(len(ODD))]
        rows.append(row)
    return rows


SETTINGS = {
    "replace": {},
    "add_remove": {"neighbors": "add_remove"},
    "complete": {"domain": ps.Domain(DOMAIN, complete=True)},
    "persons": {"unit": "who", "rows_per_unit": 3},
    "persons come and go": {"unit": "who", "rows_per_unit": 2, "neighbors": "add_remove"},
}


def supported(name, setting):
    """Return whether a call accepts a setting; some calls are refused if a person may have several rows."""
    return not ("persons" in setting and ("nonrobust" in name or name in ROWS_APART))


CASES = [(name, setting) for name in CALLS for setting in SETTINGS if supported(name, setting)]
FEW = [case for number, case in enumerate(CASES) if number % 3 == 0]


def data_of(seed):
    """Return 40 rows inside the domain, of persons with four rows each."""
    rng = np.random.default_rng(seed)
    data = frame(40).sample(frac=1.0, random_state=seed, ignore_index=True)
    return data.assign(y=rng.uniform(0, 100, 40), x=rng.uniform(0, 100, 40), who=np.arange(40) // 4)


def neighbours_of(data, setting, rng, many):
    """Return frames, any two of which are neighbours; under "add_remove", the first frame lacks the unit's rows."""
    places = [k for k in range(len(data)) if data["who"][k] == 2] if "persons" in setting else [3]
    kinds = [CORNERS[k] for k in rng.permutation(len(CORNERS))[:many]] + odd_rows(rng, many) + MIXED
    frames = []
    for row in kinds:
        others = [kinds[rng.integers(len(kinds))] for _ in places[1:]]
        frames.append(with_rows(data, places, [row, *others]))
    if setting in ("add_remove", "persons come and go"):
        return [data.drop(index=places).astype(object).reset_index(drop=True), *frames]
    return frames


def farthest(given, come_and_go):
    """Return, for each query, the largest distance of its answers for two frames, in units of the sensitivity.

    The maximum is over all pairs of frames. If neighbours differ by the presence of a unit (`come_and_go`), it is over
    the pairs of the first frame, which lacks the unit, with each other frame.
    """
    pairs = [(given[0], one) for one in given[1:]] if come_and_go else itertools.combinations(given, 2)
    return np.max([[step(*both) for both in zip(*pair, strict=True)] for pair in pairs], axis=0)


@thinned(4)
@pytest.mark.parametrize(("name", "setting"), [case if case in FEW else slow(*case) for case in CASES])
def test_no_neighbouring_frame_moves_what_a_mechanism_is_given_beyond_the_claim(transcripts, name, setting):  # noqa: F811
    if setting == "add_remove" and name in REPLACED:
        pytest.skip("rows are replaced")
    rng = np.random.default_rng([CASES.index((name, setting)), 1])
    frames = neighbours_of(data_of(1), setting, rng, 4)

    def call(data, **more):
        return CALLS[name](data, CALLS[name].generous, rng=1, **{**SETTINGS[setting], **more})

    given, _ = transcripts(call, frames)
    steps = farthest(given, setting in ("add_remove", "persons come and go"))
    assert steps.max() <= 1 + 1e-12
    assert steps.max() >= 0.3  # if all neighbours moved less, the audit would detect few errors


@pytest.mark.parametrize("verb", ["lm", "glm", "rq"])
def test_the_sizes_of_the_sums_of_a_person_move_by_no_more_than_they_claim(transcripts, verb):  # noqa: F811
    formula, response = ("b ~ x", "b") if verb == "glm" else ("y ~ x", "y")
    rng = np.random.default_rng(5)
    data = pd.DataFrame({"x": rng.uniform(0, 100, 400), "y": rng.uniform(0, 100, 400), "who": np.arange(400) // 4})
    data = data.assign(b=rng.uniform(size=400) < 0.5).astype({"b": object})
    own = np.flatnonzero(data["who"] == 7).tolist()
    values = [True, False] if verb == "glm" else [0.0, 100.0]
    kinds = [{"x": x, response: y} for x in (0.0, 50.0, 100.0) for y in values] + [{"x": np.nan, response: "odd"}]
    frames = [with_rows(data, own, [kind] * 4) for kind in kinds]
    frames += [with_rows(data, own, [kinds[0], kinds[-1], kinds[1], kinds[2]])]

    def call(data, **more):
        known = {"x": (0, 100), "y": (0, 100), "b": bool}
        options = {"domain": known, "unit": "who", "rows_per_unit": 3, "mech": "newton", "rng": 1, **more}
        return getattr(ps, f"dp_{verb}")(formula, data, mu=50.0, **options)

    given, _ = transcripts(call, frames)
    places = [k for k, each in enumerate(given[0]) if each.name.startswith("score sizes")]
    assert places
    steps = [step(here[k], there[k]) for here, there in itertools.combinations(given, 2) for k in places]
    assert 0.3 <= max(steps) <= 1 + 1e-12


@pytest.mark.parametrize("budget", [{"mu": 200.0}, {"eps": 10_000.0}])
def test_whitened_rows_of_collinear_columns_move_their_matrix_by_no_more_than_it_claims(transcripts, budget):  # noqa: F811
    frames = neighbours_of(data_of(3), "replace", np.random.default_rng(3), 6)
    given, _ = transcripts(lambda data, **more: CALLS["lm collinear"](data, budget, rng=1, **more), frames)
    place = [each.name for each in given[0]].index("second matrix")
    steps = [step(here[place], there[place]) for here, there in itertools.combinations(given, 2)]
    assert 0.2 <= max(steps) <= 1 + 1e-12


@pytest.mark.parametrize(
    "name",
    [
        "second matrix",
        "response square",
        "narrow scales",
        "narrow response",
        "squares of products",
        "squares of scores",
        "whitened squares",
    ],
)
def test_optional_questions_before_a_perturbed_minimiser_move_by_no_more_than_they_claim(transcripts, name):  # noqa: F811
    rng = np.random.default_rng(3)
    x = rng.normal(50, 1, 400)
    data = pd.DataFrame({"x": x, "z": x + rng.normal(0, 0.1, 400), "y": rng.normal(20, 1, 400)})
    domain = {"x": (0, 100), "z": (0, 100), "y": (0, 100)}
    odd = [(0, 0, 0), (100, 0, 100), (0, 100, 100), (100, 100, 0), ("odd", 50, 1e308), (np.nan, 0, 0)]
    odd += [(100, 95, 0), (95, 100, 100)]  # two rows, each in the direction of one whitened column
    frames = [with_rows(data, [7], [dict(zip("xzy", row, strict=True))]) for row in odd]

    def call(data, **more):
        formula = "y ~ x + z + x:z" if name == "squares of products" else "y ~ x + z"
        return ps.dp_lm(formula, data, eps=30.0, mech="objpert", domain=domain, rng=1, **more)

    given, _ = transcripts(call, frames)
    places = [k for k, each in enumerate(given[0]) if each.name.startswith(name)]
    assert places
    steps = [step(here[k], there[k]) for here, there in itertools.combinations(given, 2) for k in places]
    assert 0.9 <= max(steps) <= 1 + 1e-12, max(steps)


@pytest.mark.parametrize("family", ["poisson", "gamma"])
def test_what_counts_and_gamma_responses_are_asked_under_eps_moves_by_no_more_than_it_claims(transcripts, family):  # noqa: F811
    rng = np.random.default_rng(5)
    x = rng.normal(0, 0.5, 400).clip(-2, 2)
    data = pd.DataFrame({"x": x, "y": rng.poisson(np.exp(1 + 0.4 * x)) * 1.0})
    domain = {"x": (-2, 2), "y": (0, 60)}
    odd = [(-2, 0), (2, 0), (-2, 60), (2, 60), (2, 1e308), ("odd", 3), (np.nan, 60), (0, 1)]
    frames = [with_rows(data, [7], [dict(zip("xy", row, strict=True))]) for row in odd]

    def call(data, **more):
        return ps.dp_glm("y ~ x", data, eps=20.0, family=family, domain=domain, rng=1, **more)

    given, _ = transcripts(call, frames)
    names = [each.name.split(":")[0] for each in given[0]]
    for name in ("first step", "score sizes", "coefficients", "hessian", "squares of scores"):
        (place,) = [k for k, one in enumerate(names) if one.startswith(name)]
        steps = [step(here[place], there[place]) for here, there in itertools.combinations(given, 2)]
        assert 0.2 <= max(steps) <= 1 + 1e-12, name


@pytest.mark.parametrize(
    "budget", [{"eps": 40.0, "mech": "newton"}, {"eps": 40.0, "mech": "objpert"}, {"mu": 8.0}], ids=str
)
def test_last_questions_of_a_quantile_regression_move_by_what_they_claim_and_no_more(transcripts, budget):  # noqa: F811
    """Queries of a quantile regression move by at most the claimed sensitivity, and by more than half of it.

    So a mechanism with half of the required noise would fail.
    """
    rng = np.random.default_rng(8)
    x = rng.normal(0, 0.5, 400).clip(-2, 2)
    data = pd.DataFrame({"x": x, "y": 5 + x + rng.normal(0, 1, 400)})
    domain = {"x": (-2, 2), "y": (0, 10)}
    odd = [(x, y) for x in (-2, 0.1, 2) for y in (0, 10, *(x + np.arange(3.9, 5.0, 0.1)))] + [
        ("odd", 3),
        (np.nan, 10),
        (0, 1e308),
    ]
    frames = [with_rows(data, [7], [dict(zip("xy", row, strict=True))]) for row in odd]

    def call(data, **more):
        return ps.dp_rq("y ~ x", data, tau=0.25, domain=domain, rng=1, **budget, **more)

    given, _ = transcripts(call, frames)
    names = [each.name for each in given[0]]
    for name in ("first score", "score", "atom", "density", "equal responses", "hessian"):
        place = names.index(name)
        steps = [step(here[place], there[place]) for here, there in itertools.combinations(given, 2)]
        assert 0.55 <= max(steps) <= 1 + 1e-12, (name, max(steps))


def test_squared_residuals_of_rare_outcomes_move_by_no_more_than_is_claimed(transcripts):  # noqa: F811
    """The sum of squared residuals, released for rare outcomes, moves by at most its sensitivity between neighbours.

    The sum is released if a histogram may hide rare outcomes. Here 12 of 3,000 rows have the outcome 1.
    """
    rng = np.random.default_rng(6)
    data = pd.DataFrame({"x": rng.uniform(-1, 1, 3000), "y": np.zeros(3000)})
    data.loc[:11, "y"] = 1.0
    domain = {"x": (-1, 1), "y": (0, 1)}
    frames = [data, *(with_rows(data, [20], [{"x": x, "y": y}]) for x in (-1, 1, "odd", 1e308) for y in (0, 1, np.nan))]

    def call(data, **more):
        return ps.dp_lm("y ~ x", data, eps=4.0, mech="newton", domain=domain, rng=1, **more)

    given, _ = transcripts(call, frames)
    place = [each.name for each in given[0]].index("residual squares")
    steps = [step(here[place], there[place]) for here, there in itertools.combinations(given, 2)]
    assert 0.2 <= max(steps) <= 1 + 1e-12


REACHED = {
    "lm suffstats": "replace",
    "lm newton": "replace",
    "mean": "complete",
    "hist": "persons",
    "probit": "replace",
}


@thinned(2)
@pytest.mark.parametrize("name", REACHED)
def test_some_neighbours_reach_the_claim_so_that_one_of_half_the_size_would_be_seen(transcripts, name):  # noqa: F811
    setting = REACHED[name]
    frames = neighbours_of(data_of(2), setting, np.random.default_rng(2), 12)
    given, _ = transcripts(lambda data, **more: CALLS[name](data, rng=1, **{**SETTINGS[setting], **more}), frames)
    assert farthest(given, come_and_go=False).max() >= 0.9


LEVELS = {"y": (0, 100), "x": (0, 10), "w": (0, 2), "h": list("pqrst"), "k": [1, 2, 3]}


@thinned(2)
@pytest.mark.parametrize(
    "options",
    [
        {"mu": 500.0},
        {"eps": 1e4},
        {"eps": 1e4, "noise": "matrixt", "weights": "w"},
        {"mu": 500.0, "neighbors": "add_remove"},
        {"mu": 500.0, "formula": "y ~ 0 + h * C(k)"},
    ],
    ids=str,
)
def test_moments_with_levels_as_entries_move_by_what_they_claim_and_no_more(transcripts, options):  # noqa: F811
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"y": rng.uniform(0, 100, 60), "x": rng.uniform(0, 10, 60), "w": rng.uniform(0, 2, 60)})
    data = data.assign(h=np.array(LEVELS["h"], dtype=object)[np.arange(60) % 5], k=np.arange(60) % 3 + 1)
    corners = itertools.product((0, 100), (0, 10), (2, 0), ("p", "t", "odd"), (1, 3))
    frames = [with_rows(data, [7], [dict(zip("yxwhk", row, strict=True))]) for row in [*corners][::3]]
    come_and_go = "neighbors" in options
    frames = [data.drop(index=7), *frames] if come_and_go else frames
    formula, options = options.get("formula", "y ~ x + h + C(k)"), {**options, "domain": LEVELS, "mech": "suffstats"}

    def call(data, **more):
        return ps.dp_lm(formula, data, rng=1, **{key: v for key, v in options.items() if key != "formula"}, **more)

    given, _ = transcripts(call, frames)
    place = [each.name for each in given[0]].index("moments")
    pairs = ((given[0], other) for other in given[1:]) if come_and_go else itertools.combinations(given, 2)
    assert 0.85 <= max(step(here[place], there[place]) for here, there in pairs) <= 1 + 1e-12
    assert farthest(given, come_and_go).max() <= 1 + 1e-12
