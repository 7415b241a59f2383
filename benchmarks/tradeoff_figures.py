"""Trade-off functions: (eps, delta) and Gaussian guarantees side by side, and 1-GDP beside a tenfold composition.

Left and middle: the smallest type II error of a test about one row, under guarantees of both kinds. Right: K times (1 /
sqrt(K), 0)-DP for K = 1 and 10. As K grows, the trade-off function of this composition tends to the trade-off function
of 1-GDP (Dong, Roth and Su 2022, section 3.2), but the composition is not 1-GDP for any K, so the limit is drawn and
never promised.

The composition is computed in three ways. *Package*: from the delta of K composed guarantees at each eps in privstats,
``f(alpha) = max over eps of 1 - delta(eps) - e^eps alpha``. *dp_accounting*: the same formula, from the convolved
distributions of that package. *Binomial*: the Neyman-Pearson test of K answers of randomised response, Bin(K, p)
against Bin(K, 1 - p) with p = 1 / (1 + e^eps), which needs no delta.

Targets: package and dp_accounting differ from the binomial by at most 1e-3, dp_accounting only on the cautious (lower)
side, and the tenfold composition differs from 1-GDP by at most .03.

    python -m benchmarks.tradeoff_figures --seed 1 [--out DIR]
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.special import bdtr
from tabulate import tabulate

import privstats as ps
from benchmarks.common import FIGURES, new_figure, save, verdict
from privstats.privacy.composition import losses, together
from privstats.privacy.drawing import LEVELS, draw_tradeoff
from privstats.privacy.promise import mu_of
from privstats.privacy.tradeoff import approx_tradeoff

APPROX = ((0.25, 1e-6), (0.5, 1e-6), (1.0, 1e-6), (1.0, 0.1), (2.0, 1e-6))
GAUSSIAN = (0.25, 0.5, 1.0, 2.0, 3.0)
K, MU = 10, 1.0
CLOSE, NEAR, ROUNDING = 1e-3, 0.03, 1e-9
SHOWN = (0.01, 0.05, 0.1, 0.25, 0.5)


def by_delta(delta: Callable[[float], float], highest: float, alpha: np.ndarray) -> np.ndarray:
    """Return, at each alpha, the maximum of the trade-off functions of (eps, delta(eps))-DP for eps up to `highest`."""
    f = np.zeros_like(alpha)
    for eps in np.linspace(0, highest, 2001):
        f = np.maximum(f, approx_tradeoff(alpha, eps, delta(eps)))
    return f


def composed(eps: float, k: int, alpha: np.ndarray) -> np.ndarray:
    """Return the trade-off function of k eps-DP mechanisms, as composed by this package."""
    return by_delta(losses((ps.PureDP(eps),) * k).delta, k * eps, alpha)


def convolved(eps: float, k: int, alpha: np.ndarray) -> np.ndarray:
    """Return the trade-off function of k eps-DP mechanisms by dp_accounting, one convolution at a time."""
    from dp_accounting.pld.common import DifferentialPrivacyParameters
    from dp_accounting.pld.privacy_loss_distribution import from_privacy_parameters

    one = from_privacy_parameters(DifferentialPrivacyParameters(eps, 0.0))
    whole = one
    for _ in range(k - 1):
        whole = whole.compose(one)
    return by_delta(whole.get_delta_for_epsilon, k * eps, alpha)


def binomial(eps: float, k: int, alpha: np.ndarray) -> np.ndarray:
    """Return the trade-off function of k eps-DP mechanisms by the Neyman-Pearson test of binomial counts.

    The test rejects large counts of ones among k answers, and is randomised at the critical count.
    """
    p = 1 / (1 + math.exp(eps))
    counts = np.arange(-1, k + 1)
    below = np.array([[0.0 if c < 0 else bdtr(c, k, q) for c in counts] for q in (p, 1 - p)])
    return np.interp(alpha, 1 - below[0][::-1], below[1][::-1])


def figure(out: Path) -> None:
    """Draw the guarantees side by side and the composition beside its limit."""
    picture, (left, middle, right) = new_figure(3)
    for eps, delta in APPROX:
        ps.ApproxDP(eps, delta).plot(left)
    for mu in GAUSSIAN:
        ps.GaussianDP(mu).plot(middle)
    for k, style in ((1, "--"), (K, "-")):
        eps = MU / math.sqrt(k)
        label = f"{k} x ({eps:.3g}, 0)-DP"
        draw_tradeoff(lambda alpha, k=k, eps=eps: composed(eps, k, alpha), right, label=label, linestyle=style)
    ps.GaussianDP(MU).plot(right, label=f"{MU:g}-GDP, the limit", color="black", linewidth=1)
    for panel, title in ((left, "(eps, delta)-DP"), (middle, "mu-GDP"), (right, f"{K}-fold composition")):
        panel.set_title(title)
        panel.legend(fontsize="small")
    save(picture, out / "tradeoffs.png")


def print_mixture(delta: float = 1e-6) -> None:
    """Print the total eps of pure and Gaussian guarantees: by privacy-loss distributions, and from a total mu."""
    promises = (*[ps.PureDP(0.1)] * 10, *[ps.GaussianDP(0.5)] * 3)
    both, alone = together(promises, delta), ps.gdp_eps(mu_of(promises), delta)
    print(f"\n10 x (0.1, 0)-DP beside 3 x 0.5-GDP at delta = {delta:g}: eps = {both:.3f}, by mu alone {alone:.3f}")


def main() -> int:
    """Print a table, draw the figures and return whether a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True, help="for the custom of the house: nothing here is random")
    parser.add_argument("--out", type=Path, default=FIGURES, help="folder of the figure")
    options = parser.parse_args()
    eps = MU / math.sqrt(K)
    curves = {
        f"{MU:g}-GDP": ps.GaussianDP(MU).tradeoff,
        "package": lambda alpha: composed(eps, K, alpha),
        "dp_accounting": lambda alpha: convolved(eps, K, alpha),
        "binomial": lambda alpha: binomial(eps, K, alpha),
    }
    print(f"smallest type II error at each level: {K} x ({eps:.4g}, 0)-DP and its limit\n")
    at = np.array(SHOWN)
    print(tabulate([(name, *curve(at)) for name, curve in curves.items()], ("", *SHOWN), floatfmt=".4f"))
    limit, package, other, exact = (curve(LEVELS) for curve in curves.values())
    far = {
        "package": np.abs(package - exact).max(),
        "dp_accounting": np.abs(other - exact).max(),
        "1-GDP": np.abs(limit - exact).max(),
    }
    print(f"\nlargest distance to the binomial: {', '.join(f'{name} {gap:.2g}' for name, gap in far.items())}")
    print_mixture()
    missed = [f"{name}: {far[name]:.2g} > {CLOSE:g}" for name in ("package", "dp_accounting") if far[name] > CLOSE]
    if (other > exact + ROUNDING).any():
        missed.append("dp_accounting: above the binomial")
    if far["1-GDP"] > NEAR:
        missed.append(f"{K}-fold composition: {far['1-GDP']:.2g} from 1-GDP")
    figure(options.out)
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
