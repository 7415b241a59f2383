"""Quantile regression by mechanisms that choose theta: K-norm gradient and exponential mechanism.

What is chosen solves ``sum (1{y <= x'theta} - tau) x = V`` for noise V of known law. The error is ``B^-1 (sampling
error + V)``: B, the density-weighted second moments of x, is released through a kernel, and the covariance of the
sampling error, ``tau (1 - tau) sum x x'``, without one (Koenker 2005, sections 3.2 and 3.4; Powell 1991). Both are as
uncertain as their noise, and B as the number of rows that the kernel sees: `privstats.older.inference.kernel`.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from privstats.older.estimators.base import Ask, Facts, chained
from privstats.older.estimators.choose import on_the_edge
from privstats.older.estimators.moments import UNINFORMATIVE, known_or_above_noise, spectral_noise
from privstats.older.gate.questions import Each, Gram, Pairs
from privstats.older.inference.answer import Answer, Noise, Unsure
from privstats.older.inference.kernel import KernelLaw, KernelMeat
from privstats.older.inference.repair import floor_eigenvalues, schur_complement, weakest_behind_noise
from privstats.older.losses.check import CheckRow, KernelRow, ResidualSize
from privstats.older.losses.squares import PredictorRow
from privstats.older.mechanisms.quantile_regression.hit_and_run import SWEEPS
from privstats.older.mechanisms.quantile_regression.rejection import exact_for
from privstats.older.numerics.exact import Wanted
from privstats.older.numerics.law import FloatArray
from privstats.older.privacy.release import Release
from privstats.older.sets.base import Bound, Line
from privstats.older.sets.check_losses import CheckScores
from privstats.older.sets.moments import Moments

SHARES = {  # of coefficients, curvature, scale and bread: of eps, or of mu^2
    "eps": (0.55, 0.10, 0.05, 0.30),
    "mu": (0.70, 0.07, 0.05, 0.18),  # normal noise, which is quieter, buys the second and the fourth
    "delta": (0.747, 0.025, 0.006, 0.222),  # the squares of the first: as eps, since so few pure events just add up
}
JITTER = 2.0**-11  # secret noise that separates equal responses, in half-ranges: ties finer than that take long
WIDEST = 2.0  # kernel, in standard deviations
DROWNED = 0.3  # how much of the weakest direction of the bread noise may be before the kernel is widened
SQUARED = 1.25  # rows that the kernel sees, by its sum: Epanechnikov's over that of its square
DENSE = 4.0  # of responses about their quantile, a half-range: that of a normal median, sd a tenth of it
FEW = 6  # predictors up to which entrywise noise has a smaller matrix than matrix-t noise


def choose_quantile(ask: Ask, facts: Facts, noise: str, by: str) -> Answer:
    """Choose the coefficients of a quantile regression, and buy what intervals need.

    Parameters
    ----------
    ask : callable
        The conversation.
    facts : Facts
        Public facts of the fit; `q` holds its one order.
    noise : str
        Norm in which scores are compared.
    by : {"kng rq", "expmech rq"}
        The mechanism that chooses.

    Returns
    -------
    Answer
        In scaled units.
    """
    (tau,) = facts.q
    count = math.inf if facts.n is None else float(facts.n)
    within = CheckScores(facts.coefficients, facts.intercept, tau, facts.theta_bound, noise, JITTER, count)
    objective = Pairs("coefficients", CheckRow(facts.intercept), within, Wanted((tau,)))
    notes = () if exact_for(facts.coefficients) else chained(SWEEPS, "sweeps")
    if facts.interval_free or by == "expmech rq":
        (chosen,) = ask(objective, by=by)
        why = facts.no_intervals_because or ("no intervals: none are bought for mech='expmech'",)
        bread = np.eye(facts.coefficients)
        return Answer(
            chosen.value,
            bread,
            None,
            (),
            math.nan if facts.n is None else facts.n,
            notes=(*notes, *(scattered(facts, chosen, within, facts.n) if facts.n and by == "kng rq" else ()), *why),
        )
    return _with_intervals(ask, facts, objective, by, tau, notes)


def _with_intervals(ask: Ask, facts: Facts, objective: Pairs, by: str, tau: float, notes: tuple[str, ...]) -> Answer:
    """Choose the coefficients, buy the rest, and return all of it."""
    curvature = Moments(facts.columns, facts.intercept, facts.count_is_public)
    law, first_row = quietest(facts), int(not facts.intercept)
    coefficients, bought, scale, bread = SHARES[facts.currency]
    first = ask(
        [objective, *([Gram("curvature", PredictorRow(), curvature)] if curvature.dim else [])],
        by=[by, *([law] if curvature.dim else [])],
        share=[coefficients, *([bought] if curvature.dim else [])],
    )
    theta = first[0].value
    (spread,) = ask(
        Each("scale", ResidualSize(theta, facts.intercept), Line(0.0, 1.0 + facts.theta_bound, 1e-6), Wanted((0.5,))),
        by="rank",
        share=scale,
    )
    released = first[1] if curvature.dim else None
    variances = curvature.unpack(np.zeros(0) if released is None or released.law is None else released.law.variance())
    A = curvature.unpack(np.zeros(0) if released is None else released.value)
    A[0, 0] = known_or_above_noise(A[0, 0], variances[0, 0], facts)
    doubts = scattered(facts, first[0], objective.within, float(A[0, 0]))
    sigma = max(1e-4, float(spread.value[0]) / typical_size(tau))
    _, weakest = _repaired(A[first_row:, first_row:], noise := spectral_noise(A, variances, facts), 1 - first_row)
    quieter = (bought / bread) ** (1.0 if facts.currency == "eps" else 0.5)
    tolerable = noise * quieter / (DROWNED * min(weakest, float(A[0, 0])))
    width = min(2.0, sigma * standard_width(float(A[0, 0]), tau, tolerable))
    kernel = Moments(facts.columns, facts.intercept, complete=False)
    (weighed,) = ask(Gram("bread", KernelRow(theta, facts.intercept, width), kernel), by=law, share=bread)
    density = 1 / (width * kernel_mean(width / sigma, tau))
    return _answer(facts, first[0], (A, variances, curvature, released), kernel, weighed, density, tau, notes, doubts)


def scattered(facts: Facts, chosen: Release, within: Bound, n: float) -> tuple[str, ...]:
    """Return a note where the number of rows and the budget make it likely that chance, not the rows, decided theta.

    The density ``exp(-c |score|)`` has a mass of about ``d! 2^d / (c n f)^d / det(E x x')`` about a good theta, where f
    is the density of the responses (`DENSE`) and predictors are uniform (``det = 3^(1 - d)``). Elsewhere the score is
    at least n times `least_score`, on less than the whole parameter set, whose volume is ``(2 theta_bound)^d / d!``.
    The first must outweigh the second.
    """
    (tau,), d = facts.q, facts.coefficients
    rows = chosen.event.pure() / (2 * within.sensitivity("score", facts.neighbors).size) * n
    good = 2 * math.lgamma(d + 1) + (d - 1) * math.log(3)
    volume = d * math.log(max(1.0, facts.theta_bound * rows * DENSE)) - good
    if rows * least_score(tau, facts.columns, facts.intercept) >= volume:
        return ()
    return (
        f"n = {n:.0f} rows and this budget are too few for a quantile of order {tau:g} with {d} coefficients: the "
        "estimate may lie anywhere in the parameter set, and has no intervals (more rows, a larger budget, fewer "
        "predictors, an order nearer 0.5, or a smaller theta_bound)",
    )


def least_score(tau: float, columns: int, intercept: bool) -> float:
    """Return the score, a row, where theta is far off, in the sup norm: the least of all directions.

    All rows may lie on one side: min(tau, 1 - tau). Or a slope is so steep that only the share s of rows with the
    largest x, uniform on [-1, 1], does: ``(|s - tau|, s (1 - s))``, which is least where both are the same. The norm
    "hull" is no smaller there, as both are. Without an intercept one sign of x does, and the score is at least 1/4.

    >>> [round(least_score(tau, 1, True), 3) for tau in (0.1, 0.5, 0.9)]
    [0.049, 0.207, 0.049]
    """
    if not intercept:
        return 0.25
    rare = min(tau, 1 - tau)
    return rare if columns == 0 else math.sqrt(1 - rare) - (1 - rare)


def quietest(facts: Facts) -> str:
    """Return the law of the noise of second moments whose matrix is the smallest."""
    if facts.currency == "mu":
        return "gaussian"
    if facts.columns > FEW:
        return "matrixt"
    return "hull" if facts.neighbors.kind == "replace" else "linf"


def typical_size(tau: float) -> float:
    """Return the median of ``|z - z_tau|``, z standard normal.

    >>> round(typical_size(0.5), 4)
    0.6745
    """
    z = float(ndtri(tau))
    return float(brentq(lambda m: ndtr(z + m) - ndtr(z - m) - 0.5, 0.0, 50.0))


def standard_width(n: float, tau: float, least: float) -> float:
    """Return the width of the kernel for standard normal residuals.

    Hall and Sheather's (1988); or, up to `WIDEST`, that at which the kernel's mean over all rows is `least`.

    >>> [round(standard_width(1e4, 0.5, least), 2) for least in (0.0, 0.3, 1.0)]
    [0.23, 0.58, 2.0]
    """
    z, x = float(ndtri(0.975)), float(ndtri(tau))
    density = math.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    h = n ** (-1 / 3) * z ** (2 / 3) * (1.5 * density**2 / (2 * x**2 + 1)) ** (1 / 3)
    h = min(h, 0.9 * min(tau, 1 - tau))
    best = min(WIDEST, float(ndtri(tau + h) - ndtri(tau - h)))
    if density * WIDEST * kernel_mean(WIDEST, tau) <= least:
        return WIDEST
    if density * best * kernel_mean(best, tau) >= least:
        return best
    return float(brentq(lambda width: density * width * kernel_mean(width, tau) - least, best, WIDEST))


def kernel_mean(width: float, tau: float) -> float:
    """Return the mean of the kernel at a normal quantile, in units of density times width: 4/3, but for its bias.

    >>> round(kernel_mean(1e-3, 0.1), 6)
    1.333333
    """
    u, weight = np.polynomial.legendre.leggauss(60)
    x = float(ndtri(tau))
    return float((weight * (1 - u**2)) @ np.exp(-(width * u) * (x + width * u / 2)))


def _answer(
    facts: Facts,
    chosen: Release,
    told: tuple[FloatArray, FloatArray, Moments, Release | None],
    kernel: Moments,
    weighed: Release,
    scale: float,
    tau: float,
    notes: tuple[str, ...],
    doubts: tuple[str, ...],
) -> Answer:
    assert chosen.law is not None and weighed.law is not None
    A, A_variance, curvature, released = told
    first, constant = int(not facts.intercept), int(facts.intercept)
    moments, variance = kernel.unpack(weighed.value), kernel.unpack(weighed.law.variance())
    moments[0, 0] = max(moments[0, 0], 2 * math.sqrt(variance[0, 0]), 1.0)
    spread = spectral_noise(moments, variance, facts)
    bread, weakest = _repaired(moments[first:, first:], spread, constant)
    shape, _ = _repaired(A[first:, first:], spectral_noise(A, A_variance, facts), constant)
    kappa = max(2 * math.sqrt(variance[0, 0]) / moments[0, 0], spread / weakest)
    doubts = (*doubts, *on_the_edge(chosen.value, facts))
    why = (f"no intervals: kappa = {kappa:.2f} > 1, the density they need drowns in its noise",)
    hidden = kappa > UNINFORMATIVE
    p, n = facts.coefficients, float(A[0, 0])
    where = kernel.where[first:, first:]
    seen = KernelLaw(weighed.law, bread, where, SQUARED * max(1.0, float(moments[0, 0])))
    noises = (Noise(chosen.law, np.eye(p)), Noise(seen, np.zeros((p, len(weighed.value)))))
    doubt = None if released is None else released.law
    bread = scale * bread
    meat = KernelMeat(
        shape, tau * (1 - tau), doubt, curvature.where[first:, first:], bread, 1, where, scale, max(1.0, n - p)
    )
    return Answer(
        theta=chosen.value,
        bread=bread,
        meat=None if doubts or hidden else meat,
        noises=noises,
        n=n,
        unsure=(Unsure(1, where, math.sqrt(scale) * np.eye(p)),),
        facts={"kappa": kappa, "n_used": n},
        notes=(*notes, *doubts, *(why if hidden else ())),
    )


def _repaired(matrix: FloatArray, spread: float, constant: int) -> tuple[FloatArray, float]:
    """Return a released matrix, positive definite, and the weakest eigenvalue that its noise leaves believable."""
    eigenvalues: FloatArray = np.linalg.eigvalsh(schur_complement(matrix, constant)).astype(float)
    weakest = max(weakest_behind_noise(eigenvalues, spread), spread / 2, 1e-9)
    return floor_eigenvalues(matrix, min(weakest, 1e300), constant)[0], weakest
