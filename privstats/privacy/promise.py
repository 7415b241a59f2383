"""Privacy guarantees (class `Promise`), their division into shares, and neighbouring relations.

Composition: eps adds up (Dwork and Roth 2014, Theorem 3.16), and so do delta, mu^2 (Dong, Roth and Su 2022, Corollary
3.3) and rho (Bun and Steinke 2016, Lemma 2.3). A query may depend on earlier releases, provided that it satisfies its
own guarantee for all values of these releases. So the cost of a fit is the sum of its queries' costs. The method
`part` of a guarantee is the only code that divides a budget.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privstats.errors import BudgetError, OptionError, listed, quote
from privstats.privacy import drawing, tradeoff

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = ("replace", "add_remove")
LEAST_LEFT = 1e-9  # smallest share of a budget that can be left; a smaller share is rounding error and counts as 0
# relative tolerance for sums of charges, so that ten charges of a tenth of a budget fit into the budget
ROUNDING = 1e-12


@dataclass(frozen=True)
class Neighbors:
    """The neighbouring relation: pairs of data sets that a privacy guarantee makes hard to distinguish.

    Parameters
    ----------
    kind : {"replace", "add_remove"}
        Difference between neighbouring data sets: the rows of one unit are replaced by other rows ("replace"), or are
        added or removed ("add_remove").
    unit : str, optional
        Column that names the person (or household, ...) of a row. By default each row is a unit.
    rows_per_unit : int
        Largest number of rows of one unit that are used. Further rows are dropped before any computation
        (`gate/units.py`), so the limit is not part of the guarantee.

    Raises
    ------
    OptionError
        If `kind` is unknown, or `rows_per_unit` is not a positive whole number.

    Examples
    --------
    >>> print(Neighbors("add_remove", unit="person_id", rows_per_unit=5))
    add or remove one person_id
    """

    kind: str = "replace"
    unit: str | None = None
    rows_per_unit: int = field(default=1, compare=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise OptionError(f"neighbors is {quote(self.kind)}; write neighbors='replace' or neighbors='add_remove'")
        whole = isinstance(self.rows_per_unit, int | np.integer) and not isinstance(self.rows_per_unit, bool)
        if not whole or self.rows_per_unit < 1:
            raise OptionError(f"rows_per_unit is {quote(self.rows_per_unit)}; give a whole number, such as 1")
        if self.unit is None and self.rows_per_unit != 1:
            raise OptionError("rows_per_unit needs the column that names the unit of a row; add unit='person_id'")
        object.__setattr__(self, "rows_per_unit", int(self.rows_per_unit))

    @property
    def exchange(self) -> bool:
        """Whether neighbouring data sets differ by replacing one unit (person); the number of units is then public."""
        return self.kind == "replace"

    def relation(self, folded: bool, may_be_absent: bool) -> Relation:
        """Return how many contributions to one query may be replaced, or be absent, in a neighbouring data set.

        Parameters
        ----------
        folded : bool
            Whether the vectors of a unit's rows are added, and then their sum is projected into the set of possible
            contributions, so that a unit contributes once.
        may_be_absent : bool
            Whether a row may contribute nothing because it is incomplete, outside the subset or beyond `rows_per_unit`.
        """
        appear = not self.exchange or may_be_absent or self.rows_per_unit > 1
        return Relation(1 if folded else self.rows_per_unit, self.exchange, appear)

    @property
    def protected(self) -> str:
        """The rows that the guarantee protects, in words such as "any one row"."""
        return "any one row" if self.unit is None else f"all rows of any one {self.unit}"

    def __str__(self) -> str:
        return f"{'replace' if self.exchange else 'add or remove'} one {self.unit or 'row'}"

    def __repr__(self) -> str:
        parts = [repr(self.kind)] + [repr(self.unit)] * (self.unit is not None)
        return f"Neighbors({', '.join(parts)}{f', {self.rows_per_unit}' if self.rows_per_unit > 1 else ''})"


@dataclass(frozen=True)
class Relation:
    """Number of contributions to one query that may be replaced, or be absent, in a neighbouring data set.

    Parameters
    ----------
    rows : int
        Largest number of contributions that differ.
    exchange : bool
        Whether each of these contributions may be replaced by any other contribution.
    appear : bool
        Whether each of these contributions may be absent from one of the two data sets.
    """

    rows: int = 1
    exchange: bool = True
    appear: bool = False


REPLACE_ROW = Neighbors()


class Promise(ABC):
    """A privacy guarantee: a bound on the information about one row, or person, in the released values.

    Attributes
    ----------
    currency : str
        Name of the parameter in which a budget of this kind is counted: "eps", "mu" or "rho".
    normal : bool
        Whether the parameter is mu or rho, so that normal noise has a finite cost. An eps-DP mechanism is then charged
        the largest mu, or rho, that a mechanism with this eps can have.
    """

    currency: ClassVar[str] = "eps"
    normal: ClassVar[bool] = False
    neighbors: Neighbors

    def __post_init__(self) -> None:
        for name, value in self.numbers.items():
            object.__setattr__(self, name, positive(name, value))
        if isinstance(self.neighbors, str):
            object.__setattr__(self, "neighbors", Neighbors(self.neighbors))

    @property
    def numbers(self) -> dict[str, float]:
        """Parameters of the guarantee (eps, delta, mu or rho), by name."""
        return {name: value for name, value in vars(self).items() if name != "neighbors"}

    @abstractmethod
    def part(self, share: float) -> Self:
        """Return the guarantee with the fraction `share` of this budget: of its eps and delta, of mu^2, or of rho."""

    @abstractmethod
    def for_group(self, k: int) -> Promise:
        """Return a guarantee for single rows or persons that implies this guarantee for groups of k rows or persons."""

    @abstractmethod
    def of_group(self, k: int) -> Promise:
        """Return the guarantee that this guarantee implies for groups of k rows or persons (group privacy)."""

    @abstractmethod
    def as_pure(self) -> PureDP:
        """Return an eps-DP guarantee that implies this guarantee, to calibrate the noise of eps-DP mechanisms.

        The result has the largest possible eps, except that an (eps, delta) guarantee is replaced by its eps alone.
        """

    @abstractmethod
    def as_normal(self) -> GaussianDP:
        """Return the mu-GDP guarantee with the largest mu that implies this guarantee.

        Normal noise is calibrated to the returned guarantee.

        Raises
        ------
        BudgetError
            If this guarantee is in pure eps: no mu-GDP guarantee implies pure eps, so normal noise cannot give this
            guarantee.
        """

    @abstractmethod
    def tradeoff(self, alpha: ArrayLike) -> NDArray[np.float64]:
        """Return the lower bound on the type II error of any level-`alpha` test between two neighbouring data sets."""

    @abstractmethod
    def to_approx(self, delta: float) -> ApproxDP:
        """Return the (eps, delta) guarantee with the smallest eps that this guarantee is known to imply at `delta`."""

    def kept_by(self, *mechanisms: Any) -> Promise:
        """Return the joint guarantee of mechanisms that share this guarantee as their budget.

        The result is this guarantee or, for a budget in rho (`ZeroCDP`), possibly a stronger guarantee in mu or eps.
        """
        return self

    @property
    def budget(self) -> str:
        """Parameters of the guarantee as text, such as "eps = 1, delta = 1e-06"."""
        return ", ".join(f"{name} = {value:g}" for name, value in self.numbers.items())

    @abstractmethod
    def covers(self, promises: Iterable[Promise], prove: Prove | None = None) -> bool:
        """Return whether the composition of several guarantees implies this guarantee, up to rounding errors of sums.

        Only a guarantee in (eps, delta) uses the function `prove`, which returns the joint eps of several guarantees
        at a given delta. The default is the function `sums`, which adds up eps and delta, or mu^2.
        """

    @abstractmethod
    def spent_on(self, promises: Iterable[Promise], prove: Prove | None = None) -> Self:
        """Return the composition of several guarantees as one guarantee of this kind.

        If `promises` is empty, the parameters of the result are 0. Only a guarantee in (eps, delta) uses the function
        `prove`, which returns the joint eps of several guarantees at a given delta. The default is `sums`.
        """

    @abstractmethod
    def less(self, spent: Self) -> Self:
        """Return the part of this budget that is left after `spent`; a budget in (eps, delta) keeps its delta."""

    def plot(self, ax: Axes | None = None, **line: Any) -> Axes:
        """Draw the trade-off function: the lower bound on the type II error of any test, against its type I error.

        The test decides between two data sets that are neighbours under this guarantee.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw in, by default the axes of a new figure; pass the returned axes to compare guarantees.
        **line
            Passed to `Axes.plot`; by default the label is the budget.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        return drawing.draw_tradeoff(self.tradeoff, ax, self.neighbors.protected, **{"label": self.budget, **line})

    def __str__(self) -> str:
        return f"{self.budget} for {self.neighbors.protected} (neighbours: {self.neighbors})"

    def __repr__(self) -> str:
        if self.neighbors == REPLACE_ROW:
            return f"{type(self).__name__}({', '.join(f'{name}={value:g}' for name, value in self.numbers.items())})"
        values = ", ".join(f"{value:g}" for value in self.numbers.values())
        return f"{type(self).__name__}({values}, {self.neighbors!r})"

    def _nothing(self, **numbers: float) -> Self:
        """Return a guarantee of this kind with the given parameters, such as ``eps=0.0``, which are not checked.

        The result is the spent part or the rest of a budget; its parameters may be 0.
        """
        empty = object.__new__(type(self))
        for name, value in {**numbers, "neighbors": self.neighbors}.items():
            object.__setattr__(empty, name, value)
        return empty


# Type of functions that return an eps for which the composition of guarantees is (eps, delta)-DP at a given delta, such
# as `composition.together`.
Prove = Callable[[tuple["Promise", ...], float], float]


@dataclass(frozen=True, repr=False)
class PureDP(Promise):
    """eps-differential privacy: no set of outputs is more than e^eps times as probable for a neighbouring data set.

    Parameters
    ----------
    eps : float
        Positive.
    neighbors : Neighbors or str
        Neighbouring relation, by default "replace".

    Raises
    ------
    BudgetError
        If `eps` is not a positive number.

    Examples
    --------
    >>> print(PureDP(0.5))
    eps = 0.5 for any one row (neighbours: replace one row)
    """

    eps: float
    neighbors: Neighbors = REPLACE_ROW

    def part(self, share: float) -> PureDP:
        return replace(self, eps=self.eps * share)

    def for_group(self, k: int) -> PureDP:
        return replace(self, eps=self.eps / group_size(k))

    def of_group(self, k: int) -> PureDP:
        return replace(self, eps=self.eps * group_size(k))

    def as_pure(self) -> PureDP:
        return self

    def as_normal(self) -> GaussianDP:
        raise BudgetError("normal noise cannot give pure eps; add delta=1e-6, or give mu=1 in place of eps")

    def delta(self, eps: float) -> float:
        """Return the smallest delta for which this guarantee implies (eps, delta)-DP."""
        return tradeoff.pure_delta(self.eps, eps)

    def tradeoff(self, alpha: ArrayLike) -> NDArray[np.float64]:
        return tradeoff.approx_tradeoff(alpha, self.eps, 0.0)

    def to_approx(self, delta: float) -> ApproxDP:
        return ApproxDP(tradeoff.relaxed_eps(self.eps, 0.0, delta), delta, self.neighbors)

    def covers(self, promises: Iterable[Promise], prove: Prove | None = None) -> bool:
        return eps_of(promises) <= self.eps * (1 + ROUNDING)

    def spent_on(self, promises: Iterable[Promise], prove: Prove | None = None) -> PureDP:
        return self._nothing(eps=eps_of(promises))

    def less(self, spent: PureDP) -> PureDP:
        return self._nothing(eps=_left(self.eps - spent.eps, self.eps))


@dataclass(frozen=True, repr=False)
class ApproxDP(Promise):
    """(eps, delta)-DP: ``P(S) <= e^eps P'(S) + delta`` for output sets S and the laws P, P' of outputs for neighbours.

    Parameters
    ----------
    eps : float
        Positive.
    delta : float
        In (0, 1).
    neighbors : Neighbors or str
        Neighbouring relation, by default "replace".

    Raises
    ------
    BudgetError
        If `eps` or `delta` is out of range.

    Examples
    --------
    >>> print(ApproxDP(1.0, 1e-6))
    eps = 1, delta = 1e-06 for any one row (neighbours: replace one row)
    """

    eps: float
    delta: float
    neighbors: Neighbors = REPLACE_ROW

    def __post_init__(self) -> None:
        if is_number(self.delta) and self.delta == 0:
            raise BudgetError("delta is 0; write PureDP(eps) for a promise without a delta")
        super().__post_init__()
        if self.delta >= 1:
            raise BudgetError(f"delta is {self.delta:g}; choose one far below 1 / n, such as delta=1e-6")

    def part(self, share: float) -> ApproxDP:
        return replace(self, eps=self.eps * share, delta=self.delta * share)

    def for_group(self, k: int) -> ApproxDP:
        """Return a guarantee for single rows or persons that implies this guarantee for groups of k rows or persons.

        The result is (eps / k, delta / S), with S the sum of e^(i eps / k) over i = 0, ..., k - 1.
        """
        total = math.fsum(math.exp(min(700.0, i * self.eps / k)) for i in range(group_size(k)))
        return replace(self, eps=self.eps / k, delta=self.delta / total)

    def of_group(self, k: int) -> ApproxDP:
        """Return the guarantee that this guarantee implies for groups of k rows or persons (group privacy).

        The implied guarantee is (k eps, delta S), with S the sum of e^(i eps) over i = 0, ..., k - 1.
        """
        delta = self.delta * math.fsum(math.exp(min(700.0, i * self.eps)) for i in range(group_size(k)))
        if delta >= 1:
            raise BudgetError(f"delta = {self.delta:g} protects nobody at {k} steps; choose a smaller delta")
        return replace(self, eps=k * self.eps, delta=delta)

    def as_pure(self) -> PureDP:
        return PureDP(self.eps, self.neighbors)

    def as_normal(self) -> GaussianDP:
        return GaussianDP(tradeoff.gdp_mu(self.eps, self.delta) * (1 - ROUNDING), self.neighbors)

    def tradeoff(self, alpha: ArrayLike) -> NDArray[np.float64]:
        return tradeoff.approx_tradeoff(alpha, self.eps, self.delta)

    def to_approx(self, delta: float) -> ApproxDP:
        return replace(self, eps=tradeoff.relaxed_eps(self.eps, self.delta, delta), delta=delta)

    def covers(self, promises: Iterable[Promise], prove: Prove | None = None) -> bool:
        promises = tuple(promises)
        return (prove or sums)(promises, self.delta * (1 + ROUNDING)) <= self.eps * (1 + ROUNDING)

    def spent_on(self, promises: Iterable[Promise], prove: Prove | None = None) -> ApproxDP:
        promises = tuple(promises)
        if not promises:
            return self._nothing(eps=0.0, delta=0.0)
        return self._nothing(eps=(prove or sums)(promises, self.delta * (1 + ROUNDING)), delta=self.delta)

    def less(self, spent: ApproxDP) -> ApproxDP:
        return self._nothing(eps=_left(self.eps - spent.eps, self.eps), delta=self.delta)

    @property
    def budget(self) -> str:
        return f"eps = {self.eps:g}" + (f", delta = {self.delta:g}" if self.delta else "")


@dataclass(frozen=True, repr=False)
class GaussianDP(Promise):
    """mu-Gaussian differential privacy: a privacy unit is no easier to detect than a shift from N(0, 1) to N(mu, 1).

    Dong, Roth and Su (2022), Definition 2.6.

    Parameters
    ----------
    mu : float
        Positive.
    neighbors : Neighbors or str
        Neighbouring relation, by default "replace".

    Raises
    ------
    BudgetError
        If `mu` is not a positive number.

    Examples
    --------
    >>> print(GaussianDP(1.0).to_approx(1e-6))
    eps = 4.88655, delta = 1e-06 for any one row (neighbours: replace one row)
    """

    currency: ClassVar[str] = "mu"
    normal: ClassVar[bool] = True
    mu: float
    neighbors: Neighbors = REPLACE_ROW

    def part(self, share: float) -> GaussianDP:
        return replace(self, mu=self.mu * math.sqrt(max(0.0, share)))

    def for_group(self, k: int) -> GaussianDP:
        return replace(self, mu=self.mu / group_size(k))

    def of_group(self, k: int) -> GaussianDP:
        return replace(self, mu=self.mu * group_size(k))

    def as_pure(self) -> PureDP:
        return PureDP(tradeoff.pure_eps(self.mu), self.neighbors)

    def as_normal(self) -> GaussianDP:
        return self

    def delta(self, eps: float) -> float:
        """Return the smallest delta for which this guarantee implies (eps, delta)-DP."""
        return tradeoff.gdp_delta(self.mu, eps)

    def tradeoff(self, alpha: ArrayLike) -> NDArray[np.float64]:
        return tradeoff.gaussian_tradeoff(alpha, self.mu)

    def to_approx(self, delta: float) -> ApproxDP:
        return ApproxDP(tradeoff.gdp_eps(self.mu, delta), delta, self.neighbors)

    def covers(self, promises: Iterable[Promise], prove: Prove | None = None) -> bool:
        return mu_of(promises) <= self.mu * (1 + ROUNDING)

    def spent_on(self, promises: Iterable[Promise], prove: Prove | None = None) -> GaussianDP:
        return self._nothing(mu=mu_of(promises))

    def less(self, spent: GaussianDP) -> GaussianDP:
        return self._nothing(mu=math.sqrt(_left(self.mu**2 - spent.mu**2, self.mu**2)))


@dataclass(frozen=True, repr=False)
class ZeroCDP(Promise):
    """rho-zero-concentrated differential privacy: Renyi divergences of order a are at most rho a, for all a > 1.

    The divergences are between the laws of outputs for neighbours (Bun and Steinke 2016, Definition 1.1). The pair N(0,
    1) and N(mu, 1) has exactly rho = mu^2 / 2. A mu-GDP mechanism has no larger rho, as its outputs on neighbours can
    be obtained from this pair by post-processing. An eps-DP mechanism has ``rho <= eps tanh(eps / 2)`` (`pure_rho`).

    Parameters
    ----------
    rho : float
        Positive.
    neighbors : Neighbors or str
        Neighbouring relation, by default "replace".

    Raises
    ------
    BudgetError
        If `rho` is not a positive number.

    Examples
    --------
    >>> print(ZeroCDP(0.5).to_approx(1e-6))
    eps = 5.22153, delta = 1e-06 for any one row (neighbours: replace one row)
    """

    currency: ClassVar[str] = "rho"
    normal: ClassVar[bool] = True
    rho: float
    neighbors: Neighbors = REPLACE_ROW

    def part(self, share: float) -> ZeroCDP:
        return replace(self, rho=self.rho * share)

    def for_group(self, k: int) -> ZeroCDP:
        return replace(self, rho=self.rho / group_size(k) ** 2)

    def of_group(self, k: int) -> ZeroCDP:
        """Return the guarantee that this guarantee implies for groups of k rows or persons (group privacy).

        The parameter of the implied guarantee is k^2 rho (Bun and Steinke 2016, Proposition 1.9).
        """
        return replace(self, rho=self.rho * group_size(k) ** 2)

    def as_pure(self) -> PureDP:
        return PureDP(tradeoff.pure_eps_of_rho(self.rho), self.neighbors)

    def as_normal(self) -> GaussianDP:
        return GaussianDP(math.sqrt(2 * self.rho), self.neighbors)

    def kept_by(self, *mechanisms: Any) -> Promise:
        """Return the joint guarantee of mechanisms that share this guarantee as their budget.

        If all noise is normal, the result is mu-GDP with ``mu^2 = 2 rho``, even if later queries depend on earlier
        releases (Smith and Thakurta 2022). For a single eps-DP mechanism, the result is the eps-DP guarantee of
        `as_pure`. In all other cases the result is this guarantee. For several eps-DP mechanisms, this guarantee is not
        replaced by an eps-DP guarantee, because the sum of their eps is larger than the eps of `as_pure`.
        """
        if mechanisms and all(by.normal for by in mechanisms):
            return self.as_normal()
        if len(mechanisms) == 1 and not mechanisms[0].needs_delta:
            return self.as_pure()
        return self

    def delta(self, eps: float) -> float:
        """Return the smallest delta for which this guarantee is known to imply (eps, delta)-DP."""
        return tradeoff.zcdp_delta(self.rho, eps)

    def tradeoff(self, alpha: ArrayLike) -> NDArray[np.float64]:
        return tradeoff.zcdp_tradeoff(alpha, self.rho)

    def to_approx(self, delta: float) -> ApproxDP:
        return ApproxDP(tradeoff.zcdp_eps(self.rho, delta), delta, self.neighbors)

    def covers(self, promises: Iterable[Promise], prove: Prove | None = None) -> bool:
        return rho_of(promises) <= self.rho * (1 + ROUNDING)

    def spent_on(self, promises: Iterable[Promise], prove: Prove | None = None) -> ZeroCDP:
        return self._nothing(rho=rho_of(promises))

    def less(self, spent: ZeroCDP) -> ZeroCDP:
        return self._nothing(rho=_left(self.rho - spent.rho, self.rho))


def eps_of(promises: Iterable[Promise]) -> float:
    """Return the joint eps of several guarantees: the sum of all eps; infinite if a guarantee is not in pure eps."""
    return math.fsum(promise.eps if isinstance(promise, PureDP) else math.inf for promise in promises)


def mu_of(promises: Iterable[Promise]) -> float:
    """Return the joint mu of several guarantees: the root of the sum of mu^2.

    A guarantee in eps has the largest mu that an eps-DP mechanism can have (`pure_mu`). The result is infinite if any
    guarantee is in (eps, delta) or in rho.
    """
    return math.sqrt(math.fsum(_mu(promise) ** 2 for promise in promises))


def _mu(promise: Promise) -> float:
    match promise:
        case GaussianDP():
            return promise.mu
        case PureDP():
            return tradeoff.pure_mu(promise.eps)
    return math.inf


def rho_of(promises: Iterable[Promise]) -> float:
    """Return the joint rho of several guarantees: the sum of all rho.

    A guarantee in mu has rho = mu^2 / 2; a guarantee in eps has the largest rho that an eps-DP mechanism can have
    (`pure_rho`). The result is infinite if any guarantee is in (eps, delta).
    """
    return math.fsum(map(_rho, promises))


def _rho(promise: Promise) -> float:
    match promise:
        case ZeroCDP():
            return promise.rho
        case GaussianDP():
            return promise.mu**2 / 2
        case PureDP():
            return tradeoff.pure_rho(promise.eps)
    return math.inf


def sums(promises: tuple[Promise, ...], delta: float) -> float:
    """Return an eps for which the composition of several guarantees is (eps, delta)-DP.

    Two such values of eps are computed: the sum of all eps, if the sum of all delta is at most `delta`, and the eps
    that follows from the sum of mu^2. The smaller value is returned. The result is infinite if neither value can be
    computed, for example for a guarantee in mu together with a guarantee in (eps, delta).
    """
    eps, lost = 0.0, 0.0
    for promise in promises:
        eps += promise.eps if isinstance(promise, PureDP | ApproxDP) else math.inf
        lost += promise.delta if isinstance(promise, ApproxDP) else 0.0
    mu = mu_of(promises)
    return min(eps if lost <= delta else math.inf, tradeoff.gdp_eps(mu, delta) if math.isfinite(mu) else math.inf)


def promise_of(eps: Any, mu: Any, rho: Any, delta: Any, neighbors: Neighbors) -> Promise:
    """Return the privacy guarantee that the arguments `eps`, `mu`, `rho` and `delta` of a call request.

    Raises
    ------
    BudgetError
        If no guarantee, or more than one, is requested, or a number is out of range.
    """
    given = [name for name, number in (("eps", eps), ("mu", mu), ("rho", rho)) if number is not None]
    if not given:
        raise BudgetError("no budget is given; write eps=1, or eps=1 with delta=1e-6, or mu=1, or rho=0.5")
    if len(given) > 1:
        raise BudgetError(f"{listed(given)} are {'both' if len(given) == 2 else 'all'} given; keep one of them")
    pure = is_number(delta) and delta == 0
    if eps is not None:
        return PureDP(eps, neighbors) if pure else ApproxDP(eps, delta, neighbors)
    if not pure:
        raise BudgetError(f"delta goes with eps; leave delta out, since {given[0]} needs none")
    return GaussianDP(mu, neighbors) if rho is None else ZeroCDP(rho, neighbors)


def is_number(value: Any) -> bool:
    """Return whether a value is a number and not a boolean."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool | np.bool_)


def group_size(k: Any) -> int:
    """Return the number `k` of rows or persons in a group as an int.

    Raises
    ------
    BudgetError
        If `k` is not a whole number of at least 1.
    """
    if not is_number(k) or not 1 <= k < math.inf or k != int(k):
        raise BudgetError(f"k is {quote(k)}; give a whole number of rows from 1 on, such as k=2")
    return int(k)


def positive(name: str, value: Any) -> float:
    """Return the value of the parameter `name` of a guarantee as a float, if it is a positive finite number.

    Raises
    ------
    BudgetError
        If `value` is not a positive finite number; the error message contains `name`.
    """
    if not is_number(value) or not 0 < value < math.inf:
        raise BudgetError(f"{name} is {quote(value)}; give a positive number, such as {name}={EXAMPLES[name]}")
    return float(value)


EXAMPLES = {"eps": "1", "mu": "1", "rho": "0.5", "delta": "1e-6"}


def _left(difference: float, whole: float) -> float:
    """Return the rest `difference` of the budget `whole`, or 0 if this rest is negative or a rounding error."""
    return difference if difference > LEAST_LEFT * whole else 0.0
