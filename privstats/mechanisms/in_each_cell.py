"""Parallel composition: apply a mechanism to each cell of a partition of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from privstats.mechanisms.base import Mechanism
from privstats.numerics.exact import Total
from privstats.numerics.law import Law, Rng
from privstats.privacy.promise import Promise, Relation
from privstats.privacy.release import Release

ONE_STEP = Relation(rows=1, exchange=False, appear=True)


@dataclass(frozen=True)
class InEachCell(Mechanism):
    """Apply the mechanism `each` to every cell of a partition of the rows, and release the answers in cell order.

    Privacy: a row is in one cell only, so adding or removing the row changes the values of one cell. If `each`
    satisfies a guarantee for one added or removed row in every cell, the releases of all cells together satisfy the
    same guarantee (McSherry 2009, Theorem 4). Neighbours (`relation`) may differ by several added or removed rows: by
    ``relation.rows`` rows, or by ``2 relation.rows`` rows if rows are replaced, since a replaced row may leave one cell
    and enter another. So `each` must satisfy a stricter guarantee for one added or removed row (`of_one_step`), which
    implies the required guarantee for neighbours that differ by several added or removed rows (group privacy). The
    number of rows in a cell is not public.

    Parameters
    ----------
    each : Mechanism
        Mechanism for one cell.
    """

    each: Mechanism

    @property
    def label(self) -> str:  # type: ignore[override]
        return f"{self.each.label} in each cell"

    @property
    def needs_delta(self) -> bool:  # type: ignore[override]
        return self.each.needs_delta

    @property
    def normal(self) -> bool:  # type: ignore[override]
        return self.each.normal

    @property
    def gathers(self) -> int:  # type: ignore[override]
        return self.each.gathers

    def law(self, promise: Promise, within: Any, relation: Relation) -> Law | None:
        """Return the noise law of `each` in one cell of the partition; None if the law depends on the rows."""
        return self.each.law(of_one_step(self.each, promise, relation), within.inner, ONE_STEP)

    def release(self, name: str, exact: Any, promise: Promise, within: Any, relation: Relation, rng: Rng) -> Release:
        one = of_one_step(self.each, promise, relation)
        cells = [
            self.each.release(name, _of_cell(exact, k, within.inner), one, within.cell(k), ONE_STEP, rng)
            for k in range(within.cells)
        ]
        value = np.concatenate([cell.value for cell in cells])
        chain = max(cell.chain for cell in cells)
        return Release(name, value, cells[0].law, promise, within, chain)


def of_one_step(each: Mechanism, promise: Promise, relation: Relation) -> Promise:
    """Return the guarantee that `each` must satisfy in a cell for neighbours that differ by one added or removed row.

    If `each` satisfies this guarantee in every cell, the releases of all cells together satisfy `promise` for
    neighbours under `relation`, which may differ by several added or removed rows. If `each` can satisfy pure eps-DP,
    the guarantee is stated in eps.
    """
    pure = not (each.needs_delta or each.normal)
    steps = relation.rows * (2 if relation.exchange else 1)
    return (promise.as_pure() if pure else promise).for_group(steps)


def _of_cell(exact: Any, k: int, inner: Any) -> Any:
    """Return the total of cell `k` if `exact` is a `Total`; otherwise return access to the values of the cell's rows.

    A `Total` has ``inner.size`` entries for each cell, ordered by cell; `inner` is the set of vectors of one cell.
    """
    if isinstance(exact, Total):
        return Total(exact.units[k * inner.size : (k + 1) * inner.size], exact.step)
    return exact.cell(k)
