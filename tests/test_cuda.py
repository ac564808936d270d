"""On a GPU: the same forecasts as on a CPU, the same figures each time. Skipped where there is none."""

import json

import pytest
import torch
from models.small import FULL, PROB, informer
from models.test_informer import batch
from program import TINY, call

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")


@pytest.mark.parametrize("slot", [FULL, PROB], ids=["full", "prob"])
def test_a_forecast_on_the_gpu_is_that_of_the_cpu(slot):
    model = informer(slot).eval()
    expected = model(*batch())
    found = model.cuda()(*(part.cuda() for part in batch())).cpu()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_training_on_the_gpu_is_evaluated_alike_by_every_command_and_batch_size(tmp_path, precision):
    settings = [change for change in TINY if not change.startswith("trainer.accelerator")]
    call("train", *settings, "trainer=gpu", f"trainer.precision={precision}", f"hydra.run.dir={tmp_path}/run")
    trained = json.loads((tmp_path / "run/metrics.json").read_text())
    assert trained["cost"]["device"] == "cuda"
    for size in (7, 64):
        best = f"ckpt_path={tmp_path}/run/checkpoints/best.ckpt"
        call("evaluate", best, f"data.batch_size={size}", "device=cuda", f"hydra.run.dir={tmp_path}/{size}")
        assert json.loads((tmp_path / f"{size}/metrics.json").read_text())["test"] == trained["test"]
