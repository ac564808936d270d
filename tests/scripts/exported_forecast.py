"""Forecasts with an exported folder alone: python exported_forecast.py OUT history.csv > forecast.csv"""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch

folder, history = sys.argv[1:]
about = json.loads(Path(folder, "config.json").read_text())
layout, columns = about["data"], about["columns"]

table = pd.read_csv(history, sep=layout["separator"], decimal=layout["decimal"]).tail(about["seq_len"])
times = pd.DatetimeIndex(pd.to_datetime(table[layout["time_column"]]))
future = pd.date_range(times[-1], periods=about["pred_len"] + 1, freq=about["freq"])[1:]


def feature(rule, times):
    counted = times.isocalendar()["week"] if rule["attribute"] == "week" else getattr(times, rule["attribute"])
    number = np.asarray(counted, dtype=float)
    if "last" in rule:
        return (number - rule["first"]) / (rule["last"] - rule["first"]) - 0.5
    return number // rule.get("every", 1)


mean, std = (np.array(about["scaler"][key]) for key in ("mean", "std"))
past = (table[columns].to_numpy() - mean) / std
known = np.stack([feature(rule, times.append(future)) for rule in about["known"]], axis=1)
inputs = [torch.tensor(part[None], dtype=torch.float32) for part in (past, known[: len(past)], known[len(past) :])]

program = torch.export.load(f"{folder}/model.pt2").module()  # can execute what the file holds: trust it first
with torch.inference_mode():
    output = program(*inputs)  # with a loss that says how sure, the forecast and about["spread"]
scaled = (output[0] if isinstance(output, tuple) else output)[0].double().numpy()

place = [columns.index(name) for name in about["targets"]]
forecast = pd.DataFrame(scaled * std[place] + mean[place], index=future, columns=about["targets"])
for name, floor in about.get("floor", {}).items():
    forecast[name] = forecast[name].clip(lower=floor)
print(forecast.to_csv(index_label=layout["time_column"]), end="")
