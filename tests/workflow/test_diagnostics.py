"""Residual plots show noisy releases, paid from one budget, and they reveal misspecified models."""

import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.errors import BudgetError, FormulaError, OptionError
from tests.conftest import norm_of, slow
from tests.drawings import assert_readable, texts

N = 6000
DOMAIN = ps.Domain({"x": (-8, 10), "g": ["a", "b"], "y": (-4, 12), "b": ["no", "yes"], "id": (0, N)})
TRUE = "y ~ x + g"


@cache
def rows(bend=0.0, fan=0.0):
    """Return rows of a linear model; optionally, the mean is curved, or errors grow with x."""
    rng = np.random.default_rng(5)
    x, g = rng.uniform(0, 2, N), rng.choice(["a", "b"], N)
    middle = 1 + 2 * x + (g == "b") + bend * (x - 1) ** 2
    y = middle + (0.5 + fan * x) * rng.normal(size=N)
    told = np.where(rng.uniform(size=N) < 1 / (1 + np.exp(3 - middle)), "yes", "no")
    return pd.DataFrame({"x": x, "g": g, "y": y, "b": told, "id": np.arange(N) // 2})


@cache
def fitted(formula=TRUE, **about):
    return ps.dp_lm(formula, rows(**about), mu=2, mech="newton", domain=DOMAIN, rng=1)


def z(frame, target=0.0):
    return (frame["mean"] - target) / frame["std_error"]


def test_frames_are_what_the_rows_have_but_for_noise():
    fit, data = fitted(), rows()
    seen = ps.dp_diagnostics(fit, data, eps=12, bins=6, rng=2)
    value = fit.predict(data)
    left = (data["y"] - value).to_numpy()
    sigma = fit.diagnostics["sigma"]
    steps = [*seen.residuals["low"], seen.residuals["high"].iloc[-1]]
    counts = np.histogram(left.clip(steps[0], steps[-1]), steps)[0]
    np.testing.assert_allclose(seen.residuals["count"], counts, atol=6 * seen.residuals["std_error"].max())
    np.testing.assert_allclose(seen.residuals["high"].iloc[-1], 4 * sigma)
    ends = seen.binned["low"].to_numpy()[1:]
    place = np.searchsorted(ends, value.to_numpy(), side="right")
    for frame, number in ((seen.binned, left), (seen.scale_location, np.sqrt(np.abs(left) / sigma))):
        expected = pd.Series(number.clip(-4 * sigma, 4 * sigma)).groupby(place).mean()
        assert (np.abs(frame["mean"] - expected) < frame["std_error"]).all()
    middle, spread = value.mean(), value.std()  # the public bins cover the range of the fitted values
    assert seen.binned["low"].iloc[0] == pytest.approx(middle - 2 * spread, abs=spread / 4)
    assert seen.binned["high"].iloc[-1] == pytest.approx(middle + 2 * spread, abs=spread / 4)


def test_a_curve_shows_in_means_of_residuals_and_growing_errors_in_their_size():
    right = ps.dp_diagnostics(fitted(), rows(), mu=1, bins=5, rng=1)
    assert np.abs(z(right.binned)).max() < 4
    bent = ps.dp_diagnostics(fitted(bend=1.0), rows(bend=1.0), mu=1, bins=5, rng=1)
    assert z(bent.binned).iloc[[0, 4]].min() > 4 and z(bent.binned)[2] < -4
    fan = ps.dp_diagnostics(fitted(fan=0.6), rows(fan=0.6), mu=1, bins=5, rng=1)
    sizes, alike = fan.scale_location["mean"], right.scale_location["mean"]
    assert sizes.iloc[4] > 1.4 * sizes.iloc[0]
    assert np.ptp(alike[1:4]) < 0.1


@pytest.mark.parametrize(
    ("budget", "whole", "shares"),
    [
        ({"eps": 1.0}, ps.PureDP(1.0), None),
        ({"mu": 1.0}, ps.GaussianDP(1.0), {"binned": 6}),
        ({"rho": 0.5}, ps.ZeroCDP(0.5), None),
        slow({"eps": 1.0, "delta": 1e-6}, ps.ApproxDP(1.0, 1e-6), None),
    ],
)
def test_all_pictures_together_cost_the_budget(budget, whole, shares):
    ledger = ps.Ledger(whole)
    seen = ps.dp_diagnostics(fitted(), rows(), ledger=ledger, shares=shares, rng=1, **budget)
    assert seen.guarantee == whole
    assert float(getattr(ledger.spent(), whole.currency)) == pytest.approx(whole.numbers[whole.currency], rel=1e-3)
    assert ledger.entries["call"].str.partition(" ")[0].tolist() == ["dp_hist", "dp_mean", "dp_mean"]
    parts = [fit.guarantee for fit in seen.fits]
    assert parts[0] == whole.part(0.25 if shares is None else 0.25 / 6.5)
    assert whole.covers(parts)


def test_nothing_is_read_or_charged_that_is_not_paid_for():
    ledger, read = ps.Ledger(ps.PureDP(1.0)), []

    def data():
        read.append(1)
        return [rows()]

    with pytest.raises(BudgetError, match="left"):
        ps.dp_diagnostics(fitted(), data, eps=1.5, ledger=ledger)
    assert not len(ledger.entries) and ledger.remaining() == ps.PureDP(1.0)
    protected = ps.protect(rows(), domain=DOMAIN, budget=ps.PureDP(1.0))
    assert ps.dp_diagnostics(fitted(), protected, eps=1.0, rng=1).guarantee == protected.ledger.budget
    with pytest.raises(BudgetError):
        ps.dp_diagnostics(fitted(), protected, eps=0.1)


def frames():
    """Yield neighbouring frames: in each frame, another row replaces the first one.

    The values of this row are ordinary, extreme, invalid or missing.
    """
    data = rows()
    others = [
        (0.0, "a", -4.0),
        (2.0, "b", 12.0),
        (np.nan, "a", 1.0),
        (2.0, "c", 1.0),
        (np.inf, "b", -np.inf),
        (1, "a", 3),
    ]
    for x, g, y in others:
        other = data.copy()
        other.loc[0, ["x", "g", "y"]] = x, g, y
        yield other


def test_neighbours_shift_no_picture_by_more_than_its_share_and_some_by_as_much():
    fit = fitted()
    answers = [ps.dp_diagnostics(fit, data, eps=1.0, bins=5, rng=3) for data in frames()]
    for kind in range(3):
        releases = [seen.fits[kind].releases for seen in answers]
        assert {len(each) for each in releases} == {1}  # one release per plot; equal seeds give equal noise
        claim = releases[0][0].within.sensitivity("l1", fit.facts.neighbors.relation(True, True))
        values = np.array([each[0].value for each in releases])
        moved = (values[:, None] - values[None]).reshape(-1, values.shape[1]) * claim.weights
        steps = norm_of(claim)(moved) / claim.size
        assert 0.99 <= steps.max() <= 1 + 1e-9
        promised = releases[0][0].keeps
        assert promised == ps.PureDP(1.0).part((0.25, 0.5, 0.25)[kind])
        noise = releases[0][0].law.variance()  # the noise is Laplace noise of exactly the required scale
        np.testing.assert_allclose(noise * claim.weights**2, 2 * (claim.size / promised.eps) ** 2, rtol=1e-6)


def test_a_logistic_regression_has_means_of_residuals_by_fitted_probability():
    data = rows(bend=3.0)
    fit = ps.dp_glm("b ~ x + g", data, eps=4, domain=DOMAIN, rng=1)
    seen = ps.dp_diagnostics(fit, data, eps=6, bins=4, rng=1)
    assert seen.residuals is None and seen.scale_location is None and len(seen.fits) == 1
    value = fit.predict(data).to_numpy()
    place = np.searchsorted(seen.binned["low"].to_numpy()[1:], value, side="right")
    expected = pd.Series((data["b"] == "yes") - value).groupby(place).mean()
    assert (np.abs(seen.binned["mean"] - expected) < seen.binned["std_error"]).all()
    assert np.abs(z(seen.binned)).max() > 4
    assert len(seen.plot().axes) == 1


def test_rows_units_and_bounds_are_those_of_the_fit():
    about = {"unit": "id", "rows_per_unit": 2, "subset": "x > 0.2", "domain": DOMAIN, "mech": "suffstats", "rng": 1}
    fit = ps.dp_lm(TRUE, rows(), eps=4, **about)
    seen = ps.dp_diagnostics(fit, rows(), eps=2, bins=4, rng=1)
    assert all(one.guarantee.neighbors == fit.guarantee.neighbors for one in seen.fits)
    assert all(one.facts.subset == "x > 0.2" for one in seen.fits)
    assert seen.residuals["count"].sum() == pytest.approx((rows()["x"] > 0.2).sum(), abs=900)
    known = {name: DOMAIN[name] for name in ("x", "g")}
    lacking = ps.dp_lm(TRUE, rows(), mu=4, domain=known, mech="suffstats", rng=1)
    found = ps.dp_diagnostics(lacking, rows(), mu=2, bins=4, rng=1)
    assert np.isfinite(found.binned["mean"]).all()


def test_where_the_fit_does_not_tell_them_ranges_are_given_or_declared():
    fit = ps.dp_lm("y ~ 0 + x + g", rows(), mu=2, mech="newton", domain=DOMAIN, rng=1)
    wide = ps.dp_diagnostics(fit, rows(), mu=1, bins=4, rng=1).binned
    slope, level = fit.params["x"], fit.params.drop("x")
    assert wide["low"].iloc[0] == pytest.approx(-8 * slope, abs=0.1 * slope) and wide["high"].iloc[-1] > 10 * slope
    assert level.max() < wide["high"].iloc[-1]
    given = ps.dp_diagnostics(fit, rows(), mu=1, bins=4, fitted=(1, 6), scale=0.5, rng=1)
    assert given.binned["low"].tolist() == [1.0, 2.25, 3.5, 4.75] and given.residuals["high"].iloc[-1] == 2.0
    assert np.isfinite(given.binned["mean"]).all()


@pytest.mark.parametrize(
    ("fit", "options", "error", "says"),
    [
        (lambda: "fit", {}, OptionError, r"write ps.dp_diagnostics\(fit, data, eps=1\)"),
        (lambda: ps.dp_mean("y", rows(), eps=1, domain=DOMAIN), {}, OptionError, "fit the formula by dp_lm"),
        (
            lambda: ps.dp_rq("y ~ x", rows(), eps=4, mech="objpert", domain=DOMAIN),
            {},
            OptionError,
            "no diagnostics of a private quantile regression",
        ),
        (fitted, {"bins": 1}, OptionError, "bins=10"),
        (fitted, {"bins": True}, OptionError, "bins=10"),
        (fitted, {"scale": -1}, OptionError, "scale=1"),
        (fitted, {"fitted": 3}, OptionError, r"fitted=\(0, 10\)"),
        (fitted, {"fitted": (2, 1)}, OptionError, r"fitted=\(0, 10\)"),
        (lambda: fitted("y ~ 1"), {}, FormulaError, r"one fitted value for all rows; write dp_hist\('y', ...\)"),
        (fitted, {"shares": {"binned": 0}}, OptionError, "shares are positive"),
        (fitted, {"shares": {"curve": 1}}, OptionError, "choose among 'residuals', 'binned', 'scale_location'"),
        (fitted, {"eps": None}, BudgetError, "no budget is given"),
        (fitted, {"eps": 1, "mu": 1}, BudgetError, "both given"),
    ],
)
def test_what_has_no_pictures_is_refused_with_a_cure(fit, options, error, says):
    with pytest.raises(error, match=says):
        ps.dp_diagnostics(fit(), rows(), **{"eps": 1.0, **options})


def test_a_coefficient_that_is_not_given_is_named():
    data = rows().assign(w=lambda frame: frame["x"])
    fit = ps.dp_lm("y ~ x + w", data, eps=1, mech="suffstats", domain={**DOMAIN, "w": (0, 2)}, rng=1)
    assert fit.params.isna().any()
    with pytest.raises(FormulaError, match="is not given, so there are no fitted values; fit the formula without it"):
        ps.dp_diagnostics(fit, data, eps=1)


def test_pictures_are_readable_and_hold_no_row():
    from matplotlib.figure import Figure

    data = rows().copy()
    data.loc[0, "y"] = 3.1234567890123
    seen = ps.dp_diagnostics(fitted(), data, eps=1, rng=1)
    figure = seen.plot()
    assert_readable(figure)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["Histogram of residuals", "Mean residual by fitted value", "Size of residuals by fitted value"]
    assert figure.axes[0].patches and TRUE in figure.get_suptitle() and "not private (rng=1)" in figure.get_suptitle()
    own = Figure(figsize=(12, 4), layout="constrained")
    assert seen.plot(ax=own.subplots(1, 3)) is own
    with pytest.raises(OptionError, match=r"figure.subplots\(1, 3\)"):
        seen.plot(ax=own.axes[0])
    far = ps.dp_diagnostics(fitted(), data, eps=0.02, bins=12, rng=1).plot()
    assert "not given" in texts(far)
    printed = str(ps.dp_diagnostics(fitted(), data, eps=0.02, bins=12, rng=1))
    assert "not given [1]" in printed and "[1] A bin is not given if noise hides" in printed
    assert "nan" not in printed.lower() and max(map(len, printed.splitlines())) <= 80
    assert max(len(part) for part in printed.split() if part[-1].isdigit()) <= 9  # numbers are rounded
    assert "not given" not in str(seen)
    assert data.loc[0, "y"].tobytes() not in pickle.dumps(seen) and "3.12345" not in str(seen)
    assert repr(seen) == f"<Diagnostics of {TRUE}: residuals, binned, scale_location; {seen.guarantee}>"
    assert "seeded: not private (rng=" in str(seen).splitlines()[1]
    assert dir(seen) == ["binned", "fits", "formula", "guarantee", "plot", "residuals", "scale_location"]


def test_a_picture_of_nothing_given_spreads_its_words():
    drawn = ps.dp_diagnostics(fitted(), rows().head(500), eps=0.01, rng=1).plot()
    assert_readable(drawn)
    for axes in drawn.axes[1:]:
        places = sorted(text.xy[0] for text in axes.texts if text.get_text() == "not given")
        low, high = axes.get_xlim()
        assert len(places) > 5
        assert (np.diff(places) > (high - low) / 30).all()
