"""What the tests of `forecast backtest` share."""

import json

import pandas as pd
from program import TINY, call

from forecast.data.sources import DemoSource
from forecast.data.split import ShareSplit

ROWS, SEQ_LEN, PRED_LEN, STEP = 700, 19, 5, 7
# a ridge has none of the attention's keys
RIDGE = [*(word for word in TINY if not word.startswith("model.")), "data.features=S", "model=ridge", "logger=none"]
RIDGE += ["checks.leakage=false"]
DLINEAR = ["model=dlinear" if word == "model=ridge" else word for word in RIDGE]
FOLDS = ["backtest.folds=3", "backtest.step=7", "level=[80]"]
CUTOFFS = [ROWS - PRED_LEN - 1 - STEP * back for back in (2, 1, 0)]  # the last known rows
# of a file in place of the made-up data
OF_A_FILE = [word for word in RIDGE if not word.startswith(("data=", "data.rows", "data.features"))] + ["data=csv"]


def series():
    """The target of the demo with its times."""
    frame = DemoSource(split=ShareSplit(), demo_seed=7, rows=ROWS).frame()
    return pd.Series(frame.values[:, frame.columns.index("OT")], frame.timestamps(0), name="OT")


def backtested(folder, *words):
    call("backtest", *words, f"hydra.run.dir={folder}")
    return pd.read_parquet(folder / "backtest.parquet"), json.loads((folder / "backtest.json").read_text())
