"""Families against statsmodels', and against numerical derivatives."""

import numpy as np
import pytest
import statsmodels.api as sm

from privstats.errors import PrivacyError
from privstats.older.losses.families import FAMILIES, Poisson, Probit, family_of

ETA = np.linspace(-6, 6, 41)
THEIRS = {
    ("binomial", "logit"): sm.families.Binomial(),
    ("binomial", "probit"): sm.families.Binomial(sm.families.links.Probit()),
    ("poisson", "log"): sm.families.Poisson(),
    ("gamma", "log"): sm.families.Gamma(sm.families.links.Log()),
}
each = pytest.mark.parametrize("key", FAMILIES)


@each
def test_means_slopes_and_variances_are_those_of_statsmodels(key):
    ours, theirs = FAMILIES[key](), THEIRS[key]
    mean = theirs.link.inverse(ETA)
    np.testing.assert_allclose(ours.mean(ETA), mean, rtol=1e-9)
    np.testing.assert_allclose(ours.slope(ETA), theirs.link.inverse_deriv(ETA), rtol=1e-7)
    np.testing.assert_allclose(ours.variance(ETA), theirs.variance(mean), rtol=1e-6)
    np.testing.assert_allclose(ours.weight(ETA), ours.slope(ETA) ** 2 / ours.variance(ETA), rtol=1e-6)


@each
def test_an_object_of_statsmodels_stands_for_its_family_and_link(key):
    assert family_of(THEIRS[key], None) == FAMILIES[key]()


def test_each_family_has_its_usual_link():
    assert family_of("binomial", None).link == "logit"
    assert family_of("poisson", None) == Poisson()
    assert family_of("binomial", "probit") == Probit()
    assert family_of("gaussian", None) is None
    assert family_of(sm.families.Gaussian(), None) is None


@pytest.mark.parametrize(
    ("family", "link"),
    [("tweedie", None), (7, None), ("poisson", "identity"), (sm.families.Gamma(), None), ("binomial", "cloglog")],
)
def test_other_families_and_links_are_refused(family, link):
    with pytest.raises(PrivacyError, match=r"family|link"):
        family_of(family, link)


def test_weights_far_out_stay_finite():
    for eta in (-30.0, 30.0):
        assert np.isfinite(Probit().weight(np.array([eta]))).all()
