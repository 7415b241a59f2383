"""Functions of the local model, in which holders add noise to their own rows and send answers to a collector.

Tested are the collector's estimates, the total privacy loss of a holder, and errors about wrong calls.
"""

import inspect
import math

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats import local
from privstats.inference.local import DescentCollector, proportion
from privstats.mechanisms.comparison import local as holders
from tests.architecture.leaks import CANARIES, Spiteful, assert_holds_no_row, planted, refusal, reveals, spill
from tests.architecture.test_layers import ROOT, imports
from tests.every import DOMAIN

BOUNDS = ps.Domain({"x": (-1, 1), "y": (-2, 4)}, complete=True)
TRUTH = np.array([1.0, 0.8])
COLLECTOR = ROOT / "inference" / "local.py"


def data_of(n, rng):
    x = rng.uniform(-1, 1, n)
    return pd.DataFrame({"x": x, "y": TRUTH[0] + TRUTH[1] * x + 0.5 * rng.standard_normal(n)})


def descend(data, mu=1.0, formula="y ~ x", **more):
    return ps.local.local_gradient_descent(
        formula, data, mu, **{"domain": BOUNDS, "steps": 12, "step_size": 0.5, "rng": 1, **more}
    )


# --- randomised response ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eps", [0.1, 1.0, 4.0])
def test_the_proportion_is_unbiased_and_its_variance_that_of_the_answers(eps):
    n, kept = 1000, 1 / (1 + math.exp(-eps))
    for yes in range(0, n + 1, 100):
        share = (yes / n - (1 - kept)) / (2 * kept - 1)
        found, sd, lies = proportion(np.arange(n) < yes, eps)
        assert found == pytest.approx(share, abs=1e-12)
        inside = min(max(share, 0.0), 1.0)
        sent = kept * inside + (1 - kept) * (1 - inside)
        assert sd**2 == pytest.approx(sent * (1 - sent) / n / (2 * kept - 1) ** 2)
        assert lies * sd**2 == pytest.approx(kept * (1 - kept) / n / (2 * kept - 1) ** 2)


def test_intervals_of_proportions_cover():
    rng, hits, z = np.random.default_rng(11), [], []
    for _ in range(600):
        fit = ps.local.randomized_response(rng.uniform(size=400) < 0.3, 1.0, rng=rng)
        low, high = fit.conf_int()
        hits.append(low <= 0.3 <= high)
        z.append((fit.proportion - 0.3) / fit.bse)
    assert abs(np.mean(hits) - 0.95) < 4 * math.sqrt(0.95 * 0.05 / len(hits))
    # with noise of half the scale, this standard deviation would be far below 1
    assert np.std(z) == pytest.approx(1, abs=4 / math.sqrt(2 * len(z)))
    assert abs(np.mean(z)) < 4 / math.sqrt(len(z))


def test_an_answer_that_is_not_yes_counts_as_no_whatever_it_is():
    kinds = [True, 1, 1.0, np.bool_(True), np.int8(1)]
    odd = [False, 0, None, np.nan, pd.NA, np.inf, 7, -1, "yes", [1], Spiteful(), pd.NaT]
    for answers in (kinds + odd, tuple(kinds + odd), pd.Series(kinds + odd, dtype=object)):
        fit = ps.local.randomized_response(answers, 1000.0, rng=1)
        assert fit.proportion == pytest.approx(len(kinds) / (len(kinds) + len(odd)))
    for column in (
        np.array([True, False, False]),
        np.array([1.0, np.nan, np.inf]),
        np.array([1, None, "no"], dtype=object),
        pd.Series([True, None, False], dtype="boolean", index=[7, 7, 7]),
        pd.Series([1, None, 0], dtype="Int8"),
    ):
        assert ps.local.randomized_response(column, 1000.0, rng=1).proportion == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("answers", "eps", "kind", "words"),
    [
        ([True], 0.0, ps.BudgetError, "eps"),
        ([True], True, ps.BudgetError, "eps"),
        ([], 1.0, ps.PrivacyError, "no rows"),
        (pd.Series(["yes"], dtype="str"), 1.0, ps.OptionError, "texts; write answers == 'yes'"),
        (pd.Series(pd.to_datetime(["2020-01-01"])), 1.0, ps.OptionError, "dates"),
        (pd.DataFrame({"a": [True]}), 1.0, ps.OptionError, "a DataFrame; give a column"),
        (np.ones((3, 1)), 1.0, ps.OptionError, "give a column"),
    ],
)
def test_answers_are_refused_by_their_type_and_number_alone(answers, eps, kind, words):
    with pytest.raises(kind, match=words):
        ps.local.randomized_response(answers, eps)


@pytest.mark.parametrize("eps", [1e-300, 1e-9, 800.0, 1e308])
def test_any_eps_gives_a_proportion_and_an_interval(eps):
    fit = ps.local.randomized_response([True, False, True], eps)
    low, high = fit.conf_int(0.1)
    assert low <= fit.proportion <= high
    assert str(fit)


# --- local gradient descent: the collector ----------------------------------------------------------------------------


def test_the_collector_knows_no_holder_and_no_row():
    known = {name for name in imports(COLLECTOR) if name.startswith("privstats")}
    assert {name.split(".")[1] for name in known} == {"inference", "numerics"}
    taken = {name for one in (DescentCollector, DescentCollector.step, DescentCollector.estimate, proportion)
             for name in inspect.signature(one).parameters}  # fmt: skip
    assert taken == {
        *("self", "n", "steps", "step_size", "score_sd", "curvature_sd", "square_sd", "most"),
        *("theta", "scores", "curvatures", "squares", "names", "numeric", "sent", "eps"),
    }


def test_rows_reach_the_collector_through_answers_only(monkeypatch):
    def deaf(exact, sd, step, rng):
        return sd * rng.standard_normal(exact.shape) + np.linspace(0.4, 0.8, exact.shape[1])

    monkeypatch.setattr(holders, "_sent", deaf)
    rng = np.random.default_rng(12)
    here, there = (descend(data_of(5000, rng), mu=30.0) for _ in range(2))
    assert here.params.equals(there.params)
    assert here.cov_params().equals(there.cov_params())


def solved(x, y):
    """Return a robust regression estimate from scaled rows (x, y), and its sandwich covariance.

    The estimate uses Huber's psi and the weights ``min(1, 2 / |x|^2)``.
    """
    theta, w = np.zeros(x.shape[1]), np.minimum(1, 2 / (x**2).sum(axis=1))
    for _ in range(200):
        residual = y - x @ theta
        theta = theta + 0.5 * x.T @ (w * np.clip(residual, -1.345, 1.345)) / len(x)
    inside, psi = np.abs(residual) < 1.345, np.clip(residual, -1.345, 1.345)
    bread = np.linalg.inv(x.T @ (x * (w * inside)[:, None]))
    return theta, bread @ (x.T @ (x * (w * psi)[:, None] ** 2)) @ bread


def test_a_large_mu_gives_the_fit_without_privacy_and_incomplete_rows_count_for_nothing():
    rng = np.random.default_rng(14)
    n = 4000
    data = data_of(n, rng).assign(g=rng.choice(["a", "b"], n), z=rng.normal(10, 3, n))
    data["y"] += (data["g"] == "b") + 0.1 * data["z"]
    domain = {"x": (-1, 1), "y": (-3, 7), "g": ["a", "b"], "z": ps.Scale(10, 3)}
    root = math.sqrt(3)
    x = np.column_stack([np.ones(n), root * np.where(data["g"] == "b", 1, -1), root * data["x"], (data["z"] - 10) / 3])
    theta, covariance = solved(x, (data["y"].to_numpy() - 2) * root / 5)
    to = np.diag(5 / root / np.array([1, 1 / (2 * root), 1 / root, 3]))
    to[0, 1:] = -to[1:, 1:].diagonal() * [0.5, 0, 10]
    more = data.head(5).astype(object)
    for k, (name, cell) in enumerate({"y": None, "x": np.nan, "g": "undeclared", "z": "text"}.items()):
        more.iloc[k, more.columns.get_loc(name)] = cell
    for frame in (data, pd.concat([data.astype(object), more.head(4)], ignore_index=True)):
        fit = descend(frame, 1e6, "y ~ g + x + z", domain=domain, steps=200)
        assert fit.params.to_numpy() == pytest.approx(to @ theta + [2, 0, 0, 0], abs=1e-3)
        assert fit.bse.to_numpy() == pytest.approx(np.sqrt(np.diag(to @ covariance @ to.T)), rel=1e-2)
        assert (fit.noise_share < 0.01).all()


def test_intervals_cover():
    rng, hits, z = np.random.default_rng(15), [], []
    for _ in range(80):
        fit = descend(data_of(1500, rng), 8.0, rng=rng)
        interval = fit.conf_int()
        hits.append((interval[0] <= TRUTH) & (interval[1] >= TRUTH))
        z.append((fit.params - TRUTH) / fit.bse)
    assert abs(np.mean(hits) - 0.95) < 4 * math.sqrt(0.95 * 0.05 / np.size(hits))
    # with noise of half the scale, this standard deviation would be far below 1
    assert np.std(z) == pytest.approx(1, abs=4 / math.sqrt(2 * np.size(z)))
    assert fit.noise_share.min() > 0.8


def test_what_the_steps_have_left_of_the_start_is_allowed_for_and_said():
    rng = np.random.default_rng(16)
    fit = descend(data_of(5000, rng), 200.0, steps=3, step_size=0.2)
    interval = fit.conf_int()
    assert (abs(fit.params - TRUTH) > 5 * fit.bse).any()
    assert ((interval[0] <= TRUTH) & (interval[1] >= TRUTH)).all()
    assert "more steps, or a larger step_size" in " ".join(str(fit).split())


def test_a_coefficient_that_noise_hides_is_not_given():
    fit = descend(data_of(200, np.random.default_rng(17)), 0.01)
    assert fit.params.isna().all()
    assert fit.conf_int().isna().all(axis=None)
    assert "not given [1]" in str(fit)
    assert "Remedy" in fit.notes[0]


@pytest.mark.parametrize("mu", [1e-90, 1e-3, 1e6])
@pytest.mark.parametrize("n", [1, 3, 50])
@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ 0 + x", "y ~ x"])
def test_every_budget_and_number_of_rows_gives_a_result_that_prints(mu, n, formula):
    fit = descend(data_of(n, np.random.default_rng(n)), mu, formula)
    assert fit.params.index.equals(fit.bse.index)
    assert "local, mu" in " ".join(str(fit).split())


# --- local gradient descent: privacy ----------------------------------------------------------------------------------


def test_all_that_a_holder_sends_tells_mu_together_and_scores_as_much_as_they_may(monkeypatch):
    transcripts, mu, steps = [], 0.8, 5

    def listen(exact, sd, step, rng):
        transcripts[-1].append((exact[0] / sd).copy())
        return np.zeros(exact.shape)

    monkeypatch.setattr(holders, "_sent", listen)
    far = 1 / math.sqrt(3)  # the value of x at which the scaled row (1, x) has length sqrt(2)
    odd = [(far, 4.0), (far, -2.0), (1.0, 1.0), (-1.0, 1.0), (np.nan, 0.0), (0.0, np.inf)]
    for row in odd:
        data = data_of(20, np.random.default_rng(18))
        data.loc[0] = row
        transcripts.append([])
        descend(data, mu, steps=steps, domain={"x": (-1, 1), "y": (-2, 4)})
        assert len(transcripts[-1]) == steps + 2
    whole, scores = np.zeros((2, len(odd), len(odd)))
    for i, here in enumerate(transcripts):
        for j, there in enumerate(transcripts):
            told = [float(((a - b) ** 2).sum()) for a, b in zip(here, there, strict=True)]
            whole[i, j], scores[i, j] = sum(told), sum(told[:steps])
    assert whole.max() <= mu**2 * (1 + 1e-3)
    # with half of the noise, this sum of squared differences would be four times as large
    assert scores[0, 1] == pytest.approx(mu**2 * steps / (steps + 2), rel=1e-3)


def test_results_hold_no_rows():
    fit = descend(planted(), 100.0, "y ~ x + g", domain=DOMAIN)
    assert_holds_no_row(fit)
    answers = ps.local.randomized_response(planted()["b"], 1.0)
    assert_holds_no_row(answers)
    for one in (fit, answers):
        summary = one.summary()
        text = f"{one!r} {one} {summary.as_html()} {summary.as_latex()} {summary.as_markdown()}"
        assert not reveals(text)
        assert max(map(len, str(one).splitlines())) <= 80


REFUSED = {
    "formula": ("y ~ nowhere", ps.FormulaError, "no column 'nowhere'"),
    "data": (planted().to_dict(), ps.FormulaError, "data is a dict"),
    "mu": (-1.0, ps.BudgetError, "mu is -1.0"),
    "domain": ({"x": (0, 100)}, ps.DomainError, "column 'y' has no declared bounds"),
    "steps": (0, ps.OptionError, "steps is 0; give a whole number"),
    "step_size": (1.0, ps.OptionError, "between 0 and 1"),
    "rng": ("seed", ps.PrivacyError, "rng must be"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_the_cure_and_carries_no_row(name):
    value, kind, words = REFUSED[name]
    arguments = {"formula": "y ~ x", "data": planted(), "mu": 1.0, "domain": {"x": (0, 100), "y": (0, 100)}}
    arguments = {**arguments, "steps": 5, "step_size": 0.5, name: value}
    error = refusal(lambda: ps.local.local_gradient_descent(**arguments), kind)
    assert words in str(error)
    assert not any(reveals(text) for text in spill(error))


def test_wrong_calls_and_failures_carry_no_row(monkeypatch):
    for call in (
        lambda: ps.local.local_gradient_descent("y ~ x", planted(), 1.0, domain=DOMAIN, steps=5, canary=planted()),
        lambda: ps.local.randomized_response(planted()["b"], epsilon=1.0),
    ):
        error = refusal(call, TypeError)
        assert "unexpected keyword argument" in str(error)
        assert not any(reveals(text) for text in spill(error))

    def fails(*args):
        raise ValueError(f"{CANARIES[0]} {args}")

    monkeypatch.setattr(local, "_rows", fails)
    error = refusal(lambda: descend(planted(), domain=DOMAIN), ps.PrivacyError)
    assert not any(reveals(text) for text in spill(error))


@pytest.mark.parametrize("cell", [np.nan, None, np.inf, "text", Spiteful(), 1e308, pd.NA])
def test_no_cell_is_refused(cell):
    data = data_of(50, np.random.default_rng(19)).astype(object)
    data.iloc[0, 0], data.iloc[1, 1] = cell, cell
    assert len(descend(data).params) == 2


def test_a_seed_repeats_a_call_and_no_other_and_voids_the_guarantee():
    data = data_of(2000, np.random.default_rng(20))
    fit = descend(data, 20.0)
    assert fit.params.equals(descend(data, 20.0).params)
    for other in (descend(data, 20.0, rng=2), descend(data, 20.0, rng=None), descend(data, 20.0, steps=11)):
        assert not fit.params.equals(other.params)
    assert fit.guarantee == "local, mu = 20 for everything that a holder sends"
    assert "seeded: not private (rng=1)" in str(fit)
    assert "seeded" not in str(descend(data, 20.0, rng=None))
    for words in ("simulated in one process", "2,000 holders", "dp_lm(loss='huber', mech='newton')"):
        assert words in " ".join(str(fit).split())


class Loud:
    """A cell whose methods all raise an error that contains its value."""

    def __eq__(self, other):
        raise ValueError("SECRET 987654")

    __hash__ = __float__ = __str__ = __repr__ = __eq__


@pytest.mark.parametrize("answer", [987654.25, "987654.25", (987654.25,), {987654.25}, np.array([[987654.25]])])
def test_an_answer_that_is_no_column_is_not_quoted(answer):
    with pytest.raises(ps.PrivstatsError) as caught:
        ps.local.randomized_response(answer if not isinstance(answer, tuple) else {answer: 1}, eps=1.0)
    assert "987654" not in str(caught.value)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("cell", [Loud(), 10**400, "987654", None, np.array([1, 2]), float("inf")], ids=range(6))
def test_no_cell_makes_a_call_fail_or_warn(cell):
    column = pd.Series([1, 0, cell] * 40, dtype=object)
    ps.local.randomized_response(column, eps=1.0, rng=1)
    data = pd.DataFrame({"x": column, "y": np.linspace(0, 1, 120)})
    domain = {"x": (0, 1), "y": (0, 1)}
    ps.local.local_gradient_descent("y ~ x", data, 1.0, domain=domain, steps=2, step_size=0.5, rng=1)
