"""Fits combined with `combine`: refusals, the guarantee, the summary, and a result that contains only releases."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.errors import BudgetError, OptionError
from privstats.results.results import Results
from tests.conftest import thinned

DOMAIN = ps.Domain({"x": (-1, 1), "g": ["a", "b", "c"], "y": (-8, 8), "w": (0, 2), "who": (0, 1e6)})


def site(seed, n=1000, levels=("a", "b", "c")):
    rng = np.random.default_rng(seed)
    x, g = rng.uniform(-1, 1, n), rng.choice(levels, n)
    y = 1 + x + (g == "b") + rng.standard_normal(n)
    return pd.DataFrame({"x": x, "g": g, "y": y, "w": 1.0, "who": np.arange(n)})


A, B = site(1), site(2)


def lm(data, rng=1, **more):
    options = {"domain": DOMAIN, "mech": "suffstats"} | ({} if "mu" in more else {"eps": 4.0}) | more
    return ps.dp_lm(options.pop("formula", "y ~ x"), data, rng=rng, **options)


@pytest.fixture(scope="module")
def fits():
    return lm(A, 1), lm(B, 2, eps=2.0), lm(A, 3, eps=2.0)


def test_disjoint_sites_keep_the_largest_guarantee_and_add_up_rows(fits):
    both = ps.combine(fits[:2], rows="disjoint")
    assert both.guarantee == ps.PureDP(4.0)
    assert both.nobs == 2000
    assert both.nobs_used == pytest.approx(fits[0].nobs_used + fits[1].nobs_used)
    assert (both.bse < np.minimum(fits[0].bse, fits[1].bse)).all()
    assert both.releases == fits[0].releases + fits[1].releases
    assert both.ledger.remaining().eps == 0


def test_the_same_rows_add_guarantees_and_keep_the_sampling_error(fits):
    both = ps.combine([fits[0], fits[2]], rows="same")
    assert both.guarantee == ps.PureDP(6.0)
    assert both.nobs == 1000
    variance = np.array([np.diag(one.estimate.sampling) for one in (fits[0], fits[2], both)])
    # both fits are of the same rows, so that the sampling variance is not halved
    assert (variance[2] > 0.99 * variance[:2].min(axis=0)).all()
    assert (variance[2] < 1.01 * variance[:2].max(axis=0)).all()


SUMMARY = """\
Private linear regression: y ~ x
Guarantee    seeded: not private (rng=1, 2). With rng=None it would be eps = 4
             for any one row (neighbours: replace one row)
Rows         2,000 (public); about 2,000 used (released count, std err 3)
Method       combined (2 fits of disjoint rows); weighted by the precision of
             each: suffstats with eps = 4, 1,000 rows; suffstats with eps = 2,
             1,000 rows
Assumes      declared bounds; HC: the error variance may differ between rows; no
             row is in two fits (declared); each fit estimates the same
             population values
Ledger       none: this fit's eps = 4 is not added to any other
"""


def test_the_summary_says_what_was_combined_and_what_was_declared(fits):
    text = str(ps.combine(fits[:2], rows="disjoint").summary())
    head, _, table = text.partition("-" * 80 + "\n")
    assert head == SUMMARY
    assert "Budget" not in table
    same = str(ps.combine([fits[0], fits[2]], rows="same").summary())
    assert "all fits are of the same rows" in same.replace("\n             ", " ")


def test_a_level_that_is_given_at_one_site_only_is_given():
    fits = [lm(site(1, 2000), formula="y ~ x + g"), lm(site(2, 2000, ("a", "b")), 2, formula="y ~ x + g")]
    assert np.isnan(fits[1].params["g[T.c]"])
    both = ps.combine(fits, rows="disjoint")
    assert both.params.notna().all()
    assert both.bse["x"] < min(fit.bse["x"] for fit in fits)
    assert not any("g[T.c]" in one.about for one in both.notes)
    assert both.predict(A.head(3)).notna().all()
    both = ps.combine([fits[1], lm(site(3, 2000, ("a", "b")), 3, formula="y ~ x + g")], rows="disjoint")
    assert np.isnan(both.params["g[T.c]"])
    assert "g[T.c]            not given [1]\n" in str(both.summary())
    assert both.notes[0].text.startswith("Fit 1, and 1 more: g[T.c] is not given")


def test_a_result_of_combine_is_a_result(fits):
    both = ps.combine(fits[:2], rows="disjoint")
    again = (Results.from_dict(json.loads(json.dumps(both.to_dict()))), pickle.loads(pickle.dumps(both)))
    for one in again:
        pd.testing.assert_frame_equal(one.tidy(), both.tidy())
        assert str(one.summary()) == str(both.summary())
    assert both.t_test("x = 1").pvalue[0] > 0
    assert both.wald_test("x = 0, Intercept = 0").df == 2
    assert both.glance()["method"][0] == "combined"
    assert both.budget.empty
    assert not any(f"{value!r}" in json.dumps(both.to_dict()) for value in [*A["y"][:50], *B["y"][:50]])


def test_combined_fits_are_combined_again(fits):
    once = ps.combine([fits[0], fits[2]], rows="same")
    both = ps.combine([once, fits[1]], rows="disjoint")
    assert both.guarantee == ps.PureDP(6.0)
    assert both.nobs == 2000


@thinned(2)
@pytest.mark.parametrize(
    ("verb", "formula", "options"),
    [
        ("mean", "y + x ~ g", {}),
        ("quantile", "y ~ g", {"q": [0.2, 0.7]}),
        ("rq", "y ~ x", {"tau": [0.4, 0.6], "mech": "newton"}),
        ("glm", "I(y > 1) ~ x", {"margins": True, "mech": "newton"}),
    ],
)
def test_every_function_with_intervals_is_combined(verb, formula, options):
    call = getattr(ps, f"dp_{verb}")
    fits = [
        call(formula, data, mu=2.0, rng=s, **({"domain": DOMAIN} | options)) for s, data in ((1, A), (2, A), (3, B))
    ]
    for rows, pair in (("same", fits[:2]), ("disjoint", fits[1:])):
        both = ps.combine(pair, rows=rows)
        lengths = np.array([fit.conf_int()[1] - fit.conf_int()[0] for fit in (both, *pair)])
        given = np.isfinite(lengths[1:]).any(axis=0)  # a declared level without rows has no interval
        assert given.mean() > 0.6 and (lengths[0] < 1.25 * np.nanmin(lengths[1:], axis=0, initial=np.inf))[given].all()
        assert "combined (2 fits" in str(both.summary())
        assert both.params.index.equals(fits[0].params.index)
    if "margins" in options:
        assert both.get_margeff().margeff_se[0] < min(fit.get_margeff().margeff_se[0] for fit in pair)


def test_counts_of_disjoint_rows_are_not_averaged():
    fits = [ps.dp_hist("g", data, eps=1, domain=DOMAIN, rng=s) for s, data in ((1, A), (2, A))]
    with pytest.raises(OptionError, match=r"counts of disjoint rows add up; write fit1.params \+ fit2.params"):
        ps.combine(fits, rows="disjoint")
    both = ps.combine(fits, rows="same")
    assert both.bse.to_numpy() == pytest.approx(fits[0].bse.to_numpy() / np.sqrt(2))


OTHERS = {
    "formula": {"formula": "y ~ 1"},
    "weights": {"weights": "w"},
    "subset": {"subset": "x > 0"},
    "cov_type": {"cov_type": "nonrobust"},
    "model": {"loss": "huber", "mech": "auto"},
    "domains": {"domain": DOMAIN.extended({"y": (-9, 9)})},
}


@pytest.mark.parametrize("what", OTHERS)
def test_fits_of_different_plans_are_refused(what, fits):
    with pytest.raises(OptionError, match=f"differ.* {what}"):
        ps.combine([fits[0], lm(B, 7, **OTHERS[what])], rows="disjoint")


def test_bounds_that_each_fit_estimated_are_refused():
    data = site(1, 4000)
    both = [lm(data, s, eps=20.0, domain={"x": (-1, 1)}) for s in (1, 2)]
    with pytest.raises(OptionError, match=r"the bounds of 'y' were estimated.*domain=\{'y': \(low, high\)\}"):
        ps.combine(both, rows="same")


def test_what_is_known_not_to_be_as_declared_is_refused(fits, tmp_path):
    ledger = ps.Ledger(ps.PureDP(10.0), path=tmp_path / "study.sqlite")
    charged = [lm(A, s, eps=1.0, ledger=ledger) for s in (5, 6)]
    with pytest.raises(OptionError, match="charged to one ledger"):
        ps.combine(charged, rows="disjoint")
    with pytest.raises(OptionError, match="charged to one ledger"):
        ps.combine([pickle.loads(pickle.dumps(charged[0])), charged[1]], rows="disjoint")
    both = ps.combine(charged, rows="same")
    assert both.ledger is ledger
    assert "study.sqlite: eps = 2 of 10 spent" in str(both.summary())
    mine = ps.protect(A, domain=DOMAIN, budget=ps.PureDP(4.0))
    parts = [lm(mine.allot(who, ps.PureDP(1.0)), s, eps=1.0, domain=None) for s, who in enumerate(("ann", "ben"))]
    with pytest.raises(OptionError, match="charged to one ledger"):
        ps.combine(parts, rows="disjoint")
    with pytest.raises(OptionError, match="500 and 1,000 rows, so they are not of the same rows"):
        ps.combine([fits[0], lm(site(2, n=500), 9)], rows="same")
    apart = ps.combine([charged[0], lm(B, 9, eps=1.0, ledger=ps.Ledger(ps.PureDP(1.0)))], rows="disjoint")
    assert "each fit has its own: study.sqlite and in memory" in str(apart.summary())


def test_noise_that_is_not_independent_is_refused(fits):
    with pytest.raises(OptionError, match="with itself"):
        ps.combine([fits[0], fits[0]], rows="same")
    with pytest.raises(OptionError, match="with itself"):
        ps.combine([fits[0], pickle.loads(pickle.dumps(fits[0]))], rows="same")
    with pytest.raises(OptionError, match=r"the same seed.*leave rng=1 out"):
        ps.combine([fits[0], lm(B, 1)], rows="disjoint")


def test_calls_that_are_wrong_name_the_cure(fits):
    with pytest.raises(TypeError):
        ps.combine(fits[:2])
    with pytest.raises(OptionError, match=r"rows='disjoint'.*rows='same'"):
        ps.combine(fits[:2], rows="both")
    for wrong in ([fits[0]], [], fits[0], [fits[0], A]):
        with pytest.raises(OptionError, match=r"ps\.combine\(\[fit1, fit2\], rows='disjoint'\)"):
            ps.combine(wrong, rows="disjoint")
    with pytest.raises((OptionError, BudgetError), match="unit"):
        ps.combine([fits[0], lm(B, 8, unit="who")], rows="disjoint")


def test_what_rho_implies_is_that_of_all_fits():
    """The (eps, delta) implied by the rho of combined fits is computed from the joint rho of all fits.

    Earlier, it was computed from the rho of the first fit alone.
    """
    rows, domain = site(1), {"y": (-6, 6)}
    one = [ps.dp_mean("y", rows, rho=0.5, domain=domain) for _ in range(2)]
    same, disjoint = (ps.combine(one, rows=how) for how in ("same", "disjoint"))
    assert same.guarantee == ps.ZeroCDP(1.0) and disjoint.guarantee == ps.ZeroCDP(0.5)
    for fit, mu in ((same, 2**0.5), (disjoint, 1.0)):
        eps = ps.GaussianDP(mu).to_approx(1e-6).eps
        assert f"implies eps = {eps:.3g} at" in str(fit) and f"implies eps = {eps:.3g} at" in " ".join(
            fit.statement().split()
        )
    assert not same.facts.digest and "Combined are 2 fits of the same rows" in same.deployment()


def test_fits_of_one_ledger_are_known_for_it_wherever_they_are_read(tmp_path):
    rows, domain, ledger = site(1), {"y": (-6, 6)}, ps.Ledger(ps.GaussianDP(3))
    one, two, other = (ps.dp_mean("y", rows, mu=1, domain=domain, ledger=book) for book in (ledger, ledger, None))
    two.save(tmp_path / "two.json")
    saved, pickled = ps.load(tmp_path / "two.json"), pickle.loads(pickle.dumps(two))
    for again in (saved, pickled, ps.combine([two, other], rows="disjoint")):
        with pytest.raises(OptionError, match="charged to one ledger"):
            ps.combine([one, again], rows="disjoint")


def test_beside_its_combination_a_fit_costs_nothing_more(fits):
    kept = [ps.dp_lm("y ~ x", A, eps, domain=DOMAIN, mech="suffstats") for eps in (1.0, 2.0)]
    both = ps.combine(kept, rows="same")
    for shown in ([both], [*kept, both], [kept[0], both]):
        assert "Guarantee: eps = 3 for" in str(ps.summary_table(shown))
    assert "Together eps = 3 for" in str(ps.summary_table(kept))
    other = ps.dp_lm("y ~ x", A, 1.0, domain=DOMAIN, mech="suffstats")
    assert "Together eps = 4 for" in str(ps.summary_table([*kept, both, other]))
