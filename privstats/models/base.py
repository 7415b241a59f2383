"""Base class of the statistical models, and the choice of an estimator by the name of its method.

A model stores and checks the user's arguments. It has no privacy budget and draws no random numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from privstats.errors import FormulaError, OptionError, quote
from privstats.estimators.base import FIXED, build
from privstats.formula.domain import Domain, as_domain
from privstats.formula.hints import Hint
from privstats.privacy.promise import Neighbors, Promise, is_number


@dataclass(frozen=True)
class Choice:
    """The estimator of a fit, with the names of its methods and noise distributions, and the reason for the choice.

    Parameters
    ----------
    estimator : Estimator
        Estimator with its options.
    mech : str
        Name of the method, as the user writes it.
    noise : str, optional
        Name of the noise distribution, if the user can choose one.
    why : str
        Reason for the choice if mech="auto"; otherwise empty.
    noises : mapping, optional
        If the estimator chooses between methods: the name of each method's noise distribution, by name of the method.
    branches : mapping, optional
        Maps the estimator's internal name of each of these methods to the name that the user writes.
    """

    estimator: Any
    mech: str
    noise: str | None = None
    why: str = ""
    noises: Mapping[str, str] = field(default_factory=dict)
    branches: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """Name of the method in words, such as "clipped Newton steps"."""
        return METHODS.get(self.mech, self.mech)


METHODS = {
    "suffstats": "noisy moments",
    "newton": "clipped Newton steps",
    "adaptive": "noisy moments, or clipped Newton steps",
    "ngd": "noisy gradient descent",
    "noisy_newton": "noisy Newton",
    "sgd": "noisy gradient descent on subsamples",
    "kng": "K-norm gradient",
    "objpert": "objective perturbation",
    "expmech": "exponential mechanism",
    "rank": "exponential mechanism on ranks",
    "aq": "approximate quantiles",
    "duff": "distance to data with another answer",
    "smoothsens": "smooth sensitivity",
    "ptr": "propose, test, release",
    "clipped": "clipped Newton steps on group dummies",
    "laplace": "noisy sums",
    "gaussian": "noisy sums",
    "knorm": "noisy sums",
    "permute_and_flip": "permute-and-flip on counts",
}


@dataclass(frozen=True)
class Labels:
    """Labels of the estimates, such as term and tau for each coefficient of a quantile regression.

    Parameters
    ----------
    keys : tuple of str
        Names of the parts of a label, such as ("term", "tau").
    labels : tuple of tuple
        Label of each estimate, with one part for each key. Empty if `keys` is ("term",), because the names of the
        coefficients are then the labels.
    levels : tuple of (tuple or None)
        For modes: for each estimate the declared levels of its column, or None for a numeric column. Empty otherwise.
    """

    keys: tuple[str, ...] = ("term",)
    labels: tuple[tuple[Any, ...], ...] = ()
    levels: tuple[tuple[Any, ...] | None, ...] = ()


@dataclass(frozen=True, eq=False)
class Model(ABC):
    """A model to fit: a formula, public declarations of its columns, and a subset of rows.

    Parameters
    ----------
    formula : str
        Formula, such as ``y ~ x + C(g)``, or names of columns.
    domain : Domain, dict or None
        Public declarations of the columns: bounds or levels.
    subset : str, optional
        Condition on the rows to use.
    """

    formula: str
    domain: Domain | Mapping[str, Any] | None = None
    subset: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.formula, str):
            raise FormulaError(f"a formula is text such as '{self.example}', not {_kind(self.formula)}")
        for name in ("subset", "weights", "offset"):
            value = getattr(self, name, None)
            if value is not None and not isinstance(value, str):
                raise OptionError(
                    f'{name} is {_kind(value)}; write it as text, such as {name}="{EXPRESSIONS[name]}", so that the '
                    "rows stay private"
                )
        object.__setattr__(self, "domain", self.declared(as_domain(self.domain)))
        self.check()

    example: ClassVar[str] = "y ~ x"
    of_quantiles: ClassVar[bool] = False  # whether the estimates are quantiles; their std errors depend on a density
    with_delta: ClassVar[frozenset[str]] = frozenset()  # methods with a direct proof of (eps, delta)-DP, not via mu-GDP

    def declared(self, domain: Domain) -> Domain:
        """Return the domain, extended by bounds that other arguments declare, such as `bins` (edges of bins)."""
        return domain

    def check(self) -> None:  # noqa: B027 most models have nothing more to check
        """Raise an error if an argument of the model, such as the probability of a quantile, is invalid."""

    @property
    def known(self) -> Domain:
        """Public declarations of the columns, without the hints, which are used only to forecast interval widths."""
        assert isinstance(self.domain, Domain)
        return self.domain.without_hints()

    @property
    def hints(self) -> Mapping[str, Hint]:
        """Hints about the columns, by name: assumptions from which interval widths are forecast."""
        assert isinstance(self.domain, Domain)
        return self.domain.hints

    @property
    @abstractmethod
    def title(self) -> str:
        """Title of the fit, printed in a summary after the word "Private"."""

    @abstractmethod
    def bind(self, rows: int | None) -> Any:
        """Return the design, the map from the cells of a row to the columns of the model; it contains no data.

        `rows` is the number of rows; None if this number is private.
        """

    def fitted_design(self, design: Any, mech: str, options: Mapping[str, Any]) -> Any:
        """Return the design (map from rows to model columns) that a method uses for the fit; by default `design`."""
        return design

    def with_bounds(self, design: Any, bounds: Mapping[str, tuple[float, float]]) -> Any:
        """Return the design (map from rows to columns) with estimated bounds for columns without declared bounds."""
        return design.with_bounds(bounds)

    @abstractmethod
    def estimator(
        self,
        mech: str,
        promise: Promise,
        options: Mapping[str, Any],
        design: Any,
        neighbors: Neighbors,
        rows: int | None,
        intervals: bool = True,
    ) -> Choice:
        """Return the estimator of a method with the user's options; "auto" chooses a method from public information.

        Parameters
        ----------
        mech : str
            Name of the method, or "auto".
        promise : Promise
            Privacy guarantee: the budget of the whole fit.
        options : mapping of str to object
            Options that the user gave, by name.
        design : Design
            Map from a row's cells to the columns of the model; it contains no data.
        neighbors : Neighbors
            Neighbouring relation: which two data sets count as neighbours.
        rows : int or None
            Number of rows; None if this number is private.
        intervals : bool
            Whether confidence intervals are requested; otherwise the whole budget is spent on the estimates.

        Raises
        ------
        OptionError
            If there is no such method, or the method has no such option.
        """

    def in_units(self, estimate: Any, design: Any) -> Any:
        """Convert an estimate from the scaled units of the estimator to the user's original units."""
        return estimate.mapped(*design.to_original())

    def labelled(self, design: Any, estimate: Any) -> Labels:
        """Return the labels of the estimates in the result; by default the names of the coefficients."""
        return Labels()

    def covariance(self, neighbors: Neighbors) -> str | None:
        """Return `cov_type`, which names the assumption about the errors; None if the model is not a regression."""
        return None

    def least_rows(self, design: Any) -> int:
        """Return the smallest number of rows to which the model can be fitted."""
        return 1

    def residual_unit(self, design: Any) -> float:
        """Return the factor that converts a residual from the estimator's units to the units of the response."""
        return 1.0

    @property
    def by_parts(self) -> str:
        """Argument that selects a method that does not need all rows in memory at once, such as "mech='auto'".

        Errors about methods that need all rows in memory recommend this argument.
        """
        return "mech='auto'"

    @property
    def link_name(self) -> str | None:
        """Name of the link function; None if the model has no link function."""
        return None

    @property
    def family_name(self) -> str | None:
        """Name of the family of a generalized linear model; None for other models."""
        return None

    @property
    def taus(self) -> tuple[float, ...]:
        """Probabilities tau of the quantiles in a quantile regression; an empty tuple for other models."""
        return ()


EXPRESSIONS = {"subset": "x > 0.5", "weights": "w", "offset": "np.log(years)"}


def one_of(argument: str, value: Any, known: Iterable[str]) -> None:
    """Raise an error if the value of an argument is not one of the known names.

    Raises
    ------
    OptionError
        If the value is not a known name; the message lists the known names.
    """
    known = tuple(known)
    if not isinstance(value, str) or value not in known:
        raise OptionError(f"{argument} is {quote(value)}; choose among {', '.join(map(repr, known))}")


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIO' else 'a'} {name}"


@dataclass(frozen=True)
class Candidate:
    """An estimator class that a model may choose, with the names of its methods and noise distributions.

    Parameters
    ----------
    estimator : type
        Class of the estimator; the fields of the class are the options.
    fixed : mapping
        Options that the model sets and the user cannot set.
    noise : str, optional
        Name of the noise distribution.
    noises : mapping, optional
        If the estimator chooses between methods: the name of each method's noise distribution, by name of the method.
    branches : mapping, optional
        Maps the estimator's internal name of each of these methods to the name that the user writes.
    """

    estimator: type
    fixed: Mapping[str, Any] = field(default_factory=dict)
    noise: str | None = None
    noises: Mapping[str, str] = field(default_factory=dict)
    branches: Mapping[str, str] = field(default_factory=dict)

    def choice(self, mech: str, options: Mapping[str, Any], why: str) -> Choice:
        """Return the choice of this estimator: an instance with the user's options, under the method name `mech`.

        `why` is the reason for a choice by mech="auto"; otherwise it is empty.
        """
        estimator = build(self.estimator, mech, options, **self.fixed)
        return Choice(estimator, mech, self.noise, why, self.noises, self.branches)


def chosen(
    mech: str, table: Mapping[str, Candidate], auto: tuple[str, Candidate], options: Mapping[str, Any], why: str
) -> Choice:
    """Return the estimator of a method with the user's options.

    Parameters
    ----------
    mech : str
        Name of a method in `table`, or "auto".
    table : mapping of str to Candidate
        Estimators of the methods, by name of the method.
    auto : tuple of (str, Candidate)
        Name and estimator of the method that "auto" selects. This estimator may choose between more methods than the
        estimator with the same name in `table`.
    options : mapping
        Options that the user gave.
    why : str
        Reason for the choice of "auto".

    Raises
    ------
    OptionError
        If there is no such method, or the method has no such option.
    """
    one_of("mech", mech, ("auto", *table))
    if mech != "auto":
        entry = table[mech]
        return Choice(
            build(entry.estimator, mech, options, **entry.fixed), mech, entry.noise, "", entry.noises, entry.branches
        )
    name, entry = auto
    for option in options:
        if option not in own_options(entry):
            having = [f"'{other}'" for other, row in table.items() if option in own_options(row)]
            if not having:
                raise OptionError(f"no method of this function under this budget has an option {option}=; leave it out")
            raise OptionError(
                f"{option}= belongs to mech={' and '.join(having)}, and auto would choose {name}; name the mechanism, "
                f"or leave {option} out"
            )
    return Choice(
        build(entry.estimator, name, options, **entry.fixed), name, entry.noise, why, entry.noises, entry.branches
    )


def own_options(entry: Candidate) -> set[str]:
    """Return the names of an estimator's options that users may set: its fields, except those set by the model."""
    return {f.name for f in fields(entry.estimator)} - {*FIXED, *entry.fixed}


def levels_of(name: str, value: Any) -> tuple[float, ...]:
    """Return the probabilities of quantiles in ascending order, from one number or an iterable of numbers.

    Raises
    ------
    OptionError
        If the probabilities are not distinct numbers between 0 and 1. Numbers that agree to six significant digits
        count as equal, because the labels of results show six digits.
    """
    try:
        several = (value,) if is_number(value) or isinstance(value, str) else tuple(value)
    except TypeError:
        several = ()
    legal = all(is_number(level) and 0 < level < 1 for level in several)
    if not several or not legal or len({f"{level:g}" for level in several}) < len(several):
        raise OptionError(
            f"{name} is {quote(value)}; give one number between 0 and 1, or a list of different ones: "
            f"{name}=[0.25, 0.5, 0.75]"
        )
    return tuple(sorted(float(level) for level in several))
