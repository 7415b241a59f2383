"""Laws of every bounding set: the clamp is the proof of the sensitivity."""

import itertools

import numpy as np
import pytest

from privstats.errors import PrivacyError
from privstats.older.gate import BOUNDS
from privstats.older.privacy.neighbors import Neighbors
from privstats.older.sets.base import Ball, Cube, Line, OneHot, Positive
from privstats.older.sets.check_losses import CheckScores
from privstats.older.sets.leverage import Bins, ColumnMoments, Products, Pulls, PullsAndScale
from privstats.older.sets.moments import Moments
from privstats.older.sets.powers import PowerSums
from privstats.older.sets.squared_losses import Scores
from tests.conftest import NORMS, norm_of

MEMBERS = [
    Ball(radius=2.5, dim=3),
    Cube(half=0.7, dim=4),
    Positive(top=0.7, dim=2),
    *(
        Moments(m, intercept, complete, 1.3, groups=groups)
        for m, groups in ((3, ((1, 2),)), (8, ((2, 3, 4), (5, 6))))
        for intercept, complete in itertools.product((True, False), (True, False))
    ),
    *(
        Moments(m, intercept, complete, last_scale=scale)
        for m, intercept, complete, scale in itertools.product((1, 2, 3, 6), (True, False), (True, False), (1.0, 1.7))
    ),
    *(ColumnMoments(columns, counted) for columns in (1, 2, 3, 7) for counted in (True, False)),
    ColumnMoments(0, counted=True),
    *(Pulls(dim) for dim in (1, 2, 3, 6)),
    *(PullsAndScale(m, kappa) for m in (1, 2, 3, 6) for kappa in (0.0, 0.39, 0.7, 1.0)),
    *(Products(m, pulled) for m in (1, 2, 3, 6) for pulled in (True, False)),
    Bins(np.array([-0.55, 0.25, 0.75])),
    Bins(np.array([0.0])),
    *(
        PowerSums(k, counted, squares)
        for k, counted, squares in itertools.product((1, 2, 3), (True, False), (True, False))
    ),
]
KINDS = ("replace", "add_remove")
KNOWN = {
    ColumnMoments: ("l2",),
    Pulls: ("l2",),
    PullsAndScale: ("l2",),
    Products: ("l2",),
    Bins: ("l1", "l2", "linf"),
    PowerSums: ("l1", "l2", "linf"),
}


def width(bound):
    """How many numbers make a row."""
    match bound:
        case Moments():
            return bound.m + 1
        case ColumnMoments():
            return bound.columns + 1
        case Pulls():
            return bound.dim + 1
        case PullsAndScale():
            return bound.m + 3
        case Products():
            return bound.m
        case Bins():
            return 2
        case PowerSums():
            return 1 + 2 * bound.columns  # squares are computed again
    return bound.dim


def known_norms(bound):
    return KNOWN.get(type(bound), tuple(NORMS))


CASES = [
    pytest.param(bound, norm, kind, id=f"{bound}-{norm}-{kind}")
    for bound, norm, kind in itertools.product(MEMBERS, (*NORMS, "nuclear", "hull"), KINDS)
    if norm in known_norms(bound)
    or (isinstance(bound, Moments) and norm == "nuclear" and bound.last_scale > 1)
    or (isinstance(bound, Moments) and norm == "hull" and bound.last_scale == 1)
    if not (isinstance(bound, Moments) and bound.complete and kind == "add_remove")
    if not (isinstance(bound, PowerSums) and bound.counted and kind == "add_remove")
]
# not claimed to be tight: the l1 norm of groups beside other entries, whose extremes differ
TIGHT = [
    case
    for case in CASES
    if width(case.values[0]) <= 4 and not (getattr(case.values[0], "groups", ()) and case.values[1] in ("l1", "linf"))
]
TOUGH = np.array([0.0, -0.0, 1.0, -1.0, 1e-300, 1e300, -1e300, np.inf, -np.inf, np.nan, 3.0, -0.4])


def needs_all(bound):
    """Whether the first entry of a row is a 1 that is never missing."""
    return getattr(bound, "complete", False) or (isinstance(bound, PowerSums) and bound.counted)


def contribution(bound, row):
    row = np.atleast_2d(row)
    return bound.embed(bound.project(row))[0]


def absent(bound):
    return np.zeros(bound.dim)


def gaps(bound, sensitivity, here, there):
    return norm_of(sensitivity)(np.atleast_2d(sensitivity.weights * (here - there)))[0]


def neighbouring_contributions(bound, kind, rng, tough):
    """A pair that one step of the relation may exchange; rows may be missing where the bound allows it."""
    draw = (lambda: rng.choice(TOUGH, width(bound))) if tough else (lambda: rng.choice([-1.0, 1.0, 0.0], width(bound)))

    def row():
        values = draw()
        if needs_all(bound):
            values[0] = 1.0
        return contribution(bound, values)

    return row(), (row() if kind == "replace" else absent(bound))


def test_every_bound_of_the_registry_is_examined():
    elsewhere = {Line, Scores, OneHot, CheckScores}  # tests/mechanisms: test_rank, _choose, _mode, _kng_quantile
    assert {type(bound) for bound in MEMBERS} | elsewhere == set(BOUNDS)


@pytest.mark.parametrize(("bound", "norm", "kind"), CASES)
def test_no_neighbour_moves_a_sum_further_than_its_sensitivity(bound, norm, kind):
    rng = np.random.default_rng(1)
    sensitivity = bound.sensitivity(norm, Neighbors(kind))
    for trial in range(200):
        here, there = neighbouring_contributions(bound, kind, rng, tough=trial % 2 == 0)
        assert gaps(bound, sensitivity, here, there) <= sensitivity.size * (1 + 1e-12)


def ascend(bound, sensitivity, kind, rng):
    """Coordinate ascent over pairs of rows, one of which may be absent: the largest gap found."""
    grid = np.linspace(-1, 1, 21) * (2.5 if isinstance(bound, Ball) else 1.0)
    pair = rng.choice(grid, (2, width(bound)))
    gone = kind == "add_remove" or (isinstance(bound, Moments) and not bound.complete and rng.random() < 0.5)
    fixed = isinstance(bound, Moments) or needs_all(bound)
    if fixed:
        pair[:, 0] = 1.0

    def gap(rows):
        there = absent(bound) if gone else contribution(bound, rows[1])
        return gaps(bound, sensitivity, contribution(bound, rows[0]), there)

    best = gap(pair)
    while True:
        before = best
        for side, column in itertools.product(range(1 if gone else 2), range(width(bound))):
            if fixed and column == 0:
                continue
            for value in grid:
                trial = pair.copy()
                trial[side, column] = value
                if (found := gap(trial)) > best:
                    best, pair = found, trial
        if best <= before:
            return best


@pytest.mark.parametrize(("bound", "norm", "kind"), TIGHT)
def test_some_neighbour_nearly_reaches_the_sensitivity(bound, norm, kind):
    # the l1 norm of a ball and the free scale of a Gram without intercept are bounds that a grid only approaches
    rng = np.random.default_rng(2)
    sensitivity = bound.sensitivity(norm, Neighbors(kind))
    reached = max(ascend(bound, sensitivity, kind, rng) for _ in range(5))
    # two rows of few entries that are full in all of them are not orthogonal, as the triangle inequality would have it
    share = 0.8 if norm == "nuclear" else 0.9 if getattr(bound, "groups", ()) else 0.95
    assert reached >= share * sensitivity.size


@pytest.mark.parametrize("bound", MEMBERS, ids=str)
def test_projection_leaves_members_where_they_are_and_brings_everything_in(bound):
    rng = np.random.default_rng(3)
    inside = bound.project(rng.choice(TOUGH, (500, width(bound))))
    assert np.isfinite(inside).all()
    lone = isinstance(bound, PowerSums) and bound.counted  # its 1 is not summed
    again = np.column_stack([np.ones(500), inside]) if lone else inside
    np.testing.assert_allclose(bound.project(again), inside, rtol=1e-15)


@pytest.mark.parametrize("bound", MEMBERS, ids=str)
def test_a_unit_of_k_rows_moves_a_sum_k_times_as_far(bound):
    if needs_all(bound):
        pytest.skip("units come with absent rows, which a complete bound does not admit")
    for norm in known_norms(bound):
        one = bound.sensitivity(norm, Neighbors("replace", unit="person"))
        five = bound.sensitivity(norm, Neighbors("replace", unit="person", rows_per_unit=5))
        assert five.size == 5 * one.size


def test_a_complete_bound_is_refused_where_the_number_of_rows_is_private():
    refused = [
        (Moments(2, intercept=True, complete=True), "count"),
        (PowerSums(2, counted=True), "number is not public"),
    ]
    for bound, says in refused:
        bound.sensitivity("l2", Neighbors("replace"))
        for neighbors in (Neighbors("add_remove"), Neighbors("replace", unit="person")):
            with pytest.raises(PrivacyError, match=says):
                bound.sensitivity("l2", neighbors)


@pytest.mark.parametrize("q", [1, 2, 5, 6, 13])
def test_moment_sensitivities_are_the_tight_ones_of_the_literature_corrected(q):
    declared, open_ = Moments(q, True, True), Moments(q, True, False)
    replace = Neighbors("replace")
    for bound in (declared, open_):  # the count of complete rows is free in all three norms
        assert bound.sensitivity("l1", replace).size == pytest.approx(q * (q + 2) ** 2 / (2 * (q + 1)))
        assert bound.sensitivity("l2", replace).size == pytest.approx(q + 1)
        assert bound.sensitivity("linf", replace).size == 2
    squares = declared.pairs[0] == declared.pairs[1]
    assert declared.sensitivity("l2", replace).weights[squares] ** 2 == pytest.approx((q + 3) / 2)


def test_an_unknown_norm_is_refused_with_the_known_ones():
    for bound in MEMBERS:
        with pytest.raises(PrivacyError, match=f"known: .*{known_norms(bound)[-1]}"):
            bound.sensitivity("l7", Neighbors())


CURVED = [
    *(Pulls(dim) for dim in (1, 2, 3, 6)),
    *(PullsAndScale(m, kappa) for m in (1, 2, 3, 6) for kappa in (0.0, 0.39, 0.7, 1.0)),
    *(Products(m, pulled) for m in (2, 3, 6) for pulled in (True, False)),
]
FINE = 1e-5  # rows are rounded to 2^-21 of their bounds, shifts of up to six entries by a few times that


def pairs_of_rows(rng, m, n=2000):
    """Pairs of rows of the unit ball: any two, those at right angles or on one line, and those at a given angle."""
    some = rng.standard_normal((n, m))
    some /= np.linalg.norm(some, axis=1, keepdims=True)
    some[: n // 2] *= rng.uniform(0, 1, (n // 2, 1))
    rows = np.concatenate([some, np.eye(m), -np.eye(m), 0.7 * np.eye(m), 0.01 * np.eye(m), np.zeros((1, m))])
    u, v = rng.choice(rows, (2, n))
    right = v - (v * u).sum(axis=1, keepdims=True) / np.maximum((u**2).sum(axis=1, keepdims=True), 1e-12) * u
    t = np.linspace(0, 1, 201)[:, None]
    first, last = np.eye(m)[0], np.eye(m)[-1] * (m > 1)
    here = np.concatenate([u, u, u, first + 0 * t])
    there = np.concatenate([v, right, u * rng.uniform(-1, 1, (n, 1)), t * first + np.sqrt(1 - t**2) * last])
    return Products(m).project(here), Products(m).project(there)


def cosine(here, there):
    """Absolute cosine of rows of the unit ball, made unit vectors by one more coordinate."""
    last = [np.sqrt(np.maximum(0.0, 1 - (rows**2).sum(axis=1))) for rows in (here, there)]
    return np.minimum(1.0, np.abs((here * there).sum(axis=1) + last[0] * last[1]))


def curve_and_reached(bound, rng):
    """Angles of pairs of rows, and the squared shift as a part of the squared sensitivity, pulled in all ways."""
    m = bound.dim if isinstance(bound, Pulls) else bound.m
    sensitivity = bound.sensitivity("l2", Neighbors())
    here, there = pairs_of_rows(rng, m)
    pulls = [(1, 1), (1, -1), (1, 0), (0, 1), tuple(rng.uniform(-1, 1, (2, len(here), 1)))]
    angles, parts = [], []
    for s, r in pulls[:1] if bound == Products(m) else pulls:
        if isinstance(bound, PullsAndScale):
            rest = rng.choice([1.0, 1.0, 0.5, 0.0], (2, len(here), 2))
            one, other = (
                np.column_stack([rows, np.broadcast_to(p, (len(rows), 1)), weights])
                for rows, p, weights in ((here, s, rest[0]), (there, r, rest[1]))
            )
        elif isinstance(bound, Pulls):
            one, other = (
                np.column_stack([rows, np.broadcast_to(p, (len(rows), 1))]) for rows, p in ((here, s), (there, r))
            )
        else:
            one, other = s * here, r * there
        moves = sensitivity.weights * (bound.embed(bound.project(one)) - bound.embed(bound.project(other)))
        angles.append(cosine(here, there))
        parts.append((moves**2).sum(axis=1) / sensitivity.size**2)
    return np.concatenate(angles), np.concatenate(parts)


@pytest.mark.parametrize("bound", CURVED, ids=str)
def test_no_pair_of_rows_moves_a_sum_further_than_the_curve_at_their_angle(bound):
    t, reached = curve_and_reached(bound, np.random.default_rng(4))
    p0, p1, p2 = bound.curve(Neighbors())
    excess = reached - (p0 + p1 * t + p2 * t**2)
    assert excess.max() <= FINE
    assert (reached - (0.9 * p0 + p1 * t + p2 * t**2)).max() > FINE  # a curve any lower is caught
    if (isinstance(bound, Pulls) and bound.dim > 1) or bound == Products(getattr(bound, "m", 0)):
        for low in np.linspace(0, 0.95, 20):  # at all angles
            assert excess[(t >= low) & (t <= low + 0.05)].max() >= -0.01
    elif isinstance(bound, Products):  # what is pulled reaches its curve where rows are alike, or at right angles
        assert excess[t < 0.01].max() >= -0.01
        assert excess[t > 0.99].max() >= -0.01


def test_angles_are_claimed_only_where_one_row_takes_the_place_of_another():
    several = Neighbors("replace", unit="person", rows_per_unit=2)
    for bound in CURVED:
        assert bound.curve(Neighbors("add_remove")) is None
        assert bound.curve(several) is None
        assert bound.curve(Neighbors("replace", unit="person")) is not None
    for bound in MEMBERS:
        if bound not in CURVED:
            assert bound.curve(Neighbors()) is None
