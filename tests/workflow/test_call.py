"""Arguments are bound to the signature of a function; a wrong call raises Python's TypeError."""

import inspect
import re

import pytest

import privstats as ps
from privstats.workflow.call import VERBS, bound, hint


def toy(formula, data, eps=None, *, domain=None, mech="auto", rng=None, unit=None):
    """Function with the signature of a fit."""


SIGNATURE = inspect.signature(toy)


def test_arguments_come_with_the_defaults_of_the_others():
    arguments = bound(SIGNATURE, "toy", ("y", 1), {"mech": "kng"})
    assert arguments == {
        "formula": "y",
        "data": 1,
        "eps": None,
        "domain": None,
        "mech": "kng",
        "rng": None,
        "unit": None,
    }


@pytest.mark.parametrize(
    ("args", "keywords", "says"),
    [
        (("y", 1), {"epsilon": 1}, "unexpected keyword argument 'epsilon'; did you mean 'eps'"),
        (("y", 1), {"seed": 1}, "did you mean 'rng'"),
        (("y", 1), {"bounds": 1}, "did you mean 'domain'"),
        (("y", 1), {"groups": 1}, "did you mean 'unit'"),
        (("y", 1), {"mec": 1}, "did you mean 'mech'"),
        (("y",), {}, "missing a required argument: 'data'"),
        ((), {}, "missing a required argument: 'formula'"),
        (("y", 1, 2, 3), {}, "at most 3 positional arguments; give the others by name, as in domain=..."),
        (("y", 1), {"data": 2}, "multiple values for argument 'data'"),
    ],
)
def test_a_wrong_call_is_described_in_pythons_words(args, keywords, says):
    problem = bound(SIGNATURE, "toy", args, keywords)
    assert problem.startswith("toy() ")
    assert says in problem


def test_an_unknown_name_that_is_like_no_other_has_no_hint():
    assert hint("qqqqqqqq", ("eps", "data")) == ""
    assert bound(SIGNATURE, "toy", ("y", 1), {"qqqqqqqq": 0}).endswith("'qqqqqqqq'")


def test_a_usual_name_of_another_package_is_hinted_only_where_the_argument_exists():
    assert hint("seed", ("formula", "data")) == ""


def test_quantile_levels_are_said_to_belong_to_quantile_functions():
    """The error about tau in dp_lm proposes dp_rq; earlier, it proposed the argument 'tail'."""
    parameters = inspect.Signature([inspect.Parameter("tail", inspect.Parameter.KEYWORD_ONLY)])
    problem = bound(parameters, "dp_lm", (), {"tau": 0.5})
    assert problem.endswith('; tau belongs to quantile regression, write dp_rq("y ~ x", data, eps=1, tau=0.5)')
    assert hint("tau", ("q", "tail")) == "; did you mean 'q'?" and hint("q", ("tau",)) == "; did you mean 'tau'?"


@pytest.mark.parametrize(
    ("verb", "keyword", "says"),
    [
        ("dp_lm", "offset", "subtract the offset from the response"),
        ("dp_lm", "margins", "write fit.slopes or fit.comparisons"),
        ("dp_lm", "missing", "every fit leaves out rows with missing values"),
        ("dp_lm", "cluster", "did you mean 'unit'?"),
        ("dp_lm", "conf_level", "write fit.conf_int(alpha=0.1)"),
        ("dp_mean", "by", 'write groups in the formula, as in "y ~ g"'),
        ("dp_quantile", "probs", "did you mean 'q'?"),
        ("dp_hist", "breaks", "did you mean 'bins'?"),
    ],
)
def test_the_usual_arguments_of_other_packages_have_a_remedy_that_works(verb, keyword, says):
    """The error about an argument of another package proposes a call or an argument that has the same effect.

    Earlier, the errors proposed 'noise', 'domain', 'steps', 'rho' and 'shares', or nothing.
    """
    with pytest.raises(TypeError, match=re.escape(says)):
        getattr(ps, verb)("y ~ x", None, eps=1, **{keyword: "x"})


def test_every_verb_is_registered_by_its_short_name():
    import privstats.api  # noqa: F401 registers

    assert sorted(VERBS) == ["glm", "hist", "lm", "mean", "median", "mode", "quantile", "rq"]
