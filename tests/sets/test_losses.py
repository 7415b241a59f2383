"""Sets of losses: effects of a row on scores, losses and curvatures, compared with direct computation."""

import itertools

import numpy as np
import pytest

from privstats.errors import OptionError
from privstats.mechanisms.random import public_stream
from privstats.privacy.promise import Relation
from privstats.sets.cells import Cells, Line
from privstats.sets.losses import CheckLosses, SquaredLosses
from tests.conftest import thinned
from tests.sets.members import EXCHANGE, MISSING, NORMS, ONLY_APPEAR, RELATIONS, TOUGH

TAUS = (0.1, 0.5, 0.75, 0.9, 0.97)
taus = pytest.mark.parametrize("tau", TAUS)
relations = pytest.mark.parametrize("relation", RELATIONS.values(), ids=RELATIONS)


def size_of(norm, scores, tilt):
    """Return norms of scores, an array with the shape (..., m).

    For a score g with the first entry g_0, the norm "hull" is ``max(|g_0|, (|g|_inf + tilt |g_0|) / (1 + tilt))``.
    """
    if norm != "hull":
        return NORMS[norm](scores)
    first = np.abs(scores[..., 0])
    return np.maximum(first, (np.abs(scores).max(axis=-1) + tilt * first) / (1 + tilt))


def gradients(m, intercept, tau, steps=(-1.0, 0.0, 1.0)):
    """Return contributions to the score of rows with few predictor values, also with half weights, and of no row."""
    x = np.array(list(itertools.product(*([(1.0,)] if intercept else [steps]), *[steps] * (m - 1))))
    full = np.vstack([(1 - tau) * x, -tau * x])
    return np.vstack([np.zeros(m), full, full / 2, 0.3 * full[: len(x)] + 0.7 * full[len(x) :]])


@taus
@relations
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("norm", ["hull", "linf", "l1", "l2"])
def test_no_pair_of_rows_moves_the_score_of_check_losses_further_and_some_as_far(norm, m, intercept, relation, tau):
    within = CheckLosses(m, tau, 2.0, intercept)
    scores = gradients(m, intercept, tau)
    moves = (scores[:, None] - scores).reshape(-1, m) if relation.exchange else np.vstack([scores, -scores])
    farthest = size_of(norm, moves, within.tilt(relation.exchange)).max()
    assert farthest == pytest.approx(within.sensitivity(f"score {norm}", relation).size, rel=1e-12)


@taus
def test_the_ball_of_the_hull_norm_is_the_hull_of_differences(tau):
    tilt, scores = CheckLosses(3, tau, 2.0).tilt(True), gradients(3, True, tau, (-1.0, 1.0))
    moves = (scores[:, None] - scores).reshape(-1, 3)
    rows = public_stream(101).standard_normal((4000, 3))
    ball = rows / size_of("hull", rows, tilt)[:, None]
    corners = np.array([(s, *c) for s in (-1, 1) for c in itertools.product((-1, 1), repeat=2)], dtype=float)
    corners = np.vstack(
        [corners, [(0.0, *c) for c in (1 + tilt) * np.array(list(itertools.product((-1, 1), repeat=2)))]]
    )
    assert size_of("hull", corners, tilt) == pytest.approx(np.ones(len(corners)))
    # the support function of the differences of contributions equals the support function of the ball's corners
    for v in public_stream(102).standard_normal((100, 3)):
        support = (moves @ v).max()
        assert support == pytest.approx((corners @ v).max())
        assert (ball @ v).max() <= support * (1 + 1e-12)


@taus
@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("bound", [0.4, 2.0])
def test_no_row_varies_the_check_loss_by_more_than_twice_its_sensitivity_and_some_by_as_much(bound, exchange, tau):
    within = CheckLosses(2, tau, bound, False)
    size = within.sensitivity("loss", EXCHANGE if exchange else ONLY_APPEAR).size
    thetas = bound * np.array([(c, s * (1 - abs(c))) for c in np.linspace(-1, 1, 41) for s in (-1, 0.5, 1)])
    some = np.array(list(itertools.product((-1.0, -0.5, 0.0, 0.5, 1.0), repeat=3)))
    u = some[:, 2:] - some[:, :2] @ thetas.T
    losses = np.where(u > 0, tau * u, (tau - 1) * u)
    changes = (losses[:, None] - losses).reshape(-1, len(thetas)) if exchange else losses
    varied = np.ptp(changes, axis=1).max()
    assert 0.9 * 2 * size <= varied <= 2 * size * (1 + 1e-12)


def rows_of_box(m, intercept):
    """Return rows (1, x without the intercept, y) with entries at bounds, 0 or between, and weights 1, 1/2 or 0."""
    entries = m - intercept + 1
    rows = np.array([(1.0, *row) for row in itertools.product((-1.0, 0.0, 0.7, 1.0), repeat=entries)])
    return np.vstack([rows, np.sqrt(0.5) * rows, 0 * rows[:1]])


def points(m, bound):
    """Return points of ``|theta|_1 <= bound``: corners, the centre, and points of faces."""
    rng = np.random.default_rng(8)
    faces = rng.dirichlet(np.ones(m), 10) * rng.choice([-1, 1], (10, m))
    return bound * np.vstack([np.eye(m), -np.eye(m), np.zeros((1, m)), faces, 0.3 * faces])


@thinned(3)
@relations
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("m", [1, 2, 3])
def test_no_row_moves_score_loss_or_curvature_of_squares_further_and_some_nearly_as_far(m, intercept, relation):
    within = SquaredLosses(m, 1.5, intercept)
    rows = rows_of_box(m, intercept)
    parts = within.contribution(within.project(rows))
    A, b = (np.array(part) for part in zip(*map(within.normal_equations, parts), strict=True))
    full, y = (rows[:, :-1] if intercept else rows[:, 1:-1]), rows[:, -1]
    np.testing.assert_allclose(A, full[:, :, None] * full[:, None, :], atol=1e-6)
    np.testing.assert_allclose(b, full * y[:, None], atol=1e-6)
    assert np.linalg.eigvalsh(A).max() <= within.curvature
    reached = {}
    for theta in points(m, 1.5):
        scores, losses = A @ theta - b, (y - full @ theta) ** 2 / 2
        moves = (scores[:, None] - scores).reshape(-1, m) if relation.exchange else scores
        shift = np.subtract.outer(losses, losses) if relation.exchange else losses
        share = (1 + np.abs(theta).sum()) / 2.5
        sizes = {f"score {norm}": size_of(norm, moves, 0).max() / share for norm in ("l1", "l2", "linf")}
        for norm, size in {**sizes, "loss": np.abs(shift).max()}.items():
            reached[norm] = max(size, reached.get(norm, 0.0))
    for norm, size in reached.items():
        claim = within.sensitivity(norm, relation).size
        assert 0.99 * claim <= size <= claim * (1 + 1e-5)


@pytest.mark.parametrize("within", [SquaredLosses(2, 1.0), CheckLosses(2, 0.3, 1.0)], ids=str)
def test_noise_for_sums_refuses_sets_of_losses(within):
    for norm in ("l1", "l2", "linf", "hull", "nuclear"):
        with pytest.raises(OptionError, match="no sensitivity is proved"):
            within.sensitivity(norm, EXCHANGE)


LOSSES = [
    SquaredLosses(3, 1.0),
    SquaredLosses(2, 1.0, False),
    CheckLosses(2, 0.3, 1.0),
    CheckLosses(3, 0.5, 1.0, False),
]


@pytest.mark.parametrize("within", LOSSES, ids=str)
def test_projection_brings_everything_in_and_leaves_members_where_they_are(within):
    rows = np.random.default_rng(3).choice(TOUGH, (500, within.dim))
    inside = within.project(rows)
    assert np.isfinite(inside).all()
    assert np.abs(inside).max() <= 1
    np.testing.assert_array_equal(within.project(inside), inside)
    np.testing.assert_array_equal(within.project(rows[7:9]), inside[7:9])
    if getattr(within, "intercept", False):
        assert (inside[:, 0] >= 0).all()
        assert (np.abs(inside) <= inside[:, :1]).all()
    assert not within.folds


@pytest.mark.parametrize("within", [SquaredLosses(2, 1.0), CheckLosses(2, 0.3, 1.0)], ids=str)
def test_several_rows_move_a_score_as_many_times_as_far(within):
    for norm in ("score l1", "score linf", "loss"):
        assert within.sensitivity(norm, Relation(3, True, True)).size == 3 * within.sensitivity(norm, MISSING).size


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_parameter_sets_are_bounded_and_orders_are_inside(bad):
    for make in (lambda: SquaredLosses(2, bad), lambda: CheckLosses(2, 0.5, bad), lambda: CheckLosses(2, bad, 1.0)):
        with pytest.raises(OptionError):
            make()


def test_the_sensitivity_of_the_paper_is_too_small_at_high_levels():
    """Reimherr and Awan (2019, section 4.5) state the sensitivity 2 (1 - tau) for a replaced row.

    The scores of a row and of its mirror image differ by more.
    """
    scores = gradients(2, False, 0.9)
    moved = np.abs(scores[:, None] - scores).max()
    assert moved == pytest.approx(9 * 2 * (1 - 0.9)) == CheckLosses(2, 0.9, 1.0, False).distance("score linf")


# Values on a line


def test_values_are_moved_into_their_range_and_onto_its_grid():
    within = Line(-1.0, 2.5)
    assert within.project(np.array([[-9.0], [0.3], [np.nan], [np.inf], [-np.inf]])).ravel().tolist() == [
        -1,
        0.3,
        0,
        2.5,
        -1,
    ]
    assert Line(3.0, 5.0).project(np.array([[np.nan]])).tolist() == [[3.0]]
    gridded = Line(0.3, 2.9, 0.5)
    assert gridded.project(np.array([[0.0], [0.74], [0.76], [2.9], [9]])).ravel().tolist() == [0.5, 0.5, 1.0, 2.5, 2.5]
    rng = np.random.default_rng(4)
    for line in (within, gridded, Line(-1e300, 1e300, 0.0, 3)):
        inside = line.project(rng.choice(TOUGH, (200, line.dim)))
        assert ((inside >= line.low) & (inside <= line.high)).all()
        np.testing.assert_array_equal(line.project(inside), inside)


@pytest.mark.parametrize("bad", [(0.0, 0.0), (1.0, 0.0), (np.nan, 1.0), (0.0, np.inf), (0.1, 0.4, 1.0), (0, 1, -1.0)])
def test_ranges_and_grids_that_hold_no_value_are_refused(bad):
    with pytest.raises(OptionError):
        Line(*bad)


def test_values_and_cells_have_no_sensitivity_of_another_kind():
    assert Line(0, 1).sensitivity("rank", Relation(2, True, True)).size == 2
    with pytest.raises(OptionError, match="rank"):
        Line(0, 1).sensitivity("l1", MISSING)
    with pytest.raises(OptionError, match="not added"):
        Line(0, 1).total(np.zeros((1, 1)))
    with pytest.raises(OptionError, match="l2"):
        Cells(2).sensitivity("rank", MISSING)
