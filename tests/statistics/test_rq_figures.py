"""A reduced, seeded version of the benchmark that redraws the figure of median regression by KNG."""

import math

import pytest

from benchmarks import kng_figure2

pytestmark = pytest.mark.slow  # KNG serves for comparison, and is used only if requested by name

REPLICATES = 12


@pytest.fixture(scope="module")
def found():
    return kng_figure2.errors(10_000, 20, seed=21)[0]


def test_kng_is_as_good_as_no_privacy_from_ten_thousand_rows_on_and_the_exponential_mechanism_is_not(found):
    assert kng_figure2.misses(10_000, found) == []
    for version, by_method in found.items():
        assert by_method[kng_figure2.TIGHT].mean() > 1.5 * by_method[kng_figure2.ORDINARY].mean(), version


def test_at_a_hundred_rows_one_that_comes_or_goes_costs_no_more_than_one_replaced():
    found, _ = kng_figure2.errors(100, REPLICATES, seed=22)
    for by_method in found.values():
        more = by_method[kng_figure2.REPLACE] - by_method[kng_figure2.ADD]
        assert more.mean() > -2 * more.std(ddof=1) / math.sqrt(REPLICATES)
        assert by_method[kng_figure2.REPLACE].mean() < by_method[kng_figure2.TIGHT].mean()


def test_a_fiftieth_of_the_budget_would_miss_the_target(monkeypatch):
    monkeypatch.setattr(kng_figure2, "EPS", 0.02)
    missed = kng_figure2.misses(10_000, kng_figure2.errors(10_000, 10, seed=23)[0])
    assert any("KNG" in target for target in missed)
