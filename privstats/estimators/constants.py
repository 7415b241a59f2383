"""The constants of the engine, in one table: multiples of a noise's standard deviation, shares, and caps.

m is the number of coordinates; lengths are in standard deviations of a coordinate, so that a usual row has length
sqrt(m); "sds" are standard deviations of the noise of the release that is spoken of. All are public. What halving and
doubling each does to coverage and length is measured by ``python -m benchmarks.constants``. How the budget is divided
stands beside each estimator, in `SHARES`.
"""

from __future__ import annotations

# --- columns and levels (frame, levels)
MOST_CENTER = 0.999  # released centres lie within this part of their bounds
WIDE = 5.0  # standardised values are clamped here when scales are released again
READABLE = {"normal": 19.0, "pure": 28.0}  # rows that a level needs: this many sds of an entry of the Hessian ...
READ_WITH_SUMS = 8.0  # ... and so many of the coarse matrix where sums of columns tell the rest
LEVEL_ROWS = {"normal": 3.0, "pure": 1.5}  # ... and so many times as many for the steps of a likelihood
MOST_LEFT_OUT = 0.25  # share of the rows that levels may hold which are left out: the rest is still the population
TWO_ENDED = 0.6  # a numeric column with this part of the largest variance about its mean may have two values
RARE_YES = 0.1  # part of the rows at an end of the response's bounds from which on it is not rare

# --- columns and matrices before a perturbed minimiser (frame, preconditioner, adaptive)
LEAST_RANKS = 5.0  # what wide bounds hide is read by ranks, if the question's budget times the rows exceeds this;
BEYOND = (0.03, 0.3)  # a scale is a quantile of distances, LEAST_RANKS beyond it, within these
NARROWEST = 1e-5  # least scale of a column, distance or residual, in half-ranges; smoothing, in residual scales
LEAST_SPREAD = 1.8  # a scale by ranks is at least its mean's sd, or a part of the first reading, over this: atoms
COARSE_WITHIN = (0.06, 0.25)  # the coarse matrix's share puts its noise, in sqrt(m) sds, at MATRIX_NOISE, within these;
COARSE_BESIDE = 0.19  # ... at most this where a Hessian, which has as much, is released at the minimiser,
AGAIN = 0.7  # ... and a second one, of whitened rows, this part of it, at least its own share,
HELD_NOISE = 0.1  # rows of a matrix are held where noise would be this part of the rows, half as much before steps,
SECOND_HELD = 0.4  # ... of a second one, combined with the first, this part of what the weakest direction surely has,
HELD_LEAST, HELD_MOST = 1.5, 8.0  # ... at squared lengths within these multiples of m; other long rows at the first

# --- the perturbed minimiser of least squares (perturbed_least_squares)
TILT_SHARE = 0.94  # of the coefficients' budget, of least squares; the ridge has the rest
BOUNDED_TILT = 0.88  # ... where BOUNDED_RIDGES are chosen from: a larger curvature lets long scores through
BOUNDED_RIDGES = (0.12, 0.25, 0.5)  # ridges for rows' curvatures, in rows: the last, or of the shortest interval
SUM_SEEN = 0.3  # squares that add up to less than this part of what was expected have a part out of sight
SQUARES_NOISE = 0.5  # squares of scores are held where noise is this part of their variance, which is at least this

# --- coarse matrix and start (preconditioner)
MOST_STEPS = 2.3  # steps of means are taken only where they are at most so many times as long as without privacy
MOST_FIRST_NOISE = 0.375  # its noise, in variances of a column, up to which steps of least squares arrive
FLOOR = 0.01  # least eigenvalue, and least variance of residuals, in those of columns (mean and variance) and response

# --- histograms of lengths, and what is hidden beyond them (histogram)
VISIBLE = 2.3  # sds that make a level, an atom, a direction, windows next to visible ones visible: false alarm .01
AFTER_GAP = {"normal": 4.3, "pure": 6.0}  # sds that make windows beyond empty ones visible: false alarm 1e-5, 1e-4
WIDE_WINDOWS = (4, 8)  # bins right behind visible ones, whose sum shows a slow tail from VISIBLE sds on
RESIDUE = 1.0  # sds by which hidden counts may exceed their fitted size
FALLING = 1.1  # a tail's ratio is this times that of the last windows, within what is assumed of it
ALONG_SEEN = 4.0  # visible rows beyond the clip lie along one coefficient by at most sqrt(this / m),
ALONG_HIDDEN = 2.0  # ... hidden ones by at most sqrt(this / m)
PER_BIN = 5  # lengths a bin, log-uniform

# --- the choice between moments and steps (histogram, adaptive, least_squares, sufficient_statistics)
PLACES = 16  # evenly spread noises, rows, radii or normal errors at which what costs time is done
LEAST_EIGENVALUE = 0.1  # least eigenvalue of a matrix less its noise, in its usual one
DROWNED = 0.4  # relative noise of the Hessian, foretold, from which moments have all of the budget

# --- Hessian (least_squares, likelihood)
RADIUS_NOISE = 3.0  # weight of the noise's largest eigenvalue against what the radius cuts off

# --- first step, meat and score (least_squares, one_step)
FIRST_LEAST, FIRST_MOST = 3.0, 6.0  # the first step's clip over sqrt(m): at least, and at most
MEAT_LEAST = 4.0  # squared radius of the meat: this times m, or more up to MATRIX_NOISE
MATRIX_NOISE = 0.2  # part of what is told that noise may be: whether it is asked, shares and radii go by it
LITTLE_SEEN = 0.15  # squared residuals are summed up if the histogram shows less than this part of what they may be
MOST_RATIO = 1.5  # variance of the final score over the meat's, at most: what the first clip missed
MOVE, MOVE_SDS = 1.5, {"normal": 1.5, "pure": 2.0}  # weight of the estimate's move between clips beyond these sds
LEFT_OUT = 0.3  # in levels left out a slope differs by at most so many residual scales, or so much eta, per sd of x
UNEXPLAINED = 1.5  # what unidentified directions explain is at most this many released residual scales
FAR_BOUNDS = 20.0  # standard deviations that a column's bounds may extend to before a note says what is assumed

# --- moments (sufficient_statistics)
SIGNAL = 0.2  # assumed squared length of the coefficients: how noise is shared between predictors and response
USUAL_RESIDUAL = 0.25  # residual scale before anything was released, in half-ranges of the response

# --- made-up rows and the start of a loss (made_up, beginning, likelihood)
MADE_UP = 4096  # public rows on which expectations are taken, and corners of the box for the longest one, at most

# --- steps of a likelihood (likelihood)
BURN_IN = 3  # steps before the last one
BURN_IN_EXCESS = 0.3  # weight of what a clip takes off a score of the burn-in, against its noise
CURVATURES = (1.0, 4.0)  # met by a step along itself, in those of made-up rows: steps are shortened, never stretched
FAR_PSI = 60.0  # where psi has no bound: it is taken up to this; root m times this are Hessian rows and the first clip
EVERY_MADE_UP = 4  # every fourth made-up row serves where all responses are summed over
UNUSUAL = 8.0  # times its expected length: a coefficient that the last step moves further is not given
FEW_OUTCOMES = 8.0  # rows on which a coefficient must rest at least, and rare outcomes at the start
ETA_SIGNAL = 2.0  # of eta, root mean square: how far unidentified directions, ridges, steps of the constant may move it

# --- perturbed minimisers (perturbed_likelihood, objective_perturbation, quantile_regression)
LONG_ROW = 0.99  # quantile of the lengths of made-up rows, up to which rows count in full in a Hessian
HESSIAN_NOISE = 0.07  # the Hessian's share is its noise, had it the whole promise, over this part of the rows ...
HESSIAN_WITHIN = (0.12, 0.3)  # ... within these: where noise hides it nothing is given
PILOT_RIDGE = 0.3  # share of its curvature that a check loss has as ridge, and that its Hessian has at least

# --- steps of a quantile regression (quantile_regression)
CLIPPED_AT = 10.0  # scales at which a response is clipped, for the start; residuals are logarithmic from 1 / this
NEAR_ORDER = 0.8  # scales are quantiles of |y - median| of this order, or |r - q| of this times min(tau, 1 - tau)
FIRST_WIDTHS = (1.2, 1.0, 0.8)  # half-widths of the first steps' scores, in residual scales
SECOND_WIDTHS = (0.5, 0.3)  # of the second steps' scores: smoothing moves slopes where residuals vary with predictors
CHECK_RADIUS = 1.5  # radius of the steps' scores, and of the Hessian at least, in sqrt(m)
DAMPING = 0.08  # of the second steps, in largest curvatures of their loss
KERNEL_WIDTH = 1.3  # the kernel's half-width in residual scales is this times n^-1/5,
KERNEL_WITHIN = (0.15, 1.0)  # ... within these
DENSITY_WIDEST = 0.6  # ... and whose kernel is at most so wide, as is a smoothed check loss; half of it tells the level
KERNEL_BEND = 0.25  # share of the last step that a kernel does not foretell, if it is a half-width, or the kernel wide
KERNEL_SHAPE = 5.0  # times the half-width's fourth power: so much more is; a wide kernel shows the level alone
KERNEL_ROWS = {"normal": 2.0, "pure": 1.0}  # levels need so many times the rows as for a mean: a kernel sees some
FARTHEST_STEP = 1.5  # kernel half-widths: a longer last step is not linear
FARTHEST_PILOT = 3.0  # sds of the response: noise has carried a pilot away that lies further from a constant
