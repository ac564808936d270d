"""neuralforecast's conformal intervals of a panel's last steps, written as a table.

Usage: python neuralforecast_intervals.py TASK, a JSON object, with a Python that has the package. A program of its own:
it imports nothing of ours, as both need not fit into one environment.
"""

import json
import sys
import warnings

import pandas as pd
import torch
from neuralforecast import NeuralForecast
from neuralforecast.models import MLP
from neuralforecast.utils import PredictionIntervals


def main() -> None:
    """Trains on a table in long format, forecasts the steps after each series and writes them with their intervals."""
    warnings.simplefilter("ignore")
    task = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    model = MLP(
        h=task["pred_len"],
        input_size=task["seq_len"],
        hidden_size=256,
        max_steps=task["steps"],
        scaler_type="standard",
        random_seed=1,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
    )
    program = NeuralForecast(models=[model], freq=1)
    program.fit(pd.read_parquet(task["table"]), prediction_intervals=PredictionIntervals())
    program.predict(level=task["levels"]).to_parquet(task["forecast"])


if __name__ == "__main__":
    main()
