"""Section 6.2 of Gillenwater and Munoz Medina (2020): medians of 310 spines, 210 abnormal (AB) and 100 normal (NO).

Six measurements, eps = .5, 1000 trials of each mechanism for each class; delta = 1 / n of the class for mechanisms that
need a delta; rows are added or removed; releases are clipped to the range. Duff is the mechanism of the paper (see
`duff_figure1`). Figure 2 of the paper (and Figure 3, in the appendix) shows histograms of releases: the histograms of
the two classes overlap for LaplaceLN noise, but not for Duff. The rank mechanism and the better calibrations of this
package are shown beside them.

*The paper's range is the observed range of both classes together*: the values of two patients, which no guarantee
covers. It is used in the first table, as in the paper; the second table has the public bounds of
`privstats.datasets.load_vertebral`.

An entry is the mean distance from the class median (the lower of the two middle values), AB / NO. "in order" is the
share of pairs of trials, one of each class, that are ordered like the class medians: 50 % carries no information, and a
low share means that the histograms overlap. Means are over the six measurements, of distances in units of the
interquartile range.

Targets, for both ranges, up to 3 Monte Carlo errors: the mean distances of Duff and of the rank mechanism are no larger
than the mean distance of any noise, for each measurement and class; over all measurements and classes, rank is no worse
than Duff. With the paper's range, Duff and rank order at least 9 of 10 pairs on average, and LaplaceLN, as in the
paper, fewer than 3 of 4 pairs.

    python -m benchmarks.vertebral_duff --seed 1 [--replicates 1000] [--plot PATH]
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
from tabulate import tabulate

from benchmarks.common import arguments, save, verdict
from benchmarks.medians import DUFF, METHODS, RANK, SMOOTH, Range, Sample, draw
from privstats.datasets import Dataset, load_vertebral

EPS, RELATION = 0.5, "add_remove"
CLASSES = ("AB", "NO")
OBSERVED, PUBLIC = "observed range (paper, not private)", "public bounds"
SHOWN = ("LaplaceLN, paper", "Cauchy, exact", DUFF, RANK)
Trials = dict[tuple[str, str, str], np.ndarray]  # by measurement, method and class: the released medians


def measurements(loaded: Dataset) -> list[str]:
    """Return the names of the measured columns."""
    return [name for name in loaded.data if name != "class"]


def samples(loaded: Dataset, version: str) -> dict[tuple[str, str], Sample]:
    """Return the values of each measurement and class, within the observed range or the public bounds (`version`)."""
    data, domain = loaded
    found = {}
    for name in measurements(loaded):
        column = data[name].to_numpy(float)
        known = domain[name]
        within = Range(column.min(), column.max()) if version == OBSERVED else Range(known.lo, known.hi)
        for group in CLASSES:
            found[name, group] = Sample.of(column[data["class"] == group], within)
    return found


def trials(of: dict[tuple[str, str], Sample], replicates: int, seed: int) -> Trials:
    """Return releases of the median for each measurement, method and class."""
    rng = np.random.default_rng(seed)
    return {
        (name, method, group): draw(one, method, RELATION, EPS, 1 / len(one.values), replicates, rng)
        for (name, group), one in of.items()
        for method in METHODS
    }


def distances(of: dict[tuple[str, str], Sample], drawn: Trials) -> Trials:
    """Return distances of releases from the class median."""
    return {key: np.abs(releases - of[key[0], key[2]].median) for key, releases in drawn.items()}


def overall(of: dict[tuple[str, str], Sample], away: Trials, method: str) -> np.ndarray:
    """Return distances in units of interquartile ranges, for each trial a mean over measurements and classes."""
    wide = {}
    for name, _ in of:
        both = np.concatenate([of[name, group].values for group in CLASSES])
        wide[name] = float(np.subtract(*np.quantile(both, [0.75, 0.25])))
    return np.mean([away[name, method, group] / wide[name] for name, group in of], axis=0)


def in_order(of: dict[tuple[str, str], Sample], drawn: Trials, name: str, method: str) -> float:
    """Return the share of pairs of releases, one of each class, that are ordered like the class medians."""
    low, high = sorted(CLASSES, key=lambda group: of[name, group].median)
    lower = np.sort(drawn[name, method, low])
    below = np.searchsorted(lower, drawn[name, method, high], side="left")
    tied = np.searchsorted(lower, drawn[name, method, high], side="right") - below
    return float((below + tied / 2).mean() / len(lower))


def worse(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Return whether the mean of the distances `ours` exceeds the mean of `theirs` by over 3 Monte Carlo errors."""
    room = 3 * math.hypot(ours.std(ddof=1), theirs.std(ddof=1)) / math.sqrt(len(ours))
    return bool(ours.mean() > theirs.mean() + room)


def misses(version: str, of: dict[tuple[str, str], Sample], drawn: Trials) -> list[str]:
    """Return the missed targets for one range."""
    missed, away = [], distances(of, drawn)
    cells = {f"{name}, {group}": {m: away[name, m, group] for m in METHODS} for name, group in of}
    for where, by_method in cells.items():
        missed += [
            f"{version}, {where}: {rival} is better than {method}"
            for method in (DUFF, RANK)
            for rival in SMOOTH
            if worse(by_method[method], by_method[rival])
        ]
    if worse(overall(of, away, RANK), overall(of, away, DUFF)):
        missed.append(f"{version}: Duff is better than rank")
    if version == OBSERVED:
        names = list(dict.fromkeys(name for name, _ in of))
        right = {m: np.mean([in_order(of, drawn, name, m) for name in names]) for m in (DUFF, RANK, SHOWN[0])}
        missed += [f"{method} orders only {right[method]:.0%}" for method in (DUFF, RANK) if right[method] < 0.9]
        if right[SHOWN[0]] >= 0.75:
            missed.append(f"{SHOWN[0]} orders {right[SHOWN[0]]:.0%}")
    return missed


def report(loaded: Dataset, version: str, of: dict[tuple[str, str], Sample], drawn: Trials) -> None:
    """Print the table of mean distances for one range."""
    names, away = measurements(loaded), distances(of, drawn)
    rows = [("class medians", *(" / ".join(f"{of[name, group].median:.4g}" for group in CLASSES) for name in names))]
    for method in METHODS:
        cells = [" / ".join(f"{away[name, method, group].mean():.3g}" for group in CLASSES) for name in names]
        scaled = overall(of, away, method).mean()
        right = np.mean([in_order(of, drawn, name, method) for name in names])
        rows.append((method, *cells, f"{scaled:.3g}", f"{right:.0%}"))
    print(f"\nmean distance from the class median, AB / NO, {version}")
    headers = ("", *(name.replace("_", "\n") for name in names), "mean,\nin quartile\nranges", "in\norder")
    print(tabulate(rows, headers, disable_numparse=True))


def plot(loaded: Dataset, of: dict[tuple[str, str], Sample], drawn: Trials, path: Path) -> None:
    """Draw histograms of the data and of releases, one row for each measurement; lines mark class medians."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = measurements(loaded)
    figure = Figure(figsize=(15, 13), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(names), 1 + len(SHOWN))
    for row, name in zip(panels, names, strict=True):
        within = of[name, "AB"].within
        edges = np.linspace(within.low, within.high, 81)
        for panel, method in zip(row, ("data", *SHOWN), strict=True):
            for group, color in zip(CLASSES, ("tab:red", "tab:blue"), strict=True):
                values = of[name, group].values if method == "data" else drawn[name, method, group]
                bins = edges[::4] if method == "data" else edges
                panel.hist(values, bins, density=True, alpha=0.5, color=color, histtype="stepfilled")
                panel.axvline(of[name, group].median, color=color, linewidth=0.8)
            panel.set_yticks([])
            if name == names[0]:
                panel.set_title({"data": "the data themselves"}.get(method, method), fontsize=10)
            if method != "data":
                panel.set_xlabel(f"classes in order: {in_order(of, drawn, name, method):.0%}", fontsize=8)
        row[0].set_ylabel(name.replace("_", "\n"), fontsize=9)
    figure.suptitle(
        f"Private medians of abnormal (red) and normal (blue) spines, {len(drawn[names[0], DUFF, 'AB'])} trials, "
        f"eps = {EPS:g}; lines are the class medians, and what falls outside the range lies at its ends"
    )
    save(figure, path)


def main() -> int:
    """Print the tables, draw the figure and return the exit status."""
    options = arguments(__doc__, replicates=1000, figure="vertebral_duff").parse_args()
    try:
        loaded = load_vertebral()
    except FileNotFoundError as absent:
        print(f"skipped: {absent}")
        return 0
    print(f"eps = {EPS:g}, delta = 1 / n, {options.replicates} trials, seed {options.seed}")
    missed = []
    for version in (OBSERVED, PUBLIC):
        of = samples(loaded, version)
        drawn = trials(of, options.replicates, options.seed)
        report(loaded, version, of, drawn)
        missed += misses(version, of, drawn)
        if version == OBSERVED:
            plot(loaded, of, drawn, options.plot)
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
