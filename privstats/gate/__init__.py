"""The curator: the only code that sees rows, and the only importer of patsy."""

from privstats.gate.bounds import Ball, Bound, Cube, Line, OneHot, Positive
from privstats.gate.checks import CheckScores
from privstats.gate.leverage import Bins, ColumnMoments, Products, Pulls, PullsAndScale
from privstats.gate.moments import Moments
from privstats.gate.powers import PowerSums
from privstats.gate.scores import Scores

_SUMS = (Ball, Cube, Positive, OneHot, Moments, ColumnMoments, Pulls, PullsAndScale, Products, Bins, PowerSums)
BOUNDS: tuple[type[Bound], ...] = (*_SUMS, Line, Scores, CheckScores)
