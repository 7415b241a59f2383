"""Construction of the public functions from declarations, which consist of a signature and a docstring.

A function built by this module compares the arguments of a call with the signature and then executes the call. A call
that does not fit the signature raises a TypeError before a row is read or a ledger is charged. All other errors are
raised without the stack frames of their origin, since these frames hold the data.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

from privstats.boundary import door
from privstats.models.base import Model
from privstats.workflow.arguments import formula_error, warn_of_little_protection
from privstats.workflow.fit import run
from privstats.workflow.protected import unprotected
from privstats.workflow.verbs import Verb, register

P = ParamSpec("P")
R = TypeVar("R")

USUAL = MappingProxyType(  # names of arguments in other packages, with the corresponding names in this package
    {"epsilon": "eps", "seed": "rng", "random_state": "rng", "bounds": "domain", "confidence": "alpha",
     "level": "alpha", "groups": "unit", "sensitivity": "domain", "accountant": "ledger", "budget": "eps",
     "mechanism": "mech", "method": "mech", "vcov": "cov_type", "steps": "grid", "exposure": "offset",
     "tau": "q", "q": "tau", "probs": "q", "breaks": "bins", "cluster": "unit", "clusters": "unit",
     "conf_level": "alpha", "quantile": "q", "quantiles": "q", "model_names": "names"}
)  # fmt: skip

INTERVALS = (
    "alpha",
    "confidence",
    "level",
    "conf_level",
)  # names, here or in other packages, of the argument for the confidence level; few functions here accept one
ELSEWHERE = MappingProxyType(  # remedies in error messages; keys: (function, argument that the function lacks)
    {
        ("dp_mean", "weights"): 'write dp_lm("y ~ 1", data, weights="w"), whose intercept is the weighted mean',
        ("dp_median", "weights"): 'write dp_rq("y ~ 1", data, weights="w"), whose intercept is the weighted median',
        ("dp_quantile", "weights"): 'write dp_rq("y ~ 1", data, tau=0.9, weights="w"), whose intercept is the quantile',
        ("dp_glm", "exposure"): "write offset='np.log(years)' for an exposure of years",
        ("dp_lm", "tau"): 'tau belongs to quantile regression, write dp_rq("y ~ x", data, eps=1, tau=0.5)',
        ("dp_glm", "tau"): 'tau belongs to quantile regression, write dp_rq("y ~ x", data, eps=1, tau=0.5)',
        **dict.fromkeys(
            [("dp_lm", "offset"), ("dp_rq", "offset")],
            'subtract the offset from the response, as in "I(y - x) ~ z"',
        ),
        **dict.fromkeys(
            [("dp_lm", "margins"), ("dp_rq", "margins")],
            "average effects are the coefficients, and with interactions write fit.slopes or fit.comparisons",
        ),
        **dict.fromkeys(
            [("dp_lm", "family"), ("dp_rq", "family")],
            'family belongs to generalised linear models, write dp_glm("y ~ x", data, eps=1, family="poisson")',
        ),
        **dict.fromkeys(
            [(name, q) for name in ("dp_median", "dp_mean") for q in ("tau", "q", "quantile", "probs")],
            'for other quantiles than the median write dp_quantile("y", data, eps=1, q=0.9)',
        ),
        ("summary_table", "exp"): "for exponentiated coefficients of one fit write fit.summary(exp=True)",
        ("dp_mode", "weights"): "a mode counts rows, leave weights out",
        ("dp_hist", "weights"): "a histogram counts rows, leave weights out",
    }
)

IN_EVERY = MappingProxyType(  # remedies in error messages, for usual arguments that no function here accepts
    {
        **dict.fromkeys(
            ["missing", "na_action", "dropna", "na_rm"],
            "every fit leaves out rows with missing values, so leave the argument out",
        ),
        **dict.fromkeys(["by", "group", "groupby"], 'write groups in the formula, as in "y ~ g"'),
        "cov_kwds": "for rows that depend on each other write unit='person', rows_per_unit=4",
    }
)

_VERBS: dict[str, Callable[..., Any]] = {}
VERBS: Mapping[str, Callable[..., Any]] = MappingProxyType(_VERBS)  # public functions by their names without "dp_"


def verb(model: type[Model]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that turns a declaration (a signature with a docstring) into a function that fits a model.

    Parameters
    ----------
    model : type
        Class of the model; the fields of a model are taken from the arguments of the call.
    """

    def declare(declaration: Callable[P, R]) -> Callable[P, R]:
        defaults = {p.name: p.default for p in inspect.signature(declaration).parameters.values()}
        name = declaration.__name__.removeprefix("dp_")

        def answer(arguments: dict[str, Any]) -> Any:
            warn_of_little_protection(arguments)
            return run(name, model, unprotected(arguments), defaults)

        register(name, Verb(defaults, answer))
        call = entrance(declaration, door(answer))
        _VERBS[name] = call
        return call

    return declare


def entrance(declaration: Callable[P, R], answer: Callable[[dict[str, Any]], Any]) -> Callable[P, R]:
    """Return a public function with the declared signature; its exceptions hold no stack frames with rows of the data.

    Parameters
    ----------
    declaration : callable
        Function without a body; its signature and docstring are used.
    answer : callable
        Function that returns the result for a dict of all arguments. Its exceptions must not contain rows of the data;
        `privstats.boundary.door` wraps a function for this purpose.
    """
    signature, name = inspect.signature(declaration), declaration.__name__

    @functools.wraps(declaration)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        outcome = _outcome(signature, name, answer, args, keywords)
        del args, keywords
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return call


def public(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that it raises only errors of this package, without stack frames that hold rows."""
    opened: Callable[..., R] = door(function)
    return entrance(function, lambda arguments: opened(**arguments))


def bound(signature: inspect.Signature, name: str, args: Any, keywords: Mapping[str, Any]) -> dict[str, Any] | str:
    """Return the arguments of a call with defaults filled in, or an error text if the call does not fit `signature`."""
    parameters = signature.parameters
    unknown = [keyword for keyword in keywords if keyword not in parameters]
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        other = ELSEWHERE.get((name, unknown[0]), IN_EVERY.get(unknown[0]))
        cure = f"; {other}" if other else hint(unknown[0], tuple(parameters))
        return f"{name}() got an unexpected keyword argument '{unknown[0]}'{cure}"
    try:
        arguments = signature.bind(*args, **keywords)
    except TypeError as error:
        return f"{name}() {_plain(str(error), parameters)}"
    arguments.apply_defaults()
    return dict(arguments.arguments)


def hint(unknown: str, known: tuple[str, ...]) -> str:
    """Return a suggestion for an unknown argument name, such as "; did you mean 'eps'?", or an empty text."""
    if unknown in INTERVALS and "alpha" not in known:
        return "; write fit.conf_int(alpha=0.1)"
    near = [USUAL[unknown]] if USUAL.get(unknown) in known else difflib.get_close_matches(unknown, known, 1, 0.5)
    return f"; did you mean '{near[0]}'?" if near else ""


def _plain(problem: str, parameters: Mapping[str, inspect.Parameter]) -> str:
    """Return the text of the TypeError for arguments that do not fit the signature, worded as in Python's own errors.

    `problem` is the text of the error of ``Signature.bind``.
    """
    if problem == "too many positional arguments":
        most = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters.values())
        by_name = next((p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY), "rng")
        return f"takes at most {most} positional arguments; give the others by name, as in {by_name}=..."
    if problem.startswith("multiple values"):
        return f"got {problem}"
    missing = problem.removeprefix("missing a required argument: ")
    return problem if missing == problem else f"missing a required argument: {missing}"


def _outcome(signature: inspect.Signature, name: str, answer: Callable[..., Any], args: Any, keywords: Any) -> Any:
    """Return the result of a call of the public function `name`, or the exception that the caller is to raise.

    `answer` computes the result from a dict of all arguments. The stack frames of its exception are removed, because
    the frames would hold rows of the data. If the arguments do not fit `signature`, a TypeError is returned, or a
    FormulaError if the first argument should be a formula and is not a string.
    """
    arguments = bound(signature, name, args, keywords)
    if isinstance(arguments, str):
        first = args[0] if args and next(iter(signature.parameters)) == "formula" else ""
        return formula_error(name.removeprefix("dp_"), first) or TypeError(arguments)
    try:
        return answer(arguments)
    except BaseException as error:  # an error of this package or an interrupt; its stack frames are removed
        return error.with_traceback(None)
