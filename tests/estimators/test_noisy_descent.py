"""Noisy gradient descent and noisy Newton steps: shares of the budget, estimates, and coverage of intervals."""

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.estimators.noisy_descent import NoisyGradientDescent, NoisyNewton
from privstats.losses.base import HuberLoss
from privstats.losses.families import Logit
from privstats.losses.mestimators import Concomitant
from privstats.losses.psi import Likelihood
from tests.conftest import thinned

LINEAR = np.array([1.0, 0.5, -0.5, 0.25])
SCALES = {name: ps.Scale(0.0, 1.0) for name in ("a", "b", "c", "y")}
MECHS = ("ngd", "noisy_newton")


def rows(n, seed=0, logit=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    eta = LINEAR[0] * (not logit) + X @ LINEAR[1:]
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-eta))) * 1.0 if logit else eta + rng.normal(size=n)
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)


def robust(data, mech="ngd", loss="huber", mu=1.0, **options):
    call = {"rng": 1, "domain": SCALES, **options}
    return ps.dp_lm("y ~ a + b + c", data, mu=mu, mech=mech, loss=loss, **call)


def logit(data, mech="ngd", mu=1.0, **options):
    domain = {**SCALES, "y": (0, 1)}
    return ps.dp_glm("y ~ a + b + c", data, mu=mu, mech=mech, domain=domain, **{"rng": 1, **options})


def solved(data, clip=2.0**0.5, c=1.345, steps=400):
    """Return the weighted Huber estimate and its standard errors, computed without privacy."""
    X, y = np.column_stack([np.ones(len(data)), data[["a", "b", "c"]]]), data["y"].to_numpy()
    w = np.minimum(1.0, clip**2 / (X**2).sum(axis=1))
    kappa, beta, sigma = Concomitant(HuberLoss(c), clip**2).kappa, np.zeros(4), 1.0
    for _ in range(steps):
        psi = np.clip((y - X @ beta) / sigma, -c, c)
        beta = beta + sigma * 0.5 * X.T @ (w * psi) / len(y)
        sigma *= np.exp((w * (psi**2 - kappa)).mean())
    r = (y - X @ beta) / sigma
    M, S = (X.T * (w * (np.abs(r) < c))) @ X, X * (w * np.clip(r, -c, c))[:, None]
    inverse = np.linalg.inv(M)
    return beta, sigma * np.sqrt(np.diag(inverse @ S.T @ S @ inverse) * len(y) / (len(y) - 4))


@pytest.mark.parametrize("mech", MECHS)
def test_without_noise_to_speak_of_it_is_the_fit_without_privacy(mech):
    data = rows(3000)
    fit = robust(data, mech, mu=1e5)
    params, bse = solved(data)
    np.testing.assert_allclose(fit.params, params, atol=2e-3 * bse.max())
    np.testing.assert_allclose(fit.bse, bse, rtol=2e-3)


@pytest.mark.parametrize("mech", MECHS)
@pytest.mark.parametrize("steps", [None, 7])
def test_steps_bread_and_meat_have_the_whole_budget_in_equal_parts(mech, steps):
    plan = robust(rows(1000), mech, steps=steps, dry_run=True)
    # numbers of steps: ceil(8 log n) and ceil(2.3 log n), for n = 1,000 rows
    K = steps or {"ngd": 56, "noisy_newton": 16}[mech]
    promised = np.array([p.promise.mu for p in plan.planned])
    assert (promised**2).sum() == pytest.approx(1.0, abs=1e-12)
    assert len({round(mu, 12) for p, mu in zip(plan.planned, promised, strict=True) if p.name != "rows"}) == 1
    steps_asked = [p for p in plan.planned if p.name in ("gradient", "hessians")]
    assert len(steps_asked) == K * (1 + (mech == "noisy_newton"))


@thinned(5)
@pytest.mark.parametrize("mech", MECHS)
@pytest.mark.parametrize("loss", ["huber", "pseudo_huber", "logcosh", "logit"])
def test_intervals_cover_and_without_the_noise_they_do_not(mech, loss):
    truth = np.r_[0.0, LINEAR[1:]] if loss == "logit" else LINEAR
    covered, alone = [], []
    for seed in range(60):
        data = rows(1000, seed, loss == "logit")
        fit = logit(data, mech, 0.5, rng=seed) if loss == "logit" else robust(data, mech, loss, 0.5, rng=seed)
        low, high = fit.conf_int().to_numpy().T
        half = 1.96 * fit.bse * np.sqrt(1 - fit.noise_share)
        covered.append(((low <= truth) & (truth <= high)).mean())
        alone.append((np.abs(fit.params - truth) <= half).mean())
    # sd of a mean of 60 x 4 indicators; the factor 3.5 allows for the dependence of the four coefficients' errors
    assert np.mean(covered) > 0.95 - 3.5 * (0.95 * 0.05 / 60) ** 0.5 / 2
    assert np.mean(alone) < 0.9


def test_what_is_left_of_the_start_is_allowed_for():
    """Intervals allow for the error that is left if a descent stops too early, and a note reports it.

    The descent stops after eight of the fifty steps that it needs. Intervals that ignored this error would all be
    wrong.
    """
    fit = robust(rows(5000), steps=8, mu=50.0)
    low, high = fit.conf_int().to_numpy().T
    assert ((low <= LINEAR) & (high >= LINEAR)).all()
    assert (np.abs(fit.params - LINEAR) > 3 * fit.bse).any()
    assert any("steps may not have arrived" in note for note in fit.summary().notes)


def test_nothing_is_given_where_steps_have_surely_not_arrived():
    """No or few coefficients are given if the descent stops far from the minimiser.

    The first fit makes only two steps. In the other fits, the predictors' bounds are five sds, and noise hides that the
    slopes converge slowly.
    """
    assert robust(rows(5000), steps=2, mu=50.0).params.isna().all()
    wide = {**dict.fromkeys("abc", (-5, 5)), "y": (-6, 8)}
    wrong = given = 0
    for seed in range(12):
        fit = ps.dp_lm("y ~ a + b + c", rows(800, seed), mu=0.5, mech="ngd", loss="huber", domain=wide, rng=seed)
        low, high = fit.conf_int().to_numpy().T
        given += np.isfinite(low).sum()
        wrong += ((high < LINEAR) | (low > LINEAR)).sum()
    assert given < 24 and wrong <= 0.05 * given + 3 * (0.05 * max(given, 1)) ** 0.5


def test_the_summary_names_what_to_use_in_its_place_and_how_much_longer_this_is():
    data = rows(20_000)
    ratios = []
    for seed in range(5):
        fit, other = (robust(data, mech, mu=0.25, rng=seed) for mech in ("noisy_newton", "newton"))
        ratios.append(np.median(np.diff(fit.conf_int()) / np.diff(other.conf_int())))
    (one,) = [note for note in fit.summary().notes if "Avella-Medina" in note]
    told, longer = float(one.split("about ")[1].split(" times")[0]), np.median(ratios)
    assert one.endswith("mech='newton'.") and longer > 1.2 and told == pytest.approx(longer, rel=0.2)
    smooth = robust(data, loss="logcosh", mu=0.25).summary().notes
    assert any(note.endswith("mech='newton' with loss='huber'.") for note in smooth)


def test_nothing_is_said_of_lengths_where_other_methods_are_no_shorter():
    """The note on noisy descent states no ratio of interval lengths if mech="newton" has no shorter intervals.

    At 1,000 rows and mu = .5, scales and matrices of mech="newton" cost more budget than the steps of descent.
    """
    notes = robust(rows(1000), mu=0.5).summary().notes
    assert any("has shorter intervals" in note for note in notes)
    assert not any("as long as those of" in note for note in notes)


def test_steps_are_as_long_as_the_curvature_allows():
    assert NoisyGradientDescent(rows=100).K == 37 and NoisyNewton(rows=100).K == 11
    assert NoisyGradientDescent(rows=9).eta == pytest.approx(0.5)
    assert NoisyGradientDescent(loss=Likelihood(Logit()), rows=9).eta == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"mu": None, "eps": 1.0}, ps.BudgetError, "give mu="),
        ({"neighbors": "add_remove"}, ps.OptionError, "leave neighbors= out"),
        ({"unit": "a"}, ps.OptionError, "leave unit= out"),
        ({"weights": "c"}, ps.OptionError, "leave weights= out"),
        ({"noise": "l2"}, ps.OptionError, "leave noise= out"),
        ({"steps": 0}, ps.OptionError, "steps=50"),
        ({"steps": 2.5}, ps.OptionError, "steps=50"),
        ({"steps": 10**6}, ps.OptionError, "up to 1000"),
        ({"step_size": 1.5}, ps.OptionError, "between 0 and 1"),
        ({"clip": -1}, ps.OptionError, "clip=1.4"),
        ({"tuning": float("nan")}, ps.OptionError, "tuning=1.345"),
        ({"loss": "squares"}, ps.OptionError, "add loss='huber'"),
        ({"mech": "auto", "loss": "logcosh"}, ps.OptionError, "name one"),
        ({"mech": "newton", "steps": 3}, ps.OptionError, "no option steps="),
        ({"cov_type": "nonrobust"}, ps.OptionError, "no option cov_type="),
    ],
    ids=str,
)
def test_what_it_cannot_do_is_refused_before_it_is_paid(options, error, says):
    budget = ps.PureDP if "eps" in options else ps.GaussianDP
    ledger = ps.Ledger(budget(1.0, ps.Neighbors("replace", options.get("unit"))))
    domain = {**SCALES, "c": (0, 3)}
    call = {"mu": 1.0, "mech": "ngd", "loss": "huber", "domain": domain, "ledger": ledger, "rng": 1, **options}
    with pytest.raises(error, match=says):
        ps.dp_lm("y ~ a + b", rows(300), **call)
    assert not len(ledger.entries)


def test_under_eps_and_delta_it_spends_the_mu_that_they_cover():
    data = rows(500)
    call = {"mech": "ngd", "loss": "huber", "domain": SCALES, "rng": 1}
    fit = ps.dp_lm("y ~ a + b + c", data, eps=2.0, delta=1e-6, **call)
    spent = sum(p.promise.mu**2 for p in ps.dp_lm("y ~ a", data, eps=2.0, delta=1e-6, dry_run=True, **call).planned)
    assert spent**0.5 == pytest.approx(ps.gdp_mu(2.0, 1e-6), rel=1e-6) and fit.params.notna().all()


def test_subsampled_steps_end_near_the_truth_without_an_interval_and_say_why():
    data = rows(20_000)
    call = {"domain": SCALES, "mech": "sgd", "rng": 1, "eps": 2.0, "delta": 1e-6}
    for loss in ("huber", "pseudo_huber", "logcosh"):
        fit = ps.dp_lm("y ~ a + b + c", data, loss=loss, **call)
        assert np.abs(fit.params - LINEAR).max() < 0.15
        assert fit.bse.isna().all() and fit.conf_int().isna().all(axis=None)
        (note,) = fit.summary().notes
        assert "is not known" in note and "mech='newton'" in note
        assert [release.name for release in fit.releases] == ["coefficients"]
    fit = ps.dp_glm("y ~ a + b + c", rows(20_000, logit=True), **{**call, "domain": {**SCALES, "y": (0, 1)}})
    assert np.abs(fit.params - np.r_[0.0, LINEAR[1:]]).max() < 0.25


def test_subsampled_steps_converge_where_gradients_are_seldom_clipped():
    data = rows(4000)
    call = {"domain": SCALES, "mech": "sgd", "rng": 1, "eps": 500.0, "delta": 1e-4, "loss": "huber"}
    fit = ps.dp_lm("y ~ a + b + c", data, batch=4000, steps=200, step_size=0.2, clip=20.0, tuning=2.0, **call)
    X = np.column_stack([np.ones(4000), data[["a", "b", "c"]]])
    beta = np.zeros(4)
    for _ in range(2000):
        beta = beta + 0.2 * X.T @ np.clip(data["y"] - X @ beta, -2, 2) / 4000
    np.testing.assert_allclose(fit.params, beta, atol=0.02)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"delta": 0.0}, ps.BudgetError, "give delta="),
        ({"eps": None, "delta": 0.0, "mu": 1.0}, ps.BudgetError, "give delta="),
        ({"neighbors": "add_remove"}, ps.OptionError, "leave neighbors= out"),
        ({"unit": "a"}, ps.OptionError, "leave unit= out"),
        ({"batch": 301}, ps.OptionError, "at most batch=300"),
        ({"steps": 0}, ps.OptionError, "steps=200"),
        ({"clip": 0}, ps.OptionError, "clip="),
        ({"step_size": -1}, ps.OptionError, "step_size="),
        ({"tuning": 0}, ps.OptionError, "tuning=1.345"),
    ],
    ids=str,
)
def test_what_subsampled_steps_cannot_do_is_refused(options, error, says):
    call = {"eps": 1.0, "delta": 1e-6, "mech": "sgd", "loss": "huber", "domain": {**SCALES, "c": (0, 3)}, "rng": 1}
    with pytest.raises(error, match=says):
        ps.dp_lm("y ~ a + b", rows(300), **{**call, **options})


@thinned(5)
@pytest.mark.parametrize("mech", MECHS)
@pytest.mark.parametrize("n", [10, 60])
@pytest.mark.parametrize("mu", [1e-9, 1e-4, 0.01, 1e6])
def test_any_budget_gives_intervals_of_some_width_or_none(mech, n, mu):
    for seed in range(3):
        for fit in (robust(rows(n, seed), mech, mu=mu, rng=seed), logit(rows(n, seed, True), mech, mu=mu, rng=seed)):
            low, high = fit.conf_int().to_numpy().T
            given = fit.params.notna().to_numpy()
            assert np.isfinite(fit.params[given]).all() and (high > low)[given].all() and np.isnan(low[~given]).all()


@pytest.mark.parametrize("mech", [*MECHS, "sgd"])
def test_least_squares_by_another_name_are_refused_as_well(mech):
    call = {"family": "gaussian", "mech": mech, "domain": {"a": (-5, 5), "y": (-5, 5)}, "rng": 1}
    for more in ({}, {"neighbors": "add_remove"}, {"unit": "b"}):
        with pytest.raises(ps.OptionError, match="loss='huber'"):
            ps.dp_glm("y ~ a", rows(100), eps=1.0, delta=1e-6, **call, **more)


@thinned(2)
@pytest.mark.parametrize("mech", MECHS)
def test_an_estimate_alone_says_how_large_its_noise_is(mech):
    """The sds of the noise stated in a note are compared with the sds of the estimates over seeds."""
    rng = np.random.default_rng(5)
    data = pd.DataFrame({"a": rng.uniform(-1, 1, 2000)}).assign(y=lambda d: 1 + d["a"] / 2 + rng.normal(0, 0.2, 2000))
    call = {"mu": 0.3, "mech": mech, "loss": "huber", "inference": "none", "domain": {"a": (-1, 1), "y": (-3, 3)}}
    fits = [ps.dp_lm("y ~ a", data, rng=seed, **call) for seed in range(40)]
    (text,) = [note for note in fits[0].summary().notes if "inference='none'" in note]
    told = [float(part.split(" in '")[0].split()[-1]) for part in text.split(" and ")[:2]]
    seen = np.std([fit.params.to_numpy() for fit in fits], axis=0)
    assert np.array(told) / seen == pytest.approx([1, 1], abs=0.35)


def test_steps_whose_errors_would_grow_beyond_all_numbers_are_not_given():
    """If Newton steps would make errors grow without limit, intervals are not given, or they are finite.

    At the start, all residuals exceed Huber's threshold, so that the many steps use Hessians near zero.
    """
    data = rows(3000).assign(y=lambda d: d["y"] + 40)
    fit = robust(data, "noisy_newton", mu=1e6, steps=400, domain={**SCALES, "y": ps.Scale(0.0, 0.05)})
    low, high = fit.conf_int().to_numpy().T
    assert (np.isnan(low) | ((low < high) & np.isfinite(high))).all()


@pytest.mark.parametrize("mech", MECHS)
def test_where_noise_exceeds_what_declared_scales_say_nothing_is_given(mech):
    """At 60 rows and mu = .25, the last iterate of the descent is mostly noise, and no coefficient is given.

    Intervals that assumed scores linear in the coefficients covered with probability .37. At 500 rows, all coefficients
    are given.
    """
    assert robust(rows(60), mech, mu=0.25).params.isna().all()
    fit = robust(rows(500), mech, mu=0.25)
    assert fit.params.notna().all() and any("nearly collinear" in note for note in fit.summary().notes)
    assert not any("longer than needed" in note for note in fit.summary().notes)
