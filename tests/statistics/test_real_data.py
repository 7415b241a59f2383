"""dp_lm on real data: close to least squares for its claimed standard errors, whatever the columns look like."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import privstats as ps
from vignettes.demo import DATASETS

SEEDS = range(20)


@pytest.mark.parametrize("name", DATASETS)
def test_private_estimates_stay_within_their_errors_of_the_fit_they_hide(real_data, name):
    regression = DATASETS[name]
    data = regression.load(*(real_data(file) for file in regression.files))
    truth = smf.ols(regression.formula, data).fit().params
    distances, shares = [], []
    for seed in SEEDS:
        fit = ps.dp_lm(regression.formula, data, 1.0, domain=regression.domain, rng=seed)
        noise = fit.bse * np.sqrt(fit.privacy_share)
        distances.append((fit.params - truth).to_numpy() / noise)
        shares.append(fit.privacy_share)
    distances = np.array(distances)
    # distance to the non-private fit is privacy noise alone: its squares average 1, to about 1 / sqrt(20)
    assert 0.3 < (distances**2).mean() < 2.0
    assert pd.DataFrame(shares).notna().all(axis=None)
