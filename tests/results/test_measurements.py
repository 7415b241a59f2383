"""`measurements`: every released number with its law, as a frame and as JSON."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.mechanisms.additive.spherical import SphericalLaw
from privstats.mechanisms.objective.perturbation import TiltLaw
from privstats.privacy.promise import PureDP
from privstats.privacy.release import Release
from privstats.results.measurements import FORMS, as_json
from privstats.sets.vectors import Ball
from tests.architecture.leaks import frame
from tests.every import CALLS

NAMES = ("lm kng", "mean by group", "median cauchy")


@pytest.fixture(scope="module", params=NAMES)
def fit(request):
    return CALLS[request.param](frame(300), rng=1)


def test_each_released_number_has_a_row_and_its_standard_deviation(fit):
    table = fit.measurements()
    assert table["value"].to_numpy() == pytest.approx(np.concatenate([r.value for r in fit.releases]), nan_ok=True)
    for release, (_, part) in zip(fit.releases, table.groupby((table["index"] == 0).cumsum()), strict=True):
        assert set(part["question"]) == {release.name}
        assert set(part["cost"]) == {release.keeps.budget}
        assert part["coordinate"].is_unique
        if release.law is None:
            assert (part["law"] == "depends on the rows").all()
            assert part["sd"].isna().all()
        else:
            variance = np.resize(release.law.variance(), len(part))
            assert part["sd"].to_numpy() ** 2 == pytest.approx(variance)


def test_json_has_what_the_frame_has_and_all_parameters(fit):
    whole = json.loads(fit.measurements(json=True))
    assert [one["question"] for one in whole] == [release.name for release in fit.releases]
    for one, release in zip(whole, fit.releases, strict=True):
        assert one["coordinates"] == list(dict.fromkeys(one["coordinates"]))
        assert len(one["coordinates"]) == len(one["value"]) == len(release.value)
        assert one["cost"]["neighbors"] == "replace"
        if "covariance" in one["law"]:
            assert np.sqrt(np.diag(one["law"]["covariance"])) == pytest.approx(one["law"]["sd"])


def test_noise_of_a_choice_is_in_its_score_or_rank_and_that_of_a_sum_in_its_value(fit):
    where = fit.measurements().groupby("question")["noise_in"].first()
    for question, noise_in in where.items():
        wanted = "score" if question == "coefficients" else "rank" if question.startswith("interval") else "value"
        assert noise_in == ("" if question.startswith("quantile") else wanted)


def test_the_law_of_a_tilt_is_that_of_its_noise():
    law = TiltLaw(SphericalLaw(np.array([1.0, 2.0])), ridge=0.5)
    (one,) = json.loads(as_json([Release("coefficients", np.zeros(2), law, PureDP(1.0), Ball(2, 1.0))]))
    assert one["law"]["scale"] == [1.0, 2.0]
    assert one["law"]["ridge"] == 0.5
    assert one["law"]["noise"] == FORMS["SphericalLaw"].density
    assert one["coordinates"] == ["coefficient 0", "coefficient 1"]


def test_every_law_of_a_mechanism_has_a_form():
    """The table of released numbers names noise laws by their classes. A new class needs an entry in `FORMS`."""
    text = "\n".join(file.read_text() for file in (Path(ps.__file__).parent / "mechanisms").rglob("*.py"))
    laws = re.findall(r"^class (\w+Law)\b", text, re.MULTILINE)
    assert {*laws, "RankErrors"} - {"ScaledLaw"} == set(FORMS)


def test_two_sites_are_averaged_by_hand():
    """The mean over two sites is computed from the published numbers of both sites alone, as a reader would do."""
    rng = np.random.default_rng(1)
    sites = [pd.DataFrame({"x": rng.uniform(0, 4, n)}) for n in (400, 800)]
    domain = ps.Domain({"x": (0, 4)}, complete=True)
    fits = [ps.dp_mean("x", data, eps=2, domain=domain, mech="laplace", rng=s) for s, data in enumerate(sites)]
    sums = [fit.measurements().set_index("coordinate").loc["sum of column 0"] for fit in fits]
    mean = 2 + 2 * sum(one["value"] for one in sums) / 1200  # the sums are sums of values scaled to [-1, 1]
    sd = 2 * np.sqrt(sum(one["sd"] ** 2 for one in sums)) / 1200
    assert abs(mean - pd.concat(sites)["x"].mean()) < 5 * sd
