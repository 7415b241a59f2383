"""Figure 1 of Gillenwater and Munoz Medina (2020): medians of 1000 values by Duff, and by smooth-sensitivity noise.

Duff, the mechanism of the paper, chooses an answer x with probability proportional to exp(-eps k(x) / 2), where k(x) is
the smallest number of changes of rows such that the median becomes x.

Sources: N(0, 1) on [-10, 10], U(0, 1) and Beta(.5, .5); eps = .1, .5, 1, 2; delta = .001 for mechanisms that need a
delta. An error is the expected distance of the release, clipped to the range, from the sample median, which in the
paper is the 500th value. It is exact for each data set, so only the data sets are random (the paper: 100 data sets, 100
draws for each).

*Two relations.* In the paper neighbours differ by an added or removed row, and Duff is defined for this relation;
smooth sensitivity is taken from Nissim, Raskhodnikova and Smith (2007), who replace a row. Here each mechanism is
computed for both relations. Ratios are relative to Duff under added or removed rows, as in the paper.

*Statements of the paper on N(0, 1).* Cauchy noise has 187 times the error of Duff at eps = .1 and 34 times at eps = 2:
both numbers lie between the ratios under the two relations. Laplace noise has 130 and 4 times the error: the ratios
here are about two thirds of 130, and 4. LaplaceLN has 4 and 15 times the error: these numbers are not reproduced. With
its conversion from concentrated privacy (Bun and Steinke 2019, Lemma 9) the ratio is near 280 and 30: it falls with
eps, like all of these ratios. Without a conversion ("c = eps", not known to be (eps, delta)-DP) it falls too, from 50
or more to 3 or less.

*How much of the gain is due to Duff.* For quantiles Duff is the rank mechanism (Smith 2011), which the paper leaves
out: "rank" interpolates ranks and aims at the midpoint of the 500th and the 501st value. And the paper's calibrations
are loose: "exact" and "ours" are calibrations of this package for the same guarantees.

*Further methods of the paper.* Propose-test-release has no figures in the paper. With the smallest eta whose test
passes with probability 1/2, which depends on the data and so is not private, its answers have at least 7 times the
error of Duff. The paper rejects the utility u_1, the distance to the median: the error with u_1 equals the error of a
uniform point of the range. Run times of a first draw and of further draws: if delta > 0, the paper's code searches
parameters for each data set, which takes 15 to 20 times as long as Duff; the package computes a curve of parameters
once for each guarantee.

Targets: on N(0, 1), the error of Duff under add_remove is at most .0255, .0057, .0033 and .0021 plus 3 Monte Carlo
errors of the difference (these figures are from 100 data sets); 187 and 34 lie between the ratios under the two
relations, up to 3 Monte Carlo errors. For all sources: rank is no worse than Duff up to 2 Monte Carlo errors, Duff is
better than all noise, and our calibrations are no worse than the paper's; answers of propose-test-release have at least
5 times, and u_1 at least 10 times, the error of Duff.

    python -m benchmarks.duff_figure1 --seed 1 [--replicates 600] [--plot PATH]
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tabulate import tabulate

from benchmarks.common import arguments, new_figure, save, verdict
from benchmarks.medians import (
    DUFF,
    METHODS,
    RANK,
    RELATIONS,
    SMOOTH,
    Range,
    Sample,
    calibrated,
    draw,
    error,
    nearness_error,
    tested_error,
)

N, DELTA, BUDGETS = 1000, 1e-3, (0.1, 0.5, 1.0, 2.0)
NORMAL = "N(0, 1)"
SOURCES: dict[str, tuple[Callable[[np.random.Generator, int], np.ndarray], Range]] = {
    NORMAL: (lambda rng, n: rng.standard_normal(n), Range(-10, 10)),
    "U(0, 1)": (lambda rng, n: rng.uniform(size=n), Range(0, 1)),
    "Beta(.5, .5)": (lambda rng, n: rng.beta(0.5, 0.5, n), Range(0, 1)),
}
# by eps: mean error of Duff under add_remove in 100 data sets
REFERENCE = dict(zip(BUDGETS, (0.0255, 0.0057, 0.0033, 0.0021), strict=True))
# by method: ratio, stated in the paper, of the error to the error of Duff at eps = .1 and at eps = 2
CLAIMED = {"Cauchy, paper": (187, 34), "Laplace, paper": (130, 4), "LaplaceLN, paper": (4, 15)}
LOOSE = {"Cauchy, paper": "Cauchy, exact", "Laplace, paper": "Laplace, exact", "LaplaceLN, paper": "LaplaceLN, ours"}
Cell = dict[tuple[str, str], np.ndarray]  # by method and relation: the exact expected error for each data set


def samples(source: str, replicates: int, seed: int) -> list[Sample]:
    """Return `replicates` data sets drawn from a source."""
    draw, within = SOURCES[source]
    rng = np.random.default_rng([seed, list(SOURCES).index(source)])
    return [Sample.of(draw(rng, N), within) for _ in range(replicates)]


def errors(drawn: list[Sample], eps: float, methods: tuple[str, ...] = METHODS) -> Cell:
    """Return the expected distance from the 500th value for each data set, by method and relation."""
    return {
        (method, relation): np.array([error(one, method, relation, eps, DELTA, one.median) for one in drawn])
        for method in methods
        for relation in RELATIONS
    }


def ratio(cell: Cell, method: str, relation: str) -> tuple[float, float]:
    """Return a method's mean error divided by the mean error of Duff under add_remove, and the Monte Carlo error."""
    duff = cell[DUFF, "add_remove"]
    times = cell[method, relation].mean() / duff.mean()
    return times, (cell[method, relation] - times * duff).std(ddof=1) / math.sqrt(len(duff)) / duff.mean()


def misses(source: str, eps: float, cell: Cell) -> list[str]:
    """Return the missed targets of one source at one budget."""
    missed, where = [], f"{source}, eps = {eps:g}"
    duff = cell[DUFF, "add_remove"]
    if source == NORMAL:
        room = 3 * duff.std(ddof=1) * math.hypot(1 / math.sqrt(len(duff)), 1 / math.sqrt(100))
        if duff.mean() > REFERENCE[eps] + room:
            missed.append(f"{where}: Duff {duff.mean():.4f} > {REFERENCE[eps]} + {room:.4f}")
        if eps in (BUDGETS[0], BUDGETS[-1]):
            claimed = CLAIMED["Cauchy, paper"][eps == BUDGETS[-1]]
            (less, doubt), (more, also) = (ratio(cell, "Cauchy, paper", one) for one in ("add_remove", "replace"))
            if not less - 3 * doubt <= claimed <= more + 3 * also:
                missed.append(f"{where}: {claimed} is not between {less:.0f} and {more:.0f}")
    for relation in RELATIONS:
        worse = cell[RANK, relation] - cell[DUFF, relation]
        if worse.mean() > 2 * worse.std(ddof=1) / math.sqrt(len(worse)):
            missed.append(f"{where}, {relation}: rank is worse than Duff by {worse.mean():.2g}")
        better = [name for name in SMOOTH if cell[name, relation].mean() < cell[DUFF, relation].mean()]
        missed += [f"{where}, {relation}: {name} is better than Duff" for name in better]
        for loose, ours in LOOSE.items():
            if cell[ours, relation].mean() > cell[loose, relation].mean():
                missed.append(f"{where}, {relation}: {ours} is worse than {loose}")
    return missed


def others(drawn: list[Sample], eps: float) -> dict[str, np.ndarray]:
    """Return expected errors, for each data set, of propose-test-release (by relation) and of the utility u_1."""
    tested = {f"ptr, {one}": np.array([tested_error(each, one, eps, DELTA) for each in drawn]) for one in RELATIONS}
    return tested | {"u_1": np.array([nearness_error(each, eps) for each in drawn])}


def late(source: str, eps: float, cell: Cell, other: dict[str, np.ndarray]) -> list[str]:
    """Return the missed targets of propose-test-release and of the utility u_1."""
    times = {name: values.mean() / cell[DUFF, "add_remove"].mean() for name, values in other.items()}
    wanted = {name: 10.0 if name == "u_1" else 5.0 for name in times}
    return [
        f"{source}, eps = {eps:g}: {name} errs {times[name]:.3g} times as much as Duff, wanted {wanted[name]:g}"
        for name in times
        if not times[name] >= wanted[name]
    ]


def run_times(sample: Sample, seed: int, draws: int = 20) -> list[tuple[str, str, str]]:
    """Return, by method, the milliseconds of a first draw and of each further draw."""
    rows = []
    for method in METHODS:
        calibrated.cache_clear()
        rng, spent = np.random.default_rng(seed), []
        for size in (1, draws):
            start = time.perf_counter()
            for _ in range(size):
                draw(sample, method, "add_remove", 1.0, DELTA, 1, rng)
            spent.append(1e3 * (time.perf_counter() - start) / size)
        rows.append((method, *(f"{each:.2f}" for each in spent)))
    return rows


def number(value: float) -> str:
    """Return a ratio as text, with three significant digits or as a whole number."""
    return f"{value:.0f}" if value >= 99.5 else f"{value:.3g}"


def report(source: str, cells: dict[float, Cell]) -> None:
    """Print the table of one source: errors of Duff, and ratios of the other errors to the errors of Duff."""
    first = [cell[DUFF, "add_remove"] for cell in cells.values()]
    shown = [f"{some.mean():.5f} +- {some.std(ddof=1) / math.sqrt(len(some)):.5f}" for some in first]
    rows = [("Duff, add_remove: error", *shown)]
    for method in METHODS:
        pairs = [[number(ratio(cell, method, one)[0]) for one in RELATIONS] for cell in cells.values()]
        rows.append((method, *(" / ".join(pair) for pair in pairs)))
    print(f"\n{source}: error of Duff, and how many times as much others err, replace / add_remove")
    print(tabulate(rows, ("", *(f"eps = {eps:g}" for eps in cells)), disable_numparse=True))


def report_others(cells: dict[float, Cell], rest: dict[float, dict[str, np.ndarray]]) -> None:
    """Print the errors of propose-test-release and of the utility u_1 as multiples of the errors of Duff."""
    duff = {eps: cell[DUFF, "add_remove"].mean() for eps, cell in cells.items()}
    names = next(iter(rest.values()))
    shown = [(name, *(number(rest[eps][name].mean() / duff[eps]) for eps in duff)) for name in names]
    print(tabulate(shown, ("answers of ptr; u_1", *(f"eps = {eps:g}" for eps in duff)), disable_numparse=True))


def compare(cells: dict[float, Cell]) -> None:
    """Print the ratios of errors in the paper beside the ratios found here."""
    rows = []
    for method, claimed in CLAIMED.items():
        for eps, paper in zip((BUDGETS[0], BUDGETS[-1]), claimed, strict=True):
            both = [ratio(cells[eps], name, one) for name in (method, LOOSE[method]) for one in RELATIONS]
            rows.append((method.split(",")[0], f"{eps:g}", paper, *(f"{x:.3g} +- {doubt:.1g}" for x, doubt in both)))
    headers = ("", "eps", "says", "found, replace", "found, add_remove", "ours, replace", "ours, add_remove")
    print(f"\n{NORMAL}: what the paper says of its baselines, and of how much that is due to their calibration")
    print(tabulate(rows, headers, disable_numparse=True))
    print("LaplaceLN at 4 to 15 times is not reproduced: computed as the paper describes it, it errs far more, and the")
    print("ratio falls with eps instead of rising.")


def plot(found: dict[str, dict[float, Cell]], rest: dict[str, dict[float, dict[str, np.ndarray]]], path: Path) -> None:
    """Draw mean errors against eps; the ends of a band are the errors under the two neighbouring relations."""
    figure, panels = new_figure(len(found), share_y=False)
    colors = {DUFF: "k", RANK: "tab:red", "Cauchy": "tab:blue", "Laplace": "tab:green", "LaplaceLN": "tab:orange"}
    for panel, (source, cells) in zip(panels, found.items(), strict=True):
        for method in METHODS:
            if method == "LaplaceLN, c = eps":
                continue
            means = np.array([[cell[method, one].mean() for one in RELATIONS] for cell in cells.values()])
            color = colors[method.split(",")[0]]
            style = "--" if "paper" in method else ":" if method == RANK else "-"
            panel.fill_between(list(cells), means[:, 0], means[:, 1], color=color, alpha=0.12, linewidth=0)
            panel.loglog(list(cells), means[:, 1], style, color=color, marker="o", markersize=3, label=method)
        for name, style in (("ptr, add_remove", "-."), ("u_1", ":")):
            means = [other[name].mean() for other in rest[source].values()]
            panel.loglog(list(cells), means, style, color="0.5", marker="s", markersize=3, label=name)
        panel.set_title(source, fontsize=10)
        panel.set_xlabel("eps")
        panel.set_xticks(list(cells), [f"{eps:g}" for eps in cells])
        panel.minorticks_off()
    panels[0].set_ylabel("mean distance to the sample median")
    figure.suptitle(
        f"n = {N}, delta = {DELTA:g} for Laplace noise; lines: add or remove a row; bands reach to replacing a row",
        fontsize=10,
    )
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    save(figure, path)


def midway(drawn: list[Sample]) -> list[tuple[str, ...]]:
    """Return, as texts, mean distances of the answers of Duff and of the rank mechanism from the midpoint, by eps.

    The midpoint lies between the two middle values of a data set.
    """
    centers = [float(np.median(one.values)) for one in drawn]
    rows = []
    for method in (DUFF, RANK):
        means = [
            np.mean([error(one, method, "add_remove", eps, DELTA, at) for one, at in zip(drawn, centers, strict=True)])
            for eps in BUDGETS
        ]
        rows.append((method, *(f"{mean:.5f}" for mean in means)))
    return rows


def main() -> int:
    """Print the tables, draw the figure and return the exit status."""
    options = arguments(__doc__, replicates=600, figure="duff_figure1").parse_args()
    found, rest, missed = {}, {}, []
    print(f"n = {N}, delta = {DELTA:g}, {options.replicates} data sets, seed {options.seed}")
    for source in SOURCES:
        drawn = samples(source, options.replicates, options.seed)
        found[source] = {eps: errors(drawn, eps) for eps in BUDGETS}
        report(source, found[source])
        rest[source] = {eps: others(drawn, eps) for eps in BUDGETS}
        report_others(found[source], rest[source])
        missed += [miss for eps in BUDGETS for miss in late(source, eps, found[source][eps], rest[source][eps])]
        if source == NORMAL:
            between, spent = midway(drawn), run_times(drawn[0], options.seed)
        missed += [miss for eps in BUDGETS for miss in misses(source, eps, found[source][eps])]
    print(f"\n{NORMAL}, add_remove: distance from half-way between the 500th and 501st values, where rank aims")
    print(tabulate(between, ("", *(f"eps = {eps:g}" for eps in BUDGETS)), disable_numparse=True))
    compare(found[NORMAL])
    print(f"\n{NORMAL}, eps = 1, n = {N}: milliseconds")
    print(tabulate(spent, ("", "first draw", "each further one"), disable_numparse=True))
    plot(found, rest, options.plot)
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
