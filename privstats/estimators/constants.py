"""The constants of the estimators: multiples of a noise standard deviation, shares, and limits.

The first second moments (coarse matrix) are the first release of second moments of the standardised columns and the
response. A minimiser is the minimiser of a perturbed loss. The symbol m is the number of coordinates of a score.
Lengths are in standard deviations of a coordinate, so that a typical row has length sqrt(m); "noise sds" are standard
deviations of the noise of a released value. All constants are public. ``python -m benchmarks.constants`` measures
coverage and interval length with each constant halved and doubled. Budget shares are in the mapping `SHARES` of each
estimator's module.
"""

from __future__ import annotations

# --- scales of columns, and levels of factors (modules frame, levels)
MOST_CENTER = 0.999  # largest absolute value of a column's released mean, in half-ranges of the column's bounds
WIDE = 5.0  # limit of standardised values, in column scales, when scales are released a second time
READABLE = {"normal": 19.0, "pure": 28.0}  # smallest number of rows of a kept level, in noise sds of a Hessian entry
READ_IF_HELD = 8.0  # smallest number of rows of a kept level, in noise sds of an entry, if a ridge limits row lengths
MOST_LEFT_OUT = 0.25  # rare levels are left out of the fit only if they contain at most this share of the rows
TWO_ENDED = 0.6  # a response may have two values if (variance) / (largest variance at its mean) is above this
RARE_YES = 0.1  # a value of a two-valued response is rare if less than this share of the rows has the value

# --- releases of columns and matrices that precede a perturbed minimiser (frame, preconditioner, adaptive)
LEAST_RANKS = 5.0  # a scale is released as an order statistic only if (rows x budget of the query) is at least this
TAIL_SHARE = (0.03, 0.3)  # limits of 1 - p, with p the probability of the quantile of |x - median| that gives a scale
NARROWEST = 1e-5  # lower limit of scales and distances (in half-ranges) and of smoothing widths (in residual scales)
LEAST_SPREAD = 1.8  # a scale is at least (noise sd of the column's mean) / LEAST_SPREAD, in case many values are equal
COARSE_WITHIN = (0.06, 0.25)  # limits of the budget share of the first released second moments before a minimiser
COARSE_BESIDE = 0.19  # largest budget share of the first second moments, if the Hessian has an equal budget share
AGAIN = 0.7  # budget of the second moments of whitened rows, divided by the budget of the first second moments
HELD_NOISE = 0.1  # rows are clipped so that the noise of their second moments is this share of the moments
SECOND_HELD = 0.4  # whitened rows are clipped so that noise is this share of the smallest eigenvalue of the moments
HELD_LEAST, HELD_MOST = 1.5, 8.0  # limits of the squared clipping length of rows in second moments, divided by m

# --- the perturbed minimiser of least squares (module perturbed_least_squares)
TILT_SHARE = 0.94  # share of the coefficients' budget for the random linear term; the remaining share is for the ridge
BOUNDED_TILT = 0.88  # TILT_SHARE for losses of limited curvature; with a larger ridge, fewer scores must be clipped
BOUNDED_RIDGES = (0.12, 0.25, 0.5)  # candidate ridges, divided by the number of rows, for losses of limited curvature
SUM_SEEN = 0.3  # a sum of squared scores below this share of its expectation is assumed to miss rare large scores
SQUARES_NOISE = 0.5  # largest noise of the released squares of scores, as a share of the expected score variance

# --- first released second moments (coarse matrix) and starting coefficients (module preconditioner)
MOST_STEPS = 2.3  # largest expected interval length of Newton steps for means, divided by the length without privacy
MOST_FIRST_NOISE = 0.375  # largest noise of the first second moments (sqrt(columns) x entry sd) at which steps converge
FLOOR = 0.01  # lower limit of eigenvalues and residual variances, relative to the variances of columns and response

# --- histograms of score lengths, and counts that noise hides (module histogram)
VISIBLE = 2.3  # a count, sum or eigenvalue above this many noise sds is taken as real; false alarm rate .01
AFTER_GAP = {"normal": 4.3, "pure": 6.0}  # noise sds above which bins after a gap are real; false alarms: 1e-5, 1e-4
WIDE_WINDOWS = (4, 8)  # numbers of hidden bins that are summed to detect a slowly decreasing tail of counts
RESIDUE = 1.0  # counts of score lengths in hidden bins may exceed their fitted size by this many noise sds
FALLING = 1.1  # ratio of successive extrapolated counts of bins, divided by the ratio of the last visible counts
ALONG_SEEN = 4.0  # at most the share sqrt(ALONG_SEEN / m) of length clipped in visible bins affects one coefficient
ALONG_HIDDEN = 2.0  # at most the share sqrt(ALONG_HIDDEN / m) of length clipped in hidden bins affects one coefficient
PER_BIN = 5  # number of log-uniform lengths that represent a bin of the histogram

# --- choice between noisy moments and Newton steps (modules histogram, adaptive, least_squares, sufficient_statistics)
PLACES = 16  # number of quantiles (of noise, rows, radii or normal errors) at which a slow function is evaluated
LEAST_EIGENVALUE = 0.1  # lower limit of (a matrix's smallest eigenvalue - its noise), relative to a typical eigenvalue
UNINFORMATIVE = 0.4  # expected relative noise of the Hessian above which noisy moments get the whole budget

# --- the Hessian of Newton steps (modules least_squares, likelihood)
RADIUS_NOISE = 3.0  # weight of the Hessian's noise against the information that clipping its rows removes

# --- first Newton step, score variance, and final score (modules least_squares, one_step)
FIRST_LEAST, FIRST_MOST = 3.0, 6.0  # limits of the first step's clipping radius, divided by sqrt(m)
MEAT_LEAST = 4.0  # smallest squared clipping radius for the score variance, divided by m; larger if noise is low
MATRIX_NOISE = 0.2  # acceptable noise, divided by the released quantity; determines queries, budgets and radii
LITTLE_SEEN = 0.15  # squared residuals are released if the histogram shows less than this share of their bound
MOST_RATIO = 1.5  # limit of (final score variance) / (first score variance); scores may exceed the first clip
MOVE, MOVE_SDS = 1.5, {"normal": 1.5, "pure": 2.0}  # bias bound = MOVE x (change due to clip - MOVE_SDS x noise sd)
LEFT_OUT = {"residuals": 0.3, "eta": 1.0}  # assumed difference between slopes at left-out and kept levels, per sd of x
UNEXPLAINED = 1.5  # largest sd, in residual scales, of the part of a response that unidentified directions may explain
FAR_BOUNDS = 20.0  # a note names a column whose bounds extend beyond this many standard deviations

# --- noisy moments (module sufficient_statistics)
SIGNAL = 0.2  # assumed squared length of the coefficients; determines the response's scale with the least noise
USUAL_RESIDUAL = 0.25  # residual scale assumed before any release, in half-ranges of the response

# --- synthetic rows, and starting coefficients of a loss (modules synthetic, beginning, likelihood)
SYNTHETIC_ROWS = 4096  # number of synthetic rows for expectations, and largest number of rows in a lattice

# --- Newton steps of a likelihood (module likelihood)
BURN_IN = 3  # number of Newton steps before the last one
BURN_IN_EXCESS = 0.3  # weight of the clipping bias in a burn-in step's score, relative to the score's noise
CURVATURES = (1.0, 4.0)  # limits of the curvature measured along a step, divided by the expected curvature
FAR_PSI = 60.0  # largest first clipping radius and largest length of Hessian rows, divided by sqrt(m)
EVERY_SYNTHETIC = 4  # sums over all possible responses use every fourth synthetic row
UNUSUAL = 8.0  # a coefficient is not reported if its last step is more than this many times the expected step
FEW_OUTCOMES = 8.0  # smallest effective number of rows with which a coefficient is reported
ETA_SIGNAL = 2.0  # largest root mean square change of the linear predictor due to unidentified directions

# --- perturbed minimisers (modules perturbed_likelihood, objective_perturbation, quantile_regression)
LONG_ROW = 0.99  # rows of the Hessian are clipped to the quantile of synthetic rows' lengths with this probability
HESSIAN_NOISE = 0.07  # the Hessian's budget share is its relative noise with the whole budget, divided by HESSIAN_NOISE
HESSIAN_WITHIN = (0.12, 0.3)  # limits of the Hessian's budget share
PILOT_RIDGE = 0.3  # smallest eigenvalue of the Hessian in the first quantile fit, divided by (rows x density)

# --- steps of a quantile regression (module quantile_regression)
CLIPPED_AT = 10.0  # largest absolute value of the standardised response in the starting least-squares fit
NEAR_ORDER = 0.8  # the response's scale is computed from the quantile of |y - median| with this probability
FIRST_WIDTHS = (1.2, 1.0, 0.8)  # smoothing half-widths of the scores of the first quantile steps, in residual scales
SECOND_WIDTHS = (0.5, 0.3)  # smoothing half-widths of second steps; large half-widths bias slopes if scales vary with x
CHECK_RADIUS = 1.5  # clipping radius of scores in quantile steps on smoothed losses, divided by sqrt(m)
DAMPING = 0.08  # damping added to the Hessian in the second quantile steps, divided by the loss's largest curvature
KERNEL_WIDTH = 1.3  # half-width of the density's kernel, in residual scales, times n^1/5
KERNEL_WITHIN = (0.15, 1.0)  # limits of the half-width of the density's kernel, in residual scales
DENSITY_WIDEST = 0.6  # largest half-width of a kernel or smoothed loss, in residual scales; half as large for densities
KERNEL_BEND = 0.25  # least assumed relative error of the predicted score change, at half-width 1 residual scale
KERNEL_SHAPE = 5.0  # KERNEL_BEND is multiplied by KERNEL_SHAPE x h^4, with h the kernel's half-width in residual scales
EQUAL_BINS = 0.5  # bin width of the histogram that looks for equal responses, in half-widths of the density's kernel
FEW_VALUES = 0.6  # a response has few values if squared differences of counts exceed this share of squared counts
KERNEL_ROWS = {"normal": 2.0, "pure": 1.0}  # multiplier of READABLE; kernels use only a part of the rows
FARTHEST_STEP = 1.5  # longest last step of a quantile fit along which the score is nearly linear, in kernel half-widths
FARTHEST_PILOT = 3.0  # largest credible distance of the first fit from a constant fit, in response sds
