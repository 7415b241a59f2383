"""All sets of rows: sensitivities hold for projected rows, and fast totals equal the sum of contributions."""

import itertools
import time
from fractions import Fraction

import numpy as np
import pytest

from privstats.errors import OptionError
from privstats.numerics.exact import Total
from privstats.privacy.promise import Relation
from privstats.sets.base import Sensitivity
from privstats.sets.cells import ByCell, Cells, Shells
from privstats.sets.coded import CodedProducts, LevelProducts
from privstats.sets.vectors import Ball, Box, BoxProducts, Products, Squares, SumAndProducts
from tests.conftest import looped
from tests.sets.members import (
    BOXES,
    EXCHANGE,
    MEMBERS,
    MISSING,
    ONLY_APPEAR,
    RELATIONS,
    SQUARES,
    TOUGH,
    contributions,
    gaps,
)


def sensitivity_of(within, norm, relation):
    """Return the sensitivity, or None if the set states no sensitivity in this norm."""
    try:
        return within.sensitivity(norm, relation)
    except OptionError:
        return None


def examined(within, norm):
    """Return whether a set is tested in a norm.

    Boxes with a response scale are tested in the norms nuclear and l2, other boxes in all norms except nuclear, and
    other sets in all norms.
    """
    if isinstance(within, BoxProducts) and within.last_scale != 1:
        return norm in ("nuclear", "l2")
    return not (isinstance(within, BoxProducts) and norm == "nuclear")


CASES = [
    pytest.param(within, norm, relation, id=f"{within}-{norm}-{name}")
    for within, norm, (name, relation) in itertools.product(
        MEMBERS, ("l1", "l2", "linf", "nuclear", "hull"), RELATIONS.items()
    )
    if examined(within, norm) and sensitivity_of(within, norm, relation) is not None
]


def grid_of(within, column):
    """Return the values that the search for the farthest pair of rows tries for one entry of a row."""
    match within:
        case Cells():
            return np.arange(within.cells, dtype=float)
        case ByCell():
            return np.arange(within.cells, dtype=float) if column == 0 else grid_of(within.inner, column - 1)
        case LevelProducts() if column == 0:
            return np.arange(within.levels, dtype=float)
        case Ball() | Products() | SumAndProducts():
            return np.linspace(-1, 1, 21) * within.radius
        case Box():
            return np.linspace(-1, 1, 21) * within.half
        case CodedProducts() if column < len(within.groups):
            return np.arange(len(within.groups[column]) + 1, dtype=float)
        case Shells():
            return np.linspace(-2, 2, 21) * within.edges[-1]
    return np.linspace(-1, 1, 21)


def farthest(within, sensitivity, relation, rng):
    """Return the largest distance of the contributions of two rows, or of a row and no row, by coordinate ascent."""
    grids = [grid_of(within, column) for column in range(within.dim)]
    pair = [np.array([rng.choice(grid) for grid in grids]) for _ in range(2)]
    fixed = type(within) is BoxProducts  # rows of full weight; other tests try other weights at random
    for row in pair[: 2 * fixed]:
        row[0] = 1.0
    # whether a row may contribute nothing, like a row of weight 0
    nothing = relation.appear or (fixed and within.counted)
    gone = not relation.exchange or (nothing and rng.random() < 0.5)

    def gap(here, there):
        nothing = np.zeros(within.size)
        return gaps(sensitivity, contributions(within, here), nothing if gone else contributions(within, there))

    best = gap(*pair)[0]
    while True:
        before = best
        for side, column in itertools.product(range(1 if gone else 2), range(int(fixed), within.dim)):
            trials = np.repeat(pair[side][None], len(grids[column]), axis=0)
            trials[:, column] = grids[column]
            found = gap(trials, pair[1]) if side == 0 else gap(pair[0], trials)
            if found.max() > best:
                best, pair[side] = found.max(), trials[found.argmax()]
        if best <= before:
            return best


@looped(CASES)
def test_no_neighbour_moves_a_sum_further_than_its_sensitivity(within, norm, relation):
    rng = np.random.default_rng(1)
    sensitivity, n = within.sensitivity(norm, relation), 400
    for draw in (
        lambda: rng.choice(TOUGH, (n, within.dim)),
        lambda: rng.choice([-1.0, 0.0, 1.0], (n, within.dim)),
        lambda: rng.normal(0, within.reach, (n, within.dim)),
    ):
        here, there = contributions(within, draw()), contributions(within, draw())
        if relation.exchange:
            assert gaps(sensitivity, here, there).max() <= sensitivity.size * (1 + 1e-12)
        if relation.appear:
            assert gaps(sensitivity, here, 0 * here).max() <= sensitivity.size * (1 + 1e-12)


LOOSE = {  # share of the claimed sensitivity that a search must reach, if it is below 95 %
    ("nuclear", BoxProducts): 0.8,  # two rows with few entries, all at the bounds, cannot be orthogonal
    ("groups", BoxProducts): 0.9,
    ("groups", CodedProducts): 0.9,
}


def tight(within, norm):
    """Return whether the search must find a pair of rows whose distance is nearly the claimed sensitivity."""
    if within.dim > 4 or (isinstance(within, ByCell) and norm == "l1" and within.cells > 1):
        return False
    groups = getattr(within, "groups", ())
    # in these norms, the pair of rows that is farthest in the groups is not the farthest pair in the other entries
    return not (groups and norm in ("l1", "linf"))


@looped([case for case in CASES if tight(*case.values[:2])])
def test_some_neighbour_nearly_reaches_the_sensitivity(within, norm, relation):
    rng = np.random.default_rng(2)
    sensitivity = within.sensitivity(norm, relation)
    reached = max(farthest(within, sensitivity, relation, rng) for _ in range(6))
    kind = "groups" if getattr(within, "groups", ()) else norm
    assert reached >= LOOSE.get((kind, type(within)), 0.95) * sensitivity.size


@looped(MEMBERS)
def test_projection_brings_everything_in_and_leaves_members_where_they_are(within):
    rng = np.random.default_rng(3)
    inside = within.project(rng.choice(TOUGH, (500, within.dim)))
    assert np.isfinite(inside).all()
    if isinstance(within, Shells):  # a projected row is the number (index) of its shell
        assert set(inside[:, 0]) <= set(range(within.size))
        return
    assert (np.abs(inside) <= within.reach).all()
    np.testing.assert_array_equal(within.project(inside), inside)


@looped(MEMBERS)
def test_each_row_is_projected_by_itself(within):
    rows = np.random.default_rng(4).choice(TOUGH, (50, within.dim))
    whole = within.project(rows)
    for k in range(0, 50, 7):
        np.testing.assert_array_equal(within.project(rows[k : k + 3]), whole[k : k + 3])
    np.testing.assert_array_equal(within.project(rows[::-1]), whole[::-1])


@looped(MEMBERS)
def test_the_total_is_the_exact_sum_of_contributions_which_are_whole_steps(within):
    rows = within.project(np.random.default_rng(5).normal(0, within.reach, (300, within.dim)))
    units = within.contribution(rows) / within.step
    assert (units == np.rint(units)).all()
    exact = tuple(int(sum(Fraction(float(unit)) for unit in column)) for column in units.T)
    assert within.total(rows) == Total(exact, within.step)
    assert within.total(rows[:0]) == Total.nothing(within.size, within.step)


@looped(MEMBERS)
def test_the_total_of_many_rows_as_large_as_rows_can_be_is_exact(within):
    """The exact sum of many large rows needs more than the 53 bits of a float, and its last bit is compared."""
    rows = within.project(np.random.default_rng(6).choice([-1.0, 1.0], (2, within.dim)) * within.reach)
    units = [[int(unit) for unit in row / within.step] for row in within.contribution(rows)]
    exact = tuple(8191 * a + 2 * b for a, b in zip(*units, strict=True))
    assert within.total(rows[[0] * 8191 + [1] * 2]) == Total(exact, within.step)


@pytest.mark.parametrize("radius", [1e-300, 1e-160, 1e150, 1e300])
def test_balls_of_any_radius_hold_their_rows(radius):
    rows = np.array([[radius, 0.0], [np.inf, -radius], [np.nan, 1e-320], [1e308, 1e308]])
    inside = Ball(2, radius).project(rows)
    assert (np.hypot(*inside.T) <= radius).all()
    assert all(abs(unit) <= 4 << 40 for unit in Ball(2, radius).total(inside).units)


@looped(MEMBERS)
def test_totals_of_parts_add_up_to_the_bit(within):
    rows = within.project(np.random.default_rng(6).normal(0, within.reach, (5000, within.dim)))
    assert within.total(rows[:1]) + within.total(rows[1:2077]) + within.total(rows[2077:]) == within.total(rows)


@looped([m for m in MEMBERS if not isinstance(m, Shells)])
def test_the_largest_rows_of_a_block_do_not_overflow(within):
    row = within.project(np.full((1, within.dim), within.reach))
    many = np.repeat(row, 1 << 20, axis=0)
    units = [int(unit) for unit in np.rint(within.contribution(row)[0] / within.step)]
    assert within.total(many).units == tuple(unit << 20 for unit in units)


@looped(MEMBERS)
def test_several_rows_of_a_unit_move_a_sum_as_many_times_as_far(within):
    for norm in ("l1", "l2", "linf"):
        one = sensitivity_of(within, norm, MISSING)
        if one is not None:
            five = within.sensitivity(norm, Relation(5, True, True))
            assert five.size == 5 * one.size
            np.testing.assert_array_equal(five.weights, one.weights)


def test_a_set_without_a_count_is_refused_where_the_number_of_rows_is_private():
    for within in (BoxProducts(2, True, False), ByCell(BoxProducts(1, True, False), 2)):
        for relation in (MISSING, ONLY_APPEAR):
            with pytest.raises(OptionError, match="number is not public"):
                within.sensitivity("l2", relation)


def test_the_count_of_rows_that_cannot_vanish_is_not_a_question():
    with pytest.raises(OptionError, match="not a positive number"):
        Cells(1).sensitivity("l1", EXCHANGE)
    assert Cells(1).sensitivity("l1", MISSING).size == 1


@pytest.mark.parametrize("q", [1, 2, 5, 6, 13])
def test_moment_sensitivities_are_the_tight_ones_of_the_literature_corrected(q):
    # the released number of rows (count) does not raise the sensitivity in any of the norms
    for within in (BoxProducts(q, True, False), BoxProducts(q, True, True)):
        assert within.sensitivity("l1", EXCHANGE).size == pytest.approx(q * (q + 2) ** 2 / (2 * (q + 1)))
        assert within.sensitivity("l2", EXCHANGE).size == pytest.approx(q + 1)
        assert within.sensitivity("linf", EXCHANGE).size == 2
        squares = within.pairs[0] == within.pairs[1]
        squares &= within.pairs[0] > 0
        assert within.sensitivity("l2", EXCHANGE).weights[squares] ** 2 == pytest.approx((q + 3) / 2)


def test_an_unknown_norm_is_refused_with_the_known_ones():
    for within in MEMBERS:
        with pytest.raises(OptionError, match=r"choose among .*l2"):
            within.sensitivity("l7", MISSING)


@pytest.mark.parametrize("bad", [-1.0, 0.0, np.nan, np.inf])
def test_sizes_that_would_switch_noise_off_are_refused(bad):
    for make in (Ball, Products, SumAndProducts, Box):
        with pytest.raises(OptionError, match="positive"):
            make(2, bad)
    with pytest.raises(OptionError, match="positive"):
        Shells(2, (bad, 1.0))


def test_edges_of_shells_increase_and_cells_exist():
    for edges in ((), (1.0, 1.0), (2.0, 1.0)):
        with pytest.raises(OptionError, match="increase"):
            Shells(2, edges)
    for make in (lambda: Cells(0), lambda: ByCell(Ball(1), 0)):
        with pytest.raises(OptionError, match="cell"):
            make()


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("within", SQUARES, ids=str)
def test_neither_count_nor_squares_cost_anything_where_rows_are_replaced_and_weigh_as_much_as_they_may(within, norm):
    free = within.sensitivity(norm, EXCHANGE)
    assert free.size == Squares(within.k, True, 0).sensitivity(norm, EXCHANGE).size
    count, squares = (
        [slice(0, 1)] * within.counted,
        [slice(within.size - within.squares, within.size)] * (within.squares > 0),
    )
    full = contributions(within, np.ones(1 + within.k))
    # columns with squares have the value `end`; columns without squares have the value `end` or -1
    few = within.squares
    others = [
        [w, *[end] * few, *[other] * (within.k - few)]
        for w in (0.0, 0.5, 1.0)
        for end in np.linspace(-1, 1, 41)
        for other in {-1.0, end}
    ]
    others = contributions(within, others)
    assert gaps(free, full, others).max() <= free.size * (1 + 1e-12)
    for part in (*count, *squares):
        weights = free.weights.copy()
        weights[part] *= 1.1
        heavier = Sensitivity(norm, free.size, weights)
        assert gaps(heavier, full, others).max() > free.size * (1 + 1e-9)


def test_a_vector_on_an_edge_lies_in_the_inner_shell_and_the_last_shell_is_open():
    within = Shells(2, (0.6, 1.0, 3.0))
    vectors = [
        [0.6, 0.0],
        [0.0, -0.6],
        [np.nextafter(0.6, 1), 0],
        [0, 1.0],
        [1e-3, 1.0],
        [50, 0],
        [np.inf, 0],
        [np.nan, 0],
    ]
    assert within.project(np.array(vectors)).ravel().tolist() == [0, 0, 1, 1, 2, 2, 2, 0]


def test_the_number_of_a_shell_is_the_number_of_edges_below_a_length_however_many_there_are():
    edges = np.arange(1, 301) / 10
    lengths = np.random.default_rng(7).uniform(0, 35, 4000)
    within = Shells(1, tuple(edges.tolist()))
    expected = np.searchsorted(edges[:-1], lengths)
    np.testing.assert_array_equal(within.project(lengths[:, None])[:, 0], expected)
    counts = [unit * within.step for unit in within.total(within.project(lengths[:, None])).units]
    np.testing.assert_array_equal(counts, np.bincount(expected, minlength=300))


def test_a_group_is_counted_with_the_sensitivity_of_two_groups():
    """The sensitivity of sums by group is sqrt(2) times the largest norm of a row's contribution.

    A replaced row may leave one group and join another, so that the sums of both groups change.
    """
    within = ByCell(Squares(1, True), 2)
    sensitivity = within.sensitivity("l2", EXCHANGE)
    here, there = contributions(within, [[0, 1, 1.0], [1, 1, 1.0]])
    assert gaps(sensitivity, here[None], there[None])[0] == pytest.approx(sensitivity.size)
    assert sensitivity.size == pytest.approx(np.sqrt(2) * within.inner.length("l2"))


@pytest.mark.parametrize(
    ("within", "seconds"),
    [(Products(12), 1.5), (Cells(50), 0.3), (Shells(5, (0.5, 1.0, 2.0)), 0.6), (ByCell(Squares(1, True), 20), 0.8)],
    ids=str,
)
def test_a_million_rows_are_added_up_in_a_fraction_of_a_second(within, seconds):
    """The limit of time is several times the usual time, for slow machines. A sum in Python would take minutes."""
    rows = np.random.default_rng(7).uniform(0, 1, (1 << 20, within.dim))
    start = time.perf_counter()
    for at in range(0, len(rows), 1 << 15):
        within.total(within.project(rows[at : at + (1 << 15)]))
    assert time.perf_counter() - start < 3 * seconds


def test_every_box_is_examined_in_each_norm_that_it_has():
    seen = {(case.values[0], case.values[1]) for case in CASES}
    for norm in ("l1", "linf"):
        assert sum(within in BOXES and n == norm for within, n in seen) >= 12
    assert sum(within in BOXES and n == "hull" for within, n in seen) >= 12
