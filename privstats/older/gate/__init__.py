"""The curator: the only code that sees rows, and the only importer of patsy."""

from privstats.older.sets.base import Ball, Bound, Cube, Line, OneHot, Positive
from privstats.older.sets.check_losses import CheckScores
from privstats.older.sets.leverage import Bins, ColumnMoments, Products, Pulls, PullsAndScale
from privstats.older.sets.moments import Moments
from privstats.older.sets.powers import PowerSums
from privstats.older.sets.squared_losses import Scores

_SUMS = (Ball, Cube, Positive, OneHot, Moments, ColumnMoments, Pulls, PullsAndScale, Products, Bins, PowerSums)
BOUNDS: tuple[type[Bound], ...] = (*_SUMS, Line, Scores, CheckScores)
