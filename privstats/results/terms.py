"""Tests of whole terms of a formula, and of differences between all pairs of levels of a factor."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from privstats.errors import CHOICES, FormulaError, OptionError, listed, quote
from privstats.inference.estimate import Estimate, NormalEstimate
from privstats.inference.group_means import GroupMeans
from privstats.inference.simultaneous import max_t
from privstats.results.facts import FloatArray
from privstats.results.hypotheses import ContrastTest, level, wald_test
from privstats.results.labels import as_code, coded_column, difference
from privstats.results.numbers import FitNumbers

MAX_T = "max-t"
ADJUSTMENTS = ("holm", "bonferroni", "holm-sidak", "sidak", "fdr_by", "fdr_bh")  # names of adjustments in statsmodels


class TermTests(pd.DataFrame):
    """DataFrame of Wald tests, indexed by the terms of a formula: test statistic, p-value and degrees of freedom."""

    @property
    def table(self) -> pd.DataFrame:
        """The tests as a plain DataFrame, under the attribute name that statsmodels uses."""
        return pd.DataFrame(self)


class PairTests(pd.DataFrame):
    """DataFrame with a row for each pair of levels of a factor: the test that both levels have equal coefficients."""

    @property
    def result_frame(self) -> pd.DataFrame:
        """The tests as a plain DataFrame, under the attribute name that statsmodels uses."""
        return pd.DataFrame(self)


def term_tests(results: FitNumbers) -> TermTests:
    """Return a table with a row for each term: the Wald test that all coefficients of the term are zero."""
    terms = getattr(results.facts.design, "terms", None)
    if terms is None:
        raise FormulaError(
            "the fit has no terms to test; write fit.wald_test(...) with a hypothesis of its coefficients"
        )
    columns = [label[0] for label in results.facts.labels] or list(results.estimate.names)
    each, rows = np.eye(len(columns)), {}
    for term, own in terms.items():
        R = each[[column in own for column in columns]]
        test = wald_test(results.estimate, R, np.zeros(len(R)))
        rows[term] = {"statistic": test.statistic, "pvalue": test.pvalue, "df": test.df}
    return TermTests(pd.DataFrame.from_dict(rows, orient="index"))


def pairwise_tests(results: FitNumbers, term: str, method: str, alpha: float) -> PairTests:
    """Return tests of equal coefficients for all pairs of levels of the factor `term`.

    If `term` is the group of a fit by group, the tests compare the estimates of all pairs of groups. P-values are
    adjusted by `method`, such as "holm". `alpha` is the familywise error rate of the adjusted tests (the false
    discovery rate with "fdr_by" and "fdr_bh"), and one minus the confidence of each unadjusted interval.
    """
    from statsmodels.stats.multitest import multipletests

    others = (MAX_T, *ADJUSTMENTS[1:])
    if method not in (ADJUSTMENTS[0], *others):
        raise OptionError(f"method is {quote(method)}; write method='holm', or one of {', '.join(others)}")
    estimate, (levels, rows) = results.estimate, _by_level(results, term)
    first, second = np.array(list(itertools.combinations(range(len(rows)), 2))).T
    R = rows[second] - rows[first]
    pairs = tuple(difference(levels[b], levels[a], "-") for a, b in zip(first, second, strict=True))
    tests = ContrastTest(estimate, R, np.zeros(len(R)), pairs)
    frame = tests.summary_frame(level(alpha)).drop(columns="null").set_axis(pairs)
    p = tests.pvalue
    given = ~np.isnan(p)
    if method == MAX_T:
        adjusted = _by_largest(estimate, R, alpha, tests.effect)
        reject = adjusted <= alpha
    else:
        reject, adjusted, *_ = multipletests(np.where(given, p, 1.0), alpha, method)  # 1 replaces missing p-values
    frame[f"pvalue-{method}"] = np.where(given, adjusted, np.nan)
    frame[f"reject-{method}"] = reject & given
    return PairTests(frame)


def _by_level(results: FitNumbers, term: str) -> tuple[Sequence[Any], FloatArray]:
    """Return the levels of a factor, and a matrix, shape (levels, estimates), that maps estimates to effects of levels.

    For estimates by group, the levels are the groups. The argument `term` names the factor, as C(g), or the factor's
    column, as g; spaces do not matter.
    """
    term = as_code(term) if isinstance(term, str) else term
    design: Any = results.facts.design
    estimate = results.estimate
    group = getattr(design, "group", None)
    if group is not None and term in (as_code(group.code), group.name):
        if len(estimate.names) == len(design.group_levels):
            return design.group_levels, np.eye(len(estimate.names))
        raise FormulaError(
            "t_test_pairwise needs one estimate for each group, and the fit has several; write fit.t_test(...)"
        )
    found = {as_code(factor.name): factor for factor in getattr(design, "factors", ()) if factor.columns}
    bare = [name for name in found if coded_column(name) == term]
    if term not in found and len(bare) != 1:
        has = listed(list(found), CHOICES)
        known = f"it has {has}" if found else "it has none; write fit.t_test(...) for other hypotheses"
        raise FormulaError(f"the fit has no factor {quote(term)}; {known}")
    factor = found[term if term in found else bare[0]]
    halves = np.asarray(getattr(design, "halves", ()))
    if len(halves) != len(estimate.names):
        raise FormulaError("t_test_pairwise needs a single tau; write fit.t_test(...), or fit with one tau=0.5")
    rows = np.zeros((len(factor.levels), len(halves)))
    rows[:, factor.columns] = factor.contrasts * halves[list(factor.columns)]
    return factor.levels, rows


def _by_largest(estimate: Estimate, R: FloatArray, alpha: float, effect: FloatArray) -> FloatArray:
    """Return max-t adjusted p-values of the hypotheses that differences ``R params`` of coefficients `params` are zero.

    `effect` has the estimated differences; where an estimated difference is NaN, the p-value is 1. Each standardised
    difference is compared with the distribution of the largest standardised error of all differences that are not NaN.
    """
    if isinstance(estimate, GroupMeans):
        estimate = estimate.independent()
    if not isinstance(estimate, NormalEstimate):
        raise OptionError(
            "method='max-t' needs the joint distribution of the errors, which the fit does not have; write "
            "method='holm'"
        )
    adjusted, given = np.ones(len(R)), ~np.isnan(effect)
    if given.any():
        adjusted[given] = max_t(estimate, R[given], alpha, effect[given]).pvalues
    return adjusted
