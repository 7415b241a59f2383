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

    The guarantee of all fits is computed under the assumption that they use the same rows. A fit that is given twice
    counts once. There is no such guarantee if a fit is seeded, or if the fits have different neighbouring relations.

    Parameters
    ----------
    results : list of Results
        Fits of any function.
    fmt : {"text", "markdown", "latex", "html", "csv"}
        Format of the table; LaTeX needs the package booktabs.
    names : list of str, optional
        Headers of the columns; by default (1), (2), ...
    rename : dict of str to str, optional
        Mapping from the name of a term in the fits to its name in the table.
    stars : bool
        Whether stars mark estimates with small p-values.
    digits : int
        Significant digits of standard errors.

    Returns
    -------
    str
        The table. In the format "text", lines have at most 80 characters; the columns of a wider table are split into
        blocks, one below the other.

    Raises
    ------
    OptionError
        If an element of `results` is not a fit, `fmt` is unknown, or the number of `names` differs from the number of
        fits.

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
