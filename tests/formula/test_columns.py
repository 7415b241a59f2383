"""Models of columns: the meaning of their formulas, the values in blocks of rows, and the labels of results."""

import pickle

import numpy as np
import pandas as pd
import pytest

from privstats.errors import DomainError, FormulaError, OptionError, PrivstatsWarning
from privstats.formula.bare import BareFactor
from privstats.formula.columns import bind_columns
from privstats.formula.domain import Domain
from privstats.formula.factors import as_edges
from privstats.mechanisms.random import public_stream
from tests.formula.zoo import odd_frame

KNOWN = {"x": (0, 10), "z": (1, 5), "g": ["a", "b"], "h": [1, 2], "k": range(0, 13)}
DOMAIN = Domain(KNOWN)
N = 40
DATA = pd.DataFrame({"x": np.linspace(0, 10, N), "z": np.linspace(1, 5, N), "g": ["a", "b"] * 20, "h": [1] * N})
DATA = DATA.assign(k=np.arange(N), text="secret", age=41.5)


def values(formula, data=DATA, domain=DOMAIN, **options):
    columns = bind_columns(formula, domain, **options)
    return columns.block(data).times(np.eye(columns.width))


def test_formulas_of_columns_mean_what_they_say():
    found = values("x + np.log(z) + I(x ** 2) + I(x > 4)")
    truth = np.column_stack([DATA["x"], np.log(DATA["z"]), DATA["x"] ** 2, DATA["x"] > 4])
    np.testing.assert_array_equal(found, truth)
    for formula in ("x ~ g", "x ~ C(g)", "x ~ g - 1", "x ~ 0 + g", "x ~ C(g, Treatment('b'))"):
        columns = bind_columns(formula, DOMAIN)
        assert columns.group_levels == ("a", "b")
        assert columns.names == ("x[a]", "x[b]")
        assert columns.block(DATA).codes[0].tolist() == [0, 1] * 20
    for formula in ("~ x", "x ~ 1", "x"):
        assert bind_columns(formula, DOMAIN).names == ("x",)
        assert bind_columns(formula, DOMAIN).block(DATA).codes == ()


def test_values_stay_in_the_users_units_clamped_and_not_rounded():
    third = DATA.head(4).assign(x=[1 / 3, -5.0, np.inf, np.nan])
    assert values("x", third)[:, 0].tolist() == [1 / 3, 0.0, 10.0, 0.0]  # the last row has a missing value
    assert bind_columns("x", DOMAIN).block(third).present.tolist() == [True, True, True, False]
    whole = bind_columns("x", Domain(KNOWN, complete=True)).block(third)
    assert whole.numbers[:, 0].tolist() == [1 / 3, 0.0, 10.0, 5.0]
    assert whole.present.all()


def test_levels_become_their_positions():
    columns = bind_columns("h + g", DOMAIN)
    assert columns.block(DATA).numbers[:2].tolist() == [[0, 0], [0, 1]]
    with pytest.raises(FormulaError, match=r"'h' .*dp_median needs numbers; declare .*domain=\{'h': \(1, 2\)\}$"):
        columns.numeric("dp_median")
    with pytest.raises(FormulaError, match=r"'g' has levels .*; for the share of one level write I\(g == 'a'\)$"):
        bind_columns("g", DOMAIN).numeric("dp_median")


def test_numbers_are_grouped_by_the_intervals_between_edges():
    edge = DATA.head(6).assign(z=[1.0, 2.0, np.nextafter(2.0, 0), 5.0, 99.0, np.nan])
    columns = bind_columns("x ~ cut(z, [1, 2, 5])", DOMAIN)
    assert columns.group_levels == ("[1, 2)", "[2, 5]")
    assert columns.names == ("x in [1, 2)", "x in [2, 5]")
    block = columns.block(edge)
    assert block.codes[0].tolist() == [0, 1, 0, 1, 1, 0]
    assert block.present.tolist() == [True] * 5 + [False]
    rooted = bind_columns("x ~ cut(np.log(z - 2), [-9, 0, 2])", {**KNOWN, "np.log(z - 2)": (-9, 2)})
    assert not rooted.group.total
    block = rooted.block(DATA.head(3).assign(z=[1.5, 3.5, 2.5]))
    assert (block.present.tolist(), block.codes[0].tolist()) == ([False, True, True], [0, 1, 0])
    new = columns.matrix(pd.DataFrame({"z": [1.5, 4.0, np.nan]}))
    np.testing.assert_array_equal(new, [[1, 0], [0, 1], [np.nan, np.nan]])
    np.testing.assert_array_equal(rooted.matrix(pd.DataFrame({"z": [1.5, 2.5]})), [[np.nan, np.nan], [1, 0]])
    assert pickle.loads(pickle.dumps(rooted)).block(DATA).codes[0].tolist() == rooted.block(DATA).codes[0].tolist()


@pytest.mark.parametrize(
    ("cut", "error", "says"),
    [
        ("cut(z)", FormulaError, r"write cut\(x, \[0, 1, 2\]\)"),
        ("cut(z, 3)", FormulaError, "three or more edges"),
        ("cut(z, [1, 5])", FormulaError, "three or more edges"),
        ("cut(z, [1, 5, 2])", FormulaError, "three or more edges"),
        ("cut(z, [1, 2, x])", FormulaError, "must be a number"),
        ("cut(z, [1, 2, 4])", DomainError, r"do not cover the bounds of 'z', which are \(1, 5\)"),
        ("cut(g, [1, 2, 4])", FormulaError, "'g' has levels, not numbers"),
        ("cut(mean(z), [1, 2, 4])", FormulaError, "no function 'mean'"),
        ("cut(age, [1, 2, 4])", DomainError, "'age' has no declared bounds"),
    ],
)
def test_edges_of_groups_are_numbers_that_cover_the_bounds(cut, error, says):
    with pytest.raises(error, match=says):
        bind_columns(f"x ~ {cut}", DOMAIN)
    with pytest.raises(FormulaError, match="a clip is not chosen by 'cut"):
        bind_columns("x ~ cut(z, [1, 2, 5])", DOMAIN).as_regression()


CUT = ["x ~ cut(z, [1, 2, 5])", "x ~ cut(x + np.log(z), [0, 1, 4, 12])"]


@pytest.mark.parametrize("formula", ["x", "x + z ~ g", "k ~ h", "g", "np.log(z) ~ C(g)", "I(g == 'a')", *CUT])
def test_a_rows_bits_are_its_own_and_no_row_of_a_complete_domain_is_absent(formula):
    data = odd_frame(60).rename(columns={"y": "h"}).assign(x=DATA["x"].to_numpy()[np.arange(60) % N])
    for complete in (True, False):
        columns = bind_columns(formula, Domain(KNOWN, complete=complete))
        block = columns.block(data)
        assert columns.complete is complete
        assert block.present.all() or not complete
        assert not block.numbers[~block.present].any()
        for k in range(60):
            alone = columns.block(data.iloc[[k]])
            np.testing.assert_array_equal(alone.numbers, block.numbers[[k]])
            np.testing.assert_array_equal(alone.present, block.present[[k]])
            assert all(one == many[k] for one, many in zip(alone.codes, block.codes, strict=True))


def test_a_subset_is_decided_row_by_row():
    block = bind_columns("x", Domain(KNOWN, complete=True), subset="g == 'a' & x > 5").block(DATA)
    np.testing.assert_array_equal(block.present, (DATA["g"] == "a") & (DATA["x"] > 5))


def test_labels_run_by_column_then_group_then_component():
    columns = bind_columns("x + z ~ g", DOMAIN, components=(0.25, 0.5), component="q")
    assert columns.keys == ("term", "group", "q")
    assert columns.labels[:3] == (("x", "a", 0.25), ("x", "a", 0.5), ("x", "b", 0.25))
    assert columns.names[3:5] == ("x[b, 0.5]", "z[a, 0.25]")
    assert bind_columns("x", DOMAIN).labels == (("x",),)
    bins = bind_columns("x", DOMAIN, components=("[0, 1)", "[1, 2]"), component="bin")
    assert bins.names == ("x in [0, 1)", "x in [1, 2]")
    alike = bind_columns("x ~ m", {**KNOWN, "m": [1, "1"]})
    assert alike.names == ("x[1]", "x['1']")
    for one in (columns, bins):
        copy = pickle.loads(pickle.dumps(one))
        assert (copy.names, copy.keys, copy.reads) == (one.names, one.keys, one.reads)


def test_hypotheses_and_predictions_name_groups():
    columns = bind_columns("x ~ g", DOMAIN)
    assert columns.constraint("x[a] = x[b]")[0].tolist() == [[1, -1]]
    with pytest.warns(PrivstatsWarning, match="1 of 3 new rows have a level of 'g' that is not declared.*'a', 'b'"):
        matrix = columns.matrix(pd.DataFrame({"g": ["b", "zz", None]}))
    np.testing.assert_array_equal(matrix, [[0, 1], [np.nan] * 2, [np.nan] * 2])
    assert bind_columns("x", DOMAIN).matrix(DATA).shape == (N, 1)
    with pytest.raises(FormulaError, match="predict needs one column"):
        bind_columns("x + z", DOMAIN).matrix(DATA)


def test_a_declared_range_gives_the_step_of_the_grid():
    assert [part.step for part in bind_columns("k + x", DOMAIN).targets] == [1.0, None]


def test_columns_that_are_not_declared_take_estimated_bounds():
    columns = bind_columns("w + np.log(v) ~ g", DOMAIN)
    assert columns.lacking == ("w", "np.log(v)")
    assert columns.draw(4, public_stream(0)).columns.tolist() == ["w", "v", "g"]
    found = columns.with_bounds({"w": (0, 50), "np.log(v)": (-2, 4)})
    assert found.lacking == ()
    assert [(part.within.lo, part.within.hi) for part in found.targets] == [(0, 50), (-2, 4)]


@pytest.mark.parametrize(
    ("formula", "error", "says"),
    [
        *((f, FormulaError, "is not understood; write 'x', 'x1") for f in ("x ~ g + h", "x ~ g:h", "x:z", "", "1")),
        ("x ~ z", DomainError, r"'z' is a group only with declared levels; write domain=\{'z'"),
        ("x ~ text", DomainError, r"'text' is a group only with declared levels; write domain=\{'text'"),
        ("x ~ C(text)", DomainError, "'text'"),
        ("poly(x, 2)", FormulaError, "is several columns; ask about one expression"),
        ("x - np.mean(x)", FormulaError, "mean of all rows"),
        ("I(x - np.mean(x))", FormulaError, "mean of all rows"),
        ("np.log(x)", DomainError, r"infinite at the declared bound x = 0; .* or write np.log1p\(x\)"),
        ("C(text)", DomainError, "needs the levels of 'text'"),
        ("x +", FormulaError, "cannot be read; write it like"),
        (3, FormulaError, "the formula is an int; write it as text"),
        ("I(x * 0)", DomainError, "constant on the declared bounds"),
    ],
)
def test_a_bad_formula_is_refused_with_the_cure(formula, error, says):
    with pytest.raises(error, match=says) as caught:
        bind_columns(formula, DOMAIN)
    assert "; " in str(caught.value)
    assert caught.value.__context__ is None and caught.value.__cause__ is None


def test_bins_are_a_number_edges_levels_or_the_points_of_a_grid():
    x, k, g = (bind_columns(name, DOMAIN) for name in "xkg")
    assert x.edges("dp_hist", 4) == (0, 2.5, 5, 7.5, 10) == x.edges("dp_hist", np.int64(4))
    assert x.edges("dp_hist", [0, 1, 10]) == (0, 1, 10)
    assert x.bin_names((0, 1, 10)) == ("[0, 1)", "[1, 10]")
    assert x.bin_names((0, 1e-9, 2e-9, 10)) == ("[0, 1e-09)", "[1e-09, 2e-09)", "[2e-09, 10]")
    assert g.edges("dp_hist", None) == (-0.5, 0.5, 1.5)
    assert g.bin_names(g.edges("dp_hist", None)) == ("a", "b")
    assert k.edges("dp_mode", None, k.targets[0].step) == (-0.5, *np.arange(0.5, 12), 12.5)
    assert x.edges("dp_mode", None, 4.0) == (-2, 2, 6, 10)
    assert as_edges([3, 2]) == as_edges("0159") == as_edges(7) == as_edges([1]) == as_edges([0, np.inf]) == ()


@pytest.mark.parametrize(
    ("formula", "verb", "bins", "error", "says"),
    [
        (
            "x",
            "dp_hist",
            None,
            OptionError,
            "dp_hist needs bins for the numeric column 'x'; write bins=20, or the edges$",
        ),
        ("x", "dp_mode", None, OptionError, "or the edges, or grid=1, the step between its values"),
        *(
            ("x", "dp_hist", b, OptionError, "neither a number of bins nor edges")
            for b in (0, -3, 2.5, True, "auto", [1])
        ),
        ("x", "dp_hist", [10, 5, 0], OptionError, "in ascending order; write"),
        ("x", "dp_hist", [0, 9], DomainError, r"do not cover the bounds of 'x', which are \(0, 10\); begin"),
        ("g", "dp_hist", 3, OptionError, "'g' has levels, which are its bins; leave out bins="),
        ("x + z", "dp_hist", 3, FormulaError, "dp_hist takes one column at a time; write"),
    ],
)
def test_bad_bins_are_refused_with_the_cure(formula, verb, bins, error, says):
    with pytest.raises(error, match=says):
        bind_columns(formula, DOMAIN).edges(verb, bins)


def test_a_bare_factor_shows_values_as_they_are():
    bare = BareFactor("np.log(w)", DOMAIN)
    data = pd.DataFrame({"w": [1.0, np.e**300, -1.0, np.nan, 0.0]})
    block = bare.block(data)
    assert bare.reads == ("w",) and not bare.complete
    assert block.present.tolist() == [True, True, False, False, True]
    np.testing.assert_allclose(block.times(np.eye(1))[:, 0], [0, 300, 0, 0, -np.inf])
    assert BareFactor("np.exp(w)", DOMAIN).within.lo == 0
    assert bare.draw(3, public_stream(0)).columns.tolist() == ["w"]


def test_a_bare_column_that_is_declared_complete_has_no_absent_rows():
    bare = BareFactor("w", Domain(KNOWN, complete=[*KNOWN, "w"]))
    assert bare.complete
    assert bare.block(pd.DataFrame({"w": [5.0, None, "x"]})).present.all()
    assert not BareFactor("I(w ** 2)", Domain(KNOWN, complete=["w"])).complete
