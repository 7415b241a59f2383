"""Score variances by level of a factor, for noisy moments.

The second moments of the whitened predictors are the identity, and with large budgets std errors equal HC1.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.estimators.sufficient_statistics import whitened_by_level
from privstats.formula.design import bind_regression
from privstats.inference.matrix import HIDDEN, NoisyMatrix
from privstats.privacy.promise import Relation
from privstats.privacy.release import Release
from tests.estimators.test_coded_moments import DOMAIN, moments

MOST = 1e7  # a budget so large that noise is negligible


def rows(n):
    rng = np.random.default_rng(4)
    made = {name: rng.uniform(*DOMAIN[name], n) for name in "xow"}
    made |= {
        name: rng.choice(DOMAIN[name], n, p=None if name != "a" else [0.5, 0.3, 0.15, 0.04, 0.01]) for name in "abt"
    }
    y = 0.2 * made["x"] + (made["a"] == "b") + rng.normal(0, 1, n) * (0.2 + 0.1 * made["x"])
    return pd.DataFrame(made | {"y": y.clip(*DOMAIN["y"])})


@pytest.mark.parametrize("formula", ["y ~ x + C(a)", "y ~ 0 + C(a) + x", "y ~ C(a, Sum) + C(b) * x", "y ~ C(a)"])
def test_predictors_have_the_identity_as_second_moments_and_levels_never_meet(formula):
    here, data = moments(formula), rows(2000)
    block = here.box.design.block(data)
    Z = block.times(np.eye(here.box.width)[:, : here.box.c])
    factor, _, one = here.levelled[0]
    levels = whitened_by_level(one, NoisyMatrix.known(Z.T @ Z), len(Z))
    w, of_row, at = Z @ levels.whole, Z @ levels.of_row, block.codes[factor]
    np.testing.assert_allclose(w.T @ w / len(Z), np.eye(here.box.c), atol=1e-10)
    expected = np.zeros_like(w)
    expected[np.arange(len(Z)), at] = of_row[:, 0]
    expected[:, one.shape[1] :] = of_row[:, 1:]
    np.testing.assert_allclose(w, expected, atol=1e-10)


def test_a_level_or_direction_that_noise_hides_is_taken_to_be_as_large_as_the_noise_may_hide():
    """If noise hides the count of a level or the variance of x within levels, whitened rows stay short.

    A hidden count or variance is replaced by the largest value that the noise may hide. Because of noise, counts of
    levels are negative here, and x has no variance left within the levels.
    """
    here = moments("y ~ x + C(a)")
    Z = here.box.design.block(rows(2000)).times(np.eye(here.box.width)[:, : here.box.c])
    sd, c, one = 1e4, here.box.c, here.levelled[0][2]
    x = np.flatnonzero(~one.any(axis=1))
    value = Z.T @ Z - sd
    for _ in range(2):  # in the second turn, x has no variance left within the levels
        columns = NoisyMatrix.uncorrelated(value, np.full((c, c), sd**2), np.eye(c))
        levels = whitened_by_level(one, columns, len(Z))
        rest = levels.of_row[:, 1]
        value[x, x] -= rest @ value @ rest / rest[x] ** 2
    assert np.einsum("ik,ij,jk->k", one, columns.value, one).min() < 0
    least = HIDDEN * np.sqrt(columns.variance_along(one).min())
    assert ((Z @ levels.of_row)[:, 0] ** 2).max() <= len(Z) / least * (1 + 1e-9)
    assert rest[x] ** 2 <= len(Z) / (HIDDEN * sd)
    assert np.linalg.cond(levels.whole) < 1e3


@pytest.mark.parametrize(
    ("formula", "options"),
    [
        ("y ~ x + C(a)", {}),
        ("y ~ 0 + C(a) + x", {}),
        ("y ~ C(a)", {}),
        ("y ~ C(a, Sum) * x + C(b)", {}),
        ("y ~ x + C(a)", {"weights": "w", "neighbors": "add_remove"}),
    ],
    ids=str,
)
def test_std_errors_of_a_large_budget_are_hc1_of_the_rows(formula, options):
    data = rows(3000)
    fit = ps.dp_lm(formula, data, mu=MOST, domain=DOMAIN, mech="suffstats", rng=1, **options)
    design = bind_regression(formula, DOMAIN)
    X = np.asarray(design.matrix(data))
    w = data["w"].to_numpy() / 2 if "weights" in options else np.ones(len(X))
    y = data["y"].to_numpy()
    bread = np.linalg.inv((X.T * w) @ X)
    score = X * (w * (y - X @ (bread @ X.T @ (w * y))))[:, None]
    n = len(X) if "weights" not in options else w.sum()
    hc1 = n / (n - X.shape[1]) * bread @ score.T @ score @ bread
    np.testing.assert_allclose(fit.bse, np.sqrt(np.diag(hc1)), rtol=1e-3)


class Asked:
    """A stand-in for the gate that answers queries with pure noise and keeps the queries' sets (`within`)."""

    def __init__(self):
        self.sets = []

    def law(self, question, *, by):
        return by.law(ps.GaussianDP(1.0), question.within, Relation())

    def __call__(self, question, *, by):
        self.sets.append(question.within)
        law = self.law(question, by=by)
        return Release(
            question.label, law.sample(np.random.default_rng(1), 1)[0], law, ps.GaussianDP(1.0), question.within
        )


@pytest.mark.parametrize(
    ("formula", "by_unit", "levels"),
    [
        ("y ~ x + C(b) + C(a)", False, 5),
        ("y ~ x + C(a)", False, 5),
        ("y ~ x + C(a)", True, None),
        ("y ~ x + t", False, None),
        ("y ~ C(a):x", False, None),
    ],
)
def test_the_largest_factor_is_kept_apart_but_not_two_levels_and_no_sums_over_units(formula, by_unit, levels):
    here = moments(formula)
    ask = Asked()
    here = replace(here, ask=ask, public=replace(here.public, by_unit=by_unit))
    c = here.box.c
    both = NoisyMatrix.known(np.eye(c + 1))
    here.meat_of_columns(here.start, both.mapped(np.eye(c + 1)[:, :-1]), both)
    assert [getattr(within, "levels", None) for within in ask.sets] == [levels]
    assert ask.sets[0].size == (c * (c + 1) - (levels or 0) * ((levels or 1) - 1)) / 2
