"""Regressions on real data, each with a printed summary: `make demo` runs this file.

RAND health insurance ships with statsmodels. CPS wages and King County house prices are added when their
files are found (`privstats.datasets` says where). Bounds and levels are public knowledge of the survey or
the market, never a minimum or maximum of the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import privstats as ps
from privstats.datasets import Dataset, load_cps, load_housing, load_randhie


@dataclass(frozen=True)
class Regression:
    """A data set and a model."""

    title: str
    load: Callable[[], Dataset]
    formula: str


REGRESSIONS = {
    "randhie": Regression(
        "Doctor visits in the RAND health insurance experiment",
        load_randhie,
        "np.log1p(mdvis) ~ lncoins + C(idp) + physlm + disea + C(hlthf)",
    ),
    "cps": Regression(
        "Wages in the Current Population Survey, 2024",
        load_cps,
        "log_wage ~ educ_years + poly(experience, 2) + C(female)",
    ),
    "housing": Regression(
        "House prices in King County, 2014-15",
        load_housing,
        "np.log(price) ~ np.log(sqft_living) + bedrooms + grade + C(waterfront)",
    ),
}


def main() -> None:
    """Fit each regression whose data are here, at eps = 1, and print its summary."""
    for regression in REGRESSIONS.values():
        print(f"\n{regression.title}\n")
        try:
            data, domain = regression.load()
        except FileNotFoundError as absent:
            print(f"skipped: {absent}")
            continue
        print(ps.dp_lm(regression.formula, data, eps=1.0, domain=domain).summary())


if __name__ == "__main__":
    main()
