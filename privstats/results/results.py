"""The result of a fit, in the vocabulary of statsmodels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from privstats.privacy.ledger import Ledger
from privstats.privacy.release import Release
from privstats.results.facts import FitFacts


@dataclass(frozen=True, eq=False, repr=False)
class Results:
    """A private fit. Every number is a release, or computed from releases; the data are not kept.

    Parameters
    ----------
    estimate : Estimate
        Estimate, standard errors and noise, in the user's units.
    facts : FitFacts
        The public facts of the fit.
    releases : tuple of Release
        All numbers that were computed from the rows.
    ledger : Ledger
        The ledger to which the fit was charged.
    margins : Estimate, optional
        Average marginal effects, in the user's units, where they were asked for.
    """

    estimate: Any
    facts: FitFacts
    releases: tuple[Release, ...]
    ledger: Ledger
    margins: Any = field(default=None)
