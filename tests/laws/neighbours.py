"""Fits of neighbouring data sets with the same releases, to compare the exact inputs of the mechanisms."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from privstats.errors import OptionError
from privstats.numerics.exact import Total
from privstats.sets.losses import SquaredLosses
from privstats.workflow import fit as workflow
from tests.conftest import NORMS as NORM
from tests.conftest import Given, mechanism_classes, norm_of

NORMS = ("l1", "l2", "linf", "nuclear", "hull")


class Transcripts:
    """Fits of several data frames, all of which receive the releases of the first fit."""

    def __init__(self, patch):
        self.patch = patch

    def __call__(self, call, frames):
        """Return the mechanisms' inputs for each frame, and the fit of the first.

        Parameters
        ----------
        call : callable
            Function of a frame and of the argument `dry_run`, which fits a model to the frame.
        frames : sequence of DataFrame
        """
        plan = call(frames[0], dry_run=True)
        releases, given = [], []
        with self.patch.context() as patched:
            # the plan is already made; a new plan would fit synthetic rows, and their releases would be taken for
            # releases of the fit
            patched.setattr(workflow, "make_plan", lambda *_: plan)
            for kind in mechanism_classes():
                own = kind.__dict__.get("release")
                if own is not None and not getattr(own, "__isabstractmethod__", False):
                    patched.setattr(kind, "release", self._replaying(own, releases, given))
            fit = self._run(call, frames[0], given)
            for frame in frames[1:]:
                self._run(call, frame, given)
        assert {len(each) for each in given} == {len(fit.releases)}
        return given, fit

    def _run(self, call, frame, given):
        given.append([])
        self.inside = 0
        return call(frame, dry_run=False)

    def _replaying(self, release, releases, given):
        def replay(mechanism, name, exact, promise, within, relation, rng):
            if self.inside:
                return release(mechanism, name, exact, promise, within, relation, rng)
            mine = given[-1]
            mine.append(Given(name, mechanism, gathered(exact), promise, within, relation))
            if len(given) > 1:  # with the same releases, fits ask the same queries
                said = releases[len(mine) - 1]
                assert (said.name, said.keeps) == (name, promise)
                return said
            self.inside += 1
            try:
                releases.append(release(mechanism, name, exact, promise, within, relation, rng))
            finally:
                self.inside -= 1
            return releases[-1]

        return replay


@pytest.fixture
def transcripts(monkeypatch):
    return Transcripts(monkeypatch)


def gathered(exact):
    """Return a total unchanged, or the values of rows as an array."""
    return exact if isinstance(exact, Total) else np.array(exact.all())


def step(here, there):
    """Return the distance of two exact answers as a multiple of the sensitivity.

    For totals, the result is the largest multiple over the norms in which a sensitivity is proved.
    """
    if not isinstance(here.exact, Total):
        return values_step(here, there)
    if isinstance(here.within, SquaredLosses):
        return scores_step(here, there)
    steps = []
    for norm in NORMS:
        try:
            claim = here.within.sensitivity(norm, here.relation)
            moved = claim.weights * (here.exact.value() - there.exact.value())
            steps.append(float(norm_of(claim)(moved[None])[0] / claim.size))
        except OptionError:
            continue  # no sensitivity is proved in this norm
    assert steps
    return max(steps)


def scores_step(here, there):
    """Return the distance of the scores of two sums of losses, relative to the sensitivity.

    The scores are compared at corners of the parameter set and inside it.
    """
    within, m = here.within, here.within.m
    (A, b), (C, d) = (within.normal_equations(one.exact.value()) for one in (here, there))
    inside = np.random.default_rng(m).dirichlet(np.ones(m), 20) * np.random.default_rng(1).choice([-1, 1], (20, m))
    thetas = within.theta_bound * np.vstack([np.eye(m), -np.eye(m), np.zeros((1, m)), inside])
    moved = thetas @ (A - C) - (b - d)
    return max(
        float(NORM[norm](moved).max() / within.sensitivity(f"score {norm}", here.relation).size)
        for norm in ("l1", "l2", "linf")
    )


def values_step(here, there):
    """Return the number of values that differ between two exact answers, divided by the number that may differ."""
    for one in (here, there):
        assert np.array_equal(one.within.project(one.exact), one.exact)
    one, other = (Counter(map(tuple, each.exact.tolist())) for each in (here, there))
    lost, gained = (one - other).total(), (other - one).total()
    relation = here.relation
    assert lost == gained or relation.appear
    return (max(lost, gained) if relation.exchange else lost + gained) / relation.rows


def with_rows(data, where, rows):
    """Return the frame with some rows replaced by the given rows, whose cells may be of any type."""
    other = data.astype(object)
    for place, row in zip(where, rows, strict=True):
        for name, cell in row.items():
            cells = other[name].tolist()
            cells[place] = cell
            other[name] = pd.Series(cells, dtype=object)
    return other
