"""The constants of the estimators: multiples of a noise standard deviation, shares, and limits.

Fits start with a release of rough second moments of the standardised columns and the response, called the coarse matrix
in other modules. A score (derivative of a row's loss) has m coordinates. Norms of rows and scores are in standard
deviations of a coordinate, so that a typical norm is sqrt(m). "Noise sds" are standard deviations of the noise of a
released value. All constants are public. ``python -m benchmarks.constants`` measures coverage and interval length with
each constant halved and doubled. Budget shares are in the mapping `SHARES` of each estimator's module.
"""

from __future__ import annotations

# --- scales of columns, and levels of factors (modules frame, levels)
MOST_CENTER = 0.999  # a column's released mean is clamped to this absolute value, in half-ranges of the column's bounds
WIDE = 5.0  # standardised columns are clamped to [-WIDE, WIDE] when scales and squares of products are released
READABLE = {"normal": 19.0, "pure": 28.0}  # least rows of a kept level / (Hessian's noise sd for rows of norm 1)
READ_IF_HELD = 8.0  # like READABLE (least rows of a kept level / (Hessian's noise sd)), for likelihood models
READ_WHITENED = 2.0  # for perturbed losses: least rows of a kept level / (sqrt(columns + 1) x (coarse matrix noise sd))
MOST_LEFT_OUT = 0.25  # largest share of the rows left out at rare levels and values; the rarest are left out first
RARE_NUMBER = 0.3  # rows with a column's rare value are left out if fewer than RARE_NUMBER x (rows needed per level)
TWO_ENDED = 0.6  # a variable is taken as two-valued if its variance exceeds this share of the maximum for its mean
RARE_YES = 0.1  # a value of a two-valued response is called rare if less than this share of the rows has the value

# --- releases before a perturbed loss is minimised: scales and second moments (frame, preconditioner, adaptive)
LEAST_RANKS = 5.0  # a scale is released as an order statistic only if (number of rows) x (query's budget) exceeds this
TAIL_SHARE = (0.03, 0.3)  # limits of a probability p; scales are computed from (1 - p)-quantiles of |value - median|
NARROWEST = 1e-5  # lower limit of scales and distances (in half-ranges) and of smoothing widths (in residual scales)
LEAST_SPREAD = 1.8  # a column's scale is at least (noise sd of its mean) / LEAST_SPREAD, even if many values are equal
COARSE_WITHIN = (0.06, 0.25)  # limits of the budget share of the rough second moments in fits with a perturbed loss
COARSE_BESIDE = 0.19  # largest budget share of the rough second moments if a Hessian with an equal share is released
AGAIN = 0.7  # budget of the second moments of whitened rows, divided by the budget of the rough second moments
HELD_NOISE = 0.1  # rows are clipped to the norm at which the noise of second moments is this share of the moments
SECOND_HELD = 0.4  # like HELD_NOISE, for whitened rows; relative to the smallest eigenvalue of the coarse matrix
HELD_LEAST, HELD_MOST = 1.5, 8.0  # lower and upper limit of (clipping norm of rows)^2 / (number of columns)

# --- least-squares and Huber fits that minimise a perturbed loss (module perturbed_least_squares)
TILT_SHARE = 0.94  # share of the coefficients' budget for the random linear term; the remaining share is for the ridge
BOUNDED_TILT = 0.88  # like TILT_SHARE, for losses of limited curvature; a larger ridge share permits less clipping
BOUNDED_RIDGES = (0.12, 0.25, 0.5)  # candidate ridges, divided by the number of rows, for losses of limited curvature
SUM_SEEN = 0.3  # a sum of squared scores below this share of its expectation is assumed to miss rare large scores
SQUARES_NOISE = 0.5  # largest noise of the released squares of scores, as a share of the expected score variance

# --- rough second moments (coarse matrix) and starting coefficients (module preconditioner)
MOST_FIRST_NOISE = 0.375  # Newton steps converge if sqrt(columns) x (coarse matrix noise sd) / rows is at most this
FLOOR = 0.01  # lower limit of eigenvalues and residual variances, relative to the variances of columns and response

# --- histograms of score norms, with some counts hidden by noise (module histogram)
VISIBLE = 2.3  # a count, sum or eigenvalue above this many noise sds is treated as real; false alarm rate .01
AFTER_GAP = {"normal": 4.3, "pure": 6.0}  # VISIBLE for bins after a bin hidden by noise; false alarm rates 1e-5, 1e-4
WIDE_WINDOWS = (4, 8)  # numbers of bins that are summed to detect a slowly decreasing tail hidden by noise in each bin
RESIDUE = 1.0  # assumed limit of (count - fitted count), in noise sds, for histogram bins with counts hidden by noise
FALLING = 1.1  # ratio of successive extrapolated counts, divided by the ratio of the last counts above the noise level
ALONG_SEEN = 4.0  # of the norm lost by clipping, at most the share sqrt(ALONG_SEEN / m) affects one of m coefficients
ALONG_HIDDEN = 2.0  # like ALONG_SEEN, for scores whose norms lie in histogram bins with counts hidden by noise
PER_BIN = 5  # number of norms, equally spaced on a log axis, that represent a bin of the histogram of norms

# --- choice between noisy moments and Newton steps (modules histogram, adaptive, least_squares, sufficient_statistics)
PLACES = 16  # number of points (radii, or quantiles of noise, rows or errors) at which a slow function is evaluated
LEAST_EIGENVALUE = 0.1  # lower limit of (a matrix's smallest eigenvalue - its noise), relative to a typical eigenvalue
UNINFORMATIVE = 0.4  # expected relative noise of the Hessian above which noisy moments get the whole budget

# --- the Hessian of Newton steps (modules least_squares, likelihood)
RADIUS_NOISE = 3.0  # weight of noise relative to removed information in the choice of the Hessian's clipping radius

# --- first Newton step, score variance, and final score (modules least_squares, one_step)
FIRST_LEAST, FIRST_MOST = 3.0, 6.0  # limits of the first step's clipping radius, divided by sqrt(number of coordinates)
MEAT_LEAST = 4.0  # lower limit of (clipping radius)^2 / (number of coordinates) in the release of the score variance
MATRIX_NOISE = 0.2  # acceptable relative noise of a released quantity; determines queries, budgets and clipping radii
LITTLE_SEEN = 0.15  # the sum of squared residuals is released if a histogram shows less than this share of its bound
MOST_RATIO = 1.5  # upper limit of (final score variance) / (first score variance); their clipping radii differ
MOVE, MOVE_SDS = 1.5, {"normal": 1.5, "pure": 2.0}  # clipping bias bound = MOVE x (last step - MOVE_SDS x noise sd)
LEFT_OUT = {"residuals": 0.3, "eta": 1.0}  # assumed difference of slopes at left-out and kept levels, by slope unit
UNEXPLAINED = 1.5  # largest sd, in residual scales, of the part of a response that unidentified directions may explain
FAR_BOUNDS = 20.0  # a note names each column with a bound more than this many standard deviations from its mean
ONE_SIDED = (3.0, 6.0)  # one-sided response: its mean is within [0] sds of one bound and over [1] sds from the other
FEW_COORDINATES = 4  # largest number of coefficients with which a one-sided response has scores in nearly one direction

# --- noisy moments (module sufficient_statistics)
SIGNAL = 0.2  # assumed squared norm of the coefficient vector, for which the best scale of the response is computed
USUAL_RESIDUAL = 0.25  # residual scale assumed before any release, in half-ranges of the response

# --- synthetic rows, and starting coefficients of a loss (modules synthetic, beginning, likelihood)
SYNTHETIC_ROWS = 4096  # number of synthetic rows in computed expectations, and largest number of points of a lattice

# --- Newton steps of a likelihood (module likelihood)
BURN_IN = 3  # number of Newton steps before the last one
BURN_IN_EXCESS = 0.3  # weight of clipping bias relative to noise in the choice of the clipping radii of burn-in steps
CURVATURES = (1.0, 4.0)  # limits of (curvature measured along a step) / (expected curvature)
FAR_PSI = 60.0  # upper limit of the first clipping radius, and of row norms, divided by sqrt(number of coordinates)
EVERY_SYNTHETIC = 4  # sums over all possible responses are computed with every fourth synthetic row
UNUSUAL = 8.0  # a coefficient is not reported if its last step is more than this many times the expected step
FEW_OUTCOMES = 8.0  # a coefficient needs at least this effective number of rows (`effective_share`) to be reported
ETA_SIGNAL = 2.0  # largest root mean square change of the linear predictor by a step or in unidentified directions

# --- minimisers of perturbed losses (modules perturbed_likelihood, objective_perturbation, quantile_regression)
CUT_WEIGHT = 1.5  # weight of removed information relative to noise in the choice of the Hessian's clipping radius
HESSIAN_NOISE = 0.07  # Hessian's budget share = (relative noise of a Hessian with the whole budget) / HESSIAN_NOISE
HESSIAN_WITHIN = (0.12, 0.3)  # limits of the Hessian's budget share
PILOT_RIDGE = 0.3  # first quantile fit: ridge, or least Hessian eigenvalue, divided by (rows x density)

# --- steps of a quantile regression (module quantile_regression)
CLIPPED_AT = 10.0  # the standardised response is clipped to this absolute value in the starting least-squares fit
NEAR_ORDER = 0.8  # the response's scale is computed from the quantile of |response - median| with this probability
FIRST_WIDTHS = (1.2, 1.0, 0.8)  # smoothing half-widths of the scores of the first quantile steps, in residual scales
SECOND_WIDTHS = (0.5, 0.3)  # like FIRST_WIDTHS, for second steps; narrower, because wide smoothing biases slopes
CHECK_RADIUS = 1.5  # clipping radius of rows in quantile steps on smoothed losses / sqrt(number of coordinates)
DAMPING = 0.08  # damping added to the Hessian in the last two rough quantile steps / (largest curvature of the loss)
KERNEL_WIDTH = 1.3  # (half-width of the density's kernel, in residual scales) x n^(1/5), for n rows
KERNEL_WITHIN = (0.15, 1.0)  # limits of the half-width of the density's kernel, in residual scales
DENSITY_WIDEST = 0.6  # largest smoothing half-width, in residual scales; kernels of densities are at most half as wide
KERNEL_NOISIER = 1.25  # kernels wider than DENSITY_WIDEST may have this multiple of the noise MATRIX_NOISE
KERNEL_BEND = 0.25  # assumed relative error of a predicted change of the score, for steps of one kernel half-width
KERNEL_SHAPE = 5.0  # KERNEL_BEND is multiplied by KERNEL_SHAPE x h^4 for wide kernels of half-width h residual scales
EQUAL_BINS = 0.5  # bin width of the histogram used to detect equal responses, in half-widths of the density's kernel
FEW_VALUES = 0.6  # a response has few values if sum of squared count differences > FEW_VALUES x sum of squared counts
KERNEL_ROWS = {"normal": 2.0, "pure": 1.0}  # factor of READABLE in quantile fits, because kernels use only some rows
FARTHEST_STEP = 1.5  # a quantile fit is not reported if its last step is longer than this many kernel half-widths
FARTHEST_PILOT = 3.0  # no fit is reported if its linear predictor is more than this many response sds from a constant
