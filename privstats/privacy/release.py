"""What leaves the gate: a value, the law of its noise, and the promise that it keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privstats.privacy.promise import Promise


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """A value that may be seen by anyone.

    Parameters
    ----------
    name : str
        Label of the question that it answers.
    value : ndarray, shape (dim,)
        The answer, noise included.
    law : Law, optional
        The law that its noise was drawn from, on the scale of the score where the value was chosen by its score; None
        where it depends on the rows.
    keeps : Promise
        The promise that the release keeps.
    within : Set
        What a row could contribute: public, and says how products are packed.
    chain : int
        Steps of the Markov chain that the value ends, whose law approaches the stated one; 0 where it has that law.
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
