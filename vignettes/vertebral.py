# %% [markdown]
# # Spines: private medians of two groups of patients
#
# The data are six measurements of the spine of 310 patients in two classes: abnormal (AB) and normal (NO). Gillenwater
# and Munoz Medina (2020, section 6.2) compare private medians of these measurements. This walkthrough does the same
# with intervals, asks which budget a given width of an interval needs, and compares mechanisms. Run the vignette with
# `python vignettes/vertebral.py`; the plot is written to the same folder. Noise is seeded here so that the text repeats
# itself: seeded releases are not private.
#
# The file is at the UCI repository (`ps.datasets.load_vertebral` says where). If the file is missing, synthetic
# patients with the same columns are used, and the first printed line says so.

# %%
from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import privstats as ps
from privstats.datasets import Dataset

BUDGETS = (1.0, 2.0, 4.0, 8.0)
WIDTH = 3.5  # requested width of the interval for normal patients
TRIALS = 20  # number of releases of each mechanism
FAR = 10  # a released median counts as wrong if its distance from the median of the file exceeds this number
EPS_OF_MECHANISMS, EPS_OF_ORDERS, EPS_OF_BOUNDS = 1.0, 8.0, 2.0
BOUNDS = {
    "pelvic_incidence": (0, 150),
    "pelvic_tilt": (-20, 60),
    "lumbar_lordosis_angle": (0, 150),
    "sacral_slope": (0, 150),
    "pelvic_radius": (50, 180),
    "degree_spondylolisthesis": (-20, 500),
}


def made_up(seed: int) -> Dataset:
    """Return 210 abnormal and 100 normal synthetic patients: with skewed values and outliers, as in the real data."""
    rng = np.random.default_rng(seed)
    sick = np.repeat([True, False], [210, 100])
    n = len(sick)
    slipped = sick & (rng.uniform(size=n) < 0.7)  # patients with a slipped vertebra
    tilt = 13 + 6 * sick + 8 * rng.standard_normal(n)
    slope = 38 + 8 * slipped + 10 * rng.standard_normal(n)
    columns = {
        "pelvic_incidence": tilt + slope,
        "pelvic_tilt": tilt,
        "lumbar_lordosis_angle": 42 + 20 * slipped + 13 * rng.standard_normal(n),
        "sacral_slope": slope,
        "pelvic_radius": 124 - 9 * sick + 11 * rng.standard_normal(n),
        "degree_spondylolisthesis": 2 + 6 * rng.standard_normal(n) + slipped * rng.gamma(1.6, 32, n),
    }
    data = pd.DataFrame({name: np.clip(values, *BOUNDS[name]).round(2) for name, values in columns.items()})
    data["class"] = np.where(sick, "AB", "NO")
    return Dataset(data, ps.Domain({**BOUNDS, "class": ["NO", "AB"]}, complete=True))


try:
    data, domain = ps.datasets.load_vertebral()
    SOURCE = f"{len(data)} real patients (UCI, Vertebral Column)"
except FileNotFoundError:
    data, domain = made_up(seed=310)
    SOURCE = f"{len(data)} MADE-UP patients, a synthetic stand-in: nothing here is about real spines"
print(f"data: {SOURCE}")

# %% [markdown]
# ## 1. What is public
#
# Angles have anatomical bounds; a slipped vertebra is graded in millimetres and cannot slip by half a metre. Such
# bounds and the two classes are declared. The smallest and the largest measurement are the values of two persons, and
# are not declared.

# %%
print(domain)

# %% [markdown]
# ## 2. The question, and who is protected
#
# The question is the median slip by class. (`class` is a word of Python, hence the quotes.) Two guarantees are
# available. "replace": nobody can distinguish this patient from another; the number of patients is public.
# "add_remove": nobody can find out whether a patient is in the data at all; the number of patients is private. For
# groups the two differ most: an added patient enters one group, but a replaced patient may leave one group and enter
# the other. Under "add_remove" each group gets the whole budget, under "replace" half of it. Everything below uses
# "add_remove".

# %%
SLIP = 'degree_spondylolisthesis ~ Q("class")'
PROMISE = {"domain": domain, "neighbors": "add_remove"}

# %% [markdown]
# ## 3. The budget for a width
#
# A plan reads no row. Expected widths depend on the distribution of the values, so that we give the plan synthetic
# patients, which are not those in the data.

# %%
pilot = made_up(seed=1).data
planned = ps.plan("median", SLIP, len(data), eps=1.0, **PROMISE)
print(planned)
plans = {f"eps = {eps:g}": ps.plan("median", SLIP, len(data), eps=eps, **PROMISE) for eps in BUDGETS}
widths = {label: one.expected(like=pilot)["width"] for label, one in plans.items()}
print("\nwidths of 95 % intervals to expect")
print(pd.DataFrame(widths).round(1).to_string())
NORMAL = "degree_spondylolisthesis[NO]"
print(f"\neps for a width of {WIDTH:g} among the normal ones: {planned.eps_for(WIDTH, term=NORMAL, like=pilot):.2f}")

# %% [markdown]
# Beyond some budget the widths hardly decrease: the remaining width is due to sampling error, which no budget removes.
# A narrower interval needs more patients, and a search for its budget ends with an error that says so.
#
# ## 4. Group medians with intervals
#
# The ends of an interval are drawn together with the median, as numbers whose ranks differ from the median's rank as
# much as sampling error and privacy noise may require. No density is estimated, no normal law is assumed, and the
# interval need not be symmetric. It is an interval for the median of the population, not of these patients alone.

# %%
ledger = ps.Ledger(ps.PureDP(20.0, neighbors="add_remove"))
fit = ps.dp_median(SLIP, data, eps=2.0, ledger=ledger, rng=1, **PROMISE)
print(fit.summary())

# %% [markdown]
# ## 5. Four budgets
#
# The ledger adds up the budgets spent on these patients, and would refuse a call that exceeds the remaining budget.

# %%
fits = {eps: ps.dp_median(SLIP, data, eps=eps, ledger=ledger, rng=2, **PROMISE) for eps in BUDGETS}
table = pd.concat({f"eps = {eps:g}": one.tidy().set_index("component") for eps, one in fits.items()})
print(table[["estimate", "conf_low", "conf_high"]].round(2).to_string())
print(ledger)

# %% [markdown]
# Budgets should not be too small. A number far from all patients has a small probability density, but most of the range
# has no patients: if the budget is so small that a rank error of a hundred hardly lowers the density, a release may lie
# anywhere in the range.

# %%
truth = data.groupby("class")["degree_spondylolisthesis"].median()  # we may look at the file, because it is public
for eps in (0.05, 0.1, 0.25, 1.0):
    releases = [
        ps.dp_median(SLIP, data, eps=eps, inference="none", rng=seed, **PROMISE).params.xs("NO", level=-1).iloc[0]
        for seed in range(TRIALS)
    ]
    far = np.mean(np.abs(np.array(releases) - truth["NO"]) > FAR)
    print(f"eps = {eps:g}: {far:.0%} of {TRIALS} medians of the normal ones are wrong by more than {FAR}")

# %% [markdown]
# ## 6. Comparison of mechanisms
#
# The eight mechanisms below are private with eps = 1, four of them with delta = 0.001 as well. "rank", the default,
# chooses a number by the rank of the number. "duff" chooses by the number of patients that must be added or removed to
# make the chosen number the median, which for medians is nearly the choice by rank; so is the choice of "K-norm
# gradient", by the gradient of the absolute loss. The four "smooth" mechanisms add noise in proportion to a bound on
# the change of the median by one patient: the bound has to allow for similar data with fewer patients in the middle.
# Cauchy noise has tails that reach the bounds of the column. "propose-test-release" first tests, privately, whether a
# few patients could move the median by more than a declared number eta, and gives no answer if they could. Each
# mechanism makes twenty releases, without intervals.

# %%
METHODS = {
    "rank (default)": {},
    "duff": {"mech": "duff"},
    "K-norm gradient": {"mech": "kng"},
    "smooth, Cauchy": {"mech": "smoothsens"},
    "smooth, Laplace": {"mech": "smoothsens", "noise": "laplace", "delta": 1e-3},
    "smooth, Gauss": {"mech": "smoothsens", "noise": "gaussian", "delta": 1e-3},
    "smooth, Laplace-LN": {"mech": "smoothsens", "noise": "laplaceln", "delta": 1e-3},
    "propose-test-release": {"mech": "ptr", "delta": 1e-3, "eta": 5.0},
}
released = {
    label: pd.DataFrame(
        [
            ps.dp_median(
                SLIP, data, eps=EPS_OF_MECHANISMS, inference="none", rng=seed, **method, **PROMISE
            ).params.droplevel(0)
            for seed in range(TRIALS)
        ]
    )
    for label, method in METHODS.items()
}
away = {label: (some - truth).abs() for label, some in released.items()}
rows = {
    label: {
        **{f"median {group}": some[group].median() for group in truth.index},
        **{f"largest {group}": some[group].max() for group in truth.index},
        "silent": some.isna().to_numpy().mean(),
    }
    for label, some in away.items()
}
print(f"distance from the class median, eps = {EPS_OF_MECHANISMS:g}, and the share of releases that are no answer")
print(pd.DataFrame(rows).T.round(2).to_string())

# %% [markdown]
# ## 7. Several quantiles
#
# Five quantiles of each class are released. The mechanism "rank" draws all of them at once; "aq" draws the median first
# and then the others, among the patients on either side. In both methods the quantiles are in order. Quantiles near the
# ends have few patients beyond them, and need a larger budget.

# %%
ORDERS = [0.1, 0.25, 0.5, 0.75, 0.9]
quantiles = {}
for mech in ("rank", "aq"):
    several = ps.dp_quantile(SLIP, data, eps=EPS_OF_ORDERS, q=ORDERS, mech=mech, inference="none", rng=1, **PROMISE)
    for group in ("AB", "NO"):
        quantiles[f"{mech}, {group}"] = several.params.xs(group, level="group").to_numpy()
slips = data.groupby("class")["degree_spondylolisthesis"]
exact = {f"file, {group}": values.quantile(ORDERS).to_numpy() for group, values in slips}
print(pd.DataFrame({**quantiles, **exact}, index=ORDERS).round(1).to_string())

# %% [markdown]
# ## 8. Means, and the cost of wide bounds
#
# The noise of a mean depends on its bounds: one patient may move a sum by the whole range. The noise of a median is in
# ranks, which do not depend on bounds. Here the upper bound is widened, as by a person with less knowledge; the
# estimates are for the abnormal class at eps = 2.

# %%
UPPER = (150, 500, 1500, 4000)
widening = {}
for upper in UPPER:
    wide = ps.Domain({"degree_spondylolisthesis": (-20, upper), "class": ["NO", "AB"]}, complete=True)
    for what, verb in (("median", ps.dp_median), ("mean", ps.dp_mean)):
        one = (
            verb(SLIP, data, eps=EPS_OF_BOUNDS, domain=wide, neighbors="add_remove", rng=3)
            .tidy()
            .set_index("component")
        )
        widening[what, upper] = one.loc["AB", ["estimate", "conf_low", "conf_high"]].astype(float)
print(pd.DataFrame(widening).T.round(1).to_string())

# %% [markdown]
# ## 9. All six measurements
#
# Columns share a budget: with eps = 6 for six columns, each column has eps = 1.

# %%
every = ps.dp_median(" + ".join(BOUNDS) + ' ~ Q("class")', data, eps=6.0, rng=4, **PROMISE).tidy()
ends = every[["estimate", "conf_low", "conf_high"]].to_numpy()
shown = every.assign(median=[f"{middle:.1f} [{low:.1f}, {high:.1f}]" for middle, low, high in ends])
print(shown.pivot(index="term", columns="component", values="median").loc[list(BOUNDS)].to_string())

# %% [markdown]
# ## 10. The picture


# %%
def bar(panel: plt.Axes, x: float, row: pd.Series, look: dict[str, str], label: str | None) -> None:
    """Draw an estimate and its interval."""
    half = [[row["estimate"] - row["conf_low"]], [row["conf_high"] - row["estimate"]]]
    panel.errorbar(x, row["estimate"], yerr=half, capsize=3, label=label, linestyle="none", **look)


# the markers distinguish the classes in print without colour
LOOKS = {"AB": {"color": "#D55E00", "marker": "o"}, "NO": {"color": "#0072B2", "marker": "s"}}
CLASSES = {"AB": "abnormal", "NO": "normal"}
figure, ((budgets, mechs), (orders, bounds)) = plt.subplots(2, 2, figsize=(12, 9), layout="constrained")
for group, look in LOOKS.items():
    for shift, one in enumerate(fits.values()):
        bar(budgets, shift, one.tidy().set_index("component").loc[group], look, None if shift else CLASSES[group])
    budgets.axhline(truth[group], color=look["color"], linewidth=0.8, linestyle=":")
budgets.set_xticks(range(len(fits)), [f"{eps:g}" for eps in fits])
budgets.set_xlabel("eps")
budgets.set_ylabel("slip (degree_spondylolisthesis)")
budgets.set_title("Medians with 95 % intervals; dotted: of the file", fontsize=10)
budgets.legend(fontsize=8)

EDGES = (-20, 90)
for row, some in enumerate(released.values()):
    if some.isna().to_numpy().all():
        mechs.text(np.mean(EDGES), row, "no answer", va="center", ha="center", fontsize=8)
    for group, look in LOOKS.items():
        shown_at = some[group].dropna().clip(*EDGES).to_numpy()
        height = row + np.linspace(-0.25, 0.25, TRIALS)[: len(shown_at)]
        beyond = np.isin(shown_at, EDGES)
        mechs.scatter(shown_at[~beyond], height[~beyond], s=10, alpha=0.7, **look)
        mechs.scatter(shown_at[beyond], height[beyond], s=22, color=look["color"], marker="x")
for group, look in LOOKS.items():
    mechs.axvline(truth[group], color=look["color"], linewidth=0.8, linestyle=":")
mechs.set_xlim(EDGES[0] - 4, EDGES[1] + 4)
mechs.set_yticks(range(len(released)), list(released))
mechs.set_ylim(len(released) - 0.5, -0.5)
mechs.set_xlabel("released median of the slip; crosses lie at or beyond the panel's ends")
mechs.set_title(f"{TRIALS} releases of each mechanism, eps = {EPS_OF_MECHANISMS:g}", fontsize=10)

for place, (name, values) in zip(np.linspace(-0.24, 0.24, len(quantiles)), quantiles.items(), strict=True):
    mech, group = name.split(", ")
    away = values - exact[f"file, {group}"]
    fill = {"fillstyle": "full" if mech == "rank" else "none", "linestyle": "none"}
    orders.plot(np.arange(len(ORDERS)) + place, away, label=f"{mech}, {CLASSES[group]}", **fill, **LOOKS[group])
orders.axhline(0, color="k", linewidth=1, linestyle=":", label="of the file")
orders.set_xticks(range(len(ORDERS)), [f"{q:g}" for q in ORDERS])
orders.set_xlabel("order of the quantile")
orders.set_ylabel("slip: released minus that of the file")
orders.set_title(f"Five quantiles at once, eps = {EPS_OF_ORDERS:g}", fontsize=10)
orders.legend(fontsize=8)

for offset, what, color, mark in ((-0.1, "median", "#009E73", "o"), (0.1, "mean", "#CC79A7", "s")):
    for place, upper in enumerate(UPPER):
        bar(bounds, place + offset, widening[what, upper], {"color": color, "marker": mark}, None if place else what)
bounds.set_xticks(range(len(UPPER)), [f"{upper:,}" for upper in UPPER])
bounds.set_xlabel("declared upper bound")
bounds.set_ylabel("slip, abnormal class")
bounds.set_title(f"Wide bounds make a mean uncertain, a median not (eps = {EPS_OF_BOUNDS:g})", fontsize=10)
bounds.legend(fontsize=8)

figure.suptitle(f"Private medians of the slip of a vertebra: {SOURCE}", fontsize=11)
target = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent) / "vertebral.png"
figure.savefig(target, dpi=120)
print(f"drawn: {target.name}")
