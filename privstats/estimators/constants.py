"""The constants of the engine, in one table: multiples of a noise standard deviation, shares, and limits.

m is the number of coordinates. Lengths are in standard deviations of a coordinate, so that a typical row has length
sqrt(m); "sds" are standard deviations of the noise of the release in question. All constants are public.
``python -m benchmarks.constants`` measures coverage and interval length with each constant halved and doubled. Budget
shares stand beside each estimator, in `SHARES`.
"""

from __future__ import annotations

# --- columns and levels (frame, levels)
MOST_CENTER = 0.999  # upper limit of a released centre, as a part of its bounds
WIDE = 5.0  # standardised values are clamped to this many scales when scales are released again
READABLE = {"normal": 19.0, "pure": 28.0}  # least rows of a level, in noise sds of a Hessian entry
READ_WITH_SUMS = 8.0  # least rows of a level, in noise sds of the coarse matrix, if sums of columns add information
LEVEL_ROWS = {"normal": 3.0, "pure": 1.5}  # factor on the least rows of a level before Newton steps of a likelihood
MOST_LEFT_OUT = 0.25  # largest share of the rows that left-out levels may hold: the fit still describes the population
TWO_ENDED = 0.6  # a numeric column with this share of the largest variance at its mean may have two values
RARE_YES = 0.1  # upper limit of the share of rows at one end of the response's bounds for that value to count as rare

# --- columns and matrices before a perturbed minimiser (frame, preconditioner, adaptive)
LEAST_RANKS = 5.0  # least rows x budget, in ranks, at which the scale of a column with wide bounds is released by ranks
TAIL_SHARE = (0.03, 0.3)  # limits of the share of distances above the quantile that gives a scale; between: LEAST_RANKS
NARROWEST = 1e-5  # least scale of a column, distance or residual, in half-ranges; least smoothing, in residual scales
LEAST_SPREAD = 1.8  # divisor of a scale's lower limit (noise sd of the mean, or first scale), for columns with atoms
COARSE_WITHIN = (0.06, 0.25)  # limits of the coarse matrix's share; between them sqrt(m) noise sds are MATRIX_NOISE
COARSE_BESIDE = 0.19  # largest share of the coarse matrix if a Hessian with the same share is released at the minimiser
AGAIN = 0.9  # share of the second matrix, of whitened rows, relative to the coarse matrix; at least its share in SHARES
HELD_NOISE = 0.1  # rows of a matrix are shortened until its noise is this share of the rows, or half of it before steps
SECOND_HELD = 0.4  # the same for the second matrix, relative to the least information in the coarse matrix
HELD_LEAST, HELD_MOST = 1.5, 8.0  # limits, over m, of the squared length to which rows of a matrix are shortened

# --- the perturbed minimiser of least squares (perturbed_least_squares)
TILT_SHARE = 0.94  # the linear perturbation's share of the coefficients' budget in least squares; the rest: ridge
BOUNDED_TILT = 0.88  # the same for BOUNDED_RIDGES: a larger curvature limit shortens fewer long scores
BOUNDED_RIDGES = (0.12, 0.25, 0.5)  # candidate ridges, per row, if the curvature of a row's loss is limited
SUM_SEEN = 0.3  # sums of squares below this share of their expectation are taken to miss rare large values
SQUARES_NOISE = 0.5  # squares of scores are clipped until noise is this share of their variance; least variance as well

# --- coarse matrix and start (preconditioner)
MOST_STEPS = 2.3  # largest expected interval length, over that without privacy, at which means are released by steps
MOST_FIRST_NOISE = 0.375  # largest noise of the first matrix, in variances of a column, at which steps converge
FLOOR = 0.01  # least eigenvalue or residual variance, relative to the variance of columns or response

# --- histograms of lengths, and what is hidden beyond them (histogram)
VISIBLE = 2.3  # sds from which a level, atom, direction or window next to visible ones is visible: false alarm .01
AFTER_GAP = {"normal": 4.3, "pure": 6.0}  # sds from which windows after a gap are visible: false alarm 1e-5, 1e-4
WIDE_WINDOWS = (4, 8)  # numbers of bins behind the visible ones whose sum shows a slowly falling tail, at VISIBLE sds
RESIDUE = 1.0  # sds by which hidden counts may exceed their fitted size
FALLING = 1.1  # factor on the ratio of the last visible windows that gives the tail's ratio, within the assumed limits
ALONG_SEEN = 4.0  # visible rows beyond the clip lie along one coefficient by at most sqrt(this / m)
ALONG_HIDDEN = 2.0  # hidden rows beyond the clip lie along one coefficient by at most sqrt(this / m)
PER_BIN = 5  # log-uniform lengths that represent a bin

# --- the choice between moments and steps (histogram, adaptive, least_squares, sufficient_statistics)
PLACES = 16  # number of quantiles (of noise, rows, radii or normal errors) at which a slow function is evaluated
LEAST_EIGENVALUE = 0.1  # least eigenvalue of a matrix less its noise, relative to its typical eigenvalue
UNINFORMATIVE = 0.4  # forecast relative noise of the Hessian at which moments get the whole budget

# --- Hessian (least_squares, likelihood)
RADIUS_NOISE = 3.0  # weight of the noise's largest eigenvalue against the mass that the radius cuts off

# --- first step, meat and score (least_squares, one_step)
FIRST_LEAST, FIRST_MOST = 3.0, 6.0  # limits of the first step's clip, over sqrt(m)
MEAT_LEAST = 4.0  # least squared radius of the score variance, over m; larger if its noise stays below MATRIX_NOISE
MATRIX_NOISE = 0.2  # largest acceptable noise of a release, relative to the quantity: sets questions, shares, radii
LITTLE_SEEN = 0.15  # squared residuals are summed if the histogram shows less than this share of their upper bound
MOST_RATIO = 1.5  # largest variance of the final score over that of the first: allows for scores beyond the first clip
MOVE, MOVE_SDS = 1.5, {"normal": 1.5, "pure": 2.0}  # weight of the estimate's change between two clips beyond these sds
LEFT_OUT = 0.3  # assumed difference of slopes in left-out levels, in residual scales (or eta) per sd of x
UNEXPLAINED = 1.5  # largest size of the signal along unidentified directions, in released residual scales
FAR_BOUNDS = 20.0  # a note names a column whose bounds extend beyond this many standard deviations

# --- moments (sufficient_statistics)
SIGNAL = 0.2  # assumed squared length of the coefficients: divides the noise between predictors and response
USUAL_RESIDUAL = 0.25  # residual scale assumed before any release, in half-ranges of the response

# --- synthetic rows and the start of a loss (synthetic, beginning, likelihood)
SYNTHETIC_ROWS = 4096  # number of synthetic rows for expectations; largest number of enumerated corners of the box

# --- steps of a likelihood (likelihood)
BURN_IN = 3  # number of steps before the last one
BURN_IN_EXCESS = 0.3  # weight of the score that a clip of the burn-in removes, against its noise
CURVATURES = (1.0, 4.0)  # limits of the curvature along a step over that of synthetic rows; steps are never lengthened
FAR_PSI = 60.0  # limit of an unbounded psi; times root m, of Hessian rows and of the first clip
EVERY_SYNTHETIC = 4  # every fourth synthetic row is used in sums over all responses
UNUSUAL = 8.0  # a coefficient that the last step moves by more than this many times its expected change is not given
FEW_OUTCOMES = 8.0  # least rows that determine a coefficient; least rare outcomes at the start
ETA_SIGNAL = 2.0  # largest root mean square change of eta by unidentified directions, ridges, steps of the constant

# --- perturbed minimisers (perturbed_likelihood, objective_perturbation, quantile_regression)
LONG_ROW = 0.99  # quantile of the lengths of synthetic rows; Hessian rows up to it are not shortened
HESSIAN_NOISE = 0.07  # target relative noise of the Hessian: its share is the noise at the whole budget over this
HESSIAN_WITHIN = (0.12, 0.3)  # limits of the Hessian's share
PILOT_RIDGE = 0.3  # ridge of a check loss over its curvature; also the lower limit of its Hessian's eigenvalues

# --- steps of a quantile regression (quantile_regression)
CLIPPED_AT = 10.0  # scales at which a response is clipped for the start; residuals are on a log axis from 1 / this
NEAR_ORDER = 0.8  # order of the quantile of |y - median| that gives a scale; times min(tau, 1 - tau) for |r - q|
FIRST_WIDTHS = (1.2, 1.0, 0.8)  # half-widths of the smoothed scores of the first steps, in residual scales
SECOND_WIDTHS = (0.5, 0.3)  # half-widths for the second steps: wide ones bias slopes if residual scales vary with x
CHECK_RADIUS = 1.5  # radius of the steps' scores, and least radius of the Hessian, in sqrt(m)
DAMPING = 0.08  # damping of the second steps, relative to the largest curvature of their loss
KERNEL_WIDTH = 1.3  # kernel half-width in residual scales, times n^1/5
KERNEL_WITHIN = (0.15, 1.0)  # limits of the kernel half-width in residual scales
DENSITY_WIDEST = 0.6  # largest half-width of a kernel or smoothed loss, in residual scales; half of it gives the level
KERNEL_BEND = 0.25  # share of the last step that a kernel as wide as a residual scale leaves unexplained
KERNEL_SHAPE = 5.0  # coefficient of the half-width's fourth power in that share
KERNEL_ROWS = {"normal": 2.0, "pure": 1.0}  # factor on the least rows of a level: a kernel uses only a part of them
FARTHEST_STEP = 1.5  # longest last step that counts as linear, in kernel half-widths
FARTHEST_PILOT = 3.0  # largest distance of a pilot from a constant fit, in sds of the response; beyond it, noise
