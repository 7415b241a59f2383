"""`dp_diagnostics`: pictures of the residuals of a fit, from releases of their own."""

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
    """Release what a fit leaves over: the residuals, and their means and sizes by fitted value.

    Parameters
    ----------
    fit : Results
        Of `dp_lm`, or of `dp_glm` with the logit link, which has means of residuals by fitted probability alone.
    data : DataFrame, path, Protected or any other that the functions take
        The confidential rows that were fitted, or others with the same columns.
    eps : float, optional
        Budget, beside that of the fit: pure differential privacy, or (eps, delta) together with `delta`. Give one of
        `eps`, `mu` and `rho`.
    mu : float, optional
        Budget in Gaussian differential privacy.
    rho : float, optional
        Budget in zero-concentrated differential privacy.
    delta : float
        Probability with which the guarantee `eps` may fail.
    bins : int
        Number of bins of the fitted values; the outer bins have all that lies beyond.
    fitted : tuple of float, optional
        Range that the bins divide, from public knowledge; of a logistic regression, of the log odds. By default two
        standard deviations about the mean of the fitted values, as the standard errors of the fit tell them, and where
        the fit has none or no intercept, all that the declared bounds allow.
    scale : float, optional
        Typical size of residuals, from public knowledge; by default the residual standard deviation that the fit
        released. Residuals further than 4 of it from zero count as so far away.
    shares : dict, optional
        Relative shares of the budget: "residuals", "binned", "scale_location"; by default 1, 2 and 1 quarters.
    ledger : Ledger, optional
        Charged with all pictures in one transaction, before any row is read.
    rng : None, int or numpy.random.Generator
        None: noise from the operating system. A seed makes the result reproducible and not private.

    Returns
    -------
    Diagnostics
        With the frames `residuals`, `binned` and `scale_location`, and `plot()`.

    Raises
    ------
    OptionError, BudgetError, FormulaError, DomainError, PrivacyError
        Decided from arguments, the fit, column names and types and the public number of rows, never from cells.

    Notes
    -----
    The coefficients are public, so the residual of a row is an expression of its columns. The pictures are `dp_hist` of
    it and `dp_mean` of it by ``cut(fitted, edges)``, with the domain, the subset and the neighbours of the fit. Rows
    count alike, whatever their weights were in the fit.

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
