"""The errors of an evaluation as a DataFrame."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from forecast.comparison.rows import at
from forecast.evaluation.metrics import UNIT_FREE


def compared(metrics: Mapping[str, Any], split: str) -> pd.DataFrame:
    """A row for the model and for each baseline; NaN for what is not known."""
    model, baselines = metrics["model"], metrics["baselines"]
    rows = {model: metrics[split]} | {
        f"{name}_baseline" if name == model else name: baselines[name] for name in baselines
    }
    original = [f"{error}_original" for error in ("mse", "mae") if "original" in metrics[split]]
    of_panel = ["wape"] if "wape" in metrics[split] else []
    names = ("mse_scaled", "mae_scaled", *UNIT_FREE, *of_panel, *original)
    places = {name: tuple(reversed(name.split("_"))) for name in names}
    table: pd.DataFrame = pd.DataFrame(
        {name: [at(errors, place) for errors in rows.values()] for name, place in places.items()},
        index=list(rows),
        dtype=float,
    )
    return table
