"""The function `combine`: a single result from several fits of the same model, on several sites or on the same rows."""

from __future__ import annotations

from collections.abc import Iterable

from privstats.boundary import door
from privstats.results.combine import combined_fits
from privstats.results.results import Results


def combine(fits: Iterable[Results], rows: str) -> Results:
    """Combine several fits of the same model, either on disjoint data sets (sites) or on the same rows.

    The result is the mean of the fits, weighted by precision (inverse variances or covariance matrices); its standard
    errors and intervals include sampling error and the noise of all fits. A coefficient that one fit does not identify
    is reported if another fit identifies it. Combining uses releases only: no row is read, and no budget is spent.

    Parameters
    ----------
    fits : list of Results
        Fits of the same function, formula, domain and options; methods, budgets and numbers of rows may differ.
    rows : {"disjoint", "same"}
        "disjoint": no privacy unit has rows in the data of two fits (without `unit`, no row is in the data of two
        fits), under either neighbouring relation. The user declares that the data are disjoint; the guarantee and the
        intervals depend on this declaration, which the summary repeats. The guarantee is the largest budget of the
        fits. All fits are assumed to estimate the same population values: if the fits differ by more than their errors
        explain, a note says so, and the result estimates a weighted mean over the sites. "same": all fits are of the
        same rows. The budgets of the fits add up, as in a ledger, and only the noise is averaged: the sampling error
        equals the sampling error of one fit.

    Returns
    -------
    Results
        An object with the same methods as the result of a single fit; `releases` has the releases of all fits.

    Raises
    ------
    OptionError
        If the fits are of different models, if they have no intervals, if the bounds of a column were estimated, if a
        fit is given twice or two fits have the same seed, or if the fits contradict the argument `rows`: fits charged
        to one ledger do not have disjoint rows, and fits with different numbers of rows do not have the same rows.
    BudgetError
        If the fits protect different privacy units (rows, persons).

    Examples
    --------
    >>> import pandas as pd
    >>> from privstats.api import dp_mean
    >>> sites = [pd.DataFrame({"wage": [10.0, 20.0] * n}) for n in (1000, 500)]
    >>> fits = [dp_mean("wage", site, eps=1, domain={"wage": (0, 100)}, rng=k) for k, site in enumerate(sites)]
    >>> both = combine(fits, rows="disjoint")
    >>> both.nobs, both.guarantee
    (3000, PureDP(eps=1))
    >>> bool(both.bse["wage"] < min(fit.bse["wage"] for fit in fits))
    True
    """
    return door(combined_fits)(tuple(fits) if isinstance(fits, Iterable) else (), rows)
