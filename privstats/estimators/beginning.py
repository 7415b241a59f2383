"""First releases of a fit with any loss: scales of columns, numbers of rows at factor levels, rough second moments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from privstats.estimators.base import Noises, PublicFacts, entry_sd
from privstats.estimators.frame import PublicBox, Scales, column_scales, reread_scales, standardised
from privstats.estimators.levels import readable_levels
from privstats.estimators.one_step import Problem
from privstats.estimators.preconditioner import Sizes, coarse, sizes_of, white_levels
from privstats.estimators.transformed import TransformedAsk, TransformedBox
from privstats.gate.questions import Ask, Sum
from privstats.losses.rows import Linear, WeightedColumns
from privstats.sets.vectors import Products, Squares


def offset_of(ask: Ask, by: Noises, box: PublicBox, scales: Scales) -> tuple[float, float]:
    """Release the mean and the standard deviation of the model's offset, in units of the linear predictor.

    Mean and standard deviation are 0 in a model without offset. The standard deviation is also 0 if the variance
    computed from the release is not larger than the noise sd of this variance.
    """
    if not box.design.offset:
        return 0.0, 0.0
    low, high = box.design.offset_bounds
    middle, half = ((low + high) / 2, (high - low) / 2) if box.intercept is not None else (0.0, max(-low, high))
    half = max(half, 1e-9)
    entry = np.zeros((box.width, 1))
    entry[box.c] = 1 / half
    if box.intercept is not None:
        entry[box.intercept] = -middle / half
    within = Squares(1, counted=False)
    release = ask(Sum("scales", WeightedColumns(entry), within=within, item="of the offset"), by=by.columns)
    mean, square = release.value / scales.rows
    sd1, sd2 = np.sqrt(release.law.variance()) / scales.rows
    # linear Bayes estimate of the mean of the scaled offset, under a uniform prior on [-1, 1]
    mean = float(np.clip(mean, -1.0, 1.0)) / (1 + 3 * float(sd1) ** 2)
    variance = float(square) - mean**2
    clear = variance > float(np.hypot(sd2, 2 * mean * sd1))
    return middle + half * mean, half * float(np.sqrt(np.clip(variance, 0.0, 1.0))) if clear else 0.0


def scales_of(ask: Ask, by: Noises, public: PublicFacts, box: PublicBox) -> tuple[Scales, Sizes]:
    """Release the scales of the columns, and the numbers of rows and of privacy units if these numbers are private."""
    scales = column_scales(ask, by, box, public.used)
    released = (scales.rows, scales.rows_sd) if public.used is None else ()
    return scales, replace(sizes_of(ask, by, public, scales.rows), released=released)


def begun(
    ask: Ask,
    by: Noises,
    public: PublicFacts,
    box: PublicBox,
    scales: Scales,
    sizes: Sizes,
    needed: float,
    share_of: tuple[str, ...],
    worth: bool = True,
) -> Problem:
    """Release level counts, new scales and second moments, and return the estimation problem (`Problem`) of a fit.

    Level counts are the numbers of rows at the levels of factors. They are released only if the sums of columns in
    `scales` do not already show that each level has enough rows for its coefficient. New scales are released only for
    products of columns and for columns whose released variance is smaller than its noise sd. The starting coefficients
    are computed from the second moments of the standardised predictors and response.

    Parameters
    ----------
    ask : Ask
        Function that sends queries to the data and returns noisy releases.
    by : Noises
        Noise mechanisms, one for each kind of query.
    public : PublicFacts
        Public information about the fit, such as numbers of rows.
    box : PublicBox
        Public information about the design's columns.
    scales : Scales
        Released centres and scales of columns and response.
    sizes : Sizes
        Numbers of rows and of scores (one score for each row or for each privacy unit), before rows of rare levels are
        left out.
    needed : float
        Smallest number of rows at a factor level with which the coefficient of the level can be estimated.
    share_of : tuple of str
        Labels of the main queries, such as "score", one for each candidate method. The optional queries (level counts,
        new scales) use parts of the main query's share of the budget.
    worth : bool
        Whether to send the optional queries; False if these queries are expected to improve the fit less than their
        parts of the budget would improve the main query.
    """
    levels = readable_levels(ask, by, box, scales, needed, share_of, worth, public.intervals)
    scales = levels.of_kept(scales)
    frame = reread_scales(ask, by, box, standardised(box, scales, levels.kept or None), scales, share_of, worth)
    sizes = sizes.without(levels.left_out)
    R, ridge = white_levels(box, frame, levels)
    frame, levels = frame.mapped(R), replace(levels, ridge=R.T @ ridge @ R)
    start = coarse(ask, by, box, frame, levels, sizes.rows)
    return Problem(ask, by, box, start, levels, sizes, public, scales=scales)


def begun_about(
    ask: Ask,
    about: TransformedAsk,
    by: Noises,
    public: PublicFacts,
    box: TransformedBox,
    scales: Scales,
    sizes: Sizes,
    share_of: tuple[str, ...],
    item: str = "",
    least: float = 0.0,
) -> Problem:
    """Make the first releases of a fit with a transformed response, and return the estimation problem (`Problem`).

    The transformed response is, for example, the logarithm of a count. The starting coefficients of the fit are the
    least-squares coefficients for this response. All later queries of the fit use the response itself. The releases,
    and the parameters that are not listed here, are described in `begun`.

    Parameters
    ----------
    ask : Ask
        Function for the later queries, which use the response itself.
    about : TransformedAsk
        Function for the first queries, which use the transformed response.
    item : str
        Text in the label of the later query for the Hessian, such as "tau = 0.5". The noise of this query is computed
        in advance and determines which factor levels are kept in the fit (see `least`).
    least : float
        A factor level has enough rows for the fit if the number of its rows is at least `least` times the noise
        standard deviation of an entry of the Hessian.
    """
    rough = Sum("hessian", Linear(np.zeros((box.width, box.c))), within=Products(box.c), item=item)
    needed = least * entry_sd(ask, rough, by)
    problem = begun(about, by, public, box, scales, sizes, needed, share_of).whitened_again(share_of)
    plain = PublicBox(box.design)
    start = replace(problem.start, offset=plain.offset, offset_reach=plain.offset_reach)
    return replace(problem, ask=ask, start=start)
