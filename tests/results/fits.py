"""Synthetic fits: estimates with given numbers, and the public facts of a fit."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.stats import norm

from privstats.inference.estimate import Estimate
from privstats.inference.notes import Note
from privstats.privacy.ledger import Ledger
from privstats.privacy.promise import GaussianDP, PureDP
from privstats.privacy.release import Release
from privstats.results.facts import FitFacts
from privstats.results.results import Results


@dataclass(frozen=True, eq=False)
class Given(Estimate):
    """Independent normal estimates, with the interval limits `ends` if given, or else normal intervals."""

    names: tuple[str, ...]
    value: Any
    sd: Any
    share: Any
    ends: Any = None
    remarks: tuple[Note, ...] = ()
    diagnostics: Any = field(default_factory=dict)
    rows: Any = None
    margins: Any = None

    @property
    def notes(self):
        return self.remarks

    def contrast(self, R, alpha=0.05, q=0.0):
        R = np.atleast_2d(np.asarray(R, dtype=float))
        uses = R != 0
        lost = (uses & np.isnan(self.value)).any(axis=1)
        estimate = np.where(lost, np.nan, R @ np.nan_to_num(self.value))
        known = np.where(uses, np.asarray(self.sd, dtype=float), 0.0)
        sd = np.sqrt(((R * known) ** 2).sum(axis=1))
        half = norm.ppf(1 - alpha / 2) * sd
        low, high = estimate - half, estimate + half
        if self.ends is not None and R.shape[0] == R.shape[1] and (np.eye(len(R)) == R).all():
            low, high = (np.asarray(end, dtype=float) for end in self.ends)
        with np.errstate(divide="ignore", invalid="ignore"):
            p = 2 * norm.sf(np.abs(estimate - q) / sd)
        return estimate, np.where(lost, np.nan, sd), low, high, p

    def covariance(self):
        return np.where(np.isnan(np.add.outer(self.value, self.value)), np.nan, np.diag(np.square(self.sd)))

    def noise_share(self):
        return np.asarray(self.share, dtype=float)

    def wald(self, R, q=0.0):
        R = np.atleast_2d(R)
        distance = R @ self.value - q
        if np.isnan(distance).any():
            return np.nan, len(R), np.nan
        statistic = distance @ np.linalg.pinv(R @ self.covariance() @ R.T) @ distance
        return float(statistic), len(R), float(np.exp(-statistic / 2))

    def mapped(self, matrix, shift, names=None):
        return replace(self, value=matrix @ self.value + shift, sd=np.abs(matrix) @ self.sd, names=names or self.names)


def given(names, value, sd, share=0.1, **more):
    """Return estimates; the value, its sd and its share of noise may each be one number for all names."""
    k = len(names)
    full = [np.broadcast_to(np.asarray(part, dtype=float), (k,)).copy() for part in (value, sd, share)]
    return Given(tuple(names), *full, **more)


def facts(**changes):
    """Return the public facts of a linear regression under eps, with some of them changed."""
    usual = {
        "verb": "lm",
        "title": "Private linear regression",
        "formula": "np.log1p(mdvis) ~ lncoins + disea + C(hlthf)",
        "promise": PureDP(1),
        "mech": "suffstats",
        "mech_words": "noisy moments",
        "noise": "matrixt",
        "why": "chosen by auto: expected length 1.9 times that without privacy (newton: 2.3)",
        "rows": 20_190,
        "used": (20_159.2, 50.3),
        "cov_type": "HC",
        "budget": (
            ("levels", 0.08),
            ("scales", 0.05),
            ("coarse matrix", 0.07),
            ("moments", 0.69),
            ("meat", 0.11),
        ),
    }
    return FitFacts(**{**usual, **changes})


def releases(promise, chain=0):
    """Return a tuple with one release, of moments."""
    return (Release("moments", np.array([1.0, 2.0]), None, promise, None, chain),)


def results(estimate, fact=None, ledger=None, chain=0):
    """Return a result; without a given ledger, it has a ledger of its own, which is charged with its guarantee."""
    fact = fact or facts()
    own = ledger or Ledger(fact.promise)
    if ledger is None:
        own.charge([("whole", fact.promise)], "dp_lm")
    return Results(estimate, fact, releases(fact.promise, chain), own)


LM = given(
    ("Intercept", "C(hlthf)[T.1]", "lncoins", "disea"),
    (0.7251, 0.0180, -0.04664, 0.02825),
    (0.0273, 0.0361, 0.00346, 0.00242),
    (0.78, 0.49, 0.28, 0.86),
    diagnostics={"noise_to_signal": 0.19, "sigma": 0.810},
)
MU = given(
    LM.names,
    (0.7098, 0.0119, -0.04505, 0.029350),
    (0.0126, 0.0246, 0.00300, 0.000919),
    (0.17, 0.09, 0.10, 0.10),
    diagnostics={"noise_to_signal": 0.04, "sigma": 0.773},
    remarks=(
        Note(
            "clipped",
            "The scores of about 2.1% of the rows were clipped. This may move 'disea' by up to 0.0011, other "
            "coefficients by less than a std error; the intervals contain it. Remedy: closer bounds, or a larger "
            "budget.",
        ),
    ),
)


def mu_facts():
    """Return the facts for the expected summary of dp_lm under mu."""
    return facts(
        promise=GaussianDP(1),
        used=(20_181.0, 7.0),
        mech="newton",
        mech_words="clipped Newton steps",
        noise="gaussian",
        why="chosen by auto: expected length 1.1 times that without privacy (suffstats: 1.3)",
        shared=True,
        budget=(
            ("levels", 0.08),
            ("scales", 0.04),
            ("coarse matrix", 0.08),
            ("leverages", 0.03),
            ("hessian", 0.09),
            ("first step", 0.05),
            ("meat", 0.04),
            ("score sizes", 0.09),
            ("score", 0.50),
        ),
    )


TAUS = (0.1, 0.5, 0.9)
PAIRS = tuple((term, tau) for term in ("Intercept", "np.log(sqft)") for tau in TAUS)
RQ = given(
    tuple(f"{term}[{tau}]" for term, tau in PAIRS),
    (6.742, 6.781, 6.735, 0.7702, 0.8304, 0.9011),
    (0.0872, 0.0553, 0.0921, 0.0115, 0.00731, 0.0122),
    (0.19, 0.11, 0.22, 0.20, 0.12, 0.21),
    diagnostics={"noise_to_signal[0.1]": 0.05, "noise_to_signal[0.5]": 0.04, "noise_to_signal[0.9]": 0.05},
)


def rq_facts(**changes):
    """Return the facts for the expected summary of dp_rq."""
    usual = {
        "verb": "rq",
        "title": "Private quantile regression",
        "formula": "np.log(price) ~ np.log(sqft)",
        "promise": PureDP(2),
        "keys": ("term", "tau"),
        "labels": PAIRS,
        "rows": 21_613,
        "used": (21_610.0, 11.0),
        "mech": "kng",
        "mech_words": "K-norm gradient",
        "noise": "hull",
        "why": "chosen by auto: exact sampler, shortest expected intervals for two coefficients",
        "budget": (("coefficients", 0.55), ("residual scale", 0.05), ("hessian", 0.40)),
    }
    return facts(**{**usual, **changes})


QUANTILES = given(
    ("foodexp[0.25]", "foodexp[0.5]", "foodexp[0.75]"),
    (425.9, 565.0, 722.4),
    (14.7, 19.0, 33.4),
    (0.23, 0.26, 0.23),
    ends=((400.8, 521.8, 667.0), (458.3, 596.2, 797.8)),
)


def quantile_facts(**changes):
    """Return the facts for the expected summary of dp_quantile."""
    usual = {
        "verb": "quantile",
        "title": "Private quantiles",
        "formula": "foodexp",
        "promise": PureDP(2),
        "keys": ("term", "q"),
        "labels": tuple(("foodexp", q) for q in (0.25, 0.5, 0.75)),
        "rows": 235,
        "used": None,
        "mech": "rank",
        "mech_words": "exponential mechanism on ranks",
        "noise": None,
        "cov_type": None,
        "why": "chosen by auto: exact and draws all quantiles together",
        "budget": (("grid", 0.09), ("quantiles", 0.91)),
    }
    return facts(**{**usual, **changes})


PLACES = ("<1H OCEAN", "INLAND", "ISLAND", "NEAR BAY", "NEAR OCEAN")
MEANS = given(
    tuple(f"value[{place}]" for place in PLACES),
    (240102, 124790, np.nan, 259384, 249190),
    (1134, 924, np.nan, 2710, 2506),
    (0.04, 0.12, np.nan, 0.12, 0.10),
    rows=(9133.4, 6560.2, 9.1, 2281.0, 2662.3),
    remarks=(
        Note(
            "empty group",
            "ISLAND is not given: the released count is 9 with std err 8.5, so the group may be empty; about 26 rows "
            "are needed at eps = 1. Remedy: leave the level out of the declared levels, merge it with another level, "
            "or spend more.",
            ("value[ISLAND]",),
        ),
    ),
)


def mean_facts(**changes):
    """Return the facts for the expected summary of dp_mean by group."""
    usual = {
        "verb": "mean",
        "title": "Private means by group",
        "formula": "value ~ place",
        "keys": ("term", "group"),
        "labels": tuple(("value", place) for place in PLACES),
        "rows": 20_640,
        "used": (20_645.2, 19.2),
        "mech": "laplace",
        "mech_words": "noisy sums",
        "noise": "l1",
        "cov_type": None,
        "assumes": ("variances may differ between groups",),
        "why": "chosen by auto: least noise here",
        "budget": (("sums", 1.0),),
    }
    return facts(**{**usual, **changes})


HOUSES = (
    "Intercept",
    "np.log(income)",
    "np.log(rooms)",
    "np.log(households)",
    "C(place)[T.INLAND]",
    "C(place)[T.ISLAND]",
    "C(place)[T.NEAR BAY]",
)
PARTLY = given(
    HOUSES,
    (11.4120, 0.7043, np.nan, np.nan, -0.4781, np.nan, 0.0533),
    (0.0412, 0.0131, np.nan, np.nan, 0.0231, np.nan, 0.0342),
    (0.88, 0.90, np.nan, np.nan, 0.91, np.nan, 0.93),
    diagnostics={"noise_to_signal": 0.31, "noise_to_signal_unidentified": 2.1},
    remarks=(
        Note(
            "rare level",
            "C(place)[T.ISLAND] is not given: about 41 rows have this level (released count, std err 35) and about "
            "566 rows are needed at eps = 1. Rows with the level were left out of the fit. Remedy: spend more, or "
            "merge the level with the reference level.",
            ("C(place)[T.ISLAND]",),
        ),
        Note(
            "collinear",
            "np.log(rooms) and np.log(households) are not given: they are nearly collinear, or vary little for their "
            "bounds, and the noise is 2.1 times the information that tells them apart. Remedy: leave one of them out, "
            "declare closer bounds, or make rows x budget 2.1 times as large.",
            ("np.log(rooms)", "np.log(households)"),
        ),
    ),
)


def partly_facts(**changes):
    """Return the facts for the expected summary of dp_lm with coefficients that are not given."""
    usual = {
        "formula": "np.log(value) ~ np.log(income) + np.log(rooms) + np.log(households) + C(place)",
        "rows": 20_640,
        "used": (20_583.0, 79.0),
        "mech": "newton",
        "mech_words": "clipped Newton steps",
        "noise": "l2",
        "why": "chosen by auto, since suffstats cannot leave out a level {rare level}; expected length 3.1 times that "
        "without privacy",
        "budget": (
            ("levels", 0.08),
            ("scales", 0.05),
            ("coarse matrix", 0.07),
            ("leverages", 0.03),
            ("hessian", 0.15),
            ("first step", 0.07),
            ("meat", 0.04),
            ("score sizes", 0.14),
            ("score", 0.37),
        ),
    }
    return facts(**{**usual, **changes})


ODDS = given(
    ("Intercept", "religious", "rate_marriage"), (2.889, -0.2871, -0.7329), (0.151, 0.0339, 0.0311), (0.05, 0.03, 0.06)
)


def glm_facts(**changes):
    """Return the facts for the expected summary of dp_glm."""
    usual = {
        "verb": "glm",
        "title": "Private logistic regression",
        "formula": "I(affairs > 0) ~ religious + rate_marriage",
        "promise": PureDP(2),
        "rows": 6366,
        "used": None,
        "complete": True,
        "link": "logit",
        "mech": "objpert",
        "mech_words": "objective perturbation",
        "noise": "linf",
        "why": "chosen by auto: the only method for this family under eps",
        "budget": (("coefficients", 0.64), ("hessian", 0.18), ("meat", 0.18)),
    }
    return facts(**{**usual, **changes})


def shared_ledger(budget, spent):
    """Return a ledger with a budget and one charge, `spent`."""
    ledger = Ledger(budget)
    ledger.charge([("fit", spent)], "dp_lm")
    return ledger
