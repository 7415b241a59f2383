"""Privacy mechanisms, the only code that draws noise. Each mechanism's docstring states its privacy theorem.

`ADDITIVE` maps each value of the argument `noise=`, the name of a noise law, to an additive mechanism.
"""

from privstats.mechanisms.additive.cube import Cube
from privstats.mechanisms.additive.gaussian import Gaussian
from privstats.mechanisms.additive.hull import Hull
from privstats.mechanisms.additive.laplace import Laplace
from privstats.mechanisms.additive.matrixt import MatrixT
from privstats.mechanisms.additive.spherical import Spherical
from privstats.mechanisms.base import Additive, Mechanism, ScaledLaw, SealedValues

ADDITIVE: dict[str, Additive] = {
    "l1": Laplace(),
    "l2": Spherical(),
    "linf": Cube(),
    "matrixt": MatrixT(),
    "hull": Hull(),
    "gaussian": Gaussian(),
}

__all__ = [
    "ADDITIVE",
    "Additive",
    "Cube",
    "Gaussian",
    "Hull",
    "Laplace",
    "MatrixT",
    "Mechanism",
    "ScaledLaw",
    "SealedValues",
    "Spherical",
]
