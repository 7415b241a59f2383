"""Invalid input is refused with cause and cure, from the schema alone, before anything is charged or read."""

import math
import re
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.errors import PrivstatsWarning
from privstats.gate.rows import BlockRows
from privstats.gate.sources import Frame
from privstats.privacy.promise import PureDP

DOMAIN = {"y": (0, 1), "x": (0, 1), "z": (0, 2), "g": ["a", "b"]}
N = 41
ROWS = pd.DataFrame({"y": np.linspace(0, 1, N), "x": np.linspace(1, 0, N), "z": 1.0, "g": (["a", "b"] * N)[:N]})
LM = {"formula": "y ~ x", "data": ROWS, "eps": 1.0, "domain": DOMAIN}
GLM = {**LM, "formula": "I(y > 0.5) ~ x"}
PERTURBED = {**LM, "mech": "objpert"}
FOUR = {**LM, "formula": "y + x + z + np.log1p(x)"}
ONE = {**LM, "formula": "y"}
NOT_NUMBERS = (math.nan, math.inf, "1", True, [1.0])

BUDGETS = [
    ("lm", LM, {"eps": None}, ps.BudgetError, "no budget is given; write eps=1"),
    ("lm", LM, {"mu": 1.0}, ps.BudgetError, "eps and mu are both given; keep one of them"),
    ("lm", LM, {"eps": None, "mu": 1.0, "delta": 1e-6}, ps.BudgetError, "delta goes with eps"),
    ("lm", LM, {"rho": 0.5}, ps.BudgetError, "eps and rho are both given; keep one of them"),
    ("hist", ONE, {"rho": 0.5, "mu": 1.0}, ps.BudgetError, "eps, mu and rho are all given; keep one of them"),
    ("lm", LM, {"eps": None, "rho": 0.5, "delta": 1e-6}, ps.BudgetError, "leave delta out, since rho needs none"),
    ("lm", LM, {"eps": 0}, ps.BudgetError, "eps is 0; give a positive number, such as eps=1"),
    ("lm", LM, {"eps": -1}, ps.BudgetError, "eps is -1; give a positive number, such as eps=1"),
    ("lm", LM, {"eps": None, "mu": 0}, ps.BudgetError, "mu is 0"),
    ("lm", LM, {"delta": 1.0}, ps.BudgetError, "delta"),
    ("lm", LM, {"delta": -1e-6}, ps.BudgetError, "delta"),
    ("lm", LM, {"delta": None}, ps.BudgetError, "delta"),
    ("lm", LM, {"delta": 0.05}, ps.BudgetError, "would allow about 2 of the 41 rows to be published"),
    ("lm", LM, {"delta": 1.001 / N}, ps.BudgetError, "choose delta at most 1/n, such as delta=1e-06"),
    ("lm", LM, {"noise": "gaussian"}, ps.BudgetError, "cannot give pure eps; add delta=1e-6, or give mu=1"),
    ("lm", LM, {"shares": {"nothing": 1.0}}, ps.OptionError, "no question of this plan is called 'nothing'"),
    ("lm", LM, {"shares": {"scales": -1.0}}, ps.OptionError, "give a positive number"),
    ("lm", LM, {"eps": 100.0, "shares": {"scales": 1.0}}, ps.OptionError, "make their sum less than 1"),
    (
        "lm",
        {**LM, "formula": "y ~ x + C(g)"},
        {"shares": {"scales again": 0.9, "levels": 0.2}, "mech": "newton"},
        ps.OptionError,
        "are parts of the share of 'score' and together 1.* of it; make their sum less than 1",
    ),
    ("lm", LM, {"shares": 3}, ps.OptionError, "shares is 3; write a dict"),
    ("lm", LM, {"ledger": ps.PureDP(1.0)}, ps.BudgetError, "write ledger=ps.Ledger"),
    ("lm", LM, {"rng": "seed"}, ps.PrivacyError, "rng"),
    *(("lm", LM, {"eps": bad}, ps.BudgetError, "eps is") for bad in NOT_NUMBERS),
    *(("lm", LM, {"eps": None, "mu": bad}, ps.BudgetError, "mu is") for bad in NOT_NUMBERS),
    *(("lm", LM, {"eps": None, "rho": bad}, ps.BudgetError, "rho is") for bad in NOT_NUMBERS),
]
NAMES = [
    ("lm", LM, {"mech": "magic"}, ps.OptionError, "mech is 'magic'; choose among 'auto', 'suffstats', 'newton'"),
    ("lm", LM, {"mech": ["suffstats"]}, ps.OptionError, "mech is a list; choose among"),
    ("lm", LM, {"noise": "l3"}, ps.OptionError, "noise is 'l3'; choose among"),
    ("lm", LM, {"neighbors": "swap"}, ps.OptionError, "neighbors is 'swap'"),
    ("lm", LM, {"inference": "maybe"}, ps.OptionError, "inference is 'maybe'; choose among 'sandwich', 'none'"),
    ("lm", LM, {"cov_type": "HC7"}, ps.OptionError, "cov_type is 'HC7'"),
    ("lm", LM, {"cov_type": "cluster"}, ps.OptionError, "add unit='person_id'"),
    ("lm", LM, {"loss": "absolute"}, ps.OptionError, "loss is 'absolute'; choose among 'squares', 'huber'"),
    ("lm", LM, {"dry_run": "yes"}, ps.OptionError, "dry_run is 'yes'"),
    *(
        ("lm", LM, {"memory_limit": bad}, ps.OptionError, "memory_limit is .*; give a positive number of bytes")
        for bad in (0, -1, "2 GB", True, np.nan, [10**9])
    ),
    ("glm", GLM, {"family": "weibull"}, ps.OptionError, "weibull"),
    ("glm", GLM, {"link": "cauchit"}, ps.OptionError, "cauchit"),
    ("glm", GLM, {"link": 3}, ps.OptionError, "link is 3"),
    ("rq", LM, {"cov_type": "nonrobust"}, ps.OptionError, "cov_type is 'nonrobust'; choose among 'HC', 'kernel'"),
]
OPTIONS = [
    ("lm", LM, {"theta_bound": 1.0}, ps.OptionError, "theta_bound= belongs to mech='kng' and 'objpert' and 'expmech'"),
    ("lm", LM, {"split": 0.5}, ps.OptionError, "split= belongs to mech='objpert'.*leave split out"),
    (
        "lm",
        LM,
        {"theta_bound": 1.0, "mech": "suffstats"},
        ps.OptionError,
        "mech='suffstats' has no option theta_bound=",
    ),
    ("lm", LM, {"split": 0.5, "mech": "kng"}, ps.OptionError, "mech='kng' has no option split="),
    ("lm", LM, {"tail": "cautious", "mech": "suffstats"}, ps.OptionError, "mech='suffstats' has no option tail="),
    ("lm", LM, {"tail": "wild"}, ps.OptionError, "tail is 'wild'"),
    ("lm", LM, {"theta_bound": 11.0, "mech": "kng"}, ps.OptionError, "theta_bound is 11; mech='kng' takes at most 10"),
    (
        "lm",
        LM,
        {"noise": "matrixt", "mech": "kng"},
        ps.OptionError,
        "noise is 'matrixt'; choose among 'linf', 'l1', 'l2'",
    ),
    ("lm", LM, {"noise": "l2", "mech": "expmech"}, ps.OptionError, "has no choice of noise; leave noise out"),
    ("lm", LM, {"noise": "hull", "mech": "newton"}, ps.OptionError, "noise is 'hull'; choose among"),
    *(
        ("lm", LM, {"theta_bound": bad, "mech": "objpert"}, ps.OptionError, "theta_bound is")
        for bad in (0, -1, *NOT_NUMBERS)
    ),
    *(("lm", LM, {"split": bad, "mech": "objpert"}, ps.OptionError, "split is") for bad in (0, 1, *NOT_NUMBERS)),
    ("glm", GLM, {"family": "gaussian", "offset": "x"}, ps.OptionError, "subtract it from the response"),
    ("rq", LM, {"tau": 1.5}, ps.OptionError, r"tau is 1.5; give one number between 0 and 1, or a list.*tau=\[0.25"),
    ("rq", LM, {"tau": []}, ps.OptionError, "tau is"),
    ("rq", LM, {"tau": [0.5, 0.5]}, ps.OptionError, "different"),
    ("quantile", ONE, {"q": "half"}, ps.OptionError, "q is 'half'"),
    ("quantile", ONE, {"q": 0.25, "tau": 0.5}, ps.OptionError, "keep one of them"),
    ("median", ONE, {"alpha": 0.7}, ps.OptionError, "alpha is 0.7"),
    ("median", ONE, {"grid": -1}, ps.OptionError, "grid"),
    ("median", ONE, {"grid": {"k": 1}}, ps.OptionError, "grid"),
    ("median", ONE, {"grid": 1e-12, "mech": "smoothsens"}, ps.OptionError, "too fine for .*; write grid=1e-09 or more"),
    ("median", ONE, {"grid": 1e-12, "mech": "ptr", "delta": 1e-6}, ps.OptionError, "too fine for .*write grid=1e-09"),
    ("median", FOUR, {"grid": 1e-12, "geometric": True, "mech": "kng"}, ps.OptionError, "too fine for this mech="),
    ("median", ONE, {"eta": 0.5}, ps.OptionError, "eta= belongs to mech='ptr'"),
    ("median", ONE, {"mech": "ptr"}, ps.OptionError, "add delta=1e-6 to eps"),
    ("median", ONE, {"noise": "cauchy"}, ps.OptionError, "noise= belongs to mech='smoothsens'"),
    ("median", ONE, {"noise": "laplace"}, ps.OptionError, "noise= belongs to mech='smoothsens'"),
    ("median", ONE, {"mech": "smoothsens", "noise": "laplace"}, ps.OptionError, "add delta=1e-6 to eps"),
    ("median", ONE, {"geometric": 1.5}, ps.OptionError, "geometric is 1.5"),
    (
        "median",
        {**LM, "formula": "y + x + z + np.log1p(x)"},
        {"geometric": True},
        ps.PrivacyError,
        "give mech='kng' for",
    ),
    ("mean", ONE, {"noise": "l2"}, ps.OptionError, "noise= belongs to mech='knorm'"),
    ("mean", ONE, {"mech": "gaussian"}, ps.BudgetError, "add delta=1e-6, or give mu=1"),
    ("mode", ONE, {}, ps.OptionError, "dp_mode needs bins for the numeric column 'y'; write bins=20, or the edges"),
    ("mode", {**LM, "formula": "g"}, {"noise": "l1"}, ps.OptionError, "a mode has no choice of noise"),
    ("hist", ONE, {}, ps.OptionError, "dp_hist needs bins for the numeric column 'y'; write bins=20, or the edges"),
    ("hist", ONE, {"bins": [1, 0]}, ps.OptionError, "edges in ascending order"),
    ("hist", ONE, {"bins": [0, 0.5]}, ps.DomainError, "do not cover the bounds of 'y'"),
    ("hist", {**LM, "formula": "g"}, {"bins": 3}, ps.OptionError, "leave out bins="),
    ("hist", ONE, {"bins": 3, "density": "yes"}, ps.OptionError, "density"),
    ("hist", {**LM, "formula": "x + y"}, {"bins": 3}, ps.FormulaError, "one column at a time"),
]
DATA = [
    ("lm", LM, {"formula": "y ~ q", "domain": {**DOMAIN, "q": (0, 1)}}, ps.FormulaError, "no column 'q'"),
    ("lm", LM, {"data": ROWS[["y", "x", "x"]]}, ps.FormulaError, "more than one column 'x'"),
    ("lm", LM, {"data": ROWS.to_numpy()}, ps.OptionError, "data is neither a DataFrame nor a function"),
    ("lm", LM, {"data": None}, ps.OptionError, "data is neither"),
    ("lm", LM, {"data": ROWS.head(2)}, ps.FormulaError, "2 rows are too few for 2 coefficients"),
    ("lm", LM, {"data": ROWS.head(0)}, ps.FormulaError, "too few"),
    ("lm", LM, {"domain": {**DOMAIN, "x": (1, 0)}}, ps.DomainError, "not below"),
    ("lm", LM, {"domain": {**DOMAIN, "x": (0, math.inf)}}, ps.DomainError, "finite"),
    (
        "lm",
        LM,
        {"domain": {**DOMAIN, "x": (-1e308, 1e308)}},
        ps.DomainError,
        r"domain\['x'\]: bounds beyond 1e\+100",
    ),
    (
        "mean",
        ONE,
        {"domain": {"y": (-1e160, 1e160)}},
        ps.DomainError,
        "too far for arithmetic; give the numbers in",
    ),
    (
        "lm",
        LM,
        {"domain": None},
        ps.DomainError,
        r"columns 'y' and 'x' have no declared bounds; write domain=\{'y': \(low, high\), 'x': \(low, high\)\}",
    ),
    ("lm", LM, {"formula": "y ~ xx"}, ps.FormulaError, "the data have no column 'xx'; did you mean 'x'"),
    ("lm", LM, {"subset": "Z > 1"}, ps.FormulaError, "the data have no column 'Z'; did you mean 'z'"),
    ("lm", LM, {"weights": "zz"}, ps.FormulaError, "the data have no column 'zz'; did you mean 'z'"),
    ("lm", LM, {"formula": "y ~ factor(g)"}, ps.FormulaError, r"no function 'factor'; write C\(g\)$"),
    ("lm", LM, {"formula": "y ~ as.factor(g)"}, ps.FormulaError, r"no function 'as.factor'; write C\(g\)$"),
    ("lm", LM, {"formula": "y ~ ."}, ps.FormulaError, "'.' does not stand for all other columns here; name them"),
    ("lm", LM, {"formula": "y ~ `a b`"}, ps.FormulaError, r"back-ticks do not quote names here; write Q\('a b'\)$"),
    (
        "lm",
        LM,
        {"domain": {"y": (0, 1), "x": (0, 1), "G": ["a", "b"]}, "formula": "y ~ x + C(g)"},
        ps.DomainError,
        "the domain declares 'G', which is no column of the data and no term of the formula; did you mean 'g'",
    ),
    (
        "lm",
        LM,
        {"domain": None, "formula": "y ~ x + C(g)"},
        ps.DomainError,
        r"columns 'y', 'x' and 'g' are not declared; write domain=\{'y': \(low, high\), .* 'g': \['first', 's",
    ),
    ("lm", LM, {"formula": "y ~ 2*x"}, ps.FormulaError, r"arithmetic with numbers inside I\(\), as in I\(2 \* x\)$"),
    ("lm", LM, {"formula": "g ~ x"}, ps.FormulaError, r"for the share of one level write I\(g == 'a'\)$"),
    ("lm", LM, {"eps": 1e200}, ps.BudgetError, r"eps is 1e\+200, too large to compute with; give eps=1$"),
    ("lm", LM, {"formula": "y ~ (x + z)^2"}, ps.FormulaError, r"and a power of terms as \(x1 \+ x2\)\*\*2$"),
    (
        "lm",
        LM,
        {"formula": "y ~ years of school"},
        ps.FormulaError,
        r"for a column of this name write Q\('years of school'\)",
    ),
    ("lm", LM, {"formula": "y ~ x + offset(np.log(x))"}, ps.FormulaError, r"write offset='np.log\(x\)'$"),
    ("lm", LM, {"subset": "x > 0 and g = 'a'"}, ps.FormulaError, "write == to compare$"),
    (
        "lm",
        LM,
        {"domain": {"y": ("0", "1"), "x": (0, 1)}},
        ps.DomainError,
        r"are texts; write them as numbers, \(0, 1\)$",
    ),
    (
        "lm",
        LM,
        {"formula": "y ~ C(x)", "domain": {"y": (0, 1), "x": range(0, 3)}},
        ps.DomainError,
        r"'C\(x\)' needs levels; write domain=\{'x': list\(range\(0, 3\)\)\}$",
    ),
    ("lm", LM, {"ledger": "study.sqlite"}, ps.BudgetError, r"write ledger=ps.Ledger\(path='study.sqlite'\), or"),
    ("lm", LM, {"domain": 3}, ps.DomainError, "dict"),
    ("lm", LM, {"formula": 3}, ps.FormulaError, "first argument of dp_lm is a formula"),
    ("lm", LM, {"formula": "y ~ I(x - np.mean(x))"}, ps.FormulaError, "np.mean"),
    ("lm", LM, {"formula": "y ~ x + y"}, ps.FormulaError, "response"),
    ("lm", LM, {"unit": "person"}, ps.FormulaError, "no column 'person'"),
    ("lm", LM, {"unit": 3}, ps.OptionError, "unit is 3; write the name of a column"),
    ("lm", LM, {"rows_per_unit": 3}, ps.OptionError, "unit="),
    ("lm", LM, {"unit": "g", "rows_per_unit": 0}, ps.OptionError, "rows_per_unit is 0"),
    ("lm", LM, {"subset": "q > 0"}, ps.PrivstatsError, "'q'"),
    (
        "lm",
        LM,
        {"subset": ROWS["x"] > 0},
        ps.OptionError,
        'subset is a Series; write it as text, such as subset="x > 0.5"',
    ),
    ("lm", LM, {"weights": [1.0] * N}, ps.OptionError, "weights is a list; write it as text"),
    ("lm", LM, {"weights": "x - 1"}, ps.DomainError, "x - 1"),
    ("mean", {**LM, "formula": "g"}, {}, ps.FormulaError, "'g' has levels and dp_mean needs numbers"),
]


@pytest.mark.parametrize(("verb", "call", "change", "error", "says"), [*BUDGETS, *NAMES, *OPTIONS, *DATA])
def test_bad_input_is_refused_with_a_word_about_the_cure(monkeypatch, verb, call, change, error, says):
    def never(self):
        assert not (isinstance(self.source, Frame) and self.source.frame is call["data"]), "rows were read"
        return works(self)

    works = BlockRows.blocks
    monkeypatch.setattr(BlockRows, "blocks", never)
    ledger = change.get("ledger", ps.Ledger(PureDP(10.0)))
    with pytest.raises(error, match=says) as caught:
        getattr(ps, f"dp_{verb}")(**{**call, "ledger": ledger, **change})
    assert not isinstance(ledger, ps.Ledger) or not len(ledger.entries)
    text = str(caught.value)
    assert text[0].islower() or text[0] in "'(^|" or text.split()[0].isdigit() or text[0].isupper()
    assert not text.endswith(".")
    assert "unexpected failure" not in text


def test_an_error_about_an_argument_is_a_value_error_too():
    with pytest.raises(ValueError, match="mech"):
        ps.dp_lm(**LM, mech="magic")


def test_dates_and_levels_that_are_not_declared_are_told_how_to_be():
    data = ROWS.assign(since=pd.Timestamp("2020-01-01"))
    for eps in (0.01, 500.0):  # eps = 500 would suffice to estimate the range of a column of numbers
        with pytest.raises(ps.DomainError, match="column 'since' has dates and is not declared; write domain="):
            ps.dp_lm("y ~ since", data, eps, domain=DOMAIN)


@pytest.mark.parametrize(
    ("verb", "change", "says"),
    [
        ("lm", {"alpha": 0.1}, r"'alpha'; write fit.conf_int\(alpha=0.1\)$"),
        ("mean", {"confidence": 0.9}, r"'confidence'; write fit.conf_int\(alpha=0.1\)$"),
        ("mean", {"weights": "x"}, r"'weights'; write dp_lm\(\"y ~ 1\", data, weights=\"w\"\), whose intercept is the"),
        ("median", {"weights": "x"}, r"'weights'; write dp_rq\("),
        ("hist", {"weights": "x", "bins": 3}, "'weights'; a histogram counts rows, leave weights out$"),
    ],
)
def test_an_argument_that_stands_elsewhere_is_told_where(verb, change, says):
    with pytest.raises(TypeError, match=says):
        getattr(ps, f"dp_{verb}")(**{**LM, "formula": "y ~ x" if verb == "lm" else "y", **change})


def test_a_weighted_mean_is_the_intercept_of_least_squares():
    fit = ps.dp_lm("y ~ 1", ROWS, 1e4, mech="suffstats", weights="x", domain=DOMAIN, rng=1)
    assert fit.params["Intercept"] == pytest.approx(np.average(ROWS["y"], weights=ROWS["x"]), abs=0.01)


def test_delta_may_be_one_over_n_and_a_private_number_of_rows_refuses_none():
    assert ps.dp_mean(**{**ONE, "delta": 1 / N}).guarantee.delta == 1 / N
    private = {**ONE, "delta": 2 / N, "neighbors": "add_remove"}
    assert ps.dp_mean(**private).guarantee.delta == 2 / N
    del private["data"]
    with pytest.raises(ps.BudgetError, match="choose delta at most 1/n"):
        ps.plan("mean", n=N, **private)
    assert ps.plan("mean", n=N // 2, **private).guarantee.delta == 2 / N


def test_predictions_beyond_what_is_declared_are_given_with_a_warning():
    fit = ps.dp_lm("y ~ x + g", ROWS, 1e4, mech="suffstats", domain=DOMAIN, rng=1)
    with pytest.warns(
        UserWarning, match="1 of 2 new rows have 'x' outside its bounds, 0 to 1, and their prediction ext"
    ):
        assert fit.predict(pd.DataFrame({"x": [0.5, 2.0], "g": "a"})).notna().all()
    with pytest.warns(UserWarning, match="1 of 2 new rows have a level of 'g' that is not declared"):
        assert fit.predict(pd.DataFrame({"x": 0.5, "g": ["a", "q"]})).isna().tolist() == [False, True]


@pytest.mark.parametrize("call", [ps.dp_mean, ps.dp_quantile, partial(ps.dp_hist, bins=4), partial(ps.dp_mode, bins=4)])
def test_groups_of_few_rows_are_refused_before_the_charge(call):
    ledger, levels = ps.Ledger(ps.PureDP(1)), [str(k) for k in range(60)]
    with pytest.raises(ps.FormulaError, match=r"^g has 60 levels for 41 rows, fewer than 10 rows a level; group"):
        call("y ~ g", ROWS, 1, domain={**DOMAIN, "g": levels}, ledger=ledger)
    assert len(ledger.entries) == 0
    assert ps.plan("mean", "y ~ g", n=600, eps=1, domain={**DOMAIN, "g": levels})


@pytest.mark.parametrize(
    ("budget", "most"), [({"eps": 20.5}, 20), ({"eps": 1e6, "delta": 1e-6}, 20), ({"mu": 40}, 12)], ids=str
)
def test_a_budget_that_protects_nobody_is_warned_of_before_it_is_spent(budget, most):
    name, much = next(iter(budget.items()))
    shown = re.escape(f"{name} = {much:g} protects nobody (above {most} a guarantee means little); give {name}=1")
    with pytest.warns(PrivstatsWarning, match=f"^{shown}; continuing$") as warned:
        ps.plan("mean", "y", n=N, domain=DOMAIN, **budget)
    assert warned[0].filename == __file__
    ledger = ps.Ledger(ps.GaussianDP(50) if name == "mu" else ps.ApproxDP(1e6, 0.01))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PrivstatsWarning):
            ps.dp_mean("y", ROWS, domain=DOMAIN, ledger=ledger, **budget)
        assert len(ledger.entries) == 0
        ps.plan("mean", "y", n=N, domain=DOMAIN, **{**budget, name: most})


def test_a_question_about_budgets_warns_of_none():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        width = ps.plan("mean", "y", n=N, domain=DOMAIN, mech="laplace", eps=20).expected()["width"].item()
        plan = ps.plan("mean", "y", n=N, domain=DOMAIN, mech="laplace", eps=1)
        assert plan.budget_for(width * 0.9999) > 20


def test_a_file_with_another_separator_is_named():
    """The error about a file with another separator than commas names the separator and the format to write.

    Earlier, the error proposed only commas, although commas would break numbers with decimal commas.
    """
    rows = pd.DataFrame({"y;x;g": ["1;2;a"]})
    cure = r"with ';' between them; write commas there, and decimals with a point, as in 1\.5$"
    with pytest.raises(ps.FormulaError, match=f"no column 'y'; all names stand in one column, {cure}"):
        ps.dp_lm("y ~ x", rows, 1, domain=DOMAIN)


def test_a_ledger_of_another_kind_names_the_whole_cost():
    ledger = ps.Ledger(ps.PureDP(1))
    for verb, formula in (("lm", "y ~ x"), ("mean", "y")):
        with pytest.raises(
            ps.BudgetError, match=r"the ledger counts pure eps and this fit costs mu = 0\.5; open it with"
        ):
            getattr(ps, f"dp_{verb}")(formula, ROWS, mu=0.5, domain=DOMAIN, ledger=ledger)
    with pytest.raises(ps.BudgetError, match=r"for the ledger in a file write ps.Ledger\(path='a.sqlite'\)$"):
        ps.Ledger("a.sqlite")


def test_exposure_of_other_packages_is_an_offset_here():
    with pytest.raises(
        TypeError, match=r"unexpected keyword argument 'exposure'; write offset='np.log\(years\)' for an"
    ):
        ps.dp_glm("y ~ x", ROWS, 1, domain=DOMAIN, family="poisson", exposure="x")


def test_names_of_other_packages_point_to_the_functions_here():
    for name, cure in (("dp_logit", "dp_glm"), ("OLS", "dp_lm"), ("lm", "dp_lm"), ("quantreg", "dp_rq")):
        with pytest.raises(AttributeError, match=rf"module 'privstats' has no attribute '{name}'; write ps\.{cure}\("):
            getattr(ps, name)
    assert not hasattr(ps, "anything_else")
    with pytest.raises(ps.FormulaError, match=r"ask about a column once, for a quotient write I\(y/x\)$"):
        ps.plan("mean", "y/x", n=N, eps=1, domain=DOMAIN)
