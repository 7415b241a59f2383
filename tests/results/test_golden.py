"""Whole summaries of fits, compared with expected texts."""

import pytest

from privstats.privacy.promise import GaussianDP
from tests.results.fits import (
    LM,
    MEANS,
    MU,
    ODDS,
    PARTLY,
    QUANTILES,
    RQ,
    glm_facts,
    mean_facts,
    mu_facts,
    partly_facts,
    quantile_facts,
    results,
    rq_facts,
    shared_ledger,
)

GOLDEN = {
    "noisy moments under eps": (
        lambda: results(LM),
        """
Private linear regression: np.log1p(mdvis) ~ lncoins + disea + C(hlthf)
Guarantee    eps = 1 for any one row (neighbours: replace one row)
Rows         20,190 (public); about 20,159 used (released count, std err 50)
Method       suffstats (noisy moments), noise matrixt; chosen by auto: expected
             length 1.9 times that without privacy (newton: 2.3)
Assumes      declared bounds; HC: the error variance may differ between rows
Ledger       none: this fit's eps = 1 is not added to any other
--------------------------------------------------------------------------------
                        coef   std err       z   P>|z|    [0.025    0.975] noise
Intercept            0.7251    0.0273    26.56  <0.001   0.6716    0.7786    78%
C(hlthf)[T.1]        0.0180    0.0361     0.50   0.618  -0.0528    0.0888    49%
lncoins             -0.04664   0.00346  -13.48  <0.001  -0.05342  -0.03986   28%
disea                0.02825   0.00242   11.67  <0.001   0.02351   0.03299   86%
--------------------------------------------------------------------------------
Std err, P, interval include privacy noise; 'noise' is its share of std err^2.
Budget       of eps: levels 8%, scales 5%, coarse matrix 7%, moments 69%,
             meat 11%
Diagnostics  noise_to_signal 0.19 (reliable below 0.4), residual std dev 0.810
""",
    ),
    "clipped Newton steps under mu with a ledger": (
        lambda: results(MU, mu_facts(), shared_ledger(GaussianDP(2), GaussianDP(1))),
        """
Private linear regression: np.log1p(mdvis) ~ lncoins + disea + C(hlthf)
Guarantee    mu = 1 for any one row (neighbours: replace one row)
             implies eps = 4.89 at delta = 1e-06
Rows         20,190 (public); about 20,181 used (released count, std err 7)
Method       newton (clipped Newton steps), noise gaussian; chosen by auto:
             expected length 1.1 times that without privacy (suffstats: 1.3)
Assumes      declared bounds; HC: the error variance may differ between rows
Ledger       in memory: mu = 1 of 2 spent, mu = 1.73 left (gone when Python
             ends)
--------------------------------------------------------------------------------
                        coef   std err       z   P>|z|    [0.025    0.975] noise
Intercept           0.7098    0.0126     56.33  <0.001  0.6851    0.7345     17%
C(hlthf)[T.1]       0.0119    0.0246      0.48   0.629 -0.0363    0.0601      9%
lncoins            -0.04505   0.00300   -15.02  <0.001 -0.05093  -0.03917    10%
disea               0.029350  0.000919   31.94  <0.001  0.027549  0.031151   10%
--------------------------------------------------------------------------------
Std err, P, interval include privacy noise; 'noise' is its share of std err^2.
Budget       of mu^2: levels 8%, scales 4%, coarse matrix 8%, leverages 3%,
             Hessian 9%, first step 5%, meat 4%, score sizes 9%, score 50%
Diagnostics  noise_to_signal 0.04 (reliable below 0.4), residual std dev 0.773
[1] The scores of about 2.1% of the rows were clipped. This may move 'disea' by
    up to 0.0011, other coefficients by less than a std error; the intervals
    contain it. Remedy: closer bounds, or a larger budget.
""",
    ),
    "quantile regression at three tau": (
        lambda: results(RQ, rq_facts()),
        """
Private quantile regression: np.log(price) ~ np.log(sqft)
Guarantee    eps = 2 for any one row (neighbours: replace one row)
Rows         21,613 (public); about 21,610 used (released count, std err 11)
Method       kng (K-norm gradient), noise hull; chosen by auto: exact sampler,
             shortest expected intervals for two coefficients
Assumes      declared bounds; kernel: the density may differ between rows
Ledger       none: this fit's eps = 2 is not added to any other
--------------------------------------------------------------------------------
                 tau      coef   std err       z   P>|z|   [0.025   0.975] noise
Intercept        0.1   6.7420    0.0872    77.32  <0.001  6.5711   6.9129    19%
                 0.5   6.7810    0.0553   122.62  <0.001  6.6726   6.8894    11%
                 0.9   6.7350    0.0921    73.13  <0.001  6.5545   6.9155    22%
np.log(sqft)     0.1   0.7702    0.0115    66.97  <0.001  0.7477   0.7927    20%
                 0.5   0.83040   0.00731  113.60  <0.001  0.81607  0.84473   12%
                 0.9   0.9011    0.0122    73.86  <0.001  0.8772   0.9250    21%
--------------------------------------------------------------------------------
Std err, P, interval include privacy noise; 'noise' is its share of std err^2.
Budget       of eps: coefficients 55%, residual scale 5%, Hessian 40%
Diagnostics  noise_to_signal 0.05, 0.04, 0.05 (reliable below 0.4)
""",
    ),
    "quantiles": (
        lambda: results(QUANTILES, quantile_facts()),
        """
Private quantiles: foodexp
Guarantee    eps = 2 for any one row (neighbours: replace one row)
Rows         235 (public); the number used was not released
Method       rank (exponential mechanism on ranks); chosen by auto: exact and
             draws all quantiles together
Assumes      declared bounds
Ledger       none: this fit's eps = 2 is not added to any other
--------------------------------------------------------------------------------
                     q   estimate   std err    [0.025    0.975]   noise
foodexp           0.25      425.9      14.7     400.8     458.3     23%
                  0.5       565.0      19.0     521.8     596.2     26%
                  0.75      722.4      33.4     667.0     797.8     23%
--------------------------------------------------------------------------------
Std err and interval include privacy noise; 'noise' is its share of std err^2.
Intervals run between order statistics, so they need not be symmetric.
Budget       of eps: grid detection 9%, quantiles 91%
""",
    ),
    "means by group": (
        lambda: results(MEANS, mean_facts()),
        """
Private means by group: value ~ place
Guarantee    eps = 1 for any one row (neighbours: replace one row)
Rows         20,640 (public); about 20,645 used (released counts, std err 19)
Method       laplace (noisy sums), noise l1; chosen by auto: least noise here
Assumes      declared bounds; variances may differ between groups
Ledger       none: this fit's eps = 1 is not added to any other
--------------------------------------------------------------------------------
value by place        rows        mean   std err    [0.025    0.975]   noise
<1H OCEAN            9,133      240102      1134    237879    242325      4%
INLAND               6,560      124790       924    122979    126601     12%
ISLAND            not given [1]
NEAR BAY             2,281      259384      2710    254072    264696     12%
NEAR OCEAN           2,662      249190      2506    244278    254102     10%
--------------------------------------------------------------------------------
Std err and interval include privacy noise; 'noise' is its share of std err^2.
Budget       of eps: sums 100%
[1] ISLAND is not given: the released count is 9 with std err 8.5, so the group
    may be empty; about 26 rows are needed at eps = 1. Remedy: leave the level
    out of the declared levels, merge it with another level, or spend more.
""",
    ),
    "not given": (
        lambda: results(PARTLY, partly_facts()),
        """
Private linear regression:
  np.log(value) ~ np.log(income) + np.log(rooms) + np.log(households) + C(place)
Guarantee    eps = 1 for any one row (neighbours: replace one row)
Rows         20,640 (public); about 20,583 used (released count, std err 79)
Method       newton (clipped Newton steps), noise l2; chosen by auto, since
             suffstats cannot leave out a level [1]; expected length 3.1 times
             that without privacy
Assumes      declared bounds; HC: the error variance may differ between rows
Ledger       none: this fit's eps = 1 is not added to any other
--------------------------------------------------------------------------------
                        coef   std err       z   P>|z|    [0.025    0.975] noise
Intercept            11.4120    0.0412  276.99  <0.001   11.3312   11.4928   88%
np.log(income)        0.7043    0.0131   53.76  <0.001    0.6786    0.7300   90%
np.log(rooms)     not given [2]
np.log(households)
                  not given [2]
C(place)
  [T.INLAND]         -0.4781    0.0231  -20.70  <0.001   -0.5234   -0.4328   91%
  [T.ISLAND]      not given [1]
  [T.NEAR BAY]        0.0533    0.0342    1.56   0.119   -0.0137    0.1203   93%
--------------------------------------------------------------------------------
Std err, P, interval include privacy noise; 'noise' is its share of std err^2.
Budget       of eps: levels 8%, scales 5%, coarse matrix 7%, leverages 3%,
             Hessian 15%, first step 7%, meat 4%, score sizes 14%, score 37%
Diagnostics  noise_to_signal 0.31 (reliable below 0.4); 2.1 where not identified
[1] C(place)[T.ISLAND] is not given: about 41 rows have this level (released
    count, std err 35) and about 566 rows are needed at eps = 1. Rows with the
    level were left out of the fit. Remedy: spend more, or merge the level with
    the reference level.
[2] np.log(rooms) and np.log(households) are not given: they are nearly
    collinear, or vary little for their bounds, and the noise is 2.1 times the
    information that tells them apart. Remedy: leave one of them out, declare
    closer bounds, or make rows x budget 2.1 times as large.
""",
    ),
}
ODDS_RATIOS = """
Private logistic regression: I(affairs > 0) ~ religious + rate_marriage
Guarantee    eps = 2 for any one row (neighbours: replace one row)
Rows         6,366 (public), all used (the columns are declared complete)
Method       objpert (objective perturbation), noise linf; chosen by auto: the
             only method for this family under eps
Assumes      declared bounds; HC: the variance need not be that of the family
Ledger       none: this fit's eps = 2 is not added to any other
--------------------------------------------------------------------------------
                     coef   std err   P>|z|   odds ratio   [0.025   0.975] noise
Intercept          2.889     0.151   <0.001      17.98    13.37    24.17      5%
religious         -0.2871    0.0339  <0.001       0.7504   0.7022   0.8020    3%
rate_marriage     -0.7329    0.0311  <0.001       0.4805   0.4521   0.5107    6%
--------------------------------------------------------------------------------
Std err, P, interval include privacy noise; 'noise' is its share of std err^2.
Coef, std err and P are those of the log odds, the interval is the odds ratio's.
Budget       of eps: coefficients 64%, Hessian 18%, meat 18%
"""


@pytest.mark.parametrize("name", GOLDEN)
def test_a_summary_is_this_text(name):
    make, text = GOLDEN[name]
    assert str(make().summary()) == text.strip("\n")


def test_a_summary_of_exponentials_is_this_text():
    assert str(results(ODDS, glm_facts()).summary(exp=True)) == ODDS_RATIOS.strip("\n")
