"""The curator: the only code that sees rows, and the only importer of patsy."""

from privstats.sets.base import Ball, Bound, Cube, Line, OneHot, Positive
from privstats.sets.check_losses import CheckScores
from privstats.sets.leverage import Bins, ColumnMoments, Products, Pulls, PullsAndScale
from privstats.sets.moments import Moments
from privstats.sets.powers import PowerSums
from privstats.sets.squared_losses import Scores

_SUMS = (Ball, Cube, Positive, OneHot, Moments, ColumnMoments, Pulls, PullsAndScale, Products, Bins, PowerSums)
BOUNDS: tuple[type[Bound], ...] = (*_SUMS, Line, Scores, CheckScores)
