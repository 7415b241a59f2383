"""Exponentials of coefficients: odds ratios, where the link is the logit."""

import numpy as np
import pandas as pd
import pytest

import privstats as ps

X = np.linspace(-1, 1, 5000)


@pytest.fixture(scope="module")
def fit():
    data = pd.DataFrame({"x": X, "y": 0.5 + X + np.sin(1e5 * X)})
    return ps.dp_lm("y ~ x", data, 1.0, domain={"x": (-1, 1), "y": (-3, 4)}, rng=1)


def test_intervals_of_exponentials_are_exponentials_of_intervals(fit):
    np.testing.assert_array_equal(fit.conf_int(0.1, exp=True), np.exp(fit.conf_int(0.1)))


def test_a_tidy_table_of_exponentials_leaves_errors_and_tests_as_they_are(fit):
    plain, exponentials = fit.tidy(), fit.tidy(exp=True)
    moved = ["estimate", "conf_low", "conf_high"]
    np.testing.assert_array_equal(exponentials[moved], np.exp(plain[moved]))
    pd.testing.assert_frame_equal(exponentials.drop(columns=moved), plain.drop(columns=moved))


def test_a_summary_of_exponentials_says_so(fit):
    text = str(fit.summary(exp=True))
    assert "exp(coef)" in text
    assert "are exponentials" in text
    assert f"{np.exp(fit.params['x']):.4g}" in text
