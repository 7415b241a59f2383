"""Estimated marginal means, comparisons and slopes: functions of the coefficients on a grid of declared levels.

The grid is public: all combinations of the declared levels of the factors, equally weighted, with numeric predictors at
the values that the user gives in the argument `at`. Nothing is averaged over the rows of the data, because the means of
columns and the shares of levels in the data would require another private release.

Each mean, comparison or slope is a weighted sum of fitted means, ``q(theta) = sum_k w_k g(x_k theta + o_k)``, with the
coefficients theta, the inverse g of the link function, the rows x_k of the model matrix on the grid, and public weights
w_k and offsets o_k. By the delta method, the error of the estimate q(theta-hat) is about ``R (theta-hat - theta)`` with
the gradient ``R = sum_k w_k g'(x_k theta + o_k) x_k``. The standard error and the bias bound of q(theta-hat) are
therefore computed for the linear function R theta; without a link function, this computation is exact. Intervals of
means are computed on the scale of the linear predictor and transformed by g, as in `Results.get_prediction`. In models
with a link function, intervals of comparisons and slopes also contain quantiles over random draws of the coefficients
(`_with_curvature`).
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from privstats.errors import CHOICES, FormulaError, OptionError, PrivstatsWarning, listed, quote
from privstats.inference.estimate import Estimate, NormalEstimate
from privstats.inference.simultaneous import max_t
from privstats.results.facts import FloatArray
from privstats.results.formats import Listing, Sheet, Tabular
from privstats.results.hypotheses import estimates, level, tests
from privstats.results.labels import coded_column, difference, part_of
from privstats.results.numbers import FitNumbers
from privstats.results.plots import draw_table
from privstats.results.prediction import LINKS, linear_map, mean_of, placed, slope_of
from privstats.results.text import Column, TextTable, limits

NUMBERS = (
    "estimate",
    "std_error",
    "statistic",
    "p_value",
    "conf_low",
    "conf_high",
    "noise_share",
    "bias_bound",
)
STEP = 2.0**-17  # step of a central difference at x, relative to |x|; relative errors of slopes are of order STEP^2
# The step at a value x of the predictor is `STEP` times |x|, after |x| is clipped to [`NEAR_ZERO` D, `FAR_AWAY` D],
# where D is the distance between the bounds of the predictor.
NEAR_ZERO, FAR_AWAY = 2.0**-10, 2.0**7
# for each of the three points (nodes) at which a function is evaluated for a numerical derivative: the weight of the
# node in a one-sided derivative and in a central derivative, times the node spacing
ONE_SIDED_CENTRAL = ((-1.5, -0.5), (2.0, 0.0), (-0.5, 0.5))
# A slope is not given if halving the node spacing multiplies the first difference of one of the functions that `_rough`
# examines by more than ROUGH[0], or its second difference by more than ROUGH[1].
ROUGH = (0.65, 0.4)
ROUNDING = 2.0**-40  # differences below this share of a column's largest absolute value are rounding errors
MOST_ROWS = 1000  # largest number of rows of a table of means, comparisons or slopes; larger tables raise an error
MOST_GRID = 100_000  # largest number of rows of a grid of synthetic rows; larger grids raise an error
MOST_DRAWS, LEAST_DRAWS = 1999, 199  # largest and smallest number of random draws of the coefficients for an interval
MOST_DRAWN = 20_000_000  # fewer draws are made for large grids: (rows of the grid) * draws is below twice this number
INCLUDED = "Std err and interval include privacy noise; 'noise' is its share of std err^2."
UNDEFINED = (
    "Not given: an expression of the formula has no value there, as the log of a negative number, or a value has "
    "another type than its column, as a number where the column has dates."
)
BEYOND = "Not given: a spline is constant beyond its bounds, so that changes there are not estimated."
NO_SLOPE = "Not given: the mean has a step or a kink there and no slope; compare the means on both sides of it."


@dataclass(frozen=True, eq=False, repr=False)
class MarginalTable(Tabular):
    """A table of estimated means, comparisons or slopes on a public grid of predictor values; prints as text.

    Parameters
    ----------
    title : str
        Heading of the printed table.
    frame : DataFrame
        One row for each quantity, with the columns term, level (the level of a mean, or the levels that are compared),
        the grid columns that distinguish the rows, tau (if the fit has several), estimate, std_error, statistic,
        p_value, conf_low, conf_high, noise_share (share of privacy noise in the squared std error) and bias_bound
        (largest possible bias). Numbers are NaN where the quantity is not identified. Means are not tested against
        zero: statistic and p_value are NaN for means.
    legend : tuple of str
        Sentences below the table, such as a sentence on how the quantities were averaged.
    alpha : float
        One minus the confidence level of the intervals.
    seeded : int, str or None
        Seed of the fit's noise, or a description of the random generator; None for noise without a seed.
    """

    title: str
    frame: pd.DataFrame
    legend: tuple[str, ...]
    alpha: float
    seeded: int | str | None = None

    def as_text(self) -> str:
        """Return the table as plain text in lines of at most 80 characters."""
        return self._listing.as_text()

    def plot(self, *, ax: Any = None) -> Any:
        """Plot the means, comparisons or slopes with intervals; thicker lines show the sampling error alone.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw in; by default the axes of a new figure. A table whose rows differ in more than the level, as
            by `by=` or by several values in `at=`, needs several panels and a new figure.

        Returns
        -------
        matplotlib Figure

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        OptionError
            If `ax` is given but the figure needs several panels.
        """
        return draw_table(self.frame, self.title, self.alpha, self.seeded, ax)

    def _sheet(self) -> Sheet:
        return self._listing._sheet()

    @property
    def _listing(self) -> Listing:
        return Listing(self.title, self._table(), self.legend)

    def _table(self) -> TextTable:
        frame = self.frame
        value, sd, z, p, low, high, noise = (frame[name].to_numpy(dtype=float) for name in NUMBERS[:-1])
        keys = list(frame.columns[1 : frame.columns.get_loc("estimate")])
        labels = tuple(tuple(map(part_of, row)) for row in frame[keys].itertuples(index=False, name=None))
        columns = estimates(("estimate", 10), value, sd, low, high, limits(self.alpha))
        shares = Column("noise", tuple("" if np.isnan(share) else f"{share:.0%}" for share in noise), 7)
        tested = () if frame["p_value"].isna().all() else tests(z, p)
        spans = tuple((0, "not given") if np.isnan(one) else None for one in value)
        return TextTable(tuple(keys), labels, (*columns[:2], *tested, *columns[2:], shares), spans)


@dataclass(frozen=True, eq=False)
class _Grid:
    """A grid of synthetic rows; the fitted means at these rows are averaged into the rows of a results table.

    Parameters
    ----------
    rows : DataFrame
        The synthetic rows: combinations of values of the predictors.
    keys : DataFrame
        One row for each average of fitted means: the values of the predictors that distinguish the averages.
    averaged : int
        Number of consecutive rows of the grid that are averaged into one row of the results table.
    over : tuple of str
        Factors over whose levels the means are averaged.
    """

    rows: pd.DataFrame
    keys: pd.DataFrame
    averaged: int
    over: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Part:
    """A copy of a grid of synthetic rows, with a weight for the fitted mean of each row.

    A comparison or slope is a weighted sum of fitted means over several copies of the grid, which differ in the values
    of one predictor. A mean needs only one copy, with weights 1.
    """

    rows: pd.DataFrame
    weight: FloatArray

    @classmethod
    def moved(cls, rows: pd.DataFrame, name: str, values: Any, weight: Any = 1.0) -> _Part:
        """Return a copy of the grid `rows`, with column `name` set to `values`, and with the weights `weight`."""
        return cls(rows.assign(**{name: values}), np.broadcast_to(np.asarray(weight, dtype=float), (len(rows),)))


@dataclass(frozen=True, eq=False)
class _Quantity:
    """Values and gradients of differentiable functions of the coefficients: means, comparisons or slopes.

    Parameters
    ----------
    value : ndarray, shape (quantities,)
        Values of the functions at the estimates.
    R : ndarray, shape (quantities, coefficients)
        Gradients with respect to the coefficients.
    fixed : ndarray of bool, shape (quantities,)
        Mask of the functions that depend on no coefficient, such as the slope of ``I(x**2)`` at x = 0.
    undefined : ndarray of bool, shape (quantities,)
        Mask of the functions that have no value because an expression of the formula has no value, such as log(-1).
    scale : str, optional
        Name of the link function if values are on the scale of the linear predictor; None on the scale of the mean.
    moved : ndarray, shape (quantities, draws, 2), optional
        For comparisons and slopes with a link function: change of each function when a randomly drawn error is added to
        the coefficients, and the first-order approximation of this change.
    """

    value: FloatArray
    R: FloatArray
    fixed: NDArray[np.bool_]
    undefined: NDArray[np.bool_]
    scale: str | None = None
    moved: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class _Call:
    """The checked arguments of a call of `means`, `comparisons` or `slopes`."""

    results: FitNumbers
    name: str
    at: Mapping[str, Sequence[Any]]
    by: tuple[str, ...]
    simultaneous: bool
    alpha: float

    @property
    def known(self) -> Mapping[str, Any]:
        return _predictors(self.results)

    def grid(self, needed: Sequence[str], own: Mapping[str, Sequence[Any]]) -> _Grid:
        """Return a grid of synthetic rows for means, comparisons or slopes that depend on the columns `needed`.

        The rows are all combinations of

        - the values in `own`, a mapping from the predictor of the call (the attribute `name`) to its values, or empty;
        - the values of other columns in the attribute `at`;
        - the levels of the factors in the attribute `by`;
        - the levels of the remaining factors in `needed`, over which fitted means are averaged later.

        Every other column is constant.
        """
        known = self.known
        kept = {
            **own,
            **{name: known[name].levels for name in self.by},
            **{k: v for k, v in self.at.items() if k != self.name},
        }
        missing = [name for name in needed if name not in kept and known[name].levels is None]
        if missing:
            values = ", ".join(f"{name!r}: [{known[name].example}]" for name in missing)
            need = "needs a value" if len(missing) == 1 else "need values"
            raise FormulaError(
                f"{listed(missing)} {need}, since a mean of the rows would be a release; add at={{{values}}} with "
                "values of interest"
            )
        over = {name: known[name].levels for name in needed if name not in kept}
        averaged = int(np.prod([len(levels) for levels in over.values()], dtype=float))
        cells = int(np.prod([len(values) for values in kept.values()], dtype=float))
        if cells > MOST_ROWS or cells * averaged > MOST_GRID:
            raise OptionError(
                f"the table would have {cells:,} rows on a grid of {cells * averaged:,}, above {MOST_ROWS:,} on "
                f"{MOST_GRID:,}; give fewer values, or levels of a factor in at="
            )
        axes = {**kept, **over}
        rows = pd.DataFrame(list(itertools.product(*axes.values())), columns=list(axes))
        for name, one in known.items():
            if name not in axes:
                rows[name] = one.value
        keys = rows[list(kept)].iloc[::averaged].reset_index(drop=True).rename(columns=_heading)
        return _Grid(rows, keys, averaged, tuple(over))


def means_table(results: FitNumbers, term: str, at: Any, by: Any, simultaneous: bool, alpha: float) -> MarginalTable:
    """Return the table of marginal means of the response at each level of `term`, averaged over other factors.

    A numeric `term` has a mean at each of its values in `at`, a mapping from columns to values. The means are computed
    for every combination of the values of other columns in `at` and the levels of the factors in `by`. If
    `simultaneous` is true, the intervals of all rows jointly have the confidence level 1 - alpha.
    """
    call = _call(results, term, at, by, simultaneous, alpha)
    values = call.at.get(call.name, call.known[call.name].levels)
    grid = call.grid(list(call.known), {} if values is None else {call.name: values})
    shown = grid.keys.rename(columns={_heading(call.name): "level"})
    parts = _each_tau(results, [_Part(grid.rows, np.ones(len(grid.rows)))], grid.averaged, mean=True)
    title = f"Means of {results.endog_names} by {call.name}"
    return _table(call, title, shown, parts, grid.over, tested=False)


def comparisons_table(
    results: FitNumbers, term: str, at: Any, by: Any, pairwise: bool, simultaneous: bool, alpha: float
) -> MarginalTable:
    """Return a table of differences of marginal means: between levels of `term`, or for an increase of `term` by 1.

    Each level is compared with the first level or, if `pairwise` is true, with every other level. ``at[term]`` lists
    the levels of a factor to compare, or the values of a numeric `term` before the increase. The comparisons are made
    for every combination of the values of other columns in `at` and the levels of the factors in `by`. If
    `simultaneous` is true, the intervals of all rows jointly have the confidence level 1 - alpha.
    """
    call = _call(results, term, at, by, simultaneous, alpha)
    known = call.known[call.name]
    if known.levels is None:
        title = f"Comparisons of {results.endog_names} where {call.name} grows by 1"
        return _changes(call, "+1", title, lambda x: [(x + 1, 1.0), (x, -1.0)])
    levels = list(call.at.get(call.name, known.levels))
    pairs = list(itertools.combinations(levels, 2)) if pairwise else [(levels[0], other) for other in levels[1:]]
    if not pairs:
        raise OptionError(
            f"one level of {call.name} cannot be compared; give at={{{call.name!r}: {list(known.levels)}}}"
        )
    grid = call.grid(_needed(call), {})
    shown, parts = [], []
    for reference, other in pairs:
        both = [_Part.moved(grid.rows, call.name, one, w) for one, w in ((other, 1.0), (reference, -1.0))]
        parts.append(_each_tau(results, both, grid.averaged))
        shown.append(grid.keys.assign(level=difference(other, reference)))
    whole = [_stacked(list(of_tau)) for of_tau in zip(*parts, strict=True)]
    title = f"Comparisons of {results.endog_names} between levels of {call.name}"
    return _table(call, title, pd.concat(shown, ignore_index=True), whole, grid.over)


def slopes_table(results: FitNumbers, term: str, at: Any, by: Any, simultaneous: bool, alpha: float) -> MarginalTable:
    """Return the table of derivatives of the mean response with respect to the numeric predictor `term`.

    The table has a row for every combination of the values in `at`, a mapping from columns (such as `term`) to values,
    and the levels of the factors in `by`. If `simultaneous` is true, the intervals of all rows jointly have the
    confidence level 1 - alpha.
    """
    call = _call(results, term, at, by, simultaneous, alpha)
    known = call.known[call.name]
    if known.levels is not None:
        raise FormulaError(f"{call.name} has levels and no slope; write fit.comparisons({call.name!r})")
    title = f"Slopes of {results.endog_names} in {call.name}"
    return _changes(call, f"d/d {call.name}", title, lambda x: _near(x, known), slopes=True)


def _near(x: FloatArray, known: Any, widen: float = 1.0) -> list[tuple[FloatArray, FloatArray]]:
    """Return three nodes and their weights for a numerical derivative at each value of a predictor in the array `x`.

    The weighted sum of the fitted means at the three nodes approximates the slope. Each of the three pairs (node,
    weight) consists of arrays shaped like `x`. The nodes are equally spaced. The value in `x` is the middle node or,
    near a bound of the predictor, the node closest to this bound. `known` is the `Predictor` with the bounds; `widen`
    multiplies the spacing.
    """
    low, high = known.ends
    widest = FAR_AWAY * known.width if np.isfinite(high - low) else np.inf
    step = 2.0 ** np.round(np.log2(STEP * np.clip(np.abs(x), NEAR_ZERO * known.width, widest)))
    # splines are constant beyond their bounds, so near a bound a one-sided difference inside the bounds is used
    inside = (low <= x) & (x <= high)
    way = np.where(inside & (x - step < low), 1.0, np.where(inside & (x + step > high), -1.0, 0.0))
    step = widen * step
    first, move = np.where(way, x, x - step), np.where(way, way, 1.0) * step
    weights = (np.where(way, one_sided * way, central) / step for one_sided, central in ONE_SIDED_CENTRAL)
    return [(first + k * move, weight) for k, weight in enumerate(weights)]


def _rough(call: _Call, grid: _Grid) -> NDArray[np.bool_]:
    """Return a mask of the rows of `grid` at which a function of the predictor `call.name` has a kink or a step.

    The functions are the offset and the columns of the model matrix after multiplication by the matrix `Design.coding`,
    which centres numeric predictors in products with factors. Each function is evaluated at three equally spaced values
    of the predictor. Its first difference is taken between the two outer values. When the spacing is halved, the first
    difference of a smooth function is about halved, and its second difference is divided by about 4. At a kink, the
    second difference is only halved; at a step, one or both of the differences are unchanged. A kink or step is
    reported where halving multiplies a difference by more than its limit in `ROUGH`. Differences that are tiny compared
    with the function are ignored as rounding errors.
    """
    design: Any = call.results.facts.design
    # the matrix `coding` maps [model matrix, offset] to [model matrix @ design.coding, offset]
    coding = scipy.linalg.block_diag(design.coding, 1.0)
    size, found = np.abs([*design.bounds(), design.offset_bounds]).max(axis=1), []
    for widen in (1.0, 2.0):
        near = _near(grid.rows[call.name].to_numpy(dtype=float), call.known[call.name], widen)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivstatsWarning)
            rows = [grid.rows.assign(**{call.name: values}) for values, _ in near]
            first, middle, last = (np.column_stack([design.matrix(one), design.offsets(one)]) for one in rows)
        found.append(np.abs([(last - first) @ coding, (first - 2 * middle + last) @ coding]))
        size = np.maximum(size, (np.abs(first) + np.abs(last)) @ np.abs(coding))
    narrow, wide = found
    rough = (narrow > np.reshape(ROUGH, (2, 1, 1)) * wide) & (narrow > ROUNDING * size)
    return np.asarray(rough.any(axis=(0, 2)))


def _changes(
    call: _Call,
    label: str,
    title: str,
    moves: Callable[[FloatArray], Sequence[tuple[FloatArray, Any]]],
    slopes: bool = False,
) -> MarginalTable:
    """Return a table of slopes or differences: weighted sums of fitted means at several values of a numeric predictor.

    Parameters
    ----------
    call : _Call
        Arguments of the call; the attribute `name` is the predictor.
    label : str
        Text in the column "level" of the table.
    title : str
        Heading of the table.
    moves : callable
        Function of the values x of the predictor. It returns pairs of new values of the predictor and the weights of
        the means at these values: for instance (x + 1, 1) and (x, -1) for the effect of an increase by 1.
    slopes : bool
        True for slopes, which are not given where the mean has a step or a kink. For differences, a warning is given
        if a new value is outside the domain and the user gave values of the predictor in the argument `at`.
    """
    if call.known[call.name].dates:
        raise FormulaError(f"{call.name} has dates; compare fit.get_prediction(new_data) at two of them")
    needed = _needed(call)
    grid = call.grid(needed, {call.name: call.at[call.name]} if call.name in call.at else {})
    x = grid.rows[call.name].to_numpy(dtype=float)
    parts = [_Part.moved(grid.rows, call.name, values, weight) for values, weight in moves(x)]
    design: Any = call.results.facts.design
    # `design.matrix` is called only for its warning of values outside the domain; its result is not used
    design.matrix(pd.concat([part.rows for part in parts]) if not slopes and call.name in call.at else grid.rows)
    shown = grid.keys.assign(level=label)
    each = _each_tau(call.results, parts, grid.averaged)
    held = np.all([design.held(part.rows, call.name) for part in parts], axis=0)
    absent = {BEYOND: held.reshape(-1, grid.averaged).all(axis=1) & each[0].fixed}
    if slopes:
        absent[NO_SLOPE] = _rough(call, grid).reshape(-1, grid.averaged).any(axis=1)
    return _table(call, title, shown, each, grid.over, absent=absent)


def _needed(call: _Call) -> list[str]:
    """Return the names of the columns on whose values comparisons or slopes of the predictor `call.name` depend."""
    design: Any = call.results.facts.design
    linear = call.results.facts.link is None
    needed = design.varies_with(call.name) if linear else set(call.known)
    if call.known[call.name].levels is not None:
        needed = needed - {call.name}
    return [name for name in call.known if name in needed]


def _each_tau(results: FitNumbers, parts: Sequence[_Part], averaged: int, mean: bool = False) -> list[_Quantity]:
    """Return means, comparisons or slopes, with gradients: one `_Quantity` for each tau (quantile level) of the fit.

    The gradients are with respect to the coefficients of all tau together. A fit without tau has a single `_Quantity`.

    Parameters
    ----------
    results : FitNumbers
        The fit.
    parts : sequence of _Part
        Copies of a grid of n synthetic rows, with weights; a comparison of two levels has one copy for each level,
        with the weights 1 and -1. The weighted fitted means of the copies are added, which gives n sums.
    averaged : int
        Number of consecutive sums that are averaged into one mean, comparison or slope.
    mean : bool
        True for means; False for comparisons and slopes.
    """
    facts, design = results.facts, results.facts.design
    assert design is not None
    blocks = []
    with warnings.catch_warnings():
        if not mean:  # comparisons and slopes may use values outside the domain, such as x + 1, without a warning
            warnings.simplefilter("ignore", PrivstatsWarning)
        for part in parts:
            X = np.asarray(design.matrix(part.rows), dtype=float)
            added = design.offsets(part.rows) if facts.offset is not None else np.zeros(len(X))
            blocks.append((part.weight, X, added))
    taus = list(dict.fromkeys(label[-1] for label in facts.labels)) if facts.keys[-1] == "tau" else [None]
    found = []
    for tau in taus:
        mine = [(w, X if tau is None else placed(X, facts.labels, tau), o) for w, X, o in blocks]
        found.append(_quantity(results, mine, averaged, mean))
    return found


def _quantity(
    results: FitNumbers, blocks: Sequence[tuple[FloatArray, FloatArray, FloatArray]], averaged: int, mean: bool
) -> _Quantity:
    """Return means, comparisons or slopes: weighted sums of fitted means, averaged over rows of a synthetic grid.

    Parameters
    ----------
    results : FitNumbers
        The fit.
    blocks : sequence of (ndarray, ndarray, ndarray)
        For each copy of the grid of n rows (a comparison has one copy per level): the weights of the fitted means,
        shape (n,), the model matrix, shape (n, coefficients), and the offsets, shape (n,). The weighted means of the
        copies are added, which gives n sums.
    averaged : int
        Number of consecutive sums that are averaged into one mean, comparison or slope.
    mean : bool
        True for means, whose intervals are transformed from the linear predictor; False for comparisons and slopes.
    """
    estimate, link = results.estimate, results.facts.link

    def over(values: FloatArray) -> FloatArray:
        return values.reshape(-1, averaged, *values.shape[1:]).mean(axis=1)

    moves = np.asarray(sum(w[:, None] * X for w, X, _ in blocks))
    apart = np.asarray(sum(w * o for w, _, o in blocks))
    still = ~moves.any(axis=1) & (mean | (apart == 0))
    fixed = still.reshape(-1, averaged).all(axis=1)
    undefined = (np.isnan(moves).any(axis=1) | np.isnan(apart)).reshape(-1, averaged).any(axis=1)
    if link is None:
        R, shift = over(moves), over(apart)
        value = np.where(fixed, 0.0, estimate.contrast(np.nan_to_num(R))[0]) + shift
        return _Quantity(value, R, fixed, undefined)
    etas = [np.where(still, 0.0, linear_map(estimate, X)) + o for _, X, o in blocks]
    both = [*zip(blocks, etas, strict=True)]
    R = np.asarray(sum(over((w * slope_of(eta, link))[:, None] * X) for (w, X, _), eta in both))
    value = np.asarray(sum(over(w * mean_of(eta, link)) for (w, _, _), eta in both))
    if not mean:
        errors = _errors_of(results, len(moves))
        moved = _moved(errors, [(w, X, eta) for (w, X, _), eta in both], link, over)
        return _Quantity(value, R, fixed, undefined, moved=np.stack([moved, np.nan_to_num(R) @ errors], axis=2))
    on_link = etas[0] if averaged == 1 else LINKS[link](value)
    with np.errstate(divide="ignore", invalid="ignore"):
        return _Quantity(on_link, R / slope_of(on_link, link)[:, None], fixed, undefined, link)


def _errors_of(results: FitNumbers, rows: int) -> FloatArray:
    """Return random draws of the errors of the coefficients, shape (coefficients, draws).

    If `rows`, the number of rows of the grid, is large, fewer draws are returned, which limits the computing time.
    """
    estimate = _without_margins(results.estimate)
    if not isinstance(estimate, NormalEstimate):
        return np.zeros((len(estimate.names), 1))
    every = int(np.clip(rows * MOST_DRAWS // MOST_DRAWN, 1, MOST_DRAWS // LEAST_DRAWS))
    return np.asarray(estimate.joint_errors(np.eye(len(estimate.names)))[:MOST_DRAWS:every].T)


def _moved(
    errors: FloatArray,
    blocks: Sequence[tuple[FloatArray, FloatArray, FloatArray]],
    link: str,
    over: Callable[[FloatArray], FloatArray],
) -> FloatArray:
    """Return the changes of k comparisons or slopes for each drawn error that is added to the coefficients.

    The array has shape (k, draws); the changes are exact, not first-order approximations.

    Parameters
    ----------
    errors : ndarray, shape (c, draws)
        Drawn errors of the coefficients.
    blocks : sequence of (ndarray, ndarray, ndarray)
        For each copy of a grid of synthetic rows (a comparison has one copy per level): the weights of the fitted
        means, shape (n,), the model matrix, shape (n, c), and the estimated linear predictors, shape (n,).
    link : str
        Name of the link function.
    over : callable
        Function that averages an array over groups of consecutive rows of the grid.
    """
    found: Any = 0.0
    for w, X, eta in blocks:
        shifted = eta[:, None] + np.nan_to_num(X) @ errors
        found = found + over(w[:, None] * (mean_of(shifted, link) - mean_of(eta, link)[:, None]))
    return np.asarray(found)


def _stacked(parts: Sequence[_Quantity]) -> _Quantity:
    value, fixed, undefined = (
        np.concatenate([getattr(one, name) for one in parts]) for name in ("value", "fixed", "undefined")
    )
    moved = None if parts[0].moved is None else np.vstack([cast(FloatArray, one.moved) for one in parts])
    return _Quantity(value, np.vstack([one.R for one in parts]), fixed, undefined, moved=moved)


def _table(
    call: _Call,
    title: str,
    shown: pd.DataFrame,
    each: Sequence[_Quantity],
    over: Sequence[str],
    tested: bool = True,
    absent: Mapping[str, NDArray[np.bool_]] | None = None,
) -> MarginalTable:
    """Return the table of means, comparisons or slopes, with estimates, intervals and a legend.

    `each` has a `_Quantity` (estimates and gradients) for each tau (quantile level) of the fit. `shown` has the labels
    of the rows of the table, which are repeated for each tau. `over` has the names of the factors over whose levels
    the quantities are averaged. If `tested` is false, statistics and p-values are NaN. `absent` has a mask of rows of
    `shown` for each reason why numbers are not given.
    """
    results, many = call.results, len(each)
    value, fixed, undefined = (
        np.stack([getattr(one, name) for one in each], axis=1).ravel() for name in ("value", "fixed", "undefined")
    )
    R = np.stack([one.R for one in each], axis=1).reshape(len(value), -1)
    moved = None
    if each[0].moved is not None:
        moved = np.stack([cast(FloatArray, one.moved) for one in each], axis=1).reshape(len(value), -1, 2)
    why = {UNDEFINED: undefined, **{reason: np.repeat(mask, many) for reason, mask in (absent or {}).items()}}
    value = np.where(np.any([*why.values()], axis=0), np.nan, value)
    numbers, draws = _numbers(call, value, R, fixed, each[0].scale, tested, moved)
    keys = shown[["level", *(name for name in shown if name != "level")]] if "level" in shown else shown
    frame = keys.loc[np.repeat(keys.index, many)].reset_index(drop=True)
    frame.insert(0, "term", call.name)
    if results.facts.keys[-1] == "tau" and many > 1:
        frame["tau"] = list(dict.fromkeys(label[-1] for label in results.facts.labels)) * len(shown)
    legend = _legend(call, over, numbers, draws, why)
    return MarginalTable(title, frame.assign(**numbers), legend, call.alpha, results.facts.seeded)


def _numbers(
    call: _Call,
    value: FloatArray,
    R: FloatArray,
    fixed: NDArray[np.bool_],
    link: str | None,
    tested: bool,
    moved: FloatArray | None,
) -> tuple[dict[str, FloatArray], int]:
    """Return the numeric columns of a table of means, comparisons or slopes, and the number of draws of the errors.

    The random draws are used for simultaneous intervals; for other intervals their number is returned as 0. Columns
    are NaN where a mean, comparison or slope is not identified. If `tested` is false, statistics and p-values are NaN.

    `value`, the gradients `R`, `fixed` and `moved` are attributes of a `_Quantity`, and `link` is its attribute
    `scale`. If `link` is given, `value` is on the scale of the linear predictor, but the returned estimates and limits
    are on the scale of the mean.
    """
    known, many = ~(np.isnan(value) | np.isnan(R).any(axis=1)), len(R)
    names = tuple(map(str, range(many)))
    own = _without_margins(call.results.estimate).mapped(np.where(known[:, None], R, 0.0), np.zeros(many), names)
    center, sd, low, high = (np.where(fixed, 0.0, part) for part in own.coefficients(call.alpha))
    given, shift, draws = known & ~np.isnan(center), value - center, 0
    low, high, p = low + shift, high + shift, own.contrast(np.eye(many), call.alpha, -shift)[4]
    tried = given & ~fixed
    if call.simultaneous and tried.any():
        if not isinstance(own, NormalEstimate):
            raise OptionError("simultaneous=True needs std errors, which the fit does not have; leave it out")
        together = max_t(own, np.eye(many)[tried], call.alpha, value[tried])
        low[tried], high[tried] = value[tried] - together.half, value[tried] + together.half
        p[tried], draws = together.pvalues, together.draws
    if moved is not None:
        low, high, p = _with_curvature(value, moved[..., 1], moved[..., 0], call.alpha, (low, high, p))
    unknown = np.full(many, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        slope = slope_of(value, link)
        columns = (
            mean_of(value, link),
            sd * slope,
            value / sd if tested else unknown,
            p if tested else unknown,
            mean_of(low, link),
            mean_of(high, link),
            own.noise_share(),
            np.where(fixed, 0.0, own.bias_bound() * slope),
        )
    return {name: np.where(given, column, np.nan) for name, column in zip(NUMBERS, columns, strict=True)}, draws


def _with_curvature(
    value: FloatArray, first: FloatArray, moved: FloatArray, alpha: float, ends: tuple[FloatArray, ...]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return interval limits and p-values that allow for the curvature of the mean as a function of the coefficients.

    A first-order interval (delta method) is too short if the derivative of the mean is small at the estimate but large
    within the range of the errors of the coefficients. For each random draw of the coefficients, `moved` is the exact
    change of a quantity, and `first` is its first-order approximation. The interval is extended to contain the alpha/2
    and 1 - alpha/2 quantiles of ``value + c moved`` over the draws. The factor c is the half-length of the first-order
    interval divided by the 1 - alpha quantile of ``|first|``. The factor c is near 1, but larger if the first-order
    interval includes bias bounds or is simultaneous.

    A p-value is raised, where necessary, to twice the smaller of two shares: the share of draws for which
    ``value + c moved`` is at most 0, and the share of draws for which it is at least 0.

    Parameters
    ----------
    value : ndarray, shape (k,)
        Estimates of the k quantities.
    first, moved : ndarray, shape (k, draws)
        The changes of each quantity for each draw of the coefficients.
    alpha : float
        One minus the confidence level.
    ends : tuple of three ndarray, shape (k,)
        Lower and upper limits of the first-order intervals, and p-values.
    """
    low, high, p = ends
    with np.errstate(invalid="ignore", divide="ignore"):
        stretch = (high - low) / 2 / np.quantile(np.abs(first), 1 - alpha, axis=1)
        at = value[:, None] + np.where(np.isfinite(stretch), stretch, 1.0)[:, None] * moved
        below, above = (s * np.quantile(s * at, alpha / 2, axis=1, method="inverted_cdf") for s in (1, -1))
        tail = 2 * np.minimum((at <= 0).mean(axis=1), (at >= 0).mean(axis=1))
    return np.minimum(low, below), np.maximum(high, above), np.maximum(p, np.minimum(tail, 1.0))


def _without_margins(estimate: Estimate) -> Estimate:
    """Return the estimate of the coefficients alone, without average marginal effects."""
    return replace(estimate, margins=None) if isinstance(estimate, NormalEstimate) else estimate


def _legend(
    call: _Call,
    over: Sequence[str],
    numbers: Mapping[str, FloatArray],
    draws: int,
    why: Mapping[str, NDArray[np.bool_]],
) -> tuple[str, ...]:
    """Return sentences that explain how to read a table of means, comparisons or slopes, to be printed below it.

    `over` names the factors over whose levels the table averages, `numbers` has the numeric columns of the table, and
    `draws` is the number of random draws for simultaneous intervals (0 if intervals are not simultaneous). `why` has
    a mask of rows of the table for each reason why numbers are not given.
    """
    lines = []
    if over:
        each = ", ".join(f"{name} ({len(call.known[name].levels)})" for name in over)
        lines.append(f"Averages with equal weights over the declared levels of {each}.")
    lines.append(INCLUDED)
    given = "Intervals" if np.isnan(numbers["p_value"]).all() else "Intervals and P"
    if draws:
        many = int((~np.isnan(numbers["estimate"])).sum())
        lines.append(
            f"{given} hold for all {many} rows together (max-t: {draws:,} draws of the errors' joint law, the "
            "same at each call)."
        )
    if (numbers["bias_bound"] > 0).any():
        lines.append(f"{given} also allow for what clipping may have moved (bias_bound).")
    lines += [reason for reason, mask in why.items() if mask.any()]
    if (np.isnan(numbers["estimate"]) & ~np.any([*why.values()], axis=0)).any():
        lines.append("Not given: the noise leaves a coefficient, or a combination of them, unidentified.")
    return tuple(lines)


# ---------------------------------------------------------------- checks of arguments


def _call(results: FitNumbers, term: Any, at: Any, by: Any, simultaneous: Any, alpha: float) -> _Call:
    known = _predictors(results)
    name = _column(term, known)
    values = {} if at is None else at
    if not isinstance(simultaneous, bool):
        raise OptionError(f"simultaneous is {quote(simultaneous)}; write simultaneous=True or simultaneous=False")
    if not isinstance(values, Mapping):
        raise OptionError(f"at is {quote(at)}; write at={{{name!r}: [...]}} with values of predictors")
    given = {_column(key, known): _values(key, one, known) for key, one in values.items()}
    groups = () if by is None else tuple(by) if isinstance(by, list | tuple) else (by,)
    split = tuple(_column(one, known) for one in groups)
    for one in split:
        if known[one].levels is None or one == name:
            raise OptionError(
                f"by is {quote(one)}; write by= with another factor, and numbers as at={{{one!r}: [...]}}"
            )
    return _Call(results, name, given, tuple(one for one in split if one not in given), simultaneous, level(alpha))


def _predictors(results: FitNumbers) -> Mapping[str, Any]:
    known: Mapping[str, Any] | None = getattr(results.facts.design, "predictors", None)
    if not known:
        group = getattr(results.facts.design, "group", None)
        cure = "read fit.params" if group is None else f"write fit.t_test_pairwise({group.code!r})"
        raise FormulaError(f"the fit has no predictors; {cure}")
    return known


def _heading(name: str) -> str:
    """Return the heading of a predictor in the table; "_" is added if another column of the table has this name."""
    return f"{name}_" if name in ("term", "level", "tau", *NUMBERS) else name


def _column(name: Any, known: Mapping[str, Any]) -> str:
    """Return the data column of the predictor `name`, which is written, for instance, ``g`` or ``C(g)`` for column g.

    The keys of `known` are the data columns of the fit's predictors; any other column raises a FormulaError.
    """
    if np.iterable(name) and not isinstance(name, str):
        first = next(iter(known))
        raise FormulaError(f"the predictor is {quote(name)}; give one name, {first!r}, and others in by= or at=")
    found = (coded_column(name) or name) if isinstance(name, str) else None
    if found is None or found not in known:
        cure = "; name one of them, and give others in by= or at=" if len(known) > 1 else ""
        raise FormulaError(f"the fit has no predictor {quote(name)}; it has {listed(list(known), CHOICES)}{cure}")
    return found


def _values(name: str, given: Any, known: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the values `given` in the argument `at` for the predictor `name`, as a tuple, after checks.

    A single value becomes a tuple of length 1. `known` maps the fit's predictors to their declared levels or bounds.
    Values must be declared levels of a factor, or finite numbers for a numeric predictor.
    """
    values = (given,) if isinstance(given, str) or not np.iterable(given) else tuple(given)
    one = known[_column(name, known)]
    if not values:
        raise OptionError(f"at has no value of {name}; write at={{{name!r}: [...]}}")
    if one.levels is not None:
        strange = [value for value in values if value not in one.levels]
        if strange:
            among = ", ".join(map(repr, one.levels[:10]))
            raise OptionError(f"{quote(strange[0])} is no declared level of {name}; choose among {among}")
        return values
    numbers = all(isinstance(v, int | float | np.integer | np.floating) and np.isfinite(v) for v in values)
    if not (numbers or one.dates):
        raise OptionError(
            f"at has {quote(given)} for {name}; write at={{{name!r}: [{one.example}]}} with finite numbers"
        )
    return values
