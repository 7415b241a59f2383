"""R-style statistical modelling under differential privacy, with standard errors that include the noise."""

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
