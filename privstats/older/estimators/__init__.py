"""Algorithms as conversations: functions of `ask`. They see releases, and never a row or a generator."""

from functools import partial

from privstats.older.estimators.base import Algorithm
from privstats.older.estimators.check import choose_quantile
from privstats.older.estimators.choose import choose
from privstats.older.estimators.counts import histogram, mode
from privstats.older.estimators.margins import with_margins
from privstats.older.estimators.means import chosen_means, means
from privstats.older.estimators.moments import suffstats
from privstats.older.estimators.newton import newton
from privstats.older.estimators.objective import perturbed
from privstats.older.estimators.one_step import one_step
from privstats.older.estimators.quantiles import quantiles
from privstats.older.estimators.several import quantile_regressions
from privstats.older.estimators.steps import by_steps
from privstats.older.mechanisms.quantile_regression.rejection import EXACT_DIM

NORMS = ("linf", "l1", "l2")
SAMPLED, WIDEST = (
    21,
    10.0,
)  # coefficients, and bound of |theta|_1, up to which exact rejection is quick (benchmarks/speed_kng.py)

ORDERED = (  # algorithms that choose among order statistics: their names, their mechanisms', their noises
    ("rank", "rank", ("rank",)),
    ("aq", "halving", ("rank",)),
    ("duff", "duff", ("duff",)),
    ("smoothsens", "smooth", ("cauchy", "laplace", "laplaceln", "gaussian")),
    ("ptr", "ptr", ("ptr",)),
    ("kng", "kng median", ("kng",)),
)

ESTIMATORS: dict[tuple[str, str], Algorithm] = {
    ("lm", "suffstats"): Algorithm(suffstats, ("matrixt", "hull", *NORMS, "gaussian"), ("ridge", "cov_type")),
    ("lm", "kng"): Algorithm(partial(choose, by="kng"), NORMS, ("theta_bound", "cov_type"), SAMPLED, WIDEST),
    ("lm", "expmech"): Algorithm(
        partial(choose, by="expmech"), ("loss",), ("theta_bound", "cov_type"), SAMPLED, WIDEST
    ),
    ("lm", "objpert"): Algorithm(partial(choose, by="objpert"), NORMS, ("theta_bound", "split", "cov_type")),
    ("lm", "newton"): Algorithm(newton, ("gaussian",), ("cov_type",), cov_type="HC"),
    ("huber", "newton"): Algorithm(one_step, ("gaussian",), ("cov_type",), cov_type="HC"),
    ("glm", "newton"): Algorithm(partial(with_margins, by=one_step), ("gaussian",), ("cov_type",), cov_type="HC"),
    ("glm", "objpert"): Algorithm(
        partial(with_margins, by=perturbed), NORMS, ("theta_bound", "split", "cov_type"), normal=False
    ),
    **{
        ("rq", mech): Algorithm(
            partial(quantile_regressions, fit=partial(choose_quantile, by=f"{mech} rq")),
            noises,
            ("theta_bound",),
            cov_type="kernel",
            normal=False,
            drawn=EXACT_DIM,
        )
        for mech, noises in (("kng", ("hull", *NORMS)), ("expmech", ("hull",)))
    },
    ("rq", "newton"): Algorithm(partial(quantile_regressions, fit=by_steps), ("gaussian",), cov_type="kernel"),
    **{
        (verb, mech): Algorithm(partial(quantiles, by=by), noises, normal=False, drawn=EXACT_DIM)
        for verb in ("median", "quantile")
        for mech, by, noises in ORDERED
    },
    ("mean", "laplace"): Algorithm(means, ("l1",)),
    ("mean", "knorm"): Algorithm(means, NORMS),
    ("mean", "gaussian"): Algorithm(means, ("gaussian",)),
    ("mean", "duff"): Algorithm(chosen_means, ("duff",)),
    ("mode", "permute_and_flip"): Algorithm(partial(mode, by="permute_and_flip"), ("permute_and_flip",)),
    ("mode", "expmech"): Algorithm(partial(mode, by="expmech mode"), ("expmech",)),
    ("mode", "duff"): Algorithm(partial(mode, by="duff mode"), ("duff",)),
    ("hist", "laplace"): Algorithm(histogram, ("l1",)),
    ("hist", "knorm"): Algorithm(histogram, NORMS),
    ("hist", "gaussian"): Algorithm(histogram, ("gaussian",)),
}
