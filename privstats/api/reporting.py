"""`summary_table`: fits side by side in one table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from privstats.results.model_table import ModelTable, side_by_side
from privstats.results.results import Results


def summary_table(
    results: Iterable[Results],
    fmt: str = "text",
    names: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    stars: bool = False,
    digits: int = 3,
) -> ModelTable:
    """Show fits side by side: a column a fit, a row a term, and below them guarantees and the price of all together.

    No row is read, and no budget is spent. The price is what a ledger would have charged for the fits if all are of the
    same rows; a fit that is given twice counts once.

    Parameters
    ----------
    results : list of Results
        Of any functions.
    fmt : {"text", "markdown", "latex", "html", "csv"}
        LaTeX needs the package booktabs.
    names : list of str, optional
        Heads of the columns; by default (1), (2) and so on.
    rename : dict of str to str, optional
        From terms to what is shown in their place.
    stars : bool
        Whether to mark small P values of regressions.
    digits : int
        Significant digits of standard errors; estimates have as many decimals.

    Returns
    -------
    str
        The table; a notebook shows it as HTML.

    Raises
    ------
    OptionError
        If `results` are no fits, or another argument is none of the above.

    Examples
    --------
    >>> import numpy as np, pandas as pd, privstats as ps
    >>> x = np.linspace(-1, 1, 20_000)
    >>> data = pd.DataFrame({"x": x, "z": x**2, "y": 2 + 3 * x + np.sin(1e5 * x)})
    >>> domain = {"x": (-1, 1), "z": (0, 1), "y": (-5, 10)}
    >>> fits = [ps.dp_lm(f, data, eps=1, domain=domain, rng=k) for k, f in enumerate(["y ~ x", "y ~ x + z"])]
    >>> print(ps.summary_table(fits, fmt="csv", names=["short", "long"], digits=1))
    Term,short,long
    Intercept,1.998 (0.006),2.000 (0.009)
    x,3.00 (0.01),3.00 (0.01)
    z,,0.00 (0.02)
    Rows (public),"20,000","20,000"
    Guarantee,seeded,seeded
    <BLANKLINE>
    """
    return side_by_side(tuple(results) if isinstance(results, Iterable) else (), fmt, names, rename, stars, digits)
