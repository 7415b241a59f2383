"""Reduced, seeded version of benchmarks/coverage_lm.py: three cells (settings), with small to very large noise."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from benchmarks.coverage_lm import METHODS, cell
from privstats.estimators.adaptive import SHARES
from privstats.inference.estimate import NormalEstimate
from tests.conftest import slow, thinned
from tests.statistics.designs import PURE

REPLICATES = 16


@thinned(2)
@pytest.mark.parametrize(
    ("noise", "n", "eps", "replicates"),
    [
        ("linf", 500, 1.0, REPLICATES),
        *((noise, 500, 4.0, REPLICATES) for noise in ("matrixt", "hull", "linf")),
        *(slow(noise, n, 4.0, 50) for noise in PURE for n in (500, 2000)),
    ],
)
def test_intervals_cover_at_their_level_and_are_no_longer_than_they_must(noise, n, eps, replicates):
    result = cell(n, eps, noise, replicates, seed=11)
    if result.kappa > 0.4 and result.given < 0.1:
        return  # too few intervals are given to estimate a coverage
    given = 1.0 if result.kappa <= 0.4 else result.given
    error = math.sqrt(
        0.95 * 0.05 / (replicates * given)
    )  # standard error of one coefficient's coverage; the mean of six coverages has no larger standard error
    assert np.nanmean(result.coverage) >= 0.93 - error
    if result.kappa <= 0.4:
        assert result.coverage.mean() <= 0.97 + error
    assert (np.nan_to_num(result.coverage, nan=1.0) >= 0.95 - 3.5 * error).all()
    if noise in METHODS and result.given == 1:
        # the Monte Carlo error of the median of at least 5 x 16 lengths is a few percent
        assert result.length <= 1.15 * METHODS[noise][1][n, eps]


def test_the_chosen_branch_has_intervals_nearly_as_short_as_those_of_moments(monkeypatch):
    monkeypatch.setitem(METHODS, "chosen", ({}, {}))
    # the reference lengths are the lengths in fits that spend the whole budget on moments, and assume equal variances
    price = 1 / SHARES["pure"]["moments"]
    result = cell(500, 4.0, "chosen", 24, seed=11)
    assert result.given >= 0.9
    assert result.length <= 1.1 * price * METHODS["matrixt"][1][500, 4.0]


def test_intervals_that_ignored_the_privacy_noise_would_be_caught(monkeypatch):
    def sampling_only(estimate, R):
        return honest(replace(estimate, noise=np.zeros_like(estimate.noise), simulated=()), R)

    honest = NormalEstimate.error_law
    monkeypatch.setattr(NormalEstimate, "error_law", sampling_only)
    assert cell(2000, 4.0, "linf", 16, seed=12).coverage.mean() < 0.8


@pytest.mark.parametrize("replicates", [50, slow(200)])
def test_intervals_know_that_the_residual_variance_was_itself_read_off_noisy_moments(replicates):
    # with a strong signal and a large budget, noise and sampling error are equally large, and the estimate of sigma^2
    # can be zero; here, 85 % of the intervals covered if the estimate was treated as the true sigma^2
    rng = np.random.default_rng(13)
    covered = []
    for _ in range(replicates):
        x = rng.uniform(-1, 1, 200)
        data = pd.DataFrame({"x": x, "y": 0.5 + x + 0.05 * rng.standard_normal(200)})
        fit = ps.dp_lm(
            "y ~ x",
            data,
            256.0,
            domain={"x": (-1, 1), "y": (-6, 6)},
            noise="linf",
            mech="suffstats",
            cov_type="nonrobust",
            rng=rng,
        )
        interval = fit.conf_int()
        covered.append(((interval[0] <= [0.5, 1.0]) & (interval[1] >= [0.5, 1.0])).mean())
    assert np.mean(covered) >= 0.925 - 3 * math.sqrt(0.925 * 0.075 / replicates)
