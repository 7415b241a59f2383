"""Algorithms as conversations: functions of `ask`. They see releases, and never a row or a generator."""

from functools import partial

from privstats.estimators.base import Algorithm
from privstats.estimators.choose import choose
from privstats.estimators.moments import suffstats
from privstats.estimators.newton import newton

NORMS = ("linf", "l1", "l2")
SAMPLED, WIDEST = (
    21,
    10.0,
)  # coefficients, and bound of |theta|_1, up to which exact rejection is quick (benchmarks/speed_kng.py)

ESTIMATORS: dict[tuple[str, str], Algorithm] = {
    ("lm", "suffstats"): Algorithm(suffstats, ("matrixt", "hull", *NORMS, "gaussian"), ("ridge", "cov_type")),
    ("lm", "kng"): Algorithm(partial(choose, by="kng"), NORMS, ("theta_bound", "cov_type"), SAMPLED, WIDEST),
    ("lm", "expmech"): Algorithm(
        partial(choose, by="expmech"), ("loss",), ("theta_bound", "cov_type"), SAMPLED, WIDEST
    ),
    ("lm", "objpert"): Algorithm(partial(choose, by="objpert"), NORMS, ("theta_bound", "split", "cov_type")),
    ("lm", "newton"): Algorithm(newton, ("gaussian",), ("cov_type",), cov_type="HC"),
}
