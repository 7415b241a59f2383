"""Several quantile regressions of one response, one after the other, as one answer.

Draws are independent, not each between those before (stepwise and sandwich K-norm gradients: Tran, Reimherr and
Slavkovic), although that would be as private. Measured (`benchmarks/several_quantiles.py`, seed 1, 40 replicates, a
quarter of that at 10,000 rows; orders .1, .5, .9, two coefficients): where quantiles are well apart for the noise it
changes nothing; at 1000 rows and eps = 0.5 or 1, where outer draws may land far from the rows, errors are 39 to 72 %
lower; at 200 rows and eps <= 1, where the first draw is lost and the others with it, 14 to 38 % larger (stepwise). And
it is wrong wherever true quantiles cross inside the declared ranges, beyond the rows: with predictors in four tenths of
their ranges, errors at 10,000 rows were six to nine times as large, and do not go away as rows grow in number. Nothing
public tells where the rows are. Coefficients moved apart after independent draws have the same fault. Nor would a law
held between others be what intervals assume. Predictions are sorted row by row instead, which takes none further away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from privstats.older.estimators.base import Ask, Facts
from privstats.older.gate.questions import Question
from privstats.older.inference.answer import Answer, Meat, Noise, Unsure
from privstats.older.inference.stacked import StackedMeat
from privstats.older.numerics.law import FloatArray
from privstats.older.privacy.release import Release

WORST = {"snr": min}  # of facts of several orders; of others it is the largest


def quantile_regressions(ask: Ask, facts: Facts, noise: str, fit: Callable[[Ask, Facts, str], Answer]) -> Answer:
    """Fit a regression for each order in `facts.q`; outer ones have more of the budget (`need`).

    Parameters
    ----------
    ask, facts, noise
        As for any estimator.
    fit : callable
        Estimator of one order.

    Returns
    -------
    Answer
        In scaled units; all coefficients of one order, then those of the next.
    """
    if len(facts.q) == 1:
        return fit(ask, facts, noise)
    fits = [fit(_about(ask, q), replace(facts, q=(q,)), noise) for q in facts.q]
    return _stacked(fits, np.array(facts.q))


def need(tau: float) -> float:
    """Return the relative share of the budget of one order.

    Far from its best theta a score may be as small as n times the smaller of tau and 1 - tau, or half of that where a
    slope is steep (`least_score` in `check`), so an outer order needs more of the budget not to
    land there; and about a quantile where rows are few the same noise moves theta further. In proportion to need, the
    median would have too little: half way, in logarithms.

    >>> [round(need(tau), 2) for tau in (0.1, 0.5, 0.9)]
    [3.16, 2.0, 3.16]
    """
    return float(min(tau, 1 - tau, 0.25) ** -0.5)


def _about(ask: Ask, q: float) -> Ask:
    """Return the conversation about one order: its questions have names, and shares, of their own."""

    def asked(
        questions: Question | Sequence[Question], *, share: float | Sequence[float] = 1.0, **how: Any
    ) -> tuple[Release, ...]:
        several = (questions,) if isinstance(questions, Question) else tuple(questions)
        named = [replace(question, name=f"{question.name}, order {q:g}") for question in several]
        return ask(named, share=[need(q) * float(part) for part in np.broadcast_to(share, len(named))], **how)

    return asked


def _stacked(fits: list[Answer], orders: FloatArray) -> Answer:
    """Return independent releases about one sampling error as one answer; without intervals if one of them has none."""
    p = len(fits[0].theta)
    noises: list[Noise] = []
    unsure: list[Unsure] = []
    meats: list[Meat] = []
    for k, fit in enumerate(fits):
        rows = np.zeros((len(fits) * p, p))
        rows[k * p : (k + 1) * p] = np.eye(p)
        unsure += [replace(part, index=part.index + len(noises), onto=rows @ part.onto) for part in fit.unsure]
        if fit.meat is not None:
            meats.append(fit.meat.after(len(noises)))
        noises += [Noise(part.law, rows @ part.onto) for part in fit.noises]
    return Answer(
        theta=np.concatenate([fit.theta for fit in fits]),
        bread=block_diag(*(fit.bread for fit in fits)),
        meat=StackedMeat(tuple(meats), orders) if len(meats) == len(fits) else None,
        noises=tuple(noises),
        n=fits[0].n,
        unsure=tuple(unsure),
        facts={name: WORST.get(name, max)(fit.facts.get(name, 0.0) for fit in fits) for name in fits[0].facts},
        notes=tuple(f"tau = {q:g}: {note}" for q, fit in zip(orders, fits, strict=True) for note in fit.notes),
    )
