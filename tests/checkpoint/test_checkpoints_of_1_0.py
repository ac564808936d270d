"""Checkpoints of 1.0 evaluate and forecast as they did then; tests/golden/checkpoints_1.0 says how they were made."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast import Forecaster

FOLDER = Path(__file__).parents[1] / "golden" / "checkpoints_1.0"


def write_tables(folder):
    """Writes the rows trained on, series.csv and panel.csv, and future.csv, the panel's days to be forecast."""
    hours = np.arange(400)
    noise = (hours[:, None] ** 2 * [7919, 6007, 4001] % 997) / 997  # drawn by no generator: NumPy may change those
    values = np.sin(hours * np.pi / 12)[:, None] * [1, 0.5, 2] + noise + [5, 0, 10]
    series = pd.DataFrame(values.round(3), columns=["load", "wind", "price"])
    series.insert(0, "date", pd.date_range("2024-01-01", periods=400, freq="h"))
    series.to_csv(folder / "series.csv", index=False)
    days = pd.date_range("2024-09-01", periods=128, freq="D")
    every = pd.DataFrame({"ds": days, "open": (days.day != 1).astype(int)})
    every["y"] = 10 + 4 * (days.day_of_week >= 5) + np.arange(128) ** 2 * 61 % 127 / 32
    panel, future = [], []
    for shop, start in enumerate([62, 32, 2], start=1):
        rows = every.assign(unique_id=f"shop{shop}", y=(every["y"] * shop).round(3))[start:]
        panel.append(rows[:-6])
        future.append(rows[-6:].drop(columns="y"))
    pd.concat(panel).to_csv(folder / "panel.csv", index=False)
    pd.concat(future).to_csv(folder / "future.csv", index=False)


@pytest.mark.parametrize("name", ["informer", "ridge", "panel"])
def test_a_checkpoint_of_1_0_gives_its_forecast_intervals_and_test_error(name, tmp_path):
    write_tables(tmp_path)
    panel = name == "panel"
    table, future = (tmp_path / "panel.csv", tmp_path / "future.csv") if panel else (tmp_path / "series.csv", None)
    forecaster = Forecaster.load(FOLDER / f"{name}.ckpt", device="cpu")
    forecast = forecaster.predict(table, future=future, level=[80]).select_dtypes("number")
    error = forecaster.evaluate(table, split="test")["mse_scaled"].iloc[0]
    with np.load(FOLDER / "recorded.npz") as recorded:
        np.testing.assert_allclose(forecast, recorded[f"{name}_forecast"], rtol=1e-6, atol=1e-6)
        assert error == pytest.approx(recorded[f"{name}_mse"], rel=1e-6)
