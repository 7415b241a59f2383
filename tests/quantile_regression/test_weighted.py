"""Standard errors of weighted quantile regressions depend on the squares of the weights."""

import numpy as np
import pandas as pd
import pytest

import privstats as ps

DOMAIN = {"x": (0, 10), "y": (-20, 20), "w": (0, 4)}


@pytest.mark.parametrize("tau", [0.5, 0.8])
@pytest.mark.parametrize("budget", [{"mu": 5.0}, {"eps": 10.0}])
def test_uniform_weights_lengthen_intervals_by_their_unevenness_alone(tau, budget):
    rng = np.random.default_rng(3)
    n = 8_000
    x, w = rng.uniform(0, 10, n), rng.uniform(0, 4, n)
    data = pd.DataFrame({"x": x, "w": w, "y": 0.5 * x + rng.standard_normal(n)})
    fits = [ps.dp_rq("y ~ x", data, tau=tau, domain=DOMAIN, rng=1, **more, **budget) for more in ({}, {"weights": "w"})]
    plain, weighted = (fit.bse["x"] for fit in fits)
    uneven = np.sqrt(np.mean(w**2)) / np.mean(w)  # root mean square of the weights over their mean, about 1.15
    # the ratio of std errors would be 2 if squares of weights were used as weights
    assert 0.8 * uneven < weighted / plain < 1.3 * uneven
