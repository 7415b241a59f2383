# %% [markdown]
# # Affairs: private logistic regression
#
# In 1974 the magazine Redbook asked its readers about their marriages, and Fair (1978) wondered who has affairs. Few
# answers are more private. This vignette fits the usual model, odds ratios and average marginal effects with intervals
# that include the privacy noise, and asks beforehand what a given precision costs. Run the vignette with
# `python vignettes/logistic.py`; the plot is written to the same folder. Noise is seeded so that the text repeats
# itself: seeded releases are not private.

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
from matplotlib.ticker import LogLocator, NullLocator

import privstats as ps

EVERY = 1  # one of `EVERY` successive answers is used; with EVERY = 1, all answers are used
EPS, SMALL_EPS, MUS = 4.0, 1.0, (0.5, 1.0)
WIDTH = 0.4  # requested width of the interval for rate_marriage

fair, domain = ps.datasets.load_fair()
fair = fair.iloc[::EVERY]
print(domain)

# %% [markdown]
# ## 1. The question
#
# The response is written in the formula: `I(affairs > 0)` is 0 or 1 in each row, and the package knows these bounds.
# The bounds of the predictors are public: they are the answers that the questionnaire allowed. No count, no mean and no
# frequency of the data is known beforehand.

# %%
MODEL = "I(affairs > 0) ~ religious + rate_marriage + age + yrs_married"
ordinary = smf.logit(MODEL.replace("I(affairs > 0)", "any_affair"), fair.assign(any_affair=1.0 * (fair["affairs"] > 0)))
ordinary = ordinary.fit(disp=False)
fit = ps.dp_glm(MODEL, fair, EPS, family="binomial", domain=domain, margins=True, rng=1)
print(fit.summary())

# %% [markdown]
# With another answer of one reader, the probability of any output changes by a factor of at most exp(4); this is the
# guarantee of pure differential privacy. The coefficients minimise a randomly tilted likelihood (objective
# perturbation: Kifer, Smith and Thakurta 2012; Awan and Slavkovic 2021). The curvature, which standard errors need, is
# released with separate noise. The column "noise" gives the share of each squared standard error that is due to all
# this noise.
#
# ## 2. Odds ratios
#
# A coefficient is the logarithm of an odds ratio: with `exp=True`, tables and intervals show odds ratios.

# %%
print(fit.tidy(exp=True).drop(columns="component").round(3).to_string(index=False))
print("without privacy:")
print(np.exp(ordinary.conf_int().assign(ratio=ordinary.params)).round(3).to_string())

# %% [markdown]
# ## 3. Average marginal effects
#
# How many more of a hundred women would have an affair if all of them had been married a year longer? The mean
# derivative of the probability answers this. It is a function of the rows and not only of the coefficients, so that it
# needs a release of its own (`margins=True`).

# %%
print(fit.get_margeff())
print("without privacy:")
print(ordinary.get_margeff().summary_frame().iloc[:, :2].to_string())

# %% [markdown]
# ## 4. The budget for a width
#
# Before any budget is spent, a plan forecasts the widths of intervals from synthetic rows. Here these rows are uniform
# within the domain, unlike real answers, so that the forecast is rough. The plan can also compute the smallest budget
# with which the interval of one coefficient has a requested width.

# %%
plan = ps.plan("glm", MODEL, len(fair), eps=EPS, domain=domain)
print(plan)
print(f"eps for a width of {WIDTH:g} of rate_marriage: {plan.eps_for(WIDTH, 'rate_marriage'):.3g}")

# %% [markdown]
# ## 5. Another guarantee
#
# Under Gaussian differential privacy (`mu=`) the algorithm uses noisy scores instead, and its intervals are nearly as
# short as without privacy. The two guarantees are not equivalent, so that the lengths below compare different budgets.

# %%
small = ps.dp_glm(MODEL, fair, SMALL_EPS, domain=domain, rng=2)
fits = {f"eps = {SMALL_EPS:g}": small, f"eps = {EPS:g}": fit}
fits |= {f"mu = {mu:g}": ps.dp_glm(MODEL, fair, mu=mu, domain=domain, rng=2) for mu in MUS}
theirs = ordinary.conf_int()[1] - ordinary.conf_int()[0]
longer = {name: (one.conf_int()[1] - one.conf_int()[0]) / theirs for name, one in fits.items()}
print("lengths of intervals, times those without privacy:")
print(pd.DataFrame(longer).round(2).to_string())
print(*small.summary().notes, sep="\n")

# %% [markdown]
# If a budget is too small for intervals they are NaN, and a note gives the reason. Women who are older have been
# married longer, so that noise first hides the direction that separates age from years of marriage.

# %%
terms = list(ordinary.params.index[1:])
figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
# the markers differ as well, so that fits can be distinguished in print without colour
looks = zip(("#0072B2", "#D55E00", "#009E73", "#CC79A7"), "osD^", strict=True)
for k, ((name, one), (color, mark)) in enumerate(zip(fits.items(), looks, strict=True)):
    table = one.tidy(exp=True).set_index("term").loc[terms]
    at = np.arange(len(terms)) + 0.15 * (k - 1)
    axes.errorbar(
        table["estimate"],
        at,
        xerr=[table["estimate"] - table["conf_low"], table["conf_high"] - table["estimate"]],
        fmt=mark,
        color=color,
        capsize=3,
        label=name,
    )
ratio = np.exp(ordinary.conf_int().assign(ratio=ordinary.params).loc[terms])
axes.errorbar(
    ratio["ratio"],
    np.arange(len(terms)) - 0.3,
    xerr=[ratio["ratio"] - ratio[0], ratio[1] - ratio["ratio"]],
    fmt="kx",
    capsize=3,
    label="without privacy",
)
axes.axvline(1.0, color="0.7", linestyle=":")
axes.set(
    xscale="log",
    yticks=range(len(terms)),
    yticklabels=terms,
    xlabel="odds ratio, 95 % interval",
    title=MODEL,
)
axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7)))
axes.xaxis.set_major_formatter("{x:g}")
axes.xaxis.set_minor_locator(NullLocator())
axes.legend(fontsize=8)
target = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent) / "logistic.png"
figure.savefig(target, dpi=120)
plt.close(figure)
print(f"drawn: {target.name}")
