"""A plan predicts what a fit then delivers, and finds the budget or the rows that a width takes."""

import numpy as np
import pytest

import privstats as ps
from tests.statistics.designs import design_6_1, domain_6_1, formula_6_1

FORMULA, DOMAIN = formula_6_1(), domain_6_1()


def realised(n, price, seeds):
    widths = []
    for seed in seeds:
        interval = ps.dp_lm(FORMULA, design_6_1(n, seed), domain=DOMAIN, rng=seed, **price).conf_int()
        widths.append((interval[1] - interval[0]).iloc[1:].median())
    return np.median(widths)


@pytest.mark.parametrize(
    ("n", "price"),
    [
        (2000, {"eps": 4.0}),
        (10_000, {"eps": 1.0, "noise": "l1"}),
        (10_000, {"eps": 1.0, "noise": "l2", "neighbors": "add_remove"}),
        (20_000, {"mu": 0.5}),
    ],
)
def test_the_expected_width_is_within_15_percent_of_the_median_one(n, price):
    expected = ps.plan("lm", FORMULA, n, domain=DOMAIN, **price).expected(residual=1.0)
    assert expected["width"].iloc[1:].median() == pytest.approx(realised(n, price, range(9)), rel=0.15)


def test_rows_that_resemble_the_data_may_stand_for_them():
    narrow = design_6_1(3000, 1)
    narrow = narrow.assign(x1=narrow["x1"] / 10, y=narrow["y"] + 0.9 * narrow["x1"])  # the slope stays -1
    planned = ps.plan("lm", FORMULA, 50_000, 1.0, domain=DOMAIN)
    uniform, like = planned.expected(residual=1.0), planned.expected(like=narrow)
    assert like.loc["x1", "width"] > 5 * uniform.loc["x1", "width"]
    assert like.loc["x2", "width"] == pytest.approx(uniform.loc["x2", "width"], rel=0.15)


@pytest.mark.parametrize("price", [{"eps": 0.5}, {"mu": 0.5}])
def test_budget_and_rows_for_a_width_reach_it_and_no_more(price):
    planned = ps.plan("lm", FORMULA, 5000, domain=DOMAIN, **price)
    currency = next(iter(price))
    enough = planned.budget_for(0.3, residual=1.0)
    for budget, meets in ((enough, True), (0.99 * enough, False)):
        other = ps.plan("lm", FORMULA, 5000, domain=DOMAIN, **{currency: budget})
        assert (other.expected(residual=1.0)["width"].drop("Intercept") <= 0.3).all() == meets
    rows = planned.n_for(0.3, term="x1", residual=1.0)
    for n, meets in ((rows, True), (int(0.99 * rows), False)):
        other = ps.plan("lm", FORMULA, n, domain=DOMAIN, **price)
        assert (other.expected(residual=1.0).loc["x1", "width"] <= 0.3) == meets


def test_what_no_budget_can_do_is_said():
    planned = ps.plan("lm", FORMULA, 100, 1.0, domain=DOMAIN)
    with pytest.raises(ps.BudgetError, match="less than that without privacy"):
        planned.budget_for(0.01, residual=1.0)
    with pytest.raises(ps.PrivacyError, match="'x1'"):
        planned.n_for(0.3, term="z")
    with pytest.raises(ps.PrivacyError, match="residual"):
        planned.expected(residual=-1.0)
    with pytest.raises(ps.FormulaError, match="no column"):
        planned.expected(like=design_6_1(10, 1).drop(columns="x1"))


def test_a_plan_for_persons_subsets_and_weights_can_be_printed():
    domain = ps.Domain({**{name: DOMAIN[name] for name in DOMAIN}, "w": (0, 2)})
    options = {"unit": "person", "subset": "x1 > 0", "weights": "w"}
    text = str(ps.plan("lm", FORMULA, 5000, 1.0, domain=domain, **options))
    assert "rows" in text
    assert "95% width" in text


@pytest.mark.parametrize("mech", ["suffstats", "newton", "kng", "objpert", "expmech"])
@pytest.mark.parametrize("options", [{}, {"cov_type": "nonrobust"}, {"inference": "none"}], ids=str)
def test_a_plan_names_every_question_of_every_algorithm_and_what_it_costs(mech, options):
    if options.get("cov_type") and mech in ("newton", "expmech"):
        pytest.skip("has one kind of standard errors only")
    planned = ps.plan("lm", FORMULA, 100_000, 2.0, domain=DOMAIN, mech=mech, **options)
    text = str(planned)
    assert all(name in text for name in planned.questions.index)
    assert planned.guarantee.covers(promise for _, promise in planned.charge)
    assert ("95% width" in text) == (options.get("inference") != "none")
