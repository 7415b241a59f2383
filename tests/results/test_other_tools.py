"""Tables of other packages accept private fits: numbers equal the fit's numbers, and missing numbers stay empty."""

import warnings

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.errors import FormulaError, OptionError
from privstats.results.results import Results
from tests.results.fits import LM, MU, ODDS, PARTLY, facts, glm_facts, partly_facts, results

HIDDEN = results(PARTLY, partly_facts())
PRIVATE_ROWS = results(LM, facts(rows=None))


def installed(name):
    """Import a package, or skip the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        extra = "marginaleffects" if name == "marginaleffects" else "reports"
        return pytest.importorskip(name, reason=f'{name} is not installed; write pip install ".[{extra}]"')


def test_broom_s_columns_are_those_of_r():
    """The columns have the names of ``broom::tidy.lm`` and ``broom::glance.lm`` in R, followed by our own columns."""
    fit = results(LM)
    wanted = ["term", "estimate", "std.error", "statistic", "p.value", "conf.low", "conf.high"]
    assert fit.tidy(names="broom").columns[:7].tolist() == wanted
    assert {"nobs", "sigma"} <= set(fit.glance(names="broom").columns)
    assert not [name for name in (*fit.tidy(names="broom"), *fit.glance(names="broom")) if "_" in name]


# ---------------------------------------------------------------- maketables


@pytest.fixture
def maketables():
    return installed("maketables")


def cell(fit, name):
    """Return a coefficient and its std err as texts, as tables print them."""
    return f"{fit.params[name]:.3f}", f"({fit.bse[name]:.3f})"


def test_maketables_sets_fits_side_by_side(maketables):
    fits = [results(LM), results(MU), results(ODDS, glm_facts())]
    text = maketables.ETable(fits).make(type="tex")
    for fit in fits:
        assert all(part in text for name in fit.params.index for part in cell(fit, name))
        assert fit.endog_names in text.replace(r"\_", "_")
    assert text.count("20,190") == 2 and "nan" not in text.lower()


def test_maketables_reads_the_statistics_that_there_are(maketables):
    extractor = maketables.extractors.get_extractor(results(LM))
    assert extractor.vcov_info(results(LM))["vcov_type"] == "HC"
    assert extractor.supported_stats(results(LM)) == {"N", "se_type", "df_model", "df_resid"}
    assert extractor.stat(results(LM), "df_resid") == 20_190 - 4


def test_maketables_gives_no_stars_to_what_is_not_given(maketables):
    hidden = HIDDEN.params.index[HIDDEN.params.isna()]
    assert len(hidden)
    frame = maketables.extractors.get_extractor(HIDDEN).coef_table(HIDDEN)
    assert frame.loc[hidden].isna().all(axis=None)
    for line in maketables.ETable([HIDDEN]).make(type="tex").splitlines():
        assert not ("nan" in line and "*" in line)


# ---------------------------------------------------------------- stargazer


@pytest.fixture
def stargazer():
    module = installed("stargazer.stargazer")
    installed("stargazer.translators").register_class(Results, ps.adapters.stargazer)
    yield module.Stargazer
    del module.RESULTS_CLASSES[Results]


def test_stargazer_has_each_key_that_it_reads_of_statsmodels(stargazer):
    translator = installed("stargazer.translators.statsmodels")
    import statsmodels.formula.api as smf

    theirs = smf.ols("y ~ x", pd.DataFrame({"x": np.arange(9.0), "y": np.arange(9.0) % 2})).fit()
    assert set(ps.adapters.stargazer(results(LM))) == set(translator.extract_model_data(theirs))


@pytest.mark.parametrize("form", ["html", "latex"])
def test_stargazer_sets_fits_side_by_side(stargazer, form):
    fits = [results(LM), results(ODDS, glm_facts())]
    text = getattr(stargazer(fits), f"render_{form}")()
    for fit in fits:
        assert all(part in text for name in fit.params.index for part in cell(fit, name))
    assert "20190" in text and f"{fits[0].diagnostics['sigma']:.3f} (df=20186)" in text


def test_stargazer_prints_intervals_of_ours(stargazer):
    table = stargazer([results(LM)])
    table.show_confidence_intervals(True)
    low, high = results(LM).conf_int().loc["disea"]
    assert f"({low:.3f} , {high:.3f})" in table.render_html()


def test_stargazer_gives_no_stars_to_what_is_not_given(stargazer):
    text = stargazer([HIDDEN]).render_html()
    assert "nan<sup></sup>" in text and "nan<sup>*" not in text


def test_stargazer_leaves_out_a_private_number_of_rows(stargazer):
    assert "Observations" not in stargazer([PRIVATE_ROWS]).render_html()


# ---------------------------------------------------------------- marginaleffects

RNG = np.random.default_rng(20261128)
N = 4000
DATA = pd.DataFrame({"x": RNG.uniform(-1, 1, N), "z": RNG.uniform(0, 5, N), "k": RNG.choice(3, N)})
DATA["g"] = np.array(["a", "b", "c"])[RNG.choice(3, N)]
DATA["y"] = (3 + 2 * DATA["x"] + 0.5 * (DATA["g"] == "c") * DATA["x"] + RNG.normal(size=N)).clip(-5, 10)
DATA["b"] = (DATA["y"] > 3) * 1
DOMAIN = {"x": (-1, 1), "z": (0, 5), "y": (-5, 10), "b": [0, 1], "g": ["b", "a", "c"], "k": [0, 1, 2]}
GRID = pd.DataFrame(
    {"x": [0.0, 0.5, -0.5, 0.0], "z": [1.0, 0.0, 2.0, 3.0], "g": ["a", "b", "c", "b"], "k": [0, 1, 2, 0]}
)
LINEAR, LOGISTIC = "y ~ x * C(g) + C(k)", "b ~ x + np.sqrt(z)"


@pytest.fixture(scope="module")
def private():
    return {
        "linear": ps.dp_lm(LINEAR, DATA, eps=20, domain=DOMAIN, rng=1),
        "logistic": ps.dp_glm(LOGISTIC, DATA, eps=20, domain=DOMAIN, rng=1),
    }


@pytest.fixture
def tool():
    module = installed("marginaleffects")
    if int(installed("polars").__version__.partition(".")[0]) > 1:
        pytest.skip('marginaleffects 0.6 needs polars below 2; write pip install ".[marginaleffects]"')
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # polars 1 warns in a call by marginaleffects
        yield module


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_predictions_on_a_grid_are_ours(tool, private, kind):
    fit = private[kind]
    theirs = tool.predictions(ps.adapters.marginaleffects(fit, GRID)).to_pandas()
    ours = fit.get_prediction(GRID)
    np.testing.assert_allclose(theirs["estimate"], ours.predicted_mean, rtol=1e-10)
    # marginaleffects uses numerical derivatives
    np.testing.assert_allclose(theirs["std_error"], ours.se_mean, rtol=1e-4)
    wide = theirs["conf_high"] - theirs["conf_low"]
    np.testing.assert_allclose(wide, 2 * 1.959964 * theirs["std_error"], rtol=1e-5)


def test_comparisons_of_levels_are_our_contrasts(tool, private):
    fit = private["linear"]
    model = ps.adapters.marginaleffects(fit, GRID)
    theirs = tool.comparisons(model, variables="k", newdata=GRID[:1]).to_pandas()
    ours = fit.t_test("C(k)[T.1] = 0, C(k)[T.2] = 0")
    assert theirs["contrast"].tolist() == ["1 - 0", "2 - 0"]
    np.testing.assert_allclose(theirs["estimate"], ours.effect, rtol=1e-8)
    np.testing.assert_allclose(theirs["std_error"], ours.sd, rtol=1e-4)


def test_slopes_are_our_contrasts(tool, private):
    fit = private["linear"]
    theirs = tool.slopes(ps.adapters.marginaleffects(fit, GRID), variables="x").to_pandas()
    ours = fit.t_test("x + x:C(g)[T.a] = 0, x = 0, x + x:C(g)[T.c] = 0, x = 0")
    np.testing.assert_allclose(theirs["estimate"], ours.effect, rtol=1e-6)
    np.testing.assert_allclose(theirs["std_error"], ours.sd, rtol=0.05)


def test_averages_are_those_of_the_grid(tool, private):
    fit = private["linear"]
    model = ps.adapters.marginaleffects(fit, GRID)
    mean = tool.avg_predictions(model).to_pandas()["estimate"].item()
    assert mean == pytest.approx(fit.predict(GRID).mean(), rel=1e-10)
    by_level = tool.avg_predictions(model, by="g").to_pandas().set_index("g")["estimate"]
    np.testing.assert_allclose(by_level[["a", "b", "c"]], fit.predict(GRID).groupby(GRID["g"]).mean(), rtol=1e-10)


def test_a_model_for_marginaleffects_holds_the_grid_and_no_other_rows(tool, private):
    model = ps.adapters.marginaleffects(private["linear"], GRID)
    assert model.get_modeldata().height == len(GRID) and set(model.get_modeldata().columns) == {"x", "g", "k"}
    assert not hasattr(model, "data") and not hasattr(model.model.model, "data")
    with pytest.raises(OptionError, match="write vcov=True"):
        tool.predictions(model, vcov="HC3")


def test_what_marginaleffects_cannot_show_is_refused(tool):
    few = ps.dp_lm("y ~ x", DATA[:60], eps=0.05, domain=DOMAIN, rng=1)
    assert few.params.isna().any()
    with pytest.raises(OptionError, match=r"write fit.get_prediction\(grid\)"):
        ps.adapters.marginaleffects(few, GRID)
    several = ps.dp_rq("y ~ x", DATA, eps=20, tau=[0.25, 0.75], domain=DOMAIN, rng=1)
    with pytest.raises(FormulaError, match="single tau"):
        ps.adapters.marginaleffects(several, GRID)
