"""Tests of whole terms of a formula, and of all pairs of levels of a factor."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pandas as pd

from privstats.errors import FormulaError, OptionError, listed, quote
from privstats.results.hypotheses import contrast_test, level, wald_test
from privstats.results.numbers import FitNumbers

ADJUSTMENTS = ("holm", "bonferroni", "holm-sidak", "sidak", "fdr_by", "fdr_bh")  # of p-values that depend on each other


def term_tests(results: FitNumbers) -> pd.DataFrame:
    """Return what `Results.wald_test_terms` does."""
    factors = getattr(results.facts.design, "factors", ())
    columns = [label[0] for label in results.facts.labels] or list(results.estimate.names)
    mark = _mark([part for factor in factors for part in _parts(factor.levels)])
    terms = [mark.sub("", str(column)) for column in columns]
    each = np.eye(len(terms))
    rows = {}
    for term in dict.fromkeys(terms):
        R = each[[other == term for other in terms]]
        test = wald_test(results.estimate, R, np.zeros(len(R)))
        rows[term] = {"statistic": test.statistic, "pvalue": test.pvalue, "df": test.df}
    return pd.DataFrame.from_dict(rows, orient="index")


def pairwise_tests(results: FitNumbers, term: str, method: str, alpha: float) -> pd.DataFrame:
    """Return what `Results.t_test_pairwise` does."""
    from statsmodels.stats.multitest import multipletests

    if method not in ADJUSTMENTS:
        raise OptionError(f"method is {quote(method)}; write method='holm', or one of {', '.join(ADJUSTMENTS[1:])}")
    design, estimate = results.facts.design, results.estimate
    found = {factor.name: factor for factor in getattr(design, "factors", ()) if factor.columns}
    if term not in found:
        known = f"it has {listed(list(found))}" if found else "it has none; write fit.t_test(...) for other hypotheses"
        raise FormulaError(f"the fit has no factor {quote(term)}; {known}")
    factor = found[term]
    halves = np.asarray(getattr(design, "halves", ()))
    if len(halves) != len(estimate.names):
        raise FormulaError("t_test_pairwise needs a single tau; write fit.t_test(...), or fit with one tau=0.5")
    rows = np.zeros((len(factor.levels), len(halves)))
    rows[:, factor.columns] = factor.contrasts * halves[list(factor.columns)]
    first, second = np.array(list(itertools.combinations(range(len(rows)), 2))).T
    R = rows[second] - rows[first]
    tests = contrast_test(estimate, R, np.zeros(len(R)), results.names)
    frame = tests.summary_frame(level(alpha)).drop(columns="null")
    frame.index = pd.Index(
        [f"{_spelled(factor.levels[b])}-{_spelled(factor.levels[a])}" for a, b in zip(first, second, strict=True)]
    )
    p = tests.pvalue
    given = ~np.isnan(p)
    reject, adjusted, *_ = multipletests(np.where(given, p, 1.0), alpha, method)  # what is not given counts as a pair
    frame[f"pvalue-{method}"] = np.where(given, adjusted, np.nan)
    frame[f"reject-{method}"] = reject & given
    return frame


def _mark(levels: list[Any]) -> re.Pattern[str]:
    """Return what stands behind the name of a factor or of a basis in the name of a column."""
    texts = sorted({re.escape(str(one)) for one in levels}, key=len, reverse=True)
    places = "|".join([*texts, r"\d+", r"\.\w+", r"\^\d+"])
    return re.compile(rf"\[(?:[A-Z]\.)?(?:{places})\](?=:|$)")


def _parts(levels: tuple[Any, ...]) -> list[Any]:
    """Return levels one by one; those of a combination are pairs."""
    return [part for one in levels for part in (one if isinstance(one, tuple) else (one,))]


def _spelled(one: Any) -> str:
    return ":".join(map(str, one)) if isinstance(one, tuple) else str(one)
