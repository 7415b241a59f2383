"""The tests in this folder examine every set of the package."""

import importlib
import inspect
import pkgutil

import numpy as np
import pytest

import privstats.sets
from privstats.errors import OptionError
from privstats.losses.convex import Logistic
from privstats.privacy.promise import Relation
from privstats.sets.base import Set
from privstats.sets.cells import ByCell, Line
from privstats.sets.stretches import Stretches
from privstats.sets.weighted_losses import WeightedLosses
from tests.sets.members import MEMBERS, NORMS, TOUGH
from tests.sets.test_losses import LOSSES

WEIGHTED = [WeightedLosses(3, Logistic(), 0.7, 0.4, 2.0, geometry=geometry) for geometry in ("l1", "l2", "linf")]
VALUES = [Line(-2, 3), ByCell(Line(-2, 3, 0.5), 4), Stretches(Line(-2, 3), 2, ((-2.0, 0.5), (0.5, 3.0)))]


def test_every_set_is_examined():
    sets = set()
    for module in pkgutil.iter_modules(privstats.sets.__path__, "privstats.sets."):
        members = inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
        sets |= {kind for _, kind in members if issubclass(kind, Set) and kind.__module__ == module.name}
    examined = {type(member) for member in (*MEMBERS, *LOSSES, *WEIGHTED, *VALUES)}
    without = {kind.__name__ for kind in sets - examined}
    assert without <= {"Set", "OneHot", "Packed"}  # base classes of other sets


@pytest.mark.parametrize("within", WEIGHTED, ids=lambda within: within.geometry)
def test_weights_keep_scores_and_curvatures_inside_whatever_the_row(within):
    rows = np.random.default_rng(3).choice(TOUGH, (3000, within.dim))
    inside = within.project(rows)
    assert np.isfinite(inside).all()
    w, x = inside[:, 0], inside[:, 1:-2]
    size = NORMS[within.geometry](x)
    assert (w * size).max() <= within.radius
    assert (w * NORMS["l2"](x) ** 2).max() <= within.curvature
    assert NORMS["l2"](x).max() <= within.longest * (1 + 1e-15)
    assert ((w >= 0) & (w <= 1)).all()
    np.testing.assert_allclose(within.project(inside), inside, rtol=1e-12)
    np.testing.assert_array_equal(within.project(rows[5:9]), inside[5:9])


@pytest.mark.parametrize("within", VALUES, ids=str)
def test_values_are_moved_into_their_range_and_are_never_added_up(within):
    inside = within.project(np.random.default_rng(3).choice(TOUGH, (300, within.dim)))
    assert ((inside[:, -1] >= -2) & (inside[:, -1] <= 3)).all()
    assert within.dim == 1 or set(inside[:, 0]) <= set(range(within.cells))
    np.testing.assert_array_equal(within.project(inside), inside)
    assert not within.folds
    for norm in ("l1", "l2", "linf"):
        with pytest.raises(OptionError):
            within.sensitivity(norm, Relation(1, True, True))
    with pytest.raises(OptionError, match="not added"):
        within.total(inside)
