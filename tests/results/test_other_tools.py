"""Other people's tables take private fits: the numbers are ours, and nothing is made up where a fit gives none."""

import warnings

import numpy as np
import pytest

import privstats as ps
from privstats.results.results import Results
from tests.results.fits import LM, MU, ODDS, PARTLY, facts, glm_facts, partly_facts, results

HIDDEN = results(PARTLY, partly_facts())
PRIVATE_ROWS = results(LM, facts(rows=None))


def installed(name):
    """Import a package, or skip the test: `pip install ".[reports]"` brings it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, reason=f'{name} is not installed; write pip install ".[reports]"')


def test_broom_s_columns_are_those_of_r():
    """As ``broom::tidy.lm`` and ``broom::glance.lm`` name them, which R's modelsummary reads, then our own."""
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
    """Return a coefficient with its std err, as tables print them."""
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
    import pandas as pd
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
