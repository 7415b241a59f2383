# %% [markdown]
# # House prices: a private regression from domain to plot
#
# Awan and Slavkovic (2021, section 6.3) regress the price of houses around San Francisco Bay on their size, place,
# age, number of bedrooms, time of sale and county. Their sales are not public, so this walkthrough uses made-up ones
# with the same columns (`ps.datasets.make_housing`). Run it with `python vignettes/housing.py`; the plot is written
# beside it. Noise is seeded here so that the text repeats itself, and the summaries say so.

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

sales, domain = ps.datasets.make_housing(235_760, seed=63)
FORMULA = "log_price ~ log_lot + log_base + latitude + longitude + sale_time + age + bedrooms + C(county)"

# %% [markdown]
# ## 1. Declare what is public
#
# Bounds and levels come from what everybody knows of the market, not from the file: a minimum or maximum is
# the value of one sale. Values outside are moved to the bound.

# %%
print(domain)

# %% [markdown]
# ## 2. Plan before you spend
#
# What would be asked, what it costs, and what to expect of it; no row has been read. Real columns do not fill their
# bounds evenly, so rows that resemble them, here another draw of made-up sales, predict better than uniform ones.

# %%
planned = ps.plan("lm", FORMULA, len(sales), eps=1.0, domain=domain)
print(planned)
pilot, _ = ps.datasets.make_housing(5_000, seed=64)
print(planned.expected(like=pilot).round(4))
print(f"eps for a width of 0.05 in sale_time: {planned.eps_for(0.05, term='sale_time', like=pilot):.2f}")

# %% [markdown]
# ## 3. Fit, and read the table
#
# The last column is the share of each squared standard error that is due to privacy noise. Where it is near 100 %, more
# rows or more budget help; where it is small, privacy costs next to nothing.

# %%
ledger = ps.Ledger(ps.PureDP(7.0))
fit = ps.dp_lm(FORMULA, sales, eps=1.0, domain=domain, ledger=ledger, rng=1)
print(fit.summary())

# %% [markdown]
# ## 4. Beside the regression it hides
#
# Only because these sales are made up may we look at the non-private fit. The private intervals should cover the
# non-private estimates about as often as they claim, and be longer.

# %%
counties = pd.Categorical(sales["county"], categories=domain["county"].values)  # the same reference level
ols = smf.ols(FORMULA, sales.assign(county=counties)).fit()
beside = ols.params.rename("OLS").to_frame().join(fit.tidy().set_index("term")[["estimate", "conf_low", "conf_high"]])
ratio = (fit.conf_int()[1] - fit.conf_int()[0]) / (ols.conf_int()[1] - ols.conf_int()[0])
beside["times longer"] = ratio
print(beside.round(3).to_string())

# %% [markdown]
# ## 5. Three budgets
#
# The ledger adds up what is spent on these sales, and would refuse what is not left.

# %%
fits = {1.0: fit}
for eps in (2.0, 4.0):
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
scale = ols.bse[terms] * 10
shown = {
    "OLS": (ols.params[terms], ols.conf_int().loc[terms]),
    **{f"eps = {eps:g}": (one.params[terms], one.conf_int().loc[terms]) for eps, one in fits.items()},
}
for offset, (label, (estimate, interval)) in zip(offsets, shown.items(), strict=True):
    center = (estimate - ols.params[terms]) / scale
    half = (interval[1] - interval[0]) / 2 / scale
    axes.errorbar(center, np.arange(len(terms)) + offset, xerr=half, fmt="o", markersize=3, label=label)
axes.set_yticks(np.arange(len(terms)), terms)
axes.invert_yaxis()
axes.axvline(0, color="grey", linewidth=0.5)
axes.set_xlabel("distance from the OLS estimate, in ten OLS standard errors")
axes.set_title("Private 95 % intervals around the fit they hide")
figure.legend(loc="outside lower center", ncols=4)
target = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent) / "housing.png"
figure.savefig(target, dpi=120)
plt.close(figure)
print(f"drawn: {target.name}")

# %% [markdown]
# ## 7. Other mechanisms
#
# All of these promise the same; what they buy with it differs. Clipped Newton steps, which `mech="auto"` took above,
# pay for the width of the data and not of the declared bounds. Noisy moments pay for the bounds: with matrix-t noise a
# matrix of moments costs its nuclear norm, with other noises more. The last two choose coefficients directly, and have
# to buy the curvature besides. Each fit below is on a ledger of its own: on real sales their prices would add up.

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
    one = ps.dp_lm(FORMULA, sales, eps=2.0, domain=domain, rng=2, **method)
    ratio = (one.conf_int()[1] - one.conf_int()[0]) / (ols.conf_int()[1] - ols.conf_int()[0])
    away = ((one.params - ols.params) / ols.bse).abs()
    rows[label] = {
        "noise_to_signal": one.diagnostics["noise_to_signal"],
        "times longer": ratio.median(),
        "OLS std errs away": away.median(),
    }
print("eps = 2, medians over coefficients")
print(pd.DataFrame(rows).T.round(2).to_string())
