"""R-style statistical modelling under differential privacy, with standard errors that include the noise."""

from privstats import datasets
from privstats.errors import BudgetError, DomainError, FormulaError, PrivacyError, PrivstatsError
from privstats.older.api.counts import dp_hist, dp_mode
from privstats.older.api.glm import dp_glm
from privstats.older.api.location import dp_mean, dp_median, dp_quantile
from privstats.older.api.planning import plan
from privstats.older.api.regression import dp_lm, dp_rq
from privstats.older.formula.declarations import Dates, Levels
from privstats.older.formula.domain import Domain
from privstats.older.formula.functions import rowwise
from privstats.older.formula.scale import Scale
from privstats.older.privacy.guarantee import ApproxDP, GaussianDP, PureDP
from privstats.older.privacy.ledger import Ledger
from privstats.older.privacy.neighbors import Neighbors
from privstats.older.privacy.tradeoff import gdp_delta, gdp_eps, gdp_mu

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
    "PrivacyError",
    "PrivstatsError",
    "PureDP",
    "Scale",
    "datasets",
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
    "plan",
    "rowwise",
]
