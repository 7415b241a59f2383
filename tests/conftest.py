"""Shared fixtures: a recorder of the mechanisms' inputs, and norms in which sensitivities are proved."""

import gc
import os
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from privstats.mechanisms.additive.hull import HullLaw
from privstats.mechanisms.base import Mechanism
from privstats.workflow import plan

if (shared := Path(__file__).parents[2] / "shared" / "data").exists():
    os.environ.setdefault("PRIVSTATS_DATA", str(shared))


@pytest.fixture
def monkeypatch(monkeypatch):
    """Pytest's fixture `monkeypatch`.

    Cached plans are deleted before and after the test, so that no plan made by patched code remains.
    """
    plan.forget()
    yield monkeypatch
    plan.forget()


def alike(data, column, many):
    """Return data of persons with `many` equal rows each, so that it does not matter which of their rows are used."""
    persons = np.arange(len(data)) // many
    return data.iloc[many * persons].reset_index(drop=True).assign(**{column: persons})


def thinned(every):
    """Mark a test of which the fast tests run only the first of every `every` cases; `make test-all` runs all cases."""
    return pytest.mark.thinned(every)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the cases of thinned tests that the fast tests leave out as slow."""
    met = Counter()
    for item in items:
        if (mark := item.get_closest_marker("thinned")) and not item.get_closest_marker("slow"):
            test = item.nodeid.partition("[")[0]
            if met[test] % mark.args[0]:
                item.add_marker(pytest.mark.slow)
            met[test] += 1


def pytest_collection_finish():
    """Leave the objects made by the collection of tests out of garbage collections, which are then much faster."""
    gc.freeze()


def looped(values):
    """Return a decorator that runs a test in one loop over all its arguments, which are in `values`.

    The decorator is for tests whose cases take less time than pytest's overhead for a test.
    """

    def of(test):
        def every():
            for value in values:
                test(*(value.values if hasattr(value, "values") else value if isinstance(value, tuple) else (value,)))

        every.__name__, every.__doc__, every.__module__ = test.__name__, test.__doc__, test.__module__
        return every

    return of


def slow(*values, **more):
    """Return a test case that only `make test-all` runs."""
    return pytest.param(*values, marks=pytest.mark.slow, **more)


def mechanism_classes(kind=Mechanism):
    """Return the class `kind`, by default the mechanisms' base class, and all its direct and indirect subclasses."""
    below = [other for one in kind.__subclasses__() for other in mechanism_classes(one)]
    return [kind, *dict.fromkeys(below)]


class Given(NamedTuple):
    """Input of a mechanism for one query of the data."""

    name: str
    mechanism: Any
    exact: Any
    promise: Any
    within: Any
    relation: Any

    @property
    def sensitivity(self):
        """Claimed sensitivity of a mechanism that adds noise to a total."""
        return self.within.sensitivity(self.mechanism.norm, self.relation)


@pytest.fixture
def recorded(monkeypatch):
    """Return the list in which the inputs of mechanisms are recorded (`Given`).

    Inputs that one mechanism gives to another are not recorded.
    """
    given, inside = [], []

    def listen(kind):
        release = kind.__dict__["release"]

        def recording(self, name, exact, promise, within, relation, rng):
            if not inside:
                given.append(Given(name, self, exact, promise, within, relation))
            inside.append(name)
            try:
                return release(self, name, exact, promise, within, relation, rng)
            finally:
                inside.pop()

        monkeypatch.setattr(kind, "release", recording)

    for kind in mechanism_classes():
        if "release" in kind.__dict__ and not getattr(kind.__dict__["release"], "__isabstractmethod__", False):
            listen(kind)
    return given


@pytest.fixture
def given_of(recorded):
    """Return a function that makes a call of the library and returns the mechanisms' inputs and the fit.

    There is one input per release.
    """

    def run(call):
        del recorded[:]
        fit = call()
        real = recorded[-len(fit.releases) :]
        assert [one.name for one in real] == [release.name for release in fit.releases]
        return real, fit

    return run


def norm_of(sensitivity):
    """Return the norm of a sensitivity, a function of vectors already multiplied by the sensitivity's weights."""
    if sensitivity.norm == "hull":
        return HullLaw(sensitivity.weights, sensitivity.pairs).norm
    return partial(nuclear, sensitivity.pairs) if sensitivity.norm == "nuclear" else NORMS[sensitivity.norm]


def gap(here, there, sensitivity):
    """Return the distance of two exact totals, in the norm of a claimed sensitivity, divided by the sensitivity."""
    moved = (sensitivity.weights * (here.value() - there.value()))[None]
    return float(norm_of(sensitivity)(moved)[0] / sensitivity.size)


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
