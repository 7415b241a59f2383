"""R-style statistical modelling under differential privacy, with standard errors that include the noise."""

import difflib
from typing import TYPE_CHECKING, NoReturn

from privstats import adapters, datasets, local
from privstats.api import (
    combine,
    dp_diagnostics,
    dp_glm,
    dp_hist,
    dp_lm,
    dp_mean,
    dp_median,
    dp_mode,
    dp_quantile,
    dp_rq,
    load,
    plan,
    protect,
    summary_table,
)
from privstats.errors import BudgetError, DomainError, FormulaError, OptionError, PrivacyError, PrivstatsError
from privstats.formula.declarations import Dates, Levels
from privstats.formula.domain import Domain
from privstats.formula.functions import rowwise
from privstats.formula.scale import Scale
from privstats.privacy.ledger import Ledger
from privstats.privacy.promise import ApproxDP, GaussianDP, Neighbors, PureDP, ZeroCDP
from privstats.privacy.tradeoff import gdp_delta, gdp_eps, gdp_mu
from privstats.version import VERSION
from privstats.workflow.study import Study

__version__ = VERSION

__all__ = [
    "ApproxDP",
    "BudgetError",
    "Dates",
    "Domain",
    "DomainError",
    "FormulaError",
    "GaussianDP",
    "Ledger",
    "Levels",
    "Neighbors",
    "OptionError",
    "PrivacyError",
    "PrivstatsError",
    "PureDP",
    "Scale",
    "Study",
    "ZeroCDP",
    "adapters",
    "combine",
    "datasets",
    "dp_diagnostics",
    "dp_glm",
    "dp_hist",
    "dp_lm",
    "dp_mean",
    "dp_median",
    "dp_mode",
    "dp_quantile",
    "dp_rq",
    "gdp_delta",
    "gdp_eps",
    "gdp_mu",
    "load",
    "local",
    "plan",
    "protect",
    "rowwise",
    "summary_table",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


OTHER_NAMES = {  # keys: calls of functions of this package; values: names of similar functions elsewhere
    'ps.dp_lm("y ~ x", data, eps=1, domain=domain)': "lm ols wls linearregression linear_regression",
    'ps.dp_glm("y ~ x", data, eps=1, domain=domain)': "glm logit logistic logisticregression logistic_regression",
    'ps.dp_glm("y ~ x", data, eps=1, domain=domain, family="poisson")': "poisson",
    'ps.dp_rq("y ~ x", data, eps=1, domain=domain)': "rq quantreg",
    'ps.dp_mean("y", data, eps=1, domain=domain)': "mean average",
    'ps.dp_median("y", data, eps=1, domain=domain)': "median",
    'ps.dp_quantile("y", data, eps=1, q=0.9, domain=domain)': "quantile percentile",
    'ps.dp_mean("y", data, eps=1, domain=domain).diagnostics["sigma"]': "var variance sd std stddev",
    'ps.dp_mean("y", data, eps=1, domain=domain), times the number of rows': "sum total",
    'ps.dp_lm("y ~ C(g)", data, eps=1, domain=domain)': "ttest t_test ttest_ind anova aov",
    'ps.dp_hist("y", data, eps=1, domain=domain, bins=20)': "hist histogram count counts table crosstab",
    "ps.load('fit.json')": "read read_fit load_fit",
    "ps.Ledger(ps.PureDP(1))": "accountant budgetaccountant",
}


if not TYPE_CHECKING:  # `__getattr__` is hidden from type checkers, which would otherwise accept every name

    def __getattr__(name: str) -> NoReturn:
        """Raise an error for an attribute that the package lacks.

        If the name of the attribute is from R or another package, the error proposes the similar function of this
        package.
        """
        plain = name.lower().removeprefix("dp_")
        cure = next((f"; write {cure}" for cure, names in OTHER_NAMES.items() if plain in names.split()), "")
        near = difflib.get_close_matches(name, __all__, 1, 0.75)
        cure = cure or (f"; did you mean '{near[0]}'?" if near else "")
        raise AttributeError(f"module 'privstats' has no attribute '{name}'{cure}")
