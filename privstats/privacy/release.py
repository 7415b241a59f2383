"""The answer to a query of the data: a released value, the law of its noise, and its privacy guarantee."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privstats.privacy.promise import Promise


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """A value that was computed from the rows with random noise, and may therefore be published.

    Parameters
    ----------
    name : str
        Label of the query to which the value is the answer.
    value : ndarray, shape (dim,)
        The answer, noise included.
    law : Law, optional
        Law of the noise in the value or, if the mechanism chooses the value by a score (such as a rank), of the noise
        in this score; None if the law depends on the rows.
    keeps : Promise
        The privacy guarantee of the release.
    within : Set
        The public set of a row's possible contributions to the exact answer. If the value contains the entries of a
        matrix of second moments, the set also defines their positions in the matrix.
    chain : int
        Number of steps of the Markov chain whose last state is the value and whose limit distribution is the law; 0 if
        the value is drawn without a Markov chain.
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
