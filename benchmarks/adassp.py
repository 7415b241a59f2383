"""AdaSSP, adaptive sufficient statistics perturbation, for linear regression: Algorithm 2 of Wang (2018).

The paper is "Revisiting differentially private linear regression". AdaSSP solves the normal equations of sufficient
statistics with Gaussian noise, under (eps, delta)-DP; a ridge is chosen from a private release of the smallest
eigenvalue of X'X. The code uses float64 arithmetic and an ordinary random generator: it is for benchmarks, not for
private data.
"""

from __future__ import annotations

import math

import numpy as np

RHO = 0.05  # failure probability of the bound from which the ridge is computed, as in the paper
# Sensitivities of the smallest eigenvalue of X'X, of X'X (Frobenius norm) and of X'y (l2 norm), in units of B^2, B^2
# and B C; B bounds a row's norm |x|, and C bounds |y|. In the paper a row is added or removed. If row (x, y) is
# replaced by (w, v), |xx' - ww'|_F^2 is at most |x|^4 + |w|^4, |xy - wv| is at most |xy| + |wv|, and the eigenvalue
# rises by at most |w|^2 or falls by at most |x|^2.
SENSITIVITY = {"add_remove": (1.0, 1.0, 1.0), "replace": (1.0, math.sqrt(2), 2.0)}


def adassp(
    X: np.ndarray,
    y: np.ndarray,
    eps: float,
    delta: float,
    bounds: tuple[float, float],
    rng: np.random.Generator,
    neighbors: str = "add_remove",
) -> np.ndarray:
    """Return the coefficients of AdaSSP, shape (d,).

    Parameters
    ----------
    X : ndarray, shape (n, d)
        Predictors, with a column of ones if the model has an intercept.
    y : ndarray, shape (n,)
        Responses.
    eps, delta : float
        Privacy parameters. Each of the three releases has eps / 3 and delta / 3: the standard deviation of its noise is
        sqrt(log(6 / delta)) / (eps / 3) times its sensitivity, as in the paper.
    bounds : tuple of float
        Public bounds of the rows' l2 norm and of abs(y). Longer rows are shortened, larger responses clipped.
    rng : Generator
        Random generator of the noise.
    neighbors : {"add_remove", "replace"}
        Neighbouring relation; "add_remove" in the paper.
    """
    (x_bound, y_bound), d = bounds, X.shape[1]
    of_eigenvalue, of_gram, of_cross = SENSITIVITY[neighbors]
    X = X * np.minimum(1.0, x_bound / np.maximum(np.linalg.norm(X, axis=1), 1e-300))[:, None]
    y = np.clip(y, -y_bound, y_bound)
    log_term = math.log(6 / delta)
    scale = math.sqrt(log_term) / (eps / 3)
    gram = X.T @ X
    eigenvalue = np.linalg.eigvalsh(gram)[0]
    unit = of_eigenvalue * x_bound**2
    low = max(0.0, eigenvalue + scale * unit * rng.standard_normal() - log_term / (eps / 3) * unit)
    upper = np.triu(rng.standard_normal((d, d)))
    noise = upper + np.triu(upper, 1).T
    spread = scale * of_gram * x_bound**2
    ridge = max(0.0, math.sqrt(d * math.log(2 * d**2 / RHO)) * spread - low)
    cross = X.T @ y + scale * of_cross * x_bound * y_bound * rng.standard_normal(d)
    return np.linalg.solve(gram + spread * noise + ridge * np.eye(d), cross)
