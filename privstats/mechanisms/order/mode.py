"""Mechanisms for the mode: choose one of several public candidates, a frequent candidate with a higher probability."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privstats.mechanisms.additive.tails import choose, exponential
from privstats.mechanisms.base import Mechanism
from privstats.numerics.exact import Total
from privstats.numerics.law import FloatArray, Rng
from privstats.privacy.promise import Promise, Relation
from privstats.privacy.release import Release


@dataclass(frozen=True)
class ModeMechanism(Mechanism):
    """Base class of mechanisms that release the index of a candidate with a large total (number of rows).

    The argument of `choose` has the deficit of each candidate: the largest total minus the candidate's total, in units
    of the l1 sensitivity divided by eps. If one row is added or removed between neighbours, the sensitivity is 1. If
    one row is replaced, the sensitivity is 2, because one total decreases by at most 1 and another total increases by
    at most 1. Between neighbours, the difference of any two totals changes by at most the l1 sensitivity, so the
    difference of their deficits changes by at most eps.
    """

    def release(self, name: str, exact: Any, promise: Promise, within: Any, relation: Relation, rng: Rng) -> Release:
        assert isinstance(exact, Total)
        totals, sensitivity = exact.value(), within.sensitivity("l1", relation)
        scale = sensitivity.size / promise.as_pure().eps / float(sensitivity.weights.min())
        index = self.choose((totals.max() - totals) / scale, rng)
        return Release(name, np.array([float(index)]), None, promise, within)

    @abstractmethod
    def choose(self, deficits: FloatArray, rng: Rng) -> int:
        """Return the index of one candidate, chosen at random by the mechanism's rule.

        `deficits`, shape (number of candidates,), has the difference between the largest total and each candidate's
        total (its number of rows), in units of the l1 sensitivity divided by eps.
        """


@dataclass(frozen=True)
class PermuteAndFlip(ModeMechanism):
    """Permute-and-flip: visit the candidates in random order until a candidate is accepted.

    A candidate is accepted with probability ``exp(-deficit)``. The total of a candidate is its number of rows; the
    deficit is the largest total minus the candidate's total, in units of the l1 sensitivity divided by eps.

    Privacy: eps-DP (McKenna and Sheldon 2020). The mechanism is sampled in another way that has the same law (Ding et
    al. 2021): independent exponential noise with scale (l1 sensitivity) / eps is added to every total, and the
    candidate with the largest sum of total and noise is chosen. Given the noise of all other candidates, a candidate is
    chosen if and only if its own noise exceeds a threshold. Let t be this threshold in units of the scale. The
    candidate is chosen with probability ``min(1, exp(-t))``. Between neighbours t changes by at most eps, so this
    probability changes by a factor of at most e^eps. The guarantee holds for the neighbouring relation for which the
    sensitivity is computed.

    The expected difference between the largest total and the total of the chosen candidate is never larger than with
    `ModeExponential`.
    """

    label: ClassVar[str] = "permute_and_flip"

    def choose(self, deficits: FloatArray, rng: Rng) -> int:
        noisy = exponential(rng, deficits.shape) - deficits
        # one of the largest sums of total and noise is chosen at random; two sums can be equal only by rounding
        first = np.flatnonzero(noisy == noisy.max())
        return int(first[int(rng.integers(0, len(first), None))])


@dataclass(frozen=True)
class ModeExponential(ModeMechanism):
    """Choose a candidate with probability proportional to ``exp(-deficit)``.

    The total of a candidate is its number of rows; its deficit is the largest total minus its total, in units of the l1
    sensitivity divided by eps.

    Privacy: eps-DP. The weight of a candidate is ``exp(-deficit)``. The reciprocal of the probability of a candidate
    with weight w is the sum of ``w_j / w`` over the weights w_j of all candidates, and between neighbours each ratio
    changes by a factor of at most e^eps. If one row is added or removed, the weight is proportional to ``exp(eps
    total)``. The factor 1/2 of the general theorem (McSherry and Talwar 2007, Theorem 6) is not needed, because totals
    change in one direction only. If one row is replaced, the weight is proportional to ``exp(eps total / 2)``. The
    guarantee holds for the neighbouring relation for which the sensitivity is computed.
    """

    label: ClassVar[str] = "mode expmech"

    def choose(self, deficits: FloatArray, rng: Rng) -> int:
        return int(choose(rng, -deficits, 1)[0])


@dataclass(frozen=True)
class DuffMode(ModeMechanism):
    """Choose a candidate with probability proportional to ``exp(-deficit / 2)``.

    The total of a candidate is its number of rows; its deficit is the largest total minus its total, in units of the l1
    sensitivity divided by eps. The mechanism is included for comparison.

    Privacy: eps-DP. The mechanism also satisfies the stricter guarantee (eps / 2)-DP, because the factor 1/2 in the
    exponent is not needed (`ModeExponential`). The deficit corresponds to the dataset distance of Gillenwater and Munoz
    Medina (2020); the mechanism in their Section 4.1 has the factor 1/2. The guarantee holds for the neighbouring
    relation for which the sensitivity is computed.
    """

    label: ClassVar[str] = "mode duff"

    def choose(self, deficits: FloatArray, rng: Rng) -> int:
        return int(choose(rng, -deficits / 2, 1)[0])
