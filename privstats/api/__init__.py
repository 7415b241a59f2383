"""Signatures and docstrings of the public functions; other modules do the computations."""

from privstats.api.combining import combine
from privstats.api.counts import dp_hist, dp_mode
from privstats.api.diagnostics import dp_diagnostics
from privstats.api.glm import dp_glm
from privstats.api.location import dp_mean, dp_median, dp_quantile
from privstats.api.planning import plan
from privstats.api.protection import protect
from privstats.api.regression import dp_lm, dp_rq
from privstats.api.saved import load
from privstats.api.tables import summary_table

__all__ = [
    "combine",
    "dp_diagnostics",
    "dp_glm",
    "dp_hist",
    "dp_lm",
    "dp_mean",
    "dp_median",
    "dp_mode",
    "dp_quantile",
    "dp_rq",
    "load",
    "plan",
    "protect",
    "summary_table",
]
