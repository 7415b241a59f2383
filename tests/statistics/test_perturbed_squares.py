"""Least squares by objective perturbation: coverage where the model is wrong and the response has rare large values."""

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from benchmarks.hard_cases import THREE, three_levels
from privstats.estimators.one_step import OneStep
from privstats.estimators.perturbed_least_squares import PerturbedSquares
from privstats.losses.base import HuberLoss
from tests.conftest import thinned

WHOLE = 100_000
SEEDS = 30
LEAST = 0.80  # least coverage: 0.95 less three standard errors of a share of 30 fits, with some margin


def skewed(rng, n):
    """Return rows with a skewed predictor in wide bounds; its effect is concave, and the errors grow with its value."""
    x, z = rng.lognormal(0, 0.6, n).clip(0, 20), rng.normal(size=n).clip(-5, 5)
    return pd.DataFrame(
        {"x": x, "z": z, "y": (np.log1p(x) + 0.3 * z + (0.3 + 0.2 * x) * rng.normal(size=n)).clip(-20, 20)}
    )


def claims(rng, n):
    """Return rows with 97 % zeros and lognormal positive responses."""
    x, z = rng.normal(size=(2, n)).clip(-5, 5)
    y = np.where(rng.uniform(size=n) < 0.97, 0.0, np.exp(2 + 0.4 * x + 0.5 * rng.normal(size=n)).clip(0, 60))
    return pd.DataFrame({"x": x, "z": z, "y": y})


def outcomes(rng, n):
    """Return rows with a binary response, 2 % of which are ones, that depends on a predictor and a dummy."""
    x, z = rng.normal(0, 0.5, n).clip(-1, 1), (rng.uniform(size=n) < 0.3) * 1.0
    return pd.DataFrame({"x": x, "z": z, "y": (rng.uniform(size=n) < 0.02 * np.exp(0.5 * x + 0.4 * z)) * 1.0})


CELLS = {  # by name: rows, number of rows, eps, domain, and largest allowed length relative to that without privacy
    "skewed": (skewed, 3000, 2.0, {"x": (0, 20), "z": (-5, 5), "y": (-20, 20)}, 4.0),
    "claims": (claims, 2000, 4.0, {"x": (-5, 5), "z": (-5, 5), "y": (0, 60)}, 4.0),
    "outcomes": (outcomes, 2000, 2.0, {"x": (-1, 1), "z": (0, 1), "y": (0, 1)}, 6.0),
}


@thinned(1)
@pytest.mark.parametrize("name", CELLS)
def test_intervals_cover_the_coefficients_of_a_population_at_a_short_budget(name):
    made, n, eps, domain, longest = CELLS[name]
    whole = made(np.random.default_rng(0), WHOLE)
    A = np.column_stack([np.ones(WHOLE), whole[["x", "z"]]])
    truth = np.linalg.lstsq(A, whole["y"], rcond=None)[0]
    residual = whole["y"].to_numpy() - A @ truth
    inverse = np.linalg.inv(A.T @ A)
    usual = np.sqrt(np.diag(inverse @ ((A * residual[:, None] ** 2).T @ A) @ inverse) * WHOLE / n)
    covered, lengths = [], []
    for seed in range(SEEDS):
        rows = whole.sample(n, random_state=seed, ignore_index=True)
        fit = ps.dp_lm("y ~ x + z", rows, eps=eps, domain=domain, mech="objpert", rng=seed)
        interval = fit.conf_int().to_numpy()
        covered.append((interval[:, 0] <= truth) & (truth <= interval[:, 1]))  # limits NaN count as a miss
        lengths.append(np.diff(interval)[:, 0] / (3.92 * usual))
    assert np.mean(covered, axis=0).min() >= LEAST
    assert np.nanmedian(lengths) <= longest


def test_the_spread_of_a_square_is_known_though_its_rows_are_the_longest():
    """The interval of the coefficient of x^2 covers, and is at most 4.4 times as long as without privacy.

    Rows with a large square are the longest. When only the ridge limited the effect of these rows, the interval was 5.1
    times as long as without privacy; now it is 3.9 times as long.
    """
    lengths, covered, n = [], [], 5_000
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = rng.normal(0, 1, n).clip(-5, 5)
        data = pd.DataFrame({"x": x, "y": (x + 0.3 * x**2 + rng.normal(0, 1, n)).clip(-10, 20)})
        fit = ps.dp_lm("y ~ x + I(x**2)", data, eps=1.5, domain={"x": (-5, 5), "y": (-10, 20)}, rng=seed)
        low, high = fit.conf_int().to_numpy()[2]
        lengths.append((high - low) / (2 * 1.96 / np.sqrt(2 * n)))
        covered.append(low <= 0.3 <= high)
    assert np.mean(covered) >= 0.75
    assert np.median(lengths) <= 4.4


def test_columns_without_spread_do_not_end_a_fit():
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"x": np.zeros(5000), "y": rng.normal(size=5000).clip(-5, 5)})
    for seed in range(8):
        fit = ps.dp_lm(
            "y ~ x + I(x**2)", rows, eps=100.0, domain={"x": (-4, 4), "y": (-5, 5)}, mech="objpert", rng=seed
        )
        assert fit.params.drop("Intercept").isna().all() and "not given" in str(fit.summary())


@pytest.mark.parametrize(
    ("more", "whitened"), [({}, True), ({"neighbors": "add_remove"}, True), ({"split": 0.9}, False)]
)
def test_objective_perturbation_by_name_is_that_of_auto_unless_an_option_of_the_box_is_given(more, whitened):
    rows = skewed(np.random.default_rng(2), 400)
    plan = ps.dp_lm("y ~ x", rows, eps=4.0, domain=CELLS["skewed"][3], mech="objpert", dry_run=True, **more)
    assert ("score sizes" in plan.questions.index) == whitened


@pytest.mark.parametrize(
    ("formula", "eps", "minimises"),
    [("y ~ x + z", 1.0, True), ("y ~ 0 + x + z", 4.0, False), ("y ~ x + z", 30.0, False)],
)
def test_auto_takes_no_minimiser_without_an_intercept_or_where_the_budget_is_ample(formula, eps, minimises):
    rows = skewed(np.random.default_rng(3), 5000)
    plan = ps.dp_lm(formula, rows, eps=eps, domain=CELLS["skewed"][3], dry_run=True)
    assert ("coefficients" in plan.questions.index, "score" in plan.questions.index) == (minimises, not minimises)


def test_slopes_of_predictors_that_go_together_are_given_and_spoil_no_others():
    """If two of five predictors have correlation .95, most fits report their slopes, and other intervals stay short.

    The data have n = 10,000 rows, and eps = 1. Before the fit released the squares of whitened columns, a share of .79
    of the fits reported these two slopes, and the intervals of the other slopes were up to 10 times as long.
    """
    rng, given, others = np.random.default_rng(7), [], []
    for seed in range(24):
        X = rng.normal(size=(10_000, 5))
        X[:, 1] = 0.95 * X[:, 0] + np.sqrt(1 - 0.95**2) * X[:, 1]
        y = X @ [0.5, -0.3, 0.0, 0.0, 0.0] + rng.normal(size=10_000)
        rows = pd.DataFrame(X.clip(-5, 5), columns=list("abcde")).assign(y=y.clip(-7, 7))
        domain = dict.fromkeys("abcde", (-5, 5)) | {"y": (-7, 7)}
        fit = ps.dp_lm("y ~ a + b + c + d + e", rows, eps=1.0, domain=domain, rng=seed)
        half = np.diff(fit.conf_int().to_numpy())[1:, 0] / 2 / 1.96 * 100
        given.append(np.isfinite(half[:2]))
        others.append(half[2:])
    assert np.mean(given) >= 0.85
    assert np.quantile(others, 0.9) <= 5


def test_the_clip_is_chosen_by_the_noise_of_what_is_left_of_the_budget(monkeypatch):
    """The clipping threshold is chosen for the noise law with which the coefficients are then released.

    Optional queries take a part of the coefficients' budget, which changes this noise law.
    """
    foreseen, clip = [], PerturbedSquares.clip

    def watched(self, *arguments):
        chosen = clip(self, *arguments)
        foreseen.append((self.unit_law, self.ask.law(self.coefficients(self.within(1.0, 1.0)), by=self.mechanism)))
        return chosen

    monkeypatch.setattr(PerturbedSquares, "clip", watched)
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({"x": rng.normal(size=4000).clip(-5, 5)})
    rows["z"] = (0.9 * rows["x"] + 0.4 * rng.normal(size=4000)).clip(-5, 5)
    rows["y"] = (rows["x"] + rng.normal(size=4000)).clip(-8, 8)
    ps.dp_lm("y ~ x + z", rows, eps=2.0, domain={"x": (-5, 5), "z": (-5, 5), "y": (-8, 8)}, rng=1)
    before, now = foreseen[-1]
    assert before.variance()[0] == pytest.approx(now.variance()[0])


def test_a_response_whose_bounds_lie_far_out_is_named_with_what_is_assumed():
    rng = np.random.default_rng(4)
    rows = pd.DataFrame({"x": rng.normal(size=4000).clip(-5, 5), "y": rng.normal(size=4000)})
    fits = [
        ps.dp_lm("y ~ x", rows, eps=2.0, domain={"x": (-5, 5), "y": (-b, b)}, mech="objpert", rng=1) for b in (5, 200)
    ]
    assert ["bounds of 'y'" in str(fit.summary()).replace("\n    ", " ") for fit in fits] == [False, True]


def test_clean_rows_are_not_lengthened_by_noise_in_a_bin_far_out():
    """Noise in a histogram bin far from zero rarely lengthens intervals: at most 2 of 100 are longer than 4.

    Earlier, a count above 3.3 noise sds was taken for rows with clipped curvature. Some intervals had lengths of 8 to
    28; the usual length is .7.
    """
    lengths = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x, g = rng.normal(size=2000), rng.choice(["a", "b"], 2000)
        rows = pd.DataFrame({"x": x, "g": g, "y": 1 + 0.5 * x + 0.3 * (g == "b") + rng.normal(size=2000)})
        domain = {"x": (-10, 10), "g": ["a", "b"], "y": (-20, 20)}
        fit = ps.dp_lm("y ~ x + C(g)", rows, domain=domain, eps=1.0, rng=seed)
        lengths.append(np.diff(fit.conf_int().loc["x"])[0])
    assert np.sum(np.array(lengths) > 4) <= 2 and np.median(lengths) < 0.8


def test_what_is_clipped_lies_where_squares_of_scores_do(monkeypatch):
    """The allowance for clipping is largest for the slope along which the longest scores lie.

    The errors grow with x, so that the longest scores lie along the slope of x. With an allowance for each slope, the
    length of the interval of x, relative to the other intervals, is more than 1.1 times the relative length with equal
    allowances.
    """
    rng, ratios = np.random.default_rng(5), []
    rows = pd.DataFrame(rng.uniform(-1, 1, (8000, 6)), columns=list("abcdef"))
    x = rng.lognormal(0, 0.7, 8000).clip(0, 20)
    rows = rows.assign(x=x, y=(x + 0.5 * x**1.5 * rng.standard_t(4, 8000)).clip(-100, 100))
    domain = {"x": (0, 20), "y": (-100, 100), **dict.fromkeys("abcdef", (-1, 1))}
    for even in (False, True):
        if even:
            monkeypatch.setattr(PerturbedSquares, "excess", OneStep.excess)
        fits = [
            ps.dp_lm("y ~ x + a + b + c + d + e + f", rows, eps=6.0, domain=domain, mech="objpert", rng=seed)
            for seed in range(5)
        ]
        lengths = [np.diff(fit.conf_int().to_numpy())[1:, 0] for fit in fits]
        ratios.append(np.mean([each[0] / each[1:].mean() for each in lengths]))
    assert ratios[0] > 1.1 * ratios[1]


def huber(A, y, scale):
    """Return coefficients of Huber's regression with a known residual scale."""
    theta = np.linalg.lstsq(A, y, rcond=None)[0]
    for _ in range(50):
        weight = np.minimum(1.0, 1.345 * scale / np.maximum(np.abs(y - A @ theta), 1e-300))
        theta = np.linalg.solve((A * weight[:, None]).T @ A, (A * weight[:, None]).T @ y)
    return theta


@thinned(1)
def test_hubers_intervals_cover_and_are_shorter_than_those_of_steps(monkeypatch):
    """The true coefficients are the coefficients of Huber's regression with the released residual scale."""
    n, domain, scales = 2000, {"x": (0, 20), "z": (-5, 5), "y": (-20, 20)}, []
    known = HuberLoss.with_scale
    monkeypatch.setattr(HuberLoss, "with_scale", lambda loss, scale: scales.append(scale) or known(loss, scale))
    whole = skewed(np.random.default_rng(0), WHOLE)
    A, y = np.column_stack([np.ones(WHOLE), whole[["x", "z"]]]), whole["y"].to_numpy()
    covered, lengths = [], {"objpert": [], "newton": []}
    for seed in range(SEEDS):
        rows = whole.sample(n, random_state=seed, ignore_index=True)
        for mech, found in lengths.items():
            call = {"eps": 1.0, "loss": "huber", "domain": domain, "rng": seed}
            fit = ps.dp_lm("y ~ x + z", rows, mech=mech, **call)
            found.append(1 / np.diff(fit.conf_int())[:, 0])
            if mech == "objpert":
                low, high = fit.conf_int().to_numpy().T
                truth = huber(A, y, scales[-1] * 20)
                covered.append((low <= truth) & (truth <= high))
    assert ps.dp_lm("y ~ x + z", rows, **call).mech == "objpert"
    assert np.mean(covered, axis=0).min() >= LEAST
    # mean of one divided by the length of the interval; the quotient is 0 if no interval is given
    sharp = {mech: np.nan_to_num(found).mean(axis=0) for mech, found in lengths.items()}
    assert (sharp["objpert"] > sharp["newton"]).all()


def test_the_residual_sd_beside_a_rare_reference_level_is_that_of_the_rows():
    rng = np.random.default_rng(1)
    n = 20_000
    x, k = rng.uniform(0, 10, n), rng.choice(5, n, p=[0.001, 0.009, 0.65, 0.26, 0.08])
    rows = pd.DataFrame({"y": 0.2 * x + 0.1 * k + rng.normal(0, 0.35, n) + 12, "x": x, "k": k})
    domain = {"y": (10, 17), "x": (0, 12), "k": [0, 1, 2, 3, 4]}
    for seed in range(3):
        fit = ps.dp_lm("y ~ x + C(k)", rows, 1.0, domain=domain, mech="objpert", rng=seed)
        # this coefficient is the difference from a reference level that is left out
        assert np.isnan(fit.params["C(k)[T.1]"])
        assert fit.scale**0.5 == pytest.approx(0.35, rel=0.15)


@pytest.mark.parametrize("formula", ["y ~ C(g)", "y ~ C(g) + C(h)"])
def test_rows_of_the_rarest_level_have_no_score_that_rounding_makes_the_largest(formula):
    """If all predictors are factors, at least 10 of 12 intervals are less than twice as long as without privacy.

    In such models, rows of maximal length occur in the data, and rounding must not make their scores the largest
    scores. Earlier, 6 (first formula) and 4 (second formula) of 12 fits had intervals 11 to 25 times too long.
    """
    lengths = []
    for seed in range(12):
        rng = np.random.default_rng([seed, 5000])
        g, h = rng.choice([*"abc"], 5000, p=[0.6, 0.3, 0.1]), rng.choice([*"pq"], 5000, p=[0.8, 0.2])
        y = (50 + 2 * (g == "b") - 3 * (g == "c") + (h == "q") + rng.normal(size=5000)).clip(0, 100)
        domain = {"y": (0, 100), "g": [*"abc"], "h": [*"pq"]}
        fit = ps.dp_lm(formula, pd.DataFrame({"y": y, "g": g, "h": h}), 4.0, domain=domain, mech="objpert", rng=seed)
        inside = [(y[g == level]).size ** -0.5 for level in "abc"]
        low, high = fit.conf_int().loc["C(g)[T.b]"]
        lengths.append((high - low) / (3.92 * np.hypot(*inside[:2])))
    assert np.sort(lengths)[9] < 2


def test_cubes_beside_their_column_are_fitted_by_steps_and_cover():
    """A cubic regression is fitted by Newton steps, and at least .8 of its intervals are given and cover.

    With objective perturbation, a third of the intervals were given. The lowest coverage of a coefficient was .47.
    """
    truth, covered = [1, 3, -0.6, 0.03], []
    for seed in range(10):
        rng = np.random.default_rng([seed, 7])
        x = rng.uniform(0, 10, 10_000)
        data = pd.DataFrame({"x": x, "y": 1 + 3 * x - 0.6 * x**2 + 0.03 * x**3 + rng.normal(size=len(x))})
        fit = ps.dp_lm("y ~ x + I(x**2) + I(x**3)", data, 2.0, domain={"x": (0, 10), "y": (-60, 60)}, rng=seed)
        low, high = fit.conf_int().to_numpy().T
        covered.append((low <= truth) & (truth <= high))
    assert fit.mech == "newton" and np.mean(covered) >= 0.8  # limits NaN count as a miss
    powers = {"y ~ x + I(x**2)": "objpert", "y ~ I(x**3)": "objpert", "y ~ x + I(x**3)": "newton"}
    for formula, mech in powers.items():
        plan = ps.plan("lm", formula, 10_000, eps=2.0, domain={"x": (0, 10), "y": (-60, 60)})
        assert ("objpert" in str(plan)) == (mech == "objpert"), formula


@pytest.mark.parametrize("options", [{}, {"loss": "huber"}], ids=["squares", "huber"])
def test_levels_that_a_released_matrix_sees_are_given_and_do_not_lengthen_other_intervals(options):
    n, ratios = 10_000, []
    for seed in range(4):
        rows = three_levels(np.random.default_rng(seed), n)
        fit = ps.dp_lm("y ~ C(g) + x + z", rows, eps=4.0, domain=THREE, rng=seed, **options)
        k = np.column_stack([rows["g"] == "q", rows["g"] == "r", rows["x"], rows["z"], np.ones(n)]).astype(float)
        public = 2 * 1.96 * np.sqrt(np.diag(np.linalg.inv(k.T @ k)))[[4, 0, 1, 2, 3]]
        ratios.append(np.diff(fit.conf_int(), axis=1).ravel() / public)
    assert np.isfinite(ratios).mean() > 0.9
    assert np.nanmax(ratios) < 4.5 and np.nanmedian(ratios) < 1.5
