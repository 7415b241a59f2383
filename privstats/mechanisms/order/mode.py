"""The mode: choose which of several public candidates is the most frequent."""

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
    """Choose the index of a large total; subclasses differ in how.

    They see by how much each total falls short of the largest, in units of the l1 sensitivity over eps. For counts that
    is 1 where rows only come and go and 2 where one is exchanged, where one count falls as another rises, which is
    enough if rows may be missing. Between neighbours the difference of any two totals moves by at most the l1
    sensitivity: in these units, by at most eps.
    """

    def release(self, name: str, exact: Any, promise: Promise, within: Any, relation: Relation, rng: Rng) -> Release:
        assert isinstance(exact, Total)
        totals, sensitivity = exact.value(), within.sensitivity("l1", relation)
        scale = sensitivity.size / promise.as_pure().eps / float(sensitivity.weights.min())
        index = self.choose((totals.max() - totals) / scale, rng)
        return Release(name, np.array([float(index)]), None, promise, within)

    @abstractmethod
    def choose(self, deficits: FloatArray, rng: Rng) -> int:
        """Return the index chosen, given how far each candidate, shape (G,), is behind the first."""


@dataclass(frozen=True)
class PermuteAndFlip(ModeMechanism):
    """Look at the candidates in random order and take each with probability ``exp(-deficit)``, until one is taken.

    Privacy: eps (McKenna and Sheldon 2020). Sampled as the largest of totals plus exponential noise of scale size /
    eps, which has the same law (Ding et al. 2021): given the other noises, i wins iff its own exceeds a number t that
    neighbours move by at most eps, with probability ``min(1, exp(-t))``, which then moves by a factor of at most e^eps.
    Never worse in expectation than `ModeExponential`. Neighbouring relation: that of the sensitivity.
    """

    label: ClassVar[str] = "permute_and_flip"

    def choose(self, deficits: FloatArray, rng: Rng) -> int:
        noisy = exponential(rng, deficits.shape) - deficits
        first = np.flatnonzero(noisy == noisy.max())  # more than one has probability zero but for rounding
        return int(first[int(rng.integers(0, len(first), None))])


@dataclass(frozen=True)
class ModeExponential(ModeMechanism):
    """Choose with probability proportional to ``exp(-deficit)``.

    Privacy: eps. A candidate's probability is one over a sum of ratios of weights, and neighbours move each ratio by a
    factor of at most e^eps. For counts of rows that come and go this is ``exp(eps count)``, without the 1/2 of the
    general theorem (McSherry and Talwar 2007, Theorem 6), which one-way changes do not need; where rows are exchanged
    it is ``exp(eps count / 2)``. Neighbouring relation: that of the sensitivity.
    """

    label: ClassVar[str] = "mode expmech"

    def choose(self, deficits: FloatArray, rng: Rng) -> int:
        return int(choose(rng, -deficits, 1)[0])


@dataclass(frozen=True)
class DuffMode(ModeMechanism):
    """Choose with probability proportional to ``exp(-deficit / 2)``: for comparison only.

    Privacy: eps, of which it uses half. For counts the deficit is the dataset distance of Gillenwater and Munoz Medina
    (2020), Section 4.1, whose factor 1/2 is not needed (`ModeExponential`). Neighbouring relation: that of the
    sensitivity.
    """

    label: ClassVar[str] = "mode duff"

    def choose(self, deficits: FloatArray, rng: Rng) -> int:
        return int(choose(rng, -deficits / 2, 1)[0])
