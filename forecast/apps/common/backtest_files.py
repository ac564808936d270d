"""The files of a backtest: a part for each training as it finishes, joined at the end."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from forecast.documents import read_arrays
from forecast.files import replacing, save_arrays
from forecast.run_folder import checkpoint_path

# In the folder of a backtest: its table, its figures, what it is of.
TABLE, DOCUMENT, OF = "backtest.parquet", "backtest.json", "backtest_of.json"
PARTS, SCALES = "parts", "scales.npz"
RUNS = "folds"  # of the trainings
TIMES = ["cutoff", "time"]
Fold = int | None  # None: one training for all folds


def part_path(folder: Path, number: int) -> Path:
    """Where the forecasts of a training are, those of fold `number` and perhaps of later ones."""
    return folder / PARTS / f"fold-{number:05d}.parquet"


def write_part(folder: Path, number: int, table: pd.DataFrame) -> None:
    """Writes a part, whole or not at all."""
    (folder / PARTS).mkdir(exist_ok=True)
    with replacing(part_path(folder, number)) as path:
        table.to_parquet(path, index=False, engine="pyarrow")


def read_part(path: Path) -> pd.DataFrame:
    """A part as it was written."""
    return pd.read_parquet(path, engine="pyarrow")


def join_parts(folder: Path, numbers: list[int]) -> Iterator[pd.DataFrame]:
    """Writes all parts below one another into TABLE, with memory for one of them, and yields each.

    A training whose validation windows were too few has fewer intervals than a later one: NaN in its rows.
    """
    with replacing(folder / TABLE) as path:
        widest = max((part_path(folder, number) for number in numbers), key=lambda part: len(pq.read_schema(part)))
        whole = pa.Table.from_pandas(read_part(widest), preserve_index=False)
        with pq.ParquetWriter(path, whole.schema) as writer:
            for number in numbers:
                part = read_part(part_path(folder, number)).reindex(columns=whole.column_names)
                writer.write_table(pa.Table.from_pandas(part, schema=whole.schema, preserve_index=False))
                yield part


def save_scales(folder: Path, scales: Mapping[str, np.ndarray]) -> None:
    """Keeps by what errors are scaled."""
    (folder / PARTS).mkdir(exist_ok=True)
    with replacing(folder / PARTS / SCALES) as path:
        save_arrays(path, dict(scales))


def saved_scales(folder: Path) -> pd.DataFrame:
    """What `save_scales` has kept."""
    table: pd.DataFrame = pd.DataFrame(read_arrays(folder / PARTS / SCALES, ["target", "std", "naive"]))
    return table


def run_of_fold(folder: Path, fold: Fold) -> Path:
    """The run folder of a fold's training."""
    return folder / RUNS / f"fold-{'all' if fold is None else fold}"


def best_of(folder: Path, fold: Fold) -> Path:
    """The checkpoint that a fold's training chose."""
    best, last = (checkpoint_path(run_of_fold(folder, fold).absolute(), name) for name in ("best", "last"))
    return best if best.exists() else last
