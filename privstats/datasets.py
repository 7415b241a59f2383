"""Data sets for examples and benchmarks, each with the domain of its columns.

Nothing is downloaded. Files are searched for in the folder that the environment variable PRIVSTATS_DATA names, then in
``~/.cache/privstats``; the error for a missing file says where to get the file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from privstats.formula.declarations import Levels
from privstats.formula.domain import Domain
from privstats.mechanisms.random import NoiseSource

HOMES = {
    "king_county_house_sales.csv": "Kaggle, harlfoxem/housesalesprediction (CC0), saved under this name",
    "cps_asec_2024_wages.csv": "US Census Bureau, CPS ASEC March 2024 (public domain), wage earners aged 25 to 64",
    "vertebral_column_2C.dat": "UCI Machine Learning Repository, data set 212, Vertebral Column (CC BY 4.0)",
}
COUNTIES = ("Other", "Alameda", "Contra Costa", "Marin-San Francisco-San Mateo", "Napa-Sonoma", "Santa Clara")


class Dataset(NamedTuple):
    """A data set: a data frame, and its domain (bounds and levels of columns) from the publisher's documentation."""

    data: pd.DataFrame
    domain: Domain


def find(name: str) -> Path:
    """Return the path of a data file in the folder that PRIVSTATS_DATA names, or in ``~/.cache/privstats``.

    Parameters
    ----------
    name : str
        File name.

    Returns
    -------
    Path

    Raises
    ------
    FileNotFoundError
        If neither folder has the file; the error names the folders and the source of the file.
    """
    named = os.environ.get("PRIVSTATS_DATA")
    folders = [*([Path(named)] if named else []), Path.home() / ".cache" / "privstats"]
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    places = " or ".join(map(str, folders))
    raise FileNotFoundError(f"{name} is not in {places}; get it from {HOMES[name]} (PRIVSTATS_DATA names the folder)")


def load_housing() -> Dataset:
    """Return records of 21,613 house sales in King County (Washington, USA), 2014-15.

    Raises
    ------
    FileNotFoundError
        If `find` does not find the file king_county_house_sales.csv.
    """
    domain = {
        "price": (50_000, 10_000_000),
        "bedrooms": (0, 12),
        "bathrooms": (0, 8),
        "sqft_living": (300, 15_000),
        "sqft_lot": (400, 2_000_000),
        "floors": (1, 4),
        "waterfront": [0, 1],
        "view": (0, 4),
        "condition": (1, 5),
        "grade": (1, 13),
        "yr_built": (1900, 2015),
        "lat": (47.1, 47.8),
        "long": (-122.6, -121.3),
    }
    return Dataset(pd.read_csv(find("king_county_house_sales.csv")), Domain(domain, complete=True))


def load_cps() -> Dataset:
    """Return the records of 54,875 wage earners aged 25 to 64 from the Current Population Survey of March 2024.

    Raises
    ------
    FileNotFoundError
        If `find` does not find the file cps_asec_2024_wages.csv.
    """
    domain = {
        "log_wage": (7, 14),
        "educ_years": (0, 22),
        "experience": (0, 60),
        "female": [0, 1],
        "WSAL_VAL": (0, 1_500_000),
        "A_FNLWGT": (0, 1_600_000),
        "A_AGE": (25, 64),
    }
    return Dataset(pd.read_csv(find("cps_asec_2024_wages.csv")), Domain(domain, complete=True))


def load_vertebral() -> Dataset:
    """Return six measurements of the spine of 310 patients, 210 of them abnormal ("AB") and 100 normal ("NO").

    Raises
    ------
    FileNotFoundError
        If `find` does not find the file vertebral_column_2C.dat.
    """
    domain = {
        "pelvic_incidence": (0, 150),
        "pelvic_tilt": (-20, 60),
        "lumbar_lordosis_angle": (0, 150),
        "sacral_slope": (0, 150),
        "pelvic_radius": (50, 180),
        "degree_spondylolisthesis": (-20, 500),
        "class": ["NO", "AB"],
    }
    data = pd.read_csv(find("vertebral_column_2C.dat"), sep=" ", header=None, names=list(domain))
    return Dataset(data, Domain(domain, complete=True))


def load_randhie() -> Dataset:
    """Return 20,190 records of the RAND health insurance experiment, from the data sets of statsmodels."""
    domain = {
        "mdvis": (0, 100),
        "lncoins": (0, 5),
        "idp": [0, 1],
        "lpi": (0, 8),
        "fmde": (0, 9),
        "physlm": (0, 1),
        "disea": (0, 60),
        "hlthg": [0, 1],
        "hlthf": [0, 1],
        "hlthp": [0, 1],
    }
    return Dataset(_statsmodels("randhie"), Domain(domain, complete=True))


def load_fair() -> Dataset:
    """Return the answers of 6,366 women to a magazine's survey on extramarital affairs (Fair 1978).

    The data are included in statsmodels.
    """
    domain = {
        "rate_marriage": (1, 5),
        "age": (17.5, 42),
        "yrs_married": (0, 25),
        "children": (0, 6),
        "religious": (1, 4),
        "educ": (9, 20),
        "occupation": [1, 2, 3, 4, 5, 6],
        "occupation_husb": [1, 2, 3, 4, 5, 6],
        "affairs": (0, 60),
    }
    return Dataset(_statsmodels("fair"), Domain(domain, complete=True))


def load_engel() -> Dataset:
    """Return the income and food expenditure of 235 Belgian households in 1857, from the data sets of statsmodels."""
    return Dataset(_statsmodels("engel"), Domain({"income": (0, 5000), "foodexp": (0, 2500)}, complete=True))


def _statsmodels(name: str) -> pd.DataFrame:
    import statsmodels.datasets as shipped

    frame: pd.DataFrame = getattr(shipped, name).load_pandas().data
    return frame


def make_housing(n: int, seed: int) -> Dataset:
    """Return synthetic house sales with the columns of Awan and Slavkovic (2021), section 6.3.

    The sales are random and resemble sales around San Francisco Bay, 2003 to 2006: sizes are skewed, counties differ in
    location and price, and prices rise with time.

    Parameters
    ----------
    n : int
        Number of sales.
    seed : int
        The same seed gives the same sales.

    Returns
    -------
    Dataset
        Columns log_price, log_lot, log_base (logs of US dollars and square feet), latitude, longitude, sale_time
        (years since 2003), age (years), bedrooms, county (six levels).

    Examples
    --------
    >>> data, domain = make_housing(1000, seed=1)
    >>> data.shape
    (1000, 9)
    """
    chance = NoiseSource(seed).generator("make_housing", n)
    county = np.searchsorted([0.12, 0.34, 0.52, 0.68, 0.78], chance.uniform(0.0, 1.0, n))
    latitude = np.array([38.1, 37.7, 37.95, 37.65, 38.4, 37.3])[county] + 0.12 * chance.standard_normal(n)
    longitude = np.array([-122.0, -122.1, -122.0, -122.4, -122.6, -121.9])[county] + 0.12 * chance.standard_normal(n)
    log_base = 7.35 + 0.38 * chance.standard_normal(n)
    log_lot = 8.7 + 0.5 * (log_base - 7.35) + 0.7 * chance.standard_normal(n)
    bedrooms = np.clip(np.rint(3.1 + 1.4 * (log_base - 7.35) + 0.7 * chance.standard_normal(n)), 0, 10)
    age = np.clip(12 * chance.standard_gamma(2.5, n), 0, 120)
    sale_time = chance.uniform(0.0, 3.5, n)
    log_price = (
        13.1
        + np.array([0.0, 0.1, 0.0, 0.45, 0.05, 0.25])[county]
        + 0.55 * (log_base - 7.35)
        + 0.08 * (log_lot - 8.7)
        + 0.11 * sale_time
        - 0.001 * age
        + 0.01 * (bedrooms - 3)
        + 0.28 * chance.standard_normal(n)
    )
    data = pd.DataFrame(
        {
            "log_price": log_price,
            "log_lot": log_lot,
            "log_base": log_base,
            "latitude": latitude,
            "longitude": longitude,
            "sale_time": sale_time,
            "age": age,
            "bedrooms": bedrooms,
            "county": np.array(COUNTIES, dtype=object)[county],
        }
    )
    domain = {
        "log_price": (11.5, 15.5),
        "log_lot": (6, 12),
        "log_base": (6, 9),
        "latitude": (36.8, 38.9),
        "longitude": (-123.1, -121.4),
        "sale_time": (0, 3.5),
        "age": (0, 120),
        "bedrooms": (0, 10),
        "county": Levels(COUNTIES),
    }
    return Dataset(data, Domain(domain, complete=True))
