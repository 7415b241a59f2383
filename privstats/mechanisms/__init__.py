"""The only code that draws noise. One file, one theorem; the registry names them all."""

from privstats.mechanisms.base import Mechanism
from privstats.mechanisms.cube import Cube
from privstats.mechanisms.gaussian import Gaussian
from privstats.mechanisms.laplace import Laplace
from privstats.mechanisms.spherical import Spherical

MECHANISMS: dict[str, type[Mechanism]] = {
    mechanism.name: mechanism for mechanism in (Laplace, Spherical, Cube, Gaussian)
}

__all__ = ["MECHANISMS", "Mechanism"]
