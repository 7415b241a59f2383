"""A methods paragraph for a paper, which states the method and the privacy guarantee of a fit.

The paragraph contains only public information and released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np

from privstats.errors import listed
from privstats.privacy.promise import ApproxDP, GaussianDP, Neighbors, Promise, PureDP, ZeroCDP
from privstats.results.facts import FitFacts
from privstats.results.header import COVARIANCES, DELTA, QUESTIONS, unit_of
from privstats.results.numbers import FitNumbers
from privstats.results.text import counted, filled, percentages, significant
from privstats.version import VERSION

PURE = (
    "Dwork, McSherry, Nissim and Smith (2006), Calibrating noise to sensitivity in private data analysis, TCC 3, "
    "265-284."
)
APPROXIMATE = (
    "Dwork, Kenthapadi, McSherry, Mironov and Naor (2006), Our data, ourselves: privacy via distributed noise "
    "generation, EUROCRYPT 25, 486-503."
)
CONCENTRATED = (
    "Bun and Steinke (2016), Concentrated differential privacy: simplifications, extensions, and lower bounds, TCC 14, "
    "635-658."
)
NORMAL = "Dong, Roth and Su (2022), Gaussian differential privacy, JRSS B 84, 3-37."
STRUCTURE = "Awan and Slavkovic (2021), Structure and sensitivity in differential privacy, JASA 116, 935-954."
STEPS = "Avella-Medina, Bradshaw and Loh (2023), Differentially private inference via noisy optimization, AoS 51."
CHOICE = "McSherry and Talwar (2007), Mechanism design via differential privacy, FOCS 48, 94-103."
DISTANCE = "Gillenwater and Munoz Medina (2020), Duff: a dataset-distance-based utility function family."
SMOOTH = "Nissim, Raskhodnikova and Smith (2007), Smooth sensitivity and sampling in private data analysis, STOC 39."
METHOD_PAPERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "suffstats": (STRUCTURE,),
        "newton": (STEPS,),
        "ngd": (STEPS,),
        "noisy_newton": (STEPS,),
        "sgd": (NORMAL,),
        "kng": ("Reimherr and Awan (2019), KNG: the K-norm gradient mechanism, NeurIPS 32.",),
        "objpert": ("Kifer, Smith and Thakurta (2012), Private convex empirical risk minimization, COLT 25.",),
        "expmech": (CHOICE,),
        "rank": (CHOICE, "Gillenwater, Joseph and Kulesza (2021), Differentially private quantiles, ICML 38."),
        "aq": ("Kaplan, Schnapp and Stemmer (2022), Differentially private approximate quantiles, ICML 39.",),
        "duff": (DISTANCE,),
        "smoothsens": (SMOOTH,),
        "ptr": ("Dwork and Lei (2009), Differential privacy and robust statistics, STOC 41.",),
        "laplace": (PURE,),
        "gaussian": (NORMAL,),
        "knorm": (STRUCTURE,),
        "permute_and_flip": (
            "McKenna and Sheldon (2020), Permute-and-flip: a new mechanism for differentially private selection, "
            "NeurIPS 33.",
        ),
    }
)
ASSUMED = {"lm": "a constant error variance", "glm": "the variance of the family", "rq": "a constant density"}


def statement(fit: FitNumbers) -> str:
    """Return a paragraph on the methods of a fit, with references, in lines of at most 80 characters."""
    facts, chain = fit.facts, any(release.chain for release in fit.releases)
    sentences = [
        *_fitted(facts),
        *_rows(facts),
        guaranteed(facts, chain),
        method_stated(facts),
        *_divided(facts),
        *bounds_stated(facts),
        *_inference(fit),
        others_counted(facts),
    ]
    references = (*promise_papers(facts.promise), *METHOD_PAPERS.get(facts.mech, ()))
    lines = [*filled(" ".join(sentences)), "", "References"]
    return "\n".join((*lines, *(line for one in dict.fromkeys(references) for line in filled(one, "", "  "))))


def _fitted(facts: FitFacts) -> Iterable[str]:
    what = f"{facts.title[0].lower()}{facts.title[1:]}".replace(" (", ", ").replace(")", "")
    of = {"tau": "tau =", "q": "the levels"}
    parts = [f"the formula {facts.formula}"]
    for k, key in enumerate(facts.keys):
        if key in of:
            values = dict.fromkeys(f"{label[k]:g}" for label in facts.labels)
            parts.append(f"{of[key]} {', '.join(values)}")
    for name, text in (("weights", facts.weights), ("the offset", facts.offset), ("the subset", facts.subset)):
        if text is not None:
            parts.append(f"{name} {text}")
    yield (
        f"The estimates ({what}) are of {_and(parts)}, by the function dp_{facts.verb} of the Python package "
        f"privstats, version {VERSION}."
    )


def _rows(facts: FitFacts) -> Iterable[str]:
    unit = facts.neighbors.unit
    if facts.rows is not None:
        base = f"The data have {counted(facts.rows)} rows, which is public"
    elif facts.units is not None:
        base = f"The data are of {counted(facts.units)} {unit}s, which is public"
    else:
        base = "The number of rows is private"
    if facts.complete:
        base += "; all of them were used, as no value is declared to be missing"
    elif facts.used is not None:
        used, sd = facts.used
        error = significant(sd) if sd < 1 else counted(sd)
        base += f"; about {counted(used)} rows were used, a released count with a standard error of {error}"
    yield f"{base}."
    if not facts.complete:
        outside = ", or which lie outside of the subset" if facts.subset is not None else ""
        yield f"Rows in which a value is missing or a level is not declared{outside} were left out."
    if unit is not None:
        most = facts.neighbors.rows_per_unit
        yield f"Of the rows of one {unit} at most {most} count{'s' if most == 1 else ''}."


def guaranteed(facts: FitFacts, chain: bool) -> str:
    """Return the privacy guarantee of a fit in words: whose rows are protected, and the privacy parameters.

    The words also say if the noise was seeded, so that the fit is not private, or if a Markov chain drew a result
    (`chain`), so that the guarantee is proved only for the distribution that the chain approaches.
    """
    promise, changed = facts.promise, _changed(facts.neighbors)
    match promise:
        case ApproxDP(eps=eps, delta=delta):
            text = (
                f"satisfies (eps, delta)-differential privacy with eps = {eps:g} and delta = {delta:g}: where "
                f"{changed}, the probability of every set of results changes by a factor of at most exp({eps:g}) = "
                f"{_factor(eps)}, and by delta in addition"
            )
        case PureDP(eps=eps):
            text = (
                f"satisfies differential privacy with eps = {eps:g}: where {changed}, the probability of every result "
                f"changes by a factor of at most exp({eps:g}) = {_factor(eps)}"
            )
        case GaussianDP(mu=mu):
            text = (
                f"satisfies Gaussian differential privacy with mu = {mu:g}: whether {changed} is at least as hard to "
                f"tell from the results as N(0, 1) from N({mu:g}, 1) from one draw; this implies eps = "
                f"{promise.to_approx(DELTA).eps:.3g} at delta = {DELTA:g}"
            )
        case ZeroCDP(rho=rho):
            text = (
                f"satisfies zero-concentrated differential privacy with rho = {rho:g}: where {changed}, the Renyi "
                f"divergence D_a of the distribution of results from the other one is at most {rho:g} a for every a > "
                f"1; this implies eps = {(facts.kept or promise).to_approx(DELTA).eps:.3g} at delta = {DELTA:g}"
            )
        case _:
            text = f"satisfies {promise.budget}, where {changed}"
    if facts.seeded is not None:
        return f"The noise was seeded (rng={facts.seeded}), so the results are not private. Unseeded, the fit {text}."
    if chain:
        return (
            f"The distribution from which the result is drawn {text}; it is approached by a Markov chain, whose "
            "distance from it is measured and not proved."
        )
    return f"The fit {text}."


def _changed(neighbors: Neighbors) -> str:
    what = "one row" if neighbors.unit is None else f"all rows of one {neighbors.unit}"
    verb = "is" if neighbors.unit is None else "are"
    return f"{what} {verb} {'replaced' if neighbors.exchange else 'added or removed'}"


def _factor(eps: float) -> str:
    return f"{math.exp(min(eps, 700.0)):.3g}"


def method_stated(facts: FitFacts) -> str:
    """Return a sentence that names the method and says whether it was chosen automatically."""
    noise = "" if facts.noise in (None, facts.mech) else f" with {facts.noise} noise"
    auto = ", chosen automatically" if facts.why.startswith("chosen by") else ""
    return f"The method is {facts.mech_words} ({facts.mech}){noise}{auto}."


def _divided(facts: FitFacts) -> Iterable[str]:
    if len(facts.budget) > 1:
        shares = percentages(share for _, share in facts.budget)
        named = [QUESTIONS.get(name, name) for name, _ in facts.budget]
        parts = [f"{name} {share}%" for name, share in zip(named, shares, strict=True)]
        yield f"The budget was divided among the releases, in parts of {unit_of(facts.divided)}: {', '.join(parts)}."


def bounds_stated(facts: FitFacts) -> Iterable[str]:
    """Return a sentence on declared bounds and levels of columns, and a sentence on privately estimated bounds.

    A sentence is left out if no column has such bounds or levels.
    """
    design, estimated = facts.design, {name for name, *_ in facts.estimated_bounds}
    reads = () if design is None else tuple(n for n in design.reads if n in design.domain and n not in estimated)
    if design is not None and reads:
        known = "; ".join(f"{name} {design.domain[name]}" for name in reads)
        yield (
            f"Bounds and levels were declared from public knowledge, and values outside the bounds were moved to the "
            f"nearer one: {known}."
        )
    if facts.estimated_bounds:
        (share,) = percentages([sum(part for name, part in facts.budget if name == "bounds")])
        found = [f"{name} ({low:.4g} to {high:.4g})" for name, low, high in facts.estimated_bounds]
        yield f"The bounds of {_and(found)} were estimated privately, with {share}% of {unit_of(facts.divided)}."


def _inference(fit: FitNumbers) -> Iterable[str]:
    facts, (values, errors, low, _) = fit.facts, fit.estimate.coefficients(0.05)
    if np.isnan(low).all():
        yield "There are no standard errors and no intervals."
        return
    what = "Intervals" if np.isnan(errors).all() else "Standard errors and intervals"
    yield (
        f"{what} include both the sampling error and the noise added for privacy, and were computed from the releases "
        f"alone{_covariance(facts)}."
    )
    shares = fit.estimate.noise_share()
    known = [round(100 * share) for share in shares[np.isfinite(shares)]]
    if known:
        least, most = min(known), max(known)
        between = f"{most}%" if least == most else f"between {least}% and {most}%"
        yield f"Of the squared standard errors {between} is due to that noise."
    absent = [str(name) for name, value in zip(fit.names, values, strict=True) if math.isnan(value)]
    if absent:
        yield f"Not given, as the releases do not identify {'it' if len(absent) == 1 else 'them'}: {listed(absent)}."


def _covariance(facts: FitFacts) -> str:
    match facts.cov_type:
        case None:
            return ""
        case "nonrobust":
            return f", under {ASSUMED.get(facts.verb, ASSUMED['lm'])}"
        case "cluster":
            return f"; rows of one {facts.neighbors.unit} may depend on each other"
    robust = "" if facts.verb == "rq" else " (HC1)"
    return f"; {COVARIANCES.get(facts.verb, COVARIANCES['lm'])}{robust}"


def others_counted(facts: FitFacts) -> str:
    """Return a sentence that says whether the fit shares a budget with other releases from the same data."""
    if facts.shared:
        return "The fit was charged to a budget that it shares with other releases from the same data."
    return "Other releases from the same data are not counted in this guarantee."


def promise_papers(promise: Promise) -> tuple[str, ...]:
    """Return the references to papers that define a kind of privacy guarantee."""
    return next((papers for kind, papers in PROMISE_PAPERS if isinstance(promise, kind)), ())


PROMISE_PAPERS: tuple[tuple[type[Promise], tuple[str, ...]], ...] = (
    (ApproxDP, (APPROXIMATE,)),
    (PureDP, (PURE,)),
    (GaussianDP, (NORMAL,)),
    (ZeroCDP, (CONCENTRATED,)),
)


def _and(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
