"""Noisy gradient descent, noisy Newton's method and noisy stochastic gradient descent for bounded scores."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from privstats.errors import BudgetError, OptionError, listed
from privstats.estimators.base import NORMAL
from privstats.estimators.noisy_descent import NoisyGradientDescent, NoisyNewton
from privstats.estimators.noisy_sgd import NoisyStochasticDescent
from privstats.losses.base import Loss
from privstats.models.base import Candidate
from privstats.privacy.promise import ApproxDP, Neighbors, Promise

DESCENTS: Mapping[str, type[NoisyGradientDescent | NoisyStochasticDescent]] = MappingProxyType(
    {"ngd": NoisyGradientDescent, "noisy_newton": NoisyNewton, "sgd": NoisyStochasticDescent}
)
SUBSAMPLED = frozenset({"sgd"})  # methods whose only guarantee is (eps, delta)-differential privacy
NAMED = listed([repr(mech) for mech in DESCENTS])


def descends(mech: object) -> bool:
    """Return whether `mech` is the name of a method of noisy optimisation, such as "ngd" (noisy gradient descent)."""
    return isinstance(mech, str) and mech in DESCENTS


def descents(loss: Loss, rows: int | None) -> dict[str, Candidate]:
    """Return the methods of noisy optimisation for a loss, by name; `rows` is the public number of rows, or None."""
    own = {"noises": NORMAL, "loss": loss, "rows": rows or 0}
    return {mech: Candidate(estimator, own, "gaussian") for mech, estimator in DESCENTS.items()}


def refuse_descent(
    mech: str, promise: Promise, neighbors: Neighbors, rows: int | None, noise: Any, weights: str | None
) -> None:
    """Raise an error if noisy optimisation is requested but its privacy guarantee does not cover the fit.

    Raises
    ------
    BudgetError
        If the method cannot give the kind of guarantee that the budget requests, such as pure eps.
    OptionError
        If neighbouring data sets differ in the number of rows, rows have privacy units or weights, the number of rows
        is private, or noise other than normal noise is requested.
    """
    if not descends(mech):
        return
    if mech in SUBSAMPLED and not isinstance(promise, ApproxDP):
        raise BudgetError(f"mech='{mech}' keeps eps with a delta, and no other promise; give delta=1e-6 beside eps=1")
    if mech not in SUBSAMPLED and not promise.normal:
        raise BudgetError(f"mech='{mech}' has normal noise, which no eps alone covers; give mu=, or delta= beside eps")
    needs = {
        "neighbours that replace a row: leave neighbors= out": not neighbors.exchange,
        "rows without units: leave unit= out": neighbors.unit is not None,
        "a public number of rows: give a DataFrame": rows is None,
        "rows without weights: leave weights= out": weights is not None,
        "noise='gaussian': leave noise= out": noise not in (None, "gaussian"),
    }
    for what, lacking in needs.items():
        if lacking:
            raise OptionError(f"mech='{mech}' needs {what}, or write mech='newton'")
