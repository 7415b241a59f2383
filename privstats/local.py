"""The local model: each person (holder) randomises their own row before sending it, and no collector is trusted.

The functions `randomized_response` and `local_gradient_descent` simulate their protocols in one process. Both functions
are for teaching and comparison: with n persons, the noise of their estimates is of order 1 / sqrt(n), whereas a trusted
party could release estimates with noise of order 1 / n.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privstats.errors import DomainError, FormulaError, OptionError, PrivacyError, quote
from privstats.formula.cells import positions
from privstats.formula.design import Design, bind_regression
from privstats.formula.domain import Domain
from privstats.formula.kinds import kind_of, undeclared
from privstats.formula.language import parse_formula
from privstats.formula.schema import check_declared, check_schema, check_strays
from privstats.gate.gate import sealed
from privstats.inference.estimate import NumericColumns
from privstats.inference.local import DescentCollector, proportion
from privstats.mechanisms.comparison.local import RowHolder, randomised
from privstats.mechanisms.random import source, streams
from privstats.numerics.law import FloatArray
from privstats.privacy.promise import GaussianDP, PureDP, is_number
from privstats.results.local import LocalFit, LocalProportion
from privstats.workflow.call import public
from privstats.workflow.facts import seed_shown

__all__ = ["local_gradient_descent", "randomized_response"]

EXAMPLE = "y ~ x"
AFTER = 2  # number of messages that each person sends after the steps: the Hessian, and the matrix s s' of the score s


@public
def randomized_response(answers: Any, eps: float, *, rng: Any = None) -> LocalProportion:
    """Estimate the share of the answer yes if each person randomises their own answer before sending it.

    Each person sends the true answer with probability ``pi = e^eps / (1 + e^eps)`` and the opposite answer with
    probability 1 - pi [1]_.

    Parameters
    ----------
    answers : Series, ndarray of shape (n,), or list
        Truth values, or numbers 0 and 1, one for each person. Every value other than 1 or True counts as no, including
        a missing answer.
    eps : float
        Budget of each person: the message that a person sends satisfies pure differential privacy with this eps.
    rng : None, int or numpy.random.Generator
        None: noise from the operating system. A seed makes the result reproducible and not private.

    Returns
    -------
    LocalProportion
        A record with `proportion`, its standard error `bse`, `conf_int`, `n`, `guarantee` and `summary`. The proportion
        is ``(m - (1 - pi)) / (2 pi - 1)``, with m the share of yes among the sent answers; it may lie outside [0, 1].

    Raises
    ------
    OptionError, BudgetError, PrivacyError
        Whether an error is raised depends only on the arguments, on the type of `answers` and on the number of answers,
        which is public; it never depends on an answer.

    Notes
    -----
    With p the estimated proportion, clamped to [0, 1], and n the number of persons, the standard error is the root of
    ``p (1 - p) / n + pi (1 - pi) / (n (2 pi - 1)^2)``; intervals are normal. The answers are randomised with uniform
    random numbers of 53 bits, and eps is exact to a relative error of 1e-9. If a trusted party may store the answers,
    use `dp_mean`: its noise is of order 1 / n, and the noise here is of order 1 / sqrt(n).

    References
    ----------
    .. [1] Warner (1965), Randomized response: a survey technique for eliminating evasive answer bias, JASA 60.

    Examples
    --------
    >>> import numpy as np
    >>> import privstats as ps
    >>> fit = ps.local.randomized_response(np.arange(50_000) % 10 < 3, eps=1, rng=1)
    >>> round(fit.proportion, 2), round(fit.bse, 3), fit.guarantee
    (0.3, 0.005, 'local, eps = 1 for everything that a holder sends')
    """
    promise = PureDP(eps)
    chance = source(rng)
    truths = _truths(answers)
    n = _enough(len(truths))
    stream = streams(chance.seed, f"randomized response {promise.eps} {n}")
    sent = randomised(truths, promise.eps, stream("question", "answers"))
    return LocalProportion(*proportion(sent, promise.eps), n, promise, seed_shown(rng))


@public
def local_gradient_descent(
    formula: str,
    data: pd.DataFrame,
    mu: float,
    *,
    domain: Domain | Mapping[str, Any],
    steps: int,
    step_size: float,
    rng: Any = None,
) -> LocalFit:
    """Fit a robust linear regression in the local model, in which persons never send their rows.

    At each step every person sends the clipped score of their own row with added noise, and the collector moves the
    coefficients along the mean of these scores [1]_. The estimates are the coefficients after the last step.

    Parameters
    ----------
    formula : str
        Formula as in `dp_lm`, such as ``"y ~ x1 + C(region)"``.
    data : DataFrame
        The rows, one for each person. An incomplete row, or a row with an undeclared level, contributes noise only.
    mu : float
        Budget of each person for all their messages, in Gaussian differential privacy.
    domain : Domain or dict
        Bounds or levels of each column, as in `dp_lm`. The scale of a numeric predictor or of the response is its
        half-range divided by sqrt(3), or the scale that `Scale` declares. Declare narrow bounds.
    steps : int
        Number of steps K. Each person sends K scores and two matrices (see Notes); each message has the budget mu /
        sqrt(K + 2). About 20 steps are enough for two or three predictors at ``step_size=0.5``; the fit has a note
        if the estimates still depend on the starting value.
    step_size : float
        Step size (learning rate) eta, between 0 and 1; with a larger step size the steps might diverge.
    rng : None, int or numpy.random.Generator
        None: noise from the operating system. A seed makes the result reproducible and not private.

    Returns
    -------
    LocalFit
        A record with `params`, `bse`, `conf_int`, `cov_params`, `noise_share` (share of the squared `bse` that is due
        to noise), `guarantee` and `summary`, in the user's units. Standard errors and intervals include sampling error
        and noise.

    Raises
    ------
    OptionError, BudgetError, DomainError, FormulaError, PrivacyError
        Whether an error is raised depends only on the arguments, on the names and types of the columns, and on the
        number of rows, which is public; it never depends on the values in the rows.

    Notes
    -----
    Let the predictors x (with a constant 1 for the intercept) and the response y be centred at the middle of their
    bounds and divided by their scales. In a model without intercept, the predictors and the response are not centred,
    and the largest absolute value replaces the half-range in a scale. The fit estimates the coefficients theta that
    minimise the expectation of Huber's loss of the residual ``y - x'theta``, with threshold c = 1.345, multiplied by
    the weight ``min(1, 2 / |x|^2)``. If the errors are symmetric, theta is the coefficient vector of the conditional
    mean.

    The covariance of the last iterate is ``M^-1 Q M^-1 / n + eta (s^2 / n) (I - R^2K) M^-1 (2 I - eta M)^-1``. Here n
    is the number of persons, M the mean Hessian of their weighted losses, Q the mean of the products u u' of their
    scores u, ``s = 2 sqrt(2) c sqrt(K + 2) / mu`` the sd of the noise in each score, and R^2K the power 2 K of ``R = I
    - eta M``. M and Q are estimated from the two matrices that each person sends. A coefficient is NaN ("not given")
    if the noise in M is too large, relative to M, to identify the coefficient.

    If a trusted party may store the rows, use ``dp_lm(loss="huber", mech="newton", mu=...)``: its noise is of order 1
    / n, and the noise here is of order 1 / sqrt(n).

    References
    ----------
    .. [1] Avella-Medina, Bradshaw and Loh (2023), Differentially private inference via noisy optimization, AoS 51;
       here separate noise is added to every row, as local differential privacy (Kasiviswanathan et al. 2011) requires.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> import privstats as ps
    >>> x = np.linspace(-1, 1, 100_000)
    >>> data = pd.DataFrame({"x": x, "y": 2 + 3 * x + np.sin(1e5 * x)})
    >>> bounds = {"x": (-1, 1), "y": (-5, 10)}
    >>> fit = ps.local.local_gradient_descent("y ~ x", data, mu=2, domain=bounds, steps=20, step_size=0.5, rng=1)
    >>> bool((fit.params - [2, 3]).abs().lt(3 * fit.bse).all()), fit.guarantee
    (True, 'local, mu = 2 for everything that a holder sends')
    """
    promise = GaussianDP(mu)
    chance = source(rng)
    steps, step_size = _checked(steps, step_size)
    holder = RowHolder(promise.part(1 / (steps + AFTER)).mu)
    design = _bound_design(formula, domain, data)
    n, p, scales = _enough(len(data)), len(design.names), _scales(design)
    collector = DescentCollector(
        n, steps, step_size, holder.score_sd, holder.curvature_sd(p), holder.square_sd(p), holder.length**2
    )
    public = (formula, design.domain.to_json(), promise.mu, steps, step_size, n)
    stream = streams(chance.seed, f"local descent {public}")
    x, y = sealed(lambda: _rows(design, data, scales))
    theta = np.zeros(p)
    with np.errstate(all="ignore"):  # noise may cause overflows
        for k in range(steps):
            theta = collector.step(theta, holder.score(x, y, theta, stream("question", f"score {k}")))
        curvatures = holder.curvature(x, y, theta, stream("question", "curvature"))
        squares = holder.square(x, y, theta, stream("question", "square"))
        estimate = collector.estimate(theta, curvatures, squares, design.names, NumericColumns.of(design))
    matrix, shift = design.to_original()
    in_units = estimate.mapped(matrix * (scales[:-1] / scales[-1]), shift)
    return LocalFit(in_units, formula, n, steps, step_size, promise, seed_shown(rng))


def _truths(answers: Any) -> NDArray[np.bool_]:
    """Return a mask of the answers "yes", shape (n,); answers are converted one by one.

    Whether an error is raised depends on the type of `answers` only.
    """
    if isinstance(answers, list | tuple):
        column = pd.Series(list(answers), dtype=object)
    elif isinstance(answers, np.ndarray) and answers.ndim == 1:
        column = pd.Series(answers, dtype=answers.dtype)
    elif isinstance(answers, pd.Series):
        column = answers
    else:
        kind = type(answers).__name__  # the value itself may be an answer and is not shown
        raise OptionError(f"answers is a {kind}; give a column of truth values, such as data['smokes']")
    if column.dtype != object and (kind := kind_of(column.dtype)) not in ("truth", "number"):
        raise OptionError(f"answers are {'dates' if kind == 'dates' else 'texts'}; write answers == 'yes'")
    return sealed(lambda: np.asarray(positions(column, {1.0: 1}) == 1))


def _bound_design(formula: str, domain: Any, data: Any) -> Design:
    """Return the design made from a formula and a domain; the design defines the scaled model matrix of the regression.

    `data` is used only to check the names and types of its columns. Whether an error is raised does not depend on the
    values in the data.
    """
    if not isinstance(formula, str):
        raise FormulaError(f"the formula is {quote(formula)}; write it like '{EXAMPLE}'")
    design = bind_regression(formula, domain, centred=True)
    check_schema(data, design.reads)
    written = parse_formula(formula, EXAMPLE).written
    check_strays(design.domain, written, tuple(data.columns))
    check_declared(design.domain, written, data)
    if design.lacking:
        raise DomainError(undeclared(dict.fromkeys(design.lacking, "number")))
    return design


def _scales(design: Design) -> FloatArray:
    """Return the factors by which p predictors and the response, all in [-1, 1], are multiplied, shape (p + 1,).

    A factor is the half-range of the column divided by its scale. It is sqrt(3), unless `Scale` declares the scale of
    the column; for the intercept the factor is 1.
    """
    declared = design.declared_scales
    scales = np.where(declared < 1, 1 / declared, math.sqrt(3.0))
    if design.intercept:
        scales[0] = 1.0
    return scales


def _rows(design: Design, data: pd.DataFrame, scales: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the scaled predictors x, shape (n, p), and the scaled responses y, shape (n,), of n persons.

    The columns of the design and the response, scaled to [-1, 1], are multiplied by the p + 1 factors `scales`. In
    incomplete rows, x and y are zero.
    """
    block = design.block({name: data[name] for name in design.reads})
    z = block.times(np.diag(scales))
    z[~block.present] = 0.0
    return z[:, :-1], z[:, -1]


def _checked(steps: Any, step_size: Any) -> tuple[int, float]:
    whole = isinstance(steps, int | np.integer) and not isinstance(steps, bool)
    if not whole or steps < 1:
        raise OptionError(f"steps is {quote(steps)}; give a whole number from 1 on, such as steps=20")
    if not is_number(step_size) or not 0 < step_size < 1:
        raise OptionError(
            f"step_size is {quote(step_size)}; give a number between 0 and 1, beyond which steps may diverge"
        )
    return int(steps), float(step_size)


def _enough(n: int) -> int:
    if n < 1:
        raise PrivacyError("there are no rows; give at least one")
    return n
