"""Covariance of the noise in estimates whose Hessian is not released, computed with the Hessian of synthetic rows.

The numeric columns of the synthetic rows are uniform between their declared bounds.
"""

from __future__ import annotations

import numpy as np

from privstats.estimators.base import PublicFacts
from privstats.estimators.frame import PublicBox
from privstats.inference.noise import Loading
from privstats.mechanisms.random import public_stream
from privstats.numerics.law import FloatArray

FILLING = 4096  # number of synthetic rows
FILLED = "if the predictors fill their bounds"
DENSITY = 4.0  # assumed density of (response / half-range) at its quantile: the density of N(0, 0.1^2) at 0
LIKELY = f"{FILLED} and the residual std dev is a twentieth of the response's range"


def filling_rows(box: PublicBox) -> FloatArray:
    """Return synthetic rows, shape (FILLING, c), of a design with c columns.

    Numeric columns, products included, are independent and uniform on [-1, 1], the range of scaled columns. The levels
    of a factor are equally likely.
    """
    rng, rows = public_stream(8), np.zeros((FILLING, box.c))
    coded = {j for factor in box.design.factors for j in factor.columns}
    for where, corners in box.identity().parts:
        if len(corners) == 2 and where[0] not in coded:
            rows[:, list(where)] = rng.uniform(corners[0], corners[1], (FILLING, 1))
        else:
            rows[:, list(where)] = corners[rng.integers(0, len(corners), FILLING)]
    return rows


def filling_hessian(box: PublicBox, public: PublicFacts, weight: FloatArray | float = 1.0) -> FloatArray:
    """Return the Hessian of a sum of losses over the synthetic rows of `filling_rows`.

    The sum is scaled to the number of rows of the data or, if this number is private, to the number of privacy units.
    The result is NaN if both numbers are private.

    Parameters
    ----------
    box : PublicBox
        Public information about the design's columns.
    public : PublicFacts
        Public information about the fit, such as numbers of rows.
    weight : float or ndarray, shape (rows,)
        Second derivative of a row's loss with respect to the linear predictor.
    """
    rows = filling_rows(box)
    n = next((float(one) for one in (public.offered, public.units) if one is not None), np.nan)
    return np.asarray(n / len(rows) * (rows.T * weight) @ rows, dtype=float)


def noise_through(hessian: FloatArray, noise: Loading) -> FloatArray:
    """Return the covariance matrix of the estimation error caused by noise in the score.

    It is ``H^-1 C H^-1``, for the Hessian H and the covariance matrix C of the score's noise (`noise`). The result is
    NaN if H is NaN.
    """
    if not np.isfinite(hessian).all():
        return np.full(hessian.shape, np.nan)
    inverse = np.linalg.pinv(hessian, hermitian=True)
    through: FloatArray = inverse @ noise.covariance() @ inverse
    return through
