"""Attributes of statsmodels results that a private fit lacks; the error on access gives a reason and an alternative."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from privstats.errors import PrivacyError
from privstats.results.facts import FitFacts

ROWS, RELEASE = "would need the rows", "was not released"

# Attributes of the OLS, GLM, QuantReg and Logit results of statsmodels that a private fit lacks. Each key is a reason
# and an alternative, both worded as in the error message; the value of the key lists the names of the attributes. A few
# of these attributes exist in `Results` if the fit has released the numbers from which they are computed.
CURES = {
    (
        ROWS,
        "for a private histogram of residuals write ps.dp_diagnostics(fit, data, eps=0.5)",
    ): """resid resid_anscombe resid_anscombe_scaled resid_anscombe_unscaled resid_dev resid_deviance
        resid_generalized resid_pearson resid_response resid_working wresid plot_added_variable plot_ceres_residuals
        plot_partial_residuals""",
    (ROWS, "for rows that are public write fit.predict(new_data)"): "fittedvalues mu pred_table",
    (ROWS, "for means with intervals write fit.get_prediction(new_data).summary_frame()"): "get_distribution",
    (ROWS, "to compare nested models write fit.wald_test('x1 = 0, x2 = 0')"): """aic bic bic_deviance bic_llf
        compare_f_test compare_lm_test compare_lr_test deviance im_ratio info_criteria llf llf_scaled llnull
        null null_deviance pearson_chi2 score_test set_null_options""",
    (RELEASE, "to test whole terms write fit.wald_test_terms()"): """f_pvalue fvalue llr llr_pvalue prsquared
        pseudo_rsquared""",
    (
        RELEASE,
        "R squared = 1 - (residual std dev / std dev of y)^2; give the latter from public knowledge, or write "
        "ps.dp_mean('y', data, eps=1, domain=domain).diagnostics['sigma']",
    ): "rsquared rsquared_adj",
    (RELEASE, "for the std dev of y write ps.dp_mean('y', data, eps=1, domain=domain).diagnostics['sigma']"): """
        centered_tss ess mse_model mse_total uncentered_tss""",
    (RELEASE, "for the residual std dev, NaN where it was not released, write fit.glance()['sigma']"): """mse mse_resid
        scale ssr""",
    (RELEASE, "for the covariance with the noise write fit.cov_params()"): """cov_HC0 cov_HC1 cov_HC2 cov_HC3
        cov_kwds""",
    (
        RELEASE,
        "for the covariance with the noise write fit.cov_params(), and for the inverse of X'X fit dp_lm with "
        "mech='suffstats', cov_type='nonrobust'",
    ): "normalized_cov_params",
    (RELEASE, "for std errors with the noise write fit.bse"): "HC0_se HC1_se HC2_se HC3_se bandwidth sparsity",
    (ROWS, "for what std errors allow for write fit.cov_type, and name another in a new fit"): "get_robustcov_results",
    (RELEASE, "for the share of noise in the information write fit.diagnostics"): "condition_number eigenvals",
    (RELEASE, "for all released numbers, those of each step among them, write fit.measurements()"): """converged
        fit_history history iterations mle_retvals mle_settings""",
    (ROWS, "for an interval write fit.conf_int()"): "conf_int_el",
    (ROWS, "for a test write fit.t_test('x1 = 0')"): "el_test",
    (ROWS, "the fit limits the influence of each row; for how much write fit.guarantee"): """get_hat_matrix_diag
        get_influence outlier_test""",
    (ROWS, "the fit keeps none; write fit.save('fit.json')"): "remove_data",
    (ROWS, "for a fit that was saved write ps.load('fit.json')"): "load",
    (ROWS, "for a copy write fit.from_dict(fit.to_dict())"): "initialize",
    (ROWS, "write fit.summary()"): "summary2",
}
ABSENT = {name: cure for cure, names in CURES.items() for name in names.split()}
OF_LINEAR_MEANS = dict.fromkeys(  # for models with a link function or of quantiles, replaces entries of ABSENT
    ("rsquared", "rsquared_adj"),
    ("exists for linear regression alone", "to test whole terms write fit.wald_test_terms()"),
)
RESIDUALS = [name for name, cure in ABSENT.items() if cure == ABSENT["resid"]]
OF_OTHER_REGRESSIONS = dict.fromkeys(  # for regressions that `dp_diagnostics` rejects, replaces entries of ABSENT
    RESIDUALS,
    (
        ROWS,
        "for residuals of least squares write ps.dp_diagnostics(ps.dp_lm(fit.formula, data, eps=1, domain=domain), "
        "data, eps=0.5)",
    ),
)
OF_NO_REGRESSION = dict.fromkeys(  # for means, quantiles, modes and counts, replaces entries of ABSENT
    RESIDUALS, ("exists for regressions alone", "write ps.dp_lm('y ~ x1', data, eps=1, domain=domain)")
)


USUAL = {  # names of results in other packages, each with the attribute of a private fit that has this result
    "coef": "params", "coef_": "params", "coefficients": "params", "estimate": "params", "estimates": "params",
    "intercept_": "params", "se": "bse", "std_err": "bse", "std_error": "bse", "stderr": "bse", "vcov": "cov_params()",
    "std_errors": "bse", "coefs": "params", "odds_ratios": "tidy(exp=True)", "anova_lm": "wald_test_terms()",
    "to_latex": "summary().as_latex()", "as_latex": "summary().as_latex()", "to_html": "summary().as_html()",
    "as_html": "summary().as_html()", "as_markdown": "summary().as_markdown()", "to_csv": "summary().as_csv()",
    "as_csv": "summary().as_csv()", "as_text": "summary().as_text()", "summary_frame": "tidy()",
    "confint": "conf_int()", "ci": "conf_int()", "p_values": "pvalues", "anova": "wald_test_terms()",
    "sigma": "diagnostics['sigma']", "emmeans": "means", "margins": "slopes",
    "broom": "tidy(names='broom')", "augment": "get_prediction(new_data).summary_frame()",
}  # fmt: skip
SYNONYMS = {"residuals": "resid", "fitted": "fittedvalues", "fitted_values": "fittedvalues"}


class NotAvailableError(PrivacyError, AttributeError):
    """Error on access to an attribute of statsmodels that a private fit lacks; `hasattr` then returns False."""


def missing(name: str, owner: str, facts: FitFacts | None, known: Sequence[str] = ()) -> AttributeError:
    """Return the error to raise on access to the attribute `name`, which objects of the class `owner` lack.

    If `name` is an attribute of statsmodels results (a key of `ABSENT`), `facts` is required: the message gives a
    reason and an alternative, which depend on the function and the link of the fit. For all other names `facts` is
    None, and the error is an ordinary AttributeError, which names an attribute of `known` with a similar name.
    """
    if facts is None:
        near = [USUAL[name]] if name in USUAL else difflib.get_close_matches(name, known, 1, 0.75)
        cure = f"; write fit.{near[0]}" if near else ""
        return AttributeError(f"{owner!r} object has no attribute {name!r}{cure}")
    cures = dict(ABSENT)
    if facts.link is not None or facts.taus:
        cures |= OF_LINEAR_MEANS
    if not facts.tested:
        cures |= OF_NO_REGRESSION
    elif not facts.diagnosed:
        cures |= OF_OTHER_REGRESSIONS
    why, instead = cures[name]
    return NotAvailableError(f"{name} {why}; {instead}")
