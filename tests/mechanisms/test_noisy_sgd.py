"""Noisy stochastic gradient descent: its subsamples, clipped sums, noise and release, and an audit of its guarantee."""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

from privstats.errors import BudgetError, OptionError
from privstats.formula.design import bind_regression
from privstats.formula.domain import Domain
from privstats.gate.gate import Gate, Planned
from privstats.gate.questions import Values
from privstats.gate.rehearsal import Rehearsal
from privstats.gate.rows import BlockRows
from privstats.gate.sources import source_of
from privstats.losses.base import HuberLoss
from privstats.losses.convex import ClippedSquares
from privstats.losses.families import Logit
from privstats.losses.psi import Likelihood, LossRows
from privstats.mechanisms.comparison import noisy_sgd
from privstats.mechanisms.comparison.noisy_sgd import LinearGradient, NoisySGD, shortened_to, subsample
from privstats.mechanisms.random import public_stream, streams
from privstats.privacy.promise import ApproxDP, GaussianDP, Neighbors, PureDP, Relation
from privstats.privacy.subsampling import noise_multiplier, sampled_delta
from privstats.sets.weighted_losses import WeightedLosses
from tests.comparison.sealed import Sealed
from tests.conftest import slow

BOTH, REPLACE = ApproxDP(1.0, 1e-5), Relation(1, True, True)
HUBER = LinearGradient(HuberLoss(clip=1.0))
WITHIN = WeightedLosses(2, ClippedSquares(1.0), 2.0, 4.0, 10.0, (-5.0, 5.0), (-5.0, 5.0))


def sgd(**options):
    return NoisySGD(
        **{"gradient": HUBER, "rows": 50, "steps": 20, "batch": 5, "step_size": 0.5, "clip": 2.0, **options}
    )


def rows_of(n, seed=0):
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), rng.uniform(-1.5, 1.5, n)])
    y = x @ [0.5, -1.0] + 0.5 * rng.normal(size=n)
    return WITHIN.project(np.column_stack([np.ones(n), x, y, np.zeros(n)]))


def release(mechanism, rows, seed=0, promise=BOTH, relation=REPLACE):
    return mechanism.release("q", Sealed(rows), promise, WITHIN, relation, public_stream(seed))


@pytest.mark.parametrize(("n", "m"), [(6, 2), (5, 3), (5, 1), (4, 4), (6, 5)])
def test_each_set_of_places_is_as_likely_as_any_other(n, m):
    rng, sets = public_stream(1), list(itertools.combinations(range(n), m))
    seen = dict.fromkeys(sets, 0)
    for _ in range(100 * len(sets)):
        seen[tuple(sorted(subsample(rng, n, m).tolist()))] += 1
    assert len(seen) == len(sets)
    assert len(sets) == 1 or stats.chisquare(list(seen.values())).pvalue > 1e-4


def test_samples_are_of_fixed_size_and_drawn_anew():
    rng = public_stream(2)
    draws = [subsample(rng, 1000, m) for m in (1, 30, 500, 999, 1000, 30)]
    assert [len(set(draw.tolist())) for draw in draws] == [1, 30, 500, 999, 1000, 30]
    assert set(draws[1].tolist()) != set(draws[-1].tolist())


@dataclass(frozen=True)
class Wild:
    """A gradient function that returns the rows themselves, whatever the size of their entries."""

    def size(self, dim):
        return dim

    def __call__(self, rows, theta):
        return rows


def test_no_replaced_row_moves_a_sum_of_gradients_by_more_than_twice_the_clip_and_some_do():
    rng, C, farthest = np.random.default_rng(3), 2.0, 0.0
    wild = rng.standard_cauchy((60, 3)) * 10.0 ** rng.uniform(-3, 200, (60, 1))
    wild[::7], wild[1::9], wild[2::11, 1] = np.inf, -np.inf, np.nan
    opposite = np.array([[1e300, 0.0, 0.0], [-1e300, 0.0, 0.0], [0.0, 0.0, 0.0]])
    candidates, others = np.vstack([wild, opposite]), rng.normal(size=(20, 3))
    mechanism, theta = sgd(gradient=Wild(), clip=C), np.zeros(3)
    assert (np.linalg.norm(shortened_to(candidates, C), axis=1) <= C).all()
    sums = [mechanism.total(np.vstack([others, [row]]), theta).value() for row in candidates]
    for here, there in itertools.combinations(
        [*sums, mechanism.total(others, theta).value()], 2
    ):  # one of the neighbours may lack the row
        farthest = max(farthest, np.linalg.norm(here - there))
    assert 2 * C * (1 - 1e-9) < farthest <= 2 * C


def test_sums_of_gradients_do_not_depend_on_the_order_of_rows():
    rows, mechanism, theta = rows_of(300), sgd(), np.array([0.3, 0.7])
    shuffled = rows[np.random.default_rng(1).permutation(300)]
    assert mechanism.total(rows, theta) == mechanism.total(shuffled, theta)


@pytest.mark.parametrize("loss", [HuberLoss(clip=1.0, scale=0.3), Likelihood(Logit(), 0.5, 0.5)])
def test_gradients_are_slopes_of_the_loss_and_those_of_a_row_alone(loss):
    rows, theta = rows_of(40), np.array([0.4, -0.3])
    rows[:, 0], rows[:, -1] = np.linspace(0, 1, 40), 0.2
    if isinstance(loss, Likelihood):
        rows[:, -2] = np.where(rows[:, -2] > 0, 1.0, -1.0)
    gradients, gradient = LinearGradient(loss)(rows, theta), LinearGradient(loss)
    w, x, y, eta = rows[:, 0], rows[:, 1:3], rows[:, 3], rows[:, 1:3] @ theta + 0.2
    slope = expit(eta) - (y > 0) if isinstance(loss, Likelihood) else np.clip(eta - y, -0.3, 0.3)
    np.testing.assert_allclose(gradients, (w * slope)[:, None] * x, atol=1e-12)
    for k in (0, 7, 39):
        np.testing.assert_array_equal(gradient(rows[[k]], theta)[0], gradients[k])
    np.testing.assert_array_equal(gradient(rows[::-1], theta), gradients[::-1])


def test_without_noise_and_of_all_rows_it_is_gradient_descent(monkeypatch):
    monkeypatch.setattr(noisy_sgd, "noise_multiplier", lambda *_: 1e-6)
    rows, theta = rows_of(50), np.zeros(2)
    for _ in range(20):
        slope = np.clip(rows[:, 1:3] @ theta - rows[:, 3], -1, 1)
        theta = theta - 0.5 * ((rows[:, 0] * slope) @ rows[:, 1:3]) / 50
    np.testing.assert_allclose(release(sgd(batch=50), rows).value, theta, atol=1e-5)


def test_with_little_noise_samples_lead_to_the_minimiser_of_all_rows(monkeypatch):
    monkeypatch.setattr(noisy_sgd, "noise_multiplier", lambda *_: 1e-3)
    theta = release(sgd(rows=2000, batch=40, steps=400, step_size=0.3), rows_of(2000)).value
    np.testing.assert_allclose(theta, [0.5, -1.0], atol=0.1)


def test_the_noise_of_a_step_is_normal_with_twice_sigma_c_over_m_as_its_standard_deviation():
    mechanism = sgd(steps=3, batch=5, clip=2.0, step_size=0.5)
    sigma = noise_multiplier(1.0, 1e-5, 0.1, 3)
    assert mechanism.sigma(BOTH) == sigma
    sd = 0.5 * 2 * sigma * 2.0 / 5 * math.sqrt(3)
    nothing = np.zeros((0, 5))
    draws = np.array([release(mechanism, nothing, seed).value for seed in range(400)]) / sd
    assert stats.kstest(draws.ravel(), stats.norm().cdf).pvalue > 1e-4
    assert abs(np.corrcoef(draws.T)[0, 1]) < 0.2


def test_a_place_without_a_row_adds_zero():
    rows, mechanism = rows_of(30), sgd(rows=50)
    weightless = np.vstack([rows, np.zeros((20, 5))])
    for seed in range(5):
        np.testing.assert_array_equal(release(mechanism, rows, seed).value, release(mechanism, weightless, seed).value)
    drawn = [next(mechanism.iterates(rows, 1e-9, public_stream(seed))) for seed in range(600)]
    whole = -0.5 * LinearGradient(HuberLoss(clip=1.0))(rows, np.zeros(2)).sum(axis=0) / 50
    error = np.std(drawn, axis=0) / math.sqrt(600)
    assert (np.abs(np.mean(drawn, axis=0) - whole) < 4 * error).all()


def test_more_rows_than_were_announced_are_drawn_less_often_not_left_out():
    few = sgd(rows=10, batch=5, steps=1, step_size=1.0, clip=1.0, gradient=Wild())
    rows = np.eye(40)
    drawn = np.array([next(few.iterates(rows, 1e-9, public_stream(seed))) for seed in range(600)])
    often = (np.abs(drawn) > 0.1).mean(axis=0)
    assert (np.abs(often - 5 / 40) < 5 * math.sqrt(0.125 * 0.875 / 600)).all()


def test_only_the_last_iterate_is_released_without_a_law():
    rows, mechanism = rows_of(50), sgd()
    released = release(mechanism, rows, 4)
    path = list(mechanism.iterates(rows, mechanism.sigma(BOTH), public_stream(4)))
    assert len(path) == 20
    np.testing.assert_array_equal(released.value, path[-1])
    assert released.law is None
    assert mechanism.law(BOTH, WITHIN, REPLACE) is None
    assert released.keeps == BOTH
    arrays = [value for value in vars(released).values() if isinstance(value, np.ndarray)]
    assert [array.shape for array in arrays] == [(2,)]


@pytest.mark.parametrize("step_size", [1e-12, 1e12])
def test_any_step_size_ends_at_a_number(step_size):
    assert np.isfinite(release(sgd(step_size=step_size), rows_of(50)).value).all()


@pytest.mark.parametrize(("m", "steps", "draws"), [(8, 1, 1200), slow(4, 6, 4000)])
def test_an_audit_finds_no_more_than_is_claimed_and_half_of_the_noise_is_caught(m, steps, draws):
    """An audit by tail events finds no more than the claimed (eps, delta), and finds more if the noise is halved.

    One row has the gradient 1 or -1, and all other rows have the gradient 0: the worst case.
    """
    eps, delta = 1.0, 0.02
    mechanism = sgd(gradient=Wild(), rows=8, batch=m, steps=steps, clip=1.0, step_size=1.0)
    others = np.zeros((7, 1))

    def realised(sigma):
        """Return the largest excess of ``P - e^eps Q`` over delta, in standard errors, over four tail events.

        P and Q are the probabilities of an event for the two neighbours; `sigma` is the noise multiplier of the steps.
        """
        ends = []
        for row, seed in ((1.0, 11), (-1.0, 12)):
            rows, rng = np.vstack([others, [[row]]]), public_stream(seed)
            ends.append([list(mechanism.iterates(rows, sigma, rng))[-1][0] for _ in range(draws)])
        here, there = np.array(ends)
        found = []
        for cut in np.quantile(here, [0.1, 0.2, 0.3, 0.5]):
            p, q = (here < cut).mean(), (there < cut).mean()
            error = math.sqrt((p * (1 - p) + math.exp(2 * eps) * q * (1 - q)) / draws)
            found.append((p - math.exp(eps) * q - delta) / error)
        return max(found)

    sigma = noise_multiplier(eps, delta, m / 8, steps)
    assert realised(sigma) < 3.5
    assert realised(sigma / 2) > 5


def test_the_claim_is_the_price_of_its_steps_and_samples():
    for m, steps, promise in ((5, 20, BOTH), (50, 7, ApproxDP(0.3, 1e-3)), (1, 300, ApproxDP(4.0, 1e-6))):
        mechanism = sgd(batch=m, steps=steps)
        assert sampled_delta(promise.eps, mechanism.sigma(promise), m / 50, steps) <= promise.delta
        assert mechanism.sigma(promise.part(0.5)) > mechanism.sigma(promise)


@pytest.mark.parametrize("promise", [PureDP(1.0), GaussianDP(1.0)])
def test_promises_without_a_delta_are_refused(promise):
    with pytest.raises(BudgetError, match="delta=1e-6"):
        release(sgd(), rows_of(50), promise=promise)


@pytest.mark.parametrize("relation", [Relation(1, False, True), Relation(2, True, True)])
def test_rows_that_come_and_go_and_units_of_several_rows_are_refused(relation):
    with pytest.raises(OptionError, match="replace one row"):
        release(sgd(), rows_of(50), relation=relation)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": 0}, {"steps": 0}, {"steps": 1.5}, {"batch": 51}, {"batch": 0}, {"batch": True}, {"clip": 0.0},
        {"clip": math.nan}, {"clip": math.inf}, {"step_size": -1.0}, {"step_size": math.inf}, {"step_size": "1"},
    ],
)  # fmt: skip
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(OptionError):
        sgd(**wrong)


# --- through the gate -------------------------------------------------------------------------------------------------

DESIGN = bind_regression("y ~ x", Domain({"y": (0, 10), "x": (-1, 1)}))


def question():
    P = np.vstack([np.eye(2), np.zeros((1, 2))])
    within = WeightedLosses(2, ClippedSquares(1.0), math.sqrt(2), 2.0, 10.0, (-1.0, 1.0))
    return Values("coefficients", LossRows(P, np.zeros(3)), within)


def frame(n):
    rng = np.random.default_rng(5)
    data = pd.DataFrame({"x": rng.uniform(-1, 1, n), "y": rng.uniform(0, 10, n)})
    data.loc[::7, "x"] = np.nan
    return data


def test_the_gate_hands_over_the_rows_that_are_present_and_the_public_number_counts_the_others():
    data, asked, by = frame(200), question(), sgd(rows=200, batch=20)
    planned = Planned(asked.label, asked.name, asked.kind, by, None, BOTH)
    rows = BlockRows(source_of(data), DESIGN, Neighbors(), b"key")
    gate = Gate(rows, [planned], streams(3, "digest"))
    assert gate.law(asked, by=by) is None
    released = gate(asked, by=by)
    present = rows.values(asked).all()
    assert len(present) == data["x"].notna().sum()
    stream = streams(3, "digest")("question", asked.label)
    direct = by.release(asked.label, Sealed(present), BOTH, asked.within, Relation(1, True, True), stream)
    np.testing.assert_array_equal(released.value, direct.value)


@pytest.mark.parametrize("n", [5, 20, 3000])
def test_it_can_be_rehearsed_with_fewer_rows_than_are_made_up_and_with_many(n):
    by = sgd(rows=n, batch=4)
    for few in (True, False):
        talk = Rehearsal(DESIGN, Neighbors(), BOTH, streams(1, "digest"), few=few, assumed=n)
        assert np.isfinite(talk(question(), by=by).value).all()
        assert talk.asked[0].mechanism == replace(by)


def test_it_refuses_a_rehearsal_under_another_relation():
    for neighbors in (Neighbors("add_remove"), Neighbors(unit="who", rows_per_unit=3)):
        talk = Rehearsal(DESIGN, neighbors, BOTH, streams(1, "digest"), assumed=50)
        with pytest.raises(OptionError, match="replace one row"):
            talk(question(), by=sgd())
