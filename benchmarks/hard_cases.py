"""Coverage and length of intervals in hard cases: populations in which intervals failed in the past or may fail.

Each case has its own budgets. Targets are as in `benchmarks.populations`: samples are drawn from a population, and the
truth is the fit to all its rows.

    python -m benchmarks.hard_cases --seed 1 --names rare_5 collinear --replicates 40
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.datasets as public

from benchmarks.common import arguments
from benchmarks.populations import (
    CPS,
    DOCTOR,
    FLIGHTS,
    FOLDER,
    HOUSES,
    POPULATIONS,
    WAGES,
    Population,
    assets,
    lm,
    shown,
)

USUAL = ({"mu": 1.0}, {"eps": 4.0})
Rng = np.random.Generator


@dataclass(frozen=True)
class Case:
    """A population, the number of rows of a sample, and budgets.

    Parameters
    ----------
    population : Population
        Rows and regression of the population.
    n : int
        Number of rows of a sample.
    promises : tuple of mapping of str to float
        Budgets, such as {"mu": 1.0}.
    """

    population: Population
    n: int = 10_000
    promises: tuple[Mapping[str, float], ...] = field(default=USUAL)


def rare(k: int, rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of a predictor and a factor with a rare level, whose share is k in 20,000."""
    g = rng.choice(["a", "b", "rare"], n, p=[0.5, 0.5 - k / 20_000, k / 20_000])
    x = rng.normal(0, 1, n)
    return pd.DataFrame({"g": g, "x": x, "y": x + (g == "rare") + rng.normal(0, 1, n)})


def even_levels(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of a factor with twelve equally frequent levels, and a predictor."""
    k, x = rng.integers(0, 12, n), rng.uniform(-1, 1, n)
    return pd.DataFrame({"g": np.array(TWELVE)[k], "x": x, "y": x + 0.1 * k + rng.normal(size=n)})


def two_rare_levels(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of a binary outcome, a predictor and a factor with two rare levels."""
    x, g = rng.uniform(0, 10, n), rng.choice(["p", "q", "r", "t"], n, p=[0.6, 0.35, 0.03, 0.02])
    eta = -1 + 0.3 * x + 0.5 * (g != "p") + 0.3 * (g == "t")
    return pd.DataFrame({"x": x, "g": g, "y": (rng.uniform(size=n) < 1 / (1 + np.exp(-eta))).astype(int)})


def three_levels(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of two numbers and a factor whose second and third levels have 3 % and 1.5 % of the rows."""
    k, x, z = rng.choice(3, n, p=[0.955, 0.03, 0.015]), rng.normal(0, 1, n).clip(-4, 4), rng.uniform(0, 1, n)
    y = 0.4 * k + 0.5 * x + 0.5 * z + rng.normal(0, 1, n)
    return pd.DataFrame({"g": np.array(["p", "q", "r"])[k], "x": x, "z": z, "y": y})


def two_values(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of a predictor with the values 0 and 1, and Poisson counts with means .2 and 3.7 at these values."""
    x = rng.integers(0, 2, n).astype(float)
    return pd.DataFrame({"x": x, "y": np.minimum(rng.poisson(np.exp(-1.7 + 3 * x)), 100)})


def rare_and_varied(rng: Rng, n: int) -> pd.DataFrame:
    """Return gamma amounts; a factor's reference level has .8 % of the rows and 7 times the relative variance."""
    x, g = rng.uniform(-1, 1, n), rng.choice(["rare", "a", "b"], n, p=[0.008, 0.592, 0.4])
    shape = np.where(g == "rare", 0.5, 3.5)
    return pd.DataFrame({"x": x, "g": g, "y": np.exp(0.4 * x + 0.3 * (g == "b")) * rng.gamma(shape, 1 / shape)})


def straight(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of a linear model with two predictors and normal errors."""
    X = rng.uniform(-1, 1, (n, 2))
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": X @ [0.5, -0.3] + 0.5 * rng.normal(size=n)})


def totals(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of districts with three correlated totals (rooms, homes, people); E(y) is not linear in them."""
    size = rng.normal(6, 0.7, n)
    rooms, homes, people = (size + shift + 0.2 * rng.normal(size=n) for shift in (1.5, 0.0, 1.0))
    y = 0.4 * (rooms - people) + 0.1 * np.square(homes - 6) + 0.3 * rng.normal(size=n)
    return pd.DataFrame({"rooms": rooms, "homes": homes, "people": people, "y": y})


def mixture(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows whose errors have five times the standard deviation in 5 % of the rows."""
    x = rng.uniform(-1, 1, n)
    return pd.DataFrame({"x": x, "y": 0.5 * x + np.where(rng.uniform(size=n) < 0.05, 2.0, 0.4) * rng.normal(size=n)})


def correlated(rho: float, rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of two predictors with correlation `rho`."""
    a = rng.normal(0, 1, n)
    b = rho * a + np.sqrt(1 - rho**2) * rng.normal(size=n)
    return pd.DataFrame({"a": a, "b": b, "y": 0.5 * a - 0.3 * b + rng.normal(size=n)})


def cause_and_proxy(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of two predictors with correlation .8; only the first predictor has an effect."""
    cause = rng.normal(0, 1, n)
    proxy = 0.8 * cause + 0.6 * rng.normal(0, 1, n)
    return pd.DataFrame({"cause": cause, "proxy": proxy, "y": 0.8 * cause + 0.6 * rng.normal(0, 1, n)})


def trend_by_level(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of a response with a trend over the years 1990 to 2020 that differs between two levels."""
    year, g = rng.integers(1990, 2021, n), rng.choice(["a", "b"], n)
    y = 10 + np.where(g == "b", 0.4, 0.3) * (year - 2005) + rng.normal(0, 3, n)
    return pd.DataFrame({"year": year, "g": g, "y": y})


def late_by_level(rng: Rng, n: int) -> pd.DataFrame:
    """Return the predictors of `trend_by_level` with a binary outcome whose odds depend on the predictors."""
    data = trend_by_level(rng, n)
    eta = 0.3 + np.where(data["g"] == "b", 0.1, 0.05) * (data["year"] - 2005)
    return data.assign(y=(rng.uniform(size=n) < 1 / (1 + np.exp(-eta))) * 1)


def slopes_by_rare_level(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows with slopes of two predictors that differ between three levels; one level has 3 % of the rows."""
    year, g = rng.integers(1990, 2021, n), rng.choice(["a", "b", "c"], n, p=[0.6, 0.37, 0.03])
    x = rng.normal(50, 10, n)
    trend = np.select([g == "b", g == "c"], [0.4, 0.1], 0.3)
    y = 10 + trend * (year - 2005) + np.where(g == "b", 0.07, 0.05) * x + rng.normal(0, 3, n)
    return pd.DataFrame({"year": year, "g": g, "x": x, "y": y})


def cause_and_counts(rng: Rng, n: int) -> pd.DataFrame:
    """Return the predictors of `cause_and_proxy` with Poisson counts that depend on the first predictor."""
    data = cause_and_proxy(rng, n)
    return data.assign(y=rng.poisson(np.exp(0.3 + 0.5 * data["cause"])))


def zeros(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows with a response that is zero in about 40 % of the rows, as in data on expenses."""
    x = rng.gamma(2, 1, n)
    spent = rng.uniform(size=n) < 0.4 + 0.1 * np.minimum(x, 4)
    return pd.DataFrame({"x": x, "y": np.where(spent, rng.lognormal(0.2 * x, 0.8), 0.0)})


def tolls(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows with a predictor that is zero in 95 % of the rows, such as the road toll in data on taxi fares."""
    x = np.where(rng.uniform(size=n) < 0.05, rng.lognormal(1.7, 0.3, n), 0.0)
    z = rng.integers(1, 7, n)
    return pd.DataFrame({"x": x, "z": z, "y": 14 + 2 * x + 0.1 * z + rng.gamma(2, 5, n)})


def five_points(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows with a response on a scale of whole numbers from 1 to 5."""
    x, g = rng.normal(size=n), rng.choice(["no", "yes"], n)
    return pd.DataFrame(
        {"x": x, "g": g, "y": np.clip(np.rint(3 + 0.5 * x + 0.3 * (g == "yes") + rng.normal(size=n)), 1, 5)}
    )


def off_center(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of two predictors far from zero; E(y) has a square and a product of the predictors."""
    age, hours = rng.uniform(25, 65, n), rng.normal(40, 6, n)
    y = 8 + 0.05 * age - 0.0005 * age**2 + 0.0004 * age * hours + 0.4 * rng.normal(size=n)
    return pd.DataFrame({"age": age, "hours": hours, "y": y})


def outliers(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows whose errors have 20 times the standard deviation in 1 % of the rows."""
    x = rng.normal(size=n)
    return pd.DataFrame({"x": x, "y": 0.5 * x + np.where(rng.uniform(size=n) < 0.01, 20.0, 1.0) * rng.normal(size=n)})


def separated(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of a binary outcome that is almost always 1 in one group."""
    x, g = rng.normal(size=n), rng.choice(["usual", "certain"], n, p=[0.9, 0.1])
    p = np.where(g == "certain", 0.995, 1 / (1 + np.exp(0.5 - x)))
    return pd.DataFrame({"x": x, "g": g, "y": (rng.uniform(size=n) < p).astype(int)})


def far_group(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows with outliers: one response in 200 is fifty residual standard deviations from the other responses."""
    x, far = rng.normal(size=n), rng.uniform(size=n) < 0.005
    return pd.DataFrame({"x": x, "y": np.where(far, 5 + rng.normal(size=n), 0.1 * x + 0.1 * rng.normal(size=n))})


def far_cluster(share: float, rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of a predictor that is ten times as large in a share of the rows; E(y) is not linear in it."""
    far = rng.uniform(size=n) < share
    x = np.where(far, rng.normal(20, 1.5, n), rng.normal(2, 0.6, n)).clip(0, 30)
    return pd.DataFrame({"x": x, "y": (np.where(far, 4, 0.8 * x) + rng.normal(0, 0.8, n)).clip(-5, 12)})


def two_scales(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of a predictor with the values 0 and 1; the errors are 21 times as large at 1 as at 0."""
    x = rng.integers(0, 2, n).astype(float)
    return pd.DataFrame({"x": x, "y": (x + (0.05 + x) * rng.normal(size=n)).clip(-5, 6)})


def far_logit(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of a predictor that is far larger in 3 % of the rows; log odds are not linear in the predictor."""
    x = np.where(rng.uniform(size=n) < 0.03, rng.uniform(30, 60, n), rng.uniform(0, 3, n))
    p = 1 / (1 + np.exp(1 - 0.02 * x - 0.2 * np.sqrt(x)))
    return pd.DataFrame({"x": x, "y": (rng.uniform(size=n) < p).astype(int)})


def lognormal_logit(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of a log-normal predictor, such as incomes, with log odds that are linear in its logarithm."""
    x = np.exp(1.5 * rng.normal(size=n)).clip(0, 60)
    p = 1 / (1 + np.exp(0.5 - 0.5 * np.log1p(x)))
    return pd.DataFrame({"x": x, "y": (rng.uniform(size=n) < p).astype(int)})


def rare_ones(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of a predictor, declared as a number, that is 1 in 1 % of the rows and 0 in the other rows."""
    x, w = (rng.uniform(size=n) < 0.01).astype(int), rng.normal(size=n)
    return pd.DataFrame({"x": x, "w": w, "y": x + 0.5 * w + rng.normal(size=n)})


def levels_alone(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of a factor with three levels, the only predictor; y fills a tenth of its bounds (0, 100)."""
    g = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    y = 50 + np.array([0.0, 2.0, -3.0])[g] + rng.normal(size=n)
    return pd.DataFrame({"g": np.array([*"abc"])[g], "y": y.clip(0, 100)})


def cubic(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of a response whose mean is cubic in a predictor; the predictor's powers are nearly collinear."""
    x = rng.uniform(0, 10, n)
    return pd.DataFrame({"x": x, "y": 1 + 3 * x - 0.6 * x**2 + 0.03 * x**3 + rng.normal(size=n)})


def years(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of a year of construction; its standard deviation is .4 % of the width of its bounds (0, 2100)."""
    x = rng.uniform(0, 1, n)
    return pd.DataFrame({"x": x, "y": 1975 + 5 * x + 8 * rng.normal(size=n)})


def rare_yes(constant: float, rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of a rare binary outcome, for least squares; `constant` is the intercept of the log odds."""
    X = rng.uniform(-1, 1, (n, 3))
    y = rng.uniform(size=n) < 1 / (1 + np.exp(-constant - 2 * X[:, 0]))
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y.astype(int)})


def rare_by_level(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of an outcome that is 1 in eight of 10,000 rows, with different rates at the levels of a factor."""
    rates = {"a": 0.0004, "b": 0.0008, "c": 0.0012, "d": 0.0015, "e": 0.01}
    g = rng.choice(list(rates), n, p=[0.5, 0.25, 0.15, 0.094, 0.006])
    return pd.DataFrame({"g": g, "y": (rng.uniform(size=n) < np.vectorize(rates.get)(g)).astype(int)})


def rare_when_short(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of a skewed predictor and an outcome that is rare except at large values of the predictor."""
    x = np.minimum(rng.lognormal(0.55, 1.0, n), 50)
    return pd.DataFrame({"x": x, "y": (rng.uniform(size=n) < 1 / (1 + np.exp(5.5 - 0.42 * x))).astype(int)})


def counts(mean: float, slope: float, rng: Rng, n: int) -> pd.DataFrame:
    """Return a predictor x and Poisson counts, whose log mean is linear in x; `mean` is the mean count at x = 0."""
    x = rng.normal(0, 0.74, n)
    return pd.DataFrame({"x": x, "y": rng.poisson(mean * np.exp(slope * x))})


def curved_counts(rng: Rng, n: int) -> pd.DataFrame:
    """Return Poisson counts whose log mean has the square of a predictor and the product of two predictors."""
    x, z = rng.gamma(4, 2.5, n).clip(0, 60), rng.normal(size=n).clip(-4, 4)
    eta = -1 + 0.12 * x - 0.002 * x**2 + 0.3 * z + 0.03 * z * (x - 10)
    return pd.DataFrame({"x": x, "z": z, "y": rng.poisson(np.exp(eta)).clip(0, 50)})


def counts_by_level(rng: Rng, n: int) -> pd.DataFrame:
    """Return Poisson counts at five levels of a factor: one level has another slope, two have 5 % of the rows each."""
    k, x = rng.choice(5, n, p=[0.4, 0.3, 0.2, 0.05, 0.05]), rng.normal(size=n).clip(-4, 4)
    eta = -0.15 + 0.25 * x + np.array([0, 0.15, -0.15, 0.1, 0.2])[k] + 0.1 * x * (k == 1)
    return pd.DataFrame({"g": np.array(list("abcde"))[k], "x": x, "y": rng.poisson(np.exp(eta)).clip(0, 30)})


def lognormal(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of a positive response with a lognormal instead of a gamma distribution."""
    x = rng.uniform(-1, 1, n)
    return pd.DataFrame({"x": x, "y": np.exp(0.5 + 0.6 * x + 0.8 * rng.normal(size=n))})


def dispersed(zeros: float, shape: float, mean: float, rng: Rng, n: int) -> pd.DataFrame:
    """Return overdispersed counts: Poisson means times a gamma variable, and a share `zeros` of additional zeros."""
    x, g = rng.normal(size=n).clip(-4, 4), rng.choice(["a", "b"], n, p=[0.8, 0.2])
    means = mean * np.exp(0.3 * x + 0.4 * (g == "b")) * rng.gamma(shape, 1 / shape, n)
    y = np.where(rng.random(n) < zeros, 0, rng.poisson(means)).clip(0, 50 * mean)
    return pd.DataFrame({"x": x, "g": g, "y": y})


def curved(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows whose conditional quantiles are curved, with a spread that grows with the predictor."""
    x = rng.gamma(3, 1, n)
    return pd.DataFrame({"x": x, "y": np.sqrt(x) + (0.2 + 0.1 * x) * rng.standard_t(4, n)})


def few_of_some(rng: Rng, n: int) -> pd.DataFrame:
    """Return counts at six levels of a factor; three of the levels together have a tenth of the rows."""
    k = rng.choice(6, n, p=[0.4, 0.3, 0.2, 0.06, 0.02, 0.02])
    return pd.DataFrame({"g": np.array(list("abcdef"))[k], "y": rng.poisson(2 * np.exp(0.2 * k)).clip(0, 40)})


def skewed_level(rng: Rng, n: int) -> pd.DataFrame:
    """Return counts at six levels; three rare levels (a tenth of the rows) have thrice the standard deviation."""
    k = rng.choice(6, n, p=[0.4, 0.3, 0.2, 0.06, 0.02, 0.02])
    rare, x, h = k >= 3, rng.normal(size=n) + 0.6 * (k - 1), rng.integers(0, 2, n)
    eta = (0.35 + 0.6 * rare) * x + 0.1 * k + 0.2 * h + 0.1 * rng.normal(size=n) + 0.5 * rare
    mean = np.exp((eta / 2).clip(-3, 3)) * rng.gamma(2, 0.5, n)
    return pd.DataFrame({"g": np.array(list("abcdef"))[k], "y": rng.poisson(mean).clip(0, 80)})


def rare_slopes(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows at six levels of a factor; at three rare levels (a tenth of the rows) the slope of x is larger."""
    k = rng.choice(6, n, p=[0.4, 0.3, 0.2, 0.06, 0.02, 0.02])
    x, h = (rng.normal(size=n) + 0.3 * k - 0.4).clip(-5, 5), rng.integers(0, 2, n)
    y = 0.5 * k + (0.5 + 0.3 * (k >= 3)) * x + 0.3 * h + rng.normal(size=n)
    return pd.DataFrame({"g": np.array(list("abcdef"))[k], "x": x, "h": h, "y": y.clip(-20, 20)})


def several(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows of five normal predictors, a predictor with two values, and a response with normal errors."""
    x, w = rng.normal(size=(n, 5)).clip(-5, 5), rng.integers(0, 2, n)
    y = 50 + 0.9 * x.sum(axis=1) + 3 * w + 8 * rng.normal(size=n)
    return pd.DataFrame({**{f"x{k}": x[:, k] for k in range(5)}, "w": w, "y": y.clip(0, 100)})


def saturating(rng: Rng, n: int) -> pd.DataFrame:
    """Return rows with E(y) logarithmic in a long-tailed predictor: a line misfits large values of the predictor."""
    x, z = rng.lognormal(0, 1.2, n).clip(0, 150), rng.normal(size=n).clip(-5, 5)
    y = (2 * np.log1p(x) - 0.3 * z + 0.5 * rng.normal(size=n)).clip(-5, 20)
    return pd.DataFrame({"x": x, "z": z, "y": y})


def spending(rng: Rng, n: int) -> pd.DataFrame:
    """Return spending that is 0 in 60 % of the rows, a skewed predictor (mean 3, bounds (0, 25)) and a binary one."""
    x, z = rng.gamma(2, 1.5, n).clip(0, 25), (rng.random(n) < 0.3) * 1.0
    y = np.where(rng.random(n) < 0.6, 0, np.exp(1 + 0.1 * x + 0.4 * z + 0.7 * rng.normal(size=n))).clip(0, 200)
    return pd.DataFrame({"x": x, "z": z, "y": y})


def wealth(rng: Rng, n: int) -> pd.DataFrame:
    """Return net assets, whose scale rises with the square of income, and predictors without effect."""
    income, age = np.exp(rng.normal(3.55, 0.55, n)).clip(8, 200), rng.uniform(25, 64, n).round()
    rows = pd.DataFrame({"income": income, "age": age, "size": rng.integers(1, 8, n)})
    rows = rows.assign(**{f"d{k}": rng.integers(0, 2, n) for k in range(4)})
    saved = 6 * (income / 35) ** 2 * (age / 40) ** 1.5 * np.exp(rng.normal(0, 0.8, n))
    return rows.assign(net=np.where(rng.random(n) < 0.35, rng.normal(-1, 2, n), saved).clip(-500, 1500))


def few_amounts(rng: Rng, n: int) -> pd.DataFrame:
    """Return amounts with a gamma distribution whose mean grows with a predictor."""
    x = rng.uniform(-1, 1, n)
    y = np.exp(0.2 + 0.5 * x) * rng.gamma(2.0, 0.5, n) + 0.01
    return pd.DataFrame({"x": x, "y": y.clip(0, 50)})


def shipped(name: str, _rng: Rng, _n: int) -> pd.DataFrame:
    """Return a data set that comes with statsmodels."""
    data: pd.DataFrame = getattr(public, name).load_pandas().data
    return data


TWO = {"a": (-1, 1), "b": (-1, 1), "y": (-4, 4)}
BOTH = {"a": (-6, 6), "b": (-6, 6), "y": (-12, 12)}
THREE = {"g": ["p", "q", "r"], "x": (-4, 4), "z": (0, 1), "y": (-6, 10)}
RARE = {"g": ["a", "b", "rare"], "x": (-5, 5), "y": (-8, 8)}
TWELVE = [f"l{k:02}" for k in range(12)]
EVEN = {"g": TWELVE, "x": (-1, 1), "y": (-6, 8)}
COUNTED = {"x": (-4, 4)}
TRIPS = {
    "fare": (0, 200), "tip": (0, 100), "distance": (0, 100), "passengers": (0, 9),
    "pickup_borough": ["Manhattan", "Queens", "Brooklyn", "Bronx"],
}  # fmt: skip
PAYMENT = {"tip": (0, 40), "payment": ["cash", "credit card"]}
BY_PAYMENT = "fare ~ tip + C(payment) + C(pickup_borough)"
HEALTH = {
    "mdvis": (0, 100), "lncoins": (0, 5), "lpi": (0, 8), "physlm": (0, 1), "disea": (0, 60), "hlthg": [0, 1],
    "hlthf": [0, 1], "hlthp": [0, 1],
}  # fmt: skip
HEALTH_TERMS = "lncoins + lpi + physlm + disea + C(hlthg) + C(hlthf) + C(hlthp)"
MARRIED = {
    "affairs": (0, 60), "rate_marriage": (1, 5), "age": (17, 45), "yrs_married": (0, 25), "children": (0, 6),
    "religious": (1, 4), "educ": (8, 20),
}  # fmt: skip
MARRIED_TERMS = "rate_marriage + age + yrs_married + children + religious + educ"
VOTERS = {
    "vote": [0, 1], "TVnews": (0, 7), "selfLR": (1, 7), "PID": (0, 6), "age": (18, 100), "educ": (1, 7),
    "income": (1, 24),
}  # fmt: skip
SCHOOLS = {"NABOVE": (0, 15_000), "LOWINC": (0, 100), "PERMINTE": (0, 100), "AVYRSEXP": (5, 25)}
INCOMES = {"loan_amount": (0, 60_000), "annual_income": (0, 3e6)}
PLACES = HOUSES | {"waterfront": [0, 1], "lat": (47, 48), "long": (-123, -121)}


def glm(source: Any, formula: str, domain: Mapping[str, Any], **options: Any) -> Population:
    """Return a population for a generalised linear model."""
    return Population(source, "dp_glm", formula, domain, options)


def rq(source: Any, formula: str, domain: Mapping[str, Any], tau: float) -> Population:
    """Return a population for a quantile regression."""
    return Population(source, "dp_rq", formula, domain, {"tau": tau})


LARGE = {"eps": 1.0, "delta": 1e-6}
CRASHES = {"dead": ["alive", "dead"], "dvcat": ["1-9km/h", "10-24", "25-39", "40-54", "55+"]}
CASES = {
    "concave": Case(POPULATIONS["skewed"], promises=({"mu": 0.5}, {"mu": 1.0}, LARGE, {"eps": 4.0})),
    "right_skewed": Case(POPULATIONS["heavy"], promises=({"mu": 1.0}, LARGE, {"eps": 4.0})),
    **{f"rare_{k}": Case(lm(partial(rare, k), "y ~ x + C(g)", RARE), 20_000) for k in (5, 20, 50, 100, 400)},
    "rare_and_varied": Case(
        glm(rare_and_varied, "y ~ x + C(g)", {"x": (-1, 1), "g": ["rare", "a", "b"], "y": (0, 30)}, family="gamma")
    ),
    **{
        name: Case(  # the counts of the rare levels exceed the noise at these budgets
            Population(three_levels, "dp_lm", "y ~ C(g) + x + z", THREE, options),
            promises=({"eps": 4.0}, {"mu": 1.0}),
        )
        for name, options in {"three_levels": {}, "three_levels_huber": {"loss": "huber"}}.items()
    },
    "two_values": Case(
        glm(two_values, "y ~ x", {"x": (0, 1), "y": (0, 100)}, family="poisson"),
        4000,
        ({"eps": 1.0}, {"eps": 2.0}, {"eps": 4.0}),
    ),
    "two_rare_levels": Case(
        glm(two_rare_levels, "y ~ x + C(g)", {"x": (0, 10), "g": ["p", "q", "r", "t"], "y": (0, 1)}),
        4000,
        ({"mu": 0.5}, {"mu": 1.0}, {"eps": 4.0}),
    ),
    "even_levels": Case(lm(even_levels, "y ~ x + C(g)", EVEN), 7_000, ({"eps": 1.0}, {"eps": 2.0}, {"mu": 0.25})),
    "rare_sum": Case(lm(partial(rare, 50), "y ~ x + C(g, Sum)", RARE), 20_000),
    "twelve_levels": Case(POPULATIONS["twelve_levels"]),
    "sparse_spline": Case(POPULATIONS["sparse_spline"]),
    **{
        f"rows_{n}": Case(lm(straight, "y ~ a + b", TWO), n, ({"mu": 1.0}, {"eps": 1.0}, {"eps": 4.0}))
        for n in (30, 100, 500)
    },
    **{
        f"counts_{mean:g}": Case(
            glm(partial(counts, mean, 0.9), "y ~ x", COUNTED | {"y": (0, 50 * max(mean, 1))}, family="poisson"), 4000
        )
        for mean in (0.05, 1.0, 300.0, 4e4)
    },
    **{
        f"dispersed_{mean:g}": Case(
            glm(
                partial(dispersed, zeros, shape, mean),
                "y ~ x + C(g)",
                {"x": (-4, 4), "g": ["a", "b"], "y": (0, 50 * mean)},
                family="poisson",
            ),
            4000,
            ({"eps": 1.0}, {"eps": 4.0}),
        )
        for zeros, shape, mean in ((0.8, 3.0, 3.0), (0.2, 0.5, 5.0), (0.0, 1.0, 60.0))
    },
    "totals": Case(
        lm(totals, "y ~ rooms + homes + people", dict.fromkeys(("rooms", "homes", "people"), (0, 14)) | {"y": (-3, 5)}),
        promises=({"eps": 0.5}, {"eps": 1.0}, {"eps": 4.0}, {"mu": 1.0}),
    ),
    "place_logit": Case(
        glm(
            "king_county_house_sales.csv",
            "I(price > 500000) ~ np.log(sqft_living) + lat + long + C(waterfront)",
            PLACES,
        )
    ),
    "mixture": Case(lm(mixture, "y ~ x", {"x": (-1, 1), "y": (-10, 10)})),
    "tenth_huber": Case(
        Population(straight, "dp_lm", "y ~ a + b", {"a": (-10, 10), "b": (-10, 10), "y": (-40, 40)}, {"loss": "huber"}),
        2000,
    ),
    "wide_5": Case(lm(straight, "y ~ a + b", {"a": (-5, 5), "b": (-5, 5), "y": (-20, 20)})),
    "wide_20": Case(lm(straight, "y ~ a + b", {"a": (-20, 20), "b": (-20, 20), "y": (-80, 80)})),
    "rho_95": Case(lm(partial(correlated, 0.95), "y ~ a + b", BOTH)),
    "rho_99": Case(lm(partial(correlated, 0.99), "y ~ a + b", BOTH)),
    **{
        f"rare_yes_{abs(constant):g}": Case(
            lm(partial(rare_yes, constant), "y ~ a + b + c", {"a": (-1, 1), "b": (-1, 1), "c": (-1, 1), "y": (0, 1)}),
            promises=({"eps": 1.0}, {"eps": 4.0}, {"mu": 0.5}),
        )
        for constant in (-4.0, -5.5)
    },
    **{
        # noise hides the predictor `cause`; a fit that ignores this noise ascribes the effect of `cause` to `proxy`
        f"hidden_cause_{name}": Case(
            lm(cause_and_proxy, "y ~ cause + proxy", {"cause": bounds, "proxy": (-4, 4), "y": (-5, 5)}),
            1000,
            ({"eps": 1.0}, {"eps": 4.0}, {"mu": 1.0}),
        )
        for name, bounds in {"10": (-10, 10), "30": (-30, 30), "300": (-300, 300), "aside": (-3, 57)}.items()
    },
    "trend_by_level": Case(
        lm(trend_by_level, "y ~ year * C(g)", {"year": (1990, 2020), "g": ["a", "b"], "y": (-30, 60)}),
        20_000,
        ({"eps": 1.0}, {"mu": 0.5}),
    ),
    "slopes_by_rare_level": Case(
        lm(
            slopes_by_rare_level,
            "y ~ (year + x) * C(g)",
            {"year": (1990, 2020), "g": ["a", "b", "c"], "x": (20, 80), "y": (-30, 60)},
        ),
        promises=({"eps": 1.0}, {"eps": 4.0}, {"mu": 0.5}),
    ),
    "trend_by_level_median": Case(
        rq(trend_by_level, "y ~ year * C(g)", {"year": (1990, 2020), "g": ["a", "b"], "y": (-30, 60)}, 0.5),
        20_000,
        ({"eps": 2.0}, {"mu": 0.5}),
    ),
    "trend_by_level_logit": Case(
        glm(late_by_level, "y ~ year * C(g)", {"year": (1990, 2020), "g": ["a", "b"], "y": (0, 1)}),
        20_000,
        ({"eps": 2.0}, {"mu": 0.5}),
    ),
    "hidden_cause_counts": Case(
        glm(
            cause_and_counts,
            "y ~ cause + proxy",
            {"cause": (-3, 597), "proxy": (-4, 4), "y": (0, 30)},
            family="poisson",
        ),
        5000,
        ({"eps": 1.0}, {"mu": 0.5}),
    ),
    "hidden_cause_median": Case(
        rq(cause_and_proxy, "y ~ cause + proxy", {"cause": (-3, 597), "proxy": (-4, 4), "y": (-5, 5)}, 0.5),
        5000,
        ({"eps": 1.0}, {"mu": 0.5}),
    ),
    "far_group": Case(  # README says that coverage is not guaranteed in this case
        lm(far_group, "y ~ x", {"x": (-5, 5), "y": (-10, 10)}), promises=({"eps": 1.0}, {"eps": 4.0}, {"mu": 0.5})
    ),
    "far_cluster": Case(
        lm(partial(far_cluster, 0.06), "y ~ 0 + x", {"x": (0, 30), "y": (-5, 12)}),
        promises=({"eps": 1.0}, {"mu": 0.5}),
    ),
    "far_cluster_median": Case(
        rq(partial(far_cluster, 0.06), "y ~ x", {"x": (0, 30), "y": (-5, 12)}, 0.5), 5000, ({"eps": 1.0}, {"eps": 2.0})
    ),
    "far_cluster_huber": Case(
        Population(partial(far_cluster, 0.02), "dp_lm", "y ~ x", {"x": (0, 30), "y": (-5, 12)}, {"loss": "huber"}),
        promises=({"eps": 3.0}, {"mu": 0.5}),
    ),
    "far_few": Case(  # README says that coverage is not guaranteed in this case
        lm(partial(far_cluster, 0.02), "y ~ x", {"x": (0, 30), "y": (-5, 12)}), promises=({"eps": 1.0},)
    ),
    "yearly_wages": Case(  # README says that coverage is not guaranteed in this case
        lm("cps_asec_2024_wages.csv", "WSAL_VAL ~ C(female)", {"WSAL_VAL": (0, 1_000_000), "female": [0, 1]}),
        3000,
        ({"eps": 1.0}, {"mu": 0.25}),
    ),
    "far_logit": Case(glm(far_logit, "y ~ x", {"x": (0, 60), "y": [0, 1]}), 5000, ({"mu": 0.5}, {"mu": 1.0})),
    "lognormal_logit": Case(
        glm(lognormal_logit, "y ~ x", {"x": (0, 60), "y": [0, 1]}), 5000, ({"mu": 0.5}, {"mu": 1.0})
    ),
    "two_scales": Case(  # METHODS says that coverage is not guaranteed in this case
        rq(two_scales, "y ~ x", {"x": (0, 1), "y": (-5, 6)}, 0.1), 6500, ({"eps": 1.0},)
    ),
    "incomes_by_debt": Case(  # METHODS says that coverage is not guaranteed in this case
        rq(
            "loans_2018.csv",
            "annual_income ~ debt_to_income",
            {"annual_income": (0, 1_000_000), "debt_to_income": (0, 500)},
            0.5,
        ),
        8000,
        ({"eps": 4.0}, {"mu": 0.5}),
    ),
    "rare_ones": Case(
        lm(rare_ones, "y ~ x + w", {"x": (0, 1), "w": (-5, 5), "y": (-10, 10)}),
        promises=({"eps": 1.0}, {"eps": 4.0}, {"mu": 0.5}),
    ),
    "levels_alone": Case(
        lm(levels_alone, "y ~ C(g)", {"g": [*"abc"], "y": (0, 100)}),
        promises=({"eps": 1.0}, {"eps": 4.0}, {"mu": 0.5}),
    ),
    "cubic": Case(  # no coefficient gets an interval with few rows
        lm(cubic, "y ~ x + I(x**2) + I(x**3)", {"x": (0, 10), "y": (-60, 60)}),
        promises=({"eps": 1.0}, {"eps": 2.0}, {"eps": 4.0}, {"mu": 1.0}),
    ),
    "years": Case(  # long intervals at eps = 1: they allow for rare far values below the noise (see README)
        lm(years, "y ~ x", {"x": (0, 1), "y": (0, 2100)}), promises=({"eps": 1.0}, {"eps": 4.0}, {"mu": 1.0})
    ),
    "zeros": Case(lm(zeros, "y ~ x", {"x": (0, 20), "y": (0, 200)})),
    "tolls": Case(lm(tolls, "y ~ x + z", {"x": (0, 50), "z": (0, 9), "y": (0, 150)}), 5000),
    "rare_by_level": Case(
        Population(rare_by_level, "dp_lm", "y ~ 0 + C(g)", {"g": list("abcde"), "y": (0, 1)}, {"mech": "newton"}),
        20_000,
    ),
    "five_points": Case(lm(five_points, "y ~ x + C(g)", {"x": (-5, 5), "g": ["no", "yes"], "y": (1, 5)})),
    "five_points_rq": Case(rq(five_points, "y ~ x + C(g)", {"x": (-5, 5), "g": ["no", "yes"], "y": (1, 5)}, 0.5)),
    "off_center": Case(
        lm(off_center, "y ~ age + I(age**2) + hours + age:hours", {"age": (18, 70), "hours": (0, 99), "y": (0, 20)})
    ),
    "outliers": Case(lm(outliers, "y ~ x", {"x": (-6, 6), "y": (-100, 100)})),
    "outliers_huber": Case(Population(outliers, "dp_lm", "y ~ x", {"x": (-6, 6), "y": (-100, 100)}, {"loss": "huber"})),
    "curved_counts": Case(
        glm(
            curved_counts,
            "y ~ x + I(x**2) + z + x:z",
            {"x": (0, 60), "z": (-4, 4), "y": (0, 50)},
            family="poisson",
        ),
        promises=({"mu": 1.0}, {"eps": 4.0}),
    ),
    "counts_by_level": Case(
        glm(counts_by_level, "y ~ x*C(g)", {"x": (-4, 4), "g": list("abcde"), "y": (0, 30)}, family="poisson"),
        promises=({"mu": 1.0}, {"eps": 4.0}),
    ),
    "rare_when_short": Case(glm(rare_when_short, "y ~ x", {"x": (0, 50), "y": (0, 1)}), 20_000, ({"eps": 2.0},)),
    "separated": Case(glm(separated, "y ~ x + C(g)", {"x": (-5, 5), "g": ["usual", "certain"], "y": (0, 1)})),
    "lognormal_gamma": Case(
        glm(lognormal, "y ~ x", {"x": (-1, 1), "y": (0, 100)}, family="gamma"), promises=({"mu": 1.0},)
    ),
    "saturating": Case(
        lm(saturating, "y ~ x + z", {"x": (0, 150), "z": (-5, 5), "y": (-5, 20)}), promises=({"eps": 1.0}, {"eps": 4.0})
    ),
    "spending": Case(
        lm(spending, "y ~ x + I(x**2) + z + x:z", {"x": (0, 25), "z": (0, 1), "y": (0, 200)}),
        promises=({"mu": 1.0}, {"eps": 1.0}, {"eps": 4.0}),
    ),
    "wealth": Case(
        lm(
            wealth,
            "net ~ income + age + size + d0 + d1 + d2 + d3",
            {"net": (-500, 1500), "income": (0, 250), "age": (20, 70), "size": (1, 12)}
            | {f"d{k}": (0, 1) for k in range(4)},
        )
    ),
    "curved_rq": Case(rq(curved, "y ~ x", {"x": (0, 20), "y": (-20, 30)}, 0.5)),
    "curved_rq_90": Case(rq(curved, "y ~ x", {"x": (0, 20), "y": (-20, 30)}, 0.9)),
    "few_of_some_counts": Case(
        glm(few_of_some, "y ~ C(g)", {"g": list("abcdef"), "y": (0, 60)}, family="poisson"),
        promises=({"eps": 1.0}, {"mu": 0.25}),
    ),
    "skewed_level": Case(
        glm(skewed_level, "y ~ 0 + C(g)", {"g": list("abcdef"), "y": (0, 80)}, family="poisson"),
        5_000,
        ({"mu": 0.25},),
    ),
    "rare_slopes": Case(
        lm(rare_slopes, "y ~ x + C(h) + C(g)", {"g": list("abcdef"), "x": (-5, 5), "h": [0, 1], "y": (-20, 20)}),
        5_000,
        ({"mu": 0.25}, {"mu": 0.5}),
    ),
    "several_rq25": Case(
        rq(
            several,
            "y ~ x0 + x1 + x2 + x3 + x4 + C(w)",
            {**{f"x{k}": (-5, 5) for k in range(5)}, "w": [0, 1], "y": (0, 100)},
            0.25,
        ),
        20_000,
        ({"eps": 1.0}, {"mu": 0.25}),
    ),
    "assets_rq25": Case(
        Population(assets, "dp_rq", "net ~ income + age + size", POPULATIONS["assets_rq90"].domain, {"tau": 0.25}),
        promises=({"mu": 1.0}, {"eps": 1.0}, {"eps": 4.0}),
    ),
    "delays_from_origin": Case(
        lm("nyc_flights_2013.csv", "dep_delay ~ 0 + hour", FLIGHTS | {"dep_delay": (-60, 400)}),
        1000,
        ({"eps": 0.5}, {"mu": 0.5}),
    ),
    "wages_by_region": Case(
        lm("cps_1988_wages.csv", "np.log(wage) ~ 0 + C(region) + education", WAGES), 2000, ({"eps": 1.0}, {"mu": 1.0})
    ),
    "wages_by_region_rq50": Case(
        rq("cps_1988_wages.csv", "np.log(wage) ~ 0 + C(region) + education", WAGES, 0.5),
        8000,
        ({"eps": 4.0}, {"mu": 1.0}),
    ),
    "schooling_rq25": Case(  # no intervals are given: 3 in 8 men have 12 years of schooling, and the slopes are 0
        rq("cps_1988_wages.csv", "education ~ np.log(wage) + C(ethnicity) + C(parttime)", WAGES, 0.25),
        promises=({"mu": 0.5}, {"mu": 1.0}, {"eps": 4.0}),
    ),
    "schooling_rq90": Case(rq("cps_asec_2024_wages.csv", "educ_years ~ log_wage + C(female)", CPS, 0.9), 5000),
    "hours_rq25": Case(rq("nyc_flights_2013.csv", "hour ~ distance + C(origin)", FLIGHTS, 0.25), 5000),
    "visits_rq50": Case(rq("german_doctor_visits.csv", "docvis ~ age + hhninc + C(female)", DOCTOR, 0.5), 5000),
    "randhie": Case(lm(partial(shipped, "randhie"), f"np.log1p(mdvis) ~ {HEALTH_TERMS}", HEALTH)),
    "city_sizes": Case(  # README says that coverage is not guaranteed: one row in forty is a city of 7.3 million
        lm(partial(shipped, "anes96"), "popul ~ 1", {"popul": (0, 7500)}), 2000, ({"eps": 1.0}, {"mu": 0.5})
    ),
    "log_incomes": Case(  # README says that coverage is not guaranteed: 23 of 10,000 incomes are 0
        lm("loans_2018.csv", "loan_amount ~ np.log1p(annual_income)", INCOMES), 5000, ({"eps": 4.0}, {"mu": 1.0})
    ),
    "log_incomes_bounded": Case(  # the remedy: incomes below 8,000, the zeros too, are moved to 8,000
        lm("loans_2018.csv", "loan_amount ~ np.log1p(annual_income)", {**INCOMES, "annual_income": (8000, 3e6)}),
        5000,
        ({"eps": 4.0}, {"mu": 1.0}),
    ),
    "visits_mean": Case(  # coverage .70 without the rule `Problem.one_sided`
        lm(partial(shipped, "randhie"), "mdvis ~ 1", {"mdvis": (0, 80)}), 1000, ({"mu": 0.25},)
    ),
    "randhie_counts": Case(
        glm(partial(shipped, "randhie"), f"mdvis ~ {HEALTH_TERMS}", HEALTH, family="poisson"), promises=({"mu": 1.0},)
    ),
    "credit": Case(
        lm(
            partial(shipped, "ccard"),
            "AVGEXP ~ AGE + INCOME + I(INCOME**2) + OWNRENT",
            {"AVGEXP": (0, 3000), "AGE": (18, 80), "INCOME": (0, 15), "OWNRENT": (0, 1)},
        ),
        3000,
        ({"mu": 0.5}, {"mu": 1.0}, {"eps": 4.0}),
    ),
    "crime": Case(
        lm(
            partial(shipped, "statecrime"),
            "murder ~ urban + poverty + hs_grad + single",
            {"murder": (0, 50), "urban": (0, 100), "poverty": (0, 40), "hs_grad": (50, 100), "single": (0, 60)},
        ),
        5000,
        ({"eps": 1.0}, {"eps": 4.0}, {"mu": 1.0}),
    ),
    "engel": Case(lm(partial(shipped, "engel"), "foodexp ~ income", {"foodexp": (0, 3000), "income": (0, 6000)}), 1000),
    "mostly_zeros": Case(
        glm(
            partial(dispersed, 0.8, 0.7, 60.0),
            "y ~ x + C(g)",
            {"x": (-4, 4), "g": ["a", "b"], "y": (0, 3000)},
            family="poisson",
        ),
        1000,
        ({"eps": 2.0}, {"eps": 4.0}, {"mu": 1.0}),
    ),
    "few_amounts": Case(
        glm(few_amounts, "y ~ x", {"x": (-1, 1), "y": (0.01, 50)}, family="gamma"), 100, ({"eps": 2.0},)
    ),
    "schools": Case(
        glm(partial(shipped, "star98"), "NABOVE ~ LOWINC + PERMINTE + AVYRSEXP", SCHOOLS, family="poisson"),
        5000,
        ({"mu": 1.0}, {"eps": 4.0}),
    ),
    "house_prices": Case(  # without `Problem.one_sided` the coverage is .82 at eps = 1, .75 at mu = .5
        lm(
            "king_county_house_sales.csv",
            "price ~ grade + I(sqft_living > 2000)",
            {"price": (0, 8_000_000), "grade": (1, 13), "sqft_living": (0, 15_000)},
        ),
        2000,
        ({"eps": 1.0}, {"mu": 0.5}),
    ),
    "taxi_fares": Case(lm("nyc_taxis_2019.csv", "fare ~ distance + passengers + C(pickup_borough)", TRIPS)),
    "taxi_tips": Case(lm("nyc_taxis_2019.csv", "tip ~ distance + passengers + C(pickup_borough)", TRIPS)),
    "taxi_payment": Case(
        glm("nyc_taxis_2019.csv", "I(fare > 13) ~ tip + C(payment) + C(pickup_borough)", TRIPS | PAYMENT)
    ),
    "taxi_payment_fares": Case(lm("nyc_taxis_2019.csv", BY_PAYMENT, TRIPS | PAYMENT)),
    "taxi_payment_counts": Case(glm("nyc_taxis_2019.csv", BY_PAYMENT, TRIPS | PAYMENT, family="poisson")),
    "crash_deaths_sum": Case(
        glm("crashes_1997_2002.csv", "I(dead == 'dead') ~ C(dvcat, Sum)", CRASHES),
        60_000,
        ({"mu": 0.5}, {"mu": 1.0}, {"eps": 4.0}),
    ),
    "flight_minutes": Case(
        glm(
            "nyc_flights_2013.csv",
            "air_time ~ distance",
            {"air_time": (0, 1000), "distance": (0, 6000)},
            family="poisson",
        ),
        promises=({"mu": 1.0}, {"eps": 4.0}),
    ),
    "taxi_distance_gamma": Case(
        glm(
            "nyc_taxis_2019.csv",
            "fare ~ np.log1p(distance) + C(payment)",
            {"fare": (1, 200), "distance": (0, 50)} | PAYMENT,
            family="gamma",
        ),
        15_000,
        ({"mu": 1.0}, {"mu": 2.0}, {"eps": 2.0}),
    ),
    "taxi_payment_medians": Case(rq("nyc_taxis_2019.csv", BY_PAYMENT, TRIPS | PAYMENT, 0.5)),
    "fair": Case(lm(partial(shipped, "fair"), f"affairs ~ {MARRIED_TERMS}", MARRIED)),
    "fair_logit": Case(glm(partial(shipped, "fair"), f"I(affairs > 0) ~ {MARRIED_TERMS}", MARRIED)),
    # the formulas of the next two cases were chosen for this benchmark
    "voters": Case(lm(partial(shipped, "anes96"), "income ~ age + I(age**2) + educ + PID", VOTERS)),
    "voters_logit": Case(glm(partial(shipped, "anes96"), "vote ~ selfLR + PID + age + educ + TVnews", VOTERS)),
}


def main() -> int:
    """Print tables; return 1 if a target is missed."""
    parser = arguments(__doc__, replicates=40)
    parser.add_argument("--names", nargs="*", default=list(CASES), choices=list(CASES))
    given = parser.parse_args()
    misses = 0
    for name in given.names:
        case = CASES[name]
        source = case.population.source
        if isinstance(source, str) and not (FOLDER / source).exists():
            print(f"{name} skipped: {FOLDER / source} is not there\n")
            continue
        for promise in case.promises:
            misses += shown(name, case.population, case.n, promise, given.replicates, given.seed)
    print(f"{misses} coefficients missed a target")
    return int(misses > 0)


if __name__ == "__main__":
    sys.exit(main())
