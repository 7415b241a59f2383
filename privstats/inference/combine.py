"""Pooling of several fits of the same parameters, either to disjoint sets of rows or to the same rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import chdtrc

from privstats.errors import OptionError
from privstats.inference.estimate import Estimate, NormalEstimate
from privstats.inference.group_means import GroupMeans
from privstats.inference.notes import Note, note
from privstats.inference.order_intervals import OrderStatisticEstimate
from privstats.inference.pooled_means import normal_means, pooled_means
from privstats.inference.pooled_normal import pooled_normal
from privstats.inference.pooled_quantiles import pooled_quantiles

RARE = 1e-3  # significance level of the test for differences between fits; low, because noise may have heavy tails
POOLED: Mapping[type, Callable[[Any, bool], Any]] = {
    NormalEstimate: pooled_normal,
    GroupMeans: pooled_means,
    OrderStatisticEstimate: pooled_quantiles,
}


def pooled(estimates: Sequence[Estimate], same: bool) -> Estimate:
    """Return the weighted mean of several estimates of the same parameters, with the distribution of its error.

    Parameters
    ----------
    estimates : sequence of Estimate
        Estimates with equal coefficient names. An estimate without any interval gets no weight, unless it is normal
        (`NormalEstimate`): a normal estimate may determine linear combinations of coefficients even if it determines
        no coefficient.
    same : bool
        True if the estimates were computed from the same rows and have a common sampling error; False if they were
        computed from disjoint sets of rows.

    Raises
    ------
    OptionError
        If no estimate has an interval, or the estimates have intervals of different kinds.
    """
    useful: list[Any] = [one for one in estimates if isinstance(one, NormalEstimate) or _has_intervals(one)]
    kinds = [kind for kind in POOLED if useful and all(isinstance(one, kind) for one in useful)]
    if useful and not kinds and all(isinstance(one, NormalEstimate | GroupMeans) for one in useful):
        useful = [normal_means(one) if isinstance(one, GroupMeans) else one for one in useful]
        kinds = [NormalEstimate]
    if not kinds:
        raise OptionError(
            "the fits have no intervals, or intervals of different kinds, so their weights are unknown; give all "
            "fits the same mech= and a larger budget, and leave inference= out"
        )
    whole: Any = POOLED[kinds[0]](useful, same)
    idle = len(estimates) - len(useful)
    without = (note("no weight", idle=idle, many=len(estimates)),) if idle else ()
    kept = of_fits([getattr(one, "remarks", ()) for one in estimates], _missing(whole))
    remarks = (*_differ(useful, whole, same), *without, *kept)
    mean: Estimate = replace(whole, remarks=remarks, diagnostics=_diagnostics([one.diagnostics for one in estimates]))
    return mean


def _has_intervals(estimate: Estimate) -> bool:
    return not np.isnan(estimate.coefficients()[2]).all()


def _missing(estimate: Estimate) -> frozenset[str]:
    values = estimate.params()
    return frozenset(name for name, value in zip(estimate.names, values, strict=True) if np.isnan(value))


def of_fits(notes: Sequence[Sequence[Note]], missing: frozenset[str]) -> tuple[Note, ...]:
    """Merge the notes of several fits; notes with the same template about the same coefficients become one note.

    The merged note has the text from the first fit with this note. Before the text stand the number of this fit and the
    number of further fits with the note, such as "Fit 2, and 3 more". A note about named coefficients keeps the names
    of the coefficients that the pooled estimate does not report (`missing`). The note is left out if no name is kept.

    Parameters
    ----------
    notes : sequence of sequence of Note
        Notes of each fit.
    missing : frozenset of str
        Names of the coefficients that the pooled estimate does not report.
    """
    whose: dict[tuple[str, tuple[str, ...]], list[tuple[int, Note]]] = {}
    for k, own in enumerate(notes, start=1):
        for one in own:
            about = tuple(name for name in one.about if name in missing)
            if about or not one.about:
                whose.setdefault((one.key, about), []).append((k, replace(one, about=about)))
    found = []
    for (first, one), *more in whose.values():
        others = f", and {len(more)} more" if more else ""
        found.append(replace(one, text=f"Fit {first}{others}: {one.text}", fields=None))
    return tuple(found)


def _differ(estimates: Sequence[Estimate], mean: Estimate, same: bool) -> tuple[Note, ...]:
    """Return a note if estimates from disjoint rows differ by more than their errors explain (Cochran's Q).

    If the estimates are from the same rows (`same`), there is no note.

    Each coefficient is tested at the level 0.001 (`RARE`) divided by the number of coefficients. Before the test, the
    absolute difference of each estimate from the pooled estimate (`mean`) is reduced by the bias bound of the estimate.
    """
    if same:
        return ()
    values, sd, bias = np.array([(one.params(), one.bse(), one.bias_bound()) for one in estimates]).transpose(1, 0, 2)
    known = np.isfinite(values) & (sd > 0)
    gap = np.where(known, np.maximum(np.abs(values - mean.params()) - np.nan_to_num(bias), 0.0), 0.0)
    Q = ((gap / np.where(known, sd, 1.0)) ** 2).sum(axis=0)
    p = np.where(known.sum(axis=0) > 1, chdtrc(np.maximum(known.sum(axis=0) - 1, 1), Q), 1.0) * len(Q)
    if not (p < RARE).any():
        return ()
    k = int(np.argmin(p))
    some = values[known[:, k], k]
    return (note("sites differ", name=mean.names[k], low=float(some.min()), high=float(some.max())),)


def _diagnostics(each: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the largest ratio of noise to information, and the root mean square of the residual scales, over fits.

    `each` has the diagnostics of each pooled fit, by name. The ratio has a name that begins with "noise_to_signal", and
    the residual scale is named "sigma". All other diagnostics of the fits are left out.
    """
    found = {}
    for name in dict.fromkeys(name for one in each for name in one):
        values = np.array([one[name] for one in each if name in one])
        if name.startswith("noise_to_signal"):
            found[name] = float(np.nanmax(values, initial=0.0))
        elif name.partition("[")[0] == "sigma":
            found[name] = float(np.sqrt(np.mean(values**2)))
    return found
