"""Error of the mechanism Duff and bounds of this error: Gillenwater and Munoz Medina (2020), section 4.2.

Duff chooses an answer x with probability proportional to exp(-eps k(x) / 2), where k(x) is the smallest number of rows
to add or remove such that the median becomes x. The medians are of 1000 values from the sources of `duff_figure1`. All
bounds depend on the data, so they are for teaching: no fit prints a bound. Exact tail probabilities are computed from
Duff's distribution, and draws of the package are compared with these probabilities. Notation: x is the answer, T the
sample median, [a, b] the public range, H_t the set of answers at a distance of at most t rows, and lambda its length.

* Proposition 4: ``P(distance > t) <= (b - a) / lambda(H_(t / 2)) e^(-eps t / 4)`` for the *distance* of data sets;
* Theorem 1: ``P(|x - T| > t) <= 2 exp(-eps gamma / 2) (b - a) / lambda(H_gamma)``, ``gamma = 1 / (2 beta*)``, where
  ``S_beta* / beta* = t / (e - 1)``; S is the smooth sensitivity under the relation that counts distance;
* Corollary 1: the error that is exceeded with probability eta is at most ``4 (e - 1) S_beta W / eps``, ``W e^W = eps (b
  - a) / (C eta)``, ``beta = eps / (4 W)``, if ``lambda(H_t) >= C t``;
* Proposition 7: Cauchy noise of scale gamma exceeds ``gamma tan(pi (1 - eta) / 2)`` with probability eta, exactly.

*Limits of the bounds.* No C holds for all t: for t < 1, H_t is the median alone, and H_t ends at [a, b]. Here C is the
largest constant that holds for t from 1 to the distance of the farthest point; beyond this distance the bound is not
needed. For evenly spaced values the paper has C = 2 (b - a) / n, as if each further row added a gap on both sides. Each
further row adds one gap: lambda(H_t) is near t (b - a) / n for large t, and C is half of (b - a) / n (just below t = 2
there is still one gap). The bounds hold, but they are long: see the table. The claim "exponentially better for small
eta" is right: Corollary 1 is below the Cauchy noise of Proposition 7 (with the paper's alpha = beta = eps / 6) for all
eta below a printed value.

Targets: every bound holds at eta = .5, .1, .01, .001; Theorem 1 is never above Corollary 1; for evenly spaced values
lambda(H_100) is within 1 % of 100 (b - a) / n, and C within 1 % of (b - a) / (2 n); the share of draws beyond the exact
quantile of level eta is eta up to 4 standard errors; Cauchy noise is longer than Corollary 1 at eta = 1e-6 for each
source and budget.

    python -m benchmarks.duff_bounds --seed 1 [--replicates 2000] [--plot PATH]
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from scipy.special import lambertw
from tabulate import tabulate

from benchmarks.common import arguments, new_figure, save, verdict
from benchmarks.duff_figure1 import BUDGETS, SOURCES, samples
from benchmarks.medians import DUFF, LEVEL, Range, Sample, draw
from privstats.mechanisms.comparison.dataset_distance import QUANTILE_BITS, Grid, exact_level, quantile_pieces
from privstats.mechanisms.comparison.local_sensitivity import smooth

RELATION = "add_remove"
ETAS = (0.5, 0.1, 0.01, 0.001)
RARE = 1e-6
EDGES = -60.0, 60.0  # range of log beta in which beta* of Theorem 1 is searched


@dataclass(frozen=True, eq=False)
class Bounds:
    """The distribution of Duff's private median of one sample at one eps, and the paper's bounds on the error."""

    sample: Sample
    eps: float

    @property
    def width(self) -> float:
        """The length of the public range."""
        return self.sample.within.high - self.sample.within.low

    @cached_property
    def pieces(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Three arrays for the m runs of equally likely answers.

        The arrays are the distances of a run's ends from the median, shape (m, 2); the runs' widths; and the runs'
        distances from the median in rows.
        """
        within = self.sample.within
        grid = Grid.within(*within, within.step, QUANTILE_BITS)
        starts, counts, distances = quantile_pieces(
            grid.offsets(self.sample.values), grid.top, exact_level(LEVEL), RELATION
        )
        some = counts > 0
        first = starts[some] - 0.5 - (self.sample.median / grid.unit - grid.origin)
        ends = np.abs(np.column_stack([first, first + counts[some]])) * grid.unit
        return np.sort(ends, axis=1), counts[some] * grid.unit, distances[some]

    @cached_property
    def mass(self) -> np.ndarray:
        """Probability of each run of answers."""
        _, widths, distances = self.pieces
        weight = widths * np.exp(-self.eps / 2 * (distances - distances.min()))
        return np.asarray(weight / weight.sum())

    def beyond(self, t: float) -> float:
        """Return the probability that the answer differs from the median by more than t."""
        ends, widths, _ = self.pieces
        part = np.clip((ends[:, 1] - np.maximum(ends[:, 0], t)) / np.maximum(widths, 1e-300), 0.0, 1.0)
        return float(self.mass @ part)

    def quantile(self, eta: float) -> float:
        """Return the error that is exceeded with probability eta."""
        return float(brentq(lambda t: self.beyond(t) - eta, 0.0, 2 * self.width, xtol=1e-9))

    def level_set(self, t: float) -> float:
        """Return lambda(H_t), the total length of the set H_t of answers at a distance of at most t rows."""
        _, widths, distances = self.pieces
        return float(widths[distances <= t].sum())

    def smooth_sensitivity(self, beta: float) -> float:
        """Return S_beta, the smooth sensitivity of the median."""
        return float(np.exp(smooth(self.sample.moves[RELATION], np.array([beta]))[0]))

    def proposition_4(self, t: float) -> float:
        """Return the bound of Proposition 4 on the probability of an answer at a distance of more than t rows."""
        return min(1.0, self.width / max(self.level_set(t / 2), 1e-300) * math.exp(-self.eps * t / 4))

    def theorem_1(self, t: float) -> float:
        """Return the bound of Theorem 1 on the probability that the answer differs from the median by more than t."""

        def excess(log_beta: float) -> float:
            return math.log(self.smooth_sensitivity(math.exp(log_beta))) - log_beta - math.log(t / (math.e - 1))

        gamma = 1 / (2 * math.exp(brentq(excess, *EDGES)))
        return min(1.0, 2 * math.exp(-self.eps * gamma / 2) * self.width / max(self.level_set(gamma), 1e-300))

    def theorem_1_quantile(self, eta: float) -> float:
        """Return the smallest t at which the bound of Theorem 1 is at most eta, or the width of the range."""
        low, high = 1e-9 * self.width, self.width
        if self.theorem_1(high) > eta:
            return self.width
        while high / low > 1.001:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self.theorem_1(middle) <= eta else (middle, high)
        return high

    @cached_property
    def C(self) -> float:
        """The largest constant C with lambda(H_t) >= C t for t from 1 to the distance of the farthest answer."""
        _, widths, distances = self.pieces
        inside = np.cumsum(np.bincount(distances, widths))
        return float((inside[1:-1] / np.arange(2, len(inside))).min())

    def corollary_1(self, eta: float) -> float:
        """Return the bound of Corollary 1 on the error that is exceeded with probability eta."""
        W = float(lambertw(self.eps * self.width / (self.C * eta)).real)
        return 4 * (math.e - 1) * self.smooth_sensitivity(self.eps / (4 * W)) * W / self.eps

    def proposition_7(self, eta: float) -> float:
        """Return the error that the paper's Cauchy noise, not clipped, exceeds with probability eta."""
        return 6 / self.eps * self.smooth_sensitivity(self.eps / 6) * math.tan(math.pi / 2 * (1 - eta))


def evenly_spaced(n: int = 1001) -> Bounds:
    """Return the bounds for n evenly spaced values in [0, 1] at eps = 1."""
    return Bounds(Sample.of(np.arange(1, n + 1) / (n + 1), Range(0, 1)), 1.0)


def misses(where: str, bounds: Bounds, draws: np.ndarray) -> list[str]:
    """Return the missed targets of one sample at one budget."""
    missed = []
    for eta in ETAS:
        exact, first, second = bounds.quantile(eta), bounds.theorem_1_quantile(eta), bounds.corollary_1(eta)
        if exact > min(first, second):
            missed.append(f"{where}, eta = {eta}: {exact:.4g} is beyond {first:.4g} or {second:.4g}")
        if min(first, bounds.width) > 1.002 * second:
            missed.append(f"{where}, eta = {eta}: Theorem 1 {first:.4g} is above Corollary 1 {second:.4g}")
        share = float((np.abs(draws - bounds.sample.median) > exact).mean())
        if abs(share - eta) > 4 * math.sqrt(eta * (1 - eta) / len(draws)) + 1 / len(draws):
            missed.append(f"{where}, eta = {eta}: {share:.4f} of the draws are beyond")
    _, _, distances = bounds.pieces
    for t in (1, 10, 100, 300):
        seen = float(bounds.mass[distances - distances.min() > t].sum())
        if seen > bounds.proposition_4(t):
            missed.append(f"{where}: Proposition 4 does not hold at t = {t}")
    if bounds.corollary_1(RARE) > bounds.proposition_7(RARE):
        missed.append(f"{where}: Corollary 1 is above Cauchy noise at eta = {RARE}")
    return missed


def crossing(bounds: Bounds) -> str:
    """Return, as text, the largest eta at which the bound of Corollary 1 is below Proposition 7."""
    etas = 10.0 ** -np.linspace(0.05, 6, 120)
    below = [eta for eta in etas if bounds.corollary_1(eta) < bounds.proposition_7(eta)]
    return f"{below[0]:.2g}" if below else "none"


def plot(found: dict[tuple[str, float], Bounds], path: Path) -> None:
    """Draw errors and bounds against eta at eps = 1."""
    figure, panels = new_figure(len(SOURCES), share_y=False)
    etas = 10.0 ** -np.linspace(0.05, 5, 60)
    for panel, source in zip(panels, SOURCES, strict=True):
        bounds = found[source, 1.0]
        panel.loglog(etas, [bounds.quantile(eta) for eta in etas], "k", label="Duff")
        panel.loglog(etas, [bounds.theorem_1_quantile(eta) for eta in etas], "C0", label="Theorem 1")
        panel.loglog(etas, [bounds.corollary_1(eta) for eta in etas], "C0--", label="Corollary 1")
        panel.loglog(etas, [bounds.proposition_7(eta) for eta in etas], "C3", label="Cauchy noise (Proposition 7)")
        panel.axhline(bounds.width, color="0.6", linewidth=0.8, label="the range")
        panel.set_title(f"{source}, eps = 1", fontsize=10)
        panel.set_xlabel("eta")
        panel.invert_xaxis()
    panels[0].set_ylabel("error exceeded with probability eta")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8)
    save(figure, path)


def main() -> int:
    """Print the tables, draw the figure and return the exit status."""
    options = arguments(__doc__, replicates=2000, figure="duff_bounds").parse_args()
    rng = np.random.default_rng([options.seed, 5])
    found, missed, rows = {}, [], []
    for source in SOURCES:
        (sample,) = samples(source, 1, options.seed)
        for eps in BUDGETS:
            bounds = found[source, eps] = Bounds(sample, eps)
            draws = draw(sample, DUFF, RELATION, eps, 0.0, options.replicates, rng)
            missed += misses(f"{source}, eps = {eps:g}", bounds, draws)
            for eta in (0.1, 0.001):
                cells = (bounds.quantile(eta), bounds.theorem_1_quantile(eta), bounds.corollary_1(eta))
                shown = (*cells, bounds.proposition_7(eta))
                rows.append((source, f"{eps:g}", eta, *(f"{x:.3g}" for x in shown), crossing(bounds)))
    headers = ("", "eps", "eta", "Duff", "Theorem 1", "Corollary 1", "Proposition 7", "below from eta")
    print(
        f"error exceeded with probability eta: exact, and as bounded (the range is a bound, too); seed {options.seed}"
    )
    print(tabulate(rows, headers, disable_numparse=True))
    even = evenly_spaced()
    n = len(even.sample.values)
    wide, narrow = even.level_set(100) * n / 100, even.C * n
    print("\nevenly spaced values, in units of (b - a) / n, where the paper has 2:")
    print(f"lambda(H_100) / 100 = {wide:.3f}, C = {narrow:.3f}")
    if not (abs(wide - 1) < 0.01 and abs(narrow - 0.5) < 0.005):
        missed.append(f"evenly spaced values: {wide:.3f}, {narrow:.3f}")
    plot(found, options.plot)
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
