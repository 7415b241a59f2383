"""Covariance: bread^-1 (meat + noise) bread^-1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privstats.older.numerics.law import FloatArray

if TYPE_CHECKING:
    from privstats.older.inference.answer import Answer


def privacy_covariance(answer: Answer) -> FloatArray:
    """Return the part of the estimate's covariance that is due to privacy noise."""
    noise = np.zeros_like(answer.bread)
    for part in answer.noises:
        noise = noise + part.covariance()
    return between_bread(answer.bread, noise)


def sampling_covariance(answer: Answer) -> FloatArray:
    """Return the part that is due to sampling; NaN where the answer knows none."""
    if answer.meat is None:
        return np.full_like(answer.bread, np.nan)
    return between_bread(answer.bread, answer.meat.covariance())


def between_bread(bread: FloatArray, filling: FloatArray) -> FloatArray:
    """Return bread^-1 filling bread^-1, symmetric to the last bit."""
    half = np.linalg.solve(bread, filling)
    both: FloatArray = np.linalg.solve(bread, half.T)
    return (both + both.T) / 2
