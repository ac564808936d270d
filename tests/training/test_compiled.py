"""compile=: where a step can be recorded or compiled, and for which batches."""

import pytest
import torch
from models.test_model_laws import inputs, small_model
from program import TINY, refusal

from forecast.training.compiled import FasterOutputs


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "this one runs on a CPU"),
        (["trainer.accumulate_grad_batches=3"], "trainer.accumulate_grad_batches=3 adds gradients of several"),
        (["trainer.strategy=ddp_spawn", "trainer.devices=2"], "this one runs in 2 processes"),
    ],
)
def test_a_step_that_cannot_be_recorded_is_refused(tmp_path, capsys, words, why):
    text = refusal(capsys, "train", *TINY, *words, "compile=graphs", f"hydra.run.dir={tmp_path}/run")
    assert f"compile=graphs: a training step is recorded on one GPU, and {why}. Leave compile= out." in text


def test_batches_of_the_largest_size_alone_are_compiled_and_a_smaller_one_runs_as_it_is(monkeypatch):
    model, compiled, sizes = small_model("nlinear").train(), [], []

    def compile_outputs(outputs, *, mode, dynamic):
        compiled.append((mode, dynamic))

        def fast(*batch):
            sizes.append(len(batch[0]))
            return outputs(*batch)

        return fast

    monkeypatch.setattr(torch, "compile", compile_outputs)
    faster = FasterOutputs(model, "default")
    for size in (3, 7, 7, 5, 7):  # a run that goes on begins with what is left of an epoch
        batch = inputs(model, seed=size, batch=size)
        for actual, expected in zip(faster(*batch), model.training_outputs(*batch), strict=True):
            assert torch.equal(actual, expected)
    assert sizes == [3, 7, 7, 7] and compiled == [("default", False)] * 2
