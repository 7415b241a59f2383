"""The version of the installed package."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("privstats")
except PackageNotFoundError:  # the package runs from its sources without installation
    VERSION = "0+unknown"
