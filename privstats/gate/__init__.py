"""The curator: the only code that sees rows, and the only importer of patsy."""

from privstats.gate.bounds import Ball, Bound, Cube, Line, Positive
from privstats.gate.leverage import Bins, ColumnMoments, Products, Pulls
from privstats.gate.moments import Moments
from privstats.gate.scores import Scores

BOUNDS: tuple[type[Bound], ...] = (Ball, Cube, Positive, Moments, Line, Scores, ColumnMoments, Pulls, Products, Bins)
