"""The quantile regression model, and the choice of its estimator by method, budget and number of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privstats.errors import OptionError
from privstats.estimators.chosen_quantile import ExponentialQuantiles, KNormGradientQuantile
from privstats.estimators.plain_perturbation import PlainPerturbedQuantile
from privstats.estimators.quantile_regression import PerturbedQuantile, QuantileSteps
from privstats.mechanisms.quantile_regression.rejection import exact_for
from privstats.models.base import Candidate, Choice, Labels, chosen, levels_of, one_of
from privstats.models.regression import OF_VECTORS, Carrying, Regression, noises_of, refuse_scales
from privstats.privacy.promise import Neighbors, Promise

NORMS = ("hull", *OF_VECTORS)
# The following constants are limits of 2 min(tau, 1 - tau) n eps / d, for the quantile of probability tau, n rows, the
# budget eps and d coefficients.
#
# FEW_ROWS: Newton steps are used above this limit (for medians with intervals, above MEDIAN_ROWS). Below the limit,
# objective perturbation gives shorter intervals than Newton steps, and gives intervals more often. Above the limit, the
# bias of objective perturbation may exceed its bias bound, except for medians.
FEW_ROWS = 750.0
# MEDIAN_ROWS: below this limit, objective perturbation is used for medians with intervals.
# SAMPLED_BELOW: below `SAMPLED_BELOW[d]`, the K-norm gradient mechanism is used for d coefficients if intervals are
# requested. This mechanism does not whiten predictors. With two or more coefficients, the mechanism gives no intervals
# if predictors vary over only a fifth of the range between their bounds.
MEDIAN_ROWS = 3000.0
SAMPLED_BELOW = {1: FEW_ROWS, 2: 550.0, 3: 300.0}


@dataclass(frozen=True, eq=False)
class QuantileModel(Regression):
    """Quantile regression, such as ``y ~ x + C(g)``.

    Parameters
    ----------
    tau : float or sequence of float
        Probabilities of the quantiles.
    """

    tau: Any = 0.5

    covariances: ClassVar[tuple[str, ...]] = ("HC", "kernel")
    of_quantiles: ClassVar[bool] = True

    def check(self) -> None:
        super().check()
        object.__setattr__(self, "tau", levels_of("tau", self.tau))

    @property
    def title(self) -> str:
        return "quantile regression" + (f" (tau = {self.tau[0]:.10g})" if len(self.tau) == 1 else "")

    @property
    def taus(self) -> tuple[float, ...]:
        return tuple(self.tau)

    def covariance(self, neighbors: Neighbors) -> str | None:
        return "HC"

    def in_units(self, estimate: Any, design: Any) -> Any:
        """Return the estimate in the user's units, with the coefficients sorted by term, then by probability tau.

        In the argument `estimate`, the coefficients are sorted by tau, then by term.
        """
        several = len(self.tau)
        if several == 1:
            return super().in_units(estimate, design)
        matrix, shift, written = design.to_written()
        terms = np.arange(len(matrix) * several).reshape(several, -1).T.ravel()  # sorted by term, then tau
        whole = np.kron(np.eye(several), matrix)[terms]
        names = tuple(f"{name}[{tau:g}]" for name in written for tau in self.tau)
        return estimate.mapped(whole, np.repeat(shift, several), names)

    def labelled(self, design: Any, estimate: Any) -> Labels:
        if len(self.tau) == 1:
            return Labels()
        names = design.as_written.names
        return Labels(("term", "tau"), tuple((name, tau) for name in names for tau in self.tau))

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
        refuse_scales(design)
        public = Carrying(promise, neighbors, len(design.names), rows, intervals)
        each = self._rows_of_each(promise, len(design.names), rows)
        minimises = intervals and noise is None and neighbors.unit is None
        auto, because = self._auto(promise, noise, len(design.names), each, minimises)
        if auto == "newton" and not public.carries(QuantileSteps(noises_of(promise, None, "", ())[0], self.tau)):
            auto = "kng" if exact_for(len(design.names)) and noise in (None, *NORMS) else "objpert"
            because = "the other methods need more rows at this budget"
        taken = auto if mech == "auto" else mech
        if taken == "expmech" and noise is not None:
            raise OptionError("mech='expmech' has no choice of noise; leave noise out")
        if taken == "kng" and noise is not None:
            one_of("noise", noise, NORMS)
        by, shown = noises_of(promise, None if taken == "kng" else noise, taken, OF_VECTORS)
        own = {"noises": by, "taus": self.tau}
        norm = noise or NORMS[0]
        table = {
            "newton": Candidate(QuantileSteps, own, shown),
            "objpert": Candidate(PerturbedQuantile, {**own, "few": each < FEW_ROWS}, "l2"),
            "kng": Candidate(KNormGradientQuantile, {**own, "norm": norm}, norm),
            "expmech": Candidate(ExponentialQuantiles, own),
        }
        if not public.carries(PerturbedQuantile(by, self.tau)):
            table["objpert"] = _plain(self.tau, noise)
        choice = chosen(mech, table, (auto, table[auto]), given, f"chosen by auto: {because}")
        return public.carried(choice, "mech='objpert'")

    def _rows_of_each(self, promise: Promise, coefficients: int, rows: int | None) -> float:
        """Return a measure of the information per coefficient, for the probability tau that is furthest from 1/2.

        The measure is ``2 min(tau, 1 - tau) n eps / d`` for n rows and d coefficients. The measure is infinite if the
        budget is not in eps, or the number of rows is private.
        """
        if promise.normal or rows is None:
            return np.inf
        beyond = 2 * min(min(tau, 1 - tau) for tau in self.tau)
        return beyond * rows * promise.as_pure().eps / coefficients

    def _auto(
        self, promise: Promise, noise: str | None, coefficients: int, each: float, minimises: bool
    ) -> tuple[str, str]:
        """Return the method that mech="auto" selects, and the reason for the choice.

        `each` measures the information per coefficient (`_rows_of_each`), and is infinite if the number of rows is
        private. `noise` is the name of a noise distribution, if the user gave one. `minimises` is true if intervals are
        requested, and the user gave neither `noise` nor a privacy unit. The first of these rules that applies decides:

        - Newton steps for a budget in mu or rho.
        - The K-norm gradient mechanism, if it draws the coefficients without a Markov chain (`exact_for`), and if
          noise="hull" is given, or if `noise` is None or another norm and `each` is below a limit. The limit is
          `SAMPLED_BELOW` if `minimises` is true, and otherwise `FEW_ROWS`. The intervals of this mechanism are about as
          short as intervals by Newton steps if the predictors' values cover the whole range between their bounds, but
          much longer, or not given, if the values cover only a fifth of this range.
        - Objective perturbation for medians, if `minimises` is true and the number of rows is private: with few rows it
          gives intervals more often than Newton steps, and with many rows its intervals are about as short.
        - Objective perturbation, if `minimises` is true and `each` is below `FEW_ROWS` (for medians `MEDIAN_ROWS`),
          because objective perturbation needs fewer rows than Newton steps.
        - Newton steps, which need enough rows to estimate the scales of the columns with a part of the budget.
        """
        if promise.normal:
            return "newton", "shortest expected intervals under this budget"
        median = set(self.tau) == {0.5}
        few = minimised = FEW_ROWS
        if minimises:
            few, minimised = SAMPLED_BELOW.get(coefficients, 0.0), MEDIAN_ROWS if median else FEW_ROWS
        samples = noise == "hull" or (each < few and (noise is None or noise in NORMS))
        if exact_for(coefficients) and samples:
            return "kng", "exact sampler, shortest expected intervals for so few coefficients and rows"
        if minimises and median and each == np.inf:
            return "objpert", "gives intervals of medians most often if the number of rows is private"
        if minimises and each < minimised:
            of = "a median" if median else "quantiles"
            return "objpert", f"shortest expected intervals of {of} with these rows and this budget"
        return "newton", "intervals that wide bounds do not lengthen"


def _plain(taus: tuple[float, ...], noise: str | None) -> Candidate:
    """Return a quantile regression estimator that uses objective perturbation and gives no intervals.

    The columns are scaled by their bounds. The score is measured in the norm `noise` ("linf", "l1" or "l2"), or in the
    norm "linf" if `noise` has any other value.
    """
    norm = noise if noise in OF_VECTORS else "linf"
    return Candidate(PlainPerturbedQuantile, {"taus": taus, "norm": norm}, norm)
