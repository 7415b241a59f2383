"""Sets to test, neighbouring relations, and norms computed independently of the package."""

import itertools
from functools import partial

import numpy as np

from privstats.mechanisms.additive.hull import HullLaw
from privstats.privacy.promise import Relation
from privstats.sets.cells import ByCell, Cells, Shells
from privstats.sets.coded import CodedProducts, LevelProducts
from privstats.sets.vectors import Ball, Box, BoxProducts, Fractions, Products, SquaredEntries, Squares, SumAndProducts

EXCHANGE, MISSING, ONLY_APPEAR = Relation(), Relation(1, True, True), Relation(1, False, True)
RELATIONS = {"replace": EXCHANGE, "replace or missing": MISSING, "add_remove": ONLY_APPEAR}
TOUGH = np.array([0.0, -0.0, 1.0, -1.0, 5e-324, 1e-300, 1e308, -1e308, np.inf, -np.inf, np.nan, 3.0, -0.4, 2.0])

BOXES = [
    *(
        BoxProducts(q, intercept, counted, 1.3, groups)
        for q, groups in ((3, ((1, 2),)), (8, ((2, 3, 4), (5, 6))))
        for intercept, counted in itertools.product((True, False), (True, False))
    ),
    *(
        BoxProducts(q, intercept, counted, scale)
        for q, intercept, counted, scale in itertools.product((1, 2, 3, 6), (True, False), (True, False), (1.0, 1.7))
    ),
]
CODED = [
    CodedProducts(q, intercept, counted, 1.3, groups)
    for q, groups in ((3, ((1, 2),)), (8, ((2, 3, 4), (5, 6))))
    for intercept, counted in itertools.product((True, False), (True, False))
]
SQUARES = [Squares(k, counted, some) for k in (1, 2, 3) for counted in (True, False) for some in (None, 0, k - 1)]
MEMBERS = [
    Ball(3, 2.5),
    Ball(1, 1e-7),
    Box(4, 0.7),
    Fractions(2),
    *(Products(m, radius) for m, radius in ((1, 1.0), (2, 1.0), (3, 2.5), (6, 1e3))),
    *(SumAndProducts(m, radius) for m, radius in ((1, 1.0), (2, 0.3), (3, 7.0))),
    *BOXES,
    *CODED,
    *(LevelProducts(m, radius, levels) for m, radius, levels in ((1, 1.0, 1), (2, 2.5, 2), (3, 0.7, 2), (6, 1e3, 4))),
    *SQUARES,
    Cells(1),
    Cells(4),
    SquaredEntries(2, 1.0),
    SquaredEntries(5, 0.7),
    SquaredEntries(1, 0.3),
    Shells(2, (0.5, 1.0, 3.0)),
    Shells(3, (0.7,)),
    ByCell(Squares(1, True), 3),
    ByCell(Squares(2, True, 0), 2),
    ByCell(Ball(2, 0.7), 3),
    ByCell(Fractions(1), 2),
    ByCell(Box(1, 3.0), 1),
]


def nuclear(pairs, packed):
    """Return the nuclear norm (sum of absolute eigenvalues) of symmetric matrices whose entries are packed in vectors.

    The entries are products of variables, and `pairs` has the indices of the variables; variable 0 is a constant. If
    the square of a variable is not released, it is taken to equal the variable's product with the constant. Other
    entries that are not released are zero.
    """
    i, j = pairs
    matrix = np.zeros((*packed.shape[:-1], j.max() + 1, j.max() + 1))
    matrix[..., i, j] = matrix[..., j, i] = packed
    for k in set(j[i == 0]) - set(j[i == j]) - {0}:
        matrix[..., k, k] = matrix[..., 0, k]
    return np.abs(np.linalg.eigvalsh(matrix)).sum(axis=-1)


NORMS = {
    "l1": lambda v: np.abs(v).sum(axis=-1),
    "l2": lambda v: np.sqrt((v**2).sum(axis=-1)),
    "linf": lambda v: np.abs(v).max(axis=-1),
}


def norm_of(sensitivity):
    """Return the norm in which a sensitivity is stated, as a function of vectors multiplied by its weights."""
    if sensitivity.norm == "hull":
        return HullLaw(sensitivity.weights, sensitivity.pairs).norm
    return partial(nuclear, sensitivity.pairs) if sensitivity.norm == "nuclear" else NORMS[sensitivity.norm]


def gaps(sensitivity, here, there):
    """Return the distances between contributions, in the norm and with the weights of a sensitivity, shape (n,)."""
    return norm_of(sensitivity)(sensitivity.weights * (here - there))


def contributions(within, rows):
    """Return the contributions of arbitrary rows after projection onto the set, shape (n, size)."""
    return within.contribution(within.project(np.atleast_2d(np.asarray(rows, dtype=float))))
