"""Bad input is refused clearly, from the schema alone, and before anything is charged or read."""

import math

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.older.gate.rows import MemoryRows

DOMAIN = {"y": (0, 1), "x": (0, 1), "g": ["a", "b"]}
DATA = pd.DataFrame({"y": np.linspace(0, 1, 40), "x": np.linspace(1, 0, 40), "g": ["a", "b"] * 20})
GOOD = {"formula": "y ~ x", "data": DATA, "eps": 1.0, "domain": DOMAIN}

CASES = [
    ({"formula": "y ~ z"}, ps.DomainError, "'z'"),
    ({"formula": "y ~ z", "domain": {**DOMAIN, "z": (0, 1)}}, ps.FormulaError, "no column 'z'"),
    ({"data": DATA[["y", "x", "x"]]}, ps.FormulaError, "more than one column 'x'"),
    ({"data": DATA.to_numpy()}, ps.FormulaError, "DataFrame"),
    ({"data": DATA.to_dict()}, ps.FormulaError, "DataFrame"),
    ({"data": DATA.head(2)}, ps.FormulaError, "too few"),
    ({"data": DATA.head(0)}, ps.FormulaError, "too few"),
    ({"domain": {**DOMAIN, "x": (1, 0)}}, ps.DomainError, "not below"),
    ({"domain": {**DOMAIN, "x": (0, math.inf)}}, ps.DomainError, "finite"),
    ({"domain": None}, ps.DomainError, "'y'"),
    ({"domain": 3}, ps.DomainError, "dict"),
    ({"eps": 0.0}, ps.BudgetError, "positive"),
    ({"eps": -1.0}, ps.BudgetError, "eps"),
    ({"eps": math.nan}, ps.BudgetError, "eps"),
    ({"eps": math.inf}, ps.BudgetError, "eps"),
    ({"eps": "1"}, ps.BudgetError, "eps"),
    ({"eps": True}, ps.BudgetError, "eps"),
    ({"eps": None}, ps.BudgetError, "exactly one of eps and mu"),
    ({"mu": 1.0}, ps.BudgetError, "exactly one of eps and mu"),
    ({"eps": None, "mu": 0.0}, ps.BudgetError, "positive"),
    ({"eps": None, "mu": 1.0, "delta": 1e-6}, ps.BudgetError, "delta"),
    ({"delta": 1.0}, ps.BudgetError, "delta"),
    ({"delta": -1e-6}, ps.BudgetError, "delta"),
    ({"delta": None}, ps.BudgetError, "delta"),
    ({"mech": "magic"}, ps.PrivacyError, "'auto', 'suffstats'"),
    ({"mech": ["suffstats"]}, ps.PrivacyError, "mech"),
    ({"noise": "l3"}, ps.PrivacyError, "'matrixt', 'hull', 'linf', 'l1', 'l2', 'gaussian'"),
    ({"mech": "kng", "noise": "matrixt"}, ps.PrivacyError, "'linf', 'l1', 'l2'"),
    ({"mech": "expmech", "noise": "l2"}, ps.PrivacyError, "'loss'"),
    ({"mech": "objpert", "noise": "gaussian"}, ps.PrivacyError, "'linf', 'l1', 'l2'"),
    *(
        ({"theta_bound": bad, "mech": "kng"}, ps.PrivacyError, "theta_bound")
        for bad in (0, -1.0, 11.0, 1e7, np.nan, np.inf, "1", True)
    ),
    *(({"split": bad, "mech": "objpert"}, ps.PrivacyError, "split") for bad in (0, 1, -0.5, 1.5, np.nan, "half")),
    *(({"ridge": bad}, ps.PrivacyError, "ridge") for bad in (-1, -1e-9, np.nan, np.inf, "little", True)),
    ({"cov_type": "HC7"}, ps.PrivacyError, "'nonrobust', 'HC'"),
    ({"cov_type": "HC", "inference": "none"}, ps.PrivacyError, "cov_type"),
    ({"mech": "suffstats", "theta_bound": 1.0}, ps.PrivacyError, "these have: kng, expmech, objpert"),
    ({"mech": "kng", "split": 0.5}, ps.PrivacyError, "these have: objpert"),
    ({"mech": "kng", "ridge": 1.0}, ps.PrivacyError, "these have: suffstats"),
    ({"noise": "gaussian"}, ps.BudgetError, "mu= .* delta="),
    ({"neighbors": "swap"}, ps.PrivacyError, "'replace', 'add_remove'"),
    ({"inference": "maybe"}, ps.PrivacyError, "'sandwich', 'none'"),
    ({"shares": {"nothing": 1.0}}, ps.PrivacyError, "'moments'"),
    ({"shares": {"moments": -1.0}}, ps.BudgetError, "positive"),
    ({"ledger": ps.PureDP(1.0)}, ps.BudgetError, "Ledger"),
    ({"rng": "seed"}, ps.PrivacyError, "rng"),
    ({"formula": "y ~ x + y"}, ps.FormulaError, "among the predictors"),
    ({"formula": "y ~ I(x - np.mean(x))"}, ps.FormulaError, "each row alone"),
    ({"formula": "y ~ h", "data": DATA.assign(h="text")}, ps.DomainError, "first level"),
    ({"unit": "person"}, ps.FormulaError, "'person'"),
    ({"rows_per_unit": 3}, ps.PrivacyError, "unit="),
    ({"unit": "g", "rows_per_unit": 0}, ps.PrivacyError, "rows_per_unit"),
    ({"covariance": "HC"}, ps.PrivacyError, "no option 'covariance'"),
    ({"subset": "z > 0"}, ps.FormulaError, "no column 'z'"),
    ({"subset": "x > x.mean()"}, ps.FormulaError, "each row alone"),
    ({"subset": "g"}, ps.FormulaError, "levels"),
    ({"subset": "~x > 0"}, ps.FormulaError, "brackets"),
    ({"subset": DATA["x"] > 0}, ps.FormulaError, "text"),
    ({"subset": "x >"}, ps.FormulaError, "cannot be read"),
    ({"weights": "x - 1"}, ps.DomainError, "0 <= low"),
    ({"weights": "w"}, ps.DomainError, "'w'"),
    ({"weights": [1.0] * 40}, ps.FormulaError, "text"),
]


@pytest.mark.parametrize(("change", "error", "says"), CASES)
def test_bad_input_is_refused_with_a_word_about_the_cure(monkeypatch, change, error, says):
    def never(self, questions):
        assert len(self.frame) == 64, "rows were read"  # the rehearsal's synthetic ones
        return works(self, questions)

    works = MemoryRows.sum
    monkeypatch.setattr(MemoryRows, "sum", never)
    ledger = change.get("ledger", ps.Ledger(ps.PureDP(10.0)))
    with pytest.raises(error, match=says):
        ps.dp_lm(**{**GOOD, "ledger": ledger, **change})
    assert not isinstance(ledger, ps.Ledger) or ledger.entries == ()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("gam", "y ~ x", 100, 1.0), "verb"),
        (("lm", "y ~ x", -1, 1.0), "n must be"),
        (("lm", "y ~ x", 10.5, 1.0), "n must be"),
        (("lm", "y ~ x", 2, 1.0), "too few"),
    ],
)
def test_a_bad_plan_is_refused(arguments, says):
    with pytest.raises(ps.PrivstatsError, match=says):
        ps.plan(*arguments, domain=DOMAIN)


def test_a_plan_costs_nothing_and_is_what_the_fit_then_does(monkeypatch):
    planned = ps.plan("lm", "y ~ x", 40, 1.0, domain=DOMAIN, noise="l2")
    ledger = ps.Ledger(ps.PureDP(1.0))
    dry = ps.dp_lm("y ~ x", DATA, 1.0, domain=DOMAIN, noise="l2", ledger=ledger, dry_run=True)
    assert ledger.entries == ()
    assert str(planned) == str(dry)
    assert planned.digest == dry.digest
    fit = ps.dp_lm("y ~ x", DATA, 1.0, domain=DOMAIN, noise="l2", ledger=ledger)
    assert [release.event for release in fit.releases] == [mechanism.event for mechanism in planned.mechanisms]
    assert ledger.remaining() == ps.PureDP(0.0)


def test_a_dry_run_does_not_tell_a_private_number_of_rows():
    options = {"domain": DOMAIN, "neighbors": "add_remove", "dry_run": True}
    plans = [ps.dp_lm("y ~ x", DATA.head(n), 1.0, **options) for n in (39, 40)]
    assert str(plans[0]) == str(plans[1])
    assert plans[0].digest == plans[1].digest
    assert "40" not in repr(vars(plans[1]).get("rows"))
    with pytest.raises(ps.PrivacyError, match="private"):
        plans[1].expected()
    assert ps.plan("lm", "y ~ x", 40, 1.0, domain=DOMAIN, neighbors="add_remove").expected().notna().all(axis=None)


def test_a_ledger_is_charged_before_a_row_is_read(monkeypatch):
    def dies(self, questions):
        if len(self.frame) != 64:
            assert ledger.spent() == ps.PureDP(1.0)
            raise OSError
        return works(self, questions)

    works = MemoryRows.sum
    monkeypatch.setattr(MemoryRows, "sum", dies)
    ledger = ps.Ledger(ps.PureDP(1.0))
    with pytest.raises(ps.PrivacyError, match="inside the gate"):
        ps.dp_lm(**GOOD, ledger=ledger)
    assert ledger.spent() == ps.PureDP(1.0)  # what was begun stays charged


def test_several_fits_share_a_ledger_until_it_is_spent():
    ledger = ps.Ledger(ps.GaussianDP(1.0))
    for mu in (0.6, 0.8):
        ps.dp_lm("y ~ x", DATA, mu=mu, domain=DOMAIN, ledger=ledger)
    assert [entry.label for entry in ledger.entries] == ["dp_lm: y ~ x"] * 2
    with pytest.raises(ps.BudgetError, match="refuses"):
        ps.dp_lm("y ~ x", DATA, mu=0.01, domain=DOMAIN, ledger=ledger)
