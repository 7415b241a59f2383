"""Models for means, quantiles, modes and histograms of columns, and the choice of an estimator for each model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privstats.errors import DomainError, FormulaError, OptionError, PrivacyError, quote
from privstats.estimators import counts
from privstats.estimators.base import NORMAL, PURE
from privstats.estimators.clipped_means import ClippedMeans
from privstats.estimators.means import ChosenMeans, Means
from privstats.estimators.quantiles import (
    ApproximateQuantiles,
    ChosenQuantiles,
    GeometricMedian,
    ProposeTestReleaseQuantiles,
    RankQuantiles,
)
from privstats.formula.columns import Columns, bind_columns
from privstats.formula.domain import Domain
from privstats.formula.factors import as_edges, refuse_few_rows
from privstats.formula.language import parse_formula
from privstats.mechanisms.additive.cube import Cube
from privstats.mechanisms.additive.gaussian import Gaussian
from privstats.mechanisms.additive.laplace import Laplace
from privstats.mechanisms.additive.spherical import Spherical
from privstats.mechanisms.base import Mechanism
from privstats.mechanisms.comparison.duff import DuffQuantile
from privstats.mechanisms.comparison.kng_median import KNGMedian
from privstats.mechanisms.comparison.ptr import ProposeTestRelease
from privstats.mechanisms.comparison.smooth import SmoothCauchy, SmoothGaussian, SmoothLaplace, SmoothLaplaceLN
from privstats.mechanisms.order.mode import DuffMode, ModeExponential, PermuteAndFlip
from privstats.models.base import Candidate, Choice, Labels, Model, chosen, levels_of, one_of
from privstats.models.regression import Carrying
from privstats.privacy.promise import ApproxDP, Neighbors, Promise, is_number

PROPOSE = ProposeTestRelease()
EXACT_COLUMNS = 3  # number of columns above which a Markov chain replaces the exact sampler of geometric medians
KNORM_NOISES: Mapping[str, Mechanism] = {"linf": Cube(), "l1": Laplace(), "l2": Spherical()}
SMOOTH: Mapping[str, Mechanism] = {
    "cauchy": SmoothCauchy(), "laplace": SmoothLaplace(), "laplaceln": SmoothLaplaceLN(), "gaussian": SmoothGaussian(),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Location(Model):
    """Base class of the models that summarise columns (such as means and quantiles), over all rows or by group."""

    example: ClassVar[str] = "x"

    def check(self) -> None:
        parsed = parse_formula(self.formula, self.example)
        codes = [code for side in (parsed.left, parsed.right) for term in side for code in term]
        twice = next((code for code in codes if codes.count(code) > 1), None)
        if twice is not None:
            cure = f"for a quotient write I({self.formula})" if "/" in self.formula else "and not by itself"
            raise FormulaError(f"'{twice}' appears twice in the formula; ask about a column once, {cure}")

    def bind(self, rows: int | None) -> Columns:
        design = self.columns()
        if design.lacking and self.grid_given:
            raise DomainError(
                f"column '{design.lacking[0]}' has no declared bounds and grid= counts the points between them; write "
                f"domain={{'{design.lacking[0]}': (low, high)}}"
            )
        self.check_columns(design)
        if design.group is not None:
            refuse_few_rows(design.group.code, len(design.group_levels), rows)
        return design

    @property
    def by_group(self) -> str:
        """Ending of the title, " by group" if the formula names a grouping factor, and an empty text otherwise."""
        parsed = parse_formula(self.formula, self.example)
        return " by group" if parsed.left and any(parsed.right) else ""

    @property
    def grid_given(self) -> bool:
        """Whether the user gave a grid of candidate values; a model with a grid needs declared bounds."""
        return False

    def columns(self) -> Columns:
        """Return the map from rows of the data to the values of the columns to be summarised."""
        return bind_columns(self.formula, self.known, subset=self.subset)

    def check_columns(self, design: Columns) -> None:
        """Raise an error if the model needs numeric columns and a column has levels."""
        design.numeric(f"dp_{self.verb}")

    verb: ClassVar[str] = ""

    def labelled(self, design: Any, estimate: Any) -> Labels:
        return Labels(design.keys, () if design.keys == ("term",) else design.labels)


@dataclass(frozen=True, eq=False)
class ColumnQuantile(Location):
    """Model for quantiles of columns, over all rows or by group.

    Parameters
    ----------
    q : float or sequence of float
        Probabilities of the quantiles.
    tau : float or sequence of float, optional
        Another name for `q`.
    alpha : float
        One minus the confidence level of the released intervals.
    """

    q: Any = 0.5
    tau: Any = None
    alpha: float = 0.05

    with_delta: ClassVar[frozenset[str]] = frozenset({"ptr", "smoothsens"})
    verb: ClassVar[str] = "quantile"
    of_quantiles: ClassVar[bool] = True
    both: ClassVar[str] = "q and tau are both given, and mean the same; keep one of them"

    def check(self) -> None:
        super().check()
        if self.tau is not None and not (is_number(self.q) and self.q == 0.5):
            raise OptionError(self.both)
        name, given = ("q", self.q) if self.tau is None else ("tau", self.tau)
        object.__setattr__(self, "q", levels_of(name, given))
        if not is_number(self.alpha) or not 0.001 <= self.alpha <= 0.5:
            raise OptionError(f"alpha is {quote(self.alpha)}; give a number from 0.001 to 0.5, such as alpha=0.05")

    @property
    def title(self) -> str:
        return ("quantiles" if len(self.q) > 1 else f"quantile (q = {self.q[0]:.10g})") + self.by_group

    @property
    def by_parts(self) -> str:
        return "mech='rank'"

    def columns(self) -> Columns:
        if len(self.q) == 1:
            return super().columns()
        return bind_columns(self.formula, self.known, subset=self.subset, components=self.q, component="q")

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
        given = dict(options)
        noise = given.pop("noise", None)
        if noise is not None and mech != "smoothsens":
            raise OptionError(f"noise= belongs to mech='smoothsens', and not to mech='{mech}'; leave noise out")
        own = {"q": self.q, "confidence": 1 - self.alpha, "neighbors": neighbors}
        table = {
            "rank": Candidate(RankQuantiles, own),
            "aq": Candidate(ApproximateQuantiles, own),
            "duff": Candidate(ChosenQuantiles, {**own, "mechanism": DuffQuantile()}),
            "kng": Candidate(ChosenQuantiles, {**own, "mechanism": KNGMedian()}),
            "smoothsens": Candidate(ChosenQuantiles, {**own, "mechanism": _smooth(noise, promise)}, noise or "cauchy"),
            "ptr": Candidate(ProposeTestReleaseQuantiles, {**own, "mechanism": PROPOSE}),
        }
        if mech == "ptr" and not isinstance(promise, ApproxDP):
            raise OptionError("mech='ptr' may fail with a probability; add delta=1e-6 to eps")
        because = "chosen by auto: exact" + (", and draws all quantiles together" if len(self.q) > 1 else "")
        return chosen(mech, table, ("rank", table["rank"]), given, because)


def _smooth(noise: Any, promise: Promise) -> Mechanism:
    """Return the mechanism for quantiles with noise scaled to the smooth sensitivity, by default Cauchy noise.

    `noise` is the name of the noise distribution, and `promise` the privacy guarantee. An error is raised if the
    distribution needs an (eps, delta) guarantee and `promise` is a guarantee of another kind.
    """
    if noise is not None:
        one_of("noise", noise, tuple(SMOOTH))
    mechanism = SMOOTH["cauchy" if noise is None else noise]
    if mechanism.needs_delta and not isinstance(promise, ApproxDP):
        raise OptionError(f"noise='{noise}' may fail with a probability; add delta=1e-6 to eps, or leave noise out")
    return mechanism


@dataclass(frozen=True, eq=False)
class ColumnMedian(ColumnQuantile):
    """Model for medians of columns, or for the geometric median: the point with the least sum of distances to the rows.

    Parameters
    ----------
    geometric : bool
        Whether to estimate the geometric median.
    """

    geometric: bool = False

    verb: ClassVar[str] = "median"

    def check(self) -> None:
        super().check()
        if not isinstance(self.geometric, bool | np.bool_):
            raise OptionError(f"geometric is {quote(self.geometric)}; write geometric=True or geometric=False")

    @property
    def title(self) -> str:
        return ("geometric median" if self.geometric else "median") + self.by_group

    @property
    def by_parts(self) -> str:
        return f"geometric=False, {super().by_parts}" if self.geometric else super().by_parts

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
        if not self.geometric:
            return super().estimator(mech, promise, options, design, neighbors, rows, intervals)
        one_of("mech", mech, ("auto", "kng"))
        if mech == "auto" and design.width > EXACT_COLUMNS:
            raise PrivacyError(
                f"no exact sampler takes a geometric median of {design.width} columns; give mech='kng' for a Markov "
                "chain"
            )
        entry = Candidate(GeometricMedian, {"neighbors": neighbors})
        return chosen(mech, {"kng": entry}, ("kng", entry), options, "chosen by auto: exact for so few columns")


@dataclass(frozen=True, eq=False)
class ColumnMean(Location):
    """Model for means of columns, over all rows or by group."""

    verb: ClassVar[str] = "mean"

    @property
    def title(self) -> str:
        return f"means{self.by_group}" if self.by_group else "mean"

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
        table, auto, given = _noisy(mech, promise, options, Means, {"neighbors": neighbors})
        table["duff"] = Candidate(ChosenMeans, {"neighbors": neighbors})
        by = NORMAL if promise.normal else PURE
        clipped = Candidate(ClippedMeans, {"noises": by}, "gaussian" if by is NORMAL else "l2")
        table["clipped"] = clipped
        public = Carrying(promise, neighbors, len(design.names), rows, intervals)
        entry, because = table[auto], "chosen by auto: the least noise under this budget"
        alone = design.is_regression and intervals and neighbors.rows_per_unit == 1 and rows is not None
        if mech == "auto" and alone and public.outdoes_moments(by, design.as_regression()):
            sums = Means(**entry.fixed)
            noises = {auto: str(entry.noise), "clipped": str(clipped.noise)}
            branches = {"sums": auto, "steps": "clipped"}
            both = Candidate(ClippedMeans, {"noises": by, "sums": sums}, None, noises, branches)
            return chosen(mech, table, (f"{auto} or clipped", both), given, "")
        choice = chosen(mech, table, (auto, entry), given, because)
        if mech != "clipped":
            return choice
        design.as_regression()
        return public.carried(choice, f"mech='{auto}'")


@dataclass(frozen=True, eq=False)
class Binned(Location):
    """Base class of modes and histograms, which count the rows in each bin, or at each level, of one column.

    Parameters
    ----------
    bins : int or sequence of float, optional
        Number of bins, or their edges.
    """

    bins: Any = None

    def declared(self, domain: Domain) -> Domain:
        edges = as_edges(self.bins)
        if not edges:
            return domain
        missing = bind_columns(self.formula, domain, subset=self.subset).lacking
        return domain.extended(dict.fromkeys(missing, (edges[0], edges[-1])))

    def check_columns(self, design: Columns) -> None:
        """Accept all columns: rows are counted in the bins of a numeric column, or at the levels of another column."""


@dataclass(frozen=True, eq=False)
class ColumnMode(Binned):
    """Model for the mode of a column: its most frequent value or level, or the bin with the most rows.

    Parameters
    ----------
    grid : float, optional
        Step between the possible values, which are the candidates for the mode.
    """

    grid: Any = None

    verb: ClassVar[str] = "mode"

    @property
    def title(self) -> str:
        return f"modes{self.by_group}" if self.by_group else "mode"

    @property
    def grid_given(self) -> bool:
        return self.grid is not None

    def labelled(self, design: Any, estimate: Any) -> Labels:
        labels = super().labelled(design, estimate)
        levels = getattr(design.targets[0], "levels", None)
        each = () if levels is None else (tuple(levels.values),) * len(design.names)
        return Labels(labels.keys, labels.labels, each)

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
        given = dict(options)
        if given.pop("noise", None) is not None:
            raise OptionError("a mode has no choice of noise; leave noise out")
        own = {"bins": self.bins, "grid": self.grid, "neighbors": neighbors}
        table = {
            "permute_and_flip": Candidate(counts.Mode, {**own, "mechanism": PermuteAndFlip()}),
            "expmech": Candidate(counts.Mode, {**own, "mechanism": ModeExponential()}),
            "duff": Candidate(counts.Mode, {**own, "mechanism": DuffMode()}),
        }
        because = "chosen by auto: errs least"
        return chosen(mech, table, ("permute_and_flip", table["permute_and_flip"]), given, because)


@dataclass(frozen=True, eq=False)
class ColumnHistogram(Binned):
    """Model for a histogram of a column: the counts or densities of its bins, over all rows or by group."""

    verb: ClassVar[str] = "hist"

    @property
    def title(self) -> str:
        return f"histogram{self.by_group}"

    def columns(self) -> Columns:
        return self._binned(self.known)

    def with_bounds(self, design: Any, bounds: Mapping[str, tuple[float, float]]) -> Columns:
        return self._binned(design.with_bounds(bounds).domain)

    def _binned(self, domain: Domain) -> Columns:
        """Return the map from rows to values of the histogram's column, with one named estimate for each bin.

        `domain` contains the public declarations of the columns.
        """
        plain = bind_columns(self.formula, domain, subset=self.subset)
        names = plain.bin_names(plain.edges("dp_hist", self.bins))
        return bind_columns(self.formula, domain, subset=self.subset, components=names, component="bin")

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
        own = {"bins": self.bins, "neighbors": neighbors}
        table, auto, given = _noisy(mech, promise, options, counts.Histogram, own)
        because = "chosen by auto: the least noise under this budget"
        return chosen(mech, table, (auto, table[auto]), given, because)


def _noisy(
    mech: str, promise: Promise, options: Mapping[str, Any], estimator: type, own: Mapping[str, Any]
) -> tuple[dict[str, Candidate], str, dict[str, Any]]:
    """Return the methods that add noise to sums, the name of the default method, and the options without `noise`.

    `estimator` is a class for means or histograms. Each method creates an instance of this class, with the arguments
    `own` and a noise mechanism. The default method has normal noise if the privacy guarantee `promise` allows normal
    noise, and Laplace noise otherwise.
    """
    given = dict(options)
    noise = given.pop("noise", None)
    if noise is not None and mech != "knorm":
        raise OptionError(f"noise= belongs to mech='knorm', and not to mech={quote(mech)}; leave noise out")
    one_of("noise", "linf" if noise is None else noise, tuple(KNORM_NOISES))
    normal = promise.normal
    if mech == "gaussian":
        promise.as_normal()
    table = {
        "laplace": Candidate(estimator, {**own, "noise": Laplace()}, "l1"),
        "knorm": Candidate(estimator, {**own, "noise": KNORM_NOISES[noise or "linf"]}, noise or "linf"),
        "gaussian": Candidate(estimator, {**own, "noise": Gaussian()}, "gaussian"),
    }
    return table, "gaussian" if normal else "laplace", given
