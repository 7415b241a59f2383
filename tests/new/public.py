"""The public names of the new house, as `privstats` will have them."""

from types import SimpleNamespace

from privstats import api, datasets, errors
from privstats.formula.declarations import Dates, Levels
from privstats.formula.domain import Domain
from privstats.formula.functions import rowwise
from privstats.formula.scale import Scale
from privstats.privacy.ledger import Ledger
from privstats.privacy.promise import ApproxDP, GaussianDP, Neighbors, PureDP
from privstats.privacy.tradeoff import gdp_delta, gdp_eps, gdp_mu

VERBS = ("dp_lm", "dp_glm", "dp_rq", "dp_median", "dp_quantile", "dp_mean", "dp_mode", "dp_hist", "plan")
ERRORS = ("PrivstatsError", "PrivacyError", "OptionError", "BudgetError", "DomainError", "FormulaError")
CLASSES = (Dates, Levels, Domain, Scale, Ledger, ApproxDP, GaussianDP, Neighbors, PureDP)

ps = SimpleNamespace(
    datasets=datasets,
    rowwise=rowwise,
    gdp_delta=gdp_delta,
    gdp_eps=gdp_eps,
    gdp_mu=gdp_mu,
    **{name: getattr(api, name) for name in VERBS},
    **{name: getattr(errors, name) for name in ERRORS},
    **{kind.__name__: kind for kind in CLASSES},
)
