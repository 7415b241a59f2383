# %% [markdown]
# # House prices: a private regression from domain to plot
#
# Awan and Slavkovic (2021, section 6.3) regress the price of houses around San Francisco Bay on their size, place, age,
# number of bedrooms, time of sale and county. Their sales are not public. This walkthrough does the same with 21,613
# sales in King County, the county of Seattle, if their file is found (`ps.datasets.load_housing` says where it is
# looked for); otherwise with synthetic sales around the Bay (`ps.datasets.make_housing`). Run the vignette with
# `python vignettes/housing.py`: the first printed line names the data, and the plot is written to the same folder.
# Noise is seeded here so that the text repeats itself, and the summaries say so.

# %%
from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import statsmodels.formula.api as smf

import privstats as ps
from privstats.datasets import Dataset

KING_COUNTY = (
    "np.log(price) ~ np.log(sqft_lot) + np.log(sqft_living) + lat + long + yr_built + bedrooms + grade + C(area)"
)
BAY = "log_price ~ log_lot + log_base + latitude + longitude + sale_time + age + bedrooms + C(county)"
EVERY = 1  # one of `EVERY` successive sales is used; with EVERY = 1, all sales are used
RESEMBLING, MADE_UP = 5_000, 235_760  # numbers of synthetic sales: for the plan, and in place of real sales
EPS_OF_METHODS = 2.0
AREAS = ("South", "Seattle", "East")  # areas by zip code: 981.. is Seattle, 980.. is the rest of King County
# last two digits of the zip codes (980..) in the east or north, which are called East
EAST = (4, 5, 6, 7, 8, 11, 14, 19, 24, 27, 28, 29, 33, 34, 39, 40, 45, 52, 53, 65, 72, 74, 75, 77)


def in_king_county() -> tuple[str, str, Dataset, pd.DataFrame]:
    """Return a description of the data, the formula, the data, and synthetic rows that resemble such sales."""
    read, known = ps.datasets.load_housing()
    read = read.iloc[::EVERY].copy()
    place = read["zipcode"] - 98_000
    read["area"] = np.select([place >= 100, place.isin(EAST)], AREAS[1:], AREAS[0])
    columns = ["price", "sqft_lot", "sqft_living", "lat", "long", "yr_built", "bedrooms", "grade"]
    public = ps.Domain({**{name: known[name] for name in columns}, "area": ps.Levels(AREAS)}, complete=True)
    bay, _ = ps.datasets.make_housing(RESEMBLING, seed=64)  # sales to be moved to King County, a smaller area
    resembling = pd.DataFrame(
        {
            "price": np.exp(bay["log_price"]),
            "sqft_lot": np.exp(bay["log_lot"]),
            "sqft_living": np.exp(bay["log_base"]),
            "lat": 47.5 + (bay["latitude"] - 37.8) / 4,
            "long": -122.2 + (bay["longitude"] + 122.1) / 4,
            "yr_built": 2015 - bay["age"],
            "bedrooms": bay["bedrooms"],
            "grade": (6 + 2 * (bay["log_base"] - 7.35) + bay["sale_time"]).round(),
            "area": np.select([bay["longitude"] < -122.1, bay["latitude"] > 37.7], AREAS[1:], AREAS[0]),
        }
    )
    return f"{len(read):,} real sales in King County, 2014-15", KING_COUNTY, Dataset(read, public), resembling


def around_the_bay() -> tuple[str, str, Dataset, pd.DataFrame]:
    """Return a description, the formula, synthetic sales around the Bay, and further synthetic sales."""
    made = ps.datasets.make_housing(MADE_UP // EVERY, seed=63)
    what = f"{len(made.data):,} MADE-UP sales, a synthetic stand-in: nothing here is about real houses"
    return what, BAY, made, ps.datasets.make_housing(RESEMBLING, seed=64).data


try:
    SOURCE, FORMULA, (sales, domain), pilot = in_king_county()
except FileNotFoundError:
    SOURCE, FORMULA, (sales, domain), pilot = around_the_bay()
print(f"data: {SOURCE}")

# %% [markdown]
# ## 1. Declare what is public
#
# Bounds and levels are public knowledge of the market. They do not come from the file, since a minimum or maximum is
# the value of one sale. Values outside the bounds are moved to the nearest bound. Zip codes say where in the county a
# house stands; the county assessor grades houses from 1 to 13.

# %%
print(domain)

# %% [markdown]
# ## 2. Plan before you spend
#
# The plan lists the queries and their costs, and the expected widths of intervals; no row has been read. Real values
# are not uniform within their bounds. So synthetic sales that resemble the real sales give better forecasts than
# synthetic rows with uniform values.

# %%
planned = ps.plan("lm", FORMULA, len(sales), eps=1.0, domain=domain)
print(planned)
BUDGETS = (1.0, 2.0, 4.0)
plans = {f"eps = {eps:g}": ps.plan("lm", FORMULA, len(sales), eps=eps, domain=domain) for eps in BUDGETS}
print("widths of 95 % intervals to expect")
print(pd.DataFrame({label: one.expected(like=pilot)["width"] for label, one in plans.items()}).round(4).to_string())

# %% [markdown]
# ## 3. Fit, and read the table
#
# The last column is the share of each squared standard error that is due to privacy noise. If this share is near 100 %,
# more rows or a larger budget help; if it is small, privacy costs next to nothing.

# %%
ledger = ps.Ledger(ps.PureDP(sum(BUDGETS)))
fit = ps.dp_lm(FORMULA, sales, eps=1.0, domain=domain, ledger=ledger, rng=1)
print(fit.summary())

# %% [markdown]
# ## 4. Comparison with the regression without privacy
#
# We may look at the non-private fit only because these sales are public records, or synthetic. The private intervals
# should cover the non-private estimates about as often as their level says, and be longer.

# %%
levels = {name: known.values for name, known in domain.items() if isinstance(known, ps.Levels)}
coded = {name: pd.Categorical(sales[name], categories=values) for name, values in levels.items()}
ols = smf.ols(FORMULA, sales.assign(**coded)).fit()  # with the same reference level as the private fit
beside = ols.params.rename("OLS").to_frame().join(fit.tidy().set_index("term")[["estimate", "conf_low", "conf_high"]])
ratio = (fit.conf_int()[1] - fit.conf_int()[0]) / (ols.conf_int()[1] - ols.conf_int()[0])
beside["times longer"] = ratio
print(beside.round(3).to_string())

# %% [markdown]
# ## 5. Three budgets
#
# The ledger adds up the budgets spent on these sales, and would refuse a call that exceeds the remaining budget.

# %%
fits = {BUDGETS[0]: fit}
for eps in BUDGETS[1:]:
    fits[eps] = ps.dp_lm(FORMULA, sales, eps=eps, domain=domain, ledger=ledger, rng=1)
print(ledger)
for eps, one in fits.items():
    ratio, share = one.diagnostics["noise_to_signal"], one.noise_share.median()
    print(f"eps = {eps:g}: noise_to_signal {ratio:.2f}, median noise share {share:.0%}")

# %% [markdown]
# ## 6. The picture

# %%
terms = [name for name in ols.params.index if name != "Intercept"]
figure, axes = plt.subplots(figsize=(8, 6), layout="constrained")
offsets = np.linspace(-0.3, 0.3, len(fits) + 1)
scale = (ols.conf_int()[1] - ols.conf_int()[0])[terms] / 2
shown = {
    "OLS": (ols.params[terms], ols.conf_int().loc[terms]),
    **{f"eps = {eps:g}": (one.params[terms], one.conf_int().loc[terms]) for eps, one in fits.items()},
}
# the markers differ as well, so that fits can be distinguished in print without colour
looks = {"color": ("k", "#0072B2", "#D55E00", "#009E73"), "fmt": "xosD"}
for k, (offset, (label, (estimate, interval))) in enumerate(zip(offsets, shown.items(), strict=True)):
    look = {name: values[k] for name, values in looks.items()}
    center = (estimate - ols.params[terms]) / scale
    half = (interval[1] - interval[0]) / 2 / scale
    axes.errorbar(center, np.arange(len(terms)) + offset, xerr=half, markersize=4, label=label, **look)
axes.set_yticks(np.arange(len(terms)), terms)
axes.invert_yaxis()
axes.axvline(0, color="grey", linewidth=0.5)
axes.set_xlabel("distance from the OLS estimate: the 95 % interval of OLS reaches from -1 to 1")
axes.set_title(f"Private 95 % intervals around the fit they hide\n{SOURCE}", fontsize=11)
figure.legend(loc="outside lower center", ncols=4)
target = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent) / "housing.png"
figure.savefig(target, dpi=120)
plt.close(figure)
print(f"drawn: {target.name}")

# %% [markdown]
# ## 7. Other mechanisms
#
# The mechanisms below give the same guarantee, but their results differ. The noise of clipped Newton steps, which
# `mech="auto"` chose above, depends on the width of the data and not on the declared bounds. The noise of noisy moments
# depends on the bounds; it is smallest for matrix-t noise, which uses the nuclear norm. The last two mechanisms choose
# coefficients directly, and also need a release of the curvature. If no interval can be given, its length is NaN. Each
# fit below has a ledger of its own: if the sales were secret, the costs of the fits would add up.

# %%
METHODS = {
    "clipped Newton steps (auto)": {},
    "moments, matrix-t": {"mech": "suffstats"},
    "moments, linf": {"mech": "suffstats", "noise": "linf"},
    "moments, l1": {"mech": "suffstats", "noise": "l1"},
    "moments, hull of cylinders": {"mech": "suffstats", "noise": "hull"},
    "K-norm gradient": {"mech": "kng"},
    "objective perturbation": {"mech": "objpert", "theta_bound": 1.5},
}
rows = {}
for label, method in METHODS.items():
    one = ps.dp_lm(FORMULA, sales, eps=EPS_OF_METHODS, domain=domain, rng=2, **method)
    ratio = (one.conf_int()[1] - one.conf_int()[0]) / (ols.conf_int()[1] - ols.conf_int()[0])
    away = ((one.params - ols.params) / ols.bse).abs()
    rows[label] = {
        "noise_to_signal": one.diagnostics["noise_to_signal"],
        "times longer": ratio.median(),
        "OLS std errs away": away.median(),
    }
print(f"eps = {EPS_OF_METHODS:g}, medians over coefficients")
print(pd.DataFrame(rows).T.round(2).to_string())
