"""Private fits in other people's tables and tools, where these do not take a fit as it is.

``statsmodels.iolib.summary2.summary_col`` and ``maketables.ETable`` take fits as they are, and R's modelsummary takes
the frames of ``fit.tidy(names="broom")`` and ``fit.glance(names="broom")``.
"""

from __future__ import annotations

import math
from typing import Any

from privstats.results.results import Results

__all__ = ["stargazer"]


def stargazer(fit: Results) -> dict[str, Any]:
    """Return a fit as the package stargazer reads it.

    Write ``stargazer.translators.register_class(type(fit), ps.adapters.stargazer)`` once; then ``Stargazer([fit])``
    takes private fits, alone and beside others. A coefficient that is not given is printed as "nan", without stars.

    Parameters
    ----------
    fit : Results
        Of a regression with one quantile, or none.

    Returns
    -------
    dict
        Estimates, standard errors, p-values, intervals and fit statistics by stargazer's names; None where there is no
        such number.

    Examples
    --------
    >>> import pandas as pd, privstats as ps
    >>> rows = pd.DataFrame({"x": [0.2, 0.8] * 500, "y": [1.0, 2.0] * 500})
    >>> fit = ps.dp_lm("y ~ x", rows, eps=2, domain={"x": (0, 1), "y": (0, 4)}, rng=1)
    >>> read = ps.adapters.stargazer(fit)
    >>> read["dependent_variable"], read["nobs"], list(read["cov_names"])
    ('y', 1000, ['Intercept', 'x'])
    """
    ends, found = fit.conf_int(), fit.pvalues.astype(object)
    return {
        "dependent_variable": fit.endog_names,
        "cov_names": fit.params.index.values,
        "cov_values": fit.params,
        "cov_std_err": fit.bse,
        "p_values": found.where(fit.pvalues.notna(), None),  # a comparison with NaN would give three stars
        "conf_int_low_values": ends[0],
        "conf_int_high_values": ends[1],
        "r2": _given(getattr(fit, "rsquared", math.nan)),
        "r2_adj": _given(getattr(fit, "rsquared_adj", math.nan)),
        "pseudo_r2": None,
        "resid_std_err": _given(fit.diagnostics.get("sigma", math.nan)),
        "degree_freedom": fit.df_model,
        "degree_freedom_resid": fit.df_resid,
        "nobs": _given(fit.nobs),
        "f_statistic": None,
        "f_p_value": None,
    }


def _given(value: float) -> float | None:
    return None if math.isnan(value) else value
