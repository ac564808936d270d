"""neuralforecast on a panel: seconds by stage and the peak of memory, as one line of JSON.

Usage: python neuralforecast_panel.py TASK, a JSON object, with a Python that has the package. A program of its own: it
imports nothing of ours, as both need not fit into one environment.
"""

import json
import re
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from neuralforecast import NeuralForecast
from neuralforecast.models import Informer
from pytorch_lightning.callbacks import Callback

MOMENTS: dict[str, float] = {}  # not of the callback: the package trains with a copy of it


class Stages(Callback):
    """Notes when the first step begins and the last one has ended."""

    def on_train_start(self, *_: Any) -> None:
        """Called by Lightning."""
        MOMENTS["begun"] = time.perf_counter()

    def on_train_end(self, *_: Any) -> None:
        """Called by Lightning."""
        MOMENTS["ended"] = time.perf_counter()


def main() -> None:
    """Reads the file, trains for the steps of the task and forecasts every series."""
    warnings.simplefilter("ignore")
    task = json.loads(sys.argv[1])
    torch.set_num_threads(task["threads"])
    start = time.perf_counter()
    table = pd.read_parquet(task["panel"])
    model = Informer(
        h=task["pred_len"],
        input_size=task["seq_len"],
        decoder_input_size_multiplier=(task["label_len"] - 0.5) / task["seq_len"],  # it rounds up
        hidden_size=task["d_model"],
        n_head=task["n_heads"],
        conv_hidden_size=task["d_ff"],
        encoder_layers=task["encoder_layers"],
        decoder_layers=task["decoder_layers"],
        factor=task["factor"],
        dropout=task["dropout"],
        activation="gelu",
        learning_rate=1e-4,
        max_steps=task["steps"],
        batch_size=task["batch"],  # series of a step, of which it draws as many windows
        windows_batch_size=task["batch"],
        inference_windows_batch_size=task["batch"],
        scaler_type="identity",  # the series are scaled, as ours
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        callbacks=[Stages()],
    )
    program = NeuralForecast(models=[model], freq="D", local_scaler_type="standard")
    program.fit(table)
    trained = time.perf_counter()
    forecast = program.predict()
    figures = {
        "prepare": MOMENTS["begun"] - start,
        "train": MOMENTS["ended"] - MOMENTS["begun"],
        "predict": time.perf_counter() - trained,
        "megabytes": peak(),
        "rows": len(forecast),
    }
    print(json.dumps(figures))


def peak() -> float:
    """10^6 bytes that this process has taken at most."""
    match = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return int(match[1]) * 1024 / 1e6 if match else float("nan")


if __name__ == "__main__":
    main()
