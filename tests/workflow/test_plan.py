"""A fit does what its plan states; equal digests mean equal calls; forecasts depend on public facts only."""

import math
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from benchmarks.common import InMemory
from privstats import estimators
from privstats.errors import BudgetError, DomainError, FormulaError, OptionError, PrivacyError
from privstats.formula.domain import Domain
from privstats.gate import rehearsal as rehearsal_module
from privstats.gate.gate import Conversation
from privstats.gate.questions import Sum
from privstats.inference.estimate import NormalEstimate
from privstats.losses.rows import WeightedColumns
from privstats.mechanisms.additive.cube import Cube
from privstats.mechanisms.additive.laplace import Laplace
from privstats.mechanisms.additive.matrixt import MatrixT
from privstats.mechanisms.order.rank import Rank
from privstats.mechanisms.order.rank_sampler import draw_rank
from privstats.mechanisms.order.ranked import Ranked, RankGrid
from privstats.mechanisms.quantile_regression.kng import KNGQuantile
from privstats.mechanisms.random import public_stream
from privstats.models.base import Choice
from privstats.models.regression import LinearModel
from privstats.numerics.exact import Total
from privstats.privacy.promise import ApproxDP, GaussianDP, Neighbors, PureDP
from privstats.sets.cells import Line
from privstats.sets.vectors import Products, Squares
from privstats.workflow import forecast
from privstats.workflow import plan as plan_module
from privstats.workflow.assumed import Assumption
from privstats.workflow.plan import Specification, _NormalStandIn, _RankStandIn, make_plan
from privstats.workflow.plan_text import RELEASED
from tests.conftest import thinned
from tests.drawings import assert_readable
from tests.workflow.calls import DOMAIN, N, fitted, frame, planned

# ------------------------------------------------------------------ digests

CHANGES = {
    "formula": {"formula": "y ~ x + z"},
    "domain": {"domain": {**DOMAIN, "x": (-1, 1.0000001)}},
    "domain of a column that is not read": {"domain": {**DOMAIN, "g": ["b", "a"]}},
    "complete": {"domain": Domain(DOMAIN, complete=["x"])},
    "eps": {"eps": 1.5},
    "mu": {"eps": None, "mu": 1.0},
    "delta": {"delta": 1e-6},
    "mech": {"mech": "newton"},
    "noise": {"noise": "l2"},
    "neighbors": {"neighbors": "add_remove"},
    "inference": {"inference": "none"},
    "cov_type": {"cov_type": "nonrobust"},
    "subset": {"subset": "z > 1"},
    "weights": {"weights": "w"},
    "unit": {"unit": "id"},
    "rows_per_unit": {"unit": "id", "rows_per_unit": 2},
    "shares": {"shares": {"moments": 0.5}},
    "n": {"n": N + 1},
    "theta_bound": {"mech": "kng", "theta_bound": 1.5},
}


def test_the_digest_tells_every_argument_apart():
    digests = {"": planned().digest} | {name: planned(**change).digest for name, change in CHANGES.items()}
    assert len(set(digests.values())) == len(digests)


def test_levels_1_and_text_1_are_told_apart():
    one, other = (planned(formula="y ~ C(k)", domain={"y": (0, 1), "k": k}) for k in ([1, 2], ["1", "2"]))
    assert one.digest != other.digest


@pytest.mark.parametrize("change", [{}, {"mech": "auto"}, {"eps": None, "mu": 1.0}, {"delta": 1e-6}, {"unit": "id"}])
def test_a_plan_has_the_digest_of_the_fit(change):
    data = frame()
    n = data["id"].nunique() if "unit" in change else len(data)
    dry = fitted(data=data, dry_run=True, **change)
    assert planned(n=n, **change).digest == dry.digest


def test_a_ledger_a_seed_and_the_rows_themselves_have_no_part_in_it():
    dry = fitted(dry_run=True)
    assert fitted(data=frame(seed=9), dry_run=True, rng=3, ledger=ps.Ledger(PureDP(9.0))).digest == dry.digest


def test_the_same_seed_never_gives_two_calls_one_noise():
    data = frame().assign(x2=lambda d: d["x"])
    fits = [fitted("mean", data, formula=f, rng=1, domain={**DOMAIN, "x2": (-1, 1)}) for f in ("x", "x2")]
    assert fits[0].params.iloc[0] != fits[1].params.iloc[0]
    assert fitted("mean", data, formula="x", rng=1, domain={**DOMAIN, "x2": (-1, 1)}).params.equals(fits[0].params)


def test_the_same_seed_and_call_repeat_themselves():
    one, other = fitted(rng=7), fitted(rng=7)
    assert one.params.equals(other.params)
    assert not one.params.equals(fitted(rng=8).params)


def test_names_of_our_classes_are_no_part_of_a_digest():
    before = planned().digest
    kinds = (type(planned().choice.estimator), MatrixT, LinearModel, PureDP, Neighbors)
    names = [(kind.__name__, kind.__module__) for kind in kinds]
    try:
        for kind in kinds:
            kind.__name__, kind.__module__ = "Renamed", "elsewhere"
        assert planned().digest == before
    finally:
        for kind, (name, module) in zip(kinds, names, strict=True):
            kind.__name__, kind.__module__ = name, module


# ------------------------------------------------------------------ what is planned


def test_a_dry_run_charges_nothing_and_reads_no_cell():
    class Untouchable:
        def __getattr__(self, name):
            raise AssertionError("a cell was read")

    data = pd.DataFrame({"y": [Untouchable()] * 50, "x": [Untouchable()] * 50}, dtype=object)
    ledger = ps.Ledger(PureDP(1.0))
    assert fitted(data=data, dry_run=True, ledger=ledger).rows == 50
    assert not len(ledger.entries)


def test_a_dry_run_does_not_show_a_private_number_of_rows():
    plans = [fitted(data=frame(n), dry_run=True, neighbors="add_remove") for n in (60, 61)]
    assert plans[0].digest == plans[1].digest
    assert repr(plans[0]) == repr(plans[1])
    assert plans[0].rows is None
    with pytest.raises(OptionError, match="private"):
        plans[0].expected()


def test_an_assumed_number_of_rows_never_reaches_the_estimator():
    plan = planned(neighbors="add_remove", n=1000)
    assert (plan.public.offered, plan.public.used, plan.public.units) == (None, None, None)
    assert plan.rows == 1000
    assert plan.digest == planned(neighbors="add_remove", n=2000).digest


def test_under_units_the_number_of_units_is_public_and_that_of_rows_is_not():
    plan = planned(unit="id", n=100)
    assert (plan.public.offered, plan.public.units, plan.public.by_unit) == (None, 100, True)
    assert fitted(unit="id", dry_run=True).public.units == N // 2


def test_shares_of_a_plan_add_up_to_one_in_each_branch():
    for change in ({}, {"mech": "auto", "formula": "y ~ x + g"}, {"eps": None, "mu": 1.0, "mech": "auto"}):
        plan = planned(**change)
        optional = [bool(p.within_share_of) for p in plan.planned]
        for branch in plan.branches or (None,):
            own = [
                plan.division.fractions[p.label]
                for p, no in zip(plan.planned, optional, strict=True)
                if p.branch in (None, branch) and not no
            ]
            assert math.fsum(own) == pytest.approx(1.0)


def test_branches_are_charged_as_one_entry():
    plan = planned(mech="auto", eps=20.0)
    # eps = 20 allows two methods (branches); eps = 0.1 is too small for Newton steps, so that there is one method
    assert len(plan.branches) == 2 and not planned(mech="auto", eps=0.1).branches
    charged = dict(plan.charge)
    assert set(charged) == {p.label for p in plan.planned if p.branch is None and not p.within_share_of} | {
        " or ".join(plan.branches)
    }
    assert math.fsum(promise.eps for promise in charged.values()) == pytest.approx(20.0)


def test_a_fit_charges_its_ledger_what_the_plan_says():
    for change in ({}, {"mech": "auto"}, {"eps": None, "mu": 0.8}, {"delta": 1e-6}):
        plan = planned(**change)
        ledger = ps.Ledger(plan.guarantee)
        fit = fitted(ledger=ledger, **change)
        (entry,) = ledger.book.entries
        assert entry.parts == plan.charge
        left = ledger.remaining()
        assert getattr(left, "eps", getattr(left, "mu", 0.0)) < 1e-6
        assert {release.name for release in fit.releases} <= {p.label for p in plan.planned}


def test_a_ledger_that_cannot_pay_is_left_as_it_was():
    ledger = ps.Ledger(PureDP(0.5))
    with pytest.raises(BudgetError, match=r"eps = 0\.5 left and this fit costs eps = 1"):
        fitted(ledger=ledger)
    assert not len(ledger.entries)


@pytest.mark.parametrize(
    ("change", "kind"),
    [({}, PureDP), ({"eps": None, "mu": 1.0}, GaussianDP), ({"delta": 1e-6, "noise": "gaussian"}, GaussianDP)],
)
def test_the_promise_that_is_divided(change, kind):
    assert isinstance(planned(**change).accounted, kind)


def test_under_eps_and_delta_the_shorter_of_pure_and_normal_noise_is_taken_and_named():
    kinds = {}
    for delta in (1e-12, 1e-3):
        plan = ps.plan("mean", "y + x + z", 900, eps=1.0, delta=delta, domain=DOMAIN)
        kinds[delta] = type(plan.accounted)
        assert "times as long as with" in plan.choice.why
    assert kinds[1e-12] is PureDP
    assert kinds[1e-3] is GaussianDP


def test_noise_under_which_most_intervals_are_not_given_is_not_taken():
    """Under (eps, delta), a plan does not choose pure noise if with it most intervals are not expected to be given.

    Earlier, an interval that was not expected to be given counted as a narrow interval.
    """
    plan = ps.plan("glm", "b ~ x + z + g + w", 3000, eps=0.5, delta=1e-7, domain={**DOMAIN, "b": (0, 1)})
    assert isinstance(plan.accounted, GaussianDP)
    assert plan.choice.why.endswith("most intervals are not expected to be given with pure noise")


def test_a_method_with_a_delta_of_its_own_is_planned_in_eps_and_delta():
    plan = ps.plan("median", "y", 500, eps=1.0, delta=1e-6, mech="ptr", domain=DOMAIN)
    assert plan.accounted == ApproxDP(1.0, 1e-6)
    assert any(p.mechanism.needs_delta for p in plan.planned)


def test_a_method_without_normal_noise_is_planned_in_pure_eps():
    assert ps.plan("median", "y", 500, eps=1.0, delta=1e-6, domain=DOMAIN).accounted == PureDP(1.0)


# ------------------------------------------------------------------ rehearsals, with a toy estimator


# class names of the objects `ask` that passed queries of the toy estimator, if it went on after `ask.close()`
INFERRED = []


@dataclass(frozen=True)
class Mixed:
    """An invalid row function, whose result for a row depends on the other rows."""

    of: WeightedColumns

    def __call__(self, block):
        return self.of(block) - self.of(block).mean(axis=0)


@dataclass(frozen=True)
class Toy:
    """An estimator with common queries, followed by one of two methods for sums of the columns."""

    tweak: str = ""
    shares: dict = field(
        default_factory=lambda: {"scales": 0.2, "moments": 0.8, "score": 0.5, "meat": 0.5, "more": 0.2}
    )

    def __call__(self, ask, public):
        width = public.design.width
        of, within, by = WeightedColumns(np.eye(width)), Squares(width, counted=True), Laplace()
        if self.tweak == "line, mixing rows":
            of = Mixed(of)
        scales = Sum("scales", of, within=within)
        part = self.tweak == "line, other noise for a part" and ask.law(scales, by=by).scale.max() > 200
        first = ask(scales, by=Cube() if part else by)
        if self.tweak == "depends on the release" and first.value[0] > 300:
            ask(Sum("more", of, within=within), by=by)
        if self.tweak == "twice":
            ask(Sum("scales", of, within=within), by=by)
        if "optional" in self.tweak:
            wanted = ask.decide("more", first.value[0] > 300)
            if wanted:
                ask(Sum("more", of, within=within, within_share_of=("moments",)), by=by)
            elif self.tweak == "line, asked otherwise without an optional question":
                ask(Sum("meat", of, within=within), by=by)
        branch = "a"
        if not self.tweak.startswith("line"):
            branch = ask.choose("way", {"a": 1.0, "b": 2.0})
        name = "moments" if branch == "a" else "score"
        if self.tweak == "one label in two branches":
            name = "moments"
        ask(Sum(name, of, within=within), by=by)
        if branch == "b":
            ask(Sum("meat", of, within=within), by=by)
        if self.tweak == "line, closed":
            ask.close()
            INFERRED.append(type(ask).__name__)
        k = len(public.design.names)
        return NormalEstimate.of(public.design.names, np.zeros(k), np.eye(k))


class ToyModel(LinearModel):
    """The model of linear regression with the estimator `Toy`."""

    tweak = ""

    def estimator(self, mech, promise, options, design, neighbors, rows, intervals):
        return Choice(Toy(self.tweak), "toy")


def toy(tweak="", n=N, shares=None):
    kind = type("Tweaked", (ToyModel,), {"tweak": tweak})
    promise, neighbors = PureDP(1.0), Neighbors()
    spec = Specification(
        "lm", kind("y ~ x", DOMAIN), "toy", {}, promise, neighbors, shares, 0.1, True, {"formula": "y ~ x"}
    )
    return make_plan(spec, n)


def test_every_branch_is_planned():
    plan = toy()
    assert [(p.label, p.branch) for p in plan.planned] == [
        ("scales", None),
        ("moments", "a"),
        ("score", "b"),
        ("meat", "b"),
    ]
    assert {what: promise.eps for what, promise in plan.charge} == pytest.approx({"scales": 0.2, "a or b": 0.8})
    parts = {"scales": 0.2, "moments": 0.8, "score": 0.4, "meat": 0.4}
    assert {p.label: p.promise.eps for p in plan.planned} == pytest.approx(parts)


@pytest.mark.parametrize(
    ("tweak", "says"),
    [
        ("depends on the release", "depend on their own noise"),
        ("twice", "twice"),
        ("one label in two branches", "in two accountings, or in two branches"),
        ("line, asked otherwise without an optional question", "depend on an optional question"),
    ],
)
def test_an_estimator_whose_questions_depend_on_releases_is_refused(tweak, says):
    with pytest.raises(PrivacyError, match=says):
        toy(tweak, n=30_000)


def test_each_branch_is_rehearsed_once_a_turn_and_without_optional_questions_in_the_last_on_the_same_rows(monkeypatch):
    seen = []

    class Noted(plan_module.Quick):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            seen.append((options["few"], options["optional"], self._rows))

    monkeypatch.setattr(plan_module, "Quick", Noted)
    toy("line, optional")
    assert [one[:2] for one in seen] == [(True, True), (False, True), (False, False)]
    assert seen[0][2] is not seen[1][2] and seen[1][2] is seen[2][2]


def test_an_estimator_whose_questions_mix_rows_is_refused():
    with pytest.raises(PrivacyError, match="each row alone"):
        toy("line, mixing rows")


def test_questions_are_audited_where_there_is_a_plan_and_those_before_the_choice_answered_once_a_turn(monkeypatch):
    audited, answered = [], []
    seen, answer = rehearsal_module._seen, Conversation._answer
    monkeypatch.setattr(rehearsal_module, "_seen", lambda rows, of: audited.append(of.label) or seen(rows, of))

    def noted(self, pairs, promises, relations):
        answered.extend((question.label, promise.eps) for (question, _), promise in zip(pairs, promises, strict=True))
        return answer(self, pairs, promises, relations)

    monkeypatch.setattr(Conversation, "_answer", noted)
    parts = {p.label: p.promise.eps for p in toy().planned}
    assert audited == [label for label in parts for _ in ("whole", "parts")]
    assert answered == [*((label, Toy().shares[label]) for label in parts), *parts.items()]


def test_a_question_that_is_asked_otherwise_than_in_the_turn_before_is_audited_in_the_next(monkeypatch):
    audited, turns = [], []
    seen, once = rehearsal_module._seen, plan_module.rehearsed
    monkeypatch.setattr(rehearsal_module, "_seen", lambda rows, of: audited.append(of.label) or seen(rows, of))
    monkeypatch.setattr(plan_module, "rehearsed", lambda *args: turns.append(1) or once(*args))
    # the first trial run (rehearsal) assumes the default share
    plan = toy("line, other noise for a part", shares={"scales": 0.05})
    assert len(turns) == 3 and [p.mechanism for p in plan.planned] == [Cube(), Laplace()]
    assert audited == [p.label for p in plan.planned for _ in ("whole", "parts")]


def test_what_follows_the_last_question_is_rehearsed_once():
    INFERRED.clear()
    assert [p.label for p in toy("line, closed").planned] == ["scales", "moments"]
    assert INFERRED == ["Quick"]


def test_noise_of_rehearsals_is_as_large_as_that_of_fits():
    within, relation = Products(3), Neighbors().relation(False, False)
    exact, rng = Total(tuple(range(6)), within.step), public_stream(1)
    made = [
        _NormalStandIn(MatrixT()).release("moments", exact, PureDP(1.0), within, relation, rng) for _ in range(4000)
    ]
    law = MatrixT().law(PureDP(1.0), within, relation)
    errors = np.array([one.value for one in made]) - exact.value()
    assert (made[0].law.scale == law.scale).all()
    assert np.abs((errors**2).mean(axis=0) / law.variance() - 1).max() < 5 * (2 / 4000) ** 0.5
    assert np.abs(errors.mean(axis=0) / np.sqrt(law.variance())).max() < 5 / 4000**0.5


def test_ranks_of_rehearsals_are_as_far_from_the_wanted_ones_as_those_of_fits():
    within, relation, rng = Line(0.0, 1.0), Neighbors().relation(False, False), public_stream(1)
    values = InMemory(np.arange(1, 1000) / 1000)
    for by in (Rank((0.5,)), Rank((0.3, 0.6))):
        law = by.law(PureDP(0.2), within, relation)
        made = [_RankStandIn(by).release("rank", values, PureDP(0.2), within, relation, rng) for _ in range(2000)]
        errors = 1000 * (np.array([one.value for one in made]) - by.levels)
        assert made[0].law == law
        assert np.abs((errors**2).mean(axis=0) / law.variance() - 1).max() < 5 * (5 / 2000) ** 0.5
    nothing = _RankStandIn(Rank((0.5,))).release("rank", InMemory(np.zeros(0)), PureDP(1.0), within, relation, rng)
    assert nothing.value.tolist() in ([0.0], [1.0])


def test_without_a_choice_all_shares_are_relative():
    plan = toy("line")
    assert {p.label: p.promise.eps for p in plan.planned} == pytest.approx({"scales": 0.2, "moments": 0.8})
    assert [what for what, _ in plan.charge] == ["scales", "moments"]


# ------------------------------------------------------------------ forecasts


@thinned(2)
@pytest.mark.parametrize("price", [{}, {"eps": None, "mu": 0.5}])
def test_the_budget_and_the_rows_for_a_width_reach_it_and_no_more(price):
    name = "mu" if "mu" in price else "eps"
    plan = planned("mean", n=4000, formula="y ~ g", **price)
    enough = plan.budget_for(0.3)
    for budget, meets in ((enough, True), (0.99 * enough, False)):
        other = planned("mean", n=4000, formula="y ~ g", **{**price, name: budget})
        assert (other.expected()["width"] <= 0.3).all() == meets
    rows = plan.n_for(0.3, term="y[a]")
    for n, meets in ((rows, True), (int(0.99 * rows), False)):
        assert (planned("mean", n=n, formula="y ~ g", **price).expected().loc["y[a]", "width"] <= 0.3) == meets


def test_what_no_budget_and_no_number_of_rows_can_do_is_said():
    plan = planned("mean", n=1000, mech="laplace")
    with pytest.raises(BudgetError, match="less than that without privacy; take more rows"):
        plan.budget_for(0.001)
    with pytest.raises(OptionError, match=r"a width of 1e-14 would take more than 1e\+12 rows; choose a larger width"):
        plan.n_for(1e-14)
    with pytest.raises(OptionError, match="'y'"):
        plan.n_for(0.3, term="q")
    for bad in (0, -1, math.nan, math.inf, "1", True):
        with pytest.raises(OptionError, match="width is"):
            plan.n_for(bad)
    with pytest.raises(OptionError, match="budget_for"):
        planned(eps=None, mu=1.0).eps_for(0.3)


def test_rows_that_resemble_the_data_may_stand_for_them():
    plan = planned(n=20_000)
    narrow = frame(2000).assign(x=lambda d: d["x"] / 10)
    wide, like = plan.expected(residual=1.0), plan.expected(like=narrow, residual=1.0)
    assert like.loc["x", "width"] > 2 * wide.loc["x", "width"]
    with pytest.raises(FormulaError, match="no column"):
        plan.expected(like=narrow.drop(columns="x"))
    for bad in (-1.0, 0.0, math.nan, math.inf, "1"):
        with pytest.raises(OptionError, match="residual"):
            plan.expected(residual=bad)


def test_the_widths_to_expect_are_those_that_fits_then_have():
    def rows(seed):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-0.25, 0.25, 4000)
        return pd.DataFrame({"x": x, "y": 2.5 + x + rng.normal(0, 1.25, 4000)})

    for change in ({}, {"eps": None, "mu": 0.5}):
        widths = [np.diff(fitted(data=rows(seed), rng=seed, **change).conf_int().loc["x"])[0] for seed in range(7)]
        assert planned(n=4000, **change).expected().loc["x", "width"] == pytest.approx(np.median(widths), rel=0.15)


@pytest.mark.parametrize(("spread", "fits"), [(0.0, 9), (0.15, 9), (0.5, 21), (2.0, 45)])
def test_rows_that_are_given_have_more_forecasts_where_these_differ_much(spread, fits):
    """If the simulated widths of a forecast differ much, more fits are simulated.

    For skewed responses, simulated widths at tau = 0.9 differ by a factor of 5. The median of 9 widths was 4 times the
    median of 40 widths.
    """
    plan, rng, made = planned(), np.random.default_rng(1), []

    class Made:
        names, notes = ("x",), ()

        def coefficients(self, alpha):
            width = np.exp([spread * rng.standard_normal()])
            return np.zeros(1), width / 4, -width / 2, width / 2

        def noise_share(self):
            return np.zeros(1)

    def converse(ask, public):
        made.append(ask)
        return Made()

    given = plan.public, Neighbors(), plan.planned, N, frame(), None, Assumption(), forecast.FITS, forecast.MOST
    table = forecast.expected(converse, *given).table
    assert len(made) == fits
    assert abs(math.log(table.loc["x", "width"])) < 3 * max(spread, 1e-9) / math.sqrt(len(made))


@pytest.mark.parametrize(("wide", "ends"), [(1.4, (1.4, 1.4)), (1.6, (1.0, 1.6))])
def test_widths_for_rows_that_are_given_are_a_range_where_fits_turn_out_in_two_ways(monkeypatch, wide, ends):
    plan, fits = planned(), {fit: np.array([1.0 if fit < 4 else wide]) for fit in range(9)}
    table = pd.DataFrame({name: [wide] for name in ("std_error", "width", "noise_share", "ratio", "given")}, ["x"])
    monkeypatch.setattr(forecast, "expected", lambda *args: forecast.Expected(table, fits))
    given = plan.expected(like=frame())
    assert tuple(given.loc["x", ["width_low", "width_high"]]) == ends
    assert given.loc["x", "width"] == wide


@thinned(2)
@pytest.mark.parametrize("mech", ["suffstats", "newton", "kng", "objpert"])
def test_every_method_has_widths_to_expect_and_they_fall_with_the_number_of_rows(mech):
    widths = [planned(n=n, mech=mech, eps=4.0).expected().loc["x", "width"] for n in (3000, 30_000)]
    assert widths[1] < 0.7 * widths[0]


def test_what_to_expect_without_bounds_is_refused():
    plan = planned(n=20_000, domain={"x": (-1, 1)}, eps=4.0)
    assert plan.estimated == ("y",)
    with pytest.raises(DomainError, match="'y'"):
        plan.expected()
    assert "bounds" in repr(plan)


# ------------------------------------------------------------------ text


@thinned(3)
@pytest.mark.parametrize(
    "change",
    [{}, {"mech": "auto", "formula": "y ~ x + g"}, {"eps": None, "mu": 1.0, "mech": "auto"}, {"unit": "id"},
     {"neighbors": "add_remove"}, {"subset": "z > 1", "weights": "w"}, {"inference": "none"},
     {"domain": {"x": (-1, 1)}, "eps": 80.0}],
)  # fmt: skip
def test_a_plan_prints_its_questions_and_is_80_columns_wide(change):
    text = repr(planned(**change))
    assert text.startswith("Plan of dp_lm: ")
    assert "No row was read and no budget was spent." in text
    assert max(map(len, text.splitlines())) <= 80
    assert "nan" not in text.lower().replace("finance", "")


@pytest.mark.parametrize("budget", [{"eps": 4.0}, {"mu": 1.0}])
@pytest.mark.parametrize("formula", ["y ~ x", "y ~ x + z + C(g)", "y ~ x + z + v + C(g)"])
def test_the_shares_that_a_plan_prints_add_up_to_100_in_each_branch(budget, formula):
    """The printed shares of queries add up to 100% in each branch (method that the fit may choose).

    Earlier, shares of the second branch added up to 99%, since the shares of common queries were rounded for the first
    branch only.
    """
    domain = {"y": (0, 5), "x": (0, 5), "z": (0, 60), "v": (0, 8), "g": [0, 1]}
    text = repr(ps.plan("lm", formula, 20_190, domain=domain, **budget)).partition("what is released (")[2]
    lines = [line.partition("%  ") for line in text.splitlines()[1:] if "%  " in line]
    shares = [(int(before.split()[-1]), after[:2]) for before, _, after in lines]
    for mark in (text[0], text[3]):
        assert sum(share for share, own in shares if own == f"{mark} " or own[1] != " ") == 100


def test_a_plan_shows_its_public_face_only():
    numbers = ["accepted", "digest", "guarantee", "questions"]
    methods = ["accept", "budget_for", "compare", "eps_for", "expected", "n_for", "plot", "run", "save", "to_json"]
    assert dir(planned()) == sorted(numbers + methods)


def printed_names(plan):
    """Return the names of the queries that a printed plan lists."""
    lines = repr(plan).partition("what is released")[2].splitlines()[1:]
    return [line[: line.index("%")].rsplit(maxsplit=1)[0] for line in lines if "%  " in line]


@pytest.mark.parametrize(
    "call",
    [
        {},
        {"mech": "newton"},
        {"verb": "rq", "mech": "kng", "tau": [0.1, 0.5]},
        {"formula": " + ".join(["y ~ x", *(f"I(x**{k})" for k in range(2, 30))]), "n": 20_000},
    ],
)
def test_a_plan_is_drawn_with_its_questions_in_the_order_of_asking(call):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    plan = ps.plan(**{"verb": "lm", "formula": "y ~ x", "n": N, "eps": 1.0, "domain": DOMAIN, **call})
    ax = plan.plot()
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert [name.removesuffix(" (optional)") for name in labels] == printed_names(plan)
    assert any("(optional)" in name for name in labels) == plan.questions["part_of"].ne("").any()
    assert ax.get_ylim()[0] > ax.get_ylim()[1]
    assert ax.get_title().startswith(f"Plan of dp_{plan.specification.verb}: y ~ x")
    assert ax.get_title().endswith("\nshares of the budget: eps = 1") and len(labels) < 18
    assert ax.get_xlabel() == "% of eps"
    assert_readable(ax.figure)
    pyplot.close(ax.figure)


def test_the_title_of_a_plan_is_as_wide_as_long_names_of_questions_leave_room():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    domain = {"mdvis": (0, 100), "lncoins": (0, 5), "disea": (0, 60), "hlthf": [0, 1]}
    ax = ps.plan("lm", "np.log1p(mdvis) ~ lncoins + disea + C(hlthf)", 20_190, 1, domain=domain).plot()
    assert_readable(ax.figure)
    pyplot.close(ax.figure)


def test_branches_of_a_plan_are_told_apart_without_colour():
    figure = pytest.importorskip("matplotlib.figure").Figure(figsize=(7, 8), layout="constrained")
    plan = planned(mech="auto", n=20_000, formula=f"y ~ {' + '.join(f'I(x**{k})' for k in range(1, 15))}")
    ax = plan.plot(figure.subplots())
    legend = ax.get_legend()
    assert len(plan.branches) == 2
    assert ax.get_title().count("\n") == 2 and " ...\nshares of" in ax.get_title()
    assert [text.get_text() for text in legend.get_texts()] == [
        "in any case",
        *(f"if the fit chooses {name}" for name in ("suffstats", "newton")),
    ]
    assert len({bar.get_hatch() for bar in legend.get_patches()}) == 3
    common, *others = (sum(bar.get_width() for bar in drawn) for drawn in ax.containers)
    assert common > 0 and common + np.array(others) == pytest.approx([100.0] * 2)
    assert_readable(figure)


def test_drawn_shares_add_up_to_the_budget_of_each_branch():
    """In a drawn plan, the bars of common queries and of the queries of one branch (method) add up to 100%.

    Earlier, an optional query was drawn as a bar of its own, and also as a part of the bar of the query whose share it
    uses.
    """
    figure = pytest.importorskip("matplotlib.figure").Figure(figsize=(7, 8), layout="constrained")
    plan = planned(mech="auto", n=4000, eps=1.0)
    assert (plan.questions["part_of"] != "").any()
    common, *others = (sum(bar.get_width() for bar in drawn) for drawn in plan.plot(figure.subplots()).containers)
    assert len(others) == 2 and common + np.array(others) == pytest.approx([100.0] * 2)


def test_equal_calls_are_planned_once_whatever_the_rows_and_the_seed(monkeypatch):
    turns = []
    once = plan_module.rehearsed
    monkeypatch.setattr(plan_module, "rehearsed", lambda *args: turns.append(1) or once(*args))
    first = fitted(rng=1)
    made = len(turns)
    again, other = fitted(rng=1), fitted(rng=2)
    assert len(turns) == made > 0
    assert first.params.tolist() == again.params.tolist() != other.params.tolist()
    plan_module.forget()
    assert fitted(rng=1).params.tolist() == first.params.tolist()
    assert len(turns) == 2 * made


def test_a_remembered_plan_is_that_of_its_own_call():
    names = ("eps", "mu", "mech", "weights", "unit", "shares", "n", "inference", "neighbors")
    warm = {name: planned(**CHANGES[name]) for name in names}
    for name, plan in warm.items():
        plan_module.forget()
        fresh = planned(**CHANGES[name])
        assert fresh.digest == plan.digest
        pd.testing.assert_frame_equal(fresh.questions, plan.questions)
        again = planned(**CHANGES[name])
        assert again.digest == plan.digest and again.choice is fresh.choice


def test_what_the_user_changes_after_a_call_is_another_call():
    shares = {"moments": 0.5}
    before = fitted(dry_run=True, shares=shares).digest
    shares["moments"] = 2.0
    assert fitted(dry_run=True, shares=shares).digest != before


def test_a_plan_says_of_each_question_of_each_estimator_what_is_released():
    """All names of queries have a printed explanation. Earlier, "whitened squares" was printed without one."""
    modules = [import_module(f"privstats.estimators.{each.name}") for each in iter_modules(estimators.__path__)]
    tables = [vars(module)["SHARES"] for module in modules if "SHARES" in vars(module)]
    parts = [part for table in tables for part in (table.values() if "pure" in table else [table])]
    asked = {name for part in parts for name in part}
    assert {"scales", "score", "coefficients", "whitened squares", "density"} <= asked
    assert asked <= set(RELEASED)


def test_what_is_no_sum_is_drawn_once_for_all_fits_of_a_forecast(monkeypatch):
    drawn, once = [], Rank.drawing
    monkeypatch.setattr(Rank, "drawing", lambda self, *args: drawn.append(self) or once(self, *args))
    plan_module.forget()
    plan = planned("quantile", n=2000, formula="x", q=[0.25, 0.75])
    drawn.clear()
    plan.expected()
    assert len(drawn) == 1
    plan.expected()
    assert len(drawn) == 1


def test_a_forecast_by_which_a_plan_was_chosen_is_not_made_again(monkeypatch):
    made, once = [], forecast.expected
    monkeypatch.setattr(forecast, "expected", lambda *args: made.append(args) or once(*args))
    plan_module.forget()
    plan = planned("mean", n=2000, formula="x", delta=1e-6)
    assert len(made) == 2
    plan.expected()
    assert len(made) == 2


def test_a_forecast_of_many_rows_draws_coefficients_from_few_for_as_much_more_of_the_budget(monkeypatch):
    given, once = {}, KNGQuantile.release

    def release(self, name, exact, promise, *others):
        given[len(exact.all())] = promise
        return once(self, name, exact, promise, *others)

    monkeypatch.setattr(KNGQuantile, "release", release)
    plan = planned("rq", n=8 * forecast.ROWS, formula="y ~ x", mech="kng", eps=4.0)
    (whole,) = (one.promise for one in plan.planned if one.label == "coefficients")
    given.clear()
    few = plan.expected()
    monkeypatch.setattr(forecast, "MOST_GIVEN", 10 * forecast.ROWS)
    every = plan._forecast(None, None, plan._assumed).table
    assert list(given) == [4 * forecast.ROWS, 8 * forecast.ROWS]
    assert [promise.eps for promise in given.values()] == pytest.approx([2 * whole.eps, whole.eps])
    assert few["width"].to_numpy() == pytest.approx(every["width"].to_numpy(), rel=0.05)


def test_a_forecast_has_as_many_values_as_the_plan_has_rows(monkeypatch):
    seen, once = [], Rank.drawing
    monkeypatch.setattr(Rank, "drawing", lambda self, values, *args: seen.append(values.n) or once(self, values, *args))
    for n in (3000, 6000, 9999):
        planned("quantile", n=n, formula="x", q=[0.25, 0.75]).expected()
        assert seen.pop() == n


@pytest.mark.parametrize("many", [1, 4, 7, 30, 31])
def test_repeated_rows_are_copies_of_the_rows_and_each_copy_is_computed_once(many):
    vectors, done = np.arange(14.0).reshape(7, 2), []

    class Rows(forecast._Repeated):
        _once, _dim = vectors, 2

    rows = Rows.__new__(Rows)
    rows._rows, rows._many = SimpleNamespace(source=SimpleNamespace(n=7)), many
    copies = np.resize(vectors, (many, 2)) if many >= 7 else vectors[[7 * k // many for k in range(many)]]
    assert np.array_equal(rows.all(), copies)
    assert sum(rows.scan(lambda part: done.append(len(part)) or part.sum())) == copies.sum()
    assert len(done) == (many >= 7) + (many % 7 > 0)


def test_a_search_leaves_the_intercepts_of_all_quantiles_out():
    assert list(plan_module._of_terms(None, ["Intercept[0.25]", "Intercept[0.5]", "x[0.25]", "x[0.5]"])) == [0, 0, 1, 1]
    assert list(plan_module._of_terms(None, ["Intercept[0.25]", "Intercept[0.5]"])) == [1, 1]


@pytest.mark.parametrize(("verb", "formula"), [("median", "x"), ("rq", "y ~ x")])
def test_a_search_for_very_narrow_intervals_of_quantiles_simulates_no_more_than_its_most_rows(
    monkeypatch, verb, formula
):
    sizes, once = [], forecast.expected
    monkeypatch.setattr(
        forecast,
        "expected",
        lambda converse, public, near, planned, n, *more: (
            sizes.append(n) or once(converse, public, near, planned, n, *more)
        ),
    )
    monkeypatch.setattr(plan_module, "MOST_QUANTILE_ROWS", 100_000)
    plan_module.forget()
    plan = planned(verb, n=5000, formula=formula, eps=1.0)
    width = float(plan.expected()["width"].iloc[-1])
    rows = plan.n_for(width / 100)
    assert max(sizes) <= 100_000 and 1e7 < rows < 8e7


@pytest.mark.parametrize(("n", "level", "rate", "digits"), [(5, 0.5, 0.02, 3), (60, 0.1, 0.5, 1), (60, 0.9, 3.0, 9)])
def test_the_mean_of_a_rank_is_that_of_its_draws(n, level, rate, digits):
    values = np.random.default_rng(n).uniform(-1, 1, n).round(digits)
    ranked = Ranked(InMemory(values), RankGrid(-1, 1, 2.0**-30))
    draws = draw_rank(ranked, level, rate)(public_stream(1), 40_000)
    error = draws.std() / math.sqrt(len(draws))
    assert abs(forecast.mean_of_rank(ranked, level, rate)[0] - draws.mean()) < 4 * error


WIDTHS = {"x": (0, 10), "y": (-10, 20), "g": ["a", "b", "c"]}


@thinned(5)
@pytest.mark.parametrize("formula", ["y ~ x", "y ~ x + C(g)", "y ~ x * C(g)", "y ~ x + I(x**2)"])
@pytest.mark.parametrize("budget", [{"eps": 1.0}, {"mu": 1.0}, {"eps": 1.0, "delta": 1e-6}])
def test_a_printed_plan_fits_80_columns(formula, budget):
    """Lines of a printed plan have at most 80 columns; earlier, the heading of the table of queries had 82 columns."""
    text = str(ps.plan("lm", formula, n=5000, domain=WIDTHS, **budget))
    assert max(map(len, text.splitlines())) <= 80


def test_a_comparison_names_an_argument_that_it_does_not_have():
    """The error about a wrong argument of `compare` names the argument and says how budgets are given.

    Earlier, a bare TypeError named another method.
    """
    plan = ps.plan("lm", "y ~ x", n=5000, eps=1.0, domain=WIDTHS)
    with pytest.raises(OptionError, match="unexpected keyword argument 'delta'; give budgets as eps="):
        plan.compare(eps=[1.0], delta=1e-6)


def test_a_method_that_gives_nothing_is_at_least_a_hundred_times_as_long():
    """If a method is not expected to give intervals, the summary says that its relative length is at least 100.

    Earlier, the header of a fit printed: suffstats: 1e+100.
    """
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"x": rng.normal(size=3000), "y": rng.normal(size=3000)})
    fit = ps.dp_lm("y ~ x", data, eps=1.0, domain={"x": (-80, 80), "y": (-4, 4)}, rng=1)
    assert "(suffstats: at least 100)" in " ".join(str(fit.summary()).split())


def test_no_method_is_said_to_be_shorter_than_without_privacy():
    """The printed expected length, relative to the length without privacy, is at least 1; earlier, it was 0.95 here."""
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.uniform(size=20_000), "y": rng.uniform(size=20_000)})
    fit = ps.dp_lm("y ~ x", data, eps=1.0, domain={"x": (0, 1), "y": (0, 1)}, rng=1)
    assert "expected length 1 times that" in " ".join(str(fit.summary()).split())


@pytest.mark.parametrize(
    ("verb", "formula", "more", "why"),
    [
        ("mode", "g", {}, "No intervals: none is known to be valid for a mode"),
        ("median", "x + z", {"geometric": True}, "No intervals: none is released for a geometric median"),
    ],
)
def test_a_plan_without_intervals_says_why_and_is_not_searched(verb, formula, more, why):
    made = ps.plan(verb, formula, n=1000, eps=1, domain={"g": ["a", "b"], "x": (0, 1), "z": (0, 1)}, **more)
    assert why in " ".join(str(made).split())
    assert "nothing is given" not in str(made)
    for search in (made.budget_for, made.n_for):
        with pytest.raises(OptionError, match=f"no budget and no number of rows gives this width. {why}"):
            search(0.1)


@pytest.mark.parametrize(
    ("verb", "formula", "n", "more"),
    [
        ("mean", "x ~ g", 0, {}),  # data without rows
        ("glm", "b ~ 0 + x:g", 1000, {}),  # slopes for each level, and no constant
        ("glm", "k ~ 0 + x:g", 1000, {"family": "poisson"}),
        ("hist", "t", 1000, {"bins": [-1e10, 1e10]}),  # bin edges beyond the years of the calendar
    ],
)
def test_plans_at_the_edges_are_made(verb, formula, n, more):
    domain = {"x": (-1, 1), "g": ["a", "b", "c"], "b": bool, "k": (0, 9), "t": ("2020-01-01", "2021-01-01")}
    for budget in ({"eps": 1}, {"mu": 1}):
        assert "No row was read" in str(ps.plan(verb, formula, n=n, domain=domain, **budget, **more))
