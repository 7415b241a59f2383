"""The privacy loss of all answers of a fit together is at most the charge, for models other than linear regression.

Neighbouring data frames get the same releases (the same transcript).
"""

import math

import numpy as np
import pytest

from privstats.api.counts import dp_hist
from privstats.api.glm import dp_glm
from privstats.api.location import dp_mean
from privstats.api.regression import dp_lm
from privstats.formula.domain import Domain
from tests.conftest import thinned
from tests.gate.test_transcripts import RESPONSE, ROUNDING, along, base, eps_between, mu_between, neighbours

BOUNDS = {"a": (-2, 2), "b": (-2, 2), "y": RESPONSE, "g": ["u", "v"]}
DOMAIN, COMPLETE, BINARY = Domain(BOUNDS), Domain(BOUNDS, complete=True), Domain({**BOUNDS, "y": (0, 1)})
LOGIT = {"mu": 1.0, "family": "binomial"}
SUMS = {"eps": 8.0, "mech": "suffstats"}
CASES = {
    "logit": (dp_glm, "y ~ a + b", BINARY, LOGIT, "replace", None, 0.9),
    "logit of units": (dp_glm, "y ~ a + b", BINARY, LOGIT, "add_remove", "who", 0.8),
    "subset": (dp_lm, "y ~ a + b", DOMAIN, {"mu": 1.0, "subset": "g == 'u'"}, "replace", None, 0.8),
    "weights": (dp_lm, "y ~ a", Domain({**BOUNDS, "b": (0, 2)}), {"mu": 1.0, "weights": "b"}, "add_remove", None, 0.8),
    "complete": (dp_lm, "y ~ a + b + g", COMPLETE, SUMS, "replace", None, 0.9),
    "no intercept": (dp_lm, "y ~ 0 + a + b", COMPLETE, SUMS, "replace", None, 0.8),
    "no intercept of units": (dp_lm, "y ~ 0 + a + b", COMPLETE, SUMS, "add_remove", "who", 0.9),
    "means by group": (dp_mean, "y ~ g", DOMAIN, {"mu": 1.0, "mech": "gaussian"}, "replace", None, 0.99),
    "means of units under rho": (dp_mean, "y ~ g", DOMAIN, {"rho": 0.5, "mech": "gaussian"}, "replace", "who", 0.99),
    "means by group of either kind": (dp_mean, "y ~ g", DOMAIN, {"mu": 1.0}, "replace", None, 0.8),
    "means of either kind, pure": (dp_mean, "y ~ g", DOMAIN, {"eps": 8.0}, "replace", None, 0.75),
    "means by intervals": (dp_mean, "y ~ cut(a, [-2, -1, 0, 2])", DOMAIN, {"eps": 1.0}, "replace", None, 0.99),
    "means of units": (dp_mean, "y ~ g", DOMAIN, {"eps": 1.0}, "replace", "who", 0.99),
    "histogram": (dp_hist, "y", DOMAIN, {"eps": 1.0, "bins": 4}, "replace", None, 0.99),
}


@thinned(2)
@pytest.mark.parametrize(("verb", "formula", "domain", "options", "kind", "unit", "power"), CASES.values(), ids=CASES)
def test_no_neighbours_shift_all_answers_by_more_than_the_budget(verb, formula, domain, options, kind, unit, power):
    frames = neighbours(unit, kind)
    if domain is BINARY:
        frames = [frame.assign(y=(np.nan_to_num(frame["y"].to_numpy()) > 1).astype(float)) for frame in frames]
    units = {} if unit is None else {"unit": unit, "rows_per_unit": 3}
    plan = verb(formula, base(), domain=domain, neighbors=kind, dry_run=True, **options, **units)
    answers, between = along(plan, frames, seed=3), eps_between if "eps" in options else mu_between
    if kind == "replace":
        shifts = [between(here, there) for k, here in enumerate(answers) for there in answers[:k]]
    else:
        shifts = [between(here, answers[1]) for here in answers]
    whole = options.get("eps") or options.get("mu") or math.sqrt(2 * options["rho"])
    assert power * whole <= max(shifts) <= whole * (1 + ROUNDING)
