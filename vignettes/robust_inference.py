# %% [markdown]
# # Wages with outliers: private robust regression
#
# Some wages are misreported: a month's wage for a year's, or with a zero too many. Such rows can change least squares
# by any amount, and a private fit that clips them has to guess a limit. Robust regression bounds the effect of each row
# (Huber 1964; Mallows' weights bound the effect of its predictors), and privacy requires such a bound. So the robust
# estimator needs no bounds on wages: a public guess of their centre and scale is enough. Run the vignette with
# `python vignettes/robust_inference.py`; the plot is saved in the same folder. Noise is seeded so that the text is
# reproducible: seeded releases are not private.

# %%
from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf

import privstats as ps
from privstats.results.results import Results

MODEL = "log_wage ~ educ_years + experience"
DOMAIN = {"log_wage": ps.Scale(10.5, 1), "educ_years": (0, 22), "experience": (0, 60)}
BOUNDED = {**DOMAIN, "log_wage": (0, 20)}
MU = 0.5
ROWS, SLOPE = 20_000, 0.1  # number of rows and true slope of the synthetic wages
EVERY = 1  # one of `EVERY` successive survey rows is used; with EVERY = 1, all rows are used


def spoilt(data: pd.DataFrame, share: float, rng: np.random.Generator) -> pd.DataFrame:
    """Return the data, in which a share of the wages of people with much schooling has four zeros too many."""
    wrong = (rng.uniform(size=len(data)) < 2 * share) & (data["educ_years"] > data["educ_years"].median())
    return data.assign(log_wage=data["log_wage"] + wrong * np.log(1e4))


def four(data: pd.DataFrame) -> dict[str, Results | object]:
    """Return four fits: least squares and Huber's regression, each ordinary and private."""
    return {
        "OLS": smf.ols(MODEL, data).fit(),
        "private least squares": ps.dp_lm(MODEL, data, mu=MU, domain=BOUNDED, rng=1),
        "RLM": smf.rlm(MODEL, data, M=sm.robust.norms.HuberT()).fit(),
        "private Huber": ps.dp_lm(MODEL, data, mu=MU, loss="huber", domain=DOMAIN, rng=1),
    }


def slopes(fits: dict[str, Results | object], term: str) -> pd.DataFrame:
    """Return the estimate and the interval of one term, with one row for each fit."""
    rows = {
        name: (fit.params[term], *fit.conf_int().loc[term])  # type: ignore[attr-defined]
        for name, fit in fits.items()
    }
    return pd.DataFrame(rows, index=["estimate", "low", "high"]).T


# %% [markdown]
# ## 1. Synthetic wages
#
# 20,000 synthetic wages have a known law: a year of schooling raises the wage by 10 %, and errors have a standard
# deviation of 0.6. Then one wage in fifty, always of a person with much schooling, gets four zeros too many.

# %%
rng = np.random.default_rng(1)
made = pd.DataFrame({"educ_years": rng.integers(8, 22, ROWS).astype(float), "experience": rng.uniform(0, 45, ROWS)})
made["log_wage"] = 8.8 + SLOPE * made["educ_years"] + 0.01 * made["experience"] + rng.normal(0, 0.6, ROWS)
clean, dirty = four(made), four(spoilt(made, 0.02, rng))
print(clean["private Huber"].summary())
print(f"\nA year of school, wages as they were (truth: {SLOPE:g})")
print(slopes(clean, "educ_years").round(4).to_string())
print("\nand with one in fifty spoilt")
print(slopes(dirty, "educ_years").round(4).to_string())

# %% [markdown]
# Least squares, private or not, now overestimates the effect of schooling, and its intervals miss the true effect.
# Huber's regression changes a little (its bound on the effect of a row is not zero), and its private interval remains
# close to the truth. The diagnostic `noise_to_signal` in the summary compares the noise of the released Hessian with
# the information of the predictors in their weakest direction; above 1 this direction is not identified, and a note
# says so.
#
# ## 2. The Current Population Survey
#
# The same fits are made to 54,875 real wages (March 2024; `ps.datasets.load_cps` says where the file is looked for),
# first to the wages as they are, then to wages with the same errors.

# %%
panels = [("made-up wages", clean, dirty)]
try:
    cps, _ = ps.datasets.load_cps()
except FileNotFoundError:
    print("skipped: the wages of the Current Population Survey are not on this machine (PRIVSTATS_DATA)")
else:
    cps = cps.iloc[::EVERY]
    panels.append(("CPS, March 2024", four(cps), four(spoilt(cps, 0.02, rng))))
    for title, fits in zip(("as they are", "one in fifty spoilt"), panels[1][1:], strict=True):
        print(f"\nA year of school, {title}")
        print(slopes(fits, "educ_years").round(4).to_string())

# %%
figure, axes = plt.subplots(1, len(panels), figsize=(5.5 * len(panels), 3.6), layout="constrained", squeeze=False)
for axis, (title, *both) in zip(axes[0], panels, strict=True):
    for shift, label, fits in zip((0.1, -0.1), ("as they are", "one in fifty spoilt"), both, strict=True):
        table = slopes(fits, "educ_years")
        at = np.arange(len(table))[::-1] + shift
        sides = np.array([table["estimate"] - table["low"], table["high"] - table["estimate"]])
        axis.errorbar(table["estimate"], at, xerr=sides, fmt="o", capsize=3, label=label)
    axis.set(yticks=range(len(table)), yticklabels=list(table.index)[::-1], title=title)
    axis.set_xlabel("log wage per year of school, 95 %")
    axis.legend(fontsize=8)
target = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent) / "robust_inference.png"
figure.savefig(target, dpi=120)
plt.close(figure)
print(f"drawn: {target.name}")
