"""The public facts of a fit: what was asked for, under which promise, by which method and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privstats.inference.notes import Note
from privstats.privacy.promise import Neighbors, Promise

FloatArray = NDArray[np.float64]

REGRESSIONS = ("lm", "glm", "rq")  # functions whose coefficients are tested against zero


class PublicDesign(Protocol):
    """The members of a design that results use: it holds no rows."""

    @property
    def domain(self) -> Any:
        """The declared bounds and levels."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that are read."""

    def matrix(self, new_data: pd.DataFrame) -> FloatArray:
        """Return the model matrix of new rows in the user's units, shape (n, columns)."""

    def offsets(self, new_data: pd.DataFrame) -> FloatArray:
        """Return the offset of new rows, shape (n,)."""


COMBINED = "combined"  # the method of a mean of fits


@dataclass(frozen=True)
class FitFacts:
    """The public facts of a fit; `used` alone is a release.

    Parameters
    ----------
    verb : str
        "lm", "glm", "rq", "median", "quantile", "mean", "mode" or "hist".
    title : str
        Heads the summary, before the formula: "Private linear regression".
    formula : str
        As the user wrote it.
    promise : Promise
        The promise that was asked for, and kept; its `neighbors` name the unit.
    mech, mech_words : str
        The method as an argument, and in words: "suffstats", "noisy moments".
    noise : str, optional
        Distribution of the noise, where the method has a choice of it.
    why : str
        Why this method: "chosen by auto: expected length 1.9 times that without privacy (newton: 2.3)". A part
        ``{key}`` becomes the number of the note with this key.
    rows : int, optional
        Number of rows handed over, if it is public.
    units : int, optional
        Number of units, if it is public and a unit is not a row.
    used : tuple of (float, float), optional
        Number of rows used, as released, and the standard error of this release.
    complete : bool
        Whether every row is used, by declaration.
    cov_type : str, optional
        As asked for: "HC", "HC0" to "HC3", "nonrobust", "cluster", "kernel"; None where there is no such choice.
    assumes : tuple of str
        Further assumptions, in words.
    estimated_bounds : tuple of (str, float, float)
        Columns without declared bounds, and their estimated bounds.
    budget : tuple of (str, float)
        Names of the questions, and their shares of the whole.
    accounted : Promise, optional
        The promise that was divided among the questions, where it is not `promise`: mu, in place of (eps, delta).
    kept : Promise, optional
        The promise that the mechanisms keep, where it implies more than `promise`: mu of normal noise, in place of rho.
    seeded : int or str, optional
        The seed, or what stood in its place; None where the noise is from the operating system.
    shared : bool
        Whether the user handed over the ledger.
    charged : str
        Where several fits that were combined are charged, in words.
    keys : tuple of str
        Names of the levels of the index: ("term",), ("term", "tau"), ("term", "group"), ("term", "group", "q"),
        ("term", "bin").
    labels : tuple of tuple
        For each number of the estimate its label, one part a key; by term first. Empty where `keys` is ("term",): names
        of the estimate are the labels then.
    levels : tuple of (tuple or None)
        For each number the levels whose position it is (the mode of a column with levels); empty where it is a number.
    residual_unit : float
        Length in the response's units of a residual of 1 in `diagnostics`.
    loss : str, optional
        Of linear regressions, as an argument: "squares", "huber".
    link : str, optional
        "logit", "probit" or "log", where predictions are made through a link.
    family : str, optional
        Of generalized linear models: "binomial", "poisson", "gamma", "gaussian".
    taus : tuple of float
        Of quantile regressions.
    design : Design, optional
        The map from new rows to columns, for `predict`; holds no data.
    subset, weights, offset : str, optional
        As the user wrote them.
    notes : tuple of Note
        What is to be said of the fit as a whole, apart from its estimates.
    digest : str
        Of the plan.
    ledgers : tuple of str
        What tells the ledgers from others to which it was charged, as far as the user handed them over.
    accepted : tuple of (str, float)
        Widths of 95% intervals that were stated beforehand as wanted, by term.
    """

    verb: str
    title: str
    formula: str
    promise: Promise
    mech: str
    mech_words: str
    noise: str | None = None
    why: str = ""
    rows: int | None = None
    units: int | None = None
    used: tuple[float, float] | None = None
    complete: bool = False
    cov_type: str | None = None
    assumes: tuple[str, ...] = ()
    estimated_bounds: tuple[tuple[str, float, float], ...] = ()
    budget: tuple[tuple[str, float], ...] = ()
    accounted: Promise | None = None
    kept: Promise | None = None
    seeded: int | str | None = None
    shared: bool = False
    charged: str = ""
    keys: tuple[str, ...] = ("term",)
    labels: tuple[tuple[Any, ...], ...] = ()
    levels: tuple[tuple[Any, ...] | None, ...] = ()
    residual_unit: float = 1.0
    loss: str | None = None
    link: str | None = None
    family: str | None = None
    taus: tuple[float, ...] = ()
    design: PublicDesign | None = None
    subset: str | None = None
    weights: str | None = None
    offset: str | None = None
    notes: tuple[Note, ...] = ()
    digest: str = ""
    ledgers: tuple[str, ...] = ()
    accepted: tuple[tuple[str, float], ...] = ()

    @property
    def neighbors(self) -> Neighbors:
        """The neighbouring relation of the promise."""
        return self.promise.neighbors

    @property
    def divided(self) -> Promise:
        """The promise whose parts the questions were given."""
        return self.accounted or self.promise

    @property
    def tested(self) -> bool:
        """Whether "the coefficient is zero" is a hypothesis that somebody may have."""
        return self.verb in REGRESSIONS

    @property
    def least_squares(self) -> bool:
        """Whether the fit is a regression by least squares."""
        return self.loss == "squares" or self.family == "gaussian"

    @property
    def used_value(self) -> float:
        """Number of rows used: the public number where all are, else the released one; NaN where none was released."""
        if self.complete and self.rows is not None:
            return float(self.rows)
        return float("nan") if self.used is None else self.used[0]
