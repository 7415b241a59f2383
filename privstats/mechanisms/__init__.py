"""The only code that draws noise. One file, one theorem; the registry names them all."""

from privstats.mechanisms.additive.cube import Cube
from privstats.mechanisms.additive.gaussian import Gaussian
from privstats.mechanisms.additive.hull import Hull
from privstats.mechanisms.additive.laplace import Laplace
from privstats.mechanisms.additive.matrixt import MatrixT
from privstats.mechanisms.additive.spherical import Spherical
from privstats.mechanisms.base import AdditiveNoise, Mechanism
from privstats.mechanisms.comparison.duff import DuffMean, DuffQuantile
from privstats.mechanisms.comparison.exponential import Exponential
from privstats.mechanisms.comparison.kng import KNG
from privstats.mechanisms.comparison.kng_median import KNGMedian
from privstats.mechanisms.comparison.ptr import ProposeTestRelease
from privstats.mechanisms.comparison.smooth import SmoothCauchy, SmoothGaussian, SmoothLaplace, SmoothLaplaceLN
from privstats.mechanisms.objective.perturbation import ObjectivePerturbationGLM
from privstats.mechanisms.objective.quadratic import ObjectivePerturbation
from privstats.mechanisms.order.mode import DuffMode, ModeExponential, PermuteAndFlip
from privstats.mechanisms.order.rank import Rank
from privstats.mechanisms.quantile_regression.kng import ExponentialQuantile, KNGQuantile

_NOISE = (Laplace, Spherical, Cube, MatrixT, Hull, Gaussian)
_CHOICE = (KNG, Exponential, ObjectivePerturbation, ObjectivePerturbationGLM, KNGQuantile, ExponentialQuantile)
_ORDER = (Rank, DuffQuantile, DuffMean, KNGMedian)
_SMOOTH = (SmoothCauchy, SmoothLaplace, SmoothLaplaceLN, SmoothGaussian, ProposeTestRelease)
_MODE = (PermuteAndFlip, ModeExponential, DuffMode)
_ALL = (*_NOISE, *_CHOICE, *_ORDER, *_SMOOTH, *_MODE)
MECHANISMS: dict[str, type[Mechanism]] = {mechanism.name: mechanism for mechanism in _ALL}
ADDITIVE = tuple(name for name, mechanism in MECHANISMS.items() if issubclass(mechanism, AdditiveNoise))

__all__ = ["ADDITIVE", "MECHANISMS", "Mechanism"]
