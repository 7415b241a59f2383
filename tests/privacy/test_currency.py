"""A share is a fraction of eps under pure DP and of mu^2 under Gaussian DP, whoever spends it."""

import pytest

import privstats as ps
from privstats.older.mechanisms import MECHANISMS
from privstats.older.privacy.tradeoff import pure_eps, pure_mu


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 4.0])
def test_pure_eps_inverts_pure_mu(mu):
    assert pure_mu(pure_eps(mu)) == pytest.approx(mu, rel=1e-6)


def test_bought_bounds_cost_their_share_of_mu_squared():
    plan = ps.plan("lm", "y ~ x", 1_000_000, mu=1.0, domain={"x": (0, 1)}, bounds_share=0.2)
    rank = [mechanism for mechanism in plan.mechanisms if isinstance(mechanism, MECHANISMS["rank"])]
    assert sum(mechanism.event.mu() ** 2 for mechanism in rank) == pytest.approx(0.2, rel=0.2)  # joint prices save some
    eps = ps.plan("lm", "y ~ x", 1_000_000, eps=1.0, domain={"x": (0, 1)}, bounds_share=0.2)
    rank = [mechanism for mechanism in eps.mechanisms if isinstance(mechanism, MECHANISMS["rank"])]
    assert sum(mechanism.event.pure() for mechanism in rank) == pytest.approx(0.2)
