"""Combined fits: coverage and length in a few cases; `benchmarks/combine.py` has many more."""

import numpy as np
import pandas as pd

import privstats as ps

TRUTH = np.array([1.0, 0.8, 0.3])
DOMAIN = ps.Domain({"x": (-1, 1), "z": (0, 10), "y": (-10, 10)})
REPLICATES = 30


def site(rng, n, low, high):
    """Return rows from one population, with values of x only between `low` and `high`, a part of the range of x."""
    x, z = rng.uniform(low, high, n), np.clip(rng.gamma(2.0, 1.0, n), 0, 10)
    return pd.DataFrame({"x": x, "z": z, "y": 1 + 0.8 * x + 0.3 * z + (1 + abs(x)) * rng.standard_normal(n)})


def test_intervals_of_combined_fits_cover_and_are_shorter():
    """Intervals of combined fits cover, and are shorter than the intervals of single fits.

    The combined fits are of two sites in which x has different ranges, or two fits of the same site. The tolerance of a
    coverage is three standard deviations of the share of 90 intervals that cover.
    """
    rng = np.random.default_rng(4)
    covers, ratios = {"disjoint": [], "same": []}, {"disjoint": [], "same": []}
    for _ in range(REPLICATES):
        A, B = site(rng, 1500, -1, 0.5), site(rng, 1500, 0, 1)
        first, other, again = (
            ps.dp_lm("y ~ x + z", rows, mu=1.0, mech="suffstats", domain=DOMAIN, rng=int(rng.integers(2**60)))
            for rows in (A, B, A)
        )
        for rows, second in (("disjoint", other), ("same", again)):
            ends = [fit.conf_int().to_numpy() for fit in (ps.combine([first, second], rows=rows), first, second)]
            covers[rows].append((ends[0][:, 0] <= TRUTH) & (ends[0][:, 1] >= TRUTH))
            lengths = [end[:, 1] - end[:, 0] for end in ends]
            ratios[rows].append(lengths[0] / np.minimum(lengths[1], lengths[2]))
    for rows, longest in (("disjoint", 0.85), ("same", 0.95)):
        assert np.mean(covers[rows]) > 0.95 - 3 * np.sqrt(0.95 * 0.05 / (3 * REPLICATES))
        assert np.median(ratios[rows]) < longest
