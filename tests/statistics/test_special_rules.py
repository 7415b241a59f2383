"""Special rules of the package: without a rule, intervals of the case that the rule names are worse.

Intervals are worse if they have too little coverage, are longer, or are given less often.
"""

import pytest

from benchmarks.hard_cases import CASES
from benchmarks.populations import POPULATIONS
from benchmarks.special_rules import RULES, bought, without
from privstats.estimators import constants
from privstats.inference import estimate
from tests.conftest import thinned


def test_each_rule_has_a_case_and_what_switches_it_off():
    assert all(rule.case in {**CASES, **POPULATIONS} and (rule.off or rule.idle) for rule in RULES.values())
    assert all(hasattr(constants, name) or hasattr(estimate, name) for rule in RULES.values() for name in rule.off)


@thinned(2)
@pytest.mark.parametrize("name", ["missing_squares", "ridge_of_rare_levels", "few_outcomes"])
def test_a_case_is_worse_without_its_rule(name):
    """Results of 16 fits with a special rule are better than results of 16 fits without the rule.

    Without the rule, the coverage in the first case is .0 in place of .9; in the second case, half as many intervals
    are given, or intervals are twice as long; in the third case, the coverage is .7 in place of .97.
    """
    here, there = bought(RULES[name], 16, 1), without(RULES[name], 16, 1)
    assert here.covered >= 0.75 and there.worse(here)


def test_a_rule_that_is_switched_off_is_on_again_afterwards():
    before = constants.SUM_SEEN
    without(RULES["missing_squares"], 1, 1)
    assert before == constants.SUM_SEEN > 0
