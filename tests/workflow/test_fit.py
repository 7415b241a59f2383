"""Fits charge a ledger before they read rows, and all sources of the same rows give the same results.

Other tests are of units of privacy, kinds of guarantee, and bounds that are estimated from the rows.
"""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.errors import BudgetError, DomainError, FormulaError, OptionError, PrivacyError, PrivstatsWarning
from privstats.gate.rows import BlockRows
from privstats.gate.sources import Frame
from privstats.privacy.promise import ApproxDP, GaussianDP, Neighbors, PureDP
from tests.workflow.calls import DOMAIN, LM, N, fitted, frame

# ------------------------------------------------------------------ charged first


class Spy:
    """A source of rows that records the spending of a ledger at the start of each pass over the rows."""

    in_memory = False

    def __init__(self, data, ledger):
        self.data, self.ledger, self.spent = data, ledger, []

    @property
    def n(self):
        return len(self.data)

    @property
    def columns(self):
        return tuple(self.data.columns)

    def batches(self):
        self.spent.append(len(self.ledger.entries))
        yield self.data


def test_a_ledger_is_charged_before_a_row_is_read(monkeypatch):
    ledger, seen = ps.Ledger(PureDP(1.0)), []

    def blocks(self):
        if isinstance(self.source, Frame) and len(self.source.frame) == N:
            seen.append(ledger.spent().eps)
            raise OSError("918273")
        yield from works(self)

    works = BlockRows.blocks
    monkeypatch.setattr(BlockRows, "blocks", blocks)
    with pytest.raises(PrivacyError, match="could not be computed") as caught:
        fitted(ledger=ledger)
    assert seen
    assert seen[0] == pytest.approx(1.0)
    assert "918273" not in str(caught.value)
    assert ledger.spent().eps == pytest.approx(1.0)  # the charge of a fit that was begun remains


def test_before_the_charge_a_source_is_looked_at_for_its_columns_only():
    ledger = ps.Ledger(PureDP(1.0))
    spy = Spy(frame(), ledger)
    ps.dp_lm(data=spy, ledger=ledger, **LM)
    assert spy.spent[0] == 0  # the first access reads only names and types of columns
    assert set(spy.spent[1:]) == {1}


def test_a_fit_that_is_refused_has_charged_nothing():
    ledger = ps.Ledger(PureDP(9.0))
    cases = [
        ({"data": frame().drop(columns="x")}, FormulaError),
        ({"shares": {"none": 1.0}}, OptionError),
        ({"eps": 10.0}, BudgetError),
        ({"rng": "seed"}, PrivacyError),
        ({"unit": "nobody"}, FormulaError),
    ]
    for change, error in cases:
        with pytest.raises(error):
            fitted(**{"ledger": ledger, **change})
        assert not len(ledger.entries)


def test_text_is_never_estimated_as_a_range():
    data = pd.DataFrame({"x": np.linspace(-1, 1, 4000), "y": "text"})
    ledger = ps.Ledger(PureDP(99.0))
    with pytest.raises(DomainError, match="column 'y' is not numeric and is not declared; write domain="):
        fitted(data=data, domain={"x": (-1, 1)}, eps=50.0, ledger=ledger)
    assert not len(ledger.entries)


# ------------------------------------------------------------------ ledgers


def test_fits_of_several_kinds_share_a_ledger_of_eps_and_delta():
    ledger = ps.Ledger(ApproxDP(3.0, 1e-5))
    fitted("mean", ledger=ledger)
    fitted("mean", ledger=ledger, eps=None, mu=0.3)
    fitted("median", formula="y", eps=0.5, delta=1e-6, mech="ptr", ledger=ledger)
    assert len(ledger.entries) == 3
    assert 1.0 < ledger.spent().eps < 3.0
    with pytest.raises(BudgetError, match="left and this fit costs"):
        fitted("mean", ledger=ledger, eps=2.9)


def test_a_ledger_of_pure_eps_refuses_a_fit_in_mu_with_the_cure():
    with pytest.raises(BudgetError, match=r"counts pure eps and this fit costs mu = .*ps.GaussianDP\(1\)"):
        fitted("mean", ledger=ps.Ledger(PureDP(3.0)), eps=None, mu=1.0)


def test_a_ledger_of_replaced_rows_counts_an_add_or_remove_fit_twice():
    ledger = ps.Ledger(PureDP(2.0))
    fitted("mean", ledger=ledger, neighbors="add_remove", eps=0.6)
    assert ledger.spent().eps == pytest.approx(1.2)
    with pytest.raises(BudgetError, match="add_remove"):
        fitted("mean", ledger=ps.Ledger(PureDP(2.0, "add_remove")), eps=0.6)


def test_a_ledger_of_persons_refuses_a_fit_of_rows():
    with pytest.raises(BudgetError, match="id"):
        fitted("mean", ledger=ps.Ledger(PureDP(2.0, Neighbors("replace", "id"))))


@pytest.mark.parametrize("promise", [{"eps": 1.0, "mu": None}, {"eps": None, "mu": 1.0}])
def test_a_fit_that_the_ledger_cannot_afford_reads_nothing_not_even_columns(promise):
    def read():
        raise AssertionError("read")

    budget = PureDP(0.5) if promise["eps"] else GaussianDP(0.5)
    ledger = ps.Ledger(budget)
    with pytest.raises(BudgetError, match="left and this fit costs"):
        fitted(data=read, ledger=ledger, **promise)
    assert not len(ledger.entries)


def test_the_data_are_asked_for_once_before_the_charge_and_once_a_pass():
    asked, data = [], frame()

    def read():
        asked.append(0)
        for start in range(0, N, 50):
            yield data.iloc[start : start + 50]

    fitted(data=read)
    assert len(asked) == 3  # calls: for the columns and the number of rows; for the moments; for the score variance


@pytest.mark.parametrize("when", ["called", "first", "second"])
@pytest.mark.parametrize("kind", [ValueError, OptionError])
def test_a_reader_that_fails_before_the_charge_tells_nothing_and_costs_nothing(when, kind):
    def read():
        if when == "called":
            raise kind("could not convert 'secret' to float")

        def frames():
            if when == "second":
                yield frame()
            warnings.warn("secret", stacklevel=1)
            raise kind("could not convert 'secret' to float")

        return frames()

    ledger = ps.Ledger(PureDP(1.0))
    with (
        warnings.catch_warnings(record=True) as told,
        pytest.raises(PrivacyError, match="could not be read") as failure,
    ):
        fitted(data=read, ledger=ledger, eps=1.0, mu=None)
    error = failure.value
    assert not told and error.__context__ is None and error.__cause__ is None and "secret" not in str(error)
    assert not len(ledger.entries)


def test_the_entry_names_verb_method_and_formula():
    ledger = ps.Ledger(PureDP(1.0))
    fitted(ledger=ledger)
    assert ledger.entries.loc[1, ["call", "method"]].tolist() == ["dp_lm y ~ x", "suffstats"]


# ------------------------------------------------------------------ sources, and which rows count


def batches(data, size):
    return lambda: (data.iloc[start : start + size] for start in range(0, len(data), size))


def test_a_function_that_gives_no_frame_has_no_rows_and_pays_as_its_neighbour_does():
    """If data without batches caused an error, the error would reveal at no cost that the only row was removed."""
    spent = []
    for rows in (1, 0):
        ledger = ps.Ledger(ps.PureDP(1, "add_remove"))
        fitted(data=batches(frame().iloc[:rows], 7), eps=1, mu=None, neighbors="add_remove", ledger=ledger)
        spent.append(ledger.spent())
    assert spent[0] == spent[1] == ps.PureDP(1, "add_remove")


@pytest.mark.parametrize("change", [{}, {"mech": "newton"}, {"unit": "id"}, {"subset": "z > 1", "weights": "w"}])
@pytest.mark.parametrize("size", [7, 150])
def test_frames_in_pieces_release_the_same_bits(change, size):
    data = frame()
    whole, pieces = (fitted(data=source, rng=1, **change) for source in (data, batches(data, size)))
    assert whole.params.equals(pieces.params)
    assert [release.value.tolist() for release in whole.releases] == [r.value.tolist() for r in pieces.releases]


def test_rows_of_one_person_count_as_rows_per_unit_says():
    data = frame()
    fits = [fitted("hist", data, formula="x", bins=[-1, 1], eps=1e4, unit="id", rows_per_unit=k) for k in (1, 2)]
    assert [round(float(fit.params.iloc[0])) for fit in fits] == [N // 2, N]


def test_the_number_of_units_is_public_however_their_names_are_written():
    data = frame()
    text = data.assign(id=data["id"].map("p{}".format))
    mixed = data.assign(id=pd.Series([None if k % 7 == 0 else k for k in data["id"]], dtype=object))
    dry = [fitted(data=one, unit="id", dry_run=True).public.units for one in (data, text, mixed)]
    assert dry[:2] == [N // 2, N // 2]
    assert dry[2] == mixed["id"].nunique()


def test_a_complete_column_has_a_public_number_of_rows_and_any_other_a_released_one():
    domain = ps.Domain(DOMAIN, complete=["y"])
    complete, plain = fitted("mean", domain=domain), fitted("mean")
    assert complete.facts.complete
    assert not plain.facts.complete
    assert plain.facts.used is not None


# ------------------------------------------------------------------ public facts in a result


def test_a_result_knows_its_guarantee_method_budget_and_seed():
    fit = fitted(rng=3, mech="auto", formula="y ~ x + g", eps=20.0)
    facts = fit.facts
    assert facts.promise == PureDP(20.0)
    assert facts.mech in ("suffstats", "newton")
    assert "chosen by auto: expected length" in facts.why
    assert sum(share for _, share in facts.budget) == pytest.approx(1.0)
    assert facts.seeded == 3
    assert fitted().facts.seeded is None
    assert fitted(delta=1e-6, noise="gaussian").facts.accounted is not None


def test_under_eps_and_delta_the_guarantee_is_the_one_that_was_asked_for():
    fit = fitted(delta=1e-6)
    assert fit.guarantee == ApproxDP(1.0, 1e-6)
    assert isinstance(fitted(eps=None, mu=1.0).guarantee, GaussianDP)


def test_a_declaration_that_fits_nothing_is_warned_of_before_the_charge_at_the_line_of_the_call():
    ledger = ps.Ledger(PureDP(9.0))
    with pytest.warns(PrivstatsWarning, match="the domain declares 'zz', which is no column .*; continuing$") as told:
        fitted(domain={**DOMAIN, "zz": (0, 1)}, ledger=ledger)
    assert [Path(one.filename).name for one in told] == ["calls.py"]
    # if warnings are turned into errors, this warning is raised unchanged, and nothing is charged
    with warnings.catch_warnings(), pytest.raises(PrivstatsWarning, match="'zz'"):
        warnings.simplefilter("error")
        fitted(domain={**DOMAIN, "zz": (0, 1)}, ledger=ledger)
    assert len(ledger.entries) == 1
    assert "zz" not in str(fitted().summary())


# ------------------------------------------------------------------ estimated bounds


def rows_without_bounds(n=40_000):
    rng = np.random.default_rng(1)
    x = rng.normal(1e5, 20, n)
    return pd.DataFrame({"x": x, "y": 3 + 0.01 * (x - 1e5) + 0.1 * rng.standard_normal(n), "g": "text"})


def test_bounds_are_estimated_inside_the_same_charge():
    ledger = ps.Ledger(PureDP(1.0))
    fit = ps.dp_lm("y ~ x", rows_without_bounds(), 1.0, domain={"y": (0, 6)}, ledger=ledger, bounds_share=0.2, rng=1)
    assert ledger.spent().eps == pytest.approx(1.0)
    spent = [release.keeps.as_pure().eps for release in fit.releases if release.name.startswith("bounds")]
    assert sum(spent) == pytest.approx(0.2)
    ((name, low, high),) = fit.facts.estimated_bounds
    assert name == "x"
    assert 9.9e4 < low < 1e5 - 40 < 1e5 + 40 < high < 1.01e5
    assert fit.params["x"] == pytest.approx(0.01, abs=5 * fit.bse["x"])


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"eps": 0.1}, DomainError, r"would need eps = 7.5 at 4,000 rows"),
        ({"neighbors": "add_remove"}, DomainError, "number of rows is private"),
        ({"bounds_share": 1.0}, BudgetError, "bounds_share"),
        ({"bounds_share": 2, "domain": {"y": (0, 6), "x": (0, 1)}}, BudgetError, "bounds_share is 2; give a number"),
        ({"formula": "y ~ C(g)"}, DomainError, "'g'"),
    ],
)
def test_bounds_that_cannot_be_estimated_are_refused_from_public_facts(change, error, says):
    ledger = ps.Ledger(PureDP(50.0))
    call = {"formula": "y ~ x", "eps": 20.0, "domain": {"y": (0, 6)}, "ledger": ledger}
    with pytest.raises(error, match=says):
        ps.dp_lm(data=rows_without_bounds(4000), **{**call, **change})
    assert not len(ledger.entries)


@pytest.mark.parametrize("column", [np.nan, np.inf, 0.0, -1e308])
def test_a_column_that_shows_no_range_still_gives_a_result(column):
    data = pd.DataFrame({"x": np.full(8000, column), "y": np.linspace(0, 1, 8000)})
    fit = ps.dp_lm("y ~ x", data, 5.0, domain={"y": (0, 1)}, mech="suffstats", rng=1)
    assert list(fit.params.index) == ["Intercept", "x"]


@pytest.mark.parametrize("formula", ["y ~ np.exp(x)", "y ~ I(x ** 2)", "y ~ x * z", "np.sqrt(x) ~ y"])
def test_a_release_however_far_off_makes_no_fit_fail_that_was_charged(formula):
    n = 8000
    data = pd.DataFrame({"x": np.full(n, np.nan), "z": np.full(n, np.nan), "y": np.linspace(0, 1, n)})
    for seed in range(6):  # if all values are missing, the rank mechanism draws any number in the range
        fit = ps.dp_lm(formula, data, 8.0, domain={"y": (0, 1)}, bounds_share=0.5, mech="suffstats", rng=seed)
        assert len(fit.params) >= 2


def test_bins_of_a_column_without_bounds_are_named_by_the_estimated_ones():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.normal(1000, 1, 20_000)})
    fit = ps.dp_hist("x", data, 4.0, bins=3, rng=1)
    first = fit.params.index[0][1]
    assert first.startswith("[99")
    assert fit.params.sum() == pytest.approx(20_000, rel=0.01)


def test_edges_of_bins_are_bounds_of_a_column_that_has_none():
    data = pd.DataFrame({"x": np.linspace(0, 4, 1000)})
    plan = ps.dp_hist("x", data, 1.0, bins=[0, 1, 4], dry_run=True)
    assert plan.estimated == ()


@pytest.mark.parametrize(
    ("budget", "call"),
    [
        (PureDP(1.0), {"unit": "code"}),
        (PureDP(1.0, Neighbors("add_remove")), {}),
        (PureDP(1.0, Neighbors("replace", "person")), {}),
    ],
    ids=["values of a column as units", "private number of rows", "rows of persons"],
)
def test_no_public_number_under_neighbours_of_the_ledger_is_counted_before_the_ledger_refuses(budget, call):
    """Earlier, a dry run and errors of saved plans stated the number of rows or units, though it was private.

    The number of distinct values of any column was printed if the call named the column as `unit`.
    """
    shown = []
    for other in (0.0, 1.0):
        rows = pd.DataFrame(
            {
                "y": np.linspace(0, 1, 1000),
                "x": np.linspace(0, 1, 1000) ** 2,
                "code": 0.0,
                "person": np.arange(1000) // 2,
            }
        )
        rows.loc[7, "code"] = other
        rows = rows if budget.neighbors.exchange else rows.iloc[: 1000 - int(other)]
        domain = {"y": (0, 1)}
        kept, ledger = ps.protect(rows, domain=domain, budget=budget), ps.Ledger(budget)
        plan = ps.plan("mean", "y", 2, eps=0.1, domain=domain, **call)
        others = pd.DataFrame({"y": rows["y"], "x": rows["x"], "code": range(len(rows)), "person": rows["person"]})
        fit = ps.dp_lm("y ~ x", others, eps=1e4, domain={**domain, "x": (0, 1)}, mech="suffstats", rng=1, **call)
        for ask in (
            lambda kept=kept: ps.dp_mean("y", kept, eps=0.1, dry_run=True, **call),
            lambda kept=kept: ps.dp_mean("y", kept, eps=0.1, **call),
            lambda plan=plan, kept=kept: plan.run(kept),
            lambda plan=plan, rows=rows, ledger=ledger: plan.run(rows, ledger=ledger),
            lambda plan=plan, rows=rows, ledger=ledger: ps.Study([plan]).run(rows, ledger=ledger),
            lambda fit=fit, rows=rows, ledger=ledger: ps.dp_diagnostics(fit, rows, eps=0.1, ledger=ledger),
        ):
            with pytest.raises(BudgetError) as refused:
                ask()
            shown.append(str(refused.value))
        assert kept.ledger.spent().eps == ledger.spent().eps == 0
    assert shown[:6] == shown[6:] and not any("1000" in text or "1,000" in text for text in shown)
