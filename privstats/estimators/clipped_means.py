"""Group means by clipped least squares on group dummies; the noise depends on the values' sd, not on their bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from privstats.estimators.adaptive import SHARES, Adaptive
from privstats.estimators.base import NORMAL, Noises, PublicFacts, sd_of
from privstats.estimators.constants import AFTER_GAP, FLOOR, MOST_FIRST_NOISE, READABLE, VISIBLE
from privstats.estimators.frame import PublicBox, Scales, column_scales
from privstats.estimators.histogram import TAILS, Lengths, Whole, edges
from privstats.estimators.least_squares import Lengthened, hessian_entry_sd
from privstats.estimators.levels import counts_from_sums
from privstats.estimators.means import Means
from privstats.estimators.preconditioner import Sizes
from privstats.gate.questions import Ask, Sum
from privstats.inference.estimate import Estimate, NormalEstimate
from privstats.inference.matrix import HIDDEN
from privstats.inference.tables import PointEstimate
from privstats.losses.rows import BESIDE, DistanceOrEnd
from privstats.sets.cells import Shells

SPREAD = 0.05  # budget share of a histogram of |response - mean|, released if the variance is below 3 noise sds
# Newton steps replace noisy sums only if ``steps ** power < sums``. Here `steps` and `sums` are the expected interval
# lengths of the two methods, divided by the length without privacy. The power is above 1, because Newton steps need an
# assumption on the number of large values. With groups, the power is BY_GROUP; without groups, the power is the larger
# of POWER and `steps`, because the assumption matters more if the noise is larger. Noisy sums are also used if `sums`
# is at most LONG_SUMS: Newton steps could save little length, and the estimated variance may be too small by chance.
POWER, BY_GROUP, LONG_SUMS = 1.5, 1.15, 1.5
# Lower limit of the variance computed from the histogram, divided by the noise variance of the released mean. If all
# visible values are equal to the released mean up to noise, most values may be zero. The variance is then due to rare
# large values; the histogram does not show these values, and clipping would remove their contribution to the mean.
LEAST_VISIBLE = 4.0
# Noisy sums are used if more than this share of the values equal one of the bounds (mostly zeros): the histogram then
# shows too little of the rare large values, which dominate the variance and which Newton steps would clip.
MOSTLY_AT_END = 0.5
LEVERAGES = 0.03  # budget share of the histogram of leverages; small, since rows of dummies have no extreme leverages


@dataclass(frozen=True)
class ClippedMeans:
    """Group means: the coefficients of group dummies in a regression, estimated by Newton steps with clipped scores.

    Without groups, the mean is the coefficient of an intercept. A row's score, the gradient of its squared loss, is
    clipped to a largest norm (threshold). The threshold with the shortest intervals is computed from a released
    histogram of score norms, and the intervals allow for the clipping bias. Because the noise is proportional to the
    threshold, wide bounds of the values lengthen the intervals only a little, whereas the noise of sums of unclipped
    values is proportional to the bounds.

    Parameters
    ----------
    noises : Noises
        Noise mechanisms, one for each kind of query.
    sums : Means, optional
        Estimator of means from released sums of the values. This estimator replaces Newton steps if it is expected to
        give shorter intervals.
    """

    noises: Noises = NORMAL
    sums: Means | None = None

    @property
    def shares(self) -> Mapping[str, float]:
        """Return the budget share of each query, by name of the query."""
        shares = SHARES[self.noises.shares]
        spare = shares["leverages"] - LEVERAGES
        shares = {**shares, "leverages": LEVERAGES, "score": round(shares["score"] + spare, 10)}
        return shares if self.sums is None else {**shares, "sums": 1 - shares["scales"], "spread": SPREAD}

    @property
    def most_first_noise(self) -> float:
        """Return the largest relative noise of the coarse matrix at which Newton steps are predicted to converge.

        The coarse matrix is the first release of second moments: the sum of x x' over n rows x of c columns with
        variance 1, plus noise. Let s be the noise sd of an off-diagonal entry of this sum. The largest eigenvalue of
        the noise matrix is about ``2 sqrt(c) s``. The relative noise is defined as half of this eigenvalue divided by
        n, ``sqrt(c) s / n``.
        """
        return MOST_FIRST_NOISE

    def __call__(self, ask: Ask, public: PublicFacts) -> Estimate:
        """Fit a regression on group dummies, and return the coefficients as the means of the groups."""
        columns = public.design
        design = columns.as_regression()
        ask.through(design)
        of_dummies, box = replace(public, design=design), PublicBox(design)
        scales = column_scales(ask, self.noises, box, public.used)
        if self.sums is not None:
            variance, at_end = self._variance(ask, public, box, scales)
            sums = self._length_of_sums(ask, public, scales, variance)
            steps = self._length_of_steps(ask, of_dummies, box, scales, variance)
            # with groups, `variance` includes the differences of group means, so that `sums` is too small; a smaller
            # power makes up for this error
            power = BY_GROUP if design.factors else max(steps, POWER)
            # `steps / given` is the harmonic mean over groups, if the length is infinite for a group without interval
            given = max(self._given_by_steps(ask, box, scales), FLOOR)
            shorter = power * np.log(steps) - np.log(given) < np.log(sums)
            shorter = shorter and sums > LONG_SUMS and at_end < MOSTLY_AT_END
            lengths = {"sums": sums, "steps": steps if shorter else np.inf}
            if ask.choose("estimator", lengths) == "sums":
                ask.through(columns)
                return self.sums(ask, public)
        estimate = Adaptive(self.noises, branches=("steps",), scores="means").after(scales, ask, box, of_dummies)
        assert isinstance(estimate, NormalEstimate | PointEstimate)
        matrix, shift, _ = design.to_written()
        known = dict(estimate.diagnostics)
        if "sigma" in known:
            known["sigma"] *= design.response_half  # convert the residual scale to the unit of the response
        return replace(estimate.mapped(matrix, shift, columns.names), diagnostics=known)

    def _variance(self, ask: Ask, public: PublicFacts, box: PublicBox, scales: Scales) -> tuple[float, float]:
        """Return estimates of the variance of the response, and of the share of its values equal to one of its bounds.

        The unit of the variance is the squared half-range of the response's bounds. Let v be the variance computed from
        the released sums (`scales`), and s the noise sd of v. There are two cases:

        - If v is at least `HIDDEN` (3) times s, the estimate is v - s. The share is not needed, and 0 is returned in
          its place.
        - Otherwise a histogram of the distances between the responses and their released mean is released, because the
          noise of counts, unlike the noise of a sum of squares, does not grow with the bounds. The estimate is the mean
          squared distance in the histogram minus 2 w, where w is the noise variance of the released mean; the estimate
          is at least ``LEAST_VISIBLE * w``. The share is the share of the responses that equal the bound nearer to the
          released mean; these responses are counted in a separate bin.
        """
        mean, noise, variance = _moments(scales)
        least = max(variance - noise, FLOOR * noise)
        about, error = -box.response, float(scales.sd[-1]) / scales.rows
        about[-1], about[box.intercept] = 0.0, mean
        end = 1 if mean > 0 else -1
        ends = edges(error / 2, 2.0)
        of, within = DistanceOrEnd(about, end), Shells(1, (*ends, 2 * BESIDE))
        question = Sum("spread", of, within=within, within_share_of=("sums", "score"))
        if not ask.decide(question.label, bool(variance < HIDDEN * noise)):
            return least, 0.0
        release = ask(question, by=self.noises.counts)
        counts, at_end, sd = release.value[:-1].copy(), float(release.value[-1]), sd_of(release.law)
        if at_end > AFTER_GAP[self.noises.shares] * sd:
            counts[np.searchsorted(ends[:-1], abs(end - mean))] += at_end
        known = None if box.design.weighted else Whole(scales.rows, scales.rows_sd)
        seen = Lengths.denoised(counts, sd, ends, known, TAILS["usual"], self.noises.shares)
        many = max(float(seen.counts.sum()), 1.0)
        return max(seen.total_square[0] / many - 2 * error**2, LEAST_VISIBLE * error**2), at_end / many

    def _length_of_sums(self, ask: Ask, public: PublicFacts, scales: Scales, variance: float) -> float:
        """Return the expected interval length of method "sums", divided by the interval length without privacy.

        This method computes means from released sums. All groups are assumed to have the same number of rows.
        """
        assert self.sums is not None
        groups, mean = len(public.design.names), _moments(scales)[0]
        count, total = self.sums.noise_variances(ask, public)
        return float(np.sqrt(1 + (total + mean**2 * count) * groups / (scales.rows * variance)))

    def _length_of_steps(self, ask: Ask, public: PublicFacts, box: PublicBox, scales: Scales, variance: float) -> float:
        """Return the expected length of intervals from Newton steps, divided by the interval length without privacy.

        The argument `variance` is the variance of the response, in squared half-ranges of its bounds (see `_variance`).
        The result is inf, so that Newton steps are not used, if the response seems to have only two values.
        """
        sizes = Sizes(scales.rows, float(public.units or scales.rows))
        longest, psi = box.c**0.5, 2 / variance**0.5
        length = Lengthened(ask, self.noises).of_rows(box.c, longest, psi, sizes, public.by_unit)
        # no Newton steps for two-valued responses: a histogram may miss the few large scores of the rarer value
        two = box.design.zero_to_one or np.isfinite(scales.rarer)
        return np.inf if two else length

    def _given_by_steps(self, ask: Ask, box: PublicBox, scales: Scales) -> float:
        """Return the share of the groups with enough rows for Newton steps; 1 without groups.

        A group has enough rows if its number of rows, computed from the released sums of the dummies, exceeds
        `READABLE` times the noise sd of an entry of the Hessian by `VISIBLE` noise sds of the number.
        """
        needed = READABLE[self.noises.shares] * hessian_entry_sd(ask, self.noises, box.c)
        known = [counts_from_sums(box, factor, scales) for factor in box.design.factors]
        enough = [count >= needed + VISIBLE * sd for count, sd in known]
        return float(np.mean(np.concatenate(enough))) if enough else 1.0


def _moments(scales: Scales) -> tuple[float, float, float]:
    """Return the released mean of the response, the noise sd of its released variance, and this variance.

    The unit of the mean is the half-range of the response's bounds; the unit of the variance and of its noise sd is the
    square of this half-range.
    """
    mean = float(np.clip(scales.sums[-1] / scales.rows, -1.0, 1.0))
    noise = float(scales.sd[-1] * np.hypot(1.0, 2 * mean) / scales.rows)
    return mean, noise, float(scales.scale[-1] ** 2 + scales.center[-1] ** 2) - mean**2
