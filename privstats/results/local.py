"""Results of the local model of differential privacy, in which each person (holder) sends noisy messages."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from privstats.errors import listed
from privstats.inference.estimate import NormalEstimate
from privstats.numerics.law import FloatArray
from privstats.privacy.promise import GaussianDP, Promise, PureDP
from privstats.results.header import implied
from privstats.results.hypotheses import estimates, level, tests
from privstats.results.summary import TESTED, UNTESTED, Summary
from privstats.results.text import Column, TextTable, counted, limits, percentages, short

SIMULATED = (
    "simulated in one process, which has seen every row: the guarantee holds where each holder computes its own answers"
)
VISIBLE = 0.2  # a note reports the bias bound due to the starting value if it exceeds this number of std errors


@dataclass(frozen=True, repr=False)
class LocalProportion:
    """Estimate, from randomised responses, of the share of persons whose true answer is yes.

    Parameters
    ----------
    proportion : float
        Unbiased estimate; it may lie outside [0, 1].
    bse : float
        Standard error, which includes both sampling error and randomisation.
    noise_share : float
        Share of ``bse^2`` that is due to randomisation.
    n : int
        Public number of persons who sent answers.
    promise : PureDP
        Privacy guarantee of a person's answer.
    seeded : int or str, optional
        Seed of the noise, or description of the user's random generator; None for noise from the operating system.
    """

    proportion: float
    bse: float
    noise_share: float
    n: int
    promise: PureDP
    seeded: int | str | None = None

    @property
    def guarantee(self) -> str:
        """The privacy guarantee in words."""
        return in_words_local(self.promise)

    def conf_int(self, alpha: float = 0.05) -> tuple[float, float]:
        """Return a confidence interval, from normal quantiles, for the population share of persons whose answer is yes.

        The interval may extend beyond [0, 1].

        Parameters
        ----------
        alpha : float
            One minus the confidence level.

        Returns
        -------
        tuple of float
            Lower and upper limit.

        Raises
        ------
        OptionError
            If `alpha` is not between 0 and 1.
        """
        half = float(ndtri(1 - level(alpha) / 2)) * self.bse
        return self.proportion - half, self.proportion + half

    def summary(self, alpha: float = 0.05) -> Summary:
        """Return a printable table with the guarantee, the method, and the estimated share with its interval.

        Parameters
        ----------
        alpha : float
            One minus the confidence level of the interval.
        """
        low, high = self.conf_int(alpha)
        value, sd, below, above = np.array([[self.proportion], [self.bse], [low], [high]])
        columns = estimates(("proportion", 11), value, sd, below, above, limits(alpha))
        kept = 1 / (1 + math.exp(-self.promise.eps))
        return Summary(
            title="Local randomised response",
            formula=f"share of yes among {counted(self.n)} answers",
            facts=(
                *_above(self.promise, self.seeded),
                ("Answers", f"{counted(self.n)} (public); a missing answer counts as no"),
                ("Method", f"randomised response: each answer is kept with probability {kept:.3g}, else reversed"),
                ("Instead", "dp_mean, where one party may have all answers: noise falls as 1 / n, not as 1 / sqrt(n)"),
            ),
            table=TextTable(("",), (("yes",),), (*columns, _noise(np.array([self.noise_share]), 8))),
            legend=(UNTESTED,),
            below=(),
            notes=(),
        )

    def __str__(self) -> str:
        return str(self.summary())

    def __repr__(self) -> str:
        return f"<LocalProportion: {self.proportion:.4g}, std err {self.bse:.2g}; {self.guarantee}>"


@dataclass(frozen=True, eq=False, repr=False)
class LocalFit:
    """The result of a robust linear regression in the local model: each person sends noisy scores and never a row.

    Parameters
    ----------
    estimate : NormalEstimate
        Estimate of the coefficients, in the units of the user's data.
    formula : str
        The formula, as the user wrote it.
    n : int
        Public number of persons who sent answers.
    steps : int
        Number of steps of the gradient descent.
    step_size : float
        Step size (learning rate).
    promise : GaussianDP
        Privacy guarantee of all messages of a person.
    seeded : int or str, optional
        Seed of the noise, or description of the user's random generator; None for noise from the operating system.
    """

    estimate: NormalEstimate
    formula: str
    n: int
    steps: int
    step_size: float
    promise: GaussianDP
    seeded: int | str | None = None

    @property
    def params(self) -> pd.Series:
        """Estimates by name, in the original units of the columns; NaN where a coefficient is not identified."""
        return self._series(self.estimate.params())

    @property
    def bse(self) -> pd.Series:
        """Standard errors, which include both sampling error and privacy noise."""
        return self._series(self.estimate.bse())

    @property
    def noise_share(self) -> pd.Series:
        """Share of each squared standard error that is due to privacy noise."""
        return self._series(self.estimate.noise_share())

    @property
    def guarantee(self) -> str:
        """The privacy guarantee in words."""
        return in_words_local(self.promise)

    def cov_params(self) -> pd.DataFrame:
        """Return the covariance matrix of the estimates, which includes both sampling error and privacy noise."""
        names = list(self.estimate.names)
        return pd.DataFrame(self.estimate.covariance(), index=names, columns=names)

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return confidence intervals that allow for privacy noise; each has coverage probability 1 - alpha.

        Parameters
        ----------
        alpha : float
            One minus the confidence level.

        Returns
        -------
        DataFrame
            Columns 0 (lower) and 1 (upper); NaN where a coefficient is not identified.

        Raises
        ------
        OptionError
            If `alpha` is not between 0 and 1.
        """
        ends = np.column_stack(self.estimate.coefficients(level(alpha))[2:])
        return pd.DataFrame(ends, index=list(self.estimate.names))

    def summary(self, alpha: float = 0.05) -> Summary:
        """Return a printable table with the guarantee, the method, the estimates, and notes on their limitations.

        Parameters
        ----------
        alpha : float
            One minus the confidence level of the intervals.
        """
        estimate = self.estimate
        value, sd, low, high = estimate.coefficients(level(alpha))
        coef, error, lower, upper = estimates(("coef", 10), value, sd, low, high, limits(alpha))
        z, p = tests(estimate.tvalues(), estimate.pvalues())
        return Summary(
            title="Local robust regression",
            formula=self.formula,
            facts=(
                *_above(self.promise, self.seeded),
                ("Rows", f"{counted(self.n)} holders of one row each (public)"),
                (
                    "Method",
                    f"noisy gradient descent, {self.steps} steps of size {self.step_size:g}, of Huber's loss; two more "
                    "answers for the intervals",
                ),
                ("Assumes", "declared bounds; HC: the error variance may differ between rows"),
                (
                    "Instead",
                    "dp_lm(loss='huber', mech='newton'), where one party may have all rows: noise falls as 1 / n, "
                    "not as 1 / sqrt(n)",
                ),
            ),
            table=TextTable(
                ("",),
                tuple((name,) for name in estimate.names),
                (coef, error, z, p, lower, upper, _noise(estimate.noise_share(), 6)),
                tuple((0, "not given [1]") if missing else None for missing in np.isnan(value)),
            ),
            legend=(TESTED,),
            below=(("Budget", f"of mu^2: {self.steps} scores, curvature and squares, the same share each"),),
            notes=self.notes,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the limitations of the fit, in the order in which the summary prints them."""
        value, sd, *_ = self.estimate.coefficients()
        with np.errstate(invalid="ignore"):
            lag = self.estimate.bias_bound() / sd
            behind = lag > VISIBLE
        found = []
        if np.isnan(value).any():
            found.append(
                f"{self._listed(np.isnan(value))} not given: in the answers about the curvature the noise exceeds the "
                "information. Remedy: a larger mu, more rows, closer bounds, or fewer terms."
            )
        if behind.any():
            found.append(
                f"The steps may have left {self._listed(behind)} up to {short(float(lag[behind].max()))} std errors on "
                "the side of the start; the intervals contain it. Remedy: more steps, or a larger step_size."
            )
        return tuple(found)

    def __str__(self) -> str:
        return str(self.summary())

    def __repr__(self) -> str:
        many = len(self.estimate.names)
        return f"<LocalFit of {self.formula!r}: {self.guarantee}, {many} estimate{'s' * (many > 1)}>"

    def _listed(self, which: NDArray[np.bool_]) -> str:
        return listed([name for name, one in zip(self.estimate.names, which, strict=True) if one])

    def _series(self, values: FloatArray) -> pd.Series:
        return pd.Series(values, index=list(self.estimate.names))


def in_words_local(promise: Promise) -> str:
    """Return, in words, the privacy guarantee of a protocol in the local model."""
    return f"local, {promise.budget} for everything that a holder sends"


def _above(promise: Promise, seeded: int | str | None) -> tuple[tuple[str, str], ...]:
    kept = in_words_local(promise)
    if seeded is None:
        words = f"{kept}{implied(promise)}"
    else:
        words = f"seeded: not private (rng={seeded}). With rng=None it would be {kept}"
    return ("Guarantee", words), ("Protocol", SIMULATED)


def _noise(shares: FloatArray, width: int) -> Column:
    return Column("noise", tuple("" if np.isnan(share) else f"{percentages([share])[0]}%" for share in shares), width)
