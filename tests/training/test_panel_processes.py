"""Two processes train one model on a panel: each draws its share, and together they train as one."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from program import call
from training.test_processes import DDP, PLAIN, ROOT, checkpoint, largest_difference, launch

# one column of made-up panels, small windows; of each epoch some windows are drawn
MODEL = ["model=informer", "model.d_model=14", "model.n_heads=2", "model.d_ff=17", *PLAIN, "data.windows_per_epoch=233"]
WINDOW = ["seq_len=19", "label_len=7", "pred_len=5", "data/split=last", "data.split.val=4"]
STEPS = ["trainer.max_epochs=2", "trainer.enable_progress_bar=false", "callbacks.figures=null", "logger=none"]

pytestmark = pytest.mark.slow


def shops(path, missing):
    draws, parts = np.random.default_rng(0), []
    for shop, days in enumerate((140, 83, 101, 61, 97, 70)):
        values = 10.0**shop * (3 + np.sin(np.arange(days) * 2 * np.pi / 7) + 0.1 * draws.normal(size=days))
        times = pd.date_range(end="2025-06-10", periods=days)
        parts.append(pd.DataFrame({"unique_id": f"shop{shop}", "ds": times, "y": values.round(4)}))
    table = pd.concat(parts).reset_index(drop=True)
    # of the first shops only: the shares of two processes differ in how many of their cells were measured
    table.drop(draws.choice(np.arange(5, 210), missing, replace=False)).to_csv(path, index=False)


@pytest.mark.parametrize("sampling", ["windows", "series"])
@pytest.mark.parametrize("missing", [0, 60], ids=["whole", "gaps"])
def test_two_processes_train_on_a_panel_as_one_with_batches_twice_as_large(tmp_path, missing, sampling):
    """Each window of a draw once, none twice; the validation errors are those over all windows."""
    shops(tmp_path / "shops.csv", missing)
    data = ["data=csv", f"data.path={tmp_path}/shops.csv", "data.id_column=unique_id", f"data.sampling={sampling}"]
    words = [*MODEL, *data, "data.gaps=interpolate", *WINDOW, *STEPS]
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", ROOT / "train.py"]
    launch(tmp_path, *start, *words, *DDP, "data.batch_size=16", "hydra.run.dir=two")
    call("train", *words, "trainer.accelerator=cpu", "data.batch_size=32", f"hydra.run.dir={tmp_path / 'one'}")
    one, two = tmp_path / "one", tmp_path / "two"
    assert checkpoint(two)["global_step"] == checkpoint(one)["global_step"] == 2 * 8
    assert largest_difference(two, one) <= 2e-6
    best = [checkpoint(run, "best")["callbacks"]["CheckpointFiles"]["best_mse"] for run in (one, two)]
    assert best[1] == pytest.approx(best[0], abs=2e-6)
    ours, whole = (json.loads((run / "metrics.json").read_text()) for run in (two, one))
    for split in ("val", "test"):
        assert ours[split]["windows"] == whole[split]["windows"]
        assert ours[split]["scaled"] == pytest.approx(whole[split]["scaled"], abs=5e-6)
