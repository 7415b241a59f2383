"""A note that tells users of pure eps-DP that a small delta > 0 would make the confidence intervals much shorter."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from privstats.errors import OptionError
from privstats.inference.estimate import Estimate
from privstats.inference.notes import RELIABLE, Note, note
from privstats.privacy.promise import ApproxDP, PureDP, Relation
from privstats.privacy.release import Release
from privstats.results.facts import FitFacts, FloatArray

SHORTER = 1.5  # a note is shown if a small delta would shorten the intervals by at least this factor
DELTA = 1e-6


def delta_note(facts: FitFacts, estimate: Estimate, releases: Sequence[Release]) -> tuple[Note, ...]:
    """Return a note for a pure eps-DP fit if normal noise, which needs delta > 0, would make intervals much shorter.

    A note is returned if the intervals are at least `SHORTER` times as long as intervals with normal noise would be.
    This ratio is computed from the median share of noise in the squared standard errors, and from the variances of the
    actual noise and of normal noise in one release. This release is the release with the most entries if a
    `noise_to_signal` ratio (of the noise in a released matrix to the information about the coefficients) is above
    `RELIABLE`, and otherwise the release with the largest share of the budget. Combined fits get no note, because they
    have no single budget.
    """
    promise = facts.promise
    relation = facts.neighbors.relation(facts.neighbors.unit is not None, not facts.complete)
    sds = {one.name: sd for one in releases if (sd := normal_sd(one, relation)) is not None}
    added = [one for one in releases if one.name in sds]
    if not isinstance(promise, PureDP) or not added or not facts.budget:
        return ()
    found = estimate.diagnostics
    large = max(found.get("noise_to_signal", 0.0), found.get("noise_to_signal_unidentified", 0.0)) > RELIABLE
    share = {one.name: one.keeps.as_pure().eps / promise.eps for one in added}
    most = max(added, key=lambda one: len(one.value) if large else share[one.name])
    delta = min(DELTA, 10.0 ** -len(str(facts.rows or facts.units or 1)))
    normal = ApproxDP(promise.eps, delta, promise.neighbors).as_normal().part(share[most.name])
    variance = float(np.mean((sds[most.name] / normal.mu) ** 2))
    parts = estimate.noise_share()
    noise = float(np.nanmedian(parts)) if np.isfinite(parts).any() else 0.0
    times = 1 / math.sqrt(1 - noise + noise * variance / float(np.mean(most.law.variance())))
    if times < SHORTER:
        return ()
    call = f"dp_{facts.verb}(..., eps={promise.eps:g}, delta={delta:g})"
    return (note("delta helps", delta=delta, eps=promise.eps, times=times, call=call),)


def normal_sd(release: Release, relation: Relation) -> FloatArray | None:
    """Return the sds of normal noise with which a released vector as a whole would satisfy Gaussian DP with mu = 1.

    The result has one standard deviation for each entry of the vector. It is None if the release is not a sum over rows
    with added noise. `relation` states how many rows' contributions differ between neighbouring data sets, and whether
    these rows are replaced or removed.
    """
    if not hasattr(release.law, "scale"):
        return None
    try:
        sensitivity = release.within.sensitivity("l2", relation)
    except OptionError:  # a release of an exponential mechanism is not a sum and has no l2 sensitivity
        return None
    return np.asarray(sensitivity.size / sensitivity.weights, dtype=float)
