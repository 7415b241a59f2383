"""Shared frames, domains and the recorder that looks over the curator's shoulder."""

import os
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.older.mechanisms import MECHANISMS
from privstats.older.mechanisms.additive.hull import HullLaw

if (shared := Path(__file__).parents[2] / "shared" / "data").exists():
    os.environ.setdefault("PRIVSTATS_DATA", str(shared))

PURE = {noise: {"eps": 1.0} for noise in ("matrixt", "hull", "linf", "l1", "l2")}
PRICES = {**PURE, "gaussian": {"mu": 1.0}}


def slow(*values, **more):
    """A case of a test that `make test-all` runs, and the fast gate leaves out."""
    return pytest.param(*values, marks=pytest.mark.slow, **more)


def design_6_1(n, seed, p=5):
    """The coverage design: X ~ U(-1, 1), coefficients (.5; -1 ... 1), N(0, 1) errors."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, p))
    data = pd.DataFrame(X, columns=[f"x{j + 1}" for j in range(p)])
    data["y"] = 0.5 + X @ np.linspace(-1, 1, p) + rng.standard_normal(n)
    return data


def domain_6_1(p=5, **kwargs):
    return ps.Domain({**{f"x{j + 1}": (-1, 1) for j in range(p)}, "y": (-6, 6)}, **kwargs)


def formula_6_1(p=5):
    return "y ~ " + " + ".join(f"x{j + 1}" for j in range(p))


@pytest.fixture
def recorded(monkeypatch):
    """Record what the mechanisms were told: a list of (mechanism, exact total, sensitivity)."""
    heard = []

    def listen(mechanism):
        release = mechanism.release

        def recording(self, name, exact, sensitivity, chance):
            heard.append((self, exact, sensitivity))
            return release(self, name, exact, sensitivity, chance)

        monkeypatch.setattr(mechanism, "release", recording)

    for mechanism in MECHANISMS.values():
        listen(mechanism)
    return heard


@pytest.fixture
def all_exact_of(recorded):
    """Run a call, return (exact values, sensitivity) of its last questions: the real run, not the rehearsal."""

    def run(call, questions):
        del recorded[:]
        call()
        return [(exact.value(), sensitivity) for _, exact, sensitivity in recorded[-questions:]]

    return run


@pytest.fixture
def exact_of(all_exact_of):
    """The same of a call with one question."""
    return lambda call: all_exact_of(call, questions=1)[0]


def norm_of(sensitivity):
    """The norm a sensitivity names, of weighted coordinates."""
    if sensitivity.norm == "hull":
        return HullLaw(sensitivity.weights, sensitivity.pairs).norm
    return partial(nuclear, sensitivity.pairs) if sensitivity.norm == "nuclear" else NORMS[sensitivity.norm]


def nuclear(pairs, packed):
    """Sum of absolute eigenvalues; squares that were not released are first-order products, other entries zero."""
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
