"""The law of the estimation error, by Monte Carlo of the known noise and the normal sampling error.

Privacy noise is not normal, and is often most of the error; its law is public, so it is simulated.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from privstats.inference.answer import Answer
from privstats.numerics.law import Chance, FloatArray

DRAWS = 9_999  # a quantile of order .95 is known to 1 % of itself, a p-value down to 1e-4

Chances = Callable[[int], Chance]


def errors(answer: Answer, chances: Chances) -> FloatArray:
    """Return draws of the estimate's error.

    Parameters
    ----------
    answer : Answer
        With a meat.
    chances : callable
        Maps an index to a public random stream, the same at each call: intervals do not change when
        they are asked for again.

    Returns
    -------
    ndarray, shape (DRAWS, coefficients)
    """
    assert answer.meat is not None
    normal = chances(0).standard_normal((DRAWS, len(answer.theta)))
    equation = normal @ root(answer.meat).T
    for index, noise in enumerate(answer.noises, start=1):
        equation = equation + noise.law.sample(chances(index), DRAWS) @ noise.onto.T
    drawn: FloatArray = np.linalg.solve(answer.bread, equation.T).T
    return drawn


def root(covariance: FloatArray) -> FloatArray:
    """Return L with ``L L' = covariance``, for any positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))
