"""Newton steps: what histograms tell, rows made alike, and a schedule that ends well whatever the data."""

import warnings

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.mechanisms.random import public_stream
from privstats.older.estimators.base import Facts
from privstats.older.estimators.newton import BURN, LONGEST, MAIN, newton
from privstats.older.estimators.tally import WINDOW, Tally
from privstats.older.estimators.whiten import prepare
from privstats.older.formula.design import bind
from privstats.older.formula.domain import Domain
from privstats.older.gate.gate import Conversation
from privstats.older.gate.questions import Score
from privstats.older.gate.rows import MemoryRows
from privstats.older.losses.leverage import Directions, Held, Pull, Whitened
from privstats.older.mechanisms import MECHANISMS
from privstats.older.mechanisms.additive.gaussian import NormalLaw
from privstats.older.privacy.events import GaussianEvent
from privstats.older.privacy.neighbors import Neighbors
from privstats.older.privacy.release import Release
from privstats.older.sets.leverage import Pulls

ENDS = np.array([1.0, 2.0, 4.0, 8.0])


def released(*values, noise=0.0):
    """A histogram as a mechanism with noise of this standard deviation would have released it."""
    spread = np.full(len(values), noise)
    return Release("sizes", np.array(values, dtype=float), NormalLaw(spread), GaussianEvent(1.0))


def test_quantiles_and_shares_are_those_of_the_bins():
    tally = Tally.of(released(10, 20, 60, 10), ENDS)
    assert [tally.quantile(level) for level in (0.05, 0.1, 0.3, 0.31, 0.9, 0.91, 1.0)] == [1, 1, 2, 4, 4, 8, 8]
    assert [tally.below(clip) for clip in (0.5, 1.0, 2.0, 4.0, 8.0)] == pytest.approx([0, 0.1, 0.3, 0.9, 1])


def test_moments_are_those_of_the_middles_of_the_bins():
    tally = Tally.of(released(10, 20, 60, 10), ENDS)
    middles = np.sqrt([0.5, 2, 8, 32])
    np.testing.assert_allclose(tally.middles, middles)
    for clip in ENDS:
        inside = clip >= ENDS
        mass = np.array([10, 20, 60, 10]) / 100
        assert tally.excess(clip) == pytest.approx(mass @ np.where(inside, 0, middles - clip))
        assert tally.clipped_square(clip) == pytest.approx(mass @ np.where(inside, middles, clip) ** 2)
    assert tally.excess(8.0) == 0


def test_bins_beyond_the_last_clear_window_are_emptied_and_those_before_it_kept():
    ends = 2.0 ** np.arange(20)
    values = np.zeros(20)
    values[[2, 7]] = 100.0, 9.0
    values[[8, 12, 17]] = 1.0, -3.0, 2.0  # within noise of 1 a bin
    tally = Tally.of(released(*values, noise=1.0), ends)
    assert tally.mass.nonzero()[0].tolist() == [2, 7]
    # a weight of 9 is clear in a window of six bins of noise 1, one of 5 is not
    values[7] = 5.0
    assert Tally.of(released(*values, noise=1.0), ends).mass.nonzero()[0].tolist() == [2]
    # spread over the bins of one window, what no bin shows the window does
    spread = np.where(np.arange(20) // WINDOW == 1, 1.5, values)
    assert Tally.of(released(*spread, noise=1.0), ends).mass.nonzero()[0].max() >= WINDOW


def test_what_emptied_bins_could_hide_counts_once_and_vanishes_with_the_noise():
    ends = 2.0 ** np.arange(20)
    values = np.where(np.arange(20) == 3, 1000.0, 0.0)
    hidden = [Tally.of(released(*values, noise=noise), ends).hidden(8.0) for noise in (0.0, 1.0, 10.0)]
    assert hidden[0] == 0
    assert hidden[2] == pytest.approx(10 * hidden[1])
    second = np.sqrt(16 * 32)  # the middle of the second emptied bin
    assert hidden[1] == pytest.approx(np.sqrt(WINDOW) * (second - 8) / 1000)
    assert Tally.of(released(*values, noise=1.0), ends).hidden(ends[-1]) == 0


@pytest.mark.parametrize("values", [np.zeros(4), -np.ones(4), np.full(4, -1e9)])
def test_a_histogram_of_nothing_but_noise_is_read_as_one_row_in_the_last_bin(values):
    tally = Tally.of(released(*values, noise=1.0), ENDS)
    assert tally.mass.tolist() == [0, 0, 0, 1]
    assert tally.quantile(0.5) == ENDS[-1]
    assert np.isfinite([tally.excess(1.0), tally.hidden(1.0), tally.clipped_square(2.0)]).all()


class Generous(Conversation):
    """A conversation whose noise is next to nothing."""

    def _turn(self, question, turn):
        return MECHANISMS[turn.mechanism].at(turn.share, 1e6)


def correlated(n=4000, d=4):
    """Predictors of different scale and place, two of them much alike; a few rows are missing."""
    rng = np.random.default_rng(3)
    Z = rng.standard_normal((n, d))
    Z[:, 1] = Z[:, 0] + 0.5 * Z[:, 1]
    X = np.clip(Z * [1.0, 0.5, 0.1, 2.0][:d] + [0.0, 0.4, -0.1, 1.0][:d], -10, 10)
    data = pd.DataFrame(X, columns=[f"x{k}" for k in range(d)]).assign(y=rng.uniform(-1, 1, n))
    data.loc[::9, "x0"] = np.nan
    return data


@pytest.mark.parametrize("intercept", [True, False])
def test_whitened_rows_are_uncorrelated_with_squares_that_average_to_one(intercept):
    data = correlated()
    design = bind(
        f"y ~ {int(intercept)} + x0 + x1 + x2 + x3", Domain({**{f"x{k}": (-10, 10) for k in range(4)}, "y": (-1, 1)})
    )
    talk = Generous(MemoryRows(data, design, Neighbors()), public_stream)
    facts = Facts(n=len(data), columns=4, intercept=intercept, complete=False, neighbors=Neighbors())
    ground = prepare(talk.ask, facts, "gaussian", 0.66)
    block = design.block(data)
    used = int(block.present.sum())
    assert ground.n == pytest.approx(used, abs=0.01)
    U = ground.held.whitened(block)
    assert (U[~block.present] == 0).all()
    m = 4 + intercept
    # a first look holds rows to sqrt(1.5 m), which shortens some: their moments come out larger in the end
    np.testing.assert_allclose(U.T @ U / used, np.eye(m), atol=0.35)
    held = ground.held.length(block)[:, None] * ground.directions(block)
    np.testing.assert_allclose(held.T @ held, ground.A, atol=1e-3 * used)
    assert np.linalg.cond(U.T @ U) < 3
    # coefficients of whitened rows, taken back, fit the same values
    theta = np.arange(1.0, m + 1)
    columns = np.column_stack([np.ones(len(data)), block.X])[:, 1 - intercept :]
    np.testing.assert_allclose((U @ theta)[block.present], (columns @ ground.T @ theta)[block.present], atol=1e-9)


def test_the_totals_of_scores_are_the_derivatives_of_the_clipped_losses():
    data = correlated().dropna()
    design = bind("y ~ x0 + x1", Domain({"x0": (-10, 10), "x1": (-10, 10), "y": (-1, 1)}))
    block = design.block(data)
    held = Held(Whitened(np.array([0.1, 0.2]), np.array([0.1, 0.05]), np.eye(3), True), 2.0)
    theta, clip = np.array([0.1, -0.2, 0.3]), 0.4
    U = np.column_stack([np.ones(len(data)), (block.X - [0.1, 0.2]) / [0.1, 0.05]])
    omega = np.minimum(1, 2.0 / np.linalg.norm(U, axis=1))
    latest = clip * 3**0.25 / np.sqrt(omega * np.linalg.norm(U, axis=1))  # rows of little leverage are clipped late
    psi = np.clip(block.y - U @ theta, -latest, latest)
    pull, directions = Pull(held, theta, clip), Directions(held.whitened)
    score = Score("score", pull, Pulls(3), directions).total(block)
    reach = held.reach(3) * clip
    np.testing.assert_allclose(reach * score.value(), (omega**2 * psi) @ U, atol=1e-6 * len(data))
    pulled = directions(block) * pull(block)[:, None]
    np.testing.assert_allclose(reach * pulled, (omega**2 * psi)[:, None] * U, atol=1e-9)


HARD = {
    "constant": lambda data: data.assign(y=3.0),
    "at the bound": lambda data: data.assign(y=10.0),
    "missing": lambda data: data.assign(x=np.nan),
    "all missing": lambda data: data.assign(x=np.nan, y=np.nan, g=None),
    "no number": lambda data: data.assign(x="text"),
    "separated": lambda data: data.assign(g=np.where(data["y"] > 0, "a", "b")),
    "one level": lambda data: data.assign(g="c"),
    "collinear": lambda data: data.assign(x=np.where(data["g"] == "a", 1.0, -1.0)),
    "constant predictor": lambda data: data.assign(x=0.7),
    "one far row": lambda data: data.assign(x=np.where(np.arange(len(data)) == 0, 5.0, 0.0)),
    "few": lambda data: data.head(5),
}


@pytest.mark.parametrize("mu", [1e-3, 1e5])
@pytest.mark.parametrize("hard", HARD)
def test_the_schedule_is_fixed_and_steps_are_capped_so_that_no_data_make_it_fail(hard, mu):
    rng = np.random.default_rng(4)
    data = pd.DataFrame({"y": rng.normal(0, 3, 80), "x": rng.normal(0, 1, 80), "g": rng.choice(list("abc"), 80)})
    domain = {"y": (-10, 10), "x": (-5, 5), "g": ["a", "b", "c"]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = ps.dp_lm("y ~ x + g", HARD[hard](data), mu=mu, mech="newton", domain=domain, rng=1)
        shown = str(fit.summary())
    assert np.isfinite(fit.params).all()
    assert not (fit.bse <= 0).any()
    assert "newton" in shown
    assert len(fit.releases) == 16


class Drowned(Conversation):
    """A conversation of which nothing is heard but noise; notes where each score was asked for."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.path = []

    def ask(self, questions, **how):
        if isinstance(questions, Score):
            self.path.append(questions.of.theta)
        return super().ask(questions, **how)

    def _turn(self, question, turn):
        return MECHANISMS[turn.mechanism].at(turn.share, 1e-6)


def test_no_step_is_longer_than_its_cap_however_large_the_noise():
    design = bind("y ~ x0 + x1", Domain({"x0": (-10, 10), "x1": (-10, 10), "y": (-1, 1)}))
    talk = Drowned(MemoryRows(correlated(100), design, Neighbors()), public_stream)
    facts = Facts(n=100, columns=2, intercept=True, complete=False, neighbors=Neighbors())
    assert np.isfinite(newton(talk.ask, facts, "gaussian").theta).all()
    lengths = np.linalg.norm(np.diff(talk.path, axis=0), axis=1)
    assert len(lengths) == BURN + MAIN - 1
    assert lengths.max() <= LONGEST * (1 + 1e-12)
    assert lengths.max() > 0.99 * LONGEST


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"mu": 0.0}, ps.BudgetError, "positive"),
        ({"mu": -1.0}, ps.BudgetError, "mu"),
        ({"mu": np.nan}, ps.BudgetError, "mu"),
        ({"mu": np.inf}, ps.BudgetError, "mu"),
        ({"mu": None, "eps": 1.0}, ps.BudgetError, "mu="),
        *(({"mu": None, "eps": 1.0, "delta": delta}, ps.BudgetError, "delta") for delta in (1.0, -1e-6, 2.0, np.nan)),
        ({"noise": "l1"}, ps.PrivacyError, "'gaussian'"),
        ({"ridge": 1.0}, ps.PrivacyError, "ridge"),
        ({"domain": {"x": (-5, 5)}}, ps.DomainError, "'y' has no finite bounds"),
        ({"domain": {"y": (-5, 5)}, "neighbors": "add_remove"}, ps.DomainError, "'x'"),
    ],
)
def test_bad_input_is_refused(change, error, says):
    data = pd.DataFrame({"y": np.linspace(-1, 1, 80), "x": np.linspace(-1, 1, 80)})
    with pytest.raises(error, match=says):
        ps.dp_lm("y ~ x", data, **{"mu": 1.0, "mech": "newton", "domain": {"y": (-5, 5), "x": (-5, 5)}, **change})


@pytest.mark.parametrize("price", [{"mu": 1.0}, {"eps": 2.0, "delta": 1e-6}])
def test_the_range_of_a_response_is_bought_where_rows_and_budget_suffice(price):
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, 200_000)
    data = pd.DataFrame({"x": x, "y": 1e6 + 3 * x + rng.standard_normal(len(x))})
    fit = ps.dp_lm("y ~ x", data, domain={"x": (-1, 1)}, rng=1, **price)
    assert fit.glance().loc[0, "mech"] == "newton"
    assert fit.bought == ("y",)
    assert fit.params["x"] == pytest.approx(3, abs=5 * fit.bse["x"])
    assert fit.bse["x"] < 0.05
