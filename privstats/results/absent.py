"""Attributes of other packages' results that would need the rows: each says so, and names what to use."""

from __future__ import annotations

from privstats.errors import PrivacyError

ROWS, RELEASE = "would need the rows", "was not released"
DERIVED = "write fit.wald_test(...) for added terms, or release a histogram of a derived column with dp_hist"
COMPARE = "compare fit.diagnostics with the known std dev of the response"
NESTED = "write fit.wald_test(...) to compare nested models"

ABSENT = {
    "resid": (ROWS, DERIVED),
    "resid_pearson": (ROWS, DERIVED),
    "resid_response": (ROWS, DERIVED),
    "resid_deviance": (ROWS, DERIVED),
    "wresid": (ROWS, DERIVED),
    "ssr": (RELEASE, COMPARE),
    "mse_resid": (RELEASE, COMPARE),
    "scale": (RELEASE, COMPARE),
    "rsquared": (RELEASE, COMPARE),
    "rsquared_adj": (RELEASE, COMPARE),
    "fittedvalues": (ROWS, "write fit.predict(new_data) with public rows"),
    "mu": (ROWS, "write fit.predict(new_data) with public rows"),
    "llf": (ROWS, NESTED),
    "aic": (ROWS, NESTED),
    "bic": (ROWS, NESTED),
    "deviance": (ROWS, NESTED),
    "fvalue": (RELEASE, NESTED),
    "f_pvalue": (RELEASE, NESTED),
    "df_resid": (RELEASE, "subtract the number of coefficients from fit.nobs_used"),
    "get_influence": (ROWS, "the fit limits the influence of each row; read fit.releases"),
    "outlier_test": (ROWS, "the fit limits the influence of each row; read fit.releases"),
}


class NotAvailableError(PrivacyError, AttributeError):
    """An attribute that would reveal rows; `hasattr` is False for it."""


def missing(name: str, owner: str) -> AttributeError:
    """Return the error for an attribute that results do not have."""
    if name in ABSENT:
        why, instead = ABSENT[name]
        return NotAvailableError(f"{name} {why}; {instead}")
    return AttributeError(f"{owner!r} object has no attribute {name!r}")
