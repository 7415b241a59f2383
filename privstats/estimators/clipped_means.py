"""Means of a column by group whose noise goes by the spread of the values: least squares of group dummies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from privstats.estimators.adaptive import SHARES, Adaptive
from privstats.estimators.base import NORMAL, Noises, PublicFacts
from privstats.estimators.constants import FLOOR, MOST_FIRST_NOISE, MOST_STEPS
from privstats.estimators.frame import PublicBox, Scales, column_scales
from privstats.estimators.least_squares import Lengthened
from privstats.estimators.means import Means
from privstats.estimators.preconditioner import Sizes
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
    sums : Means, optional
        What is asked in their place, where its intervals promise to be shorter.
    """

    noises: Noises = NORMAL
    sums: Means | None = None

    @property
    def shares(self) -> Mapping[str, float]:
        """Budget parts by name of question."""
        shares = SHARES[self.noises.shares]
        return shares if self.sums is None else {**shares, "sums": 1 - shares["scales"]}

    @property
    def most_first_noise(self) -> float:
        """Largest noise of the coarse matrix at which the steps arrive (`first_stage`)."""
        return MOST_FIRST_NOISE

    def __call__(self, ask: Ask, public: PublicFacts) -> Estimate:
        """Look at the rows through the design of dummies, and name its coefficients as the groups' means."""
        columns = public.design
        design = columns.as_regression()
        ask.through(design)
        of_dummies, box = replace(public, design=design), PublicBox(design)
        scales = column_scales(ask, self.noises, box, public.used)
        if self.sums is not None:
            sums = self._length_of_sums(ask, public, scales)
            steps = self._length_of_steps(ask, of_dummies, box, scales)
            if blurred(scales):  # both rest on a guess, which decides but is no length to be told of
                sums, steps = np.inf, steps if steps < sums else np.inf
            lengths = {"sums": sums, "steps": steps}
            if ask.choose("estimator", lengths) == "sums":
                ask.through(columns)
                return self.sums(ask, public)
        estimate = Adaptive(self.noises, branches=("steps",)).after(scales, ask, box, of_dummies)
        assert isinstance(estimate, NormalEstimate | PointEstimate)
        matrix, shift = design.to_original()
        known = dict(estimate.diagnostics)
        if "sigma" in known:
            known["sigma"] *= design.response_half  # means are in the user's units
        return replace(estimate.mapped(matrix, shift, columns.names), diagnostics=known)

    def _length_of_sums(self, ask: Ask, public: PublicFacts, scales: Scales) -> float:
        """Return the expected length over that without privacy, of groups of one size."""
        assert self.sums is not None
        groups, (mean, variance) = len(public.design.names), spread(scales)
        count, total = self.sums.noise_variances(ask, public)
        return float(np.sqrt(1 + (total + mean**2 * count) * groups / (scales.rows * variance)))

    def _length_of_steps(self, ask: Ask, public: PublicFacts, box: PublicBox, scales: Scales) -> float:
        """Return theirs, if bounded: sums are no shorter than 1, and so a wrong choice is as bad as this at most."""
        sizes = Sizes(scales.rows, float(public.units or scales.rows))
        longest, psi = box.c**0.5, 2 / spread(scales)[1] ** 0.5
        length = Lengthened(ask, self.noises).of_rows(box.c, longest, psi, sizes, public.by_unit)
        two = box.design.zero_to_one or np.isfinite(scales.rarer)  # values, one of them rare: no histogram shows it
        return length if length <= MOST_STEPS and not two else np.inf


def spread(scales: Scales) -> tuple[float, float]:
    """Return the released mean and variance of the response in half-ranges; of one below its noise, a guess."""
    mean, noise, variance = _moments(scales)
    return mean, max(variance - noise, FLOOR * noise)


def blurred(scales: Scales) -> bool:
    """Return whether the response's variance is a guess."""
    _, noise, variance = _moments(scales)
    return variance - noise < FLOOR * noise


def _moments(scales: Scales) -> tuple[float, float, float]:
    """Return the released mean of the response, and the noise and the value of its variance, in half-ranges."""
    mean = float(np.clip(scales.sums[-1] / scales.rows, -1.0, 1.0))
    noise = float(scales.sd[-1] * np.hypot(1.0, 2 * mean) / scales.rows)
    return mean, noise, float(scales.scale[-1] ** 2 + scales.center[-1] ** 2) - mean**2
