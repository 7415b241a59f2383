"""Composition rules and the classical Gaussian noise of lecture notes, compared with exact answers.

No number of this script is used as a guarantee. Sums of eps, the "advanced" rule and normal limits are drawn for
comparison with `privstats.privacy.composition`, the rule by which the package charges a budget; the classical noise is
compared with `ps.gdp_mu`.

*Steps.* The total eps of K steps, each of eps = .1, at delta = 1e-5, is computed by six rules. *Basic*: K eps.
*Advanced*, as in the lecture notes: ``eps' = 2 eps sqrt(2 K ln(1/delta'))``, which is no better than basic below K = 8
ln(1/delta') (better from K = 93 on). The advanced rule simplifies, for eps' < 1, the theorem called *in full*: ``eps
sqrt(2 K ln(1/delta')) + K eps (e^eps - 1)`` (Dwork and Roth 2014, Theorem 3.20). Without the condition eps' < 1 the
advanced rule is wrong: for steps of eps = 1 from K = 176 on, of eps = 2 from K = 97 on. *Limit*: G_{2 mu / s} of the
central limit theorem, where mu and s^2 are the sums over steps of ``kappa_1 = - int log|f'|`` and ``kappa_2 = + int
log^2 |f'|`` (Dong, Roth and Su 2022, section 3.2). With the minus sign that the notes print before kappa_2, s^2 is
negative. *Gaussian*: eps-GDP steps, whose exact total is sqrt(K) eps. *Exact*: the package, checked against the
Neyman-Pearson test of K answers of randomised response.

*Error of the limit.* Let f be the trade-off function of K steps of eps = mu / sqrt(K), mu = 1. ``K sup|f - G_mu|`` lies
between .116 (K = 3) and .132 (K = 2) for K = 2 ... 100, and within .001 of .125 from K = 27 on: the error is of order
1/K. At some levels f is below G_mu, so the limit promises too much there. The theorem, ``G(alpha + c/K) - c/K <=
f(alpha) <= G(alpha - c/K) + c/K`` on [c/K, 1 - c/K], holds for c = .05 and all these K. With ``z_{1 - alpha - c/K}`` in
both bounds, as printed in the lecture notes, the upper bound fails at K = 100 for each c tried from .05 to 10.

*Gaussian noise.* The classical sigma = sqrt(2 ln(1.25/delta)) GS / eps (GS: global sensitivity), proved for eps < 1, is
compared with the smallest sigma. At delta = 1e-5 it is 1.58 times as large at eps = .1, and 1.01 times at eps = 8;
beyond eps = 8.42 it is too small. At delta = .001 it is too small beyond eps = 7.46, and the realised delta at eps = 8
is 1.31 times the claimed delta; at delta = .05 it is too small beyond eps = 6.11.

Targets: each of these statements holds.

    python -m benchmarks.composition_figures --seed 1 [--plot PATH]
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import bdtr, bdtrc, ndtr, ndtri
from tabulate import tabulate

import privstats as ps
from benchmarks.common import FIGURES, new_figure, save, verdict
from privstats.privacy.composition import LossDistribution, losses, together
from privstats.privacy.tradeoff import gaussian_tradeoff

STEP, DELTA, MU = 0.1, 1e-5, 1.0
SHOWN = (1, 2, 5, 10, 20, 50, 92, 93, 100, 200, 500, 1000)
SIZES = range(1, 1001)
CHANGES = 93  # first number K of steps at which the advanced rule is better than the sum
# by eps of a step: first number K of steps at which the advanced rule fails
WRONG = {0.1: None, 0.5: 525, 1.0: 176, 2.0: 97}
LIMITS = range(2, 101)
# range of K sup|f - G|, for the trade-off function f of K steps and the Gaussian limit G; from K = FROM on, this number
# is within NEAR of SETTLED
RATE, SETTLED, NEAR, FROM = (0.116, 0.132), 0.125, 0.001, 27
# constant c for which the corrected limit theorem holds; values of c for which the theorem fails as the lecture notes
# print it
CONSTANT, TOO_SMALL = 0.05, (0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
BUDGETS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 6.0, 8.0)
CROSSINGS = {1e-5: 8.42, 1e-3: 7.46, 0.05: 6.11}  # by delta: eps beyond which the classical noise is too small
SAME = 1e-8  # tolerance for two computations of one number


def basic(eps: float, k: int) -> float:
    """Return the total eps of k steps by basic composition: the sum."""
    return k * eps


def advanced(eps: float, k: int, delta: float) -> float:
    """Return the total eps' of k steps by the rule ``eps = eps' / (2 sqrt(2 k ln(1/delta)))``, stated for eps' < 1."""
    return 2 * eps * math.sqrt(2 * k * math.log(1 / delta))


def in_full(eps: float, k: int, delta: float) -> float:
    """Return the total eps' of k steps by Dwork and Roth (2014), Theorem 3.20, which has no condition on eps'."""
    return eps * math.sqrt(2 * k * math.log(1 / delta)) + k * eps * math.expm1(eps)


def steps(eps: float, k: int) -> LossDistribution:
    """Return the privacy-loss distribution of k eps-DP steps, as computed by the package."""
    return losses((ps.PureDP(eps),) * k)


def corners(eps: float, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of the trade-off function of k eps-DP steps: type I errors, and matching type II errors.

    The function belongs to the Neyman-Pearson test of Bin(k, p) against Bin(k, 1 - p), p = 1 / (1 + e^eps), and is
    linear between its corners.
    """
    p, counts = 1 / (1 + math.exp(eps)), np.arange(k + 1)
    alpha = np.append(1.0, bdtrc(counts, k, p))  # the k + 2 tests reject counts above -1, 0, ..., k
    beta = np.append(0.0, bdtr(counts, k, 1 - p))
    return alpha[::-1], beta[::-1]


def delta_of_test(eps_step: float, k: int, eps: float) -> float:
    """Return the delta at `eps` of k steps of `eps_step`, from the trade-off function of `corners`."""
    alpha, beta = corners(eps_step, k)
    return float(np.maximum(0.0, 1 - beta - math.exp(eps) * alpha).max())


def kappas(slope: Callable[[float], float], kink: float | None = None) -> tuple[float, float]:
    """Return kappa_1 = - int log|f'| and kappa_2 = int log^2 |f'| of a trade-off function f, by quadrature.

    Parameters
    ----------
    slope : function
        Function of the level alpha that returns abs(f').
    kink : float, optional
        Level alpha at which the slope jumps.
    """
    pieces = [(0.0, 1.0)] if kink is None else [(0.0, kink), (kink, 1.0)]

    def over(power: int) -> float:
        return sum(quad(lambda alpha: math.log(slope(alpha)) ** power, *ends, epsabs=1e-12)[0] for ends in pieces)

    return -over(1), over(2)


def pure_kappas(eps: float) -> tuple[float, float]:
    """Return kappa_1 and kappa_2 of the trade-off function of eps-DP."""
    kink = 1 / (1 + math.exp(eps))
    return kappas(lambda alpha: math.exp(eps if alpha < kink else -eps), kink)


def gaussian_kappas(mu: float) -> tuple[float, float]:
    """Return kappa_1 and kappa_2 of the trade-off function of mu-GDP."""
    return kappas(lambda alpha: math.exp(-mu * float(ndtri(alpha)) - mu**2 / 2))


def limit(kappa_1: float, kappa_2: float, k: int) -> float:
    """Return the parameter 2 mu / s of the Gaussian limit of k equal steps: mu = k kappa_1, s^2 = k kappa_2."""
    return 2 * k * kappa_1 / math.sqrt(k * kappa_2)


def distance(eps: float, k: int, mu: float) -> tuple[float, float]:
    """Return the exact maxima of ``G_mu - f`` and of ``f - G_mu``: f is the trade-off function of k eps-DP steps.

    f is linear between corners and G_mu is convex: G_mu - f is largest at a corner, f - G_mu where the slopes are
    equal.
    """
    alpha, beta = corners(eps, k)
    loss = eps * np.arange(k, -k - 1, -2)  # log of minus the slope of each piece of f
    touch = ndtr(-(loss / mu + mu / 2))
    touch = touch[(alpha[:-1] < touch) & (touch < alpha[1:])]
    above = np.interp(touch, alpha, beta) - gaussian_tradeoff(touch, mu)
    return float((gaussian_tradeoff(alpha, mu) - beta).max()), float(above.max(initial=0.0))


def outside(k: int, c: float, printed: bool) -> float:
    """Return the largest violation of the limit theorem's bounds by the trade-off function f of k steps.

    The maximum is over many levels alpha; it is negative if f stays inside the bounds.

    Parameters
    ----------
    k : int
        Number of steps of eps = mu / sqrt(k).
    c : float
        Constant of the theorem; less than k / 2.
    printed : bool
        Whether the upper bound has the shift of the lower bound, as printed in the lecture notes.
    """
    shift = c / k
    corner, beta = corners(MU / math.sqrt(k), k)
    alpha = np.concatenate([np.linspace(shift, 1 - shift, 2001), corner, shift + np.geomspace(1e-9, 0.1, 200)])
    alpha = alpha[(shift <= alpha) & (alpha <= 1 - shift)]
    f = np.interp(alpha, corner, beta)
    upper = gaussian_tradeoff(alpha + shift if printed else np.maximum(alpha - shift, 0.0), MU) + shift
    lower = gaussian_tradeoff(np.minimum(alpha + shift, 1.0), MU) - shift
    return float(max((f - upper).max(), (lower - f).max()))


def classical(eps: float, delta: float) -> float:
    """Return the classical standard deviation sigma of Gaussian noise for a sensitivity of 1."""
    return math.sqrt(2 * math.log(1.25 / delta)) / eps


def too_small_beyond(delta: float) -> float:
    """Return the eps beyond which the classical sigma does not give (eps, delta)-DP."""
    return float(brentq(lambda eps: math.log(ps.gdp_delta(1 / classical(eps, delta), eps) / delta), 1.0, 20.0))


def first_wrong(eps: float, sizes: Iterable[int]) -> int | None:
    """Return the first number of steps at which the advanced rule's eps is below the exact eps, or None."""
    return next((k for k in sizes if steps(eps, k).delta(advanced(eps, k, DELTA)) > DELTA * (1 + SAME)), None)


def eps_together(sizes: Sequence[int]) -> dict[str, list[float]]:
    """Return the total eps at delta = `DELTA` by rule, for each number of steps."""
    kappa = pure_kappas(STEP)
    return {
        "basic": [basic(STEP, k) for k in sizes],
        "advanced": [advanced(STEP, k, DELTA) for k in sizes],
        "in full": [in_full(STEP, k, DELTA) for k in sizes],
        "limit": [ps.gdp_eps(limit(*kappa, k), DELTA) for k in sizes],
        "Gaussian": [together((ps.GaussianDP(STEP),) * k, DELTA) for k in sizes],
        "exact": [together((ps.PureDP(STEP),) * k, DELTA) for k in sizes],
    }


def misses_of_rules(sizes: Sequence[int], found: dict[str, list[float]]) -> list[str]:
    """Return the failed statements about basic composition, the advanced rule and exact composition."""
    missed = []
    for k, sums, rule, full, gauss, exact in zip(
        sizes, *(found[name] for name in ("basic", "advanced", "in full", "Gaussian", "exact")), strict=True
    ):
        if (sums < rule) is not (k < CHANGES):
            missed.append(f"K = {k}: basic {sums:.3f}, advanced {rule:.3f}, but they change places at {CHANGES}")
        if exact > min(sums, rule, full) * (1 + SAME):
            missed.append(f"K = {k}: the exact {exact:.4f} is more than a bound")
        if abs(gauss - ps.gdp_eps(math.sqrt(k) * STEP, DELTA)) > SAME:
            missed.append(f"K = {k}: Gaussian steps are not sqrt(K) {STEP}-GDP")
        if abs(delta_of_test(STEP, k, exact) - steps(STEP, k).delta(exact)) > SAME * DELTA:
            missed.append(f"K = {k}: the package's delta is not that of Neyman and Pearson's test")
    return missed


def kappa_rows() -> list[tuple[str, float, float, float, float]]:
    """Return the names of two trade-off functions, with kappa_1 and kappa_2 by quadrature and in closed form."""
    return [
        (f"{STEP:g}-DP", *pure_kappas(STEP), STEP * math.tanh(STEP / 2), STEP**2),
        (f"{MU:g}-GDP", *gaussian_kappas(MU), MU**2 / 2, MU**2 + MU**4 / 4),
    ]


def misses_of_kappas(rows: list[tuple[str, float, float, float, float]]) -> list[str]:
    """Return texts about the trade-off functions whose kappas by quadrature differ from the closed form.

    kappa_2 has a plus sign in both computations.
    """
    return [f"{name}: kappas {found}" for name, *found in rows if max(abs(np.subtract(found[:2], found[2:]))) > SAME]


def misses_of_the_limit(sizes: Iterable[int]) -> tuple[list[str], dict[int, tuple[float, float]]]:
    """Return the failed statements about the error of the Gaussian limit, and `distance` by number of steps."""
    missed, apart = [], {}
    for k in sizes:
        below, above = apart[k] = distance(MU / math.sqrt(k), k, MU)
        rate = k * max(below, above)
        if below <= 0:
            missed.append(f"K = {k}: f is nowhere below its limit")
        if not RATE[0] <= rate <= RATE[1]:
            missed.append(f"K = {k}: K sup|f - G| = {rate:.4f}, not in {RATE}")
        if k >= FROM and abs(rate - SETTLED) > NEAR:
            missed.append(f"K = {k}: K sup|f - G| = {rate:.4f}, not {SETTLED}")
        if (by := outside(k, CONSTANT, printed=False)) > 0:
            missed.append(f"K = {k}: outside the bounds with c = {CONSTANT} by {by:.2g}")
    missed += [
        f"K = 100: inside the bounds as printed, c = {c:g}" for c in TOO_SMALL if outside(100, c, printed=True) <= 0
    ]
    return missed, apart


def misses_of_classical_noise(rows: list[tuple[float, ...]]) -> list[str]:
    """Return the failed statements about the classical sigma.

    Parameters
    ----------
    rows : list of tuple
        delta, eps, ratio of the classical to the smallest sigma, ratio of the realised to the claimed delta.
    """
    missed = []
    for delta, eps, ratio, realised in rows:
        too_small = eps > too_small_beyond(delta)
        if (ratio < 1) is not too_small or (realised > 1) is not too_small:
            missed.append(f"eps = {eps}, delta = {delta}: sigma ratio {ratio:.3f}, delta ratio {realised:.3f}")
        if eps < 1 and realised > 1:
            missed.append(f"eps = {eps}, delta = {delta}: the classical theorem fails")
    for delta, eps in CROSSINGS.items():
        if abs(too_small_beyond(delta) - eps) > 0.005:
            missed.append(f"delta = {delta}: too small beyond {too_small_beyond(delta):.3f}, not {eps}")
    return missed


def classical_rows(budgets: Iterable[float] = BUDGETS) -> list[tuple[float, ...]]:
    """Return rows of four numbers: delta, eps, and two ratios.

    The ratios are the classical sigma divided by the smallest sigma, and the realised delta divided by the claimed
    delta.
    """
    return [
        (delta, eps, sigma * ps.gdp_mu(eps, delta), ps.gdp_delta(1 / sigma, eps) / delta)
        for delta in CROSSINGS
        for eps in budgets
        for sigma in (classical(eps, delta),)
    ]


def print_shares(total: float = 1.0) -> None:
    """Print, by rule, the eps of each of K steps such that the K steps together have eps = `total`."""
    rows = []
    for k in (10, 100, 1000):
        rule = total / advanced(1.0, k, DELTA)
        exact = brentq(lambda eps, k=k: together((ps.PureDP(eps),) * k, DELTA) - total, total / k / 2, 1.0)
        rows.append((k, total / k, rule, exact))
    print(f"\neps of each of K steps that together keep eps = {total:g} at delta = {DELTA:g}")
    print(tabulate(rows, ("K", "basic", "advanced", "exact"), floatfmt=("", ".5f", ".5f", ".5f")))


def print_promises_too_much(k: int = 10) -> None:
    """Print the eps at which the delta of the Gaussian limit is furthest below the exact delta of k steps."""
    one, mu = steps(STEP, k), limit(*pure_kappas(STEP), k)
    eps = np.linspace(0, k * STEP, 1001)
    short = np.array([one.delta(x) - ps.gdp_delta(mu, x) for x in eps])
    at = int(short.argmax())
    print(
        f"the limit is no promise: {k} steps of {STEP:g} at eps = {eps[at]:.3f} have delta = {one.delta(eps[at]):.4f}, "
        f"the limit {ps.gdp_delta(mu, eps[at]):.4f}"
    )


def draw(path: Path, apart: dict[int, tuple[float, float]]) -> None:
    """Draw eps against K, the error of the limit, and the ratio of the classical to the smallest sigma."""
    figure, (left, middle, right) = new_figure(3, share_y=False)
    sizes = sorted({round(k) for k in np.geomspace(1, 1000, 60)})
    styles = {"basic": "C3--", "advanced": "C1-.", "in full": "C1:", "limit": "C0-", "Gaussian": "C2:", "exact": "k-"}
    for name, eps in eps_together(sizes).items():
        left.loglog(sizes, eps, styles[name], linewidth=4 if name == "Gaussian" else 2, label=name)
    left.axvline(CHANGES, color="0.7", linewidth=1)
    left.annotate(f"K = {CHANGES}", (CHANGES, 0.12), xytext=(4, 0), textcoords="offset points", fontsize=13)
    left.set_title(f"eps of K steps of {STEP:g}\nat delta = {DELTA:g}", fontsize=15)
    scaled = np.array([[k * side for side in both] for k, both in apart.items()])
    middle.axhline(SETTLED, color="C0", linewidth=1)
    middle.semilogx(list(apart), scaled[:, 1], "k.", label="f above G")
    middle.semilogx(list(apart), scaled[:, 0], "C3.", label="f below G: promises too much")
    middle.set_ylim(0, 0.2)
    middle.set_title(f"K sup |f - G|: K steps of {MU:g} / sqrt(K)\nfrom their limit, {MU:g}-GDP", fontsize=15)
    for panel in (left, middle):
        panel.set_xlabel("K", fontsize=14)
    budgets = np.linspace(0.1, 10, 100)
    for delta in CROSSINGS:
        ratio = [classical(eps, delta) * ps.gdp_mu(eps, delta) for eps in budgets]
        right.plot(budgets, ratio, linewidth=2, label=f"delta = {delta:g}")
    right.axvspan(1, 10, color="0.93", zorder=0)
    right.axhline(1, color="k", linewidth=1)
    right.text(5.5, 1.9, "no theorem here", ha="center", fontsize=13)
    right.text(3.2, 0.86, "below 1: broken", ha="center", fontsize=13)
    right.set(xlim=(0, 10), ylim=(0.8, 3))
    right.set_xlabel("eps", fontsize=14)
    right.set_title("classical sigma\nover the smallest", fontsize=15)
    for panel in (left, middle, right):
        panel.tick_params(labelsize=13)
        panel.legend(fontsize=12)
    save(figure, path)


def main() -> int:
    """Print the tables, draw the figure and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True, help="for the custom of the house: nothing here is random")
    parser.add_argument("--plot", type=Path, default=FIGURES / "composition.png", help="where the plot is written")
    options = parser.parse_args()
    found = eps_together(SHOWN)
    print(f"eps of K steps of {STEP:g} at delta = {DELTA:g}; 8 ln(1/delta) = {8 * math.log(1 / DELTA):.1f}\n")
    print(tabulate(list(zip(SHOWN, *found.values(), strict=True)), ("K", *found), floatfmt=("", *[".3f"] * 6)))
    missed = misses_of_rules(SHOWN, found)
    changes = next(k for k in SIZES if advanced(STEP, k, DELTA) < basic(STEP, k))
    print(f"\nadvanced is better than basic from K = {changes} on")
    if changes != CHANGES:
        missed.append(f"advanced is better from K = {changes} on, not {CHANGES}")
    for eps, known in WRONG.items():
        first = first_wrong(eps, SIZES)
        at = "at no K up to 1000" if first is None else f"from K = {first} on"
        print(f"steps of {eps:g}: the advanced rule is wrong {at}")
        if first != known:
            missed.append(f"steps of {eps:g}: the advanced rule is wrong first at K = {first}, not {known}")
    print_shares()
    print()
    print_promises_too_much()
    rows = kappa_rows()
    print("\nkappas by quadrature, and in closed form; as printed, s^2 / K would be minus kappa_2\n")
    print(tabulate(rows, ("", "kappa_1", "kappa_2", "closed", "closed"), floatfmt=".6f"))
    missed += misses_of_kappas(rows)
    some, apart = misses_of_the_limit(LIMITS)
    missed += some
    rates = {k: k * max(both) for k, both in apart.items()}
    settled = 1 + max(k for k, rate in rates.items() if abs(rate - SETTLED) > NEAR)
    least, most = min(rates, key=rates.__getitem__), max(rates, key=rates.__getitem__)
    print(f"\nK sup|f - G_{MU:g}|, K = {LIMITS[0]} ... {LIMITS[-1]}: least {rates[least]:.4f} (K = {least}), ", end="")
    print(f"largest {rates[most]:.4f} (K = {most}), at 10 {rates[10]:.4f}, at 100 {rates[100]:.4f};")
    print(f"within {NEAR:g} of {SETTLED:g} from K = {settled} on")
    print(f"outside the theorem's bounds at K = 100, c = {CONSTANT:g}: {outside(100, CONSTANT, False):.2g};")
    print("as printed, " + ", ".join(f"c = {c:g}: {outside(100, c, True):.2g}" for c in TOO_SMALL))
    noise = classical_rows()
    print("\nclassical sigma over the smallest, and the delta that it realises over the claim\n")
    names = ("delta", "eps", "sigma ratio", "delta ratio")
    print(tabulate(noise, names, floatfmt=("g", "g", ".3f", ".4f")))
    beyond = ", ".join(f"{delta:g}: {too_small_beyond(delta):.2f}" for delta in CROSSINGS)
    print(f"\neps beyond which it is too small, by delta: {beyond}")
    missed += misses_of_classical_noise(noise)
    draw(options.plot, apart)
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
