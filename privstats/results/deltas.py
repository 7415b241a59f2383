"""Whether a small delta would shorten the intervals of a fit under pure eps: from its releases, when asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from privstats.inference.estimate import Estimate
from privstats.inference.notes import RELIABLE, Note, note
from privstats.privacy.promise import ApproxDP, PureDP
from privstats.privacy.release import Release
from privstats.results.facts import FitFacts

SHORTER = 1.5  # times, from which on a delta is worth a note
DELTA = 1e-6


def delta_note(facts: FitFacts, estimate: Estimate, releases: Sequence[Release]) -> tuple[Note, ...]:
    """Return a note where normal noise, at a small delta, would be much less in the release that matters most.

    This is the one with the largest share, or the largest matrix where the noise of matrices is not small. The
    intervals are shorter by as much as their noise has a part in them.
    """
    promise, added = facts.promise, [one for one in releases if hasattr(one.law, "scale")]
    if not isinstance(promise, PureDP) or not added:
        return ()
    found = estimate.diagnostics
    large = max(found.get("noise_to_signal", 0.0), found.get("noise_to_signal_unidentified", 0.0)) > RELIABLE
    share = {one.name: one.keeps.as_pure().eps / promise.eps for one in added}
    most = max(added, key=lambda one: len(one.value) if large else share[one.name])
    delta = min(DELTA, 10.0 ** -len(str(facts.rows or facts.units or 1)))
    normal = ApproxDP(promise.eps, delta, promise.neighbors).as_normal().part(share[most.name])
    relation = facts.neighbors.relation(facts.neighbors.unit is not None, not facts.complete)
    sensitivity = most.within.sensitivity("l2", relation)
    variance = float(np.mean((sensitivity.size / normal.mu / sensitivity.weights) ** 2))
    parts = estimate.noise_share()
    noise = float(np.nanmedian(parts)) if np.isfinite(parts).any() else 0.0
    times = 1 / math.sqrt(1 - noise + noise * variance / float(np.mean(most.law.variance())))
    if times < SHORTER:
        return ()
    call = f"dp_{facts.verb}(..., eps={promise.eps:g}, delta={delta:g})"
    return (note("delta helps", delta=delta, eps=promise.eps, times=times, call=call),)
