"""Audits through the public verb: raw neighbouring frames, the realised price, and a control that must fail."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import privstats as ps
from privstats.mechanisms.random import public_stream
from privstats.older.mechanisms import MECHANISMS
from privstats.older.numerics.exact import Total
from tests.conftest import PRICES, norm_of

BOUNDS = {"y": (-2, 6), "x": (0, 10), "g": ["a", "b"]}
FORMULAS = ["y ~ x", "y ~ x + g", "y ~ 0 + x"]
ODD = [np.nan, np.inf, -np.inf, 1e308, -7, "text", None, 0, 2, 5, 6, 10, -2]
mechanisms = pytest.mark.parametrize("noise", PRICES)


def base(n=9):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"y": rng.uniform(-2, 6, n), "x": rng.uniform(0, 10, n), "g": rng.choice(["a", "b"], n)})


def with_row(data, y, x, g):
    return pd.concat(
        [data.astype(object), pd.DataFrame({"y": [y], "x": [x], "g": [g]}, dtype=object)], ignore_index=True
    )


def rows_to_try():
    """Corners of the domain, its inside, and what should never be in a frame."""
    corners = [(y, x, g) for y in (-2, 2, 6) for x in (0, 5, 10) for g in ("a", "b")]
    inside = [(2 + 4 * s, 5 + 5 * s, "a") for s in np.linspace(-0.9, 0.3, 9)]
    rng = np.random.default_rng(1)
    odd = [(*rng.choice(np.array(ODD, dtype=object), 2), ["a", "b", "zz", np.nan][k % 4]) for k in range(12)]
    return corners + inside + odd


OPTIONS = {"all": {}, "subset": {"subset": "x > 3 | g == 'b'"}, "weights": {"weights": "x"}}


@pytest.mark.parametrize(
    ("formula", "options"), [*((formula, "all") for formula in FORMULAS), ("y ~ x", "subset"), ("y ~ x", "weights")]
)
@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("complete", [True, False])
def test_no_neighbouring_frame_moves_the_exact_answer_beyond_the_claim_and_one_nearly_reaches_it(
    all_exact_of, formula, neighbors, complete, options
):
    domain = ps.Domain(BOUNDS, complete=complete)

    def heard(data, noise):
        price = {"mech": "suffstats", **PRICES[noise], **OPTIONS[options]}
        return all_exact_of(
            lambda: ps.dp_lm(formula, data, domain=domain, noise=noise, neighbors=neighbors, **price),
            questions=1 + (options == "weights"),
        )

    tried = [heard(with_row(base(), *row), "linf") for row in rows_to_try()]
    for noise in PRICES:
        for question, (without, sensitivity) in enumerate(heard(base(), noise)):
            totals = np.array([answers[question][0] for answers in tried])
            others = totals if neighbors == "replace" else without[None, :]
            moves = sensitivity.weights * (totals[:, None, :] - others[None, :, :])
            gaps = norm_of(sensitivity)(moves.reshape(-1, moves.shape[-1]))
            assert gaps.max() <= sensitivity.size * (1 + 1e-12)
            # dummies exclude each other, corners without intercept have signs, weights are predictors: not yet known
            if formula == "y ~ x" and options == "all":
                nearly = 0.8 if sensitivity.norm == "nuclear" else 0.95  # of few entries, as in test_bounds
                assert gaps.max() >= nearly * sensitivity.size


LEVELS = [f"level {number}" for number in range(8)]
GROUPED = ("matrixt", "l1", "l2", "gaussian")


@pytest.mark.parametrize("formula", ["y ~ k + x", "y ~ 0 + k", "y ~ 0 + C(k) + x"])
@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("complete", [True, False])
def test_dummies_of_one_factor_cost_little_and_no_more_than_they_claim(all_exact_of, formula, neighbors, complete):
    domain = ps.Domain({**BOUNDS, "k": LEVELS}, complete=complete)
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"y": rng.uniform(-2, 6, 20), "x": rng.uniform(0, 10, 20), "k": rng.choice(LEVELS, 20)})

    def heard(frame, noise):
        price = {"mech": "suffstats", "noise": noise, "neighbors": neighbors, **PRICES[noise]}
        return all_exact_of(lambda: ps.dp_lm(formula, frame, domain=domain, **price), questions=1)[0]

    rows = [(y, x, k) for y in (-2, 6) for x in (0, 10) for k in LEVELS[:4]] + [
        (np.nan, 1, "other"),
        (np.inf, 10, None),
    ]
    tried = [pd.concat([data, pd.DataFrame({"y": [y], "x": [x], "k": [k]})], ignore_index=True) for y, x, k in rows]
    answers = np.array([heard(frame, "matrixt")[0] for frame in tried])
    for noise in GROUPED:
        without, sensitivity = heard(data, noise)
        moves = sensitivity.weights * (answers[:, None] - (answers if neighbors == "replace" else without[None])[None])
        gaps = norm_of(sensitivity)(moves.reshape(-1, moves.shape[-1]))
        assert gaps.max() <= sensitivity.size * (1 + 1e-12)
        assert gaps.max() >= (0.7 if noise == "l1" else 0.8) * sensitivity.size  # groups: see test_bounds
    dummies = len(LEVELS) - (not formula.startswith("y ~ 0"))
    entries = 1 + dummies + ("x" in formula) + 1
    assert len(without) < entries * (entries + 1) / 2 - dummies * (dummies - 1) / 2 + 1  # products within are not asked


def worst_pair(exact_of, noise):
    """What a mechanism is told of two neighbouring frames at (nearly) its full sensitivity."""
    heard = []
    for row in ((6, 10, "a"), (-2, 0, "a") if noise == "matrixt" else (np.nan, 10, "a")):
        data = with_row(base(), *row)
        price = {"mech": "suffstats", "noise": noise, **PRICES[noise]}
        heard.append(exact_of(lambda data=data, price=price: ps.dp_lm("y ~ x", data, domain=BOUNDS, **price)))
    (here, sensitivity), (there, _) = heard
    gap = norm_of(sensitivity)((sensitivity.weights * (here - there))[None])[0]
    assert gap == pytest.approx(sensitivity.size, rel=0.1 if noise == "matrixt" else 1e-6)
    return here, there, sensitivity


def releases(mechanism, exact_values, sensitivity, stream, draws=300_000):
    """Many weighted releases: the exact answer plus draws of the law that the mechanism's release returns."""
    units = Total(tuple(round(value * 2.0**42) for value in exact_values), 2.0**-42)
    law = mechanism.release("audit", units, sensitivity, public_stream(stream)).law
    return (exact_values + law.sample(public_stream(stream), draws)) * sensitivity.weights


def minus_log_matrix_t(packed, pairs):
    """Minus the logarithm of the matrix-t density at unit price, up to a constant."""
    i, j = pairs
    order = j.max() + 1
    W = np.zeros((len(packed), order, order))
    W[:, i, j] = W[:, j, i] = packed
    s = 1.1 * order + 1
    return s * np.linalg.slogdet(np.eye(order) + W @ W / s**2)[1]


def realised_price(mechanism, here, there, sensitivity):
    """A lower bound, at confidence 99.9 %, on the eps (or mu) that the likelihood-ratio test realises."""
    normal = math.isinf(mechanism.event.pure())

    def unlikely(values, at):
        moved = (values - at * sensitivity.weights) / sensitivity.size
        if sensitivity.norm == "nuclear":
            return minus_log_matrix_t(moved, sensitivity.pairs)
        distance = norm_of(sensitivity)(moved)
        return distance**2 / 2 if normal else distance

    def ratio(values):
        return unlikely(values, there) - unlikely(values, here)

    true = ratio(releases(mechanism, here, sensitivity, 51))
    false = ratio(releases(mechanism, there, sensitivity, 52))
    best = 0.0
    thresholds = np.quantile(true, [0.1, 0.5, 0.9, 0.97, 0.99])
    for threshold in thresholds:  # fixed in number: Bonferroni over two bounds each
        level = 0.001 / (2 * len(thresholds))
        hits, alarms = (true >= threshold).sum(), (false >= threshold).sum()
        power = stats.beta.ppf(level, hits, len(true) - hits + 1)
        size = stats.beta.ppf(1 - level, alarms + 1, len(false) - alarms)
        best = max(best, stats.norm.ppf(power) - stats.norm.ppf(size) if normal else math.log(power / size))
    return best


@mechanisms
def test_the_best_test_between_two_neighbours_does_not_beat_the_claim_but_beats_it_once_the_noise_is_halved(
    exact_of, noise
):
    here, there, sensitivity = worst_pair(exact_of, noise)
    honest = MECHANISMS[noise].at(1.0, 1.0)
    halved = type(honest)(honest.multiplier / 2)
    assert 0.5 <= realised_price(honest, here, there, sensitivity) <= 1.0  # below .5 the audit would have no power
    assert realised_price(halved, here, there, sensitivity) > 1.0
