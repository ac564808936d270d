"""A panel ten times the memory that a process may take is converted, trained on, evaluated and forecast, and in parts.

What counts is memory of its own: pages of a mapped file go back whenever others need them. First all is done with a
small panel, which imports and allocates what any needs; the large one may take a tenth of itself more.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc, where the limit is read"),
]
COLUMNS, ROWS, SERIES, SMALL, LEAST = 16, 400, 8000, 100, 10  # LEAST: times the memory
TOGETHER = 100  # series that are written at once
ALL = """
import json, re, sys, threading
from pathlib import Path
from forecast.data.panel import columnar_rows, differences, rows
from forecast.evaluation import panel_baselines, panel_leakage, predict_panel
from program import call

folder = Path(sys.argv[1])
# What is held at a time does not grow with the panel; so much less of it lets a panel of a test be ten times as large.
columnar_rows.CELLS = differences.CELLS = 1 << 16
rows.BLOCK_CELLS = panel_baselines.FITTED_CELLS = panel_leakage.NOISY_CELLS = 1 << 16
predict_panel.GATHERED_BYTES = 1 << 20

def private():
    return int(re.search(r"RssAnon:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024

def watch():
    while not done.wait(0.003):
        most[0] = max(most[0], private())

done, most, peaks = threading.Event(), [0], {}
watching = threading.Thread(target=watch)
watching.start()

def run(name, model, *keys):
    home = folder / f"{name}-{model}"
    call("train", f"model={model}", "data=csv", f"data.path={folder}/{name}.parquet", "data.id_column=unique_id",
         "data/split=last", "seq_len=8", "label_len=0", "pred_len=4", f"data.cache={folder}/cache",
         "data.windows_per_epoch=500", "logger=none", "trainer.enable_progress_bar=false", "trainer.accelerator=cpu",
         "callbacks.figures=null", "checks.leakage=true", f"hydra.run.dir={home}", *keys)
    checkpoint = f"ckpt_path={home}/checkpoints/last.ckpt"
    call("evaluate", checkpoint, "device=cpu", f"hydra.run.dir={home}/evaluation")
    for shard in ("null", "1/2", "2/2"):
        output = f"{home}/{shard.replace('/', '-of-')}.parquet"
        call("predict", checkpoint, "device=cpu", f"shard={shard}", f"output={output}")
    call("merge", f"{home}/1-of-2.parquet", f"{home}/2-of-2.parquet", "--output", f"{home}/merged.parquet")

few = ["trainer.max_steps=3", "trainer.limit_val_batches=2", "data.batch_size=16"]
tiny = ["model.d_model=8", "model.n_heads=2", "model.d_ff=8", "model.encoder_layers=1"]
for name in ("small", "large"):
    most[0] = 0
    run(name, "informer_plus", *tiny, *few)  # which fits a ridge too
    peaks[name] = most[0]
done.set()
watching.join()
(folder / "peaks.json").write_text(json.dumps(peaks))
"""


def write(path, series):
    """Series of a week and noise of their own."""
    import pyarrow.parquet as pq

    draw, names = np.random.default_rng(series), [f"y{number}" for number in range(COLUMNS)]
    kinds = {"unique_id": pa.int32(), "ds": pa.timestamp("ns"), **dict.fromkeys(names, pa.float32())}
    days = (np.datetime64("2010-01-01", "D") + np.arange(ROWS)).astype("datetime64[ns]")
    week = np.sin(2 * np.pi * np.arange(ROWS) / 7).astype(np.float32)
    with pq.ParquetWriter(path, pa.schema(kinds.items()), compression="none", use_dictionary=["ds"]) as writer:
        for first in range(0, series, TOGETHER):
            ids = np.repeat(np.arange(first, first + TOGETHER, dtype=np.int32), ROWS)
            columns = {"unique_id": ids, "ds": np.tile(days, TOGETHER)}
            for name in names:
                columns[name] = np.tile(5 + week, TOGETHER) + draw.standard_normal(len(ids), dtype=np.float32)
            writer.write_table(pa.table(columns, schema=pa.schema(kinds.items())))


def test_a_panel_ten_times_the_memory_trains_is_evaluated_and_scored(tmp_path):
    import pandas as pd

    write(tmp_path / "small.parquet", SMALL)
    write(tmp_path / "large.parquet", SERIES)
    command = [sys.executable, "-c", ALL, str(tmp_path)]
    environment = {
        "PYTHONPATH": ":".join(sys.path),
        # mimalloc and arenas of threads reserve by the gigabyte what they never touch
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "MALLOC_ARENA_MAX": "1",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    peaks = json.loads((tmp_path / "peaks.json").read_text())
    (values,) = (path.stat().st_size for path in tmp_path.glob("cache/panel-*/values.f32") if path.stat().st_size > 1e8)
    assert values == 4 * SERIES * ROWS * COLUMNS
    assert peaks["large"] - peaks["small"] < values / LEAST, peaks
    home = tmp_path / "large-informer_plus"
    assert json.loads((home / "metrics.json").read_text())["data"]["series"]["count"] == SERIES
    assert (home / "merged.parquet").read_bytes() == (home / "null.parquet").read_bytes()
    counts = pd.read_parquet(home / "null.parquet", columns=["unique_id"])["unique_id"].value_counts()
    assert len(counts) == SERIES and set(counts) == {4}, "nothing lost, nothing twice"
