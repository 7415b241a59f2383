"""The only code that draws noise. One file, one theorem; the registry names them all."""

from privstats.mechanisms.base import AdditiveNoise, Mechanism
from privstats.mechanisms.cube import Cube
from privstats.mechanisms.gaussian import Gaussian
from privstats.mechanisms.laplace import Laplace
from privstats.mechanisms.rank import Rank
from privstats.mechanisms.spherical import Spherical

MECHANISMS: dict[str, type[Mechanism]] = {
    mechanism.name: mechanism for mechanism in (Laplace, Spherical, Cube, Gaussian, Rank)
}
ADDITIVE = tuple(name for name, mechanism in MECHANISMS.items() if issubclass(mechanism, AdditiveNoise))

__all__ = ["ADDITIVE", "MECHANISMS", "Mechanism"]
