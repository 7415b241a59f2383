"""Noisy stochastic gradient descent as stated by Dong, Roth and Su (2022), for comparison; it gives no intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from privstats.errors import OptionError, quote
from privstats.estimators.base import NORMAL, Noises, PublicFacts
from privstats.estimators.frame import PublicBox
from privstats.estimators.noisy_descent import LENGTH, ScaledRows, instead
from privstats.gate.questions import Ask, Values
from privstats.inference.notes import note
from privstats.inference.tables import PointEstimate
from privstats.losses.base import HUBER, HuberLoss, Loss
from privstats.losses.convex import ClippedSquares, Logistic
from privstats.losses.psi import Likelihood, LossRows
from privstats.mechanisms.comparison.noisy_sgd import LinearGradient, NoisySGD
from privstats.privacy.promise import is_number
from privstats.sets.weighted_losses import WeightedLosses

USUAL_STEPS, PART = 100, 0.1  # default number of steps, and default share of the rows in a subsample
FARTHER = 1.000001  # factor by which the bound on row norms is enlarged, to allow for rounding errors


@dataclass(frozen=True)
class NoisyStochasticDescent:
    """Estimator that takes gradient steps on random subsamples of fixed size; only the last iterate is released.

    Privacy: the mechanism `NoisySGD` spends the whole budget (eps, delta). Neighbouring data sets differ in one
    replaced row; the number n of rows is public. The unit of a numeric column, and of the response, is its declared
    scale, or by default its half-range divided by sqrt(3).

    Parameters
    ----------
    noises : Noises
        Noise mechanisms, one for each kind of query.
    loss : Loss
        Huber's loss, another loss with a bounded derivative, or a logistic likelihood.
    rows : int
        Public number n of rows.
    steps : int, optional
        Number of steps, by default 100.
    step_size : float, optional
        Step size, by default 1 divided by the largest curvature of the loss of a row whose predictors have the norm
        sqrt(2) (`LENGTH`).
    batch : int, optional
        Number of rows in a subsample, by default a tenth of all rows.
    clip : float, optional
        Norm at which a row's gradient is clipped, by default the largest gradient norm of a row whose predictors have
        the norm sqrt(2) (`LENGTH`).
    tuning : float
        Threshold c of a robust loss, in units of the response's scale.
    """

    noises: Noises = NORMAL
    loss: Loss = field(default_factory=HuberLoss)
    rows: int = 0
    steps: int | None = None
    step_size: float | None = None
    batch: int | None = None
    clip: float | None = None
    tuning: float = HUBER
    shares: Mapping[str, float] = field(default_factory=lambda: {"coefficients": 1.0})

    def __post_init__(self) -> None:
        if not is_number(self.tuning) or not 0 < self.tuning < math.inf:
            raise OptionError(f"tuning is {quote(self.tuning)}; give a positive number, such as tuning=1.345")
        self.mechanism()  # the mechanism raises an error if an option is out of range

    def mechanism(self) -> NoisySGD:
        """Return the mechanism (noisy stochastic gradient descent) with the options of this estimator."""
        robust, n = isinstance(self.loss, HuberLoss), max(self.rows, 1)
        return NoisySGD(
            LinearGradient(self.row_loss),
            rows=n,
            steps=USUAL_STEPS if self.steps is None else self.steps,
            batch=max(1, round(PART * n)) if self.batch is None else self.batch,
            step_size=1 / (LENGTH**2 * self.loss.largest_slope) if self.step_size is None else self.step_size,
            clip=LENGTH * (self.tuning if robust else 1.0) if self.clip is None else self.clip,
        )

    @property
    def row_loss(self) -> Loss:
        """Loss of a row, for columns and response divided by their scales; a likelihood's response is not scaled."""
        if isinstance(self.loss, HuberLoss):
            return type(self.loss)(clip=float(self.tuning))
        assert isinstance(self.loss, Likelihood)
        return Likelihood(self.loss.family)

    def __call__(self, ask: Ask, public: PublicFacts) -> PointEstimate:
        box = PublicBox(public.design)
        rows = ScaledRows.of(self.loss, box, LENGTH, self.tuning, 1.0, max(self.rows, 1))
        offset = np.r_[np.zeros(box.c), np.asarray(box.offset) / rows.unit, 0.0]
        if isinstance(rows.loss, Likelihood):
            center, half = rows.loss.center, rows.loss.half
        else:
            center, half = 0.0, 1 / rows.unit
        longest = box.identity().longest(np.diag(1 / rows.scales)) * FARTHER
        reach = box.offset_reach / rows.unit
        within = WeightedLosses(
            box.c,
            ClippedSquares(float(self.tuning)) if rows.robust else Logistic(),
            longest,
            longest**2,
            longest,
            (center - half, center + half),
            (-reach, reach),
        )
        question = Values("coefficients", LossRows(rows.P, offset, center, half), within=within)
        drawn = ask(question, by=self.mechanism())
        noise = None if public.intervals else np.full((box.c, box.c), np.nan)
        remarks = (note("subsampled", box.design.names, other=instead(self.loss)),) if public.intervals else ()
        return PointEstimate(tuple(box.design.names), rows.to_theta @ drawn.value, remarks, noise=noise)
