"""`combine`: fits of one plan on several sites, or on the same rows again, as one result."""

from __future__ import annotations

from collections.abc import Iterable

from privstats.boundary import door
from privstats.results.combine import combined_fits
from privstats.results.results import Results


def combine(fits: Iterable[Results], rows: str) -> Results:
    """Combine fits of one plan: of disjoint sites, or of the same rows measured again.

    The result is the mean of the fits, weighted by precision in each direction of the coefficients; its standard errors
    and intervals contain sampling error and the noise of all fits. A coefficient that is not given in one fit may be
    given in another, and so here. Combining reads releases only: no row is read, and no budget is spent.

    Parameters
    ----------
    fits : list of Results
        Of the same function, formula, domain and options; methods, budgets and numbers of rows may differ.
    rows : {"disjoint", "same"}
        "disjoint": no unit has rows in two of the fits (no row is in two of them, where rows are the units), whatever
        the neighbours are. This is your declaration, on which guarantee and intervals rest, and it stands in the
        summary. The guarantee is the largest of the fits'. Each fit is taken to estimate the same population values: a
        note says so where the fits differ by more than their errors explain, and the result is for a weighted mean of
        the sites then. "same": all fits are of the same rows. Their guarantees add up, as in a ledger, and noise alone
        is averaged: the sampling error stays that of one fit.

    Returns
    -------
    Results
        As those of the function that made the fits; `releases` are those of all fits.

    Raises
    ------
    OptionError
        If the fits are not of one plan, have no intervals, or are of other rows than `rows` says, as far as is known:
        fits of one ledger are not of disjoint rows.
    BudgetError
        If the fits protect different units.

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
