"""Made-up panels as Parquet files, and the command line that trains a small Informer on one."""

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import timing
from benchmarks.setting import Figures, Setting, Sizes, print_now
from forecast.errors import UserError

# Of the model that goes over panels; those of `Sizes` are of one long series.
SMALL: Figures = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_columns": 1, "n_known": 3, "batch": 256}
PIECE = 1_000_000  # rows that are made at a time
ROWS = 100  # of a series
LENGTHS = {"seq_len": 48, "label_len": 24, "pred_len": 12}  # a hundred rows hold windows of three splits


def sizes_of(setting: Setting, **lengths: int) -> Sizes:
    """The small model with these lengths; what the command line names wins."""
    return Sizes(**{**SMALL, **lengths, **setting.sizes})


def write_panel(setting: Setting, *, path: str, series: int, rows: int) -> Figures:
    """Writes `series` daily series of `rows` rows each in long format: a level, a week and noise of their own.

    To be called in a process of its own, whose memory is not measured.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    draw, at_once = np.random.default_rng(0), max(1, PIECE // rows)
    days = np.datetime64("2024-01-01", "D") + np.arange(rows)
    week = np.sin(2 * np.pi * np.arange(rows) / 7)
    schema = pa.schema([("unique_id", pa.int64()), ("ds", pa.timestamp("ns")), ("y", pa.float32())])
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, series, at_once):
            count = min(at_once, series - first)
            level, swing = 10 ** draw.uniform(0, 3, (count, 1)), draw.uniform(0.1, 0.5, (count, 1))
            values = level * (1 + swing * week + 0.1 * draw.normal(size=(count, rows)))
            columns = {
                "unique_id": np.repeat(np.arange(first, first + count), rows),
                "ds": np.tile(days, count).astype("datetime64[ns]"),
                "y": values.astype(np.float32).ravel(),
            }
            writer.write_table(pa.table(columns, schema=schema))
    return {"rows": series * rows}


def overrides(path: Path | str, sizes: Sizes, *more: str) -> list[str]:
    """The command line of train.py for a file of `write_panel`, without its picture of progress and its loggers."""
    return [
        "data=csv",
        f"data.path='{path}'",
        "data.id_column=unique_id",
        "data/split=last",
        "model=informer",
        *(f"{name}={getattr(sizes, name)}" for name in ("seq_len", "label_len", "pred_len")),
        *(
            f"model.{name}={getattr(sizes, name)}"
            for name in ("d_model", "n_heads", "d_ff", "encoder_layers", "decoder_layers", "dropout")
        ),
        f"attention.mechanism.factor={sizes.factor}",
        f"data.batch_size={sizes.batch}",
        "trainer.enable_progress_bar=false",
        "trainer.accelerator=cpu",
        "trainer.limit_val_batches=0",
        "logger=none",
        *more,
    ]


def apart(function: Any, setting: Setting, **arguments: Any) -> Figures:
    """In a process of its own; says what came of it. Raises UserError where it fails."""
    print_now(f"{function.__name__} ...")
    figures = timing.in_own_process(function, setting, **arguments)
    if "failed" in figures:
        raise UserError(f"panels: {function.__name__} has failed: {figures['failed']}")
    return figures
