"""A model: a self-checking record of the formula and arguments of the user, without privacy or randomness."""

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
    """An estimator with the names and texts that describe it.

    Parameters
    ----------
    estimator : Estimator
        A frozen conversation with its options.
    mech : str
        Its name, as the user writes it.
    noise : str, optional
        Name of the distribution of its noise, where there is one to choose.
    why : str
        Why it was chosen, where it was left to the package; else empty.
    noises : mapping, optional
        The same for each method between which the estimator chooses.
    branches : mapping, optional
        The methods, by the name of the estimator's branch.
    """

    estimator: Any
    mech: str
    noise: str | None = None
    why: str = ""
    noises: Mapping[str, str] = field(default_factory=dict)
    branches: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """Description of the method, in words."""
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
    """How the numbers of an estimate are labelled; fields as in `FitFacts`."""

    keys: tuple[str, ...] = ("term",)
    labels: tuple[tuple[Any, ...], ...] = ()
    levels: tuple[tuple[Any, ...] | None, ...] = ()


@dataclass(frozen=True, eq=False)
class Model(ABC):
    """What is fitted.

    Parameters
    ----------
    formula : str
    domain : Domain, dict or None
        What is publicly declared of the columns.
    subset : str, optional
        Rows to use.
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
    with_delta: ClassVar[frozenset[str]] = frozenset()  # methods that keep (eps, delta) only, or can

    def declared(self, domain: Domain) -> Domain:
        """Return the domain, extended by declarations in other arguments (bins)."""
        return domain

    def check(self) -> None:  # noqa: B027 most models have nothing more to check
        """Refuse arguments out of range."""

    @property
    def known(self) -> Domain:
        """What is declared of the columns; hints are not, which are for forecasts alone."""
        assert isinstance(self.domain, Domain)
        return self.domain.without_hints()

    @property
    def hints(self) -> Mapping[str, Hint]:
        """Hints about the columns: assumptions for forecasts."""
        assert isinstance(self.domain, Domain)
        return self.domain.hints

    @property
    @abstractmethod
    def title(self) -> str:
        """What is fitted, in words, after "Private "."""

    @abstractmethod
    def bind(self, rows: int | None) -> Any:
        """Return the design: the map from rows to numbers, which holds no data; `rows` is their public number."""

    def with_bounds(self, design: Any, bounds: Mapping[str, tuple[float, float]]) -> Any:
        """Return the design with estimated bounds of the factors that lack them."""
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
        """Return the estimator of this name with the options that were given; "auto" by a public table.

        Parameters
        ----------
        mech : str
        promise : Promise
        options : mapping of str to object
        design : Design
        neighbors : Neighbors
        rows : int or None
            Their public number; None where it is private.
        intervals : bool
            Whether intervals are wanted, or the whole budget is for the estimate.

        Raises
        ------
        OptionError
            If there is none of this name, or it has no such option.
        """

    def in_units(self, estimate: Any, design: Any) -> Any:
        """Return the estimate in the user's units, from the estimator's coordinates."""
        return estimate.mapped(*design.to_original())

    def labelled(self, design: Any, estimate: Any) -> Labels:
        """Return the labels of the numbers of an estimate; by default its names."""
        return Labels()

    def covariance(self, neighbors: Neighbors) -> str | None:
        """Return the name of the assumption of intervals on the errors; None where there is no such choice."""
        return None

    def least_rows(self, design: Any) -> int:
        """Return the smallest number of rows that can be fitted."""
        return 1

    def residual_unit(self, design: Any) -> float:
        """Return the length, in units of the response, of a residual of 1 in the estimator's units."""
        return 1.0

    @property
    def by_parts(self) -> str:
        """What to write for a method that takes the rows in parts, in place of one that needs all of them at once."""
        return "mech='auto'"

    @property
    def link_name(self) -> str | None:
        """Name of the link through which predictions are made; None where there is none."""
        return None

    @property
    def family_name(self) -> str | None:
        """Name of the family of a generalized linear model; None of other models."""
        return None

    @property
    def taus(self) -> tuple[float, ...]:
        """Quantiles of a quantile regression; none of other models."""
        return ()


EXPRESSIONS = {"subset": "x > 0.5", "weights": "w", "offset": "np.log(years)"}


def one_of(argument: str, value: Any, known: Iterable[str]) -> None:
    """Refuse an unknown name.

    Raises
    ------
    OptionError
        The message lists the known names.
    """
    known = tuple(known)
    if not isinstance(value, str) or value not in known:
        raise OptionError(f"{argument} is {quote(value)}; choose among {', '.join(map(repr, known))}")


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIO' else 'a'} {name}"


@dataclass(frozen=True)
class Candidate:
    """A row of a table of estimators.

    Parameters
    ----------
    estimator : type
        The class, whose fields are the options that it has.
    fixed : mapping
        Fields that the model sets.
    noise : str, optional
        Name of the distribution of its noise.
    noises : mapping, optional
        The same for each method between which it chooses.
    branches : mapping, optional
        The methods, by the name of the estimator's branch.
    """

    estimator: type
    fixed: Mapping[str, Any] = field(default_factory=dict)
    noise: str | None = None
    noises: Mapping[str, str] = field(default_factory=dict)
    branches: Mapping[str, str] = field(default_factory=dict)

    def choice(self, mech: str, options: Mapping[str, Any], why: str) -> Choice:
        """Return the estimator with these options."""
        estimator = build(self.estimator, mech, options, **self.fixed)
        return Choice(estimator, mech, self.noise, why, self.noises, self.branches)


def chosen(
    mech: str, table: Mapping[str, Candidate], auto: tuple[str, Candidate], options: Mapping[str, Any], why: str
) -> Choice:
    """Return the estimator of a name with its options.

    Parameters
    ----------
    mech : str
        A name of the table, or "auto".
    table : mapping of str to Candidate
    auto : tuple of (str, Candidate)
        Which name "auto" stands for; the entry may have more branches than that of the table.
    options : mapping
        The options that the user gave.
    why : str
        Why "auto" takes it.

    Raises
    ------
    OptionError
        If there is no such name, or it has no such option.
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
    """Return the names of the options that an estimator has for its users."""
    return {f.name for f in fields(entry.estimator)} - {*FIXED, *entry.fixed}


def levels_of(name: str, value: Any) -> tuple[float, ...]:
    """Return levels of quantiles, ascending.

    Raises
    ------
    OptionError
        If they are not different numbers between 0 and 1.
    """
    try:
        several = (value,) if is_number(value) or isinstance(value, str) else tuple(value)
    except TypeError:
        several = ()
    legal = all(is_number(level) and 0 < level < 1 for level in several)
    if not several or not legal or len(set(several)) < len(several):
        raise OptionError(
            f"{name} is {quote(value)}; give one number between 0 and 1, or a list of different ones: "
            f"{name}=[0.25, 0.5, 0.75]"
        )
    return tuple(sorted(float(level) for level in several))
