"""The only code that draws noise. One file, one theorem; the registry names them all."""

from privstats.mechanisms.base import AdditiveNoise, Mechanism
from privstats.mechanisms.cube import Cube
from privstats.mechanisms.duff import DuffMean, DuffQuantile
from privstats.mechanisms.exponential import Exponential
from privstats.mechanisms.gaussian import Gaussian
from privstats.mechanisms.geometric import KNGMedian
from privstats.mechanisms.hull import Hull
from privstats.mechanisms.kng import KNG
from privstats.mechanisms.kng_quantile import ExponentialQuantile, KNGQuantile
from privstats.mechanisms.laplace import Laplace
from privstats.mechanisms.matrixt import MatrixT
from privstats.mechanisms.mode import DuffMode, ModeExponential, PermuteAndFlip
from privstats.mechanisms.objective import ObjectivePerturbation
from privstats.mechanisms.objective_glm import ObjectivePerturbationGLM
from privstats.mechanisms.ptr import ProposeTestRelease
from privstats.mechanisms.rank import Rank
from privstats.mechanisms.smooth import SmoothCauchy, SmoothGaussian, SmoothLaplace, SmoothLaplaceLN
from privstats.mechanisms.spherical import Spherical

_NOISE = (Laplace, Spherical, Cube, MatrixT, Hull, Gaussian)
_CHOICE = (KNG, Exponential, ObjectivePerturbation, ObjectivePerturbationGLM, KNGQuantile, ExponentialQuantile)
_ORDER = (Rank, DuffQuantile, DuffMean, KNGMedian)
_SMOOTH = (SmoothCauchy, SmoothLaplace, SmoothLaplaceLN, SmoothGaussian, ProposeTestRelease)
_MODE = (PermuteAndFlip, ModeExponential, DuffMode)
_ALL = (*_NOISE, *_CHOICE, *_ORDER, *_SMOOTH, *_MODE)
MECHANISMS: dict[str, type[Mechanism]] = {mechanism.name: mechanism for mechanism in _ALL}
ADDITIVE = tuple(name for name, mechanism in MECHANISMS.items() if issubclass(mechanism, AdditiveNoise))

__all__ = ["ADDITIVE", "MECHANISMS", "Mechanism"]
