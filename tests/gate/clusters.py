"""Rows for tests of computing clusters, and a function that returns the bytes of a fit's releases for comparisons."""

import numpy as np

from tests.architecture.leaks import planted

MEANT = {"unit": "who", "rows_per_unit": 2}


def data_of():
    """Return shuffled rows with units; one row has a missing value, and one row has no unit."""
    data = planted().sample(frac=1.0, random_state=2, ignore_index=True)
    data["who"] = np.random.default_rng(3).integers(0, 25, len(data)).astype(float)
    data.loc[5, "x"], data.loc[8, "who"] = np.nan, np.nan
    return data


def bits(fit):
    """Return the names and the bytes of a fit's releases."""
    return [(release.name, release.value.tobytes()) for release in fit.releases]
