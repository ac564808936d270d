"""Long-horizon time-series forecasting with the Informer: `from forecast import Forecaster`."""

from importlib.metadata import version

from forecast.text.overrides import DISTRIBUTION

__all__ = ["Forecaster", "UserError", "__version__"]

__version__ = version(DISTRIBUTION)


def __getattr__(name: str) -> type:
    """What is imported when it is asked for: torch and pandas take seconds, which `--help` need not wait."""
    if name == "Forecaster":
        from forecast.apps.forecaster import Forecaster

        return Forecaster
    if name == "UserError":
        from forecast.errors import UserError

        return UserError
    raise AttributeError(f"module 'forecast' has no attribute {name!r}")
