# %% [markdown]
# # Food and wages: private quantile regression
#
# A mean says little of the poor and the rich. Quantile regression fits the line below which a share tau of the
# responses lies (Koenker and Bassett 1978). Its coefficients are chosen here by the K-norm gradient mechanism (Reimherr
# and Awan 2019), with intervals beside them. Run the vignette with `python vignettes/quantile_regression.py`; the
# plot is written to the same folder. Noise is seeded so that the text repeats itself: seeded releases are not private.

# %%
from __future__ import annotations

import sys
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from matplotlib.ticker import FixedLocator, NullLocator

import privstats as ps
from privstats.results.results import Results

TAUS = (0.1, 0.5, 0.9)
EPS = 6.0  # budget eps of the fit at each tau for Engel's households
EVERY = 1  # one of `EVERY` successive survey rows is used; with EVERY = 1, all rows are used


def beside(formula: str, data: pd.DataFrame, fits: dict[float, Results]) -> pd.DataFrame:
    """Return private and ordinary estimates, with one row for each coefficient and tau."""
    tables = {}
    for tau, fit in fits.items():
        theirs = smf.quantreg(formula, data).fit(q=tau)
        low, high = fit.conf_int()[0], fit.conf_int()[1]
        longer = (high - low) / (theirs.conf_int()[1] - theirs.conf_int()[0])
        columns = {"QuantReg": theirs.params, "private": fit.params, "low": low, "high": high, "times longer": longer}
        tables[tau] = pd.DataFrame(columns)
    return pd.concat(tables, names=["tau", ""])


# %% [markdown]
# ## 1. Engel's households
#
# Income and food expenditure of 235 Belgian households (Engel 1857) are the classical example of quantile regression.
# In logs the slope is an elasticity: below one, as Engel's law says. The bounds could have been stated by a Belgian of
# the time: nobody lives on less than 300 francs a year, and no household in the survey has more than 5,000.
#
# 235 rows are few. Coefficients need a small budget: the mechanism only has to place them where scores are small.
# Intervals need a large budget, since they depend on the density of the responses at the quantile, so that the query
# for the density gets most of the budget (`shares=`). A neighbour has one household more or less
# (`neighbors="add_remove"`), which costs half as much as a replaced household.

# %%
engel, _ = ps.datasets.load_engel()
ENGEL = "np.log(foodexp) ~ np.log(income)"
bounds = {"income": (300, 5000), "foodexp": (200, 2500)}
shares = {"coefficients": 0.3, "rows": 0.02, "hessian": 0.05, "residual scale": 0.05, "density": 0.58}
ledger = ps.Ledger(ps.PureDP(len(TAUS) * EPS, neighbors="add_remove"))
food = {
    tau: ps.dp_rq(
        ENGEL,
        engel,
        EPS,
        tau=tau,
        mech="kng",
        domain=bounds,
        neighbors="add_remove",
        shares=shares,
        ledger=ledger,
        rng=1,
    )
    for tau in TAUS
}
print(food[0.5].summary())
print(beside(ENGEL, engel, food).round(3).to_string())
print(ledger)

# %% [markdown]
# ## 2. Wages
#
# The data are the earnings of 54,875 Americans (Current Population Survey, March 2024; `ps.datasets.load_cps` says
# where the file is looked for). One ledger is charged for all fits: eps = 1 for the median and for tau = .9, and
# eps = 2 for tau = .1. At tau = .1 log wages vary more, their density is low, and an interval needs a larger budget.
# Wages are round numbers with only 3,071 different values. This does no harm: a little secret noise separates equal
# wages.

# %%
WAGES = "log_wage ~ educ_years + experience"
SPENT = {0.1: 2.0, 0.5: 1.0, 0.9: 1.0}
wages: dict[float, Results] = {}
try:
    cps, domain = ps.datasets.load_cps()
except FileNotFoundError:
    print("skipped: the wages of the Current Population Survey are not on this machine (PRIVSTATS_DATA)")
else:
    cps = cps.iloc[::EVERY]
    ledger = ps.Ledger(ps.PureDP(7.0))
    start = time.perf_counter()
    for tau, eps in SPENT.items():
        wages[tau] = ps.dp_rq(WAGES, cps, eps, tau=tau, domain=domain, ledger=ledger, rng=2)
    seconds, different = time.perf_counter() - start, cps["log_wage"].nunique()
    print(f"three fits of {len(cps):,} rows, {different:,} different wages: {seconds:.1f} s")
    table = beside(WAGES, cps, wages)
    print(table.round(4).to_string())

# %% [markdown]
# A year of schooling raises high wages a little more, in percent, than low wages; a year of experience raises them
# twice as much. (A private interval may be the shorter one: its density estimate uses another kernel, and has noise.)
# Wages do not rise with experience for ever, so that the model has a parabola. It is centred at a public 30 years, so
# that its columns are less correlated, and its intervals cost eps = 3. For so many rows `mech="auto"` takes steps. The
# mechanism `mech="kng"`, if requested for four coefficients, has no fast exact sampler, and its draw is the last state
# of a Markov chain; the distance from the stated law is measured, not proved, and the summary says so.

# %%
if wages:
    CURVED = "log_wage ~ educ_years + experience + I((experience - 30)**2)"
    curved = ps.dp_rq(CURVED, cps, 3.0, tau=0.5, mech="kng", domain=domain, ledger=ledger, rng=2)
    print(curved.summary())
    print(beside(CURVED, cps, {0.5: curved}).round(5).to_string())
    print(ledger)

# %% [markdown]
# ## 3. Another guarantee
#
# Under Gaussian differential privacy (`mu=`) the default is another algorithm: noisy steps along bounded scores, with
# one correction at the end. Its intervals are nearly as short as without privacy, and it needs no bounded set of
# coefficients. Here all three lines together cost mu = 0.5.

# %%
if wages:
    together = ps.dp_rq(WAGES, cps, mu=0.5, tau=list(TAUS), domain=domain, rng=2)
    ends = together.conf_int()
    print(pd.DataFrame({"private": together.params, "low": ends[0], "high": ends[1]}).round(4).to_string())
    theirs = [smf.quantreg(WAGES, cps).fit(q=tau).conf_int() for tau in TAUS]
    # array with a row for each term and a column for each tau, in the order of `together`
    lengths = np.column_stack([end[1] - end[0] for end in theirs])
    longer = (ends[1] - ends[0]).to_numpy() / lengths.ravel()
    print(f"times longer than without privacy: {longer.min():.2f} to {longer.max():.2f}")

# %% [markdown]
# ## 4. The picture
#
# On the left are the lines and the households, which only a vignette on data of 1857 may show. On the right are the
# coefficients of wages by tau: private estimates with 95 % intervals, and estimates of statsmodels.

# %%
terms = ["educ_years", "experience"] if wages else []
size = (5 + 3.2 * len(terms), 4.5)
figure, panels = plt.subplots(1, 1 + len(terms), figsize=size, layout="constrained", squeeze=False)
(lines, *coefficients) = panels[0]
lines.loglog(engel["income"], engel["foodexp"], ".", color="lightgrey", markersize=4)
grid = np.geomspace(engel["income"].min(), engel["income"].max(), 50)
for color, (tau, fit) in zip(("C0", "C1", "C2"), food.items(), strict=True):
    for params, style in ((fit.params, "-"), (smf.quantreg(ENGEL, engel).fit(q=tau).params, ":")):
        line = np.exp(params.iloc[0] + params.iloc[1] * np.log(grid))
        lines.loglog(grid, line, style, color=color, label=f"tau = {tau}" if style == "-" else None)
lines.plot([], [], "k:", label="QuantReg")
lines.set(xlabel="income", ylabel="food expenditure", title=f"Engel's households, eps = {EPS:g} a line")
for axis, ticks in ((lines.xaxis, (500, 1000, 2000, 4000)), (lines.yaxis, (300, 500, 1000, 2000, 3000))):
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter("{x:.0f}")
    axis.set_minor_locator(NullLocator())
lines.legend(fontsize=8)
for panel, term in zip(coefficients, terms, strict=True):
    rows = table.xs(term, level=1)
    halves = (rows["high"] - rows["low"]) / 2
    panel.errorbar(rows.index, rows["private"], yerr=halves, fmt="o", capsize=3, label="private, 95 %")
    panel.plot(rows.index, rows["QuantReg"], "kx", label="QuantReg")
    panel.set(xlabel="tau", xticks=TAUS, xlim=(0, 1), title=f"log wage: {term}")
    panel.legend(fontsize=8)
target = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent) / "quantile_regression.png"
figure.savefig(target, dpi=120)
plt.close(figure)
print(f"drawn: {target.name}")
