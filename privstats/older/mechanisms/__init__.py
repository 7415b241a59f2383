"""The only code that draws noise. One file, one theorem; the registry names them all."""

from privstats.older.mechanisms.additive.cube import Cube
from privstats.older.mechanisms.additive.gaussian import Gaussian
from privstats.older.mechanisms.additive.hull import Hull
from privstats.older.mechanisms.additive.laplace import Laplace
from privstats.older.mechanisms.additive.matrixt import MatrixT
from privstats.older.mechanisms.additive.spherical import Spherical
from privstats.older.mechanisms.base import AdditiveNoise, Mechanism
from privstats.older.mechanisms.comparison.duff import DuffMean, DuffQuantile
from privstats.older.mechanisms.comparison.exponential import Exponential
from privstats.older.mechanisms.comparison.kng import KNG
from privstats.older.mechanisms.comparison.kng_median import KNGMedian
from privstats.older.mechanisms.comparison.ptr import ProposeTestRelease
from privstats.older.mechanisms.comparison.smooth import SmoothCauchy, SmoothGaussian, SmoothLaplace, SmoothLaplaceLN
from privstats.older.mechanisms.objective.perturbation import ObjectivePerturbationGLM
from privstats.older.mechanisms.objective.quadratic import ObjectivePerturbation
from privstats.older.mechanisms.order.mode import DuffMode, ModeExponential, PermuteAndFlip
from privstats.older.mechanisms.order.rank import Rank
from privstats.older.mechanisms.quantile_regression.kng import ExponentialQuantile, KNGQuantile

_NOISE = (Laplace, Spherical, Cube, MatrixT, Hull, Gaussian)
_CHOICE = (KNG, Exponential, ObjectivePerturbation, ObjectivePerturbationGLM, KNGQuantile, ExponentialQuantile)
_ORDER = (Rank, DuffQuantile, DuffMean, KNGMedian)
_SMOOTH = (SmoothCauchy, SmoothLaplace, SmoothLaplaceLN, SmoothGaussian, ProposeTestRelease)
_MODE = (PermuteAndFlip, ModeExponential, DuffMode)
_ALL = (*_NOISE, *_CHOICE, *_ORDER, *_SMOOTH, *_MODE)
MECHANISMS: dict[str, type[Mechanism]] = {mechanism.name: mechanism for mechanism in _ALL}
ADDITIVE = tuple(name for name, mechanism in MECHANISMS.items() if issubclass(mechanism, AdditiveNoise))

__all__ = ["ADDITIVE", "MECHANISMS", "Mechanism"]
