"""The promises: pure, approximate and Gaussian differential privacy, each with its neighbours."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privstats.errors import BudgetError, quote
from privstats.older.privacy import price, tradeoff
from privstats.older.privacy.events import Event
from privstats.older.privacy.neighbors import REPLACE_ROW, Neighbors, as_neighbors
from privstats.older.privacy.plots import draw_tradeoff

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURRENCIES = (
    "Gaussian noise costs mu= (or eps= with delta=), and a mechanism that fails with a probability costs eps= with a "
    "delta= of at least that"
)


def _number(name: str, value: Any, low: float, high: float) -> float:
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not is_number or not low <= value < high:
        raise BudgetError(f"{name} must be a number in [{low:g}, {high:g}), not {quote(value)}")
    return float(value)


class Guarantee(ABC):
    """A promise: how much any release may tell about one unit."""

    neighbors: Neighbors
    in_mu: ClassVar[bool] = True  # whether a share of it is one of mu^2, or of eps

    @abstractmethod
    def admits(self, events: Iterable[Event], rounding: float = 0.0) -> bool:
        """Whether these events together keep the promise, up to relative `rounding` of the budget."""

    @abstractmethod
    def spent(self, events: Iterable[Event]) -> Self:
        """Return the promise of this kind that these events together keep."""

    @abstractmethod
    def minus(self, spent: Self) -> Self:
        """Return what is left of this promise after `spent`."""

    @abstractmethod
    def tradeoff(self, alpha: ArrayLike) -> NDArray[np.float64]:
        """Smallest type II error of any level-`alpha` test about one unit."""

    @abstractmethod
    def to_approx(self, delta: float) -> ApproxDP:
        """Return the best (eps, delta) guarantee that this one implies at `delta`."""

    @property
    @abstractmethod
    def budget(self) -> str:
        """The numbers of the promise, as text."""

    def plot(self, ax: Axes | None = None, **line: Any) -> Axes:
        """Draw the trade-off function: what the best test about one unit must err.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw, by default in a new figure: hand on what is returned to compare promises.
        **line
            Passed to `Axes.plot`; by default the label is the budget.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        ImportError
            If matplotlib is not installed.

        Notes
        -----
        ``GaussianDP(1.0).plot(ApproxDP(1.0, 1e-6).plot()).legend()`` compares two promises.
        """
        return draw_tradeoff(self.tradeoff, ax, **{"label": self.budget, **line})

    def __str__(self) -> str:
        return f"{self.budget} ({self.neighbors})"

    def _payable(self, cost: float) -> float:
        if math.isinf(cost):
            raise BudgetError(f"a promise of {self.budget} cannot pay for this noise: {CURRENCIES}")
        return cost

    def _settle(self, **numbers: tuple[Any, float, float]) -> None:
        for name, (value, low, high) in numbers.items():
            object.__setattr__(self, name, _number(name, value, low, high))
        object.__setattr__(self, "neighbors", as_neighbors(self.neighbors))


@dataclass(frozen=True)
class PureDP(Guarantee):
    """eps-differential privacy: no output is more than e^eps times likelier under a neighbour.

    Parameters
    ----------
    eps : float
        At least 0.
    neighbors : Neighbors or str
        Neighbouring relation, by default "replace".

    Raises
    ------
    BudgetError
        If `eps` is negative, infinite or not a number.

    Examples
    --------
    >>> print(PureDP(0.5))
    eps = 0.5 (replace one row)
    """

    eps: float
    neighbors: Neighbors = REPLACE_ROW
    in_mu = False

    def __post_init__(self) -> None:
        self._settle(eps=(self.eps, 0.0, math.inf))

    def admits(self, events: Iterable[Event], rounding: float = 0.0) -> bool:
        return price.pure_total(events) <= self.eps * (1 + rounding)

    def spent(self, events: Iterable[Event]) -> PureDP:
        return replace(self, eps=self._payable(price.pure_total(events)))

    def minus(self, spent: PureDP) -> PureDP:
        return replace(self, eps=max(0.0, self.eps - spent.eps))

    def delta(self, eps: float) -> float:
        """Smallest delta for which this guarantee implies (eps, delta)-DP."""
        return tradeoff.pure_delta(self.eps, eps)

    def tradeoff(self, alpha: ArrayLike) -> NDArray[np.float64]:
        return tradeoff.approx_tradeoff(alpha, self.eps, 0.0)

    def to_approx(self, delta: float) -> ApproxDP:
        return ApproxDP(tradeoff.relaxed_eps(self.eps, 0.0, delta), delta, self.neighbors)

    @property
    def budget(self) -> str:
        return f"eps = {self.eps:g}"


@dataclass(frozen=True)
class ApproxDP(Guarantee):
    """(eps, delta)-differential privacy.

    Parameters
    ----------
    eps : float
        At least 0.
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
    eps = 1, delta = 1e-06 (replace one row)
    """

    eps: float
    delta: float
    neighbors: Neighbors = REPLACE_ROW

    def __post_init__(self) -> None:
        self._settle(eps=(self.eps, 0.0, math.inf), delta=(self.delta, 0.0, 1.0))
        if self.delta == 0:
            raise BudgetError("delta must lie in (0, 1), such as 1e-6: use PureDP(eps) for a promise without a delta")

    def admits(self, events: Iterable[Event], rounding: float = 0.0) -> bool:
        return price.delta_total(events, self.eps * (1 + rounding)) <= self.delta * (1 + rounding)

    def spent(self, events: Iterable[Event]) -> ApproxDP:
        return replace(self, eps=self._payable(price.eps_total(events, self.delta)))

    def minus(self, spent: ApproxDP) -> ApproxDP:
        return replace(self, eps=max(0.0, self.eps - spent.eps))

    def tradeoff(self, alpha: ArrayLike) -> NDArray[np.float64]:
        return tradeoff.approx_tradeoff(alpha, self.eps, self.delta)

    def to_approx(self, delta: float) -> ApproxDP:
        return replace(self, eps=tradeoff.relaxed_eps(self.eps, self.delta, delta), delta=delta)

    @property
    def budget(self) -> str:
        return f"eps = {self.eps:g}, delta = {self.delta:g}"


@dataclass(frozen=True)
class GaussianDP(Guarantee):
    """mu-Gaussian differential privacy: no easier to attack than N(0, 1) against N(mu, 1).

    Dong, Roth and Su (2022), Definition 2.6.

    Parameters
    ----------
    mu : float
        At least 0.
    neighbors : Neighbors or str
        Neighbouring relation, by default "replace".

    Raises
    ------
    BudgetError
        If `mu` is negative, infinite or not a number.

    Examples
    --------
    >>> print(GaussianDP(1.0).to_approx(1e-6))
    eps = 4.88655, delta = 1e-06 (replace one row)
    """

    mu: float
    neighbors: Neighbors = REPLACE_ROW

    def __post_init__(self) -> None:
        self._settle(mu=(self.mu, 0.0, math.inf))

    def admits(self, events: Iterable[Event], rounding: float = 0.0) -> bool:
        return price.mu_total(events) <= self.mu * (1 + rounding)

    def spent(self, events: Iterable[Event]) -> GaussianDP:
        return replace(self, mu=self._payable(price.mu_total(events)))

    def minus(self, spent: GaussianDP) -> GaussianDP:
        return replace(self, mu=math.sqrt(max(0.0, self.mu**2 - spent.mu**2)))

    def delta(self, eps: float) -> float:
        """Smallest delta for which this guarantee implies (eps, delta)-DP."""
        return tradeoff.gdp_delta(self.mu, eps)

    def tradeoff(self, alpha: ArrayLike) -> NDArray[np.float64]:
        return tradeoff.gaussian_tradeoff(alpha, self.mu)

    def to_approx(self, delta: float) -> ApproxDP:
        return ApproxDP(tradeoff.gdp_eps(self.mu, delta), delta, self.neighbors)

    @property
    def budget(self) -> str:
        return f"mu = {self.mu:g}"


GUARANTEES: tuple[type[Guarantee], ...] = (PureDP, ApproxDP, GaussianDP)
