"""What users of other packages will look for in a result, and why it is not there."""

from __future__ import annotations

from typing import NoReturn

from privstats.errors import PrivacyError


class Absent:
    """Attributes of statsmodels' results that would show rows: each explains its absence and names the remedy."""

    @property
    def resid(self) -> NoReturn:
        """Residuals are data: they are not kept."""
        raise PrivacyError(
            "residuals would show rows; dp_hist of a column you derive, or wald_test, are paid ways to check a model"
        )

    @property
    def fittedvalues(self) -> NoReturn:
        """Fitted values are functions of the rows: they are not kept."""
        raise PrivacyError("fitted values would show rows; use predict(new_data) with rows that are nobody's secret")

    @property
    def rsquared(self) -> NoReturn:
        """R-squared would need the response's exact sum of squares."""
        raise PrivacyError("R-squared is not released; compare glance()['sigma'] with the response's known spread")
