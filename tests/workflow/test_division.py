"""Parts of a guarantee add up to it, whatever shares are given and whichever branch (method) is chosen."""

import math
from dataclasses import dataclass, replace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privstats as ps
from privstats.errors import BudgetError, OptionError
from privstats.mechanisms.additive.gaussian import Gaussian
from privstats.mechanisms.additive.laplace import Laplace
from privstats.mechanisms.base import Mechanism
from privstats.privacy.promise import ApproxDP, GaussianDP, PureDP, ZeroCDP, eps_of, mu_of, rho_of
from privstats.workflow.division import divided

WHOLES = [PureDP(0.7), GaussianDP(1.3), ZeroCDP(0.4), ApproxDP(0.7, 1e-6)]
OWN = {
    "bounds": 1.0,
    "scales": 0.1,
    "coarse": 0.2,
    "moments": 0.9,
    "meat": 0.1,
    "score": 0.7,
    "hessian": 0.3,
    "again": 0.4,
}


NORMAL = Gaussian()


@dataclass(frozen=True)
class Q:
    """A query as recorded by a rehearsal (trial run)."""

    label: str
    branch: str | None = None
    optional: tuple[str, ...] = ()
    mechanism: Mechanism = NORMAL

    @property
    def name(self):
        return self.label.split()[0]


LINE = (Q("moments"), Q("meat"))
FORK = (Q("scales"), Q("coarse"), Q("moments", "m"), Q("meat", "m"), Q("score", "s"), Q("hessian", "s"))


def size(promise):
    return promise.numbers[promise.currency]


def together(whole, promises):
    """Return the parameter (eps, mu or rho) of the sum of several guarantees."""
    if isinstance(whole, GaussianDP):
        return mu_of(promises)
    if isinstance(whole, ZeroCDP):
        return rho_of(promises)
    if isinstance(whole, PureDP):
        return eps_of(promises)
    assert math.fsum(p.delta for p in promises) == pytest.approx(whole.delta)
    return math.fsum(p.eps for p in promises)


@pytest.mark.parametrize("whole", WHOLES, ids=str)
@pytest.mark.parametrize("asked", [LINE, FORK, (Q("bounds a"), Q("bounds b"), *FORK), (Q("bounds a"), *LINE)])
def test_the_charge_is_the_whole(whole, asked):
    charge = [promise for _, promise in divided(asked, whole, OWN).charge]
    assert together(whole, charge) == pytest.approx(together(whole, [whole]), rel=1e-12)
    assert whole.covers(charge)


@pytest.mark.parametrize("whole", WHOLES, ids=str)
def test_each_branch_keeps_the_one_entry_that_is_charged_for_all(whole):
    division = divided(FORK, whole, OWN)
    entry = dict(division.charge)["m or s"]
    for branch in ("m", "s"):
        own = [division.promises[q.label] for q in FORK if q.branch == branch]
        assert together(whole.part(0.7), own) == pytest.approx(together(whole.part(0.7), [entry]), rel=1e-12)


@pytest.mark.parametrize("whole", WHOLES, ids=str)
@pytest.mark.parametrize("shares", [{"score": 7.0, "hessian": 3.0}, {"score": 0.01}, {"moments": 1.1, "meat": 0.2}])
def test_whatever_the_shares_of_a_branch_add_up_to_it_keeps_what_is_charged_for_it(whole, shares):
    """Shares that add up to more than the branch's part are scaled down; shares that add up to less are scaled up."""
    for division in (divided(FORK, whole, OWN | shares), divided(FORK, whole, OWN, shares)):
        for branch in ("m", "s"):
            own = [division.fractions[q.label] for q in FORK if q.branch == branch]
            assert math.fsum(own) == pytest.approx(0.7, rel=1e-12)


@given(
    st.dictionaries(st.sampled_from(["scales", "coarse", "moments", "meat", "score", "hessian"]), st.floats(1e-6, 1e6)),
    st.sampled_from(WHOLES),
)
def test_whatever_shares_are_given_the_charge_is_the_whole_or_they_are_refused(shares, whole):
    try:
        division = divided(FORK, whole, OWN, shares)
    except OptionError as error:
        assert shares.get("scales", 0.1) + shares.get("coarse", 0.2) >= 1
        assert "less than 1" in str(error)
        return
    assert whole.covers(promise for _, promise in division.charge)
    assert all(size(promise) > 0 for promise in division.promises.values())


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, True, "1", None, [1]])
def test_a_share_that_would_switch_noise_off_is_refused_with_and_without_branches(bad):
    for asked in (LINE, FORK):
        with pytest.raises(OptionError, match="positive number"):
            divided(asked, PureDP(1.0), OWN, {"moments": bad})


def test_a_negative_share_cannot_make_room_for_another():
    with pytest.raises(OptionError):
        divided(LINE, PureDP(1.0), OWN, {"moments": 3, "meat": -2})


def test_a_share_without_a_question_is_refused_with_the_names_of_all():
    with pytest.raises(OptionError, match="knows moments, meat"):
        divided(LINE, PureDP(1.0), OWN, {"moment": 1.0})
    with pytest.raises(OptionError, match="dict"):
        divided(LINE, PureDP(1.0), OWN, [1.0])


def test_questions_of_one_name_share_equally_but_for_those_that_are_named_by_label():
    asked = (Q("score a"), Q("score b"), Q("score c"), Q("hessian"))
    plain = divided(asked, PureDP(1.0), OWN).fractions
    assert plain["score a"] == pytest.approx(plain["score c"])
    assert plain["score a"] + plain["score b"] + plain["score c"] == pytest.approx(0.7)
    special = divided(asked, PureDP(1.0), OWN | {"score b": 0.5}).fractions
    assert special["score b"] / special["score a"] == pytest.approx(0.5 / 0.35)
    given_label = divided(asked, PureDP(1.0), OWN, {"score c": 7.0}).fractions
    assert given_label["score c"] / given_label["hessian"] == pytest.approx(7.0 / 0.3)


def test_an_optional_question_lies_inside_the_share_of_another_and_is_not_charged_beside_it():
    asked = (*FORK, Q("again", None, ("score",)))
    division = divided(asked, GaussianDP(2.0), OWN)
    assert division.fractions["again"] == pytest.approx(0.4 * division.fractions["score"])
    assert "again" not in dict(division.charge)
    with pytest.raises(OptionError, match="below 1"):
        divided(asked, GaussianDP(2.0), OWN, {"again": 1.5})


def test_an_optional_question_with_a_share_in_each_branch_spends_the_same_in_all():
    asked = (*FORK, Q("again", None, ("score", "moments")))
    division = divided(asked, PureDP(1.0), OWN)
    assert division.fractions["again"] == pytest.approx(0.4 * division.fractions["score"])
    assert division.charge == divided(FORK, PureDP(1.0), OWN).charge
    with pytest.raises(OptionError, match="parts of the share of 'moments'"):
        divided(asked, PureDP(1.0), OWN, {"moments": 0.01})


def test_a_part_of_rho_is_charged_as_what_its_mechanisms_keep():
    pure, again = Q("scales", mechanism=Laplace()), Q("again", None, ("coarse",), Laplace())
    charge = dict(divided((pure, *FORK[1:], again), ZeroCDP(0.5), OWN).charge)
    assert charge["scales"] == ZeroCDP(0.05).as_pure()
    # this charge is not in eps, because it is for a query with normal noise and an optional query with pure noise
    assert charge["coarse"] == ZeroCDP(0.1)
    assert charge["m or s"] == ZeroCDP(0.35)
    charge = dict(divided((*FORK, replace(again, mechanism=NORMAL)), ZeroCDP(0.5), OWN).charge)
    assert all(isinstance(promise, GaussianDP) for promise in charge.values())
    charge = dict(divided((pure, *LINE, replace(again, optional=("scales",))), ZeroCDP(0.5), OWN).charge)
    assert isinstance(charge["scales"], ZeroCDP)  # the sum of the two pure eps would exceed the eps of rho


def test_the_bounds_of_stage_0_have_their_share_and_the_others_what_is_left():
    asked = (Q("bounds a"), Q("bounds b"), *FORK)
    division, without = divided(asked, PureDP(1.0), OWN, None, 0.2), divided(FORK, PureDP(1.0), OWN)
    assert division.fractions["bounds a"] == pytest.approx(0.1)
    assert division.fractions["score"] == pytest.approx(0.8 * without.fractions["score"])


@pytest.mark.parametrize("bad", [0, 1, -0.1, 1.5, math.nan, "a", True, None])
def test_a_bounds_share_outside_0_and_1_is_refused(bad):
    with pytest.raises(BudgetError, match="bounds_share"):
        divided((Q("bounds a"), *LINE), PureDP(1.0), OWN, None, bad)


def test_a_question_without_any_share_is_an_error():
    with pytest.raises(OptionError, match="has no share"):
        divided((Q("nothing"),), PureDP(1.0), OWN)


def test_a_question_may_be_called_by_its_printed_name():
    domain = {"y": (0, 1), "x": (0, 1)}
    call = {"n": 1000, "mu": 1, "domain": domain, "mech": "newton"}
    printed, own = (ps.plan("lm", "y ~ x", **call, shares={name: 2.0}) for name in ("Hessian", "hessian"))
    pd.testing.assert_frame_equal(printed.questions, own.questions)
    assert "Hessian" in str(printed)
