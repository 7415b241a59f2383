"""Release of a quantile of the values in each interval between two earlier released quantiles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from privstats.mechanisms.base import Mechanism, SealedValues
from privstats.mechanisms.in_each_cell import ONE_STEP, of_one_step
from privstats.mechanisms.order.rank import Rank
from privstats.numerics.law import Rng
from privstats.privacy.promise import Promise, Relation
from privstats.privacy.release import Release


@dataclass(frozen=True)
class RankInStretches(Mechanism):
    """Release a quantile of the values in each cell (an interval between earlier releases) with the mechanism `Rank`.

    Privacy: parallel composition (`InEachCell`), since a row lies in one cell, and the number of cells and the limits
    of each cell are functions of earlier releases. If the two limits of a cell are equal, their value is the only
    possible answer, and it is released without noise (Kaplan, Schnapp and Stemmer 2022).

    Parameters
    ----------
    levels : tuple of (float or None)
        For each cell, the probability of the quantile of the cell's values; None for a cell without a release.
    """

    levels: tuple[float | None, ...]

    label: ClassVar[str] = "rank in stretches"

    def release(
        self, name: str, exact: SealedValues, promise: Promise, within: Any, relation: Relation, rng: Rng
    ) -> Release:
        one, values = of_one_step(self, promise, relation), []
        for k, (level, (low, high)) in enumerate(zip(self.levels, within.ends, strict=True)):
            if level is not None and low < high:
                line = replace(within.inner, low=low, high=high)
                values.append(Rank((level,)).release(name, exact.cell(k), one, line, ONE_STEP, rng).value[0])
            elif level is not None:
                values.append(low)
        return Release(name, np.array(values, dtype=float), None, promise, within)
