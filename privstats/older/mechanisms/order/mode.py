"""The mode: choose which of several public candidates is the most frequent."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from privstats.mechanisms.random import Generator
from privstats.older.mechanisms.additive.tails import choose, exponential
from privstats.older.mechanisms.base import PureMechanism
from privstats.older.numerics.exact import Total
from privstats.older.numerics.law import FloatArray
from privstats.older.privacy.release import Release, Sensitivity


class Mode(PureMechanism):
    """Choose the index of a large total; subclasses differ in how.

    They see by how much each total falls short of the largest, in units of the multiplier times the l1 sensitivity. For
    counts that is 1 under "add_remove" and 2 under "replace", where one count falls as another rises, which is enough
    if rows may be missing. Between neighbours the difference of any two totals moves by at most the l1 sensitivity:
    in these units, by at most eps = 1 / multiplier.
    """

    norm = "l1"

    def release(self, name: str, exact: Any, sensitivity: Sensitivity, chance: Generator) -> Release:
        assert isinstance(exact, Total)
        totals = exact.value()
        scale = self.multiplier * sensitivity.size / float(sensitivity.weights.min())
        index = self.choose((totals.max() - totals) / scale, chance)
        return Release(name, np.array([float(index)]), None, self.event)

    @abstractmethod
    def choose(self, deficits: FloatArray, chance: Generator) -> int:
        """Return the index chosen, given how far each candidate, shape (G,), is behind the first."""


class PermuteAndFlip(Mode):
    """Look at the candidates in random order and take each with probability ``exp(-deficit)``, until one is taken.

    Privacy: eps = 1 / multiplier (McKenna and Sheldon 2020). Sampled as the largest of totals plus exponential noise of
    scale size / eps, which has the same law (Ding et al. 2021): given the other noises, i wins iff its own exceeds a
    number t that neighbours move by at most eps, with probability ``min(1, exp(-t))``, which then moves by a factor of
    at most e^eps. Never worse in expectation than `ModeExponential`. Neighbouring relation: that of the sensitivity.
    """

    name = "permute_and_flip"

    def choose(self, deficits: FloatArray, chance: Generator) -> int:
        noisy = exponential(chance, deficits.shape) - deficits
        first = np.flatnonzero(noisy == noisy.max())  # more than one has probability zero but for rounding
        return int(first[int(chance.integers(0, len(first), None))])


class ModeExponential(Mode):
    """Choose with probability proportional to ``exp(-deficit)``.

    Privacy: eps = 1 / multiplier. A candidate's probability is one over a sum of ratios of weights, and neighbours move
    each ratio by a factor of at most e^eps. For counts under "add_remove" this is ``exp(eps count)``, without the 1/2
    of the general theorem (McSherry and Talwar 2007, Theorem 6), which one-way changes do not need; under
    "replace" it is ``exp(eps count / 2)``. Neighbouring relation: that of the sensitivity.
    """

    name = "expmech mode"

    def choose(self, deficits: FloatArray, chance: Generator) -> int:
        return choose(chance, -deficits)


class DuffMode(Mode):
    """Choose with probability proportional to ``exp(-deficit / 2)``: for comparison only.

    Privacy: eps = 1 / multiplier, of which it uses half. For counts the deficit is the dataset distance of Gillenwater
    and Munoz Medina (2020), Section 4.1, whose factor 1/2 is not needed (`ModeExponential`). Neighbouring
    relation: that of the sensitivity.
    """

    name = "duff mode"

    def choose(self, deficits: FloatArray, chance: Generator) -> int:
        return choose(chance, -deficits / 2)
