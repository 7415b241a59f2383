"""Notes name the cause of a problem: levels, reference levels, bounds, weights, units or a missing delta."""

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.inference.notes import note

N = 20_000
RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(
    {
        "x": RNG.uniform(0, 1, N),
        "sex": RNG.choice(["M", "F"], N),
        "g": RNG.choice(["a", "b", "c"], N, p=[0.0003, 0.6, 0.3997]),
        "w": RNG.uniform(0.5, 1.5, N),
        "person": np.arange(N) // 3,
    }
)
ROWS["y"] = 10 + 0.3 * ROWS.x + RNG.normal(0, 1, N)
DOMAIN = {"y": (5, 15), "x": (0, 1), "sex": ["male", "female"], "g": ["a", "b", "c"], "w": (0, 2)}


def fitted(formula, data=ROWS, eps=2.0, **change):
    return ps.dp_lm(formula, data, eps, **{"domain": DOMAIN, "rng": 1, **change})


def note_of(fit, key):
    (found,) = (one for one in fit.notes if one.key == key)
    return found


@pytest.mark.parametrize("mech", ["auto", "suffstats", "newton"])
def test_levels_that_no_row_has_are_named_and_nothing_else_is_blamed(mech):
    fit = fitted("y ~ x + C(sex)", mech=mech)
    found = note_of(fit, "no level")
    assert "Nearly no row has a declared level of 'sex'" in found.text
    assert "of 20,000 were used (released count, std err" in found.text
    assert not {"collinear", "weak term", "weak direction", "noise to signal"} & {one.key for one in fit.notes}
    for name in fit.params.index[fit.params.isna()]:
        assert name in found.about
    assert "no level" not in {
        one.key for one in fitted("y ~ x + C(sex)", ROWS.replace({"M": "male", "F": "female"})).notes
    }


def test_a_rare_reference_level_is_named_and_its_remedy_can_be_followed():
    fit = fitted("y ~ x + C(g)", mech="newton")
    found = note_of(fit, "rare reference")
    assert "the level 'a', with which C(g) compares the others" in found.text
    assert found.text.endswith("compare with another level, C(g, Treatment('b')).")
    assert set(found.about) == {"Intercept", "C(g)[T.b]", "C(g)[T.c]"} == set(fit.params.index[fit.params.isna()])
    after = fitted("y ~ x + C(g, Treatment('b'))", mech="newton")
    assert after.params.drop("C(g, Treatment('b'))[T.a]").notna().all()
    assert note_of(after, "rare level").about == ("C(g, Treatment('b'))[T.a]",)


def test_moments_name_a_level_that_noise_hides_and_blame_nothing_else():
    fit = fitted("y ~ x + C(g)", mech="suffstats")
    found = note_of(fit, "hidden level")
    assert "'a' of C(g) has hardly any rows (released count, std err 12), and about 69 are needed" in found.text
    assert found.text.endswith("or compare with another level, C(g, Treatment('b')).")
    assert set(found.about) == {"Intercept", "C(g)[T.b]", "C(g)[T.c]"} == set(fit.params.index[fit.params.isna()])
    assert not {"collinear", "weak term"} & {one.key for one in fit.notes}
    after = fitted("y ~ x + C(g, Treatment('b'))", mech="suffstats")
    assert note_of(after, "hidden level").about == ("C(g, Treatment('b'))[T.a]",)
    assert "Treatment" not in note_of(after, "hidden level").text.split("Remedy")[1]
    assert after.params.drop("C(g, Treatment('b'))[T.a]").notna().all()


@pytest.mark.parametrize("mech", ["suffstats", "newton"])
def test_a_response_that_its_bounds_clamp_is_noted_and_one_of_two_values_is_not(mech):
    fit = fitted("y ~ x", mech=mech, domain={**DOMAIN, "y": (10, 10.5)})
    found = note_of(fit, "clamped response")
    assert "'y' lie at its bounds, 10 and 10.5, by its released mean 10.2" in found.text
    assert all(one.key != "clamped response" for one in fitted("y ~ x", mech=mech).notes)
    binary = ROWS.assign(y=(ROWS.y > 10).astype(int))
    assert all(one.key != "clamped response" for one in fitted("y ~ x", binary, domain={**DOMAIN, "y": (0, 1)}).notes)


@pytest.mark.parametrize("mech", ["auto", "suffstats"])
def test_bounds_of_weights_are_named_where_they_make_rows_count_for_nothing(mech):
    far = fitted("y ~ x", eps=0.3, weights="w", mech=mech, domain={**DOMAIN, "w": (0, 2000)})
    found = note_of(far, "small weights")
    assert "w is declared up to 2000" in found.text and "Remedy: declare a smaller upper bound of w" in found.text
    assert not {"collinear", "weak term"} & {one.key for one in far.notes}
    assert "weights used" not in far.diagnostics
    assert all(one.key != "small weights" for one in fitted("y ~ x", weights="w", mech=mech).notes)


def test_rows_that_were_not_used_are_noted_unless_a_subset_left_them_out():
    some = ROWS.assign(x=ROWS.x.where(RNG.random(N) > 0.3))
    assert note_of(fitted("y ~ x", some), "unused rows").text.startswith("About 30% of the rows were not used")
    text = note_of(fitted("y ~ x", ROWS.assign(x="text")), "unused rows").text
    assert "Is a text column declared with bounds?" in text
    for fit in (fitted("y ~ x"), fitted("y ~ x", some, subset="w > 1"), fitted("y ~ x", some, neighbors="add_remove")):
        assert all(one.key != "unused rows" for one in fit.notes)


def test_units_with_as_many_rows_as_count_are_noted():
    text = note_of(fitted("y ~ x", unit="person", rows_per_unit=2), "rows per unit").text
    assert "Each person counts with at most 2 rows, and 2 on average were used (released count)" in text
    assert all(one.key != "rows per unit" for one in fitted("y ~ x", unit="person", rows_per_unit=6).notes)


def test_a_delta_is_suggested_where_it_would_shorten_intervals_as_much_as_it_then_does():
    rng = np.random.default_rng(1)
    names = [f"x{j}" for j in range(20)]
    data = pd.DataFrame(rng.uniform(0, 1, (5000, 20)), columns=names)
    data["y"] = data.sum(axis=1) / 20 + rng.normal(0, 0.1, 5000)
    call = {"formula": "y ~ " + " + ".join(names), "data": data, "eps": 4.0, "mech": "suffstats"}
    domain = {**dict.fromkeys(names, (0, 1)), "y": (-1, 2)}
    fit = fitted(**call, domain=domain)
    text = note_of(fit, "delta helps").text
    assert "With delta = 1e-06 in addition to eps = 4" in text and "dp_lm(..., eps=4, delta=1e-06)" in text
    told = float(text.split("about ")[1].split(" times")[0])
    shorter = fitted(**call, domain=domain, delta=1e-6)
    gain = np.median(np.subtract(*fit.conf_int().T.to_numpy()) / np.subtract(*shorter.conf_int().T.to_numpy()))
    assert gain == pytest.approx(told, rel=0.3)  # bounds on the bias, which are a part of the intervals, do not change
    assert all(one.key != "delta helps" for one in (*shorter.notes, *fitted("y ~ x").notes))


@pytest.mark.parametrize("mech", ["suffstats", "newton", "kng", "objpert", "expmech"])
@pytest.mark.parametrize("eps", [1e-3, 1e4])
def test_every_method_has_its_notes_at_any_budget(mech, eps):
    assert all(one.text.endswith(".") for one in fitted("y ~ x", ROWS[:500], eps, mech=mech).notes)


def test_notes_of_a_fit_survive_a_dict():
    fit = fitted("y ~ x + C(sex)", mech="suffstats")
    assert type(fit).from_dict(fit.to_dict()).notes == fit.notes


def test_a_remedy_names_no_level_that_is_the_reference_or_as_rare():
    """A note does not propose to compare with another level if that level is the reference level or also rare.

    Earlier, with tiny budgets, the level with the largest noisy count was the reference level itself. The note then
    said to compare 'a' with Treatment('a').
    """
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"x": rng.uniform(0, 10, 900), "g": ["a", "b", "c"] * 300})
    data["y"] = data["x"] + rng.normal(size=900)
    domain = {"x": (0, 10), "y": (-5, 15), "g": ["a", "b", "c"]}
    for seed in range(12):
        fit = ps.dp_lm("y ~ x + C(g)", data, eps=0.01, domain=domain, rng=seed)
        assert not any("compare with another level" in text for text in fit.summary().notes)


def test_a_remedy_asks_for_more_rows_not_for_as_many():
    assert note("collinear", ("x",), ratio=1.0, times=1.0).text.endswith("rows x budget 1.1 times as large.")


def test_a_spread_that_is_mostly_noise_is_not_taken_for_values_at_the_bounds():
    x = RNG.uniform(0, 40, 3000)
    rows = pd.DataFrame({"x": x, "y": np.exp(6 + 0.01 * x + RNG.normal(0, 0.5, 3000)).clip(50, 20_000)})
    for seed in range(20):
        fit = ps.dp_lm("y ~ x", rows, 1.0, domain={"y": (50, 20_000), "x": (-4, 63)}, rng=seed)
        assert "clamped response" not in {one.key for one in fit.notes}


def test_a_left_out_level_explains_products_and_codings_without_dummies():
    fit = fitted("y ~ x * C(g)", mech="newton")
    missing = set(fit.params.index[fit.params.isna()])
    assert missing == set(note_of(fit, "rare reference").about)
    assert {"x", "Intercept", "x:C(g)[T.b]"} <= missing
    fit = fitted("y ~ x + C(g, Sum)", mech="newton")
    found = note_of(fit, "rare contrast")
    assert (
        set(found.about)
        == {"Intercept", "C(g, Sum)[S.a]", "C(g, Sum)[S.b]"}
        == set(fit.params.index[fit.params.isna()])
    )
    assert "they depend on the level 'a' of C(g, Sum), with " in found.text
    assert found.text.endswith("or compare with a frequent level, C(g, Treatment('b')).")
    assert fitted("y ~ x + C(g, Treatment('b'))", mech="newton").params[["x", "Intercept"]].notna().all()


def test_counts_of_levels_from_sums_have_their_std_err_and_effective_rows_are_rounded_down():
    rows = ROWS.assign(g=RNG.choice(["a", "b", "c"], N, p=[0.03, 0.5, 0.47]))
    rows["b"] = RNG.uniform(size=N) < np.where(rows.g == "a", 0.002, 0.05)
    seen = 0
    for seed in range(6):
        fit = ps.dp_glm("b ~ x + C(g)", rows, mu=1.0, domain={**DOMAIN, "b": bool}, rng=seed)
        for one in fit.notes:
            if one.key == "hidden level":
                seen += 1
                assert "std err 0)" not in one.text
            if one.key == "few outcomes":
                assert "about 8 rows" not in one.text
    assert seen


def test_a_quantile_that_is_not_given_points_to_its_own_reason():
    rows = pd.DataFrame({"x": RNG.uniform(0, 1, 6000)}).assign(
        y=lambda data: np.where(data.x < 0.7, 10.0, 20 + 9 * data.x)
    )
    rows["y"] += np.where(rows.x < 0.7, 0, RNG.normal(0, 2, len(rows)))
    fit = ps.dp_rq("y ~ x", rows, mu=2.0, tau=[0.2, 0.5, 0.95], domain={"x": (0, 1), "y": (0, 60)}, rng=1)
    found = [one for one in fit.notes if one.key == "few values"]
    assert len(found) == 1
    assert set(found[0].about) <= {f"{name}[{tau}]" for name in ("Intercept", "x") for tau in (0.2, 0.5, 0.95)}
    assert set(found[0].about) == {fit.estimate.names[k] for k in np.flatnonzero(fit.params.isna())}
    assert "releases do not identify" not in str(fit.summary())


def test_a_mean_of_hardly_any_row_speaks_of_no_levels():
    rows = pd.DataFrame({"x": np.full(500, np.nan), "g": ["a", "b"] * 250})
    fit = ps.dp_mean("x", rows, eps=1, domain={"x": (0, 1)}, rng=1)
    assert "check the bounds and the type of the column" in note_of(fit, "no rows").text
    fit = ps.dp_mean("x ~ g", rows, eps=1, domain={"x": (0, 1), "g": ["a", "b"]}, rng=1)
    assert "leave the levels out of the declared levels" in next(
        one.text for one in fit.notes if one.key == "empty group"
    )


@pytest.mark.parametrize("budget", [{"eps": 2.0}, {"eps": None, "mu": 1.0}, {"delta": 1e-6}], ids=str)
def test_a_response_in_bounds_far_beyond_its_values_is_named_under_every_budget(budget):
    rows = ROWS[["x", "sex"]].assign(y=np.exp(ROWS.y - 10))
    fit = fitted("y ~ x", rows, domain=DOMAIN | {"y": (0, 500)}, **budget)
    assert "The declared bounds of 'y' extend to" in note_of(fit, "far response").text


@pytest.mark.parametrize("budget", [{"mu": 1.0}, {"eps": 1.0}, {"eps": 4.0}], ids=str)
@pytest.mark.parametrize("bounds", [(0, 1), (1000, 2000)])
def test_a_response_whose_bounds_are_in_other_units_is_noted(budget, bounds):
    """Heights in cm, declared in m or mm, are moved to a bound; coefficients are 0 and std errors tiny."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"y": rng.uniform(70, 220, 5000), "x": rng.uniform(0, 1, 5000), "g": ["a", "b"] * 2500})
    domain = {"x": (0, 1), "g": ["a", "b"]}
    fit = ps.dp_lm("y ~ x + C(g)", rows, domain={**domain, "y": bounds}, rng=1, **budget)
    found = note_of(fit, "response at bound")
    assert f"lie at the bound {bounds[int(bounds[0] == 0)]:g} of 'y'" in found.text
    right = ps.dp_lm("y ~ x + C(g)", rows, domain={**domain, "y": (0, 250)}, rng=1, **budget)
    assert "response at bound" not in {one.key for one in right.notes}


def test_nothing_is_said_of_a_std_dev_that_a_method_does_not_release():
    """The note says that noise hides the std dev of the response; noisy gradient descent does not ask for it."""
    rows = pd.DataFrame({"y": np.full(5000, 200.0), "x": np.linspace(0, 1, 5000)})
    domain = {"x": (0, 1), "y": (0, 200)}
    noted = {
        mech: {one.key for one in ps.dp_lm("y ~ x", rows, mu=4, domain=domain, loss="huber", mech=mech, rng=1).notes}
        for mech in ("newton", "ngd")
    }
    assert "response at bound" in noted["newton"] and "response at bound" not in noted["ngd"]
