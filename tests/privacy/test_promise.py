"""Guarantees, their parts and group privacy, and how far neighbours can change the contributions to a query."""

import math

import numpy as np
import pytest

from privstats.errors import BudgetError, OptionError
from privstats.privacy.promise import ApproxDP, GaussianDP, Neighbors, PureDP, Relation, ZeroCDP, promise_of, sums
from privstats.privacy.tradeoff import gdp_delta, pure_eps, pure_mu

PROMISES = [PureDP(0.7), ApproxDP(0.7, 1e-5), GaussianDP(0.7), ZeroCDP(0.7)]
promises = pytest.mark.parametrize("promise", PROMISES, ids=repr)


@promises
@pytest.mark.parametrize("shares", [(1.0,), (0.5, 0.5), (0.1,) * 10, (0.62, 0.2, 0.18), (1e-6, 1 - 1e-6)])
def test_the_parts_of_a_promise_cost_the_whole_and_not_more(promise, shares):
    parts = [promise.part(share) for share in shares]
    assert promise.covers(parts)
    assert not promise.covers([*parts, promise.part(1e-6)])


@promises
def test_no_part_of_a_promise_is_one_for_nothing_or_less(promise):
    for share in (0.0, -0.1, math.nan, math.inf):
        with pytest.raises((BudgetError, OptionError)):
            promise.part(share)


@pytest.mark.parametrize("kind", [PureDP, GaussianDP, ZeroCDP])
@pytest.mark.parametrize("number", [0, 0.0, -1, math.nan, math.inf, "1", None, True, [1.0]])
def test_a_budget_that_is_no_positive_number_is_refused(kind, number):
    with pytest.raises(BudgetError, match="give a positive number"):
        kind(number)


@pytest.mark.parametrize("delta", [0, -1e-9, 1, 2.0, math.nan, None, "1e-6"])
def test_a_delta_that_is_none_is_refused(delta):
    with pytest.raises(BudgetError):
        ApproxDP(1.0, delta)


@promises
def test_a_group_of_steps_keeps_what_each_was_given(promise):
    for k in (1, 2, 3, 7):
        again = promise.for_group(k).of_group(k)
        assert promise.covers([again])
        assert again.budget == promise.budget


def test_a_step_of_an_approximate_promise_counts_delta_once_for_each_step_before_it():
    step = ApproxDP(0.9, 1e-4).for_group(3)
    assert step.eps == pytest.approx(0.3)
    assert step.delta * (1 + math.exp(0.3) + math.exp(0.6)) == pytest.approx(1e-4)


def test_pure_and_normal_noise_have_the_worst_mechanism_between_them():
    assert GaussianDP(1.0).as_pure().eps == pytest.approx(pure_eps(1.0))
    assert pure_mu(GaussianDP(1.0).as_pure().eps) <= 1.0 + 1e-12
    normal = ApproxDP(1.0, 1e-6).as_normal()
    assert gdp_delta(normal.mu, 1.0) <= 1e-6
    assert gdp_delta(normal.mu * 1.0001, 1.0) > 1e-6
    with pytest.raises(BudgetError, match="normal noise cannot give pure eps; add delta=1e-6"):
        PureDP(1.0).as_normal()


def test_neighbours_become_contributions_in_one_place():
    assert Neighbors().relation(False, False) == Relation(1, True, False)
    assert Neighbors().relation(False, True) == Relation(1, True, True)
    assert Neighbors("add_remove").relation(False, False) == Relation(1, False, True)
    persons = Neighbors("replace", "person", 3)
    assert persons.relation(False, False) == Relation(3, True, True)
    assert persons.relation(True, False) == Relation(1, True, True)
    assert Neighbors("replace", "person").relation(False, False) == Relation(1, True, False)


@pytest.mark.parametrize(
    "wrong",
    [{"kind": "swap"}, {"rows_per_unit": 0, "unit": "p"}, {"rows_per_unit": 1.5, "unit": "p"}, {"rows_per_unit": 2}],
)
def test_neighbours_that_are_none_are_refused_with_the_cure(wrong):
    with pytest.raises(OptionError, match=r"write|give|add"):
        Neighbors(**wrong)


def test_a_call_has_one_budget():
    where = Neighbors()
    assert promise_of(1, None, None, 0.0, where) == PureDP(1.0)
    assert promise_of(None, 1, None, 0.0, where) == GaussianDP(1.0)
    assert promise_of(None, None, 1, 0.0, where) == ZeroCDP(1.0)
    assert promise_of(1, None, None, 1e-6, where) == ApproxDP(1.0, 1e-6)
    for wrong, says in (
        ((None, None, None, 0.0), "no budget is given; write eps=1, or eps=1 with delta=1e-6, or mu=1, or rho=0.5"),
        ((1, 1, None, 0.0), "eps and mu are both given; keep one of them"),
        ((None, 1, 1, 0.0), "mu and rho are both given; keep one of them"),
        ((1, 1, 1, 0.0), "eps, mu and rho are all given; keep one of them"),
        ((None, 1, None, 1e-6), "delta goes with eps; leave delta out, since mu needs none"),
        ((None, None, 1, 1e-6), "delta goes with eps; leave delta out, since rho needs none"),
        ((0, None, None, 0.0), "eps is 0"),
        ((None, None, -1, 0.0), "rho is -1; give a positive number, such as rho=0.5"),
    ):
        with pytest.raises(BudgetError, match=says):
            promise_of(*wrong, where)


def test_sums_take_the_better_of_eps_and_mu():
    normal = (GaussianDP(0.3),) * 4
    assert sums(normal, 1e-6) == pytest.approx(GaussianDP(0.6).to_approx(1e-6).eps)
    assert sums((PureDP(0.1), ApproxDP(0.2, 5e-7)), 1e-6) == pytest.approx(0.3)
    assert math.isinf(sums((ApproxDP(0.2, 2e-6),), 1e-6))


@promises
def test_what_is_left_and_what_is_spent_are_the_whole(promise):
    spent = promise.spent_on([promise.part(0.3)])
    left = promise.less(spent)
    if isinstance(promise, GaussianDP):
        assert left.mu**2 + spent.mu**2 == pytest.approx(promise.mu**2)
    else:
        first = promise.currency
        assert left.numbers[first] + spent.numbers[first] == pytest.approx(promise.numbers[first])


@promises
def test_no_test_of_a_person_errs_less_than_the_tradeoff_says(promise):
    alpha = np.linspace(0, 1, 41)
    beta = promise.tradeoff(alpha)
    assert (np.diff(beta) <= 1e-12).all()
    assert (beta <= 1 - alpha + 1e-12).all()
    assert beta[0] == pytest.approx(1 - getattr(promise, "delta", 0) if isinstance(promise, ApproxDP) else 1.0)


def test_texts_are_those_of_the_field():
    assert str(PureDP(1)) == "eps = 1 for any one row (neighbours: replace one row)"
    assert repr(PureDP(1)) == "PureDP(eps=1)"
    assert repr(ZeroCDP(0.5)) == "ZeroCDP(rho=0.5)"
    by_person = PureDP(1, Neighbors("replace", "person"))
    assert repr(by_person) == "PureDP(1, Neighbors('replace', 'person'))"
    assert eval(repr(by_person), {"PureDP": PureDP, "Neighbors": Neighbors}) == by_person
    assert str(by_person) == "eps = 1 for all rows of any one person (neighbours: replace one person)"


@pytest.mark.parametrize("k", [0.5, 0, -1, "a", True, np.nan, np.inf])
@pytest.mark.parametrize("promise", [PureDP(1.0), ApproxDP(1.0, 1e-6), GaussianDP(1.0), ZeroCDP(1.0)])
def test_a_group_has_a_whole_number_of_rows(promise, k):
    """A size of a group that is not a whole number is refused.

    Earlier, a group of half a row had the guarantee PureDP(2.0), weaker than the guarantee of one row.
    """
    for group in (promise.for_group, promise.of_group):
        with pytest.raises(BudgetError, match="give a whole number of rows from 1 on"):
            group(k)
    assert promise.for_group(2) == promise.for_group(2.0)
