"""Common parts of estimators: public information about a fit, noise mechanisms by kind of query, checks of options."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np

from privstats.errors import OptionError, quote
from privstats.gate.questions import Laws, Question, Sum
from privstats.mechanisms.additive.cube import Cube
from privstats.mechanisms.additive.gaussian import Gaussian
from privstats.mechanisms.additive.laplace import Laplace
from privstats.mechanisms.additive.matrixt import MatrixT
from privstats.mechanisms.additive.spherical import Spherical
from privstats.mechanisms.base import Mechanism
from privstats.privacy.promise import is_number
from privstats.sets.vectors import SumAndProducts


@dataclass(frozen=True, eq=False)
class PublicFacts:
    """Public information about a fit; its use costs no privacy budget.

    Parameters
    ----------
    offered : int or None
        Number of rows in the data; None if private.
    used : int or None
        Number of rows used; None if private. A public number implies that every row is complete, and that no row is
        left out or weighted.
    units : int or None
        Number of privacy units (persons); None if private, or if rows do not belong to units.
    by_unit : bool
        Whether rows belong to privacy units. If so, scores are added up within units, and histograms count units.
    intervals : bool
        Whether standard errors are requested.
    design : Design
        The design's column names, factors with contrasts, and bounds; no data.
    assumed : int or None
        Number of rows assumed in a plan (the list of all queries and their noise, made without data) if the number of
        rows is private. Estimators never use this number.
    rows_per_unit : int
        Largest number of rows of one privacy unit that are used.
    """

    offered: int | None
    used: int | None
    units: int | None
    by_unit: bool
    intervals: bool
    design: Any
    assumed: int | None = None
    rows_per_unit: int = 1


@dataclass(frozen=True)
class Noises:
    """Mechanisms that add noise to sums: one mechanism for each kind of query.

    Parameters
    ----------
    counts : Mechanism
        Mechanism for histograms and counts.
    columns : Mechanism
        Mechanism for sums of columns and of their squares.
    vector : Mechanism
        Mechanism for sums of scores.
    matrix : Mechanism
        Mechanism for matrices of second moments.
    free_products : bool
        Whether second moments of clipped scores cost no additional budget if they are released together with the sum of
        the scores (`SumAndProducts`).
    shares : str
        Key of the default budget shares for these mechanisms: "normal" or "pure" (pure differential privacy).
    """

    counts: Mechanism
    columns: Mechanism
    vector: Mechanism
    matrix: Mechanism
    free_products: bool
    shares: str

    @property
    def products(self) -> Mechanism:
        """Return the mechanism for second moments of rows of bounded norm.

        The mechanism `matrix` is returned if its noise is calibrated to a sensitivity in the l2 norm or in the nuclear
        norm. Otherwise the matrix-t mechanism is returned.
        """
        return self.matrix if getattr(self.matrix, "norm", None) in ("l2", "nuclear") else MatrixT()


NORMAL = Noises(Gaussian(), Gaussian(), Gaussian(), Gaussian(), free_products=True, shares="normal")
PURE = Noises(Laplace(), Cube(), Spherical(), MatrixT(), free_products=False, shares="pure")


@dataclass(frozen=True, eq=False)
class ByBranch(Mapping[str, float]):
    """Expected interval lengths by branch (method of estimation); each length is computed when the length is looked up.

    A plan (the list of all possible queries, made without data) looks up no length, so no length is computed.

    Parameters
    ----------
    branches : tuple of str
        Names of the branches.
    of : callable
        Function that maps a branch to its expected interval length.
    """

    branches: tuple[str, ...]
    of: Callable[[str], float]

    def __getitem__(self, branch: str) -> float:
        return self.of(branch)

    def __contains__(self, branch: object) -> bool:
        return branch in self.branches

    def __iter__(self) -> Iterator[str]:
        return iter(self.branches)

    def __len__(self) -> int:
        return len(self.branches)


def entry_sd(ask: Laws, question: Sum, by: Noises) -> float:
    """Return the noise sd of an off-diagonal entry of a sum of x x' over rows x that are clipped to norm 1.

    `question` is the query for the sum; the query's own clipping norm has no effect. For rows clipped to norm R, the
    noise sd is R^2 times as large. If a row x has a single entry, the result is the noise sd of the sum of x^2.
    """
    law = ask.law(question.inside(1.0), by=by.products)
    i, j = question.within.pairs or (np.zeros(1), np.zeros(1))
    variance = law.variance()
    off = variance[i != j]
    return float(np.sqrt(off[0] if off.size else variance.max()))


def sd_of(law: Any) -> float:
    """Return the standard deviation of a coordinate of a noise vector; all coordinates have the same sd."""
    return float(np.sqrt(law.variance()[0]))


def score_sd(ask: Laws, question: Question, by: Noises) -> float:
    """Return the noise sd of a coordinate of a sum of scores that is released with the mechanism ``by.vector``.

    `question` is the query for the sum of scores, alone or together with the scores' second moments.
    """
    law = ask.law(question, by=by.vector)
    if isinstance(question.within, SumAndProducts):
        within, unit = question.within, 1 / question.within.corner
        return float(np.sqrt(unit * law.variance()[within.where[0, 1]] * unit))
    return sd_of(law)


class Estimator(Protocol):
    """An estimator: a frozen dataclass with the user's options as fields.

    A call ``estimator(ask, public)`` sends queries to the data through `ask` and returns an estimate of the design's
    coefficients. The property `shares` maps the name of each query to its share of the budget.
    """

    @property
    def shares(self) -> Mapping[str, float]: ...
    def __call__(self, ask: Any, public: PublicFacts) -> Any: ...


CHOICES = ("usual", "cautious")  # values of the option `tail`: assumption on the number of scores with large norms
# fields of estimators that are set by the model; users cannot set them
FIXED = ("noises", "branches", "shares", "loss", "norm", "taus", "coarse", "rows", "sigma", "few")


def with_std_error(sigma: float, error: float) -> dict[str, float]:
    """Return two diagnostics by name: the residual std dev `sigma`, and its std error due to privacy noise.

    `error` is the std error of the residual variance, the square of `sigma`; the std error of `sigma` follows by the
    delta method. It is infinite if `sigma` is 0.
    """
    return {"sigma": sigma, "sigma_std_err": error / (2 * sigma) if sigma else math.inf}


def build(estimator: type, mech: str, options: Mapping[str, Any], **fixed: Any) -> Any:
    """Return an instance of the estimator with the user's options; raise an error for an unknown option.

    The argument `mech` is the name of the method in the error message. The arguments `fixed` are the values of the
    estimator's fields that the model sets, not the user.
    """
    own = {f.name for f in fields(estimator)} - set(FIXED)
    for name in options:
        if name not in own:
            has = f"it has {', '.join(sorted(own))}" if own else "it has none"
            raise OptionError(f"mech='{mech}' has no option {name}=; {has}")
    return estimator(**fixed, **options)


def check_tail(tail: object) -> None:
    """Raise an error unless the option `tail` is "usual" or "cautious".

    The option selects an assumption on the number of scores with large norms. An assumption is needed because the
    counts of such scores in a released histogram may be smaller than their noise.

    Raises
    ------
    OptionError
    """
    if not isinstance(tail, str) or tail not in CHOICES:
        raise OptionError(f"tail is {quote(tail)}; choose among {', '.join(map(repr, CHOICES))}")


def check_switch(name: str, value: object) -> None:
    """Raise an error if an option is neither True nor False.

    Raises
    ------
    OptionError
    """
    if not isinstance(value, bool):
        raise OptionError(f"{name} is {quote(value)}; write {name}=True or {name}=False")


def check_split(split: Any) -> None:
    """Raise an error unless `split`, the budget share of the linear term in objective perturbation, is in (0, 1).

    Raises
    ------
    OptionError
    """
    if not is_number(split) or not 0 < split < 1:
        raise OptionError(f"split is {quote(split)}; give a number between 0 and 1, such as split=0.85")
