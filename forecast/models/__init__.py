"""Models: one architecture a file. All are called (past, past_known, future_known) -> forecast, in scaled units."""

__all__ = ["Informer"]


def __getattr__(name: str) -> type:
    if name == "Informer":  # imported when it is asked for: each model imports this package first
        from forecast.models.informer import Informer

        return Informer
    raise AttributeError(f"module 'forecast.models' has no attribute {name!r}")
