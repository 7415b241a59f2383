"""The version of the package that runs."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("privstats")
except PackageNotFoundError:  # a checkout that was never installed
    VERSION = "0+unknown"
