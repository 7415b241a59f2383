"""The function `summary_table`, which prints several fits side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from privstats.boundary import door
from privstats.results.results import Results
from privstats.results.side_by_side import TableText, table_of_fits


def summary_table(
    results: Sequence[Results] | Results,
    fmt: str = "text",
    names: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    stars: bool = False,
    digits: int = 3,
) -> TableText:
    """Return a table with a column for each fit, with the guarantee of each fit and of all fits together.

    The total guarantee assumes fits on the same rows. A fit that is given twice counts once; there is no total if a fit
    is seeded, or if neighbours differ.

    Parameters
    ----------
    results : list of Results
        Fits of any function.
    fmt : {"text", "markdown", "latex", "html", "csv"}
        Format of the table; LaTeX needs the package booktabs.
    names : list of str, optional
        Heads of the columns; by default (1), (2), ...
    rename : dict of str to str, optional
        New names of terms, by their names in the fits.
    stars : bool
        Whether stars mark estimates with small p-values.
    digits : int
        Significant digits of standard errors.

    Returns
    -------
    str
        The table. Lines of text have at most 80 characters: further models follow in a block below the first ones.

    Raises
    ------
    OptionError
        If `results` are no fits, `fmt` is unknown, or the number of `names` is wrong.

    Examples
    --------
    >>> import pandas as pd
    >>> from privstats.api import dp_mean
    >>> rows = pd.DataFrame({"y": [1.0, 2.0] * 5000})
    >>> fits = [dp_mean("y", rows, mu=mu, domain={"y": (0, 4)}) for mu in (3, 4)]
    >>> print(summary_table(fits).splitlines()[-2][:60])
    Together mu = 5 for any one row (neighbours: replace one row
    """
    return door(table_of_fits)(results, fmt, names, rename, stars, digits)
