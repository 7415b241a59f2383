"""Declaration of a numeric column by a publicly known centre and scale in place of bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd

from privstats.errors import DomainError
from privstats.formula.declarations import Numbers
from privstats.numerics.law import Rng

FAR = 30.0  # values are clamped to the interval centre +- this multiple of the declared scale


@dataclass(frozen=True)
class Scale(Numbers):
    """A numeric column without bounds whose centre and scale are publicly known, for use in robust regressions.

    Values are clamped to the interval centre +- 30 * scale (constant `FAR`). A response beyond this interval has
    about the same influence as a response at its end, because the derivative of a robust loss is bounded.

    Parameters
    ----------
    center, scale : float
        Approximate mean and standard deviation, from public knowledge.

    Raises
    ------
    DomainError
        If a number is not finite, or the scale is not positive or is negligible relative to the centre.

    Examples
    --------
    >>> print(Scale(170, 10))
    about 170, give or take 10
    """

    center: float
    scale: float

    def __init__(self, center: float, scale: float) -> None:
        legal = all(isinstance(part, int | float) and math.isfinite(part) for part in (center, scale))
        if not legal or not abs(center) / 2**40 < scale < 1e300:
            raise DomainError("a scale is a positive number and a center a finite one; write Scale(170, 10)")
        for name, value in (("lo", center - FAR * scale), ("hi", center + FAR * scale)):
            object.__setattr__(self, name, float(value))
        object.__setattr__(self, "center", float(center))
        object.__setattr__(self, "scale", float(scale))

    @property
    def typical(self) -> Numbers:
        reach = math.sqrt(3) * self.scale
        return Numbers(self.center - reach, self.center + reach)

    def draw(self, n: int, rng: Rng) -> pd.Series:
        return self.typical.draw(n, rng)

    def to_json(self) -> dict[str, Any]:
        return {"scale": [self.center, self.scale]}

    def __str__(self) -> str:
        return f"about {self.center:g}, give or take {self.scale:g}"
