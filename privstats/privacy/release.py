"""The output of the gate: a value, the law of its noise, and the promise that it keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privstats.privacy.promise import Promise


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """A public value, with noise.

    Parameters
    ----------
    name : str
        Label of the question that it answers.
    value : ndarray, shape (dim,)
        The answer, noise included.
    law : Law, optional
        Law of its noise, or, for a value chosen by its score, of the noise in the score; None if it depends on the
        rows.
    keeps : Promise
        The promise that the release keeps.
    within : Set
        The public set of a row's possible contributions, which also defines how products are packed.
    chain : int
        Steps of the Markov chain that ends with the value and has the law in the limit; 0 if the law is exact.
    """

    name: str
    value: NDArray[np.float64]
    law: Any
    keeps: Promise
    within: Any
    chain: int = 0

    def __repr__(self) -> str:
        many = "1 number" if len(self.value) == 1 else f"{len(self.value)} numbers"
        sds = [] if self.law is None else sorted({float(f"{v**0.5:.3g}") for v in self.law.variance()})
        noise = f", noise sd {sds[0]:g}" if len(sds) == 1 else f", noise sd {sds[0]:g} to {sds[-1]:g}" if sds else ""
        return f"<Release '{self.name}': {many}{noise}, {self.keeps.budget}>"
