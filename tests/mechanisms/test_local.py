"""Noisy answers of persons in local protocols: an answer has the stated law, and costs mu for the person's row.

The answer of a person (`RowHolder`) depends on this person's row alone.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from privstats.errors import BudgetError
from privstats.mechanisms.comparison.local import RowHolder, randomised
from privstats.mechanisms.random import public_stream
from privstats.numerics.exact import NOISE_BITS, step_of
from tests.conftest import looped

MU = 0.7
HOLDER = RowHolder(MU)
ANSWERS = ("score", "curvature", "square")
# tolerance relative to mu: answers are moved toward zero by 2^-20 of the noise's std dev; rows for answers that are
# products of entries are moved toward zero by 2^-15 of the square root of the std dev
FINE = 2e-4


class Silent:
    """Random numbers that are all zero, so that answers are sent without noise."""

    def standard_normal(self, size):
        return np.zeros(size)


def sds(name, p):
    return np.full(p, HOLDER.score_sd) if name == "score" else getattr(HOLDER, f"{name}_sd")(p)


def exact(name, x, y, theta):
    return getattr(HOLDER, name)(x, y, theta, Silent())


def rows(n, p, rng):
    """Return n rows with p predictors, whose lengths and responses have magnitudes from about 0.01 to 100.

    Among the first rows, some have infinite or huge responses, or zero predictors.
    """
    x = rng.standard_normal((n, p)) * 10.0 ** rng.uniform(-2, 2, (n, 1))
    y = rng.standard_normal(n) * 10.0 ** rng.uniform(-2, 2, n)
    y[:4], x[2:5] = [np.inf, -np.inf, np.inf, 1e300], 0.0
    return x, y


def p_value(draws, sd):
    return stats.kstest(draws / sd, "norm").pvalue


@pytest.mark.parametrize("eps", [0.2, 1.0, 3.0])
def test_a_truth_is_sent_as_often_as_stated_and_never_by_the_truth_of_another(eps):
    rng, n = np.random.default_rng(3), 200_000
    truths = rng.uniform(size=n) < 0.3
    sent = randomised(truths, eps, public_stream(71))
    for rate, seen in ((eps, True), (2 * eps, False)):
        kept = 1 / (1 + math.exp(-rate))
        off = abs((sent == truths).mean() - kept) / math.sqrt(kept * (1 - kept) / n)
        assert (off < 4) == seen  # answers that are truthful as often as with the budget 2 eps are detected
    lies = sent ^ truths
    assert (randomised(~truths, eps, public_stream(71)) ^ ~truths == lies).all()
    assert stats.chi2_contingency(np.histogram2d(lies, truths, 2)[0]).pvalue > 1e-3


def test_a_large_budget_sends_the_truth_and_a_small_one_nothing():
    truths = np.arange(10_000) % 2 == 0
    assert (randomised(truths, 1e6, public_stream(72)) == truths).all()
    assert abs((randomised(truths, 1e-9, public_stream(72)) == truths).mean() - 0.5) < 4 * 0.005


@pytest.mark.parametrize("name", ANSWERS)
def test_noise_has_the_stated_law(name):
    p, n = 3, 4000
    noise = getattr(HOLDER, name)(np.zeros((n, p)), np.zeros(n), np.ones(p), public_stream(73))
    sd = sds(name, p)
    for column, size in zip(noise.T, sd, strict=True):
        assert p_value(column, size) > 1e-3
        assert p_value(column, 2 * size) < 1e-9  # halved noise is detected
    correlations = np.corrcoef(noise.T)[np.triu_indices(len(sd), 1)]
    assert np.abs(correlations).max() < 4 / math.sqrt(n)


def test_noise_of_a_triangle_is_that_of_the_frobenius_norm():
    for name, longest in (("curvature", HOLDER.length), ("square", HOLDER.bound)):
        sd = sds(name, 3) * MU / longest**2
        assert sd == pytest.approx([math.sqrt(2), 1, 1, math.sqrt(2), 1, math.sqrt(2)])


@pytest.mark.parametrize("p", [1, 2, 4])
@pytest.mark.parametrize("name", ANSWERS)
def test_no_row_moves_an_answer_further_than_mu_and_some_pair_moves_it_as_far(name, p):
    rng = np.random.default_rng([p, 5])
    x, y = rows(400, p, rng)
    for theta in (np.zeros(p), rng.standard_normal(p)):
        sent = exact(name, x, y, theta) / sds(name, p)
        apart = np.linalg.norm(sent[:, None] - sent[None], axis=2)
        assert apart.max() <= MU * (1 + FINE)
        # distance between the answers of a complete row and of the same row if a value is missing (an answer of zero)
        assert np.linalg.norm(sent, axis=1).max() <= MU / math.sqrt(2) * (1 + FINE)
    here, there = np.eye(max(p, 2))[:2, :p] * HOLDER.length
    if name == "score":
        there = here
    y = np.array([np.inf, -np.inf]) if name != "curvature" else np.array([0.0, 0.0])
    sent = exact(name, np.array([here, there]), y, np.zeros(p)) / sds(name, p)
    # with one predictor (p = 1), a curvature or a square is one number that is never negative
    reached = MU / math.sqrt(2) if name != "score" and p == 1 else MU
    assert np.linalg.norm(sent[0] - sent[1]) == pytest.approx(reached, rel=FINE)


@pytest.mark.parametrize("theta", [[np.inf, 0.0], [np.nan, 1.0], [1e308, -1e308], [np.inf, -np.inf]])
def test_no_theta_makes_a_holder_send_more(theta):
    x, y = rows(200, 2, np.random.default_rng(6))
    for name in ANSWERS:
        sent = exact(name, x, y, np.array(theta)) / sds(name, 2)
        assert np.linalg.norm(sent, axis=1).max() <= MU / math.sqrt(2) * (1 + FINE)


@pytest.mark.parametrize("name", ANSWERS)
def test_holders_one_by_one_send_what_they_send_together(name):
    x, y = rows(60, 3, np.random.default_rng(7))
    theta, answer = np.array([0.3, -1.2, 0.7]), getattr(HOLDER, name)
    together, stream = answer(x, y, theta, public_stream(74)), public_stream(74)
    alone = [answer(x[[i]], y[[i]], theta, stream)[0] for i in range(len(x))]
    np.testing.assert_array_equal(together, alone)


@looped([1e-5, 0.01, 1.0, 100.0, 1e6])
def test_answer_and_noise_are_added_as_whole_numbers(mu):
    holder = RowHolder(mu)
    x, y = rows(50, 2, np.random.default_rng(8))
    sent, truth = (holder.score(x, y, np.zeros(2), stream) for stream in (public_stream(75), Silent()))
    step = Fraction(step_of(holder.score_sd, NOISE_BITS))
    noise = holder.score_sd * public_stream(75).standard_normal((50, 2))
    for value, own, drawn in zip(sent.ravel(), truth.ravel(), noise.ravel(), strict=True):
        assert Fraction(own) % step == 0
        assert Fraction(value) == math.floor((Fraction(own) + Fraction(drawn)) / step + Fraction(1, 2)) * step
    for name in ("curvature", "square"):
        products = getattr(holder, name)(x, y, np.zeros(2), Silent())
        assert (products[:, 0] * products[:, 2] == products[:, 1] ** 2).all() or mu < 1e-4


@pytest.mark.parametrize("mu", [1e-150, 1e12])
def test_a_mu_whose_noise_cannot_be_added_exactly_is_refused(mu):
    with pytest.raises(BudgetError, match="mu"):
        RowHolder(mu)
