"""Coverage and length of intervals on real populations, and on hard synthetic populations.

Each population is a file (in the folder PRIVSTATS_DATA, by default ../shared/data), a call of a function, and a domain
as a careful analyst would write it from a codebook: round bounds that are wider than the data. Samples are drawn with
replacement; the truth is the fit to the whole population, and private intervals are compared with each sample's robust
interval without privacy.

    python -m benchmarks.populations --seed 1 --names wages delays --mu 1 --eps 4 --replicates 40

A coefficient misses its target if given intervals cover less often than .93 (or .02 less often than intervals without
privacy, if this limit is lower), by more than 2.6 binomial standard errors. With 10,000 rows and mu >= 1 or eps >= 4 it
also misses its target if it has at least 60 / mu (600 / eps, or 60 / eps with a delta) effective score rows and no
interval in more than a tenth of the fits, or if its median length is more than 2 times the median length without
privacy. The number of effective score rows, n (mean q^2)^2 / mean q^4 for the influence values q of the coefficient, is
small if few rows determine the coefficient. With fewer than 15 effective score rows the target is that at most 5 % of
the fits are far off: the midpoint of the interval is more than ten standard errors (without privacy) from the truth,
and the interval does not cover the truth. The script exits with 1 if a target is missed.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf

import privstats as ps
from benchmarks.common import arguments

FOLDER = Path(os.environ.get("PRIVSTATS_DATA", "../shared/data"))
WHOLE = 200_000  # number of rows of a synthetic population
# number of effective score rows below which no interval from a sample is reliable, with or without privacy
FEW = 15.0
FAR = 10.0  # an interval is far off if its midpoint is more than FAR standard errors from the truth
MEDIAN_ERROR = 1.25  # standard error of a median divided by the standard error of a mean, for normal values

YES = ["no", "yes"]
WAGES = {
    "wage": (20, 25000), "education": (0, 20), "experience": (-5, 75), "ethnicity": ["cauc", "afam"], "smsa": YES,
    "parttime": YES, "region": ["south", "midwest", "northeast", "west"],
}  # fmt: skip
WAGE_TERMS = "education + experience + I(experience**2) + C(ethnicity) + C(smsa) + C(parttime)"
VIETNAM = {
    "pharvis": (0, 60), "lnhhexp": (0, 10), "age": (0, 5), "sex": ["male", "female"], "married": [0, 1],
    "educ": (0, 20), "illness": (0, 15), "injury": [0, 1], "insurance": [0, 1],
}  # fmt: skip
VIETNAM_TERMS = "lnhhexp + age + C(sex) + C(married) + educ + illness + C(injury) + C(insurance)"
GSS = {
    "vocab": (0, 10), "age": (18, 100), "educ": (0, 25), "gender": ["male", "female"], "nativeBorn": YES,
    "year": (1972, 2024),
}  # fmt: skip
FLIGHTS = {
    "arr_delay": (-120, 2000), "dep_delay": (-60, 2000), "distance": (0, 6000), "air_time": (0, 1000), "hour": (0, 24),
    "origin": ["EWR", "JFK", "LGA"],
}  # fmt: skip
LOANS = {
    "interest_rate": (0, 40), "loan_amount": (0, 50000), "annual_income": (0, 5e6), "debt_to_income": (0, 1000),
    "inquiries_last_12m": (0, 50), "term": [36, 60], "homeownership": ["MORTGAGE", "RENT", "OWN"],
    "total_credit_limit": (0, 1e7), "total_credit_utilized": (0, 2e6),
}  # fmt: skip
CRASHES = {
    "dead": ["alive", "dead"], "dvcat": ["10-24", "1-9km/h", "25-39", "40-54", "55+"], "airbag": ["none", "airbag"],
    "seatbelt": ["none", "belted"], "frontal": (0, 1), "sex": ["f", "m"], "ageOFocc": (0, 110),
}  # fmt: skip
DOCTOR = {
    "docvis": (0, 200), "age": (18, 70), "educ": (5, 25), "female": [0, 1], "outwork": [0, 1], "hhninc": (0, 50),
    "kids": [0, 1],
}  # fmt: skip
HOUSES = {
    "price": (50_000, 10_000_000), "bedrooms": (0, 12), "bathrooms": (0, 8), "sqft_living": (300, 15_000),
    "sqft_lot": (400, 2_000_000), "floors": (1, 4), "view": (0, 4), "condition": (1, 5), "grade": (1, 13),
}  # fmt: skip
CPS = {"log_wage": (7, 14), "educ_years": (0, 22), "experience": (0, 60), "female": [0, 1]}


@dataclass(frozen=True)
class Population:
    """A regression and its rows.

    Parameters
    ----------
    source : str or callable
        File in the data folder, or a function of a random generator and a number of rows that returns rows.
    verb : str
        Name of the function, such as "dp_lm".
    formula : str
        Formula of the regression.
    domain : mapping
        Declared bounds and levels of the columns.
    options : mapping
        Further arguments of the function.
    """

    source: str | Callable[[np.random.Generator, int], pd.DataFrame]
    verb: str
    formula: str
    domain: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)

    def rows(self) -> pd.DataFrame:
        """Return the rows of the population without missing values, clamped to the declared bounds."""
        if isinstance(self.source, str):
            data = pd.read_csv(FOLDER / self.source)
            data = data[[c for c in data if c in self.domain]].dropna().reset_index(drop=True)
        else:
            data = self.source(np.random.default_rng(0), WHOLE)
        for column, known in self.domain.items():
            if isinstance(known, tuple) and column in data:
                data[column] = data[column].clip(*known)
        return data


def skewed(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return rows of a skewed predictor, and a response whose mean is concave in the predictor."""
    x = np.clip(rng.lognormal(1.3, 0.45, n), 0, 15)
    return pd.DataFrame({"x": x, "y": 11 + np.log1p(x) + rng.normal(0, 0.4, n)})


def heavy(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return rows of a linear model whose predictor has a long tail in wide bounds."""
    x = np.clip(rng.lognormal(0, 1, n), 0, 100)
    return pd.DataFrame({"x": x, "y": 1 + 0.2 * x + rng.normal(size=n)})


def twelve_levels(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return rows of a factor with twelve levels, whose probabilities are proportional to 2^-k."""
    p = 2.0 ** -np.arange(1, 13)
    g = rng.choice(12, n, p=p / p.sum())
    return pd.DataFrame({"g": [f"l{k}" for k in g], "y": 0.1 * g + rng.normal(size=n)})


def sparse_spline(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return rows of a predictor with few values at one end of its range, and a response with a curved mean."""
    x = 10 * rng.beta(2, 5, n)
    return pd.DataFrame({"x": x, "y": np.sin(x) + 0.5 * rng.normal(size=n)})


def student(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return rows whose errors have Student's t distribution with three degrees of freedom."""
    X = rng.uniform(-1, 1, (n, 3))
    y = X @ [0.6, -0.3, 0.0] + 0.3 * rng.standard_t(3, n)
    return pd.DataFrame(X, columns=["x1", "x2", "x3"]).assign(y=y)


def assets(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return net assets, whose scale rises with income and age: a quarter of the people have almost no assets."""
    income = np.exp(rng.normal(3.4, 0.7, n)).clip(3, 240)
    age, size = rng.uniform(25, 65, n).round(), rng.integers(1, 8, n)
    saved = 0.02 * (income / 10) ** 1.6 * np.exp(rng.normal(1.5, 1.3, n)) * (age / 30)
    net = np.where(rng.random(n) < 0.25, rng.normal(-2, 3, n), saved).clip(-500, 1500)
    return pd.DataFrame({"net": net, "income": income, "age": age, "size": size})


def lm(source: Any, formula: str, domain: Mapping[str, Any]) -> Population:
    """Return a population for least squares."""
    return Population(source, "dp_lm", formula, domain)


LM = {
    "wages": lm("cps_1988_wages.csv", f"np.log(wage) ~ {WAGE_TERMS}", WAGES),
    "wage_levels": lm("cps_1988_wages.csv", "wage ~ education + experience + I(experience**2) + C(region)", WAGES),
    "pharmacy": lm("vietnam_pharmacy_visits.csv", f"pharvis ~ {VIETNAM_TERMS}", VIETNAM),
    "vocabulary": lm("gss_vocabulary.csv", "vocab ~ age + I(age**2) + educ + C(gender) + C(nativeBorn)", GSS),
    "flights": lm("nyc_flights_2013.csv", "arr_delay ~ dep_delay + distance + air_time + hour", FLIGHTS),
    "delays": lm("nyc_flights_2013.csv", "dep_delay ~ distance + hour + C(origin)", FLIGHTS),
    "loan_rate": lm(
        "loans_2018.csv", "interest_rate ~ debt_to_income + inquiries_last_12m + C(term) + C(homeownership)", LOANS
    ),
    "loan_amount": lm(
        "loans_2018.csv", "loan_amount ~ annual_income + total_credit_limit + total_credit_utilized", LOANS
    ),
    "crash_deaths": lm(
        "crashes_1997_2002.csv",
        "I(dead == 'dead') ~ C(seatbelt) + C(airbag) + C(sex) + ageOFocc + frontal + C(dvcat)",
        CRASHES,
    ),
    "king_county": lm(
        "king_county_house_sales.csv",
        "np.log(price) ~ np.log(sqft_living) + np.log(sqft_lot) + bedrooms + bathrooms + floors + view + condition "
        "+ grade",
        HOUSES,
    ),
    "cps": lm("cps_asec_2024_wages.csv", "log_wage ~ educ_years + experience + I(experience**2) + C(female)", CPS),
    "skewed": lm(skewed, "y ~ x", {"x": (0, 15), "y": (8, 16)}),
    "heavy": lm(heavy, "y ~ x", {"x": (0, 100), "y": (-10, 30)}),
    "twelve_levels": lm(twelve_levels, "y ~ C(g)", {"g": [f"l{k}" for k in range(12)], "y": (-6, 8)}),
    "sparse_spline": lm(sparse_spline, "y ~ bs(x, knots=[2, 4, 6])", {"x": (0, 10), "y": (-4, 4)}),
    "student": lm(student, "y ~ x1 + x2 + x3", {f"x{k}": (-1, 1) for k in (1, 2, 3)} | {"y": (-8, 8)}),
}
OTHERS = {
    "crash_logit": Population(
        "crashes_1997_2002.csv",
        "dp_glm",
        "I(dead == 'dead') ~ C(seatbelt) + C(airbag) + C(sex) + ageOFocc + C(dvcat)",
        CRASHES,
    ),
    "vocabulary_logit": Population(
        "gss_vocabulary.csv", "dp_glm", "I(vocab > 7) ~ age + educ + C(gender) + C(nativeBorn) + year", GSS
    ),
    "doctor_visits": Population(
        "german_doctor_visits.csv",
        "dp_glm",
        "docvis ~ age + educ + C(female) + C(outwork) + hhninc + C(kids)",
        DOCTOR,
        {"family": "poisson"},
    ),
    "pharmacy_counts": Population(
        "vietnam_pharmacy_visits.csv", "dp_glm", f"pharvis ~ {VIETNAM_TERMS}", VIETNAM, {"family": "poisson"}
    ),
    "wages_gamma": Population("cps_1988_wages.csv", "dp_glm", f"wage ~ {WAGE_TERMS}", WAGES, {"family": "gamma"}),
    **{
        f"wages_rq{int(100 * q)}": Population(
            "cps_1988_wages.csv", "dp_rq", f"np.log(wage) ~ {WAGE_TERMS}", WAGES, {"tau": q}
        )
        for q in (0.1, 0.5, 0.9)
    },
    **{
        f"flights_rq{int(100 * q)}": Population(
            "nyc_flights_2013.csv", "dp_rq", "arr_delay ~ dep_delay + distance + hour", FLIGHTS, {"tau": q}
        )
        for q in (0.1, 0.5, 0.9)
    },
    "assets_rq90": Population(
        assets,
        "dp_rq",
        "net ~ income + age + size",
        {"net": (-500, 1500), "income": (0, 250), "age": (20, 70), "size": (1, 12)},
        {"tau": 0.9},
    ),
}
POPULATIONS = LM | OTHERS


def reference(population: Population, data: pd.DataFrame) -> Any:
    """Return the fit without privacy, with robust standard errors."""
    formula = population.formula
    for column, known in population.domain.items():  # the first declared level is the reference level in both fits
        if isinstance(known, list):
            formula = formula.replace(f"C({column})", f"C({column}, levels={known!r})")
    left, right = formula.split("~")
    if population.verb == "dp_rq":
        return smf.quantreg(formula, data).fit(q=population.options["tau"], vcov="robust")
    numeric = f"I(({left.strip()}) * 1.0) ~{right}"
    if population.options.get("loss") == "huber":
        return smf.rlm(numeric, data).fit(cov="H3")
    if population.verb == "dp_lm":
        return smf.ols(numeric, data).fit(cov_type="HC1")
    families = {
        "binomial": sm.families.Binomial(),
        "poisson": sm.families.Poisson(),
        "gamma": sm.families.Gamma(sm.families.links.Log()),
    }
    return smf.glm(numeric, data, family=families[population.options.get("family", "binomial")]).fit(cov_type="HC1")


def plain(values: Any) -> pd.Series:
    """Return the numbers of a statsmodels fit under the names of this package's coefficients."""
    names = [re.sub(r", levels=\[[^\]]*\]", "", name) for name in values.index]
    return pd.Series(np.asarray(values), names)


def effective_rows(population: Population, whole: Any, n: int) -> pd.Series | None:
    """Return the number of effective score rows of each coefficient; None for quantile regression.

    This is n (mean q^2)^2 / mean q^4, where q are the influence values of the coefficient.
    """
    if population.verb == "dp_rq":
        return None
    X = np.asarray(whole.model.exog)
    if population.verb == "dp_glm":
        mean, log = np.asarray(whole.mu), population.options.get("family") == "gamma"
        scores, weights = np.asarray(whole.resid_response) / (mean if log else 1.0), whole.model.family.variance(mean)
        q = (X * scores[:, None]) @ np.linalg.inv((X * (1.0 if log else weights[:, None])).T @ X)
    else:
        q = (X * np.asarray(whole.resid)[:, None]) @ np.linalg.inv(X.T @ X)
    return pd.Series(n * (q**2).mean(axis=0) ** 2 / (q**4).mean(axis=0), plain(whole.params).index)


def measured(population: Population, n: int, promise: Mapping[str, float], replicates: int, seed: int) -> pd.DataFrame:
    """Return coverage, length and other results by coefficient, as means over samples.

    The columns are coverage, coverage without privacy, relative length (a median) and its relative error, the share of
    samples in which the coefficient has an interval, the share of samples in which the interval is far off (see `FAR`),
    and the number of effective score rows.
    """
    rows = population.rows()
    whole = reference(population, rows)
    truth = plain(whole.params)
    tables = []
    for r in range(replicates):
        draws = np.random.default_rng([seed, r]).integers(0, len(rows), n)
        sample = rows.iloc[draws].reset_index(drop=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            public = reference(population, sample)
            verb = getattr(ps, population.verb)
            fit = verb(
                population.formula,
                sample,
                domain=dict(population.domain),
                rng=1000 * seed + r,
                **population.options,
                **promise,
            )
        se, estimate = plain(public.bse).reindex(truth.index), plain(public.params).reindex(truth.index)
        interval = fit.conf_int().set_axis([0, 1], axis=1)
        interval.index = [key[0] if isinstance(key, tuple) else key for key in interval.index]
        interval.index = [key.replace("[T.True]", "") for key in interval.index]
        low, high = (interval[k].reindex(truth.index) for k in (0, 1))
        given = low.notna()
        covered = (low <= truth) & (truth <= high)
        far = given & (((low + high) / 2 - truth).abs() > FAR * se) & ~covered
        tables.append(
            pd.DataFrame(
                {
                    "covered": covered.astype(float).where(given),
                    "public": ((estimate - truth).abs() <= 1.96 * se).astype(float),
                    "length": (high - low) / (3.92 * se),
                    "given": given.astype(float),
                    "far": far.astype(float),
                }
            )
        )
    stacked = pd.concat(tables, keys=range(replicates))
    table = stacked.groupby(level=1, sort=False).mean()
    lengths = stacked["length"].groupby(level=1, sort=False)
    table["length"], table["error"] = lengths.median(), MEDIAN_ERROR * np.log(stacked["length"]).groupby(level=1).std()
    table["error"] /= np.sqrt(replicates)
    effective = effective_rows(population, whole, n)
    table["effective"] = np.nan if effective is None else effective
    return table


def shown(name: str, population: Population, n: int, promise: Mapping[str, float], replicates: int, seed: int) -> int:
    """Print the table of a population; return the number of coefficients that miss a target."""
    table = measured(population, n, promise, replicates, seed)
    table["missed"] = missed(table, promise, n, replicates)
    price = ", ".join(f"{kind} = {size:g}" for kind, size in promise.items())
    print(f"{name}, n = {n}, {price}, {replicates} replicates")
    print(table.drop(columns="error").round(2).to_string(), "\n", flush=True)
    return int((table["missed"] != "").sum())


def missed(table: pd.DataFrame, promise: Mapping[str, float], n: int, replicates: int) -> pd.Series:
    """Return the missed targets of each coefficient in words; empty if the coefficient misses no target."""
    ample = n >= 10_000 and (promise.get("mu", 0.0) >= 1 or promise.get("eps", 0.0) >= 4)
    needed = 60 / promise["mu"] if "mu" in promise else (60 if "delta" in promise else 600) / promise["eps"]
    said = pd.Series("", table.index)
    fits = np.maximum(table["given"] * replicates, 1)
    wanted = np.minimum(0.93, table["public"] - 0.02)
    short = table["covered"] < wanted - 2.6 * np.sqrt(wanted * (1 - wanted) / fits)
    ordinary = ~(table["effective"] < FEW)
    said[short & ordinary] += " coverage"
    said[~ordinary & (table["far"] > 0.05)] += " far off"
    if ample:
        said[ordinary & (table["length"] > 2)] += " length"
        said[(table["effective"] >= needed) & (table["given"] < 0.9)] += " not given"
    return said.str.strip()


def main() -> int:
    """Print tables; return 1 if a target is missed."""
    parser = arguments(__doc__, replicates=40)
    parser.add_argument("--names", nargs="*", default=list(LM), choices=list(POPULATIONS))
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--mu", type=float, nargs="*", default=[])
    parser.add_argument("--eps", type=float, nargs="*", default=[])
    given = parser.parse_args()
    promises = [{"mu": mu} for mu in given.mu] + [{"eps": eps} for eps in given.eps]
    misses = 0
    for name in given.names:
        source = POPULATIONS[name].source
        if isinstance(source, str) and not (FOLDER / source).exists():
            print(f"{name} skipped: {FOLDER / source} is not there\n")
            continue
        for promise in promises or [{"mu": 1.0}, {"eps": 4.0}]:
            misses += shown(name, POPULATIONS[name], given.n, promise, given.replicates, given.seed)
    print(f"{misses} coefficients missed a target")
    return int(misses > 0)


if __name__ == "__main__":
    sys.exit(main())
