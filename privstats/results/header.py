"""Lines above and below the table in a summary: guarantee, rows, method, assumptions, ledger, budget, diagnostics."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from privstats.errors import BudgetError
from privstats.inference.notes import RELIABLE
from privstats.privacy.account import Account
from privstats.privacy.promise import ApproxDP, GaussianDP, Promise
from privstats.results.facts import FitFacts
from privstats.results.text import counted, percentages, short, significant

DELTA = 1e-6  # delta at which the eps implied by mu or rho is reported
QUESTIONS = {"hessian": "Hessian", "grid": "grid detection"}  # printed names of queries that have other names in code
UNSURE = 0.1  # the std error of the residual std dev is printed if it exceeds this share of the residual std dev
OF_LEVELS = ("hist", "mode")  # functions that accept both numeric columns and columns with levels
COVARIANCES = {
    "lm": "the error variance may differ between rows",
    "glm": "the variance need not be that of the family",
    "rq": "the density may differ between rows",
}
CONSTANT = {"lm": "constant error variance", "glm": "the variance is that of the family", "rq": "constant density"}


def guarantee(facts: FitFacts, chain: bool = False) -> str:
    """Return the privacy guarantee of a fit in words.

    If the noise has a seed, the text says that the seed makes the guarantee void. If `chain` is true (the result was
    drawn by a Markov chain), the text says that only the limit distribution of the chain is proved to be private.
    """
    promise = facts.promise
    if facts.seeded is not None:
        return f"{not_private(facts.seeded)}. With rng=None it would be {promise}"
    if chain:
        return (
            f"{promise.budget} for the target density; the sampler's distance is measured, not proved "
            f"(neighbours: {promise.neighbors})"
        )
    most, unit = promise.neighbors.rows_per_unit, promise.neighbors.unit
    each = "" if unit is None else f"; at most {most} rows of each count" if most > 1 else "; one row of each counts"
    return f"{promise}{each}{implied(promise, facts.kept)}"


def not_private(seed: int | str) -> str:
    """Return the words printed instead of the privacy guarantee of a fit whose noise was drawn with a seed."""
    return f"seeded: not private (rng={seed})"


def in_short(promise: Promise, seeded: int | str | None) -> str:
    """Return the privacy parameters of a guarantee as a short text for titles, such as "eps = 1".

    If the noise was drawn with a seed, `seeded`, the text is "seeded: not private (rng=...)", with this seed.
    """
    return promise.budget if seeded is None else not_private(seeded)


def implied(promise: Promise, kept: Promise | None = None) -> str:
    """Return a line of text with the eps, at delta = 1e-6, that a guarantee in mu or rho implies.

    If the fit also satisfies a guarantee `kept` that is stronger than `promise`, the eps is computed from `kept`. The
    text is empty if `promise` is in eps or in (eps, delta).
    """
    if promise.currency == "eps":
        return ""
    return f"\nimplies eps = {(kept or promise).to_approx(DELTA).eps:.3g} at delta = {DELTA:g}"


def rows(facts: FitFacts) -> str:
    """Return the number of rows, if it is public, and the number of rows used, if it was released, in words."""
    if facts.complete and facts.rows is not None:
        return f"{counted(facts.rows)} (public), all used (the columns are declared complete)"
    public = "the number is private"
    if facts.rows is not None:
        public = f"{counted(facts.rows)} (public)"
    elif facts.units is not None:
        public = f"{counted(facts.units)} {facts.neighbors.unit}s (public)"
    if facts.used is None:
        return f"{public}; the number used was not released" if facts.rows or facts.units else public
    used, sd = facts.used
    counts = "counts" if "group" in facts.keys else "count"
    what = "rows used" if facts.neighbors.unit is not None else "used"
    error = significant(sd) if sd < 1 else counted(sd)
    return f"{public}; about {counted(used)} {what} (released {counts}, std err {error})"


def method(facts: FitFacts, numbers: Mapping[str, int]) -> str:
    """Return a description of the method and the noise, with the reason for the choice of the method.

    `numbers` maps the keys of notes to the numbers under which the notes are printed.
    """
    noise = "" if facts.noise in (None, facts.mech) else f", noise {facts.noise}"
    why = facts.why
    for key, k in numbers.items():
        why = why.replace(f"{{{key}}}", f"[{k}]")
    return f"{facts.mech} ({facts.mech_words}){noise}" + (f"; {why}" if why else "")


def assumes(facts: FitFacts) -> str:
    """Return the assumptions of a fit in words: on bounds, on standard errors, and any other assumptions."""
    return "; ".join((_bounds(facts), *_covariance(facts), *facts.assumes))


def _bounds(facts: FitFacts) -> str:
    if not facts.estimated_bounds:
        return "declared bounds or levels" if facts.verb in OF_LEVELS else "declared bounds"
    (share,) = percentages([sum(part for name, part in facts.budget if name == "bounds")])
    spent, found = f"estimated with {share}% of {unit_of(facts.divided)}", facts.estimated_bounds
    if len(found) == 1:
        ((name, low, high),) = found
        return f"bounds of {name} {spent} ({low:.4g} to {high:.4g}), the others as declared"
    columns = ", ".join(f"{name} ({low:.4g} to {high:.4g})" for name, low, high in found)
    return f"bounds {spent}: {columns}; the others as declared"


def _covariance(facts: FitFacts) -> tuple[str, ...]:
    asked = facts.cov_type
    if asked is None:
        return ()
    if asked in ("HC2", "HC3"):
        return (f"HC1 in place of {asked}, which needs single leverages",)
    if asked == "nonrobust":
        return (f"nonrobust: {CONSTANT.get(facts.verb, CONSTANT['lm'])}",)
    if asked == "cluster":
        return (f"cluster: rows of one {facts.neighbors.unit} may depend on each other",)
    words = COVARIANCES.get(facts.verb, COVARIANCES["lm"])
    return (f"{'kernel' if facts.verb == 'rq' else asked}: {words}",)


def accepts(
    accepted: Iterable[tuple[str, float]], widths: Mapping[str, float], outcome: Callable[[float, float], str]
) -> str:
    """Return a sentence that compares interval widths with the widths that the user declared sufficient.

    Parameters
    ----------
    accepted : iterable of (str, float)
        Terms, each with the largest width of its 95% interval that the user declared sufficient.
    widths : mapping of str to float
        Actual or expected widths of the 95% intervals, by term.
    outcome : callable
        Function of a width in `widths` and the sufficient width; it returns the words that compare the two widths.
    """
    parts = (f"{term} at most {wanted:g} ({outcome(widths[term], wanted)})" for term, wanted in accepted)
    return f"95% intervals of widths stated beforehand: {', '.join(parts)}"


def met(width: float, wanted: float) -> str:
    """Return words that say whether the interval width `width` is at most `wanted`, the width declared sufficient."""
    if math.isnan(width):
        return "not met: no interval"
    return f"{'met' if width <= wanted else 'not met'}: {width:.3g}"


def ledger(facts: FitFacts, charged: Account) -> str:
    """Return the spent and remaining budget of the ledger in words, or words that say that there is no ledger."""
    if facts.charged:
        return facts.charged
    if not facts.shared:
        return f"none: this fit's {facts.promise.budget} is not added to any other"
    budget, name = charged.budget, charged.book.name
    try:
        spent, left = charged.spent(), charged.remaining()
    except BudgetError:  # the ledger cannot be read, for instance because its file is on another machine
        return f"{name}, which cannot be read here"
    delta = f" at delta = {budget.delta:g}" if isinstance(budget, ApproxDP) else ""
    of = budget.currency
    # the remaining mu has the label "mu =", because it is sqrt(total^2 - spent^2) and not the difference total - spent
    rest = f"{'mu = ' if of == 'mu' else ''}{_size(left):g} left"
    gone = "" if charged.book.kept else " (gone when Python ends)"
    return f"{name}: {of} = {_size(spent):g} of {_size(budget):g} spent{delta}, {rest}{gone}"


def _size(promise: Promise) -> float:
    return float(f"{promise.numbers[promise.currency]:.3g}")


def unit_of(promise: Promise) -> str:
    """Return the name of the budget that is divided among the releases of a fit.

    The name is "eps and delta" for a guarantee in (eps, delta), and otherwise "eps", "mu^2" or "rho".
    """
    return "eps and delta" if isinstance(promise, ApproxDP) else shared(promise)


def shared(promise: Promise) -> str:
    """Return the name of the privacy parameter that is additive under composition: eps, mu^2 or rho."""
    return "mu^2" if isinstance(promise, GaussianDP) else promise.currency


def budget(facts: FitFacts) -> str:
    """Return the releases of a fit in words, each with its share of the budget in whole percent."""
    shares = percentages(share for _, share in facts.budget)
    parts = (f"{QUESTIONS.get(name, name)} {share}%" for (name, _), share in zip(facts.budget, shares, strict=True))
    return f"of {unit_of(facts.divided)}: {', '.join(parts)}"


def diagnostics(facts: FitFacts, found: Mapping[str, float]) -> str:
    """Return a text with the noise_to_signal ratios of a fit, and the standard deviation or scale of its residuals.

    These ratios compare the noise in a released matrix with the information about the coefficients. `found` maps names
    of diagnostics, such as "noise_to_signal" and "sigma", to values. The text is empty if `found` has neither a
    noise_to_signal ratio nor a standard deviation or scale of residuals.
    """
    signals = [value for name, value in found.items() if _is_signal(name) and not math.isnan(value)]
    lost = found.get("noise_to_signal_unidentified", math.nan)
    parts: list[str] = []
    if signals:
        behind = "" if math.isnan(lost) else f"; {'at least ' * (lost > 99.9)}{short(lost)} where not identified"
        parts.append(f"noise_to_signal {_listed(signals)} (reliable below {RELIABLE:g}){behind}")
    sigmas = [value for name, value in found.items() if name.partition("[")[0] == "sigma" and not math.isnan(value)]
    if sigmas:
        kind = "scale" if facts.loss not in (None, "squares") else "std dev"
        error = found.get("sigma_std_err", math.nan)
        unsure = f" (std err {significant(error, 2)})" if len(sigmas) == 1 and error > UNSURE * sigmas[0] else ""
        parts.append(f"{'residual ' if facts.tested else ''}{kind} {', '.join(map(significant, sigmas))}{unsure}")
    return ", ".join(parts)


def _is_signal(name: str) -> bool:
    return name.partition("[")[0] == "noise_to_signal"


def _listed(values: Sequence[float]) -> str:
    return ", ".join(short(value) for value in values)
