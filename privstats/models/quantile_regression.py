"""Quantile regressions: what is fitted, and the table of estimators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privstats.estimators.base import NORMAL
from privstats.estimators.chosen_quantile import ExponentialQuantiles, KNormGradientQuantile
from privstats.estimators.quantile_regression import PerturbedQuantile, QuantileSteps
from privstats.mechanisms.quantile_regression.rejection import exact_for
from privstats.models.base import Choice, Entry, Labels, chosen, levels_of
from privstats.models.regression import OF_VECTORS, Regression, noises_of, refuse_scales
from privstats.privacy.promise import Neighbors, Promise

NORMS = ("hull", *OF_VECTORS)

FEW = 3  # from so many coefficients on the intervals of a median are shorter by objective perturbation


@dataclass(frozen=True, eq=False)
class QuantileModel(Regression):
    """``y ~ x + C(g)`` for quantiles of the response.

    Parameters
    ----------
    tau : float or sequence of float
    """

    tau: Any = 0.5

    covariances: ClassVar[tuple[str, ...]] = ("HC", "kernel")

    def check(self) -> None:
        super().check()
        object.__setattr__(self, "tau", levels_of("tau", self.tau))

    @property
    def title(self) -> str:
        return "quantile regression"

    def covariance(self, neighbors: Neighbors) -> str | None:
        return "HC"

    def in_units(self, estimate: Any, design: Any) -> Any:
        """Return the estimate in the user's units; of several tau by term, then tau (the estimator has tau first)."""
        several = len(self.tau)
        if several == 1:
            return super().in_units(estimate, design)
        matrix, shift = design.to_original()
        terms = np.arange(len(matrix) * several).reshape(several, -1).T.ravel()  # the place of each (term, tau)
        whole = np.kron(np.eye(several), matrix)[terms]
        names = tuple(f"{name}[{tau:g}]" for name in design.names for tau in self.tau)
        return estimate.mapped(whole, np.repeat(shift, several), names)

    def labelled(self, design: Any, estimate: Any) -> Labels:
        if len(self.tau) == 1:
            return Labels()
        return Labels(("term", "tau"), tuple((name, tau) for name in design.names for tau in self.tau))

    def estimator(
        self, mech: str, promise: Promise, options: Mapping[str, Any], design: Any, neighbors: Neighbors
    ) -> Choice:
        given = dict(options)
        noise = given.pop("noise", None)
        refuse_scales(design)
        by, shown = noises_of(promise, noise, "newton", NORMS)
        table: dict[str, Entry] = {}
        if by is NORMAL:
            table["newton"] = Entry(QuantileSteps, {"noises": by, "taus": self.tau}, shown)
        table["objpert"] = Entry(PerturbedQuantile, {"noises": by, "taus": self.tau}, "l2")
        if noise is None or noise in NORMS:
            norm = {"noises": by, "taus": self.tau, "norm": noise or "hull"}
            table["kng"] = Entry(KNormGradientQuantile, norm, noise or "hull")
            table["expmech"] = Entry(ExponentialQuantiles, {"noises": by, "taus": self.tau})
        name, because = self._auto(table, len(design.names))
        return chosen(mech, table, (name, table[name]), given, f"chosen by auto: {because}")

    def _auto(self, table: Mapping[str, Entry], coefficients: int) -> tuple[str, str]:
        """Return the method to take, and why; never a sampler whose law is only approached.

        Objective perturbation has intervals for the median alone. The K-norm gradient has intervals for every tau, and
        its exact sampler takes few coefficients.
        """
        if "newton" in table:
            return "newton", "the method with the shortest expected intervals under this budget"
        median = self.tau == (0.5,)
        if "kng" in table and exact_for(coefficients) and (coefficients < FEW or not median):
            return "kng", "exact sampler, shortest expected intervals for so few coefficients"
        return "objpert", "the method for so many coefficients under pure eps"
