"""A record of a fit for the public registry of deployments of differential privacy, in YAML.

The fields follow schemas/deployments-schema.yaml in opendp/deployments-registry-data: all fields that this schema
assigns to its tier 2, and the fields of its tier 3 whose content is known. Fields that only the custodian can fill in
are empty, with a comment. Strings are written as in JSON, which is also YAML.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from privstats.errors import PrivacyError
from privstats.privacy.promise import ApproxDP, GaussianDP, Promise, PureDP, ZeroCDP
from privstats.results import header
from privstats.results.facts import COMBINED, FitFacts
from privstats.results.numbers import FitNumbers
from privstats.results.statement import (
    METHOD_PAPERS,
    bounds_stated,
    guaranteed,
    method_stated,
    others_counted,
    promise_papers,
)
from privstats.version import VERSION

VARIANTS: Mapping[type[Promise], tuple[str, Callable[[Any], dict[str, float]]]] = MappingProxyType(
    {  # name and parameters of each kind of guarantee in the registry; mu is recorded as rho = mu^2 / 2
        PureDP: ("Pure DP", lambda promise: {"epsilon": promise.eps}),
        ApproxDP: ("Approximate DP", lambda promise: {"epsilon": promise.eps, "delta": promise.delta}),
        GaussianDP: ("Zero-concentrated DP", lambda promise: {"rho": promise.mu**2 / 2}),
        ZeroCDP: ("Zero-concentrated DP", lambda promise: {"rho": promise.rho}),
    }
)
BY = (
    f"Implemented by dp_{{verb}} of the Python package privstats, version {VERSION}, whose PRIVACY.md says how "
    "rounding, random numbers and run times are dealt with."
)
TRUST = (
    "The curator, whose process reads the rows, is trusted: its memory, its disk, and everyone who can run code in it. "
    "Readers of the results may know everything about all other rows, and may work together."
)


@dataclass(frozen=True)
class Empty:
    """A field of the registry record that the custodian of the data must fill in.

    Parameters
    ----------
    hint : str
        Comment in the YAML text that explains the field.
    """

    hint: str


def deployment(fit: FitNumbers) -> str:
    """Return a record of a fit for the public registry of deployments of differential privacy, as YAML text.

    Raises
    ------
    PrivacyError
        If the noise was seeded.
    """
    if fit.facts.seeded is not None:
        raise PrivacyError(
            f"the noise of this fit is seeded (rng={fit.facts.seeded}), so that it protects nobody; fit with rng=None, "
            "and register that fit"
        )
    top = "# For https://github.com/opendp/deployments-registry-data; complete the fields with a comment."
    return "\n".join((top, *_lines(_record(fit)))) + "\n"


def _record(fit: FitNumbers) -> dict[str, Any]:
    facts, chain = fit.facts, any(release.chain for release in fit.releases)
    variant, parameters = VARIANTS[type(facts.promise)]
    unit = facts.neighbors.unit or "row"
    number = facts.rows if facts.units is None else facts.units
    return {
        "url_slug": Empty("a short name in lower case with hyphens"),
        "deployment": {
            "basic": {
                "name": Empty("of the data product"),
                "data_curators": [
                    {
                        "data_curator_name": Empty("who publishes it"),
                        "data_curator_type": Empty("Government, Industry or Nonprofit"),
                    }
                ],
                "description": f"{facts.title}: {facts.formula}",
                "intended_use": Empty("of the data product"),
                "data_product_type": "Summary statistics",
                "data_product_region": Empty("that the data describe"),
                "data_product_sector": Empty("Technology, Healthcare, Education, Government, Energy or Finance"),
                "publication_date": Empty("YYYY-MM-DD"),
            },
            "dp_variant": {
                "variant_name": variant,
                "data_domain": " ".join(("Tables of rows, of any number.", *bounds_stated(facts))),
                "unprotected_quantities": _unprotected(facts),
            },
            "privacy_loss": {
                "privacy_unit": unit,
                "privacy_unit_details": _unit_details(facts),
                "number_of_privacy_units": Empty("about how many; their number is private")
                if number is None
                else number,
                "privacy_parameters": parameters(facts.promise),
                "privacy_parameters_details": guaranteed(facts, chain) + _follows(facts.promise),
            },
            "deployment_model": {
                "model_name": "Central",
                "trust_assumptions": TRUST,
                "release_type": "One release",
                "release_type_details": others_counted(facts),
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": Empty(
                    "what was done with the data before, and was it counted"
                ),
                "mechanisms": f"{method_stated(facts)} {BY.format(verb=facts.verb)}",
                "composition": f"The budget of the fit is divided, {header.budget(facts)}"
                if facts.budget
                else f"Combined are {facts.mech_words}"
                if facts.mech == COMBINED
                else "One question is asked",
                "post_processing": "Estimates, standard errors and intervals are computed from the releases alone.",
                "justification": Empty("why these parameters"),
                "additional_information": " ".join(
                    (*promise_papers(facts.promise), *METHOD_PAPERS.get(facts.mech, ()))
                ),
            },
            "administrative": {"status": "Draft", "registry_authors": [Empty("who completes this record")], "tier": 2},
        },
    }


def _unprotected(facts: FitFacts) -> str:
    counted = "" if not facts.neighbors.exchange else f"the number of {facts.neighbors.unit or 'row'}s, "
    return (
        f"Public by declaration: {counted}the names of the columns, their declared bounds and levels, the formula and "
        "all options."
    )


def _unit_details(facts: FitFacts) -> str:
    neighbors = facts.neighbors
    if neighbors.unit is None:
        return f"Adjacent data sets: {neighbors}."
    return (
        f"Adjacent data sets: {neighbors}, with all of its rows, of which at most {neighbors.rows_per_unit} "
        "contribute, whichever they are."
    )


def _follows(promise: Promise) -> str:
    if not isinstance(promise, GaussianDP):
        return ""
    return f" The rho given here is mu^2 / 2, which follows from mu = {promise.mu:g}; mu is the stronger statement."


def _lines(value: Any, indent: str = "") -> Iterator[str]:
    """Return the lines of a mapping or a list in YAML, nested mappings and lists included."""
    entries = (
        [(f"{key}:", part) for key, part in value.items()] if isinstance(value, dict) else [("-", v) for v in value]
    )
    for key, part in entries:
        if isinstance(part, dict | list):
            yield f"{indent}{key}"
            yield from _lines(part, indent + "  ")
        else:
            yield f"{indent}{key} {_scalar(part)}"


def _scalar(value: Any) -> str:
    if isinstance(value, Empty):
        return f'""  # {value.hint}'
    if isinstance(value, float):  # a number has a decimal point, because YAML reads 1e-06 as text
        mantissa, sign, exponent = repr(float(value)).partition("e")
        return f"{mantissa}{'' if '.' in mantissa else '.0'}{sign}{exponent}"
    return json.dumps(value, ensure_ascii=False)
