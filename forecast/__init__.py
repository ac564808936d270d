"""Long-horizon time-series forecasting with the Informer."""

from importlib.metadata import version

__version__ = version("forecast")
