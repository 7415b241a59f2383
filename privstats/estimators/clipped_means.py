"""Means of a column by group whose noise goes by the spread of the values: least squares of group dummies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from privstats.estimators.adaptive import SHARES, Adaptive
from privstats.estimators.base import NORMAL, Noises, PublicFacts
from privstats.estimators.constants import MOST_FIRST_NOISE_OF_SQUARES
from privstats.gate.questions import Ask
from privstats.inference.estimate import Estimate, NormalEstimate
from privstats.inference.tables import PointEstimate


@dataclass(frozen=True)
class ClippedMeans:
    """The coefficients of one dummy a group, by clipped Newton steps; without groups those of an intercept.

    A released histogram of score lengths says where a clip makes intervals shortest, and they allow for what it cuts
    off. So bounds far beyond the values cost little, where noise on sums goes by the bounds.

    Parameters
    ----------
    noises : Noises
    """

    noises: Noises = NORMAL

    @property
    def shares(self) -> Mapping[str, float]:
        """Budget parts by name of question."""
        return SHARES[self.noises.shares]

    @property
    def most_first_noise(self) -> float:
        """Largest noise of the coarse matrix at which the steps arrive (`first_stage`)."""
        return MOST_FIRST_NOISE_OF_SQUARES

    def __call__(self, ask: Ask, public: PublicFacts) -> Estimate:
        """Look at the rows through the design of dummies, and name its coefficients as the groups' means."""
        columns = public.design
        design = columns.as_regression()
        ask.through(design)
        estimate = Adaptive(self.noises, branches=("steps",))(ask, replace(public, design=design))
        assert isinstance(estimate, NormalEstimate | PointEstimate)
        matrix, shift = design.to_original()
        known = dict(estimate.diagnostics)
        if "sigma" in known:
            known["sigma"] *= design.response_half  # means are in the user's units
        return replace(estimate.mapped(matrix, shift, columns.names), diagnostics=known)
