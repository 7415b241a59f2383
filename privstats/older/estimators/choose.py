"""Least squares by mechanisms that choose theta: K-norm gradient, exponential mechanism, objective perturbation.

What is chosen solves ``score(theta) = V`` for noise V of known law. Intervals need the curvature and the residual
variance as well, which are bought: the error is ``A^-1 (sampling error + V)``, with a released A.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from privstats.older.estimators.base import Ask, Facts
from privstats.older.estimators.moments import UNINFORMATIVE, known_or_above_noise, spectral_noise, times
from privstats.older.estimators.robust import robust_meat
from privstats.older.estimators.shrinkage import hopeless
from privstats.older.gate.questions import Gram, Objective, Sum
from privstats.older.inference.answer import Answer, ConstantVariance, Meat, Noise, Unsure
from privstats.older.inference.repair import floor_eigenvalues, schur_complement, weakest_behind_noise
from privstats.older.inference.simulate import root
from privstats.older.losses.squares import AugmentedRow, PredictorRow, Presence, SquaredResidual
from privstats.older.numerics.law import FloatArray
from privstats.older.privacy.release import Release
from privstats.older.sets.base import Positive
from privstats.older.sets.moments import Moments
from privstats.older.sets.squared_losses import Scores

COEFFICIENTS, CURVATURE, RESIDUALS = 0.70, 0.25, 0.05  # shares of the questions
ROWS, ROBUST = 0.02, 0.20  # beside these: the number of weighted rows; a meat for errors of different variance
CLIP = 1.0  # residuals beyond half the response's range are held there
SPLIT = {True: 0.85, False: 0.9}  # of objective perturbation, with and without intervals
EDGE = 0.98  # of the parameter set: beyond, the bound may have decided


def choose(ask: Ask, facts: Facts, noise: str, by: str) -> Answer:
    """Choose the coefficients by one mechanism; buy what intervals need from others.

    Parameters
    ----------
    ask : callable
        The conversation.
    facts : Facts
        Public facts of the fit.
    noise : str
        Norm in which scores are compared.
    by : {"kng", "expmech", "objpert"}
        The mechanism that chooses.

    Returns
    -------
    Answer
        In scaled units; `kappa` as in `suffstats`, of the released curvature (assumed, if none is).
    """
    split = SPLIT[facts.inference] if facts.split is None else facts.split
    within = Scores(facts.coefficients, facts.intercept, facts.theta_bound, noise, split)
    objective = Objective("coefficients", AugmentedRow(), within)
    if facts.interval_free:
        (chosen,) = ask(objective, by=by)
        return _estimate_alone(facts, chosen, by, facts.n, facts.no_intervals_because)
    curvature = Moments(facts.columns, facts.intercept, facts.count_is_public)
    questions = (objective, Gram("curvature", PredictorRow(), curvature), Sum("rows", Presence(), Positive(1.0, 1)))
    wanted = [0, *([1] if curvature.dim else []), *([2] if facts.weighted else [])]
    first = ask(
        [questions[k] for k in wanted],
        by=[(by, "matrixt", "l1")[k] for k in wanted],
        share=[(COEFFICIENTS, CURVATURE, ROWS)[k] for k in wanted],
    )
    released: dict[int, Release] = dict(zip(wanted, first, strict=True))
    return _with_intervals(ask, facts, released[0], curvature, released.get(1), released.get(2), by)


def _estimate_alone(facts: Facts, chosen: Release, by: str, n: float | None, why: tuple[str, ...]) -> Answer:
    """Return the chosen theta without intervals, and why; its error is judged by predictors that fill their ranges."""
    assert chosen.law is not None
    curvature = np.diag([1.0] * facts.intercept + [1 / 3] * facts.columns)  # of a row with uniform predictors
    bread = (1.0 if n is None else max(1.0, n)) * curvature + chosen.penalty * np.eye(facts.coefficients)
    noise = Noise(chosen.law, _onto(by, bread))
    shrunk, notes = (None, ()) if n is None else hopeless(chosen.value, bread, noise.covariance())
    return Answer(
        theta=chosen.value,
        bread=bread,
        meat=None,
        noises=(noise,),
        n=math.nan if n is None else n,
        notes=(*notes, *why),
        shrunk=shrunk,
    )


def _with_intervals(
    ask: Ask,
    facts: Facts,
    chosen: Release,
    within: Moments,
    curvature: Release | None,
    rows: Release | None,
    by: str,
) -> Answer:
    """Return the chosen theta, freed of its penalty, with the law of its error."""
    values = np.zeros(0) if curvature is None else curvature.value
    variances = np.zeros(0) if curvature is None or curvature.law is None else curvature.law.variance()
    moments, variance = within.unpack(values), within.unpack(variances)
    moments[0, 0] = known_or_above_noise(moments[0, 0], variance[0, 0], facts)
    n = float(moments[0, 0]) if rows is None else max(1.0, float(rows.value[0]))
    spread = spectral_noise(moments, variance, facts)
    first = int(not facts.intercept)
    A = moments[first:, first:]
    eigenvalues: FloatArray = np.linalg.eigvalsh(schur_complement(A, int(facts.intercept))).astype(float)
    weakest = max(weakest_behind_noise(eigenvalues, spread), spread / 2, 1e-9)
    bread, _ = floor_eigenvalues(A, min(weakest, 1e300), int(facts.intercept))
    kappa = max(2 * math.sqrt(variance[0, 0]) / moments[0, 0], spread / weakest)
    assert chosen.law is not None
    bias: FloatArray = chosen.penalty * np.linalg.solve(bread, chosen.value).astype(float)
    theta = chosen.value + bias
    noises = [Noise(chosen.law, _onto(by, bread))]
    unsure: tuple[Unsure, ...] = ()
    if curvature is not None and curvature.law is not None:
        noises.append(Noise(curvature.law, times(within, bias, facts.intercept)))
        unsure = (Unsure(1, within.where[first:, first:], np.eye(len(theta))),)
    (residuals,) = ask(
        Sum("residuals", SquaredResidual(theta, facts.intercept, CLIP), Positive(1.0, 1)), by="l1", share=RESIDUALS
    )
    assert residuals.law is not None
    gained = sum(float(np.trace(np.linalg.solve(bread, noise.covariance()))) for noise in noises)
    freedom = max(1.0, n - len(theta))
    heard = (*(np.zeros(noise.onto.shape[1]) for noise in noises), np.full(1, CLIP**2 / freedom))
    noises.append(Noise(residuals.law, np.zeros((len(theta), 1))))
    constant = ConstantVariance(bread, (CLIP**2 * float(residuals.value[0]) - gained) / freedom, heard, freedom)
    meat: Meat = constant
    if facts.robust:
        doubt = CLIP**2 * math.sqrt(float(residuals.law.variance()[0])) / freedom
        guess = max(0.0, constant.scale) + doubt + max(0.0, gained) / freedom
        rough = spread * CURVATURE / ROBUST / (2 * math.sqrt(max(1, facts.columns)))
        meat = robust_meat(ask, facts, "matrixt", theta, guess, n, ROBUST, rough)
    filling = meat.covariance() + sum((noise.covariance() for noise in noises), np.zeros_like(bread))
    shrunk, notes = hopeless(theta, bread, filling)
    told = {"kappa": kappa, "sigma": math.sqrt(max(0.0, constant.scale)), "n_used": n}
    edge = on_the_edge(chosen.value, facts)
    if kappa > UNINFORMATIVE:
        why = f"no intervals: kappa = {kappa:.2f} > 1, the curvature they need drowns in its noise"
        return replace(_estimate_alone(facts, chosen, by, n, (*edge, why)), facts=told)
    return Answer(
        theta=theta,
        bread=bread,
        meat=None if edge else meat,
        noises=tuple(noises),
        n=n,
        unsure=unsure,
        facts=told,
        notes=(*notes, *edge),
        shrunk=shrunk,
    )


def _onto(by: str, bread: FloatArray) -> FloatArray:
    """Return the map from a draw of the mechanism's law to the score."""
    return root(bread) if by == "expmech" else np.eye(len(bread))


def on_the_edge(theta: FloatArray, facts: Facts) -> tuple[str, ...]:
    """Return why there are no intervals if theta lies at the edge of the parameter set; nothing if it does not."""
    if np.abs(theta).sum() <= EDGE * facts.theta_bound:
        return ()
    return (
        f"no intervals: the estimate lies at the edge of |theta|_1 <= {facts.theta_bound:g} (theta_bound, scaled "
        "units), which may have decided it: too small a budget, or too tight a bound",
    )
