# %% [markdown]
# # Foundations: differential privacy for a statistician
#
# A private release promises a bound on the power of a test. The text starts from an attack that such a bound stops,
# goes through the mechanisms and their use in estimation, and ends with optimisation by noisy steps, intervals, and the
# local model. It follows lecture notes (Avella Medina, "Differentially private statistical inference", 2025) and ends
# with a table of corrections to these notes, each with a number that shows the error. Run the vignette with
# `python vignettes/foundations.py`; the plot is written to the same folder. Noise is seeded so that the text repeats
# itself: seeded releases are not private.

# %%
from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import bdtr, bdtrc, expit
from scipy.stats import laplace, norm
from tabulate import tabulate

import privstats as ps
from privstats.losses.base import HuberLoss
from privstats.losses.mestimators import LogCosh, PseudoHuber
from privstats.privacy.subsampling import noise_multiplier
from privstats.results.results import Results

DELTA = 1e-5
C_HUBER = 1.345
ONE = 1.0  # value of eps, or of mu
ROWS = 2000
REPLICATES = {"attack": 4, "clipping": 50, "medians": 40, "descent": 40, "coverage": 30, "local": 12}
figure, panels = plt.subplots(4, 3, figsize=(13.5, 15.5), layout="constrained")
axes = iter(panels.ravel())
corrections: list[tuple[str, str, str, str]] = []


def plain(number: float) -> str:
    """Return a number as the text writes it: .5 and 1e-5, not 0.5 and 1e-05."""
    return f"{number:g}".removeprefix("0").replace("e-0", "e-") or "0"


def correct(slide: str, printed: str, right: str, number: str) -> None:
    """Add a row to the table of corrections: slide, printed formula, right formula, number that shows the error."""
    corrections.append((slide, printed, right, number))


# %% [markdown]
# ## 1. Means betray who is in the sample
#
# Homer et al. (2008) found that published allele frequencies of a hundred patients reveal whether a given person is one
# of them. The mean of one column does not reveal it, but the means of thousands of columns together do. The attacker
# knows the person's genome z, the frequencies f of the population, and the published means m, and computes the sum of
# ``(z_j - f_j) (m_j - f_j) / (f_j (1 - f_j))``. For a person outside the sample, the sum is centred at 0. A person in
# the sample has moved each mean a little towards z, by 1 / n; this moves the sum by p / n, and its standard deviation
# is about the root of p / n. So for p = 5000 columns of n = 100 rows, the two cases are 7 standard deviations apart.
#
# The defence adds normal noise of sd ``sqrt(p) / (n mu)`` to each mean, since one row moves the p means by at most
# ``sqrt(p) / n`` in Euclidean length. Then no test of level alpha, by an attacker who knows everything but one row, has
# more power than ``Phi(z_alpha + mu)``: the power of the test of N(0, 1) against N(mu, 1).

# %%
LEVEL, MEMBERS = 0.01, 100


def power_of_attack(p: int, mu: float, rng: np.random.Generator, n: int = MEMBERS, strangers: int = 1000) -> float:
    """Return the power, at `LEVEL`, of the attack on n rows of p columns, if noise makes the means mu-GDP."""
    f = rng.uniform(0.1, 0.9, p)
    members = (rng.uniform(size=(n, p)) < f) - f
    others = (rng.uniform(size=(strangers, p)) < f) - f
    m = members.mean(axis=0) + rng.normal(0, math.sqrt(p) / (n * mu), p)
    weights = m / (f * (1 - f))
    return float((members @ weights > np.quantile(others @ weights, 1 - LEVEL)).mean())


rng = np.random.default_rng(1)
columns, budgets = (50, 200, 1000, 5000), (math.inf, 8.0, 4.0, 1.0)
power = pd.DataFrame(
    {
        p: [np.mean([power_of_attack(p, mu, rng) for _ in range(REPLICATES["attack"])]) for mu in budgets]
        for p in columns
    },
    index=budgets,
)
power["no test above"] = [1 - float(ps.GaussianDP(mu).tradeoff(LEVEL)) if mu < math.inf else 1.0 for mu in budgets]
power.index = [f"mu = {mu:g}" if mu < math.inf else "exact means" for mu in budgets]
print(f"Membership attack: {MEMBERS} rows, power at level {100 * LEVEL:g} % by the number of columns")
print(power.round(3).to_string())
for eps in (0.1, 1.0, 4.0):
    print(f"eps = {eps:g}: no test above {1 - float(ps.PureDP(eps).tradeoff(LEVEL)):.3f}")

axis = next(axes)
for name, row in power.iterrows():
    (line,) = axis.plot(columns, row[list(columns)], "o-", label=name)
    axis.axhline(row["no test above"], color=line.get_color(), linestyle=":", linewidth=1)
axis.set(xscale="log", xlabel="columns whose means are released", ylabel=f"power at level {100 * LEVEL:g} %")
axis.set_title("1. Membership attack (dotted: the promise)")
axis.legend(fontsize=8)

# %% [markdown]
# The power of the attack is below its bound, and far below it if the noise is spread over thousands of columns: the
# bound holds for all attackers, and this attacker knows only frequencies.
#
# ## 2. The promise is a trade-off function
#
# Wasserman and Zhou (2010): a release is (eps, delta)-DP if and only if each test of "row i is s" against "row i is t"
# with level alpha has type II error at least ``max(0, 1 - delta - e^eps alpha, e^-eps (1 - delta - alpha))``. Dong,
# Roth and Su (2022) replace the two straight lines by the curve of N(0, 1) against N(mu, 1): mu-GDP. Each guarantee in
# the package can draw its curve. Here, as in the notes, neighbours differ by the replacement of a row; n is public.

# %%
axis = next(axes)
for eps, delta in ((1.0, 0.0), (1.0, 0.1)):
    label = f"eps = {eps:g}" + (f", delta = {plain(delta)}" if delta else "")
    (ps.ApproxDP(eps, delta) if delta else ps.PureDP(eps)).plot(ax=axis, label=label)
for mu in (1.0, 0.5):
    ps.GaussianDP(mu).plot(ax=axis, label=f"mu = {mu:g}")
axis.set_title("2. Least type II error by level")
axis.legend(fontsize=8)
print(
    f"\nmu = {ONE:g} is eps = {ps.gdp_eps(ONE, DELTA):.3f} at delta = {plain(DELTA)}; "
    f"eps = {ONE:g} there is mu = {ps.gdp_mu(ONE, DELTA):.3f}"
)

# %% [markdown]
# ## 3. Three mechanisms, post-processing, and the ledger
#
# *Laplace*: a sum that one row moves by at most S in absolute value gets noise of scale S / eps. *Gaussian*: a sum that
# one row moves by at most S in Euclidean length gets noise of sd S / mu. *Exponential*: a candidate t is drawn with
# probability proportional to ``exp(eps u(t) / (2 S))``, where one row moves the utility u by at most S; for a median, u
# is minus the distance of t's rank from the middle, which a row moves by at most 1, whatever its value. A computation
# from a release is post-processing and has no privacy cost. Each release has a cost, even if it repeats an earlier one:
# a ledger adds up the costs, and refuses a call that would exceed its budget, before any row is read.

# %%
rng = np.random.default_rng(2)
n = ROWS
sample = pd.DataFrame({"x": 10 * rng.beta(2, 5, n)})
bounds = {"x": (0, 10)}
ledger = ps.Ledger(ps.PureDP(2.0))
HALF = 0.5
mean = ps.dp_mean("x", sample, HALF, mech="laplace", domain=bounds, ledger=ledger, rng=1)
median = ps.dp_median("x", sample, ONE, mech="rank", domain=bounds, ledger=ledger, rng=2)
normal = ps.dp_mean("x", sample, mu=HALF, mech="gaussian", domain=bounds, rng=3)
table = pd.DataFrame(
    {
        "estimate": [f.params["x"] for f in (mean, normal, median)],
        "std error": [f.bse["x"] for f in (mean, normal, median)],
    },
    index=[
        f"mean, Laplace, eps = {plain(HALF)}",
        f"mean, Gaussian, mu = {plain(HALF)}",
        f"median, exponential, eps = {ONE:g}",
    ],
)
table["without privacy"] = [sample["x"].mean(), sample["x"].mean(), sample["x"].median()]
print("\n" + table.round(3).to_string())
print(
    f"post-processing: the logarithm of the private mean, {math.log(mean.params['x']):.3f}, is as private as the mean"
)
print(f"ledger: spent {ledger.spent().budget}; remaining {ledger.remaining().budget}")
try:
    ps.dp_mean("x", sample, 1.0, domain=bounds, ledger=ledger, rng=4)
except ps.BudgetError as refusal:
    print(f"refused: {refusal}")

# %% [markdown]
# ## 4. A variance from two noisy moments, and a histogram
#
# The two moments ``m_1 = mean x`` and ``m_2 = mean x^2`` are two means of one formula, and share one budget. The
# variance ``m_2 - m_1^2`` follows by post-processing.
#
# A histogram has many counts, but a row is in one bin only. If the row is replaced, two counts change by one each: with
# noise of scale 1 / eps, the whole histogram costs 2 eps, for any number of bins. (If rows are added or removed, it
# costs eps.) So for eps = 1, the function `dp_hist` adds noise of scale 2, with variance 8, to each count, whether
# there are 5 counts or 500.

# %%
moments = ps.dp_mean("x + I(x**2)", sample, 1.0, mech="laplace", domain=bounds, rng=5)
m_1, m_2 = moments.params
print(f"\nvariance from noisy moments: {m_2 - m_1**2:.3f} (of the sample: {sample['x'].var(ddof=0):.3f})")
correct(
    "Bounded data",
    "variance m2 - n m1^2",
    "m2 - m1^2",
    f"{m_2 - n * m_1**2:.0f} and {m_2 - m_1**2:.2f}; the sample's is {sample['x'].var(ddof=0):.2f}",
)
FEW, MANY = 20, 100  # numbers of bins
few, many = (ps.dp_hist("x", sample, ONE, bins=k, mech="laplace", domain=bounds, rng=6) for k in (FEW, MANY))
apart = ps.dp_hist("x", sample, ONE, bins=FEW, mech="laplace", domain=bounds, neighbors="add_remove", rng=6)
print(f"noise sd of each count: {few.bse.iloc[0]:.2f} of {FEW} bins, {many.bse.iloc[0]:.2f} of {MANY}")
correct(
    "Noisy histogram",
    "all k_n bins cost k_n eps",
    "2 eps if a row is replaced, eps if one is added or removed",
    f"eps = {ONE:g}: noise sd {few.bse.iloc[0]:.2f} and {apart.bse.iloc[0]:.2f}, not {FEW * 2**0.5:.1f}",
)
axis = next(axes)
edges = np.linspace(0, 10, FEW + 1)
axis.bar((edges[:-1] + edges[1:]) / 2, few.params, 0.5, yerr=1.96 * few.bse, color="0.8", ecolor="0.3", label="private")
axis.stairs(np.histogram(sample["x"], edges)[0], edges, color="C1", label="exact")
axis.set(xlabel="x", ylabel="rows", title=f"3. Noisy histogram, eps = {ONE:g}")
axis.legend(fontsize=8)
correct(
    "Bernoulli sample",
    "density e^(-|z|/2) / 2",
    "e^-|z| / 2, the law Lap(1)",
    f"its mass is {2 * quad(lambda z: math.exp(-z / 2) / 2, 0, math.inf)[0]:.3f}",
)

# %% [markdown]
# ## 5. Clipping: the bias that noise asks for
#
# A mean of unbounded values is private only if values are clipped, ``sign(x) min(|x|, B)``. A small B removes the tail;
# a large B requires noise of scale 2 B / (eps n). No B is best for all data; the best B for given data balances bias
# and noise. A standard error does not include the bias. The clipped means of the package also release how much was
# clipped, and their intervals are wide enough to contain the largest bias that this amount leaves possible; with a tail
# as long as the tail of the incomes below, coverage may be a little too low. No method can correct bounds in the domain
# that are not true: the estimand is then the mean of the values moved to these bounds.

# %%
rng = np.random.default_rng(3)
skewed = pd.DataFrame({"income": rng.lognormal(3, 1, n)})
truth = math.exp(3.5)
TRUE, FALSE = (0, 5000), (0, 60)  # a true and a false domain of incomes
wide = ps.dp_mean("income", skewed, ONE, mech="clipped", domain={"income": TRUE}, rng=1)
narrow = ps.dp_mean("income", skewed, ONE, mech="laplace", domain={"income": FALSE}, rng=1)
print(f"\nlog-normal incomes, mean {truth:.2f}")
for name, fit in ((f"true domain {TRUE}, clipped", wide), (f"false domain {FALSE}", narrow)):
    low, high = fit.conf_int().loc["income"]
    most = fit.tidy()["bias_bound"].iloc[0]
    print(f"{name}: {fit.params['income']:.2f}, std error {fit.bse['income']:.2f}, bias at most {most:.2f}, "
          f"interval {low:.2f} to {high:.2f}")  # fmt: skip
inside, alone, replicates = 0, 0, REPLICATES["clipping"]
for r in range(replicates):
    fresh = pd.DataFrame({"income": np.random.default_rng([3, r]).lognormal(3, 1, n)})
    fit = ps.dp_mean("income", fresh, ONE, mech="clipped", domain={"income": TRUE}, rng=r)
    low, high = fit.conf_int().loc["income"]
    inside += low <= truth <= high
    alone += abs(fit.params["income"] - truth) <= 1.96 * fit.bse["income"]
error = math.sqrt(alone / replicates * (1 - alone / replicates) / replicates)
print(
    f"coverage in {replicates} samples: {inside / replicates:.2f}; "
    f"without the allowance for bias {alone / replicates:.2f} (+- {plain(round(error, 2))})"
)
limit, little, much = 3, 0.1, 1000
correct(
    "Unbounded data",
    "sign(x) max(|x|, B)",
    "sign(x) min(|x|, B)",
    f"x = {plain(little)}, B = {limit} becomes {max(little, limit)}; x = {much} stays {max(much, limit)}",
)

axis = next(axes)
B = np.geomspace(20, 2000, 60)
big = np.random.default_rng(4).lognormal(3, 1, 200_000)
bias = np.array([(big - np.minimum(big, b)).mean() for b in B])
noise = math.sqrt(2) * B / n  # sd of the noise, for values in [0, B] and eps = 1
sampling = np.array([np.minimum(big, b).std() for b in B]) / math.sqrt(n)
for values, label in (
    (bias, "bias"),
    (noise, "noise sd"),
    (sampling, "sampling sd"),
    (np.sqrt(bias**2 + noise**2 + sampling**2), "all"),
):
    axis.loglog(B, values, label=label, linewidth=2 if label == "all" else 1)
axis.set(
    xlabel=f"upper bound B of incomes, eps = {ONE:g}", ylabel="error of the mean", ylim=(0.01, 30), title="4. Clipping"
)
axis.legend(fontsize=8)

# %% [markdown]
# ## 6. Local sensitivity: smoothed, or tested
#
# In the worst case one row moves a median from one end of the domain to the other; in most data sets it hardly moves
# the median. Noise scaled to the largest effect of a row *in these data* is not private, since the scale itself reveals
# information. Nissim, Raskhodnikova and Smith (2007) take ``S = max over data sets at distance k of e^(-beta k) LS``,
# where LS is the local sensitivity; S differs by a factor of at most e^beta between neighbours. Dwork and Lei (2009)
# propose a bound eta on the local sensitivity, test privately how many rows must change until the bound fails, and
# release the median only if this number is large enough.
#
# Both versions in the notes fail. The first has noise ``(2 / eps) S Z`` with Z normal: 2 / eps belongs to Laplace noise
# and beta to normal noise. Take 51 zeros and 50 ones, known to lie in (0, 1): S is 1 for these values, and also for the
# neighbour with 50 zeros and 51 ones. The median moves by 1, which is eps / 2 standard deviations of the noise. So the
# release is only eps / 2-GDP, whatever delta was requested. The second version counts the changes that move the median
# by more than eta *from its current value*. One row can change this count from 2 to 51, but in a private test a row may
# change it only by 1.

# %%


def until_moved(x: np.ndarray, eta: float) -> float:
    """Return the least number of values whose change can move the median of an odd number of values by over eta."""
    y, m = np.sort(x), len(x) // 2
    ks = np.arange(1, m + 1)
    far = (y[m + ks] - y[m] > eta) | (y[m] - y[m - ks] > eta)
    return float(ks[far][0]) if far.any() else m + 1.0


def until_sensitive(x: np.ndarray, eta: float) -> float:
    """Return the least number of changed values after which one further change can move the median by over eta."""
    y, m = np.sort(x), len(x) // 2
    for k in range(m):
        i = np.arange(m - k - 1, m + 1)
        if (y[i + k + 1] - y[i] > eta).any():
            return float(k)
    return float(m)


first = np.r_[np.zeros(51), 1.0, np.full(49, 1.6)]
second = np.r_[np.zeros(50), 1.0, np.full(50, 1.6)]
counts = [[count(x, 1.5) for x in (first, second)] for count in (until_moved, until_sensitive)]
eps = 0.5
silent = [laplace.cdf(eps * (1 + math.log(2 / 1e-3) / eps - A)) for A in counts[0]]
print(f"\nneighbours' counts: {counts[0]} as printed, {counts[1]} of the distance to sensitive data")
print(f"so the printed test has no answer with probability {silent[0]:.4f} or {silent[1]:.2g}")
loss = math.log(silent[0] / silent[1])
correct(
    "Propose-test-release",
    "A: changes that move the median by more than eta from where it is",
    "A: changes to data at which one row moves it by more than eta",
    f"neighbours have A = {counts[0][0]:g} and {counts[0][1]:g}, privacy loss {loss:.1f}, claimed {2 * eps:g}; "
    f"right: A = {counts[1][0]:g} and {counts[1][1]:g}",
)
correct(
    "Propose-test-release",
    "releases A~ + (eta / eps) Z2, eta <= ...; T",
    "the median + (eta / eps) Z2, eta >= ...; T is B_n",
    "misprints",
)
tried, zeros, ones = (0.5, 1.0, 2.0), 51, 50
worst = [ps.gdp_delta(eps / 2, eps) for eps in tried]
correct(
    "Smooth sensitivity",
    "noise (2 / eps) S N(0, 1), for each delta",
    "noise (5 sqrt(2 ln(2 / delta)) / eps) S N(0, 1), or Laplace or Cauchy noise with their own constants",
    f"{zeros} zeros and {ones} ones in {(0, 1)}, S = {np.median(np.r_[np.zeros(ones), np.ones(zeros)]):g}: delta is "
    f"{', '.join(f'{d:.4f}' for d in worst)} at eps = {', '.join(map(plain, tried))}",
)

errors: dict[str, list[float]] = {name: [] for name in ("rank", "smoothsens", "ptr", "global")}
ODD, ENDS = 1001, (-10, 10)
for r in range(REPLICATES["medians"]):
    rng = np.random.default_rng([6, r])
    rows = pd.DataFrame({"z": rng.normal(size=ODD)})
    exact = rows["z"].median()
    for mech in ("rank", "smoothsens", "ptr"):
        own = {"eta": 0.1} if mech == "ptr" else {}
        promised = {"eps": ONE, "delta": 0.0 if mech == "rank" else DELTA}
        fit = ps.dp_median("z", rows, mech=mech, inference="none", domain={"z": ENDS}, rng=r, **promised, **own)
        errors[mech].append(abs(fit.params["z"] - exact))
    errors["global"].append(abs(min(max(exact + rng.laplace(scale=20.0), -10.0), 10.0) - exact))
medians = pd.DataFrame(errors)
print(
    f"\nmedian of {ODD:,} normal rows in {ENDS}, eps = {ONE:g}, and delta = {plain(DELTA)} but for rank: "
    "error that privacy adds"
)
print(
    pd.DataFrame(
        {
            "median": medians.median(),
            "mean": medians.mean(),
            "largest": medians.max(),
            "no answer": medians.isna().sum(),
        }
    )
    .round(4)
    .to_string()
)
axis = next(axes)
axis.boxplot([medians[name].dropna() for name in medians], tick_labels=list(medians), showfliers=False)
axis.set(yscale="log", ylabel="distance to the exact median", title=f"5. Median by four mechanisms, eps = {ONE:g}")

# %% [markdown]
# The errors of the first three mechanisms are far smaller than the errors of noise scaled to the global sensitivity.
# `rank` is the exponential mechanism. It is the method of `mech="auto"`, and it needs no delta. Its errors have no
# heavy tail (the Cauchy noise of smooth sensitivity has one), and their law is known, so that an interval can be drawn
# with the estimate. Propose-test-release gives no answer if its test fails.
#
# ## 7. Estimation by noisy steps
#
# Avella-Medina, Bradshaw and Loh (2023) minimise a loss whose row scores have norms of at most B, as for robust losses,
# by K steps along scores with noise of sd ``2 B sqrt(K) / (n mu)``: each step is mu / sqrt(K)-GDP, and all steps
# together are mu-GDP. Every step is a release, so that anybody can draw the path: here it is drawn from `fit.releases`
# alone, for a logit with rows no longer than sqrt(2), for which the step size is 2. Newton's steps also need a noisy
# Hessian.

# %%
rng = np.random.default_rng(7)
X = np.column_stack([np.ones(n), rng.normal(size=n)])
y = (rng.uniform(size=n) < expit(X @ [0.5, 1.5])) * 1.0
logit = pd.DataFrame({"x": X[:, 1], "y": y})
known = {"x": ps.Scale(0, 1), "y": (0, 1)}
weights = np.minimum(1.0, 2 / (X**2).sum(axis=1))
noisy = {
    m: ps.dp_glm("y ~ x", logit, mu=ONE, family="binomial", mech=m, domain=known, rng=1)
    for m in ("ngd", "noisy_newton")
}


def score(theta: np.ndarray) -> np.ndarray:
    """Return minus the gradient of the mean weighted logistic loss at theta."""
    return X.T @ (weights * (y - expit(X @ theta))) / n


def hessian(theta: np.ndarray) -> np.ndarray:
    """Return the Hessian of the mean weighted logistic loss at theta."""
    p = expit(X @ theta)
    return (X.T * (weights * p * (1 - p))) @ X / n


def descent(step: Callable[[np.ndarray], np.ndarray], K: int) -> np.ndarray:
    """Return the iterates of K steps from 0, shape (K + 1, 2); `step` gives the change at an iterate."""
    path = [np.zeros(2)]
    for _ in range(K):
        path.append(path[-1] + step(path[-1]))
    return np.array(path)


def of_releases(fit: Results) -> np.ndarray:
    """Return the private iterates of a fit with K steps, shape (K + 1, 2), from the fit's releases."""
    released = {release.name: release for release in fit.releases}
    path = [np.zeros(2)]
    for k in range(1, sum(name.startswith("gradient") for name in released) + 1):
        g = released[f"gradient {k}"].value / n
        if f"hessians {k}" not in released:
            path.append(path[-1] + 2.0 * g)
            continue
        H = released[f"hessians {k}"]
        values, V = np.linalg.eigh(np.array([[H.value[0], H.value[1]], [H.value[1], H.value[2]]]) / n)
        edge = math.sqrt(2 * 2 * H.law.variance().max()) / n  # approximate largest eigenvalue of the noise
        step = 0.5 * (V / np.maximum(values, edge)) @ V.T @ g
        path.append(path[-1] + step / max(1.0, float(np.linalg.norm(step)) / 3))
    return np.array(path)


paths = {
    "gradient descent": descent(lambda theta: 2 * score(theta), 60),
    "private": of_releases(noisy["ngd"]),
    "Newton, damped": descent(lambda theta: 0.5 * np.linalg.solve(hessian(theta), score(theta)), 18),
    "private Newton": of_releases(noisy["noisy_newton"]),
}
for mech, name in (("ngd", "private"), ("noisy_newton", "private Newton")):
    assert np.allclose(paths[name][-1], noisy[mech].params, atol=1e-6), name
    print(f"\n{name}: {len(paths[name]) - 1} steps; the path drawn from the releases ends at the fit, "
          f"{paths[name][-1].round(3)}")  # fmt: skip
end = descent(lambda theta: np.linalg.solve(hessian(theta), score(theta)), 12)[-1]
print(f"without noise {end.round(3)}")
a, b = np.meshgrid(np.linspace(-0.1, 1.0, 40), np.linspace(-0.1, 2.1, 40))
eta = a[..., None] + b[..., None] * X[:, 1]
surface = (weights * (np.logaddexp(0, eta) - y * eta)).mean(axis=-1)
for names, title in (
    (("gradient descent", "private"), f"6. Gradient descent, exact and private (mu = {ONE:g})"),
    (("Newton, damped", "private Newton"), f"7. Newton, exact and private (mu = {ONE:g})"),
):
    axis = next(axes)
    axis.contour(a, b, surface, levels=14, colors="0.85", linewidths=0.8)
    for name, style in zip(names, (".-", "x-"), strict=True):
        axis.plot(*paths[name].T, style, label=name, linewidth=0.8, markersize=4)
    axis.plot(*end, "k+", markersize=12)
    axis.set(xlabel="intercept", ylabel="slope", title=title, xlim=(-0.1, 1.0), ylim=(-0.1, 2.1))
    axis.legend(fontsize=8, loc="lower right")

# %% [markdown]
# Newton's undamped steps converge fast only near the optimum: where the Newton decrement lambda satisfies ``lambda /
# sqrt(lambda_min) <= 1 / (16 gamma)`` for a loss with ``|f'''| <= gamma f''``. (The logistic loss has gamma = 1; rows
# as long as sqrt(2) make it sqrt(2).) The picture shows this quantity along the paths, in units of the threshold. Both
# paths cross the threshold, Newton's in fewer steps. Then noise prevents a further decrease, which would be unlimited
# without noise: at this level a better direction does not help, and the budget spent on Hessians is missing. The
# private path of Newton's steps, whose noise is larger, ends farther from the optimum here.
#
# The older condition is ``|gradient| <= tau_1^2 / L``: tau_1 is the least eigenvalue of the Hessian along the path, and
# L bounds how fast the Hessian changes, ``max |f'''| |x|^3 = sqrt(2)^3 / (6 sqrt(3))`` here. This condition depends on
# units; here it is met earlier (dotted line).

# %%


def decrement(theta: np.ndarray) -> float:
    """Return the Newton decrement at theta divided by the square root of the Hessian's least eigenvalue."""
    H, g = hessian(theta), score(theta)
    return float(math.sqrt(g @ np.linalg.solve(H, g) / np.linalg.eigvalsh(H)[0]))


threshold = 1 / (16 * math.sqrt(2))
tau_1 = min(float(np.linalg.eigvalsh(hessian(theta))[0]) for path in paths.values() for theta in path)
older = tau_1**2 / (math.sqrt(2) ** 3 / (6 * math.sqrt(3)))
axis = next(axes)
below = {}
for name, path in paths.items():
    style = "-" if name.startswith("private") else "--"
    times = [decrement(theta) / threshold for theta in path]
    (line,) = axis.semilogy(np.maximum(times, 1e-5), style, label=name)
    lengths = [float(np.linalg.norm(score(theta))) / older for theta in path]
    if name.startswith("private"):
        axis.semilogy(np.maximum(lengths, 1e-5), ":", color=line.get_color(), linewidth=1)
    below[name] = [next((k for k, t in enumerate(some) if t <= 1), "never") for some in (times, lengths)]
axis.axhline(1.0, color="black", linewidth=0.8)
axis.annotate("pure Newton below", (62, 0.35), fontsize=8, ha="right")
axis.set(xlabel="step", ylabel="times the threshold", ylim=(1e-3, 200), title="8. Newton against gradient descent")
axis.legend(fontsize=8)
print("steps until the threshold of pure Newton:", ", ".join(f"{name} {new}" for name, (new, _) in below.items()))
print(
    f"until |gradient| <= {older:.4f}, the older one:", ", ".join(f"{name} {old}" for name, (_, old) in below.items())
)

axis = next(axes)
r = np.linspace(-5, 5, 201)
for loss_of, name in ((HuberLoss(), "Huber"), (PseudoHuber(), "pseudo-Huber"), (LogCosh(), "log cosh")):
    (line,) = axis.plot(r, loss_of.psi(np.zeros_like(r), r), label=name)
    axis.plot(r, loss_of.slope(np.zeros_like(r), r), "--", color=line.get_color(), linewidth=1)
axis.plot(r, expit(r) - 0.5, color="C3", label="logistic")
axis.plot(r, expit(r) * expit(-r), "--", color="C3", linewidth=1)
axis.set(xlabel="residual, or linear predictor", title="9. Bounded scores psi (solid) and slopes (dashed)")
axis.legend(fontsize=8)

# %% [markdown]
# The derivative of Huber's psi jumps, so that no gamma bounds the third derivative of the loss; the two smooth losses
# shown with it have a gamma.
#
# Stochastic gradient descent uses m of n rows in each step, and has a smaller privacy cost per step, because a given
# row is probably not among the m rows. At equal (eps, delta), this does not compensate for the larger noise of a mean
# of m rows: compare the iterates of Huber's location below. (`dp_lm(mech="sgd")` runs the whole loop on protected rows
# and releases only the last iterate, without an interval. So the paths below are simulated, with the same noise.)

# %%
rng = np.random.default_rng(8)
T, batch, step = 100, 100, 0.3
value = 1 + rng.normal(size=n)
sigma, mu = noise_multiplier(ONE, DELTA, batch / n, T), ps.gdp_mu(ONE, DELTA)
ends: dict[str, list[float]] = {"all rows": [], f"{batch} of {n:,} rows": []}
axis = next(axes)
for r in range(REPLICATES["descent"]):
    for (name, found), color in zip(ends.items(), ("C0", "C1"), strict=True):
        theta, iterates = 0.0, [0.0]
        for _ in range(T):
            chosen = value if name == "all rows" else value[rng.choice(n, batch, replace=False)]
            sd = 2 * C_HUBER * (math.sqrt(T) / (n * mu) if name == "all rows" else sigma / batch)
            theta += step * (np.clip(chosen - theta, -C_HUBER, C_HUBER).mean() + sd * rng.normal())
            iterates.append(theta)
        found.append(theta)
        if r < 3:
            axis.plot(iterates, color=color, linewidth=0.9, label=name if r == 0 else None)
axis.axhline(1.0, color="black", linewidth=0.8)
axis.set(
    xlabel="step", ylabel="location", ylim=(0.6, 1.15), title=f"10. GD and SGD, eps = {ONE:g}, delta = {plain(DELTA)}"
)
axis.legend(fontsize=8)
spread = {name: float(np.sqrt(np.mean((np.array(found) - 1) ** 2))) for name, found in ends.items()}
print(
    "\nroot mean square error of Huber's location:", ", ".join(f"{name} {error:.3f}" for name, error in spread.items())
)

# %% [markdown]
# ## 8. Intervals need the noise's share
#
# To first order, noise of order ``1 / (n mu)`` is smaller than the sampling error of order ``1 / sqrt(n)``, and
# asymptotic formulas omit it. At realistic sample sizes it matters. `noise_share` is the share of the noise in the
# squared standard error, so that ``bse sqrt(1 - noise_share)`` is a standard error without noise, as in the uncorrected
# interval. The printed interval includes exactly the noise of all steps that remains in the last iterate.

# %%
sizes, replicates = (250, 500, 1000, 4000), REPLICATES["coverage"]
coverage: dict[str, list[float]] = {"with the noise's share": [], "without": []}
for size in sizes:
    inside: dict[str, list[np.ndarray]] = {name: [] for name in coverage}
    for r in range(replicates):
        rng = np.random.default_rng([8, size, r])
        rows = pd.DataFrame({"x": rng.normal(size=size)}).assign(y=lambda d: 1 + 2 * d.x)
        rows["y"] += rng.normal(size=size)
        fit = ps.dp_lm("y ~ x", rows, mu=ONE, loss="huber", mech="noisy_newton",
                       domain={"x": ps.Scale(0, 1), "y": ps.Scale(0, 1)}, rng=r)  # fmt: skip
        low, high = fit.conf_int().to_numpy().T
        off = abs(fit.params.to_numpy() - [1, 2])
        inside["with the noise's share"].append((low <= [1, 2]) & (high >= [1, 2]))
        inside["without"].append(off <= 1.96 * (fit.bse * np.sqrt(1 - fit.noise_share)).to_numpy())
    for name in coverage:
        coverage[name].append(float(np.mean(inside[name])))
# Monte Carlo error of a coverage of 95 %, averaged over two coefficients
error = math.sqrt(0.95 * 0.05 / (2 * replicates))
print(f"\ncoverage of 95 % intervals by rows, mu = {ONE:g}, {replicates} samples (+- {plain(round(error, 2))})")
print(pd.DataFrame(coverage, index=sizes).T.round(2).to_string())
axis = next(axes)
for name, shares in coverage.items():
    axis.plot(sizes, shares, "o-", label=name)
axis.axhline(0.95, color="black", linewidth=0.8)
axis.set(xlabel="rows", ylabel="coverage of 95 % intervals", ylim=(0.5, 1.02), title=f"11. Noisy Newton, mu = {ONE:g}")
axis.legend(fontsize=8)

# %% [markdown]
# ## 9. Local against central
#
# In the local model nobody is trusted: each person randomises their answer before it is sent (Warner 1965). Each row
# has noise of its own, so that the error of a share falls like ``1 / sqrt(n)``. A trusted party adds a single draw of
# noise to the sum, and this noise falls like ``1 / n``.

# %%
local = pd.DataFrame(index=[1000, 10_000, 100_000], columns=["local", "central", "sampling"], dtype=float)
for size in local.index:
    off: dict[str, list[float]] = {"local": [], "central": []}
    for r in range(REPLICATES["local"]):
        yes = pd.DataFrame({"yes": np.random.default_rng([9, r]).uniform(size=size) < 0.3}).astype(float)
        off["local"].append(ps.local.randomized_response(yes["yes"], ONE, rng=r).proportion - yes["yes"].mean())
        fit = ps.dp_mean("yes", yes, ONE, mech="laplace", domain={"yes": (0, 1)}, rng=r)
        off["central"].append(fit.params["yes"] - yes["yes"].mean())
    local.loc[size] = [*(np.sqrt(np.mean(np.square(found))) for found in off.values()), math.sqrt(0.21 / size)]
print(f"\nerror that privacy adds to a share, eps = {ONE:g}, beside the sampling error")
print(local.to_string(float_format="{:.5f}".format))
axis = next(axes)
for name in local:
    axis.loglog(local.index, local[name], "--" if name == "sampling" else "o-", label=name)
axis.set(xlabel="rows", ylabel="root mean square error", title=f"12. A share of yes, eps = {ONE:g}")
axis.legend(fontsize=8)

# %% [markdown]
# ## 10. Corrections
#
# First the remaining numbers, then the table: the formula in the notes, the correct formula, and the number that shows
# the difference. "Simulated" figures are from 20,000 runs of a recursion for a quadratic loss.

# %%
needed = [ps.gdp_delta(eps, eps) for eps in (HALF, ONE)]
correct(
    "Gaussian mechanism, proof",
    "density ratio <= e^eps + delta; exponent with eps^2 / (2 GS^2)",
    "the ratio has no bound: delta covers the mass where it exceeds e^eps; "
    "the exponent is eps^2 / (4 ln(1.25 / delta) GS^2)",
    f"with the printed exponent (sigma = GS / eps) delta is {needed[0]:.3f} "
    f"at eps = {plain(HALF)}, {needed[1]:.3f} at {ONE:g}",
)
tried = (0.1, 1.0, 10.0)
classical = [math.sqrt(2 * math.log(1.25 / DELTA)) / eps * ps.gdp_mu(eps, DELTA) for eps in tried]
correct(
    "Gaussian mechanism",
    "sigma = sqrt(2 ln(1.25 / delta)) GS / eps, eps < 1",
    "valid, but the least sigma is GS / gdp_mu(eps, delta)",
    f"times the least one: {', '.join(f'{ratio:.2f}' for ratio in classical)} "
    f"at eps = {', '.join(map(plain, tried))} (not promised)",
)
kappa_2 = quad(lambda u: (-HALF * norm.ppf(u) - HALF**2 / 2) ** 2, 0, 1)[0]
correct(
    "Central limit theorem",
    "kappa_2 = - int log^2 |f'|",
    "kappa_2 = + int log^2 |f'|",
    f"{kappa_2:.3f} for mu = {plain(HALF)}; with a minus s^2 is negative",
)
K = 100
p, c = 1 / (1 + math.exp(1 / math.sqrt(K))), 1.0
alpha = bdtrc(np.arange(K + 1), K, p)
f, middle = bdtr(np.arange(K + 1), K, 1 - p), (alpha >= c / K) & (alpha <= 1 - c / K)
above = [
    float((f - ps.GaussianDP(1.0).tradeoff(np.clip(alpha + s * c / K, 0, 1)) - c / K)[middle].max()) for s in (1, -1)
]
correct(
    "Central limit theorem, rate",
    "z_(1 - alpha - c / K) in both bounds",
    "z_(1 - alpha + c / K) in the upper bound",
    f"c = {c:g}, K = {K}: f is up to {above[0]:.3f} above the printed bound, and {-above[1]:.3f} below the right one",
)
from_k = next(k for k in range(1, 1000) if 2 * math.sqrt(2 * k * math.log(1 / DELTA)) < k)
correct(
    "Advanced composition",
    "eps = eps' / (2 sqrt(2 K ln(1 / delta'))) improves on the sum",
    "only for K > 8 ln(1 / delta')",
    f"from K = {from_k} on at delta' = {plain(DELTA)}",
)
three = ps.Ledger(ps.GaussianDP(2.0))
three.charge([(name, ps.GaussianDP(ONE)) for name in ("theta", "M", "Q")])
correct(
    "Intervals of NGD",
    "theta, M, Q with mu each",
    "sqrt(3) mu together; shares of mu^2 must add up to 1",
    f"the ledger: {three.spent().mu:.3f} for mu = {ONE:g}",
)

rng = np.random.default_rng(10)
eta, m, K = 0.5, 0.3, 60


def simulated(factor: float, rate: float) -> float:
    """Return the variance of an error e after K steps ``e <- rate e + factor N``, N normal, from 20,000 runs."""
    e = np.zeros(20_000)
    for _ in range(K):
        e = rate * e + factor * rng.normal(size=len(e))
    return float(e.var())


of_descent = 2 * eta**2 / simulated(eta, 1 - eta * m)
correct(
    "Variance of NGD",
    "plus 8 eta^2 B^2 K / (n mu^2): twice the last step's noise",
    "eta s^2 (I - R^2K) M^-1 (2 I - eta M)^-1, R = I - eta M, s = 2 B sqrt(K) / (n mu)",
    f"printed / simulated {of_descent:.2f} at eta = {plain(eta)}, M = {plain(m)}; "
    f"theory 2 eta m (2 - eta m) = {2 * eta * m * (2 - eta * m):.2f}",
)
of_newton = eta**2 / simulated(eta, 1 - eta)
correct(
    "Variance of noisy Newton",
    "the last step's noise",
    "times 1 / (eta (2 - eta)), where Hessians are near M",
    f"printed / simulated {of_newton:.2f} at eta = {plain(eta)}; theory {eta * (2 - eta):.2f}",
)
a_rows, b_rows = np.array([1.0, 0.0]), np.array([0.0, 1.0])
distance = float(np.linalg.norm(np.outer(a_rows, a_rows) - np.outer(b_rows, b_rows)))
correct(
    "Noise of matrices",
    "sd 2 B / (n mu) everywhere; B bounds |a|^2 in one place, |z| in another",
    "B bounds |a|^2; sd sqrt(2) B / (n mu) on the diagonal, B / (n mu) off it",
    f"two rows are at most {distance:.3f} B apart (Frobenius)",
)
residuals = rng.normal(size=200)
kappa = 2 * quad(lambda z: min(z, C_HUBER) ** 2 * norm.pdf(z), 0, math.inf)[0]


def fitted_scale(times: float) -> float:
    """Return the scale sigma, from a grid, that minimises ``mean(sigma rho(r / sigma)) + m kappa sigma / 2``.

    r are the residuals, rho is Huber's loss, kappa is the constant of the scale equation, and m is its multiplier
    `times`.
    """
    grid = np.geomspace(1e-3, 10, 2000)[:, None]
    u = np.abs(residuals) / grid
    rho = np.where(u < C_HUBER, u**2 / 2, C_HUBER * u - C_HUBER**2 / 2)
    return float(grid[np.argmin((grid * rho).mean(axis=1) + times * kappa * grid[:, 0] / 2), 0])


correct(
    "Robust regression",
    "plus kappa n sigma / 2, without the weights of rows",
    "plus mean(w) kappa sigma / 2",
    f"{len(residuals)} residuals N{(0, 1)}: sigma {fitted_scale(1):.2f}; "
    f"as printed {fitted_scale(len(residuals)):.3f}, the least tried",
)
correct(
    "NGD and Newton, limits",
    "sqrt(n) (theta_K - theta^(0)) is normal",
    "theta_0, the true value, in place of the start theta^(0)",
    f"above, sqrt(n) |theta_K - start| = {math.sqrt(n) * float(np.linalg.norm(paths['private'][-1])):.0f}",
)


def huber_location(x: np.ndarray) -> float:
    """Return Huber's estimate of the location of x, with scale 1."""
    return float(brentq(lambda t: np.clip(x - t, -C_HUBER, C_HUBER).sum(), x.min(), x.max()))


quantiles = norm.ppf(np.arange(1, 1000) / 1000)
far = 10
curve = 1000 * (huber_location(np.r_[quantiles, float(far)]) - huber_location(quantiles))
influence = C_HUBER / (2 * norm.cdf(C_HUBER) - 1)
correct(
    "Influence function",
    "Psi = grad rho, M = - d E Psi, IF = M^-1 Psi; but M_n is the mean Hessian, + d E Psi",
    "with the Hessian for M, IF = - M^-1 Psi",
    f"Huber at z = {far}: {-influence:.2f} with M_n, sensitivity curve {curve:.2f}",
)
grid = np.linspace(-40, 40, 400_001)
inside_one = (norm.pdf(grid, scale=2.0) - math.e * norm.pdf(grid)).clip(0).sum() * (grid[1] - grid[0])
correct(
    "Noise by influence",
    "T + gamma(T, F_n) ... Z is (eps, delta)-DP for large n",
    "no finite-sample guarantee: gamma depends on the rows. Use mech='newton'",
    f"Huber, rows at {-far} and {far}, one between: a second halves gamma; "
    f"delta {inside_one:.3f}, claimed {plain(DELTA)}",
)
correct(
    "Lower bound by influence",
    "error at least gamma / eps, up to a constant",
    "gamma / (n eps)",
    f"the private median above errs by {medians['rank'].median():.4f}; gamma / eps is {math.sqrt(math.pi / 2):.2f}",
)
e, r, g = 1, 1, 0
correct(
    "NGD, proof",
    "cross term (|e| + 2 eta |g|) r",
    "2 (|e| + eta |g|) r",
    f"e = r = {e}, g = {g}: ({e} + {r})^2 = {(e + r) ** 2}, "
    f"printed bound {e**2 + (e + 2 * g) * r + r**2}, right {e**2 + 2 * (e + g) * r + r**2}",
)
e, r = 2, 0.01
correct(
    "NGD, proof",
    "K >= C log(r^2 / |e_0|^2)",
    "K >= C log(|e_0|^2 / r^2)",
    f"e_0 = {e}, r = {plain(r)}: {math.log(r**2 / e**2):.1f} and {math.log(e**2 / r**2):.1f}",
)
half_square = np.array([-1.0, 0.0, 1.0]) ** 2 / 2
curvature = np.diff(half_square, 2)[0]
correct(
    "Strong convexity",
    "tau |theta_1 - theta_2|^2 without 1/2",
    "valid, but tau_1, tau_2 are half the usual constants",
    f"theta^2 / 2 has curvature {curvature:g} and tau = {plain(curvature / 2)}",
)
holders = 1000
shared, own = rng.normal(size=4000), rng.normal(size=(4000, holders)).mean(axis=1)
correct(
    "Local descent",
    "one Z_k for all holders",
    "Z_ik, one a holder: else it neither averages out nor is local",
    f"sd of the mean of {holders:,} holders' noise: {shared.std():.3f} and {own.std():.3f}",
)

print(f"\nCorrections to the lecture notes: {len(corrections)}")
headers = ("slide", "printed", "right", "the number that shows it")
print(tabulate(corrections, headers=headers, tablefmt="grid", maxcolwidths=[16, 28, 32, 36], disable_numparse=True))

# %%
target = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent) / "foundations.png"
figure.savefig(target, dpi=110)
plt.close(figure)
print(f"drawn: {target.name}")
