"""The methods paragraph of a fit, and its record for the registry of deployments."""

import json
import re
from dataclasses import replace

import pytest

import privstats as ps
from privstats.errors import PrivacyError
from privstats.privacy.promise import Neighbors, Promise
from privstats.results.deployment import VARIANTS
from privstats.results.results import Results
from privstats.results.statement import METHOD_PAPERS, PROMISE_PAPERS
from privstats.version import VERSION
from tests.results import fits
from tests.results.test_words import NEVER, words_of

PERSONS = Neighbors("replace", "person_id", 2)
FITS = {
    "eps": lambda: fits.results(fits.LM),
    "mu, shared": lambda: fits.results(
        fits.MU, fits.mu_facts(), fits.shared_ledger(ps.GaussianDP(2), ps.GaussianDP(1))
    ),
    "taus": lambda: fits.results(fits.RQ, fits.rq_facts()),
    "quantiles": lambda: fits.results(fits.QUANTILES, fits.quantile_facts()),
    "means": lambda: fits.results(fits.MEANS, fits.mean_facts()),
    "partly": lambda: fits.results(fits.PARTLY, fits.partly_facts()),
    "odds": lambda: fits.results(fits.ODDS, fits.glm_facts()),
    "chain": lambda: fits.results(fits.LM, chain=200),
}


def plain(fit):
    """Return the methods paragraph of a fit in one line."""
    return " ".join(fit.statement().split())


def changed(fit, **facts):
    return Results(fit.estimate, replace(fit.facts, **facts), fit.releases, fit.account)


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_a_statement_is_prose_of_eighty_columns_with_references(fit):
    text = fit().statement()
    assert max(map(len, text.splitlines())) <= 80
    paragraph, references = text.split("\n\nReferences\n")
    assert paragraph.endswith(".")
    assert re.search(r"\(\d{4}\)", references)
    prose = " ".join(paragraph.split()).replace(fit().formula, "")
    assert not words_of(prose) & set(NEVER)
    assert not re.search(r"[{}]|None|\bnan\b|  ", paragraph)
    for needed in (fit().formula, f"version {VERSION}", fit().mech, "one row is replaced"):
        assert needed in " ".join(paragraph.split())


def test_a_statement_says_what_was_fitted_how_much_is_protected_and_where_numbers_are_from():
    text = plain(FITS["eps"]())
    assert "satisfies differential privacy with eps = 1: where one row is replaced" in text
    assert "at most exp(1) = 2.72" in text
    assert "about 20,159 rows were used, a released count with a standard error of 50" in text
    assert "The method is noisy moments (suffstats) with matrixt noise, chosen automatically." in text
    assert "levels 8%, scales 5%" in text
    assert "the error variance may differ between rows (HC1)" in text
    assert "between 28% and 86% is due to that noise" in text
    assert "Awan and Slavkovic (2021)" in text
    assert "tau = 0.1, 0.5, 0.9" in plain(FITS["taus"]())
    assert "the levels 0.25, 0.5, 0.75" in plain(FITS["quantiles"]())
    assert "a budget that it shares with other releases" in plain(FITS["mu, shared"]())
    assert "Not given, as the releases do not identify them: np.log(rooms), " in plain(FITS["partly"]())
    assert "a Markov chain, whose distance from it is measured and not proved" in plain(FITS["chain"]())


def test_a_statement_names_persons_weights_bounds_that_were_estimated_and_seeds():
    fit = FITS["eps"]()
    persons = changed(fit, promise=ps.PureDP(1, PERSONS), rows=None, units=6730, cov_type="cluster", weights="w")
    text = plain(persons)
    assert "The data are of 6,730 person_ids, which is public" in text
    assert "Of the rows of one person_id at most 2 count." in text
    assert "where all rows of one person_id are replaced" in text
    assert "rows of one person_id may depend on each other" in text
    assert "weights w" in text
    estimated = changed(fit, estimated_bounds=(("mdvis", 0.0, 77.0),), budget=(("bounds", 0.1), ("moments", 0.9)))
    assert "The bounds of mdvis (0 to 77) were estimated privately, with 10% of eps." in plain(estimated)
    assert "so the results are not private. Unseeded, the fit satisfies" in plain(changed(fit, seeded=1))
    private = changed(fit, promise=ps.PureDP(1, Neighbors("add_remove")), rows=None)
    assert "The number of rows is private; about 20,159 rows were used" in plain(private)
    assert "where one row is added or removed" in plain(private)
    nothing = changed(fit, cov_type="nonrobust", subset="x > 0")
    assert "outside of the subset" in plain(nothing)
    assert "under a constant error variance" in plain(nothing)


def test_bounds_that_were_declared_are_told_of_the_columns_that_are_read():
    domain = {"y": (0, 10), "g": ["a", "b"], "unread": (0, 1)}
    data = {"y": [1.0, 2.0] * 50, "g": ["a", "b"] * 50, "unread": 0.5}
    fit = ps.dp_mean("y ~ g", ps.datasets.pd.DataFrame(data), eps=1, domain=domain)
    assert "moved to the nearer one: y 0 to 10; g levels 'a', 'b'." in plain(fit)


@pytest.mark.parametrize("kind", Promise.__subclasses__(), ids=lambda kind: kind.__name__)
def test_every_kind_of_guarantee_has_a_paper_and_a_name_in_the_registry(kind):
    assert any(issubclass(kind, one) for one, _ in PROMISE_PAPERS)
    assert VARIANTS[kind][0] in ENUMERATIONS["variant_name"]


def test_every_method_has_a_paper():
    from privstats.models.base import METHODS

    # "adaptive" is replaced by other methods, "clipped" has no paper
    assert set(METHODS) - set(METHOD_PAPERS) == {"adaptive", "clipped"}


# The registry: its fields and values are those of schemas/deployments-schema.yaml in opendp/deployments-registry-data

FIELDS = {
    "": ["url_slug", "deployment"],
    "deployment": ["basic", "dp_variant", "privacy_loss", "deployment_model", "implementation", "administrative"],
    "basic": ["name", "data_curators", "description", "intended_use", "data_product_type", "data_product_region",
              "data_product_sector", "publication_date"],
    "data_curators": ["data_curator_name", "data_curator_type"],
    "dp_variant": ["variant_name", "data_domain", "unprotected_quantities"],
    "privacy_loss": ["privacy_unit", "privacy_unit_details", "number_of_privacy_units", "privacy_parameters",
                     "privacy_parameters_details"],
    "deployment_model": ["model_name", "model_name_details", "trust_assumptions", "actors", "release_type",
                         "release_type_details", "data_source_type", "data_source_type_details", "access_type",
                         "access_type_details"],
    "implementation": ["preprocessing_and_hyperparameter_tuning", "mechanisms", "composition", "post_processing",
                       "justification", "utility", "additional_information"],
    "administrative": ["evidence_sources", "status", "registry_authors", "tier"],
    "privacy_parameters": ["epsilon", "delta", "rho"],
}  # fmt: skip
ENUMERATIONS = {
    "variant_name": ["Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"],
    "model_name": ["Local", "Central", "Shuffle", "Federated", "Varies"],
    "release_type": ["One release", "Many releases"],
    "data_source_type": ["Static", "Dynamic"],
    "access_type": ["Interactive", "Non-interactive"],
    "data_product_type": ["Summary statistics", "Machine learning model", "Dataset", "Synthetic data"],
    "status": ["Draft"],
}
LINE = re.compile(r"( *)(?:(-)|(\w+):)(?: (\"(?:[^\"\\]|\\.)*\"|[\d.]+(?:e[+-]\d+)?))?(?:  # .+)?")


def read(text):
    """Return a deployment's parsed record of indented mappings and lists with JSON values; refuse anything else."""
    root = {}
    open_at = [(-1, root, "")]
    for line in text.splitlines()[1:]:
        indent, dash, key, leaf = LINE.fullmatch(line).groups()
        while open_at[-1][0] >= len(indent):
            open_at.pop()
        inside, name = open_at[-1][1:]
        if dash:
            continue
        assert key in FIELDS[name], (name, key)
        assert key not in inside or name == "data_curators"
        inside[key] = json.loads(leaf) if leaf is not None else {}
        if leaf is None:
            open_at.append((len(indent), inside[key], key))
    return root["deployment"]


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_a_record_has_the_fields_and_values_of_the_registry(fit):
    record = read(fit().deployment())
    assert set(record) == set(FIELDS["deployment"])
    leaves = {key: value for part in record.values() for key, value in part.items()}
    for name, known in ENUMERATIONS.items():
        assert leaves[name] in known
    assert leaves["tier"] == 2
    assert not re.search(r"[{}]|None|\bnan\b", json.dumps([v for v in leaves.values() if isinstance(v, str)]))


BUDGETS = [
    (ps.PureDP(0.5), "Pure DP", {"epsilon": 0.5}),
    (ps.ApproxDP(1, 1e-6), "Approximate DP", {"epsilon": 1.0, "delta": 1e-6}),
    (ps.GaussianDP(0.5), "Zero-concentrated DP", {"rho": 0.125}),
    (ps.PureDP(1, PERSONS), "Pure DP", {"epsilon": 1.0}),
]


@pytest.mark.parametrize(("promise", "name", "parameters"), BUDGETS, ids=str)
def test_a_record_has_the_guarantee_and_its_unit(promise, name, parameters):
    record = read(changed(FITS["eps"](), promise=promise, units=None).deployment())
    assert record["dp_variant"]["variant_name"] == name
    loss = record["privacy_loss"]
    assert loss["privacy_parameters"] == parameters
    assert loss["privacy_unit"] == (promise.neighbors.unit or "row")
    assert loss["number_of_privacy_units"] == 20190
    # YAML 1.1 reads 1e-06, without a decimal point, as a text
    assert "1.0e-06" in changed(FITS["eps"](), promise=BUDGETS[1][0]).deployment()


def test_a_private_number_is_left_open_and_a_seeded_fit_is_no_deployment():
    private = changed(FITS["eps"](), promise=ps.PureDP(1, Neighbors("add_remove")), rows=None)
    assert 'number_of_privacy_units: ""  # about how many; their number is private' in private.deployment()
    assert "the number of rows" not in private.deployment()
    with pytest.raises(PrivacyError, match=r"is seeded \(rng=1\).*; fit with rng=None, and register that fit"):
        changed(private, seeded=1).deployment()
