"""Generalised linear models by objective perturbation: the minimiser of a randomly tilted likelihood.

It solves ``score(theta) = V + gamma theta`` for noise V of known law. Freed of the ridge its error is ``M^-1 (sampling
error + V)`` with M the information, which is released at the chosen theta; if the family is true, M is the covariance
of the sampling error, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from privstats.errors import PrivacyError
from privstats.older.estimators.base import Ask, Facts
from privstats.older.estimators.check import quietest
from privstats.older.estimators.imagined import Imagined
from privstats.older.estimators.information import Seen, hidden
from privstats.older.estimators.moments import times
from privstats.older.estimators.shrinkage import is_clear
from privstats.older.gate.questions import Gram, Pairs, Sum
from privstats.older.inference.answer import Answer, ConstantVariance, Meat, Noise, OwnVariance, Unknown, Unsure
from privstats.older.inference.sandwich import between_bread
from privstats.older.losses.convex import HeldGamma, HeldPoisson, HeldProbit, Logistic, RowLoss
from privstats.older.losses.families import Gamma, Logit
from privstats.older.losses.likelihood import Information, InformationRow, LikelihoodRow, OwnScoreRow
from privstats.older.numerics.law import FloatArray
from privstats.older.privacy.release import Release
from privstats.older.sets.base import Positive
from privstats.older.sets.convex_losses import GlmScores
from privstats.older.sets.moments import Moments

LEVEL, ROBUST = 0.03, 0.25  # shares of questions, where coefficients and curvature together have 1
FIRST, EACH, MOST = 0.10, 0.035, 0.40  # of the curvature: for any, for each predictor, at most
BENT = 0.5  # of the difference of curvatures along what the ridge took: how wrong the path between them may be
SPLIT = 0.96  # of objective perturbation: a large ridge does little harm, as it is taken off again
CAP = 2.5  # times the mean curvature: rows of more count as that
SURE = 1e6  # degrees of freedom: the variance follows from the mean
HELD: dict[tuple[str, str], Callable[[float, float, float], RowLoss]] = {
    ("poisson", "log"): HeldPoisson,
    ("gamma", "log"): HeldGamma,
    ("binomial", "probit"): HeldProbit,
}
FARTHEST = 30.0  # linear predictor, in families whose scores depend on it
TOO_FAR = 1.0  # expected squared error of scaled coefficients, from which on they are reported with their ridge


def perturbed(ask: Ask, facts: Facts, noise: str) -> Answer:
    """Minimise the tilted likelihood; buy what intervals need.

    Parameters
    ----------
    ask : callable
        The conversation.
    facts : Facts
        Public facts of the fit.
    noise : str
        Norm in which scores are compared.

    Returns
    -------
    Answer
        In scaled units; `kappa` as in `suffstats`, of the released information.
    """
    assert facts.family is not None
    loss = loss_of(facts)
    split = SPLIT if facts.split is None else facts.split
    within = GlmScores(facts.coefficients, loss, (0.0, 1.0), noise, split, facts.offset or (0.0, 0.0))
    question = Pairs("coefficients", LikelihoodRow(facts.intercept), within)
    if facts.interval_free:
        (chosen,) = ask(question, by="objpert glm")
        return _alone(facts, chosen, facts.no_intervals_because)
    (chosen,) = ask(question, by="objpert glm", share=1 - curvature_share(facts))
    (level,) = ask(
        Sum("level", Information(chosen.value, facts.intercept, facts.family, loss.sharpest), Positive(1.0, 1)),
        by="l1",
        share=LEVEL,
    )
    return _with_intervals(ask, facts, chosen, level, loss)


def curvature_share(facts: Facts) -> float:
    """Return the curvature's share: the noise of its weakest direction grows with the number of predictors."""
    return min(MOST, FIRST + EACH * facts.columns)


def loss_of(facts: Facts) -> RowLoss:
    """Return minus the log-likelihood, if its slope and curvature are bounded or a parameter set makes them so."""
    family = facts.family
    assert family is not None
    if isinstance(family, Logit):
        return Logistic()
    if facts.theta_bound == math.inf:
        raise PrivacyError(
            f"scores of the {family.name} family with {family.link} link have no bound, which pure eps needs: give mu= "
            "(or delta=), or theta_bound=, a bound of |theta|_1 per column scaled to [-1, 1]"
        )
    least, most = facts.offset or (0.0, 0.0)
    low, high = least - facts.theta_bound, most + facts.theta_bound
    if max(-low, high) > FARTHEST:
        raise PrivacyError(f"linear predictors may reach {FARTHEST:g} here: declare a smaller theta_bound, or give mu=")
    return HELD[family.name, family.link](low, high, family.unit)


def _alone(facts: Facts, chosen: Release, why: tuple[str, ...]) -> Answer:
    """Return the chosen theta without intervals, freed of its ridge as if predictors filled their ranges."""
    assert facts.family is not None and chosen.law is not None
    if facts.n is None:
        return Answer(chosen.value, np.eye(facts.coefficients), None, (), math.nan, notes=why)
    imagined = Imagined.of(facts.columns, facts.intercept, facts.family)
    bread = facts.n * imagined.sum(imagined.curvature(chosen.value)) + chosen.penalty * np.eye(facts.coefficients)
    theta: FloatArray = chosen.value + chosen.penalty * np.linalg.solve(bread, chosen.value).astype(float)
    noise = Noise(chosen.law, np.eye(len(bread)))
    notes = _poor(theta, bread, noise.covariance())
    shrunk = chosen.value if notes else None
    return Answer(theta, bread, None, (noise,), facts.n, notes=(*notes, *why), shrunk=shrunk)


def _with_intervals(ask: Ask, facts: Facts, chosen: Release, level: Release, loss: RowLoss) -> Answer:
    """Buy the information near the truth, and return theta, freed of its ridge, with the law of its error."""
    assert facts.family is not None and chosen.law is not None and level.law is not None
    imagined = Imagined.of(facts.columns, facts.intercept, facts.family)
    total = loss.sharpest * max(float(level.value[0]), 2 * math.sqrt(float(level.law.variance()[0])), 1.0)
    here = imagined.curvature(chosen.value)
    rough = total / here.mean() * imagined.sum(here) + chosen.penalty * np.eye(facts.coefficients)
    near: FloatArray = chosen.value + chosen.penalty * np.linalg.solve(rough, chosen.value).astype(float)
    cap = loss.sharpest if facts.n is None else min(loss.sharpest, CAP * total / max(1, facts.n))
    within = Moments(facts.columns, facts.intercept, complete=False)
    question = Gram("curvature", InformationRow(near, facts.intercept, facts.family, cap), within)
    (released,) = ask(question, by=quietest(facts), share=curvature_share(facts))
    assert released.law is not None
    seen = Seen.of(released, within, facts, near, cap)
    theta, bias = seen.freed(chosen)
    bread, first, where = (
        seen.at(theta),
        int(not facts.intercept),
        within.where[int(not facts.intercept) :, int(not facts.intercept) :],
    )
    noises = [
        Noise(chosen.law, np.eye(len(theta))),
        Noise(released.law, cap * times(within, bias, facts.intercept)),
        Noise(Unknown(np.full(1, BENT * seen.bent(chosen.value, theta))), (bread @ bias)[:, None]),
    ]
    filling = sum((noise.covariance() for noise in noises), np.zeros_like(bread))
    n = float(facts.n) if facts.n is not None else total / cap
    lost, kappa = seen.drowned(theta, filling, int(facts.intercept), n)
    meat: Meat = ConstantVariance(bread, 1.0, tuple(np.zeros(noise.onto.shape[1]) for noise in noises), SURE)
    if facts.robust or isinstance(facts.family, Gamma):
        own = Gram("meat", OwnScoreRow(theta, facts.intercept, loss), within)
        (squares,) = ask(own, by=quietest(facts), share=ROBUST)
        assert squares.law is not None
        scale = loss.steepest**2
        meat = OwnVariance(scale * within.unpack(squares.value)[first:, first:], squares.law, scale, where, SURE)
    if lost is not None and lost.reach.shape[1] == max(1, facts.columns):
        why = f"no intervals: kappa = {kappa:.2f}, the information they need drowns in its noise"
        return replace(_alone(facts, chosen, (why,)), facts={"kappa": kappa})
    notes = _poor(theta, bread, meat.covariance() + filling)
    return Answer(
        theta=theta,
        bread=bread,
        meat=meat,
        noises=tuple(noises),
        n=math.nan if facts.n is None else facts.n,
        facts={"kappa": kappa},
        notes=(*notes, *hidden(lost, facts)),
        unsure=(Unsure(1, where, math.sqrt(cap) * np.eye(len(theta))),),
        shrunk=chosen.value if notes else None,
        lost=lost,
    )


def _poor(theta: FloatArray, bread: FloatArray, filling: FloatArray) -> tuple[str, ...]:
    """Return a note where the expected error is as large as coefficients usually are."""
    covariance = between_bread(bread, filling)
    if np.trace(covariance) <= TOO_FAR or is_clear(theta, covariance):
        return ()
    return (
        "insufficient budget: the expected error is as large as coefficients usually are; they are shrunk toward zero "
        "(intervals and tests, where given, are those of the unshrunk fit)",
    )
