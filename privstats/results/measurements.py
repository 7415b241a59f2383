"""The releases of a fit with the distributions of their noise, for readers who combine noisy numbers themselves.

A release consists of noisy sums over rows or of privately chosen values; estimates and intervals are computed from
releases. There are two kinds of sums:

- Sums of quantities that depend only on declarations, such as columns scaled into [-1, 1] by their declared bounds.
  Such sums have the same meaning in all fits of one plan, so sums from several fits may be averaged.
- Sums of quantities that depend on earlier releases, such as scores at a starting value. Such sums are specific to one
  fit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from privstats.privacy.release import Release
from privstats.results.facts import FloatArray

COLUMNS = ("question", "index", "coordinate", "value", "law", "noise_in", "scale", "sd", "cost")


class Form(NamedTuple):
    """Name and density (up to a constant factor) of the law of the noise v, and the quantity to which v is added."""

    name: str
    density: str
    noise_in: str = "value"


# Keys are the class names of the laws of noise. In a density, ``v / scale`` is the noise vector v with each coordinate
# divided by its scale.
FORMS = {
    "NormalLaw": Form("normal", "exp(-|v / scale|_2^2 / 2)"),
    "LaplaceLaw": Form("laplace", "exp(-|v / scale|_1)"),
    "SphericalLaw": Form("l2 K-norm", "exp(-|v / scale|_2)"),
    "CubeLaw": Form("linf K-norm", "exp(-|v / scale|_inf)"),
    "HullLaw": Form("hull K-norm", "exp(-|v / scale|_K), K the body of differences of moments of two rows"),
    "MatrixTLaw": Form(
        "matrix-t", "det(I + W^2)^-s, W the symmetric matrix of v / scale, s = max(1.1 r + 1, 3) for r rows"
    ),
    "TiltLaw": Form("tilt", "the scores add up to -(ridge value + v), v of the law of `noise`", "score"),
    "TiltedLaw": Form(
        "tilted linf K-norm", "exp(-max(|u_0|, (|u|_inf + tilt |u_0|) / (1 + tilt))), u = v / scale", "score"
    ),
    "RankErrors": Form("exponential mechanism on ranks", "exp(-rate max_j |v_j|), or of differences of v_j", "rank"),
    "RankLaw": Form("exponential mechanism on ranks", "exp(-rate max_j |v_j|), or of differences of v_j", "rank"),
}
BY_ROWS = Form("depends on the rows", "", "")
CORRELATED = ("MatrixTLaw", "RankErrors", "RankLaw")  # laws of noise vectors with correlated coordinates


def as_frame(releases: Sequence[Release]) -> pd.DataFrame:
    """Return a DataFrame with a row for each released number: its value, the law of its noise, and its privacy cost."""
    return pd.DataFrame([row for release in releases for row in _rows(release)], columns=list(COLUMNS))


def as_json(releases: Sequence[Release]) -> str:
    """Return JSON text with an object for each release (the answer to one query of the data)."""
    return json.dumps([_written(release) for release in releases], allow_nan=False)


def form_of(release: Release) -> Form:
    """Return the name and density of the noise of a release, and the quantity to which the noise is added."""
    form = FORMS.get(type(release.law).__name__, BY_ROWS)
    return form._replace(noise_in="score") if hasattr(release.within, "theta_bound") and form is not BY_ROWS else form


def _rows(release: Release) -> Iterator[tuple[Any, ...]]:
    form, k = form_of(release), len(release.value)
    sd = _each(np.sqrt(release.law.variance()) if release.law is not None else np.full(k, np.nan), k)
    numbers = zip(_coordinates(release), release.value, _each(_scale(release.law), k), sd, strict=True)
    for j, (coordinate, value, scale, error) in enumerate(numbers):
        yield release.name, j, coordinate, value, form.name, form.noise_in, scale, error, release.keeps.budget


def _each(values: FloatArray, k: int) -> FloatArray:
    """Return a property of the noise, such as its sd, for each of the k numbers of a release, shape (k,).

    If `values` has fewer than k entries (one entry for all numbers, or the entries for one of several groups of rows),
    its entries are repeated.
    """
    return np.resize(values, k)


def _scale(law: Any) -> FloatArray:
    """Return the scale parameter of each coordinate of the noise; NaN for laws of noise without scale parameters."""
    law = getattr(law, "noise", law)
    if hasattr(law, "rate"):
        return np.array([1 / law.rate])
    return np.asarray(getattr(law, "scale", [np.nan]), dtype=float)


def _coordinates(release: Release) -> tuple[str, ...]:
    """Return a description of each number of a release, such as "sum of column 3" or "coefficient 0"."""
    noise_in, k = form_of(release).noise_in, len(release.value)
    chosen = {"score": "coefficient", "rank": "drawn value", "": "value"}
    if noise_in in chosen:
        return tuple(f"{chosen[noise_in]} {j}" for j in range(k))
    return _summed(release.within, k)


def _summed(within: Any, k: int) -> tuple[str, ...]:
    """Return a description of each of k sums over rows in a release, such as "sum of squares of column 3".

    `within` is the set of possible contributions of a row to the sums (`Release.within`).
    """
    match type(within).__name__:
        case "ByCell":
            inner = _summed(within.inner, k // within.cells)
            return tuple(f"group {cell}: {each}" for cell in range(within.cells) for each in inner)
        case "Squares":
            sums = [f"sum of column {j}" for j in range(within.k)]
            squares = [f"sum of squares of column {j}" for j in range(within.squares)]
            return (*["number of rows"] * within.counted, *sums, *squares)
        case "Cells":
            return tuple(f"rows in cell {j}" for j in range(k))
        case "Shells":
            return (*(f"vectors of length up to {edge:.4g}" for edge in within.edges[: k - 1]), "longer vectors")
    if (pairs := getattr(within, "pairs", None)) is not None:
        return tuple(f"sum of products of columns {i} and {j}" for i, j in zip(*pairs, strict=True))
    return tuple(f"sum of column {j}" for j in range(k))


def _written(release: Release) -> dict[str, Any]:
    form, law, around = form_of(release), release.law, release.keeps.neighbors
    noise = getattr(law, "noise", law)
    known = {name: getattr(noise, name) for name in ("rate", "tilt", "levels", "confidence") if hasattr(noise, name)}
    if hasattr(law, "ridge"):
        known |= {"ridge": law.ridge, "noise": FORMS[type(noise).__name__].density}
    if type(noise).__name__ in CORRELATED:
        known["covariance"] = noise.covariance(np.eye(len(noise.variance()))).tolist()
    numbers = {name: value for name, value in vars(release.keeps).items() if isinstance(value, float)}
    return {
        "question": release.name,
        "value": [float(value) if np.isfinite(value) else None for value in release.value],
        "coordinates": list(_coordinates(release)),
        "law": {
            "name": form.name,
            "density": form.density,
            "noise_in": form.noise_in,
            "scale": [] if law is None else np.ravel(_scale(law)).tolist(),
            "sd": [] if law is None else np.sqrt(law.variance()).tolist(),
            **known,
        },
        "cost": {**numbers, "neighbors": around.kind, "unit": around.unit},
    }
