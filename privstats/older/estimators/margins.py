"""Average marginal effects, bought at whatever theta an estimator returns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from privstats.errors import PrivacyError
from privstats.older.estimators.base import Ask, Facts
from privstats.older.gate.questions import Sum
from privstats.older.inference.answer import Answer, Noise
from privstats.older.inference.margins import Margins
from privstats.older.losses.margins import Margin
from privstats.older.numerics.law import FloatArray
from privstats.older.sets.base import Cube

SHARE = 0.1  # beside the estimator's own


def with_margins(ask: Ask, facts: Facts, noise: str, by: Any) -> Answer:
    """Estimate as `by` does; where average marginal effects are wanted, buy them at the estimate.

    Parameters
    ----------
    ask, facts, noise
        As for any estimator.
    by : callable
        The estimator.

    Returns
    -------
    Answer
        With `margins`, if they are wanted.

    Notes
    -----
    The effect of a predictor is the mean over rows of ``slope(x' theta) theta_j``; of a dummy, that of the change of
    the mean response when its factor goes from the reference to its level. Their errors are those of theta by the delta
    method, in which the sampled predictors are held as they are, and the noise of the sums that were bought.
    """
    if facts.margins and not facts.columns:
        raise PrivacyError("margins are effects of predictors, and the formula has none")
    answer: Answer = by(ask, facts, noise)
    if not facts.margins:
        return answer
    assert facts.family is not None
    row = Margin(answer.theta, facts.intercept, facts.family, facts.dummies)
    (bought,) = ask(Sum("margins", row, Cube(1.0, len(row.sizes))), by=noise, share=SHARE)
    assert bought.law is not None
    m, groups = len(answer.theta), [column + facts.intercept for group in facts.dummies for column in group]
    spread = row.sizes * np.sqrt(bought.law.variance())
    totals = row.sizes * bought.value
    n = max(float(totals[0]), 2 * float(spread[0]), 1.0)
    means: FloatArray = totals / n
    effects, jacobian, onto, columns = [], [], [], []
    for j in range(int(facts.intercept), m):
        start = 2 + m + (1 + m) * groups.index(j) if j in groups else 1
        weight = 1.0 if j in groups else float(answer.theta[j])
        push = np.zeros(len(means))
        push[start] = weight / n
        push[0] = -weight * means[start] / n
        columns.append(j)
        effects.append(weight * means[start])
        own = np.zeros(m) if j in groups else means[1] * np.eye(m)[j]
        jacobian.append(weight * means[start + 1 : start + 1 + m] + own)
        onto.append(push * row.sizes)
    margins = Margins(
        columns=tuple(columns),
        per_unit=np.array([j not in groups for j in columns]),
        effects=np.array(effects),
        jacobian=np.array(jacobian),
        noise=Noise(bought.law, np.array(onto)),
    )
    return replace(answer, margins=margins)
