"""Mechanisms that add noise of a known law (distribution) to exact totals (sums over the rows)."""

from privstats.mechanisms.additive.cube import Cube
from privstats.mechanisms.additive.laplace import Laplace
from privstats.mechanisms.additive.spherical import Spherical
from privstats.mechanisms.base import ScaledLaw

# maps the name of a norm |v| to the law of the noise v with density proportional to exp(-|v|)
NORM_LAWS: dict[str, type[ScaledLaw]] = {kind.norm: kind.unit_law for kind in (Laplace, Spherical, Cube)}
