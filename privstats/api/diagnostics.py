"""The function `dp_diagnostics`: private residual diagnostics of a fit, with a separate budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privstats.privacy.ledger import Ledger
from privstats.results.diagnostics import Diagnostics
from privstats.results.results import Results
from privstats.workflow.call import public
from privstats.workflow.diagnostics import diagnosed


@public
def dp_diagnostics(
    fit: Results,
    data: Any,
    eps: float | None = None,
    *,
    mu: float | None = None,
    rho: float | None = None,
    delta: float = 0.0,
    bins: int = 10,
    fitted: tuple[float, float] | None = None,
    scale: float | None = None,
    shares: Mapping[str, float] | None = None,
    ledger: Ledger | None = None,
    rng: Any = None,
) -> Diagnostics:
    """Release residual diagnostics: a histogram of the residuals, and mean residuals in bins of the fitted values.

    Parameters
    ----------
    fit : Results
        Fit of `dp_lm`, or of `dp_glm` with the logit link. For a fit of `dp_glm`, only means of residuals by fitted
        probability are released.
    data : DataFrame, path, Protected or other data that `dp_lm` accepts
        The confidential rows of the fit, or other rows with the same columns.
    eps : float, optional
        Budget in addition to the budget of the fit: pure differential privacy, or (eps, delta) together with `delta`.
        Give one of `eps`, `mu` and `rho`.
    mu : float, optional
        Budget in Gaussian differential privacy.
    rho : float, optional
        Budget in zero-concentrated differential privacy.
    delta : float
        Probability with which the guarantee `eps` may fail.
    bins : int
        Number of bins of the fitted values; the outer bins also contain the fitted values beyond their edges.
    fitted : tuple of float, optional
        Range of fitted values (for a logistic regression, of log odds) that is divided into bins, from public
        knowledge. The default is the mean of the fitted values plus and minus two standard deviations of the fitted
        values; mean and standard deviation are computed from the coefficients and their covariance matrix. If the fit
        has no standard errors or no intercept, the default is the range that follows from the declared bounds.
    scale : float, optional
        Residual standard deviation, from public knowledge; by default the value that the fit released. Residuals are
        clamped at 4 times this value. For a fit of `dp_glm`, `scale` must be left out.
    shares : dict, optional
        Relative shares of the budget for the tables "residuals", "binned" and "scale_location" (see Returns); by
        default 1/4, 1/2 and 1/4.
    ledger : Ledger, optional
        Ledger that is charged with all diagnostics in one transaction, before any row is read.
    rng : None, int or numpy.random.Generator
        None: noise from the operating system. A seed makes the result reproducible and not private.

    Returns
    -------
    Diagnostics
        An object with the method `plot()` and the frames `residuals` (histogram), `binned` (means of the residuals) and
        `scale_location` (means of ``sqrt(|residual| / scale)``).

    Raises
    ------
    OptionError, BudgetError, FormulaError, DomainError, PrivacyError
        Whether an error is raised depends only on the arguments, on the fit, on the names and types of the columns, and
        on the number of rows if this number is public; it never depends on the values in the rows.

    Notes
    -----
    The coefficients are public, so the residual of a row is an expression of its columns. `dp_hist` releases the
    histogram of this expression. `dp_mean` releases means of the residuals, and means of ``sqrt(|residual| / scale)``,
    in groups ``cut(fitted, edges)``. Both use the subset, the neighbouring relation and the domain of the fit; for
    protected data, they use the domain of these data. All rows have equal weights, even if the fit used weights.

    Examples
    --------
    >>> import numpy as np, pandas as pd, privstats as ps
    >>> x = np.linspace(0, 1, 20_000)
    >>> data = pd.DataFrame({"x": x, "y": x**2 + 0.1 * np.sin(1000 * x)})
    >>> fit = ps.dp_lm("y ~ x", data, mu=1, domain={"x": (0, 1), "y": (-1, 2)}, rng=1)
    >>> seen = ps.dp_diagnostics(fit, data, mu=1, bins=5, rng=1)
    >>> seen.binned["mean"].round(1).to_list()
    [0.1, -0.0, -0.1, -0.0, 0.1]
    """
    budget = {"eps": eps, "mu": mu, "rho": rho, "delta": delta}
    return diagnosed(fit, data, budget, bins, fitted, scale, shares, ledger, rng)
