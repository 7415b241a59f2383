"""Conversions of private fits for packages that do not accept them directly: stargazer and marginaleffects.

``statsmodels.iolib.summary2.summary_col`` and ``maketables.ETable`` accept fits directly, and R's modelsummary accepts
the frames of ``fit.tidy(names="broom")`` and ``fit.glance(names="broom")``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from privstats.errors import OptionError
from privstats.results.results import Results

__all__ = ["marginaleffects", "stargazer"]


def stargazer(fit: Results) -> dict[str, Any]:
    """Return a fit as a dict in the format of the Python package stargazer.

    After the call ``stargazer.translators.register_class(type(fit), ps.adapters.stargazer)``, ``Stargazer([fit])``
    accepts private fits, also in one table with fits of other packages. A coefficient without an estimate is printed as
    "nan", without stars.

    Parameters
    ----------
    fit : Results
        Fit of a regression; a quantile regression must have a single tau.

    Returns
    -------
    dict
        Estimates, standard errors, p-values, intervals and fit statistics under stargazer's names; None for numbers
        that the fit lacks.

    Examples
    --------
    >>> import pandas as pd, privstats as ps
    >>> rows = pd.DataFrame({"x": [0.2, 0.8] * 500, "y": [1.0, 2.0] * 500})
    >>> fit = ps.dp_lm("y ~ x", rows, eps=2, domain={"x": (0, 1), "y": (0, 4)}, rng=1)
    >>> read = ps.adapters.stargazer(fit)
    >>> read["dependent_variable"], read["nobs"], list(read["cov_names"])
    ('y', 1000, ['Intercept', 'x'])
    """
    if not isinstance(fit, Results):
        raise OptionError("stargazer takes one fit; write Stargazer([fit1, fit2]) after register_class")
    ends, found = fit.conf_int(), fit.pvalues.astype(object)
    return {
        "dependent_variable": fit.endog_names,
        "cov_names": fit.params.index.values,
        "cov_values": fit.params,
        "cov_std_err": fit.bse,
        "p_values": found.where(fit.pvalues.notna(), None),  # stargazer prints three stars for NaN, none for None
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


def marginaleffects(fit: Results, grid: pd.DataFrame) -> Any:
    """Return a fit as a model of the package marginaleffects, with public rows in place of the data.

    ``pip install "privstats[marginaleffects]"`` installs compatible versions.

    With ``model = ps.adapters.marginaleffects(fit, grid)``, ``predictions(model)``, ``comparisons(model)``,
    ``slopes(model)`` and their averages are computed on `grid`, which replaces the private rows. Estimates and standard
    errors equal the estimates and standard errors of `Results.get_prediction` and `Results.t_test`. Intervals are
    estimates plus and minus a normal quantile times the standard error: unlike the intervals of privstats, they do not
    allow for the bias due to clipping.

    Parameters
    ----------
    fit : Results
        Fit of a regression; a quantile regression must have a single tau.
    grid : DataFrame
        Public rows with the columns of the predictors: chosen values, never the private rows. Comparisons use the
        levels of a factor that occur in `grid`; the reference level is the level that comes first in the domain.

    Returns
    -------
    marginaleffects.classes.ModelAbstract

    Raises
    ------
    FormulaError, OptionError
        If `grid` lacks a column of the predictors, the fit has several quantiles, or a coefficient has no estimate.

    Examples
    --------
    >>> import pandas as pd, privstats as ps
    >>> rows = pd.DataFrame({"x": [0.2, 0.8] * 500, "y": [1.0, 2.0] * 500})
    >>> fit = ps.dp_lm("y ~ x", rows, eps=2, domain={"x": (0, 1), "y": (0, 4)}, rng=1)
    >>> from marginaleffects import slopes  # doctest: +SKIP
    >>> slopes(ps.adapters.marginaleffects(fit, pd.DataFrame({"x": [0.3, 0.5]})))  # doctest: +SKIP
    """
    from marginaleffects.classes import ModelAbstract, ModelVault
    from polars import DataFrame, Enum, Int32, Series

    hidden = fit.params.index[fit.params.isna()]
    if len(hidden):
        raise OptionError(f"'{hidden[0]}' is not given; write fit.get_prediction(grid), or leave its term out")
    fit.get_prediction(grid)  # raises an error if the fit cannot predict these rows
    design: Any = fit.facts.design
    names = [name for name in design.reads if name in grid and name != fit.endog_names]
    levels = {name: {str(level): level for level in getattr(fit.domain[name], "values", ())} for name in names}

    def columns(rows: Any) -> tuple[None, np.ndarray]:
        """Return None as the response, and the model matrix of public rows with the offset as its last column."""
        frame = pd.DataFrame({name: rows[name].to_list() for name in names})
        frame = frame.assign(**{name: frame[name].map(levels[name]) for name in names if levels[name]})
        offset = design.offsets(frame) if fit.facts.offset is not None else np.zeros(len(frame))
        return None, np.column_stack([design.matrix(frame), offset])

    class PrivateModel(ModelAbstract):  # type: ignore[misc]
        df_resid = math.inf  # infinite, so that marginaleffects uses normal quantiles for intervals

        def validation(self) -> None:
            """Run marginaleffects' checks, except the check of column types, because the domain fixes the types."""
            self.validate_coef()
            self.validate_response_name()

        def get_vcov(self, vcov: bool = True) -> np.ndarray | None:
            if not isinstance(vcov, bool):
                raise OptionError("a fit has one covariance; write vcov=True, or fit with another cov_type=")
            return fit.cov_params().to_numpy() if vcov else None

        def get_predict(self, params: np.ndarray, newdata: np.ndarray) -> Any:
            eta = newdata[:, :-1] @ params + newdata[:, -1]
            mean = fit.family.link.inverse(eta) if hasattr(fit, "family") else eta
            return DataFrame({"rowid": Series(range(len(mean)), dtype=Int32), "estimate": mean})

    shown = {
        name: Series(grid[name].map({level: text for text, level in known.items()}).tolist(), dtype=Enum(list(known)))
        if (known := levels[name])
        else Series(grid[name].tolist())
        for name in names
    }
    numeric = {name: pd.api.types.is_numeric_dtype(grid[name]) and not levels[name] for name in names}
    vault = ModelVault(
        coef=fit.params.to_numpy(),
        coefnames=np.array(fit.exog_names),
        formula=columns,
        modeldata=DataFrame(shown),
        package="privstats",
        variable_names=[fit.endog_names, *names],
        variables_type={name: "numeric" if numeric[name] else "character" for name in names},
    )
    return PrivateModel(fit, vault)


def _given(value: float) -> float | None:
    return None if math.isnan(value) else value
