"""The mode: choose the most frequent of several public candidates."""

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
    """Choose the index of a large total among candidates; subclasses differ in the law of the choice.

    The input of `choose` is the difference of each total from the largest total, in units of the l1 sensitivity divided
    by eps. For counts the sensitivity is 1 if rows are added or removed, and 2 if a row is replaced, where one count
    increases and another decreases; 2 also holds if rows may be missing. Between neighbours the difference of any two
    totals changes by at most the l1 sensitivity: in these units, by at most eps.
    """

    def release(self, name: str, exact: Any, promise: Promise, within: Any, relation: Relation, rng: Rng) -> Release:
        assert isinstance(exact, Total)
        totals, sensitivity = exact.value(), within.sensitivity("l1", relation)
        scale = sensitivity.size / promise.as_pure().eps / float(sensitivity.weights.min())
        index = self.choose((totals.max() - totals) / scale, rng)
        return Release(name, np.array([float(index)]), None, promise, within)

    @abstractmethod
    def choose(self, deficits: FloatArray, rng: Rng) -> int:
        """Return the chosen index, given each candidate's difference from the largest total, shape (G,)."""


@dataclass(frozen=True)
class PermuteAndFlip(ModeMechanism):
    """Visit candidates in random order; accept one with probability exp(-its scaled difference from the largest total).

    Privacy: eps (McKenna and Sheldon 2020). The mechanism is sampled as the index of the largest of the totals plus
    exponential noise of scale size / eps, which has the same law (Ding et al. 2021). Given the noise of the other
    candidates, candidate i is chosen if and only if its own noise exceeds a threshold t; this event has probability
    ``min(1, exp(-t))``. Neighbours change t by at most eps, and so the probability by a factor of at most e^eps. The
    expected difference between the largest total and the chosen total is never larger than with `ModeExponential`.
    Neighbouring relation: the relation for which the sensitivity is computed.
    """

    label: ClassVar[str] = "permute_and_flip"

    def choose(self, deficits: FloatArray, rng: Rng) -> int:
        noisy = exponential(rng, deficits.shape) - deficits
        first = np.flatnonzero(noisy == noisy.max())  # equal numbers occur by rounding only
        return int(first[int(rng.integers(0, len(first), None))])


@dataclass(frozen=True)
class ModeExponential(ModeMechanism):
    """Choose a candidate with probability proportional to ``exp(-deficit)``.

    The deficit of a candidate is the difference between the largest total and the candidate's total, in units of the l1
    sensitivity divided by eps.

    Privacy: eps. A candidate's probability is one over a sum of ratios of weights, and neighbours change each ratio by
    a factor of at most e^eps. For counts of added or removed rows the weight is ``exp(eps count)``, without the factor
    1/2 of the general theorem (McSherry and Talwar 2007, Theorem 6), which is not needed if counts change in one
    direction only. For replaced rows the weight is ``exp(eps count / 2)``. Neighbouring relation: the relation for
    which the sensitivity is computed.
    """

    label: ClassVar[str] = "mode expmech"

    def choose(self, deficits: FloatArray, rng: Rng) -> int:
        return int(choose(rng, -deficits, 1)[0])


@dataclass(frozen=True)
class DuffMode(ModeMechanism):
    """Choose a candidate with probability proportional to ``exp(-deficit / 2)``.

    The deficit of a candidate is the difference between the largest total and the candidate's total, in units of the l1
    sensitivity divided by eps. The mechanism is included for comparison.

    Privacy: eps. The mechanism also satisfies the stricter guarantee eps / 2, because the factor 1/2 in the exponent is
    not needed (`ModeExponential`). For counts the deficit is the dataset distance of Gillenwater and Munoz Medina
    (2020); the mechanism in their Section 4.1 has the factor 1/2. Neighbouring relation: the relation for which the
    sensitivity is computed.
    """

    label: ClassVar[str] = "mode duff"

    def choose(self, deficits: FloatArray, rng: Rng) -> int:
        return int(choose(rng, -deficits / 2, 1)[0])
