"""The main job on real data: `make demo` runs this file.

RAND health insurance ships with statsmodels. CPS wages and King County house prices are added when their
files are found in the folder named by PRIVSTATS_DATA (or in ../shared/data). Bounds and levels are public
knowledge of the survey or the market, never a minimum or maximum of the data.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import statsmodels.api as sm

import privstats as ps

DATA = Path(os.environ.get("PRIVSTATS_DATA", Path(__file__).parents[2] / "shared" / "data"))


@dataclass(frozen=True)
class Regression:
    """A data set, what is publicly known of it, and a model."""

    title: str
    files: tuple[str, ...]
    load: Callable[..., pd.DataFrame]
    formula: str
    domain: dict[str, Any]


DATASETS = {
    "randhie": Regression(
        title="Doctor visits in the RAND health insurance experiment",
        files=(),
        load=lambda: sm.datasets.randhie.load_pandas().data,
        formula="np.log1p(mdvis) ~ lncoins + idp + physlm + disea + hlthf + hlthp",
        domain={
            "mdvis": (0, 100),
            "lncoins": (0, 5),
            "idp": (0, 1),
            "physlm": (0, 1),
            "disea": (0, 60),
            "hlthf": (0, 1),
            "hlthp": (0, 1),
        },
    ),
    "cps": Regression(
        title="Wages in the Current Population Survey, 2024",
        files=("cps_asec_2024_wages.csv",),
        load=pd.read_csv,
        formula="log_wage ~ educ_years + experience + I(experience ** 2) + C(female)",
        domain={"log_wage": (7, 14), "educ_years": (0, 21), "experience": (0, 60), "female": [0, 1]},
    ),
    "housing": Regression(
        title="House prices in King County, 2014-15",
        files=("king_county_house_sales.csv",),
        load=pd.read_csv,
        formula="np.log(price) ~ np.log(sqft_living) + bedrooms + grade + C(waterfront)",
        domain={
            "price": (50_000, 10_000_000),
            "sqft_living": (300, 15_000),
            "bedrooms": (0, 12),
            "grade": (1, 13),
            "waterfront": [0, 1],
        },
    ),
}


def main() -> None:
    """Fit each regression whose data are here, at eps = 1, and print its summary."""
    for regression in DATASETS.values():
        files = [DATA / file for file in regression.files]
        print(f"\n{regression.title}\n")
        if missing := [file.name for file in files if not file.exists()]:
            print(f"skipped: {missing[0]} is not in {DATA} (set PRIVSTATS_DATA to the folder that holds it)")
            continue
        data = regression.load(*files)
        print(ps.dp_lm(regression.formula, data, eps=1.0, domain=regression.domain).summary())


if __name__ == "__main__":
    main()
