"""Average marginal effects, released at the estimated coefficients theta.

The effect of predictor j is the mean over rows x of ``slope(x' theta) theta_j``. Here ``slope(x' theta)`` is the
derivative of the mean response with respect to the linear predictor ``x' theta``. The effect of a dummy is the mean
change of the mean response when its factor changes from the reference level to the dummy's level. Only the predictor or
the factor's dummies change: the columns of their products with other predictors are held fixed. In a product of a
numeric column and a factor, the midpoint of the column's bounds is subtracted from the column first (`Terms.coding`),
so the effect of a dummy is the effect at this midpoint. Standard errors are conditional on the predictors in the
sample. They include the error of theta (delta method) and the noise of the released sums over rows; the effects are
computed from these sums.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from privstats.errors import OptionError
from privstats.estimators.base import Noises, PublicFacts
from privstats.estimators.levels import KeptLevels
from privstats.gate.questions import Ask, Sum
from privstats.inference.estimate import Loading, NormalEstimate
from privstats.inference.marginal_effects import MarginalEffects
from privstats.losses.families import Family
from privstats.losses.marginal_effects import Dummies, EffectParts
from privstats.numerics.law import FloatArray
from privstats.sets.vectors import Box

QUESTION, SHARE = "marginal effects", 0.1  # name of the query, and its budget share in addition to the fit's shares
FARTHEST = 1e6  # coefficients are clamped to this absolute value, because very large (noisy) values might overflow


def check_margins(public: PublicFacts) -> None:
    """Raise an error if marginal effects are requested for a model without predictors or a fit without intervals.

    Raises
    ------
    OptionError
    """
    design = public.design
    if len(design.names) == int(design.intercept):
        raise OptionError("marginal effects belong to predictors and the formula has none; leave margins=True out")
    if not public.intervals:
        raise OptionError("marginal effects come with intervals; leave inference='none' or margins=True out")


def with_marginal_effects(
    ask: Ask, by: Noises, design: Any, family: Family, levels: KeptLevels, estimate: NormalEstimate
) -> NormalEstimate:
    """Release average marginal effects at the estimated coefficients, and add the effects to the estimate.

    Parameters
    ----------
    ask : Ask
        Function that sends queries to the data and returns noisy releases.
    by : Noises
        Noise mechanisms; `by.columns` adds noise to the sums from which the effects are computed.
    design : Design
        Public map from rows to the columns of the model matrix; it holds no data.
    family : Family
        Family (distribution) of the response; for counts and gamma responses, `family.unit` is the response's upper
        bound.
    levels : KeptLevels
        Factor levels kept in the fit; effects are means over the rows at kept levels.
    estimate : NormalEstimate
        Estimate of the coefficients, for columns of the model matrix that are scaled to [-1, 1].
    """
    c = len(design.names)
    theta = np.clip(np.nan_to_num(estimate.theta), -FARTHEST, FARTHEST)
    groups = tuple(group for group, _ in dummies_of(design))
    fixed = float(theta[: int(design.intercept)].sum())
    around = float(np.abs(theta[int(design.intercept) :]).sum())
    low, high = design.offset_bounds
    reach = (fixed - around + low, fixed + around + high)
    row = EffectParts(np.r_[theta, np.ones(int(design.offset)), 0.0], c, family, groups, reach)
    question = Sum(QUESTION, row, within=Box(len(row.sizes)), keep=levels.keep)
    release = ask(question, by=by.columns)
    totals, spread = row.sizes * release.value, row.sizes * np.sqrt(release.law.variance())
    rows = max(float(totals[0]), 2 * float(spread[0]), 1.0)
    means = totals / rows
    seen = np.eye(c) - levels.hidden @ levels.hidden.T  # projection on the identified directions of the coefficients
    place = {j: 2 + c + (1 + c) * k for k, j in enumerate(j for group in groups for j in group.columns)}
    lost = lost_effects(design, levels)
    columns = range(int(design.intercept), c)
    effects, jacobian, onto = np.zeros(len(columns)), np.zeros((len(columns), c)), np.zeros((len(columns), len(means)))
    for i, j in enumerate(columns):
        start, factor = (place[j], 1.0) if j in place else (1, float(theta[j]))
        effects[i] = factor * means[start]
        by_theta = factor * means[start + 1 : start + 1 + c]
        own = np.zeros(c) if j in place else means[1] * np.eye(c)[j]
        jacobian[i] = by_theta + own if j in lost else seen @ by_theta + own
        onto[i, start], onto[i, 0] = factor / rows, -factor * means[start] / rows
    per_unit = np.array([j not in place for j in columns])
    noise = Loading(onto * row.sizes, release.law)
    return replace(estimate, margins=MarginalEffects.of(estimate, tuple(columns), per_unit, effects, jacobian, noise))


def dummies_of(design: Any) -> list[tuple[Dummies, int]]:
    """Return the factors whose columns are all dummies, as pairs (dummy columns, index of the factor).

    A dummy is a column with two values, one at a single level of the factor and the other at all other levels.
    """
    found: list[tuple[Dummies, int]] = []
    claimed: set[int] = set()
    for k, factor in enumerate(design.factors):
        contrasts: FloatArray = np.asarray(factor.contrasts, dtype=float)
        if not factor.columns or claimed & set(factor.columns):
            continue
        low, high = contrasts.min(axis=0), contrasts.max(axis=0)
        tall = contrasts > (low + high) / 2
        two = np.where(tall, high, low)
        once = (tall.sum(axis=0) == 1).all() and (tall.sum(axis=1) <= 1).all() and (high > low).all()
        if once and np.allclose(two, contrasts, rtol=0.0, atol=1e-9):
            claimed |= set(factor.columns)
            found.append((Dummies(tuple(factor.columns), low, high), k))
    return found


def lost_effects(design: Any, levels: KeptLevels) -> set[int]:
    """Return the positions of dummy columns whose marginal effect cannot be estimated.

    The effect of a dummy cannot be estimated if the dummy's level or the factor's reference level was left out of the
    fit.
    """
    lost: set[int] = set()
    for group, k in dummies_of(design):
        kept = levels.kept[k] if levels.kept else None
        if kept is None:
            continue
        tall = np.asarray(design.factors[k].contrasts, dtype=float) > (group.low + group.high) / 2
        reference = ~tall.any(axis=1)
        gone = bool(reference.any() and not np.asarray(kept)[reference].any())
        lost |= {j for i, j in enumerate(group.columns) if gone or not np.asarray(kept)[tall[:, i]].all()}
    return lost
