"""Algorithms as conversations: functions of `ask`. They see releases, and never a row or a generator."""

from privstats.estimators.base import Estimator
from privstats.estimators.moments import suffstats

ESTIMATORS: dict[tuple[str, str], Estimator] = {
    ("lm", "suffstats"): suffstats,
}
