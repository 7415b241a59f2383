"""The constants of the adaptive engine, in one table: multiples of a noise's standard deviation, shares, and caps.

m is the number of coordinates; lengths are in standard deviations of a coordinate, so that a usual row has length
sqrt(m); "sds" are standard deviations of the noise of the release that is spoken of. All are public. What halving and
doubling each does to coverage and length is measured by ``python -m benchmarks.constants``. How the budget is divided
stands beside each estimator, in `SHARES`.
"""

from __future__ import annotations

# --- columns and levels (preconditioner)
MOST_CENTER = 0.999  # released centres lie within this part of their bounds
LEAST_COLUMN_VARIANCE = 1e-7  # least variance of a column, in squared half-ranges of its bounds
BLURRED = 1.0  # a variance below this many of its sds is released again, in the units of its first reading
WIDE = 5.0  # standardised values are clamped here when scales are released again
READABLE = {"normal": 19.0, "pure": 28.0}  # rows that a level needs: this many sds of an entry of the Hessian ...
COUNT_SDS = 2.5  # ... and this many sds of its own count more
LEVEL_ROWS = {"normal": 3.0, "pure": 1.5}  # ... and so many times as many for the steps of a likelihood
CLEAR_SDS = 3.0  # a level is known to be readable from column sums where it exceeds this many of their sds more
RARE = 1.5  # rows of a rare level are held at this many times m + 1 in squared length, by a ridge
CORNERS = 4096  # so many corners of the box are tried at most for the largest length of a row

# --- coarse matrix and start (preconditioner)
COARSE_SHARE = 0.05  # its rows are held at a radius whose noise is about this share of the information ...
COARSE_LEAST, COARSE_MOST = 2.0, 8.0  # ... and whose square is within these multiples of its order
FLOOR = 0.01  # its least eigenvalue, in squared standard deviations of the columns
LEAST_START_VARIANCE = 0.02  # least residual variance at the start, in the response's ...
RESIDUAL_NOISE = 0.5  # ... and at least this many sds: a small one clips the first step short

# --- histograms of lengths, and what is hidden beyond them (histogram)
VISIBLE = 2.3  # sds that make the window next to the last visible one visible: false alarm .01
AFTER_GAP = {"normal": 4.3, "pure": 6.0}  # sds that make a window visible beyond empty ones: false alarm 1e-5, 1e-4
RESIDUE = 1.0  # sds by which hidden counts may exceed their fitted size
FALLING = 1.1  # a tail whose last windows fall by this factor less than its ratio is continued as it falls
INVISIBLE = 0.004  # where VISIBLE + 1 sds are a larger share of all counts, the tail takes its slowest ratio
ALONG_SEEN = 4.0  # visible rows beyond the clip lie along one coefficient by at most sqrt(this / m),
ALONG_HIDDEN = 2.0  # ... hidden ones by at most sqrt(this / m)
PER_BIN = 5  # lengths a bin, log-uniform

# --- the choice between moments and steps (histogram, adaptive, sufficient_statistics)
NOISES = 16  # evenly spread noises of the histogram over which a length is foretold
REFERENCE = 20_000  # made-up rows on which it is
USUAL_RADIUS = 2.0  # squared radius of the Hessian, in m, where its noise is foretold
EDGE_OF_NOISE = 1.5  # largest eigenvalue of a noisy matrix, in sqrt(m) sds of an entry: 2 for many coordinates
LEAST_EIGENVALUE = 0.1  # least eigenvalue that is foretold of a Hessian less its noise, in its own
DROWNED = 0.45  # relative noise of the Hessian from which nothing optional is asked before the choice

# --- Hessian (adaptive)
BESIDE = 0.6  # size of the residual beside a row, at its clip, in radii of the row: free under normal noise
RESIDUAL_CLIP = 2.5  # clip of that residual, in residual scales
RADIUS_NOISE = 6.0  # weight of the noise, in sqrt(m) sds of an entry, against what the radius cuts off
RARE_RADIUS = 1.15  # least radius, in lengths of a row of the rarest kept level
FEW = 2.3  # a direction is unidentified if so many sds of a count of rows at the radius could make it,
FEW_SHARE = 0.2  # ... or, if that is less, this share of the rows

# --- first step, meat and score (adaptive)
FIRST_LEAST, FIRST_NOISE, FIRST_MOST = 3.0, 3.0, 6.0  # first clip in sqrt(m): at least, by its noise, at most
MEAT_LEAST, MEAT_NOISE = 4.0, 0.2  # squared radius of the meat: this times m, or what makes noise this share of it
MEAT_WORTH = 0.15  # a meat is released if 4 m of its sds at radius 1 are below this share of the scores
EDGE = 2.0  # an eigenvalue of the meat stands clear of the others beyond this many sqrt(m) sds ...
LEAST_CLEAR = 0.1  # ... and is at least this many means of the others,
LEAST_USUAL = 0.25  # whose mean is at least this many of those that were expected
LEAST_RATIO, MOST_RATIO = 0.97, 1.5  # variance of the final score over the meat's: what the first clip missed
MOVE, MOVE_SDS = 1.5, {"normal": 1.5, "pure": 2.0}  # weight of the estimate's move between clips beyond these sds
LEFT_OUT = 0.3  # a left-out row may have moved the score by this many residual scales along one coefficient
UNEXPLAINED = 1.5  # what unidentified directions explain is at most this many released residual scales
FAR_BOUNDS = 20.0  # standard deviations that a column's bounds may extend to before a note says what is assumed

# --- moments (sufficient_statistics)
SIGNAL = 0.2  # assumed squared length of the coefficients: how noise is shared between predictors and response
USUAL_RESIDUAL = 0.25  # residual scale before anything was released, in half-ranges of the response
LEAST_SIGMA = 0.03  # least residual scale, in standard deviations of the response
BLURS = 2.0  # the residual variance may be so many of its sds larger, where it says what a hidden direction explains
MOMENTS_MEAT_LEAST, MOMENTS_MEAT_NOISE = 4.0, 0.1  # as MEAT_LEAST and MEAT_NOISE
