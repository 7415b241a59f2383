"""Make rows alike before anything is asked about responses: private standardisation, whitening, and a radius.

Nothing here changes what is estimated but the radius, which shortens rows of extreme leverage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privstats.older.estimators.base import Ask, Facts
from privstats.older.estimators.tally import Tally
from privstats.older.gate.questions import Gram, Histogram, Outer, Sum
from privstats.older.inference.repair import toward_diagonal
from privstats.older.losses.leverage import Directions, Held, Leverage, Whitened
from privstats.older.losses.squares import Numbers, PredictorRow, Presence
from privstats.older.numerics.law import FloatArray
from privstats.older.privacy.release import Release
from privstats.older.sets.base import Positive
from privstats.older.sets.leverage import Bins, ColumnMoments, Products

COLUMNS, CORRELATION, LEVERAGE, GRAM = 0.03, 0.04, 0.02, 0.15  # shares
NUMBER = 0.01  # beside these, of the number of rows where it is not their total weight
ROOM = 1.5  # times their mean squared length: rows are held to that before more is known, and to no less later
WEAKEST = 0.01  # of the rows: directions that vary less are not stretched further
LEVELS = 32  # bins of the squared lengths
USUAL = 0.999  # of the rows are not to be shortened: where the model is wrong, that changes what is estimated
BARELY = 0.4 / 6  # radius at which noise is .4 of the sampling error of scores clipped at 3 sigma,
DEAR = 4.0  # and how many times it at most: rows that reach farther cost too much

ROWS = 0.05  # share of the second moments of rows whose scale is about known,
NEAR = 1.2  # times their mean squared length, to which they are held first
NARROW = 1e-4  # of the rows, as `WEAKEST`
SCALED = 0.1  # of its range: what is usually less is a column whose scale is declared
SEEN = 30.0  # standard deviations of its noise that the number of rows of a level must have
NEGLIGIBLE = 5e-4  # share of the rows


@dataclass(frozen=True, eq=False)
class Columns:
    """What was released of each predictor.

    Parameters
    ----------
    centre, unit : ndarray, shape (columns,)
        Mean and standard deviation; of models without an intercept zero and the root mean square.
    n, number : float
        Total weight of all rows, and their number.
    sums, noise : ndarray, shape (columns,)
        Sums over rows, and the standard deviations of their noise.
    """

    centre: FloatArray
    unit: FloatArray
    n: float
    number: float
    sums: FloatArray
    noise: FloatArray

    def rare(self, facts: Facts) -> FloatArray:
        """Return the directions of theta, shape (coefficients, r), that no rows tell but those of a level with too few.

        Such are a dummy's effect, or, where the level is the reference, the constant against all effects of its factor.
        """
        first, effects = int(facts.intercept), []
        for group in facts.dummies:
            at = np.array(group)
            halves = 1.0 + first  # dummies are scaled to -1 and 1 if there is an intercept
            counts, noise = (self.sums[at] + first * self.n) / halves, self.noise[at] / halves
            effects += [np.eye(facts.coefficients)[first + j] for j in at[counts < SEEN * noise]]
            has_reference = facts.intercept or group != facts.dummies[0]
            if has_reference and self.n - counts.sum() < SEEN * float(np.linalg.norm(noise)):
                effects.append(np.eye(facts.coefficients)[0] - np.isin(np.arange(facts.coefficients), first + at))
        directions = np.array(effects).reshape(-1, facts.coefficients).T
        if facts.intercept:  # of columns from -1 to 1: an effect b is b / 2 there, and the constant's middle b / 2 more
            directions[1:] /= 2
            directions[0] += directions[1:].sum(axis=0)
        return directions

    def about(self, facts: Facts) -> FloatArray:
        """Return centre and scale of each predictor, shape (columns, 2): as declared where a scale was."""
        usual = facts.usual_columns
        return np.where(usual[:, 1:] < SCALED, usual, np.column_stack([self.centre, self.unit]))


@dataclass(frozen=True, eq=False)
class Ground:
    """Rows as they are used, and their second moments.

    Parameters
    ----------
    held : Held
        The rows,
    directions : Directions
        and which way they point.
    A : ndarray, shape (m, m)
        Their second moments, positive definite: released, then shrunk by `kept` where only noise speaks.
    gram : Release
        What was released of `A`.
    kept : float
        Share of the released off-diagonal entries in `A`.
    spread : float
        2 sqrt(m) standard deviations of the noise of an entry of `A`: about its largest eigenvalue.
    n : float
        Rows, or their total weight.
    rows : float
        Rows, whatever they weigh.
    reach : float
        Length that nearly all rows have at most, where it was asked for; else 0.
    lengths : Tally, optional
        Histogram of the rows' squared lengths, where it was asked for.
    columns : Columns, optional
        What was released of each predictor, where it was asked for.
    """

    held: Held
    directions: Directions
    A: FloatArray
    gram: Release
    kept: float
    spread: float
    n: float
    rows: float
    reach: float = 0.0
    lengths: Tally | None = None
    columns: Columns | None = None

    def weighted(self, radius: float) -> tuple[str, ...]:
        """Return a note on the rows that are longer than `radius`, and so count less than the others."""
        share = "" if self.lengths is None else f" of about {self.lengths.beyond(radius**2):.2g} of the rows (released)"
        if self.lengths is not None and self.lengths.beyond(radius**2) < NEGLIGIBLE:
            return ()
        return (
            f"The predictors{share} lie so far out that these rows count less: the estimate is of a weighted "
            "regression, and differs from that of the unweighted one where the model is wrong.",
        )

    @property
    def T(self) -> FloatArray:
        """The map from coefficients of whitened rows to those of scaled columns, shape (m, m)."""
        rows = self.held.whitened
        back = np.diag(np.concatenate([np.ones(int(rows.intercept)), 1 / rows.unit]))
        if rows.intercept:
            back[0, 1:] = -rows.centre / rows.unit
        product: FloatArray = back @ rows.W
        return product


def of_rare_levels(rare: FloatArray, facts: Facts) -> tuple[str, ...]:
    """Return a note that names the coefficients of levels that too few rows have."""
    if not rare.size:
        return ()
    effects = rare.copy()
    effects[0] -= facts.intercept * rare[1:].sum(axis=0)  # the constant is that of the reference
    names = [name for name, row in zip(facts.names, effects, strict=True) if row.any()]
    those = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return (
        f"No intervals (NaN) for {those}: too few rows have the level for this budget. Cure: spend more, or merge the "
        "level with another one.",
    )


def prepare(ask: Ask, facts: Facts, noise: str, scores: float) -> Ground:
    """Buy what makes rows alike.

    Parameters
    ----------
    ask : callable
        The conversation.
    facts : Facts
        Public facts of the fit.
    noise : str
        Additive mechanism that answers.
    scores : float
        Share of the scores to come: their noise decides how far rows may reach.
    """
    columns = read_columns(ask, facts, noise)
    centre, unit, n = columns.centre, columns.unit, columns.n
    m = facts.coefficients
    plain = Whitened(centre, unit, np.eye(m), facts.intercept)
    start = Held(plain, math.sqrt(ROOM * m))
    within = Products(m, pulled=True)
    (coarse,) = ask(Outer("correlation", start, within, Directions(plain)), by=noise, share=CORRELATION)
    B, kept, spread = _moments(coarse, start.radius, n)
    own = np.sqrt(np.diag(B) / n)  # below 1 where few rows reach far, and were held: they are not to be stretched
    values, vectors = np.linalg.eigh(B / np.outer(own, own))
    weakest = max(WEAKEST * n, min(kept * spread / 2, n))
    whitened = Whitened(centre, unit, vectors / np.sqrt(np.maximum(values, weakest) / n) @ vectors.T, facts.intercept)
    directions = Directions(whitened)
    radius, lengths = _radius(ask, facts, noise, whitened, n, scores)
    held = Held(whitened, radius)
    (gram,) = ask(Outer("rows", held, within, directions), by=noise, share=GRAM)
    A, kept, spread = _moments(gram, held.radius, n)
    return Ground(held, directions, A, gram, kept, spread, n, columns.number, lengths=lengths, columns=columns)


def alike(ask: Ask, facts: Facts, noise: str) -> Ground:
    """Make rows alike by their second moments alone, where the scale of the predictors is about known.

    Parameters
    ----------
    ask : callable
        The conversation.
    facts : Facts
        Public facts of the fit, with what is usual.
    noise : str
        Additive mechanism that answers.
    """
    m = facts.coefficients
    columns = standard(ask, facts, noise)
    centre, unit = (facts.usual_columns if columns is None else columns.about(facts)).T
    plain = Whitened(
        centre * facts.intercept, np.hypot(unit, centre * (not facts.intercept)), np.eye(m), facts.intercept
    )
    start, number = Held(plain, math.sqrt(NEAR * m)), float(facts.n or 0)
    if not facts.count_is_public or facts.weighted:
        numbers = Sum("number", Numbers(facts.weighted), Positive(1.0, 1 + facts.weighted))
        (counted,) = ask(numbers, by=noise, share=NUMBER)
        number = max(1.0, float(counted.value[0]))
    n = max(1.0, float(counted.value[1])) if facts.weighted else number
    within = Products(m, pulled=True)
    (gram,) = ask(Outer("rows", start, within, Directions(plain)), by=noise, share=ROWS)
    B, kept, spread = _moments(gram, start.radius, n)
    values, vectors = np.linalg.eigh(B)
    stretched = np.maximum(values, NARROW * n)
    W = vectors / np.sqrt(stretched / n) @ vectors.T
    whitened = Whitened(plain.centre, plain.unit, W, facts.intercept)
    lengths = _lengths(ask, noise, whitened)[0] if facts.bounded else None
    reach = 0.0 if lengths is None else math.sqrt(lengths.quantile(USUAL))
    held, rows = Held(whitened, math.sqrt(m)), Directions(whitened)
    return Ground(held, rows, W @ B @ W, gram, kept, spread, n, number, reach, lengths, columns)


def standard(ask: Ask, facts: Facts, noise: str) -> Columns | None:
    """Buy centre and scale of each predictor, unless all are declared by their scale.

    A predictor that fills little of its declared range would else vanish in the noise of second moments, and with it
    the curvature of its coefficient.
    """
    if (facts.usual_columns[:, 1] < SCALED).all():
        return None
    return read_columns(ask, facts, noise, numbered=False)


def read_columns(ask: Ask, facts: Facts, noise: str, numbered: bool = True) -> Columns:
    """Buy sums and squares of each predictor, the total weight of all rows, and, if `numbered`, their number."""
    within = ColumnMoments(facts.columns, not facts.count_is_public or facts.weighted)
    if not within.dim:
        assert facts.n is not None
        return Columns(np.zeros(0), np.ones(0), float(facts.n), float(facts.n), np.zeros(0), np.zeros(0))
    questions = (Gram("columns", PredictorRow(), within), Sum("number", Presence(), Positive(1.0, 1)))
    several = slice(1 + (facts.weighted and numbered))
    release, *counted = ask(questions[several], by=noise, share=(COLUMNS, NUMBER)[several])
    assert release.law is not None
    value, variance = release.value, release.law.variance()
    n, first = float(facts.n or 0), int(within.counted)
    if within.counted:
        most = math.inf if facts.n is None else n
        n = float(min(most, max(value[0], 2 * math.sqrt(variance[0]), 1e-9 if facts.weighted else 1.0)))
    number = max(1.0, float(counted[0].value[0])) if counted else n
    sums, squares = np.split(value[first:], 2)
    of_sums, of_squares = np.split(variance[first:], 2)
    centre = np.clip(sums / n, -1.0, 1.0) * facts.intercept
    floor = np.sqrt(of_squares + 4 * centre**2 * of_sums) / n
    unit = np.sqrt(np.clip(np.maximum(squares / n - centre**2, floor), 1e-6, 1.0))
    return Columns(centre, unit, n, number, sums, np.sqrt(of_sums))


def _radius(ask: Ask, facts: Facts, noise: str, whitened: Whitened, n: float, scores: float) -> tuple[float, Tally]:
    """Return the length to which rows are held, that of nearly all, and more where the noise allows it; and lengths."""
    lengths, largest, release = _lengths(ask, noise, whitened)
    usual = lengths.quantile(USUAL)
    barely = BARELY * release.event.mu() * math.sqrt(scores / LEVERAGE * n)
    radius = math.sqrt(min(largest, max(min(usual, (DEAR * barely) ** 2), ROOM * facts.coefficients, barely**2)))
    return radius, lengths


def _lengths(ask: Ask, noise: str, whitened: Whitened) -> tuple[Tally, float, Release]:
    """Return a histogram of squared lengths, the largest that any row may have, and what was released."""
    farthest = float(whitened.intercept) + float((((1 + np.abs(whitened.centre)) / whitened.unit) ** 2).sum())
    largest = max(farthest * float(np.linalg.norm(whitened.W, 2)) ** 2, 1.0)
    ends = np.geomspace(min(0.25, largest / 4), largest, LEVELS)
    (release,) = ask(Histogram("leverage", Leverage(whitened), Bins(ends[:-1])), by=noise, share=LEVERAGE)
    return Tally.of(release, ends), largest, release


def _moments(release: Release, radius: float, n: float) -> tuple[FloatArray, float, float]:
    """Return second moments that are positive definite, the share of the off-diagonal kept, and the noise's spread."""
    assert release.law is not None
    m = (math.isqrt(8 * len(release.value) + 1) - 1) // 2
    where = Products(m).where
    sd = radius**2 * math.sqrt(float(release.law.variance().min()))
    spread = 2 * math.sqrt(m) * sd
    A, kept = toward_diagonal(radius**2 * release.value[where], sd, 0.2 * n)
    values, vectors = np.linalg.eigh(A)
    floor = max(0.02 * n, min(kept * spread / 2, n / 2))
    most = max(floor, n * radius**2)  # of rows of that length
    return (vectors * np.clip(values, floor, most)) @ vectors.T, kept, spread
