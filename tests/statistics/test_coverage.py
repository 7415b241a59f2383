"""Reduced, seeded version of benchmarks/coverage_moments.py: three cells that span reliable to hopeless."""

import math
from dataclasses import replace

import pytest

from benchmarks.coverage_moments import REFERENCE, cell
from privstats.inference import simulate
from tests.conftest import PURE

REPLICATES = 80


@pytest.mark.parametrize("noise", PURE)
@pytest.mark.parametrize(("n", "eps"), [(500, 1.0), (500, 4.0), (2000, 4.0)])
def test_intervals_cover_at_their_level_and_are_no_longer_than_they_must(noise, n, eps):
    result = cell(n, eps, noise, REPLICATES, seed=11)
    error = math.sqrt(0.95 * 0.05 / REPLICATES)  # of one coefficient; the mean of six is at most as uncertain
    assert result.coverage.mean() >= 0.93 - error
    if result.kappa <= 0.4:
        assert result.coverage.mean() <= 0.97 + error
    assert (result.coverage >= 0.95 - 3.5 * error).all()
    if noise == "linf":
        # the median of 5 x 80 lengths is known to a few percent
        assert result.length <= 1.15 * REFERENCE[n, eps]


def test_intervals_that_ignored_the_privacy_noise_would_be_caught(monkeypatch):
    def sampling_only(answer, chances):
        return honest(replace(answer, noises=()), chances)

    honest = simulate.errors
    monkeypatch.setattr(simulate, "errors", sampling_only)
    assert cell(2000, 4.0, "linf", 30, seed=12).coverage.mean() < 0.8
