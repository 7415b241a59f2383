"""Each function's signature, docstring and checks of arguments agree; all checks precede the first access to data."""

import inspect
import itertools
import pickle
import re

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.models.descent import DESCENTS
from privstats.privacy.promise import PureDP
from tests.conftest import thinned

VERBS = ("lm", "glm", "rq", "median", "quantile", "mean", "mode", "hist")
SHARED = ("mech", "delta", "mu", "rho", "domain", "noise", "neighbors", "inference", "subset", "unit", "rows_per_unit",
          "bounds_share", "shares", "memory_limit", "ledger", "rng", "dry_run")  # fmt: skip
verbs = pytest.mark.parametrize("verb", VERBS)


def function(verb):
    return getattr(ps, f"dp_{verb}")


def parameters(verb):
    return inspect.signature(function(verb)).parameters


# ------------------------------------------------------------------ declarations


@verbs
def test_three_arguments_go_by_position_and_all_others_by_name(verb):
    kinds = {name: p.kind for name, p in parameters(verb).items()}
    assert list(kinds)[:3] == ["formula", "data", "eps"]
    assert {kinds[name] for name in list(kinds)[:3]} == {inspect.Parameter.POSITIONAL_OR_KEYWORD}
    assert {kind for name, kind in kinds.items() if name not in ("formula", "data", "eps")} == {
        inspect.Parameter.KEYWORD_ONLY
    }


@verbs
def test_what_all_verbs_have_is_spelled_and_has_the_same_default_everywhere(verb):
    mine, other = parameters(verb), parameters("lm")
    assert set(SHARED) <= set(mine)
    assert {name: mine[name].default for name in SHARED} == {name: other[name].default for name in SHARED}


@verbs
def test_the_docstring_describes_every_argument_and_no_other(verb):
    text = inspect.getdoc(function(verb))
    section = text.partition("Parameters\n----------\n")[2].partition("\nReturns\n-------")[0]
    heads = [line.partition(" : ")[0] for line in section.splitlines() if line and not line.startswith(" ")]
    described = [name for head in heads for name in head.split(", ")]
    assert sorted(described) == sorted(parameters(verb))


@verbs
def test_the_docstring_has_an_example_and_never_refers_to_another_verb(verb):
    text = inspect.getdoc(function(verb))
    assert ">>> " in text
    assert "as for" not in text.lower()
    for section in ("Parameters", "Returns", "Raises", "Examples"):
        assert f"{section}\n{'-' * len(section)}" in text
    assert not re.findall("^--+ .*", text, re.MULTILINE)  # no text follows on the line of dashes below a heading


# ------------------------------------------------------------------ wrong calls


class Touched(Exception):
    """Raised if the data are accessed."""


class Trap:
    """Data that must not be accessed."""

    def __getattr__(self, name):
        raise Touched(name)

    def __len__(self):
        raise Touched("len")


WRONG = [
    (("y ~ x", Trap()), {"epsilon": 1.0}, "unexpected keyword argument 'epsilon'; did you mean 'eps'?"),
    (("y ~ x", Trap(), 1.0), {"seed": 1}, "unexpected keyword argument 'seed'; did you mean 'rng'?"),
    (("y ~ x", Trap(), 1.0), {"neighbours": "replace"}, "did you mean 'neighbors'?"),
    (("y ~ x", Trap(), 1.0, "suffstats"), {}, "at most 3 positional arguments"),
    (("y ~ x",), {"eps": 1.0}, "missing a required argument: 'data'"),
    ((), {}, "missing a required argument: 'formula'"),
    (("y ~ x", Trap(), 1.0), {"eps": 1.0}, "multiple values for argument 'eps'"),
]


@verbs
@pytest.mark.parametrize(("args", "keywords", "says"), WRONG, ids=lambda value: None)
def test_a_wrong_call_is_a_type_error_before_a_row_or_a_ledger_is_touched(verb, args, keywords, says):
    ledger = ps.Ledger(PureDP(1.0))
    with pytest.raises(TypeError) as caught:
        function(verb)(*args, ledger=ledger, **keywords)
    assert type(caught.value) is TypeError
    assert str(caught.value).startswith(f"dp_{verb}() ")
    assert says in str(caught.value)
    assert not len(ledger.entries)
    assert caught.value.__context__ is None


@verbs
def test_no_frame_of_ours_holds_the_data_of_a_wrong_or_refused_call(verb):
    data = pd.DataFrame({"y": [918273.5], "x": [1.0]})
    for keywords in ({"epsilon": 1.0}, {"eps": -1.0}, {"eps": 1.0, "mech": "magic"}, {"eps": 1.0, "unit": 3}):
        with pytest.raises((TypeError, ps.PrivstatsError)) as caught:
            function(verb)("y ~ x", data, **keywords)
        trace = caught.value.__traceback__.tb_next
        while trace is not None:
            held = [v for v in trace.tb_frame.f_locals.values() if isinstance(v, pd.DataFrame | dict | tuple)]
            assert not any("918273.5" in repr(v) for v in held)
            trace = trace.tb_next


@verbs
def test_the_first_argument_is_a_formula(verb):
    series = pd.Series([918273.5])
    with pytest.raises(ps.FormulaError, match=rf"the first argument of dp_{verb} is a formula, not a Series") as caught:
        function(verb)(series, eps=1.0, data=None)
    assert "918273" not in str(caught.value)
    with pytest.raises(ps.FormulaError, match=rf"; write dp_{verb}\(\"y( ~ x)?\", data, eps=1\)$") as alone:
        function(verb)(series, eps=1.0)  # earlier, the error named only the missing argument
    assert "918273" not in str(alone.value) and alone.value.__context__ is None


# ------------------------------------------------------------------ plans


@pytest.mark.parametrize("name", ["lm", "dp_lm"])
def test_a_plan_takes_both_names_of_a_verb(name):
    assert ps.plan(name, "y ~ x", 100, 1.0, domain={"x": (0, 1), "y": (0, 1)}).rows == 100


def test_a_plan_is_bound_to_the_signature_of_its_verb():
    with pytest.raises(TypeError, match=r"dp_lm\(\) got an unexpected keyword argument 'epsilon'; did you mean 'eps'"):
        ps.plan("lm", "y ~ x", 100, epsilon=1.0)
    for name in ("data", "ledger", "rng", "dry_run"):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            ps.plan("lm", "y ~ x", 100, 1.0, **{name: None})


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("gam", "y ~ x", 100, 1.0), "verb is 'gam'; choose among"),
        (("y ~ x", 2000, 1.0), "plan needs the function first; write"),
        (("y ~ x", 2000), "plan needs the function first; write"),
        (("lm", "y ~ x"), "missing a required argument: 'n'"),
        (("lm", "y ~ x", -1, 1.0), "n is -1; give a whole number of rows"),
        (("lm", "y ~ x", 10.5, 1.0), "n is 10.5"),
        (("lm", "y ~ x", True, 1.0), "n is True"),
        (("lm", "y ~ x", 2, 1.0), "too few"),
    ],
)
def test_a_bad_plan_is_refused(args, says):
    with pytest.raises((ps.PrivstatsError, TypeError), match=says):
        ps.plan(*args, domain={"x": (0, 1), "y": (0, 1)})


# ------------------------------------------------------------------ all verbs answer, in every budget

DATA = pd.DataFrame(
    {
        "y": 2 + 3 * (x := np.random.default_rng(0).uniform(-1, 1, 1200)) + np.random.default_rng(1).normal(0, 1, 1200),
        "x": x,
        "g": np.random.default_rng(2).choice(["a", "b"], 1200),
        "id": np.arange(1200) // 2,
    }
)
DOMAIN = {"y": (-5, 10), "x": (-1, 1), "g": ["a", "b"]}
CALLS = {
    "lm": {"formula": "y ~ x + g"},
    "glm": {"formula": "I(y > 2) ~ x"},
    "rq": {"formula": "y ~ x"},
    "median": {"formula": "y ~ g"},
    "quantile": {"formula": "y + x", "q": [0.25, 0.5]},
    "mean": {"formula": "y ~ g"},
    "mode": {"formula": "g"},
    "hist": {"formula": "y ~ g", "bins": 3},
}
BUDGETS = {
    "eps": {"eps": 4.0},
    "mu": {"mu": 1.5},
    "eps and delta": {"eps": 3.0, "delta": 1e-5},
    "add or remove": {"eps": 4.0, "neighbors": "add_remove"},
    "persons": {"eps": 8.0, "unit": "id", "rows_per_unit": 2},
    "estimates only": {"eps": 4.0, "inference": "none"},
    "part of the rows": {"eps": 4.0, "subset": "x > -0.5"},
}


@thinned(6)
@verbs
@pytest.mark.parametrize("budget", BUDGETS)
def test_every_verb_answers_under_every_budget(verb, budget):
    fit = function(verb)(data=DATA, domain=DOMAIN, rng=1, **CALLS[verb], **BUDGETS[budget])
    assert len(fit.params) >= 1
    assert "Guarantee" in fit.summary().as_text()
    assert fit.params.equals(pickle.loads(pickle.dumps(fit)).params)


MINIMAL = {
    "lm": {"formula": "y ~ x"},
    "glm": {"formula": "I(y > 2) ~ x"},
    "rq": {"formula": "y ~ x"},
    "median": {"formula": "y"},
    "quantile": {"formula": "y"},
    "mean": {"formula": "y"},
    "mode": {"formula": "g"},
    "hist": {"formula": "g"},
}


@verbs
def test_the_methods_that_the_docstring_names_are_those_that_the_verb_has(verb):
    line = next(line for line in inspect.getdoc(function(verb)).splitlines() if line.startswith("mech : "))
    described = re.findall(r'"(\w+)"', line)
    known = set()
    for budget in ({"eps": 1.0}, {"mu": 1.0}, {"eps": 1.0, "delta": 1e-6}):
        with pytest.raises(ps.OptionError, match="mech is 'magic'") as caught:
            ps.plan(verb, n=1000, domain=DOMAIN, mech="magic", **MINIMAL[verb], **budget)
        known |= set(re.findall(r"'(\w+)'", str(caught.value).partition("choose among")[2]))
    assert set(described) == known


APPROX = {"eps": 2.0, "delta": 1e-6}
BUDGET_OF = {"ptr": APPROX, **{key: {"mu": 1.0} for key in ("gaussian", "ngd", "noisy_newton")}, "sgd": APPROX}


@verbs
def test_every_method_that_the_docstring_names_is_planned_under_some_budget(verb):
    line = next(line for line in inspect.getdoc(function(verb)).splitlines() if line.startswith("mech : "))
    for mech in re.findall(r'"(\w+)"', line):
        budget = BUDGET_OF.get(mech, {"eps": 2.0}) | ({"loss": "huber"} if verb == "lm" and mech in DESCENTS else {})
        plan = ps.plan(verb, n=1000, domain=DOMAIN, mech=mech, **MINIMAL[verb], **budget)
        assert plan.guarantee.covers([promise for _, promise in plan.charge])


NOISES = ("matrixt", "hull", "linf", "l1", "l2", "gaussian", "laplace", "cauchy", "laplaceln")


@thinned(3)
@verbs
def test_the_noises_that_the_docstring_names_are_those_that_some_method_has(verb):
    lines = inspect.getdoc(function(verb)).splitlines()
    heads = {line.partition(" : ")[0]: line for line in lines}
    methods, described = (re.findall(r'"(\w+)"', heads[name]) for name in ("mech", "noise"))
    taken = set()
    # some noise distributions of dp_glm are available only without intervals
    wanted = ("sandwich", "none") if verb == "glm" else ("sandwich",)
    budgets = ({"eps": 2.0}, {"mu": 1.0}, APPROX)
    for mech, noise, budget, inference in itertools.product(methods, NOISES, budgets, wanted):
        if noise in taken:
            continue
        change = {"mech": mech, "noise": noise, "inference": inference, **budget}
        try:
            ps.plan(verb, n=1000, domain=DOMAIN, **MINIMAL[verb], **change)
        except ps.PrivstatsError:
            continue
        taken.add(noise)
    assert set(described) == taken


@verbs
def test_every_option_of_the_signature_belongs_to_some_method(verb):
    """Every option in a function's signature is accepted by at least one of the function's methods."""
    values = {"theta_bound": 1.5, "split": 0.6, "ridge": 1.0, "tail": "cautious", "margins": True, "eta": 0.5,
              "grid": 0.5, "density": True, "geometric": True, "alpha": 0.1,
              "steps": 3, "step_size": 0.2, "batch": 50, "clip": 2.0, "tuning": 2.0}  # fmt: skip
    line = next(line for line in inspect.getdoc(function(verb)).splitlines() if line.startswith("mech : "))
    for option in sorted(values.keys() & parameters(verb).keys()):
        call = {**MINIMAL[verb], **({"formula": "y + x"} if option == "geometric" else {})}
        call |= {"formula": "y"} if option == "grid" else {}
        robust = {"loss": "huber"} if verb == "lm" else {}
        budgets = {"ptr": {"delta": 1e-6}, **{key: {"delta": 1e-06, **robust} for key in DESCENTS}}
        refusals = []
        for mech in re.findall(r'"(\w+)"', line):
            change = {"mech": mech, option: values[option], "eps": 2.0, **budgets.get(mech, {})}
            try:
                ps.plan(verb, n=1000, domain=DOMAIN, **call, **change)
                break
            except ps.PrivstatsError as error:
                refusals.append(str(error))
        else:
            pytest.fail(f"{option}: {refusals}")
        assert not any("unexpected" in text for text in refusals)
