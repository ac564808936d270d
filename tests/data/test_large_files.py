"""Large files, each read in a process of its own: time and memory go with the numbers in them, not with the text."""

import numpy as np
import pytest
from program import TINY, call


def write_large(path, rows, columns):
    """A minute a row; cell i of the file, counted row by row, is i / 8."""
    stamps = np.datetime_as_string(np.datetime64("2000-01-01T00:00") + np.arange(rows)).tolist()
    with path.open("w") as file:
        file.write(",".join(["date", *(f"c{i}" for i in range(columns))]) + "\n")
        for row, stamp in enumerate(stamps):
            cells = [repr(i / 8) for i in range(row * columns, (row + 1) * columns)]
            file.write(f"{stamp},{','.join(cells)}\n")


@pytest.mark.slow
def test_a_thousand_columns_are_trained_and_forecast(tmp_path):
    path, run = tmp_path / "wide.csv", tmp_path / "run"
    write_large(path, 300, 1_000)
    own = [change for change in TINY if not change.startswith("data")]
    few = ["data.target=null", "trainer.limit_train_batches=2", f"hydra.run.dir={run}"]
    call("train", *own, "data=csv", f"data.path={path}", *few)
    output = tmp_path / "forecast.csv"
    call("predict", f"ckpt_path={run}/checkpoints/best.ckpt", f"output={output}", f"hydra.run.dir={tmp_path}/predicted")
    header, *rows = output.read_text().splitlines()
    assert header == ",".join(["date", *(f"c{i}" for i in range(1_000))])
    assert [row.split(",")[0] for row in rows] == [f"2000-01-01T05:0{minute}" for minute in range(5)]  # as in the file
